//! The configuration, from layers: flags > `NPU_BUILD_*` > `npu-build.toml` > the user's file > the
//! ecosystem's variables > defaults.
//!
//! The environment is read here, once, and passed on as values; nothing below asks for it again.

mod environment;
mod file;
mod options;
mod unread;
mod values;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use environment::Environment;
pub use file::{ConfigError, PROJECT_FILE};
pub use options::{CacheOptions, Layer, Options, ToolOptions};
pub use unread::unread_variables;
pub use values::{Age, Bound, Bytes, Count, LaunchGrid, Package, parse_jobs, parse_timeout};

use crate::kernel::Target;
use crate::launcher;
use crate::plan::{Request, Variant};
use crate::store::{Bounds, Sharing};
use crate::toolchain::{AieSearch, Configured, Search, XrtSearch};
pub use crate::value::{integer, path};
use file::File;

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

/// The configuration of one process.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the files say of all kernels.
    pub options: Options,
    /// What flags and variables say of all kernels, which counts more than what the project file says
    /// of one.
    pub overrides: Options,
    /// What the project file says of single kernels, in its order.
    pub kernels: Vec<Options>,
    /// The path of the runtime's crate in host programs.
    pub runtime_crate: String,
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
    /// Where to look for an MLIR/LLVM installation.
    pub llvm: Search,
    /// Where to look for the AIE toolchain.
    pub aie: AieSearch,
    /// Where to look for what the XRT shim is compiled with.
    pub xrt: XrtSearch,
    /// How long one tool may take.
    pub timeout: Option<Duration>,
    /// The files that were read, for a build script's rerun list.
    pub files: Vec<PathBuf>,
}

impl Settings {
    /// Resolves the configuration for work in `cwd`: `flags` over the environment over the files.
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
        let flags = flags.in_directory(cwd);
        let variables = environment.layer()?.in_directory(cwd);
        let layers = [&flags, &variables, &project.layer, &user.layer];
        let llvm = environment.search(configured(layers, cwd, "llvm", |tools| &tools.llvm));
        let aie = aie_search(layers, environment, cwd);
        let cxx = layers.iter().find_map(|layer| layer.tools.cxx.clone());
        let caches = layers.iter().map(|layer| layer.cache.clone());
        let cache = caches.reduce(CacheOptions::over).unwrap_or_default();
        let timeout = layers.iter().find_map(|layer| layer.tools.timeout);
        let mut options = project.layer.options.over(user.layer.options);
        options.transform =
            (options.transform).or_else(|| Some(cwd.join(environment.transform()?)));
        let overrides = flags.options.over(variables.options);
        let crates = [&overrides, &options].into_iter();
        let runtime_crate = crates.filter_map(|it| it.runtime_crate.clone()).next();
        Ok(Self {
            cache_is_default: cache.enabled.unwrap_or(true) && cache.dir.is_none(),
            cache_bounds: cache.bounds(Bounds::default()),
            sharing: match cache.shared {
                Some(true) => Sharing::Group,
                _ => Sharing::Private,
            },
            cache_layers: cache.layers.unwrap_or_default(),
            cache: match (cache.enabled, cache.dir) {
                (Some(false), _) => CachePlace::Disabled,
                (_, Some(directory)) => CachePlace::Directory(directory),
                (_, None) => environment
                    .default_cache()
                    .map_or(CachePlace::Unknown, CachePlace::Directory),
            },
            timeout,
            options,
            overrides,
            kernels: project.kernels,
            runtime_crate: runtime_crate.unwrap_or_else(launcher::runtime_crate),
            llvm,
            xrt: environment.xrt_search(aie.xrt.clone(), cxx),
            aie,
            files,
        })
    }

    /// The request to build the kernel at `path`, of which `said` says more than the configuration.
    #[must_use]
    pub fn request(&self, path: impl Into<PathBuf>, said: Options) -> Request {
        let path = path.into();
        let none = Options::default();
        let section = self.section(&path, said.entry.as_deref()).unwrap_or(&none);
        let overrides = &self.overrides;
        let default_runtime = [overrides, section, &self.options]
            .into_iter()
            .find_map(|options| options.runtime.first().copied());
        let mut variants = variants(&said, overrides, section).into_iter();
        let first = variants.next().unwrap_or_default();
        let for_npu_only = said.first_for_npu();
        let also = match said.also.is_empty() {
            true => variants.collect(),
            false => said.also.clone(),
        };
        let options = said.over(overrides.clone()).over(section.clone());
        Request {
            kernel: path,
            target: first.target,
            default_target: self.options.target.first().copied(),
            runtime: first.runtime,
            default_runtime,
            also,
            for_npu_only,
            options: options.over(self.options.clone()),
        }
    }

    /// How many kernels are built at once; `None` is one per core.
    #[must_use]
    pub fn jobs(&self) -> Option<u32> {
        self.overrides.jobs.or(self.options.jobs)
    }

    /// What is built for if neither a kernel nor its MLIR says it.
    #[must_use]
    pub fn target(&self) -> Option<Target> {
        let mut layers = [&self.overrides, &self.options].into_iter();
        layers.find_map(|options| options.target.first().copied())
    }

    /// What the project file says about the kernel at `path`, if anything. Of several kernels in one
    /// file it is the one with the given `entry`.
    fn section(&self, path: &Path, entry: Option<&str>) -> Option<&Options> {
        if self.kernels.is_empty() {
            return None;
        }
        let wanted = std::path::absolute(path).ok()?;
        let fits = |section: &&Options| {
            let named =
                entry.is_none() || section.entry.is_none() || section.entry.as_deref() == entry;
            let path = section.path.as_deref().unwrap_or(Path::new(""));
            named && (path == wanted || same_file(path, &wanted))
        };
        self.kernels.iter().find(fits)
    }
}

/// What a kernel is built for: what was said of it, or of what the project file lists that which fits.
fn variants(said: &Options, overrides: &Options, section: &Options) -> Vec<Variant> {
    if said.target.len() > 1 || said.runtime.len() > 1 {
        return Variant::combinations(&said.target, &said.runtime);
    }
    let one = |said: &[Target], all: &[Target]| said.first().or(all.first()).copied();
    let target = one(&said.target, &overrides.target);
    let runtime = said.runtime.first().or(overrides.runtime.first()).copied();
    let mut targets = target.map_or(section.target.clone(), |target| vec![target]);
    let mut runtimes = runtime.map_or(section.runtime.clone(), |runtime| vec![runtime]);
    // What one was chosen for counts of the other.
    match (target, runtime) {
        (Some(target), None) => runtimes.retain(|runtime| target.is_loaded_by(*runtime)),
        (None, Some(runtime)) if targets.iter().any(|target| target.is_loaded_by(runtime)) => {
            targets.retain(|target| target.is_loaded_by(runtime));
        }
        _ => {}
    }
    let is_one = targets.len() <= 1 && runtimes.len() <= 1;
    let lists_one = section.target.len() <= 1 && section.runtime.len() <= 1;
    if is_one && lists_one || !said.also.is_empty() {
        return vec![Variant {
            target: target.or(section.target.first().copied()),
            // Another layer's is but a default.
            runtime: said.runtime.first().copied(),
        }];
    }
    Variant::combinations(&targets, &runtimes)
}

/// The highest layer's directory for a tool, and how it was said there.
fn configured(
    layers: [&Layer; 4],
    cwd: &Path,
    key: &str,
    of: fn(&ToolOptions) -> &Option<PathBuf>,
) -> Option<Configured> {
    let said = layers.map(|layer| of(&layer.tools).as_ref());
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
    let packers = layers.map(|layer| layer.tools.hsaco_packer.as_ref());
    let packer_layer = packers.iter().position(Option::is_some).unwrap_or_default();
    let packer = packers.into_iter().flatten().next().cloned();
    AieSearch {
        air: configured(layers, cwd, "air", |tools| &tools.air),
        aie: configured(layers, cwd, "aie", |tools| &tools.aie),
        peano: configured(layers, cwd, "peano", |tools| &tools.peano),
        xrt: configured(layers, cwd, "xrt", |tools| &tools.xrt),
        python: configured(layers, cwd, "python", |tools| &tools.python),
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

/// A variable's value that is not empty: unset and empty mean the same to us.
fn non_empty(value: Option<OsString>) -> Option<OsString> {
    value.filter(|value| !value.is_empty())
}
