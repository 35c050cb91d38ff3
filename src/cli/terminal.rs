//! Where words go: results to standard output, everything else to standard error.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::message::{lines, one_line};
use crate::step::Kind;
use crate::store::Event;
use serde::Serialize;

use super::args::{Format, Global};
use super::closed;

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
    /// Without colours.
    pub(super) fn plain(json: bool) -> Self {
        Self {
            quiet: false,
            verbose: false,
            json,
            colour: false,
            announced: Mutex::default(),
        }
    }

    pub fn new(global: &Global) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_none_or(|name| name == "dumb");
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

    /// A line of the result for people; lines that it goes on in are indented.
    pub fn result(&self, text: &str) -> io::Result<()> {
        self.result_bytes((lines(text) + "\n").as_bytes())
    }

    /// A path as a line of the result, byte for byte.
    pub fn result_path(&self, path: &Path) -> io::Result<()> {
        let mut line = path.as_os_str().as_bytes().to_vec();
        line.push(b'\n');
        self.result_bytes(&line)
    }

    /// One JSON object on a line of its own.
    pub fn result_json(&self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.result_bytes(&line)
    }

    pub fn result_bytes(&self, bytes: &[u8]) -> io::Result<()> {
        write_result(bytes)
    }

    /// What went wrong; with JSON also as an object among the results.
    pub fn error(&self, message: &str, code: u8) {
        self.problem("error", message);
        if self.json {
            // The exit code tells it all the same.
            let _ = json_error(message, code);
        }
    }

    /// What is wrong, with the lines that it goes on in.
    pub fn problem(&self, word: &str, message: &str) {
        self.print(word, Tone::Bad, &lines(message));
    }

    /// Something that is not as it should be.
    pub fn warning(&self, message: &str) {
        if !self.quiet {
            self.print("warning", Tone::Warning, &one_line(message));
        }
    }

    /// What has been done.
    pub fn status(&self, word: &str, tone: Tone, message: &str) {
        if !self.quiet {
            self.print(word, tone, &one_line(message));
        }
    }

    /// What only those want to know who ask.
    pub fn detail(&self, word: &str, message: &str) {
        if self.verbose {
            self.print(word, Tone::Note, &one_line(message));
        }
    }

    /// What happens while something is built.
    pub fn event(&self, event: &Event<'_>) {
        match event {
            Event::Waiting { subject } => self.status(
                "waiting",
                Tone::Note,
                &format!("for another process, which is building {subject}"),
            ),
            Event::WaitingForCache => {
                let doing = "for another process, which is clearing the cache";
                self.status("waiting", Tone::Note, doing);
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
            Event::Warning(message) => self.warning(message),
        }
    }

    /// A line on standard error; nobody to hear it is no reason to fail.
    fn print(&self, word: &str, tone: Tone, message: &str) {
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
    closed::check()?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Columns side by side, two spaces apart, without blanks at the end.
pub fn table<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    // What is longer pushes the rest of its own row aside, and not of every row.
    const WIDEST: usize = 80;
    let width = |text: &str| text.chars().count();
    let mut widths = [0; N];
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            let width = width(&one_line(cell));
            *widest = width.min(WIDEST).max(*widest);
        }
    }
    let lines = rows.iter().map(|row| {
        let mut line = String::new();
        for (cell, widest) in row.iter().zip(widths) {
            let cell = one_line(cell);
            line.push_str(&cell);
            let blanks = widest.saturating_sub(width(&cell)) + 2;
            line.extend(std::iter::repeat_n(' ', blanks));
        }
        line.truncate(line.trim_end().len());
        line
    });
    lines.collect()
}
