//! Kernels that can't be built: a clear error, its exit code, and nothing changed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed helper is a failed test"
)]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use common::{Outcome, Scene};

/// A kernel that is small and has all there is to get wrong.
const SMALL: &str = "func.func @small(%x: memref<4xf32>, %out: memref<4xf32>, %n: i32) {\n\
    \x20 %c0 = arith.constant 0 : index\n\
    \x20 %v = memref.load %x[%c0] : memref<4xf32>\n\
    \x20 memref.store %v, %out[%c0] : memref<4xf32>\n\
    \x20 return\n\
    }\n";

const TWO: &str = "func.func @first(%x: memref<4xf32>) { return }\n\
    func.func @second(%x: memref<4xf32>) { return }\n";

fn compile(file: &str) -> Vec<&str> {
    vec!["compile", file, "--target", "cpu", "--out-dir", "out"]
}

#[test]
fn what_is_no_kernel_is_refused_by_name() {
    let scene = Scene::replayed();
    fs::create_dir(scene.path().join("directory.mlir")).unwrap();
    scene.file("empty.mlir", "");
    scene.file("blank.mlir", "\n  \n// Only a comment.\n");
    scene.file("prose.mlir", "Dear reader,\nthis is no MLIR.\n");
    scene.file("json.mlir", "{\"a\": [1, 2]}");
    scene.file("elf.mlir", b"\x7fELF\x02\x01\x01\0\0\0\0");
    scene.file("bytecode.mlir", b"ML\xefR\x01MLIR22.1.8\0");
    let elided = "%v = arith.constant dense_resource<__elided__> : tensor<4xf32>";
    let load = "%c0 = arith.constant 0 : index";
    scene.file("elided.mlir", SMALL.replace(load, elided));
    scene.file("nul.mlir", SMALL.replace("arith", "ar\0th"));
    scene.file("latin1.mlir", [SMALL.as_bytes(), b"// \xe9\n"].concat());
    scene.file("cut.mlir", &SMALL[..120]);
    scene.file("string.mlir", "module attributes {a = \"b} {\n}\n");
    scene.file("closed.mlir", "module {\n}\n}\n");
    scene.file("crossed.mlir", "module {\n  (\n}\n)\n");
    for (file, words) in [
        ("nothing.mlir", &["No such file"][..]),
        ("directory.mlir", &["this is a directory, not an MLIR file"]),
        ("empty.mlir/x.mlir", &["Not a directory"]),
        (
            "empty.mlir",
            &["the file is empty", "a kernel in MLIR text was expected"],
        ),
        ("blank.mlir", &["the file is empty"]),
        (
            "prose.mlir",
            &["line 1, column 1", "'func.func' was expected"],
        ),
        ("json.mlir", &["not MLIR"]),
        ("elf.mlir", &["not MLIR text, but an ELF file"]),
        (
            "bytecode.mlir",
            &["not MLIR text, but MLIR bytecode", "mlir-opt FILE"],
        ),
        (
            "elided.mlir",
            &["line 2, column 23", "dense_resource<__elided__>"],
        ),
        ("nul.mlir", &["a NUL byte at offset", "line 2"]),
        ("latin1.mlir", &["invalid UTF-8 at offset", "line 7"]),
        ("cut.mlir", &["truncated MLIR: the '{' at line 1"]),
        (
            "string.mlir",
            &["the string at line 1, column 24 is not closed"],
        ),
        ("closed.mlir", &["line 3, column 1 closes nothing"]),
        ("crossed.mlir", &["line 2, column 3", "line 3, column 1"]),
    ] {
        let words = [&[file], words].concat();
        scene.refuses(&compile(file), 2, &words);
        scene.refuses(&["key", file, "--target", "cpu"], 2, &words);
        scene.refuses(&["signature", file], 2, &words);
    }
    assert_eq!(scene.runs(), [""; 0]);
}

#[test]
fn ten_megabytes_of_random_bytes_are_refused() {
    let scene = Scene::replayed();
    // xorshift64, the same bytes each time.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let bytes: Vec<u8> = words.take((10 << 20) / 8).flatten().collect();
    scene.file("noise.mlir", &bytes);
    scene.refuses(&compile("noise.mlir"), 2, &["noise.mlir", "not MLIR text"]);
    // The same as letters: no NUL, and valid UTF-8.
    let letters: Vec<u8> = bytes.iter().map(|byte| b' ' + byte % 95).collect();
    scene.file("letters.mlir", letters);
    scene.refuses(&compile("letters.mlir"), 2, &["letters.mlir"]);
    assert_eq!(scene.runs(), [""; 0]);
}

#[test]
fn every_prefix_of_a_kernel_ends_well() {
    // Whatever the scan lets pass goes to the tools; what those say of half a kernel is in
    // `a_tool_names_the_users_file`.
    let scene = Scene::replayed();
    for end in 0..SMALL.len() {
        let file = scene.file("prefix.mlir", &SMALL[..end]);
        let told = scene.run(&["signature", file.to_str().unwrap()]);
        let is_whole = end > SMALL.rfind('}').unwrap();
        assert_eq!(told.code(), if is_whole { 0 } else { 2 }, "{end}: {told:?}");
        assert!(!told.stderr().contains("panicked"), "{end}: {told:?}");
    }
}

#[test]
fn prefixes_that_the_scan_lets_pass_are_refused_by_the_tool() {
    let scene = Scene::new();
    for body in [
        "%c0 = ",
        "%c0 = arith.constant 0",
        "%c0 = arith.constant 0 : indx",
    ] {
        scene.file(
            "half.mlir",
            format!("func.func @small(%x: memref<4xf32>) {{\n  {body}\n}}\n"),
        );
        scene.refuses(
            &compile("half.mlir"),
            1,
            &["half.mlir:", "mlir-opt failed with exit status 1"],
        );
    }
}

#[test]
fn paths_that_are_no_text_work() {
    let scene = Scene::replayed();
    let name = OsStr::from_bytes(b"caf\xe9 \"1\" $HOME.mlir");
    fs::write(scene.path().join(name), SMALL).unwrap();
    let out = scene.path().join(OsStr::from_bytes(b"out\xff"));
    let mut command = scene.npu_build();
    command.args(["compile", "--target", "cpu"]).arg(name);
    command.arg("--out-dir").arg(&out);
    let output = command.output().unwrap();
    let printed = output.stdout.clone();
    assert_eq!(output.status.code(), Some(0), "{:?}", Outcome(output));
    for line in printed
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        assert!(fs::exists(OsStr::from_bytes(line)).unwrap(), "{line:?}");
    }
    // JSON has them as near as text gets, of every kind of path.
    let cache = scene.path().join(OsStr::from_bytes(b"cache\xff"));
    let compile = [
        &[
            "compile".as_ref(),
            "--target".as_ref(),
            "cpu".as_ref(),
            name,
        ][..],
        &["--out-dir".as_ref(), out.as_os_str()],
    ]
    .concat();
    let of_the_cache = ["list", "verify", "dir"].map(|what| vec!["cache".as_ref(), what.as_ref()]);
    for arguments in [compile].into_iter().chain(of_the_cache) {
        let mut command = scene.npu_build();
        command.env("NPU_BUILD_CACHE_DIR", &cache).args(&arguments);
        let told = Outcome(command.arg("--json").output().unwrap());
        assert_eq!(told.code(), 0, "{arguments:?}: {told:?}");
        assert!(told.stdout().starts_with('{'), "{arguments:?}: {told:?}");
    }
    // And in an error they are shown as well as can be.
    fs::write(scene.path().join(name), "module {").unwrap();
    let told = Outcome(
        scene
            .npu_build()
            .arg("signature")
            .arg(name)
            .output()
            .unwrap(),
    );
    told.fails(2, &["caf\u{fffd} \"1\" $HOME.mlir: truncated MLIR"]);
}

#[test]
fn the_target_must_be_one_that_fits() {
    let scene = Scene::replayed();
    scene.file("small.mlir", SMALL);
    let aie = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/aie/copy_npu2/kernel.mlir"
    );
    scene.refuses(
        &["compile", "small.mlir"],
        2,
        &["small.mlir", "--target cpu, npu1 or npu2", "npu-build.toml"],
    );
    scene.refuses(
        &compile(aie),
        2,
        &[aie, "aie-level MLIR", "--target npu1 or npu2"],
    );
    // There is no toolchain for these here, which is told with all that is missing.
    for target in ["npu1", "npu2"] {
        let arguments = ["compile", "small.mlir", "--target", target];
        scene.refuses(
            &arguments,
            3,
            &["no usable air-opt found", "no usable aiecc"],
        );
    }
    scene.refuses(&["compile", aie], 3, &["no usable aiecc found", "try: "]);
    scene.refuses(
        &["compile", aie, "--target", "npu1"],
        2,
        &[aie, "aie.device(npu2", "use --target npu2"],
    );
    scene.refuses(
        &["compile", "small.mlir", "--target", "cpuu"],
        2,
        &["'cpuu' is not a target", "did you mean 'cpu'?"],
    );
}

#[test]
fn the_entry_must_be_one_that_is_there() {
    let scene = Scene::replayed();
    scene.file("none.mlir", "module {\n}\n");
    scene.file("private.mlir", "func.func private @f(%x: memref<4xf32>)\n");
    scene.file(
        "triton.mlir",
        "tt.func public @k(%x: !tt.ptr<f32>) {\n  tt.return\n}\n",
    );
    scene.file("two.mlir", TWO);
    scene.file(
        "returns.mlir",
        "\nfunc.func @f(%x: memref<4xf32>) -> f32 {\n}\n",
    );
    let with = |file, entry| [compile(file), vec!["--entry", entry]].concat();
    for (arguments, words) in [
        (
            compile("none.mlir"),
            &["none.mlir", "no entry function"][..],
        ),
        (
            compile("private.mlir"),
            &["private.mlir", "no entry function"],
        ),
        (
            compile("triton.mlir"),
            &["triton.mlir", "triton-shared-opt"],
        ),
        (
            compile("two.mlir"),
            &["two.mlir", "choose one with --entry: first, second"],
        ),
        (
            with("two.mlir", "secnd"),
            &[
                "no entry 'secnd'",
                "first, second",
                "did you mean 'second'?",
            ],
        ),
        (with("two.mlir", ""), &["no entry ''"]),
        (
            compile("returns.mlir"),
            &[
                "returns.mlir: line 2: 'f' returns values",
                "memref arguments",
            ],
        ),
    ] {
        scene.refuses(&arguments, 2, words);
    }
    scene.run(&with("two.mlir", "second")).paths();
}

#[test]
fn arguments_and_signatures_must_fit_the_kernel() {
    let scene = Scene::replayed();
    scene.file("small.mlir", SMALL);
    let file = "small.mlir";
    for (option, value, words) in [
        (
            "--arg",
            "ou=out",
            &[file, "no argument 'ou'", "x, out, n", "did you mean 'out'?"][..],
        ),
        (
            "--arg",
            "n=out",
            &[file, "'n' of 'small' is a scalar (i32)"],
        ),
        ("--arg", "out", &["NAME=DIRECTION", "c=out"]),
        (
            "--arg",
            "out=",
            &["'' is no direction; there are in, out and inout"],
        ),
        ("--arg", "out=output", &["'output' is no direction"]),
        (
            "--signature",
            "*fp32,*fp32",
            &[file, "has 2 arguments", "'small' has 3: x, out, n"],
        ),
        (
            "--signature",
            "*fp32,*fp32,i32,i32",
            &[file, "has 4 arguments", "has 3"],
        ),
        (
            "--signature",
            "fp32,*fp32,i32",
            &[file, "says 'fp32' for argument 'x'", "memref<4xf32>"],
        ),
        (
            "--signature",
            "*fp32,*fp32,*i32",
            &[file, "says '*i32' for argument 'n'", "i32"],
        ),
        (
            "--signature",
            "*fp32,*fp16,i32",
            &[file, "says '*fp16' for argument 'out'", "memref<4xf32>"],
        ),
        (
            "--signature",
            "*fp32,*fp32,i64",
            &[file, "says 'i64' for argument 'n'"],
        ),
        ("--signature", "*fp32,,i32", &[file, "--signature: "]),
        ("--signature", "", &[file, "has 0 arguments"]),
        (
            "--signature",
            "*fp32,*fp32:sideways,i32",
            &[file, "--signature: ", "sideways"],
        ),
        (
            "--signature",
            "*float,*fp32,i32",
            &[file, "--signature: ", "float"],
        ),
    ] {
        let arguments = [compile(file), vec![option, value]].concat();
        scene.refuses(&arguments, 2, words);
    }
}

#[test]
fn argument_types_without_a_counterpart_are_named() {
    let scene = Scene::replayed();
    for (mlir_type, words) in [
        (
            "tensor<4xf32>",
            &["argument 'x'", "tensor<4xf32>", "use a memref"][..],
        ),
        ("vector<4xf32>", &["argument 'x'", "vector<4xf32>"]),
        ("complex<f32>", &["argument 'x'", "complex<f32>"]),
        ("!llvm.ptr", &["argument 'x'", "!llvm.ptr"]),
        ("i7", &["x", "i7"]),
        ("f80", &["x", "f80"]),
        ("memref<4xf32, strided<[2]>>", &["x", "not contiguous"]),
        (
            "memref<4x4xf32, affine_map<(d0, d1) -> (d1, d0)>>",
            &["x", "identity and strided"],
        ),
        ("memref<99999999999999999999xf32>", &["x"]),
    ] {
        let file = scene.file(
            "odd.mlir",
            format!("func.func @odd(%x: {mlir_type}) {{\n  return\n}}\n"),
        );
        let file = file.to_str().unwrap();
        scene.refuses(&compile(file), 2, &[&[file], words].concat());
    }
    assert_eq!(scene.runs(), [""; 0]);
}

/// A kernel whose line 11, column 17 is wrong, after everything that npu-build takes out.
const WRONG: &str = r#"// A comment.

module {
  // Another.
  func.func @wrong(%x: memref<4xf32> loc("k.py":1:1)) {

    %c0 = arith.constant 0 : index loc("k.py":3:5)

    %v = memref.load %x[%c0] : memref<4xf32> loc(#place)
    // The next one.
    "no.such.op"(%v) : (f32) -> ()
    return
  }
}
#place = loc("k.py":4:7)
"#;

#[test]
fn a_tool_names_the_users_file() {
    let scene = Scene::new();
    fs::create_dir(scene.path().join("kernels")).unwrap();
    scene.file("kernels/my kernel.mlir", WRONG);
    // mlir-opt points behind the operation's name.
    scene.refuses(
        &compile("kernels/my kernel.mlir"),
        1,
        &[
            "kernels/my kernel.mlir: mlir-opt failed with exit status 1",
            "kernels/my kernel.mlir:11:17: error: ",
            "unregistered",
            "command: ",
            "/mlir-opt 'kernels/my kernel.mlir' --",
            "full log: ",
        ],
    );
    // A type error, in a later pass and with a note on another line.
    scene.file(
        "types.mlir",
        "// One.\n\nfunc.func @k(%x: memref<4xf32>) {\n  %c0 = arith.constant 0 : index\n\n  \
         %a = memref.load %x[%c0] : memref<4xf32>\n  // Two.\n  %v = math.absf %a : f64\n  return\n}\n",
    );
    scene.refuses(
        &compile("types.mlir"),
        1,
        &["types.mlir:8:18: error: ", "types.mlir:6:3: note: "],
    );
    // What a pass refuses has the location of the operation.
    scene.file(
        "pass.mlir",
        "// One.\nfunc.func @k(%x: memref<4xf32>) {\n  // Two.\n  %t = bufferization.to_tensor %x \
         restrict : memref<4xf32> to tensor<4xf32>\n\n  %v = tosa.abs %t : (tensor<4xf32>) -> \
         tensor<4xf32>\n  bufferization.materialize_in_destination %v in restrict writable %x : \
         (tensor<4xf32>, memref<4xf32>) -> ()\n  return\n}\n",
    );
    scene.refuses(&compile("pass.mlir"), 1, &["pass.mlir:6:8: error: "]);
    let logs = fs::read_dir(scene.cache.join("v1/failures")).unwrap();
    for log in logs.flatten() {
        let text = fs::read_to_string(log.path()).unwrap();
        assert!(text.starts_with("$ mlir-opt kernel.mlir --"), "{text}");
        assert!(text.contains(".mlir:"), "{text}");
    }
}

#[test]
fn an_operation_that_no_pass_lowers_is_named() {
    let scene = Scene::new();
    for (operation, text) in [
        // Of a dialect that mlir-translate translates, but not on a CPU.
        (
            "gpu.thread_id",
            "func.func @k(%x: memref<4xindex>) {\n  %v = gpu.thread_id x\n  memref.store %v, \
             %x[%v] : memref<4xindex>\n  return\n}\n",
        ),
        // Of dialects that it does not know.
        (
            "emitc.bitwise_not",
            "func.func @k(%x: memref<4xi32>) {\n  %c = arith.constant 1 : i32\n  %v = \
             emitc.bitwise_not %c : (i32) -> i32\n  return\n}\n",
        ),
        (
            "shard.grid",
            "shard.grid @m(shape = 2x2)\nfunc.func @k(%x: memref<4xi32>) {\n  return\n}\n",
        ),
        // Of one that it knows and does not translate.
        (
            "builtin.unrealized_conversion_cast",
            "func.func @k(%x: memref<4xindex>) {\n  %v = builtin.unrealized_conversion_cast %x : \
             memref<4xindex> to index\n  memref.store %v, %x[%v] : memref<4xindex>\n  return\n}\n",
        ),
    ] {
        scene.file("left.mlir", text);
        let says = format!("no pass of the cpu target lowers '{operation}': write the kernel with");
        scene.refuses(
            &compile("left.mlir"),
            1,
            &[
                "left.mlir: mlir-translate failed with exit status 1; ",
                &says,
                "in an intermediate file: ",
                "full log: ",
            ],
        );
    }
}

#[test]
fn assembly_that_includes_files_is_refused_and_names_do_not_steer_the_terminal() {
    let scene = Scene::replayed();
    scene.file(
        "asm.mlir",
        "func.func @k(%x: memref<4xf32>) {\n  llvm.inline_asm has_side_effects \".incbin \\22/etc/hostname\\22\", \"\" : () -> ()\n  return\n}\n",
    );
    scene.refuses(&compile("asm.mlir"), 2, &["asm.mlir", ".incbin"]);
    scene.file(
        "name.mlir",
        "func.func @\"\\1B[31mred\"(%x: tensor<4xf32>) {\n  return\n}\n",
    );
    let told = scene.run(&compile("name.mlir"));
    assert!(!told.0.stderr.contains(&0x1b), "{told:?}");
}
