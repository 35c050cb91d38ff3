//! Paths in the memo file: text where they are UTF-8, else their bytes, so that none is refused.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    match path.to_str() {
        Some(text) => serializer.serialize_str(text),
        None => serializer.collect_seq(path.as_os_str().as_bytes()),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    deserializer.deserialize_any(PathVisitor)
}

struct PathVisitor;

impl<'de> Visitor<'de> for PathVisitor {
    type Value = PathBuf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PathBuf, E> {
        Ok(PathBuf::from(OsStr::new(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<PathBuf, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = sequence.next_element()? {
            bytes.push(byte);
        }
        Ok(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    }
}
