// Softmax of every row of a matrix in bf16:
//   out[r][c] = exp(x[r][c] - max(x[r])) / sum over k of exp(x[r][k] - max(x[r]))
// computed in f32 and rounded to bf16 once, at the store.
//
// Arguments: x (read) and out (written), row-major, rows * cols elements each;
//            cols, the length of a row, 1 <= cols <= 1024.
// Grid:      (rows, 1, 1), one program per row.
//
// A block holds 1024 elements; those past the row's end are loaded as -inf, so
// that they add nothing to the sum, and are not stored. The last six arguments
// are the launcher's: number of programs along x, y, z, then this program's
// position along x, y, z.
module {
  func.func @softmax(%x: memref<*xbf16> {tt.divisibility = 16 : i32},
                     %out: memref<*xbf16> {tt.divisibility = 16 : i32},
                     %cols: i32,
                     %num_x: i32, %num_y: i32, %num_z: i32,
                     %pid_x: i32, %pid_y: i32, %pid_z: i32) {
    %c0 = arith.constant 0 : index
    %c1024 = arith.constant 1024 : index
    %zero = arith.constant 0.000000e+00 : f32
    %minus_inf = arith.constant 0xFF800000 : f32
    %minus_inf_bf16 = arith.constant 0xFF80 : bf16

    %row = arith.index_cast %pid_x : i32 to index
    %length = arith.index_cast %cols : i32 to index
    %start = arith.muli %row, %length : index
    %most = arith.minsi %length, %c1024 : index
    %count = arith.maxsi %most, %c0 : index

    // Masked load, -inf where the mask is off.
    %x_row = memref.reinterpret_cast %x to offset: [%start], sizes: [1024], strides: [1] : memref<*xbf16> to memref<1024xbf16, strided<[1], offset: ?>>
    %local = memref.alloc() : memref<1024xbf16>
    %padded = arith.cmpi slt, %count, %c1024 : index
    scf.if %padded {
      linalg.fill ins(%minus_inf_bf16 : bf16) outs(%local : memref<1024xbf16>)
    }
    %from = memref.subview %x_row[0] [%count] [1] : memref<1024xbf16, strided<[1], offset: ?>> to memref<?xbf16, strided<[1], offset: ?>>
    %to = memref.subview %local[0] [%count] [1] : memref<1024xbf16> to memref<?xbf16, strided<[1]>>
    memref.copy %from, %to : memref<?xbf16, strided<[1], offset: ?>> to memref<?xbf16, strided<[1]>>
    %loaded = bufferization.to_tensor %local restrict writable : memref<1024xbf16> to tensor<1024xbf16>

    %empty = tensor.empty() : tensor<1024xf32>
    %values = linalg.generic {
        indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
        iterator_types = ["parallel"]
      } ins(%loaded : tensor<1024xbf16>) outs(%empty : tensor<1024xf32>) {
    ^bb0(%in: bf16, %unused: f32):
      %wide = arith.extf %in : bf16 to f32
      linalg.yield %wide : f32
    } -> tensor<1024xf32>

    // The row's maximum, taken off every element so that exp cannot overflow.
    %max_scalar = bufferization.alloc_tensor() : tensor<f32>
    %max_init = tensor.insert %minus_inf into %max_scalar[] : tensor<f32>
    %max_reduced = linalg.reduce ins(%values : tensor<1024xf32>) outs(%max_init : tensor<f32>) dimensions = [0]
      (%in: f32, %acc: f32) {
        %m = arith.maximumf %in, %acc : f32
        linalg.yield %m : f32
      }
    %max = tensor.extract %max_reduced[] : tensor<f32>
    %max_empty = tensor.empty() : tensor<1024xf32>
    %max_values = linalg.fill ins(%max : f32) outs(%max_empty : tensor<1024xf32>) -> tensor<1024xf32>

    %exps = linalg.generic {
        indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
        iterator_types = ["parallel"]
      } ins(%values, %max_values : tensor<1024xf32>, tensor<1024xf32>) outs(%values : tensor<1024xf32>) {
    ^bb0(%value: f32, %top: f32, %unused: f32):
      %shifted = arith.subf %value, %top : f32
      %e = math.exp %shifted : f32
      linalg.yield %e : f32
    } -> tensor<1024xf32>

    %sum_scalar = bufferization.alloc_tensor() : tensor<f32>
    %sum_init = tensor.insert %zero into %sum_scalar[] : tensor<f32>
    %sum_reduced = linalg.reduce ins(%exps : tensor<1024xf32>) outs(%sum_init : tensor<f32>) dimensions = [0]
      (%in: f32, %acc: f32) {
        %s = arith.addf %in, %acc : f32
        linalg.yield %s : f32
      }
    %sum = tensor.extract %sum_reduced[] : tensor<f32>
    %sum_empty = tensor.empty() : tensor<1024xf32>
    %sum_values = linalg.fill ins(%sum : f32) outs(%sum_empty : tensor<1024xf32>) -> tensor<1024xf32>

    %quotients = linalg.generic {
        indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
        iterator_types = ["parallel"]
      } ins(%exps, %sum_values : tensor<1024xf32>, tensor<1024xf32>) outs(%exps : tensor<1024xf32>) {
    ^bb0(%e: f32, %total: f32, %unused: f32):
      %q = arith.divf %e, %total : f32
      linalg.yield %q : f32
    } -> tensor<1024xf32>

    %narrow_empty = tensor.empty() : tensor<1024xbf16>
    %narrow = linalg.generic {
        indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
        iterator_types = ["parallel"]
      } ins(%quotients : tensor<1024xf32>) outs(%narrow_empty : tensor<1024xbf16>) {
    ^bb0(%in: f32, %unused: bf16):
      %rounded = arith.truncf %in : f32 to bf16
      linalg.yield %rounded : bf16
    } -> tensor<1024xbf16>

    // Masked store.
    %out_row = memref.reinterpret_cast %out to offset: [%start], sizes: [1024], strides: [1] : memref<*xbf16> to memref<1024xbf16, strided<[1], offset: ?>>
    %result = tensor.extract_slice %narrow[0] [%count] [1] : tensor<1024xbf16> to tensor<?xbf16>
    %out_to = memref.subview %out_row[0] [%count] [1] : memref<1024xbf16, strided<[1], offset: ?>> to memref<?xbf16, strided<[1], offset: ?>>
    bufferization.materialize_in_destination %result in writable %out_to : (tensor<?xbf16>, memref<?xbf16, strided<[1], offset: ?>>) -> ()
    return
  }
}
