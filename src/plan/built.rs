//! What a build gives: artifacts and launcher, to be written out or loaded at once.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use npu_runtime::{Compiled, Device, Grid, Kernel, Npu, Runtime, Signature};

use super::BuildError;
use crate::digest::Digest;
use crate::interrupt::Interrupt;
use crate::kernel::Target;
use crate::launcher::{self, Image};
use crate::step::launcher::SOURCE;
use crate::store::{Artifact, Outcome, StepResult};

/// A kernel file that was built or found.
#[derive(Clone, Debug)]
pub struct Build {
    /// The MLIR file, as it was given.
    pub source: PathBuf,
    /// What it was built for, if for several things the first of them.
    pub target: Target,
    /// What loads that.
    pub runtime: Runtime,
    /// The kernels in it.
    pub kernels: Vec<BuiltKernel>,
    /// The steps that were ensured, in order.
    pub steps: Vec<StepResult>,
    /// Whether what lies between the MLIR and the artifacts was asked for.
    pub keeps_intermediates: bool,
    /// How long all of it took.
    pub elapsed: Duration,
}

/// One kernel of a build.
#[derive(Clone, Debug)]
pub struct BuiltKernel {
    /// Its name and parameters.
    pub signature: Signature,
    /// The key of the step that made its artifact.
    pub key: Digest,
    /// What a device loads: one for each target and runtime, and none for a PDI, which is for
    /// other runtimes than ours.
    pub images: Vec<Image>,
    /// The files that these consist of, in their order, under their names beside the launcher.
    /// Several kernels may have a file in common.
    pub files: Vec<(String, Artifact)>,
}

impl Build {
    /// The launcher's source, one module for each kernel.
    #[must_use]
    pub fn launcher(&self) -> Option<&Artifact> {
        self.artifacts().find(|artifact| artifact.name == SOURCE)
    }

    /// Everything that the steps made, in order.
    pub fn artifacts(&self) -> impl Iterator<Item = &Artifact> {
        self.steps.iter().flat_map(|step| &step.artifacts)
    }

    /// How the build as a whole was come by: a hit if every step was one.
    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        let is_worse = |step: &&StepResult| step.outcome != Outcome::Hit;
        let telling = self.steps.iter().find(is_worse);
        telling.map_or(&Outcome::Hit, |step| &step.outcome)
    }

    /// Loads a kernel onto `device`; its content is verified on the way.
    ///
    /// # Errors
    /// When the artifact is gone or can't be loaded.
    pub fn load(
        &self,
        device: &Device,
        kernel: &BuiltKernel,
    ) -> Result<Kernel, npu_runtime::Error> {
        let images = kernel.loadable();
        Kernel::load(device, &images, kernel.signature.clone())
    }

    /// The files that [`Build::write_to`] makes: where each artifact goes.
    #[must_use]
    pub fn outputs(&self, directory: &Path) -> Vec<(PathBuf, &Artifact)> {
        let mut outputs: Vec<(PathBuf, &Artifact)> = Vec::new();
        let mut add = |name: &Path, artifact| {
            let path = directory.join(name);
            if outputs.iter().all(|(known, _)| *known != path) {
                outputs.push((path, artifact));
            }
        };
        for (name, artifact) in self.kernels.iter().flat_map(|kernel| &kernel.files) {
            add(Path::new(name), artifact);
        }
        if let Some(launcher) = self.launcher() {
            add(&Self::launcher_name(&self.source), launcher);
        }
        let first = self.kernels.iter().flat_map(|kernel| &kernel.files).next();
        let stem = first.map_or("kernel", |(name, _)| match name.split_once('.') {
            Some((stem, _)) => stem,
            None => name,
        });
        for artifact in self.intermediates() {
            let suffix = artifact.name.strip_prefix("kernel");
            let suffix = suffix.unwrap_or(&artifact.name);
            add(Path::new(&format!("{stem}{suffix}")), artifact);
        }
        outputs
    }

    /// What lies between the MLIR and the artifacts, if it was asked for.
    pub fn intermediates(&self) -> impl Iterator<Item = &Artifact> {
        let wanted = self.artifacts().filter(|_| self.keeps_intermediates);
        wanted.filter(|artifact| {
            let mut files = self.kernels.iter().flat_map(|kernel| &kernel.files);
            artifact.name != SOURCE && files.all(|(_, file)| file.path != artifact.path)
        })
    }

    /// The file name of the launcher of what `source` defines: the source's, with `.rs`.
    #[must_use]
    pub fn launcher_name(source: &Path) -> PathBuf {
        let stem = source.file_stem().unwrap_or("kernel".as_ref());
        let mut name = stem.to_owned();
        name.push(".rs");
        name.into()
    }

    /// Writes what is `wanted` of launcher and artifacts into `directory`, which is made if there is
    /// none. A file that has the right content already is left alone, so that nothing is rebuilt for
    /// its sake; `interrupt` is armed before the first that is written.
    ///
    /// # Errors
    /// When something can't be written; no file is left half written.
    pub fn write_to(
        &self,
        directory: &Path,
        wanted: impl Fn(&Artifact) -> bool,
        interrupt: &Interrupt,
    ) -> Result<Vec<PathBuf>, BuildError> {
        make_directory(directory)?;
        let mut written = Vec::new();
        let outputs = self.outputs(directory).into_iter();
        for (path, artifact) in outputs.filter(|(_, artifact)| wanted(artifact)) {
            write(artifact, &path, interrupt)?;
            written.push(path);
        }
        Ok(written)
    }
}

/// Copies an artifact into `directory`, which is made if there is none, under its own name. A file
/// that has the right content already is left alone.
///
/// # Errors
/// When it can't be read or written; no file is left half written.
pub fn copy_into(
    directory: &Path,
    artifact: &Artifact,
    interrupt: &Interrupt,
) -> Result<PathBuf, BuildError> {
    make_directory(directory)?;
    let path = directory.join(&*artifact.name);
    write(artifact, &path, interrupt)?;
    Ok(path)
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> BuildError {
    let path = path.to_owned();
    move |source| BuildError::Write { path, source }
}

fn make_directory(directory: &Path) -> Result<(), BuildError> {
    let made = fs::create_dir_all(directory).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => ErrorKind::NotADirectory.into(),
        _ => error,
    });
    made.map_err(failed(directory))
}

fn write(artifact: &Artifact, path: &Path, interrupt: &Interrupt) -> Result<(), BuildError> {
    let bytes = artifact.read().map_err(|source| BuildError::Read {
        path: artifact.path.clone(),
        source,
    })?;
    write_if_changed(path, &bytes, interrupt).map_err(failed(path))
}

impl BuiltKernel {
    /// What the runtime loads: the images with their files where they are now.
    #[must_use]
    pub fn loadable(&self) -> Vec<npu_runtime::Image> {
        let mut files = self.files.iter().map(|(_, artifact)| {
            let digest = *artifact.digest.as_bytes();
            npu_runtime::Artifact::file(&artifact.path, digest)
        });
        let images = self.images.iter();
        images
            .filter_map(|image| {
                let first = files.next()?;
                Some(match image {
                    Image::Object { .. } => npu_runtime::Image::Object(first),
                    Image::Hsaco {
                        kernel, compiled, ..
                    } => npu_runtime::Image::Hsaco {
                        hsaco: first,
                        kernel: kernel.clone().into(),
                        compiled: compiled_for(compiled)?,
                    },
                    Image::FullElf {
                        kernel, compiled, ..
                    } => npu_runtime::Image::FullElf {
                        elf: first,
                        kernel: kernel.clone().into(),
                        compiled: compiled_for(compiled)?,
                    },
                    Image::Xclbin {
                        kernel, compiled, ..
                    } => npu_runtime::Image::Xclbin {
                        xclbin: first,
                        insts: files.next()?,
                        kernel: kernel.clone().into(),
                        compiled: compiled_for(compiled)?,
                    },
                })
            })
            .collect()
    }
}

fn compiled_for(compiled: &launcher::Compiled) -> Option<Compiled> {
    let target: Npu = compiled.target.parse().ok()?;
    let compiled_for = Compiled::for_target(target);
    Some(match compiled.grid {
        Some([x, y, z]) => compiled_for.with_grid(Grid { x, y, z }),
        None => compiled_for,
    })
}

/// Replaces the file at `path` by rename, unless it has this content already.
fn write_if_changed(path: &Path, bytes: &[u8], interrupt: &Interrupt) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => return Err(rustix::io::Errno::ISDIR.into()),
        // To open anything else, such as a pipe, may wait for ever.
        Ok(there) if there.is_file() && there.len() == bytes.len() as u64 => {
            if fs::read(path)? == bytes {
                return Ok(());
            }
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    interrupt.arm();
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".npu-build-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
