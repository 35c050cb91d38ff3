//! Data for kernels: what is put into an argument's memory, and what comes out of it.
//!
//! Nothing here owns memory. Types, shapes and sizes are settled and compared before there is any,
//! so that a file which promises a terabyte costs an error and no allocation; then bytes are read
//! into, filled in, compared and saved where they are. Bytes are in the host's order.

mod compare;
mod elements;
mod extent;
mod fill;
mod npy;
mod number;
mod source;

use npu_runtime::ElementType;

pub use compare::{Comparison, Difference, Tolerance};
pub use elements::Elements;
pub use extent::{Extent, ExtentError};
pub use fill::Fill;
pub use npy::{Npy, NpyError, save};
pub use number::{Number, NumberError};
pub use source::{Content, Source};

/// The type and the shape of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The type of an element.
    pub element: ElementType,
    /// The dimensions, outermost first; none for a single element. Elements of bytes
    /// ([`ElementType::Bytes`]) are `ui8` with one more dimension, if they have several.
    pub shape: Vec<usize>,
}

impl Layout {
    /// The number of elements; `None` if no memory can have that many.
    #[must_use]
    pub fn elements(&self) -> Option<usize> {
        let bytes = |elements: usize| elements.checked_mul(size(&self.element));
        let elements = product(&self.shape)?;
        bytes(elements).filter(|bytes| isize::try_from(*bytes).is_ok())?;
        Some(elements)
    }

    /// The number of bytes; `None` if no memory can have that many.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        Some(self.elements()? * size(&self.element))
    }
}

/// Bytes of an element.
fn size(element: &ElementType) -> usize {
    element.size()
}

/// What the data of such elements is, and the dimension that it has besides theirs: elements of
/// bytes are rows of `ui8`.
fn data(element: &ElementType) -> (ElementType, Option<usize>) {
    match element {
        ElementType::Bytes { size: 1, .. } => (ElementType::Ui8, None),
        ElementType::Bytes { size, .. } => (ElementType::Ui8, Some(*size as usize)),
        number => (number.clone(), None),
    }
}

/// The number of elements of a shape.
fn product(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    let mut dims = shape.iter();
    dims.try_fold(1_usize, |product, dim| product.checked_mul(*dim))
}

/// A shape as messages show it: `[4, 8]`.
struct Shown<'a>(&'a [usize]);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
