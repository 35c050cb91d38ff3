//! Where the launch shim is, and whether there is an XRT at all.

use std::env;
use std::path::{Path, PathBuf};

/// Names the shim.
pub(super) const VARIABLE: &str = "NPU_RUNTIME_XRT_SHIM";

/// The shim's file name, where nothing names it.
pub(super) const NAME: &str = "libnpu_xrt_shim.so";

/// The file that is the shim, and what makes it that. A variable that is set to nothing is as good
/// as one that is not set.
pub(super) fn shim() -> (PathBuf, &'static str) {
    if let Some(path) = named(VARIABLE) {
        return (path, VARIABLE);
    }
    let program = env::current_exe().unwrap_or_default();
    (program.with_file_name(NAME), "beside the program")
}

/// Whether there is a shim or an XRT that one can be built for.
pub(super) fn is_installed() -> bool {
    let root = named("XILINX_XRT").unwrap_or_else(|| "/opt/xilinx/xrt".into());
    let has_library = |directory: &str| has_library(&root.join(directory));
    shim().0.is_file() || has_library("lib") || has_library("lib64")
}

fn has_library(directory: &Path) -> bool {
    ["libxrt_coreutil.so.2", "libxrt_coreutil.so"]
        .iter()
        .any(|name| directory.join(name).is_file())
}

fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
