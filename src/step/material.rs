//! Key material: everything that can change a step's output, as named fields in a fixed order.
//!
//! The key is SHA-256 over the fields' canonical encoding. Every name and value is length-prefixed
//! and tagged with its type, so two different lists of fields never encode to the same bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, Hasher};

/// Separates these keys from any other use of SHA-256; the number is the encoding's version.
const DOMAIN: &[u8] = b"npu-build step key 1\0";

/// The fields of one step, in the order in which they are hashed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Material(Vec<Field>);

/// One named input of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// What it is, e.g. `tool.clang` or `input.kernel.mlir`.
    pub name: String,
    /// Its value, under the name of its type.
    #[serde(flatten)]
    pub value: Value,
}

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// Text as it is.
    Text(String),
    /// Several texts whose order matters, such as an argument list.
    List(Vec<String>),
    /// The digest of something too long to keep.
    Sha256(Digest),
}

impl Material {
    /// Adds a field; the caller keeps names unique and their order fixed.
    pub fn push(&mut self, name: impl Into<String>, value: Value) {
        self.0.push(Field {
            name: name.into(),
            value,
        });
    }

    /// The fields in order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.0
    }

    /// The digest that names the entry.
    #[must_use]
    pub fn key(&self) -> Digest {
        let mut bytes = DOMAIN.to_vec();
        put_length(&mut bytes, self.0.len());
        for field in &self.0 {
            put(&mut bytes, field.name.as_bytes());
            match &field.value {
                Value::Text(text) => {
                    bytes.push(b't');
                    put(&mut bytes, text.as_bytes());
                }
                Value::List(items) => {
                    bytes.push(b'l');
                    put_length(&mut bytes, items.len());
                    for item in items {
                        put(&mut bytes, item.as_bytes());
                    }
                }
                Value::Sha256(digest) => {
                    bytes.push(b'd');
                    bytes.extend_from_slice(digest.as_bytes());
                }
            }
        }
        let mut hasher = Hasher::new();
        hasher.update(&bytes);
        hasher.finish()
    }
}

fn put_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend_from_slice(&(length as u64).to_le_bytes());
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    put_length(bytes, part.len());
    bytes.extend_from_slice(part);
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name, self.value)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::List(items) => f.write_str(&items.join(" ")),
            Self::Sha256(digest) => write!(f, "sha256:{digest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn material(fields: &[(&str, Value)]) -> Material {
        let mut material = Material::default();
        for (name, value) in fields {
            material.push(*name, value.clone());
        }
        material
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    fn list(items: &[&str]) -> Value {
        Value::List(items.iter().map(|item| (*item).into()).collect())
    }

    /// Computed with Python's hashlib over the encoding that the module comment describes.
    #[test]
    fn the_encoding_is_the_documented_one() {
        let material = material(&[
            ("step", text("compile")),
            ("command", list(&["cc", "-O3"])),
            ("input", Value::Sha256(Digest::of("abc"))),
        ]);
        assert_eq!(material.key().to_string(), PYTHON);
    }
    const PYTHON: &str = "1d406330df880a70f500ceef4aa5fb6f69ebc01254a018d68531565277fa5a9b";

    #[test]
    fn no_two_materials_share_an_encoding() {
        let all = [
            material(&[]),
            material(&[("a", text(""))]),
            material(&[("", text("a"))]),
            material(&[("a", list(&[]))]),
            material(&[("a", list(&[""]))]),
            material(&[("a", list(&["b", "c"]))]),
            material(&[("a", list(&["bc"]))]),
            material(&[("a", list(&["b c"]))]),
            material(&[("a", text("b c"))]),
            material(&[("a", text("b")), ("c", text(""))]),
            material(&[("c", text("")), ("a", text("b"))]),
        ];
        let mut keys: Vec<_> = all.iter().map(Material::key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all.len());
    }
}
