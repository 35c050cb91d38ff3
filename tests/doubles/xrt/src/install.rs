//! Lays out the double as an XRT installation, and compiles the launch shim against one.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An installation of the double.
///
/// ```text
/// ROOT/include/xrt/…
/// ROOT/lib/libxrt_coreutil.so -> libxrt_coreutil.so.2
///         /libxrt_double.so                             what the former computes with
/// ```
#[derive(Clone, Debug)]
pub struct Installation {
    root: PathBuf,
}

impl Installation {
    /// Installs the double under `root`. The C++ library is compiled once for all tests, by `$CXX`
    /// or g++.
    ///
    /// # Errors
    /// There is no compiler, or a file can't be written.
    pub fn new(root: &Path) -> io::Result<Self> {
        let device = device_library()?;
        let library = compiled(&device)?;
        let installation = Self {
            root: root.to_owned(),
        };
        copy_tree(&source().join("include"), &installation.include())?;
        let lib = installation.lib();
        fs::create_dir_all(&lib)?;
        fs::copy(&library, lib.join("libxrt_coreutil.so.2"))?;
        fs::copy(&device, lib.join("libxrt_double.so"))?;
        symlink("libxrt_coreutil.so.2", lib.join("libxrt_coreutil.so"))?;
        Ok(installation)
    }

    /// What `XILINX_XRT` is set to.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of the headers.
    pub fn include(&self) -> PathBuf {
        self.root.join("include")
    }

    /// The directory of the library.
    pub fn lib(&self) -> PathBuf {
        self.root.join("lib")
    }

    /// The library.
    pub fn library(&self) -> PathBuf {
        self.lib().join("libxrt_coreutil.so.2")
    }
}

/// Compiles the project's launch shim against an installation, with warnings as errors, into
/// `shim`. `XRT_DOUBLE_SHIM_FLAGS` may put other headers before those of the installation: the
/// real ones.
///
/// # Errors
/// The compiler's own words.
pub fn compile_shim(compiler: &str, installation: &Installation, shim: &Path) -> io::Result<()> {
    let lib = installation.lib();
    let flags = std::env::var("XRT_DOUBLE_SHIM_FLAGS").unwrap_or_default();
    run(Command::new(compiler)
        .args("-std=c++17 -O2 -fPIC -shared -Wall -Wextra -Werror -Wl,-z,defs".split(' '))
        .args(flags.split_whitespace())
        .arg("-I")
        .arg(installation.include())
        .arg(source().join("../../../templates/xrt_shim.cpp"))
        .arg("-o")
        .arg(shim)
        .arg("-L")
        .arg(&lib)
        .arg("-lxrt_coreutil")
        .arg(format!("-Wl,-rpath,{}", lib.display())))
}

fn source() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command
        .output()
        .map_err(|error| io::Error::other(format!("{command:?}: {error}")))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        ))),
    }
}

/// This crate as a shared library: cargo has built it together with the program that runs now, in
/// the directory of all dependencies.
fn device_library() -> io::Result<PathBuf> {
    const NAME: &str = "libxrt_double.so";
    let program = std::env::current_exe()?;
    let near = program.ancestors().skip(1).take(2);
    let mut places =
        near.flat_map(|directory| [directory.join(NAME), directory.join("deps").join(NAME)]);
    places.find(|place| place.exists()).ok_or_else(|| {
        let text = format!("no {NAME} beside {}", program.display());
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

/// The C++ library, compiled unless that has been done already.
fn compiled(device: &Path) -> io::Result<PathBuf> {
    let mut sources = files(&source().join("library"))?;
    sources.extend(files(&source().join("include"))?);
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned());
    let mut hasher = DefaultHasher::new();
    compiler.hash(&mut hasher);
    for file in &sources {
        fs::read(file)?.hash(&mut hasher);
    }
    let directory = device.with_file_name("xrt-double");
    fs::create_dir_all(&directory)?;
    let library = directory.join(format!("libxrt_coreutil-{:016x}.so", hasher.finish()));
    let lock = fs::File::create(directory.join("lock"))?;
    lock.lock()?;
    if !library.exists() {
        let unfinished = library.with_extension("new");
        let units = sources
            .iter()
            .filter(|file| file.extension().is_some_and(|e| e == "cpp"));
        run(Command::new(compiler)
            .args(
                "-std=c++17 -O1 -g -fPIC -shared -Wall -Wextra -Werror -DXRT_API_SOURCE".split(' '),
            )
            .args("-Wl,-soname,libxrt_coreutil.so.2 -Wl,-rpath,$ORIGIN -Wl,-z,defs".split(' '))
            .arg("-I")
            .arg(source().join("include"))
            .args(units)
            .arg("-o")
            .arg(&unfinished)
            .arg("-L")
            .arg(device.with_file_name(""))
            .args(["-lxrt_double", "-luuid"]))?;
        fs::rename(unfinished, &library)?;
    }
    Ok(library)
}

/// All files below a directory, sorted.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(files(&path)?),
            false => found.push(path),
        }
    }
    found.sort();
    Ok(found)
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    for file in files(from)? {
        let to = to.join(file.strip_prefix(from).unwrap_or(&file));
        if let Some(directory) = to.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::copy(&file, to)?;
    }
    Ok(())
}
