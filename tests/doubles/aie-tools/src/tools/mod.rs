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
use crate::run::{Exit, Run, failure};

/// Runs the tool that this process is, and gives the exit code.
pub fn run() -> u8 {
    let run = Run::start();
    let ended = match run.identity.tool.as_str() {
        "air-opt" => air_opt::run(&run),
        "aircc" => aircc::run(&run),
        "aiecc" | "aiecc.py" => aiecc::run(&run),
        "aie-hsaco" => aie_hsaco::run(&run),
        "aie-hsaco-dump" => aie_hsaco::dump(&run),
        "bootgen" => bootgen::run(&run),
        "xclbinutil" => xclbinutil::run(&run),
        "aiebu-asm" => aiebu_asm::run(&run),
        "llc" | "opt" | "clang" | "ld.lld" => peano::run(&run),
        other => Err(failure(format!("no tool is called '{other}'"))),
    };
    match ended {
        Ok(()) => 0,
        Err(Exit { code, text }) => {
            if !text.is_empty() {
                let _ = writeln!(std::io::stderr(), "{text}");
            }
            code
        }
    }
}

pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// A diagnostic as MLIR prints it: place, message, the line and a caret.
pub fn diagnostic(file: &str, text: &str, what: &Diagnostic) -> String {
    let line = text.lines().nth(what.line.saturating_sub(1)).unwrap_or("");
    let space: String = line
        .chars()
        .take(what.column.saturating_sub(1))
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    format!(
        "{file}:{}:{}: error: {}\n{line}\n{space}^",
        what.line, what.column, what.message
    )
}

/// The diagnostic that the control file wants: `diagnostic = 3:23: expected ')'`.
pub fn wanted_diagnostic(run: &Run) -> Option<Diagnostic> {
    let wanted = run.control.get("diagnostic");
    let wanted = wanted.or_else(|| {
        run.fails("syntax")
            .then_some("1:1: expected operation name in quotes")
    })?;
    let mut parts = wanted.splitn(3, ':');
    let mut number = || parts.next()?.trim().parse().ok();
    let (line, column) = (number()?, number()?);
    let message = parts.next().unwrap_or("").trim();
    let message = message.strip_prefix("error:").unwrap_or(message).trim();
    Some(Diagnostic::new(line, column, message))
}
