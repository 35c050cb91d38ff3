//! Who would refuse an hsaco, and why.
//!
//! The packer, the dumper and ROCR's loader apply different rules to the same file; here each of
//! them is asked. The loader is asked for each agent, since it takes only that agent's section.

use serde::Serialize;

use super::Arch;
use super::bytes::size_of;
use super::container::Elf64;
use super::judge::{Candidate, Loader};
use super::packers;
use super::rocr_elf::{Unseen, aie_sections};
use super::section::Section;

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
    /// `HSA_STATUS_ERROR`
    #[serde(rename = "0x1000")]
    Error,
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
            Self::Error => 0x1000,
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
    /// Whether the reader takes the file.
    #[must_use]
    pub const fn is_acceptance(&self) -> bool {
        matches!(self.verdict, Verdict::Accepts { .. })
    }

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
pub fn verdicts(bytes: &[u8], agents: &[Agent]) -> Vec<Judgement> {
    let file = Elf64::parse(bytes);
    let file = file.as_ref();
    let packers = [Reader::Packer, Reader::NewestPacker].map(|reader| Judgement {
        reader,
        verdict: packers::verdict(bytes, file, reader),
    });
    let dumper = Judgement {
        reader: Reader::Dumper,
        verdict: file.map_or_else(|fault| refuses(fault.to_string()), dumper),
    };
    let loaders = agents.iter().map(|agent| Judgement {
        reader: Reader::Rocr(*agent),
        verdict: rocr(bytes, *agent),
    });
    packers.into_iter().chain([dumper]).chain(loaders).collect()
}

fn other_loader(reason: &str) -> Verdict {
    Verdict::NotConcerned {
        reason: format!("{reason}, so the file goes to the GPU loader"),
    }
}

pub(super) const fn refuses(reason: String) -> Verdict {
    Verdict::Refuses {
        status: None,
        kernel: None,
        reason,
        remedy: None,
    }
}

pub(super) fn accepts() -> Verdict {
    Verdict::Accepts {
        variables: Vec::new(),
    }
}

pub(super) fn text(name: &[u8]) -> String {
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

/// The section that ROCR takes for an agent, or what it says instead.
fn rocr_section(bytes: &[u8], arch: Arch) -> Result<&[u8], Verdict> {
    let refused = |status, reason| Verdict::Refuses {
        status,
        kernel: None,
        reason,
        remedy: None,
    };
    let sections = aie_sections(bytes).map_err(|unseen| match unseen {
        Unseen::Unreadable => other_loader("its ELF library cannot read it"),
        Unseen::Fatal(what) => {
            let reason = format!("its ELF library ends the process at {what}");
            refused(None, reason)
        }
    })?;
    if sections.is_empty() {
        return Err(other_loader("there is no AIE section"));
    }
    for section in sections {
        match section.name {
            Some(name) if name == arch.name().as_bytes() => return Ok(section.data),
            Some(_) => {}
            None => {
                let reason = "the name of an AIE section is not in the section-name table";
                return Err(refused(Some(Status::Error), reason.into()));
            }
        }
    }
    let reason = format!("the file has no section for {arch}");
    Err(refused(Some(Status::IncompatibleArguments), reason))
}

fn rocr(bytes: &[u8], agent: Agent) -> Verdict {
    let invalid = |kernel, reason, remedy| Verdict::Refuses {
        status: Some(Status::InvalidCodeObject),
        kernel,
        reason,
        remedy,
    };
    let data = match rocr_section(bytes, agent.arch) {
        Ok(data) => data,
        Err(verdict) => return verdict,
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
