//! The artifacts that aiecc makes, and the options of its dialects.

use crate::options::{Spec, Takes, alias, option};

/// An artifact that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The instruction stream of each sequence.
    Insts,
    /// The container for XRT.
    Xclbin,
    /// Everything in one ELF.
    FullElf,
    /// The configuration of each device.
    Pdi,
    /// The instructions alone, as an ELF.
    Elf,
    /// The configuration as MLIR.
    Txn,
    /// Control packets.
    CtrlPkt,
    /// The configuration, unpacked.
    Cdo,
    /// The ELFs of the cores.
    CoreElfs,
    /// The input, lowered.
    Addresses,
    /// The external variables.
    Parameters,
}

/// One artifact in a dialect: what asks for it, its name in messages, the option for its file's
/// name and that name's default.
#[derive(Clone, Copy, Debug)]
pub struct Selector {
    /// Which.
    pub output: Output,
    /// `--get-<this>`.
    pub get: &'static str,
    /// `--get=<this>`, and the name in messages.
    pub edge: &'static str,
    /// `--<this>`, the first dialect's flag.
    pub generate: &'static str,
    /// `--<this>=NAME`.
    pub name: &'static str,
    /// The default name in the first dialect.
    pub first_default: &'static str,
}

const fn selector(
    output: Output,
    get: &'static str,
    edge: &'static str,
    generate: &'static str,
    name: &'static str,
    first_default: &'static str,
) -> Selector {
    Selector {
        output,
        get,
        edge,
        generate,
        name,
        first_default,
    }
}

/// All artifacts.
pub const SELECTORS: [Selector; 11] = [
    selector(
        Output::Addresses,
        "input-with-addresses",
        "input_with_addresses.mlir",
        "",
        "",
        "",
    ),
    selector(
        Output::Parameters,
        "scratchpad-parameters",
        "params.txt",
        "",
        "",
        "",
    ),
    selector(Output::CoreElfs, "core-elfs", "elfs_{0}.elf", "", "", ""),
    selector(
        Output::Insts,
        "npu-insts",
        "insts_{0}.bin",
        "aie-generate-npu-insts",
        "npu-insts-name",
        "{0}_{1}.bin",
    ),
    selector(
        Output::Elf,
        "elf",
        "design.elf",
        "aie-generate-elf",
        "elf-name",
        "design.elf",
    ),
    selector(
        Output::Cdo,
        "cdo",
        "cdo_{0}",
        "aie-generate-cdo",
        "",
        "{0}_cdo.bin",
    ),
    selector(
        Output::Pdi,
        "pdi",
        "{0}.pdi",
        "aie-generate-pdi",
        "pdi-name",
        "{0}.pdi",
    ),
    selector(
        Output::Txn,
        "txn",
        "{0}_transaction.mlir",
        "aie-generate-txn",
        "txn-name",
        "{0}_transaction.mlir",
    ),
    selector(
        Output::CtrlPkt,
        "ctrlpkt",
        "{0}_ctrlpkt.bin",
        "aie-generate-ctrlpkt",
        "ctrlpkt-name",
        "{0}_ctrlpkt.bin",
    ),
    selector(
        Output::Xclbin,
        "xclbin",
        "aie.xclbin",
        "aie-generate-xclbin",
        "xclbin-name",
        "{0}.xclbin",
    ),
    selector(
        Output::FullElf,
        "full-elf",
        "aie.elf",
        "generate-full-elf",
        "full-elf-name",
        "aie.elf",
    ),
];

const fn flag(name: &'static str, help: &'static str) -> Spec {
    option(name, Takes::Flag, help)
}

const fn text(name: &'static str, help: &'static str) -> Spec {
    option(name, Takes::Text, help)
}

/// The options that all dialects have, then those of the first only, the declarative ones, and the
/// second only. One table, so that a dialect is a choice of ranges.
const OPTIONS: [Spec; 75] = [
    flag("aiesim", "Generate an AIE simulator work folder"),
    flag("compile-host", "Enable compiling of the host program"),
    flag("no-xbridge", "Link using Peano"),
    flag("no-xchesscc", "Compile using Peano"),
    flag("aie-generate-cdo", "Generate CDO files"),
    flag("aie-generate-ctrlpkt", "Generate control packets"),
    flag("aie-generate-elf", "Generate an ELF for the instructions"),
    flag("aie-generate-npu-insts", "Generate NPU instructions"),
    flag("aie-generate-pdi", "Generate a PDI"),
    flag("aie-generate-txn", "Generate transaction MLIR"),
    flag("aie-generate-xclbin", "Generate an xclbin"),
    flag(
        "generate-full-elf",
        "Generate a complete, reconfigurable ELF",
    ),
    flag("no-compile-host", "Disable compiling of the host program"),
    flag("compile", "Enable compilation of the AIE cores"),
    flag("no-compile", "Disable compilation of the AIE cores"),
    flag("link", "Enable linking of the AIE cores"),
    flag("no-link", "Disable linking of the AIE cores"),
    // From here on: options of all dialects.
    text(
        "tmpdir",
        "Directory of intermediates (default: <input>.prj in the current directory)",
    ),
    text("device-name", "Compile one device only"),
    text("sequence-name", "Compile one runtime sequence only"),
    text("peano", "Where Peano is installed"),
    text("aietools", "Where the AIE tools of Vitis are installed"),
    text("sysroot", "Sysroot for host compilation"),
    text("host-target", "Target triple of the host program"),
    text("alloc-scheme", "Buffer allocation scheme"),
    option("O", Takes::Prefix, "Optimization level (0-3)"),
    alias("opt-level", Takes::Number, "O"),
    option(
        "j",
        Takes::Prefix,
        "Number of parallel compilation threads (0 = auto-detect)",
    ),
    alias("nthreads", Takes::Number, "j"),
    flag("n", "Dry run"),
    flag("verbose", "Verbose execution"),
    alias("v", Takes::Flag, "verbose"),
    flag("progress", "Show progress"),
    flag("xchesscc", "Compile cores with Chess"),
    flag("xbridge", "Link cores with xbridge"),
    flag("bf16-emulation", "Emulate f32 vector arithmetic using bf16"),
    flag("dynamic-objFifos", "Dynamic object FIFOs"),
    flag("packet-sw-objFifos", "Packet-switched object FIFOs"),
    flag("generate-ctrl-pkt-overlay", "Route a control overlay"),
    flag("expand-load-pdis", "Expand load_pdi into explicit writes"),
    flag("unified", "Compile all cores together"),
    flag("profile", "Profile commands"),
    flag("version", "Display the version of this program"),
    flag("aie-version", "Show version information and exit"),
    text("npu-insts-name", "Output instruction filename"),
    text("elf-name", "Output instruction ELF filename"),
    text("pdi-name", "Output PDI filename"),
    text("txn-name", "Output transaction MLIR filename"),
    text("ctrlpkt-name", "Output control packet filename"),
    text(
        "ctrlpkt-dma-seq-name",
        "Output control packet DMA sequence filename",
    ),
    text("ctrlpkt-elf-name", "Output control packet ELF filename"),
    text("full-elf-name", "Output filename of the combined ELF"),
    text("xclbin-name", "Output xclbin filename"),
    text("xclbin-kernel-name", "Kernel name in the xclbin"),
    text("xclbin-instance-name", "Instance name in the xclbin"),
    text("xclbin-kernel-id", "Kernel id in the xclbin"),
    text("xclbin-input", "An xclbin that is extended by this kernel"),
    text("o", "Output filename for host compilation"),
    // From here on: declarative dialects only.
    text(
        "get",
        "Request graph outputs by edge name (repeatable); named artifacts also have --get-<name> shorthands (e.g. --get-xclbin)",
    ),
    alias("g", Takes::Text, "get"),
    text("output-dir", "Output directory for generated artifacts"),
    text(
        "xclbinutil-path",
        "Path or name of the xclbinutil that packs the xclbin",
    ),
    option(
        "default-stack-size",
        Takes::Number,
        "Stack size of cores that state none",
    ),
    option("cores-per-col", Takes::Number, "Most cores in a column"),
    option(
        "placer",
        Takes::OneOf(&["sequential_placer", "sa_placer"]),
        "Placement algorithm",
    ),
    option("sa-seed", Takes::Number, "Random seed of the placer"),
    flag(
        "dump-intermediates",
        "Keep intermediates in the output directory",
    ),
    flag("emit-dot", "Print the compilation graph and exit"),
    flag("no-progress", "Disable the progress output"),
    flag("no-unified", "Compile each core alone"),
    flag(
        "no-materialize",
        "Skip the materialization of runtime sequences",
    ),
    flag(
        "fold-ddr-addr-offset",
        "Fold the aperture's offset into addresses",
    ),
    flag(
        "skip-objectFifo-verify",
        "Skip verification of object FIFOs",
    ),
    flag("enable-repeater-scripts", "Write a reproducer on failure"),
    flag("disable-repeater-scripts", "Write no reproducer on failure"),
];

/// The options of the first dialect.
pub const FIRST: &[Spec] = OPTIONS.split_at(58).0;
/// Those of the second.
pub const SECOND: &[Spec] = &{
    // The second dialect still knows the four options that Chess needed to be told of.
    let mut specs = [OPTIONS[0]; 62];
    let mut index = 0;
    while index < 62 {
        specs[index] = if index < 4 {
            OPTIONS[index]
        } else {
            OPTIONS[index + 13]
        };
        index += 1;
    }
    specs
};
/// Those of the third.
pub const THIRD: &[Spec] = OPTIONS.split_at(17).1;
