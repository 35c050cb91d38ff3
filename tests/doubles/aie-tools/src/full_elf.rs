//! The full ELF that aiebu-asm makes of control code and PDIs, byte for byte as the real one lays
//! it out: ELF32, one COMDAT group for each kernel instance, relocations with the scheme as type.

use crate::bytes::Image;
use crate::md5;
use crate::stream::{Instruction, Malformed, Stream};

/// A kernel of the ELF: what full_elf_config.json says of it.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: String,
    pub arguments: usize,
    /// The PDIs that it may load, by number.
    pub pdis: Vec<(u64, Vec<u8>)>,
    /// Its instances: the sequence's name and its control code.
    pub instances: Vec<(String, Vec<u8>)>,
}

/// A relocation of a control code: at which byte, of which symbol (and that symbol's size).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Site {
    offset: u32,
    symbol: String,
    size: u32,
    scheme: u32,
    addend: u32,
}

pub const SCRATCHPAD: &str = "scratch-pad-ctrl";

const ADDRESS64: u32 = 8;
const SHIM_DMA_48: u32 = 5;

#[derive(Default)]
struct Section {
    name: String,
    kind: u32,
    flags: u32,
    address: u32,
    link: u32,
    info: u32,
    align: u32,
    entry: u32,
    data: Vec<u8>,
    offset: u32,
}

const PROGBITS: u32 = 1;
const LOADED: u32 = 6;

fn sites(code: &[u8]) -> Result<Vec<Site>, Malformed> {
    let (stream, offsets) = Stream::parse_with_offsets(code)?;
    let mut sites = Vec::new();
    let mut descriptors: Vec<(u32, u32, u32)> = Vec::new();
    for (instruction, offset) in stream.instructions.iter().zip(offsets) {
        let offset = offset as u32;
        match instruction {
            Instruction::LoadPdi { id } => sites.push(Site {
                offset: offset + 8,
                symbol: format!(".pdi.{id}"),
                size: 0,
                scheme: ADDRESS64,
                addend: 0,
            }),
            Instruction::CreateScratchpad { bytes } => sites.push(Site {
                offset: offset + 8,
                symbol: SCRATCHPAD.to_owned(),
                size: *bytes,
                scheme: ADDRESS64,
                addend: 0,
            }),
            Instruction::BlockWrite { address, words } => {
                let bytes = words.first().copied().unwrap_or(0).wrapping_mul(4);
                descriptors.push((*address, offset + 16, bytes));
            }
            Instruction::AddressPatch {
                address,
                argument,
                offset: addend,
            } => {
                // The descriptor whose second word is the register, as it was written last.
                let written = descriptors.iter().rev().find(|(at, ..)| at + 4 == *address);
                let (_, site, size) = written.copied().ok_or(Malformed {
                    offset: offset as usize,
                })?;
                sites.push(Site {
                    offset: site,
                    symbol: argument.to_string(),
                    size,
                    scheme: SHIM_DMA_48,
                    addend: *addend,
                });
            }
            _ => {}
        }
    }
    Ok(sites)
}

/// A string table under construction; strings are not shared.
struct Strings(Vec<u8>);

impl Strings {
    fn new() -> Self {
        Self(vec![0])
    }

    fn add(&mut self, text: &str) -> u32 {
        let at = self.0.len() as u32;
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        at
    }
}

fn symbol(image: &mut Image, name: u32, size: u32, info: u8, section: u16) {
    image.words(&[name, 0, size]);
    image.bytes(&[info, 0]);
    image.u16(section);
}

struct Tables {
    strtab: Strings,
    symtab: Image,
    dynstr: Strings,
    dynsym: Image,
    rela: Image,
}

impl Tables {
    fn new() -> Self {
        let (mut symtab, mut dynsym) = (Image::default(), Image::default());
        symbol(&mut symtab, 0, 0, 0, 0);
        symbol(&mut dynsym, 0, 0, 0, 0);
        Self {
            strtab: Strings::new(),
            symtab,
            dynstr: Strings::new(),
            dynsym,
            rela: Image::default(),
        }
    }

    /// Adds a kernel's symbol, and gives its index.
    fn kernel(&mut self, kernel: &Kernel) -> u16 {
        let arguments = "Pc".repeat(kernel.arguments);
        let mangled = format!("_Z{}{}{arguments}", kernel.name.len(), kernel.name);
        let name = self.strtab.add(&mangled);
        symbol(&mut self.symtab, name, 0, 0x22, 0);
        (self.symtab.len() / 16 - 1) as u16
    }

    /// Adds an instance's symbol, whose section index is its kernel's symbol.
    fn instance(&mut self, name: &str, kernel: u16) -> u32 {
        let name = self.strtab.add(name);
        symbol(&mut self.symtab, name, 0, 0x21, kernel);
        (self.symtab.len() / 16 - 1) as u32
    }

    fn relocations(&mut self, sites: &[Site], section: u16) {
        let mut known: Vec<(&str, u32)> = Vec::new();
        for site in sites {
            let found = known.iter().find(|(name, _)| *name == site.symbol);
            let index = match found {
                Some((_, index)) => *index,
                None => {
                    let name = self.dynstr.add(&site.symbol);
                    symbol(&mut self.dynsym, name, site.size, 0x11, section);
                    let index = (self.dynsym.len() / 16 - 1) as u32;
                    known.push((&site.symbol, index));
                    index
                }
            };
            self.rela
                .words(&[site.offset, index << 8 | site.scheme, site.addend]);
        }
    }
}

fn note(kind: u32, description: &[u8]) -> Vec<u8> {
    let mut image = Image::default();
    image.words(&[4, description.len() as u32, kind]);
    image.bytes(b"XRT\0");
    image.bytes(description);
    image.0
}

fn loaded(name: String, data: &[u8]) -> Section {
    Section {
        name,
        kind: PROGBITS,
        flags: LOADED,
        align: 16,
        data: data.to_vec(),
        ..Section::default()
    }
}

pub fn full_elf(kernels: &[Kernel]) -> Result<Vec<u8>, Malformed> {
    let mut tables = Tables::new();
    let mut columns = 0;
    // Names of the first three; their data is known at the end.
    let mut sections: Vec<Section> = ["", ".shstrtab", ".strtab", ".symtab"]
        .map(|name| Section {
            name: name.to_owned(),
            ..Section::default()
        })
        .into();
    let mut dynamic_at = None;
    let mut number = 0;
    for kernel in kernels {
        let kernel_symbol = tables.kernel(kernel);
        for (instance, code) in &kernel.instances {
            let sites = sites(code)?;
            columns = Stream::parse(code)?.columns;
            for (id, pdi) in &kernel.pdis {
                sections.push(loaded(format!(".pdi.{id}"), pdi));
            }
            let text = sections.len() as u32;
            sections.push(loaded(format!(".ctrltext.{number}"), code));
            tables.relocations(&sites, text as u16);
            if dynamic_at.is_none() {
                dynamic_at = Some(sections.len());
                for name in [".dynstr", ".dynsym", ".rela.dyn", ".dynamic"] {
                    sections.push(Section {
                        name: name.to_owned(),
                        ..Section::default()
                    });
                }
            }
            let mut group = Image::default();
            group.words(&[1, text]);
            sections.push(Section {
                name: format!(".group.{number}"),
                kind: 17,
                link: 3,
                info: tables.instance(instance, kernel_symbol),
                align: 16,
                entry: 4,
                data: group.0,
                ..Section::default()
            });
            number += 1;
        }
    }
    finish(sections, tables, dynamic_at.unwrap_or(4), columns).ok_or(Malformed { offset: 0 })
}

/// Fills in the tables, adds the notes, and lays everything out.
fn finish(
    mut sections: Vec<Section>,
    tables: Tables,
    dynamic: usize,
    columns: u8,
) -> Option<Vec<u8>> {
    let uid: Vec<u8> = sections
        .iter()
        .flat_map(|section| section.data_if_loaded())
        .copied()
        .collect();
    let notes = [
        (
            ".note.xrt.configuration",
            note(6, &u32::from(columns).to_le_bytes()),
        ),
        (".note.xrt.UID", note(4, &md5(&uid))),
    ];
    for (name, data) in notes {
        sections.push(Section {
            name: name.to_owned(),
            kind: 7,
            align: 1,
            data,
            ..Section::default()
        });
    }
    let at = dynamic as u32;
    let mut entries = Image::default();
    entries.words(&[7, at + 2, 8, tables.rela.len() as u32]);
    let fill = [
        (2, 3, 0, 0, 0, 0, tables.strtab.0),
        (3, 2, 2, 1, 4, 16, tables.symtab.0),
        (dynamic, 3, 0, 0, 0, 0, tables.dynstr.0),
        (dynamic + 1, 11, at, 1, 8, 16, tables.dynsym.0),
        (dynamic + 2, 4, at + 1, 0, 8, 12, tables.rela.0),
        (dynamic + 3, 6, at, 0, 8, 8, entries.0),
    ];
    for (index, kind, link, info, align, entry, data) in fill {
        let section = sections.get_mut(index)?;
        (section.kind, section.link, section.info) = (kind, link, info);
        (section.align, section.entry, section.data) = (align, entry, data);
    }
    let mut names = Strings::new();
    let mut name_offsets = vec![0];
    name_offsets.extend(
        sections
            .iter()
            .skip(1)
            .map(|section| names.add(&section.name)),
    );
    let shstrtab = sections.get_mut(1)?;
    (shstrtab.kind, shstrtab.align, shstrtab.data) = (3, 1, names.0);
    Some(layout(sections, &name_offsets))
}

impl Section {
    fn is_loaded(&self) -> bool {
        self.flags == LOADED
    }

    fn data_if_loaded(&self) -> &[u8] {
        if self.is_loaded() { &self.data } else { &[] }
    }
}

fn layout(mut sections: Vec<Section>, names: &[u32]) -> Vec<u8> {
    let segments = 1 + sections
        .iter()
        .filter(|section| section.is_loaded())
        .count();
    let mut image = Image::default();
    image.fill_to(52 + 32 * segments);
    let mut address = 0u32;
    for section in sections.iter_mut().filter(|section| section.is_loaded()) {
        section.offset = image.align(16) as u32;
        section.address = address.next_multiple_of(16);
        address = section.address + section.data.len() as u32;
        image.bytes(&section.data);
    }
    for section in sections
        .iter_mut()
        .skip(1)
        .filter(|section| !section.is_loaded())
    {
        section.offset = image.align(section.align as usize) as u32;
        image.bytes(&section.data);
    }
    let table = image.align(16);
    for (section, name) in sections.iter().zip(names) {
        image.words(&[*name, section.kind, section.flags, section.address]);
        image.words(&[section.offset, section.data.len() as u32, section.link]);
        image.words(&[section.info, section.align, section.entry]);
    }
    let mut head = Image::default();
    head.bytes(b"\x7fELF\x01\x01\x01\x45\x21");
    head.fill_to(16);
    head.u16(2);
    head.u16(1);
    head.words(&[1, 0, 52, table as u32, 0]);
    for value in [52, 32, segments, 40, sections.len(), 1] {
        head.u16(value as u16);
    }
    let size = 32 * segments as u32;
    head.words(&[6, 52, 0, 0, size, size, 4, 0]);
    for section in sections.iter().filter(|section| section.is_loaded()) {
        let length = section.data.len() as u32;
        head.words(&[1, section.offset, section.address, 0, length, length, 5, 16]);
    }
    image.set(0, &head.0);
    image.0
}
