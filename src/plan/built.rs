//! What a build gives: artifacts and launcher, to be written out or loaded at once.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use npu_runtime::{Device, Image, Kernel, Signature};

use super::BuildError;
use crate::digest::Digest;
use crate::kernel::Target;
use crate::store::{Artifact, Ensured, Outcome};

/// A kernel that was built or found.
#[derive(Clone, Debug)]
pub struct Build {
    /// The MLIR file, as it was given.
    pub source: PathBuf,
    /// What it was built for.
    pub target: Target,
    /// The kernels in it.
    pub kernels: Vec<BuiltKernel>,
    /// The steps that were ensured, in order.
    pub steps: Vec<Ensured>,
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
    /// What a device loads.
    pub artifact: Artifact,
    /// The artifact's name beside the launcher.
    pub file_name: String,
}

impl Build {
    /// The launcher's source, one module for each kernel.
    #[must_use]
    pub fn launcher(&self) -> Option<&Artifact> {
        self.artifacts()
            .find(|artifact| artifact.name == crate::step::launcher::SOURCE)
    }

    /// Everything that the steps made, in order.
    pub fn artifacts(&self) -> impl Iterator<Item = &Artifact> {
        self.steps.iter().flat_map(|step| &step.artifacts)
    }

    /// How the build as a whole was come by: a hit if every step was one.
    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        let is_worse = |step: &&Ensured| step.outcome != Outcome::Hit;
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
        let digest = *kernel.artifact.digest.as_bytes();
        let artifact = npu_runtime::Artifact::file(&kernel.artifact.path, digest);
        let images = [Image::Object(artifact)];
        Kernel::load(device, &images, kernel.signature.clone())
    }

    /// The files that [`Build::write_to`] makes: where each artifact goes.
    #[must_use]
    pub fn outputs(&self, directory: &Path) -> Vec<(PathBuf, &Artifact)> {
        let kernels = self
            .kernels
            .iter()
            .map(|kernel| (directory.join(&kernel.file_name), &kernel.artifact));
        let launcher = self
            .launcher()
            .map(|artifact| (directory.join(Self::launcher_name(&self.source)), artifact));
        let in_output = |artifact: &&Artifact| {
            artifact.name != crate::step::launcher::SOURCE
                && self
                    .kernels
                    .iter()
                    .all(|kernel| kernel.artifact.path != artifact.path)
        };
        let others = self.artifacts().filter(in_output).map(|artifact| {
            let suffix = artifact
                .name
                .strip_prefix("kernel")
                .unwrap_or(artifact.name);
            let stem = self
                .kernels
                .first()
                .map_or("kernel", |kernel| kernel.file_name.trim_end_matches(".so"));
            (directory.join(format!("{stem}{suffix}")), artifact)
        });
        kernels.chain(launcher).chain(others).collect()
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
    /// its sake.
    ///
    /// # Errors
    /// When something can't be written; no file is left half written.
    pub fn write_to(
        &self,
        directory: &Path,
        wanted: impl Fn(&Artifact) -> bool,
    ) -> Result<Vec<PathBuf>, BuildError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| BuildError::Write { path, source }
        };
        let made = fs::create_dir_all(directory).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => ErrorKind::NotADirectory.into(),
            _ => error,
        });
        made.map_err(failed(directory))?;
        let mut written = Vec::new();
        let outputs = self.outputs(directory).into_iter();
        for (path, artifact) in outputs.filter(|(_, artifact)| wanted(artifact)) {
            let bytes = artifact.read().map_err(|source| BuildError::Read {
                path: artifact.path.clone(),
                source,
            })?;
            write_if_changed(&path, &bytes).map_err(failed(&path))?;
            written.push(path);
        }
        Ok(written)
    }
}

/// Replaces the file at `path` by rename, unless it has this content already.
fn write_if_changed(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::read(path) {
        Ok(current) if current == bytes => return Ok(()),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".npu-build-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
