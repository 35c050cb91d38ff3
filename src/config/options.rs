//! What a layer of the configuration may say: flags, variables, `npu-build.toml`, the user's file.
//! One type is read from all of them, and the higher layer wins.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use npu_runtime::{Direction, Runtime};
use serde::Deserialize;

use super::file as de;
use super::values::{Age, Bound, Bytes, Count, LaunchGrid, Package};
use crate::kernel::Target;
use crate::plan::Variant;
use crate::step::npu::TargetOptions;
use crate::store::Bounds;
use crate::toolchain::HsacoPacker;

/// What may be said of a kernel, or of all of them. In a file these are the keys of `[[kernel]]` and
/// of `[build]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Options {
    /// Of a `[[kernel]]`: the MLIR file.
    #[serde(deserialize_with = "de::place")]
    pub path: Option<PathBuf>,
    /// What it is built for; with several, one launcher has an image for each.
    #[serde(deserialize_with = "de::one_or_more")]
    pub target: Vec<Target>,
    /// What loads it.
    #[serde(deserialize_with = "de::one_or_more")]
    pub runtime: Vec<Runtime>,
    /// Further pairs of both.
    #[serde(skip)]
    pub also: Vec<Variant>,
    /// What it is packaged as for an NPU.
    #[serde(deserialize_with = "de::text")]
    pub format: Option<Package>,
    /// Which function is the kernel, if the file has several.
    pub entry: Option<String>,
    /// Its signature in Triton's syntax, to be checked against the MLIR.
    pub signature: Option<String>,
    /// Directions of arguments by name, where inference is not to decide.
    #[serde(deserialize_with = "de::pairs")]
    pub args: Vec<(String, Direction)>,
    /// How many elements arguments need, by name ([`crate::kernel::contract`]).
    #[serde(deserialize_with = "de::extents")]
    pub extents: Vec<(String, String)>,
    /// The launch grid, which an NPU's instructions are compiled for.
    #[serde(deserialize_with = "de::grid")]
    pub grid: Option<LaunchGrid>,
    /// The transform script that tiles a linalg-level kernel for an NPU.
    #[serde(deserialize_with = "de::place")]
    pub transform: Option<PathBuf>,
    /// Options of the target.
    #[serde(deserialize_with = "de::target_options")]
    pub options: TargetOptions,
    /// Files that an NPU's tools find in their directory under their own names.
    #[serde(deserialize_with = "de::places")]
    pub inputs: Vec<PathBuf>,
    /// Further arguments for aircc or aiecc.
    pub tool_args: Vec<String>,
    /// Whether what lies between the MLIR and the artifact is kept.
    pub keep_intermediates: Option<bool>,
    /// The path of the runtime's crate in host programs.
    pub runtime_crate: Option<String>,
    /// Of `[build]`: how many kernels are built at once.
    #[serde(deserialize_with = "de::jobs")]
    pub jobs: Option<u32>,
    /// Whether to build even what is in the cache.
    #[serde(skip)]
    pub refresh: bool,
}

impl Options {
    /// These options where they say something, `below` where they do not. Lists of things that may
    /// be several go on with these.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            path: self.path.or(below.path),
            target: first(self.target, below.target),
            runtime: first(self.runtime, below.runtime),
            also: first(self.also, below.also),
            format: self.format.or(below.format),
            entry: self.entry.or(below.entry),
            signature: self.signature.or(below.signature),
            args: joined(below.args, self.args),
            extents: joined(below.extents, self.extents),
            grid: self.grid.or(below.grid),
            transform: self.transform.or(below.transform),
            options: self.options.over(below.options),
            inputs: joined(below.inputs, self.inputs),
            tool_args: joined(below.tool_args, self.tool_args),
            keep_intermediates: self.keep_intermediates.or(below.keep_intermediates),
            runtime_crate: self.runtime_crate.or(below.runtime_crate),
            jobs: self.jobs.or(below.jobs),
            refresh: self.refresh || below.refresh,
        }
    }

    /// The same with paths that are relative to `directory`.
    #[must_use]
    pub fn in_directory(mut self, directory: &Path) -> Self {
        self.path = self.path.map(|path| directory.join(path));
        self.transform = self.transform.map(|path| directory.join(path));
        for input in &mut self.inputs {
            *input = directory.join(&input);
        }
        self
    }

    /// Something of it that only the npu targets understand.
    pub(crate) fn first_for_npu(&self) -> Option<&'static str> {
        let is_package = matches!(self.format, Some(Package::As(_)));
        [
            ("a grid", self.grid.is_some()),
            ("a transform script", self.transform.is_some()),
            ("an option of an NPU", self.options.is_for_npu()),
            ("an input", !self.inputs.is_empty()),
            ("an argument for aiecc", !self.tool_args.is_empty()),
            ("a format", is_package),
        ]
        .into_iter()
        .find_map(|(what, is_said)| is_said.then_some(what))
    }
}

fn first<T>(above: Vec<T>, below: Vec<T>) -> Vec<T> {
    if above.is_empty() { below } else { above }
}

fn joined<T>(mut first: Vec<T>, second: Vec<T>) -> Vec<T> {
    first.extend(second);
    first
}

/// What may be said of the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CacheOptions {
    /// The cache directory.
    #[serde(deserialize_with = "de::place")]
    pub dir: Option<PathBuf>,
    /// Whether to use a cache at all.
    pub enabled: Option<bool>,
    /// Whether the directory's group may write it.
    pub shared: Option<bool>,
    /// Cache directories that are only read, in the order in which they are asked.
    #[serde(deserialize_with = "de::some_places")]
    pub layers: Option<Vec<PathBuf>>,
    /// Bytes of all entries.
    #[serde(deserialize_with = "de::bound")]
    pub max_size: Option<Bound<Bytes>>,
    /// Since an entry's last use.
    #[serde(deserialize_with = "de::bound")]
    pub max_age: Option<Bound<Age>>,
    /// Entries.
    #[serde(deserialize_with = "de::bound")]
    pub max_entries: Option<Bound<Count>>,
}

impl CacheOptions {
    /// These options where they say something, `below` where they do not.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            dir: self.dir.or(below.dir),
            enabled: self.enabled.or(below.enabled),
            shared: self.shared.or(below.shared),
            layers: self.layers.or(below.layers),
            max_size: self.max_size.or(below.max_size),
            max_age: self.max_age.or(below.max_age),
            max_entries: self.max_entries.or(below.max_entries),
        }
    }

    fn in_directory(mut self, directory: &Path) -> Self {
        self.dir = self.dir.map(|path| directory.join(path));
        for layer in self.layers.iter_mut().flatten() {
            *layer = directory.join(&layer);
        }
        self
    }

    /// The bounds, with those of `default` where nothing is said.
    #[must_use]
    pub fn bounds(&self, default: Bounds) -> Bounds {
        Bounds {
            size: self
                .max_size
                .map_or(default.size, |bound| bound.map(|Bytes(bytes)| bytes)),
            age: self
                .max_age
                .map_or(default.age, |bound| bound.map(|Age(age)| age)),
            entries: self
                .max_entries
                .map_or(default.entries, |bound| bound.map(|Count(count)| count)),
        }
    }
}

/// Where the tools are, and how long one may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ToolOptions {
    /// The MLIR/LLVM installation.
    #[serde(deserialize_with = "de::place")]
    pub llvm: Option<PathBuf>,
    /// The mlir-air installation.
    #[serde(deserialize_with = "de::place")]
    pub air: Option<PathBuf>,
    /// The mlir-aie installation.
    #[serde(deserialize_with = "de::place")]
    pub aie: Option<PathBuf>,
    /// The Peano installation.
    #[serde(deserialize_with = "de::place")]
    pub peano: Option<PathBuf>,
    /// The XRT installation.
    #[serde(deserialize_with = "de::place")]
    pub xrt: Option<PathBuf>,
    /// The C++ compiler of the XRT shim.
    #[serde(deserialize_with = "de::program")]
    pub cxx: Option<OsString>,
    /// The Python environment that has the wheels of the tools.
    #[serde(deserialize_with = "de::place")]
    pub python: Option<PathBuf>,
    /// What packs hsacos.
    #[serde(deserialize_with = "de::text")]
    pub hsaco_packer: Option<HsacoPacker>,
    /// How long one tool may take.
    #[serde(deserialize_with = "de::timeout")]
    pub timeout: Option<Duration>,
}

impl ToolOptions {
    fn in_directory(self, directory: &Path) -> Self {
        let absolute = |path: Option<PathBuf>| path.map(|path| directory.join(path));
        Self {
            llvm: absolute(self.llvm),
            air: absolute(self.air),
            aie: absolute(self.aie),
            peano: absolute(self.peano),
            xrt: absolute(self.xrt),
            cxx: self.cxx.map(|program| match Path::new(&program).parent() {
                // A name is looked for on PATH.
                Some(parent) if parent.as_os_str().is_empty() => program,
                _ => directory.join(program).into_os_string(),
            }),
            python: absolute(self.python),
            hsaco_packer: self
                .hsaco_packer
                .map(|packer| packer.in_directory(directory)),
            timeout: self.timeout,
        }
    }
}

/// All that one layer says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// Of kernels.
    pub options: Options,
    /// Of the cache.
    pub cache: CacheOptions,
    /// Of the tools.
    pub tools: ToolOptions,
}

impl Layer {
    /// The same with paths that are relative to `directory`.
    #[must_use]
    pub fn in_directory(self, directory: &Path) -> Self {
        Self {
            options: self.options.in_directory(directory),
            cache: self.cache.in_directory(directory),
            tools: self.tools.in_directory(directory),
        }
    }
}
