//! The environment variables that are looked at, each read once.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use super::{
    CacheOptions, ConfigError, Layer, Options, ToolOptions, non_empty, parse_jobs, parse_timeout,
};
use crate::kernel::Target;
use crate::toolchain::{AieSearch, Configured, Search, XrtSearch};

/// What a variable has a say in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decides {
    /// What is built, whatever it is for.
    Everything,
    /// What is built for the cpu.
    Cpu,
    /// Where LLVM is found if no setting names a place.
    Llvm,
    /// What is built for an NPU.
    Npu,
    /// Where and how the work is done, and not what comes of it.
    Work,
}

/// Every variable that is looked at.
const READ: [(Decides, &[&str]); 5] = [
    (
        Decides::Everything,
        &[
            "NPU_BUILD_TARGET",
            "NPU_BUILD_RUNTIME",
            "NPU_BUILD_RUNTIME_CRATE",
            "XDG_CONFIG_HOME",
            "HOME",
        ],
    ),
    (Decides::Cpu, &["NPU_BUILD_MARCH", "NPU_BUILD_LLVM"]),
    (Decides::Llvm, &["MLIR_INSTALL_DIR", "PATH"]),
    (
        Decides::Npu,
        &[
            "NPU_BUILD_FORMAT",
            "NPU_BUILD_TRANSFORM",
            "NPU_BUILD_AIR",
            "NPU_BUILD_AIE",
            "NPU_BUILD_PEANO",
            "NPU_BUILD_XRT",
            "NPU_BUILD_PYTHON",
            "NPU_BUILD_HSACO_PACKER",
            "AIR_TRANSFORM_TILING_SCRIPT",
            "MLIR_AIR_INSTALL_DIR",
            "MLIR_AIE_INSTALL_DIR",
            "PEANO_INSTALL_DIR",
            "LLVM_BINARY_DIR",
            "XILINX_XRT",
            "AIE_OBJCOPY_PATH",
            "AIE_XCLBINUTIL",
            "AIE_XCLBINUTIL_PATH",
            "VIRTUAL_ENV",
            "PATH",
        ],
    ),
    (
        Decides::Work,
        &[
            "NPU_BUILD_CACHE_DIR",
            "NPU_BUILD_NO_CACHE",
            "NPU_BUILD_SHARED_CACHE",
            "NPU_BUILD_CACHE_LAYERS",
            "NPU_BUILD_CACHE_MAX_SIZE",
            "NPU_BUILD_CACHE_MAX_AGE",
            "NPU_BUILD_CACHE_MAX_ENTRIES",
            "NPU_BUILD_TIMEOUT",
            "NPU_BUILD_JOBS",
            // The shim is compiled on request alone.
            "NPU_BUILD_CXX",
            "CXX",
            "XDG_CACHE_HOME",
        ],
    ),
];

/// The names of all of them; what decides more than one thing comes more than once.
pub(super) fn read() -> impl Iterator<Item = &'static str> {
    READ.iter().flat_map(|(_, names)| *names).copied()
}

/// Where distributions put `llvm-NN` directories.
const SYSTEM_LIBRARIES: &str = "/usr/lib";
/// Where XRT's own packages put it.
const SYSTEM_XRT: &str = "/opt/xilinx/xrt";

/// A look at the environment.
#[derive(Clone, Copy, Debug)]
pub struct Environment {
    get: fn(&OsStr) -> Option<OsString>,
}

impl Environment {
    /// The process's own environment.
    #[must_use]
    pub fn of_process() -> Self {
        Self {
            get: |name| std::env::var_os(name),
        }
    }

    /// An environment made up by `get`.
    #[must_use]
    pub fn from_fn(get: fn(&OsStr) -> Option<OsString>) -> Self {
        Self { get }
    }

    fn var(&self, name: &str) -> Option<OsString> {
        debug_assert!(read().any(|known| known == name), "{name} is not declared");
        non_empty((self.get)(name.as_ref()))
    }

    /// The variables that can change what is built, for any of `targets` or for none; `llvm` is where
    /// to look for LLVM. What only says where and how is none of them.
    #[must_use]
    pub fn deciding(&self, targets: &[Target], llvm: &Search) -> BTreeSet<&'static str> {
        let cpu = targets.contains(&Target::Cpu);
        let decides = |(decides, _): &&(Decides, _)| match decides {
            Decides::Everything => true,
            Decides::Cpu => cpu,
            Decides::Llvm => cpu && llvm.configured.is_none(),
            Decides::Npu => targets.iter().any(|target| *target != Target::Cpu),
            Decides::Work => false,
        };
        let names = READ.iter().filter(decides).flat_map(|(_, names)| *names);
        let mut names: BTreeSet<_> = names.copied().collect();
        if self.absolute("XDG_CONFIG_HOME").is_some() {
            names.remove("HOME");
        }
        names
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.var(name).map(PathBuf::from)
    }

    /// A directory that must be absolute to count, as the XDG specification has it.
    fn absolute(&self, name: &str) -> Option<PathBuf> {
        self.path(name).filter(|path| path.is_absolute())
    }

    /// The cache directory if no setting names one.
    pub(super) fn default_cache(&self) -> Option<PathBuf> {
        self.absolute("XDG_CACHE_HOME")
            .or_else(|| Some(self.absolute("HOME")?.join(".cache")))
            .map(|caches| caches.join("npu-build"))
    }

    /// The user's configuration file.
    pub(super) fn user_file(&self) -> Option<PathBuf> {
        self.absolute("XDG_CONFIG_HOME")
            .or_else(|| Some(self.absolute("HOME")?.join(".config")))
            .map(|directory| directory.join("npu-build").join("config.toml"))
    }

    /// The transform script that Triton-XDNA would take.
    pub(super) fn transform(&self) -> Option<PathBuf> {
        self.path("AIR_TRANSFORM_TILING_SCRIPT")
    }

    /// Where to look for MLIR and LLVM.
    pub(super) fn search(&self, configured: Option<Configured>) -> Search {
        Search {
            configured,
            mlir_install_dir: self.var("MLIR_INSTALL_DIR"),
            path: self.var("PATH"),
            system: SYSTEM_LIBRARIES.into(),
        }
    }

    /// Where to look for the AIE toolchain if no setting names a place.
    pub(super) fn aie_search(&self) -> AieSearch {
        AieSearch {
            mlir_air_install_dir: self.var("MLIR_AIR_INSTALL_DIR"),
            mlir_aie_install_dir: self.var("MLIR_AIE_INSTALL_DIR"),
            peano_install_dir: self.var("PEANO_INSTALL_DIR"),
            llvm_binary_dir: self.var("LLVM_BINARY_DIR"),
            xilinx_xrt: self.var("XILINX_XRT"),
            aie_objcopy_path: self.var("AIE_OBJCOPY_PATH"),
            aie_xclbinutil: self.var("AIE_XCLBINUTIL"),
            aie_xclbinutil_path: self.var("AIE_XCLBINUTIL_PATH"),
            virtual_env: self.var("VIRTUAL_ENV"),
            path: self.var("PATH"),
            system_xrt: SYSTEM_XRT.into(),
            system: SYSTEM_LIBRARIES.into(),
            ..AieSearch::default()
        }
    }

    /// Where to look for what the XRT shim is compiled with.
    pub(super) fn xrt_search(&self, xrt: Option<Configured>, cxx: Option<OsString>) -> XrtSearch {
        XrtSearch {
            xrt,
            xilinx_xrt: self.var("XILINX_XRT"),
            system_xrt: SYSTEM_XRT.into(),
            cxx: cxx.or_else(|| self.var("CXX")),
            path: self.var("PATH"),
        }
    }

    /// What the `NPU_BUILD_*` variables say.
    pub(super) fn layer(&self) -> Result<Layer, ConfigError> {
        fn text<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
            text.parse().map_err(|error: T::Err| error.to_string())
        }
        let mut options = Options {
            target: Vec::from_iter(self.parsed("NPU_BUILD_TARGET", text)?),
            runtime: Vec::from_iter(self.parsed("NPU_BUILD_RUNTIME", text)?),
            format: self.parsed("NPU_BUILD_FORMAT", text)?,
            transform: self.path("NPU_BUILD_TRANSFORM"),
            runtime_crate: self.parsed("NPU_BUILD_RUNTIME_CRATE", text)?,
            jobs: self.parsed("NPU_BUILD_JOBS", parse_jobs)?,
            ..Options::default()
        };
        options.options.march = self.parsed("NPU_BUILD_MARCH", text)?;
        let disabled = self.parsed("NPU_BUILD_NO_CACHE", parse_switch)?;
        Ok(Layer {
            options,
            cache: CacheOptions {
                dir: self.path("NPU_BUILD_CACHE_DIR"),
                enabled: disabled.map(|disabled| !disabled),
                shared: self.parsed("NPU_BUILD_SHARED_CACHE", parse_switch)?,
                layers: self.var("NPU_BUILD_CACHE_LAYERS").map(|layers| {
                    // Nothing between two colons is nothing, and not this directory.
                    let layers = std::env::split_paths(&layers);
                    layers.filter(|path| !path.as_os_str().is_empty()).collect()
                }),
                max_size: self.parsed("NPU_BUILD_CACHE_MAX_SIZE", text)?,
                max_age: self.parsed("NPU_BUILD_CACHE_MAX_AGE", text)?,
                max_entries: self.parsed("NPU_BUILD_CACHE_MAX_ENTRIES", text)?,
            },
            tools: ToolOptions {
                llvm: self.path("NPU_BUILD_LLVM"),
                air: self.path("NPU_BUILD_AIR"),
                aie: self.path("NPU_BUILD_AIE"),
                peano: self.path("NPU_BUILD_PEANO"),
                xrt: self.path("NPU_BUILD_XRT"),
                cxx: self.var("NPU_BUILD_CXX"),
                python: self.path("NPU_BUILD_PYTHON"),
                hsaco_packer: self.parsed("NPU_BUILD_HSACO_PACKER", text)?,
                timeout: self.parsed("NPU_BUILD_TIMEOUT", parse_timeout)?,
            },
        })
    }

    fn parsed<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.var(name) else {
            return Ok(None);
        };
        let text = value.to_string_lossy();
        parse(&text)
            .map(Some)
            .map_err(|reason| ConfigError::Variable { name, reason })
    }
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(format!("'{text}' is neither 1 nor 0")),
    }
}
