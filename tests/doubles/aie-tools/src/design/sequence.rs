//! The instruction stream of a runtime sequence: DMA tasks as real aiecc lowers them, then the
//! kernel's program (see [`crate::program`]).

use std::collections::HashMap;

use super::{Device, Sequence};
use crate::kernel::Flow;
use crate::mlir::{Diagnostic, Module, Operation, Type};
use crate::program::Program;
use crate::stream::{Generation, Instruction, Stream};

/// What a stream is for.
#[derive(Clone, Copy, Debug)]
pub enum Target<'t> {
    /// An `insts.bin`. `folds`: addresses of arguments that the firmware does not translate are
    /// translated.
    Instructions { folds: bool },
    /// The control code of a full ELF that numbers these devices' PDIs from 1.
    FullElf(&'t [Device]),
}

/// A FIFO that moves an argument, and whether into the array.
type Move = (String, usize, bool);

struct Lowering<'l, 'm, 's> {
    module: &'m Module<'s>,
    device: &'l Device,
    sequence: &'l Sequence,
    target: Target<'l>,
    instructions: Vec<Instruction>,
    tasks: HashMap<&'s str, Task>,
    /// A bit for each descriptor of a task that nobody has waited for.
    busy: u32,
    moves: Vec<Move>,
    /// What the sequences compute that it runs, if it runs some.
    run: Option<Program>,
    is_outermost: bool,
}

#[derive(Clone, Copy, Default)]
struct Task {
    /// The shim tile's registers.
    base: u32,
    descriptor: u32,
    /// A bit for each.
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

/// The stream of one sequence of a device, unless it depends on values of run time.
pub fn stream(
    module: &Module<'_>,
    device: &Device,
    sequence: &Sequence,
    target: Target<'_>,
) -> Result<Stream, Diagnostic> {
    let mut lowering = Lowering::new(module, device, sequence, target, true);
    lowering.lower()?;
    let own = || program(module, device, sequence, &lowering.moves);
    let program = lowering.run.clone().unwrap_or_else(own);
    lowering.instructions.extend(program.instructions());
    Ok(Stream {
        generation: device.part.generation,
        columns: device.part.columns as u8,
        instructions: lowering.instructions,
    })
}

/// What comes out of the array in terms of what goes in.
fn program(module: &Module<'_>, device: &Device, sequence: &Sequence, moves: &[Move]) -> Program {
    let types: Vec<Type> = sequence
        .arguments
        .iter()
        .map(|(_, of)| of.clone())
        .collect();
    if let Some(hex) = device.cores.iter().find_map(|core| core.program.as_ref()) {
        let words: Option<Vec<u32>> = hex
            .split(' ')
            .map(|word| u32::from_str_radix(word, 16).ok())
            .collect();
        let known = words.and_then(|words| Program::from_words(&words).ok());
        return known.unwrap_or_else(|| Program::opaque(types.len()));
    }
    let mut flow = Flow::new(module, &types, &device.variables);
    for (index, (name, _)) in sequence.arguments.iter().enumerate() {
        flow.name(&format!("the sequence's {name}"), index);
    }
    let name = |index: usize| {
        let argument = sequence.arguments.get(index);
        argument.map_or_else(String::new, |(name, _)| format!("the sequence's {name}"))
    };
    for (fifo, argument, _) in moves.iter().filter(|(.., sends)| *sends) {
        flow.copy(&name(*argument), fifo);
    }
    for (from, to) in &device.links {
        flow.copy(from, to);
    }
    for core in &device.cores {
        flow.read(module.nested(core.body.clone()));
    }
    let mut outputs: Vec<(usize, String)> = Vec::new();
    for (fifo, argument, _) in moves.iter().filter(|(.., sends)| !*sends) {
        if !outputs.iter().any(|(known, _)| known == argument) {
            outputs.push((*argument, fifo.clone()));
        }
    }
    flow.program(&outputs, None)
}

impl<'l, 'm, 's> Lowering<'l, 'm, 's> {
    fn new(
        module: &'m Module<'s>,
        device: &'l Device,
        sequence: &'l Sequence,
        target: Target<'l>,
        is_outermost: bool,
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
            is_outermost,
        }
    }

    fn lower(&mut self) -> Result<(), Diagnostic> {
        for op in self.module.operations(self.sequence.body.clone()) {
            self.frozen(&op)?;
            self.operation(&op)?;
        }
        Ok(())
    }

    /// Refuses an operation that uses a scalar argument. What is run is looked at by itself.
    fn frozen(&self, op: &Operation<'m, 's>) -> Result<(), Diagnostic> {
        let arguments = self.sequence.arguments.iter();
        let mut scalars = arguments.filter(|(_, of)| !of.is_memref());
        let uses =
            |(name, _): &(String, Type)| (op.at..op.end).any(|at| self.module.text(at) == name);
        if op.name == "aiex.configure" || !scalars.any(uses) {
            return Ok(());
        }
        let message = format!(
            "'{}' op value is not a constant: a runtime sequence that depends on its scalar arguments has no static instruction stream",
            op.name
        );
        Err(self.module.at(op.at, message))
    }

    fn operation(&mut self, op: &Operation<'m, 's>) -> Result<(), Diagnostic> {
        let task = op
            .operands()
            .first()
            .and_then(|name| self.tasks.get(name))
            .copied();
        match (op.name, task) {
            ("aiex.npu.load_pdi", _) => {
                self.load_pdi(op.attribute("device_ref").unwrap_or(&self.device.name));
            }
            ("aiex.configure", _) => self.configure_device(op)?,
            ("aiex.sync_scratchpad_parameters_from_host", _) => {
                let bytes = 4 * self.device.variables.len() as u32;
                self.instructions
                    .push(Instruction::CreateScratchpad { bytes });
            }
            ("aiex.dma_configure_task_for", _) => self.configure(op),
            ("aiex.dma_start_task", Some(task)) => self.push_queue(task),
            ("aiex.dma_await_task", Some(task)) => {
                self.sync(task);
                self.busy &= !task.descriptors;
            }
            ("aiex.npu.dma_memcpy_nd", _) => self.memcpy(op),
            ("aiex.npu.dma_wait", _) => {
                let task = self.task(op.attribute("symbol").unwrap_or(""));
                task.into_iter().for_each(|task| self.sync(task));
            }
            _ => {}
        }
        Ok(())
    }

    /// The task of a FIFO, without descriptors.
    fn task(&self, fifo: &str) -> Option<Task> {
        let ((column, row), sends) = self.device.shim(fifo)?;
        Some(Task {
            base: column << 25 | row << 20,
            sends,
            channel: self.device.channel(fifo),
            ..Task::default()
        })
    }

    /// Another device is configured, and sequences of it are run.
    fn configure_device(&mut self, op: &Operation<'m, 's>) -> Result<(), Diagnostic> {
        let name = op.symbol().unwrap_or_default();
        self.load_pdi(name);
        let Target::FullElf(devices) = self.target else {
            return Ok(());
        };
        let Some(device) = devices.iter().find(|device| device.name == name) else {
            return Ok(());
        };
        let runs = op
            .regions()
            .into_iter()
            .flat_map(|region| self.module.operations(region));
        for run in runs.filter(|op| op.name == "aiex.run") {
            let mut sequences = device.sequences.iter();
            if let Some(sequence) = sequences.find(|it| run.symbol() == Some(&it.name)) {
                let passed: Vec<_> = run.operands().iter().map(|it| self.argument(it)).collect();
                self.run(device, sequence, &passed)?;
            }
        }
        Ok(())
    }

    /// The operations of another sequence, with the arguments of this one in the place of its own.
    fn run(
        &mut self,
        device: &Device,
        sequence: &Sequence,
        passed: &[Option<usize>],
    ) -> Result<(), Diagnostic> {
        let mut inner = Lowering::new(self.module, device, sequence, self.target, false);
        // Sequences that run each other end here.
        if self.is_outermost {
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
        self.run = Some(match (is_same && self.run.is_none(), inner.run) {
            (true, None) => program(self.module, device, sequence, &inner.moves),
            _ => Program::opaque(self.sequence.arguments.len()),
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
        let name = op.symbol().unwrap_or("");
        let Some(mut task) = self.task(name) else {
            return;
        };
        task.token = op.attribute("issue_token") == Some("true");
        for bd in op
            .regions()
            .into_iter()
            .flat_map(|region| self.module.operations(region))
        {
            let operands = bd.operands();
            let argument = operands.first().and_then(|name| self.argument(name));
            let Some(argument) = argument.filter(|_| bd.name == "aie.dma_bd") else {
                continue;
            };
            let is_listed = |at: &usize| self.module.text(at - 1) == ",";
            let listed = bd.parentheses().filter(is_listed);
            let mut listed = listed.filter_map(|at| self.module.text(at).parse::<u64>().ok());
            let offset = listed.next().unwrap_or(0);
            let length = listed
                .next()
                .or_else(|| self.elements(argument))
                .unwrap_or(0);
            self.moves.push((name.to_owned(), argument, task.sends));
            let number = self.descriptor(task.base, argument, offset, length);
            if task.descriptors == 0 {
                task.descriptor = number;
            }
            task.descriptors |= 1 << number;
        }
        self.tasks
            .extend(op.results.iter().map(|result| (*result, task)));
    }

    fn elements(&self, argument: usize) -> Option<u64> {
        self.sequence.arguments.get(argument)?.1.elements()
    }

    /// Writes a descriptor for so many elements of an argument, and gives its number.
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
        let of = self.sequence.arguments.get(argument);
        let width = of.map_or(4, |(_, of)| of.element_bytes());
        let length = (length.saturating_mul(width) / 4) as u32;
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
            offset: (offset.saturating_mul(width) as u32).wrapping_add(aperture),
        });
        number
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

    /// `%argument[offsets][sizes][strides]`.
    fn memcpy(&mut self, op: &Operation<'m, 's>) {
        let module = self.module;
        let name = op.attribute("metadata").unwrap_or("");
        let argument = op.operands().iter().find_map(|name| self.argument(name));
        let (Some(argument), Some(mut task)) = (argument, self.task(name)) else {
            return;
        };
        let list = |open: usize| -> Vec<u64> {
            let range = open..module.close(open);
            range
                .filter_map(|at| module.text(at).parse().ok())
                .collect()
        };
        let open = op
            .inner()
            .find(|at| module.text(*at) == "[")
            .unwrap_or(op.end);
        let offset = list(open).last().copied().unwrap_or(0);
        let sizes = list(module.close(open) + 1);
        let length = sizes
            .iter()
            .fold(1u64, |all, size| all.saturating_mul(*size));
        self.moves.push((name.to_owned(), argument, task.sends));
        task.descriptor = self.descriptor(task.base, argument, offset, length);
        let token = op.attribute("issue_token");
        task.token = token.map_or(!task.sends, |token| token == "true");
        self.push_queue(task);
    }
}
