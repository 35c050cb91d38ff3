//! One run of a tool: who it is, the log of runs, and the places where it does what the control
//! file says.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use serde_json::json;

use crate::identity::Identity;

/// Why a tool ends without success: its exit code and last words on standard error.
#[derive(Debug)]
pub struct Exit {
    pub code: u8,
    pub text: String,
}

pub type Result<T = ()> = std::result::Result<T, Exit>;

pub fn failure(text: impl Into<String>) -> Exit {
    Exit {
        code: 1,
        text: text.into(),
    }
}

#[derive(Clone)]
pub struct Run {
    pub identity: Identity,
    pub program: String,
    /// The directory of the executable.
    pub directory: PathBuf,
    pub arguments: Vec<String>,
    /// What it is to do wrong: `<tool>.behaviour` beside the executable, which survives a cleared
    /// environment, with one `key = value` a line.
    pub control: Vec<(String, String)>,
}

unsafe extern "C" {
    fn raise(signal: i32) -> i32;
}

fn die(signal: i32) {
    // SAFETY: raise has no preconditions.
    let _ = unsafe { raise(signal) };
}

impl Run {
    /// The run of this process. It is logged before anything else happens.
    pub fn start() -> Option<Self> {
        let mut arguments = std::env::args_os().map(|a| a.to_string_lossy().into_owned());
        let program = arguments.next()?;
        let arguments: Vec<String> = arguments.collect();
        let executable = std::env::current_exe().ok()?;
        let directory = executable.parent()?.to_owned();
        let identity = Identity::of(&executable)?;
        log(
            &directory.join(format!("{}.log", identity.tool)),
            &arguments,
        );
        let control = directory.join(format!("{}.behaviour", identity.tool));
        let control = fs::read_to_string(control).unwrap_or_default();
        let lines = control.lines().filter(|line| !line.is_empty());
        let pairs = lines.map(|line| line.split_once('=').unwrap_or((line, "")));
        let pairs = pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
        let mut run = Self {
            identity,
            program,
            directory,
            control: pairs.collect(),
            arguments,
        };
        let is_when = |text: &str| run.arguments.iter().any(|it| it.contains(text));
        if run.asks("version") || run.asks("help") || !run.get("when").is_none_or(is_when) {
            run.control.clear();
        }
        Some(run)
    }

    /// Whether the command line asks for `help` or `version`.
    pub fn asks(&self, word: &str) -> bool {
        let mut arguments = self.arguments.iter();
        arguments.any(|argument| argument.trim_start_matches('-') == word)
    }

    /// The name that LLVM's messages start with.
    pub fn name(&self) -> &str {
        self.program.rsplit('/').next().unwrap_or(&self.program)
    }

    fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        let entries = self.control.iter().filter(move |(k, _)| k == key);
        entries.map(|(_, value)| value.as_str())
    }

    /// The last value of a key of the control file.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.all(key).last()
    }

    fn number(&self, key: &str) -> Option<usize> {
        self.get(key)?.parse().ok()
    }

    /// Whether the control file wants the failure called `name`.
    pub fn fails(&self, name: &str) -> bool {
        self.all("fail").any(|failure| failure == name)
    }

    /// Noise, hanging, dying: what happens before a tool has done anything.
    pub fn begin(&self) -> Result {
        for line in self.all("stderr") {
            let _ = writeln!(io::stderr(), "{line}");
        }
        for number in 0..self.number("progress_bytes").unwrap_or(0) / 30 {
            let tool = &self.identity.tool;
            let _ = writeln!(io::stderr(), "[{number}] {tool}: still working on it");
        }
        if let Some(hang) = self.get("hang") {
            if hang == "child" {
                // It holds the pipes open and outlives a parent that is killed alone.
                let _ = Command::new("/bin/sleep").arg("3600").status();
            }
            std::thread::sleep(std::time::Duration::from_secs(3600));
        }
        if let Some(signal) = self.number("signal") {
            die(signal as i32);
        }
        match self.number("exit") {
            Some(code) => Err(Exit {
                code: code as u8,
                text: String::new(),
            }),
            None => Ok(()),
        }
    }

    /// Writes an output of the given kind, or what the control file wants instead.
    pub fn deliver(&self, kind: &str, path: &Path, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let is_meant = |only: &str| only.split(',').any(|it| it.trim() == kind);
        if !self.get("only").is_none_or(is_meant) {
            return self.write(path, &bytes);
        }
        match self.get("output") {
            // A stale file is one that was there before.
            Some("missing" | "stale") => return,
            Some("empty") => bytes.clear(),
            Some("truncated") => bytes.truncate(bytes.len() / 2),
            Some("garbage") => bytes = b"not an artifact ".repeat(bytes.len() / 16 + 1),
            Some("directory") => return drop(fs::create_dir_all(path)),
            Some("unwritable") => return self.unwritable(path, "Permission denied"),
            _ => {}
        }
        bytes.truncate(self.number("truncate_to").unwrap_or(usize::MAX));
        for (offset, hex) in self.all("patch").filter_map(|it| it.split_once(':')) {
            let at = offset.parse().unwrap_or(usize::MAX);
            for (index, pair) in hex.as_bytes().as_chunks::<2>().0.iter().enumerate() {
                let value = u8::from_str_radix(&String::from_utf8_lossy(pair), 16);
                if let (Some(byte), Ok(value)) = (bytes.get_mut(at + index), value) {
                    *byte = value;
                }
            }
        }
        if self.get("die_in_output").is_some() {
            bytes.truncate(bytes.len() / 2);
            self.write(path, &bytes);
            die(9);
        }
        self.write(path, &bytes);
    }

    /// Writes a file. As in the real tools, a failure is printed and forgotten.
    pub fn write(&self, path: &Path, bytes: &[u8]) {
        if let Err(error) = fs::write(path, bytes) {
            self.unwritable(path, message(&error));
        }
    }

    fn unwritable(&self, path: &Path, why: &str) {
        let (tool, path) = (&self.identity.tool, path.display());
        let _ = writeln!(
            io::stderr(),
            "{tool}: could not open output file '{path}': {why}"
        );
    }

    /// Finds a program as LLVM's findProgramByName does: on PATH, by name.
    pub fn on_path(&self, name: &str) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        let mut candidates = std::env::split_paths(&path).map(|directory| directory.join(name));
        candidates.find(|candidate| is_executable(candidate))
    }

    /// Finds a program beside this one, or on PATH.
    pub fn beside_or_on_path(&self, name: &str) -> Option<PathBuf> {
        let beside = Some(self.directory.join(name)).filter(|it| is_executable(it));
        beside.or_else(|| self.on_path(name))
    }
}

pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Runs a program to its end, its output going where this one's goes.
pub fn execute<A: AsRef<str>>(program: &Path, arguments: &[A]) -> io::Result<ExitStatus> {
    let arguments = arguments.iter().map(AsRef::as_ref);
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .status()
}

/// What the C library says of an error, as LLVM prints it.
pub fn message(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "No such file or directory",
        io::ErrorKind::PermissionDenied => "Permission denied",
        io::ErrorKind::IsADirectory => "Is a directory",
        io::ErrorKind::StorageFull => "No space left on device",
        _ => "Input/output error",
    }
}

/// A uuid of version 4.
pub fn random_uuid() -> [u8; 16] {
    let mut bytes = [0; 16];
    let _ = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// Adds a line to the log, in one write, so that those of tools that run at once do not mix.
fn log(path: &Path, arguments: &[String]) {
    let cwd = std::env::current_dir().unwrap_or_default();
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    let line = json!({"argv": arguments, "cwd": cwd.to_string_lossy(), "env": names});
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}
