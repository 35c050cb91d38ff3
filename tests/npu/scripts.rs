//! Transform scripts: what they include is part of the key, and what is wrong with them is told.

use std::fs;

use crate::kernels;
use crate::scene::{AIRCC, LOWER, NOTHING, Runs, Scene};

const COMPILE: &str = "k.mlir --target npu2 --transform s/script.mlir";
const LIBRARY: &str = "module {\n  func.func private @f()\n}\n";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::gridless());
    scene
}

/// The doubles' script, which includes these files.
fn including(scene: &Scene, files: &[&str]) -> String {
    let script = fs::read_to_string(scene.tools.transform()).unwrap();
    let includes = files.iter().map(|file| {
        format!("    transform.include @tile failures(propagate) () {{library = \"{file}\"}} : () -> ()\n")
    });
    let includes: String = includes.collect();
    script.replace(
        "    transform.yield\n",
        &format!("{includes}    transform.yield\n"),
    )
}

#[track_caller]
fn runs(scene: &Scene, expected: Runs) {
    let built = scene.compile(COMPILE);
    assert_eq!(scene.ran(), expected, "{}", built.steps());
}

#[test]
fn an_included_file_is_staged_and_in_the_key() {
    let scene = scene();
    scene.file(
        "s/script.mlir",
        including(&scene, &["library.mlir", "deep/er/more.mlir"]),
    );
    scene.file("s/library.mlir", LIBRARY);
    scene.file("s/deep/er/more.mlir", LIBRARY);
    // Others of these names are not looked at.
    scene.file("library.mlir", "garbage");
    scene.file("deep/er/more.mlir", "garbage");
    runs(&scene, LOWER + AIRCC);
    runs(&scene, NOTHING);
    scene.file("s/library.mlir", format!("// Only a comment.\n{LIBRARY}"));
    runs(&scene, NOTHING);
    scene.file("s/library.mlir", LIBRARY.replace("@f", "@g"));
    runs(&scene, LOWER + AIRCC);
    scene.file("s/deep/er/more.mlir", LIBRARY.replace("@f", "@h"));
    runs(&scene, LOWER + AIRCC);
}

/// The double reads one level of includes; that the file is part of the key shows in the lowering.
#[test]
fn what_an_included_file_includes_is_in_the_key_and_circles_end() {
    let scene = scene();
    scene.file("s/script.mlir", including(&scene, &["one.mlir"]));
    let names = |file: &str| format!("module attributes {{next = \"{file}\"}} {{\n}}\n");
    scene.file("s/one.mlir", names("two.mlir"));
    scene.file("s/two.mlir", names("one.mlir"));
    runs(&scene, LOWER + AIRCC);
    scene.file("s/two.mlir", names("script.mlir"));
    runs(&scene, LOWER);
    runs(&scene, NOTHING);
    scene.file("s/two.mlir", names("three.mlir"));
    scene.refuses(
        COMPILE,
        2,
        &["k.mlir: the included transform script s/three.mlir: No such file"],
    );
}

#[test]
fn a_script_that_is_missing_or_no_script() {
    let scene = scene();
    scene.refuses(
        COMPILE,
        2,
        &["k.mlir: the transform script s/script.mlir: No such file"],
    );
    fs::create_dir(scene.path().join("s")).unwrap();
    scene.refuses(
        "k.mlir --target npu2 --transform s",
        2,
        &["k.mlir: the transform script s: Is a directory"],
    );
    for (text, words) in [
        ("", "s/script.mlir: the file is empty"),
        ("\u{0}", "s/script.mlir: not MLIR text"),
        (
            "module {",
            "s/script.mlir: truncated MLIR: the '{' at line 1, column 8",
        ),
        ("hello", "s/script.mlir: not MLIR"),
    ] {
        scene.file("s/script.mlir", text);
        scene.refuses(COMPILE, 2, &[words]);
    }
    assert_eq!(scene.ran(), NOTHING);
    // That it has no entry point is for air-opt to find out, and for us to explain.
    scene.file("s/script.mlir", "module {\n}\n");
    let words = [
        "k.mlir: air-opt failed",
        "must have a named sequence @__transform_main",
        "s/script.mlir:0:0",
    ];
    scene.refuses(COMPILE, 1, &words[..2]);
}

#[test]
fn an_include_that_is_missing_or_outside() {
    let scene = scene();
    scene.file("other.mlir", LIBRARY);
    for (name, words) in [
        (
            "none.mlir",
            &["the included transform script s/none.mlir: No such file"][..],
        ),
        (
            "../other.mlir",
            &["the included transform script '../other.mlir' leads out of s"],
        ),
        ("a/../../other.mlir", &["leads out of s"]),
        (
            "/etc/other.mlir",
            &["the included transform script '/etc/other.mlir' leads out of s"],
        ),
    ] {
        scene.file("s/script.mlir", including(&scene, &[name]));
        scene.refuses(COMPILE, 2, words);
    }
    assert_eq!(scene.ran(), NOTHING);
}

/// It may stand in a settings file for the kernels that need one.
#[test]
fn a_script_is_not_looked_at_where_it_has_no_meaning() {
    let scene = scene();
    scene.file("air.mlir", kernels::air());
    scene.file("aie.mlir", kernels::aie("npu2"));
    for arguments in ["air.mlir --target npu2", "aie.mlir"] {
        scene.compile(arguments);
        assert_eq!(
            scene
                .compile(&format!("{arguments} --transform none.mlir"))
                .outcome(),
            "hit"
        );
    }
}
