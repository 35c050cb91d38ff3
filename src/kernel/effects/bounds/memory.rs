//! Operations that make, copy and free memory and tensors.

use super::sizes::{Int, Size};
use super::{Proof, Value, shape_of};
use crate::kernel::types::{self, Element};

/// So many bytes may be allocated if no dimension is dynamic.
const MOST_BYTES: u64 = 1 << 31;
/// So many, for each element of an argument: no memory has more than 2^47 of those.
const MOST_BYTES_EACH: u64 = 1 << 15;

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

    /// New memory, or a new tensor: `(%d) {alignment = 64} : type`.
    pub(super) fn allocation(&mut self) -> Option<Value> {
        let mut given = Vec::new();
        self.reader.punct(b'(')?;
        while !self.reader.eat(b')') {
            if !given.is_empty() {
                self.reader.punct(b',')?;
            }
            given.push(self.term()?.size()?);
        }
        self.reader.attributes(&["alignment"])?;
        self.reader.punct(b':')?;
        let text = self.reader.of_type()?;
        let (mut given, mut sizes, mut known) =
            (given.into_iter(), Vec::new(), element_bytes(text)?);
        for dim in shape_of(text)? {
            let size = match dim {
                Some(size) => Size::Known(size),
                None => given.next()?,
            };
            if let Size::Known(size) = size {
                known = known.checked_mul(size)?;
            }
            sizes.push(size);
        }
        if given.next().is_some() {
            return None;
        }
        self.may_poison = true;
        self.allocated.push((sizes.clone(), known));
        Some(Value::Shape(sizes))
    }

    /// Whether no size of an allocation can overflow: it is known, or its dynamic dimensions are among
    /// those of an argument that has no others, which is in memory.
    pub(super) fn allocations_fit(&self, arguments: &[Vec<Size>]) -> bool {
        let class = |size: &Size| match size {
            Size::Known(_) => None,
            Size::Symbol(symbol) => Some(self.sizes.root(*symbol)),
        };
        let dynamic = |shape: &[Size]| -> Vec<usize> {
            let mut list: Vec<_> = shape.iter().filter_map(class).collect();
            list.sort_unstable();
            list
        };
        let holds_any = |shape: &&Vec<Size>| !shape.contains(&Size::Known(0));
        let arguments = arguments.iter().filter(holds_any);
        let arguments: Vec<_> = arguments.map(|shape| dynamic(shape)).collect();
        self.allocated.iter().all(|(shape, known)| {
            let dynamic = dynamic(shape);
            match dynamic.is_empty() {
                true => *known <= MOST_BYTES,
                false => *known <= MOST_BYTES_EACH && arguments.contains(&dynamic),
            }
        })
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

/// The bytes of an element of `memref<…>` or `tensor<…>`.
fn element_bytes(text: &str) -> Option<u64> {
    let (_, inside) = text.split_once('<')?;
    let (_, element) = types::dimensions(inside.strip_suffix('>')?)?;
    // A layout or an encoding is none of a type that may be allocated here.
    Some(Element::parse(element)?.kind.size() as u64)
}
