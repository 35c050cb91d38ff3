//! Arguments as a cpu kernel's entry takes them: 8-byte slots in the order of the parameters.
//! Memory is its address followed by its length (not ranked) or its dynamic sizes (ranked); a
//! scalar is its bits, zero-extended.

use crate::Arg;
use crate::arg::{Memory, Value};
use crate::plan::{Check, Dims, Plan, dimensions};
use std::cell::Cell;
use std::mem::MaybeUninit;

/// As many slots as are kept on the stack; more go to memory that the thread keeps.
const INLINE: usize = 64;

thread_local! {
    static SPILLED: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// Calls `then` with the slots of `args`, which have passed the plan's check.
#[inline]
pub(super) fn with<R>(plan: &Plan, args: &[Arg<'_>], then: impl FnOnce(&[u64]) -> R) -> R {
    let mut inline = Inline::new();
    if pack(plan, args, |slot| inline.push(slot)) {
        return then(inline.as_slice());
    }
    // A thread that is ending has no storage left: it allocates for once.
    let mut spilled = SPILLED.try_with(Cell::take).unwrap_or_default();
    spilled.clear();
    pack(plan, args, |slot| {
        spilled.push(slot);
        true
    });
    let result = then(&spilled);
    // Not kept if the storage is gone.
    SPILLED.try_with(|cell| cell.set(spilled)).ok();
    result
}

/// Gives each slot to `push`, until that refuses one; whether it took all.
#[inline]
fn pack(plan: &Plan, args: &[Arg<'_>], mut push: impl FnMut(u64) -> bool) -> bool {
    for ((parameter, check), arg) in plan.parameters().zip(args) {
        let fits = match arg.value() {
            Value::Scalar { bits, .. } => push(*bits),
            Value::Memory(memory) => {
                push(memory.address.expose_provenance() as u64)
                    && match check {
                        Check::Memory { dims, .. } => {
                            let sizes = Sizes {
                                dims: *dims,
                                memory,
                                shape: arg.shape(),
                            };
                            sizes.pack(|| dimensions(parameter).unwrap_or_default(), &mut push)
                        }
                        Check::Scalar(_) => true,
                    }
            }
        };
        if !fits {
            return false;
        }
    }
    true
}

/// What tells the sizes of one argument.
struct Sizes<'a> {
    dims: Dims,
    memory: &'a Memory,
    shape: Option<&'a [usize]>,
}

impl<'a> Sizes<'a> {
    #[inline]
    fn pack(
        &self,
        dimensions: impl FnOnce() -> &'a [Option<u64>],
        push: &mut impl FnMut(u64) -> bool,
    ) -> bool {
        let len = self.memory.len as u64;
        match (self.dims, self.shape) {
            (Dims::Static { .. } | Dims::Unsized, _) => true,
            (Dims::Free, _) => push(len),
            (Dims::Inferred { multiple }, None) => push(len.checked_div(multiple).unwrap_or(0)),
            (Dims::Inferred { .. } | Dims::Given { .. }, shape) => {
                let sizes = shape.unwrap_or_default().iter();
                let mut dynamic = dimensions()
                    .iter()
                    .zip(sizes)
                    .filter(|(dim, _)| dim.is_none());
                dynamic.all(|(_, size)| push(*size as u64))
            }
        }
    }
}

/// A few slots on the stack, of which the unused ones cost nothing.
struct Inline {
    slots: [MaybeUninit<u64>; INLINE],
    len: usize,
}

impl Inline {
    #[inline]
    fn new() -> Self {
        Self {
            slots: [const { MaybeUninit::uninit() }; INLINE],
            len: 0,
        }
    }

    /// Whether there was room.
    #[inline]
    fn push(&mut self, slot: u64) -> bool {
        match self.slots.get_mut(self.len) {
            Some(place) => {
                place.write(slot);
                self.len += 1;
                true
            }
            None => false,
        }
    }

    #[inline]
    fn as_slice(&self) -> &[u64] {
        // SAFETY: `push` initialised the first `len` slots, and `len` is at most their number.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr().cast(), self.len) }
    }
}
