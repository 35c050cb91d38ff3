//! What a tool's fingerprint is made of, what changes it and what does not.
#[cfg(test)]
#[path = "toolchain_fakes/mod.rs"]
mod fakes;

use std::fs::File;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use fakes::{Asking, Sandbox, ahead};
use npu_build::digest::Digest;
use npu_build::toolchain::{Llvm, Memo, Probe, Search};

/// Fingerprints of mlir-opt, mlir-translate, clang, ld and the support library.
fn fingerprints(llvm: &Llvm) -> [Digest; 5] {
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
    assert_eq!(differs, [true, true, false, false, false]);
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
            .clone()
    };
    let first = install("one");
    let names: Vec<_> = first.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["mlir-opt", "mlir-opt", "libMLIR.so.1"]);
    assert_eq!(first.version, "22.1.8");
    assert_ne!(first.digest, install("two").digest);
    assert_eq!(first.digest, install("one").digest);
    std::fs::rename(&wrapped, sandbox.path("away")).unwrap();
    sandbox
        .discover(&sandbox.search(&["wrapped/bin"]))
        .unwrap_err();
    std::fs::rename(sandbox.path("away"), &wrapped).unwrap();
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
    let files = &llvm.mlir_translate.identity.files;
    let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["mlir-translate", "python9"]);
    assert_eq!(
        files[1].digest,
        Digest::of(std::fs::read(interpreter).unwrap())
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
