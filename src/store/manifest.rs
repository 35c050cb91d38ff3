//! The manifest: what an entry is and what is in it. Written last, so an entry without one is none.
//!
//! The file has three lines, each a JSON value: the head, which is all that a hit or a list needs;
//! the record, for people and for explanations; and the SHA-256 of the two lines above, so that any
//! damage to the file is noticed. JSON has no raw newlines, so nothing else ends a line.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::layout::SCHEMA;
use super::lines::Lines;
use crate::digest::{Checksum, Digest};
use crate::step::Step;
use crate::step::execute::Produced;
use crate::step::material::Material;
use crate::toolchain::Identity;

/// Manifests are a few kilobytes; a larger file is not one of ours.
pub(super) const MANIFEST_LIMIT: u64 = 4 << 20;

/// An entry's manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Manifest {
    /// What the entry is.
    #[serde(flatten)]
    pub head: Head,
    /// How it was made.
    pub record: Record,
}

/// The part of a manifest that a hit and a list read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The schema version.
    pub schema: u32,
    /// The step's key, which names the entry.
    pub key: Digest,
    /// The kind of step.
    pub step: String,
    /// The kernel.
    pub kernel: String,
    /// The target.
    pub target: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// How long the step took, in milliseconds.
    pub took: u64,
    /// The entry's files, in the step's order.
    pub artifacts: Vec<ArtifactRecord>,
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

/// How an entry was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// How long each command took, in milliseconds.
    pub milliseconds: BTreeMap<String, u64>,
    /// The programs that made it.
    pub tools: BTreeMap<String, Identity>,
    /// The lines of what the user wrote, to name the first that changed.
    pub lines: BTreeMap<String, Lines>,
    /// Everything the key was computed from.
    pub material: Material,
    /// What the commands printed.
    pub log: String,
}

impl Manifest {
    /// The manifest of what `step` has just produced.
    pub(super) fn new(key: Digest, step: &Step, produced: &Produced, created: u64) -> Self {
        let artifacts = produced.outputs.iter().map(|file| ArtifactRecord {
            name: file.name.to_string(),
            size: file.size,
            sha256: file.digest,
            blake3: file.checksum,
        });
        let durations = produced.durations.iter();
        let durations = durations.map(|(name, time)| ((*name).to_owned(), milliseconds(*time)));
        let tools = step.tools().into_iter();
        let tools = tools.map(|tool| (tool.name.to_owned(), tool.identity.clone()));
        Self {
            head: Head {
                schema: SCHEMA,
                key,
                step: step.kind.name().to_owned(),
                kernel: step.subject.clone(),
                target: step.target.to_owned(),
                created,
                took: milliseconds(produced.took()),
                artifacts: artifacts.collect(),
            },
            record: Record {
                milliseconds: durations.collect(),
                tools: tools.collect(),
                lines: Lines::of_step(step),
                material: step.material(),
                log: produced.log.clone(),
            },
        }
    }

    /// The file's text.
    ///
    /// # Errors
    /// None that is known: there is nothing in it that JSON can't express.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let head = serde_json::to_string(&self.head)?;
        let record = serde_json::to_string(&self.record)?;
        let above = format!("{head}\n{record}\n");
        let checksum = serde_json::to_string(&Digest::of(&above))?;
        Ok(format!("{above}{checksum}\n"))
    }

    /// Reads a whole manifest.
    ///
    /// # Errors
    /// When it is damaged, or of another schema version.
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let [head, record] = lines(bytes)?;
        Ok(Self {
            head: Head::from_line(head)?,
            record: parsed(record)?,
        })
    }
}

impl Head {
    /// Reads the part that a hit needs; the checksum covers the whole file.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let [head, _] = lines(bytes)?;
        Self::from_line(head)
    }

    fn from_line(line: &[u8]) -> Result<Self, Fault> {
        let head: Self = parsed(line)?;
        match head.schema {
            SCHEMA => Ok(head),
            other => Err(Fault::new(format!(
                "the manifest has schema version {other}, not {SCHEMA}"
            ))),
        }
    }

    /// Bytes of all artifacts.
    pub(super) fn size(&self) -> u64 {
        let sizes = self.artifacts.iter().map(|artifact| artifact.size);
        sizes.fold(0, u64::saturating_add)
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn parsed<T: DeserializeOwned>(line: &[u8]) -> Result<T, Fault> {
    let damaged = |error| Fault::new(format!("the manifest is damaged: {error}"));
    serde_json::from_slice(line).map_err(damaged)
}

/// The lines of the head and the record, if the checksum below them fits.
fn lines(bytes: &[u8]) -> Result<[&[u8]; 2], Fault> {
    let damaged = || Fault::new("the manifest is damaged: its checksum does not fit");
    let [head, record, checksum, b""] = split(bytes).ok_or_else(damaged)? else {
        return Err(damaged());
    };
    let above = bytes
        .get(..head.len() + record.len() + 2)
        .ok_or_else(damaged)?;
    let promised = serde_json::from_slice::<Digest>(checksum).map_err(|_| damaged())?;
    if Digest::of(above) == promised {
        Ok([head, record])
    } else {
        Err(damaged())
    }
}

fn split(bytes: &[u8]) -> Option<[&[u8]; 4]> {
    let mut lines = bytes.splitn(4, |byte| *byte == b'\n');
    let mut next = || lines.next();
    Some([next()?, next()?, next()?, next()?])
}

#[cfg(test)]
mod tests;
