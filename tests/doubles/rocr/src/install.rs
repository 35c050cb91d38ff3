//! Puts the built library where a program finds ROCR.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The name that Cargo gives the library.
const BUILT: &str = "librocr_double.so";

/// ROCR's name.
pub const NAME: &str = "libhsa-runtime64.so.1";

/// The built library.
///
/// Cargo builds it together with the part that tests are linked with, and puts it beside the test's
/// executable. Where it is not, the cargo that runs the tests builds it, unless
/// `ROCR_DOUBLE_LIBRARY` names one.
///
/// # Errors
/// It cannot be built.
pub fn library() -> io::Result<PathBuf> {
    static LIBRARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = LIBRARY.get_or_init(|| find().map_err(|error| error.to_string()));
    found.clone().map_err(io::Error::other)
}

fn find() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os("ROCR_DOUBLE_LIBRARY") {
        return Ok(PathBuf::from(path));
    }
    let executable = std::env::current_exe()?;
    // Tests and benches run in `deps`, examples and programs beside it.
    let beside = executable
        .ancestors()
        .skip(1)
        .take(2)
        .flat_map(|directory| [directory.join(BUILT), directory.join("deps").join(BUILT)]);
    let is_deps = |path: &PathBuf| path.parent().is_some_and(|d| d.ends_with("deps"));
    match beside.filter(is_deps).find(|path| path.exists()) {
        Some(path) => Ok(path),
        None => build(),
    }
}

fn build() -> io::Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--lib", "--message-format=json"])
        .arg("--manifest-path")
        .arg(manifest)
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(text));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // The only strings of the messages that end so are paths of the library.
    let mut strings = text.split('"').filter(|string| string.ends_with(BUILT));
    let path = strings
        .find(|path| path.starts_with('/'))
        .map(PathBuf::from);
    path.ok_or_else(|| io::Error::other(format!("cargo built no {BUILT}")))
}

/// Copies the library to `root/lib/libhsa-runtime64.so.1`, as in a ROCm installation; its path.
///
/// # Errors
/// It cannot be built or copied.
pub fn install(root: &Path) -> io::Result<PathBuf> {
    let directory = root.join("lib");
    fs::create_dir_all(&directory)?;
    let path = directory.join(NAME);
    // A new file takes the name: the old one may be loaded.
    let new = directory.join(format!("{NAME}.new"));
    fs::copy(library()?, &new)?;
    fs::rename(new, &path)?;
    Ok(path)
}
