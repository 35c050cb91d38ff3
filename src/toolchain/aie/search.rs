//! Where to look for the AIE toolchain: values only, in the order in which they count.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::digest::{Digest, Hasher};
use crate::toolchain::Configured;

/// Which packer makes hsacos.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HsacoPacker {
    /// The toolchain's `aie-hsaco` where it is found, else the built-in one.
    #[default]
    Auto,
    /// The built-in one.
    Builtin,
    /// This program.
    Program(PathBuf),
}

impl HsacoPacker {
    /// The choice with a relative program taken from `directory`.
    #[must_use]
    pub fn in_directory(self, directory: &Path) -> Self {
        match self {
            Self::Program(path) => Self::Program(directory.join(path)),
            choice => choice,
        }
    }
}

impl FromStr for HsacoPacker {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "builtin" => Ok(Self::Builtin),
            path if path.contains('/') => Ok(Self::Program(path.into())),
            word => {
                let nearest = crate::nearest::of(word, ["auto", "builtin"]);
                Err(format!(
                    "'{word}' is neither auto nor builtin nor the path of a program (write ./{word} for one here){}",
                    crate::nearest::hint(nearest.as_deref())
                ))
            }
        }
    }
}

/// Where to look. Nothing is read from the environment here; an empty variable is an unset one.
#[derive(Clone, Debug, Default)]
pub struct AieSearch {
    /// The only installation of mlir-air to look in.
    pub air: Option<Configured>,
    /// The only installation of mlir-aie to look for `aiecc` in; other programs are looked for
    /// there first.
    pub aie: Option<Configured>,
    /// The only Peano.
    pub peano: Option<Configured>,
    /// The only XRT to look for `xclbinutil` in; `aiebu-asm` is looked for there first.
    pub xrt: Option<Configured>,
    /// A Python environment whose wheels come before the variables.
    pub python: Option<Configured>,
    /// Which packer makes hsacos, and where that was said.
    pub hsaco_packer: HsacoPacker,
    /// Where `hsaco_packer` was said.
    pub hsaco_packer_origin: String,
    /// `MLIR_AIR_INSTALL_DIR`.
    pub mlir_air_install_dir: Option<OsString>,
    /// `MLIR_AIE_INSTALL_DIR`.
    pub mlir_aie_install_dir: Option<OsString>,
    /// `PEANO_INSTALL_DIR`.
    pub peano_install_dir: Option<OsString>,
    /// `LLVM_BINARY_DIR`: the `bin` of an LLVM that may be Peano, and mostly is not.
    pub llvm_binary_dir: Option<OsString>,
    /// `XILINX_XRT`.
    pub xilinx_xrt: Option<OsString>,
    /// `AIE_OBJCOPY_PATH`: a program.
    pub aie_objcopy_path: Option<OsString>,
    /// `AIE_XCLBINUTIL`: a program, or a name to look for in `PATH`.
    pub aie_xclbinutil: Option<OsString>,
    /// `AIE_XCLBINUTIL_PATH`: a program.
    pub aie_xclbinutil_path: Option<OsString>,
    /// `VIRTUAL_ENV`: the active Python environment.
    pub virtual_env: Option<OsString>,
    /// `PATH`; relative directories in it are ignored.
    pub path: Option<OsString>,
    /// Where XRT is installed by its own packages: `/opt/xilinx/xrt`.
    pub system_xrt: PathBuf,
    /// The directory that holds `llvm-NN`: `/usr/lib`.
    pub system: PathBuf,
}

impl AieSearch {
    /// What the memo knows this search by.
    pub(super) fn digest(&self) -> Digest {
        let configured = [&self.air, &self.aie, &self.peano, &self.xrt, &self.python];
        let configured = configured.map(|configured| {
            configured
                .as_ref()
                .map(|configured| configured.directory.as_os_str())
        });
        let (packer, program) = match &self.hsaco_packer {
            HsacoPacker::Auto => (0, None),
            HsacoPacker::Builtin => (1, None),
            HsacoPacker::Program(path) => (2, Some(path.as_os_str())),
        };
        let variables = [
            &self.mlir_air_install_dir,
            &self.mlir_aie_install_dir,
            &self.peano_install_dir,
            &self.llvm_binary_dir,
            &self.xilinx_xrt,
            &self.aie_objcopy_path,
            &self.aie_xclbinutil,
            &self.aie_xclbinutil_path,
            &self.virtual_env,
            &self.path,
        ];
        let roots = [
            program,
            Some(self.system_xrt.as_os_str()),
            Some(self.system.as_os_str()),
        ];
        let values = configured
            .into_iter()
            .chain(variables.map(Option::as_deref))
            .chain(roots);
        let mut hasher = Hasher::new();
        hasher.update("aie");
        hasher.update([packer]);
        for value in values {
            let bytes = value.map(OsStrExt::as_bytes).unwrap_or_default();
            hasher.update((bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        }
        hasher.finish()
    }
}
