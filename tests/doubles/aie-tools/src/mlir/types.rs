//! The types that a kernel's arguments have.

/// A type as far as the doubles look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// The type as written, without white space.
    pub text: String,
    /// The dimensions of a ranked memref, tensor or vector; `None` stands for a dynamic one.
    pub shape: Option<Vec<Option<u64>>>,
    /// The element type, or the type itself if it has no elements.
    pub element: String,
}

impl Type {
    /// Reads a type as written.
    pub fn parse(text: &str) -> Self {
        let (shape, element) = parts(text);
        Self {
            text: text.to_owned(),
            shape,
            element,
        }
    }

    /// Whether it is a buffer.
    pub fn is_memref(&self) -> bool {
        self.text.starts_with("memref<")
    }

    /// The number of elements, where all dimensions are known.
    pub fn elements(&self) -> Option<u64> {
        let shape = self.shape.as_ref()?;
        shape.iter().try_fold(1u64, |product, dimension| {
            product.checked_mul((*dimension)?)
        })
    }

    /// The size of an element in bytes.
    pub fn element_bytes(&self) -> u64 {
        let digits = self
            .element
            .trim_start_matches(|c: char| !c.is_ascii_digit());
        let bits: u64 = digits.parse().unwrap_or(32);
        bits.div_ceil(8)
    }
}

fn parts(text: &str) -> (Option<Vec<Option<u64>>>, String) {
    let inside = text
        .strip_prefix("memref<")
        .or_else(|| text.strip_prefix("tensor<"))
        .or_else(|| text.strip_prefix("vector<"));
    let Some(inside) = inside.and_then(|t| t.strip_suffix('>')) else {
        return (None, text.to_owned());
    };
    let head = inside.split(',').next().unwrap_or(inside);
    if let Some(element) = head.strip_prefix("*x") {
        return (None, element.to_owned());
    }
    let mut shape = Vec::new();
    let mut rest = head;
    loop {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (dimension, after) = if let Some(after) = rest.strip_prefix('?') {
            (None, after)
        } else if digits > 0 {
            let (number, after) = rest.split_at(digits);
            (number.parse().ok(), after)
        } else {
            break;
        };
        let Some(after) = after.strip_prefix('x') else {
            break;
        };
        shape.push(dimension);
        rest = after;
    }
    (Some(shape), rest.to_owned())
}
