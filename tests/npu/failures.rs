//! Tools that fail, die or hang: told in their own words, nothing published, and the next run right.

use crate::kernels;
use crate::scene::Scene;

/// Expects that a build says `words` while a tool behaves so, and that the next one is right.
#[track_caller]
pub fn told_and_recovers(
    scene: &Scene,
    arguments: &str,
    tool: &str,
    control: &str,
    words: &[&str],
) {
    scene.tools.misbehave(tool, control).unwrap();
    let anew = format!("{arguments} --refresh");
    scene.refuses(&anew, 1, words);
    scene.tools.behave(tool);
    assert_eq!(scene.compile(&anew).outcome(), "built", "{control}");
    assert_eq!(scene.compile(arguments).outcome(), "hit", "{control}");
}

/// A scene with a kernel of the AIE level.
pub fn aie(dialect: u8) -> Scene {
    let scene = Scene::with_dialect(dialect);
    scene.file("k.mlir", kernels::aie("npu2"));
    scene
}

#[test]
fn a_tool_that_dies_while_it_writes() {
    let scene = aie(3);
    let words = ["k.mlir: aiecc was ended by signal 9", "memory"];
    told_and_recovers(
        &scene,
        "k.mlir --format pdi",
        "aiecc",
        "die_in_output\nonly = pdi",
        &words,
    );
    let scene = aie(3);
    // A helper's death is aiecc's failure.
    let words = ["k.mlir: aiecc failed with exit status 1", "xclbinutil"];
    told_and_recovers(
        &scene,
        "k.mlir --format xclbin",
        "xclbinutil",
        "die_in_output",
        &words,
    );
    let scene = Scene::new();
    scene.file("k.mlir", kernels::air());
    let words = [
        "k.mlir: aircc failed with exit status 1",
        "Error running command",
    ];
    told_and_recovers(
        &scene,
        "k.mlir --target npu2",
        "aiecc",
        "signal = 9",
        &words,
    );
    let words = ["k.mlir: aircc was ended by signal 9"];
    let arguments = "k.mlir --target npu2 --format pdi";
    told_and_recovers(&scene, arguments, "aircc", "signal = 9", &words);
}

#[test]
fn a_tool_that_fails_when_it_has_made_everything() {
    let scene = aie(3);
    let words = [
        "k.mlir: aiecc failed with exit status 1",
        "aiecc: pipeline failed",
    ];
    told_and_recovers(&scene, "k.mlir", "aiecc", "fail = late", &words);
}

#[test]
fn a_tool_that_does_not_end() {
    let scene = aie(3);
    for hang in ["hang", "hang = child"] {
        scene.tools.misbehave("aiecc", hang).unwrap();
        let words = [
            "k.mlir: aiecc took longer than the time-out of 300ms",
            "--timeout",
        ];
        scene.refuses("k.mlir --timeout 300ms", 1, &words);
    }
    // aircc waits for an aiecc that hangs: both end.
    scene.file("air.mlir", kernels::air());
    let words = ["air.mlir: aircc took longer than the time-out of 300ms"];
    scene.refuses("air.mlir --target npu2 --timeout 300ms", 1, &words);
    scene.tools.behave("aiecc");
    scene.compile("k.mlir --timeout 1m");
}

/// The real words of each failure reach the user, and the last lines and the whole log are shown.
#[test]
fn every_failure_is_told_in_the_tools_own_words() {
    let scenes = [aie(1), aie(2), aie(3)];
    for (dialect, tool, control, words) in [
        (
            1,
            "aiecc",
            "fail = syntax",
            &["loc(\"k.mlir\":1:1): error: ", "Error parsing MLIR file"][..],
        ),
        (
            1,
            "aiecc",
            "fail = pass",
            &[
                "allocated buffers exceeded available memory",
                "Error: pass pipeline failed: ",
            ],
        ),
        (
            1,
            "aiecc",
            "fail = peano",
            &["Error: Could not find Peano compiler tools (opt/llc)"],
        ),
        (1, "bootgen", "exit = 1", &["Error: compilation failed"]),
        (
            2,
            "aiecc",
            "fail = syntax",
            &["k.mlir:1:1: error: ", "aiecc: pipeline failed"],
        ),
        (
            2,
            "aiecc",
            "fail = pass",
            &["k.mlir:1:1: error: 'aie.tile' op allocated buffers"],
        ),
        (
            3,
            "aiecc",
            "fail = peano",
            &["ShellCommand: tool 'opt' not found in search paths or PATH"],
        ),
        (
            3,
            "aiecc",
            "fail = tool:bootgen",
            &[
                "bootgen' failed: exit status 1",
                "aiecc: edge '{0}.pdi' (key 'main') failed",
            ],
        ),
        (
            3,
            "aiebu-asm",
            "exit = 1",
            &["aiebu-asm' failed: ", "aiecc: pipeline failed"],
        ),
        (
            3,
            "llc",
            "exit = 1",
            &["llc' failed: ", "aiecc: pipeline failed"],
        ),
        (
            3,
            "aiecc",
            "stderr = error: device 'd' has 17 host buffer arguments\nexit = 1",
            &["has 17 host buffer arguments"],
        ),
    ] {
        let scene = &scenes[dialect - 1];
        let all = [
            &[
                "k.mlir: aiecc failed with exit status 1",
                "command: ",
                "full log: ",
            ],
            words,
        ]
        .concat();
        told_and_recovers(scene, "k.mlir", tool, control, &all);
    }
    let scene = Scene::new();
    scene.file("k.mlir", kernels::air());
    let words = [
        "aircc failed with exit status 1",
        "Error: pass pipeline failed: builtin.module(",
    ];
    told_and_recovers(
        &scene,
        "k.mlir --target npu2",
        "aircc",
        "fail = pass",
        &words,
    );
}
