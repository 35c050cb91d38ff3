//! The `lower` step: a linalg-level kernel to AIR, by air-opt.
//!
//! Two pipelines with the user's transform script between them. The script is interpreted by the
//! command, not through the library: only the command fails where the script does.

use std::path::Path;
use std::sync::Arc;

use super::{AIR, OUT, SOURCE, TargetOptions, command, environment};
use crate::step::check::Check;
use crate::step::{Argument, Input, Kind, Output, Step, Work};
use crate::toolchain::{Companions, Tool};

/// Raised when the same inputs would give another text.
const VERSION: u32 = 2;

/// The name under which air-opt sees the transform script.
pub const SCRIPT: &str = "npu-build/script/transform.mlir";
/// What the passes leave to the script.
const RESOLVED: &str = "npu-build/out/resolved.mlir";
/// What the script leaves to the passes behind it.
const TILED: &str = "npu-build/out/tiled.mlir";

/// What is said of an intermediate file is then said of the lines that it came from.
const DEBUG_INFO: &str = "--mlir-print-debuginfo";

const BEFORE: &str = "air-resolve-tensor-opoperand-conflicts,air-override-memref-memory-space{scope=func memory-space=1}";
const BEHIND: &str =
    "air-par-to-launch{depth=0 has-air-segment=true},canonicalize,cse,air-copy-to-dma";

/// What is lowered, and how.
#[derive(Debug)]
pub struct Lowering<'a> {
    /// The kernel, for messages.
    pub subject: &'a str,
    /// The user's file, for messages.
    pub file: &'a Path,
    /// The function that is the kernel.
    pub function: &'a str,
    /// The target, for messages.
    pub target: &'static str,
    /// The kernel, named [`SOURCE`].
    pub source: Input,
    /// The launch grid, if the kernel has one.
    pub grid: Option<[u32; 3]>,
    /// The transform script, named [`SCRIPT`], and what it includes, beside it.
    pub script: &'a [Input],
    /// Of which the actual sizes matter here.
    pub options: &'a TargetOptions,
    /// The program.
    pub air_opt: &'a Arc<Tool>,
}

/// The step that makes [`AIR`].
#[must_use]
pub fn lower(lowering: &Lowering<'_>) -> Step {
    let companions = Companions::default();
    let mut inputs = vec![lowering.source.clone()];
    inputs.extend_from_slice(lowering.script);
    Step {
        kind: Kind::Lower,
        version: VERSION,
        subject: lowering.subject.to_owned(),
        source: Some(lowering.file.to_owned()),
        target: lowering.target,
        inputs,
        environment: environment(&companions),
        companions,
        facts: Vec::new(),
        work: Work::Commands(commands(lowering)),
        outputs: vec![Output {
            made_as: Some(format!("{OUT}{AIR}").into()),
            ..Output::new(
                AIR,
                Check::Mlir {
                    function: Some(lowering.function.to_owned()),
                    herd: Some(match lowering.script.is_empty() {
                        true => {
                            "a transform script makes one of the kernel's operations, and none was \
                             given: use --transform"
                        }
                        false => {
                            "the transform script must make one of the kernel's operations \
                             (transform.air.par_to_herd)"
                        }
                    }),
                },
            )
        }],
    }
}

fn commands(lowering: &Lowering<'_>) -> Vec<crate::step::Command> {
    let made = format!("{OUT}{AIR}");
    let mut behind = String::new();
    if let Some([x, y, z]) = lowering.grid {
        behind.push_str(&format!(
            "func.func(air-wrap-func-with-parallel{{loop-bounds={x},{y},{z}"
        ));
        if let Some([rows, columns]) = lowering.options.actual_sizes {
            behind.push_str(&format!(" actual-sizes={rows},{columns},1"));
        }
        behind.push_str("}),");
    }
    behind.push_str(BEHIND);
    let run = |arguments: &[&str]| {
        let arguments = arguments.iter().copied().map(Argument::from).collect();
        command(lowering.air_opt, arguments, explain)
    };
    let passes = |passes: &str| format!("--pass-pipeline=builtin.module({passes})");
    if lowering.script.is_empty() {
        // The same bytes as in two runs.
        let all = passes(&format!("{BEFORE},{behind}"));
        return vec![run(&[SOURCE, &all, "-o", &made])];
    }
    let script = format!("--air-transform=filename={SCRIPT}");
    vec![
        run(&[SOURCE, &passes(BEFORE), DEBUG_INFO, "-o", RESOLVED]),
        run(&[RESOLVED, &script, DEBUG_INFO, "-o", TILED]),
        run(&[TILED, &passes(&behind), "-o", &made]),
    ]
}

fn explain(printed: &str) -> Option<String> {
    printed.contains("__transform_main").then(|| {
        "a transform script must have a named sequence @__transform_main, which is what is run"
            .to_owned()
    })
}
