//! The AIE toolchain: what npu kernels are compiled and packed with.
//!
//! Each program is searched for on its own, since they come from four packages (mlir-air, mlir-aie,
//! Peano, XRT); what is missing is no error until a request needs it. `aircc` and `aiecc` find other
//! programs by `PATH`, so [`AieTools::companions`] says what has to come first there: then what
//! runs is what was fingerprinted.

mod dialect;
mod judge;
mod need;
mod packagers;
mod search;
mod sources;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use dialect::{AIECC_OPTIONS, Aiecc, Aircc, Dialect};
pub use need::{Companions, Format, MissingTool, MissingTools, Packer};
pub use search::{AieSearch, HsacoPacker};

use super::memo::Found;
use super::{Memo, Probe, Rejected, Tool, wheel};

/// A program of the AIE toolchain, or Peano, which is several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolName {
    /// Lowers linalg to AIR.
    AirOpt,
    /// Compiles AIR; runs `aiecc`.
    Aircc,
    /// Compiles AIE; runs Peano and the packaging programs.
    Aiecc,
    /// The LLVM for AI Engine cores: `opt`, `llc`, `clang`, `ld.lld`.
    Peano,
    /// Makes PDIs.
    Bootgen,
    /// Makes xclbins.
    Xclbinutil,
    /// Makes full ELFs.
    AiebuAsm,
    /// Packs hsacos.
    AieHsaco,
    /// What `aie-hsaco` adds sections with.
    LlvmObjcopy,
}

impl ToolName {
    /// Every one, in the order in which a build runs them.
    pub const ALL: [Self; 9] = [
        Self::AirOpt,
        Self::Aircc,
        Self::Aiecc,
        Self::Peano,
        Self::Bootgen,
        Self::Xclbinutil,
        Self::AiebuAsm,
        Self::AieHsaco,
        Self::LlvmObjcopy,
    ];

    /// The program's file name; Peano goes by `peano`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AirOpt => "air-opt",
            Self::Aircc => "aircc",
            Self::Aiecc => "aiecc",
            Self::Peano => "peano",
            Self::Bootgen => "bootgen",
            Self::Xclbinutil => "xclbinutil",
            Self::AiebuAsm => "aiebu-asm",
            Self::AieHsaco => "aie-hsaco",
            Self::LlvmObjcopy => "llvm-objcopy",
        }
    }

    /// Where it comes from, as the end of "try: ".
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::AirOpt | Self::Aircc => {
                "install the mlir-air wheel (pip install mlir-air), or name its installation with --air or MLIR_AIR_INSTALL_DIR"
            }
            Self::Aiecc | Self::Bootgen => {
                "install the mlir-aie wheel (pip install mlir-aie), or name its installation with --aie or MLIR_AIE_INSTALL_DIR"
            }
            Self::Peano => {
                "install the llvm-aie wheel (pip install llvm-aie), or name its installation with --peano or PEANO_INSTALL_DIR"
            }
            Self::Xclbinutil | Self::AiebuAsm => {
                "install XRT, or name its installation with --xrt or XILINX_XRT"
            }
            Self::AieHsaco => {
                "leave hsaco-packer out to use the built-in packer, or name a program with --hsaco-packer"
            }
            Self::LlvmObjcopy => "install llvm, or name the program with AIE_OBJCOPY_PATH",
        }
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Peano's programs.
const PEANO: [(&str, &str); 4] = [
    ("peano-llc", "llc"),
    ("peano-opt", "opt"),
    ("peano-clang", "clang"),
    ("peano-ld.lld", "ld.lld"),
];
/// The files of Peano's own that its linker puts into cores.
const PEANO_LIBRARIES: &str = "peano-libraries";

/// What tools are called in keys.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let peano = PEANO.iter().map(|(name, _)| *name);
    let all = ToolName::ALL.iter().map(|tool| tool.name());
    all.chain(peano).chain([PEANO_LIBRARIES])
}

/// What was found of the toolchain, and what was not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AieTools {
    /// Lowers linalg to AIR.
    pub air_opt: Searched<Arc<Tool>>,
    /// Compiles AIR.
    pub aircc: Searched<Aircc>,
    /// Compiles AIE.
    pub aiecc: Searched<Aiecc>,
    /// Compiles the code of cores.
    pub peano: Searched<Peano>,
    /// Makes PDIs.
    pub bootgen: Searched<Arc<Tool>>,
    /// Makes xclbins.
    pub xclbinutil: Searched<Arc<Tool>>,
    /// Makes full ELFs.
    pub aiebu_asm: Searched<Arc<Tool>>,
    /// Packs hsacos, where the built-in packer is not to.
    pub aie_hsaco: Searched<Arc<Tool>>,
    /// What `aie-hsaco` needs.
    pub llvm_objcopy: Searched<Arc<Tool>>,
}

/// What a search for one tool came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Searched<T> {
    /// What was searched for.
    pub name: ToolName,
    /// Where the only place to look in was configured, if it was.
    pub configured: Option<String>,
    /// The first place that can be used.
    pub found: Option<T>,
    /// What was looked at before it; all places if there is none.
    pub rejected: Vec<Rejected>,
}

/// An installation of Peano.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peano {
    /// What `--peano=` takes: the directory that holds `bin`.
    #[serde(with = "super::stored_path")]
    pub directory: PathBuf,
    /// The version of its `llc`.
    pub version: String,
    /// The AIE targets of its `llc`: `aie2`, `aie2p`, ….
    pub targets: Vec<String>,
    /// `llc`, and `opt`, `clang` and `ld.lld` as far as they are there; then what is linked into
    /// cores, unless a wheel's record tells it.
    pub tools: Vec<Arc<Tool>>,
}

impl Tool {
    /// The wheel that it came with, as `mlir_aie-1.4.0`.
    #[must_use]
    pub fn wheel(&self) -> Option<&str> {
        let mut files = self.identity.files.iter();
        files.find_map(|file| wheel::distribution(&file.name))
    }
}

impl AieTools {
    /// Searches for all tools. An unchanged machine costs one look at each file that the outcome
    /// depends on. [`Memo::save`] is the caller's to call.
    pub fn discover(search: &AieSearch, memo: &mut Memo, probe: &dyn Probe) -> Arc<Self> {
        let digest = search.digest();
        if let Some(Found::Aie(found)) = memo.discovery(digest) {
            return Arc::clone(found);
        }
        judge::examine(search, digest, memo, probe)
    }

    /// Every file of every tool that was found.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        ToolName::ALL
            .into_iter()
            .flat_map(|name| self.programs(name))
            .flat_map(|tool| tool.files())
    }

    /// What was found under a name: nothing, a program, or Peano's programs.
    pub fn programs(&self, name: ToolName) -> impl Iterator<Item = &Arc<Tool>> {
        let peano = self
            .peano
            .found
            .iter()
            .filter(move |_| name == ToolName::Peano);
        let peano = peano.flat_map(|peano| &peano.tools);
        self.program(name).into_iter().chain(peano)
    }

    /// The program of a name other than Peano's.
    fn program(&self, name: ToolName) -> Option<&Arc<Tool>> {
        match name {
            ToolName::AirOpt => self.air_opt.found.as_ref(),
            ToolName::Aircc => self.aircc.found.as_ref().map(|aircc| &aircc.tool),
            ToolName::Aiecc => self.aiecc.found.as_ref().map(|aiecc| &aiecc.tool),
            ToolName::Peano => None,
            ToolName::Bootgen => self.bootgen.found.as_ref(),
            ToolName::Xclbinutil => self.xclbinutil.found.as_ref(),
            ToolName::AiebuAsm => self.aiebu_asm.found.as_ref(),
            ToolName::AieHsaco => self.aie_hsaco.found.as_ref(),
            ToolName::LlvmObjcopy => self.llvm_objcopy.found.as_ref(),
        }
    }

    /// What was looked at before a tool was found, and where the only place was configured.
    #[must_use]
    pub fn rejected(&self, name: ToolName) -> (&[Rejected], Option<&str>) {
        fn parts<T>(searched: &Searched<T>) -> (&[Rejected], Option<&str>) {
            (&searched.rejected, searched.configured.as_deref())
        }
        match name {
            ToolName::AirOpt => parts(&self.air_opt),
            ToolName::Aircc => parts(&self.aircc),
            ToolName::Aiecc => parts(&self.aiecc),
            ToolName::Peano => parts(&self.peano),
            ToolName::Bootgen => parts(&self.bootgen),
            ToolName::Xclbinutil => parts(&self.xclbinutil),
            ToolName::AiebuAsm => parts(&self.aiebu_asm),
            ToolName::AieHsaco => parts(&self.aie_hsaco),
            ToolName::LlvmObjcopy => parts(&self.llvm_objcopy),
        }
    }
}
