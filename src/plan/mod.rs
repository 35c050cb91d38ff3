//! The plan of a build: which steps a kernel needs, chained by the content of what they make.
//!
//! A [`Session`] holds what builds share (the cache, the toolchain, the runner); [`Session::build`]
//! takes one kernel through its steps. Nothing here knows how a step is run or kept.

mod built;
mod error;
mod prepared;
mod remembered;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use npu_runtime::Direction;

pub use built::{Build, BuiltKernel};
pub use error::{BuildError, KernelError};
pub use prepared::{Prepared, Understood};
use remembered::{LauncherOf, MAX_SOURCE, Plan};

use crate::config::{CachePlace, KernelSection, Settings};
use crate::interrupt::Interrupt;
use crate::kernel::Target;
use crate::launcher;
use crate::parallel;
use crate::recent::Recent;
use crate::step::cpu::{self, March};
use crate::step::execute::ExecuteError;
use crate::step::run::Runner;
use crate::step::{self, Keyed, Step};
use crate::store::layout::Layout;
use crate::store::{Artifact, EnsureError, Event, Observer, OpenError, Store};
use crate::toolchain::{AieTools, Candidate, Llvm, Memo, Probe};

/// One kernel to build, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The MLIR file.
    pub kernel: PathBuf,
    /// What it is built for; the MLIR's own device if not given.
    pub target: Option<Target>,
    /// Which function is the kernel, if the file has several.
    pub entry: Option<String>,
    /// Directions of arguments by name, where inference is not to decide.
    pub directions: Vec<(String, Direction)>,
    /// A signature in Triton's syntax, to be checked against the MLIR.
    pub signature: Option<String>,
    /// Which CPU the cpu target compiles for; its architecture's baseline if not given.
    pub march: Option<March>,
    /// Whether what lies between the MLIR and the artifact is kept.
    pub keep_intermediates: bool,
    /// Whether to build even what is in the cache.
    pub refresh: bool,
}

impl Request {
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
        let mut directions = section.directions.clone();
        directions.extend(self.directions);
        Self {
            target: self.target.or(section.target).or(settings.target),
            entry: self.entry.or_else(|| section.entry.clone()),
            directions,
            signature: self.signature.or_else(|| section.signature.clone()),
            march: self
                .march
                .or_else(|| section.march.clone())
                .or_else(|| settings.march.clone()),
            keep_intermediates: self.keep_intermediates || settings.keep_intermediates,
            ..self
        }
    }
}

/// What several builds share.
#[derive(Debug)]
pub struct Session {
    store: Store,
    settings: Settings,
    runner: Runner,
    memo: Mutex<Memo>,
    plans: Recent<PathBuf, Plan>,
}

impl Session {
    /// Opens the cache that `settings` names. `interrupt` ends the tools early.
    ///
    /// # Errors
    /// When the cache directory can't be trusted, or something else is in its place.
    pub fn new(
        settings: Settings,
        interrupt: Interrupt,
        observe: Observer<'_>,
    ) -> Result<Self, BuildError> {
        let store = match &settings.cache {
            CachePlace::Disabled => Store::disabled(),
            CachePlace::Directory(root) => match Store::open(root, settings.sharing, observe) {
                // Nobody chose the place: a home that is closed to us is as good as none.
                Err(error @ OpenError::Io { .. }) if settings.cache_is_default => {
                    temporary_store(&error.to_string(), observe)?
                }
                opened => opened?,
            },
            CachePlace::Unknown => temporary_store(
                "neither NPU_BUILD_CACHE_DIR, XDG_CACHE_HOME nor HOME is set",
                observe,
            )?,
        };
        let tools = store.layout().map(Layout::tools);
        let memo = Memo::load(tools.as_deref());
        Ok(Self {
            runner: Runner {
                timeout: settings.timeout,
                interrupt,
            },
            memo: Mutex::new(memo),
            plans: Recent::default(),
            store,
            settings,
        })
    }

    /// The settings that the session was opened with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What ends the session's work early.
    #[must_use]
    pub fn interrupt(&self) -> &Interrupt {
        &self.runner.interrupt
    }

    /// The cache.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The MLIR/LLVM installation that the settings lead to.
    ///
    /// # Errors
    /// Every candidate with the reason why it won't do.
    pub fn llvm(&self) -> Result<Arc<Llvm>, BuildError> {
        let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        let found = Llvm::discover(&self.settings.llvm, &mut memo, &self.probe());
        memo.save();
        Ok(self.unless_interrupted(found)??)
    }

    /// The AIE toolchain that the settings lead to, as far as it is there.
    ///
    /// # Errors
    /// When the session was interrupted meanwhile.
    pub fn aie_tools(&self) -> Result<Arc<AieTools>, BuildError> {
        let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        let found = AieTools::discover(&self.settings.aie, &mut memo, &self.probe());
        memo.save();
        self.unless_interrupted(found)
    }

    fn unless_interrupted<T>(&self, found: T) -> Result<T, BuildError> {
        if self.interrupt().is_raised() {
            return Err(EnsureError::from(ExecuteError::Interrupted).into());
        }
        Ok(found)
    }

    /// Every place where an MLIR/LLVM installation was looked for, and what is there.
    pub fn llvm_candidates(&self) -> Vec<Candidate> {
        let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        let candidates = Llvm::candidates(&self.settings.llvm, &mut memo, &self.probe());
        memo.save();
        candidates
    }

    /// How tools are asked about themselves.
    fn probe(&self) -> impl Probe {
        |program: &Path, arguments: &[&str]| self.runner.probe(program, arguments)
    }

    /// The step that makes a kernel's artifact, ready to be keyed or run.
    ///
    /// # Errors
    /// When there is no toolchain for the target, or it can't take the kernel.
    pub fn compile_step(&self, prepared: &Prepared, request: &Request) -> Result<Step, BuildError> {
        self.compile_with(prepared, request).map(|(step, _)| step)
    }

    /// The same, and the tools that it uses.
    fn compile_with(
        &self,
        prepared: &Prepared,
        request: &Request,
    ) -> Result<(Step, Arc<Llvm>), BuildError> {
        let refuse = |error: KernelError| error.at(&request.kernel);
        let kernels = prepared.understood.kernels.as_slice();
        let (Target::Cpu, [kernel, ..]) = (prepared.target, kernels) else {
            return Err(refuse(KernelError::UnsupportedTarget(prepared.target)));
        };
        let tools = self.llvm()?;
        cpu::compile(&cpu::Request {
            signature: &kernel.signature,
            types: &kernel.types,
            defined: &prepared.understood.module.defined,
            origin: step::Origin {
                path: request.kernel.clone(),
                text: Arc::clone(&prepared.understood.text),
            },
            tools: &tools,
            march: request.march.clone().unwrap_or_default(),
            keep_intermediates: request.keep_intermediates,
        })
        .map(|step| (step, tools))
        .map_err(|error| refuse(error.into()))
    }

    /// The files besides the kernel itself whose change changes the build, for a build script.
    ///
    /// # Errors
    /// When there is no toolchain for the target.
    pub fn depends_on(
        &self,
        prepared: &Prepared,
        request: &Request,
    ) -> Result<Vec<PathBuf>, BuildError> {
        let directory = request.kernel.parent().unwrap_or(Path::new("."));
        let links = prepared.understood.module.link_files.iter();
        let mut files: Vec<_> = links.map(|file| directory.join(file)).collect();
        if prepared.target == Target::Cpu {
            files.extend(self.llvm()?.files().map(Path::to_owned));
        }
        Ok(files)
    }

    /// Builds one kernel and its launcher, or finds them in the cache.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build(&self, request: &Request, observe: Observer<'_>) -> Result<Build, BuildError> {
        let started = Instant::now();
        let plan = self.plan(request, observe)?;
        let ensure = |step: &Keyed| {
            self.store
                .ensure(step, request.refresh, &self.runner, observe)
        };
        let compiled = ensure(&plan.compile)?;
        // One artifact for all kernels of the file: the first output of the compile step.
        let kernels = (plan.prepared.understood.kernels.iter()).zip(&compiled.artifacts);
        let kernels: Vec<_> = kernels
            .map(|(kernel, artifact)| BuiltKernel {
                file_name: launcher::artifact_file_name(
                    &kernel.signature.name,
                    &artifact.digest,
                    "so",
                ),
                signature: kernel.signature.clone(),
                key: compiled.key,
                artifact: artifact.clone(),
            })
            .collect();
        let launcher = plan.launcher.get_or_plan(&compiled.artifacts, || {
            let compile = plan.compile.step();
            let request = launcher_request(&kernels);
            step::launcher::launcher(&compile.subject, compile.target, &request).map(Keyed::from)
        });
        let launcher = launcher.map_err(|error| KernelError::from(error).at(&request.kernel))?;
        let launcher = ensure(&launcher)?;
        Ok(Build {
            source: request.kernel.clone(),
            target: plan.prepared.target,
            kernels,
            steps: vec![compiled, launcher],
            elapsed: started.elapsed(),
        })
    }

    /// Builds several kernels, up to `jobs` at once; the results in the order of the requests.
    pub fn build_all(
        &self,
        requests: &[Request],
        jobs: usize,
        observe: Observer<'_>,
    ) -> Vec<Result<Build, BuildError>> {
        parallel::map(requests, jobs, |request| self.build(request, observe))
    }

    /// Builds one kernel and writes what is `wanted` of it into `directory`, see
    /// [`Build::write_to`].
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn deliver(
        &self,
        request: &Request,
        build: Build,
        directory: &Path,
        wanted: impl Fn(&Artifact) -> bool,
        observe: Observer<'_>,
    ) -> Result<(Build, Vec<PathBuf>), BuildError> {
        // An entry may be deleted, by hand or by another process, between its use and the copy.
        const TRIES: u32 = 3;
        let mut build = build;
        for _ in 1..TRIES {
            match build.write_to(directory, &wanted) {
                Ok(written) => return Ok((build, written)),
                Err(BuildError::Read { .. }) => build = self.build(request, observe)?,
                Err(error) => return Err(error),
            }
        }
        let written = build.write_to(directory, &wanted)?;
        Ok((build, written))
    }

    /// What is to be done for `request`; the plan of an earlier build if nothing has changed since.
    fn plan(&self, request: &Request, observe: Observer<'_>) -> Result<Arc<Plan>, BuildError> {
        let source = prepared::read(&request.kernel)?;
        if let Some(plan) = self.plans.get(&request.kernel)
            && plan.source == source
            && plan.request == *request
            && Arc::ptr_eq(&plan.tools, &self.llvm()?)
        {
            return Ok(plan);
        }
        let prepared = Prepared::of(request, &source)?;
        for doubt in &prepared.understood.doubts {
            let kernel = request.kernel.display();
            observe(Event::Warning(format!("{kernel}: {doubt}")));
        }
        let (compile, tools) = self.compile_with(&prepared, request)?;
        let plan = Arc::new(Plan {
            request: request.clone(),
            source,
            tools,
            prepared,
            compile: compile.into(),
            launcher: LauncherOf::default(),
        });
        if plan.source.len() <= MAX_SOURCE {
            self.plans.put(request.kernel.clone(), Arc::clone(&plan));
        }
        Ok(plan)
    }
}

/// A cache for this run only, and why.
fn temporary_store(reason: &str, observe: Observer<'_>) -> Result<Store, BuildError> {
    observe(Event::Warning(format!(
        "{reason}: what is built now is not kept for the next run"
    )));
    Store::temporary().map_err(|source| BuildError::Write {
        path: std::env::temp_dir(),
        source,
    })
}

fn launcher_request(kernels: &[BuiltKernel]) -> launcher::Request {
    let kernels = kernels.iter().map(|kernel| launcher::Kernel {
        signature: kernel.signature.clone(),
        key: kernel.key,
        images: vec![launcher::Image::Object {
            object: launcher::Artifact {
                file: kernel.file_name.clone(),
                digest: kernel.artifact.digest,
            },
        }],
    });
    launcher::Request {
        kernels: kernels.collect(),
        locate: launcher::Locate::Embed,
    }
}
