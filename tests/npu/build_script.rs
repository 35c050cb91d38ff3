//! `npu_build::build_script` with kernels for an NPU: what is written, and what Cargo is told.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use npu_build::toolchain::Format;
use npu_build::{Package, Runtime, ScriptError, Target, build_script};

use crate::common::Outcome;
use crate::kernels;
use crate::scene::{AIECC, AIRCC, LOWER, NOTHING, PACK, Scene};

/// A crate with two kernels, in the scene.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.file("crate/kernels/tiled.mlir", kernels::gridded());
    scene.file(
        "crate/kernels/linked.mlir",
        kernels::aie_with("npu2", " { link_files = [\"lib/add.o\"] }"),
    );
    scene.file("crate/kernels/lib/add.o", "x");
    scene.file("crate/table.txt", "1");
    let script = fs::read_to_string(scene.tools.transform()).unwrap();
    let include = "    transform.include @tile failures(propagate) () {library = \"library.mlir\"} : () -> ()\n    transform.yield\n";
    scene.file(
        "crate/tiles/script.mlir",
        script.replace("    transform.yield\n", include),
    );
    scene.file("crate/tiles/library.mlir", "module {\n}\n");
    scene
}

/// What the crate's build script would be. Run as a program of its own, since it has the process's
/// environment from Cargo.
#[test]
#[ignore = "the other tests run it, as Cargo runs a build script"]
fn script() -> Result<(), ScriptError> {
    let stubs = std::env::var_os("STUBS").is_some();
    let script = build_script()
        .target(Target::Npu2)
        .runtime(Runtime::Hsa)
        .format(Package::As(Format::Elf))
        .stubs(stubs)
        .kernel("kernels/tiled.mlir")
        .grid((4, 2))
        .transform("tiles/script.mlir")
        .option("stack-size", "4096")
        .kernel("kernels/linked.mlir")
        .input("table.txt")
        .tool_argument("--dynamic-objFifos");
    let script = match std::env::var("OPTION") {
        Ok(value) => script.option("stack-size", &value),
        Err(_) => script,
    };
    let script = match std::env::var("ALSO").as_deref() {
        Ok("xrt") => script.also(Target::Npu2, Runtime::Xrt),
        Ok("cpu") => script.also(Target::Cpu, Runtime::Cpu),
        _ => script,
    };
    script.compile()
}

/// Runs it.
fn run(scene: &Scene, prepare: impl FnOnce(&mut Command)) -> Outcome {
    let out_dir = scene.path().join("out");
    fs::create_dir_all(&out_dir).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "build_script::script",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", scene.path())
        .env("OUT_DIR", out_dir)
        .env("CARGO_MANIFEST_DIR", scene.path().join("crate"))
        .env("CARGO_CFG_TARGET_ARCH", "riscv64")
        .env("VIRTUAL_ENV", scene.tools.venv())
        .env("XILINX_XRT", scene.path().join("root/xrt"));
    prepare(&mut command);
    Outcome(command.output().unwrap())
}

/// The files that Cargo is to watch.
fn watched(told: &Outcome) -> BTreeSet<PathBuf> {
    let text = told.stdout();
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("cargo::rerun-if-changed="));
    lines.map(PathBuf::from).collect()
}

/// The names in OUT_DIR, without the cache and the digests in them.
fn written(scene: &Scene) -> Vec<String> {
    let names = fs::read_dir(scene.path().join("out")).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<_> = names
        .filter(|name| name != "npu-build-cache")
        .map(|name| match name.rsplit_once('-') {
            Some((stem, rest)) => format!("{stem}.{}", rest.split_once('.').unwrap().1),
            None => name,
        })
        .collect();
    names.sort();
    names
}

#[test]
fn kernels_are_built_into_out_dir_and_every_input_is_told() {
    let scene = scene();
    let told = run(&scene, |_| {});
    assert_eq!(told.code(), 0, "{told:?}");
    assert_eq!(scene.ran(), LOWER + AIRCC + AIECC + PACK);
    assert_eq!(
        written(&scene),
        [
            "linked.rs",
            "main_sequence.hsaco",
            "tiled.rs",
            "twice.hsaco"
        ]
    );
    let watched = watched(&told);
    let file = |name: &str| scene.path().join("crate").join(name);
    for name in [
        "kernels/tiled.mlir",
        "kernels/linked.mlir",
        "kernels/lib/add.o",
        "table.txt",
        "tiles/script.mlir",
        "tiles/library.mlir",
    ] {
        assert!(watched.contains(&file(name)), "no {name} in {watched:?}");
    }
    for tool in [
        "air-opt",
        "aircc",
        "aiecc",
        "bootgen",
        "aiebu-asm",
        "aie-hsaco",
        "llc",
    ] {
        assert!(
            watched.contains(&scene.tools.tool(tool)),
            "no {tool} in {watched:?}"
        );
    }
    for path in &watched {
        assert!(path.exists(), "{} would rebuild for ever", path.display());
    }
    for variable in [
        "NPU_BUILD_RUNTIME",
        "NPU_BUILD_TRANSFORM",
        "AIR_TRANSFORM_TILING_SCRIPT",
        "PEANO_INSTALL_DIR",
    ] {
        let line = format!("cargo::rerun-if-env-changed={variable}\n");
        assert!(told.stdout().contains(&line), "no {variable}");
    }
    assert!(!told.stdout().contains("cargo::warning"), "{told:?}");
    // The machine that the crate is for may be any: the NPU's code is the same.
    let again = run(&scene, |command| {
        command.env("CARGO_CFG_TARGET_ARCH", std::env::consts::ARCH);
    });
    assert_eq!(again.code(), 0, "{again:?}");
    assert_eq!(scene.ran(), NOTHING);
}

#[test]
fn a_change_of_any_of_them_builds_again() {
    let scene = scene();
    run(&scene, |_| {});
    scene.ran();
    for (name, content, runs) in [
        ("kernels/lib/add.o", "other", AIECC + PACK),
        ("table.txt", "2", AIECC),
        (
            "tiles/library.mlir",
            "module {\n  func.func private @f()\n}\n",
            LOWER + AIRCC,
        ),
    ] {
        scene.file(&format!("crate/{name}"), content);
        assert_eq!(run(&scene, |_| {}).code(), 0);
        assert_eq!(scene.ran(), runs, "{name}");
    }
}

#[test]
fn a_failure_names_the_kernel_and_the_reason() {
    let scene = scene();
    let told = run(&scene, |command| {
        command.env("OPTION", "big");
    });
    let words = format!("{}{}", told.stdout(), told.stderr());
    assert_ne!(told.code(), 0);
    assert!(
        words.contains("kernels/linked.mlir: stack-size=big: a number of bytes"),
        "{words}"
    );
    fs::remove_file(scene.path().join("crate/kernels/lib/add.o")).unwrap();
    let told = run(&scene, |_| {});
    let words = format!("{}{}", told.stdout(), told.stderr());
    assert_ne!(told.code(), 0);
    assert!(
        words.contains("linked.mlir: the link file ") && words.contains("lib/add.o: No such file"),
        "{words}"
    );
}

/// Without a toolchain, and with the types that the real launcher has.
#[test]
fn stubs_need_no_toolchain() {
    let scene = scene();
    let told = run(&scene, |command| {
        command
            .env("STUBS", "1")
            .env_remove("VIRTUAL_ENV")
            .env_remove("XILINX_XRT");
    });
    assert_eq!(told.code(), 0, "{told:?}");
    assert_eq!(scene.ran(), NOTHING);
    assert_eq!(written(&scene), ["linked.rs", "tiled.rs"]);
    let signature = |text: &str| {
        let from = text.find(" fn launch").unwrap();
        text[from..].split('{').next().unwrap().to_owned()
    };
    let read = |name: &str| fs::read_to_string(scene.path().join("out").join(name)).unwrap();
    let stubs = ["tiled.rs", "linked.rs"].map(|name| signature(&read(name)));
    run(&scene, |_| {});
    assert_eq!(
        ["tiled.rs", "linked.rs"].map(|name| signature(&read(name))),
        stubs
    );
}

#[test]
fn what_else_is_built_for_is_in_the_same_launcher() {
    let scene = scene();
    assert_eq!(run(&scene, |_| {}).code(), 0);
    scene.ran();
    let also = |what: &str| {
        run(&scene, |command| {
            command.env("ALSO", what);
        })
    };
    let told = also("xrt");
    assert_eq!(told.code(), 0, "{told:?}");
    // What was packed for hsa is what xrt loads.
    assert_eq!(scene.ran(), NOTHING);
    let launcher = fs::read_to_string(scene.path().join("out/tiled.rs")).unwrap();
    for file in [".hsaco", ".elf"] {
        assert!(launcher.contains(file), "no {file} in {launcher}");
    }
    // The machine that the crate is compiled for has none of this one's cores.
    let told = also("cpu");
    assert_ne!(told.code(), 0);
    assert!(
        told.stderr().contains("but the crate for riscv64"),
        "{told:?}"
    );
}
