//! Configuration objects (CDO) and the PDI that bootgen makes of them, with the checksums that the
//! real one has.

use crate::bytes::Image;

/// The command that does nothing.
pub const NOP: u32 = 0x111;

/// The command that writes eight consecutive words: a buffer descriptor.
pub fn descriptor(address: u32, words: [u32; 8]) -> Vec<u32> {
    [&[0x000a_0105, 0, address], &words[..]].concat()
}

/// The complement of the sum of the words from `from` on.
fn checksum(image: &Image, from: usize) -> u32 {
    let words = image.0.get(from..).unwrap_or_default().chunks_exact(4);
    let words = words.map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()));
    !words.fold(0, u32::wrapping_add)
}

pub fn cdo(commands: &[u32]) -> Vec<u8> {
    let mut image = Image::default();
    image.words(&[
        4,
        u32::from_le_bytes(*b"CDO\0"),
        0x200,
        commands.len() as u32,
    ]);
    let sum = checksum(&image, 0);
    image.u32(sum);
    image.words(commands);
    image.0
}

pub fn pdi(cdo: &[u8]) -> Vec<u8> {
    let words = cdo.len().div_ceil(4) as u32;
    let padded = words.next_multiple_of(4);
    let mut image = Image::default();
    image.words(&[0xdd, 0x1122_3344, 0x5566_7788, 0x99aa_bbcc]);
    // The image header table.
    image.words(&[0x0004_0000, 1, 0x24, 1, 0x34, 0, 0x14ca_8093, 0, 0, 0]);
    image.words(&[u32::from_le_bytes(*b"IDPP"), 0x0020_1020, 0x30]);
    image.fill_to(0x54);
    image.u32(1);
    image.fill_to(0x8c);
    let sum = checksum(&image, 0x10);
    image.u32(sum);
    // The image header.
    image.words(&[0x34, 1, 0, 0]);
    image.name("aie_image", 16);
    image.words(&[0x1c00_0000]);
    image.fill_to(0xcc);
    let sum = checksum(&image, 0x90);
    image.u32(sum);
    // The partition header: lengths in words, where the data starts, what it is.
    image.words(&[padded, words, padded, 0, 0, 0, u32::MAX, u32::MAX]);
    image.words(&[0x54, 0x0200_0006, 1]);
    image.fill_to(0x14c);
    let sum = checksum(&image, 0xd0);
    image.u32(sum);
    image.bytes(cdo);
    image.align(16);
    image.0
}
