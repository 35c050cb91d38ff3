//! Launches through the shim: results, and what they cost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use common::{
    CHECK, IN, INVALID, OUT, Scene, Shim, adding_elf, adding_xclbin, combining, counting, full_elf,
    memory, multiplying_elf, products, renamed, sums, xclbin,
};

#[test]
fn a_full_elf_computes_on_npu2() {
    let scene = Scene::on("npu2");
    assert_eq!(scene.shim.device_name(), "NPU Strix");
    let kernel = scene.shim.load(&adding_elf()).unwrap();
    let (mut x, mut y) = (counting(), vec![1000; 256]);
    assert_eq!(
        scene.shim.combine(kernel, &mut x, &mut y).unwrap(),
        sums(&x, &y)
    );
    scene.shim.unload(kernel);
}

#[test]
fn an_xclbin_computes_on_npu1_and_on_npu2() {
    for (device, artifact) in [
        ("npu1", adding_xclbin()),
        (
            "npu2",
            xclbin("add2.xclbin", &combining("npu2", "arith.addi")),
        ),
    ] {
        let scene = Scene::on(device);
        let kernel = scene.shim.load(&artifact).unwrap();
        let (mut x, mut y) = (counting(), vec![-7; 256]);
        assert_eq!(
            scene.shim.combine(kernel, &mut x, &mut y).unwrap(),
            sums(&x, &y)
        );
        scene.shim.unload(kernel);
    }
}

#[test]
fn a_shim_that_clang_compiled_computes_the_same() {
    let clang = (14..30)
        .rev()
        .map(|version| format!("clang++-{version}"))
        .chain(["clang++".to_owned()])
        .find(|name| {
            std::process::Command::new(name)
                .arg("--version")
                .output()
                .is_ok_and(|output| output.status.success())
        })
        .expect("no clang++ here");
    let scene = Scene::on("npu2");
    let shim = Shim::compile(&clang, "shim-clang.so");
    let kernel = shim.load(&adding_elf()).unwrap();
    let (mut x, mut y) = (counting(), vec![3; 256]);
    assert_eq!(shim.combine(kernel, &mut x, &mut y).unwrap(), sums(&x, &y));
    shim.unload(kernel);
    // Two shims are two users of one device, which can be open once.
    let refused = scene.shim.open(0).unwrap_err();
    assert!(refused.text.contains("No such device"), "{refused:?}");
    shim.close().unwrap();
    scene.shim.open(0).unwrap();
}

#[test]
fn launches_after_the_first_set_nothing_up() {
    for (device, artifact) in [("npu2", adding_elf()), ("npu1", adding_xclbin())] {
        let scene = Scene::on(device);
        let kernel = scene.shim.load(&artifact).unwrap();
        let (mut x, mut y) = (counting(), vec![5; 256]);
        scene.shim.combine(kernel, &mut x, &mut y).unwrap();
        let launches = || {
            for i in 0..100 {
                y[i] = i as i32;
                assert_eq!(
                    scene.shim.combine(kernel, &mut x, &mut y).unwrap(),
                    sums(&x, &y)
                );
            }
        };
        let (bindings, (set_up, ())) =
            scene.growth("set_args", || scene.growth("set_up", launches));
        assert_eq!((set_up, bindings), (0, 0), "{device}");
        scene.shim.unload(kernel);
    }
}

#[test]
fn only_what_is_read_goes_in_and_only_what_is_written_comes_out() {
    let scene = Scene::on("npu2");
    let kernel = scene.shim.load(&adding_elf()).unwrap();
    let (mut x, mut y) = (counting(), vec![5; 256]);
    let (bytes_in, (bytes_out, z)) = scene.growth("bytes_in", || {
        scene.growth("bytes_out", || scene.shim.combine(kernel, &mut x, &mut y))
    });
    assert_eq!((bytes_in, bytes_out), (2 * 1024, 1024));
    assert_eq!(z.unwrap(), sums(&x, &y));

    // An output that is longer than what the kernel writes keeps the rest if it is an input, too.
    let mut z = vec![77; 300];
    let arguments = [
        memory(&mut x, IN),
        memory(&mut y, IN),
        memory(&mut z, IN | OUT),
    ];
    scene.shim.launch(kernel, &arguments).unwrap();
    assert_eq!(z[..256], sums(&x, &y));
    assert_eq!(z[256..], [77; 44]);
    scene.shim.unload(kernel);
}

#[test]
fn staging_memory_only_grows() {
    let scene = Scene::on("npu2");
    let kernel = scene.shim.load(&adding_elf()).unwrap();
    let launch = |len: usize| {
        let (mut x, mut y, mut z) = (vec![1; len], vec![2; len], vec![0; len]);
        let arguments = [memory(&mut x, IN), memory(&mut y, IN), memory(&mut z, OUT)];
        let (made, done) = scene.growth("bos", || scene.shim.launch(kernel, &arguments));
        done.unwrap();
        assert_eq!(z[..256], [3; 256]);
        (made, scene.driver.count("bos_live"))
    };
    assert_eq!(launch(256), (3, 3));
    assert_eq!(launch(512), (3, 3), "the smaller ones are gone");
    assert_eq!(launch(300), (0, 3));
    scene.shim.unload(kernel);
}

#[test]
fn buffers_are_reached_without_a_copy() {
    for (device, artifact) in [("npu2", adding_elf()), ("npu1", adding_xclbin())] {
        let scene = Scene::on(device);
        let kernel = scene.shim.load(&artifact).unwrap();
        let [x, y, z] = [(); 3].map(|()| scene.shim.buffer(256).unwrap());
        assert_eq!(z.elements(), [0; 256]);
        x.elements().copy_from_slice(&counting());
        y.elements().fill(9);
        let arguments = [x.argument(IN), y.argument(IN), z.argument(OUT)];
        let (made, done) = scene.growth("bos", || scene.shim.launch(kernel, &arguments));
        done.unwrap();
        assert_eq!(made, 0, "nothing is staged on {device}");
        assert_eq!(z.elements(), sums(&counting(), &[9; 256]));
        assert_eq!(
            scene.shim.close().unwrap_err().code,
            INVALID,
            "buffers are in use"
        );
        // A buffer and a slice in one launch.
        let mut w = vec![100; 256];
        let arguments = [z.argument(IN), memory(&mut w, IN), x.argument(OUT)];
        scene.shim.launch(kernel, &arguments).unwrap();
        assert_eq!(x.elements(), sums(z.elements(), &w));
        for buffer in [x, y, z] {
            scene.shim.free(buffer);
        }
        scene.shim.unload(kernel);
    }
}

#[test]
fn a_buffer_in_another_bank_than_the_kernels_is_staged() {
    let scene = Scene::on("npu1");
    // Made before any xclbin is there to tell of its banks, and those are unusual.
    let [x, y, z] = [(); 3].map(|()| scene.shim.buffer(256).unwrap());
    scene.driver.set("BANKS", "5");
    let kernel = scene.shim.load(&adding_xclbin()).unwrap();
    x.elements().copy_from_slice(&counting());
    y.elements().fill(-3);
    let arguments = [x.argument(IN), y.argument(IN), z.argument(OUT)];
    let (made, done) = scene.growth("bos", || scene.shim.launch(kernel, &arguments));
    done.unwrap();
    assert_eq!(made, 3);
    assert_eq!(z.elements(), sums(&counting(), &[-3; 256]));
    // One that is made now fits.
    let w = scene.shim.buffer(256).unwrap();
    let arguments = [w.argument(IN), w.argument(IN), z.argument(OUT)];
    let (made, done) = scene.growth("bos", || scene.shim.launch(kernel, &arguments));
    done.unwrap();
    assert_eq!(made, 0);
    assert_eq!(z.elements(), [0; 256]);
    for buffer in [x, y, z, w] {
        scene.shim.free(buffer);
    }
    scene.shim.unload(kernel);
}

#[test]
fn a_buffer_that_was_freed_is_not_taken_for_its_successor() {
    let scene = Scene::on("npu2");
    let kernel = scene.shim.load(&adding_elf()).unwrap();
    for round in 0..20 {
        let [x, y, z] = [(); 3].map(|()| scene.shim.buffer(256).unwrap());
        x.elements().fill(round);
        y.elements().fill(1);
        let arguments = [x.argument(IN), y.argument(IN), z.argument(OUT)];
        scene.shim.launch(kernel, &arguments).unwrap();
        assert_eq!(z.elements(), [round + 1; 256]);
        for buffer in [x, y, z] {
            scene.shim.free(buffer);
        }
    }
    scene.shim.unload(kernel);
}

#[test]
fn one_slice_may_be_two_inputs() {
    let scene = Scene::on("npu2");
    let kernel = scene.shim.load(&multiplying_elf()).unwrap();
    let (mut x, mut z) = (counting(), vec![0; 256]);
    let arguments = [memory(&mut x, IN), memory(&mut x, IN), memory(&mut z, OUT)];
    scene.shim.launch(kernel, &arguments).unwrap();
    assert_eq!(z, products(&x, &x));
    scene.shim.unload(kernel);
}

#[test]
fn memory_that_is_written_and_read_goes_in_whichever_is_named_first() {
    let scene = Scene::on("npu2");
    let kernel = scene.shim.load(&adding_elf()).unwrap();
    let (mut x, mut z) = (counting(), vec![0; 256]);
    let arguments = [memory(&mut x, OUT), memory(&mut x, IN), memory(&mut z, OUT)];
    scene.shim.launch(kernel, &arguments).unwrap();
    assert_eq!(z, sums(&counting(), &counting()));
    let in_place = [memory(&mut z, IN), memory(&mut x, IN), memory(&mut z, OUT)];
    scene.shim.launch(kernel, &in_place).unwrap();
    assert_eq!(z, (0..256).map(|i| 3 * i).collect::<Vec<i32>>());
    scene.shim.unload(kernel);
}

#[test]
fn an_input_that_is_written_is_noticed_where_that_is_asked_for() {
    let scene = Scene::on("npu2");
    let kernel = scene.shim.load(&adding_elf()).unwrap();
    let (mut x, mut y, mut z) = (counting(), vec![1; 256], vec![0; 256]);
    let arguments = [
        memory(&mut x, IN | CHECK),
        memory(&mut y, IN | CHECK),
        memory(&mut z, OUT),
    ];
    scene.shim.launch(kernel, &arguments).unwrap();

    let arguments = [
        memory(&mut x, IN | CHECK),
        memory(&mut y, IN),
        memory(&mut z, IN | CHECK),
    ];
    scene
        .shim
        .launch(kernel, &arguments)
        .expect("it writes what was there already");
    y[9..].fill(2);
    let arguments = [
        memory(&mut x, IN | CHECK),
        memory(&mut y, IN),
        memory(&mut z, IN | CHECK),
    ];
    let noticed = scene.shim.launch(kernel, &arguments).unwrap_err();
    assert_eq!(
        (noticed.code, noticed.argument, noticed.offset),
        (common::CHANGED, 2, 36)
    );
    assert!(
        noticed
            .text
            .contains("`main:sequence` wrote its argument 2"),
        "{noticed:?}"
    );
    assert_eq!(z, sums(&x, &[1; 256]), "the slice itself is as it was");

    let buffer = scene.shim.buffer(256).unwrap();
    let arguments = [
        memory(&mut x, IN),
        memory(&mut y, IN),
        buffer.argument(IN | CHECK),
    ];
    assert_eq!(
        scene.shim.launch(kernel, &arguments).unwrap_err().code,
        common::CHANGED
    );
    scene.shim.free(buffer);
    scene.shim.unload(kernel);
}

#[test]
fn kernels_of_one_elf_share_a_context() {
    let scene = Scene::on("npu2");
    let text = include_str!("../../../data/aie/two_kernels_npu2/kernel.mlir");
    let first = full_elf("two.elf", text, "first:copy_i32");
    let second = common::Artifact {
        kernel: "second:copy_i8".to_owned(),
        ..first.clone()
    };
    let a = scene.shim.load(&first).unwrap();
    let b = scene.shim.load(&second).unwrap();
    assert_eq!(scene.driver.count("contexts_live"), 1);
    let (mut x, mut y, mut z) = (
        (0..4096).collect::<Vec<i32>>(),
        vec![0; 4096],
        vec![0; 2048],
    );
    scene
        .shim
        .launch(a, &[memory(&mut x, IN), memory(&mut y, OUT)])
        .unwrap();
    scene
        .shim
        .launch(b, &[memory(&mut x[..2048], IN), memory(&mut z, OUT)])
        .unwrap();
    assert_eq!((&y, &z[..]), (&x, &x[..2048]));
    scene.shim.unload(a);
    scene
        .shim
        .launch(b, &[memory(&mut y[..2048], IN), memory(&mut z, OUT)])
        .unwrap();
    scene.shim.unload(b);
    assert_eq!(scene.driver.count("contexts_live"), 0);
}

#[test]
fn more_kernels_than_contexts_take_turns() {
    for (device, artifact, contexts) in [("npu2", adding_elf(), 16), ("npu1", adding_xclbin(), 6)] {
        let scene = Scene::on(device);
        let before = scene.shim.counts();
        let load = |i: u64| {
            scene
                .shim
                .load(&renamed(&artifact, &format!("{i}")))
                .unwrap()
        };
        let kernels: Vec<_> = (0..contexts + 3).map(load).collect();
        let after = scene.shim.counts();
        assert_eq!(after.sessions, contexts);
        assert_eq!(after.evicted - before.evicted, 3);
        let (mut x, mut y) = (counting(), vec![1; 256]);
        for kernel in kernels.iter().chain(&kernels) {
            assert_eq!(
                scene.shim.combine(*kernel, &mut x, &mut y).unwrap(),
                sums(&x, &y)
            );
        }
        // Those that were used last are still there.
        let opened = scene.shim.counts().opened;
        for kernel in kernels.iter().rev().take(contexts as usize) {
            scene.shim.combine(*kernel, &mut x, &mut y).unwrap();
        }
        assert_eq!(scene.shim.counts().opened, opened);
        for kernel in kernels {
            scene.shim.unload(kernel);
        }
        assert_eq!(scene.driver.count("contexts_live"), 0);
    }
}

#[test]
fn threads_may_launch_what_they_like() {
    let scene = Scene::on("npu2");
    let add = scene.shim.load(&adding_elf()).unwrap();
    let multiply = scene.shim.load(&multiplying_elf()).unwrap();
    struct Shared([common::Kernel; 2]);
    // SAFETY: a kernel is a pointer, which the shim takes from any thread.
    unsafe impl Sync for Shared {}
    impl Shared {
        /// The whole is captured by a closure that calls this.
        fn kernels(&self) -> [common::Kernel; 2] {
            self.0
        }
    }
    let shared = Shared([add, multiply]);
    std::thread::scope(|threads| {
        for thread in 0..8 {
            let (shim, shared) = (scene.shim, &shared);
            threads.spawn(move || {
                let (mut x, mut y) = (counting(), vec![thread; 256]);
                for round in 0..100 {
                    y[round] = round as i32;
                    let [add, multiply] = shared.kernels();
                    assert_eq!(shim.combine(add, &mut x, &mut y).unwrap(), sums(&x, &y));
                    assert_eq!(
                        shim.combine(multiply, &mut x, &mut y).unwrap(),
                        products(&x, &y)
                    );
                }
            });
        }
    });
    scene.shim.unload(add);
    scene.shim.unload(multiply);
}

#[test]
fn a_closed_device_opens_again_with_the_kernels_that_were_loaded() {
    let scene = Scene::on("npu2");
    let kernel = scene.shim.load(&adding_elf()).unwrap();
    let (mut x, mut y) = (counting(), vec![5; 256]);
    scene.shim.combine(kernel, &mut x, &mut y).unwrap();
    scene.shim.close().unwrap();
    assert_eq!(scene.driver.count("devices_live"), 0);
    assert_eq!(
        scene.shim.combine(kernel, &mut x, &mut y).unwrap(),
        sums(&x, &y)
    );
    assert_eq!(scene.driver.count("devices_live"), 1);
    scene.shim.unload(kernel);
}
