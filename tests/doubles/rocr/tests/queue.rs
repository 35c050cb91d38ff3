//! Queues and doorbells: what is submitted, refused, retired.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    reason = "these are tests, which keep the promises of ROCR's headers"
)]

mod common;

use std::ffi::c_void;
use std::process::Command;
use std::ptr;

use common::hsaco::{Compiler, hsaco, real, stream};
use common::scene::Scene;
use common::{Buffer, Device, OK, PAGE, Rocr, designs, record};
use rocr_double::{HsaQueue, Status};

fn create(rocr: &Rocr, agent: u64, size: u32, kind: u32) -> Result<*mut HsaQueue, Status> {
    let mut queue = ptr::null_mut();
    let create = rocr.api.hsa_queue_create;
    match unsafe {
        create(
            agent,
            size,
            kind,
            Some(record),
            ptr::null_mut(),
            0,
            0,
            &mut queue,
        )
    } {
        OK => Ok(queue),
        status => Err(status),
    }
}

#[test]
fn a_queue_has_one_size_and_one_type() {
    let rocr = Rocr::with(&[]);
    rocr.init();
    let [cpu, agent] = rocr.agents().try_into().unwrap();
    for size in [0, 1, 32, 63, 65, 128] {
        assert_eq!(
            create(&rocr, agent, size, 1),
            Err(Status::INVALID_ARGUMENT),
            "{size}"
        );
    }
    assert_eq!(
        create(&rocr, agent, 64, 0),
        Err(Status::INVALID_QUEUE_CREATION)
    );
    assert_eq!(create(&rocr, agent, 64, 3), Err(Status::INVALID_ARGUMENT));
    assert_eq!(
        create(&rocr, cpu, 64, 1),
        Err(Status::INVALID_QUEUE_CREATION)
    );
    assert_eq!(create(&rocr, 4, 64, 1), Err(Status::INVALID_AGENT));
    let queue = create(&rocr, agent, 64, 1).unwrap();
    let fields = unsafe { queue.read() };
    assert_eq!((fields.kind, fields.size, fields.reserved), (1, 64, 0));
    assert!((fields.base as usize).is_multiple_of(64));
    assert_ne!(fields.doorbell, 0);
    let destroy = |queue| unsafe { (rocr.api.hsa_queue_destroy)(queue) };
    assert_eq!(destroy(queue), OK);
    assert_eq!(destroy(queue), Status::INVALID_QUEUE);
    assert_eq!(destroy(ptr::null_mut()), Status::INVALID_ARGUMENT);
    assert!(create(&rocr, agent, 64, 1).is_ok());
}

#[test]
fn a_doorbell_runs_all_packets_before_it_returns() {
    let scene = Scene::new();
    let device = &scene.device;
    for _ in 0..32 {
        device.publish(scene.packet());
    }
    assert!(!scene.ran());
    device.ring();
    assert!(scene.ran());
    assert_eq!(device.rocr.load(device.signal), -32);
    assert_eq!((device.read_index(), device.write_index()), (32, 32));
    let counters = device.rocr.counters();
    assert_eq!(
        (counters.doorbells, counters.most_packets, counters.packets),
        (1, 32, 32)
    );
    assert_eq!(counters.bytes_flushed, 32 * 2 * 2 * 4096);
    assert!(device.errors().is_empty());
}

#[test]
fn the_ring_wraps() {
    let scene = Scene::new();
    for round in 0..200 {
        let value = [round; 1024];
        scene.from.write(&value);
        assert_eq!(
            scene.device.dispatch(scene.kernel, &[scene.from, scene.to]),
            1
        );
        assert_eq!(scene.to.read::<i32>(1024), value);
    }
    assert_eq!(scene.device.read_index(), 200);
}

#[test]
fn a_doorbell_without_packets_does_nothing() {
    let scene = Scene::new();
    scene.device.ring();
    let counters = scene.device.rocr.counters();
    assert_eq!((counters.doorbells, counters.idle_doorbells), (0, 1));
}

#[test]
fn a_dispatch_makes_no_call_that_gives_a_status() {
    let scene = Scene::new();
    let before = scene.device.rocr.counters().calls;
    for _ in 0..10 {
        scene.device.dispatch(scene.kernel, &[scene.from, scene.to]);
    }
    assert_eq!(scene.device.rocr.counters().calls, before);
}

#[test]
fn the_store_of_the_write_index_publishes_too() {
    let scene = Scene::new();
    let device = &scene.device;
    let packet = scene.packet();
    let store = device.rocr.api.hsa_queue_store_write_index_screlease;
    unsafe {
        (*device.queue).base.write(packet);
        store(device.queue, 1);
    }
    device.ring();
    assert!(scene.ran());
}

#[test]
fn more_packets_than_the_ring_holds_are_refused() {
    let scene = Scene::new();
    for _ in 0..65 {
        scene.device.publish(scene.packet());
    }
    scene.device.ring();
    assert_eq!(scene.device.errors(), [Status::INVALID_PACKET_FORMAT]);
}

/// Bytes of the driver's buffer for a chain, and of what is in it before a command's dwords.
const CHAIN: usize = 4096;
const HEADER: usize = 52;

#[test]
fn one_doorbell_runs_a_ring_of_full_elfs_as_one_chain() {
    let scene = Scene::new();
    // A full ELF's command has two dwords.
    const { assert!(64 < CHAIN / (HEADER + 4 * 2)) };
    for _ in 0..64 {
        scene.device.publish(scene.packet());
    }
    scene.device.ring();
    assert_eq!(scene.device.rocr.load(scene.device.signal), -64);
    let counters = scene.device.rocr.counters();
    assert_eq!((counters.chains, counters.longest_chain), (1, 64));
    assert!(scene.ran() && scene.device.errors().is_empty());
}

#[test]
fn a_batch_of_streams_is_split_into_chains_that_the_buffer_holds() {
    let device = Device::new();
    let executable = device
        .load(&hsaco("aie2p", &[stream("k", b"a PDI")]), &[])
        .unwrap();
    let kernel = device.kernel(executable, "k");
    let buffer = device.buffer(PAGE);
    let mut chains = 0;
    for arguments in [0, 1, 2, 3, 16] {
        // Six dwords, and an address for each argument.
        let most = CHAIN / (HEADER + 4 * (6 + 2 * arguments));
        for count in [41, most.min(64), (most + 1).min(64), 64] {
            for _ in 0..count {
                let arguments = vec![(buffer.address, PAGE); arguments];
                device.publish(device.packet(kernel, &arguments));
            }
            device.ring();
            chains += count.div_ceil(most) as u64;
            assert_eq!(
                device.rocr.counters().chains,
                chains,
                "{arguments}, {count}"
            );
        }
    }
    // 53 of one without arguments; of two arguments, which are usual, 44.
    assert_eq!(device.rocr.counters().longest_chain, 53);
    assert!(device.errors().is_empty());
}

/// Each queue has a doorbell, a ring, PDIs and an end of its own.
#[test]
fn queues_of_one_agent_do_not_disturb_each_other() {
    let scene = Scene::with(&[("ROCR_DOUBLE_DISPATCH", "2=refuse:0x1009")]);
    let device = &scene.device;
    let api = &device.rocr.api;
    let errors = ptr::from_ref(&*device.errors).cast_mut().cast();
    let mut other = ptr::null_mut();
    let create = api.hsa_queue_create;
    let status = unsafe { create(device.agent, 64, 1, Some(record), errors, 0, 0, &mut other) };
    assert_eq!(status, OK, "though QUEUES_MAX is 1");
    assert_eq!(device.rocr.counters().queues.live, 2);
    let send = |queue: *mut HsaQueue| unsafe {
        let index = (api.hsa_queue_add_write_index_relaxed)(queue, 1);
        (*queue).base.add(index as usize % 64).write(scene.packet());
        (api.hsa_signal_store_screlease)((*queue).doorbell, 0);
        (api.hsa_queue_load_read_index_scacquire)(queue)
    };
    assert_eq!(send(device.queue), 1);
    assert_eq!(send(device.queue), 1, "refused");
    assert_eq!(device.errors(), [Status::INVALID_PACKET_FORMAT]);
    assert_eq!((send(other), send(other)), (1, 2));
    let destroy = api.hsa_queue_destroy;
    assert_eq!(unsafe { destroy(device.queue) }, OK);
    assert_eq!(send(other), 3);
    assert_eq!(unsafe { destroy(other) }, OK);
    assert_eq!(device.rocr.counters().queues.live, 0);
}

#[test]
fn a_packet_without_signal_and_arguments_is_good() {
    let device = Device::new();
    let executable = device
        .load(&hsaco("aie2p", &[stream("k", b"a PDI")]), &[])
        .unwrap();
    let mut packet = device.packet(device.kernel(executable, "k"), &[]);
    packet.completion = 0;
    device.publish(packet);
    device.ring();
    assert_eq!((device.read_index(), device.errors().len()), (1, 0));
}

/// Kernels with a PDI each.
fn kernels_with_pdis(device: &Device, count: usize) -> Vec<u64> {
    let kernels: Vec<_> = (0..count)
        .map(|i| stream(&format!("k{i}"), format!("PDI {i}").as_bytes()))
        .collect();
    let executable = device.load(&hsaco("aie2p", &kernels), &[]).unwrap();
    let names = kernels.iter().map(|kernel| kernel.name.as_str());
    names.map(|name| device.kernel(executable, name)).collect()
}

#[test]
fn a_queue_holds_32_pdis() {
    let device = Device::new();
    let kernels = kernels_with_pdis(&device, 33);
    for kernel in kernels.iter().take(32).chain(&kernels[..32]) {
        assert_eq!(device.dispatch(*kernel, &[]), 1);
    }
    assert_eq!(device.dispatch(kernels[32], &[]), 0);
    assert_eq!(device.errors(), [Status::OUT_OF_RESOURCES]);
    assert_eq!(device.read_index(), 64);
    assert_eq!(device.rocr.counters().most_pdis, 32);
}

#[test]
fn a_new_queue_takes_new_pdis() {
    let device = Device::new();
    let kernels = kernels_with_pdis(&device, 33);
    for kernel in &kernels[..32] {
        device.dispatch(*kernel, &[]);
    }
    let api = &device.rocr.api;
    assert_eq!(unsafe { (api.hsa_queue_destroy)(device.queue) }, OK);
    let queue = create(&device.rocr, device.agent, 64, 1).unwrap();
    let packet = device.packet(kernels[32], &[]);
    unsafe {
        (*queue).base.write(packet);
        (api.hsa_queue_add_write_index_relaxed)(queue, 1);
        (api.hsa_signal_store_screlease)((*queue).doorbell, 0);
        assert_eq!((api.hsa_queue_load_read_index_scacquire)(queue), 1);
    }
}

#[test]
fn a_batch_of_full_elfs_frees_the_pdis() {
    let scene = Scene::new();
    let device = &scene.device;
    let kernels = kernels_with_pdis(device, 33);
    for kernel in &kernels[..32] {
        device.dispatch(*kernel, &[]);
    }
    assert_eq!(device.dispatch(scene.kernel, &[scene.from, scene.to]), 1);
    assert_eq!(device.dispatch(kernels[32], &[]), 1);
    assert!(device.errors().is_empty());
}

#[test]
fn a_device_error_retires_what_ran_before_it() {
    let scene = Scene::with(&[("ROCR_DOUBLE_DISPATCH", "4=error:0x1016")]);
    let device = &scene.device;
    let outputs: Vec<Buffer> = (0..4).map(|_| device.buffer(4096)).collect();
    assert_eq!(device.dispatch(scene.kernel, &[scene.from, outputs[0]]), 1);
    for output in &outputs {
        let arguments = [scene.from, *output].map(|b| (b.address, b.size));
        device.publish(device.packet(scene.kernel, &arguments));
    }
    device.ring();
    assert_eq!(device.errors(), [Status::EXCEPTION]);
    assert_eq!((device.read_index(), device.write_index()), (3, 5));
    assert_eq!(device.rocr.load(device.signal), -3);
    let ran = |output: &Buffer| output.read::<i32>(1)[0] == 9;
    let ran: Vec<bool> = outputs.iter().map(ran).collect();
    assert_eq!(ran, [true, true, false, false]);
    let counters = device.rocr.counters();
    assert_eq!(
        (
            counters.device_errors,
            counters.refusals,
            counters.callbacks
        ),
        (1, 0, 1)
    );
    device.ring();
    assert_eq!(device.errors().len(), 1);
}

#[test]
fn a_refusal_can_be_asked_for() {
    let scene = Scene::with(&[("ROCR_DOUBLE_DISPATCH", "2=refuse:0x1008")]);
    scene.refused(Status::OUT_OF_RESOURCES, |_, _| {});
}

#[test]
fn a_hanging_device_holds_the_doorbell_and_nothing_else() {
    let scene = Scene::with(&[("ROCR_DOUBLE_DISPATCH", "1=hang:200")]);
    let device = &scene.device;
    device.publish(scene.packet());
    let (ring, doorbell) = (device.rocr.api.hsa_signal_store_screlease, unsafe {
        (*device.queue).doorbell
    });
    std::thread::scope(|threads| {
        let bell = threads.spawn(move || unsafe { ring(doorbell, 0) });
        while device.rocr.counters().doorbells == 0 {
            std::thread::yield_now();
        }
        // Other calls go on. A second doorbell meanwhile is a mistake of the program's.
        device.drop_buffer(device.buffer(PAGE));
        device.ring();
        bell.join().unwrap();
    });
    assert_eq!(device.errors(), [Status::ERROR]);
    assert_eq!(device.read_index(), 0);
    assert!(!scene.ran());
    assert_eq!(device.rocr.counters().misuses, 1);
}

#[test]
fn a_kernel_that_nobody_understood_hangs() {
    let device = Device::new();
    let text = designs::core("npu2", "f32", "%z = math.exp %x : f32");
    let hsaco = Compiler::new().full_elf(&text, 0);
    let kernel = device.kernel(device.load(&hsaco, &[]).unwrap(), "main:sequence");
    let buffer = device.buffer(4096);
    assert_eq!(device.dispatch(kernel, &[buffer; 3]), 0);
    assert_eq!(device.errors(), [Status::ERROR]);
}

#[test]
fn a_kernel_for_the_other_generation_hangs() {
    // Loading cannot know: the section says that it is for this one.
    let device = Device::with(&[("ROCR_DOUBLE_AGENT", "aie2")]);
    let mut kernel = stream("k", &real("copy_npu2/design.pdi"));
    kernel.insts = real("copy_npu2/insts.bin");
    let executable = device.load(&hsaco("aie2", &[kernel]), &[]).unwrap();
    let buffer = device.buffer(4096);
    let kernel = device.kernel(executable, "k");
    assert_eq!(device.dispatch(kernel, &[buffer; 2]), 0);
    assert_eq!(device.errors(), [Status::ERROR]);
}

#[test]
fn a_kernel_that_reaches_past_its_arguments_hangs() {
    let scene = Scene::new();
    let device = &scene.device;
    let arguments = [(scene.from.address, 4092), (scene.to.address, 4096)];
    device.publish(device.packet(scene.kernel, &arguments));
    device.ring();
    assert_eq!(device.errors(), [Status::ERROR]);
    assert!(!scene.ran());
}

#[test]
fn the_device_writes_where_it_may() {
    let scene = Scene::new();
    let device = &scene.device;
    let agent = [device.agent];
    assert_eq!(
        device
            .rocr
            .grant(scene.to.address, scene.to.size, &agent, 1),
        OK
    );
    assert_eq!(device.dispatch(scene.kernel, &[scene.from, scene.to]), 0);
    assert_eq!(device.errors(), [Status::ERROR]);
    assert!(!scene.ran());
}

#[test]
fn nothing_is_computed_if_the_benchmark_says_so() {
    let scene = Scene::with(&[("ROCR_DOUBLE_EXECUTE", "nothing")]);
    assert_eq!(
        scene.device.dispatch(scene.kernel, &[scene.from, scene.to]),
        1
    );
    assert!(!scene.ran());
    let counters = scene.device.rocr.counters();
    assert_eq!((counters.packets, counters.computed), (1, 0));
    assert_eq!(counters.bytes_flushed, 2 * 2 * 4096);
}

#[test]
fn a_stale_queue_is_noticed() {
    let device = Device::new();
    let doorbell = unsafe { (*device.queue).doorbell };
    unsafe { (device.rocr.api.hsa_queue_destroy)(device.queue) };
    assert_eq!(device.write_index(), 0);
    unsafe { (device.rocr.api.hsa_signal_store_screlease)(doorbell, 0) };
    assert_eq!(device.rocr.counters().misuses, 2);
}

/// Runs this test binary again, for one test that aborts; what it says.
fn aborts(test: &str, variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("ROCR_DOUBLE_TEST_CHILD", "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(6), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_queue_without_callback_aborts_the_process() {
    if std::env::var_os("ROCR_DOUBLE_TEST_CHILD").is_some() {
        let device = Device::new();
        unsafe { (device.rocr.api.hsa_queue_destroy)(device.queue) };
        let mut queue = ptr::null_mut();
        let create = device.rocr.api.hsa_queue_create;
        let none = ptr::null_mut::<c_void>();
        unsafe { create(device.agent, 64, 1, None, none, 0, 0, &mut queue) };
        unsafe {
            (device.rocr.api.hsa_queue_add_write_index_relaxed)(queue, 1);
            (device.rocr.api.hsa_signal_store_screlease)((*queue).doorbell, 0);
        }
        return;
    }
    let test = "a_queue_without_callback_aborts_the_process";
    let words = [
        "Queue at 0x",
        "inactivated due to async error:",
        "INVALID_PACKET_FORMAT",
    ];
    let text = aborts(test, &[]);
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    let text = aborts(test, &[("HSA_ENABLE_QUEUE_FAULT_MESSAGE", "0")]);
    assert!(!text.contains("inactivated"), "{text}");
}
