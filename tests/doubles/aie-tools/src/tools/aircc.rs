//! aircc: an AIR design to an AIE design with one core, in the files that the real one leaves, and
//! then aiecc, found on PATH, for the rest. What the core computes stands in an attribute of it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::design::Part;
use crate::kernel::Flow;
use crate::md5;
use crate::mlir::{Diagnostic, Module, Operation, Type};
use crate::options::{self, Options, Table};
use crate::program::{Operand, Program};
use crate::run::{Exit, Result, Run, failure, message};
use crate::tools::{air_opt, diagnostic, print, wanted_diagnostic};

/// The options of May 2026 as it lists them, which make no PDI, or those of August.
fn table(run: &Run) -> Table {
    let may = Table::new(include_str!("../../../../data/aie/help/aircc.txt"));
    let pdi = "    =pdi                                 -   Generate PDI\n  --pdi-name=<string>                    - Output filename for PDI binary (--output-format=pdi)\n";
    match run.identity.dialect {
        1 => may,
        _ => may.changed(&[], "    =none  ", pdi),
    }
}

/// Runs aircc.
pub fn run(run: &Run) -> Result {
    let table = table(run);
    if run.asks("help") {
        print(table.help());
        return Ok(());
    }
    if run.asks("version") {
        print(options::llvm_version());
        return Ok(());
    }
    let options = options::parse(run, &table, false)?;
    let input = match options.positional.as_slice() {
        [input] => input,
        [] => {
            return Err(failure(format!(
                "{}: Not enough positional command line arguments specified!\nMust specify at least 1 positional argument: See: {} --help",
                run.name(),
                run.program
            )));
        }
        _ => {
            return Err(failure(format!(
                "{}: Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: {} --help",
                run.name(),
                run.program
            )));
        }
    };
    let tmpdir = options.get("tmpdir").unwrap_or("air_project");
    if let Err(error) = fs::create_dir(tmpdir)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        let why = message(&error);
        return Err(failure(format!("Error creating directory {tmpdir}: {why}")));
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
    let text = fs::read_to_string(input)
        .map_err(|error| failure(format!("Error reading file {input}: {}", message(&error))))?;
    let refused = |what| {
        let text = diagnostic(input, &text, &what);
        failure(format!("{text}\nError parsing MLIR file: {input}"))
    };
    if let Some(wanted) = wanted_diagnostic(run) {
        return Err(refused(wanted));
    }
    let module = Module::parse(&text).map_err(refused)?;
    let part = Part::named(device).filter(|_| !run.fails("pass"));
    let part = part.ok_or_else(|| pass_failed(device))?;
    if let Some(what) = outside_l1(&module) {
        let mut exit = pass_failed(device);
        // The real one has read the file by itself, and gives it no name.
        exit.text = format!(
            "loc(\"-\":{}:{}): error: {}\n{}",
            what.line, what.column, what.message, exit.text
        );
        return Err(exit);
    }
    let design = Design::of(&module, options, part).ok_or_else(|| pass_failed(device))?;
    let stem = match input {
        "-" => "stdin.mlir",
        path => path.rsplit('/').next().unwrap_or(path),
    };
    let place = |prefix: &str| Path::new(tmpdir).join(format!("{prefix}.{stem}"));
    let placed = module.print(module.all()) + "\n";
    run.write(&place("placed"), placed.as_bytes());
    run.write(&place("aie"), design.text(false).as_bytes());
    let npu = place("npu");
    run.write(&npu, design.text(format == "elf").as_bytes());
    let command = command(run, options, format, tmpdir, &npu);
    let status = crate::run::execute(&aiecc, &command);
    if run.fails("tool:aiecc") || !status.is_ok_and(|status| status.success()) {
        let what = format!("Error running command: {}", aiecc.display());
        return Err(failure(what));
    }
    Ok(())
}

fn pass_failed(device: &str) -> Exit {
    failure(format!(
        "Error: pass pipeline failed: builtin.module(air-annotate-refeed,air-rank-to-launch,air-insert-launch-around-herd{{insert-segment=true}},func.func(air-lower-herd-parallel),air-to-aie{{row-offset=2 col-offset=0 device={device} emit-while-loop=true}})"
    ))
}

/// The command line for aiecc.
fn command(run: &Run, options: &Options, format: &str, tmpdir: &str, npu: &Path) -> Vec<String> {
    let first = run.identity.dialect == 1;
    let output = options.get("o").unwrap_or("aie.xclbin");
    let insts = match (options.get("i"), output.strip_suffix(".xclbin")) {
        (Some(insts), _) => insts.to_owned(),
        (None, Some(stem)) => format!("{stem}.insts.bin"),
        (None, None) => output.to_owned(),
    };
    let mut command: Vec<String> = Vec::new();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    if first {
        command.extend(words("--no-xchesscc --no-xbridge --no-compile-host"));
    }
    command.push(format!("--tmpdir={tmpdir}"));
    let get = |new: &str, old: &str| match first {
        true => format!("--{old}"),
        false => format!("--get-{new}"),
    };
    match format {
        "elf" => {
            command.push(get("full-elf", "generate-full-elf"));
            command.push("--expand-load-pdis".to_owned());
            let name = options.get("elf-name").unwrap_or("aie.elf");
            command.push(format!("--full-elf-name={name}"));
        }
        "xclbin" => {
            command.push(get("xclbin", "aie-generate-xclbin"));
            command.push(format!("--xclbin-name={output}"));
        }
        "pdi" => {
            command.push(get("pdi", "aie-generate-pdi"));
            let name = options.get("pdi-name").unwrap_or("aie.pdi");
            command.push(format!("--pdi-name={name}"));
        }
        _ => {}
    }
    if !matches!(format, "elf" | "none") {
        command.push(get("npu-insts", "aie-generate-npu-insts"));
        command.push(format!("--npu-insts-name={insts}"));
    }
    if format == "xclbin" {
        for name in words("xclbin-kernel-name xclbin-instance-name xclbin-kernel-id") {
            let value = options.get(&name);
            command.extend(value.map(|value| format!("--{name}={value}")));
        }
    }
    // An explicit `--peano=` hides the variable.
    let peano = match options.is_given("peano") {
        true => options.get("peano").map(str::to_owned),
        false => std::env::var("PEANO_INSTALL_DIR").ok(),
    };
    command.extend(peano.map(|peano| format!("--peano={peano}")));
    command.extend(words("-O 3 -j 0"));
    if options.flag("bf16-emulation") {
        command.push("--bf16-emulation".to_owned());
    }
    command.push(npu.display().to_string());
    command
}

/// The first access in a herd to memory that a core can't reach. Copies have become DMAs before.
fn outside_l1(module: &Module<'_>) -> Option<Diagnostic> {
    let all = module.nested(module.all());
    let herds = all.iter().filter(|op| op.name == "air.herd");
    let inside = herds
        .flat_map(Operation::regions)
        .flat_map(|region| module.nested(region));
    inside.into_iter().find_map(|op| {
        let (dialect, access) = op.name.split_once('.')?;
        let is_access = match dialect {
            "linalg" => !matches!(access, "yield" | "index"),
            "affine" | "memref" => matches!(access, "load" | "store"),
            "vector" => matches!(access, "load" | "store" | "transfer_read" | "transfer_write"),
            _ => false,
        };
        let types = op.types().into_iter().filter(|of| is_access && of.is_memref());
        let spaces = types.map(|of| {
            let last = of.text.trim_end_matches('>').rsplit(',').next().unwrap_or("").to_owned();
            match last.split(':').next() {
                Some("2") => None,
                Some("1") => Some("L2"),
                _ => Some("L3"),
            }
        });
        let level = spaces.flatten().next()?;
        // Named operations have become loops by then.
        let name = if dialect == "linalg" { "memref.load" } else { op.name };
        let message = format!(
            "'{name}' op inside 'air.herd' accesses memref with memory_space {level}; AIE core tiles can only access L1 or more local memory directly. Use air.dma_memcpy_nd to stage data first."
        );
        Some(module.at(op.at, message))
    })
}

/// The AIE design that an AIR module becomes.
struct Design {
    part: Part,
    name: String,
    arguments: Vec<(String, Type)>,
    variables: Vec<String>,
    links: Vec<String>,
    program: Program,
    identity: [u8; 16],
    /// Whether there is anything for a core.
    has_herd: bool,
}

impl Design {
    fn of(module: &Module<'_>, options: &Options, part: Part) -> Option<Self> {
        let (function, body) = air_opt::entry(module)?;
        let all = module.nested(module.all());
        let has_herd = module
            .nested(body.clone())
            .iter()
            .any(|op| op.name == "air.herd");
        let arguments = module.typed(function.parentheses());
        let variables = all
            .iter()
            .filter(|op| op.name == "aiex.scratchpad_parameter");
        let variables: Vec<String> = variables
            .filter_map(|op| op.symbol().map(str::to_owned))
            .collect();
        let types: Vec<Type> = arguments.iter().map(|(_, of)| of.clone()).collect();
        let mut flow = Flow::new(module, &types, &variables);
        for (index, (name, _)) in arguments.iter().enumerate() {
            flow.name(name, index);
        }
        flow.read(module.nested(body));
        let outputs = flow.outputs();
        // A function that nothing calls is dropped with its objects.
        let is_called = |op: &&Operation<'_, '_>| {
            let mentions = module
                .symbols(module.all())
                .filter(|it| Some(*it) == op.symbol());
            op.name != "func.func" || mentions.count() > 1
        };
        let called = all.iter().filter(is_called);
        let mut links: Vec<String> = called
            .flat_map(|op| [op.strings("link_with"), op.strings("link_files")].concat())
            .collect();
        links.sort();
        links.dedup();
        let named = options.identity(&[
            "stack-size",
            "air-runtime-loop-tiling-sizes",
            "row-offset",
            "col-offset",
            "num-rows",
            "num-cols",
            "trace-size",
            "omit-ping-pong-transform",
            "lower-linalg-to-func",
        ]);
        let identity = module.identity(module.all()) + &named;
        Some(Self {
            part,
            name: function.symbol()?.to_owned(),
            program: flow.program(&outputs),
            arguments,
            variables,
            links,
            identity: md5(identity.as_bytes()),
            has_herd,
        })
    }

    /// The module: a device with a sequence, and for a full ELF another one without tiles, whose
    /// sequence configures the first and runs its sequence.
    fn text(&self, is_configured: bool) -> String {
        let mut text = String::from("module {\n");
        // A string takes all that is written to it.
        let _ = self.write(&mut text, is_configured);
        text
    }

    fn write(&self, text: &mut String, is_configured: bool) -> std::fmt::Result {
        let (part, name) = (&self.part.name, &self.name);
        for variable in &self.variables {
            writeln!(text, "  aiex.scratchpad_parameter @{variable} : i32")?;
        }
        writeln!(text, "  aie.device({part}) @{name}_0 {{")?;
        if !self.has_herd {
            return text.write_str("  }\n}\n");
        }
        let columns = self.part.columns as usize;
        for column in 0..columns {
            writeln!(text, "    %shim_{column} = aie.tile({column}, 0)")?;
        }
        writeln!(text, "    %core_tile = aie.tile(0, 2)")?;
        for (index, (_, of)) in self.buffers() {
            // A shim has two channels each way.
            let shim = format!("%shim_{}", (index / 2) % columns);
            let ends = match self.is_given(index) {
                true => format!("%core_tile, {{{shim}}}"),
                false => format!("{shim}, {{%core_tile}}"),
            };
            writeln!(
                text,
                "    aie.objectfifo @air_{index}({ends}, 2 : i32) : !aie.objectfifo<memref<{}x{}>>",
                self.elements(index),
                of.element()
            )?;
        }
        self.core(text)?;
        self.sequence(text, is_configured)?;
        writeln!(text, "  }}")?;
        if is_configured {
            let list = |part: fn(&(String, Type)) -> String| {
                let parts: Vec<_> = self.arguments.iter().map(part).collect();
                parts.join(", ")
            };
            writeln!(
                text,
                "  aie.device({part}) {{\n    aie.runtime_sequence @{name}({}) {{\n      aiex.configure @{name}_0 {{\n        aiex.run @{name}_0_sequence({}) : ({})\n      }}\n    }}\n  }}",
                list(|(name, of)| format!("{name}: {}", of.text)),
                list(|(name, _)| name.clone()),
                list(|(_, of)| of.text.clone()),
            )?;
        }
        text.write_str("}\n")
    }

    fn elements(&self, index: usize) -> u64 {
        let whole = self.arguments.get(index).and_then(|(_, of)| of.elements());
        let known = self.program.elements.map(u64::from);
        whole.or(known).unwrap_or(1024)
    }

    fn core(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "    %core = aie.core(%core_tile) {{")?;
        for (number, half) in self.identity.as_chunks::<8>().0.iter().enumerate() {
            let value = u64::from_le_bytes(*half) >> 1;
            writeln!(
                text,
                "      %identity_{number} = arith.constant {value} : i64"
            )?;
        }
        let words: Vec<_> = self
            .program
            .words()
            .iter()
            .map(|it| format!("{it:x}"))
            .collect();
        let links = self.links.join("\", \"");
        let links = match links.as_str() {
            "" => String::new(),
            links => format!("link_files = [\"{links}\"], "),
        };
        let program = words.join(" ");
        writeln!(
            text,
            "      aie.end\n    }} {{{links}program = \"{program}\"}}"
        )
    }

    fn sequence(&self, text: &mut String, is_configured: bool) -> std::fmt::Result {
        let list = self
            .arguments
            .iter()
            .map(|(name, of)| format!("{name}: {}", of.text));
        let list = list.collect::<Vec<_>>().join(", ");
        let suffix = if is_configured { "_0_sequence" } else { "" };
        writeln!(
            text,
            "    aie.runtime_sequence @{}{suffix}({list}) {{",
            self.name
        )?;
        if !self.variables.is_empty() {
            writeln!(text, "      aiex.sync_scratchpad_parameters_from_host")?;
        }
        for (index, (name, of)) in self.buffers() {
            writeln!(
                text,
                "      %task_{index} = aiex.dma_configure_task_for @air_{index} {{\n        aie.dma_bd({name} : {}, 0, {})\n        aie.end\n      }} {{issue_token = {}}}\n      aiex.dma_start_task(%task_{index})",
                of.text,
                self.elements(index),
                self.is_given(index)
            )?;
        }
        for (index, _) in self.buffers().filter(|(index, _)| self.is_given(*index)) {
            writeln!(text, "      aiex.dma_await_task(%task_{index})")?;
        }
        writeln!(text, "    }}")
    }

    fn buffers(&self) -> impl Iterator<Item = (usize, &(String, Type))> {
        let all = self.arguments.iter().enumerate();
        all.filter(|(_, (_, of))| of.is_memref())
    }

    /// Whether the program gives an argument; an opaque one gives the last.
    fn is_given(&self, index: usize) -> bool {
        match &self.program.steps {
            Some(steps) => steps
                .iter()
                .any(|it| it.result == Operand::Argument(index as u32)),
            None => self.buffers().last().is_some_and(|(last, _)| last == index),
        }
    }
}
