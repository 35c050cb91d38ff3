//! `npu-build compile --out-dir`: files that a crate includes, and that may be checked in.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use crate::common::{Outcome, Scene, example};
use crate::package::{Package, host_program, shift_by};

fn compile(scene: &Scene, kernel: &Path, out_dir: &Path) -> Outcome {
    scene.run(&[
        "compile",
        kernel.to_str().unwrap(),
        "--target",
        "cpu",
        "--out-dir",
        out_dir.to_str().unwrap(),
    ])
}

/// The files of a directory by name: content and time of the last change.
fn files(directory: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let changed = entry.metadata().unwrap().modified().unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, (fs::read(entry.path()).unwrap(), changed))
        })
        .collect()
}

#[test]
fn the_launcher_is_named_like_the_kernel_and_the_artifact_by_its_content() {
    let scene = Scene::new();
    let kernel = scene.file("my-shift.mlir", shift_by(10));
    let out_dir = scene.path().join("some/new/directory");
    let paths = compile(&scene, &kernel, &out_dir).paths();
    let files = files(&out_dir);
    let names: Vec<_> = files.keys().map(String::as_str).collect();
    let [launcher, object] = names.as_slice() else {
        panic!("{names:?}");
    };
    assert_eq!(*launcher, "my-shift.rs");
    let digest = object
        .strip_prefix("shift-")
        .and_then(|name| name.strip_suffix(".so"));
    assert_eq!(digest.map(str::len), Some(16), "{object}");
    let mut printed: Vec<_> = paths.iter().map(|path| path.file_name().unwrap()).collect();
    printed.sort();
    assert_eq!(printed, names);
    let (text, _) = &files["my-shift.rs"];
    let text = String::from_utf8(text.clone()).unwrap();
    let place = scene.path().to_str().unwrap();
    assert!(!text.contains(place), "it contains a path of this machine");
}

#[test]
fn files_that_are_right_are_left_alone_and_a_changed_kernel_replaces_them() {
    let scene = Scene::new();
    let kernel = scene.file("shift.mlir", shift_by(10));
    let out_dir = scene.path().join("generated");
    compile(&scene, &kernel, &out_dir).paths();
    let first = files(&out_dir);
    compile(&scene, &kernel, &out_dir).paths();
    assert_eq!(files(&out_dir), first);
    // Only what is wrong is written again.
    fs::write(out_dir.join("shift.rs"), "edited").unwrap();
    compile(&scene, &kernel, &out_dir).paths();
    let repaired = files(&out_dir);
    assert_eq!(repaired["shift.rs"].0, first["shift.rs"].0);
    let object = first.keys().find(|name| name.ends_with(".so")).unwrap();
    assert_eq!(repaired[object], first[object]);

    scene.file("shift.mlir", shift_by(11));
    compile(&scene, &kernel, &out_dir).paths();
    let changed = files(&out_dir);
    assert_ne!(changed["shift.rs"].0, first["shift.rs"].0);
    // The launcher names the new artifact, which has another name than the old one.
    let text = String::from_utf8(changed["shift.rs"].0.clone()).unwrap();
    let new = changed
        .keys()
        .find(|name| name.ends_with(".so") && *name != object)
        .unwrap();
    assert!(text.contains(new.as_str()) && !text.contains(object.as_str()));
}

#[test]
fn two_directories_and_two_caches_get_the_same_bytes() {
    let scene = Scene::new();
    let [one, other] = ["one", "other"].map(|place| {
        let place = scene.path().join(place);
        fs::create_dir(&place).unwrap();
        fs::write(place.join("shift.mlir"), shift_by(10)).unwrap();
        let mut command = scene.npu_build();
        command
            .args([
                "compile",
                "shift.mlir",
                "--target",
                "cpu",
                "--out-dir",
                "generated",
            ])
            .env("NPU_BUILD_CACHE_DIR", place.join("cache"))
            .current_dir(&place);
        Outcome(command.output().unwrap()).paths();
        let files = files(&place.join("generated")).into_iter();
        files
            .map(|(name, (bytes, _))| (name, bytes))
            .collect::<BTreeMap<_, _>>()
    });
    assert!(one.keys().eq(other.keys()));
    for (name, bytes) in one {
        assert!(bytes == other[&name], "{name} differs");
    }
    // Each was compiled: the second is no hit.
    assert_eq!(scene.runs().len(), 6);
}

/// The crate that includes them needs neither npu-build nor its cache.
#[test]
fn generated_files_that_are_checked_in_elsewhere_still_work() {
    let scene = Scene::new();
    let kernel = scene.file("shift.mlir", shift_by(10));
    let out_dir = scene.path().join("generated");
    compile(&scene, &kernel, &out_dir).paths();
    let package = Package::empty("way-in-checked-in");
    for (name, (bytes, _)) in files(&out_dir) {
        package.write(&format!("src/launchers/{name}"), bytes);
    }
    package.write("src/main.rs", host_program("\"launchers/shift.rs\""));
    drop(scene);
    assert_eq!(package.build().result(&package), "[11, 12, 13]\n");
}

/// examples/out-dir as its comments have it: generate, then `cargo run`.
#[test]
fn the_example_builds_and_runs() {
    let scene = Scene::new();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = checkout.join("examples/out-dir");
    let package = Package::empty("npu-build-example-out-dir");
    let manifest = fs::read_to_string(source.join("Cargo.toml")).unwrap();
    let runtime = checkout.join("crates/npu-runtime");
    let manifest = manifest.replace("../../crates/npu-runtime", runtime.to_str().unwrap());
    package.write("Cargo.toml", manifest);
    for (from, to) in [
        (source.join("src/main.rs"), "src/main.rs"),
        (source.join("generate.sh"), "generate.sh"),
        (example("vecadd.mlir"), "../kernels/vecadd.mlir"),
    ] {
        package.write(to, fs::read(from).unwrap());
    }
    let ours = scene.npu_build();
    let environment = ours
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    let generated = Command::new("bash")
        .arg(package.path().join("generate.sh"))
        .envs(environment)
        .env("NPU_BUILD", env!("CARGO_BIN_EXE_npu-build"))
        .output();
    let generated = Outcome(generated.unwrap());
    assert_eq!(generated.code(), 0, "{}", generated.stderr());
    let ran = Outcome(package.cargo("run").output().unwrap());
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let said = ran.stdout();
    assert!(said.contains("3000 sums are right"), "{said}");
}
