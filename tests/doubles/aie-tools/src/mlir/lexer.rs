//! The tokens of MLIR text, without comments and debug locations.

use super::Diagnostic;

/// A token and its place, from 1. What it is its first byte says.
#[derive(Clone, Copy, Debug)]
pub struct Token<'s> {
    pub text: &'s str,
    pub line: usize,
    pub column: usize,
    /// Whether no white space precedes it.
    pub joined: bool,
}

impl Token<'_> {
    pub fn end(&self) -> (usize, usize) {
        (self.line, self.column + self.text.len())
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$')
}

/// The length of the string literal that `bytes` starts with.
fn string(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\n' => return None,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn run(bytes: &[u8], accept: impl Fn(u8) -> bool) -> usize {
    let length = bytes.iter().position(|byte| !accept(*byte));
    length.unwrap_or(bytes.len())
}

/// `%name`, `%name#1`, `@"name"`, `^name`, `#name` or `!name`.
fn prefixed(bytes: &[u8]) -> Option<usize> {
    let rest = bytes.get(1..).unwrap_or_default();
    if rest.first() == Some(&b'"') {
        return string(rest).map(|length| 1 + length);
    }
    let byte = |at: usize| rest.get(at).copied().unwrap_or(0);
    let mut length = 0;
    while is_word(byte(length)) || (byte(length) == b'-' && byte(length + 1) != b'>') {
        length += 1;
    }
    if byte(length) == b'#' && bytes.first() == Some(&b'%') {
        length += 1 + run(rest.get(length + 1..)?, |byte| byte.is_ascii_digit());
    }
    Some(1 + length)
}

/// The length of the token that `text` starts with, if it has an end.
fn length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    match bytes.first()? {
        b'%' | b'@' | b'^' | b'#' | b'!' => prefixed(bytes),
        b'"' => string(bytes),
        first if is_word(*first) => {
            let end = run(bytes, is_word);
            let is_exponent = first.is_ascii_digit()
                && matches!(bytes.get(end - 1), Some(b'e' | b'E'))
                && matches!(bytes.get(end), Some(b'+' | b'-'));
            match is_exponent {
                true => Some(end + 1 + run(bytes.get(end + 1..)?, is_word)),
                false => Some(end),
            }
        }
        _ if ["->", ">=", "<=", "==", "::"].contains(&text.get(..2).unwrap_or("")) => Some(2),
        _ => text.chars().next().map(char::len_utf8),
    }
}

/// The tokens of `text`, or where a string literal does not end.
pub fn tokens(text: &str) -> Result<Vec<Token<'_>>, Diagnostic> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    for (number, whole) in text.lines().enumerate() {
        let (mut rest, line) = (whole, number + 1);
        let mut joined = false;
        while !rest.is_empty() && !rest.starts_with("//") {
            if rest.starts_with(|first: char| first.is_whitespace()) {
                rest = rest.trim_start();
                joined = false;
                continue;
            }
            let column = whole.len() - rest.len() + 1;
            let unended = || Diagnostic::new(line, column, "expected '\"' in string literal");
            let length = length(rest).ok_or_else(unended)?;
            let (text, after) = rest.split_at_checked(length).ok_or_else(unended)?;
            tokens.push(Token {
                text,
                line,
                column,
                joined,
            });
            (rest, joined) = (after, true);
        }
    }
    Ok(without_locations(&tokens))
}

/// Drops `loc(…)` and `#locN = loc(…)`.
fn without_locations<'s>(tokens: &[Token<'s>]) -> Vec<Token<'s>> {
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.text == text);
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if token.text == "loc" && is(at + 1, "(") {
            let mut depth = 0usize;
            loop {
                at += 1;
                depth += usize::from(is(at, "("));
                depth -= usize::from(is(at, ")"));
                if depth == 0 || at >= tokens.len() {
                    break;
                }
            }
            at += 1;
        } else if token.text.starts_with("#loc") && is(at + 1, "=") {
            at += 2;
        } else {
            kept.push(*token);
            at += 1;
        }
    }
    kept
}
