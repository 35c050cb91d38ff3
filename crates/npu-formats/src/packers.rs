//! What aie-hsaco would say to a file, and to the kernels that are in it.

use std::collections::HashSet;

use super::bytes::{size_of, u16_at};
use super::container::{
    ContainerFault, Elf64, Header, SECTION_HEADER, SHT_NOBITS, SHT_NULL, SHT_STRTAB,
};
use super::full_elf;
use super::section::{Section, SectionKernel};
use super::verdict::{Reader, Verdict, accepts, refuses, text};
use super::{Arch, KernelKind};

const SHT_SYMTAB: u32 = 2;
const SHT_RELA: u32 = 4;
const SHT_REL: u32 = 9;

/// The verdict of that packer.
pub fn verdict(bytes: &[u8], file: Result<&Elf64<'_>, &ContainerFault>, packer: Reader) -> Verdict {
    if let Some(fault) = objcopy_fault(bytes, file) {
        return refuses(format!("llvm-objcopy cannot write to it: {fault}"));
    }
    let none = |reason: &str| Verdict::NotConcerned {
        reason: reason.into(),
    };
    let Ok(elf) = file else {
        return none("it would add a section to it, but reads kernels from an ELF64 alone");
    };
    let sections = Arch::ALL.iter().filter_map(|arch| elf.section(*arch).ok()?);
    let mut is_any = false;
    for data in sections {
        let Ok(kernels) = Section::parse(data).and_then(|section| section.check_as_dumper()) else {
            continue;
        };
        is_any |= !kernels.is_empty();
        let mut seen = HashSet::new();
        if let Some(kernel) = kernels.iter().find(|kernel| !seen.insert(kernel.name)) {
            return refuses(duplicate(kernel.name));
        }
        if let Some(refusal) = kernels_refused(&kernels, size_of(data), packer) {
            return refusal;
        }
    }
    if is_any {
        accepts()
    } else {
        none("there are no kernels that it could have been given")
    }
}

fn duplicate(name: &[u8]) -> String {
    format!("duplicate kernel name(s): {}", text(name))
}

/// What is wrong with a kernel, and with its full ELF, from which it has its name.
fn kernels_refused(kernels: &[SectionKernel<'_>], size: u64, packer: Reader) -> Option<Verdict> {
    let is_newest = packer == Reader::NewestPacker;
    let mut read = HashSet::new();
    let mut budget = size;
    for kernel in kernels {
        let refused = |reason: String| {
            let verdict = Verdict::Refuses {
                status: None,
                kernel: Some(text(kernel.name)),
                reason,
                remedy: None,
            };
            is_newest.then_some(verdict)
        };
        let columns = kernel.entry.columns;
        if columns == 0 && is_newest {
            return refused("has num_cols 0".into());
        }
        // All kernels of one full ELF have the same columns, or only the first agrees with it.
        let key = (kernel.insts.as_ptr(), kernel.insts.len(), columns);
        if kernel.kind != KernelKind::FullElf || !read.insert(key) {
            continue;
        }
        // As in ROCR's verdict, only code that lies over itself can be more than there is.
        budget = match budget.checked_sub(size_of(kernel.insts)) {
            Some(budget) => budget,
            None => return refused("sections overlap".into()),
        };
        let outline = match full_elf::outline(kernel.insts) {
            Ok(outline) => outline,
            Err(fault) if is_newest => return refused(fault.to_string()),
            Err(_) => continue,
        };
        let names = outline.kernels.iter();
        let mut pairs = names.clone().zip(names.skip(1));
        if let Some((name, _)) = pairs.find(|(name, next)| name == next) {
            return Some(refuses(duplicate(name)));
        }
        if is_newest && !outline.is_comdat {
            return refused("group is not a COMDAT group".into());
        }
        if let Some(recorded) = outline.columns.filter(|recorded| *recorded != columns)
            && is_newest
        {
            return refused(format!(
                "declares {columns} columns; its full ELF records {recorded}"
            ));
        }
    }
    None
}

/// Why llvm-objcopy, which writes for aie-hsaco, adds no section, as far as headers show it.
fn objcopy_fault(bytes: &[u8], file: Result<&Elf64<'_>, &ContainerFault>) -> Option<String> {
    match file {
        Ok(elf) => of_elf64(elf),
        Err(fault) => of_other(bytes, fault),
    }
}

fn of_other(bytes: &[u8], fault: &ContainerFault) -> Option<String> {
    let ident = |index| bytes.get(index).copied().unwrap_or_default();
    if !bytes.starts_with(b"\x7fELF") || bytes.len() < 16 {
        return Some("The file was not recognized as a valid object file".into());
    }
    let entry_size = u16_at(bytes, 0x3a).map_or(SECTION_HEADER, u64::from);
    Some(match fault {
        // It copies ELFs of either class and byte order.
        ContainerFault::Class | ContainerFault::ByteOrder => match (ident(4), ident(5)) {
            (1 | 2, 1 | 2) => return None,
            (1 | 2, _) => "Invalid ELF data".into(),
            _ => "Invalid ELF class".into(),
        },
        _ if entry_size != SECTION_HEADER => entry_size_fault(entry_size),
        ContainerFault::Table => "section table goes past the end of file".into(),
        ContainerFault::NoSections => {
            let index = u16_at(bytes, 0x3e).unwrap_or_default();
            format!("e_shstrndx field value {index} in elf header is invalid")
        }
        fault => fault.to_string(),
    })
}

fn entry_size_fault(size: u64) -> String {
    format!("invalid e_shentsize in ELF header: {size}")
}

fn of_elf64(elf: &Elf64<'_>) -> Option<String> {
    let entry_size = u64::from(elf.entry_size);
    if entry_size != SECTION_HEADER {
        return Some(entry_size_fault(entry_size));
    }
    if u16_at(elf.bytes(), 0x38) != Some(0) && elf.program_headers().is_err() {
        return Some("program headers are longer than binary".into());
    }
    let names = elf.headers.get(elf.names_index);
    if names.is_some_and(|names| names.kind != SHT_STRTAB) {
        return Some("invalid sh_type for string table section".into());
    }
    match elf.names().last() {
        Some(0) => {}
        Some(_) => return Some("SHT_STRTAB string table section is non-null terminated".into()),
        None => return Some("SHT_STRTAB string table section is empty".into()),
    }
    let headers = elf.headers.iter().enumerate();
    headers
        .skip(1)
        .find_map(|(index, header)| of_section(elf, index, header))
}

fn of_section(elf: &Elf64<'_>, index: usize, header: &Header) -> Option<String> {
    let size = size_of(elf.bytes());
    let is_outside = header
        .offset
        .checked_add(header.size)
        .is_none_or(|end| end > size);
    let fault = match header.kind {
        _ if u64::from(header.name) >= size_of(elf.names()) => "has an invalid sh_name".to_owned(),
        SHT_NULL | SHT_NOBITS => return None,
        _ if is_outside => "has a sh_offset + sh_size that is greater than the file size".into(),
        SHT_RELA if header.entry_size != 24 => {
            format!(
                "has invalid sh_entsize: expected 24, but got {}",
                header.entry_size
            )
        }
        SHT_REL if header.entry_size != 16 => {
            format!(
                "has invalid sh_entsize: expected 16, but got {}",
                header.entry_size
            )
        }
        SHT_SYMTAB if header.link == 0 => {
            "is a symbol table whose sh_link is not a valid index".into()
        }
        _ => return None,
    };
    Some(format!("section [index {index}] {fault}"))
}
