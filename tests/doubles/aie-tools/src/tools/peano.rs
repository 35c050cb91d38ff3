//! Peano's opt, llc, clang and ld.lld. An identity of dialect 2 is no Peano but the host's LLVM: it
//! lists no AIE target and does not know Peano's types.

use std::fs;
use std::path::Path;

use crate::bytes::Image;
use crate::md5;
use crate::run::{Result, Run, failure};

const TARGETS: [(&str, &str); 3] = [
    ("aie", "AI Engine"),
    ("aie2", "AI Engine v2"),
    ("aie2p", "AI Engine v2p"),
];

fn version(run: &Run, host: bool) -> String {
    let identity = &run.identity;
    let mut text = match identity.tool.as_str() {
        "clang" => format!(
            "clang version {}\nTarget: x86_64-unknown-linux-gnu\nThread model: posix\n",
            identity.version
        ),
        "ld.lld" => format!("LLD {} (compatible with GNU linkers)\n", identity.version),
        _ => format!(
            "LLVM (http://llvm.org/):\n  LLVM version {}\n  Optimized build.\n  Default target: x86_64-unknown-linux-gnu\n",
            identity.version
        ),
    };
    if identity.tool == "llc" {
        text.push_str("\n  Registered Targets:\n");
        let aie = TARGETS.iter().filter(|_| !host).copied();
        for (name, what) in aie.chain([("x86", "32-bit X86"), ("x86-64", "64-bit X86")]) {
            text.push_str(&format!("    {name:<10} - {what}\n"));
        }
    }
    text
}

pub fn run(run: &Run) -> Result {
    let host = run.identity.dialect == 2;
    let tool = run.identity.tool.as_str();
    run.begin()?;
    if run
        .arguments
        .iter()
        .any(|a| a.trim_start_matches('-') == "version")
    {
        super::print(&version(run, host));
        return Ok(());
    }
    let (mut output, mut inputs, mut march) = ("a.out", Vec::new(), "");
    let mut rest = run.arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "-o" => output = rest.next().map_or("", String::as_str),
            option if option.starts_with("--march=") => march = option.get(8..).unwrap_or(""),
            option if option.starts_with('-') => {}
            input => inputs.push(input),
        }
    }
    if host && march.starts_with("aie") {
        return Err(failure(format!("{tool}: error: invalid target '{march}'.")));
    }
    let mut content = Vec::new();
    for input in &inputs {
        let bytes = fs::read(input).map_err(|_| {
            failure(match tool {
                "clang" => format!("clang: error: no such file or directory: '{input}'"),
                "ld.lld" => {
                    format!("ld.lld: error: cannot open {input}: No such file or directory")
                }
                _ => format!(
                    "{tool}: {input}: error: Could not open input file: No such file or directory"
                ),
            })
        })?;
        if host && let Some(refusal) = refused(tool, input, &bytes) {
            return Err(failure(refusal));
        }
        // The path must not matter.
        content.extend(bytes);
    }
    if inputs.is_empty() {
        return Err(failure(format!("{tool}: error: no input files")));
    }
    let made = match tool {
        "opt" => content,
        _ => object(&content),
    };
    run.deliver(tool, Path::new(output), &made);
    Ok(())
}

fn refused(tool: &str, input: &str, bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let (number, line) = text
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains("accum1024"))?;
    let column = line.find("accum1024").unwrap_or(0);
    let space = " ".repeat(column);
    Some(format!(
        "{tool}: {input}:{}:{}: error: expected type\n{line}\n{space}^",
        number + 1,
        column + 1
    ))
}

/// An ELF for the AI Engine with nothing but the digest of what it was made from.
fn object(content: &[u8]) -> Vec<u8> {
    let mut image = Image::default();
    image.bytes(b"\x7fELF\x01\x01\x01");
    image.fill_to(16);
    image.u16(2);
    image.u16(264);
    image.words(&[1, 0, 0, 0, 0]);
    for value in [52, 0, 0, 40, 0, 0] {
        image.u16(value);
    }
    image.bytes(&md5(content));
    image.0
}
