//! The contract of a kernel: how many elements its arguments need, by name, by scalar or by grid,
//! so that a launch can check what keeps the kernel within its arguments.

use crate::{Parameter, Signature};
use std::borrow::Cow;
use std::fmt;

/// What keeps a kernel's reads and writes within its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Bounds {
    /// The caller. What a launch checks does not suffice, as far as is known, so launching is
    /// `unsafe`.
    Unchecked,
    /// The checks of a launch: whoever built the kernel declared its extents.
    Declared,
    /// The checks of a launch: the MLIR proves that they suffice.
    Proven,
}

/// How large one dimension of a memory argument must be, beyond what its type says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Extent {
    /// Of any size.
    Any,
    /// Exactly this size.
    Exactly(u64),
    /// The size of every other dimension that has this name.
    Same(Cow<'static, str>),
    /// At least the product of these.
    AtLeast(Cow<'static, [Factor]>),
}

impl Extent {
    /// [`Extent::Same`], for constants in generated launchers.
    #[must_use]
    pub const fn same(name: &'static str) -> Self {
        Self::Same(Cow::Borrowed(name))
    }

    /// [`Extent::AtLeast`], for constants in generated launchers.
    #[must_use]
    pub const fn at_least(factors: &'static [Factor]) -> Self {
        Self::AtLeast(Cow::Borrowed(factors))
    }
}

/// What an [`Extent`] is a product of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Factor {
    /// A constant.
    Number(u64),
    /// The value of the parameter at this position, an integer scalar.
    Scalar(usize),
    /// The number of programs along x (0), y (1) or z (2).
    Grid(usize),
}

/// The names of a grid's dimensions in an extent.
pub const GRID: [&str; 3] = ["grid.x", "grid.y", "grid.z"];

impl Signature {
    /// An extent as people write it: `n`, `1024`, `rows*cols`, `grid.x*256`; `_` for any.
    #[must_use]
    pub fn extent_text(&self, extent: &Extent) -> String {
        match extent {
            Extent::Any => "_".to_owned(),
            Extent::Exactly(size) => size.to_string(),
            Extent::Same(name) => plain_or_value(name),
            Extent::AtLeast(factors) => {
                let factors = factors.iter().map(|factor| self.factor_text(*factor));
                factors.collect::<Vec<_>>().join("*")
            }
        }
    }

    /// The extents of a parameter of this signature: `n`, `[rows, cols]`; empty if it has none.
    #[must_use]
    pub fn extents_text(&self, parameter: &Parameter) -> String {
        let mut extents = parameter
            .extents
            .iter()
            .map(|extent| self.extent_text(extent));
        match (parameter.extents.len(), extents.next()) {
            (_, None) => String::new(),
            (1, Some(only)) => only,
            (_, Some(first)) => {
                let all: Vec<_> = std::iter::once(first).chain(extents).collect();
                format!("[{}]", all.join(", "))
            }
        }
    }

    fn factor_text(&self, factor: Factor) -> String {
        match factor {
            Factor::Number(number) => number.to_string(),
            Factor::Scalar(position) => {
                let parameter = self.parameters.get(position);
                parameter.map_or_else(|| "?".to_owned(), |it| plain_or_value(&it.name))
            }
            Factor::Grid(axis) => GRID.get(axis).copied().unwrap_or("?").to_owned(),
        }
    }
}

/// A name; as MLIR has it, with `%`, where it would mean something else in an extent.
fn plain_or_value(name: &str) -> String {
    let means_else = name == "_"
        || name.starts_with(|c: char| c.is_ascii_digit())
        || name.starts_with("grid.")
        || name.contains('-');
    match means_else {
        true => format!("%{name}"),
        false => name.to_owned(),
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unchecked => "unchecked",
            Self::Declared => "declared",
            Self::Proven => "proven",
        })
    }
}
