//! Execution of a program on buffers in memory. Every value of every element type is an f64.

use super::{Element, Operand, Operation, Program, Step};

/// Why a program cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CannotRun {
    /// The compiler's double did not understand the kernel.
    Opaque,
    /// A step names an argument, a temporary or a variable that is not there.
    Missing(Operand),
    /// An argument is too short.
    Short {
        argument: u32,
        needed: usize,
        actual: usize,
    },
}

/// Rounds to bfloat16, to nearest even; a NaN stays one.
fn bf16_bits(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    (rounded >> 16) as u16
}

/// The value as one of the type: wrapped, or rounded.
fn convert(element: Element, value: f64) -> f64 {
    match element {
        Element::I8 => f64::from(value as i64 as i8),
        Element::I16 => f64::from(value as i64 as i16),
        Element::I32 => f64::from(value as i64 as i32),
        Element::Bf16 => f64::from(f32::from_bits(u32::from(bf16_bits(value as f32)) << 16)),
        Element::F32 => f64::from(value as f32),
    }
}

fn read(element: Element, bytes: &[u8]) -> f64 {
    let mut word = [0; 4];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    let word = u32::from_le_bytes(word);
    match element {
        Element::I8 => f64::from(word as i8),
        Element::I16 => f64::from(word as i16),
        Element::I32 => f64::from(word as i32),
        Element::Bf16 => f64::from(f32::from_bits(word << 16)),
        Element::F32 => f64::from(f32::from_bits(word)),
    }
}

fn bits(element: Element, value: f64) -> u32 {
    match element {
        Element::Bf16 => u32::from(bf16_bits(value as f32)),
        Element::F32 => (value as f32).to_bits(),
        _ => value as i64 as u32,
    }
}

/// One elementwise operation. Floats are rounded once.
fn apply(operation: Operation, element: Element, [a, b, c]: [f64; 3]) -> f64 {
    let result = match (operation, element.is_float()) {
        (Operation::Copy | Operation::MatMul, _) => a,
        (Operation::Max, _) => a.max(b),
        (Operation::Min, _) => a.min(b),
        (Operation::Add, true) => f64::from(a as f32 + b as f32),
        (Operation::Sub, true) => f64::from(a as f32 - b as f32),
        (Operation::Mul, true) => f64::from(a as f32 * b as f32),
        (Operation::Fma, true) => f64::from((a as f32).mul_add(b as f32, c as f32)),
        (operation, false) => {
            let [a, b, c] = [a, b, c].map(|it| it as i32);
            f64::from(match operation {
                Operation::Add => a.wrapping_add(b),
                Operation::Sub => a.wrapping_sub(b),
                Operation::Mul => a.wrapping_mul(b),
                _ => a.wrapping_mul(b).wrapping_add(c),
            })
        }
    };
    convert(element, result)
}

/// A run under way.
struct Run<'r, 'a> {
    program: &'r Program,
    arguments: &'r mut [&'a mut [u8]],
    variables: &'r [u8],
    temporaries: Vec<Vec<f64>>,
}

impl Program {
    /// Runs the program on its arguments' bytes and on the control scratchpad.
    ///
    /// # Errors
    /// Nothing is known of the computation, or it reaches past what there is.
    pub fn run(&self, arguments: &mut [&mut [u8]], variables: &[u8]) -> Result<(), CannotRun> {
        let steps = self.steps.as_deref().ok_or(CannotRun::Opaque)?;
        let mut run = Run {
            program: self,
            arguments,
            variables,
            temporaries: Vec::new(),
        };
        steps.iter().try_for_each(|step| run.step(step))
    }
}

impl Run<'_, '_> {
    fn element(&self, argument: u32) -> Result<Element, CannotRun> {
        let element = self.program.arguments.get(argument as usize);
        let missing = CannotRun::Missing(Operand::Argument(argument));
        element.copied().flatten().ok_or(missing)
    }

    fn step(&mut self, step: &Step) -> Result<(), CannotRun> {
        let [m, n, k] = step.dimensions.map(|d| d as usize);
        let [a, b, c] = step.operands;
        let result = if step.operation == Operation::MatMul {
            let a = self.operand(step, a, m * k)?;
            let b = self.operand(step, b, k * n)?;
            let mut result = self.operand(step, c, m * n)?;
            let at = |values: &[f64], index: usize| values.get(index).copied().unwrap_or(0.0);
            for (index, sum) in result.iter_mut().enumerate() {
                for p in 0..k {
                    let (x, y) = (at(&a, index / n * k + p), at(&b, p * n + index % n));
                    let product = apply(Operation::Mul, step.element, [x, y, 0.0]);
                    *sum = apply(Operation::Add, step.element, [product, *sum, 0.0]);
                }
            }
            result
        } else {
            let count = match self.program.elements {
                Some(elements) => elements as usize,
                None => self.room(step)?,
            };
            let (a, b) = (self.operand(step, a, count)?, self.operand(step, b, count)?);
            let c = self.operand(step, c, count)?;
            let values = a.iter().zip(b).zip(c);
            values
                .map(|((a, b), c)| apply(step.operation, step.element, [*a, b, c]))
                .collect()
        };
        self.give(step, result)
    }

    /// How many elements fit into every argument and temporary that the step touches.
    fn room(&self, step: &Step) -> Result<usize, CannotRun> {
        let mut room = None;
        for operand in step.operands.into_iter().chain([step.result]) {
            let length = match operand {
                Operand::Argument(index) => {
                    let bytes = self.arguments.get(index as usize).map_or(0, |a| a.len());
                    bytes / self.element(index)?.bytes()
                }
                Operand::Temporary(index) if operand != step.result => {
                    self.temporaries.get(index as usize).map_or(0, Vec::len)
                }
                _ => continue,
            };
            room = Some(room.unwrap_or(length).min(length));
        }
        Ok(room.unwrap_or(1))
    }

    fn operand(&self, step: &Step, operand: Operand, count: usize) -> Result<Vec<f64>, CannotRun> {
        let missing = CannotRun::Missing(operand);
        // Constants and variables are as wide as the type that is computed in, or 32 bits.
        let repeated = |bits: u32| {
            let wide = if step.element.is_float() {
                Element::F32
            } else {
                Element::I32
            };
            let value = convert(step.element, read(wide, &bits.to_le_bytes()));
            vec![value; count]
        };
        Ok(match operand {
            Operand::None => vec![0.0; count],
            Operand::Constant(bits) => repeated(bits),
            Operand::Variable(word) => {
                let four = self
                    .variables
                    .get(word as usize * 4..)
                    .and_then(|it| it.first_chunk());
                repeated(u32::from_le_bytes(*four.ok_or(missing)?))
            }
            Operand::Temporary(index) => {
                let values = self.temporaries.get(index as usize).ok_or(missing)?;
                values.iter().map(|it| convert(step.element, *it)).collect()
            }
            Operand::Argument(index) => {
                let element = self.element(index)?;
                let bytes = self.arguments.get(index as usize).ok_or(missing)?;
                let needed = count * element.bytes();
                let bytes = bytes.get(..needed).ok_or(CannotRun::Short {
                    argument: index,
                    needed,
                    actual: bytes.len(),
                })?;
                let values = bytes.chunks_exact(element.bytes());
                values
                    .map(|bytes| convert(step.element, read(element, bytes)))
                    .collect()
            }
        })
    }

    fn give(&mut self, step: &Step, result: Vec<f64>) -> Result<(), CannotRun> {
        let missing = CannotRun::Missing(step.result);
        match step.result {
            Operand::Argument(index) => {
                let element = self.element(index)?;
                let width = element.bytes();
                let argument = self.arguments.get_mut(index as usize).ok_or(missing)?;
                let (needed, actual) = (result.len() * width, argument.len());
                let room = argument.get_mut(..needed).ok_or(CannotRun::Short {
                    argument: index,
                    needed,
                    actual,
                })?;
                for (bytes, value) in room.chunks_exact_mut(width).zip(result) {
                    let word = bits(element, convert(element, value)).to_le_bytes();
                    bytes.iter_mut().zip(word).for_each(|(to, from)| *to = from);
                }
                Ok(())
            }
            Operand::Temporary(index) if index < 4096 => {
                let index = index as usize;
                if self.temporaries.len() <= index {
                    self.temporaries.resize(index + 1, Vec::new());
                }
                if let Some(temporary) = self.temporaries.get_mut(index) {
                    *temporary = result;
                }
                Ok(())
            }
            _ => Err(missing),
        }
    }
}
