//! aie-hsaco: kernels into the section of an arch, which the real llvm-objcopy puts into the file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::container::{Kernel, empty, section};
use crate::axlf;
use crate::bytes::u32_at;
use crate::json::Json;
use crate::run::{Exit, Result, Run};

fn error(text: impl AsRef<str>) -> Exit {
    Exit {
        code: 2,
        text: format!("aie-hsaco: error: {}", text.as_ref()),
    }
}

/// A kernel as the command line gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Spec {
    name: String,
    elf: Option<String>,
    xclbin: Option<String>,
    insts: Option<String>,
    pdi: Option<String>,
    kernarg: Option<u32>,
    columns: Option<u32>,
}

fn number(text: &str, what: &str) -> Result<u32> {
    text.parse()
        .map_err(|_| error(format!("{what} is no number: '{text}'")))
}

/// `NAME:INSTS[:PDI]:KERNARG:COLS`, `xclbin:NAME:XCLBIN:INSTS:KERNARG[:COLS]`, `elf:PATH[:KERNARG[:COLS]]`.
fn short(text: &str) -> Result<Spec> {
    let parts: Vec<&str> = text.split(':').collect();
    let own = |text: &str| Some(text.to_owned());
    let kernarg = |text: &str| number(text, "kernarg size").map(Some);
    let columns = |text: &str| number(text, "number of columns").map(Some);
    Ok(match parts.as_slice() {
        ["elf", path, rest @ ..] if rest.len() <= 2 => Spec {
            elf: own(path),
            kernarg: rest.first().map_or(Ok(None), |t| kernarg(t))?,
            columns: rest.get(1).map_or(Ok(None), |t| columns(t))?,
            ..Spec::default()
        },
        ["xclbin", name, xclbin, insts, size, rest @ ..] if rest.len() <= 1 => Spec {
            name: (*name).to_owned(),
            xclbin: own(xclbin),
            insts: own(insts),
            kernarg: kernarg(size)?,
            columns: rest.first().map_or(Ok(None), |t| columns(t))?,
            ..Spec::default()
        },
        [name, insts, rest @ .., size, width]
            if rest.len() <= 1 && !matches!(*name, "elf" | "xclbin") =>
        {
            Spec {
                name: (*name).to_owned(),
                insts: own(insts),
                pdi: rest.first().map(|t| (*t).to_owned()),
                kernarg: kernarg(size)?,
                columns: columns(width)?,
                ..Spec::default()
            }
        }
        _ => return Err(error(format!("malformed kernel spec '{text}'"))),
    })
}

struct Asked {
    hsaco: String,
    arch: String,
    kernels: Vec<Spec>,
}

fn read(run: &Run) -> Result<Asked> {
    let (mut hsaco, mut arch, mut kernels) = (None, None, Vec::<Spec>::new());
    let mut long_open = false;
    let mut rest = run.arguments.iter();
    while let Some(argument) = rest.next() {
        let (option, value) = match argument
            .split_once('=')
            .filter(|_| argument.starts_with("--"))
        {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (argument.as_str(), rest.next().cloned()),
        };
        let value =
            value.ok_or_else(|| error(format!("argument {option}: expected one argument")))?;
        let field = option.strip_prefix("--kernel-");
        match (option, field) {
            ("--hsaco", _) => hsaco = Some(value),
            ("--arch", _) => arch = Some(value),
            ("--kernel", _) => {
                kernels.push(short(&value)?);
                long_open = false;
            }
            (_, Some("name")) => {
                kernels.push(Spec {
                    name: value,
                    ..Spec::default()
                });
                long_open = true;
            }
            (_, Some("elf")) => {
                kernels.push(Spec {
                    elf: Some(value),
                    ..Spec::default()
                });
                long_open = true;
            }
            (_, Some(field)) => {
                let open = kernels.last_mut().filter(|_| long_open);
                let kernel = open.ok_or_else(|| {
                    error(format!("{option} before --kernel-name or --kernel-elf"))
                })?;
                match field {
                    "insts" => kernel.insts = Some(value),
                    "pdi" => kernel.pdi = Some(value),
                    "xclbin" => kernel.xclbin = Some(value),
                    "kernarg" => kernel.kernarg = Some(number(&value, "kernarg size")?),
                    "cols" => kernel.columns = Some(number(&value, "number of columns")?),
                    _ => return Err(error(format!("unrecognized arguments: {option}"))),
                }
            }
            _ => return Err(error(format!("unrecognized arguments: {option}"))),
        }
    }
    let hsaco = hsaco.ok_or_else(|| error("the following arguments are required: --hsaco"))?;
    let arch = arch.ok_or_else(|| error("the following arguments are required: --arch"))?;
    if !matches!(arch.as_str(), "aie2" | "aie2p") {
        return Err(error(format!(
            "argument --arch: invalid choice: '{arch}' (choose from 'aie2', 'aie2p')"
        )));
    }
    if kernels.is_empty() {
        return Err(error("no kernels given"));
    }
    Ok(Asked {
        hsaco,
        arch,
        kernels,
    })
}

fn file(path: &str) -> Result<Vec<u8>> {
    let bytes = fs::read(path).map_err(|e| error(format!("cannot read {path}: {e}")))?;
    if bytes.is_empty() {
        return Err(error(format!("{path} is empty")));
    }
    Ok(bytes)
}

/// Runs aie-hsaco.
///
/// # Errors
/// Exit code 2; the file is left as it was.
pub fn run(run: &Run) -> Result {
    if run.arguments.iter().any(|a| a == "--help" || a == "-h") {
        super::super::print("usage: aie-hsaco --hsaco OUT --arch {aie2,aie2p} --kernel SPEC...\n");
        return Ok(());
    }
    run.begin()?;
    let asked = read(run)?;
    let newest = run.identity.dialect >= 2;
    let work = std::env::temp_dir().join(format!("aie-hsaco-{}", std::process::id()));
    fs::create_dir_all(&work).map_err(|e| error(e.to_string()))?;
    let packed = pack(run, &asked, newest, &work);
    let _ = fs::remove_dir_all(&work);
    packed
}

fn pack(run: &Run, asked: &Asked, newest: bool, work: &Path) -> Result {
    let mut kernels = Vec::new();
    for spec in &asked.kernels {
        kernels.extend(resolve(run, spec, newest, work)?);
    }
    for (index, kernel) in kernels.iter().enumerate() {
        if kernels
            .iter()
            .take(index)
            .any(|earlier| earlier.name == kernel.name)
        {
            return Err(error(format!("duplicate kernel name '{}'", kernel.name)));
        }
        if newest && kernel.columns == 0 {
            return Err(error(format!(
                "kernel '{}': num_cols must be at least 1",
                kernel.name
            )));
        }
    }
    let objcopy = std::env::var_os("AIE_OBJCOPY_PATH").map(PathBuf::from);
    let objcopy = objcopy.or_else(|| run.on_path("llvm-objcopy"));
    let objcopy = objcopy.ok_or_else(|| error("llvm-objcopy not found (set AIE_OBJCOPY_PATH)"))?;
    let (content, base, made) = (work.join("section"), work.join("base"), work.join("made"));
    let io = |e: std::io::Error| error(e.to_string());
    fs::write(&content, section(&kernels)).map_err(io)?;
    let existing = match fs::read(&asked.hsaco) {
        Ok(bytes) if bytes.starts_with(b"\x7fELF") => bytes,
        Ok(_) => return Err(error(format!("{} is not an ELF file", asked.hsaco))),
        Err(_) => empty(),
    };
    fs::write(&base, existing).map_err(io)?;
    let arch = &asked.arch;
    let output = Command::new(&objcopy)
        .arg(format!("--remove-section={arch}"))
        .arg(format!("--add-section={arch}={}", content.display()))
        .arg(format!("--set-section-flags={arch}=noload,readonly"))
        .args([&base, &made])
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|e| error(format!("cannot run {}: {e}", objcopy.display())))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(error(format!(
            "{} failed: {}",
            objcopy.display(),
            words.trim()
        )));
    }
    let bytes = fs::read(&made).map_err(io)?;
    run.deliver("hsaco", Path::new(&asked.hsaco), &bytes);
    Ok(())
}

/// The kernels of one spec: one, or all of a full ELF.
fn resolve(run: &Run, spec: &Spec, newest: bool, work: &Path) -> Result<Vec<Kernel>> {
    if let Some(path) = &spec.elf {
        return full_elf(spec, path, newest);
    }
    let insts = spec
        .insts
        .as_ref()
        .ok_or_else(|| error(format!("kernel '{}' has no instructions", spec.name)))?;
    let insts = file(insts)?;
    let mut columns = spec.columns;
    let pdi = match (&spec.xclbin, &spec.pdi) {
        (Some(xclbin), _) => {
            let (pdi, width) = unpack(run, xclbin, work)?;
            if newest && columns.is_some_and(|columns| columns != width) {
                return Err(error(format!("{xclbin} was compiled for {width} columns")));
            }
            columns = columns.or(Some(if newest { width } else { 1 }));
            pdi
        }
        (None, Some(path)) => file(path)?,
        (None, None) => Vec::new(),
    };
    let missing = |what: &str| error(format!("kernel '{}': {what} is missing", spec.name));
    Ok(vec![Kernel {
        name: spec.name.clone(),
        insts,
        pdi,
        kernarg: spec.kernarg.ok_or_else(|| missing("the kernarg size"))?,
        columns: columns.ok_or_else(|| missing("the number of columns"))?,
        kind: 0,
    }])
}

/// The one PDI of an xclbin and its columns, as xclbinutil gives them.
fn unpack(run: &Run, xclbin: &str, work: &Path) -> Result<(Vec<u8>, u32)> {
    let named = std::env::var_os("AIE_XCLBINUTIL_PATH").map(PathBuf::from);
    let tool = named.or_else(|| run.on_path("xclbinutil"));
    let tool = tool.ok_or_else(|| error("xclbinutil not found (set AIE_XCLBINUTIL_PATH)"))?;
    let json = work.join("partition.json");
    let output = Command::new(&tool)
        .args(["--input", xclbin, "--dump-section"])
        .arg(format!("AIE_PARTITION:JSON:{}", json.display()))
        .args(["--force", "--quiet"])
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|e| error(format!("cannot run {}: {e}", tool.display())))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(error(format!(
            "{} failed: {}",
            tool.display(),
            words.trim()
        )));
    }
    let partition = fs::read_to_string(&json)
        .ok()
        .and_then(|text| Json::parse(&text));
    let load = |name: &str| fs::read(work.join(name)).ok();
    let partition = partition.and_then(|json| axlf::Partition::from_json(&json, load));
    let partition = partition.ok_or_else(|| error(format!("{xclbin}: no AIE partition")))?;
    match partition.pdis.as_slice() {
        [pdi] => Ok((pdi.image.clone(), u32::from(partition.column_width))),
        pdis => Err(error(format!(
            "{xclbin} has {} PDIs, exactly one is needed",
            pdis.len()
        ))),
    }
}

/// The kernels of a full ELF, in the order of their names.
fn full_elf(spec: &Spec, path: &str, newest: bool) -> Result<Vec<Kernel>> {
    let bytes = file(path)?;
    let names = instances(&bytes).filter(|names| !names.is_empty());
    let mut names = names.ok_or_else(|| error(format!("{path} is no full ELF")))?;
    names.sort();
    let noted = configured_columns(&bytes);
    if newest && spec.columns.is_some() && noted.is_some() && spec.columns != noted {
        return Err(error(format!(
            "{path} was compiled for {} columns",
            noted.unwrap_or(0)
        )));
    }
    let columns = spec.columns.or(noted.filter(|_| newest)).unwrap_or(1);
    let kernel = |name| Kernel {
        name,
        insts: bytes.clone(),
        pdi: Vec::new(),
        kernarg: spec.kernarg.unwrap_or(0),
        columns,
        kind: 1,
    };
    Ok(names.into_iter().map(kernel).collect())
}

/// The section headers of an ELF32: type, offset, size, link, info and name.
fn headers(elf: &[u8]) -> Option<Vec<[u32; 6]>> {
    if !elf.starts_with(b"\x7fELF\x01") {
        return None;
    }
    let table = u32_at(elf, 32)? as usize;
    let count = (u32_at(elf, 48)? & 0xffff) as usize;
    let word = |index: usize, field: usize| u32_at(elf, table + 40 * index + 4 * field);
    (0..count)
        .map(|i| {
            Some([
                word(i, 1)?,
                word(i, 4)?,
                word(i, 5)?,
                word(i, 6)?,
                word(i, 7)?,
                word(i, 0)?,
            ])
        })
        .collect()
}

fn string(elf: &[u8], at: usize) -> Option<String> {
    let bytes = elf.get(at..)?.split(|byte| *byte == 0).next()?;
    String::from_utf8(bytes.to_vec()).ok()
}

/// `kernel:instance` of every group.
fn instances(elf: &[u8]) -> Option<Vec<String>> {
    let headers = headers(elf)?;
    let mut names = Vec::new();
    for [kind, _, _, link, info, _] in &headers {
        if *kind != 17 {
            continue;
        }
        let [_, symbols, _, strings, ..] = headers.get(*link as usize)?;
        let [_, text, ..] = headers.get(*strings as usize)?;
        let symbol = |index: u32| -> Option<(String, u32)> {
            let at = *symbols as usize + 16 * index as usize;
            let name = string(elf, *text as usize + u32_at(elf, at)? as usize)?;
            Some((name, u32_at(elf, at + 12)? >> 16))
        };
        let (instance, kernel) = symbol(*info)?;
        let (mangled, _) = symbol(kernel)?;
        names.push(format!("{}:{instance}", demangled(&mangled)));
    }
    Some(names)
}

/// The name in `_Z<length><name>…`.
fn demangled(mangled: &str) -> &str {
    let digits = |text: &str| {
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len())
    };
    let found = mangled.strip_prefix("_Z").and_then(|rest| {
        let (length, name) = rest.split_at_checked(digits(rest))?;
        name.get(..length.parse().ok()?)
    });
    found.unwrap_or(mangled)
}

fn configured_columns(elf: &[u8]) -> Option<u32> {
    let headers = headers(elf)?;
    let strings = u32_at(elf, 48)? >> 16;
    let [_, names, ..] = headers.get(strings as usize)?;
    headers.iter().find_map(|[kind, offset, _, _, _, name]| {
        let name = string(elf, *names as usize + *name as usize)?;
        let noted = *kind == 7 && name == ".note.xrt.configuration";
        noted.then(|| u32_at(elf, *offset as usize + 16)).flatten()
    })
}
