//! Memory that host and device both have mapped, in blocks that are kept and given out again.
//! Making one takes system calls, and a handle may never be mapped twice, so a block stays mapped
//! until there is too much of what nobody uses.

use super::result::{Result, Rocr};
use super::sys;
use std::collections::VecDeque;
use std::ptr::NonNull;

/// The granule of the data pool.
pub(super) const PAGE: usize = 4096;

/// As many bytes may lie idle; more only if launches once needed more at a time.
const MOST_IDLE: usize = 128 << 20;

/// A mapped block. It is given back to its [`Blocks`], and freed by nobody else.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) start: NonNull<u8>,
    class: Class,
    memory: sys::Memory,
}

// SAFETY: a block is the only owner of its memory, which any thread may use.
unsafe impl Send for Block {}
// SAFETY: a shared block gives no access to its memory.
unsafe impl Sync for Block {}

/// What a block is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A user's buffer.
    Buffer,
    /// The copy of a slice, during a launch.
    Staging,
}

pub(super) struct Blocks {
    rocr: &'static Rocr,
    pool: sys::Pool,
    agents: [sys::Agent; 2],
    shelf: Shelf<Block>,
    /// Bytes that launches have at the moment, and the most they ever had.
    staged: (usize, usize),
    /// How many blocks were made so far.
    pub(super) made: u64,
}

impl Blocks {
    pub(super) fn new(rocr: &'static Rocr, pool: sys::Pool, agents: [sys::Agent; 2]) -> Self {
        Self {
            rocr,
            pool,
            agents,
            shelf: Shelf::new(),
            staged: (0, 0),
            made: 0,
        }
    }

    /// A block of at least `bytes`, with any content. `Ok(None)` if no address space has so much.
    pub(super) fn take(&mut self, bytes: usize, purpose: Purpose) -> Result<Option<Block>> {
        let Some(class) = Class::of(bytes) else {
            return Ok(None);
        };
        let block = match self.shelf.take(class) {
            Some(block) => block,
            None => self.make_with_room(class)?,
        };
        if purpose == Purpose::Staging {
            let now = self.staged.0 + class.size;
            self.staged = (now, now.max(self.staged.1));
        }
        Ok(Some(block))
    }

    pub(super) fn put(&mut self, block: Block, purpose: Purpose) {
        if purpose == Purpose::Staging {
            self.staged.0 = self.staged.0.saturating_sub(block.class.size);
        }
        self.shelf.put(block.class, block);
        self.shrink_to(MOST_IDLE.max(self.staged.1));
    }

    fn shrink_to(&mut self, bytes: usize) {
        while self.shelf.idle > bytes
            && let Some(block) = self.shelf.take_oldest()
        {
            self.free(block);
        }
    }

    /// If there is no memory, what is idle is given up for it.
    #[cold]
    fn make_with_room(&mut self, class: Class) -> Result<Block> {
        let block = match self.make(class) {
            Err(_) if self.shelf.idle > 0 => {
                self.shrink_to(0);
                self.make(class)?
            }
            made => made?,
        };
        self.shelf.expect_one_more(class);
        self.made += 1;
        Ok(block)
    }

    fn make(&self, class: Class) -> Result<Block> {
        let (rocr, size) = (self.rocr, class.size);
        let memory = rocr.memory_create(self.pool, size)?;
        let mapped = rocr.address_reserve(size).and_then(|start| {
            self.map(start, size, memory).inspect_err(|_| {
                // SAFETY: it was just reserved, and nothing is mapped there.
                unsafe { rocr.address_free(start, size).ok() };
            })
        });
        match mapped {
            Ok(start) => Ok(Block {
                start,
                class,
                memory,
            }),
            Err(failure) => {
                // SAFETY: it was just made, and is mapped nowhere.
                unsafe { rocr.memory_release(memory).ok() };
                Err(failure)
            }
        }
    }

    fn map(&self, start: *mut u8, size: usize, memory: sys::Memory) -> Result<NonNull<u8>> {
        let rocr = self.rocr;
        // SAFETY: the range was just reserved.
        unsafe { rocr.map(start, size, memory)? };
        // SAFETY: the range was just mapped.
        let granted = unsafe { rocr.set_access(start, size, sys::ACCESS_READ_WRITE, self.agents) };
        let non_null = granted.and_then(|()| {
            NonNull::new(start).ok_or(super::result::Failure {
                call: "hsa_amd_vmem_address_reserve_align",
                status: sys::INVALID_ALLOCATION,
            })
        });
        non_null.inspect_err(|_| {
            // SAFETY: nobody has been told of the mapping.
            unsafe { rocr.unmap(start, size).ok() };
        })
    }

    /// Failures have nobody to go to; each step is tried all the same.
    fn free(&self, block: Block) {
        let (start, size) = (block.start.as_ptr(), block.class.size);
        let rocr = self.rocr;
        // SAFETY: the block is not used any more, and these are the steps of `make` backwards.
        // Some ROCRs do not unmap what somebody still has a right to.
        unsafe {
            rocr.set_access(start, size, sys::ACCESS_NONE, self.agents)
                .ok();
            rocr.unmap(start, size).ok();
            rocr.address_free(start, size).ok();
            rocr.memory_release(block.memory).ok();
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        if !self.rocr.is_foreign() {
            self.shrink_to(0);
        }
    }
}

/// A size that blocks have: one to four pages, and then four sizes to each power of two, so that
/// at most a fifth of a block is beyond what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    index: usize,
    size: usize,
}

impl Class {
    fn of(bytes: usize) -> Option<Self> {
        let pages = bytes.div_ceil(PAGE).max(1);
        let (index, pages) = match pages {
            1..=4 => (pages - 1, pages),
            _ => {
                let shift = (pages - 1).ilog2() as usize - 2;
                let quarters = ((pages - 1) >> shift) + 1;
                (4 * shift + quarters - 1, quarters << shift)
            }
        };
        let size = pages.checked_mul(PAGE)?;
        // What no pointer can span is not asked for.
        isize::try_from(size).ok()?;
        Some(Self { index, size })
    }
}

/// What is idle, by size, each with the time at which it came.
struct Shelf<T> {
    classes: Vec<Shelved<T>>,
    /// Bytes that are idle.
    idle: usize,
    clock: u64,
}

struct Shelved<T> {
    size: usize,
    /// The oldest first.
    idle: VecDeque<(u64, T)>,
    /// How many there are, idle or not.
    expected: usize,
}

impl<T> Shelf<T> {
    fn new() -> Self {
        Self {
            classes: Vec::new(),
            idle: 0,
            clock: 0,
        }
    }

    /// The one that came last, which is the likeliest to be in the caches.
    fn take(&mut self, class: Class) -> Option<T> {
        let (_, item) = self.classes.get_mut(class.index)?.idle.pop_back()?;
        self.idle -= class.size;
        Some(item)
    }

    /// Allocates nothing for what [`Self::expect_one_more`] was told of.
    fn put(&mut self, class: Class, item: T) {
        let clock = self.clock;
        if let Some(shelved) = self.classes.get_mut(class.index) {
            shelved.idle.push_back((clock, item));
            self.clock += 1;
            self.idle += class.size;
        }
    }

    fn expect_one_more(&mut self, class: Class) {
        while self.classes.len() <= class.index {
            self.classes.push(Shelved {
                size: 0,
                idle: VecDeque::new(),
                expected: 0,
            });
        }
        if let Some(shelved) = self.classes.get_mut(class.index) {
            shelved.size = class.size;
            shelved.expected += 1;
            shelved.idle.reserve(shelved.expected);
        }
    }

    /// The one that has been idle for longest. It does not come back.
    fn take_oldest(&mut self) -> Option<T> {
        let age = |shelved: &&mut Shelved<T>| shelved.idle.front().map(|(clock, _)| *clock);
        let oldest = self
            .classes
            .iter_mut()
            .filter(|shelved| !shelved.idle.is_empty())
            .min_by_key(age)?;
        let (_, item) = oldest.idle.pop_front()?;
        oldest.expected -= 1;
        self.idle -= oldest.size;
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn classes_are_dense_and_waste_little() {
        let mut last = None;
        for pages in 1..=100_000_usize {
            let class = Class::of(pages * PAGE).unwrap();
            assert!(class.size >= pages * PAGE && class.size.is_multiple_of(PAGE));
            assert!(
                class.size - pages * PAGE < class.size.div_ceil(5),
                "{pages}"
            );
            let index = last.map_or(0, |last: Class| {
                last.index + usize::from(last.size < class.size)
            });
            assert_eq!(class.index, index, "{pages}");
            last = Some(class);
        }
    }

    #[test]
    fn every_size_has_a_class_up_to_what_can_be_addressed() {
        assert_eq!(Class::of(0), Class::of(1));
        assert_eq!(Class::of(1), Class::of(PAGE));
        assert_eq!(Class::of(PAGE + 1).unwrap().size, 2 * PAGE);
        assert!(Class::of(1 << 46).unwrap().index < 256);
        for bytes in [usize::MAX, isize::MAX as usize, (isize::MAX as usize) + 1] {
            assert_eq!(Class::of(bytes), None);
        }
    }

    fn class(pages: usize) -> Class {
        Class::of(pages * PAGE).unwrap()
    }

    #[test]
    fn the_last_that_came_goes_first_and_the_oldest_is_given_up_first() {
        let mut shelf = Shelf::new();
        for name in ["a", "b", "c", "d"] {
            let class = class(if name == "b" { 2 } else { 1 });
            shelf.expect_one_more(class);
            shelf.put(class, name);
        }
        assert_eq!(shelf.idle, 5 * PAGE);
        assert_eq!(shelf.take(class(1)), Some("d"));
        assert_eq!(shelf.take(class(3)), None);
        assert_eq!(shelf.take_oldest(), Some("a"));
        assert_eq!(shelf.take_oldest(), Some("b"));
        shelf.put(class(1), "d");
        assert_eq!(shelf.take_oldest(), Some("c"));
        assert_eq!(shelf.take_oldest(), Some("d"));
        assert_eq!((shelf.idle, shelf.take_oldest()), (0, None));
    }

    proptest! {
        /// Whatever happens, nothing is lost, and the sum is that of what is there.
        #[test]
        fn a_shelf_keeps_what_it_is_given(steps in proptest::collection::vec((0..3_u8, 1..40_usize), 0..200)) {
            let mut shelf = Shelf::new();
            let mut there: Vec<usize> = Vec::new();
            for (step, pages) in steps {
                match step {
                    0 => {
                        shelf.expect_one_more(class(pages));
                        shelf.put(class(pages), class(pages).size);
                        there.push(class(pages).size);
                    }
                    1 => if let Some(size) = shelf.take(class(pages)) {
                        prop_assert_eq!(size, class(pages).size);
                        let at = there.iter().rposition(|&other| other == size).unwrap();
                        there.remove(at);
                    } else {
                        prop_assert!(!there.contains(&class(pages).size));
                    },
                    _ => if let Some(size) = shelf.take_oldest() {
                        prop_assert_eq!(size, there.remove(0));
                    } else {
                        prop_assert!(there.is_empty());
                    },
                }
                prop_assert_eq!(shelf.idle, there.iter().sum::<usize>());
            }
        }
    }
}
