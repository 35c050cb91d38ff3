//! What is in an hsaco: as aie-hsaco-dump prints it, and with everything that is known as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::bytes::size_of;
use super::container::{ContainerFault, Elf64};
use super::full_elf;
use super::insts::{Insts, TRANSLATED, untranslated};
use super::judge::{Loader, other_generation};
use super::pdi;
use super::section::{Section, SectionKernel};
use super::verdict::{Agent, Judgement, Variable, verdicts};
use super::{Arch, KernelKind};

/// What is in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dump {
    /// Why it is no container at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The AIE sections, in the order of [`Arch::ALL`].
    pub sections: Vec<ArchDump>,
    /// What each reader makes of the file.
    pub verdicts: Vec<Judgement>,
    /// What nobody refuses and is wrong all the same.
    pub notes: Vec<String>,
}

/// What is in one section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ArchDump {
    /// Its name.
    pub arch: Arch,
    /// Bytes that it has.
    pub size: u64,
    /// Version of the format, `1.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its kernels, in the order of the table.
    pub kernels: Vec<KernelDump>,
    /// Why it can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelDump {
    /// Its name.
    pub name: String,
    /// What it consists of.
    pub kind: KernelKind,
    /// Where its code is in the section.
    pub insts_offset: u32,
    /// Bytes of its code.
    pub insts_size: u32,
    /// Where its PDI is in the section; 0 if there is none.
    pub pdi_offset: u32,
    /// Bytes of its PDI.
    pub pdi_size: u32,
    /// Size of the kernarg block as the entry has it.
    pub kernarg_size: u32,
    /// Columns of the partition.
    pub num_cols: u32,
    /// What the full ELF says of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_elf: Option<ElfDump>,
}

/// A kernel as its full ELF has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ElfDump {
    /// Bytes of its control code.
    pub control_size: u64,
    /// How many arguments it takes.
    pub arguments: u32,
    /// Where PDIs are patched in.
    pub pdi_sites: Vec<u32>,
    /// Where arguments are patched in: argument and place.
    pub argument_sites: Vec<(u32, u32)>,
    /// What the application must define.
    pub variables: Vec<Variable>,
}

impl Dump {
    /// Reads an hsaco and asks its readers, ROCR for each of `agents`.
    #[must_use]
    pub fn of(bytes: &[u8], agents: &[Agent]) -> Self {
        let file = Elf64::parse(bytes);
        let mut dump = Self {
            error: file.as_ref().err().map(ContainerFault::to_string),
            sections: Vec::new(),
            verdicts: verdicts(bytes, agents),
            notes: Vec::new(),
        };
        if let Ok(elf) = file {
            for arch in Arch::ALL {
                let section = match elf.section(arch) {
                    Ok(Some(data)) => ArchDump::of(arch, data, &mut dump.notes),
                    Ok(None) => continue,
                    Err(fault) => ArchDump {
                        arch,
                        size: 0,
                        version: None,
                        kernels: Vec::new(),
                        error: Some(fault.to_string()),
                    },
                };
                dump.sections.push(section);
            }
            if dump.sections.is_empty() {
                dump.error = Some("no aie2/aie2p section found".into());
            }
        }
        dump
    }

    /// The lines that aie-hsaco-dump prints on standard output.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            section.print(&mut text);
        }
        text
    }

    /// What aie-hsaco-dump complains of on standard error; it fails if there is anything.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        let sections = self.sections.iter().filter_map(|section| {
            let error = section.error.as_ref()?;
            Some(format!("{}: {error}", section.arch))
        });
        self.error.iter().cloned().chain(sections).collect()
    }
}

/// What whoever makes a section of `arch` should know: that it needs a ROCR that is not released long,
/// or that buffers are out of its instructions' reach.
#[must_use]
pub fn warnings(arch: Arch, section: &[u8]) -> Vec<String> {
    let kernels = Section::parse(section).and_then(|section| section.check_as_dumper());
    let mut loader = Loader::new(Agent::of(arch), size_of(section));
    let warnings = kernels.iter().flatten().flat_map(|kernel| {
        let unreached = unreached_note(arch, kernel);
        let variable = KernelDump::of(kernel, &mut loader).variable_note(arch);
        unreached.into_iter().chain(variable)
    });
    warnings.collect()
}

impl ArchDump {
    fn of(arch: Arch, data: &[u8], notes: &mut Vec<String>) -> Self {
        let section = Section::parse(data);
        let version = section.as_ref().ok().map(|section| section.version);
        let kernels = section.and_then(|section| section.check_as_dumper());
        let mut dump = Self {
            arch,
            size: size_of(data),
            version: None,
            kernels: Vec::new(),
            error: None,
        };
        match kernels {
            Ok(kernels) => {
                dump.version = version.map(|(major, minor)| format!("{major}.{minor}"));
                let mut loader = Loader::new(Agent::of(arch), size_of(data));
                for kernel in &kernels {
                    note(arch, kernel, notes);
                    let kernel = KernelDump::of(kernel, &mut loader);
                    kernel.note_older_loaders(arch, notes);
                    dump.kernels.push(kernel);
                }
                note_columns(arch, &kernels, size_of(data), notes);
            }
            Err(fault) => dump.error = Some(fault.to_string()),
        }
        dump
    }

    fn print(&self, text: &mut String) {
        // Writing to a string can't fail.
        let _ = writeln!(text, "arch section: {}", self.arch);
        let Some(version) = &self.version else {
            return;
        };
        let _ = writeln!(text, "version: {version}");
        for kernel in &self.kernels {
            let pdi = if kernel.pdi_size > 0 { "yes" } else { "no" };
            let _ = writeln!(
                text,
                "  kernel {}: kind={} insts={}B pdi={pdi} kernarg={} cols={}",
                kernel.name,
                kernel.kind.name(),
                kernel.insts_size,
                kernel.kernarg_size,
                kernel.num_cols
            );
        }
    }
}

impl KernelDump {
    fn of<'a>(kernel: &SectionKernel<'a>, loader: &mut Loader<'a>) -> Self {
        let entry = kernel.entry;
        let full_elf = match kernel.kind {
            KernelKind::PdiInsts => None,
            KernelKind::FullElf => (loader.read(kernel.insts).ok())
                .and_then(|elf| elf.kernel(kernel.name))
                .map(ElfDump::of),
        };
        Self {
            name: String::from_utf8_lossy(kernel.name).into_owned(),
            kind: kernel.kind,
            insts_offset: entry.insts_offset,
            insts_size: entry.insts_size,
            pdi_offset: entry.pdi_offset,
            pdi_size: entry.pdi_size,
            kernarg_size: entry.kernarg_size,
            num_cols: entry.columns,
            full_elf,
        }
    }
}

impl KernelDump {
    fn variable_note(&self, arch: Arch) -> Option<String> {
        let variable = self.full_elf.as_ref()?.variables.first()?;
        Some(format!(
            "{arch}: kernel '{}': ROCR before October 2026 (rocm-systems#14004) refuses the whole full ELF: \
             unsupported relocation symbol: {}",
            self.name, variable.name
        ))
    }

    /// What only older releases of ROCR refuse.
    fn note_older_loaders(&self, arch: Arch, notes: &mut Vec<String>) {
        let Some(elf) = &self.full_elf else {
            return;
        };
        let name = &self.name;
        notes.extend(self.variable_note(arch));
        if elf.pdi_sites.len() > 1 {
            notes.push(format!(
                "{arch}: kernel '{name}': older ROCR takes one PDI patch site a kernel, this one has {}",
                elf.pdi_sites.len()
            ));
        }
    }
}

impl ElfDump {
    fn of(kernel: &full_elf::Kernel<'_>) -> Self {
        let mut variables: Vec<_> = (kernel.variables.iter())
            .map(|site| Variable {
                name: String::from_utf8_lossy(site.name).into_owned(),
                size: site.size,
            })
            .collect();
        variables.sort_by(|one, other| one.name.cmp(&other.name));
        variables.dedup();
        Self {
            control_size: size_of(kernel.control),
            arguments: kernel.argument_count(),
            pdi_sites: kernel.pdis.iter().map(|site| site.offset).collect(),
            argument_sites: (kernel.arguments.iter())
                .map(|site| (site.argument, site.offset))
                .collect(),
            variables,
        }
    }
}

/// That a buffer's address is translated by nobody.
fn unreached_note(arch: Arch, kernel: &SectionKernel<'_>) -> Option<String> {
    let is_stream = kernel.kind == KernelKind::PdiInsts;
    let argument = untranslated(kernel.insts).filter(|_| is_stream)?;
    Some(format!(
        "{arch}: kernel '{}': its instructions take the address of argument {argument} as the host gives it, \
         and the NPU's firmware translates those of the first {TRANSLATED} only",
        String::from_utf8_lossy(kernel.name)
    ))
}

/// What of a stream and a PDI every reader lets pass.
fn note(arch: Arch, kernel: &SectionKernel<'_>, notes: &mut Vec<String>) {
    if kernel.kind != KernelKind::PdiInsts {
        return;
    }
    let name = String::from_utf8_lossy(kernel.name);
    if let Err(fault) = Insts::parse(kernel.insts) {
        notes.push(format!("{arch}: kernel '{name}': {fault}"));
    } else if let Some(fault) = other_generation(kernel.insts, arch) {
        notes.push(format!("{arch}: kernel '{name}': {fault}"));
    }
    notes.extend(unreached_note(arch, kernel));
    if !kernel.pdi.is_empty()
        && let Err(fault) = pdi::validate(kernel.pdi)
    {
        notes.push(format!("{arch}: kernel '{name}': {fault}"));
    }
    if !kernel.entry.kernarg_size.is_multiple_of(16) {
        notes.push(format!(
            "{arch}: kernel '{name}': kernarg size {} is no multiple of 16, the size of an argument",
            kernel.entry.kernarg_size
        ));
    }
}

/// Columns that contradict the full ELF: ROCR loads that, in a partition of the wrong size.
fn note_columns(arch: Arch, kernels: &[SectionKernel<'_>], size: u64, notes: &mut Vec<String>) {
    let mut last: Option<(&[u8], Option<u32>)> = None;
    let mut budget = size;
    for kernel in kernels {
        if kernel.kind != KernelKind::FullElf {
            continue;
        }
        let recorded = match last {
            Some((elf, recorded)) if std::ptr::eq(elf, kernel.insts) => recorded,
            _ => {
                let Some(rest) = budget.checked_sub(size_of(kernel.insts)) else {
                    return;
                };
                budget = rest;
                let outline = full_elf::outline(kernel.insts).ok();
                outline.and_then(|outline| outline.columns)
            }
        };
        last = Some((kernel.insts, recorded));
        let declared = kernel.entry.columns;
        if let Some(recorded) = recorded
            && recorded != declared
        {
            notes.push(format!(
                "{arch}: kernel '{}' declares {declared} columns; its full ELF was compiled for {recorded}",
                String::from_utf8_lossy(kernel.name)
            ));
        }
    }
}
