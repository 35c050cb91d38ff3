//! Building from a `build.rs`: kernels become modules of the crate that is being compiled.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use npu_runtime::Runtime;

use crate::config::{CachePlace, Environment, Layer, Options, Package, Settings};
use crate::interrupt::{self, Interrupt};
use crate::kernel::Target;
use crate::launcher;
use crate::message;
use crate::plan::{
    Build, BuildError, KernelError, Prepared, Request, Session, Understood, Variant,
};
use crate::setters::{Draft, kernel_setters, layer_setters};
use crate::store::Event;

/// Starts the description of what a build script compiles.
///
/// ```no_run
/// // build.rs
/// fn main() -> Result<(), npu_build::ScriptError> {
///     npu_build::build_script()
///         .target(npu_build::Target::Cpu)
///         .kernel("kernels/vecadd.mlir")
///         .compile()
/// }
/// ```
///
/// The crate includes the launcher and calls it:
///
/// ```ignore (needs what the build script generates)
/// include!(concat!(env!("OUT_DIR"), "/vecadd.rs"));
/// ```
#[must_use]
pub fn build_script() -> BuildScript {
    BuildScript::default()
}

/// What a build script compiles. See [`build_script`].
///
/// Everything is written below `OUT_DIR`, the cache included, unless `NPU_BUILD_CACHE_DIR`,
/// `npu-build.toml` or [`BuildScript::cache_dir`] names one that is to be shared. The artifact is
/// embedded into the crate, so the program runs wherever it is taken, cache or no cache.
#[derive(Clone, Debug, Default)]
pub struct BuildScript {
    kernels: Vec<Draft>,
    layer: Layer,
    /// What is said of all kernels.
    options: Options,
    stubs: bool,
}

/// Why a build script failed. Its `Debug` form is the full report, since that is what Cargo shows
/// of an error that `main` returns.
#[derive(thiserror::Error)]
pub enum ScriptError {
    /// A variable that Cargo sets is not there.
    #[error("{0} is not set: this function is for build scripts that Cargo runs")]
    NotCargo(&'static str),
    /// A kernel could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The crate is compiled for another machine than this one.
    #[error(
        "kernels for the cpu target are compiled for this machine ({host}), but the crate for {target}; \
         build on such a machine, or ask for stubs with `.stubs(true)`"
    )]
    OtherMachine {
        /// The architecture of this machine.
        host: &'static str,
        /// The architecture that the crate is compiled for.
        target: String,
    },
    /// A path that Cargo can't be told.
    #[error(
        "Cargo can't be told about the path {}: a directive takes UTF-8 without line breaks, control \
         characters and blanks at its ends; rename it",
        .0.display()
    )]
    Path(PathBuf),
    /// Cargo does not listen.
    #[error("can't write to standard output: {0}")]
    Output(#[from] io::Error),
}

impl fmt::Debug for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(error) => f.write_str(&error.report()),
            error => f.write_str(&message::one_line(&error.to_string())),
        }
    }
}

impl BuildScript {
    /// Adds a kernel: an MLIR file, relative to the crate's directory. Its launcher is included as
    /// `concat!(env!("OUT_DIR"), "/NAME.rs")`, NAME being the file's name without `.mlir`.
    #[must_use]
    pub fn kernel(mut self, path: impl Into<PathBuf>) -> Self {
        self.kernels.push(Draft::new(path));
        self
    }

    kernel_setters!("\n\nIt is said of the kernel that was added last.");
    layer_setters!();

    /// What to build for; each kernel's own device if not said.
    #[must_use]
    pub fn target(mut self, target: Target) -> Self {
        self.options.target = vec![target];
        self
    }

    /// What loads kernels for an NPU; [`Runtime::Xrt`] if not said.
    #[must_use]
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.options.runtime = vec![runtime];
        self
    }

    /// What else to build for. The launcher has an image for each, and takes the one that fits the
    /// device: such as the cpu's and, `.also(Target::Npu2, Runtime::Xrt)`, an NPU's.
    #[must_use]
    pub fn also(mut self, target: Target, runtime: Runtime) -> Self {
        self.options.also.push(Variant {
            target: Some(target),
            runtime: Some(runtime),
        });
        self
    }

    /// What kernels for an NPU are packaged as; the target's best if not said.
    #[must_use]
    pub fn format(mut self, format: Package) -> Self {
        self.options.format = Some(format);
        self
    }

    /// Generates launchers without compiling: they type-check and document, and their `load` says
    /// that they are stubs. Always done where `DOCS_RS` is set.
    #[must_use]
    pub fn stubs(mut self, stubs: bool) -> Self {
        self.stubs = stubs;
        self
    }

    /// Builds the kernels and tells Cargo what they depend on.
    ///
    /// # Errors
    /// See [`ScriptError`]. A missing compiler is an error, too, unless stubs were asked for.
    pub fn compile(&self) -> Result<(), ScriptError> {
        let interrupt = Interrupt::on_signals();
        interrupt.arm();
        let _ = interrupt::outlive_file_size_limit();
        let get = |name: &OsStr| std::env::var_os(name);
        self.run(get, interrupt, &mut io::stdout().lock())
    }

    fn draft(mut self, change: impl FnOnce(&mut Draft)) -> Self {
        if let Some(draft) = self.kernels.last_mut() {
            change(draft);
        }
        self
    }

    /// The same, with the environment and Cargo's ear given.
    fn run(
        &self,
        get: fn(&OsStr) -> Option<OsString>,
        interrupt: Interrupt,
        cargo: &mut dyn Write,
    ) -> Result<(), ScriptError> {
        let required = |name: &'static str| get(name.as_ref()).ok_or(ScriptError::NotCargo(name));
        let out_dir = PathBuf::from(required("OUT_DIR")?);
        let crate_dir = PathBuf::from(required("CARGO_MANIFEST_DIR")?);
        let target = required("CARGO_CFG_TARGET_ARCH")?;
        let mut cargo = Cargo {
            ear: cargo,
            told: BTreeSet::new(),
            out_dir: out_dir.canonicalize().unwrap_or_else(|_| out_dir.clone()),
        };
        let environment = Environment::from_fn(get);
        let mut settings = Settings::load(self.layer.clone(), &environment, &crate_dir)
            .map_err(BuildError::from)?;
        if settings.cache_is_default {
            settings.cache = CachePlace::Directory(out_dir.join("npu-build-cache"));
        }
        let search = settings.llvm.clone();
        cargo.rerun_if_variables_change(environment.deciding(&[], &search))?;
        cargo.rerun_if_variables_change(["DOCS_RS"])?;
        for file in &settings.files {
            cargo.rerun_if_changed(file)?;
        }
        let requests: Vec<_> = self
            .kernels
            .iter()
            .map(|draft| draft.request(&crate_dir, &self.options, &settings))
            .collect::<Result<_, BuildError>>()?;
        for request in &requests {
            cargo.rerun_if_changed(&request.kernel)?;
        }
        check_outputs(&requests, &out_dir)?;
        if self.stubs || get("DOCS_RS".as_ref()).is_some() {
            return requests
                .iter()
                .try_for_each(|request| stub(request, &settings.runtime_crate, &out_dir));
        }
        let warnings = Warnings::default();
        let session = Session::new(settings, interrupt, &|event| warnings.note(&event))?;
        warnings.tell(&mut cargo)?;
        for request in &requests {
            for variant in request.variants() {
                let prepared = Prepared::new(&variant)?;
                check_machine(prepared.target, &target)?;
                let variables = environment.deciding(&[prepared.target], &search);
                cargo.rerun_if_variables_change(variables)?;
                for path in session.depends_on(&prepared, &variant)? {
                    cargo.rerun_if_changed(&path)?;
                }
            }
            let build = session.build(request, &|event| warnings.note(&event));
            warnings.tell(&mut cargo)?;
            let observe = |event: Event<'_>| warnings.note(&event);
            session.deliver(request, build?, &out_dir, |_| true, &observe)?;
        }
        Ok(())
    }
}

/// Cargo, which takes directives, one a line.
struct Cargo<'a> {
    ear: &'a mut dyn Write,
    /// No directive is given twice.
    told: BTreeSet<String>,
    /// Real path of what the script itself writes.
    out_dir: PathBuf,
}

impl Cargo<'_> {
    fn rerun_if_variables_change(
        &mut self,
        names: impl IntoIterator<Item = &'static str>,
    ) -> io::Result<()> {
        names
            .into_iter()
            .try_for_each(|name| self.tell(format!("rerun-if-env-changed={name}")))
    }

    /// Only what exists: a path that is missing would rerun the script at every build. So would one
    /// that the script has written, which is newer than its last run.
    fn rerun_if_changed(&mut self, path: &Path) -> Result<(), ScriptError> {
        match path.canonicalize() {
            Ok(real) if !real.starts_with(&self.out_dir) => {}
            _ => return Ok(()),
        }
        // Cargo reads lines, and no white space at their ends.
        let is_line = |text: &&str| !text.contains(char::is_control) && text.trim() == *text;
        let text = path.to_str().filter(is_line);
        let text = text.ok_or_else(|| ScriptError::Path(path.to_owned()))?;
        Ok(self.tell(format!("rerun-if-changed={text}"))?)
    }

    fn warning(&mut self, text: &str) -> io::Result<()> {
        self.tell(format!("warning=npu-build: {}", message::one_line(text)))
    }

    fn tell(&mut self, directive: String) -> io::Result<()> {
        if self.told.contains(&directive) {
            return Ok(());
        }
        writeln!(self.ear, "cargo::{directive}")?;
        self.told.insert(directive);
        Ok(())
    }
}

/// What Cargo is to show to the user.
#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    fn note(&self, event: &Event) {
        let warning = match event {
            Event::Warning(text) => text.clone(),
            Event::Waiting { .. } | Event::WaitingForCache | Event::Running { .. } => return,
        };
        self.list().push(warning);
    }

    /// Tells Cargo what has been noted since the last time.
    fn tell(&self, cargo: &mut Cargo<'_>) -> io::Result<()> {
        self.list()
            .drain(..)
            .try_for_each(|warning| cargo.warning(&warning))
    }

    fn list(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses kernels whose launchers would be one file.
fn check_outputs(requests: &[Request], out_dir: &Path) -> Result<(), BuildError> {
    let output = |request: &Request| out_dir.join(Build::launcher_name(&request.kernel));
    for (number, second) in requests.iter().enumerate() {
        let earlier = requests.iter().take(number);
        if let Some(first) = earlier
            .into_iter()
            .find(|first| output(first) == output(second))
        {
            return Err(BuildError::SameOutput {
                output: output(second),
                first: first.kernel.clone(),
                second: second.kernel.clone(),
            });
        }
    }
    Ok(())
}

/// A cpu kernel runs where it was built.
fn check_machine(target: Target, crate_arch: &OsStr) -> Result<(), ScriptError> {
    let host = std::env::consts::ARCH;
    if target == Target::Cpu && crate_arch != host {
        return Err(ScriptError::OtherMachine {
            host,
            target: crate_arch.to_string_lossy().into_owned(),
        });
    }
    Ok(())
}

/// A launcher without images: the right types, and nothing to run.
fn stub(request: &Request, runtime_crate: &str, out_dir: &Path) -> Result<(), ScriptError> {
    let understood = Understood::new(request)?;
    let signatures = understood.kernels.iter().map(|kernel| &kernel.signature);
    let launcher_request = launcher::Request::of_stubs(signatures, runtime_crate);
    let text = launcher::render(&launcher_request)
        .map_err(|error| KernelError::from(error).at(&request.kernel))?;
    let path = out_dir.join(Build::launcher_name(&request.kernel));
    fs::write(&path, text).map_err(|source| BuildError::Write { path, source }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_a_directive_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let mut told = Vec::new();
        let mut cargo = Cargo {
            ear: &mut told,
            told: BTreeSet::new(),
            out_dir: directory.path().join("out"),
        };
        for name in ["a\ncargo::rustc-env=A=1", "a\r", " a", "a "] {
            let path = directory.path().join(name);
            fs::write(&path, "").unwrap();
            let told = cargo.rerun_if_changed(Path::new(&path));
            match name.starts_with(' ') {
                // It is not at the end of the line.
                true => told.unwrap(),
                false => assert!(matches!(told, Err(ScriptError::Path(_))), "{name:?}"),
            }
        }
        cargo.warning("b\ncargo::rustc-env=B=1").unwrap();
        cargo.warning("b\ncargo::rustc-env=B=1").unwrap();
        assert_eq!(
            String::from_utf8(told).unwrap(),
            format!(
                "cargo::rerun-if-changed={}/ a\ncargo::warning=npu-build: b\\ncargo::rustc-env=B=1\n",
                directory.path().display()
            )
        );
    }
}
