//! `npu-build doctor`: what was found, what can be built with it, and what can be launched on. That
//! fits a screen; `-v` adds every program, its files, and why other places were not taken.

use std::path::Path;

use crate::Target;
use crate::kernel::Level;
use crate::plan::{BuildError, Session};
use crate::toolchain::{
    AieTools, Candidate, FileIdentity, Format, Llvm, Packer, Rejected, Tool, ToolName,
};
use npu_runtime::Runtime;
use serde::Serialize;

use super::args::Global;
use super::delegate::{self, Launchable};
use super::json::text;
use super::terminal::Terminal;
use super::{Failure, session, settings};

/// A place where LLVM was looked for.
#[derive(Serialize)]
struct LlvmPlace<'a> {
    target: &'static str,
    place: String,
    usable: bool,
    reason: Option<String>,
    version: Option<&'a str>,
    tools: Vec<Program<'a>>,
}

/// A tool of the AIE toolchain.
#[derive(Serialize)]
struct AieTool<'a> {
    tool: ToolName,
    usable: bool,
    /// Peano has several; others one.
    programs: Vec<Program<'a>>,
    dialect: Option<u8>,
    rejected: Vec<Place>,
    configured: Option<&'a str>,
}

#[derive(Serialize)]
struct Program<'a> {
    name: &'a str,
    path: String,
    version: &'a str,
    sha256: String,
    wheel: Option<&'a str>,
    files: &'a [FileIdentity],
}

#[derive(Serialize)]
struct Place {
    place: String,
    reason: String,
}

/// What can be built, or what is missing for it.
#[derive(Serialize)]
struct Buildable {
    target: &'static str,
    runtime: &'static str,
    format: &'static str,
    level: String,
    missing: Vec<ToolName>,
    aircc_lacks: Option<&'static str>,
}

/// Prints every place that was looked at for each tool, with its verdict.
pub fn run(global: &Global, terminal: &Terminal) -> Result<(), Failure> {
    let session = session(settings(global)?, terminal)?;
    let candidates = session.llvm_candidates();
    let aie = session.aie_tools()?;
    for (number, candidate) in candidates.iter().enumerate() {
        let is_taken = candidates
            .iter()
            .take(number)
            .any(|(_, verdict)| verdict.is_ok());
        llvm(candidate, is_taken, terminal)?;
    }
    for name in ToolName::ALL {
        aie_tool(&aie, name, terminal)?;
    }
    packer(&aie, terminal)?;
    let buildable = buildable(&aie);
    for row in &buildable {
        if terminal.json {
            terminal.result_json(row)?;
        }
    }
    if !terminal.json {
        summary(&buildable, &candidates, terminal)?;
    }
    for runtime in [Runtime::Cpu, Runtime::Xrt, Runtime::Hsa] {
        launchable(&session, runtime, terminal)?;
    }
    verdict(&session, &candidates, &aie, &buildable, terminal)
}

fn llvm((place, verdict): &Candidate, is_taken: bool, terminal: &Terminal) -> Result<(), Failure> {
    let found = verdict.as_ref().ok();
    if terminal.json {
        return Ok(terminal.result_json(&LlvmPlace {
            target: "cpu",
            place: text(place),
            usable: found.is_some(),
            reason: verdict.as_ref().err().map(ToString::to_string),
            version: found.map(|llvm| &*llvm.version),
            tools: (found.into_iter().flat_map(Llvm::tools))
                .map(Program::new)
                .collect(),
        })?);
    }
    match verdict {
        Ok(_) if is_taken && !terminal.is_verbose() => Ok(()),
        Ok(llvm) => {
            let word = if is_taken {
                "also usable"
            } else {
                "used for cpu"
            };
            terminal.result(&format!(
                "{word}: LLVM {} in {}",
                llvm.version,
                place.display()
            ))?;
            describe(llvm, terminal)
        }
        Err(reason) => Ok(terminal.result(&format!("not usable: {}: {reason}", place.display()))?),
    }
}

fn describe(llvm: &Llvm, terminal: &Terminal) -> Result<(), Failure> {
    for tool in llvm.tools() {
        program(tool, terminal)?;
    }
    Ok(())
}

/// With `-v` a line for a program, and one for each of its files.
fn program(tool: &Tool, terminal: &Terminal) -> Result<(), Failure> {
    if !terminal.is_verbose() {
        return Ok(());
    }
    terminal.result(&format!(
        "  {:14}  {}  {}",
        tool.name,
        tool.identity.digest.short(),
        tool.path.display()
    ))?;
    for file in &tool.identity.files {
        terminal.result(&format!("    {}  {}", file.digest.short(), file.name))?;
    }
    Ok(())
}

fn aie_tool(aie: &AieTools, name: ToolName, terminal: &Terminal) -> Result<(), Failure> {
    let tools: Vec<&Tool> = aie.programs(name).map(|tool| &**tool).collect();
    let (rejected, configured) = aie.rejected(name);
    let aiecc = aie.aiecc.found.as_ref().filter(|_| name == ToolName::Aiecc);
    let dialect = aiecc.map(|aiecc| aiecc.dialect.number());
    if terminal.json {
        return Ok(terminal.result_json(&AieTool {
            tool: name,
            usable: !tools.is_empty(),
            programs: tools.iter().map(|tool| Program::new(tool)).collect(),
            dialect,
            rejected: rejected.iter().map(Place::new).collect(),
            configured,
        })?);
    }
    // The packer has a line of its own.
    let is_of_packer = matches!(name, ToolName::AieHsaco | ToolName::LlvmObjcopy);
    if is_of_packer && configured.is_none() && !terminal.is_verbose() {
        return Ok(());
    }
    let origin = configured.map_or_else(String::new, |origin| format!(" ({origin})"));
    let of_peano = aie.peano.found.as_ref().filter(|_| name == ToolName::Peano);
    let line = match (tools.first(), of_peano) {
        (_, Some(peano)) => format!(
            "used for npu: {name}{} in {}{origin}, for {}",
            described(&peano.version),
            peano.directory.display(),
            peano.targets.join(", ")
        ),
        (Some(tool), None) => {
            let wheel = tool.wheel().map(|wheel| format!(", wheel {wheel}"));
            let dialect = dialect.map(|dialect| format!(", dialect {dialect}"));
            format!(
                "used for npu: {name}{} in {}{origin}{}{}",
                described(&tool.identity.version),
                tool.path.parent().unwrap_or(Path::new("/")).display(),
                wheel.unwrap_or_default(),
                dialect.unwrap_or_default()
            )
        }
        (None, None) => format!("not found: {name}{origin}; try: {}", name.remedy()),
    };
    let is_missing = tools.is_empty();
    terminal.result(&line)?;
    for tool in tools {
        program(tool, terminal)?;
    }
    // What was named and can't be used is told to everybody.
    if terminal.is_verbose() || (is_missing && configured.is_some()) {
        for place in rejected {
            terminal.result(&format!("  not usable: {place}"))?;
        }
    }
    Ok(())
}

/// A version as part of a sentence; not every program tells one.
fn described(version: &str) -> String {
    if version.is_empty() {
        String::new()
    } else {
        format!(" {version}")
    }
}

impl<'a> Program<'a> {
    fn new(tool: &'a Tool) -> Self {
        Self {
            name: tool.name,
            path: text(&tool.path),
            version: &tool.identity.version,
            sha256: tool.identity.digest.to_string(),
            wheel: tool.wheel(),
            files: &tool.identity.files,
        }
    }
}

impl Place {
    fn new(rejected: &Rejected) -> Self {
        Self {
            place: text(&rejected.place),
            reason: rejected.reason.to_string(),
        }
    }
}

fn packer(aie: &AieTools, terminal: &Terminal) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Report {
        hsaco_packer: Option<String>,
    }
    let packer = aie
        .packer(Format::Elf, false)
        .ok()
        .map(|packer| match packer {
            Packer::Builtin => "builtin".to_owned(),
            Packer::Program(tool) => text(&tool.path),
        });
    if terminal.json {
        return Ok(terminal.result_json(&Report {
            hsaco_packer: packer,
        })?);
    }
    match packer {
        Some(packer) => Ok(terminal.result(&format!("used for hsa: the packer {packer}"))?),
        None => Ok(()),
    }
}

/// Every combination that can be asked for, with what is missing for it.
fn buildable(aie: &AieTools) -> Vec<Buildable> {
    let xrt = [Format::Xclbin, Format::Pdi];
    let combinations = [
        (Target::Npu1, "xrt", xrt.as_slice()),
        (Target::Npu1, "hsa", &[Format::Xclbin]),
        (
            Target::Npu2,
            "xrt",
            &[Format::Elf, Format::Xclbin, Format::Pdi],
        ),
        (Target::Npu2, "hsa", &[Format::Elf, Format::Xclbin]),
    ];
    let mut rows = Vec::new();
    for (target, runtime, formats) in combinations {
        for format in formats {
            for level in [Level::Linalg, Level::Air, Level::Aie] {
                let missing = aie.require(&aie.needed(level, *format, true)).err();
                let missing = missing.into_iter().flat_map(|missing| missing.missing);
                let packer = aie
                    .packer(*format, false)
                    .err()
                    .filter(|_| runtime == "hsa");
                let packer = packer.into_iter().flat_map(|missing| missing.missing);
                rows.push(Buildable {
                    target: target.name(),
                    runtime,
                    format: format.name(),
                    level: level.to_string(),
                    missing: missing.chain(packer).map(|missing| missing.name).collect(),
                    aircc_lacks: aie.lacks(level, *format).map(|(_, lacks)| lacks),
                });
            }
        }
    }
    rows
}

/// One line for each combination, with what is missing for each level of kernels.
fn summary(
    rows: &[Buildable],
    candidates: &[Candidate],
    terminal: &Terminal,
) -> Result<(), Failure> {
    let has_llvm = candidates.iter().any(|(_, verdict)| verdict.is_ok());
    let state = if has_llvm {
        "ready"
    } else {
        "LLVM with MLIR is missing"
    };
    terminal.result(&format!("cpu: {state}"))?;
    for levels in rows.chunk_by(|one, other| {
        (one.target, one.runtime, one.format) == (other.target, other.runtime, other.format)
    }) {
        let Some(first) = levels.first() else {
            continue;
        };
        // From aie to linalg each level needs what the one before does, and more.
        let mut told: Vec<ToolName> = Vec::new();
        let mut lacked = None;
        let mut states: Vec<String> = Vec::new();
        for row in levels.iter().rev() {
            let mut new = row.missing.clone();
            new.retain(|name| !told.contains(name));
            let names: Vec<&str> = new.iter().map(|name| name.name()).collect();
            if !names.is_empty() {
                states.push(format!("{} needs {}", row.level, names.join(", ")));
            }
            told.extend(new);
            if lacked.is_none()
                && let Some(lacks) = row.aircc_lacks
            {
                states.push(format!("{} needs an aircc that has {lacks}", row.level));
                lacked = row.aircc_lacks;
            }
        }
        if states.is_empty() {
            states.push("ready".to_owned());
        }
        terminal.result(&format!(
            "{} {} {}: {}",
            first.target,
            first.runtime,
            first.format,
            states.join("; ")
        ))?;
    }
    Ok(())
}

/// Says whether the device of a runtime can be opened. XRT's needs the shim, which is compiled if it
/// is not in the cache.
fn launchable(session: &Session, runtime: Runtime, terminal: &Terminal) -> Result<(), Failure> {
    let is_named = std::env::var_os("NPU_RUNTIME_XRT_SHIM").is_some_and(|path| !path.is_empty());
    let shim = match runtime {
        Runtime::Xrt if !is_named => session
            .shim(false, &|event| terminal.event(&event))
            .map(Some),
        _ => Ok(None),
    };
    let launchable = match shim {
        Ok(shim) => {
            let shim = shim.as_ref().and_then(|shim| shim.artifacts.first());
            delegate::device(runtime, shim.map(|artifact| artifact.path.clone()))
        }
        Err(error) => Launchable {
            launch: runtime.name().to_owned(),
            usable: false,
            npu: None,
            reason: Some(error.report()),
        },
    };
    if terminal.json {
        return Ok(terminal.result_json(&launchable)?);
    }
    let Launchable { npu, reason, .. } = launchable;
    let state = match &reason {
        None => npu.map_or_else(|| "ready".to_owned(), |npu| format!("ready, an {npu}")),
        Some(reason) => {
            let told = format!("{runtime}: ");
            let reason = reason.strip_prefix(&told).unwrap_or(reason).trim_end();
            if terminal.is_verbose() {
                reason.replace('\n', "\n  ")
            } else {
                // Indented lines are the places that were looked at.
                let lines = reason.lines().filter(|line| !line.starts_with(' '));
                let lines = lines.map(|line| line.trim_end_matches(':'));
                lines.collect::<Vec<_>>().join("; ")
            }
        }
    };
    terminal.result(&format!("launch {runtime}: {state}"))?;
    Ok(())
}

/// Fails if the configured target can't be built for at all; without one, if none can.
fn verdict(
    session: &Session,
    candidates: &[Candidate],
    aie: &AieTools,
    buildable: &[Buildable],
    terminal: &Terminal,
) -> Result<(), Failure> {
    let target = session.settings().target();
    let has_llvm = candidates.iter().any(|(_, verdict)| verdict.is_ok());
    let can_build_for = |target: Target| {
        let mut rows = buildable.iter().filter(|row| row.target == target.name());
        rows.any(|row| row.missing.is_empty())
    };
    let is_ready = match target {
        Some(Target::Cpu) => has_llvm,
        Some(npu) => can_build_for(npu),
        None => has_llvm || Target::ALL.into_iter().any(can_build_for),
    };
    if is_ready {
        return Ok(());
    }
    let missing: Option<BuildError> = match target {
        Some(Target::Npu1 | Target::Npu2) => {
            let needed = aie.needed(Level::Aie, Format::Xclbin, true);
            aie.require(&needed).err().map(Into::into)
        }
        _ => session.llvm().err(),
    };
    let Some(error) = missing else { return Ok(()) };
    terminal.problem("missing", &error.to_string());
    Err(Failure::Printed(error.exit_code()))
}
