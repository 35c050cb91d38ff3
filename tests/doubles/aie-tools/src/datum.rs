//! What the places of a kernel hold, and what its operations do.

use crate::mlir::{Module, Operation as Op, Type};
use crate::program::{Element, Operand, Operation};

/// What memory or a value holds.
#[derive(Clone, Copy, Debug)]
pub enum Datum {
    Operand(Operand),
    Number(f64),
}

/// Whether the result is the first operand's memory.
pub fn is_view(name: &str) -> bool {
    let known = "memref.cast memref.subview memref.collapse_shape memref.expand_shape memref.memory_space_cast memref.reinterpret_cast arith.index_cast aie.objectfifo.subview.access";
    known.split(' ').any(|known| known == name)
}

/// Whether the result is what the first operand holds.
pub fn is_read(name: &str) -> bool {
    let known = "memref.load affine.load vector.load vector.transfer_read vector.broadcast bufferization.to_tensor tensor.extract tensor.extract_slice";
    known.split(' ').any(|known| known == name)
}

pub fn arithmetic(name: &str) -> Option<Operation> {
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

pub fn element(types: &[Type]) -> Option<Element> {
    Element::from_mlir(types.last()?.element())
}

pub fn in_type(datum: Datum, element: Element) -> Operand {
    match datum {
        Datum::Operand(operand) => operand,
        Datum::Number(it) if element.is_float() => Operand::Constant((it as f32).to_bits()),
        Datum::Number(it) => Operand::Constant(it as i64 as u32),
    }
}

/// A constant. Hexadecimal ones are the bits of a float.
pub fn number(module: &Module<'_>, op: &Op<'_, '_>) -> Option<Datum> {
    let mut tokens = op.inner().map(|at| module.text(at));
    let first = tokens.next()?;
    let (sign, text) = match first {
        "-" => (-1.0, tokens.next()?),
        text => (1.0, text),
    };
    let of = op.types().pop().unwrap_or_default();
    let value = match text.strip_prefix("0x") {
        Some(digits) => {
            let bits = u32::from_str_radix(digits, 16).ok()?;
            let shift = if of.element() == "bf16" { 16 } else { 0 };
            f64::from(f32::from_bits(bits << shift))
        }
        None => text.parse().ok()?,
    };
    Some(Datum::Number(sign * value))
}
