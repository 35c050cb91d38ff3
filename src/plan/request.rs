//! What is asked of a build, and what of it the settings fill in.

use std::borrow::Cow;
use std::path::PathBuf;

use npu_runtime::{Direction, Runtime};

use super::KernelError;
use crate::config::{KernelSection, NpuChoices, Package, Said, Settings};
use crate::kernel::Target;
use crate::step::cpu::March;
use crate::toolchain::Format;

/// One kernel to build, and how.
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
    /// What it is packaged as for an NPU; the target's best if not given.
    pub format: Option<Package>,
    /// Which function is the kernel, if the file has several.
    pub entry: Option<String>,
    /// Directions of arguments by name, where inference is not to decide.
    pub directions: Vec<(String, Direction)>,
    /// How many elements arguments need, by name ([`crate::kernel::contract`]).
    pub extents: Vec<(String, String)>,
    /// A signature in Triton's syntax, to be checked against the MLIR.
    pub signature: Option<String>,
    /// Which CPU the cpu target compiles for; its architecture's baseline if not given.
    pub march: Option<March>,
    /// What only the npu targets are told.
    pub npu: NpuChoices,
    /// What of that, as a flag, was said of this kernel here and not in a file: it makes no sense
    /// for the cpu.
    pub for_npu_only: Option<&'static str>,
    /// Whether what lies between the MLIR and the artifact is kept.
    pub keep_intermediates: bool,
    /// Whether to build even what is in the cache.
    pub refresh: bool,
}

/// A target and what loads what is built for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
                targets.len() == 1 || target.is_none_or(|target| loads(*runtime, target))
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

    /// What the project file says that the kernel is built for, where nothing else was said and it
    /// says more than one thing.
    fn listed(&self, section: &KernelSection, variables: &Said) -> Vec<Variant> {
        let target = self.target.or(variables.target);
        let runtime = self.runtime.or(variables.runtime);
        let mut targets = target.map_or(section.targets.clone(), |target| vec![target]);
        let mut runtimes = runtime.map_or(section.runtimes.clone(), |runtime| vec![runtime]);
        // What one was chosen for counts of the other.
        match (target, runtime) {
            (Some(target), None) => runtimes.retain(|runtime| loads(*runtime, target)),
            (None, Some(runtime)) if targets.iter().any(|target| loads(runtime, *target)) => {
                targets.retain(|target| loads(runtime, *target));
            }
            _ => {}
        }
        let is_one = targets.len() <= 1 && runtimes.len() <= 1;
        let said_none = section.targets.len() <= 1 && section.runtimes.len() <= 1;
        if is_one && said_none || !self.also.is_empty() {
            return Vec::new();
        }
        Variant::combinations(&targets, &runtimes)
    }

    /// A request for `kernel` with nothing but defaults.
    #[must_use]
    pub fn new(kernel: impl Into<PathBuf>) -> Self {
        Self {
            kernel: kernel.into(),
            ..Self::default()
        }
    }

    /// The request with what it leaves open filled in: from what the project file says of the
    /// kernel, then from the settings.
    #[must_use]
    pub fn completed_by(self, settings: &Settings) -> Self {
        let none = KernelSection::default();
        let section = settings
            .kernel(&self.kernel, self.entry.as_deref())
            .unwrap_or(&none);
        let variables = &settings.variables;
        let mut listed = self.listed(section, variables).into_iter();
        let first = listed.next();
        let mut directions = section.directions.clone();
        directions.extend(self.directions);
        let mut extents = section.extents.clone();
        extents.extend(self.extents);
        let package = self.format.filter(|format| *format != Package::Auto);
        let insists = package.map(|_| "--format");
        let target = section.targets.first().copied();
        let runtime = section.runtimes.first().copied();
        Self {
            target: match first {
                Some(first) => first.target,
                None => self.target.or(variables.target).or(target),
            },
            runtime: first.map_or(self.runtime, |first| first.runtime),
            also: self.also.into_iter().chain(listed).collect(),
            default_target: settings.target,
            default_runtime: (variables.runtime).or(runtime).or(settings.runtime),
            format: (self.format)
                .or(variables.format)
                .or(section.format)
                .or(settings.format),
            entry: self.entry.or_else(|| section.entry.clone()),
            directions,
            extents,
            signature: self.signature.or_else(|| section.signature.clone()),
            march: (self.march)
                .or_else(|| variables.march.clone())
                .or_else(|| section.march.clone())
                .or_else(|| settings.march.clone()),
            for_npu_only: self.npu.first_said().or(insists),
            npu: NpuChoices {
                transform: (self.npu.transform.clone())
                    .or_else(|| variables.transform.clone())
                    .or_else(|| section.npu.transform.clone())
                    .or_else(|| settings.transform.clone()),
                ..self.npu.over(section.npu.clone())
            },
            keep_intermediates: self.keep_intermediates || settings.keep_intermediates,
            ..self
        }
    }
}

/// Whether a runtime is one that loads what is built for `target`.
fn loads(runtime: Runtime, target: Target) -> bool {
    (runtime == Runtime::Cpu) == (target == Target::Cpu)
}

/// The runtime that loads what is built for `target`.
pub(super) fn settle_runtime(
    target: Target,
    chosen: Option<Runtime>,
    default: Option<Runtime>,
) -> Result<Runtime, KernelError> {
    let fits = |runtime: &Runtime| loads(*runtime, target);
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
