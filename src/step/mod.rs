//! Steps: the pure pieces of work that a build is made of.
//!
//! A [`Step`] is plain data, and that data is both what is executed and what the key is computed
//! from: its work directory holds its inputs and nothing else, its commands name files relative to
//! that directory, and work done in process is a plain `fn` that sees the inputs' bytes. So nothing
//! can change a result without changing the key.

pub mod check;
pub mod cpu;
pub mod execute;
pub mod launcher;
pub mod material;
pub mod npu;
mod retell;
pub mod run;
pub mod shim;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::digest::Digest;
use crate::kernel::canonical::Canonical;
use crate::toolchain::{Companions, Tool};
use check::Check;
use material::{Material, Value};

/// A file's name in a work directory or an entry.
pub type Name = Cow<'static, str>;

/// Stands for the absolute path of the work directory in a value of a step's environment.
pub const WORK_DIRECTORY: &str = "{work}";
/// Where in the work directory the programs are that commands find by `PATH`.
pub const PROGRAMS: &str = "npu-build/bin";

/// One pure function: from its key material to its outputs.
#[derive(Clone, Debug)]
pub struct Step {
    /// What kind of work it is.
    pub kind: Kind,
    /// Raised whenever the same material would give another output.
    pub version: u32,
    /// The kernel, for messages and listings; not in the key.
    pub subject: String,
    /// The user's file, for messages; not in the key.
    pub source: Option<PathBuf>,
    /// The target, for messages and listings; not in the key on its own.
    pub target: &'static str,
    /// Files that the work may read, by the name under which it finds them.
    pub inputs: Vec<Input>,
    /// Environment of the commands, with [`WORK_DIRECTORY`] for what only the run knows; nothing
    /// else is set.
    pub environment: Vec<(&'static str, String)>,
    /// Programs that the commands run in turn. Those that they find by `PATH` are in [`PROGRAMS`].
    pub companions: Companions,
    /// Facts that change the output and stand in no argument, such as the CPU of `march=native`.
    pub facts: Vec<(&'static str, Value)>,
    /// The work itself.
    pub work: Work,
    /// What the work must leave behind.
    pub outputs: Vec<Output>,
}

/// A step and its key, which is computed once.
#[derive(Clone, Debug)]
pub struct Keyed {
    step: Step,
    key: Digest,
}

impl Keyed {
    /// The step.
    #[must_use]
    pub fn step(&self) -> &Step {
        &self.step
    }

    /// What names its entry.
    #[must_use]
    pub fn key(&self) -> &Digest {
        &self.key
    }
}

impl From<Step> for Keyed {
    fn from(step: Step) -> Self {
        Self {
            key: step.material().key(),
            step,
        }
    }
}

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Linalg-level MLIR to AIR.
    Lower,
    /// MLIR to the artifact that a device runs.
    Compile,
    /// What was compiled to an hsaco.
    Pack,
    /// Signature and artifact to Rust source.
    Launcher,
    /// C++ to the library that drives XRT.
    Shim,
}

impl Kind {
    /// The name in keys, manifests and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Compile => "compile",
            Self::Pack => "pack",
            Self::Launcher => "launcher",
            Self::Shim => "shim",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A file that a step reads.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name in the work directory; what is in a subdirectory has slashes in it.
    pub name: Name,
    /// How to speak of it in a diagnostic, if it came from the user.
    pub origin: Option<Origin>,
    /// Whether the file that it is outlives the build.
    is_kept: bool,
    content: Content,
    digest: Digest,
}

/// Where an input's bytes are.
#[derive(Clone, Debug)]
enum Content {
    /// A vector, since a large text becomes one without being copied.
    Bytes(Arc<Vec<u8>>),
    /// The user's text, which may be large: it is in memory once.
    Text(Arc<Canonical>),
    /// A file that is read only if the step has to be carried out.
    File { path: PathBuf, size: u64 },
}

impl Input {
    /// An input of these bytes.
    #[must_use]
    pub fn new(name: impl Into<Name>, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = Arc::new(bytes.into());
        Self {
            name: name.into(),
            origin: None,
            is_kept: false,
            digest: Digest::of(&*bytes),
            content: Content::Bytes(bytes),
        }
    }

    /// The text that `origin` has.
    #[must_use]
    pub fn text(name: impl Into<Name>, origin: Origin) -> Self {
        let text = Arc::clone(&origin.text);
        Self {
            name: name.into(),
            origin: Some(origin),
            is_kept: false,
            digest: Digest::of(&text.text),
            content: Content::Text(text),
        }
    }

    /// What an earlier step made: a file of that size and content.
    #[must_use]
    pub fn made(name: impl Into<Name>, path: &Path, size: u64, digest: Digest) -> Self {
        Self {
            name: name.into(),
            origin: None,
            is_kept: true,
            digest,
            content: Content::File {
                path: path.to_owned(),
                size,
            },
        }
    }

    /// The same input, with diagnostics in it told in terms of `origin`.
    #[must_use]
    pub fn from_user(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// The same input, whose file is gone when the build ends: diagnostics do not name it.
    #[must_use]
    pub fn that_is_temporary(mut self) -> Self {
        self.is_kept = false;
        self
    }

    /// Its bytes, which are those that its digest in the key promises.
    ///
    /// # Errors
    /// When the file can't be read any more, or is another one by now.
    pub fn read(&self) -> io::Result<Cow<'_, [u8]>> {
        let (path, size) = match &self.content {
            Content::Bytes(bytes) => return Ok(Cow::Borrowed(bytes)),
            Content::Text(text) => return Ok(Cow::Borrowed(text.text.as_bytes())),
            Content::File { path, size } => (path, *size),
        };
        let bytes = fs::read(path)?;
        if bytes.len() as u64 == size && Digest::of(&bytes) == self.digest {
            return Ok(Cow::Owned(bytes));
        }
        Err(io::Error::new(
            ErrorKind::InvalidData,
            "it changed after it was verified",
        ))
    }

    /// The digest of its bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The file that it is, if it is not only in memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.content {
            Content::Bytes(_) | Content::Text(_) => None,
            Content::File { path, .. } => Some(path),
        }
    }
}

/// An input whose bytes have been read, for work in process.
#[derive(Debug)]
pub struct Loaded<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its bytes.
    pub bytes: Cow<'a, [u8]>,
}

/// Where an input's lines stand in the user's own file.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The user's file, as the user wrote it.
    pub path: PathBuf,
    /// The text that the tools see, which knows where its lines came from.
    pub text: Arc<Canonical>,
}

/// How a step's outputs are made.
#[derive(Clone, Debug)]
pub enum Work {
    /// Commands, one after the other, in the work directory.
    Commands(Vec<Command>),
    /// A function of the inputs. A plain `fn`, not a closure, so that it can't capture anything
    /// that the key does not know.
    Native(NativeWork),
}

/// From a step's inputs to the bytes of its outputs, in order; or why there are none.
pub type NativeWork = fn(&[Loaded<'_>]) -> Result<Vec<Vec<u8>>, String>;

/// One command of a step.
#[derive(Clone, Debug)]
pub struct Command {
    /// The program.
    pub tool: Arc<Tool>,
    /// Its arguments, without the program's name.
    pub arguments: Vec<Argument>,
    /// Says what it means, in the user's terms, when the program fails after printing this.
    pub explain: fn(&str) -> Option<String>,
    /// Files that the program reads itself, so that its diagnostics call them `-`, in the order in
    /// which it makes each from the one before.
    pub unnamed: &'static [&'static str],
}

/// One argument of a command.
#[derive(Clone, Debug)]
pub enum Argument {
    /// Text as it is; file names are relative to the work directory.
    Text(String),
    /// A prefix followed by the absolute path of a tool. In the key stands the tool's fingerprint
    /// instead of the path.
    Tool(&'static str, Arc<Tool>),
    /// A prefix followed by the directory of an installation, which is called so in the key. The
    /// programs in it are among the step's companions.
    Installation(&'static str, &'static str, PathBuf),
}

impl From<&str> for Argument {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Argument {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A file that a step must make.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its name in the entry.
    pub name: Name,
    /// Its path in the work directory, where that is another one.
    pub made_as: Option<Name>,
    /// What its content must be.
    pub check: Check,
}

impl Output {
    /// An output that is made under the name that it has in the entry.
    #[must_use]
    pub fn new(name: impl Into<Name>, check: Check) -> Self {
        Self {
            name: name.into(),
            made_as: None,
            check,
        }
    }

    /// Its path in the work directory.
    #[must_use]
    pub fn made_as(&self) -> &str {
        self.made_as.as_ref().unwrap_or(&self.name)
    }
}

impl Step {
    /// An argument that is or ends in a name that only the commands know, `--option=NAME`, with the
    /// file that it stands for, so that a command line can be tried again.
    fn shown(&self, argument: &OsStr) -> Option<OsString> {
        let text = argument.to_str()?;
        let (name, place) = std::iter::once(text)
            .chain(text.rsplit_once('=').map(|(_, name)| name))
            .find_map(|name| Some((name, self.place_of(name)?)))?;
        let mut shown = OsString::from(text.strip_suffix(name)?);
        shown.push(place);
        Some(shown)
    }

    /// The file that the commands know as `name`.
    fn place_of(&self, name: &str) -> Option<&Path> {
        let mut inputs = self.inputs.iter();
        let input = inputs.find(|input| input.name == name)?;
        let origin = input.origin.as_ref().map(|origin| origin.path.as_path());
        origin.or_else(|| input.path().filter(|_| input.is_kept))
    }

    /// Everything that can change the outputs.
    #[must_use]
    pub fn material(&self) -> Material {
        let mut material = Material::default();
        material.push("step", Value::Text(self.kind.name().into()));
        material.push("version", Value::Text(self.version.to_string()));
        for tool in self.tools() {
            material.push(
                format!("tool.{}", tool.name),
                Value::Sha256(tool.identity.digest),
            );
        }
        if let Work::Commands(commands) = &self.work {
            for (number, command) in commands.iter().enumerate() {
                material.push(format!("command.{number}"), Value::List(command.in_key()));
            }
        }
        let found = self.companions.on_path.iter();
        let found: Vec<_> = found.map(|(name, _)| (*name).to_owned()).collect();
        if !found.is_empty() {
            material.push("path", Value::List(found));
        }
        for (name, value) in &self.environment {
            material.push(format!("environment.{name}"), Value::Text(value.clone()));
        }
        for (name, value) in &self.facts {
            material.push(format!("fact.{name}"), value.clone());
        }
        for input in &self.inputs {
            material.push(format!("input.{}", input.name), Value::Sha256(input.digest));
        }
        let outputs = self.outputs.iter().map(|output| output.name.to_string());
        material.push("outputs", Value::List(outputs.collect()));
        material
    }

    /// What messages are about: the user's file where there is one, else the kernel.
    #[must_use]
    pub fn about(&self) -> String {
        let source = self.source.as_ref();
        source.map_or_else(|| self.subject.clone(), |path| path.display().to_string())
    }

    /// The tools that the step executes, itself and in turn, each once, in the order of their
    /// first use.
    #[must_use]
    pub fn tools(&self) -> Vec<&Tool> {
        let commands = match &self.work {
            Work::Commands(commands) => commands.as_slice(),
            Work::Native(_) => &[],
        };
        let named = commands.iter().flat_map(|command| {
            let arguments = command.arguments.iter();
            let named = arguments.filter_map(|argument| match argument {
                Argument::Tool(_, tool) => Some(tool),
                Argument::Text(_) | Argument::Installation(..) => None,
            });
            std::iter::once(&command.tool).chain(named)
        });
        let mut tools: Vec<&Tool> = Vec::new();
        for tool in named.chain(self.companions.tools()) {
            if tools.iter().all(|known| known.name != tool.name) {
                tools.push(tool);
            }
        }
        tools
    }
}

impl Command {
    /// The command as the key sees it: tools by name, no path.
    fn in_key(&self) -> Vec<String> {
        let arguments = self.arguments.iter().map(|argument| match argument {
            Argument::Text(text) => text.clone(),
            Argument::Tool(prefix, tool) => format!("{prefix}<{}>", tool.name),
            Argument::Installation(prefix, name, _) => format!("{prefix}<{name}>"),
        });
        std::iter::once(self.tool.name.to_owned())
            .chain(arguments)
            .collect()
    }
}
