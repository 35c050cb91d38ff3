//! aie-hsaco-dump: what is in a file, arch by arch.

use std::fs;

use super::container::{elf_section, kernels};
use crate::run::{Exit, Result, Run};

fn error(text: impl AsRef<str>) -> Exit {
    Exit {
        code: 1,
        text: format!("aie-hsaco-dump: error: {}", text.as_ref()),
    }
}

/// Runs aie-hsaco-dump.
///
/// # Errors
/// A bad command line, or a file that holds no AIE section.
pub fn run(run: &Run) -> Result {
    run.begin()?;
    let file = match run.arguments.as_slice() {
        [option, file] if option == "--hsaco" => file.clone(),
        [one] if one.starts_with("--hsaco=") => one.get(8..).unwrap_or("").to_owned(),
        _ => return Err(error("usage: aie-hsaco-dump --hsaco FILE")),
    };
    let bytes = fs::read(&file).map_err(|e| error(format!("cannot read {file}: {e}")))?;
    let mut found = false;
    for arch in ["aie2", "aie2p"] {
        let Some(section) = elf_section(&bytes, arch) else {
            continue;
        };
        found = true;
        let kernels = kernels(&section).map_err(|what| error(format!("{arch}: {what}")))?;
        super::super::print(&format!("arch section: {arch}\nversion: 1.0\n"));
        for kernel in kernels {
            let kind = if kernel.kind == 0 {
                "PdiInsts"
            } else {
                "FullElf"
            };
            let pdi = if kernel.pdi.is_empty() { "no" } else { "yes" };
            super::super::print(&format!(
                "  kernel {}: kind={kind} insts={}B pdi={pdi} kernarg={} cols={}\n",
                kernel.name,
                kernel.insts.len(),
                kernel.kernarg,
                kernel.columns
            ));
        }
    }
    if found {
        Ok(())
    } else {
        Err(error(format!("{file} has no AIE section")))
    }
}
