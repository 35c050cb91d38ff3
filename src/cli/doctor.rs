//! `npu-build doctor`: what was found, what was not taken, and what is missing.

use npu_build::toolchain::{Llvm, Tool};
use serde::Serialize;

use super::args::Global;
use super::terminal::{Terminal, Tone};
use super::{Failure, session, settings};

#[derive(Serialize)]
struct Report<'a> {
    target: &'static str,
    place: String,
    usable: bool,
    reason: Option<String>,
    version: Option<&'a str>,
    tools: Vec<&'a Tool>,
}

/// Prints every place that was looked at for each target, with its verdict.
pub fn run(global: &Global, terminal: &Terminal) -> Result<(), Failure> {
    let session = session(settings(global)?, terminal)?;
    let candidates = session.llvm_candidates();
    let mut taken = false;
    for (place, verdict) in &candidates {
        let found = verdict.as_ref().ok();
        if terminal.json {
            terminal.result_json(&Report {
                target: "cpu",
                place: place.to_string_lossy().into_owned(),
                usable: found.is_some(),
                reason: verdict.as_ref().err().map(ToString::to_string),
                version: found.map(|llvm| &*llvm.version),
                tools: found.map(|llvm| llvm.tools().to_vec()).unwrap_or_default(),
            })?;
            continue;
        }
        match verdict {
            Ok(llvm) => {
                let word = if taken { "also usable" } else { "used for cpu" };
                terminal.result(&format!(
                    "{word}: LLVM {} in {}",
                    llvm.version,
                    place.display()
                ))?;
                describe(llvm, terminal)?;
                taken = true;
            }
            Err(reason) => {
                terminal.result(&format!("not usable: {}: {reason}", place.display()))?;
            }
        }
    }
    if candidates.iter().any(|(_, verdict)| verdict.is_ok()) {
        return Ok(());
    }
    match session.llvm() {
        Ok(_) => Ok(()),
        Err(error) => {
            terminal.status("missing", Tone::Bad, &error.to_string());
            Err(Failure::Printed(error.exit_code()))
        }
    }
}

fn describe(llvm: &Llvm, terminal: &Terminal) -> Result<(), Failure> {
    for tool in llvm.tools() {
        terminal.result(&format!(
            "  {:14}  {}  {}",
            tool.name,
            tool.identity.digest.short(),
            tool.path.display()
        ))?;
        if terminal.is_verbose() {
            for file in &tool.identity.files {
                terminal.result(&format!("    {}  {}", file.digest.short(), file.name))?;
            }
        }
    }
    Ok(())
}
