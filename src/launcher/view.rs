//! What the template is filled with: every name, type and table as text, laid out already.

use std::sync::LazyLock;

use npu_runtime::{ElementType, Extent, Factor, Kind, Shape};
use serde::Serialize;
use tera::{Context, Tera};

use super::api::{Form, Parameter};
use super::images::{self, File};
use super::layout::{self, Expr};
use super::methods::{self, Method};
use super::names;
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
    /// Where the images run.
    compiled: Vec<String>,
    fence: String,
    table: Vec<String>,
    name_constant: String,
    /// The constant that lists the files.
    files: String,
    /// Whether the files are embedded, here or in another kernel's module.
    embeds: bool,
    /// The statics of those that are embedded here.
    embedded: Vec<String>,
    /// The embedded files as artifacts.
    artifacts: String,
    /// The pattern that takes them apart, and the images that are made of them.
    pattern: String,
    images: String,
    file_count: usize,
    count: usize,
    parameters: String,
    grid: bool,
    /// The only grids that run on an NPU, if there is an image for one.
    frozen: Option<String>,
    alias_bool: bool,
    /// Only where the arguments are the fields of a struct.
    fields: Option<Vec<Field>>,
    /// Whether such a struct borrows memory.
    borrows: bool,
    /// Whether taking it apart moves anything out of it.
    moves: bool,
    /// Whether it is `Copy`.
    copy: bool,
    arguments: Vec<String>,
    /// Whether it may have external variables; a stub stands in for a kernel that may.
    variables: bool,
    /// The variant that says what keeps the kernel within its arguments.
    bounds: String,
    /// Whether launching is safe.
    is_safe: bool,
    /// Whether launches check extents.
    extents: bool,
    launch: Method,
    bind: Method,
    unpack: Option<String>,
}

/// A field of the struct of arguments.
#[derive(Serialize)]
struct Field {
    docs: String,
    declaration: String,
}

impl View {
    fn new(module: &Module<'_>, files: &[File<'_>], locate: Locate) -> Self {
        let Module { kernel, name, api } = module;
        let signature = &kernel.signature;
        let table = docs::table(&api.parameters);
        let is_struct = api.form == Form::Struct;
        let is_stub = kernel.images.is_empty();
        let embeds = locate == Locate::Embed;
        Self {
            name: name.to_string(),
            kernel_code: text::code(&signature.name),
            compiled: kernel.images.iter().map(images::description).collect(),
            fence: text::fence(table.iter().map(String::as_str)),
            table,
            name_constant: layout::constant(
                4,
                "pub const NAME: &str",
                &text::literal(&signature.name),
            ),
            files: images::list(files),
            embeds,
            embedded: match embeds {
                true => images::embedded(files),
                false => Vec::new(),
            },
            artifacts: images::artifacts(files),
            pattern: images::pattern(files),
            images: images::array(&kernel.images, files),
            file_count: files.len(),
            count: api.parameters.len(),
            parameters: parameters(&api.parameters),
            grid: signature.grid,
            frozen: images::frozen_grids(&kernel.images),
            alias_bool: api.alias_bool,
            fields: is_struct.then(|| fields(&api.parameters)),
            borrows: api.borrows(),
            moves: api.parameters.iter().any(is_written),
            copy: may_be_copied(&api.parameters),
            arguments: docs::arguments(&api.parameters),
            variables: is_stub || kernel.images.iter().any(is_hsaco),
            bounds: format!("{:?}", signature.bounds),
            is_safe: api.is_safe(),
            extents: signature.parameters.iter().any(|it| !it.extents.is_empty()),
            launch: methods::launch(api),
            bind: methods::bind(api),
            unpack: is_struct.then(|| methods::unpack(api)),
        }
    }
}

/// The initialiser of the signature's parameters.
fn parameters(parameters: &[Parameter<'_>]) -> String {
    let literal = |text: &str| Expr::Atom(text::literal(text));
    let parameter = |(position, parameter): (usize, &Parameter<'_>)| {
        let source = parameter.source;
        let mut arguments = vec![literal(&source.name), literal(&source.mlir_type)];
        let path = |kind: &str, value: &dyn std::fmt::Debug| {
            Expr::Atom(format!("npu_runtime::{kind}::{value:?}"))
        };
        let element_path = |element: &ElementType| match element {
            ElementType::Bytes { size, align } => Expr::Atom(format!(
                "npu_runtime::ElementType::bytes({}, {align})",
                text::integer(u64::from(*size))
            )),
            element => path("ElementType", element),
        };
        match &source.kind {
            Kind::Scalar(element) => {
                arguments.push(element_path(element));
                Expr::call("npu_runtime::Parameter::scalar", arguments)
            }
            Kind::Memory {
                element,
                shape,
                direction,
            } => {
                arguments.push(element_path(element));
                arguments.push(shape_expression(shape));
                arguments.push(path("Direction", direction));
                if source.extents.is_empty() {
                    return Expr::call("npu_runtime::Parameter::memory", arguments);
                }
                arguments.push(Expr::Atom(format!("&EXTENTS_{position}")));
                Expr::call("npu_runtime::Parameter::memory_of", arguments)
            }
        }
    };
    let items: Vec<Expr> = parameters.iter().enumerate().map(parameter).collect();
    let head = format!(
        "static PARAMETERS: [npu_runtime::Parameter; {}] = ",
        items.len()
    );
    let mut text = Expr::Array("", items).lay_out(4, &head, ";");
    for (position, parameter) in parameters.iter().enumerate() {
        let extents = &parameter.source.extents;
        if !extents.is_empty() {
            let count = extents.len();
            let head = format!("static EXTENTS_{position}: [npu_runtime::Extent; {count}] = ");
            let extents = extents.iter().map(extent_expression).collect();
            text.push('\n');
            text.push_str(&Expr::Array("", extents).lay_out(4, &head, ";"));
        }
    }
    text
}

fn extent_expression(extent: &Extent) -> Expr {
    let variant = |name: &str, value| Expr::call(format!("npu_runtime::Extent::{name}"), [value]);
    match extent {
        Extent::Any => Expr::atom("npu_runtime::Extent::Any"),
        Extent::Exactly(size) => variant("Exactly", Expr::Atom(text::integer(*size))),
        Extent::Same(name) => variant("same", Expr::Atom(text::literal(name))),
        Extent::AtLeast(factors) => {
            let factor = |factor: &Factor| {
                let (name, value) = match *factor {
                    Factor::Number(number) => ("Number", text::integer(number)),
                    Factor::Scalar(position) => ("Scalar", text::integer(position as u64)),
                    Factor::Grid(axis) => ("Grid", axis.to_string()),
                };
                Expr::Atom(format!("npu_runtime::Factor::{name}({value})"))
            };
            let factors = Expr::Array("&", factors.iter().map(factor).collect());
            variant("at_least", factors)
        }
    }
}

fn shape_expression(shape: &Shape) -> Expr {
    let dim = |dim: &Option<u64>| match dim {
        Some(size) => Expr::Atom(format!(
            "::std::option::Option::Some({})",
            text::integer(*size)
        )),
        None => Expr::atom("::std::option::Option::None"),
    };
    match shape {
        Shape::Unranked => Expr::atom("npu_runtime::Shape::Unranked"),
        Shape::Ranked(dims) => {
            let dims = Expr::Array("&", dims.iter().map(dim).collect());
            let dims = Expr::call("::std::borrow::Cow::Borrowed", [dims]);
            Expr::call("npu_runtime::Shape::Ranked", [dims])
        }
    }
}

fn fields(parameters: &[Parameter<'_>]) -> Vec<Field> {
    let mut fields = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        fields.push(Field {
            docs: docs::description(parameter),
            declaration: parameter.field(),
        });
        if let Some((shape, rank)) = &parameter.shape {
            let name = parameter.name.plain();
            fields.push(Field {
                docs: format!("The sizes of `{name}`, outermost first."),
                declaration: format!("pub {shape}: [usize; {rank}]"),
            });
        }
    }
    fields
}

fn is_hsaco(image: &Image) -> bool {
    matches!(image, Image::Hsaco { .. })
}

fn is_written(parameter: &Parameter<'_>) -> bool {
    let memory = parameter.memory();
    memory.is_some_and(|(_, _, direction)| direction.is_written())
}

/// Whether the struct of arguments is `Copy`: nothing in it is borrowed mutably, and it is not
/// what clippy calls large (`large_types_passed_by_value`).
fn may_be_copied(parameters: &[Parameter<'_>]) -> bool {
    const MOST_BYTES: usize = 256;
    let bytes = |parameter: &Parameter<'_>| {
        let value = if parameter.memory().is_some() { 16 } else { 8 };
        value + parameter.shape.as_ref().map_or(0, |(_, rank)| 8 * rank)
    };
    let bytes: usize = parameters.iter().map(bytes).sum();
    bytes <= MOST_BYTES && !parameters.iter().any(is_written)
}
