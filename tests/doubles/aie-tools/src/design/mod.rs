//! An AIE-level design: devices with tiles, object FIFOs, cores and runtime sequences, as far as
//! the artifacts depend on them.

mod computes;
mod configure;
mod parse;
mod sequence;

pub use configure::commands;
pub use parse::designs;
pub use sequence::{Target, stream};

use std::ops::Range;

use crate::mlir::{Kind, Module, Type};
use crate::stream::Generation;

/// A tile: column and row.
pub type Tile = (u32, u32);

/// Something wrong in a design, at a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The token.
    pub token: usize,
    /// What is wrong with it.
    pub message: String,
}

/// Which part a design is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// As MLIR calls it, such as `npu2_4col`.
    pub name: String,
    /// The generation.
    pub generation: Generation,
    /// The columns of its partition.
    pub columns: u32,
}

impl Part {
    /// The part of that name, or of that number in the generic form.
    pub fn named(name: &str) -> Option<Self> {
        const NUMBERED: [&str; 12] = [
            "npu1",
            "npu1_1col",
            "npu1_2col",
            "npu1_3col",
            "npu2",
            "npu2_1col",
            "npu2_2col",
            "npu2_3col",
            "npu2_4col",
            "npu2_5col",
            "npu2_6col",
            "npu2_7col",
        ];
        let name = match name.parse::<usize>() {
            Ok(number) => NUMBERED.get(number.checked_sub(4)?)?,
            Err(_) => name,
        };
        let (family, columns) = match name.split_once('_') {
            Some((family, columns)) => (family, columns.strip_suffix("col")?.parse().ok()?),
            None if name == "npu1" => (name, 4),
            None => (name, 8),
        };
        let (generation, most) = match family {
            "npu1" => (Generation::Npu1, 4),
            "npu2" => (Generation::Npu2, 8),
            _ => return None,
        };
        (1..=most).contains(&columns).then(|| Self {
            name: name.to_owned(),
            generation,
            columns,
        })
    }

    /// The columns at which the partition may start.
    pub fn start_columns(&self) -> Vec<u32> {
        if !self.name.contains('_') || self.columns > 4 {
            return vec![0];
        }
        (1..6 - self.columns).collect()
    }
}

/// An object FIFO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fifo {
    /// Its name.
    pub name: String,
    /// The tile that fills it.
    pub producer: Tile,
    /// The tiles that empty it.
    pub consumers: Vec<Tile>,
    /// What one object is.
    pub object: Type,
}

/// A core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its tile.
    pub tile: Tile,
    /// Its body's tokens.
    pub body: Range<usize>,
    /// Object files that are linked.
    pub links: Vec<String>,
    /// An ELF that replaces the body.
    pub elf_file: Option<String>,
    /// The token that names it.
    pub token: usize,
}

impl Core {
    /// Whether it does anything besides ending.
    pub fn has_code(&self, module: &Module<'_>) -> bool {
        let is_operation = |at: &usize| matches!(module.kind(*at), Kind::Word | Kind::Text);
        let mut operations = self.body.clone().filter(is_operation);
        operations.any(|at| module.text(at).trim_matches('"') != "aie.end")
    }
}

/// A runtime sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Its name, `sequence` if it has none.
    pub name: String,
    /// The names and types of its arguments.
    pub arguments: Vec<(String, Type)>,
    /// Its body's tokens.
    pub body: Range<usize>,
    /// The token that names it.
    pub token: usize,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name, `main` if it has none.
    pub name: String,
    /// The part.
    pub part: Part,
    /// Its tokens.
    pub body: Range<usize>,
    /// Its FIFOs.
    pub fifos: Vec<Fifo>,
    /// Which FIFOs are linked: sources and destinations.
    pub links: Vec<(Vec<String>, Vec<String>)>,
    /// Its DMA allocations: name, tile, whether it sends into the array.
    pub allocations: Vec<(String, Tile, bool)>,
    /// Its cores.
    pub cores: Vec<Core>,
    /// Its sequences.
    pub sequences: Vec<Sequence>,
    /// The external variables of the module, which all devices share.
    pub variables: Vec<String>,
}

impl Device {
    /// Whether the FIFO or allocation `name` takes data from the host, and its shim tile.
    pub fn shim(&self, name: &str) -> Option<(Tile, bool)> {
        if let Some((_, tile, sends)) = self.allocations.iter().find(|(n, ..)| n == name) {
            return Some((*tile, *sends));
        }
        let fifo = self.fifos.iter().find(|fifo| fifo.name == name)?;
        if fifo.producer.1 == 0 {
            return Some((fifo.producer, true));
        }
        let consumer = fifo.consumers.iter().find(|tile| tile.1 == 0)?;
        Some((*consumer, false))
    }

    /// The channel of a shim's DMA that serves `name`.
    pub fn channel(&self, name: &str) -> u32 {
        let Some((tile, sends)) = self.shim(name) else {
            return 0;
        };
        let names = self
            .fifos
            .iter()
            .map(|f| &f.name)
            .chain(self.allocations.iter().map(|a| &a.0));
        let mut same: Vec<&String> = names
            .filter(|n| self.shim(n) == Some((tile, sends)))
            .collect();
        same.dedup();
        same.iter().position(|n| *n == name).unwrap_or(0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::{Target, commands, designs, stream};
    use crate::mlir::Module;

    /// Everything that aiecc does with a text in this process.
    fn exercise(text: &str) {
        let Ok(module) = Module::parse(text) else {
            return;
        };
        let Ok(devices) = designs(&module) else {
            return;
        };
        for device in &devices {
            let _ = commands(&module, device, &[]);
            for sequence in &device.sequences {
                let _ = stream(&module, device, sequence, Target::FullElf(&devices));
            }
        }
    }

    #[test]
    fn no_text_makes_a_tool_panic() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/aie");
        for design in ["copy_npu2", "two_kernels_npu2"] {
            let text = std::fs::read_to_string(directory.join(design).join("kernel.mlir")).unwrap();
            for end in 0..text.len() {
                exercise(&text[..end]);
                // One byte replaced: brackets, signs, digits that are too large.
                for other in ["}", "(", "%", "@", "9999999999999999999", "\"", ""] {
                    exercise(&format!("{}{other}{}", &text[..end], &text[end + 1..]));
                }
            }
        }
    }
}
