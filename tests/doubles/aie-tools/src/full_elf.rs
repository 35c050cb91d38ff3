//! The full ELF that aiebu-asm makes of control code and PDIs, byte for byte as the real one lays
//! it out: ELF32, one COMDAT group for each kernel instance, relocations with the scheme as type.

use crate::bytes::Image;
use crate::md5;
use crate::stream::{Instruction, Malformed, Stream};

/// A kernel of the ELF: what full_elf_config.json says of it.
pub struct Kernel {
    pub name: String,
    pub arguments: usize,
    /// The PDIs that it may load, by number.
    pub pdis: Vec<(u64, Vec<u8>)>,
    /// Its instances: the sequence's name and its control code.
    pub instances: Vec<(String, Vec<u8>)>,
}

/// A relocation of a control code: the symbol and its size; the byte, the scheme and the addend.
type Site = (String, u32, [u32; 3]);

const ADDRESS64: u32 = 8;
const SHIM_DMA_48: u32 = 5;
const LOADED: u32 = 6;

#[derive(Default)]
struct Section {
    name: String,
    kind: u32,
    flags: u32,
    link: u32,
    info: u32,
    align: u32,
    entry: u32,
    data: Vec<u8>,
}

fn sites(code: &[u8]) -> Result<Vec<Site>, Malformed> {
    let (stream, offsets) = Stream::parse_with_offsets(code)?;
    let mut sites = Vec::new();
    let mut descriptors: Vec<(u32, u32, u32)> = Vec::new();
    for (instruction, offset) in stream.instructions.iter().zip(offsets) {
        let at = offset as u32;
        match *instruction {
            Instruction::LoadPdi { id } => {
                sites.push((format!(".pdi.{id}"), 0, [at + 8, ADDRESS64, 0]));
            }
            Instruction::CreateScratchpad { bytes } => {
                let name = "scratch-pad-ctrl".to_owned();
                sites.push((name, bytes, [at + 8, ADDRESS64, 0]));
            }
            Instruction::BlockWrite { address, ref words } => {
                let words = words.first().copied().unwrap_or(0);
                descriptors.push((address, at + 16, words.wrapping_mul(4)));
            }
            Instruction::AddressPatch {
                address,
                argument,
                offset: addend,
            } => {
                // The descriptor whose second word is the register, as it was written last.
                let mut written = descriptors.iter().rev();
                let (_, site, size) = *written
                    .find(|(at, ..)| at + 4 == address)
                    .ok_or(Malformed { offset })?;
                sites.push((argument.to_string(), size, [site, SHIM_DMA_48, addend]));
            }
            _ => {}
        }
    }
    Ok(sites)
}

/// Symbols, their names and relocations.
struct Tables {
    strtab: Vec<u8>,
    symtab: Image,
    dynstr: Vec<u8>,
    dynsym: Image,
    rela: Image,
}

/// Adds a symbol, and gives its index. The names are not shared.
fn symbol(
    table: &mut Image,
    names: &mut Vec<u8>,
    name: &str,
    size: u32,
    [info, section]: [u16; 2],
) -> u32 {
    table.words(&[
        names.len() as u32,
        0,
        size,
        u32::from(info) | u32::from(section) << 16,
    ]);
    names.extend_from_slice(name.as_bytes());
    names.push(0);
    (table.len() / 16 - 1) as u32
}

impl Tables {
    fn relocations(&mut self, sites: &[Site], section: u16) {
        let mut known: Vec<(&str, u32)> = Vec::new();
        for (name, size, [at, scheme, addend]) in sites {
            let found = known.iter().find(|(known, _)| known == name);
            let index = found.map(|(_, index)| *index).unwrap_or_else(|| {
                let (table, names) = (&mut self.dynsym, &mut self.dynstr);
                let index = symbol(table, names, name, *size, [0x11, section]);
                known.push((name, index));
                index
            });
            self.rela.words(&[*at, index << 8 | scheme, *addend]);
        }
    }
}

fn named(name: impl Into<String>) -> Section {
    Section {
        name: name.into(),
        ..Section::default()
    }
}

fn loaded(name: String, data: &[u8]) -> Section {
    Section {
        kind: 1,
        flags: LOADED,
        align: 16,
        data: data.to_vec(),
        ..named(name)
    }
}

fn note(name: &str, kind: u32, description: &[u8]) -> Section {
    let mut image = Image::default();
    image.words(&[4, description.len() as u32, kind]);
    image.bytes(b"XRT\0");
    image.bytes(description);
    Section {
        kind: 7,
        align: 1,
        data: image.0,
        ..named(name)
    }
}

/// The full ELF of `kernels`, unless a control code is no stream.
pub fn full_elf(kernels: &[Kernel]) -> Result<Vec<u8>, Malformed> {
    let null = || Image(vec![0; 16]);
    let mut tables = Tables {
        strtab: vec![0],
        symtab: null(),
        dynstr: vec![0],
        dynsym: null(),
        rela: Image::default(),
    };
    let mut columns = 0;
    let mut sections: Vec<Section> = ["", ".shstrtab", ".strtab", ".symtab"].map(named).into();
    let (mut dynamic, mut number) = (None, 0);
    for kernel in kernels {
        let (length, name) = (kernel.name.len(), &kernel.name);
        let mangled = format!("_Z{length}{name}{}", "Pc".repeat(kernel.arguments));
        let (symtab, strtab) = (&mut tables.symtab, &mut tables.strtab);
        let owner = symbol(symtab, strtab, &mangled, 0, [0x22, 0]) as u16;
        for (instance, code) in &kernel.instances {
            columns = Stream::parse(code)?.columns;
            let pdis = kernel.pdis.iter();
            sections.extend(pdis.map(|(id, pdi)| loaded(format!(".pdi.{id}"), pdi)));
            let text = sections.len() as u32;
            sections.push(loaded(format!(".ctrltext.{number}"), code));
            tables.relocations(&sites(code)?, text as u16);
            if dynamic.is_none() {
                dynamic = Some(sections.len());
                sections.extend([".dynstr", ".dynsym", ".rela.dyn", ".dynamic"].map(named));
            }
            let mut group = Image::default();
            group.words(&[1, text]);
            // The section of an instance's symbol is its kernel's symbol.
            let (symtab, strtab) = (&mut tables.symtab, &mut tables.strtab);
            sections.push(Section {
                kind: 17,
                link: 3,
                info: symbol(symtab, strtab, instance, 0, [0x21, owner]),
                align: 16,
                entry: 4,
                data: group.0,
                ..named(format!(".group.{number}"))
            });
            number += 1;
        }
    }
    let loaded = sections.iter().filter(|section| section.flags == LOADED);
    let uid = md5(&loaded
        .map(|it| it.data.as_slice())
        .collect::<Vec<_>>()
        .concat());
    let columns = u32::from(columns).to_le_bytes();
    sections.push(note(".note.xrt.configuration", 6, &columns));
    sections.push(note(".note.xrt.UID", 4, &uid));
    fill(&mut sections, tables, dynamic.unwrap_or(4));
    Ok(layout(&sections))
}

/// Fills in the tables: section, kind, link, info, alignment, size of an entry, content.
fn fill(sections: &mut [Section], tables: Tables, dynamic: usize) {
    let mut names = Vec::new();
    for section in sections.iter() {
        names.extend_from_slice(section.name.as_bytes());
        names.push(0);
    }
    let at = dynamic as u32;
    let mut entries = Image::default();
    entries.words(&[7, at + 2, 8, tables.rela.len() as u32]);
    for (index, [kind, link, info, align, entry], data) in [
        (1, [3, 0, 0, 1, 0], names),
        (2, [3, 0, 0, 0, 0], tables.strtab),
        (3, [2, 2, 1, 4, 16], tables.symtab.0),
        (dynamic, [3, 0, 0, 0, 0], tables.dynstr),
        (dynamic + 1, [11, at, 1, 8, 16], tables.dynsym.0),
        (dynamic + 2, [4, at + 1, 0, 8, 12], tables.rela.0),
        (dynamic + 3, [6, at, 0, 8, 8], entries.0),
    ] {
        let name = std::mem::take(&mut sections[index].name);
        sections[index] = Section {
            name,
            kind,
            flags: 0,
            link,
            info,
            align,
            entry,
            data,
        };
    }
}

/// Header, segments, what is loaded, the other sections, and the section headers.
fn layout(sections: &[Section]) -> Vec<u8> {
    let is_loaded = |section: &&Section| section.flags == LOADED;
    let segments = 1 + sections.iter().filter(is_loaded).count();
    let (mut image, mut head, mut table) = (Image::default(), Image::default(), Image::default());
    image.fill_to(52 + 32 * segments);
    let size = 32 * segments as u32;
    let mut segment = Image::default();
    segment.words(&[6, 52, 0, 0, size, size, 4, 0]);
    let mut places = vec![(0, 0); sections.len()];
    let mut address = 0u32;
    for (section, place) in sections
        .iter()
        .zip(&mut places)
        .filter(|(it, _)| is_loaded(it))
    {
        *place = (image.align(16) as u32, address.next_multiple_of(16));
        let length = section.data.len() as u32;
        segment.words(&[1, place.0, place.1, 0, length, length, 5, 16]);
        address = place.1 + length;
        image.bytes(&section.data);
    }
    for (section, place) in sections.iter().zip(&mut places).skip(1) {
        if section.flags != LOADED {
            *place = (image.align(section.align as usize) as u32, 0);
            image.bytes(&section.data);
        }
    }
    let headers = image.align(16);
    let mut name = 0;
    for (section, (offset, address)) in sections.iter().zip(places) {
        table.words(&[name, section.kind, section.flags, address, offset]);
        table.words(&[section.data.len() as u32, section.link]);
        table.words(&[section.info, section.align, section.entry]);
        name += section.name.len() as u32 + 1;
    }
    image.bytes(&table.0);
    head.bytes(b"\x7fELF\x01\x01\x01\x45\x21");
    head.fill_to(16);
    head.words(&[2 | 1 << 16, 1, 0, 52, headers as u32, 0]);
    for value in [52, 32, segments, 40, sections.len(), 1] {
        head.u16(value as u16);
    }
    head.bytes(&segment.0);
    image.set(0, &head.0);
    image.0
}
