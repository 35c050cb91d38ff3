//! Which tools a request needs, what is missing of them, and what a tool runs in turn.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{AieTools, Searched, ToolName};
use crate::kernel::Level;
use crate::toolchain::{Rejected, Tool};

/// What `aircc` and `aiecc` package a design as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// An xclbin and its instructions.
    Xclbin,
    /// A full ELF.
    Elf,
    /// A PDI and its instructions.
    Pdi,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Xclbin, Self::Elf, Self::Pdi];

    /// `xclbin`, `elf` or `pdi`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xclbin => "xclbin",
            Self::Elf => "elf",
            Self::Pdi => "pdi",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a program runs in turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Companions {
    /// What it finds by `PATH`: under this name this program has to come first.
    pub on_path: Vec<(&'static str, Arc<Tool>)>,
    /// What it finds in an installation that it is told, such as Peano, and what that links in.
    pub of_installation: Vec<Arc<Tool>>,
}

impl Companions {
    /// All of it: what has to be in the key besides the program itself.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        let on_path = self.on_path.iter().map(|(_, tool)| tool);
        on_path.chain(&self.of_installation)
    }
}

/// What packs hsacos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packer<'a> {
    /// The built-in packer.
    Builtin,
    /// An `aie-hsaco`.
    Program(&'a Arc<Tool>),
}

impl AieTools {
    /// The tools that compile a kernel of this level to this format; `has_code` is whether cores have
    /// code to be compiled.
    #[must_use]
    pub fn needed(&self, level: Level, format: Format, has_code: bool) -> Vec<ToolName> {
        let mut needed = match level {
            Level::Linalg => vec![ToolName::AirOpt, ToolName::Aircc],
            Level::Air => vec![ToolName::Aircc],
            Level::Aie => Vec::new(),
        };
        needed.push(ToolName::Aiecc);
        needed.extend(has_code.then_some(ToolName::Peano));
        needed.extend(self.packagers(format));
        needed
    }

    /// The `aircc` that was found and what it lacks to make `format` of a kernel of this level.
    #[must_use]
    pub fn lacks(&self, level: Level, format: Format) -> Option<(&Tool, &'static str)> {
        let aircc = self.aircc.found.as_ref();
        let aircc = aircc.filter(|_| level != Level::Aie)?;
        let lacks = match format {
            Format::Xclbin => return None,
            Format::Elf => "--output-format elf",
            Format::Pdi => "--output-format pdi",
        };
        (!aircc.formats.contains(&format)).then_some((&*aircc.tool, lacks))
    }

    /// Says whether all of these tools are there.
    ///
    /// # Errors
    /// All that are not, each with every place that was looked at.
    pub fn require(&self, tools: &[ToolName]) -> Result<(), MissingTools> {
        let missing: Vec<MissingTool> = tools
            .iter()
            .filter(|name| self.programs(**name).next().is_none())
            .map(|name| {
                let (rejected, configured) = self.rejected(*name);
                MissingTool {
                    name: *name,
                    configured: configured.map(str::to_owned),
                    rejected: rejected.to_vec(),
                }
            })
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(MissingTools { missing })
        }
    }

    /// What `program` runs to make `format`, as far as it was found.
    #[must_use]
    pub fn companions(&self, program: ToolName, format: Format) -> Companions {
        let mut names = match program {
            ToolName::Aircc => vec![ToolName::Aiecc],
            ToolName::AieHsaco => unpackers(format),
            _ => Vec::new(),
        };
        let compiles = matches!(program, ToolName::Aircc | ToolName::Aiecc);
        if compiles {
            names.extend(self.packagers(format));
        }
        let on_path = names.into_iter().filter_map(|name| {
            let tool = self.programs(name).next()?;
            Some((name.name(), Arc::clone(tool)))
        });
        let peano = self.peano.found.as_ref().filter(|_| compiles);
        Companions {
            on_path: on_path.collect(),
            of_installation: peano.map(|peano| peano.tools.clone()).unwrap_or_default(),
        }
    }

    /// What packs `format` into hsacos, by the choice that the search was made with. `has_parts` is
    /// whether a full ELF may have kernels that are parts of others: aie-hsaco packs them as well, and
    /// ROCR refuses them.
    ///
    /// # Errors
    /// If a program was chosen that can't be used.
    pub fn packer(&self, format: Format, has_parts: bool) -> Result<Packer<'_>, MissingTools> {
        let is_chosen = self.aie_hsaco.configured.is_some();
        // Without the programs that it runs it could only fail.
        let is_able =
            !(has_parts && format == Format::Elf) && self.require(&unpackers(format)).is_ok();
        match &self.aie_hsaco.found {
            Some(program) if is_chosen || is_able => Ok(Packer::Program(program)),
            None if is_chosen => Err(self.aie_hsaco.missing()),
            _ => Ok(Packer::Builtin),
        }
    }

    /// What `aiecc` runs to package, if it is not built in.
    fn packagers(&self, format: Format) -> Vec<ToolName> {
        let runs = |name: &ToolName| {
            let aiecc = self.aiecc.found.as_ref();
            aiecc.is_none_or(|aiecc| aiecc.runs.contains(name))
        };
        let packagers = match format {
            Format::Xclbin => vec![ToolName::Bootgen, ToolName::Xclbinutil],
            Format::Elf => vec![ToolName::Bootgen, ToolName::AiebuAsm],
            Format::Pdi => vec![ToolName::Bootgen],
        };
        packagers.into_iter().filter(runs).collect()
    }
}

/// What `aie-hsaco` runs: one program adds the section, and one reads xclbins.
fn unpackers(format: Format) -> Vec<ToolName> {
    match format {
        Format::Xclbin => vec![ToolName::LlvmObjcopy, ToolName::Xclbinutil],
        Format::Elf | Format::Pdi => vec![ToolName::LlvmObjcopy],
    }
}

impl<T> Searched<T> {
    /// What was found.
    ///
    /// # Errors
    /// Every place that was looked at, if nothing was.
    pub fn get(&self) -> Result<&T, MissingTools> {
        self.found.as_ref().ok_or_else(|| self.missing())
    }

    fn missing(&self) -> MissingTools {
        MissingTools {
            missing: vec![MissingTool {
                name: self.name,
                configured: self.configured.clone(),
                rejected: self.rejected.clone(),
            }],
        }
    }
}

/// Tools that a request needs and that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingTools {
    /// Each of them; at least one.
    pub missing: Vec<MissingTool>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingTool {
    /// What was searched for.
    pub name: ToolName,
    /// Where the only place to look in was configured, if it was.
    pub configured: Option<String>,
    /// Every place that was looked at, in order.
    pub rejected: Vec<Rejected>,
}

impl std::error::Error for MissingTools {}

impl fmt::Display for MissingTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, missing) in self.missing.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            missing.fmt(f)?;
        }
        let mut remedies: Vec<&str> = Vec::new();
        for MissingTool {
            name, configured, ..
        } in &self.missing
        {
            if configured.is_none() && !remedies.contains(&name.remedy()) {
                remedies.push(name.remedy());
            }
        }
        for remedy in remedies {
            write!(f, "\ntry: {remedy}")?;
        }
        Ok(())
    }
}

impl fmt::Display for MissingTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match &self.configured {
            Some(origin) => write!(f, "the {name} that {origin} names cannot be used")?,
            None => write!(f, "no usable {name} found")?,
        }
        for rejected in &self.rejected {
            write!(f, "\n  {rejected}")?;
        }
        match &self.configured {
            Some(origin) => write!(
                f,
                "\ntry: correct {origin}, or leave it out to search the usual places"
            ),
            None => Ok(()),
        }
    }
}
