//! The tools, each with its own command line.

mod aie_hsaco;
mod aiebu_asm;
mod aiecc;
mod air_opt;
mod aircc;
mod bootgen;
mod peano;
mod xclbinutil;

use std::io::Write as _;

use crate::mlir::Diagnostic;
use crate::run::{Exit, Run};

/// Runs the tool that this process is, and gives the exit code.
pub fn run() -> u8 {
    let Some(run) = Run::start() else { return 127 };
    let ended = match run.identity.tool.as_str() {
        "air-opt" => air_opt::run(&run),
        "aircc" => aircc::run(&run),
        "aie-hsaco" => aie_hsaco::run(&run),
        "aie-hsaco-dump" => aie_hsaco::dump(&run),
        "bootgen" => bootgen::run(&run),
        "xclbinutil" => xclbinutil::run(&run),
        "aiebu-asm" => aiebu_asm::run(&run),
        "llc" | "opt" | "clang" | "ld.lld" => peano::run(&run),
        _ => aiecc::run(&run),
    };
    let Err(Exit { code, text }) = ended else {
        return 0;
    };
    if !text.is_empty() {
        let _ = writeln!(std::io::stderr(), "{text}");
    }
    code
}

pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// A diagnostic as MLIR prints it: place, message, the line and a caret.
pub fn diagnostic(file: &str, text: &str, what: &Diagnostic) -> String {
    let (line, column) = (what.line, what.column);
    let source = text.lines().nth(line.saturating_sub(1)).unwrap_or("");
    let space = " ".repeat(column.saturating_sub(1));
    format!(
        "{file}:{line}:{column}: error: {}\n{source}\n{space}^",
        what.message
    )
}

/// The diagnostic that the control file wants: `diagnostic = 3:23: expected ')'`.
pub fn wanted_diagnostic(run: &Run) -> Option<Diagnostic> {
    let syntax = run
        .fails("syntax")
        .then_some("1:1: expected operation name in quotes");
    let mut parts = run.get("diagnostic").or(syntax)?.splitn(3, ':');
    let mut number = || parts.next()?.parse().ok();
    let (line, column) = (number()?, number()?);
    let message = parts.next()?.trim().trim_start_matches("error: ");
    Some(Diagnostic::new(line, column, message))
}
