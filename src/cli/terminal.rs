//! Where words go: results to standard output, everything else to standard error.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use npu_build::step::Kind;
use npu_build::store::Event;
use npu_build::store::lock::Holder;
use serde::Serialize;

use super::args::{Format, Global};

/// The two streams, and how much is to be said on them.
pub struct Terminal {
    quiet: bool,
    verbose: bool,
    pub json: bool,
    colour: bool,
    /// Which builds have been announced.
    announced: Mutex<HashSet<(String, Kind, &'static str)>>,
}

/// What a word at the start of a line means.
#[derive(Clone, Copy)]
pub enum Tone {
    Good,
    Note,
    Warning,
    Bad,
}

impl Terminal {
    pub fn new(global: &Global) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            quiet: global.quiet,
            verbose: global.verbose,
            json: global.json || global.message_format == Format::Json,
            colour: !plain && io::stderr().is_terminal(),
            announced: Mutex::default(),
        }
    }

    pub fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// A line of the result.
    pub fn result(&self, line: &str) -> io::Result<()> {
        self.result_bytes(format!("{line}\n").as_bytes())
    }

    /// A path as a line of the result, byte for byte.
    pub fn result_path(&self, path: &Path) -> io::Result<()> {
        let mut line = path.as_os_str().as_bytes().to_vec();
        line.push(b'\n');
        self.result_bytes(&line)
    }

    /// One JSON object on a line of its own.
    pub fn result_json(&self, value: &impl Serialize) -> io::Result<()> {
        self.result(&serde_json::to_string(value)?)
    }

    pub fn result_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        write_result(bytes)
    }

    /// What went wrong; with JSON also as an object among the results.
    pub fn error(&self, message: &str, code: u8) {
        self.print("error", Tone::Bad, message);
        if self.json {
            // The exit code tells it all the same.
            let _ = json_error(message, code);
        }
    }

    /// Something that is not as it should be.
    pub fn warning(&self, message: &str) {
        if !self.quiet {
            self.print("warning", Tone::Warning, message);
        }
    }

    /// What has been done.
    pub fn status(&self, word: &str, tone: Tone, message: &str) {
        if !self.quiet {
            self.print(word, tone, message);
        }
    }

    /// What only those want to know who ask.
    pub fn detail(&self, word: &str, message: &str) {
        if self.verbose {
            self.print(word, Tone::Note, message);
        }
    }

    /// What happens while something is built.
    pub fn event(&self, event: &Event<'_>) {
        match event {
            Event::Waiting {
                subject, holder, ..
            } => {
                let holder = named(holder.as_ref());
                self.status(
                    "waiting",
                    Tone::Note,
                    &format!("for {holder}, which is building {subject}"),
                );
            }
            Event::WaitingForCache { holder } => {
                let holder = named(holder.as_ref());
                self.status(
                    "waiting",
                    Tone::Note,
                    &format!("for {holder}, which is clearing the cache"),
                );
            }
            Event::Running {
                subject,
                kind,
                target,
                invocation,
            } => {
                let news = (self
                    .announced
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner))
                .insert(((*subject).to_owned(), *kind, *target));
                if news {
                    let doing = match kind {
                        Kind::Lower => "lowering",
                        Kind::Pack => "packing",
                        _ => "building",
                    };
                    self.status(doing, Tone::Note, &format!("{subject} for {target}"));
                }
                self.detail("running", &invocation.shell());
            }
            Event::Damaged(damage) => self.warning(&damage.to_string()),
            Event::Warning(message) => self.warning(message),
        }
    }

    /// A line on standard error; nobody to hear it is no reason to fail.
    fn print(&self, word: &str, tone: Tone, message: &str) {
        let message = &harmless(message);
        let line = if self.colour {
            let code = match tone {
                Tone::Good => "32",
                Tone::Note => "36",
                Tone::Warning => "33",
                Tone::Bad => "31",
            };
            format!("\x1b[1;{code}m{word}\x1b[0m: {message}\n")
        } else {
            format!("{word}: {message}\n")
        };
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

/// What went wrong as an object among the results.
pub fn json_error(message: &str, code: u8) -> io::Result<()> {
    #[derive(Serialize)]
    struct Error<'a> {
        error: &'a str,
        code: u8,
    }
    let mut line = serde_json::to_vec(&Error {
        error: message,
        code,
    })?;
    line.push(b'\n');
    write_result(&line)
}

fn write_result(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Kernel names and tools' words, without what would steer the terminal.
fn harmless(text: &str) -> String {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    text.replace(steers, "\u{fffd}")
}

fn named(holder: Option<&Holder>) -> String {
    holder.map_or_else(|| "another process".to_owned(), ToString::to_string)
}
