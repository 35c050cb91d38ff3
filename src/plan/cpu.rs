//! The way of a kernel for the host's own processor: one step.

use std::sync::Arc;

use super::{BuiltKernel, KernelError, Prepared, Request};
use crate::launcher::{self, Image, artifact_file_name};
use crate::step::cpu::{self, OBJECT};
use crate::step::{Keyed, Origin};
use crate::store::StepResult;
use crate::toolchain::Llvm;

/// The step, and the tools that it uses.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) tools: Arc<Llvm>,
    compile: Arc<Keyed>,
}

/// Plans the step.
pub(super) fn route(
    prepared: &Prepared,
    request: &Request,
    tools: Arc<Llvm>,
) -> Result<Box<Route>, KernelError> {
    if let Some(what) = request.for_npu_only {
        return Err(KernelError::OnlyForNpus(what));
    }
    let [kernel, ..] = prepared.understood.kernels.as_slice() else {
        return Err(KernelError::NoKernel);
    };
    let step = cpu::compile(&cpu::Request {
        signature: &kernel.signature,
        types: &kernel.types,
        defined: &prepared.understood.module.defined,
        origin: Origin {
            path: request.kernel.clone(),
            text: Arc::clone(&prepared.understood.text),
        },
        tools: &tools,
        march: request.options.options.march.clone().unwrap_or_default(),
        keep_intermediates: request.options.keep_intermediates.unwrap_or(false),
    })?;
    Ok(Box::new(Route {
        compile: Arc::new(step.into()),
        tools,
    }))
}

impl Route {
    /// The step that comes after those that are done; `None` after the only one.
    pub(super) fn next(&self, done: &[StepResult]) -> Option<Arc<Keyed>> {
        done.is_empty().then(|| Arc::clone(&self.compile))
    }

    /// The kernels that the step has made.
    pub(super) fn kernels(&self, prepared: &Prepared, done: &[StepResult]) -> Vec<BuiltKernel> {
        let Some(compiled) = done.last() else {
            return Vec::new();
        };
        let mut artifacts = compiled.artifacts.iter();
        let object = artifacts.find(|artifact| artifact.name == OBJECT);
        let kernels = prepared.understood.kernels.iter().zip(object);
        let kernels = kernels.map(|(kernel, artifact)| {
            let name = artifact_file_name(&kernel.signature.name, &artifact.digest, "so");
            BuiltKernel {
                signature: kernel.signature.clone(),
                key: compiled.key,
                images: vec![Image::Object {
                    object: launcher::Artifact {
                        file: name.clone(),
                        digest: artifact.digest,
                    },
                }],
                files: vec![(name, artifact.clone())],
            }
        });
        kernels.collect()
    }
}
