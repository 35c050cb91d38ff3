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
