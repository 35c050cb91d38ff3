//! AIE toolchains made of scripts: enough to be found, told apart and fingerprinted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use npu_build::toolchain::{AieSearch, AieTools, Configured};

use crate::fakes::Sandbox;

/// What `aiecc --help` prints before 1.4.0.
pub const HELP_1: &str = "\
OVERVIEW: AIE Compiler Driver
USAGE: aiecc [options] <input file>
OPTIONS:
AIE Compiler Options:
  --aie-generate-cdo         - Generate CDO
  --aie-generate-elf         - Generate an instruction ELF
  --aie-generate-npu-insts   - Generate the NPU instruction stream
  --aie-generate-pdi         - Generate a PDI
  --aie-generate-xclbin      - Generate an xclbin
  --generate-full-elf        - Generate a full ELF
  --no-compile-host          - Do not compile host code
  --no-xbridge               - Link with Peano
  --no-xchesscc              - Compile with Peano
  --npu-insts-name=<string>  - Output name
  --peano=<string>           - Peano install directory
  --tmpdir=<string>          - Directory for temporary files
";
/// What it prints from 1.4.0: `--get-xclbin` and the like are expanded before parsing, and not listed.
pub const HELP_2: &str = "\
OVERVIEW: aiecc
USAGE: aiecc [options] <input mlir> [-- <host cc args>...]
OPTIONS:
Generic Options:
  --help                     - Display available options (--help-hidden for more)
General options:
  -O=<uint>                  - Optimization level (0-3)
  --bf16-emulation           - Emulate bf16
  -g=<name>                  - Alias for --get
  --get=<name>               - Request graph output(s) by edge name; named artifacts also have --get-<name> shorthands (e.g. --get-xclbin)
  --no-xbridge               - Link cores with Peano
  --no-xchesscc              - Compile cores with Peano
  --output-dir=<string>      - Output directory for generated artifacts
  --peano=<string>           - Peano install dir
  --xclbinutil-path=<string> - Path or name of the xclbinutil
";
/// What it prints since August 2026.
pub const HELP_3: &str = "\
OVERVIEW: aiecc
USAGE: aiecc [options] <input mlir> [-- <host cc args>...]
OPTIONS:
General options:
  --expand-load-pdis         - Expand load_pdi into explicit write sequences
  --get=<name>               - Request graph output(s) by edge name
  --no-progress              - Disable the single-line progress output
  --peano=<string>           - Peano install dir
  --xbridge                  - Link cores with the Chess toolchain
  --xchesscc                 - Compile cores with the Chess toolchain instead of the default Peano (there is no --no-xchesscc)
";
/// What Peano's `llc --version` prints.
pub const PEANO: &str = "\
LLVM (http://llvm.org/):
  LLVM version 20.0.0git
  Optimized build.

  Registered Targets:
    aie    - AI Engine
    aie2   - AI Engine V2
    aie2p  - AI Engine V2P
";
/// The site-packages of [`Sandbox::environment`].
pub const PACKAGES: &str = "venv/lib/python3.12/site-packages";

impl Sandbox {
    /// A program that prints `help` for `--help` and `version` for `--version`.
    pub fn answering(&self, path: &str, version: &str, help: &str, comment: &str) -> PathBuf {
        let quoted = |text: &str| text.replace('\'', r"'\''");
        let (version, help) = (quoted(version), quoted(help));
        let text = format!(
            "#!/bin/sh\n# {comment}\ncase \"$1\" in\n--version) echo '{version}' ;;\n--help) echo '{help}' ;;\n*) exit 1 ;;\nesac\n"
        );
        self.script(path, &text);
        self.path(path)
    }

    /// An aiecc of a dialect that runs all packaging programs.
    pub fn aiecc(&self, path: &str, help: &str) -> PathBuf {
        let comment = "runs bootgen, xclbinutil and aiebu-asm";
        self.answering(
            path,
            "aiecc (mlir-aie declarative driver)\n  git SHA:  0a1b2c",
            help,
            comment,
        )
    }

    /// A program that says no more than its version.
    pub fn plain(&self, path: &str) -> PathBuf {
        self.answering(path, "LLVM version 23.0.0git", "", path)
    }

    /// A Peano installation in a directory.
    pub fn peano(&self, directory: &str) -> PathBuf {
        for name in ["llc", "opt", "clang", "ld.lld"] {
            self.answering(&format!("{directory}/bin/{name}"), PEANO, "", name);
        }
        self.path(directory)
    }

    /// An XRT installation in a directory.
    pub fn xrt(&self, directory: &str) -> PathBuf {
        for name in ["xclbinutil", "aiebu-asm"] {
            self.answering(
                &format!("{directory}/bin/{name}"),
                "XRT Build Version: 2.19.0",
                "",
                name,
            );
        }
        self.path(directory)
    }

    /// The Python environment `venv` with the wheels of mlir-air, mlir-aie and Peano.
    pub fn environment(&self) -> PathBuf {
        self.environment_in(PACKAGES, HELP_2);
        self.path("venv")
    }

    /// The wheels of mlir-air, mlir-aie and Peano in a directory of packages.
    pub fn environment_in(&self, packages: &str, help: &str) {
        for name in ["air-opt", "aircc"] {
            self.answering(
                &format!("{packages}/mlir_air/bin/{name}"),
                "LLVM version 23.0.0git",
                "",
                name,
            );
        }
        for name in ["bootgen", "aie-hsaco", "llvm-objcopy"] {
            self.answering(
                &format!("{packages}/mlir_aie/bin/{name}"),
                "LLVM version 23.0.0git",
                "",
                name,
            );
        }
        self.aiecc(&format!("{packages}/mlir_aie/bin/aiecc"), help);
        self.peano(&format!("{packages}/llvm-aie"));
        self.record(
            packages,
            "mlir_air-0.1.0",
            &["mlir_air/bin/air-opt", "mlir_air/bin/aircc"],
        );
        let aie = ["aiecc", "bootgen", "aie-hsaco", "llvm-objcopy"]
            .map(|name| format!("mlir_aie/bin/{name}"));
        self.record(
            packages,
            "mlir_aie-1.4.0",
            &aie.each_ref().map(String::as_str),
        );
        let peano = ["llc", "opt", "clang", "ld.lld"].map(|name| format!("llvm-aie/bin/{name}"));
        self.record(
            packages,
            "llvm_aie-20.0.0.2026",
            &peano.each_ref().map(String::as_str),
        );
    }

    /// The record of a wheel that has these files.
    pub fn record(&self, packages: &str, distribution: &str, files: &[&str]) -> PathBuf {
        let record = self
            .path(packages)
            .join(format!("{distribution}.dist-info/RECORD"));
        std::fs::create_dir_all(record.parent().unwrap()).unwrap();
        let lines: Vec<String> = files
            .iter()
            .map(|file| format!("{file},sha256=abc,123\n"))
            .collect();
        std::fs::write(&record, lines.concat()).unwrap();
        record
    }

    /// A search in this directory alone.
    pub fn aie_search(&self) -> AieSearch {
        AieSearch {
            system_xrt: self.path("opt/xrt"),
            system: self.path("system"),
            ..AieSearch::default()
        }
    }

    /// A search with the wheels of `venv`, XRT in `opt/xrt`, and nothing missing.
    pub fn complete(&self) -> AieSearch {
        self.xrt("opt/xrt");
        AieSearch {
            virtual_env: Some(self.environment().into()),
            ..self.aie_search()
        }
    }

    pub fn aie_tools(&self, search: &AieSearch) -> Arc<AieTools> {
        AieTools::discover(search, &mut self.memo.borrow_mut(), &self.asking)
    }
}

/// A directory that was named with a flag.
pub fn configured(directory: impl AsRef<Path>, origin: &str) -> Option<Configured> {
    Some(Configured {
        directory: directory.as_ref().to_owned(),
        origin: origin.to_owned(),
    })
}

/// A `PATH`.
pub fn path(directories: &[PathBuf]) -> Option<OsString> {
    Some(std::env::join_paths(directories).unwrap())
}
