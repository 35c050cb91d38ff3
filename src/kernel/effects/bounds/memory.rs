//! Operations that make, copy and free memory and tensors.

use super::sizes::{Int, Size};
use super::{Proof, Value, shape_of};

/// So many elements may be allocated besides those of a dynamic dimension.
const MOST_ELEMENTS: u64 = 1 << 31;

impl Proof<'_, '_> {
    /// `memref.dim %m, %c : type`.
    pub(super) fn dimension(&mut self) -> Option<Option<Value>> {
        let shape = self.shape()?;
        self.reader.punct(b',')?;
        let position = self.term()?.number();
        self.reader.colon_types()?;
        let position = position.and_then(|at| usize::try_from(at).ok());
        let size = position.and_then(|at| shape.get(at));
        Some(size.map(|size| Value::Int(Int::of_size(*size))))
    }

    /// New memory, or a new tensor: `(%d) {attributes} : type`. A product of several dynamic sizes
    /// could overflow.
    pub(super) fn allocation(&mut self) -> Option<Value> {
        let mut given = Vec::new();
        self.reader.punct(b'(')?;
        while !self.reader.eat(b')') {
            if !given.is_empty() {
                self.reader.punct(b',')?;
            }
            given.push(self.term()?.size()?);
        }
        self.reader.attributes();
        self.reader.punct(b':')?;
        let mut given = given.into_iter();
        let (mut sizes, mut elements, mut symbols) = (Vec::new(), 1_u64, 0);
        for dim in shape_of(self.reader.of_type()?)? {
            let size = match dim {
                Some(size) => Size::Known(size),
                None => given.next()?,
            };
            match size {
                Size::Known(size) => elements = elements.checked_mul(size)?,
                Size::Symbol(_) => symbols += 1,
            }
            sizes.push(size);
        }
        (symbols <= 1 && elements <= MOST_ELEMENTS).then_some(Value::Shape(sizes))
    }

    /// `memref.dealloc %m : type`, of memory that the same region has allocated.
    pub(super) fn free(&mut self) -> Option<()> {
        let name = self.reader.value()?;
        self.reader.colon_types()?;
        let frame = self.frames.last_mut()?;
        let at = frame.allocated.iter().position(|it| *it == name)?;
        frame.allocated.remove(at);
        frame.freed = true;
        Some(())
    }

    /// `%m : type to type`. A cast that makes a dimension static says that it has that size.
    pub(super) fn cast(&mut self) -> Option<Value> {
        let shape = self.shape()?;
        self.reader.colon_types()?;
        self.reader.word("to")?;
        let wanted = shape_of(self.reader.of_type()?)?;
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

    /// `%m restrict writable : memref to tensor`, before 2025 with the memref's type alone.
    pub(super) fn tensor_of_memory(&mut self) -> Option<Value> {
        let shape = self.shape()?;
        self.reader.eat_word("restrict");
        self.reader.eat_word("writable");
        self.reader.colon_types()?;
        if self.reader.eat_word("to") {
            self.reader.of_type()?;
        }
        Some(Value::Shape(shape))
    }

    /// `%a, %b : type to type`.
    pub(super) fn copy(&mut self) -> Option<()> {
        let from = self.shape()?;
        self.reader.punct(b',')?;
        let to = self.shape()?;
        self.reader.colon_types()?;
        self.reader.word("to")?;
        self.reader.of_type()?;
        self.same(&from, &to)
    }

    /// `%t in restrict writable %m : (tensor, memref) -> ()`.
    pub(super) fn materialize(&mut self) -> Option<Value> {
        let from = self.shape()?;
        self.reader.word("in")?;
        self.reader.eat_word("restrict");
        self.reader.eat_word("writable");
        let to = self.shape()?;
        self.reader.punct(b':')?;
        self.reader.types()?;
        self.reader.arrow()?;
        self.reader.types()?;
        self.same(&from, &to)?;
        Some(Value::Shape(to))
    }

    /// Two values of one shape.
    fn same(&mut self, a: &[Size], b: &[Size]) -> Option<()> {
        if a.len() != b.len() {
            return None;
        }
        let mut pairs = a.iter().zip(b);
        pairs.try_for_each(|(a, b)| self.sizes.equate(*a, *b))
    }
}
