//! Which of the kernels that an emulated device can compute a text is: elementwise steps and matrix
//! products on whole arguments. Its operations are read once, in order, as if each ran once; what
//! is not one of the known operations makes the program opaque, never wrong.

use std::collections::HashMap;

use crate::mlir::{Module, Operation as Op, Type};
use crate::program::{Element, Operand, Operation, Program, Step};

/// What memory or a value holds.
#[derive(Clone, Copy, Debug)]
enum Datum {
    Operand(Operand),
    Number(f64),
}

/// A linalg.generic whose body is being read: where its result goes, and whether it has one.
struct Generic<'s> {
    results: Vec<&'s str>,
    output: &'s str,
    is_known: bool,
}

/// What is known behind the operations read so far. Places are memory and values; the first are
/// the arguments.
pub struct Flow<'m, 's> {
    module: &'m Module<'s>,
    arguments: Vec<Type>,
    variables: Vec<String>,
    names: HashMap<String, usize>,
    contents: Vec<Option<Datum>>,
    written: Vec<usize>,
    steps: Vec<Step>,
    temporaries: u32,
    generic: Option<Generic<'s>>,
    /// The elements of the tile through which an argument is seen.
    tiles: HashMap<usize, u64>,
    grid: u64,
    is_lost: bool,
}

/// Operations whose result is their first operand's memory.
const VIEWS: [&str; 8] = [
    "memref.cast",
    "memref.subview",
    "memref.collapse_shape",
    "memref.expand_shape",
    "memref.memory_space_cast",
    "memref.reinterpret_cast",
    "arith.index_cast",
    "aie.objectfifo.subview.access",
];

/// Operations whose result is what their first operand holds.
const READS: [&str; 8] = [
    "memref.load",
    "affine.load",
    "vector.load",
    "vector.transfer_read",
    "vector.broadcast",
    "bufferization.to_tensor",
    "tensor.extract",
    "tensor.extract_slice",
];

/// Operations that store their first operand in their second.
const WRITES: [&str; 6] = [
    "memref.copy",
    "memref.store",
    "affine.store",
    "vector.store",
    "vector.transfer_write",
    "bufferization.materialize_in_destination",
];

fn arithmetic(name: &str) -> Option<Operation> {
    Some(match name {
        "arith.extsi" | "arith.trunci" | "arith.extf" | "arith.truncf" | "arith.sitofp"
        | "arith.fptosi" => Operation::Copy,
        "arith.addf" | "arith.addi" | "linalg.add" => Operation::Add,
        "arith.subf" | "arith.subi" | "linalg.sub" => Operation::Sub,
        "arith.mulf" | "arith.muli" | "linalg.mul" => Operation::Mul,
        "math.fma" | "vector.fma" => Operation::Fma,
        "arith.maximumf" | "arith.maxnumf" | "arith.maxsi" | "linalg.max" => Operation::Max,
        "arith.minimumf" | "arith.minnumf" | "arith.minsi" | "linalg.min" => Operation::Min,
        _ => return None,
    })
}

impl<'m, 's> Flow<'m, 's> {
    pub fn new(module: &'m Module<'s>, arguments: &[Type], variables: &[String]) -> Self {
        let argument = |(index, of): (usize, &Type)| {
            let operand = Operand::Argument(index as u32);
            of.is_memref().then_some(Datum::Operand(operand))
        };
        Self {
            module,
            arguments: arguments.to_vec(),
            variables: variables.to_vec(),
            names: HashMap::new(),
            contents: arguments.iter().enumerate().map(argument).collect(),
            written: Vec::new(),
            steps: Vec::new(),
            temporaries: 0,
            generic: None,
            tiles: HashMap::new(),
            grid: 1,
            is_lost: false,
        }
    }

    /// Makes `name` a name of argument `index`.
    pub fn name(&mut self, name: &str, index: usize) {
        self.names.insert(name.to_owned(), index);
    }

    /// Lets `name` hold what `source` holds.
    pub fn copy(&mut self, source: &str, name: &str) {
        let datum = self.datum(source);
        self.store(name, datum);
    }

    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.names.get(name) {
            return *place;
        }
        self.contents.push(None);
        let place = self.contents.len() - 1;
        self.names.insert(name.to_owned(), place);
        place
    }

    fn datum(&self, name: &str) -> Option<Datum> {
        let place = self.names.get(name)?;
        self.contents.get(*place).copied().flatten()
    }

    fn store(&mut self, name: &str, datum: Option<Datum>) {
        let place = self.place(name);
        if !self.written.contains(&place) {
            self.written.push(place);
        }
        if let Some(content) = self.contents.get_mut(place) {
            *content = datum;
        }
    }

    fn define(&mut self, results: &[&str], datum: Option<Datum>) {
        for name in results {
            self.names.remove(*name);
            let place = self.place(name);
            if let Some(content) = self.contents.get_mut(place) {
                *content = datum;
            }
        }
    }

    fn alias(&mut self, name: &str, of: &str) {
        let place = self.place(of);
        self.names.insert(name.to_owned(), place);
    }

    /// Reads operations, and those in their regions.
    pub fn read(&mut self, operations: Vec<Op<'m, 's>>) {
        operations.iter().for_each(|op| self.operation(op));
    }

    fn operation(&mut self, op: &Op<'m, 's>) {
        let operands = op.operands();
        let operand = |index: usize| operands.get(index).copied().unwrap_or("");
        match op.name {
            name if VIEWS.contains(&name) => {
                for result in &op.results {
                    self.alias(result, operand(0));
                }
                if name == "memref.reinterpret_cast" {
                    self.tile(op, operand(0));
                }
            }
            name if READS.contains(&name) => self.define(&op.results, self.datum(operand(0))),
            name if WRITES.contains(&name) => self.copy(operand(0), operand(1)),
            "aie.objectfifo.acquire" => {
                for result in &op.results {
                    self.alias(result, op.symbol().unwrap_or(""));
                }
            }
            "aiex.read_scratchpad_parameter" => {
                let word = self
                    .variables
                    .iter()
                    .position(|it| Some(it.as_str()) == op.symbol());
                let datum = word.map(|word| Datum::Operand(Operand::Variable(word as u32)));
                self.define(&op.results, datum);
            }
            "arith.constant" => self.define(&op.results, number(self.module, op)),
            "air.dma_memcpy_nd" => self.dma(op),
            "air.launch" | "air.segment" | "air.herd" => self.hierarchy(op),
            "linalg.generic" => self.generic(op),
            "linalg.yield" => self.yielded(operand(0)),
            name if name.starts_with("linalg.") => self.linalg(op),
            "func.call" | "air.channel.put" | "air.channel.get" => self.is_lost = true,
            name => {
                let element = op
                    .types()
                    .last()
                    .and_then(|of| Element::from_mlir(of.element()));
                let datum = match (arithmetic(name), element) {
                    (Some(operation), Some(of)) => self.apply(operation, of, &operands, [0; 3]),
                    _ => None,
                };
                self.define(&op.results, datum);
            }
        }
    }

    /// A step for `operation`, unless an operand is unknown.
    fn apply(
        &mut self,
        operation: Operation,
        element: Element,
        names: &[&str],
        dimensions: [u32; 3],
    ) -> Option<Datum> {
        let mut operands = [Operand::None; 3];
        for (operand, name) in operands.iter_mut().zip(names) {
            *operand = in_type(self.datum(name)?, element);
        }
        let result = Operand::Temporary(self.temporaries);
        self.temporaries += 1;
        self.steps.push(Step {
            operation,
            element,
            result,
            operands,
            dimensions,
        });
        Some(Datum::Operand(result))
    }

    /// Rows of a tile that do not follow each other are not known here.
    fn tile(&mut self, op: &Op<'m, 's>, of: &str) {
        let module = self.module;
        let Some(tile) = op.types().pop() else { return };
        let place = self.place(of);
        self.tiles.insert(place, tile.elements().unwrap_or(0));
        let stride = op.inner().find(|at| module.text(*at) == "strides");
        let stride = stride.map_or("", |at| module.text(at + 3));
        let stride = match self.datum(stride) {
            Some(Datum::Number(stride)) => Some(stride as u64),
            _ => stride.parse().ok(),
        };
        if let Some([_, columns]) = tile.shape().as_deref()
            && stride != Some(*columns)
        {
            self.is_lost = true;
        }
    }

    /// `(%destination[…] […] […], %source[…] […] […])`.
    fn dma(&mut self, op: &Op<'m, 's>) {
        let range = op.parentheses();
        let (mut named, mut at) = (Vec::new(), range.start);
        while at < range.end {
            named.extend(self.module.values(at..at + 1));
            at = self.module.close(at).max(at) + 1;
        }
        match named.as_slice() {
            [destination, source] => self.copy(source, destination),
            _ => self.is_lost = true,
        }
    }

    /// `in (%size = %constant, …) args(%inner = %outer, …)`.
    fn hierarchy(&mut self, op: &Op<'m, 's>) {
        let module = self.module;
        let pairs = op.outer().into_iter().filter(|at| {
            module.text(*at) == "=" && module.is(at - 1, '%') && module.is(at + 1, '%')
        });
        for at in pairs {
            self.alias(module.text(at - 1), module.text(at + 1));
        }
        if let Some(open) = op.bracket("in").filter(|_| op.name == "air.launch") {
            for name in module.values(open..module.close(open)).skip(1).step_by(2) {
                if let Some(Datum::Number(size)) = self.datum(name) {
                    self.grid = self.grid.saturating_mul(size as u64);
                }
            }
        }
    }

    fn list(&self, op: &Op<'m, 's>, keyword: &str) -> Vec<&'s str> {
        let open = op.bracket(keyword);
        let range = open.map(|open| open..self.module.close(open));
        range.map_or_else(Vec::new, |range| self.module.values(range).collect())
    }

    /// The arguments of its block are the elements of its operands.
    fn generic(&mut self, op: &Op<'m, 's>) {
        let module = self.module;
        let is_known = !op.inner().any(|at| module.text(at) == "\"reduction\"");
        let (mut operands, outputs) = (self.list(op, "ins"), self.list(op, "outs"));
        operands.extend(&outputs);
        if let Some(label) = op.inner().find(|at| module.is(*at, '^')) {
            let block = label + 1..module.close(label + 1);
            for (name, operand) in module.values(block).zip(operands) {
                self.define(&[name], self.datum(operand));
            }
        }
        self.generic = Some(Generic {
            results: op.results.clone(),
            output: outputs.first().copied().unwrap_or(""),
            is_known: is_known && outputs.len() == 1,
        });
    }

    fn yielded(&mut self, name: &str) {
        if let Some(generic) = self.generic.take() {
            let datum = self.datum(name).filter(|_| generic.is_known);
            self.give(&generic.results, generic.output, datum);
        }
    }

    /// A tensor is a result, memory an output.
    fn give(&mut self, results: &[&str], output: &str, datum: Option<Datum>) {
        match results {
            [] => self.store(output, datum),
            _ => self.define(results, datum),
        }
    }

    fn linalg(&mut self, op: &Op<'m, 's>) {
        let (mut inputs, outputs) = (self.list(op, "ins"), self.list(op, "outs"));
        let (Some(output), types) = (outputs.first().copied(), op.types()) else {
            self.is_lost = true;
            return;
        };
        let element = types.last().and_then(|of| Element::from_mlir(of.element()));
        let datum = match (op.name, arithmetic(op.name), element) {
            ("linalg.fill" | "linalg.copy", ..) => inputs.first().and_then(|it| self.datum(it)),
            ("linalg.matmul", _, Some(element)) => {
                inputs.push(output);
                self.dimensions(&types, inputs.first().copied().unwrap_or(""))
                    .and_then(|it| self.apply(Operation::MatMul, element, &inputs, it))
            }
            (_, Some(operation), Some(of)) => self.apply(operation, of, &inputs, [0; 3]),
            _ => None,
        };
        self.give(&op.results, output, datum);
    }

    /// m, n and k of a product of these types; each program of the grid has as many rows.
    fn dimensions(&self, types: &[Type], a: &str) -> Option<[u32; 3]> {
        let shapes: Vec<_> = types.iter().filter_map(Type::shape).collect();
        let (&[m, k], &[depth, n]) = (shapes.first()?.as_slice(), shapes.get(1)?.as_slice()) else {
            return None;
        };
        let tile = match self.datum(a)? {
            Datum::Operand(Operand::Argument(index)) => self.tiles.get(&(index as usize)),
            _ => None,
        };
        let rows = if tile.is_some() {
            m.checked_mul(self.grid)?
        } else {
            m
        };
        let number = |it: u64| u32::try_from(it).ok();
        let sizes = [number(rows)?, number(n)?, number(k)?];
        (depth == k && !sizes.contains(&0)).then_some(sizes)
    }

    /// The arguments that were written.
    pub fn outputs(&self) -> Vec<(usize, String)> {
        let is_argument = |place: &&usize| **place < self.arguments.len();
        let written = self.written.iter().filter(is_argument);
        let name = |place: &usize| self.names.iter().find(|(_, it)| *it == place);
        written
            .filter_map(|place| Some((*place, name(place)?.0.clone())))
            .collect()
    }

    /// The program that gives each argument of `outputs` what the name beside it holds.
    pub fn program(mut self, outputs: &[(usize, String)]) -> Program {
        let opaque = Program::opaque(self.arguments.len());
        let types = self.arguments.iter();
        let arguments: Vec<_> = types
            .map(|of| Element::from_mlir(of.element()).filter(|_| of.is_memref()))
            .collect();
        for (argument, name) in outputs {
            let element = arguments.get(*argument).copied().flatten();
            let (Some(datum), Some(element)) = (self.datum(name), element) else {
                return opaque;
            };
            self.steps.push(Step {
                operation: Operation::Copy,
                element,
                result: Operand::Argument(*argument as u32),
                operands: [in_type(datum, element), Operand::None, Operand::None],
                dimensions: [0; 3],
            });
        }
        if self.is_lost || outputs.is_empty() {
            return opaque;
        }
        let seen = outputs.first().map(|(argument, _)| *argument);
        let tile = seen.and_then(|it| Some(self.tiles.get(&it)?.saturating_mul(self.grid)));
        let whole = seen.and_then(|it| self.arguments.get(it)?.elements());
        Program {
            arguments,
            elements: whole.or(tile).and_then(|it| it.try_into().ok()),
            steps: Some(self.steps),
        }
    }
}

fn in_type(datum: Datum, element: Element) -> Operand {
    match datum {
        Datum::Operand(operand) => operand,
        Datum::Number(it) if element.is_float() => Operand::Constant((it as f32).to_bits()),
        Datum::Number(it) => Operand::Constant(it as i64 as u32),
    }
}

/// A constant. Hexadecimal ones are the bits of a float.
fn number(module: &Module<'_>, op: &Op<'_, '_>) -> Option<Datum> {
    let mut tokens = op.inner().map(|at| module.text(at));
    let first = tokens.next()?;
    let (sign, text) = match first {
        "-" => (-1.0, tokens.next()?),
        text => (1.0, text),
    };
    let of = op.types().pop().unwrap_or_default();
    let value = match (text.strip_prefix("0x"), of.element()) {
        (Some(digits), element) => {
            let bits = u32::from_str_radix(digits, 16).ok()?;
            match element {
                "f32" => f64::from(f32::from_bits(bits)),
                "bf16" => f64::from(f32::from_bits(bits << 16)),
                _ => f64::from(bits),
            }
        }
        (None, _) => text.parse().ok()?,
    };
    Some(Datum::Number(sign * value))
}
