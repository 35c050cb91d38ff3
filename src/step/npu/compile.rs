//! The `compile` step of the npu targets: AIR by aircc, which runs aiecc, or AIE by aiecc alone.
//!
//! An AIE file may have several devices and sequences. Each pair is a kernel; all of them are
//! compiled at once, and the names under which aiecc leaves their files are foreseen here.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use npu_runtime::{Kind as ParameterKind, Signature};

use super::cores;
use super::options::{STACK_SIZE, TILING_SIZES};
use super::{INTERMEDIATES, OUT, Refusal, SOURCE, TargetOptions, arch, command, environment};
use crate::kernel::{Device, Kernel, Level, Module, Target};
use crate::step::check::{Check, ElfKernel};
use crate::step::{Argument, Command, Input, Kind, Name, Output, Step, Work};
use crate::toolchain::{AieTools, Aiecc, Dialect, Format, MissingTools, ToolName};
use npu_formats::Arch;

/// Raised when the same inputs would give other artifacts.
const VERSION: u32 = 1;

/// What is compiled, and how.
#[derive(Debug)]
pub struct Request<'a> {
    /// The kernel, for messages.
    pub subject: &'a str,
    /// The user's file, for messages.
    pub file: &'a Path,
    /// What is built for.
    pub target: Target,
    /// What was found in the file.
    pub module: &'a Module,
    /// Those of its kernels that are wanted.
    pub kernels: &'a [Kernel],
    /// What they are packaged as.
    pub format: Format,
    /// The target's options.
    pub options: &'a TargetOptions,
    /// Further arguments for aircc or aiecc.
    pub extra: &'a [String],
    /// The kernel at the AIR or AIE level, named [`SOURCE`].
    pub source: Input,
    /// What it is linked with, and what else the tools may read.
    pub files: &'a [Input],
    /// The programs.
    pub tools: &'a AieTools,
    /// Whether what lies between AIR and the artifact is kept.
    pub keep_intermediates: bool,
}

/// The step, and where each kernel's files are among its outputs.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The step.
    pub step: Step,
    /// One for each kernel, in order.
    pub files: Vec<Files>,
}

/// The outputs that make a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// `device:sequence`: the kernel's name in a full ELF and in an hsaco.
    pub name: String,
    /// The index of the xclbin, full ELF or PDI.
    pub configuration: usize,
    /// The index of the instruction stream, if it is a file of its own.
    pub insts: Option<usize>,
    /// Columns of the partition that it was compiled for.
    pub columns: u32,
    /// How many buffers it takes.
    pub buffers: u32,
}

/// Why there is no step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The toolchain could not compile it.
    #[error(transparent)]
    Refusal(#[from] Refusal),
    /// There is no toolchain for it.
    #[error(transparent)]
    Missing(#[from] MissingTools),
}

/// The step that compiles a kernel, or all kernels of an AIE file.
///
/// # Errors
/// What no tool need be asked for.
pub fn compile(request: &Request<'_>) -> Result<Compiled, Error> {
    check(request)?;
    let tools = request.tools;
    // What the step before runs is told with the rest, if it is missing.
    let has_code = cores::have_code(request.module);
    tools.require(&tools.needed(request.module.level, request.format, has_code))?;
    let plan = Naming::of(request)?.outputs()?;
    let driver = match request.module.level {
        Level::Aie => ToolName::Aiecc,
        Level::Linalg | Level::Air => ToolName::Aircc,
    };
    let companions = tools.companions(driver, request.format);
    let commands = match driver {
        ToolName::Aiecc => vec![aiecc(request, tools.aiecc.get()?, &plan)?],
        _ => vec![aircc(request)?],
    };
    let mut inputs = vec![request.source.clone()];
    inputs.extend_from_slice(request.files);
    let step = Step {
        kind: Kind::Compile,
        version: VERSION,
        subject: request.subject.to_owned(),
        source: Some(request.file.to_owned()),
        target: request.target.name(),
        inputs,
        environment: environment(&companions),
        companions,
        facts: Vec::new(),
        work: Work::Commands(commands),
        outputs: plan.outputs,
    };
    Ok(Compiled {
        step,
        files: plan.files,
    })
}

/// Refuses what the tools would refuse late or in words that nobody understands.
fn check(request: &Request<'_>) -> Result<(), Refusal> {
    if request.format == Format::Elf && request.target == Target::Npu1 {
        return Err(Refusal::ElfOnNpu1);
    }
    if let Some((aircc, lacks)) = request.tools.lacks(request.module.level, request.format) {
        let aircc = aircc.path.display().to_string();
        return Err(Refusal::NoFormat { aircc, lacks });
    }
    if request.module.level == Level::Air && !request.module.herd {
        return Err(Refusal::NoHerd);
    }
    if let Some((option, reason)) = request.options.meaningless(request.module.level) {
        return Err(Refusal::Meaningless { option, reason });
    }
    let has_grid = request.kernels.iter().any(|kernel| kernel.signature.grid);
    if request.options.actual_sizes.is_some() && !has_grid {
        return Err(Refusal::Meaningless {
            option: "actual-sizes",
            reason: "the kernel takes no grid, which it would say something about",
        });
    }
    if let Some(device) = &request.options.device
        && device.target != request.target
    {
        return Err(Refusal::OtherDevice {
            device: device.spelling.clone(),
            found: device.target,
            wanted: request.target,
        });
    }
    for kernel in request.kernels {
        if let Some(scalar) = &kernel.computes_with {
            return Err(Refusal::Scalar {
                kernel: kernel.signature.name.to_string(),
                scalar: scalar.clone(),
                line: kernel.line,
            });
        }
        if kernel.configures && request.format != Format::Elf {
            return Err(Refusal::Configures(kernel.signature.name.to_string()));
        }
        scalars_are_last(&kernel.signature)?;
    }
    if request.format == Format::Xclbin {
        request.options.xclbin_name().map_err(Refusal::XclbinName)?;
    }
    for argument in request.extra {
        if let Some(option) = ours(argument) {
            return Err(Refusal::Ours(option));
        }
        if leads_outside(argument) {
            return Err(Refusal::Outside(argument.clone()));
        }
    }
    if traces(request.extra) {
        return Err(Refusal::Trace);
    }
    cores::check(request)
}

/// TargetOptions that say where the tools and their files are: each would bring something into the build
/// that the key does not know, or take an output away.
const OURS: [&str; 15] = [
    "aietools",
    "ctrlpkt-name",
    "elf-name",
    "full-elf-name",
    "npu-insts-name",
    "output-dir",
    "pdi-name",
    "peano",
    "sysroot",
    "tmpdir",
    "txn-name",
    "xclbin-name",
    "xclbinutil-path",
    "i",
    "o",
];

/// An option's name, and what follows it in the same argument.
pub(super) fn option(argument: &str) -> Option<(&str, Option<&str>)> {
    let text = argument.strip_prefix('-')?;
    let text = text.strip_prefix('-').unwrap_or(text);
    let parts = text.split_once(['=', ' ']);
    Some(parts.map_or((text, None), |(name, value)| (name, Some(value))))
}

/// Whether aircc is asked for a trace: a size of 0 is none.
fn traces(extra: &[String]) -> bool {
    let mut next = extra.iter().skip(1);
    extra.iter().any(|argument| {
        let behind = next.next();
        let size = option(argument).filter(|(name, _)| *name == "trace-size");
        size.is_some_and(|(_, value)| value.or(behind.map(String::as_str)) != Some("0"))
    })
}

fn ours(argument: &str) -> Option<&'static str> {
    let (name, _) = option(argument)?;
    OURS.into_iter().find(|option| *option == name)
}

/// Whether an argument may name a file by a path that leads out of the work directory, which holds
/// what the key knows: an absolute one anywhere in it, behind a short option's letter as well, or one
/// that goes up. Arguments in a file, `@FILE`, could hold any of these.
fn leads_outside(argument: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || "._-+".contains(c);
    let starts_a_path = |at: usize| {
        let before = argument.get(..at).unwrap_or_default();
        let is_short_option = before.len() == 2 && before.starts_with('-');
        is_short_option || !before.ends_with(|c: char| in_name(c) || c == '/')
    };
    let goes_up = argument.match_indices("..").any(|(at, dots)| {
        let behind = argument.get(at + dots.len()..).unwrap_or_default();
        starts_a_path(at) && !behind.starts_with(in_name)
            || argument.get(..at).unwrap_or_default().ends_with('/')
    });
    let mut slashes = argument.match_indices(['/', '~']);
    argument.starts_with('@') || goes_up || slashes.any(|(at, _)| starts_a_path(at))
}

/// An instruction stream names a buffer by its place among all arguments, and only buffers are
/// passed.
fn scalars_are_last(signature: &Signature) -> Result<(), Refusal> {
    let parameters = signature.parameters.iter();
    let mut rest = parameters.skip_while(|it| matches!(it.kind, ParameterKind::Memory { .. }));
    let scalar = rest.next();
    let buffer = rest.find(|it| matches!(it.kind, ParameterKind::Memory { .. }));
    match scalar.zip(buffer) {
        Some((scalar, buffer)) => Err(Refusal::ScalarFirst {
            kernel: signature.name.to_string(),
            scalar: scalar.name.to_string(),
            buffer: buffer.name.to_string(),
        }),
        None => Ok(()),
    }
}

fn buffers(signature: &Signature) -> usize {
    let parameters = signature.parameters.iter();
    parameters
        .filter(|parameter| matches!(parameter.kind, ParameterKind::Memory { .. }))
        .count()
}

/// The device and sequence of a kernel. aircc calls the device `main` and the sequence as the
/// function.
fn symbols(kernel: &Kernel) -> (&str, &str) {
    (
        kernel.device_symbol.as_deref().unwrap_or("main"),
        &kernel.symbol,
    )
}

/// The part of the array that a kernel is compiled for.
fn device<'a>(request: &'a Request<'_>, kernel: &'a Kernel) -> Option<&'a Device> {
    kernel.device.as_ref().or(request.options.device.as_ref())
}

/// The names that aiecc is told and those that it then makes of them.
struct Naming<'r, 'a> {
    request: &'r Request<'a>,
    arch: Arch,
    /// Whether names are templates with the device and the sequence in them.
    is_template: bool,
}

/// The outputs in the order of the step, and what is whose.
struct Plan {
    outputs: Vec<Output>,
    files: Vec<Files>,
    configuration_name: String,
    insts_name: String,
}

impl<'r, 'a> Naming<'r, 'a> {
    fn of(request: &'r Request<'a>) -> Result<Self, Refusal> {
        let devices = request.module.devices.len();
        let is_template = request.module.level == Level::Aie
            && request.format != Format::Elf
            && (devices > 1 || request.kernels.len() > 1);
        if is_template {
            let symbols = request.kernels.iter().map(symbols);
            for symbol in symbols.flat_map(|(device, sequence)| [device, sequence]) {
                let plain = |c: char| c.is_ascii_alphanumeric() || "_.$-".contains(c);
                if !symbol.chars().all(plain) || symbol.starts_with(['.', '-']) {
                    return Err(Refusal::Symbol(symbol.to_owned()));
                }
            }
        }
        Ok(Self {
            arch: arch(request.target).unwrap_or(Arch::Aie2p),
            request,
            is_template,
        })
    }

    fn extension(&self) -> &'static str {
        self.request.format.name()
    }

    fn outputs(&self) -> Result<Plan, Refusal> {
        let mut plan = Plan {
            outputs: Vec::new(),
            files: Vec::new(),
            configuration_name: self.template("{0}", self.extension()),
            insts_name: self.template(self.insts_template(), "insts.bin"),
        };
        let mut known: HashMap<String, (usize, String)> = HashMap::new();
        let mut designs = 0;
        for (number, kernel) in self.request.kernels.iter().enumerate() {
            let (device, sequence) = symbols(kernel);
            let name = format!("{device}:{sequence}");
            let made = self.template(device, self.extension());
            let configuration = match known.get(&made) {
                Some((index, _)) => *index,
                None => {
                    let entry = self.entry_name(designs);
                    designs += 1;
                    known.insert(made.clone(), (plan.outputs.len(), name.clone()));
                    plan.outputs.push(Output {
                        name: entry,
                        made_as: Some(made.into()),
                        check: self.configuration(kernel),
                    });
                    plan.outputs.len() - 1
                }
            };
            let insts = match self.request.format {
                Format::Elf => None,
                Format::Xclbin | Format::Pdi => {
                    let made = self.template(&format!("{device}_{sequence}"), "insts.bin");
                    let index = plan.outputs.len();
                    if let Some((_, first)) = known.insert(made.clone(), (index, name.clone())) {
                        return Err(Refusal::SameName {
                            first,
                            second: name,
                        });
                    }
                    let entry = match self.is_template {
                        true => format!("kernel.{number}.insts.bin").into(),
                        false => "kernel.insts.bin".into(),
                    };
                    plan.outputs.push(Output {
                        name: entry,
                        made_as: Some(made.into()),
                        check: Check::Insts { arch: self.arch },
                    });
                    Some(index)
                }
            };
            plan.files.push(Files {
                name,
                configuration,
                insts,
                columns: self.columns(kernel),
                buffers: u32::try_from(buffers(&kernel.signature)).unwrap_or(u32::MAX),
            });
        }
        self.intermediates(&mut plan.outputs);
        Ok(plan)
    }

    /// What aircc leaves on its way.
    fn intermediates(&self, outputs: &mut Vec<Output>) {
        if !self.request.keep_intermediates || self.request.module.level == Level::Aie {
            return;
        }
        for stage in ["placed", "aie", "npu"] {
            outputs.push(Output {
                name: format!("kernel.{stage}.mlir").into(),
                made_as: Some(format!("{INTERMEDIATES}/{stage}.{SOURCE}").into()),
                check: Check::Mlir {
                    function: None,
                    herd: None,
                },
            });
        }
    }

    /// The file of that name; or the only file.
    fn template(&self, name: &str, extension: &str) -> String {
        let name = if self.is_template { name } else { "kernel" };
        format!("{OUT}{name}.{extension}")
    }

    /// In the first dialect `{0}` is the device only.
    fn insts_template(&self) -> &'static str {
        let aiecc = self.request.tools.aiecc.found.as_ref();
        match aiecc.map(|aiecc| aiecc.dialect) {
            Some(Dialect::Generate) => "{0}_{1}",
            _ => "{0}",
        }
    }

    fn entry_name(&self, number: usize) -> Name {
        let extension = self.extension();
        match self.is_template {
            true => format!("design.{number}.{extension}").into(),
            false => format!("kernel.{extension}").into(),
        }
    }

    fn columns(&self, kernel: &Kernel) -> u32 {
        device(self.request, kernel).map_or(self.arch.columns(), |device| device.columns)
    }

    fn configuration(&self, kernel: &Kernel) -> Check {
        let columns = self.columns(kernel);
        match self.request.format {
            Format::Xclbin => Check::Xclbin {
                columns,
                kernel: self.request.options.xclbin_name().unwrap_or_default(),
            },
            Format::Pdi => Check::Pdi,
            Format::Elf => Check::FullElf {
                arch: self.arch,
                columns,
                kernels: self.elf_kernels(),
                configuration: vec![
                    format!("{INTERMEDIATES}/full_elf_config.json"),
                    // Where older releases of aircc leave it.
                    "air_project/full_elf_config.json".to_owned(),
                ],
            },
        }
    }

    fn elf_kernels(&self) -> Vec<ElfKernel> {
        let kernels = self.request.kernels.iter().map(|kernel| {
            let (device, sequence) = symbols(kernel);
            ElfKernel {
                name: format!("{device}:{sequence}"),
                buffers: u32::try_from(buffers(&kernel.signature)).unwrap_or(u32::MAX),
            }
        });
        kernels.collect()
    }
}

/// The arguments that both drivers take.
fn xclbin_arguments(request: &Request<'_>) -> Vec<Argument> {
    let options = request.options;
    let mut arguments = Vec::new();
    if request.format == Format::Xclbin {
        if let Some(name) = &options.xclbin_kernel_name {
            arguments.push(format!("--xclbin-kernel-name={name}").into());
        }
        if let Some(name) = &options.xclbin_instance_name {
            arguments.push(format!("--xclbin-instance-name={name}").into());
        }
        if let Some(id) = options.xclbin_kernel_id {
            arguments.push(format!("--xclbin-kernel-id={id:#x}").into());
        }
    }
    arguments
}

/// Peano, unless there is none: then no core has code.
fn peano(tools: &AieTools) -> Option<Argument> {
    let directory = tools.peano.found.as_ref()?.directory.clone();
    Some(Argument::Installation("--peano=", "peano", directory))
}

/// What aircc reads, and what it makes of it and reads again.
const UNNAMED: [&str; 3] = [
    SOURCE,
    "npu-build/prj/placed.kernel.mlir",
    "npu-build/prj/aie.kernel.mlir",
];

/// The call that Triton-XDNA makes, with a directory for intermediates.
fn aircc(request: &Request<'_>) -> Result<Command, Error> {
    let options = request.options;
    let device = options.device.as_ref();
    let device = device.map_or(request.target.name(), |device| &device.spelling);
    let (configuration, insts) = (
        format!("{OUT}kernel.{}", request.format),
        format!("{OUT}kernel.insts.bin"),
    );
    let mut arguments: Vec<Argument> = vec![
        "--device".into(),
        device.into(),
        "--no-xchesscc".into(),
        "--no-xbridge".into(),
        format!("--tmpdir={INTERMEDIATES}").into(),
        "--output-format".into(),
        request.format.name().into(),
    ];
    let names: &[&str] = match request.format {
        Format::Elf => &["--elf-name", &configuration],
        Format::Pdi => &["-i", &insts, "--pdi-name", &configuration],
        Format::Xclbin => &["-i", &insts, "-o", &configuration],
    };
    arguments.extend(names.iter().copied().map(Argument::from));
    arguments.extend(peano(request.tools));
    if options.bf16_emulation == Some(true) {
        arguments.push("--bf16-emulation".into());
    }
    for size in options.tiling_sizes.as_deref().unwrap_or(&TILING_SIZES) {
        arguments.push(format!("--air-runtime-loop-tiling-sizes={size}").into());
    }
    arguments.push("--stack-size".into());
    arguments.push(options.stack_size.unwrap_or(STACK_SIZE).to_string().into());
    arguments.extend(xclbin_arguments(request));
    // Of several files one dialect compiles the first and says nothing: that is ours.
    arguments.push(SOURCE.into());
    arguments.extend(request.extra.iter().cloned().map(Argument::from));
    Ok(Command {
        unnamed: &UNNAMED,
        ..command(&request.tools.aircc.get()?.tool, arguments, explain)
    })
}

fn aiecc(request: &Request<'_>, aiecc: &Aiecc, plan: &Plan) -> Result<Command, Error> {
    let options = request.options;
    let mut arguments: Vec<Argument> = Vec::new();
    for (option, is_needed) in [
        // Chess was the default until Peano became it, and its switch was then dropped.
        ("no-xchesscc", true),
        ("no-xbridge", aiecc.dialect == Dialect::Generate),
        ("no-compile-host", aiecc.dialect == Dialect::Generate),
        ("no-progress", aiecc.dialect != Dialect::Generate),
    ] {
        if is_needed && aiecc.accepts(option) {
            arguments.push(format!("--{option}").into());
        }
    }
    arguments.push(format!("--tmpdir={INTERMEDIATES}").into());
    arguments.extend(peano(request.tools));
    let requires = |option: &'static str, ours: &'static str| {
        if aiecc.accepts(option) {
            return Ok(());
        }
        Err(Refusal::NoOption {
            aiecc: aiecc.tool.path.display().to_string(),
            option,
            ours,
        })
    };
    let is_first = aiecc.dialect == Dialect::Generate;
    if is_first && !request.module.core_elfs.is_empty() {
        // Without these it compiles the empty bodies of such cores in place of their ELFs.
        for option in cores::UNCOMPILED {
            requires(option, "elf_file")?;
            if !cores::gives(request, option) {
                arguments.push(format!("--{option}").into());
            }
        }
    }
    let get = |name: &str, first: &str| match is_first {
        true => Argument::Text(format!("--{first}")),
        false => Argument::Text(format!("--get-{name}")),
    };
    let configuration = &plan.configuration_name;
    match request.format {
        Format::Xclbin => {
            arguments.push(get("xclbin", "aie-generate-xclbin"));
            arguments.push(format!("--xclbin-name={configuration}").into());
        }
        Format::Pdi => {
            arguments.push(get("pdi", "aie-generate-pdi"));
            arguments.push(format!("--pdi-name={configuration}").into());
        }
        Format::Elf => {
            arguments.push(get("full-elf", "generate-full-elf"));
            arguments.push(format!("--full-elf-name={configuration}").into());
        }
    }
    if request.format != Format::Elf {
        arguments.push(get("npu-insts", "aie-generate-npu-insts"));
        arguments.push(format!("--npu-insts-name={}", plan.insts_name).into());
    }
    arguments.extend(xclbin_arguments(request));
    arguments.extend(selection(request));
    if options.bf16_emulation == Some(true) {
        requires("bf16-emulation", "--option bf16-emulation")?;
        arguments.push("--bf16-emulation".into());
    }
    if let Some(size) = options.stack_size {
        requires("default-stack-size", "--option stack-size")?;
        arguments.push(format!("--default-stack-size={size}").into());
    }
    // Of several files one dialect compiles the first and says nothing: that is ours.
    arguments.push(SOURCE.into());
    arguments.extend(request.extra.iter().cloned().map(Argument::from));
    Ok(command(&aiecc.tool, arguments, |_| None))
}

/// Where only some kernels of a file are wanted, the device or sequence that they have in common.
fn selection(request: &Request<'_>) -> Vec<Argument> {
    let all = request.module.select(None).unwrap_or_default();
    if all
        .into_iter()
        .map(symbols)
        .eq(request.kernels.iter().map(symbols))
    {
        return Vec::new();
    }
    let (devices, sequences): (BTreeSet<_>, BTreeSet<_>) =
        request.kernels.iter().map(symbols).unzip();
    let only = |option: &str, names: &BTreeSet<&str>| {
        let name = names.first().filter(|_| names.len() == 1)?;
        Some(Argument::Text(format!("--{option}={name}")))
    };
    let chosen = [
        only("device-name", &devices),
        only("sequence-name", &sequences),
    ];
    chosen.into_iter().flatten().collect()
}

/// What a failure of aircc means: the usual reasons are told in the words of passes.
fn explain(printed: &str) -> Option<String> {
    if printed.contains("inside 'air.herd' accesses memref with memory_space L") {
        return Some(
            "a core reaches its own memory (L1) alone: let the transform script bring there what the \
             herd works on (transform.air.linalg_promote), or the AIR itself (air.dma_memcpy_nd)"
                .to_owned(),
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{leads_outside, ours};

    #[test]
    fn no_spelling_of_a_path_outside_is_let_through() {
        for argument in [
            "/abs",
            "--x=/abs",
            "-I/abs",
            "--x=a,/abs",
            "--x=a=/abs",
            "--x=file:/abs",
            "--p={filename=/abs}",
            "--x=\"/abs\"",
            "--x /abs",
            "--x=~/a",
            "~root/a",
            "..",
            "--x=../a",
            "--x=a/../../b",
            "--x=a,../b",
            "-I..",
            "@args",
            "@/abs/args",
        ] {
            assert!(leads_outside(argument), "{argument}");
        }
        for argument in [
            "--dynamic-objFifos",
            "--x=a/b.o",
            "-Isub/dir",
            "a..b",
            "--x=1.5",
            "-v",
        ] {
            assert!(!leads_outside(argument), "{argument}");
        }
    }

    #[test]
    fn a_trace_is_known_however_it_is_asked_for() {
        let traces = |extra: &str| {
            let extra: Vec<_> = extra.split(' ').map(str::to_owned).collect();
            super::traces(&extra)
        };
        for asked in [
            "--trace-size=64",
            "-trace-size=64",
            "-v --trace-size 64",
            "--trace-size",
        ] {
            assert!(traces(asked), "{asked}");
        }
        for none in [
            "--trace-size=0",
            "-trace-size 0",
            "--trace-offset=64",
            "trace-size=64",
            "",
        ] {
            assert!(!traces(none), "{none}");
        }
    }

    #[test]
    fn what_is_passed_already_is_not_passed_again() {
        for argument in [
            "--peano=x",
            "-peano",
            "--tmpdir x",
            "-o=a",
            "--xclbinutil-path=ls",
        ] {
            assert!(ours(argument).is_some(), "{argument}");
        }
        for argument in ["--peanos", "peano", "--xclbin-input=a.xclbin", "-O3"] {
            assert!(ours(argument).is_none(), "{argument}");
        }
    }
}
