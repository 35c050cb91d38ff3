//! The machines that kernels are compiled for, and the `aie.device` spellings that name them.

use std::fmt;
use std::str::FromStr;

use crate::nearest;

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Phoenix and Hawk Point: AIE2, 4 columns.
    Npu1,
    /// Strix, Strix Halo, Krackan: AIE2P, 8 columns.
    Npu2,
    /// A shared object for the host's own processor.
    Cpu,
}

impl Target {
    /// Whether a runtime loads what is built for it.
    #[must_use]
    pub fn is_loaded_by(self, runtime: npu_runtime::Runtime) -> bool {
        (runtime == npu_runtime::Runtime::Cpu) == (self == Self::Cpu)
    }

    /// Every target, in the order in which they are listed to the user.
    pub const ALL: [Self; 3] = [Self::Npu1, Self::Npu2, Self::Cpu];

    /// `npu1`, `npu2` or `cpu`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Npu1 => "npu1",
            Self::Npu2 => "npu2",
            Self::Cpu => "cpu",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{name}' is not a target: choose npu1, npu2 or cpu{}", nearest::hint(.nearest.as_deref()))]
pub struct ParseTargetError {
    /// What was given.
    pub name: String,
    /// The target whose name is closest, if one is close.
    pub nearest: Option<String>,
}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Self, ParseTargetError> {
        Self::ALL
            .into_iter()
            .find(|target| target.name() == text)
            .ok_or_else(|| ParseTargetError {
                name: text.chars().take(80).collect(),
                nearest: nearest::of(text, Self::ALL.map(Self::name)),
            })
    }
}

/// The NPU that an `aie.device` is written for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// `npu1` or `npu2`.
    pub target: Target,
    /// How many columns of the array it takes.
    pub columns: u32,
    /// The spelling in the MLIR: `npu1_2col`, or the number of the generic form.
    pub spelling: String,
}

impl Device {
    /// Reads the word in `aie.device(…)`: `npu1`, `npu2`, `npu1_{1,2,3}col`, `npu2_{1..7}col`,
    /// and the names of 2023, `ipu` and `npu`. `None` for anything else, such as the
    /// placeholder of mlir-aie's own tests or a Versal part.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let (target, columns) = match word {
            "npu1" | "npu" | "ipu" => (Target::Npu1, 4),
            "npu2" => (Target::Npu2, 8),
            _ => {
                let (family, columns) = word.strip_suffix("col")?.split_once('_')?;
                let columns = match columns.as_bytes() {
                    [digit @ b'1'..=b'9'] => u32::from(digit - b'0'),
                    _ => return None,
                };
                match (family, columns) {
                    // `npu1_4col` was the name of the whole array before it became `npu1`.
                    ("npu1", 1..=4) => (Target::Npu1, columns),
                    ("npu2", 1..=7) => (Target::Npu2, columns),
                    _ => return None,
                }
            }
        };
        Some(Self {
            target,
            columns,
            spelling: word.to_owned(),
        })
    }

    /// Reads the number of the generic form, `"aie.device"() <{device = 8 : i32}>`; 1 to 3 are
    /// Versal parts.
    #[must_use]
    pub fn from_number(number: &str) -> Option<Self> {
        let (target, columns) = match number.parse::<u32>().ok()? {
            4 => (Target::Npu1, 4),
            n @ 5..=7 => (Target::Npu1, n - 4),
            8 => (Target::Npu2, 8),
            n @ 9..=15 => (Target::Npu2, n - 8),
            _ => return None,
        };
        Some(Self {
            target,
            columns,
            spelling: number.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for target in Target::ALL {
            assert_eq!(target.to_string().parse(), Ok(target));
        }
    }

    #[test]
    fn an_unknown_target_names_the_choices_and_the_nearest() {
        let error = "npu".parse::<Target>().unwrap_err().to_string();
        assert_eq!(
            error,
            "'npu' is not a target: choose npu1, npu2 or cpu; did you mean 'npu1'?"
        );
        let error = "gpu".parse::<Target>().unwrap_err().to_string();
        assert!(error.ends_with("did you mean 'cpu'?"), "{error}");
        let error = "xcvc1902".parse::<Target>().unwrap_err().to_string();
        assert!(error.ends_with("choose npu1, npu2 or cpu"), "{error}");
    }

    #[test]
    fn every_npu_device_has_its_columns() {
        let columns = |word| Device::from_word(word).map(|d| (d.target, d.columns));
        assert_eq!(columns("npu1"), Some((Target::Npu1, 4)));
        assert_eq!(columns("npu1_3col"), Some((Target::Npu1, 3)));
        assert_eq!(columns("npu2"), Some((Target::Npu2, 8)));
        assert_eq!(columns("npu2_7col"), Some((Target::Npu2, 7)));
        assert_eq!(columns("ipu"), Some((Target::Npu1, 4)));
        for other in [
            "NPUDEVICE",
            "xcvc1902",
            "npu2_8col",
            "npu1_0col",
            "npu3",
            "_col",
            "",
        ] {
            assert_eq!(columns(other), None, "{other}");
        }
    }

    #[test]
    fn generic_numbers_are_those_of_the_dialect() {
        let number = |n| Device::from_number(n).map(|d| (d.target, d.columns));
        assert_eq!(number("4"), Some((Target::Npu1, 4)));
        assert_eq!(number("5"), Some((Target::Npu1, 1)));
        assert_eq!(number("7"), Some((Target::Npu1, 3)));
        assert_eq!(number("8"), Some((Target::Npu2, 8)));
        assert_eq!(number("9"), Some((Target::Npu2, 1)));
        assert_eq!(number("15"), Some((Target::Npu2, 7)));
        for other in ["1", "3", "16", "", "-4", "99999999999"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
