//! The EMBEDDED_METADATA of an xclbin: XML, of which the kernels and their arguments are read.

use super::xclbin::XclbinFault;

/// A kernel of an xclbin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataKernel {
    /// Its name.
    pub name: String,
    /// Its type; an NPU's is `dpu`.
    pub kind: String,
    /// What a launch passes, in order: opcode, instructions, their number, then buffers.
    pub arguments: Vec<MetadataArgument>,
    /// The names of its instances.
    pub instances: Vec<String>,
}

/// An argument of such a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataArgument {
    /// Its name.
    pub name: String,
    /// Byte offset among the arguments.
    pub offset: u32,
}

/// Reads the kernels.
pub fn kernels(xml: &[u8]) -> Result<Vec<MetadataKernel>, XclbinFault> {
    let text = std::str::from_utf8(xml).map_err(|_| XclbinFault::Metadata("it is not UTF-8"))?;
    let mut kernels: Vec<MetadataKernel> = Vec::new();
    let mut is_inside = false;
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('<') {
        if let Some(comment) = after.strip_prefix("!--") {
            let end = comment.split_once("-->");
            rest = end
                .ok_or(XclbinFault::Metadata("a comment does not end"))?
                .1;
            continue;
        }
        let (tag, after) = tag(after).ok_or(XclbinFault::Metadata("a tag does not end"))?;
        rest = after;
        let (element, attributes) = tag.split_once([' ', '\t', '\n', '\r']).unwrap_or((tag, ""));
        match element.trim_end_matches('/') {
            "kernel" => {
                kernels.push(MetadataKernel {
                    name: attribute(attributes, "name")
                        .ok_or(XclbinFault::Metadata("a kernel has no name"))?,
                    kind: attribute(attributes, "type").unwrap_or_default(),
                    arguments: Vec::new(),
                    instances: Vec::new(),
                });
                is_inside = !tag.ends_with('/');
            }
            "arg" if is_inside => {
                let offset = attribute(attributes, "offset").and_then(|text| number(&text));
                let argument = MetadataArgument {
                    name: attribute(attributes, "name")
                        .ok_or(XclbinFault::Metadata("an argument has no name"))?,
                    offset: offset.ok_or(XclbinFault::Metadata("an argument has no offset"))?,
                };
                if let Some(kernel) = kernels.last_mut() {
                    kernel.arguments.push(argument);
                }
            }
            "instance" if is_inside => {
                let name = attribute(attributes, "name")
                    .ok_or(XclbinFault::Metadata("an instance has no name"))?;
                if let Some(kernel) = kernels.last_mut() {
                    kernel.instances.push(name);
                }
            }
            "/kernel" => is_inside = false,
            _ => {}
        }
    }
    Ok(kernels)
}

/// Splits what stands behind a `<` at the `>` that ends the tag; one in quotes does not.
fn tag(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (index, byte) in text.bytes().enumerate() {
        match quote {
            Some(open) if open == byte => quote = None,
            Some(_) => {}
            None if byte == b'"' || byte == b'\'' => quote = Some(byte),
            None if byte == b'>' => return Some((text.get(..index)?, text.get(index + 1..)?)),
            None => {}
        }
    }
    None
}

/// The value of an attribute.
fn attribute(attributes: &str, wanted: &str) -> Option<String> {
    let mut rest = attributes;
    loop {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let quote = after
            .chars()
            .next()
            .filter(|quote| matches!(quote, '"' | '\''))?;
        let (value, after) = after.get(1..)?.split_once(quote)?;
        if name.trim() == wanted {
            return Some(unescaped(value));
        }
        rest = after;
    }
}

fn unescaped(value: &str) -> String {
    let mut text = value.to_owned();
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ] {
        if text.contains(entity) {
            text = text.replace(entity, character);
        }
    }
    text
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
