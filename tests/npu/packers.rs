//! The built-in packer and an aie-hsaco: the same section, whoever packs; and what is refused.

use std::fs;
use std::process::Command;

use npu_formats::Arch;
use npu_formats::container::Elf64;

use crate::judge;
use crate::kernels;
use crate::scene::{AIECC, Built, NOTHING, PACK, Scene};

fn section(built: &Built, arch: Arch) -> Vec<u8> {
    let hsaco = built.first();
    let elf = Elf64::parse(&hsaco).unwrap();
    elf.section(arch).unwrap().unwrap().to_vec()
}

/// A file with several kernels, and one with one.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.file("one.mlir", kernels::aie("npu2"));
    scene.file("npu1.mlir", kernels::aie("npu1"));
    let several = kernels::module(&[
        kernels::copy_device("npu2", "first", &[("a", 256), ("b", 512)]),
        kernels::copy_device("npu2", "second", &[("a", 1024)]),
    ]);
    scene.file("several.mlir", several);
    scene
}

#[test]
fn both_give_the_same_section() {
    let scene = scene();
    for (arguments, arch) in [
        ("one.mlir --format elf", Arch::Aie2p),
        ("one.mlir --format xclbin", Arch::Aie2p),
        ("several.mlir --format elf", Arch::Aie2p),
        ("several.mlir --format xclbin", Arch::Aie2p),
        ("npu1.mlir", Arch::Aie2),
    ] {
        let arguments = format!("{arguments} --runtime hsa");
        let program = scene.compile(&arguments);
        assert_eq!(scene.ran(), AIECC + PACK, "{arguments}");
        let builtin = scene.compile(&format!("{arguments} --hsaco-packer builtin"));
        assert_eq!(scene.ran(), NOTHING, "{arguments}");
        let steps = builtin.steps();
        assert!(
            steps.starts_with("compile hit, pack built, launcher "),
            "{steps}"
        );
        assert_eq!(
            section(&program, arch),
            section(&builtin, arch),
            "{arguments}"
        );
        let dumps =
            [&program, &builtin].map(|built| judge::hsaco_dump(&scene, &built.artifacts(0)[0]));
        assert_eq!(dumps[0], dumps[1]);
        let names = program.names();
        assert_eq!(dumps[0].matches("  kernel ").count(), names.len());
        for name in names {
            assert!(
                dumps[0].contains(&format!("  kernel {name}: ")),
                "{}",
                dumps[0]
            );
        }
    }
}

#[test]
fn a_packer_is_chosen_by_flag_variable_and_file() {
    let scene = scene();
    let own = scene.path().join("own/packer");
    scene.tools.copy(&own, "aie-hsaco", 1, "9").unwrap();
    let runs = || {
        let log = fs::read_to_string(own.with_file_name("aie-hsaco.log"));
        log.map_or(0, |log| {
            log.lines().filter(|line| line.contains("--arch")).count()
        })
    };
    let arguments = "one.mlir --runtime hsa";
    let path = scene.compile(&format!("{arguments} --hsaco-packer own/packer"));
    assert_eq!((scene.ran(), runs()), (AIECC, 1));
    scene.file(
        "npu-build.toml",
        "[toolchain]\nhsaco-packer = \"own/packer\"\n",
    );
    assert_eq!(scene.compile(arguments).artifacts(0), path.artifacts(0));
    let mut command = scene.npu_build();
    command.env("NPU_BUILD_HSACO_PACKER", "auto");
    crate::scene::compile(command, arguments);
    assert_eq!(scene.ran(), PACK);
    scene.file(
        "npu-build.toml",
        "[toolchain]\nhsaco-packer = \"none/packer\"\n",
    );
    let words = [
        "aie-hsaco that toolchain.hsaco-packer in npu-build.toml names cannot be used",
        "none",
    ];
    scene.ran();
    // Before anything is compiled.
    scene.refuses(&format!("{arguments} --format xclbin"), 3, &words);
    assert_eq!(scene.ran(), NOTHING);
    // XRT needs no packer.
    scene.compile("one.mlir --runtime xrt");
}

#[test]
fn an_aie_hsaco_that_fails_is_told_and_leaves_nothing() {
    for (control, code, words) in [
        (
            "stderr = aie-hsaco: error: no kernels given\nexit = 2",
            1,
            &[
                "one.mlir: aie-hsaco failed with exit status 2",
                "aie-hsaco: error: no kernels given",
            ][..],
        ),
        (
            "signal = 9",
            1,
            &["one.mlir: aie-hsaco was ended by signal 9"],
        ),
        (
            "output = missing",
            1,
            &["one.mlir: the tools reported success, but made no kernel.hsaco"],
        ),
        ("output = empty", 1, &["kernel.hsaco is empty"]),
        ("output = truncated", 1, &["kernel.hsaco is unusable"]),
        ("output = garbage", 1, &["kernel.hsaco is unusable"]),
        (
            "output = directory",
            1,
            &["kernel.hsaco is not a regular file"],
        ),
    ] {
        let scene = scene();
        let arguments = "one.mlir --runtime hsa";
        scene.compile("one.mlir");
        scene.tools.misbehave("aie-hsaco", control).unwrap();
        scene.refuses(arguments, code, words);
        scene.tools.behave("aie-hsaco");
        scene.ran();
        assert_eq!(
            scene.compile(arguments).steps(),
            "compile hit, pack built, launcher built"
        );
        assert_eq!(scene.ran(), PACK);
    }
}

/// What ROCR refuses to load is refused when it is packed, in ROCR's words and whoever packs.
#[test]
fn a_full_elf_without_a_pdi_site_is_refused_by_both() {
    let scene = scene();
    let text = kernels::aie("npu2").replace("      aiex.npu.load_pdi { device_ref = @main }\n", "");
    scene.file("unloaded.mlir", text);
    // XRT loads it.
    scene.compile("unloaded.mlir");
    scene.ran();
    for (packer, runs) in [("auto", PACK), ("builtin", NOTHING)] {
        let arguments = format!("unloaded.mlir --runtime hsa --hsaco-packer {packer}");
        scene.refuses(
            &arguments,
            1,
            &[
                "unloaded.mlir: ",
                "has no PDI patch site in its control code",
            ],
        );
        assert_eq!(scene.ran(), runs, "{packer}");
    }
    let told = scene.run("compile unloaded.mlir --runtime hsa --hsaco-packer builtin");
    told.fails(1, &["aiex.npu.load_pdi", "--format xclbin"]);
    scene.compile("unloaded.mlir --runtime hsa --format xclbin");
}

/// An hsaco is packed from what was compiled for it, and says so to LLVM.
#[test]
fn an_hsaco_of_the_built_in_packer_is_read_by_llvm() {
    let scene = scene();
    let built = scene.compile("several.mlir --runtime hsa --hsaco-packer builtin");
    let said = judge::llvm_readelf(&built.artifacts(0));
    assert!(
        said.contains("EM_AMDGPU") && said.contains("] aie2p "),
        "{said}"
    );
    let objcopy = aie_tools::install::real_llvm_objcopy().unwrap();
    let dumped = scene.path().join("section");
    let status = Command::new(objcopy)
        .arg(format!("--dump-section=aie2p={}", dumped.display()))
        .arg(&built.artifacts(0)[0])
        .arg("/dev/null")
        .status();
    assert!(status.unwrap().success());
    assert_eq!(fs::read(dumped).unwrap(), section(&built, Arch::Aie2p));
}
