//! What `npu-build.toml`, variables and flags say of kernels for an NPU, and which counts most.

use std::fs;
use std::process::Command;

use crate::common::Outcome;
use crate::kernels;
use crate::scene::{Built, NOTHING, Scene, compile};

fn scene() -> Scene {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::gridded());
    scene.file("air.mlir", kernels::air());
    scene.file("aie.mlir", kernels::aie("npu2"));
    scene
}

fn build(mut command: Command) -> (i32, Vec<Built>) {
    let told = Outcome(
        command
            .args(["--message-format", "json", "build"])
            .output()
            .unwrap(),
    );
    (told.code(), Built::read(&told))
}

/// What a build made: its runtime, and the extension of its first file.
fn made(built: &Built) -> (String, String) {
    let runtime = built.0["runtime"].as_str().unwrap().to_owned();
    let path = built.artifacts(0).remove(0);
    (
        runtime,
        path.extension().unwrap().to_str().unwrap().to_owned(),
    )
}

/// Each layer is set above those before it, and counts.
#[test]
fn runtime_and_format_are_said_by_file_kernel_variable_and_flag() {
    let scene = scene();
    let with = |variables: &[(&str, &str)], flags: &str| {
        let mut command = scene.npu_build();
        command.envs(variables.iter().copied());
        let (runtime, extension) = made(&compile(command, &format!("aie.mlir {flags}")));
        format!("{runtime} {extension}")
    };
    assert_eq!(with(&[], ""), "xrt elf");
    scene.file(
        "npu-build.toml",
        "[build]\nruntime = \"hsa\"\nformat = \"xclbin\"\n",
    );
    assert_eq!(with(&[], ""), "hsa hsaco");
    let variables = [("NPU_BUILD_RUNTIME", "xrt")];
    assert_eq!(with(&variables, ""), "xrt xclbin");
    let variables = [("NPU_BUILD_RUNTIME", "xrt"), ("NPU_BUILD_FORMAT", "pdi")];
    assert_eq!(with(&variables, ""), "xrt pdi");
    scene.file(
        "npu-build.toml",
        "[[kernel]]\npath = \"aie.mlir\"\nformat = \"xclbin\"\n",
    );
    assert_eq!(with(&[], ""), "xrt xclbin");
    assert_eq!(with(&variables, ""), "xrt pdi");
    assert_eq!(with(&variables, "--format elf"), "xrt elf");
    assert_eq!(with(&variables, "--format auto --runtime hsa"), "hsa hsaco");
    // Unset and empty are the same.
    assert_eq!(
        with(&[("NPU_BUILD_RUNTIME", ""), ("NPU_BUILD_FORMAT", "")], ""),
        "xrt xclbin"
    );
    for (name, value, words) in [
        ("NPU_BUILD_RUNTIME", "hip", "NPU_BUILD_RUNTIME: "),
        (
            "NPU_BUILD_FORMAT",
            "elff",
            "NPU_BUILD_FORMAT: 'elff' is no format: choose auto, xclbin, elf or pdi; did you mean 'elf'?",
        ),
    ] {
        let mut command = scene.npu_build();
        command.env(name, value);
        crate::scene::run(command, "compile aie.mlir").fails(2, &[words]);
    }
}

/// flag > NPU_BUILD_TRANSFORM > kernel's section > [build] > AIR_TRANSFORM_TILING_SCRIPT.
#[test]
fn the_transform_script_is_the_one_that_counts_most() {
    let scene = scene();
    let script = fs::read_to_string(scene.tools.transform()).unwrap();
    for name in ["ecosystem", "build", "variable", "kernel", "flag"] {
        scene.file(
            &format!("s/{name}.mlir"),
            script.replace("@__transform_main", &format!("@__transform_main_{name}")),
        );
    }
    // None has an entry point: what air-opt says tells which script it was.
    let used = |variables: &[(&str, &str)], flags: &str| {
        let mut command = scene.npu_build();
        command.envs(variables.iter().copied());
        let told = crate::scene::run(
            command,
            &format!("compile k.mlir --target npu2 --grid 4 {flags}"),
        );
        assert_eq!(told.code(), 1, "{told:?}");
        let stderr = told.stderr();
        let line = stderr
            .lines()
            .find(|line| line.contains(".mlir:0:0: error:"))
            .unwrap();
        let (_, name) = line
            .split(".mlir:")
            .next()
            .unwrap()
            .rsplit_once('/')
            .unwrap();
        name.to_owned()
    };
    let ecosystem = ("AIR_TRANSFORM_TILING_SCRIPT", "s/ecosystem.mlir");
    let variable = ("NPU_BUILD_TRANSFORM", "s/variable.mlir");
    assert_eq!(used(&[ecosystem], ""), "ecosystem");
    scene.file("npu-build.toml", "[build]\ntransform = \"s/build.mlir\"\n");
    assert_eq!(used(&[ecosystem], ""), "build");
    scene.file("npu-build.toml", "[build]\ntransform = \"s/build.mlir\"\n[[kernel]]\npath = \"k.mlir\"\ntransform = \"s/kernel.mlir\"\n");
    assert_eq!(used(&[ecosystem], ""), "kernel");
    assert_eq!(used(&[ecosystem, variable], ""), "variable");
    assert_eq!(
        used(&[ecosystem, variable], "--transform s/flag.mlir"),
        "flag"
    );
    // A script that is not there is an error wherever it was said.
    let mut command = scene.npu_build();
    command.env("AIR_TRANSFORM_TILING_SCRIPT", "none.mlir");
    scene.file("npu-build.toml", "");
    let told = crate::scene::run(command, "compile k.mlir --target npu2 --grid 4");
    told.fails(
        2,
        &["k.mlir: the transform script ", "none.mlir: No such file"],
    );
}

/// All that a section can say, and the same said by flags: one key.
#[test]
fn a_section_says_what_flags_say() {
    let scene = scene();
    scene.file("data/table.txt", "1");
    let flags = "k.mlir --target npu2 --runtime hsa --format xclbin --grid 4,2 --transform root/transform.mlir \
                 --option stack-size=4096 --option tiling-sizes=4,2 --option bf16-emulation=true \
                 --option xclbin-kernel-id=0x902 --option device=npu2_4col --input data/table.txt -- --omit-auto-broadcast";
    let by_flags = scene.compile(flags);
    scene.ran();
    scene.file(
        "project/npu-build.toml",
        "[[kernel]]\npath = \"../k.mlir\"\ntarget = \"npu2\"\nruntime = \"hsa\"\nformat = \"xclbin\"\n\
         grid = [4, 2]\ntransform = \"../root/transform.mlir\"\ninputs = [\"../data/table.txt\"]\n\
         tool-args = [\"--omit-auto-broadcast\"]\n\
         [kernel.options]\nstack-size = 4096\ntiling-sizes = [4, 2]\nbf16-emulation = true\n\
         xclbin-kernel-id = 0x902\ndevice = \"npu2_4col\"\n",
    );
    // From a directory below: paths are relative to the file.
    let directory = scene.path().join("project/below");
    fs::create_dir(&directory).unwrap();
    let mut command = scene.npu_build();
    command.current_dir(&directory);
    let (code, builds) = build(command);
    assert_eq!((code, builds.len()), (0, 1), "{builds:?}");
    assert_eq!(builds[0].outcome(), "hit");
    assert_eq!(scene.ran(), NOTHING);
    for step in ["lower", "compile", "pack"] {
        assert_eq!(builds[0].key(step), by_flags.key(step));
    }
    // A flag adds to the section's options and lists.
    let mut command = scene.npu_build();
    command.current_dir(&directory);
    let over = compile(command, "../../k.mlir --option stack-size=2048");
    assert_eq!(over.key("lower"), by_flags.key("lower"));
    assert_ne!(over.key("compile"), by_flags.key("compile"));
}

#[test]
fn a_section_that_can_not_be_understood() {
    let scene = scene();
    for (line, words) in [
        ("grid = [4, 0]", "'4,0' is no grid"),
        ("grid = \"x\"", "'x' is no grid"),
        ("format = \"full\"", "'full' is no format"),
        ("runtime = \"rocm\"", "rocm"),
        (
            "options = { stak-size = 1 }",
            "there is no option 'stak-size'; did you mean 'stack-size'?",
        ),
        ("options = { stack-size = \"big\" }", "a number of bytes"),
        ("tool-arg = []", "did you mean `tool-args`?"),
    ] {
        scene.file(
            "npu-build.toml",
            format!("[[kernel]]\npath = \"k.mlir\"\n{line}\n"),
        );
        let told = crate::scene::run(scene.npu_build(), "build");
        told.fails(2, &["npu-build.toml: ", words]);
    }
}

#[test]
fn build_takes_kernels_of_every_level_and_tells_each() {
    let scene = scene();
    scene.file(
        "npu-build.toml",
        "[build]\ntarget = \"npu2\"\ntransform = \"root/transform.mlir\"\n\
         [[kernel]]\npath = \"k.mlir\"\ngrid = \"4\"\n\
         [[kernel]]\npath = \"air.mlir\"\nruntime = \"hsa\"\n\
         [[kernel]]\npath = \"aie.mlir\"\nformat = \"pdi\"\n\
         [[kernel]]\npath = \"missing.mlir\"\n",
    );
    let (code, builds) = build(scene.npu_build());
    assert_eq!((code, builds.len()), (2, 4), "{builds:?}");
    let made: Vec<_> = builds[..3].iter().map(made).collect();
    let expected = [("xrt", "elf"), ("hsa", "hsaco"), ("xrt", "pdi")];
    assert_eq!(
        made,
        expected.map(|(runtime, format)| (runtime.to_owned(), format.to_owned()))
    );
    assert!(builds[3].error().unwrap().contains("missing.mlir"));
    assert_eq!(
        builds[0].steps(),
        "lower built, compile built, launcher built"
    );
    assert_eq!(
        builds[1].steps(),
        "compile built, pack built, launcher built"
    );
    // There is no launcher for what nothing of ours loads.
    assert_eq!(builds[2].steps(), "compile built");
}

/// The key is that of the first step, and it is printed without any tool having compiled.
#[test]
fn the_key_is_the_first_steps() {
    let scene = scene();
    let linalg = "k.mlir --target npu2 --grid 4 --transform root/transform.mlir";
    let keys = [linalg, "aie.mlir", "air.mlir --target npu1"].map(|arguments| scene.key(arguments));
    assert_eq!(scene.ran(), NOTHING);
    assert_eq!(keys[0], scene.compile(linalg).key("lower"));
    assert_eq!(keys[1], scene.compile("aie.mlir").key("compile"));
    assert_eq!(
        keys[2],
        scene.compile("air.mlir --target npu1").key("compile")
    );
    // Its material names every tool, and no path.
    let told = scene.run("-v key aie.mlir").stdout();
    for tool in [
        "tool.aiecc",
        "tool.bootgen",
        "tool.aiebu-asm",
        "tool.peano-llc",
        "input.kernel.mlir",
    ] {
        assert!(
            told.contains(&format!("  {tool} = sha256:")),
            "no {tool} in:\n{told}"
        );
    }
    assert!(!told.contains(scene.path().to_str().unwrap()), "{told}");
}

/// A section may list what its kernel is built for; what is said elsewhere counts more, as ever.
#[test]
fn a_section_lists_targets_and_runtimes() {
    let scene = scene();
    let section = |said: &str| {
        let text = format!("[[kernel]]\npath = \"aie.mlir\"\n{said}\n");
        scene.file("npu-build.toml", text);
    };
    let told = |variables: &[(&str, &str)], flags: &str| {
        let mut command = scene.npu_build();
        command.envs(variables.iter().copied());
        compile(command, &format!("aie.mlir {flags}"))
    };
    let extensions = |built: &Built| {
        let paths = built.artifacts(0);
        let extension = |path: &std::path::PathBuf| path.extension().unwrap().to_owned();
        let mut all: Vec<_> = paths.iter().map(extension).collect();
        all.sort();
        all.join(std::ffi::OsStr::new(" ")).into_string().unwrap()
    };
    section("runtime = [\"xrt\", \"hsa\"]");
    assert_eq!(extensions(&told(&[], "")), "elf hsaco");
    assert_eq!(extensions(&told(&[], "--runtime hsa")), "hsaco");
    assert_eq!(
        extensions(&told(&[("NPU_BUILD_RUNTIME", "xrt")], "")),
        "elf"
    );
    section("target = [\"npu2\"]\nruntime = \"hsa\"");
    assert_eq!(extensions(&told(&[], "")), "hsaco");
    // What the device of the MLIR is not.
    section("target = [\"npu2\", \"npu1\"]");
    scene.refuses("aie.mlir", 2, &["npu1", "npu2"]);
    assert_eq!(extensions(&told(&[], "--target npu2")), "elf");
    for (wrong, words) in [
        ("target = []", "a list with nothing in it"),
        ("target = [\"npu2\", \"npu3\"]", "npu3"),
        ("runtime = [\"hip\"]", "`hip`"),
        ("target = 2", "a name, or a list of names"),
    ] {
        section(wrong);
        scene.refuses("aie.mlir", 2, &["npu-build.toml", words]);
    }
}

/// Of several targets, every line says which one it is about.
#[test]
fn what_is_told_of_several_targets_names_them() {
    let scene = scene();
    let several = "k.mlir --target cpu,npu2 --grid 4 --transform root/transform.mlir";
    let keys = scene.run(&format!("key {several}")).stdout();
    let lines: Vec<_> = keys.lines().collect();
    assert!(lines[0].ends_with("  compile for cpu"), "{keys}");
    assert!(lines[1].ends_with("  lower for npu2"), "{keys}");
    let json = scene.run(&format!("key {several} --json")).stdout();
    for (line, json) in lines.iter().zip(json.lines()) {
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        assert!(line.starts_with(json["key"].as_str().unwrap()), "{line}");
        assert!(line.ends_with(json["target"].as_str().unwrap()), "{line}");
    }
    assert_eq!(scene.ran(), NOTHING);
    let built = scene.run(&format!("compile {several}"));
    for told in [
        "building: twice for cpu",
        "lowering: twice for npu2",
        "building: twice for npu2",
    ] {
        assert!(built.stderr().contains(told), "{}", built.stderr());
    }
    let explained = scene.run(&format!("explain {several}")).stdout();
    let told: Vec<_> = explained
        .lines()
        .map(|line| line.split(" is in").next().unwrap())
        .collect();
    assert_eq!(
        told,
        [
            "hit: compile of twice for cpu",
            "hit: lower of twice for npu2",
            "hit: compile of twice for npu2",
            "hit: launcher of twice"
        ]
    );
    // Nothing of a PDI would be in the launcher.
    let refused = scene.run(&format!("compile {several} --format pdi"));
    assert_eq!(refused.code(), 2, "{}", refused.stderr());
    assert!(
        refused
            .stderr()
            .contains("one target and runtime at a time")
    );
}
