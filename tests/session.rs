//! A session that builds the same kernel again: it remembers, and yet checks everything.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use common::{Scene, real_llvm};
use npu_build::config::{Environment, Layer, Settings};
use npu_build::interrupt::Interrupt;
use npu_build::store::Outcome;
use npu_build::{Build, Request, Session, Target};

/// A session on the scene's cache, with the real tools, which have not changed for long: what it
/// knows of them is remembered, too.
fn session(scene: &Scene) -> Session {
    let mut flags = Layer::default();
    flags.cache.dir = Some(scene.cache.clone());
    flags.tools.llvm = Some(real_llvm());
    let nothing = Environment::from_fn(|_| None);
    let settings = Settings::load(flags, &nothing, scene.path()).unwrap();
    Session::new(settings, Interrupt::default(), &|_| {}).unwrap()
}

fn request(kernel: &Path) -> Request {
    Request {
        kernel: kernel.to_owned(),
        target: Some(Target::Cpu),
        ..Request::default()
    }
}

fn build(session: &Session, request: &Request) -> Build {
    session.build(request, &|_| {}).unwrap()
}

/// The content of everything that a build gave.
fn contents(build: &Build) -> Vec<Vec<u8>> {
    build
        .artifacts()
        .map(|artifact| fs::read(&artifact.path).unwrap())
        .collect()
}

/// Changes one byte in the middle, and neither size nor permissions.
fn damage(path: &Path) {
    let mode = fs::metadata(path).unwrap().permissions();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, mode).unwrap();
}

#[test]
fn every_file_that_is_damaged_or_deleted_after_a_hit_is_noticed() {
    let scene = Scene::new();
    let kernel = scene.kernel("vecadd.mlir");
    let (session, request) = (session(&scene), request(&kernel));
    let right = contents(&build(&session, &request));
    let files = scene.entry_files();
    assert_eq!(
        files.len(),
        4,
        "two entries, each with a manifest and a file"
    );
    let delete = |path: &Path| fs::remove_file(path).unwrap();
    for file in &files {
        // A directory without a manifest is no entry.
        let deleted = match file.ends_with("manifest.json") {
            true => Outcome::Built,
            false => Outcome::Repaired,
        };
        for (harm, outcome) in [
            (&damage as &dyn Fn(&Path), Outcome::Repaired),
            (&delete, deleted),
        ] {
            assert_eq!(*build(&session, &request).outcome(), Outcome::Hit);
            harm(file);
            let repaired = build(&session, &request);
            assert_eq!(*repaired.outcome(), outcome, "{}", file.display());
            assert_eq!(contents(&repaired), right);
        }
    }
}

#[test]
fn a_deleted_cache_is_built_again() {
    let scene = Scene::new();
    let kernel = scene.kernel("vecadd.mlir");
    let (session, request) = (session(&scene), request(&kernel));
    build(&session, &request);
    build(&session, &request);
    let store = session.store();
    let entries = npu_build::store::Selection::Entries;
    store.clear(&entries, session.interrupt(), &|| {}).unwrap();
    assert_eq!(*build(&session, &request).outcome(), Outcome::Built);
    assert_eq!(*build(&session, &request).outcome(), Outcome::Hit);
}

#[test]
fn an_edited_kernel_is_another_one_and_back_again() {
    let scene = Scene::new();
    let kernel = scene.kernel("vecadd.mlir");
    let (session, request) = (session(&scene), request(&kernel));
    let first = build(&session, &request);
    let text = fs::read_to_string(&kernel).unwrap();
    let edited = text.replace("arith.addf", "arith.mulf");
    assert_ne!(edited, text);
    fs::write(&kernel, edited).unwrap();
    let second = build(&session, &request);
    assert_eq!(*second.outcome(), Outcome::Built);
    assert_ne!(second.kernels[0].key, first.kernels[0].key);
    fs::write(&kernel, text).unwrap();
    let third = build(&session, &request);
    assert_eq!(*third.outcome(), Outcome::Hit);
    assert_eq!(third.kernels[0].key, first.kernels[0].key);
}

#[test]
fn another_request_for_the_same_file_is_planned_anew() {
    let scene = Scene::new();
    let kernel = scene.kernel("vecadd.mlir");
    let (session, plain) = (session(&scene), request(&kernel));
    let first = build(&session, &plain);
    let mut kept = plain.clone();
    kept.options.keep_intermediates = Some(true);
    assert!(build(&session, &kept).artifacts().count() > first.artifacts().count());
    let mut refreshed = plain.clone();
    refreshed.options.refresh = true;
    assert_eq!(*build(&session, &refreshed).outcome(), Outcome::Built);
    assert_eq!(*build(&session, &plain).outcome(), Outcome::Hit);
}

#[test]
fn a_tool_that_changed_is_noticed() {
    let scene = Scene::new();
    let kernel = scene.kernel("vecadd.mlir");
    let mut flags = Layer::default();
    flags.cache.dir = Some(scene.cache.clone());
    flags.tools.llvm = Some(scene.llvm.clone());
    let nothing = Environment::from_fn(|_| None);
    let settings = Settings::load(flags, &nothing, scene.path()).unwrap();
    let session = Session::new(settings, Interrupt::default(), &|_| {}).unwrap();
    let request = request(&kernel);
    build(&session, &request);
    assert_eq!(*build(&session, &request).outcome(), Outcome::Hit);
    scene.script("clang", "# another clang");
    assert_eq!(*build(&session, &request).outcome(), Outcome::Built);
}
