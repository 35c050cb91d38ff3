//! An AIE section is read by each reader's rules; what ROCR takes is written again as it was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use npu_build::hsaco::section::{Section, SectionImage, WriteKernel};

fuzz_target!(|bytes: &[u8]| {
    let Ok(section) = Section::parse(bytes) else {
        return;
    };
    let dumped = section.check_as_dumper();
    let Ok(kernels) = section.check() else {
        return;
    };
    let names: Vec<_> = kernels
        .iter()
        .map(|kernel| std::str::from_utf8(kernel.name))
        .collect();
    assert_eq!(dumped.is_ok(), names.iter().all(Result::is_ok));
    let written: Option<Vec<_>> = (kernels.iter().zip(&names))
        .map(|(kernel, name)| {
            Some(WriteKernel {
                name: name.ok()?,
                kind: kernel.kind,
                insts: kernel.insts,
                pdi: kernel.pdi,
                kernarg_size: kernel.entry.kernarg_size,
                columns: kernel.entry.columns,
            })
        })
        .collect();
    if let Some(image) = written.and_then(|written| SectionImage::new(&written).ok()) {
        let bytes = image.to_vec();
        let again = Section::parse(&bytes).and_then(|section| section.check());
        assert_eq!(again.map(|kernels| kernels.len()), Ok(kernels.len()));
    }
});
