//! air-opt: the passes that take a linalg kernel to the AIR level, separately or in one pipeline,
//! and the transform interpreter between them. Herds come from the transform script and from
//! nowhere else, as in the real one.

mod kernel;
mod pipeline;
mod promote;

use std::path::Path;

pub use kernel::{arguments, entry};

use crate::mlir::Module;
use crate::options::{self, Spec, Takes, Unknown, option};
use crate::run::{Result, Run, failure, message, read_input};
use kernel::Kernel;
use pipeline::{PASSES, Pass, pipeline};

const OPTIONS: [Spec; 19] = [
    option("o", Takes::Text, "Output filename"),
    option(
        "pass-pipeline",
        Takes::Text,
        "Textual description of the pass pipeline to run",
    ),
    option(
        "version",
        Takes::Flag,
        "Display the version of this program",
    ),
    option(
        "mlir-print-debuginfo",
        Takes::Flag,
        "Print debug info in MLIR output",
    ),
    option(
        "allow-unregistered-dialect",
        Takes::Flag,
        "Allow operation with no registered dialects",
    ),
    option(
        "split-input-file",
        Takes::Flag,
        "Split the input file into pieces",
    ),
    option(
        "verify-diagnostics",
        Takes::Flag,
        "Check that emitted diagnostics match",
    ),
    option(
        "air-resolve-tensor-opoperand-conflicts",
        Takes::Flag,
        "Resolve tensor operand conflicts",
    ),
    option(
        "air-override-memref-memory-space",
        Takes::Text,
        "Override memory spaces",
    ),
    option("air-transform", Takes::Text, "Apply a transform script"),
    option(
        "air-wrap-func-with-parallel",
        Takes::Text,
        "Wrap a function's body in scf.parallel",
    ),
    option(
        "air-par-to-launch",
        Takes::Text,
        "Convert parallel loops to air.launch",
    ),
    option(
        "air-copy-to-dma",
        Takes::Flag,
        "Convert copies to air.dma_memcpy_nd",
    ),
    option("canonicalize", Takes::Flag, "Canonicalize operations"),
    option("cse", Takes::Flag, "Eliminate common sub-expressions"),
    option(
        "mlir-disable-threading",
        Takes::Flag,
        "Disable multithreading",
    ),
    option(
        "air-par-to-herd",
        Takes::Text,
        "Convert parallel loops to air.herd",
    ),
    option("air-dependency", Takes::Flag, "Dependency tracing"),
    option(
        "mlir-print-op-generic",
        Takes::Flag,
        "Print the generic form",
    ),
];

/// The passes of a command line: the pipeline, or pass options in the order of the command line.
fn passes(run: &Run, options: &options::Options) -> Result<Vec<Pass>> {
    if let Some(text) = options.get("pass-pipeline") {
        if !text.starts_with("builtin.module(") {
            return Err(failure(format!(
                "expected pass pipeline to be wrapped with the anchor operation type, e.g. 'builtin.module(...)'\nfailed to parse pipeline: {text}"
            )));
        }
        return pipeline(text);
    }
    let mut passes = Vec::new();
    for argument in &run.arguments {
        let bare = argument.trim_start_matches('-');
        let (name, value) = bare.split_once('=').unwrap_or((bare, ""));
        if PASSES.contains(&name) && argument.starts_with('-') {
            passes.push(Pass {
                name: name.to_owned(),
                options: value.to_owned(),
            });
        }
    }
    Ok(passes)
}

/// Runs air-opt.
///
/// # Errors
/// Exit code 1 and MLIR's words.
pub fn run(run: &Run) -> Result {
    if run
        .arguments
        .iter()
        .any(|a| a.trim_start_matches('-') == "help")
    {
        crate::tools::print(&options::help(
            run,
            "MLIR-AIR modular optimizer driver",
            "<input file>",
            &OPTIONS,
        ));
        return Ok(());
    }
    let options = options::parse(run, &OPTIONS, Unknown::Refused)?;
    if options.flag("version") {
        crate::tools::print(options::llvm_version());
        return Ok(());
    }
    let passes = passes(run, &options)?;
    run.begin()?;
    let input = options.positional.first().map_or("-", String::as_str);
    if options.positional.len() > 1 {
        let name = run.name();
        return Err(failure(format!(
            "{name}: Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: {} --help",
            run.program
        )));
    }
    let text = read_input(input).map_err(|error| {
        failure(format!(
            "cannot open input file '{input}': {}",
            message(&error)
        ))
    })?;
    let refused = |what| failure(crate::tools::diagnostic(input, &text, &what));
    if let Some(wanted) = crate::tools::wanted_diagnostic(run) {
        return Err(refused(wanted));
    }
    let module = Module::parse(&text).map_err(refused)?;
    if run.fails("pass") {
        let name = passes.last().map_or("", |pass| pass.name.as_str());
        return Err(failure(format!(
            "{input}:1:1: error: 'func.func' op pass {name} failed"
        )));
    }
    let mut kernel = Kernel::of(&module);
    for pass in &passes {
        kernel.apply(pass, input)?;
    }
    let output = kernel.print();
    match options.get("o") {
        None | Some("-") => crate::tools::print(&output),
        Some(path) => run.deliver("air", Path::new(path), output.as_bytes()),
    }
    Ok(())
}
