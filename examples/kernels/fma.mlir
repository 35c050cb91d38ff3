// Fused multiply-add in f32: out[i] = a * x[i] + y[i] for 0 <= i < n, any n >= 0,
// rounded once (Rust's `a.mul_add(x[i], y[i])`, C's `fmaf`).
//
// Arguments: a, the scalar factor; x, y (read) and out (written), n elements
//            each; n.
// Grid:      (ceil(n / 1024), 1, 1), one program per block of 1024 elements.
//
// Elements of out from n on keep their value, so a grid that is too large does
// no harm. The last six arguments are the launcher's: number of programs along
// x, y, z, then this program's position along x, y, z.
module {
  func.func @fma(%a: f32,
                 %x: memref<*xf32> {tt.divisibility = 16 : i32},
                 %y: memref<*xf32> {tt.divisibility = 16 : i32},
                 %out: memref<*xf32> {tt.divisibility = 16 : i32},
                 %n: i32,
                 %num_x: i32, %num_y: i32, %num_z: i32,
                 %pid_x: i32, %pid_y: i32, %pid_z: i32) {
    %c1024 = arith.constant 1024 : index

    // This program's elements: [start, start + count), with count clamped to
    // what is left of n (none, for a program past the end).
    %pid = arith.index_cast %pid_x : i32 to index
    %size = arith.index_cast %n : i32 to index
    %start = arith.muli %pid, %c1024 : index
    %block_end = arith.addi %start, %c1024 : index
    %end = arith.minsi %block_end, %size : index
    %stop = arith.maxsi %end, %start : index
    %count = arith.subi %stop, %start : index

    // The scalar, spread over a block.
    %empty = tensor.empty() : tensor<1024xf32>
    %a_values = linalg.fill ins(%a : f32) outs(%empty : tensor<1024xf32>) -> tensor<1024xf32>

    // Masked loads: what a block holds past count is undefined, and not stored.
    %x_block = memref.reinterpret_cast %x to offset: [%start], sizes: [1024], strides: [1] : memref<*xf32> to memref<1024xf32, strided<[1], offset: ?>>
    %x_local = memref.alloc() : memref<1024xf32>
    %x_from = memref.subview %x_block[0] [%count] [1] : memref<1024xf32, strided<[1], offset: ?>> to memref<?xf32, strided<[1], offset: ?>>
    %x_to = memref.subview %x_local[0] [%count] [1] : memref<1024xf32> to memref<?xf32, strided<[1]>>
    memref.copy %x_from, %x_to : memref<?xf32, strided<[1], offset: ?>> to memref<?xf32, strided<[1]>>
    %x_values = bufferization.to_tensor %x_local restrict writable : memref<1024xf32> to tensor<1024xf32>

    %y_block = memref.reinterpret_cast %y to offset: [%start], sizes: [1024], strides: [1] : memref<*xf32> to memref<1024xf32, strided<[1], offset: ?>>
    %y_local = memref.alloc() : memref<1024xf32>
    %y_from = memref.subview %y_block[0] [%count] [1] : memref<1024xf32, strided<[1], offset: ?>> to memref<?xf32, strided<[1], offset: ?>>
    %y_to = memref.subview %y_local[0] [%count] [1] : memref<1024xf32> to memref<?xf32, strided<[1]>>
    memref.copy %y_from, %y_to : memref<?xf32, strided<[1], offset: ?>> to memref<?xf32, strided<[1]>>
    %y_values = bufferization.to_tensor %y_local restrict writable : memref<1024xf32> to tensor<1024xf32>

    %sum = linalg.generic {
        indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
        iterator_types = ["parallel"]
      } ins(%a_values, %x_values, %y_values : tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>) outs(%a_values : tensor<1024xf32>) {
    ^bb0(%factor: f32, %x_value: f32, %y_value: f32, %unused: f32):
      %s = math.fma %factor, %x_value, %y_value : f32
      linalg.yield %s : f32
    } -> tensor<1024xf32>

    // Masked store.
    %out_block = memref.reinterpret_cast %out to offset: [%start], sizes: [1024], strides: [1] : memref<*xf32> to memref<1024xf32, strided<[1], offset: ?>>
    %result = tensor.extract_slice %sum[0] [%count] [1] : tensor<1024xf32> to tensor<?xf32>
    %out_to = memref.subview %out_block[0] [%count] [1] : memref<1024xf32, strided<[1], offset: ?>> to memref<?xf32, strided<[1], offset: ?>>
    bufferization.materialize_in_destination %result in writable %out_to : (tensor<?xf32>, memref<?xf32, strided<[1], offset: ?>>) -> ()
    return
  }
}
