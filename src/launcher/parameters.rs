//! The parameters of a kernel's `launch` in Rust: their names and types, in the order of the MLIR.

use npu_runtime::{Bounds, Direction, ElementType, Kind, Shape, Signature};

use super::Error;
use super::names::{self, Identifier};

/// More parameters than this, `self` and the grid included, are the fields of a struct.
const MOST_PARAMETERS: usize = 7;
/// The parameter that every kernel with a grid has besides its arguments.
const GRID: &str = "grid";

/// How a kernel is launched from Rust.
pub(super) struct Api<'a> {
    pub(super) signature: &'a Signature,
    pub(super) parameters: Vec<Parameter<'a>>,
    /// Whether the arguments are the fields of one struct, and not handed over one by one.
    pub(super) is_struct: bool,
}

/// One argument of a kernel.
pub(super) struct Parameter<'a> {
    pub(super) source: &'a npu_runtime::Parameter,
    pub(super) name: Identifier,
    /// The parameter that gives the full shape, and its rank.
    pub(super) shape: Option<(Identifier, usize)>,
    /// The path of the type of the scalar or of one element.
    pub(super) rust: &'static str,
    /// What a launch checks of its size, for people; empty if nothing.
    pub(super) extent: String,
}

impl<'a> Api<'a> {
    pub(super) fn new(signature: &'a Signature) -> Result<Self, Error> {
        let names = unique_names(signature)?;
        let sources = signature.parameters.iter();
        let shapes = sources.clone().filter_map(rank_to_give).count();
        let count = 1 + usize::from(signature.grid) + names.len() + shapes;
        let parameter = |(source, name): (&'a npu_runtime::Parameter, &String)| {
            let shape = rank_to_give(source).map(|rank| {
                let mut shape = format!("{name}_shape");
                while names.contains(&shape) {
                    shape.push('_');
                }
                (Identifier::new(shape), rank)
            });
            Ok::<_, Error>(Parameter {
                source,
                name: Identifier::new(name.clone()),
                shape,
                rust: rust_type(signature, source)?,
                extent: signature.extents_text(source),
            })
        };
        Ok(Self {
            signature,
            is_struct: count > MOST_PARAMETERS,
            parameters: sources
                .zip(&names)
                .map(parameter)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Whether the checks of a launch keep the kernel within its arguments.
    pub(super) fn is_safe(&self) -> bool {
        self.signature.bounds != Bounds::Unchecked
    }

    /// Whether any argument is memory.
    pub(super) fn borrows(&self) -> bool {
        self.parameters.iter().any(|one| one.memory().is_some())
    }
}

impl Parameter<'_> {
    /// The element, shape and direction of memory.
    pub(super) fn memory(&self) -> Option<(&ElementType, &Shape, Direction)> {
        match &self.source.kind {
            Kind::Memory {
                element,
                shape,
                direction,
            } => Some((element, shape, *direction)),
            Kind::Scalar(_) => None,
        }
    }

    /// The type of the element for people.
    pub(super) fn short(&self) -> &'static str {
        self.rust.rsplit("::").next().unwrap_or(self.rust)
    }

    /// Its type as a parameter of `launch`.
    pub(super) fn launched(&self) -> String {
        let path = self.rust;
        match self.memory() {
            None => path.to_owned(),
            Some((_, _, Direction::In)) => format!("&(impl npu_runtime::Input<{path}> + ?Sized)"),
            Some(_) => format!("&mut (impl npu_runtime::Output<{path}> + ?Sized)"),
        }
    }

    /// Its type as a parameter of `bind`, which borrows for `'a` and takes shared buffers by value.
    pub(super) fn bound(&self) -> String {
        let path = self.rust;
        match self.memory() {
            None => path.to_owned(),
            Some((_, _, Direction::In)) => format!("impl npu_runtime::IntoInput<'a, {path}>"),
            Some(_) => format!("impl npu_runtime::IntoOutput<'a, {path}>"),
        }
    }

    /// Its type as a field of the struct of arguments.
    pub(super) fn field(&self) -> String {
        let path = self.rust;
        match self.memory() {
            None => path.to_owned(),
            Some((_, _, Direction::In)) => format!("&'a dyn npu_runtime::Input<{path}>"),
            Some(_) => format!("&'a mut dyn npu_runtime::Output<{path}>"),
        }
    }

    /// What the runtime is given; `shape` is how the shape's name is handed over.
    pub(super) fn argument(&self, shape: fn(&Identifier) -> String) -> String {
        let (name, path) = (&self.name, self.rust);
        let argument = match self.memory() {
            None => format!("npu_runtime::Arg::scalar({name})"),
            Some((_, _, Direction::In)) => format!("npu_runtime::Arg::input::<{path}>({name})"),
            Some(_) => format!("npu_runtime::Arg::output::<{path}>({name})"),
        };
        match &self.shape {
            None => argument,
            Some((name, _)) => format!("npu_runtime::Arg::with_shape({argument}, {})", shape(name)),
        }
    }
}

/// The names of the arguments in Rust, none of them twice.
fn unique_names(signature: &Signature) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = Vec::with_capacity(signature.parameters.len());
    for (index, parameter) in signature.parameters.iter().enumerate() {
        let mut name = names::argument(&parameter.name, index);
        if signature.grid && name == GRID {
            // No other name ends in an underscore.
            name.push('_');
        }
        if let Some(first) = names.iter().position(|earlier| *earlier == name) {
            let first = signature.parameters.get(first);
            return Err(Error::ArgumentCollision {
                kernel: signature.name.to_string(),
                first: first.map_or_else(String::new, |it| it.name.to_string()),
                second: parameter.name.to_string(),
                identifier: Identifier::new(name).to_string(),
            });
        }
        names.push(name);
    }
    Ok(names)
}

fn rust_type(
    signature: &Signature,
    parameter: &npu_runtime::Parameter,
) -> Result<&'static str, Error> {
    match &parameter.kind {
        Kind::Memory {
            element: ElementType::I1,
            ..
        } => Ok("u8"),
        Kind::Memory { element, .. } => Ok(by_value(element).unwrap_or("u8")),
        Kind::Scalar(element) => by_value(element).ok_or_else(|| Error::OpaqueScalar {
            kernel: signature.name.to_string(),
            argument: parameter.name.to_string(),
            mlir_type: parameter.mlir_type.to_string(),
        }),
    }
}

/// The type of a scalar; one of bytes has none.
fn by_value(element: &ElementType) -> Option<&'static str> {
    Some(match element {
        ElementType::I1 => "bool",
        ElementType::I8 => "i8",
        ElementType::I16 => "i16",
        ElementType::I32 => "i32",
        ElementType::I64 | ElementType::Index => "i64",
        ElementType::Ui8 => "u8",
        ElementType::Ui16 => "u16",
        ElementType::Ui32 => "u32",
        ElementType::Ui64 => "u64",
        ElementType::F32 => "f32",
        ElementType::F64 => "f64",
        ElementType::F16 => "npu_runtime::half::f16",
        ElementType::Bf16 => "npu_runtime::half::bf16",
        _ => return None,
    })
}

/// The rank of memory whose length alone does not tell its shape.
fn rank_to_give(parameter: &npu_runtime::Parameter) -> Option<usize> {
    match &parameter.kind {
        Kind::Memory {
            shape: Shape::Ranked(dims),
            ..
        } if dims.iter().filter(|dim| dim.is_none()).count() > 1 => Some(dims.len()),
        _ => None,
    }
}
