//! Rust as rustfmt would break it, for the few constructs whose lines may grow too long.
//!
//! The rules are those of rustfmt's default style, the same in editions 2021 and 2024: a call or
//! an array stays on one line if its content is at most 60 wide and the line at most 100.

/// rustfmt's `max_width`.
pub(super) const WIDTH: usize = 100;
/// Where the members of a module's types stand.
pub(super) const MEMBER_INDENT: usize = 8;
/// Where the parameters of their methods stand.
pub(super) const PARAMETER_INDENT: usize = 12;
/// rustfmt's `fn_call_width` and `array_width`.
pub(super) const SMALL: usize = 60;

/// An unsafe block that is a function's last expression, under the comment that justifies it.
pub(super) fn unsafe_block(indent: usize, why: &str, inside: &Expr) -> String {
    let margin = " ".repeat(indent);
    let flat = format!("{margin}unsafe {{ {} }}", inside.flat());
    let block = match inside.may_be_flat() && flat.len() <= WIDTH {
        true => flat,
        false => {
            let inside = inside.lay_out(indent + 4, "", "");
            format!("{margin}unsafe {{\n{inside}\n{margin}}}")
        }
    };
    format!("{margin}// SAFETY: {why}.\n{block}")
}

/// An expression that may have to be broken.
pub(super) enum Expr {
    /// Text that is never broken.
    Atom(String),
    /// A function call.
    Call(String, Vec<Expr>),
    /// A method call on something that is never broken.
    Method(String, &'static str, Vec<Expr>),
    /// An array literal, with what stands before its bracket.
    Array(&'static str, Vec<Expr>),
    /// An array literal of short items, as many on a line as fit; never on one line.
    Filled(Vec<String>),
    /// A struct literal; never on one line unless it is empty.
    Struct(&'static str, Vec<(String, Expr)>),
}

impl Expr {
    pub(super) fn atom(text: impl Into<String>) -> Self {
        Self::Atom(text.into())
    }

    pub(super) fn call(head: impl Into<String>, arguments: impl Into<Vec<Expr>>) -> Self {
        Self::Call(head.into(), arguments.into())
    }

    /// Lays out `before`, this expression and `after`, as they follow each other in a statement
    /// at `indent`.
    pub(super) fn lay_out(&self, indent: usize, before: &str, after: &str) -> String {
        let mut out = " ".repeat(indent) + before;
        self.write(&mut out, indent, after.len());
        out + after
    }

    fn write(&self, out: &mut String, indent: usize, after: usize) {
        let column = out.len() - out.rfind('\n').map_or(0, |newline| newline + 1);
        let flat = self.flat();
        if self.may_be_flat() && column + flat.len() + after <= WIDTH {
            out.push_str(&flat);
        } else {
            self.write_broken(out, indent);
        }
    }

    fn write_broken(&self, out: &mut String, indent: usize) {
        match self {
            Self::Atom(text) => out.push_str(text),
            Self::Call(head, arguments) => {
                out.push_str(head);
                out.push('(');
                match &arguments[..] {
                    [only] if only.hangs() => only.write_broken(out, indent),
                    _ => write_lines(out, indent, arguments),
                }
                out.push(')');
            }
            Self::Method(receiver, method, arguments) => {
                out.push_str(receiver);
                let broken = indent + 4;
                if arguments.iter().all(Self::may_be_flat) && join(arguments).len() <= SMALL {
                    out.push_str(&format!(
                        "\n{}{method}({})",
                        " ".repeat(broken),
                        join(arguments)
                    ));
                } else {
                    out.push_str(method);
                    out.push('(');
                    write_lines(out, indent, arguments);
                    out.push(')');
                }
            }
            Self::Array(before, items) => {
                out.push_str(before);
                out.push('[');
                match &items[..] {
                    [only @ (Self::Call(..) | Self::Struct(..))] => only.write_broken(out, indent),
                    _ => write_lines(out, indent, items),
                }
                out.push(']');
            }
            Self::Filled(items) => {
                out.push('[');
                for line in fill(indent + 4, items) {
                    out.push('\n');
                    out.push_str(&line);
                }
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                out.push(']');
            }
            Self::Struct(name, fields) => {
                out.push_str(name);
                out.push_str(" {\n");
                for (field, value) in fields {
                    out.push_str(&" ".repeat(indent + 4));
                    out.push_str(field);
                    if !matches!(value, Self::Atom(variable) if variable == field) {
                        out.push_str(": ");
                        value.write(out, indent + 4, 1);
                    }
                    out.push_str(",\n");
                }
                out.push_str(&" ".repeat(indent));
                out.push('}');
            }
        }
    }

    /// Whether it may start on the line of the call whose only argument it is.
    fn hangs(&self) -> bool {
        match self {
            Self::Atom(_) | Self::Method(..) | Self::Filled(_) => false,
            Self::Call(_, items) | Self::Array(_, items) => !items.is_empty(),
            Self::Struct(_, fields) => !fields.is_empty(),
        }
    }

    fn may_be_flat(&self) -> bool {
        match self {
            Self::Atom(_) => true,
            Self::Call(_, items) | Self::Array(_, items) => {
                join(items).len() <= SMALL && items.iter().all(Self::may_be_flat)
            }
            Self::Method(..) => self.flat().len() <= SMALL,
            Self::Filled(_) => false,
            Self::Struct(_, fields) => fields.is_empty(),
        }
    }

    fn flat(&self) -> String {
        match self {
            Self::Atom(text) => text.clone(),
            Self::Call(head, arguments) => format!("{head}({})", join(arguments)),
            Self::Method(receiver, method, arguments) => {
                format!("{receiver}{method}({})", join(arguments))
            }
            Self::Array(before, items) => format!("{before}[{}]", join(items)),
            Self::Filled(items) => format!("[{}]", items.join(", ")),
            Self::Struct(name, _) => format!("{name} {{}}"),
        }
    }
}

fn join(items: &[Expr]) -> String {
    let flat: Vec<String> = items.iter().map(Expr::flat).collect();
    flat.join(", ")
}

fn write_lines(out: &mut String, indent: usize, items: &[Expr]) {
    out.push('\n');
    for item in items {
        out.push_str(&" ".repeat(indent + 4));
        item.write(out, indent + 4, 1);
        out.push_str(",\n");
    }
    out.push_str(&" ".repeat(indent));
}

/// `pub fn launch(a: A, b: B) -> C {`: the head of a function, one parameter a line if need be.
pub(super) fn function(indent: usize, head: &str, parameters: &[String], result: &str) -> String {
    let margin = " ".repeat(indent);
    let flat = format!("{margin}{head}({}) -> {result} {{", parameters.join(", "));
    if flat.len() <= WIDTH {
        return flat;
    }
    let lines: String = parameters
        .iter()
        .map(|parameter| format!("{margin}    {parameter},\n"))
        .collect();
    format!("{margin}{head}(\n{lines}{margin}) -> {result} {{")
}

/// `pub const NAME: &str = "…";`: the value goes to a line of its own where only that makes it
/// fit.
pub(super) fn constant(indent: usize, head: &str, value: &str) -> String {
    let margin = " ".repeat(indent);
    let here = indent + head.len() + " = ".len() + value.len() + ";".len();
    let next_line = indent + 4 + value.len() + ";".len();
    if here > WIDTH && next_line <= WIDTH {
        format!("{margin}{head} =\n{margin}    {value};")
    } else {
        format!("{margin}{head} = {value};")
    }
}

/// Short items, as many on a line as fit.
fn fill(indent: usize, items: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + item.len() < WIDTH => {
                line.push(' ');
                line.push_str(item);
                line.push(',');
            }
            _ => lines.push(format!("{}{item},", " ".repeat(indent))),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected layouts were made by rustfmt 1.9.0 from the same code on one line. The tests
    // in tests/ hold every generated file against `rustfmt --check` besides.

    #[test]
    fn the_last_argument_hangs_only_if_it_is_the_only_one() {
        let none = || Expr::atom("::core::option::Option::None");
        let dims = Expr::Array("&", vec![none(), none()]);
        let shape = Expr::call(
            "::npu_runtime::Shape::Ranked",
            [Expr::call("::std::borrow::Cow::Borrowed", [dims])],
        );
        assert_eq!(
            shape.lay_out(0, "", ""),
            "::npu_runtime::Shape::Ranked(::std::borrow::Cow::Borrowed(&[\n    \
             ::core::option::Option::None,\n    ::core::option::Option::None,\n]))"
        );
        let scalar = |name: &str| Expr::call("::npu_runtime::Arg::scalar", [Expr::atom(name)]);
        let launch = |items| {
            let one = Expr::atom("::npu_runtime::Grid::ONE");
            let arguments = vec![one, Expr::Array("&mut ", items)];
            Expr::Method("self.0".to_owned(), ".launch", arguments)
        };
        assert_eq!(
            launch(vec![]).lay_out(8, "", ""),
            "        self.0.launch(::npu_runtime::Grid::ONE, &mut [])"
        );
        assert_eq!(
            launch(vec![scalar("a"), scalar("b")]).lay_out(0, "", ""),
            "self.0.launch(\n    ::npu_runtime::Grid::ONE,\n    \
             &mut [::npu_runtime::Arg::scalar(a), ::npu_runtime::Arg::scalar(b)],\n)"
        );
    }

    #[test]
    fn a_function_is_broken_where_it_does_not_fit() {
        let long = "x".repeat(80);
        assert_eq!(
            function(0, "fn f", &["a: u8".into()], "u8"),
            "fn f(a: u8) -> u8 {"
        );
        assert_eq!(
            function(0, "fn f", &["a: u8".into(), "b: u8".into()], &long),
            format!("fn f(\n    a: u8,\n    b: u8,\n) -> {long} {{")
        );
    }
}
