//! What XRT reports, and what is wrong with artifacts that are meant for it.

use std::fmt;

/// XRT refused something, or a run on it did not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct XrtError {
    /// What was being done.
    pub doing: String,
    /// The state in which a run ended that should have been COMPLETED, 4: 5 ERROR, 6 ABORT,
    /// 8 TIMEOUT, 9 NORESPONSE (XRT's `ert_cmd_state`).
    pub state: Option<u32>,
    /// What XRT says.
    pub text: String,
    /// What it may come from, and what to do about it.
    pub advice: &'static str,
}

impl fmt::Display for XrtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "xrt: {}: {}", self.doing, self.text)?;
        if !self.advice.is_empty() {
            write!(f, "; {}", self.advice)?;
        }
        Ok(())
    }
}

/// What is wrong with an artifact for XRT.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum XrtFault {
    /// It is a PDI, which XRT can't launch.
    Pdi,
    /// It is no full ELF.
    NotFullElf,
    /// It is no xclbin.
    NotXclbin,
    /// An instruction stream that is not made of 4-byte words.
    Insts {
        /// Its size in bytes.
        size: usize,
    },
    /// The kernel's name is none that a C string can hold.
    KernelName,
}

impl fmt::Display for XrtFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pdi => f.write_str(
                "this is a PDI, which XRT can't launch; compile the kernel with `--format elf` for \
                 npu2 or `--format xclbin` for npu1",
            ),
            Self::NotFullElf => f.write_str(
                "this is no full ELF for XRT: it does not begin as a 32-bit ELF file does; compile \
                 the kernel with `--runtime xrt --format elf`",
            ),
            Self::NotXclbin => f.write_str(
                "this is no xclbin; compile the kernel with `--runtime xrt --format xclbin`",
            ),
            Self::Insts { size } => write!(
                f,
                "this instruction stream is damaged: it has {size} bytes, and is made of words of \
                 4; rebuild the kernel"
            ),
            Self::KernelName => {
                f.write_str("the kernel's name has a NUL in it; rebuild the kernel")
            }
        }
    }
}
