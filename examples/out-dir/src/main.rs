//! Calls a launcher that `npu-build compile --out-dir` wrote: no build script, and no npu-build when
//! this crate is compiled. The generated files may be checked in.
#![forbid(unsafe_code)]

include!("../generated/vecadd.rs");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = npu_runtime::Device::open(npu_runtime::Runtime::Cpu)?;
    let kernel = vecadd::Kernel::load(&device)?;

    let x = [1.0; 3000];
    let y: Vec<f32> = (0..3000u16).map(f32::from).collect();
    let mut out = vec![0.0; 3000];
    kernel.launch(3, &x, &y, &mut out, 3000)?;

    assert!(out.iter().zip(&y).all(|(out, y)| *out == 1.0 + y));
    println!("vecadd: 3000 sums are right; the last is {} + {} = {}", x[2999], y[2999], out[2999]);
    Ok(())
}
