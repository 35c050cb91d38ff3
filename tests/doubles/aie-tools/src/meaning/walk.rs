//! The walk through operations that gives every value its expression.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use super::Expression;
use crate::mlir::{Kind, Module, Operation as Op, Type};
use crate::program::{Element, Operation};

/// Where memory comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// An argument of the kernel.
    Argument(usize),
    /// An object FIFO.
    Fifo(String),
    /// Memory inside the kernel.
    Local(usize),
}

/// How a piece of memory is looked at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The dimensions.
    pub shape: Vec<Option<u64>>,
    /// Elements from one row to the next, if known and not the row's length.
    pub row_stride: Option<u64>,
    /// The element type.
    pub element: String,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Memory(Root, View),
    Data(Rc<Expression>, View),
}

/// A walk, and what it knows so far.
#[derive(Debug)]
pub struct Walk<'m, 's> {
    pub(super) module: &'m Module<'s>,
    pub(super) values: HashMap<&'s str, Value>,
    contents: HashMap<Root, Rc<Expression>>,
    pub(super) channels: HashMap<String, Rc<Expression>>,
    locals: usize,
    /// What memory holds that was written, in the order of first writes.
    pub written: Vec<Root>,
    /// The tile of each argument that is looked at through one.
    pub tiles: HashMap<usize, View>,
    /// The product of the launch grids seen.
    pub grid: Vec<u64>,
}

pub(super) fn unknown() -> Rc<Expression> {
    Rc::new(Expression::Unknown)
}

fn view(of: &Type) -> View {
    View {
        shape: of.shape.clone().unwrap_or_default(),
        row_stride: None,
        element: of.element.clone(),
    }
}

/// Operations whose result is their first operand, looked at in another way.
const VIEWS: [&str; 16] = [
    "memref.cast",
    "memref.subview",
    "memref.collapse_shape",
    "memref.expand_shape",
    "memref.memory_space_cast",
    "memref.assume_alignment",
    "tensor.extract_slice",
    "tensor.cast",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "bufferization.to_memref",
    "bufferization.to_buffer",
    "vector.shape_cast",
    "vector.broadcast",
    "vector.splat",
    "memref.transpose",
];

/// Operations that convert to the type they end in.
const CONVERSIONS: [&str; 6] = [
    "arith.extsi",
    "arith.trunci",
    "arith.extf",
    "arith.truncf",
    "arith.sitofp",
    "arith.fptosi",
];

pub(super) fn arithmetic(name: &str) -> Option<Operation> {
    Some(match name {
        "arith.addf" | "arith.addi" | "linalg.add" => Operation::Add,
        "arith.subf" | "arith.subi" | "linalg.sub" => Operation::Sub,
        "arith.mulf" | "arith.muli" | "linalg.mul" => Operation::Mul,
        "math.fma" | "vector.fma" => Operation::Fma,
        "arith.maximumf" | "arith.maxnumf" | "arith.maxsi" | "linalg.max" => Operation::Max,
        "arith.minimumf" | "arith.minnumf" | "arith.minsi" | "linalg.min" => Operation::Min,
        _ => return None,
    })
}

impl<'m, 's> Walk<'m, 's> {
    /// A walk that knows nothing yet.
    pub fn new(module: &'m Module<'s>) -> Self {
        Self {
            module,
            values: HashMap::new(),
            contents: HashMap::new(),
            channels: HashMap::new(),
            locals: 0,
            written: Vec::new(),
            tiles: HashMap::new(),
            grid: Vec::new(),
        }
    }

    /// Makes `name` an argument of the kernel.
    pub fn argument(&mut self, name: &'s str, index: usize, of: &Type) {
        let memory = Value::Memory(Root::Argument(index), view(of));
        let scalar = Value::Data(
            Rc::new(Expression::Initial(Root::Argument(index))),
            view(of),
        );
        self.values
            .insert(name, if of.is_memref() { memory } else { scalar });
    }

    /// What `root` holds now, channels resolved.
    pub fn content(&self, root: &Root) -> Rc<Expression> {
        let content = self.contents.get(root).cloned();
        let content = content.unwrap_or_else(|| Rc::new(Expression::Initial(root.clone())));
        self.resolve(&content, 0)
    }

    /// Replaces channels by what was put into them.
    fn resolve(&self, expression: &Rc<Expression>, depth: usize) -> Rc<Expression> {
        if depth > 64 {
            return unknown();
        }
        match &**expression {
            Expression::Channel(name) => match self.channels.get(name) {
                Some(source) => self.resolve(source, depth + 1),
                None => unknown(),
            },
            Expression::Apply(operation, operands, element) => {
                let operands = operands
                    .iter()
                    .map(|o| self.resolve(o, depth + 1))
                    .collect();
                Rc::new(Expression::Apply(*operation, operands, *element))
            }
            Expression::Product([a, b, c], dimensions, element) => {
                let operands = [a, b, c].map(|o| self.resolve(o, depth + 1));
                Rc::new(Expression::Product(operands, *dimensions, *element))
            }
            _ => expression.clone(),
        }
    }

    fn read(&self, value: &Value) -> Rc<Expression> {
        match value {
            Value::Data(expression, _) => expression.clone(),
            Value::Memory(root, _) => {
                let content = self.contents.get(root).cloned();
                content.unwrap_or_else(|| match root {
                    Root::Local(_) => unknown(),
                    root => Rc::new(Expression::Initial(root.clone())),
                })
            }
        }
    }

    pub(super) fn expression(&self, name: &str) -> Rc<Expression> {
        let base = name.split('#').next().unwrap_or(name);
        let value = self.values.get(name).or_else(|| self.values.get(base));
        value.map_or_else(unknown, |value| self.read(value))
    }

    pub(super) fn view_of(&self, name: &str) -> View {
        match self.values.get(name) {
            Some(Value::Memory(_, view) | Value::Data(_, view)) => view.clone(),
            None => View::default(),
        }
    }

    pub(super) fn store(&mut self, target: &str, expression: Rc<Expression>) {
        match self.values.get(target) {
            Some(Value::Memory(root, _)) => {
                let root = root.clone();
                if !self.written.contains(&root) {
                    self.written.push(root.clone());
                }
                self.contents.insert(root, expression);
            }
            // A tensor that is an output operand.
            Some(Value::Data(..)) | None => {}
        }
    }

    pub(super) fn define(&mut self, names: &[&'s str], expression: Rc<Expression>, view: View) {
        for name in names {
            self.values
                .insert(name, Value::Data(expression.clone(), view.clone()));
        }
    }

    pub(super) fn local(&mut self, names: &[&'s str], of: Option<Type>) {
        for name in names {
            let root = Root::Local(self.locals);
            self.locals += 1;
            let view = of.as_ref().map(view).unwrap_or_default();
            self.values.insert(name, Value::Memory(root, view));
        }
    }

    pub(super) fn constant(&self, name: &str) -> Option<u64> {
        match &*self.expression(name) {
            Expression::Constant(value) if *value >= 0.0 => Some(*value as u64),
            _ => None,
        }
    }

    /// Walks through the operations of a range, and gives what the last of them yields.
    pub fn range(&mut self, range: Range<usize>) -> Vec<Rc<Expression>> {
        let mut yielded = Vec::new();
        for op in self.module.operations(range) {
            match op.name {
                "linalg.yield" | "scf.yield" | "affine.yield" => {
                    yielded = op.operands().iter().map(|o| self.expression(o)).collect();
                }
                _ => self.operation(&op),
            }
        }
        yielded
    }

    fn operation(&mut self, op: &Op<'m, 's>) {
        let operands = op.operands();
        let first = operands.first().copied().unwrap_or("");
        let second = operands.get(1).copied().unwrap_or("");
        if VIEWS.contains(&op.name) {
            self.alias(op, first);
        } else if CONVERSIONS.contains(&op.name) {
            let element = op.last_type().and_then(|t| Element::from_mlir(&t.element));
            let operand = self.expression(first);
            let converted = Expression::Apply(Operation::Copy, vec![operand], element);
            self.define(&op.results, Rc::new(converted), view_of_type(op));
        } else if let (Some(operation), false) =
            (arithmetic(op.name), op.name.starts_with("linalg"))
        {
            let expression = self.apply(operation, &operands, op.last_type());
            self.define(&op.results, expression, view_of_type(op));
        } else if op.name.starts_with("linalg.") {
            self.linalg(op);
        } else {
            match op.name {
                "arith.constant" => self.constant_operation(op),
                "arith.index_cast" | "builtin.unrealized_conversion_cast" => {
                    let expression = self.expression(first);
                    self.define(&op.results, expression, View::default());
                }
                "memref.reinterpret_cast" => self.reinterpret(op, first),
                "bufferization.to_tensor"
                | "memref.load"
                | "affine.load"
                | "vector.load"
                | "vector.transfer_read"
                | "tensor.extract" => {
                    let expression = self.expression(first);
                    let view = self.view_of(first);
                    self.define(&op.results, expression, view);
                }
                "memref.alloc"
                | "memref.alloca"
                | "tensor.empty"
                | "bufferization.alloc_tensor" => {
                    self.local(&op.results, op.last_type());
                }
                "memref.copy"
                | "memref.store"
                | "affine.store"
                | "vector.store"
                | "vector.transfer_write"
                | "bufferization.materialize_in_destination" => {
                    let expression = self.expression(first);
                    self.store(second, expression);
                }
                "memref.dealloc" | "air.wait_all" | "air.herd_terminator" => {}
                "air.dma_memcpy_nd" => self.dma(op, &operands),
                "air.channel.put" | "air.channel.get" => self.channel(op, &operands),
                "air.launch" | "air.segment" | "air.herd" => self.hierarchy(op),
                "aie.objectfifo.acquire" => self.acquire(op),
                "aie.objectfifo.subview.access" => self.alias(op, first),
                "aie.buffer" => self.local(&op.results, op.last_type()),
                "aiex.read_scratchpad_parameter" => {
                    let name = op.symbol().unwrap_or("").to_owned();
                    self.define(
                        &op.results,
                        Rc::new(Expression::Variable(name)),
                        View::default(),
                    );
                }
                "func.call" => self.call(op, &operands),
                _ => self.regions(op),
            }
        }
    }

    fn apply(&self, operation: Operation, operands: &[&str], of: Option<Type>) -> Rc<Expression> {
        let operands: Vec<_> = operands.iter().map(|o| self.expression(o)).collect();
        let element = of.as_ref().map_or("", |t| t.element.as_str());
        if element == "index" {
            let constants: Option<Vec<f64>> = operands
                .iter()
                .map(|o| match &**o {
                    Expression::Constant(value) => Some(*value),
                    _ => None,
                })
                .collect();
            let folded = match (operation, constants.as_deref()) {
                (Operation::Add, Some([a, b])) => Some(a + b),
                (Operation::Sub, Some([a, b])) => Some(a - b),
                (Operation::Mul, Some([a, b])) => Some(a * b),
                _ => None,
            };
            return folded.map_or_else(unknown, |value| Rc::new(Expression::Constant(value)));
        }
        match Element::from_mlir(element) {
            Some(element) => Rc::new(Expression::Apply(operation, operands, Some(element))),
            None => unknown(),
        }
    }

    fn alias(&mut self, op: &Op<'m, 's>, operand: &str) {
        let Some(value) = self.values.get(operand).cloned() else {
            return;
        };
        let mut seen = view_of_type(op);
        seen.row_stride = self.view_of(operand).row_stride;
        let value = match value {
            Value::Memory(root, _) => Value::Memory(root, seen),
            Value::Data(expression, _) => Value::Data(expression, seen),
        };
        for name in &op.results {
            self.values.insert(name, value.clone());
        }
    }

    fn reinterpret(&mut self, op: &Op<'m, 's>, operand: &str) {
        self.alias(op, operand);
        let stride = op
            .inner()
            .find(|i| self.module.text(*i) == "strides")
            .map(|i| i + 3);
        let stride = stride.and_then(|i| match self.module.kind(i) {
            // 0 stands for one that is known at run time only, and makes a product opaque.
            Kind::Value => Some(self.constant(self.module.text(i)).unwrap_or(0)),
            _ => self.module.text(i).parse().ok(),
        });
        for name in &op.results {
            if let Some(Value::Memory(root, view)) = self.values.get_mut(name) {
                if view.shape.len() > 1 {
                    view.row_stride = stride;
                }
                if let Root::Argument(index) = root {
                    self.tiles.insert(*index, view.clone());
                }
            }
        }
    }

    fn constant_operation(&mut self, op: &Op<'m, 's>) {
        let module = self.module;
        let negative = op.inner().any(|i| module.text(i) == "-");
        let value = op
            .inner()
            .find_map(|i| match (module.kind(i), module.text(i)) {
                (Kind::Number, text) => literal(text, op.last_type()),
                (_, "true") => Some(1.0),
                (_, "false") => Some(0.0),
                _ => None,
            });
        let expression = value.map_or(Expression::Unknown, |value| {
            Expression::Constant(if negative { -value } else { value })
        });
        self.define(&op.results, Rc::new(expression), view_of_type(op));
    }

    /// Control flow: loop values start as their initial ones, results are what is yielded last.
    pub(super) fn regions(&mut self, op: &Op<'m, 's>) {
        let module = self.module;
        let at = op.inner().find(|i| module.text(*i) == "iter_args");
        if let Some(at) = at {
            let pairs: Vec<_> = (at + 2..module.close(at + 1))
                .filter(|i| module.text(*i) == "=")
                .map(|i| (module.text(i - 1), module.text(i + 1)))
                .collect();
            self.bind(&pairs);
        }
        let mut yielded = Vec::new();
        for region in op.regions() {
            yielded = self.range(region);
        }
        match (op.results.as_slice(), yielded.as_slice()) {
            ([], _) => {}
            ([one], [expression, ..]) => {
                let one = [*one];
                self.define(&one, expression.clone(), view_of_type(op));
            }
            (results, _) => {
                let results = results.to_vec();
                self.define(&results, unknown(), View::default());
            }
        }
    }

    fn acquire(&mut self, op: &Op<'m, 's>) {
        let Some(name) = op.symbol() else { return };
        for result in &op.results {
            let root = Root::Fifo(name.to_owned());
            self.values
                .insert(result, Value::Memory(root, view_of_type(op)));
        }
    }
}

pub(super) fn view_of_type(op: &Op<'_, '_>) -> View {
    op.last_type().map(|t| view(&t)).unwrap_or_default()
}

/// A number as MLIR writes it; hexadecimal ones are the bits of a float.
fn literal(text: &str, of: Option<Type>) -> Option<f64> {
    let Some(digits) = text.strip_prefix("0x") else {
        return text.parse().ok();
    };
    let bits = u64::from_str_radix(digits, 16).ok()?;
    match of.map(|t| t.element).as_deref() {
        Some("f32") => Some(f64::from(f32::from_bits(bits as u32))),
        Some("bf16") => Some(f64::from(f32::from_bits((bits as u32) << 16))),
        Some("f64") => Some(f64::from_bits(bits)),
        _ => Some(bits as f64),
    }
}
