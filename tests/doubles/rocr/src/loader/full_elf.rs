//! A full ELF: control codes, PDIs, and the places in the control codes where addresses go.

use std::collections::BTreeMap;

use super::bytes::Bytes;
use super::{Refusal, invalid};

const PROGBITS: u32 = 1;
const GROUP: u32 = 17;
const COMDAT: u32 = 1;
const SHIM_DMA_48: u32 = 5;
const ADDRESS_64: u32 = 8;
const LAST_ARGUMENT: u32 = 4095;

/// Whose address goes to a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A PDI's: the name of its section.
    Pdi(String),
    /// An argument's.
    Argument(u32),
    /// An external variable's.
    Variable {
        /// Its name.
        name: String,
        /// Its size.
        size: u32,
    },
}

/// A place in a control code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The first byte.
    pub offset: usize,
    /// What is added to the address.
    pub addend: u32,
    /// Whose address.
    pub target: Target,
}

/// A kernel of an ELF.
#[derive(Clone, Debug)]
pub struct Code<'a> {
    /// Its control code.
    pub control: &'a [u8],
    /// Where addresses go.
    pub sites: Vec<Site>,
}

impl Code<'_> {
    /// How many arguments it takes.
    pub fn arguments(&self) -> u32 {
        let index = |site: &Site| match site.target {
            Target::Argument(index) => Some(index + 1),
            _ => None,
        };
        self.sites.iter().filter_map(index).max().unwrap_or(0)
    }
}

/// A full ELF.
#[derive(Debug)]
pub struct FullElf<'a> {
    /// Its kernels by name.
    pub kernels: BTreeMap<String, Code<'a>>,
    /// Its PDIs by section name.
    pub pdis: BTreeMap<String, &'a [u8]>,
}

/// A section's header.
#[derive(Clone, Debug, Default)]
struct Header {
    name: String,
    kind: u32,
    offset: u32,
    size: u32,
    link: u32,
    info: u32,
    entry: u32,
}

/// An ELF's bytes and section headers.
struct File<'a> {
    bytes: Bytes<'a>,
    sections: Vec<Header>,
}

/// A table of symbols with its strings.
struct Symbols<'a> {
    bytes: Bytes<'a>,
    names: Bytes<'a>,
}

struct Symbol {
    name: String,
    size: u32,
    section: u16,
}

struct Group {
    kernel: String,
    control: Option<u32>,
}

impl<'a> File<'a> {
    fn parse(elf: &'a [u8]) -> Result<Self, Refusal> {
        let bytes = Bytes(elf);
        if bytes.part(0, 6) != Some(b"\x7fELF\x01\x01") {
            return Err(invalid("not a little-endian ELF32"));
        }
        if elf.get(7) != Some(&69) {
            return Err(invalid("not an aie2p AIE ELF"));
        }
        let malformed = || invalid("malformed section headers");
        let (entry, count) = (bytes.u16(0x2e), bytes.u16(0x30));
        let (table, names) = (bytes.u32(0x20), bytes.u16(0x32));
        let (Some(40), Some(count), Some(table), Some(names)) = (entry, count, table, names) else {
            return Err(malformed());
        };
        if count == 0 || names >= count {
            return Err(malformed());
        }
        let field = |index: u16, field: u64| {
            let at = u64::from(table) + 40 * u64::from(index) + field;
            bytes.u32(at).ok_or_else(malformed)
        };
        let strings = bytes
            .part(u64::from(field(names, 16)?), u64::from(field(names, 20)?))
            .map(Bytes);
        let mut sections = Vec::new();
        for index in 0..count {
            let name = u64::from(field(index, 0)?);
            sections.push(Header {
                name: strings.and_then(|s| s.text(name)).unwrap_or_default(),
                kind: field(index, 4)?,
                offset: field(index, 16)?,
                size: field(index, 20)?,
                link: field(index, 24)?,
                info: field(index, 28)?,
                entry: field(index, 36)?,
            });
        }
        Ok(Self { bytes, sections })
    }

    fn section(&self, index: u32) -> Option<&Header> {
        self.sections.get(index as usize)
    }

    fn named(&self, name: &str) -> Option<&Header> {
        self.sections.iter().rev().find(|s| s.name == name)
    }

    fn data(&self, section: &Header) -> Option<&'a [u8]> {
        self.bytes
            .part(u64::from(section.offset), u64::from(section.size))
    }

    fn symbols(&self, table: &Header) -> Option<Symbols<'a>> {
        if table.entry != 16 || table.link == 0 {
            return None;
        }
        Some(Symbols {
            bytes: Bytes(self.data(table)?),
            names: Bytes(self.data(self.section(table.link)?)?),
        })
    }

    /// The groups, and which section belongs to which.
    fn groups(&self) -> Result<(Vec<Group>, BTreeMap<u32, usize>), Refusal> {
        let symbols = self.named(".symtab").and_then(|table| self.symbols(table));
        let symbols = symbols.ok_or_else(|| invalid("missing or malformed .symtab"))?;
        let (mut groups, mut members) = (Vec::new(), BTreeMap::new());
        for section in self.sections.iter().filter(|s| s.kind == GROUP) {
            let instance = symbols.get(section.info);
            let kernel = instance
                .as_ref()
                .and_then(|i| symbols.get(u32::from(i.section)));
            let (Some(instance), Some(kernel)) = (instance, kernel) else {
                return Err(invalid("bad group signature symbol"));
            };
            let data = self.data(section).filter(|data| data.len() >= 4);
            let data = Bytes(data.ok_or_else(|| invalid("malformed group section"))?);
            if data.u32(0).unwrap_or(0) & COMDAT == 0 {
                return Err(invalid("group is not a COMDAT group"));
            }
            let mut control = None;
            for word in 1..data.0.len() as u64 / 4 {
                let member = data.u32(4 * word).unwrap_or(u32::MAX);
                let header = self.section(member);
                let header = header.ok_or_else(|| invalid("group member out of range"))?;
                members.insert(member, groups.len());
                if header.name.starts_with(".ctrltext") {
                    if header.kind != PROGBITS {
                        return Err(invalid("control code section holds no data"));
                    }
                    control = Some(member);
                }
            }
            groups.push(Group {
                kernel: format!("{}:{}", plain_name(&kernel.name), instance.name),
                control,
            });
        }
        if groups.is_empty() {
            return Err(invalid("no groups: not a full ELF"));
        }
        Ok((groups, members))
    }

    /// The sites of each group.
    fn sites(
        &self,
        groups: &[Group],
        members: &BTreeMap<u32, usize>,
    ) -> Result<BTreeMap<usize, Vec<Site>>, Refusal> {
        let mut sites: BTreeMap<usize, Vec<Site>> = BTreeMap::new();
        let (Some(table), Some(dynsym)) = (self.named(".rela.dyn"), self.named(".dynsym")) else {
            return Ok(sites);
        };
        let malformed = || invalid("malformed .rela.dyn");
        let symbols = self.symbols(dynsym).ok_or_else(malformed)?;
        let data = self.data(table).filter(|_| table.entry == 12);
        let data = Bytes(data.ok_or_else(malformed)?);
        let in_addend = self.bytes.0.get(8) == Some(&1);
        for at in (0..data.0.len() as u64 / 12).map(|index| 12 * index) {
            let [offset, info, addend] = [0, 4, 8].map(|f| data.u32(at + f).unwrap_or(0));
            let symbol = symbols.get(info >> 8);
            let symbol = symbol.ok_or_else(|| invalid("bad relocation symbol"))?;
            let section = u32::from(symbol.section);
            let Some(group) = members.get(&section) else {
                continue;
            };
            if groups.get(*group).and_then(|g| g.control) != Some(section) {
                continue;
            }
            let (scheme, addend) = match in_addend {
                true => (addend & 0xf, addend >> 4),
                false => (info & 0xff, addend),
            };
            sites.entry(*group).or_default().push(Site {
                offset: offset as usize,
                addend,
                target: target(symbol, scheme)?,
            });
        }
        Ok(sites)
    }

    /// The PDI of that name: the first, and all of that name are the same.
    fn pdi(&self, name: &str) -> Result<&'a [u8], Refusal> {
        let mut found = self.sections.iter().filter(|s| s.name == name);
        let first = found
            .next()
            .ok_or_else(|| invalid("PDI section not found"))?;
        let outside = || invalid("section extends past end of file");
        let data = self.data(first).ok_or_else(outside)?;
        for other in found {
            if self.data(other).ok_or_else(outside)? != data {
                return Err(invalid(format!("ambiguous PDI {name}")));
            }
        }
        Ok(data)
    }
}

impl Symbols<'_> {
    fn get(&self, index: u32) -> Option<Symbol> {
        let at = 16 * u64::from(index);
        Some(Symbol {
            section: self.bytes.u16(at + 14)?,
            size: self.bytes.u32(at + 8)?,
            name: self.names.text(u64::from(self.bytes.u32(at)?))?,
        })
    }
}

/// `main` of `_Z4mainPcPc`; other names are what they are.
fn plain_name(symbol: &str) -> &str {
    let Some(rest) = symbol.strip_prefix("_Z") else {
        return symbol;
    };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, name) = rest.split_at(digits);
    let length = number.parse().unwrap_or(0);
    name.get(..length)
        .filter(|name| !name.is_empty())
        .unwrap_or(symbol)
}

/// Whose address a relocation wants.
fn target(symbol: Symbol, scheme: u32) -> Result<Target, Refusal> {
    let name = symbol.name;
    let is_number = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    let (target, needed) = if name.starts_with(".pdi") {
        (Target::Pdi(name.clone()), ADDRESS_64)
    } else if is_number {
        let index = name.parse().ok().filter(|index| *index <= LAST_ARGUMENT);
        let index = index.ok_or_else(|| invalid("kernel argument index out of range"))?;
        (Target::Argument(index), SHIM_DMA_48)
    } else {
        if !symbol.size.is_multiple_of(4) {
            return Err(invalid(format!("{name}: {} bytes", symbol.size)));
        }
        let name = name.clone();
        let size = symbol.size;
        (Target::Variable { name, size }, ADDRESS_64)
    };
    if scheme != needed {
        return Err(invalid(match target {
            Target::Pdi(_) => format!("unexpected patch scheme for PDI symbol: {scheme}"),
            _ => format!("unsupported patch scheme for {name}: {scheme}"),
        }));
    }
    Ok(target)
}

impl Site {
    /// Whether the site is within a control code of that size.
    fn fits(&self, size: usize) -> bool {
        let (width, first) = match self.target {
            Target::Pdi(_) => (8, 4),
            Target::Argument(_) => (12, 0),
            Target::Variable { .. } => (8, 0),
        };
        self.offset.is_multiple_of(4) && self.offset >= first && self.offset + width <= size
    }
}

impl<'a> FullElf<'a> {
    /// Reads an ELF.
    ///
    /// # Errors
    /// The first thing that ROCR would refuse it for.
    pub fn parse(elf: &'a [u8]) -> Result<Self, Refusal> {
        let file = File::parse(elf)?;
        let (groups, members) = file.groups()?;
        let mut sites = file.sites(&groups, &members)?;
        let (mut kernels, mut pdis) = (BTreeMap::new(), BTreeMap::new());
        for (index, group) in groups.iter().enumerate() {
            let Some(section) = group.control.and_then(|control| file.section(control)) else {
                continue;
            };
            let name = &group.kernel;
            let control = file.data(section);
            let control = control.ok_or_else(|| invalid("section extends past end of file"))?;
            if control.is_empty() {
                return Err(invalid(format!("{name}: empty control code")));
            }
            let sites = sites.remove(&index).unwrap_or_default();
            if let Some(site) = sites.iter().find(|site| !site.fits(control.len())) {
                return Err(invalid(format!(
                    "{name}: patch site {} does not fit the control code",
                    site.offset
                )));
            }
            for site in &sites {
                if let Target::Pdi(name) = &site.target {
                    pdis.insert(name.clone(), file.pdi(name)?);
                }
            }
            let code = Code { control, sites };
            if kernels.insert(name.clone(), code).is_some() {
                return Err(invalid(format!("{name}: twice in one full ELF")));
            }
        }
        if kernels.is_empty() {
            return Err(invalid("no dispatchable kernels"));
        }
        Ok(Self { kernels, pdis })
    }
}
