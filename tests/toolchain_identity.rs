//! What changes a fingerprint, what does not, and when the memo has to look again.
#[cfg(test)]
#[path = "toolchain_fakes/mod.rs"]
mod fakes;

use std::fs::File;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use fakes::{Asking, Sandbox, ahead};
use npu_build::digest::Digest;
use npu_build::toolchain::{Llvm, Memo, Probe, Search};
use proptest::prelude::*;

/// Fingerprints of mlir-opt, mlir-translate, clang and ld.
fn fingerprints(llvm: &Llvm) -> [Digest; 4] {
    llvm.tools().map(|tool| tool.identity.digest)
}

#[test]
fn an_identity_is_made_of_the_program_and_its_own_libraries() {
    let sandbox = Sandbox::new();
    let bin = sandbox.install("llvm", "22.1.8");
    let llvm = sandbox.discover(&sandbox.search(&["llvm/bin"])).unwrap();
    let files: Vec<_> = llvm
        .mlir_opt
        .identity
        .files
        .iter()
        .map(|file| (file.name.as_str(), file.digest))
        .collect();
    let content = |path: PathBuf| Digest::of(std::fs::read(path).unwrap());
    let library = sandbox.path("llvm/lib/libMLIR.so.1");
    assert_eq!(
        files,
        [
            ("mlir-opt", content(bin.join("mlir-opt"))),
            ("libMLIR.so.1", content(library))
        ]
    );
    assert_eq!(llvm.clang.identity.files.len(), 1);
}

#[test]
fn an_upgrade_of_a_library_changes_the_tools_that_load_it_and_no_other() {
    let sandbox = Sandbox::new();
    sandbox.install("llvm", "22.1.8");
    let search = sandbox.search(&["llvm/bin"]);
    let before = sandbox.discover(&search).unwrap();
    let source = sandbox.path("patched.c");
    std::fs::write(
        &source,
        "const char *version(void) { return \"22.1.8\"; } int patched;",
    )
    .unwrap();
    let arguments = ["-shared", "-fPIC", "-Wl,-soname,libMLIR.so.1", "patched.c"];
    sandbox.gcc(&arguments, "llvm/lib/libMLIR.so.1");
    let after = sandbox.discover(&search).unwrap();
    let differs: Vec<bool> = fingerprints(&before)
        .iter()
        .zip(fingerprints(&after))
        .map(|(a, b)| *a != b)
        .collect();
    assert_eq!(differs, [true, true, false, false]);
}

#[test]
fn a_touched_tool_is_read_again_and_is_the_same() {
    let sandbox = Sandbox::new();
    let bin = sandbox.install("llvm", "22.1.8");
    let search = sandbox.search(&["llvm/bin"]);
    let before = sandbox.discover(&search).unwrap();
    sandbox.work();
    File::open(bin.join("clang"))
        .unwrap()
        .set_modified(SystemTime::now())
        .unwrap();
    assert_eq!(sandbox.discover(&search).unwrap(), before);
    let read = sandbox.asking.read.borrow().clone();
    assert_eq!(read, [bin.join("clang")]);
}

#[test]
fn a_change_that_keeps_size_and_mtime_is_noticed() {
    let sandbox = Sandbox::new();
    sandbox.install("llvm", "22.1.8");
    let search = sandbox.search(&["llvm/bin"]);
    let before = sandbox.discover(&search).unwrap();
    let path = sandbox.path("llvm/lib/libMLIR.so.1");
    let mut bytes = std::fs::read(&path).unwrap();
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    File::open(&path).unwrap().set_modified(modified).unwrap();
    let after = sandbox.discover(&search).unwrap();
    assert_ne!(
        before.mlir_opt.identity.digest,
        after.mlir_opt.identity.digest
    );
}

#[test]
fn a_moved_installation_is_the_same() {
    let sandbox = Sandbox::new();
    sandbox.install("here", "22.1.8");
    let before = sandbox.discover(&sandbox.search(&["here/bin"])).unwrap();
    std::fs::create_dir(sandbox.path("elsewhere")).unwrap();
    std::fs::rename(sandbox.path("here"), sandbox.path("elsewhere/llvm")).unwrap();
    let after = sandbox
        .discover(&sandbox.search(&["elsewhere/llvm/bin"]))
        .unwrap();
    assert_eq!(fingerprints(&before), fingerprints(&after));
    let identities = |llvm: &Llvm| {
        serde_json::to_string(&llvm.tools().map(|tool| tool.identity.clone())).unwrap()
    };
    assert_eq!(identities(&before), identities(&after));
    assert!(!identities(&after).contains('/'), "{}", identities(&after));
}

#[test]
fn a_second_discovery_executes_nothing_and_reads_nothing() {
    let sandbox = Sandbox::new();
    sandbox.install("llvm", "22.1.8");
    let search = sandbox.search(&["absent", "llvm/bin"]);
    let first = sandbox.discover(&search).unwrap();
    let (runs, read) = sandbox.work();
    assert_eq!(runs, 5, "a version of each tool and a linker");
    assert!(read >= 5);
    assert_eq!(sandbox.discover(&search).unwrap(), first);
    assert_eq!(sandbox.work(), (0, 0));
}

#[test]
fn a_library_that_appears_earlier_in_the_search_is_noticed() {
    let sandbox = Sandbox::new();
    let bin = sandbox.install("llvm", "22.1.8");
    let search = sandbox.search(&["llvm/bin"]);
    let before = sandbox.discover(&search).unwrap();
    sandbox.library("llvm/bin/first/libMLIR.so.1", "22.1.8+");
    let text = sandbox
        .asking
        .run(&bin.join("mlir-opt"), &["--version"])
        .unwrap();
    assert!(
        text.contains("22.1.8+"),
        "the loader takes the new one: {text}"
    );
    let after = sandbox.discover(&search).unwrap();
    assert_ne!(
        before.mlir_opt.identity.digest,
        after.mlir_opt.identity.digest
    );
    assert_eq!(before.clang.identity.digest, after.clang.identity.digest);
}

#[test]
fn an_installation_that_appears_earlier_in_the_search_is_noticed() {
    let sandbox = Sandbox::new();
    sandbox.install("system/llvm-21", "21.1.0");
    std::fs::create_dir(sandbox.path("bin")).unwrap();
    let search = sandbox.search(&["bin", "opt/bin"]);
    assert_eq!(sandbox.discover(&search).unwrap().version, "21.1.0");
    sandbox.install("system/llvm-22", "22.1.8");
    assert_eq!(sandbox.discover(&search).unwrap().version, "22.1.8");
    sandbox.install("opt", "20.1.0");
    assert_eq!(sandbox.discover(&search).unwrap().version, "20.1.0");
    sandbox.link("../system/llvm-21/bin/mlir-opt", "bin/mlir-opt-21");
    assert_eq!(
        sandbox.discover(&search).unwrap().version,
        "20.1.0",
        "plain names come first"
    );
    sandbox.link("../system/llvm-21/bin/mlir-opt", "bin/mlir-opt");
    assert_eq!(sandbox.discover(&search).unwrap().version, "21.1.0");
    std::fs::remove_dir_all(sandbox.path("bin")).unwrap();
    assert_eq!(sandbox.discover(&search).unwrap().version, "20.1.0");
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
fn a_wrapper_is_its_text_and_the_program_that_it_names() {
    let sandbox = Sandbox::new();
    sandbox.install("real", "22.1.8");
    let wrapped = sandbox.path("real/bin/mlir-opt");
    let install = |comment: &str| {
        for tool in ["mlir-translate", "clang"] {
            sandbox.tool(&format!("wrapped/bin/{tool}"), "22.1.8");
        }
        let text = format!(
            "#!/bin/sh\n# {comment}\nexec \"{}\" \"$@\"\n",
            wrapped.display()
        );
        sandbox.script("wrapped/bin/mlir-opt", &text);
        sandbox
            .discover(&sandbox.search(&["wrapped/bin"]))
            .unwrap()
            .mlir_opt
            .identity
    };
    let first = install("one");
    let names: Vec<_> = first.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["mlir-opt", "mlir-opt", "libMLIR.so.1"]);
    assert_eq!(first.version, "22.1.8");
    assert_ne!(first.digest, install("two").digest);
    assert_eq!(first.digest, install("one").digest);
    sandbox.library("real/lib/libMLIR.so.1", "22.1.8.0");
    sandbox
        .discover(&sandbox.search(&["wrapped/bin"]))
        .unwrap_err();
}

#[test]
fn an_interpreter_that_is_no_shell_is_part_of_the_tool() {
    let sandbox = Sandbox::new();
    sandbox.install("llvm", "22.1.8");
    sandbox.tool("interpreters/python9", "22.1.8");
    let interpreter = sandbox.path("interpreters/python9");
    sandbox.script(
        "llvm/bin/mlir-translate",
        &format!("#!{} -E\n", interpreter.display()),
    );
    let llvm = sandbox.discover(&sandbox.search(&["llvm/bin"])).unwrap();
    let files = llvm.mlir_translate.identity.files;
    let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["mlir-translate", "python9"]);
    assert_eq!(
        files[1].digest,
        Digest::of(std::fs::read(interpreter).unwrap())
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
    load();
    let first = sandbox.discover(&search).unwrap();
    sandbox.memo.borrow_mut().save();
    let file = stored().unwrap();
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
    let text = std::fs::read_to_string(stored().unwrap()).unwrap();
    assert_eq!(
        text.matches(r#""found":"#).count(),
        1,
        "the new discovery replaces the old one"
    );

    std::fs::remove_dir_all(sandbox.path("llvm")).unwrap();
    sandbox.install("other", "22.1.8");
    sandbox.discover(&sandbox.search(&["other/bin"])).unwrap();
    sandbox.memo.borrow_mut().save();
    let text = std::fs::read_to_string(stored().unwrap()).unwrap();
    assert!(
        !text.contains(bin.to_str().unwrap()),
        "what is gone is dropped: {text}"
    );
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
    let foreign = String::from_utf8(good.clone())
        .unwrap()
        .replacen("memo 1", "memo 2", 1);
    for bad in [
        b"".as_slice(),
        b"x",
        foreign.as_bytes(),
        &good[..good.len() - 1],
        &[good.as_slice(), b" "].concat(),
    ] {
        assert!(reads_after(bad) > 0);
    }
    proptest!(ProptestConfig::with_cases(16), |(at in any::<prop::sample::Index>(), mask in 1u8..)| {
        let mut bad = good.clone();
        bad[at.index(good.len())] ^= mask;
        prop_assert!(reads_after(&bad) > 0);
    });
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

/// On CI the real LLVM has to be there.
#[test]
fn this_machines_llvm_is_found_identified_and_remembered() {
    let search = Search {
        path: std::env::var_os("PATH"),
        ..Search::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let mut memo = Memo::load(Some(directory.path())).with_clock(ahead);
    let asking = Asking::default();
    let begun = Instant::now();
    let llvm = match Llvm::discover(&search, &mut memo, &asking) {
        Ok(llvm) => llvm,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            println!("skipped: {error}");
            return;
        }
    };
    println!(
        "LLVM {} in {}, found in {:?}",
        llvm.version,
        llvm.bin.display(),
        begun.elapsed()
    );
    for tool in llvm.tools() {
        println!(
            "  {} {} {}",
            tool.path.display(),
            tool.identity.version,
            tool.identity.digest.short()
        );
        for file in &tool.identity.files {
            println!("    {} {}", file.name, file.digest.short());
        }
        assert!(tool.path.is_absolute());
    }
    for rejected in &llvm.rejected {
        println!("  rejected: {rejected}");
    }
    assert!(
        llvm.mlir_opt
            .identity
            .version
            .starts_with(|c: char| c.is_ascii_digit())
    );
    memo.save();
    asking.runs.take();
    asking.read.take();

    let begun = Instant::now();
    let mut memo = Memo::load(Some(directory.path())).with_clock(ahead);
    println!("memo loaded in {:?}", begun.elapsed());
    let mut times: Vec<_> = (0..1000)
        .map(|_| {
            let begun = Instant::now();
            assert_eq!(
                Llvm::discover(&search, &mut memo, &asking).unwrap().bin,
                llvm.bin
            );
            begun.elapsed()
        })
        .collect();
    times.sort();
    println!("found again in {:?} (median)", times[500]);
    assert_eq!(Llvm::discover(&search, &mut memo, &asking).unwrap(), llvm);
    assert_eq!((asking.runs.take(), asking.read.take().len()), (0, 0));
}
