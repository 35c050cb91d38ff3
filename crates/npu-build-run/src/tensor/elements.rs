//! Memory as a row of numbers.

use npu_runtime::ElementType;
use npu_runtime::half::{bf16, f16};

use super::{Number, size};

/// The elements of memory, in row-major order.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    element: &'a ElementType,
    bytes: &'a [u8],
}

impl<'a> Elements<'a> {
    /// The elements that `bytes` are.
    #[must_use]
    pub fn new(element: &'a ElementType, bytes: &'a [u8]) -> Self {
        Self { element, bytes }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / size(self.element)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Number> {
        let chunks = self.bytes.chunks_exact(size(self.element));
        chunks.map(|chunk| Number::from_bits(self.element, bits(chunk)))
    }

    /// The first `count` as text, each as short as its type allows.
    pub fn texts(&self, count: usize) -> impl Iterator<Item = String> {
        let chunks = self.bytes.chunks_exact(size(self.element)).take(count);
        chunks.map(|chunk| text(self.element, bits(chunk)))
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// An element's bits, zero-extended.
fn bits(chunk: &[u8]) -> u64 {
    let mut all = [0; 8];
    for (to, from) in all.iter_mut().zip(chunk) {
        *to = *from;
    }
    match cfg!(target_endian = "little") {
        true => u64::from_le_bytes(all),
        false => u64::from_be_bytes(all) >> (64 - 8 * chunk.len()),
    }
}

/// Puts an element of these bits into its place.
pub(super) fn put(bits: u64, chunk: &mut [u8]) {
    let all = bits.to_le_bytes();
    for (to, from) in chunk.iter_mut().zip(all) {
        *to = from;
    }
    if cfg!(target_endian = "big") {
        chunk.reverse();
    }
}

impl Number {
    /// The number as an element of this type is shown.
    #[must_use]
    pub fn shown(self, element: &ElementType) -> String {
        match self.bits(element) {
            Ok(bits) => text(element, bits),
            Err(_) => self.to_string(),
        }
    }
}

/// What tells the element from its neighbours, and no digit more.
fn text(element: &ElementType, bits: u64) -> String {
    let text = match element {
        ElementType::I1 if bits <= 1 => format!("{}", bits == 1),
        ElementType::F16 => format!("{:?}", f16::from_bits(bits as u16).to_f32()),
        ElementType::Bf16 => format!("{:?}", bf16::from_bits(bits as u16).to_f32()),
        ElementType::F32 => format!("{:?}", f32::from_bits(bits as u32)),
        _ => Number::from_bits(element, bits).to_string(),
    };
    match text.as_str() {
        "NaN" => "nan".to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_shown_as_their_type_has_them() {
        let shown = |element: ElementType, bytes: &[u8]| {
            Elements::new(&element, bytes).texts(3).collect::<Vec<_>>()
        };
        assert_eq!(shown(ElementType::I1, &[0, 1, 7]), ["false", "true", "7"]);
        assert_eq!(shown(ElementType::I8, &[0xff, 1]), ["-1", "1"]);
        let tenth = 0.1_f32.to_ne_bytes();
        assert_eq!(shown(ElementType::F32, &tenth), ["0.1"]);
        let words = [0x3c00_u16, 0x7e00, 0xfc00].map(u16::to_ne_bytes);
        assert_eq!(
            shown(ElementType::F16, words.as_flattened()),
            ["1.0", "nan", "-inf"]
        );
    }

    #[test]
    fn what_is_put_is_what_is_read() {
        for value in [0_u32, 1, 0x1234_5678, u32::MAX] {
            let mut chunk = [0; 4];
            put(value.into(), &mut chunk);
            assert_eq!(u32::from_ne_bytes(chunk), value);
            assert_eq!(bits(&chunk), u64::from(value));
        }
    }
}
