// Matrix product of 8-bit integers with 32-bit accumulation:
//   c[i][j] = sum over p of a[i][p] * b[p][j]
// with both factors sign-extended to i32 and sums that wrap around in i32.
//
// Arguments: a (m x k, read), b (k x n, read), c (m x n, written), all
//            row-major and dense; m, n, k, of any size.
// Grid:      (ceil(m / 32), ceil(n / 32), 1), one program per 32 x 32 tile of c.
//
// k is walked in steps of 32. What a tile has past the matrix's edge is loaded
// as 0 and not stored. The last six arguments are the launcher's: number of
// programs along x, y, z, then this program's position along x, y, z.
module {
  func.func @matmul_i8(%a: memref<*xi8> {tt.divisibility = 16 : i32},
                       %b: memref<*xi8> {tt.divisibility = 16 : i32},
                       %c: memref<*xi32> {tt.divisibility = 16 : i32},
                       %m: i32, %n: i32, %k: i32,
                       %num_x: i32, %num_y: i32, %num_z: i32,
                       %pid_x: i32, %pid_y: i32, %pid_z: i32) {
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %zero_i8 = arith.constant 0 : i8
    %zero_i32 = arith.constant 0 : i32

    // The tile's first row and column, and how many of each lie inside c.
    %rows_of_a = arith.index_cast %m : i32 to index
    %stride_b = arith.index_cast %n : i32 to index
    %stride_a = arith.index_cast %k : i32 to index
    %tile_i = arith.index_cast %pid_x : i32 to index
    %tile_j = arith.index_cast %pid_y : i32 to index
    %i = arith.muli %tile_i, %c32 : index
    %j = arith.muli %tile_j, %c32 : index
    %rows_left = arith.subi %rows_of_a, %i : index
    %rows_most = arith.minsi %rows_left, %c32 : index
    %rows = arith.maxsi %rows_most, %c0 : index
    %cols_left = arith.subi %stride_b, %j : index
    %cols_most = arith.minsi %cols_left, %c32 : index
    %cols = arith.maxsi %cols_most, %c0 : index
    %a_row = arith.muli %i, %stride_a : index

    %empty = tensor.empty() : tensor<32x32xi32>
    %zeros = linalg.fill ins(%zero_i32 : i32) outs(%empty : tensor<32x32xi32>) -> tensor<32x32xi32>
    %product = scf.for %p = %c0 to %stride_a step %c32 iter_args(%acc = %zeros) -> (tensor<32x32xi32>) {
      %depth_left = arith.subi %stride_a, %p : index
      %depth = arith.minsi %depth_left, %c32 : index

      // Masked 2-D loads, 0 where the mask is off.
      %a_offset = arith.addi %a_row, %p : index
      %a_tile = memref.reinterpret_cast %a to offset: [%a_offset], sizes: [32, 32], strides: [%stride_a, 1] : memref<*xi8> to memref<32x32xi8, strided<[?, 1], offset: ?>>
      %a_local = memref.alloc() : memref<32x32xi8>
      linalg.fill ins(%zero_i8 : i8) outs(%a_local : memref<32x32xi8>)
      %a_from = memref.subview %a_tile[0, 0] [%rows, %depth] [1, 1] : memref<32x32xi8, strided<[?, 1], offset: ?>> to memref<?x?xi8, strided<[?, 1], offset: ?>>
      %a_to = memref.subview %a_local[0, 0] [%rows, %depth] [1, 1] : memref<32x32xi8> to memref<?x?xi8, strided<[32, 1]>>
      memref.copy %a_from, %a_to : memref<?x?xi8, strided<[?, 1], offset: ?>> to memref<?x?xi8, strided<[32, 1]>>
      %a_values = bufferization.to_tensor %a_local restrict writable : memref<32x32xi8> to tensor<32x32xi8>

      %b_row = arith.muli %p, %stride_b : index
      %b_offset = arith.addi %b_row, %j : index
      %b_tile = memref.reinterpret_cast %b to offset: [%b_offset], sizes: [32, 32], strides: [%stride_b, 1] : memref<*xi8> to memref<32x32xi8, strided<[?, 1], offset: ?>>
      %b_local = memref.alloc() : memref<32x32xi8>
      linalg.fill ins(%zero_i8 : i8) outs(%b_local : memref<32x32xi8>)
      %b_from = memref.subview %b_tile[0, 0] [%depth, %cols] [1, 1] : memref<32x32xi8, strided<[?, 1], offset: ?>> to memref<?x?xi8, strided<[?, 1], offset: ?>>
      %b_to = memref.subview %b_local[0, 0] [%depth, %cols] [1, 1] : memref<32x32xi8> to memref<?x?xi8, strided<[32, 1]>>
      memref.copy %b_from, %b_to : memref<?x?xi8, strided<[?, 1], offset: ?>> to memref<?x?xi8, strided<[32, 1]>>
      %b_values = bufferization.to_tensor %b_local restrict writable : memref<32x32xi8> to tensor<32x32xi8>

      // linalg.matmul sign-extends its factors to the type of its result.
      %next = linalg.matmul ins(%a_values, %b_values : tensor<32x32xi8>, tensor<32x32xi8>) outs(%acc : tensor<32x32xi32>) -> tensor<32x32xi32>
      scf.yield %next : tensor<32x32xi32>
    }

    // Masked 2-D store.
    %c_row = arith.muli %i, %stride_b : index
    %c_offset = arith.addi %c_row, %j : index
    %c_tile = memref.reinterpret_cast %c to offset: [%c_offset], sizes: [32, 32], strides: [%stride_b, 1] : memref<*xi32> to memref<32x32xi32, strided<[?, 1], offset: ?>>
    %result = tensor.extract_slice %product[0, 0] [%rows, %cols] [1, 1] : tensor<32x32xi32> to tensor<?x?xi32>
    %c_to = memref.subview %c_tile[0, 0] [%rows, %cols] [1, 1] : memref<32x32xi32, strided<[?, 1], offset: ?>> to memref<?x?xi32, strided<[?, 1], offset: ?>>
    bufferization.materialize_in_destination %result in writable %c_to : (tensor<?x?xi32>, memref<?x?xi32, strided<[?, 1], offset: ?>>) -> ()
    return
  }
}
