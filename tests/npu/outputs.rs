//! Outputs are proven, not assumed: whatever a tool leaves or does not leave, with whatever exit
//! status, nothing but the right artifact is ever published.

use crate::failures::{aie, told_and_recovers};
use crate::kernels;
use crate::scene::Scene;

/// Exit status 0 all the same. Nothing is stale: the directory is empty at the start.
#[test]
fn of_aiecc_that_are_missing_empty_cut_or_no_file() {
    for dialect in [1, 3] {
        let scene = aie(dialect);
        for (format, kind, name) in [
            ("xclbin", "xclbin", "kernel.xclbin"),
            ("xclbin", "insts", "kernel.insts.bin"),
            ("elf", "elf", "kernel.elf"),
            ("pdi", "pdi", "kernel.pdi"),
        ] {
            for (output, says) in [
                ("missing", "but made no "),
                ("stale", "but made no "),
                ("empty", "is empty"),
                ("truncated", "is unusable: "),
                ("garbage", "is unusable: "),
                ("directory", "is not a regular file"),
                ("unwritable", "but made no "),
            ] {
                let control = format!("output = {output}\nonly = {kind}");
                let words = ["k.mlir: the tools reported success", says, name];
                let arguments = format!("k.mlir --format {format}");
                told_and_recovers(&scene, &arguments, "aiecc", &control, &words);
            }
        }
    }
}

/// What aiecc's helpers do wrong aiecc does not notice, or not as what it is.
#[test]
fn of_the_helpers_of_aiecc() {
    let scene = aie(3);
    for (helper, format) in [
        ("xclbinutil", "xclbin"),
        ("aiebu-asm", "elf"),
        ("bootgen", "pdi"),
        ("bootgen", "xclbin"),
        ("bootgen", "elf"),
    ] {
        for output in ["missing", "empty", "truncated", "garbage"] {
            // What bootgen leaves is wrapped by the others.
            let arguments = format!("k.mlir --format {format}");
            let control = format!("output = {output}");
            told_and_recovers(&scene, &arguments, helper, &control, &["k.mlir: "]);
        }
    }
}

#[test]
fn of_aiecc_under_aircc() {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::air());
    let arguments = "k.mlir --target npu2 --format xclbin";
    for (output, says) in [
        ("missing", "made no kernel.insts.bin"),
        ("truncated", "kernel.insts.bin is unusable"),
    ] {
        let control = format!("output = {output}\nonly = insts");
        let words = ["k.mlir: the tools reported success", says];
        told_and_recovers(&scene, arguments, "aiecc", &control, &words);
    }
}

/// Half an AIR text is text, and would be a kernel that can't be compiled for as long as it is kept.
#[test]
fn of_air_opt() {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::gridless());
    let arguments = "k.mlir --target npu2 --transform root/transform.mlir";
    for (output, says) in [
        ("missing", "made no kernel.air.mlir"),
        ("empty", "kernel.air.mlir is empty"),
        ("truncated", "kernel.air.mlir is unusable: truncated MLIR"),
        ("garbage", "kernel.air.mlir is unusable: not MLIR"),
    ] {
        // The last of the three runs, then the first.
        let control = format!("output = {output}\nwhen = air-par-to-launch");
        let words = ["k.mlir: the tools reported success", says];
        told_and_recovers(&scene, arguments, "air-opt", &control, &words);
        if ["missing", "truncated"].contains(&output) {
            let control = format!("output = {output}\nwhen = air-resolve");
            told_and_recovers(
                &scene,
                arguments,
                "air-opt",
                &control,
                &["k.mlir: air-opt failed"],
            );
        }
    }
    assert_eq!(scene.entries_of(&["lower"]).len(), 1);
}

/// The offset of `wanted` in the artifact of a good build, for a patch.
fn offset_of(bytes: &[u8], wanted: &[u8]) -> usize {
    let mut windows = bytes.windows(wanted.len());
    windows.position(|window| window == wanted).unwrap()
}

#[test]
fn that_are_for_another_device() {
    let scene = aie(3);
    // The first word of a stream has its generation: 3 is npu1's.
    for arguments in ["k.mlir --format xclbin", "k.mlir --format pdi"] {
        let words = [
            "kernel.insts.bin is unusable",
            "device generation 3",
            "aie2p is generation 4",
        ];
        told_and_recovers(
            &scene,
            arguments,
            "aiecc",
            "only = insts\npatch = 2:03",
            &words,
        );
    }
}

#[test]
fn that_have_other_columns() {
    let scene = aie(3);
    let elf = scene.compile("k.mlir").first();
    // One note: owner XRT, type 6, the columns behind it.
    let note = offset_of(&elf, b"\x04\0\0\0\x04\0\0\0\x06\0\0\0XRT\0");
    assert_eq!(elf[note + 16], 8);
    let control = format!("patch = {}:04", note + 16);
    let words = ["kernel.elf is unusable", "says 4 columns", "compiled for 8"];
    told_and_recovers(&scene, "k.mlir", "aiebu-asm", &control, &words);

    // An AIE_PARTITION begins with 32 bytes before its width.
    let xclbin = scene.compile("k.mlir --format xclbin").first();
    let headers = xclbin[0x1c8..].chunks(40);
    let header = headers.take(8).find(|header| header[0] == 32).unwrap();
    let start = u64::from_le_bytes(header[24..32].try_into().unwrap());
    let width = usize::try_from(start).unwrap() + 32;
    assert_eq!(xclbin[width], 8);
    let control = format!("patch = {width}:04\nonly = xclbin");
    let words = ["kernel.xclbin is unusable", "4 columns", "compiled for 8"];
    told_and_recovers(
        &scene,
        "k.mlir --format xclbin",
        "xclbinutil",
        &control,
        &words,
    );
}

#[test]
fn that_have_other_kernels() {
    let scene = aie(3);
    let elf = scene.compile("k.mlir").first();
    // The names in the full ELF's string table: another instance than was asked for.
    let name = offset_of(&elf, b"sequence");
    let control = format!("patch = {name}:53");
    let words = ["kernel.elf is unusable", "main:Sequence", "main:sequence"];
    told_and_recovers(&scene, "k.mlir", "aiebu-asm", &control, &words);

    let xclbin = scene.compile("k.mlir --format xclbin").first();
    let name = offset_of(&xclbin, b"MLIR_AIE:MLIRAIE");
    let control = format!("patch = {name}:41\nonly = xclbin");
    let words = [
        "kernel.xclbin is unusable",
        "no kernel 'MLIR_AIE:MLIRAIE'",
        "ALIR_AIE",
    ];
    told_and_recovers(
        &scene,
        "k.mlir --format xclbin",
        "xclbinutil",
        &control,
        &words,
    );
}

/// A full ELF cut anywhere is seen to be cut.
#[test]
fn that_are_cut_at_any_length() {
    let scene = aie(3);
    let size = scene.compile("k.mlir").first().len();
    for length in [
        1,
        4,
        16,
        51,
        52,
        53,
        size / 4,
        size / 3,
        size - 40,
        size - 1,
    ] {
        let control = format!("truncate_to = {length}");
        scene.tools.misbehave("aiebu-asm", &control).unwrap();
        scene.refuses("k.mlir --refresh", 1, &["kernel.elf is unusable"]);
    }
}

/// Exit 0, a full ELF, and beside it a configuration that lists another kernel: one of them lies.
#[test]
fn that_contradict_the_configuration_beside_them() {
    let scene = aie(3);
    let elf = scene.compile("k.mlir").first();
    let name = offset_of(&elf, b"_Z4main");
    // One more kernel would be one that nobody asked for; a renamed one is missed.
    let control = format!("patch = {}:4d", name + 3);
    let words = [
        "kernel.elf is unusable",
        "no kernel 'main:sequence': there is Main:sequence",
    ];
    told_and_recovers(&scene, "k.mlir", "aiebu-asm", &control, &words);
}
