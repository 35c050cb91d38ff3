//! Hsacos that can't be loaded: found before ROCR sees them where that can be, and otherwise told
//! in ROCR's words and with what they may come from.

use crate::emulated::{alone, calls, counters};
use crate::kernels::{self, Form, add_image, binary, device, packed, unary};
use npu_runtime::{Artifact, ArtifactFault, Compiled, ElementType, Error, HsacoFault, Image};
use npu_runtime::{Kernel, Npu};

fn image_of(bytes: Vec<u8>) -> Image {
    Image::Hsaco {
        hsaco: Artifact::bytes(bytes),
        kernel: "k".into(),
        compiled: Compiled::for_target(Npu::Npu2),
    }
}

fn load(bytes: Vec<u8>) -> Error {
    Kernel::load(&device(), &[image_of(bytes)], unary()).unwrap_err()
}

fn fault(bytes: Vec<u8>) -> HsacoFault {
    match load(bytes) {
        Error::Artifact {
            fault: ArtifactFault::Hsaco(fault),
            ..
        } => *fault,
        error => panic!("{error}"),
    }
}

fn packed_with(columns: u32) -> Vec<u8> {
    packed("aie2p", "k", &[0; 8], b"PDI", 16, columns)
}

#[test]
fn what_is_no_hsaco_never_comes_to_rocr() {
    alone(&[], || {
        let _device = device();
        assert_eq!(fault(vec![]), HsacoFault::Empty);
        assert_eq!(fault(b"xclbin2\0".to_vec()), HsacoFault::NotElf);
        assert_eq!(
            fault(kernels::container(&[(".text", b"code".to_vec())])),
            HsacoFault::NoSection
        );
        assert_eq!(
            fault(packed("aie2", "k", &[0; 8], b"PDI", 16, 1)),
            HsacoFault::Arch {
                expected: "aie2p".into(),
                found: vec!["aie2".into()]
            }
        );
        let mut cut = packed_with(1);
        cut.truncate(100);
        assert!(matches!(fault(cut), HsacoFault::Malformed { .. }));
        assert_eq!(calls(c"hsa_code_object_reader_create_from_memory"), 0);
    });
}

#[test]
fn columns_are_compared_with_the_device_s() {
    alone(&[], || {
        let _device = device();
        for declared in [0, 9] {
            assert_eq!(
                fault(packed_with(declared)),
                HsacoFault::Columns {
                    name: "k".into(),
                    declared,
                    available: 8
                }
            );
        }
        assert_eq!(calls(c"hsa_executable_create_alt"), 0);
        Kernel::load(&device(), &[image_of(packed_with(8))], unary()).unwrap();
    });
}

#[test]
fn npu1_has_four_columns() {
    alone(&[("ROCR_DOUBLE_AGENT", "aie2")], || {
        let image = |columns| Image::Hsaco {
            hsaco: Artifact::bytes(packed("aie2", "k", &[0; 8], b"PDI", 16, columns)),
            kernel: "k".into(),
            compiled: Compiled::for_target(Npu::Npu1),
        };
        let device = device();
        Kernel::load(&device, &[image(4)], unary()).unwrap();
        let error = Kernel::load(&device, &[image(5)], unary()).unwrap_err();
        assert!(error.to_string().contains("the device has 4"), "{error}");
    });
}

/// The section is that of the agent's arch, not the first one.
#[test]
fn an_hsaco_for_several_archs_is_loaded_by_its_own() {
    const AGENTS: [(&str, &str, Npu); 2] =
        [("aie2", "one", Npu::Npu1), ("aie2p", "two", Npu::Npu2)];
    let load = || {
        let device = device();
        let sections = AGENTS.map(|(arch, name, npu)| {
            let section = kernels::section(name, &[0; 8], b"PDI", 16, npu.columns());
            (arch, section)
        });
        let bytes = kernels::container(&sections);
        for (_, name, npu) in AGENTS {
            let image = Image::Hsaco {
                hsaco: Artifact::bytes(bytes.clone()),
                kernel: name.into(),
                compiled: Compiled::for_target(npu),
            };
            let loaded = Kernel::load(&device, &[image], unary());
            assert_eq!(loaded.is_ok(), device.npu() == Some(npu), "{loaded:?}");
        }
    };
    alone(&[], load);
    alone(&[("ROCR_DOUBLE_AGENT", "aie2")], load);
}

#[test]
fn a_kernel_that_is_not_there_is_told_with_those_that_are() {
    alone(&[], || {
        let Image::Hsaco {
            hsaco, compiled, ..
        } = image_of(packed_with(1))
        else {
            panic!();
        };
        let kernel = "other".into();
        let image = Image::Hsaco {
            hsaco,
            kernel,
            compiled,
        };
        let error = Kernel::load(&device(), &[image], unary())
            .unwrap_err()
            .to_string();
        assert!(error.contains("no kernel `other`; it has `k`"), "{error}");
    });
}

/// The image is chosen by runtime and target; without one, the error says how to compile it.
#[test]
fn the_image_that_fits_is_taken() {
    alone(&[], || {
        let device = device();
        let cpu = Image::Object(Artifact::embedded(b""));
        let other = Image::Hsaco {
            hsaco: Artifact::embedded(b""),
            kernel: "k".into(),
            compiled: Compiled::for_target(Npu::Npu1),
        };
        let images = [cpu, other, add_image(Form::FullElf)];
        Kernel::load(&device, &images, binary(ElementType::I32)).unwrap();
        let error = Kernel::load(&device, &images[..2], unary()).unwrap_err();
        assert!(matches!(error, Error::NoImage(_)));
        let text = error.to_string();
        assert!(text.contains("cpu and hsa on npu1"), "{text}");
        assert!(text.contains("--target npu2 --runtime hsa"), "{text}");
    });
}

#[test]
fn a_signature_of_another_kernel_is_refused() {
    alone(&[], || {
        let error = Kernel::load(&device(), &[add_image(Form::FullElf)], unary()).unwrap_err();
        let Error::Operands {
            expected, found, ..
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((expected, found), (1, 3));
    });
}

/// Both causes of 0x1010 are named: a malformed hsaco, and a ROCR that knows none.
#[test]
fn an_old_rocr_and_a_malformed_hsaco_can_not_be_told_apart() {
    alone(&[("ROCR_DOUBLE_OLD", "hsaco")], || {
        let _device = device();
        let error = load(packed_with(1)).to_string();
        for part in [
            "0x1010",
            "HSA_STATUS_ERROR_INVALID_CODE_OBJECT",
            "malformed",
            "npu-build hsaco dump",
            "too old",
            "10.3.0a20261027",
            "libhsa-runtime64.so.1",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(counters().executables.live, 0);
    });
}

/// A PDI that only ROCR misses.
#[test]
fn what_only_rocr_refuses_is_told_the_same_way() {
    alone(&[], || {
        let _device = device();
        let error = load(packed("aie2p", "k", &[0; 8], b"", 16, 1)).to_string();
        assert!(
            error.contains("0x1010") && error.contains("malformed"),
            "{error}"
        );
        let counters = counters();
        assert_eq!((counters.executables.live, counters.readers.live), (0, 0));
    });
}

#[test]
fn each_call_of_loading_is_named_and_undone_when_it_fails() {
    const CALLS: [&str; 6] = [
        "hsa_executable_create_alt",
        "hsa_code_object_reader_create_from_memory",
        "hsa_executable_load_agent_code_object",
        "hsa_executable_freeze",
        "hsa_executable_get_symbol_by_name",
        "hsa_executable_symbol_get_info",
    ];
    let failures = CALLS.map(|call| format!("{call}@1=0x1000")).join(",");
    alone(&[("ROCR_DOUBLE_FAIL", &failures)], || {
        let device = device();
        for call in CALLS {
            let error = load(packed_with(1));
            let Error::Call(error) = error else {
                panic!("{error}");
            };
            assert_eq!(error.call, call);
            let counters = counters();
            assert_eq!((counters.executables.live, counters.readers.live), (0, 0));
        }
        Kernel::load(&device, &[image_of(packed_with(1))], unary()).unwrap();
    });
}

/// Whatever ROCR answers is told by number, name and text, and nothing is left of the attempt.
#[test]
fn every_status_of_loading_is_told_in_rocr_s_words() {
    const STATUSES: [(u32, &str); 8] = [
        (0x1003, "INVALID_ALLOCATION"),
        (0x1008, "OUT_OF_RESOURCES"),
        (0x100d, "INCOMPATIBLE_ARGUMENTS"),
        (0x1010, "INVALID_CODE_OBJECT"),
        (0x1012, "FROZEN_EXECUTABLE"),
        (0x1014, "VARIABLE_ALREADY_DEFINED"),
        (0x1015, "VARIABLE_UNDEFINED"),
        (0x1021, "INVALID_CODE_OBJECT_READER"),
    ];
    let failures: Vec<String> = (1..)
        .zip(STATUSES)
        .map(|(n, (status, _))| format!("hsa_executable_load_agent_code_object@{n}={status}"))
        .collect();
    alone(&[("ROCR_DOUBLE_FAIL", &failures.join(","))], || {
        let device = device();
        for (status, name) in STATUSES {
            let text = load(packed_with(1)).to_string();
            assert!(text.contains(&format!("{status:#x}")), "{text}");
            assert!(
                text.contains(&format!("HSA_STATUS_ERROR_{name}: ")),
                "{text}"
            );
            let counters = counters();
            assert_eq!((counters.executables.live, counters.readers.live), (0, 0));
        }
        Kernel::load(&device, &[image_of(packed_with(1))], unary()).unwrap();
    });
}

/// 64 MiB are all there is; what no kernel uses makes room.
#[test]
fn idle_executables_make_room_for_new_ones() {
    alone(&[], || {
        let device = device();
        let large = |byte: u8| {
            let pdi = vec![byte; 20 << 20];
            let bytes = packed("aie2p", "k", &[0; 8], &pdi, 16, 1);
            Kernel::load(&device, &[image_of(bytes)], unary())
        };
        let kept = large(1).unwrap();
        for byte in 2..6 {
            large(byte).unwrap();
        }
        // With all of them in use there is no room.
        let (_second, _third) = (large(7).unwrap(), large(8).unwrap());
        let error = large(9).unwrap_err().to_string();
        assert!(
            error.contains("64 MiB") && error.contains("drop"),
            "{error}"
        );
        drop(kept);
        large(9).unwrap();
    });
}
