//! Caches in which somebody has put things that do not belong there: nothing outside the cache is
//! read, written or deleted, nothing unverified is returned, and nobody waits for ever.
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Outcome, Scene, in_place_of};
use crate::{COMPILE, below, contents, make_pipe};
use npu_build::digest::Digest;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

/// Every command that looks at the cache, those that change most last.
const COMMANDS: &[&[&str]] = &[
    &["key", "vecadd.mlir", "--target", "cpu"],
    &["explain", "vecadd.mlir", "--target", "cpu"],
    &["cache", "list", "--sort", "hits"],
    &["cache", "show", "0000"],
    &["cache", "verify"],
    &["cache", "stats", "-v"],
    &COMPILE,
    &["compile", "vecadd.mlir", "--target", "cpu", "--refresh"],
    &["cache", "gc", "--max-entries", "1"],
    &["cache", "verify", "--repair"],
    &["cache", "clear", "--kernel", "vecadd"],
    &["cache", "stats", "--reset"],
    &["cache", "clear", "--all"],
    &COMPILE,
];

/// Something in the place of a file or a directory, and how it is made there; the second path is that
/// of a directory nobody may touch.
type Obstacle = (&'static str, fn(&Path, &Path));

const OBSTACLES: &[Obstacle] = &[
    ("a link to a file", |path, precious| {
        symlink(precious.join("file"), path).unwrap();
    }),
    ("a link to a directory", |path, precious| {
        symlink(precious, path).unwrap()
    }),
    ("a link to nothing", |path, precious| {
        symlink(precious.join("missing"), path).unwrap();
    }),
    ("a link to itself", |path, _| symlink(path, path).unwrap()),
    ("another name of a file", |path, precious| {
        fs::hard_link(precious.join("file"), path).unwrap();
    }),
    ("a pipe", |path, _| make_pipe(path)),
    ("a device", |path, _| {
        // /dev/zero; only root can make one.
        if mknodat(
            CWD,
            path,
            FileType::CharacterDevice,
            Mode::RUSR,
            makedev(1, 5),
        )
        .is_err()
        {
            fs::write(path, "x").unwrap();
        }
    }),
    ("an empty directory", |path, _| {
        fs::create_dir(path).unwrap()
    }),
    ("an empty file", |path, _| fs::write(path, "").unwrap()),
    ("a gigabyte", |path, _| {
        fs::File::create(path).unwrap().set_len(1 << 30).unwrap();
    }),
];

/// The program, which gets ten minutes of a slow machine and no more.
fn patiently(scene: &Scene, arguments: &[&str]) -> Outcome {
    within(600, scene, arguments)
}

/// Runs the program, which must come to an end within so many seconds.
#[track_caller]
fn within(seconds: u32, scene: &Scene, arguments: &[&str]) -> Outcome {
    let program = scene.npu_build();
    let mut command = in_place_of(&program, "timeout");
    command
        .arg(seconds.to_string())
        .arg(program.get_program())
        .args(arguments);
    let told = Outcome(command.output().unwrap());
    assert!(!told.stderr().contains("panicked"), "{told:?}");
    assert!(told.code() != 124 && told.code() >= 0, "{told:?}");
    told
}

/// A scene with a built kernel, and a directory beside the cache that nobody may touch.
fn scene() -> (Scene, PathBuf, Vec<Vec<u8>>) {
    let scene = Scene::replayed();
    scene.kernel("vecadd.mlir");
    let good = contents(&scene.run(&COMPILE));
    let precious = scene.path().join("precious");
    fs::create_dir_all(precious.join("directory")).unwrap();
    fs::write(precious.join("file"), "precious").unwrap();
    fs::write(precious.join("directory/file"), "precious").unwrap();
    (scene, precious, good)
}

#[track_caller]
fn is_untouched(precious: &Path, case: &str) {
    let names = below(precious);
    let expected = ["directory", "directory/file", "file"];
    assert_eq!(names, expected.map(|name| precious.join(name)), "{case}");
    for name in ["file", "directory/file"] {
        assert_eq!(
            fs::read(precious.join(name)).unwrap(),
            b"precious",
            "{case}"
        );
    }
}

/// The paths of everything in the cache.
fn everything(scene: &Scene) -> Vec<PathBuf> {
    scene.run(&["cache", "stats"]);
    scene.run(&["cache", "gc"]);
    // And the log that was folded just now.
    scene.run(&COMPILE);
    let paths = below(&scene.cache).into_iter();
    paths
        .map(|path| path.strip_prefix(&scene.cache).unwrap().to_owned())
        .collect()
}

/// How many of the combinations are tried: all of them if this variable is set, which takes a while.
const ALL: &str = "NPU_BUILD_TEST_ALL";

#[test]
fn obstacles_in_the_place_of_anything_are_harmless() {
    let (scene, precious, good) = scene();
    let places = everything(&scene);
    assert!(places.len() > 20, "{places:?}");
    let pristine = scene.path().join("pristine");
    fs::rename(&scene.cache, &pristine).unwrap();
    let each = if std::env::var_os(ALL).is_some() {
        1
    } else {
        7
    };
    for (number, place) in places.iter().enumerate() {
        for (index, (what, make)) in OBSTACLES.iter().enumerate() {
            if (3 * number + index) % each != 0 {
                continue;
            }
            let case = format!("{what} in the place of {}", place.display());
            let _ = fs::remove_dir_all(&scene.cache);
            let copied = Command::new("cp")
                .arg("-a")
                .args([&pristine, &scene.cache])
                .status();
            assert!(copied.unwrap().success());
            let path = scene.cache.join(place);
            match fs::symlink_metadata(&path).unwrap().is_dir() {
                true => fs::remove_dir_all(&path).unwrap(),
                false => fs::remove_file(&path).unwrap(),
            }
            make(&path, &precious);
            for arguments in COMMANDS {
                let told = patiently(&scene, arguments);
                is_untouched(&precious, &format!("{case}: {arguments:?}"));
                // A cache that can't be trusted is refused; else the artifacts are right.
                if arguments[0] == "compile" && told.code() != 4 {
                    assert_eq!(contents(&told), good, "{case}: {told:?}");
                }
            }
        }
    }
}

#[test]
fn an_entry_behind_a_link_is_not_read() {
    let (scene, _, good) = scene();
    let object = scene.run(&COMPILE).paths()[0].clone();
    // The very entry, elsewhere: its content is right, and its place is wrong.
    for level in 1..=2 {
        let place = object.ancestors().nth(level).unwrap();
        let elsewhere = scene.path().join(format!("elsewhere{level}"));
        fs::rename(place, &elsewhere).unwrap();
        symlink(&elsewhere, place).unwrap();
        scene.runs();
        let told = patiently(&scene, &COMPILE);
        assert!(told.stderr().contains("repaired: vecadd"), "{told:?}");
        assert_eq!(contents(&told), good);
        assert!(!scene.runs().is_empty());
        assert!(!place.is_symlink());
        let is_there = |path: &PathBuf| path.ends_with("kernel.so");
        assert!(below(&elsewhere).iter().any(is_there));
    }
}

#[test]
fn files_that_somebody_else_could_have_written_are_not_believed() {
    let (scene, _, good) = scene();
    for name in ["kernel.so", "manifest.json"] {
        for mode in [0o666, 0o646, 0o664] {
            let object = scene.run(&COMPILE).paths()[0].clone();
            let file = object.with_file_name(name);
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let told = patiently(&scene, &COMPILE);
            assert!(
                told.stderr().contains(&format!("mode {mode:04o}")),
                "{told:?}"
            );
            assert!(told.stderr().contains("repaired: vecadd"), "{told:?}");
            assert_eq!(contents(&told), good);
        }
        if rustix::process::geteuid().is_root() {
            let object = scene.run(&COMPILE).paths()[0].clone();
            chown(object.with_file_name(name), Some(65534), None).unwrap();
            let told = patiently(&scene, &COMPILE);
            assert!(told.stderr().contains("belongs to user 65534"), "{told:?}");
            assert_eq!(contents(&told), good);
        }
    }
}

/// An entry that can't be used, in every way, where its place can be cleared and where not.
#[test]
fn what_is_said_of_an_entry_is_what_is_so() {
    let scene = Scene::replayed();
    scene.kernel("vecadd.mlir");
    let run = |arguments: &[&str]| Outcome(scene.unprivileged().args(arguments).output().unwrap());
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let object = run(&COMPILE).paths()[0].clone();
    let shard = object.ancestors().nth(2).unwrap().to_owned();
    let [quarantine, work] = ["quarantine", "work"].map(|name| scene.cache.join("v1").join(name));
    let damage = || {
        mode(&object, 0o644);
        fs::write(&object, "damaged").unwrap();
    };
    let unreadable = || mode(&object, 0o000);
    let moved = "it was moved to the quarantine and is made again";
    let stays = "it stays where it is, and what is made now is not kept";
    for (make, reason) in [
        (
            &unreadable as &dyn Fn(),
            "(kernel.so: Permission denied (os error 13))",
        ),
        (&damage, "(kernel.so: its size is 7 bytes instead of "),
    ] {
        for (obstacle, fate, outcome) in [
            (None, moved, "repaired: vecadd"),
            (Some(&shard), stays, "built: vecadd"),
            (Some(&quarantine), stays, "built: vecadd"),
            (Some(&work), stays, "built: vecadd"),
        ] {
            make();
            obstacle
                .into_iter()
                .for_each(|obstacle| mode(obstacle, 0o555));
            let before = fs::read_dir(&quarantine).unwrap().count();
            let told = run(&COMPILE);
            told.paths();
            let stderr = told.stderr();
            let warning = stderr.lines().find(|line| line.contains("entry of vecadd"));
            let warning = warning.unwrap_or_else(|| panic!("{stderr}"));
            assert!(
                warning.contains(reason) && warning.contains(fate),
                "{stderr}"
            );
            assert!(stderr.contains(outcome), "{stderr}");
            let after = fs::read_dir(&quarantine).unwrap().count();
            assert_eq!(after - before, usize::from(fate == moved), "{stderr}");
            obstacle
                .into_iter()
                .for_each(|obstacle| mode(obstacle, 0o755));
        }
        // The entry stayed, so it is made again now.
        assert!(run(&COMPILE).stderr().contains("repaired: vecadd"));
    }
    // Of the manifest as well, and by those who show entries.
    let key = run(&["key", "vecadd.mlir", "--target", "cpu"]).stdout();
    let manifest = object.with_file_name("manifest.json");
    mode(&manifest, 0o000);
    let words = "does not verify (manifest.json: Permission denied";
    run(&["cache", "show", key.trim()]).fails(1, &[words]);
    assert!(run(&COMPILE).stderr().contains(words));
}

/// What becomes of the text above a manifest's checksum.
type Lie = fn(&str) -> String;

/// A manifest with a right checksum.
fn sealed(above: &str) -> String {
    format!("{above}\"{}\"\n", Digest::of(above))
}

/// The text above a manifest's checksum: two lines.
fn above(manifest: &Path) -> String {
    let text = fs::read_to_string(manifest).unwrap();
    text.split_inclusive('\n').take(2).collect()
}

#[test]
fn a_manifest_that_lies_is_not_believed() {
    const NAME: &str = r#""name":"kernel.so""#;
    const ARTIFACTS: &str = r#""artifacts":["#;
    let (scene, precious, good) = scene();
    let lies: &[Lie] = &[
        |text| text.replace(NAME, r#""name":"../../../../../precious/file""#),
        |text| text.replace(NAME, r#""name":"/etc/passwd""#),
        |text| text.replace(NAME, r#""name":"manifest.json""#),
        |text| text.replace(NAME, r#""name":"kernel.so\u0000x""#),
        |text| text.replace(r#""size":"#, r#""size":1"#),
        |text| text.replace(r#""size":"#, r#""size":18446744073709551615,"x":"#),
        |text| text.replacen(r#""sha256":""#, r#""sha256":"0"#, 1),
        |text| text.replace(r#""schema":1"#, r#""schema":2"#),
        |text| {
            let digest = text.split_once(r#""sha256":""#).unwrap().1;
            text.replace(&digest[..64], &"0".repeat(64))
        },
        |text| {
            text.replace(
                ARTIFACTS,
                r#""artifacts":[{"name":"x","size":0,"sha256":"00"},"#,
            )
        },
        |text| {
            text.replace(
                ARTIFACTS,
                &format!(r#""x":{}{}"#, "[".repeat(1 << 20), ARTIFACTS),
            )
        },
        |_| "[".repeat(1 << 20),
        |_| String::new(),
    ];
    for (number, lie) in lies.iter().enumerate() {
        let object = scene.run(&COMPILE).paths()[0].clone();
        let manifest = object.with_file_name("manifest.json");
        let text = above(&manifest);
        let lied = lie(&text);
        assert_ne!(lied, text, "{number}");
        fs::write(&manifest, sealed(&lied)).unwrap();
        for (command, code) in [("verify", 1), ("list", 0), ("stats", 0), ("gc", 0)] {
            let outcome = patiently(&scene, &["cache", command]);
            assert_eq!(outcome.code(), code, "{number}: {outcome:?}");
        }
        let outcome = patiently(&scene, &COMPILE);
        assert_eq!(contents(&outcome), good, "{number}");
        is_untouched(&precious, &format!("lie {number}"));
    }
}

/// A log of holes, as large as a disk: it is no log, and reading it takes minutes.
#[test]
fn a_log_that_is_too_long_is_not_read() {
    let (scene, _, good) = scene();
    let statistics = scene.cache.join("v1/statistics");
    for name in ["log", "totals"] {
        for command in [
            &COMPILE[..],
            &["cache", "stats"],
            &["cache", "list"],
            &["cache", "gc"],
        ] {
            let log = fs::File::options()
                .append(true)
                .create(true)
                .open(statistics.join(name))
                .unwrap();
            log.set_len(1 << 40).unwrap();
            assert_eq!(within(60, &scene, command).code(), 0, "{name} {command:?}");
        }
    }
    let left = fs::read_dir(statistics).unwrap().flatten();
    let bytes: u64 = left.map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes < 1 << 20, "{bytes}");
    assert_eq!(contents(&scene.run(&COMPILE)), good);
}

#[test]
fn an_entry_whose_material_gives_another_key_is_found() {
    let (scene, ..) = scene();
    let object = scene.run(&COMPILE).paths()[0].clone();
    let manifest = object.with_file_name("manifest.json");
    let text = above(&manifest).replace(r#""text":"compile""#, r#""text":"compiled""#);
    fs::write(&manifest, sealed(&text)).unwrap();
    let told = patiently(&scene, &["cache", "verify"]);
    assert_eq!(told.code(), 1, "{told:?}");
    assert!(told.stdout().contains("gives another key"), "{told:?}");
}
