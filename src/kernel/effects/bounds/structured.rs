//! Structured operations: each of their loops runs over dimensions that have to be of one size.

use super::sizes::Size;
use super::{Frame, Proof, Results, Value};
use crate::kernel::overwrite;
use crate::kernel::types::{self, Type};

/// For each operand, the loop that each of its dimensions belongs to.
type Maps = Vec<Vec<usize>>;

impl<'s> Proof<'_, 's> {
    /// `linalg.generic {attributes} ins(…) outs(…) {…} -> type`, or a named operation: `linalg.add
    /// ins(…) outs(…) -> type`.
    pub(super) fn structured(&mut self, name: &str, results: Results<'s>) -> Option<()> {
        let mut maps = None;
        let mut is_complete = name != "linalg.generic";
        if name == "linalg.generic" {
            let open = self.reader.at;
            self.reader
                .attributes(&["indexing_maps", "iterator_types", "doc", "library_call"])?;
            let list = overwrite::maps(
                self.reader.tokens,
                self.reader.aliases,
                (open, self.reader.at),
            )?;
            maps = list.into_iter().map(types::projection).collect();
        } else if matches!(name, "linalg.map" | "linalg.reduce") {
            is_complete = self.short_payload()?;
        }
        let mut shapes = match self.reader.eat_word("ins") {
            true => self.operands()?,
            false => Vec::new(),
        };
        let inputs = shapes.len();
        self.reader.word("outs")?;
        shapes.extend(self.operands()?);
        let maps = match maps {
            Some(maps) => maps,
            None => self.named(name, &shapes, inputs)?,
        };
        self.equate_loops(&maps, &shapes)?;
        let outputs = shapes.split_off(inputs).into_iter();
        let values: Vec<_> = outputs.map(|shape| Some(Value::Shape(shape))).collect();
        let frame = Frame {
            results,
            values,
            is_structured: true,
            ..Frame::default()
        };
        if is_complete {
            if self.reader.arrow().is_some() {
                self.reader.types()?;
            }
            self.location();
            self.define(&frame.results, frame.values);
            return Some(());
        }
        if self.reader.tokens.is(self.reader.at, b'(') {
            self.unknown_arguments()?;
        }
        self.reader.punct(b'{')?;
        self.frames.push(frame);
        Some(())
    }

    /// `{ arith.addf {attributes} }`, if it is next.
    fn short_payload(&mut self) -> Option<bool> {
        if !self.reader.eat(b'{') {
            return Some(false);
        }
        let name = self.reader.any_word()?.strip_prefix("arith.")?;
        if !matches!(
            name,
            "addf" | "addi" | "subf" | "subi" | "mulf" | "muli" | "divf"
        ) && !name.starts_with("max")
            && !name.starts_with("min")
        {
            return None;
        }
        self.reader.punct(b'}')?;
        Some(true)
    }

    /// The dimensions of each operand in `(%a, %b : f32, memref<4xf32>)`, where a scalar has none.
    fn operands(&mut self) -> Option<Vec<Vec<Size>>> {
        self.reader.punct(b'(')?;
        let mut values = vec![self.reader.value()?];
        while self.reader.eat(b',') {
            values.push(self.reader.value()?);
        }
        let of_types = self.reader.colon_types()?;
        self.reader.punct(b')')?;
        if values.len() != of_types.len() {
            return None;
        }
        let shape = |(value, of_type): (&str, &str)| match self.values.get(value) {
            Some(Value::Shape(shape)) => Some(shape.clone()),
            _ => matches!(types::parse(of_type), Some(Type::Scalar(_))).then(Vec::new),
        };
        values.into_iter().zip(of_types).map(shape).collect()
    }

    /// The maps of a named operation, of which the first operands are read.
    fn named(&mut self, name: &str, shapes: &[Vec<Size>], inputs: usize) -> Option<Maps> {
        let fixed: &[&[usize]] = match name {
            "linalg.matmul" => &[&[0, 2], &[2, 1], &[0, 1]],
            "linalg.batch_matmul" => &[&[0, 1, 3], &[0, 3, 2], &[0, 1, 2]],
            "linalg.matvec" => &[&[0, 1], &[1], &[0]],
            "linalg.vecmat" => &[&[1], &[1, 0], &[0]],
            "linalg.dot" => &[&[0], &[0], &[]],
            "linalg.transpose" => {
                self.reader.word("permutation")?;
                self.reader.punct(b'=')?;
                let permutation = self.reader.positions()?;
                return Some(vec![(0..permutation.len()).collect(), permutation]);
            }
            "linalg.reduce" | "linalg.broadcast" => {
                self.reader.word("dimensions")?;
                self.reader.punct(b'=')?;
                let left_out = self.reader.positions()?;
                let is_reduce = name == "linalg.reduce";
                let all = if is_reduce {
                    shapes.first()
                } else {
                    shapes.last()
                };
                let all: Vec<usize> = (0..all?.len()).collect();
                let kept = all.iter().copied().filter(|at| !left_out.contains(at));
                let kept: Vec<usize> = kept.collect();
                let map = |operand| match (operand < inputs) == is_reduce {
                    true => all.clone(),
                    false => kept.clone(),
                };
                return Some((0..shapes.len()).map(map).collect());
            }
            _ if is_elementwise(name) => {
                let same = |shape: &Vec<Size>| (0..shape.len()).collect();
                return Some(shapes.iter().map(same).collect());
            }
            _ => return None,
        };
        Some(fixed.iter().map(|map| map.to_vec()).collect())
    }

    fn equate_loops(&mut self, maps: &[Vec<usize>], shapes: &[Vec<Size>]) -> Option<()> {
        if maps.len() != shapes.len() {
            return None;
        }
        let mut loops: Vec<Option<Size>> = Vec::new();
        for (map, shape) in maps.iter().zip(shapes) {
            if map.len() != shape.len() {
                return None;
            }
            for (number, size) in map.iter().zip(shape) {
                if *number > MOST_LOOPS {
                    return None;
                }
                if loops.len() <= *number {
                    loops.resize(number + 1, None);
                }
                match loops.get_mut(*number)? {
                    Some(known) => self.sizes.equate(*known, *size)?,
                    new => *new = Some(*size),
                }
            }
        }
        Some(())
    }
}

/// More than any operation has.
const MOST_LOOPS: usize = 64;

/// Named operations whose operands all have the output's shape, scalars apart. A division could be
/// one of integers.
fn is_elementwise(name: &str) -> bool {
    matches!(
        name.strip_prefix("linalg."),
        Some(
            "fill"
                | "copy"
                | "add"
                | "sub"
                | "mul"
                | "max"
                | "min"
                | "exp"
                | "log"
                | "abs"
                | "ceil"
                | "floor"
                | "negf"
                | "reciprocal"
                | "round"
                | "sqrt"
                | "rsqrt"
                | "square"
                | "tanh"
                | "erf"
                | "powf"
                | "select"
                | "map"
        )
    )
}
