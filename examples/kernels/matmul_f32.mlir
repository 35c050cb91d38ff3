// Matrix product in f32, 1024 x 1024: c[i][j] = sum over k of a[i][k] * b[k][j].
//
// Arguments: a, b (read) and c (overwritten), row-major, 1024 x 1024 each.
// Grid:      none; one call computes everything.
//
// The loops run in the order i, k, j: the innermost one walks a row of b and a
// row of c, so it vectorises, while every c[i][j] still adds up its products
// one by one for k = 0, 1, 2 ... and is bit for bit that of a plain scalar loop.
#row_of_a = affine_map<(i, k, j) -> (i, k)>
#row_of_b = affine_map<(i, k, j) -> (k, j)>
#row_of_c = affine_map<(i, k, j) -> (i, j)>

module {
  func.func @matmul_f32(%a: memref<1024x1024xf32>, %b: memref<1024x1024xf32>, %c: memref<1024x1024xf32>) {
    %zero = arith.constant 0.000000e+00 : f32
    linalg.fill ins(%zero : f32) outs(%c : memref<1024x1024xf32>)
    linalg.generic {
        indexing_maps = [#row_of_a, #row_of_b, #row_of_c],
        iterator_types = ["parallel", "reduction", "parallel"]
      } ins(%a, %b : memref<1024x1024xf32>, memref<1024x1024xf32>) outs(%c : memref<1024x1024xf32>) {
    ^bb0(%x: f32, %y: f32, %acc: f32):
      %product = arith.mulf %x, %y : f32
      %sum = arith.addf %acc, %product : f32
      linalg.yield %sum : f32
    }
    return
  }
}
