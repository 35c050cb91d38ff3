//! Values that flags, variables and files have in common.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use npu_runtime::Grid;

use crate::toolchain::Format;
use crate::value::{integer, integers};
use crate::{nearest, value};

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

/// A limit, or the word that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound<T> {
    /// No more than this.
    To(T),
    /// Without limit.
    Unlimited,
}

/// A number of bytes that is written with a unit, e.g. `5GiB` or `500M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// A number of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

/// A time that is written with units, e.g. `90d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age(pub Duration);

impl<T> Bound<T> {
    pub(super) fn map<U>(self, with: impl FnOnce(T) -> U) -> Option<U> {
        match self {
            Self::To(limit) => Some(with(limit)),
            Self::Unlimited => None,
        }
    }
}

impl<T: FromStr> FromStr for Bound<T>
where
    T::Err: ToString,
{
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "unlimited" => Ok(Self::Unlimited),
            limit => limit.parse().map(Self::To).map_err(|error| {
                let error: T::Err = error;
                format!("{}, or 'unlimited'", error.to_string())
            }),
        }
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = value::size(text).map(Self);
        size.ok_or_else(|| format!("'{text}' is no size; give bytes, or a unit as in 500M or 5GiB"))
    }
}

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = value::integer(text, 0..=u64::MAX).map(Self);
        count.ok_or_else(|| format!("'{text}' is no number"))
    }
}

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text {
            "0" => Ok(Duration::ZERO),
            _ => humantime::parse_duration(text).map_err(|_| ()),
        };
        parsed.map(Self).map_err(|()| {
            format!("'{text}' is no time; give one with a unit, as in 90d, 12h or '1w 2d'")
        })
    }
}

/// Reads a time-out: a number of seconds, or units as in `90s`, `10m`, `1h 30m`.
///
/// # Errors
/// Says what is understood.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    let parsed = match integer(text.trim(), 0..=u64::MAX) {
        Some(seconds) => Some(Duration::from_secs(seconds)),
        None => humantime::parse_duration(text).ok(),
    };
    parsed.filter(|timeout| !timeout.is_zero()).ok_or_else(|| {
        format!("'{text}' is no time above zero; give seconds, or units as in 90s, 10m or '1h 30m'")
    })
}

/// Reads a number of jobs.
///
/// # Errors
/// Says what the limits are.
pub fn parse_jobs(text: &str) -> Result<u32, String> {
    integer(text, 1..=MAX_JOBS)
        .ok_or_else(|| format!("'{text}' is no number of jobs from 1 to {MAX_JOBS}"))
}

/// More compilers at once than any machine bears.
const MAX_JOBS: u32 = 1024;

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

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("1k", 1024),
            ("5GiB", 5 << 30),
            ("5 gb", 5 << 30),
            ("16777215T", 16_777_215 << 40),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in [
            "",
            "-1",
            "GiB",
            "1.5G",
            "1X",
            "16777216T",
            "99999999999999999999",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_bound_may_be_none() {
        assert_eq!("unlimited".parse(), Ok(Bound::<Bytes>::Unlimited));
        assert_eq!(
            "2d".parse(),
            Ok(Bound::To(Age(Duration::from_secs(172_800))))
        );
        assert_eq!("7".parse(), Ok(Bound::To(Count(7))));
        let refused = "x".parse::<Bound<Count>>().unwrap_err();
        assert_eq!(refused, "'x' is no number, or 'unlimited'");
    }
}
