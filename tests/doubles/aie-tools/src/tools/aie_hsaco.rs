//! aie-hsaco: kernels into the section of an arch, which the real llvm-objcopy puts into the file;
//! and aie-hsaco-dump. Dialect 1 does not check the columns that it is given, as the packer of mid
//! 2026 does not; dialect 2 does, as the newest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::axlf::Partition;
use crate::bytes::{Image, u32_at, u64_at};
use crate::run::{Exit, Result, Run};
use crate::tools::print;

fn error(text: impl AsRef<str>) -> Exit {
    Exit {
        code: 2,
        text: format!("aie-hsaco: error: {}", text.as_ref()),
    }
}

/// A kernel as the command line gives it.
#[derive(Clone, Default)]
struct Spec {
    name: String,
    elf: Option<String>,
    xclbin: Option<String>,
    insts: Option<String>,
    pdi: Option<String>,
    kernarg: Option<u32>,
    columns: Option<u32>,
}

impl Spec {
    fn set(&mut self, field: &str, value: &str) -> Result {
        let text = || Some(value.to_owned());
        let number = || {
            let number = value.parse().map(Some);
            number.map_err(|_| error(format!("{field} is no number: '{value}'")))
        };
        match field {
            "name" => value.clone_into(&mut self.name),
            "elf" => self.elf = text(),
            "xclbin" => self.xclbin = text(),
            "insts" => self.insts = text(),
            "pdi" => self.pdi = text(),
            "kernarg" => self.kernarg = number()?,
            "cols" => self.columns = number()?,
            _ => return Err(error(format!("unrecognized arguments: --kernel-{field}"))),
        }
        Ok(())
    }

    /// `NAME:INSTS[:PDI]:KERNARG:COLS`, `xclbin:NAME:XCLBIN:INSTS:KERNARG[:COLS]` or
    /// `elf:PATH[:KERNARG[:COLS]]`.
    fn short(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (fields, values): (&[&str], &[&str]) = match parts.as_slice() {
            ["elf", values @ ..] if (1..=3).contains(&values.len()) => {
                (&["elf", "kernarg", "cols"], values)
            }
            ["xclbin", values @ ..] if (4..=5).contains(&values.len()) => {
                (&["name", "xclbin", "insts", "kernarg", "cols"], values)
            }
            ["elf" | "xclbin", ..] => (&[], &[]),
            values if values.len() == 4 => (&["name", "insts", "kernarg", "cols"], values),
            values if values.len() == 5 => (&["name", "insts", "pdi", "kernarg", "cols"], values),
            _ => (&[], &[]),
        };
        if fields.is_empty() {
            return Err(error(format!("malformed kernel spec '{text}'")));
        }
        let mut spec = Self::default();
        for (field, value) in fields.iter().zip(values) {
            spec.set(field, value)?;
        }
        Ok(spec)
    }
}

struct Asked {
    hsaco: String,
    arch: String,
    kernels: Vec<Spec>,
}

fn read(run: &Run) -> Result<Asked> {
    let (mut hsaco, mut arch, mut kernels) = (None, None, Vec::<Spec>::new());
    let mut is_long = false;
    let mut rest = run.arguments.iter();
    while let Some(argument) = rest.next() {
        let (option, value) = match argument.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (argument.as_str(), rest.next().map(String::as_str)),
        };
        let missing = || error(format!("argument {option}: expected one argument"));
        let value = value.ok_or_else(missing)?;
        match (option, option.strip_prefix("--kernel-")) {
            ("--hsaco", _) => hsaco = Some(value.to_owned()),
            ("--arch", _) => arch = Some(value.to_owned()),
            ("--kernel", _) => {
                kernels.push(Spec::short(value)?);
                is_long = false;
            }
            (_, Some(field)) => {
                if matches!(field, "name" | "elf") {
                    kernels.push(Spec::default());
                    is_long = true;
                }
                let open = kernels.last_mut().filter(|_| is_long);
                let first = || error(format!("{option} before --kernel-name or --kernel-elf"));
                open.ok_or_else(first)?.set(field, value)?;
            }
            _ => return Err(error(format!("unrecognized arguments: {option}"))),
        }
    }
    let required = |option: &str| error(format!("the following arguments are required: {option}"));
    let asked = Asked {
        hsaco: hsaco.ok_or_else(|| required("--hsaco"))?,
        arch: arch.ok_or_else(|| required("--arch"))?,
        kernels,
    };
    if !matches!(asked.arch.as_str(), "aie2" | "aie2p") {
        return Err(error(format!(
            "argument --arch: invalid choice: '{}' (choose from 'aie2', 'aie2p')",
            asked.arch
        )));
    }
    match asked.kernels.is_empty() {
        true => Err(error("no kernels given")),
        false => Ok(asked),
    }
}

/// A kernel of a section.
struct Kernel {
    name: String,
    /// Its instructions, or the whole full ELF.
    insts: Vec<u8>,
    pdi: Vec<u8>,
    kernarg: u32,
    columns: u32,
    /// 0: instructions and PDI; 1: full ELF.
    kind: u32,
}

/// Runs aie-hsaco. Where it fails the file is left as it was.
pub fn run(run: &Run) -> Result {
    if run.arguments.iter().any(|a| a == "--help" || a == "-h") {
        print("usage: aie-hsaco --hsaco OUT --arch {aie2,aie2p} --kernel SPEC...\n");
        return Ok(());
    }
    run.begin()?;
    let asked = read(run)?;
    let work = std::env::temp_dir().join(format!("aie-hsaco-{}", std::process::id()));
    fs::create_dir_all(&work).map_err(|e| error(e.to_string()))?;
    let packed = pack(run, &asked, &work);
    let _ = fs::remove_dir_all(&work);
    packed
}

fn pack(run: &Run, asked: &Asked, work: &Path) -> Result {
    let newest = run.identity.dialect >= 2;
    let mut kernels: Vec<Kernel> = Vec::new();
    for spec in &asked.kernels {
        for kernel in resolve(run, spec, newest, work)? {
            let name = &kernel.name;
            if kernels.iter().any(|earlier| earlier.name == *name) {
                return Err(error(format!("duplicate kernel name '{name}'")));
            }
            if newest && kernel.columns == 0 {
                return Err(error(format!(
                    "kernel '{name}': num_cols must be at least 1"
                )));
            }
            kernels.push(kernel);
        }
    }
    let [content, base, made] = ["section", "base", "made"].map(|name| work.join(name));
    let io = |e: std::io::Error| error(e.to_string());
    fs::write(&content, section(&kernels)).map_err(io)?;
    let existing = match fs::read(&asked.hsaco) {
        Ok(bytes) if bytes.starts_with(b"\x7fELF") => bytes,
        Ok(_) => return Err(error(format!("{} is not an ELF file", asked.hsaco))),
        Err(_) => empty(),
    };
    fs::write(&base, existing).map_err(io)?;
    let arch = &asked.arch;
    let arguments = [
        format!("--remove-section={arch}"),
        format!("--add-section={arch}={}", content.display()),
        format!("--set-section-flags={arch}=noload,readonly"),
        base.display().to_string(),
        made.display().to_string(),
    ];
    tool(run, "llvm-objcopy", "AIE_OBJCOPY_PATH", &arguments)?;
    let bytes = fs::read(&made).map_err(io)?;
    run.deliver("hsaco", Path::new(&asked.hsaco), &bytes);
    Ok(())
}

/// Runs a tool that a variable names, or that is on PATH.
fn tool(run: &Run, name: &str, variable: &str, arguments: &[String]) -> Result {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let path = named.or_else(|| run.on_path(name));
    let path = path.ok_or_else(|| error(format!("{name} not found (set {variable})")))?;
    let output = Command::new(&path)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|e| error(format!("cannot run {}: {e}", path.display())))?;
    let words = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(error(format!(
            "{} failed: {}",
            path.display(),
            words.trim()
        ))),
    }
}

fn file(path: &str) -> Result<Vec<u8>> {
    let bytes = fs::read(path).map_err(|e| error(format!("cannot read {path}: {e}")))?;
    match bytes.is_empty() {
        true => Err(error(format!("{path} is empty"))),
        false => Ok(bytes),
    }
}

/// The kernels of one spec: one, or all of a full ELF.
fn resolve(run: &Run, spec: &Spec, newest: bool, work: &Path) -> Result<Vec<Kernel>> {
    let compiled_for = |path: &str, width: u32| {
        let is_other = newest && spec.columns.is_some_and(|columns| columns != width);
        match is_other {
            true => Err(error(format!("{path} was compiled for {width} columns"))),
            false => Ok(spec.columns.unwrap_or(if newest { width } else { 1 })),
        }
    };
    if let Some(path) = &spec.elf {
        let bytes = file(path)?;
        let known = full_elf(&bytes).filter(|(names, _)| !names.is_empty());
        let (mut names, width) = known.ok_or_else(|| error(format!("{path} is no full ELF")))?;
        names.sort();
        let columns = compiled_for(path, width)?;
        let kernel = |name| Kernel {
            name,
            insts: bytes.clone(),
            pdi: Vec::new(),
            kernarg: spec.kernarg.unwrap_or(0),
            columns,
            kind: 1,
        };
        return Ok(names.into_iter().map(kernel).collect());
    }
    let missing = |what: &str| error(format!("kernel '{}': {what} is missing", spec.name));
    let insts = spec
        .insts
        .as_ref()
        .ok_or_else(|| missing("its instructions"))?;
    let insts = file(insts)?;
    let mut columns = spec.columns;
    let pdi = match (&spec.xclbin, &spec.pdi) {
        (Some(xclbin), _) => {
            let (pdi, width) = unpack(run, xclbin, work)?;
            columns = Some(compiled_for(xclbin, width)?);
            pdi
        }
        (None, Some(path)) => file(path)?,
        (None, None) => Vec::new(),
    };
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
    let json = work.join("partition.json");
    let section = format!("AIE_PARTITION:JSON:{}", json.display());
    let arguments = [
        "--input",
        xclbin,
        "--dump-section",
        &section,
        "--force",
        "--quiet",
    ];
    tool(
        run,
        "xclbinutil",
        "AIE_XCLBINUTIL_PATH",
        &arguments.map(str::to_owned),
    )?;
    let text = fs::read_to_string(&json).unwrap_or_default();
    let load = |name: &str| fs::read(work.join(name)).ok();
    let json = serde_json::from_str(&text).ok();
    let partition = json.and_then(|json| Partition::from_json(&json, load));
    let partition = partition.ok_or_else(|| error(format!("{xclbin}: no AIE partition")))?;
    match partition.pdis.as_slice() {
        [pdi] => Ok((pdi.image.clone(), u32::from(partition.column_width))),
        pdis => Err(error(format!(
            "{xclbin} has {} PDIs, exactly one is needed",
            pdis.len()
        ))),
    }
}

fn string(bytes: &[u8], at: usize) -> Option<String> {
    let bytes = bytes.get(at..)?.split(|byte| *byte == 0).next()?;
    String::from_utf8(bytes.to_vec()).ok()
}

/// `kernel:instance` of every group of a full ELF, and its columns.
fn full_elf(elf: &[u8]) -> Option<(Vec<String>, u32)> {
    if !elf.starts_with(b"\x7fELF\x01") {
        return None;
    }
    let (table, counts) = (u32_at(elf, 32)? as usize, u32_at(elf, 48)?);
    let header = |index: u32, field: usize| u32_at(elf, table + 40 * index as usize + 4 * field);
    let (mut names, mut columns) = (Vec::new(), 0);
    for section in 0..counts & 0xffff {
        let name = header(counts >> 16, 4)? + header(section, 0)?;
        if string(elf, name as usize)? == ".note.xrt.configuration" {
            columns = u32_at(elf, header(section, 4)? as usize + 16)?;
        }
        if header(section, 1)? != 17 {
            continue;
        }
        let symtab = header(section, 6)?;
        let (symbols, strings) = (header(symtab, 4)?, header(header(symtab, 6)?, 4)?);
        let symbol = |index: u32| {
            let at = (symbols + 16 * index) as usize;
            let name = string(elf, (strings + u32_at(elf, at)?) as usize)?;
            Some((name, u32_at(elf, at + 12)? >> 16))
        };
        let (instance, kernel) = symbol(header(section, 7)?)?;
        // `_Z<length><name>…`
        let mangled = symbol(kernel)?.0;
        let rest = mangled.strip_prefix("_Z")?;
        let name = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let length = rest.get(..rest.len() - name.len())?.parse().ok()?;
        names.push(format!("{}:{instance}", name.get(..length)?));
    }
    Some((names, columns))
}

/// The bytes of a section: header, entries, names, and a pool in which equal blobs are one.
fn section(kernels: &[Kernel]) -> Vec<u8> {
    let (mut names, mut pool, mut table) = (Vec::new(), Vec::new(), Image::default());
    let names_at = 48 + 44 * kernels.len();
    let names_size: usize = kernels.iter().map(|k| k.name.len() + 1).sum();
    let pool_at = names_at + names_size;
    let mut placed: Vec<(&[u8], usize)> = Vec::new();
    for kernel in kernels {
        table.u32(names.len() as u32);
        names.extend_from_slice(kernel.name.as_bytes());
        names.push(0);
        for blob in [kernel.insts.as_slice(), &kernel.pdi] {
            let known = placed.iter().find(|(bytes, _)| *bytes == blob);
            let at = match known.map(|(_, at)| *at) {
                Some(at) => at,
                None if blob.is_empty() => 0,
                None => {
                    placed.push((blob, pool_at + pool.len()));
                    pool.extend_from_slice(blob);
                    pool_at + pool.len() - blob.len()
                }
            };
            table.words(&[at as u32, blob.len() as u32]);
        }
        table.words(&[kernel.kernarg, kernel.columns, kernel.kind, 0, 0, 0]);
    }
    let mut image = Image::default();
    image.words(&[0x4b45_4941, 1, 48, kernels.len() as u32, 44]);
    image.words(&[
        names_at as u32,
        names_size as u32,
        pool_at as u32,
        0,
        0,
        0,
        0,
    ]);
    image.bytes(&[&table.0[..], &names, &pool].concat());
    image.0
}

/// An empty ELF64 for AMDGPU: the header, `.shstrtab` and two section headers.
fn empty() -> Vec<u8> {
    let mut image = Image::default();
    image.bytes(b"\x7fELF\x02\x01\x01");
    image.fill_to(16);
    image.words(&[1 | 224 << 16, 1, 0, 0, 0, 0, 80, 0, 0]);
    image.words(&[64, 64 << 16, 2 | 1 << 16]);
    image.bytes(b"\0.shstrtab\0");
    image.align(8);
    image.fill_to(image.len() + 64);
    image.words(&[1, 3, 0, 0, 0, 0, 64, 0, 11, 0, 0, 0, 1, 0, 0, 0]);
    image.0
}

/// The content of an ELF64's section, if it has one of that name.
fn elf_section<'f>(file: &'f [u8], wanted: &str) -> Option<&'f [u8]> {
    if !file.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let table = u64_at(file, 40)? as usize;
    let counts = u32_at(file, 60)?;
    let bounds = |index: u32| {
        let at = table + 64 * index as usize;
        Some((
            u64_at(file, at + 24)? as usize,
            u64_at(file, at + 32)? as usize,
        ))
    };
    let (names, _) = bounds(counts >> 16)?;
    let is_it = |index: &u32| {
        let name = u32_at(file, table + 64 * *index as usize);
        let name = name.and_then(|name| string(file, names + name as usize));
        name.is_some_and(|name| name == wanted)
    };
    let (offset, size) = bounds((1..counts & 0xffff).find(is_it)?)?;
    file.get(offset..offset.checked_add(size)?)
}

/// Runs aie-hsaco-dump: what is in a file, arch by arch.
pub fn dump(run: &Run) -> Result {
    run.begin()?;
    let error = |text: String| Exit {
        code: 1,
        text: format!("aie-hsaco-dump: error: {text}"),
    };
    let [option, file] = run.arguments.as_slice() else {
        return Err(error("usage: aie-hsaco-dump --hsaco FILE".to_owned()));
    };
    let bytes = fs::read(file).map_err(|e| error(format!("cannot read {file}: {e}")))?;
    let archs = ["aie2", "aie2p"]
        .into_iter()
        .filter(|_| option == "--hsaco");
    let mut sections = archs
        .filter_map(|arch| Some((arch, elf_section(&bytes, arch)?)))
        .peekable();
    if sections.peek().is_none() {
        return Err(error(format!("{file} has no AIE section")));
    }
    for (arch, section) in sections {
        let lines = dumped(section);
        let lines = lines.ok_or_else(|| error(format!("{arch}: the section makes no sense")))?;
        print(&format!("arch section: {arch}\nversion: 1.0\n{lines}"));
    }
    Ok(())
}

fn dumped(section: &[u8]) -> Option<String> {
    let word = |at: usize| u32_at(section, at);
    let mut lines = String::new();
    for index in 0..word(12).filter(|_| word(0) == Some(0x4b45_4941))? {
        let at = (word(8)? + index * word(16)?) as usize;
        let name = string(section, (word(20)? + word(at)?) as usize)?;
        let kind = ["PdiInsts", "FullElf"].get(word(at + 28)? as usize)?;
        let pdi = if word(at + 16)? == 0 { "no" } else { "yes" };
        lines.push_str(&format!(
            "  kernel {name}: kind={kind} insts={}B pdi={pdi} kernarg={} cols={}\n",
            word(at + 8)?,
            word(at + 20)?,
            word(at + 24)?
        ));
    }
    Some(lines)
}
