//! Peano's opt, llc, clang and ld.lld. An identity of dialect 2 is no Peano but the host's LLVM: it
//! lists no AIE target and does not know Peano's types.

use std::fs;
use std::path::Path;

use crate::bytes::Image;
use crate::md5;
use crate::run::{Result, Run, failure};
use crate::tools::{diagnostic, print};

fn version(tool: &str, version: &str, host: bool) -> String {
    let targets = match (tool, host) {
        ("llc", false) => {
            "\n  Registered Targets:\n    aie        - AI Engine\n    aie2       - AI Engine v2\n    aie2p      - AI Engine v2p\n    x86-64     - 64-bit X86\n"
        }
        ("llc", true) => "\n  Registered Targets:\n    x86-64     - 64-bit X86\n",
        _ => "",
    };
    match tool {
        "clang" => format!(
            "clang version {version}\nTarget: x86_64-unknown-linux-gnu\nThread model: posix\n"
        ),
        "ld.lld" => format!("LLD {version} (compatible with GNU linkers)\n"),
        _ => format!(
            "LLVM (http://llvm.org/):\n  LLVM version {version}\n  Optimized build.\n  Default target: x86_64-unknown-linux-gnu\n{targets}"
        ),
    }
}

/// Runs one of Peano's tools.
pub fn run(run: &Run) -> Result {
    let host = run.identity.dialect == 2;
    let tool = run.identity.tool.as_str();
    run.begin()?;
    if run.asks("version") {
        print(&version(tool, &run.identity.version, host));
        return Ok(());
    }
    let (mut output, mut content, mut rest) = ("a.out", Vec::new(), run.arguments.iter());
    while let Some(argument) = rest.next() {
        if argument == "-o" {
            output = rest.next().map_or("", String::as_str);
        }
        if argument.starts_with('-') {
            continue;
        }
        let bytes = fs::read(argument).map_err(|_| {
            failure(match tool {
                "clang" => format!("clang: error: no such file or directory: '{argument}'"),
                _ => format!("{tool}: {argument}: error: Could not open input file"),
            })
        })?;
        let text = String::from_utf8_lossy(&bytes);
        if let Some(line) = text.lines().position(|line| line.contains("accum1024"))
            && host
        {
            let column = text.lines().nth(line).and_then(|it| it.find("accum1024"));
            let at =
                crate::mlir::Diagnostic::new(line + 1, column.unwrap_or(0) + 1, "expected type");
            return Err(failure(format!(
                "{tool}: {}",
                diagnostic(argument, &text, &at)
            )));
        }
        // The path must not matter.
        content.extend(bytes);
    }
    let made = if tool == "opt" {
        content
    } else {
        object(&content)
    };
    run.deliver(tool, Path::new(output), &made);
    Ok(())
}

/// An ELF for the AI Engine with nothing but the digest of what it was made from.
fn object(content: &[u8]) -> Vec<u8> {
    let mut image = Image::default();
    image.bytes(b"\x7fELF\x01\x01\x01");
    image.fill_to(16);
    image.words(&[2 | 264 << 16, 1, 0, 0, 0, 0, 52, 40 << 16, 0]);
    image.bytes(&md5(content));
    image.0
}
