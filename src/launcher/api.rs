//! What a kernel's `launch` looks like in Rust: the type and the name of each parameter.
//!
//! The parameters stand in the order of the MLIR. Up to seven (clippy's limit, `self` and the
//! grid included) are passed one by one; more are the fields of a struct.

use npu_runtime::{Bounds, Direction, ElementType, Kind, Shape, Signature};

use super::names::Identifier;
use super::{Error, bindings};

/// The most parameters that clippy's `too_many_arguments` accepts, `self` among them.
const MOST_PARAMETERS: usize = 7;
/// The most that `fn_params_excessive_bools` and `struct_excessive_bools` accept.
const MOST_BOOLS: usize = 3;

/// How a kernel is launched from Rust.
pub(super) struct Api<'a> {
    pub(super) signature: &'a Signature,
    pub(super) parameters: Vec<Parameter<'a>>,
    pub(super) form: Form,
    /// Whether `bool` has to go by another name, so that clippy does not count it.
    pub(super) alias_bool: bool,
}

/// How the arguments are handed over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One by one; callers never write the names.
    List,
    /// As the fields of one struct.
    Struct,
}

/// One argument of a kernel.
pub(super) struct Parameter<'a> {
    pub(super) source: &'a npu_runtime::Parameter,
    pub(super) name: Identifier,
    /// The parameter that gives the full shape, and its rank.
    pub(super) shape: Option<(Identifier, usize)>,
    /// The type of the scalar or of one element, as generated code spells it.
    pub(super) rust: RustType,
    /// What a launch checks of its size, for people; empty if nothing.
    pub(super) extent: String,
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

    /// The declaration of the parameter where arguments are handed over one by one.
    pub(super) fn declaration(&self) -> String {
        let (name, path) = (&self.name, self.rust.path);
        match self.memory() {
            None => format!("{name}: {path}"),
            Some((_, _, Direction::In)) => {
                format!("{name}: &(impl npu_runtime::Input<{path}> + ?Sized)")
            }
            Some(_) => format!("{name}: &mut (impl npu_runtime::Output<{path}> + ?Sized)"),
        }
    }

    /// The same where the memory is borrowed for `'a`, and shared buffers are taken by value.
    pub(super) fn bound_declaration(&self) -> String {
        let (name, path) = (&self.name, self.rust.path);
        match self.memory() {
            None => format!("{name}: {path}"),
            Some((_, _, Direction::In)) => {
                format!("{name}: impl npu_runtime::IntoInput<'a, {path}>")
            }
            Some(_) => format!("{name}: impl npu_runtime::IntoOutput<'a, {path}>"),
        }
    }

    /// The declaration of the field where arguments are handed over as a struct.
    pub(super) fn field(&self) -> String {
        let (name, path) = (&self.name, self.rust.path);
        match self.memory() {
            None => format!("pub {name}: {path}"),
            Some((_, _, Direction::In)) => {
                format!("pub {name}: &'a dyn npu_runtime::Input<{path}>")
            }
            Some(_) => format!("pub {name}: &'a mut dyn npu_runtime::Output<{path}>"),
        }
    }

    /// The names that the parameter takes in Rust, without `r#`.
    pub(super) fn bound_names(&self) -> impl Iterator<Item = &str> {
        let shape = self.shape.iter().map(|(name, _)| name.plain());
        std::iter::once(self.name.plain()).chain(shape)
    }
}

/// A Rust type.
#[derive(Clone, Copy)]
pub(super) struct RustType {
    pub(super) path: &'static str,
    /// Its name for people.
    pub(super) short: &'static str,
    /// An expression of this type.
    pub(super) zero: &'static str,
}

impl RustType {
    const fn new(path: &'static str, zero: &'static str) -> Self {
        Self {
            path,
            short: path,
            zero,
        }
    }

    /// The type of one element in memory.
    fn in_memory(element: &ElementType) -> Self {
        match element {
            ElementType::I1 => Self::new("u8", "0"),
            other => Self::by_value(other).unwrap_or(Self::new("u8", "0")),
        }
    }

    /// The type of a scalar; an opaque one has none.
    fn by_value(element: &ElementType) -> Option<Self> {
        Some(match element {
            ElementType::I1 => Self::new("bool", "false"),
            ElementType::I8 => Self::new("i8", "0"),
            ElementType::I16 => Self::new("i16", "0"),
            ElementType::I32 => Self::new("i32", "0"),
            ElementType::I64 | ElementType::Index => Self::new("i64", "0"),
            ElementType::Ui8 => Self::new("u8", "0"),
            ElementType::Ui16 => Self::new("u16", "0"),
            ElementType::Ui32 => Self::new("u32", "0"),
            ElementType::Ui64 => Self::new("u64", "0"),
            ElementType::F32 => Self::new("f32", "0.0"),
            ElementType::F64 => Self::new("f64", "0.0"),
            ElementType::F16 => Self {
                path: "npu_runtime::half::f16",
                short: "f16",
                zero: "npu_runtime::half::f16::ZERO",
            },
            ElementType::Bf16 => Self {
                path: "npu_runtime::half::bf16",
                short: "bf16",
                zero: "npu_runtime::half::bf16::ZERO",
            },
            _ => return None,
        })
    }
}

impl<'a> Api<'a> {
    pub(super) fn new(signature: &'a Signature) -> Result<Self, Error> {
        let sources = || signature.parameters.iter();
        let is_bool = |kind: &Kind| matches!(kind, Kind::Scalar(ElementType::I1));
        let bools = sources().filter(|source| is_bool(&source.kind)).count();
        let shapes = sources().filter_map(rank_to_give).count();
        let count = 1 + usize::from(signature.grid) + sources().len() + shapes;

        let mut api = Self {
            signature,
            parameters: Vec::with_capacity(sources().len()),
            form: if count > MOST_PARAMETERS {
                Form::Struct
            } else {
                Form::List
            },
            alias_bool: bools > MOST_BOOLS,
        };
        for source in sources() {
            let mut rust = rust_type(signature, source)?;
            if api.alias_bool && rust.path == "bool" {
                rust.path = "Flag";
            }
            api.parameters.push(Parameter {
                source,
                name: Identifier::default(),
                shape: rank_to_give(source).map(|rank| (Identifier::default(), rank)),
                rust,
                extent: signature.extents_text(source),
            });
        }
        bindings::settle(&mut api)?;
        Ok(api)
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

fn rust_type(signature: &Signature, parameter: &npu_runtime::Parameter) -> Result<RustType, Error> {
    match &parameter.kind {
        Kind::Memory { element, .. } => Ok(RustType::in_memory(element)),
        Kind::Scalar(element) => RustType::by_value(element).ok_or_else(|| Error::OpaqueScalar {
            kernel: signature.name.to_string(),
            argument: parameter.name.to_string(),
            mlir_type: parameter.mlir_type.to_string(),
        }),
    }
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
