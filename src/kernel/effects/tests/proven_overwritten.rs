//! When an argument is `out`, and what it takes to lose that.

use super::*;

#[test]
fn by_a_fill_or_a_copy_of_the_whole() {
    assert_eq!(
        body("linalg.fill ins(%x : f32) outs(%a : memref<4xf32>)"),
        "out in in"
    );
    assert_eq!(
        body("memref.copy %a, %b : memref<4xf32> to memref<4xf32>"),
        "in out in"
    );
    assert_eq!(
        body(
            "%0 = bufferization.to_tensor %a : memref<4xf32> to tensor<4xf32>\n\
             bufferization.materialize_in_destination %0 in restrict writable %c : (tensor<4xf32>, memref<4xf32>) -> ()"
        ),
        "in in out"
    );
}

#[test]
fn a_matmul_after_a_fill_accumulates_into_what_the_fill_wrote() {
    let of_matmul = |body: &str| {
        of(&format!(
            "func.func @k(%a: memref<4x4xf32>, %b: memref<4x4xf32>, %c: memref<4x4xf32>, %x: f32) {{\n{body}\nreturn\n}}"
        ))
    };
    let matmul =
        "linalg.matmul ins(%a, %b : memref<4x4xf32>, memref<4x4xf32>) outs(%c : memref<4x4xf32>)";
    let fill = "linalg.fill ins(%x : f32) outs(%c : memref<4x4xf32>)";
    assert_eq!(of_matmul(&format!("{fill}\n{matmul}")), "in in out");
    assert_eq!(of_matmul(matmul), "in in inout");
    assert_eq!(of_matmul(&format!("{matmul}\n{fill}")), "in in inout");
}

#[test]
fn by_an_elementwise_payload_that_ignores_the_old_element() {
    let generic = |maps: &str, used: &str| {
        body(&format!(
            "linalg.generic {{indexing_maps = [{maps}], iterator_types = [\"parallel\"]}} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {{\n\
             ^bb0(%in: f32, %out: f32):\n  %0 = arith.addf %in, {used} : f32\n  linalg.yield %0 : f32\n}}"
        ))
    };
    assert_eq!(generic("#id, #id", "%in"), "in out in");
    assert_eq!(generic("#id, affine_map<(d0) -> (d0)>", "%in"), "in out in");
    assert_eq!(generic("#id, #flip", "%in"), "in out in");
    assert_eq!(generic("#id, #id", "%out"), "in inout in");
    assert_eq!(
        generic("#id, affine_map<(d0) -> (0)>", "%in"),
        "in inout in"
    );
    assert_eq!(
        generic("#id, affine_map<(d0, d1) -> (d0)>", "%in"),
        "in inout in"
    );
    assert_eq!(generic("#id, #unknown", "%in"), "in inout in");
}

#[test]
fn not_if_anything_used_it_before() {
    let fill = "linalg.fill ins(%x : f32) outs(%a : memref<4xf32>)";
    for before in [
        "%0 = memref.load %a[%i] : memref<4xf32>",
        "memref.store %x, %a[%i] : memref<4xf32>",
        "x.y %a : memref<4xf32>",
        "%0 = bufferization.to_tensor %a : memref<4xf32> to tensor<4xf32>",
        "%0 = memref.cast %a : memref<4xf32> to memref<?xf32>\n%1 = memref.load %0[%i] : memref<?xf32>",
    ] {
        assert_eq!(
            body(&format!("{before}\n{fill}")),
            "inout in in",
            "{before}"
        );
    }
    assert_eq!(
        body("linalg.add ins(%a, %b : memref<4xf32>, memref<4xf32>) outs(%a : memref<4xf32>)"),
        "inout in in"
    );
    assert_eq!(
        body("memref.copy %a, %a : memref<4xf32> to memref<4xf32>"),
        "inout in in"
    );
}

#[test]
fn but_whatever_comes_after_does_not_matter() {
    assert_eq!(
        body("linalg.fill ins(%x : f32) outs(%a : memref<4xf32>)\nx.y %a : memref<4xf32>"),
        "out in in"
    );
}

#[test]
fn not_if_it_may_not_run_or_is_only_a_part() {
    let fill = "linalg.fill ins(%x : f32) outs(%a : memref<4xf32>)";
    assert_eq!(body(&format!("scf.if %p {{\n{fill}\n}}")), "inout in in");
    assert_eq!(
        body(&format!("scf.for %j = %i to %i step %i {{\n{fill}\n}}")),
        "inout in in"
    );
    assert_eq!(
        body(&format!(
            "cf.cond_br %p, ^bb1, ^bb2\n^bb1:\n{fill}\ncf.br ^bb2\n^bb2:"
        )),
        "inout in in"
    );
    assert_eq!(
        body(
            "%0 = memref.subview %a[0] [2] [1] : memref<4xf32> to memref<2xf32>\n\
             linalg.fill ins(%x : f32) outs(%0 : memref<2xf32>)"
        ),
        "inout in in"
    );
}

/// A loop runs, and a copy copies, as far as the extents of the source go.
#[test]
fn not_if_what_is_written_may_be_less() {
    let of_two = |x: &str, y: &str, body: &str| {
        of(&format!(
            "!t = {x}\n#id = affine_map<(d0) -> (d0)>\n\
             func.func @k(%x: {x}, %y: {y}, %s: f32) {{\n{body}\nreturn\n}}"
        ))
    };
    for (x, y, expected) in [
        ("memref<128xf32>", "memref<128xf32>", "in out"),
        ("memref<?xf32>", "memref<128xf32>", "in inout"),
        ("memref<64xf32>", "memref<128xf32>", "in inout"),
        ("memref<*xf32>", "memref<128xf32>", "in inout"),
        ("memref<128xf32, strided<[2]>>", "memref<128xf32>", "in out"),
        (
            "memref<?xf32, strided<[?], offset: ?>>",
            "memref<128xf32>",
            "in inout",
        ),
    ] {
        for body in [
            format!("memref.copy %x, %y : {x} to {y}"),
            format!("memref.copy %x, %y {{a.b = 1 : i32}} : !t to {y}"),
            format!("\"memref.copy\"(%x, %y) : ({x}, {y}) -> ()"),
        ] {
            assert_eq!(of_two(x, y, &body), expected, "{body}");
        }
    }
    for (x, y, expected) in [
        ("memref<128xf32>", "memref<128xf32>", "in out"),
        ("memref<?xf32>", "memref<128xf32>", "in inout"),
    ] {
        let tensor = x.replace("memref", "tensor");
        for body in [
            format!("linalg.copy ins(%x : {x}) outs(%y : {y})"),
            format!("linalg.exp ins(%x : !t) outs(%y : {y})"),
            format!("linalg.add ins(%x, %x : {x}, {x}) outs(%y : {y})"),
            format!(
                "linalg.generic {{indexing_maps = [#id, #id], iterator_types = [\"parallel\"]}} ins(%x : {x}) outs(%y : {y}) {{\n\
                 ^bb0(%a: f32, %b: f32):\n  linalg.yield %a : f32\n}}"
            ),
            format!(
                "\"linalg.exp\"(%x, %y) <{{operandSegmentSizes = array<i32: 1, 1>}}> ({{\n\
                 ^bb0(%a: f32, %b: f32):\n  %0 = \"math.exp\"(%a) : (f32) -> f32\n  \"linalg.yield\"(%0) : (f32) -> ()\n}}) : ({x}, {y}) -> ()"
            ),
            format!(
                "%t = bufferization.to_tensor %x restrict : {x} to {tensor}\n\
                 bufferization.materialize_in_destination %t in restrict writable %y : ({tensor}, {y}) -> ()"
            ),
            format!(
                "%t = bufferization.to_tensor %x restrict : {x} to {tensor}\n\
                 \"bufferization.materialize_in_destination\"(%t, %y) <{{restrict, writable}}> : ({tensor}, {y}) -> ()"
            ),
        ] {
            assert_eq!(of_two(x, y, &body), expected, "{body}");
        }
    }
}

/// In generic form a named operation says what it computes, which need not be what its name says.
#[test]
fn not_if_a_named_operation_computes_with_the_old_element() {
    let exp = |result: &str| {
        body(&format!(
            "\"linalg.exp\"(%a, %b) <{{operandSegmentSizes = array<i32: 1, 1>}}> ({{\n\
             ^bb0(%in: f32, %out: f32):\n  \"linalg.yield\"({result}) : (f32) -> ()\n}}) : (memref<4xf32>, memref<4xf32>) -> ()"
        ))
    };
    assert_eq!(exp("%in"), "in out in");
    assert_eq!(exp("%out"), "in inout in");
}

#[test]
fn not_if_there_is_memory_beyond_its_elements() {
    for of_type in [
        "memref<4xf32, strided<[2]>>",
        "memref<?xf32>",
        "memref<*xf32>",
        "memref<4xf32, #m>",
    ] {
        let text = format!(
            "func.func @k(%a: {of_type}, %x: f32) {{\nlinalg.fill ins(%x : f32) outs(%a : {of_type})\nreturn\n}}"
        );
        assert_eq!(of(&text), "inout", "{of_type}");
    }
}

#[test]
fn not_if_it_may_be_another_arguments_memory() {
    assert_eq!(
        body(
            "scf.if %p {\n%0 = memref.cast %a : memref<4xf32> to memref<?xf32>\n}\n\
             scf.if %p {\n%0 = memref.cast %b : memref<4xf32> to memref<?xf32>\n}\n\
             linalg.fill ins(%x : f32) outs(%a : memref<4xf32>)"
        ),
        "inout inout in"
    );
}
