//! What goes wrong, through the shim: each is a clear error, and nothing is left behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use common::{
    Artifact, FAILED, IN, INVALID, OUT, STATE, Scene, adding_elf, adding_xclbin, counting, memory,
    renamed, sums,
};
use std::process::Command;

#[test]
fn a_run_that_does_not_complete_is_a_failure_whatever_the_buffers_hold() {
    for (name, state) in [
        ("error", 5),
        ("abort", 6),
        ("timeout", 8),
        ("noresponse", 9),
    ] {
        for (device, artifact) in [("npu2", adding_elf()), ("npu1", adding_xclbin())] {
            let scene = Scene::on(device);
            let kernel = scene.shim.load(&artifact).unwrap();
            let (mut x, mut y, mut z) = (counting(), vec![1; 256], vec![-1; 256]);
            scene.driver.set("STATE", &format!("{name}@1"));
            let arguments = [memory(&mut x, IN), memory(&mut y, IN), memory(&mut z, OUT)];
            let failure = scene.shim.launch(kernel, &arguments).unwrap_err();
            assert_eq!(
                (failure.code, failure.state, failure.call),
                (STATE, state, 0)
            );
            let upper = name.to_uppercase();
            assert!(
                failure
                    .text
                    .contains(&format!("{upper} ({state}) instead of COMPLETED")),
                "{failure:?}"
            );
            assert!(failure.text.contains(&artifact.kernel), "{failure:?}");
            assert_eq!(z, [-1; 256]);
            // The context is of no more use, so the next launch gets another one.
            let (contexts, z) =
                scene.growth("contexts", || scene.shim.combine(kernel, &mut x, &mut y));
            assert_eq!((contexts, z.unwrap()), (1, sums(&x, &y)));
            scene.shim.unload(kernel);
        }
    }
}

#[test]
fn each_call_of_xrt_may_fail_once() {
    for (device, artifact, points) in [
        (
            "npu2",
            adding_elf(),
            &[
                "elf", "context", "kernel", "run", "bo", "set_arg", "sync", "start",
            ][..],
        ),
        (
            "npu1",
            adding_xclbin(),
            &[
                "xclbin",
                "register_xclbin",
                "context",
                "kernel",
                "run",
                "bo",
                "set_arg",
                "sync",
                "start",
            ],
        ),
    ] {
        for point in points {
            for attempt in 1..=4 {
                let scene = Scene::on(device);
                let (mut x, mut y) = (counting(), vec![attempt; 256]);
                scene.driver.set("FAIL", &format!("{point}@{attempt}"));
                let all = || {
                    let kernel = scene.shim.load(&artifact)?;
                    let done = scene.shim.combine(kernel, &mut x, &mut y);
                    scene.shim.unload(kernel);
                    done
                };
                let mut all = all;
                let mut failed = 0;
                for _ in 0..attempt + 1 {
                    match all() {
                        Ok(z) => {
                            assert_eq!(z, sums(&counting(), &[attempt; 256]), "{point}@{attempt}")
                        }
                        Err(failure) => {
                            assert_eq!(failure.code, FAILED);
                            assert!(
                                failure.text.contains(&format!("fail at {point}")),
                                "{failure:?}"
                            );
                            failed += 1;
                        }
                    }
                }
                assert_eq!(failed, 1, "{point}@{attempt}");
            }
        }
    }
}

#[test]
fn a_kernel_survives_a_launch_that_could_not_be_made() {
    for point in ["bo", "set_arg", "sync", "start", "run"] {
        let scene = Scene::on("npu2");
        let kernel = scene.shim.load(&adding_elf()).unwrap();
        let (mut x, mut y) = (counting(), vec![1; 256]);
        for attempt in 1..=4 {
            scene.driver.set("FAIL", &format!("{point}@{attempt}"));
            // Memory that the run is not bound to yet.
            let mut longer = vec![2; 256 + attempt as usize];
            let mut z = vec![0; 256];
            let arguments = [
                memory(&mut x, IN),
                memory(&mut longer, IN),
                memory(&mut z, OUT),
            ];
            let _ = scene.shim.launch(kernel, &arguments);
            scene.driver.unset("FAIL");
            assert_eq!(
                scene.shim.combine(kernel, &mut x, &mut y).unwrap(),
                sums(&x, &y),
                "{point}@{attempt}"
            );
        }
        scene.shim.unload(kernel);
    }
}

#[test]
fn a_context_is_asked_for_once_more_after_another_was_freed() {
    let scene = Scene::on("npu2");
    let first = scene.shim.load(&renamed(&adding_elf(), "first")).unwrap();
    scene.driver.set("FAIL", "context@1");
    let before = scene.shim.counts();
    let second = scene.shim.load(&renamed(&adding_elf(), "second")).unwrap();
    assert_eq!(scene.shim.counts().evicted - before.evicted, 1);
    scene.driver.set("FAIL", "context@*");
    let (tries, refused) = scene.growth("contexts", || {
        scene.shim.load(&renamed(&adding_elf(), "third"))
    });
    let refused = refused.err().unwrap();
    assert_eq!((tries, refused.code), (0, FAILED));
    assert!(refused.text.contains("fail at context"), "{refused:?}");
    scene.driver.unset("FAIL");
    let (mut x, mut y) = (counting(), vec![1; 256]);
    for kernel in [first, second] {
        assert_eq!(
            scene.shim.combine(kernel, &mut x, &mut y).unwrap(),
            sums(&x, &y)
        );
        scene.shim.unload(kernel);
    }
}

#[test]
fn contexts_that_other_processes_hold_leave_one_at_a_time() {
    let scene = Scene::on("npu1");
    scene.driver.set("CONTEXTS", "1");
    let load = |key: &str| scene.shim.load(&renamed(&adding_xclbin(), key)).unwrap();
    let kernels = ["a", "b", "c"].map(load);
    let (mut x, mut y) = (counting(), vec![1; 256]);
    for kernel in kernels.iter().chain(&kernels) {
        assert_eq!(
            scene.shim.combine(*kernel, &mut x, &mut y).unwrap(),
            sums(&x, &y)
        );
    }
    scene.driver.set("CONTEXTS", "0");
    let none = scene
        .shim
        .load(&renamed(&adding_xclbin(), "d"))
        .err()
        .unwrap();
    assert!(none.text.contains("CREATE_HWCTX IOCTL failed"), "{none:?}");
    for kernel in kernels {
        scene.shim.unload(kernel);
    }
}

#[test]
fn arguments_are_counted_before_xrt_sees_them() {
    for (device, artifact, most) in [("npu2", adding_elf(), 3), ("npu1", adding_xclbin(), 5)] {
        let scene = Scene::on(device);
        let kernel = scene.shim.load(&artifact).unwrap();
        let mut x = vec![0; 256];
        let (starts, refused) = scene.growth("starts", || {
            scene
                .shim
                .launch(kernel, &vec![memory(&mut x, IN); most + 1])
        });
        let refused = refused.unwrap_err();
        assert_eq!((starts, refused.code), (0, INVALID));
        let text = format!("takes {most} buffers, and not {}", most + 1);
        assert!(refused.text.contains(&text), "{refused:?}");
        scene.shim.unload(kernel);
    }
    let scene = Scene::on("npu2");
    let kernel = scene.shim.load(&adding_elf()).unwrap();
    let mut x = vec![0; 256];
    let few = scene
        .shim
        .launch(kernel, &[memory(&mut x, IN)])
        .unwrap_err();
    assert_eq!(few.code, FAILED);
    assert!(few.text.contains("3 patched arguments"), "{few:?}");
    scene.shim.unload(kernel);
}

#[test]
fn memory_that_is_too_small_is_an_error_of_the_device() {
    let scene = Scene::on("npu2");
    let kernel = scene.shim.load(&adding_elf()).unwrap();
    let (mut x, mut short, mut z) = (counting(), vec![1; 100], vec![0; 256]);
    let arguments = [
        memory(&mut x, IN),
        memory(&mut short, IN),
        memory(&mut z, OUT),
    ];
    let failure = scene.shim.launch(kernel, &arguments).unwrap_err();
    assert_eq!((failure.code, failure.state), (STATE, 5));
    let buffer = scene.shim.buffer(8).unwrap();
    let mut larger = buffer.argument(IN);
    let arguments = [memory(&mut x, IN), memory(&mut x, IN), larger];
    assert!(scene.shim.launch(kernel, &arguments).is_err());
    larger = common::larger(larger, 4096);
    let arguments = [memory(&mut x, IN), memory(&mut x, IN), larger];
    let failure = scene.shim.launch(kernel, &arguments).unwrap_err();
    assert_eq!(failure.code, INVALID);
    assert!(
        failure.text.contains("larger than its buffer"),
        "{failure:?}"
    );
    scene.shim.free(buffer);
    scene.shim.unload(kernel);
}

#[test]
fn what_is_no_artifact_for_the_device_is_refused() {
    let elf = adding_elf();
    let xclbin = adding_xclbin();
    let cases: [(&str, Artifact, &str); 10] = [
        (
            "npu2",
            Artifact {
                arguments: 4,
                ..elf.clone()
            },
            "takes 3 buffers, and not 4",
        ),
        (
            "npu1",
            Artifact {
                arguments: 6,
                ..xclbin.clone()
            },
            "takes 5 buffers, and not 6",
        ),
        (
            "npu1",
            elf.clone(),
            "does not support hardware contexts of an ELF",
        ),
        (
            "npu2",
            Artifact {
                bytes: b"garbage".to_vec(),
                key: "1".into(),
                ..elf.clone()
            },
            "not valid ELF data",
        ),
        (
            "npu2",
            Artifact {
                bytes: elf.bytes[..900].to_vec(),
                key: "2".into(),
                ..elf.clone()
            },
            "not valid ELF data",
        ),
        (
            "npu2",
            Artifact {
                kernel: "other:sequence".into(),
                ..elf.clone()
            },
            "no ELF found with given kernel name",
        ),
        (
            "npu2",
            Artifact {
                kernel: "main:other".into(),
                ..elf.clone()
            },
            "Unable to find group idx",
        ),
        (
            "npu1",
            Artifact {
                bytes: elf.bytes.clone(),
                key: "3".into(),
                ..xclbin.clone()
            },
            "Invalid xclbin",
        ),
        (
            "npu1",
            Artifact {
                kernel: "IREE".into(),
                ..xclbin.clone()
            },
            "starts with `IREE`; it has: MLIR_AIE",
        ),
        (
            "npu1",
            Artifact {
                insts: Some(vec![1, 2, 3]),
                ..xclbin.clone()
            },
            "4-byte words, and this one has 3 bytes",
        ),
    ];
    for (device, artifact, text) in cases {
        let scene = Scene::on(device);
        let refused = scene.shim.load(&artifact).err().unwrap();
        assert!(refused.text.contains(text), "{refused:?}");
        assert_eq!(scene.shim.counts().sessions, 0);
        // The text is cut to the room there is, and not beyond.
        for room in [1, 2, 17] {
            let cut = scene.shim.load_with(&artifact, room).err().unwrap().text;
            assert_eq!(cut, refused.text[..room - 1]);
        }
    }
}

#[test]
fn instructions_for_another_device_end_in_an_error() {
    let scene = Scene::on("npu2");
    let kernel = scene.shim.load(&adding_xclbin()).unwrap();
    let failure = scene
        .shim
        .combine(kernel, &mut counting(), &mut counting())
        .unwrap_err();
    assert_eq!((failure.code, failure.state), (STATE, 5));
    scene.shim.unload(kernel);
}

#[test]
fn no_device_is_an_error_and_a_second_one_too() {
    let scene = Scene::on("none");
    let none = scene.shim.open(0).unwrap_err();
    assert_eq!(none.code, FAILED);
    assert!(
        none.text.contains("No such device with index '0'"),
        "{none:?}"
    );
    drop(scene);
    let scene = Scene::on("npu2");
    let other = scene.shim.open(1).unwrap_err();
    assert!(
        other.text.contains("No such device with index '1'"),
        "{other:?}"
    );
    scene.shim.open(0).unwrap();
    scene.shim.open(0).unwrap();
    assert_eq!(scene.driver.count("devices_live"), 1);
    assert_eq!(scene.shim.open(1).unwrap_err().code, INVALID);
}

#[test]
fn memory_runs_out() {
    let scene = Scene::on("npu2");
    scene.driver.set("MEMORY", "10000");
    let out = scene.shim.buffer(10_000).err().unwrap();
    assert_eq!(out.code, FAILED);
    assert!(
        out.text
            .contains("failed to allocate a buffer of 40000 bytes"),
        "{out:?}"
    );
    scene.driver.unset("MEMORY");
}

/// A run that never ends can't be destroyed, since XRT ends the process then: it is left alone, and
/// its context with it. In a process of its own, because that lasts.
#[test]
fn a_run_that_never_ends_is_abandoned() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "abandoning", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "run by a_run_that_never_ends_is_abandoned"]
fn abandoning() {
    let scene = std::mem::ManuallyDrop::new(Scene::on("npu2"));
    let kernel = scene.shim.load(&adding_elf()).unwrap();
    let (mut x, mut y) = (counting(), vec![1; 256]);
    scene.driver.set("FAIL", "wait@1");
    let failure = scene.shim.combine(kernel, &mut x, &mut y).unwrap_err();
    assert_eq!(failure.code, FAILED);
    assert!(failure.text.contains("fail at wait"), "{failure:?}");
    assert_eq!(scene.shim.counts().abandoned, 1);
    assert_eq!(
        scene.shim.combine(kernel, &mut x, &mut y).unwrap(),
        sums(&x, &y)
    );
    scene.shim.unload(kernel);
    scene.shim.close().unwrap();
    assert_eq!(scene.driver.count("contexts_live"), 1);
}
