//! What tools say of a place is told of the user's own file and line.

use std::fs;

use crate::kernels;
use crate::scene::Scene;

/// The kernel behind a page of comments, which no tool gets to see.
fn commented(text: &str) -> String {
    format!("// A page of text.\n\n// More of it.\n{text}")
}

/// The line in the user's file that is line `line` of what a tool sees.
const DROPPED: usize = 3;

#[test]
fn at_the_aie_level() {
    for (dialect, form) in [
        (1, "loc(\"my dir/copy.mlir\":LINE:9): error: no such thing"),
        (2, "my dir/copy.mlir:LINE:9: error: no such thing"),
    ] {
        let scene = Scene::with_dialect(dialect);
        scene.file("my dir/copy.mlir", commented(&kernels::aie("npu2")));
        scene
            .tools
            .misbehave("aiecc", "diagnostic = 4:9: error: no such thing")
            .unwrap();
        let place = form.replace("LINE", &(4 + DROPPED).to_string());
        scene.refuses(
            "my␣dir/copy.mlir",
            1,
            &["my dir/copy.mlir: aiecc failed", &place],
        );
        // The command can be tried as it is shown.
        let told = scene.run("compile my␣dir/copy.mlir").stderr();
        let command = told
            .lines()
            .find(|line| line.starts_with("  command: "))
            .unwrap();
        assert!(command.ends_with(" 'my dir/copy.mlir'"), "{command}");
    }
}

#[test]
fn at_the_air_level() {
    let scene = Scene::new();
    scene.file("a/launch.mlir", commented(&kernels::air()));
    scene
        .tools
        .misbehave("aircc", "diagnostic = 5:3: error: no such thing")
        .unwrap();
    let place = format!("a/launch.mlir:{}:3: error: no such thing", 5 + DROPPED);
    let words = [
        "a/launch.mlir: aircc failed",
        &place,
        "Error parsing MLIR file: a/launch.mlir",
    ];
    scene.refuses("a/launch.mlir --target npu2", 1, &words[..2]);
}

#[test]
fn at_the_linalg_level() {
    let scene = Scene::new();
    scene.file("a/tile.mlir", commented(&kernels::gridless()));
    scene
        .tools
        .misbehave("air-opt", "diagnostic = 3:5: error: no such thing")
        .unwrap();
    let place = format!("a/tile.mlir:{}:5: error: no such thing", 3 + DROPPED);
    let arguments = "a/tile.mlir --target npu2 --transform root/transform.mlir";
    scene.refuses(arguments, 1, &["a/tile.mlir: air-opt failed", &place]);
}

/// A place in the transform script is one of the user's, too.
#[test]
fn in_a_transform_script() {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::gridless());
    let script = fs::read_to_string(scene.tools.transform()).unwrap();
    // Balanced, and still nothing that MLIR has.
    let broken = script.replace(
        "    transform.yield\n",
        "    // Here.\n    transform.yield %nowhere\n",
    );
    scene.file("tiles/mine.mlir", commented(&broken));
    let line = commented(&broken)
        .lines()
        .position(|line| line.contains("%nowhere"))
        .unwrap()
        + 1;
    let told = scene.run("compile k.mlir --target npu2 --transform tiles/mine.mlir");
    told.fails(
        1,
        &[
            "k.mlir: air-opt failed",
            &format!("tiles/mine.mlir:{line}:"),
            // What it reads is made by the command before it, and gone.
            "/air-opt k.mlir '--pass-pipeline=",
            "-o npu-build/out/resolved.mlir && ",
            "/air-opt npu-build/out/resolved.mlir --air-transform=filename=tiles/mine.mlir",
        ],
    );
}

/// The AIR that air-opt made is in no file of the user's: it is told where it is kept.
#[test]
fn of_aircc_in_what_air_opt_made() {
    let scene = Scene::new();
    scene.file("kernel.mlir", kernels::gridless());
    scene
        .tools
        .misbehave("aircc", "diagnostic = 2:3: error: no such thing")
        .unwrap();
    let arguments = "kernel.mlir --target npu2 --transform root/transform.mlir";
    scene.refuses(
        arguments,
        1,
        &["kernel.mlir: aircc failed", "no such thing"],
    );
    let told = scene.run(&format!("compile {arguments}")).stderr();
    let place = told
        .lines()
        .find(|line| line.contains(": error: no such thing"))
        .unwrap();
    let file = place
        .trim()
        .strip_suffix(":2:3: error: no such thing")
        .unwrap();
    let air = fs::read_to_string(file).unwrap();
    assert!(air.contains("air.herd"), "{air}");
    let command = told
        .lines()
        .find(|line| line.starts_with("  command: "))
        .unwrap();
    assert!(command.ends_with(file), "{command}");
}

/// Progress that overwrites itself is shown as a terminal leaves it.
#[test]
fn progress_does_not_bury_the_message() {
    let scene = Scene::with_dialect(2);
    scene.file("k.mlir", kernels::air());
    scene.tools.misbehave("aiecc", "fail = pass").unwrap();
    let told = scene.run("compile k.mlir --target npu2").stderr();
    assert!(!told.contains('\x1b') && !told.contains('\r'), "{told:?}");
    assert!(
        told.contains("op allocated buffers exceeded available memory"),
        "{told}"
    );
    scene
        .tools
        .misbehave("aiecc", "progress_bytes = 300000\nexit = 1")
        .unwrap();
    let told = scene.run("compile k.mlir --target npu2").stderr();
    assert!(
        told.len() < 10_000 && told.contains("still working on it"),
        "{told}"
    );
}
