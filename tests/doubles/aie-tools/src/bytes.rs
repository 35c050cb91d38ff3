//! Little-endian images that are built from front to back.

/// An image under construction.
#[derive(Clone, Debug, Default)]
pub struct Image(pub Vec<u8>);

impl Image {
    /// The length so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Appends bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Appends 16 bits.
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends 32 bits.
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends words.
    pub fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.u32(*word));
    }

    /// Appends 64 bits.
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// Pads with zeros to a multiple of `alignment`, and gives the length.
    pub fn align(&mut self, alignment: usize) -> usize {
        let length = self.len().next_multiple_of(alignment.max(1));
        self.0.resize(length, 0);
        length
    }

    /// Appends zeros up to `length`.
    pub fn fill_to(&mut self, length: usize) {
        if self.len() < length {
            self.0.resize(length, 0);
        }
    }

    /// Appends a field of `width` bytes that starts with `text` and holds a NUL.
    pub fn name(&mut self, text: &str, width: usize) {
        let end = self.len() + width;
        let kept = text.as_bytes();
        self.bytes(
            kept.get(..kept.len().min(width.saturating_sub(1)))
                .unwrap_or_default(),
        );
        self.fill_to(end);
    }

    /// Replaces bytes that are there already.
    pub fn set(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

/// 32 bits at `at`.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    four.try_into().ok().map(u32::from_le_bytes)
}

/// 64 bits at `at`.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(at..at.checked_add(8)?)?;
    eight.try_into().ok().map(u64::from_le_bytes)
}
