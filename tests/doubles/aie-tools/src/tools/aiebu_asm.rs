//! aiebu-asm: control code and PDIs to a full ELF. As the real one, it reports what is wrong with
//! its input and ends with 0 all the same.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::full_elf::{Kernel, full_elf};
use crate::run::{Result, Run, failure};

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
    let json: Value = serde_json::from_str(&text).map_err(|e| format!("{config}: {e}"))?;
    let directory = Path::new(config).parent().unwrap_or(Path::new(""));
    let name = |json: &Value, key: &str| {
        let name = json.get(key).and_then(Value::as_str);
        name.map(str::to_owned)
            .ok_or_else(|| format!("{key} is missing"))
    };
    let read = |json: &Value, key: &str| {
        let name = name(json, key)?;
        fs::read(directory.join(&name)).map_err(|e| format!("{name}: {e}"))
    };
    let items = |json: &Value, key: &str| {
        let items = json.get(key).and_then(Value::as_array);
        items.cloned().unwrap_or_default()
    };
    let mut kernels = Vec::new();
    for kernel in items(&json, "xrt-kernels") {
        let mut pdis = Vec::new();
        for pdi in items(&kernel, "PDIs") {
            let id = pdi.get("id").and_then(Value::as_u64);
            pdis.push((id.ok_or("a PDI has no id")?, read(&pdi, "PDI_file")?));
        }
        let mut instances = Vec::new();
        for instance in items(&kernel, "instance") {
            let code = read(&instance, "TXN_ctrl_code_file")?;
            instances.push((name(&instance, "id")?, code));
        }
        kernels.push(Kernel {
            name: name(&kernel, "name")?,
            arguments: items(&kernel, "arguments").len(),
            pdis,
            instances,
        });
    }
    full_elf(&kernels).map_err(|bad| format!("control code makes no sense at byte {}", bad.offset))
}
