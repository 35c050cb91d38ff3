//! Discovery of an LLVM installation with MLIR: what the cpu target is compiled with.
//!
//! Looks in the configured directory and nowhere else, or in `$MLIR_INSTALL_DIR/bin`, `PATH` and
//! `/usr/lib/llvm-*/bin`. All tools are taken from one directory and are of one version; what does
//! not have them is rejected with its reason.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::examine::Examination;
use super::memo::Found;
use super::places::{self, Place};
use super::{Memo, NotFound, Probe, Reason, Rejected, Tool};
use crate::digest::{Digest, Hasher};

const MLIR_OPT: &str = "mlir-opt";
const MLIR_TRANSLATE: &str = "mlir-translate";
const CLANG: &str = "clang";
const LD: &str = "ld";
const SUPPORT: &str = "support";

/// What tools are called here.
pub(super) const NAMES: [&str; 5] = [MLIR_OPT, MLIR_TRANSLATE, CLANG, LD, SUPPORT];

/// How often an examination begins again when files change under it.
const ATTEMPTS: usize = 3;

/// An installation: its tools, all from one directory and of one version, and their linker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Llvm {
    /// The directory that the tools are in.
    #[serde(with = "super::stored_path")]
    pub bin: PathBuf,
    /// The version of all three tools.
    pub version: String,
    /// Lowers MLIR.
    pub mlir_opt: Arc<Tool>,
    /// Translates MLIR's LLVM dialect to LLVM IR.
    pub mlir_translate: Arc<Tool>,
    /// Compiles LLVM IR and links.
    pub clang: Arc<Tool>,
    /// What clang links with. Its path is to be given to clang as `--ld-path`, so that what is
    /// executed is what is in the key.
    pub linker: Arc<Tool>,
    /// The archive of compiler support routines (128-bit division, f16 conversions) that clang links
    /// with: parts of it end up in an object, so it is identified as the tools are.
    pub support: Arc<Tool>,
    /// What was looked at before this one and can't be used.
    pub rejected: Vec<Rejected>,
}

/// Where to look. Nothing is read from the environment here.
#[derive(Clone, Debug)]
pub struct Search {
    /// The only directory to look in, if the user has named one: an installation or its `bin`.
    pub configured: Option<Configured>,
    /// `MLIR_INSTALL_DIR`; empty is unset.
    pub mlir_install_dir: Option<OsString>,
    /// `PATH`; empty is unset, and relative directories in it are ignored.
    pub path: Option<OsString>,
    /// The directory that holds `llvm-NN`: `/usr/lib`.
    pub system: PathBuf,
}

/// A directory that the user has named.
#[derive(Clone, Debug)]
pub struct Configured {
    /// An installation, or the directory of its programs; absolute.
    pub directory: PathBuf,
    /// Where that was said, for messages: "--llvm", "`llvm` in npu-build.toml".
    pub origin: String,
}

/// A place and what came of looking at it.
pub type Candidate = (PathBuf, Result<Llvm, Reason>);

impl Default for Search {
    /// A search of the system's directories alone.
    fn default() -> Self {
        Self {
            configured: None,
            mlir_install_dir: None,
            path: None,
            system: PathBuf::from("/usr/lib"),
        }
    }
}

impl Search {
    /// What the memo knows this search by.
    fn digest(&self) -> Digest {
        let configured = self
            .configured
            .as_ref()
            .map(|configured| configured.directory.as_os_str());
        let mut hasher = Hasher::new();
        for value in [
            configured,
            self.mlir_install_dir.as_deref(),
            self.path.as_deref(),
            Some(self.system.as_os_str()),
        ] {
            let bytes = value.map(OsStrExt::as_bytes).unwrap_or_default();
            hasher.update((bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        }
        hasher.finish()
    }
}

impl Llvm {
    /// The first installation of the search that can be used.
    ///
    /// A search whose outcome is in the memo costs one look at each file that it depends on.
    /// [`Memo::save`] is the caller's to call.
    ///
    /// # Errors
    /// If there is none: every place that was looked at, with what is wrong with it.
    pub fn discover(
        search: &Search,
        memo: &mut Memo,
        probe: &dyn Probe,
    ) -> Result<Arc<Self>, NotFound> {
        let digest = search.digest();
        if let Some(Found::Llvm(found)) = memo.discovery(digest) {
            return Ok(Arc::clone(found));
        }
        let mut attempt = 1;
        loop {
            let mut examination = Examination::new(memo, probe);
            let mut candidates = examine(search, &mut examination, true);
            let watch = examination.watch;
            let is_changing = candidates
                .iter()
                .any(|(_, outcome)| matches!(outcome, Err(Reason::Changed { .. })));
            if is_changing && attempt < ATTEMPTS {
                attempt += 1;
                continue;
            }
            let chosen = candidates.pop_if(|(_, outcome)| outcome.is_ok());
            let rejected: Vec<Rejected> = candidates
                .into_iter()
                .filter_map(|(place, outcome)| {
                    Some(Rejected {
                        place,
                        reason: outcome.err()?,
                    })
                })
                .collect();
            let Some((_, Ok(mut found))) = chosen else {
                let configured = search
                    .configured
                    .as_ref()
                    .map(|configured| configured.origin.clone());
                return Err(NotFound {
                    configured,
                    rejected,
                });
            };
            found.rejected = rejected;
            let found = Arc::new(found);
            let is_passing = found
                .rejected
                .iter()
                .any(|rejected| rejected.reason.is_passing());
            if let (false, Some(grounds)) = (is_passing, watch.into_settled()) {
                memo.remember_discovery(digest, grounds, Found::Llvm(Arc::clone(&found)));
            }
            return Ok(found);
        }
    }

    /// Every place of the search, in its order: the first that is usable is the one that
    /// [`Llvm::discover`] chooses.
    pub fn candidates(search: &Search, memo: &mut Memo, probe: &dyn Probe) -> Vec<Candidate> {
        examine(search, &mut Examination::new(memo, probe), false)
    }

    /// The four tools, in the order in which a compilation executes them, and what they link in.
    #[must_use]
    pub fn tools(&self) -> [&Tool; 5] {
        [
            &self.mlir_opt,
            &self.mlir_translate,
            &self.clang,
            &self.linker,
            &self.support,
        ]
    }

    /// Every file that the tools consist of: what is executed, loaded and linked in.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let all: BTreeSet<&Path> = self.tools().into_iter().flat_map(Tool::files).collect();
        all.into_iter()
    }
}

/// Looks at one source of candidates after the other.
fn examine(search: &Search, examination: &mut Examination<'_>, only_first: bool) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut known = BTreeSet::new();
    for source in places::sources(search) {
        let places = match source.places(MLIR_OPT, &mut examination.watch) {
            Ok(places) => places,
            Err(Rejected { place, reason }) => {
                candidates.push((place, Err(reason)));
                continue;
            }
        };
        for place in places {
            for place in place.resolved(MLIR_OPT, &mut examination.watch) {
                // `/bin` is mostly a link to `/usr/bin`.
                let directory = examination.watch.see(&place.directory);
                if directory.is_some_and(|stamp| !known.insert(stamp.file())) {
                    continue;
                }
                let outcome = judge(&place, search, examination);
                let is_usable = outcome.is_ok();
                candidates.push((place.directory, outcome));
                if is_usable && only_first {
                    return candidates;
                }
            }
        }
    }
    candidates
}

/// Whether a directory holds an installation.
fn judge(
    place: &Place,
    search: &Search,
    examination: &mut Examination<'_>,
) -> Result<Llvm, Reason> {
    let (mlir_opt, release) = place.tool(MLIR_OPT, None, &mut examination.watch)?;
    let mut beside = |name| {
        place
            .tool(name, release.as_ref(), &mut examination.watch)
            .map(|(path, _)| path)
    };
    let (mlir_translate, clang) = (beside(MLIR_TRANSLATE)?, beside(CLANG)?);
    let mlir_opt = examination.parts(MLIR_OPT, mlir_opt)?;
    let mlir_translate = examination.parts(MLIR_TRANSLATE, mlir_translate)?;
    let clang = examination.parts(CLANG, clang)?;
    examination.read(&[&mlir_opt, &mlir_translate, &clang])?;
    let mlir_opt = examination.tool(mlir_opt)?;
    let mlir_translate = examination.tool(mlir_translate)?;
    let clang = examination.tool(clang)?;
    for tool in [&mlir_translate, &clang] {
        if tool.identity.version != mlir_opt.identity.version {
            return Err(Reason::Versions {
                first: mlir_opt.name.to_owned(),
                first_version: mlir_opt.identity.version.clone(),
                second: tool.name.to_owned(),
                second_version: tool.identity.version.clone(),
            });
        }
    }
    let linker = linker(&clang.path, search, examination)?;
    let linker = examination.parts(LD, linker)?;
    examination.read(&[&linker])?;
    let linker = examination.tool(linker)?;
    let support = support(&clang.path, examination)?;
    let version = mlir_opt.identity.version.clone();
    Ok(Llvm {
        bin: place.directory.clone(),
        version,
        mlir_opt: Arc::new(mlir_opt),
        mlir_translate: Arc::new(mlir_translate),
        clang: Arc::new(clang),
        linker: Arc::new(linker),
        support: Arc::new(support),
        rejected: Vec::new(),
    })
}

/// The linker that clang would execute. It answers with a bare name where it leaves the search to
/// the system; then `PATH` is searched, and what execvp(3) searches without one. Where it looked is
/// not watched: should another linker appear there, the one that is known is still what is executed.
fn linker(
    clang: &Path,
    search: &Search,
    examination: &mut Examination<'_>,
) -> Result<PathBuf, Reason> {
    let answer = examination.ask(clang, "-print-prog-name=ld")?;
    let name = answer.trim();
    let path = search.path.iter().flat_map(std::env::split_paths);
    let directories = path
        .chain(["/usr/bin", "/bin"].map(PathBuf::from))
        .filter(|directory| directory.is_absolute());
    let named = Some(PathBuf::from(name)).filter(|path| path.is_absolute());
    let mut places = named
        .into_iter()
        .chain(directories.map(|directory| directory.join(name)));
    places
        .find(|place| places::is_program(place))
        .map(|place| places::without_links_to_its_directory(&place))
        .ok_or_else(|| Reason::NoLinker {
            linker: name.to_owned(),
        })
}

/// The support library that clang would link with.
fn support(clang: &Path, examination: &mut Examination<'_>) -> Result<Tool, Reason> {
    let answer = examination.ask(clang, "-print-libgcc-file-name")?;
    let path = PathBuf::from(answer.trim());
    if !path.is_absolute() || !path.is_file() {
        return Err(Reason::NoSupport { library: path });
    }
    examination.library(SUPPORT, &path)
}
