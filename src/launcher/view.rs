//! What the template is filled with: every name, type and table as text, laid out already.

use std::sync::LazyLock;

use npu_runtime::{Direction, Kind, Shape};
use serde::Serialize;
use tera::{Context, Tera};

use super::api::{Form, Parameter};
use super::layout::{self, Expr};
use super::{Error, Image, Locate, Module, TEMPLATE, docs, text};

const RESULT: &str = "::core::result::Result<(), ::npu_runtime::Error>";

static TERA: LazyLock<Result<Tera, String>> = LazyLock::new(|| {
    let mut tera = Tera::default();
    tera.autoescape_on(Vec::new());
    match tera.add_raw_template("launcher", TEMPLATE) {
        Ok(()) => Ok(tera),
        Err(error) => Err(chain(&error)),
    }
});

pub(super) fn render(modules: &[Module<'_>], locate: Locate) -> Result<String, Error> {
    let template = |reason| Error::Template { reason };
    let tera = TERA.as_ref().map_err(|reason| template(reason.clone()))?;
    let modules: Vec<_> = modules
        .iter()
        .map(|module| View::new(module, locate))
        .collect();
    let mut context = Context::new();
    context.insert("modules", &modules);
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
    kernel: String,
    kernel_code: String,
    target_code: String,
    key: String,
    fence: String,
    table: Vec<String>,
    name_constant: String,
    target: String,
    artifact: String,
    digest: Vec<String>,
    embedded: Option<String>,
    count: usize,
    parameters: String,
    grid: bool,
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
    launch: String,
    unpack: Option<String>,
    body: String,
    trial: String,
}

/// A field of the struct of arguments.
#[derive(Serialize)]
struct Field {
    docs: String,
    declaration: String,
}

impl View {
    fn new(module: &Module<'_>, locate: Locate) -> Self {
        let Module { kernel, name, api } = module;
        let signature = &kernel.signature;
        let table = docs::table(&api.parameters);
        let artifact = kernel.images.iter().flat_map(Image::artifacts).next();
        let digest = artifact.map(|artifact| *artifact.digest.as_bytes());
        let digest = digest.unwrap_or_default();
        let target = kernel.images.first().map_or("", Image::target);
        let digest: Vec<String> = digest.iter().map(|byte| format!("{byte:#04x}")).collect();
        let artifact = text::literal(artifact.map_or("", |artifact| &artifact.file));
        let is_struct = api.form == Form::Struct;
        Self {
            name: name.to_string(),
            kernel: text::line(&signature.name),
            kernel_code: text::code(&signature.name),
            target_code: text::code(target),
            key: kernel.key.to_string(),
            fence: text::fence(table.iter().map(String::as_str)),
            table,
            name_constant: layout::constant(
                4,
                "pub const NAME: &str",
                &text::literal(&signature.name),
            ),
            target: text::literal(target),
            embedded: (locate == Locate::Embed).then(|| embedded(&artifact)),
            artifact,
            digest: layout::fill(8, &digest),
            count: api.parameters.len(),
            parameters: parameters(&api.parameters),
            grid: signature.grid,
            alias_bool: api.alias_bool,
            fields: is_struct.then(|| fields(&api.parameters)),
            borrows: borrows(&api.parameters),
            moves: api.parameters.iter().any(is_written),
            copy: may_be_copied(&api.parameters),
            arguments: docs::arguments(&api.parameters),
            launch: launch(module),
            unpack: is_struct.then(|| unpack(&api.parameters)),
            body: body(module),
            trial: trial(module),
        }
    }
}

fn embedded(artifact: &str) -> String {
    let head = "static EMBEDDED: &Aligned<[u8]>";
    let bytes = Expr::call("*::core::include_bytes!", [Expr::atom(artifact)]);
    match Expr::call("&Aligned", [bytes]).on_one_line() {
        Some(value) => layout::constant(4, head, &value),
        // A macro's only argument gets no comma, unlike a call's.
        None => {
            format!("    {head} = &Aligned(*::core::include_bytes!(\n        {artifact}\n    ));")
        }
    }
}

/// The initialiser of the signature's parameters.
fn parameters(parameters: &[Parameter<'_>]) -> String {
    let literal = |text: &str| Expr::Atom(text::literal(text));
    let parameter = |parameter: &Parameter<'_>| {
        let source = parameter.source;
        let mut arguments = vec![literal(&source.name), literal(&source.mlir_type)];
        let path = |kind: &str, value: &dyn std::fmt::Debug| {
            Expr::Atom(format!("::npu_runtime::{kind}::{value:?}"))
        };
        match &source.kind {
            Kind::Scalar(element) => {
                arguments.push(path("ElementType", element));
                Expr::call("::npu_runtime::Parameter::scalar", arguments)
            }
            Kind::Memory {
                element,
                shape,
                direction,
            } => {
                arguments.push(path("ElementType", element));
                arguments.push(shape_expression(shape));
                arguments.push(path("Direction", direction));
                Expr::call("::npu_runtime::Parameter::memory", arguments)
            }
        }
    };
    let items: Vec<Expr> = parameters.iter().map(parameter).collect();
    let head = format!(
        "static PARAMETERS: [::npu_runtime::Parameter; {}] = ",
        items.len()
    );
    Expr::Array("", items).lay_out(4, &head, ";")
}

fn shape_expression(shape: &Shape) -> Expr {
    let dim = |dim: &Option<u64>| match dim {
        Some(size) => Expr::Atom(format!(
            "::core::option::Option::Some({})",
            text::integer(*size)
        )),
        None => Expr::atom("::core::option::Option::None"),
    };
    match shape {
        Shape::Unranked => Expr::atom("::npu_runtime::Shape::Unranked"),
        Shape::Ranked(dims) => {
            let dims = Expr::Array("&", dims.iter().map(dim).collect());
            let dims = Expr::call("::std::borrow::Cow::Borrowed", [dims]);
            Expr::call("::npu_runtime::Shape::Ranked", [dims])
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

/// The head of `launch`.
fn launch(module: &Module<'_>) -> String {
    let api = &module.api;
    let mut parameters = vec!["&self".to_owned()];
    if api.signature.grid {
        let grid = "grid: impl ::core::convert::Into<::npu_runtime::Grid>";
        parameters.push(grid.to_owned());
    }
    match api.form {
        Form::List => {
            for parameter in &api.parameters {
                parameters.push(parameter.declaration());
                if let Some((shape, rank)) = &parameter.shape {
                    parameters.push(format!("{shape}: [usize; {rank}]"));
                }
            }
        }
        Form::Struct if borrows(&api.parameters) => {
            parameters.push("arguments: Arguments<'_>".to_owned());
        }
        Form::Struct => parameters.push("arguments: Arguments".to_owned()),
    }
    layout::function(8, "pub fn launch", &parameters, RESULT)
}

fn borrows(parameters: &[Parameter<'_>]) -> bool {
    parameters
        .iter()
        .any(|parameter| parameter.memory().is_some())
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

/// The pattern that takes the struct of arguments apart.
fn unpack(parameters: &[Parameter<'_>]) -> String {
    let mut pattern = "            let Arguments {\n".to_owned();
    for parameter in parameters {
        pattern.push_str(&format!("                {},\n", parameter.name));
        if let Some((shape, _)) = &parameter.shape {
            pattern.push_str(&format!("                {shape},\n"));
        }
    }
    pattern + "            } = "
}

/// The call that `launch` comes down to.
fn body(module: &Module<'_>) -> String {
    let api = &module.api;
    let argument = |parameter: &Parameter<'_>| {
        let (name, path) = (&parameter.name, parameter.rust.path);
        let head = match parameter.memory() {
            None => "::npu_runtime::Arg::scalar".to_owned(),
            Some((_, _, Direction::In)) => format!("::npu_runtime::Arg::input::<{path}>"),
            Some(_) => format!("::npu_runtime::Arg::output::<{path}>"),
        };
        let argument = Expr::call(head, [Expr::atom(name.to_string())]);
        match &parameter.shape {
            None => argument,
            Some((shape, _)) => {
                let shape = Expr::atom(format!("&{shape}"));
                Expr::call("::npu_runtime::Arg::with_shape", [argument, shape])
            }
        }
    };
    let grid = match api.signature.grid {
        true => "grid.into()",
        false => "::npu_runtime::Grid::ONE",
    };
    let arguments = api.parameters.iter().map(argument).collect();
    let arguments = [Expr::atom(grid), Expr::Array("&mut ", arguments)];
    Expr::Method("self.0", ".launch", arguments.into()).lay_out(12, "", "")
}

/// A launch with empty arguments, so that an unused `launch` is no dead code.
fn trial(module: &Module<'_>) -> String {
    let api = &module.api;
    let mut values: Vec<(String, Expr)> = Vec::new();
    for parameter in &api.parameters {
        let path = parameter.rust.path;
        let value = match parameter.memory() {
            None => parameter.rust.zero.to_owned(),
            Some((_, _, Direction::In)) => format!("&::std::vec::Vec::<{path}>::new()"),
            Some(_) => format!("&mut ::std::vec::Vec::<{path}>::new()"),
        };
        values.push((parameter.name.to_string(), Expr::Atom(value)));
        if let Some((shape, rank)) = &parameter.shape {
            values.push((shape.to_string(), Expr::Atom(format!("[0; {rank}]"))));
        }
    }
    let mut arguments = vec![Expr::atom("kernel")];
    if api.signature.grid {
        arguments.push(Expr::atom("::npu_runtime::Grid::ONE"));
    }
    match api.form {
        Form::List => arguments.extend(values.into_iter().map(|(_, value)| value)),
        Form::Struct => arguments.push(Expr::Struct("Arguments", values)),
    }
    Expr::call("Kernel::launch", arguments).lay_out(8, "let _ = ", ";")
}
