//! Kernels that both mlir-opt and the doubles of the AIE tools understand, and some for one of them.

/// `out = x + x` of 256 `f32`; it takes no grid.
pub const TWICE: &str = r#"func.func @twice(%x: memref<256xf32>, %out: memref<256xf32>) {
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : memref<256xf32>) outs(%out : memref<256xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  }
  return
}
"#;

/// `out = x + x`, one program for each 64 elements.
pub const TWICE_IN_PROGRAMS: &str = r#"func.func @programs(%x: memref<*xf32> {tt.divisibility = 16 : i32}, %out: memref<*xf32>, %nx: i32, %ny: i32, %nz: i32, %px: i32, %py: i32, %pz: i32) {
  %c64 = arith.constant 64 : i32
  %start = arith.muli %px, %c64 : i32
  %offset = arith.index_cast %start : i32 to index
  %xv = memref.reinterpret_cast %x to offset: [%offset], sizes: [64], strides: [1] : memref<*xf32> to memref<64xf32, strided<[1], offset: ?>>
  %ov = memref.reinterpret_cast %out to offset: [%offset], sizes: [64], strides: [1] : memref<*xf32> to memref<64xf32, strided<[1], offset: ?>>
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%xv : memref<64xf32, strided<[1], offset: ?>>) outs(%ov : memref<64xf32, strided<[1], offset: ?>>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  }
  return
}
"#;

/// `x = x + by`, for memory of any length, on cpu.
pub const COUNT: &str = "func.func @count(%x: memref<?xi32>, %by: i32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %x, %c0 : memref<?xi32>
  scf.for %i = %c0 to %n step %c1 {
    %old = memref.load %x[%i] : memref<?xi32>
    %new = arith.addi %old, %by : i32
    memref.store %new, %x[%i] : memref<?xi32>
  }
  return
}
";

/// `out = x`, of memory of one type, on cpu.
pub fn copying(of: &str) -> String {
    format!(
        "func.func @copying(%x: {of}, %out: {of}) {{
  memref.copy %x, %out : {of} to {of}
  return
}}
"
    )
}

/// At the AIE level: a sequence whose core multiplies 256 `i32` by an external variable.
pub fn scaled() -> String {
    xrt_double::kernels::combining("npu2", "arith.muli")
        .replacen("{\n", "{\n  aiex.scratchpad_parameter @scale : i32\n", 1)
        .replace(
            "%y = memref.load %bm[%i] : memref<256xi32>",
            "%y = aiex.read_scratchpad_parameter @scale : i32",
        )
        .replace(
            "      aiex.npu.load_pdi { device_ref = @main }\n",
            "      aiex.npu.load_pdi { device_ref = @main }\n      aiex.sync_scratchpad_parameters_from_host\n",
        )
}
