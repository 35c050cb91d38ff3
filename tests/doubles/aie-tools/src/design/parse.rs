//! Designs from MLIR.

use std::collections::HashMap;

use super::{Core, Device, Fifo, Part, Sequence, Tile, Wrong};
use crate::mlir::{Kind, Module, Operation, symbol_name};

fn wrong(token: usize, message: impl Into<String>) -> Wrong {
    Wrong {
        token,
        message: message.into(),
    }
}

/// The devices of a module, in order.
///
/// # Errors
/// The first thing that aiecc's verifiers would refuse.
pub fn designs(module: &Module<'_>) -> Result<Vec<Device>, Wrong> {
    let all = module.all_operations();
    let variables: Vec<String> = all
        .iter()
        .filter(|op| op.aie_name() == Some("scratchpad_parameter"))
        .filter_map(|op| op.symbol().map(str::to_owned))
        .collect();
    let devices = all.iter().filter(|op| op.aie_name() == Some("device"));
    devices.map(|op| device(module, op, &variables)).collect()
}

fn device(
    module: &Module<'_>,
    op: &Operation<'_, '_>,
    variables: &[String],
) -> Result<Device, Wrong> {
    let part = match op.attribute("device").filter(|_| op.generic) {
        Some(number) => number,
        None => module.text(op.at + 2),
    };
    let known = Part::named(part).ok_or_else(|| {
        let message = format!("custom op 'aie.device' expected ::xilinx::AIE::AIEDevice to be one of: xcvc1902, xcve2302, xcve2802, npu1, npu1_1col, npu1_2col, npu1_3col, npu2, npu2_1col, npu2_2col, npu2_3col, npu2_4col, npu2_5col, npu2_6col, npu2_7col, but got: {part}");
        wrong(op.at + 2, message)
    })?;
    let body = op.regions().into_iter().next();
    let body = body.unwrap_or(op.end..op.end);
    let mut device = Device {
        name: device_name(module, op).unwrap_or("main").to_owned(),
        part: known,
        body: body.clone(),
        fifos: Vec::new(),
        links: Vec::new(),
        allocations: Vec::new(),
        cores: Vec::new(),
        sequences: Vec::new(),
        variables: variables.to_vec(),
    };
    let mut tiles: HashMap<&str, Tile> = HashMap::new();
    let mut functions: HashMap<&str, Vec<String>> = HashMap::new();
    for op in module.operations(body) {
        match op.aie_name() {
            Some("tile") => {
                let tile = tile(&op, &device.part)?;
                tiles.extend(op.results.iter().map(|result| (*result, tile)));
            }
            Some("objectfifo") => device.fifos.extend(fifo(module, &op, &tiles)),
            Some("objectfifo.link") => device.links.push(link(module, &op)),
            Some("shim_dma_allocation") => {
                let tile = op.operands().first().and_then(|t| tiles.get(t)).copied();
                let sends = op.inner().any(|i| module.text(i) == "MM2S");
                let name = op.symbol().unwrap_or("").to_owned();
                device
                    .allocations
                    .push((name, tile.unwrap_or((0, 0)), sends));
            }
            Some("core") => {
                let core = core(&op, &tiles);
                if core.elf_file.is_some() && core.has_code(module) {
                    return Err(wrong(op.at, BODY_AND_ELF.to_owned()));
                }
                device.cores.push(core);
            }
            Some("runtime_sequence") => device.sequences.push(sequence(module, &op)),
            None if op.name == "func.func" => {
                let links = op
                    .strings("link_with")
                    .into_iter()
                    .map(str::to_owned)
                    .collect();
                functions.insert(op.symbol().unwrap_or(""), links);
                let private = op.inner().any(|i| module.text(i) == "private");
                if !private && matches!(op.symbol(), Some("sequence")) {
                    device.sequences.push(sequence(module, &op));
                }
            }
            _ => {}
        }
    }
    for core in &mut device.cores {
        for at in core.body.clone() {
            if module.kind(at) == Kind::Symbol
                && let Some(links) = functions.get(symbol_name(module.text(at)))
            {
                core.links.extend(links.iter().cloned());
            }
        }
        core.links.sort();
        core.links.dedup();
    }
    Ok(device)
}

const BODY_AND_ELF: &str = "'aie.core' op When `elf_file` attribute is specified, core body must be empty (consist of exactly one `aie.end` op).";

/// The symbol between the part and the body, or the attribute.
fn device_name<'s>(module: &Module<'s>, op: &Operation<'_, 's>) -> Option<&'s str> {
    if op.generic {
        return op.attribute("sym_name");
    }
    let after = module.close(op.at + 1) + 1;
    let named = (module.kind(after) == Kind::Symbol).then(|| symbol_name(module.text(after)));
    named.or_else(|| op.attribute("sym_name"))
}

fn tile(op: &Operation<'_, '_>, part: &Part) -> Result<Tile, Wrong> {
    let attribute = |key: &str| op.attribute(key).and_then(|v| v.parse().ok());
    let (column, row) = match op.numbers().as_slice() {
        &[column, row, ..] => (column, row),
        _ => (attribute("col").unwrap_or(0), attribute("row").unwrap_or(0)),
    };
    let columns = u64::from(part.columns);
    let message = if column >= columns {
        format!(
            "'aie.tile' op column index ({column}) must be less than the number of columns in the device ({columns})"
        )
    } else if row >= 6 {
        format!(
            "'aie.tile' op row index ({row}) must be less than the number of rows in the device (6)"
        )
    } else {
        return Ok((column as u32, row as u32));
    };
    Err(wrong(op.at, message))
}

fn fifo(module: &Module<'_>, op: &Operation<'_, '_>, tiles: &HashMap<&str, Tile>) -> Option<Fifo> {
    let mut named = op
        .operands()
        .into_iter()
        .filter_map(|name| tiles.get(name).copied());
    let producer = named.next()?;
    let object = op
        .inner()
        .find(|i| module.text(*i) == "memref" && module.text(i + 1) == "<");
    Some(Fifo {
        name: op.symbol()?.to_owned(),
        producer,
        consumers: named.collect(),
        object: module.type_at(object?).0,
    })
}

fn link(module: &Module<'_>, op: &Operation<'_, '_>) -> (Vec<String>, Vec<String>) {
    let arrow = op
        .inner()
        .find(|i| module.text(*i) == "->")
        .unwrap_or(op.end);
    let names = |range: std::ops::Range<usize>| -> Vec<String> {
        range
            .filter(|i| module.kind(*i) == Kind::Symbol)
            .map(|i| symbol_name(module.text(i)).to_owned())
            .collect()
    };
    (names(op.at..arrow), names(arrow..op.end))
}

fn core(op: &Operation<'_, '_>, tiles: &HashMap<&str, Tile>) -> Core {
    let tile = op
        .operands()
        .first()
        .and_then(|name| tiles.get(name))
        .copied();
    let keys = ["link_with", "link_files", "link_merge_files"];
    Core {
        tile: tile.unwrap_or((0, 2)),
        body: op.regions().into_iter().next().unwrap_or(op.end..op.end),
        links: keys
            .iter()
            .flat_map(|key| op.strings(key))
            .map(str::to_owned)
            .collect(),
        elf_file: op.strings("elf_file").first().map(|f| (*f).to_owned()),
        token: op.at,
    }
}

fn sequence(module: &Module<'_>, op: &Operation<'_, '_>) -> Sequence {
    let body = op.regions().into_iter().next();
    let list = if op.generic {
        // The block's arguments.
        op.inner()
            .find(|i| module.kind(*i) == Kind::Block)
            .map(|i| i + 1)
    } else {
        op.inner().find(|i| module.text(*i) == "(")
    };
    let mut arguments = Vec::new();
    if let Some(open) = list {
        let mut at = open + 1;
        while at < module.close(open) {
            if module.kind(at) == Kind::Value && module.text(at + 1) == ":" {
                let (of, end) = module.type_at(at + 2);
                arguments.push((module.text(at).to_owned(), of));
                at = end;
            } else {
                at += 1;
            }
        }
    }
    let fallback = op
        .inner()
        .find(|i| module.text(*i) == "{")
        .map(|i| i + 1..module.close(i));
    Sequence {
        name: op
            .symbol()
            .filter(|_| named(module, op))
            .unwrap_or("sequence")
            .to_owned(),
        arguments,
        body: body.or(fallback).unwrap_or(op.end..op.end),
        token: op.at,
    }
}

/// Whether the symbol of a sequence is its name, and not one in its body.
fn named(module: &Module<'_>, op: &Operation<'_, '_>) -> bool {
    op.generic || module.kind(op.at + 1) == Kind::Symbol || op.attribute("sym_name").is_some()
}
