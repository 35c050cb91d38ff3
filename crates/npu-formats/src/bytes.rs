//! Little-endian reads that end at the end of the bytes instead of in a panic.

/// `size` bytes at `offset`, if they are all there.
pub fn part(bytes: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = usize::try_from(offset.checked_add(size)?).ok()?;
    bytes.get(start..end)
}

/// `N` bytes at `offset`.
pub fn array<const N: usize>(bytes: &[u8], offset: u64) -> Option<[u8; N]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..)?.first_chunk().copied()
}

pub fn u16_at(bytes: &[u8], offset: u64) -> Option<u16> {
    array(bytes, offset).map(u16::from_le_bytes)
}

pub fn u32_at(bytes: &[u8], offset: u64) -> Option<u32> {
    array(bytes, offset).map(u32::from_le_bytes)
}

pub fn u64_at(bytes: &[u8], offset: u64) -> Option<u64> {
    array(bytes, offset).map(u64::from_le_bytes)
}

/// Names in an ELF are shorter; what is longer is somebody's attempt to have it read again and again.
const LONGEST_NAME: usize = 4096;

/// The string at `offset` without its NUL, which must be in `table`, too.
pub fn c_string(table: &[u8], offset: u64) -> Option<&[u8]> {
    let rest = table.get(usize::try_from(offset).ok()?..)?;
    let length = rest.iter().take(LONGEST_NAME).position(|byte| *byte == 0)?;
    rest.get(..length)
}

/// The size of `bytes` in the width that offsets have.
pub fn size_of(bytes: &[u8]) -> u64 {
    // `usize` has at most 64 bits everywhere.
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
