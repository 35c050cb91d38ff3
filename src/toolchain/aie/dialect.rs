//! Which command line an `aiecc` takes: three dialects are in the field; and which formats an `aircc`
//! asks it for.
//!
//! One release accepts unknown options silently and another refuses what earlier ones needed, so
//! the dialect is not tried out but read from `--help`, once per fingerprint.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Format, ToolName};
use crate::toolchain::examine::start_of;
use crate::toolchain::{Reason, Tool};

/// A generation of `aiecc`'s command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Dialect {
    /// Before 1.4.0: `--aie-generate-xclbin`, `--generate-full-elf`; compiles cores with chess
    /// unless told `--no-xchesscc --no-xbridge`; accepts unknown options silently.
    #[serde(rename = "1")]
    Generate,
    /// From 1.4.0: `--get-xclbin`, `--get-full-elf`; still compiles cores with chess unless told
    /// `--no-xchesscc`.
    #[serde(rename = "2")]
    Get,
    /// From August 2026: `--get-…`; Peano is the default, and `--no-xchesscc` is refused.
    #[serde(rename = "3")]
    GetPeano,
}

impl Dialect {
    /// Its number: 1, 2 or 3.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Generate => 1,
            Self::Get => 2,
            Self::GetPeano => 3,
        }
    }
}

/// An `aiecc`, and how to speak to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aiecc {
    /// The program.
    pub tool: Arc<Tool>,
    /// Which command line it takes.
    pub dialect: Dialect,
    /// Those of [`AIECC_OPTIONS`] that its `--help` lists, sorted.
    options: Vec<String>,
    /// What it may run to package: releases link some of them in instead.
    pub(super) runs: Vec<ToolName>,
}

/// The options that not every release has.
pub const AIECC_OPTIONS: [&str; 14] = [
    "bf16-emulation",
    "default-stack-size",
    "expand-load-pdis",
    "get",
    "no-compile",
    "no-compile-host",
    "no-link",
    "no-progress",
    "no-unified",
    "no-xbridge",
    "no-xchesscc",
    "output-dir",
    "progress",
    "xclbinutil-path",
];

/// What `aiecc` may run to package.
pub(super) const PACKAGERS: [ToolName; 3] =
    [ToolName::Bootgen, ToolName::Xclbinutil, ToolName::AiebuAsm];

impl Aiecc {
    /// Whether its `--help` lists an option of [`AIECC_OPTIONS`], given without hyphens.
    #[must_use]
    pub fn accepts(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    /// An `aiecc` of which this was learnt.
    pub(super) fn from_learnt(tool: Arc<Tool>, learnt: &str, runs: &str) -> Option<Self> {
        let mut words = learnt.split(' ');
        let dialect = match words.next()? {
            "1" => Dialect::Generate,
            "2" => Dialect::Get,
            "3" => Dialect::GetPeano,
            _ => return None,
        };
        let options = words.map(str::to_owned).collect();
        let runs: Vec<ToolName> = PACKAGERS
            .into_iter()
            .filter(|packager| runs.split(' ').any(|name| name == packager.name()))
            .collect();
        Some(Self {
            tool,
            dialect,
            options,
            runs,
        })
    }
}

/// An `aircc`, and what it can make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aircc {
    /// The program.
    pub tool: Arc<Tool>,
    /// What it packages designs as: `--output-format`.
    pub formats: Vec<Format>,
}

impl Aircc {
    /// An `aircc` of which this was learnt.
    pub(super) fn from_learnt(tool: Arc<Tool>, learnt: &str) -> Self {
        let known = |format: &Format| learnt.split(' ').any(|name| name == format.name());
        let formats = Format::ALL.into_iter().filter(known).collect();
        Self { tool, formats }
    }
}

/// What is to be remembered of an `aircc`'s help text: the formats for whose file it has an option.
/// One that lists no options is taken for one that has them all.
pub(super) fn learn_formats(help: &str) -> String {
    let listed = listed(help);
    let has = |format: &Format| match format {
        Format::Xclbin => true,
        Format::Elf => listed.contains(&"elf-name"),
        Format::Pdi => listed.contains(&"pdi-name"),
    };
    let formats = Format::ALL.into_iter();
    let formats = formats.filter(|format| listed.is_empty() || has(format));
    formats.map(Format::name).collect::<Vec<_>>().join(" ")
}

/// The options that a help text lists, sorted.
fn listed(help: &str) -> Vec<&str> {
    let mut listed: Vec<&str> = help.lines().filter_map(option).collect();
    listed.sort_unstable();
    listed.dedup();
    listed
}

/// What is to be remembered of a help text: the dialect's number, and the options that matter.
pub(super) fn learn(program: &Path, help: &str) -> Result<String, Reason> {
    let listed = listed(help);
    let has = |option: &str| listed.binary_search(&option).is_ok();
    let any = |prefix: &str| listed.iter().any(|option| option.starts_with(prefix));
    // `--get-xclbin` is short for `--get=xclbin` and is mostly not listed itself.
    let dialect = if has("get") || any("get-") {
        if has("no-xchesscc") { "2" } else { "3" }
    } else if any("aie-generate-") {
        "1"
    } else {
        return Err(Reason::UnknownDialect {
            program: program.to_owned(),
            output: start_of(help.trim_start()),
        });
    };
    let options = AIECC_OPTIONS.into_iter().filter(|option| has(option));
    let learnt: Vec<&str> = std::iter::once(dialect).chain(options).collect();
    Ok(learnt.join(" "))
}

/// The option that a line of a help text explains, without hyphens: LLVM writes
/// `  --peano=<string>   - Peano install dir`, Python `  -v, --verbose  …` or `  --peano DIR`.
fn option(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if !line.starts_with('-') {
        return None;
    }
    let words = line.split_ascii_whitespace();
    let mut options = words.take_while(|word| word.starts_with('-') && *word != "-");
    // Of several spellings the last is the long one.
    let first = options.next()?;
    let long = options.filter(|word| word.starts_with("--")).last();
    let name = long.unwrap_or(first).trim_start_matches('-');
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
    name.get(..end.unwrap_or(name.len()))
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(help: &str) -> String {
        learn(Path::new("/aiecc"), help).unwrap()
    }

    #[test]
    fn options_are_read_as_llvm_and_python_list_them() {
        for (line, expected) in [
            ("  --peano=<string>   - Peano install dir", Some("peano")),
            ("  -O=<uint>     - Optimization level", Some("O")),
            ("  -v            - Alias for --verbose", Some("v")),
            ("  -v, --verbose  Trace commands", Some("verbose")),
            ("  --peano PEANO_INSTALL_DIR", Some("peano")),
            ("    =sa_placer  -   Simulated annealing", None),
            ("  -", None),
            ("USAGE: aiecc [options] --get", None),
        ] {
            assert_eq!(option(line), expected, "{line}");
        }
    }

    /// What the tools of April and May 2026 print.
    const AIECC: &str = include_str!("../../../tests/data/aie/help/aiecc.txt");
    const AIRCC: &str = include_str!("../../../tests/data/aie/help/aircc.txt");

    #[test]
    fn real_tools_are_understood() {
        assert_eq!(
            learnt(AIECC),
            "1 bf16-emulation expand-load-pdis no-compile no-compile-host no-link no-unified \
             no-xbridge no-xchesscc progress"
        );
        assert_eq!(learn_formats(AIRCC), "xclbin elf");
    }

    #[test]
    fn formats_are_those_whose_files_can_be_named() {
        let newer = format!("{AIRCC}  --pdi-name=<string>  - Output filename for PDI\n");
        assert_eq!(learn_formats(&newer), "xclbin elf pdi");
        assert_eq!(learn_formats("usage: aircc …\n"), "xclbin elf pdi");
    }

    #[test]
    fn a_mention_in_a_description_is_no_option() {
        let help = "  --get=<name>  - Request outputs (e.g. --get-xclbin)\n  --xchesscc - negates --no-xchesscc\n";
        assert_eq!(learnt(help), "3 get");
    }

    #[test]
    fn another_program_is_refused_by_name() {
        let error = learn(Path::new("/bin/cc"), "OVERVIEW: a compiler\n  --version\n").unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("/bin/cc") && text.contains("OVERVIEW"),
            "{text}"
        );
        learn(Path::new("/bin/cc"), "").unwrap_err();
    }
}
