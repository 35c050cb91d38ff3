//! `npu-build.toml`, and the user's file of the same form.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use npu_runtime::{Direction, Runtime};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::npu::{LaunchGrid, NpuChoices, Package};
use super::{Age, Bound, Bytes, CacheChoices, Count, Layer, parse_jobs, parse_timeout};
use crate::kernel::Target;
use crate::step::cpu::March;
use crate::step::npu::Options;
use crate::toolchain::HsacoPacker;
use crate::value;

/// The project file's name.
pub const PROJECT_FILE: &str = "npu-build.toml";

/// A setting that can't be understood.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that can't be read.
    #[error("can't read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file that is not what it should be.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong, where, and what may have been meant.
        message: String,
    },
    /// An environment variable that can't be understood.
    #[error("{name}: {reason}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// What is wrong with its value.
        reason: String,
    },
}

impl ConfigError {
    /// Whether it is about a file that we may not read.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == ErrorKind::PermissionDenied)
    }
}

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) layer: Layer,
    pub(super) kernels: Vec<KernelSection>,
}

/// What the project file says about one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSection {
    /// The MLIR file, absolute.
    pub path: PathBuf,
    /// What it is built for: with several, one launcher has an image for each.
    pub targets: Vec<Target>,
    /// Which function is the kernel.
    pub entry: Option<String>,
    /// Its signature in Triton's syntax.
    pub signature: Option<String>,
    /// Directions of arguments by name.
    pub directions: Vec<(String, Direction)>,
    /// How many elements arguments need, by name.
    pub extents: Vec<(String, String)>,
    /// The CPU that the cpu target compiles for.
    pub march: Option<March>,
    /// What loads it.
    pub runtimes: Vec<Runtime>,
    /// What it is packaged as for an NPU.
    pub format: Option<Package>,
    /// What only the npu targets are told.
    pub npu: NpuChoices,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Text {
    #[serde(default)]
    build: BuildText,
    #[serde(default)]
    cache: CacheText,
    #[serde(default)]
    toolchain: ToolchainText,
    #[serde(default)]
    kernel: Vec<KernelText>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct BuildText {
    target: Option<Parsed<Target>>,
    runtime: Option<Parsed<Runtime>>,
    format: Option<Parsed<Package>>,
    transform: Option<Place>,
    march: Option<Parsed<March>>,
    runtime_crate: Option<String>,
    timeout: Option<Timeout>,
    jobs: Option<Jobs>,
    keep_intermediates: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct CacheText {
    dir: Option<Place>,
    enabled: Option<bool>,
    shared: Option<bool>,
    layers: Option<Vec<Place>>,
    max_size: Option<Limit<Bytes>>,
    max_age: Option<Limit<Age>>,
    max_entries: Option<Limit<Count>>,
}

/// A bound: a plain number, or text.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a bound is a number, or text such as \"5GiB\", \"90d\" or \"unlimited\""
)]
enum LimitText {
    Number(u64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(
    try_from = "LimitText",
    bound = "T: std::str::FromStr, T::Err: ToString"
)]
struct Limit<T>(Bound<T>);

impl<T: std::str::FromStr> TryFrom<LimitText> for Limit<T>
where
    T::Err: ToString,
{
    type Error = String;

    fn try_from(text: LimitText) -> Result<Self, String> {
        let text = match text {
            LimitText::Number(number) => number.to_string(),
            LimitText::Text(text) => text,
        };
        text.parse().map(Self)
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ToolchainText {
    llvm: Option<Place>,
    air: Option<Place>,
    aie: Option<Place>,
    peano: Option<Place>,
    xrt: Option<Place>,
    cxx: Option<Place>,
    python: Option<Place>,
    hsaco_packer: Option<Parsed<HsacoPacker>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct KernelText {
    path: Place,
    #[serde(default)]
    target: OneOrMore<Target>,
    entry: Option<String>,
    signature: Option<String>,
    #[serde(default)]
    args: BTreeMap<String, Direction>,
    #[serde(default)]
    extents: BTreeMap<String, ExtentText>,
    march: Option<Parsed<March>>,
    #[serde(default)]
    runtime: OneOrMore<Runtime>,
    format: Option<Parsed<Package>>,
    grid: Option<Grid>,
    transform: Option<Place>,
    #[serde(default)]
    options: OptionsText,
    #[serde(default)]
    inputs: Vec<Place>,
    #[serde(default)]
    tool_args: Vec<String>,
}

/// An extent: a number of elements, or the text of `--extent`.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "an extent is a number of elements, or text such as \"n\" or \"[rows, cols]\""
)]
enum ExtentText {
    Number(u64),
    Text(String),
}

impl ExtentText {
    fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

/// A grid: a number, a list of one to three, or the text of `--grid`.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a grid is a number, a list of one to three numbers, or text such as \"4,4\""
)]
enum GridText {
    Number(u32),
    List(Vec<u32>),
    Text(String),
}

#[derive(Deserialize)]
#[serde(try_from = "GridText")]
struct Grid(LaunchGrid);

impl TryFrom<GridText> for Grid {
    type Error = String;

    fn try_from(grid: GridText) -> Result<Self, String> {
        let text = match grid {
            GridText::Text(text) => text,
            GridText::Number(number) => number.to_string(),
            GridText::List(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
                numbers.join(",")
            }
        };
        text.parse().map(Self)
    }
}

/// A table of options: each value as it would stand on the command line.
#[derive(Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, toml::Value>")]
struct OptionsText(Options);

impl TryFrom<BTreeMap<String, toml::Value>> for OptionsText {
    type Error = String;

    fn try_from(table: BTreeMap<String, toml::Value>) -> Result<Self, String> {
        fn text(value: &toml::Value) -> String {
            match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Array(values) => {
                    let values: Vec<_> = values.iter().map(text).collect();
                    values.join(",")
                }
                value => value.to_string(),
            }
        }
        let mut options = Options::default();
        for (name, value) in &table {
            options.set(name, &text(value))?;
        }
        Ok(Self(options))
    }
}

/// The name of a file, directory or program.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Place(PathBuf);

impl TryFrom<String> for Place {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        value::path(text.into()).map(Self)
    }
}

/// A value that is written as text.
#[derive(Deserialize)]
#[serde(
    try_from = "String",
    bound = "T: std::str::FromStr, T::Err: std::fmt::Display"
)]
struct Parsed<T>(T);

impl<T> TryFrom<String> for Parsed<T>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
            .map(Self)
            .map_err(|error: T::Err| error.to_string())
    }
}

/// A value that is written as text, or a list of them; empty if it is not written.
struct OneOrMore<T>(Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: FromStr<Err: fmt::Display>> Visitor<'de> for Reader<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name, or a list of names")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<OneOrMore<T>, E> {
                let one = text.parse().map_err(E::custom)?;
                Ok(OneOrMore(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMore<T>, A::Error> {
                let mut several = Vec::new();
                while let Some(Parsed(one)) = list.next_element()? {
                    several.push(one);
                }
                if several.is_empty() {
                    return Err(de::Error::custom("a list with nothing in it: leave it out"));
                }
                Ok(OneOrMore(several))
            }
        }

        deserializer.deserialize_any(Reader(PhantomData))
    }
}

/// A time-out: text with units, or a whole number of seconds.
struct Timeout(Duration);

impl<'de> Deserialize<'de> for Timeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = Timeout;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of seconds, or text with units such as \"90s\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timeout, E> {
                parse_timeout(text).map(Timeout).map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Timeout, E> {
                self.visit_str(&seconds.to_string())
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

#[derive(Deserialize)]
#[serde(try_from = "i64")]
struct Jobs(u32);

impl TryFrom<i64> for Jobs {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        parse_jobs(&number.to_string()).map(Self)
    }
}

/// The nearest project file in `directory` or above it.
pub(super) fn find_project(directory: &Path) -> Option<PathBuf> {
    directory
        .ancestors()
        .map(|directory| directory.join(PROJECT_FILE))
        .find(|path| path.is_file())
}

impl File {
    /// Reads the file at `path`; `None` if there is none.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, ConfigError> {
        // To open a pipe would wait for somebody to write into it.
        let is_special = |metadata: fs::Metadata| !metadata.is_file() && !metadata.is_dir();
        if fs::metadata(path).is_ok_and(is_special) {
            return Err(ConfigError::Read {
                path: path.to_owned(),
                source: std::io::Error::other("it is no regular file"),
            });
        }
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(source) => {
                return Err(ConfigError::Read {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        let syntax = |message| ConfigError::Syntax {
            path: path.to_owned(),
            message,
        };
        let text: Text = toml::from_str(&text).map_err(|error| syntax(explained(&error)))?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let file = text.into_file(directory);
        for (number, section) in file.kernels.iter().enumerate() {
            let earlier = file.kernels.iter().take(number);
            let same = |other: &&KernelSection| {
                // As components: `./k.mlir` is `k.mlir`.
                other.path.components().eq(section.path.components())
                    && other.entry == section.entry
            };
            if earlier.into_iter().any(|other| same(&other)) {
                return Err(syntax(format!(
                    "two [[kernel]] tables are for {}: make them one, with lists of targets and \
                     runtimes, or tell them apart by entry",
                    section.path.display()
                )));
            }
        }
        Ok(Some(file))
    }
}

impl Text {
    /// Paths are relative to the directory of the file that they stand in.
    fn into_file(self, directory: &Path) -> File {
        let kernels = self.kernel.into_iter().map(|kernel| KernelSection {
            path: directory.join(kernel.path.0),
            targets: kernel.target.0,
            entry: kernel.entry,
            signature: kernel.signature,
            directions: kernel.args.into_iter().collect(),
            extents: kernel
                .extents
                .into_iter()
                .map(|(name, extent)| (name, extent.text()))
                .collect(),
            march: kernel.march.map(|parsed| parsed.0),
            runtimes: kernel.runtime.0,
            format: kernel.format.map(|parsed| parsed.0),
            npu: NpuChoices {
                grid: kernel.grid.map(|grid| grid.0),
                transform: kernel.transform.map(|place| place.0),
                options: kernel.options.0,
                inputs: kernel.inputs.into_iter().map(|place| place.0).collect(),
                arguments: kernel.tool_args,
            }
            .in_directory(directory),
        });
        let absolute = |place: Place| directory.join(place.0);
        let packer = self.toolchain.hsaco_packer;
        File {
            layer: Layer {
                cache_dir: self.cache.dir.map(absolute),
                cache: self.cache.enabled,
                shared_cache: self.cache.shared,
                cache_choices: CacheChoices {
                    layers: (self.cache.layers)
                        .map(|layers| layers.into_iter().map(absolute).collect()),
                    max_size: self.cache.max_size.map(|limit| limit.0),
                    max_age: self.cache.max_age.map(|limit| limit.0),
                    max_entries: self.cache.max_entries.map(|limit| limit.0),
                },
                target: self.build.target.map(|parsed| parsed.0),
                runtime: self.build.runtime.map(|parsed| parsed.0),
                format: self.build.format.map(|parsed| parsed.0),
                transform: self.build.transform.map(absolute),
                march: self.build.march.map(|parsed| parsed.0),
                llvm: self.toolchain.llvm.map(absolute),
                air: self.toolchain.air.map(absolute),
                aie: self.toolchain.aie.map(absolute),
                peano: self.toolchain.peano.map(absolute),
                xrt: self.toolchain.xrt.map(absolute),
                cxx: self.toolchain.cxx.map(|program| match program.0.parent() {
                    // A name is looked for on PATH.
                    Some(parent) if parent.as_os_str().is_empty() => program.0.into_os_string(),
                    _ => absolute(program).into_os_string(),
                }),
                python: self.toolchain.python.map(absolute),
                hsaco_packer: packer.map(|packer| packer.0.in_directory(directory)),
                timeout: self.build.timeout.map(|timeout| timeout.0),
                jobs: self.build.jobs.map(|jobs| jobs.0),
                keep_intermediates: self.build.keep_intermediates,
                runtime_crate: self.build.runtime_crate,
            },
            kernels: kernels.collect(),
        }
    }
}

/// The parser's message with its place, and for an unknown key the nearest known one.
fn explained(error: &toml::de::Error) -> String {
    // It shows the line in question.
    let mut message = error.to_string().trim_end().replace('\n', "\n  ");
    // Serde words it as: unknown field `x`, expected one of `a`, `b`
    let told = error.message();
    if told.starts_with("unknown field") {
        let mut quoted = told.split('`').skip(1).step_by(2);
        if let Some(unknown) = quoted.next()
            && let Some(nearest) = crate::nearest::of(unknown, quoted)
        {
            message.push_str(&format!("\n  did you mean `{nearest}`?"));
        }
    }
    message
}
