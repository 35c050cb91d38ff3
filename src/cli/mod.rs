//! The command line: parsing, printing, progress and JSON live here and nowhere else.
//!
//! Results go to standard output, everything else to standard error. A closed pipe ends the program
//! quietly, as it should.

pub mod args;
mod cache;
mod closed;
pub mod compile;
pub mod delegate;
mod doctor;
mod explain;
mod hsaco;
mod inspect;
pub mod json;
mod shim;
pub mod terminal;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use crate::config::{ConfigError, Environment, Settings};
use crate::interrupt::{self, Interrupt};
use crate::message::{lines, one_line};
use crate::plan::{BuildError, Session};
use crate::store::CacheError;

use args::{Command, Global};
pub use terminal::{Terminal, Tone};

/// Exit code for a kernel that failed.
pub const FAILED: u8 = 1;
/// Exit code for usage, configuration and bad input.
pub const BAD_INPUT: u8 = 2;
/// Exit code when a tool, a runtime or a device is missing.
pub const MISSING: u8 = 3;
/// Exit code when the cache or an output can't be written.
pub const UNWRITABLE: u8 = 4;

/// Exit code after Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Why a command failed, once everything there is to say has been decided.
#[derive(Debug)]
pub enum Failure {
    /// Standard output is gone.
    Output(io::Error),
    /// Something went wrong; `message` has not been printed yet.
    Message { message: String, code: u8 },
    /// What went wrong has been printed already.
    Printed(u8),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        Self::Message {
            code: error.exit_code(),
            message: error.report(),
        }
    }
}

impl From<CacheError> for Failure {
    fn from(error: CacheError) -> Self {
        Self::Message {
            code: match error {
                CacheError::Interrupted => INTERRUPTED,
                CacheError::Lock { .. } | CacheError::Delete { .. } => UNWRITABLE,
            },
            message: error.to_string(),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Message {
            // A parser shows the line in question.
            message: error.to_string(),
            code: BAD_INPUT,
        }
    }
}

impl Failure {
    pub fn bad_input(message: impl AsRef<str>) -> Self {
        Self::Message {
            message: one_line(message.as_ref()).into_owned(),
            code: BAD_INPUT,
        }
    }
}

pub const ABOUT: &str = "Build cache and launcher generator for AMD NPU kernels";
pub const EXIT_CODES: &str =
    "Exit codes: 0 done; 1 a tool refused the kernel, a launch failed, or a result is not the
expected one; 2 usage, configuration or bad input; 3 a tool, a runtime or a device
is missing or unusable; 4 the cache or an output could not be written;
130 interrupted.";

/// A program's command line, and what it does.
pub trait Program: clap::Parser {
    /// The program for a command that was understood by itself.
    fn of_one_command(_: Global, _: Command) -> Option<Self> {
        None
    }

    /// Whether it is for `npu-build-run` to carry out.
    fn is_delegated(&self) -> bool {
        false
    }

    fn global(&self) -> &Global;

    fn execute(&self, terminal: &Terminal) -> Result<(), Failure>;
}

/// Runs the program.
pub fn main<P: Program>() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let alone = args::of_one_command(&words);
    let alone = alone.and_then(|(global, command)| P::of_one_command(global, command));
    let program = match alone.map_or_else(|| P::try_parse_from(&words), Ok) {
        Ok(program) => program,
        Err(error) => return not_understood(&error),
    };
    if program.is_delegated() {
        return report(delegate::become_it());
    }
    // Too large a file is an error like any other, and the tools keep what the signal does to them.
    let _ = interrupt::outlive_file_size_limit();
    let terminal = Terminal::new(program.global());
    // A program that called this one has said it.
    if !delegate::was_called() {
        let names = std::env::vars_os().map(|(name, _)| name);
        for warning in crate::config::unread_variables(names) {
            terminal.warning(&warning);
        }
    }
    match program.execute(&terminal) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report_on(&terminal, failure),
    }
}

/// Reports a failure that comes before the command line is understood.
pub fn report(failure: Failure) -> ExitCode {
    let is_json = wants_json(std::env::args_os());
    report_on(&Terminal::plain(is_json), failure)
}

fn report_on(terminal: &Terminal, failure: Failure) -> ExitCode {
    match failure {
        Failure::Output(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Failure::Output(error) => {
            terminal.error(&format!("can't write the result: {error}"), UNWRITABLE);
            UNWRITABLE.into()
        }
        Failure::Message { message, code } => {
            terminal.error(&message, code);
            code.into()
        }
        Failure::Printed(code) => code.into(),
    }
}

/// Prints what there is instead of arguments: help and version, which are results, or an error. Clap
/// knows which stream is whose.
fn not_understood(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        print_usage_error(error);
        if wants_json(std::env::args_os()) {
            let _ = terminal::json_error(&error.to_string(), BAD_INPUT);
        }
        return BAD_INPUT.into();
    }
    match closed::check().and_then(|()| error.print()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let message = format!("error: can't write the result: {error}\n");
            let _ = io::stderr().write_all(message.as_bytes());
            UNWRITABLE.into()
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Prints clap's message, in which words of the command line are as they were given.
fn print_usage_error(error: &clap::Error) {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<_> = words.filter(|word| *one_line(word) != **word).collect();
    if words.is_empty() {
        let _ = error.print();
        return;
    }
    let mut message = error.to_string();
    for word in &words {
        let value = word
            .split_once('=')
            .map_or(word.as_str(), |(_, value)| value);
        if !value.is_empty() {
            message = message.replace(value, &one_line(value));
        }
    }
    let _ = io::stderr().write_all((lines(&message) + "\n").as_bytes());
}

/// Whether a command line that can't be understood asks for JSON all the same.
fn wants_json(mut words: impl Iterator<Item = OsString>) -> bool {
    while let Some(word) = words.next() {
        if word == "--json"
            || word == "--message-format=json"
            || word == "--message-format" && words.next().is_some_and(|value| value == "json")
        {
            return true;
        }
    }
    false
}

/// Carries out a command that opens no device.
pub fn execute<P: Program>(
    global: &Global,
    command: &Command,
    terminal: &Terminal,
) -> Result<(), Failure> {
    match command {
        Command::Compile(command) => compile::compile(global, command, terminal),
        Command::Build(command) => compile::build(global, command, terminal),
        Command::Signature(command) => inspect::signature(global, command, terminal),
        Command::Key(command) => inspect::key(global, command, terminal),
        Command::Explain(command) => explain::explain(global, command, terminal),
        Command::Cache { command } => cache::run(global, command, terminal),
        Command::Doctor => doctor::run(global, terminal),
        Command::Hsaco { command } => hsaco::run(command, terminal),
        Command::Shim(command) => shim::run(global, command, terminal),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut P::command(), "npu-build", &mut text);
            let text = String::from_utf8_lossy(&text);
            // For bash clap_complete 4.6 has two spellings of a name with a hyphen in its labels.
            let text = text.replace("npu__subcmd__build", "npu__build");
            Ok(terminal.result_bytes(text.as_bytes())?)
        }
    }
}

/// The settings for this process, with `flags` on top.
pub fn settings(global: &Global) -> Result<Settings, Failure> {
    let cwd = std::env::current_dir().map_err(|error| {
        Failure::bad_input(format!("the current directory can't be used: {error}"))
    })?;
    Ok(Settings::load(
        global.layer(),
        &Environment::of_process(),
        &cwd,
    )?)
}

/// A session whose tools end with this process.
pub fn session(settings: Settings, terminal: &Terminal) -> Result<Session, Failure> {
    Ok(Session::new(settings, Interrupt::on_signals(), &|event| {
        terminal.event(&event);
    })?)
}
