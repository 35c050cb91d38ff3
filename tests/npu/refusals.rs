//! What is refused before any tool runs, with the reason and what to do.

use crate::kernels;
use crate::scene::{NOTHING, Scene, run};

/// A scene with a kernel of each level.
pub fn scene() -> Scene {
    let scene = Scene::new();
    scene.file("linalg.mlir", kernels::gridded());
    scene.file("gridless.mlir", kernels::gridless());
    scene.file("air.mlir", kernels::air());
    scene.file("aie.mlir", kernels::aie("npu2"));
    scene
}

#[track_caller]
fn refuse(scene: &Scene, cases: &[(&str, &[&str])]) {
    for (arguments, words) in cases {
        scene.refuses(arguments, 2, words);
        assert_eq!(scene.ran(), NOTHING, "{arguments}");
        // The key is refused in the same words.
        run(scene.npu_build(), &format!("key {arguments}")).fails(2, words);
    }
}

#[test]
fn formats_and_runtimes_that_do_not_exist() {
    let scene = scene();
    scene.file("npu1.mlir", kernels::aie("npu1"));
    let elf: &[&str] = &["there is no full ELF for npu1: use --format xclbin"];
    let pdi: &[&str] = &[
        "--format pdi can't be used with --runtime hsa",
        "use --format auto",
    ];
    refuse(
        &scene,
        &[
            ("npu1.mlir --format elf", elf),
            ("npu1.mlir --format elf --runtime hsa", elf),
            ("air.mlir --target npu1 --format elf", elf),
            ("gridless.mlir --target npu1 --format elf", elf),
            ("aie.mlir --format pdi --runtime hsa", pdi),
            ("npu1.mlir --format pdi --runtime hsa", pdi),
            (
                "aie.mlir --runtime cpu",
                &[
                    "--runtime cpu can't load what is built for npu2",
                    "xrt or hsa",
                ],
            ),
        ],
    );
    scene.refuses(
        "aie.mlir --format full-elf",
        2,
        &["'full-elf' is no format: choose auto, xclbin, elf or pdi"],
    );
    scene.refuses(
        "aie.mlir --runtime hip",
        2,
        &["'hip' is no runtime: choose xrt, hsa or cpu"],
    );
}

#[test]
fn a_device_that_contradicts_the_target() {
    let scene = scene();
    let mixed = kernels::module(&[
        kernels::copy_device("npu1", "one", &[("a", 256)]),
        kernels::copy_device("npu2", "two", &[("b", 256)]),
    ]);
    scene.file("mixed.mlir", mixed);
    scene.file("versal.mlir", kernels::aie("xcvc1902"));
    refuse(
        &scene,
        &[
            (
                "aie.mlir --target npu1",
                &["aie.mlir: ", "line 2", "npu2", "npu1"],
            ),
            ("aie.mlir --target cpu", &["aie.mlir: ", "cpu"]),
            ("air.mlir --target cpu", &["air.mlir: ", "cpu"]),
            (
                "air.mlir",
                &["does not say which target", "--target cpu, npu1 or npu2"],
            ),
            ("mixed.mlir", &["which target"]),
            ("mixed.mlir --target npu2", &["npu1", "npu2"]),
            ("versal.mlir --target npu2", &["xcvc1902"]),
            (
                "air.mlir --target npu1 --option device=npu2",
                &["--option device=npu2 is for npu2, not for npu1"],
            ),
            (
                "air.mlir --target npu2 --option device=npu1_2col",
                &["is for npu1, not for npu2"],
            ),
        ],
    );
}

#[test]
fn options_that_nobody_knows_or_that_mean_nothing() {
    let scene = scene();
    refuse(
        &scene,
        &[
            (
                "aie.mlir --option tiling-sizes=4,4",
                &["--option tiling-sizes can't be used", "aircc"],
            ),
            (
                "aie.mlir --option device=npu2_4col",
                &["--option device can't be used", "aie.device"],
            ),
            (
                "aie.mlir --option actual-sizes=100,100",
                &["--option actual-sizes can't be used", "linalg"],
            ),
            (
                "air.mlir --target npu2 --option actual-sizes=100,100",
                &["--option actual-sizes can't be used"],
            ),
            (
                "gridless.mlir --target npu2 --option actual-sizes=9,9",
                &["--option actual-sizes can't be used", "no grid"],
            ),
            (
                "gridless.mlir --target cpu --option stack-size=4096",
                &["is for npu1 and npu2"],
            ),
            (
                "gridless.mlir --target cpu --input aie.mlir",
                &["an input is for npu1 and npu2"],
            ),
        ],
    );
    for (arguments, words) in [
        (
            "aie.mlir --option stak-size=1",
            &[
                "there is no option 'stak-size'; did you mean 'stack-size'",
                "of which march is for cpu",
            ][..],
        ),
        ("aie.mlir --option stack-size=1", &["multiple of 32"]),
        ("aie.mlir --option stack-size", &["NAME=VALUE"]),
        ("air.mlir --option device=npu3", &["npu1, npu1_1col"]),
        ("linalg.mlir --grid 0", &["'0' is no grid"]),
        ("linalg.mlir --grid 1,2,3,4", &["'1,2,3,4' is no grid"]),
    ] {
        scene.refuses(arguments, 2, words);
    }
    // An unknown argument is the tool's to refuse; all but the first dialect do.
    scene.refuses(
        "aie.mlir -- --nonsense",
        1,
        &["aiecc failed", "Unknown command line argument '--nonsense'"],
    );
    scene.refuses(
        "air.mlir --target npu2 -- --nonsense",
        1,
        &["aircc failed", "Unknown command line argument '--nonsense'"],
    );
}

#[test]
fn a_grid_that_is_missing_or_has_no_meaning() {
    let scene = scene();
    refuse(
        &scene,
        &[
            (
                "linalg.mlir --target npu2",
                &["compiled for one launch grid: give it with --grid X,Y,Z"],
            ),
            (
                "gridless.mlir --target npu2 --grid 4",
                &["does not take the six trailing i32 of a grid"],
            ),
            (
                "air.mlir --target npu2 --grid 4",
                &["--grid is for linalg-level kernels; at the air level"],
            ),
            (
                "aie.mlir --grid 4",
                &["--grid is for linalg-level kernels; at the aie level"],
            ),
        ],
    );
}

/// `kernel:instance` and a NUL have 64 bytes in an xclbin.
#[test]
fn names_that_break_xclbinutil() {
    let scene = scene();
    let name = |length| "k".repeat(length);
    let longest = name(63 - ":MLIRAIE".len());
    let fits = format!("aie.mlir --format xclbin --option xclbin-kernel-name={longest}");
    let built = scene.compile(&fits);
    assert!(built.launcher().contains(&longest));
    scene.ran();
    let (long, both) = (name(56), name(31));
    refuse(
        &scene,
        &[
            (
                &format!("aie.mlir --format xclbin --option xclbin-kernel-name={long}"),
                &["has 64 characters, and 63 is the most"],
            ),
            (
                &format!(
                    "aie.mlir --format xclbin --option xclbin-kernel-name={both}x --option xclbin-instance-name={both}y"
                ),
                &["has 65 characters"],
            ),
        ],
    );
    // Where there is no xclbin there is no name in it.
    scene.compile(&format!(
        "aie.mlir --format elf --option xclbin-kernel-name={long}"
    ));
}

#[test]
fn sequences_that_depend_on_scalars() {
    let scene = scene();
    let text = kernels::module(&[kernels::copy_device("npu2", "main", &[("run", 256)])]);
    let of = "memref<256xi32>";
    scene.file(
        "dynamic.mlir",
        text.replace(
            &format!("%dst : {of}) {{"),
            &format!("%dst : {of}, %n : i32) {{"),
        ),
    );
    refuse(
        &scene,
        &[(
            "dynamic.mlir",
            &[
                "line 8: 'main:run' computes with the scalar 'n'",
                "make it a constant",
            ],
        )],
    );
    // aircc compiles it to cores that wait for a number which no sequence writes.
    let used = kernels::gridless()
        .replace("%out: memref<256xf32>)", "%out: memref<256xf32>, %by: f32)")
        .replace("arith.addf %a, %a", "arith.addf %a, %by");
    scene.file("used.mlir", used);
    let words: &[&str] = &["'whole' computes with the scalar 'by'"];
    refuse(&scene, &[("used.mlir --target npu2", words)]);
}

#[test]
fn arguments_that_lead_outside() {
    let scene = scene();
    for argument in [
        "--xclbin-input=/etc/passwd",
        "--xclbin-input=../other.xclbin",
        "--xclbin-input=~/other.xclbin",
        "/etc/passwd",
        "@/etc/passwd",
        "@../arguments",
        "--x=a/../../b",
    ] {
        let words = [
            &format!("'{argument}' may name a file whose content no key would know"),
            "--input",
        ];
        scene.refuses(
            &format!("aie.mlir -- {argument}"),
            2,
            &words.map(|word: &str| word),
        );
    }
    assert_eq!(scene.ran(), NOTHING);
}

/// The first dialect compiles the first of several files and says nothing of the others.
#[test]
fn a_file_among_the_arguments_is_not_compiled_in_the_kernels_place() {
    let other = kernels::aie("npu2").replace("arith.addf", "arith.mulf");
    for dialect in [1, 3] {
        let scene = Scene::with_dialect(dialect);
        scene.file("aie.mlir", kernels::aie("npu2"));
        scene.file("other.mlir", &other);
        let right = scene.compile("aie.mlir").first();
        let arguments = "aie.mlir --input other.mlir -- other.mlir";
        match dialect {
            1 => assert_eq!(scene.compile(arguments).first(), right),
            _ => scene.refuses(arguments, 1, &["expected exactly one input"]),
        }
    }
}

/// An instruction stream names a buffer by its place among all arguments.
#[test]
fn scalars_between_buffers() {
    let scene = scene();
    let text = kernels::gridless();
    let between = "%x: memref<256xf32>, %n: i32, %out: memref<256xf32>";
    scene.file(
        "k.mlir",
        text.replace("%x: memref<256xf32>, %out: memref<256xf32>", between),
    );
    let words = [
        "'whole' takes the scalar 'n' before the buffer 'out'",
        "put the buffers first",
    ];
    refuse(&scene, &[("k.mlir --target npu2", &words)]);
    // Behind them it is no harm as long as nobody uses it.
    scene.file(
        "k.mlir",
        text.replace("%out: memref<256xf32>)", "%out: memref<256xf32>, %n: i32)"),
    );
    let arguments = "k.mlir --target npu2 --transform root/transform.mlir";
    assert_eq!(scene.compile(arguments).outcome(), "built");
}

#[test]
fn traces_that_no_launch_has_memory_for() {
    let scene = scene();
    let traced = kernels::aie("npu2").replacen(
        "aie.runtime_sequence",
        "aie.runtime_sequence @traced(%a: memref<4xi32>) {\n  aie.trace.host_config buffer_size = 64\n}\n\
         aie.runtime_sequence",
        1,
    );
    scene.file("traced.mlir", traced);
    let behind: &[&str] = &["--trace-size lets the kernel write a trace behind its last buffer"];
    refuse(
        &scene,
        &[
            ("air.mlir --target npu2 -- --trace-size=8192", behind),
            ("gridless.mlir --target npu2 -- -trace-size 8192", behind),
            (
                "traced.mlir --entry traced",
                &["'main:traced' writes a trace", "arg_idx"],
            ),
        ],
    );
}
