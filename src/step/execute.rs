//! Carries a step out in a private work directory, and proves what it left behind.
//!
//! The directory is empty at first; inputs are written into it, outputs are read out of it. Exit
//! status 0 is not taken for success: every declared output must be there and pass its validator.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::retell::Places;
use super::run::{Invocation, RunError, Runner, quoted};
use super::{
    Argument, Command, Input, Loaded, Name, NativeWork, Output, PROGRAMS, Step, WORK_DIRECTORY,
    Work,
};
use crate::digest::{Checksum, Digest};
use crate::toolchain::Companions;

/// How many of a tool's last lines an error repeats.
const TAIL_LINES: usize = 20;
/// How many characters of such a line.
const LINE_LIMIT: usize = 2000;
/// How much of a log is kept in an entry's manifest.
const LOG_LIMIT: u64 = 64 * 1024;

/// What a step made.
#[derive(Debug)]
pub struct Produced {
    /// One for each declared output, in order.
    pub outputs: Vec<ProducedFile>,
    /// What the commands printed, each after its command line; the middle is cut from long ones.
    pub log: String,
    /// How long each command took.
    pub durations: Vec<(&'static str, Duration)>,
}

impl Produced {
    /// How long all commands took together.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.durations.iter().map(|(_, duration)| *duration).sum()
    }
}

/// A file in the work directory that has passed its validator.
#[derive(Debug)]
pub struct ProducedFile {
    /// The declared name.
    pub name: Name,
    /// Bytes.
    pub size: u64,
    /// Of the content.
    pub digest: Digest,
    /// Of the same content.
    pub checksum: Checksum,
}

/// Why a step gave no outputs.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// A tool failed, or left something else behind than it should.
    #[error(transparent)]
    Tool(Box<ToolFailure>),
    /// Work in process failed.
    #[error("{subject}: {reason}")]
    Native {
        /// What was worked on.
        subject: String,
        /// The reason.
        reason: String,
    },
    /// The work directory could not be used.
    #[error("can't use the work directory {}: {source}", path.display())]
    WorkDirectory {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A tool was exchanged while it ran, so that what it made belongs to no key.
    #[error("{subject}: {} or one of its libraries was changed while the kernel was compiled; build again when the installation is done", tool.display())]
    ToolChanged {
        /// What was worked on.
        subject: String,
        /// The tool.
        tool: PathBuf,
    },
    /// An input is not what it was any more.
    #[error("{subject}: can't read {} any more: {source}", path.display())]
    Input {
        /// What was worked on.
        subject: String,
        /// The input.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A signal said to stop.
    #[error("interrupted")]
    Interrupted,
}

/// A tool that refused its input, crashed, hung, or only pretended to have worked.
#[derive(Debug, thiserror::Error)]
#[error("{subject}: {cause}{}", explanation.as_ref().map_or_else(String::new, |text| format!("; {text}")))]
pub struct ToolFailure {
    /// The user's file, or the kernel.
    pub subject: String,
    /// What went wrong, in words.
    pub cause: String,
    /// What that means in the user's terms, if it is known.
    pub explanation: Option<String>,
    /// Whether the tool could not even be started.
    pub unusable: bool,
    /// The command line, as one would type it.
    pub command: String,
    /// The last lines that the tool printed, in terms of the user's files.
    pub tail: Vec<String>,
    /// Everything that was printed by the step so far.
    pub log: String,
    /// Where the full log was saved, once it was.
    pub log_path: Option<PathBuf>,
}

/// A command that was started.
struct Started<'a> {
    command: &'a Command,
    invocation: Invocation,
    /// Those of the step that ran before it.
    before: Vec<Invocation>,
    /// Where it ran.
    directory: &'a Path,
    /// Where in the log begins what it printed.
    printed_from: u64,
}

/// Runs `step` in `directory`, which must exist and be empty. `observe` is told each command line
/// before it runs.
///
/// # Errors
/// See [`ExecuteError`]; the directory is then of no use any more.
pub fn execute(
    step: &Step,
    directory: &Path,
    runner: &Runner,
    observe: &dyn Fn(&Invocation),
) -> Result<Produced, ExecuteError> {
    match &step.work {
        Work::Native(function) => native(step, *function, directory),
        Work::Commands(commands) => {
            let place = Place::of(step, directory)?;
            stage(step, place.path())?;
            run_commands(step, commands, &place, directory, runner, observe)
        }
    }
}

/// Where the commands run. Build scripts of bootgen and linker scripts can't quote a space, so that
/// tools which write some need a path without any.
enum Place<'a> {
    Given(&'a Path),
    Elsewhere(tempfile::TempDir),
}

impl<'a> Place<'a> {
    fn of(step: &Step, directory: &'a Path) -> Result<Self, ExecuteError> {
        let is_plain = |path: &Path| !path.as_os_str().as_encoded_bytes().contains(&b' ');
        if step.companions == Companions::default() || is_plain(directory) {
            return Ok(Self::Given(directory));
        }
        let parent = std::env::temp_dir();
        if !is_plain(&parent) {
            return Ok(Self::Given(directory));
        }
        tempfile::Builder::new()
            .prefix("npu-build-")
            .tempdir_in(&parent)
            .map(Self::Elsewhere)
            .map_err(|source| unusable(&parent, source))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Elsewhere(directory) => directory.path(),
        }
    }
}

/// Writes the inputs, and the programs that are found by `PATH`.
fn stage(step: &Step, directory: &Path) -> Result<(), ExecuteError> {
    let make = |path: &Path| match path.parent() {
        Some(parent) if parent != directory => fs::create_dir_all(parent),
        _ => Ok(()),
    };
    for input in &step.inputs {
        let path = directory.join(&*input.name);
        let bytes = load(step, input)?;
        make(&path)
            .and_then(|()| fs::write(&path, bytes))
            .map_err(|source| unusable(&path, source))?;
    }
    for output in &step.outputs {
        let path = directory.join(output.made_as());
        make(&path).map_err(|source| unusable(&path, source))?;
    }
    for (name, tool) in &step.companions.on_path {
        let path = directory.join(PROGRAMS).join(name);
        make(&path)
            .and_then(|()| stand_in(&tool.path, &path))
            .map_err(|source| unusable(&path, source))?;
    }
    Ok(())
}

/// Lets the program at `tool` be found at `path`. A script may look for its own installation by the
/// name under which it was called, so it is called by its own.
fn stand_in(tool: &Path, path: &Path) -> io::Result<()> {
    let mut start = [0; 2];
    let is_script = File::open(tool)?.read_exact(&mut start).is_ok() && start == *b"#!";
    if !is_script {
        return std::os::unix::fs::symlink(tool, path);
    }
    let script = format!(
        "#!/bin/sh\nexec {} \"$@\"\n",
        quoted(&tool.to_string_lossy())
    );
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(path)?;
    file.write_all(script.as_bytes())
}

fn load<'a>(step: &Step, input: &'a Input) -> Result<Cow<'a, [u8]>, ExecuteError> {
    input.read().map_err(|source| ExecuteError::Input {
        subject: step.about(),
        path: input.path().unwrap_or(Path::new(&*input.name)).to_owned(),
        source,
    })
}

fn unusable(path: &Path, source: io::Error) -> ExecuteError {
    ExecuteError::WorkDirectory {
        path: path.to_owned(),
        source,
    }
}

fn native(step: &Step, function: NativeWork, directory: &Path) -> Result<Produced, ExecuteError> {
    let started = Instant::now();
    let refuse = |reason| ExecuteError::Native {
        subject: step.about(),
        reason,
    };
    let mut loaded = Vec::with_capacity(step.inputs.len());
    for input in &step.inputs {
        loaded.push(Loaded {
            name: &input.name,
            bytes: load(step, input)?,
        });
    }
    let made = function(&loaded).map_err(refuse)?;
    if made.len() != step.outputs.len() {
        return Err(refuse(format!(
            "the {} step made {} files instead of {}",
            step.kind,
            made.len(),
            step.outputs.len()
        )));
    }
    let mut outputs = Vec::with_capacity(made.len());
    for (output, bytes) in step.outputs.iter().zip(made) {
        let check = output.check.content(&bytes, directory);
        check.map_err(|problem| refuse(format!("{}: {problem}", output.name)))?;
        let path = directory.join(&*output.name);
        fs::write(&path, &bytes).map_err(|source| unusable(&path, source))?;
        let digest = Digest::of(&bytes);
        outputs.push(ProducedFile {
            name: output.name.clone(),
            size: bytes.len() as u64,
            checksum: Checksum::of(&bytes, &digest),
            digest,
        });
    }
    Ok(Produced {
        outputs,
        log: String::new(),
        durations: vec![(step.kind.name(), started.elapsed())],
    })
}

fn run_commands(
    step: &Step,
    commands: &[Command],
    place: &Place<'_>,
    directory: &Path,
    runner: &Runner,
    observe: &dyn Fn(&Invocation),
) -> Result<Produced, ExecuteError> {
    // Beside the work directory, not in it: the tools find their inputs there and nothing else.
    let log_path = directory.with_extension("log");
    let mut log = OpenOptions::new()
        .create_new(true)
        .read(true)
        .append(true)
        .open(&log_path)
        .map_err(|source| unusable(&log_path, source))?;
    let mut durations = Vec::with_capacity(commands.len());
    let mut last: Option<Started<'_>> = None;
    for command in commands {
        let invocation = command.invocation(step, place.path());
        observe(&invocation);
        writeln!(log, "$ {}", command.in_key().join(" "))
            .map_err(|source| unusable(&log_path, source))?;
        let printed_from = log
            .metadata()
            .map_err(|source| unusable(&log_path, source))?
            .len();
        let start = Instant::now();
        let result = runner.run(&invocation, place.path(), &log);
        durations.push((command.tool.name, start.elapsed()));
        let before = last.map_or_else(Vec::new, |last: Started<'_>| {
            let mut before = last.before;
            before.push(last.invocation);
            before
        });
        let started = Started {
            command,
            invocation,
            before,
            directory: place.path(),
            printed_from,
        };
        if let Err(error) = result {
            return Err(started.failure(step, error, &mut log));
        }
        last = Some(started);
    }
    let mut outputs = Vec::with_capacity(step.outputs.len());
    for output in &step.outputs {
        match collect(output, place.path()) {
            Ok(file) => {
                deliver(output, place, directory).map_err(|source| unusable(directory, source))?;
                outputs.push(file);
            }
            Err(problem) => {
                let Some(started) = &last else {
                    return Err(unusable(directory, io::ErrorKind::NotFound.into()));
                };
                let cause = format!("the tools reported success, but {problem}");
                return Err(started.tool_failure(step, cause, false, &mut log));
            }
        }
    }
    Ok(Produced {
        outputs,
        log: places(step, place.path(), &[]).retell(&read_log(&mut log)),
        durations,
    })
}

/// Brings an output to where the declared name says.
fn deliver(output: &Output, place: &Place<'_>, directory: &Path) -> io::Result<()> {
    let (made, named) = (
        place.path().join(output.made_as()),
        directory.join(&*output.name),
    );
    match place {
        Place::Given(_) if made == named => Ok(()),
        Place::Given(_) => fs::rename(made, named),
        Place::Elsewhere(_) => fs::copy(made, named).map(drop),
    }
}

/// Reads and validates one output.
fn collect(output: &Output, directory: &Path) -> Result<ProducedFile, String> {
    let path = directory.join(output.made_as());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let metadata = fs::symlink_metadata(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("made no {name}"),
        _ => format!("{name} can't be read: {error}"),
    })?;
    if !metadata.is_file() {
        return Err(format!("{name} is not a regular file"));
    }
    let bytes = fs::read(&path).map_err(|error| format!("{name} can't be read: {error}"))?;
    if bytes.is_empty() {
        return Err(format!("{name} is empty"));
    }
    (output.check.content(&bytes, directory))
        .map_err(|problem| format!("{name} is unusable: {problem}"))?;
    let digest = Digest::of(&bytes);
    Ok(ProducedFile {
        name: output.name.clone(),
        size: bytes.len() as u64,
        checksum: Checksum::of(&bytes, &digest),
        digest,
    })
}

impl Command {
    /// The command line and environment with which it runs in `directory`.
    #[must_use]
    pub fn invocation(&self, step: &Step, directory: &Path) -> Invocation {
        let arguments = self.arguments.iter().map(|argument| match argument {
            Argument::Text(text) => OsString::from(text),
            Argument::Tool(prefix, tool) => {
                let mut text = OsString::from(prefix);
                text.push(&tool.path);
                text
            }
            Argument::Installation(prefix, _, path) => {
                let mut text = OsString::from(prefix);
                text.push(path);
                text
            }
        });
        let environment = step.environment.iter().map(|(name, value)| {
            let mut text = OsString::new();
            for (index, part) in value.split(WORK_DIRECTORY).enumerate() {
                if index > 0 {
                    text.push(directory);
                }
                text.push(part);
            }
            (*name, text)
        });
        Invocation {
            program: self.tool.path.clone(),
            arguments: arguments.collect(),
            environment: environment.collect(),
        }
    }
}

fn places<'a>(step: &'a Step, directory: &'a Path, unnamed: &'a [&'static str]) -> Places<'a> {
    Places {
        inputs: &step.inputs,
        directory,
        unnamed,
        programs: &step.companions.on_path,
    }
}

impl Started<'_> {
    /// The command line, behind those that make what it reads.
    fn shell(&self, step: &Step) -> String {
        let lines = self.before.iter().chain([&self.invocation]);
        let lines = lines.map(|line| line.shell_with(|argument| step.shown(argument)));
        lines.collect::<Vec<_>>().join(" && ")
    }

    fn failure(&self, step: &Step, error: RunError, log: &mut File) -> ExecuteError {
        let unusable = matches!(error, RunError::Start { .. });
        match error {
            RunError::Interrupted => ExecuteError::Interrupted,
            error => self.tool_failure(step, error.to_string(), unusable, log),
        }
    }

    fn tool_failure(
        &self,
        step: &Step,
        cause: String,
        unusable: bool,
        log: &mut File,
    ) -> ExecuteError {
        let text = read_log(log);
        let printed = usize::try_from(self.printed_from)
            .ok()
            .and_then(|from| text.get(from..))
            .unwrap_or(&text);
        let full = [
            ("No space left on device", Errno::NOSPC),
            ("Disk quota exceeded", Errno::DQUOT),
        ];
        if let Some((_, errno)) = full.iter().find(|(text, _)| printed.contains(text)) {
            return ExecuteError::WorkDirectory {
                path: PathBuf::from(step.kind.name()),
                source: (*errno).into(),
            };
        }
        let explanation = (self.command.explain)(printed);
        let places = places(step, self.directory, self.command.unnamed);
        let printed = places.retell(printed);
        ExecuteError::Tool(Box::new(ToolFailure {
            subject: step.about(),
            cause,
            explanation,
            unusable,
            command: self.shell(step),
            tail: tail(&printed),
            log: places.retell(&text),
            log_path: None,
        }))
    }
}

/// The last lines of what a tool printed; where it went on and on, its first error before them.
fn tail(printed: &str) -> Vec<String> {
    let shown = |line: &str| {
        let line = settled(line);
        match line.char_indices().nth(LINE_LIMIT) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => line,
        }
    };
    let lines: Vec<_> = printed.lines().collect();
    let start = lines.len().saturating_sub(TAIL_LINES);
    let is_error = |line: &&&str| ["error:", "Error:"].iter().any(|word| line.contains(word));
    let first = lines.iter().take(start).find(is_error);
    let (before, start) = match first {
        Some(first) => (vec![shown(first), "…".to_owned()], start + 2),
        None => (Vec::new(), start),
    };
    let last = lines.iter().skip(start).map(|line| shown(line));
    before.into_iter().chain(last).collect()
}

/// What a terminal shows of a line in the end: what progress has overwritten is gone, and so are
/// the sequences that do it.
fn settled(line: &str) -> String {
    let last = line.trim_end_matches('\r').rsplit('\r').next();
    let mut parts = last.unwrap_or(line).split("\x1b[");
    let mut settled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| ('@'..='~').contains(&c));
        settled.push_str(end.map_or("", |end| &part[end + 1..]));
    }
    settled
}

/// The log so far; of a long one its beginning and its end. Reading never fails a build.
fn read_log(log: &mut File) -> String {
    let mut bytes = Vec::new();
    let length = log.metadata().map_or(0, |metadata| metadata.len());
    let half = LOG_LIMIT / 2;
    let mut read = |from: u64, limit: u64| {
        if log.seek(io::SeekFrom::Start(from)).is_ok() {
            let _ = (&mut *log).take(limit).read_to_end(&mut bytes);
        }
        std::mem::take(&mut bytes)
    };
    if length <= LOG_LIMIT {
        return String::from_utf8_lossy(&read(0, LOG_LIMIT)).into_owned();
    }
    let head = read(0, half);
    let tail = read(length - half, half);
    format!(
        "{}\n[… {} bytes left out …]\n{}",
        String::from_utf8_lossy(&head),
        length - LOG_LIMIT,
        String::from_utf8_lossy(&tail)
    )
}

#[cfg(test)]
mod tests {
    use super::{TAIL_LINES, settled, tail};

    #[test]
    fn the_first_error_is_shown_however_much_follows() {
        let many = |first: &str, count: usize| {
            let notes = (0..count).map(|number| format!("note {number}\n"));
            format!("{first}\n{}", notes.collect::<String>())
        };
        let shown = tail(&many("a.h:1:2: error: broken", 50));
        assert_eq!(shown[..3], ["a.h:1:2: error: broken", "…", "note 32"]);
        assert_eq!((shown.len(), &*shown[19]), (TAIL_LINES, "note 49"));
        assert_eq!(tail(&many("warning: old", 50))[0], "note 30");
        assert_eq!(tail(&many("error: short", 3)).len(), 4);
    }

    #[test]
    fn a_line_is_shown_as_a_terminal_leaves_it() {
        for (line, expected) in [
            ("plain", "plain"),
            ("\r\x1b[2K[1] input.mlir\r\x1b[2K[2] aie.elf", "[2] aie.elf"),
            ("\x1b[1;31merror:\x1b[0m no", "error: no"),
            ("windows\r", "windows"),
            ("cut \x1b[", "cut "),
            ("cut \x1b[12", "cut "),
            ("", ""),
        ] {
            assert_eq!(settled(line), expected);
        }
    }
}
