//! What is in a key and what is not: two builds share an entry exactly if nothing that can change
//! the outcome differs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed helper is a failed test"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Outcome, Scene, TOOLS, executable};

const SMALL: &str = "func.func @small(%x: memref<4xf32>, %out: memref<4xf32>, %n: i32) {\n\
    \x20 %c0 = arith.constant 0 : index\n\
    \x20 %v = memref.load %x[%c0] : memref<4xf32>\n\
    \x20 memref.store %v, %out[%c0] : memref<4xf32>\n\
    \x20 return\n\
    }\n";

fn key_of(command: &mut Command, kernel: &Path, options: &[&str]) -> String {
    command
        .arg("key")
        .arg(kernel)
        .args(["--target", "cpu"])
        .args(options);
    let told = Outcome(command.output().unwrap());
    assert_eq!(told.code(), 0, "{told:?}");
    told.stdout().lines().next().unwrap().to_owned()
}

fn key(scene: &Scene, kernel: &Path, options: &[&str]) -> String {
    key_of(&mut scene.npu_build(), kernel, options)
}

/// The fields of the key's material by their names.
fn material(scene: &Scene, kernel: &Path, options: &[&str]) -> BTreeMap<String, String> {
    let mut command = scene.npu_build();
    command
        .arg("-v")
        .arg("key")
        .arg(kernel)
        .args(["--target", "cpu"])
        .args(options);
    let told = Outcome(command.output().unwrap());
    assert_eq!(told.code(), 0, "{told:?}");
    let stdout = told.stdout();
    let fields = stdout
        .lines()
        .skip(1)
        .map(|line| line.trim_start().split_once(" = ").unwrap());
    fields
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The names of the fields that differ.
fn differences(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> Vec<String> {
    let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let different = names
        .into_iter()
        .filter(|name| one.get(*name) != other.get(*name));
    different.cloned().collect()
}

#[test]
fn where_and_by_whom_a_kernel_is_built_is_not_in_its_key() {
    let scene = Scene::replayed();
    let kernel = scene.file("small.mlir", SMALL);
    let expected = key(&scene, &kernel, &[]);
    assert_eq!(expected.len(), 64);
    for (name, value) in [
        ("HOME", "/nonexistent"),
        ("USER", "somebody"),
        ("LOGNAME", "somebody"),
        ("LANG", "de_DE.UTF-8"),
        ("LC_ALL", "tr_TR.UTF-8"),
        ("TZ", "Pacific/Chatham"),
        ("TMPDIR", "/dev/shm"),
        ("PATH", "/bin"),
        ("COLUMNS", "20"),
        ("TERM", "dumb"),
        ("NO_COLOR", "1"),
        ("CC", "gcc"),
        ("CFLAGS", "-O0"),
        ("LD_LIBRARY_PATH", "/nonexistent"),
        ("SOURCE_DATE_EPOCH", "1"),
        ("NPU_BUILD_JOBS", "3"),
        ("NPU_BUILD_TIMEOUT", "1h"),
        ("NPU_BUILD_SHARED_CACHE", "0"),
        ("NPU_BUILD_MARCH", "baseline"),
        ("NPU_BUILD_MARCH", ""),
    ] {
        let found = key_of(scene.npu_build().env(name, value), &kernel, &[]);
        assert_eq!(found, expected, "{name}={value}");
    }
    for options in [
        &["--timeout", "90s"][..],
        &["--no-cache"],
        &["--entry", "small"],
        &["--option", "march=baseline"],
        &["-v"],
        &["--cache-dir", "elsewhere"],
    ] {
        assert_eq!(key(&scene, &kernel, options), expected, "{options:?}");
    }
    for mask in ["077", "000"] {
        let program = scene.npu_build();
        let mut shell = common::in_place_of(&program, "/bin/sh");
        shell
            .args(["-c", &format!("umask {mask}; exec \"$0\" \"$@\"")])
            .arg(program.get_program());
        assert_eq!(key_of(&mut shell, &kernel, &[]), expected, "umask {mask}");
    }
}

#[test]
fn the_path_and_the_name_of_the_file_are_not_in_its_key() {
    let scene = Scene::replayed();
    let kernel = scene.file("small.mlir", SMALL);
    let expected = key(&scene, &kernel, &[]);
    // Two checkouts, another name, and links to file and directory.
    for checkout in ["one", "two"] {
        fs::create_dir_all(scene.path().join(checkout).join("kernels")).unwrap();
        let file = format!("{checkout}/kernels/{checkout}.mlir");
        assert_eq!(
            key(&scene, &scene.file(&file, SMALL), &[]),
            expected,
            "{file}"
        );
        assert_eq!(key(&scene, Path::new(&file), &[]), expected, "{file}");
    }
    symlink("one", scene.path().join("link")).unwrap();
    symlink("one/kernels/one.mlir", scene.path().join("linked.mlir")).unwrap();
    let mut elsewhere = scene.npu_build();
    elsewhere.current_dir(scene.path().join("two/kernels"));
    for (command, file) in [
        (&mut scene.npu_build(), "link/kernels/one.mlir"),
        (&mut scene.npu_build(), "linked.mlir"),
        (&mut scene.npu_build(), "./two/../small.mlir"),
        (&mut elsewhere, "../../small.mlir"),
        (&mut scene.npu_build(), "/dev/stdin"),
    ] {
        let input = fs::File::open(&kernel).unwrap();
        assert_eq!(
            key_of(command.stdin(input), Path::new(file), &[]),
            expected,
            "{file}"
        );
    }
    // And so a build of one is a hit for all.
    scene.compile(&kernel).paths();
    let told = scene.compile(Path::new("two/kernels/two.mlir"));
    assert!(told.stderr().contains("hit: small"), "{told:?}");
}

#[test]
fn text_that_no_compiler_reads_is_not_in_the_key() {
    let scene = Scene::replayed();
    let kernel = scene.file("small.mlir", SMALL);
    let expected = key(&scene, &kernel, &[]);
    for (what, text) in [
        ("a comment", format!("// A comment.\n{SMALL}")),
        (
            "a comment behind code",
            SMALL.replace("return", "return // The end."),
        ),
        ("blank lines", SMALL.replace('\n', "\n\n  \n")),
        (
            "white space at the end of a line",
            SMALL.replace("index\n", "index  // x \n"),
        ),
        (
            "locations",
            SMALL
                .replace("\n  ", " loc(\"k.py\":1:2)\n  ")
                .replace("{ loc(\"k.py\":1:2)", "{"),
        ),
        (
            "a location alias",
            format!(
                "{}#loc1 = loc(\"k.py\":1:2)\n",
                SMALL.replace("return", "return loc(#loc1)")
            ),
        ),
        (
            "no newline at the end",
            SMALL.trim_end().to_owned() + "\n\n",
        ),
    ] {
        fs::write(&kernel, &text).unwrap();
        assert_eq!(key(&scene, &kernel, &[]), expected, "{what}:\n{text}");
    }
    // What may mean something stays: indentation is not told from what is in a string.
    for text in [
        SMALL.replace("  return", "   return"),
        SMALL.replace('\n', "\r\n"),
    ] {
        fs::write(&kernel, &text).unwrap();
        assert_ne!(key(&scene, &kernel, &[]), expected, "{text}");
    }
}

#[test]
fn every_edit_of_the_kernel_is_in_its_key() {
    let scene = Scene::replayed();
    let kernel = scene.file("small.mlir", SMALL);
    let mut keys = BTreeMap::from([(key(&scene, &kernel, &[]), "nothing".to_owned())]);
    for (from, to) in [
        ("@small", "@smaller"),
        ("%x: memref<4xf32>", "%x: memref<8xf32>"),
        ("%x: memref<4xf32>", "%x: memref<?xf32>"),
        ("%x: memref<4xf32>", "%x: memref<*xf32>"),
        ("%x: memref<4xf32>", "%x: memref<4xf32, strided<[1]>>"),
        ("%x: memref<4xf32>", "%x: memref<4xbf16>"),
        (
            "%out: memref<4xf32>",
            "%out: memref<4xf32> {tt.divisibility = 16 : i32}",
        ),
        ("%n: i32", "%n: i64"),
        ("%n: i32", "%n: f32"),
        ("%n: i32", "%n: i32, %m: i32"),
        ("%n: i32", "%m: i32"),
        ("arith.constant 0", "arith.constant 1"),
        ("memref.store %v", "memref.store  %v"),
        (
            "  return\n",
            "  memref.store %v, %out[%c0] : memref<4xf32>\n  return\n",
        ),
        ("func.func", "module {}\nfunc.func"),
    ] {
        let text = SMALL.replace(from, to);
        assert_ne!(text, SMALL);
        fs::write(&kernel, text).unwrap();
        let edit = format!("{from} to {to}");
        if let Some(same) = keys.insert(key(&scene, &kernel, &[]), edit.clone()) {
            panic!("{edit} has the key of {same}");
        }
    }
}

#[test]
fn options_that_change_the_object_are_in_its_key() {
    let scene = Scene::replayed();
    let kernel = scene.file("small.mlir", SMALL);
    let plain = material(&scene, &kernel, &[]);
    for (options, expected) in [
        (&["--option", "march=x86-64-v3"][..], &["command.2"][..]),
        (
            &["--option", "march=native"],
            &["command.2", "fact.host_cpu"],
        ),
        (&["--keep-intermediates"], &["outputs"]),
    ] {
        let with = material(&scene, &kernel, options);
        assert_eq!(differences(&plain, &with), expected, "{options:?}");
        assert_ne!(key(&scene, &kernel, options), key(&scene, &kernel, &[]));
    }
}

/// Keys of the compile and the launcher step, from the JSON of a compilation.
fn step_keys(scene: &Scene, kernel: &Path, options: &[&str]) -> [String; 2] {
    let mut command = scene.npu_build();
    command
        .arg("compile")
        .arg(kernel)
        .args(["--target", "cpu", "--message-format", "json"]);
    let told = Outcome(command.args(options).output().unwrap());
    let object: serde_json::Value = serde_json::from_str(&told.stdout()).unwrap();
    [0, 1].map(|step| object["steps"][step]["key"].as_str().unwrap().to_owned())
}

#[test]
fn directions_are_in_the_launchers_key_alone() {
    let scene = Scene::replayed();
    let kernel = scene.file("small.mlir", SMALL);
    let [compile, launcher] = step_keys(&scene, &kernel, &[]);
    assert_eq!(scene.runs(), TOOLS);
    for options in [
        &["--arg", "x=inout"][..],
        &["--signature", "*fp32:inout,*fp32:out,i32"],
    ] {
        let with = step_keys(&scene, &kernel, options);
        assert_eq!(with[0], compile, "{options:?}");
        assert_ne!(with[1], launcher, "{options:?}");
    }
    // What was inferred anyway changes nothing.
    let same = step_keys(&scene, &kernel, &["--arg", "x=in"]);
    assert_eq!(same, [compile, launcher]);
    assert_eq!(scene.runs(), [""; 0]);
}

#[test]
fn tools_are_in_the_key_by_their_content() {
    let scene = Scene::replayed();
    let kernel = scene.file("small.mlir", SMALL);
    let before = material(&scene, &kernel, &[]);
    for name in [&TOOLS[..], &["ld"]].concat() {
        let path = scene.llvm.join(name);
        let text = fs::read_to_string(&path).unwrap();
        // Touched, and written again with the same content.
        let status = Command::new("touch")
            .args(["-d", "2001-01-01"])
            .arg(&path)
            .status();
        assert!(status.unwrap().success());
        assert_eq!(material(&scene, &kernel, &[]), before, "{name} touched");
        executable(&path, &text);
        assert_eq!(
            material(&scene, &kernel, &[]),
            before,
            "{name} written again"
        );
        executable(&path, &format!("{text}# Another build.\n"));
        let after = material(&scene, &kernel, &[]);
        assert_eq!(differences(&before, &after), [format!("tool.{name}")]);
        executable(&path, &text);
        assert_eq!(material(&scene, &kernel, &[]), before, "{name} as before");
    }
    let support = scene.llvm.join("support.a");
    fs::write(&support, "!<arch>\nmore\n").unwrap();
    assert_eq!(
        differences(&before, &material(&scene, &kernel, &[])),
        ["tool.support"]
    );
}

#[test]
fn another_linker_is_another_key() {
    let scene = Scene::replayed();
    let kernel = scene.file("small.mlir", SMALL);
    let before = material(&scene, &kernel, &[]);
    // Clang answers with another one, which would be told from the script's text too; so the answer
    // comes from a file that is no part of clang.
    let answer = scene.file("linker", scene.llvm.join("ld").to_str().unwrap());
    let clang = fs::read_to_string(scene.llvm.join("clang")).unwrap();
    let asked = r#"echo "${0%/*}/ld""#;
    assert!(clang.contains(asked));
    executable(
        &scene.llvm.join("clang"),
        &clang.replace(asked, &format!("cat '{}'", answer.display())),
    );
    let one = material(&scene, &kernel, &[]);
    assert_eq!(differences(&before, &one), ["tool.clang"]);
    let lld = scene.llvm.join("ld.lld");
    executable(&lld, "#!/bin/sh\necho 'LLD 22.1.0'\n");
    fs::write(&answer, lld.to_str().unwrap()).unwrap();
    // Nothing that was watched has changed, but this is a cache that knows nothing yet.
    let other = {
        let mut fresh = scene.npu_build();
        fresh.env("NPU_BUILD_CACHE_DIR", scene.path().join("fresh"));
        fresh.args(["-v", "key", "small.mlir", "--target", "cpu"]);
        let told = Outcome(fresh.output().unwrap());
        assert_eq!(told.code(), 0, "{told:?}");
        told.stdout()
    };
    let expected = format!("tool.ld = {}", one["tool.ld"]);
    assert!(!other.contains(&expected), "{other}");
}

#[test]
fn an_installation_can_be_moved_and_its_libraries_are_part_of_it() {
    if Command::new("gcc").arg("--version").output().is_err() {
        panic!("gcc makes the programs of this test; tests/setup.sh installs it");
    }
    let mut scene = Scene::replayed();
    let kernel = scene.file("small.mlir", SMALL);
    // A real program with a library of its own, which answers as LLVM does.
    let lib = scene.path().join("llvm/lib");
    fs::create_dir(&lib).unwrap();
    let build_library = |comment: &str| {
        let text = format!(
            "const char comment[] = \"{comment}\";\nconst char *version(void) {{ return \"22.1.0\"; }}\n"
        );
        let source = scene.file("library.c", text);
        gcc(
            &["-shared", "-fPIC", "-Wl,-soname,libMLIR.so.1"],
            &source,
            &lib.join("libMLIR.so.1"),
        );
    };
    build_library("one");
    let source = scene.file(
        "tool.c",
        "#include <stdio.h>\nconst char *version(void);\nint main(void) { return \
         printf(\"LLVM version %s\\n\", version()) < 0; }\n",
    );
    let library = lib.join("libMLIR.so.1");
    let opt = scene.llvm.join("mlir-opt");
    gcc(
        &["-Wl,-rpath,$ORIGIN/../lib", library.to_str().unwrap()],
        &source,
        &opt,
    );
    let before = material(&scene, &kernel, &[]);
    build_library("two");
    let after = material(&scene, &kernel, &[]);
    assert_eq!(differences(&before, &after), ["tool.mlir-opt"]);

    let moved = scene.path().join("moved");
    fs::rename(scene.path().join("llvm"), &moved).unwrap();
    symlink("moved", scene.path().join("llvm")).unwrap();
    scene.llvm = moved.join("bin");
    assert_eq!(material(&scene, &kernel, &[]), after);
    // Through a link as well.
    scene.llvm = scene.path().join("llvm");
    assert_eq!(material(&scene, &kernel, &[]), after);
}

fn gcc(arguments: &[&str], source: &Path, output: &Path) {
    let new: PathBuf = output.with_extension("new");
    let status = Command::new("gcc")
        .arg(source)
        .args(arguments)
        .arg("-o")
        .arg(&new)
        .status();
    assert!(status.unwrap().success());
    fs::rename(new, output).unwrap();
}

#[test]
fn the_material_lists_everything_and_no_path() {
    let scene = Scene::new();
    let kernel = scene.kernel("vecadd.mlir");
    let material = material(&scene, &kernel, &[]);
    let names: Vec<_> = material.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "command.0",
            "command.1",
            "command.2",
            "environment.LC_ALL",
            "environment.TMPDIR",
            "input.call.inc",
            "input.cpu_entry.c",
            "input.kernel.mlir",
            "input.schedule.mlir",
            "outputs",
            "step",
            "tool.clang",
            "tool.ld",
            "tool.mlir-opt",
            "tool.mlir-translate",
            "tool.support",
            "version",
        ]
    );
    for (name, value) in &material {
        assert!(
            !value.contains(scene.path().to_str().unwrap()),
            "{name} = {value}"
        );
        assert!(!value.contains("/usr"), "{name} = {value}");
    }
    // The same in JSON and in the entry's manifest.
    let told = scene.run(&[
        "key",
        "vecadd.mlir",
        "--target",
        "cpu",
        "--message-format",
        "json",
    ]);
    let object: serde_json::Value = serde_json::from_str(&told.stdout()).unwrap();
    let fields = object["material"].as_array().unwrap();
    assert_eq!(fields.len(), material.len());
    let object_path = &scene.compile(&kernel).paths()[0];
    let manifest = fs::read_to_string(object_path.with_file_name("manifest.json")).unwrap();
    for (name, value) in &material {
        assert!(
            manifest.contains(&format!("\"name\":\"{name}\"")),
            "{name}:\n{manifest}"
        );
        if let Some(digest) = value.strip_prefix("sha256:") {
            assert!(manifest.contains(digest), "{name}:\n{manifest}");
        }
    }
    assert!(manifest.contains(object["key"].as_str().unwrap()));
    assert!(
        !manifest.contains(scene.path().to_str().unwrap()),
        "{manifest}"
    );
}

#[test]
fn who_builds_and_on_which_machine_is_not_in_the_key() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be another user, or give the machine another name");
        return;
    }
    let scene = Scene::replayed();
    let kernel = scene.file("small.mlir", SMALL);
    let expected = key(&scene, &kernel, &[]);
    let elsewhere = scene.path().join("elsewhere");
    let mut somebody = scene.unprivileged();
    somebody.env("NPU_BUILD_CACHE_DIR", &elsewhere);
    assert_eq!(key_of(&mut somebody, &kernel, &[]), expected);
    let program = scene.npu_build();
    let mut renamed = common::in_place_of(&program, "unshare");
    renamed
        .args([
            "--uts",
            "sh",
            "-c",
            "hostname elsewhere && exec \"$0\" \"$@\"",
        ])
        .arg(program.get_program());
    if Command::new("unshare")
        .args(["--uts", "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        assert_eq!(key_of(&mut renamed, &kernel, &[]), expected);
    }
}

#[test]
fn flags_in_another_order_mean_the_same() {
    let scene = Scene::replayed();
    let kernel = scene.file("small.mlir", SMALL);
    let keys = |options: &[&str]| step_keys(&scene, &kernel, options);
    let one = [
        "--arg",
        "x=inout",
        "--arg",
        "out=inout",
        "--keep-intermediates",
    ];
    let other = [
        "--keep-intermediates",
        "--arg",
        "out=inout",
        "--arg",
        "x=inout",
    ];
    assert_eq!(keys(&one), keys(&other));
    // The last word counts.
    let twice = ["--option", "march=native", "--option", "march=baseline"];
    assert_eq!(keys(&twice), keys(&[]));
}

#[test]
fn a_moved_cache_and_one_behind_a_link_serve_the_same_keys() {
    let mut scene = Scene::replayed();
    let kernel = scene.file("small.mlir", SMALL);
    scene.compile(&kernel).paths();
    let moved = scene.path().join("moved");
    fs::rename(&scene.cache, &moved).unwrap();
    symlink("moved", scene.path().join("link to it")).unwrap();
    for cache in [moved, scene.path().join("link to it")] {
        scene.cache = cache;
        let told = scene.compile(&kernel);
        assert!(told.stderr().starts_with("hit: small"), "{told:?}");
    }
}
