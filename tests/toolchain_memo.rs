//! What is remembered from one discovery to the next, and when it is not used.
#[cfg(test)]
#[allow(dead_code, reason = "these tests need few kinds of installations")]
#[path = "toolchain_fakes/mod.rs"]
mod fakes;

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fakes::{Sandbox, ahead};
use npu_build::toolchain::{Llvm, Memo};
use proptest::prelude::*;

#[test]
fn a_second_discovery_executes_nothing_and_reads_nothing() {
    let sandbox = Sandbox::new();
    sandbox.install("llvm", "22.1.8");
    let search = sandbox.search(&["absent", "llvm/bin"]);
    let first = sandbox.discover(&search).unwrap();
    let (runs, read) = sandbox.work();
    assert_eq!(
        runs, 6,
        "a version of each tool, a linker and a support library"
    );
    assert!(read >= 5);
    assert_eq!(sandbox.discover(&search).unwrap(), first);
    assert_eq!(sandbox.work(), (0, 0));
}

#[test]
fn what_changed_a_moment_ago_is_not_remembered() {
    let sandbox = Sandbox::new();
    sandbox.install("llvm", "22.1.8");
    let search = sandbox.search(&["llvm/bin"]);
    let mut memo = Memo::default();
    Llvm::discover(&search, &mut memo, &sandbox.asking).unwrap();
    sandbox.work();
    Llvm::discover(&search, &mut memo, &sandbox.asking).unwrap();
    let read = sandbox.asking.read.borrow();
    assert!(read.contains(&sandbox.path("llvm/bin/clang")), "{read:?}");
    assert!(
        read.iter().any(|file| file.ends_with("lib/libMLIR.so.1")),
        "{read:?}"
    );
}

#[test]
fn the_memo_outlives_the_process_and_is_written_only_when_it_changed() {
    let sandbox = Sandbox::new();
    let bin = sandbox.install("llvm", "22.1.8");
    let search = sandbox.search(&["llvm/bin"]);
    let directory = tempfile::tempdir().unwrap();
    let load = || {
        sandbox
            .memo
            .replace(Memo::load(Some(directory.path())).with_clock(ahead))
    };
    let stored = || {
        std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .next()
    };
    let mentions = |path: &Path| {
        let memo = std::fs::read(stored().unwrap()).unwrap();
        let path = path.as_os_str().as_bytes();
        memo.windows(path.len())
            .filter(|bytes| *bytes == path)
            .count()
    };
    load();
    let first = sandbox.discover(&search).unwrap();
    sandbox.memo.borrow_mut().save();
    let file = stored().unwrap();
    let mentioned = mentions(&bin);
    assert!(mentioned > 0);
    sandbox.work();

    load();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(sandbox.discover(&search).unwrap(), first);
    assert_eq!(sandbox.work(), (0, 0));
    sandbox.memo.borrow_mut().save();
    assert_eq!(stored(), None, "nothing changed, so nothing is written");

    File::open(bin.join("clang"))
        .unwrap()
        .set_modified(SystemTime::now())
        .unwrap();
    sandbox.discover(&search).unwrap();
    sandbox.memo.borrow_mut().save();
    assert_eq!(
        mentions(&bin),
        mentioned,
        "the new discovery replaces the old one"
    );

    std::fs::remove_dir_all(sandbox.path("llvm")).unwrap();
    sandbox.install("other", "22.1.8");
    sandbox.discover(&sandbox.search(&["other/bin"])).unwrap();
    sandbox.memo.borrow_mut().save();
    assert_eq!(mentions(&bin), 0, "what is gone is dropped");
}

#[test]
fn a_memo_that_cannot_be_written_is_no_error() {
    let sandbox = Sandbox::new();
    sandbox.install("llvm", "22.1.8");
    for directory in [
        sandbox.path("nowhere"),
        sandbox.path("tool.c"),
        PathBuf::from("/proc/1/fd"),
    ] {
        let mut memo = Memo::load(Some(&directory)).with_clock(ahead);
        Llvm::discover(&sandbox.search(&["llvm/bin"]), &mut memo, &sandbox.asking).unwrap();
        memo.save();
    }
}

#[test]
fn a_damaged_memo_is_ignored() {
    let sandbox = Sandbox::new();
    sandbox.install("llvm", "22.1.8");
    let search = sandbox.search(&["llvm/bin"]);
    let directory = tempfile::tempdir().unwrap();
    let mut memo = Memo::load(Some(directory.path())).with_clock(ahead);
    let expected = Llvm::discover(&search, &mut memo, &sandbox.asking).unwrap();
    memo.save();
    let file = std::fs::read_dir(directory.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let good = std::fs::read(&file).unwrap();
    let reads_after = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        sandbox.work();
        let mut memo = Memo::load(Some(directory.path())).with_clock(ahead);
        let found = Llvm::discover(&search, &mut memo, &sandbox.asking).unwrap();
        assert_eq!(found, expected);
        sandbox.work().1
    };
    assert_eq!(reads_after(&good), 0);
    let of_this_version = good.windows(6).position(|bytes| bytes == b" memo ");
    let mut foreign = good.clone();
    foreign.insert(of_this_version.unwrap() + 6, b'9');
    for bad in [
        b"".as_slice(),
        b"x",
        &foreign,
        &good[..good.len() - 1],
        &[good.as_slice(), b" "].concat(),
    ] {
        assert!(reads_after(bad) > 0);
    }
    let config = ProptestConfig {
        cases: 16,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(at in any::<prop::sample::Index>(), mask in 1u8..)| {
        let mut bad = good.clone();
        bad[at.index(good.len())] ^= mask;
        prop_assert!(reads_after(&bad) > 0);
    });
    std::fs::write(&file, &good).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    assert!(reads_after(&good) > 0, "others could have written it");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert_eq!(
        Llvm::discover(
            &search,
            &mut Memo::load(Some(directory.path())),
            &sandbox.asking
        )
        .unwrap(),
        expected
    );
}
