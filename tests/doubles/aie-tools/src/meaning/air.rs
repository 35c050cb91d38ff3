//! The part of the walk that understands DMAs, channels and the AIR hierarchy.

use std::rc::Rc;

use super::Expression;
use super::walk::{Value, Walk};
use crate::mlir::{Kind, Operation as Op};

impl<'m, 's> Walk<'m, 's> {
    pub(super) fn dma(&mut self, op: &Op<'m, 's>, operands: &[&'s str]) {
        // (%destination[…] […] […], %source[…] […] […]): the two that are no offset.
        let named = self.bracketless(op, operands);
        if let [destination, source] = named.as_slice() {
            let expression = self.expression(source);
            self.store(destination, expression);
        }
    }

    /// The values of the operand list that stand outside square brackets.
    fn bracketless(&self, op: &Op<'m, 's>, operands: &[&'s str]) -> Vec<&'s str> {
        let module = self.module;
        let mut found = Vec::new();
        let mut at = op.at + 1;
        while at < op.end {
            match module.text(at) {
                "[" | "{" => at = module.close(at),
                ":" => break,
                text if operands.contains(&text) && module.kind(at) == Kind::Value => {
                    found.push(text)
                }
                _ => {}
            }
            at += 1;
        }
        let memory = |name: &&str| matches!(self.values.get(*name), Some(Value::Memory(..)));
        found.retain(memory);
        found
    }

    pub(super) fn channel(&mut self, op: &Op<'m, 's>, operands: &[&'s str]) {
        let Some(name) = op.symbol().map(str::to_owned) else {
            return;
        };
        let Some(memory) = self.bracketless(op, operands).first().copied() else {
            return;
        };
        if op.name.ends_with("put") {
            let expression = self.expression(memory);
            self.channels.insert(name, expression);
        } else {
            self.store(memory, Rc::new(Expression::Channel(name)));
        }
    }

    /// air.launch, air.segment, air.herd: binds `args(%inner=%outer, …)` and the grid.
    pub(super) fn hierarchy(&mut self, op: &Op<'m, 's>) {
        let module = self.module;
        let mut in_args = None;
        for at in op.inner() {
            match (module.text(at), module.text(at + 1)) {
                ("args", "(") => in_args = Some((at + 1, module.close(at + 1))),
                ("in", "(") if op.name == "air.launch" => {
                    let sizes =
                        (at + 2..module.close(at + 1)).filter(|i| module.text(i - 1) == "=");
                    self.grid = sizes
                        .filter_map(|i| self.constant(module.text(i)))
                        .collect();
                    let pairs: Vec<_> = (at + 2..module.close(at + 1))
                        .filter(|i| module.text(*i) == "=")
                        .map(|i| (module.text(i - 1), module.text(i + 1)))
                        .collect();
                    self.bind(&pairs);
                }
                _ => {}
            }
            if in_args.is_some() || module.text(at) == "{" {
                break;
            }
        }
        if let Some((from, to)) = in_args {
            let pairs: Vec<_> = (from + 1..to)
                .filter(|i| module.text(*i) == "=")
                .map(|i| (module.text(i - 1), module.text(i + 1)))
                .collect();
            self.bind(&pairs);
        }
        self.regions(op);
    }

    pub(super) fn bind(&mut self, pairs: &[(&'s str, &'s str)]) {
        for (inner, outer) in pairs {
            if let Some(value) = self.values.get(outer).cloned() {
                self.values.insert(inner, value);
            }
        }
    }
}
