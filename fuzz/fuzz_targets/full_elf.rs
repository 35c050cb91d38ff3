//! A full ELF is read as the packer and as ROCR read it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use npu_build::hsaco::Arch;
use npu_build::hsaco::full_elf::{FullElf, outline};

fuzz_target!(|bytes: &[u8]| {
    let outline = outline(bytes);
    if let Ok(elf) = FullElf::parse(bytes, Arch::Aie2p) {
        for kernel in &elf.kernels {
            let size = u64::try_from(kernel.control.len()).expect("64 bits");
            assert!(
                kernel
                    .pdis
                    .iter()
                    .all(|site| u64::from(site.offset) + 8 <= size)
            );
            assert!(
                kernel
                    .arguments
                    .iter()
                    .all(|site| u64::from(site.offset) + 12 <= size)
            );
        }
        if let Ok(outline) = outline {
            assert!(
                elf.kernels
                    .iter()
                    .all(|kernel| outline.kernels.contains(&kernel.name))
            );
        }
    }
});
