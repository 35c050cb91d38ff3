//! The XRT installation that the launch shim is compiled against, and the C++ compiler that does it.
//!
//! XRT's supported API is C++, so what drives it from Rust is compiled on the machine that has it:
//! from its headers, which are part of the key by their content.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use walkdir::WalkDir;

use super::examine::Examination;
use super::places::{is_program, without_links_to_its_directory};
use super::{Configured, Memo, Probe, Reason, Tool};
use crate::digest::{Digest, Hasher};

/// Where to look; an empty variable is an unset one.
#[derive(Clone, Debug, Default)]
pub struct XrtSearch {
    /// The only installation to look at.
    pub xrt: Option<Configured>,
    /// `XILINX_XRT`.
    pub xilinx_xrt: Option<OsString>,
    /// Where XRT is installed by its own packages: `/opt/xilinx/xrt`.
    pub system_xrt: PathBuf,
    /// The only compiler to take: a program, or a name to look for in `PATH`.
    pub cxx: Option<OsString>,
    /// `PATH`; relative directories in it are ignored.
    pub path: Option<OsString>,
}

/// What the shim is compiled with and for.
#[derive(Clone, Debug)]
pub struct XrtSdk {
    /// The installation.
    pub root: PathBuf,
    /// The directory of its libraries.
    pub libraries: PathBuf,
    /// What its headers say.
    pub headers: Digest,
    /// `libxrt_coreutil`.
    pub library: Arc<Tool>,
    /// The C++ compiler.
    pub compiler: Arc<Tool>,
    /// What it runs in turn.
    pub passes: Vec<Arc<Tool>>,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoXrtSdk {
    /// No installation has what is needed.
    #[error(
        "no XRT that a shim can be compiled for:{}\ntry: install XRT with its development files, or \
         name its installation with --xrt or XILINX_XRT", Looked(.0)
    )]
    Installation(Vec<(PathBuf, String)>),
    /// There is no compiler.
    #[error(
        "no C++ compiler found{}\ntry: install g++, or name a compiler with --cxx or CXX",
        .0.as_ref().map_or_else(String::new, |named| match named.split_whitespace().count() {
            1 => format!(": there is no {named}"),
            _ => format!(": '{named}' is not one program, without a wrapper or flags"),
        })
    )]
    Compiler(Option<String>),
    /// A program or library can't be identified.
    #[error(transparent)]
    Unusable(Box<Reason>),
}

struct Looked<'a>(&'a [(PathBuf, String)]);

impl fmt::Display for Looked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, reason) in self.0 {
            write!(f, "\n  {}: {reason}", place.display())?;
        }
        Ok(())
    }
}

impl From<Reason> for NoXrtSdk {
    fn from(reason: Reason) -> Self {
        Self::Unusable(Box::new(reason))
    }
}

/// The C++ compiler and what it runs, as they are called in keys.
pub(super) const CXX: [&str; 4] = ["c++", "c++-cc1plus", "c++-as", "c++-ld"];
/// `libxrt_coreutil`, as it is called in keys.
pub(super) const COREUTIL: &str = "xrt_coreutil";
/// The headers without which an installation is too old or has no development files.
const HEADERS: [&str; 4] = [
    "xrt/xrt_device.h",
    "xrt/xrt_hw_context.h",
    "xrt/experimental/xrt_elf.h",
    "xrt/experimental/xrt_ext.h",
];

impl XrtSdk {
    /// Finds the installation and the compiler. [`Memo::save`] is the caller's to call.
    ///
    /// # Errors
    /// What is missing, and where it was looked for.
    pub fn discover(
        search: &XrtSearch,
        memo: &mut Memo,
        probe: &dyn Probe,
    ) -> Result<Self, NoXrtSdk> {
        let (root, libraries) = installation(search)?;
        let compiler = compiler(search)?;
        let mut examination = Examination::new(memo, probe);
        let library = libraries.join("libxrt_coreutil.so");
        let library = fs::canonicalize(&library).unwrap_or(library);
        let library = examination.library(COREUTIL, &library)?;
        let parts = examination.parts(CXX[0], compiler)?;
        examination.read(&[&parts])?;
        let compiler = examination.tool(parts)?;
        let mut passes = Vec::new();
        for (name, program) in CXX.into_iter().skip(1).zip(["cc1plus", "as", "ld"]) {
            // A compiler that does such a pass itself answers with a bare name.
            let answer = examination.ask(&compiler.path, &format!("-print-prog-name={program}"))?;
            let Some(path) = located(answer.trim(), search) else {
                continue;
            };
            let parts = examination.parts(name, path)?;
            examination.read(&[&parts])?;
            passes.push(Arc::new(examination.identify(parts)?));
        }
        Ok(Self {
            headers: headers(&root.join("include")).map_err(|(file, error)| {
                Reason::Unreadable {
                    file,
                    error: error.to_string(),
                }
            })?,
            root,
            libraries,
            library: Arc::new(library),
            compiler: Arc::new(compiler),
            passes,
        })
    }
}

/// The first installation with headers and a library.
fn installation(search: &XrtSearch) -> Result<(PathBuf, PathBuf), NoXrtSdk> {
    let roots = match &search.xrt {
        Some(configured) => vec![configured.directory.clone()],
        None => {
            let variable = search.xilinx_xrt.as_ref().map(PathBuf::from);
            variable
                .into_iter()
                .chain([search.system_xrt.clone()])
                .collect()
        }
    };
    let mut looked = Vec::new();
    for root in roots {
        match libraries(&root) {
            Ok(libraries) => return Ok((root, libraries)),
            Err(reason) => looked.push((root, reason)),
        }
    }
    Err(NoXrtSdk::Installation(looked))
}

fn libraries(root: &Path) -> Result<PathBuf, String> {
    if !root.is_dir() {
        return Err("is no directory".to_owned());
    }
    let include = root.join("include");
    if let Some(missing) = HEADERS
        .iter()
        .find(|header| !include.join(header).is_file())
    {
        return Err(match include.join("xrt").is_dir() {
            true => format!("has no include/{missing}: it is too old"),
            false => {
                "has no include/xrt: it can run programs, and its development files are missing"
                    .to_owned()
            }
        });
    }
    let mut places = ["lib", "lib64", "lib/x86_64-linux-gnu"]
        .map(|name| root.join(name))
        .into_iter();
    places
        .find(|place| place.join("libxrt_coreutil.so").is_file())
        .ok_or_else(|| "has no lib/libxrt_coreutil.so".to_owned())
}

/// The compiler that was named, or the first that there is.
fn compiler(search: &XrtSearch) -> Result<PathBuf, NoXrtSdk> {
    if let Some(named) = &search.cxx {
        let name = named.to_string_lossy();
        return located(&name, search).ok_or_else(|| NoXrtSdk::Compiler(Some(name.into_owned())));
    }
    let mut names = ["g++", "clang++", "c++"].into_iter();
    let found = names.find_map(|name| located(name, search));
    found.ok_or(NoXrtSdk::Compiler(None))
}

/// The program of that path, or of that name on `PATH`.
fn located(name: &str, search: &XrtSearch) -> Option<PathBuf> {
    let path = search.path.iter().flat_map(std::env::split_paths);
    let directories = path
        .chain(["/usr/bin", "/bin"].map(PathBuf::from))
        .filter(|directory| directory.is_absolute());
    let mut places = match name.contains('/') {
        true => vec![PathBuf::from(name)],
        false => directories.map(|directory| directory.join(name)).collect(),
    }
    .into_iter();
    let found = places.find(|place| place.is_absolute() && is_program(place))?;
    Some(without_links_to_its_directory(&found))
}

/// The digest of all headers, by their names.
fn headers(include: &Path) -> Result<Digest, (PathBuf, std::io::Error)> {
    let mut hasher = Hasher::new();
    let files = WalkDir::new(include.join("xrt"))
        .follow_links(true)
        .sort_by_file_name();
    for entry in files {
        let entry = entry.map_err(|error| (include.to_owned(), error.into()))?;
        if !entry.file_type().is_file() {
            continue;
        }
        let path = entry.path();
        let content = fs::read(path).map_err(|error| (path.to_owned(), error))?;
        let name = path.strip_prefix(include).unwrap_or(path);
        for part in [name.as_os_str().as_encoded_bytes(), &content] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    Ok(hasher.finish())
}
