//! The one place that runs a subprocess.
//!
//! A tool gets a cleared environment plus what it is given, a work directory of its own as cwd, no
//! standard input, and a process group of its own that ends with us: by the interrupt, by the
//! time-out, and (on Linux) when we are killed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, set_parent_process_death_signal};

use crate::interrupt::Interrupt;
use crate::message::one_line;

/// How tools are run: shared by all steps of a process.
#[derive(Clone, Debug, Default)]
pub struct Runner {
    /// How long one tool may take; `None` is for ever.
    pub timeout: Option<Duration>,
    /// What ends the tools early.
    pub interrupt: Interrupt,
}

/// A tool's command line, ready to run.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The file that is executed.
    pub program: PathBuf,
    /// The arguments, without the program's name.
    pub arguments: Vec<OsString>,
    /// The whole environment.
    pub environment: Vec<(&'static str, OsString)>,
}

impl Invocation {
    /// The command line as one would type it into a shell.
    #[must_use]
    pub fn shell(&self) -> String {
        self.shell_with(|_| None)
    }

    /// The same, with something else in the place of some arguments.
    pub(super) fn shell_with(&self, shown: impl Fn(&OsStr) -> Option<OsString>) -> String {
        let mut line = typed(&self.program.to_string_lossy());
        for argument in &self.arguments {
            let shown = shown(argument);
            let argument = shown.as_deref().unwrap_or(argument);
            line.push(' ');
            line.push_str(&typed(&argument.to_string_lossy()));
        }
        line
    }
}

/// Why a tool did not finish its work.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be started.
    #[error("can't start {}: {source}", program.display())]
    Start {
        /// The file that was to be executed.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It ended with another status than 0.
    #[error("{tool} failed with exit status {status}")]
    Status {
        /// The tool's file name.
        tool: String,
        /// The status.
        status: i32,
    },
    /// A signal ended it.
    #[error("{tool} was ended by signal {signal}{}", explained(*signal))]
    Signal {
        /// The tool's file name.
        tool: String,
        /// The signal's number.
        signal: i32,
    },
    /// It took longer than the time-out.
    #[error(
        "{tool} took longer than the time-out of {limit:?} and was killed; raise it with --timeout"
    )]
    TimedOut {
        /// The tool's file name.
        tool: String,
        /// The limit.
        limit: Duration,
    },
    /// We were told to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Runner {
    /// Runs one tool to its end with both its output streams going to `log`.
    ///
    /// # Errors
    /// Anything but exit status 0.
    pub fn run(&self, invocation: &Invocation, cwd: &Path, log: &File) -> Result<(), RunError> {
        if self.interrupt.is_raised() {
            return Err(RunError::Interrupted);
        }
        let start_error = |source| RunError::Start {
            program: invocation.program.clone(),
            source,
        };
        let handle = duct::cmd(&invocation.program, &invocation.arguments)
            .dir(cwd)
            .full_env(invocation.environment.iter().cloned())
            .stdin_null()
            .stdout_file(log.try_clone().map_err(start_error)?)
            .stderr_file(log.try_clone().map_err(start_error)?)
            .before_spawn(own_group)
            .unchecked()
            .start()
            .map_err(start_error)?;
        let guarded = group(&handle).map(|group| self.interrupt.guard(group));

        let finished = self.wait(&handle).map_err(start_error)?;
        // The whole group, however the leader ended: a child left behind would go on writing.
        if let Some(guarded) = &guarded {
            guarded.kill();
        }
        handle.wait().map_err(start_error)?;
        self.verdict(invocation, finished)
    }

    /// Waits for a tool to end, or for its time to be over, in which no time counts in which it was
    /// stopped.
    fn wait(&self, handle: &duct::Handle) -> io::Result<Option<ExitStatus>> {
        let Some(limit) = self.timeout else {
            return handle.wait().map(|output| Some(output.status));
        };
        let (start, before) = (Instant::now(), self.interrupt.stopped());
        loop {
            let stopped = self.interrupt.stopped().saturating_sub(before);
            let Some(deadline) = start
                .checked_add(limit)
                .and_then(|end| end.checked_add(stopped))
            else {
                return handle.wait().map(|output| Some(output.status));
            };
            if let Some(output) = handle.wait_deadline(deadline)? {
                return Ok(Some(output.status));
            }
            if self.interrupt.stopped().saturating_sub(before) == stopped {
                return Ok(None);
            }
        }
    }

    /// Asks a tool something about itself (`--version`) and returns what it printed on both streams.
    ///
    /// # Errors
    /// When it can't be started, fails, has not answered within ten seconds, or we are to stop.
    pub fn probe(&self, program: &Path, arguments: &[&str]) -> io::Result<String> {
        const PATIENCE: Duration = Duration::from_secs(10);
        self.interrupt.arm();
        if self.interrupt.is_raised() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let handle = duct::cmd(program, arguments)
            .dir("/")
            .full_env(std::iter::empty::<(&str, &str)>())
            .stdin_null()
            .stderr_to_stdout()
            .stdout_capture()
            .before_spawn(own_group)
            .unchecked()
            .start()?;
        let guarded = group(&handle).map(|group| self.interrupt.guard(group));
        let answered = handle.wait_timeout(PATIENCE)?.is_some();
        if let Some(guarded) = &guarded {
            guarded.kill();
        }
        if !answered {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no answer within {} s", PATIENCE.as_secs()),
            ));
        }
        let output = handle.wait()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            Ok(text)
        } else {
            let last = text.lines().last().unwrap_or_default();
            Err(io::Error::other(format!("{}: {last}", output.status)))
        }
    }

    fn verdict(
        &self,
        invocation: &Invocation,
        finished: Option<ExitStatus>,
    ) -> Result<(), RunError> {
        if self.interrupt.is_raised() {
            return Err(RunError::Interrupted);
        }
        let tool = file_name(&invocation.program);
        let Some(status) = finished else {
            return Err(RunError::TimedOut {
                tool,
                limit: self.timeout.unwrap_or_default(),
            });
        };
        match (status.code(), status.signal()) {
            (Some(0), _) => Ok(()),
            (Some(status), _) => Err(RunError::Status { tool, status }),
            (None, signal) => Err(RunError::Signal {
                tool,
                signal: signal.unwrap_or_default(),
            }),
        }
    }
}

/// The process group that `own_group` made.
fn group(handle: &duct::Handle) -> Option<Pid> {
    let leader = *handle.pids().first()?;
    i32::try_from(leader).ok().and_then(Pid::from_raw)
}

/// Makes the child the leader of a process group, and lets it die with the thread that waits for
/// it, so that nothing goes on compiling into a directory that nobody owns any more.
#[expect(
    unsafe_code,
    reason = "std offers the death signal only through pre_exec"
)]
fn own_group(command: &mut std::process::Command) -> io::Result<()> {
    command.process_group(0);
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; this makes one
    // prctl(2) and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)
        });
    }
    Ok(())
}

fn file_name(program: &Path) -> String {
    program
        .file_name()
        .unwrap_or(program.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// What a signal usually means for a compiler.
fn explained(signal: i32) -> &'static str {
    match signal {
        4 => " (SIGILL: it was built for another CPU)",
        6 => " (SIGABRT: an assertion in the tool)",
        9 => {
            " (SIGKILL: probably out of memory; run fewer jobs at once with -j, or give the machine more)"
        }
        11 => " (SIGSEGV: the tool crashed)",
        15 => " (SIGTERM: something outside asked it to stop)",
        24 => " (SIGXCPU: over its CPU time limit)",
        25 => " (SIGXFSZ: over its file size limit)",
        _ => "",
    }
}

/// A word as one would type it into a shell, on one line.
fn typed(word: &str) -> String {
    if *one_line(word) == *word {
        return quoted(word);
    }
    // ANSI-C quoting, which bash, ksh and zsh know.
    let mut typed = "$'".to_owned();
    for c in word.chars() {
        let mut buffer = [0; 4];
        let text: &str = c.encode_utf8(&mut buffer);
        if *one_line(text) != *text {
            let bytes = text.bytes().map(|byte| format!("\\x{byte:02x}"));
            typed.extend(bytes);
        } else {
            if matches!(c, '\'' | '\\') {
                typed.push('\\');
            }
            typed.push(c);
        }
    }
    typed.push('\'');
    typed
}

/// Quotes a word for a POSIX shell where it needs it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::typed;

    /// What bash makes of them.
    #[test]
    fn a_word_is_typed_on_one_line_and_means_the_same() {
        for word in [
            "plain",
            "a b",
            "it's",
            "a\nerror: b",
            "\u{1b}[31m'\\x",
            "\u{feff}é\r",
        ] {
            let typed = typed(word);
            assert_eq!(typed.lines().count(), 1, "{typed}");
            let said = std::process::Command::new("bash")
                .args(["-c", &format!("printf %s {typed}")])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), word);
        }
    }
}
