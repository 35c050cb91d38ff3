//! The files besides the kernel that its tools read: link files, transform scripts, inputs.
//!
//! Each becomes an input of a step by its content, under a relative name: what a tool finds in its
//! directory is what the key knows, wherever the user's files are.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::KernelError;
use crate::kernel::canonical::Canonical;
use crate::kernel::{Module, strings};
use crate::step::npu::{self, OURS};
use crate::step::{Input, Origin};
use npu_formats::core_elf::{self, CoreElfFault};

/// Why a file can't be handed to the tools.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It can't be read.
    #[error("{what} {}: {source}", path.display())]
    Read {
        /// What it was to be.
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A name that leads out of the script's directory.
    #[error(
        "the included transform script '{name}' leads out of {}: what a script includes must be in \
         its own directory",
        directory.display()
    )]
    Outside {
        /// The name as written.
        name: String,
        /// The directory that it is relative to.
        directory: PathBuf,
    },
    /// A name that no file can have.
    #[error("{what} '{name}' is no file's name")]
    NoName {
        /// What it is.
        what: &'static str,
        /// The name as written.
        name: String,
    },
    /// What a core is to run can't be run by one.
    #[error("the core ELF {}: {fault}", path.display())]
    CoreElf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: CoreElfFault,
    },
    /// Two files for one name.
    #[error(
        "{} and {} would both be '{name}' to the tools; rename one of them",
        first.display(),
        second.display()
    )]
    SameName {
        /// The name.
        name: String,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A name that is used here.
    #[error("a file can't be called '{name}' here: rename {}", path.display())]
    Reserved {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// A file that is named by an alias.
    #[error("the link file {0} is named by an alias: write its name where it is used")]
    Alias(String),
    /// A transform script that is no MLIR.
    #[error("{}: {reason}", path.display())]
    Script {
        /// The script.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Files under the names that the tools know.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) inputs: Vec<Input>,
    /// Where each is, in the same order.
    pub(super) paths: Vec<PathBuf>,
    /// What is missing of them, and not missed by the tools.
    pub(super) warnings: Vec<String>,
}

impl Files {
    fn add(&mut self, input: Input, path: PathBuf) -> Result<(), FileError> {
        let known = self.inputs.iter();
        let known = known
            .map(|it| meet(&it.name, &input.name))
            .position(|meets| meets);
        if let Some(first) = known.and_then(|index| self.paths.get(index)) {
            if *first == path {
                return Ok(());
            }
            return Err(FileError::SameName {
                name: input.name.into_owned(),
                first: first.clone(),
                second: path,
            });
        }
        self.inputs.push(input);
        self.paths.push(path);
        Ok(())
    }

    /// The file name of a path, with a number before it if something else is called so.
    fn unused(&self, role: &Role, path: &str) -> Result<String, FileError> {
        let file = Path::new(path).file_name().and_then(OsStr::to_str);
        let file = file.ok_or_else(|| FileError::NoName {
            what: role.what,
            name: path.to_owned(),
        })?;
        let is_free = |name: &String| {
            let staged = format!("{}{name}", role.directory);
            self.inputs.iter().all(|input| !meet(&input.name, &staged))
        };
        let numbered = (2..).map(|number| format!("{number}.{file}"));
        let mut names = std::iter::once(file.to_owned()).chain(numbered);
        Ok(names.find(is_free).unwrap_or_default())
    }
}

/// Whether two names can't both be files': they are the same, or one is the other's directory.
fn meet(one: &str, other: &str) -> bool {
    let (one, other) = (Path::new(one), Path::new(other));
    one.starts_with(other) || other.starts_with(one)
}

/// What a kernel is linked with, and the inputs that the request names; and other names for what
/// the kernel names by a path that leads out of its directory. ELFs of cores get `core_elfs` before
/// their names.
pub(super) fn companions(
    kernel: &Path,
    module: &Module,
    inputs: &[PathBuf],
    core_elfs: &'static str,
) -> Result<(Files, HashMap<String, String>), KernelError> {
    let mut files = Files::default();
    let directory = kernel.parent().unwrap_or(Path::new(""));
    let objects = module.link_files.iter().map(|name| (&OBJECT, name));
    let core_elf = Role {
        directory: core_elfs,
        ..CORE_ELF
    };
    let core_elfs = module.core_elfs.iter().map(|name| (&core_elf, name));
    let mut named: Vec<_> = objects.chain(core_elfs).collect();
    named.retain(|(_, name)| {
        let path = directory.join(name);
        let is_missed = !module.unused_links.contains(name) || fs::symlink_metadata(&path).is_ok();
        if !is_missed {
            files.warnings.push(format!(
                "there is no {}, the link file of a function that nothing calls",
                path.display()
            ));
        }
        is_missed
    });
    for (role, name) in &named {
        if name.starts_with('#') {
            return Err(FileError::Alias((*name).clone()).into());
        }
        if let Some(inside) = inside(name) {
            add(&mut files, role, inside, directory.join(name))?;
        }
    }
    for path in inputs {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        add(&mut files, &INPUT, name.into_owned(), path.clone())?;
    }
    let mut renamed = HashMap::new();
    for (role, name) in named {
        if inside(name).is_none() {
            let new = files.unused(role, name)?;
            add(&mut files, role, new.clone(), directory.join(name))?;
            renamed.insert(name.clone(), new);
        }
    }
    Ok((files, renamed))
}

/// What a file is to the tools.
struct Role {
    what: &'static str,
    /// Where they look for it.
    directory: &'static str,
    /// What they would not check.
    check: fn(&[u8]) -> Result<(), CoreElfFault>,
}

const OBJECT: Role = Role {
    what: "the link file",
    directory: "",
    check: |_| Ok(()),
};
const CORE_ELF: Role = Role {
    what: "the core ELF",
    directory: "",
    check: core_elf::check,
};
const INPUT: Role = Role {
    what: "the input",
    ..OBJECT
};

/// A directory as a message names it.
fn shown(directory: &Path) -> PathBuf {
    match directory.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => directory.to_owned(),
    }
}

fn add(files: &mut Files, role: &Role, name: String, path: PathBuf) -> Result<(), FileError> {
    let first = name.split('/').next().unwrap_or_default();
    if name.is_empty() || [npu::SOURCE, OURS.trim_end_matches('/')].contains(&first) {
        return Err(FileError::Reserved { name, path });
    }
    let bytes = read(role.what, &path)?;
    if let Err(fault) = (role.check)(&bytes) {
        return Err(FileError::CoreElf { path, fault });
    }
    files.add(Input::new(format!("{}{name}", role.directory), bytes), path)
}

/// No object or script is anywhere near this size; what is larger is something else.
const LARGEST: u64 = 1 << 30;

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, FileError> {
    let whole = || {
        // Opening a pipe would wait for somebody to write into it.
        let metadata = fs::metadata(path)?;
        if metadata.is_dir() {
            return Err(Errno::ISDIR.into());
        }
        if !metadata.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut bytes = Vec::new();
        fs::File::open(path)?
            .take(LARGEST + 1)
            .read_to_end(&mut bytes)?;
        match bytes.len() as u64 > LARGEST {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(bytes),
        }
    };
    whole().map_err(|source| FileError::Read {
        what,
        path: path.to_owned(),
        source,
    })
}

/// The name without `.` in it, if it stays in the directory that it is relative to.
fn inside(name: &str) -> Option<String> {
    let mut parts = Vec::new();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// More scripts than anybody includes.
const MOST_SCRIPTS: usize = 256;

/// A transform script and the files that it includes: those that it names in strings, beside it.
/// Comments and locations do not count, as in kernels.
pub(super) fn transform(path: &Path) -> Result<Files, FileError> {
    let mut files = Files::default();
    let directory = path.parent().unwrap_or(Path::new(""));
    let staged = Path::new(npu::SCRIPT).parent().unwrap_or(Path::new(""));
    let mut pending = vec![(path.to_owned(), npu::SCRIPT.to_owned())];
    while let Some((path, name)) = pending.pop() {
        let what = match files.inputs.is_empty() {
            true => "the transform script",
            false => "the included transform script",
        };
        let bytes = read(what, &path)?;
        let refuse = |reason: String| FileError::Script {
            path: path.clone(),
            reason,
        };
        let (_, text) = Module::read(bytes).map_err(|error| refuse(error.to_string()))?;
        for included in strings(&text.text).filter(|text| text.ends_with(".mlir")) {
            let inside = inside(&included).ok_or_else(|| FileError::Outside {
                name: included.clone(),
                directory: shown(directory),
            })?;
            let name = staged.join(&inside).to_string_lossy().into_owned();
            let is_known = files.inputs.iter().any(|input| input.name == *name)
                || pending.iter().any(|(_, pending)| *pending == name);
            if !is_known {
                pending.push((directory.join(&inside), name));
            }
        }
        if files.inputs.len() + pending.len() > MOST_SCRIPTS {
            return Err(refuse(format!(
                "it includes more than {MOST_SCRIPTS} files"
            )));
        }
        files.add(script(name, text, path.clone()), path)?;
    }
    Ok(files)
}

fn script(name: String, text: Canonical, path: PathBuf) -> Input {
    let text = Arc::new(text);
    Input::text(name, Origin { path, text })
}
