//! Directions: what is proven stays narrow, and every way to hide a use widens them.

use npu_runtime::signature::{Direction, Kind};

use super::super::Module;

/// The directions of the memory arguments of the first kernel, as `in out inout`.
fn of(text: &str) -> String {
    let module = Module::scan(text.as_bytes()).unwrap();
    let kernel = module.select(None).unwrap()[0];
    let directions = kernel
        .signature
        .parameters
        .iter()
        .filter_map(|it| match it.kind {
            Kind::Memory { direction, .. } => Some(Direction::name(direction)),
            Kind::Scalar(_) => None,
        });
    directions.collect::<Vec<_>>().join(" ")
}

/// A function of `%a`, `%b` and `%c`, all `memref<4xf32>`, with a body.
fn body(text: &str) -> String {
    of(&format!(
        "#id = affine_map<(d0) -> (d0)>\n#flip = affine_map<(d0, d1) -> (d1, d0)>\n\
         func.func @k(%a: memref<4xf32>, %b: memref<4xf32>, %c: memref<4xf32>, %i: index, %x: f32, %p: i1) {{\n\
         {text}\nreturn\n}}\nfunc.func private @g(memref<4xf32>)"
    ))
}

mod reads_and_writes {
    use super::*;

    #[test]
    fn an_unused_argument_is_read_only() {
        assert_eq!(body(""), "in in in");
    }

    #[test]
    fn loads_read_and_stores_write() {
        assert_eq!(
            body(
                "%0 = memref.load %a[%i] {nontemporal = true} : memref<4xf32>\n\
                 memref.store %0, %b[%i] : memref<4xf32>\n\
                 %1 = affine.load %c[%i + 1] : memref<4xf32>"
            ),
            "in inout in"
        );
        assert_eq!(
            body(
                "%0 = vector.transfer_read %a[%i], %x {in_bounds = [true]} : memref<4xf32>, vector<4xf32>\n\
                 vector.transfer_write %0, %b[%i] : vector<4xf32>, memref<4xf32>\n\
                 vector.store %0, %c[%i] : memref<4xf32>, vector<4xf32>"
            ),
            "in inout inout"
        );
    }

    #[test]
    fn views_stand_for_their_argument() {
        assert_eq!(
            body(
                "%0 = memref.cast %a : memref<4xf32> to memref<?xf32>\n\
                 %1 = memref.subview %0[%i] [2] [1] : memref<?xf32> to memref<2xf32, strided<[1], offset: ?>>\n\
                 memref.store %x, %1[%i] : memref<2xf32, strided<[1], offset: ?>>\n\
                 %2 = memref.expand_shape %b [[0, 1]] output_shape [2, 2] : memref<4xf32> into memref<2x2xf32>\n\
                 %3 = memref.collapse_shape %2 [[0, 1]] : memref<2x2xf32> into memref<4xf32>\n\
                 %4 = memref.load %3[%i] : memref<4xf32>\n\
                 %5 = memref.reinterpret_cast %c to offset: [%i], sizes: [2], strides: [1] : memref<4xf32> to memref<2xf32, strided<[1], offset: ?>>\n\
                 memref.store %x, %5[%i] : memref<2xf32, strided<[1], offset: ?>>"
            ),
            "inout in inout"
        );
    }

    #[test]
    fn a_triton_kernel_reads_its_inputs_and_writes_its_output() {
        let text = "#map = affine_map<(d0) -> (d0)>\n\
            module {\n\
            func.func @add(%arg0: memref<*xf32> {tt.divisibility = 16 : i32}, %arg1: memref<*xf32>, %arg2: memref<*xf32>, \
            %arg3: i32, %arg4: i32, %arg5: i32, %arg6: i32, %arg7: i32, %arg8: i32, %arg9: i32) {\n\
            %c0 = arith.constant 0 : index\n\
            %cst = arith.constant 0.0 : f32\n\
            %0 = arith.muli %arg7, %arg3 : i32\n\
            %1 = arith.index_cast %0 : i32 to index\n\
            %reinterpret_cast = memref.reinterpret_cast %arg0 to offset: [%1], sizes: [1024], strides: [1] : memref<*xf32> to memref<1024xf32, strided<[1], offset: ?>>\n\
            %alloc = memref.alloc() : memref<1024xf32>\n\
            %p = arith.cmpi slt, %c0, %1 : index\n\
            scf.if %p {\n\
            linalg.fill ins(%cst : f32) outs(%alloc : memref<1024xf32>)\n\
            }\n\
            %subview = memref.subview %reinterpret_cast[0] [%1] [1] : memref<1024xf32, strided<[1], offset: ?>> to memref<?xf32, strided<[1], offset: ?>>\n\
            %subview_0 = memref.subview %alloc[0] [%1] [1] : memref<1024xf32> to memref<?xf32, strided<[1]>>\n\
            memref.copy %subview, %subview_0 : memref<?xf32, strided<[1], offset: ?>> to memref<?xf32, strided<[1]>>\n\
            %2 = bufferization.to_tensor %alloc restrict writable : memref<1024xf32> to tensor<1024xf32>\n\
            %rc = memref.reinterpret_cast %arg1 to offset: [%1], sizes: [1024], strides: [1] : memref<*xf32> to memref<1024xf32, strided<[1], offset: ?>>\n\
            %alloc_1 = memref.alloc() : memref<1024xf32>\n\
            memref.copy %rc, %alloc_1 : memref<1024xf32, strided<[1], offset: ?>> to memref<1024xf32>\n\
            %3 = bufferization.to_tensor %alloc_1 restrict writable : memref<1024xf32> to tensor<1024xf32>\n\
            %4 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = [\"parallel\"]} ins(%2, %3 : tensor<1024xf32>, tensor<1024xf32>) outs(%2 : tensor<1024xf32>) {\n\
            ^bb0(%in: f32, %in_2: f32, %out: f32):\n\
            %5 = arith.addf %in, %in_2 : f32\n\
            linalg.yield %5 : f32\n\
            } -> tensor<1024xf32>\n\
            %rc2 = memref.reinterpret_cast %arg2 to offset: [%1], sizes: [1024], strides: [1] : memref<*xf32> to memref<1024xf32, strided<[1], offset: ?>>\n\
            %slice = tensor.extract_slice %4[0] [%1] [1] : tensor<1024xf32> to tensor<?xf32>\n\
            %subview_3 = memref.subview %rc2[0] [%1] [1] : memref<1024xf32, strided<[1], offset: ?>> to memref<?xf32, strided<[1], offset: ?>>\n\
            bufferization.materialize_in_destination %slice in writable %subview_3 : (tensor<?xf32>, memref<?xf32, strided<[1], offset: ?>>) -> ()\n\
            return\n}\n}";
        assert_eq!(of(text), "in in inout");
    }

    #[test]
    fn shapes_are_no_reads_and_no_writes() {
        assert_eq!(body("%0 = memref.dim %a, %i : memref<4xf32>"), "in in in");
    }

    #[test]
    fn loops_and_branches_are_looked_into() {
        assert_eq!(
            body(
                "scf.for %j = %i to %i step %i {\n  scf.if %p {\n    memref.store %x, %a[%j] : memref<4xf32>\n  } else {\n\
                 %0 = memref.load %b[%j] : memref<4xf32>\n  }\n}\n\
                 affine.for %k = 0 to 4 {\n  affine.store %x, %c[%k] : memref<4xf32>\n}"
            ),
            "inout in inout"
        );
    }
}

#[test]
fn the_inputs_of_users() {
    for (text, expected) in [
        (
            include_str!("../../../tests/data/kernels/copy-into-larger.mlir"),
            "in inout",
        ),
        (
            include_str!("../../../tests/data/kernels/location-alias.mlir"),
            "in out",
        ),
    ] {
        assert_eq!(of(text), expected, "{text}");
    }
}

mod what_hides_a_use;

mod proven_overwritten;

mod runtime_sequences;

#[test]
fn what_an_alias_may_bring_is_not_taken_for_known() {
    // `writable` under an alias: the buffer itself may be changed.
    let aliased = "#p = {restrict, writable}\nfunc.func @k(%x: memref<4xf32>) {\n\
         %t = \"bufferization.to_tensor\"(%x) <#p> : (memref<4xf32>) -> tensor<4xf32>\n return\n}\n";
    // A trait brings the maps; the nested attribute of the same name says nothing.
    let nested = "#trait = {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0, d0)>], iterator_types = [\"parallel\"]}\n\
         func.func @k(%x: memref<4xf32>, %y: memref<4x4xf32>) {\n\
         linalg.generic #trait ins(%x : memref<4xf32>) outs(%y : memref<4x4xf32>) attrs = {foo = {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>]}} {\n\
         ^bb0(%a: f32, %b: f32):\n linalg.yield %a : f32\n }\n return\n}\n";
    for (text, argument) in [(aliased, 0), (nested, 1)] {
        let module = crate::kernel::Module::scan(text.as_bytes()).unwrap();
        let parameter = &module.kernels[0].signature.parameters[argument];
        let npu_runtime::Kind::Memory { direction, .. } = parameter.kind else {
            panic!("{parameter:?}");
        };
        assert_eq!(direction, npu_runtime::Direction::InOut, "{text}");
    }
}
