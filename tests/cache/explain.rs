//! Why something is not in the cache: in words, in JSON, with `compile -v` and in the statistics.
use std::fs;

use serde_json::Value;

use crate::common::{Outcome, Scene, TOOLS, executable};
use crate::{below, make_pipe};

const SMALL: &str = "// A kernel.\n\
    func.func @small(%x: memref<4xf32>, %out: memref<4xf32>, %n: i32) {\n\
    \x20 // The first element.\n\
    \x20 %c0 = arith.constant 0 : index\n\
    \x20 %v = memref.load %x[%c0] : memref<4xf32>\n\
    \x20 memref.store %v, %out[%c0] : memref<4xf32>\n\
    \x20 return\n\
    }\n";

fn scene() -> Scene {
    let scene = Scene::replayed();
    scene.file("small.mlir", SMALL);
    scene
}

fn explain(scene: &Scene, options: &[&str]) -> Outcome {
    let arguments = [&["explain", "small.mlir", "--target", "cpu"], options].concat();
    let told = scene.run(&arguments);
    assert_eq!(told.code(), 0, "{told:?}");
    told
}

/// The first step that is not a hit.
fn miss(scene: &Scene, options: &[&str]) -> Value {
    let options = [options, &["--message-format", "json"]].concat();
    let told = explain(scene, &options).stdout();
    serde_json::from_str(told.lines().last().unwrap()).unwrap()
}

fn compile(scene: &Scene) -> Outcome {
    let told = scene.run(&["compile", "small.mlir", "--target", "cpu", "-v"]);
    told.paths();
    told
}

#[test]
fn a_first_build_and_a_hit_are_explained() {
    let scene = scene();
    let told = miss(&scene, &[]);
    assert_eq!(told["outcome"], "miss");
    assert_eq!(told["cause"], "new");
    assert_eq!(told["step"], "compile");
    assert!(told.get("nearest").is_none(), "{told}");
    assert_eq!(scene.runs(), [""; 0], "explaining builds nothing");
    assert!(scene.entry_files().is_empty());
    let built = compile(&scene);
    let why = "why: this cache knows no earlier compile step of it\n";
    assert!(built.stderr().contains(why), "{built:?}");
    let told = explain(&scene, &[]).stdout();
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].starts_with("hit: compile of small for cpu is in the cache as "));
    assert!(lines[1].starts_with("hit: launcher of small is in the cache as "));
    assert!(!compile(&scene).stderr().contains("why: "));
}

#[test]
fn the_line_of_the_users_file_is_named() {
    let scene = scene();
    compile(&scene);
    // Line 6 of what is now the file; comments that moved it are no change.
    let edited = SMALL
        .replace("// A kernel.\n", "")
        .replace("memref.store", "// Here.\n  memref.store")
        .replace("store %v", "store  %v");
    let line = edited
        .lines()
        .position(|line| line.contains("store  %v"))
        .unwrap()
        + 1;
    scene.file("small.mlir", &edited);
    let reason = format!("the source changed at small.mlir:{line}");
    let told = miss(&scene, &[]);
    assert_eq!(told["cause"], "source");
    assert_eq!(told["reason"], *reason);
    let differences = told["nearest"]["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 1, "{told}");
    assert_eq!(differences[0]["field"], "input.kernel.mlir");
    assert_ne!(differences[0]["before"], differences[0]["now"]);
    // The same with compile, in its JSON and in the statistics.
    let json = [
        "compile",
        "small.mlir",
        "--target",
        "cpu",
        "--message-format",
        "json",
    ];
    let built: Value = serde_json::from_str(&scene.run(&json).stdout()).unwrap();
    assert_eq!(built["reason"], *reason);
    assert_eq!(built["steps"][0]["reason"], *reason);
    let stats = scene.run(&["cache", "stats", "--message-format", "json"]);
    let stats: Value = serde_json::from_str(&stats.stdout()).unwrap();
    assert_eq!(stats["causes"]["source"], 1, "{stats}");
    let last = stats["misses"].as_array().unwrap();
    assert!(
        last.iter()
            .any(|miss| miss["reason"] == *reason && miss["kernel"] == "small")
    );
}

#[test]
fn options_outputs_and_the_machine_are_named() {
    let scene = scene();
    compile(&scene);
    let told = miss(&scene, &["--option", "march=x86-64-v3"]);
    assert_eq!(told["cause"], "option");
    assert_eq!(told["reason"], "clang's arguments: -march=x86-64-v3 is new");
    let told = miss(&scene, &["--option", "march=native"]);
    let reason = told["reason"].as_str().unwrap();
    assert!(reason.ends_with("; host cpu is new"), "{told}");
    let told = miss(&scene, &["--keep-intermediates"]);
    assert_eq!(told["cause"], "outputs");
    assert_eq!(
        told["reason"],
        "the outputs: kernel.llvm.mlir kernel.ll are new"
    );
    // What changes the launcher alone is told of the launcher.
    let told = explain(&scene, &["--arg", "x=inout"]).stdout();
    assert!(told.starts_with("hit: compile"), "{told}");
    assert!(
        told.contains("miss: launcher of small: what it launches"),
        "{told}"
    );
}

#[test]
fn a_tool_is_named_with_its_versions_and_its_file() {
    let scene = scene();
    compile(&scene);
    let path = scene.llvm.join("mlir-opt");
    let text = fs::read_to_string(&path).unwrap();
    executable(&path, &format!("{text}# Another build.\n"));
    let told = miss(&scene, &[]);
    assert_eq!(told["cause"], "tool");
    let reason = told["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("mlir-opt 22.1.0 is another build (mlir-opt)"),
        "{reason}"
    );
    executable(&path, &text);
    for name in TOOLS {
        let path = scene.llvm.join(name);
        let text = fs::read_to_string(&path).unwrap();
        executable(&path, &text.replace("22.1.0", "22.1.7"));
    }
    let reason = miss(&scene, &[])["reason"].clone();
    let reason = reason.as_str().unwrap();
    for name in TOOLS {
        let told = format!("{name} was 22.1.0 and is 22.1.7 ({name})");
        assert!(reason.contains(&told), "{reason}");
    }
}

#[test]
fn the_entry_with_the_fewest_differences_is_compared_with() {
    let scene = scene();
    compile(&scene);
    let other = SMALL.replace("constant 0", "constant 1");
    scene.file("small.mlir", &other);
    let arguments = ["compile", "small.mlir", "--target", "cpu"];
    let arguments = [&arguments[..], &["--option", "march=x86-64-v3"]].concat();
    scene.run(&arguments).paths();
    // Nearer to the second, although the first has the same source.
    let told = miss(&scene, &["--option", "march=x86-64-v4"]);
    let differences = told["nearest"]["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 1, "{told}");
    assert_eq!(
        told["reason"],
        "clang's arguments: -march=x86-64-v4 instead of -march=x86-64-v3"
    );
    // A value instead of another is one difference, and of equals the newest counts.
    let older = ["--option", "march=x86-64-v4"];
    scene.file("small.mlir", SMALL);
    scene.run(&[&arguments[..4], &older].concat()).paths();
    scene.file("small.mlir", &other);
    scene.run(&arguments).paths();
    scene.file("small.mlir", SMALL.replace("constant 0", "constant 2"));
    scene.run(&arguments).paths();
    let told = miss(&scene, &older);
    assert_eq!(
        told["reason"],
        "clang's arguments: -march=x86-64-v4 instead of -march=x86-64-v3"
    );
    // An entry of another kernel is no help.
    scene.file("small.mlir", SMALL.replace("@small", "@tiny"));
    assert_eq!(miss(&scene, &[])["cause"], "new");
}

#[test]
fn what_is_gone_and_what_is_damaged_is_told_so() {
    let scene = scene();
    let object = compile(&scene).paths()[0].clone();
    fs::write(object.with_file_name("manifest.json"), "x").unwrap();
    let told = miss(&scene, &[]);
    assert_eq!(told["cause"], "damaged");
    assert!(
        told["reason"].as_str().unwrap().contains("checksum"),
        "{told}"
    );
    assert!(object.exists(), "explaining changes nothing");
    scene.run(&["cache", "clear"]);
    let told = miss(&scene, &[]);
    assert_eq!(told["cause"], "deleted");
    let reason = "it was made just now and has been deleted since";
    assert_eq!(told["reason"], reason);
    let built = compile(&scene);
    assert!(
        built.stderr().contains(&format!("why: {reason}\n")),
        "{built:?}"
    );
}

#[test]
fn a_lost_damaged_or_hostile_history_costs_the_explanation_and_nothing_else() {
    let scene = scene();
    compile(&scene);
    let mut history = below(&scene.cache.join("v1/kernels"));
    history.retain(|path| path.is_file());
    let history = &history[0];
    let precious = scene.file("precious", "precious");
    scene.file("small.mlir", SMALL.replace("constant 0", "constant 1"));
    let nothing = || ();
    let garbage = || fs::write(history, "[{\"step\":\"compile\"").unwrap();
    let long = || fs::write(history, vec![b' '; 1 << 20]).unwrap();
    let link = || std::os::unix::fs::symlink(&precious, history).unwrap();
    let directory = || fs::create_dir(history).unwrap();
    let pipe = || make_pipe(history);
    for plant in [
        &nothing as &dyn Fn(),
        &garbage,
        &long,
        &link,
        &directory,
        &pipe,
    ] {
        let _ = fs::remove_file(history).or_else(|_| fs::remove_dir(history));
        plant();
        assert_eq!(miss(&scene, &[])["cause"], "new");
        compile(&scene);
        scene.run(&["cache", "clear"]);
    }
    assert_eq!(fs::read(precious).unwrap(), b"precious");
}
