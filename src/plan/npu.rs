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
use crate::step::npu::{self, AIR, Lowering, Options, PackKernel, Packing, SOURCE};
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
    options: Options,
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
    let format = settle_format(target, runtime, request.format)?;
    let arch = npu::arch(target).ok_or(KernelError::NoKernel)?;
    if understood.kernels.is_empty() {
        return Err(KernelError::NoKernel);
    }
    let module = &understood.module;
    let kernels = understood.kernels.clone();
    let grid = settle_grid(module.level, &kernels, request)?;
    let script = match &request.npu.transform {
        Some(path) if module.level == Level::Linalg => files::transform(path)?,
        _ => Files::default(),
    };
    let stem = request.kernel.file_stem().unwrap_or("kernel".as_ref());
    let core_elfs = npu::core_elf_directory(&tools);
    let (companions, renamed) =
        files::companions(&request.kernel, module, &request.npu.inputs, core_elfs)?;
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
        options: request.npu.options.clone(),
        arguments: request.npu.arguments.clone(),
        companions,
        script,
        keep_intermediates: request.keep_intermediates,
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
    match (has_grid, request.npu.grid) {
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

    /// The first step.
    pub(super) fn first(&self) -> Result<Step, KernelError> {
        if self.module.level == Level::Linalg {
            return self.lower_step();
        }
        Ok(self.compile_step(self.source.clone())?.step)
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

    /// Carries it out.
    pub(super) fn build(
        &self,
        request: &Request,
        observe: Observer<'_>,
        ensure: &mut dyn FnMut(&Keyed) -> Result<StepResult, BuildError>,
    ) -> Result<Vec<BuiltKernel>, BuildError> {
        let refuse = |error: KernelError| error.at(&request.kernel);
        let source = match self.module.level {
            Level::Air | Level::Aie => self.source.clone(),
            Level::Linalg => {
                let step = self
                    .lower
                    .get_or_plan(std::iter::empty(), || self.lower_step())
                    .map_err(refuse)?;
                let lowered = ensure(&step)?;
                let air = lowered.artifacts.iter().find(|file| file.name == AIR);
                let air = air.ok_or(KernelError::NoKernel).map_err(refuse)?;
                let made = Input::made(SOURCE, &air.path, air.size, air.digest);
                match air.is_temporary() {
                    true => made.that_is_temporary(),
                    false => made,
                }
            }
        };
        let step = self
            .compile
            .get_or_plan(std::iter::once(source.digest()), || {
                self.compile_step(source.clone()).map(|made| made.step)
            })
            .map_err(refuse)?;
        let compiled = ensure(&step)?;
        self.check_buffers(&compiled, &request.kernel)?;
        let hsaco = match self.runtime {
            Runtime::Hsa => Some(self.packed(&compiled, request, ensure)?),
            _ => None,
        };
        let missing = self.companions.warnings.iter().cloned();
        for warning in missing.chain(self.warnings(hsaco.as_ref())) {
            let kernel = request.kernel.display();
            observe(Event::Warning(format!("{kernel}: {warning}")));
        }
        let kernels = self.kernels.iter().zip(&self.files);
        let kernels = kernels.map(|(kernel, files)| match &hsaco {
            Some(packed) => self.in_hsaco(kernel, files, packed),
            None => self.for_xrt(kernel, files, &compiled),
        });
        Ok(kernels.flatten().collect())
    }

    /// Refuses what was compiled and can't be launched with all its buffers. The compile step is the
    /// same for all runtimes, so that it is no part of that.
    fn check_buffers(&self, compiled: &StepResult, kernel: &Path) -> Result<(), BuildError> {
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
            let checked = launchable.check().map_err(KernelError::from);
            checked.map_err(|error| error.at(kernel))?;
        }
        Ok(())
    }

    fn packed(
        &self,
        compiled: &StepResult,
        request: &Request,
        ensure: &mut dyn FnMut(&Keyed) -> Result<StepResult, BuildError>,
    ) -> Result<StepResult, BuildError> {
        let digests = compiled.artifacts.iter().map(|artifact| artifact.digest);
        let step = self.pack.get_or_plan(digests, || {
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
            Ok::<_, KernelError>(npu::pack(Packing {
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
        });
        ensure(&*step.map_err(|error| error.at(&request.kernel))?)
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
