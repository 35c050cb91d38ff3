//! What a kernel computes: the program in the stream, executed, against plain arithmetic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use aie_tools::program::{CannotRun, Element, Operand, Operation, Program, Step};
use aie_tools::stream::Stream;
use common::{Scene, copy_design, core_design};

fn bytes<T: Copy, const N: usize>(values: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|v| to(*v)).collect()
}

fn bf16(value: f32) -> [u8; 2] {
    // Exact values only.
    ((value.to_bits() >> 16) as u16).to_le_bytes()
}

/// The program of an AIE-level design, through aiecc.
fn aie_program(scene: &Scene, text: &str) -> Program {
    scene.file("k.mlir", text);
    let path = format!("--peano={}", scene.tools.peano().display());
    scene
        .run(
            "aiecc",
            &["--get-npu-insts", "--npu-insts-name=k.bin", &path, "k.mlir"],
        )
        .ok();
    Program::of_stream(&Stream::parse(&scene.read("k.bin")).unwrap()).unwrap()
}

/// The program of a linalg kernel, through air-opt, aircc and aiecc.
fn linalg_program(scene: &Scene, text: &str, grid: &str) -> Program {
    lower(scene, text, grid);
    let peano = format!("--peano={}", scene.tools.peano().display());
    scene
        .run(
            "aircc",
            &[
                "--device",
                "npu2",
                "--no-xchesscc",
                "--no-xbridge",
                "--output-format",
                "xclbin",
                "-i",
                "k.bin",
                "-o",
                "k.xclbin",
                &peano,
                "air.mlir",
            ],
        )
        .ok();
    Program::of_stream(&Stream::parse(&scene.read("k.bin")).unwrap()).unwrap()
}

fn lower(scene: &Scene, text: &str, grid: &str) {
    scene.file("k.mlir", text);
    let transform = format!(
        "--air-transform=filename={}",
        scene.tools.transform().display()
    );
    scene
        .run("air-opt", &[&transform, "k.mlir", "-o", "1.mlir"])
        .ok();
    let pipeline = format!(
        "--pass-pipeline=builtin.module(func.func(air-wrap-func-with-parallel{{loop-bounds={grid}}}),air-par-to-launch{{depth=0 has-air-segment=true}},canonicalize,cse,air-copy-to-dma)"
    );
    scene
        .run("air-opt", &[&pipeline, "1.mlir", "-o", "air.mlir"])
        .ok();
}

fn run(program: &Program, arguments: &mut [Vec<u8>], variables: &[u8]) -> Result<(), CannotRun> {
    let mut slices: Vec<&mut [u8]> = arguments.iter_mut().map(Vec::as_mut_slice).collect();
    program.run(&mut slices, variables)
}

#[test]
fn pass_through_copies() {
    let scene = Scene::new(3);
    for element in ["i8", "i16", "i32", "bf16", "f32"] {
        let program = aie_program(&scene, &copy_design("npu2", "d", "s", 64, element));
        let width = Element::from_mlir(element).unwrap().bytes();
        let source: Vec<u8> = (0..64 * width).map(|i| (i % 100) as u8).collect();
        let mut arguments = [source.clone(), vec![0; source.len()]];
        run(&program, &mut arguments, &[]).unwrap();
        assert_eq!(arguments[1], source, "{element}");
    }
}

#[test]
fn cores_add_and_multiply() {
    let scene = Scene::new(3);
    let add = aie_program(&scene, &core_design("arith.addf", "f32"));
    let x: Vec<f32> = (0..1024).map(|i| i as f32 * 0.1).collect();
    let y: Vec<f32> = (0..1024).map(|i| 7.0 - i as f32).collect();
    let mut arguments = [
        bytes(&x, f32::to_le_bytes),
        bytes(&y, f32::to_le_bytes),
        vec![0; 4096],
    ];
    run(&add, &mut arguments, &[]).unwrap();
    let sums: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
    assert_eq!(arguments[2], bytes(&sums, f32::to_le_bytes));

    let multiply = aie_program(&scene, &core_design("arith.muli", "i16"));
    let x: Vec<i16> = (0..1024).map(|i| i * 31).collect();
    let mut arguments = [
        bytes(&x, i16::to_le_bytes),
        bytes(&x, i16::to_le_bytes),
        vec![0; 2048],
    ];
    run(&multiply, &mut arguments, &[]).unwrap();
    let products: Vec<i16> = x.iter().map(|x| x.wrapping_mul(*x)).collect();
    assert_eq!(arguments[2], bytes(&products, i16::to_le_bytes));
}

#[test]
fn an_external_variable_scales() {
    let scene = Scene::new(3);
    let text = core_design("arith.muli", "i32")
        .replace(
            "module {\n",
            "module {\n  aiex.scratchpad_parameter @scale : i32\n",
        )
        .replace(
            "%y = memref.load %bm[%i] : memref<1024xi32>",
            "%y = aiex.read_scratchpad_parameter @scale : i32",
        )
        .replace(
            "      aiex.npu.dma_memcpy_nd(%x",
            "      aiex.sync_scratchpad_parameters_from_host\n      aiex.npu.dma_memcpy_nd(%x",
        );
    let program = aie_program(&scene, &text);
    let x: Vec<i32> = (0..1024).collect();
    let mut arguments = [bytes(&x, i32::to_le_bytes), vec![0; 4096], vec![0; 4096]];
    run(&program, &mut arguments, &(-3i32).to_le_bytes()).unwrap();
    let expected: Vec<i32> = x.iter().map(|x| x * -3).collect();
    assert_eq!(arguments[2], bytes(&expected, i32::to_le_bytes));
    assert!(matches!(
        run(&program, &mut arguments, &[]),
        Err(CannotRun::Missing(Operand::Variable(0)))
    ));
    // In a full ELF the memory of the variables is a symbol, patched with an address.
    scene
        .run(
            "aiecc",
            &[
                "--get-full-elf",
                "--get-scratchpad-parameters",
                &format!("--peano={}", scene.tools.peano().display()),
                "k.mlir",
            ],
        )
        .ok();
    let elf = scene.read("aie.elf");
    assert!(elf.windows(17).any(|w| w == b"\0scratch-pad-ctrl"));
    assert_eq!(scene.read("params.txt"), b"1\nscale 0 i32 core\n");
}

const TILED_ADD: &str = r#"
func.func @addk(%x: memref<*xbf16>, %y: memref<*xbf16>, %out: memref<*xbf16>,
                %nx: i32, %ny: i32, %nz: i32, %px: i32, %py: i32, %pz: i32) {
  %c256 = arith.constant 256 : i32
  %start = arith.muli %px, %c256 : i32
  %offset = arith.index_cast %start : i32 to index
  %xv = memref.reinterpret_cast %x to offset: [%offset], sizes: [256], strides: [1] : memref<*xbf16> to memref<256xbf16, strided<[1], offset: ?>>
  %xl = memref.alloc() : memref<256xbf16>
  memref.copy %xv, %xl : memref<256xbf16, strided<[1], offset: ?>> to memref<256xbf16>
  %xt = bufferization.to_tensor %xl restrict writable : memref<256xbf16> to tensor<256xbf16>
  %yv = memref.reinterpret_cast %y to offset: [%offset], sizes: [256], strides: [1] : memref<*xbf16> to memref<256xbf16, strided<[1], offset: ?>>
  %yl = memref.alloc() : memref<256xbf16>
  memref.copy %yv, %yl : memref<256xbf16, strided<[1], offset: ?>> to memref<256xbf16>
  %yt = bufferization.to_tensor %yl restrict writable : memref<256xbf16> to tensor<256xbf16>
  %empty = tensor.empty() : tensor<256xbf16>
  %sum = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%xt, %yt : tensor<256xbf16>, tensor<256xbf16>) outs(%empty : tensor<256xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %c: bf16):
    %s = BODY
    linalg.yield %s : bf16
  } -> tensor<256xbf16>
  %ov = memref.reinterpret_cast %out to offset: [%offset], sizes: [256], strides: [1] : memref<*xbf16> to memref<256xbf16, strided<[1], offset: ?>>
  bufferization.materialize_in_destination %sum in writable %ov : (tensor<256xbf16>, memref<256xbf16, strided<[1], offset: ?>>) -> ()
  return
}
"#;

#[test]
fn a_linalg_kernel_keeps_its_meaning_through_all_tools() {
    for dialect in [1, 2, 3] {
        let scene = Scene::new(dialect);
        let text = TILED_ADD.replace("BODY", "arith.addf %a, %b : bf16");
        let program = linalg_program(&scene, &text, "2,1,1");
        assert_eq!(program.elements, Some(512));
        assert_eq!(program.arguments.len(), 9, "the function's own signature");
        let x: Vec<f32> = (0..512).map(|i| (i % 64) as f32).collect();
        let mut arguments = vec![bytes(&x, bf16), bytes(&x, bf16), vec![0; 1024]];
        run(&program, &mut arguments, &[]).unwrap();
        let sums: Vec<f32> = x.iter().map(|x| x + x).collect();
        assert_eq!(arguments[2], bytes(&sums, bf16));
    }
}

#[test]
fn multiply_add_in_another_precision_is_rounded_as_written() {
    let scene = Scene::new(3);
    let body = "arith.extf %a : bf16 to f32\n    %wide = arith.extf %b : bf16 to f32\n    %f = math.fma %s, %wide, %wide : f32\n    %t = arith.truncf %f : f32 to bf16";
    let text = TILED_ADD
        .replace("BODY", body)
        .replace("linalg.yield %s", "linalg.yield %t");
    let program = linalg_program(&scene, &text, "1,1,1");
    let (x, y) = (
        vec![1.5f32; 256],
        (0..256).map(|i| (i / 2) as f32).collect::<Vec<_>>(),
    );
    let mut arguments = vec![bytes(&x, bf16), bytes(&y, bf16), vec![0; 512]];
    run(&program, &mut arguments, &[]).unwrap();
    let got: Vec<f32> = arguments[2]
        .chunks(2)
        .map(|c| f32::from_bits(u32::from(u16::from_le_bytes([c[0], c[1]])) << 16))
        .collect();
    for (index, (got, y)) in got.iter().zip(&y).enumerate() {
        // bf16 has 8 bits of precision; 2.5 * 127 needs 9: half to even.
        let exact = 1.5 * y + y;
        assert!(
            (got - exact).abs() <= exact * 0.004,
            "{index}: {got} for {exact}"
        );
    }
}

#[test]
fn matrix_products_accumulate_in_the_wide_type() {
    let text = r#"
func.func @mm(%a: memref<*xi8>, %b: memref<*xi8>, %c: memref<*xi32>,
              %nx: i32, %ny: i32, %nz: i32, %px: i32, %py: i32, %pz: i32) {
  %c8 = arith.constant 8 : i32
  %c32 = arith.constant 32 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0 : i32
  %i32v = arith.muli %px, %c8 : i32
  %i = arith.index_cast %i32v : i32 to index
  %av = memref.reinterpret_cast %a to offset: [%i], sizes: [8, 32], strides: [%c32, 1] : memref<*xi8> to memref<8x32xi8, strided<[?, 1], offset: ?>>
  %al = memref.alloc() : memref<8x32xi8>
  memref.copy %av, %al : memref<8x32xi8, strided<[?, 1], offset: ?>> to memref<8x32xi8>
  %at = bufferization.to_tensor %al restrict writable : memref<8x32xi8> to tensor<8x32xi8>
  %bv = memref.reinterpret_cast %b to offset: [%i], sizes: [32, 16], strides: [%c16, 1] : memref<*xi8> to memref<32x16xi8, strided<[?, 1], offset: ?>>
  %bl = memref.alloc() : memref<32x16xi8>
  memref.copy %bv, %bl : memref<32x16xi8, strided<[?, 1], offset: ?>> to memref<32x16xi8>
  %bt = bufferization.to_tensor %bl restrict writable : memref<32x16xi8> to tensor<32x16xi8>
  %empty = tensor.empty() : tensor<8x16xi32>
  %init = linalg.fill ins(%zero : i32) outs(%empty : tensor<8x16xi32>) -> tensor<8x16xi32>
  %p = linalg.matmul ins(%at, %bt : tensor<8x32xi8>, tensor<32x16xi8>) outs(%init : tensor<8x16xi32>) -> tensor<8x16xi32>
  %cv = memref.reinterpret_cast %c to offset: [%i], sizes: [8, 16], strides: [%c16, 1] : memref<*xi32> to memref<8x16xi32, strided<[?, 1], offset: ?>>
  bufferization.materialize_in_destination %p in writable %cv : (tensor<8x16xi32>, memref<8x16xi32, strided<[?, 1], offset: ?>>) -> ()
  return
}
"#;
    let scene = Scene::new(3);
    let program = linalg_program(&scene, text, "4,1,1");
    let (m, n, k) = (32usize, 16usize, 32usize);
    let a: Vec<i8> = (0..m * k).map(|i| (i % 251) as i8).collect();
    let b: Vec<i8> = (0..k * n).map(|i| (i % 127) as i8 - 60).collect();
    let mut arguments = vec![
        bytes(&a, i8::to_le_bytes),
        bytes(&b, i8::to_le_bytes),
        vec![0xff; m * n * 4],
    ];
    run(&program, &mut arguments, &[]).unwrap();
    let mut expected = vec![0i32; m * n];
    for i in 0..m {
        for j in 0..n {
            expected[i * n + j] = (0..k)
                .map(|p| i32::from(a[i * k + p]) * i32::from(b[p * n + j]))
                .sum();
        }
    }
    assert_eq!(arguments[2], bytes(&expected, i32::to_le_bytes));
}

#[test]
fn channels_and_dmas_of_an_air_kernel_are_followed() {
    let text = r#"
air.channel @in [1]
air.channel @out [1]
func.func @double(%x: memref<512xi32>, %y: memref<512xi32>) {
  %c1 = arith.constant 1 : index
  air.launch (%tx) in (%sx = %c1) args(%a = %x, %b = %y) : memref<512xi32>, memref<512xi32> {
    air.channel.put @in[] (%a[] [] []) : (memref<512xi32>)
    air.channel.get @out[] (%b[] [] []) : (memref<512xi32>)
    air.segment @seg {
      %one = arith.constant 1 : index
      air.herd @herd_0 tile (%hx, %hy) in (%hsx = %one, %hsy = %one) {
        %local = memref.alloc() : memref<512xi32, 2>
        %result = memref.alloc() : memref<512xi32, 2>
        air.channel.get @in[] (%local[] [] []) : (memref<512xi32, 2>)
        linalg.add ins(%local, %local : memref<512xi32, 2>, memref<512xi32, 2>) outs(%result : memref<512xi32, 2>)
        air.channel.put @out[] (%result[] [] []) : (memref<512xi32, 2>)
      }
    }
  }
  return
}
"#;
    let scene = Scene::new(3);
    scene.file("air.mlir", text);
    let peano = format!("--peano={}", scene.tools.peano().display());
    scene
        .run(
            "aircc",
            &[
                "--device=npu1",
                "-i",
                "k.bin",
                "-o",
                "k.xclbin",
                &peano,
                "air.mlir",
            ],
        )
        .ok();
    let program = Program::of_stream(&Stream::parse(&scene.read("k.bin")).unwrap()).unwrap();
    let x: Vec<i32> = (0..512).collect();
    let mut arguments = vec![bytes(&x, i32::to_le_bytes), vec![0; 2048]];
    run(&program, &mut arguments, &[]).unwrap();
    let doubled: Vec<i32> = x.iter().map(|x| 2 * x).collect();
    assert_eq!(arguments[1], bytes(&doubled, i32::to_le_bytes));
}

#[test]
fn what_is_not_understood_is_opaque_and_still_told_apart() {
    let scene = Scene::new(3);
    let text = TILED_ADD.replace("BODY", "math.exp %a : bf16");
    let program = linalg_program(&scene, &text, "1,1,1");
    assert_eq!(program.steps, None);
    let pdi = |scene: &Scene| scene.read("air_project/addk_0.pdi");
    let first = pdi(&scene);
    linalg_program(
        &scene,
        &TILED_ADD.replace("BODY", "math.tanh %a : bf16"),
        "1,1,1",
    );
    assert_ne!(pdi(&scene), first);
}

#[test]
fn any_program_survives_its_encoding() {
    let program = Program {
        arguments: vec![Some(Element::I8), None, Some(Element::F32)],
        elements: Some(77),
        steps: Some(vec![
            Step {
                operation: Operation::Fma,
                element: Element::F32,
                result: Operand::Temporary(0),
                operands: [
                    Operand::Argument(0),
                    Operand::Constant(1.5f32.to_bits()),
                    Operand::Variable(2),
                ],
                dimensions: [0; 3],
            },
            Step {
                operation: Operation::MatMul,
                element: Element::F32,
                result: Operand::Argument(2),
                operands: [
                    Operand::Argument(0),
                    Operand::Temporary(0),
                    Operand::Constant(0),
                ],
                dimensions: [1, 2, 3],
            },
        ]),
    };
    let words = program.words();
    assert_eq!(Program::from_words(&words), Ok(program));
    for length in 0..words.len() {
        assert!(Program::from_words(&words[..length]).is_err(), "{length}");
    }
    assert_eq!(
        Program::from_words(&Program::opaque(3).words()),
        Ok(Program::opaque(3))
    );
}
