//! Builds kernels out of MLIR text or example files, through one session, and loads them.

use std::fs;
use std::path::Path;

use npu_build::config::{Environment, Layer, Options, Settings};
use npu_build::interrupt::Interrupt;
use npu_build::step::cpu::March;
use npu_build::{Build, BuildError, Session, Target};
use npu_runtime::{Bounds, Device, Kernel, Runtime};
use tempfile::TempDir;

use crate::common;

/// A session with a cache and a directory of its own.
pub struct Workshop {
    session: Session,
    directory: TempDir,
}

impl Workshop {
    pub fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("npu-build-launch-")
            .tempdir()
            .unwrap();
        let mut layer = Layer::default();
        layer.cache.dir = Some(directory.path().join("cache"));
        layer.tools.llvm = Some(common::real_llvm());
        layer.options.target = vec![Target::Cpu];
        let nothing = Environment::from_fn(|_| None);
        let settings = Settings::load(layer, &nothing, directory.path()).unwrap();
        let session = Session::new(settings, Interrupt::default(), &|_| {}).unwrap();
        Self { session, directory }
    }

    fn build_file(&self, path: &Path) -> Result<Build, BuildError> {
        self.build_with(path, Options::default())
    }

    fn build_with(&self, path: &Path, options: Options) -> Result<Build, BuildError> {
        let request = self.session.settings().request(path, options);
        self.session.build(&request, &|_| {})
    }

    /// The kernel that `mlir` defines, as a launch sees it under a contract.
    #[track_caller]
    pub fn kernel_with(&self, mlir: &str, extents: &str) -> Kernel {
        let path = self.directory.path().join("kernel.mlir");
        fs::write(&path, mlir).unwrap();
        let mut options = Options::default();
        if !extents.is_empty() {
            options.extents = npu_build::kernel::contract::split(extents).unwrap();
        }
        let build = self.build_with(&path, options);
        let build = build.unwrap_or_else(|error| panic!("{}\n{mlir}", error.report()));
        build.load(&cpu(), &build.kernels[0]).unwrap()
    }

    /// Builds the kernel that `mlir` defines.
    pub fn build(&self, mlir: &str) -> Result<Build, BuildError> {
        let path = self.directory.path().join("kernel.mlir");
        fs::write(&path, mlir).unwrap();
        self.build_file(&path)
    }

    /// The kernel that `mlir` defines, on the cpu.
    #[track_caller]
    pub fn kernel(&self, mlir: &str) -> Kernel {
        let build = self.build(mlir);
        let build = build.unwrap_or_else(|error| panic!("{}\n{mlir}", error.report()));
        load(&build, &cpu())
    }

    /// The same for one kind of machine.
    #[track_caller]
    pub fn kernel_for(&self, march: March, mlir: &str) -> Kernel {
        let path = self.directory.path().join("kernel.mlir");
        fs::write(&path, mlir).unwrap();
        let mut options = Options::default();
        options.options.march = Some(march);
        let build = self.build_with(&path, options);
        let build = build.unwrap_or_else(|error| panic!("{}\n{mlir}", error.report()));
        load(&build, &cpu())
    }

    /// The kernel of an example file, on the cpu.
    #[track_caller]
    pub fn example(&self, name: &str) -> Kernel {
        let build = self.build_file(&common::example(name));
        load(
            &build.unwrap_or_else(|error| panic!("{}", error.report())),
            &cpu(),
        )
    }
}

pub fn cpu() -> Device {
    Device::open(Runtime::Cpu).unwrap()
}

#[track_caller]
pub fn load(build: &Build, device: &Device) -> Kernel {
    let [kernel] = build.kernels.as_slice() else {
        panic!("{} kernels", build.kernels.len());
    };
    // These tests know what their kernels do with their arguments.
    let mut kernel = kernel.clone();
    if kernel.signature.bounds == Bounds::Unchecked {
        kernel.signature.bounds = Bounds::Declared;
    }
    build.load(device, &kernel).unwrap()
}
