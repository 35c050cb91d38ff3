//! Hit, repair and single flight, with the real tools.
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Child;

use crate::common::{Outcome, Scene, TOOLS};
use crate::{contents, flip, json, make_pipe, rewrite};

#[test]
fn the_second_compilation_runs_nothing_and_gives_the_same_files() {
    let scene = Scene::new();
    let kernel = scene.kernel("vecadd.mlir");
    let built = scene.compile(&kernel);
    let paths = built.paths();
    assert_eq!(scene.runs(), TOOLS);
    assert!(
        built.stderr().contains("built: vecadd for cpu"),
        "{}",
        built.stderr()
    );

    let hit = scene.compile(&kernel);
    assert_eq!(hit.paths(), paths);
    assert_eq!(scene.runs(), [""; 0]);
    assert!(
        hit.stderr().contains("hit: vecadd for cpu"),
        "{}",
        hit.stderr()
    );
    assert!(scene.leftovers().is_empty(), "{:?}", scene.leftovers());
}

#[test]
fn json_has_outcome_key_and_artifacts() {
    let scene = Scene::new();
    scene.kernel("vecadd.mlir");
    for outcome in ["built", "hit"] {
        let object = &json(&scene, &["compile", "vecadd.mlir", "--target", "cpu"])[0];
        assert_eq!(object["outcome"], outcome);
        assert_eq!(object["target"], "cpu");
        let key = scene
            .run(&["key", "vecadd.mlir", "--target", "cpu"])
            .stdout();
        assert_eq!(object["key"], key.trim());
        let path = object["artifact"]["path"].as_str().unwrap();
        assert_eq!(object["artifact"]["size"], fs::read(path).unwrap().len());
        // As coreutils computes it.
        let sum = std::process::Command::new("sha256sum").arg(path).output();
        let sum = String::from_utf8(sum.unwrap().stdout).unwrap();
        assert_eq!(object["artifact"]["sha256"], sum[..64]);
    }
}

/// What can happen to a file of an entry.
type Damage = (&'static str, fn(&Path));

const DAMAGES: &[Damage] = &[
    ("deleted", |path| fs::remove_file(path).unwrap()),
    ("emptied", |path| rewrite(path, |_| Vec::new())),
    ("cut short", |path| {
        rewrite(path, |bytes| bytes[..bytes.len() / 2].to_vec())
    }),
    ("one byte shorter", |path| {
        rewrite(path, |bytes| bytes[..bytes.len() - 1].to_vec())
    }),
    ("longer", |path| {
        rewrite(path, |bytes| [bytes, b"\n"].concat())
    }),
    ("a flipped bit at the start", |path| {
        rewrite(path, |bytes| flip(bytes, 0))
    }),
    ("a flipped bit in the middle", |path| {
        rewrite(path, |bytes| flip(bytes, bytes.len() / 2))
    }),
    ("a flipped bit at the end", |path| {
        rewrite(path, |bytes| flip(bytes, bytes.len() - 1))
    }),
    ("zeros of the same length", |path| {
        rewrite(path, |bytes| vec![0; bytes.len()])
    }),
    ("replaced by a directory", |path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }),
    ("replaced by a link to a copy", |path| {
        let copy = path.with_extension("copy");
        fs::rename(path, &copy).unwrap();
        symlink(copy, path).unwrap();
    }),
    ("replaced by a link to nothing", |path| {
        fs::remove_file(path).unwrap();
        symlink("/nowhere/at/all", path).unwrap();
    }),
    ("replaced by a pipe", |path| {
        fs::remove_file(path).unwrap();
        make_pipe(path);
    }),
];

#[test]
fn any_damage_to_any_file_is_repaired_by_the_steps_that_are_hurt() {
    let scene = Scene::replayed();
    let kernel = scene.kernel("vecadd.mlir");
    let good = artifacts(&scene.compile(&kernel));
    scene.runs();
    for file in scene.entry_files() {
        let is_compile = file.parent().unwrap().join("kernel.so").exists();
        for (what, damage) in DAMAGES {
            damage(&file);
            let repaired = scene.compile(&kernel);
            let case = format!(
                "{} {what}: {repaired:?}",
                file.file_name().unwrap().display()
            );
            assert_eq!(artifacts(&repaired), good, "{case}");
            let expected: &[&str] = if is_compile { &TOOLS } else { &[] };
            assert_eq!(scene.runs(), expected, "{case}");
            // A directory without a manifest is no entry.
            let is_none = *what == "deleted" && file.ends_with("manifest.json");
            for words in ["repaired: vecadd", "does not verify"] {
                assert_eq!(repaired.stderr().contains(words), !is_none, "{case}");
            }
            // And then it is whole again.
            assert!(
                scene.compile(&kernel).stderr().contains("hit: vecadd"),
                "{case}"
            );
        }
    }
    let quarantine = fs::read_dir(scene.cache.join("v1/quarantine")).unwrap();
    for place in quarantine.flatten() {
        let reason = fs::read_to_string(place.path().join("reason.txt")).unwrap();
        assert!(reason.lines().count() == 2, "{reason}");
        assert!(place.path().join("entry").exists());
    }
}

fn artifacts(outcome: &Outcome) -> Vec<(PathBuf, Vec<u8>)> {
    outcome.paths().into_iter().zip(contents(outcome)).collect()
}

#[test]
fn whole_entries_and_directories_may_be_deleted_by_hand() {
    let scene = Scene::replayed();
    let kernel = scene.kernel("vecadd.mlir");
    let good = artifacts(&scene.compile(&kernel));
    let parts = "v1/entries v1/locks v1/work v1/tools v1/quarantine v1/failures v1/kernels \
                 v1/statistics v1 CACHEDIR.TAG";
    for path in parts.split_whitespace().chain([""]) {
        let path = scene.cache.join(path);
        match path.is_dir() {
            true => fs::remove_dir_all(&path).unwrap(),
            false => fs::remove_file(&path).unwrap(),
        }
        let outcome = scene.compile(&kernel);
        assert_eq!(artifacts(&outcome), good, "without {}", path.display());
    }
}

#[test]
fn an_entry_under_another_key_is_not_believed() {
    let scene = Scene::new();
    let vecadd = scene.kernel("vecadd.mlir");
    let fma = scene.kernel("fma.mlir");
    let one = scene.compile(&vecadd).paths();
    let good = artifacts(&scene.compile(&fma));
    scene.runs();
    // The object of vecadd, manifest and all, in the place of fma's.
    let (from, to) = (one[0].parent().unwrap(), good[0].0.parent().unwrap());
    fs::remove_dir_all(to).unwrap();
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap().flatten() {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    let repaired = scene.compile(&fma);
    assert_eq!(artifacts(&repaired), good);
    assert!(repaired.stderr().contains("belongs to key"), "{repaired:?}");
}

#[test]
fn eight_processes_on_one_cold_kernel_run_each_tool_once() {
    let scene = Scene::new();
    // The first one builds until all the others have said that they wait.
    let go = scene.path().join("go");
    let wait = format!("while ! test -e '{}'; do sleep 0.01; done", go.display());
    scene.script("clang", &wait);
    let kernel = scene.kernel("vecadd.mlir");
    let mut children: Vec<_> = (0..8)
        .map(|_| start(&scene, &kernel, &["--message-format", "json"]))
        .collect();
    let first_lines = children.iter_mut().map(|child| {
        let mut line = String::new();
        // It stays open: a closed pipe would be another reason to end.
        let stderr = child.stderr.as_mut().unwrap();
        BufReader::with_capacity(1, stderr)
            .read_line(&mut line)
            .unwrap();
        line
    });
    let mut first_lines: Vec<_> = first_lines.collect();
    first_lines.sort();
    let waiting = "waiting: for another process, which is building vecadd\n";
    assert_eq!(first_lines[0], "building: vecadd for cpu\n");
    assert_eq!(first_lines[1..], [waiting; 7]);
    fs::write(go, "").unwrap();
    let outcomes = children.into_iter().map(|child| {
        let outcome = Outcome(child.wait_with_output().unwrap());
        serde_json::from_str(&outcome.stdout()).unwrap()
    });
    let outcomes: Vec<serde_json::Value> = outcomes.collect();
    assert_eq!(scene.runs(), TOOLS);
    // Whoever is the first to know the object makes the launcher.
    for step in [0, 1] {
        let steps = outcomes
            .iter()
            .map(|object| &object["steps"][step]["outcome"]);
        let built = steps.filter(|outcome| **outcome == "built");
        assert_eq!(built.count(), 1, "step {step}: {outcomes:?}");
    }
    for name in ["artifact", "launcher"] {
        assert!(
            outcomes
                .iter()
                .all(|object| object[name] == outcomes[0][name])
        );
    }
}

fn start(scene: &Scene, kernel: &Path, options: &[&str]) -> Child {
    let arguments = ["compile", kernel.to_str().unwrap(), "--target", "cpu"];
    crate::start(scene.npu_build(), &[&arguments, options].concat())
}

#[test]
fn eight_processes_on_one_damaged_entry_repair_it_once() {
    let scene = Scene::replayed();
    let kernel = scene.kernel("vecadd.mlir");
    let good = artifacts(&scene.compile(&kernel));
    scene.runs();
    rewrite(&good[0].0, |bytes| flip(bytes, 100));
    let children: Vec<_> = (0..8).map(|_| start(&scene, &kernel, &[])).collect();
    let outcomes: Vec<_> = children
        .into_iter()
        .map(|child| Outcome(child.wait_with_output().unwrap()))
        .collect();
    assert_eq!(scene.runs(), TOOLS);
    let repaired = |outcome: &&Outcome| outcome.stderr().contains("repaired: vecadd");
    assert_eq!(outcomes.iter().filter(repaired).count(), 1);
    assert!(outcomes.iter().all(|outcome| artifacts(outcome) == good));
    let quarantine = fs::read_dir(scene.cache.join("v1/quarantine")).unwrap();
    assert_eq!(quarantine.count(), 1);
}

#[test]
fn an_entry_that_is_replaced_again_and_again_is_whole_for_everybody() {
    let scene = Scene::replayed();
    let kernel = scene.kernel("vecadd.mlir");
    let good = artifacts(&scene.compile(&kernel));
    for _ in 0..4 {
        let children: Vec<_> = (0..12)
            .map(|number| {
                let options: &[&str] = if number % 3 == 0 { &["--refresh"] } else { &[] };
                start(&scene, &kernel, options)
            })
            .collect();
        for child in children {
            let outcome = Outcome(child.wait_with_output().unwrap());
            assert!(!outcome.stderr().contains("does not verify"), "{outcome:?}");
            let paths: Vec<_> = good.iter().map(|(path, _)| path.clone()).collect();
            assert_eq!(outcome.paths(), paths);
        }
    }
    assert_eq!(artifacts(&scene.compile(&kernel)), good);
    assert!(scene.leftovers().is_empty(), "{:?}", scene.leftovers());
}

#[test]
fn without_the_lock_files_the_work_is_done_twice_and_right() {
    // A directory in the place of the key's lock: it can't be opened, as on a file system that
    // forbids it.
    let scene = Scene::replayed();
    let kernel = scene.kernel("vecadd.mlir");
    fs::create_dir_all(scene.lock("vecadd.mlir")).unwrap();
    let built = scene.compile(&kernel);
    assert!(
        built.stderr().contains("building without the lock"),
        "{built:?}"
    );
    let good = artifacts(&built);
    assert!(scene.compile(&kernel).stderr().contains("hit: vecadd"));
    let children = (0..4).map(|_| start(&scene, &kernel, &["--refresh"]));
    for child in children.collect::<Vec<_>>() {
        Outcome(child.wait_with_output().unwrap()).paths();
    }
    assert_eq!(artifacts(&scene.compile(&kernel)), good);
    assert!(scene.leftovers().is_empty());
}

#[test]
fn several_kernels_are_built_at_once_and_listed_in_order() {
    let scene = Scene::new();
    let names = ["vecadd", "fma", "softmax", "matmul_i8"];
    let files = names.map(|name| format!("{name}.mlir"));
    files.iter().for_each(|file| drop(scene.kernel(file)));
    let arguments = ["compile", "--target", "cpu", "-j", "4"].into_iter();
    let arguments: Vec<_> = arguments.chain(files.iter().map(|file| &**file)).collect();
    let built = json(&scene, &arguments);
    let built: Vec<_> = built
        .iter()
        .map(|object| &object["kernel"]["name"])
        .collect();
    assert_eq!(built, names);
}

#[test]
fn refresh_builds_what_is_there_and_no_cache_leaves_nothing() {
    let scene = Scene::new();
    let kernel = scene.kernel("vecadd.mlir");
    let good = artifacts(&scene.compile(&kernel));
    scene.runs();
    let compile = ["compile", "vecadd.mlir", "--target", "cpu"];
    let refreshed = scene.run(&[&compile[..], &["--refresh"]].concat());
    assert_eq!(artifacts(&refreshed), good);
    assert_eq!(scene.runs(), TOOLS);
    let uncached = scene.run(&[&compile[..], &["--no-cache", "--out-dir", "out"]].concat());
    assert_eq!(uncached.paths().len(), 2);
    assert_eq!(scene.runs(), TOOLS);
    assert!(scene.leftovers().is_empty());
}

#[test]
fn intermediates_are_kept_on_request_and_are_another_entry() {
    let scene = Scene::new();
    let kernel = scene.kernel("vecadd.mlir");
    scene.compile(&kernel);
    let arguments = [
        "compile",
        "vecadd.mlir",
        "--target",
        "cpu",
        "--keep-intermediates",
    ];
    let paths = scene.run(&arguments).paths();
    let text = |name: &str| {
        let path = paths.iter().find(|path| path.ends_with(name)).unwrap();
        fs::read_to_string(path).unwrap()
    };
    assert!(text("kernel.ll").contains("define void @vecadd("));
    assert!(text("kernel.llvm.mlir").contains("llvm.func @vecadd("));
    assert!(scene.run(&arguments).stderr().contains("hit: vecadd"));
}

#[test]
fn the_cache_can_be_listed_cleared_and_moved() {
    let mut scene = Scene::new();
    let kernel = scene.kernel("vecadd.mlir");
    scene.compile(&kernel).paths();
    scene.runs();
    let listed = json(&scene, &["cache", "list"]).into_iter();
    let mut steps: Vec<_> = listed
        .map(|entry| format!("{} {}", entry["step"], entry["kernel"]))
        .collect();
    steps.sort();
    assert_eq!(steps, [r#""compile" "vecadd""#, r#""launcher" "vecadd""#]);
    let moved = scene.path().join("elsewhere");
    fs::rename(&scene.cache, &moved).unwrap();
    let path = std::mem::replace(&mut scene.cache, moved);
    let path = path.to_str().unwrap().as_bytes();
    for file in scene.entry_files() {
        let text = fs::read(&file).unwrap();
        let mut windows = text.windows(path.len());
        assert!(!windows.any(|window| window == path), "{}", file.display());
    }
    assert!(scene.compile(&kernel).stderr().contains("hit: vecadd"));
    assert_eq!(scene.runs(), [""; 0]);
    let cleared = scene.run(&["cache", "clear"]);
    assert!(
        cleared.stderr().contains("cleared: 2 entries"),
        "{cleared:?}"
    );
    assert_eq!(scene.run(&["cache", "list"]).stdout(), "");
    let dir = scene.run(&["cache", "dir"]).stdout();
    assert_eq!(Path::new(dir.trim_end()), scene.cache);
    let json = scene.run(&["cache", "dir", "--json"]).stdout();
    assert_eq!(json, format!("{{\"dir\":\"{}\"}}\n", dir.trim_end()));
}

#[test]
fn what_links_in_the_cache_lead_to_is_never_deleted() {
    let scene = Scene::replayed();
    let kernel = scene.kernel("vecadd.mlir");
    scene.compile(&kernel).paths();
    let theirs = scene.path().join("theirs");
    for name in ["work", "entries", "quarantine", "failures", "tools"] {
        fs::create_dir_all(theirs.join("sub")).unwrap();
        fs::write(theirs.join("file"), "precious").unwrap();
        let ours = scene.cache.join("v1").join(name);
        fs::remove_dir_all(&ours).unwrap();
        symlink(&theirs, &ours).unwrap();
        scene.run(&["cache", "clear"]).fails(4, &["symbolic link"]);
        let refresh = ["compile", "vecadd.mlir", "--target", "cpu", "--refresh"];
        scene.run(&refresh).paths();
        let is_there = theirs.join("sub").exists() && theirs.join("file").exists();
        assert!(is_there, "{name}");
        fs::remove_file(&ours).unwrap();
    }
}

#[test]
fn several_kernels_of_one_file_are_built_each_as_the_project_says() {
    let scene = Scene::new();
    let body = "(%x: memref<4xf32>, %y: memref<4xf32>) {\n  memref.copy %x, %y : memref<4xf32> to memref<4xf32>\n  return\n}\n";
    scene.file("two.mlir", format!("func.func @a{body}func.func @b{body}"));
    scene.file(
        "npu-build.toml",
        "[build]\ntarget = \"cpu\"\n[[kernel]]\npath = \"two.mlir\"\nentry = \"a\"\n\
         [[kernel]]\npath = \"two.mlir\"\nentry = \"b\"\nargs = { y = \"inout\" }\n",
    );
    let built = json(&scene, &["build"]);
    assert_eq!(built.len(), 2, "{built:?}");
    for (object, (name, direction)) in built.iter().zip([("a", "out"), ("b", "inout")]) {
        let kernel = &object["kernel"];
        assert_eq!(kernel["name"], name);
        let y = &kernel["parameters"][1]["kind"]["memory"]["direction"];
        assert_eq!(*y, direction, "{kernel}");
    }
    // Both launchers would be two.rs.
    scene.refuses(&["build", "--out-dir", "out"], 2, &["two.mlir", "two.rs"]);
}

#[test]
fn a_file_in_the_place_of_a_shard_is_moved_away() {
    let scene = Scene::replayed();
    let kernel = scene.kernel("vecadd.mlir");
    let good = scene.compile(&kernel).paths();
    for path in &good {
        let shard = path.parent().unwrap().parent().unwrap();
        fs::remove_dir_all(shard).unwrap();
        fs::write(shard, "x").unwrap();
        assert_eq!(scene.compile(&kernel).paths(), good);
        assert!(scene.compile(&kernel).stderr().contains("hit: vecadd"));
    }
}
