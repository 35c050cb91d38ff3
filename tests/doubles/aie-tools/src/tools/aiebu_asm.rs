//! aiebu-asm: control code and PDIs to a full ELF. As the real one, it reports what is wrong with
//! its input and ends with 0 all the same.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::full_elf::{Kernel, full_elf};
use crate::json::Json;
use crate::run::{Result, Run, failure};

/// Runs aiebu-asm.
///
/// # Errors
/// A bad command line.
pub fn run(run: &Run) -> Result {
    run.begin()?;
    let (mut target, mut config, mut output) = (None, None, None);
    let mut rest = run.arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "-t" | "--target" => target = rest.next(),
            "-j" | "--json" => config = rest.next(),
            "-o" | "--outputelf" => output = rest.next(),
            "--version" | "-v" => {
                super::print("aiebu-asm 2.26.0\n");
                return Ok(());
            }
            other => return Err(failure(format!("Option '{other}' does not exist"))),
        }
    }
    if target.is_none_or(|target| target != "aie2_config") {
        return Err(failure(
            "Error: only the target aie2_config is supported here",
        ));
    }
    let (Some(config), Some(output)) = (config, output) else {
        return Err(failure("Error: no configuration or output given"));
    };
    match assemble(config) {
        Ok(elf) => run.deliver("elf", Path::new(output), &elf),
        Err(what) => {
            let _ = writeln!(std::io::stderr(), "Error: {what}");
        }
    }
    Ok(())
}

fn assemble(config: &str) -> std::result::Result<Vec<u8>, String> {
    let text = fs::read_to_string(config).map_err(|e| format!("{config}: {e}"))?;
    let json = Json::parse(&text).ok_or_else(|| format!("{config}: not JSON"))?;
    let directory = Path::new(config).parent().unwrap_or(Path::new(""));
    let read = |json: Option<&Json>| {
        let name = json
            .and_then(Json::as_text)
            .ok_or("a file name is missing")?;
        fs::read(directory.join(name)).map_err(|e| format!("{name}: {e}"))
    };
    let items = |json: &Json, key: &str| {
        json.get(key)
            .map(|v| v.items().to_vec())
            .unwrap_or_default()
    };
    let mut kernels = Vec::new();
    for kernel in items(&json, "xrt-kernels") {
        let name = kernel
            .get("name")
            .and_then(Json::as_text)
            .ok_or("a kernel has no name")?;
        let mut pdis = Vec::new();
        for pdi in items(&kernel, "PDIs") {
            let id = pdi
                .get("id")
                .and_then(Json::as_number)
                .ok_or("a PDI has no id")?;
            pdis.push((id, read(pdi.get("PDI_file"))?));
        }
        let mut instances = Vec::new();
        for instance in items(&kernel, "instance") {
            let id = instance
                .get("id")
                .and_then(Json::as_text)
                .ok_or("an instance has no id")?;
            instances.push((id.to_owned(), read(instance.get("TXN_ctrl_code_file"))?));
        }
        kernels.push(Kernel {
            name: name.to_owned(),
            arguments: items(&kernel, "arguments").len(),
            pdis,
            instances,
        });
    }
    full_elf(&kernels).map_err(|bad| format!("control code makes no sense at byte {}", bad.offset))
}
