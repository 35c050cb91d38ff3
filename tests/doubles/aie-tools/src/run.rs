//! One run of a tool: who it is, what it was asked for, the log of runs, and the places where it
//! does what the control file says.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::control::Control;
use crate::identity::Identity;

/// Why a tool ends without success: its exit code and last words on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    pub code: u8,
    /// What goes to standard error, without the last line break.
    pub text: String,
}

pub type Result<T = ()> = std::result::Result<T, Exit>;

pub fn failure(text: impl Into<String>) -> Exit {
    Exit {
        code: 1,
        text: text.into(),
    }
}

#[derive(Clone, Debug)]
pub struct Run {
    pub identity: Identity,
    pub program: String,
    pub directory: PathBuf,
    pub arguments: Vec<String>,
    pub control: Control,
}

unsafe extern "C" {
    fn raise(signal: i32) -> i32;
}

fn sleep(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

impl Run {
    /// The run of this process. It is logged before anything else happens.
    pub fn start() -> Self {
        let mut arguments = std::env::args_os().map(|a| a.to_string_lossy().into_owned());
        let program = arguments.next().unwrap_or_default();
        let executable = std::env::current_exe().unwrap_or_default();
        let directory = executable.parent().unwrap_or(Path::new(".")).to_owned();
        let identity = Identity::of(&executable);
        let mut arguments: Vec<String> = arguments.collect();
        let identity = identity.unwrap_or_else(|| match Identity::from_name(&program) {
            // `aie-tools aiecc …` by hand.
            own if own.tool == "aie-tools" && !arguments.is_empty() => {
                Identity::from_name(&arguments.remove(0))
            }
            other => other,
        });
        let earlier = log(&directory, &identity.tool, &arguments);
        let control = Control::load(&identity.tool, &directory, earlier, &arguments);
        Self {
            identity,
            program,
            directory,
            arguments,
            control,
        }
    }

    pub fn name(&self) -> &str {
        self.program.rsplit('/').next().unwrap_or(&self.program)
    }

    /// Delays, noise, hanging, dying: what happens before a tool has done anything.
    pub fn begin(&self) -> Result {
        let control = &self.control;
        if let Some(milliseconds) = control.number("delay_ms") {
            sleep(milliseconds);
        }
        for line in control.all("stdout") {
            let _ = writeln!(io::stdout(), "{line}");
        }
        for line in control.all("stderr") {
            let _ = writeln!(io::stderr(), "{line}");
        }
        if let Some(bytes) = control.number("progress_bytes") {
            self.noise(bytes);
        }
        match control.get("hang") {
            Some("child") => {
                // A child that holds the pipes open and outlives a parent that is killed alone.
                let child = Command::new("/bin/sleep")
                    .arg("3600")
                    .stdin(Stdio::null())
                    .status();
                drop(child);
                sleep(3_600_000);
            }
            Some(_) => sleep(3_600_000),
            None => {}
        }
        if let Some(signal) = control.number("signal") {
            die(signal);
        }
        match control.number("exit") {
            Some(code) => Err(Exit {
                code: code as u8,
                text: String::new(),
            }),
            None => Ok(()),
        }
    }

    fn noise(&self, bytes: u64) {
        let mut written = 0;
        let mut number = 0u64;
        while written < bytes {
            number += 1;
            let line = format!("[{number}] {}: still working on it\n", self.identity.tool);
            written += line.len() as u64;
            if io::stderr().write_all(line.as_bytes()).is_err() {
                return;
            }
        }
    }

    /// Whether the control file wants the failure called `name`.
    pub fn fails(&self, name: &str) -> bool {
        self.control.all("fail").any(|failure| failure == name)
    }

    /// Writes an output of the given kind, or what the control file wants instead. As in the real
    /// tools, a failure to write is printed and forgotten.
    pub fn deliver(&self, kind: &str, path: &Path, bytes: &[u8]) {
        let control = &self.control;
        let concerned = control
            .get("only")
            .is_none_or(|only| only.split(',').any(|k| k.trim() == kind));
        if !concerned {
            self.write(path, bytes);
            return;
        }
        if let Some(milliseconds) = control.number("delay_output_ms") {
            sleep(milliseconds);
        }
        let mut bytes = bytes.to_vec();
        match control.get("output") {
            // A stale file is one that was there before.
            Some("missing" | "stale") => return,
            Some("empty") => bytes.clear(),
            Some("truncated") => bytes.truncate(bytes.len() / 2),
            Some("garbage") => {
                bytes = b"not an artifact "
                    .iter()
                    .copied()
                    .cycle()
                    .take(bytes.len())
                    .collect()
            }
            Some("directory") => {
                let _ = fs::create_dir_all(path);
                return;
            }
            Some("unwritable") => {
                self.say(&format!(
                    "could not open output file '{}': Permission denied",
                    path.display()
                ));
                return;
            }
            _ => {}
        }
        if let Some(length) = control.number("truncate_to") {
            bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        }
        for patch in control.all("patch") {
            apply_patch(&mut bytes, patch);
        }
        if control.get("die_in_output").is_some() {
            bytes.truncate(bytes.len() / 2);
            self.write(path, &bytes);
            die(9);
        }
        self.write(path, &bytes);
    }

    /// Writes a file; a failure is printed and forgotten.
    pub fn write(&self, path: &Path, bytes: &[u8]) {
        if let Err(error) = fs::write(path, bytes) {
            let path = path.display();
            self.say(&format!("could not open output file '{path}': {error}"));
        }
    }

    /// Prints a line on standard error, after the tool's name.
    pub fn say(&self, text: &str) {
        let _ = writeln!(io::stderr(), "{}: {text}", self.identity.tool);
    }

    /// Finds a program as LLVM's findProgramByName does: on PATH, by name.
    pub fn on_path(&self, name: &str) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        let candidates = std::env::split_paths(&path).map(|directory| directory.join(name));
        candidates
            .into_iter()
            .find(|candidate| is_executable(candidate))
    }

    /// Finds a program beside this one, or on PATH.
    pub fn beside_or_on_path(&self, name: &str) -> Option<PathBuf> {
        let beside = self.directory.join(name);
        if is_executable(&beside) {
            return Some(beside);
        }
        self.on_path(name)
    }
}

pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Runs a program to its end, its output going where this one's goes.
pub fn execute(program: &Path, arguments: &[impl AsRef<OsStr>]) -> io::Result<ExitStatus> {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .status()
}

/// The content of a file, or of standard input for `-`.
pub fn read_input(path: &str) -> io::Result<String> {
    if path == "-" {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    fs::read_to_string(path)
}

/// What the C library says of an error, as LLVM prints it.
pub fn message(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "No such file or directory",
        io::ErrorKind::PermissionDenied => "Permission denied",
        io::ErrorKind::IsADirectory => "Is a directory",
        io::ErrorKind::AlreadyExists => "File exists",
        io::ErrorKind::StorageFull => "No space left on device",
        _ => "Input/output error",
    }
}

pub fn random_uuid() -> [u8; 16] {
    let mut bytes = [0; 16];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    if read.is_err() {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        bytes = time.map(|t| t.as_nanos()).unwrap_or(0).to_le_bytes();
    }
    let [.., version, _, variant, _, _, _, _, _, _, _] = &mut bytes;
    *version = *version & 0x0f | 0x40;
    *variant = *variant & 0x3f | 0x80;
    bytes
}

fn die(signal: u64) {
    // SAFETY: raise has no preconditions.
    let _ = unsafe { raise(i32::try_from(signal).unwrap_or(9)) };
}

fn apply_patch(bytes: &mut [u8], patch: &str) {
    let Some((offset, hex)) = patch.split_once(':') else {
        return;
    };
    let Ok(offset) = offset.trim().parse::<usize>() else {
        return;
    };
    let digits = hex.trim().as_bytes();
    for (index, pair) in digits.chunks_exact(2).enumerate() {
        let value = std::str::from_utf8(pair)
            .ok()
            .and_then(|p| u8::from_str_radix(p, 16).ok());
        if let (Some(place), Some(value)) = (bytes.get_mut(offset + index), value) {
            *place = value;
        }
    }
}

/// Adds a line to `<tool>.log` beside the executable, and gives how many there were.
fn log(directory: &Path, tool: &str, arguments: &[String]) -> usize {
    let path = directory.join(format!("{tool}.log"));
    let earlier = fs::read_to_string(&path).map_or(0, |log| log.lines().count());
    let cwd = std::env::current_dir().unwrap_or_default();
    let mut names: Vec<_> = std::env::vars_os()
        .map(|(k, _)| k.to_string_lossy().into_owned())
        .collect();
    names.sort();
    let line = json!({"argv": arguments, "cwd": cwd.to_string_lossy(), "env": names});
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
        // One write, so that lines of tools that run at once do not mix.
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
    earlier
}
