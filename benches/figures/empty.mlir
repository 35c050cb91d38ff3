// Does nothing with three buffers: a launch of it costs what a launch costs.
func.func @empty(%a: memref<*xf32>, %b: memref<*xf32>, %c: memref<*xf32>) {
  return
}
