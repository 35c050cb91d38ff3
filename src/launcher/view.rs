//! What the template is filled with: every name, type and table as text.

use std::sync::LazyLock;

use npu_runtime::{ElementType, Extent, Factor, Kind, Shape};
use serde::Serialize;
use tera::{Context, Tera};

use super::images::{self, File};
use super::names;
use super::parameters::Parameter;
use super::{Error, Image, Locate, Module, Request, TEMPLATE, docs, text};

static TERA: LazyLock<Result<Tera, String>> = LazyLock::new(|| {
    let mut tera = Tera::default();
    tera.autoescape_on(Vec::new());
    match tera.add_raw_template("launcher", TEMPLATE) {
        Ok(()) => Ok(tera),
        Err(error) => Err(chain(&error)),
    }
});

pub(super) fn render(modules: &[Module<'_>], request: &Request) -> Result<String, Error> {
    let template = |reason| Error::Template { reason };
    let tera = TERA.as_ref().map_err(|reason| template(reason.clone()))?;
    let modules: Vec<_> = modules
        .iter()
        .zip(images::files(modules))
        .map(|(module, files)| View::new(module, &files, request.locate))
        .collect();
    let mut context = Context::new();
    context.insert("modules", &modules);
    context.insert("runtime", &names::runtime_import(&request.runtime_crate));
    let text = tera.render("launcher", &context);
    text.map_err(|error| template(chain(&error)))
}

fn chain(error: &tera::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// A module as the template sees it.
#[derive(Serialize)]
struct View {
    name: String,
    kernel_code: String,
    kernel_literal: String,
    /// Where the images run.
    compiled: Vec<String>,
    fence: String,
    table: Vec<String>,
    /// Names and digests of the files, and their variables.
    files: Vec<String>,
    variables: Vec<String>,
    /// Whether the files are embedded, here or in another kernel's module.
    embeds: bool,
    /// The statics of those that are embedded here.
    embedded: Vec<String>,
    /// The embedded files as artifacts.
    artifacts: Vec<String>,
    images: Vec<String>,
    parameters: Vec<ParameterView>,
    grid: bool,
    /// The only grids that run on an NPU, if there is an image for one.
    frozen: Option<String>,
    is_struct: bool,
    /// Whether the arguments borrow memory.
    borrows: bool,
    /// What `launch` says of its arguments.
    arguments: Vec<String>,
    /// Whether it may have external variables; a stub stands in for a kernel that may.
    has_variables: bool,
    /// The variant that says what keeps the kernel within its arguments.
    bounds: String,
    is_safe: bool,
    /// Whether launches check extents.
    has_extents: bool,
}

/// A parameter as the template sees it.
#[derive(Serialize)]
struct ParameterView {
    name: String,
    /// The parameter of the signature.
    constant: String,
    extents: Vec<String>,
    /// The types of the parameters that hand it over.
    launched: String,
    bound: String,
    field: String,
    docs: String,
    shape: Option<String>,
    shape_docs: String,
    rank: usize,
    /// What the runtime is given.
    argument: String,
    bound_argument: String,
}

impl View {
    fn new(module: &Module<'_>, files: &[File<'_>], locate: Locate) -> Self {
        let Module { kernel, name, api } = module;
        let signature = &kernel.signature;
        let table = docs::table(&api.parameters);
        let embeds = locate == Locate::Embed;
        let parameters = api.parameters.iter().enumerate();
        Self {
            name: name.to_string(),
            kernel_code: text::code(&signature.name),
            kernel_literal: text::literal(&signature.name),
            compiled: kernel.images.iter().map(images::description).collect(),
            fence: text::fence(table.iter().map(String::as_str)),
            table,
            files: files.iter().map(File::listed).collect(),
            variables: files
                .iter()
                .map(|file| file.variable().to_owned())
                .collect(),
            embeds,
            embedded: match embeds {
                true => files.iter().filter_map(File::embedded).collect(),
                false => Vec::new(),
            },
            artifacts: files.iter().map(File::artifact).collect(),
            images: images::expressions(&kernel.images, files),
            parameters: parameters.map(ParameterView::new).collect(),
            grid: signature.grid,
            frozen: images::frozen_grids(&kernel.images),
            is_struct: api.is_struct,
            borrows: api.borrows(),
            arguments: docs::arguments(&api.parameters),
            has_variables: kernel.images.is_empty() || kernel.images.iter().any(is_hsaco),
            bounds: format!("{:?}", signature.bounds),
            is_safe: api.is_safe(),
            has_extents: signature.parameters.iter().any(|it| !it.extents.is_empty()),
        }
    }
}

impl ParameterView {
    fn new((position, parameter): (usize, &Parameter<'_>)) -> Self {
        let (shape, rank) = match &parameter.shape {
            Some((shape, rank)) => (Some(shape.to_string()), *rank),
            None => (None, 0),
        };
        Self {
            name: parameter.name.to_string(),
            constant: constant(position, parameter.source),
            extents: parameter.source.extents.iter().map(extent).collect(),
            launched: parameter.launched(),
            bound: parameter.bound(),
            field: parameter.field(),
            docs: docs::description(parameter),
            shape,
            shape_docs: format!(
                "The sizes of `{}`, outermost first.",
                parameter.name.plain()
            ),
            rank,
            argument: parameter.argument(|shape| format!("&{shape}")),
            bound_argument: parameter.argument(|shape| format!("{shape}.to_vec()")),
        }
    }
}

/// The parameter in the signature.
fn constant(position: usize, parameter: &npu_runtime::Parameter) -> String {
    let names = format!(
        "{}, {}",
        text::literal(&parameter.name),
        text::literal(&parameter.mlir_type)
    );
    match &parameter.kind {
        Kind::Scalar(of) => format!("npu_runtime::Parameter::scalar({names}, {})", element(of)),
        Kind::Memory {
            element: of,
            shape: dims,
            direction,
        } => {
            let memory = format!(
                "{names}, {}, {}, npu_runtime::Direction::{direction:?}",
                element(of),
                shape(dims)
            );
            match parameter.extents.is_empty() {
                true => format!("npu_runtime::Parameter::memory({memory})"),
                false => {
                    format!("npu_runtime::Parameter::memory_of({memory}, &EXTENTS_{position})")
                }
            }
        }
    }
}

fn element(element: &ElementType) -> String {
    match element {
        ElementType::Bytes { size, align } => {
            format!("npu_runtime::ElementType::bytes({size}, {align})")
        }
        element => format!("npu_runtime::ElementType::{element:?}"),
    }
}

fn shape(shape: &Shape) -> String {
    let dim = |dim: &Option<u64>| match dim {
        Some(size) => format!("::std::option::Option::Some({size})"),
        None => "::std::option::Option::None".to_owned(),
    };
    match shape {
        Shape::Unranked => "npu_runtime::Shape::Unranked".to_owned(),
        Shape::Ranked(dims) => {
            let dims: Vec<_> = dims.iter().map(dim).collect();
            format!(
                "npu_runtime::Shape::Ranked(::std::borrow::Cow::Borrowed(&[{}]))",
                dims.join(", ")
            )
        }
    }
}

fn extent(extent: &Extent) -> String {
    match extent {
        Extent::Any => "npu_runtime::Extent::Any".to_owned(),
        Extent::Exactly(size) => format!("npu_runtime::Extent::Exactly({size})"),
        Extent::Same(name) => format!("npu_runtime::Extent::same({})", text::literal(name)),
        Extent::AtLeast(factors) => {
            let factor = |factor: &Factor| format!("npu_runtime::Factor::{factor:?}");
            let factors: Vec<_> = factors.iter().map(factor).collect();
            format!("npu_runtime::Extent::at_least(&[{}])", factors.join(", "))
        }
    }
}

fn is_hsaco(image: &Image) -> bool {
    matches!(image, Image::Hsaco { .. })
}
