//! Headers of functions, sequences and devices, in custom and generic form: symbol, visibility,
//! arguments, results and where the body is.

use super::links::unescape;
use super::tokens::{Kind, Tokens};

/// An argument as written.
pub(super) struct Argument<'s> {
    /// Without `%`.
    pub(super) name: &'s str,
    /// Its token.
    pub(super) at: usize,
    /// The tokens of its type, the second index exclusive.
    pub(super) of_type: (usize, usize),
}

/// A function or sequence.
pub(super) struct Function<'s> {
    /// Its symbol as written, without `@`.
    pub(super) symbol: Option<String>,
    pub(super) private: bool,
    /// Whether it returns anything.
    pub(super) results: bool,
    /// `None` if they are not `%name: type, …`.
    pub(super) arguments: Option<Vec<Argument<'s>>>,
    /// The tokens of its body, the second index exclusive; `None` for a declaration.
    pub(super) body: Option<(usize, usize)>,
    /// The token after all that was read.
    pub(super) end: usize,
}

/// The parts of an operation in generic form, as token ranges (the second index exclusive).
pub(super) struct Generic {
    pub(super) operands: (usize, usize),
    /// `<{…}>` and `{…}`: where attributes stand.
    attributes: [(usize, usize); 2],
    /// The insides of its regions' braces.
    pub(super) regions: Vec<(usize, usize)>,
    pub(super) end: usize,
}

impl Generic {
    /// Reads the operation whose quoted name is at `name`, up to its type.
    pub(super) fn read(tokens: &Tokens<'_>, name: usize) -> Self {
        let open = name + 1;
        let mut it = Self {
            operands: (open + 1, tokens.close(open)),
            attributes: [(0, 0); 2],
            regions: Vec::new(),
            end: tokens.after(open),
        };
        if tokens.is(it.end, b'[') {
            it.end = tokens.after(it.end);
        }
        if tokens.is(it.end, b'<') && tokens.is(it.end + 1, b'{') {
            let brace = it.end + 1;
            it.attributes[0] = (brace + 1, tokens.close(brace));
            it.end = tokens.after(brace) + 1;
        }
        if tokens.is(it.end, b'(') && tokens.is(it.end + 1, b'{') {
            let close = tokens.close(it.end);
            let mut at = it.end + 1;
            while at < close {
                if tokens.is(at, b'{') {
                    it.regions.push((at + 1, tokens.close(at)));
                }
                at = tokens.after(at);
            }
            it.end = close + 1;
        }
        if tokens.is(it.end, b'{') {
            it.attributes[1] = (it.end + 1, tokens.close(it.end));
            it.end = tokens.after(it.end);
        }
        it
    }

    /// The first token of an attribute's value.
    pub(super) fn attribute(&self, tokens: &Tokens<'_>, key: &str) -> Option<usize> {
        let mut ranges = self.attributes.iter();
        ranges.find_map(|range| attribute(tokens, *range, key))
    }

    /// An attribute's string.
    pub(super) fn string(&self, tokens: &Tokens<'_>, key: &str) -> Option<String> {
        let value = self.attribute(tokens, key)?;
        (tokens.kind(value) == Kind::Text).then(|| unescape(tokens.text(value)))
    }
}

/// The first token of the value of `key` in an attribute dictionary's inside.
pub(super) fn attribute(
    tokens: &Tokens<'_>,
    (mut at, end): (usize, usize),
    key: &str,
) -> Option<usize> {
    while at < end {
        let found = match tokens.kind(at) {
            Kind::Word => tokens.text(at) == key,
            Kind::Text => tokens.text(at).trim_matches('"') == key,
            _ => false,
        };
        if found && tokens.is(at + 1, b'=') {
            return Some(at + 2);
        }
        at = if tokens.is(at, b'<') {
            tokens.after_angle(at, end)
        } else {
            tokens.after(at)
        };
    }
    None
}

/// A symbol's text without `@` and quotes.
pub(super) fn symbol(text: &str) -> String {
    let name = text.strip_prefix('@').unwrap_or(text);
    if name.starts_with('"') {
        unescape(name)
    } else {
        name.to_owned()
    }
}

/// Reads `func.func …` or `aie.runtime_sequence …`, whose name is at `name`, in custom form.
pub(super) fn custom<'s>(tokens: &Tokens<'s>, name: usize) -> Function<'s> {
    let mut it = Function {
        symbol: None,
        private: false,
        results: false,
        arguments: None,
        body: None,
        end: name + 1,
    };
    while tokens.kind(it.end) == Kind::Word {
        it.private |= matches!(tokens.text(it.end), "private" | "nested");
        it.end += 1;
    }
    if tokens.kind(it.end) == Kind::Symbol {
        it.symbol = Some(symbol(tokens.text(it.end)));
        it.end += 1;
    }
    if !tokens.is(it.end, b'(') {
        return it;
    }
    it.arguments = arguments(tokens, (it.end + 1, tokens.close(it.end)));
    it.end = tokens.after(it.end);
    if tokens.kind(it.end) == Kind::Arrow {
        it.results = !is_empty_group(tokens, it.end + 1);
        it.end = after_type(tokens, it.end + 1);
    }
    if tokens.is_word(it.end, "attributes") {
        it.end += 1;
        if tokens.is(it.end, b'{') {
            it.end = tokens.after(it.end);
        }
    }
    // A dictionary without the keyword, before the body.
    if tokens.is(it.end, b'{') && is_dictionary(tokens, it.end) {
        it.end = tokens.after(it.end);
    }
    if tokens.is(it.end, b'{') {
        it.body = Some((it.end + 1, tokens.close(it.end)));
        it.end = tokens.after(it.end);
    }
    it
}

/// Reads the same in generic form: `"func.func"() <{…}> ({ ^bb0(%a: i32): … }) : () -> ()`.
pub(super) fn generic<'s>(tokens: &Tokens<'s>, name: usize) -> Function<'s> {
    let op = Generic::read(tokens, name);
    let private = op
        .string(tokens, "sym_visibility")
        .is_some_and(|visibility| visibility != "public");
    let results = op
        .attribute(tokens, "function_type")
        .is_some_and(|of_type| has_results(tokens, of_type));
    let (mut arguments_, mut body) = (Some(Vec::new()), None);
    if let Some((start, end)) = op
        .regions
        .first()
        .copied()
        .filter(|(start, end)| start < end)
    {
        body = Some((start, end));
        if tokens.kind(start) == Kind::Block && tokens.is(start + 1, b'(') {
            let open = start + 1;
            arguments_ = arguments(tokens, (open + 1, tokens.close(open)));
            let colon = tokens.after(open);
            body = Some((colon + usize::from(tokens.is(colon, b':')), end));
        }
    }
    Function {
        symbol: op.string(tokens, "sym_name"),
        private,
        results,
        arguments: arguments_,
        body,
        end: op.end,
    }
}

fn has_results(tokens: &Tokens<'_>, of_type: usize) -> bool {
    let arrow = tokens.after(of_type);
    tokens.kind(arrow) == Kind::Arrow && !is_empty_group(tokens, arrow + 1)
}

fn is_empty_group(tokens: &Tokens<'_>, at: usize) -> bool {
    tokens.is(at, b'(') && tokens.is(at + 1, b')')
}

/// Whether the braces at `open` hold attributes and not operations.
fn is_dictionary(tokens: &Tokens<'_>, open: usize) -> bool {
    matches!(tokens.kind(open + 1), Kind::Word | Kind::Text) && tokens.is(open + 2, b'=')
}

/// The token after the type, or attribute such as `affine_map<…>`, at `at`.
pub(super) fn after_type(tokens: &Tokens<'_>, at: usize) -> usize {
    let mut end = tokens.after(at);
    if tokens.is(end, b'<') && tokens.adjacent(at) {
        end = tokens.after_angle(end, tokens.len());
    }
    if tokens.kind(end) == Kind::Arrow {
        end = tokens.after(end + 1);
    }
    end
}

/// Reads `%name: type {attributes} loc(…), …`; `None` if it is anything else.
fn arguments<'s>(tokens: &Tokens<'s>, (mut at, end): (usize, usize)) -> Option<Vec<Argument<'s>>> {
    let mut found = Vec::new();
    while at < end {
        if tokens.kind(at) != Kind::Value || !tokens.is(at + 1, b':') {
            return None;
        }
        let (name, value, start) = (tokens.value_name(at), at, at + 2);
        at = start;
        while at < end && !ends_type(tokens, at) {
            at = if tokens.is(at, b'<') {
                tokens.after_angle(at, end)
            } else {
                tokens.after(at)
            };
        }
        if at == start {
            return None;
        }
        found.push(Argument {
            name,
            at: value,
            of_type: (start, at),
        });
        while at < end && !tokens.is(at, b',') {
            at = tokens.after(at);
        }
        at += 1;
    }
    Some(found)
}

fn ends_type(tokens: &Tokens<'_>, at: usize) -> bool {
    match tokens.kind(at) {
        Kind::Punct(b',' | b'{') => true,
        Kind::Word => tokens.is(at + 1, b'(') && tokens.text(at) == "loc",
        _ => false,
    }
}
