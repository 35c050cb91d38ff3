//! A scene: an installation of the doubles, a cache, kernels, and the program under test.

use std::cell::Cell;
use std::fs;
use std::ops::Add;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use aie_tools::install::Installation;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::Outcome;

/// A directory with a toolchain, a cache and kernels.
pub struct Scene {
    directory: TempDir,
    pub tools: Installation,
    pub cache: PathBuf,
    counted: Cell<Runs>,
}

/// How often each tool has run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    pub air_opt: usize,
    pub aircc: usize,
    pub aiecc: usize,
    pub aie_hsaco: usize,
}

/// No tool at all.
pub const NOTHING: Runs = Runs {
    air_opt: 0,
    aircc: 0,
    aiecc: 0,
    aie_hsaco: 0,
};
/// The step from linalg to AIR: two pipelines and the script between them.
pub const LOWER: Runs = Runs {
    air_opt: 3,
    ..NOTHING
};
/// The step from AIR to the artifact.
pub const AIRCC: Runs = Runs {
    aircc: 1,
    aiecc: 1,
    ..NOTHING
};
/// The step from AIE to the artifact.
pub const AIECC: Runs = Runs {
    aiecc: 1,
    ..NOTHING
};
/// The step from the artifact to the hsaco.
pub const PACK: Runs = Runs {
    aie_hsaco: 1,
    ..NOTHING
};

impl Add for Runs {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            air_opt: self.air_opt + other.air_opt,
            aircc: self.aircc + other.aircc,
            aiecc: self.aiecc + other.aiecc,
            aie_hsaco: self.aie_hsaco + other.aie_hsaco,
        }
    }
}

impl Runs {
    fn since(self, earlier: Self) -> Self {
        Self {
            air_opt: self.air_opt - earlier.air_opt,
            aircc: self.aircc - earlier.aircc,
            aiecc: self.aiecc - earlier.aiecc,
            aie_hsaco: self.aie_hsaco - earlier.aie_hsaco,
        }
    }
}

impl Scene {
    /// A scene whose aiecc speaks dialect 3.
    pub fn new() -> Self {
        Self::with_dialect(3)
    }

    /// A scene whose aiecc speaks that dialect.
    pub fn with_dialect(dialect: u8) -> Self {
        let directory = temporary();
        let scene = Self::install(directory, dialect);
        // Each tool is new; what it links to is as old as the machine, and need not be read again.
        let tools = scene.cache.join("v1/tools");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&tools)
            .unwrap();
        fs::write(tools.join("toolchain-memo"), known_files()).unwrap();
        scene
    }

    fn install(directory: TempDir, dialect: u8) -> Self {
        let tools = Installation::new(&directory.path().join("root"), dialect).unwrap();
        Self {
            cache: directory.path().join("cache"),
            tools,
            directory,
            counted: Cell::default(),
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file into the scene.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// The program with this scene's cache and toolchain, and nothing else of the environment.
    pub fn npu_build(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_npu-build"));
        command
            .current_dir(self.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path())
            .env("NPU_BUILD_CACHE_DIR", &self.cache)
            .env("VIRTUAL_ENV", self.tools.venv())
            .env("XILINX_XRT", self.path().join("root/xrt"));
        command
    }

    /// Runs the program with `arguments`, written as on a command line.
    pub fn run(&self, arguments: &str) -> Outcome {
        run(self.npu_build(), arguments)
    }

    /// Compiles with `arguments`, which must succeed for one file.
    #[track_caller]
    pub fn compile(&self, arguments: &str) -> Built {
        compile(self.npu_build(), arguments)
    }

    /// What each tool has compiled since the last call. Questions for versions do not count.
    pub fn ran(&self) -> Runs {
        let count = |tool: &str| self.tools.compilations(tool).len();
        let now = Runs {
            air_opt: count("air-opt"),
            aircc: count("aircc"),
            aiecc: count("aiecc"),
            aie_hsaco: count("aie-hsaco"),
        };
        now.since(self.counted.replace(now))
    }

    /// The key of the kernel's first step.
    #[track_caller]
    pub fn key(&self, arguments: &str) -> String {
        let told = self.run(&format!("key {arguments}"));
        assert_eq!(told.code(), 0, "{told:?}");
        told.stdout().trim().to_owned()
    }

    /// Asserts that compiling with `arguments` ends with `code` and all of `words`, and publishes
    /// nothing and leaves nothing behind; but for steps that succeed before it.
    #[track_caller]
    pub fn refuses(&self, arguments: &str, code: i32, words: &[&str]) {
        let steps = self.entries_of(&["compile", "pack", "launcher"]);
        let told = self.run(&format!("compile --out-dir out {arguments}"));
        told.fails(code, words);
        assert_eq!(self.entries_of(&["compile", "pack", "launcher"]), steps);
        assert_eq!(self.leftovers(), [""; 0].map(PathBuf::from));
        assert!(!self.path().join("out").exists());
    }

    /// The directories of entries of these steps.
    pub fn entries_of(&self, steps: &[&str]) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for path in self.manifests() {
            let manifest = fs::read_to_string(&path).unwrap();
            let head = manifest.lines().next().unwrap();
            let head: serde_json::Value = serde_json::from_str(head).unwrap();
            if steps.contains(&head["step"].as_str().unwrap()) {
                found.push(path.parent().unwrap().to_owned());
            }
        }
        found
    }

    fn manifests(&self) -> Vec<PathBuf> {
        let entries = walkdir::WalkDir::new(self.cache.join("v1/entries"));
        let mut paths: Vec<_> = entries
            .into_iter()
            .flatten()
            .filter(|entry| entry.file_name() == "manifest.json")
            .map(walkdir::DirEntry::into_path)
            .collect();
        paths.sort();
        paths
    }

    /// What is left in the directory of running builds.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        let work = fs::read_dir(self.cache.join("v1/work"));
        let entries = work.into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    }
}

fn temporary() -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder.prefix("npu-build-test-").tempdir().unwrap()
}

/// What npu-build remembers of files that all scenes have in common, such as LLVM's libraries.
fn known_files() -> &'static [u8] {
    static KNOWN: OnceLock<Vec<u8>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let scene = Scene::install(temporary(), 3);
        scene.run("doctor");
        fs::read(scene.cache.join("v1/tools/toolchain-memo")).unwrap()
    })
}

/// Runs `program` with `arguments`, written as on a command line.
pub fn run(mut program: Command, arguments: &str) -> Outcome {
    let arguments = arguments
        .split_whitespace()
        .map(|word| word.replace('␣', " "));
    Outcome(program.args(arguments).output().unwrap())
}

/// Compiles with `arguments`, which must succeed for one file.
#[track_caller]
pub fn compile(program: Command, arguments: &str) -> Built {
    let told = run(
        program,
        &format!("--message-format json compile {arguments}"),
    );
    assert_eq!(
        told.code(),
        0,
        "{arguments}: {}{}",
        told.stdout(),
        told.stderr()
    );
    let mut built = Built::read(&told);
    assert_eq!(built.len(), 1);
    built.remove(0)
}

/// What the program says of a file that it built.
#[derive(Debug)]
pub struct Built(pub Value);

impl Built {
    /// One for each object on standard output.
    pub fn read(told: &Outcome) -> Vec<Self> {
        let lines = told.stdout();
        let objects = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        objects.map(Self).collect()
    }

    /// `built`, `hit` or `repaired`.
    pub fn outcome(&self) -> &str {
        self.0["outcome"].as_str().unwrap_or_default()
    }

    /// What was wrong, if it was refused.
    pub fn error(&self) -> Option<&str> {
        self.0["error"].as_str()
    }

    /// Each step with its outcome: `compile built, launcher hit`.
    pub fn steps(&self) -> String {
        let steps = self.0["steps"].as_array().unwrap().iter();
        let told: Vec<_> = steps
            .map(|step| {
                let text = |field| step[field].as_str().unwrap();
                format!("{} {}", text("step"), text("outcome"))
            })
            .collect();
        told.join(", ")
    }

    /// The key of a step.
    pub fn key(&self, step: &str) -> String {
        let mut steps = self.0["steps"].as_array().unwrap().iter();
        let step = steps.find(|it| it["step"] == step).unwrap();
        step["key"].as_str().unwrap().to_owned()
    }

    /// The kernels' names.
    pub fn names(&self) -> Vec<&str> {
        let kernels = self.0["kernels"].as_array().unwrap().iter();
        let names = kernels.map(|kernel| kernel["kernel"]["name"].as_str().unwrap());
        names.collect()
    }

    /// The files of a kernel.
    pub fn artifacts(&self, kernel: usize) -> Vec<PathBuf> {
        let files = self.0["kernels"][kernel]["artifacts"].as_array().unwrap();
        let paths = files
            .iter()
            .map(|file| file["path"].as_str().unwrap().into());
        paths.collect()
    }

    /// The content of the first file.
    pub fn first(&self) -> Vec<u8> {
        fs::read(&self.artifacts(0)[0]).unwrap()
    }

    /// The launcher's text.
    pub fn launcher(&self) -> String {
        fs::read_to_string(self.0["launcher"]["path"].as_str().unwrap()).unwrap()
    }
}
