//! Where it all happens: a directory with a cache, and the environment that everybody gets.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use npu_build::config::{Environment, Layer, Settings};
use npu_build::interrupt::Interrupt;
use npu_build::plan::{Request, Session};
use npu_build::store::Event;
use npu_build::{Build, Target};
use tempfile::TempDir;

/// What is searched for tools, on every machine alike: Debian's default.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games";

/// A temporary directory that is cwd, home and cache of everything that is measured.
pub struct Scene {
    directory: TempDir,
}

impl Scene {
    pub fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("npu-build-figures-")
            .tempdir()
            .unwrap();
        let scene = Self { directory };
        // As it is installed: what the linker has just written starts slower than a copy of it, whose
        // pages in memory are larger.
        std::fs::copy(env!("CARGO_BIN_EXE_npu-build"), scene.program()).unwrap();
        scene
    }

    fn program(&self) -> PathBuf {
        self.path().join("npu-build")
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// `program` as all are run: in the scene, with a plain environment.
    pub fn command(&self, program: impl Into<OsString>) -> Command {
        let mut command = Command::new(program.into());
        command
            .current_dir(self.path())
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", self.path())
            .env("NPU_BUILD_CACHE_DIR", self.path().join("cache"))
            .env("CCACHE_DIR", self.path().join("ccache"));
        command
    }

    /// `npu-build` with `arguments`.
    pub fn npu_build(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(self.program());
        command.args(arguments);
        command
    }

    /// Copies a kernel into the scene, from the repository's root.
    pub fn kernel(&self, path: &str) -> PathBuf {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let to = self.path().join(from.file_name().unwrap());
        std::fs::copy(from, &to).unwrap();
        to
    }

    /// A session in this process, on the same cache.
    pub fn session(&self) -> Session {
        let mut flags = Layer::default();
        flags.cache.dir = Some(self.path().join("cache"));
        let settings = Settings::load(flags, &plain_environment(), self.path()).unwrap();
        Session::new(settings, Interrupt::default(), &warn).unwrap()
    }

    /// Builds a kernel, or says why there is none to measure.
    pub fn build(&self, request: &Request) -> Result<Build, String> {
        let build = self.session().build(request, &warn);
        build.map_err(|error| error.report())
    }
}

/// The environment for what runs in this process.
fn plain_environment() -> Environment {
    Environment::from_fn(|name| (name == "PATH").then(|| PATH.into()))
}

/// A request for the cpu.
pub fn request(kernel: PathBuf) -> Request {
    Request {
        kernel,
        target: Some(Target::Cpu),
        ..Request::default()
    }
}

/// Shows what should not happen during a measurement.
pub fn warn(event: Event<'_>) {
    if let Event::Warning(message) = event {
        eprintln!("warning: {message}");
    }
}

/// Where `program` is on `PATH`; an error that says how to get it.
pub fn find(program: &str) -> Result<PathBuf, String> {
    std::env::split_paths(PATH)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("no {program} in {PATH}; try: apt-get install {program}"))
}
