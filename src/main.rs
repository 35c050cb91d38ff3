//! The `npu-build` program: everything but launching, which `npu-build-run` does.

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use npu_build::cli::args::{Command, Global};
use npu_build::cli::{self, Failure, Program, Terminal, delegate};

#[derive(Debug, Parser)]
#[command(
    name = "npu-build",
    version,
    about = cli::ABOUT,
    after_help = cli::EXIT_CODES,
    max_term_width = 100,
    arg_required_else_help = true
)]
struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one of it")]
enum Commands {
    #[command(flatten)]
    Own(Command),
    /// Compile a kernel, launch it, and print, save or check what comes out
    #[command(disable_help_flag = true)]
    Run(Words),
    /// Measure the launches of a kernel
    #[command(disable_help_flag = true)]
    Bench(Words),
}

// What npu-build-run makes sense of. No documentation: clap would take it for the command's.
#[derive(Args, Debug)]
struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<std::ffi::OsString>,
}

impl Program for Arguments {
    fn of_one_command(global: Global, command: Command) -> Option<Self> {
        let command = Commands::Own(command);
        Some(Self { global, command })
    }

    fn global(&self) -> &Global {
        &self.global
    }

    fn is_delegated(&self) -> bool {
        match &self.command {
            // Its completions know the options of `run` and `bench` as well.
            Commands::Own(Command::Completions { .. }) => delegate::is_installed(),
            Commands::Own(_) => false,
            Commands::Run(_) | Commands::Bench(_) => true,
        }
    }

    fn execute(&self, terminal: &Terminal) -> Result<(), Failure> {
        match &self.command {
            Commands::Own(command) => cli::execute::<Self>(&self.global, command, terminal),
            Commands::Run(_) | Commands::Bench(_) => Err(delegate::become_it()),
        }
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let asks_for_help = words.next().is_some_and(|word| word == "help");
    if asks_for_help && words.next().is_some_and(|it| it == "run" || it == "bench") {
        return cli::report(delegate::become_it());
    }
    cli::main::<Arguments>()
}
