//! `manifest.toml`: what an entry is and what is in it. Written last, so an entry without one is none.
//!
//! The file has three parts in a fixed order: the head (key and artifacts: all that a hit needs),
//! the record (tools, durations, key material, log: for people and for `explain`), and a checksum
//! line over everything above it, so that any damage to the file is seen.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::explain::Lines;
use super::layout::SCHEMA;
use crate::digest::{Checksum, Digest};
use crate::step::Step;
use crate::step::execute::Produced;
use crate::step::material::Material;
use crate::toolchain::Identity;

/// Where the record starts.
const RECORD: &str = "\n[record]\n";
/// How the last line starts.
const CHECKSUM: &str = "\n# sha256 of all above: ";

/// An entry's manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// What a hit needs.
    #[serde(flatten)]
    pub head: Head,
    /// What people need.
    pub record: Record,
}

/// The part of a manifest that a hit reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The schema version.
    pub schema: u32,
    /// The step's key, which names the entry.
    pub key: Digest,
    /// How long the step took, in milliseconds.
    #[serde(default)]
    pub took: u64,
    /// The entry's files, in the step's order.
    pub artifact: Vec<ArtifactRecord>,
}

/// One file of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRecord {
    /// Its name in the entry's directory.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Of the content: what other steps and launchers know it by.
    pub sha256: Digest,
    /// Of the content and `sha256`: what it is compared with on every hit.
    pub blake3: Checksum,
}

/// How an entry came to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The kind of step.
    pub step: String,
    /// The kernel.
    pub kernel: String,
    /// The target.
    pub target: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// How long each command took, in milliseconds.
    pub milliseconds: BTreeMap<String, u64>,
    /// What the commands printed.
    pub log: String,
    /// The programs that made it.
    #[serde(default)]
    pub tool: BTreeMap<String, Identity>,
    /// The lines of what the user wrote, to tell which of them changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, Lines>,
    /// Everything the key was computed from.
    pub material: Material,
}

/// What a list shows of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// What a hit needs.
    pub head: Head,
    /// The kind of step.
    pub step: String,
    /// The kernel.
    pub kernel: String,
    /// The target.
    pub target: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
}

/// The first fields of a record, before those that may be long.
#[derive(Deserialize)]
struct Brief {
    step: String,
    kernel: String,
    target: String,
    created: u64,
}

/// Why a manifest can't be believed.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The checksum line is missing or does not fit.
    #[error("the manifest is damaged: its checksum does not fit")]
    Checksum,
    /// It is not what this version writes.
    #[error("the manifest is damaged: {0}")]
    Syntax(String),
    /// It belongs to another schema version.
    #[error("the manifest has schema version {0}, not {SCHEMA}")]
    Schema(u32),
}

impl Manifest {
    /// The manifest of what `step` has just produced.
    #[must_use]
    pub fn new(key: Digest, step: &Step, produced: &Produced, created: Duration) -> Self {
        let artifact = produced.outputs.iter().map(|file| ArtifactRecord {
            name: file.name.to_string(),
            size: file.size,
            sha256: file.digest,
            blake3: file.checksum,
        });
        let milliseconds = produced.durations.iter().map(|(name, duration)| {
            let whole = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            ((*name).to_owned(), whole)
        });
        let tool = step
            .tools()
            .into_iter()
            .map(|tool| (tool.name.to_owned(), tool.identity.clone()));
        Self {
            head: Head {
                schema: SCHEMA,
                key,
                took: u64::try_from(produced.took().as_millis()).unwrap_or(u64::MAX),
                artifact: artifact.collect(),
            },
            record: Record {
                step: step.kind.name().to_owned(),
                kernel: step.subject.clone(),
                target: step.target.to_owned(),
                created: created.as_secs(),
                milliseconds: milliseconds.collect(),
                log: produced.log.clone(),
                tool: tool.collect(),
                lines: Lines::of_step(step),
                material: step.material(),
            },
        }
    }

    /// The file's text.
    ///
    /// # Errors
    /// When TOML can't express a value.
    pub fn to_text(&self) -> Result<String, String> {
        let head = toml::to_string(&self.head).map_err(|error| error.to_string())?;
        let mut text = format!("# Written by npu-build; see cache-layout.md.\n{head}");
        text.push_str(RECORD);
        let record = toml::to_string(&RecordTable {
            record: &self.record,
        })
        .map_err(|error| error.to_string())?;
        text.push_str(record.strip_prefix("[record]\n").unwrap_or(&record));
        let checksum = Digest::of(&text);
        text.push_str(CHECKSUM);
        text.push_str(&checksum.to_string());
        text.push('\n');
        Ok(text)
    }

    /// Reads a whole manifest.
    ///
    /// # Errors
    /// See [`ManifestError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let text = checked(bytes)?;
        let manifest: Self = from_toml(text)?;
        manifest.head.check_schema()?;
        Ok(manifest)
    }
}

impl Summary {
    /// Reads the beginning of a manifest: much less than all of it.
    ///
    /// # Errors
    /// See [`ManifestError`]; the checksum covers the whole file.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let text = checked(bytes)?;
        let (head, record) = text.split_once(RECORD).unwrap_or((text, ""));
        // A name that held this would keep the entry from lists, and from nothing else.
        let brief = record.find("\nlog = ").map_or(record, |at| &record[..at]);
        let (head, brief): (Head, Brief) = (from_toml(head)?, from_toml(brief)?);
        head.check_schema()?;
        Ok(Self {
            head,
            step: brief.step,
            kernel: brief.kernel,
            target: brief.target,
            created: brief.created,
        })
    }
}

impl Head {
    /// Reads the part that a hit needs.
    ///
    /// # Errors
    /// See [`ManifestError`]; the checksum covers the whole file.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let text = checked(bytes)?;
        let head: Self = from_toml(text.find(RECORD).map_or(text, |at| &text[..at]))?;
        head.check_schema()?;
        Ok(head)
    }

    fn check_schema(&self) -> Result<(), ManifestError> {
        if self.schema == SCHEMA {
            Ok(())
        } else {
            Err(ManifestError::Schema(self.schema))
        }
    }
}

/// Gives the record its table header when it is serialised on its own.
#[derive(Serialize)]
struct RecordTable<'a> {
    record: &'a Record,
}

fn from_toml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, ManifestError> {
    toml::from_str(text).map_err(|error| ManifestError::Syntax(error.message().to_owned()))
}

/// The text above the checksum line, if the checksum fits.
fn checked(bytes: &[u8]) -> Result<&str, ManifestError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ManifestError::Checksum)?;
    let (above, checksum) = text.rsplit_once(CHECKSUM).ok_or(ManifestError::Checksum)?;
    let promised: Digest = checksum
        .strip_suffix('\n')
        .and_then(|hex| hex.parse().ok())
        .ok_or(ManifestError::Checksum)?;
    if Digest::of(above) == promised {
        Ok(above)
    } else {
        Err(ManifestError::Checksum)
    }
}

#[cfg(test)]
mod tests;
