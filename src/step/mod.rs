//! Steps: the pure pieces of work that a build is made of.
//!
//! A [`Step`] is plain data, and that data is both what is executed and what the key is computed
//! from: its work directory holds its inputs and nothing else, its commands name files relative to
//! that directory, and work done in process is a plain `fn` that sees the inputs' bytes. So nothing
//! can change a result without changing the key.

pub mod cpu;
pub mod execute;
pub mod launcher;
pub mod material;
mod retell;
pub mod run;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::digest::Digest;
use crate::kernel::canonical::Canonical;
use crate::toolchain::Tool;
use material::{Material, Value};

/// One pure function: from its key material to its outputs.
#[derive(Clone, Debug)]
pub struct Step {
    /// What kind of work it is.
    pub kind: Kind,
    /// Raised whenever the same material would give another output.
    pub version: u32,
    /// The kernel, for messages and listings; not in the key.
    pub subject: String,
    /// The target, for messages and listings; not in the key on its own.
    pub target: &'static str,
    /// Files that the work may read, by the name under which it finds them.
    pub inputs: Vec<Input>,
    /// Environment of the commands; nothing else is set.
    pub environment: Vec<(&'static str, String)>,
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
    /// MLIR to the artifact that a device runs.
    Compile,
    /// Signature and artifact to Rust source.
    Launcher,
}

impl Kind {
    /// The name in keys, manifests and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compile => "compile",
            Self::Launcher => "launcher",
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
    /// Its name in the work directory.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// How to speak of it in a diagnostic, if it came from the user.
    pub origin: Option<Origin>,
    digest: Digest,
}

impl Input {
    /// An input that the build made itself.
    #[must_use]
    pub fn new(name: &'static str, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self {
            name,
            digest: Digest::of(&bytes),
            bytes,
            origin: None,
        }
    }

    /// The same input, with diagnostics in it told in terms of `origin`.
    #[must_use]
    pub fn from_user(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }
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
pub type NativeWork = fn(&[Input]) -> Result<Vec<Vec<u8>>, String>;

/// One command of a step.
#[derive(Clone, Debug)]
pub struct Command {
    /// The program.
    pub tool: Arc<Tool>,
    /// Its arguments, without the program's name.
    pub arguments: Vec<Argument>,
    /// Says what it means, in the user's terms, when the program fails after printing this.
    pub explain: fn(&str) -> Option<String>,
}

/// One argument of a command.
#[derive(Clone, Debug)]
pub enum Argument {
    /// Text as it is; file names are relative to the work directory.
    Text(String),
    /// A prefix followed by the absolute path of a tool. In the key stands the tool's fingerprint
    /// instead of the path.
    Tool(&'static str, Arc<Tool>),
}

impl From<&str> for Argument {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

/// A file that a step must make.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Its name in the work directory and in the entry.
    pub name: &'static str,
    /// Says what is wrong with the bytes, if anything is.
    pub validate: fn(&[u8]) -> Result<(), String>,
}

impl Step {
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
        for (name, value) in &self.environment {
            material.push(format!("environment.{name}"), Value::Text(value.clone()));
        }
        for (name, value) in &self.facts {
            material.push(format!("fact.{name}"), value.clone());
        }
        for input in &self.inputs {
            material.push(format!("input.{}", input.name), Value::Sha256(input.digest));
        }
        let outputs = self.outputs.iter().map(|output| output.name.to_owned());
        material.push("outputs", Value::List(outputs.collect()));
        material
    }

    /// The user's file that the step works on, if it works on one.
    #[must_use]
    pub fn source(&self) -> Option<&Path> {
        let origins = self.inputs.iter().filter_map(|input| input.origin.as_ref());
        origins.map(|origin| &*origin.path).next()
    }

    /// The tools that the step executes, each once, in the order of their first use.
    #[must_use]
    pub fn tools(&self) -> Vec<&Tool> {
        let mut tools: Vec<&Tool> = Vec::new();
        if let Work::Commands(commands) = &self.work {
            let used = commands.iter().flat_map(|command| {
                let named = command
                    .arguments
                    .iter()
                    .filter_map(|argument| match argument {
                        Argument::Tool(_, tool) => Some(tool),
                        Argument::Text(_) => None,
                    });
                std::iter::once(&command.tool).chain(named)
            });
            for tool in used {
                if tools.iter().all(|known| known.name != tool.name) {
                    tools.push(tool);
                }
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
        });
        std::iter::once(self.tool.name.to_owned())
            .chain(arguments)
            .collect()
    }
}
