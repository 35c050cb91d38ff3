//! Which arguments a body reads and writes, from its operations alone.
//!
//! Every operation is either one that is known here, or may do anything to the values it names
//! and to those named in its regions. Values that may share memory are one class, whichever way
//! and in whichever scope they were derived, so a name that stands for two things in two scopes
//! only ever widens the result. Work is linear in the tokens, and nesting takes no call stack.

use std::collections::HashMap;

use npu_runtime::signature::Direction;

use super::aie::{self, Flow, Flows};
use super::header::Generic;
use super::lexer::{Kind, Tokens};
use super::overwrite;

/// A memory argument of the body.
pub(super) struct Memory<'s> {
    /// Without `%`.
    pub(super) name: &'s str,
    /// Whether writing every element in its shape writes all of its memory.
    pub(super) dense: bool,
}

/// What surrounds a body.
pub(super) struct Context<'c, 's> {
    pub(super) tokens: &'c Tokens<'s>,
    /// The first token of each attribute alias's value.
    pub(super) aliases: &'c HashMap<&'s str, usize>,
    /// For a runtime sequence, its device's flows.
    pub(super) flows: Option<&'c Flows>,
}

/// Infers the direction of each memory argument of a body.
pub(super) fn directions(
    context: &Context<'_, '_>,
    body: (usize, usize),
    memory: &[Memory<'_>],
) -> Vec<Direction> {
    let mut walk = Walk {
        context,
        at: body.0,
        end: body.1,
        frames: Vec::new(),
        rest: Rest::Touch,
        entry_block: true,
        ids: HashMap::new(),
        parents: Vec::new(),
        log: Vec::new(),
        anything: false,
        buffers_of_tensors: false,
    };
    let ids: Vec<_> = memory.iter().map(|it| walk.id(it.name)).collect();
    walk.run();
    walk.conclude(&ids, memory)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Read,
    /// A read whose tensor may still be the memory itself.
    Tensor,
    Write,
    /// A write of every element, before anything else in the body can have run.
    Overwrite,
    Both,
}

/// What to make of the values in an operation that has begun: after a region, the rest of the
/// operation that the region belongs to comes.
#[derive(Clone, Copy)]
enum Rest {
    /// They may be read and written.
    Touch,
    /// They are dealt with.
    Skip,
    /// As `Touch`, in a DMA task with this flow.
    Task(Flow),
}

struct Walk<'c, 's> {
    context: &'c Context<'c, 's>,
    at: usize,
    end: usize,
    /// The operations around `at`, outermost first.
    frames: Vec<Rest>,
    rest: Rest,
    entry_block: bool,
    ids: HashMap<&'s str, u32>,
    /// Union-find over the ids: values that may share memory.
    parents: Vec<u32>,
    log: Vec<(u32, Effect)>,
    /// Whether some operation may reach arguments without naming them.
    anything: bool,
    /// Whether tensors are turned back into memory.
    buffers_of_tensors: bool,
}

impl<'s> Walk<'_, 's> {
    fn tokens(&self) -> &Tokens<'s> {
        self.context.tokens
    }

    fn id(&mut self, name: &'s str) -> u32 {
        let next = u32::try_from(self.parents.len()).unwrap_or(u32::MAX);
        let id = *self.ids.entry(name).or_insert(next);
        if id == next {
            self.parents.push(next);
        }
        id
    }

    fn root(&mut self, mut id: u32) -> u32 {
        while let Some(&parent) = self.parents.get(id as usize) {
            if parent == id {
                break;
            }
            // Halve the path on the way.
            let grand = self.parents.get(parent as usize).copied().unwrap_or(parent);
            if let Some(slot) = self.parents.get_mut(id as usize) {
                *slot = grand;
            }
            id = grand;
        }
        id
    }

    /// The value at a token shares its memory with the value at another.
    fn alias(&mut self, a: usize, b: usize) {
        let (a, b) = (self.tokens().value_name(a), self.tokens().value_name(b));
        let (a, b) = (self.id(a), self.id(b));
        let (a, b) = (self.root(a), self.root(b));
        if let Some(slot) = self.parents.get_mut(a.max(b) as usize) {
            *slot = a.min(b);
        }
    }

    fn effect(&mut self, value: usize, effect: Effect) {
        let name = self.tokens().value_name(value);
        let id = self.id(name);
        self.log.push((id, effect));
    }

    /// Every value among the tokens may be read and written.
    fn touch(&mut self, from: usize, to: usize) {
        for at in from..to {
            if self.tokens().kind(at) == Kind::Value {
                self.effect(at, Effect::Both);
            }
        }
    }

    fn run(&mut self) {
        while self.at < self.end {
            if self.tokens().is(self.at, b'}') {
                self.rest = self.frames.pop().unwrap_or(Rest::Touch);
                self.at += 1;
                self.continue_operation();
            } else {
                self.operation();
            }
        }
    }

    /// Goes on in an operation, up to its next region or the next operation.
    fn continue_operation(&mut self) {
        while self.at < self.end && !self.is_start(self.at) {
            match self.tokens().kind(self.at) {
                Kind::Punct(b'}') => return,
                Kind::Punct(b'{') if self.is_dictionary(self.at) => {
                    let end = self.tokens().close(self.at);
                    self.touch(self.at, end);
                    self.at = end;
                }
                Kind::Punct(b'{') => {
                    self.frames.push(self.rest);
                    self.at += 1;
                    return;
                }
                Kind::Value if !matches!(self.rest, Rest::Skip) => {
                    self.effect(self.at, Effect::Both);
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Whether the braces at `open` hold attributes and not operations.
    fn is_dictionary(&self, open: usize) -> bool {
        let tokens = self.tokens();
        let key = open + 1;
        match (tokens.kind(key), tokens.kind(key + 1)) {
            (Kind::Punct(b'}'), _) => true,
            (Kind::Word | Kind::Text, Kind::Punct(b'=' | b',')) => true,
            (Kind::Word, Kind::Punct(b'}')) => !is_operation_name(tokens.text(key)),
            _ => false,
        }
    }

    /// Whether an operation or block starts at a token that may also belong to the one before.
    fn is_start(&self, at: usize) -> bool {
        let tokens = self.tokens();
        if !tokens.get(at).first {
            return false;
        }
        let starts = match tokens.kind(at) {
            Kind::Block => true,
            Kind::Value => self.after_results(at) > at,
            Kind::Text => tokens.is(at + 1, b'('),
            Kind::Word => is_operation_name(tokens.text(at)),
            _ => false,
        };
        let continues = matches!(
            tokens.kind(at.wrapping_sub(1)),
            Kind::Punct(b',' | b'=' | b'(' | b'[' | b'<' | b':' | b'+' | b'-' | b'*')
                | Kind::Arrow
                | Kind::Relation
        );
        starts && !continues
    }

    /// The token after `%a, %b:2 =`, or `at` if there is no such thing.
    fn after_results(&self, at: usize) -> usize {
        let tokens = self.tokens();
        let mut next = at;
        while tokens.kind(next) == Kind::Value {
            next += 1;
            if tokens.is(next, b':') && tokens.kind(next + 1) == Kind::Number {
                next += 2;
            }
            if tokens.is(next, b'=') {
                return next + 1;
            }
            if !tokens.is(next, b',') {
                break;
            }
            next += 1;
        }
        at
    }

    /// The token after the operation that holds `at`, its regions included.
    fn operation_end(&self, at: usize) -> usize {
        let mut at = self.tokens().after(at);
        while at < self.end && !self.is_start(at) {
            if matches!(self.tokens().kind(at), Kind::Punct(b'}' | b')' | b']')) {
                break;
            }
            at = self.tokens().after(at);
        }
        at.min(self.end)
    }

    /// Reads what starts at `at`.
    fn operation(&mut self) {
        let tokens = self.context.tokens;
        if tokens.kind(self.at) == Kind::Block {
            self.entry_block = self.entry_block && !self.frames.is_empty();
            self.at += 1;
            if tokens.is(self.at, b'(') {
                self.at = tokens.after(self.at);
            }
            self.at += usize::from(tokens.is(self.at, b':'));
            return;
        }
        let result = self.at;
        let name_at = self.after_results(result);
        let has_result = name_at > result;
        let Some((name, generic)) = aie::operation(tokens, name_at) else {
            // No operation: whatever it is, it may do anything to the value.
            self.touch(self.at, name_at.max(self.at + 1));
            self.at = name_at;
            if name_at == result {
                self.rest = Rest::Touch;
                if tokens.is(self.at, b'{') {
                    self.frames.push(Rest::Touch);
                }
                self.at += 1;
            }
            return;
        };
        self.at = name_at;
        let known = match name.split_once('.') {
            Some(("memref" | "vector" | "affine" | "bufferization", _)) => {
                self.access(name, generic, has_result.then_some(result))
            }
            Some(("linalg", _)) => self.linalg(name, generic),
            Some(("scf", region)) => self.region(is_scf_region(region)),
            Some(("aie" | "aiex" | "AIE" | "AIEX", rest)) => self.transfer(rest, generic),
            _ => false,
        } || self.region(matches!(
            name,
            "affine.for" | "affine.if" | "affine.parallel" | "memref.alloca_scope"
        ));
        if !known {
            self.unknown(name);
        }
    }

    /// An operation with regions whose own effect is that of the operations in them.
    fn region(&mut self, is_one: bool) -> bool {
        if is_one {
            self.rest = Rest::Touch;
            self.at += 1;
            self.continue_operation();
        }
        is_one
    }

    fn unknown(&mut self, name: &str) {
        let end = self.operation_end(self.at);
        self.touch(self.at, end);
        self.at = end;
        self.buffers_of_tensors |=
            matches!(name, "bufferization.to_buffer" | "bufferization.to_memref");
        // In a sequence, arguments are also reached by number.
        self.anything |= self.context.flows.is_some() && !names_its_arguments(name);
    }

    /// Loads, stores, copies and views; false if the operation is not one of them.
    fn access(&mut self, name: &str, generic: bool, result: Option<usize>) -> bool {
        let tokens = self.context.tokens;
        let Some(access) = Access::of(name) else {
            return false;
        };
        // In both forms the operands that matter come first, and words may stand between them.
        let first = self.at + 1 + usize::from(generic);
        if tokens.kind(first) != Kind::Value {
            return false;
        }
        let mut next = first + 1;
        let mut writable = false;
        let second = if access.has_two_operands() {
            while tokens.kind(next) == Kind::Word {
                next += 1;
            }
            next += usize::from(tokens.is(next, b','));
            while tokens.kind(next) == Kind::Word {
                next += 1;
            }
            if tokens.kind(next) != Kind::Value {
                return false;
            }
            next += 1;
            Some(next - 1)
        } else {
            None
        };
        let end = self.operation_end(self.at);
        if access == Access::ToTensor {
            writable = (next..end).any(|i| tokens.text(i).trim_matches('"') == "writable");
        }
        match (access, second, result) {
            (Access::View, _, Some(result)) => self.alias(result, first),
            (Access::View, _, None) => return false,
            (Access::Load, ..) => self.effect(first, Effect::Read),
            (Access::ToTensor, ..) if !writable => self.effect(first, Effect::Tensor),
            (Access::ToTensor, ..) => self.effect(first, Effect::Both),
            (Access::Size, ..) => {}
            (Access::Align, ..) => {
                if let Some(result) = result {
                    self.alias(result, first);
                }
            }
            (Access::Store, Some(second), _) => {
                self.effect(first, Effect::Both);
                self.effect(second, Effect::Write);
            }
            (Access::Copy, Some(second), _) => {
                self.effect(first, Effect::Read);
                let effect = self.whole(true);
                self.effect(second, effect);
            }
            (Access::Store | Access::Copy, None, _) => return false,
        }
        self.touch(next, end);
        self.at = end;
        true
    }

    /// A write, or an overwrite if all is written and nothing ran before.
    fn whole(&self, all: bool) -> Effect {
        if all && self.frames.is_empty() && self.entry_block && self.context.flows.is_none() {
            Effect::Overwrite
        } else {
            Effect::Write
        }
    }

    /// `linalg.name … ins(%a, … : …) outs(%b, … : …) …`.
    fn linalg(&mut self, name: &str, generic: bool) -> bool {
        let tokens = self.context.tokens;
        if matches!(name, "linalg.yield" | "linalg.index") {
            return false;
        }
        let end = self.operation_end(self.at);
        let operands = if generic {
            overwrite::generic_operands(tokens, (self.at, end))
        } else {
            overwrite::custom_operands(tokens, (self.at + 1, end))
        };
        let Some((inputs, outputs)) = operands else {
            return false;
        };
        for input in inputs {
            self.effect(input, Effect::Read);
        }
        let all = outputs.len() == 1
            && self.whole(true) == Effect::Overwrite
            && overwrite::writes_all(self.context, name, (self.at, end));
        for output in outputs {
            let effect = self.whole(all);
            self.effect(output, effect);
        }
        self.rest = Rest::Skip;
        self.at += 1;
        self.continue_operation();
        true
    }

    /// Operations that move data between arguments and the array.
    fn transfer(&mut self, name: &str, generic: bool) -> bool {
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
                let flow = if generic || !tokens.is(open, b'(') {
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

    /// The first value in the parentheses is what is moved; the rest are numbers.
    fn moves(&mut self, flow: Flow, end: usize) {
        let tokens = self.context.tokens;
        let effect = match flow {
            Flow::FromHost => Effect::Read,
            Flow::ToHost => Effect::Write,
            Flow::Unknown => Effect::Both,
        };
        let mut from = self.at;
        if let Some(value) = (from..end).find(|i| tokens.kind(*i) == Kind::Value) {
            self.effect(value, effect);
            from = value + 1;
        }
        self.touch(from, end);
        self.at = end;
    }

    fn conclude(mut self, ids: &[u32], memory: &[Memory<'_>]) -> Vec<Direction> {
        let mut classes: HashMap<u32, Class> = HashMap::new();
        for id in ids {
            let root = self.root(*id);
            classes.entry(root).or_default().arguments += 1;
        }
        for (id, effect) in std::mem::take(&mut self.log) {
            let root = self.root(id);
            if let Some(class) = classes.get_mut(&root) {
                class.add(id, effect, self.buffers_of_tensors);
            }
        }
        let direction = |(id, memory): (&u32, &Memory<'_>)| {
            let root = self.root(*id);
            let class = classes.get(&root).copied().unwrap_or_default();
            if self.anything {
                Direction::InOut
            } else if !class.written {
                Direction::In
            } else if memory.dense && class.arguments == 1 && class.overwritten == Some(*id) {
                Direction::Out
            } else {
                Direction::InOut
            }
        };
        ids.iter().zip(memory).map(direction).collect()
    }
}

/// What is known of values that may share memory.
#[derive(Clone, Copy, Default)]
struct Class {
    /// How many arguments are among them.
    arguments: usize,
    /// Whether anything happened to them.
    used: bool,
    written: bool,
    /// The value that was overwritten as a whole before anything else happened.
    overwritten: Option<u32>,
}

impl Class {
    fn add(&mut self, id: u32, effect: Effect, buffers_of_tensors: bool) {
        if effect == Effect::Overwrite && !self.used {
            self.overwritten = Some(id);
        }
        self.used = true;
        self.written |= match effect {
            Effect::Read => false,
            Effect::Tensor => buffers_of_tensors,
            Effect::Write | Effect::Overwrite | Effect::Both => true,
        };
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// The result is the first operand's memory.
    View,
    /// Reads the first operand.
    Load,
    /// Stores the first operand, a value, in the second.
    Store,
    /// Copies all of the first operand into all of the second.
    Copy,
    ToTensor,
    /// Asks for a shape.
    Size,
    /// As `View`, with a result only in newer releases.
    Align,
}

impl Access {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "memref.cast"
            | "memref.reinterpret_cast"
            | "memref.subview"
            | "memref.expand_shape"
            | "memref.collapse_shape"
            | "memref.memory_space_cast"
            | "memref.transpose" => Self::View,
            "memref.load"
            | "affine.load"
            | "affine.vector_load"
            | "vector.load"
            | "vector.transfer_read" => Self::Load,
            "memref.store"
            | "affine.store"
            | "affine.vector_store"
            | "vector.store"
            | "vector.transfer_write" => Self::Store,
            "memref.copy" | "bufferization.materialize_in_destination" => Self::Copy,
            "bufferization.to_tensor" => Self::ToTensor,
            "memref.dim" | "memref.rank" => Self::Size,
            "memref.assume_alignment" => Self::Align,
            _ => return None,
        })
    }

    const fn has_two_operands(self) -> bool {
        matches!(self, Self::Store | Self::Copy)
    }
}

/// A dotted name, or one that is printed without the `func.` of its function.
fn is_operation_name(word: &str) -> bool {
    word.contains('.') || matches!(word, "return" | "call" | "call_indirect" | "constant")
}

fn is_scf_region(name: &str) -> bool {
    matches!(
        name,
        "for" | "if" | "while" | "parallel" | "forall" | "execute_region" | "index_switch"
    )
}

/// Operations of runtime sequences that reach no argument but those they name.
fn names_its_arguments(name: &str) -> bool {
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

#[cfg(test)]
mod tests;
