//! A directory with kernels and data, both toolchains, and emulated NPUs. The toolchains and the
//! cache are the same for all tests: they change nothing in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use aie_tools::install::Installation as Tools;
use serde_json::Value;
use tempfile::TempDir;
use xrt_double::Installation as Xrt;

use crate::common::{self, Outcome};

/// What all tests share.
pub struct Installed {
    llvm: common::Scene,
    pub tools: Tools,
    pub xrt: Xrt,
    rocm: PathBuf,
}

/// The toolchains and the emulated NPUs.
pub fn installed() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let llvm = common::Scene::new();
        let at = |name: &str| llvm.path().join(name);
        let tools = Tools::new(&at("aie"), 3).unwrap();
        // One XRT with both tools and libraries.
        let xrt = Xrt::new(&at("aie/xrt")).unwrap();
        rocr_double::install::install(&at("rocm")).unwrap();
        Installed {
            rocm: at("rocm"),
            llvm,
            tools,
            xrt,
        }
    })
}

/// A directory of a test's own.
pub struct Scene {
    directory: TempDir,
}

impl Scene {
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// A scene with a kernel `k.mlir`.
    pub fn with(kernel: &str) -> Self {
        let scene = Self::new();
        scene.file("k.mlir", kernel);
        scene
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// The program, with both toolchains and with NPUs of the second generation.
    pub fn npu_build(&self) -> Command {
        let installed = installed();
        let mut command = installed.llvm.npu_build();
        command
            .current_dir(self.path())
            .env("VIRTUAL_ENV", installed.tools.venv())
            .env("XILINX_XRT", installed.xrt.root())
            .env("ROCM_PATH", &installed.rocm);
        command
    }

    /// Runs the program with `arguments`, written as on a command line; `␣` is a space in one.
    pub fn run(&self, arguments: &str) -> Outcome {
        self.run_with(&[], arguments)
    }

    /// The same with more in the environment.
    pub fn run_with(&self, variables: &[(&str, &str)], arguments: &str) -> Outcome {
        let mut command = self.npu_build();
        command.envs(variables.iter().copied());
        let words = arguments.split_whitespace();
        command.args(words.map(|word| word.replace('␣', " ")));
        Outcome(command.output().unwrap())
    }

    /// What `arguments` print as JSON.
    #[track_caller]
    pub fn json(&self, arguments: &str) -> Value {
        self.json_with(&[], arguments)
    }

    /// The same with more in the environment.
    #[track_caller]
    pub fn json_with(&self, variables: &[(&str, &str)], arguments: &str) -> Value {
        let told = self.run_with(variables, &format!("{arguments} --message-format json"));
        assert_eq!(told.code(), 0, "{}", told.stderr());
        serde_json::from_str(&told.stdout()).unwrap()
    }

    /// The elements of a saved file, after its header of 128 bytes.
    #[track_caller]
    pub fn saved(&self, name: &str) -> Vec<u8> {
        let bytes = fs::read(self.path().join(name)).unwrap();
        assert!(
            bytes.starts_with(b"\x93NUMPY\x01\0\x76\0{'descr': "),
            "{name}"
        );
        bytes[128..].to_vec()
    }
}

/// The first values of an argument.
#[track_caller]
pub fn values<'a>(told: &'a Value, name: &str) -> &'a [Value] {
    let arguments = told["arguments"].as_array().unwrap();
    let argument = arguments.iter().find(|argument| argument["name"] == name);
    argument.unwrap()["values"].as_array().unwrap()
}

/// A file of the tests' data, written by NumPy.
pub fn numpy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/npy")
        .join(name)
}
