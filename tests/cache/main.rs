//! The cache with real processes: hits and repairs, many at once, its commands, layers, explanations,
//! hostile files, and every call gone wrong.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed helper is a failed test"
)]

mod commands;
#[path = "../common/mod.rs"]
mod common;
mod concurrent;
mod explain;
mod faults;
mod hits;
mod hostile;
mod layers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Outcome, Scene};
use npu_build::store::Sharing;
use npu_build::store::lock::{Lock, Mode, try_acquire};
use serde_json::Value;

const COMPILE: [&str; 4] = ["compile", "vecadd.mlir", "--target", "cpu"];

/// The lock at `path`, unless somebody holds it.
fn lock(path: &Path) -> Option<Lock> {
    try_acquire(path, Mode::Exclusive, Sharing::Private).unwrap()
}

/// A tiny kernel of that name.
fn kernel(scene: &Scene, name: &str) -> PathBuf {
    let text = format!("func.func @{name}(%x: memref<4xf32>) {{\n  return\n}}\n");
    scene.file(&format!("{name}.mlir"), text)
}

/// What was delivered.
fn contents(outcome: &Outcome) -> Vec<Vec<u8>> {
    let paths = outcome.paths().into_iter();
    paths.map(|path| fs::read(path).unwrap()).collect()
}

/// Runs the program, which gives one JSON object a line.
fn json(scene: &Scene, arguments: &[&str]) -> Vec<Value> {
    let arguments = [arguments, &["--message-format", "json"]].concat();
    let stdout = scene.run(&arguments).stdout();
    let lines = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

fn start(mut command: Command, arguments: &[&str]) -> Child {
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// What a program does whose matching file-system calls below `place` all fail with `error`.
fn failing(scene: &Scene, place: &Path, calls: &str, error: &str) -> Command {
    let mut command = scene.npu_build();
    command
        .env("LD_PRELOAD", common::faulty())
        .env("FAULTY_FS_UNDER", place)
        .env("FAULTY_FS_CALLS", calls)
        .env("FAULTY_FS_AT", "1")
        .env("FAULTY_FS_ALWAYS", "1")
        .env("FAULTY_FS_ACTION", error);
    command
}

/// The paths of everything below a directory.
fn below(directory: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(directory)
        .min_depth(1)
        .sort_by_file_name();
    let entries = entries.into_iter().flatten();
    entries.map(walkdir::DirEntry::into_path).collect()
}

fn make_pipe(path: &Path) {
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}

fn flip(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

/// Puts a new file in the place of one.
fn rewrite(path: &Path, change: impl Fn(&[u8]) -> Vec<u8>) {
    let changed = change(&fs::read(path).unwrap());
    fs::remove_file(path).unwrap();
    fs::write(path, changed).unwrap();
}
