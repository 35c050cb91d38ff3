//! `dense_resource<name>`: a constant whose content stands at the end of the file, in
//! `{-# dialect_resources: {builtin: {name: "0x…"}} #-}`, unless it was left out when it was printed.

use std::collections::HashSet;

use super::error::{Position, ScanError};
use super::lexer::lex;
use super::links::unescape;
use super::tokens::{Kind, Tokens};

/// Refuses a constant without its content, which no tool notices before it is compiled.
pub(super) fn check(tokens: &Tokens<'_>) -> Result<(), ScanError> {
    let mut uses = (0..tokens.len())
        .filter(|i| tokens.is(i + 1, b'<') && tokens.is_word(*i, "dense_resource"))
        .peekable();
    if uses.peek().is_none() {
        return Ok(());
    }
    let mut names = HashSet::new();
    for (start, end) in &tokens.metadata {
        match lex(tokens.slice(*start, *end)) {
            Ok(metadata) => names.extend(builtin_names(&metadata)),
            Err(_) => return Ok(()),
        }
    }
    let missing = uses.find(|at| !names.contains(&name(tokens, at + 2)));
    missing.map_or(Ok(()), |at| {
        Err(ScanError::NoResource {
            at: Position::of(tokens.text, tokens.get(at).start as usize),
            name: name(tokens, at + 2),
        })
    })
}

/// The keys of `dialect_resources: {builtin: {…}}`.
fn builtin_names(metadata: &Tokens<'_>) -> Vec<String> {
    let dialects = section(metadata, (0, metadata.len()), "dialect_resources");
    let builtin = dialects.and_then(|inside| section(metadata, inside, "builtin"));
    let (start, end) = builtin.unwrap_or_default();
    let keys = (start..end).filter(|i| metadata.is(i + 1, b':'));
    keys.map(|key| name(metadata, key)).collect()
}

/// The inside of the braces in `key: {…}`.
fn section(
    tokens: &Tokens<'_>,
    (mut at, end): (usize, usize),
    key: &str,
) -> Option<(usize, usize)> {
    while at < end {
        if tokens.is(at + 1, b':') && tokens.is(at + 2, b'{') && name(tokens, at) == key {
            return Some((at + 3, tokens.close(at + 2)));
        }
        at = tokens.after(at);
    }
    None
}

/// A name, as a word or in quotes.
fn name(tokens: &Tokens<'_>, at: usize) -> String {
    match tokens.kind(at) {
        Kind::Text => unescape(tokens.text(at)),
        _ => tokens.text(at).to_owned(),
    }
}
