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

mod what_hides_a_use {
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
            of(
                "func.func @k(%a: memref<4xf32>, %m: memref<1xmemref<4xf32>>, %i: index) {\n\
                memref.store %a, %m[%i] : memref<1xmemref<4xf32>>\nreturn\n}"
            ),
            "inout inout"
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
        assert_eq!(
            body("linalg.foo ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) (%c)"),
            "inout inout inout"
        );
    }
}

mod proven_overwritten {
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
        let matmul = "linalg.matmul ins(%a, %b : memref<4x4xf32>, memref<4x4xf32>) outs(%c : memref<4x4xf32>)";
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
}

mod runtime_sequences {
    use super::*;

    fn device(sequence: &str) -> String {
        of(&format!(
            "aie.device(npu1) {{\n\
             %shim = aie.tile(0, 0)\n%mem = aie.tile(0, 1)\n%core = aie.tile(0, 2)\n\
             %odd = aie.logical_tile<CoreTile>(?, ?)\n%port = aie.logical_tile<ShimNOCTile>(?, ?)\n\
             aie.objectfifo @in(%shim, {{%mem, %core}}, 2 : i32) : !aie.objectfifo<memref<4xi32>>\n\
             aie.objectfifo @out(%mem dimensionsToStream [<size = 2, stride = 2>], {{%shim dimensionsFromStream [<size = 2, stride = 1>]}}, 2 : i32) : !aie.objectfifo<memref<4xi32>>\n\
             aie.objectfifo @both(%shim, {{%shim}}, 2 : i32) : !aie.objectfifo<memref<4xi32>>\n\
             aie.objectfifo @inner(%mem, {{%core}}, 2 : i32) : !aie.objectfifo<memref<4xi32>>\n\
             aie.objectfifo @strange(%elsewhere, {{%mem}}, 2 : i32) : !aie.objectfifo<memref<4xi32>>\n\
             aie.objectfifo @logical(%odd, {{%port}}, 2 : i32) : !aie.objectfifo<memref<4xi32>>\n\
             aie.shim_dma_allocation @to_array(%shim, MM2S, 0)\n\
             aie.shim_dma_allocation @from_array(S2MM, 0, 0)\n\
             aie.runtime_sequence(%a: memref<4xi32>, %b: memref<4xi32>) {{\n{sequence}\n}}\n}}"
        ))
    }

    fn copy(argument: &str, fifo: &str) -> String {
        format!(
            "aiex.npu.dma_memcpy_nd(%{argument}[0, 0, 0, 0][1, 1, 1, 4][0, 0, 0, 1]) {{id = 0 : i64, metadata = @{fifo}}} : memref<4xi32>"
        )
    }

    #[test]
    fn fifos_from_the_shim_read_and_those_to_it_write() {
        assert_eq!(
            device(&format!("{}\n{}", copy("a", "in"), copy("b", "out"))),
            "in inout"
        );
        assert_eq!(device(&copy("a", "logical")), "inout in");
        assert_eq!(
            device(&format!(
                "{}\n{}",
                copy("a", "to_array"),
                copy("b", "from_array")
            )),
            "in inout"
        );
    }

    #[test]
    fn other_fifos_may_do_both() {
        for fifo in ["both", "inner", "strange", "missing"] {
            assert_eq!(device(&copy("a", fifo)), "inout in", "{fifo}");
        }
    }

    #[test]
    fn tasks_move_what_their_descriptors_name() {
        let task = |head: &str, argument: &str| {
            format!(
                "%t{argument} = {head} {{\n  aie.dma_bd(%{argument} : memref<4xi32> offset = 0 len = %n)\n  aie.end\n}} {{issue_token = true}}\naiex.dma_start_task(%t{argument})"
            )
        };
        let two = |a: &str, b: &str| device(&format!("{}\n{}", task(a, "a"), task(b, "b")));
        assert_eq!(
            two(
                "aiex.dma_configure_task_for @in",
                "aiex.dma_configure_task_for @out"
            ),
            "in inout"
        );
        assert_eq!(
            two(
                "aiex.dma_configure_task(%shim, MM2S, 0)",
                "aiex.dma_configure_task(%shim, S2MM, 0)"
            ),
            "in inout"
        );
        assert_eq!(
            two("aiex.dma_configure_task_for @missing", "x.y"),
            "inout inout"
        );
    }

    #[test]
    fn loops_are_looked_into() {
        let text = format!(
            "scf.for %i = %l to %u step %s {{\n{}\n{}\n}}",
            copy("a", "in"),
            copy("b", "out")
        );
        assert_eq!(device(&text), "in inout");
    }

    #[test]
    fn older_spellings_mean_the_same() {
        assert_eq!(
            device(
                "aiex.npu.dma_memcpy_nd (0, 0, %a[%c0, %c0, %c0, %c0][%c1, %c1, %c1, %c4][%c0, %c0, %c0]) {id = 0 : i64, metadata = @in} : memref<4xi32>\n\
                 aiex.ipu.dma_memcpy_nd(0, 0, %b[0, 0, 0, 0][1, 1, 1, 4][0, 0, 0]) {id = 1 : i64, metadata = @out} : memref<4xi32>"
            ),
            "in inout"
        );
    }

    #[test]
    fn operations_that_name_arguments_by_number_reach_them_all() {
        for op in [
            "aiex.npu.address_patch {addr = 118788 : ui32, arg_idx = 0 : i32, arg_plus = 0 : i32}",
            "aiex.npu.blockwrite(%0) {address = 118784 : ui32} : memref<8xi32>",
            "aiex.configure @other {\n  aiex.run @sequence(%a, %b) : (memref<4xi32>, memref<4xi32>)\n}",
            "aie.trace.host_config {buffer_size = 8192 : i32}",
            "\"x.y\"() : () -> ()",
        ] {
            assert_eq!(
                device(&format!("{}\n{op}", copy("a", "in"))),
                "inout inout",
                "{op}"
            );
        }
        for op in [
            "aiex.npu.dma_wait {symbol = @out}",
            "%c = arith.constant 0 : i64",
            "aiex.npu.load_pdi {device_ref = @d}",
        ] {
            assert_eq!(
                device(&format!("{}\n{op}", copy("a", "in"))),
                "in in",
                "{op}"
            );
        }
    }

    #[test]
    fn the_generic_form_means_the_same() {
        let text = "\"aie.device\"() <{device = 4 : i32}> ({\n\
            %0 = \"aie.tile\"() <{col = 0 : i32, row = 0 : i32}> : () -> index\n\
            %1 = \"aie.tile\"() <{col = 0 : i32, row = 1 : i32}> : () -> index\n\
            \"aie.objectfifo\"(%0, %1) <{dimensionsFromStreamPerConsumer = #aie<bd_dim_layout_array_array[[]]>, elemNumber = 2 : i32, elemType = !aie.objectfifo<memref<4xi32>>, sym_name = \"in\"}> : (index, index) -> ()\n\
            \"aie.objectfifo\"(%1, %0) <{elemNumber = 2 : i32, sym_name = \"out\"}> : (index, index) -> ()\n\
            \"aie.runtime_sequence\"() ({\n^bb0(%arg0: memref<4xi32>, %arg1: memref<4xi32>, %arg2: memref<4xi32>):\n\
            \"aiex.npu.dma_memcpy_nd\"(%arg0) <{id = 1 : i64, metadata = @in, static_offsets = array<i64: 0, 0, 0, 0>}> : (memref<4xi32>) -> ()\n\
            %2 = \"aiex.dma_configure_task_for\"() <{alloc = @out, issue_token = true}> ({\n\
            \"aie.dma_bd\"(%arg1) <{len = 4 : i32, offset = 0 : i32}> : (memref<4xi32>) -> ()\n\
            \"aie.end\"() : () -> ()\n}) : () -> index\n\
            \"aiex.dma_start_task\"(%2) : (index) -> ()\n\
            \"aiex.npu.dma_memcpy_nd\"(%arg2) <{id = 2 : i64, metadata = @out}> : (memref<4xi32>) -> ()\n\
            }) : () -> ()\n}) : () -> ()";
        assert_eq!(of(text), "in inout inout");
    }
}
