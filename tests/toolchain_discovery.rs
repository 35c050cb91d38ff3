//! Which installation is chosen, and why the others are not.
#[cfg(test)]
#[path = "toolchain_fakes/mod.rs"]
mod fakes;

use std::path::{Path, PathBuf};

use fakes::Sandbox;
use npu_build::toolchain::{Configured, Llvm, Reason, Search};

fn configured(directory: PathBuf) -> Search {
    Search {
        configured: Some(Configured {
            directory,
            origin: "--llvm".to_owned(),
        }),
        ..Search::default()
    }
}

#[test]
fn a_configured_directory_may_be_the_installation_or_its_bin() {
    let sandbox = Sandbox::new();
    let bin = sandbox.install("llvm", "22.1.8");
    for directory in [bin.clone(), sandbox.path("llvm")] {
        let llvm = sandbox.discover(&configured(directory)).unwrap();
        assert_eq!(llvm.bin, bin);
        assert_eq!(llvm.version, "22.1.8");
        assert_eq!(
            llvm.tools().map(|tool| tool.name),
            ["mlir-opt", "mlir-translate", "clang", "ld", "support"]
        );
        assert_eq!(llvm.mlir_opt.path, bin.join("mlir-opt"));
        assert!(llvm.linker.path.is_absolute());
        assert_eq!(llvm.rejected, []);
    }
}

#[test]
fn only_the_configured_directory_is_searched() {
    let sandbox = Sandbox::new();
    sandbox.install("system/llvm-22", "22.1.8");
    std::fs::create_dir_all(sandbox.path("empty")).unwrap();
    for (directory, reason) in [
        (
            sandbox.path("empty"),
            Reason::NoTool {
                tool: "mlir-opt".to_owned(),
            },
        ),
        (sandbox.path("nowhere"), Reason::NoDirectory),
        (sandbox.path("tool.c"), Reason::NoDirectory),
        (PathBuf::from("llvm"), Reason::Relative),
    ] {
        let search = Search {
            system: sandbox.path("system"),
            ..configured(directory.clone())
        };
        let error = sandbox.discover(&search).unwrap_err();
        assert_eq!(error.rejected.len(), 1, "{error}");
        assert_eq!(error.rejected[0].place, directory);
        assert_eq!(error.rejected[0].reason, reason);
        let text = error.to_string();
        assert!(
            text.contains("--llvm") && text.contains(&directory.display().to_string()),
            "{text}"
        );
    }
}

#[test]
fn places_are_tried_in_their_order() {
    let sandbox = Sandbox::new();
    let system = sandbox.install("system/llvm-22", "22.1.8");
    let mut search = sandbox.search(&["nothing-here", "on-path/bin"]);
    assert_eq!(sandbox.discover(&search).unwrap().bin, system);
    let on_path = sandbox.install("on-path", "21.1.0");
    assert_eq!(sandbox.discover(&search).unwrap().bin, on_path);
    let named = sandbox.install("named", "20.1.0");
    search.mlir_install_dir = Some(sandbox.path("named").into());
    assert_eq!(sandbox.discover(&search).unwrap().bin, named);
    search.mlir_install_dir = Some("".into());
    assert_eq!(sandbox.discover(&search).unwrap().bin, on_path);
    search.path = Some("".into());
    assert_eq!(sandbox.discover(&search).unwrap().bin, system);
}

#[test]
fn the_newest_of_the_system_is_taken_by_number() {
    let sandbox = Sandbox::new();
    sandbox.install("system/llvm-9", "9.0.1");
    let newest = sandbox.install("system/llvm-22", "22.1.8");
    std::fs::create_dir_all(sandbox.path("system/llvm-snapshots/bin")).unwrap();
    assert_eq!(sandbox.discover(&sandbox.search(&[])).unwrap().bin, newest);
    let all = Llvm::candidates(
        &sandbox.search(&[]),
        &mut sandbox.memo.borrow_mut(),
        &sandbox.asking,
    );
    let versions: Vec<_> = all
        .iter()
        .filter_map(|(_, llvm)| Some(llvm.as_ref().ok()?.version.as_str()))
        .collect();
    assert_eq!(versions, ["22.1.8", "9.0.1"]);
}

#[test]
fn links_on_path_lead_to_the_installation() {
    let sandbox = Sandbox::new();
    let newest = sandbox.install("opt/llvm-22", "22.1.8");
    let old = sandbox.install("opt/llvm-9", "9.0.1");
    sandbox.link("../opt/llvm-9/bin/mlir-opt", "bin/mlir-opt-9");
    sandbox.link("../opt/llvm-22/bin/mlir-opt", "bin/mlir-opt-22");
    assert_eq!(
        sandbox.discover(&sandbox.search(&["bin"])).unwrap().bin,
        newest.canonicalize().unwrap()
    );
    sandbox.link("../opt/llvm-9/bin/mlir-opt", "bin/mlir-opt");
    assert_eq!(
        sandbox.discover(&sandbox.search(&["bin"])).unwrap().bin,
        old.canonicalize().unwrap()
    );
}

#[test]
fn a_directory_of_links_to_several_packages_is_an_installation() {
    let sandbox = Sandbox::new();
    let mlir = sandbox.install("store/mlir", "22.1.8");
    std::fs::remove_file(mlir.join("clang")).unwrap();
    sandbox.tool("store/clang/bin/clang", "22.1.8");
    for (package, tool) in [
        ("mlir", "mlir-opt"),
        ("mlir", "mlir-translate"),
        ("clang", "clang"),
    ] {
        sandbox.link(
            &format!("../../store/{package}/bin/{tool}"),
            &format!("profile/bin/{tool}"),
        );
    }
    let llvm = sandbox.discover(&sandbox.search(&["profile/bin"])).unwrap();
    assert_eq!(llvm.bin, sandbox.path("profile/bin"));
    assert_eq!(llvm.rejected.len(), 1);
    assert_eq!(llvm.rejected[0].place, mlir.canonicalize().unwrap());
}

#[test]
fn names_with_a_release_are_taken_together() {
    let sandbox = Sandbox::new();
    for (release, version) in [("9", "9.0.1"), ("22", "22.1.8")] {
        for tool in ["mlir-opt", "mlir-translate", "clang"] {
            sandbox.tool(&format!("bin/{tool}-{release}"), version);
        }
    }
    sandbox.tool("bin/clang", "14.0.6");
    let llvm = sandbox.discover(&sandbox.search(&["bin"])).unwrap();
    assert_eq!(llvm.version, "22.1.8");
    assert_eq!(llvm.clang.path, sandbox.path("bin/clang-22"));
    assert_eq!(llvm.clang.name, "clang");
}

#[test]
fn what_is_missing_is_named_and_the_next_place_is_tried() {
    let sandbox = Sandbox::new();
    for (name, missing) in [("no-clang", "clang"), ("no-translate", "mlir-translate")] {
        let bin = sandbox.install(name, "22.1.8");
        std::fs::remove_file(bin.join(missing)).unwrap();
        let error = sandbox
            .discover(&sandbox.search(&[&format!("{name}/bin")]))
            .unwrap_err();
        assert_eq!(
            error.rejected[0].reason,
            Reason::NoTool {
                tool: missing.to_owned()
            }
        );
        let text = error.to_string();
        assert!(
            text.contains(&format!("{}: has no {missing}", bin.display())),
            "{text}"
        );
        assert!(
            text.contains("apt-get install mlir-22-tools llvm-22 clang-22"),
            "{text}"
        );
        assert!(text.contains("llvm-*/bin: has no mlir-opt"), "{text}");
    }
    let good = sandbox.install("system/llvm-21", "21.1.0");
    let llvm = sandbox
        .discover(&sandbox.search(&["no-clang/bin", "no-translate/bin"]))
        .unwrap();
    assert_eq!(llvm.bin, good);
    assert_eq!(llvm.rejected.len(), 2);
}

#[test]
fn two_versions_in_one_place_are_rejected_and_named() {
    let sandbox = Sandbox::new();
    sandbox.install("llvm", "22.1.8");
    sandbox.tool("llvm/bin/clang", "21.1.0");
    let text = sandbox
        .discover(&sandbox.search(&["llvm/bin"]))
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("mlir-opt is 22.1.8, clang is 21.1.0"),
        "{text}"
    );
}

#[test]
fn nothing_anywhere_says_where_it_was_looked_for() {
    let sandbox = Sandbox::new();
    let text = sandbox
        .discover(&sandbox.search(&["bin"]))
        .unwrap_err()
        .to_string();
    assert!(text.contains("PATH: has no mlir-opt"), "{text}");
    assert!(
        text.contains("system/llvm-*/bin: has no mlir-opt"),
        "{text}"
    );
}

#[test]
fn a_tool_that_fails_or_says_nothing_is_rejected() {
    let sandbox = Sandbox::new();
    let bin = sandbox.install("llvm", "22.1.8");
    let search = sandbox.search(&["llvm/bin"]);
    for (script, expected) in [
        ("#!/bin/sh\necho broken >&2; exit 3\n", "broken"),
        ("#!/bin/sh\necho hello\n", "does not tell a version"),
        ("hello", "neither an ELF file nor a script"),
    ] {
        sandbox.script("llvm/bin/mlir-opt", script);
        let text = sandbox.discover(&search).unwrap_err().to_string();
        assert!(
            text.contains(expected) && text.contains(&bin.display().to_string()),
            "{text}"
        );
    }
}

#[test]
fn a_missing_library_is_named_with_what_needs_it() {
    let sandbox = Sandbox::new();
    let bin = sandbox.install("llvm", "22.1.8");
    std::fs::remove_file(sandbox.path("llvm/lib/libMLIR.so.1")).unwrap();
    let error = sandbox
        .discover(&sandbox.search(&["llvm/bin"]))
        .unwrap_err();
    let expected = Reason::NoLibrary {
        library: "libMLIR.so.1".to_owned(),
        needed_by: bin.join("mlir-opt"),
    };
    assert_eq!(error.rejected[0].reason, expected);
}

#[test]
fn relative_directories_on_path_are_ignored() {
    let sandbox = Sandbox::new();
    let search = Search {
        path: Some(".:bin::".into()),
        ..sandbox.search(&[])
    };
    let error = sandbox.discover(&search).unwrap_err();
    assert_eq!(error.rejected[0].place, Path::new("PATH"));
}

#[test]
fn an_installation_with_an_odd_path_is_found() {
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new();
    sandbox.install("llvm", "22.1.8");
    let odd = sandbox
        .root
        .path()
        .join(std::ffi::OsStr::from_bytes(b"caf\xe9 $x;"));
    std::fs::rename(sandbox.path("llvm"), &odd).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for expected_runs in [6, 0] {
        let memo = npu_build::toolchain::Memo::load(Some(directory.path()));
        sandbox.memo.replace(memo.with_clock(fakes::ahead));
        assert_eq!(
            sandbox.discover(&configured(odd.clone())).unwrap().bin,
            odd.join("bin")
        );
        sandbox.memo.borrow_mut().save();
        assert_eq!(sandbox.work().0, expected_runs);
    }
}

#[test]
fn a_directory_with_two_names_is_one_candidate() {
    let sandbox = Sandbox::new();
    let bin = sandbox.install("llvm", "22.1.8");
    sandbox.link("llvm", "same");
    for order in [["llvm/bin", "same/bin"], ["same/bin", "llvm/bin"]] {
        let mut memo = sandbox.memo.borrow_mut();
        let candidates = Llvm::candidates(&sandbox.search(&order), &mut memo, &sandbox.asking);
        let usable: Vec<_> = candidates.iter().filter(|(_, llvm)| llvm.is_ok()).collect();
        assert_eq!(usable.len(), 1, "{candidates:?}");
        assert_eq!(
            usable[0].0.canonicalize().unwrap(),
            bin.canonicalize().unwrap()
        );
    }
}

#[test]
fn an_installation_lists_its_programs_and_their_libraries() {
    let sandbox = Sandbox::new();
    let bin = sandbox.install("llvm", "22.1.8");
    let llvm = sandbox.discover(&sandbox.search(&["llvm/bin"])).unwrap();
    let files: Vec<&Path> = llvm.files().collect();
    for name in ["mlir-opt", "mlir-translate", "clang"] {
        assert!(files.contains(&bin.join(name).as_path()), "{files:?}");
    }
    let library = "lib/libMLIR.so.1";
    let libraries: Vec<_> = files
        .iter()
        .filter(|file| file.ends_with(library))
        .collect();
    assert_eq!(libraries.len(), 1, "{files:?}");
    let identified = llvm.mlir_opt.identity.files.len();
    assert_eq!(llvm.mlir_opt.files().count(), identified);
}
