//! The PDI, which configures the array: recognised and measured, never interpreted.

use super::bytes::{array, part, size_of, u32_at};

/// The sync words at the start.
const MAGIC: [u8; 16] = [
    0xdd, 0, 0, 0, 0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55, 0xcc, 0xbb, 0xaa, 0x99,
];

/// The id code that bootgen writes for the devices with an NPU.
const ID_CODE: u32 = 0x14ca_8093;

/// Where the image header table has its identification: the first in PDIs that bootgen 2023.2 makes,
/// the other where the table before it is longer.
const IDENTIFICATION: [u64; 2] = [0x38, 0x48];

/// Where that table counts the partitions, and where it says in words from the start of the file
/// that their headers begin (bootgen's `VersalImageHeaderTableStructure`, behind the sync words).
const PARTITION_COUNT: u64 = 0x1c;
const PARTITION_HEADERS: u64 = 0x20;
/// Bytes of a partition's header, and where it has the length and the place of the partition, both
/// in words (bootgen's `VersalPartitionHeaderTableStructure`).
const PARTITION_HEADER: u64 = 0x80;
const PARTITION_LENGTH: u64 = 0x08;
const PARTITION_OFFSET: u64 = 0x20;

/// What is wrong with a PDI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PdiFault {
    /// There is nothing.
    #[error("the PDI is empty")]
    Empty,
    /// The header is not complete.
    #[error("the PDI has {size} bytes, its header alone has 76")]
    Truncated {
        /// Bytes there are.
        size: u64,
    },
    /// It does not begin with the sync words.
    #[error("this is no PDI: it does not begin with the words dd000000 44332211 88776655 ccbbaa99")]
    Magic,
    /// It is for another family of devices.
    #[error("the PDI is for a device with id code {found:#010x}, an NPU's is {ID_CODE:#010x}")]
    IdCode {
        /// What it says.
        found: u32,
    },
    /// The image header has another identification.
    #[error("the PDI has no 'IDPP' at offset 0x38 or 0x48")]
    Identification,
    /// A partition or its header is not all there.
    #[error("the PDI is cut off: it has {size} bytes, and what it lists reaches up to {end}")]
    Cut {
        /// Bytes there are.
        size: u64,
        /// Where the first thing ends that is not all there.
        end: u64,
    },
}

/// Checks that `bytes` begin as a PDI for an NPU does, and are all that they say.
///
/// # Errors
/// See [`PdiFault`].
pub fn validate(bytes: &[u8]) -> Result<(), PdiFault> {
    if bytes.is_empty() {
        return Err(PdiFault::Empty);
    }
    let size = size_of(bytes);
    let truncated = || PdiFault::Truncated { size };
    if array(bytes, 0).ok_or_else(truncated)? != MAGIC {
        return Err(PdiFault::Magic);
    }
    let found = u32_at(bytes, 0x28).ok_or_else(truncated)?;
    if found != ID_CODE {
        return Err(PdiFault::IdCode { found });
    }
    part(bytes, 0, 0x4c).ok_or_else(truncated)?;
    match IDENTIFICATION.map(|at| part(bytes, at, 4) == Some(b"IDPP")) {
        [true, _] => whole(bytes),
        // What else is elsewhere in such a table is not known.
        [false, true] => Ok(()),
        [false, false] => Err(PdiFault::Identification),
    }
}

/// Checks that all partitions are there.
fn whole(bytes: &[u8]) -> Result<(), PdiFault> {
    let size = size_of(bytes);
    let word = |at: u64| {
        let cut = PdiFault::Cut { size, end: at + 4 };
        u32_at(bytes, at).map(u64::from).ok_or(cut)
    };
    let mut header = word(PARTITION_HEADERS)? * 4;
    for _ in 0..word(PARTITION_COUNT)? {
        let end = (word(header + PARTITION_OFFSET)? + word(header + PARTITION_LENGTH)?) * 4;
        if end > size {
            return Err(PdiFault::Cut { size, end });
        }
        header += PARTITION_HEADER;
    }
    Ok(())
}
