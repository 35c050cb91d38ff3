//! aiecc's command lines in three dialects, and what each refuses.

use std::fs;

use crate::scene::{Scene, bytes, computing, copying};

fn scene(dialect: u8) -> Scene {
    Scene::with(dialect, &copying("npu2", "rows", "copy", "i32"))
}

#[test]
fn default_names() {
    let first = scene(1);
    let asked =
        "--no-xchesscc --aie-generate-npu-insts --aie-generate-pdi --aie-generate-xclbin k.mlir";
    let told = first.run("aiecc", asked).ok();
    assert!(
        told.stdout()
            .ends_with("Compilation completed successfully\n")
    );
    assert_eq!(told.stderr(), "");
    for name in ["rows_copy.bin", "rows.pdi", "rows.xclbin", "k.mlir.prj"] {
        assert!(first.has(name), "{name}");
    }
    for dialect in [2, 3] {
        let scene = scene(dialect);
        let asked = "--get-npu-insts --get-pdi --get-xclbin --get-full-elf k.mlir";
        let told = scene.run("aiecc", asked).ok();
        assert!(
            told.stderr().contains("aie.xclbin"),
            "progress is on stderr"
        );
        for name in ["insts_rows_copy.bin", "rows.pdi", "aie.xclbin", "aie.elf"] {
            assert!(scene.has(name), "{name}");
        }
    }
}

#[test]
fn help_and_versions_tell_the_dialects_apart() {
    let help = |dialect| scene(dialect).run("aiecc", "--help").ok().stdout();
    assert_eq!(help(1).as_bytes(), bytes("help/aiecc.txt"));
    let has = |help: &str| {
        ["--aie-generate-xclbin", "--get=", "--no-xchesscc"].map(|it| help.contains(it))
    };
    assert_eq!(has(&help(2)), [false, true, true]);
    assert_eq!(has(&help(3)), [false, true, false]);
    for (dialect, words) in [
        (1, "aiecc (C++ version) "),
        (3, "aiecc (mlir-aie declarative driver)\n"),
    ] {
        let version = scene(dialect).run("aiecc", "--version").ok().stdout();
        assert!(version.starts_with(words), "{version}");
    }
}

#[test]
fn command_lines_that_are_refused() {
    let chess = [
        "--no-xchesscc",
        "--no-xbridge",
        "--aiesim",
        "--compile-host",
    ];
    for option in chess {
        let asked = format!("{option} --get-pdi k.mlir");
        scene(2).run("aiecc", &asked).ok();
        scene(3)
            .run("aiecc", &asked)
            .fails(1, &["Unknown command line argument", option]);
    }
    // The first dialect swallows what it does not know.
    let first = scene(1);
    first
        .run("aiecc", "--no-xchesscc --get-xclbin --made-up=3 k.mlir")
        .ok();
    assert!(!first.has("aie.xclbin") && !first.has("rows.xclbin"));
    for (dialect, asked, words) in [
        (
            1,
            "k.mlir",
            "Error: Could not find aietools (xchesscc not in PATH)",
        ),
        (1, "--no-xchesscc", "Error: No input file specified"),
        (
            1,
            "--no-xchesscc none.mlir",
            "error: could not open input file none.mlir",
        ),
        (
            2,
            "--get-xclbin --tmpdri=x k.mlir",
            "aiecc: Unknown command line argument '--tmpdri=x'.  Try: '",
        ),
        (2, "--get-nothing k.mlir", "--get-full-elf  (aie.elf)"),
        (
            2,
            "k.mlir --tmpdir",
            "for the --tmpdir option: requires a value!",
        ),
        (
            2,
            "none.mlir",
            "aiecc: could not open input file 'none.mlir'",
        ),
        (
            2,
            "k.mlir k.mlir",
            "aiecc: expected exactly one input .mlir",
        ),
        (
            3,
            "--get-pdi --verbose=maybe k.mlir",
            "'maybe' is invalid value for boolean argument! Try 0 or 1",
        ),
        (
            3,
            "",
            "aiecc: no input file specified; expected an input .mlir",
        ),
        (
            3,
            "--get-full-elf npu1.mlir",
            "full ELF generation is not supported for npu1",
        ),
        (
            3,
            "empty.mlir",
            "aiecc: input file 'empty.mlir' is empty; expected MLIR containing an aie.device",
        ),
    ] {
        let scene = scene(dialect);
        scene.file("empty.mlir", "");
        scene.file("npu1.mlir", copying("npu1", "d", "s", "i32"));
        scene.run("aiecc", asked).fails(1, &[words]);
    }
}

#[test]
fn inputs_that_are_refused() {
    let device = |part: &str, body: &str| {
        format!("module {{\n  aie.device({part}) {{\n    {body}\n  }}\n}}\n")
    };
    let open = device("npu2", "%t = aie.tile(0, 0\n    %u = aie.tile(0, 1)");
    for (dialect, text, words) in [
        (1, open.clone(), "loc(\"k.mlir\":3:23): error: expected ')'"),
        (2, open, "k.mlir:3:23: error: expected ')'"),
        (
            2,
            device("npu2", "%t = aie.tile(8, 0)"),
            "k.mlir:3:10: error: 'aie.tile' op column index (8) must be less than the number of columns in the device (8)",
        ),
        (
            3,
            device("npu3", ""),
            "k.mlir:2:14: error: custom op 'aie.device' expected",
        ),
        (
            3,
            device("npu2", "aie.objectfifo @a(%none, {%none})"),
            "k.mlir:3:23: error: use of undeclared SSA value name",
        ),
        (
            3,
            "module {\n}\n".to_owned(),
            "aiecc: no aie.device found in the input",
        ),
    ] {
        let asked = if dialect == 1 {
            "--no-xchesscc k.mlir"
        } else {
            "--get-pdi k.mlir"
        };
        Scene::with(dialect, &text)
            .run("aiecc", asked)
            .fails(1, &[words]);
    }
    // No text makes a tool panic.
    let text = copying("npu2", "d", "s", "i32");
    let scene = Scene::new(3);
    for at in (0..text.len()).step_by(97) {
        for other in ["}", "(", "%", "@", "\"", "99999999999999999999"] {
            scene.file(
                "k.mlir",
                format!("{}{other}{}", &text[..at], &text[at + 1..]),
            );
            let code = scene.run("aiecc", "--get-npu-insts k.mlir").0.status.code();
            assert!(matches!(code, Some(0 | 1)), "{other} at {at}");
        }
    }
}

#[test]
fn names_without_a_key_collide() {
    let bodies = [("one", "i32"), ("two", "i16")].map(|(device, element)| {
        let text = copying("npu2", device, "copy", element);
        text.replace("module {\n", "")
            .trim_end()
            .strip_suffix('}')
            .unwrap()
            .to_owned()
    });
    let scene = Scene::with(2, &format!("module {{\n{}}}\n", bodies.concat()));
    scene.run("aiecc", "--get-npu-insts k.mlir").ok();
    assert!(scene.has("insts_one_copy.bin") && scene.has("insts_two_copy.bin"));
    let named = "--get-npu-insts --npu-insts-name=i.bin k.mlir";
    let words = "aiecc: edge 'insts_{0}.bin' produced duplicate output path './i.bin'";
    scene.run("aiecc", named).fails(1, &[words]);
    scene
        .run("aiecc", &format!("--device-name=two {named}"))
        .ok();
    let words = "aiecc: edge 'aie.xclbin' produced duplicate output path";
    scene.run("aiecc", "--get-xclbin k.mlir").fails(1, &[words]);
    scene
        .run("aiecc", "--get-xclbin --xclbin-name=x_{0}.xclbin k.mlir")
        .ok();
    assert!(scene.has("x_one.xclbin") && scene.has("x_two.xclbin"));
}

#[test]
fn xclbinutil_is_missed_or_not() {
    let (first, second) = (scene(1), scene(2));
    first.tools.remove("xclbinutil").unwrap();
    let told = first
        .run("aiecc", "--no-xchesscc --aie-generate-xclbin k.mlir")
        .ok();
    assert!(!first.has("rows.xclbin") && told.stderr().is_empty());
    second.tools.remove("xclbinutil").unwrap();
    let words = [
        "aiecc: ShellCommand: tool 'xclbinutil' not found in search paths or PATH",
        "aiecc: edge 'aie.xclbin' (key 'rows') failed\naiecc: pipeline failed",
    ];
    second.run("aiecc", "--get-xclbin k.mlir").fails(1, &words);
    let named = second.work.join("other");
    second
        .tools
        .copy(&named, "xclbinutil", 1, "2.26.0")
        .unwrap();
    second
        .run("aiecc", "--get-xclbin --xclbinutil-path=./other k.mlir")
        .ok();
    let long = format!(
        "--get-xclbin --xclbinutil-path=./other --xclbin-kernel-name={} k.mlir",
        "x".repeat(60)
    );
    second
        .run("aiecc", &long)
        .fails(1, &["exceeds the allocated space"]);
}

#[test]
fn the_same_design_gives_the_same_bytes_everywhere() {
    let text = copying("npu2", "rows", "copy", "bf16");
    let tile = "    %mem = aie.tile(0, 1)\n";
    let noisy = text.replace(
        tile,
        "    // Another.\n    %mem   =  aie.tile(0, 1) loc(#loc1)\n",
    );
    let noisy = format!("// A comment.\n#loc1 = loc(\"/home/me/k.py\":3:4)\n{noisy}");
    let changed = text.replace("256xbf16", "128xbf16");
    let [first, second, other] = [text, noisy, changed].map(|text| {
        let scene = Scene::new(3);
        scene.file("d/x.mlir", text);
        scene
            .run(
                "aiecc",
                "--get-npu-insts --get-pdi --get-full-elf --get-xclbin d/x.mlir",
            )
            .ok();
        ["insts_rows_copy.bin", "rows.pdi", "aie.elf", "aie.xclbin"].map(|name| scene.read(name))
    });
    assert!(first[..3] == second[..3]);
    assert_ne!(first[3], second[3], "an xclbin is never the same");
    assert_ne!(first[1..3], other[1..3]);
}

#[test]
fn peano_is_looked_for_in_order() {
    let kernel = computing("i32", "%z = arith.addi %x, %y : i32");
    let scene = Scene::with(1, &kernel);
    let asked = "--no-xchesscc --aie-generate-pdi k.mlir";
    let words = "Error: Could not find Peano compiler tools (opt/llc)";
    scene.run("aiecc", asked).fails(1, &[words]);
    scene.run("aiecc", &format!("PEANO {asked}")).ok();
    let by_option = scene.read("main.pdi");
    let mut command = scene.command("aiecc");
    command.env("PEANO_INSTALL_DIR", scene.tools.peano());
    let status = command.args(asked.split(' ')).status();
    assert!(status.unwrap().success() && scene.read("main.pdi") == by_option);
    // The host's LLVM comes last, and does not know the code.
    let host = scene.work.join("host/bin");
    for tool in ["opt", "llc", "clang"] {
        scene
            .tools
            .copy(&host.join(tool), tool, 2, "14.0.6")
            .unwrap();
    }
    let mut command = scene.command("aiecc");
    command.env(
        "PATH",
        format!("{}:{}", scene.tools.search_path(), host.display()),
    );
    let output = command.args(asked.split(' ')).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("error: expected type"));

    let scene = Scene::with(3, &kernel);
    let words = "aiecc: ShellCommand: tool 'opt' not found in search paths or PATH";
    scene.run("aiecc", "--get-pdi k.mlir").fails(1, &[words]);
    scene
        .run("aiecc", "--peano=/no --get-pdi k.mlir")
        .fails(1, &["'/no' is not a directory"]);
    let build = |options: &str| {
        scene
            .run("aiecc", &format!("PEANO --get-pdi {options} k.mlir"))
            .ok();
        scene.read("main.pdi")
    };
    let plain = build("");
    assert_eq!(
        (build("") == plain, scene.tools.compilations("llc").len()),
        (true, 2)
    );
    for option in ["--bf16-emulation", "--default-stack-size=4096"] {
        assert_ne!(build(option), plain, "{option}");
    }
}

#[test]
fn link_files_come_from_the_first_place_that_has_one() {
    let kernel = computing("i32", "%z = arith.addi %x, %y : i32");
    let scene = Scene::new(3);
    scene.file(
        "sub/k.mlir",
        kernel.replace("aie.end\n    }\n", "aie.end\n    } {link_with = \"k.o\"}\n"),
    );
    let build = || scene.run("aiecc", "PEANO --tmpdir=t --get-pdi sub/k.mlir");
    let words = [
        "no such file or directory: 'k.o'",
        "edge 'elfs_{0}.elf' (key 'main_core_0_2') failed",
    ];
    build().fails(1, &words);
    let made = ["sub/k.o", "t/k.o", "k.o"].map(|place| {
        scene.file(place, place);
        build().ok();
        scene.read("main.pdi")
    });
    assert!(made[0] != made[1] && made[1] != made[2] && made[0] != made[2]);
}

/// An ELF for a core, in each of the ways that a real aiecc of April 2026 was asked: its exit code,
/// and whether the PDI has that ELF in it.
#[test]
fn a_core_gets_its_elf_where_a_real_one_does() {
    let text = String::from_utf8(bytes("core_elf/kernel.mlir")).unwrap();
    let missing = text.replace("core.elf", "none.elf");
    let with = |core: &str| text.replace("%core = ", &format!("{core}\n    %core = "));
    let idle = with("%t = aie.tile(0, 3)\n    %c = aie.core(%t) { aie.end }");
    let busy = idle.replace("{ aie.end }", "{ %x = arith.constant 0 : index aie.end }");
    for (text, options, code, expected) in [
        (&text, "--no-compile --no-link", 0, true),
        (&text, "--no-compile", 0, true),
        (&text, "", 0, false),
        (&text, "--no-link", 1, false),
        (&missing, "--no-compile --no-link", 1, false),
        (&idle, "--no-compile --no-link", 0, true),
        (&idle, "", 0, false),
        (&busy, "--no-compile --no-link", 0, true),
        (&busy, "", 0, false),
    ] {
        let made = |elf: &[u8]| {
            let scene = Scene::with(1, text);
            scene.file("prj/core.elf", elf);
            let asked =
                "--no-xchesscc --tmpdir=prj --aie-generate-pdi --pdi-name=k.pdi PEANO k.mlir";
            let told = scene.run("aiecc", &format!("{asked} {options}"));
            assert_eq!(told.0.status.code(), Some(code), "{options:?}: {told:?}");
            assert!(code == 0 || told.stderr().contains("XAIE_INVALID_ELF"));
            // What it compiled has gone where nobody asked for it.
            assert_eq!(scene.has("core.elf"), code == 0 && !expected, "{options:?}");
            fs::read(scene.work.join("k.pdi")).unwrap_or_default()
        };
        let elf = bytes("core_elf/core.elf");
        assert_eq!(
            made(&elf) != made(b"other"),
            expected,
            "{options:?}: {text}"
        );
    }
    // From 1.4.0 it is taken as it is, from the current directory.
    for (place, code) in [("core.elf", 0), ("prj/core.elf", 1)] {
        let scene = Scene::with(3, &text);
        scene.file(place, "an ELF");
        let told = scene.run("aiecc", "--tmpdir=prj --get-pdi k.mlir");
        assert_eq!(told.0.status.code(), Some(code), "{told:?}");
    }
}
