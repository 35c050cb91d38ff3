//! What a device loads. A launcher may carry a kernel in several compiled forms, of which
//! [`Kernel::load`](crate::Kernel::load) takes the one that fits the device.

use crate::{Artifact, Compiled, Device, Error, Runtime, Signature};
use std::borrow::Cow;
use std::fmt;

/// A kernel in one compiled form.
///
/// ```
/// use npu_runtime::{Artifact, Compiled, Image, Npu, Runtime};
///
/// let image = Image::Hsaco {
///     hsaco: Artifact::embedded(b"\x7fELF"),
///     kernel: "main:sequence".into(),
///     compiled: Compiled::for_target(Npu::Npu2),
/// };
/// assert_eq!(image.runtime(), Runtime::Hsa);
/// assert_eq!(image.to_string(), "hsa on npu2");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Image {
    /// For cpu: a shared object.
    Object(Artifact),
    /// For hsa: a kernel of an hsaco.
    Hsaco {
        /// The hsaco.
        hsaco: Artifact,
        /// The kernel's name in it, `k` or `main:sequence`.
        kernel: Cow<'static, str>,
        /// What it was compiled for.
        compiled: Compiled,
    },
    /// For xrt: a kernel of a full ELF.
    FullElf {
        /// The full ELF.
        elf: Artifact,
        /// The kernel's name in it, `main:sequence`.
        kernel: Cow<'static, str>,
        /// What it was compiled for.
        compiled: Compiled,
    },
    /// For xrt: a kernel of an xclbin, and its instruction stream.
    Xclbin {
        /// The xclbin.
        xclbin: Artifact,
        /// The instruction stream.
        insts: Artifact,
        /// The kernel's name in the xclbin.
        kernel: Cow<'static, str>,
        /// What it was compiled for.
        compiled: Compiled,
    },
}

impl Image {
    /// The runtime that loads it.
    #[must_use]
    pub const fn runtime(&self) -> Runtime {
        match self {
            Self::Object(_) => Runtime::Cpu,
            Self::Hsaco { .. } => Runtime::Hsa,
            Self::FullElf { .. } | Self::Xclbin { .. } => Runtime::Xrt,
        }
    }

    /// What it was compiled for; `None` for the cpu.
    #[must_use]
    pub const fn compiled(&self) -> Option<&Compiled> {
        match self {
            Self::Object(_) => None,
            Self::Hsaco { compiled, .. }
            | Self::FullElf { compiled, .. }
            | Self::Xclbin { compiled, .. } => Some(compiled),
        }
    }

    fn fits(&self, device: &Device) -> bool {
        let target = self.compiled().map(|compiled| compiled.target);
        let same_target = match (target, device.npu()) {
            (Some(target), Some(npu)) => target == npu,
            _ => true,
        };
        self.runtime() == device.runtime() && same_target
    }

    /// The first of `images` that runs on `device`.
    pub(crate) fn select<'a>(
        images: &'a [Self],
        device: &Device,
        signature: &Signature,
    ) -> Result<&'a Self, Error> {
        let fitting = images.iter().find(|image| image.fits(device));
        fitting.ok_or_else(|| {
            Error::NoImage(Box::new(NoImage {
                kernel: signature.name.to_string(),
                runtime: device.runtime(),
                npu: device.npu(),
                images: images.iter().map(Self::to_string).collect(),
            }))
        })
    }
}

/// Where it runs, as errors name it.
impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.runtime())?;
        match self.compiled() {
            Some(compiled) => write!(f, " on {}", compiled.target),
            None => Ok(()),
        }
    }
}

/// None of a kernel's images runs on the device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoImage {
    /// The kernel.
    pub kernel: String,
    /// The device's runtime.
    pub runtime: Runtime,
    /// The device's generation, if it is an NPU and known.
    pub npu: Option<crate::Npu>,
    /// Where the images run; a stub has none.
    pub images: Vec<String>,
}

impl fmt::Display for NoImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}` was compiled for ", self.kernel)?;
        if self.images.is_empty() {
            return f.write_str(
                "nothing: this launcher is a stub, made without a compiler as it is for \
                 documentation; build it again where the compiler is, and without asking for stubs",
            );
        }
        f.write_str(&self.images.join(" and "))?;
        write!(f, ", and the device is {}", self.runtime)?;
        if let Some(npu) = self.npu {
            write!(f, " on {npu}")?;
        }
        match (self.runtime, self.npu) {
            (Runtime::Cpu, _) => f.write_str("; compile it with `--target cpu`"),
            (runtime, Some(npu)) => {
                write!(f, "; compile it with `--target {npu} --runtime {runtime}`")
            }
            (runtime, None) => write!(f, "; compile it with `--runtime {runtime}`"),
        }
    }
}
