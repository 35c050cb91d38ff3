//! xclbinutil: as much of it as aiecc uses.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::axlf::{Section, axlf, items, kind, number, partition};
use crate::bytes::Image;
use crate::run::{Result, Run, failure, random_uuid};
use crate::tools::print;

fn error(text: impl AsRef<str>) -> crate::run::Exit {
    failure(format!("ERROR: {}", text.as_ref()))
}

/// The order of the sections in the file.
const ORDER: [u32; 7] = [
    kind::MEM_TOPOLOGY,
    kind::AIE_PARTITION,
    kind::EMBEDDED_METADATA,
    kind::IP_LAYOUT,
    kind::CONNECTIVITY,
    kind::GROUP_CONNECTIVITY,
    kind::GROUP_TOPOLOGY,
];

/// Runs xclbinutil.
pub fn run(run: &Run) -> Result {
    if run.asks("version") {
        print("XRT Build Version: 2.26.0\n       Build Branch: master\n");
        return Ok(());
    }
    run.begin()?;
    let (mut sections, mut output, mut force) = (Vec::new(), None, false);
    let mut rest = run.arguments.iter();
    while let Some(option) = rest.next() {
        if let "--force" | "--quiet" = option.as_str() {
            force |= option == "--force";
            continue;
        }
        let missing = || {
            error(format!(
                "the required argument for option '{option}' is missing"
            ))
        };
        let value = rest.next().ok_or_else(missing)?;
        let parts: Vec<&str> = value.splitn(3, ':').collect();
        match (option.as_str(), parts.as_slice()) {
            ("--output", _) => output = Some(value),
            ("--add-replace-section", ["MEM_TOPOLOGY", "JSON", file]) => {
                memories(&mut sections, file)
            }
            ("--add-replace-section", ["AIE_PARTITION", "JSON", file]) => {
                let directory = Path::new(file).parent().unwrap_or(Path::new(""));
                let data = partition(&read_json(file)?, |name| {
                    fs::read(directory.join(name)).ok()
                });
                let wrong = || error(format!("{file}: no AIE partition, or a PDI is missing"));
                put(
                    &mut sections,
                    kind::AIE_PARTITION,
                    file,
                    data.ok_or_else(wrong)?,
                );
            }
            ("--add-kernel", _) => add_kernels(&mut sections, value)?,
            _ => return Err(error(format!("unrecognised option '{option} {value}'"))),
        }
    }
    let Some(output) = output else { return Ok(()) };
    if !force && Path::new(output).exists() {
        return Err(error(format!(
            "The output file '{output}' already exists.  Use the '--force' option to overwrite it."
        )));
    }
    sections.sort_by_key(|section| ORDER.iter().position(|kind| *kind == section.kind));
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    run.deliver(
        "xclbin",
        Path::new(output),
        &axlf(&sections, now, random_uuid()),
    );
    Ok(())
}

/// A section is named as the file that it is made of.
fn put(sections: &mut Vec<Section>, kind: u32, file: &str, data: Vec<u8>) {
    let name = Path::new(file).file_stem().unwrap_or_default();
    sections.push(Section {
        kind,
        name: name.to_string_lossy().into_owned(),
        data,
    });
}

fn read_json(file: &str) -> Result<Value> {
    let text = fs::read_to_string(file);
    let text = text.map_err(|_| error(format!("Unable to open the file for reading: {file}")))?;
    serde_json::from_str(&text).map_err(|_| error(format!("{file}: not JSON")))
}

/// The memories are the same for all NPUs: size in KB and name.
fn memories(sections: &mut Vec<Section>, file: &str) {
    let mut image = Image::default();
    image.words(&[2, 0]);
    for (size, name) in [(0x10000, "HOST"), (0xc000, "SRAM")] {
        image.words(&[0x102, 0]);
        image.u64(size);
        image.u64(0x400_0000);
        image.name(name, 16);
    }
    put(sections, kind::MEM_TOPOLOGY, file, image.0.clone());
    put(sections, kind::GROUP_TOPOLOGY, "", image.0);
}

/// The one kernel's XML, instances, and which argument is in which memory.
fn add_kernels(sections: &mut Vec<Section>, file: &str) -> Result {
    let json = read_json(file)?;
    let kernel = json
        .get("ps-kernels")
        .and_then(|it| items(it, "kernels").first());
    let made = kernel.and_then(metadata);
    let (xml, name, id, connections) =
        made.ok_or_else(|| error(format!("{file}: a kernel is incomplete")))?;
    if name.len() > 63 {
        return Err(error(format!(
            "The m_name entry length ({}), exceeds the allocated space (64).  Name: '{name}'",
            name.len()
        )));
    }
    put(sections, kind::EMBEDDED_METADATA, "", xml.into_bytes());
    let mut layout = Image::default();
    layout.words(&[1, 0, 7, id << 16 | 1]);
    layout.u64(u64::MAX);
    layout.name(&name, 64);
    put(sections, kind::IP_LAYOUT, "", layout.0);
    for (kind, times) in [(kind::CONNECTIVITY, 1), (kind::GROUP_CONNECTIVITY, 2)] {
        let mut image = Image::default();
        image.u32((connections.len() / 3 * times) as u32);
        image.words(&connections.repeat(times));
        put(sections, kind, "", image.0);
    }
    Ok(())
}

/// The XML, `kernel:instance`, the kernel's number, and for each buffer argument, instance, memory.
fn metadata(kernel: &Value) -> Option<(String, String, u32, Vec<u32>)> {
    let name = kernel.get("name")?.as_str()?;
    let id = kernel.get("extended-data")?.get("dpu_kernel_id")?;
    let mut connections = Vec::new();
    let mut arguments = String::new();
    for (number, argument) in items(kernel, "arguments").iter().enumerate() {
        let field = |key: &str| argument.get(key).and_then(Value::as_str);
        let memory = field("memory-connection");
        let of = field("type")?;
        let size = if of.contains("32") { "0x4" } else { "0x8" };
        arguments.push_str(&format!(
            "          <arg name=\"{}\" addressQualifier=\"{}\" id=\"{number}\" size=\"{size}\" offset=\"{}\" hostOffset=\"0x0\" hostSize=\"{size}\" type=\"{of}\"/>\n",
            field("name")?,
            u8::from(memory.is_some()),
            field("offset")?,
        ));
        if let Some(memory) = memory {
            connections.extend([number as u32, 0, u32::from(memory == "SRAM")]);
        }
    }
    let instance = items(kernel, "instances").first()?.get("name")?.as_str()?;
    let xml = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<project>\n  <platform>\n    <device>\n      <core>\n        <kernel name=\"{name}\" language=\"c\" type=\"dpu\">\n          <extended-data dpu_kernel_id=\"{}\" functional=\"0\" subtype=\"1\"/>\n{arguments}          <instance name=\"{instance}\"/>\n        </kernel>\n      </core>\n    </device>\n  </platform>\n</project>\n",
        id.as_str()?
    );
    let id = number(id)? as u32;
    Some((xml, format!("{name}:{instance}"), id, connections))
}
