//! The text that is hashed and compiled: a kernel's MLIR without comments, empty lines and debug
//! locations, none of which change what it computes.
//!
//! Invariant: the result parses to the same module, and what is kept is kept byte for byte. Where
//! a location might mean something (in an attribute, in debug info), all of them stay.

use std::collections::HashSet;

use super::lexer::lex;
use super::tokens::{Kind, Tokens};

/// A text without what does not matter, and the way back to the original's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical {
    /// The text.
    pub text: String,
    /// Per dropped line, in order: how many kept lines precede it.
    dropped: Vec<u32>,
}

impl Canonical {
    /// Strips `text`. What can't be cut into tokens is returned unchanged.
    #[must_use]
    pub fn of(text: &str) -> Self {
        lex(text).map_or_else(|_| Self::unchanged(text), |tokens| Self::of_tokens(&tokens))
    }

    pub(super) fn of_tokens(tokens: &Tokens<'_>) -> Self {
        cuts(tokens).map_or_else(
            || Self::unchanged(tokens.text),
            |cuts| Self::without(tokens.text, &cuts),
        )
    }

    fn unchanged(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            dropped: Vec::new(),
        }
    }

    /// The line (from 1) of the original that became `line` (from 1) of the canonical text.
    #[must_use]
    pub fn original_line(&self, line: u32) -> u32 {
        // Those that had at most `line - 1` kept lines before them come first.
        let before = self.dropped.partition_point(|kept| *kept < line);
        line.saturating_add(u32::try_from(before).unwrap_or(u32::MAX))
    }

    /// Copies `text` without the byte ranges `cuts` (sorted by their start) and without lines
    /// that are or become empty.
    fn without(text: &str, cuts: &[(usize, usize)]) -> Self {
        let mut result = Self {
            text: String::with_capacity(text.len()),
            dropped: Vec::new(),
        };
        let mut cuts = cuts.iter().copied().peekable();
        // Everything before `done` is copied or cut; a cut may reach into later lines.
        let (mut done, mut start, mut kept) = (0, 0, 0u32);
        for line in text.split_inclusive('\n') {
            let end = start + line.len();
            let length = result.text.len();
            let mut cut = done > start;
            while let Some((from, to)) = cuts.next_if(|(from, _)| *from < end) {
                result
                    .text
                    .push_str(text.get(done..from).unwrap_or_default());
                done = done.max(to);
                cut = true;
            }
            let rest = text.get(done..end).unwrap_or_default();
            result.text.push_str(rest);
            done = done.max(end);
            start = end;
            let content = without_space(result.text.get(length..).unwrap_or_default());
            if content.is_empty() {
                result.text.truncate(length);
                result.dropped.push(kept);
                continue;
            }
            kept = kept.saturating_add(1);
            if cut && without_space(rest).is_empty() {
                let length = length + content.len();
                result.text.truncate(length);
                if line.ends_with('\n') {
                    result.text.push('\n');
                }
            }
        }
        result
    }
}

/// The text without the white space at its end, as MLIR knows white space.
fn without_space(text: &str) -> &str {
    text.trim_end_matches([' ', '\t', '\r', '\n'])
}

/// The byte ranges to cut, sorted by their start; `None` if not even comments are certain.
fn cuts(tokens: &Tokens<'_>) -> Option<Vec<(usize, usize)>> {
    let range = |(from, to): (u32, u32)| (from as usize, to as usize);
    let mut cuts: Vec<_> = tokens.comments.iter().copied().map(range).collect();
    let bodies = symbol_bodies(tokens);
    // Dialects may read the body of `#dialect<…>` by the character, with no comments in it.
    let mut comments = tokens.comments.iter().peekable();
    for (from, to) in &bodies {
        while comments.next_if(|(start, _)| start < from).is_some() {}
        if comments.peek().is_some_and(|(start, _)| start < to) {
            return None;
        }
    }
    if let Some(locations) = locations(tokens, &bodies) {
        cuts.extend(locations.into_iter().map(range));
        cuts.sort_unstable();
    }
    Some(cuts)
}

/// The byte ranges of `<…>` directly after `#name` or `!name`, outermost ones only.
fn symbol_bodies(tokens: &Tokens<'_>) -> Vec<(u32, u32)> {
    let mut bodies = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let named = matches!(tokens.kind(index), Kind::Hash | Kind::Bang);
        index += 1;
        if named && tokens.is(index, b'<') && tokens.adjacent(index - 1) {
            let past = tokens.after_angle(index, tokens.len());
            bodies.push((tokens.get(index).start, tokens.get(past - 1).end));
            index = past;
        }
    }
    bodies
}

/// The byte ranges of all debug locations, or `None` if one of them may be more than that.
fn locations(tokens: &Tokens<'_>, bodies: &[(u32, u32)]) -> Option<Vec<(u32, u32)>> {
    let mut found = Vec::new();
    let mut aliases = HashSet::new();
    let mut names = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        match tokens.kind(index) {
            Kind::Hash if is_location_alias(tokens, index) => {
                let close = location(tokens, index + 2)?;
                // Alone on its line, as it is printed.
                if !tokens.get(close + 1).first {
                    return None;
                }
                aliases.insert(tokens.text(index));
                found.push((tokens.get(index).start, tokens.get(close).end));
                index = close;
            }
            Kind::Hash => {
                let name = tokens.text(index);
                if is_debug_info(name) {
                    return None;
                }
                names.push(name);
            }
            Kind::Word if tokens.is(index + 1, b'(') && tokens.text(index) == "loc" => {
                let close = location(tokens, index)?;
                if index == 0 || !may_precede(tokens.kind(index - 1)) {
                    return None;
                }
                found.push(trailing(tokens, index, close)?);
                index = close;
            }
            _ => {}
        }
        index += 1;
    }
    let inside = |(start, _): &(u32, u32)| {
        let before = bodies.partition_point(|(from, _)| from <= start);
        before > 0 && bodies.get(before - 1).is_some_and(|(_, to)| start < to)
    };
    if names.iter().any(|name| aliases.contains(name)) || found.iter().any(inside) {
        return None;
    }
    Some(found)
}

/// `#name = loc(` at the start of a line.
fn is_location_alias(tokens: &Tokens<'_>, index: usize) -> bool {
    tokens.get(index).first
        && tokens.is(index + 1, b'=')
        && tokens.is(index + 3, b'(')
        && tokens.is_word(index + 2, "loc")
}

fn is_debug_info(name: &str) -> bool {
    ["#llvm.di_", "#di_", "#llvm.DI", "#DI"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// The closing token of the location whose `loc` is at `index`; `None` if it is not one that the
/// printer writes, or carries metadata (`fused<…>`).
fn location(tokens: &Tokens<'_>, index: usize) -> Option<usize> {
    let close = tokens.close(index + 1);
    let first = index + 2;
    let known = match tokens.kind(first) {
        Kind::Text => true,
        Kind::Hash => !tokens.text(first).contains('.') && first + 1 == close,
        Kind::Word => matches!(tokens.text(first), "unknown" | "callsite" | "fused"),
        _ => false,
    };
    let carries_more = || {
        (first..close).any(|i| {
            (tokens.is(i + 1, b'<') && tokens.is_word(i, "fused"))
                || (tokens.kind(i) == Kind::Hash && is_debug_info(tokens.text(i)))
        })
    };
    (known && !carries_more()).then_some(close)
}

/// A location follows what it locates; after anything else `loc(…)` is an attribute's value.
fn may_precede(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Word
            | Kind::Value
            | Kind::Symbol
            | Kind::Block
            | Kind::Hash
            | Kind::Bang
            | Kind::Text
            | Kind::Number
            | Kind::Punct(b')' | b']' | b'}' | b'>')
    )
}

/// A location's byte range with the white space before it, unless that keeps two names apart;
/// `None` if the location alone keeps them apart.
fn trailing(tokens: &Tokens<'_>, index: usize, close: usize) -> Option<(u32, u32)> {
    let token = tokens.get(index);
    let next = tokens.get(close + 1);
    let glued = tokens.adjacent(close) && !matches!(next.kind, Kind::Punct(_) | Kind::Arrow);
    if glued && tokens.adjacent(index - 1) {
        return None;
    }
    let from = if token.first || glued {
        token.start
    } else {
        tokens.get(index - 1).end
    };
    Some((from, tokens.get(close).end))
}

#[cfg(test)]
mod tests;
