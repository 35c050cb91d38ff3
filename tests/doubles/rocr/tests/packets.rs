//! Which packets are refused at the doorbell, row by row.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    reason = "these are tests, which keep the promises of ROCR's headers"
)]

mod common;

use std::ptr;

use common::hsaco::{hsaco, stream};
use common::scene::Scene;
use common::{Device, OK, PAGE, SLOT};
use rocr_double::{Packet, Status};

#[test]
fn malformed_packets_are_refused() {
    let bad = Status::INVALID_PACKET_FORMAT;
    Scene::new().refused(bad, |_, packet| packet.opcode = 1);
    Scene::new().refused(bad, |_, packet| packet.header |= 1);
    Scene::new().refused(bad, |_, packet| packet.count = 0);
    Scene::new().refused(bad, |_, packet| packet.kernel_object = [0; 2]);
    Scene::new().refused(bad, |_, packet| packet.kernel_object[0] ^= 0x55);
    Scene::new().refused(bad, |_, packet| packet.kernarg = ptr::null());
}

#[test]
fn packets_of_older_rocrs_are_refused() {
    // Instructions' address and size, PDI, and a patch offset, where a kernel object's packet has 0.
    for word in 0..3 {
        Scene::new().refused(Status::INVALID_PACKET_FORMAT, |_, packet| {
            packet.reserved_40[word] = 316;
        });
    }
}

#[test]
fn kernargs_are_in_registered_memory_and_fit() {
    let own = [0u64; 4];
    Scene::new().refused(Status::INVALID_ALLOCATION, |_, packet| {
        packet.kernarg = own.as_ptr()
    });
    Scene::new().refused(Status::INVALID_PACKET_FORMAT, |scene, packet| {
        let end = scene.device.kernarg.wrapping_byte_add(64 * SLOT - 16);
        packet.kernarg = end;
    });
}

#[test]
fn arguments_are_in_registered_memory_and_fit() {
    let set = |packet: &Packet, word: usize, value: u64| unsafe {
        packet.kernarg.cast_mut().add(word).write(value);
    };
    // The second packet's slot is its own: the first one's arguments stay good.
    let own = [0u8; 64];
    Scene::new().refused(Status::INVALID_ALLOCATION, |_, packet| {
        set(packet, 0, own.as_ptr() as u64);
    });
    Scene::new().refused(Status::INVALID_ALLOCATION, |_, packet| set(packet, 1, 0));
    Scene::new().refused(Status::INVALID_PACKET_FORMAT, |_, packet| {
        set(packet, 2, 4097)
    });
    Scene::new().refused(Status::INVALID_PACKET_FORMAT, |_, packet| {
        set(packet, 3, u64::MAX)
    });
    Scene::new().refused(Status::INVALID_PACKET_FORMAT, |scene, packet| {
        set(packet, 0, scene.from.address as u64 + 4);
    });
}

#[test]
fn memory_that_was_freed_or_not_granted_is_not_registered() {
    Scene::new().refused(Status::INVALID_ALLOCATION, |scene, packet| {
        let other = scene.device.buffer(PAGE);
        unsafe { packet.kernarg.cast_mut().write(other.address as u64) };
        scene.device.drop_buffer(other);
    });
    Scene::new().refused(Status::INVALID_ALLOCATION, |scene, packet| {
        let other = scene.device.buffer(PAGE);
        unsafe { packet.kernarg.cast_mut().write(other.address as u64) };
        let agent = [scene.device.agent];
        assert_eq!(scene.device.rocr.grant(other.address, PAGE, &agent, 0), OK);
    });
    Scene::new().refused(Status::INVALID_ALLOCATION, |scene, packet| {
        let pools = scene.device.rocr.pools(scene.device.cpu);
        let system = scene.device.rocr.allocate(pools[0], PAGE).unwrap();
        unsafe { packet.kernarg.cast_mut().write(system as u64) };
    });
}

#[test]
fn a_full_elf_takes_as_many_arguments_as_it_says() {
    for count in [0, 1, 3] {
        Scene::new().refused(Status::INVALID_PACKET_FORMAT, |scene, packet| {
            let arguments = vec![(scene.from.address, scene.from.size); count];
            *packet = scene.device.packet(scene.kernel, &arguments);
        });
    }
}

/// With one argument too many the addresses and sizes lie elsewhere: the count goes first.
#[test]
fn a_count_is_checked_before_the_arguments_ranges() {
    Scene::new().refused(Status::INVALID_PACKET_FORMAT, |scene, packet| {
        *packet = scene.packet();
        packet.arguments = 3;
    });
    // A stream's count is in no code object: the third address is a size.
    let device = Device::new();
    let executable = device
        .load(&hsaco("aie2p", &[stream("k", b"a PDI")]), &[])
        .unwrap();
    let buffer = device.buffer(PAGE);
    let arguments = [(buffer.address, PAGE); 2];
    let mut packet = device.packet(device.kernel(executable, "k"), &arguments);
    packet.arguments = 3;
    device.publish(packet);
    device.ring();
    assert_eq!(device.errors(), [Status::INVALID_ALLOCATION]);
}

/// A command's count has 11 bits: six dwords, two for each argument, and one more.
#[test]
fn a_command_has_room_for_1020_arguments() {
    for (count, result) in [(1020, None), (1021, Some(Status::INVALID_PACKET_FORMAT))] {
        let device = Device::new();
        let executable = device
            .load(&hsaco("aie2p", &[stream("k", b"a PDI")]), &[])
            .unwrap();
        let words = device.rocr.allocate(device.pools[0], 16 * count).unwrap();
        let buffer = device.buffer(PAGE);
        for index in 0..count {
            let words = words.cast::<u64>();
            unsafe {
                words.add(index).write(buffer.address as u64);
                words.add(count + index).write(4);
            }
        }
        let mut packet = device.packet(device.kernel(executable, "k"), &[]);
        (packet.arguments, packet.kernarg) = (count as u16, words.cast());
        device.publish(packet);
        device.ring();
        assert_eq!(device.errors(), Vec::from_iter(result));
    }
}

#[test]
fn a_batch_is_of_one_kind() {
    Scene::new().refused(Status::INVALID_PACKET_FORMAT, |scene, packet| {
        let other = hsaco("aie2p", &[stream("k", b"a PDI")]);
        let other = scene.device.load(&other, &[]).unwrap();
        *packet = scene.device.packet(scene.device.kernel(other, "k"), &[]);
    });
}

#[test]
fn kernels_are_gone_with_their_executable() {
    Scene::new().refused(Status::INVALID_PACKET_FORMAT, |scene, _| {
        let destroy = scene.device.rocr.api.hsa_executable_destroy;
        assert_eq!(unsafe { destroy(scene.executable) }, OK);
    });
}

#[test]
fn a_completion_signal_exists() {
    Scene::new().refused(Status::INVALID_SIGNAL, |scene, packet| {
        let signal = scene.device.rocr.signal(0);
        packet.completion = signal;
        unsafe { (scene.device.rocr.api.hsa_signal_destroy)(signal) };
    });
}
