//! What a kernel's MLIR computes, found by walking through it once with symbolic values: an argument
//! of a linalg, AIR or AIE kernel holds in the end an expression over the arguments that were there
//! at the start. It follows copies, views, DMAs, channels and object FIFOs, and reads elementwise
//! arithmetic and matrix products; anything else makes the result opaque, never wrong.

mod air;
mod linalg;
mod lower;
mod walk;

pub use lower::{Signature, program};
pub use walk::{Root, Walk};

use std::rc::Rc;

use crate::program::{Element, Operation};

/// A symbolic value.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// What was in memory at the start.
    Initial(Root),
    /// What comes out of an air.channel.
    Channel(String),
    /// An external variable.
    Variable(String),
    /// A constant.
    Constant(f64),
    /// An elementwise operation and the type it computes in; `None`: index arithmetic.
    Apply(Operation, Vec<Rc<Expression>>, Option<Element>),
    /// A matrix product added to the third operand: m, n, k.
    Product([Rc<Expression>; 3], [u64; 3], Element),
    /// Not understood.
    Unknown,
}
