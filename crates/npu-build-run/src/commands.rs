//! `npu-build run` and `npu-build bench`: a kernel is built or found, loaded, and launched.
//!
//! What is asked for is settled before anything is built, and nothing is written before all
//! launches are done: bad input changes nothing.

use std::time::Duration;

use npu_build::cli::args::Global;
use npu_build::cli::delegate::Launchable;
use npu_build::cli::{FAILED, Failure, session, settings};
use npu_build::cli::{Terminal, Tone};
use npu_runtime::{Device, Runtime};

use super::args::{BenchCommand, RunCommand};
use super::prepare::{Job, refuse_too_much};
use super::results::{Expectations, Saves};
use super::{bench, launch, measure, report, results};

/// Runs a kernel.
pub fn run(global: &Global, command: &RunCommand, terminal: &Terminal) -> Result<(), Failure> {
    let settings = settings(global)?;
    let options = &command.launch;
    let job = Job::new(options, &settings)?;
    let saves = Saves::new(command, &job)?;
    let expectations = Expectations::new(command, &job)?;
    refuse_too_much(options, job.bytes().saturating_add(expectations.bytes()))?;
    let mut loaded = launch::load(session(settings, terminal)?, options, job, terminal)?;
    terminal.detail("launching", &loaded.kernel.signature().name);
    let times = usize::try_from(command.launches).unwrap_or(usize::MAX);
    let launched = match command.chain {
        true => loaded.launch_chained(times),
        false => loaded.launch(times),
    };
    let elapsed = launched.map_err(launch::failure)?;
    tell(command, &loaded, elapsed, terminal);
    let compared = expectations.compare(&loaded)?;
    let saved = saves.write(&loaded)?;
    report::run(
        terminal,
        &report::Run {
            command,
            loaded: &loaded,
            elapsed,
            compared: &compared,
            saved: &saved,
        },
    )?;
    match results::differences(&compared) {
        Some(message) => Err(Failure::Message {
            message,
            code: FAILED,
        }),
        None => Ok(()),
    }
}

/// One line on how long it took.
fn tell(command: &RunCommand, loaded: &launch::Loaded, elapsed: Duration, terminal: &Terminal) {
    let launches = command.launches;
    let how = match (launches, command.chain) {
        (1, false) => String::new(),
        (1, true) => " in a chain".into(),
        (_, chain) => {
            let each = elapsed / launches;
            let chain = if chain { " in chains" } else { "" };
            format!(
                " {launches} times{chain}, {} each",
                measure::time_text(each)
            )
        }
    };
    terminal.status(
        "ran",
        Tone::Good,
        &format!(
            "{} on {}{how} in {}",
            loaded.kernel.signature().name,
            loaded.device.runtime(),
            measure::time_text(elapsed)
        ),
    );
}

/// Measures a kernel.
pub fn bench(global: &Global, command: &BenchCommand, terminal: &Terminal) -> Result<(), Failure> {
    let settings = settings(global)?;
    let options = &command.launch;
    let job = Job::new(options, &settings)?;
    // There are slices and buffers.
    refuse_too_much(options, job.bytes().saturating_mul(2))?;
    let loaded = launch::load(session(settings, terminal)?, options, job, terminal)?;
    let measured = bench::measure(command, loaded).map_err(launch::failure)?;
    report::bench(terminal, &measured)
}

/// Opens the device of a runtime, and tells what came of it.
pub fn device(runtime: Runtime, terminal: &Terminal) -> Result<(), Failure> {
    let (npu, reason) = match Device::open(runtime) {
        Ok(device) => (device.npu().map(|npu| npu.to_string()), None),
        Err(error) => (None, Some(error.to_string())),
    };
    Ok(terminal.result_json(&Launchable {
        launch: runtime.name().to_owned(),
        usable: reason.is_none(),
        npu,
        reason,
    })?)
}
