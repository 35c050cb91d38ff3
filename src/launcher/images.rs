//! The images of a launcher's kernels: the files that they consist of, which module embeds each,
//! and the code that puts an image together.
//!
//! A file is known by its content. The first kernel that has it embeds it and the others refer to
//! that one, so that no content is in a host program twice.

use std::collections::HashMap;

use npu_runtime::Npu;

use super::layout::{self, Expr, MEMBER_INDENT, WIDTH};
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

    /// The static that embeds it; `None` if another kernel's module has it.
    fn embedded(&self) -> Option<String> {
        if self.owner.is_some() {
            return None;
        }
        let file = text::literal(&self.artifact.file);
        let bytes = format!("*::std::include_bytes!({file})");
        let value = if bytes.len() <= layout::SMALL {
            format!("\n        &npu_runtime::Aligned({bytes});")
        } else if MEMBER_INDENT + bytes.len() < WIDTH {
            format!(" &npu_runtime::Aligned(\n        {bytes},\n    );")
        } else {
            let aligned = "&npu_runtime::Aligned(*::std::include_bytes!(";
            format!("\n        {aligned}\n            {file}\n        ));")
        };
        let constant = self.constant();
        Some(format!(
            "    pub(super) static {constant}: &npu_runtime::Aligned<[u8]> ={value}"
        ))
    }
}

/// The statics that embed the files of one kernel.
pub(super) fn embedded(files: &[File<'_>]) -> Vec<String> {
    files.iter().filter_map(File::embedded).collect()
}

/// The constant that lists the files and their digests.
pub(super) fn list(files: &[File<'_>]) -> String {
    let bytes = |digest: &Digest| {
        let bytes = digest.as_bytes().iter().map(|byte| format!("{byte:#04x}"));
        Expr::Filled(bytes.collect())
    };
    let entry = |file: &File<'_>| {
        let name = Expr::Atom(text::literal(&file.artifact.file));
        Expr::call("", [name, bytes(&file.artifact.digest)])
    };
    let head = format!(
        "pub const ARTIFACTS: [(&str, [u8; 32]); {}] = ",
        files.len()
    );
    Expr::Array("", files.iter().map(entry).collect()).lay_out(4, &head, ";")
}

/// The embedded files as artifacts of the runtime, in the order of the list.
pub(super) fn artifacts(files: &[File<'_>]) -> String {
    let artifact = |file: &File<'_>| {
        let path = match &file.owner {
            Some((module, constant)) => format!("super::{module}::{constant}"),
            None => file.constant(),
        };
        Expr::call("npu_runtime::Artifact::embedded", [Expr::Atom(path)])
    };
    let artifacts = files.iter().map(artifact).collect();
    Expr::Array("", artifacts).lay_out(12, "let artifacts = ", ";")
}

/// The pattern that takes an array of the artifacts apart.
pub(super) fn pattern(files: &[File<'_>]) -> String {
    let names = files.iter().map(|file| Expr::atom(&file.variable));
    Expr::Array("", names.collect()).lay_out(8, "let ", " = artifacts;")
}

/// The images, made of the variables of that pattern.
pub(super) fn array(images: &[Image], files: &[File<'_>]) -> String {
    let mut uses: Vec<&Artifact> = images.iter().flat_map(Image::artifacts).collect();
    uses.reverse();
    let mut moved = |artifact: &Artifact| {
        uses.pop();
        let file = files.iter().find(|file| file.has(artifact));
        let variable = file.map_or("", |file| file.variable.as_str());
        match uses.iter().any(|later| later.digest == artifact.digest) {
            true => Expr::Atom(format!("{variable}.clone()")),
            false => Expr::atom(variable),
        }
    };
    let mut image = |image: &Image| {
        let mut fields: Vec<(String, Expr)> = image
            .parts()
            .map(|(kind, artifact)| (kind.to_owned(), moved(artifact)))
            .collect();
        let (variant, kernel, compiled) = match image {
            Image::Object { .. } => {
                let object = fields.pop().map(|(_, value)| value);
                return Expr::call("npu_runtime::Image::Object", Vec::from_iter(object));
            }
            Image::Hsaco {
                kernel, compiled, ..
            } => ("npu_runtime::Image::Hsaco", kernel, compiled),
            Image::FullElf {
                kernel, compiled, ..
            } => ("npu_runtime::Image::FullElf", kernel, compiled),
            Image::Xclbin {
                kernel, compiled, ..
            } => ("npu_runtime::Image::Xclbin", kernel, compiled),
        };
        let kernel = Expr::Atom(text::literal(kernel));
        let kernel = Expr::call("::std::borrow::Cow::Borrowed", [kernel]);
        fields.push(("kernel".to_owned(), kernel));
        fields.push(("compiled".to_owned(), compiled_for(compiled)));
        Expr::Struct(variant, fields)
    };
    Expr::Array("", images.iter().map(&mut image).collect()).lay_out(8, "", "")
}

fn compiled_for(compiled: &Compiled) -> Expr {
    let npu = npu(&compiled.target).map_or(String::new(), |npu| format!("{npu:?}"));
    let target = format!("npu_runtime::Compiled::for_target(npu_runtime::Npu::{npu})");
    match compiled.grid {
        None => Expr::Atom(target),
        Some(grid) => {
            let [x, y, z] = grid.map(|size| text::integer(size.into()));
            let grid = Expr::Atom(format!("[{x}, {y}, {z}].into()"));
            Expr::Method(target, ".with_grid", vec![grid])
        }
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
