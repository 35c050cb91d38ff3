//! That each core runs what the MLIR says: its code, or the ELF that it names.
//!
//! Up to 1.4.0 aiecc compiles all cores or none, and says nothing of what is lost by it: an ELF in
//! whose place it compiles an empty body, or code that it leaves out.

use super::compile::{Request, option};
use super::{IN_INTERMEDIATES, Refusal};
use crate::kernel::{Level, Module};
use crate::toolchain::{AieTools, Dialect};

/// Where ELFs that cores name are looked for: the first dialect has aie-rt look in its directory for
/// intermediates, later ones take the current one.
#[must_use]
pub fn core_elf_directory(tools: &AieTools) -> &'static str {
    match &tools.aiecc.found {
        Some(aiecc) if aiecc.dialect == Dialect::Generate => IN_INTERMEDIATES,
        _ => "",
    }
}

/// Whether there is code of cores to be compiled: above the AIE level there always is.
pub(super) fn have_code(module: &Module) -> bool {
    module.level != Level::Aie || module.core_code.is_some()
}

/// TargetOptions of aiecc that leave cores as they are.
pub(super) const UNCOMPILED: [&str; 2] = ["no-compile", "no-link"];

/// Sees to it that each core runs what the MLIR says: its code, or the ELF that it names.
pub(super) fn check(request: &Request<'_>) -> Result<(), Refusal> {
    let module = request.module;
    if let Some(line) = module.core_code {
        let given = UNCOMPILED.into_iter().find(|option| gives(request, option));
        if let Some(option) = given {
            return Err(Refusal::Uncompiled { option, line });
        }
    }
    let Some(elf) = module.core_elfs.first() else {
        return Ok(());
    };
    if module.level != Level::Aie {
        return Err(Refusal::CoreElfAboveAie(elf.clone()));
    }
    match (module.core_code, &request.tools.aiecc.found) {
        (Some(line), Some(aiecc)) if aiecc.dialect == Dialect::Generate => {
            Err(Refusal::SomeCoreElfs {
                aiecc: aiecc.tool.path.display().to_string(),
                line,
                elf: elf.clone(),
            })
        }
        _ => Ok(()),
    }
}

/// Whether the user gives that option.
pub(super) fn gives(request: &Request<'_>, name: &str) -> bool {
    let mut given = request.extra.iter().filter_map(|argument| option(argument));
    given.any(|(given, _)| given == name)
}
