//! What the parser refuses: brackets that do not match, dialects that nobody registered, values
//! that nothing defines.

use std::collections::HashSet;

use super::{Diagnostic, Kind, Module, Token};

/// The dialects that air-opt, aircc and aiecc register, as far as kernels use them.
const DIALECTS: [&str; 45] = [
    "builtin",
    "func",
    "arith",
    "math",
    "memref",
    "tensor",
    "linalg",
    "scf",
    "cf",
    "affine",
    "vector",
    "bufferization",
    "aie",
    "aiex",
    "aievec",
    "air",
    "airrt",
    "llvm",
    "index",
    "ub",
    "complex",
    "emitc",
    "dlti",
    "transform",
    "async",
    "gpu",
    "shape",
    "AIE",
    "AIEX",
    "xllvm",
    "pdl",
    "ml_program",
    "quant",
    "tosa",
    "sparse_tensor",
    "spirv",
    "rocdl",
    "omp",
    "acc",
    "amdgpu",
    "irdl",
    "mesh",
    "nvvm",
    "ptr",
    "smt",
];

fn closing(open: &str) -> Option<&'static str> {
    match open {
        "(" => Some(")"),
        "[" => Some("]"),
        "{" => Some("}"),
        "<" => Some(">"),
        _ => None,
    }
}

/// Pairs the brackets.
pub fn brackets(tokens: &[Token<'_>]) -> Result<Vec<usize>, Diagnostic> {
    let mut mates: Vec<usize> = (0..tokens.len()).collect();
    let mut open: Vec<usize> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let innermost = open.last().and_then(|i| tokens.get(*i));
        let expected = innermost.and_then(|token| closing(token.text));
        if let Some(expected) = expected.filter(|e| *e != "}" && breaks_off(tokens, index, e)) {
            return Err(missing(tokens, index, expected));
        }
        if token.kind != Kind::Mark {
            continue;
        }
        if closing(token.text).is_some() {
            open.push(index);
        } else if matches!(token.text, ")" | "]" | "}" | ">") {
            match (open.pop(), expected) {
                (Some(first), Some(expected)) if expected == token.text => {
                    if let Some(mate) = mates.get_mut(first) {
                        *mate = index;
                    }
                    if let Some(mate) = mates.get_mut(index) {
                        *mate = first;
                    }
                }
                (_, Some(expected)) => return Err(missing(tokens, index, expected)),
                _ => {
                    return Err(Diagnostic::new(
                        token.line,
                        token.column,
                        "custom op 'builtin.module' expected operation name in quotes",
                    ));
                }
            }
        }
    }
    match open.last().and_then(|i| tokens.get(*i)) {
        Some(token) => {
            let expected = closing(token.text).unwrap_or("}");
            Err(missing(tokens, tokens.len(), expected))
        }
        None => Ok(mates),
    }
}

/// Whether the token cannot stand inside a bracket that is still open: a new statement.
fn breaks_off(tokens: &[Token<'_>], index: usize, expected: &str) -> bool {
    let Some((token, previous)) = tokens
        .get(index)
        .zip(index.checked_sub(1).and_then(|i| tokens.get(i)))
    else {
        return false;
    };
    if token.line == previous.line || matches!(previous.text, "," | "(" | "[" | "<" | "=") {
        return false;
    }
    let next = tokens.get(index + 1).map_or("", |next| next.text);
    let defines = token.kind == Kind::Value && next == "=";
    let operation = token.kind == Kind::Word && token.text.contains('.') && next != "=";
    expected != ">" && (defines || operation)
}

/// As MLIR does, the place is the end of the token before, if that is on another line.
fn missing(tokens: &[Token<'_>], index: usize, expected: &str) -> Diagnostic {
    let previous = index.checked_sub(1).and_then(|i| tokens.get(i));
    let (line, column) = match (tokens.get(index), previous) {
        (Some(token), Some(previous)) if previous.line == token.line => (token.line, token.column),
        (_, Some(previous)) => previous.end(),
        (Some(token), None) => (token.line, token.column),
        (None, None) => (1, 1),
    };
    Diagnostic::new(line, column, format!("expected '{expected}'"))
}

/// Refuses operations of dialects that the tools do not have.
pub fn dialects(module: &Module<'_>) -> Result<(), Diagnostic> {
    let (mut at, end) = (0, module.tokens().len());
    while at < end {
        if module.starts_operation(at) {
            let name = module.name_index(at);
            let text = module.text(name).trim_matches('"');
            if let (Some((dialect, _)), Some(token)) =
                (text.split_once('.'), module.tokens().get(name))
                && !DIALECTS.contains(&dialect)
            {
                let message = format!("Dialect `{dialect}' not found for custom op '{text}' ");
                return Err(Diagnostic::new(token.line, token.column, message));
            }
        }
        at += 1;
    }
    Ok(())
}

/// Refuses values that are never defined, in whatever order and scope.
pub fn values(module: &Module<'_>) -> Result<(), Diagnostic> {
    let tokens = module.tokens();
    let mut defined = HashSet::new();
    for (index, token) in tokens.iter().enumerate() {
        if token.kind == Kind::Value && defines(module, index) {
            defined.insert(base(token.text));
        }
    }
    for token in tokens {
        if token.kind == Kind::Value && !defined.contains(base(token.text)) {
            let message = "use of undeclared SSA value name";
            return Err(Diagnostic::new(token.line, token.column, message));
        }
    }
    Ok(())
}

fn base(value: &str) -> &str {
    value.split('#').next().unwrap_or(value)
}

/// Whether the value at `index` may be one that is defined there: before `=` or `:`, or in a list
/// that ends before `=` or `in`.
fn defines(module: &Module<'_>, index: usize) -> bool {
    let mut after = index + 1;
    while module.text(after) == "," && module.kind(after + 1) == Kind::Value {
        after += 2;
    }
    match module.text(after) {
        "=" | ":" => true,
        ")" => matches!(module.text(after + 1), "=" | "in"),
        _ => false,
    }
}
