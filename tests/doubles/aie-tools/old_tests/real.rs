//! The doubles against artifacts that real tools made of the same designs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use aie_tools::program::{Program, REGISTERS};
use aie_tools::stream::{Instruction, Stream};
use common::{Scene, real};

const DESIGNS: [&str; 4] = ["copy_npu1", "copy_npu2", "copy_npu2_4col", "six_buffers"];

/// A scene in which a real design was compiled to everything that the first dialect makes.
fn compiled(design: &str) -> Scene {
    let scene = Scene::new(1);
    fs::copy(
        real(design).join("kernel.mlir"),
        scene.work.join("kernel.mlir"),
    )
    .unwrap();
    scene
        .run(
            "aiecc",
            &[
                "--no-xchesscc",
                "--no-xbridge",
                "--aie-generate-npu-insts",
                "--npu-insts-name=insts.bin",
                "--aie-generate-pdi",
                "--pdi-name=design.pdi",
                "--aie-generate-xclbin",
                "--xclbin-name=design.xclbin",
                "kernel.mlir",
            ],
        )
        .ok();
    scene
}

fn without_program(bytes: &[u8]) -> Vec<u8> {
    let mut stream = Stream::parse(bytes).unwrap();
    stream.instructions.retain(|instruction| match instruction {
        Instruction::Write32 { address, .. } => *address < REGISTERS,
        _ => true,
    });
    stream.bytes()
}

#[test]
fn instructions_are_the_real_ones_and_the_program() {
    for design in DESIGNS {
        let scene = compiled(design);
        let made = scene.read("insts.bin");
        let expected = fs::read(real(design).join("insts.bin")).unwrap();
        assert_eq!(without_program(&made), expected, "{design}");
        assert_eq!(made[12..16], (made.len() as u32).to_le_bytes());
        assert!(Program::of_stream(&Stream::parse(&made).unwrap()).is_ok());
        assert!(Program::of_stream(&Stream::parse(&expected).unwrap()).is_err());
    }
}

#[test]
fn pdis_are_the_real_ones() {
    for design in DESIGNS {
        let expected = fs::read(real(design).join("design.pdi")).unwrap();
        assert!(compiled(design).read("design.pdi") == expected, "{design}");
    }
}

#[test]
fn xclbins_differ_from_real_ones_where_two_real_ones_differ() {
    for design in DESIGNS {
        let made = compiled(design).read("design.xclbin");
        let expected = fs::read(real(design).join("design.xclbin")).unwrap();
        assert_eq!(made.len(), expected.len(), "{design}");
        let mirror = expected
            .windows(8)
            .rposition(|w| w == b"\"header\"")
            .unwrap();
        let random = [296..300, 312..316, 416..432, 2032..2048];
        for (at, (a, b)) in made.iter().zip(&expected).enumerate() {
            let allowed = random.iter().any(|range| range.contains(&at));
            // UniqueID, TimeStamp and XclBinUUID in the mirror.
            let mirrored = (mirror..mirror + 900).contains(&at)
                && a.is_ascii_hexdigit()
                && b.is_ascii_hexdigit();
            assert!(a == b || allowed || mirrored, "{design}: byte {at}");
        }
    }
}

fn readelf(file: &Path) -> String {
    let llvm = aie_tools::install::real_llvm_objcopy().expect("LLVM is installed");
    let output = Command::new(llvm.with_file_name("llvm-readelf"))
        .args(["--all", "--wide"])
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// What llvm-readelf says, without the numbers that depend on the length of the control code.
fn structure(file: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for line in readelf(file).lines() {
        let line = line.trim();
        // [ n] NAME TYPE address offset size …: keep number, name, type and what follows the size.
        let words: Vec<_> = line
            .trim_start_matches(['[', ' '])
            .split_whitespace()
            .collect();
        if line.starts_with('[') && words.len() > 9 && words[1].starts_with('.') {
            let fixed = words[1].starts_with(".pdi")
                || words[1].starts_with(".note")
                || words[1].starts_with(".dyn");
            let size = if fixed { words[5] } else { "" };
            lines.push([words[0], words[1], words[2], size, &words[6..].join(" ")].join(" "));
        } else if line.starts_with("LOAD") {
            lines.push(
                line.split_whitespace()
                    .skip(6)
                    .collect::<Vec<_>>()
                    .join(" "),
            );
        } else if line.contains("description data") && line.matches(' ').count() > 10 {
            // The UID is a digest of the sections.
        } else if !line.contains("Start of section headers")
            && !line.contains("starting at offset")
            && !line.contains("Dynamic section at")
            && !line.contains("Relocation section")
        {
            lines.push(line.to_owned());
        }
    }
    lines
}

#[test]
fn full_elfs_have_the_structure_of_real_ones() {
    for design in ["copy_npu2", "copy_npu2_4col", "two_kernels_npu2"] {
        for dialect in [1, 3] {
            let scene = Scene::new(dialect);
            fs::copy(
                real(design).join("kernel.mlir"),
                scene.work.join("kernel.mlir"),
            )
            .unwrap();
            let ask: &[&str] = match dialect {
                1 => &["--no-xchesscc", "--generate-full-elf", "kernel.mlir"],
                _ => &["--get-full-elf", "kernel.mlir"],
            };
            scene.run("aiecc", ask).ok();
            let expected = structure(&real(design).join("aie.elf"));
            assert_eq!(structure(&scene.work.join("aie.elf")), expected, "{design}");
        }
    }
}

#[test]
fn the_assembler_makes_real_elfs_of_real_inputs() {
    for (design, kernels) in [
        ("copy_npu2", vec![("copyrows", "copy")]),
        ("copy_npu2_4col", vec![("wide", "run")]),
    ] {
        let scene = Scene::new(1);
        let source = real(design);
        let config = fs::read(source.join("full_elf_config.json")).unwrap();
        scene.file("full_elf_config.json", config);
        for (number, (device, sequence)) in kernels.iter().enumerate() {
            fs::copy(
                source.join("design.pdi"),
                scene.work.join(format!("{device}.pdi")),
            )
            .unwrap();
            // The control code of an ELF numbers its PDI.
            let insts = fs::read(source.join("insts.bin")).unwrap();
            let mut stream = Stream::parse(&insts).unwrap();
            for instruction in &mut stream.instructions {
                if let Instruction::LoadPdi { id } = instruction {
                    *id = number as u16 + 1;
                }
            }
            scene.file(&format!("{device}_{sequence}.bin"), stream.bytes());
        }
        scene
            .run(
                "aiebu-asm",
                &[
                    "-t",
                    "aie2_config",
                    "-j",
                    "full_elf_config.json",
                    "-o",
                    "made.elf",
                ],
            )
            .ok();
        let expected = fs::read(source.join("aie.elf")).unwrap();
        assert!(scene.read("made.elf") == expected, "{design}");
    }
}

#[test]
fn the_assembler_makes_the_real_elf_of_two_kernels() {
    let scene = Scene::new(1);
    let source = real("two_kernels_npu2");
    let elf = fs::read(source.join("aie.elf")).unwrap();
    fs::copy(
        source.join("full_elf_config.json"),
        scene.work.join("config.json"),
    )
    .unwrap();
    // The sections of the real file, at the places that llvm-readelf gives.
    for (name, offset, size) in [
        ("first.pdi", 0x120, 0x370),
        ("second.pdi", 0x490, 0x370),
        ("first_copy_i32.bin", 0x800, 0x13c),
        ("second_copy_i8.bin", 0x1020, 0x13c),
    ] {
        scene.file(name, &elf[offset..offset + size]);
    }
    scene
        .run(
            "aiebu-asm",
            &["-t", "aie2_config", "-j", "config.json", "-o", "made.elf"],
        )
        .ok();
    assert!(scene.read("made.elf") == elf);
}

#[test]
fn the_configuration_of_a_full_elf_is_the_real_one() {
    for design in ["copy_npu2", "two_kernels_npu2"] {
        let scene = Scene::new(2);
        fs::copy(
            real(design).join("kernel.mlir"),
            scene.work.join("kernel.mlir"),
        )
        .unwrap();
        scene.run("aiecc", &["--get-full-elf", "kernel.mlir"]).ok();
        let made = String::from_utf8(scene.read("kernel.mlir.prj/full_elf_config.json")).unwrap();
        let tmpdir = scene.work.join("kernel.mlir.prj");
        let cut = made.replace(&format!("{}/", tmpdir.display()), "");
        assert_ne!(cut, made, "paths are absolute");
        let expected = fs::read_to_string(real(design).join("full_elf_config.json")).unwrap();
        assert_eq!(cut.trim_end(), expected.trim_end());
    }
}

#[test]
fn xclbinutil_says_of_real_xclbins_what_the_real_one_says() {
    for design in DESIGNS {
        let scene = Scene::new(1);
        let xclbin = real(design).join("design.xclbin");
        let dump = "AIE_PARTITION:JSON:dump.json";
        let arguments = ["--input", xclbin.to_str().unwrap(), "--dump-section", dump];
        scene.run("xclbinutil", &arguments).ok();
        let made = String::from_utf8(scene.read("dump.json")).unwrap();
        let expected = fs::read_to_string(real(design).join("xclbinutil_dump.json")).unwrap();
        assert_eq!(made.trim_end(), expected.trim_end());
        let pdi = made.split('"').find(|word| word.ends_with(".pdi")).unwrap();
        assert!(scene.read(pdi) == fs::read(real(design).join("design.pdi")).unwrap());
    }
}

#[test]
fn sequences_of_one_device_are_instances_of_one_kernel() {
    let scene = Scene::new(3);
    let text = common::copy_design("npu2", "d", "first", 64, "i32");
    let at = text.find("    aie.runtime_sequence").unwrap();
    let sequence = text[at..text.rfind("  }\n}").unwrap()].replace("@first", "@second");
    let both = format!("{}{sequence}{}", &text[..at], &text[at..]);
    scene.file("k.mlir", both);
    scene
        .run("aiecc", &["--get-full-elf", "--get-npu-insts", "k.mlir"])
        .ok();
    assert!(scene.has("insts_d_first.bin") && scene.has("insts_d_second.bin"));
    let said = readelf(&scene.work.join("aie.elf"));
    assert!(
        said.contains("`.group.0' [second]") && said.contains("`.group.1' [first]"),
        "{said}"
    );
    assert_eq!(said.matches("_Z1dPcPcPc").count(), 1);
}

#[test]
fn external_variables_are_a_symbol_with_an_address_of_64_bits() {
    let scene = Scene::new(3);
    let text = common::copy_design("npu2", "d", "s", 64, "i32")
        .replace("module {\n", "module {\n  aiex.scratchpad_parameter @a : i32\n  aiex.scratchpad_parameter @b : i32\n")
        .replace("      %i = aiex", "      aiex.sync_scratchpad_parameters_from_host\n      %i = aiex");
    scene.file("k.mlir", text);
    scene.run("aiecc", &["--get-full-elf", "k.mlir"]).ok();
    let said = readelf(&scene.work.join("aie.elf"));
    let has = |words: &[&str]| {
        said.lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    };
    // Relocation type 8 is Address64; the symbol's size is that of two words.
    assert!(
        has(&["00000028", "08 Unknown", "scratch-pad-ctrl + 0"]),
        "{said}"
    );
    assert!(has(&[" 8 OBJECT  GLOBAL", "scratch-pad-ctrl"]), "{said}");
}

#[test]
fn an_xclbin_is_extended_by_another_kernel() {
    let scene = Scene::new(3);
    scene.file("k.mlir", common::copy_design("npu1", "d", "s", 64, "i32"));
    scene.run("aiecc", &["--get-xclbin", "k.mlir"]).ok();
    let first = fs::read(scene.work.join("aie.xclbin")).unwrap();
    scene.file("first.xclbin", first);
    let ask = [
        "--get-xclbin",
        "--xclbin-input=first.xclbin",
        "--xclbin-kernel-name=OTHER",
        "--xclbin-instance-name=I",
        "--xclbin-kernel-id=0x902",
        "k.mlir",
    ];
    scene.run("aiecc", &ask).ok();
    scene
        .run(
            "xclbinutil",
            &[
                "--input",
                "aie.xclbin",
                "--dump-section",
                "AIE_PARTITION:JSON:d.json",
            ],
        )
        .ok();
    let json = String::from_utf8(scene.read("d.json")).unwrap();
    assert_eq!(json.matches("\"uuid\"").count(), 2);
    assert!(json.contains("0x901") && json.contains("0x902"));
    let whole = scene.read("aie.xclbin");
    let has = |text: &str| whole.windows(text.len()).any(|w| w == text.as_bytes());
    assert!(has("MLIR_AIE:MLIRAIE\0") && has("OTHER:I\0"));
    let long = "x".repeat(60);
    scene
        .run(
            "aiecc",
            &[
                "--get-xclbin",
                &format!("--xclbin-kernel-name={long}"),
                "k.mlir",
            ],
        )
        .fails(1, &["exceeds the allocated space"]);
}

/// `core.elf` for a core, in its place for intermediates, in each of the ways that a real aiecc of
/// April 2026 was asked: its exit code, and whether the PDI has that ELF in it.
#[test]
fn a_core_gets_its_elf_where_a_real_one_does() {
    let text = fs::read_to_string(real("core_elf").join("kernel.mlir")).unwrap();
    let elf = fs::read(real("core_elf").join("core.elf")).unwrap();
    let missing = text.replace("core.elf", "none.elf");
    let with = |before: &str, core: &str| text.replace(before, &format!("{core}\n    {before}"));
    let idle = with(
        "%core = ",
        "%t = aie.tile(0, 3)\n    %c = aie.core(%t) { aie.end }",
    );
    let busy = idle.replace("{ aie.end }", "{ %x = arith.constant 0 : index aie.end }");
    let both = ["--no-compile", "--no-link"];
    for (text, options, code, expected) in [
        (&text, &both[..], 0, true),
        (&text, &both[..1], 0, true),
        (&text, &[], 0, false),
        (&text, &both[1..], 1, false),
        (&missing, &both, 1, false),
        (&idle, &both, 0, true),
        (&idle, &[], 0, false),
        (&busy, &both, 0, true),
        (&busy, &[], 0, false),
    ] {
        let made = |elf: &[u8]| {
            let scene = Scene::new(1);
            scene.file("kernel.mlir", text);
            scene.file("prj/core.elf", elf);
            let peano = format!("--peano={}", scene.tools.peano().display());
            let asked = ["--no-xchesscc", "--tmpdir=prj", "--aie-generate-pdi"];
            let asked = [
                &asked[..],
                &["--pdi-name=k.pdi", &peano, "kernel.mlir"],
                options,
            ];
            let told = scene.run("aiecc", &asked.concat());
            assert_eq!(told.0.status.code(), Some(code), "{options:?}: {told:?}");
            assert!(code == 0 || told.stderr().contains("XAIE_INVALID_ELF"));
            // What it compiled has gone where nobody asked for it.
            assert_eq!(scene.has("core.elf"), code == 0 && !expected, "{options:?}");
            fs::read(scene.work.join("k.pdi")).unwrap_or_default()
        };
        assert_eq!(
            made(&elf) != made(b"other"),
            expected,
            "{options:?}: {text}"
        );
    }
}

/// From 1.4.0 it is taken as it is, from the current directory.
#[test]
fn a_core_gets_its_elf_in_later_dialects() {
    for dialect in [2, 3] {
        let made = |place: &str, code: i32| {
            let scene = Scene::new(dialect);
            fs::copy(
                real("core_elf").join("kernel.mlir"),
                scene.work.join("kernel.mlir"),
            )
            .unwrap();
            scene.file(place, "an ELF");
            let asked = [
                "--tmpdir=prj",
                "--get-pdi",
                "--pdi-name=k.pdi",
                "kernel.mlir",
            ];
            let asked = [&["--no-xchesscc"][..usize::from(dialect == 2)], &asked].concat();
            let told = scene.run("aiecc", &asked);
            assert_eq!(told.0.status.code(), Some(code), "{told:?}");
            told
        };
        made("core.elf", 0);
        made("prj/core.elf", 1).fails(1, &["XAIE_INVALID_ELF", "edge 'cdo_{0}' (key 'cored')"]);
    }
}
