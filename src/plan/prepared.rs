//! A kernel that has been read and understood, before any tool or cache is looked at.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use npu_runtime::{Direction, Kind, Parameter, Runtime, Signature};

use super::request::settle_runtime;
use super::{BuildError, KernelError, Request};
use crate::kernel::canonical::Canonical;
use crate::kernel::{Kernel, Level, Module, Target, triton};

/// No kernel in MLIR is anywhere near this size; what is larger is something else.
const SOURCE_LIMIT: u64 = 256 << 20;

/// A file that has been scanned, with the user's word on its kernels applied.
#[derive(Clone, Debug)]
pub struct Understood {
    /// What the scan says of the file as a whole.
    pub module: Module,
    /// What the tools get to see.
    pub text: Arc<Canonical>,
    /// The kernels that the request means.
    pub kernels: Vec<Kernel>,
    /// Where the user's word is hard to believe: it counts, and it may lose data.
    pub doubts: Vec<String>,
}

/// A file whose target is settled: all that is needed to plan its steps.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// What is built for.
    pub target: Target,
    /// What will load it.
    pub runtime: Runtime,
    /// What is built.
    pub understood: Understood,
}

impl Prepared {
    /// Reads the file of `request`, and settles its target.
    ///
    /// # Errors
    /// Everything that is wrong with the request itself.
    pub fn new(request: &Request) -> Result<Self, BuildError> {
        Self::of(request, read(&request.kernel)?)
    }

    /// The same for a file that has been read already.
    pub(super) fn of(request: &Request, source: Vec<u8>) -> Result<Self, BuildError> {
        let understood = Understood::of(request, source)?;
        let settled = understood.settle_target(request);
        let settled = settled.and_then(|target| {
            let runtime = settle_runtime(target, request.runtime, request.default_runtime)?;
            Ok((target, runtime))
        });
        let (target, runtime) = settled.map_err(|error| error.at(&request.kernel))?;
        Ok(Self {
            target,
            runtime,
            understood,
        })
    }
}

impl Understood {
    /// Reads and scans the file of `request`, whatever its target.
    ///
    /// # Errors
    /// Everything that is wrong with the file, or contradicts it.
    pub fn new(request: &Request) -> Result<Self, BuildError> {
        Self::of(request, read(&request.kernel)?)
    }

    fn of(request: &Request, source: Vec<u8>) -> Result<Self, BuildError> {
        Self::scan(request, source).map_err(|error| error.at(&request.kernel))
    }

    fn scan(request: &Request, bytes: Vec<u8>) -> Result<Self, KernelError> {
        let (module, text) = Module::read(bytes)?;
        check_assembly(&text.text)?;
        let selected = module.select(request.options.entry.as_deref())?;
        let mut kernels: Vec<_> = selected.into_iter().cloned().collect();
        if module.level != Level::Linalg {
            // It has become part of the text; what is left of it in the signature is nobody's to give.
            kernels
                .iter_mut()
                .for_each(|kernel| kernel.signature.grid = false);
        }
        let mut doubts = Vec::new();
        // The user's word on a kernel's arguments, if there is one, beats what was inferred.
        let is_told = request.options.signature.is_some() || !request.options.args.is_empty();
        for kernel in kernels.iter_mut().filter(|_| is_told) {
            let inferred = kernel.signature.clone();
            if let Some(signature) = &request.options.signature {
                kernel.apply_triton(&triton::parse(signature)?)?;
            }
            for (name, direction) in &request.options.args {
                kernel.set_direction(name, *direction)?;
            }
            doubts.extend(contradictions(&inferred, &kernel.signature));
        }
        if !request.options.extents.is_empty() {
            for kernel in &mut kernels {
                kernel.set_extents(&request.options.extents)?;
            }
        }
        Ok(Self {
            doubts,
            module,
            text: Arc::new(text),
            kernels,
        })
    }

    fn settle_target(&self, request: &Request) -> Result<Target, KernelError> {
        let target = (request.target)
            .or_else(|| self.module.target_hint())
            .or(request.default_target)
            .ok_or(KernelError::NoTarget)?;
        self.module.check_target(target)?;
        Ok(target)
    }
}

/// Refuses assembly that would read files behind the key's back.
fn check_assembly(text: &str) -> Result<(), KernelError> {
    let has = |word: &str| text.contains(word);
    if !["inline_asm", "module_asm"].into_iter().any(has) {
        return Ok(());
    }
    match [".incbin", ".include"].into_iter().find(|word| has(word)) {
        Some(word) => Err(KernelError::Includes(word)),
        None => Ok(()),
    }
}

/// Where directions were changed to what the MLIR speaks against.
fn contradictions(inferred: &Signature, told: &Signature) -> Vec<String> {
    let pairs = inferred.parameters.iter().zip(told.parameters.iter());
    let doubts = pairs.filter_map(|(inferred, told)| {
        let name = &told.name;
        let doubt = match (direction(inferred)?, direction(told)?) {
            (Direction::Out | Direction::InOut, Direction::In) => {
                "may be written, as far as the MLIR tells: as `in` it is shared memory to the host \
                 program, and what is written to it is lost or worse"
            }
            (Direction::In, Direction::Out) => {
                "is only read, as far as the MLIR tells: as `out` its content may never get there"
            }
            _ => return None,
        };
        Some(format!("argument '{name}' {doubt}"))
    });
    doubts.collect()
}

fn direction(parameter: &Parameter) -> Option<Direction> {
    match parameter.kind {
        Kind::Memory { direction, .. } => Some(direction),
        Kind::Scalar(_) => None,
    }
}

/// The bytes of a kernel's file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, BuildError> {
    let failed = |source| BuildError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(KernelError::NotAFile("a directory").at(path));
    }
    let mut bytes =
        Vec::with_capacity(usize::try_from(metadata.len().min(SOURCE_LIMIT)).unwrap_or(0));
    let read = file.take(SOURCE_LIMIT + 1).read_to_end(&mut bytes);
    read.map_err(failed)?;
    if bytes.len() as u64 > SOURCE_LIMIT {
        return Err(failed(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("over {} MiB", SOURCE_LIMIT >> 20),
        )));
    }
    Ok(bytes)
}
