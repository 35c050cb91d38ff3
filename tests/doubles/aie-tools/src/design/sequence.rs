//! The instruction stream of a runtime sequence: a buffer descriptor, its patch and a start for
//! each transfer, as real aiecc writes them, then the kernel's program (see [`crate::program`]).

use super::{Device, Sequence};
use crate::kernel::Flow;
use crate::mlir::{Module, Operation, Type};
use crate::program::Program;
use crate::stream::{Generation, Instruction, Stream};

/// What a stream is for.
#[derive(Clone, Copy)]
pub enum Target<'t> {
    /// An `insts.bin`. `folds`: addresses of arguments that the firmware does not translate are
    /// translated.
    Instructions { folds: bool },
    /// The control code of a full ELF that numbers these devices' PDIs from 1.
    FullElf(&'t [Device]),
}

struct Lowering<'l, 's> {
    module: &'l Module<'s>,
    target: Target<'l>,
    instructions: Vec<Instruction>,
    program: Option<Program>,
    /// How many descriptors are in use.
    descriptors: u32,
}

/// The stream of one sequence of a device.
pub fn stream(
    module: &Module<'_>,
    device: &Device,
    sequence: &Sequence,
    target: Target<'_>,
) -> Stream {
    let mut lowering = Lowering {
        module,
        target,
        instructions: Vec::new(),
        program: None,
        descriptors: 0,
    };
    lowering.sequence(device, sequence, true);
    let opaque = || Program::opaque(sequence.arguments.len());
    let program = lowering.program.unwrap_or_else(opaque);
    lowering.instructions.extend(program.instructions());
    Stream {
        generation: device.part.generation,
        columns: device.part.columns as u8,
        instructions: lowering.instructions,
    }
}

/// What comes out of the array in terms of what goes in. A move is a FIFO and an argument.
fn program(
    module: &Module<'_>,
    device: &Device,
    sequence: &Sequence,
    moves: &[(&str, usize)],
) -> Program {
    let arguments = &sequence.arguments;
    let types: Vec<Type> = arguments.iter().map(|(_, of)| of.clone()).collect();
    if let Some(hex) = device.cores.iter().find_map(|core| core.program.as_ref()) {
        let word = |word| u32::from_str_radix(word, 16).unwrap_or(0);
        let words: Vec<u32> = hex.split(' ').map(word).collect();
        let known = Program::from_words(&words);
        return known.unwrap_or_else(|_| Program::opaque(types.len()));
    }
    let mut flow = Flow::new(module, &types, &device.variables);
    let name = |index: usize| format!("argument {index}");
    (0..types.len()).for_each(|index| flow.name(&name(index), index));
    let sends = |fifo: &str| device.shim(fifo).is_some_and(|(_, sends)| sends);
    for (fifo, argument) in moves.iter().filter(|(fifo, _)| sends(fifo)) {
        flow.copy(&name(*argument), fifo);
    }
    for (from, to) in &device.links {
        flow.copy(from, to);
    }
    for core in &device.cores {
        flow.read(module.nested(core.body.clone()));
    }
    let given = moves.iter().filter(|(fifo, _)| !sends(fifo));
    let mut outputs: Vec<_> = given.map(|(fifo, it)| (*it, (*fifo).to_owned())).collect();
    outputs.dedup();
    flow.program(&outputs)
}

impl<'s> Lowering<'_, 's> {
    fn sequence(&mut self, device: &Device, sequence: &Sequence, is_outermost: bool) {
        let mut moves = Vec::new();
        let mut fifo = "";
        let mut configured = device;
        for op in self.module.nested(sequence.body.clone()) {
            match op.name {
                "aiex.npu.load_pdi" => {
                    self.load_pdi(op.attribute("device_ref").unwrap_or(&device.name));
                }
                "aiex.sync_scratchpad_parameters_from_host" => {
                    let bytes = 4 * device.variables.len() as u32;
                    self.instructions
                        .push(Instruction::CreateScratchpad { bytes });
                }
                "aiex.dma_configure_task_for" => fifo = op.symbol().unwrap_or(""),
                "aie.dma_bd" => moves.extend(self.transfer(device, sequence, &op, fifo)),
                "aiex.npu.dma_memcpy_nd" => {
                    fifo = op.attribute("metadata").unwrap_or("");
                    moves.extend(self.transfer(device, sequence, &op, fifo));
                }
                "aiex.dma_await_task" | "aiex.npu.dma_wait" => self.wait(device, fifo),
                "aiex.configure" => {
                    let name = op.symbol().unwrap_or("");
                    self.load_pdi(name);
                    if let Target::FullElf(devices) = self.target {
                        let named = devices.iter().find(|device| device.name == name);
                        configured = named.unwrap_or(device);
                    }
                }
                // The sequence of another device, with the same arguments.
                "aiex.run" if is_outermost => {
                    let mut sequences = configured.sequences.iter();
                    if let Some(run) = sequences.find(|it| op.symbol() == Some(&it.name)) {
                        self.sequence(configured, run, false);
                    }
                }
                _ => {}
            }
        }
        if self.program.is_none() {
            self.program = Some(program(self.module, device, sequence, &moves));
        }
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

    /// One transfer of an argument through a FIFO: all of it, or as many elements as are listed.
    fn transfer(
        &mut self,
        device: &Device,
        sequence: &Sequence,
        op: &Operation<'_, 's>,
        fifo: &'s str,
    ) -> Option<(&'s str, usize)> {
        let operands = op.operands();
        let mut arguments = sequence.arguments.iter();
        let argument = arguments.position(|(name, _)| operands.contains(&name.as_str()))?;
        let of = &sequence.arguments.get(argument)?.1;
        let ((column, row), sends) = device.shim(fifo)?;
        let base = column << 25 | row << 20;
        let mut numbers = op
            .parentheses()
            .filter_map(|at| self.module.text(at).parse::<u64>().ok());
        let listed = numbers.next_back().filter(|_| op.name == "aie.dma_bd");
        let elements = of.elements().or(listed).unwrap_or(0);
        // What was waited for is free again.
        let number = self.descriptors % 16;
        self.descriptors += 1;
        let address = base | (0x1_d000 + 0x20 * number);
        let burst = match device.part.generation {
            Generation::Npu1 => 0x8000_0000,
            Generation::Npu2 => 0xc000_0000,
        };
        let length = (elements * of.element_bytes() / 4) as u32;
        // The firmware translates the addresses of the first five.
        let aperture = match self.target {
            Target::Instructions { folds: true } if argument >= 5 => 0x8000_0000,
            _ => 0,
        };
        let queue = if sends { 0x1_d214 } else { 0x1_d204 } + 8 * device.channel(fifo);
        self.instructions.extend([
            Instruction::BlockWrite {
                address,
                words: vec![length, 0, 0, 0, burst, 0x0200_0000, 0, 0x0200_0000],
            },
            Instruction::AddressPatch {
                address: address + 4,
                argument: argument as u32,
                offset: aperture,
            },
            Instruction::Write32 {
                address: base | queue,
                value: u32::from(!sends) << 31 | number,
            },
        ]);
        Some((fifo, argument))
    }

    fn wait(&mut self, device: &Device, fifo: &str) {
        self.descriptors = 0;
        if let Some(((column, _), sends)) = device.shim(fifo) {
            self.instructions.push(Instruction::Sync {
                tile: column << 16 | u32::from(sends),
                channel: device.channel(fifo) << 24 | 0x0001_0100,
            });
        }
    }
}
