//! Compiles the example kernels; each becomes a module in `src/lib.rs`.

use npu_build::{ScriptError, Target, build_script};

fn main() -> Result<(), ScriptError> {
    build_script()
        .target(Target::Cpu)
        .kernel("../kernels/vecadd.mlir")
        .kernel("../kernels/fma.mlir")
        .kernel("../kernels/softmax.mlir")
        .kernel("../kernels/matmul_i8.mlir")
        .kernel("../kernels/matmul_f32.mlir")
        .compile()
}
