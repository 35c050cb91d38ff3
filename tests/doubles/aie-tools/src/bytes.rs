//! Little-endian images that are built from front to back.

#[derive(Clone, Debug, Default)]
pub struct Image(pub Vec<u8>);

impl Image {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.u32(*word));
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// Pads with zeros to a multiple of `alignment`, and gives the length.
    pub fn align(&mut self, alignment: usize) -> usize {
        let length = self.len().next_multiple_of(alignment.max(1));
        self.0.resize(length, 0);
        length
    }

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

    pub fn set(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}
