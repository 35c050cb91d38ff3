//! The instruction stream of a runtime sequence: DMA tasks as real aiecc lowers them, then the
//! kernel's program (see [`crate::program`]).

use std::collections::HashMap;

use super::computes::meaning;
use super::{Device, Sequence, Wrong};
use crate::mlir::{Module, Operation};
use crate::program::Program;
use crate::stream::{Generation, Instruction, Stream};

/// What a stream is for: an `insts.bin`, or a full ELF, in which PDIs have numbers.
#[derive(Clone, Copy, Debug)]
pub enum Target<'t> {
    /// `insts.bin`.
    Instructions {
        /// Whether the addresses of arguments that the firmware does not translate are translated.
        folds: bool,
    },
    /// The control code of a full ELF that numbers these devices' PDIs from 1.
    FullElf(&'t [Device]),
}

struct Lowering<'l, 'm, 's> {
    module: &'m Module<'s>,
    device: &'l Device,
    sequence: &'l Sequence,
    target: Target<'l>,
    instructions: Vec<Instruction>,
    /// The descriptor of each task: shim tile's base, number, whether it sends, channel, token.
    tasks: HashMap<&'s str, Task>,
    /// A bit for each descriptor of a task that nobody has waited for.
    busy: u32,
    /// Which FIFO moves which argument, and whether into the array.
    moves: Vec<(String, usize, bool)>,
    /// What the sequences compute that it runs, if it runs some.
    run: Option<Program>,
    /// How many sequences run this one.
    depth: usize,
}

/// Sequences that run each other end here.
const DEEPEST: usize = 8;

#[derive(Clone, Copy)]
struct Task {
    base: u32,
    /// The first of its descriptors, and a bit for each.
    descriptor: u32,
    descriptors: u32,
    sends: bool,
    channel: u32,
    token: bool,
}

impl Task {
    fn control(&self) -> u32 {
        let first = if self.sends { 0x1_d210 } else { 0x1_d200 };
        self.base | (first + 8 * self.channel)
    }
}

/// The stream of one sequence of a device.
///
/// # Errors
/// It depends on values that are known at run time only.
pub fn stream(
    module: &Module<'_>,
    device: &Device,
    sequence: &Sequence,
    target: Target<'_>,
) -> Result<Stream, Wrong> {
    let mut lowering = Lowering::new(module, device, sequence, target);
    lowering.lower()?;
    let mut instructions = lowering.instructions;
    let own = || meaning(module, device, sequence, &lowering.moves);
    let meaning = lowering.run.clone().unwrap_or_else(own);
    instructions.extend(meaning.instructions());
    Ok(Stream {
        generation: device.part.generation,
        columns: device.part.columns as u8,
        instructions,
    })
}

impl<'l, 'm, 's> Lowering<'l, 'm, 's> {
    fn new(
        module: &'m Module<'s>,
        device: &'l Device,
        sequence: &'l Sequence,
        target: Target<'l>,
    ) -> Self {
        Self {
            module,
            device,
            sequence,
            target,
            instructions: Vec::new(),
            tasks: HashMap::new(),
            busy: 0,
            moves: Vec::new(),
            run: None,
            depth: 0,
        }
    }

    fn lower(&mut self) -> Result<(), Wrong> {
        for op in self.module.operations(self.sequence.body.clone()) {
            self.frozen(&op)?;
            self.operation(&op)?;
        }
        Ok(())
    }

    /// Refuses an operation that uses a scalar argument.
    fn frozen(&self, op: &Operation<'m, 's>) -> Result<(), Wrong> {
        if op.aie_name() == Some("configure") {
            // What is run there is looked at by itself.
            return Ok(());
        }
        let scalars = self
            .sequence
            .arguments
            .iter()
            .filter(|(_, of)| !of.is_memref());
        for (name, _) in scalars {
            if (op.at..op.end).any(|i| self.module.text(i) == name) {
                let message = format!(
                    "'{}' op value is not a constant: a runtime sequence that depends on its scalar arguments has no static instruction stream",
                    op.name
                );
                return Err(Wrong {
                    token: op.at,
                    message,
                });
            }
        }
        Ok(())
    }

    fn operation(&mut self, op: &Operation<'m, 's>) -> Result<(), Wrong> {
        match op.aie_name() {
            Some("npu.load_pdi") => {
                self.load_pdi(op.attribute("device_ref").unwrap_or(&self.device.name))
            }
            Some("configure") => self.configure_device(op)?,
            Some("sync_scratchpad_parameters_from_host") => {
                let bytes = 4 * self.device.variables.len() as u32;
                self.instructions
                    .push(Instruction::CreateScratchpad { bytes });
            }
            Some("dma_configure_task_for" | "dma_configure_task") => self.configure(op),
            Some("dma_start_task") => self.start(op),
            Some("dma_await_task") => {
                let task = op.operands().first().and_then(|name| self.tasks.get(name));
                if let Some(task) = task.copied() {
                    self.sync(task);
                    self.busy &= !task.descriptors;
                }
            }
            Some("npu.dma_memcpy_nd") => self.memcpy(op),
            Some("npu.dma_wait") => {
                let name = op.attribute("symbol").unwrap_or("");
                if let Some(((column, row), sends)) = self.device.shim(name) {
                    let task = Task {
                        base: column << 25 | row << 20,
                        descriptor: 0,
                        descriptors: 0,
                        sends,
                        channel: self.device.channel(name),
                        token: true,
                    };
                    self.sync(task);
                }
            }
            Some("npu.write32") => {
                let number = |key: &str| op.attribute(key).and_then(|v| v.parse().ok());
                let column: u32 = number("column").unwrap_or(0);
                let row: u32 = number("row").unwrap_or(0);
                self.instructions.push(Instruction::Write32 {
                    address: number("address").unwrap_or(0) | column << 25 | row << 20,
                    value: number("value").unwrap_or(0),
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Another device is configured, and sequences of it are run.
    fn configure_device(&mut self, op: &Operation<'m, 's>) -> Result<(), Wrong> {
        let name = op.symbol().unwrap_or_default();
        self.load_pdi(name);
        let devices = match self.target {
            Target::Instructions { .. } => return Ok(()),
            Target::FullElf(devices) => devices,
        };
        let Some(device) = devices.iter().find(|device| device.name == name) else {
            return Ok(());
        };
        let regions = op.regions().into_iter();
        let runs = regions.flat_map(|region| self.module.operations(region));
        for run in runs.filter(|op| op.aie_name() == Some("run")) {
            let named = |sequence: &&Sequence| run.symbol() == Some(&sequence.name);
            let Some(sequence) = device.sequences.iter().find(named) else {
                continue;
            };
            let passed: Vec<_> = run.operands().iter().map(|it| self.argument(it)).collect();
            self.run(device, sequence, &passed)?;
        }
        Ok(())
    }

    /// The operations of another sequence, with the arguments of this one in the place of its own.
    fn run(
        &mut self,
        device: &Device,
        sequence: &Sequence,
        passed: &[Option<usize>],
    ) -> Result<(), Wrong> {
        let mut inner = Lowering::new(self.module, device, sequence, self.target);
        inner.depth = self.depth + 1;
        if inner.depth < DEEPEST {
            inner.lower()?;
        }
        for mut instruction in inner.instructions {
            if let Instruction::AddressPatch { argument, .. } = &mut instruction {
                let outer = passed.get(*argument as usize).copied().flatten();
                *argument = outer.map_or(*argument, |outer| outer as u32);
            }
            self.instructions.push(instruction);
        }
        let is_same = passed.iter().copied().eq((0..passed.len()).map(Some));
        let count = self.sequence.arguments.len();
        self.run = Some(match (is_same && self.run.is_none(), inner.run) {
            (true, None) => meaning(self.module, device, sequence, &inner.moves),
            _ => Program::opaque(count),
        });
        Ok(())
    }

    fn load_pdi(&mut self, name: &str) {
        let id = match self.target {
            Target::Instructions { .. } => 0,
            Target::FullElf(devices) => {
                let index = devices.iter().position(|device| device.name == name);
                index.map_or(1, |index| index as u16 + 1)
            }
        };
        self.instructions.push(Instruction::LoadPdi { id });
    }

    fn argument(&self, name: &str) -> Option<usize> {
        self.sequence.arguments.iter().position(|(n, _)| n == name)
    }

    /// A task: its descriptors are written at once, its channel when it starts.
    fn configure(&mut self, op: &Operation<'m, 's>) {
        let (name, shim) = match op.symbol() {
            Some(name) if op.aie_name() == Some("dma_configure_task_for") => {
                (name.to_owned(), self.device.shim(name))
            }
            _ => {
                let sends = op.inner().any(|i| self.module.text(i) == "MM2S");
                (String::new(), Some(((0, 0), sends)))
            }
        };
        let Some(((column, row), sends)) = shim else {
            return;
        };
        let token = op.attribute("issue_token") == Some("true");
        let base = column << 25 | row << 20;
        let (mut first, mut descriptors) = (None, 0);
        for region in op.regions() {
            for bd in self.module.operations(region) {
                if bd.aie_name() != Some("dma_bd") {
                    continue;
                }
                let operands = bd.operands();
                let Some(argument) = operands.first().and_then(|name| self.argument(name)) else {
                    continue;
                };
                let (offset, length) = self.transfer(&bd, argument);
                self.moves.push((name.clone(), argument, sends));
                let number = self.descriptor(base, argument, offset, length);
                first.get_or_insert(number);
                descriptors |= 1 << number;
            }
        }
        let task = Task {
            base,
            descriptor: first.unwrap_or(0),
            descriptors,
            sends,
            channel: self.device.channel(&name),
            token,
        };
        for result in &op.results {
            self.tasks.insert(result, task);
        }
    }

    /// Byte offset and byte length of a descriptor, in either spelling.
    fn transfer(&self, bd: &Operation<'m, 's>, argument: usize) -> (u64, u64) {
        let (module, of) = (
            self.module,
            self.sequence.arguments.get(argument).map(|a| &a.1),
        );
        let width = of.map_or(4, |t| t.element_bytes());
        let keyed = |key: &str| bd.attribute(key).and_then(|v| v.parse::<u64>().ok());
        let listed: Vec<u64> = bd
            .inner()
            .filter(|i| module.text(i - 1) == ",")
            .filter_map(|i| module.text(i).parse().ok())
            .collect();
        let offset = keyed("offset").or(listed.first().copied()).unwrap_or(0);
        let whole = of.and_then(|t| t.elements());
        let length = keyed("len")
            .or(listed.get(1).copied())
            .or(whole)
            .unwrap_or(0);
        (offset.saturating_mul(width), length.saturating_mul(width))
    }

    fn descriptor(&mut self, base: u32, argument: usize, offset: u64, length: u64) -> u32 {
        if self.busy == 0xffff {
            self.busy = 0;
        }
        let number = self.busy.trailing_ones();
        self.busy |= 1 << number;
        let address = base | (0x1_d000 + 0x20 * number);
        let burst = match self.device.part.generation {
            Generation::Npu1 => 0x8000_0000,
            Generation::Npu2 => 0xc000_0000,
        };
        let length = (length / 4) as u32;
        self.instructions.push(Instruction::BlockWrite {
            address,
            words: vec![length, 0, 0, 0, burst, 0x0200_0000, 0, 0x0200_0000],
        });
        // The firmware translates the addresses of the first five.
        let aperture = match self.target {
            Target::Instructions { folds: true } if argument >= 5 => 0x8000_0000,
            _ => 0,
        };
        self.instructions.push(Instruction::AddressPatch {
            address: address + 4,
            argument: argument as u32,
            offset: (offset as u32).wrapping_add(aperture),
        });
        number
    }

    fn start(&mut self, op: &Operation<'m, 's>) {
        let task = op
            .operands()
            .first()
            .and_then(|name| self.tasks.get(name))
            .copied();
        if let Some(task) = task {
            self.push_queue(task);
        }
    }

    fn push_queue(&mut self, task: Task) {
        if task.token {
            self.instructions.push(Instruction::MaskWrite {
                address: task.control(),
                value: 0xf00,
                mask: 0x1f00,
            });
        }
        self.instructions.push(Instruction::Write32 {
            address: task.control() + 4,
            value: u32::from(task.token) << 31 | task.descriptor,
        });
    }

    fn sync(&mut self, task: Task) {
        let column = task.base >> 25;
        self.instructions.push(Instruction::Sync {
            tile: column << 16 | u32::from(task.sends),
            channel: task.channel << 24 | 0x0001_0100,
        });
    }

    fn memcpy(&mut self, op: &Operation<'m, 's>) {
        let module = self.module;
        let name = op.attribute("metadata").unwrap_or("").to_owned();
        let argument = op.operands().iter().find_map(|name| self.argument(name));
        let (Some(argument), Some(((column, row), sends))) = (argument, self.device.shim(&name))
        else {
            return;
        };
        let of = self.sequence.arguments.get(argument).map(|a| a.1.clone());
        let width = of.as_ref().map_or(4, |t| t.element_bytes());
        let open = op.inner().find(|i| module.text(*i) == "[");
        let list = |open: usize| -> Vec<u64> {
            (open..module.close(open))
                .filter_map(|i| module.text(i).parse().ok())
                .collect()
        };
        // %arg[offsets][sizes][strides].
        let offsets = open.map(list).unwrap_or_default();
        let sizes = open
            .map(|i| module.close(i) + 1)
            .filter(|i| module.text(*i) == "[")
            .map(list);
        let length: u64 = sizes.map_or(0, |sizes| {
            sizes.iter().fold(1, |all, size| all.saturating_mul(*size))
        });
        let offset = offsets.last().copied().unwrap_or(0);
        self.moves.push((name.clone(), argument, sends));
        let base = column << 25 | row << 20;
        let descriptor = self.descriptor(
            base,
            argument,
            offset.saturating_mul(width),
            length.saturating_mul(width),
        );
        let token = op.attribute("issue_token").map_or(!sends, |v| v == "true");
        let channel = self.device.channel(&name);
        self.push_queue(Task {
            base,
            descriptor,
            descriptors: 0,
            sends,
            channel,
            token,
        });
    }
}
