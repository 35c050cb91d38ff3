//! Kernels for tests, compiled by the machine's real compiler together with the real
//! `templates/cpu_entry.c`. A missing tool is a failure on CI, and a printed skip elsewhere.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that can't go on fails"
)]
#![allow(dead_code, reason = "each test binary uses a part")]

use npu_runtime::{Bounds, Direction, ElementType, Parameter, Shape, Signature};
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A new, empty directory below cargo's own for tests.
pub fn directory() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}-{number}", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::remove_dir_all(&path).ok();
    fs::create_dir_all(&path).unwrap();
    path
}

/// Where LLVM's tools are: the newest of Debian's installations, then PATH.
fn candidates(tool: &str) -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix("llvm-")?.parse().ok()?;
            Some((version, entry.path().join("bin").join(tool)))
        })
        .collect();
    versions.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join(tool));
    versions
        .into_iter()
        .rev()
        .map(|(_, tool)| tool)
        .chain(on_path)
        .collect()
}

/// The first of `names` that runs, printed.
fn find(names: &[&str]) -> Option<PathBuf> {
    let found = names.iter().flat_map(|name| candidates(name)).find(|path| {
        Command::new(path)
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success())
    });
    match &found {
        Some(path) => println!("using {}", path.display()),
        None if std::env::var_os("CI").is_some() => panic!("none of {names:?} is installed"),
        None => println!("skipped: none of {names:?} is installed"),
    }
    found
}

/// A tool that a test needs; `None` means that the test is skipped.
pub fn tool(name: &str) -> Option<PathBuf> {
    find(&[name])
}

/// The C compiler; every test that calls this needs one.
pub fn compiler() -> &'static Path {
    static COMPILER: OnceLock<PathBuf> = OnceLock::new();
    COMPILER.get_or_init(|| {
        find(&["clang", "clang-22", "cc"]).expect("these tests need a C compiler: install clang")
    })
}

/// Compiles `kernel`, with `extension` as its language, and `call` as its `call.inc`.
pub fn compile_as(extension: &str, kernel: &str, call: &str) -> Vec<u8> {
    let directory = directory();
    let source = directory.join(format!("kernel.{extension}"));
    fs::write(&source, kernel).unwrap();
    fs::write(directory.join("call.inc"), call).unwrap();
    let entry = concat!(env!("CARGO_MANIFEST_DIR"), "/../../templates/cpu_entry.c");
    let output = Command::new(compiler())
        .args(["-O3", "-shared", "-fPIC", "-Wl,-z,defs", "-I."])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .args(if extension == "ll" {
            &["-Wno-override-module"][..]
        } else {
            &[]
        })
        .arg(&source)
        .args([entry, "-o", "kernel.so", "-lm"])
        .current_dir(&directory)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let object = fs::read(directory.join("kernel.so")).unwrap();
    fs::remove_dir_all(directory).unwrap();
    object
}

/// Compiles a kernel in C whose `call.inc` has `slots` slots and calls it by `call`.
pub fn compile(slots: usize, declaration: &str, call: &str, kernel: &str) -> Vec<u8> {
    let call = format!(
        "#define NPU_SLOTS {slots}\n\
         extern {declaration};\n\
         static inline void npu_call(const uint64_t *slots, const int32_t grid[3],\n\
                                     const int32_t id[3]) {{ {call} }}\n"
    );
    let kernel = format!("#include <stdint.h>\n#include <stdlib.h>\n{kernel}\n");
    compile_as("c", &kernel, &call)
}

pub fn signature(name: &'static str, grid: bool, parameters: Vec<Parameter>) -> Signature {
    Signature {
        name: Cow::Borrowed(name),
        parameters: Cow::Owned(parameters),
        grid,
        bounds: Bounds::Declared,
    }
}

pub fn unranked(name: &'static str, element: ElementType, direction: Direction) -> Parameter {
    Parameter::memory(name, "memref<*xT>", element, Shape::Unranked, direction)
}

pub fn ranked(
    name: &'static str,
    mlir_type: &'static str,
    element: ElementType,
    dims: &[Option<u64>],
    direction: Direction,
) -> Parameter {
    let shape = Shape::Ranked(Cow::Owned(dims.to_vec()));
    Parameter::memory(name, mlir_type, element, shape, direction)
}

/// `c[i] = a[i] + b[i]` for 1024 elements a program, as far as `n` goes.
pub fn vecadd() -> (Vec<u8>, Signature) {
    let object = compile(
        7,
        "void vecadd(const float *, const float *, float *, int32_t, int32_t)",
        "vecadd((const float *)slots[0], (const float *)slots[2], (float *)slots[4],\
                (int32_t)slots[6], id[0]);",
        "void vecadd(const float *a, const float *b, float *c, int32_t n, int32_t id) {
           for (int32_t i = id * 1024; i < (id + 1) * 1024 && i < n; i++) c[i] = a[i] + b[i];
         }",
    );
    let parameters = vec![
        unranked("a", ElementType::F32, Direction::In),
        unranked("b", ElementType::F32, Direction::In),
        unranked("c", ElementType::F32, Direction::Out),
        Parameter::scalar("n", "i32", ElementType::I32),
    ];
    (object, signature("vecadd", true, parameters))
}
