//! Settings, from layers: flags > `NPU_BUILD_*` > `npu-build.toml` > the user's file > the
//! ecosystem's variables > defaults.
//!
//! The environment is read here, once, and passed on as values; nothing below asks for it again.

mod cache;
mod environment;
mod file;
mod npu;
mod unread;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use cache::{Age, Bound, Bytes, CacheChoices, Count};
pub use environment::Environment;
pub use file::{ConfigError, KernelSection, PROJECT_FILE};
pub use npu::{LaunchGrid, NpuChoices, Package};
use npu_runtime::Runtime;
pub use unread::unread_variables;

use crate::kernel::Target;
use crate::launcher;
use crate::step::cpu::March;
use crate::store::{Bounds, Sharing};
use crate::toolchain::{AieSearch, Configured, HsacoPacker, Search, XrtSearch};
pub use crate::value::{integer, path};
use file::File;

/// What a layer may say; the highest layer that says something wins.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// The cache directory.
    pub cache_dir: Option<PathBuf>,
    /// Whether to use a cache at all.
    pub cache: Option<bool>,
    /// Whether the cache directory's group may write it.
    pub shared_cache: Option<bool>,
    /// The cache's bounds and layers.
    pub cache_choices: CacheChoices,
    /// The target of kernels that don't say theirs.
    pub target: Option<Target>,
    /// The runtime of kernels that don't say theirs.
    pub runtime: Option<Runtime>,
    /// What kernels for an NPU are packaged as.
    pub format: Option<Package>,
    /// The transform script of linalg-level kernels that don't name theirs.
    pub transform: Option<PathBuf>,
    /// The CPU that the cpu target compiles for.
    pub march: Option<March>,
    /// The path of the runtime's crate in host programs.
    pub runtime_crate: Option<String>,
    /// The MLIR/LLVM installation.
    pub llvm: Option<PathBuf>,
    /// The mlir-air installation.
    pub air: Option<PathBuf>,
    /// The mlir-aie installation.
    pub aie: Option<PathBuf>,
    /// The Peano installation.
    pub peano: Option<PathBuf>,
    /// The XRT installation.
    pub xrt: Option<PathBuf>,
    /// The C++ compiler of the XRT shim.
    pub cxx: Option<OsString>,
    /// The Python environment that has the wheels of the tools.
    pub python: Option<PathBuf>,
    /// What packs hsacos.
    pub hsaco_packer: Option<HsacoPacker>,
    /// How long one tool may take.
    pub timeout: Option<Duration>,
    /// How many kernels are built at once.
    pub jobs: Option<u32>,
    /// Whether what lies between MLIR and artifact is kept.
    pub keep_intermediates: Option<bool>,
}

/// What may be said of one kernel, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The target.
    pub target: Option<Target>,
    /// The runtime.
    pub runtime: Option<Runtime>,
    /// What kernels for an NPU are packaged as.
    pub format: Option<Package>,
    /// The CPU that the cpu target compiles for.
    pub march: Option<March>,
    /// The transform script of linalg-level kernels.
    pub transform: Option<PathBuf>,
}

/// Where the cache is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CachePlace {
    /// In this directory.
    Directory(PathBuf),
    /// Nowhere: nothing is looked up and nothing kept.
    Disabled,
    /// Nobody says where the user's files are: in a temporary directory for this run.
    Unknown,
}

/// The settled settings of one process.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the cache is.
    pub cache: CachePlace,
    /// Whether nobody chose that place.
    pub cache_is_default: bool,
    /// Who may write it.
    pub sharing: Sharing,
    /// Cache directories that are only read, after the own one.
    pub cache_layers: Vec<PathBuf>,
    /// How much the cache may hold.
    pub cache_bounds: Bounds,
    /// The target of kernels that don't say theirs.
    pub target: Option<Target>,
    /// The runtime of kernels that don't say theirs.
    pub runtime: Option<Runtime>,
    /// What kernels for an NPU are packaged as.
    pub format: Option<Package>,
    /// The transform script of linalg-level kernels that don't name theirs.
    pub transform: Option<PathBuf>,
    /// The CPU that the cpu target compiles for.
    pub march: Option<March>,
    /// The path of the runtime's crate in host programs.
    pub runtime_crate: String,
    /// Where to look for an MLIR/LLVM installation.
    pub llvm: Search,
    /// Where to look for the AIE toolchain.
    pub aie: AieSearch,
    /// Where to look for what the XRT shim is compiled with.
    pub xrt: XrtSearch,
    /// How long one tool may take.
    pub timeout: Option<Duration>,
    /// How many kernels are built at once; `None` is one per core.
    pub jobs: Option<u32>,
    /// Whether what lies between MLIR and artifact is kept.
    pub keep_intermediates: bool,
    /// What the variables say, which counts more than what the project file says of a kernel.
    pub variables: Said,
    /// What the project file says about single kernels.
    pub kernels: Vec<KernelSection>,
    /// The files that were read, for a build script's rerun list.
    pub files: Vec<PathBuf>,
}

impl Settings {
    /// Settles the settings for work in `cwd`: `flags` over the environment over the files.
    ///
    /// # Errors
    /// When a file or variable can't be understood.
    pub fn load(flags: Layer, environment: &Environment, cwd: &Path) -> Result<Self, ConfigError> {
        let mut files = Vec::new();
        let mut read = |path: PathBuf| -> Result<File, ConfigError> {
            let Some(file) = File::read(&path)? else {
                return Ok(File::default());
            };
            files.push(path);
            Ok(file)
        };
        let project = match file::find_project(cwd) {
            Some(path) => read(path)?,
            None => File::default(),
        };
        let user = match environment.user_file().map(&mut read) {
            // A home that is closed to us, such as root's under sudo, has nothing to say.
            Some(Err(error)) if error.is_forbidden() => File::default(),
            Some(file) => file?,
            None => File::default(),
        };
        let variables = environment.layer()?;
        let layers = [&flags, &variables, &project.layer, &user.layer];
        let llvm = environment.search(configured(layers, cwd, "llvm", |layer| &layer.llvm));
        let aie = aie_search(layers, environment, cwd);
        let said = Said {
            target: variables.target,
            runtime: variables.runtime,
            format: variables.format,
            march: variables.march.clone(),
            transform: variables.transform.as_ref().map(|path| cwd.join(path)),
        };
        let layer = flags.over(variables).over(project.layer).over(user.layer);
        let cache_is_default = layer.cache.unwrap_or(true) && layer.cache_dir.is_none();
        let cache = match (layer.cache, layer.cache_dir) {
            (Some(false), _) => CachePlace::Disabled,
            (_, Some(directory)) => CachePlace::Directory(cwd.join(directory)),
            (_, None) => environment
                .default_cache()
                .map_or(CachePlace::Unknown, CachePlace::Directory),
        };
        Ok(Self {
            cache,
            cache_is_default,
            sharing: if layer.shared_cache.unwrap_or(false) {
                Sharing::Group
            } else {
                Sharing::Private
            },
            cache_bounds: layer.cache_choices.bounds(),
            cache_layers: {
                let layers = layer.cache_choices.layers.unwrap_or_default();
                layers.into_iter().map(|layer| cwd.join(layer)).collect()
            },
            target: layer.target,
            runtime: layer.runtime,
            format: layer.format,
            transform: (layer.transform)
                .or_else(|| environment.transform())
                .map(|path| cwd.join(path)),
            march: layer.march,
            runtime_crate: layer.runtime_crate.unwrap_or_else(launcher::runtime_crate),
            llvm,
            xrt: environment.xrt_search(aie.xrt.clone(), layer.cxx),
            aie,
            timeout: layer.timeout,
            jobs: layer.jobs,
            keep_intermediates: layer.keep_intermediates.unwrap_or(false),
            variables: said,
            kernels: project.kernels,
            files,
        })
    }

    /// What the project file says about the kernel at `path`, if anything. Of several kernels in one
    /// file it is the one with the given `entry`.
    #[must_use]
    pub fn kernel(&self, path: &Path, entry: Option<&str>) -> Option<&KernelSection> {
        if self.kernels.is_empty() {
            return None;
        }
        let wanted = std::path::absolute(path).ok()?;
        let fits = |section: &&KernelSection| {
            let named =
                entry.is_none() || section.entry.is_none() || section.entry.as_deref() == entry;
            named && (section.path == wanted || same_file(&section.path, &wanted))
        };
        self.kernels.iter().find(fits)
    }
}

/// The highest layer's directory for a tool, and how it was said there.
fn configured(
    layers: [&Layer; 4],
    cwd: &Path,
    key: &str,
    of: fn(&Layer) -> &Option<PathBuf>,
) -> Option<Configured> {
    let said = layers.map(|layer| of(layer).as_ref());
    let number = said.iter().position(Option::is_some)?;
    let directory = cwd.join(said.into_iter().flatten().next()?);
    Some(Configured {
        directory,
        origin: origin(number, key),
    })
}

/// How a setting of a tool is written in the layer of that number.
fn origin(layer: usize, key: &str) -> String {
    match layer {
        0 => format!("--{key}"),
        1 => format!("NPU_BUILD_{}", key.replace('-', "_").to_uppercase()),
        2 => format!("toolchain.{key} in npu-build.toml"),
        _ => format!("toolchain.{key} in the user's configuration file"),
    }
}

/// Where to look for the AIE toolchain.
fn aie_search(layers: [&Layer; 4], environment: &Environment, cwd: &Path) -> AieSearch {
    let packers = layers.map(|layer| layer.hsaco_packer.as_ref());
    let packer_layer = packers.iter().position(Option::is_some).unwrap_or_default();
    let packer = packers.into_iter().flatten().next().cloned();
    AieSearch {
        air: configured(layers, cwd, "air", |layer| &layer.air),
        aie: configured(layers, cwd, "aie", |layer| &layer.aie),
        peano: configured(layers, cwd, "peano", |layer| &layer.peano),
        xrt: configured(layers, cwd, "xrt", |layer| &layer.xrt),
        python: configured(layers, cwd, "python", |layer| &layer.python),
        hsaco_packer: packer.unwrap_or_default().in_directory(cwd),
        hsaco_packer_origin: origin(packer_layer, "hsaco-packer"),
        ..environment.aie_search()
    }
}

/// Whether two paths lead to one file.
fn same_file(one: &Path, other: &Path) -> bool {
    if one.file_name() != other.file_name() {
        return false;
    }
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

impl Layer {
    /// This layer where it says something, `below` where it does not.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            cache_dir: self.cache_dir.or(below.cache_dir),
            cache: self.cache.or(below.cache),
            shared_cache: self.shared_cache.or(below.shared_cache),
            cache_choices: self.cache_choices.over(below.cache_choices),
            target: self.target.or(below.target),
            runtime: self.runtime.or(below.runtime),
            format: self.format.or(below.format),
            transform: self.transform.or(below.transform),
            march: self.march.or(below.march),
            runtime_crate: self.runtime_crate.or(below.runtime_crate),
            llvm: self.llvm.or(below.llvm),
            air: self.air.or(below.air),
            aie: self.aie.or(below.aie),
            peano: self.peano.or(below.peano),
            xrt: self.xrt.or(below.xrt),
            cxx: self.cxx.or(below.cxx),
            python: self.python.or(below.python),
            hsaco_packer: self.hsaco_packer.or(below.hsaco_packer),
            timeout: self.timeout.or(below.timeout),
            jobs: self.jobs.or(below.jobs),
            keep_intermediates: self.keep_intermediates.or(below.keep_intermediates),
        }
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

/// A variable's value that is not empty: unset and empty mean the same to us.
fn non_empty(value: Option<OsString>) -> Option<OsString> {
    value.filter(|value| !value.is_empty())
}
