//! The directories that may hold an installation, in the order in which they are tried.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::stamp::{Stamp, Watch};
use super::{Reason, Rejected, Search};

/// A release number in a file's name: the 22 of `mlir-opt-22` or `llvm-22`, compared by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Release(Vec<u32>);

impl Release {
    /// The release in `name`, if `name` is `stem`, a hyphen and a dotted number.
    fn in_name(name: &OsStr, stem: &str) -> Option<Self> {
        let number = name.to_str()?.strip_prefix(stem)?.strip_prefix('-')?;
        number
            .split('.')
            .map(|part| part.parse().ok())
            .collect::<Option<_>>()
            .map(Self)
    }

    fn name(&self, stem: &str) -> String {
        let parts: Vec<String> = self.0.iter().map(u32::to_string).collect();
        format!("{stem}-{}", parts.join("."))
    }
}

/// A directory to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) directory: PathBuf,
    /// The release that was found there, if its programs have it in their names.
    release: Option<Release>,
    /// The program that was found there, if it may be a link into an installation.
    link: Option<PathBuf>,
}

/// Where candidates come from.
pub(super) enum Source<'a> {
    /// An installation that was named, or the directory of its programs.
    Named(&'a Path),
    /// The directories of `PATH`.
    Path(Vec<PathBuf>),
    /// The directory that holds `llvm-NN`.
    System(&'a Path),
}

/// The sources of a search, in order.
pub(super) fn sources(search: &Search) -> Vec<Source<'_>> {
    if let Some(configured) = &search.configured {
        return vec![Source::Named(&configured.directory)];
    }
    let named = search
        .mlir_install_dir
        .as_deref()
        .filter(|directory| !directory.is_empty());
    let path = search
        .path
        .iter()
        .flat_map(std::env::split_paths)
        .filter(|directory| directory.is_absolute());
    let mut sources: Vec<_> = named
        .map(|directory| Source::Named(Path::new(directory)))
        .into_iter()
        .collect();
    sources.extend([Source::Path(path.collect()), Source::System(&search.system)]);
    sources
}

impl Source<'_> {
    /// The places where this source has the program that every installation has.
    pub(super) fn places(&self, program: &str, watch: &mut Watch) -> Result<Vec<Place>, Rejected> {
        let (places, nowhere) = match self {
            Self::Named(directory) => return named(directory, program, watch),
            Self::Path(directories) => {
                (on_path(directories, program, watch), PathBuf::from("PATH"))
            }
            Self::System(directory) => {
                let places = system(directory, watch).into_iter();
                (
                    places.map(Place::directory).collect(),
                    directory.join("llvm-*/bin"),
                )
            }
        };
        if places.is_empty() {
            return Err(Rejected {
                place: nowhere,
                reason: Reason::NoTool {
                    tool: program.to_owned(),
                },
            });
        }
        Ok(places)
    }
}

fn named(directory: &Path, program: &str, watch: &mut Watch) -> Result<Vec<Place>, Rejected> {
    let rejected = |reason| {
        Err(Rejected {
            place: directory.to_owned(),
            reason,
        })
    };
    if !directory.is_absolute() {
        return rejected(Reason::Relative);
    }
    let has_program = |directory: &Path, watch: &mut Watch| {
        watch.see(&directory.join(program)).is_some()
            || !releases(directory, program, watch).is_empty()
    };
    let bin = directory.join("bin");
    if has_program(&bin, watch) || !has_program(directory, watch) && bin.is_dir() {
        return Ok(vec![Place::directory(bin)]);
    }
    if !directory.is_dir() {
        return rejected(Reason::NoDirectory);
    }
    Ok(vec![Place::directory(directory.to_owned())])
}

/// `mlir-opt` by the order of `PATH`, then `mlir-opt-NN`, the newest first.
fn on_path(directories: &[PathBuf], program: &str, watch: &mut Watch) -> Vec<Place> {
    let mut found: Vec<Place> = Vec::new();
    let mut known = BTreeSet::new();
    for directory in directories {
        // `/bin` is mostly a link to `/usr/bin`, and stays one while the system runs.
        let is_known = Stamp::of(directory).is_some_and(|stamp| !known.insert(stamp.file()));
        if is_known && directory.parent() == Some(Path::new("/")) {
            continue;
        }
        let releases = releases(directory, program, watch);
        found.extend(releases.into_iter().map(|release| {
            let file = directory.join(file_name(program, release.as_ref()));
            Place {
                directory: directory.clone(),
                release,
                link: Some(file),
            }
        }));
    }
    found.sort_by_key(|place| (place.release.is_some(), Reverse(place.release.clone())));
    found
}

/// The directories of programs of the releases in a system's directory, the newest first.
pub(super) fn system(directory: &Path, watch: &mut Watch) -> Vec<PathBuf> {
    let mut releases: Vec<Release> = names(directory, watch)
        .iter()
        .filter_map(|name| Release::in_name(name, "llvm"))
        .collect();
    releases.sort_by(|a, b| b.cmp(a));
    releases
        .iter()
        .map(|release| directory.join(release.name("llvm")).join("bin"))
        .collect()
}

impl Place {
    fn directory(directory: PathBuf) -> Self {
        Self {
            directory,
            release: None,
            link: None,
        }
    }

    /// Follows the link. What is on `PATH` is mostly a link into the installation, whose other
    /// programs may not be linked, so that comes first; but links to several packages, side by
    /// side, are an installation too.
    pub(super) fn resolved(self, program: &str, watch: &mut Watch) -> Vec<Self> {
        let Some(link) = &self.link else {
            return vec![self];
        };
        watch.see(link);
        let real = std::fs::canonicalize(link)
            .ok()
            .filter(|real| real.parent() != Some(&self.directory));
        let target = real.as_ref().and_then(|real| {
            let release = Release::in_name(real.file_name()?, program);
            Some(Self {
                directory: real.parent()?.to_owned(),
                release,
                link: None,
            })
        });
        target.into_iter().chain([self]).collect()
    }

    /// A program of this place and the release in its name. Named with the wanted release if there
    /// is such a one, else without any, else with the newest.
    pub(super) fn tool(
        &self,
        name: &str,
        release: Option<&Release>,
        watch: &mut Watch,
    ) -> Result<(PathBuf, Option<Release>), Reason> {
        let wanted = release.or(self.release.as_ref()).cloned();
        let choose = |release: Option<Release>, watch: &mut Watch| {
            let path = self.directory.join(file_name(name, release.as_ref()));
            watch.see(&path);
            is_program(&path).then_some((path, release))
        };
        let usual = wanted.map(Some).into_iter().chain([None]);
        if let Some(chosen) = usual.into_iter().find_map(|release| choose(release, watch)) {
            return Ok(chosen);
        }
        let mut there = releases(&self.directory, name, watch);
        if watch.see(&self.directory).is_none() || !self.directory.is_dir() {
            return Err(Reason::NoDirectory);
        }
        there.sort_by(|a, b| b.cmp(a));
        let is_there = !there.is_empty();
        let chosen = there.into_iter().find_map(|release| choose(release, watch));
        let tool = name.to_owned();
        chosen.ok_or(if is_there {
            Reason::NotExecutable { tool }
        } else {
            Reason::NoTool { tool }
        })
    }
}

/// Under which releases a directory has `program`; `None` is the name without one.
fn releases(directory: &Path, program: &str, watch: &mut Watch) -> Vec<Option<Release>> {
    let names = names(directory, watch);
    let plain = names.iter().any(|name| name == program).then_some(None);
    plain
        .into_iter()
        .chain(
            names
                .iter()
                .filter_map(|name| Release::in_name(name, program))
                .map(Some),
        )
        .collect()
}

fn file_name(program: &str, release: Option<&Release>) -> String {
    release.map_or_else(|| program.to_owned(), |release| release.name(program))
}

/// What a directory holds. Its stamp changes when a name is added or removed.
pub(super) fn names(directory: &Path, watch: &mut Watch) -> Vec<std::ffi::OsString> {
    watch.see(directory);
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

/// Whether a path leads to a file that may be executed.
pub(super) fn is_program(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The same file by the real path of its directory. Its own name stays: a program that serves as
/// several, such as lld, goes by it.
pub(super) fn without_links_to_its_directory(path: &Path) -> PathBuf {
    let real = path
        .parent()
        .and_then(|directory| std::fs::canonicalize(directory).ok());
    real.zip(path.file_name())
        .map_or_else(|| path.to_owned(), |(directory, name)| directory.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_compare_by_number() {
        let release = |name: &str| Release::in_name(OsStr::new(name), "llvm");
        assert!(release("llvm-22") > release("llvm-9"));
        assert!(release("llvm-3.9") < release("llvm-3.10"));
        for other in [
            "llvm",
            "llvm-",
            "llvm-x",
            "llvm-22-dev",
            "llvm-22.",
            "clang-22",
            "llvm--1",
        ] {
            assert_eq!(release(other), None, "{other}");
        }
    }
}
