//! The `npu-build-run` program: launches kernels, and loads the drivers of devices for that.
//!
//! Nobody calls it by name: `npu-build run` and `bench` become this program, and `doctor` asks it for
//! devices. It understands all other commands as well, so that its help and completions are whole.

mod args;
mod bench;
mod commands;
mod launch;
mod measure;
mod memory;
mod prepare;
mod report;
mod results;
mod tensor;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use npu_build::cli::args::{Command, Global};
use npu_build::cli::{self, Failure, Program, Terminal, delegate};
use npu_runtime::Runtime;

use args::{BENCH_HELP, BenchCommand, RUN_HELP, RunCommand};

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
    Other(Command),
    /// Compile a kernel, launch it, and print, save or check what comes out
    #[command(after_help = RUN_HELP)]
    Run(Box<RunCommand>),
    /// Measure the launches of a kernel
    #[command(after_help = BENCH_HELP)]
    Bench(Box<BenchCommand>),
    /// Open the device of a runtime, and tell what came of it as JSON
    #[command(hide = true)]
    Device { runtime: Runtime },
}

impl Program for Arguments {
    fn global(&self) -> &Global {
        &self.global
    }

    fn execute(&self, terminal: &Terminal) -> Result<(), Failure> {
        let global = &self.global;
        match &self.command {
            Commands::Other(command) => cli::execute::<Self>(global, command, terminal),
            Commands::Run(command) => commands::run(global, command, terminal),
            Commands::Bench(command) => commands::bench(global, command, terminal),
            Commands::Device { runtime } => commands::device(*runtime, terminal),
        }
    }
}

fn main() -> ExitCode {
    match delegate::other_version() {
        Some(failure) => cli::report(failure),
        None => cli::main::<Arguments>(),
    }
}
