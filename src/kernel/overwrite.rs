//! When a structured operation writes every element of its destination without looking at it:
//! the one way, besides whole copies, in which an argument is proven to be `out`.

use super::effects::Context;
use super::header::{self, Generic};
use super::tokens::{Kind, Tokens};
use super::types;

/// Token indices of the values that a structured operation reads, and of those it writes.
type Operands = (Vec<usize>, Vec<usize>);

/// Operands of the custom form; `None` if a value stands outside of `ins(…)`, `outs(…)` and
/// regions.
pub(super) fn custom_operands(
    tokens: &Tokens<'_>,
    (mut at, end): (usize, usize),
) -> Option<Operands> {
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    while at < end {
        if tokens.kind(at) == Kind::Word && tokens.is(at + 1, b'(') {
            let list = match tokens.text(at) {
                "ins" => Some(&mut inputs),
                "outs" => Some(&mut outputs),
                _ => None,
            };
            if let Some(list) = list {
                list.extend(values(tokens, (at + 2, tokens.close(at + 1))));
                at = tokens.after(at + 1);
                continue;
            }
        }
        match tokens.kind(at) {
            Kind::Value => return None,
            Kind::Punct(b'(' | b'[') => {
                let inside = (at + 1, tokens.close(at));
                if !values(tokens, inside).is_empty() {
                    return None;
                }
            }
            _ => {}
        }
        at = tokens.after(at);
    }
    Some((inputs, outputs))
}

/// Operands of the generic form, told apart by `operandSegmentSizes = array<i32: 2, 1>`; `None` if
/// values stand where only the type should.
pub(super) fn generic_operands(
    tokens: &Tokens<'_>,
    (name, end): (usize, usize),
) -> Option<Operands> {
    let op = Generic::read(tokens, name);
    if !values(tokens, (op.end, end)).is_empty() {
        return None;
    }
    let mut inputs = values(tokens, op.operands);
    let reads = match op.attribute(tokens, "operandSegmentSizes") {
        Some(sizes) => {
            // array < i32 : 2 , 1 >
            let number = |at: usize| tokens.text(at).parse::<usize>().ok();
            let (reads, writes) = (number(sizes + 4)?, number(sizes + 6)?);
            let fits = tokens.is(sizes + 7, b'>') && reads.checked_add(writes)? == inputs.len();
            fits.then_some(reads)?
        }
        // These have exactly one output, their last operand.
        None if matches!(
            tokens.text(name).trim_matches('"'),
            "linalg.transpose" | "linalg.broadcast" | "linalg.map"
        ) =>
        {
            inputs.len().checked_sub(1)?
        }
        None => return None,
    };
    let outputs = inputs.split_off(reads);
    Some((inputs, outputs))
}

fn values(tokens: &Tokens<'_>, (start, end): (usize, usize)) -> Vec<usize> {
    (start..end)
        .filter(|i| tokens.kind(*i) == Kind::Value)
        .collect()
}

/// Whether the operation at these tokens, which has one output, writes all of it and never reads
/// what was there.
pub(super) fn writes_all(context: &Context<'_, '_>, name: &str, range: (usize, usize)) -> bool {
    match name.strip_prefix("linalg.") {
        Some("generic") => generic(context, range),
        Some(name) => {
            matches!(
                name,
                "fill"
                    | "copy"
                    | "transpose"
                    | "broadcast"
                    | "add"
                    | "sub"
                    | "mul"
                    | "div"
                    | "div_unsigned"
                    | "max"
                    | "min"
                    | "exp"
                    | "log"
                    | "abs"
                    | "ceil"
                    | "floor"
                    | "negf"
                    | "reciprocal"
                    | "round"
                    | "sqrt"
                    | "rsqrt"
                    | "square"
                    | "tanh"
                    | "erf"
            ) && payload_is_pure(context.tokens, range)
        }
        None => false,
    }
}

/// `linalg.generic`: the output's map is a permutation, so that each element is written once,
/// and the payload does not use the output's old element.
fn generic(context: &Context<'_, '_>, range: (usize, usize)) -> bool {
    let tokens = context.tokens;
    let map = last_map(context, range).is_some_and(types::is_permutation);
    map && payload_is_pure(tokens, range) && !payload_reads_output(tokens, range)
}

/// The inside of the last `affine_map<…>` of `indexing_maps`: the output's.
fn last_map<'s>(context: &Context<'_, 's>, (start, end): (usize, usize)) -> Option<&'s str> {
    let tokens = context.tokens;
    // Attributes nest, and another one may hold a word of this name.
    let mut keys = (start..end).filter(|i| tokens.is_word(*i, "indexing_maps"));
    let key = keys.next()?;
    if keys.next().is_some() || has_alias_before(tokens, start, key) {
        return None;
    }
    if !tokens.is(key + 1, b'=') || !tokens.is(key + 2, b'[') {
        return None;
    }
    let close = tokens.close(key + 2);
    let (mut at, mut last) = (key + 3, None);
    while at < close {
        if !tokens.is(at, b',') {
            last = Some(at);
        }
        at = header::after_type(tokens, at);
    }
    let mut map = last?;
    if tokens.kind(map) == Kind::Hash {
        map = *context.aliases.get(tokens.text(map))?;
    }
    let text = tokens.span(map, header::after_type(tokens, map));
    text.strip_prefix("affine_map<")?.strip_suffix('>')
}

/// Whether an attribute alias stands before the maps: as the operation's trait it could bring maps of
/// its own.
fn has_alias_before(tokens: &Tokens<'_>, start: usize, key: usize) -> bool {
    (start..key).any(|i| tokens.kind(i) == Kind::Hash)
}

/// Whether all operations in the operation's regions compute values and touch no memory.
fn payload_is_pure(tokens: &Tokens<'_>, (start, end): (usize, usize)) -> bool {
    let pure = |name: &str| {
        let dialect = name.split_once('.').map(|(dialect, _)| dialect);
        matches!(dialect, Some("arith" | "math" | "index" | "complex"))
            || matches!(name, "linalg.yield" | "linalg.index")
    };
    let mut at = start + 1;
    while at < end {
        // The name of a location looks like an operation in generic form.
        at = tokens.after_location(at);
        let allowed = match tokens.kind(at) {
            _ if at >= end => true,
            Kind::Word => !tokens.text(at).contains('.') || pure(tokens.text(at)),
            Kind::Text if tokens.is(at + 1, b'(') => pure(tokens.text(at).trim_matches('"')),
            _ => true,
        };
        if !allowed {
            return false;
        }
        at += 1;
    }
    true
}

/// Whether the last argument of the payload's block, the output's old element, is used in it.
fn payload_reads_output(tokens: &Tokens<'_>, (start, end): (usize, usize)) -> bool {
    let Some(label) = (start..end).find(|i| tokens.kind(*i) == Kind::Block) else {
        return true;
    };
    if !tokens.is(label + 1, b'(') {
        return true;
    }
    let close = tokens.close(label + 1);
    let Some(last) = values(tokens, (label + 1, close)).pop() else {
        return true;
    };
    let name = tokens.value_name(last);
    (close..end).any(|i| tokens.kind(i) == Kind::Value && tokens.value_name(i) == name)
}
