//! Links the programs so that they start fast, where that is known to work.
//!
//! A hit is over in about two milliseconds, and most of that is the start of a process:
//!
//! - `npu-build` itself is linked statically. Mapping, relocating and binding the C library and the
//!   math library takes a third of a hit. What has to load a library at run time, the driver of a
//!   device, is `npu-build-run`.
//! - A position-independent program spends a tenth on relocating its tables: fifty pages that are
//!   copied and patched before `main`. Libraries, heap and stack stay randomised.
//! - The shared libgcc_s takes another: in a virtual machine each CPUID of its constructor is an exit
//!   to the hypervisor. The few functions that the standard library needs of it, for backtraces, are
//!   linked statically instead.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What Rust asks the linker for of the C library. All are there as archives, too.
const C_LIBRARIES: [&str; 6] = ["c", "m", "dl", "rt", "pthread", "util"];
/// The length of an archive of nothing: its magic number.
const EMPTY_ARCHIVE: u64 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("PROFILE", "release")
    {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        if env::var("HOST") == env::var("TARGET") {
            link_statically()?;
        }
    }
    Ok(())
}

/// Rust asks the linker for `-lgcc_s` and `-lc`: in a directory that is searched first, those are
/// linker scripts which lead to the static libraries. Without these everything stays as it was.
fn link_statically() -> Result<(), Box<dyn Error>> {
    let (Some(unwinder), Some(helpers)) = (of_gcc("libgcc_eh.a"), of_gcc("libgcc.a")) else {
        return Ok(());
    };
    let directory = PathBuf::from(env::var("OUT_DIR")?);
    let for_all = directory.join("static-libgcc");
    lead(&for_all, "gcc_s", &[unwinder, helpers])?;
    println!("cargo::rustc-link-arg-bins=-L{}", for_all.display());

    // Until glibc 2.34 threads are in an archive of their own, of which a static program gets just
    // what it names: too little for Rust's standard library.
    let threads = of_gcc("libpthread.a").and_then(|archive| fs::metadata(archive).ok());
    if threads.is_none_or(|archive| archive.len() > EMPTY_ARCHIVE) {
        return Ok(());
    }
    let for_npu_build = directory.join("static-libc");
    for library in C_LIBRARIES {
        let Some(archive) = of_gcc(&format!("lib{library}.a")) else {
            return Ok(());
        };
        lead(&for_npu_build, library, &[archive])?;
    }
    let directory = for_npu_build.display();
    println!("cargo::rustc-link-arg-bin=npu-build=-L{directory}");
    println!("cargo::rustc-link-arg-bin=npu-build=-static");
    Ok(())
}

/// Writes a linker script that leads from a shared library to archives.
fn lead(directory: &Path, library: &str, archives: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(directory)?;
    let archives: Vec<_> = archives
        .iter()
        .map(|archive| format!("\"{}\"", archive.display()))
        .collect();
    let script = format!("INPUT({})\n", archives.join(" "));
    Ok(fs::write(
        directory.join(format!("lib{library}.so")),
        script,
    )?)
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
