//! A warm hit for an NPU beside ccache's: a full ELF of a megabyte and the hsaco around it, both
//! verified by content.
//!
//! The tools are the test doubles, whose aiecc gets a companion that pads the full ELF: a hit never
//! runs them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use aie_tools::install::Installation;

use crate::command::beside_ccache;
use crate::scene::Scene;
use crate::table::Table;

/// What the full ELF is padded to.
const SIZE: u64 = 1 << 20;

/// The hit of `compile --target npu2 --runtime hsa`.
pub fn hit(scene: &Scene, table: &mut Table) {
    const FIGURE: &str = "hit, npu2 and hsa, 1 MiB / ccache's";
    let mut ours = match warm(scene) {
        Ok(command) => command,
        Err(reason) => return table.missing(FIGURE, reason),
    };
    beside_ccache(scene, table, FIGURE, 1.0, &mut ours);
}

/// The command whose hit is measured, after it has missed once.
fn warm(scene: &Scene) -> Result<Command, String> {
    let told = |error: std::io::Error| error.to_string();
    let tools = Installation::new(&scene.path().join("tools"), 3).map_err(told)?;
    let aiebu = tools.tool("aiebu-asm");
    let real = aiebu.with_file_name("aiebu-asm-real");
    fs::rename(&aiebu, &real).map_err(told)?;
    let script = format!(
        "#!/bin/sh\n'{}' \"$@\" && for last; do :; done && truncate -s {SIZE} \"$last\"\n",
        real.display()
    );
    fs::write(&aiebu, script).map_err(told)?;
    fs::set_permissions(&aiebu, fs::Permissions::from_mode(0o755)).map_err(told)?;
    let kernel = scene.kernel("tests/data/aie/copy_npu2/kernel.mlir");
    let name = kernel.file_name().unwrap_or_default().to_string_lossy();
    let mut command = scene.npu_build(&["compile", &name, "--runtime", "hsa"]);
    command
        .env("VIRTUAL_ENV", tools.venv())
        .env("XILINX_XRT", scene.path().join("tools/xrt"));
    let output = command.output().map_err(told)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let made = String::from_utf8_lossy(&output.stdout).into_owned();
    let hsaco = made.lines().next().unwrap_or_default();
    let size = fs::metadata(hsaco).map_err(told)?.len();
    assert!(size > SIZE, "an hsaco of {size} bytes holds no such ELF");
    Ok(command)
}
