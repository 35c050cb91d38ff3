//! The relocations of a full ELF: where the addresses of PDIs, arguments and variables go.

use std::collections::HashMap;

use super::bytes::{part, size_of, u32_at};
use super::elf32::{Elf32, ElfFault, Section, Symbol};
use super::full_elf::Groups;

/// Size of an `Elf32_Rela`.
const RELOCATION: u64 = 12;
/// The highest argument that ROCR takes.
const LAST_ARGUMENT: u32 = 4095;
/// The patch scheme that folds an address into a shim DMA's buffer descriptor of three words.
const SHIM_DMA_48: u32 = 5;
/// The patch scheme that stores an address as two words.
const ADDRESS_64: u32 = 8;

/// A place in the control code for the address of a PDI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PdiSite<'a> {
    /// Name of the PDI's section.
    pub name: &'a [u8],
    /// The PDI.
    pub image: &'a [u8],
    /// Byte offset in the control code.
    pub offset: u32,
}

/// A place in the control code for the address of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArgumentSite {
    /// Which argument.
    pub argument: u32,
    /// Byte offset in the control code.
    pub offset: u32,
    /// Added to the address.
    pub addend: u32,
}

/// A place in the control code for the address of a variable that the application defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableSite<'a> {
    /// Its symbol, e.g. `scratch-pad-ctrl`.
    pub name: &'a [u8],
    /// Bytes that it must have.
    pub size: u32,
    /// Byte offset in the control code.
    pub offset: u32,
    /// Added to the address.
    pub addend: u32,
}

/// The places of one group, not yet held against its control code.
#[derive(Debug, Default)]
pub struct Sites<'a> {
    pdis: Vec<(&'a [u8], Section, u32)>,
    arguments: Vec<ArgumentSite>,
    variables: Vec<VariableSite<'a>>,
}

type Checked<'a> = (Vec<PdiSite<'a>>, Vec<ArgumentSite>, Vec<VariableSite<'a>>);

impl<'a> Sites<'a> {
    /// The places, if all lie in a control code of `size` bytes.
    pub fn checked(mut self, elf: &Elf32<'a>, size: u64) -> Result<Checked<'a>, ElfFault> {
        let fits = |offset: u32, length: u64| {
            offset.is_multiple_of(4) && u64::from(offset) + length <= size
        };
        let mut pdis = Vec::with_capacity(self.pdis.len());
        for (name, section, offset) in self.pdis {
            if !fits(offset, 8) {
                return Err(ElfFault::PdiSite);
            }
            if offset == 0 {
                return Err(ElfFault::PdiSiteZero);
            }
            let image = elf.data(section).ok_or(ElfFault::PastEnd)?;
            pdis.push(PdiSite {
                name,
                image,
                offset,
            });
        }
        if self.arguments.iter().any(|site| !fits(site.offset, 12)) {
            return Err(ElfFault::ArgumentSite);
        }
        if let Some(site) = self.variables.iter().find(|site| !fits(site.offset, 8)) {
            return Err(ElfFault::VariableSite(text(site.name)));
        }
        self.arguments.sort_by_key(|site| site.argument);
        Ok((pdis, self.arguments, self.variables))
    }
}

/// Reads `.rela.dyn`: for each group what is to be patched. Without it, or without its symbols,
/// nothing is.
pub fn read<'a>(
    elf: &Elf32<'a>,
    groups: &Groups,
    abi_version: u8,
) -> Result<Vec<Sites<'a>>, ElfFault> {
    let mut sites: Vec<_> = groups.list.iter().map(|_| Sites::default()).collect();
    let tables = elf.last_named(b".rela.dyn").zip(elf.last_named(b".dynsym"));
    let Some((relocations, symbols)) = tables else {
        return Ok(sites);
    };
    let Some(symbols) = elf.symbols(symbols, ElfFault::Rela, ElfFault::Rela)? else {
        return Ok(sites);
    };
    if u64::from(relocations.entry_size) != RELOCATION {
        return Err(ElfFault::Rela);
    }
    let size = u64::from(relocations.size) / RELOCATION * RELOCATION;
    let entries = part(elf.bytes(), relocations.offset.into(), size).ok_or(ElfFault::Rela)?;
    let mut pdis = Pdis::find(elf);
    let mut sizes = HashMap::new();
    for entry in entries.as_chunks::<12>().0 {
        let (Some(offset), Some(info), Some(addend)) =
            (u32_at(entry, 0), u32_at(entry, 4), u32_at(entry, 8))
        else {
            return Err(ElfFault::Rela);
        };
        let symbol = symbols.get(info >> 8).ok_or(ElfFault::RelocationSymbol)?;
        let name = symbol.name.ok_or(ElfFault::RelocationName)?;
        let Some(index) = groups.of_control(symbol.section) else {
            continue;
        };
        let Some(group) = sites.get_mut(index) else {
            continue;
        };
        let patch = match abi_version {
            1 => Patch {
                offset,
                scheme: addend & 0xf,
                addend: addend >> 4,
            },
            _ => Patch {
                offset,
                scheme: info & 0xff,
                addend,
            },
        };
        if name.starts_with(b".pdi") {
            if patch.scheme != ADDRESS_64 {
                return Err(ElfFault::PdiScheme);
            }
            group.pdis.push((name, pdis.get(elf, name)?, offset));
        } else if let Some(argument) = argument(name) {
            group.arguments.push(patch.argument(argument)?);
        } else {
            let variable = patch.variable(name, symbol)?;
            if *sizes.entry((index, name)).or_insert(variable.size) != variable.size {
                return Err(ElfFault::VariableSizes(text(name)));
            }
            group.variables.push(variable);
        }
    }
    Ok(sites)
}

/// What one relocation does.
struct Patch {
    offset: u32,
    scheme: u32,
    addend: u32,
}

impl Patch {
    fn argument(self, argument: u32) -> Result<ArgumentSite, ElfFault> {
        if self.scheme != SHIM_DMA_48 {
            return Err(ElfFault::ArgumentScheme);
        }
        if argument > LAST_ARGUMENT {
            return Err(ElfFault::ArgumentIndex);
        }
        Ok(ArgumentSite {
            argument,
            offset: self.offset,
            addend: self.addend,
        })
    }

    fn variable<'a>(
        self,
        name: &'a [u8],
        symbol: Symbol<'_>,
    ) -> Result<VariableSite<'a>, ElfFault> {
        if self.scheme != ADDRESS_64 {
            return Err(ElfFault::VariableScheme(text(name)));
        }
        if !symbol.size.is_multiple_of(4) {
            return Err(ElfFault::VariableSize(text(name)));
        }
        Ok(VariableSite {
            name,
            size: symbol.size,
            offset: self.offset,
            addend: self.addend,
        })
    }
}

/// The argument that a symbol of digits alone names; none if the number has no 32 bits.
fn argument(name: &[u8]) -> Option<u32> {
    if name.is_empty() {
        return None;
    }
    name.iter().try_fold(0_u32, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// The PDI sections by name.
struct Pdis<'a> {
    by_name: HashMap<&'a [u8], Vec<Section>>,
    /// Bytes that may still be compared; more than the file has only sections that overlap ask for.
    budget: u64,
}

impl<'a> Pdis<'a> {
    fn find(elf: &Elf32<'a>) -> Self {
        let mut by_name: HashMap<_, Vec<_>> = HashMap::new();
        // Section 0 is none.
        for (_, section) in elf.sections().skip(1) {
            if let Some(name) = elf.name(section)
                && name.starts_with(b".pdi")
            {
                by_name.entry(name).or_default().push(section);
            }
        }
        Self {
            by_name,
            budget: size_of(elf.bytes()),
        }
    }

    /// The first section named `name`; every other of that name must hold the same.
    fn get(&mut self, elf: &Elf32<'a>, name: &'a [u8]) -> Result<Section, ElfFault> {
        let Some(sections) = self.by_name.get_mut(name) else {
            return Err(ElfFault::PdiMissing);
        };
        let Some((first, others)) = sections.split_first() else {
            return Err(ElfFault::PdiMissing);
        };
        for other in others {
            let ambiguous = || ElfFault::AmbiguousPdi(text(name));
            let (Some(one), Some(two)) = (elf.data(*first), elf.data(*other)) else {
                return Err(ambiguous());
            };
            if one.as_ptr() == two.as_ptr() && one.len() == two.len() {
                continue;
            }
            if one.len() == two.len() {
                self.budget = (self.budget.checked_sub(size_of(two))).ok_or(ElfFault::Overlap)?;
            }
            if one != two {
                return Err(ambiguous());
            }
        }
        let first = *first;
        // They need not be compared again.
        sections.truncate(1);
        Ok(first)
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
