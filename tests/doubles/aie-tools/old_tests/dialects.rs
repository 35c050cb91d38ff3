//! aiecc's command lines: three dialects, default names, templates, what each refuses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use std::os::unix::fs::PermissionsExt as _;

use common::{Scene, copy_design};

fn scene(dialect: u8) -> Scene {
    let scene = Scene::new(dialect);
    scene.file("k.mlir", copy_design("npu2", "rows", "copy", 1024, "i32"));
    scene
}

fn two_sequences() -> String {
    let first = copy_design("npu2", "one", "copy", 1024, "i32");
    let second = copy_design("npu2", "two", "copy", 2048, "i16");
    let body = |text: &str| {
        let lines: Vec<_> = text.trim_end().lines().map(str::to_owned).collect();
        lines[1..lines.len() - 1].join("\n")
    };
    format!("module {{\n{}\n{}\n}}\n", body(&first), body(&second))
}

#[test]
fn default_names_are_the_first_dialects_own() {
    let scene = scene(1);
    let ask = [
        "--no-xchesscc",
        "--aie-generate-npu-insts",
        "--aie-generate-pdi",
        "--aie-generate-xclbin",
        "k.mlir",
    ];
    let outcome = scene.run("aiecc", &ask).ok();
    assert!(
        outcome
            .stdout()
            .ends_with("Compilation completed successfully\n")
    );
    assert_eq!(outcome.stderr(), "");
    for name in ["rows_copy.bin", "rows.pdi", "rows.xclbin", "k.mlir.prj"] {
        assert!(scene.has(name), "{name}");
    }
    let mode = scene
        .work
        .join("k.mlir.prj")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o007, 0);
}

#[test]
fn default_names_of_the_declarative_driver() {
    for dialect in [2, 3] {
        let scene = scene(dialect);
        let ask = [
            "--get-npu-insts",
            "--get-pdi",
            "--get-xclbin",
            "--get-full-elf",
            "k.mlir",
        ];
        let outcome = scene.run("aiecc", &ask).ok();
        assert!(
            outcome.stderr().contains("aie.xclbin"),
            "progress is on stderr"
        );
        assert!(!outcome.stdout().contains("Compilation completed"));
        for name in [
            "insts_rows_copy.bin",
            "rows.pdi",
            "aie.xclbin",
            "aie.elf",
            "k.mlir.prj",
        ] {
            assert!(scene.has(name), "{name}");
        }
    }
}

#[test]
fn the_first_dialect_swallows_what_it_does_not_know() {
    let scene = scene(1);
    scene
        .run(
            "aiecc",
            &["--no-xchesscc", "--get-xclbin", "--made-up=3", "k.mlir"],
        )
        .ok();
    assert!(!scene.has("aie.xclbin") && !scene.has("rows.xclbin"));
}

#[test]
fn the_others_refuse_it_in_llvms_words() {
    let scene = scene(2);
    let outcome = scene.run("aiecc", &["--get-xclbin", "--tmpdri=x", "k.mlir"]);
    let program = scene.tools.tool("aiecc");
    let words = format!(
        "aiecc: Unknown command line argument '--tmpdri=x'.  Try: '{} --help'\naiecc: Did you mean '--tmpdir=x'?\n",
        program.display()
    );
    assert_eq!(outcome.fails(1, &[]).stderr(), words);
    scene.run("aiecc", &["--get-nothing", "k.mlir"]).fails(
        1,
        &[
            "unknown output selector '--get-nothing'",
            "--get-full-elf  (aie.elf)",
        ],
    );
    scene
        .run("aiecc", &["k.mlir", "--tmpdir"])
        .fails(1, &["for the --tmpdir option: requires a value!"]);
}

#[test]
fn options_of_chess_are_gone_in_the_third_dialect() {
    for option in [
        "--no-xchesscc",
        "--no-xbridge",
        "--aiesim",
        "--compile-host",
    ] {
        scene(2).run("aiecc", &[option, "--get-pdi", "k.mlir"]).ok();
        scene(3)
            .run("aiecc", &[option, "--get-pdi", "k.mlir"])
            .fails(1, &["Unknown command line argument", option]);
    }
}

#[test]
fn help_tells_the_dialects_apart() {
    let help = |dialect| scene(dialect).run("aiecc", &["--help"]).ok().stdout();
    let (first, second, third) = (help(1), help(2), help(3));
    assert!(first.contains("--aie-generate-xclbin") && !first.contains("--get="));
    assert!(second.contains("--get=") && second.contains("--no-xchesscc"));
    assert!(third.contains("--get=") && !third.contains("--no-xchesscc"));
    assert!(
        scene(1)
            .run("aiecc", &["--version"])
            .ok()
            .stdout()
            .starts_with("aiecc (C++ version) ")
    );
    assert!(
        scene(3)
            .run("aiecc", &["--version"])
            .ok()
            .stdout()
            .starts_with("aiecc (mlir-aie declarative driver)\n")
    );
}

#[test]
fn spellings_of_options_are_llvms() {
    let scene = scene(2);
    scene.file(
        "args",
        "--get-npu-insts -npu-insts-name \"spaced name.bin\"",
    );
    scene
        .run(
            "aiecc",
            &[
                "--npu-insts-name=lost.bin",
                "@args",
                "-O3",
                "-j",
                "0",
                "k.mlir",
            ],
        )
        .fails(1, &["--get-npu-insts"]);
    scene.file("args", "-npu-insts-name \"spaced name.bin\"");
    scene
        .run(
            "aiecc",
            &[
                "--get-npu-insts",
                "--npu-insts-name=lost.bin",
                "@args",
                "-O3",
                "-j",
                "0",
                "k.mlir",
            ],
        )
        .ok();
    assert!(scene.has("spaced name.bin") && !scene.has("lost.bin"));
}

#[test]
fn names_without_a_key_collide() {
    let scene = scene(2);
    scene.file("two.mlir", two_sequences());
    scene.run("aiecc", &["--get-npu-insts", "two.mlir"]).ok();
    assert!(scene.has("insts_one_copy.bin") && scene.has("insts_two_copy.bin"));
    scene
        .run(
            "aiecc",
            &["--get-npu-insts", "--npu-insts-name=i.bin", "two.mlir"],
        )
        .fails(
            1,
            &["aiecc: edge 'insts_{0}.bin' produced duplicate output path './i.bin'"],
        );
    scene
        .run(
            "aiecc",
            &[
                "--get-npu-insts",
                "--npu-insts-name=i.bin",
                "--device-name=two",
                "two.mlir",
            ],
        )
        .ok();
    scene.run("aiecc", &["--get-xclbin", "two.mlir"]).fails(
        1,
        &["aiecc: edge 'aie.xclbin' produced duplicate output path"],
    );
    scene
        .run(
            "aiecc",
            &[
                "--get-xclbin",
                "--output-dir=/",
                "--xclbin-name",
                &format!("{}/x_{{0}}.xclbin", scene.work.display()),
                "two.mlir",
            ],
        )
        .ok();
    assert!(scene.has("x_one.xclbin") && scene.has("x_two.xclbin"));
}

#[test]
fn exit_0_without_the_output() {
    let scene = scene(1);
    for missing in ["--device-name=nobody", "--sequence-name=nothing"] {
        scene
            .run(
                "aiecc",
                &[
                    "--no-xchesscc",
                    "--aie-generate-npu-insts",
                    missing,
                    "k.mlir",
                ],
            )
            .ok();
        assert!(!scene.has("rows_copy.bin"), "{missing}");
    }
    scene.file("empty.mlir", "module {\n}\n");
    scene
        .run(
            "aiecc",
            &["--no-xchesscc", "--aie-generate-xclbin", "empty.mlir"],
        )
        .ok();
    scene
        .run(
            "aiecc",
            &["-v", "--no-xchesscc", "--aie-generate-xclbin", "empty.mlir"],
        )
        .fails(1, &[]);
    // No xclbinutil: nothing is said, nothing is written.
    scene.tools.remove("xclbinutil").unwrap();
    let silent = scene
        .run(
            "aiecc",
            &["--no-xchesscc", "--aie-generate-xclbin", "k.mlir"],
        )
        .ok();
    assert!(!scene.has("rows.xclbin") && silent.stderr().is_empty());
    // A dry run leaves empty files.
    scene
        .run(
            "aiecc",
            &[
                "-n",
                "--no-xchesscc",
                "--aie-generate-pdi",
                "--pdi-name=dry.pdi",
                "k.mlir",
            ],
        )
        .ok();
    assert_eq!(scene.read("dry.pdi"), b"");
}

#[test]
fn the_declarative_driver_misses_xclbinutil() {
    let scene = scene(2);
    scene.tools.remove("xclbinutil").unwrap();
    let words = [
        "aiecc: ShellCommand: tool 'xclbinutil' not found in search paths or PATH",
        "aiecc: edge 'aie.xclbin' (key 'rows') failed",
        "aiecc: pipeline failed",
    ];
    scene
        .run("aiecc", &["--get-xclbin", "k.mlir"])
        .fails(1, &words);
    let named = scene.directory.path().join("root/xrt/other");
    scene.tools.copy(&named, "xclbinutil", 1, "2.26.0").unwrap();
    let option = format!("--xclbinutil-path={}", named.display());
    scene
        .run("aiecc", &["--get-xclbin", &option, "k.mlir"])
        .ok();
    assert!(scene.has("aie.xclbin"));
}

#[test]
fn errors_of_the_input() {
    for (dialect, text, place) in [
        (
            1,
            "module {\n  aie.device(npu2) {\n    %t = aie.tile(0, 0\n    %u = aie.tile(0, 1)\n  }\n}\n",
            "loc(\"bad.mlir\":3:23): error: expected ')'",
        ),
        (
            2,
            "module {\n  aie.device(npu2) {\n    %t = aie.tile(0, 0\n    %u = aie.tile(0, 1)\n  }\n}\n",
            "bad.mlir:3:23: error: expected ')'",
        ),
        (
            2,
            "module {\n  aie.device(npu2) {\n    %t = aie.tile(8, 0)\n  }\n}\n",
            "bad.mlir:3:10: error: 'aie.tile' op column index (8) must be less than the number of columns in the device (8)",
        ),
        (
            3,
            "module {\n  aie.device(npu3) {\n  }\n}\n",
            "bad.mlir:2:14: error: custom op 'aie.device' expected",
        ),
        (
            3,
            "module {\n  npu.device(npu2) {\n  }\n}\n",
            "bad.mlir:2:3: error: Dialect `npu' not found",
        ),
        (
            3,
            "module {\n  aie.device(npu2) {\n    aie.objectfifo @a(%none, {%none}, 2 : i32) : !aie.objectfifo<memref<4xi32>>\n  }\n}\n",
            "bad.mlir:3:23: error: use of undeclared SSA value name",
        ),
    ] {
        let scene = scene(dialect);
        scene.file("bad.mlir", text);
        let ask: &[&str] = if dialect == 1 {
            &["--no-xchesscc", "bad.mlir"]
        } else {
            &["--get-pdi", "bad.mlir"]
        };
        scene.run("aiecc", ask).fails(1, &[place]);
    }
    scene(1)
        .run("aiecc", &["--no-xchesscc", "none.mlir"])
        .fails(1, &["error: could not open input file none.mlir"]);
    scene(1)
        .run("aiecc", &["--no-xchesscc"])
        .fails(1, &["Error: No input file specified"]);
    scene(1).run("aiecc", &["k.mlir"]).fails(
        1,
        &["Error: Could not find aietools (xchesscc not in PATH)"],
    );
    scene(2)
        .run("aiecc", &["none.mlir"])
        .fails(1, &["aiecc: could not open input file 'none.mlir'"]);
    scene(2).run("aiecc", &[]).fails(
        1,
        &["aiecc: no input file specified; expected an input .mlir"],
    );
    let scene = scene(3);
    scene.file("nothing.mlir", "");
    scene.run("aiecc", &["nothing.mlir"]).fails(
        1,
        &["aiecc: input file 'nothing.mlir' is empty; expected MLIR containing an aie.device"],
    );
}

#[test]
fn more_than_16_host_buffers_are_refused_from_the_second_dialect_on() {
    let sequence = |count: usize| {
        let arguments: Vec<_> = (0..count)
            .map(|i| format!("%a{i} : memref<4xi32>"))
            .collect();
        format!(
            "module {{\n  aie.device(npu2) @many {{\n    aie.runtime_sequence @s({}) {{\n      aiex.npu.load_pdi {{device_ref = @many}}\n    }}\n  }}\n}}\n",
            arguments.join(", ")
        )
    };
    // A real one of April 2026 takes 17, in a full ELF as well.
    let first = scene(1);
    first.file("17.mlir", sequence(17));
    for asked in ["--aie-generate-npu-insts", "--generate-full-elf"] {
        let told = first.run("aiecc", &["--no-xchesscc", asked, "17.mlir"]);
        assert!(told.ok().stderr().is_empty());
    }
    let scene = scene(2);
    scene.file("16.mlir", sequence(16));
    scene.run("aiecc", &["--get-npu-insts", "16.mlir"]).ok();
    scene.file("17.mlir", sequence(17));
    scene.run("aiecc", &["--get-npu-insts", "17.mlir"]).fails(1, &["error: device 'many' has 17 host buffer arguments, which exceeds the maximum supported and verified count of 16"]);
}

#[test]
fn a_sequence_that_uses_a_scalar_has_no_stream() {
    let scene = scene(2);
    let text = copy_design("npu2", "rows", "copy", 1024, "i32");
    let unused = text.replace(
        "%dst : memref<1024xi32>)",
        "%dst : memref<1024xi32>, %n : i32)",
    );
    scene.file("unused.mlir", &unused);
    scene.run("aiecc", &["--get-npu-insts", "unused.mlir"]).ok();
    let used = unused.replace(
        "      aiex.dma_start_task(%i)",
        "      aiex.npu.rtp_write(@rtp, 0, %n) : i32\n      aiex.dma_start_task(%i)",
    );
    scene.file("used.mlir", used);
    scene
        .run("aiecc", &["--get-npu-insts", "used.mlir"])
        .fails(1, &["used.mlir:18:7: error: 'aiex.npu.rtp_write'"]);
}

#[test]
fn standard_input_leaves_its_directory() {
    use std::io::Write as _;
    let scene = scene(1);
    let mut child = scene
        .command("aiecc")
        .args(["--no-xchesscc", "--aie-generate-npu-insts", "-"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&scene.read("k.mlir"))
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert!(scene.has("-.prj") && scene.has("rows_copy.bin"));
}

#[test]
fn the_same_design_gives_the_same_bytes_everywhere() {
    let text = copy_design("npu2", "rows", "copy", 1024, "bf16");
    let noisy = format!(
        "// A comment.\n#loc1 = loc(\"/home/me/k.py\":3:4)\n{}",
        text.replace(
            "    %mem = aie.tile(0, 1)\n",
            "    // Another.\n    %mem   =  aie.tile(0, 1) loc(#loc1)\n"
        )
    );
    let changed = text.replace("256xbf16", "128xbf16");
    let build = |text: &str| {
        let scene = scene(3);
        scene.file("d/x.mlir", text);
        scene
            .run(
                "aiecc",
                &[
                    "--get-npu-insts",
                    "--get-pdi",
                    "--get-full-elf",
                    "--get-xclbin",
                    "d/x.mlir",
                ],
            )
            .ok();
        ["insts_rows_copy.bin", "rows.pdi", "aie.elf", "aie.xclbin"].map(|name| scene.read(name))
    };
    let (first, second, other) = (build(&text), build(&noisy), build(&changed));
    assert!(first[..3] == second[..3]);
    assert_ne!(first[3], second[3], "an xclbin is never the same");
    assert_ne!(first[1], other[1]);
    assert_ne!(first[2], other[2]);
}

#[test]
fn the_generic_form_is_understood() {
    let scene = scene(3);
    scene.file(
        "generic.mlir",
        r#""builtin.module"() ({
  "aie.device"() <{device = 8 : i32, sym_name = "five"}> ({
    %0 = "aie.tile"() <{col = 0 : i32, row = 0 : i32}> : () -> index
    "aie.runtime_sequence"() <{sym_name = "go"}> ({
    ^bb0(%arg0: memref<256xi8>, %arg1: memref<256xi8>):
      "aiex.npu.load_pdi"() <{device_ref = @five}> : () -> ()
    }) : () -> ()
    "aie.end"() : () -> ()
  }) : () -> ()
}) : () -> ()
"#,
    );
    scene
        .run(
            "aiecc",
            &["--get-npu-insts", "--get-full-elf", "generic.mlir"],
        )
        .ok();
    assert!(scene.has("insts_five_go.bin"));
    assert!(scene.read("aie.elf").windows(9).any(|w| w == b"_Z4fivePc"));
}
