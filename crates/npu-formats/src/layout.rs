//! Where the sections of an existing ELF64 go when one of them changes.
//!
//! What program headers cover, and whatever lies between, keeps its offset; the sections behind it
//! are laid out anew in their old order. No index changes, so nothing that refers to a section has
//! to be rewritten.

use super::Arch;
use super::bytes::{size_of, u64_at};
use super::container::{
    ContainerFault, Elf64, FILE_HEADER, Header, SHF_ALLOC, SHT_NOBITS, SHT_NULL, SHT_PROGBITS,
    SHT_STRTAB,
};
use super::edit::{Container, EditFault, Piece, header_bytes, patch};
use super::section::SectionImage;

/// As many sections need the number in the first header, because `e_shnum` has no such values.
const SHN_LORESERVE: u64 = 0xff00;

/// An ELF64 that keeps everything it has.
pub struct Layout<'e, 'a> {
    elf: &'e Elf64<'a>,
    /// What lies below does not move.
    floor: u64,
}

impl<'e, 'a> Layout<'e, 'a> {
    pub fn new(elf: &'e Elf64<'a>) -> Result<Self, EditFault> {
        let names = elf.headers.get(elf.names_index);
        if names.is_none_or(|names| names.kind != SHT_STRTAB) {
            return Err(ContainerFault::Names.into());
        }
        let programs = elf.program_headers()?;
        let mut floor = FILE_HEADER;
        if !programs.is_empty() {
            let offset = u64_at(elf.bytes(), 0x20).unwrap_or(0);
            floor = floor.max(offset.saturating_add(size_of(programs)));
        }
        for program in programs.as_chunks::<56>().0 {
            let (offset, size) = (u64_at(program, 8), u64_at(program, 32));
            let end = (offset.zip(size))
                .and_then(|(offset, size)| offset.checked_add(size))
                .filter(|end| *end <= size_of(elf.bytes()))
                .ok_or(ContainerFault::ProgramHeaders)?;
            floor = floor.max(end);
        }
        let mut ends: Vec<_> = (elf.headers.iter().enumerate().skip(1))
            .map(|(index, header)| {
                let data = elf.data(header).ok_or(ContainerFault::PastEnd(index))?;
                Ok((header.offset, header.offset.saturating_add(size_of(data))))
            })
            .collect::<Result<_, ContainerFault>>()?;
        ends.sort_unstable();
        for (offset, end) in ends {
            // An empty section may claim to be anywhere.
            if offset < floor && end <= size_of(elf.bytes()) {
                floor = floor.max(end);
            }
        }
        Ok(Self { elf, floor })
    }

    pub fn place(
        self,
        arch: Arch,
        replaced: Option<usize>,
        section: &'a SectionImage<'a>,
    ) -> Result<Container<'a>, EditFault> {
        let elf = self.elf;
        if replaced == Some(elf.names_index) {
            return Err(EditFault::NamesTable(arch));
        }
        let mut headers = elf.headers.clone();
        let mut names = None;
        let index = match replaced {
            Some(index) => index,
            None => {
                let name = match position_of(elf.names(), arch.name()) {
                    Some(known) => known,
                    None => {
                        let grown = self.grown_names(arch)?;
                        let offset = grown.len() - arch.name().len() - 1;
                        names = Some(grown);
                        offset
                    }
                };
                headers.push(Header {
                    name: u32::try_from(name).map_err(|_| EditFault::TooLarge)?,
                    offset: u64::MAX,
                    ..Header::default()
                });
                headers.len() - 1
            }
        };
        let header = headers.get_mut(index).ok_or(EditFault::TooLarge)?;
        if header.flags & SHF_ALLOC != 0 {
            return Err(EditFault::Loaded(arch));
        }
        *header = Header {
            name: header.name,
            offset: header.offset,
            kind: SHT_PROGBITS,
            size: section.size().into(),
            alignment: 1,
            ..Header::default()
        };
        if header.offset < self.floor {
            header.offset = u64::MAX;
        }
        if let (Some(names), Some(header)) = (&names, headers.get_mut(elf.names_index)) {
            header.size = size_of(names);
            if header.offset < self.floor {
                header.offset = u64::MAX;
            }
        }
        self.write(headers, index, section, names)
    }

    /// The section names and the one of `arch`.
    fn grown_names(&self, arch: Arch) -> Result<Vec<u8>, EditFault> {
        let header = self.elf.headers.get(self.elf.names_index);
        if header.is_none_or(|header| header.flags & SHF_ALLOC != 0) {
            return Err(EditFault::LoadedNames);
        }
        // A name that is not all in the table would become one when the table grows.
        let mut names = self.elf.names().to_vec();
        let is_outside = |header: &Header| size_of(&names) <= header.name.into() && header.name > 0;
        if names.last() != Some(&0) || self.elf.headers.iter().any(is_outside) {
            return Err(ContainerFault::Names.into());
        }
        names.extend(arch.name().as_bytes());
        names.push(0);
        Ok(names)
    }

    /// Lays out what lies above the floor in the order in which it lay there.
    fn write(
        self,
        mut headers: Vec<Header>,
        new: usize,
        section: &'a SectionImage<'a>,
        mut names: Option<Vec<u8>>,
    ) -> Result<Container<'a>, EditFault> {
        let elf = self.elf;
        let mut order: Vec<_> = (headers.iter().enumerate().skip(1))
            // Where nothing is in the file, there is nothing to move.
            .filter(|(_, header)| !matches!(header.kind, SHT_NULL | SHT_NOBITS))
            .filter(|(_, header)| header.offset >= self.floor)
            // An empty section stays before the one at whose start it is, so that editing again
            // changes nothing.
            .map(|(index, header)| (header.offset, header.size > 0, index))
            .collect();
        order.sort_unstable();

        // A copy is as large as the original, but for the new section and a new place of old ones.
        let limit = (size_of(elf.bytes()).saturating_mul(2))
            .saturating_add(u64::from(section.size()) + (1 << 20));
        let floor = usize::try_from(self.floor).map_err(|_| EditFault::TooLarge)?;
        let kept = elf.bytes().get(..floor).ok_or(EditFault::Layout)?;
        let (file_header, kept) = kept.split_at_checked(64).ok_or(EditFault::Layout)?;
        let mut file_header = file_header.to_vec();
        let mut pieces = vec![Piece::Made(Vec::new()), Piece::Borrowed(kept)];
        let mut end = self.floor;
        for (.., index) in order {
            let Some(header) = headers.get_mut(index) else {
                continue;
            };
            let start = (end.checked_next_multiple_of(header.alignment.max(1)))
                .filter(|start| *start <= limit)
                .ok_or(EditFault::Layout)?;
            let old = *header;
            header.offset = start;
            pieces.push(Piece::Zeros(start - end));
            if index == new {
                pieces.push(Piece::Section(section));
            } else if index == elf.names_index
                && let Some(names) = names.take()
            {
                pieces.push(Piece::Made(names));
            } else {
                pieces.push(Piece::Borrowed(elf.data(&old).ok_or(EditFault::Layout)?));
            }
            end = (start.checked_add(header.size))
                .filter(|end| *end <= limit)
                .ok_or(EditFault::Layout)?;
        }
        let table_offset = end.next_multiple_of(8);
        pieces.push(Piece::Zeros(table_offset - end));
        let count = u64::try_from(headers.len()).map_err(|_| EditFault::TooLarge)?;
        let had_extended = file_header.get(0x3c..0x3e) == Some(&[0, 0]);
        let is_extended = had_extended || count >= SHN_LORESERVE;
        if is_extended && let Some(first) = headers.first_mut() {
            first.size = count;
        }
        let stored = if is_extended {
            0
        } else {
            u16::try_from(count).map_err(|_| EditFault::TooLarge)?
        };
        patch(&mut file_header, 0x28, &table_offset.to_le_bytes());
        patch(&mut file_header, 0x3c, &stored.to_le_bytes());
        if let Some(first) = pieces.first_mut() {
            *first = Piece::Made(file_header);
        }
        let table: Vec<_> = headers.iter().flat_map(header_bytes).collect();
        let size = table_offset + size_of(&table);
        pieces.push(Piece::Made(table));
        Ok(Container { pieces, size })
    }
}

/// Where `name` ends an entry of the string table.
fn position_of(names: &[u8], name: &str) -> Option<usize> {
    let entry = [name.as_bytes(), &[0]].concat();
    names.windows(entry.len()).position(|part| part == entry)
}
