//! `npu-build shim`: the library through which launchers drive XRT.

use crate::plan::copy_into;
use crate::store::{Artifact, StepResult};

use super::args::{Global, ShimCommand};
use super::json::{File, Shim};
use super::terminal::{Terminal, Tone};
use super::{Failure, session, settings};

/// Compiles the shim or finds it, and prints where it is.
pub fn run(global: &Global, command: &ShimCommand, terminal: &Terminal) -> Result<(), Failure> {
    let session = session(settings(global)?, terminal)?;
    let ensured = session.shim(command.refresh, &|event| terminal.event(&event))?;
    let written = match (&command.out_dir, ensured.artifacts.first()) {
        (Some(directory), Some(artifact)) => {
            Some(copy_into(directory, artifact, session.interrupt())?)
        }
        _ => None,
    };
    tell(&ensured, terminal);
    for artifact in &ensured.artifacts {
        let path = written.as_ref().unwrap_or(&artifact.path);
        if terminal.json {
            terminal.result_json(&Shim::new(&ensured, File::new(artifact), written.clone()))?;
        } else {
            terminal.result_path(path)?;
        }
    }
    Ok(())
}

fn tell(ensured: &StepResult, terminal: &Terminal) {
    terminal.status(ensured.outcome.name(), Tone::Note, "the XRT shim");
    for directory in ensured.artifacts.iter().filter_map(Artifact::keep) {
        terminal.warning(&format!(
            "what is in {} is in no cache: delete it when you have done with it, or use --out-dir",
            directory.display()
        ));
    }
}
