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

/// A section, a format and a file.
type Triple = [String; 3];

fn triple(value: &str) -> Result<Triple> {
    let parts: Vec<String> = value.splitn(3, ':').map(str::to_owned).collect();
    parts.try_into().map_err(|_| {
        error(format!(
            "Expected format <section>:<format>:<file> when using adding a section.  Received: {value}."
        ))
    })
}

#[derive(Default)]
struct Asked {
    output: Option<String>,
    add: Vec<Triple>,
    kernels: Vec<String>,
    force: bool,
    quiet: bool,
}

impl Asked {
    fn read(run: &Run) -> Result<Self> {
        let mut asked = Self::default();
        let mut rest = run.arguments.iter();
        while let Some(option) = rest.next() {
            let mut take = || {
                let missing = || {
                    let text = "the required argument for option";
                    error(format!("{text} '{option}' is missing"))
                };
                rest.next().cloned().ok_or_else(missing)
            };
            match option.as_str() {
                "--output" => asked.output = Some(take()?),
                "--add-replace-section" => asked.add.push(triple(&take()?)?),
                "--add-kernel" => asked.kernels.push(take()?),
                "--force" => asked.force = true,
                "--quiet" => asked.quiet = true,
                other => return Err(error(format!("unrecognised option '{other}'"))),
            }
        }
        Ok(asked)
    }
}

/// Runs xclbinutil.
pub fn run(run: &Run) -> Result {
    if run.arguments.iter().any(|a| a == "--version") {
        print("XRT Build Version: 2.26.0\n       Build Branch: master\n");
        return Ok(());
    }
    run.begin()?;
    let asked = Asked::read(run)?;
    if !asked.quiet {
        print("XRT Build Version: 2.26.0\n");
    }
    let existing = asked
        .output
        .as_ref()
        .filter(|output| Path::new(output).exists());
    if let Some(output) = existing.filter(|_| !asked.force) {
        return Err(error(format!(
            "The output file '{output}' already exists.  Use the '--force' option to overwrite it."
        )));
    }
    let mut container = Vec::new();
    for [section, format, file] in &asked.add {
        add(&mut container, section, format, file)?;
    }
    for file in &asked.kernels {
        add_kernels(&mut container, file)?;
    }
    if let Some(output) = &asked.output {
        let order = [
            kind::MEM_TOPOLOGY,
            kind::AIE_PARTITION,
            kind::EMBEDDED_METADATA,
            kind::IP_LAYOUT,
            kind::CONNECTIVITY,
            kind::GROUP_CONNECTIVITY,
            kind::GROUP_TOPOLOGY,
        ];
        container.sort_by_key(|section| order.iter().position(|kind| *kind == section.kind));
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_secs());
        let bytes = axlf(&container, now, random_uuid());
        run.deliver("xclbin", Path::new(output), &bytes);
    }
    Ok(())
}

fn find(container: &[Section], of: u32) -> Option<&[u8]> {
    let found = container.iter().find(|section| section.kind == of);
    found.map(|section| section.data.as_slice())
}

fn put(container: &mut Vec<Section>, of: u32, name: &str, data: Vec<u8>) {
    container.retain(|section| section.kind != of);
    container.push(Section {
        kind: of,
        name: name.to_owned(),
        data,
    });
}

fn read_json(file: &str) -> Result<Value> {
    let text = fs::read_to_string(file);
    let text = text.map_err(|_| error(format!("Unable to open the file for reading: {file}")))?;
    serde_json::from_str(&text).map_err(|_| error(format!("{file}: not JSON")))
}

fn add(container: &mut Vec<Section>, section: &str, format: &str, file: &str) -> Result {
    let json = read_json(file)?;
    let path = Path::new(file);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match (section, format) {
        ("MEM_TOPOLOGY", "JSON") => {
            let data = memories(&json).ok_or_else(|| error(format!("{file}: no mem_topology")))?;
            put(container, kind::MEM_TOPOLOGY, &stem, data.clone());
            put(container, kind::GROUP_TOPOLOGY, "", data);
        }
        ("AIE_PARTITION", "JSON") => {
            let directory = path.parent().unwrap_or(Path::new(""));
            let load = |name: &str| fs::read(directory.join(name)).ok();
            let data = partition(&json, load);
            let wrong = || error(format!("{file}: no AIE partition, or a PDI is missing"));
            put(
                container,
                kind::AIE_PARTITION,
                &stem,
                data.ok_or_else(wrong)?,
            );
        }
        _ => return Err(error(format!("The section '{section}' is not supported"))),
    }
    Ok(())
}

fn memories(json: &Value) -> Option<Vec<u8>> {
    let memories = items(json.get("mem_topology")?, "m_mem_data");
    let mut image = Image::default();
    image.words(&[memories.len() as u32, 0]);
    for memory in memories {
        image.words(&[0x102, 0]);
        image.u64(number(memory.get("m_sizeKB")?)?);
        image.u64(number(memory.get("m_base_address")?)?);
        image.name(memory.get("m_tag")?.as_str()?, 16);
    }
    Some(image.0)
}

const NO_KERNELS: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<project>\n  <platform>\n    <device>\n      <core>\n      </core>\n    </device>\n  </platform>\n</project>\n";

/// Adds kernels: their XML, instances, and which argument is in which memory.
fn add_kernels(container: &mut Vec<Section>, file: &str) -> Result {
    let json = read_json(file)?;
    let xml = find(container, kind::EMBEDDED_METADATA).unwrap_or(NO_KERNELS.as_bytes());
    let mut xml = String::from_utf8_lossy(xml).into_owned();
    let rows = |of: u32, header: usize| {
        let data = find(container, of).and_then(|data| data.get(header..));
        Image(data.unwrap_or_default().to_vec())
    };
    let mut layout = rows(kind::IP_LAYOUT, 8);
    let mut connections = rows(kind::CONNECTIVITY, 4);
    for kernel in json
        .get("ps-kernels")
        .map_or(&[][..], |it| items(it, "kernels"))
    {
        let added = add_kernel(kernel, &mut xml, &mut layout, &mut connections);
        added.ok_or_else(|| error(format!("{file}: a kernel is incomplete")))??;
    }
    let counted = |rows: &[u8], width: usize, header: &[u32]| {
        let mut image = Image::default();
        image.u32((rows.len() / width) as u32);
        image.words(header);
        image.bytes(rows);
        image.0
    };
    let twice = [&connections.0[..], &connections.0].concat();
    put(container, kind::EMBEDDED_METADATA, "", xml.into_bytes());
    put(container, kind::IP_LAYOUT, "", counted(&layout.0, 80, &[0]));
    put(
        container,
        kind::CONNECTIVITY,
        "",
        counted(&connections.0, 12, &[]),
    );
    put(
        container,
        kind::GROUP_CONNECTIVITY,
        "",
        counted(&twice, 12, &[]),
    );
    Ok(())
}

fn add_kernel(
    kernel: &Value,
    xml: &mut String,
    layout: &mut Image,
    connections: &mut Image,
) -> Option<Result> {
    let name = kernel.get("name")?.as_str()?;
    let id = kernel.get("extended-data")?.get("dpu_kernel_id")?;
    let mut element = format!(
        "        <kernel name=\"{name}\" language=\"c\" type=\"dpu\">\n          <extended-data dpu_kernel_id=\"{}\" functional=\"0\" subtype=\"1\"/>\n",
        id.as_str()?
    );
    let index = (layout.len() / 80) as u32;
    for (number, argument) in items(kernel, "arguments").iter().enumerate() {
        let field = |key: &str| argument.get(key).and_then(Value::as_str);
        let memory = field("memory-connection");
        let of = field("type")?;
        let size = if of.contains("32") { "0x4" } else { "0x8" };
        element.push_str(&format!(
            "          <arg name=\"{}\" addressQualifier=\"{}\" id=\"{number}\" size=\"{size}\" offset=\"{}\" hostOffset=\"0x0\" hostSize=\"{size}\" type=\"{of}\"/>\n",
            field("name")?,
            u8::from(memory.is_some()),
            field("offset")?,
        ));
        if let Some(memory) = memory {
            connections.words(&[number as u32, index, u32::from(memory == "SRAM")]);
        }
    }
    for instance in items(kernel, "instances") {
        let instance = instance.get("name")?.as_str()?;
        element.push_str(&format!("          <instance name=\"{instance}\"/>\n"));
        let full = format!("{name}:{instance}");
        if full.len() > 63 {
            return Some(Err(error(format!(
                "The m_name entry length ({}), exceeds the allocated space (64).  Name: '{full}'",
                full.len()
            ))));
        }
        layout.words(&[7, (number(id)? as u32) << 16 | 1]);
        layout.u64(u64::MAX);
        layout.name(&full, 64);
    }
    element.push_str("        </kernel>\n");
    let at = xml.find("      </core>")?;
    xml.insert_str(at, &element);
    Some(Ok(()))
}
