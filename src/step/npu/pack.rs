//! The `pack` step: what was compiled, into an hsaco, by the built-in packer or by an aie-hsaco.
//!
//! Both are told the same in the same words, aie-hsaco's options; they give the same section.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{HSACO, OUT, command, environment};
use crate::step::check::Check;
use crate::step::{Argument, Input, Kind, Loaded, Output, Step, Work};
use crate::toolchain::{AieTools, Companions, Format, Packer, ToolName};
use npu_formats::Arch;
use npu_formats::pack::{PackFault, Refused, pack_fresh};
use npu_formats::spec::{KernelOption, Source, Spec};

/// Raised when the same inputs would give another hsaco.
const VERSION: u32 = 1;
/// The input that says what the built-in packer is to do.
const ORDER: &str = "npu-build/pack.json";

/// What is packed, and by what.
#[derive(Debug)]
pub struct Packing<'a> {
    /// The kernel, for messages.
    pub subject: &'a str,
    /// The user's file, for messages.
    pub file: &'a Path,
    /// The target, for messages.
    pub target: &'static str,
    /// The architecture of the section.
    pub arch: Arch,
    /// What the kernels were compiled to.
    pub format: Format,
    /// The kernels, in the order of the MLIR.
    pub kernels: Vec<PackKernel>,
    /// The files that they name.
    pub files: Vec<Input>,
    /// The packer.
    pub packer: Packer<'a>,
    /// The programs.
    pub tools: &'a AieTools,
}

/// One kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackKernel {
    /// Its name in the hsaco.
    pub name: String,
    /// The xclbin or full ELF, among the files.
    pub configuration: String,
    /// The instruction stream, if it is a file of its own.
    pub insts: Option<String>,
    /// How many buffers it takes.
    pub buffers: u32,
    /// Columns of the partition that it was compiled for.
    pub columns: u32,
}

/// The step that makes [`HSACO`].
#[must_use]
pub fn pack(packing: Packing<'_>) -> Step {
    let options: Vec<_> = specs(&packing)
        .iter()
        .flat_map(Spec::to_options)
        .map(|(option, value)| (option, value.to_string_lossy().into_owned()))
        .collect();
    let kernels = packing.kernels.iter().map(|kernel| kernel.name.clone());
    let mut output = Output::new(
        HSACO,
        Check::Hsaco {
            arch: packing.arch,
            kernels: kernels.collect(),
        },
    );
    let mut inputs = packing.files;
    let (work, companions) = match packing.packer {
        Packer::Builtin => {
            let flags = options.iter().map(|(option, value)| (option.flag(), value));
            let order = serde_json::json!({
                "arch": packing.arch,
                "kernels": flags.collect::<Vec<_>>(),
            });
            inputs.push(Input::new(ORDER, order.to_string().into_bytes()));
            (Work::Native(builtin), Companions::default())
        }
        Packer::Program(program) => {
            let made = format!("{OUT}{HSACO}");
            let mut arguments: Vec<Argument> = vec![
                "--hsaco".into(),
                made.as_str().into(),
                "--arch".into(),
                packing.arch.name().into(),
            ];
            for (option, value) in options {
                arguments.push(option.flag().into());
                arguments.push(value.into());
            }
            output.made_as = Some(made.into());
            let companions = packing.tools.companions(ToolName::AieHsaco, packing.format);
            let run = command(program, arguments, |_| None);
            (Work::Commands(vec![run]), companions)
        }
    };
    Step {
        kind: Kind::Pack,
        version: VERSION,
        subject: packing.subject.to_owned(),
        source: Some(packing.file.to_owned()),
        target: packing.target,
        inputs,
        environment: environment(&companions),
        companions,
        facts: Vec::new(),
        work,
        outputs: vec![output],
    }
}

/// A full ELF is packed once, with all its kernels, and says itself how many arguments they take.
fn specs(packing: &Packing<'_>) -> Vec<Spec> {
    let mut specs: Vec<Spec> = Vec::new();
    for kernel in &packing.kernels {
        let path = PathBuf::from(&kernel.configuration);
        let spec = match &kernel.insts {
            None => Spec {
                source: Source::Elf { path },
                kernarg_size: 0,
                columns: Some(kernel.columns),
            },
            Some(insts) => Spec {
                source: Source::Xclbin {
                    name: kernel.name.clone(),
                    insts: insts.into(),
                    xclbin: path,
                },
                // An address and a size for each argument.
                kernarg_size: kernel.buffers.saturating_mul(16),
                columns: Some(kernel.columns),
            },
        };
        if !specs.contains(&spec) {
            specs.push(spec);
        }
    }
    specs
}

fn builtin(inputs: &[Loaded<'_>]) -> Result<Vec<Vec<u8>>, String> {
    let file = |path: &Path| {
        let found = inputs.iter().find(|input| Path::new(input.name) == path);
        found.map_or(&[][..], |input| &*input.bytes)
    };
    #[derive(serde::Deserialize)]
    struct Order {
        arch: String,
        kernels: Vec<(String, String)>,
    }
    let order: Order =
        serde_json::from_slice(file(Path::new(ORDER))).map_err(|error| error.to_string())?;
    let arch: Arch = order.arch.parse().map_err(|error| format!("{error}"))?;
    let options = order.kernels.into_iter().filter_map(|(flag, value)| {
        let mut known = KernelOption::ALL.into_iter();
        let option = known.find(|option| option.flag() == flag)?;
        Some((option, OsString::from(value)))
    });
    let specs = Spec::from_options(options).map_err(|fault| fault.to_string())?;
    let packed = pack_fresh(arch, &specs, file).map_err(|fault| match fault {
        PackFault::Unloadable(refused) => unloadable(&refused),
        fault => fault.to_string(),
    })?;
    Ok(vec![packed])
}

/// ROCR's reason, and for the commonest mistake what to do about it.
fn unloadable(refused: &Refused) -> String {
    let Refused { kernel, refusal } = refused;
    let remedy = refusal.remedy();
    let remedy = remedy.map_or(String::new(), |remedy| format!("; {remedy}"));
    format!("ROCR would not load the kernel '{kernel}': it {refusal}{remedy}")
}
