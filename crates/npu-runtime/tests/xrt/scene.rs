//! An emulated device that a test has for itself, and kernels for it.

use crate::support::{ranked, signature};
use npu_runtime::{
    Artifact, Compiled, Device, Direction, ElementType, Image, Npu, Parameter, Signature,
};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use xrt_double::kernels::{self, Workshop, combining};
use xrt_double::{Driver, Installation, compile_shim};

/// A directory that this process has for itself.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runtime-xrt");
    DIRECTORY.get_or_init(|| kernels::own_directory(&shared).unwrap())
}

pub fn installation() -> &'static Installation {
    static INSTALLED: OnceLock<Installation> = OnceLock::new();
    INSTALLED.get_or_init(|| Installation::new(&directory().join("xrt")).unwrap())
}

/// The launch shim, compiled.
pub fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let shim = directory().join("shim.so");
        compile_shim("g++", installation(), &shim).unwrap();
        shim
    })
}

/// Held by each test: the device, its driver and the counters are the process's.
pub struct Scene {
    pub driver: Driver,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    pub fn on(model: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let driver = Driver::of(&installation().library()).unwrap();
        driver.reset();
        driver.set("DEVICE", model);
        Self {
            driver,
            _alone: alone,
        }
    }

    pub fn device(&self) -> Device {
        open().unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.driver.leftovers(), []);
        }
    }
}

/// Opens the device through the shim's bytes, as a launcher that embeds them does.
pub fn open() -> Result<Device, npu_runtime::Error> {
    Device::open_with_shim(&Artifact::bytes(std::fs::read(shim()).unwrap()))
}

fn compiled(npu: Npu, operation: &str) -> kernels::Compiled {
    static WORKSHOP: OnceLock<Workshop> = OnceLock::new();
    let workshop = WORKSHOP.get_or_init(|| Workshop::new(directory()).unwrap());
    let (name, text) = (
        format!("{operation}-{npu}"),
        combining(npu.name(), operation),
    );
    match npu {
        Npu::Npu1 => workshop.xclbin(&name, &text).unwrap(),
        Npu::Npu2 => workshop.full_elf(&name, &text).unwrap(),
    }
}

/// `z = x + y` over 256 `i32`: an xclbin on npu1, a full ELF on npu2.
pub fn adding(npu: Npu) -> Image {
    static NPU1: OnceLock<Image> = OnceLock::new();
    static NPU2: OnceLock<Image> = OnceLock::new();
    let known = match npu {
        Npu::Npu1 => &NPU1,
        Npu::Npu2 => &NPU2,
    };
    known.get_or_init(|| image(npu, "arith.addi")).clone()
}

/// `z = x * y` over 256 `i32`.
pub fn multiplying() -> Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| image(Npu::Npu2, "arith.muli")).clone()
}

fn image(npu: Npu, operation: &str) -> Image {
    let kernels::Compiled { artifact, insts } = compiled(npu, operation);
    match insts {
        Some(insts) => Image::Xclbin {
            xclbin: Artifact::bytes(artifact),
            insts: Artifact::bytes(insts),
            kernel: "MLIR_AIE".into(),
            compiled: Compiled::for_target(npu),
        },
        None => Image::FullElf {
            elf: Artifact::bytes(artifact),
            kernel: "main:sequence".into(),
            compiled: Compiled::for_target(npu),
        },
    }
}

/// An image for npu2 whose full ELF is `change`d.
pub fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Image {
    let Image::FullElf {
        elf: Artifact::Bytes(bytes),
        kernel,
        compiled,
    } = adding(Npu::Npu2)
    else {
        panic!("it is a full ELF in memory");
    };
    let mut bytes = bytes.to_vec();
    change(&mut bytes);
    Image::FullElf {
        elf: Artifact::bytes(bytes),
        kernel,
        compiled,
    }
}

fn numbers(name: &'static str, direction: Direction) -> Parameter {
    ranked(
        name,
        "memref<256xi32>",
        ElementType::I32,
        &[Some(256)],
        direction,
    )
}

/// Of both kernels.
pub fn binary() -> Signature {
    binary_with(Direction::In, Direction::Out)
}

/// With a number that the device never sees.
pub fn binary_with_scalar() -> Signature {
    let parameters = vec![
        numbers("x", Direction::In),
        Parameter::scalar("n", "i32", ElementType::I32),
        numbers("y", Direction::In),
        numbers("z", Direction::Out),
    ];
    signature("combine", false, parameters)
}

pub fn binary_with(y: Direction, z: Direction) -> Signature {
    let parameters = vec![
        numbers("x", Direction::In),
        numbers("y", y),
        numbers("z", z),
    ];
    signature("combine", false, parameters)
}

pub fn counting() -> Vec<i32> {
    (0..256).collect()
}

pub fn sums(x: &[i32], y: &[i32]) -> Vec<i32> {
    x.iter().zip(y).map(|(x, y)| x.wrapping_add(*y)).collect()
}

pub fn products(x: &[i32], y: &[i32]) -> Vec<i32> {
    x.iter().zip(y).map(|(x, y)| x.wrapping_mul(*y)).collect()
}
