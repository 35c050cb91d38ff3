//! Kernels with images of every kind, alone and several at once, with files of their own and with
//! files that belong to a whole design.

use npu_build::launcher::{Compiled, Image, Kernel};
use npu_runtime::{Direction, ElementType, Parameter};

use super::{artifact, kernel, matmul, pointer, ranked, scalar, vecadd};

/// A design of several kernels, in one file of each kind.
pub const DESIGN: &str = "design";

pub fn object(name: &str) -> Image {
    Image::Object {
        object: artifact(name, "so"),
    }
}

pub fn hsaco(name: &str, kernel: &str, compiled: Compiled) -> Image {
    Image::Hsaco {
        hsaco: artifact(name, "hsaco"),
        kernel: kernel.to_owned(),
        compiled,
    }
}

pub fn full_elf(name: &str, kernel: &str, compiled: Compiled) -> Image {
    Image::FullElf {
        elf: artifact(name, "elf"),
        kernel: kernel.to_owned(),
        compiled,
    }
}

pub fn xclbin(name: &str, kernel: &str, compiled: Compiled) -> Image {
    Image::Xclbin {
        xclbin: artifact(name, "xclbin"),
        insts: artifact(name, "insts.bin"),
        kernel: kernel.to_owned(),
        compiled,
    }
}

pub fn on(target: &str) -> Compiled {
    Compiled {
        target: target.to_owned(),
        grid: None,
    }
}

pub fn over(target: &str, grid: [u32; 3]) -> Compiled {
    Compiled {
        target: target.to_owned(),
        grid: Some(grid),
    }
}

pub fn with(kernel: Kernel, images: impl Into<Vec<Image>>) -> Kernel {
    Kernel {
        images: images.into(),
        ..kernel
    }
}

/// The vector add under another name.
pub fn add(name: &str, images: impl Into<Vec<Image>>) -> Kernel {
    let parameters = vecadd().signature.parameters.into_owned();
    with(kernel(name, true, parameters), images)
}

/// A kernel of the AIE level, which has no grid.
fn sequence(name: &str, images: impl Into<Vec<Image>>) -> Kernel {
    let memory = |name, direction| ranked(name, ElementType::I32, &[Some(64)], direction);
    let parameters = vec![memory("in", Direction::In), memory("out", Direction::Out)];
    with(kernel(name, false, parameters), images)
}

/// One image each, some of whose files are those of a design.
pub fn npu() -> Vec<Kernel> {
    let grid = [8, 1, 1];
    let many: Vec<Parameter> = (0..9)
        .map(|index| pointer(&format!("x{index}"), ElementType::Bf16, Direction::InOut))
        .collect();
    let matmul = matmul();
    vec![
        add("hsa_alone", [hsaco("hsa_alone", "k", over("npu2", grid))]),
        add(
            "elf_alone",
            [full_elf("elf_alone", "k", over("npu2", grid))],
        ),
        add("xrt_alone", [xclbin("xrt_alone", "MLIR_AIE", on("npu1"))]),
        with(
            matmul.clone(),
            [hsaco(&matmul.signature.name, "main:sequence", on("npu1"))],
        ),
        // The hsaco of this one is the design's, which the others have as well.
        sequence("gen", [hsaco(DESIGN, "main:gen", on("npu2"))]),
        sequence("main:second", [hsaco(DESIGN, "main:second", on("npu2"))]),
        sequence("main:third", [hsaco(DESIGN, "main:third", on("npu2"))]),
        // A file of its own, and one that the kernel before has.
        sequence(
            "main:fourth",
            [
                full_elf("main:fourth", "main:fourth", on("npu2")),
                hsaco(DESIGN, "main:fourth", on("npu2")),
            ],
        ),
        sequence(
            "nothing to give",
            [xclbin(DESIGN, &"n".repeat(63), on("npu1"))],
        ),
        sequence(&"k".repeat(300), [full_elf(DESIGN, "main:k", on("npu2"))]),
        sequence("elf second", [full_elf(DESIGN, "main:s", on("npu2"))]),
        with(
            kernel("nothing", false, vec![]),
            [hsaco("nothing", "it's \"é\"\\\n", on("npu1"))],
        ),
        with(
            kernel("scalars only", true, vec![scalar("n", ElementType::I1)]),
            [hsaco("scalars only", "k", over("npu1", [65_535, 1, 1]))],
        ),
        with(
            kernel("fields", true, many),
            [hsaco("fields", "k", over("npu2", [10_000, 20_000, 30_000]))],
        ),
    ]
}

/// Several images each.
pub fn fat() -> Vec<Kernel> {
    let grid = [8, 1, 1];
    let everything = |name: &str| {
        vec![
            object(name),
            // One hsaco for both architectures.
            hsaco(name, "k", over("npu1", grid)),
            hsaco(name, "k", over("npu2", [4, 2, 1])),
            xclbin(name, "MLIR_AIE", over("npu1", grid)),
            full_elf(name, "main:k", over("npu2", [4, 2, 1])),
        ]
    };
    let most = [
        object("most"),
        hsaco("most", "k", over("npu1", grid)),
        hsaco(DESIGN, "k", over("npu2", grid)),
        xclbin("most", "MLIR_AIE", over("npu1", grid)),
        xclbin(DESIGN, "MLIR_AIE", over("npu2", grid)),
        full_elf("most", "main:k", over("npu2", grid)),
    ];
    let fields = (0..9)
        .map(|index| {
            ranked(
                &format!("x{index}"),
                ElementType::F32,
                &[None, None],
                Direction::In,
            )
        })
        .collect();
    vec![
        add("everywhere", everything("everywhere")),
        add(
            "cpu_and_hsa",
            [
                object("cpu_and_hsa"),
                hsaco("cpu_and_hsa", "k", over("npu2", grid)),
            ],
        ),
        add("most", most),
        // What is the second hsaco of that one.
        add(
            "of_the_design",
            [object(DESIGN), hsaco(DESIGN, "of_the_design", on("npu2"))],
        ),
        with(
            kernel("fat_fields", false, fields),
            everything("fat_fields"),
        ),
        with(
            kernel("fat_nothing", false, vec![]),
            [
                object("fat_nothing"),
                full_elf("fat_nothing", "k", on("npu2")),
            ],
        ),
    ]
}

/// No images.
pub fn stubs() -> Vec<Kernel> {
    let mut kernels = vec![vecadd(), matmul(), kernel("nothing", true, vec![])];
    kernels.extend(
        fat()
            .into_iter()
            .filter(|one| one.signature.name == "fat_fields"),
    );
    kernels.into_iter().map(|one| with(one, [])).collect()
}
