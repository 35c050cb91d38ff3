//! Directions at the AIE level.

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
        "aie.trace.host_config {arg_idx = 1 : i32, buffer_size = 8192 : i32}",
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

/// The oldest form has the place of the shim before the memory, as values.
#[test]
fn what_is_moved_is_memory() {
    let text = include_str!("../../../../tests/data/kernels/old-ipu-dma.mlir");
    assert_eq!(of(text), "in inout");
    // The controller's operations make it a sequence, whatever its name.
    assert_eq!(of(&text.replace("@sequence", "@other")), "in inout");
    let generic = "\"aiex.ipu.dma_memcpy_nd\"(%c0, %c0, %b, %c0, %c1) <{id = 0 : i32, metadata = @in}> : (i32, i32, memref<4xi32>, i32, i32) -> ()";
    assert_eq!(device(generic), "in in");
    assert_eq!(device(&generic.replace("@in", "@out")), "in inout");
}

/// As aie-opt prints allocations and tasks that name their channel: S2MM is 0, MM2S is 1.
#[test]
fn the_generic_form_has_numbers_for_directions() {
    let text = |read: &str, write: &str| {
        format!(
            "\"aie.device\"() <{{device = 4 : i32, sym_name = \"main\"}}> ({{\n\
             %0 = \"aie.tile\"() <{{col = 0 : i32, row = 0 : i32}}> : () -> index\n\
             \"aie.shim_dma_allocation\"(%0) <{{channel_dir = {read} : i32, channel_index = 0 : i64, plio = false, sym_name = \"r\"}}> : (index) -> ()\n\
             \"aie.shim_dma_allocation\"(%0) <{{channel_dir = {write} : i32, channel_index = 1 : i64, plio = false, sym_name = \"w\"}}> : (index) -> ()\n\
             \"aie.runtime_sequence\"() <{{sym_name = \"sequence\"}}> ({{\n\
             ^bb0(%a: memref<4xi32>, %b: memref<4xi32>, %c: memref<4xi32>, %d: memref<4xi32>):\n\
             \"aiex.npu.dma_memcpy_nd\"(%a) <{{id = 1 : i64, metadata = @r}}> : (memref<4xi32>) -> ()\n\
             \"aiex.npu.dma_memcpy_nd\"(%b) <{{id = 2 : i64, metadata = @w}}> : (memref<4xi32>) -> ()\n\
             %1 = \"aiex.dma_configure_task\"(%0) <{{channel = 0 : i32, direction = {read} : i32}}> ({{\n\
             \"aie.dma_bd\"(%c) <{{len = 4 : i32, offset = 0 : i32}}> : (memref<4xi32>) -> ()\n\"aie.end\"() : () -> ()\n}}) : (index) -> index\n\
             %2 = \"aiex.dma_configure_task\"(%0) <{{channel = 0 : i32, direction = {write} : i32}}> ({{\n\
             \"aie.dma_bd\"(%d) <{{len = 4 : i32, offset = 0 : i32}}> : (memref<4xi32>) -> ()\n\"aie.end\"() : () -> ()\n}}) : (index) -> index\n\
             }}) : () -> ()\n}}) : () -> ()"
        )
    };
    assert_eq!(of(&text("1", "0")), "in inout in inout");
    assert_eq!(of(&text("0", "2")), "inout inout inout inout");
}
