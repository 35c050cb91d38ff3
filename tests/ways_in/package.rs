//! A small package in a directory of its own, which Cargo builds against this checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{self, Outcome};

const CHECKOUT: &str = env!("CARGO_MANIFEST_DIR");

/// Adds a number to each element of a vector.
pub fn shift_by(number: i32) -> String {
    format!(
        "func.func @shift(%x: memref<?xi32>) {{
           %c0 = arith.constant 0 : index
           %c1 = arith.constant 1 : index
           %by = arith.constant {number} : i32
           %n = memref.dim %x, %c0 : memref<?xi32>
           scf.for %i = %c0 to %n step %c1 {{
             %old = memref.load %x[%i] : memref<?xi32>
             %new = arith.addi %old, %by : i32
             memref.store %new, %x[%i] : memref<?xi32>
           }}
           return
         }}\n"
    )
}

/// A host program that shifts 1, 2, 3 and prints what came of it. It includes `launcher`, an
/// expression.
pub fn host_program(launcher: &str) -> String {
    format!(
        "#![forbid(unsafe_code)]
         include!({launcher});
         fn main() -> Result<(), Box<dyn std::error::Error>> {{
             let device = npu_runtime::Device::open(npu_runtime::Runtime::Cpu)?;
             let mut x = [1, 2, 3];
             let kernel = shift::Kernel::load(&device).map_err(|error| error.to_string())?;
             kernel.launch(&mut x)?;
             println!(\"{{x:?}}\");
             Ok(())
         }}\n"
    )
}

/// The package. Its name is the test's, since all packages share one target directory.
pub struct Package {
    pub name: &'static str,
    path: PathBuf,
    _directory: TempDir,
}

/// What Cargo made of it goes with it: the next run's package has another path, and so other files.
impl Drop for Package {
    fn drop(&mut self) {
        let mut clean = self.cargo("clean");
        let _ = clean.args(["--package", self.name]).output();
    }
}

/// What Cargo did.
pub struct Built {
    pub outcome: Outcome,
    messages: Vec<Value>,
}

impl Package {
    /// A package with a manifest that depends on this checkout, and no source yet.
    pub fn empty(name: &'static str) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("npu-build-way-in-")
            .tempdir()
            .unwrap();
        let package = Self {
            name,
            path: directory.path().join("package"),
            _directory: directory,
        };
        // The same profile, so that what both need is compiled once.
        package.write(
            "Cargo.toml",
            format!(
                "[workspace]
                 [package]
                 name = '{name}'
                 version = '0.0.0'
                 edition = '2024'
                 [dependencies]
                 npu-runtime = {{ path = '{CHECKOUT}/crates/npu-runtime' }}
                 [build-dependencies]
                 npu-build = {{ path = '{CHECKOUT}' }}
                 [profile.dev]
                 debug = 'line-tables-only'
                 [profile.dev.package.sha2]
                 opt-level = 3\n"
            ),
        );
        fs::copy(
            Path::new(CHECKOUT).join("Cargo.lock"),
            package.path().join("Cargo.lock"),
        )
        .unwrap();
        package
    }

    /// A package whose build script compiles the kernel `shift`; `options` are calls of the builder.
    pub fn with_build_script(name: &'static str, options: &str) -> Self {
        let package = Self::empty(name);
        package.write("kernels/shift.mlir", shift_by(10));
        package.write(
            "build.rs",
            format!(
                "fn main() -> Result<(), npu_build::ScriptError> {{
                     npu_build::build_script()
                         .target(npu_build::Target::Cpu)
                         .kernel(\"kernels/shift.mlir\")
                         {options}
                         .compile()
                 }}\n"
            ),
        );
        let launcher = "concat!(env!(\"OUT_DIR\"), \"/shift.rs\")";
        package.write("src/main.rs", host_program(launcher));
        package
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Cargo, which knows the real tools and nothing else of npu-build's environment.
    pub fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        let ours = std::env::vars_os().map(|(name, _)| name).filter(|name| {
            let name = name.to_string_lossy();
            name.starts_with("NPU_BUILD_") || name.starts_with("XDG_") || name == "MLIR_INSTALL_DIR"
        });
        for name in ours {
            cargo.env_remove(name);
        }
        cargo
            .args([command, "--offline", "--manifest-path"])
            .arg(self.path().join("Cargo.toml"))
            .env("NPU_BUILD_LLVM", common::real_llvm())
            .env("CARGO_TARGET_DIR", target_directory());
        cargo
    }

    /// Builds it with what `prepare` adds to the command.
    pub fn build_with(&self, prepare: impl FnOnce(&mut Command)) -> Built {
        let mut cargo = self.cargo("build");
        cargo.args(["-v", "--message-format=json-render-diagnostics"]);
        prepare(&mut cargo);
        let outcome = Outcome(cargo.output().unwrap());
        let lines = outcome.stdout();
        let messages = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        Built {
            messages: messages.collect(),
            outcome,
        }
    }

    /// Builds it, and expects that to work.
    #[track_caller]
    pub fn build(&self) -> Built {
        let built = self.build_with(|_| {});
        assert_eq!(built.outcome.code(), 0, "{}", built.outcome.stderr());
        built
    }
}

/// That of this checkout, where the dependencies are compiled already.
fn target_directory() -> PathBuf {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    own.parent().unwrap().to_owned()
}

impl Built {
    /// Messages of one kind that are about the package.
    fn about<'a>(&'a self, package: &Package, reason: &'a str) -> impl Iterator<Item = &'a Value> {
        let at = format!("path+file://{}#", package.path().display());
        self.messages.iter().filter(move |message| {
            let id = message["package_id"].as_str().unwrap_or_default();
            message["reason"] == reason && id.starts_with(&at)
        })
    }

    /// Whether Cargo ran the build script.
    pub fn script_ran(&self, package: &Package) -> bool {
        let script = format!("/{}-", package.name);
        self.outcome.stderr().lines().any(|line| {
            line.contains("Running")
                && line.contains(&script)
                && line.contains("/build-script-build")
                && !line.contains("rustc")
        })
    }

    /// Whether Cargo compiled nothing of the package.
    pub fn is_fresh(&self, package: &Package) -> bool {
        self.about(package, "compiler-artifact")
            .all(|artifact| artifact["fresh"] == true)
    }

    pub fn out_dir(&self, package: &Package) -> PathBuf {
        let executed = self.about(package, "build-script-executed").next().unwrap();
        executed["out_dir"].as_str().unwrap().into()
    }

    /// What the build script told Cargo.
    pub fn directives(&self, package: &Package) -> Vec<String> {
        let path = self.out_dir(package).with_file_name("output");
        let output = fs::read_to_string(path).unwrap();
        output.lines().map(str::to_owned).collect()
    }

    fn artifact(&self, package: &Package, kind: &str) -> PathBuf {
        let artifact = self
            .about(package, "compiler-artifact")
            .find(|artifact| artifact["target"]["kind"][0] == kind);
        artifact.unwrap()["filenames"][0].as_str().unwrap().into()
    }

    /// The host program.
    pub fn program(&self, package: &Package) -> PathBuf {
        self.artifact(package, "bin")
    }

    /// What the host program prints.
    #[track_caller]
    pub fn result(&self, package: &Package) -> String {
        let outcome = Outcome(Command::new(self.program(package)).output().unwrap());
        assert_eq!(outcome.code(), 0, "{}", outcome.stderr());
        outcome.stdout()
    }

    /// The build script, as Cargo would run it with `out_dir`, and no more environment than it needs.
    pub fn script(&self, package: &Package, out_dir: &Path) -> Command {
        let mut script = Command::new(self.artifact(package, "custom-build"));
        script
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("OUT_DIR", out_dir)
            .env("CARGO_MANIFEST_DIR", package.path())
            .env("CARGO_CFG_TARGET_ARCH", std::env::consts::ARCH)
            .env("NPU_BUILD_LLVM", common::real_llvm())
            .current_dir(package.path());
        script
    }
}
