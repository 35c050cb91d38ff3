//! Whatever happens to the files of an entry: the next build is right again, and runs only the steps
//! that were hurt.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use npu_formats::Arch;

use crate::judge::{self, Expected};
use crate::kernels;
use crate::scene::{AIECC, AIRCC, Built, LOWER, NOTHING, PACK, Runs, Scene};

/// What can happen to a file.
type Damage = (&'static str, fn(&Path));

const DAMAGES: [Damage; 3] = [
    ("removed", |path| fs::remove_file(path).unwrap()),
    ("truncated", |path| {
        rewrite(path, |bytes| bytes.truncate(bytes.len() / 2))
    }),
    ("flipped", |path| {
        rewrite(path, |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        })
    }),
];

fn rewrite(path: &Path, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, bytes).unwrap();
}

/// All choices of some of these files; not the one of none.
fn subsets(files: &[PathBuf]) -> impl Iterator<Item = Vec<&Path>> {
    (1..1u32 << files.len()).map(|bits| {
        let chosen = files.iter().enumerate();
        let chosen = chosen.filter(|(index, _)| bits & 1 << index != 0);
        chosen.map(|(_, path)| path.as_path()).collect()
    })
}

/// The files of the only entry of a step.
fn files_of(scene: &Scene, step: &str) -> Vec<PathBuf> {
    let entries = scene.entries_of(&[step]);
    assert_eq!(entries.len(), 1, "{step}: {entries:?}");
    let files = fs::read_dir(&entries[0]).unwrap().flatten();
    let mut files: Vec<_> = files.map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// Damages every subset of a step's files in every way, and expects the build to be right again
/// with these runs of tools.
#[track_caller]
fn repairs(scene: &Scene, arguments: &str, step: &str, runs: Runs, check: &dyn Fn(&Built)) {
    check(&scene.compile(arguments));
    scene.ran();
    let files = files_of(scene, step);
    for chosen in subsets(&files) {
        for (what, damage) in DAMAGES {
            chosen.iter().for_each(|path| damage(path));
            let case = format!("{arguments}: {chosen:?} {what}");
            let built = scene.compile(arguments);
            check(&built);
            assert_eq!(scene.ran(), runs, "{case}: {}", built.steps());
            // A directory without a manifest is no entry.
            let has_manifest = chosen.iter().any(|path| path.ends_with("manifest.json"));
            let outcome = match what == "removed" && has_manifest {
                true => "built",
                false => "repaired",
            };
            assert_eq!(built.outcome(), outcome, "{case}: {}", built.steps());
            let words = format!("{step} {outcome}");
            assert!(built.steps().contains(&words), "{case}");
            // The next one is a hit, and of the same files.
            let hit = scene.compile(arguments);
            assert_eq!((hit.outcome(), scene.ran()), ("hit", NOTHING), "{case}");
            assert_eq!(hit.artifacts(0), built.artifacts(0), "{case}");
        }
    }
}

fn check(format: &'static str, hsa: bool, name: &'static str) -> impl Fn(&Built) {
    move |built| {
        let expected = Expected {
            arch: Arch::Aie2p,
            format,
            hsa,
            columns: 8,
            name,
            doubles: true,
        };
        judge::check(built, 0, expected);
    }
}

fn aie_scene() -> Scene {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::aie("npu2"));
    scene
}

#[test]
fn of_an_xclbin_and_its_instructions() {
    let scene = aie_scene();
    let check = check("xclbin", false, "main:sequence");
    repairs(&scene, "k.mlir --format xclbin", "compile", AIECC, &check);
}

#[test]
fn of_a_full_elf() {
    let scene = aie_scene();
    let check = check("elf", false, "main:sequence");
    repairs(&scene, "k.mlir --format elf", "compile", AIECC, &check);
}

#[test]
fn of_a_pdi_and_its_instructions() {
    let scene = aie_scene();
    let check = check("pdi", false, "main:sequence");
    repairs(&scene, "k.mlir --format pdi", "compile", AIECC, &check);
}

#[test]
fn a_hurt_hsaco_is_packed_again_and_nothing_is_compiled() {
    for format in ["elf", "xclbin"] {
        let scene = aie_scene();
        let check = check(format, true, "main:sequence");
        let arguments = format!("k.mlir --runtime hsa --format {format}");
        repairs(&scene, &arguments, "pack", PACK, &check);
        // The built-in packer, too.
        let scene = aie_scene();
        let arguments = format!("{arguments} --hsaco-packer builtin");
        repairs(&scene, &arguments, "pack", NOTHING, &check);
    }
}

#[test]
fn what_was_lowered_is_lowered_again_and_not_compiled() {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::gridless());
    let arguments = "k.mlir --target npu2 --transform root/transform.mlir";
    let check = check("elf", false, "main:whole");
    // The AIR is what it was, so what was made of it is still right.
    repairs(&scene, arguments, "lower", LOWER, &check);
    assert_eq!(
        scene.compile(&format!("{arguments} --refresh")).outcome(),
        "built"
    );
    assert_eq!(scene.ran(), LOWER + AIRCC);
}

/// A full ELF is made anew byte for byte, so the hsaco that was packed of it is found; no two
/// xclbins are the same, so theirs is packed again.
#[test]
fn a_hurt_artifact_is_compiled_and_then_its_content_decides() {
    for (format, packs) in [("elf", NOTHING), ("xclbin", PACK)] {
        let scene = aie_scene();
        let arguments = format!("k.mlir --runtime hsa --format {format}");
        scene.compile(&arguments);
        scene.ran();
        let entry = files_of(&scene, "compile");
        for (what, damage) in DAMAGES {
            damage(
                entry
                    .iter()
                    .find(|path| path.ends_with(format!("kernel.{format}")))
                    .unwrap(),
            );
            let built = scene.compile(&arguments);
            check(format, true, "main:sequence")(&built);
            assert_eq!(scene.ran(), AIECC + packs, "{format} {what}");
        }
    }
}

#[test]
fn everything_hurt_at_once_is_made_again() {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::gridded());
    let arguments = "k.mlir --target npu2 --grid 4 --transform root/transform.mlir --runtime hsa";
    let good = scene.compile(arguments);
    scene.ran();
    for (what, damage) in DAMAGES {
        for entry in scene.entries_of(&["lower", "compile", "pack", "launcher"]) {
            for file in fs::read_dir(entry).unwrap().flatten() {
                damage(&file.path());
            }
        }
        let built = scene.compile(arguments);
        check("elf", true, "main:twice")(&built);
        assert_eq!(built.artifacts(0), good.artifacts(0), "{what}");
        assert_eq!(scene.ran(), LOWER + AIRCC, "{what}");
    }
}
