//! `npu-build cache`: listing, showing, verifying, cleaning, clearing, counting.
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::common::{Outcome, Scene};
use crate::{failing, flip, json, kernel, lock, make_pipe, rewrite};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A scene whose cache has a compile and a launcher entry for each of these kernels.
fn scene(names: &[&str]) -> Scene {
    let scene = Scene::replayed();
    for name in names {
        build(&scene, name);
    }
    scene
}

/// Builds a kernel of that name; gives its object.
fn build(scene: &Scene, name: &str) -> PathBuf {
    scene.compile(&kernel(scene, name)).paths()[0].clone()
}

/// The kernels of a list, with the kind of step.
fn listed(scene: &Scene, options: &[&str]) -> Vec<String> {
    let listed = json(scene, &[&["cache", "list"], options].concat());
    let names = listed.iter().map(|entry| {
        let text = |field: &str| entry[field].as_str().unwrap().to_owned();
        format!("{} {}", text("kernel"), text("step"))
    });
    names.collect()
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

/// Makes a file or directory look as old as that.
fn back_date(path: &Path, age: Duration) {
    let file = File::open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

/// Makes an entry look as if it was last used that long ago.
fn age(object: &Path, age: Duration) {
    back_date(&object.with_file_name("manifest.json"), age);
}

/// The same for both entries of a kernel.
fn age_both(scene: &Scene, name: &str, time: Duration) {
    let kernel = scene.path().join(format!("{name}.mlir"));
    for artifact in scene.compile(&kernel).paths() {
        age(&artifact, time);
    }
}

#[test]
fn entries_are_listed_filtered_and_sorted() {
    let scene = scene(&["one", "two"]);
    let all = ["one compile", "one launcher", "two compile", "two launcher"];
    assert_eq!(sorted(listed(&scene, &[])), all);
    assert_eq!(sorted(listed(&scene, &["--kernel", "two"])), all[2..]);
    assert_eq!(sorted(listed(&scene, &["--target", "cpu"])), all);
    assert_eq!(listed(&scene, &["--target", "npu2"]), [""; 0]);
    assert_eq!(listed(&scene, &["--unused-for", "1d"]), [""; 0]);
    age(&build(&scene, "one"), 2 * DAY);
    assert_eq!(listed(&scene, &["--unused-for", "1d"]), ["one compile"]);
    let used = listed(&scene, &["--sort", "used"]);
    assert_eq!(used.last().unwrap(), "one compile", "{used:?}");
    assert!(listed(&scene, &["--sort", "size"])[0].ends_with("compile"));
    assert!(listed(&scene, &["--sort", "kernel"])[0].starts_with("one"));
    for _ in 0..3 {
        build(&scene, "two");
    }
    assert!(listed(&scene, &["--sort", "hits"])[0].starts_with("two"));
    let entry = &json(&scene, &["cache", "list", "--kernel", "two"])[0];
    assert_eq!(entry["hits"], 3);
    // For people as well.
    let told = scene.run(&["cache", "list", "--kernel", "two"]).stdout();
    assert_eq!(told.lines().count(), 2);
    assert!(told.contains("3 hits"), "{told}");
}

#[test]
fn the_size_of_an_entry_is_that_of_its_files() {
    let scene = scene(&["one"]);
    for entry in json(&scene, &["cache", "list"]) {
        let key = entry["key"].as_str().unwrap();
        let place = scene.cache.join("v1/entries").join(&key[..2]);
        let files = fs::read_dir(place.join(&key[2..])).unwrap().flatten();
        let bytes: u64 = files.map(|file| file.metadata().unwrap().size()).sum();
        assert_eq!(entry["bytes"], bytes);
    }
}

#[test]
fn one_entry_is_shown_with_all_that_is_known() {
    let scene = scene(&["one"]);
    let object = build(&scene, "one");
    let key = scene.run(&["key", "one.mlir", "--target", "cpu"]).stdout();
    let key = key.trim();
    let shown = &json(&scene, &["cache", "show", &key[..12]])[0];
    let manifest = &shown["manifest"];
    assert_eq!(manifest["key"], key);
    assert_eq!(manifest["artifacts"][0]["name"], "kernel.so");
    assert_eq!(manifest["record"]["tools"]["clang"]["version"], "22.1.0");
    assert_eq!(shown["path"], object.parent().unwrap().to_str().unwrap());
    let told = scene.run(&["cache", "show", key]).stdout();
    let words = [
        "kernel.so",
        "clang 22.1.0",
        "input.kernel.mlir",
        "mlir-opt",
        "$ clang",
    ];
    for word in words.into_iter().chain([key, "state      sound"]) {
        assert!(told.contains(word), "no '{word}' in:\n{told}");
    }
    let absent = ["no entry's key begins with 0000"];
    scene.refuses(&["cache", "show", "0000"], 2, &absent);
    for wrong in ["", "abc", "../..", "xyzw", &"0".repeat(65), "ABCD"] {
        scene.refuses(&["cache", "show", wrong], 2, &["is no key"]);
    }
    rewrite(&object, |bytes| flip(bytes, 100));
    let told = scene.run(&["cache", "show", key]);
    assert_eq!(told.code(), 1, "{told:?}");
    let state = "state      does not verify (kernel.so: its content changed)";
    assert!(told.stdout().contains(state), "{told:?}");
    let shown = &json(&scene, &["cache", "show", key])[0];
    assert_eq!(shown["fault"], "kernel.so: its content changed");
    fs::write(object.with_file_name("manifest.json"), "x").unwrap();
    let damaged = ["does not verify", "verify --repair"];
    scene.refuses(&["cache", "show", key], 1, &damaged);
    // Several entries are not taken for one.
    let shard = object.ancestors().nth(2).unwrap();
    fs::create_dir(shard.join(format!("{}{}", &key[2..6], "0".repeat(58)))).unwrap();
    let several = ["several keys begin with", "more digits"];
    scene.refuses(&["cache", "show", &key[..6]], 2, &several);
}

/// What verification says: its exit code and the problems.
fn verify(scene: &Scene, options: &[&str]) -> (i32, Vec<Value>) {
    let arguments = [&["cache", "verify", "--message-format", "json"], options].concat();
    let told = scene.run(&arguments);
    let stdout = told.stdout();
    let mut lines: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let summary = lines.pop().unwrap();
    assert_eq!(summary["problems"], lines.len());
    (told.code(), lines)
}

#[test]
fn a_sound_cache_verifies() {
    let scene = scene(&["one", "two"]);
    assert_eq!(verify(&scene, &[]), (0, Vec::new()));
    let told = scene.run(&["cache", "verify", "-j", "3"]);
    assert_eq!(told.code(), 0);
    assert!(told.stderr().contains("4 entries"), "{told:?}");
    assert!(told.stderr().contains("all is well"), "{told:?}");
    // And one that holds nothing.
    fs::remove_dir_all(&scene.cache).unwrap();
    assert_eq!(verify(&scene, &[]), (0, Vec::new()));
}

/// Damages an entry, given its object.
type Damage = (&'static str, fn(&Path));

const DAMAGES: &[Damage] = &[
    ("its content changed", |object| {
        rewrite(object, |bytes| flip(bytes, 100))
    }),
    ("missing", |object| fs::remove_file(object).unwrap()),
    ("its size is", |object| {
        rewrite(object, |bytes| bytes[..10].to_vec())
    }),
    ("symbolic links", |object| {
        fs::rename(object, object.with_extension("was")).unwrap();
        symlink("kernel.was", object).unwrap();
    }),
    ("not a regular file", |object| {
        fs::remove_file(object).unwrap();
        make_pipe(object);
    }),
    ("others can write it (mode 0666)", |object| {
        fs::set_permissions(object, Permissions::from_mode(0o666)).unwrap();
    }),
    ("manifest.json is missing", |object| {
        fs::remove_file(object.with_file_name("manifest.json")).unwrap();
    }),
    ("checksum does not fit", |object| {
        fs::write(object.with_file_name("manifest.json"), "x").unwrap();
    }),
    ("a stranger.txt does not belong to it", |object| {
        fs::write(object.with_file_name("a stranger.txt"), "x").unwrap();
    }),
];

#[test]
fn every_damage_is_found_and_repaired() {
    let scene = scene(&["one"]);
    for (expected, damage) in DAMAGES {
        let object = build(&scene, "one");
        damage(&object);
        let (code, problems) = verify(&scene, &[]);
        assert_eq!((code, problems.len()), (1, 1), "{expected}: {problems:?}");
        let told = problems[0]["problem"].as_str().unwrap();
        assert!(told.contains(expected), "{told}");
        assert_eq!(problems[0]["repaired"], false);
        assert_eq!(
            problems[0]["path"],
            object.parent().unwrap().to_str().unwrap()
        );
        let (code, problems) = verify(&scene, &["--repair"]);
        assert_eq!((code, problems.len()), (0, 1), "{expected}: {problems:?}");
        assert_eq!(problems[0]["repaired"], true);
        assert_eq!(verify(&scene, &[]), (0, Vec::new()), "{expected}");
        let told = scene.compile(&scene.path().join("one.mlir"));
        assert!(told.stderr().contains("built: one"), "{told:?}");
    }
    let quarantine = fs::read_dir(scene.cache.join("v1/quarantine")).unwrap();
    assert_eq!(quarantine.count(), DAMAGES.len());
}

/// The manifest goes first, and the rest with the next build, or with the oldest entries.
#[test]
fn what_a_process_left_that_was_killed_while_deleting_is_no_entry() {
    let scene = scene(&["one"]);
    let entry = build(&scene, "one").parent().unwrap().to_owned();
    let kill = || fs::remove_file(entry.join("manifest.json")).unwrap();
    kill();
    assert_eq!(listed(&scene, &[]), ["one launcher"]);
    let outcome = scene.compile(Path::new("one.mlir"));
    assert!(outcome.stderr().contains("built: one"), "{outcome:?}");
    assert!(!outcome.stderr().contains("warning"), "{outcome:?}");
    kill();
    assert_eq!(json(&scene, &["cache", "gc"])[0]["entries"], 1);
    assert!(!entry.exists());
    assert_eq!(verify(&scene, &[]), (0, Vec::new()));
}

#[test]
fn what_does_not_belong_into_the_cache_is_found_and_deleted() {
    let scene = scene(&["one"]);
    let entries = scene.cache.join("v1/entries");
    let precious = scene.path().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("file"), "precious").unwrap();
    fs::write(entries.join("file"), "x").unwrap();
    fs::create_dir(entries.join("zz")).unwrap();
    let shard = build(&scene, "one");
    let shard = shard.ancestors().nth(2).unwrap();
    fs::create_dir(shard.join("abc")).unwrap();
    symlink(&precious, shard.join("f".repeat(62))).unwrap();
    let other = if shard.ends_with("00") { "01" } else { "00" };
    symlink(&precious, entries.join(other)).unwrap();
    let (code, problems) = verify(&scene, &[]);
    assert_eq!((code, problems.len()), (1, 5), "{problems:?}");
    let (code, problems) = verify(&scene, &["--repair"]);
    assert_eq!((code, problems.len()), (0, 5), "{problems:?}");
    assert_eq!(verify(&scene, &[]), (0, Vec::new()));
    assert_eq!(fs::read(precious.join("file")).unwrap(), b"precious");
    assert_eq!(listed(&scene, &[]).len(), 2);
}

/// Builds go on without the cache where such a thing is, and say so; nothing else tells why.
#[test]
fn what_is_in_the_place_of_a_directory_or_a_lock_is_found_and_deleted() {
    let scene = scene(&["one"]);
    let replace = |place: &Path, plant: &dyn Fn(&Path)| {
        match place.is_dir() {
            true => fs::remove_dir_all(place).unwrap(),
            false => fs::remove_file(place).unwrap(),
        }
        plant(place);
        for (options, expected) in [(&[][..], 1), (&["--repair"], 0)] {
            let (code, problems) = verify(&scene, options);
            assert_eq!((code, problems.len()), (expected, 1), "{problems:?}");
            assert_eq!(problems[0]["path"], place.to_str().unwrap());
        }
        assert_eq!(verify(&scene, &[]), (0, Vec::new()));
        let outcome = scene.run(&["compile", "one.mlir", "--target", "cpu", "--refresh"]);
        assert!(!outcome.stderr().contains("warning"), "{outcome:?}");
        assert!(outcome.stderr().contains("built: one"), "{outcome:?}");
    };
    let version = scene.cache.join("v1");
    let directories = "locks quarantine failures tools statistics kernels work";
    for name in directories.split(' ') {
        replace(&version.join(name), &|place| fs::write(place, "x").unwrap());
    }
    scene.run(&["cache", "gc"]);
    for lock in [
        version.join("lock"),
        version.join("cleaned"),
        scene.lock("one.mlir"),
    ] {
        replace(&lock, &|place| fs::create_dir(place).unwrap());
        replace(&lock, &|place| symlink("/nowhere", place).unwrap());
    }
}

#[test]
fn the_entries_that_were_not_used_for_the_longest_time_go_first() {
    let scene = scene(&["one", "two", "three"]);
    for (name, days) in [("one", 3), ("two", 9), ("three", 6)] {
        age_both(&scene, name, days * DAY);
    }
    let before = listed(&scene, &[]).len();
    let dry = &json(&scene, &["cache", "gc", "--max-entries", "4", "--dry-run"])[0];
    assert_eq!(dry["entries"], 2);
    assert_eq!(
        listed(&scene, &[]).len(),
        before,
        "a dry run deletes nothing"
    );
    let told = &json(&scene, &["cache", "gc", "--max-entries", "4"])[0];
    for count in ["entries", "bytes"] {
        assert_eq!(told[count], dry[count]);
    }
    assert_eq!(told["entries_left"], 4);
    let left = sorted(listed(&scene, &[]));
    let expected = [
        "one compile",
        "one launcher",
        "three compile",
        "three launcher",
    ];
    assert_eq!(left, expected);
    let told = &json(&scene, &["cache", "gc", "--max-age", "5d"])[0];
    assert_eq!(told["entries"], 2);
    assert_eq!(sorted(listed(&scene, &[])), left[..2]);
    // The launcher alone is small enough.
    let launcher = &json(&scene, &["cache", "list", "--sort", "size"])[1];
    let size = launcher["bytes"].to_string();
    age(&build(&scene, "one"), 4 * DAY);
    scene.run(&["cache", "gc", "--max-size", &size]);
    assert_eq!(listed(&scene, &[]), ["one launcher"]);
    assert_eq!(verify(&scene, &[]), (0, Vec::new()));
    // Nothing exceeds its bound any more.
    assert_eq!(json(&scene, &["cache", "gc"])[0]["entries"], 0);
    scene.run(&["cache", "gc", "--max-entries", "0"]);
    assert_eq!(listed(&scene, &[]), [""; 0]);
    for wrong in ["--max-size=x", "--max-age=5", "--max-entries=-1"] {
        let told = scene.run(&["cache", "gc", wrong]);
        assert_eq!(told.code(), 2, "{told:?}");
    }
}

#[test]
fn what_nobody_needs_any_more_is_cleaned_up() {
    let scene = scene(&["one"]);
    let file = |path: &str, days: u32| {
        let path = scene.cache.join("v1").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x").unwrap();
        back_date(&path, days * DAY);
        path
    };
    let directory = |path: &str, days: u32| {
        let path = scene.cache.join("v1").join(path);
        fs::create_dir_all(path.join("entry")).unwrap();
        back_date(&path, days * DAY);
        path
    };
    let gone = [
        file("failures/aaaa.log", 100),
        file("tools/.tmpabcdef", 1),
        file("statistics/.tmpabcdef", 1),
        file("kernels/aa/.tmpabcdef", 1),
        file("kernels/aa/bbbb", 100),
        file("entries/stray", 1),
        directory("quarantine/old-abcdef", 8),
        directory("work/build-abcdef", 2),
    ];
    let kept = [
        file("failures/bbbb.log", 10),
        file("tools/.tmpfedcba", 0),
        file("entries/young", 0),
        file("kernels/aa/cccc", 10),
        directory("quarantine/new-abcdef", 6),
        directory("work/build-fedcba", 0),
        directory("../v0", 100),
        directory("../elsewhere", 100),
    ];
    let mut dry = json(&scene, &["cache", "gc", "--dry-run"]).remove(0);
    let is_there = |path: &PathBuf| path.exists();
    assert!(gone.iter().all(is_there));
    let cleaned = &json(&scene, &["cache", "gc"])[0];
    assert_eq!(cleaned["leftovers"], gone.len(), "{cleaned}");
    dry["dry_run"] = false.into();
    assert_eq!(&dry, cleaned);
    assert_eq!(gone.iter().find(|path| is_there(path)), None);
    assert_eq!(kept.iter().find(|path| !is_there(path)), None);
    assert_eq!(listed(&scene, &[]).len(), 2);
}

#[test]
fn a_cache_with_bounds_cleans_itself_once_a_day_after_a_build() {
    let scene = scene(&["one"]);
    let bounds = "[cache]\nmax-entries = 5\nmax-age = \"30d\"\n";
    scene.file("npu-build.toml", bounds);
    let cleaned = scene.cache.join("v1/cleaned");
    let built = |name: &str| drop(build(&scene, name));
    age(&build(&scene, "one"), 40 * DAY);
    // Not before a day has passed.
    built("two");
    assert_eq!(listed(&scene, &["--kernel", "one"]).len(), 2);
    back_date(&cleaned, 2 * DAY);
    // Not before a hit, nor after one.
    built("two");
    assert_eq!(listed(&scene, &["--kernel", "one"]).len(), 2);
    built("three");
    assert_eq!(listed(&scene, &["--kernel", "one"]), ["one launcher"]);
    // Eight are more than five, and then four are left.
    for name in ["one", "two", "three"] {
        age_both(&scene, name, DAY);
    }
    back_date(&cleaned, 2 * DAY);
    built("four");
    let left = listed(&scene, &[]);
    assert_eq!(left.len(), 4, "{left:?}");
    assert_eq!(listed(&scene, &["--kernel", "four"]).len(), 2, "{left:?}");
    // And not again today.
    built("five");
    assert_eq!(listed(&scene, &[]).len(), 6);
}

/// Whatever the bounds: somebody is about to read it.
#[test]
fn what_was_just_delivered_is_not_cleaned_away() {
    let scene = scene(&["one", "old"]);
    for name in ["two", "three"] {
        kernel(&scene, name);
    }
    for name in ["one", "old"] {
        age_both(&scene, name, DAY);
    }
    back_date(&scene.cache.join("v1/cleaned"), 2 * DAY);
    let mut command = scene.npu_build();
    let arguments = "compile two.mlir one.mlir three.mlir --target cpu";
    command
        .args(arguments.split(' '))
        .env("NPU_BUILD_CACHE_MAX_ENTRIES", "1");
    let outcome = Outcome(command.output().unwrap());
    let paths = outcome.paths();
    assert_eq!(paths.len(), 6);
    assert!(paths.iter().all(|path| path.exists()), "{outcome:?}");
    assert_eq!(listed(&scene, &["--kernel", "old"]), [""; 0]);
    assert_eq!(listed(&scene, &[]).len(), 6);
}

/// A clock was ahead when it was last cleaned, and has been set back.
#[test]
fn a_cache_that_was_cleaned_in_the_future_is_cleaned() {
    let scene = scene(&["one"]);
    age_both(&scene, "one", 100 * DAY);
    let cleaned = File::open(scene.cache.join("v1/cleaned")).unwrap();
    cleaned.set_modified(SystemTime::now() + 400 * DAY).unwrap();
    build(&scene, "two");
    assert_eq!(sorted(listed(&scene, &[])), ["two compile", "two launcher"]);
}

#[test]
fn an_empty_directory_is_an_empty_cache() {
    let scene = Scene::replayed();
    fs::create_dir(&scene.cache).unwrap();
    for options in [&[][..], &["--all"], &["--kernel", "one"]] {
        let told = scene.run(&[&["cache", "clear"], options].concat());
        assert_eq!(told.code(), 0, "{options:?}: {told:?}");
        assert!(told.stderr().contains("cleared: 0 entries"), "{told:?}");
    }
    assert_eq!(fs::read_dir(&scene.cache).unwrap().count(), 0);
}

#[test]
fn a_cache_that_can_not_be_read_is_neither_empty_nor_sound() {
    let scene = scene(&["one"]);
    for closed in ["v1", "v1/entries"] {
        for command in ["verify", "list", "stats", "gc", "clear"] {
            // EACCES
            let mut program = failing(&scene, &scene.cache.join(closed), "opendir", "13");
            let outcome = Outcome(program.args(["cache", command]).output().unwrap());
            assert_eq!(outcome.code(), 4, "{closed} {command}: {outcome:?}");
            assert!(
                outcome.stderr().contains("Permission denied"),
                "{outcome:?}"
            );
        }
    }
    assert_eq!(verify(&scene, &[]), (0, Vec::new()));
}

#[test]
fn bounds_come_from_flags_variables_and_files() {
    let scene = scene(&["one"]);
    let gc = |variable: &str| {
        let mut command = scene.npu_build();
        command.env("NPU_BUILD_CACHE_MAX_ENTRIES", variable);
        command.args(["cache", "gc", "--dry-run", "--json"]);
        let told = Outcome(command.output().unwrap());
        (told.code(), told.stdout())
    };
    assert!(gc("1").1.contains("\"entries\":1,"), "{}", gc("1").1);
    assert!(gc("unlimited").1.contains("\"entries\":0,"));
    assert_eq!(gc("many").0, 2);
    for wrong in [
        "max-size = \"5 parsecs\"",
        "max-age = 90",
        "max-entries = -1",
        "max-entries = \"x\"",
        "layers = \"x\"",
        "max-sizes = 1",
    ] {
        scene.file("npu-build.toml", format!("[cache]\n{wrong}\n"));
        scene.refuses(&["cache", "gc"], 2, &["npu-build.toml"]);
    }
    scene.file("npu-build.toml", "[cache]\nmax-size = 0\n");
    assert_eq!(json(&scene, &["cache", "gc", "--dry-run"])[0]["entries"], 2);
    let told = &json(&scene, &["cache", "gc", "--max-size", "unlimited"])[0];
    assert_eq!(told["entries"], 0);
}

#[test]
fn entries_of_one_kernel_or_target_are_cleared() {
    let scene = scene(&["one", "two"]);
    let cleared = &json(&scene, &["cache", "clear", "--target", "npu1"])[0];
    assert_eq!(cleared["entries"], 0);
    let arguments = ["cache", "clear", "--kernel", "one", "--target", "cpu"];
    let cleared = &json(&scene, &arguments)[0];
    assert_eq!(cleared["entries"], 2);
    assert_eq!(cleared["kept"], 0);
    assert_eq!(sorted(listed(&scene, &[])), ["two compile", "two launcher"]);
    // What somebody builds stays, and that is told.
    let held = lock(&scene.lock("two.mlir")).unwrap();
    let cleared = scene.run(&["cache", "clear", "--kernel", "two"]);
    assert_eq!(cleared.code(), 0, "{cleared:?}");
    for words in ["cleared: 1 entry", "1 entry more could not be locked"] {
        assert!(cleared.stderr().contains(words), "{cleared:?}");
    }
    assert_eq!(listed(&scene, &[]), ["two compile"]);
    drop(held);
    scene.run(&["cache", "clear"]);
    assert_eq!(listed(&scene, &[]), [""; 0]);
    let misses = |scene: &Scene| {
        let stats = &json(scene, &["cache", "stats"])[0];
        stats["steps"]["compile"]["misses"].as_u64().unwrap_or(0)
    };
    assert_eq!(misses(&scene), 2, "statistics stay");
    scene.run(&["cache", "clear", "--all"]);
    assert_eq!(misses(&scene), 0);
    let told = scene.run(&["cache", "clear", "--all", "--kernel", "one"]);
    assert_eq!(told.code(), 2, "{told:?}");
    assert!(scene.leftovers().is_empty());
}

#[test]
fn hits_misses_repairs_and_failures_are_counted() {
    let scene = scene(&["one"]);
    let object = build(&scene, "one");
    build(&scene, "one");
    fs::remove_file(&object).unwrap();
    build(&scene, "one");
    scene.tool("clang", "exit 1");
    assert_eq!(scene.compile(&kernel(&scene, "bad")).code(), 1);
    let stats = &json(&scene, &["cache", "stats"])[0];
    let compile = &stats["steps"]["compile"];
    for (name, count) in [("hits", 2), ("misses", 1), ("repairs", 1), ("failures", 1)] {
        assert_eq!(compile[name], count, "{name} in {stats}");
    }
    assert_eq!(stats["steps"]["launcher"]["hits"], 3);
    assert_eq!(stats["entries"], 2);
    let bytes = fs::metadata(&object).unwrap().len();
    assert_eq!(compile["bytes_hit"], 2 * bytes);
    let told = scene.run(&["cache", "stats", "-v"]).stdout();
    for word in [
        "compile",
        "damaged: an entry did not",
        "kernel.so is missing",
    ] {
        assert!(told.contains(word), "no '{word}' in:\n{told}");
    }
    let before = json(&scene, &["cache", "stats", "--reset"]);
    assert_eq!(before[0]["steps"]["compile"]["hits"], 2);
    let after = &json(&scene, &["cache", "stats"])[0];
    assert!(after["steps"].as_object().unwrap().is_empty(), "{after}");
}

#[test]
fn each_subcommand_has_examples() {
    let scene = Scene::replayed();
    let commands = ["list", "show", "verify", "gc", "clear", "stats"];
    let commands = commands.map(|name| vec!["cache", name, "--help"]);
    for arguments in commands.into_iter().chain([vec!["explain", "--help"]]) {
        let help = scene.run(&arguments).stdout();
        assert!(help.contains("Examples:"), "{arguments:?}:\n{help}");
    }
}

/// A path that is misspelt is noticed, and nothing is made there.
#[test]
fn commands_that_look_at_a_cache_make_none() {
    let scene = Scene::replayed();
    let absent = scene.path().join("absent/cache");
    let place = absent.to_str().unwrap();
    let commands = "dir list stats stats,--json verify verify,--repair gc gc,--dry-run clear \
                    clear,--all show,abcd";
    for command in commands.split_whitespace() {
        let words = ["cache"].into_iter().chain(command.split(','));
        let arguments: Vec<_> = words.chain(["--cache-dir", place]).collect();
        let outcome = scene.run(&arguments);
        let code = if command == "show,abcd" { 2 } else { 0 };
        assert_eq!(outcome.code(), code, "{command}: {outcome:?}");
        let told = format!("there is no cache at {place} yet");
        assert!(outcome.stderr().contains(&told), "{}", outcome.stderr());
        assert!(!absent.parent().unwrap().exists(), "{command}");
    }
}
