//! air-opt and aircc: command lines, intermediates, what they refuse.

use crate::scene::{Scene, bytes};

const KERNEL: &str = r#"module {
  func.func @scale2(%x: memref<*xf32> {tt.divisibility = 16 : i32}, %out: memref<*xf32>, %nx: i32, %ny: i32, %nz: i32, %px: i32, %py: i32, %pz: i32) {
    %c64 = arith.constant 64 : i32
    %start = arith.muli %px, %c64 : i32
    %offset = arith.index_cast %start : i32 to index
    %xv = memref.reinterpret_cast %x to offset: [%offset], sizes: [64], strides: [1] : memref<*xf32> to memref<64xf32, strided<[1], offset: ?>>
    %ov = memref.reinterpret_cast %out to offset: [%offset], sizes: [64], strides: [1] : memref<*xf32> to memref<64xf32, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%xv : memref<64xf32, strided<[1], offset: ?>>) outs(%ov : memref<64xf32, strided<[1], offset: ?>>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %a : f32
      linalg.yield %s : f32
    }
    return
  }
}
"#;

const FIRST: &str =
    "air-resolve-tensor-opoperand-conflicts,air-override-memref-memory-space{memory-space=1}";
const THIRD: &str = "func.func(air-wrap-func-with-parallel{loop-bounds=4,2,1}),air-par-to-launch{has-air-segment=true},canonicalize,cse,air-copy-to-dma";

/// `k.mlir` lowered to `air.mlir` in three runs, as the real flow makes them.
fn lowered(scene: &Scene) -> String {
    let script = scene.tools.transform();
    let script = script.display();
    for arguments in [
        format!("k.mlir --pass-pipeline=builtin.module({FIRST}) -o 1.mlir"),
        format!("--air-transform=filename={script} 1.mlir -o 2.mlir"),
        format!("2.mlir --pass-pipeline=builtin.module({THIRD}) -o air.mlir"),
    ] {
        scene.run("air-opt", &arguments).ok();
    }
    scene.text("air.mlir")
}

#[test]
fn three_runs_give_what_one_pipeline_gives() {
    let scene = Scene::with(2, KERNEL);
    let separate = lowered(&scene);
    let script = scene.tools.transform();
    let pipeline = format!(
        "{FIRST},air-transform{{filename={}}},{THIRD}",
        script.display()
    );
    let whole = scene.run(
        "air-opt",
        &format!("k.mlir --pass-pipeline=builtin.module({pipeline})"),
    );
    assert_eq!(separate, whole.ok().stdout());
    for words in [
        "func.func @scale2(%x: memref<*xf32> {tt.divisibility = 16 : i32}",
        "%grid_x = arith.constant 4 : index",
        "%grid_y = arith.constant 2 : index",
        "air.launch",
        "air.segment @scale2_0",
        "air.herd @herd_0",
        "outs(%ov : memref<64xf32, 2 : i32>)",
    ] {
        assert!(separate.contains(words), "no '{words}' in:\n{separate}");
    }
    let noisy = KERNEL.replace(
        "    return\n",
        "    // The end.\n    return loc(\"/home/me/k.py\":3:1)\n",
    );
    scene.file(
        "k.mlir",
        format!("#loc = loc(unknown)\n// Comment.\n{noisy}"),
    );
    assert_eq!(lowered(&scene), separate);
    scene.file("k.mlir", KERNEL.replace("addf", "mulf"));
    assert_ne!(lowered(&scene), separate);
}

#[test]
fn grid_script_and_its_includes_change_the_result() {
    let scene = Scene::with(2, KERNEL);
    let script = std::fs::read_to_string(scene.tools.transform()).unwrap();
    let run = |grid: &str, script: &str, library: &str| {
        scene.file("s.mlir", script);
        scene.file("library.mlir", library);
        let wrap = THIRD.replace("4,2,1", grid);
        let pipeline =
            format!("--pass-pipeline=builtin.module(air-transform{{filename=s.mlir}},{wrap})");
        let mut command = scene.command("air-opt");
        let output = command
            .args([&pipeline.replace('␣', " "), "k.mlir"])
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let including = script.replace(
        "    transform.yield\n",
        "    transform.include @tile {library = \"library.mlir\"}\n    transform.yield\n",
    );
    let empty = "module {\n}\n";
    let mut all = [
        run("4,2,1", &script, empty),
        run("8,2,1", &script, empty),
        run("4,2,1␣actual-sizes=250,100,1", &script, empty),
        run("4,2,1", &including, empty),
        run(
            "4,2,1",
            &including,
            "module {\n  func.func private @f()\n}\n",
        ),
        run("4,2,1", &script.replace("[256]", "[512]"), empty),
    ];
    all.sort();
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn what_air_opt_refuses() {
    let scene = Scene::with(2, KERNEL);
    scene.file("no_entry.mlir", "module {\n}\n");
    scene.file(
        "bad.mlir",
        "module {\n  func.func @f(%a: i32 {\n    return\n  }\n}\n",
    );
    for (arguments, words) in [
        (
            "--air-transform=filename=none.mlir k.mlir",
            "none.mlir:0:0: error: failed to open transform file: none.mlir",
        ),
        (
            "--air-transform=filename=no_entry.mlir k.mlir",
            "could not find a nested named sequence with name: __transform_main",
        ),
        (
            "--pass-pipeline=builtin.module(cse,nonsense) k.mlir",
            "MLIR Textual PassPipeline Parser:1:20: error: 'nonsense' does not refer to a registered pass or pass pipeline",
        ),
        (
            "--nonsense k.mlir",
            "air-opt: Unknown command line argument '--nonsense'.",
        ),
        (
            "--cse none.mlir",
            "cannot open input file 'none.mlir': No such file or directory",
        ),
        ("--cse bad.mlir", "bad.mlir:2:"),
    ] {
        scene.run("air-opt", arguments).fails(1, &[words]);
    }
    // What this pass complains of does not make it fail.
    scene.file(
        "bare.mlir",
        "func.func @bare(%x: memref<64xf32>) {\n  return\n}\n",
    );
    let told = scene
        .run(
            "air-opt",
            &format!("--pass-pipeline=builtin.module({THIRD}) bare.mlir"),
        )
        .ok();
    let words = "Expected func op arguments contain at least M memrefs and N x 2 loop bounds.";
    assert!(told.stderr().contains(words) && !told.stdout().contains("air.launch"));
}

/// The command line that Triton-XDNA uses, with an explicit tmpdir.
fn triton(device: &str, output: &str) -> String {
    format!(
        "--device {device} --no-xchesscc --no-xbridge --tmpdir=t --output-format {output} PEANO --bf16-emulation \
         --air-runtime-loop-tiling-sizes=4 --air-runtime-loop-tiling-sizes=4 --stack-size 2048 air.mlir"
    )
}

#[test]
fn aircc_makes_every_format_as_triton_asks_for_it() {
    for dialect in [1, 2, 3] {
        let scene = Scene::with(dialect, KERNEL);
        lowered(&scene);
        scene
            .run("aircc", &triton("npu2", "elf --elf-name a.elf"))
            .ok();
        let told = scene.run("aircc", &triton("npu1", "pdi -i a.bin --pdi-name a.pdi"));
        if dialect == 1 {
            // The words of a real one of May 2026.
            let words = [
                "aircc: for the --output-format option: Cannot find option named 'pdi'!\n",
                "aircc: Unknown command line argument '--pdi-name'.  Try: '",
            ];
            told.fails(1, &words);
        } else {
            told.ok();
            assert!(scene.read("a.bin").starts_with(&[0, 1, 3, 6, 4, 1]) && scene.has("a.pdi"));
        }
        scene
            .run("aircc", &triton("npu1_1col", "xclbin -i b.bin -o b.xclbin"))
            .ok();
        assert!(scene.read("b.bin").starts_with(&[0, 1, 3, 6, 1, 1]));
        for name in [
            "b.xclbin",
            "t/placed.air.mlir",
            "t/aie.air.mlir",
            "t/npu.air.mlir",
        ] {
            assert!(scene.has(name), "{name}");
        }
        // The kernels' names are as in the real one: a full ELF has one that runs the other.
        let config = scene.text("t/full_elf_config.json");
        let real = String::from_utf8(bytes("linalg_twice/full_elf_config.json")).unwrap();
        for name in [
            "\"main\"",
            "\"twice\"",
            "\"twice_0\"",
            "\"twice_0_sequence\"",
        ] {
            let own = name.replace("twice", "scale2");
            assert_eq!(
                config.matches(&own).count(),
                real.matches(name).count(),
                "{name}"
            );
        }
    }
}

#[test]
fn aircc_runs_aiecc_from_path_with_its_own_command_line() {
    let scene = Scene::with(2, KERNEL);
    lowered(&scene);
    scene
        .run("aircc", &triton("npu2", "elf --elf-name a.elf"))
        .ok();
    let told = scene.run("aircc", "--device=npu2 --peano= -o x.bin air.mlir");
    told.fails(1, &["Error running command: "]);
    let commands: Vec<_> = scene
        .tools
        .runs("aiecc")
        .iter()
        .map(|run| run.arguments.join(" "))
        .collect();
    let peano = scene.tools.peano();
    let expected = format!(
        "--tmpdir=t --get-full-elf --expand-load-pdis --full-elf-name=a.elf --peano={} -O 3 -j 0 --bf16-emulation t/npu.air.mlir",
        peano.display()
    );
    assert_eq!(commands[0], expected);
    // Without `.xclbin` at its end, the output's name is the instructions' name too.
    let expected = "--tmpdir=air_project --get-xclbin --xclbin-name=x.bin --get-npu-insts --npu-insts-name=x.bin -O 3 -j 0 air_project/npu.air.mlir";
    assert_eq!(commands[1], expected);
    // An older aiecc is found by its older name.
    scene
        .tools
        .copy(
            &scene.tools.tool("aiecc").with_file_name("aiecc.py"),
            "aiecc.py",
            2,
            "1.3.0",
        )
        .unwrap();
    scene.tools.remove("aiecc").unwrap();
    scene
        .run("aircc", &triton("npu2", "pdi -i a.bin --pdi-name a.pdi"))
        .ok();
    let mut command = scene.command("aircc");
    let alone = command
        .args(["--device=npu2", "air.mlir"])
        .env("PATH", "/nonexistent")
        .output();
    assert_eq!(
        alone.unwrap().stderr,
        b"Error: could not find aiecc in PATH\n"
    );
}

#[test]
fn what_aircc_refuses() {
    let scene = Scene::with(2, KERNEL);
    lowered(&scene);
    scene.file("bad.mlir", "module {\n  func.func @f(\n}\n");
    for (arguments, words) in [
        (
            "--device=npu1 --output-format=elf air.mlir",
            "Error: --output-format=elf is not supported for --device=npu1. Use ",
        ),
        (
            "--device=npu2 none.mlir",
            "Error reading file none.mlir: No such file or directory",
        ),
        ("air.mlir", "Error: pass pipeline failed: builtin.module("),
        (
            "--device=npu2 bad.mlir",
            "Error parsing MLIR file: bad.mlir",
        ),
        (
            "--device=npu2 --tmpdir=a/b air.mlir",
            "Error creating directory a/b: No such file or directory",
        ),
        (
            "--output-format=zip air.mlir",
            "for the --output-format option: Cannot find option named 'zip'!",
        ),
        (
            "--nonsense air.mlir",
            "aircc: Unknown command line argument '--nonsense'.",
        ),
        ("", "Must specify at least 1 positional argument"),
    ] {
        scene.run("aircc", arguments).fails(1, &[words]);
    }
}

/// The words and the exit codes are those of the real aircc for the same files.
#[test]
fn what_is_not_in_l1_is_refused_and_no_herd_is_nothing_at_all() {
    for dialect in [1, 2] {
        let scene = Scene::new(dialect);
        let said = String::from_utf8(bytes("air/l3_access.txt")).unwrap();
        let words = [
            said.lines().next().unwrap(),
            "Error: pass pipeline failed: builtin.module(",
        ];
        scene.file("air.mlir", bytes("air/l3_access.mlir"));
        scene
            .run("aircc", &triton("npu2", "elf --elf-name a.elf"))
            .fails(1, &words);
        scene.file("air.mlir", bytes("air/no_herd.mlir"));
        scene
            .run("aircc", &triton("npu2", "elf --elf-name a.elf"))
            .ok();
        assert!(scene.read("a.elf").is_empty());
        scene
            .run("aircc", &triton("npu1", "xclbin -i b.bin -o b.xclbin"))
            .ok();
        assert!(scene.has("b.xclbin") && !scene.has("b.bin"));
    }
}
