//! What a kernel computes: the program in the stream, executed, against plain arithmetic.

use aie_tools::program::{CannotRun, Element, Operand, Operation, Program, Step};
use aie_tools::stream::Stream;

use crate::scene::{Scene, computing, copying};

/// The program of an AIE-level design, through aiecc.
fn aie(text: &str) -> Program {
    let scene = Scene::with(3, text);
    scene
        .run(
            "aiecc",
            "--get-npu-insts --npu-insts-name=k.bin PEANO k.mlir",
        )
        .ok();
    Program::of_stream(&Stream::parse(&scene.read("k.bin")).unwrap()).unwrap()
}

/// The program of a linalg kernel, through air-opt, aircc and aiecc; and its PDI.
fn linalg(dialect: u8, text: &str, grid: &str) -> (Program, Vec<u8>) {
    let scene = Scene::with(dialect, text);
    let script = scene.tools.transform();
    let pipeline = format!(
        "builtin.module(air-transform{{filename={}}},func.func(air-wrap-func-with-parallel{{loop-bounds={grid}}}),air-par-to-launch{{depth=0␣has-air-segment=true}},canonicalize,cse,air-copy-to-dma)",
        script.display()
    );
    let mut command = scene.command("air-opt");
    let option = format!("--pass-pipeline={}", pipeline.replace('␣', " "));
    let status = command.args([&option, "k.mlir", "-o", "air.mlir"]).status();
    assert!(status.unwrap().success());
    scene
        .run("aircc", "--device npu2 -i k.bin -o k.xclbin PEANO air.mlir")
        .ok();
    let stream = Stream::parse(&scene.read("k.bin")).unwrap();
    let pdi = std::fs::read_dir(scene.work.join("air_project"))
        .unwrap()
        .flatten();
    let pdi = pdi
        .map(|it| it.path())
        .find(|it| it.extension().is_some_and(|it| it == "pdi"));
    (
        Program::of_stream(&stream).unwrap(),
        std::fs::read(pdi.unwrap()).unwrap(),
    )
}

fn run<T: Copy, const N: usize>(
    program: &Program,
    inputs: &[&[T]],
    to: fn(T) -> [u8; N],
) -> Vec<u8> {
    let bytes = |values: &[T]| values.iter().flat_map(|it| to(*it)).collect::<Vec<u8>>();
    let mut arguments: Vec<_> = inputs.iter().map(|it| bytes(it)).collect();
    arguments.push(vec![0; 4096]);
    let mut slices: Vec<&mut [u8]> = arguments.iter_mut().map(Vec::as_mut_slice).collect();
    program.run(&mut slices, &3i32.to_le_bytes()).unwrap();
    arguments.pop().unwrap()
}

#[test]
fn copies_sums_products_and_variables() {
    let x: Vec<i16> = (0..1024).map(|i| i * 31).collect();
    let copied = run(
        &aie(&copying("npu2", "d", "s", "i16")),
        &[&x],
        i16::to_le_bytes,
    );
    assert_eq!(
        copied[..2048],
        x.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>()
    );

    let product = aie(&computing("i16", "%z = arith.muli %x, %y : i16"));
    let products = run(&product, &[&x, &x], i16::to_le_bytes);
    let expected = x.iter().flat_map(|it| it.wrapping_mul(*it).to_le_bytes());
    assert_eq!(products[..2048], expected.collect::<Vec<_>>());

    // Rounded after each step, as f32 is.
    let floats: Vec<f32> = (0..1024).map(|i| i as f32 * 0.1).collect();
    let steps = "%s = arith.addf %x, %y : f32\n        %k = arith.constant -1.5 : f32\n        %z = arith.mulf %s, %k : f32";
    let scaled = run(
        &aie(&computing("f32", steps)),
        &[&floats, &floats],
        f32::to_le_bytes,
    );
    let expected = floats
        .iter()
        .flat_map(|it| ((it + it) * -1.5).to_le_bytes());
    assert_eq!(scaled, expected.collect::<Vec<_>>());

    let variable = computing("i32", "%z = arith.subi %x, %v : i32")
        .replacen("{\n", "{\n  aiex.scratchpad_parameter @v : i32\n", 1)
        .replace(
            "%y = memref",
            "%v = aiex.read_scratchpad_parameter @v : i32\n        %y = memref",
        );
    let numbers: Vec<i32> = (0..1024).collect();
    let moved = run(&aie(&variable), &[&numbers, &numbers], i32::to_le_bytes);
    let expected = numbers.iter().flat_map(|it| (it - 3).to_le_bytes());
    assert_eq!(moved, expected.collect::<Vec<_>>());
}

/// `BODY` computes `%s` of `%a` and `%b`, 64 elements in each program of the grid.
const TILED: &str = r#"
func.func @tiled(%x: memref<*xbf16>, %y: memref<*xbf16>, %out: memref<*xbf16>, %nx: i32, %ny: i32, %nz: i32, %px: i32, %py: i32, %pz: i32) {
  %c64 = arith.constant 64 : i32
  %start = arith.muli %px, %c64 : i32
  %offset = arith.index_cast %start : i32 to index
  %xv = memref.reinterpret_cast %x to offset: [%offset], sizes: [64], strides: [1] : memref<*xbf16> to memref<64xbf16, strided<[1], offset: ?>>
  %xl = memref.alloc() : memref<64xbf16>
  memref.copy %xv, %xl : memref<64xbf16, strided<[1], offset: ?>> to memref<64xbf16>
  %xt = bufferization.to_tensor %xl restrict writable : memref<64xbf16> to tensor<64xbf16>
  %yv = memref.reinterpret_cast %y to offset: [%offset], sizes: [64], strides: [1] : memref<*xbf16> to memref<64xbf16, strided<[1], offset: ?>>
  %yt = bufferization.to_tensor %yv restrict writable : memref<64xbf16, strided<[1], offset: ?>> to tensor<64xbf16>
  %empty = tensor.empty() : tensor<64xbf16>
  %sum = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%xt, %yt : tensor<64xbf16>, tensor<64xbf16>) outs(%empty : tensor<64xbf16>) {
  ^bb0(%a: bf16, %b: bf16, %c: bf16):
    BODY
    linalg.yield %s : bf16
  } -> tensor<64xbf16>
  %ov = memref.reinterpret_cast %out to offset: [%offset], sizes: [64], strides: [1] : memref<*xbf16> to memref<64xbf16, strided<[1], offset: ?>>
  bufferization.materialize_in_destination %sum in writable %ov : (tensor<64xbf16>, memref<64xbf16, strided<[1], offset: ?>>) -> ()
  return
}
"#;

fn bf16(value: f32) -> [u8; 2] {
    ((value.to_bits() >> 16) as u16).to_le_bytes()
}

#[test]
fn a_linalg_kernel_keeps_its_meaning_through_all_tools() {
    let x: Vec<f32> = (0..128).map(|i| (i % 64) as f32).collect();
    for dialect in [1, 3] {
        let body = "%w = arith.extf %a : bf16 to f32\n    %v = arith.extf %b : bf16 to f32\n    %f = math.fma %w, %v, %w : f32\n    %s = arith.truncf %f : f32 to bf16";
        let (program, _) = linalg(dialect, &TILED.replace("BODY", body), "2,1,1");
        assert_eq!(program.elements, Some(128));
        assert_eq!(program.arguments.len(), 9, "the function's own signature");
        // bf16 has 8 bits of precision; 62 * 63 needs more: to the nearest even.
        let expected = x.iter().flat_map(|it| {
            let bits = (it * it + it).to_bits();
            bf16(f32::from_bits(bits + 0x7fff + (bits >> 16 & 1)))
        });
        let given = run(&program, &[&x, &x], bf16);
        assert_eq!(given[..256], expected.collect::<Vec<_>>());
    }
}

#[test]
fn matrix_products_accumulate_in_the_wide_type() {
    let text = "func.func @mm(%a: memref<4x8xi8>, %b: memref<8x2xi8>, %c: memref<4x2xi32>) {
  %zero = arith.constant 0 : i32
  linalg.fill ins(%zero : i32) outs(%c : memref<4x2xi32>)
  linalg.matmul ins(%a, %b : memref<4x8xi8>, memref<8x2xi8>) outs(%c : memref<4x2xi32>)
  return
}
";
    let (program, _) = linalg(3, text, "1,1,1");
    let (a, b): (Vec<i8>, Vec<i8>) = (
        (0..32).map(|i| i * 4).collect(),
        (0..16).map(|i| i - 60).collect(),
    );
    let given = run(&program, &[&a, &b], i8::to_le_bytes);
    for (at, four) in given.as_chunks::<4>().0.iter().take(8).enumerate() {
        let products = (0..8).map(|p| i32::from(a[at / 2 * 8 + p]) * i32::from(b[p * 2 + at % 2]));
        assert_eq!(i32::from_le_bytes(*four), products.sum::<i32>());
    }
}

/// Nothing is computed, but the PDI still depends on it.
#[test]
fn what_is_not_understood_is_opaque() {
    let [first, other] = ["exp", "tanh"].map(|function| {
        let body = format!("%s = math.{function} %a : bf16");
        linalg(3, &TILED.replace("BODY", &body), "1,1,1")
    });
    assert_eq!((first.0.steps, other.0.steps), (None, None));
    assert_ne!(first.1, other.1);
    for compute in [
        "%z = math.exp %x : f32",
        "%z = scf.for %j = %c0 to %c0 step %c0 iter_args(%acc = %x) -> (f32) {\n          %n = arith.addf %acc, %y : f32\n          scf.yield %n : f32\n        }",
        "%z = arith.addf %x, %y : f32\n        func.call @more(%am) : (memref<1024xf32>) -> ()",
    ] {
        assert_eq!(aie(&computing("f32", compute)).steps, None, "{compute}");
    }
}

#[test]
fn any_program_survives_its_encoding() {
    let step = |operation, result, operands, dimensions| Step {
        operation,
        element: Element::F32,
        result,
        operands,
        dimensions,
    };
    let (first, variable) = (Operand::Argument(0), Operand::Variable(2));
    let constant = Operand::Constant(1.5f32.to_bits());
    let temporary = Operand::Temporary(0);
    let program = Program {
        arguments: vec![Some(Element::I8), None, Some(Element::F32)],
        elements: Some(77),
        steps: Some(vec![
            step(
                Operation::Fma,
                temporary,
                [first, constant, variable],
                [0; 3],
            ),
            step(
                Operation::MatMul,
                Operand::Argument(2),
                [first, temporary, constant],
                [1, 2, 3],
            ),
        ]),
    };
    let words = program.words();
    assert_eq!(Program::from_words(&words), Ok(program.clone()));
    for length in 0..words.len() {
        assert!(Program::from_words(&words[..length]).is_err(), "{length}");
    }
    assert!(matches!(
        program.run(&mut [], &[]),
        Err(CannotRun::Missing(_))
    ));
    assert_eq!(Program::opaque(3).run(&mut [], &[]), Err(CannotRun::Opaque));
}
