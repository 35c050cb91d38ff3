//! `npu-build signature` and `npu-build key`: what is known without compiling.

use crate::kernel::Level;
use crate::message::one_line;
use crate::plan::Understood;
use crate::step::material::Material;
use npu_runtime::{Bounds, Kind, Parameter, Shape, Signature};
use serde::Serialize;

use super::args::{Format, Global, KernelCommand, SignatureCommand};
use super::terminal::{Terminal, table};
use super::{Failure, session, settings};

/// Prints the signature of one kernel.
pub fn signature(
    global: &Global,
    command: &SignatureCommand,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let settings = settings(global)?;
    let said = command.arguments.add_to(command.selection.options());
    let request = settings.request(&command.kernel, said);
    let understood = Understood::new(&request)?;
    for doubt in &understood.doubts {
        terminal.warning(&format!("{}: {doubt}", request.kernel.display()));
    }
    let json = command
        .format
        .map_or(terminal.json, |format| format == Format::Json);
    for kernel in &understood.kernels {
        if json {
            #[derive(Serialize)]
            struct Described<'a> {
                level: String,
                device: Option<&'a str>,
                columns: Option<u32>,
                line: u32,
                link_files: &'a [String],
                core_elfs: &'a [String],
                #[serde(flatten)]
                signature: &'a Signature,
            }
            let device = kernel.device.as_ref();
            terminal.result_json(&Described {
                level: understood.module.level.to_string(),
                device: device.map(|device| &*device.spelling),
                columns: device.map(|device| device.columns),
                line: kernel.line,
                link_files: &understood.module.link_files,
                core_elfs: &understood.module.core_elfs,
                signature: &kernel.signature,
            })?;
        } else {
            for line in described(understood.module.level, &kernel.signature) {
                terminal.result(&line)?;
            }
        }
    }
    Ok(())
}

/// A table of the arguments under a line about the kernel.
fn described(level: Level, signature: &Signature) -> Vec<String> {
    let grid = if signature.grid {
        ", launched over a grid of programs"
    } else {
        ""
    };
    let name = one_line(&signature.name);
    let mut lines = vec![format!("{name} ({level} level{grid})")];
    let parameters = signature.parameters.iter();
    let rows: Vec<_> = parameters
        .map(|parameter| row(signature, parameter))
        .collect();
    lines.extend(table(&rows).iter().map(|row| format!("  {row}")));
    let bounds = match signature.bounds {
        Bounds::Proven => "safe to launch: the MLIR proves that it stays within its arguments",
        Bounds::Declared => "safe to launch: launches check the extents that were declared",
        Bounds::Unchecked => {
            "unsafe to launch: nothing is known to keep it within its arguments; declare their \
             extents with --extent"
        }
    };
    lines.push(format!("  {bounds}"));
    lines
}

fn row(signature: &Signature, parameter: &Parameter) -> [String; 5] {
    let (shape, direction) = match &parameter.kind {
        Kind::Scalar(_) => ("scalar".to_owned(), "in"),
        Kind::Memory {
            shape, direction, ..
        } => (shape_text(shape), direction.name()),
    };
    [
        parameter.name.to_string(),
        parameter.mlir_type.to_string(),
        shape,
        direction.to_owned(),
        match signature.extents_text(parameter) {
            none if none.is_empty() => none,
            extents => format!("extent {extents}"),
        },
    ]
}

fn shape_text(shape: &Shape) -> String {
    match shape {
        Shape::Unranked => "any length".into(),
        Shape::Ranked(dims) => {
            let dims: Vec<_> = dims
                .iter()
                .map(|dim| dim.map_or_else(|| "?".into(), |size| size.to_string()))
                .collect();
            format!("[{}]", dims.join(", "))
        }
    }
}

/// Prints the key of a kernel's first step, and with `-v` what it is computed from.
pub fn key(global: &Global, command: &KernelCommand, terminal: &Terminal) -> Result<(), Failure> {
    let settings = settings(global)?;
    let request = command.request(&settings);
    let session = session(settings, terminal)?;
    let steps = session.first_steps(&request)?;
    for keyed in &steps {
        let step = keyed.step();
        let material = step.material();
        if terminal.json {
            #[derive(Serialize)]
            struct Keyed<'a> {
                key: String,
                step: &'static str,
                target: &'static str,
                material: &'a Material,
            }
            terminal.result_json(&Keyed {
                key: keyed.key().to_string(),
                step: step.kind.name(),
                target: step.target,
                material: &material,
            })?;
            continue;
        }
        // A script takes the one key as it is.
        let key = keyed.key().to_string();
        match steps.len() {
            1 => terminal.result(&key)?,
            _ => terminal.result(&format!("{key}  {} for {}", step.kind, step.target))?,
        }
        if terminal.is_verbose() {
            for field in material.fields() {
                terminal.result(&one_line(&format!("  {field}")))?;
            }
        }
    }
    Ok(())
}
