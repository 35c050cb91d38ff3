//! Little-endian numbers and texts in bytes that nobody vouches for.

/// A file, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// `size` bytes from `offset` on.
    pub fn part(self, offset: u64, size: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(offset).ok()?;
        let end = usize::try_from(offset.checked_add(size)?).ok()?;
        self.0.get(start..end)
    }

    fn array<const N: usize>(self, offset: u64) -> Option<[u8; N]> {
        self.part(offset, N as u64)?.try_into().ok()
    }

    /// A number of two bytes.
    pub fn u16(self, offset: u64) -> Option<u16> {
        self.array(offset).map(u16::from_le_bytes)
    }

    /// A number of four bytes.
    pub fn u32(self, offset: u64) -> Option<u32> {
        self.array(offset).map(u32::from_le_bytes)
    }

    /// A number of eight bytes.
    pub fn u64(self, offset: u64) -> Option<u64> {
        self.array(offset).map(u64::from_le_bytes)
    }

    /// The text that starts there and ends in a NUL.
    pub fn text(self, offset: u64) -> Option<String> {
        let rest = self.0.get(usize::try_from(offset).ok()?..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(rest.get(..length)?).into_owned())
    }
}
