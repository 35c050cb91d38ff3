//! Which way data flows at the AIE level: an object FIFO or DMA allocation that starts at a shim
//! tile (row 0) carries the host's memory into the array, one that ends there carries it out.

use std::collections::HashMap;

use super::header::{self, Generic};
use super::tokens::{Kind, Tokens};

/// Which way a DMA moves an argument's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// From the argument into the array: a read.
    FromHost,
    /// From the array into the argument: a write.
    ToHost,
    /// Either or both.
    Unknown,
}

/// The flows of a device, by symbol.
#[derive(Default)]
pub(super) struct Flows(HashMap<String, Flow>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tile {
    Shim,
    Other,
}

/// An operation's name at a token, as written, and whether it is in generic form.
pub(super) fn operation<'s>(tokens: &Tokens<'s>, at: usize) -> Option<(&'s str, bool)> {
    match tokens.kind(at) {
        Kind::Word => Some((tokens.text(at), false)),
        Kind::Text if tokens.is(at + 1, b'(') => Some((tokens.text(at).trim_matches('"'), true)),
        _ => None,
    }
}

/// The name without the dialect, if the dialect is one of mlir-aie's (`AIE` until 2023).
pub(super) fn without_dialect(name: &str) -> Option<&str> {
    let (dialect, rest) = name.split_once('.')?;
    matches!(dialect, "aie" | "aiex" | "AIE" | "AIEX").then_some(rest)
}

/// Whether the `aie.core` at `at` has code of its own: anything besides `aie.end`.
pub(super) fn has_code(tokens: &Tokens<'_>, at: usize, generic: bool) -> bool {
    let region = match generic {
        true => Generic::read(tokens, at).regions.first().copied(),
        false => {
            let open = tokens.after(at + 1);
            tokens
                .is(open, b'{')
                .then(|| (open + 1, tokens.close(open)))
        }
    };
    let Some((mut next, end)) = region else {
        return false;
    };
    while next < end {
        next = tokens.after_location(next);
        let name = match tokens.kind(next) {
            Kind::Word | Kind::Text => tokens.text(next).trim_matches('"'),
            _ => "aie.end",
        };
        if next < end && !matches!(name, "aie.end" | "AIE.end") {
            return true;
        }
        next += 1;
    }
    false
}

/// The (device, sequence) pairs that a sequence with this body runs: `aiex.configure @device` with
/// `aiex.run @sequence` in it.
pub(super) fn parts(tokens: &Tokens<'_>, (start, end): (usize, usize)) -> Vec<(String, String)> {
    let mut device = None;
    let mut parts = Vec::new();
    for at in start..end {
        let Some((name, generic)) = operation(tokens, at) else {
            continue;
        };
        let named = |key: &str| {
            let symbol = match generic {
                true => Generic::read(tokens, at).attribute(tokens, key)?,
                false => at + 1,
            };
            (tokens.kind(symbol) == Kind::Symbol).then(|| header::symbol(tokens.text(symbol)))
        };
        match without_dialect(name) {
            Some("configure") => device = named("symbol"),
            Some("run") => parts.extend(device.clone().zip(named("runtime_sequence_symbol"))),
            _ => {}
        }
    }
    parts
}

impl Flows {
    /// Reads the flows that the operations directly in a device's region define.
    pub(super) fn read(tokens: &Tokens<'_>, (mut at, end): (usize, usize)) -> Self {
        let (mut flows, mut tiles, mut fifos) = (Self::default(), HashMap::new(), Vec::new());
        while at < end {
            if let Some((name, generic)) = operation(tokens, at) {
                match without_dialect(name) {
                    Some("tile" | "logical_tile") => {
                        let defines = at >= 2 && tokens.is(at - 1, b'=');
                        if let Some(tile) = tile(tokens, at, generic).filter(|_| defines) {
                            tiles.insert(tokens.value_name(at - 2), tile);
                        }
                    }
                    Some("objectfifo" | "objectFifo") => fifos.push((at, generic)),
                    Some("shim_dma_allocation") => flows.allocation(tokens, at, generic),
                    _ => {}
                }
            }
            at = tokens.after(at);
        }
        for (at, generic) in fifos {
            flows.fifo(tokens, at, generic, &tiles);
        }
        flows
    }

    /// The flow of a symbol as written, with its `@`.
    pub(super) fn of(&self, symbol: &str) -> Flow {
        let flow = self.0.get(&header::symbol(symbol));
        flow.copied().unwrap_or(Flow::Unknown)
    }

    fn add(&mut self, symbol: String, flow: Flow) {
        // The lowering of a FIFO defines an allocation of the same name: they must agree.
        let known = self.0.entry(symbol).or_insert(flow);
        if *known != flow {
            *known = Flow::Unknown;
        }
    }

    /// `aie.shim_dma_allocation @name(%tile, MM2S, 0)`.
    fn allocation(&mut self, tokens: &Tokens<'_>, at: usize, generic: bool) {
        if generic {
            let op = Generic::read(tokens, at);
            if let Some(symbol) = op.string(tokens, "sym_name") {
                self.add(symbol, direction(tokens, &op, "channel_dir"));
            }
            return;
        }
        let open = at + 2;
        if tokens.kind(at + 1) == Kind::Symbol && tokens.is(open, b'(') {
            let flow = channel(tokens, (open + 1, tokens.close(open)));
            self.add(header::symbol(tokens.text(at + 1)), flow);
        }
    }

    /// `aie.objectfifo @name(%producer, {%consumer, …}, …)`.
    fn fifo(&mut self, tokens: &Tokens<'_>, at: usize, generic: bool, tiles: &HashMap<&str, Tile>) {
        let values = |(mut at, end): (usize, usize)| {
            let mut found = Vec::new();
            while at < end {
                if tokens.kind(at) == Kind::Value {
                    found.push(tiles.get(tokens.value_name(at)).copied());
                }
                at = tokens.after(at);
            }
            found
        };
        let (name, producer, consumers) = if generic {
            let op = Generic::read(tokens, at);
            let Some(name) = op.string(tokens, "sym_name") else {
                return;
            };
            let mut ends = values(op.operands).into_iter();
            (name, ends.next().flatten(), ends.collect())
        } else {
            let open = at + 2;
            if tokens.kind(at + 1) != Kind::Symbol || !tokens.is(open, b'(') {
                return;
            }
            let close = tokens.close(open);
            let mut consumers = Vec::new();
            let mut inside = open + 1;
            while inside < close {
                if tokens.is(inside, b'{') {
                    consumers = values((inside + 1, tokens.close(inside)));
                    break;
                }
                inside = tokens.after(inside);
            }
            let producer = values((open + 1, open + 2)).pop().flatten();
            (header::symbol(tokens.text(at + 1)), producer, consumers)
        };
        let flow = match producer {
            Some(Tile::Shim) if consumers.iter().all(|it| *it == Some(Tile::Other)) => {
                Flow::FromHost
            }
            Some(Tile::Other) if consumers.contains(&Some(Tile::Shim)) => Flow::ToHost,
            _ => Flow::Unknown,
        };
        self.add(name, flow);
    }
}

/// The direction word among an operation's tokens: memory to stream, or stream to memory.
pub(super) fn channel(tokens: &Tokens<'_>, (start, end): (usize, usize)) -> Flow {
    let mut words = (start..end).filter_map(|i| match tokens.text(i) {
        "MM2S" => Some(Flow::FromHost),
        "S2MM" => Some(Flow::ToHost),
        _ => None,
    });
    match (words.next(), words.next()) {
        (Some(flow), None) => flow,
        _ => Flow::Unknown,
    }
}

/// The same as an operation in generic form has it under `key`: a number of mlir-aie's
/// `DMAChannelDir`.
pub(super) fn direction(tokens: &Tokens<'_>, op: &Generic, key: &str) -> Flow {
    let value = op.attribute(tokens, key);
    match value.map_or("", |at| tokens.text(at)) {
        "0" => Flow::ToHost,
        "1" => Flow::FromHost,
        _ => Flow::Unknown,
    }
}

/// `aie.tile(column, row)` or `aie.logical_tile<ShimNOCTile>(?, ?)`.
fn tile(tokens: &Tokens<'_>, at: usize, generic: bool) -> Option<Tile> {
    let row = if generic {
        Generic::read(tokens, at).attribute(tokens, "row")?
    } else if tokens.is(at + 1, b'<') {
        return match tokens.text(at + 2) {
            "ShimNOCTile" | "ShimTile" => Some(Tile::Shim),
            "CoreTile" | "MemTile" => Some(Tile::Other),
            _ => None,
        };
    } else {
        at + 4
    };
    match (tokens.kind(row), tokens.text(row)) {
        (Kind::Number, "0") => Some(Tile::Shim),
        (Kind::Number, _) => Some(Tile::Other),
        _ => None,
    }
}
