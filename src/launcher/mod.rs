//! Code generation: the typed Rust launcher of one or more kernels.
//!
//! A [`Request`] is pure data and all that [`render`] looks at: the same request always gives
//! the same text, so the request is the input of the cached `launcher` step. The template holds
//! the words, names and types are made here. Generated code is safe (but for the call of a kernel
//! whose bounds are unchecked), and asks lints of style to look away.

mod docs;
mod images;
mod names;
mod parameters;
mod text;
mod view;

use npu_runtime::Signature;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
pub use names::{artifact_file_name, module_name};

/// The template that [`render`] fills in.
pub const TEMPLATE: &str = include_str!("../../templates/launcher.rs.tera");

/// What one generated file holds: a module per kernel, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The kernels; no two may come down to the same module name.
    pub kernels: Vec<Kernel>,
    /// Where the host program finds the artifacts.
    pub locate: Locate,
    /// The path of the runtime's crate in the host program, which may have renamed it.
    #[serde(default = "runtime_crate")]
    pub runtime_crate: String,
}

/// The runtime's crate under its own name.
#[must_use]
pub fn runtime_crate() -> String {
    names::RUNTIME.to_owned()
}

impl Request {
    /// Launchers without images: the right types, and nothing to run.
    #[must_use]
    pub fn of_stubs<'a>(
        signatures: impl Iterator<Item = &'a Signature>,
        runtime_crate: &str,
    ) -> Self {
        let kernels = signatures.map(|signature| Kernel {
            signature: signature.clone(),
            images: Vec::new(),
        });
        Self {
            kernels: kernels.collect(),
            locate: Locate::Embed,
            runtime_crate: runtime_crate.to_owned(),
        }
    }
}

/// Where the host program finds the artifacts at run time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Locate {
    /// In the host program itself (`include_bytes!` of the file beside the launcher); a directory
    /// can be named at run time as well.
    #[default]
    Embed,
    /// Only in a directory that is named at run time.
    Directory,
}

/// One kernel of a launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The kernel's name in the MLIR and its arguments.
    pub signature: npu_runtime::Signature,
    /// Its compiled forms, of which a device loads the first that fits it. Without any the launcher
    /// is a stub: it has the right types, and nothing to load.
    pub images: Vec<Image>,
}

/// A kernel in one compiled form: what becomes an [`npu_runtime::Image`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Image {
    /// For cpu: a shared object.
    Object {
        /// The object.
        object: Artifact,
    },
    /// For hsa: a kernel of an hsaco.
    Hsaco {
        /// The hsaco.
        hsaco: Artifact,
        /// The kernel's name in it.
        kernel: String,
        /// What it was compiled for.
        compiled: Compiled,
    },
    /// For xrt: a kernel of a full ELF.
    FullElf {
        /// The full ELF.
        elf: Artifact,
        /// The kernel's name in it.
        kernel: String,
        /// What it was compiled for.
        compiled: Compiled,
    },
    /// For xrt: a kernel of an xclbin.
    Xclbin {
        /// The xclbin.
        xclbin: Artifact,
        /// The instruction stream.
        insts: Artifact,
        /// The kernel's name in the xclbin.
        kernel: String,
        /// What it was compiled for.
        compiled: Compiled,
    },
}

/// What an image for an NPU was compiled for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiled {
    /// The target, as `--target` spells it.
    pub target: String,
    /// The grid that is part of the instructions, if the kernel has one.
    pub grid: Option<[u32; 3]>,
}

impl Image {
    /// What it was compiled for; `None` for the cpu.
    #[must_use]
    pub fn compiled(&self) -> Option<&Compiled> {
        match self {
            Self::Object { .. } => None,
            Self::Hsaco { compiled, .. }
            | Self::FullElf { compiled, .. }
            | Self::Xclbin { compiled, .. } => Some(compiled),
        }
    }

    /// The files that it consists of.
    pub fn artifacts(&self) -> impl Iterator<Item = &Artifact> {
        self.parts().map(|(_, artifact)| artifact)
    }

    /// Its files, each with the name of its field.
    fn parts(&self) -> impl Iterator<Item = (&'static str, &Artifact)> {
        let (first, second) = match self {
            Self::Object { object } => (("object", object), None),
            Self::Hsaco { hsaco, .. } => (("hsaco", hsaco), None),
            Self::FullElf { elf, .. } => (("elf", elf), None),
            Self::Xclbin { xclbin, insts, .. } => (("xclbin", xclbin), Some(("insts", insts))),
        };
        std::iter::once(first).chain(second)
    }
}

/// A compiled kernel, as a file beside the launcher.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// The file's name, from [`artifact_file_name`].
    pub file: String,
    /// The digest of the file's content.
    pub digest: Digest,
}

/// Why there is no launcher.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two kernels come down to one Rust module.
    #[error(
        "kernels '{first}' and '{second}' would both become the module `{module}` of one launcher; \
         rename one of them or generate two launchers"
    )]
    ModuleCollision {
        /// The kernel that came first.
        first: String,
        /// The kernel that came later.
        second: String,
        /// The name that both would get.
        module: String,
    },
    /// Two arguments of a kernel come down to one Rust identifier.
    #[error(
        "arguments '%{first}' and '%{second}' of kernel '{kernel}' would both be called \
         `{identifier}` in Rust; rename one of them in the MLIR"
    )]
    ArgumentCollision {
        /// The kernel's name.
        kernel: String,
        /// The argument that came first.
        first: String,
        /// The argument that came later.
        second: String,
        /// The name that both would get.
        identifier: String,
    },
    /// A scalar whose type has no Rust counterpart.
    #[error(
        "argument '%{argument}' of kernel '{kernel}' is a scalar of type '{mlir_type}', which has \
         no Rust counterpart; pass it through memory instead"
    )]
    OpaqueScalar {
        /// The kernel's name.
        kernel: String,
        /// The argument's name, without the `%`.
        argument: String,
        /// Its type as the MLIR spells it.
        mlir_type: String,
    },
    /// What was named as the runtime's crate is no path.
    #[error(
        "'{0}' is no path of a crate: give the runtime's name in the host program, such as my_npu or \
         my_facade::npu"
    )]
    RuntimeCrate(String),
    /// The request can't be written as JSON.
    #[error("can't write a launcher's request as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// An artifact's file is not a plain name beside the launcher.
    #[error(
        "'{file}', the artifact of kernel '{kernel}', is not a plain file name, so a launcher \
         can't find it beside itself"
    )]
    ArtifactFile {
        /// The kernel's name.
        kernel: String,
        /// The name in question.
        file: String,
    },
    /// Two artifacts would be one file beside the launcher.
    #[error(
        "'{file}' is named as an artifact of kernel '{kernel}' and, with other content, as one of \
         the same launcher before; give each content a file name of its own"
    )]
    ArtifactConflict {
        /// The kernel that came later.
        kernel: String,
        /// The name in question.
        file: String,
    },
    /// An image is for a target that the runtime has no name for.
    #[error(
        "kernel '{kernel}' has an image for '{target}', which is no NPU: there are npu1 and npu2"
    )]
    Target {
        /// The kernel's name.
        kernel: String,
        /// The target in question.
        target: String,
    },
    /// The template could not be filled in: a mistake of `npu-build`, not of its input.
    #[error("the launcher template could not be filled in: {reason}; please report it")]
    Template {
        /// The template engine's own words, outermost first.
        reason: String,
    },
}

/// Checks everything that could keep [`render`] from succeeding, without the template engine.
///
/// # Errors
/// Names that collide, scalars without a Rust type, artifacts that are not beside the launcher,
/// targets that are none.
pub fn check(request: &Request) -> Result<(), Error> {
    modules(request).map(drop)
}

/// The text of the launcher: Rust for `include!`.
///
/// # Errors
/// What [`check`] reports, and [`Error::Template`].
pub fn render(request: &Request) -> Result<String, Error> {
    view::render(&modules(request)?, request)
}

/// A kernel whose names and types have been settled.
struct Module<'a> {
    kernel: &'a Kernel,
    name: names::Identifier,
    api: parameters::Api<'a>,
}

fn modules(request: &Request) -> Result<Vec<Module<'_>>, Error> {
    images::check(&request.kernels)?;
    if !names::is_runtime_crate(&request.runtime_crate) {
        return Err(Error::RuntimeCrate(request.runtime_crate.clone()));
    }
    let mut modules: Vec<Module<'_>> = Vec::with_capacity(request.kernels.len());
    for kernel in &request.kernels {
        let name = names::module(&kernel.signature.name);
        if let Some(first) = modules.iter().find(|module| module.name == name) {
            return Err(Error::ModuleCollision {
                first: first.kernel.signature.name.to_string(),
                second: kernel.signature.name.to_string(),
                module: name.to_string(),
            });
        }
        modules.push(Module {
            kernel,
            name,
            api: parameters::Api::new(&kernel.signature)?,
        });
    }
    Ok(modules)
}
