//! Numbers of a body: constants, arithmetic, loops, and the indices of loads and stores.

use super::sizes::{Int, Size};
use super::{Proof, Value};
use crate::kernel::tokens::Kind;

impl<'s> Proof<'_, 's> {
    /// `arith.constant -3 : index`, or `dense<…> : tensor<4xf32>`.
    pub(super) fn constant(&self, range: (usize, usize)) -> Value {
        let tokens = self.walk.context.tokens;
        if let Some(shape) = self.last_type(range) {
            let known = shape.into_iter().map(|dim| dim.map(Size::Known));
            return known
                .collect::<Option<_>>()
                .map_or(Value::Unknown, Value::Shape);
        }
        let first = range.0 + 1;
        let negative = tokens.is(first, b'-');
        let number = first + usize::from(negative);
        let number = match tokens.kind(number) {
            Kind::Number => tokens.text(number).parse::<i64>().ok(),
            _ => None,
        };
        let number = number.map(|number| if negative { -number } else { number });
        Value::Int(Int::range(number, number))
    }

    /// Arithmetic; `None` if it may divide an integer by zero.
    pub(super) fn arithmetic(&self, name: &str, range: (usize, usize)) -> Option<Value> {
        let mut operands = self.operands(range).map(|at| match self.value(at) {
            Value::Int(number) => number,
            Value::Shape(_) | Value::Unknown => Int::Unknown,
        });
        let (first, second) = (operands.next(), operands.next());
        let (a, b) = (
            first.unwrap_or(Int::Unknown),
            second.unwrap_or(Int::Unknown),
        );
        if is_integer_division(name) && b.number().is_none_or(|divisor| divisor <= 0) {
            return None;
        }
        if !matches!(self.result_type(range), "index" | "i32" | "i64") {
            return Some(Value::Unknown);
        }
        Some(Value::Int(match name {
            "arith.addi" => a.combine(b, i64::checked_add),
            "arith.subi" => a.combine(b, i64::checked_sub),
            "arith.muli" => a.combine(b, i64::checked_mul),
            "arith.minsi" => a.combine(b, |a, b| Some(a.min(b))),
            "arith.maxsi" => a.combine(b, |a, b| Some(a.max(b))),
            "arith.index_cast" | "arith.extsi" => a,
            _ => Int::Unknown,
        }))
    }

    /// What stands behind the colon, or behind the `to` of a cast.
    fn result_type(&self, (at, end): (usize, usize)) -> &'s str {
        let tokens = self.walk.context.tokens;
        let to = (at + 1..end).find(|i| tokens.is_word(*i, "to"));
        let colon = || (at + 1..end).find(|i| tokens.is(*i, b':'));
        to.or_else(colon)
            .map_or("", |before| tokens.text(before + 1))
    }

    /// `scf.for %i = %low to %end step %by iter_args(…) -> (…) {`, or the same of `affine`.
    pub(super) fn counted_loop(
        &mut self,
        range: (usize, usize),
        results: &[&'s str],
    ) -> Option<()> {
        let tokens = self.walk.context.tokens;
        let open = self.first_brace(range)?;
        let variable = range.0 + 1;
        if tokens.kind(variable) != Kind::Value || !tokens.is(variable + 1, b'=') {
            return None;
        }
        let low = variable + 2;
        if !tokens.is_word(low + 1, "to") {
            return None;
        }
        let end = low + 2;
        let mut next = end + 1;
        if tokens.is_word(next, "step") {
            let step = self.term(next + 1).number()?;
            if step <= 0 {
                return None;
            }
            next += 2;
        } else if tokens.text(range.0) == "scf.for" {
            return None;
        }
        let counted = self.term(low).up_to(self.term(end));
        let carried = self.iter_args((next, open))?;
        self.values
            .insert(tokens.value_name(variable), Value::Int(counted));
        let arrow = (next..open).find(|i| tokens.kind(*i) == Kind::Arrow);
        let types = (arrow.map_or(open, |arrow| arrow + 1), open);
        self.by_types(types, &carried);
        self.by_types(types, results);
        self.walk.at = open + 1;
        Some(())
    }

    /// The names that `iter_args(%a = %x, …)` defines.
    fn iter_args(&self, (at, end): (usize, usize)) -> Option<Vec<&'s str>> {
        let tokens = self.walk.context.tokens;
        if !tokens.is_word(at, "iter_args") {
            // Nothing but a type may stand before the region.
            let is_value = |i| tokens.kind(i) == Kind::Value;
            return (!(at..end).any(is_value)).then(Vec::new);
        }
        let open = at + 1;
        let names = (open..tokens.close(open))
            .filter(|i| tokens.kind(*i) == Kind::Value && tokens.is(i + 1, b'='))
            .map(|i| tokens.value_name(i));
        Some(names.collect())
    }

    /// `memref.load %m[%i, %j]`, where the memory is the `position`th value: each index has to be
    /// within its dimension.
    pub(super) fn access(&mut self, range: (usize, usize), position: usize) -> Option<()> {
        let tokens = self.walk.context.tokens;
        let memory = self.operands(range).nth(position)?;
        let Value::Shape(shape) = self.value(memory) else {
            return None;
        };
        let open = memory + 1;
        if !tokens.is(open, b'[') {
            return None;
        }
        let close = tokens.close(open);
        let mut at = open + 1;
        for size in &shape {
            let comma = (at..close).find(|i| tokens.is(*i, b','));
            let index = self.sum((at, comma.unwrap_or(close)));
            self.sizes.holds(*size, index)?;
            at = comma.map_or(close, |comma| comma + 1);
        }
        (at >= close).then_some(())
    }

    /// An index: a term, or as `affine.load` may have it a term, an operator and a term.
    fn sum(&self, (at, end): (usize, usize)) -> Int {
        let tokens = self.walk.context.tokens;
        let first = self.term(at);
        match end.saturating_sub(at) {
            1 => first,
            3 => {
                let second = self.term(at + 2);
                match tokens.kind(at + 1) {
                    Kind::Punct(b'+') => first.combine(second, i64::checked_add),
                    Kind::Punct(b'-') => first.combine(second, i64::checked_sub),
                    Kind::Punct(b'*') => first.combine(second, i64::checked_mul),
                    _ => Int::Unknown,
                }
            }
            _ => Int::Unknown,
        }
    }

    /// A value or a number.
    fn term(&self, at: usize) -> Int {
        let tokens = self.walk.context.tokens;
        match tokens.kind(at) {
            Kind::Value => match self.value(at) {
                Value::Int(number) => number,
                Value::Shape(_) | Value::Unknown => Int::Unknown,
            },
            Kind::Number => {
                let number = tokens.text(at).parse().ok();
                Int::range(number, number)
            }
            _ => Int::Unknown,
        }
    }
}

/// Whether an operation has no result for a divisor of zero, or stops the process.
pub(super) fn is_integer_division(name: &str) -> bool {
    let name = name
        .strip_prefix("arith.")
        .or_else(|| name.strip_prefix("index."));
    matches!(
        name,
        Some(
            "divsi"
                | "divui"
                | "remsi"
                | "remui"
                | "ceildivsi"
                | "ceildivui"
                | "floordivsi"
                | "divs"
                | "divu"
                | "rems"
                | "remu"
                | "ceildivs"
                | "ceildivu"
                | "floordivs"
        )
    )
}
