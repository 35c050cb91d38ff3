//! Who would refuse an hsaco, and why.
//!
//! The packer, the dumper and ROCR's loader apply different rules to the same file; here each of
//! them is asked. The loader is asked for each agent, since it takes only that agent's section.

use std::collections::HashSet;

use serde::Serialize;

use super::bytes::size_of;
use super::container::{ContainerFault, Elf64};
use super::full_elf;
use super::judge::{Candidate, Loader};
use super::section::{Section, SectionKernel};
use super::{Arch, KernelKind};

pub use super::judge::{Agent, Refusal, Variable};

/// Whose verdict it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reader", rename_all = "kebab-case")]
pub enum Reader {
    /// aie-hsaco of mid 2026, if it were given these kernels.
    Packer,
    /// The newest aie-hsaco, which checks columns, too.
    NewestPacker,
    /// aie-hsaco-dump.
    Dumper,
    /// ROCR's loader on an agent.
    Rocr(Agent),
}

/// What `hsa_executable_load_agent_code_object` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Status {
    /// `HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS`
    #[serde(rename = "0x100D")]
    IncompatibleArguments,
    /// `HSA_STATUS_ERROR_INVALID_CODE_OBJECT`
    #[serde(rename = "0x1010")]
    InvalidCodeObject,
}

impl Status {
    /// Its number.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::IncompatibleArguments => 0x100d,
            Self::InvalidCodeObject => 0x1010,
        }
    }
}

/// What a reader makes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// It takes it.
    Accepts {
        /// What the application must define before it loads the file.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        variables: Vec<Variable>,
    },
    /// It does not.
    Refuses {
        /// ROCR's status.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<Status>,
        /// Which kernel is the reason, if one is.
        #[serde(skip_serializing_if = "Option::is_none")]
        kernel: Option<String>,
        /// Why.
        reason: String,
        /// What to do about it, if that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        remedy: Option<&'static str>,
    },
    /// The file is none of its: ROCR passes it to the GPU loader, a packer was given no kernels.
    NotConcerned {
        /// Why.
        reason: String,
    },
}

/// A verdict and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// Who judges.
    #[serde(flatten)]
    pub reader: Reader,
    /// What it says.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Judgement {
    /// Whether the reader refuses the file.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self.verdict, Verdict::Refuses { .. })
    }
}

impl std::fmt::Display for Judgement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.reader {
            Reader::Packer => write!(f, "aie-hsaco of mid 2026"),
            Reader::NewestPacker => write!(f, "the newest aie-hsaco"),
            Reader::Dumper => write!(f, "aie-hsaco-dump"),
            Reader::Rocr(agent) => {
                write!(f, "ROCR on {} with {} columns", agent.arch, agent.columns)
            }
        }?;
        match &self.verdict {
            Verdict::Accepts { variables } => {
                write!(f, " accepts it")?;
                for (index, variable) in variables.iter().enumerate() {
                    let before = if index == 0 {
                        " if the application defines"
                    } else {
                        ","
                    };
                    write!(f, "{before} {} ({} bytes)", variable.name, variable.size)?;
                }
                Ok(())
            }
            Verdict::NotConcerned { reason } => write!(f, " does not take it: {reason}"),
            Verdict::Refuses {
                status,
                kernel,
                reason,
                remedy,
            } => {
                write!(f, " refuses it")?;
                if let Some(status) = status {
                    write!(f, " ({:#06x})", status.code())?;
                }
                match kernel {
                    Some(kernel) => write!(f, ": kernel '{kernel}' {reason}")?,
                    None => write!(f, ": {reason}")?,
                }
                remedy.map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
            }
        }
    }
}

/// Asks every reader, and ROCR for each of `agents`.
#[must_use]
pub fn verdicts(file: Result<&Elf64<'_>, &ContainerFault>, agents: &[Agent]) -> Vec<Judgement> {
    let packers = [Reader::Packer, Reader::NewestPacker].map(|reader| Judgement {
        reader,
        verdict: file.map_or_else(|_| no_kernels(), |elf| packer(elf, reader)),
    });
    let dumper = Judgement {
        reader: Reader::Dumper,
        verdict: file.map_or_else(|fault| refuses(fault.to_string()), dumper),
    };
    let loaders = agents.iter().map(|agent| Judgement {
        reader: Reader::Rocr(*agent),
        verdict: file.map_or_else(|_| other_loader(), |elf| rocr(elf, *agent)),
    });
    packers.into_iter().chain([dumper]).chain(loaders).collect()
}

fn no_kernels() -> Verdict {
    Verdict::NotConcerned {
        reason: "there are no kernels that it could have been given".into(),
    }
}

fn other_loader() -> Verdict {
    Verdict::NotConcerned {
        reason: "the file has no AIE section, so it goes to the GPU loader".into(),
    }
}

const fn refuses(reason: String) -> Verdict {
    Verdict::Refuses {
        status: None,
        kernel: None,
        reason,
        remedy: None,
    }
}

fn accepts() -> Verdict {
    Verdict::Accepts {
        variables: Vec::new(),
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn dumper(elf: &Elf64<'_>) -> Verdict {
    let mut is_any = false;
    for arch in Arch::ALL {
        let data = match elf.section(arch) {
            Ok(Some(data)) => data,
            Ok(None) => continue,
            Err(fault) => return refuses(fault.to_string()),
        };
        is_any = true;
        if let Err(fault) = Section::parse(data).and_then(|section| section.check_as_dumper()) {
            return refuses(format!("{arch}: {fault}"));
        }
    }
    if is_any {
        accepts()
    } else {
        refuses("no aie2/aie2p section found".into())
    }
}

/// What a packer would say to the kernels that are in the file.
fn packer(elf: &Elf64<'_>, reader: Reader) -> Verdict {
    let sections = Arch::ALL.iter().filter_map(|arch| elf.section(*arch).ok()?);
    let mut is_any = false;
    for data in sections {
        let Ok(kernels) = Section::parse(data).and_then(|section| section.check_as_dumper()) else {
            continue;
        };
        is_any |= !kernels.is_empty();
        let mut seen = HashSet::new();
        if let Some(kernel) = kernels.iter().find(|kernel| !seen.insert(kernel.name)) {
            return refuses(format!("duplicate kernel name(s): {}", text(kernel.name)));
        }
        if reader == Reader::NewestPacker
            && let Some((kernel, reason)) = newest_packer(&kernels, size_of(data))
        {
            return Verdict::Refuses {
                status: None,
                kernel: Some(kernel),
                reason,
                remedy: None,
            };
        }
    }
    if is_any { accepts() } else { no_kernels() }
}

fn newest_packer(kernels: &[SectionKernel<'_>], size: u64) -> Option<(String, String)> {
    let mut read = HashSet::new();
    let mut budget = size;
    for kernel in kernels {
        let name = || text(kernel.name);
        if kernel.entry.columns == 0 {
            return Some((name(), "has num_cols 0".into()));
        }
        // All kernels of one full ELF have the same columns, or only the first agrees with it.
        let key = (
            kernel.insts.as_ptr(),
            kernel.insts.len(),
            kernel.entry.columns,
        );
        if kernel.kind != KernelKind::FullElf || !read.insert(key) {
            continue;
        }
        // As in ROCR's verdict, only code that lies over itself can be more than there is.
        budget = match budget.checked_sub(size_of(kernel.insts)) {
            Some(budget) => budget,
            None => return Some((name(), "sections overlap".into())),
        };
        match full_elf::outline(kernel.insts) {
            Err(fault) => return Some((name(), fault.to_string())),
            Ok(outline) if !outline.is_comdat => {
                return Some((name(), "group is not a COMDAT group".into()));
            }
            Ok(outline) => {
                if let Some(recorded) = outline.columns
                    && recorded != kernel.entry.columns
                {
                    let given = kernel.entry.columns;
                    return Some((
                        name(),
                        format!("declares {given} columns; its full ELF records {recorded}"),
                    ));
                }
            }
        }
    }
    None
}

fn rocr(elf: &Elf64<'_>, agent: Agent) -> Verdict {
    if elf.aie_section(None).is_none() {
        return other_loader();
    }
    let invalid = |kernel, reason, remedy| Verdict::Refuses {
        status: Some(Status::InvalidCodeObject),
        kernel,
        reason,
        remedy,
    };
    let Some(data) = elf.aie_section(Some(agent.arch)) else {
        return Verdict::Refuses {
            status: Some(Status::IncompatibleArguments),
            kernel: None,
            reason: format!("the file has no section for {}", agent.arch),
            remedy: None,
        };
    };
    let mut kernels = match Section::parse(data).and_then(|section| section.check()) {
        Ok(kernels) => kernels,
        Err(fault) => return invalid(None, fault.to_string(), None),
    };
    // The loader goes through them by name.
    kernels.sort_by_key(|kernel| kernel.name);
    let mut loader = Loader::new(agent, size_of(data));
    let mut variables = Vec::new();
    for kernel in kernels {
        let candidate = Candidate {
            name: kernel.name,
            kind: kernel.kind,
            insts: kernel.insts,
            pdi: kernel.pdi,
            kernarg_size: kernel.entry.kernarg_size,
            columns: kernel.entry.columns,
        };
        match loader.judge(&candidate) {
            Ok(needed) => variables.extend(needed),
            Err(refusal) => {
                let remedy = refusal.remedy();
                return invalid(Some(text(kernel.name)), refusal.to_string(), remedy);
            }
        }
    }
    variables.sort_by(|one, other| one.name.cmp(&other.name));
    variables.dedup();
    Verdict::Accepts { variables }
}
