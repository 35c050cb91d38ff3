func.func @sums(%a: memref<1024x1024xf32>, %c: memref<1024xf32>) {
  linalg.reduce {arith.addf} ins(%a : memref<1024x1024xf32>) outs(%c : memref<1024xf32>) dimensions = [1]
  return
}
