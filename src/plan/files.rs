//! The files besides the kernel that its tools read: link files, transform scripts, inputs.
//!
//! Each becomes an input of a step by its content, under a relative name: what a tool finds in its
//! directory is what the key knows, wherever the user's files are.

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
    /// A name that leads out of the kernel's directory.
    #[error(
        "{what} '{name}' leads out of {}: what the tools read must be in the file's own directory, \
         or be given with --input",
        directory.display()
    )]
    Outside {
        /// What it is.
        what: &'static str,
        /// The name as written.
        name: String,
        /// The directory that it is relative to.
        directory: PathBuf,
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
}

impl Files {
    fn add(&mut self, input: Input, path: PathBuf) -> Result<(), FileError> {
        // A name can't be a file's and a directory's, either.
        let meets = |it: &Input| {
            let (one, other) = (Path::new(&*it.name), Path::new(&*input.name));
            one.starts_with(other) || other.starts_with(one)
        };
        let known = self.inputs.iter().position(meets);
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
}

/// What a kernel is linked with, and the inputs that the request names.
pub(super) fn companions(
    kernel: &Path,
    module: &Module,
    inputs: &[PathBuf],
) -> Result<Files, KernelError> {
    let mut files = Files::default();
    let directory = kernel.parent().unwrap_or(Path::new(""));
    for name in &module.link_files {
        if name.starts_with('#') {
            return Err(FileError::Alias(name.clone()).into());
        }
        add_relative(&mut files, "the link file", directory, name)?;
    }
    for path in inputs {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.into_owned();
        add(&mut files, "the input", name, path.clone())?;
    }
    Ok(files)
}

fn add_relative(
    files: &mut Files,
    what: &'static str,
    directory: &Path,
    name: &str,
) -> Result<(), FileError> {
    let relative = inside(name).ok_or_else(|| FileError::Outside {
        what,
        name: name.to_owned(),
        directory: shown(directory),
    })?;
    add(files, what, relative, directory.join(name))
}

/// A directory as a message names it.
fn shown(directory: &Path) -> PathBuf {
    match directory.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => directory.to_owned(),
    }
}

fn add(
    files: &mut Files,
    what: &'static str,
    name: String,
    path: PathBuf,
) -> Result<(), FileError> {
    let first = name.split('/').next().unwrap_or_default();
    if name.is_empty() || [npu::SOURCE, OURS.trim_end_matches('/')].contains(&first) {
        return Err(FileError::Reserved { name, path });
    }
    let bytes = read(what, &path)?;
    files.add(Input::new(name, bytes), path)
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
        let (_, text) = Module::read(&bytes).map_err(|error| refuse(error.to_string()))?;
        for included in strings(&text.text).filter(|text| text.ends_with(".mlir")) {
            let inside = inside(&included).ok_or_else(|| FileError::Outside {
                what: "the included transform script",
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
    Input::new(name, text.text.as_bytes()).from_user(Origin { path, text })
}
