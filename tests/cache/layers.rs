//! Caches that are only read, below one's own, and a cache that a group shares.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::common::{Outcome, Scene, TOOLS, in_place_of};
use crate::{COMPILE, below};

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
    let outcome = Outcome(command.args(COMPILE).output().unwrap());
    outcome.paths();
    outcome
}

fn named(directory: &Path, name: &str) -> Vec<PathBuf> {
    let mut paths = below(directory);
    paths.retain(|path| path.ends_with(name));
    assert!(!paths.is_empty());
    paths
}

/// Everything about every file that a program could change.
fn state(directory: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, u32)> {
    let paths = below(directory).into_iter();
    let states = paths.map(|path| {
        let it = fs::symlink_metadata(&path).unwrap();
        (path, (it.size(), it.mtime(), it.ctime(), it.mode()))
    });
    states.collect()
}

#[test]
fn what_is_not_in_the_own_cache_comes_from_the_layers_in_their_order() {
    let (scene, team) = scene();
    let copy = scene.path().join("copy");
    let status = Command::new("cp").arg("-a").args([&team, &copy]).status();
    assert!(status.unwrap().success());
    // A use that is long ago is noted in one's own cache, and never in a layer.
    for manifest in named(&team, "manifest.json") {
        let long_ago = SystemTime::now() - Duration::from_secs(1_000_000);
        let file = fs::File::open(manifest).unwrap();
        file.set_modified(long_ago).unwrap();
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

/// Neither by a miss, nor by damage, nor by what is done with one's own cache.
#[test]
fn layers_are_never_written() {
    let (scene, team) = scene();
    for object in named(&team, "kernel.so") {
        fs::remove_file(&object).unwrap();
        fs::write(object, "damaged").unwrap();
    }
    let before = state(&team);
    let built = compile(&mut with_layers(&scene, &[&team]));
    assert!(built.stderr().contains("built: vecadd"), "{built:?}");
    assert!(built.paths()[0].starts_with(&scene.cache));
    assert_eq!(scene.runs(), TOOLS);
    for arguments in [
        &["cache", "verify", "--repair"][..],
        &["cache", "gc", "--max-entries", "0"],
        &["cache", "clear", "--all"],
        &["cache", "stats", "--reset"],
    ] {
        let mut command = with_layers(&scene, &[&team]);
        let outcome = Outcome(command.args(arguments).output().unwrap());
        assert_eq!(outcome.code(), 0, "{outcome:?}");
    }
    assert_eq!(state(&team), before);
}

#[test]
fn a_layer_that_is_not_there_is_a_warning_and_one_that_everybody_can_write_an_error() {
    let (scene, team) = scene();
    let missing = scene.path().join("missing");
    let outcome = compile(&mut with_layers(&scene, &[&missing, &team]));
    let stderr = outcome.stderr();
    let words = format!(
        "nothing is looked up in the cache layer {}",
        missing.display()
    );
    assert!(
        stderr.contains(&words) && stderr.contains("hit: vecadd"),
        "{stderr}"
    );
    assert!(!missing.exists());
    for (directory, mode) in [(team.clone(), 0o777), (team.join("v1"), 0o707)] {
        fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
        let program = || with_layers(&scene, &[&team]);
        let words = [directory.to_str().unwrap(), "can be written by others"];
        scene.refuses_as(&program, &COMPILE, 4, &words);
        fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
    }
    // A file in it that everybody can write is not believed, and so it is built.
    for object in named(&team, "kernel.so") {
        fs::set_permissions(object, Permissions::from_mode(0o666)).unwrap();
    }
    let outcome = compile(&mut with_layers(&scene, &[&team]));
    assert!(outcome.stderr().contains("built: vecadd"), "{outcome:?}");
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
        let own = scene.path().join(format!("own{outcome}{}", layers.len()));
        let mut command = scene.npu_build();
        command.current_dir(&team).env("NPU_BUILD_CACHE_DIR", own);
        command
            .env("NPU_BUILD_CACHE_LAYERS", layers)
            .arg("compile")
            .arg(&kernel);
        let stderr = Outcome(command.args(["--target", "cpu"]).output().unwrap()).stderr();
        assert!(
            stderr.contains(&format!("{outcome}: vecadd")),
            "{layers}: {stderr}"
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
    for path in below(&team).iter().chain([&team]) {
        chown(path, Some(65534), None).unwrap();
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
    // Nobody writes into these: who wants another one replaces it.
    const REPLACED: &[&str] = &[
        "manifest.json",
        "kernel.so",
        "launcher.rs",
        "toolchain-memo",
        "CACHEDIR.TAG",
    ];
    let scene = Scene::replayed();
    scene.kernel("vecadd.mlir");
    // However strict the umask is.
    let program = scene.npu_build();
    let mut strict = in_place_of(&program, "/bin/sh");
    strict
        .args(["-c", "umask 077; exec \"$0\" \"$@\""])
        .arg(program.get_program());
    Outcome(strict.args(COMPILE).arg("--shared-cache").output().unwrap()).paths();
    scene.run(&["cache", "stats", "--shared-cache"]);
    for path in below(&scene.cache) {
        let metadata = fs::metadata(&path).unwrap();
        let (mode, name) = (metadata.mode() & 0o7777, path.file_name().unwrap());
        let is_right = match metadata.is_dir() {
            true => mode == 0o2770,
            false if REPLACED.contains(&name.to_str().unwrap()) => mode & 0o442 == 0o440,
            false => mode & 0o462 == 0o460,
        };
        assert!(is_right, "{} has mode {mode:04o}", path.display());
    }
}
