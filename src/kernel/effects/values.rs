//! The names of a body that may be its arguments' memory, and what happens to them.
//!
//! Names that may share memory are one class. Only arguments and views are here: no other name
//! can be an argument's memory without having passed through an operation that is not understood.

use std::collections::HashMap;

use npu_runtime::signature::Direction;

use super::Memory;

/// What an operation does to a value's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Read,
    /// A read whose tensor may still be the memory itself.
    Tensor,
    Write,
    /// A write of every element, before anything else in the body can have run.
    Overwrite,
    Both,
}

/// All names that matter, and a log of what happens to them, in the text's order.
#[derive(Default)]
pub(super) struct Values<'s> {
    ids: HashMap<&'s str, u32>,
    sieve: Sieve,
    /// Union-find over the ids.
    parents: Vec<u32>,
    log: Vec<(u32, Effect)>,
}

impl<'s> Values<'s> {
    /// Adds an argument or view.
    pub(super) fn add(&mut self, name: &'s str) -> u32 {
        let next = u32::try_from(self.parents.len()).unwrap_or(u32::MAX);
        let id = *self.ids.entry(name).or_insert(next);
        if id == next {
            self.parents.push(next);
            self.sieve.add(name);
        }
        id
    }

    /// Whether a name matters.
    pub(super) fn has(&self, name: &str) -> bool {
        self.id(name).is_some()
    }

    fn id(&self, name: &str) -> Option<u32> {
        if self.sieve.lets_through(name) {
            self.ids.get(name).copied()
        } else {
            None
        }
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

    /// Two names stand for the same memory, or for parts of it.
    pub(super) fn join(&mut self, a: &str, b: &str) {
        let (Some(a), Some(b)) = (self.id(a), self.id(b)) else {
            return;
        };
        let (a, b) = (self.root(a), self.root(b));
        if let Some(slot) = self.parents.get_mut(a.max(b) as usize) {
            *slot = a.min(b);
        }
    }

    /// Something happens to what a name stands for.
    pub(super) fn log(&mut self, name: &str, effect: Effect) {
        if let Some(id) = self.id(name) {
            self.log.push((id, effect));
        }
    }

    /// The direction of each argument, if tensors are or are not turned back into memory.
    pub(super) fn directions(
        mut self,
        memory: &[Memory<'_>],
        buffers_of_tensors: bool,
    ) -> Vec<Direction> {
        let ids: Vec<_> = memory.iter().filter_map(|it| self.id(it.name)).collect();
        let mut classes: HashMap<u32, Class> = HashMap::new();
        for id in &ids {
            let root = self.root(*id);
            classes.entry(root).or_default().arguments += 1;
        }
        for (id, effect) in std::mem::take(&mut self.log) {
            let root = self.root(id);
            if let Some(class) = classes.get_mut(&root) {
                class.add(id, effect, buffers_of_tensors);
            }
        }
        let direction = |(id, memory): (&u32, &Memory<'_>)| {
            let root = self.root(*id);
            let class = classes.get(&root).copied().unwrap_or_default();
            if !class.written {
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

/// Tells most names that are not in a set from those that are, faster than a hash can.
#[derive(Default)]
struct Sieve([u64; 4]);

impl Sieve {
    fn slot(name: &str) -> (usize, u64) {
        let last = match name.as_bytes() {
            [.., before, last] => u32::from(*before) * 7 + u32::from(*last),
            [last] => u32::from(*last),
            [] => 0,
        };
        let key = last + (name.len() as u32 & 31) * 41;
        ((key >> 6 & 3) as usize, 1 << (key & 63))
    }

    fn add(&mut self, name: &str) {
        let (word, bit) = Self::slot(name);
        self.0[word] |= bit;
    }

    fn lets_through(&self, name: &str) -> bool {
        let (word, bit) = Self::slot(name);
        self.0[word] & bit != 0
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
