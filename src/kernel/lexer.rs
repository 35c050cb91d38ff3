//! Cuts MLIR into tokens that borrow from the text, and pairs its brackets.
//!
//! It knows comments, strings, identifiers and nothing else, so text of any dialect passes.
//! Invariant: every `(`, `[` and `{` token has its closing partner, properly nested.

use super::error::{Position, ScanError};
use super::tokens::{Kind, Token, Tokens};

/// Cuts `text` into tokens.
pub(super) fn lex(text: &str) -> Result<Tokens<'_>, ScanError> {
    if text.len() >= u32::MAX as usize {
        return Err(ScanError::TooLarge { bytes: text.len() });
    }
    let mut tokens = Tokens::of(text);
    cut(&mut tokens).map_err(|fault| fault.explain(text))?;
    tokens.finish();
    Ok(tokens)
}

/// A lexical error, by byte offset.
pub(super) enum Fault {
    Text { at: usize },
    Metadata { at: usize },
    Unclosed { at: usize },
    Mismatched { open: usize, close: usize },
    Unopened { at: usize },
}

impl Fault {
    fn explain(&self, text: &str) -> ScanError {
        let position = |at: usize| Position::of(text, at);
        let bracket = |at: usize| text.as_bytes().get(at).copied().map_or('?', char::from);
        match *self {
            Self::Text { at } => ScanError::UnclosedString { at: position(at) },
            Self::Metadata { at } => ScanError::UnclosedMetadata { at: position(at) },
            Self::Unclosed { at } => ScanError::Unclosed {
                bracket: bracket(at),
                at: position(at),
            },
            Self::Mismatched { open, close } => ScanError::Mismatched {
                open: bracket(open),
                at: position(open),
                close: bracket(close),
                closed_at: position(close),
            },
            Self::Unopened { at } => ScanError::Unopened {
                bracket: bracket(at),
                at: position(at),
            },
        }
    }
}

fn cut(tokens: &mut Tokens<'_>) -> Result<(), Fault> {
    let bytes = tokens.text.as_bytes();
    // The brackets that are open: number and offset of each one's token.
    let mut open: Vec<(u32, u32)> = Vec::new();
    let (mut comments, mut metadata) = (Vec::new(), Vec::new());
    let (mut at, mut first) = (0, true);
    loop {
        let mut on_skip = |what, from: usize, to: usize| {
            let list = match what {
                Skipped::Comment => &mut comments,
                Skipped::Metadata => &mut metadata,
            };
            list.push((narrow(from), narrow(to)));
        };
        let (token, end) = token(bytes, at, first, &mut on_skip)?;
        match token.kind {
            Kind::End => break,
            Kind::Punct(b'(' | b'[' | b'{') => open.push((narrow(tokens.len()), token.start)),
            Kind::Punct(close @ (b')' | b']' | b'}')) => {
                let at = token.start as usize;
                let (number, offset) = open.pop().ok_or(Fault::Unopened { at })?;
                let opening = bytes.get(offset as usize).copied().unwrap_or(0);
                if !matches!((opening, close), (b'(', b')') | (b'[', b']') | (b'{', b'}')) {
                    return Err(Fault::Mismatched {
                        open: offset as usize,
                        close: at,
                    });
                }
                tokens.pair(number, narrow(tokens.len()));
            }
            _ => {}
        }
        tokens.push(token);
        (at, first) = (end, false);
    }
    (tokens.comments, tokens.metadata) = (comments, metadata);
    match open.last() {
        Some((_, at)) => Err(Fault::Unclosed { at: *at as usize }),
        None => Ok(()),
    }
}

/// An offset, which fits: longer texts are refused.
fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// What is between tokens.
pub(super) enum Skipped {
    /// A comment, without its line end.
    Comment,
    /// What `{-#` and `#-}` hold.
    Metadata,
}

/// The token that comes at or after a byte, and the byte after it. `first` is whether nothing but
/// white space precedes that byte on its line.
#[inline]
pub(super) fn token(
    bytes: &[u8],
    mut at: usize,
    mut first: bool,
    on_skip: &mut impl FnMut(Skipped, usize, usize),
) -> Result<(Token, usize), Fault> {
    let peek = |at: usize| bytes.get(at).copied().unwrap_or(0);
    loop {
        match peek(at) {
            b'\n' | b'\r' => {
                first = true;
                at += 1;
            }
            b' ' | b'\t' => at = skip(bytes, at, BLANK),
            b'/' if peek(at + 1) == b'/' => at = comment(bytes, at, on_skip),
            b'{' if peek(at + 1) == b'-' && peek(at + 2) == b'#' => {
                at = metadata(bytes, at, on_skip)?;
            }
            _ => break,
        }
    }
    let kind = kind_of(bytes, at);
    let end = end_of(bytes, at, kind).ok_or(Fault::Text { at })?;
    Ok((Token::new(kind, first, narrow(at), narrow(end)), end))
}

/// The end of a comment; MLIR ends it at either kind of line end.
fn comment(bytes: &[u8], at: usize, on_skip: &mut impl FnMut(Skipped, usize, usize)) -> usize {
    let end = skip(bytes, at, !LINE_END);
    on_skip(Skipped::Comment, at, end);
    end
}

/// The end of `{-# … #-}`, which holds resources for dialects, never operations.
fn metadata(
    bytes: &[u8],
    start: usize,
    on_skip: &mut impl FnMut(Skipped, usize, usize),
) -> Result<usize, Fault> {
    let mut at = start + 3;
    while let Some(&byte) = bytes.get(at) {
        at = match byte {
            b'"' => string_end(bytes, at).ok_or(Fault::Text { at })?,
            b'/' if bytes.get(at + 1) == Some(&b'/') => comment(bytes, at, on_skip),
            b'#' if bytes.get(at + 1..at + 3) == Some(b"-}") => {
                on_skip(Skipped::Metadata, start + 3, at);
                return Ok(at + 3);
            }
            _ => at + 1,
        };
    }
    Err(Fault::Metadata { at: start })
}

/// What the token is that starts at a byte.
fn kind_of(bytes: &[u8], at: usize) -> Kind {
    let Some(&byte) = bytes.get(at) else {
        return Kind::End;
    };
    let peek = |ahead: usize| bytes.get(at + ahead).copied().unwrap_or(0);
    let has_suffix = || is_in(peek(1), WORD | DASH);
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => Kind::Word,
        b'0'..=b'9' => Kind::Number,
        b'%' if has_suffix() => Kind::Value,
        b'^' if has_suffix() => Kind::Block,
        b'#' if has_suffix() => Kind::Hash,
        b'!' if has_suffix() => Kind::Bang,
        b'@' if peek(1) == b'"' || is_word_start(peek(1)) => Kind::Symbol,
        b'"' => Kind::Text,
        b'-' if peek(1) == b'>' => Kind::Arrow,
        b'<' | b'>' | b'=' if peek(1) == b'=' => Kind::Relation,
        b'(' | b'[' | b'{' | b')' | b']' | b'}' | b'<' | b'>' | b',' | b':' | b'=' | b'-'
        | b'+' | b'*' | b'?' | b'/' | b'|' => Kind::Punct(byte),
        _ => Kind::Other,
    }
}

/// The byte after the token that starts at a byte; `None` for a string that is not closed.
fn end_of(bytes: &[u8], at: usize, kind: Kind) -> Option<usize> {
    let peek = |at: usize| bytes.get(at).copied().unwrap_or(0);
    Some(match kind {
        Kind::Word => skip(bytes, at + 1, WORD),
        Kind::Number => number_end(bytes, at),
        Kind::Value => {
            let end = suffix_end(bytes, at + 1);
            // `%0#1` is the second result of `%0`.
            match peek(end) == b'#' && peek(end + 1).is_ascii_digit() {
                true => skip(bytes, end + 1, DIGIT),
                false => end,
            }
        }
        Kind::Block | Kind::Hash | Kind::Bang => suffix_end(bytes, at + 1),
        Kind::Symbol if peek(at + 1) == b'"' => string_end(bytes, at + 1)?,
        Kind::Symbol => skip(bytes, at + 1, WORD),
        Kind::Text => string_end(bytes, at)?,
        Kind::Arrow | Kind::Relation => at + 2,
        Kind::Punct(_) => at + 1,
        // Whole characters, so that token boundaries stay char boundaries.
        Kind::Other => skip(bytes, at + 1, CONTINUATION),
        Kind::End => at,
    })
}

/// The first byte from `at` that is in none of the classes.
fn skip(bytes: &[u8], at: usize, classes: u8) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let length = rest.iter().position(|byte| !is_in(*byte, classes));
    at + length.unwrap_or(rest.len())
}

fn is_in(byte: u8, classes: u8) -> bool {
    CLASSES[usize::from(byte)] & classes != 0
}

/// The end of what may follow `%`, `^`, `#` and `!`: digits, or letters, digits and `$._-`.
fn suffix_end(bytes: &[u8], at: usize) -> usize {
    let is_number = bytes.get(at).is_some_and(u8::is_ascii_digit);
    skip(bytes, at, if is_number { DIGIT } else { WORD | DASH })
}

fn number_end(bytes: &[u8], at: usize) -> usize {
    let peek = |at: usize| bytes.get(at).copied().unwrap_or(0);
    // `0x1F` is a number, `0xf32` in a shape is a dimension: both end where hex digits end,
    // and nothing here reads a shape from tokens.
    if peek(at) == b'0' && peek(at + 1) == b'x' && peek(at + 2).is_ascii_hexdigit() {
        return skip(bytes, at + 2, HEX);
    }
    let mut end = skip(bytes, at, DIGIT);
    if peek(end) == b'.' {
        end = skip(bytes, end + 1, DIGIT);
        let sign = usize::from(matches!(peek(end + 1), b'+' | b'-'));
        if matches!(peek(end), b'e' | b'E') && peek(end + 1 + sign).is_ascii_digit() {
            end = skip(bytes, end + 1 + sign, DIGIT);
        }
    }
    end
}

/// The end of a string literal from its opening quote; MLIR's may not span lines.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut end = at + 1;
    while let Some(&byte) = bytes.get(end) {
        match byte {
            b'"' => return Some(end + 1),
            b'\n' => return None,
            b'\\' if bytes.get(end + 1) != Some(&b'\n') => end += 2,
            _ => end += 1,
        }
    }
    None
}

const fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// What may go on in a word: letters, digits, `_`, `$` and dots.
const WORD: u8 = 1;
const DASH: u8 = 2;
const DIGIT: u8 = 4;
const HEX: u8 = 8;
const BLANK: u8 = 16;
/// A UTF-8 byte that starts no character.
const CONTINUATION: u8 = 32;
const LINE_END: u8 = 64;
/// Every other byte, so that no byte is in no class.
const REST: u8 = 128;

/// The classes of each byte.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut index = 0;
    while index < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "index is below 256")]
        let byte = index as u8;
        let mut class = 0;
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.') {
            class |= WORD;
        }
        if byte.is_ascii_digit() {
            class |= DIGIT;
        }
        if byte.is_ascii_hexdigit() {
            class |= HEX;
        }
        class |= match byte {
            b'-' => DASH,
            b' ' | b'\t' => BLANK,
            b'\n' | b'\r' => LINE_END,
            0x80..=0xBF => CONTINUATION,
            _ => 0,
        };
        classes[index] = if class == 0 { REST } else { class };
        index += 1;
    }
    classes
};
