//! What a sequence computes: a program for what comes out of the array in terms of what goes in.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use super::{Device, Sequence};
use crate::meaning::{Expression, Root, Signature, Walk, program};
use crate::mlir::{Kind, Module};
use crate::program::Program;

/// What the sequence computes: what comes out of the array, in terms of what goes in.
pub fn meaning(
    module: &Module<'_>,
    device: &Device,
    sequence: &Sequence,
    moves: &[(String, usize, bool)],
) -> Program {
    let signature = Signature {
        arguments: sequence
            .arguments
            .iter()
            .map(|(_, of)| of.clone())
            .collect(),
        variables: device.variables.clone(),
    };
    let mut fifos: HashMap<String, Rc<Expression>> = HashMap::new();
    for (name, argument, _) in moves.iter().filter(|(.., sends)| *sends) {
        let initial = Expression::Initial(Root::Argument(*argument));
        fifos
            .entry(name.clone())
            .or_insert_with(|| Rc::new(initial));
    }
    let cores: Vec<Outputs> = device
        .cores
        .iter()
        .map(|core| walk_core(module, device, core.body.clone()))
        .collect();
    // As often as data passes from FIFO to FIFO.
    for _ in 0..device.fifos.len() + 1 {
        for (sources, destinations) in &device.links {
            let source = sources.iter().find_map(|name| fifos.get(name).cloned());
            if let Some(source) = source {
                for name in destinations {
                    fifos.entry(name.clone()).or_insert_with(|| source.clone());
                }
            }
        }
        for outputs in &cores {
            for (name, expression) in outputs {
                if !fifos.contains_key(name)
                    && let Some(expression) = substituted(expression, &fifos)
                {
                    fifos.insert(name.clone(), expression);
                }
            }
        }
    }
    let mut results: Vec<(usize, Rc<Expression>)> = Vec::new();
    for (name, argument, _) in moves.iter().filter(|(.., sends)| !*sends) {
        let expression = fifos.get(name).cloned();
        let expression = expression.unwrap_or_else(|| Rc::new(Expression::Unknown));
        if !results.iter().any(|(known, _)| known == argument) {
            results.push((*argument, expression));
        }
    }
    let elements = results
        .first()
        .and_then(|(argument, _)| moved(module, sequence, *argument));
    program(&signature, &results, elements)
}

/// The number of elements of an argument, or of the transfer of one without a shape.
fn moved(module: &Module<'_>, sequence: &Sequence, argument: usize) -> Option<u64> {
    let (name, of) = sequence.arguments.get(argument)?;
    let transferred = || {
        let at = sequence
            .body
            .clone()
            .find(|i| module.text(*i) == name && matches!(module.text(i - 2), "aie.dma_bd"))?;
        let numbers =
            (at..).take_while(|i| module.text(*i) != ")" && module.kind(*i) != Kind::Block);
        let listed: Vec<u64> = numbers
            .filter(|i| module.text(i - 1) == ",")
            .filter_map(|i| module.text(i).parse().ok())
            .collect();
        listed.get(1).copied()
    };
    of.elements().or_else(transferred)
}

/// What a core puts into its FIFOs.
type Outputs = Vec<(String, Rc<Expression>)>;

fn walk_core(module: &Module<'_>, device: &Device, body: Range<usize>) -> Outputs {
    let mut walk = Walk::new(module);
    let _ = walk.range(body);
    walk.written
        .iter()
        .filter_map(|root| match root {
            Root::Fifo(name) if device.fifos.iter().any(|fifo| fifo.name == *name) => {
                Some((name.clone(), walk.content(root)))
            }
            _ => None,
        })
        .collect()
}

/// The expression with FIFOs replaced by what comes out of them, if that is known.
fn substituted(
    expression: &Rc<Expression>,
    fifos: &HashMap<String, Rc<Expression>>,
) -> Option<Rc<Expression>> {
    Some(match &**expression {
        Expression::Initial(Root::Fifo(name)) => fifos.get(name)?.clone(),
        Expression::Apply(operation, operands, element) => {
            let operands: Option<Vec<_>> = operands.iter().map(|o| substituted(o, fifos)).collect();
            Rc::new(Expression::Apply(*operation, operands?, *element))
        }
        Expression::Product([a, b, c], dimensions, element) => {
            let operands = [
                substituted(a, fifos)?,
                substituted(b, fifos)?,
                // A product that adds to what the FIFO held adds to nothing.
                substituted(c, fifos).unwrap_or_else(|| Rc::new(Expression::Constant(0.0))),
            ];
            Rc::new(Expression::Product(operands, *dimensions, *element))
        }
        _ => expression.clone(),
    })
}
