//! The XRT backend, which is not there yet: opening its device says so.

use crate::plan::Plan;
use crate::{Arg, Buffer, Compiled, Element, Error, Image, Npu, Runtime};

#[derive(Clone)]
pub(crate) enum Device {}

impl Device {
    pub(crate) fn open() -> Result<Self, Error> {
        Err(Error::NotSupported {
            runtime: Runtime::Xrt,
        })
    }

    pub(crate) fn npu(&self) -> Option<Npu> {
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

/// Whether an XRT is installed, so that xrt may be chosen where no runtime is named.
pub(crate) fn is_installed() -> bool {
    false
}
