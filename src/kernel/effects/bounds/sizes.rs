//! Sizes that are numbers or symbols, which of them are equal, and numbers that count up to them.

use std::borrow::Cow;
use std::collections::HashMap;

use npu_runtime::Extent;

/// The size of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Known(u64),
    /// A dynamic dimension of an argument.
    Symbol(usize),
}

/// An integer of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Int {
    /// From the first up to and including the second.
    Range(i64, i64),
    /// A size that a launch tells.
    Symbol(usize),
    /// At least the first, and below a size that a launch tells.
    Below(i64, usize),
    Unknown,
}

/// Numbers beyond this might wrap around in 32 bits.
const LIMIT: i64 = i32::MAX as i64;

impl Int {
    /// `low` to `high`, if 32 bits hold them.
    pub(super) fn range(low: Option<i64>, high: Option<i64>) -> Self {
        match (low, high) {
            (Some(low), Some(high)) if low >= -LIMIT && high <= LIMIT && low <= high => {
                Self::Range(low, high)
            }
            _ => Self::Unknown,
        }
    }

    pub(super) fn of_size(size: Size) -> Self {
        match size {
            Size::Known(size) => {
                let size = i64::try_from(size).ok();
                Self::range(size, size)
            }
            Size::Symbol(symbol) => Self::Symbol(symbol),
        }
    }

    /// The one number that it is.
    pub(super) fn number(self) -> Option<i64> {
        match self {
            Self::Range(low, high) if low == high => Some(low),
            _ => None,
        }
    }

    /// The size that it is.
    pub(super) fn size(self) -> Option<Size> {
        match self {
            Self::Symbol(symbol) => Some(Size::Symbol(symbol)),
            other => u64::try_from(other.number()?).ok().map(Size::Known),
        }
    }

    /// What a loop from `self` up to `end` counts, by steps that must not carry it beyond what its
    /// type holds.
    pub(super) fn up_to(self, end: Self, step: i64) -> Self {
        match (self, end) {
            (Self::Range(low, _), Self::Range(_, high)) if 0 < step && high + step <= LIMIT => {
                Self::range(Some(low), Some(low.max(high - 1)))
            }
            (Self::Range(low, _), Self::Symbol(symbol)) if 0 < step && step <= LIMIT => {
                Self::Below(low, symbol)
            }
            _ => Self::Unknown,
        }
    }

    /// The result of an operation that grows with its first operand, and whose extremes are those
    /// of the operands.
    pub(super) fn combine(self, other: Self, of: impl Fn(i64, i64) -> Option<i64>) -> Self {
        let (Self::Range(a, b), Self::Range(c, d)) = (self, other) else {
            return Self::Unknown;
        };
        let corners = [of(a, c), of(a, d), of(b, c), of(b, d)];
        let all: Option<Vec<i64>> = corners.into_iter().collect();
        let all = all.unwrap_or_default();
        Self::range(all.iter().copied().min(), all.iter().copied().max())
    }
}

/// All symbols, with what is known to be equal: union-find.
#[derive(Default)]
pub(super) struct Sizes {
    symbols: Vec<Symbol>,
}

struct Symbol {
    parent: usize,
    number: Option<u64>,
    /// How many symbols its class has.
    members: usize,
}

impl Sizes {
    /// A dimension's size: a new symbol where it is dynamic.
    pub(super) fn size(&mut self, dim: Option<u64>) -> Size {
        match dim {
            Some(size) => Size::Known(size),
            None => {
                let parent = self.symbols.len();
                self.symbols.push(Symbol {
                    parent,
                    number: None,
                    members: 1,
                });
                Size::Symbol(parent)
            }
        }
    }

    pub(super) fn root(&self, mut symbol: usize) -> usize {
        while let Some(it) = self.symbols.get(symbol).filter(|it| it.parent != symbol) {
            symbol = it.parent;
        }
        symbol
    }

    /// Has a launch check that two sizes are equal; `None` if they can't be.
    pub(super) fn equate(&mut self, a: Size, b: Size) -> Option<()> {
        match (a, b) {
            (Size::Known(a), Size::Known(b)) => (a == b).then_some(()),
            (Size::Known(number), Size::Symbol(symbol))
            | (Size::Symbol(symbol), Size::Known(number)) => {
                let root = self.root(symbol);
                let known = self.symbols.get_mut(root)?;
                let number = *known.number.get_or_insert(number) == number;
                number.then_some(())
            }
            (Size::Symbol(a), Size::Symbol(b)) => {
                let (a, b) = (self.root(a), self.root(b));
                if a == b {
                    return Some(());
                }
                let (to, from) = (a.min(b), a.max(b));
                let (number, members) = {
                    let from = self.symbols.get_mut(from)?;
                    from.parent = to;
                    (from.number, from.members)
                };
                self.symbols.get_mut(to)?.members += members;
                number.map_or(Some(()), |number| {
                    self.equate(Size::Symbol(to), Size::Known(number))
                })
            }
        }
    }

    /// Whether an index is within a dimension, possibly after a check of equal sizes.
    pub(super) fn holds(&mut self, size: Size, index: Int) -> Option<()> {
        match (index, size) {
            (Int::Range(low, high), Size::Known(size)) => {
                let within = low >= 0 && u64::try_from(high).is_ok_and(|high| high < size);
                within.then_some(())
            }
            (Int::Below(low, end), size) if low >= 0 => self.equate(Size::Symbol(end), size),
            _ => None,
        }
    }

    /// What a launch checks of a size. Classes are named after their first member.
    pub(super) fn extent(
        &self,
        size: Size,
        names: &mut HashMap<usize, String>,
        name: impl Fn() -> String,
    ) -> Extent {
        let Size::Symbol(symbol) = size else {
            return Extent::Any;
        };
        let root = self.root(symbol);
        match self.symbols.get(root) {
            Some(Symbol {
                number: Some(number),
                ..
            }) => Extent::Exactly(*number),
            Some(Symbol { members, .. }) if *members > 1 => {
                let name = names.entry(root).or_insert_with(name);
                Extent::Same(Cow::Owned(name.clone()))
            }
            _ => Extent::Any,
        }
    }
}
