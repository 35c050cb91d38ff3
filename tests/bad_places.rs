//! Directories that can't be used: the cache, the home, where the outputs go, a full disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed helper is a failed test"
)]

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Outcome, Scene, TOOLS};
use rustix::fs::{CWD, FileType, Mode};

const COMPILE: [&str; 4] = ["compile", "vecadd.mlir", "--target", "cpu"];

fn scene() -> Scene {
    let scene = Scene::replayed();
    scene.kernel("vecadd.mlir");
    scene
}

fn with_cache(scene: &Scene, cache: &Path) -> Command {
    let mut command = scene.npu_build();
    command.env("NPU_BUILD_CACHE_DIR", cache);
    command
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Asserts that the program builds in spite of what is wrong, says so, and that what it prints is
/// there when it has ended.
#[track_caller]
fn delivers(scene: &Scene, mut command: Command, words: &[&str]) {
    scene.runs();
    let told = Outcome(command.args(COMPILE).output().unwrap());
    let cache = command
        .get_envs()
        .find(|(name, _)| *name == "NPU_BUILD_CACHE_DIR");
    let cache = cache
        .and_then(|(_, value)| value)
        .unwrap_or("none".as_ref());
    let paths = told.paths();
    let stderr = told.stderr();
    assert!(stderr.contains("built: vecadd for cpu"), "{stderr}");
    for word in ["warning: "].iter().chain(words) {
        assert!(stderr.contains(word), "no '{word}' in:\n{stderr}");
    }
    // On a full disk some of them ran twice.
    assert_eq!(
        scene.runs()[..].last_chunk(),
        Some(&TOOLS.map(str::to_owned))
    );
    assert_eq!(paths.len(), 2);
    assert!(npu_runtime::check_cpu_object(&fs::read(&paths[0]).unwrap()).is_ok());
    assert!(fs::read_to_string(&paths[1]).unwrap().contains("vecadd"));
    let mut directories = std::collections::BTreeSet::new();
    for path in &paths {
        // A full disk may have room for the launcher and none for the object.
        if !path.starts_with(cache) {
            // As the warning asks.
            let mut above = path.ancestors();
            let named =
                |above: &&Path| stderr.contains(&format!("what is in {} is", above.display()));
            directories.insert(above.find(named).unwrap().to_owned());
        }
    }
    for directory in directories {
        fs::remove_dir_all(directory).unwrap();
    }
}

#[test]
fn something_else_in_the_place_of_the_cache_is_refused() {
    let scene = scene();
    let file = scene.file("file", "precious");
    let dangling = scene.path().join("dangling");
    symlink("gone", &dangling).unwrap();
    symlink("file", scene.path().join("to-file")).unwrap();
    symlink("loop", scene.path().join("loop")).unwrap();
    for (place, words) in [
        (
            "file",
            &["is not a directory", "--cache-dir", "NPU_BUILD_CACHE_DIR"][..],
        ),
        ("file/below", &["is not a directory"]),
        ("to-file", &["is not a directory"]),
        (
            "dangling",
            &[
                "symbolic link to gone",
                "does not exist",
                "create that directory or remove",
            ],
        ),
        ("loop", &["Too many levels of symbolic links"]),
    ] {
        let path = scene.path().join(place);
        let words = [&[path.to_str().unwrap()], words].concat();
        scene.refuses_as(&|| with_cache(&scene, &path), &COMPILE, 4, &words);
        scene.refuses_as(&|| with_cache(&scene, &path), &["cache", "list"], 4, &words);
        scene.refuses_as(
            &|| with_cache(&scene, &path),
            &["cache", "clear"],
            4,
            &words,
        );
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "precious");
    assert_eq!(fs::read_link(dangling).unwrap(), Path::new("gone"));
    assert_eq!(scene.runs(), [""; 0]);
}

#[test]
fn a_cache_behind_a_link_works_and_one_on_another_file_system_does() {
    let scene = scene();
    let real = scene.path().join("real");
    fs::create_dir(&real).unwrap();
    let link = scene.path().join("link");
    symlink("real", &link).unwrap();
    let run = |cache: &Path| Outcome(with_cache(&scene, cache).args(COMPILE).output().unwrap());
    let paths = run(&link).paths();
    assert!(paths[0].starts_with(&link) && real.join("v1/entries").exists());
    assert!(run(&real).stderr().contains("hit: vecadd"));

    let shared_memory = Path::new("/dev/shm");
    if !shared_memory.is_dir() {
        println!("skipped: no /dev/shm here");
        return;
    }
    let other = tempfile::tempdir_in(shared_memory).unwrap();
    symlink(other.path(), scene.path().join("across")).unwrap();
    let across = scene.path().join("across");
    run(&across).paths();
    assert!(run(other.path()).stderr().contains("hit: vecadd"));
    // The outputs go from there to here.
    let told = with_cache(&scene, &across)
        .args(COMPILE)
        .args(["-o", "out"])
        .output();
    for path in Outcome(told.unwrap()).paths() {
        assert!(scene.path().join(path).is_file());
    }
}

#[test]
fn a_cache_that_others_can_write_is_refused() {
    let scene = scene();
    scene.run(&COMPILE).paths();
    let version = scene.cache.join("v1");
    for (directory, mode, shared, hint) in [
        (&scene.cache, 0o777, false, "run `chmod go-w "),
        (&scene.cache, 0o1777, false, "run `chmod go-w "),
        (&scene.cache, 0o702, false, "run `chmod go-w "),
        (&scene.cache, 0o777, true, "run `chmod go-w "),
        (&scene.cache, 0o770, false, "pass --shared-cache"),
        (&version, 0o777, false, "run `chmod go-w "),
        (&version, 0o770, false, "pass --shared-cache"),
    ] {
        fs::set_permissions(directory, fs::Permissions::from_mode(mode)).unwrap();
        let arguments = [&COMPILE[..], if shared { &["--shared-cache"] } else { &[] }].concat();
        let told = format!("mode {mode:04o}");
        scene.refuses(
            &arguments,
            4,
            &[directory.to_str().unwrap(), &told, "gets executed", hint],
        );
        // What it says helps.
        let status = Command::new("chmod").arg("go-w").arg(directory).status();
        assert!(status.unwrap().success());
        assert!(scene.run(&COMPILE).stderr().contains("hit: vecadd"));
    }
    for mode in [0o700, 0o755, 0o500] {
        fs::set_permissions(&scene.cache, fs::Permissions::from_mode(mode)).unwrap();
        assert!(
            scene.run(&COMPILE).stderr().contains("hit: vecadd"),
            "{mode:o}"
        );
    }
    fs::set_permissions(&scene.cache, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_cache_of_a_group_is_used_when_that_is_meant() {
    let scene = scene();
    fs::create_dir(&scene.cache).unwrap();
    fs::set_permissions(&scene.cache, fs::Permissions::from_mode(0o2770)).unwrap();
    let arguments = [&COMPILE[..], &["--shared-cache"]].concat();
    let paths = scene.run(&arguments).paths();
    let mut by_variable = scene.npu_build();
    by_variable.env("NPU_BUILD_SHARED_CACHE", "1");
    let told = Outcome(by_variable.args(COMPILE).output().unwrap());
    assert!(told.stderr().contains("hit: vecadd"), "{told:?}");
    if !is_root() {
        println!("skipped: only root can be two members of a group");
        return;
    }
    // Another member finds what the first one made, and can do everything with it.
    scene.run(&["cache", "clear", "--shared-cache"]);
    for entry in walkdir::WalkDir::new(&scene.cache).into_iter().flatten() {
        chown(entry.path(), None, Some(65534)).unwrap();
        let mode = if entry.file_type().is_dir() {
            0o2770
        } else {
            0o660
        };
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode)).unwrap();
    }
    let program = scene.npu_build();
    let mut strict = common::in_place_of(&program, "/bin/sh");
    strict
        .args(["-c", "umask 077; exec \"$0\" \"$@\""])
        .arg(program.get_program());
    assert_eq!(
        Outcome(strict.args(&arguments).output().unwrap()).paths(),
        paths
    );
    let other = |more: &[&str]| {
        let mut command = scene.unprivileged();
        let told = Outcome(command.args(&arguments).args(more).output().unwrap());
        assert_eq!(told.paths(), paths);
        let stderr = told.stderr();
        assert!(!stderr.contains("can't"), "{stderr}");
        stderr
    };
    assert!(other(&[]).contains("hit: vecadd"));
    assert!(other(&["--refresh"]).contains("built: vecadd"));
    chown(&paths[0], Some(0), None).unwrap();
    fs::write(&paths[0], "damaged").unwrap();
    assert!(other(&[]).contains("repaired: vecadd"));
    assert!(scene.run(&arguments).stderr().contains("hit: vecadd"));
    let cleared = Outcome(
        scene
            .unprivileged()
            .args(["cache", "clear", "--shared-cache"])
            .output()
            .unwrap(),
    );
    assert_eq!(cleared.code(), 0, "{cleared:?}");
}

#[test]
fn a_cache_of_somebody_else_is_refused() {
    if !is_root() {
        println!("skipped: only root can give a directory away");
        return;
    }
    let scene = scene();
    scene.run(&COMPILE).paths();
    for directory in [scene.cache.join("v1"), scene.cache.clone()] {
        chown(&directory, Some(65534), None).unwrap();
        let path = directory.to_str().unwrap();
        scene.refuses(
            &COMPILE,
            4,
            &[
                path,
                "belongs to user 65534, not to you (user 0)",
                "--cache-dir",
            ],
        );
        chown(&directory, Some(0), None).unwrap();
    }
    assert!(scene.run(&COMPILE).stderr().contains("hit: vecadd"));
}

#[test]
fn where_the_cache_can_not_be_made_the_build_delivers_all_the_same() {
    let scene = scene();
    let locked = scene.read_only("locked");
    let mut command = scene.unprivileged();
    command.env("NPU_BUILD_CACHE_DIR", locked.join("cache"));
    delivers(
        &scene,
        command,
        &["can't write the cache", "Permission denied", "not kept"],
    );
    assert!(!locked.join("cache").exists());
}

#[test]
fn a_cache_that_can_only_be_read_serves_hits() {
    let scene = scene();
    let mut command = scene.unprivileged();
    let built = Outcome(command.args(COMPILE).output().unwrap()).paths();
    let all = || {
        walkdir::WalkDir::new(&scene.cache)
            .contents_first(true)
            .into_iter()
            .flatten()
    };
    for entry in all() {
        let mode = if entry.file_type().is_dir() {
            0o555
        } else {
            0o444
        };
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode)).unwrap();
    }
    scene.runs();
    let hit = Outcome(scene.unprivileged().args(COMPILE).output().unwrap());
    assert_eq!(hit.paths(), built);
    assert!(hit.stderr().starts_with("hit: vecadd"), "{hit:?}");
    assert_eq!(scene.runs(), [""; 0]);
    // A miss is built and not kept, and a damaged entry is, too.
    scene.kernel("fma.mlir");
    let mut miss = scene.unprivileged();
    let told = Outcome(
        miss.args(["compile", "fma.mlir", "--target", "cpu", "-o", "out"])
            .output()
            .unwrap(),
    );
    told.paths();
    assert!(told.stderr().contains("warning: can't "), "{told:?}");
    assert_eq!(scene.runs(), TOOLS);
    for entry in all() {
        let mode = if entry.file_type().is_dir() {
            0o755
        } else {
            0o644
        };
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode)).unwrap();
    }
}

#[test]
fn what_can_not_be_deleted_is_named_and_what_is_gone_is_no_loss() {
    let scene = scene();
    let run = |arguments: &[&str]| Outcome(scene.unprivileged().args(arguments).output().unwrap());
    run(&COMPILE).paths();
    let entries = scene.cache.join("v1/entries");
    fs::set_permissions(&entries, fs::Permissions::from_mode(0o555)).unwrap();
    let words = [
        "can't delete what is in ",
        entries.to_str().unwrap(),
        "Permission denied",
    ];
    run(&["cache", "clear"]).fails(4, &words);
    fs::set_permissions(&entries, fs::Permissions::from_mode(0o755)).unwrap();
    for directory in ["failures", "quarantine", "tools", "work"] {
        fs::remove_dir_all(scene.cache.join("v1").join(directory)).unwrap();
    }
    let told = run(&["cache", "clear"]);
    assert_eq!(told.code(), 0, "{told:?}");
    assert!(scene.entry_files().is_empty());
    assert!(run(&COMPILE).stderr().contains("built: vecadd"));
}

#[test]
fn a_home_that_can_not_be_written_is_no_obstacle() {
    let scene = scene();
    let home = scene.read_only("home");
    let mut command = scene.unprivileged();
    command.env("HOME", &home).env_remove("NPU_BUILD_CACHE_DIR");
    delivers(
        &scene,
        command,
        &["can't write the cache", "home/.cache/npu-build"],
    );
    // A system user's.
    let mut command = scene.unprivileged();
    command
        .env("HOME", "/nonexistent")
        .env_remove("NPU_BUILD_CACHE_DIR");
    delivers(
        &scene,
        command,
        &["can't write the cache /nonexistent/.cache/npu-build"],
    );
    // None, or one that is no absolute path.
    for home in [None, Some(""), Some("relative")] {
        let mut command = scene.npu_build();
        command.env_remove("HOME").env_remove("NPU_BUILD_CACHE_DIR");
        command.envs(home.map(|home| ("HOME", home)));
        delivers(&scene, command, &["XDG_CACHE_HOME", "HOME"]);
        assert!(!scene.path().join("relative").exists());
    }
}

#[test]
fn without_a_cache_the_files_are_there_as_well() {
    let scene = scene();
    let mut command = scene.npu_build();
    command.env("NPU_BUILD_NO_CACHE", "1");
    delivers(&scene, command, &["is in no cache", "--out-dir"]);
    assert!(!scene.cache.exists());
    scene.refuses(
        &["cache", "list", "--no-cache"],
        2,
        &["there is no cache", "--no-cache"],
    );
}

#[test]
fn outputs_that_can_not_be_written_are_named() {
    let scene = scene();
    scene.file("file", "precious");
    let here = scene.path();
    symlink("/nonexistent/place", here.join("dangling")).unwrap();
    fs::create_dir_all(here.join("taken/vecadd.rs")).unwrap();
    for (directory, words) in [
        ("file", &["can't write file: ", "not a directory"][..]),
        (
            "file/below",
            &["can't write file/below: ", "Not a directory"],
        ),
        ("dangling", &["can't write dangling: "]),
        ("/proc/nowhere", &["can't write /proc/nowhere: "]),
        ("taken", &["can't write taken/vecadd.rs: Is a directory"]),
    ] {
        let arguments = [&COMPILE[..], &["--out-dir", directory]].concat();
        let told = scene.run(&arguments);
        told.fails(4, words);
    }
    assert_eq!(fs::read_to_string(here.join("file")).unwrap(), "precious");
    assert_eq!(scene.leftovers(), [""; 0].map(PathBuf::from));

    // A pipe is replaced as a file is; to open it would wait for ever.
    fs::create_dir(here.join("piped")).unwrap();
    let pipe = here.join("piped/vecadd.rs");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let program = scene.npu_build();
    let mut command = common::in_place_of(&program, "timeout");
    command
        .arg("60")
        .arg(program.get_program())
        .args(COMPILE)
        .args(["--out-dir", "piped"]);
    let told = Outcome(command.output().unwrap());
    assert_eq!(told.code(), 0, "{told:?}");
    assert!(fs::symlink_metadata(&pipe).unwrap().is_file());
    // Nor is one the user's settings.
    fs::create_dir_all(here.join("config/npu-build")).unwrap();
    let pipe = here.join("config/npu-build/config.toml");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    command.env("XDG_CONFIG_HOME", here.join("config"));
    let told = Outcome(command.output().unwrap());
    told.fails(2, &["config/npu-build/config.toml", "no regular file"]);

    let mut command = scene.unprivileged();
    let locked = scene.read_only("locked");
    command.env("NPU_BUILD_CACHE_DIR", here.join("other"));
    let told = Outcome(
        command
            .args(COMPILE)
            .args(["-o", "locked/out"])
            .output()
            .unwrap(),
    );
    told.fails(4, &["can't write locked/out: Permission denied"]);
    let mut command = scene.unprivileged();
    command.env("NPU_BUILD_CACHE_DIR", here.join("other"));
    let told = Outcome(
        command
            .args(COMPILE)
            .args(["-o", "locked"])
            .output()
            .unwrap(),
    );
    told.fails(4, &["can't write locked/vecadd-", "Permission denied"]);
    assert_eq!(fs::read_dir(locked).unwrap().count(), 0);
}

/// A file system of `kilobytes` at `path`, until the value is dropped.
struct Mount(PathBuf);

impl Mount {
    fn new(path: PathBuf, kilobytes: u32) -> Option<Self> {
        fs::create_dir(&path).unwrap();
        let options = format!("size={kilobytes}k,mode=0700");
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none"])
            .arg(&path)
            .output();
        match output {
            Ok(output) if output.status.success() => Some(Self(path)),
            other => {
                println!("skipped: no file system may be mounted here ({other:?})");
                None
            }
        }
    }

    fn fill(&self) {
        let zeros = vec![0; 1 << 20];
        let error = fs::write(self.0.join("ballast"), zeros).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_costs_the_cache_and_not_the_build() {
    let scene = scene();
    // Room for nothing; for the directories and no more; for the inputs and not for the object.
    for (kilobytes, filled) in [
        (256, true),
        (4, false),
        (24, false),
        (32, false),
        (40, false),
        (56, false),
    ] {
        let Some(disk) = Mount::new(
            scene.path().join(format!("disk{kilobytes}{filled}")),
            kilobytes,
        ) else {
            return;
        };
        if filled {
            disk.fill();
        }
        delivers(
            &scene,
            with_cache(&scene, &disk.0),
            &["can't write the cache", "No space left on device"],
        );
        let work = fs::read_dir(disk.0.join("v1/work")).into_iter().flatten();
        assert_eq!(work.count(), 0);
        assert!(are_complete(&disk.0));
    }
}

/// Whether every entry has its manifest, without which it is none.
fn are_complete(cache: &Path) -> bool {
    let entries = walkdir::WalkDir::new(cache.join("v1/entries"))
        .min_depth(2)
        .max_depth(2);
    entries
        .into_iter()
        .flatten()
        .all(|entry| entry.path().join("manifest.json").is_file())
}

#[test]
fn full_disks_everywhere_are_an_error_that_names_them() {
    let scene = scene();
    let Some(cache) = Mount::new(scene.path().join("small"), 8) else {
        return;
    };
    let Some(temporary) = Mount::new(scene.path().join("tmp"), 8) else {
        return;
    };
    cache.fill();
    temporary.fill();
    let program = || {
        let mut command = with_cache(&scene, &cache.0);
        command.env("TMPDIR", &temporary.0);
        command
    };
    let path = temporary.0.to_str().unwrap();
    scene.refuses_as(
        &program,
        &COMPILE,
        4,
        &[
            "can't write the cache, nor the temporary directory",
            path,
            "No space left",
        ],
    );
    assert_eq!(fs::read_dir(&temporary.0).unwrap().count(), 1);
    // And the outputs' disk.
    let mut command = scene.npu_build();
    let told = Outcome(
        command
            .args(COMPILE)
            .arg("-o")
            .arg(&temporary.0)
            .output()
            .unwrap(),
    );
    told.fails(4, &[path, "No space left"]);
    assert_eq!(fs::read_dir(&temporary.0).unwrap().count(), 1);
}
