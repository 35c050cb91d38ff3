//! The steps of the npu targets: `lower` takes linalg to AIR, `compile` takes AIR or AIE to what
//! XRT loads, `pack` puts that into an hsaco for ROCR.
//!
//! The tools leave intermediates in their directory and find other programs by `PATH`. So each run
//! has a directory of its own in which everything of ours is under `npu-build/`: the user's link
//! files, which keep their names, can't be mistaken for it.

mod buffers;
mod compile;
mod cores;
mod lower;
pub mod options;
mod pack;

use std::sync::Arc;

pub use buffers::{FEWEST_DECLARED, Launchable};
pub use compile::{Compiled, Error as CompileError, Files, Request, compile};
pub use cores::core_elf_directory;
pub use lower::{Lowering, SCRIPT, lower};
pub use options::TargetOptions;
pub use pack::{PackKernel, Packing, pack};

use super::{Argument, Command};
use crate::kernel::Target;
use crate::toolchain::{Companions, Tool};
use npu_formats::Arch;

/// The name under which the tools see the kernel.
pub const SOURCE: &str = "kernel.mlir";
/// The kernel at the AIR level, in its entry.
pub const AIR: &str = "kernel.air.mlir";
/// The hsaco in its entry.
pub const HSACO: &str = "kernel.hsaco";

/// Everything of ours in a work directory.
pub const OURS: &str = "npu-build/";
/// Where outputs are made.
const OUT: &str = "npu-build/out/";
/// Where the tools keep intermediates.
const INTERMEDIATES: &str = "npu-build/prj";
/// The same as the start of a name.
const IN_INTERMEDIATES: &str = "npu-build/prj/";
/// Where the programs are that the tools find by `PATH`.
const PATH: &str = "{work}/npu-build/bin:/usr/bin:/bin";

/// Why the AIE toolchain is not even asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// More buffers than the xclbin has places for.
    #[error(
        "'{kernel}' takes {count} buffers, and the xclbin that aiecc made declares {declared}, so that \
         XRT would refuse the others at launch; {way} some of them, or install an mlir-aie of July \
         2026 or later"
    )]
    Undeclared {
        /// The kernel.
        kernel: String,
        /// How many it takes.
        count: u32,
        /// How many there are in the xclbin.
        declared: u32,
        /// The start of what to do.
        way: &'static str,
    },
    /// Buffers whose addresses nobody translates.
    #[error(
        "'{kernel}' takes {count} buffers: the NPU's firmware translates the addresses of the first 5, \
         and the instructions that aiecc made leave the others to it, too; {way} some of them, or \
         install an mlir-aie of July 2026 or later"
    )]
    Untranslated {
        /// The kernel.
        kernel: String,
        /// How many it takes.
        count: u32,
        /// The start of what to do.
        way: &'static str,
    },
    /// An AIR design of nothing.
    #[error("the kernel has no air.herd, and nothing else can be put on the array")]
    NoHerd,
    /// Buffers are told apart by their place among all arguments.
    #[error(
        "'{kernel}' takes the scalar '{scalar}' before the buffer '{buffer}', and the tools count it \
         among the buffers: put the buffers first"
    )]
    ScalarFirst {
        /// The kernel.
        kernel: String,
        /// The scalar.
        scalar: String,
        /// The next buffer.
        buffer: String,
    },
    /// A kernel that computes with a scalar, or a sequence that takes one.
    #[error(
        "line {line}: '{kernel}' computes with the scalar '{scalar}', and an NPU runs instructions \
         that are compiled beforehand: make it a constant of the MLIR, or pass it in a buffer"
    )]
    Scalar {
        /// The kernel.
        kernel: String,
        /// The scalar.
        scalar: String,
        /// Its line.
        line: u32,
    },
    /// A sequence that configures devices, in a format that has one configuration.
    #[error(
        "'{0}' configures devices and runs their sequences, which only a full ELF for npu2 can: use \
         --format elf, or choose one of those sequences with --entry"
    )]
    Configures(String),
    /// A full ELF for the first NPU.
    #[error("there is no full ELF for npu1: use --format xclbin, which is the default there")]
    ElfOnNpu1,
    /// An option that the `aiecc` that was found does not have.
    #[error("{aiecc} has no --{option}: leave {ours} out, or install a newer mlir-aie")]
    NoOption {
        /// The program.
        aiecc: String,
        /// Its missing option.
        option: &'static str,
        /// Ours that needs it.
        ours: &'static str,
    },
    /// An ELF for a core that aircc makes.
    #[error(
        "it names {0} with elf_file, which is for aie.core: aircc compiles the code of herds, and \
         would not look at it; use link_with for functions that are compiled already"
    )]
    CoreElfAboveAie(String),
    /// Cores of both kinds for an `aiecc` that compiles all of them or none.
    #[error(
        "line {line}: this core has code, and another one names {elf} with elf_file: {aiecc} \
         compiles all cores or none, and would take something else for {elf}; give every core an \
         elf_file, or install mlir-aie 1.4.0 or later"
    )]
    SomeCoreElfs {
        /// The program.
        aiecc: String,
        /// The line of a core with code.
        line: u32,
        /// The ELF of another.
        elf: String,
    },
    /// Cores that are not to be compiled.
    #[error(
        "line {line}: this core has code, and with --{option} it would be missing from what is \
         made: leave --{option} out, or give every core an elf_file"
    )]
    Uncompiled {
        /// The option.
        option: &'static str,
        /// The line of a core with code.
        line: u32,
    },
    /// A format that the `aircc` that was found does not make.
    #[error("{aircc} has no {lacks}: use --format xclbin, or install a newer mlir-air")]
    NoFormat {
        /// The program.
        aircc: String,
        /// What it lacks.
        lacks: &'static str,
    },
    /// An option that has no meaning for this kernel.
    #[error("--option {option} can't be used: {reason}")]
    Meaningless {
        /// The option.
        option: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// A device of the other NPU.
    #[error("--option device={device} is for {found}, not for {wanted}")]
    OtherDevice {
        /// The device.
        device: String,
        /// What it is for.
        found: Target,
        /// What is built for.
        wanted: Target,
    },
    /// A name that is too long for an xclbin.
    #[error("{0}")]
    XclbinName(String),
    /// A symbol that is no file name.
    #[error(
        "the file has several kernels, and '{0}' can't be part of a file's name: rename it, or \
         choose one kernel with --entry"
    )]
    Symbol(String),
    /// Two kernels whose files would have one name.
    #[error(
        "'{first}' and '{second}' would be compiled to one file: rename a device or a sequence"
    )]
    SameName {
        /// One kernel.
        first: String,
        /// The other.
        second: String,
    },
    /// A trace, which is written behind the last buffer.
    #[error(
        "--trace-size lets the kernel write a trace behind its last buffer, to memory that no launch \
         passes: leave it out"
    )]
    Trace,
    /// An argument that is ours to give.
    #[error(
        "--{0} can't be given behind --: it says where tools and files are, which npu-build settles \
         itself"
    )]
    Ours(&'static str),
    /// An argument for the tool that names a file outside.
    #[error(
        "'{0}' may name a file whose content no key would know: give the file with --input, and name \
         it without its directory; arguments in a file have to be given one by one"
    )]
    Outside(String),
}

/// The architecture of a target; none of the cpu.
#[must_use]
pub const fn arch(target: Target) -> Option<Arch> {
    match target {
        Target::Npu1 => Some(Arch::Aie2),
        Target::Npu2 => Some(Arch::Aie2p),
        Target::Cpu => None,
    }
}

/// The environment of all these tools: messages in English, temporary files and programs of ours.
fn environment(companions: &Companions) -> Vec<(&'static str, String)> {
    let mut environment = vec![
        ("LC_ALL", "C".to_owned()),
        ("PATH", PATH.to_owned()),
        ("TMPDIR", "{work}".to_owned()),
    ];
    // Looked at before PATH by those that have it; the two tools name it differently.
    for (tool, variable) in [
        ("xclbinutil", "AIE_XCLBINUTIL"),
        ("xclbinutil", "AIE_XCLBINUTIL_PATH"),
        ("llvm-objcopy", "AIE_OBJCOPY_PATH"),
    ] {
        if companions.on_path.iter().any(|(name, _)| *name == tool) {
            environment.push((variable, format!("{{work}}/npu-build/bin/{tool}")));
        }
    }
    environment
}

fn command(
    tool: &Arc<Tool>,
    arguments: Vec<Argument>,
    explain: fn(&str) -> Option<String>,
) -> Command {
    Command {
        tool: Arc::clone(tool),
        arguments,
        explain,
        unnamed: &[],
    }
}
