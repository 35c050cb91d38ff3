//! Execution of a program on buffers in memory.

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
        /// Which.
        argument: u32,
        /// How many bytes it would need.
        needed: usize,
        /// How many it has.
        actual: usize,
    },
}

/// The values of an operand, in the type that a step computes in.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Integers, wrapped to the type's width.
    Integers(Vec<i32>),
    /// Floats, rounded to the type.
    Floats(Vec<f32>),
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

fn round(element: Element, value: f32) -> f32 {
    match element {
        Element::Bf16 => f32::from_bits(u32::from(bf16_bits(value)) << 16),
        _ => value,
    }
}

fn wrap(element: Element, value: i32) -> i32 {
    match element {
        Element::I8 => i32::from(value as i8),
        Element::I16 => i32::from(value as i16),
        _ => value,
    }
}

fn read(element: Element, bytes: &[u8]) -> Values {
    let chunks = bytes.chunks_exact(element.bytes());
    let narrow = |c: &[u8]| <[u8; 2]>::try_from(c).unwrap_or_default();
    let wide = |c: &[u8]| <[u8; 4]>::try_from(c).unwrap_or_default();
    match element {
        Element::I8 => Values::Integers(bytes.iter().map(|b| i32::from(*b as i8)).collect()),
        Element::I16 => Values::Integers(
            chunks
                .map(|c| i32::from(i16::from_le_bytes(narrow(c))))
                .collect(),
        ),
        Element::I32 => Values::Integers(chunks.map(|c| i32::from_le_bytes(wide(c))).collect()),
        Element::Bf16 => {
            let bits = chunks.map(|c| u32::from(u16::from_le_bytes(narrow(c))) << 16);
            Values::Floats(bits.map(f32::from_bits).collect())
        }
        Element::F32 => Values::Floats(chunks.map(|c| f32::from_le_bytes(wide(c))).collect()),
    }
}

fn written(element: Element, values: &Values) -> Vec<u8> {
    let bytes = |v: i32| v.to_le_bytes().into_iter().take(element.bytes());
    match convert(element, values) {
        Values::Integers(values) => values.into_iter().flat_map(bytes).collect(),
        Values::Floats(values) => match element {
            Element::Bf16 => values
                .into_iter()
                .flat_map(|v| bf16_bits(v).to_le_bytes())
                .collect(),
            _ => values.into_iter().flat_map(f32::to_le_bytes).collect(),
        },
    }
}

fn convert(element: Element, values: &Values) -> Values {
    match (values, element.is_float()) {
        (Values::Integers(v), false) => {
            Values::Integers(v.iter().map(|v| wrap(element, *v)).collect())
        }
        (Values::Integers(v), true) => {
            Values::Floats(v.iter().map(|v| round(element, *v as f32)).collect())
        }
        (Values::Floats(v), true) => Values::Floats(v.iter().map(|v| round(element, *v)).collect()),
        (Values::Floats(v), false) => {
            Values::Integers(v.iter().map(|v| wrap(element, *v as i32)).collect())
        }
    }
}

/// A run under way.
struct Run<'r, 'a> {
    program: &'r Program,
    arguments: &'r mut [&'a mut [u8]],
    variables: &'r [u8],
    temporaries: Vec<Option<Values>>,
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
        let element = self
            .program
            .arguments
            .get(argument as usize)
            .copied()
            .flatten();
        element.ok_or(CannotRun::Missing(Operand::Argument(argument)))
    }

    fn step(&mut self, step: &Step) -> Result<(), CannotRun> {
        let [m, n, k] = step.dimensions.map(|d| d as usize);
        let count = match (step.operation, self.program.elements) {
            (Operation::MatMul, _) => m * n,
            (_, Some(elements)) => elements as usize,
            (_, None) => self.room(step)?,
        };
        let sizes = match step.operation {
            Operation::MatMul => [m * k, k * n, m * n],
            _ => [count; 3],
        };
        let [a, b, c] = step.operands;
        let [size_a, size_b, size_c] = sizes;
        let operands = [
            self.operand(step, a, size_a)?,
            self.operand(step, b, size_b)?,
            self.operand(step, c, size_c)?,
        ];
        let result = compute(step, &operands, [m, n, k]);
        self.give(step, &result)
    }

    /// How many elements fit into every argument that the step touches.
    fn room(&self, step: &Step) -> Result<usize, CannotRun> {
        let mut room = usize::MAX;
        for operand in step.operands.into_iter().chain([step.result]) {
            match operand {
                Operand::Argument(index) => {
                    let element = self.element(index)?;
                    let bytes = self.arguments.get(index as usize).map_or(0, |a| a.len());
                    room = room.min(bytes / element.bytes());
                }
                Operand::Temporary(index) => {
                    let length = match self.temporaries.get(index as usize) {
                        Some(Some(Values::Integers(v))) => v.len(),
                        Some(Some(Values::Floats(v))) => v.len(),
                        // The result, which is not there yet.
                        _ => usize::MAX,
                    };
                    room = room.min(length);
                }
                _ => {}
            }
        }
        Ok(if room == usize::MAX { 1 } else { room })
    }

    fn operand(&self, step: &Step, operand: Operand, count: usize) -> Result<Values, CannotRun> {
        let missing = CannotRun::Missing(operand);
        let repeated = |bits: u32| match step.element.is_float() {
            true => Values::Floats(vec![f32::from_bits(bits); count]),
            false => Values::Integers(vec![bits as i32; count]),
        };
        let values = match operand {
            Operand::None => Values::Integers(Vec::new()),
            Operand::Constant(bits) => repeated(bits),
            Operand::Variable(word) => {
                let at = word as usize * 4;
                let four = self
                    .variables
                    .get(at..at + 4)
                    .and_then(|four| four.try_into().ok());
                repeated(u32::from_le_bytes(four.ok_or(missing)?))
            }
            Operand::Temporary(index) => {
                let values = self.temporaries.get(index as usize).cloned().flatten();
                values.ok_or(missing)?
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
                read(element, bytes)
            }
        };
        Ok(convert(step.element, &values))
    }

    fn give(&mut self, step: &Step, result: &Values) -> Result<(), CannotRun> {
        let missing = CannotRun::Missing(step.result);
        match step.result {
            Operand::Argument(index) => {
                let bytes = written(self.element(index)?, result);
                let argument = self.arguments.get_mut(index as usize).ok_or(missing)?;
                let actual = argument.len();
                let room = argument.get_mut(..bytes.len()).ok_or(CannotRun::Short {
                    argument: index,
                    needed: bytes.len(),
                    actual,
                })?;
                room.copy_from_slice(&bytes);
                Ok(())
            }
            Operand::Temporary(index) if index < 4096 => {
                let index = index as usize;
                if self.temporaries.len() <= index {
                    self.temporaries.resize(index + 1, None);
                }
                if let Some(temporary) = self.temporaries.get_mut(index) {
                    *temporary = Some(result.clone());
                }
                Ok(())
            }
            _ => Err(missing),
        }
    }
}

fn compute(step: &Step, [a, b, c]: &[Values; 3], dimensions: [usize; 3]) -> Values {
    match (a, b, c) {
        (Values::Integers(a), Values::Integers(b), Values::Integers(c)) => {
            let fma = |x: i32, y: i32, z: i32| x.wrapping_mul(y).wrapping_add(z);
            let one = |x: i32, y: i32, z: i32| match step.operation {
                Operation::Copy | Operation::MatMul => x,
                Operation::Add => x.wrapping_add(y),
                Operation::Sub => x.wrapping_sub(y),
                Operation::Mul => x.wrapping_mul(y),
                Operation::Fma => fma(x, y, z),
                Operation::Max => x.max(y),
                Operation::Min => x.min(y),
            };
            let values = match step.operation {
                Operation::MatMul => product(a, b, c, dimensions, fma),
                _ => elementwise(a, b, c, one),
            };
            convert(step.element, &Values::Integers(values))
        }
        (Values::Floats(a), b, c) => {
            let (b, c) = (floats(b), floats(c));
            let rounded = |v: f32| round(step.element, v);
            let one = |x: f32, y: f32, z: f32| match step.operation {
                Operation::Copy | Operation::MatMul => x,
                Operation::Add => x + y,
                Operation::Sub => x - y,
                Operation::Mul => x * y,
                Operation::Fma => x.mul_add(y, z),
                Operation::Max => x.max(y),
                Operation::Min => x.min(y),
            };
            Values::Floats(match step.operation {
                Operation::MatMul => {
                    product(a, b, c, dimensions, |x, y, z| rounded(rounded(x * y) + z))
                }
                _ => elementwise(a, b, c, |x, y, z| rounded(one(x, y, z))),
            })
        }
        _ => Values::Integers(Vec::new()),
    }
}

fn floats(values: &Values) -> &[f32] {
    match values {
        Values::Floats(values) => values,
        Values::Integers(_) => &[],
    }
}

fn elementwise<T: Copy + Default>(a: &[T], b: &[T], c: &[T], f: impl Fn(T, T, T) -> T) -> Vec<T> {
    let or_default = |values: &[T], i: usize| values.get(i).copied().unwrap_or_default();
    let indexed = a.iter().enumerate();
    indexed
        .map(|(i, x)| f(*x, or_default(b, i), or_default(c, i)))
        .collect()
}

fn product<T: Copy + Default>(
    a: &[T],
    b: &[T],
    c: &[T],
    [m, n, k]: [usize; 3],
    fma: impl Fn(T, T, T) -> T,
) -> Vec<T> {
    let at = |values: &[T], i: usize| values.get(i).copied().unwrap_or_default();
    let mut result = Vec::with_capacity(m * n);
    for i in 0..m {
        for j in 0..n {
            let start = at(c, i * n + j);
            result.push((0..k).fold(start, |sum, p| fma(at(a, i * k + p), at(b, p * n + j), sum)));
        }
    }
    result
}
