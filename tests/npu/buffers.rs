//! How many buffers a kernel can have: it depends on what configures the array, and on aiecc.

use std::fmt::Write as _;

use crate::scene::{AIECC, NOTHING, PACK, Scene};

/// A kernel that passes `count` buffers through the array, one after the other, as in
/// `tests/data/aie/six_buffers`.
fn kernel(part: &str, count: usize) -> String {
    let of = "memref<256xi32>";
    let arguments: Vec<_> = (0..count).map(|n| format!("%a{n} : {of}")).collect();
    let mut text = format!(
        "module {{
  aie.device({part}) @many {{
    %shim = aie.tile(0, 0)
    %mem = aie.tile(0, 1)
    aie.objectfifo @of_in(%shim, {{%mem}}, 2 : i32) : !aie.objectfifo<{of}>
    aie.objectfifo @of_out(%mem, {{%shim}}, 2 : i32) : !aie.objectfifo<{of}>
    aie.objectfifo.link [@of_in] -> [@of_out]([] [])
    aie.runtime_sequence @s({}) {{
      aiex.npu.load_pdi {{ device_ref = @many }}
",
        arguments.join(", ")
    );
    for number in 0..count {
        let fifo = ["@of_in", "@of_out"][number % 2];
        let _ = write!(
            text,
            "      %t{number} = aiex.dma_configure_task_for {fifo} {{
        aie.dma_bd(%a{number} : {of}, 0, 256)
        aie.end
      }} {{issue_token = true}}
      aiex.dma_start_task(%t{number})
      aiex.dma_await_task(%t{number})
"
        );
    }
    text + "    }\n  }\n}\n"
}

/// Builds all, and says which are built and why others are not.
#[track_caller]
fn expect(dialect: u8, part: &str, cases: &[(usize, &str, &str, &[&str])]) {
    let scene = Scene::with_dialect(dialect);
    for (count, runtime, format, refusal) in cases {
        scene.file("k.mlir", kernel(part, *count));
        let arguments = format!("k.mlir --runtime {runtime} --format {format}");
        if refusal.is_empty() {
            scene.compile(&arguments);
            continue;
        }
        let told = scene.run(&format!("compile {arguments}"));
        told.fails(2, &[&format!("k.mlir: 'many:s' takes {count} buffers")]);
        told.fails(2, refusal);
        assert_eq!(told.stdout(), "");
    }
}

const DECLARES_FIVE: &[&str] = &[
    "the xclbin that aiecc made declares 5",
    "use --format elf, combine some of them, or install an mlir-aie of July 2026",
];
const TRANSLATES_FIVE: &[&str] = &[
    "firmware translates the addresses of the first 5",
    "use --format elf, combine some of them, or install an mlir-aie of July 2026",
];

/// What it makes of six is in `tests/data/aie/six_buffers`, and XRT refuses the sixth.
#[test]
fn with_an_aiecc_before_1_4_0() {
    let cases: [(_, _, _, &[&str]); 8] = [
        (5, "xrt", "xclbin", &[]),
        (5, "hsa", "xclbin", &[]),
        (6, "xrt", "xclbin", DECLARES_FIVE),
        (6, "hsa", "xclbin", TRANSLATES_FIVE),
        (6, "xrt", "elf", &[]),
        (6, "hsa", "elf", &[]),
        (17, "xrt", "elf", &[]),
        (17, "hsa", "elf", &[]),
    ];
    expect(1, "npu2", &cases);
    let words: &[&str] = &[
        "the xclbin that aiecc made declares 5",
        "launch; combine some",
    ];
    expect(
        1,
        "npu1",
        &[(6, "xrt", "auto", words), (5, "xrt", "auto", &[])],
    );
    let words: &[&str] = &["the first 5", "to it, too; combine some"];
    expect(
        1,
        "npu1",
        &[(6, "hsa", "auto", words), (5, "hsa", "auto", &[])],
    );
}

#[test]
fn with_later_ones() {
    for dialect in [2, 3] {
        let cases: [(_, _, _, &[&str]); 4] = [
            (6, "xrt", "xclbin", &[]),
            (6, "hsa", "xclbin", &[]),
            (16, "xrt", "xclbin", &[]),
            (16, "hsa", "elf", &[]),
        ];
        expect(dialect, "npu2", &cases);
        // That is their own limit.
        let scene = Scene::with_dialect(dialect);
        scene.file("k.mlir", kernel("npu2", 17));
        let words = ["aiecc failed", "device 'many' has 17 host buffer arguments"];
        scene.refuses("k.mlir", 1, &words);
    }
}

/// What was compiled is right, and serves others: it is only not launched.
#[test]
fn the_refusal_does_not_depend_on_who_compiled() {
    let scene = Scene::with_dialect(1);
    let text = kernel("npu2", 6);
    // Nobody touches the sixth, so that its address does not matter.
    let unused = text.replace("aie.dma_bd(%a5", "aie.dma_bd(%a3");
    scene.file("k.mlir", unused);
    scene.compile("k.mlir --format xclbin --runtime hsa");
    assert_eq!(scene.ran(), AIECC + PACK);
    for _ in 0..2 {
        let told = scene.run("compile k.mlir --format xclbin --runtime xrt");
        told.fails(2, DECLARES_FIVE);
        assert_eq!(scene.ran(), NOTHING);
    }
    scene.compile("k.mlir --format xclbin --runtime hsa");
    assert_eq!(scene.ran(), NOTHING);
}
