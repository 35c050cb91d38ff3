//! aie-hsaco and aie-hsaco-dump, against files that upstream's packer made.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use std::fs;

use common::{Outcome, Scene, real};

fn pack(scene: &Scene, arguments: &[&str]) -> Outcome {
    let path = format!(
        "{}:{}",
        scene.tools.tool("llvm-objcopy").parent().unwrap().display(),
        scene.tools.search_path()
    );
    let mut command = scene.command("aie-hsaco");
    command
        .current_dir(real(""))
        .env("PATH", path)
        .args(arguments);
    Outcome(command.output().unwrap())
}

#[test]
fn files_are_byte_for_byte_upstreams() {
    for (name, arch, spec) in [
        ("copy_npu2_elf", "aie2p", "elf:copy_npu2/aie.elf:32:8"),
        (
            "two_kernels_npu2_elf",
            "aie2p",
            "elf:two_kernels_npu2/aie.elf:0:8",
        ),
        (
            "copy_npu1_xclbin",
            "aie2",
            "xclbin:MLIR_AIE:copy_npu1/design.xclbin:copy_npu1/insts.bin:32:4",
        ),
        (
            "copy_npu2_pdi",
            "aie2p",
            "MLIR_AIE:copy_npu2/insts.bin:copy_npu2/design.pdi:32:8",
        ),
    ] {
        let scene = Scene::new(1);
        let out = scene.work.join("out.hsaco");
        pack(
            &scene,
            &[
                "--hsaco",
                out.to_str().unwrap(),
                "--arch",
                arch,
                "--kernel",
                spec,
            ],
        )
        .ok();
        let expected = fs::read(real("upstream_hsaco").join(format!("{name}.hsaco"))).unwrap();
        assert!(scene.read("out.hsaco") == expected, "{name}");
    }
}

#[test]
fn the_worked_example_of_the_format() {
    let scene = Scene::new(1);
    scene.file("insts", [1, 2, 3, 4, 5, 6, 7, 8]);
    scene.file("pdi", "PDIDATA!");
    let (insts, pdi, out) = ("insts", "pdi", "out");
    let [insts, pdi, out] = [insts, pdi, out].map(|n| scene.work.join(n).display().to_string());
    let second = format!("k2:{insts}:{pdi}:16:4");
    let long = [
        "--hsaco",
        &out,
        "--arch=aie2p",
        "--kernel-name",
        "k1",
        "--kernel-insts",
        &insts,
        "--kernel-pdi",
        &pdi,
        "--kernel-kernarg",
        "32",
        "--kernel-cols",
        "4",
        "--kernel",
        &second,
    ];
    pack(&scene, &long).ok();
    let hex = "4149454b010000003000000002000000 2c000000880000000600 00008e000000";
    let start: String = hex.split_whitespace().collect();
    let bytes = scene.read("out");
    let section = &bytes[0x51..0x51 + 158];
    let text: String = section.iter().map(|b| format!("{b:02x}")).collect();
    assert!(text.starts_with(&start), "{text}");
    assert!(
        text.ends_with(
            "6b31006b32000102030405060708504449444154 4121"
                .replace(' ', "")
                .as_str()
        ),
        "{text}"
    );
    let dump = scene
        .run("aie-hsaco-dump", &["--hsaco", "out"])
        .ok()
        .stdout();
    assert_eq!(
        dump,
        "arch section: aie2p\nversion: 1.0\n  kernel k1: kind=PdiInsts insts=8B pdi=yes kernarg=32 cols=4\n  kernel k2: kind=PdiInsts insts=8B pdi=yes kernarg=16 cols=4\n"
    );
}

#[test]
fn bad_input_ends_with_2_and_leaves_nothing() {
    for arguments in [
        &["--kernel", "k:none:1:1"][..],
        &["--kernel", "k:copy_npu2/insts.bin:1"],
        &["--kernel", "k:copy_npu2/insts.bin:x:1"],
        &[
            "--kernel",
            "k:copy_npu2/insts.bin:16:1",
            "--kernel",
            "k:copy_npu2/insts.bin:16:1",
        ],
        &["--kernel", "elf:copy_npu2/insts.bin"],
        &["--kernel-insts", "copy_npu2/insts.bin"],
        &[
            "--kernel-name",
            "k",
            "--kernel-insts",
            "copy_npu2/insts.bin",
            "--kernel-cols",
            "1",
        ],
        &["--nonsense", "x"],
        &[],
    ] {
        let scene = Scene::new(1);
        let out = scene.work.join("out").display().to_string();
        let whole = [&["--hsaco", &out, "--arch", "aie2"], arguments].concat();
        pack(&scene, &whole).fails(2, &["aie-hsaco: error: "]);
        assert!(!scene.has("out"));
    }
    let scene = Scene::new(1);
    let out = scene.work.join("out").display().to_string();
    pack(
        &scene,
        &[
            "--hsaco",
            &out,
            "--arch",
            "gfx942",
            "--kernel",
            "k:copy_npu2/insts.bin:16:1",
        ],
    )
    .fails(2, &["invalid choice"]);
    let no_objcopy = scene
        .command("aie-hsaco")
        .current_dir(real(""))
        .env("PATH", "/nonexistent")
        .args([
            "--hsaco",
            &out,
            "--arch=aie2",
            "--kernel",
            "k:copy_npu2/insts.bin:16:1",
        ])
        .output()
        .unwrap();
    Outcome(no_objcopy).fails(2, &["llvm-objcopy not found"]);
}

#[test]
fn the_newest_packer_checks_columns() {
    let scene = Scene::new(1);
    let out = scene.work.join("out").display().to_string();
    let ask = [
        "--hsaco",
        &out,
        "--arch",
        "aie2p",
        "--kernel",
        "elf:copy_npu2/aie.elf:32:4",
    ];
    pack(&scene, &ask).ok();
    scene.tools.set_dialect("aie-hsaco", 2).unwrap();
    pack(&scene, &ask).fails(2, &["compiled for 8 columns"]);
}
