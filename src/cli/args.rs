//! What the command line may say.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::{
    LaunchGrid, Layer, Options, Package, Settings, ToolOptions, parse_jobs, parse_timeout, path,
};
use crate::kernel::{Target, contract};
use crate::plan::Request;
use crate::step::npu::TargetOptions;
use crate::toolchain::HsacoPacker;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{ArgAction, Args, FromArgMatches as _, Subcommand, ValueEnum};
use npu_runtime::{Direction, Runtime};

/// A command that may hit, if it and the rest of the words can be understood by themselves: choosing
/// from all commands, and handing the options of every command down to each, takes longer than
/// looking an entry up.
pub(super) fn of_one_command(words: &[OsString]) -> Option<(Global, Command)> {
    let words = words.get(1..)?;
    match words.first()?.to_str()? {
        "compile" => alone(words, Command::Compile),
        "build" => alone(words, Command::Build),
        _ => None,
    }
}

/// A command with its name and its arguments; `None` if that is not what `words` are, or if they ask
/// for help.
fn alone<C: Args>(words: &[OsString], command: fn(C) -> Command) -> Option<(Global, Command)> {
    let program = C::augment_args(Global::augment_args(clap::Command::new("npu-build")));
    let matches = program.try_get_matches_from(words).ok()?;
    Some((
        Global::from_arg_matches(&matches).ok()?,
        command(C::from_arg_matches(&matches).ok()?),
    ))
}

/// Options of every command.
#[derive(Args, Debug)]
pub struct Global {
    /// Say nothing but errors on standard error
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Output"
    )]
    pub quiet: bool,
    /// Tell each step, its key and its command lines
    #[arg(short, long, global = true, help_heading = "Output")]
    pub verbose: bool,
    /// How results are written to standard output
    #[arg(long, global = true, value_enum, default_value_t = Format::Human, value_name = "FORMAT", help_heading = "Output")]
    pub message_format: Format,
    /// The same as --message-format json
    #[arg(
        long,
        global = true,
        conflicts_with = "message_format",
        help_heading = "Output"
    )]
    pub json: bool,
    /// The cache directory [default: $XDG_CACHE_HOME/npu-build or ~/.cache/npu-build]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Cache")]
    pub cache_dir: Option<PathBuf>,
    /// Look nothing up and keep nothing
    #[arg(long, global = true, help_heading = "Cache")]
    pub no_cache: bool,
    /// Let the cache directory's group write it, too
    #[arg(long, global = true, help_heading = "Cache")]
    pub shared_cache: bool,
    /// What the host program calls npu-runtime, if it has renamed it or has it by way of another
    /// crate, e.g. my_facade::npu
    #[arg(long, global = true, value_name = "PATH", help_heading = "Launchers")]
    pub runtime_crate: Option<String>,
    /// The MLIR/LLVM installation (its directory, or its bin)
    #[arg(long, global = true, value_name = "DIR", help_heading = "Tools")]
    pub llvm: Option<PathBuf>,
    /// The mlir-air installation: air-opt, aircc
    #[arg(long, global = true, value_name = "DIR", help_heading = "Tools")]
    pub air: Option<PathBuf>,
    /// The mlir-aie installation: aiecc
    #[arg(long, global = true, value_name = "DIR", help_heading = "Tools")]
    pub aie: Option<PathBuf>,
    /// The Peano installation, an LLVM that compiles for aie2
    #[arg(long, global = true, value_name = "DIR", help_heading = "Tools")]
    pub peano: Option<PathBuf>,
    /// The XRT installation: xclbinutil, aiebu-asm
    #[arg(long, global = true, value_name = "DIR", help_heading = "Tools")]
    pub xrt: Option<PathBuf>,
    /// The C++ compiler of the XRT shim [default: $CXX, g++ or clang++]
    #[arg(long, global = true, value_name = "PROGRAM", value_parser = OsStringValueParser::new().try_map(path::<OsString>), help_heading = "Tools")]
    pub cxx: Option<OsString>,
    /// The Python environment that has the tools' wheels [default: $VIRTUAL_ENV]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Tools")]
    pub python: Option<PathBuf>,
    /// What packs hsacos: auto, builtin or a program's path
    #[arg(long, global = true, value_name = "PACKER", help_heading = "Tools")]
    pub hsaco_packer: Option<HsacoPacker>,
    /// How long one tool may run, e.g. 90s or 10m [default: for ever]
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_timeout, help_heading = "Tools")]
    pub timeout: Option<Duration>,
}

impl Global {
    /// The flags as the highest layer of the configuration.
    pub fn layer(&self) -> Layer {
        let mut layer = Layer {
            tools: ToolOptions {
                llvm: self.llvm.clone(),
                air: self.air.clone(),
                aie: self.aie.clone(),
                peano: self.peano.clone(),
                xrt: self.xrt.clone(),
                cxx: self.cxx.clone(),
                python: self.python.clone(),
                hsaco_packer: self.hsaco_packer.clone(),
                timeout: self.timeout,
            },
            ..Layer::default()
        };
        layer.cache.dir.clone_from(&self.cache_dir);
        layer.cache.enabled = self.no_cache.then_some(false);
        layer.cache.shared = self.shared_cache.then_some(true);
        layer.options.runtime_crate.clone_from(&self.runtime_crate);
        layer
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: paths
    Human,
    /// For machines: one JSON object a line
    Json,
}

// Only the commands that are looked at are put together.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Compile kernels and generate their launchers, or find both in the cache
    #[command(after_help = "Examples:\n  \
        npu-build compile vecadd.mlir --target cpu\n  \
        npu-build compile a.mlir b.mlir --target cpu --out-dir generated -j 2\n  \
        npu-build compile k.mlir --target cpu --entry softmax --arg out=out\n  \
        npu-build compile matmul.mlir --target npu2 --runtime hsa --grid 4,4 --transform tile.mlir\n  \
        npu-build compile scale.mlir --target cpu,npu2 --runtime xrt,hsa --grid 4    # one launcher\n  \
        npu-build compile aie.mlir -- --dynamic-objFifos\n  \
        npu-build compile k.mlir --target cpu --json | jq -r .artifact.path\n\n\
        Standard output lists the artifact and the launcher of each kernel: where they are in the\n\
        cache, or with --out-dir where they were written.")]
    Compile(CompileCommand),
    /// Compile all kernels of npu-build.toml
    #[command(after_help = "Example of an npu-build.toml:\n  \
        [build]\n  target = \"cpu\"\n\n  \
        [[kernel]]\n  path = \"kernels/vecadd.mlir\"\n  args = { out = \"out\" }")]
    Build(BuildCommand),
    /// Print what a kernel takes: its arguments with type, shape and direction
    #[command(after_help = "Examples:\n  \
        npu-build signature vecadd.mlir\n  \
        npu-build signature vecadd.mlir --format json\n  \
        npu-build signature vecadd.mlir --signature '*fp32,*fp32,*fp32:out,i32'")]
    Signature(SignatureCommand),
    /// Print the cache key of a kernel's first step without compiling anything
    #[command(after_help = "Examples:\n  \
        npu-build key vecadd.mlir --target cpu\n  \
        npu-build key vecadd.mlir --target cpu -v      # and what it is computed from")]
    Key(KernelCommand),
    /// Say whether a kernel is in the cache, and if not, what has changed since it was
    #[command(after_help = "Examples:\n  \
        npu-build explain vecadd.mlir --target cpu\n  \
        npu-build explain vecadd.mlir --target cpu --json | jq -r .reason\n\n\
        Each step is told up to the first one that would be carried out: the later ones are made from\n\
        what it makes. `compile -v` tells the same reason for every step that it carries out.")]
    Explain(KernelCommand),
    /// Look into the cache directory, check it, keep it small
    #[command(after_help = "Examples:\n  \
        npu-build cache list --sort size\n  \
        npu-build cache stats\n  \
        npu-build cache verify\n  \
        npu-build cache gc --max-size 1GiB")]
    Cache {
        #[command(subcommand)]
        command: super::cache::args::CacheCommand,
    },
    /// Show which tools were found, why others were not taken, and what can be launched on
    #[command(after_help = "Examples:\n  \
        npu-build doctor\n  \
        npu-build doctor -v                            # and every file of each tool\n  \
        npu-build doctor --llvm /usr/lib/llvm-22")]
    Doctor,
    /// Pack kernels into an hsaco, or look into one
    Hsaco {
        #[command(subcommand)]
        command: super::hsaco::HsacoCommand,
    },
    /// Compile the library through which launchers drive XRT, or find it in the cache
    #[command(after_help = "Examples:\n  \
        export NPU_RUNTIME_XRT_SHIM=\"$(npu-build shim)\"\n  \
        npu-build shim --out-dir target/release        # beside the program it is found by itself\n\n\
        It is made of C++ against the headers of the XRT that is installed here, once for each\n\
        installation. Launchers for hsa and cpu have no use for it.")]
    Shim(ShimCommand),
    /// Print a shell's completion script
    #[command(
        after_help = "Example:\n  npu-build completions bash > ~/.local/share/bash-completion/completions/npu-build"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

// Which kernel is meant, and what it takes. No documentation: clap would take it for the command's.
#[derive(Args, Clone, Debug, Default)]
pub struct Selection {
    /// What to build for: cpu, npu1 or npu2; several make one launcher that runs on each [default:
    /// the MLIR's own device]
    #[arg(long, value_name = "TARGET", value_delimiter = ',')]
    pub target: Vec<Target>,
    /// The function that is the kernel, if the file has several
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
    /// The signature in Triton's syntax, checked against the MLIR, e.g. '*fp32,*fp32:out,i32'
    #[arg(long, value_name = "TYPES")]
    pub signature: Option<String>,
}

// What to do with one kernel. No documentation: clap would take it for the command's.
#[derive(Args, Debug, Default)]
pub struct KernelOptions {
    #[command(flatten)]
    pub selection: Selection,
    /// What loads it on an NPU: xrt or hsa, or both [default: xrt]
    #[arg(long, value_name = "RUNTIME", value_parser = parse_runtime, value_delimiter = ',')]
    pub runtime: Vec<Runtime>,
    /// What it is packaged as for an NPU: auto, xclbin, elf or pdi [default: auto, which is elf on
    /// npu2 and xclbin on npu1]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Package>,
    /// How many programs run along x, y and z; compiled in for an NPU
    #[arg(long, value_name = "X,Y,Z", allow_negative_numbers = true)]
    pub grid: Option<LaunchGrid>,
    /// The transform script that tiles a linalg-level kernel for an NPU [default:
    /// $AIR_TRANSFORM_TILING_SCRIPT]
    #[arg(long, value_name = "FILE")]
    pub transform: Option<PathBuf>,
    /// A file that the NPU's tools find in their directory, beside what the MLIR links
    #[arg(long = "input", value_name = "FILE", action = ArgAction::Append)]
    pub inputs: Vec<PathBuf>,
    /// An option of the target: march for cpu; bf16-emulation, stack-size, tiling-sizes, device,
    /// actual-sizes, xclbin-kernel-name, xclbin-instance-name and xclbin-kernel-id for npu1 and npu2
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = parse_option, action = ArgAction::Append)]
    pub options: Vec<TargetOptions>,
    /// Keep what lies between the MLIR and the artifact
    #[arg(long)]
    pub keep_intermediates: bool,
    /// Further arguments for aircc or aiecc, behind --
    #[arg(last = true, value_name = "ARGUMENT")]
    pub tool_arguments: Vec<String>,
}

// The user's word on arguments. No documentation: clap would take it for the command's.
#[derive(Args, Debug)]
pub struct KernelArguments {
    /// Direction of an argument: in, out (all of it is overwritten) or inout
    #[arg(long = "arg", value_name = "NAME=DIRECTION", value_parser = parse_argument, action = ArgAction::Append)]
    pub args: Vec<(String, Direction)>,
    #[command(flatten)]
    pub contract: Contract,
}

// No documentation: clap would take it for the command's.
#[derive(Args, Clone, Debug, Default)]
pub struct Contract {
    /// How many elements arguments need, e.g. x=n,y=n or a=m*k: a scalar's name is at least
    /// so many, another name the same for all that have it, a number exactly so many, _ any; so are
    /// products, such as grid.x*256. Launches check it, and are safe with one for all arguments
    #[arg(long = "extent", value_name = "NAME=SIZE,...", value_parser = contract::split, action = ArgAction::Append)]
    pub extents: Vec<Vec<(String, String)>>,
}

impl KernelOptions {
    /// What the flags say of a kernel.
    pub fn options(&self) -> Options {
        let options = self.options.iter().cloned();
        Options {
            format: self.format,
            grid: self.grid,
            transform: self.transform.clone(),
            runtime: self.runtime.clone(),
            options: options.fold(TargetOptions::default(), |all, one| one.over(all)),
            inputs: self.inputs.clone(),
            tool_args: self.tool_arguments.clone(),
            keep_intermediates: self.keep_intermediates.then_some(true),
            ..self.selection.options()
        }
    }
}

impl Selection {
    /// What the flags say of a kernel.
    pub fn options(&self) -> Options {
        Options {
            target: self.target.clone(),
            entry: self.entry.clone(),
            signature: self.signature.clone(),
            ..Options::default()
        }
    }
}

impl KernelArguments {
    /// Adds what the flags say of a kernel's arguments.
    pub fn add_to(&self, options: Options) -> Options {
        Options {
            args: self.args.clone(),
            extents: self.contract.extents.concat(),
            ..options
        }
    }
}

#[derive(Args, Debug)]
pub struct KernelCommand {
    /// The MLIR file
    #[arg(value_name = "KERNEL")]
    pub kernel: PathBuf,
    #[command(flatten)]
    pub arguments: KernelArguments,
    #[command(flatten)]
    pub options: KernelOptions,
}

impl KernelCommand {
    /// The kernel that is meant, with all that is said of it.
    pub fn request(&self, settings: &Settings) -> Request {
        let said = self.arguments.add_to(self.options.options());
        settings.request(&self.kernel, said)
    }
}

#[derive(Args, Debug)]
pub struct SignatureCommand {
    /// The MLIR file
    #[arg(value_name = "KERNEL")]
    pub kernel: PathBuf,
    #[command(flatten)]
    pub arguments: KernelArguments,
    #[command(flatten)]
    pub selection: Selection,
    /// The same as --message-format
    #[arg(long, value_enum)]
    pub format: Option<Format>,
}

#[derive(Args, Debug)]
pub struct CompileCommand {
    /// The MLIR files
    #[arg(required = true, value_name = "KERNEL")]
    pub kernels: Vec<PathBuf>,
    #[command(flatten)]
    pub arguments: KernelArguments,
    #[command(flatten)]
    pub options: KernelOptions,
    #[command(flatten)]
    pub delivery: Delivery,
}

#[derive(Args, Debug)]
pub struct BuildCommand {
    #[command(flatten)]
    pub delivery: Delivery,
}

#[derive(Args, Debug)]
pub struct ShimCommand {
    /// Copy it there
    #[arg(short, long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
    /// Build it even if it is in the cache
    #[arg(long)]
    pub refresh: bool,
}

// What to do with what was built. No documentation: clap would take it for the command's.
#[derive(Args, Debug)]
pub struct Delivery {
    /// Copy launcher and artifact there; files that are right already are not touched
    #[arg(short, long, value_name = "DIR")]
    pub out_dir: Option<PathBuf>,
    /// What is listed and copied
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Emit::Launcher, Emit::Artifacts])]
    pub emit: Vec<Emit>,
    /// How many kernels to build at once [default: one per core]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = parse_jobs)]
    pub jobs: Option<u32>,
    /// Build even what is in the cache, and replace it
    #[arg(long)]
    pub refresh: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Emit {
    /// The generated Rust source
    Launcher,
    /// What a device loads
    Artifacts,
}

fn parse_argument(text: &str) -> Result<(String, Direction), String> {
    let (name, direction) = text
        .split_once('=')
        .ok_or("write it as NAME=DIRECTION, e.g. c=out")?;
    let name = name.strip_prefix('%').unwrap_or(name);
    match direction_named(direction) {
        Some(direction) => Ok((name.to_owned(), direction)),
        None => Err(format!(
            "'{direction}' is no direction; there are in, out and inout"
        )),
    }
}

/// What is a direction on the command line.
pub fn direction_named(name: &str) -> Option<Direction> {
    let mut all = [Direction::In, Direction::Out, Direction::InOut].into_iter();
    all.find(|direction| direction.name() == name)
}

fn parse_option(text: &str) -> Result<TargetOptions, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("write it as NAME=VALUE, e.g. march=native")?;
    let mut options = TargetOptions::default();
    options.set(name, value)?;
    Ok(options)
}

fn parse_runtime(text: &str) -> Result<Runtime, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is no runtime: choose xrt, hsa or cpu"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use clap::Parser as _;

    #[derive(Debug, clap::Parser)]
    #[command(name = "npu-build", version, arg_required_else_help = true)]
    struct All {
        #[command(flatten)]
        global: Global,
        #[command(subcommand)]
        command: Command,
    }

    impl From<(Global, Command)> for All {
        fn from((global, command): (Global, Command)) -> Self {
            Self { global, command }
        }
    }

    const WORDS: &[&str] = &[
        "k.mlir",
        "compile",
        "build",
        "key",
        "help",
        "--help",
        "-h",
        "--version",
        "-V",
        "--",
        "-",
        "-q",
        "-v",
        "-qv",
        "--json",
        "--json=1",
        "--message-format",
        "json",
        "--message-format=human",
        "--cache-dir",
        "--cache-dir=x",
        "--no-cache",
        "--shared-cache",
        "--llvm",
        "--hsaco-packer=auto",
        "--timeout",
        "5s",
        "--target",
        "cpu",
        "--target=cpu,npu2",
        "--arg",
        "a=in",
        "--emit",
        "launcher",
        "--emit=artifacts,launcher",
        "-j",
        "2",
        "-j3",
        "-o",
        "-oout",
        "--out-dir=out",
        "--refresh",
        "--option",
        "march=native",
        "--grid=4,4",
        "--keep-intermediates",
        "--unknown",
        "é",
        "",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// By itself a command is understood when and as it is among all.
        #[test]
        fn one_command_is_understood_as_among_all(
            name in prop::sample::select(vec!["compile", "build"]),
            rest in prop::collection::vec(prop::sample::select(WORDS), 0..6),
        ) {
            let words = ["npu-build", name].into_iter().chain(rest);
            let words: Vec<_> = words.map(OsString::from).collect();
            let alone = of_one_command(&words).map(All::from);
            let among_all = All::try_parse_from(&words).ok();
            prop_assert_eq!(format!("{alone:?}"), format!("{among_all:?}"));
        }
    }

    #[test]
    fn what_is_no_text_is_understood_alike() {
        use std::os::unix::ffi::OsStringExt as _;
        let path = OsString::from_vec(b"k\xff.mlir".to_vec());
        let words = ["npu-build".into(), "compile".into(), path];
        let alone = All::from(of_one_command(&words).unwrap());
        let among_all = All::try_parse_from(&words).unwrap();
        assert_eq!(format!("{alone:?}"), format!("{among_all:?}"));
    }
}
