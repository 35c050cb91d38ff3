//! The completion scripts, in the shells that they are for.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::common::{Outcome, Scene};

fn is_there(shell: &str) -> bool {
    let is_there = Command::new(shell).arg("--version").output().is_ok();
    if !is_there {
        assert!(
            std::env::var("CI").is_err(),
            "{shell} is missing: apt-get install {shell}"
        );
        println!("skipped: {shell} is not installed");
    }
    is_there
}

fn script(scene: &Scene, shell: &str) -> String {
    let told = scene.run(&["completions", shell]);
    assert_eq!(told.code(), 0, "{told:?}");
    scene.file("completion", told.stdout());
    "completion".to_owned()
}

/// What an interactive shell in a terminal of its own makes of these lines and tabs, where
/// `npu-build` prints its arguments.
fn typed(scene: &Scene, shell: &str, setup: &str, lines: &str) -> Vec<String> {
    // The answer is not to be found in the echo of the question.
    let function = "npu-build() { printf 'go%s <%s>\\n' t \"$*\"; }";
    let typed = scene.file("typed", format!("{function}\n{setup}\n{lines}exit\n"));
    let told = Command::new("script")
        .args(["--quiet", "--return", "--command", shell, "/dev/null"])
        .current_dir(scene.path())
        .env("TERM", "dumb")
        .stdin(fs::File::open(typed).unwrap())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let answers = told.lines().filter_map(|line| line.split_once("got <"));
    let answers: Vec<_> = answers
        .filter_map(|(_, answer)| Some(answer.split_once('>')?.0.trim_end().to_owned()))
        .collect();
    assert!(!answers.is_empty(), "{told}");
    answers
}

/// Words and what they are completed to: a command, one below it, and options of both.
const TYPED: &str = "npu-build sig\tk.mlir --sh\tk\n\
    npu-build cac\tver\t--rep\t\n\
    npu-build hsaco du\t--json\t\n\
    npu-build completi\t--he\t\n\
    npu-build compile --keep\t\n";

const COMPLETED: [&str; 5] = [
    "signature k.mlir --shared-cache k",
    "cache verify --repair",
    "hsaco dump --json",
    "completions --help",
    "compile --keep-intermediates",
];

#[test]
fn in_bash() {
    let scene = Scene::replayed();
    let script = script(&scene, "bash");
    let typed = typed(
        &scene,
        "bash --norc -i",
        &format!("source ./{script}"),
        TYPED,
    );
    assert_eq!(typed, COMPLETED);
}

#[test]
fn in_zsh() {
    if !is_there("zsh") {
        return;
    }
    let scene = Scene::replayed();
    let script = script(&scene, "zsh");
    fs::rename(scene.path().join(script), scene.path().join("_npu-build")).unwrap();
    let setup = "autoload -Uz compinit; compinit -u -d ./dump; source ./_npu-build";
    let typed = typed(&scene, "zsh -f -i", setup, TYPED);
    assert_eq!(typed, COMPLETED);
}

#[test]
fn in_fish() {
    if !is_there("fish") {
        return;
    }
    let scene = Scene::replayed();
    let script = script(&scene, "fish");
    for (words, completed) in [
        ("cac", "cache"),
        ("cache ver", "verify"),
        ("cache verify --rep", "--repair"),
        ("hsaco du", "dump"),
        ("compile --keep", "--keep-intermediates"),
    ] {
        let told = Command::new("fish")
            .args(["--no-config", "--command"])
            .arg(format!(
                "source {script}; complete --do-complete 'npu-build {words}'"
            ))
            .current_dir(scene.path())
            .env("HOME", scene.path())
            .output()
            .unwrap();
        let told = Outcome(told).stdout();
        let words: Vec<_> = told
            .lines()
            .map(|line| line.split('\t').next().unwrap())
            .collect();
        assert_eq!(words, [completed], "{told}");
    }
}

/// No shell is asked about those that Debian does not have.
#[test]
fn every_shell_has_a_script_that_names_the_commands() {
    let scene = Scene::replayed();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let text = fs::read_to_string(Path::new(scene.path()).join(script(&scene, shell))).unwrap();
        for word in ["npu-build", "signature", "keep-intermediates"] {
            assert!(text.contains(word), "{shell} lacks {word}");
        }
    }
}
