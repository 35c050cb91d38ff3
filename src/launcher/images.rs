//! The images of a launcher's kernels: the files that they consist of, which module embeds each,
//! and the code that puts an image together.
//!
//! A file is known by its content. The first kernel that has it embeds it and the others refer to
//! that one, so that no content is in a host program twice.

use std::collections::HashMap;

use npu_runtime::Npu;

use super::names::Identifier;
use super::{Artifact, Compiled, Error, Image, Kernel, Module, text};
use crate::digest::Digest;

/// Refuses files that can't be beside the launcher, and targets that are none.
pub(super) fn check(kernels: &[Kernel]) -> Result<(), Error> {
    let mut digests: HashMap<&str, Digest> = HashMap::new();
    for kernel in kernels {
        let name = || kernel.signature.name.to_string();
        for Artifact { file, digest } in kernel.images.iter().flat_map(Image::artifacts) {
            if file.is_empty() || file == "." || file == ".." || file.contains(['/', '\\', '\0']) {
                let (kernel, file) = (name(), file.clone());
                return Err(Error::ArtifactFile { kernel, file });
            }
            if *digests.entry(file).or_insert(*digest) != *digest {
                let (kernel, file) = (name(), file.clone());
                return Err(Error::ArtifactConflict { kernel, file });
            }
        }
        for Compiled { target, .. } in kernel.images.iter().filter_map(Image::compiled) {
            if npu(target).is_none() {
                let (kernel, target) = (name(), target.clone());
                return Err(Error::Target { kernel, target });
            }
        }
    }
    Ok(())
}

fn npu(target: &str) -> Option<Npu> {
    target.parse().ok()
}

/// A file of a kernel's images. No two of a kernel have the same content.
pub(super) struct File<'a> {
    artifact: &'a Artifact,
    /// What it is, and a number if it is not the first of its kind: the name of its variable.
    variable: String,
    /// The module that embeds it and the variable's name there, if it is another kernel's.
    owner: Option<(Identifier, String)>,
}

/// The files of each of the kernels.
pub(super) fn files<'a>(modules: &[Module<'a>]) -> Vec<Vec<File<'a>>> {
    // Where the first file of each content is: the kernel's index and the file's.
    let mut first: HashMap<Digest, (usize, usize)> = HashMap::new();
    let mut all: Vec<Vec<File<'a>>> = Vec::with_capacity(modules.len());
    for (index, module) in modules.iter().enumerate() {
        let mut files: Vec<File<'a>> = Vec::new();
        for (kind, artifact) in module.kernel.images.iter().flat_map(Image::parts) {
            if files.iter().any(|file| file.has(artifact)) {
                continue;
            }
            let place = *first.entry(artifact.digest).or_insert((index, files.len()));
            // Not there yet if this is the first.
            let owned = all.get(place.0).and_then(|files| files.get(place.1));
            let owner = owned.zip(modules.get(place.0));
            files.push(File {
                artifact,
                variable: variable(kind, &files),
                owner: owner.map(|(file, module)| (module.name.clone(), file.constant())),
            });
        }
        all.push(files);
    }
    all
}

/// A name that is not among the files' yet.
fn variable(kind: &str, files: &[File<'_>]) -> String {
    let numbered = (2..).map(|number| format!("{kind}{number}"));
    let mut names = std::iter::once(kind.to_owned()).chain(numbered);
    let is_free = |name: &String| files.iter().all(|file| file.variable != *name);
    names.find(is_free).unwrap_or_default()
}

impl File<'_> {
    fn has(&self, artifact: &Artifact) -> bool {
        self.artifact.digest == artifact.digest
    }

    fn constant(&self) -> String {
        self.variable.to_ascii_uppercase()
    }

    /// Its name and the bytes of its digest.
    pub(super) fn listed(&self) -> String {
        let bytes = self
            .artifact
            .digest
            .as_bytes()
            .map(|byte| format!("{byte:#04x}"));
        format!(
            "({}, [{}])",
            text::literal(&self.artifact.file),
            bytes.join(", ")
        )
    }

    /// The variable that stands for it.
    pub(super) fn variable(&self) -> &str {
        &self.variable
    }

    /// The static that embeds it; `None` if another kernel's module has it.
    pub(super) fn embedded(&self) -> Option<String> {
        let (constant, file) = (self.constant(), text::literal(&self.artifact.file));
        self.owner.is_none().then(|| {
            format!(
                "{constant}: &npu_runtime::Aligned<[u8]> = &npu_runtime::Aligned(*::std::include_bytes!({file}))"
            )
        })
    }

    /// The embedded file as an artifact of the runtime.
    pub(super) fn artifact(&self) -> String {
        let path = match &self.owner {
            Some((module, constant)) => format!("super::{module}::{constant}"),
            None => self.constant(),
        };
        format!("npu_runtime::Artifact::embedded({path})")
    }
}

/// The images, made of the variables of their files.
pub(super) fn expressions(images: &[Image], files: &[File<'_>]) -> Vec<String> {
    let variable = |artifact: &Artifact| {
        let file = files.iter().find(|file| file.has(artifact));
        file.map_or("", |file| file.variable.as_str())
    };
    let image = |image: &Image| {
        let (variant, kernel, compiled) = match image {
            Image::Object { object } => {
                return format!("npu_runtime::Image::Object({}.clone())", variable(object));
            }
            Image::Hsaco {
                kernel, compiled, ..
            } => ("Hsaco", kernel, compiled),
            Image::FullElf {
                kernel, compiled, ..
            } => ("FullElf", kernel, compiled),
            Image::Xclbin {
                kernel, compiled, ..
            } => ("Xclbin", kernel, compiled),
        };
        let parts = image.parts();
        let parts = parts.map(|(kind, artifact)| format!("{kind}: {}.clone()", variable(artifact)));
        format!(
            "npu_runtime::Image::{variant} {{ {}, kernel: ::std::borrow::Cow::Borrowed({}), compiled: {} }}",
            parts.collect::<Vec<_>>().join(", "),
            text::literal(kernel),
            compiled_for(compiled)
        )
    };
    images.iter().map(image).collect()
}

fn compiled_for(compiled: &Compiled) -> String {
    let npu = npu(&compiled.target).map_or(String::new(), |npu| format!("{npu:?}"));
    let target = format!("npu_runtime::Compiled::for_target(npu_runtime::Npu::{npu})");
    match compiled.grid {
        None => target,
        Some([x, y, z]) => format!("{target}.with_grid([{x}, {y}, {z}].into())"),
    }
}

/// Where an image runs, for people.
pub(super) fn description(image: &Image) -> String {
    let (runtime, form) = match image {
        Image::Object { .. } => return "cpu".to_owned(),
        Image::Hsaco { .. } => ("hsa", "hsaco"),
        Image::FullElf { .. } => ("xrt", "full ELF"),
        Image::Xclbin { .. } => ("xrt", "xclbin"),
    };
    let compiled = image.compiled();
    let target = compiled.map_or("", |compiled| compiled.target.as_str());
    match compiled.and_then(|compiled| compiled.grid) {
        None => format!("{runtime} on {target} ({form})"),
        Some(grid) => format!(
            "{runtime} on {target} ({form}), over a grid of {}",
            sizes(grid)
        ),
    }
}

fn sizes([x, y, z]: [u32; 3]) -> String {
    format!("{x}x{y}x{z}")
}

/// The grids that are part of images for an NPU, for people; `None` if there is no such image.
pub(super) fn frozen_grids(images: &[Image]) -> Option<String> {
    let mut grids: Vec<String> = Vec::new();
    for compiled in images.iter().filter_map(Image::compiled) {
        let grid = sizes(compiled.grid.unwrap_or([1; 3]));
        if !grids.contains(&grid) {
            grids.push(grid);
        }
    }
    (!grids.is_empty()).then(|| grids.join(" or "))
}
