//! Python environments as directories: where their wheels keep programs, and which wheel owns a file.
//!
//! No Python is run. A wheel is identified by its `RECORD`, which lists its files with their digests;
//! the lines that installing adds (scripts with the environment's path in them, bytecode, notes on
//! the installer) are left out, so that the same wheel is the same everywhere.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::closure::Part;
use super::places;
use super::stamp::Watch;
use crate::digest::{Digest, Hasher};

const RECORD: &str = "RECORD";
const DIST_INFO: &str = ".dist-info";
/// A record of more bytes than this is not searched; that of a whole LLVM has about two million.
const MAX_RECORD: u64 = 64 << 20;
/// How the distributions that hold tools are called; others are not opened.
const DISTRIBUTIONS: [&str; 4] = ["mlir", "llvm", "aie", "air"];
/// As much of a script tells by which Python it is run.
const SCRIPT_HEAD: u64 = 1024;
/// No `.pth` file has as many bytes.
const MAX_LINK: u64 = 64 * 1024;

/// The directories of packages in a Python environment, the newest Python's first. The environment
/// may also be given as such a directory itself.
pub(super) fn packages(environment: &Path, watch: &mut Watch) -> Vec<PathBuf> {
    if is_packages(environment) {
        return vec![environment.to_owned()];
    }
    watch.see(environment);
    let mut found: Vec<(Reverse<u32>, PathBuf)> = Vec::new();
    for lib in ["lib", "lib64"] {
        let lib = environment.join(lib);
        // In most environments lib64 is a link to lib.
        if std::fs::symlink_metadata(&lib).is_ok_and(|lib| lib.is_symlink()) {
            continue;
        }
        for name in places::names(&lib, watch) {
            let Some(minor) = name.to_str().and_then(minor_version) else {
                continue;
            };
            let packages = lib.join(&name).join("site-packages");
            if watch.see(&packages).is_some() && packages.is_dir() {
                found.push((Reverse(minor), packages));
            }
        }
    }
    found.sort();
    found.into_iter().map(|(_, packages)| packages).collect()
}

/// The 13 of `python3.13t`; 0 for `python3`.
fn minor_version(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("python3")?;
    let number = rest.trim_start_matches('.').trim_end_matches('t');
    if number.is_empty() {
        return Some(0);
    }
    number.parse().ok()
}

fn is_packages(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default();
    name == "site-packages" || name == "dist-packages"
}

/// The directories of programs of the trees that wheels install under one of these names: the
/// tree's own `bin`, then what a `.pth` file of that name leads to.
pub(super) fn program_directories(
    packages: &Path,
    trees: &[&str],
    watch: &mut Watch,
) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    for tree in trees {
        directories.push(packages.join(tree).join("bin"));
        let link = packages.join(format!("{}.pth", tree.replace('_', "-")));
        // The stamp of the directory stands for a link that is not there.
        watch.see(packages);
        let Some(text) = start_of(&link, MAX_LINK) else {
            continue;
        };
        watch.see(&link);
        for line in text.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"import") {
                continue;
            }
            // It names the directory of Python modules: the tree, or `python` in it.
            let modules = plain(&packages.join(OsStr::from_bytes(line)));
            directories.push(modules.join("bin"));
            directories.extend(modules.parent().map(|tree| tree.join("bin")));
        }
    }
    directories
}

/// A path without `.` and `..`, by its text alone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// The program that a Python wrapper such as `venv/bin/aiecc` is for: the one of that name in the
/// package of the environment that the wrapper is in, or that its interpreter is in.
pub(super) fn behind_wrapper(
    wrapper: &Path,
    name: &str,
    trees: &[&str],
    watch: &mut Watch,
) -> Option<PathBuf> {
    let interpreter = interpreter(wrapper)?;
    let real = std::fs::canonicalize(wrapper).ok();
    let programs = [Some(wrapper), real.as_deref(), Some(&interpreter)];
    for program in programs.into_iter().flatten() {
        let Some(environment) = program.parent().and_then(Path::parent) else {
            continue;
        };
        for packages in packages(environment, watch) {
            for directory in program_directories(&packages, trees, watch) {
                let behind = directory.join(name);
                watch.see(&behind);
                if places::is_program(&behind) && std::fs::canonicalize(&behind).ok() != real {
                    return Some(behind);
                }
            }
        }
    }
    None
}

/// The Python that a script is run by, if it is one. Where the path is too long for `#!`, or has a
/// space in it, installers write `#!/bin/sh` and in the next line `'''exec' "/the/path" "$0" "$@"`.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let head = start_of(script, SCRIPT_HEAD)?;
    let mut lines = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n');
    let first = lines.next()?.trim_ascii();
    let command = match lines
        .next()
        .and_then(|line| line.strip_prefix(b"'''exec' "))
    {
        Some(command) => match command.strip_prefix(b"\"") {
            Some(quoted) => quoted.split(|byte| *byte == b'"').next()?,
            None => command.split(|byte| *byte == b' ').next()?,
        },
        None => {
            let mut words = first.split(u8::is_ascii_whitespace);
            let program = words.next()?;
            if program.ends_with(b"/env") {
                words.next()?
            } else {
                program
            }
        }
    };
    let path = Path::new(OsStr::from_bytes(command));
    let is_python = path.file_name()?.as_bytes().starts_with(b"python");
    is_python.then(|| path.to_owned())
}

/// The records of the wheels that own the program at `path`.
pub(super) fn owners(path: &Path, watch: &mut Watch) -> Vec<Part> {
    let named = path.ancestors().find(|above| is_packages(above));
    let places: Vec<(PathBuf, Vec<u8>)> = match named {
        Some(packages) => {
            let inside = path.strip_prefix(packages).unwrap_or(path);
            vec![(packages.to_owned(), inside.as_os_str().as_bytes().to_vec())]
        }
        // A script beside the interpreter is listed as `../../../bin/aiecc`.
        None if interpreter(path).is_some() => {
            let environment = path.parent().and_then(Path::parent);
            let name = path.file_name().unwrap_or_default().as_bytes();
            let line = [b"../../../bin/", name].concat();
            let packages = environment.map(|environment| packages(environment, watch));
            let packages = packages.unwrap_or_default().into_iter();
            packages.map(|packages| (packages, line.clone())).collect()
        }
        None => Vec::new(),
    };
    places
        .iter()
        .flat_map(|(packages, line)| owners_in(packages, line, watch))
        .collect()
}

fn owners_in(packages: &Path, listed: &[u8], watch: &mut Watch) -> Vec<Part> {
    let mut distributions: Vec<_> = places::names(packages, watch)
        .into_iter()
        .filter_map(|name| {
            let name = name.into_string().ok()?;
            let is_candidate = name.ends_with(DIST_INFO)
                && DISTRIBUTIONS
                    .iter()
                    .any(|known| name.to_ascii_lowercase().starts_with(known));
            is_candidate.then_some(name)
        })
        .collect();
    distributions.sort();
    let mut owners = Vec::new();
    for name in distributions {
        let record = packages.join(&name).join(RECORD);
        watch.see(&record);
        if lists(&record, listed) {
            owners.push(Part {
                name: format!("{name}/{RECORD}"),
                path: record,
            });
        }
    }
    owners
}

/// Whether a record has a line for a file.
fn lists(record: &Path, file: &[u8]) -> bool {
    let text = start_of(record, MAX_RECORD).unwrap_or_default();
    text.split(|byte| *byte == b'\n')
        .any(|line| listed(line) == file)
}

/// The first bytes of a file; of nothing else, since a pipe would keep us waiting.
fn start_of(path: &Path, length: u64) -> Option<Vec<u8>> {
    let is_file = std::fs::metadata(path).is_ok_and(|file| file.is_file());
    let file = is_file.then(|| File::open(path).ok())??;
    let mut start = Vec::new();
    file.take(length).read_to_end(&mut start).ok()?;
    Some(start)
}

/// The path in a line of a record: `path,sha256=…,size`, quoted if there is a comma in it.
fn listed(line: &[u8]) -> &[u8] {
    let (end, line) = match line.strip_prefix(b"\"") {
        Some(quoted) => (b'"', quoted),
        None => (b',', line),
    };
    line.split(|byte| *byte == end).next().unwrap_or_default()
}

/// The version of the wheel whose record goes by this name: `mlir_aie-1.4.0.dist-info/RECORD`.
pub(super) fn version(record: &str) -> Option<&str> {
    let (_, version) = distribution(record)?.split_once('-')?;
    Some(version)
}

/// The wheel, as `mlir_aie-1.4.0`.
pub(super) fn distribution(record: &str) -> Option<&str> {
    record
        .strip_suffix(RECORD)?
        .strip_suffix('/')?
        .strip_suffix(DIST_INFO)
}

/// Whether a file is a wheel's record.
pub(super) fn is_record(path: &Path) -> bool {
    let directory = path.parent().and_then(Path::file_name).unwrap_or_default();
    path.file_name().is_some_and(|name| name == RECORD)
        && directory.as_bytes().ends_with(DIST_INFO.as_bytes())
}

/// The digest of what a record says of the wheel itself.
pub(super) fn record_digest(record: impl Read) -> io::Result<Digest> {
    let mut text = Vec::new();
    record.take(MAX_RECORD + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_RECORD {
        return Err(io::Error::other("no wheel has a record of that size"));
    }
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut lines: Vec<&[u8]> = lines.filter(|line| is_of_the_wheel(line)).collect();
    lines.sort_unstable();
    let mut hasher = Hasher::new();
    for line in lines {
        hasher.update(line);
        hasher.update("\n");
    }
    Ok(hasher.finish())
}

fn is_of_the_wheel(line: &[u8]) -> bool {
    const NOTES: [&str; 5] = [
        "INSTALLER",
        "REQUESTED",
        "RECORD",
        "direct_url.json",
        "uv_cache.json",
    ];
    let path = listed(line);
    let mut components = path.rsplit(|byte| *byte == b'/');
    let name = components.next().unwrap_or_default();
    let directory = components.next().unwrap_or_default();
    let is_note = directory.ends_with(DIST_INFO.as_bytes())
        && NOTES.iter().any(|note| note.as_bytes() == name);
    let is_outside = path.starts_with(b"../") || path.starts_with(b"/");
    !(line.is_empty() || is_outside || is_note || name.ends_with(b".pyc"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digest(record: &str) -> Digest {
        record_digest(record.as_bytes()).unwrap()
    }

    #[test]
    fn a_record_is_the_same_in_every_environment() {
        let wheel = "mlir_aie/bin/aiecc,sha256=aa,5\nmlir_aie-1.dist-info/METADATA,sha256=bb,6\n";
        let installed = "../../../bin/aiecc,sha256=cc,217\r\nmlir_aie-1.dist-info/INSTALLER,sha256=dd,4\n\
            mlir_aie-1.dist-info/METADATA,sha256=bb,6\nmlir_aie-1.dist-info/RECORD,,\n\
            mlir_aie/__pycache__/x.cpython-312.pyc,,\nmlir_aie/bin/aiecc,sha256=aa,5\n";
        assert_eq!(digest(wheel), digest(installed));
        assert_ne!(digest(wheel), digest(&wheel.replace("aa", "ab")));
        assert_ne!(
            digest(wheel),
            digest(&format!("{wheel}mlir_aie/new,sha256=ee,1\n"))
        );
    }

    #[test]
    fn a_wheel_is_told_by_the_name_of_its_record() {
        let record = "mlir_aie_no_rtti-1.4.0+ab12.dist-info/RECORD";
        assert_eq!(distribution(record), Some("mlir_aie_no_rtti-1.4.0+ab12"));
        assert_eq!(version(record), Some("1.4.0+ab12"));
        assert_eq!(version("libMLIR.so.22"), None);
    }

    proptest! {
        #[test]
        fn a_hostile_record_never_panics(text in "[a-z/,\".\r\n]*", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = record_digest(text.as_bytes());
            let _ = record_digest(bytes.as_slice());
            let _ = (version(&text), distribution(&text));
        }
    }
}
