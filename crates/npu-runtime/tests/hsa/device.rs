//! Finding ROCR and its NPU, and what is said when there is none.

use crate::emulated::{self, alone, alone_and_untidy, counters};
use npu_runtime::{Device, DeviceFault, Error, Npu, Runtime};
use std::fs;
use std::path::Path;

fn refused() -> Error {
    Device::open(Runtime::Hsa).unwrap_err()
}

fn fault() -> DeviceFault {
    match refused() {
        Error::Device(error) => error.fault,
        error => panic!("{error}"),
    }
}

#[test]
fn the_agents_that_are_known_are_taken_for_what_they_are() {
    alone(&[], || {
        let device = Device::open(Runtime::Hsa).unwrap();
        assert_eq!(
            (device.runtime(), device.npu()),
            (Runtime::Hsa, Some(Npu::Npu2))
        );
        assert_eq!(format!("{device:?}"), "Device(hsa, npu2)");
    });
}

/// All handles are to one device; what it has is made once.
#[test]
fn the_device_is_one_for_the_process() {
    alone(&[], || {
        let devices: Vec<Device> = std::thread::scope(|scope| {
            let open = || scope.spawn(|| Device::open(Runtime::Hsa).unwrap());
            let threads: Vec<_> = (0..16).map(|_| open()).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let counters = counters();
        assert_eq!((counters.inits.total, counters.queues.total), (1, 1));
        drop(devices);
        emulated::assert_nothing_is_left();
        // It can be opened again.
        Device::open(Runtime::Hsa).unwrap();
        assert_eq!(emulated::counters().queues.total, 2);
    });
}

#[test]
fn the_environment_may_name_the_runtime() {
    alone(&[("NPU_RUNTIME", "hsa")], || {
        assert_eq!(Device::from_env().unwrap().runtime(), Runtime::Hsa);
    });
}

#[test]
fn hsa_is_never_chosen_by_itself() {
    alone(&[("NPU_RUNTIME", "")], || {
        let error = Device::from_env().unwrap_err();
        assert!(matches!(error, Error::NoRuntime), "{error}");
        assert!(error.to_string().contains("set NPU_RUNTIME"), "{error}");
    });
}

#[test]
fn an_unknown_agent_is_refused_unless_one_insists() {
    alone(&[("ROCR_DOUBLE_AGENT", "aie4")], || {
        let error = refused().to_string();
        assert!(error.contains("`aie4`"), "{error}");
        assert!(
            error.contains("set NPU_RUNTIME_HSA_DEVICE to npu1 or npu2"),
            "{error}"
        );
        assert!(
            error.contains(&emulated::root().display().to_string()) || error.contains("libhsa")
        );
    });
}

#[test]
fn who_insists_by_this_project_s_variable_is_believed() {
    alone(
        &[
            ("ROCR_DOUBLE_AGENT", "aie4"),
            ("NPU_RUNTIME_HSA_DEVICE", "npu2"),
        ],
        || assert_eq!(Device::open(Runtime::Hsa).unwrap().npu(), Some(Npu::Npu2)),
    );
}

#[test]
fn who_insists_by_iron_s_variable_is_believed() {
    alone(
        &[("ROCR_DOUBLE_AGENT", "aie4"), ("IRON_HSA_DEVICE", "npu1")],
        || assert_eq!(Device::open(Runtime::Hsa).unwrap().npu(), Some(Npu::Npu1)),
    );
}

#[test]
fn nobody_insists_against_a_name_that_is_known() {
    alone(&[("NPU_RUNTIME_HSA_DEVICE", "npu1")], || {
        assert!(matches!(fault(), DeviceFault::Contradiction { .. }));
    });
}

/// The loader would map what is not there, and the process would be killed.
#[test]
fn a_rocr_that_is_cut_off_is_refused() {
    let whole = std::fs::read(emulated::root().join("lib/libhsa-runtime64.so.1")).unwrap();
    for (number, length) in [5000, whole.len() / 2, whole.len() / 4 * 3]
        .iter()
        .enumerate()
    {
        let root = emulated::directory(&format!("cut-off-{number}"));
        std::fs::create_dir_all(root.join("lib")).unwrap();
        let library = root.join("lib/libhsa-runtime64.so.1");
        std::fs::write(library, &whole[..*length]).unwrap();
        let variables = [("ROCM_PATH", root.to_str().unwrap())];
        alone_and_untidy(&variables, || {
            let error = refused().to_string();
            assert!(error.contains("it is cut off"), "{error}");
        });
    }
}

#[test]
fn a_rocr_without_an_npu_is_named_with_what_it_may_come_from() {
    alone(&[("ROCR_DOUBLE_AGENT", "none")], || {
        let error = refused().to_string();
        assert!(error.contains("libhsa-runtime64.so.1"), "{error}");
        assert!(
            error.contains("too old") && error.contains("amdxdna"),
            "{error}"
        );
    });
}

/// Each call of opening fails once; what was made before is given back, and the next try works.
#[test]
fn a_call_that_fails_is_named_with_rocr_s_text_and_undone() {
    const CALLS: [&str; 8] = [
        "hsa_init",
        "hsa_iterate_agents",
        "hsa_agent_get_info",
        "hsa_amd_agent_iterate_memory_pools",
        "hsa_amd_memory_pool_get_info",
        "hsa_system_get_info",
        "hsa_queue_create",
        "hsa_amd_memory_pool_allocate",
    ];
    let failures = CALLS.map(|call| format!("{call}@1=0x1008")).join(",");
    alone(&[("ROCR_DOUBLE_FAIL", &failures)], || {
        for call in CALLS {
            let error = refused();
            let Error::Call(error) = error else {
                panic!("{error}");
            };
            assert_eq!((error.call, error.status), (call, 0x1008));
            let text = error.to_string();
            assert!(text.contains("HSA_STATUS_ERROR_OUT_OF_RESOURCES"), "{text}");
            emulated::assert_nothing_is_left();
        }
        Device::open(Runtime::Hsa).unwrap();
    });
}

#[test]
fn a_signal_that_can_not_be_made_leaves_nothing_behind() {
    alone(
        &[("ROCR_DOUBLE_FAIL", "hsa_signal_create@1=0x1008")],
        || {
            assert!(matches!(refused(), Error::Call(_)));
            emulated::assert_nothing_is_left();
            Device::open(Runtime::Hsa).unwrap();
        },
    );
}

/// A limit of locked memory below the device heap's size is what a driver without the right to
/// lock more stumbles over.
#[test]
fn a_low_limit_of_locked_memory_is_named() {
    alone(&[("ROCR_DOUBLE_FAIL", "hsa_init@1=0x1008")], || {
        let limit = rustix::process::Resource::Memlock;
        let lowered = rustix::process::Rlimit {
            current: Some(64 << 10),
            maximum: rustix::process::getrlimit(limit).maximum,
        };
        rustix::process::setrlimit(limit, lowered).unwrap();
        let error = refused().to_string();
        assert!(
            error.contains("64 KiB of locked memory") && error.contains("ulimit -l"),
            "{error}"
        );
    });
}

/// Every place that was tried is told, in order, each with its reason.
#[test]
fn candidates_that_fail_are_all_reported() {
    let places = emulated::directory(&format!("places-{}", std::process::id()));
    let lib = places.join("garbage/lib");
    fs::create_dir_all(&lib).unwrap();
    fs::write(
        lib.join("libhsa-runtime64.so.1"),
        "no library\n".repeat(1000),
    )
    .unwrap();
    let empty = places.join("empty");
    fs::create_dir_all(&empty).unwrap();
    let (garbage, empty) = (places.join("garbage"), empty);
    alone_and_untidy(
        &[
            ("AMD_NPU_ROCR_PATH", garbage.to_str().unwrap()),
            ("ROCM_PATH", empty.to_str().unwrap()),
        ],
        || {
            let Err(Error::Library(error)) = Device::open(Runtime::Hsa) else {
                panic!();
            };
            let origins: Vec<_> = error.candidates.iter().map(|place| place.origin).collect();
            assert_eq!(
                origins,
                ["AMD_NPU_ROCR_PATH", "ROCM_PATH", "the usual place"]
            );
            // The loader's own words, and what a directory lacks.
            let text = error.to_string();
            assert!(text.contains("invalid ELF header"), "{text}");
            assert!(text.contains("it has no libhsa-runtime64.so"), "{text}");
            assert!(text.contains("AMD_NPU_ROCR_PATH to the root"), "{text}");
        },
    );
}

/// A candidate that fails does not keep the next one from being taken.
#[test]
fn the_next_candidate_is_tried() {
    alone(&[("AMD_NPU_ROCR_PATH", "/nowhere")], || {
        Device::open(Runtime::Hsa).unwrap();
    });
}

/// Debian's own ROCR knows no NPUs: a real library of the kind that is too old.
#[test]
fn debian_s_rocr_is_refused_by_what_it_lacks() {
    let debian = Path::new("/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1");
    if !debian.exists() {
        assert!(
            std::env::var_os("CI").is_none(),
            "libhsa-runtime64-1 is not installed"
        );
        println!("skipped: libhsa-runtime64-1 is not installed");
        return;
    }
    alone_and_untidy(&[("ROCM_PATH", "/usr")], || {
        let Err(Error::Library(error)) = Device::open(Runtime::Hsa) else {
            panic!();
        };
        let place = error
            .candidates
            .iter()
            .find(|place| place.path.ends_with("libhsa-runtime64.so.1"))
            .unwrap();
        assert_eq!(place.origin, "ROCM_PATH");
        for symbol in ["hsa_amd_vmem_handle_create", "hsa_amd_vmem_map", "ROCR_1"] {
            assert!(place.reason.contains(symbol), "{}", place.reason);
        }
        let text = error.to_string();
        assert!(
            text.contains("/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1"),
            "{text}"
        );
        assert!(text.contains("rocm-sdk-core"), "{text}");
    });
}
