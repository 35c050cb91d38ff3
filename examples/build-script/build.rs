//! Compiles the example kernels; each becomes a module in `src/lib.rs`.

use npu_build::{ScriptError, Target, build_script};

fn main() -> Result<(), ScriptError> {
    build_script()
        .target(Target::Cpu)
        .kernel("../kernels/vecadd.mlir")
        .extents("x=n,y=n,out=n")
        .kernel("../kernels/fma.mlir")
        .extents("x=n,y=n,out=n")
        .kernel("../kernels/softmax.mlir")
        .extents("x=grid.x*cols,out=grid.x*cols")
        .kernel("../kernels/matmul_i8.mlir")
        .extents("a=m*k,b=k*n,c=m*n")
        .kernel("../kernels/matmul_f32.mlir")
        .compile()
}
