//! The `shim` step: the C++ that drives XRT, compiled once for each XRT installation.
//!
//! The result knows where that installation's library is, since the system's loader does not: so
//! the directory is part of the key.

use std::sync::Arc;

use super::check::Check;
use super::material::Value;
use super::{Argument, Command, Input, Kind, Output, Step, Work};
use crate::toolchain::{Companions, XrtSdk};

/// Raised when the same inputs would give another library.
const VERSION: u32 = 1;

/// The shim's file name, by which npu-runtime looks for it beside the program.
pub const LIBRARY: &str = "libnpu_xrt_shim.so";
const SOURCE: &str = "xrt_shim.cpp";

/// The step that compiles the shim for `sdk`.
#[must_use]
pub fn shim(sdk: &XrtSdk) -> Step {
    let text = |text: &str| Argument::Text(text.to_owned());
    let mut arguments: Vec<Argument> = "-std=c++17 -O2 -fPIC -shared -Wl,-z,defs"
        .split(' ')
        .map(text)
        .collect();
    arguments.extend([
        Argument::Installation("-I", "xrt-include", sdk.root.join("include")),
        text(SOURCE),
        text("-o"),
        text(LIBRARY),
        Argument::Installation("-L", "xrt-lib", sdk.libraries.clone()),
        text("-lxrt_coreutil"),
        Argument::Text(format!("-Wl,-rpath,{}", sdk.libraries.display())),
    ]);
    let command = Command {
        tool: Arc::clone(&sdk.compiler),
        arguments,
        explain,
        unnamed: &[],
    };
    let mut used = sdk.passes.clone();
    used.push(Arc::clone(&sdk.library));
    Step {
        kind: Kind::Shim,
        version: VERSION,
        subject: "the XRT shim".to_owned(),
        source: None,
        target: "xrt",
        inputs: vec![Input::new(
            SOURCE,
            include_bytes!("../../templates/xrt_shim.cpp").as_slice(),
        )],
        environment: vec![
            ("LC_ALL", "C".to_owned()),
            // The compiler finds its assembler and linker there.
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("TMPDIR", ".".to_owned()),
        ],
        companions: Companions {
            on_path: Vec::new(),
            of_installation: used,
        },
        facts: vec![("xrt_headers", Value::Sha256(sdk.headers))],
        work: Work::Commands(vec![command]),
        outputs: vec![Output::new(LIBRARY, Check::SharedObject)],
    }
}

fn explain(printed: &str) -> Option<String> {
    printed.contains("uuid/uuid.h").then(|| {
        "XRT's headers need those of libuuid: install uuid-dev (Debian) or libuuid-devel".to_owned()
    })
}
