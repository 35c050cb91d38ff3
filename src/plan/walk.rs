//! Carrying a plan out: building, explaining, asking for the first key.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::remembered::{MAX_SOURCE, Plan, Planned, Route};
use super::{
    Build, BuildError, BuiltKernel, KernelError, Prepared, Request, Session, cpu, npu, prepared,
};
use crate::config::Package;
use crate::kernel::Target;
use crate::launcher;
use crate::parallel;
use crate::step::execute::ExecuteError;
use crate::step::{self, Keyed};
use crate::store::{Artifact, EnsureError, Event, Explanation, Observer, StepResult, Store};
use crate::toolchain::Format;

/// What came of walking through the steps of a kernel.
struct Walked {
    /// The first target's.
    plan: Arc<Plan>,
    kernels: Vec<BuiltKernel>,
    steps: Vec<StepResult>,
}

/// As often a build begins where others delete, before it goes where nobody does.
const ATTEMPTS: usize = 3;

impl Session {
    /// The first step of a kernel for each of its targets and runtimes, not yet carried out.
    ///
    /// # Errors
    /// When there is no toolchain for a target, or it can't take the kernel.
    pub fn first_steps(&self, request: &Request) -> Result<Vec<Arc<Keyed>>, BuildError> {
        let first = |variant: Cow<'_, Request>| self.plan(&variant, &|_| {})?.next(&[]);
        let steps = variants(request)?.into_iter().map(first);
        Ok(steps
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .flatten()
            .collect())
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
        let walked = self.walk(request, observe, |step| {
            let ensured = store.ensure(step, request.options.refresh, &self.runner, observe)?;
            Ok(Some(ensured))
        })?;
        let Walked {
            plan,
            kernels,
            steps,
        } = walked;
        Ok(Build {
            source: request.kernel.clone(),
            target: plan.prepared.target,
            runtime: plan.prepared.runtime,
            kernels,
            steps,
            keeps_intermediates: request.options.keep_intermediates.unwrap_or(false),
            elapsed: started.elapsed(),
        })
    }

    /// Walks through the steps of a kernel, for each target, as long as `outputs` has those of each
    /// step; it is asked once for each.
    fn walk(
        &self,
        request: &Request,
        observe: Observer<'_>,
        mut outputs: impl FnMut(&Keyed) -> Result<Option<StepResult>, BuildError>,
    ) -> Result<Walked, BuildError> {
        let mut kernels = Vec::new();
        let mut first = None;
        let mut steps: Vec<StepResult> = Vec::new();
        let mut is_whole = true;
        for variant in variants(request)? {
            let plan = self.plan(&variant, observe)?;
            let mut done: Vec<StepResult> = Vec::new();
            while let Some(step) = plan.next(&done)? {
                // Several targets and runtimes may go the same way up to somewhere.
                let known = steps.iter().find(|known| known.key == *step.key());
                let known = match known {
                    Some(known) => Some(known.clone()),
                    None => outputs(&step)?.inspect(|made| steps.push(made.clone())),
                };
                match known {
                    Some(known) => done.push(known),
                    None => {
                        is_whole = false;
                        break;
                    }
                }
            }
            if is_whole {
                let built = plan.kernels(&done, observe);
                merge(&mut kernels, built).map_err(|error| error.at(&request.kernel))?;
            }
            first.get_or_insert(plan);
        }
        let plan = first.ok_or_else(|| KernelError::NoKernel.at(&request.kernel))?;
        // What can't be launched has no launcher.
        if is_whole && kernels.iter().all(|kernel| !kernel.images.is_empty()) {
            let launcher = self.launcher_of(&plan, &kernels);
            let launcher = launcher.map_err(|error| error.at(&request.kernel))?;
            steps.extend(outputs(&launcher)?);
        }
        Ok(Walked {
            plan,
            kernels,
            steps,
        })
    }

    /// The step that makes the launcher of kernels.
    fn launcher_of(&self, plan: &Plan, kernels: &[BuiltKernel]) -> Result<Arc<Keyed>, KernelError> {
        let digests = kernels.iter().flat_map(|kernel| &kernel.files);
        let digests = digests.map(|(_, artifact)| artifact.digest);
        plan.launcher.get_or_plan(digests, || {
            let subject = super::subject(&plan.prepared);
            let target = plan.prepared.target.name();
            let request = self.launcher_request(kernels);
            Ok(step::launcher::launcher(&subject, target, &request)?)
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
        self.walk(request, observe, |step| {
            let explanation = self.store.explain(step);
            let outputs = explanation.hit.clone();
            explanations.push(explanation);
            Ok(outputs)
        })?;
        Ok(explanations)
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
        if request.options.format != Some(Package::As(Format::Pdi)) {
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
    if variants.len() > 1 && request.options.format == Some(Package::As(Format::Pdi)) {
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
