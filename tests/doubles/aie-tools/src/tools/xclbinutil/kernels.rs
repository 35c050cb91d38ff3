//! `--add-kernel`.

use super::{error, put, read_json};
use crate::axlf::{Section, kind};
use crate::bytes::Image;
use crate::json::Json;
use crate::run::Result;

/// Adds kernels: their XML, instances, and which argument is in which memory.
pub fn add_kernels(container: &mut Vec<Section>, file: &str) -> Result {
    let json = read_json(file)?;
    let kernels = json
        .get("ps-kernels")
        .and_then(|k| k.get("kernels"))
        .map(|k| k.items().to_vec());
    let existing = |container: &[Section], of: u32| {
        container
            .iter()
            .find(|s| s.kind == of)
            .map(|s| s.data.clone())
    };
    let mut xml = match existing(container, kind::EMBEDDED_METADATA) {
        Some(xml) => String::from_utf8_lossy(&xml).into_owned(),
        None => "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<project>\n  <platform>\n    <device>\n      <core>\n      </core>\n    </device>\n  </platform>\n</project>\n".to_owned(),
    };
    let rows = |data: Option<Vec<u8>>, header: usize| {
        data.map(|d| d.get(header..).unwrap_or_default().to_vec())
            .unwrap_or_default()
    };
    let mut layout = Image(rows(existing(container, kind::IP_LAYOUT), 8));
    let mut connections = Image(rows(existing(container, kind::CONNECTIVITY), 4));
    for kernel in kernels.unwrap_or_default() {
        let added = add_kernel(&kernel, &mut xml, &mut layout, &mut connections);
        added.ok_or_else(|| error(format!("{file}: a kernel is incomplete")))??;
    }
    let counted = |rows: &Image, width: usize, header: &[u32]| {
        let mut image = Image::default();
        image.u32((rows.len() / width) as u32);
        image.words(header);
        image.bytes(&rows.0);
        image.0
    };
    let twice = Image([connections.0.clone(), connections.0.clone()].concat());
    put(container, kind::EMBEDDED_METADATA, "", xml.into_bytes());
    put(container, kind::IP_LAYOUT, "", counted(&layout, 80, &[0]));
    put(
        container,
        kind::CONNECTIVITY,
        "",
        counted(&connections, 12, &[]),
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
    kernel: &Json,
    xml: &mut String,
    layout: &mut Image,
    connections: &mut Image,
) -> Option<Result> {
    let name = kernel.get("name")?.as_text()?;
    let data = kernel.get("extended-data")?;
    let id = data.get("dpu_kernel_id")?;
    let mut element = format!(
        "        <kernel name=\"{name}\" language=\"c\" type=\"dpu\">\n          <extended-data dpu_kernel_id=\"{}\" functional=\"0\" subtype=\"1\"/>\n",
        id.as_text()?
    );
    let index = (layout.len() / 80) as u32;
    for (number, argument) in kernel.get("arguments")?.items().iter().enumerate() {
        let field = |key: &str| argument.get(key).and_then(Json::as_text);
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
    for instance in kernel.get("instances")?.items() {
        let instance = instance.get("name")?.as_text()?;
        element.push_str(&format!("          <instance name=\"{instance}\"/>\n"));
        let full = format!("{name}:{instance}");
        if full.len() > 63 {
            let length = full.len();
            return Some(Err(error(format!(
                "The m_name entry length ({length}), exceeds the allocated space (64).  Name: '{full}'"
            ))));
        }
        layout.words(&[7, (id.as_number()? as u32) << 16 | 1]);
        layout.u64(u64::MAX);
        layout.name(&full, 64);
    }
    element.push_str("        </kernel>\n");
    let at = xml.find("      </core>")?;
    xml.insert_str(at, &element);
    Some(Ok(()))
}
