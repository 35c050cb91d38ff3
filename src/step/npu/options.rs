//! What the compilers can be told besides the kernel: `--option NAME=VALUE`.

use crate::kernel::{Device, Level};
use crate::step::cpu::March;
use crate::{nearest, value};

/// Options of the targets; what is not given is the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetOptions {
    /// Which CPU the cpu target compiles for; its architecture's baseline if not given.
    pub march: Option<March>,
    /// Whether f32 arithmetic may be emulated in bf16, without which f32 matrix products have no
    /// instruction.
    pub bf16_emulation: Option<bool>,
    /// How aircc tiles the loops around shim DMA transfers, outermost first.
    pub tiling_sizes: Option<Vec<u32>>,
    /// Bytes of stack on each core.
    pub stack_size: Option<u32>,
    /// The kernel's name in the xclbin.
    pub xclbin_kernel_name: Option<String>,
    /// Its instance's name in the xclbin.
    pub xclbin_instance_name: Option<String>,
    /// Its number in the xclbin.
    pub xclbin_kernel_id: Option<u32>,
    /// The part of the array that linalg and AIR kernels are placed on.
    pub device: Option<Device>,
    /// Rows and columns of the data, where one is no multiple of the block's.
    pub actual_sizes: Option<[u64; 2]>,
}

/// The names of all options, in the order in which they are listed.
const NAMES: [&str; 9] = [
    "actual-sizes",
    "bf16-emulation",
    "device",
    "march",
    "stack-size",
    "tiling-sizes",
    "xclbin-instance-name",
    "xclbin-kernel-id",
    "xclbin-kernel-name",
];

/// The tiling that Triton-XDNA and mlir-air's own backend ask for.
pub(super) const TILING_SIZES: [u32; 2] = [4, 4];
/// What Triton-XDNA asks for; aircc's own default is 1024.
pub(super) const STACK_SIZE: u32 = 2048;
/// The names that the tools give to a kernel in an xclbin.
const XCLBIN_KERNEL: &str = "MLIR_AIE";
const XCLBIN_INSTANCE: &str = "MLIRAIE";
/// `kernel:instance` and a NUL have 64 bytes in an xclbin's IP_LAYOUT.
const XCLBIN_NAME_LIMIT: usize = 63;
/// More tiling sizes than loops that any transfer has.
const MOST_SIZES: usize = 8;

impl TargetOptions {
    /// Takes one option.
    ///
    /// # Errors
    /// Says what is understood.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let refused = |expected: &str| format!("{name}={value}: {expected} was expected");
        match name {
            "march" => self.march = Some(value.parse()?),
            "bf16-emulation" => {
                self.bf16_emulation = Some(match value {
                    "true" | "1" | "on" => true,
                    "false" | "0" | "off" => false,
                    _ => return Err(refused("true or false")),
                });
            }
            "stack-size" => {
                let size = value::size(value).filter(|size| size.is_multiple_of(32) && *size > 0);
                let size = size.and_then(|size| u32::try_from(size).ok());
                let expected = "a number of bytes, a multiple of 32";
                self.stack_size = Some(size.ok_or_else(|| refused(expected))?);
            }
            "tiling-sizes" => {
                let sizes = value::integers(value, &(1..=u32::MAX));
                let sizes = sizes.filter(|sizes| sizes.len() <= MOST_SIZES);
                self.tiling_sizes =
                    Some(sizes.ok_or_else(|| refused("numbers above zero, such as 4,4"))?);
            }
            "xclbin-kernel-name" => self.xclbin_kernel_name = Some(xclbin_name(name, value)?),
            "xclbin-instance-name" => self.xclbin_instance_name = Some(xclbin_name(name, value)?),
            "xclbin-kernel-id" => {
                let id = value::integer(value, 0..=u32::MAX)
                    .ok_or_else(|| refused("a number such as 0x901"))?;
                self.xclbin_kernel_id = Some(id);
            }
            "device" => {
                let device = Device::from_word(value);
                self.device = Some(device.ok_or_else(|| {
                    refused("npu1, npu1_1col to npu1_3col, npu2 or npu2_1col to npu2_7col")
                })?);
            }
            "actual-sizes" => {
                let sizes = value::integers(value, &(1..=u64::MAX));
                match sizes.as_deref() {
                    Some([rows, columns]) => self.actual_sizes = Some([*rows, *columns]),
                    _ => return Err(refused("rows and columns, such as 1000,512")),
                }
            }
            _ => {
                return Err(format!(
                    "there is no option '{name}'{}; there are {}, of which march is for cpu and the others are for npu1 and npu2",
                    nearest::hint(nearest::of(name, NAMES).as_deref()),
                    NAMES.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// These options where they say something, `below` where they do not.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            march: self.march.or(below.march),
            bf16_emulation: self.bf16_emulation.or(below.bf16_emulation),
            tiling_sizes: self.tiling_sizes.or(below.tiling_sizes),
            stack_size: self.stack_size.or(below.stack_size),
            xclbin_kernel_name: self.xclbin_kernel_name.or(below.xclbin_kernel_name),
            xclbin_instance_name: self.xclbin_instance_name.or(below.xclbin_instance_name),
            xclbin_kernel_id: self.xclbin_kernel_id.or(below.xclbin_kernel_id),
            device: self.device.or(below.device),
            actual_sizes: self.actual_sizes.or(below.actual_sizes),
        }
    }

    /// Whether it says anything to the npu targets.
    #[must_use]
    pub fn is_for_npu(&self) -> bool {
        let other = Self {
            march: self.march.clone(),
            ..Self::default()
        };
        *self != other
    }

    /// An option that says nothing at this level, and why.
    #[must_use]
    pub fn meaningless(&self, level: Level) -> Option<(&'static str, &'static str)> {
        if level != Level::Linalg && self.actual_sizes.is_some() {
            return Some((
                "actual-sizes",
                "it says how the grid of a linalg-level kernel covers its data",
            ));
        }
        if level != Level::Aie {
            return None;
        }
        if self.tiling_sizes.is_some() {
            return Some((
                "tiling-sizes",
                "they are for aircc, which AIE-level kernels do not go through",
            ));
        }
        if self.device.is_some() {
            return Some(("device", "an AIE-level file says its own in aie.device"));
        }
        None
    }

    /// The kernel's name in the xclbin.
    #[must_use]
    pub fn xclbin_kernel(&self) -> &str {
        self.xclbin_kernel_name.as_deref().unwrap_or(XCLBIN_KERNEL)
    }

    /// `kernel:instance` as it stands in the xclbin.
    ///
    /// # Errors
    /// When it is too long for xclbinutil, which would then break off in the middle.
    pub fn xclbin_name(&self) -> Result<String, String> {
        let instance = self.xclbin_instance_name.as_deref();
        let name = format!(
            "{}:{}",
            self.xclbin_kernel(),
            instance.unwrap_or(XCLBIN_INSTANCE)
        );
        if name.len() <= XCLBIN_NAME_LIMIT {
            return Ok(name);
        }
        Err(format!(
            "the xclbin's '{name}' has {} characters, and {XCLBIN_NAME_LIMIT} is the most that an \
             xclbin holds; shorten xclbin-kernel-name or xclbin-instance-name",
            name.len()
        ))
    }
}

/// A name that stands in the XML of an xclbin and on xclbinutil's command line.
fn xclbin_name(option: &str, name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.is_empty() && name.chars().all(plain) {
        return Ok(name.to_owned());
    }
    Err(format!(
        "{option}={name}: letters, digits and '_' were expected"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> Result<TargetOptions, String> {
        let mut options = TargetOptions::default();
        options.set(name, value).map(|()| options)
    }

    #[test]
    fn numbers_are_read_as_the_tools_read_them() {
        assert_eq!(
            set("xclbin-kernel-id", "0x901").unwrap().xclbin_kernel_id,
            Some(0x901)
        );
        assert_eq!(set("stack-size", "2KiB").unwrap().stack_size, Some(2048));
        let tiled = set("tiling-sizes", "4,2,1").unwrap();
        assert_eq!(tiled.tiling_sizes, Some(vec![4, 2, 1]));
        assert_eq!(
            set("device", "npu2_4col").unwrap().device.unwrap().columns,
            4
        );
    }

    #[test]
    fn what_is_not_understood_is_refused_with_what_is() {
        for (name, value, expected) in [
            ("stack-size", "big", "multiple of 32"),
            ("stack-size", "0", "multiple of 32"),
            ("stack-size", "+64", "multiple of 32"),
            ("stack-size", "4GiB", "multiple of 32"),
            ("tiling-sizes", "4,,4", "such as 4,4"),
            ("tiling-sizes", "4,0", "such as 4,4"),
            ("bf16-emulation", "maybe", "true or false"),
            ("device", "xcvc1902", "npu1, npu1_1col"),
            ("actual-sizes", "9", "rows and columns"),
            ("actual-sizes", "9,9,9", "rows and columns"),
            ("xclbin-kernel-id", "0xzz", "such as 0x901"),
            ("xclbin-kernel-name", "a:b", "letters, digits"),
            ("xclbin-kernel-name", "", "letters, digits"),
            ("stak-size", "4", "did you mean 'stack-size'"),
        ] {
            let error = set(name, value).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_name_that_breaks_xclbinutil_is_refused_beforehand() {
        let longest = "k".repeat(63 - ":MLIRAIE".len());
        let fits = set("xclbin-kernel-name", &longest).unwrap();
        assert_eq!(fits.xclbin_name().unwrap().len(), 63);
        let over = set("xclbin-kernel-name", &format!("{longest}k")).unwrap();
        assert!(over.xclbin_name().unwrap_err().contains("64 characters"));
    }
}
