//! Full ELFs, as far as XRT reads them: ELF32 for aie2p, one COMDAT group for each kernel instance,
//! relocations that name the arguments.

use std::ffi::{CStr, CString};

/// Why an ELF is refused, in about the words of the real one.
pub(crate) type Refusal = &'static CStr;

pub(crate) struct Elf {
    pub(crate) columns: u32,
    pub(crate) kernels: Vec<Kernel>,
}

pub(crate) struct Kernel {
    pub(crate) name: CString,
    pub(crate) instance: CString,
    /// By its mangled name.
    pub(crate) arguments: u32,
    /// Which arguments are patched into its control code: bit `n` for argument `n`.
    pub(crate) patched: u64,
    pub(crate) code: Vec<u8>,
}

const INVALID: Refusal = c"not valid ELF data";
const GROUP: u32 = 17;
const ADDRESS64: u32 = 8;
const SHIM_DMA_48: u32 = 5;

struct Section<'a> {
    name: &'a [u8],
    kind: u32,
    link: u32,
    info: u32,
    data: &'a [u8],
}

struct Symbol {
    name: u32,
    section: u16,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(two.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

fn part(bytes: &[u8], offset: u32, size: u32) -> Option<&[u8]> {
    let offset = offset as usize;
    bytes.get(offset..offset.checked_add(size as usize)?)
}

fn text(bytes: &[u8], at: u32) -> Option<&[u8]> {
    let rest = bytes.get(at as usize..)?;
    rest.split(|byte| *byte == 0).next()
}

fn sections(file: &[u8]) -> Option<Vec<Section<'_>>> {
    let table = u32_at(file, 0x20)? as usize;
    let count = usize::from(u16_at(file, 0x30)?);
    let names = usize::from(u16_at(file, 0x32)?);
    let header = |index: usize| file.get(table.checked_add(index * 40)?..)?.get(..40);
    let string_table = header(names)?;
    let strings = part(file, u32_at(string_table, 16)?, u32_at(string_table, 20)?)?;
    let section = |index| {
        let header = header(index)?;
        let kind = u32_at(header, 4)?;
        let data = match kind {
            // Nothing, and nothing in the file.
            0 | 8 => &[],
            _ => part(file, u32_at(header, 16)?, u32_at(header, 20)?)?,
        };
        Some(Section {
            name: text(strings, u32_at(header, 0)?)?,
            kind,
            link: u32_at(header, 24)?,
            info: u32_at(header, 28)?,
            data,
        })
    };
    (0..count).map(section).collect()
}

fn symbols(table: &[u8]) -> Vec<Symbol> {
    let symbol = |entry: &[u8]| {
        Some(Symbol {
            name: u32_at(entry, 0)?,
            section: u16_at(entry, 14)?,
        })
    };
    table.chunks_exact(16).filter_map(symbol).collect()
}

/// `_Z4mainPcPc`: the name, and how many arguments; all must be pointers.
fn demangle(mangled: &[u8]) -> Option<(&[u8], u32)> {
    let rest = mangled.strip_prefix(b"_Z")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let length: usize = std::str::from_utf8(rest.get(..digits)?)
        .ok()?
        .parse()
        .ok()?;
    let name = rest.get(digits..digits.checked_add(length)?)?;
    let types = rest.get(digits + length..)?;
    let pointers = types.chunks(2).all(|pair| matches!(pair, b"Pc" | b"Pv"));
    pointers.then_some((name, (types.len() / 2) as u32))
}

/// The arguments that the relocations of a control code name; `None` if a site lies outside of it.
fn patched(sections: &[Section<'_>], code_index: usize, legacy: bool) -> Option<u64> {
    let Some(table) = sections.iter().rfind(|s| s.name == b".rela.dyn") else {
        return Some(0);
    };
    let dynamic = sections.get(table.link as usize)?;
    let strings = sections.get(dynamic.link as usize)?;
    let symbols = symbols(dynamic.data);
    let code = sections.get(code_index)?.data.len();
    let mut patched = 0;
    for entry in table.data.chunks_exact(12) {
        let [offset, info, addend] = [0, 4, 8].map(|at| u32_at(entry, at).unwrap_or_default());
        let symbol = symbols.get((info >> 8) as usize)?;
        if usize::from(symbol.section) != code_index {
            continue;
        }
        let scheme = if legacy { addend & 0xf } else { info & 0xff };
        let width = match scheme {
            ADDRESS64 => 8,
            SHIM_DMA_48 => 12,
            _ => return None,
        };
        if offset as usize + width > code {
            return None;
        }
        let name = text(strings.data, symbol.name)?;
        let number = std::str::from_utf8(name).ok()?.parse::<u32>();
        if let (Ok(number), SHIM_DMA_48) = (number, scheme) {
            patched |= 1_u64.checked_shl(number)?;
        }
    }
    Some(patched)
}

fn kernel(sections: &[Section<'_>], group: &Section<'_>, legacy: bool) -> Option<Kernel> {
    let table = sections.get(group.link as usize)?;
    let strings = sections.get(table.link as usize)?.data;
    let symbols = symbols(table.data);
    let instance = symbols.get(group.info as usize)?;
    let owner = symbols.get(usize::from(instance.section))?;
    let (name, arguments) = demangle(text(strings, owner.name)?)?;
    let members = group
        .data
        .chunks_exact(4)
        .skip(1)
        .map(|w| u32_at(w, 0).unwrap_or_default());
    let is_code = |index: &usize| {
        sections
            .get(*index)
            .is_some_and(|s| s.name.starts_with(b".ctrltext"))
    };
    let code_index = members.map(|index| index as usize).rfind(is_code)?;
    Some(Kernel {
        name: CString::new(name).ok()?,
        instance: CString::new(text(strings, instance.name)?).ok()?,
        arguments,
        patched: patched(sections, code_index, legacy)?,
        code: sections.get(code_index)?.data.to_vec(),
    })
}

impl Elf {
    pub(crate) fn parse(file: &[u8]) -> Result<Self, Refusal> {
        if !file.starts_with(b"\x7fELF\x01\x01") {
            return Err(INVALID);
        }
        if file.get(7) != Some(&69) {
            return Err(c"ELF contains unsupported platform OS/ABI");
        }
        let legacy = file.get(8) == Some(&1);
        let sections = sections(file).ok_or(INVALID)?;
        let named = |name: &[u8]| sections.iter().find(|s| s.name == name);
        if named(b".symtab").is_none() {
            return Err(c"No .symtab section found");
        }
        let note = named(b".note.xrt.configuration");
        let columns = note.and_then(|note| u32_at(note.data, 16));
        let columns = columns.ok_or(c"ELF is missing xrt configuration info")?;
        if named(b".note.xrt.UID").is_none() {
            return Err(c"ELF is missing .note.xrt.UID section");
        }
        let groups = sections.iter().filter(|s| s.kind == GROUP);
        let kernels = groups.map(|group| kernel(&sections, group, legacy));
        let kernels = kernels.collect::<Option<Vec<_>>>().ok_or(INVALID)?;
        Ok(Self { columns, kernels })
    }
}
