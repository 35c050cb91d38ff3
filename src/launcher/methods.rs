//! `launch` and `bind`: the same arguments, borrowed for the call or for as long as the recorded
//! launch lives.

use npu_runtime::Direction;
use serde::Serialize;

use super::api::{Api, Form, Parameter};
use super::layout::{self, Expr};

/// A method that takes the kernel's arguments.
#[derive(Serialize)]
pub(super) struct Method {
    head: String,
    body: String,
    /// A call of it, so that it is no dead code in a host program that does without it.
    trial: String,
}

/// The method that launches.
pub(super) fn launch(api: &Api<'_>) -> Method {
    let lifetime = if api.borrows() { "<'_>" } else { "" };
    let result = "::std::result::Result<(), npu_runtime::Error>";
    let arguments = arguments(api, |shape| format!("&{shape}"));
    Method {
        head: head(api, "launch", result, lifetime, Parameter::declaration),
        body: body(
            api,
            [".launch", ".launch_unchecked"],
            Expr::Array("&mut ", arguments),
        ),
        trial: trial(api, "launch", empty_arguments(api)),
    }
}

/// The method that records a launch.
pub(super) fn bind(api: &Api<'_>) -> Method {
    let (name, bound, lifetime) = if api.borrows() {
        ("bind<'a>", "'a", "<'a>")
    } else {
        ("bind", "'static", "")
    };
    let launch = format!("npu_runtime::Launch<{bound}>");
    let result = format!("::std::result::Result<{launch}, npu_runtime::Error>");
    let arguments = arguments(api, |shape| format!("{shape}.to_vec()"));
    Method {
        head: head(api, name, &result, lifetime, Parameter::bound_declaration),
        body: body(
            api,
            [".bind", ".bind_unchecked"],
            Expr::Array("", arguments),
        ),
        trial: trial(
            api,
            "bind",
            match api.form {
                Form::List => empty_arguments(api),
                // One such struct is enough to look at.
                Form::Struct => vec![Expr::atom("arguments")],
            },
        ),
    }
}

/// The head of a method; `lifetime` is that of the struct of arguments.
fn head<'a>(
    api: &Api<'a>,
    name: &str,
    result: &str,
    lifetime: &str,
    declaration: fn(&Parameter<'a>) -> String,
) -> String {
    let mut parameters = vec!["&self".to_owned()];
    if api.signature.grid {
        let grid = "grid: impl ::std::convert::Into<npu_runtime::Grid>";
        parameters.push(grid.to_owned());
    }
    match api.form {
        Form::List => {
            for parameter in &api.parameters {
                parameters.push(declaration(parameter));
                if let Some((shape, rank)) = &parameter.shape {
                    parameters.push(format!("{shape}: [usize; {rank}]"));
                }
            }
        }
        Form::Struct => parameters.push(format!("arguments: Arguments{lifetime}")),
    }
    let name = match api.is_safe() {
        true => format!("pub fn {name}"),
        false => format!("pub unsafe fn {name}"),
    };
    layout::function(8, &name, &parameters, result)
}

/// The runtime's arguments; `shape` makes what gives a shape out of its name.
fn arguments(api: &Api<'_>, shape: fn(&str) -> String) -> Vec<Expr> {
    let argument = |parameter: &Parameter<'_>| {
        let (name, path) = (&parameter.name, parameter.rust.path);
        let head = match parameter.memory() {
            None => "npu_runtime::Arg::scalar".to_owned(),
            Some((_, _, Direction::In)) => format!("npu_runtime::Arg::input::<{path}>"),
            Some(_) => format!("npu_runtime::Arg::output::<{path}>"),
        };
        let argument = Expr::call(head, [Expr::atom(name.to_string())]);
        match &parameter.shape {
            None => argument,
            Some((name, _)) => {
                let shape = Expr::Atom(shape(&name.to_string()));
                Expr::call("npu_runtime::Arg::with_shape", [argument, shape])
            }
        }
    };
    api.parameters.iter().map(argument).collect()
}

/// The call of the runtime that a method comes down to: the safe or the unsafe one.
fn body(api: &Api<'_>, [safe, unchecked]: [&'static str; 2], arguments: Expr) -> String {
    let grid = match api.signature.grid {
        true => "grid.into()",
        false => "npu_runtime::Grid::ONE",
    };
    let arguments = vec![Expr::atom(grid), arguments];
    let call = |method| Expr::Method("self.0".to_owned(), method, arguments);
    match api.is_safe() {
        true => call(safe).lay_out(12, "", ""),
        false => layout::unsafe_block(
            12,
            "this method's caller promises the same",
            &call(unchecked),
        ),
    }
}

/// The pattern that takes the struct of arguments apart.
pub(super) fn unpack(api: &Api<'_>) -> String {
    let mut pattern = "            let Arguments {\n".to_owned();
    for parameter in &api.parameters {
        pattern.push_str(&format!("                {},\n", parameter.name));
        if let Some((shape, _)) = &parameter.shape {
            pattern.push_str(&format!("                {shape},\n"));
        }
    }
    pattern + "            } = "
}

fn trial(api: &Api<'_>, method: &str, arguments: Vec<Expr>) -> String {
    let mut all = vec![Expr::atom("kernel")];
    if api.signature.grid {
        all.push(Expr::atom("npu_runtime::Grid::ONE"));
    }
    all.extend(arguments);
    let call = Expr::call(format!("Kernel::{method}"), all);
    let call = Expr::call("::std::mem::drop", [call]);
    match api.is_safe() {
        true => call.lay_out(8, "", ";"),
        false => {
            let call = call.lay_out(12, "", ";");
            format!("        // SAFETY: it is never called.\n        unsafe {{\n{call}\n        }}")
        }
    }
}

/// What a method takes besides the grid, all of it empty.
fn empty_arguments(api: &Api<'_>) -> Vec<Expr> {
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
    match api.form {
        Form::List => values.into_iter().map(|(_, value)| value).collect(),
        Form::Struct => vec![Expr::Struct("Arguments", values)],
    }
}
