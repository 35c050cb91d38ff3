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
    /// Where lines were dropped, in order: how many kept lines precede them, and how many lines are
    /// dropped up to there.
    dropped: Vec<(u32, u32)>,
}

impl Canonical {
    /// Strips `text`. What can't be cut into tokens is returned unchanged.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let cuts = lex(text).ok().and_then(cuts);
        Self::without(text.to_owned(), cuts)
    }

    /// The line (from 1) of the original that became `line` (from 1) of the canonical text.
    #[must_use]
    pub fn original_line(&self, line: u32) -> u32 {
        // Those that had at most `line - 1` kept lines before them come first.
        let places = self.dropped.partition_point(|(kept, _)| *kept < line);
        let last = places
            .checked_sub(1)
            .and_then(|last| self.dropped.get(last));
        line.saturating_add(last.map_or(0, |(_, dropped)| *dropped))
    }

    /// Takes the byte ranges `cuts` (sorted by their start) out of `text`, and lines that are or
    /// become empty; nothing if there are no cuts to make it certain. The text stays where it is: it
    /// may be large.
    pub(super) fn without(text: String, cuts: Option<Vec<(u32, u32)>>) -> Self {
        let Some(cuts) = cuts else {
            return Self {
                text,
                dropped: Vec::new(),
            };
        };
        let mut rest = Rest {
            bytes: text.into_bytes(),
            written: 0,
            done: 0,
        };
        let mut cuts = cuts.iter().map(|(from, to)| (*from as usize, *to as usize));
        let mut cuts = cuts.by_ref().peekable();
        let (mut start, mut kept) = (0, 0u32);
        let mut dropped: Vec<(u32, u32)> = Vec::new();
        while start < rest.bytes.len() {
            let line = rest.bytes.get(start..).unwrap_or_default();
            let newline = line.iter().position(|byte| *byte == b'\n');
            let end = newline.map_or(rest.bytes.len(), |at| start + at + 1);
            let length = rest.written;
            // A cut may reach into later lines.
            let mut cut = rest.done > start;
            while let Some((from, to)) = cuts.next_if(|(from, _)| *from < end) {
                rest.keep(from);
                rest.done = rest.done.max(to);
                cut = true;
            }
            let last = rest.written;
            rest.keep(end);
            start = end;
            let content = length + without_space(rest.since(length)).len();
            if content == length {
                rest.written = length;
                let before = dropped.last().map_or(0, |(_, dropped)| *dropped);
                match dropped.last_mut() {
                    Some((place, dropped)) if *place == kept => *dropped += 1,
                    _ => dropped.push((kept, before + 1)),
                }
                continue;
            }
            kept = kept.saturating_add(1);
            if cut && without_space(rest.since(last)).is_empty() {
                rest.written = content;
                if newline.is_some() {
                    rest.push_newline();
                }
            }
        }
        let mut bytes = rest.bytes;
        bytes.truncate(rest.written);
        // Tokens begin and end with whole characters, so it is text as before.
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Self { text, dropped }
    }
}

/// A text that is being shortened in its place.
struct Rest {
    bytes: Vec<u8>,
    /// So much at its beginning is what is kept.
    written: usize,
    /// Everything before this is kept or cut.
    done: usize,
}

impl Rest {
    /// Keeps everything before `end` that is not done yet.
    fn keep(&mut self, end: usize) {
        let end = end.min(self.bytes.len());
        if self.done < end {
            self.bytes.copy_within(self.done..end, self.written);
            self.written += end - self.done;
            self.done = end;
        }
    }

    fn since(&self, from: usize) -> &[u8] {
        self.bytes.get(from..self.written).unwrap_or_default()
    }

    /// Ends the line that is kept so far: there is room, since its own line end is not.
    fn push_newline(&mut self) {
        if let Some(byte) = self.bytes.get_mut(self.written) {
            *byte = b'\n';
            self.written += 1;
        }
    }
}

/// The text without the white space at its end, as MLIR knows white space.
fn without_space(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let end = text.iter().rposition(|byte| !is_space(byte));
    text.get(..end.map_or(0, |end| end + 1)).unwrap_or_default()
}

/// The byte ranges to cut, sorted by their start; `None` if not even comments are certain.
pub(super) fn cuts(mut tokens: Tokens<'_>) -> Option<Vec<(u32, u32)>> {
    let mut cuts = std::mem::take(&mut tokens.comments);
    let bodies = symbol_bodies(&tokens);
    // Dialects may read the body of `#dialect<…>` by the character, with no comments in it.
    let mut comments = cuts.iter().peekable();
    for (from, to) in &bodies {
        while comments.next_if(|(start, _)| start < from).is_some() {}
        if comments.peek().is_some_and(|(start, _)| start < to) {
            return None;
        }
    }
    if let Some(locations) = locations(&tokens, &bodies) {
        cuts.extend(locations);
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
    let mut names = HashSet::new();
    let mut index = 0;
    while index < tokens.len() {
        match tokens.kind(index) {
            Kind::Hash if is_location_alias(tokens, index) => {
                let close = location(tokens, index + 2)?;
                // Alone on its line, as it is printed.
                if !tokens.get(close + 1).first {
                    return None;
                }
                found.push((tokens.get(index).start, tokens.get(close).end));
                index = close;
            }
            Kind::Hash => {
                let name = tokens.text(index);
                if is_debug_info(name) {
                    return None;
                }
                names.insert(name);
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
    // There may be as many aliases as operations, but of names that are used otherwise only a few.
    let is_used = |index| {
        tokens.kind(index) == Kind::Hash
            && names.contains(tokens.text(index))
            && is_location_alias(tokens, index)
    };
    let mut indices = 0..tokens.len();
    if !names.is_empty() && indices.any(is_used) || found.iter().any(inside) {
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
    let start = tokens.get(index).start;
    let next = tokens.kind(close + 1);
    let glued = tokens.adjacent(close) && !matches!(next, Kind::Punct(_) | Kind::Arrow);
    if glued && tokens.adjacent(index - 1) {
        return None;
    }
    let from = if tokens.get(index).first || glued {
        start
    } else {
        tokens.get(index - 1).end
    };
    Some((from, tokens.get(close).end))
}

#[cfg(test)]
mod tests;
