//! `npu-build doctor`: what was found, what was not taken and why, what can be built with it, and what
//! can be launched on.

use std::path::Path;

use npu_build::Target;
use npu_build::kernel::Level;
use npu_build::plan::{BuildError, Session};
use npu_build::toolchain::{AieTools, Candidate, Format, Llvm, Packer, Rejected, Tool, ToolName};
use npu_runtime::Runtime;
use serde::Serialize;

use super::args::Global;
use super::run::launch::open;
use super::terminal::{Terminal, Tone};
use super::{Failure, session, settings};

/// A place where LLVM was looked for.
#[derive(Serialize)]
struct LlvmPlace<'a> {
    target: &'static str,
    place: String,
    usable: bool,
    reason: Option<String>,
    version: Option<&'a str>,
    tools: Vec<&'a Tool>,
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
            place: place.to_string_lossy().into_owned(),
            usable: found.is_some(),
            reason: verdict.as_ref().err().map(ToString::to_string),
            version: found.map(|llvm| &*llvm.version),
            tools: found.map(|llvm| llvm.tools().to_vec()).unwrap_or_default(),
        })?);
    }
    match verdict {
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
        program(tool, "", terminal)?;
    }
    Ok(())
}

/// A line for a program, and with `-v` one for each of its files.
fn program(tool: &Tool, remark: &str, terminal: &Terminal) -> Result<(), Failure> {
    terminal.result(&format!(
        "  {:14}  {}  {}{remark}",
        tool.name,
        tool.identity.digest.short(),
        tool.path.display()
    ))?;
    if terminal.is_verbose() {
        for file in &tool.identity.files {
            terminal.result(&format!("    {}  {}", file.digest.short(), file.name))?;
        }
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
    let of_peano = aie.peano.found.as_ref().filter(|_| name == ToolName::Peano);
    let origin = configured.map_or_else(String::new, |origin| format!(" ({origin})"));
    match (tools.first(), of_peano) {
        (Some(tool), None) => {
            let version = described(&tool.identity.version);
            let path = tool.path.parent().unwrap_or(Path::new("/"));
            terminal.result(&format!(
                "used for npu: {name}{version} in {}{origin}",
                path.display()
            ))?;
        }
        (_, Some(peano)) => terminal.result(&format!(
            "used for npu: {name}{} in {}{origin}, for {}",
            described(&peano.version),
            peano.directory.display(),
            peano.targets.join(", ")
        ))?,
        (None, None) => {
            terminal.result(&format!("not found: {name}{origin}"))?;
            terminal.result(&format!("  try: {}", name.remedy()))?;
        }
    }
    for tool in tools {
        let wheel = tool.wheel().map(|wheel| format!("  wheel {wheel}"));
        let dialect = dialect.map(|dialect| format!("  dialect {dialect}"));
        let remark = wheel.unwrap_or_default() + &dialect.unwrap_or_default();
        program(tool, &remark, terminal)?;
    }
    for place in rejected {
        terminal.result(&format!("  not usable: {place}"))?;
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
            path: tool.path.to_string_lossy().into_owned(),
            version: &tool.identity.version,
            sha256: tool.identity.digest.to_string(),
            wheel: tool.wheel(),
        }
    }
}

impl Place {
    fn new(rejected: &Rejected) -> Self {
        Self {
            place: rejected.place.to_string_lossy().into_owned(),
            reason: rejected.reason.to_string(),
        }
    }
}

fn packer(aie: &AieTools, terminal: &Terminal) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Report {
        hsaco_packer: Option<String>,
    }
    let packer = aie.packer(Format::Elf).ok().map(|packer| match packer {
        Packer::Builtin => "builtin".to_owned(),
        Packer::Program(tool) => tool.path.to_string_lossy().into_owned(),
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
                let missing = aie.require(&aie.needed(level, *format)).err();
                let missing = missing.into_iter().flat_map(|missing| missing.missing);
                let packer = aie.packer(*format).err().filter(|_| runtime == "hsa");
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

/// Opens the device of a runtime, and says what came of it. XRT's needs the shim, which is compiled if
/// it is not in the cache.
fn launchable(session: &Session, runtime: Runtime, terminal: &Terminal) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Launchable {
        launch: &'static str,
        usable: bool,
        npu: Option<String>,
        reason: Option<String>,
    }
    let (npu, reason) = match open(session, runtime, terminal) {
        Ok(device) => (device.npu().map(|npu| npu.to_string()), None),
        Err(Failure::Message { message, .. }) => (None, Some(message)),
        Err(failure) => return Err(failure),
    };
    if terminal.json {
        return Ok(terminal.result_json(&Launchable {
            launch: runtime.name(),
            usable: reason.is_none(),
            npu,
            reason,
        })?);
    }
    let state = match &reason {
        None => npu.map_or_else(|| "ready".to_owned(), |npu| format!("ready, an {npu}")),
        Some(reason) => {
            let told = format!("{runtime}: ");
            let reason = reason.strip_prefix(&told).unwrap_or(reason);
            reason.trim_end().replace('\n', "\n  ")
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
    let target = session.settings().target;
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
            let needed = aie.needed(Level::Aie, Format::Xclbin);
            aie.require(&needed).err().map(Into::into)
        }
        _ => session.llvm().err(),
    };
    let Some(error) = missing else { return Ok(()) };
    terminal.status("missing", Tone::Bad, &error.to_string());
    Err(Failure::Printed(error.exit_code()))
}
