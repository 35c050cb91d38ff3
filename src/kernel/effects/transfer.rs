//! Operations of runtime sequences: DMAs between the host's memory and the array.

use super::super::aie::{self, Flow};
use super::super::header::Generic;
use super::super::tokens::Kind;
use super::values::Effect;
use super::{Rest, Walk};

impl Walk<'_, '_> {
    /// Operations that move data between arguments and the array.
    pub(super) fn transfer(&mut self, name: &str, generic: bool) -> bool {
        let Some(flows) = self.context.flows else {
            return false;
        };
        let tokens = self.context.tokens;
        match name {
            "npu.dma_memcpy_nd" | "ipu.dma_memcpy_nd" => {
                let end = self.operation_end(self.at);
                let metadata = (self.at..end).find(|i| {
                    tokens.is(i + 1, b'=')
                        && tokens.kind(i + 2) == Kind::Symbol
                        && tokens.text(*i).trim_matches('"') == "metadata"
                });
                let flow = metadata.map_or(Flow::Unknown, |i| flows.of(tokens.text(i + 2)));
                self.moves(flow, end);
                true
            }
            "dma_bd" => {
                let task = self.frames.iter().rev().find_map(|frame| match frame {
                    Rest::Task(flow) => Some(*flow),
                    _ => None,
                });
                let end = self.operation_end(self.at);
                self.moves(task.unwrap_or(Flow::Unknown), end);
                true
            }
            "dma_configure_task_for" => {
                let symbol = if generic {
                    Generic::read(tokens, self.at).attribute(tokens, "alloc")
                } else {
                    Some(self.at + 1)
                };
                let flow = symbol.filter(|i| tokens.kind(*i) == Kind::Symbol);
                let flow = flow.map_or(Flow::Unknown, |i| flows.of(tokens.text(i)));
                self.task(flow)
            }
            "dma_configure_task" => {
                let open = self.at + 1;
                let flow = if generic {
                    aie::direction(tokens, &Generic::read(tokens, self.at), "direction")
                } else if !tokens.is(open, b'(') {
                    Flow::Unknown
                } else {
                    aie::channel(tokens, (open + 1, tokens.close(open)))
                };
                self.task(flow)
            }
            _ => false,
        }
    }

    fn task(&mut self, flow: Flow) -> bool {
        self.rest = Rest::Task(flow);
        self.at += 1;
        self.continue_operation();
        true
    }

    /// What is moved is memory, all else that an operation names are numbers, which the oldest
    /// form has before it.
    fn moves(&mut self, flow: Flow, end: usize) {
        let tokens = self.context.tokens;
        let effect = match flow {
            Flow::FromHost => Effect::Read,
            Flow::ToHost => Effect::Write,
            Flow::Unknown => Effect::Both,
        };
        let mut from = self.at;
        let is_memory =
            |i: &usize| tokens.kind(*i) == Kind::Value && self.values.has(tokens.value_name(*i));
        if let Some(value) = (from..end).find(is_memory) {
            self.effect(value, effect);
            from = value + 1;
        }
        self.touch(from, end);
        self.at = end;
    }
}

/// Operations of runtime sequences that reach no argument but those they name.
pub(super) fn names_its_arguments(name: &str) -> bool {
    match aie::without_dialect(name) {
        Some(rest) => matches!(
            rest,
            "dma_start_task"
                | "dma_await_task"
                | "dma_free_task"
                | "end"
                | "next_bd"
                | "npu.dma_wait"
                | "npu.sync"
                | "npu.load_pdi"
                | "npu.rtp_write"
                | "npu.write32"
                | "npu.maskwrite32"
                | "ipu.sync"
                | "ipu.dma_wait"
                | "ipu.rtp_write"
                | "ipu.write32"
        ),
        None => {
            let dialect = name.split_once('.').map(|(dialect, _)| dialect);
            matches!(
                dialect,
                Some("arith" | "scf" | "index" | "affine" | "memref")
            ) || matches!(name, "return" | "func.return")
        }
    }
}
