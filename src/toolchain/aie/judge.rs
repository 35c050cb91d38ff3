//! Whether a candidate can be used, and what it is: for `aiecc` also its dialect, for Peano that it
//! compiles for AI Engines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::dialect;
use super::packagers::packagers;
use super::sources::{self, Candidate};
use super::{AieSearch, AieTools, Aiecc, Aircc, PEANO, PEANO_LIBRARIES, Peano, Searched, ToolName};
use crate::digest::Digest;
use crate::toolchain::closure::Part;
use crate::toolchain::examine::{Examination, Parts};
use crate::toolchain::memo::Found;
use crate::toolchain::version::version;
use crate::toolchain::{Memo, Probe, Reason, Rejected, Tool, places, wheel};

/// How often an examination begins again when files change under it.
const ATTEMPTS: usize = 3;
/// More files than this are not linked into cores; a release of Peano has about fifty.
const MAX_LIBRARIES: usize = 512;

/// The question, besides real arguments, whose answer is read from the program itself.
const RUNS: &str = "runs";

/// Looks at everything, and remembers what came of it if the same is sure to come of it again.
pub(super) fn examine(
    search: &AieSearch,
    digest: Digest,
    memo: &mut Memo,
    probe: &dyn Probe,
) -> Arc<AieTools> {
    let mut attempt = 1;
    loop {
        let mut examination = Examination::new(memo, probe);
        let found = Arc::new(search_all(search, &mut examination));
        let watch = examination.watch;
        let reasons = || {
            let rejected = ToolName::ALL.map(|name| found.rejected(name).0);
            rejected
                .into_iter()
                .flatten()
                .map(|rejected| &rejected.reason)
        };
        if attempt < ATTEMPTS && reasons().any(|reason| matches!(reason, Reason::Changed { .. })) {
            attempt += 1;
            continue;
        }
        let is_passing = reasons().any(Reason::is_passing);
        if let (false, Some(grounds)) = (is_passing, watch.into_settled()) {
            memo.remember_discovery(digest, grounds, Found::Aie(Arc::clone(&found)));
        }
        return found;
    }
}

fn search_all(search: &AieSearch, examination: &mut Examination<'_>) -> AieTools {
    let peano = first(search, ToolName::Peano, None, examination, judge_peano);
    let beside = peano.found.as_ref().map(|peano| peano.directory.clone());
    let beside = beside.as_deref();
    let mut program = |name| {
        first(
            search,
            name,
            beside,
            &mut *examination,
            |candidate, examination| judge(name, candidate, examination).map(Arc::new),
        )
    };
    AieTools {
        air_opt: program(ToolName::AirOpt),
        bootgen: program(ToolName::Bootgen),
        xclbinutil: program(ToolName::Xclbinutil),
        aiebu_asm: program(ToolName::AiebuAsm),
        aie_hsaco: program(ToolName::AieHsaco),
        llvm_objcopy: program(ToolName::LlvmObjcopy),
        aircc: first(search, ToolName::Aircc, None, examination, judge_aircc),
        aiecc: first(search, ToolName::Aiecc, None, examination, judge_aiecc),
        peano,
    }
}

/// The first candidate for a tool that can be used.
fn first<T>(
    search: &AieSearch,
    name: ToolName,
    peano: Option<&Path>,
    examination: &mut Examination<'_>,
    judge: impl Fn(&Candidate, &mut Examination<'_>) -> Result<T, Reason>,
) -> Searched<T> {
    let mut searched = Searched {
        name,
        configured: sources::configured(search, name).map(str::to_owned),
        found: None,
        rejected: Vec::new(),
    };
    let mut known: Vec<Candidate> = Vec::new();
    for source in sources::sources(search, name, peano) {
        for candidate in source.candidates(search, name, &mut examination.watch) {
            let candidate = match candidate {
                Ok(candidate) if known.contains(&candidate) => continue,
                Ok(candidate) => candidate,
                Err(rejected) => {
                    let origin = source.misnamed(&rejected.reason).map(str::to_owned);
                    searched.rejected.push(rejected);
                    if origin.is_some() {
                        searched.configured = origin;
                        return searched;
                    }
                    continue;
                }
            };
            match judge(&candidate, examination) {
                Ok(found) => {
                    searched.found = Some(found);
                    return searched;
                }
                Err(reason) => searched.rejected.push(Rejected {
                    place: candidate.place.clone(),
                    reason,
                }),
            }
            known.push(candidate);
        }
    }
    searched
}

/// Identifies a program.
fn judge(
    name: ToolName,
    candidate: &Candidate,
    examination: &mut Examination<'_>,
) -> Result<Tool, Reason> {
    let tool = identify(name.name(), name, &candidate.program, examination)?;
    with_version(tool, name, examination)
}

/// The program behind a path: a Python wrapper's, or the path itself.
fn resolve(
    name: ToolName,
    path: &Path,
    examination: &mut Examination<'_>,
) -> Result<PathBuf, Reason> {
    if !places::is_program(path) {
        let tool = path.file_name().unwrap_or_default();
        let tool = tool.to_string_lossy().into_owned();
        return Err(if std::fs::symlink_metadata(path).is_ok() {
            Reason::NotExecutable { tool }
        } else {
            Reason::NoTool { tool }
        });
    }
    let watch = &mut examination.watch;
    let behind = wheel::behind_wrapper(path, name.program(), name.trees(), watch);
    Ok(places::without_links_to_its_directory(
        behind.as_deref().unwrap_or(path),
    ))
}

/// Reads a program, what it loads, and the record of its wheel.
fn identify(
    called: &'static str,
    name: ToolName,
    path: &Path,
    examination: &mut Examination<'_>,
) -> Result<Tool, Reason> {
    let path = resolve(name, path, examination)?;
    let mut parts = examination.parts(called, path.clone())?;
    if let Some(inner) = unwrapped(&path) {
        parts.files.extend(inner_files(&inner, examination)?);
    }
    // A link on PATH may lead into a wheel.
    let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
    let records = wheel::owners(&path, &mut examination.watch);
    parts.files.extend(if records.is_empty() && real != path {
        wheel::owners(&real, &mut examination.watch)
    } else {
        records
    });
    examination.read(&[&parts])?;
    examination.identify(parts)
}

/// What a script in XRT's `bin` executes: the program of that name in `bin/unwrapped`.
fn unwrapped(path: &Path) -> Option<PathBuf> {
    let real = std::fs::canonicalize(path).ok()?;
    let inner = real.parent()?.join("unwrapped").join(path.file_name()?);
    places::is_program(&inner).then_some(inner)
}

/// The files of an unwrapped program. Its script lets it load libraries from XRT's `lib`.
fn inner_files(inner: &Path, examination: &mut Examination<'_>) -> Result<Vec<Part>, Reason> {
    let library = inner.ancestors().nth(3).map(|xrt| xrt.join("lib"));
    let known = examination.loader.defaults.len();
    examination.loader.defaults.extend(library);
    let parts = examination.parts("unwrapped", inner.to_owned());
    examination.loader.defaults.truncate(known);
    Ok(parts?.files)
}

/// The wheel's version, or what the tool says; programs that take no `--version` are not asked.
fn with_version(
    mut tool: Tool,
    name: ToolName,
    examination: &mut Examination<'_>,
) -> Result<Tool, Reason> {
    let mut files = tool.identity.files.iter();
    if let Some(version) = files.find_map(|file| wheel::version(&file.name)) {
        tool.identity.version = version.to_owned();
        return Ok(tool);
    }
    let learn = |output: &str| Ok(version(output).unwrap_or(build(output)).to_owned());
    tool.identity.version = match name {
        ToolName::Bootgen | ToolName::AiebuAsm | ToolName::AieHsaco => String::new(),
        // It may be a script that does not bear an empty environment here.
        ToolName::Xclbinutil => (examination.learn(&tool, "--version", learn)).unwrap_or_default(),
        _ => examination.learn(&tool, "--version", learn)?,
    };
    Ok(tool)
}

/// What stands for a version where there is none: the commit, as `aiecc` tells it.
fn build(output: &str) -> &str {
    let commit = output.lines().find_map(|line| {
        line.split_once("git SHA:")
            .or(line.split_once("(C++ version)"))
    });
    commit.map_or("", |(_, commit)| commit.trim())
}

fn judge_aiecc(candidate: &Candidate, examination: &mut Examination<'_>) -> Result<Aiecc, Reason> {
    let tool = judge(ToolName::Aiecc, candidate, examination)?;
    let learnt = examination.learn(&tool, "--help", |help| dialect::learn(&tool.path, help))?;
    let fingerprint = tool.identity.digest;
    let runs = match examination.memo.answer(fingerprint, RUNS) {
        Some(known) => known.to_owned(),
        None => {
            let runs = packagers(&tool)?;
            examination.memo.remember_answer(fingerprint, RUNS, &runs);
            runs
        }
    };
    let path = tool.path.clone();
    Aiecc::from_learnt(Arc::new(tool), &learnt, &runs).ok_or(Reason::UnknownDialect {
        program: path,
        output: learnt,
    })
}

fn judge_aircc(candidate: &Candidate, examination: &mut Examination<'_>) -> Result<Aircc, Reason> {
    let tool = judge(ToolName::Aircc, candidate, examination)?;
    let learnt = examination.learn(&tool, "--help", |help| Ok(dialect::learn_formats(help)))?;
    Ok(Aircc::from_learnt(Arc::new(tool), &learnt))
}

fn judge_peano(candidate: &Candidate, examination: &mut Examination<'_>) -> Result<Peano, Reason> {
    let [(llc, _), others @ ..] = PEANO;
    let llc = identify(llc, ToolName::Peano, &candidate.program, examination)?;
    let learnt = examination.learn(&llc, "--version", |output| Ok(version_and_targets(output)))?;
    let mut words = learnt.split(' ');
    let version = words.next().unwrap_or_default().to_owned();
    let targets: Vec<String> = words.map(str::to_owned).collect();
    if !targets.iter().any(|target| target == "aie2") {
        return Err(Reason::NotPeano { llc: llc.path });
    }
    let directory = candidate.place.parent().unwrap_or(&candidate.place);
    let has_record = llc.wheel().is_some();
    let mut tools = vec![llc];
    for (called, name) in others {
        let path = candidate.place.join(name);
        if examination.watch.see(&path).is_some() {
            tools.push(identify(called, ToolName::Peano, &path, examination)?);
        }
    }
    if !has_record {
        tools.extend(libraries(directory, examination)?);
    }
    for tool in &mut tools {
        tool.identity.version.clone_from(&version);
    }
    Ok(Peano {
        directory: directory.to_owned(),
        version,
        targets,
        tools: tools.into_iter().map(Arc::new).collect(),
    })
}

/// "20.0.0git aie aie2 aie2p": the version, and the AIE targets, which are listed one a line.
fn version_and_targets(output: &str) -> String {
    let targets = output
        .lines()
        .filter_map(|line| line.trim_start().split_once(" - "))
        .map(|(target, _)| target.trim_end())
        .filter(|target| target.starts_with("aie") && !target.contains(' '));
    let version = version(output).unwrap_or("?");
    let words: Vec<&str> = std::iter::once(version).chain(targets).collect();
    words.join(" ")
}

/// What Peano's linker puts into cores: `lib/aie2-none-unknown-elf/*` and the like.
fn libraries(peano: &Path, examination: &mut Examination<'_>) -> Result<Option<Tool>, Reason> {
    let lib = peano.join("lib");
    let mut files = Vec::new();
    for name in places::names(&lib, &mut examination.watch) {
        let is_target = name.to_str().is_some_and(|name| name.starts_with("aie"));
        if !is_target && name != "clang" {
            continue;
        }
        let tree = walkdir::WalkDir::new(lib.join(name)).max_depth(6);
        for entry in tree.into_iter().flatten() {
            let path = entry.path();
            if entry.file_type().is_dir() {
                examination.watch.see(path);
                continue;
            }
            let kind = path.extension().and_then(|kind| kind.to_str());
            let name = path.strip_prefix(&lib).unwrap_or(path);
            let is_linked = matches!(kind, Some("a" | "o" | "ld" | "bc"));
            let is_for_cores = is_target || name.to_string_lossy().contains("aie");
            if is_linked && is_for_cores && path.is_file() {
                files.push(Part {
                    name: name.to_string_lossy().into_owned(),
                    path: path.to_owned(),
                });
            }
        }
    }
    if files.len() > MAX_LIBRARIES {
        return Err(Reason::TooManyFiles {
            program: lib,
            limit: MAX_LIBRARIES,
        });
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    let Some(first) = files.first() else {
        return Ok(None);
    };
    let parts = Parts {
        name: PEANO_LIBRARIES,
        path: first.path.clone(),
        files,
    };
    examination.read(&[&parts])?;
    examination.identify(parts).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_llc_lists_them() {
        let output = "LLVM (http://llvm.org/):\n  LLVM version 20.0.0git\n  Optimized build.\n\n  \
            Registered Targets:\n    aie   - AI Engine\n    aie2  - AI Engine V2\n    aie2p - AI Engine V2P\n";
        assert_eq!(version_and_targets(output), "20.0.0git aie aie2 aie2p");
        let host = "Debian LLVM version 22.1.8\n  Registered Targets:\n    aarch64    - AArch64 (little endian)\n";
        assert_eq!(version_and_targets(host), "22.1.8");
    }
}
