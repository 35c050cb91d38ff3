//! Links the program so that it starts fast, where that is known to work.
//!
//! A hit is over in about two milliseconds, and most of that is the start of a process:
//!
//! - A position-independent program spends a tenth on relocating its tables: fifty pages that are
//!   copied and patched before `main`. Libraries, heap and stack stay randomised.
//! - The shared libgcc_s takes another: in a virtual machine each CPUID of its constructor is an exit
//!   to the hypervisor. The few functions that the standard library needs of it, for backtraces, are
//!   linked statically instead.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("PROFILE", "release")
    {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        if env::var("HOST") == env::var("TARGET") {
            link_libgcc_statically()?;
        }
    }
    Ok(())
}

/// Rust asks the linker for `-lgcc_s`: in a directory that is searched first, that is a linker script
/// which leads to the static libraries. Without them everything stays as it was.
fn link_libgcc_statically() -> Result<(), Box<dyn Error>> {
    let (Some(unwinder), Some(helpers)) = (of_gcc("libgcc_eh.a"), of_gcc("libgcc.a")) else {
        return Ok(());
    };
    let directory = PathBuf::from(env::var("OUT_DIR")?).join("static-libgcc");
    std::fs::create_dir_all(&directory)?;
    let script = format!(
        "INPUT(\"{}\" \"{}\")\n",
        unwinder.display(),
        helpers.display()
    );
    std::fs::write(directory.join("libgcc_s.so"), script)?;
    println!("cargo::rustc-link-arg-bins=-L{}", directory.display());
    Ok(())
}

/// Where the compiler that links has this file of its own.
fn of_gcc(file: &str) -> Option<PathBuf> {
    let compiler = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let question = format!("-print-file-name={file}");
    let output = Command::new(compiler).arg(question).output().ok()?;
    let answer = String::from_utf8(output.stdout).ok()?;
    let path = Path::new(answer.trim());
    // What it does not find it answers with the bare name.
    (path.is_absolute() && path.is_file()).then(|| path.to_owned())
}
