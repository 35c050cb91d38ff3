//! Packing kernels into the section of one architecture, by the rules of upstream's newest packer.
//!
//! Those rules let through what ROCR then refuses to load; here it is refused with ROCR's reason,
//! unless the caller insists. Nothing is written before everything was checked.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::bytes::size_of;
use super::container::{Container, EditFault};
use super::dump::warnings;
use super::file::{Bytes, FileFault, Replacement};
use super::full_elf::{self, FullElf, OutlineFault};
use super::judge::{Agent, Candidate, Loader, Refusal, other_generation};
use super::section::{SectionImage, TooLarge, WriteKernel};
use super::spec::{Source, Spec};
use super::xclbin::{Xclbin, XclbinFault};
use super::{Arch, KernelKind};

/// A kernel to be packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel<'a> {
    /// Its name in the hsaco.
    pub name: String,
    /// What `insts` is.
    pub kind: KernelKind,
    /// The instruction stream, or the full ELF.
    pub insts: &'a [u8],
    /// The PDI; empty if there is none.
    pub pdi: &'a [u8],
    /// Size of the kernarg block in bytes.
    pub kernarg_size: u32,
    /// Columns of the partition.
    pub columns: u32,
}

/// A kernel that ROCR refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub kernel: String,
    /// Why.
    pub refusal: Refusal,
}

/// Why an input gives no kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputFault {
    /// The full ELF has no kernels.
    #[error("not a full ELF that can be packed: {0}")]
    Elf(#[from] OutlineFault),
    /// The xclbin has no PDI.
    #[error("{0}")]
    Xclbin(#[from] XclbinFault),
    /// A kernel of the full ELF has a name that an hsaco can't have.
    #[error("the kernel name '{0}' is not UTF-8")]
    Name(String),
    /// The user's number of columns is not the one that the file records.
    #[error(
        "columns given as {given}, but it was compiled for {recorded}; leave them out to take what it records"
    )]
    Contradiction {
        /// What the user says.
        given: u32,
        /// What the file records.
        recorded: u32,
    },
    /// Nobody says how many columns there are.
    #[error("it does not record its columns; give them as NUM_COLS or with --kernel-cols")]
    NoColumns,
}

/// Why nothing was packed.
#[derive(Debug, thiserror::Error)]
pub enum PackFault {
    /// An input is not what it should be.
    #[error("{}: {fault}", path.display())]
    Input {
        /// The input.
        path: PathBuf,
        /// What is wrong with it.
        fault: InputFault,
    },
    /// A kernel has no code.
    #[error("kernel '{0}': its instruction stream is empty")]
    NoInsts(String),
    /// ROCR finds kernels by name.
    #[error("duplicate kernel name(s): {}", .0.join(", "))]
    Duplicate(Vec<String>),
    /// A name can't stand in the string table.
    #[error("kernel '{}': its name has a NUL", .0.escape_default())]
    NulInName(String),
    /// There is nothing to pack.
    #[error("no kernels given")]
    NoKernels,
    /// ROCR would refuse it.
    #[error("kernel '{}': ROCR would not load it: {}; --allow-unloadable packs it all the same", .0.kernel, .0.refusal)]
    Unloadable(Refused),
    /// More than the format can hold.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The file that is there can't take the section.
    #[error("can't add the section to {}: {fault}", path.display())]
    Edit {
        /// The hsaco.
        path: PathBuf,
        /// Why.
        fault: EditFault,
    },
    /// An input or the hsaco can't be read, or the hsaco not written.
    #[error(transparent)]
    File(#[from] FileFault),
}

/// What to do with kernels that ROCR refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unloadable {
    /// Pack nothing.
    #[default]
    Refuse,
    /// Pack them, and list them.
    Allow,
}

impl<'a> Kernel<'a> {
    /// The kernels of a full ELF, sorted by name, all with the whole of it as their code.
    ///
    /// # Errors
    /// When it has none, or its columns are unknown or others than `columns`.
    pub fn of_elf(
        elf: &'a [u8],
        kernarg_size: u32,
        columns: Option<u32>,
    ) -> Result<Vec<Self>, InputFault> {
        let outline = full_elf::outline(elf)?;
        let columns = agreed(columns, outline.columns)?;
        let kernel = |name| {
            Ok(Self {
                name: String::from_utf8(name).map_err(|error| {
                    InputFault::Name(String::from_utf8_lossy(error.as_bytes()).into_owned())
                })?,
                kind: KernelKind::FullElf,
                insts: elf,
                pdi: &[],
                kernarg_size,
                columns,
            })
        };
        outline.kernels.into_iter().map(kernel).collect()
    }

    /// A kernel whose PDI is the one of an xclbin.
    ///
    /// # Errors
    /// When there is not one PDI, or its columns are others than `columns`.
    pub fn of_xclbin(
        name: &str,
        xclbin: &'a [u8],
        insts: &'a [u8],
        kernarg_size: u32,
        columns: Option<u32>,
    ) -> Result<Self, InputFault> {
        let partition = Xclbin::parse(xclbin)?.partition()?;
        let pdi = partition.only_pdi()?;
        let columns = agreed(columns, Some(partition.column_width.into()))?;
        Ok(Self::of_pdi(name, insts, pdi, kernarg_size, columns))
    }

    /// A kernel of two files that do not record their columns.
    #[must_use]
    pub fn of_pdi(
        name: &str,
        insts: &'a [u8],
        pdi: &'a [u8],
        kernarg_size: u32,
        columns: u32,
    ) -> Self {
        Self {
            name: name.to_owned(),
            kind: KernelKind::PdiInsts,
            insts,
            pdi,
            kernarg_size,
            columns,
        }
    }

    /// The kernel as ROCR's loader would see it.
    fn candidate(&'a self) -> Candidate<'a> {
        Candidate {
            name: self.name.as_bytes(),
            kind: self.kind,
            insts: self.insts,
            pdi: self.pdi,
            kernarg_size: self.kernarg_size,
            columns: self.columns,
        }
    }
}

/// The number of columns, where what the user says is only a cross-check of what is recorded.
fn agreed(given: Option<u32>, recorded: Option<u32>) -> Result<u32, InputFault> {
    match (given, recorded) {
        (Some(given), Some(recorded)) if given != recorded => {
            Err(InputFault::Contradiction { given, recorded })
        }
        (_, Some(columns)) | (Some(columns), None) => Ok(columns),
        (None, None) => Err(InputFault::NoColumns),
    }
}

/// Lays out the section of `arch`; also lists the kernels that ROCR refuses, if they are allowed.
///
/// # Errors
/// What upstream's packer refuses, and what ROCR does unless that is allowed.
pub fn section<'a>(
    arch: Arch,
    kernels: &'a [Kernel<'a>],
    unloadable: Unloadable,
) -> Result<(SectionImage<'a>, Vec<Refused>), PackFault> {
    if kernels.is_empty() {
        return Err(PackFault::NoKernels);
    }
    let mut seen = HashSet::new();
    let mut repeated: Vec<_> = (kernels.iter())
        .filter(|kernel| !seen.insert(&kernel.name))
        .map(|kernel| kernel.name.clone())
        .collect();
    if !repeated.is_empty() {
        repeated.sort();
        repeated.dedup();
        return Err(PackFault::Duplicate(repeated));
    }
    for kernel in kernels {
        if kernel.insts.is_empty() {
            return Err(PackFault::NoInsts(kernel.name.clone()));
        }
        if kernel.name.contains('\0') {
            return Err(PackFault::NulInName(kernel.name.clone()));
        }
    }
    let refused = refused(arch, kernels);
    if unloadable == Unloadable::Refuse
        && let Some(first) = refused.first()
    {
        return Err(PackFault::Unloadable(first.clone()));
    }
    let kernels: Vec<_> = (kernels.iter())
        .map(|kernel| WriteKernel {
            name: &kernel.name,
            kind: kernel.kind,
            insts: kernel.insts,
            pdi: kernel.pdi,
            kernarg_size: kernel.kernarg_size,
            columns: kernel.columns,
        })
        .collect();
    Ok((SectionImage::new(&kernels)?, refused))
}

/// The kernels that ROCR would not load on a device of `arch`, or that would hang it.
#[must_use]
pub fn refused(arch: Arch, kernels: &[Kernel<'_>]) -> Vec<Refused> {
    let size = (kernels.iter()).fold(0, |sum: u64, kernel| {
        sum.saturating_add(size_of(kernel.insts))
    });
    let mut loader = Loader::new(Agent::of(arch), size);
    let refusal = |kernel: &Kernel<'_>, refusal| Refused {
        kernel: kernel.name.clone(),
        refusal,
    };
    let mut refused = Vec::new();
    for kernel in kernels {
        let foreign = match kernel.kind {
            KernelKind::PdiInsts => other_generation(kernel.insts, arch),
            KernelKind::FullElf => None,
        };
        if let Err(reason) = loader.judge(&kernel.candidate()) {
            refused.push(refusal(kernel, reason));
        } else if let Some(fault) = foreign {
            refused.push(refusal(kernel, Refusal::Generation(fault)));
        }
    }
    refused
}

/// Takes out the kernels of full ELFs that are parts of others there and can't be dispatched.
fn take_parts(arch: Arch, kernels: &mut Vec<Kernel<'_>>) -> Vec<String> {
    let mut read = HashMap::new();
    let mut parts = Vec::new();
    kernels.retain(|kernel| {
        if kernel.kind != KernelKind::FullElf {
            return true;
        }
        let names = read.entry(kernel.insts.as_ptr()).or_insert_with(|| {
            let elf = FullElf::parse(kernel.insts, arch);
            // What can't be read is refused with the reason.
            elf.map_or_else(
                |_| Vec::new(),
                |elf| elf.parts().iter().map(|part| part.name.clone()).collect(),
            )
        });
        let is_part = names.iter().any(|name| *name == kernel.name.as_bytes());
        if is_part {
            parts.push(kernel.name.clone());
        }
        !is_part
    });
    parts
}

/// What was packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The names of the kernels, in the order of the table.
    pub kernels: Vec<String>,
    /// Those of full ELFs that were left out, because they are parts of others.
    pub parts: Vec<String>,
    /// Size of the section in bytes.
    pub section_size: u32,
    /// Those that ROCR will refuse, because the caller insisted.
    pub refused: Vec<Refused>,
    /// See [`warnings`].
    pub warnings: Vec<String>,
}

/// Packs `specs` into the section of `arch` of the file at `hsaco`, which is made if it does not
/// exist and keeps everything else that it has.
///
/// # Errors
/// See [`PackFault`]; the file is then as it was.
pub fn pack(
    hsaco: &Path,
    arch: Arch,
    specs: &[Spec],
    unloadable: Unloadable,
) -> Result<Packed, PackFault> {
    let inputs = Inputs::read(specs)?;
    let mut kernels = kernels(specs, |path| inputs.get(path))?;
    let parts = match unloadable {
        Unloadable::Refuse => take_parts(arch, &mut kernels),
        Unloadable::Allow => Vec::new(),
    };
    let (image, refused) = section(arch, &kernels, unloadable)?;
    let replacement = Replacement::begin(hsaco)?;
    let container = match replacement.existing() {
        Some(existing) => {
            Container::edited(existing, arch, &image).map_err(|fault| PackFault::Edit {
                path: hsaco.to_owned(),
                fault,
            })?
        }
        None => Container::fresh(arch, &image),
    };
    replacement.commit(&container)?;
    Ok(Packed {
        section_size: image.size(),
        warnings: warnings(arch, &image.to_vec()),
        refused,
        parts,
        kernels: kernels.into_iter().map(|kernel| kernel.name).collect(),
    })
}

/// Packs `specs` into a new hsaco. The files that they name are those that `read` gives.
///
/// # Errors
/// See [`PackFault`]; what ROCR would refuse is refused.
pub fn pack_fresh<'a>(
    arch: Arch,
    specs: &[Spec],
    read: impl Fn(&Path) -> &'a [u8],
) -> Result<Vec<u8>, PackFault> {
    let mut kernels = kernels(specs, read)?;
    take_parts(arch, &mut kernels);
    let (image, _) = section(arch, &kernels, Unloadable::Refuse)?;
    let mut bytes = Vec::new();
    let written = Container::fresh(arch, &image).write_to(&mut bytes);
    // A vector takes whatever memory can hold.
    debug_assert!(written.is_ok());
    Ok(bytes)
}

/// The files that specs name, each opened once.
struct Inputs(HashMap<PathBuf, Bytes>);

impl Inputs {
    fn read(specs: &[Spec]) -> Result<Self, PackFault> {
        let mut files = HashMap::new();
        let paths = specs.iter().flat_map(|spec| match &spec.source {
            Source::Elf { path } => vec![path],
            Source::Pdi { insts, pdi, .. } => pdi.iter().chain([insts]).collect(),
            Source::Xclbin { insts, xclbin, .. } => vec![insts, xclbin],
        });
        for path in paths {
            if !files.contains_key(path) {
                files.insert(path.clone(), Bytes::open(path)?);
            }
        }
        Ok(Self(files))
    }

    fn get(&self, path: &Path) -> &[u8] {
        self.0.get(path).map_or(&[], |bytes| bytes)
    }
}

fn kernels<'a>(
    specs: &[Spec],
    read: impl Fn(&Path) -> &'a [u8],
) -> Result<Vec<Kernel<'a>>, PackFault> {
    let mut kernels = Vec::new();
    for spec in specs {
        let (kernarg, columns) = (spec.kernarg_size, spec.columns);
        match &spec.source {
            Source::Elf { path } => kernels.extend(
                Kernel::of_elf(read(path), kernarg, columns).map_err(|fault| input(path, fault))?,
            ),
            Source::Pdi { name, insts, pdi } => {
                let columns = agreed(columns, None).map_err(|fault| input(insts, fault))?;
                let pdi = pdi.as_ref().map_or(&[][..], |pdi| read(pdi));
                kernels.push(Kernel::of_pdi(name, read(insts), pdi, kernarg, columns));
            }
            Source::Xclbin {
                name,
                insts,
                xclbin,
            } => kernels.push(
                Kernel::of_xclbin(name, read(xclbin), read(insts), kernarg, columns)
                    .map_err(|fault| input(xclbin, fault))?,
            ),
        }
    }
    Ok(kernels)
}

fn input(path: &Path, fault: InputFault) -> PackFault {
    PackFault::Input {
        path: path.to_owned(),
        fault,
    }
}
