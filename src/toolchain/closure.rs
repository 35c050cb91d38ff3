//! Which files a program consists of: the executed file, the shared libraries that it loads, and,
//! for a script, its interpreter and the programs that it names.
//!
//! Libraries are found as the dynamic loader finds them in a process with a cleared environment
//! (`loader.rs`); those of the base system are left out (`base.rs`). Everything that was looked at
//! on the way, found or not, is in the [`Watch`].

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::base::{is_base, is_shell};
use super::elf::Dynamic;
use super::loader::{self, Loader};
use super::places::is_program;
use super::reason::Reason;
use super::script::{self, Named};
use super::stamp::{Stamp, Watch};

/// More files than this are not followed; clang has about twenty.
const MAX_FILES: usize = 512;
/// As much of a script is searched for programs.
const MAX_SCRIPT: u64 = 64 * 1024;
/// Scripts may call scripts, but not without end.
const MAX_DEPTH: usize = 16;

/// A file of a program, under the name by which it is known on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The tool's name, a library's name as it is asked for, a program's file name.
    pub(super) name: String,
    /// Where it is here.
    pub(super) path: PathBuf,
}

/// The files of the program at `path`, itself first and then in the order of loading.
pub(super) fn parts(
    name: &str,
    path: &Path,
    loader: &mut Loader,
    watch: &mut Watch,
) -> Result<Vec<Part>, Reason> {
    let mut walk = Walk {
        loader,
        watch,
        parts: Vec::new(),
        tool: path,
        library_path: Vec::new(),
    };
    walk.program(name.to_owned(), path, 0)?;
    Ok(walk.parts)
}

struct Walk<'a> {
    loader: &'a mut Loader,
    watch: &'a mut Watch,
    parts: Vec<Part>,
    tool: &'a Path,
    /// What the scripts that are followed just now add to the loader's search.
    library_path: Vec<PathBuf>,
}

/// A library that the loader would take, and what it says.
type Found = (PathBuf, Dynamic);

/// A program or library of one process.
struct Object {
    path: PathBuf,
    /// What `$ORIGIN` stands for.
    origin: PathBuf,
    dynamic: Dynamic,
    /// Which object asked for it first.
    loader: Option<usize>,
}

impl Walk<'_> {
    fn add(&mut self, name: String, path: &Path) -> Result<(), Reason> {
        if self.parts.len() >= MAX_FILES {
            return Err(Reason::TooManyFiles {
                program: self.tool.to_owned(),
                limit: MAX_FILES,
            });
        }
        self.parts.push(Part {
            name,
            path: path.to_owned(),
        });
        Ok(())
    }

    fn program(&mut self, name: String, path: &Path, depth: usize) -> Result<(), Reason> {
        if !self.is_new(path) {
            return Ok(());
        }
        self.watch.see(path);
        self.add(name, path)?;
        let unreadable = |error: std::io::Error| Reason::Unreadable {
            file: path.to_owned(),
            error: error.to_string(),
        };
        let no_program = || Reason::NoProgram {
            file: path.to_owned(),
        };
        if !is_program(path) {
            return Err(no_program());
        }
        let mut file = File::open(path).map_err(unreadable)?;
        let mut start = Vec::new();
        let mut head = (&mut file).take(MAX_SCRIPT);
        head.read_to_end(&mut start).map_err(unreadable)?;
        if start.starts_with(b"#!") {
            return self.script(&start, depth);
        }
        let dynamic = Dynamic::read(file).ok_or_else(no_program)?;
        // The loader takes a program's origin from /proc/self/exe, which has no symlinks.
        let real = std::fs::canonicalize(path).map_err(unreadable)?;
        self.libraries(Object {
            path: path.to_owned(),
            origin: directory_of(&real),
            dynamic,
            loader: None,
        })
    }

    /// A script is what its text, its interpreter and the files that it names are. Only absolute
    /// names can be seen without executing it.
    fn script(&mut self, text: &[u8], depth: usize) -> Result<(), Reason> {
        if depth >= MAX_DEPTH {
            return Ok(());
        }
        let mut library_path = script::library_path(text);
        library_path.extend(self.library_path.iter().cloned());
        let outer = std::mem::replace(&mut self.library_path, library_path);
        for Named { path, is_read } in script::named(text) {
            let name = path.file_name().unwrap_or_default();
            if is_shell(name.as_bytes()) {
                continue;
            }
            let name = name.to_string_lossy().into_owned();
            if is_program(&path) {
                self.program(name, &path, depth + 1)?;
            } else if !path.is_dir() {
                // It may come to be, or to be made a program.
                self.watch.see(&path);
                if is_read && is_kept(&path) {
                    self.read(name, &path, depth + 1)?;
                } else if is_script(&path) && self.is_new(&path) {
                    self.add(name, &path)?;
                }
            }
        }
        self.library_path = outer;
        Ok(())
    }

    /// A file that a script reads: another one, mostly.
    fn read(&mut self, name: String, path: &Path, depth: usize) -> Result<(), Reason> {
        if !self.is_new(path) {
            return Ok(());
        }
        self.add(name, path)?;
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(MAX_SCRIPT).read_to_end(&mut text));
        match read {
            Ok(_) => self.script(&text, depth),
            Err(error) => Err(Reason::Unreadable {
                file: path.to_owned(),
                error: error.to_string(),
            }),
        }
    }

    fn is_new(&self, path: &Path) -> bool {
        self.parts.iter().all(|part| part.path != path)
    }

    /// Loads breadth first, as the loader does: a library that is already loaded is not searched
    /// again, so the order decides what is found.
    fn libraries(&mut self, program: Object) -> Result<(), Reason> {
        let mut loaded: BTreeSet<OsString> = BTreeSet::new();
        let stamp = self.watch.see(&program.path);
        let mut files: BTreeSet<(u64, u64)> = stamp.iter().map(Stamp::file).collect();
        let mut objects = vec![program];
        let mut next = 0;
        while let Some(object) = objects.get(next) {
            for library in object.dynamic.needed.clone() {
                if is_base(library.as_bytes()) || !loaded.insert(library.clone()) {
                    continue;
                }
                let Some((path, dynamic)) = self.find(&library, &objects, next)? else {
                    return Err(not_found(&library, objects.get(next)));
                };
                loaded.extend(dynamic.soname.clone());
                let stamp = self.watch.see(&path);
                if !stamp.is_some_and(|stamp| files.insert(stamp.file())) {
                    continue;
                }
                let name = Path::new(&library).file_name().unwrap_or(&library);
                self.add(name.to_string_lossy().into_owned(), &path)?;
                objects.push(Object {
                    origin: directory_of(&path),
                    path,
                    dynamic,
                    loader: Some(next),
                });
            }
            next += 1;
        }
        Ok(())
    }

    /// Searches for what the object at `asking` needs.
    fn find(
        &mut self,
        library: &OsStr,
        objects: &[Object],
        asking: usize,
    ) -> Result<Option<Found>, Reason> {
        let Some(object) = objects.get(asking) else {
            return Ok(None);
        };
        let wanted = &object.dynamic;
        if library.as_bytes().contains(&b'/') {
            let path = loader::expand(library.as_bytes(), &object.origin);
            return if path.is_absolute() {
                self.open(path, wanted)
            } else {
                Ok(None)
            };
        }
        for directory in searched(objects, asking, &self.library_path) {
            if let Some(found) = self.open_in(&directory, library, wanted)? {
                return Ok(Some(found));
            }
        }
        if wanted.no_default {
            return Ok(None);
        }
        if let Some(path) = self.loader.cached(library, self.watch)
            && let Some(found) = self.open(path, wanted)?
        {
            return Ok(Some(found));
        }
        for directory in self.loader.defaults.clone() {
            if let Some(found) = self.open_in(&directory, library, wanted)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn open_in(
        &mut self,
        directory: &Path,
        library: &OsStr,
        wanted: &Dynamic,
    ) -> Result<Option<Found>, Reason> {
        for legacy in loader::legacy(directory, self.watch) {
            // What one version of the loader takes and another one passes over counts for both.
            let path = legacy.join(library);
            if path.is_file() && !self.parts.iter().any(|part| part.path == path) {
                self.watch.see(&path);
                self.add(path.to_string_lossy().into_owned(), &path)?;
            }
        }
        for directory in loader::with_hwcaps(directory, self.watch) {
            let path = directory.join(library);
            // The directory is watched, so a name that is not in it need not be.
            if std::fs::symlink_metadata(&path).is_err() {
                continue;
            }
            if let Some(found) = self.open(path, wanted)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The library at `path`, if there is one that the loader would take: it goes on with its search
    /// past what it can't open and past other architectures, but gives up at a damaged file.
    fn open(&mut self, path: PathBuf, wanted: &Dynamic) -> Result<Option<Found>, Reason> {
        if self.watch.see(&path).is_none() || !path.is_file() {
            return Ok(None);
        }
        let Ok(file) = File::open(&path) else {
            return Ok(None);
        };
        match Dynamic::read(file) {
            Some(dynamic) if dynamic.architecture == wanted.architecture => {
                Ok(Some((path, dynamic)))
            }
            Some(_) => Ok(None),
            None => Err(Reason::NoProgram { file: path }),
        }
    }
}

/// Whether it is a file that an interpreter would be given.
fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    let is_file = path.is_file();
    is_file
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok())
        && start == *b"#!"
}

/// A regular file whose content stays as it is until somebody changes it.
fn is_kept(path: &Path) -> bool {
    let of_the_kernel = ["/dev", "/proc", "/sys"];
    path.is_file() && !of_the_kernel.iter().any(|root| path.starts_with(root))
}

/// The directories that the objects themselves and their caller name: an object's RUNPATH counts for
/// what it asks for itself, behind the caller's; without one, its RPATH and those of the objects that
/// led to it do, before the caller's.
fn searched(objects: &[Object], asking: usize, library_path: &[PathBuf]) -> Vec<PathBuf> {
    let Some(object) = objects.get(asking) else {
        return Vec::new();
    };
    if let Some(runpath) = &object.dynamic.runpath {
        let runpath = loader::directories(runpath, &object.origin);
        return library_path.iter().cloned().chain(runpath).collect();
    }
    let chain = std::iter::successors(Some(object), |object| objects.get(object.loader?));
    chain
        .filter(|object| object.dynamic.runpath.is_none())
        .filter_map(|object| {
            Some(loader::directories(
                object.dynamic.rpath.as_ref()?,
                &object.origin,
            ))
        })
        .flatten()
        .chain(library_path.iter().cloned())
        .collect()
}

fn not_found(library: &OsStr, asking: Option<&Object>) -> Reason {
    let needed_by = asking.map(|object| object.path.clone()).unwrap_or_default();
    Reason::NoLibrary {
        library: library.to_string_lossy().into_owned(),
        needed_by,
    }
}

fn directory_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("/")).to_owned()
}

#[cfg(test)]
mod tests;
