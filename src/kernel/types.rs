//! MLIR types as far as launchers and the cpu target need them: memrefs with element, shape,
//! layout and memory space, and scalars. A type of which that much is not known can't be passed.

use npu_runtime::signature::ElementType;

/// The type of one parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// `memref<*xT>`: a pointer of Triton's.
    Unranked {
        /// What it points to.
        element: Element,
    },
    /// `memref<4x?xT, layout, space>`.
    Ranked {
        /// One entry per dimension, outermost first; `None` is `?`.
        shape: Vec<Option<u64>>,
        /// What it holds.
        element: Element,
        /// How indices become addresses.
        layout: Layout,
        /// The memory space as written, if there is one.
        memory_space: Option<String>,
    },
    /// A number passed by value.
    Scalar(Element),
}

/// The type of a scalar, or of what memory holds, with its spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Its Rust counterpart, or as many bytes as it has.
    pub kind: ElementType,
    /// As MLIR writes it: `i8`, `si8` and `vector<4xf32>` are told apart by it.
    pub spelling: String,
}

/// How the indices of a ranked memref become addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Row-major and contiguous.
    Identity,
    /// `strided<[…], offset: …>`, in elements.
    Strided {
        /// One entry per dimension; `None` is `?`.
        strides: Vec<Option<i64>>,
        /// The first element's position; `None` is `?`.
        offset: Option<i64>,
    },
    /// An affine map or an attribute of a dialect, as written.
    Other(String),
}

impl Type {
    /// The element of a memref, or the scalar itself.
    #[must_use]
    pub const fn element(&self) -> &Element {
        match self {
            Self::Unranked { element } | Self::Ranked { element, .. } | Self::Scalar(element) => {
                element
            }
        }
    }
}

impl Element {
    /// Reads the type of a scalar, or of what memory holds; `None` if it has no size that all
    /// compilers agree on.
    #[must_use]
    pub fn parse(spelling: &str) -> Option<Self> {
        let kind = number(spelling).or_else(|| bytes(spelling))?;
        Some(Self {
            kind,
            spelling: spelling.to_owned(),
        })
    }
}

/// A number that Rust has as well.
fn number(spelling: &str) -> Option<ElementType> {
    Some(match spelling {
        "i1" => ElementType::I1,
        "i8" | "si8" => ElementType::I8,
        "i16" | "si16" => ElementType::I16,
        "i32" | "si32" => ElementType::I32,
        "i64" | "si64" => ElementType::I64,
        "ui8" => ElementType::Ui8,
        "ui16" => ElementType::Ui16,
        "ui32" => ElementType::Ui32,
        "ui64" => ElementType::Ui64,
        "index" => ElementType::Index,
        "f16" => ElementType::F16,
        "bf16" => ElementType::Bf16,
        "f32" => ElementType::F32,
        "f64" => ElementType::F64,
        _ => return None,
    })
}

/// The size and the alignment of a type that Rust does not have, where they are beyond doubt. `i4`
/// and `i24` are not: a cpu kernel finds the next one behind padding, a DMA of an NPU does not.
fn bytes(spelling: &str) -> Option<ElementType> {
    let text: String = spelling.split_ascii_whitespace().collect();
    let (size, align) = if let Some(part) = inside(&text, "complex<") {
        let part = layout_of_number(part)?;
        (part.0.checked_mul(2)?, part.1)
    } else if let Some(vector) = inside(&text, "vector<") {
        layout_of_vector(vector)?
    } else if let Some(block) = inside(&text, "!aiex.bfp<") {
        layout_of_blocks(block)?
    } else {
        layout_of_number(&text)?
    };
    Some(ElementType::Bytes { size, align })
}

/// Size and alignment of a number in bytes.
fn layout_of_number(text: &str) -> Option<(u32, u32)> {
    let bytes = match text {
        "i128" | "si128" | "ui128" | "f128" => 16,
        "f8E3M4" | "f8E4M3" | "f8E4M3B11FNUZ" | "f8E4M3FN" | "f8E4M3FNUZ" | "f8E5M2"
        | "f8E5M2FNUZ" | "f8E8M0FNU" => 1,
        // As an element of a vector it is one bit.
        "i1" => return None,
        _ => u32::try_from(number(text)?.size()).ok()?,
    };
    Some((bytes, bytes))
}

/// The inside of `vector<4x8xf32>`: rows of which each is aligned to its own size. LLVM pads a row
/// whose size is no power of two.
fn layout_of_vector(text: &str) -> Option<(u32, u32)> {
    const MOST: u32 = 1 << 20;
    let (shape, element) = dimensions(text)?;
    let mut size = layout_of_number(element)?.0;
    let mut align = size;
    for (position, dim) in shape.iter().rev().enumerate() {
        size = size.checked_mul(u32::try_from((*dim)?).ok()?)?;
        if position == 0 {
            align = size;
        }
    }
    (align.is_power_of_two() && align <= MAX_ALIGNMENT && size <= MOST).then_some((size, align))
}

/// What every buffer of the runtime is aligned to (`npu_runtime::Buffer`).
const MAX_ALIGNMENT: u32 = 64;

/// The inside of `!aiex.bfp<"v8bfp16ebs8">`: mlir-aie's blocks of eight or sixteen mantissas of a
/// byte each and an exponent of one.
fn layout_of_blocks(text: &str) -> Option<(u32, u32)> {
    match text {
        "\"v8bfp16ebs8\"" => Some((9, 1)),
        "\"v16bfp16ebs16\"" => Some((17, 1)),
        _ => None,
    }
}

/// Reads a type; `None` if a launch can't pass it.
#[must_use]
pub fn parse(text: &str) -> Option<Type> {
    let text = text.trim();
    if let Some(inside) = inside(text, "memref<") {
        return memref(inside);
    }
    number(text).map(|kind| {
        Type::Scalar(Element {
            kind,
            spelling: text.to_owned(),
        })
    })
}

fn inside<'t>(text: &'t str, open: &str) -> Option<&'t str> {
    text.strip_prefix(open)?.strip_suffix('>')
}

fn memref(inside: &str) -> Option<Type> {
    let mut parts = split_at_commas(inside).into_iter().map(str::trim);
    let first = parts.next()?;
    if let Some(element) = first.strip_prefix('*') {
        let element = element.trim_start().strip_prefix('x')?.trim();
        return element_of(element).map(|element| Type::Unranked { element });
    }
    let (shape, element) = dimensions(first)?;
    let element = element_of(element)?;
    let (mut layout, mut memory_space) = (Layout::Identity, None);
    for (position, part) in parts.enumerate() {
        // `strided <[1]>` is one, too.
        let part = part.replace(" <", "<");
        match layout_of(&part) {
            Some(found) if position == 0 => layout = found,
            _ if memory_space.is_none() && !part.is_empty() => memory_space = Some(part),
            _ => return None,
        }
    }
    Some(Type::Ranked {
        shape,
        element,
        layout,
        memory_space,
    })
}

fn element_of(text: &str) -> Option<Element> {
    let plausible = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '!' || c == '(');
    plausible.then(|| Element::parse(text)).flatten()
}

/// Splits `4x?xf32` into its dimensions and `f32`.
pub(super) fn dimensions(mut text: &str) -> Option<(Vec<Option<u64>>, &str)> {
    let mut shape = Vec::new();
    loop {
        text = text.trim_start();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (dim, rest) = if let Some(rest) = text.strip_prefix('?') {
            (None, rest)
        } else if digits > 0 {
            let (number, rest) = text.split_at_checked(digits)?;
            (Some(number.parse().ok()?), rest)
        } else {
            return Some((shape, text));
        };
        shape.push(dim);
        text = rest.trim_start().strip_prefix('x')?;
    }
}

fn layout_of(text: &str) -> Option<Layout> {
    if let Some(strided) = inside(text, "strided<") {
        return Some(strided_layout(strided).unwrap_or_else(|| Layout::Other(text.to_owned())));
    }
    if let Some(map) = inside(text, "affine_map<") {
        return Some(if is_identity(map) {
            Layout::Identity
        } else {
            Layout::Other(text.to_owned())
        });
    }
    // An alias (`#map`) has no dot; `#dialect.attribute` in this place is a memory space.
    (text.starts_with('#') && !text.contains('.')).then(|| Layout::Other(text.to_owned()))
}

fn strided_layout(text: &str) -> Option<Layout> {
    let (list, rest) = text.trim().strip_prefix('[')?.split_once(']')?;
    let number = |text: &str| match text.trim() {
        "?" => Some(None),
        number => number.parse::<i64>().ok().map(Some),
    };
    let strides = match list.trim() {
        "" => Vec::new(),
        list => list.split(',').map(number).collect::<Option<_>>()?,
    };
    let offset = match rest.trim() {
        "" => Some(0),
        rest => {
            let rest = rest.strip_prefix(',')?.trim_start();
            number(
                rest.strip_prefix("offset")?
                    .trim_start()
                    .strip_prefix(':')?,
            )?
        }
    };
    Some(Layout::Strided { strides, offset })
}

/// The extents of a memref or tensor, outermost first, and none of a scalar; `None` if one is not
/// known.
pub(super) fn extents(text: &str) -> Option<Vec<u64>> {
    let shaped = inside(text, "memref<").or_else(|| inside(text, "tensor<"));
    if let Some(shaped) = shaped {
        let (shape, element) = dimensions(split_at_commas(shaped).first()?)?;
        element_of(element)?;
        return shape.into_iter().collect();
    }
    let is_value = text.starts_with("vector<") || text.starts_with("complex<");
    (is_value || matches!(parse(text), Some(Type::Scalar(_)))).then(Vec::new)
}

/// Whether the inside of `affine_map<…>` is `(d0, d1) -> (d0, d1)`.
fn is_identity(map: &str) -> bool {
    map_lists(map).is_some_and(|(dims, results)| dims == results)
}

/// Whether the inside of `affine_map<…>` only reorders its dimensions, each of them used once.
pub(super) fn is_permutation(map: &str) -> bool {
    map_lists(map).is_some_and(|(mut dims, mut results)| {
        dims.sort_unstable();
        results.sort_unstable();
        dims.dedup();
        dims == results
    })
}

/// For each result of the inside of `affine_map<…>` the place of the dimension that it is; `None`
/// if one is anything else.
pub(super) fn projection(map: &str) -> Option<Vec<usize>> {
    let (dims, results) = map_lists(map)?;
    let place = |result: &&str| dims.iter().position(|dim| dim == result);
    results.iter().map(place).collect()
}

fn map_lists(map: &str) -> Option<(Vec<&str>, Vec<&str>)> {
    let (dims, results) = map.split_once("->")?;
    Some((list_in_parentheses(dims)?, list_in_parentheses(results)?))
}

fn list_in_parentheses(text: &str) -> Option<Vec<&str>> {
    let inside = text.trim().strip_prefix('(')?.strip_suffix(')')?.trim();
    if inside.is_empty() {
        return Some(Vec::new());
    }
    Some(inside.split(',').map(str::trim).collect())
}

/// Splits at commas outside of brackets and strings.
fn split_at_commas(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut parts, mut start, mut depth, mut at) = (Vec::new(), 0, 0usize, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if at > 0 && bytes.get(at - 1) == Some(&b'-') => {}
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                at += 1;
                while bytes.get(at).is_some_and(|c| *c != b'"') {
                    at += 1 + usize::from(bytes.get(at) == Some(&b'\\'));
                }
            }
            b',' if depth == 0 => {
                parts.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

#[cfg(test)]
mod tests;
