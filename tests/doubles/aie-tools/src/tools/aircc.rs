//! aircc: an AIR design to an AIE design with one core, in the files that the real one leaves, and
//! then aiecc, found on PATH, for the rest.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::design::Part;
use crate::md5::md5;
use crate::meaning::{Root, Signature, Walk, program};
use crate::mlir::{Kind, Module, Type};
use crate::options::{self, Options, Spec, Takes, Unknown, alias, option};
use crate::program::{Element, Operand, Operation, Program, Step};
use crate::run::{Exit, Result, Run, failure, message, read_input};
use crate::tools::air_opt::{arguments, entry};

const FORMATS: &[&str] = &["xclbin", "txn", "elf", "pdi", "none"];

const OPTIONS: [Spec; 37] = [
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
        "output-format",
        Takes::OneOf(FORMATS),
        "Output format for the generated binary",
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
        "pdi-name",
        Takes::Text,
        "Output filename for PDI binary (--output-format=pdi)",
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
];

struct Design {
    part: Part,
    name: String,
    arguments: Vec<(String, Type)>,
    /// Scalar arguments that the kernel uses.
    scalars: Vec<String>,
    variables: Vec<String>,
    links: Vec<String>,
    program: Program,
    digest: [u8; 16],
}

/// Runs aircc.
///
/// # Errors
/// Exit code 1 and the real one's words.
pub fn run(run: &Run) -> Result {
    let asks = |word: &str| {
        run.arguments
            .iter()
            .any(|a| a.trim_start_matches('-') == word)
    };
    if asks("help") {
        super::print(&options::help(
            run,
            "AIR Compiler Driver\n  Compiles AIR MLIR programs for AIE/NPU devices.",
            "<input AIR MLIR file>",
            &OPTIONS,
        ));
        return Ok(());
    }
    if asks("version") {
        super::print(options::llvm_version());
        return Ok(());
    }
    let options = options::parse(run, &OPTIONS, Unknown::Refused)?;
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
        let text = super::diagnostic(input, &text, &what);
        failure(format!("{text}\nError parsing MLIR file: {input}"))
    };
    if let Some(wanted) = super::wanted_diagnostic(run) {
        return Err(refused(wanted));
    }
    let module = Module::parse(&text).map_err(refused)?;
    let part = Part::named(device).ok_or_else(|| pass_failed(device))?;
    if run.fails("pass") {
        return Err(pass_failed(device));
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
        super::print(&format!(
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

impl Design {
    /// The design of a module's kernel; a module without a herd has none.
    fn of(module: &Module<'_>, options: &Options, part: Part) -> Option<Self> {
        let (function, body) = entry(module)?;
        let all = module.all_operations();
        let herd = all
            .iter()
            .find(|op| op.name == "air.herd" && body.contains(&op.at))?;
        let arguments: Vec<(String, Type)> = arguments(module, &function)
            .into_iter()
            .map(|(name, of)| (name.to_owned(), of))
            .collect();
        let mut walk = Walk::new(module);
        let list = crate::tools::air_opt::arguments(module, &function);
        for (index, (name, of)) in list.iter().enumerate() {
            walk.argument(name, index, of);
        }
        let _ = walk.range(body);
        let variables: Vec<String> = all
            .iter()
            .filter(|op| op.name == "aiex.scratchpad_parameter")
            .filter_map(|op| op.symbol().map(str::to_owned))
            .collect();
        let signature = Signature {
            arguments: arguments.iter().map(|(_, of)| of.clone()).collect(),
            variables: variables.clone(),
        };
        let results: Vec<_> = walk
            .written
            .iter()
            .filter_map(|root| match root {
                Root::Argument(index) => Some((*index, walk.content(root))),
                _ => None,
            })
            .collect();
        let elements = results.first().and_then(|(index, _)| {
            let of = signature.arguments.get(*index)?;
            let tile = walk.tiles.get(index).and_then(|view| {
                view.shape
                    .iter()
                    .try_fold(1u64, |product, d| product.checked_mul((*d)?))
            });
            let grid: u64 = walk.grid.iter().product();
            of.elements().or(tile.map(|tile| tile * grid.max(1)))
        });
        let program = program(&signature, &results, elements);
        let inside = herd.regions().into_iter().next()?;
        let scalars = arguments
            .iter()
            .filter(|(name, of)| !of.is_memref() && uses(module, inside.clone(), name))
            .filter(|(name, _)| !defined_in_launch(module, name))
            .map(|(name, _)| name.clone())
            .collect();
        let keys = ["link_with", "link_files"];
        let links = all
            .iter()
            .flat_map(|op| keys.iter().flat_map(|key| op.strings(key)));
        let identity = format!(
            "{} {:?} {:?} {:?} {:?}",
            module.identity(0..module.tokens().len()),
            options.get("stack-size").unwrap_or("1024"),
            options.all("air-runtime-loop-tiling-sizes"),
            ["row-offset", "col-offset", "num-rows", "num-cols"].map(|o| options.get(o)),
            [
                "trace-size",
                "omit-ping-pong-transform",
                "lower-linalg-to-func"
            ]
            .map(|o| options.get(o)),
        );
        let mut links: Vec<String> = links.map(str::to_owned).collect();
        links.sort();
        links.dedup();
        Some(Self {
            part,
            name: function.symbol()?.to_owned(),
            arguments,
            scalars,
            variables,
            links,
            program,
            digest: md5(identity.as_bytes()),
        })
    }

    /// The AIE design, with a sequence that loads its PDI if `loads`.
    fn aie(&self, loads: bool) -> Result<String> {
        let mut text = String::from("module {\n");
        let written = self.write(&mut text, loads);
        written.map_err(|_| failure("Error writing module"))?;
        Ok(text)
    }

    /// The type of an argument as the core sees it: all of it at once.
    fn object(&self, index: usize) -> String {
        let of = self.arguments.get(index).map(|(_, of)| of.clone());
        let of = of.unwrap_or_else(|| Type::parse("memref<1xi32>"));
        if let Some([m, n, k]) = self.product() {
            let [a, b, c] = self.product_arguments();
            let shape = match Some(index) {
                index if index == a => Some((m, k)),
                index if index == b => Some((k, n)),
                index if index == c => Some((m, n)),
                _ => None,
            };
            if let Some((rows, columns)) = shape {
                return format!("memref<{rows}x{columns}x{}>", of.element);
            }
        }
        let elements = of
            .elements()
            .or(self.program.elements.map(u64::from))
            .unwrap_or(1024);
        format!("memref<{elements}x{}>", of.element)
    }

    fn product_step(&self) -> Option<&Step> {
        let steps = self.program.steps.as_ref()?;
        steps
            .iter()
            .find(|step| step.operation == Operation::MatMul)
    }

    fn product(&self) -> Option<[u32; 3]> {
        self.product_step().map(|step| step.dimensions)
    }

    fn product_arguments(&self) -> [Option<usize>; 3] {
        let Some(step) = self.product_step() else {
            return [None; 3];
        };
        let index = |operand: Operand| match operand {
            Operand::Argument(index) => Some(index as usize),
            _ => None,
        };
        let [a, b, _] = step.operands;
        [index(a), index(b), index(step.result)]
    }

    /// The arguments that the program reads, and those that it gives.
    fn flows(&self) -> (Vec<usize>, Vec<usize>) {
        let buffers = || {
            self.arguments
                .iter()
                .enumerate()
                .filter(|(_, (_, of))| of.is_memref())
                .map(|(i, _)| i)
        };
        let Some(steps) = &self.program.steps else {
            // Nobody knows: everything goes in, the last comes out.
            return (buffers().collect(), buffers().last().into_iter().collect());
        };
        let (mut reads, mut gives) = (Vec::new(), Vec::new());
        for step in steps {
            for operand in step.operands {
                if let Operand::Argument(index) = operand {
                    reads.push(index as usize);
                }
            }
            if let Operand::Argument(index) = step.result {
                gives.push(index as usize);
            }
        }
        for list in [&mut reads, &mut gives] {
            list.sort_unstable();
            list.dedup();
        }
        (reads, gives)
    }

    fn write(&self, text: &mut String, loads: bool) -> std::fmt::Result {
        let (reads, gives) = self.flows();
        for variable in &self.variables {
            writeln!(text, "  aiex.scratchpad_parameter @{variable} : i32")?;
        }
        writeln!(text, "  aie.device({}) @main {{", self.part.name)?;
        let columns = self.part.columns as usize;
        for column in 0..columns {
            writeln!(text, "    %shim_{column} = aie.tile({column}, 0)")?;
        }
        writeln!(text, "    %core_tile = aie.tile(0, 2)")?;
        for (number, index) in reads.iter().enumerate() {
            // A shim has two channels each way.
            let shim = (number / 2) % columns;
            let object = self.object(*index);
            writeln!(
                text,
                "    aie.objectfifo @air_in_{index}(%shim_{shim}, {{%core_tile}}, 2 : i32) : !aie.objectfifo<{object}>"
            )?;
        }
        for (number, index) in gives.iter().enumerate() {
            let shim = (number / 2) % columns;
            let object = self.object(*index);
            writeln!(
                text,
                "    aie.objectfifo @air_out_{index}(%core_tile, {{%shim_{shim}}}, 2 : i32) : !aie.objectfifo<{object}>"
            )?;
        }
        self.core(text, &reads, &gives)?;
        self.sequence(text, &reads, &gives, loads)?;
        text.push_str("  }\n}\n");
        Ok(())
    }

    fn core(&self, text: &mut String, reads: &[usize], gives: &[usize]) -> std::fmt::Result {
        writeln!(text, "    %core = aie.core(%core_tile) {{")?;
        let [high, low] = [0, 8].map(|at| {
            let eight = self.digest.get(at..at + 8).and_then(|e| e.try_into().ok());
            u64::from_le_bytes(eight.unwrap_or_default()) >> 1
        });
        writeln!(text, "      %identity_0 = arith.constant {high} : i64")?;
        writeln!(text, "      %identity_1 = arith.constant {low} : i64")?;
        let sides = [("in", "Consume", reads), ("out", "Produce", gives)];
        for (side, port, indices) in sides {
            for index in indices {
                let object = self.object(*index);
                writeln!(
                    text,
                    "      %{side}_view_{index} = aie.objectfifo.acquire @air_{side}_{index}({port}, 1) : !aie.objectfifosubview<{object}>"
                )?;
                writeln!(
                    text,
                    "      %{side}_{index} = aie.objectfifo.subview.access %{side}_view_{index}[0] : !aie.objectfifosubview<{object}> -> {object}"
                )?;
            }
        }
        for (number, variable) in self.variables.iter().enumerate() {
            writeln!(
                text,
                "      %variable_{number} = aiex.read_scratchpad_parameter @{variable} : i32"
            )?;
        }
        if let Some(step) = self.product_step() {
            self.matmul(text, step)?;
        } else if let Some(steps) = &self.program.steps {
            for (at, step) in steps.iter().enumerate() {
                if let Operand::Argument(index) = step.result {
                    self.elementwise(text, steps.get(..=at).unwrap_or_default(), index as usize)?;
                }
            }
        }
        for (side, port, indices) in sides {
            for index in indices {
                writeln!(
                    text,
                    "      aie.objectfifo.release @air_{side}_{index}({port}, 1)"
                )?;
            }
        }
        writeln!(text, "      aie.end")?;
        let links: Vec<_> = self
            .links
            .iter()
            .map(|link| format!("\"{link}\""))
            .collect();
        let links = match links.as_slice() {
            [] => String::new(),
            [one] => format!(" {{link_with = {one}}}"),
            many => format!(" {{link_files = [{}]}}", many.join(", ")),
        };
        writeln!(text, "    }}{links}")
    }

    fn matmul(&self, text: &mut String, step: &Step) -> std::fmt::Result {
        let [Some(a), Some(b), Some(c)] = self.product_arguments() else {
            return Ok(());
        };
        let [type_a, type_b, type_c] = [a, b, c].map(|index| self.object(index));
        let element = step.element.mlir();
        if step
            .operands
            .get(2)
            .is_some_and(|c| matches!(c, Operand::Constant(_)))
        {
            let zero = if step.element.is_float() { "0.0" } else { "0" };
            writeln!(text, "      %zero = arith.constant {zero} : {element}")?;
            writeln!(
                text,
                "      linalg.fill ins(%zero : {element}) outs(%out_{c} : {type_c})"
            )?;
        } else {
            writeln!(
                text,
                "      memref.copy %in_{c}, %out_{c} : {type_c} to {type_c}"
            )?;
        }
        writeln!(
            text,
            "      linalg.matmul ins(%in_{a}, %in_{b} : {type_a}, {type_b}) outs(%out_{c} : {type_c})"
        )
    }

    /// One linalg.generic that computes the steps, of which the last gives argument `result`.
    fn elementwise(&self, text: &mut String, steps: &[Step], result: usize) -> std::fmt::Result {
        let mut reads: Vec<u32> = Vec::new();
        for operand in steps.iter().flat_map(|step| step.operands) {
            if let Operand::Argument(index) = operand
                && !reads.contains(&index)
            {
                reads.push(index);
            }
        }
        let element_of = |index: u32| {
            self.program
                .arguments
                .get(index as usize)
                .copied()
                .flatten()
        };
        let join = |parts: Vec<String>| parts.join(", ");
        let maps = vec!["affine_map<(d0) -> (d0)>".to_owned(); reads.len() + 1];
        let of = |index: u32| element_of(index).map_or("i32", Element::mlir);
        let ins = match reads.as_slice() {
            [] => String::new(),
            _ => format!(
                " ins({} : {})",
                join(reads.iter().map(|i| format!("%in_{i}")).collect()),
                join(reads.iter().map(|i| self.object(*i as usize)).collect())
            ),
        };
        let target = self.object(result);
        writeln!(
            text,
            "      linalg.generic {{indexing_maps = [{}], iterator_types = [\"parallel\"]}}{ins} outs(%out_{result} : {target}) {{",
            join(maps)
        )?;
        let mut block: Vec<_> = reads
            .iter()
            .map(|i| format!("%e{result}_{i}: {}", of(*i)))
            .collect();
        block.push(format!("%o{result}: {}", of(result as u32)));
        writeln!(text, "      ^bb0({}):", join(block))?;
        let mut names = 0;
        let mut yielded = String::new();
        for step in steps {
            let mut operands = Vec::new();
            for operand in step.operands {
                let (name, from) = match operand {
                    Operand::None => continue,
                    Operand::Argument(i) => (format!("%e{result}_{i}"), element_of(i)),
                    Operand::Temporary(i) => (format!("%t{result}_{i}"), temporary(steps, i)),
                    Operand::Constant(bits) => {
                        names += 1;
                        let name = format!("%c{result}_{names}");
                        let value = constant(bits, step.element);
                        writeln!(
                            text,
                            "        {name} = arith.constant {value} : {}",
                            step.element.mlir()
                        )?;
                        (name, None)
                    }
                    Operand::Variable(word) => (format!("%variable_{word}"), None),
                };
                operands.push(converted(text, &name, from, step.element, &mut names)?);
            }
            let given = match step.result {
                Operand::Temporary(i) => format!("%t{result}_{i}"),
                _ => format!("%r{result}"),
            };
            let own = step.element.mlir();
            match (operation(step.operation, step.element), operands.as_slice()) {
                (Some(name), _) => {
                    writeln!(
                        text,
                        "        {given} = {name} {} : {own}",
                        operands.join(", ")
                    )?;
                    yielded = given;
                }
                (None, [one]) => {
                    // A copy: what it copies goes on under its own name.
                    yielded.clone_from(one);
                    if matches!(step.result, Operand::Temporary(_)) {
                        writeln!(
                            text,
                            "        {given} = vector.broadcast {one} : {own} to {own}"
                        )?;
                    }
                }
                _ => {}
            }
            if step.result == Operand::Argument(result as u32) {
                let target = element_of(result as u32);
                if let Some(target) = target {
                    yielded = converted(text, &yielded, Some(step.element), target, &mut names)?;
                }
                break;
            }
        }
        writeln!(
            text,
            "        linalg.yield {yielded} : {}\n      }}",
            of(result as u32)
        )
    }

    fn sequence(
        &self,
        text: &mut String,
        reads: &[usize],
        gives: &[usize],
        loads: bool,
    ) -> std::fmt::Result {
        let list: Vec<_> = self
            .arguments
            .iter()
            .map(|(name, of)| format!("{name}: {}", of.text))
            .collect();
        writeln!(
            text,
            "    aie.runtime_sequence @{}({}) {{",
            self.name,
            list.join(", ")
        )?;
        if loads {
            writeln!(text, "      aiex.npu.load_pdi {{device_ref = @main}}")?;
        }
        if !self.variables.is_empty() {
            writeln!(text, "      aiex.sync_scratchpad_parameters_from_host")?;
        }
        for (number, scalar) in self.scalars.iter().enumerate() {
            writeln!(
                text,
                "      aiex.npu.rtp_write(@__air_herd_rtp_0_2, {number}, {scalar}) : i32"
            )?;
        }
        for (side, indices, token) in [("in", reads, ""), ("out", gives, " {issue_token = true}")] {
            for index in indices {
                let Some((name, of)) = self.arguments.get(*index) else {
                    continue;
                };
                let elements = Type::parse(&self.object(*index)).elements().unwrap_or(0);
                writeln!(
                    text,
                    "      %{side}_task_{index} = aiex.dma_configure_task_for @air_{side}_{index} {{"
                )?;
                writeln!(
                    text,
                    "        aie.dma_bd({name} : {}, 0, {elements})",
                    of.text
                )?;
                writeln!(text, "        aie.end\n      }}{token}")?;
            }
        }
        for (side, indices) in [("in", reads), ("out", gives)] {
            for index in indices {
                writeln!(text, "      aiex.dma_start_task(%{side}_task_{index})")?;
            }
        }
        for index in gives {
            writeln!(text, "      aiex.dma_await_task(%out_task_{index})")?;
        }
        text.push_str("    }\n");
        Ok(())
    }
}

/// The type of a temporary: that of the step that gives it.
fn temporary(steps: &[Step], index: u32) -> Option<Element> {
    steps
        .iter()
        .find(|step| step.result == Operand::Temporary(index))
        .map(|step| step.element)
}

fn operation(operation: Operation, element: Element) -> Option<&'static str> {
    let float = element.is_float();
    Some(match (operation, float) {
        (Operation::Add, true) => "arith.addf",
        (Operation::Add, false) => "arith.addi",
        (Operation::Sub, true) => "arith.subf",
        (Operation::Sub, false) => "arith.subi",
        (Operation::Mul, true) => "arith.mulf",
        (Operation::Mul, false) => "arith.muli",
        (Operation::Fma, _) => "math.fma",
        (Operation::Max, true) => "arith.maximumf",
        (Operation::Max, false) => "arith.maxsi",
        (Operation::Min, true) => "arith.minimumf",
        (Operation::Min, false) => "arith.minsi",
        (Operation::Copy | Operation::MatMul, _) => return None,
    })
}

/// A constant as MLIR reads it back to the same bits.
fn constant(bits: u32, element: Element) -> String {
    match element {
        Element::F32 => format!("0x{bits:08X}"),
        Element::Bf16 => format!("0x{:04X}", bits >> 16),
        _ => (bits as i32).to_string(),
    }
}

/// The value in another type, with the operation that converts it.
fn converted(
    text: &mut String,
    name: &str,
    from: Option<Element>,
    to: Element,
    names: &mut usize,
) -> std::result::Result<String, std::fmt::Error> {
    let Some(from) = from.filter(|from| *from != to) else {
        return Ok(name.to_owned());
    };
    let wider = to.bytes() > from.bytes();
    let operation = match (from.is_float(), to.is_float()) {
        (true, true) if wider => "arith.extf",
        (true, true) => "arith.truncf",
        (false, false) if wider => "arith.extsi",
        (false, false) => "arith.trunci",
        (false, true) => "arith.sitofp",
        (true, false) => "arith.fptosi",
    };
    *names += 1;
    let made = format!("%v{names}_{}", name.trim_start_matches('%'));
    writeln!(
        text,
        "        {made} = {operation} {name} : {} to {}",
        from.mlir(),
        to.mlir()
    )?;
    Ok(made)
}

fn uses(module: &Module<'_>, range: std::ops::Range<usize>, name: &str) -> bool {
    range
        .into_iter()
        .any(|i| module.kind(i) == Kind::Value && module.text(i) == name)
}

/// Whether a value is defined by an operation, as the launch's ids are.
fn defined_in_launch(module: &Module<'_>, name: &str) -> bool {
    module
        .all_operations()
        .iter()
        .any(|op| op.results.contains(&name))
}
