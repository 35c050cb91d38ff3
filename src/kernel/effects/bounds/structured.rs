//! Structured operations: each of their loops runs over dimensions that have to be of one size.
//! Those of static shapes are compared by MLIR's own verifier.

use super::indices::is_integer_division;
use super::sizes::Size;
use super::{Proof, Value};
use crate::kernel::tokens::Kind;
use crate::kernel::{header, overwrite, types};

impl<'s> Proof<'_, 's> {
    pub(super) fn structured(
        &mut self,
        name: &str,
        range: (usize, usize),
        results: &[&'s str],
    ) -> Option<()> {
        let tokens = self.walk.context.tokens;
        let (inputs, outputs) = overwrite::custom_operands(tokens, range)?;
        if !overwrite::payload_is_pure(tokens, range) || self.divides(range) {
            return None;
        }
        let mut shapes = self.shapes(&inputs)?;
        shapes.extend(self.shapes(&outputs)?);
        let is_known = |size: &Size| matches!(size, Size::Known(_));
        if !shapes.iter().flatten().all(is_known) {
            let maps = self.maps(name, range, &shapes)?;
            self.equate_loops(&maps, &shapes)?;
        }
        for (result, shape) in results.iter().zip(shapes.split_off(inputs.len())) {
            self.values.insert(result, Value::Shape(shape));
        }
        Some(())
    }

    /// The dimensions of each operand in `ins(%a, %b : f32, memref<4xf32>)`, where a scalar has
    /// none.
    fn shapes(&self, operands: &[usize]) -> Option<Vec<Vec<Size>>> {
        let tokens = self.walk.context.tokens;
        let mut shapes = Vec::new();
        let mut of_type = operands.last().map_or(0, |last| last + 1);
        for operand in operands {
            // A colon or a comma.
            of_type += 1;
            let next = header::after_type(tokens, of_type);
            shapes.push(match self.value(*operand) {
                Value::Shape(shape) => shape,
                _ => match types::parse(tokens.span(of_type, next))? {
                    types::Type::Scalar(_) => Vec::new(),
                    _ => return None,
                },
            });
            of_type = next;
        }
        Some(shapes)
    }

    /// Whether the payload divides integers by anything but positive constants.
    fn divides(&self, (start, end): (usize, usize)) -> bool {
        let tokens = self.walk.context.tokens;
        (start..end).any(|at| {
            let name = tokens.text(at).trim_matches('"');
            let is_one = matches!(tokens.kind(at), Kind::Word | Kind::Text);
            if !is_one || !is_integer_division(name) {
                return false;
            }
            let last = self.walk.operation_end(at).min(end);
            self.arithmetic(name, (at, last)).is_none()
        })
    }

    /// Which loop each dimension of each operand belongs to.
    fn maps(
        &self,
        name: &str,
        range: (usize, usize),
        shapes: &[Vec<Size>],
    ) -> Option<Vec<Vec<usize>>> {
        let tokens = self.walk.context.tokens;
        let has_maps = (range.0..range.1).any(|i| tokens.is_word(i, "indexing_maps"));
        if has_maps {
            let maps = overwrite::maps(self.walk.context, range)?;
            return maps.into_iter().map(types::projection).collect();
        }
        let fixed: &[&[usize]] = match name {
            "linalg.matmul" => &[&[0, 2], &[2, 1], &[0, 1]],
            "linalg.batch_matmul" => &[&[0, 1, 3], &[0, 3, 2], &[0, 1, 2]],
            "linalg.matvec" => &[&[0, 1], &[1], &[0]],
            "linalg.vecmat" => &[&[1], &[1, 0], &[0]],
            "linalg.dot" => &[&[0], &[0], &[]],
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

/// Named operations whose operands all have the output's shape, scalars apart.
fn is_elementwise(name: &str) -> bool {
    matches!(
        name.strip_prefix("linalg."),
        Some(
            "fill"
                | "copy"
                | "add"
                | "sub"
                | "mul"
                | "div"
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
