//! aircc: an AIR design to an AIE design with one core, in the files that the real one leaves, and
//! then aiecc, found on PATH, for the rest.

mod design;
mod memory;
mod text;

use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::design::Part;
use crate::mlir::Module;
use crate::options::{self, Options, Spec, Takes, Unknown, alias, option};
use crate::run::{Exit, Result, Run, failure, message, read_input};
use design::Design;

/// The options: the first only of the first dialect, then those of both, then those of later ones.
const OPTIONS: [Spec; 38] = [
    option(
        "output-format",
        Takes::OneOf(&["xclbin", "txn", "elf", "none"]),
        "Output format for the generated binary",
    ),
    option("o", Takes::Text, "Output filename"),
    option("i", Takes::Text, "Output insts file name (NPU only)"),
    option("tmpdir", Takes::Text, "Directory for temporary files"),
    option("verbose", Takes::Flag, "Enable verbose output"),
    alias("v", Takes::Flag, "verbose"),
    option(
        "row-offset",
        Takes::Number,
        "Default row offset for generated segments",
    ),
    option(
        "col-offset",
        Takes::Number,
        "Default column offset for generated segments",
    ),
    option(
        "num-rows",
        Takes::Number,
        "Default number of rows for generated segments",
    ),
    option(
        "num-cols",
        Takes::Number,
        "Default number of columns for generated segments",
    ),
    option("trace-size", Takes::Number, "Create packet routed traces"),
    option(
        "trace-offset",
        Takes::Number,
        "Trace buffer offset appended to output",
    ),
    option("cc", Takes::Text, "Compiler to use for host code"),
    option("sysroot", Takes::Text, "Sysroot for cross-compilation"),
    option(
        "host-target",
        Takes::Text,
        "Target architecture of the host program",
    ),
    option(
        "shared",
        Takes::Flag,
        "Generate a shared library instead of static",
    ),
    option("xbridge", Takes::Flag, "Link using xbridge"),
    option("no-xbridge", Takes::Flag, "Link using peano"),
    option("xchesscc", Takes::Flag, "Compile using xchesscc"),
    option("no-xchesscc", Takes::Flag, "Compile using peano"),
    option(
        "peano",
        Takes::Text,
        "Root directory where peano compiler is installed",
    ),
    option("device", Takes::Text, "Target AIE device"),
    option("target", Takes::Text, "Target backend: 'aie' or 'gpu'"),
    option(
        "omit-while-true-loop",
        Takes::Flag,
        "Do not add while(true) loop around per-core logic",
    ),
    option(
        "omit-ping-pong-transform",
        Takes::Text,
        "Omit ping-pong buffering",
    ),
    option(
        "lower-linalg-to-func",
        Takes::Text,
        "Lower linalg.generic to function calls",
    ),
    option(
        "air-loop-fusion",
        Takes::Flag,
        "Add air-loop-fusion pass to the pipeline",
    ),
    option(
        "air-runtime-loop-tiling-sizes",
        Takes::Number,
        "Tiling factors for the shim DMA BD optimization pass",
    ),
    option(
        "omit-auto-broadcast",
        Takes::Flag,
        "Omit air-broadcast-detection",
    ),
    option(
        "xclbin-kernel-name",
        Takes::Text,
        "Kernel name in xclbin file",
    ),
    option(
        "xclbin-instance-name",
        Takes::Text,
        "Instance name in xclbin metadata",
    ),
    option("xclbin-kernel-id", Takes::Text, "Kernel id in xclbin file"),
    option(
        "xclbin-input",
        Takes::Text,
        "Generate kernel into existing xclbin file",
    ),
    option(
        "elf-name",
        Takes::Text,
        "Output filename for full ELF (--output-format=elf)",
    ),
    option(
        "bf16-emulation",
        Takes::Flag,
        "Emulate f32 vector arithmetic using bf16",
    ),
    option(
        "stack-size",
        Takes::Number,
        "Stack size in bytes per AIE core (default: 1024)",
    ),
    option(
        "output-format",
        Takes::OneOf(&["xclbin", "txn", "elf", "none", "pdi"]),
        "Output format for the generated binary",
    ),
    option(
        "pdi-name",
        Takes::Text,
        "Output filename for PDI binary (--output-format=pdi)",
    ),
];
/// Those of April and May 2026, which make no PDI.
const FIRST: &[Spec] = OPTIONS.split_at(36).0;
/// Those of August 2026.
const LATER: &[Spec] = OPTIONS.split_at(1).1;

/// Runs aircc.
///
/// # Errors
/// Exit code 1 and the real one's words.
pub fn run(run: &Run) -> Result {
    let specs = match run.identity.dialect {
        1 => FIRST,
        _ => LATER,
    };
    let asks = |word: &str| {
        run.arguments
            .iter()
            .any(|a| a.trim_start_matches('-') == word)
    };
    if asks("help") {
        crate::tools::print(&options::help(
            run,
            "AIR Compiler Driver\n  Compiles AIR MLIR programs for AIE/NPU devices.",
            "<input AIR MLIR file>",
            specs,
        ));
        return Ok(());
    }
    if asks("version") {
        crate::tools::print(options::llvm_version());
        return Ok(());
    }
    let options = options::parse(run, specs, Unknown::Refused)?;
    let name = run.name();
    let Some(input) = options.positional.first() else {
        return Err(failure(format!(
            "{name}: Not enough positional command line arguments specified!\nMust specify at least 1 positional argument: See: {} --help",
            run.program
        )));
    };
    if options.positional.len() > 1 {
        return Err(failure(format!(
            "{name}: Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: {} --help",
            run.program
        )));
    }
    let tmpdir = options.get("tmpdir").unwrap_or("air_project");
    if let Err(error) = fs::create_dir(tmpdir)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(failure(format!(
            "Error creating directory {tmpdir}: {}",
            message(&error)
        )));
    }
    run.begin()?;
    compile(run, &options, input, tmpdir)
}

fn compile(run: &Run, options: &Options, input: &str, tmpdir: &str) -> Result {
    let device = options.get("device").unwrap_or("xcvc1902");
    let format = options.get("output-format").unwrap_or("xclbin");
    if format == "elf" && device.contains("npu1") {
        return Err(failure(match run.identity.dialect {
            1 => "Error: output_format='elf' is not supported for npu1 target.".to_owned(),
            _ => format!(
                "Error: --output-format=elf is not supported for --device={device}. Use --output-format=xclbin (default) or --output-format=pdi for npu1."
            ),
        }));
    }
    let aiecc = run.on_path("aiecc").or_else(|| run.on_path("aiecc.py"));
    let aiecc = aiecc.ok_or_else(|| failure("Error: could not find aiecc in PATH"))?;
    let text = read_input(input)
        .map_err(|error| failure(format!("Error reading file {input}: {}", message(&error))))?;
    let refused = |what| {
        let text = crate::tools::diagnostic(input, &text, &what);
        failure(format!("{text}\nError parsing MLIR file: {input}"))
    };
    if let Some(wanted) = crate::tools::wanted_diagnostic(run) {
        return Err(refused(wanted));
    }
    let module = Module::parse(&text).map_err(refused)?;
    let part = Part::named(device).ok_or_else(|| pass_failed(device))?;
    if run.fails("pass") {
        return Err(pass_failed(device));
    }
    if let Some(what) = memory::outside_l1(&module) {
        let mut exit = pass_failed(device);
        let (line, column) = (what.line, what.column);
        // The real one has read the file by itself, and gives it no name.
        exit.text = format!(
            "loc(\"-\":{line}:{column}): error: {}\n{}",
            what.message, exit.text
        );
        return Err(exit);
    }
    let design = Design::of(&module, options, part).ok_or_else(|| pass_failed(device))?;
    let stem = match input {
        "-" => "stdin.mlir",
        path => path.rsplit('/').next().unwrap_or(path),
    };
    let placed = module.print(0..module.tokens().len()) + "\n";
    let tmpdir = Path::new(tmpdir);
    run.write(&tmpdir.join(format!("placed.{stem}")), placed.as_bytes());
    run.write(
        &tmpdir.join(format!("aie.{stem}")),
        design.aie(false)?.as_bytes(),
    );
    let npu = tmpdir.join(format!("npu.{stem}"));
    run.write(&npu, design.aie(format == "elf")?.as_bytes());
    let command = command(run, options, format, tmpdir, &npu);
    if options.flag("verbose") {
        crate::tools::print(&format!(
            "Using aiecc from: {}\nRunning aiecc with options: {} \n",
            aiecc.display(),
            command.join(" ")
        ));
        let _ = std::io::stdout().flush();
    }
    let status = crate::run::execute(&aiecc, &command);
    if run.fails("tool:aiecc") || !status.is_ok_and(|status| status.success()) {
        return Err(failure(format!(
            "Error running command: {}",
            aiecc.display()
        )));
    }
    Ok(())
}

fn pass_failed(device: &str) -> Exit {
    failure(format!(
        "Error: pass pipeline failed: builtin.module(air-annotate-refeed,air-rank-to-launch,air-insert-launch-around-herd{{insert-segment=true}},func.func(air-lower-herd-parallel),air-to-aie{{row-offset=2 col-offset=0 device={device} emit-while-loop=true}})"
    ))
}

/// The command line for aiecc.
fn command(run: &Run, options: &Options, format: &str, tmpdir: &Path, npu: &Path) -> Vec<String> {
    let first = run.identity.dialect == 1;
    let output = options
        .get("o")
        .filter(|o| !o.is_empty())
        .unwrap_or("aie.xclbin");
    let insts = options
        .get("i")
        .filter(|i| !i.is_empty())
        .map(str::to_owned);
    let insts = insts.unwrap_or_else(|| match output.strip_suffix(".xclbin") {
        Some(stem) => format!("{stem}.insts.bin"),
        None => output.to_owned(),
    });
    let mut command: Vec<String> = Vec::new();
    if options.flag("verbose") {
        command.push("--verbose".to_owned());
    }
    if first {
        command.extend(["--no-xchesscc", "--no-xbridge", "--no-compile-host"].map(str::to_owned));
    }
    command.push(format!("--tmpdir={}", tmpdir.display()));
    let get = |new: &str, old: &str| {
        if first {
            format!("--{old}")
        } else {
            format!("--get-{new}")
        }
    };
    match format {
        "elf" => {
            command.push(get("full-elf", "generate-full-elf"));
            command.push("--expand-load-pdis".to_owned());
            command.push(format!(
                "--full-elf-name={}",
                options.get("elf-name").unwrap_or("aie.elf")
            ));
        }
        "xclbin" => {
            command.push(get("xclbin", "aie-generate-xclbin"));
            command.push(format!("--xclbin-name={output}"));
        }
        "txn" => {
            command.push(get("txn", "aie-generate-txn"));
            command.push(format!(
                "--txn-name={}",
                options.get("o").unwrap_or("aie.txn.mlir")
            ));
        }
        "pdi" => {
            command.push(get("pdi", "aie-generate-pdi"));
            command.push(format!(
                "--pdi-name={}",
                options.get("pdi-name").unwrap_or("aie.pdi")
            ));
        }
        _ => {}
    }
    if !matches!(format, "elf" | "none") {
        command.push(get("npu-insts", "aie-generate-npu-insts"));
        command.push(format!("--npu-insts-name={insts}"));
    }
    if format == "xclbin" {
        for name in [
            "xclbin-kernel-name",
            "xclbin-instance-name",
            "xclbin-kernel-id",
            "xclbin-input",
        ] {
            if let Some(value) = options.get(name).filter(|v| !v.is_empty()) {
                command.push(format!("--{name}={value}"));
            }
        }
    }
    // An explicit `--peano=` hides the variable.
    let variable = std::env::var("PEANO_INSTALL_DIR").ok();
    let peano = options.get("peano").map(str::to_owned).or(variable);
    if let Some(peano) = peano.filter(|p| !p.is_empty()) {
        command.push(format!("--peano={peano}"));
    }
    command.extend(["-O", "3", "-j", "0"].map(str::to_owned));
    if options.flag("bf16-emulation") {
        command.push("--bf16-emulation".to_owned());
    }
    command.push(npu.display().to_string());
    command
}
