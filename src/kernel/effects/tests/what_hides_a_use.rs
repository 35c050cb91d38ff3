//! Every way to write to an argument without saying so.

use super::*;

#[test]
fn calls_and_unknown_operations() {
    assert_eq!(body("call @g(%a) : (memref<4xf32>) -> ()"), "inout in in");
    assert_eq!(
        body("func.call @g(%b) : (memref<4xf32>) -> ()"),
        "in inout in"
    );
    assert_eq!(
        body("\"x.y\"(%a, %c) : (memref<4xf32>, memref<4xf32>) -> ()"),
        "inout in inout"
    );
    assert_eq!(body("x.y %a, %b : memref<4xf32>"), "inout inout in");
    assert_eq!(
        body("%0 = memref.atomic_rmw addf %x, %a[%i] : (f32, memref<4xf32>) -> f32"),
        "inout in in"
    );
    assert_eq!(
        body("%0 = memref.extract_aligned_pointer_as_index %a : memref<4xf32> -> index"),
        "inout in in"
    );
}

#[test]
fn calls_of_views() {
    assert_eq!(
        body("%0 = memref.cast %a : memref<4xf32> to memref<?xf32>\nx.y %0 : memref<?xf32>"),
        "inout in in"
    );
}

#[test]
fn views_with_a_result_count() {
    assert_eq!(
        body(
            "%0:1 = memref.cast %a : memref<4xf32> to memref<?xf32>\nmemref.store %x, %0#0[%i] : memref<?xf32>"
        ),
        "inout in in"
    );
}

#[test]
fn selection_between_arguments() {
    assert_eq!(
        body(
            "%0 = arith.select %p, %a, %b : memref<4xf32>\nmemref.store %x, %0[%i] : memref<4xf32>"
        ),
        "inout inout in"
    );
}

#[test]
fn memory_carried_through_loops_and_branches() {
    assert_eq!(
        body(
            "%r = scf.for %j = %i to %i step %i iter_args(%m = %a) -> (memref<4xf32>) {\n\
             memref.store %x, %m[%j] : memref<4xf32>\n  scf.yield %b : memref<4xf32>\n}"
        ),
        "inout inout in"
    );
    assert_eq!(
        body(
            "%r = scf.if %p -> (memref<4xf32>) {\n scf.yield %a : memref<4xf32>\n} else {\n scf.yield %c : memref<4xf32>\n}"
        ),
        "inout in inout"
    );
    assert_eq!(
        body(
            "cf.br ^bb1(%a : memref<4xf32>)\n^bb1(%m: memref<4xf32>):\nmemref.store %x, %m[%i] : memref<4xf32>"
        ),
        "inout in in"
    );
}

#[test]
fn a_view_defined_later_in_the_text() {
    // Legal: ^bb2 defines %v and dominates ^bb1.
    assert_eq!(
        body(
            "cf.br ^bb2\n^bb1:\nmemref.store %x, %v[%i] : memref<?xf32>\ncf.br ^bb3\n\
             ^bb2:\n%v = memref.cast %a : memref<4xf32> to memref<?xf32>\ncf.br ^bb1\n^bb3:"
        ),
        "inout in in"
    );
}

#[test]
fn a_name_that_means_two_things_means_both() {
    assert_eq!(
        body(
            "scf.if %p {\n%0 = memref.cast %a : memref<4xf32> to memref<?xf32>\n}\n\
             scf.if %p {\n%0 = memref.cast %b : memref<4xf32> to memref<?xf32>\n\
             memref.store %x, %0[%i] : memref<?xf32>\n}"
        ),
        "inout inout in"
    );
}

#[test]
fn memory_stored_in_memory() {
    assert_eq!(
        of("func.func @k(%a: memref<4xf32>, %i: index) {\n\
            %m = memref.alloc() : memref<1xmemref<4xf32>>\n\
            memref.store %a, %m[%i] : memref<1xmemref<4xf32>>\nreturn\n}"),
        "inout"
    );
}

#[test]
fn tensors_that_may_still_be_the_memory() {
    let tensor = "bufferization.to_tensor %a";
    assert_eq!(
        body(&format!(
            "%0 = {tensor} restrict : memref<4xf32> to tensor<4xf32>"
        )),
        "in in in"
    );
    assert_eq!(
        body(&format!(
            "%0 = {tensor} restrict writable : memref<4xf32> to tensor<4xf32>"
        )),
        "inout in in"
    );
    assert_eq!(
        body(&format!(
            "%0 = {tensor} : memref<4xf32> to tensor<4xf32>\n\
             %1 = bufferization.to_buffer %0 : tensor<4xf32> to memref<4xf32>\n\
             memref.store %x, %1[%i] : memref<4xf32>"
        )),
        "inout in in"
    );
}

#[test]
fn unknown_operations_with_regions() {
    assert_eq!(
        body(
            "x.y {\n  %0 = memref.load %a[%i] : memref<4xf32>\n}\n%1 = memref.load %b[%i] : memref<4xf32>"
        ),
        "inout in in"
    );
    assert_eq!(
        body("\"x.y\"() ({\n^bb0:\n  %0 = memref.load %a[%i] : memref<4xf32>\n}) : () -> ()"),
        "inout in in"
    );
}

#[test]
fn several_operations_on_a_line() {
    assert_eq!(
        body("%0 = memref.load %a[%i] : memref<4xf32> memref.store %0, %b[%i] : memref<4xf32>"),
        "in inout in"
    );
    assert_eq!(
        body(
            "linalg.fill ins(%x : f32) outs(%a : memref<4xf32>) memref.store %x, %b[%i] : memref<4xf32>"
        ),
        "inout inout in"
    );
    assert_eq!(
        body(
            "\"linalg.fill\"(%x, %a) <{operandSegmentSizes = array<i32: 1, 1>}> ({\n^bb0(%in: f32, %out: f32):\n\
             linalg.yield %in : f32\n}) : (f32, memref<4xf32>) -> () \"memref.store\"(%x, %b, %i) : (f32, memref<4xf32>, index) -> ()"
        ),
        "inout inout in"
    );
    assert_eq!(
        body(
            "%v = memref.cast %a : memref<4xf32> to memref<?xf32> memref.store %x, %v[%i] : memref<?xf32>"
        ),
        "inout in in"
    );
}

#[test]
fn operations_over_several_lines_with_comments() {
    assert_eq!(
        body(
            "memref.store // into b\n  %x,\n  // here\n  %b[\n    %i] : memref<4xf32>\nmemref.copy\n  %a,\n  %c : memref<4xf32> to memref<4xf32>"
        ),
        "in inout out"
    );
}

#[test]
fn payloads_that_touch_memory() {
    assert_eq!(
        body(
            "linalg.generic {indexing_maps = [#id, #id], iterator_types = [\"parallel\"]} ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {\n\
             ^bb0(%in: f32, %out: f32):\n  memref.store %in, %c[%i] : memref<4xf32>\n  linalg.yield %in : f32\n}"
        ),
        "in inout inout"
    );
}

#[test]
fn values_at_odd_places_of_a_structured_operation() {
    assert_eq!(
        body("linalg.pack %a inner_dims_pos = [0] into %b : memref<4xf32> -> memref<4xf32>"),
        "inout inout in"
    );
    for group in ["(%c)", "(%c : memref<4xf32>) {\nx.y\n}"] {
        assert_eq!(
            body(&format!(
                "linalg.foo ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {group}"
            )),
            "inout inout inout"
        );
    }
}

/// The memory stays what it is under any layout or location.
#[test]
fn no_alias_that_stands_in_a_type_or_location() {
    for (of_type, location) in [
        ("memref<4xf32>", " loc(#l)"),
        ("memref<4xf32>", " loc(callsite(\"f\"(\"k.py\":1:1) at #l))"),
        ("memref<4xf32, #id>", ""),
    ] {
        let tensor = "tensor<4xf32>";
        for op in [
            format!("bufferization.to_tensor %a restrict : {of_type} to {tensor}"),
            format!("\"bufferization.to_tensor\"(%a) <{{restrict}}> : ({of_type}) -> {tensor}"),
        ] {
            let text = format!("%t = {op}{location}");
            let kernel = format!(
                "#l = loc(\"k.py\":1:1)\n#id = affine_map<(d0) -> (d0)>\n\
                 func.func @k(%a: {of_type}) {{\n{text}\nreturn\n}}"
            );
            assert_eq!(of(&kernel), "in", "{text}");
        }
    }
}

#[test]
fn no_input_of_a_reduction_in_generic_form() {
    assert_eq!(
        of(
            "func.func @k(%a: memref<4x8xf32>, %b: memref<4x8xf32>, %c: memref<4xf32>, %d: memref<4xf32>) {\n\
             \"linalg.reduce\"(%a, %b, %c, %d) <{dimensions = array<i64: 1>}> ({\n\
             ^bb0(%i: f32, %j: f32, %k: f32, %l: f32):\n  \"linalg.yield\"(%i, %l) : (f32, f32) -> ()\n\
             }) : (memref<4x8xf32>, memref<4x8xf32>, memref<4xf32>, memref<4xf32>) -> ()\nreturn\n}"
        ),
        "in in inout inout"
    );
}
