//! An xclbin is read; a PDI and an instruction stream are recognised.
#![no_main]

use libfuzzer_sys::fuzz_target;
use npu_build::hsaco::Arch;
use npu_build::hsaco::insts::Insts;
use npu_build::hsaco::pdi;
use npu_build::hsaco::xclbin::{Partition, Xclbin};

fuzz_target!(|bytes: &[u8]| {
    let _ = (pdi::validate(bytes), Insts::parse_for(bytes, Arch::Aie2));
    let _ = Partition::parse(bytes).map(|partition| partition.only_pdi().map(<[u8]>::len));
    // The length field must agree with the size, which a fuzzer does not find by itself.
    let mut bytes = bytes.to_vec();
    let size = u64::try_from(bytes.len()).expect("64 bits");
    if let Some(field) = bytes.get_mut(0x130..0x138) {
        field.copy_from_slice(&size.to_le_bytes());
    }
    if let Ok(xclbin) = Xclbin::parse(&bytes) {
        let _ = (xclbin.partition(), xclbin.kernel_names(), xclbin.kernels());
    }
});
