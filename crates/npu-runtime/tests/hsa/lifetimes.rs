//! Whatever order things are dropped in, all is given back, and nothing is used after that.

use crate::designs;
use crate::emulated::{alone, alone_and_untidy, assert_nothing_is_left, counters};
use crate::kernels::{Form, add, binary, device, image};
use npu_runtime::{Arg, Buffer, Chain, Device, ElementType, Error, Grid, Kernel, Npu, Runtime};
use npu_runtime::{Variable, Variables};

/// What keeps the device open.
#[derive(Debug)]
#[expect(dead_code, reason = "they are held")]
enum Held {
    Device(Device),
    Kernel(Kernel),
    Buffer(Buffer<i32>),
    Variable(Variable<i32>),
    Variables(Variables),
    Chain(Chain<'static>),
}

fn held() -> Vec<Held> {
    let device = device();
    let scaled = image(&designs::scaled(), Form::FullElf, Npu::Npu2, 3);
    let variable = device.variable("scratch-pad-ctrl", 1).unwrap();
    let variables = Variables::new().with(&variable).unwrap();
    let signature = binary(ElementType::I32);
    let kernel = Kernel::load_with(&device, &[scaled], signature, &variables).unwrap();
    vec![
        Held::Kernel(kernel),
        Held::Buffer(device.buffer(1000).unwrap()),
        Held::Variable(variable),
        Held::Variables(variables),
        Held::Chain(Chain::new(&device)),
        Held::Device(device),
    ]
}

/// Every permutation, by Heap's algorithm.
fn permutations(items: usize) -> Vec<Vec<usize>> {
    fn generate(k: usize, order: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
        if k <= 1 {
            all.push(order.clone());
            return;
        }
        for i in 0..k {
            generate(k - 1, order, all);
            order.swap(if k.is_multiple_of(2) { i } else { 0 }, k - 1);
        }
    }
    let mut all = Vec::new();
    generate(items, &mut (0..items).collect(), &mut all);
    all
}

#[test]
fn things_may_be_dropped_in_any_order() {
    alone(&[], || {
        let orders = permutations(6);
        assert_eq!(orders.len(), 720);
        for order in orders {
            let mut held: Vec<Option<Held>> = held().into_iter().map(Some).collect();
            for (i, &index) in order.iter().enumerate() {
                assert_eq!(counters().inits.live, 1, "{order:?}");
                assert!(held[index].take().is_some());
                let _ = i;
            }
            assert_nothing_is_left();
        }
    });
}

#[test]
fn a_kernel_alone_keeps_the_device_open() {
    alone(&[], || {
        let kernel = add(&device());
        let x = [1_i32; 1024];
        let mut z = [0_i32; 1024];
        let args = &mut [Arg::input(&x), Arg::input(&x), Arg::output(&mut z)];
        kernel.launch(Grid::ONE, args).unwrap();
        assert_eq!(z, [2; 1024]);
    });
}

#[test]
fn a_buffer_of_the_device_outlives_everything_else() {
    alone(&[], || {
        let buffer = device().buffer_from(&[1, 2, 3]).unwrap();
        assert_eq!(buffer[..], [1, 2, 3]);
        assert_eq!(counters().inits.live, 1);
    });
}

/// A buffer of another device is memory like any other.
#[test]
fn buffers_of_another_runtime_are_copied() {
    alone(&[], || {
        let kernel = add(&device());
        let cpu = Device::open(Runtime::Cpu).unwrap();
        let x = cpu.buffer_from(&[20_i32; 1024]).unwrap();
        let mut z = cpu.buffer::<i32>(1024).unwrap();
        let args = &mut [Arg::input(&x), Arg::input(&x), Arg::output(&mut z)];
        kernel.launch(Grid::ONE, args).unwrap();
        assert_eq!(z[..], [40; 1024]);
    });
}

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// Runs `child` in a forked process; whether it returned true.
fn in_a_fork(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls nothing that a lock of this process's other threads could be held
    // in, and ends without running what belongs to its parent.
    unsafe {
        match fork() {
            0 => _exit(i32::from(!child())),
            pid => {
                let mut status = -1;
                assert_eq!(waitpid(pid, &mut status, 0), pid);
                status == 0
            }
        }
    }
}

#[test]
fn a_forked_child_gets_errors_and_gives_nothing_back() {
    alone(&[], || {
        let device = device();
        let kernel = add(&device);
        let buffer = device.buffer_from(&[1_i32; 1024]).unwrap();
        let is_forked = |error: Error| matches!(error, Error::Forked { .. });
        let fine = in_a_fork(|| {
            let mut z = [0_i32; 1024];
            let args = &mut [
                Arg::input(&buffer),
                Arg::input(&buffer),
                Arg::output(&mut z),
            ];
            let launched = kernel.launch(Grid::ONE, args);
            let text = launched
                .as_ref()
                .map_err(Error::to_string)
                .unwrap_err()
                .clone();
            let before = counters();
            let refused = launched.is_err_and(is_forked)
                && device.buffer::<u8>(10).is_err_and(is_forked)
                && Device::open(Runtime::Hsa).is_err_and(is_forked);
            // Dropping is harmless: nothing of ROCR is called.
            // SAFETY: the copies are the child's, which ends without using them again.
            unsafe {
                drop(std::ptr::read(&kernel));
                drop(std::ptr::read(&buffer));
                drop(std::ptr::read(&device));
            }
            refused && text.contains("fork") && counters() == before
        });
        assert!(fine);
        // The parent goes on.
        let mut z = [0_i32; 1024];
        let args = &mut [
            Arg::input(&buffer),
            Arg::input(&buffer),
            Arg::output(&mut z),
        ];
        kernel.launch(Grid::ONE, args).unwrap();
        assert_eq!(z, [2; 1024]);
    });
}

#[test]
fn a_child_may_open_what_its_parent_did_not() {
    alone_and_untidy(&[], || {
        assert!(in_a_fork(|| {
            let kernel = add(&device());
            let x = [1_i32; 1024];
            let mut z = [0_i32; 1024];
            let args = &mut [Arg::input(&x), Arg::input(&x), Arg::output(&mut z)];
            kernel.launch(Grid::ONE, args).is_ok() && z == [2; 1024]
        }));
    });
}
