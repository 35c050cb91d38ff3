//! The generated launchers of the example kernels, and what their host programs share.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

include!(concat!(env!("OUT_DIR"), "/vecadd.rs"));
include!(concat!(env!("OUT_DIR"), "/fma.rs"));
include!(concat!(env!("OUT_DIR"), "/softmax.rs"));
include!(concat!(env!("OUT_DIR"), "/matmul_i8.rs"));
include!(concat!(env!("OUT_DIR"), "/matmul_f32.rs"));

/// Numbers that look random and are the same on every run: a linear congruential generator with
/// Knuth's MMIX constants.
pub struct Numbers(u64);

impl Numbers {
    /// A sequence of its own for each seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next whole number from 0 to 2³²−1.
    pub fn next_u32(&mut self) -> u32 {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    /// The next number in −1..1, of the 2²⁴ that an `f32` can tell apart there.
    #[expect(clippy::cast_precision_loss, reason = "24 bits fit an f32")]
    pub fn next_f32(&mut self) -> f32 {
        (self.next_u32() >> 8) as f32 / (1 << 23) as f32 - 1.0
    }
}
