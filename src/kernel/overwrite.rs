//! When a copy or a structured operation writes every element of its destination without looking at
//! it: the one way in which an argument is proven to be `out`. How much is written follows from the
//! operands' extents, so all of them have to be known: nothing but their static types keeps a
//! dynamic one from being shorter than the destination.

use std::collections::HashMap;

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
    (name, end): (usize, usize),
) -> Option<Operands> {
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let has_named_block = matches!(tokens.text(name), "linalg.reduce" | "linalg.map");
    let mut at = name + 1;
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
                let named = values(tokens, (at + 1, tokens.close(at)));
                // `(%in: f32, %init: f32) {`: the arguments of the region.
                let is_block = has_named_block && tokens.is(tokens.after(at), b'{');
                if !named.is_empty() && !is_block {
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
        None => match tokens.text(name).trim_matches('"') {
            "linalg.transpose" | "linalg.broadcast" | "linalg.map" | "linalg.softmax" => {
                inputs.len().checked_sub(1)?
            }
            // As many outputs as inputs.
            "linalg.reduce" if inputs.len().is_multiple_of(2) => inputs.len() / 2,
            _ => return None,
        },
    };
    let outputs = inputs.split_off(reads);
    Some((inputs, outputs))
}

/// Whether a copy between operands of the types in these tokens, after a `:`, writes all of its
/// destination.
pub(super) fn copies_all(context: &Context<'_, '_>, range: (usize, usize)) -> bool {
    let tokens = context.tokens;
    let colon = tokens.find(range, b':');
    // `: (T, T) -> ()` or `: T to T`.
    let types = colon + 1 + usize::from(tokens.is(colon + 1, b'('));
    match listed_extents(context, types).as_slice() {
        [Some(source), Some(destination)] => colon < range.1 && source == destination,
        _ => false,
    }
}

/// Whether the extents of all operands of a structured operation are known. That they agree is for
/// the tools to check.
fn is_static(context: &Context<'_, '_>, (name, end): (usize, usize)) -> bool {
    let tokens = context.tokens;
    let known = |types| {
        let extents = listed_extents(context, types);
        extents.iter().all(Option::is_some)
    };
    if tokens.kind(name) == Kind::Text {
        let colon = tokens.find((Generic::read(tokens, name).end, end), b':');
        return tokens.is(colon + 1, b'(') && known(colon + 2);
    }
    let is_list = |at: usize| matches!(tokens.text(at), "ins" | "outs") && tokens.is(at + 1, b'(');
    (name..end).filter(|at| is_list(*at)).all(|list| {
        let inside = (list + 2, tokens.close(list + 1));
        let colon = tokens.find(inside, b':');
        colon < inside.1 && known(colon + 1)
    })
}

/// The extents of the types in a list that starts at a token; `None` for one that has unknown ones.
fn listed_extents(context: &Context<'_, '_>, mut at: usize) -> Vec<Option<Vec<u64>>> {
    let tokens = context.tokens;
    let mut found = Vec::new();
    loop {
        let past = header::after_type(tokens, at);
        let alias = context
            .aliases
            .get(tokens.text(at))
            .filter(|_| past == at + 1);
        let (from, to) = alias.map_or((at, past), |value| {
            (*value, header::after_type(tokens, *value))
        });
        found.push(types::extents(tokens.span(from, to)));
        if !tokens.is(past, b',') && !tokens.is_word(past, "to") {
            return found;
        }
        at = past + 1;
    }
}

fn values(tokens: &Tokens<'_>, (start, end): (usize, usize)) -> Vec<usize> {
    (start..end)
        .filter(|i| tokens.kind(*i) == Kind::Value)
        .collect()
}

/// Whether the structured operation at these tokens, which has one output, writes all of it and
/// never reads what was there.
pub(super) fn writes_all(context: &Context<'_, '_>, name: &str, range: (usize, usize)) -> bool {
    let tokens = context.tokens;
    if !payload_is_pure(tokens, range) || !is_static(context, range) {
        return false;
    }
    match name.strip_prefix("linalg.") {
        Some("generic") => {
            // Each element is written once, and without a look at the old one.
            let map = last_map(context, range).is_some_and(types::is_permutation);
            map && !payload_reads_output(tokens, range)
        }
        Some(name) => {
            // In generic form it has a payload, which could be any.
            let is_custom = tokens.kind(range.0) != Kind::Text;
            let is_elementwise = matches!(
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
            );
            is_elementwise && (is_custom || !payload_reads_output(tokens, range))
        }
        None => false,
    }
}

/// The inside of the last `affine_map<…>` of `indexing_maps`: the output's.
fn last_map<'s>(context: &Context<'_, 's>, range: (usize, usize)) -> Option<&'s str> {
    maps(context.tokens, context.aliases, range)?.pop()
}

/// The inside of each `affine_map<…>` of `indexing_maps`.
pub(super) fn maps<'s>(
    tokens: &Tokens<'s>,
    aliases: &HashMap<&'s str, usize>,
    (start, end): (usize, usize),
) -> Option<Vec<&'s str>> {
    // Attributes nest, and another one may hold a word of this name.
    let is_key = |i: &usize| tokens.text(*i).trim_matches('"') == "indexing_maps";
    let mut keys = (start..end).filter(is_key);
    let key = keys.next()?;
    if keys.next().is_some() || has_alias_before(tokens, start, key) {
        return None;
    }
    if !tokens.is(key + 1, b'=') || !tokens.is(key + 2, b'[') {
        return None;
    }
    let close = tokens.close(key + 2);
    let (mut at, mut maps) = (key + 3, Vec::new());
    while at < close {
        if !tokens.is(at, b',') {
            let mut map = at;
            if tokens.kind(map) == Kind::Hash {
                map = *aliases.get(tokens.text(map))?;
            }
            let text = tokens.span(map, header::after_type(tokens, map));
            if text.contains("//") {
                return None;
            }
            maps.push(text.strip_prefix("affine_map<")?.strip_suffix('>')?);
        }
        at = header::after_type(tokens, at);
    }
    Some(maps)
}

/// Whether an attribute alias stands before the maps: as the operation's trait it could bring maps of
/// its own.
fn has_alias_before(tokens: &Tokens<'_>, start: usize, key: usize) -> bool {
    (start..key).any(|i| tokens.kind(i) == Kind::Hash)
}

/// Whether all operations in the operation's regions compute values and touch no memory.
pub(super) fn payload_is_pure(tokens: &Tokens<'_>, (start, end): (usize, usize)) -> bool {
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
