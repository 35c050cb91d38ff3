//! What the integration tests share: a scene with a cache, a toolchain that counts its runs, and the
//! program under test.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "these are tests"
)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// A directory with a cache, an instrumented toolchain, and kernels.
pub struct Scene {
    pub directory: TempDir,
    pub llvm: PathBuf,
    pub cache: PathBuf,
}

/// Where the real tools are. Missing tools fail the test: there is nothing to test without them.
pub fn real_llvm() -> PathBuf {
    let mut candidates: Vec<_> = fs::read_dir("/usr/lib")
        .unwrap()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .filter(|bin| {
            ["mlir-opt", "mlir-translate", "clang"]
                .iter()
                .all(|tool| bin.join(tool).exists())
        })
        .collect();
    candidates.sort_by_key(|bin| bin.as_os_str().len());
    candidates.sort();
    let found = candidates
        .pop()
        .expect("no LLVM with MLIR in /usr/lib; tests/setup.sh installs one");
    eprintln!("using the real tools in {}", found.display());
    found
}

/// The program under test: that of the crate whose tests these are.
pub const PROGRAM: &str = match (
    option_env!("CARGO_BIN_EXE_npu-build"),
    option_env!("CARGO_BIN_EXE_npu-build-run"),
) {
    (Some(program), _) | (None, Some(program)) => program,
    (None, None) => panic!("cargo names the program of a crate's tests"),
};

/// A file of the checkout.
pub fn checkout(name: &str) -> PathBuf {
    let mut directories = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let root = directories.find(|it| it.join("Cargo.lock").exists());
    root.unwrap().join(name)
}

/// An example kernel.
pub fn example(name: &str) -> PathBuf {
    checkout("examples/kernels").join(name)
}

/// The programs of a toolchain, in the order in which a compilation runs them.
pub const TOOLS: [&str; 3] = ["mlir-opt", "mlir-translate", "clang"];

/// Debian's user without rights.
const NOBODY: u32 = 65534;

fn temporary() -> TempDir {
    tempfile::Builder::new()
        .prefix("npu-build-test-")
        .tempdir()
        .unwrap()
}

/// What the real tools make of `vecadd.mlir`, made once for each test program.
struct Recorded {
    /// What each of the tools makes, in their order.
    made: [(&'static str, Vec<u8>); 3],
    /// What npu-build remembers of the real tools' files.
    memo: Vec<u8>,
}

fn recorded() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    RECORDED.get_or_init(|| {
        let directory = temporary();
        let cache = directory.path().join("cache");
        let output = Command::new(PROGRAM)
            .env_clear()
            .env("HOME", directory.path())
            .env("NPU_BUILD_CACHE_DIR", &cache)
            .env("NPU_BUILD_LLVM", real_llvm())
            .current_dir(directory.path())
            .args(["compile", "--target", "cpu", "--keep-intermediates"])
            .arg(example("vecadd.mlir"))
            .output()
            .unwrap();
        let entry = Outcome(output).paths()[0].parent().unwrap().to_owned();
        let read = |name: &'static str| (name, fs::read(entry.join(name)).unwrap());
        Recorded {
            made: ["kernel.llvm.mlir", "kernel.ll", "kernel.so"].map(read),
            memo: fs::read(cache.join("v1/tools/toolchain-memo")).unwrap(),
        }
    })
}

/// Makes an executable script. Another process writes it: a descriptor that is open for writing in
/// this one would be inherited by the children that other tests start, and then the script is busy.
pub fn executable(path: &Path, text: &str) {
    let mut child = Command::new("/bin/sh")
        .args([
            "-c",
            r#"umask 022 && cat > "$0.new" && chmod 755 "$0.new" && mv "$0.new" "$0""#,
        ])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success(), "{}", path.display());
}

impl Scene {
    fn empty() -> Self {
        let directory = temporary();
        let scene = Self {
            llvm: directory.path().join("llvm/bin"),
            cache: directory.path().join("cache"),
            directory,
        };
        fs::create_dir_all(&scene.llvm).unwrap();
        scene
    }

    /// A scene whose toolchain runs the real tools and notes each run.
    pub fn new() -> Self {
        let scene = Self::empty();
        scene.seed();
        for tool in TOOLS {
            scene.script(tool, "");
        }
        scene
    }

    /// A scene whose toolchain gives at once what the real one made of `vecadd.mlir`, whatever the
    /// kernel: for tests of everything but what the tools do.
    pub fn replayed() -> Self {
        let scene = Self::empty();
        executable(
            &scene.llvm.join("ld"),
            "#!/bin/sh\necho 'GNU ld (GNU Binutils) 2.44'\n",
        );
        fs::write(scene.llvm.join("support.a"), "!<arch>\n").unwrap();
        fs::create_dir(scene.path().join("recorded")).unwrap();
        for (name, bytes) in &recorded().made {
            fs::write(scene.path().join("recorded").join(name), bytes).unwrap();
        }
        for tool in TOOLS {
            scene.tool(tool, &scene.replay(tool));
        }
        scene
    }

    /// Saves a scene the reading of the real tools, which are what they were a moment ago.
    fn seed(&self) {
        let tools = self.cache.join("v1/tools");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&tools)
            .unwrap();
        fs::write(tools.join("toolchain-memo"), &recorded().memo).unwrap();
    }

    /// The shell command that does what the real `tool` did.
    pub fn replay(&self, tool: &str) -> String {
        let number = TOOLS.iter().position(|name| *name == tool).unwrap();
        let made = recorded().made[number].0;
        format!(
            "cp '{}' {made}",
            self.path().join("recorded").join(made).display()
        )
    }

    /// Makes a tool of the scene that notes each run and is what `body` says, a piece of shell. It
    /// answers what it is asked about itself.
    pub fn tool(&self, name: &str, body: &str) {
        let text = format!(
            "#!/bin/sh\ncase \"$1\" in\n\
             --version) echo 'LLVM version 22.1.0'; exit ;;\n\
             -print-prog-name=ld) echo \"${{0%/*}}/ld\"; exit ;;\n\
             -print-libgcc-file-name) echo \"${{0%/*}}/support.a\"; exit ;;\n\
             esac\necho {name} >> '{runs}'\n{body}\n",
            runs = self.path().join("runs").display(),
        );
        executable(&self.llvm.join(name), &text);
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Makes a tool of the scene: notes the run, does `extra`, then runs the real one.
    pub fn script(&self, tool: &str, extra: &str) {
        let real = real_llvm().join(tool);
        let runs = self.path().join("runs");
        let text = format!(
            "#!/bin/sh\ncase \"$1\" in --version|-print*) ;; *)\necho {tool} >> '{}'\n{extra}\n;; esac\nexec {} \"$@\"\n",
            runs.display(),
            real.display()
        );
        executable(&self.llvm.join(tool), &text);
    }

    /// The tools that have run since the last call, in order.
    pub fn runs(&self) -> Vec<String> {
        let path = self.path().join("runs");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        text.lines().map(str::to_owned).collect()
    }

    /// Copies an example kernel into the scene.
    pub fn kernel(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::copy(example(name), &path).unwrap();
        path
    }

    /// Writes a file into the scene.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// The program as somebody who may write only where that is allowed, as root may not be told.
    pub fn unprivileged(&self) -> Command {
        let mut command = self.npu_build();
        fs::set_permissions(self.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let user = rustix::process::geteuid().as_raw();
        if user != 0 {
            return command;
        }
        command = self.copied(&self.path().join("npu-build"));
        command.uid(NOBODY).gid(NOBODY);
        command
    }

    /// The program as [`Scene::npu_build`] has it, but a copy of it at `program`, alone.
    pub fn copied(&self, program: &Path) -> Command {
        if !program.exists() {
            let status = Command::new("cp").arg(PROGRAM).arg(program).status();
            assert!(status.unwrap().success());
        }
        in_place_of(&self.npu_build(), program)
    }

    /// A directory that the unprivileged program may not write.
    pub fn read_only(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o555)).unwrap();
        path
    }

    /// The program with this scene's cache and toolchain, and nothing else of the environment.
    pub fn npu_build(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .current_dir(self.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path())
            .env("NPU_BUILD_CACHE_DIR", &self.cache)
            .env("NPU_BUILD_LLVM", &self.llvm);
        command
    }

    /// Runs the program with `arguments`.
    pub fn run(&self, arguments: &[&str]) -> Outcome {
        Outcome(self.npu_build().args(arguments).output().unwrap())
    }

    /// Asserts that `arguments` end with `code` and a message that has all of `words`, for people and
    /// for machines, and that nothing has changed: no entry, nothing below the directory `out`, no
    /// work directory left behind.
    #[track_caller]
    pub fn refuses(&self, arguments: &[&str], code: i32, words: &[&str]) {
        self.refuses_as(&|| self.npu_build(), arguments, code, words);
    }

    /// The same for a program in another environment.
    #[track_caller]
    pub fn refuses_as(
        &self,
        program: &dyn Fn() -> Command,
        arguments: &[&str],
        code: i32,
        words: &[&str],
    ) {
        let entries = self.entry_files();
        let told = Outcome(program().args(arguments).output().unwrap());
        told.fails(code, words);
        let json = ["--message-format", "json"];
        let told = Outcome(program().args(arguments).args(json).output().unwrap());
        assert_eq!(told.code(), code, "{told:?}");
        let stdout = told.stdout();
        assert_eq!(stdout.lines().count(), 1, "not one object: {told:?}");
        let error: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(error["code"], code);
        for word in words {
            let message = error["error"].as_str().unwrap();
            assert!(message.contains(word), "no '{word}' in:\n{message}");
        }
        assert_eq!(self.entry_files(), entries);
        assert_eq!(self.leftovers(), [""; 0].map(PathBuf::from));
        assert!(!self.path().join("out").exists());
    }

    /// Compiles `kernel` for the cpu.
    pub fn compile(&self, kernel: &Path) -> Outcome {
        self.run(&["compile", kernel.to_str().unwrap(), "--target", "cpu"])
    }

    /// The files of all entries, manifests included.
    pub fn entry_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<_> = walkdir::WalkDir::new(self.cache.join("v1/entries"))
            .into_iter()
            .flatten()
            .filter(|entry| entry.file_type().is_file())
            .map(walkdir::DirEntry::into_path)
            .collect();
        files.sort();
        files
    }

    /// What is left in the directory of running builds, and of entries that were being deleted.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        let found = fs::read_dir(self.cache.join("v1/work")).into_iter();
        found
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect()
    }

    /// The lock of a kernel's object.
    pub fn lock(&self, kernel: &str) -> PathBuf {
        let key = self.run(&["key", kernel, "--target", "cpu"]).stdout();
        self.cache.join("v1/locks").join(&key[..3])
    }
}

/// What the program did.
#[derive(Debug)]
pub struct Outcome(pub Output);

impl Outcome {
    pub fn code(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    /// Asserts success, and gives the paths on standard output.
    #[track_caller]
    pub fn paths(&self) -> Vec<PathBuf> {
        assert_eq!(self.code(), 0, "{}", self.stderr());
        self.stdout().lines().map(PathBuf::from).collect()
    }

    /// Asserts that it failed with `code`, wrote no result, and said all of `words`.
    #[track_caller]
    pub fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code(), code, "{self:?}");
        assert_eq!(self.stdout(), "", "a result in spite of the failure");
        let stderr = self.stderr();
        for word in words {
            assert!(stderr.contains(word), "no '{word}' in:\n{stderr}");
        }
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

/// `other` where `program` would run, with the variables that are set for it.
pub fn in_place_of(program: &Command, other: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(other);
    command.env_clear().envs(environment(program));
    if let Some(directory) = program.get_current_dir() {
        command.current_dir(directory);
    }
    command
}

/// The variables that are set for a program, as another one can take them over.
pub fn environment(program: &Command) -> Vec<(OsString, OsString)> {
    let set = program
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    set.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Waits until `condition` holds; a test that waits for a minute has failed.
#[track_caller]
pub fn wait_for(mut condition: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if condition() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("waited for a minute");
}

/// The library that stands between a program and its files, see `tests/doubles/faulty-fs`; compiled
/// once for each test program.
pub fn faulty() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = LIBRARY.get_or_init(|| {
        let directory = temporary();
        let path = directory.path().join("libfaulty_fs.so");
        let source = checkout("tests/doubles/faulty-fs/src/lib.rs");
        let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
        let mut command = Command::new(rustc);
        command
            .args(["--edition", "2024", "--crate-type", "cdylib"])
            .args(["-O", "-C", "panic=abort", "-o"])
            .arg(&path)
            .arg(source);
        assert!(command.status().unwrap().success());
        (directory, path)
    });
    path
}
