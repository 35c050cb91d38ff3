//! Whether a build's files are what was asked for: read by the crate's own readers and by programs
//! that share nothing with it, and their instructions carried out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aie_tools::program::Program;
use aie_tools::stream::Stream;
use npu_formats::container::Elf64;
use npu_formats::full_elf::{FullElf, outline};
use npu_formats::insts::Insts;
use npu_formats::section::Section;
use npu_formats::xclbin::Xclbin;
use npu_formats::{Arch, KernelKind, pdi};

use crate::scene::{Built, Scene};

/// What a kernel's files must be.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    pub arch: Arch,
    pub format: &'static str,
    pub hsa: bool,
    pub columns: u32,
    /// `device:sequence`.
    pub name: &'static str,
    /// Whether it doubles its first argument into its second.
    pub doubles: bool,
}

/// Checks the files of one kernel.
#[track_caller]
pub fn check(built: &Built, kernel: usize, expected: Expected) {
    let paths = built.artifacts(kernel);
    let files: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    match (expected.hsa, expected.format, files.as_slice()) {
        (true, _, [file]) => hsaco(file, expected),
        (false, "elf", [file]) => full_elf(file, expected),
        (false, "xclbin", [file, stream]) => {
            xclbin(file, expected);
            insts(stream, expected);
        }
        (false, "pdi", [file, stream]) => {
            pdi::validate(file).unwrap();
            insts(stream, expected);
        }
        (.., files) => panic!("{} files for {expected:?}: {paths:?}", files.len()),
    }
}

fn hsaco(bytes: &[u8], expected: Expected) {
    let elf = Elf64::parse(bytes).unwrap();
    let section = elf.section(expected.arch).unwrap().unwrap();
    let kernels = Section::parse(section).unwrap().check().unwrap();
    let mut found = kernels.iter();
    let kernel = found.find(|kernel| kernel.name == expected.name.as_bytes());
    let kernel = kernel.unwrap_or_else(|| panic!("no {}: {kernels:?}", expected.name));
    assert_eq!(kernel.entry.columns, expected.columns);
    match expected.format {
        "elf" => {
            assert_eq!(kernel.kind, KernelKind::FullElf);
            full_elf(kernel.insts, expected);
        }
        _ => {
            assert_eq!(kernel.kind, KernelKind::PdiInsts);
            // An address and a size for each of two buffers.
            assert_eq!(kernel.entry.kernarg_size, 32);
            pdi::validate(kernel.pdi).unwrap();
            insts(kernel.insts, expected);
        }
    }
}

fn full_elf(bytes: &[u8], expected: Expected) {
    assert_eq!(outline(bytes).unwrap().columns, Some(expected.columns));
    let elf = FullElf::parse(bytes, expected.arch).unwrap();
    let kernel = elf.kernel(expected.name.as_bytes());
    let kernel = kernel.unwrap_or_else(|| panic!("no {} in {elf:?}", expected.name));
    assert_eq!(kernel.argument_count(), 2);
    insts(kernel.control, expected);
}

fn xclbin(bytes: &[u8], expected: Expected) {
    let xclbin = Xclbin::parse(bytes).unwrap();
    let partition = xclbin.partition().unwrap();
    assert_eq!(u32::from(partition.column_width), expected.columns);
    pdi::validate(partition.only_pdi().unwrap()).unwrap();
    assert_eq!(xclbin.kernel_names().unwrap(), [b"MLIR_AIE:MLIRAIE"]);
}

/// Reads an instruction stream, and carries it out.
fn insts(bytes: &[u8], expected: Expected) {
    Insts::parse_for(bytes, expected.arch).unwrap();
    if expected.doubles {
        assert_eq!(doubled(bytes), [2.0, 4.0, 6.0], "{expected:?}");
    }
}

/// The first elements of what a stream makes of 1, 2, 3, ….
fn doubled(stream: &[u8]) -> [f32; 3] {
    let program = Program::of_stream(&Stream::parse(stream).unwrap()).unwrap();
    let given = (1..=256u16).flat_map(|number| f32::from(number).to_le_bytes());
    let (mut x, mut out) = (given.collect::<Vec<_>>(), vec![0; 1024]);
    let mut nothing: Vec<Vec<u8>> = vec![Vec::new(); program.arguments.len() - 2];
    let mut arguments: Vec<&mut [u8]> = vec![&mut x, &mut out];
    arguments.extend(nothing.iter_mut().map(Vec::as_mut_slice));
    program.run(&mut arguments, &[]).unwrap();
    let mut results = out
        .chunks(4)
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()));
    std::array::from_fn(|_| results.next().unwrap())
}

/// LLVM's opinion of ELF files, hsacos and full ELFs: whether it reads them without a warning, and
/// the names of their sections.
pub fn llvm_readelf(paths: &[PathBuf]) -> String {
    let objcopy = aie_tools::install::real_llvm_objcopy().unwrap();
    let output = Command::new(objcopy.with_file_name("llvm-readelf"))
        .args(["--headers", "--section-headers", "--wide"])
        .args(paths)
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap()
}

/// What the doubles' aie-hsaco-dump says of a file.
pub fn hsaco_dump(scene: &Scene, path: &Path) -> String {
    let output = Command::new(scene.tools.tool("aie-hsaco-dump"))
        .arg("--hsaco")
        .arg(path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
