//! Numbers of a body: constants, arithmetic, loops, and the indices of loads and stores.

use super::sizes::Int;
use super::{Frame, Proof, Results, Value, static_value};
use crate::kernel::tokens::Kind;

impl<'s> Proof<'_, 's> {
    /// `arith.constant -3 : index`, `1.5 : f32`, `true`, or `dense<…> : tensor<4xf32>`.
    pub(super) fn constant(&mut self) -> Option<Option<Value>> {
        if self.reader.eat_word("true") || self.reader.eat_word("false") {
            return Some(None);
        }
        if self.reader.eat_word("dense") {
            self.reader.angles();
            self.reader.punct(b':')?;
            return Some(static_value(self.reader.of_type()?));
        }
        let negative = self.reader.eat(b'-');
        let number = self.reader.number()?.parse::<i64>().ok();
        let number = number.map(|number| if negative { -number } else { number });
        self.reader.punct(b':')?;
        let of_type = self.reader.of_type()?;
        Some(is_wide(of_type).then(|| Value::Int(Int::range(number, number))))
    }

    /// Arithmetic of scalars and vectors: `predicate, %a, %b flags<…> {attributes} : types to
    /// type`; `None` if it may divide an integer by zero.
    pub(super) fn arithmetic(&mut self, name: &str) -> Option<Option<Value>> {
        if matches!(name, "arith.cmpi" | "arith.cmpf") {
            self.reader.any_word()?;
            self.reader.punct(b',')?;
        }
        let a = self.term_of_value()?;
        let mut b = Int::Unknown;
        let mut is_second = true;
        while self.reader.eat(b',') {
            let operand = self.term_of_value()?;
            if std::mem::take(&mut is_second) {
                b = operand;
            }
        }
        while let Some(flag) = self.reader.any_word() {
            let start = self.reader.at;
            self.reader.angles();
            let text = self.reader.tokens.span(start, self.reader.at);
            let is_harmless = matches!(
                text,
                "" | "<contract>" | "<reassoc>" | "<reassoc, contract>" | "<none>"
            );
            self.may_poison |= flag != "fastmath" && !text.is_empty() || !is_harmless;
        }
        let mut types = self.reader.colon_types()?;
        if self.reader.eat_word("to") {
            types.push(self.reader.of_type()?);
        }
        self.may_poison |= makes_poison(name);
        if may_trap(name) && b.number().is_none_or(|divisor| divisor <= 0) {
            return None;
        }
        // Of tensors nothing keeps two operands at one size.
        if types.iter().any(|of_type| of_type.starts_with("tensor")) {
            return None;
        }
        let to = types.last()?;
        let result = match name {
            "arith.addi" => a.combine(b, i64::checked_add),
            "arith.subi" => a.combine(b, i64::checked_sub),
            "arith.muli" => a.combine(b, i64::checked_mul),
            "arith.minsi" => a.combine(b, |a, b| Some(a.min(b))),
            "arith.maxsi" => a.combine(b, |a, b| Some(a.max(b))),
            // A size may be more than 32 bits hold.
            "arith.index_cast" if *to == "i32" => a.combine(a, |a, _| Some(a)),
            "arith.index_cast" | "arith.extsi" => a,
            _ => Int::Unknown,
        };
        Some(is_wide(to).then_some(Value::Int(result)))
    }

    fn term_of_value(&mut self) -> Option<Int> {
        (self.reader.tokens.kind(self.reader.at) == Kind::Value).then_some(())?;
        self.term()
    }

    /// `scf.for %i = %low to %end step %by iter_args(…) -> (…) : i32 {`, or the same of `affine`,
    /// which may have no step.
    pub(super) fn counted_loop(&mut self, name: &str, results: Results<'s>) -> Option<()> {
        let variable = self.reader.value()?;
        self.reader.punct(b'=')?;
        let low = self.term()?;
        self.reader.word("to")?;
        let end = self.term()?;
        let step = match self.reader.eat_word("step") {
            true => self.term()?.number().filter(|step| *step > 0)?,
            false if name == "affine.for" => 1,
            false => return None,
        };
        let carried = match self.reader.eat_word("iter_args") {
            true => self.iter_args()?,
            false => Vec::new(),
        };
        let values = self.results_by_type()?;
        if self.reader.eat(b':') && !is_wide(self.reader.of_type()?) {
            return None;
        }
        self.reader.punct(b'{')?;
        self.values
            .insert(variable, Value::Int(low.up_to(end, step)));
        let carried = Results {
            names: carried,
            packed: false,
        };
        self.define(&carried, values.clone());
        self.frames.push(Frame {
            results,
            values,
            ..Frame::default()
        });
        Some(())
    }

    /// The names that `(%a = %x, …)` defines.
    fn iter_args(&mut self) -> Option<Vec<&'s str>> {
        let mut names = Vec::new();
        self.reader.punct(b'(')?;
        loop {
            names.push(self.reader.value()?);
            self.reader.punct(b'=')?;
            self.reader.value()?;
            if self.reader.eat(b')') {
                return Some(names);
            }
            self.reader.punct(b',')?;
        }
    }

    /// `%m[%i, %j] {attributes} : type`: each index has to be within its dimension.
    pub(super) fn access(&mut self) -> Option<()> {
        let shape = self.shape()?;
        self.reader.punct(b'[')?;
        for (position, size) in shape.iter().enumerate() {
            if position > 0 {
                self.reader.punct(b',')?;
            }
            let index = self.index()?;
            self.sizes.holds(*size, index)?;
        }
        self.reader.punct(b']')?;
        self.reader.attributes(&["nontemporal"])?;
        self.reader.colon_types()?;
        Some(())
    }

    /// An index: a term, or as `affine.load` may have it a term, an operator and a term.
    fn index(&mut self) -> Option<Int> {
        let first = self.term()?;
        let of: fn(i64, i64) -> Option<i64> = match self.reader.tokens.kind(self.reader.at) {
            Kind::Punct(b'+') => i64::checked_add,
            Kind::Punct(b'-') => i64::checked_sub,
            Kind::Punct(b'*') => i64::checked_mul,
            _ => return Some(first),
        };
        self.reader.at += 1;
        let second = self.term()?;
        Some(first.combine(second, of))
    }
}

/// Whether numbers of this type are as wide as those of [`Int`].
fn is_wide(of_type: &str) -> bool {
    matches!(of_type, "index" | "i32" | "i64")
}

/// Whether the result of an operation may be poison, on which no branch may depend.
fn makes_poison(name: &str) -> bool {
    let integers = ["arith.shl", "arith.shr", "arith.fpto"];
    integers.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether an operation on integers has no result for a second operand that is not positive.
fn may_trap(name: &str) -> bool {
    matches!(
        name,
        "arith.divsi"
            | "arith.divui"
            | "arith.remsi"
            | "arith.remui"
            | "arith.ceildivsi"
            | "arith.ceildivui"
            | "arith.floordivsi"
            | "math.ipowi"
    )
}
