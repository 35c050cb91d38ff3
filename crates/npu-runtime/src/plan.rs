//! What a launch checks, prepared once from the signature so that the check itself is a few
//! comparisons an argument. No foreign code is called here: nothing has run when it refuses.

use crate::arg::{Memory, Value};
use crate::contract::Contract;
use crate::element::Accepted;
use crate::error::{ArgumentError, ArgumentFault, GridFault, Lengths};
use crate::{Arg, Bounds, Direction, ElementType, Error, Grid, Image, Kind, NoImage, Parameter};
use crate::{Runtime, Shape, Signature};

/// The checks of one kernel. A launch that passed them has as many arguments as there are
/// parameters, each of its parameter's kind, type, direction and extent.
pub(crate) struct Plan {
    signature: Signature,
    checks: Box<[Check]>,
    contract: Contract,
}

/// What one argument must be.
pub(crate) enum Check {
    Scalar(Accepted),
    Memory {
        accepted: Accepted,
        written: bool,
        /// A power of two: what the address is a multiple of, if there is anything there.
        align: usize,
        dims: Dims,
    },
}

/// How the dimensions of memory follow from its length, which is in units of the Rust type: an
/// element of bytes has several, all others one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dims {
    /// Not ranked: one, the number of elements, each of `unit` units.
    Free { unit: u64 },
    /// All static: `units` is their product.
    Static { units: u64 },
    /// One is dynamic, and the product of the others is `multiple` units.
    Inferred { multiple: u64 },
    /// They must be given: two or more are dynamic.
    Given { dynamic: usize },
}

impl Plan {
    pub(crate) fn new(signature: Signature) -> Self {
        let checks = signature.parameters.iter().map(Check::of).collect();
        let contract = Contract::of(&signature);
        Self {
            signature,
            checks,
            contract,
        }
    }

    pub(crate) fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Each parameter with its check, in order.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&Parameter, &Check)> {
        self.signature.parameters.iter().zip(&self.checks)
    }

    /// The number of 8-byte slots that hold the arguments on cpu.
    pub(crate) fn slots(&self) -> usize {
        let of = |check: &Check| match check {
            Check::Scalar(_) => 1,
            Check::Memory { dims, .. } => 1 + dims.slots(),
        };
        self.checks.iter().map(of).sum()
    }

    /// The number of programs, if the kernel can be launched over `grid`.
    #[inline]
    pub(crate) fn programs(&self, grid: Grid) -> Result<u64, Error> {
        let fault = match grid.programs() {
            _ if !self.signature.grid && grid != Grid::ONE => GridFault::NoGrid,
            Some(programs) => return Ok(programs),
            None => GridFault::TooLarge,
        };
        Err(Error::Grid {
            kernel: self.name(),
            grid,
            fault,
        })
    }

    /// Refuses arguments that do not fit.
    #[inline]
    pub(crate) fn check(&self, grid: Grid, args: &[Arg<'_>]) -> Result<(), Error> {
        if args.len() != self.checks.len() {
            return Err(Error::ArgumentCount {
                kernel: self.name(),
                expected: self.checks.len(),
                found: args.len(),
            });
        }
        for (index, ((parameter, check), arg)) in self.parameters().zip(args).enumerate() {
            if let Err(fault) = check.check(parameter, arg) {
                return Err(self.refuse(index, parameter, fault));
            }
        }
        if self.contract.is_empty() {
            return Ok(());
        }
        self.keep_contract(grid, args)
    }

    /// Refuses arguments that break the contract.
    fn keep_contract(&self, grid: Grid, args: &[Arg<'_>]) -> Result<(), Error> {
        let broken = self.contract.check(&self.signature, grid, args);
        broken.map_err(
            |(index, fault)| match self.signature.parameters.get(index) {
                Some(parameter) => self.refuse(index, parameter, fault),
                None => Error::ArgumentCount {
                    kernel: self.name(),
                    expected: self.checks.len(),
                    found: args.len(),
                },
            },
        )
    }

    /// Refuses a safe launch of a kernel that only its caller can keep within its arguments.
    #[inline]
    pub(crate) fn check_safe(&self) -> Result<(), Error> {
        match self.signature.bounds {
            Bounds::Proven | Bounds::Declared => Ok(()),
            Bounds::Unchecked => Err(Error::Unchecked {
                kernel: self.name(),
            }),
        }
    }

    /// The kernel's name, for an error.
    #[cold]
    pub(crate) fn name(&self) -> Box<str> {
        self.signature.name.as_ref().into()
    }

    /// For verify mode: byte `offset` of the input at `index` was changed.
    #[cold]
    pub(crate) fn input_written(&self, index: usize, offset: usize) -> Error {
        let parameter = self.signature.parameters.get(index);
        let name = parameter.map_or_else(String::new, |parameter| parameter.name.to_string());
        Error::InputWritten {
            kernel: self.name(),
            argument: Box::new((index, name)),
            offset,
        }
    }

    /// For a backend that is given another runtime's image.
    #[cold]
    pub(crate) fn refuse_image(&self, runtime: Runtime, image: &Image) -> Error {
        Error::NoImage(Box::new(NoImage {
            kernel: self.signature.name.to_string(),
            runtime,
            npu: None,
            images: vec![image.to_string()],
        }))
    }

    #[cold]
    fn refuse(&self, index: usize, parameter: &Parameter, fault: ArgumentFault) -> Error {
        Error::Argument(Box::new(ArgumentError {
            kernel: self.signature.name.to_string(),
            index,
            name: parameter.name.to_string(),
            mlir_type: parameter.mlir_type.to_string(),
            fault,
        }))
    }
}

impl Check {
    fn of(parameter: &Parameter) -> Self {
        match &parameter.kind {
            Kind::Scalar(element) => Self::Scalar(Accepted::by_value(element)),
            Kind::Memory {
                element,
                shape,
                direction,
            } => Self::Memory {
                accepted: Accepted::in_memory(element),
                written: direction.is_written(),
                align: match element {
                    ElementType::Bytes { align, .. } => *align as usize,
                    _ => 1,
                },
                dims: Dims::of(shape, unit(element)),
            },
        }
    }

    #[inline]
    fn check(&self, parameter: &Parameter, arg: &Arg<'_>) -> Result<(), ArgumentFault> {
        match (self, arg.value()) {
            (Self::Scalar(accepted), Value::Scalar { primitive, .. }) => {
                if !accepted.contains(*primitive) {
                    return Err(ArgumentFault::Element {
                        expected: element(parameter).name(),
                        found: primitive.name(),
                    });
                }
                match arg.shape() {
                    None => Ok(()),
                    Some(_) => Err(ArgumentFault::ScalarShape),
                }
            }
            (
                Self::Memory {
                    accepted,
                    written,
                    align,
                    dims,
                },
                Value::Memory(memory),
            ) => {
                if !accepted.contains(memory.primitive) {
                    return Err(ArgumentFault::Element {
                        expected: element(parameter).name(),
                        found: memory.primitive.name(),
                    });
                }
                if memory.writable != *written {
                    return Err(ArgumentFault::Direction {
                        expected: direction(parameter),
                    });
                }
                if memory.len > 0 && !memory.address.addr().is_multiple_of(*align) {
                    return Err(ArgumentFault::Alignment {
                        expected: u32::try_from(*align).unwrap_or(u32::MAX),
                    });
                }
                match arg.shape() {
                    None => dims.check_len(parameter, memory),
                    Some(shape) => check_shape(parameter, memory, shape),
                }
            }
            (Self::Scalar(_), Value::Memory(_)) => Err(ArgumentFault::NotScalar),
            (Self::Memory { .. }, Value::Scalar { primitive, .. }) => {
                Err(ArgumentFault::NotMemory {
                    found: primitive.name(),
                })
            }
        }
    }
}

impl Dims {
    fn of(shape: &Shape, unit: u64) -> Self {
        let Shape::Ranked(dims) = shape else {
            return Self::Free { unit };
        };
        let dynamic = dims.iter().filter(|dim| dim.is_none()).count();
        let units = product(dims.iter().copied().flatten().chain([unit]));
        match dynamic {
            0 => Self::Static { units },
            1 => Self::Inferred { multiple: units },
            _ => Self::Given { dynamic },
        }
    }

    /// How many 8-byte slots describe them to a kernel on cpu.
    fn slots(self) -> usize {
        match self {
            Self::Free { .. } | Self::Inferred { .. } => 1,
            Self::Static { .. } => 0,
            Self::Given { dynamic } => dynamic,
        }
    }

    /// Checks memory that came without a shape.
    #[inline]
    fn check_len(self, parameter: &Parameter, memory: &Memory) -> Result<(), ArgumentFault> {
        let len = memory.len as u64;
        let expected = match self {
            Self::Static { units } if len == units => return Ok(()),
            Self::Static { units } => Lengths::Exactly(units),
            // With a static 0 every dynamic size has no elements: only no elements fit.
            Self::Inferred { multiple: 0 } if len == 0 => return Ok(()),
            Self::Inferred { multiple: 0 } => Lengths::Exactly(0),
            Self::Free { unit: multiple } | Self::Inferred { multiple } => {
                if len.is_multiple_of(multiple) {
                    return Ok(());
                }
                Lengths::MultipleOf(multiple)
            }
            Self::Given { .. } => {
                return Err(ArgumentFault::ShapeNeeded {
                    expected: dimensions(parameter).unwrap_or_default().to_vec(),
                });
            }
        };
        Err(ArgumentFault::Length {
            expected,
            found: memory.len,
        })
    }
}

/// Checks a shape against the type's, and its product against the memory's length.
#[cold]
fn check_shape(
    parameter: &Parameter,
    memory: &Memory,
    shape: &[usize],
) -> Result<(), ArgumentFault> {
    let fits = |(expected, found): (&Option<u64>, &usize)| match expected {
        Some(size) => *size == *found as u64,
        // A kernel's own sizes are signed.
        None => isize::try_from(*found).is_ok(),
    };
    if let Some(expected) = dimensions(parameter)
        && (expected.len() != shape.len() || !expected.iter().zip(shape).all(fits))
    {
        return Err(ArgumentFault::Shape {
            expected: expected.to_vec(),
            found: shape.to_vec(),
        });
    }
    let sizes = shape.iter().map(|size| *size as u64);
    if product(sizes.chain([unit(element(parameter))])) != memory.len as u64 {
        return Err(ArgumentFault::ShapeLength {
            shape: shape.to_vec(),
            found: memory.len,
        });
    }
    Ok(())
}

/// The number of elements; `u64::MAX`, which no memory has, where it does not fit.
fn product(sizes: impl Iterator<Item = u64> + Clone) -> u64 {
    if sizes.clone().any(|size| size == 0) {
        return 0;
    }
    sizes.fold(1, u64::saturating_mul)
}

/// How many of its Rust type an element consists of.
pub(crate) fn unit(element: &ElementType) -> u64 {
    match element {
        ElementType::Bytes { size, .. } => u64::from(*size).max(1),
        _ => 1,
    }
}

pub(crate) fn element(parameter: &Parameter) -> &ElementType {
    match &parameter.kind {
        Kind::Scalar(element) | Kind::Memory { element, .. } => element,
    }
}

fn direction(parameter: &Parameter) -> Direction {
    match &parameter.kind {
        Kind::Scalar(_) => Direction::In,
        Kind::Memory { direction, .. } => *direction,
    }
}

/// The shape as the type has it; `None` if that is not ranked.
pub(crate) fn dimensions(parameter: &Parameter) -> Option<&[Option<u64>]> {
    match &parameter.kind {
        Kind::Memory {
            shape: Shape::Ranked(dims),
            ..
        } => Some(dims),
        _ => None,
    }
}
