//! `npu-build.toml`, and the user's file of the same form: what is read from them, and how values are
//! written there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use npu_runtime::Direction;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::options::{CacheOptions, Layer, Options, ToolOptions};
use super::values::{Bound, LaunchGrid, parse_jobs, parse_timeout};
use crate::step::npu::TargetOptions;
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
    pub(super) kernels: Vec<Options>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Text {
    build: Options,
    cache: CacheOptions,
    toolchain: ToolOptions,
    kernel: Vec<Options>,
}

/// A value as it would stand on the command line: a list has its items between commas.
fn written(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(values) => values.iter().map(written).collect::<Vec<_>>().join(","),
        value => value.to_string(),
    }
}

fn parsed<'de, D, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
{
    let value = toml::Value::deserialize(deserializer)?;
    parse(&written(&value)).map(Some).map_err(D::Error::custom)
}

pub(super) fn text<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

/// A name, or a list of names.
pub(super) fn one_or_more<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a name, or a list of names")]
    enum Names {
        One(String),
        More(Vec<String>),
    }
    let names = match Names::deserialize(deserializer)? {
        Names::One(name) => vec![name],
        Names::More(names) if names.is_empty() => {
            return Err(D::Error::custom("a list with nothing in it: leave it out"));
        }
        Names::More(names) => names,
    };
    let names = names
        .iter()
        .map(|name| name.parse().map_err(D::Error::custom));
    names.collect()
}

pub(super) fn bound<'de, D, T>(deserializer: D) -> Result<Option<Bound<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr,
    T::Err: ToString,
{
    parsed(deserializer, str::parse)
}

pub(super) fn timeout<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    parsed(deserializer, parse_timeout)
}

pub(super) fn jobs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    parsed(deserializer, parse_jobs)
}

pub(super) fn grid<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<LaunchGrid>, D::Error> {
    parsed(deserializer, str::parse)
}

/// The name of a file or directory.
pub(super) fn place<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    let text = String::deserialize(deserializer)?;
    value::path(text.into()).map(Some).map_err(D::Error::custom)
}

pub(super) fn places<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?.into_iter();
    let places = texts.map(|text| value::path(text.into()).map_err(D::Error::custom));
    places.collect()
}

pub(super) fn some_places<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<PathBuf>>, D::Error> {
    places(deserializer).map(Some)
}

pub(super) fn program<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<OsString>, D::Error> {
    Ok(place(deserializer)?.map(PathBuf::into_os_string))
}

/// A table of arguments and their directions.
pub(super) fn pairs<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, Direction)>, D::Error> {
    let table = BTreeMap::<String, Direction>::deserialize(deserializer)?;
    Ok(table.into_iter().collect())
}

/// A table of arguments and their extents: numbers, or the text of `--extent`.
pub(super) fn extents<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, String)>, D::Error> {
    let table = BTreeMap::<String, toml::Value>::deserialize(deserializer)?;
    let extent = |(name, value): (String, toml::Value)| match value {
        toml::Value::String(_) | toml::Value::Integer(_) => Ok((name, written(&value))),
        _ => Err(D::Error::custom(
            "an extent is a number of elements, or text such as \"n\" or \"[rows, cols]\"",
        )),
    };
    table.into_iter().map(extent).collect()
}

/// A table of the target's options.
pub(super) fn target_options<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<TargetOptions, D::Error> {
    let mut options = TargetOptions::default();
    for (name, value) in BTreeMap::<String, toml::Value>::deserialize(deserializer)? {
        options
            .set(&name, &written(&value))
            .map_err(D::Error::custom)?;
    }
    Ok(options)
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
        let kernels = text.kernel.into_iter();
        let file = Self {
            layer: Layer {
                options: text.build,
                cache: text.cache,
                tools: text.toolchain,
            }
            .in_directory(directory),
            kernels: kernels
                .map(|kernel| kernel.in_directory(directory))
                .collect(),
        };
        file.check().map_err(syntax)?;
        Ok(Some(file))
    }

    /// Refuses what makes no sense where it stands.
    fn check(&self) -> Result<(), String> {
        if self.layer.options.path.is_some() {
            return Err("[build] is for all kernels: `path` belongs into a [[kernel]]".to_owned());
        }
        for (number, section) in self.kernels.iter().enumerate() {
            let Some(path) = &section.path else {
                return Err("a [[kernel]] has no `path`: name its MLIR file".to_owned());
            };
            if section.jobs.is_some() {
                return Err("`jobs` is for all kernels: it belongs into [build]".to_owned());
            }
            // As components: `./k.mlir` is `k.mlir`.
            let same = |other: &Options| {
                let other_path = other.path.iter().flat_map(|path| path.components());
                other_path.eq(path.components()) && other.entry == section.entry
            };
            if self.kernels.iter().take(number).any(same) {
                return Err(format!(
                    "two [[kernel]] tables are for {}: make them one, with lists of targets and \
                     runtimes, or tell them apart by entry",
                    path.display()
                ));
            }
        }
        Ok(())
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
