//! An hsaco is dumped and edited (`cargo +nightly fuzz run hsaco fuzz/corpus/hsaco tests/data/aie/upstream_hsaco`).
#![no_main]

use libfuzzer_sys::fuzz_target;
use npu_build::hsaco::container::{Container, Elf64};
use npu_build::hsaco::dump::Dump;
use npu_build::hsaco::section::{SectionImage, WriteKernel};
use npu_build::hsaco::verdict::Agent;
use npu_build::hsaco::{Arch, KernelKind};

fuzz_target!(|bytes: &[u8]| {
    let dump = Dump::of(bytes, &Arch::ALL.map(Agent::of));
    let _ = (dump.text(), dump.errors());
    let kernel = WriteKernel {
        name: "k",
        kind: KernelKind::PdiInsts,
        insts: b"code",
        pdi: b"pdi",
        kernarg_size: 16,
        columns: 4,
    };
    let image = SectionImage::new(&[kernel]).expect("a few bytes fit");
    if let Ok(container) = Container::edited(bytes, Arch::Aie2, &image) {
        let edited = container.to_vec().expect("memory can be written");
        let elf = Elf64::parse(&edited).expect("what was written can be read");
        let section = elf.section(Arch::Aie2).expect("its bytes are there");
        assert_eq!(section, Some(image.to_vec().as_slice()));
    }
});
