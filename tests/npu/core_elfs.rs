//! Cores whose code is an ELF that the MLIR names: it is what they run, or the build fails.

use std::fs;
use std::path::{Path, PathBuf};

use crate::kernels;
use crate::scene::{AIECC, NOTHING, Scene};

/// What a real aiecc of April 2026 was given, see the README there.
fn data(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/aie/core_elf");
    directory.join(name)
}

/// A kernel with one core that runs `elf`.
fn kernel(elf: &str) -> String {
    let text = fs::read_to_string(data("kernel.mlir")).unwrap();
    text.replace("core.elf", elf)
}

fn elf() -> Vec<u8> {
    fs::read(data("core.elf")).unwrap()
}

/// The same with another instruction.
fn other_elf() -> Vec<u8> {
    let mut bytes = elf();
    *bytes.last_mut().unwrap() ^= 1;
    bytes
}

/// The same kernel with another core that has `body`.
fn with_core(body: &str) -> String {
    let core = format!("%t = aie.tile(0, 3)\n    %c = aie.core(%t) {{ {body} }}\n    %core = ");
    kernel("core.elf").replace("%core = ", &core)
}

const CODE: &str = "%x = arith.constant 0 : index aie.end";

#[test]
fn the_elf_is_what_the_core_runs() {
    for dialect in [1, 2, 3] {
        let scene = Scene::with_dialect(dialect);
        scene.file("src/k.mlir", kernel("lib/core.elf"));
        let user = scene.file("src/lib/core.elf", elf());
        // What a search elsewhere would find.
        scene.file("core.elf", other_elf());
        scene.file("lib/core.elf", other_elf());
        let built = scene.compile("src/k.mlir --format pdi");
        assert_eq!(scene.ran(), AIECC);
        let given = &scene.tools.compilations("aiecc")[0].arguments;
        for option in ["--no-compile", "--no-link"] {
            let is_given = given.iter().any(|argument| argument == option);
            assert_eq!(is_given, dialect == 1, "{given:?}");
        }
        for tool in ["opt", "llc", "clang"] {
            assert_eq!(scene.tools.compilations(tool), [], "{tool}");
        }
        assert_eq!(fs::read(&user).unwrap(), elf());
        fs::write(&user, other_elf()).unwrap();
        let other = scene.compile("src/k.mlir --format pdi");
        assert_ne!(built.first(), other.first(), "the core runs something else");
        fs::write(&user, elf()).unwrap();
        let again = scene.compile("src/k.mlir --format pdi");
        assert_eq!(again.artifacts(0), built.artifacts(0));
    }
}

#[test]
fn an_elf_elsewhere_is_known_by_its_content() {
    for dialect in [1, 3] {
        let scene = Scene::with_dialect(dialect);
        let built = |name: &str, content: &[u8]| {
            scene.file("out/core.elf", content);
            scene.file("src/k.mlir", kernel(name));
            scene.compile("src/k.mlir --format pdi").first()
        };
        let absolute = scene.path().join("out/core.elf");
        let absolute = absolute.to_str().unwrap();
        let right = built("../out/core.elf", &elf());
        assert_ne!(built(absolute, &other_elf()), right);
        scene.ran();
        // The same content is the same kernel, whatever the MLIR calls it.
        assert_eq!(built(absolute, &elf()), right);
        assert_eq!(scene.ran(), NOTHING);
        assert_eq!(fs::read(absolute).unwrap(), elf());
    }
}

/// The first dialect of aiecc would compile over the ELF, or leave the code out.
#[test]
fn a_core_beside_one_with_code() {
    for dialect in [1, 3] {
        let scene = Scene::with_dialect(dialect);
        scene.file("core.elf", elf());
        scene.file("idle.mlir", with_core("aie.end"));
        scene.compile("idle.mlir");
        scene.ran();
        scene.file("busy.mlir", with_core(CODE));
        if dialect == 1 {
            let words = [
                "busy.mlir: line 10: this core has code, and another one names core.elf",
                "compiles all cores or none",
                "give every core an elf_file, or install mlir-aie 1.4.0",
            ];
            scene.refuses("busy.mlir", 2, &words);
            assert_eq!(scene.ran(), NOTHING);
        } else {
            scene.compile("busy.mlir");
        }
    }
}

/// A real aiecc then makes a PDI without the code, and exits with 0.
#[test]
fn cores_that_are_not_to_be_compiled() {
    let scene = Scene::with_dialect(1);
    scene.file("k.mlir", kernels::aie("npu2"));
    for option in ["--no-compile", "-no-link", "--no-compile=1"] {
        let words = ["line 7: this core has code", "it would be missing"];
        scene.refuses(&format!("k.mlir -- {option}"), 2, &words);
    }
    assert_eq!(scene.ran(), NOTHING);
    // Where there is nothing to compile they are no harm, and are passed once.
    scene.file("core.elf", elf());
    scene.file("elf.mlir", kernel("core.elf"));
    scene.compile("elf.mlir -- --no-compile");
    let given = &scene.tools.compilations("aiecc")[0].arguments;
    let given = given.iter().filter(|argument| *argument == "--no-compile");
    assert_eq!(given.count(), 1);
}

/// aie-rt loads whatever it finds at the offsets of such a file, and aiecc exits with 0.
#[test]
fn what_is_no_program_for_a_core() {
    let scene = Scene::new();
    scene.file("k.mlir", kernel("core.elf"));
    let mut object = elf();
    object[16] = 1;
    for (content, words) in [
        (
            fs::read("/proc/self/exe").unwrap(),
            "no 32-bit little-endian ELF",
        ),
        (Vec::new(), "no 32-bit little-endian ELF"),
        (object, "no linked program: its ELF type is 1"),
        (elf()[..40].to_vec(), "its header is out of bounds"),
        (
            elf()[..100].to_vec(),
            "its program header table is out of bounds",
        ),
        (elf()[..120].to_vec(), "its segment is out of bounds"),
    ] {
        scene.file("core.elf", content);
        scene.refuses(
            "k.mlir",
            2,
            &["k.mlir: the core ELF core.elf: it is", words],
        );
    }
    fs::remove_file(scene.path().join("core.elf")).unwrap();
    scene.refuses(
        "k.mlir",
        2,
        &["k.mlir: the core ELF core.elf: No such file"],
    );
    assert_eq!(scene.ran(), NOTHING);
}

/// aircc makes the cores itself.
#[test]
fn an_elf_for_a_herd() {
    let scene = Scene::new();
    let end = "memref.dealloc %outl : memref<256xf32, 2 : i32>\n        }";
    let text = kernels::air().replace(end, &format!("{end} {{elf_file = \"core.elf\"}}"));
    scene.file("k.mlir", text);
    scene.file("core.elf", elf());
    let words = [
        "names core.elf with elf_file, which is for aie.core",
        "link_with",
    ];
    scene.refuses("k.mlir --target npu2", 2, &words);
    assert_eq!(scene.ran(), NOTHING);
}
