//! The packet that dispatches an AIE kernel: `hsa_amd_aie_kernel_dispatch_packet_t` in the form
//! that names a kernel object of a loaded hsaco. Earlier ROCRs took the same 64 bytes for
//! something else, and no version tells; their loader refuses an hsaco, so it never comes to a
//! packet there.

use super::sys::Signal;

/// Type READY (0), acquire and release at system scope.
const HEADER: u16 = 2 << 9 | 2 << 11;
/// `HSA_AMD_AIE_PACKET_OPCODE_KMQ`.
const OPCODE: u16 = 0;
/// What ROCR's own tests put there.
const COUNT: u16 = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct Packet {
    header: u16,
    opcode: u16,
    count: u16,
    reserved0: [u8; 2],
    completion: u64,
    reserved1: u32,
    object_low: u32,
    object_high: u32,
    kernarg_count: u16,
    reserved2: u16,
    kernarg: u64,
    reserved3: [u64; 3],
}

impl Packet {
    /// Runs the kernel `object` with `count` arguments, whose addresses and then sizes are at
    /// `kernarg`, and decrements `completion`.
    pub(super) fn dispatch(object: u64, kernarg: u64, count: u16, completion: Signal) -> Self {
        Self {
            header: HEADER,
            opcode: OPCODE,
            count: COUNT,
            reserved0: [0; 2],
            completion: completion.0,
            reserved1: 0,
            object_low: object as u32,
            object_high: (object >> 32) as u32,
            kernarg_count: count,
            reserved2: 0,
            // Null only without arguments.
            kernarg: if count == 0 { 0 } else { kernarg },
            reserved3: [0; 3],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(packet: Packet) -> [u8; 64] {
        // SAFETY: both are 64 bytes of plain numbers, without padding.
        unsafe { std::mem::transmute(packet) }
    }

    /// Offsets and values of ROCR's header, one by one.
    #[test]
    fn every_field_is_where_rocr_reads_it() {
        let packet = Packet::dispatch(
            0x1122_3344_5566_7788,
            0x0000_7fff_1234_5640,
            3,
            Signal(0xaabb_ccdd_0102_0304),
        );
        let mut expected = [0_u8; 64];
        expected[0..2].copy_from_slice(&0x1400_u16.to_le_bytes());
        expected[4..6].copy_from_slice(&24_u16.to_le_bytes());
        expected[8..16].copy_from_slice(&0xaabb_ccdd_0102_0304_u64.to_le_bytes());
        expected[20..24].copy_from_slice(&0x5566_7788_u32.to_le_bytes());
        expected[24..28].copy_from_slice(&0x1122_3344_u32.to_le_bytes());
        expected[28..30].copy_from_slice(&3_u16.to_le_bytes());
        expected[32..40].copy_from_slice(&0x0000_7fff_1234_5640_u64.to_le_bytes());
        assert_eq!(bytes(packet), expected);
    }

    #[test]
    fn without_arguments_there_is_no_kernarg() {
        let packet = bytes(Packet::dispatch(1, 0x1000, 0, Signal(1)));
        assert_eq!(packet[28..40], [0; 12]);
    }
}
