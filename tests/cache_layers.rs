//! Caches that are only read, below one's own.
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
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use common::{Outcome, Scene, TOOLS};

const COMPILE: [&str; 4] = ["compile", "vecadd.mlir", "--target", "cpu"];

/// A scene, and a cache of somebody else that has the example kernel.
fn scene() -> (Scene, PathBuf) {
    let scene = Scene::replayed();
    scene.kernel("vecadd.mlir");
    scene.run(&COMPILE).paths();
    scene.runs();
    let team = scene.path().join("team");
    fs::rename(&scene.cache, &team).unwrap();
    (scene, team)
}

fn with_layers(scene: &Scene, layers: &[&Path]) -> Command {
    let mut command = scene.npu_build();
    let layers = std::env::join_paths(layers).unwrap();
    command.env("NPU_BUILD_CACHE_LAYERS", layers);
    command
}

fn compile(command: &mut Command) -> Outcome {
    let told = Outcome(command.args(COMPILE).output().unwrap());
    told.paths();
    told
}

/// Everything about every file that a program could change.
fn state(directory: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, u32)> {
    let files = walkdir::WalkDir::new(directory).into_iter().flatten();
    let files = files.map(|file| {
        let metadata = file.metadata().unwrap();
        let state = (
            metadata.size(),
            metadata.mtime(),
            metadata.ctime(),
            metadata.mode(),
        );
        (file.into_path(), state)
    });
    files.collect()
}

#[test]
fn what_is_not_in_the_own_cache_comes_from_the_layers_in_their_order() {
    let (scene, team) = scene();
    let copy = scene.path().join("copy");
    let status = Command::new("cp").arg("-a").args([&team, &copy]).status();
    assert!(status.unwrap().success());
    // A use that is long ago is noted in one's own cache, and never in a layer.
    for manifest in walkdir::WalkDir::new(&team).into_iter().flatten() {
        if manifest.file_name() == "manifest.toml" {
            let long_ago = SystemTime::now() - Duration::from_secs(1_000_000);
            let file = fs::File::open(manifest.path()).unwrap();
            file.set_modified(long_ago).unwrap();
        }
    }
    let before = state(&team);
    let hit = compile(&mut with_layers(&scene, &[&team, &copy]));
    assert!(hit.stderr().starts_with("hit: vecadd"), "{hit:?}");
    assert!(hit.paths().iter().all(|path| path.starts_with(&team)));
    assert_eq!(scene.runs(), [""; 0]);
    assert_eq!(state(&team), before);
    let other = compile(&mut with_layers(&scene, &[&copy, &team]));
    assert!(other.paths().iter().all(|path| path.starts_with(&copy)));
    // By the project's file as well, relative to it.
    scene.file("npu-build.toml", "[cache]\nlayers = [\"team\"]\n");
    let hit = compile(&mut scene.npu_build());
    assert!(hit.paths()[0].starts_with(&team), "{hit:?}");
    fs::remove_file(scene.path().join("npu-build.toml")).unwrap();
    // The own one comes first.
    let built = compile(&mut scene.npu_build());
    assert!(built.stderr().contains("built: vecadd"));
    let hit = compile(&mut with_layers(&scene, &[&team]));
    assert_eq!(hit.paths(), built.paths());
}

#[test]
fn a_miss_is_built_into_the_own_cache_and_the_layers_stay_as_they_are() {
    let (scene, team) = scene();
    let before = state(&team);
    scene.kernel("fma.mlir");
    let mut command = with_layers(&scene, &[&team]);
    command.args(["compile", "fma.mlir", "--target", "cpu"]);
    let built = Outcome(command.output().unwrap());
    assert!(
        built
            .paths()
            .iter()
            .all(|path| path.starts_with(&scene.cache))
    );
    for arguments in [
        &["cache", "clear", "--all"][..],
        &["cache", "gc", "--max-entries", "0"],
        &["cache", "verify", "--repair"],
        &["cache", "stats", "--reset"],
    ] {
        let told = Outcome(
            with_layers(&scene, &[&team])
                .args(arguments)
                .output()
                .unwrap(),
        );
        assert_eq!(told.code(), 0, "{told:?}");
    }
    assert_eq!(state(&team), before);
}

#[test]
fn what_is_damaged_in_a_layer_is_built_and_not_touched() {
    let (scene, team) = scene();
    for entry in walkdir::WalkDir::new(&team).into_iter().flatten() {
        if entry.file_name() == "kernel.so" {
            fs::remove_file(entry.path()).unwrap();
            fs::write(entry.path(), "damaged").unwrap();
        }
    }
    let before = state(&team);
    let built = compile(&mut with_layers(&scene, &[&team]));
    assert!(built.stderr().contains("built: vecadd"), "{built:?}");
    assert!(built.paths()[0].starts_with(&scene.cache));
    assert_eq!(scene.runs(), TOOLS);
    assert_eq!(state(&team), before);
}

#[test]
fn a_layer_that_is_not_there_is_a_warning_and_one_that_everybody_can_write_an_error() {
    let (scene, team) = scene();
    let missing = scene.path().join("missing");
    let told = compile(&mut with_layers(&scene, &[&missing, &team]));
    let words = format!(
        "nothing is looked up in the cache layer {}",
        missing.display()
    );
    assert!(told.stderr().contains(&words), "{told:?}");
    assert!(told.stderr().contains("hit: vecadd"), "{told:?}");
    assert!(!missing.exists());
    for (directory, mode) in [(team.clone(), 0o777), (team.join("v1"), 0o707)] {
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
        let program = || with_layers(&scene, &[&team]);
        let words = [directory.to_str().unwrap(), "can be written by others"];
        scene.refuses_as(&program, &COMPILE, 4, &words);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // A file in it that everybody can write is not believed, and so it is built.
    for entry in walkdir::WalkDir::new(&team).into_iter().flatten() {
        if entry.file_name() == "kernel.so" {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o666)).unwrap();
        }
    }
    let told = compile(&mut with_layers(&scene, &[&team]));
    assert!(told.stderr().contains("built: vecadd"), "{told:?}");
}

/// An unset variable in a list of layers does not make whatever directory one is in a layer.
#[test]
fn nothing_in_the_list_of_layers_is_not_this_directory() {
    let (scene, team) = scene();
    let kernel = scene.path().join("vecadd.mlir");
    for (layers, outcome) in [
        ("", "built"),
        (":", "built"),
        ("::/nowhere", "built"),
        (".", "hit"),
    ] {
        let mut command = scene.npu_build();
        command
            .current_dir(&team)
            .env(
                "NPU_BUILD_CACHE_DIR",
                scene.path().join(format!("own{outcome}{}", layers.len())),
            )
            .env("NPU_BUILD_CACHE_LAYERS", layers)
            .arg("compile")
            .arg(&kernel)
            .args(["--target", "cpu"]);
        let told = Outcome(command.output().unwrap());
        assert!(
            told.stderr().contains(&format!("{outcome}: vecadd")),
            "{layers}: {told:?}"
        );
    }
}

#[test]
fn a_layer_may_belong_to_somebody_else() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give a directory away");
        return;
    }
    let (scene, team) = scene();
    for entry in walkdir::WalkDir::new(&team).into_iter().flatten() {
        chown(entry.path(), Some(65534), None).unwrap();
    }
    let hit = compile(&mut with_layers(&scene, &[&team]));
    assert!(hit.stderr().starts_with("hit: vecadd"), "{hit:?}");
    // Which would be no good as the own cache.
    let mut own = scene.npu_build();
    own.env("NPU_BUILD_CACHE_DIR", &team);
    let refused = Outcome(own.args(COMPILE).output().unwrap());
    assert_eq!(refused.code(), 4, "{refused:?}");
}

#[test]
fn the_files_of_a_shared_cache_have_the_modes_that_a_group_needs() {
    let scene = Scene::replayed();
    scene.kernel("vecadd.mlir");
    // However strict the umask is.
    let program = scene.npu_build();
    let mut strict = common::in_place_of(&program, "/bin/sh");
    strict
        .args(["-c", "umask 077; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(COMPILE)
        .arg("--shared-cache");
    Outcome(strict.output().unwrap()).paths();
    scene.run(&["cache", "stats", "--shared-cache"]);
    for entry in walkdir::WalkDir::new(&scene.cache).into_iter().flatten() {
        let mode = entry.metadata().unwrap().mode() & 0o7777;
        let path = entry.path();
        if entry.file_type().is_dir() {
            assert_eq!(mode, 0o2770, "{}", path.display());
            continue;
        }
        // Nobody writes into these: who wants another one replaces it.
        let is_replaced = [
            "manifest.toml",
            "kernel.so",
            "launcher.rs",
            "toolchain-memo",
        ];
        let readable = mode & 0o440 == 0o440 && mode & 0o002 == 0;
        assert!(readable, "{} has mode {mode:04o}", path.display());
        let name = path.file_name().unwrap().to_str().unwrap();
        if !is_replaced.contains(&name) && name != "CACHEDIR.TAG" {
            assert_eq!(
                mode & 0o060,
                0o060,
                "{} has mode {mode:04o}",
                path.display()
            );
        }
    }
}
