//! LLVM installations that are small and yet real: ELF programs and libraries, made by gcc.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use npu_build::toolchain::{Llvm, Memo, NotFound, Probe, Search};
use tempfile::TempDir;

/// A tool that prints its own version, or the one of the library that it is linked with.
const TOOL: &str = r#"
#include <stdio.h>
#include <string.h>
#ifdef LIBRARY
extern const char *version(void);
#else
static const char *version(void) { return VERSION; }
#endif
int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "-print-prog-name=ld")) return puts(LINKER) < 0;
    if (argc == 2 && !strcmp(argv[1], "-print-libgcc-file-name")) return puts(SUPPORT) < 0;
    return printf("Fake LLVM version %s\n  Optimized build.\n", version()) < 0;
}
"#;

/// Asks real programs, as the launcher of steps does, and counts.
#[derive(Default)]
pub struct Asking {
    pub runs: Cell<usize>,
    pub read: RefCell<Vec<PathBuf>>,
}

impl Probe for Asking {
    fn run(&self, program: &Path, arguments: &[&str]) -> io::Result<String> {
        self.runs.set(self.runs.get() + 1);
        let output = Command::new(program).args(arguments).env_clear().output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!(
                "{}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            )));
        }
        String::from_utf8(output.stdout).map_err(io::Error::other)
    }

    fn reading(&self, file: &Path, _bytes: u64) {
        self.read.borrow_mut().push(file.to_owned());
    }
}

/// A clock for which all files of a test are old.
pub fn ahead() -> SystemTime {
    SystemTime::now() + Duration::from_secs(3600)
}

/// A directory for a test, and what is to be made in it.
pub struct Sandbox {
    pub root: TempDir,
    pub asking: Asking,
    pub memo: RefCell<Memo>,
}

impl Sandbox {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("tool.c"), TOOL).unwrap();
        let memo = RefCell::new(Memo::default().with_clock(ahead));
        Self {
            root,
            asking: Asking::default(),
            memo,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// An installation whose MLIR tools take their version from `lib/libMLIR.so.1`.
    pub fn install(&self, name: &str, version: &str) -> PathBuf {
        self.library(&format!("{name}/lib/libMLIR.so.1"), version);
        for tool in ["mlir-opt", "mlir-translate"] {
            self.tool_with_library(&format!("{name}/bin/{tool}"), name);
        }
        self.tool(&format!("{name}/bin/clang"), version);
        self.path(name).join("bin")
    }

    /// A shared library that tells a version.
    pub fn library(&self, path: &str, version: &str) {
        let source = format!("const char *version(void) {{ return \"{version}\"; }}");
        let file = self.path(&format!("{}.c", version.replace('.', "_")));
        std::fs::write(&file, source).unwrap();
        self.gcc(
            &[
                "-shared",
                "-fPIC",
                "-Wl,-soname,libMLIR.so.1",
                file.to_str().unwrap(),
            ],
            path,
        );
    }

    /// A program that needs `lib/libMLIR.so.1` of the installation beside it.
    pub fn tool_with_library(&self, path: &str, installation: &str) {
        let library = self.path(installation).join("lib/libMLIR.so.1");
        let runpath = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/first:$ORIGIN/../lib";
        self.gcc(
            &[
                "-DLIBRARY",
                "-DLINKER=\"ld\"",
                "tool.c",
                library.to_str().unwrap(),
                runpath,
            ],
            path,
        );
    }

    /// A program that needs nothing.
    pub fn tool(&self, path: &str, version: &str) {
        self.gcc(
            &[
                &format!("-DVERSION=\"{version}\""),
                "-DLINKER=\"ld\"",
                "tool.c",
            ],
            path,
        );
    }

    /// A program that is what `text` says.
    pub fn script(&self, path: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Compiles to a new file, as a package manager installs one.
    pub fn gcc(&self, arguments: &[&str], path: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let new = self.path("new");
        let support = Command::new("gcc").arg("-print-libgcc-file-name").output();
        let support = String::from_utf8(support.unwrap().stdout).unwrap();
        let status = Command::new("gcc")
            .arg(format!("-DSUPPORT=\"{}\"", support.trim()))
            .args(arguments)
            .arg("-o")
            .arg(&new)
            .current_dir(self.root.path())
            .status();
        assert!(status.unwrap().success(), "gcc {arguments:?}");
        std::fs::rename(new, path).unwrap();
    }

    pub fn link(&self, target: &str, path: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    /// A search in this directory alone: of the given directories as PATH, and of `system`.
    pub fn search(&self, path: &[&str]) -> Search {
        let path: Vec<PathBuf> = path.iter().map(|directory| self.path(directory)).collect();
        let path: Option<OsString> =
            (!path.is_empty()).then(|| std::env::join_paths(path).unwrap());
        Search {
            path,
            system: self.path("system"),
            ..Search::default()
        }
    }

    pub fn discover(&self, search: &Search) -> Result<Arc<Llvm>, NotFound> {
        Llvm::discover(search, &mut self.memo.borrow_mut(), &self.asking)
    }

    /// How many programs were executed and files read since the last time this was called.
    pub fn work(&self) -> (usize, usize) {
        (self.asking.runs.take(), self.asking.read.take().len())
    }
}
