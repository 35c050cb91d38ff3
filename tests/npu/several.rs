//! Files with several devices and sequences: each pair is a kernel, all of them are built at once.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use npu_formats::Arch;

use crate::judge::{self, Expected};
use crate::kernels;
use crate::scene::{AIECC, Built, NOTHING, PACK, Scene};

const ALL: [&str; 3] = ["first:a", "first:b", "second:a"];

fn scene(dialect: u8) -> Scene {
    let scene = Scene::with_dialect(dialect);
    let text = kernels::module(&[
        kernels::copy_device("npu2", "first", &[("a", 256), ("b", 512)]),
        kernels::copy_device("npu2_4col", "second", &[("a", 1024)]),
    ]);
    scene.file("k.mlir", text);
    // The same widths, for what has one partition.
    let text = kernels::module(&[
        kernels::copy_device("npu2", "first", &[("a", 256), ("b", 512)]),
        kernels::copy_device("npu2", "second", &[("a", 1024)]),
    ]);
    scene.file("equal.mlir", text);
    scene
}

#[track_caller]
fn check(built: &Built, names: &[&'static str], format: &'static str, hsa: bool, wide: bool) {
    assert_eq!(built.names(), names);
    for (number, name) in names.iter().enumerate() {
        let expected = Expected {
            arch: Arch::Aie2p,
            format,
            hsa,
            columns: if wide || name.starts_with("first") {
                8
            } else {
                4
            },
            name,
            doubles: false,
        };
        judge::check(built, number, expected);
    }
}

#[test]
fn all_are_kernels_of_the_result_in_every_format() {
    for dialect in [1, 2, 3] {
        let scene = scene(dialect);
        for (format, runtime) in [
            ("xclbin", "xrt"),
            ("pdi", "xrt"),
            ("elf", "xrt"),
            ("elf", "hsa"),
            ("xclbin", "hsa"),
        ] {
            // A full ELF has one partition, whose width is its devices'.
            let file = if format == "elf" {
                "equal.mlir"
            } else {
                "k.mlir"
            };
            let arguments = format!("{file} --format {format} --runtime {runtime}");
            let built = scene.compile(&arguments);
            check(&built, &ALL, format, runtime == "hsa", format == "elf");
            let hit = scene.compile(&arguments);
            assert_eq!(
                (hit.outcome(), hit.0["kernels"].clone()),
                ("hit", built.0["kernels"].clone())
            );
            if runtime == "hsa" {
                let files: BTreeSet<_> =
                    (0..3).flat_map(|number| built.artifacts(number)).collect();
                assert_eq!(files.len(), 1, "one hsaco for all");
            }
        }
        // Each format was compiled once, in one run for all devices and sequences.
        let runs = scene.ran();
        assert_eq!((runs.aiecc, runs.aie_hsaco), (3, 2), "dialect {dialect}");
    }
}

#[test]
fn some_of_them_are_chosen_by_device_sequence_or_both() {
    for dialect in [1, 3] {
        let scene = scene(dialect);
        // The last two say the same as those before them.
        for (entry, names, [compiles, packs]) in [
            ("first", &ALL[..2], [AIECC, PACK]),
            ("second", &ALL[2..], [AIECC, PACK]),
            ("b", &ALL[1..2], [AIECC, PACK]),
            ("second:a", &ALL[2..], [NOTHING; 2]),
            ("first:b", &ALL[1..2], [NOTHING; 2]),
        ] {
            for format in ["xclbin", "pdi", "elf"] {
                let built = scene.compile(&format!("equal.mlir --entry {entry} --format {format}"));
                check(&built, names, format, false, true);
                assert_eq!(scene.ran(), compiles, "{entry} {format}");
            }
            let built = scene.compile(&format!(
                "equal.mlir --entry {entry} --format xclbin --runtime hsa"
            ));
            check(&built, names, "xclbin", true, true);
            assert_eq!(scene.ran(), packs, "{entry}");
        }
        let built = scene.compile("equal.mlir --entry a --format xclbin");
        check(&built, &["first:a", "second:a"], "xclbin", false, true);
        // Another way to say all of them.
        scene.compile("k.mlir --entry second --format xclbin");
    }
    let scene = scene(3);
    scene.refuses(
        "k.mlir --entry third",
        2,
        &["k.mlir: ", "third", "first:a, first:b, second:a"],
    );
    scene.refuses("k.mlir --entry first:c", 2, &["k.mlir: ", "did you mean"]);
    assert_eq!(scene.ran(), NOTHING);
}

/// What stands in --out-dir is what the launcher embeds.
#[test]
fn the_files_beside_a_launcher_are_those_that_it_names() {
    for (format, runtime, files) in [
        ("xclbin", "xrt", 5),
        ("elf", "xrt", 1),
        ("elf", "hsa", 1),
        ("xclbin", "hsa", 1),
        // Files of one content are one file: both devices are configured alike.
        ("pdi", "xrt", 4),
    ] {
        let scene = scene(3);
        let arguments = format!("equal.mlir --format {format} --runtime {runtime} --out-dir out");
        let built = scene.compile(&arguments);
        let written = fs::read_dir(scene.path().join("out")).unwrap().flatten();
        let names: BTreeSet<String> = written
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        let launchers = usize::from(format != "pdi");
        assert_eq!(names.len(), files + launchers, "{arguments}: {names:?}");
        let listed = built.0["written"].as_array().unwrap().iter();
        let listed: BTreeSet<String> = listed
            .map(|path| {
                Path::new(path.as_str().unwrap())
                    .file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        assert_eq!(names, listed);
        if format == "pdi" {
            // Nothing loads it, so there is nothing to call.
            assert!(built.0["launcher"].is_null());
            continue;
        }
        let launcher = fs::read_to_string(scene.path().join("out/equal.rs")).unwrap();
        assert_eq!(launcher, built.launcher());
        for name in names.iter().filter(|name| *name != "equal.rs") {
            assert!(
                launcher.contains(&format!("{name:?}")),
                "{name} is not in:\n{launcher}"
            );
        }
        for module in ["first_a", "first_b", "second_a"] {
            assert!(
                launcher.contains(&format!("pub mod {module}")),
                "{launcher}"
            );
        }
        // Nothing is written again for its own sake.
        let before = fs::metadata(scene.path().join("out/equal.rs"))
            .unwrap()
            .modified()
            .unwrap();
        scene.compile(&arguments);
        let after = fs::metadata(scene.path().join("out/equal.rs"))
            .unwrap()
            .modified()
            .unwrap();
        assert_eq!(before, after);
    }
}

#[test]
fn devices_and_sequences_without_names_have_those_of_the_tools() {
    for dialect in [1, 3] {
        let scene = Scene::with_dialect(dialect);
        let text = kernels::aie("npu2")
            .replace(" @main {\n", " {\n")
            .replace("@sequence(", "(");
        scene.file("k.mlir", text);
        for (format, runtime) in [("elf", "xrt"), ("xclbin", "hsa")] {
            let built = scene.compile(&format!("k.mlir --format {format} --runtime {runtime}"));
            assert_eq!(built.names(), ["main:sequence"]);
        }
    }
}

#[test]
fn names_that_can_not_be_files_are_refused_where_they_would_be() {
    let scene = Scene::new();
    let text = kernels::module(&[
        kernels::copy_device("npu2", "\"../first\"", &[("a", 256)]),
        kernels::copy_device("npu2", "second", &[("a", 1024)]),
    ]);
    scene.file("k.mlir", text);
    scene.refuses(
        "k.mlir --format xclbin",
        2,
        &[
            "the file has several kernels",
            "'../first' can't be part of a file's name",
            "--entry",
        ],
    );
    let text = kernels::module(&[
        kernels::copy_device("npu2", "one_a", &[("b", 256)]),
        kernels::copy_device("npu2", "one", &[("a_b", 1024)]),
    ]);
    scene.file("k.mlir", text);
    scene.refuses(
        "k.mlir --format xclbin",
        2,
        &["'one_a:b' and 'one:a_b' would be compiled to one file"],
    );
    assert_eq!(scene.ran(), NOTHING);
}

#[test]
fn intermediates_are_kept_where_they_are_asked_for() {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::gridless());
    let arguments = "k.mlir --target npu2 --transform root/transform.mlir --out-dir out";
    scene.compile(arguments);
    assert_eq!(fs::read_dir(scene.path().join("out")).unwrap().count(), 2);
    scene.ran();
    scene.compile(&format!("{arguments} --keep-intermediates"));
    let written = fs::read_dir(scene.path().join("out")).unwrap().flatten();
    let names = written.map(|entry| entry.file_name().into_string().unwrap());
    let mut kept: Vec<_> = names
        .filter_map(|name| Some(name.split_once('.')?.1.to_owned()))
        .filter(|extension| extension.ends_with("mlir"))
        .collect();
    kept.sort();
    assert_eq!(kept, ["aie.mlir", "air.mlir", "npu.mlir", "placed.mlir"]);
}

/// Two kernels whose modules would have one name can't be in one launcher, which is known before
/// anything is compiled.
#[test]
fn names_that_a_launcher_can_not_tell_apart() {
    let scene = Scene::new();
    let text = kernels::module(&[
        kernels::copy_device("npu2", "a_b", &[("c", 256)]),
        kernels::copy_device("npu2", "a", &[("b_c", 256)]),
    ]);
    scene.file("k.mlir", text);
    let words = ["a_b:c", "a:b_c", "module"];
    scene.refuses("k.mlir", 2, &words);
    scene.refuses("k.mlir --runtime hsa", 2, &words);
    assert_eq!(scene.ran(), NOTHING);
    assert_eq!(scene.compile("k.mlir --entry a_b:c").outcome(), "built");
}
