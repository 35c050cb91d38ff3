//! What real tools made, byte for byte where two real runs agree.

use std::fs;
use std::process::Command;

use aie_tools::program::Program;
use aie_tools::stream::{Instruction, Stream};

use crate::scene::{Scene, bytes, recorded};

const DESIGNS: [&str; 4] = ["copy_npu1", "copy_npu2", "copy_npu2_4col", "six_buffers"];

#[test]
fn streams_are_read_and_written() {
    for design in DESIGNS {
        let insts = bytes(&format!("{design}/insts.bin"));
        let stream = Stream::parse(&insts).unwrap();
        assert_eq!(stream.bytes(), insts, "{design}");
        assert!(Program::of_stream(&stream).is_err());
    }
}

#[test]
fn bootgen_makes_pdis_of_their_cdos() {
    let scene = Scene::new(1);
    for design in DESIGNS {
        let pdi = bytes(&format!("{design}/design.pdi"));
        // The CDO's header, then as many words as it says.
        let words = u32::from_le_bytes(pdi[0x15c..0x160].try_into().unwrap());
        scene.file("k.cdo", &pdi[0x150..0x150 + 20 + 4 * words as usize]);
        scene.file(
            "k.bif",
            "all:\n{\n  image\n  {\n    { type=cdo\n      file=k.cdo\n    }\n  }\n}\n",
        );
        let arguments = "-arch versal -image k.bif -o k.pdi -w";
        scene.run("bootgen", arguments).ok();
        assert!(scene.read("k.pdi") == pdi, "{design}");
    }
}

#[test]
fn xclbins_differ_where_two_real_ones_differ() {
    for (design, device) in DESIGNS
        .into_iter()
        .zip(["main", "copyrows", "wide", "many"])
    {
        let scene = Scene::new(1);
        scene.file("k.mlir", bytes(&format!("{design}/kernel.mlir")));
        let asked = "--no-xchesscc --aie-generate-xclbin --tmpdir=. k.mlir";
        scene.run("aiecc", asked).ok();
        // The same JSON files with the real PDI.
        let pdi = format!("{device}.pdi");
        scene.file(&pdi, bytes(&format!("{design}/design.pdi")));
        let asked = format!(
            "--add-replace-section MEM_TOPOLOGY:JSON:{device}_mem_topology.json \
             --add-kernel {device}_kernels.json \
             --add-replace-section AIE_PARTITION:JSON:{device}_aie_partition.json --output made"
        );
        scene.run("xclbinutil", &asked).ok();
        let (made, expected) = (
            scene.read("made"),
            bytes(&format!("{design}/design.xclbin")),
        );
        let start = b"XCLBIN_MIRROR_DATA_START";
        let mirror = expected.windows(start.len()).position(|it| it == start);
        // Time stamps, the length with the mirror's, and uuids.
        let own = [0x128..0x140, 0x1a0..0x1b0, 2032..2048];
        for at in (0..mirror.unwrap()).filter(|at| !own.iter().any(|it| it.contains(at))) {
            assert_eq!(made[at], expected[at], "{design}: byte {at}");
        }
    }
}

/// What aiebu-asm reads is what the real ELFs have in their segments.
#[test]
fn aiebu_asm_makes_full_elfs() {
    let two = "first.pdi second.pdi first_copy_i32.bin first.pdi second.pdi second_copy_i8.bin";
    for (design, parts) in [
        ("copy_npu2", "copyrows.pdi copyrows_copy.bin"),
        ("copy_npu2_4col", "wide.pdi wide_run.bin"),
        ("two_kernels_npu2", two),
    ] {
        let scene = Scene::new(1);
        let elf = bytes(&format!("{design}/aie.elf"));
        scene.file(
            "config.json",
            bytes(&format!("{design}/full_elf_config.json")),
        );
        let word = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().unwrap()) as usize;
        for (number, name) in parts.split(' ').enumerate() {
            let header = 52 + 32 * (number + 1);
            let (offset, size) = (word(header + 4), word(header + 16));
            scene.file(name, &elf[offset..offset + size]);
        }
        let arguments = "-t aie2_config -j config.json -o made.elf";
        scene.run("aiebu-asm", arguments).ok();
        assert!(scene.read("made.elf") == elf, "{design}");
    }
}

#[test]
fn the_configuration_of_a_full_elf_is_the_real_one() {
    for design in ["copy_npu2", "two_kernels_npu2", "configure_npu2"] {
        let kernel = fs::read_to_string(recorded(design).join("kernel.mlir")).unwrap();
        let scene = Scene::with(2, &kernel);
        scene.run("aiecc", "--get-full-elf --tmpdir=t k.mlir").ok();
        let cut = scene
            .text("t/full_elf_config.json")
            .replace(&format!("{}/", scene.work.join("t").display()), "");
        let expected = String::from_utf8(bytes(&format!("{design}/full_elf_config.json")));
        assert_eq!(cut.trim_end(), expected.unwrap().trim_end());
        // The sections of the full ELF are the real one's, whatever is in them.
        let sections = |path| {
            let llvm = aie_tools::install::real_llvm_objcopy().unwrap();
            let mut command = Command::new(llvm.with_file_name("llvm-readelf"));
            let output = command.args(["-SW", "--section-groups"]).arg(path).output();
            let text = String::from_utf8(output.unwrap().stdout).unwrap();
            let lines = text.lines().filter(|line| line.trim().starts_with('['));
            let words = lines.map(|line| line.replace(['[', ']'], ""));
            words
                .map(|line| {
                    line.split_whitespace()
                        .take(3)
                        .collect::<Vec<_>>()
                        .join(" ")
                })
                .collect::<Vec<_>>()
        };
        let made = sections(scene.work.join("aie.elf"));
        assert_eq!(made, sections(recorded(design).join("aie.elf")), "{design}");
    }
}

/// The loads, patches, queues and waits of the real streams, in whatever order.
#[test]
fn transfers_are_the_real_ones() {
    for design in DESIGNS {
        let kernel = fs::read_to_string(recorded(design).join("kernel.mlir")).unwrap();
        let scene = Scene::with(1, &kernel);
        let arguments = "--no-xchesscc --aie-generate-npu-insts --npu-insts-name=k.bin k.mlir";
        scene.run("aiecc", arguments).ok();
        let kept = |bytes: &[u8]| {
            let stream = Stream::parse(bytes).unwrap();
            let is_transfer = |it: &Instruction| {
                matches!(
                    it,
                    Instruction::LoadPdi { .. }
                        | Instruction::BlockWrite { .. }
                        | Instruction::AddressPatch { .. }
                        | Instruction::Sync { .. }
                )
            };
            let mut kept = stream.instructions;
            kept.retain(is_transfer);
            kept.sort_by_key(|it| format!("{it:?}"));
            (stream.generation, stream.columns, kept)
        };
        let expected = kept(&bytes(&format!("{design}/insts.bin")));
        assert_eq!(kept(&scene.read("k.bin")), expected, "{design}");
    }
}

#[test]
fn the_packers_command_line_and_dump() {
    let scene = Scene::new(1);
    for name in [
        "copy_npu2/aie.elf",
        "copy_npu2/insts.bin",
        "copy_npu2/design.pdi",
    ] {
        scene.file(name, bytes(name));
    }
    for (expected, spec) in [
        ("copy_npu2_elf", "--kernel elf:copy_npu2/aie.elf:32:8"),
        (
            "copy_npu2_pdi",
            "--kernel-name MLIR_AIE --kernel-insts copy_npu2/insts.bin \
             --kernel-pdi copy_npu2/design.pdi --kernel-kernarg 32 --kernel-cols 8",
        ),
    ] {
        scene
            .run(
                "aie-hsaco",
                &format!("--hsaco {expected} --arch aie2p {spec}"),
            )
            .ok();
        let upstream = bytes(&format!("upstream_hsaco/{expected}.hsaco"));
        assert!(scene.read(expected) == upstream, "{expected}");
    }
    let dumped = scene
        .run("aie-hsaco-dump", "--hsaco copy_npu2_pdi")
        .ok()
        .stdout();
    assert!(
        dumped.contains("  kernel MLIR_AIE: kind=PdiInsts insts=316B pdi=yes"),
        "{dumped}"
    );
    for wrong in ["--kernel k:none:1:1", "--kernel k", "--nonsense x", ""] {
        let arguments = format!("--hsaco out --arch aie2 {wrong}");
        scene
            .run("aie-hsaco", &arguments)
            .fails(2, &["aie-hsaco: error: "]);
        assert!(!scene.has("out"));
    }
}
