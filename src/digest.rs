//! SHA-256 digests: what keys, inputs, artifacts and tools are told apart by.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest; written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of bytes in memory.
    #[must_use]
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of everything that `reader` still holds, and how many bytes that was.
    ///
    /// # Errors
    /// Whatever reading fails with; an interrupted read is tried again.
    pub fn of_reader(mut reader: impl Read) -> io::Result<(Self, u64)> {
        let mut hasher = Hasher::new();
        let mut buffer = [0; 32 * 1024];
        let mut total = 0;
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok((hasher.finish(), total)),
                Ok(n) => {
                    hasher.update(&buffer[..n]);
                    total += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first eight bytes as a number: what [`Digest::short`] writes.
    #[must_use]
    pub fn number(&self) -> u64 {
        let first = self.0.iter().take(8);
        first.fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// The first 16 hexadecimal digits: enough to tell entries apart in file names and messages.
    #[must_use]
    pub fn short(&self) -> String {
        let mut hex = self.to_string();
        hex.truncate(16);
        hex
    }
}

/// What an artifact is compared with on every hit: BLAKE3 over its content and then its SHA-256
/// digest, so that neither can be another. As hard to forge as SHA-256 and several times as fast.
/// Written as a [`Digest`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Checksum(Digest);

impl Checksum {
    /// The checksum of content that has this digest.
    #[must_use]
    pub fn of(content: &[u8], digest: &Digest) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(content);
        Self::sealed(hasher, digest)
    }

    /// The checksum of everything that `reader` still holds, if that has this digest; it goes
    /// through `look`, too.
    ///
    /// # Errors
    /// Whatever reading fails with; an interrupted read is tried again.
    pub fn of_reader(
        mut reader: impl Read,
        digest: &Digest,
        mut look: impl FnMut(&[u8]),
    ) -> io::Result<Self> {
        // Four times what the widest vectors take at once; more costs its pages, each a fault.
        const PIECE: usize = 64 * 1024;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; PIECE];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(Self::sealed(hasher, digest)),
                Ok(n) => {
                    let piece = buffer.get(..n).unwrap_or_default();
                    hasher.update(piece);
                    look(piece);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn sealed(mut hasher: blake3::Hasher, digest: &Digest) -> Self {
        hasher.update(digest.as_bytes());
        Self(Digest(hasher.finalize().into()))
    }
}

/// Digests a stream piece by piece.
#[derive(Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// A digest of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.update(bytes);
    }

    /// The digest of all that was added.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = HEX[usize::from(byte >> 4)];
            pair[1] = HEX[usize::from(byte & 15)];
        }
        f.pad(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Text that is no digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a SHA-256 digest of 64 lower-case hexadecimal digits")]
pub struct ParseDigestError(String);

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let nibble = |c: u8| match c {
            b'0'..=b'9' => Some(c - b'0'),
            b'a'..=b'f' => Some(c - b'a' + 10),
            _ => None,
        };
        let error = || ParseDigestError(text.chars().take(80).collect());
        if text.len() != 64 {
            return Err(error());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let (high, low) = nibble(pair[0]).zip(nibble(pair[1])).ok_or_else(error)?;
            *byte = high << 4 | low;
        }
        Ok(Self(bytes))
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.collect_str(self),
            false => self.0.serialize(serializer),
        }
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return <[u8; 32]>::deserialize(deserializer).map(Self);
        }
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the authors' Python package: `blake3(b"abc" + sha256(b"abc").digest())`.
    #[test]
    fn checksums_are_blake3_over_content_and_digest() {
        let abc = Digest::of("abc");
        let mut hasher = Hasher::new();
        let read = Checksum::of_reader(&b"abc"[..], &abc, |piece| hasher.update(piece)).unwrap();
        assert_eq!(read, Checksum::of(b"abc", &abc));
        assert_eq!(read.0.to_string(), B3SUM);
        assert_eq!(hasher.finish(), abc);
        assert_ne!(read, Checksum::of(b"abd", &abc));
        assert_ne!(read, Checksum::of(b"abc", &Digest::of("abd")));
    }
    /// SHA-256 of "abc", from FIPS 180-4's examples.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const B3SUM: &str = "0eb37451d2dfbdb000f678b12ebe51881be4f0271defcad0d4517b2679054397";

    #[test]
    fn agrees_with_the_standards_example() {
        assert_eq!(Digest::of("abc").to_string(), ABC);
        assert_eq!(Digest::of_reader(&b"abc"[..]).unwrap().0.to_string(), ABC);
        let mut pieces = Hasher::new();
        pieces.update("a");
        pieces.update("bc");
        assert_eq!(pieces.finish().to_string(), ABC);
    }

    #[test]
    fn text_round_trips_and_anything_else_is_refused() {
        assert_eq!(ABC.parse::<Digest>().unwrap().to_string(), ABC);
        for bad in ["", "ab", &ABC[1..], &ABC.to_uppercase(), &"é".repeat(32)] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
