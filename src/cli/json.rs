//! The objects that `--json` prints. Names and meanings are an interface.

use std::path::{Path, PathBuf};

use crate::launcher::Image;
use crate::plan::{Build, BuiltKernel};
use crate::store::{Artifact, StepResult};
use npu_runtime::Signature;
use serde::Serialize;

/// One built kernel file.
#[derive(Serialize)]
pub struct Built<'a> {
    source: String,
    target: String,
    runtime: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    key: Option<String>,
    kernel: Option<&'a Signature>,
    artifact: Option<File>,
    kernels: Vec<Kernel<'a>>,
    launcher: Option<File>,
    steps: Vec<Step<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<Vec<String>>,
}

/// One kernel of a file, with all that a device loads of it.
#[derive(Serialize)]
struct Kernel<'a> {
    key: String,
    kernel: &'a Signature,
    images: &'a [Image],
    artifacts: Vec<File>,
}

/// One file of a build.
#[derive(Serialize)]
pub struct File {
    path: String,
    size: u64,
    sha256: String,
}

#[derive(Serialize)]
struct Step<'a> {
    step: &'static str,
    target: &'static str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    key: String,
    milliseconds: f64,
}

impl<'a> Built<'a> {
    pub fn new(build: &'a Build, written: Option<Vec<PathBuf>>) -> Self {
        let kernel: Option<&BuiltKernel> = build.kernels.first();
        Self {
            source: text(&build.source),
            target: build.target.to_string(),
            runtime: build.runtime.to_string(),
            outcome: build.outcome().name(),
            reason: build.steps.iter().find_map(reason),
            key: kernel.map(|kernel| kernel.key.to_string()),
            kernel: kernel.map(|kernel| &kernel.signature),
            artifact: kernel
                .and_then(|kernel| kernel.files.first())
                .map(|(_, artifact)| File::new(artifact)),
            kernels: build.kernels.iter().map(Kernel::new).collect(),
            launcher: build.launcher().map(File::new),
            steps: build.steps.iter().map(Step::new).collect(),
            written: written.map(|paths| paths.iter().map(|path| text(path)).collect()),
        }
    }
}

impl<'a> Kernel<'a> {
    fn new(kernel: &'a BuiltKernel) -> Self {
        let files = kernel.files.iter();
        Self {
            key: kernel.key.to_string(),
            kernel: &kernel.signature,
            images: &kernel.images,
            artifacts: files.map(|(_, artifact)| File::new(artifact)).collect(),
        }
    }
}

/// The XRT shim.
#[derive(Serialize)]
pub struct Shim<'a> {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    key: String,
    artifact: File,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<String>,
}

impl<'a> Shim<'a> {
    pub fn new(ensured: &'a StepResult, artifact: File, written: Option<PathBuf>) -> Self {
        Self {
            outcome: ensured.outcome.name(),
            reason: reason(ensured),
            key: ensured.key.to_string(),
            artifact,
            written: written.as_deref().map(text),
        }
    }
}

impl File {
    pub fn new(artifact: &Artifact) -> Self {
        Self {
            path: text(&artifact.path),
            size: artifact.size,
            sha256: artifact.digest.to_string(),
        }
    }
}

impl<'a> Step<'a> {
    fn new(step: &'a StepResult) -> Self {
        Self {
            step: step.kind.name(),
            target: step.target,
            outcome: step.outcome.name(),
            reason: reason(step),
            key: step.key.to_string(),
            milliseconds: (step.elapsed.as_secs_f64() * 1e6).round() / 1e3,
        }
    }
}

/// JSON is text. A path that is none is written as near as that gets.
pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn reason(step: &StepResult) -> Option<&str> {
    step.miss.as_ref().map(|miss| &*miss.reason)
}
