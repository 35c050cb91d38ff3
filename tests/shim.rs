//! `npu-build shim`: compiled by the real g++ and clang++ against the emulated XRT's headers, once
//! for each installation.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Outcome, Scene, executable};
use xrt_double::Installation;

/// A scene with an XRT.
struct Xrt {
    scene: Scene,
    installation: Installation,
}

impl Xrt {
    fn new() -> Self {
        let scene = Scene::replayed();
        let installation = Installation::new(&scene.path().join("xrt")).unwrap();
        Self {
            scene,
            installation,
        }
    }

    fn shim(&self, arguments: &[&str]) -> Outcome {
        self.shim_for(self.installation.root(), arguments)
    }

    fn shim_for(&self, root: &Path, arguments: &[&str]) -> Outcome {
        let mut command = self.scene.npu_build();
        command.env("XILINX_XRT", root).arg("shim").args(arguments);
        Outcome(command.output().unwrap())
    }

    /// A compiler that notes each run and does what the real one does.
    fn noted_compiler(&self) -> PathBuf {
        let path = self.scene.path().join("noted-g++");
        let runs = self.scene.path().join("runs");
        executable(
            &path,
            &format!(
                "#!/bin/sh\ncase \"$1\" in --version|-print*) ;; *) echo c++ >> '{}' ;; esac\nexec /usr/bin/g++ \"$@\"\n",
                runs.display()
            ),
        );
        path
    }
}

#[test]
fn it_is_compiled_once_and_loads() {
    let xrt = Xrt::new();
    let compiler = xrt.noted_compiler();
    let flags = ["--cxx", compiler.to_str().unwrap()];
    let built = xrt.shim(&flags);
    let paths = built.paths();
    assert!(built.stderr().contains("built: the XRT shim"), "{built:?}");
    assert_eq!(xrt.scene.runs(), ["c++"]);
    let hit = xrt.shim(&flags);
    assert_eq!(hit.paths(), paths);
    assert!(hit.stderr().contains("hit: the XRT shim"), "{hit:?}");
    assert_eq!(xrt.scene.runs(), [""; 0]);
    // SAFETY: the library runs no code when it is loaded but its own constructors.
    let library = unsafe { libloading::Library::new(&paths[0]) }.unwrap();
    // SAFETY: the function takes nothing and gives a number.
    let abi: libloading::Symbol<'_, unsafe extern "C" fn() -> u32> =
        unsafe { library.get(b"npu_xrt_abi") }.unwrap();
    // SAFETY: as declared in the shim.
    assert!(unsafe { abi() } > 0);
}

#[test]
fn every_part_of_the_installation_is_in_its_key() {
    let xrt = Xrt::new();
    let compiler = xrt.noted_compiler();
    let flags = ["--cxx", compiler.to_str().unwrap()];
    xrt.shim(&flags).paths();
    xrt.scene.runs();
    let header = xrt.installation.include().join("xrt/xrt_bo.h");
    let text = fs::read_to_string(&header).unwrap();
    fs::write(&header, format!("{text}\n// changed\n")).unwrap();
    xrt.shim(&flags).paths();
    assert_eq!(xrt.scene.runs(), ["c++"], "a header was changed");
    let mut library = fs::read(xrt.installation.library()).unwrap();
    library.push(0);
    fs::write(xrt.installation.library(), library).unwrap();
    xrt.shim(&flags).paths();
    assert_eq!(xrt.scene.runs(), ["c++"], "the library was changed");
    executable(
        &compiler,
        &format!("{}# changed\n", fs::read_to_string(&compiler).unwrap()),
    );
    xrt.shim(&flags).paths();
    assert_eq!(xrt.scene.runs(), ["c++"], "the compiler was changed");
    xrt.shim(&flags).paths();
    assert_eq!(xrt.scene.runs(), [""; 0]);
}

#[test]
fn clang_compiles_it_too_and_a_directory_gets_a_copy() {
    let xrt = Xrt::new();
    let clang = common::real_llvm().join("clang++");
    let out = xrt.scene.path().join("bin");
    let told = xrt.shim(&[
        "--cxx",
        clang.to_str().unwrap(),
        "--out-dir",
        out.to_str().unwrap(),
    ]);
    let copy = out.join("libnpu_xrt_shim.so");
    assert_eq!(told.paths(), std::slice::from_ref(&copy));
    let needed = Command::new("readelf").arg("-d").arg(&copy).output();
    let needed = String::from_utf8(needed.unwrap().stdout).unwrap();
    assert!(needed.contains("libxrt_coreutil"), "{needed}");
}

#[test]
fn what_is_missing_is_named() {
    let xrt = Xrt::new();
    let nothing = xrt.scene.path().join("nothing");
    xrt.shim_for(&nothing, &[])
        .fails(3, &["nothing: is no directory", "/opt/xilinx/xrt", "--xrt"]);
    let runtime_only = xrt.scene.path().join("runtime-only");
    fs::create_dir_all(runtime_only.join("lib")).unwrap();
    xrt.shim_for(&runtime_only, &[])
        .fails(3, &["has no include/xrt", "development files are missing"]);
    fs::remove_file(
        xrt.installation
            .include()
            .join("xrt/experimental/xrt_elf.h"),
    )
    .unwrap();
    xrt.shim(&[])
        .fails(3, &["has no include/xrt/experimental/xrt_elf.h", "too old"]);
    let xrt = Xrt::new();
    xrt.shim(&["--cxx", "no-such-compiler"])
        .fails(3, &["no C++ compiler found", "no-such-compiler", "CXX"]);
    let words = "'ccache g++' is not one program, without a wrapper or flags";
    xrt.shim(&["--cxx", "ccache g++"]).fails(3, &[words]);
    xrt.shim(&["--cxx", ""])
        .fails(2, &["--cxx", "the path is empty"]);
    let json = xrt.shim(&["--cxx", "no-such-compiler", "--message-format", "json"]);
    assert!(json.stdout().contains("\"code\":3"), "{json:?}");
}

#[test]
fn a_compiler_that_refuses_tells_why() {
    let xrt = Xrt::new();
    let header = xrt.installation.include().join("xrt/xrt_bo.h");
    fs::write(&header, "#error this header is broken\n").unwrap();
    xrt.shim(&[])
        .fails(1, &["the XRT shim", "this header is broken", "full log"]);
    assert_eq!(xrt.scene.leftovers(), [""; 0].map(PathBuf::from));
}
