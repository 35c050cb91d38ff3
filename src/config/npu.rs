//! What can be said about kernels for an NPU, by flags and in `npu-build.toml` alike.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use npu_runtime::Grid;

use crate::nearest;
use crate::step::npu::Options;
use crate::toolchain::Format;
use crate::value::integers;

/// What only the npu targets are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NpuChoices {
    /// The launch grid, which is compiled in.
    pub grid: Option<LaunchGrid>,
    /// The transform script that tiles a linalg-level kernel.
    pub transform: Option<PathBuf>,
    /// Options of the tools.
    pub options: Options,
    /// Files that the tools find in their directory under their own names.
    pub inputs: Vec<PathBuf>,
    /// Further arguments for aircc or aiecc.
    pub arguments: Vec<String>,
}

/// A choice of packaging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Package {
    /// A full ELF on npu2, an xclbin on npu1.
    #[default]
    Auto,
    /// This one.
    As(Format),
}

/// How many programs run along x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchGrid(pub [u32; 3]);

impl NpuChoices {
    /// Something of it that was said, as a flag.
    pub(crate) fn first_said(&self) -> Option<&'static str> {
        [
            ("--grid", self.grid.is_some()),
            ("--transform", self.transform.is_some()),
            ("--option of an NPU", self.options != Options::default()),
            ("--input", !self.inputs.is_empty()),
            ("an argument for aiecc", !self.arguments.is_empty()),
        ]
        .into_iter()
        .find_map(|(flag, is_said)| is_said.then_some(flag))
    }

    /// These choices where they say something, `below` where they do not.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        fn both<T>(mut first: Vec<T>, second: Vec<T>) -> Vec<T> {
            first.extend(second);
            first
        }
        Self {
            grid: self.grid.or(below.grid),
            transform: self.transform.or(below.transform),
            options: self.options.over(below.options),
            inputs: both(below.inputs, self.inputs),
            arguments: both(below.arguments, self.arguments),
        }
    }
}

impl NpuChoices {
    /// Paths are relative to the directory of the file that they stand in.
    #[must_use]
    pub(crate) fn in_directory(mut self, directory: &Path) -> Self {
        self.transform = self.transform.map(|path| directory.join(path));
        for input in &mut self.inputs {
            *input = directory.join(&input);
        }
        self
    }
}

impl FromStr for Package {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let mut formats = Format::ALL.into_iter();
        let format = formats.find(|format| format.name() == text);
        format.map(Self::As).ok_or_else(|| {
            let names = ["auto", "xclbin", "elf", "pdi"];
            format!(
                "'{text}' is no format: choose auto, xclbin, elf or pdi{}",
                nearest::hint(nearest::of(text, names).as_deref())
            )
        })
    }
}

impl TryFrom<Grid> for LaunchGrid {
    type Error = String;

    fn try_from(grid: Grid) -> Result<Self, String> {
        let sizes = [grid.x, grid.y, grid.z];
        // The tools count in i32.
        match sizes
            .iter()
            .all(|size| (1..=i32::MAX as u32).contains(size))
        {
            true => Ok(Self(sizes)),
            false => Err(Self::refused(&format!("{},{},{}", grid.x, grid.y, grid.z))),
        }
    }
}

impl LaunchGrid {
    fn refused(text: &str) -> String {
        format!("'{text}' is no grid: give one to three numbers above zero, such as 8,4,1")
    }
}

impl fmt::Display for LaunchGrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "{x},{y},{z}")
    }
}

impl FromStr for LaunchGrid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || Self::refused(text);
        let numbers = integers(text, &(1..=i32::MAX as u32)).ok_or_else(refused)?;
        let grid = match *numbers {
            [x] => Grid::from(x),
            [x, y] => Grid::from((x, y)),
            [x, y, z] => Grid::from((x, y, z)),
            _ => return Err(refused()),
        };
        grid.try_into().map_err(|_: String| refused())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_up_to_three_dimensions() {
        assert_eq!("8".parse(), Ok(LaunchGrid([8, 1, 1])));
        assert_eq!("8,4".parse(), Ok(LaunchGrid([8, 4, 1])));
        assert_eq!("8, 4, 2".parse(), Ok(LaunchGrid([8, 4, 2])));
        for wrong in ["", "0", "8,0", "1,2,3,4", "x", "-1", "2147483648", "8,"] {
            assert!(wrong.parse::<LaunchGrid>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_format_names_the_nearest() {
        assert!("elff".parse::<Package>().unwrap_err().contains("'elf'"));
        assert_eq!("auto".parse(), Ok(Package::Auto));
    }
}
