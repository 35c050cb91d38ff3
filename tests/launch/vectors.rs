//! Operations on vectors, complex numbers and tensors, and what memory can be, beside plain Rust.

use npu_runtime::half::bf16;
use npu_runtime::{Arg, Grid};

use crate::workshop::Workshop;

#[test]
fn parts_of_matrices_are_read_with_padding_masks_and_permutations() {
    let kernel = Workshop::new().kernel(
        "func.func @k(%a: memref<?x?xf32>, %padded: memref<4x4xf32>, %masked: memref<4x4xf32>,
                      %turned: memref<2x3xf32>, %spread: memref<2x3x2xf32>, %part: memref<?x?xf32>,
                      %rows: index, %columns: index) {
           %z = arith.constant 0 : index
           %one = arith.constant 1 : index
           %pad = arith.constant -1.0 : f32
           %whole = vector.transfer_read %a[%z, %one], %pad : memref<?x?xf32>, vector<4x4xf32>
           vector.transfer_write %whole, %padded[%z, %z] {in_bounds = [true, true]} : vector<4x4xf32>, memref<4x4xf32>
           %mask = vector.create_mask %rows, %columns : vector<4x4xi1>
           %some = vector.transfer_read %a[%z, %z], %pad, %mask : memref<?x?xf32>, vector<4x4xf32>
           vector.transfer_write %some, %masked[%z, %z] {in_bounds = [true, true]} : vector<4x4xf32>, memref<4x4xf32>
           %t = vector.transfer_read %a[%z, %z], %pad {permutation_map = affine_map<(i, j) -> (j, i)>,
             in_bounds = [true, true]} : memref<?x?xf32>, vector<2x3xf32>
           vector.transfer_write %t, %turned[%z, %z] {in_bounds = [true, true]} : vector<2x3xf32>, memref<2x3xf32>
           %s = vector.transfer_read %a[%z, %z], %pad {permutation_map = affine_map<(i, j) -> (0, i, j)>,
             in_bounds = [true, true, true]} : memref<?x?xf32>, vector<2x3x2xf32>
           vector.transfer_write %s, %spread[%z, %z, %z] {in_bounds = [true, true, true]} : vector<2x3x2xf32>, memref<2x3x2xf32>
           vector.transfer_write %whole, %part[%one, %z] : vector<4x4xf32>, memref<?x?xf32>
           return
         }",
    );
    let a: Vec<f32> = (0..9).map(|x| x as f32).collect();
    let at = |i: usize, j: usize| if i < 3 && j < 3 { a[3 * i + j] } else { -1.0 };
    let (mut padded, mut masked, mut turned) = ([0.0; 16], [0.0; 16], [0.0; 6]);
    let (mut spread, mut part) = ([0.0; 12], [0.0; 15]);
    let arguments = &mut [
        Arg::input(&a).with_shape(&[3, 3]),
        Arg::output(&mut padded),
        Arg::output(&mut masked),
        Arg::output(&mut turned),
        Arg::output(&mut spread),
        Arg::output(&mut part).with_shape(&[5, 3]),
        Arg::scalar(2_i64),
        Arg::scalar(3_i64),
    ];
    kernel.launch(Grid::ONE, arguments).unwrap();
    assert_eq!(padded, std::array::from_fn(|i| at(i / 4, i % 4 + 1)));
    let inside = |i: usize| i / 4 < 2 && i % 4 < 3;
    assert_eq!(
        masked,
        std::array::from_fn(|i| if inside(i) { at(i / 4, i % 4) } else { -1.0 })
    );
    assert_eq!(turned, std::array::from_fn(|i| at(i % 3, i / 3)));
    assert_eq!(spread, std::array::from_fn(|i| at(i % 6 / 2, i % 2)));
    assert_eq!(
        part,
        std::array::from_fn(|i| if i < 3 { 0.0 } else { at(i / 3 - 1, i % 3 + 1) })
    );
}

#[test]
fn vectors_are_contracted_and_reduced_along_any_dimension() {
    let contract = |id: &str, kind: &str, from: &str, to: &str, b: &str| {
        format!(
            "%{id} = vector.contract {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> ({b})>,
               affine_map<(m, n, k) -> (m, n)>], iterator_types = [\"parallel\", \"parallel\", \"reduction\"],
               kind = #vector.kind<{kind}>}} %a{id}, %b{id}, %c{id} : vector<2x3x{from}>, vector<{}x{from}> into vector<2x4x{to}>
             vector.transfer_write %{id}, %o{id}[%z, %z] {{in_bounds = [true, true]}} : vector<2x4x{to}>, memref<2x4x{to}>\n",
            if b == "k, n" { "3x4" } else { "4x3" },
        )
    };
    let read = |name: &str, from: &str, shape: &str, pad: &str| {
        format!(
            "%{name} = vector.transfer_read %{from}[%z, %z], %{pad} {{in_bounds = [true, true]}} : memref<{shape}>, vector<{shape}>\n"
        )
    };
    let mlir = format!(
        "func.func @k(%f: memref<2x3xf32>, %g: memref<3x4xf32>, %h: memref<2x3xbf16>, %i: memref<4x3xbf16>,
                      %oadd: memref<2x4xf32>, %omax: memref<2x4xf32>, %omix: memref<2x4xf32>,
                      %rows: memref<2xf32>, %columns: memref<3xf32>, %product: memref<1xf32>, %sums: memref<2x3xf32>) {{
           %z = arith.constant 0 : index
           %pf = arith.constant 0.0 : f32
           %ph = arith.constant 0.0 : bf16
           {} {} {} {} {} {} {}
           {} {} {} {} {}
           %two = arith.constant dense<10.0> : vector<2xf32>
           %three = arith.constant dense<0.0> : vector<3xf32>
           %r = vector.multi_reduction <add>, %aadd, %two [1] : vector<2x3xf32> to vector<2xf32>
           %c = vector.multi_reduction <maximumf>, %aadd, %three [0] : vector<2x3xf32> to vector<3xf32>
           %one = arith.constant 1.0 : f32
           %p = vector.multi_reduction <mul>, %aadd, %one [0, 1] : vector<2x3xf32> to f32
           vector.transfer_write %r, %rows[%z] {{in_bounds = [true]}} : vector<2xf32>, memref<2xf32>
           vector.transfer_write %c, %columns[%z] {{in_bounds = [true]}} : vector<3xf32>, memref<3xf32>
           memref.store %p, %product[%z] : memref<1xf32>
           %running, %last = vector.scan <add>, %aadd, %two {{reduction_dim = 1 : i64, inclusive = true}} : vector<2x3xf32>, vector<2xf32>
           vector.transfer_write %running, %sums[%z, %z] {{in_bounds = [true, true]}} : vector<2x3xf32>, memref<2x3xf32>
           return
         }}",
        read("aadd", "f", "2x3xf32", "pf"),
        read("badd", "g", "3x4xf32", "pf"),
        read("cadd", "oadd", "2x4xf32", "pf"),
        read("amax", "f", "2x3xf32", "pf"),
        read("bmax", "g", "3x4xf32", "pf"),
        read("cmax", "omax", "2x4xf32", "pf"),
        contract("add", "add", "f32", "f32", "k, n"),
        contract("max", "maxnumf", "f32", "f32", "k, n"),
        read("amix", "h", "2x3xbf16", "ph"),
        read("bmix", "i", "4x3xbf16", "ph"),
        read("cmix", "omix", "2x4xf32", "pf"),
        contract("mix", "add", "bf16", "f32", "n, k"),
    );
    let f: [f32; 6] = [1.0, -2.0, 3.0, 0.5, 4.0, -1.0];
    let g: [f32; 12] = std::array::from_fn(|i| i as f32 - 5.0);
    let h = f.map(bf16::from_f32);
    let i: [bf16; 12] = std::array::from_fn(|at| bf16::from_f32(g[at % 3 * 4 + at / 3]));
    let (mut add, mut max, mut mix) = ([1.0f32; 8], [0.0f32; 8], [0.0f32; 8]);
    let (mut rows, mut columns, mut product, mut sums) =
        ([0.0f32; 2], [0.0f32; 3], [0.0f32], [0.0f32; 6]);
    let arguments = &mut [
        Arg::input(&f),
        Arg::input(&g),
        Arg::input(&h),
        Arg::input(&i),
        Arg::output(&mut add),
        Arg::output(&mut max),
        Arg::output(&mut mix),
        Arg::output(&mut rows),
        Arg::output(&mut columns),
        Arg::output(&mut product),
        Arg::output(&mut sums),
    ];
    Workshop::new()
        .kernel(&mlir)
        .launch(Grid::ONE, arguments)
        .unwrap();
    // All of it is exact.
    let products = |at: usize| (0..3).map(move |k| f[at / 4 * 3 + k] * g[k * 4 + at % 4]);
    assert_eq!(
        add,
        std::array::from_fn(|at| products(at).sum::<f32>() + 1.0)
    );
    assert_eq!(
        max,
        std::array::from_fn(|at| products(at).fold(0.0, f32::max))
    );
    assert_eq!(mix, std::array::from_fn(|at| products(at).sum::<f32>()));
    assert_eq!(
        (rows, columns, product),
        ([12.0, 13.5], [1.0, 4.0, 3.0], [12.0])
    );
    assert_eq!(sums, [1.0, -1.0, 2.0, 0.5, 4.5, 3.5]);
}

/// (re, im) of the operations, by their definitions.
fn complex(operation: &str, (a, b): (f64, f64), (c, d): (f64, f64)) -> (f64, f64) {
    let (length, angle) = (a.hypot(b), b.atan2(a));
    let polar = |length: f64, angle: f64| (length * angle.cos(), length * angle.sin());
    let divide = |(a, b): (f64, f64), (c, d): (f64, f64)| {
        let square = c * c + d * d;
        ((a * c + b * d) / square, (b * c - a * d) / square)
    };
    match operation {
        "add" => (a + c, b + d),
        "sub" => (a - c, b - d),
        "mul" => (a * c - b * d, a * d + b * c),
        "div" => divide((a, b), (c, d)),
        "pow" => {
            let (re, im) = (length.ln(), angle);
            polar((c * re - d * im).exp(), c * im + d * re)
        }
        "exp" => polar(a.exp(), b),
        "log" => (length.ln(), angle),
        "sqrt" => polar(length.sqrt(), angle / 2.0),
        "rsqrt" => polar(1.0 / length.sqrt(), -angle / 2.0),
        "neg" => (-a, -b),
        "conj" => (a, -b),
        "sign" => (a / length, b / length),
        "sin" => (a.sin() * b.cosh(), a.cos() * b.sinh()),
        "cos" => (a.cos() * b.cosh(), -a.sin() * b.sinh()),
        "tanh" => divide(
            (a.sinh() * b.cos(), a.cosh() * b.sin()),
            (a.cosh() * b.cos(), a.sinh() * b.sin()),
        ),
        _ => (f64::NAN, f64::NAN),
    }
}

#[test]
fn complex_arithmetic_is_that_of_the_definitions() {
    let binary = ["add", "sub", "mul", "div", "pow"];
    let unary = [
        "exp", "log", "sqrt", "rsqrt", "neg", "conj", "sign", "sin", "cos", "tanh",
    ];
    let operations: Vec<_> = binary.iter().chain(&unary).collect();
    let body: String = operations
        .iter()
        .enumerate()
        .map(|(at, operation)| {
            let operands = if binary.contains(operation) {
                "%x, %y"
            } else {
                "%x"
            };
            format!(
                "%r{at} = complex.{operation} {operands} : complex<f64>
                 %re{at} = complex.re %r{at} : complex<f64>
                 %im{at} = complex.im %r{at} : complex<f64>
                 %i{at} = arith.constant {at} : index
                 memref.store %re{at}, %out[%i{at}, %c0] : memref<15x2xf64>
                 memref.store %im{at}, %out[%i{at}, %c1] : memref<15x2xf64>\n"
            )
        })
        .collect();
    let kernel = Workshop::new().kernel(&format!(
        "func.func @k(%out: memref<15x2xf64>, %a: f64, %b: f64, %c: f64, %d: f64, %sizes: memref<2xf64>) {{
           %c0 = arith.constant 0 : index
           %c1 = arith.constant 1 : index
           %x = complex.create %a, %b : complex<f64>
           %y = complex.create %c, %d : complex<f64>
           {body}
           %length = complex.abs %x : complex<f64>
           %angle = complex.angle %x : complex<f64>
           memref.store %length, %sizes[%c0] : memref<2xf64>
           memref.store %angle, %sizes[%c1] : memref<2xf64>
           return
         }}"
    ));
    for (x, y) in [((0.75, -1.25), (2.0, 0.5)), ((-0.3, 0.8), (-1.0, 1.5))] {
        let (mut out, mut sizes) = ([0.0f64; 30], [0.0f64; 2]);
        let scalars = [x.0, x.1, y.0, y.1].map(|x: f64| Arg::scalar(x));
        let [a, b, c, d] = scalars;
        let arguments = &mut [Arg::output(&mut out), a, b, c, d, Arg::output(&mut sizes)];
        kernel.launch(Grid::ONE, arguments).unwrap();
        let close = |out: f64, expected: f64| (out - expected).abs() <= 1e-12;
        for (at, operation) in operations.iter().enumerate() {
            let (re, im) = complex(operation, x, y);
            assert!(
                close(out[2 * at], re) && close(out[2 * at + 1], im),
                "{operation} of {x:?}, {y:?}: {} + {}i, not {re} + {im}i",
                out[2 * at],
                out[2 * at + 1]
            );
        }
        assert!(close(sizes[0], x.0.hypot(x.1)) && close(sizes[1], x.1.atan2(x.0)));
    }
}

#[test]
fn memory_grows_is_of_any_space_and_tensors_pass_through_functions() {
    let kernel = Workshop::new().kernel(
        "#l1 = 1 : i32
         memref.global \"private\" constant @ones : memref<8xf32, 3> = dense<1.0>
         func.func private @twice(%t: tensor<8xf32>) -> tensor<8xf32> {
           %e = tensor.empty() : tensor<8xf32>
           %r = linalg.add ins(%t, %t : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) -> tensor<8xf32>
           return %r : tensor<8xf32>
         }
         func.func @k(%a: memref<4xf32, 1>, %grown: memref<8xf32, #l1>, %doubled: memref<8xf32, \"L3\">, %n: index) {
           %c0 = arith.constant 0 : index
           %c1 = arith.constant 1 : index
           %c4 = arith.constant 4 : index
           %small = memref.alloc(%c4) : memref<?xf32, 2>
           memref.copy %a, %small : memref<4xf32, 1> to memref<?xf32, 2>
           %large = memref.realloc %small(%n) : memref<?xf32, 2> to memref<?xf32, 2>
           scf.for %i = %c4 to %n step %c1 {
             %v = memref.load %small[%c1] : memref<?xf32, 2>
             memref.store %v, %large[%i] : memref<?xf32, 2>
           }
           %fixed = memref.realloc %large : memref<?xf32, 2> to memref<8xf32, 2>
           memref.copy %fixed, %grown : memref<8xf32, 2> to memref<8xf32, #l1>
           %ones = memref.get_global @ones : memref<8xf32, 3>
           %local = memref.alloca() : memref<8xf32, 256>
           linalg.add ins(%ones, %fixed : memref<8xf32, 3>, memref<8xf32, 2>) outs(%local : memref<8xf32, 256>)
           %cast = memref.memory_space_cast %local : memref<8xf32, 256> to memref<8xf32>
           %t = bufferization.to_tensor %cast restrict : memref<8xf32> to tensor<8xf32>
           %r = call @twice(%t) : (tensor<8xf32>) -> tensor<8xf32>
           bufferization.materialize_in_destination %r in restrict writable %doubled : (tensor<8xf32>, memref<8xf32, \"L3\">) -> ()
           memref.dealloc %fixed : memref<8xf32, 2>
           return
         }",
    );
    let (a, mut grown, mut doubled) = ([1.0f32, 2.0, 3.0, 4.0], [0.0f32; 8], [0.0f32; 8]);
    let arguments = &mut [
        Arg::input(&a),
        Arg::output(&mut grown),
        Arg::output(&mut doubled),
        Arg::scalar(8_i64),
    ];
    kernel.launch(Grid::ONE, arguments).unwrap();
    assert_eq!(grown, [1.0, 2.0, 3.0, 4.0, 2.0, 2.0, 2.0, 2.0]);
    assert_eq!(doubled, grown.map(|x| 2.0 * (x + 1.0)));
}

#[test]
fn a_softmax_sums_to_one_and_packing_pads() {
    let kernel = Workshop::new().kernel(
        "func.func @k(%a: memref<3x5xf32>, %o: memref<3x5xf32>, %packed: memref<2x1x4x4xf32>, %clamped: memref<3x5xf32>) {
           %t = bufferization.to_tensor %a restrict : memref<3x5xf32> to tensor<3x5xf32>
           %e = tensor.empty() : tensor<3x5xf32>
           %r = linalg.softmax dimension(1) ins(%t : tensor<3x5xf32>) outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>
           bufferization.materialize_in_destination %r in restrict writable %o : (tensor<3x5xf32>, memref<3x5xf32>) -> ()
           %pad = arith.constant 9.0 : f32
           %d = tensor.empty() : tensor<2x1x4x4xf32>
           %p = linalg.pack %t padding_value(%pad : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [4, 4]
             into %d : tensor<3x5xf32> -> tensor<2x1x4x4xf32>
           bufferization.materialize_in_destination %p in restrict writable %packed : (tensor<2x1x4x4xf32>, memref<2x1x4x4xf32>) -> ()
           %low = arith.constant -0.5 : f32
           %high = arith.constant 0.75 : f32
           linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
             iterator_types = [\"parallel\", \"parallel\"]} ins(%a : memref<3x5xf32>) outs(%clamped : memref<3x5xf32>) {
           ^bb0(%x: f32, %old: f32):
             %c = math.clampf %x to [%low, %high] : f32
             linalg.yield %c : f32
           }
           return
         }",
    );
    let a: [f32; 15] = std::array::from_fn(|i| (i as f32 * 0.37).sin() * 2.0);
    let (mut o, mut packed, mut clamped) = ([0.0f32; 15], [0.0f32; 32], [0.0f32; 15]);
    let arguments = &mut [
        Arg::input(&a),
        Arg::output(&mut o),
        Arg::output(&mut packed),
        Arg::output(&mut clamped),
    ];
    kernel.launch(Grid::ONE, arguments).unwrap();
    for (row, out) in a.chunks(5).zip(o.chunks(5)) {
        let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        for (x, out) in row.iter().zip(out) {
            let expected = f64::from(*x).exp() / sum;
            assert!(
                (f64::from(*out) - expected).abs() < 1e-6,
                "{out}, not {expected}"
            );
        }
    }
    // [column tile][row tile][column][row]
    let at = |i: usize| (i % 4, i / 16 * 4 + i / 4 % 4);
    let element = |(row, column): (usize, usize)| {
        if row < 3 && column < 5 {
            a[row * 5 + column]
        } else {
            9.0
        }
    };
    assert_eq!(packed, std::array::from_fn(|i| element(at(i))));
    assert_eq!(clamped, a.map(|x| x.clamp(-0.5, 0.75)));
}
