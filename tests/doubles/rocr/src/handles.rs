//! Handles that are never taken for others: each names its kind, its slot, and which of the things
//! that lived in that slot it is. A stale or foreign handle is not found, whatever its number.

/// What a handle is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// An agent.
    Agent = 0xa1,
    /// A memory pool.
    Pool,
    /// A signal; doorbells are signals.
    Signal,
    /// Memory that can be mapped.
    Memory,
    /// A code object reader.
    Reader,
    /// An executable.
    Executable,
    /// A symbol of an executable.
    Symbol,
    /// A kernel object.
    Kernel,
}

/// The handle of slot `index` in its `generation`-th use.
pub const fn handle(kind: Kind, generation: u32, index: u32) -> u64 {
    (kind as u64) << 56 | (generation as u64 & 0xff_ffff) << 32 | index as u64
}

/// Generation and slot of a handle of that kind.
pub const fn parts(kind: Kind, handle: u64) -> Option<(u32, u32)> {
    if handle >> 56 == kind as u64 {
        Some(((handle >> 32) as u32 & 0xff_ffff, handle as u32))
    } else {
        None
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// All things of one kind.
#[derive(Debug)]
pub struct Table<T> {
    kind: Kind,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Table<T> {
    /// An empty table.
    pub const fn new(kind: Kind) -> Self {
        Self {
            kind,
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Adds a thing, and gives its handle.
    pub fn add(&mut self, value: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                value: None,
            });
            (self.slots.len() - 1) as u32
        });
        match self.slots.get_mut(index as usize) {
            Some(slot) => {
                slot.generation += 1;
                slot.value = Some(value);
                handle(self.kind, slot.generation, index)
            }
            None => 0,
        }
    }

    /// The thing of a handle.
    pub fn get(&self, handle: u64) -> Option<&T> {
        let (generation, index) = parts(self.kind, handle)?;
        let slot = self.slots.get(index as usize)?;
        slot.value
            .as_ref()
            .filter(|_| slot.generation & 0xff_ffff == generation)
    }

    /// The thing of a handle, to change it.
    pub fn get_mut(&mut self, handle: u64) -> Option<&mut T> {
        let (generation, index) = parts(self.kind, handle)?;
        let slot = self.slots.get_mut(index as usize)?;
        let current = slot.generation & 0xff_ffff == generation;
        slot.value.as_mut().filter(|_| current)
    }

    /// Takes a thing out; its handle is stale from now on.
    pub fn remove(&mut self, handle: u64) -> Option<T> {
        self.get(handle)?;
        let (_, index) = parts(self.kind, handle)?;
        let value = self.slots.get_mut(index as usize)?.value.take();
        self.free.push(index);
        value
    }

    /// All things.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref())
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.value.take().is_some() {
                self.free.push(index as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_is_never_the_next_things() {
        let mut table = Table::new(Kind::Reader);
        let first = table.add("first");
        assert_eq!(table.remove(first), Some("first"));
        assert_eq!(table.remove(first), None);
        let second = table.add("second");
        assert_ne!(first, second);
        assert_eq!(table.get(first), None);
        assert_eq!(table.get(second), Some(&"second"));
        assert_eq!(table.get(0), None);
    }

    #[test]
    fn a_handle_of_another_kind_is_not_found() {
        let (mut readers, mut symbols) = (Table::new(Kind::Reader), Table::new(Kind::Symbol));
        let reader = readers.add(());
        symbols.add(());
        assert_eq!(symbols.get(reader), None);
    }
}
