//! What the documentation of a launcher says about a kernel's arguments: the MLIR's words beside
//! Rust's, with the rule for each length.

use npu_runtime::{Direction, ElementType, Shape};

use super::parameters::Parameter;
use super::text;

/// The table of a module's documentation.
pub(super) fn table(parameters: &[Parameter<'_>]) -> Vec<String> {
    let header = ["argument", "MLIR type", "shape", "direction", "Rust type"];
    let mut rows = vec![header.map(str::to_owned)];
    for parameter in parameters {
        let short = parameter.short();
        let [shape, direction, rust] = match parameter.memory() {
            None => ["scalar".to_owned(), "by value".to_owned(), short.to_owned()],
            Some((_, shape, direction)) => {
                let borrow = if direction.is_written() { "&mut " } else { "&" };
                let rust = format!("{borrow}[{short}]");
                [shape_text(shape), direction.to_string(), rust]
            }
        };
        let name = text::line(&parameter.source.name);
        rows.push([
            name,
            text::line(&parameter.source.mlir_type),
            shape,
            direction,
            rust,
        ]);
    }
    text::table(&rows)
}

fn shape_text(shape: &Shape) -> String {
    match shape {
        Shape::Unranked => "any".to_owned(),
        Shape::Ranked(dims) if dims.is_empty() => "one element".to_owned(),
        Shape::Ranked(dims) => {
            let dim = |dim: &Option<u64>| dim.map_or("?".to_owned(), |size| size.to_string());
            dims.iter().map(dim).collect::<Vec<_>>().join(" x ")
        }
    }
}

/// The MLIR's name and type, which way the data goes, and what Rust hands over.
pub(super) fn description(parameter: &Parameter<'_>) -> String {
    let source = parameter.source;
    let mlir = text::code(&format!("%{}: {}", source.name, source.mlir_type));
    let short = parameter.short();
    let Some((element, shape, direction)) = parameter.memory() else {
        return format!("{mlir}, by value; `{short}`.");
    };
    let (verb, borrow) = match direction {
        Direction::In => ("read", "&"),
        Direction::Out => ("overwritten as a whole", "&mut "),
        Direction::InOut => ("read and written", "&mut "),
    };
    let note = match element {
        ElementType::I1 => ", each 0 or 1".to_owned(),
        ElementType::Bytes { size, align } if *align > 1 => {
            format!(" of {size} bytes, aligned to {align}")
        }
        ElementType::Bytes { size, .. } if *size > 1 => format!(" of {size} bytes"),
        _ => String::new(),
    };
    let mut length = length(parameter, shape);
    if !parameter.source.extents.is_empty() {
        let extent = text::code(&parameter.extent);
        length.push_str(&format!(", extent {extent}"));
    }
    format!("{mlir}, {verb}; `{borrow}[{short}]` of {length}{note}.")
}

fn length(parameter: &Parameter<'_>, shape: &Shape) -> String {
    if let Some((name, _)) = &parameter.shape {
        return format!("as many elements as `{}` multiplies to", name.plain());
    }
    let Shape::Ranked(dims) = shape else {
        return "any number of elements".to_owned();
    };
    let product = dims
        .iter()
        .flatten()
        .try_fold(1u64, |product, size| product.checked_mul(*size));
    let is_dynamic = dims.contains(&None);
    match product {
        None => "more elements than there can be".to_owned(),
        Some(1) if is_dynamic => "any number of elements".to_owned(),
        Some(product) if is_dynamic => format!("a multiple of {product} elements"),
        Some(1) => "exactly 1 element".to_owned(),
        Some(product) => format!("exactly {product} elements"),
    }
}

/// The items of the documentation of `launch`.
pub(super) fn arguments(parameters: &[Parameter<'_>]) -> Vec<String> {
    let mut items = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        items.push(format!(
            "`{}`: {}",
            parameter.name.plain(),
            description(parameter)
        ));
        if let Some((shape, rank)) = &parameter.shape {
            let (shape, name) = (shape.plain(), parameter.name.plain());
            items.push(format!(
                "`{shape}`: the {rank} sizes of `{name}`, outermost first."
            ));
        }
    }
    items
}
