//! The HSA backend: an NPU through ROCR, `libhsa-runtime64`.

use crate::plan::Plan;
use crate::{Arg, Buffer, Compiled, Element, Error, Image, Npu, Runtime};

#[derive(Clone)]
pub(crate) enum Device {}

impl Device {
    pub(crate) fn open() -> Result<Self, Error> {
        Err(Error::NotSupported {
            runtime: Runtime::Hsa,
        })
    }

    pub(crate) fn npu(&self) -> Npu {
        match *self {}
    }

    pub(crate) fn buffer<T: Element>(&self, _: usize) -> Result<Buffer<T>, Error> {
        match *self {}
    }
}

pub(crate) enum Kernel {}

impl Kernel {
    pub(crate) fn load(device: &Device, _: &Image, _: &Plan) -> Result<Self, Error> {
        match *device {}
    }

    pub(crate) fn compiled(&self) -> &Compiled {
        match *self {}
    }

    pub(crate) fn launch(&self, _: &Plan, _: &mut [Arg<'_>]) -> Result<(), Error> {
        match *self {}
    }
}
