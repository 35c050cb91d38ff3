//! xclbins, as far as XRT reads them: kernels and arguments from the XML, memory banks from the
//! connectivity, columns from the AIE partition.

use crate::elf::Refusal;
use std::ffi::CString;

pub(crate) struct Xclbin {
    pub(crate) uuid: [u8; 16],
    /// 0 if there is no partition, and so nothing that an NPU could load.
    pub(crate) columns: u32,
    pub(crate) kernels: Vec<Kernel>,
}

pub(crate) struct Kernel {
    pub(crate) name: CString,
    pub(crate) arguments: Vec<Argument>,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Argument {
    pub(crate) offset: u32,
    pub(crate) size: u32,
    /// The memory bank that it is connected to, or -1.
    pub(crate) bank: i32,
}

const METADATA: u32 = 2;
const CONNECTIVITY: u32 = 7;
const PARTITION: u32 = 32;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<usize> {
    let eight = bytes.get(at..at.checked_add(8)?)?;
    usize::try_from(u64::from_le_bytes(eight.try_into().ok()?)).ok()
}

fn section(file: &[u8], wanted: u32) -> Option<&[u8]> {
    let count = u32_at(file, 0x1c0)?.min(64) as usize;
    let headers = (0..count).map(|index| 0x1c8 + 40 * index);
    let header = headers
        .into_iter()
        .find(|at| u32_at(file, *at) == Some(wanted))?;
    let offset = u64_at(file, header + 24)?;
    file.get(offset..offset.checked_add(u64_at(file, header + 32)?)?)
}

/// The value of an attribute within a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn arguments(xml: &str, index: usize, connections: &[u8]) -> Option<Vec<Argument>> {
    let bank_of = |argument: usize| {
        let mut rows = connections.get(4..).unwrap_or_default().chunks_exact(12);
        let is = |row: &&[u8]| {
            u32_at(row, 0) == Some(argument as u32) && u32_at(row, 4) == Some(index as u32)
        };
        let row = rows.find(is)?;
        u32_at(row, 8)
    };
    let tags = xml.split("<arg ").skip(1).enumerate();
    let argument = |(position, tag): (usize, &str)| {
        let tag = format!(" {}", tag.split('>').next()?);
        Some(Argument {
            offset: number(attribute(&tag, "offset")?)?,
            size: number(attribute(&tag, "size")?)?,
            bank: bank_of(position).map_or(-1, |bank| bank as i32),
        })
    };
    tags.map(argument).collect()
}

fn kernels(xml: &str, connections: &[u8]) -> Option<Vec<Kernel>> {
    let elements = xml.split("<kernel ").skip(1).enumerate();
    let kernel = |(index, element): (usize, &str)| {
        let (element, _) = element.split_once("</kernel>")?;
        let name = attribute(&format!(" {element}"), "name")?.to_owned();
        Some(Kernel {
            name: CString::new(name).ok()?,
            arguments: arguments(element, index, connections)?,
        })
    };
    elements.map(kernel).collect()
}

impl Xclbin {
    pub(crate) fn parse(file: &[u8]) -> Result<Self, Refusal> {
        if !file.starts_with(b"xclbin2\0") {
            return Err(c"Invalid xclbin: bad magic");
        }
        let invalid = c"Invalid xclbin";
        if u64_at(file, 0x130) != Some(file.len()) {
            return Err(c"Invalid xclbin: its size is not what it says");
        }
        let uuid = file.get(0x1a0..0x1b0).and_then(|b| b.try_into().ok());
        let xml = section(file, METADATA).unwrap_or_default();
        let xml = std::str::from_utf8(xml).map_err(|_| invalid)?;
        let connections = section(file, CONNECTIVITY).unwrap_or_default();
        let columns = section(file, PARTITION).and_then(|data| u32_at(data, 32));
        Ok(Self {
            uuid: uuid.ok_or(invalid)?,
            columns: columns.unwrap_or(0) & 0xffff,
            kernels: kernels(xml, connections).ok_or(invalid)?,
        })
    }
}
