//! The way of a kernel for an NPU: lower (linalg only), compile, and for ROCR pack.
//!
//! Each step is chained by the content of what the one before made, so that a change that leaves
//! the AIR as it is does not compile again, and another runtime only packs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use npu_runtime::Runtime;

use super::files::{self, Files};
use super::remembered::Planned;
use super::request::settle_format;
use super::{BuildError, BuiltKernel, KernelError, Prepared, Request, subject};
use crate::kernel::{Kernel, Level, Module, Target, rename_files};
use crate::launcher::{Artifact as LauncherArtifact, Compiled, Image, artifact_file_name};
use crate::step::execute::ExecuteError;
use crate::step::npu::{self, AIR, Lowering, PackKernel, Packing, SOURCE, TargetOptions};
use crate::step::{Input, Keyed, Origin, Step};
use crate::store::{Artifact, EnsureError, Event, Observer, StepResult};
use crate::toolchain::{AieTools, Format, Packer};
use npu_formats::Arch;
use npu_formats::container::Elf64;
use npu_formats::dump::warnings;

/// All that is known before the first step, and the steps that were planned last.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) tools: Arc<AieTools>,
    target: Target,
    arch: Arch,
    runtime: Runtime,
    format: Format,
    module: Module,
    kernels: Vec<Kernel>,
    subject: String,
    file: PathBuf,
    /// What the files of several kernels are called.
    stem: String,
    source: Input,
    grid: Option<[u32; 3]>,
    options: TargetOptions,
    arguments: Vec<String>,
    companions: Files,
    script: Files,
    keep_intermediates: bool,
    /// Which outputs of the compile step are whose.
    files: Vec<npu::Files>,
    lower: Planned,
    compile: Planned,
    pack: Planned,
}

/// Settles everything that can be settled without a step's output.
pub(super) fn route(
    prepared: &Prepared,
    request: &Request,
    tools: Arc<AieTools>,
) -> Result<Box<Route>, KernelError> {
    let understood = &prepared.understood;
    let target = prepared.target;
    let runtime = prepared.runtime;
    let format = settle_format(target, runtime, request.options.format)?;
    let arch = npu::arch(target).ok_or(KernelError::NoKernel)?;
    if understood.kernels.is_empty() {
        return Err(KernelError::NoKernel);
    }
    let module = &understood.module;
    let kernels = understood.kernels.clone();
    let grid = settle_grid(module.level, &kernels, request)?;
    let script = match &request.options.transform {
        Some(path) if module.level == Level::Linalg => files::transform(path)?,
        _ => Files::default(),
    };
    let stem = request.kernel.file_stem().unwrap_or("kernel".as_ref());
    let core_elfs = npu::core_elf_directory(&tools);
    let (companions, renamed) =
        files::companions(&request.kernel, module, &request.options.inputs, core_elfs)?;
    let origin = Origin {
        path: request.kernel.clone(),
        text: Arc::clone(&understood.text),
    };
    let source = match renamed.is_empty() {
        true => Input::text(SOURCE, origin),
        false => {
            let text = rename_files(&understood.text.text, &renamed);
            Input::new(SOURCE, text.into_bytes()).from_user(origin)
        }
    };
    let mut route = Box::new(Route {
        target,
        arch,
        runtime,
        format,
        subject: subject(prepared),
        file: request.kernel.clone(),
        stem: match kernels.as_slice() {
            [kernel] => kernel.signature.name.to_string(),
            _ => stem.to_string_lossy().into_owned(),
        },
        source,
        grid,
        options: request.options.options.clone(),
        arguments: request.options.tool_args.clone(),
        companions,
        script,
        keep_intermediates: request.options.keep_intermediates.unwrap_or(false),
        module: module.clone(),
        kernels,
        tools,
        files: Vec::new(),
        lower: Planned::default(),
        compile: Planned::default(),
        pack: Planned::default(),
    });
    // What can't be compiled or packed is refused before it is lowered.
    route.files = route.compile_step(route.source.clone())?.files;
    if runtime == Runtime::Hsa {
        route.packer()?;
    }
    Ok(route)
}

/// The grid that is compiled in: that of a linalg-level kernel, which is lowered here.
fn settle_grid(
    level: Level,
    kernels: &[Kernel],
    request: &Request,
) -> Result<Option<[u32; 3]>, KernelError> {
    let has_grid = kernels.iter().any(|kernel| kernel.signature.grid);
    match (has_grid, request.options.grid) {
        (_, Some(_)) if level != Level::Linalg => Err(KernelError::GridInText(level)),
        (true, Some(grid)) => Ok(Some(grid.0)),
        (true, None) => Err(KernelError::NoGrid),
        (false, Some(_)) => Err(KernelError::NoGridArguments),
        (false, None) => Ok(None),
    }
}

impl Route {
    /// Whether it depends on files that a later build would have to read again.
    pub(super) fn reads_files(&self) -> bool {
        !(self.companions.paths.is_empty() && self.script.paths.is_empty())
    }

    /// Every file that it depends on.
    pub(super) fn read(&self) -> impl Iterator<Item = &Path> {
        let files = self.companions.paths.iter().chain(&self.script.paths);
        files.map(PathBuf::as_path).chain(self.tools.files())
    }

    fn lower_step(&self) -> Result<Step, KernelError> {
        let kernel = self.kernels.first().ok_or(KernelError::NoKernel)?;
        Ok(npu::lower(&Lowering {
            function: &kernel.symbol,
            subject: &self.subject,
            file: &self.file,
            target: self.target.name(),
            source: self.source.clone(),
            grid: self.grid,
            script: &self.script.inputs,
            options: &self.options,
            air_opt: self.tools.air_opt.get()?,
        }))
    }

    fn compile_step(&self, source: Input) -> Result<npu::Compiled, KernelError> {
        Ok(npu::compile(&npu::Request {
            subject: &self.subject,
            file: &self.file,
            target: self.target,
            module: &self.module,
            kernels: &self.kernels,
            format: self.format,
            options: &self.options,
            extra: &self.arguments,
            source,
            files: &self.companions.inputs,
            tools: &self.tools,
            keep_intermediates: self.keep_intermediates,
        })?)
    }

    /// The step that comes after those that are done; `None` after the last.
    pub(super) fn next(&self, done: &[StepResult]) -> Result<Option<Arc<Keyed>>, BuildError> {
        let is_lowered = self.module.level == Level::Linalg;
        let step = match (done, is_lowered) {
            ([], true) => self.lower.get_or_plan([].into_iter(), || self.lower_step()),
            ([], false) => self.compile_of(self.source.clone()),
            ([lowered], true) => {
                self.compile_of(air(lowered).map_err(|error| self.refused(error))?)
            }
            ([compiled], false) | ([_, compiled], true) => {
                self.check_buffers(compiled)?;
                if self.runtime != Runtime::Hsa {
                    return Ok(None);
                }
                self.pack_of(compiled)
            }
            _ => return Ok(None),
        };
        step.map(Some).map_err(|error| self.refused(error))
    }

    /// The kernels that the steps have made, all of which are done.
    pub(super) fn kernels(&self, done: &[StepResult], observe: Observer<'_>) -> Vec<BuiltKernel> {
        let Some(last) = done.last() else {
            return Vec::new();
        };
        let hsaco = (self.runtime == Runtime::Hsa).then_some(last);
        let missing = self.companions.warnings.iter().cloned();
        for warning in missing.chain(self.warnings(hsaco)) {
            observe(Event::Warning(format!(
                "{}: {warning}",
                self.file.display()
            )));
        }
        let kernels = self.kernels.iter().zip(&self.files);
        let kernels = kernels.map(|(kernel, files)| match hsaco {
            Some(packed) => self.in_hsaco(kernel, files, packed),
            None => self.for_xrt(kernel, files, last),
        });
        kernels.flatten().collect()
    }

    fn refused(&self, error: KernelError) -> BuildError {
        error.at(&self.file)
    }

    fn compile_of(&self, source: Input) -> Result<Arc<Keyed>, KernelError> {
        let digest = std::iter::once(source.digest());
        self.compile
            .get_or_plan(digest, || self.compile_step(source).map(|made| made.step))
    }

    /// Refuses what was compiled and can't be launched with all its buffers. The compile step is the
    /// same for all runtimes, so that it is no part of that.
    fn check_buffers(&self, compiled: &StepResult) -> Result<(), BuildError> {
        let read = |index: usize| {
            let path = compiled
                .artifacts
                .get(index)
                .map(|artifact| &*artifact.path);
            let path = path.unwrap_or(Path::new(""));
            fs::read(path).map_err(|source| {
                EnsureError::from(ExecuteError::Input {
                    subject: self.subject.clone(),
                    path: path.to_owned(),
                    source,
                })
            })
        };
        let files = self.files.iter();
        for files in files.filter(|files| files.buffers > npu::FEWEST_DECLARED) {
            let (Format::Xclbin, Some(insts)) = (self.format, files.insts) else {
                continue;
            };
            let launchable = npu::Launchable {
                target: self.target,
                runtime: self.runtime,
                files,
                xclbin_kernel: self.options.xclbin_kernel(),
                xclbin: &read(files.configuration)?,
                insts: &read(insts)?,
            };
            launchable
                .check()
                .map_err(|error| self.refused(error.into()))?;
        }
        Ok(())
    }

    fn pack_of(&self, compiled: &StepResult) -> Result<Arc<Keyed>, KernelError> {
        let digests = compiled.artifacts.iter().map(|artifact| artifact.digest);
        self.pack.get_or_plan(digests, || {
            let named = |index: usize| compiled.artifacts.get(index);
            let mut inputs: Vec<Input> = Vec::new();
            let mut kernels = Vec::new();
            for file in &self.files {
                let insts = file.insts.and_then(named);
                for artifact in named(file.configuration).into_iter().chain(insts) {
                    if inputs.iter().all(|input| input.name != artifact.name) {
                        inputs.push(Input::made(
                            artifact.name.clone(),
                            &artifact.path,
                            artifact.size,
                            artifact.digest,
                        ));
                    }
                }
                let name = |artifact: &Artifact| artifact.name.to_string();
                kernels.push(PackKernel {
                    name: file.name.clone(),
                    configuration: named(file.configuration).map(name).unwrap_or_default(),
                    insts: insts.map(name),
                    buffers: file.buffers,
                    columns: file.columns,
                });
            }
            Ok(npu::pack(Packing {
                subject: &self.subject,
                file: &self.file,
                target: self.target.name(),
                arch: self.arch,
                format: self.format,
                kernels,
                files: inputs,
                packer: self.packer()?,
                tools: &self.tools,
            }))
        })
    }

    /// What is to be known of an hsaco with a full ELF; there is nothing to be said of other ones that
    /// was not refused.
    fn warnings(&self, hsaco: Option<&StepResult>) -> Vec<String> {
        let artifact = hsaco.and_then(|packed| packed.artifacts.first());
        let artifact = artifact.filter(|_| self.format == Format::Elf);
        let bytes = artifact.and_then(|artifact| fs::read(&artifact.path).ok());
        let warnings = bytes.map(|bytes| {
            let section = Elf64::parse(&bytes).and_then(|elf| elf.section(self.arch));
            section.map(|section| warnings(self.arch, section.unwrap_or_default()))
        });
        warnings.and_then(Result::ok).unwrap_or_default()
    }

    fn packer(&self) -> Result<Packer<'_>, KernelError> {
        // aircc lets a sequence of its own configure the device and run the kernel's.
        let has_parts =
            self.module.level != Level::Aie || self.kernels.iter().any(|it| it.configures);
        Ok(self.tools.packer(self.format, has_parts)?)
    }

    fn target(&self) -> Compiled {
        Compiled {
            target: self.target.name().to_owned(),
            grid: self.grid,
        }
    }

    fn in_hsaco(
        &self,
        kernel: &Kernel,
        files: &npu::Files,
        packed: &StepResult,
    ) -> Option<BuiltKernel> {
        let artifact = packed.artifacts.first()?;
        let hsaco = self.named(artifact, "hsaco");
        Some(BuiltKernel {
            signature: kernel.signature.clone(),
            key: packed.key,
            files: vec![(hsaco.file.clone(), artifact.clone())],
            images: vec![Image::Hsaco {
                hsaco,
                kernel: files.name.clone(),
                compiled: self.target(),
            }],
        })
    }

    fn for_xrt(
        &self,
        kernel: &Kernel,
        files: &npu::Files,
        compiled: &StepResult,
    ) -> Option<BuiltKernel> {
        let configuration = compiled.artifacts.get(files.configuration)?;
        let insts = files.insts.and_then(|index| compiled.artifacts.get(index));
        let named = self.named(configuration, self.format.name());
        let mut built = vec![(named.file.clone(), configuration.clone())];
        let insts = insts.map(|artifact| {
            let insts = self.named(artifact, "insts.bin");
            built.push((insts.file.clone(), artifact.clone()));
            insts
        });
        let image = match (self.format, insts) {
            (Format::Elf, _) => Some(Image::FullElf {
                elf: named,
                kernel: files.name.clone(),
                compiled: self.target(),
            }),
            (Format::Xclbin, Some(insts)) => Some(Image::Xclbin {
                xclbin: named,
                insts,
                kernel: self.options.xclbin_kernel().to_owned(),
                compiled: self.target(),
            }),
            // XRT loads no PDI by itself.
            (Format::Xclbin | Format::Pdi, _) => None,
        };
        Some(BuiltKernel {
            signature: kernel.signature.clone(),
            key: compiled.key,
            images: image.into_iter().collect(),
            files: built,
        })
    }

    /// An artifact under the name that it has beside a launcher.
    fn named(&self, artifact: &Artifact, extension: &str) -> LauncherArtifact {
        LauncherArtifact {
            file: artifact_file_name(&self.stem, &artifact.digest, extension),
            digest: artifact.digest,
        }
    }
}

/// The AIR that the lowering step has made, as the next one's source.
fn air(lowered: &StepResult) -> Result<Input, KernelError> {
    let mut artifacts = lowered.artifacts.iter();
    let air = artifacts.find(|file| file.name == AIR);
    let air = air.ok_or(KernelError::NoKernel)?;
    let made = Input::made(SOURCE, &air.path, air.size, air.digest);
    Ok(match air.is_temporary() {
        true => made.that_is_temporary(),
        false => made,
    })
}
