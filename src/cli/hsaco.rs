//! `npu-build hsaco`: pack kernels into an hsaco, and say what is in one.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::config::integer;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use npu_formats::Arch;
use npu_formats::dump::Dump;
use npu_formats::file::{Bytes, FileFault};
use npu_formats::pack::{PackFault, Unloadable, pack};
use npu_formats::spec::{KernelOption, Spec};
use npu_formats::verdict::{Agent, Reader};
use serde::Serialize;

use super::json::text;
use super::terminal::{Terminal, Tone};
use super::{BAD_INPUT, Failure, UNWRITABLE};

#[derive(Debug, Subcommand)]
pub enum HsacoCommand {
    /// Put kernels into the section of one architecture of an hsaco
    #[command(
        after_help = "Takes the command line of aie-hsaco, without needing llvm-objcopy or xclbinutil.\n\n\
        A --kernel is one of\n  \
        NAME:INSTS[:PDI]:KERNARG_SIZE:NUM_COLS\n  \
        xclbin:NAME:XCLBIN:INSTS:KERNARG_SIZE[:NUM_COLS]\n  \
        elf:PATH[:KERNARG_SIZE[:NUM_COLS]]\n\
        A path with a colon, or a kernel named elf or xclbin, needs the longer form: --kernel-name or\n\
        --kernel-elf begins a kernel, the other --kernel-* options fill it in. Kernels stand in the\n\
        table in the order of the command line. KERNARG_SIZE is 16 bytes for each argument. Kernels of a\n\
        full ELF that are parts of others there (aiex.run) are left out: they can't be dispatched.\n\n\
        Examples:\n  \
        npu-build hsaco pack --hsaco out.hsaco --arch aie2p --kernel elf:aie.elf\n  \
        npu-build hsaco pack --hsaco out.hsaco --arch aie2 --kernel xclbin:add:add.xclbin:insts.bin:48\n  \
        npu-build hsaco pack --hsaco out.hsaco --arch aie2p --kernel add:insts.bin:main.pdi:48:8\n  \
        npu-build hsaco pack --hsaco out.hsaco --arch aie2p --kernel-name elf --kernel-insts insts.bin \\\n      \
        --kernel-pdi main.pdi --kernel-kernarg 48 --kernel-cols 8"
    )]
    Pack(PackCommand),
    /// Say what is in an hsaco, and who would refuse it
    #[command(
        after_help = "Standard output is what aie-hsaco-dump prints; who would refuse the file, and why, goes to\n\
        standard error, and with --json into the object on standard output.\n\n\
        Examples:\n  \
        npu-build hsaco dump out.hsaco\n  \
        npu-build hsaco dump out.hsaco --agent aie2p:4     # a device with 4 columns\n  \
        npu-build hsaco dump out.hsaco --json | jq '.verdicts[] | select(.verdict == \"refuses\")'"
    )]
    Dump(DumpCommand),
}

/// The command line of aie-hsaco.
#[derive(Args, Debug)]
struct PackFlags {
    /// The hsaco to write; made if it does not exist, everything else in it is kept
    #[arg(long, value_name = "FILE")]
    hsaco: PathBuf,
    /// The architecture: aie2 (npu1) or aie2p (npu2)
    #[arg(long)]
    arch: Arch,
    /// Pack even what ROCR would not load
    #[arg(long)]
    allow_unloadable: bool,
    /// A kernel, or the kernels of a full ELF (see below)
    #[arg(long, value_name = "SPEC", help_heading = "Kernels")]
    kernel: Vec<OsString>,
    /// Begin a kernel with this name
    #[arg(long, value_name = "NAME", help_heading = "Kernels")]
    kernel_name: Vec<OsString>,
    /// Begin the kernels of a full ELF
    #[arg(long, value_name = "FILE", help_heading = "Kernels")]
    kernel_elf: Vec<OsString>,
    /// The kernel's instruction stream (insts.bin)
    #[arg(long, value_name = "FILE", help_heading = "Kernels")]
    kernel_insts: Vec<OsString>,
    /// The kernel's PDI
    #[arg(long, value_name = "FILE", help_heading = "Kernels")]
    kernel_pdi: Vec<OsString>,
    /// The xclbin that holds the kernel's PDI
    #[arg(long, value_name = "FILE", help_heading = "Kernels")]
    kernel_xclbin: Vec<OsString>,
    /// Size of the kernel's kernarg block; for a full ELF 0 leaves it to the ELF [default: 0]
    #[arg(long, value_name = "BYTES", help_heading = "Kernels")]
    kernel_kernarg: Vec<OsString>,
    /// Columns of the kernel's partition [default: what the xclbin or full ELF records]
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        help_heading = "Kernels"
    )]
    kernel_cols: Vec<OsString>,
}

/// What to pack, with the kernels in the order in which they stand on the command line.
#[derive(Debug)]
pub struct PackCommand {
    flags: PackFlags,
    options: Vec<(KernelOption, OsString)>,
}

impl Args for PackCommand {
    fn augment_args(command: Command) -> Command {
        PackFlags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        PackFlags::augment_args_for_update(command)
    }
}

impl FromArgMatches for PackCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Vec::new();
        for option in KernelOption::ALL {
            let id = option.flag().trim_start_matches('-').replace('-', "_");
            let values = matches.get_many::<OsString>(&id);
            let places = matches.indices_of(&id);
            for (place, value) in places
                .into_iter()
                .flatten()
                .zip(values.into_iter().flatten())
            {
                options.push((place, option, value.clone()));
            }
        }
        options.sort_by_key(|(place, ..)| *place);
        Ok(Self {
            flags: PackFlags::from_arg_matches(matches)?,
            options: (options.into_iter())
                .map(|(_, option, value)| (option, value))
                .collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Args, Debug)]
pub struct DumpCommand {
    /// The hsaco
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The device that would load it, e.g. aie2p:8 [default: both, with all their columns]
    #[arg(long = "agent", value_name = "ARCH[:COLUMNS]", value_parser = parse_agent)]
    agents: Vec<Agent>,
}

fn parse_agent(text: &str) -> Result<Agent, String> {
    let (arch, columns) = match text.split_once(':') {
        Some((arch, columns)) => (arch, Some(columns)),
        None => (text, None),
    };
    let arch: Arch = (arch.parse()).map_err(|error| format!("{error}"))?;
    let mut agent = Agent::of(arch);
    if let Some(columns) = columns {
        agent.columns = integer(columns, 0..=u32::MAX)
            .ok_or_else(|| format!("'{columns}' is no number of columns"))?;
    }
    Ok(agent)
}

pub fn run(command: &HsacoCommand, terminal: &Terminal) -> Result<(), Failure> {
    match command {
        HsacoCommand::Pack(command) => pack_kernels(command, terminal),
        HsacoCommand::Dump(command) => dump(command, terminal),
    }
}

fn pack_kernels(command: &PackCommand, terminal: &Terminal) -> Result<(), Failure> {
    let flags = &command.flags;
    let specs = Spec::from_options(command.options.iter().cloned())
        .map_err(|fault| Failure::bad_input(fault.to_string()))?;
    let unloadable = if flags.allow_unloadable {
        Unloadable::Allow
    } else {
        Unloadable::Refuse
    };
    let packed = pack(&flags.hsaco, flags.arch, &specs, unloadable)?;
    for refused in &packed.refused {
        terminal.warning(&format!(
            "kernel '{}': ROCR will not load it: {}",
            refused.kernel, refused.refusal
        ));
    }
    for warning in &packed.warnings {
        terminal.warning(warning);
    }
    for part in &packed.parts {
        terminal.warning(&format!(
            "'{part}' is left out: it loads no configuration and is a part of another kernel; \
             --allow-unloadable packs it all the same"
        ));
    }
    if terminal.json {
        #[derive(Serialize)]
        struct Result<'a> {
            hsaco: String,
            arch: Arch,
            section_size: u32,
            kernels: &'a [String],
        }
        return Ok(terminal.result_json(&Result {
            hsaco: text(&flags.hsaco),
            arch: flags.arch,
            section_size: packed.section_size,
            kernels: &packed.kernels,
        })?);
    }
    let count = packed.kernels.len();
    let plural = if count == 1 { "" } else { "s" };
    terminal.status(
        "packed",
        Tone::Good,
        &format!(
            "{count} kernel{plural} for {}: {}",
            flags.arch,
            packed.kernels.join(", ")
        ),
    );
    Ok(terminal.result_path(&flags.hsaco)?)
}

fn dump(command: &DumpCommand, terminal: &Terminal) -> Result<(), Failure> {
    let bytes = Bytes::open(&command.file)?;
    let every = Arch::ALL.map(Agent::of);
    let agents: &[Agent] = match command.agents.as_slice() {
        [] => &every,
        agents => agents,
    };
    let dump = Dump::of(&bytes, agents);
    let errors = dump.errors();
    if terminal.json {
        terminal.result_json(&dump)?;
    } else {
        terminal.result_bytes(dump.text().as_bytes())?;
        for error in &errors {
            let file = command.file.display();
            terminal.error(&format!("{file}: {error}"), BAD_INPUT);
        }
        for judgement in &dump.verdicts {
            let is_news = match judgement.reader {
                // Its complaints are the errors above.
                Reader::Dumper => false,
                // What has a section for a device is to be loaded there; one that nobody asked
                // about need not be able to load the rest.
                Reader::Rocr(agent) => {
                    let has_section =
                        (dump.sections.iter()).any(|section| section.arch == agent.arch);
                    !judgement.is_acceptance()
                        && (has_section || judgement.is_refusal() && !command.agents.is_empty())
                }
                Reader::Packer | Reader::NewestPacker => {
                    judgement.is_refusal() && !dump.sections.is_empty()
                }
            };
            if is_news {
                terminal.warning(&judgement.to_string());
            }
        }
        for note in &dump.notes {
            terminal.warning(note);
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Failure::Printed(BAD_INPUT))
    }
}

impl From<FileFault> for Failure {
    fn from(fault: FileFault) -> Self {
        Self::Message {
            code: match fault {
                FileFault::Write { .. } => UNWRITABLE,
                FileFault::Read { .. } | FileFault::NotRegular { .. } => BAD_INPUT,
            },
            message: fault.to_string(),
        }
    }
}

impl From<PackFault> for Failure {
    fn from(fault: PackFault) -> Self {
        match fault {
            PackFault::File(fault) => fault.into(),
            fault => Self::bad_input(fault.to_string()),
        }
    }
}
