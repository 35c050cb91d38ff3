//! MD5 (RFC 1321): aiebu-asm's `.note.xrt.UID` is the MD5 of the sections that are loaded.

const SHIFTS: [[u32; 4]; 4] = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
];

fn constant(index: u32) -> u32 {
    // The table of RFC 1321: the integer part of 2^32 times the sine of the step's number.
    let sine = f64::from(index + 1).sin().abs();
    (sine * 4_294_967_296.0) as u32
}

fn word(bytes: &[u8], index: usize) -> u32 {
    let at = index * 4;
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    u32::from_le_bytes(four.unwrap_or_default())
}

fn block(state: [u32; 4], bytes: &[u8]) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d] = state;
    for step in 0..64u32 {
        let (mixed, index) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), (7 * step) % 16),
        };
        let sum = a
            .wrapping_add(mixed)
            .wrapping_add(constant(step))
            .wrapping_add(word(bytes, index as usize));
        let round = SHIFTS
            .get((step / 16) as usize)
            .copied()
            .unwrap_or_default();
        let shift = round.get((step % 4) as usize).copied().unwrap_or_default();
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(shift));
    }
    let [p, q, r, s] = state;
    [
        p.wrapping_add(a),
        q.wrapping_add(b),
        r.wrapping_add(c),
        s.wrapping_add(d),
    ]
}

/// The MD5 of `bytes`.
pub fn md5(bytes: &[u8]) -> [u8; 16] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - bytes.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let bits = (bytes.len() as u64) * 8;
    padded.truncate(padded.len() - 8);
    padded.extend(bits.to_le_bytes());
    let start = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let state = padded.chunks_exact(64).fold(start, block);
    let mut digest = [0; 16];
    for (to, from) in digest.chunks_exact_mut(4).zip(state) {
        to.copy_from_slice(&from.to_le_bytes());
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::md5;

    #[test]
    fn the_examples_of_the_rfc() {
        let hex = |text: &str| md5(text.as_bytes()).map(|b| format!("{b:02x}")).concat();
        assert_eq!(hex(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex("abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(
            hex("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a"
        );
    }
}
