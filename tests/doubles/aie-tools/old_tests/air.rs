//! air-opt and aircc: command lines, intermediates, what they refuse.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use common::Scene;

const KERNEL: &str = "module {
  func.func @scale2(%x: memref<*xf32> {tt.divisibility = 16 : i32}, %out: memref<*xf32>, %nx: i32, %ny: i32, %nz: i32, %px: i32, %py: i32, %pz: i32) {
    %c64 = arith.constant 64 : i32
    %start = arith.muli %px, %c64 : i32
    %offset = arith.index_cast %start : i32 to index
    %xv = memref.reinterpret_cast %x to offset: [%offset], sizes: [64], strides: [1] : memref<*xf32> to memref<64xf32, strided<[1], offset: ?>>
    %ov = memref.reinterpret_cast %out to offset: [%offset], sizes: [64], strides: [1] : memref<*xf32> to memref<64xf32, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = [\"parallel\"]} ins(%xv : memref<64xf32, strided<[1], offset: ?>>) outs(%ov : memref<64xf32, strided<[1], offset: ?>>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %a : f32
      linalg.yield %s : f32
    }
    return
  }
}
";

const FIRST: &str = "air-resolve-tensor-opoperand-conflicts,air-override-memref-memory-space{scope=func memory-space=1}";
const THIRD: &str = "func.func(air-wrap-func-with-parallel{loop-bounds=4,2,1}),air-par-to-launch{depth=0 has-air-segment=true},canonicalize,cse,air-copy-to-dma";

fn scene() -> Scene {
    let scene = Scene::new(2);
    scene.file("k.mlir", KERNEL);
    scene
}

/// Three runs, as the real flow makes them.
fn lowered(scene: &Scene, input: &str) -> String {
    let step = |pipeline: &str, from: &str, to: &str| {
        let pipeline = format!("--pass-pipeline=builtin.module({pipeline})");
        scene.run("air-opt", &[from, &pipeline, "-o", to]).ok();
    };
    step(FIRST, input, "1.mlir");
    let transform = format!(
        "--air-transform=filename={}",
        scene.tools.transform().display()
    );
    scene
        .run("air-opt", &[&transform, "1.mlir", "-o", "2.mlir"])
        .ok();
    step(THIRD, "2.mlir", "air.mlir");
    String::from_utf8(scene.read("air.mlir")).unwrap()
}

#[test]
fn three_runs_give_what_one_pipeline_gives() {
    let scene = scene();
    let separate = lowered(&scene, "k.mlir");
    let script = scene.tools.transform();
    let pipeline = format!(
        "--pass-pipeline=builtin.module({FIRST},air-transform{{filename={}}},{THIRD})",
        script.display()
    );
    let whole = scene.run("air-opt", &["k.mlir", &pipeline]).ok().stdout();
    assert_eq!(separate, whole);
    for words in [
        "func.func @scale2",
        "air.launch",
        "air.segment @scale2_0",
        "air.herd @scale2_0",
        "%grid_x = arith.constant 4 : index",
        "%grid_y = arith.constant 2 : index",
        "tt.divisibility = 16",
    ] {
        assert!(
            whole.replace(" (", "(").contains(words) || whole.contains(words),
            "no '{words}' in:\n{whole}"
        );
    }
}

#[test]
fn comments_and_locations_leave_no_trace() {
    let scene = scene();
    let plain = lowered(&scene, "k.mlir");
    let noisy = KERNEL.replace(
        "    return\n",
        "    // The end.\n    return loc(\"/home/me/k.py\":3:1)\n",
    );
    scene.file(
        "noisy.mlir",
        format!("#loc = loc(unknown)\n// Comment.\n{noisy}"),
    );
    assert_eq!(lowered(&scene, "noisy.mlir"), plain);
    scene.file("other.mlir", KERNEL.replace("addf", "mulf"));
    assert_ne!(lowered(&scene, "other.mlir"), plain);
}

#[test]
fn grid_script_and_its_includes_change_the_result() {
    let scene = scene();
    let run = |grid: &str, script: &str| {
        let wrap = THIRD.replace("4,2,1", grid);
        let pipeline = format!(
            "--pass-pipeline=builtin.module({FIRST},air-transform{{filename={script}}},{wrap})"
        );
        scene.run("air-opt", &["k.mlir", &pipeline]).ok().stdout()
    };
    let script = std::fs::read_to_string(scene.tools.transform()).unwrap();
    scene.file("s.mlir", &script);
    scene.file("library.mlir", "module {\n}\n");
    let including = script.replace("    transform.yield\n", "    transform.include @tile failures(propagate) () {library = \"library.mlir\"} : () -> ()\n    transform.yield\n");
    scene.file("including.mlir", including);
    let base = run("4,2,1", "s.mlir");
    assert_ne!(run("8,2,1", "s.mlir"), base);
    assert_ne!(run("4,2,1 actual-sizes=250,100,1", "s.mlir"), base);
    let included = run("4,2,1", "including.mlir");
    assert_ne!(included, base);
    scene.file("library.mlir", "module {\n  func.func private @f()\n}\n");
    assert_ne!(run("4,2,1", "including.mlir"), included);
    scene.file("s.mlir", script.replace("[256]", "[512]"));
    assert_ne!(run("4,2,1", "s.mlir"), base);
}

#[test]
fn air_opt_refuses() {
    let scene = scene();
    scene
        .run("air-opt", &["--air-transform=filename=none.mlir", "k.mlir"])
        .fails(
            1,
            &["none.mlir:0:0: error: failed to open transform file: none.mlir"],
        );
    scene.file("no_entry.mlir", "module {\n}\n");
    scene
        .run(
            "air-opt",
            &["--air-transform=filename=no_entry.mlir", "k.mlir"],
        )
        .fails(
            1,
            &["could not find a nested named sequence with name: __transform_main"],
        );
    scene.run("air-opt", &["--pass-pipeline=builtin.module(nonsense)", "k.mlir"]).fails(1, &["MLIR Textual PassPipeline Parser:1:16: error: 'nonsense' does not refer to a registered pass or pass pipeline"]);
    scene
        .run("air-opt", &["--nonsense", "k.mlir"])
        .fails(1, &["air-opt: Unknown command line argument '--nonsense'."]);
    scene.run("air-opt", &["--cse", "none.mlir"]).fails(
        1,
        &["cannot open input file 'none.mlir': No such file or directory"],
    );
    scene.file(
        "bad.mlir",
        "module {\n  func.func @f(%a: i32 {\n    return\n  }\n}\n",
    );
    scene
        .run("air-opt", &["--cse", "bad.mlir"])
        .fails(1, &["bad.mlir:"]);
    scene
        .tools
        .misbehave(
            "air-opt",
            "diagnostic = 3:5: error: 'arith.constant' op failed",
        )
        .unwrap();
    scene
        .run("air-opt", &["--cse", "k.mlir"])
        .fails(1, &["k.mlir:3:5: error: 'arith.constant' op failed"]);
}

#[test]
fn wrapping_complains_and_ends_well() {
    let scene = scene();
    scene.file("bare.mlir", "func.func @bare(%x: memref<64xf32>, %y: memref<64xf32>) {\n  memref.copy %x, %y : memref<64xf32> to memref<64xf32>\n  return\n}\n");
    let pipeline = format!("--pass-pipeline=builtin.module({THIRD})");
    let outcome = scene.run("air-opt", &[&pipeline, "bare.mlir"]).ok();
    assert!(
        outcome.stderr().contains(
            "Expected func op arguments contain at least M memrefs and N x 2 loop bounds."
        )
    );
    assert!(!outcome.stdout().contains("air.launch"));
}

/// The command line that Triton-XDNA uses, with an explicit tmpdir.
fn triton<'a>(device: &'a str, output: &[&'a str], peano: &'a str, input: &'a str) -> Vec<&'a str> {
    let mut arguments = vec![
        "--device",
        device,
        "--no-xchesscc",
        "--no-xbridge",
        "--tmpdir=t",
        "--output-format",
    ];
    arguments.extend(output);
    arguments.extend([
        peano,
        "--bf16-emulation",
        "--air-runtime-loop-tiling-sizes=4",
        "--air-runtime-loop-tiling-sizes=4",
        "--stack-size",
        "2048",
        input,
    ]);
    arguments
}

#[test]
fn aircc_makes_every_format_as_triton_asks_for_it() {
    for dialect in [1, 2, 3] {
        let scene = Scene::new(dialect);
        scene.file("k.mlir", KERNEL);
        lowered(&scene, "k.mlir");
        let peano = format!("--peano={}", scene.tools.peano().display());
        scene
            .run(
                "aircc",
                &triton("npu2", &["elf", "--elf-name", "a.elf"], &peano, "air.mlir"),
            )
            .ok();
        let format = ["pdi", "-i", "a.bin", "--pdi-name", "a.pdi"];
        let told = scene.run("aircc", &triton("npu1", &format, &peano, "air.mlir"));
        if dialect == 1 {
            // The words of a real one of May 2026.
            let words = [
                "aircc: for the --output-format option: Cannot find option named 'pdi'!\n",
                "aircc: Unknown command line argument '--pdi-name'.  Try: '",
                "\naircc: Did you mean '--elf-name'?\n",
            ];
            told.fails(1, &words);
        } else {
            told.ok();
            assert!(scene.read("a.bin").starts_with(&[0, 1, 3, 6, 4, 1]));
            assert!(scene.has("a.pdi"));
        }
        scene
            .run(
                "aircc",
                &triton(
                    "npu1_1col",
                    &["xclbin", "-i", "b.bin", "-o", "b.xclbin"],
                    &peano,
                    "air.mlir",
                ),
            )
            .ok();
        for name in [
            "a.elf",
            "b.bin",
            "b.xclbin",
            "t/placed.air.mlir",
            "t/aie.air.mlir",
            "t/npu.air.mlir",
            "t/full_elf_config.json",
        ] {
            assert!(scene.has(name), "{name}");
        }
        let elf = scene.read("a.elf");
        let has = |text: &str| elf.windows(text.len()).any(|w| w == text.as_bytes());
        assert!(has("_Z4mainPc") && has("\0scale2\0") && has(".pdi.1"));
        assert!(scene.read("b.bin").starts_with(&[0, 1, 3, 6, 1, 1]));
    }
}

#[test]
fn aircc_runs_aiecc_from_path_with_its_own_command_line() {
    let scene = scene();
    lowered(&scene, "k.mlir");
    let peano = format!("--peano={}", scene.tools.peano().display());
    scene
        .run(
            "aircc",
            &triton("npu2", &["elf", "--elf-name", "a.elf"], &peano, "air.mlir"),
        )
        .ok();
    scene
        .run(
            "aircc",
            &["--device=npu2", "--peano=", "-o", "x.bin", "air.mlir"],
        )
        .fails(1, &["Error running command: "]);
    let runs = scene.tools.runs("aiecc");
    assert_eq!(
        runs[0].arguments,
        [
            "--tmpdir=t",
            "--get-full-elf",
            "--expand-load-pdis",
            "--full-elf-name=a.elf",
            &peano,
            "-O",
            "3",
            "-j",
            "0",
            "--bf16-emulation",
            "t/npu.air.mlir"
        ]
    );
    // Without `.xclbin` at its end, the output's name is the instructions' name too.
    assert_eq!(
        runs[1].arguments,
        [
            "--tmpdir=air_project",
            "--get-xclbin",
            "--xclbin-name=x.bin",
            "--get-npu-insts",
            "--npu-insts-name=x.bin",
            "-O",
            "3",
            "-j",
            "0",
            "air_project/npu.air.mlir"
        ]
    );
}

#[test]
fn aircc_refuses() {
    let scene = scene();
    lowered(&scene, "k.mlir");
    scene
        .run(
            "aircc",
            &["--device=npu1", "--output-format=elf", "air.mlir"],
        )
        .fails(
            1,
            &["Error: --output-format=elf is not supported for --device=npu1. Use "],
        );
    scene.run("aircc", &["--device=npu2", "none.mlir"]).fails(
        1,
        &["Error reading file none.mlir: No such file or directory"],
    );
    scene
        .run("aircc", &["air.mlir"])
        .fails(1, &["Error: pass pipeline failed: builtin.module("]);
    scene.file("bad.mlir", "module {\n  func.func @f(\n}\n");
    scene
        .run("aircc", &["--device=npu2", "bad.mlir"])
        .fails(1, &["bad.mlir:2:", "Error parsing MLIR file: bad.mlir"]);
    scene
        .run("aircc", &["--device=npu2", "--tmpdir=a/b", "air.mlir"])
        .fails(
            1,
            &["Error creating directory a/b: No such file or directory"],
        );
    scene
        .run("aircc", &["--output-format=zip", "air.mlir"])
        .fails(
            1,
            &["for the --output-format option: Cannot find option named 'zip'!"],
        );
    scene
        .run("aircc", &["--nonsense", "air.mlir"])
        .fails(1, &["aircc: Unknown command line argument '--nonsense'."]);
    scene
        .run("aircc", &[])
        .fails(1, &["Must specify at least 1 positional argument"]);
    let alone = scene
        .command("aircc")
        .args(["--device=npu2", "air.mlir"])
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(alone.stderr).unwrap(),
        "Error: could not find aiecc in PATH\n"
    );
    let old = Scene::new(1);
    old.file("air.mlir", scene.read("air.mlir"));
    old.run(
        "aircc",
        &["--device=npu1", "--output-format=elf", "air.mlir"],
    )
    .fails(
        1,
        &["Error: output_format='elf' is not supported for npu1 target."],
    );
}

/// The words and the exit codes are those of the real aircc for the same files.
#[test]
fn what_is_not_in_l1_is_refused_and_no_herd_is_nothing_at_all() {
    for dialect in [1, 2] {
        let scene = Scene::new(dialect);
        let peano = format!("--peano={}", scene.tools.peano().display());
        let elf = ["elf", "--elf-name", "a.elf"];
        scene.file(
            "l3.mlir",
            include_str!("../../../data/aie/air/l3_access.mlir"),
        );
        let said = include_str!("../../../data/aie/air/l3_access.txt");
        let (place, _) = said.split_once('\n').unwrap();
        scene
            .run("aircc", &triton("npu2", &elf, &peano, "l3.mlir"))
            .fails(1, &[place, "Error: pass pipeline failed: builtin.module("]);
        scene.file(
            "none.mlir",
            include_str!("../../../data/aie/air/no_herd.mlir"),
        );
        scene
            .run("aircc", &triton("npu2", &elf, &peano, "none.mlir"))
            .ok();
        assert!(scene.read("a.elf").is_empty());
        let xclbin = ["xclbin", "-i", "b.bin", "-o", "b.xclbin"];
        scene
            .run("aircc", &triton("npu1", &xclbin, &peano, "none.mlir"))
            .ok();
        assert!(scene.has("b.xclbin") && !scene.has("b.bin"));
    }
}

/// As in the real one's, the device and its sequence have names of their own, and a full ELF has
/// another sequence, which configures the device and runs that one.
#[test]
fn a_full_elf_has_a_kernel_that_runs_the_other() {
    let scene = scene();
    lowered(&scene, "k.mlir");
    let peano = format!("--peano={}", scene.tools.peano().display());
    let elf = ["elf", "--elf-name", "a.elf"];
    scene
        .run("aircc", &triton("npu2", &elf, &peano, "air.mlir"))
        .ok();
    let config = String::from_utf8(scene.read("t/full_elf_config.json")).unwrap();
    let named = |name: &str| config.matches(&format!("\"{name}\"")).count();
    let real = include_str!("../../../data/aie/linalg_twice/full_elf_config.json");
    for (name, in_real) in [
        ("main", "main"),
        ("scale2", "twice"),
        ("scale2_0", "twice_0"),
        ("scale2_0_sequence", "twice_0_sequence"),
    ] {
        let expected = real.matches(&format!("\"{in_real}\"")).count();
        assert_eq!((name, named(name)), (name, expected));
    }
}

/// What the real one makes of it: its cores wait for a number that no sequence writes, and nobody is
/// told.
#[test]
fn a_used_scalar_is_lost() {
    let scene = scene();
    let scalar = KERNEL
        .replace("%nx: i32", "%n: i32, %nx: i32")
        .replace("arith.muli %px, %c64", "arith.muli %px, %n");
    scene.file("scalar.mlir", scalar);
    lowered(&scene, "scalar.mlir");
    let peano = format!("--peano={}", scene.tools.peano().display());
    scene
        .run(
            "aircc",
            &triton("npu2", &["elf", "--elf-name", "a.elf"], &peano, "air.mlir"),
        )
        .ok();
    let sequences = String::from_utf8(scene.read("t/aie.air.mlir")).unwrap();
    assert!(!sequences.contains("rtp_write"), "{sequences}");
}

#[test]
fn an_older_aiecc_is_found_by_its_older_name() {
    let scene = scene();
    lowered(&scene, "k.mlir");
    let aiecc = scene.tools.tool("aiecc");
    let script = aiecc.with_file_name("aiecc.py");
    scene.tools.remove("aiecc").unwrap();
    let peano = format!("--peano={}", scene.tools.peano().display());
    let ask = triton(
        "npu2",
        &["pdi", "-i", "a.bin", "--pdi-name", "a.pdi"],
        &peano,
        "air.mlir",
    );
    scene
        .run("aircc", &ask)
        .fails(1, &["Error: could not find aiecc in PATH"]);
    scene.tools.copy(&script, "aiecc.py", 2, "1.3.0").unwrap();
    scene.run("aircc", &ask).ok();
    assert!(scene.has("a.pdi"));
}
