//! Lays out everything that a machine with an NPU has, emulated: the AIE tools, XRT and ROCR. What it
//! prints makes npu-build and host programs use them:
//!
//! `eval "$(cargo run --quiet --example emulate -- /tmp/npu)"`
#![expect(clippy::print_stdout, reason = "an example shows what it did")]

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .ok_or("usage: emulate DIRECTORY, where there is nothing yet")?;
    if root.exists() {
        return Err(format!("{} is there already", root.display()).into());
    }
    std::fs::create_dir_all(&root)?;
    let root = root.canonicalize()?;
    let tools = aie_tools::install::Installation::new(&root, 3)?;
    let xrt = root.join("xrt");
    xrt_double::Installation::new(&xrt)?;
    let rocm = root.join("rocm");
    rocr_double::install::install(&rocm)?;
    println!("export VIRTUAL_ENV='{}'", tools.venv().display());
    println!("export XILINX_XRT='{}'", xrt.display());
    println!("export ROCM_PATH='{}'", rocm.display());
    println!(
        "# The device is an npu2; for an npu1: export ROCR_DOUBLE_AGENT=aie2 XRT_DOUBLE_DEVICE=npu1"
    );
    Ok(())
}
