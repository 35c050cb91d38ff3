//! Building at run time: for programs that have MLIR in hand and want a kernel.

use std::path::{Path, PathBuf};
use std::time::Duration;

use npu_runtime::Runtime;

use crate::config::{Environment, Layer, Options, Package, Settings};
use crate::interrupt::Interrupt;
use crate::kernel::Target;
use crate::plan::{Build, BuildError, Session, Variant};
use crate::setters::{Draft, kernel_setters, layer_setters};
use crate::step::cpu::March;

/// Builds one kernel, or finds it in the cache.
///
/// Variables and `npu-build.toml` count as they do on the command line; what is said here counts
/// more. A program that builds often opens a [`Session`] once and gives it
/// [`Request`](crate::Request)s.
///
/// ```no_run
/// use npu_build::{Builder, Direction, Target};
/// use npu_runtime::{Arg, Device, Runtime};
///
/// let build = Builder::new("kernels/vecadd.mlir")
///     .target(Target::Cpu)
///     .arg("out", Direction::InOut)
///     .build()?;
/// let kernel = build.load(&Device::open(Runtime::Cpu)?, &build.kernels[0])?;
/// let (x, y, mut out) = (vec![1.0f32; 4096], vec![2.0f32; 4096], vec![0.0f32; 4096]);
/// let mut arguments = [
///     Arg::input::<f32>(&x),
///     Arg::input::<f32>(&y),
///     Arg::output::<f32>(&mut out),
///     Arg::scalar(4096i32),
/// ];
/// kernel.launch(4.into(), &mut arguments)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    draft: Draft,
    layer: Layer,
}

impl Builder {
    /// A builder for the MLIR file `kernel`.
    #[must_use]
    pub fn new(kernel: impl Into<PathBuf>) -> Self {
        Self {
            draft: Draft::new(kernel),
            layer: Layer::default(),
        }
    }

    kernel_setters!("");
    layer_setters!();

    /// What to build for; the MLIR's own device if not said.
    #[must_use]
    pub fn target(self, target: Target) -> Self {
        self.draft(|draft| draft.options.target = vec![target])
    }

    /// What loads a kernel for an NPU; [`Runtime::Xrt`] if not said.
    #[must_use]
    pub fn runtime(self, runtime: Runtime) -> Self {
        self.draft(|draft| draft.options.runtime = vec![runtime])
    }

    /// What else to build for: the launcher, and what [`Build::load`] loads, has an image for each
    /// and takes the one that fits the device.
    #[must_use]
    pub fn also(self, target: Target, runtime: Runtime) -> Self {
        let variant = Variant {
            target: Some(target),
            runtime: Some(runtime),
        };
        self.draft(|draft| draft.options.also.push(variant))
    }

    /// What a kernel for an NPU is packaged as; the target's best if not said.
    #[must_use]
    pub fn format(self, format: Package) -> Self {
        self.draft(|draft| draft.options.format = Some(format))
    }

    /// The signature in Triton's syntax, to be checked against the MLIR.
    #[must_use]
    pub fn signature(self, signature: impl Into<String>) -> Self {
        self.draft(|draft| draft.options.signature = Some(signature.into()))
    }

    /// Which CPU the cpu target compiles for.
    #[must_use]
    pub fn march(self, march: March) -> Self {
        self.draft(|draft| draft.options.options.march = Some(march))
    }

    /// Keeps what lies between the MLIR and the artifact among the artifacts.
    #[must_use]
    pub fn keep_intermediates(self, keep: bool) -> Self {
        self.draft(|draft| draft.options.keep_intermediates = Some(keep))
    }

    /// Builds even what is in the cache.
    #[must_use]
    pub fn refresh(self, refresh: bool) -> Self {
        self.draft(|draft| draft.options.refresh = refresh)
    }

    /// Looks nothing up and keeps nothing.
    #[must_use]
    pub fn no_cache(mut self) -> Self {
        self.layer.cache.enabled = Some(false);
        self
    }

    /// How long one tool may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.layer.tools.timeout = Some(timeout);
        self
    }

    /// Builds the kernel.
    ///
    /// # Errors
    /// See [`BuildError`]; [`BuildError::report`] has the whole story.
    pub fn build(&self) -> Result<Build, BuildError> {
        let cwd = std::env::current_dir().map_err(|source| BuildError::Read {
            path: ".".into(),
            source,
        })?;
        let settings = Settings::load(self.layer.clone(), &Environment::of_process(), &cwd)?;
        let all = Options::default();
        let request = self.draft.request(Path::new(""), &all, &settings)?;
        let session = Session::new(settings, Interrupt::default(), &|_| {})?;
        session.build(&request, &|_| {})
    }

    fn draft(mut self, change: impl FnOnce(&mut Draft)) -> Self {
        change(&mut self.draft);
        self
    }
}
