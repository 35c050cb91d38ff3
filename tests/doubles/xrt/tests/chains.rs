//! Chains of launches through the shim.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use common::{
    Argument, IN, OUT, STATE, Scene, adding_elf, adding_xclbin, counting, memory, multiplying_elf,
    products, sums,
};

#[test]
fn a_chain_is_executed_in_lists_of_at_most_32() {
    for (device, artifact) in [("npu2", adding_elf()), ("npu1", adding_xclbin())] {
        let scene = Scene::on(device);
        let kernel = scene.shim.load(&artifact).unwrap();
        // Each launch adds `step` to what the one before it gave.
        let [a, b, step] = [(); 3].map(|()| scene.shim.buffer(256).unwrap());
        step.elements().copy_from_slice(&counting());
        let there = [a.argument(IN), step.argument(IN), b.argument(OUT)];
        let back = [b.argument(IN), step.argument(IN), a.argument(OUT)];
        let calls: Vec<_> = (0..100)
            .map(|i| (kernel, if i % 2 == 0 { &there[..] } else { &back[..] }))
            .collect();
        let (lists, done) = scene.growth("executes", || scene.shim.chain(&calls));
        done.unwrap();
        assert_eq!(lists, 4);
        let expected: Vec<i32> = (0..256).map(|i| 100 * i).collect();
        assert_eq!(a.elements(), expected);
        // Again, with everything there.
        let (set_up, done) = scene.growth("set_up", || scene.shim.chain(&calls));
        done.unwrap();
        assert_eq!(set_up, 0, "{device}");
        // And one by one.
        scene.shim.launch(kernel, &there).unwrap();
        assert_eq!(
            b.elements(),
            (0..256).map(|i| 201 * i).collect::<Vec<i32>>()
        );
        for buffer in [a, b, step] {
            scene.shim.free(buffer);
        }
        scene.shim.unload(kernel);
    }
}

#[test]
fn a_long_chain_is_right() {
    let scene = Scene::on("npu2");
    let kernel = scene.shim.load(&adding_elf()).unwrap();
    let [a, one] = [(); 2].map(|()| scene.shim.buffer(256).unwrap());
    one.elements().fill(1);
    let arguments = [a.argument(IN), one.argument(IN), a.argument(OUT)];
    let calls = vec![(kernel, &arguments[..]); 10_000];
    scene.shim.chain(&calls).unwrap();
    assert_eq!(a.elements(), [10_000; 256]);
    scene.shim.free(a);
    scene.shim.free(one);
    scene.shim.unload(kernel);
}

#[test]
fn slices_go_through_a_chain_like_buffers() {
    let scene = Scene::on("npu2");
    let add = scene.shim.load(&adding_elf()).unwrap();
    let (mut x, mut y, mut z, mut w) = (counting(), vec![2; 256], vec![0; 256], vec![0; 256]);
    let first = [memory(&mut x, IN), memory(&mut y, IN), memory(&mut z, OUT)];
    let second = [memory(&mut z, IN), memory(&mut y, IN), memory(&mut w, OUT)];
    let (copies, done) = scene.growth("syncs_in", || {
        scene.shim.chain(&[(add, &first), (add, &second)])
    });
    done.unwrap();
    assert_eq!(copies, 2, "x and y go in once, z not at all");
    assert_eq!(z, sums(&x, &y));
    assert_eq!(w, sums(&z, &y));
    scene.shim.unload(add);
}

#[test]
fn parts_of_a_slice_that_another_launch_writes_are_not_mixed_up() {
    let scene = Scene::on("npu2");
    let add = scene.shim.load(&adding_elf()).unwrap();
    let mut x = vec![1; 512];
    let mut z = vec![0; 256];
    // What the shim gets are addresses: it alone must see that these are the same memory.
    let (low, high, all) = (
        memory(&mut x[..256], IN),
        memory(&mut x[256..], OUT),
        memory(&mut x, IN | OUT),
    );
    let first = [low, low, high];
    let second = [all, memory(&mut x[256..], IN), memory(&mut z, OUT)];
    scene.shim.chain(&[(add, &first), (add, &second)]).unwrap();
    assert_eq!(z, [3; 256]);
    assert_eq!(x, [[1; 256], [2; 256]].concat());
    scene.shim.unload(add);
}

#[test]
fn a_chain_may_go_from_one_artifact_to_another() {
    let scene = Scene::on("npu2");
    let add = scene.shim.load(&adding_elf()).unwrap();
    let multiply = scene.shim.load(&multiplying_elf()).unwrap();
    scene.driver.set("CONTEXTS", "1");
    let (mut x, mut y, mut z, mut w) = (counting(), vec![7; 256], vec![0; 256], vec![0; 256]);
    let first = [memory(&mut x, IN), memory(&mut y, IN), memory(&mut z, OUT)];
    let second = [memory(&mut z, IN), memory(&mut x, IN), memory(&mut w, OUT)];
    scene
        .shim
        .chain(&[(add, &first), (multiply, &second), (add, &first)])
        .unwrap();
    assert_eq!(z, sums(&x, &y));
    assert_eq!(w, products(&z, &x));
    scene.shim.unload(add);
    scene.shim.unload(multiply);
}

#[test]
fn a_failure_in_mid_chain_tells_what_came_before_it() {
    for failing in [0_u64, 1, 5, 31, 32, 40] {
        let scene = Scene::on("npu2");
        let kernel = scene.shim.load(&adding_elf()).unwrap();
        let (mut x, mut y) = (counting(), vec![10; 256]);
        let mut outputs = vec![vec![-1; 256]; 64];
        let arguments: Vec<[Argument; 3]> = outputs
            .iter_mut()
            .map(|z| [memory(&mut x, IN), memory(&mut y, IN), memory(z, OUT)])
            .collect();
        let calls: Vec<_> = arguments
            .iter()
            .map(|arguments| (kernel, &arguments[..]))
            .collect();
        scene
            .driver
            .set("STATE", &format!("timeout@{}", failing + 1));
        let failure = scene.shim.chain(&calls).unwrap_err();
        assert_eq!(
            (failure.code, failure.state, failure.call),
            (STATE, 8, failing)
        );
        for (index, z) in outputs.iter().enumerate() {
            let expected = if (index as u64) < failing {
                sums(&x, &y)
            } else {
                vec![-1; 256]
            };
            assert_eq!(*z, expected, "{index} of {failing}");
        }
        // A new context serves the next launch.
        assert_eq!(
            scene.shim.combine(kernel, &mut x, &mut y).unwrap(),
            sums(&x, &y)
        );
        scene.shim.unload(kernel);
    }
}

#[test]
fn no_launches_are_a_chain_too() {
    let scene = Scene::on("npu2");
    scene.shim.chain(&[]).unwrap();
}
