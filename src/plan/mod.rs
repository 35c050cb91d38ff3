//! The plan of a build: which steps a kernel needs, chained by the content of what they make.
//!
//! A [`Session`] holds what builds share (the cache, the toolchain, the runner); [`Session::build`]
//! takes one kernel through its steps. Nothing here knows how a step is run or kept.

mod built;
mod cpu;
mod error;
mod files;
mod npu;
mod prepared;
mod remembered;
mod request;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

pub use built::{Build, BuiltKernel, copy_into};
pub use error::{BuildError, KernelError};
pub use files::FileError;
pub use prepared::{Prepared, Understood};
use remembered::{MAX_SOURCE, Plan, Planned, Route};
pub use request::{Request, Variant};

use crate::config::{CachePlace, Package, Settings};
use crate::interrupt::Interrupt;
use crate::kernel::Target;
use crate::launcher;
use crate::parallel;
use crate::recent::Recent;
use crate::step::execute::ExecuteError;
use crate::step::run::Runner;
use crate::step::{self, Keyed, Step};
use crate::store::Explanation;
use crate::store::layout::Layout;
use crate::store::{Artifact, EnsureError, Event, Observer, OpenError, StepResult, Store};
use crate::toolchain::{AieTools, Candidate, Format, Llvm, Memo, Probe, XrtSdk};

/// What several builds share.
#[derive(Debug)]
pub struct Session {
    store: Store,
    settings: Settings,
    runner: Runner,
    memo: Mutex<Memo>,
    plans: Recent<PathBuf, Plan>,
}

/// What came of taking a kernel through its steps.
struct Followed {
    /// The first target's.
    plan: Arc<Plan>,
    kernels: Vec<BuiltKernel>,
    steps: Vec<StepResult>,
}

/// As often a build begins where others delete, before it goes where nobody does.
const ATTEMPTS: usize = 3;

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
            CachePlace::Directory(root) => match Store::open(root, settings.sharing) {
                // Nobody chose the place: a home that is closed to us is as good as none.
                Err(error @ OpenError::Io { .. }) if settings.cache_is_default => {
                    not_kept(&error.to_string(), observe)
                }
                opened => opened?,
            },
            CachePlace::Unknown => not_kept(
                "neither NPU_BUILD_CACHE_DIR, XDG_CACHE_HOME nor HOME is set",
                observe,
            ),
        };
        let store = store.with_layers(&settings.cache_layers, observe)?;
        let tools = store.layout().and_then(Layout::trusted_tools);
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

    /// The library through which launchers drive XRT, for the XRT that the settings lead to.
    ///
    /// # Errors
    /// When there is no XRT with development files, no compiler, or it fails.
    pub fn shim(&self, refresh: bool, observe: Observer<'_>) -> Result<StepResult, BuildError> {
        let sdk = {
            let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
            let found = XrtSdk::discover(&self.settings.xrt, &mut memo, &self.probe());
            memo.save();
            self.unless_interrupted(found)??
        };
        let step = Keyed::from(step::shim::shim(&sdk));
        Ok((self.store).ensure(&step, refresh, &self.runner, observe)?)
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

    /// The first step of a kernel for each of its targets and runtimes, not yet carried out.
    ///
    /// # Errors
    /// When there is no toolchain for a target, or it can't take the kernel.
    pub fn first_steps(&self, request: &Request) -> Result<Vec<Step>, BuildError> {
        let first =
            |variant: Cow<'_, Request>| match self.route(&Prepared::new(&variant)?, &variant)? {
                Route::Cpu(cpu) => Ok(cpu.compile.step().clone()),
                Route::Npu(npu) => npu.first().map_err(|error| error.at(&request.kernel)),
            };
        variants(request)?.into_iter().map(first).collect()
    }

    /// The way that a kernel takes through the steps.
    fn route(&self, prepared: &Prepared, request: &Request) -> Result<Route, BuildError> {
        match prepared.target {
            Target::Cpu => cpu::route(prepared, request, self.llvm()?).map(Route::Cpu),
            Target::Npu1 | Target::Npu2 => {
                npu::route(prepared, request, self.aie_tools()?).map(Route::Npu)
            }
        }
        .map_err(|error| error.at(&request.kernel))
    }

    /// The files besides the kernel itself whose change changes the build, for a build script.
    ///
    /// # Errors
    /// When there is no toolchain for the target, or a file is missing.
    pub fn depends_on(
        &self,
        prepared: &Prepared,
        request: &Request,
    ) -> Result<Vec<PathBuf>, BuildError> {
        let owned = |files: &mut dyn Iterator<Item = &Path>| files.map(Path::to_owned).collect();
        Ok(match self.route(prepared, request)? {
            Route::Cpu(cpu) => owned(&mut cpu.tools.files()),
            Route::Npu(npu) => owned(&mut npu.read()),
        })
    }

    /// Builds one kernel and its launcher, or finds them in the cache.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build(&self, request: &Request, observe: Observer<'_>) -> Result<Build, BuildError> {
        // What a step made may be deleted, by hand or by another process, before the next reads it.
        let is_gone = |built: &Result<Build, BuildError>| {
            let gone = |error: &EnsureError| {
                matches!(error, EnsureError::Execute(ExecuteError::Input { .. }))
            };
            matches!(built, Err(BuildError::Ensure(error)) if gone(error))
        };
        for _ in 0..ATTEMPTS {
            let built = self.build_from(&self.store, request, observe);
            if !is_gone(&built) {
                return built;
            }
            // Its steps know the files that are gone.
            self.plans.forget(&request.kernel);
        }
        self.build_apart(request, observe)
    }

    /// Builds where nobody else deletes anything.
    fn build_apart(&self, request: &Request, observe: Observer<'_>) -> Result<Build, BuildError> {
        // Its steps know the files that are gone.
        self.plans.forget(&request.kernel);
        let apart = self.build_from(&Store::disabled(), request, observe);
        self.plans.forget(&request.kernel);
        apart
    }

    fn build_from(
        &self,
        store: &Store,
        request: &Request,
        observe: Observer<'_>,
    ) -> Result<Build, BuildError> {
        let started = Instant::now();
        let mut ensure =
            |step: &Keyed| Ok(store.ensure(step, request.refresh, &self.runner, observe)?);
        let Followed {
            plan,
            kernels,
            steps,
        } = self.follow(request, observe, &mut ensure)?;
        Ok(Build {
            source: request.kernel.clone(),
            target: plan.prepared.target,
            runtime: plan.prepared.runtime,
            kernels,
            steps,
            keeps_intermediates: request.keep_intermediates,
            elapsed: started.elapsed(),
        })
    }

    /// Takes a kernel through its steps, for each target; `ensure` has the outputs of each step, and is
    /// asked once for each.
    fn follow(
        &self,
        request: &Request,
        observe: Observer<'_>,
        ensure: &mut dyn FnMut(&Keyed) -> Result<StepResult, BuildError>,
    ) -> Result<Followed, BuildError> {
        let mut kernels = Vec::new();
        let mut first = None;
        let mut steps: Vec<StepResult> = Vec::new();
        let mut ensure = |step: &Keyed| {
            // Several targets and runtimes may go the same way up to somewhere.
            if let Some(ensured) = steps.iter().find(|known| known.key == *step.key()) {
                return Ok(ensured.clone());
            }
            let ensured = ensure(step)?;
            steps.push(ensured.clone());
            Ok(ensured)
        };
        for variant in variants(request)? {
            let plan = self.plan(&variant, observe)?;
            let built = match &plan.route {
                Route::Cpu(cpu) => cpu.build(&plan.prepared, &mut ensure)?,
                Route::Npu(npu) => npu.build(&variant, observe, &mut ensure)?,
            };
            merge(&mut kernels, built).map_err(|error| error.at(&request.kernel))?;
            first.get_or_insert(plan);
        }
        let plan = first.ok_or_else(|| KernelError::NoKernel.at(&request.kernel))?;
        // What can't be launched has no launcher.
        if kernels.iter().all(|kernel| !kernel.images.is_empty()) {
            let digests = kernels.iter().flat_map(|kernel| &kernel.files);
            let digests = digests.map(|(_, artifact)| artifact.digest);
            let launcher = plan.launcher.get_or_plan(digests, || {
                let subject = subject(&plan.prepared);
                let target = plan.prepared.target.name();
                step::launcher::launcher(&subject, target, &self.launcher_request(&kernels))
            });
            ensure(&*launcher.map_err(|error| KernelError::from(error).at(&request.kernel))?)?;
        }
        Ok(Followed {
            plan,
            kernels,
            steps,
        })
    }

    /// Says for each step of a kernel whether its outputs are in the cache, up to the first whose are
    /// not, and why not: what comes after it is made from them. Builds nothing.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn explain(
        &self,
        request: &Request,
        observe: Observer<'_>,
    ) -> Result<Vec<Explanation>, BuildError> {
        let mut explanations: Vec<Explanation> = Vec::new();
        let mut ensure = |step: &Keyed| {
            let explanation = self.store.explain(step);
            let ensured = explanation.hit.clone();
            explanations.push(explanation);
            // The way ends here, and there is nothing wrong with that.
            ensured.ok_or_else(|| EnsureError::from(ExecuteError::Interrupted).into())
        };
        let followed = self.follow(request, observe, &mut ensure);
        match followed {
            Err(error) if explanations.iter().all(|step| step.miss.is_none()) => Err(error),
            _ => Ok(explanations),
        }
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
        match build.write_to(directory, &wanted, self.interrupt()) {
            Err(BuildError::Read { .. }) => {
                let build = self.build_apart(request, observe)?;
                let written = build.write_to(directory, &wanted, self.interrupt())?;
                Ok((build, written))
            }
            written => Ok((build, written?)),
        }
    }

    /// What is to be done for `request`; the plan of an earlier build if nothing has changed since.
    fn plan(&self, request: &Request, observe: Observer<'_>) -> Result<Arc<Plan>, BuildError> {
        let source = prepared::read(&request.kernel)?;
        if let Some(plan) = self.plans.get(&request.kernel)
            && plan.source == source
            && plan.request == *request
            && self.still_leads(&plan.route)?
        {
            return Ok(plan);
        }
        let kept = source.len() <= MAX_SOURCE;
        let known = if kept { source.clone() } else { Vec::new() };
        let prepared = Prepared::of(request, source)?;
        for doubt in &prepared.understood.doubts {
            let kernel = request.kernel.display();
            observe(Event::Warning(format!("{kernel}: {doubt}")));
        }
        let route = self.route(&prepared, request)?;
        // What can't be launched has no launcher.
        if request.format != Some(Package::As(Format::Pdi)) {
            // That there can be none is known before anything is compiled.
            let kernels = prepared.understood.kernels.iter();
            let stubs = launcher::Request::of_stubs(
                kernels.map(|kernel| &kernel.signature),
                &self.settings.runtime_crate,
            );
            let checked = launcher::check(&stubs).map_err(KernelError::from);
            checked.map_err(|error| error.at(&request.kernel))?;
        }
        let plan = Arc::new(Plan {
            request: request.clone(),
            source: known,
            route,
            prepared,
            launcher: Planned::default(),
        });
        if kept {
            self.plans.put(request.kernel.clone(), Arc::clone(&plan));
        }
        Ok(plan)
    }

    fn launcher_request(&self, kernels: &[BuiltKernel]) -> launcher::Request {
        let kernels = kernels.iter().map(|kernel| launcher::Kernel {
            signature: kernel.signature.clone(),
            images: kernel.images.clone(),
        });
        launcher::Request {
            kernels: kernels.collect(),
            locate: launcher::Locate::Embed,
            runtime_crate: self.settings.runtime_crate.clone(),
        }
    }

    /// Whether a route would be found again, the kernel being the same.
    fn still_leads(&self, route: &Route) -> Result<bool, BuildError> {
        Ok(match route {
            Route::Cpu(cpu) => Arc::ptr_eq(&cpu.tools, &self.llvm()?),
            Route::Npu(npu) => !npu.reads_files() && Arc::ptr_eq(&npu.tools, &self.aie_tools()?),
        })
    }
}

/// The requests that it is made of, each for one target and runtime.
fn variants(request: &Request) -> Result<Vec<Cow<'_, Request>>, BuildError> {
    let variants = request.variants();
    if variants.len() > 1 && request.format == Some(Package::As(Format::Pdi)) {
        return Err(KernelError::PdiAmongOthers.at(&request.kernel));
    }
    Ok(variants)
}

/// Adds what another variant of a file made to what the ones before it did.
fn merge(kernels: &mut Vec<BuiltKernel>, built: Vec<BuiltKernel>) -> Result<(), KernelError> {
    if kernels.is_empty() {
        *kernels = built;
        return Ok(());
    }
    let same = |(one, other): (&BuiltKernel, &BuiltKernel)| one.signature == other.signature;
    if kernels.len() != built.len() || !kernels.iter().zip(&built).all(same) {
        return Err(KernelError::OtherSignature);
    }
    for (kernel, variant) in kernels.iter_mut().zip(built) {
        kernel.images.extend(variant.images);
        kernel.files.extend(variant.files);
    }
    Ok(())
}

/// What messages call the kernels of a file.
fn subject(prepared: &Prepared) -> String {
    let kernels = prepared.understood.kernels.iter();
    let names: Vec<_> = kernels.map(|kernel| &*kernel.signature.name).collect();
    names.join(", ")
}

/// No cache, and why.
fn not_kept(reason: &str, observe: Observer<'_>) -> Store {
    observe(Event::Warning(format!(
        "{reason}: what is built now is not kept for the next run"
    )));
    Store::disabled()
}
