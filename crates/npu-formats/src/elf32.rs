//! The structure of an ELF32 as ROCR reads it: section table, names, symbols.
//!
//! Written by hand, because which malformed file is refused, and with what words, is part of what
//! this module must reproduce; a general reader would decide that for us.

use super::Arch;
use super::bytes::{array, c_string, part, size_of, u16_at, u32_at};

/// Size of an ELF32 file header.
const FILE_HEADER: u64 = 52;
/// Size of a section header.
const SECTION_HEADER: u64 = 40;
/// Size of a symbol.
const SYMBOL: u64 = 16;

/// `SHT_PROGBITS`.
pub const SHT_PROGBITS: u32 = 1;
/// `SHT_GROUP`.
pub const SHT_GROUP: u32 = 17;

/// Why ROCR refuses a full ELF. The text is what its loader says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfFault {
    /// No ELF, or one of another class or byte order.
    #[error("not a little-endian ELF32")]
    NotElf32,
    /// There are no full ELFs for the architecture.
    #[error("no full-ELF format for arch {0}")]
    NoFormat(Arch),
    /// `EI_OSABI` is not the architecture's.
    #[error("not an {arch} AIE ELF (EI_OSABI is {osabi})")]
    OtherOsabi {
        /// The architecture of the section that it is in.
        arch: Arch,
        /// What the ELF says.
        osabi: u8,
    },
    /// The section header table is not all there, or not one of ELF32.
    #[error("malformed section headers")]
    SectionHeaders,
    /// No `.symtab`, or none with a string table and symbols of the right size.
    #[error("missing or malformed .symtab")]
    NoSymtab,
    /// `.symtab` is not all there.
    #[error("malformed .symtab")]
    Symtab,
    /// A group's `sh_info` leads to no instance and kernel symbol.
    #[error("bad group signature symbol")]
    GroupSymbol,
    /// The kernel symbol has no name.
    #[error("bad kernel symbol")]
    KernelSymbol,
    /// A group has no flags, or is not all there.
    #[error("malformed group section")]
    Group,
    /// A group without the flag `GRP_COMDAT`.
    #[error("group is not a COMDAT group")]
    NotComdat,
    /// A group lists a section that does not exist.
    #[error("group member out of range")]
    Member,
    /// `.ctrltext` is no `SHT_PROGBITS`.
    #[error("control code section holds no data")]
    ControlType,
    /// No `SHT_GROUP` section.
    #[error("no COMDAT groups: not a group ELF")]
    NoGroups,
    /// `.rela.dyn` or `.dynsym` is not all there, or has entries of another size.
    #[error("malformed .rela.dyn")]
    Rela,
    /// A relocation names a symbol that does not exist.
    #[error("relocation symbol out of range")]
    RelocationSymbol,
    /// The name of a relocation's symbol is not in its string table.
    #[error("bad relocation symbol name")]
    RelocationName,
    /// A PDI's address is to be written in another way than as 64 bits.
    #[error("unexpected patch scheme for PDI symbol")]
    PdiScheme,
    /// Sections of the same name differ, so which PDI is meant can't be told.
    #[error("ambiguous PDI: sections named {0} differ")]
    AmbiguousPdi(String),
    /// There is no section with the name of the PDI.
    #[error("PDI section not found")]
    PdiMissing,
    /// An argument's address is to be written in another way than into a shim DMA's descriptor.
    #[error("unsupported patch scheme for a kernel argument")]
    ArgumentScheme,
    /// An argument above 4095.
    #[error("kernel argument index out of range")]
    ArgumentIndex,
    /// A variable's address is to be written in another way than as 64 bits.
    #[error("unsupported patch scheme for the external variable {0}")]
    VariableScheme(String),
    /// A variable's `st_size` is no multiple of 4.
    #[error("the size of the external variable {0} is no multiple of 4")]
    VariableSize(String),
    /// A variable is declared with two sizes.
    #[error("the external variable {0} is declared with two sizes")]
    VariableSizes(String),
    /// A variable's address would be written outside of the control code.
    #[error("patch site of the external variable {0} does not fit the control code")]
    VariableSite(String),
    /// A section is not all in the file.
    #[error("section extends past end of file")]
    PastEnd,
    /// `.ctrltext` is empty.
    #[error("empty control code")]
    EmptyControl,
    /// The PDI's address would be written outside of the control code, or misaligned.
    #[error("PDI patch site does not fit the control code")]
    PdiSite,
    /// The PDI's address would be written over the header.
    #[error("PDI patch site at offset 0 is indistinguishable from no patch")]
    PdiSiteZero,
    /// An argument's address would be written outside of the control code, or misaligned.
    #[error("argument patch site does not fit the control code")]
    ArgumentSite,
    /// No group has control code.
    #[error("no dispatchable kernels")]
    NoKernels,
    /// Two groups with control code have one name.
    #[error("two kernels are named {0}")]
    DuplicateKernel(String),
    /// Sections lie over each other, so that reading them all takes more than the file's size.
    #[error("sections overlap")]
    Overlap,
}

/// A section header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Offset of the name in the section name table.
    pub name: u32,
    /// `sh_type`.
    pub kind: u32,
    /// Where its bytes are in the file.
    pub offset: u32,
    /// How many there are.
    pub size: u32,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// `sh_entsize`.
    pub entry_size: u32,
}

/// A symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name; `None` if that is not in the string table.
    pub name: Option<&'a [u8]>,
    /// `st_size`.
    pub size: u32,
    /// `st_shndx`.
    pub section: u16,
}

/// `e_ident`, of which ROCR takes more than the magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `EI_OSABI`: which devices the ELF is for.
    pub osabi: u8,
    /// `EI_ABIVERSION`: how relocations are encoded.
    pub abi_version: u8,
}

impl Identity {
    /// What a little-endian ELF32 says of itself.
    ///
    /// # Errors
    /// [`ElfFault::NotElf32`].
    pub fn of(bytes: &[u8]) -> Result<Self, ElfFault> {
        match array::<9>(bytes, 0) {
            Some([0x7f, b'E', b'L', b'F', 1, 1, _, osabi, abi_version])
                if size_of(bytes) >= FILE_HEADER =>
            {
                Ok(Self { osabi, abi_version })
            }
            _ => Err(ElfFault::NotElf32),
        }
    }
}

/// An ELF32 whose section header table is all there.
#[derive(Clone, Copy, Debug)]
pub struct Elf32<'a> {
    bytes: &'a [u8],
    headers: &'a [u8],
    /// Section names, if that table is all there.
    names: Option<&'a [u8]>,
}

impl<'a> Elf32<'a> {
    /// Reads the file header and finds the section header table.
    ///
    /// # Errors
    /// [`ElfFault::NotElf32`] and [`ElfFault::SectionHeaders`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ElfFault> {
        Identity::of(bytes)?;
        Self::table(bytes).ok_or(ElfFault::SectionHeaders)
    }

    fn table(bytes: &'a [u8]) -> Option<Self> {
        let offset = u32_at(bytes, 0x20)?;
        let entry_size = u16_at(bytes, 0x2e)?;
        let count = u16_at(bytes, 0x30)?;
        let names = u16_at(bytes, 0x32)?;
        if u64::from(entry_size) != SECTION_HEADER || names >= count {
            return None;
        }
        let headers = part(bytes, offset.into(), SECTION_HEADER * u64::from(count))?;
        let mut elf = Self {
            bytes,
            headers,
            names: None,
        };
        elf.names = elf.data(elf.section(names.into())?);
        Some(elf)
    }

    /// The whole file.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The section with that index.
    #[must_use]
    pub fn section(&self, index: u32) -> Option<Section> {
        let header = part(
            self.headers,
            u64::from(index) * SECTION_HEADER,
            SECTION_HEADER,
        )?;
        Some(Section {
            name: u32_at(header, 0)?,
            kind: u32_at(header, 4)?,
            offset: u32_at(header, 16)?,
            size: u32_at(header, 20)?,
            link: u32_at(header, 24)?,
            info: u32_at(header, 28)?,
            entry_size: u32_at(header, 36)?,
        })
    }

    /// All sections, in the order of the table.
    pub fn sections(&self) -> impl Iterator<Item = (u32, Section)> + use<'a> {
        let elf = *self;
        (0..).map_while(move |index| Some((index, elf.section(index)?)))
    }

    /// A section's name, if it lies in the section name table.
    #[must_use]
    pub fn name(&self, section: Section) -> Option<&'a [u8]> {
        c_string(self.names?, section.name.into())
    }

    /// A section's bytes, if they are all in the file.
    #[must_use]
    pub fn data(&self, section: Section) -> Option<&'a [u8]> {
        part(self.bytes, section.offset.into(), section.size.into())
    }

    /// The first section of that name.
    #[must_use]
    pub fn first_named(&self, name: &[u8]) -> Option<Section> {
        let mut sections = self.sections().map(|(_, section)| section);
        sections.find(|section| self.name(*section) == Some(name))
    }

    /// The last section of that name, which is the one ROCR takes of a table.
    #[must_use]
    pub fn last_named(&self, name: &[u8]) -> Option<Section> {
        let sections = self.sections().map(|(_, section)| section);
        sections
            .filter(|section| self.name(*section) == Some(name))
            .last()
    }

    /// The symbols of `table`, with the string table that its `sh_link` names; `None` if it names
    /// none.
    ///
    /// # Errors
    /// `wrong_size` if its entries are no ELF32 symbols, `past_end` if they are not all there.
    pub fn symbols(
        &self,
        table: Section,
        wrong_size: ElfFault,
        past_end: ElfFault,
    ) -> Result<Option<Symbols<'a>>, ElfFault> {
        let strings = match table.link {
            0 => None,
            index => self.section(index),
        };
        let Some(strings) = strings else {
            return Ok(None);
        };
        if u64::from(table.entry_size) != SYMBOL {
            return Err(wrong_size);
        }
        let size = u64::from(table.size) / SYMBOL * SYMBOL;
        let entries = part(self.bytes, table.offset.into(), size).ok_or(past_end)?;
        Ok(Some(Symbols {
            entries,
            strings: self.data(strings),
        }))
    }
}

/// A symbol table and its strings.
#[derive(Clone, Copy, Debug)]
pub struct Symbols<'a> {
    entries: &'a [u8],
    strings: Option<&'a [u8]>,
}

impl<'a> Symbols<'a> {
    /// The symbol with that index.
    #[must_use]
    pub fn get(&self, index: u32) -> Option<Symbol<'a>> {
        let entry = part(self.entries, u64::from(index) * SYMBOL, SYMBOL)?;
        let name = u32_at(entry, 0)?;
        Some(Symbol {
            name: (self.strings).and_then(|strings| c_string(strings, name.into())),
            size: u32_at(entry, 8)?,
            section: u16_at(entry, 14)?,
        })
    }
}
