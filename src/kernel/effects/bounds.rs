//! Whether a body stays within its arguments, whatever a launch passes: a proof, or none.
//!
//! Every size is a number or a symbol, one for each dynamic dimension of an argument. Structured
//! operations, copies and loops to a dimension's size make symbols equal, which a launch then
//! checks; an index has to be a number, or count up to a size. Each operation is read token by
//! token as its dialect's document has it, and whatever is not, ends the proof: an operation that
//! is not known here, the generic form, an attribute in an unexpected place.

use std::collections::HashMap;

use npu_runtime::Extent;

use self::reader::Reader;
use self::sizes::{Int, Size, Sizes};
use super::Context;
use crate::kernel::tokens::Kind;
use crate::kernel::types::{self, Layout, Type};

mod indices;
mod memory;
mod reader;
mod sizes;
mod structured;

/// For each of `arguments` (name and type), what a launch has to check of its dimensions, so that
/// the body stays within them; `None` if that is not proven.
pub(in crate::kernel) fn extents<'s>(
    context: &Context<'_, 's>,
    (at, end): (usize, usize),
    arguments: &[(&'s str, &Type)],
) -> Option<Vec<Vec<Extent>>> {
    let mut proof = Proof {
        reader: Reader {
            tokens: context.tokens,
            aliases: context.aliases,
            at,
        },
        end,
        frames: vec![Frame::default()],
        values: HashMap::new(),
        sizes: Sizes::default(),
        allocated: Vec::new(),
        may_poison: false,
    };
    let mut shapes = Vec::new();
    for (name, of_type) in arguments {
        let shape: Vec<Size> = match of_type {
            Type::Scalar(_) => Vec::new(),
            Type::Ranked {
                shape,
                layout: Layout::Identity,
                ..
            } => shape.iter().map(|dim| proof.sizes.size(*dim)).collect(),
            Type::Ranked { .. } | Type::Unranked { .. } => return None,
        };
        if !matches!(of_type, Type::Scalar(_)) {
            proof.values.insert(name, Value::Shape(shape.clone()));
        }
        shapes.push(shape);
    }
    proof.run()?;
    if !proof.allocations_fit(&shapes) {
        return None;
    }
    let mut names = HashMap::new();
    let extents = arguments.iter().zip(shapes).map(|((name, _), shape)| {
        let several = shape.len() > 1;
        let extent = |(dim, size): (usize, &Size)| {
            let name = || match several {
                true => format!("{name}[{dim}]"),
                false => (*name).to_owned(),
            };
            proof.sizes.extent(*size, &mut names, name)
        };
        let list: Vec<_> = shape.iter().enumerate().map(extent).collect();
        match list.iter().all(|extent| *extent == Extent::Any) {
            true => Vec::new(),
            false => list,
        }
    });
    Some(extents.collect())
}

/// What is known of a value; nothing of one that has none.
#[derive(Clone)]
enum Value {
    /// A number.
    Int(Int),
    /// Contiguous memory or a tensor, with its dimensions.
    Shape(Vec<Size>),
}

/// An operation whose region is being read, with what is known when that ends.
#[derive(Default)]
struct Frame<'s> {
    results: Results<'s>,
    /// What is known of its results, in order.
    values: Vec<Option<Value>>,
    /// Whether `else` may follow.
    is_if: bool,
    /// Whether `-> type` may follow.
    is_structured: bool,
    /// The memory that was allocated in it and is not freed yet.
    allocated: Vec<&'s str>,
    /// Whether any was freed: nothing that uses memory may follow.
    freed: bool,
}

/// The names on the left of an operation.
#[derive(Default)]
struct Results<'s> {
    names: Vec<&'s str>,
    /// Whether a name stands for several, as `%r:2`.
    packed: bool,
}

struct Proof<'c, 's> {
    reader: Reader<'c, 's>,
    /// The token after the body.
    end: usize,
    /// The body's own, and those around the place.
    frames: Vec<Frame<'s>>,
    /// By name. One that two regions use is given anew in the second before anything reads it.
    values: HashMap<&'s str, Value>,
    sizes: Sizes,
    /// The dimensions of what was allocated, and the bytes of those that are known.
    allocated: Vec<(Vec<Size>, u64)>,
    /// Whether a value may be poison, or memory that was never written.
    may_poison: bool,
}

impl<'s> Proof<'_, 's> {
    fn run(&mut self) -> Option<()> {
        while self.reader.at < self.end {
            let at = self.reader.at;
            match self.reader.tokens.kind(at) {
                Kind::Punct(b'}') => self.end_of_region()?,
                Kind::Block => self.block()?,
                _ => self.operation()?,
            }
        }
        (self.reader.at == self.end && self.frames.len() == 1).then_some(())
    }

    /// `^bb0(%a: f32, %b: f32):`. What jumps to another one ends the proof.
    fn block(&mut self) -> Option<()> {
        self.reader.at += 1;
        if self.reader.tokens.is(self.reader.at, b'(') {
            self.unknown_arguments()?;
        }
        self.reader.punct(b':')
    }

    /// `(%a: f32, %b: f32)`: numbers of which nothing is known.
    fn unknown_arguments(&mut self) -> Option<()> {
        self.reader.punct(b'(')?;
        loop {
            let name = self.reader.value()?;
            self.values.remove(name);
            self.reader.punct(b':')?;
            self.reader.of_type()?;
            self.location();
            if self.reader.eat(b')') {
                return Some(());
            }
            self.reader.punct(b',')?;
        }
    }

    fn location(&mut self) {
        self.reader.at = self.reader.tokens.after_location(self.reader.at);
    }

    fn end_of_region(&mut self) -> Option<()> {
        self.reader.punct(b'}')?;
        let mut frame = self.frames.pop()?;
        if frame.is_if && self.reader.eat_word("else") {
            self.reader.punct(b'{')?;
            (frame.is_if, frame.freed) = (false, false);
            frame.allocated.clear();
            self.frames.push(frame);
            return Some(());
        }
        if frame.is_structured && self.reader.arrow().is_some() {
            self.reader.types()?;
        }
        self.location();
        self.define(&frame.results, frame.values);
        // The body's own is never popped.
        (!self.frames.is_empty()).then_some(())
    }

    /// Reads an operation up to its first region, or with all that it has.
    fn operation(&mut self) -> Option<()> {
        let results = self.results()?;
        let name = self.reader.any_word()?;
        let ends = matches!(
            name,
            "return" | "func.return" | "scf.yield" | "affine.yield" | "memref.dealloc"
        );
        if self.frames.last()?.freed && !ends {
            return None;
        }
        let value = match name {
            "return" | "func.return" | "scf.yield" | "affine.yield" | "linalg.yield" => {
                self.values_that_leave()?;
                None
            }
            "memref.dealloc" => {
                self.free()?;
                None
            }
            "memref.alloc" => {
                let value = self.allocation()?;
                let [name] = results.names.as_slice() else {
                    return None;
                };
                self.frames.last_mut()?.allocated.push(name);
                Some(value)
            }
            "tensor.empty" | "bufferization.alloc_tensor" => Some(self.allocation()?),
            "memref.dim" | "tensor.dim" => self.dimension()?,
            "memref.cast" | "tensor.cast" => Some(self.cast()?),
            "bufferization.to_tensor" => Some(self.tensor_of_memory()?),
            "memref.copy" => {
                self.copy()?;
                None
            }
            "bufferization.materialize_in_destination" => Some(self.materialize()?),
            "memref.load" | "affine.load" => {
                self.access()?;
                None
            }
            "memref.store" | "affine.store" => {
                self.reader.value()?;
                self.reader.punct(b',')?;
                self.access()?;
                None
            }
            "arith.constant" => self.constant()?,
            "linalg.index" => {
                self.reader.number()?;
                self.reader.colon_types()?;
                None
            }
            "scf.for" | "affine.for" => return self.counted_loop(name, results),
            "scf.if" => return self.branch(results),
            _ => match name.split_once('.')?.0 {
                "linalg" => return self.structured(name, results),
                "arith" | "math" | "complex" => self.arithmetic(name)?,
                _ => return None,
            },
        };
        self.location();
        self.define(&results, vec![value]);
        Some(())
    }

    /// `%a, %b:2 =`, or nothing.
    fn results(&mut self) -> Option<Results<'s>> {
        let mut results = Results::default();
        if self.reader.tokens.kind(self.reader.at) != Kind::Value {
            return Some(results);
        }
        loop {
            results.names.push(self.reader.value()?);
            if self.reader.eat(b':') {
                self.reader.number()?;
                results.packed = true;
            }
            if self.reader.eat(b'=') {
                return Some(results);
            }
            self.reader.punct(b',')?;
        }
    }

    /// Gives names what is known of their values.
    fn define(&mut self, results: &Results<'s>, values: Vec<Option<Value>>) {
        let one_each = !results.packed && results.names.len() == values.len();
        let mut values = values.into_iter();
        for name in &results.names {
            match values.next().flatten().filter(|_| one_each) {
                Some(value) => self.values.insert(name, value),
                None => self.values.remove(name),
            };
        }
    }

    /// What is known of the number that is next: a value, or digits.
    fn term(&mut self) -> Option<Int> {
        if let Some(number) = self.reader.number() {
            let number = number.parse().ok();
            return Some(Int::range(number, number));
        }
        let name = self.reader.value()?;
        Some(match self.values.get(name) {
            Some(Value::Int(number)) => *number,
            Some(Value::Shape(_)) | None => Int::Unknown,
        })
    }

    /// The memory or tensor that is next.
    fn shape(&mut self) -> Option<Vec<Size>> {
        let name = self.reader.value()?;
        match self.values.get(name) {
            Some(Value::Shape(shape)) => Some(shape.clone()),
            Some(Value::Int(_)) | None => None,
        }
    }

    /// `%a, %b : type, type`, or nothing.
    fn values_that_leave(&mut self) -> Option<()> {
        if self.reader.tokens.kind(self.reader.at) != Kind::Value {
            return Some(());
        }
        if self.frames.last()?.freed {
            return None;
        }
        self.reader.value()?;
        while self.reader.eat(b',') {
            self.reader.value()?;
        }
        self.reader.colon_types()?;
        Some(())
    }

    /// `scf.if %c -> (types) {`.
    fn branch(&mut self, results: Results<'s>) -> Option<()> {
        if self.may_poison {
            return None;
        }
        self.reader.value()?;
        let values = self.results_by_type()?;
        self.reader.punct(b'{')?;
        self.frames.push(Frame {
            results,
            values,
            is_if: true,
            ..Frame::default()
        });
        Some(())
    }

    /// What `-> (types)` says of results: the shapes that are static. Nothing, if it is not next.
    fn results_by_type(&mut self) -> Option<Vec<Option<Value>>> {
        if self.reader.arrow().is_none() {
            return Some(Vec::new());
        }
        let types = self.reader.types()?;
        Some(types.into_iter().map(static_value).collect())
    }
}

/// What a type alone says of its value.
fn static_value(of_type: &str) -> Option<Value> {
    let shape = shape_of(of_type)?.into_iter();
    let shape: Option<Vec<_>> = shape.map(|dim| dim.map(Size::Known)).collect();
    shape.map(Value::Shape)
}

/// The dimensions of `memref<…>`, if it is contiguous, or of `tensor<…>`.
fn shape_of(text: &str) -> Option<Vec<Option<u64>>> {
    if let Some(inside) = text.strip_prefix("tensor<") {
        let (shape, element) = types::dimensions(inside.strip_suffix('>')?)?;
        return (!element.starts_with('*')).then_some(shape);
    }
    match types::parse(text)? {
        Type::Ranked {
            shape,
            layout: Layout::Identity,
            ..
        } => Some(shape),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
