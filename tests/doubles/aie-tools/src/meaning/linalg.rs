//! The part of the walk that understands linalg operations and calls of linked functions.

use std::rc::Rc;

use super::Expression;
use super::walk::{Root, Value, View, Walk, arithmetic, unknown};
use crate::mlir::{Kind, Operation as Op};
use crate::program::{Element, Operation};

impl<'s> Walk<'_, 's> {
    /// A function from a linked object: understood by its name, the last buffer being the result.
    pub(super) fn call(&mut self, op: &Op<'_, 's>, operands: &[&'s str]) {
        let name = op.symbol().unwrap_or("").to_lowercase();
        let buffers: Vec<&'s str> = operands
            .iter()
            .copied()
            .filter(|o| matches!(self.values.get(o), Some(Value::Memory(..))))
            .collect();
        let Some((result, inputs)) = buffers.split_last() else {
            return;
        };
        let element = Element::from_mlir(&self.view_of(result).element);
        let inputs_now: Vec<_> = inputs.iter().map(|i| self.expression(i)).collect();
        let expression = if name.contains("matmul") || name.contains("mm_") {
            self.product(inputs, result, element)
        } else {
            let operation = match inputs.len() {
                1 if name.contains("copy") || name.contains("pass") => Some(Operation::Copy),
                2 if name.contains("add") => Some(Operation::Add),
                2 if name.contains("mul") => Some(Operation::Mul),
                3 if name.contains("fma") => Some(Operation::Fma),
                _ => None,
            };
            match (operation, element) {
                (Some(operation), Some(_)) => {
                    Rc::new(Expression::Apply(operation, inputs_now, element))
                }
                _ => unknown(),
            }
        };
        self.store(result, expression);
    }

    pub(super) fn linalg(&mut self, op: &Op<'_, 's>) {
        let inputs = op.list("ins");
        let outputs = op.list("outs");
        let Some(output) = outputs.last().copied() else {
            // linalg.map, linalg.reduce in another syntax.
            let results = op.results.clone();
            self.define(&results, unknown(), View::default());
            return;
        };
        let element = Element::from_mlir(&self.element_of(output, op));
        let expression = match op.name {
            "linalg.fill" | "linalg.copy" | "linalg.broadcast" => {
                inputs.first().map_or_else(unknown, |i| self.expression(i))
            }
            "linalg.matmul" => self.product(&inputs, output, element),
            "linalg.generic" => self.generic(op, &inputs, output, element),
            name => match arithmetic(name) {
                Some(operation) if element.is_some() => {
                    let operands = inputs.iter().map(|i| self.expression(i)).collect();
                    Rc::new(Expression::Apply(operation, operands, element))
                }
                _ => unknown(),
            },
        };
        self.store(output, expression.clone());
        let seen = self.view_of(output);
        let results = op.results.clone();
        self.define(&results, expression, seen);
    }

    fn element_of(&self, name: &str, op: &Op<'_, 's>) -> String {
        let known = self.view_of(name).element;
        if known.is_empty() {
            return op.last_type().map(|t| t.element).unwrap_or_default();
        }
        known
    }

    fn generic(
        &mut self,
        op: &Op<'_, 's>,
        inputs: &[&'s str],
        output: &'s str,
        element: Option<Element>,
    ) -> Rc<Expression> {
        let module = self.module;
        let Some(body) = op.regions().into_iter().next_back() else {
            return unknown();
        };
        let reduces = op.inner().any(|i| module.text(i) == "\"reduction\"");
        // The block's arguments stand for the operands' elements.
        let label = (op.at..body.end)
            .rev()
            .find(|i| module.kind(*i) == Kind::Block);
        let names: Vec<&'s str> = label.map_or_else(Vec::new, |label| {
            (label + 2..module.close(label + 1))
                .filter(|i| module.kind(*i) == Kind::Value)
                .map(|i| module.text(i))
                .collect()
        });
        for (name, operand) in names.iter().zip(inputs.iter().chain([&output])) {
            let expression = self.expression(operand);
            self.values
                .insert(name, Value::Data(expression, View::default()));
        }
        let before = self.expression(output);
        let yielded = self.range(body);
        let Some(result) = yielded.first().cloned() else {
            return unknown();
        };
        if !reduces {
            return result;
        }
        match &*result {
            Expression::Apply(Operation::Add, terms, _)
                if inputs.len() == 2 && terms.contains(&before) && is_product(terms) =>
            {
                self.product(inputs, output, element)
            }
            _ => unknown(),
        }
    }

    fn product(&self, inputs: &[&str], output: &str, element: Option<Element>) -> Rc<Expression> {
        let (&[a, b], Some(element)) = (inputs, element) else {
            return unknown();
        };
        let dimensions = self.dimensions(a, b, output);
        let operands = [a, b, output].map(|name| self.expression(name));
        match dimensions {
            Some(dimensions) => Rc::new(Expression::Product(operands, dimensions, element)),
            None => unknown(),
        }
    }

    /// m, n and k of the whole product, of which the operands may be tiles.
    fn dimensions(&self, a: &str, b: &str, c: &str) -> Option<[u64; 3]> {
        let tile = |name: &str| -> Option<[u64; 2]> {
            match self.view_of(name).shape.as_slice() {
                &[Some(rows), Some(columns)] => Some([rows, columns]),
                _ => None,
            }
        };
        let whole = |expression: &Expression| -> Option<&View> {
            match expression {
                Expression::Initial(Root::Argument(index)) => self.tiles.get(index),
                _ => None,
            }
        };
        let (view_a, view_b) = (self.expression(a), self.expression(b));
        let [rows, depth] = tile(a).or_else(|| tile(c).map(|[m, _]| [m, 0]))?;
        let [_, columns] = tile(b).or_else(|| tile(c))?;
        let k = whole(&view_a).and_then(|v| v.row_stride).unwrap_or(depth);
        let n = whole(&view_b).and_then(|v| v.row_stride).unwrap_or(columns);
        let m = match whole(&view_a) {
            Some(_) => rows.saturating_mul(self.grid.first().copied().unwrap_or(1)),
            None => rows,
        };
        (m > 0 && n > 0 && k > 0).then_some([m, n, k])
    }
}

fn is_product(terms: &[Rc<Expression>]) -> bool {
    terms
        .iter()
        .any(|term| matches!(&**term, Expression::Apply(Operation::Mul, ..)))
}
