//! Every level for every target, runtime, format and dialect: built and then hit, or refused with
//! the reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use npu_formats::Arch;

use crate::common::Outcome;
use crate::judge::{self, Expected};
use crate::kernels;
use crate::scene::{AIECC, AIRCC, Built, LOWER, NOTHING, PACK, Runs, Scene};

/// A target: its name, what else names a part of it, its architecture and columns.
struct Target {
    name: &'static str,
    part: &'static str,
    arch: Arch,
    columns: u32,
}

const TARGETS: [Target; 3] = [
    Target {
        name: "npu1",
        part: "npu1",
        arch: Arch::Aie2,
        columns: 4,
    },
    Target {
        name: "npu2",
        part: "npu2",
        arch: Arch::Aie2p,
        columns: 8,
    },
    Target {
        name: "npu2",
        part: "npu2_4col",
        arch: Arch::Aie2p,
        columns: 4,
    },
];

/// The kernels in the order of the project file, and the steps in which the toolchain takes them to
/// an artifact.
const KERNELS: [(&str, &str, [Runs; 2]); 4] = [
    ("gridded.mlir", "main:twice", [LOWER, AIRCC]),
    ("gridless.mlir", "main:whole", [LOWER, AIRCC]),
    ("air.mlir", "main:launched", [NOTHING, AIRCC]),
    ("aie.mlir", "main:sequence", [NOTHING, AIECC]),
];

/// What a format is in the end for the kernel in a file, or why it is refused. The aircc of the first
/// dialect makes no PDI.
fn settled(
    dialect: u8,
    target: &Target,
    runtime: &str,
    format: &'static str,
    file: &str,
) -> Result<&'static str, &'static str> {
    match (target.arch, runtime, format) {
        (_, "xrt", "pdi") if dialect == 1 && file != "aie.mlir" => Err(
            "aircc has no --output-format pdi: use --format xclbin, or install a newer mlir-air",
        ),
        (_, "hsa", "pdi") => Err("an hsaco is packed from a full ELF or an xclbin"),
        (Arch::Aie2, _, "elf") => Err("there is no full ELF for npu1: use --format xclbin"),
        (Arch::Aie2, _, "auto") => Ok("xclbin"),
        (_, _, "auto") => Ok("elf"),
        (.., format) => Ok(format),
    }
}

/// A project with a kernel of each level.
fn project(scene: &Scene, target: &Target) -> PathBuf {
    let directory = scene.path().join(target.part);
    let file = |name: &str, text: String| scene.file(&format!("{}/{name}", target.part), text);
    file("gridded.mlir", kernels::gridded());
    file("gridless.mlir", kernels::gridless());
    file("air.mlir", kernels::air());
    file("aie.mlir", kernels::aie(target.part));
    let device = match target.part == target.name {
        true => String::new(),
        false => format!("options = {{ device = {:?} }}\n", target.part),
    };
    file(
        "npu-build.toml",
        format!(
            "[build]\ntarget = {:?}\ntransform = {:?}\n\
             [[kernel]]\npath = \"gridded.mlir\"\ngrid = [4]\n{device}\
             [[kernel]]\npath = \"gridless.mlir\"\n{device}\
             [[kernel]]\npath = \"air.mlir\"\n{device}\
             [[kernel]]\npath = \"aie.mlir\"\n",
            target.name,
            scene.tools.transform()
        ),
    );
    directory
}

fn build(scene: &Scene, project: &Path, runtime: &str, format: &str) -> (i32, Vec<Built>) {
    let mut command: Command = scene.npu_build();
    command
        .current_dir(project)
        .env("NPU_BUILD_RUNTIME", runtime)
        .env("NPU_BUILD_FORMAT", format)
        .args(["--message-format", "json", "build", "-j", "2"]);
    let told = Outcome(command.output().unwrap());
    (told.code(), Built::read(&told))
}

/// Carries out the whole matrix with one dialect of aiecc.
fn matrix(dialect: u8) {
    let scene = Scene::with_dialect(dialect);
    let (mut hsacos, mut elfs) = (BTreeSet::new(), BTreeSet::new());
    // What has been made already: which kernel was lowered, compiled, packed. Lowering is the same
    // for all targets.
    let mut made = BTreeSet::new();
    for target in &TARGETS {
        let project = project(&scene, target);
        for (runtime, format) in ["xrt", "hsa"]
            .into_iter()
            .flat_map(|runtime| ["auto", "xclbin", "elf", "pdi"].map(|format| (runtime, format)))
        {
            let case = format!("{dialect} {} {runtime} {format}", target.part);
            let (code, builds) = build(&scene, &project, runtime, format);
            let settled = KERNELS.map(|(file, ..)| settled(dialect, target, runtime, format, file));
            let is_refused = settled.iter().any(Result::is_err);
            assert_eq!(code, if is_refused { 2 } else { 0 }, "{case}: {builds:?}");
            assert_eq!(builds.len(), KERNELS.len(), "{case}: {builds:?}");
            let mut expected = NOTHING;
            for ((built, settled), kernel) in builds.iter().zip(settled).zip(KERNELS) {
                let (file, name, [lower, compile]) = kernel;
                let format = match settled {
                    Ok(format) => format,
                    Err(reason) => {
                        let error = built.error().unwrap();
                        assert!(error.contains(reason), "{case}: {error}");
                        continue;
                    }
                };
                let mut run = |step: &str, format: &str, tools: Runs| {
                    let part = if step == "lower" { "" } else { target.part };
                    if made.insert(format!("{step} {file} {part} {format}")) {
                        expected = expected + tools;
                    }
                };
                run("lower", "", lower);
                run("compile", format, compile);
                if runtime == "hsa" {
                    // A full ELF of aircc's has a kernel that aie-hsaco would not leave out.
                    let is_builtin = format == "elf" && compile == AIRCC;
                    run("pack", format, if is_builtin { NOTHING } else { PACK });
                    hsacos.extend(built.artifacts(0));
                } else if format == "elf" {
                    elfs.extend(built.artifacts(0));
                }
                let expected = Expected {
                    arch: target.arch,
                    format,
                    hsa: runtime == "hsa",
                    columns: target.columns,
                    name,
                    doubles: true,
                };
                judge::check(built, 0, expected);
            }
            assert_eq!(scene.ran(), expected, "{case}");
            let (_, again) = build(&scene, &project, runtime, format);
            let built = builds.iter().filter(|built| built.error().is_none());
            let again = again.iter().filter(|built| built.error().is_none());
            for (hit, built) in again.zip(built) {
                assert_eq!(hit.outcome(), "hit", "{case}");
                assert_eq!(hit.artifacts(0), built.artifacts(0), "{case}");
            }
            assert_eq!(scene.ran(), NOTHING, "{case}");
        }
    }
    others_agree(&scene, hsacos, elfs);
}

/// What readers say that have nothing to do with npu-build.
fn others_agree(scene: &Scene, hsacos: BTreeSet<PathBuf>, elfs: BTreeSet<PathBuf>) {
    // Two formats a kernel and part of npu2, one for npu1.
    assert_eq!((hsacos.len(), elfs.len()), (20, 8));
    let hsacos: Vec<_> = hsacos.into_iter().collect();
    let said = judge::llvm_readelf(&hsacos);
    let count = |said: &str, what: &str| said.matches(what).count();
    assert_eq!(
        count(&said, "Machine:                           EM_AMDGPU"),
        20
    );
    assert_eq!(count(&said, "Class:                             ELF64"), 20);
    assert_eq!((count(&said, "] aie2 "), count(&said, "] aie2p ")), (4, 16));
    let elfs: Vec<_> = elfs.into_iter().collect();
    let said = judge::llvm_readelf(&elfs);
    assert_eq!(count(&said, "Class:                             ELF32"), 8);
    assert_eq!(count(&said, "] .note.xrt.configuration NOTE"), 8);
    // Three of each part of npu2 are aircc's, in which one kernel runs another.
    assert_eq!(count(&said, "] .ctrltext"), 2 * (3 * 2 + 1));
    for hsaco in hsacos {
        let said = judge::hsaco_dump(scene, &hsaco);
        assert_eq!(said.matches("  kernel main:").count(), 1, "{said}");
    }
}

#[test]
fn with_an_aiecc_before_1_4_0() {
    matrix(1);
}

#[test]
fn with_an_aiecc_of_1_4_0() {
    matrix(2);
}

#[test]
fn with_an_aiecc_since_august_2026() {
    matrix(3);
}

/// aircc ends well without a herd, and leaves an artifact of nothing.
#[test]
fn a_kernel_without_a_herd_is_refused_before_aircc() {
    let scene = Scene::new();
    scene.file("gridless.mlir", kernels::gridless());
    scene.refuses(
        "gridless.mlir --target npu2",
        1,
        &[
            "gridless.mlir: the tools reported success",
            "kernel.air.mlir is unusable: it has no herd",
            "none was given: use --transform",
        ],
    );
    // One pipeline is enough where there is nothing in between.
    let once = Runs {
        air_opt: 1,
        ..NOTHING
    };
    assert_eq!(scene.ran(), once);
    let script = fs::read_to_string(scene.tools.transform()).unwrap();
    let herdless = script.lines().filter(|line| !line.contains("par_to_herd"));
    scene.file("tile.mlir", herdless.collect::<Vec<_>>().join("\n"));
    scene.refuses(
        "gridless.mlir --target npu2 --transform tile.mlir",
        1,
        &["it has no herd: the transform script must make one"],
    );
    scene.ran();
    let design = |name: &str| {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/aie/air");
        scene.file(name, fs::read(data.join(name)).unwrap());
    };
    design("no_herd.mlir");
    let words = ["no_herd.mlir: the kernel has no air.herd"];
    scene.refuses("no_herd.mlir --target npu1", 2, &words);
    assert_eq!(scene.ran(), NOTHING);
    design("l3_access.mlir");
    scene.refuses(
        "l3_access.mlir --target npu1",
        1,
        &[
            "a core reaches its own memory (L1) alone",
            "transform.air.linalg_promote",
            "accesses memref with memory_space L3",
        ],
    );
}
