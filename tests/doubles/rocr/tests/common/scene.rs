//! A device with a queue and a kernel.

use rocr_double::{Packet, Status};

use super::hsaco::Compiler;
use super::{Buffer, Device, designs};

/// A device with a kernel that copies its first argument to its second, and what it is called with.
pub struct Scene {
    pub device: Device,
    pub executable: u64,
    pub kernel: u64,
    pub from: Buffer,
    pub to: Buffer,
}

impl Scene {
    pub fn new() -> Self {
        Self::with(&[])
    }

    pub fn with(variables: &[(&str, &str)]) -> Self {
        let device = Device::with(variables);
        let hsaco = Compiler::new().full_elf(&designs::copy("npu2", "i32"), 0);
        let executable = device.load(&hsaco, &[]).unwrap();
        let kernel = device.kernel(executable, "main:sequence");
        let from = device.buffer_of(&[9i32; 1024]);
        let to = device.buffer(4096);
        Self {
            device,
            executable,
            kernel,
            from,
            to,
        }
    }

    pub fn packet(&self) -> Packet {
        let arguments = [self.from, self.to].map(|b| (b.address, b.size));
        self.device.packet(self.kernel, &arguments)
    }

    /// Whether any copy ran.
    pub fn ran(&self) -> bool {
        self.to.read::<i32>(1024) != [0; 1024]
    }

    /// Submits a good packet and a changed one: both are refused, and the queue is lost.
    #[track_caller]
    pub fn refused(self, expected: Status, change: impl FnOnce(&Self, &mut Packet)) {
        let device = &self.device;
        device.publish(self.packet());
        let mut packet = self.packet();
        change(&self, &mut packet);
        device.publish(packet);
        device.ring();
        assert_eq!(device.errors(), [expected], "{}", device.rocr.reason());
        assert!(!self.ran(), "a packet of a refused batch ran");
        assert_eq!(device.rocr.load(device.signal), 0);
        assert_eq!((device.read_index(), device.write_index()), (0, 2));
        // For ever: neither a good packet nor another doorbell does anything.
        device.publish(self.packet());
        device.ring();
        assert_eq!(device.errors(), [expected], "the callback is made once");
        assert!(!self.ran());
        assert_eq!(device.read_index(), 0);
        assert_eq!(device.rocr.counters().refusals, 1);
    }
}
