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
            (Dims::Static { .. }, _) => true,
            (Dims::Free { unit }, _) => push(len.checked_div(unit).unwrap_or(0)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bounds, Direction, ElementType, Grid, Parameter, Shape, Signature};
    use std::borrow::Cow;

    /// An element that takes two `u8`.
    const PAIR: ElementType = ElementType::Bytes { size: 2, align: 1 };

    fn plan(parameters: Vec<Parameter>) -> Plan {
        Plan::new(Signature {
            name: "test".into(),
            parameters: parameters.into(),
            grid: false,
            bounds: Bounds::Proven,
        })
    }

    fn memory(element: ElementType, shape: Shape, direction: Direction) -> Parameter {
        Parameter::memory("m", "memref", element, shape, direction)
    }

    fn ranked(dims: &[Option<u64>]) -> Shape {
        Shape::Ranked(Cow::Owned(dims.to_vec()))
    }

    /// What a kernel does with a slot.
    fn at<T>(slot: u64) -> *mut T {
        std::ptr::with_exposed_provenance_mut(usize::try_from(slot).unwrap())
    }

    fn packed(plan: &Plan, args: &[Arg<'_>]) -> Vec<u64> {
        plan.check(Grid::ONE, args).unwrap();
        with(plan, args, <[u64]>::to_vec)
    }

    #[test]
    fn memory_is_reached_through_its_slot_and_written_if_it_is_an_output() {
        let plan = plan(vec![
            memory(ElementType::I32, Shape::Unranked, Direction::In),
            memory(ElementType::I32, Shape::Unranked, Direction::InOut),
        ]);
        let input = [1, 2, 3];
        let mut output = vec![10, 20, 30];
        let args = [Arg::input::<i32>(&input), Arg::output::<i32>(&mut output)];
        plan.check(Grid::ONE, &args).unwrap();
        with(&plan, &args, |slots| {
            assert_eq!((slots[1], slots[3]), (3, 3));
            for i in 0..3 {
                // SAFETY: both have three elements, which `args` borrows, the second mutably.
                unsafe { *at::<i32>(slots[2]).add(i) += *at::<i32>(slots[0]).add(i) };
            }
        });
        assert_eq!(output, [11, 22, 33]);
    }

    #[test]
    fn dynamic_sizes_follow_the_address_outermost_first() {
        let dims = [None, Some(2), None];
        let plan = plan(vec![
            memory(ElementType::F32, ranked(&dims), Direction::In),
            memory(ElementType::F32, ranked(&[Some(3), None]), Direction::In),
            memory(ElementType::F32, ranked(&[Some(0), None]), Direction::In),
            memory(ElementType::F32, ranked(&[]), Direction::In),
            memory(PAIR, ranked(&[Some(4), None]), Direction::In),
            memory(PAIR, ranked(&[Some(4)]), Direction::In),
            memory(PAIR, Shape::Unranked, Direction::In),
        ]);
        let (values, bytes) = ([0.0_f32; 24], [0_u8; 24]);
        let args = [
            Arg::input(&values).with_shape(&[3, 2, 4]),
            Arg::input(&values),
            Arg::input(&values[..0]),
            Arg::input(&values[..1]),
            Arg::input(&bytes),
            Arg::input(&bytes[..8]),
            Arg::input(&bytes[..6]),
        ];
        let slots = packed(&plan, &args);
        assert_eq!(slots.len(), plan.slots());
        assert_eq!([slots[1], slots[2], slots[4], slots[6]], [3, 4, 8, 0]);
        let address = |bytes: *const u8| bytes.addr() as u64;
        assert_eq!(slots[7], address(values.as_ptr().cast()));
        assert_eq!(
            slots[8..],
            [
                address(bytes.as_ptr()),
                3,
                address(bytes.as_ptr()),
                address(bytes.as_ptr()),
                3
            ]
        );
    }

    #[test]
    fn scalars_are_their_bits_zero_extended() {
        let types = [
            ElementType::I1,
            ElementType::I8,
            ElementType::F32,
            ElementType::Index,
        ];
        let plan = plan(types.map(|t| Parameter::scalar("s", "s", t)).to_vec());
        let args = [
            Arg::scalar(true),
            Arg::scalar(-1_i8),
            Arg::scalar(-0.0_f32),
            Arg::scalar(-1_i64),
        ];
        assert_eq!(packed(&plan, &args), [1, 0xff, 0x8000_0000, u64::MAX]);
    }

    #[test]
    fn any_number_of_slots_is_packed() {
        for count in [0, 1, INLINE - 1, INLINE, INLINE + 1, 3 * INLINE] {
            let plan = plan(vec![Parameter::scalar("s", "i64", ElementType::I64); count]);
            let args: Vec<Arg> = (0..count as i64).map(Arg::scalar).collect();
            let expected: Vec<u64> = (0..count as u64).collect();
            assert_eq!(packed(&plan, &args), expected);
        }
    }
}
