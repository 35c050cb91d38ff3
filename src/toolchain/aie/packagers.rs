//! Which packaging programs an `aiecc` runs, read from the program itself.
//!
//! Releases differ in what they link in instead: where `bootgen` and aiebu are built in, the
//! programs are neither needed nor part of the key.

use std::fs::File;
use std::io::{self, Read};

use super::ToolName;
use super::dialect::PACKAGERS;
use crate::toolchain::{Reason, Tool, wheel};

/// Which packaging programs an `aiecc` may run: those that are named anywhere in it, as a program
/// that it looks for by name must be. If none is, it can't be told, and all may be.
pub(super) fn packagers(tool: &Tool) -> Result<String, Reason> {
    let names = PACKAGERS.map(ToolName::name);
    let mut named = [false; PACKAGERS.len()];
    for file in tool.files().filter(|file| !wheel::is_record(file)) {
        let unreadable = |error: io::Error| Reason::Unreadable {
            file: file.to_owned(),
            error: error.to_string(),
        };
        find_names(File::open(file).map_err(unreadable)?, &names, &mut named)
            .map_err(unreadable)?;
    }
    let cannot_be_told = !named.contains(&true);
    let named = names
        .into_iter()
        .zip(named)
        .filter(|(_, is_named)| *is_named || cannot_be_told);
    Ok(named.map(|(name, _)| name).collect::<Vec<_>>().join(" "))
}

/// Notes which names occur in a stream.
fn find_names(mut stream: impl Read, names: &[&str], named: &mut [bool]) -> io::Result<()> {
    const CHUNK: usize = 256 * 1024;
    let longest = names.iter().map(|name| name.len()).max().unwrap_or(1);
    let mut bytes = Vec::with_capacity(CHUNK + longest);
    while !named.iter().all(|named| *named) {
        // The end of one piece and the start of the next may make a name.
        let kept = bytes.len().min(longest - 1);
        bytes.drain(..bytes.len() - kept);
        if stream.by_ref().take(CHUNK as u64).read_to_end(&mut bytes)? == 0 {
            break;
        }
        for (name, named) in names.iter().zip(&mut *named) {
            *named = *named || contains(&bytes, name.as_bytes());
        }
    }
    Ok(())
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    let Some((first, rest)) = word.split_first() else {
        return true;
    };
    let mut from = bytes;
    while let Some(at) = from.iter().position(|byte| byte == first) {
        from = from.get(at + 1..).unwrap_or_default();
        if from.starts_with(rest) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_across_pieces() {
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let length = buffer.len().min(5);
                self.0.read(buffer.get_mut(..length).unwrap())
            }
        }
        let text = [vec![b'b'; 256 * 1024 - 3], b"bootgen aiebu-as".to_vec()].concat();
        let mut named = [false; 2];
        find_names(Slow(&text), &["bootgen", "aiebu-asm"], &mut named).unwrap();
        assert_eq!(named, [true, false]);
    }
}
