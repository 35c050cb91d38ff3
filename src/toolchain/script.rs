//! What a script names: the paths in its text, as far as they can be seen without executing it.
//!
//! No shell is understood here, and what a script computes is not seen. Where a text can be read in
//! several ways each of them counts: a name that means nothing costs a look at a path.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::base::is_shell;

/// A longer name is none.
const MAX_NAME: usize = 4096;
/// What reads the file that follows.
const READERS: [&[u8]; 3] = [b".", b"source", b"cat"];

/// An absolute path in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) path: PathBuf,
    /// Whether it is read, and so is part of the script whatever it looks like.
    pub(super) is_read: bool,
}

/// The absolute paths in `text`, each as often as it occurs.
pub(super) fn named(text: &[u8]) -> Vec<Named> {
    let mut named = Vec::new();
    // Where the word before ended that is no flag, and whether it reads what follows.
    let mut before = (0, false);
    for (start, word) in words(text) {
        let between = text.get(before.0..start).unwrap_or_default();
        let follows = between.iter().all(|byte| b" \t\"'".contains(byte));
        let mut add = |path: Vec<u8>, is_read| {
            let path = PathBuf::from(std::ffi::OsString::from_vec(path));
            named.push(Named { path, is_read });
        };
        match path_in(word) {
            Some(at) => {
                let is_read = at > 0 && word.get(at - 1) == Some(&b'@') || follows && before.1;
                let start = start + at;
                let path = word.get(at..).unwrap_or_default();
                add(path.to_vec(), is_read);
                if let Some(longer) = longer(text, start).filter(|longer| longer != path) {
                    add(longer, is_read);
                }
            }
            None if word.starts_with(b"-") && follows => {
                before.0 = start + word.len();
                continue;
            }
            None => {}
        }
        let name = Path::new(OsStr::from_bytes(word)).file_name();
        let name = name.map_or(word, OsStr::as_bytes);
        before = (
            start + word.len(),
            READERS.contains(&word) || is_shell(name),
        );
    }
    named
}

/// The directories that are given to the dynamic loader of what the script executes.
pub(super) fn library_path(text: &[u8]) -> Vec<PathBuf> {
    const VARIABLE: &[u8] = b"LD_LIBRARY_PATH=";
    let starts = text.windows(VARIABLE.len()).enumerate();
    let starts = starts.filter(|(_, window)| *window == VARIABLE);
    let values = starts.filter_map(|(at, _)| {
        let value = text.get(at + VARIABLE.len()..)?;
        let value = match value {
            [b'"' | b'\'', quoted @ ..] => quoted,
            value => value,
        };
        value.split(|byte| b"\"'; \t\n&|".contains(byte)).next()
    });
    let directories = values.flat_map(|value| value.split(|byte| *byte == b':'));
    directories
        .filter(|directory| directory.starts_with(b"/") && !directory.contains(&b'$'))
        .map(|directory| PathBuf::from(OsStr::from_bytes(directory)))
        .collect()
}

/// The words that could be paths, and where they begin.
fn words(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let is_path = |byte: &u8| {
        byte.is_ascii_alphanumeric() || b"/._-+@%,:~".contains(byte) || !byte.is_ascii()
    };
    let mut start = 0;
    text.split(move |byte| !is_path(byte))
        .map(move |word| {
            let begins = start;
            start += word.len() + 1;
            (begins, word)
        })
        .filter(|(_, word)| !word.is_empty())
}

/// Where an absolute path begins in a word: at its start, behind a flag, or behind what joins it to
/// something, as in `@/a`, `:-/a` and `x:/a`.
fn path_in(word: &[u8]) -> Option<usize> {
    let slash = word.iter().position(|byte| *byte == b'/')?;
    let is_start = slash.checked_sub(1).is_none_or(|before| {
        word.starts_with(b"-")
            || word
                .get(before)
                .is_some_and(|byte| b":@,-+%".contains(byte))
    });
    is_start.then_some(slash)
}

/// The path that begins at `start` with all that could belong to it: between quotes everything, else
/// what ends with a space that is not escaped.
fn longer(text: &[u8], start: usize) -> Option<Vec<u8>> {
    let rest = text.get(start..)?;
    let rest = rest.get(..rest.len().min(MAX_NAME))?;
    let before = start.checked_sub(1).and_then(|before| text.get(before));
    let quote = before.filter(|byte| b"\"'".contains(byte));
    let mut path = Vec::new();
    let mut bytes = rest.iter();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\n' | 0, _) => return quote.is_none().then_some(path),
            (byte, Some(quote)) if byte == quote => return Some(path),
            (b'\\', None) => path.extend(bytes.next()),
            (
                b' ' | b'\t' | b';' | b'|' | b'&' | b'<' | b'>' | b'(' | b')' | b'`' | b'$' | b'}',
                None,
            )
            | (b'"' | b'\'', None) => return Some(path),
            (byte, _) => path.push(*byte),
        }
    }
    quote.is_none().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let named = named(text.as_bytes()).into_iter();
        named
            .map(|named| named.path.display().to_string())
            .collect()
    }

    #[test]
    fn names_are_found_however_they_are_written() {
        for (text, path) in [
            ("#!/bin/sh\nexec x", "/bin/sh"),
            ("#! /usr/bin/env python3", "/usr/bin/env"),
            ("exec \"/my tools/clang\" \"$@\"", "/my tools/clang"),
            ("exec '/a(b)&c/clang' x", "/a(b)&c/clang"),
            ("exec /my\\ tools/clang x", "/my tools/clang"),
            ("exec /a=b/c#d/e!f x", "/a=b/c#d/e!f"),
            ("A=/a/b; exec $A", "/a/b"),
            ("exec ${X:-/a/b} x", "/a/b"),
            ("exec -a \"$0\" \"/a/b\"", "/a/b"),
            ("clang @/a/flags.rsp", "/a/flags.rsp"),
            ("clang -B/a/b -L/c", "/a/b"),
            ("/a/b:/c/d", "/a/b:/c/d"),
            ("exec /ü/clang", "/ü/clang"),
        ] {
            assert!(
                paths(text).contains(&path.to_owned()),
                "{text}: {:?}",
                paths(text)
            );
        }
        for text in ["a/b", "../a", "$A/b", "x"] {
            assert_eq!(paths(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn what_is_read_is_told_from_what_is_only_named() {
        for text in [
            ". /a",
            "source \"/a\"",
            "sh /a",
            "/bin/bash -e /a",
            "x $(cat /a)",
            "clang @/a",
        ] {
            let named = named(text.as_bytes());
            assert!(
                named
                    .iter()
                    .any(|named| named.is_read && named.path == Path::new("/a")),
                "{text}: {named:?}"
            );
        }
        for text in ["echo x >> /a", "exec /a", "x. /a", "sh -c x; echo /a"] {
            let named = named(text.as_bytes());
            assert!(
                named.iter().all(|named| !named.is_read),
                "{text}: {named:?}"
            );
        }
    }

    #[test]
    fn the_loaders_directories_are_found() {
        let of = |text: &str| library_path(text.as_bytes());
        let expected = ["/a/lib", "/b"].map(PathBuf::from);
        for text in [
            "LD_LIBRARY_PATH=/a/lib:/b exec x",
            "export LD_LIBRARY_PATH=\"/a/lib:/b:$LD_LIBRARY_PATH\"\nexec x",
            "export LD_LIBRARY_PATH='/a/lib'; LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/b",
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
        assert_eq!(of("LD_LIBRARY_PATH="), [""; 0].map(PathBuf::from));
    }

    proptest::proptest! {
        #[test]
        fn hostile_bytes_never_panic(text: Vec<u8>, tail in "[ \"'/\\\\@.=:a-c-]*") {
            let text = [&text, tail.as_bytes()].concat();
            for named in named(&text) {
                proptest::prop_assert!(named.path.is_absolute());
            }
            library_path(&text);
        }
    }
}
