//! `npu-build compile` and `npu-build build`.

use std::collections::HashMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{Options, PROJECT_FILE, Settings};
use crate::plan::{Build, BuildError, Request, Session};
use crate::step::launcher;
use crate::store::{Artifact, Outcome};

use npu_runtime::Runtime;

use super::args::{BuildCommand, CompileCommand, Delivery, Emit, Global};
use super::json::Built;
use super::terminal::{Terminal, Tone};
use super::{Failure, session, settings};

/// Builds the kernels named on the command line.
pub fn compile(
    global: &Global,
    command: &CompileCommand,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let settings = settings(global)?;
    let mut said = command.arguments.add_to(command.options.options());
    said.refresh = command.delivery.refresh;
    let kernels = command.kernels.iter();
    let requests = kernels.map(|kernel| settings.request(kernel, said.clone()));
    let requests = requests.collect();
    deliver(settings, requests, &command.delivery, terminal)
}

/// Builds the kernels that the project file lists.
pub fn build(global: &Global, command: &BuildCommand, terminal: &Terminal) -> Result<(), Failure> {
    let settings = settings(global)?;
    if settings.kernels.is_empty() {
        return Err(Failure::bad_input(format!(
            "there are no kernels to build: no {PROJECT_FILE} here or above lists any; \
             add a [[kernel]] with its `path`, or use `npu-build compile KERNEL`"
        )));
    }
    let cwd = std::env::current_dir().unwrap_or_default();
    let requests = settings
        .kernels
        .iter()
        .map(|section| {
            let path = section.path.as_deref().unwrap_or(Path::new(""));
            let said = Options {
                // Tells the kernels of one file apart.
                entry: section.entry.clone(),
                refresh: command.delivery.refresh,
                ..Options::default()
            };
            settings.request(path.strip_prefix(&cwd).unwrap_or(path), said)
        })
        .collect();
    deliver(settings, requests, &command.delivery, terminal)
}

/// Builds all requests, and prints the results in the order of the requests.
fn deliver(
    settings: Settings,
    requests: Vec<Request>,
    delivery: &Delivery,
    terminal: &Terminal,
) -> Result<(), Failure> {
    if let Some(directory) = &delivery.out_dir {
        check_distinct(&requests, directory)?;
    }
    let jobs = delivery.jobs.or(settings.jobs());
    let session = session(settings, terminal)?;
    let results = build_all(&session, &requests, jobs, terminal);
    let mut worst = None;
    // That nobody reads the result is no reason not to write the files.
    let mut told = Ok(());
    let is_built = |result: &Result<Build, BuildError>| {
        let outcome = result.as_ref().map(Build::outcome);
        outcome.is_ok_and(|outcome| *outcome != Outcome::Hit)
    };
    let is_due = results.iter().any(is_built);
    for (request, result) in requests.iter().zip(results) {
        let observe = |event: crate::store::Event<'_>| terminal.event(&event);
        let result = result.and_then(|build| match &delivery.out_dir {
            Some(directory) => {
                let wanted = |artifact: &Artifact| delivery.wants(artifact);
                let (build, written) =
                    session.deliver(request, build, directory, wanted, &observe)?;
                Ok((build, Some(written)))
            }
            None => {
                keep(&build, terminal);
                Ok((build, None))
            }
        });
        match result {
            Ok((build, written)) => {
                told = told.and_then(|()| print(&build, written, delivery, terminal));
            }
            Err(error) => {
                let code = error.exit_code();
                terminal.error(&error.report(), code);
                worst = Some(worst.unwrap_or(0).max(code));
            }
        }
    }
    if is_due {
        super::cache::tidy(&session, terminal);
    }
    worst.map_or(told, |code| Err(Failure::Printed(code)))
}

/// Paths that are printed must lead somewhere when the program has ended.
fn keep(build: &Build, terminal: &Terminal) {
    for directory in build.artifacts().filter_map(Artifact::keep) {
        terminal.warning(&format!(
            "what is in {} is in no cache: delete it when you have done with it, or use --out-dir",
            directory.display()
        ));
    }
}

/// Two kernels of one file name would overwrite each other's launcher.
fn check_distinct(requests: &[Request], directory: &Path) -> Result<(), Failure> {
    let mut outputs: HashMap<PathBuf, &Path> = HashMap::new();
    for request in requests {
        let output = directory.join(Build::launcher_name(&request.kernel));
        if let Some(first) = outputs.insert(output.clone(), &request.kernel) {
            return Err(BuildError::SameOutput {
                output,
                first: first.to_owned(),
                second: request.kernel.clone(),
            }
            .into());
        }
    }
    Ok(())
}

/// Takes the requests one by one on as many threads as there may be jobs. Results keep the order;
/// a failure stops nothing, so that one run tells everything there is to tell.
fn build_all(
    session: &Session,
    requests: &[Request],
    jobs: Option<u32>,
    terminal: &Terminal,
) -> Vec<Result<Build, BuildError>> {
    let observe = |event: crate::store::Event<'_>| terminal.event(&event);
    // Asked only now: the answer takes a dozen system calls.
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let jobs = match requests {
        [_] => 1,
        _ => jobs.map_or_else(cores, |jobs| usize::try_from(jobs).unwrap_or(1)),
    };
    session.build_all(requests, jobs, &observe)
}

fn print(
    build: &Build,
    written: Option<Vec<PathBuf>>,
    delivery: &Delivery,
    terminal: &Terminal,
) -> Result<(), Failure> {
    summary(build, terminal);
    if terminal.json {
        return Ok(terminal.result_json(&Built::new(build, written))?);
    }
    if let Some(paths) = written {
        for path in paths {
            terminal.result_path(&path)?;
        }
        return Ok(());
    }
    let outputs = build.outputs(Path::new(""));
    for (_, artifact) in outputs
        .iter()
        .filter(|(_, artifact)| delivery.wants(artifact))
    {
        terminal.result_path(&artifact.path)?;
    }
    Ok(())
}

impl Delivery {
    fn wants(&self, artifact: &Artifact) -> bool {
        let part = match &*artifact.name {
            launcher::SOURCE => Emit::Launcher,
            _ => Emit::Artifacts,
        };
        self.emit.contains(&part)
    }
}

/// One line on how a build was come by, and with `-v` one for each step.
pub fn summary(build: &Build, terminal: &Terminal) {
    let names: Vec<_> = build
        .kernels
        .iter()
        .map(|kernel| &*kernel.signature.name)
        .collect();
    let outcome = build.outcome();
    let tone = match outcome {
        Outcome::Hit => Tone::Good,
        Outcome::Built | Outcome::Repaired => Tone::Note,
    };
    terminal.status(
        outcome.name(),
        tone,
        &format!(
            "{} for {} in {}",
            names.join(", "),
            destinations(build),
            milliseconds(build.elapsed)
        ),
    );
    if build.kernels.iter().any(|kernel| kernel.images.is_empty()) {
        terminal.warning("a PDI is loaded by neither xrt nor hsa: there is no launcher");
    }
    for step in &build.steps {
        terminal.detail(
            step.outcome.name(),
            &format!(
                "{} {} in {}",
                step.kind,
                step.key,
                milliseconds(step.elapsed)
            ),
        );
        if let Some(miss) = &step.miss {
            terminal.detail("why", &miss.reason);
        }
    }
}

/// What was built for: `cpu`, `npu2 (hsa)`, or several of them.
fn destinations(build: &Build) -> String {
    let named = |target: &str, runtime: Runtime| match runtime {
        Runtime::Cpu => target.to_owned(),
        runtime => format!("{target} ({runtime})"),
    };
    let images = build.kernels.first().map(|kernel| kernel.loadable());
    let images = images.unwrap_or_default();
    if images.len() < 2 {
        return named(build.target.name(), build.runtime);
    }
    let all = images.iter().map(|image| {
        let target = image
            .compiled()
            .map_or("cpu", |compiled| compiled.target.name());
        named(target, image.runtime())
    });
    all.collect::<Vec<_>>().join(", ")
}

fn milliseconds(duration: Duration) -> String {
    let milliseconds = duration.as_secs_f64() * 1e3;
    if milliseconds < 10.0 {
        format!("{milliseconds:.2} ms")
    } else {
        format!("{milliseconds:.0} ms")
    }
}
