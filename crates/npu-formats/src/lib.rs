//! The binary formats of AIE artifacts: hsaco, full ELF, xclbin, PDI and instruction stream.
//!
//! A leaf: it knows bytes and files, and nothing of caches, steps or tools. Every reader takes
//! hostile bytes: each offset is checked in 64-bit arithmetic before it is used, nothing is copied
//! that can be borrowed, and what is allocated is bounded by the size of the input. The authority
//! for the hsaco is ROCR's `amd_aie_section.h`; a file's readers differ in what they accept, so
//! [`verdict`] says of each of them whether it would take a file, and why not.
//!
//! | module | what it knows |
//! |---|---|
//! | [`section`] | the AIE section of one architecture: read and written |
//! | [`container`] | the ELF64 around it: read, made, edited |
//! | [`full_elf`] | the ELF32 of a `FullElf` kernel, over [`elf32`] |
//! | [`xclbin`], [`pdi`], [`insts`] | what kernels are packed from |
//! | [`core_elf`] | the code of one core, which a PDI holds |
//! | [`spec`], [`pack`] | aie-hsaco's command line, and what it does |
//! | [`dump`], [`verdict`] | what is in a file, and who would refuse it |

mod bytes;
pub mod container;
pub mod core_elf;
pub mod dump;
mod edit;
pub mod elf32;
pub mod file;
pub mod full_elf;
pub mod insts;
mod judge;
mod layout;
mod metadata;
pub mod pack;
mod packers;
mod parts;
pub mod pdi;
mod relocation;
mod rocr_elf;
pub mod section;
pub mod spec;
pub mod verdict;
mod write;
pub mod xclbin;

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// An AIE architecture, as ROCR names it and as the section of an hsaco is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// Phoenix and Hawk Point: npu1.
    Aie2,
    /// Strix, Strix Halo and Krackan: npu2.
    Aie2p,
}

impl Arch {
    /// Every architecture, in the order in which aie-hsaco-dump lists them.
    pub const ALL: [Self; 2] = [Self::Aie2, Self::Aie2p];

    /// `aie2` or `aie2p`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aie2 => "aie2",
            Self::Aie2p => "aie2p",
        }
    }

    /// The columns that ROCR's agent for it reports.
    #[must_use]
    pub const fn columns(self) -> u32 {
        match self {
            // Of the five columns of the device one has no shim DMA.
            Self::Aie2 => 4,
            Self::Aie2p => 8,
        }
    }

    /// The device generation in the first word of an instruction stream.
    #[must_use]
    pub const fn generation(self) -> u8 {
        match self {
            Self::Aie2 => 3,
            Self::Aie2p => 4,
        }
    }

    /// `EI_OSABI` of its full ELFs; `None` where there is no such format.
    #[must_use]
    pub const fn full_elf_osabi(self) -> Option<u8> {
        match self {
            Self::Aie2 => None,
            Self::Aie2p => Some(69),
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Arch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A name that is no architecture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no AIE architecture; there are aie2 (npu1) and aie2p (npu2)")]
pub struct UnknownArch(pub String);

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(name: &str) -> Result<Self, UnknownArch> {
        Self::ALL
            .into_iter()
            .find(|arch| arch.name() == name)
            .ok_or_else(|| UnknownArch(name.to_owned()))
    }
}

/// What a kernel of an hsaco consists of: `AieKernelKind` in ROCR's `amd_aie_section.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum KernelKind {
    /// An instruction stream, and the PDI that configures the array for it.
    PdiInsts,
    /// A full ELF, which holds both.
    FullElf,
}

impl KernelKind {
    /// The kind that a kernel table entry's word means.
    #[must_use]
    pub const fn from_word(word: u32) -> Option<Self> {
        match word {
            0 => Some(Self::PdiInsts),
            1 => Some(Self::FullElf),
            _ => None,
        }
    }

    /// The word in a kernel table entry.
    #[must_use]
    pub const fn word(self) -> u32 {
        match self {
            Self::PdiInsts => 0,
            Self::FullElf => 1,
        }
    }

    /// `PdiInsts` or `FullElf`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PdiInsts => "PdiInsts",
            Self::FullElf => "FullElf",
        }
    }
}
