//! Whether a body stays within its arguments, whatever a launch passes: a proof, or none.
//!
//! Every size is a number or a symbol, one for each dynamic dimension of an argument. Structured
//! operations, copies and loops to a dimension's size make symbols equal, which a launch then
//! checks; an index has to be a number, or count up to a size. Any operation that is not known
//! here ends the proof, and so does the generic form.

use std::collections::HashMap;

use npu_runtime::Extent;

use self::sizes::{Int, Size, Sizes};
use super::{Context, Walk};
use crate::kernel::tokens::Kind;
use crate::kernel::types::{self, Layout, Type};
use crate::kernel::{aie, header};

mod indices;
mod sizes;
mod structured;

/// For each of `arguments` (name and type), what a launch has to check of its dimensions, so that
/// the body stays within them; `None` if that is not proven.
pub(in crate::kernel) fn extents<'s>(
    context: &Context<'_, 's>,
    body: (usize, usize),
    arguments: &[(&'s str, &Type)],
) -> Option<Vec<Vec<Extent>>> {
    let mut proof = Proof {
        walk: Walk::new(context, body),
        values: HashMap::new(),
        sizes: Sizes::default(),
    };
    for (name, of_type) in arguments {
        let value = match of_type {
            Type::Scalar(_) => Value::Unknown,
            Type::Ranked {
                shape,
                layout: Layout::Identity,
                ..
            } => Value::Shape(shape.iter().map(|dim| proof.sizes.size(*dim)).collect()),
            Type::Ranked { .. } | Type::Unranked { .. } => return None,
        };
        proof.values.insert(name, value);
    }
    let shapes: Vec<_> = arguments
        .iter()
        .map(|(name, _)| proof.values.get(name).cloned())
        .collect();
    proof.run()?;
    let mut names = HashMap::new();
    let extents = arguments.iter().zip(shapes).map(|((name, _), value)| {
        let Some(Value::Shape(shape)) = value else {
            return Vec::new();
        };
        let several = shape.len() > 1;
        let extent = |(dim, size): (usize, &Size)| {
            let name = || match several {
                true => format!("{name}[{dim}]"),
                false => (*name).to_owned(),
            };
            proof.sizes.extent(*size, &mut names, name)
        };
        shape.iter().enumerate().map(extent).collect()
    });
    let mut extents: Vec<Vec<Extent>> = extents.collect();
    for list in &mut extents {
        if list.iter().all(|extent| *extent == Extent::Any) {
            list.clear();
        }
    }
    Some(extents)
}

/// What is known of a value.
#[derive(Clone)]
enum Value {
    /// A number.
    Int(Int),
    /// Memory or a tensor, with its dimensions.
    Shape(Vec<Size>),
    Unknown,
}

struct Proof<'c, 's> {
    /// Where the next operation starts.
    walk: Walk<'c, 's>,
    /// By name: a name that is used again has been defined again before.
    values: HashMap<&'s str, Value>,
    sizes: Sizes,
}

impl<'s> Proof<'_, 's> {
    fn run(&mut self) -> Option<()> {
        while self.walk.at < self.walk.end {
            let (at, tokens) = (self.walk.at, self.walk.context.tokens);
            match tokens.kind(at) {
                Kind::Punct(b'{') if self.walk.is_dictionary(at) => self.walk.at = tokens.after(at),
                Kind::Punct(b'{' | b'}') => self.walk.at += 1,
                Kind::Word if tokens.text(at) == "else" => self.walk.at += 1,
                Kind::Word if tokens.after_location(at) > at => {
                    self.walk.at = tokens.after_location(at);
                }
                _ => self.operation()?,
            }
        }
        Some(())
    }

    /// Reads the operation at the walk's place, and goes on behind it or in its region.
    fn operation(&mut self) -> Option<()> {
        let tokens = self.walk.context.tokens;
        let start = self.walk.at;
        let at = self.walk.after_results(start);
        let results: Vec<&'s str> = (start..at)
            .filter(|i| tokens.kind(*i) == Kind::Value)
            .map(|i| tokens.value_name(i))
            .collect();
        let (name, generic) = aie::operation(tokens, at)?;
        if generic {
            return None;
        }
        for result in &results {
            self.values.insert(result, Value::Unknown);
        }
        let end = self.walk.operation_end(at);
        self.walk.at = end;
        let range = (at, end);
        let value = match name {
            "return" | "func.return" | "scf.yield" | "affine.yield" | "memref.dealloc" => None,
            "arith.constant" => Some(self.constant(range)),
            "memref.dim" | "tensor.dim" => Some(self.dimension(range)?),
            "memref.alloc" | "memref.alloca" | "tensor.empty" | "bufferization.alloc_tensor" => {
                Some(self.allocation(range)?)
            }
            "memref.cast" | "tensor.cast" => Some(self.cast(range)?),
            "bufferization.to_tensor" => Some(self.operand(range, 0)?),
            "memref.copy" | "bufferization.materialize_in_destination" => {
                let (from, to) = (self.operand(range, 0)?, self.operand(range, 1)?);
                self.same(&from, &to)?;
                Some(to)
            }
            "memref.load" | "affine.load" => {
                self.access(range, 0)?;
                None
            }
            "memref.store" | "affine.store" => {
                self.access(range, 1)?;
                None
            }
            "scf.for" | "affine.for" => return self.counted_loop(range, &results),
            "scf.if" => return self.region(range, &results),
            _ => match name.split_once('.') {
                Some(("linalg", _)) => return self.structured(name, range, &results),
                Some(("arith" | "math" | "index" | "complex" | "ub", _)) => {
                    Some(self.arithmetic(name, range)?)
                }
                _ => return None,
            },
        };
        if let (Some(value), [result]) = (value, results.as_slice()) {
            self.values.insert(result, value);
        }
        Some(())
    }

    /// What is known of the value at a token.
    fn value(&self, at: usize) -> Value {
        let name = self.walk.context.tokens.value_name(at);
        self.values.get(name).cloned().unwrap_or(Value::Unknown)
    }

    /// The `position`th operand, which has to be memory or a tensor.
    fn operand(&self, range: (usize, usize), position: usize) -> Option<Value> {
        let at = self.operands(range).nth(position)?;
        match self.value(at) {
            shape @ Value::Shape(_) => Some(shape),
            _ => None,
        }
    }

    /// The tokens of an operation that are values.
    fn operands(&self, (at, end): (usize, usize)) -> impl Iterator<Item = usize> + use<'_, 's> {
        (at + 1..end).filter(|i| self.walk.context.tokens.kind(*i) == Kind::Value)
    }

    /// Two values of one shape.
    fn same(&mut self, a: &Value, b: &Value) -> Option<()> {
        let (Value::Shape(a), Value::Shape(b)) = (a, b) else {
            return None;
        };
        if a.len() != b.len() {
            return None;
        }
        let mut pairs = a.iter().zip(b);
        pairs.try_for_each(|(a, b)| self.sizes.equate(*a, *b))
    }

    fn dimension(&self, range: (usize, usize)) -> Option<Value> {
        let (of, position) = (self.operand(range, 0)?, self.operands(range).nth(1)?);
        let (Value::Shape(shape), Value::Int(position)) = (of, self.value(position)) else {
            return Some(Value::Unknown);
        };
        let size = position.number().and_then(|at| usize::try_from(at).ok());
        let size = size.and_then(|at| shape.get(at).copied());
        Some(size.map_or(Value::Unknown, |size| Value::Int(Int::of_size(size))))
    }

    /// New memory, or a new tensor: its dynamic sizes stand in parentheses.
    fn allocation(&self, range: (usize, usize)) -> Option<Value> {
        let tokens = self.walk.context.tokens;
        let open = range.0 + 1;
        if !tokens.is(open, b'(') {
            return None;
        }
        let mut given = self.operands((open, tokens.close(open)));
        let mut sizes = Vec::new();
        for dim in self.last_type(range)? {
            sizes.push(match dim {
                Some(size) => Size::Known(size),
                None => match self.value(given.next()?) {
                    Value::Int(size) => size.size()?,
                    _ => return None,
                },
            });
        }
        Some(Value::Shape(sizes))
    }

    /// A cast that makes a dimension static says that it has that size.
    fn cast(&mut self, range: (usize, usize)) -> Option<Value> {
        let Value::Shape(shape) = self.operand(range, 0)? else {
            return None;
        };
        let wanted = self.last_type(range)?;
        if wanted.len() != shape.len() {
            return None;
        }
        for (size, wanted) in shape.iter().zip(wanted) {
            if let Some(wanted) = wanted {
                self.sizes.equate(*size, Size::Known(wanted))?;
            }
        }
        Some(Value::Shape(shape))
    }

    /// The dimensions of the last type of an operation, if it is contiguous memory or a tensor.
    fn last_type(&self, (at, end): (usize, usize)) -> Option<Vec<Option<u64>>> {
        let tokens = self.walk.context.tokens;
        let is_type =
            |i: &usize| matches!(tokens.text(*i), "memref" | "tensor") && tokens.is(i + 1, b'<');
        let start = (at + 1..end).rev().find(is_type)?;
        shape_of(tokens.span(start, header::after_type(tokens, start)))
    }

    /// Goes on in the region of `scf.if`, whose results are known by their types.
    fn region(&mut self, range: (usize, usize), results: &[&'s str]) -> Option<()> {
        let tokens = self.walk.context.tokens;
        let open = self.first_brace(range)?;
        let arrow = (range.0..open).find(|i| tokens.kind(*i) == Kind::Arrow);
        self.by_types((arrow.map_or(open, |arrow| arrow + 1), open), results);
        self.walk.at = open + 1;
        Some(())
    }

    /// Gives names the shapes of a list of types where those are static.
    fn by_types(&mut self, (mut at, end): (usize, usize), names: &[&'s str]) {
        let tokens = self.walk.context.tokens;
        at += usize::from(tokens.is(at, b'('));
        for name in names {
            let next = header::after_type(tokens, at).min(end);
            let shape = shape_of(tokens.span(at, next)).and_then(|shape| {
                let known = shape.into_iter().map(|dim| dim.map(Size::Known));
                known.collect::<Option<Vec<_>>>()
            });
            self.values
                .insert(name, shape.map_or(Value::Unknown, Value::Shape));
            at = next + usize::from(tokens.is(next, b','));
        }
    }

    /// The brace that opens an operation's first region.
    fn first_brace(&self, (at, end): (usize, usize)) -> Option<usize> {
        let tokens = self.walk.context.tokens;
        let mut at = at + 1;
        while at < end {
            if tokens.is(at, b'{') && !self.walk.is_dictionary(at) {
                return Some(at);
            }
            at = tokens.after(at);
        }
        None
    }
}

/// The dimensions of `memref<…>`, if it is contiguous, or of `tensor<…>`.
fn shape_of(text: &str) -> Option<Vec<Option<u64>>> {
    if let Some(inside) = text.strip_prefix("tensor<") {
        return types::dimensions(inside.strip_suffix('>')?).map(|(shape, _)| shape);
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
