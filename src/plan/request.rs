//! What is asked of a build, and what of it the settings fill in.

use std::borrow::Cow;
use std::path::PathBuf;

use npu_runtime::Runtime;

use super::KernelError;
use crate::config::{Options, Package};
use crate::kernel::Target;
use crate::toolchain::Format;

/// One kernel to build, and how: what [`Settings::request`](crate::config::Settings::request) makes of
/// all layers of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The MLIR file.
    pub kernel: PathBuf,
    /// What it is built for; the MLIR's own device if not given.
    pub target: Option<Target>,
    /// What it is built for if the MLIR does not say either.
    pub default_target: Option<Target>,
    /// What loads it.
    pub runtime: Option<Runtime>,
    /// What loads it if nothing was chosen and this can; else xrt for an NPU.
    pub default_runtime: Option<Runtime>,
    /// What else it is built for: a launcher with several images takes the one that fits the
    /// device.
    pub also: Vec<Variant>,
    /// Something of the options that was said of this kernel alone, and makes no sense for the cpu.
    pub for_npu_only: Option<&'static str>,
    /// All else; targets and runtimes are those above.
    pub options: Options,
}

/// A target and what loads what is built for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant {
    /// The target; that of the request if not given.
    pub target: Option<Target>,
    /// The runtime; xrt for an NPU if not given.
    pub runtime: Option<Runtime>,
}

impl Variant {
    /// Each target with each runtime that loads it.
    #[must_use]
    pub fn combinations(targets: &[Target], runtimes: &[Runtime]) -> Vec<Self> {
        let targets = match targets {
            [] => vec![None],
            targets => targets.iter().copied().map(Some).collect(),
        };
        let mut variants = Vec::new();
        for target in &targets {
            let fits = |runtime: &Runtime| {
                // With one target, a runtime that does not fit is a mistake, and told as one.
                targets.len() == 1 || target.is_none_or(|target| target.is_loaded_by(*runtime))
            };
            let fitting = runtimes.iter().copied().filter(fits).map(Some);
            let mut fitting: Vec<_> = fitting.collect();
            if fitting.is_empty() {
                // The cpu has its own; an NPU's that is not among those that were named is a mistake.
                let named = runtimes.first().copied();
                fitting.push(named.filter(|_| *target != Some(Target::Cpu)));
            }
            for runtime in fitting {
                let variant = Self {
                    target: *target,
                    runtime,
                };
                if !variants.contains(&variant) {
                    variants.push(variant);
                }
            }
        }
        variants
    }
}

impl Request {
    /// The requests that this one is made of, each for one target and runtime.
    pub(crate) fn variants(&self) -> Vec<Cow<'_, Self>> {
        if self.also.is_empty() {
            return vec![Cow::Borrowed(self)];
        }
        let first = (self.target, self.runtime);
        let others = self.also.iter();
        let all = std::iter::once(first)
            .chain(others.map(|variant| (variant.target.or(self.target), variant.runtime)));
        let variant = |(target, runtime)| {
            let mut request = Self {
                target,
                runtime,
                also: Vec::new(),
                ..self.clone()
            };
            // What is said of an NPU is said of those variants that are for one.
            request.for_npu_only = None;
            Cow::Owned(request)
        };
        all.map(variant).collect()
    }
}

/// The runtime that loads what is built for `target`.
pub(super) fn settle_runtime(
    target: Target,
    chosen: Option<Runtime>,
    default: Option<Runtime>,
) -> Result<Runtime, KernelError> {
    let fits = |runtime: &Runtime| target.is_loaded_by(*runtime);
    match chosen {
        Some(runtime) if !fits(&runtime) => Err(KernelError::OtherRuntime { target, runtime }),
        Some(runtime) => Ok(runtime),
        None => Ok(default.filter(fits).unwrap_or(match target {
            Target::Cpu => Runtime::Cpu,
            Target::Npu1 | Target::Npu2 => Runtime::Xrt,
        })),
    }
}

/// What an NPU's kernel is packaged as.
pub(super) fn settle_format(
    target: Target,
    runtime: Runtime,
    chosen: Option<Package>,
) -> Result<Format, KernelError> {
    let format = match (chosen.unwrap_or_default(), target) {
        (Package::As(format), _) => format,
        (Package::Auto, Target::Npu2) => Format::Elf,
        (Package::Auto, _) => Format::Xclbin,
    };
    if runtime == Runtime::Hsa && format == Format::Pdi {
        return Err(KernelError::PdiForHsa);
    }
    Ok(format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_and_runtime_are_those_that_the_target_has() {
        let format = |target, runtime, text: &str| {
            settle_format(target, runtime, Some(text.parse().unwrap()))
        };
        let auto = |target| format(target, Runtime::Xrt, "auto").unwrap();
        assert_eq!(
            (auto(Target::Npu1), auto(Target::Npu2)),
            (Format::Xclbin, Format::Elf)
        );
        assert!(format(Target::Npu2, Runtime::Hsa, "pdi").is_err());
        assert_eq!(
            format(Target::Npu2, Runtime::Xrt, "pdi").unwrap(),
            Format::Pdi
        );
        assert!(settle_runtime(Target::Cpu, Some(Runtime::Hsa), None).is_err());
        assert!(settle_runtime(Target::Npu1, Some(Runtime::Cpu), None).is_err());
        // hsa is chosen by name only.
        let settled = |target, default| settle_runtime(target, None, default).unwrap();
        assert_eq!(settled(Target::Npu2, None), Runtime::Xrt);
        assert_eq!(settled(Target::Npu2, Some(Runtime::Hsa)), Runtime::Hsa);
        assert_eq!(settled(Target::Npu2, Some(Runtime::Cpu)), Runtime::Xrt);
        assert_eq!(settled(Target::Cpu, Some(Runtime::Hsa)), Runtime::Cpu);
    }
}
