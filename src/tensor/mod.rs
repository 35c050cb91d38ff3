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
pub use npy::{Npy, NpyError, NpyFault, save};
pub use number::{Number, NumberError};
pub use source::{Content, Source, SourceError};

/// The type and the shape of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The type of an element.
    pub element: ElementType,
    /// The dimensions, outermost first; none for a single element. Of an opaque type, whose
    /// elements nobody knows the size of, it is the number of bytes.
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

/// Bytes of an element; an opaque one is a run of bytes.
fn size(element: &ElementType) -> usize {
    element.size().unwrap_or(1)
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
