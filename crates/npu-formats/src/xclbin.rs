//! An xclbin (axlf): its sections, the partition with its PDIs, the names of its kernels.
//!
//! Layouts from XRT's `xclbin.h`. The length field is the file's size and every section lies in
//! it, so that a truncated file is found out before anything is taken from it.

use std::fmt;

use super::bytes::{array, part, size_of, u16_at, u32_at, u64_at};

pub use super::metadata::{MetadataArgument, MetadataKernel};

/// Where the section headers begin.
const SECTIONS: u64 = 0x1c8;
/// Size of a section header.
const SECTION_HEADER: u64 = 40;
/// Size of the fixed part of an AIE_PARTITION.
const PARTITION: u64 = 184;
/// Size of an `aie_pdi`.
const PDI: u64 = 96;
/// Size of an `ip_data`.
const IP: u64 = 80;

/// `EMBEDDED_METADATA`.
pub const EMBEDDED_METADATA: u32 = 2;
/// `IP_LAYOUT`.
pub const IP_LAYOUT: u32 = 8;
/// `AIE_PARTITION`.
pub const AIE_PARTITION: u32 = 32;

/// What is wrong with an xclbin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XclbinFault {
    /// It does not begin with `xclbin2`.
    #[error("this is no xclbin: it does not begin with 'xclbin2'")]
    Magic,
    /// The header is not complete.
    #[error("the xclbin has {size} bytes, its header alone has 456")]
    NoHeader {
        /// Bytes there are.
        size: u64,
    },
    /// The size in the header is another.
    #[error("the xclbin says that it has {declared} bytes and has {size}")]
    Size {
        /// What the header says.
        declared: u64,
        /// Bytes there are.
        size: u64,
    },
    /// The section headers are not all there.
    #[error("the xclbin says that it has {0} sections, their headers are not all there")]
    Headers(u32),
    /// A section is not all there.
    #[error("section {index} of the xclbin (kind {kind}) is out of bounds")]
    Section {
        /// Which one.
        index: u32,
        /// Its kind.
        kind: u32,
    },
    /// Two sections lie over each other, or over the headers.
    #[error("section {index} of the xclbin (kind {kind}) overlaps another")]
    Overlap {
        /// Which one.
        index: u32,
        /// Its kind.
        kind: u32,
    },
    /// There is no AIE_PARTITION.
    #[error("the xclbin has no AIE_PARTITION section")]
    NoPartition,
    /// The AIE_PARTITION is not all there.
    #[error("malformed AIE_PARTITION: its {0} is out of bounds")]
    Partition(&'static str),
    /// The AIE_PARTITION has no columns.
    #[error("the AIE_PARTITION has a column_width of 0")]
    NoColumns,
    /// There must be one PDI.
    #[error("expected exactly one PDI, found {0}")]
    PdiCount(u32),
    /// The IP_LAYOUT is not all there.
    #[error("malformed IP_LAYOUT")]
    IpLayout,
    /// The EMBEDDED_METADATA can't be read.
    #[error("malformed EMBEDDED_METADATA: {0}")]
    Metadata(&'static str),
}

/// A uuid, as XRT prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// A section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// What is in it.
    pub kind: u32,
    /// Its name, up to the first NUL.
    pub name: &'a [u8],
    /// Where it is in the file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// An xclbin whose sections are all there.
#[derive(Clone, Debug)]
pub struct Xclbin<'a> {
    /// The uuid of the file.
    pub uuid: Uuid,
    /// Seconds since 1970 when it was written.
    pub timestamp: u64,
    /// Its sections, in the order of the headers.
    pub sections: Vec<Section<'a>>,
}

impl<'a> Xclbin<'a> {
    /// Reads the headers.
    ///
    /// # Errors
    /// When the file is none, not as long as it says, or a section is not in it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, XclbinFault> {
        let size = size_of(bytes);
        if !bytes.starts_with(b"xclbin2\0") {
            return Err(XclbinFault::Magic);
        }
        let no_header = || XclbinFault::NoHeader { size };
        let declared = u64_at(bytes, 0x130).ok_or_else(no_header)?;
        let timestamp = u64_at(bytes, 0x138).ok_or_else(no_header)?;
        let uuid = Uuid(array(bytes, 0x1a0).ok_or_else(no_header)?);
        let count = u32_at(bytes, 0x1c0).ok_or_else(no_header)?;
        part(bytes, 0, SECTIONS).ok_or_else(no_header)?;
        if declared != size {
            return Err(XclbinFault::Size { declared, size });
        }
        let headers = part(bytes, SECTIONS, u64::from(count) * SECTION_HEADER)
            .ok_or(XclbinFault::Headers(count))?;
        let mut sections = Vec::new();
        for (index, header) in (0..count).zip(headers.as_chunks::<40>().0) {
            sections.push(section(bytes, index, header)?);
        }
        check_overlaps(&sections, SECTIONS + size_of(headers))?;
        Ok(Self {
            uuid,
            timestamp,
            sections,
        })
    }

    /// The first section of that kind.
    #[must_use]
    pub fn section(&self, kind: u32) -> Option<Section<'a>> {
        (self.sections.iter().copied()).find(|section| section.kind == kind)
    }

    /// The partition of the array, with its PDIs.
    ///
    /// # Errors
    /// When there is none, or it is not all there.
    pub fn partition(&self) -> Result<Partition<'a>, XclbinFault> {
        let section = (self.section(AIE_PARTITION)).ok_or(XclbinFault::NoPartition)?;
        Partition::parse(section.bytes)
    }

    /// The names in the IP_LAYOUT, `kernel:instance`.
    ///
    /// # Errors
    /// When it is not all there. An xclbin without one has no names.
    pub fn kernel_names(&self) -> Result<Vec<&'a [u8]>, XclbinFault> {
        let Some(section) = self.section(IP_LAYOUT) else {
            return Ok(Vec::new());
        };
        let count = u32_at(section.bytes, 0).ok_or(XclbinFault::IpLayout)?;
        let entries = part(section.bytes, 8, u64::from(count) * IP).ok_or(XclbinFault::IpLayout)?;
        let names = entries.as_chunks::<80>().0.iter();
        Ok(names
            .map(|entry| until_nul(entry.get(16..).unwrap_or_default()))
            .collect())
    }

    /// The kernels in the EMBEDDED_METADATA.
    ///
    /// # Errors
    /// When its XML can't be read. An xclbin without it has no kernels.
    pub fn kernels(&self) -> Result<Vec<MetadataKernel>, XclbinFault> {
        match self.section(EMBEDDED_METADATA) {
            Some(section) => super::metadata::kernels(section.bytes),
            None => Ok(Vec::new()),
        }
    }
}

fn section<'a>(bytes: &'a [u8], index: u32, header: &[u8]) -> Result<Section<'a>, XclbinFault> {
    let kind = u32_at(header, 0).unwrap_or_default();
    let fault = XclbinFault::Section { index, kind };
    let offset = u64_at(header, 24).ok_or(fault.clone())?;
    let size = u64_at(header, 32).ok_or(fault.clone())?;
    // The name is in the headers, which are in the file.
    let name = part(bytes, SECTIONS + u64::from(index) * SECTION_HEADER + 4, 16);
    Ok(Section {
        kind,
        name: until_nul(name.unwrap_or_default()),
        offset,
        bytes: part(bytes, offset, size).ok_or(fault)?,
    })
}

fn check_overlaps(sections: &[Section<'_>], headers_end: u64) -> Result<(), XclbinFault> {
    let mut order: Vec<_> = (0_u32..)
        .zip(sections)
        .filter(|(_, section)| !section.bytes.is_empty())
        .collect();
    order.sort_by_key(|(_, section)| section.offset);
    let mut end = headers_end;
    for (index, section) in order {
        if section.offset < end {
            return Err(XclbinFault::Overlap {
                index,
                kind: section.kind,
            });
        }
        // Both were found to be in the file.
        end = section.offset.saturating_add(size_of(section.bytes));
    }
    Ok(())
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default()
}

/// A PDI of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionPdi<'a> {
    /// Made anew in each run of aiecc.
    pub uuid: Uuid,
    /// The PDI.
    pub image: &'a [u8],
}

/// An AIE_PARTITION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition<'a> {
    /// Columns of the array that it takes.
    pub column_width: u16,
    /// The columns where it can begin.
    pub start_columns: Vec<u16>,
    /// Its PDIs.
    pub pdis: Vec<PartitionPdi<'a>>,
}

impl<'a> Partition<'a> {
    /// Reads the section.
    ///
    /// # Errors
    /// When something is not all there, or there are no columns.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, XclbinFault> {
        let header = (part(bytes, 0, PARTITION)).ok_or(XclbinFault::Partition("header"))?;
        let column_width = u16_at(header, 32).unwrap_or_default();
        if column_width == 0 {
            return Err(XclbinFault::NoColumns);
        }
        let starts = elements(bytes, header, 40, 2)
            .ok_or(XclbinFault::Partition("start_columns"))?
            .as_chunks::<2>()
            .0;
        let pdis = elements(bytes, header, 120, PDI).ok_or(XclbinFault::Partition("aie_pdi"))?;
        let mut images = Vec::new();
        for pdi in pdis.as_chunks::<96>().0 {
            let uuid = array(pdi, 0).ok_or(XclbinFault::Partition("aie_pdi"))?;
            let image = elements(bytes, pdi, 16, 1).ok_or(XclbinFault::Partition("pdi_image"))?;
            images.push(PartitionPdi {
                uuid: Uuid(uuid),
                image,
            });
        }
        Ok(Self {
            column_width,
            start_columns: starts
                .iter()
                .map(|start| u16::from_le_bytes(*start))
                .collect(),
            pdis: images,
        })
    }

    /// The one PDI that there must be for an hsaco.
    ///
    /// # Errors
    /// [`XclbinFault::PdiCount`].
    pub fn only_pdi(&self) -> Result<&'a [u8], XclbinFault> {
        match self.pdis.as_slice() {
            [pdi] => Ok(pdi.image),
            pdis => Err(XclbinFault::PdiCount(
                u32::try_from(pdis.len()).unwrap_or(u32::MAX),
            )),
        }
    }
}

/// The elements of the array that `header` describes at `at`: their number, and where they begin
/// in the section.
fn elements<'a>(section: &'a [u8], header: &[u8], at: u64, size: u64) -> Option<&'a [u8]> {
    let count = u32_at(header, at)?;
    let offset = u32_at(header, at + 4)?;
    if count == 0 {
        return Some(&[]);
    }
    part(section, offset.into(), u64::from(count).checked_mul(size)?)
}
