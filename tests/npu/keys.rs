//! Which change makes which step run again.

use std::fs;

use crate::kernels;
use crate::scene::{AIECC, AIRCC, Built, LOWER, NOTHING, PACK, Runs, Scene, compile};

const LINALG: &str = "k.mlir --target npu2 --grid 4 --transform root/transform.mlir";

fn linalg() -> Scene {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::gridded());
    scene.compile(LINALG);
    scene.ran();
    scene
}

fn aie() -> Scene {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::aie("npu2"));
    scene.compile("k.mlir");
    scene.ran();
    scene
}

/// Compiles, and expects these runs; then once more, and expects none.
#[track_caller]
fn runs(scene: &Scene, arguments: &str, expected: Runs) -> Built {
    let built = scene.compile(arguments);
    assert_eq!(scene.ran(), expected, "{arguments}: {}", built.steps());
    assert_eq!(scene.compile(arguments).outcome(), "hit", "{arguments}");
    assert_eq!(scene.ran(), NOTHING, "{arguments}");
    built
}

#[test]
fn another_runtime_packs_and_does_not_compile() {
    // The kernel of a full ELF of aircc's runs another, which the built-in packer leaves out.
    for (format, packs) in [("elf", NOTHING), ("xclbin", PACK)] {
        let scene = linalg();
        let arguments = format!("{LINALG} --format {format}");
        scene.compile(&arguments);
        scene.ran();
        let built = runs(&scene, &format!("{arguments} --runtime hsa"), packs);
        assert_eq!(
            built.steps(),
            "lower hit, compile hit, pack built, launcher built"
        );
        runs(&scene, &arguments, NOTHING);
    }
}

#[test]
fn another_target_or_format_compiles_again_and_does_not_lower() {
    let scene = linalg();
    runs(&scene, &format!("{LINALG} --format xclbin"), AIRCC);
    runs(&scene, &format!("{LINALG} --format pdi"), AIRCC);
    runs(&scene, &LINALG.replace("npu2", "npu1"), AIRCC);
    // What auto is has been made.
    runs(&scene, &format!("{LINALG} --format elf"), NOTHING);
    runs(&scene, &format!("{LINALG} --format auto"), NOTHING);
}

/// An equal artifact of other tools is launched by the launcher that there is.
#[test]
fn a_launcher_is_made_again_only_for_other_bytes() {
    let scene = linalg();
    scene.tools.upgrade("aiecc").unwrap();
    let built = scene.compile(LINALG);
    assert_eq!(built.steps(), "lower hit, compile built, launcher hit");
}

/// The AIR is the same for all targets, so its nearest entry may have been made for another.
#[test]
fn lowering_is_explained_by_the_nearest_entry_of_any_target() {
    let scene = linalg();
    let edited = |value: &str| kernels::gridded().replace("constant 64", value);
    scene.file("k.mlir", edited("constant 64 "));
    scene.compile(&LINALG.replace("npu2", "npu1"));
    scene.file("k.mlir", edited("constant 64  "));
    let told = scene.run(&format!("explain --json {LINALG}")).stdout();
    let told: serde_json::Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    let lowered = scene.entries_of(&["lower"]);
    let newest = lowered
        .iter()
        .max_by_key(|entry| fs::metadata(entry).unwrap().modified().unwrap());
    let name = newest.unwrap().strip_prefix(scene.cache.join("v1/entries"));
    let key = name.unwrap().to_str().unwrap().replace('/', "");
    assert_eq!(told["nearest"]["key"], *key, "{told}");
}

#[test]
fn every_option_of_the_compiler_compiles_again() {
    let scene = linalg();
    for option in [
        "--option stack-size=4096",
        "--option tiling-sizes=4,4,4",
        "--option bf16-emulation=true",
        "--option device=npu2_4col",
        "--input extra.txt",
        "--format xclbin",
        "--format xclbin --option xclbin-kernel-name=MINE",
        "--format xclbin --option xclbin-instance-name=IT",
        "--format xclbin --option xclbin-kernel-id=0x902",
    ] {
        scene.file("extra.txt", "one");
        runs(&scene, &format!("{LINALG} {option}"), AIRCC);
    }
    runs(&scene, &format!("{LINALG} -- --omit-auto-broadcast"), AIRCC);
    runs(
        &scene,
        &format!("{LINALG} -- --omit-auto-broadcast -v"),
        AIRCC,
    );
    // What was the default all along is no change.
    for same in [
        "--option stack-size=2048",
        "--option tiling-sizes=4,4",
        "--option bf16-emulation=false",
        "--option device=npu2",
    ] {
        runs(&scene, &format!("{LINALG} {same}"), NOTHING);
    }
}

#[test]
fn every_option_of_aiecc_compiles_again() {
    let scene = aie();
    for option in [
        "--option stack-size=4096",
        "--option bf16-emulation=true",
        "-- --dynamic-objFifos",
        "-- -O3",
    ] {
        runs(&scene, &format!("k.mlir {option}"), AIECC);
    }
    runs(&scene, "k.mlir --option bf16-emulation=false", NOTHING);
}

#[test]
fn the_grid_lowers_and_compiles_again() {
    let scene = linalg();
    runs(
        &scene,
        &LINALG.replace("--grid 4", "--grid 8"),
        LOWER + AIRCC,
    );
    runs(
        &scene,
        &format!("{LINALG} --option actual-sizes=200,1"),
        LOWER + AIRCC,
    );
    runs(&scene, &LINALG.replace("--grid 4", "--grid 4,1,1"), NOTHING);
}

/// What is chained is the content: a text that lowers to the same AIR is not compiled again.
#[test]
fn the_same_air_is_not_compiled_again() {
    let scene = linalg();
    let one = scene.compile(LINALG);
    scene.file("k.mlir", kernels::gridded().replace("    %", "\t   %"));
    let other = runs(&scene, LINALG, LOWER);
    assert_eq!(one.artifacts(0), other.artifacts(0));
    assert_ne!(one.key("lower"), other.key("lower"));
    assert_eq!(one.key("compile"), other.key("compile"));
}

#[test]
fn comments_locations_and_white_space_are_no_change() {
    for (scene, arguments, text) in [
        (linalg(), LINALG, kernels::gridded()),
        (aie(), "k.mlir", kernels::aie("npu2")),
    ] {
        for changed in [
            format!("// A comment.\n{text}"),
            text.replace("module {\n", "module { // Why not.\n\n\n"),
            format!("#loc = loc(\"/home/me/k.py\":3:1)\n{text}"),
            text.replace('\n', " // End.\n"),
        ] {
            scene.file("k.mlir", changed);
            runs(&scene, arguments, NOTHING);
        }
    }
    let scene = linalg();
    scene.file(
        "k.mlir",
        kernels::gridded().replace("    return\n", "    return loc(\"/home/me/k.py\":3:1)\n"),
    );
    runs(&scene, LINALG, NOTHING);
    scene.file("k.mlir", kernels::gridded().replace("addf", "mulf"));
    runs(&scene, LINALG, LOWER + AIRCC);
}

#[test]
fn a_transform_script_lowers_again_and_its_comments_do_not() {
    let scene = linalg();
    let script = fs::read_to_string(scene.tools.transform()).unwrap();
    scene.file(
        "root/transform.mlir",
        format!("// Another comment.\n{script}"),
    );
    runs(&scene, LINALG, NOTHING);
    scene.file("elsewhere/t.mlir", &script);
    runs(
        &scene,
        &LINALG.replace("root/transform.mlir", "elsewhere/t.mlir"),
        NOTHING,
    );
    scene.file("root/transform.mlir", script.replace("[256]", "[128]"));
    runs(&scene, LINALG, LOWER + AIRCC);
}

#[test]
fn an_input_file_counts_by_its_name_and_content() {
    let scene = aie();
    scene.file("a/table.txt", "one");
    runs(&scene, "k.mlir --input a/table.txt", AIECC);
    scene.file("b/table.txt", "one");
    runs(&scene, "k.mlir --input b/table.txt", NOTHING);
    scene.file("b/table.txt", "two");
    runs(&scene, "k.mlir --input b/table.txt", AIECC);
    scene.file("b/list.txt", "two");
    runs(&scene, "k.mlir --input b/list.txt", AIECC);
}

/// What runs after another build of a single tool was installed: the steps that it is used in.
#[test]
fn an_upgrade_of_any_tool_runs_its_steps_again() {
    let arguments = format!("{LINALG} --runtime hsa");
    let scene = Scene::new();
    scene.file("k.mlir", kernels::gridded());
    scene.compile(&arguments);
    scene.compile(&format!("{arguments} --format xclbin"));
    scene.ran();
    // The formats' packaging programs are not used by each other. The tools of one wheel share its
    // RECORD, which is part of their identity: the AIR stays the same, and is not compiled for
    // air-opt's sake alone.
    let (air, aie) = (LOWER + AIRCC, AIRCC + PACK);
    for (tool, elf, xclbin) in [
        ("air-opt", air, AIRCC + PACK),
        ("aircc", air, AIRCC + PACK),
        ("aiecc", AIRCC, aie),
        ("bootgen", AIRCC, aie),
        ("aie-hsaco", AIRCC, aie),
        ("llc", AIRCC, aie),
        ("opt", AIRCC, aie),
        ("clang", AIRCC, aie),
        ("ld.lld", AIRCC, aie),
        ("aiebu-asm", AIRCC, NOTHING),
        ("xclbinutil", NOTHING, aie),
    ] {
        scene.tools.upgrade(tool).unwrap();
        let built = scene.compile(&arguments);
        assert_eq!(scene.ran(), elf, "{tool}: {}", built.steps());
        let built = scene.compile(&format!("{arguments} --format xclbin"));
        assert_eq!(scene.ran(), xclbin, "{tool}: {}", built.steps());
    }
}

/// Outside of wheels a tool is known by its own file.
#[test]
fn a_tool_outside_of_a_wheel_is_changed_alone() {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::gridded());
    let bin = scene.path().join("air/bin");
    let install = |tool: &str, version: &str| {
        scene.tools.copy(&bin.join(tool), tool, 2, version).unwrap();
    };
    install("air-opt", "1");
    install("aircc", "1");
    let arguments = format!("{LINALG} --air air");
    let count = |tool: &str| {
        let log = fs::read_to_string(bin.join(format!("{tool}.log"))).unwrap_or_default();
        log.lines().filter(|line| line.contains("mlir\"")).count()
    };
    scene.compile(&arguments);
    assert_eq!((count("air-opt"), count("aircc")), (3, 1));
    install("air-opt", "2");
    // Early cut-off: other bytes of air-opt, the same AIR.
    assert_eq!(
        scene.compile(&arguments).steps(),
        "lower built, compile hit, launcher hit"
    );
    assert_eq!((count("air-opt"), count("aircc")), (6, 1));
    install("aircc", "2");
    let steps = scene.compile(&arguments).steps();
    assert_eq!((count("air-opt"), count("aircc")), (6, 2), "{steps}");
}

#[test]
fn where_things_are_is_no_change() {
    let scene = aie();
    let text = kernels::aie("npu2");
    scene.file("another place/renamed.mlir", &text);
    runs(&scene, "another␣place/renamed.mlir", NOTHING);
    // Another installation of the same tools, and another cache: the same key.
    let other = Scene::new();
    other.file("k.mlir", &text);
    assert_eq!(other.key("k.mlir"), scene.key("k.mlir"));
    for (name, value) in [
        ("TMPDIR", "/dev/shm"),
        ("LC_ALL", "de_DE.UTF-8"),
        ("AIECC_JOBS", "7"),
    ] {
        let mut command = scene.npu_build();
        command.env(name, value);
        assert_eq!(compile(command, "k.mlir").outcome(), "hit", "{name}");
    }
    for flag in [
        "-v",
        "--timeout 1h",
        "--runtime xrt",
        "--target npu2",
        "--entry main",
    ] {
        runs(&scene, &format!("k.mlir {flag}"), NOTHING);
    }
}
