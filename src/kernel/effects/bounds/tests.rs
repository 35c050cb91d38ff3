//! Each body is one of MLIR's own verifier's; what a launch has to check follows from the
//! documents of its dialects.

use npu_runtime::{Bounds, Extent};

use crate::kernel::Module;

/// What a launch checks of `%x`, `%y` and `%z`, one text for each dimension; `None` if no check
/// suffices.
fn checks(types: [&str; 3], body: &str) -> Option<Vec<String>> {
    let [x, y, z] = types;
    let text = format!(
        "#id = affine_map<(d0) -> (d0)>\n#t = affine_map<(d0, d1) -> (d1, d0)>\n\
         #sum = affine_map<(d0, d1) -> (d0 + d1)>\n#both = affine_map<(d0, d1) -> (d0, d1)>\n\
         #first = affine_map<(d0, d1) -> (d0)>\n\
         func.func @k(%x: {x}, %y: {y}, %z: {z}, %s: f32, %n: index) {{\n\
         %c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n\
         %c8 = arith.constant 8 : index\n{body}\nreturn\n}}"
    );
    let module = Module::scan(text.as_bytes()).unwrap();
    let signature = &module.select(None).unwrap()[0].signature;
    if signature.bounds == Bounds::Unchecked {
        return None;
    }
    let text = |list: &[Extent]| {
        let list = list.iter().map(|extent| signature.extent_text(extent));
        list.collect::<Vec<_>>().join(" ")
    };
    let memory = signature.parameters.iter().take(3);
    Some(memory.map(|it| text(&it.extents)).collect())
}

fn of(of_type: &str, body: &str) -> Option<Vec<String>> {
    checks([of_type; 3], body)
}

const DYNAMIC: &str = "memref<?xf32>";
const STATIC: &str = "memref<8xf32>";

#[track_caller]
fn proven(found: Option<Vec<String>>, expected: [&str; 3]) {
    assert_eq!(found, Some(expected.map(str::to_owned).to_vec()));
}

/// `y = s * x + y`, which wrote past a shorter `y`.
#[test]
fn operands_of_one_loop_have_one_size() {
    let body = "linalg.generic {indexing_maps = [#id, #id], iterator_types = [\"parallel\"]} ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {\n\
        ^bb0(%a: f32, %b: f32):\n  %p = arith.mulf %s, %a : f32\n  %q = arith.addf %p, %b : f32\n  linalg.yield %q : f32\n}";
    proven(of(DYNAMIC, body), ["x", "x", ""]);
    for body in [
        "linalg.add ins(%x, %y : memref<?xf32>, memref<?xf32>) outs(%z : memref<?xf32>)",
        "linalg.map { arith.addf } ins(%x, %y : memref<?xf32>, memref<?xf32>) outs(%z : memref<?xf32>)",
        "memref.copy %x, %y : memref<?xf32> to memref<?xf32>\nmemref.copy %y, %z : memref<?xf32> to memref<?xf32>",
    ] {
        proven(of(DYNAMIC, body), ["x", "x", "x"]);
    }
    proven(
        of(
            DYNAMIC,
            "linalg.fill ins(%s : f32) outs(%z : memref<?xf32>)",
        ),
        ["", "", ""],
    );
    proven(
        checks(
            ["memref<?xf32>", "memref<?x4xf32>", "memref<8xf32>"],
            "memref.copy %x, %z : memref<?xf32> to memref<8xf32>",
        ),
        ["8", "", ""],
    );
}

#[test]
fn matrices_agree_in_the_dimensions_that_are_multiplied() {
    let body =
        "linalg.matmul ins(%x, %y : memref<?x?xf32>, memref<?x?xf32>) outs(%z : memref<?x?xf32>)";
    proven(
        of("memref<?x?xf32>", body),
        ["x[0] x[1]", "x[1] y[1]", "x[0] y[1]"],
    );
    let transposed = "linalg.generic {indexing_maps = [#t, #both], iterator_types = [\"parallel\", \"parallel\"]} ins(%x : memref<?x?xf32>) outs(%y : memref<?x?xf32>) {\n\
        ^bb0(%a: f32, %b: f32):\n  linalg.yield %a : f32\n}";
    proven(
        of("memref<?x?xf32>", transposed),
        ["x[0] x[1]", "x[1] x[0]", ""],
    );
    let reduced = "linalg.generic {indexing_maps = [#both, #first], iterator_types = [\"parallel\", \"reduction\"]} ins(%x : memref<?x?xf32>) outs(%y : memref<?xf32>) {\n\
        ^bb0(%a: f32, %b: f32):\n  %c = arith.addf %a, %b : f32\n  linalg.yield %c : f32\n}";
    proven(
        checks(
            ["memref<?x?xf32>", "memref<?xf32>", "memref<?xf32>"],
            reduced,
        ),
        ["x[0] _", "x[0]", ""],
    );
}

#[test]
fn tensors_carry_sizes_from_argument_to_argument() {
    let body = "%t = bufferization.to_tensor %x restrict : memref<?xf32> to tensor<?xf32>\n\
        %d = tensor.dim %t, %c0 : tensor<?xf32>\n%e = tensor.empty(%d) : tensor<?xf32>\n\
        %r = linalg.exp ins(%t : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>\n\
        bufferization.materialize_in_destination %r in restrict writable %y : (tensor<?xf32>, memref<?xf32>) -> ()";
    proven(of(DYNAMIC, body), ["x", "x", ""]);
}

#[test]
fn loops_stay_within_what_they_count_to() {
    let copy = |to: &str, index: &str| {
        format!(
            "scf.for %i = %c0 to {to} step %c1 {{\n  %v = memref.load %x[%i] : {STATIC}\n  memref.store %v, %y[{index}] : {STATIC}\n}}"
        )
    };
    proven(of(STATIC, &copy("%c8", "%i")), ["", "", ""]);
    let dynamic = format!(
        "%d = memref.dim %x, %c0 : {DYNAMIC}\n{}",
        copy("%d", "%i").replace(STATIC, DYNAMIC)
    );
    proven(of(DYNAMIC, &dynamic), ["x", "x", ""]);
    let nested = "affine.for %i = 0 to 2 {\n  affine.for %j = 0 to 4 {\n    %v = affine.load %x[%i + 6] : memref<8xf32>\n    affine.store %v, %y[%j * 2] : memref<8xf32>\n  }\n}";
    proven(of(STATIC, nested), ["", "", ""]);
    for unproven in [
        copy("%n", "%i"),
        copy("%c8", "%n"),
        format!("%m = arith.addi %c8, %c1 : index\n{}", copy("%m", "%i")),
        nested.replace("+ 6", "+ 7"),
        nested.replace("* 2", "* 3"),
        nested.replace("0 to 2", "0 to %n"),
        format!("memref.store %s, %x[%c8] : {STATIC}"),
    ] {
        assert_eq!(of(STATIC, &unproven), None, "{unproven}");
    }
}

/// A name means what it was given last, and nothing of what it was before.
#[test]
fn a_name_that_is_used_again_is_another_value() {
    let body = |second: &str| {
        format!(
            "scf.for %i = %c0 to %c8 step %c1 {{\n  memref.store %s, %x[%i] : {STATIC}\n}}\n\
             scf.for %i = %c0 to {second} step %c1 {{\n  memref.store %s, %x[%i] : {STATIC}\n}}"
        )
    };
    proven(of(STATIC, &body("%c8")), ["", "", ""]);
    assert_eq!(of(STATIC, &body("%n")), None);
    let carried = format!(
        "%r = scf.for %i = %c0 to %c8 step %c1 iter_args(%j = %c0) -> index {{\n  memref.store %s, %x[%j] : {STATIC}\n  scf.yield %n : index\n}}"
    );
    assert_eq!(of(STATIC, &carried), None);
}

#[test]
fn what_is_not_understood_proves_nothing() {
    for unproven in [
        "func.call @f(%x) : (memref<8xf32>) -> ()",
        "\"memref.store\"(%s, %x, %c0) : (f32, memref<8xf32>, index) -> ()",
        "%a = memref.assume_alignment %x, 64 : memref<8xf32>",
        "%v = memref.reinterpret_cast %x to offset: [%n], sizes: [8], strides: [1] : memref<8xf32> to memref<8xf32, strided<[1], offset: ?>>",
        "%v = vector.load %x[%n] : memref<8xf32>, vector<8xf32>",
        "%q = arith.divsi %c8, %n : index",
        "%c = arith.constant true\ncf.assert %c, \"text\"",
    ] {
        assert_eq!(of(STATIC, unproven), None, "{unproven}");
    }
    assert_eq!(of("memref<*xf32>", ""), None);
    assert_eq!(of("memref<8xf32, strided<[2]>>", ""), None);
    // The window of a convolution reaches beyond one loop's size.
    let window = "linalg.generic {indexing_maps = [#sum, #first], iterator_types = [\"parallel\", \"reduction\"]} ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {\n\
        ^bb0(%a: f32, %b: f32):\n  linalg.yield %a : f32\n}";
    assert_eq!(of(DYNAMIC, window), None);
}

#[test]
fn a_constant_divisor_is_no_danger() {
    let payload = |divisor: &str| {
        format!(
            "%c2 = arith.constant 2 : i32\n%n32 = arith.index_cast %n : index to i32\n\
             linalg.generic {{indexing_maps = [#id, #id], iterator_types = [\"parallel\"]}} ins(%x : memref<8xi32>) outs(%y : memref<8xi32>) {{\n\
             ^bb0(%a: i32, %b: i32):\n  %q = arith.divsi %a, {divisor} : i32\n  linalg.yield %q : i32\n}}"
        )
    };
    proven(of("memref<8xi32>", &payload("%c2")), ["", "", ""]);
    assert_eq!(of("memref<8xi32>", &payload("%n32")), None);
    assert_eq!(of("memref<8xi32>", &payload("%b")), None);
}

/// A line end is no border between operations, and an attribute is no place where one hides.
#[test]
fn the_whole_text_is_read() {
    let good = "%v = memref.load %x[%c0] : memref<8xf32>";
    proven(of(STATIC, good), ["", "", ""]);
    for unproven in [
        format!("{good} %w = memref.load %x[%c8] : {STATIC}"),
        format!("{good} func.call @f(%x) : ({STATIC}) -> ()"),
        "%p:2 = scf.for %i = %c0 to %c8 step %c1 iter_args(%a = %c0, %b = %n) -> (index, index) {\n  scf.yield %a, %b : index, index\n}\nmemref.store %s, %x[%p#1] : memref<8xf32>".to_owned(),
        "memref.dealloc %x : memref<8xf32>".to_owned(),
        "%m = memref.alloca(%n) : memref<?xf32>".to_owned(),
        "%m = memref.alloc(%n) : memref<?xf32>\nmemref.store %s, %m[%c0] : memref<?xf32>".to_owned(),
        "ub.unreachable".to_owned(),
    ] {
        assert_eq!(of(STATIC, &unproven), None, "{unproven}");
    }
}

#[test]
fn freed_memory_is_used_no_more() {
    let body = |after: &str| {
        format!(
            "%m = memref.alloc() : {STATIC}\nmemref.copy %x, %m : {STATIC} to {STATIC}\n\
             memref.copy %m, %y : {STATIC} to {STATIC}\nmemref.dealloc %m : {STATIC}\n{after}"
        )
    };
    proven(of(STATIC, &body("")), ["", "", ""]);
    for unproven in [
        format!("memref.copy %m, %y : {STATIC} to {STATIC}"),
        format!("memref.dealloc %m : {STATIC}"),
    ] {
        assert_eq!(of(STATIC, &body(&unproven)), None, "{unproven}");
    }
    let twice = format!(
        "%m = memref.alloc() : {STATIC}\nscf.for %i = %c0 to %c8 step %c1 {{\n  memref.dealloc %m : {STATIC}\n}}"
    );
    assert_eq!(of(STATIC, &twice), None);
}

/// Numbers that their types can't hold wrap around.
#[test]
fn what_wraps_around_is_no_index() {
    let narrow = |number: &str, of_type: &str| {
        format!(
            "%a = arith.constant {number} : {of_type}\n%b = arith.constant 100 : {of_type}\n%d = arith.addi %a, %b : {of_type}\n%i = arith.index_cast %d : {of_type} to index\nmemref.store %s, %x[%i] : memref<400xf32>"
        )
    };
    proven(of("memref<400xf32>", &narrow("100", "i32")), ["", "", ""]);
    assert_eq!(of("memref<400xf32>", &narrow("100", "i8")), None);
    let counted = |last: &str| {
        format!(
            "affine.for %i = 0 to {last} step 2000000000 {{\n  memref.store %s, %x[%i] : memref<?xf32>\n}}"
        )
    };
    assert_eq!(of(DYNAMIC, &counted("2147483647")), None);
    let cast = "%d = memref.dim %x, %c0 : memref<?xf32>\n%e = arith.index_cast %d : index to i32\n%f = arith.index_cast %e : i32 to index\n%m = memref.alloc(%f) : memref<?xf32>\nmemref.copy %x, %m : memref<?xf32> to memref<?xf32>";
    assert_eq!(of(DYNAMIC, cast), None);
    proven(
        of(DYNAMIC, &cast.replace("alloc(%f)", "alloc(%d)")),
        ["", "", ""],
    );
    let product =
        "%d = memref.dim %x, %c0 : memref<?xf32>\n%m = memref.alloc(%d, %d) : memref<?x?xf32>";
    assert_eq!(of(DYNAMIC, product), None);
}

#[test]
fn operations_with_dimensions_say_which() {
    let matrix = "memref<?x?xf32>";
    let transposed = "linalg.transpose ins(%x : memref<?x?xf32>) outs(%y : memref<?x?xf32>) permutation = [1, 0]";
    proven(of(matrix, transposed), ["x[0] x[1]", "x[1] x[0]", ""]);
    let rows = "linalg.reduce { arith.addf } ins(%x : memref<?x?xf32>) outs(%y : memref<?xf32>) dimensions = [1]";
    proven(
        checks([matrix, DYNAMIC, DYNAMIC], rows),
        ["x[0] _", "x[0]", ""],
    );
    let columns =
        "linalg.broadcast ins(%x : memref<?xf32>) outs(%y : memref<?x?xf32>) dimensions = [0]";
    proven(
        checks([DYNAMIC, matrix, DYNAMIC], columns),
        ["x", "_ x", ""],
    );
    let remainder = "linalg.reduce { arith.remsi } ins(%x : memref<?x?xi32>) outs(%y : memref<?xi32>) dimensions = [1]";
    assert_eq!(
        checks(["memref<?x?xi32>", "memref<?xi32>", DYNAMIC], remainder),
        None
    );
}

/// Static shapes are compared like others: what MLIR's verifier lets pass, a loop may leave.
#[test]
fn static_shapes_of_unknown_operations_prove_nothing() {
    let pooled = "%w = memref.alloc() : memref<3xf32>\nlinalg.pooling_ncw_max ins(%x, %w : memref<8xf32>, memref<3xf32>) outs(%y : memref<8xf32>)";
    assert_eq!(of(STATIC, pooled), None);
    let shorter = "linalg.generic {indexing_maps = [#id, #id], iterator_types = [\"parallel\"]} ins(%x : memref<8xf32>) outs(%y : memref<4xf32>) {\n\
        ^bb0(%a: f32, %b: f32):\n  linalg.yield %a : f32\n}";
    assert_eq!(checks([STATIC, "memref<4xf32>", STATIC], shorter), None);
}

/// Each of these was called proven once, and crashed.
#[test]
fn what_looks_like_something_else_proves_nothing() {
    let fill = |of_type: &str| format!("linalg.fill ins(%s : f32) outs(%x : {of_type})");
    for hidden in [
        "memref<8xf32, strided <[1000], offset: 5>>",
        "memref<?xf32, affine_map <(d0) -> (d0 * 1000)>>",
    ] {
        assert_eq!(of(hidden, &fill(hidden)), None, "{hidden}");
    }
    for unproven in [
        "%e = memref.dim %x, %c0 : memref<?xf32>\n%b = tensor.empty(%e) : tensor<4x//\n?xf32>",
        "linalg.generic {indexing_maps = [affine_map<(d0 //,d0 //y,\n) -> (d0 //\n)>, affine_map<(d0 //,d0 //y,\n) -> (d0 //y\n)>], iterator_types = [\"parallel\"]} ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {\n^bb0(%a: f32, %b: f32): linalg.yield %a : f32\n}",
        "linalg.generic {decoy = {indexing_maps = [#id, #id]}, \"indexing_maps\" = [#t, #t], iterator_types = [\"parallel\"]} ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {\n^bb0(%a: f32, %b: f32): linalg.yield %a : f32\n}",
        "%d = memref.dim %x, %c0 : memref<?xf32>\n%m = memref.alloc(%d) : memref<?x2147483648xf32>",
        "%d = memref.dim %x, %c0 : memref<?xf32>\n%t = bufferization.alloc_tensor(%d) {memory_space = 257 : i64} : tensor<?xf32>",
        "scf.for %i = %c0 to %c8 step %c0 {\n}",
    ] {
        assert_eq!(of(DYNAMIC, unproven), None, "{unproven}");
    }
    let aligned = "%v = memref.load %x[%c0] {alignment = 64 : i64} : memref<8xf32>";
    assert_eq!(of(STATIC, aligned), None);
    // A branch on a value that is poison may go anywhere.
    let shifted =
        "%p = arith.shli %n, %c8 : index\n%c = arith.cmpi sgt, %p, %n : index\nscf.if %c {\n}";
    assert_eq!(of(STATIC, shifted), None);
    proven(of(STATIC, &shifted.replace("shli", "addi")), ["", "", ""]);
    // The other dimension may be 0, and this one then as large as it likes.
    let unbounded =
        "%d = memref.dim %x, %c0 : memref<?x?xf32>\n%m = memref.alloc(%d) : memref<?xf32>";
    assert_eq!(of("memref<?x?xf32>", unbounded), None);
    let square = "%d = memref.dim %x, %c0 : memref<?x?xf32>\n%e = memref.dim %y, %c1 : memref<?x?xf32>\n%m = tensor.empty(%d, %e) : tensor<?x?xf32>\nbufferization.materialize_in_destination %m in restrict writable %z : (tensor<?x?xf32>, memref<?x?xf32>) -> ()";
    proven(
        of("memref<?x?xf32>", square),
        ["x[0] _", "_ y[1]", "x[0] y[1]"],
    );
}

/// What speaks to LLVM or the linker may change what any function does.
#[test]
fn a_file_that_speaks_to_the_linker_proves_nothing() {
    for (before, attributes) in [
        ("", "attributes {CConv = #llvm.cconv<win64cc>}"),
        ("memref.global @memset : memref<64xi8> = dense<1>", ""),
        (
            "llvm.func @sinf(%a: f32) -> f32 { llvm.return %a : f32 }",
            "",
        ),
        ("", ""),
    ] {
        let text = format!(
            "{before}\nfunc.func @k(%x: memref<?xf32>, %s: f32) {attributes} {{\nlinalg.fill ins(%s : f32) outs(%x : memref<?xf32>)\nreturn }}"
        );
        let module = Module::scan(text.as_bytes()).unwrap();
        let kernel = module.select(Some("k")).unwrap()[0].clone();
        let is_plain = before.is_empty() && attributes.is_empty();
        let is_proven = kernel.signature.bounds == Bounds::Proven;
        assert_eq!(is_proven, is_plain, "{text}");
    }
}

#[test]
fn a_name_of_a_region_is_free_again_behind_it() {
    let body = "%r = linalg.generic {indexing_maps = [#id, #id], iterator_types = [\"parallel\"]} ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {\n\
        ^bb0(%c1: f32, %b: f32):\n  linalg.yield %b : f32\n}";
    // MLIR's verifier refuses it: a name in sight is given again.
    proven(of(STATIC, body), ["", "", ""]);
    let then = format!("{body}\nmemref.store %s, %x[%c1] : {STATIC}");
    assert_eq!(of(STATIC, &then), None);
}
