//! What [`Builder`](crate::Builder) and [`BuildScript`](crate::BuildScript) have in common: the same
//! setters, for the kernel in hand and for the settings of them all.

use std::path::{Path, PathBuf};

use npu_runtime::Grid;

use crate::config::{Options, Settings};
use crate::kernel::contract;
use crate::plan::{BuildError, KernelError, Request};

/// What is said of one kernel. What can't be understood is told when it is built.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) options: Options,
    fault: Option<String>,
}

impl Draft {
    pub(crate) fn new(kernel: impl Into<PathBuf>) -> Self {
        let mut draft = Self::default();
        draft.options.path = Some(kernel.into());
        draft
    }

    pub(crate) fn set_grid(&mut self, grid: Grid) {
        match grid.try_into() {
            Ok(grid) => self.options.grid = Some(grid),
            Err(fault) => self.fault = Some(fault),
        }
    }

    pub(crate) fn add_extents(&mut self, text: &str) {
        match contract::split(text) {
            Ok(extents) => self.options.extents.extend(extents),
            Err(fault) => self.fault = Some(fault),
        }
    }

    pub(crate) fn set_option(&mut self, name: &str, value: &str) {
        if let Err(fault) = self.options.options.set(name, value) {
            self.fault = Some(fault);
        }
    }

    /// The request, with paths that are relative to `directory` and what `all` says of all kernels.
    pub(crate) fn request(
        &self,
        directory: &Path,
        all: &Options,
        settings: &Settings,
    ) -> Result<Request, BuildError> {
        let options = self.options.clone().over(all.clone());
        let options = options.in_directory(directory);
        let kernel = options.path.clone().unwrap_or_default();
        match &self.fault {
            Some(fault) => Err(KernelError::Choice(fault.clone()).at(&kernel)),
            None => Ok(settings.request(kernel, options)),
        }
    }
}

/// Setters of one kernel, for the `impl` of a type with a method `draft`.
macro_rules! kernel_setters {
    ($note:literal) => {
        /// Which function is the kernel, if the file has several.
        #[doc = $note]
        #[must_use]
        pub fn entry(self, name: impl Into<String>) -> Self {
            self.draft(|draft| draft.options.entry = Some(name.into()))
        }

        /// The direction of an argument, where inference is not to decide. A wrong `In` loses an
        /// output; `Out` is the promise that all of it is overwritten.
        #[doc = $note]
        #[must_use]
        pub fn arg(self, name: impl Into<String>, direction: npu_runtime::Direction) -> Self {
            self.draft(|draft| draft.options.args.push((name.into(), direction)))
        }

        /// How many elements arguments need, such as `x=n,y=n,out=n`, which every launch then
        /// checks: `n`, the name of a scalar, is at least so many, any other name as many as every
        /// argument with that name, `1024` exactly so many, `rows*cols` or `grid.x*256` at least
        /// the product, `_` any number, and `[rows, cols]` says it of each dimension. With the
        /// extents of all arguments launching is safe: they promise that the kernel stays within.
        #[doc = $note]
        #[must_use]
        pub fn extents(self, extents: &str) -> Self {
            self.draft(|draft| draft.add_extents(extents))
        }

        /// How many programs run along x, y and z, which is compiled into a linalg-level kernel for
        /// an NPU. No size may be 0.
        #[doc = $note]
        #[must_use]
        pub fn grid(self, grid: impl Into<npu_runtime::Grid>) -> Self {
            self.draft(|draft| draft.set_grid(grid.into()))
        }

        /// The transform script that tiles a linalg-level kernel for an NPU.
        #[doc = $note]
        #[must_use]
        pub fn transform(self, path: impl Into<std::path::PathBuf>) -> Self {
            self.draft(|draft| draft.options.transform = Some(path.into()))
        }

        /// An option of the npu targets, as `--option` takes it: `stack-size`, `4096`.
        #[doc = $note]
        #[must_use]
        pub fn option(self, name: &str, value: &str) -> Self {
            self.draft(|draft| draft.set_option(name, value))
        }

        /// A file that an NPU's tools find in their directory, beside what the MLIR links.
        #[doc = $note]
        #[must_use]
        pub fn input(self, path: impl Into<std::path::PathBuf>) -> Self {
            self.draft(|draft| draft.options.inputs.push(path.into()))
        }

        /// A further argument for aircc or aiecc.
        #[doc = $note]
        #[must_use]
        pub fn tool_argument(self, argument: impl Into<String>) -> Self {
            self.draft(|draft| draft.options.tool_args.push(argument.into()))
        }
    };
}

/// Setters for all kernels, for the `impl` of a type with a field `layer`.
macro_rules! layer_setters {
    () => {
        /// The cache directory.
        #[must_use]
        pub fn cache_dir(mut self, directory: impl Into<std::path::PathBuf>) -> Self {
            self.layer.cache.dir = Some(directory.into());
            self
        }

        /// What the host program calls `npu-runtime`, if it has renamed it or has it by way of another
        /// crate: `my_npu`, `my_facade::npu`.
        #[must_use]
        pub fn runtime_crate(mut self, path: impl Into<String>) -> Self {
            self.layer.options.runtime_crate = Some(path.into());
            self
        }

        /// The MLIR/LLVM installation: its directory, or its `bin`.
        #[must_use]
        pub fn llvm(mut self, directory: impl Into<std::path::PathBuf>) -> Self {
            self.layer.tools.llvm = Some(directory.into());
            self
        }

        /// The mlir-air installation, with `air-opt` and `aircc`.
        #[must_use]
        pub fn air(mut self, directory: impl Into<std::path::PathBuf>) -> Self {
            self.layer.tools.air = Some(directory.into());
            self
        }

        /// The mlir-aie installation, with `aiecc`.
        #[must_use]
        pub fn aie(mut self, directory: impl Into<std::path::PathBuf>) -> Self {
            self.layer.tools.aie = Some(directory.into());
            self
        }

        /// The Peano installation, an LLVM that compiles for `aie2`.
        #[must_use]
        pub fn peano(mut self, directory: impl Into<std::path::PathBuf>) -> Self {
            self.layer.tools.peano = Some(directory.into());
            self
        }

        /// The XRT installation, with `xclbinutil` and `aiebu-asm`.
        #[must_use]
        pub fn xrt(mut self, directory: impl Into<std::path::PathBuf>) -> Self {
            self.layer.tools.xrt = Some(directory.into());
            self
        }

        /// The Python environment that has the tools' wheels.
        #[must_use]
        pub fn python(mut self, directory: impl Into<std::path::PathBuf>) -> Self {
            self.layer.tools.python = Some(directory.into());
            self
        }

        /// What packs hsacos.
        #[must_use]
        pub fn hsaco_packer(mut self, packer: crate::toolchain::HsacoPacker) -> Self {
            self.layer.tools.hsaco_packer = Some(packer);
            self
        }
    };
}

pub(crate) use {kernel_setters, layer_setters};
