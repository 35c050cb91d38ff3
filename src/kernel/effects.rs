//! Which arguments a body reads and writes, from its operations alone.
//!
//! Every operation is either one that is known here, or may do anything to the values it names
//! and to those named in its regions. Values that may share memory are one class, whichever way
//! and in whichever scope they were derived, so a name that stands for two things in two scopes
//! only ever widens the result. Work is linear in the tokens, and nesting takes no call stack.

use std::collections::HashMap;

use npu_runtime::signature::Direction;

use self::access::Access;
use self::values::{Effect, Values};
use super::aie::{self, Flow, Flows};
use super::overwrite;
use super::tokens::{Kind, Tokens};

mod access;
pub(super) mod bounds;
mod transfer;
mod values;

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
pub(super) fn directions<'s>(
    context: &Context<'_, 's>,
    body: (usize, usize),
    memory: &[Memory<'s>],
) -> Vec<Direction> {
    let mut walk = Walk::new(context, body);
    for argument in memory {
        walk.values.add(argument.name);
    }
    walk.add_views();
    walk.run();
    if walk.anything {
        return vec![Direction::InOut; memory.len()];
    }
    walk.values.directions(memory, walk.buffers_of_tensors)
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
    values: Values<'s>,
    /// Whether some operation may reach arguments without naming them.
    anything: bool,
    /// Whether tensors are turned back into memory.
    buffers_of_tensors: bool,
}

impl<'c, 's> Walk<'c, 's> {
    fn new(context: &'c Context<'c, 's>, (at, end): (usize, usize)) -> Self {
        Self {
            context,
            at,
            end,
            frames: Vec::new(),
            rest: Rest::Touch,
            entry_block: true,
            values: Values::default(),
            anything: false,
            buffers_of_tensors: false,
        }
    }

    fn tokens(&self) -> &Tokens<'s> {
        self.context.tokens
    }

    /// Adds the results of all views in the body, wherever they stand.
    fn add_views(&mut self) {
        let tokens = self.context.tokens;
        for at in self.at + 2..self.end {
            if !tokens.is(at - 1, b'=') || tokens.kind(at - 2) != Kind::Value {
                continue;
            }
            let access = aie::operation(tokens, at).and_then(|(name, _)| Access::of(name));
            if matches!(access, Some(Access::View | Access::Align)) {
                self.values.add(tokens.value_name(at - 2));
            }
        }
    }

    fn effect(&mut self, value: usize, effect: Effect) {
        self.values
            .log(self.context.tokens.value_name(value), effect);
    }

    /// The value at a token shares its memory with the value at another.
    fn alias(&mut self, a: usize, b: usize) {
        let tokens = self.context.tokens;
        self.values.join(tokens.value_name(a), tokens.value_name(b));
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
                // `%a:1 =` and `%a, %b =` are no results of what is known here.
                let plain = result + 2 == name_at;
                (plain || !has_result) && self.access(name, generic, has_result.then_some(result))
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
        self.anything |= self.context.flows.is_some() && !transfer::names_its_arguments(name);
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
            overwrite::custom_operands(tokens, (self.at, end))
        };
        let Some((inputs, outputs)) = operands else {
            return false;
        };
        for input in inputs {
            self.effect(input, Effect::Read);
        }
        let all = outputs.len() == 1
            && outputs
                .iter()
                .any(|it| self.values.has(tokens.value_name(*it)))
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

#[cfg(test)]
mod tests;
