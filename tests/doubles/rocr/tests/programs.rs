//! What kernels compute: from MLIR, through the double compilers and the packer, to memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    reason = "these are tests, which keep the promises of ROCR's headers"
)]

mod common;

use common::hsaco::Compiler;
use common::{Device, OK, designs};

#[test]
fn a_full_elf_adds() {
    let device = Device::new();
    let text = designs::core("npu2", "f32", "%z = arith.addf %x, %y : f32");
    let hsaco = Compiler::new().full_elf(&text, 48);
    let kernel = device.kernel(device.load(&hsaco, &[]).unwrap(), "main:sequence");
    let x: Vec<f32> = (0..1024).map(|i| i as f32 * 0.1).collect();
    let y: Vec<f32> = (0..1024).map(|i| 7.0 - i as f32).collect();
    let buffers = [
        device.buffer_of(&x),
        device.buffer_of(&y),
        device.buffer(4096),
    ];
    assert_eq!(
        device.dispatch(kernel, &buffers),
        1,
        "{}",
        device.rocr.reason()
    );
    let sums: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
    assert_eq!(buffers[2].read::<f32>(1024), sums);
    // The same code object again, on other memory: nothing of the last dispatch is left in it.
    let others = [buffers[2], buffers[2], device.buffer(4096)];
    assert_eq!(device.dispatch(kernel, &others), 1);
    let doubled: Vec<f32> = sums.iter().map(|s| s + s).collect();
    assert_eq!(others[2].read::<f32>(1024), doubled);
    assert_eq!(device.rocr.counters().computed, 2);
}

#[test]
fn a_stream_multiplies_on_both_agents() {
    for (agent, part, columns) in [("aie2", "npu1_1col", 1), ("aie2p", "npu2", 8)] {
        let device = Device::with(&[("ROCR_DOUBLE_AGENT", agent)]);
        let text = designs::core(part, "i32", "%z = arith.muli %x, %y : i32");
        let hsaco = Compiler::new().stream(&text, agent, 48, columns);
        let kernel = device.kernel(device.load(&hsaco, &[]).unwrap(), "k");
        let x: Vec<i32> = (0..1024).collect();
        let buffers = [
            device.buffer_of(&x),
            device.buffer_of(&x),
            device.buffer(4096),
        ];
        assert_eq!(
            device.dispatch(kernel, &buffers),
            1,
            "{}",
            device.rocr.reason()
        );
        let squares: Vec<i32> = x.iter().map(|x| x * x).collect();
        assert_eq!(buffers[2].read::<i32>(1024), squares, "{agent}");
    }
}

#[test]
fn an_external_variable_is_read_at_each_dispatch() {
    let device = Device::new();
    let hsaco = Compiler::new().full_elf(&designs::scaled(), 0);
    let scratchpad = device.rocr.allocate(device.pools[1], 4).unwrap();
    let variables = [("scratch-pad-ctrl", scratchpad)];
    let executable = device.load(&hsaco, &variables).unwrap();
    let kernel = device.kernel(executable, "main:sequence");
    let x: Vec<i32> = (0..1024).collect();
    let buffers = [
        device.buffer_of(&x),
        device.buffer(4096),
        device.buffer(4096),
    ];
    for scale in [3, -7, 0] {
        unsafe { scratchpad.cast::<i32>().write(scale) };
        assert_eq!(
            device.dispatch(kernel, &buffers),
            1,
            "{}",
            device.rocr.reason()
        );
        let scaled: Vec<i32> = x.iter().map(|x| x * scale).collect();
        assert_eq!(buffers[2].read::<i32>(1024), scaled);
    }
    assert_eq!(device.rocr.free(scratchpad), OK);
}

#[test]
fn arguments_may_be_the_same_memory() {
    let device = Device::new();
    let text = designs::core("npu2", "i32", "%z = arith.addi %x, %y : i32");
    let hsaco = Compiler::new().full_elf(&text, 0);
    let kernel = device.kernel(device.load(&hsaco, &[]).unwrap(), "main:sequence");
    let x = device.buffer_of(&[21i32; 1024]);
    assert_eq!(device.dispatch(kernel, &[x, x, x]), 1);
    assert_eq!(x.read::<i32>(1024), [42; 1024]);
}
