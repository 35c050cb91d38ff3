//! The few facts of an ELF file that decide which libraries it loads. Takes hostile bytes.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;

use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};

/// No real dynamic segment comes near this many bytes.
const MAX_DYNAMIC: u64 = 256 * 1024;
/// Nor do real files need this many libraries.
const MAX_NEEDED: usize = 1024;

/// What the dynamic loader reads in a program or a shared library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dynamic {
    /// What must agree between a program and its libraries.
    pub(super) architecture: Architecture,
    /// `DT_NEEDED`, in order.
    pub(super) needed: Vec<OsString>,
    /// `DT_SONAME`.
    pub(super) soname: Option<OsString>,
    /// `DT_RPATH`, which counts only without a `DT_RUNPATH`.
    pub(super) rpath: Option<Vec<u8>>,
    /// `DT_RUNPATH`.
    pub(super) runpath: Option<Vec<u8>>,
    /// `DF_1_NODEFLIB`: the loader's cache and default directories are not searched.
    pub(super) no_default: bool,
}

/// Class, byte order and machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Architecture {
    pub(super) is_64: bool,
    pub(super) is_little_endian: bool,
    pub(super) machine: u16,
}

impl Dynamic {
    /// Reads an ELF file piece by piece. `None` if it is not ELF or is damaged.
    pub(super) fn read(file: File) -> Option<Self> {
        parse(&ReadCache::new(file))
    }
}

fn parse<'data, R: ReadRef<'data>>(data: R) -> Option<Dynamic> {
    let ident = data.read_bytes_at(0, 5).ok()?;
    match ident {
        [0x7f, b'E', b'L', b'F', 2] => parse_class::<elf::FileHeader64<Endianness>, R>(data),
        [0x7f, b'E', b'L', b'F', 1] => parse_class::<elf::FileHeader32<Endianness>, R>(data),
        _ => None,
    }
}

fn parse_class<'data, E, R>(data: R) -> Option<Dynamic>
where
    E: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = E::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let mut found = Dynamic {
        architecture: Architecture {
            is_64: header.is_class_64(),
            is_little_endian: header.is_little_endian(),
            machine: header.e_machine(endian).0,
        },
        ..Dynamic::default()
    };
    // So many headers that their count is elsewhere: nothing real has.
    if header.e_phnum(endian) == elf::PN_XNUM {
        return None;
    }
    let segments = header.program_headers(endian, data).ok()?;
    let Some(dynamic) = segments
        .iter()
        .find(|segment| segment.p_type(endian) == elf::PT_DYNAMIC)
    else {
        return Some(found);
    };
    if dynamic.p_filesz(endian).into() > MAX_DYNAMIC {
        return None;
    }
    let entries = || {
        let all = dynamic
            .dynamic(endian, data)
            .ok()
            .flatten()
            .unwrap_or_default();
        all.iter()
            .map(|entry| (entry.tag(endian), entry.val(endian)))
            .take_while(|(tag, _)| *tag != elf::DT_NULL)
    };
    let table = entries().find_map(|(tag, value)| (tag == elf::DT_STRTAB).then_some(value));
    let table = table.and_then(|address| file_offset(segments, endian, address));
    let length = data.len().ok()?;
    let string = |offset: u64| -> Option<Vec<u8>> {
        let start = table?.checked_add(offset)?;
        (start < length)
            .then(|| data.read_bytes_at_until(start..length, 0).ok())?
            .map(<[u8]>::to_vec)
    };
    for (tag, value) in entries() {
        match tag {
            elf::DT_NEEDED if found.needed.len() >= MAX_NEEDED => return None,
            elf::DT_NEEDED => found.needed.push(OsString::from_vec(string(value)?)),
            elf::DT_SONAME => found.soname = Some(OsString::from_vec(string(value)?)),
            elf::DT_RPATH => found.rpath = Some(string(value)?),
            elf::DT_RUNPATH => found.runpath = Some(string(value)?),
            elf::DT_FLAGS_1 => found.no_default = value & elf::DF_1_NODEFLIB.0 != 0,
            _ => {}
        }
    }
    Some(found)
}

/// Where in the file the loader would find what is mapped at `address`.
fn file_offset<P: ProgramHeader<Endian = Endianness>>(
    segments: &[P],
    endian: Endianness,
    address: u64,
) -> Option<u64> {
    segments
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
        .find_map(|segment| {
            let within = address.checked_sub(segment.p_vaddr(endian).into())?;
            (within < segment.p_filesz(endian).into())
                .then(|| segment.p_offset(endian).into().checked_add(within))
                .flatten()
        })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn read(path: &str) -> Dynamic {
        Dynamic::read(File::open(path).unwrap()).unwrap()
    }

    #[test]
    fn agrees_with_readelf() {
        let program = std::fs::read_link("/proc/self/exe").unwrap();
        for path in ["/bin/sh", "/usr/bin/ld", program.to_str().unwrap()] {
            let output = Command::new("readelf")
                .args(["-dW", path])
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let needed: Vec<OsString> = text
                .lines()
                .filter(|line| line.contains("(NEEDED)"))
                .filter_map(|line| Some(line.split_once('[')?.1.trim_end_matches(']').into()))
                .collect();
            assert!(!needed.is_empty(), "{text}");
            assert_eq!(read(path).needed, needed, "{path}");
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let _ = parse(bytes.as_slice());
        }

        #[test]
        fn a_damaged_program_never_panics(
            cut in any::<proptest::sample::Index>(),
            spots in proptest::collection::vec((0usize..1200, any::<u8>()), 0..8),
        ) {
            let mut bytes = std::fs::read("/bin/true").unwrap();
            for (at, value) in spots {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            let _ = parse(bytes.as_slice());
            bytes.truncate(cut.index(bytes.len() + 1));
            let _ = parse(bytes.as_slice());
        }
    }
}
