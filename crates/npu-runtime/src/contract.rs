//! The sizes that a kernel's contract asks for, prepared once and compared at every launch.

use crate::arg::Value;
use crate::error::ArgumentFault;
use crate::plan::{dimensions, element, unit};
use crate::{Arg, ElementType, Extent, Factor, Grid, Kind, Signature};

/// The rules of one kernel, in the order of its parameters.
pub(crate) struct Contract(Box<[Rule]>);

/// What one dimension has to be.
struct Rule {
    place: Place,
    needs: Needs,
}

/// A dimension of an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    argument: usize,
    dimension: usize,
}

enum Needs {
    Exactly(u64),
    /// As large as that one.
    Same(Place),
    AtLeast(Box<[Factor]>),
}

/// The argument that breaks a contract, and in what.
type Broken = (usize, ArgumentFault);

impl Contract {
    pub(crate) fn of(signature: &Signature) -> Self {
        let mut names: Vec<(&str, Place)> = Vec::new();
        let mut rules = Vec::new();
        for (argument, parameter) in signature.parameters.iter().enumerate() {
            for (dimension, extent) in parameter.extents.iter().enumerate() {
                let place = Place {
                    argument,
                    dimension,
                };
                let needs = match extent {
                    Extent::Any => continue,
                    Extent::Exactly(size) => Needs::Exactly(*size),
                    Extent::AtLeast(factors) => Needs::AtLeast(factors.as_ref().into()),
                    Extent::Same(name) => match names.iter().find(|(known, _)| known == name) {
                        Some((_, first)) => Needs::Same(*first),
                        None => {
                            names.push((name, place));
                            continue;
                        }
                    },
                };
                rules.push(Rule { place, needs });
            }
        }
        Self(rules.into())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares arguments that each fit their parameter.
    pub(crate) fn check(
        &self,
        signature: &Signature,
        grid: Grid,
        args: &[Arg<'_>],
    ) -> Result<(), Broken> {
        for rule in &self.0 {
            let found = rule.place.size(signature, args);
            let fits = match &rule.needs {
                Needs::Exactly(size) => found == *size,
                Needs::Same(other) => found == other.size(signature, args),
                // Without a size to compare with, nothing fits.
                Needs::AtLeast(factors) => {
                    product(factors, signature, grid, args)?.is_some_and(|least| found >= least)
                }
            };
            if !fits {
                return Err(rule.broken(signature, grid, args, found));
            }
        }
        Ok(())
    }
}

impl Rule {
    #[cold]
    fn broken(&self, signature: &Signature, grid: Grid, args: &[Arg<'_>], found: u64) -> Broken {
        let expected = match &self.needs {
            Needs::Exactly(size) => format!("{size} elements"),
            Needs::Same(other) => {
                let (size, place) = (other.size(signature, args), other.text(signature));
                format!("{size} elements, as many as {place}")
            }
            Needs::AtLeast(factors) => {
                let text = signature.extent_text(&Extent::AtLeast(factors.to_vec().into()));
                match product(factors, signature, grid, args) {
                    Ok(Some(least)) => format!("at least {text} = {least} elements"),
                    _ => format!("at least {text} elements, which is more than there can be"),
                }
            }
        };
        let dimension = self.place.one_of_several(signature);
        let fault = ArgumentFault::Extent {
            dimension: dimension.then_some(self.place.dimension),
            expected,
            found,
        };
        (self.place.argument, fault)
    }
}

impl Place {
    /// Whether the argument has other dimensions as well.
    fn one_of_several(self, signature: &Signature) -> bool {
        let parameter = signature.parameters.get(self.argument);
        parameter
            .and_then(dimensions)
            .is_some_and(|dims| dims.len() > 1)
    }

    fn text(self, signature: &Signature) -> String {
        let parameter = signature.parameters.get(self.argument);
        let name = parameter.map_or("?", |parameter| &parameter.name);
        match self.one_of_several(signature) {
            true => format!("`{name}` in dimension {}", self.dimension),
            false => format!("`{name}`"),
        }
    }

    /// The size of this dimension; 0 where a checked launch has none.
    fn size(self, signature: &Signature, args: &[Arg<'_>]) -> u64 {
        let parameter = signature.parameters.get(self.argument);
        let (Some(parameter), Some(arg)) = (parameter, args.get(self.argument)) else {
            return 0;
        };
        let Value::Memory(memory) = arg.value() else {
            return 0;
        };
        if let Some(shape) = arg.shape() {
            return shape.get(self.dimension).map_or(0, |size| *size as u64);
        }
        let elements = memory.len as u64 / unit(element(parameter));
        let Some(dims) = dimensions(parameter) else {
            return elements;
        };
        match dims.get(self.dimension) {
            Some(Some(size)) => *size,
            // The only dynamic one, since no shape was needed.
            Some(None) => {
                let others = dims.iter().copied().flatten();
                let others = others.fold(1, u64::saturating_mul);
                elements.checked_div(others).unwrap_or(0)
            }
            None => 0,
        }
    }
}

/// The product of some factors; `None` if it does not fit 64 bits.
fn product(
    factors: &[Factor],
    signature: &Signature,
    grid: Grid,
    args: &[Arg<'_>],
) -> Result<Option<u64>, Broken> {
    let (mut product, mut is_zero) = (Some(1_u64), false);
    for factor in factors {
        let value = match factor {
            Factor::Number(number) => *number,
            Factor::Grid(axis) => grid.size(*axis).into(),
            Factor::Scalar(position) => scalar(*position, signature, args)?,
        };
        // What follows may be negative, which is refused whatever the product is.
        is_zero |= value == 0;
        product = product.and_then(|product| product.checked_mul(value));
    }
    Ok(if is_zero { Some(0) } else { product })
}

/// The value of an integer. A negative one is refused: the kernel might take it for a huge one.
fn scalar(position: usize, signature: &Signature, args: &[Arg<'_>]) -> Result<u64, Broken> {
    let parameter = signature.parameters.get(position);
    let (Some(Value::Scalar { bits, .. }), Some(Kind::Scalar(element))) = (
        args.get(position).map(Arg::value),
        parameter.map(|parameter| &parameter.kind),
    ) else {
        // No scalar that a launch could have checked: nothing is large enough.
        return Ok(u64::MAX);
    };
    let value = match element {
        ElementType::I8 => i64::from(*bits as i8),
        ElementType::I16 => i64::from(*bits as i16),
        ElementType::I32 => i64::from(*bits as i32),
        ElementType::I64 | ElementType::Index => bits.cast_signed(),
        _ => return Ok(*bits),
    };
    u64::try_from(value).map_err(|_| (position, ArgumentFault::NegativeSize { found: value }))
}
