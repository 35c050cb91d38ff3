//! What a step's output must be: exit status 0 of a tool is no proof of anything.
//!
//! Tools have been seen to exit with 0 and leave nothing, half a file, another file, or the file of
//! an earlier run. So each output is read as its readers will read it, and compared with what the
//! step was to make.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::kernel::Module;
use npu_formats::container::Elf64;
use npu_formats::full_elf::{self, FullElf};
use npu_formats::insts::Insts;
use npu_formats::section::Section;
use npu_formats::verdict::{Agent, Reader, Verdict, verdicts};
use npu_formats::xclbin::Xclbin;
use npu_formats::{Arch, pdi};

/// What the content of an output is checked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Text in UTF-8.
    Text,
    /// MLIR, from its first bracket to its last.
    Mlir {
        /// The function that it must define, if it must.
        function: Option<String>,
        /// What to say of it if it has no herd, which it then must have.
        herd: Option<&'static str>,
    },
    /// A shared object that this machine can load.
    SharedObject,
    /// An instruction stream, as long as it says, for this architecture.
    Insts {
        /// The architecture.
        arch: Arch,
    },
    /// A PDI for an NPU.
    Pdi,
    /// An xclbin.
    Xclbin {
        /// The width of its partition.
        columns: u32,
        /// `kernel:instance`, which its IP_LAYOUT must list.
        kernel: String,
    },
    /// A full ELF.
    FullElf {
        /// The architecture.
        arch: Arch,
        /// What its configuration note must say.
        columns: u32,
        /// The kernels that it must have.
        kernels: Vec<ElfKernel>,
        /// Where the tools may have written down in JSON what they put into it; the first that is
        /// there must agree.
        configuration: Vec<String>,
    },
    /// An hsaco that ROCR loads.
    Hsaco {
        /// The architecture whose section it must have.
        arch: Arch,
        /// The kernels that the section must have.
        kernels: Vec<String>,
    },
}

/// A kernel of a full ELF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfKernel {
    /// `device:sequence`.
    pub name: String,
    /// How many buffers it takes. One that no instruction touches may be missing at the end.
    pub buffers: u32,
}

impl Check {
    /// Says what is wrong with `bytes`, an output that was made in `directory`.
    ///
    /// # Errors
    /// The first thing that is not as it must be.
    pub fn content(&self, bytes: &[u8], directory: &Path) -> Result<(), String> {
        match self {
            Self::Text => told(std::str::from_utf8(bytes)).map(drop),
            Self::Mlir { function, herd } => mlir(bytes, function.as_deref(), *herd),
            Self::SharedObject => told(npu_runtime::check_cpu_object(bytes)),
            Self::Insts { arch } => told(Insts::parse_for(bytes, *arch)).map(drop),
            Self::Pdi => told(pdi::validate(bytes)),
            Self::Xclbin { columns, kernel } => xclbin(bytes, *columns, kernel),
            Self::FullElf {
                arch,
                columns,
                kernels,
                configuration,
            } => {
                let names = full_elf(bytes, *arch, *columns, kernels)?;
                let paths = configuration.iter().map(|name| directory.join(name));
                match paths.filter_map(|path| fs::read(path).ok()).next() {
                    Some(json) => agrees(&json, &names),
                    None => Ok(()),
                }
            }
            Self::Hsaco { arch, kernels } => hsaco(bytes, *arch, kernels),
        }
    }
}

fn told<T>(result: Result<T, impl ToString>) -> Result<T, String> {
    result.map_err(|fault| fault.to_string())
}

fn mlir(bytes: &[u8], function: Option<&str>, herd: Option<&str>) -> Result<(), String> {
    let module = told(Module::scan(bytes))?;
    let is_missing = |name: &&str| module.defined.iter().all(|defined| defined != name);
    match function.filter(is_missing) {
        Some(name) => Err(format!("it does not define the function '{name}'")),
        None => match herd.filter(|_| !module.herd) {
            Some(remedy) => Err(format!("it has no herd: {remedy}")),
            None => Ok(()),
        },
    }
}

fn xclbin(bytes: &[u8], columns: u32, kernel: &str) -> Result<(), String> {
    let xclbin = told(Xclbin::parse(bytes))?;
    let partition = told(xclbin.partition())?;
    let found = u32::from(partition.column_width);
    if found != columns {
        return Err(format!(
            "its partition has {found} columns, and it was compiled for {columns}"
        ));
    }
    for pdi in &partition.pdis {
        told(pdi::validate(pdi.image))?;
    }
    let names = told(xclbin.kernel_names())?;
    if names.contains(&kernel.as_bytes()) {
        return Ok(());
    }
    let names = names.iter().map(|name| String::from_utf8_lossy(name));
    let names: Vec<_> = names.collect();
    Err(format!(
        "it has no kernel '{kernel}': there is {}",
        listed(&names)
    ))
}

/// Gives the names of all kernels in the file, sorted.
fn full_elf(
    bytes: &[u8],
    arch: Arch,
    columns: u32,
    expected: &[ElfKernel],
) -> Result<Vec<String>, String> {
    let outline = told(full_elf::outline(bytes))?;
    match outline.columns {
        Some(found) if found == columns => {}
        Some(found) => {
            return Err(format!(
                "its configuration note says {found} columns, and it was compiled for {columns}"
            ));
        }
        None => return Err("it has no configuration note with its columns".to_owned()),
    }
    let elf = told(FullElf::parse(bytes, arch))?;
    let mut names = Vec::with_capacity(elf.kernels.len());
    let parts = elf.parts();
    for kernel in &elf.kernels {
        let name = kernel.name().into_owned();
        let wanted = expected.iter().find(|expected| expected.name == name);
        let arguments = kernel.argument_count();
        if let Some(wanted) = wanted.filter(|wanted| arguments > wanted.buffers) {
            return Err(format!(
                "its kernel '{name}' takes {arguments} buffers, and the MLIR says {}",
                wanted.buffers
            ));
        }
        if wanted.is_some() && parts.contains(&kernel) {
            return Err(format!(
                "its kernel '{name}' loads no configuration and is a part of another, so that it \
                 can't be launched"
            ));
        }
        for site in &kernel.pdis {
            told(pdi::validate(site.image))?;
        }
        names.push(name);
    }
    for expected in expected {
        if !names.contains(&expected.name) {
            return Err(format!(
                "it has no kernel '{}': there is {}",
                expected.name,
                listed(&names)
            ));
        }
    }
    Ok(names)
}

/// The part of `full_elf_config.json` that names kernels.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Configuration {
    xrt_kernels: Vec<ConfiguredKernel>,
}

#[derive(Deserialize)]
struct ConfiguredKernel {
    name: String,
    #[serde(default)]
    instance: Vec<Instance>,
}

#[derive(Deserialize)]
struct Instance {
    id: String,
}

/// Compares the kernels of a full ELF with those that were to be put into it.
fn agrees(json: &[u8], names: &[String]) -> Result<(), String> {
    let unreadable = |error| format!("full_elf_config.json beside it can't be read: {error}");
    let configuration: Configuration = serde_json::from_slice(json).map_err(unreadable)?;
    let kernels = configuration.xrt_kernels.iter();
    let mut configured: Vec<_> = kernels
        .flat_map(|kernel| {
            let instances = kernel.instance.iter();
            instances.map(|instance| format!("{}:{}", kernel.name, instance.id))
        })
        .collect();
    configured.sort();
    if configured == names {
        return Ok(());
    }
    Err(format!(
        "it has the kernels {}, and full_elf_config.json lists {}",
        listed(names),
        listed(&configured)
    ))
}

fn hsaco(bytes: &[u8], arch: Arch, expected: &[String]) -> Result<(), String> {
    let elf = told(Elf64::parse(bytes))?;
    let agent = Agent::of(arch);
    for judgement in verdicts(bytes, &[agent]) {
        let is_loader = judgement.reader == Reader::Rocr(agent);
        if is_loader && !matches!(judgement.verdict, Verdict::Accepts { .. }) {
            return Err(judgement.to_string());
        }
    }
    let data = told(elf.section(arch))?.unwrap_or_default();
    let kernels = told(Section::parse(data).and_then(|section| section.check()))?;
    let names = kernels
        .iter()
        .map(|kernel| String::from_utf8_lossy(kernel.name));
    let names: Vec<_> = names.collect();
    match expected
        .iter()
        .find(|name| !names.iter().any(|it| it == *name))
    {
        Some(name) => Err(format!(
            "it has no kernel '{name}': there is {}",
            listed(&names)
        )),
        None => Ok(()),
    }
}

fn listed(names: &[impl AsRef<str>]) -> String {
    match names {
        [] => "none".to_owned(),
        names => {
            let names: Vec<_> = names.iter().map(AsRef::as_ref).collect();
            names.join(", ")
        }
    }
}
