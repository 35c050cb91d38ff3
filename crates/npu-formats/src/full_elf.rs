//! A full ELF: PDIs, control code and relocations of one or more kernels, as ROCR's loader and
//! XRT read it.
//!
//! Two readings: [`outline`] finds the kernels and their columns and is all that packing needs;
//! [`FullElf::parse`] is ROCR's, and fails where and why ROCR fails.

use std::borrow::Cow;

use super::Arch;
use super::bytes::{array, part, size_of, u32_at};
use super::elf32::{Elf32, ElfFault, Identity, SHT_GROUP, SHT_PROGBITS};
use super::relocation::{self, Sites};

pub use super::relocation::{ArgumentSite, PdiSite, VariableSite};

/// The flag of a group's first word that every producer sets.
const GRP_COMDAT: u32 = 1;

/// What XRT calls the type of the note with the partition's columns.
const NOTE_TYPE: u32 = 6;

/// A kernel of a full ELF, ready to be dispatched once its addresses are filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel<'a> {
    /// `<kernel>:<instance>`.
    pub name: Vec<u8>,
    /// The control code.
    pub control: &'a [u8],
    /// Where the addresses of PDIs go, in the order of the relocations.
    pub pdis: Vec<PdiSite<'a>>,
    /// Where the addresses of arguments go, by argument.
    pub arguments: Vec<ArgumentSite>,
    /// Where the addresses of variables go that the application defines, in the order of the
    /// relocations.
    pub variables: Vec<VariableSite<'a>>,
}

impl Kernel<'_> {
    /// How many arguments a dispatch passes: the highest that is patched, and all below.
    #[must_use]
    pub fn argument_count(&self) -> u32 {
        (self.arguments.last()).map_or(0, |site| site.argument.saturating_add(1))
    }

    /// Bytes of the kernarg block: an address and a size for each argument.
    #[must_use]
    pub fn kernarg_size(&self) -> u32 {
        self.argument_count().saturating_mul(16)
    }

    /// The name as text.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.name)
    }
}

/// A full ELF that ROCR loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullElf<'a> {
    /// Its kernels, sorted by name.
    pub kernels: Vec<Kernel<'a>>,
    /// `EI_ABIVERSION`.
    pub abi_version: u8,
}

impl<'a> FullElf<'a> {
    /// Reads `bytes` as ROCR does for an AIE section of `arch`.
    ///
    /// # Errors
    /// ROCR's reason for refusing it.
    pub fn parse(bytes: &'a [u8], arch: Arch) -> Result<Self, ElfFault> {
        let identity = Identity::of(bytes)?;
        let expected = arch.full_elf_osabi().ok_or(ElfFault::NoFormat(arch))?;
        if identity.osabi != expected {
            return Err(ElfFault::OtherOsabi {
                arch,
                osabi: identity.osabi,
            });
        }
        let elf = Elf32::parse(bytes)?;
        let groups = Groups::read(&elf)?;
        if groups.list.iter().any(|group| !group.is_comdat) {
            return Err(ElfFault::NotComdat);
        }
        let mut sites = relocation::read(&elf, &groups, identity.abi_version)?;
        let mut kernels = Vec::new();
        for (group, sites) in groups.list.iter().zip(&mut sites) {
            if let Some(control) = group.control {
                let sites = std::mem::take(sites);
                kernels.push(kernel(&elf, &group.name, control, sites)?);
            }
        }
        if kernels.is_empty() {
            return Err(ElfFault::NoKernels);
        }
        kernels.sort_by(|one, other| one.name.cmp(&other.name));
        for (kernel, next) in kernels.iter().zip(kernels.iter().skip(1)) {
            if kernel.name == next.name {
                return Err(ElfFault::DuplicateKernel(kernel.name().into_owned()));
            }
        }
        Ok(Self {
            kernels,
            abi_version: identity.abi_version,
        })
    }

    /// The kernel with that name.
    #[must_use]
    pub fn kernel(&self, name: &[u8]) -> Option<&Kernel<'a>> {
        let index = self
            .kernels
            .binary_search_by(|kernel| kernel.name.as_slice().cmp(name));
        self.kernels.get(index.ok()?)
    }
}

/// Puts one kernel together and checks that what is patched lies in its control code.
fn kernel<'a>(
    elf: &Elf32<'a>,
    name: &[u8],
    control: u32,
    sites: Sites<'a>,
) -> Result<Kernel<'a>, ElfFault> {
    let control = (elf.section(control))
        .and_then(|section| elf.data(section))
        .ok_or(ElfFault::PastEnd)?;
    if control.is_empty() {
        return Err(ElfFault::EmptyControl);
    }
    let (pdis, arguments, variables) = sites.checked(elf, size_of(control))?;
    Ok(Kernel {
        name: name.to_owned(),
        control,
        pdis,
        arguments,
        variables,
    })
}

/// One instance of a kernel.
#[derive(Debug)]
pub struct Group {
    /// `<kernel>:<instance>`.
    pub name: Vec<u8>,
    /// Index of the section with the control code; `None` if there is nothing to dispatch.
    pub control: Option<u32>,
    /// Whether the flag is set without which ROCR refuses it.
    pub is_comdat: bool,
}

/// The groups of a full ELF, and which section belongs to which.
#[derive(Debug)]
pub struct Groups {
    /// In the order of the section table.
    pub list: Vec<Group>,
    /// For each section the index in `list` of the last group that has it as a member.
    owners: Vec<Option<usize>>,
}

impl Groups {
    /// Finds the groups and follows their symbols.
    ///
    /// # Errors
    /// ROCR's reasons, but for a group that is not COMDAT.
    pub fn read(elf: &Elf32<'_>) -> Result<Self, ElfFault> {
        let table = elf.last_named(b".symtab").ok_or(ElfFault::NoSymtab)?;
        let symbols = elf
            .symbols(table, ElfFault::NoSymtab, ElfFault::Symtab)?
            .ok_or(ElfFault::NoSymtab)?;
        let mut groups = Self {
            list: Vec::new(),
            owners: vec![None; elf.sections().count()],
        };
        // Groups that lie over each other could make the work a square of the file's size.
        let mut budget = size_of(elf.bytes());
        for (_, section) in elf.sections() {
            if section.kind != SHT_GROUP {
                continue;
            }
            let instance = symbols.get(section.info).ok_or(ElfFault::GroupSymbol)?;
            let instance_name = instance.name.ok_or(ElfFault::GroupSymbol)?;
            // Not a section index: this format keeps the kernel symbol's index there.
            let kernel = (symbols.get(instance.section.into())).ok_or(ElfFault::GroupSymbol)?;
            let kernel_name = kernel.name.ok_or(ElfFault::KernelSymbol)?;
            let name = [demangled(kernel_name), b":", instance_name].concat();
            let words = elf.data(section).ok_or(ElfFault::Group)?;
            budget = (budget.checked_sub(size_of(words)))
                .and_then(|budget| budget.checked_sub(size_of(&name)))
                .ok_or(ElfFault::Overlap)?;
            groups.add(elf, name, words)?;
        }
        if groups.list.is_empty() {
            return Err(ElfFault::NoGroups);
        }
        Ok(groups)
    }

    fn add(&mut self, elf: &Elf32<'_>, name: Vec<u8>, words: &[u8]) -> Result<(), ElfFault> {
        let (words, _) = words.as_chunks::<4>();
        let (flags, members) = words.split_first().ok_or(ElfFault::Group)?;
        let index = self.list.len();
        let mut control = None;
        for member in members {
            let member = u32::from_le_bytes(*member);
            let owner = usize::try_from(member)
                .ok()
                .and_then(|member| self.owners.get_mut(member))
                .ok_or(ElfFault::Member)?;
            *owner = Some(index);
            let section = elf.section(member).ok_or(ElfFault::Member)?;
            if (elf.name(section)).is_some_and(|name| name.starts_with(b".ctrltext")) {
                if section.kind != SHT_PROGBITS {
                    return Err(ElfFault::ControlType);
                }
                control = Some(member);
            }
        }
        self.list.push(Group {
            name,
            // Section 0 is none.
            control: control.filter(|section| *section != 0),
            is_comdat: u32::from_le_bytes(*flags) & GRP_COMDAT != 0,
        });
        Ok(())
    }

    /// The group whose control code is the section with that index.
    #[must_use]
    pub fn of_control(&self, section: u16) -> Option<usize> {
        let index = (*self.owners.get(usize::from(section))?)?;
        (self.list.get(index)?.control == Some(section.into())).then_some(index)
    }
}

/// `main` of `_Z4mainPcPcPc`; every other form is a name as it stands.
fn demangled(symbol: &[u8]) -> &[u8] {
    let Some(rest) = symbol.strip_prefix(b"_Z") else {
        return symbol;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (length, name) = rest.split_at(digits);
    let length = length.iter().try_fold(0_usize, |length, digit| {
        length
            .checked_mul(10)?
            .checked_add(usize::from(digit - b'0'))
    });
    match length {
        Some(length) if length > 0 => name.get(..length).unwrap_or(symbol),
        _ => symbol,
    }
}

/// What there is to pack in a full ELF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The names of the kernels with control code, sorted, with repetitions.
    pub kernels: Vec<Vec<u8>>,
    /// The columns of the partition that they were compiled for, if the ELF records them.
    pub columns: Option<u32>,
    /// Whether all groups are COMDAT, without which ROCR and the newest packer refuse it.
    pub is_comdat: bool,
}

/// Why a full ELF can't be packed at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutlineFault {
    /// It has no kernels that could be named.
    #[error(transparent)]
    Elf(#[from] ElfFault),
    /// The note with the columns is not what XRT writes.
    #[error("malformed .note.xrt.configuration: it must be one note of 'XRT', type 6, with a word")]
    Configuration,
}

/// Finds the kernels of a full ELF and their columns, whether ROCR would load it or not.
///
/// # Errors
/// When there is no kernel to name, or the note is malformed.
pub fn outline(bytes: &[u8]) -> Result<Outline, OutlineFault> {
    let elf = Elf32::parse(bytes)?;
    let groups = Groups::read(&elf)?.list;
    let is_comdat = groups.iter().all(|group| group.is_comdat);
    let mut kernels: Vec<_> = (groups.into_iter())
        .filter(|group| group.control.is_some())
        .map(|group| group.name)
        .collect();
    if kernels.is_empty() {
        return Err(ElfFault::NoKernels.into());
    }
    kernels.sort();
    let columns = match elf.first_named(b".note.xrt.configuration") {
        Some(section) => Some(
            (elf.data(section))
                .and_then(configuration)
                .ok_or(OutlineFault::Configuration)?,
        ),
        None => None,
    };
    Ok(Outline {
        kernels,
        columns,
        is_comdat,
    })
}

/// The word of the one note that there must be.
fn configuration(note: &[u8]) -> Option<u32> {
    let sizes: [u8; 8] = array(note, 0)?;
    let is_ours = sizes == [4, 0, 0, 0, 4, 0, 0, 0]
        && u32_at(note, 8)? == NOTE_TYPE
        && part(note, 12, 4)? == b"XRT\0"
        && note.len() == 20;
    is_ours.then(|| u32_at(note, 16))?
}
