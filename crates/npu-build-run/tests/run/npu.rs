//! The same command lines on emulated NPUs: through ROCR and XRT, of both generations.

use std::process::Command;

use crate::kernels::{TWICE, TWICE_IN_PROGRAMS, scaled};
use crate::scene::{Scene, installed, values};

/// What the environment is for an NPU.
fn device(target: &str) -> [(&'static str, &'static str); 2] {
    match target {
        "npu1" => [("ROCR_DOUBLE_AGENT", "aie2"), ("XRT_DOUBLE_DEVICE", "npu1")],
        _ => [
            ("ROCR_DOUBLE_AGENT", "aie2p"),
            ("XRT_DOUBLE_DEVICE", "npu2"),
        ],
    }
}

/// Where a kernel runs.
const PLACES: [(&str, &str); 5] = [
    ("cpu", "cpu"),
    ("npu1", "hsa"),
    ("npu2", "hsa"),
    ("npu1", "xrt"),
    ("npu2", "xrt"),
];

fn transform() -> String {
    installed().tools.transform().display().to_string()
}

#[test]
fn a_command_line_gives_the_same_numbers_everywhere() {
    let doubled: Vec<u8> = (0..256_u16)
        .flat_map(|n| (2.0 * f32::from(n)).to_le_bytes())
        .collect();
    for (kernel, grid) in [(TWICE, ""), (TWICE_IN_PROGRAMS, "--grid 4")] {
        let scene = Scene::with(kernel);
        for (target, runtime) in PLACES {
            for how in ["", "--launches 70", "--launches 70 --chain"] {
                let told = scene.json_with(
                    &device(target),
                    &format!(
                        "run k.mlir --target {target} --runtime {runtime} --transform {} {grid} \
                         --arg x=iota:256xf32 --arg out=full:7:256 --save out=out.npy {how}",
                        transform()
                    ),
                );
                assert_eq!(told["runtime"], runtime);
                assert_eq!(values(&told, "out")[..3], [0.0, 2.0, 4.0], "{told}");
                assert_eq!(scene.saved("out.npy"), doubled, "{target} {runtime} {how}");
            }
        }
    }
}

#[test]
fn a_kernel_at_the_aie_level_says_itself_what_it_is_for() {
    let scene = Scene::with(&xrt_double::kernels::combining("npu2", "arith.subi"));
    for runtime in ["hsa", "xrt"] {
        let told = scene.json(&format!(
            "run k.mlir --runtime {runtime} --arg x=iota --arg y=ones --arg z=zeros"
        ));
        assert_eq!(values(&told, "z")[..3], [-1, 0, 1]);
        assert_eq!(told["kernel"], "main:sequence");
    }
    scene
        .run("run k.mlir --arg x=iota --arg y=ones --arg z=zeros --grid 4")
        .fails(2, &["--grid is for linalg-level kernels"]);
}

#[test]
fn a_variable_is_set_before_the_launches() {
    let scene = Scene::with(&scaled());
    let arguments = "run k.mlir --arg x=iota --arg y=zeros --arg z=zeros";
    let variable = "--variable scratch-pad-ctrl=-3";
    let told = scene.json(&format!("{arguments} --runtime hsa {variable}"));
    assert_eq!(values(&told, "z")[..3], [0, -3, -6]);
    // What older releases of ROCR say of it is told with every build, and not of what XRT loads.
    let warning = "warning: k.mlir: aie2p: kernel 'main:sequence': ROCR before October 2026";
    for (runtime, is_warned) in [("hsa", true), ("hsa", true), ("xrt", false)] {
        let told = scene.run(&format!("compile k.mlir --runtime {runtime}"));
        assert_eq!(told.code(), 0);
        let stderr = told.stderr();
        assert_eq!(stderr.contains(warning), is_warned, "{stderr}");
        assert_eq!(stderr.contains("symbol: scratch-pad-ctrl"), is_warned);
    }
    for (flags, words) in [
        (
            "--runtime xrt --variable scratch-pad-ctrl=1",
            "external variables are for --runtime hsa",
        ),
        ("--runtime hsa --variable gain=1", "gain"),
        (
            "--runtime hsa --variable scratch-pad-ctrl=1,2",
            "scratch-pad-ctrl",
        ),
        (
            "--runtime hsa --variable scratch-pad-ctrl=1:i64",
            "scratch-pad-ctrl",
        ),
        ("--runtime hsa --variable scratch-pad-ctrl=0.5", "f32"),
        (
            "--runtime hsa --variable scratch-pad-ctrl=0.5:f16",
            "no type of a variable",
        ),
        ("--runtime hsa --variable scratch-pad-ctrl", "NAME=VALUE"),
    ] {
        scene
            .run(&format!("{arguments} {flags}"))
            .fails(2, &[words]);
    }
}

#[test]
fn the_shim_is_compiled_unless_one_is_named() {
    let scene = Scene::with(TWICE);
    let transform = transform();
    let arguments = format!(
        "run k.mlir --target npu2 --runtime xrt --transform {transform} --arg x=ones --arg out=zeros"
    );
    // A compiler that fails is not asked where a shim is named.
    let shim = scene.run("shim").paths();
    let no_compiler = format!("{arguments} --cxx /bin/false");
    let named = [("NPU_RUNTIME_XRT_SHIM", shim[0].to_str().unwrap())];
    let told = scene.run_with(&named, &no_compiler);
    assert_eq!(told.code(), 0, "{told:?}");
    assert_ne!(scene.run(&no_compiler).code(), 0);
    let nowhere = [("NPU_RUNTIME_XRT_SHIM", "/nowhere/shim.so")];
    scene
        .run_with(&nowhere, &arguments)
        .fails(3, &["/nowhere/shim.so"]);
    let none = [("XILINX_XRT", "/nowhere")];
    scene.run_with(&none, &arguments).fails(3, &["/nowhere"]);
}

#[test]
fn a_device_that_is_missing_or_another_one() {
    let scene = Scene::with(TWICE);
    let arguments = format!(
        "run k.mlir --transform {} --arg x=ones --arg out=zeros --target",
        transform()
    );
    let run = |variables: &[(&str, &str)], flags: &str| {
        scene.run_with(variables, &format!("{arguments} {flags}"))
    };
    run(&[("ROCM_PATH", "/nowhere")], "npu2 --runtime hsa")
        .fails(3, &["libhsa-runtime64", "/nowhere"]);
    run(&[("ROCR_DOUBLE_AGENT", "none")], "npu2 --runtime hsa").fails(3, &["finds no NPU"]);
    run(&[("XRT_DOUBLE_DEVICE", "none")], "npu2 --runtime xrt").fails(3, &["xrt"]);
    run(&device("npu2"), "npu1 --runtime hsa").fails(2, &["npu1", "npu2"]);
    run(&device("npu2"), "npu1 --runtime xrt").fails(2, &["npu1", "npu2"]);
    run(&device("npu2"), "npu2 --runtime xrt --format pdi")
        .fails(2, &["a PDI is loaded by neither"]);
    run(&device("npu2"), "npu2 --runtime hsa --format pdi")
        .fails(2, &["a PDI is loaded by neither"]);
    run(&device("npu2"), "npu2 --runtime cpu").fails(2, &["--runtime cpu"]);
}

/// Nothing is saved of launches that failed.
#[test]
fn a_device_that_is_lost() {
    let scene = Scene::with(TWICE);
    let told = scene.run_with(
        &[("ROCR_DOUBLE_DISPATCH", "3=error:0x1016")],
        &format!(
            "run k.mlir --transform {} --target npu2 --runtime hsa --arg x=ones --arg out=zeros \
             --launches 10 --chain --save out=out.npy",
            transform()
        ),
    );
    told.fails(
        1,
        &["launch 3 of a chain of 10 failed, those before it were completed"],
    );
    assert!(!scene.path().join("out.npy").exists());
}

#[test]
fn an_output_that_was_called_an_input_is_found() {
    let scene = Scene::with(TWICE);
    for runtime in ["hsa", "xrt"] {
        let told = scene.run_with(
            &[("NPU_RUNTIME_VERIFY_DIRECTIONS", "1")],
            &format!(
                "run k.mlir --transform {} --target npu2 --runtime {runtime} --arg x=ones \
                 --arg out=zeros --arg out=in",
                transform()
            ),
        );
        told.fails(1, &["wrote to argument 1 `out`", "--arg out=inout"]);
    }
}

#[test]
fn one_of_several_sequences_is_chosen_by_its_name() {
    let first = xrt_double::kernels::combining("npu2", "arith.addi");
    let second = xrt_double::kernels::combining("npu2", "arith.muli").replace("@main", "@other");
    let inner = |text: &str| {
        let text = text.trim().strip_prefix("module {").unwrap();
        text.strip_suffix('}').unwrap().to_owned()
    };
    let scene = Scene::with(&format!("module {{{}{}}}\n", inner(&first), inner(&second)));
    let arguments = "run k.mlir --runtime hsa --arg x=iota --arg y=iota --arg z=zeros";
    scene
        .run(arguments)
        .fails(2, &["main:sequence, other:sequence", "--entry"]);
    for (entry, expected) in [("main:sequence", [0, 2, 4]), ("other", [0, 1, 4])] {
        let told = scene.json(&format!("{arguments} --entry {entry}"));
        assert_eq!(values(&told, "z")[..3], expected, "{entry}");
    }
}

/// Debian's ROCR knows no NPU.
#[test]
fn a_rocr_that_is_too_old() {
    let directory = Command::new("dpkg")
        .args(["-L", "libhsa-runtime64-1"])
        .output();
    let listed = directory.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let listed = listed.unwrap_or_default();
    let Some(library) = listed
        .lines()
        .find(|line| line.ends_with("libhsa-runtime64.so.1"))
    else {
        println!("skipped: there is no libhsa-runtime64-1");
        return;
    };
    let scene = Scene::with(TWICE);
    let root = scene.path().join("rocm");
    std::fs::create_dir_all(root.join("lib")).unwrap();
    std::os::unix::fs::symlink(library, root.join("lib/libhsa-runtime64.so.1")).unwrap();
    let told = scene.run_with(
        &[("ROCM_PATH", root.to_str().unwrap())],
        &format!(
            "run k.mlir --transform {} --target npu2 --runtime hsa --arg x=ones --arg out=zeros",
            transform()
        ),
    );
    told.fails(3, &["libhsa-runtime64.so.1"]);
}

#[test]
fn doctor_opens_every_device() {
    let scene = Scene::new();
    for target in ["npu1", "npu2"] {
        let told = scene.run_with(&device(target), "doctor");
        for line in [
            "launch cpu: ready\n".to_owned(),
            format!("launch xrt: ready, an {target}\n"),
            format!("launch hsa: ready, an {target}\n"),
        ] {
            assert!(told.stdout().contains(&line), "{told:?}");
        }
    }
    let none = [
        ("ROCR_DOUBLE_AGENT", "none"),
        ("XRT_DOUBLE_DEVICE", "none"),
        ("XILINX_XRT", "/nowhere"),
    ];
    let told = scene.run_with(&none[..2], "doctor");
    assert_eq!(told.code(), 0, "{told:?}");
    for line in ["launch xrt: opening the device: ", ": it finds no NPU: "] {
        assert!(told.stdout().contains(line), "{told:?}");
    }
    assert!(!told.stdout().contains(", an npu"), "{told:?}");
    let told = scene
        .run_with(&none, "doctor --message-format json")
        .stdout();
    let rows = told.lines().filter(|line| line.contains("\"launch\""));
    let rows: Vec<serde_json::Value> = rows.map(|row| serde_json::from_str(row).unwrap()).collect();
    let usable = rows.iter().map(|row| row["usable"].as_bool().unwrap());
    assert_eq!(usable.collect::<Vec<_>>(), [true, false, false], "{told}");
    assert!(
        rows[1]["reason"].as_str().unwrap().contains("/nowhere"),
        "{told}"
    );
}
