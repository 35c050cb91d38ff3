//! From expressions to a program.

use std::rc::Rc;

use super::{Expression, Root};
use crate::mlir::Type;
use crate::program::{Element, Operand, Operation, Program, Step};

/// A kernel's arguments and external variables.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    /// The arguments' types.
    pub arguments: Vec<Type>,
    /// The external variables, in the order of their words.
    pub variables: Vec<String>,
}

struct Lowering<'l> {
    signature: &'l Signature,
    steps: Vec<Step>,
    temporaries: u32,
    used: Vec<usize>,
}

/// The program that gives each of `results` (argument, expression); opaque if one of them is not
/// understood. `elements` is how many elements there are, if known.
pub fn program(
    signature: &Signature,
    results: &[(usize, Rc<Expression>)],
    elements: Option<u64>,
) -> Program {
    let count = signature.arguments.len();
    let mut lowering = Lowering {
        signature,
        steps: Vec::new(),
        temporaries: 0,
        used: Vec::new(),
    };
    let understood = results
        .iter()
        .all(|(index, expression)| lowering.result(*index, expression).is_some());
    if !understood || results.is_empty() {
        return Program::opaque(count);
    }
    let element = |index: usize| {
        let argument = signature.arguments.get(index)?;
        Element::from_mlir(&argument.element)
    };
    Program {
        arguments: (0..count)
            .map(|i| element(i).filter(|_| lowering.used.contains(&i)))
            .collect(),
        elements: elements.and_then(|n| u32::try_from(n).ok()),
        steps: Some(lowering.steps),
    }
}

impl Lowering<'_> {
    fn element(&self, index: usize) -> Option<Element> {
        Element::from_mlir(&self.signature.arguments.get(index)?.element)
    }

    fn argument(&mut self, index: usize) -> Option<Operand> {
        self.element(index)?;
        // A scalar has no place in a stream: its value is not known when the stream is made.
        self.signature
            .arguments
            .get(index)
            .filter(|t| t.is_memref())?;
        if !self.used.contains(&index) {
            self.used.push(index);
        }
        Some(Operand::Argument(index as u32))
    }

    fn result(&mut self, index: usize, expression: &Rc<Expression>) -> Option<()> {
        let target = self.argument(index)?;
        let element = self.element(index)?;
        match &**expression {
            Expression::Apply(Operation::Copy, operands, Some(of)) if *of != element => {
                // A conversion that is not the last: keep it as a step of its own.
                let value = self.value(operands.first()?, *of)?;
                self.push(
                    Operation::Copy,
                    *of,
                    target,
                    [value, Operand::None, Operand::None],
                    [0; 3],
                );
            }
            _ => {
                let before = self.steps.len();
                let value = self.value(expression, element)?;
                let made = self.steps.len() > before;
                match self
                    .steps
                    .last_mut()
                    .filter(|step| made && step.result == value)
                {
                    Some(last) => last.result = target,
                    _ => self.push(
                        Operation::Copy,
                        element,
                        target,
                        [value, Operand::None, Operand::None],
                        [0; 3],
                    ),
                }
            }
        }
        Some(())
    }

    fn push(
        &mut self,
        operation: Operation,
        element: Element,
        result: Operand,
        operands: [Operand; 3],
        dimensions: [u32; 3],
    ) {
        self.steps.push(Step {
            operation,
            element,
            result,
            operands,
            dimensions,
        });
    }

    fn temporary(&mut self) -> Operand {
        self.temporaries += 1;
        Operand::Temporary(self.temporaries - 1)
    }

    /// The operand that holds an expression, in a step that computes in `element`.
    fn value(&mut self, expression: &Rc<Expression>, element: Element) -> Option<Operand> {
        match &**expression {
            Expression::Initial(Root::Argument(index)) => self.argument(*index),
            Expression::Constant(value) => Some(Operand::Constant(if element.is_float() {
                (*value as f32).to_bits()
            } else {
                *value as i64 as u32
            })),
            Expression::Variable(name) => {
                let word = self.signature.variables.iter().position(|v| v == name)?;
                Some(Operand::Variable(word as u32))
            }
            Expression::Apply(operation, operands, of) => {
                let of = (*of)?;
                let mut values = [Operand::None; 3];
                for (value, operand) in values.iter_mut().zip(operands) {
                    *value = self.value(operand, of)?;
                }
                let result = self.temporary();
                self.push(*operation, of, result, values, [0; 3]);
                Some(result)
            }
            Expression::Product(operands, dimensions, of) => {
                let [a, b, c] = operands;
                // Factors are widened to the result's type by the step itself.
                let a = self.value(widened(a), *of)?;
                let b = self.value(widened(b), *of)?;
                let c = self.value(c, *of)?;
                let dimensions = dimensions.map(|d| u32::try_from(d).unwrap_or(u32::MAX));
                let result = self.temporary();
                self.push(Operation::MatMul, *of, result, [a, b, c], dimensions);
                Some(result)
            }
            Expression::Initial(_) | Expression::Channel(_) | Expression::Unknown => None,
        }
    }
}

fn widened(expression: &Rc<Expression>) -> &Rc<Expression> {
    match &**expression {
        Expression::Apply(Operation::Copy, operands, _) => operands.first().unwrap_or(expression),
        _ => expression,
    }
}
