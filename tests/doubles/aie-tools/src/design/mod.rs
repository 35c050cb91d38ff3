//! An AIE-level design: devices with tiles, object FIFOs, cores and runtime sequences, as far as
//! the artifacts depend on them.

mod sequence;

pub use sequence::{Target, stream};

use std::collections::HashMap;
use std::ops::Range;

use crate::md5;
use crate::mlir::{Diagnostic, Module, Operation, Type};
use crate::pdi::{NOP, descriptor};
use crate::stream::Generation;

/// Column and row.
pub type Tile = (u32, u32);

/// Which part a design is for.
#[derive(Clone, Debug)]
pub struct Part {
    /// As MLIR calls it, such as `npu2_4col`.
    pub name: String,
    pub generation: Generation,
    pub columns: u32,
}

impl Part {
    pub fn named(name: &str) -> Option<Self> {
        let (family, columns) = name.split_once('_').unwrap_or((name, ""));
        let (generation, most) = match family {
            "npu1" => (Generation::Npu1, 4),
            "npu2" => (Generation::Npu2, 8),
            _ => return None,
        };
        let columns = match columns {
            "" => most,
            columns => columns.strip_suffix("col")?.parse().ok()?,
        };
        (1..=most).contains(&columns).then(|| Self {
            name: name.to_owned(),
            generation,
            columns,
        })
    }

    /// The columns at which the partition may start.
    pub fn start_columns(&self) -> Vec<u32> {
        match self.name.contains('_') && self.columns <= 4 {
            true => (1..6 - self.columns).collect(),
            false => vec![0],
        }
    }
}

/// An object FIFO.
#[derive(Clone, Debug)]
pub struct Fifo {
    name: String,
    /// The tile that fills it, then those that empty it.
    tiles: Vec<Tile>,
}

/// A core.
#[derive(Clone, Debug)]
pub struct Core {
    pub tile: Tile,
    pub body: Range<usize>,
    /// Object files that are linked.
    pub links: Vec<String>,
    /// An ELF that replaces the body.
    pub elf_file: Option<String>,
    /// The words of the program that aircc found, in hexadecimal.
    program: Option<String>,
}

impl Core {
    /// Whether it does anything besides ending.
    pub fn has_code(&self, module: &Module<'_>) -> bool {
        let operations = module.operations(self.body.clone());
        operations.iter().any(|op| op.name != "aie.end")
    }
}

/// A runtime sequence.
#[derive(Clone, Debug)]
pub struct Sequence {
    pub name: String,
    pub arguments: Vec<(String, Type)>,
    body: Range<usize>,
}

/// A device.
#[derive(Clone, Debug)]
pub struct Device {
    pub name: String,
    pub part: Part,
    pub body: Range<usize>,
    fifos: Vec<Fifo>,
    /// Which FIFOs are linked: source and destination.
    links: Vec<(String, String)>,
    pub cores: Vec<Core>,
    pub sequences: Vec<Sequence>,
    /// The external variables of the module, which all devices share.
    pub variables: Vec<String>,
}

/// The devices of a module, in order, or what aiecc's verifiers refuse first.
pub fn designs(module: &Module<'_>) -> Result<Vec<Device>, Diagnostic> {
    let all = module.nested(module.all());
    let named = |name: &'static str| all.iter().filter(move |op| op.name == name);
    let variables = named("aiex.scratchpad_parameter").filter_map(|op| op.symbol());
    let variables: Vec<String> = variables.map(str::to_owned).collect();
    named("aie.device")
        .map(|op| device(module, op, &variables))
        .collect()
}

fn device(
    module: &Module<'_>,
    op: &Operation<'_, '_>,
    variables: &[String],
) -> Result<Device, Diagnostic> {
    let part = module.text(op.at + 2);
    let unknown = || {
        let message = format!(
            "custom op 'aie.device' expected ::xilinx::AIE::AIEDevice to be one of: xcvc1902, xcve2302, xcve2802, npu1, npu1_1col, npu1_2col, npu1_3col, npu2, npu2_1col, npu2_2col, npu2_3col, npu2_4col, npu2_5col, npu2_6col, npu2_7col, but got: {part}"
        );
        module.at(op.at + 2, message)
    };
    let body = op.regions().into_iter().next().unwrap_or(op.end..op.end);
    let mut device = Device {
        name: op.symbol().unwrap_or("main").to_owned(),
        part: Part::named(part).ok_or_else(unknown)?,
        body: body.clone(),
        fifos: Vec::new(),
        links: Vec::new(),
        cores: Vec::new(),
        sequences: Vec::new(),
        variables: variables.to_vec(),
    };
    let mut tiles: HashMap<&str, Tile> = HashMap::new();
    let mut functions: HashMap<&str, Vec<String>> = HashMap::new();
    for op in module.operations(body) {
        let on = || {
            op.operands()
                .into_iter()
                .filter_map(|name| tiles.get(name).copied())
        };
        let symbol = op.symbol().unwrap_or("");
        match op.name {
            "aie.tile" => {
                let tile = tile(module, &op, &device.part)?;
                tiles.extend(op.results.iter().map(|result| (*result, tile)));
            }
            "aie.objectfifo" => device.fifos.push(Fifo {
                name: symbol.to_owned(),
                tiles: on().collect(),
            }),
            "aie.objectfifo.link" => {
                let mut names = module.symbols(op.inner()).map(str::to_owned);
                device.links.extend(names.next().zip(names.next()));
            }
            "aie.core" => {
                let core = core(&op, on().next().unwrap_or((0, 2)));
                if core.elf_file.is_some() && core.has_code(module) {
                    return Err(module.at(op.at, BODY_AND_ELF));
                }
                device.cores.push(core);
            }
            "aie.runtime_sequence" => device.sequences.push(Sequence {
                name: module
                    .symbols(op.at + 1..op.at + 2)
                    .next()
                    .unwrap_or("sequence")
                    .to_owned(),
                arguments: module.typed(op.parentheses()),
                body: op.regions().into_iter().next().unwrap_or(op.end..op.end),
            }),
            "func.func" => drop(functions.insert(symbol, op.strings("link_with"))),
            _ => {}
        }
    }
    for core in &mut device.cores {
        let called = module.symbols(core.body.clone());
        let links = called.filter_map(|name| functions.get(name)).flatten();
        core.links.extend(links.cloned());
        core.links.sort();
        core.links.dedup();
    }
    Ok(device)
}

const BODY_AND_ELF: &str = "'aie.core' op When `elf_file` attribute is specified, core body must be empty (consist of exactly one `aie.end` op).";

fn tile(module: &Module<'_>, op: &Operation<'_, '_>, part: &Part) -> Result<Tile, Diagnostic> {
    let numbers = op
        .parentheses()
        .filter_map(|at| module.text(at).parse().ok());
    let numbers: Vec<u32> = numbers.collect();
    let (column, row) = match numbers.as_slice() {
        &[column, row, ..] => (column, row),
        _ => (0, 0),
    };
    for (what, name, index, most) in [
        ("column", "columns", column, part.columns),
        ("row", "rows", row, 6),
    ] {
        if index >= most {
            let message = format!(
                "'aie.tile' op {what} index ({index}) must be less than the number of {name} in the device ({most})"
            );
            return Err(module.at(op.at, message));
        }
    }
    Ok((column, row))
}

fn core(op: &Operation<'_, '_>, tile: Tile) -> Core {
    let keys = ["link_with", "link_files", "link_merge_files"];
    Core {
        tile,
        body: op.regions().into_iter().next().unwrap_or(op.end..op.end),
        links: keys.iter().flat_map(|key| op.strings(key)).collect(),
        elf_file: op.strings("elf_file").pop(),
        program: op.strings("program").pop(),
    }
}

impl Device {
    /// The shim tile of a FIFO, and whether it takes data from the host.
    fn shim(&self, name: &str) -> Option<(Tile, bool)> {
        let fifo = self.fifos.iter().find(|fifo| fifo.name == name)?;
        let place = fifo.tiles.iter().position(|(_, row)| *row == 0)?;
        Some((*fifo.tiles.get(place)?, place == 0))
    }

    /// The channel of a shim's DMA that serves a FIFO.
    fn channel(&self, name: &str) -> u32 {
        let shim = self.shim(name);
        let mut same = self
            .fifos
            .iter()
            .filter(|fifo| self.shim(&fifo.name) == shim);
        same.position(|fifo| fifo.name == name).unwrap_or(0) as u32
    }

    /// The commands that configure the device: writes that depend on everything that the real ones
    /// depend on. `code` is what each core runs.
    pub fn commands(&self, module: &Module<'_>, code: &[(Tile, Vec<u8>)]) -> Vec<u32> {
        let mut commands = vec![NOP, NOP];
        for ((column, row), program) in code {
            let address = column << 25 | row << 20 | 0x2_0000;
            commands.extend(descriptor(address, words(program)));
        }
        let mut identity = String::new();
        for op in module.operations(self.body.clone()) {
            if !matches!(op.name, "aie.runtime_sequence" | "aie.core") {
                identity.push_str(&module.identity(op.at..op.end));
                identity.push('\n');
            }
        }
        commands.extend(descriptor(0x3_f000, words(identity.as_bytes())));
        commands.push(NOP);
        commands
    }
}

fn words(bytes: &[u8]) -> [u32; 8] {
    let mut words = [0; 8];
    for (word, four) in words.iter_mut().zip(md5(bytes).as_chunks().0) {
        *word = u32::from_le_bytes(*four);
    }
    words
}
