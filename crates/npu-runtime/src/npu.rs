//! What the NPU runtimes have in common: the targets, what an image was compiled for, and which
//! arguments of a launch reach the device and how.
//!
//! An NPU executes a frozen instruction stream. So only memory goes to the device, in the order of
//! the signature; scalars and the grid were fixed when the kernel was compiled.

use crate::arg::{Memory, Value};
use crate::error::GridFault;
use crate::plan::Plan;
use crate::{Arg, Direction, Error, Grid, Kind};
use std::fmt;
use std::str::FromStr;

/// A generation of NPUs, as `--target` names it.
///
/// ```
/// use npu_runtime::Npu;
///
/// assert_eq!("npu2".parse::<Npu>()?, Npu::Npu2);
/// assert_eq!(Npu::Npu1.to_string(), "npu1");
/// assert_eq!(Npu::Npu1.arch(), "aie2");
/// # Ok::<(), npu_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Npu {
    /// Phoenix and Hawk Point: arch aie2, 4 columns.
    Npu1,
    /// Strix, Strix Halo and Krackan: arch aie2p, 8 columns.
    Npu2,
}

impl Npu {
    /// `npu1` or `npu2`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Npu1 => "npu1",
            Self::Npu2 => "npu2",
        }
    }

    /// The architecture of its tiles, which names HSA's agents and an hsaco's sections.
    #[must_use]
    pub const fn arch(self) -> &'static str {
        match self {
            Self::Npu1 => "aie2",
            Self::Npu2 => "aie2p",
        }
    }

    /// The widest partition that a kernel can have.
    #[must_use]
    pub const fn columns(self) -> u32 {
        match self {
            Self::Npu1 => 4,
            Self::Npu2 => 8,
        }
    }
}

impl fmt::Display for Npu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Npu {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "npu1" => Ok(Self::Npu1),
            "npu2" => Ok(Self::Npu2),
            _ => Err(Error::UnknownNpu { name: name.into() }),
        }
    }
}

/// What an image for an NPU was compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compiled {
    /// The generation that it runs on.
    pub target: Npu,
    /// The grid that is part of its instruction stream; `None` is a single program.
    pub grid: Option<Grid>,
}

impl Compiled {
    /// For a kernel without a grid.
    #[must_use]
    pub const fn for_target(target: Npu) -> Self {
        Self { target, grid: None }
    }

    /// The grid that the kernel was compiled with: the only one that it can be launched over.
    #[must_use]
    pub const fn with_grid(mut self, grid: Grid) -> Self {
        self.grid = Some(grid);
        self
    }

    /// Refuses every grid but the compiled one.
    pub(crate) fn check_grid(&self, plan: &Plan, grid: Grid) -> Result<(), Error> {
        let compiled = self.grid.unwrap_or(Grid::ONE);
        if grid == compiled {
            return Ok(());
        }
        Err(Error::Grid {
            kernel: plan.name(),
            grid,
            fault: GridFault::Frozen { compiled },
        })
    }
}

/// Whether launches look for inputs that the kernel wrote: `NPU_RUNTIME_VERIFY_DIRECTIONS` is set,
/// and not to 0.
pub(crate) fn verifies_directions() -> bool {
    let value = std::env::var_os("NPU_RUNTIME_VERIFY_DIRECTIONS");
    value.is_some_and(|value| !value.is_empty() && value != "0")
}

/// A memory argument on its way to the device.
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    pub(crate) memory: Memory,
    pub(crate) direction: Direction,
    /// The argument's position in the signature.
    pub(crate) index: usize,
}

impl Operand {
    /// Its logical size.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.len * self.memory.primitive.size()
    }

    /// What the host has there.
    pub(crate) fn content(&self) -> &[u8] {
        // SAFETY: the launch's arguments borrow as many bytes for longer than an operand lives.
        unsafe { std::slice::from_raw_parts(self.memory.address, self.bytes()) }
    }
}

/// The operands of a launch whose arguments have passed the plan's check, in the device's order.
pub(crate) fn operands(plan: &Plan, args: &[Arg<'_>]) -> impl Iterator<Item = Operand> {
    let all = plan.parameters().zip(args).enumerate();
    all.filter_map(|(index, ((parameter, _), arg))| {
        match (&parameter.kind, arg.value()) {
            (Kind::Memory { direction, .. }, Value::Memory(memory)) => Some(Operand {
                memory: *memory,
                direction: *direction,
                index,
            }),
            // A scalar is part of the instruction stream already.
            _ => None,
        }
    })
}

/// How many operands every launch of a kernel has.
pub(crate) fn operand_count(plan: &Plan) -> usize {
    let is_memory = |kind: &Kind| matches!(kind, Kind::Memory { .. });
    let parameters = plan.signature().parameters.iter();
    parameters
        .filter(|parameter| is_memory(&parameter.kind))
        .count()
}
