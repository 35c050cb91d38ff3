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
    let mut lexer = Lexer {
        bytes: text.as_bytes(),
        at: 0,
        first: true,
        list: Vec::with_capacity(text.len() / 4 + 8),
        comments: Vec::new(),
        metadata: Vec::new(),
        open: Vec::new(),
    };
    lexer.run().map_err(|fault| fault.explain(text))?;
    Ok(Tokens {
        text,
        list: lexer.list,
        comments: lexer.comments,
        metadata: lexer.metadata,
    })
}

/// A lexical error, by byte offset.
enum Fault {
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

struct Lexer<'s> {
    bytes: &'s [u8],
    at: usize,
    first: bool,
    list: Vec<Token>,
    comments: Vec<(u32, u32)>,
    metadata: Vec<(u32, u32)>,
    /// Indices of the tokens whose bracket is open.
    open: Vec<u32>,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "lex() refuses texts whose offsets do not fit 32 bits"
)]
impl Lexer<'_> {
    fn run(&mut self) -> Result<(), Fault> {
        while let Some(&byte) = self.bytes.get(self.at) {
            let start = self.at;
            match byte {
                b'\n' | b'\r' => {
                    self.first = true;
                    self.at += 1;
                }
                b' ' | b'\t' => self.skip(BLANK),
                b'/' if self.peek(1) == b'/' => self.comment(),
                b'{' if self.peek(1) == b'-' && self.peek(2) == b'#' => self.metadata()?,
                b'(' | b'[' | b'{' => {
                    self.open.push(self.list.len() as u32);
                    self.at += 1;
                    self.push(Kind::Punct(byte), start);
                }
                b')' | b']' | b'}' => self.closing(byte)?,
                _ => {
                    let kind = self.token(byte)?;
                    self.push(kind, start);
                }
            }
        }
        match self.open.last() {
            Some(open) => Err(Fault::Unclosed {
                at: self.offset(*open),
            }),
            None => Ok(()),
        }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn offset(&self, token: u32) -> usize {
        self.list
            .get(token as usize)
            .map_or(0, |token| token.start as usize)
    }

    fn push(&mut self, kind: Kind, start: usize) {
        self.list.push(Token {
            kind,
            first: self.first,
            start: start as u32,
            end: self.at as u32,
            pair: u32::MAX,
        });
        self.first = false;
    }

    /// Skips the bytes of a class.
    fn skip(&mut self, class: u8) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest
            .iter()
            .position(|c| CLASSES[usize::from(*c)] & class == 0);
        self.at += length.unwrap_or(rest.len());
    }

    /// A comment; MLIR ends it at either kind of line end.
    fn comment(&mut self) {
        let start = self.at;
        self.skip(!LINE_END);
        self.comments.push((start as u32, self.at as u32));
    }

    /// `{-# … #-}` holds resources for dialects, never operations.
    fn metadata(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.at += 3;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'"' => self.string()?,
                b'/' if self.peek(1) == b'/' => self.comment(),
                b'#' if self.peek(1) == b'-' && self.peek(2) == b'}' => {
                    self.metadata.push((start as u32 + 3, self.at as u32));
                    self.at += 3;
                    return Ok(());
                }
                _ => self.at += 1,
            }
        }
        Err(Fault::Metadata { at: start })
    }

    fn closing(&mut self, byte: u8) -> Result<(), Fault> {
        let start = self.at;
        let Some(open) = self.open.pop() else {
            return Err(Fault::Unopened { at: start });
        };
        let close = self.list.len() as u32;
        let fits = self.list.get_mut(open as usize).is_some_and(|token| {
            token.pair = close;
            matches!(
                (token.kind, byte),
                (Kind::Punct(b'('), b')') | (Kind::Punct(b'['), b']') | (Kind::Punct(b'{'), b'}')
            )
        });
        if !fits {
            return Err(Fault::Mismatched {
                open: self.offset(open),
                close: start,
            });
        }
        self.at += 1;
        self.push(Kind::Punct(byte), start);
        if let Some(token) = self.list.last_mut() {
            token.pair = open;
        }
        Ok(())
    }

    /// One token that is no bracket, starting with `byte`.
    fn token(&mut self, byte: u8) -> Result<Kind, Fault> {
        self.at += 1;
        Ok(match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                self.skip(WORD);
                Kind::Word
            }
            b'0'..=b'9' => {
                self.number(byte);
                Kind::Number
            }
            b'%' if self.suffix() => {
                // `%0#1` is the second result of `%0`.
                if self.peek(0) == b'#' && self.peek(1).is_ascii_digit() {
                    self.at += 1;
                    self.skip(DIGIT);
                }
                Kind::Value
            }
            b'^' if self.suffix() => Kind::Block,
            b'#' if self.suffix() => Kind::Hash,
            b'!' if self.suffix() => Kind::Bang,
            b'@' if self.peek(0) == b'"' => {
                self.string()?;
                Kind::Symbol
            }
            b'@' if is_word_start(self.peek(0)) => {
                self.skip(WORD);
                Kind::Symbol
            }
            b'"' => {
                self.at -= 1;
                self.string()?;
                Kind::Text
            }
            b'-' if self.peek(0) == b'>' => {
                self.at += 1;
                Kind::Arrow
            }
            b'<' | b'>' | b'=' if self.peek(0) == b'=' => {
                self.at += 1;
                Kind::Relation
            }
            b'<' | b'>' | b',' | b':' | b'=' | b'-' | b'+' | b'*' | b'?' | b'/' | b'|' => {
                Kind::Punct(byte)
            }
            _ => {
                // Whole characters, so that token boundaries stay char boundaries.
                self.skip(CONTINUATION);
                Kind::Other
            }
        })
    }

    /// What may follow `%`, `^`, `#` and `!`: digits, or letters, digits and `$._-`.
    fn suffix(&mut self) -> bool {
        let start = self.at;
        if self.peek(0).is_ascii_digit() {
            self.skip(DIGIT);
        } else {
            self.skip(WORD | DASH);
        }
        self.at > start
    }

    fn number(&mut self, byte: u8) {
        // `0x1F` is a number, `0xf32` in a shape is a dimension: both end where hex digits end,
        // and nothing here reads a shape from tokens.
        if byte == b'0' && self.peek(0) == b'x' && self.peek(1).is_ascii_hexdigit() {
            self.at += 1;
            self.skip(HEX);
            return;
        }
        self.skip(DIGIT);
        if self.peek(0) == b'.' {
            self.at += 1;
            self.skip(DIGIT);
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if matches!(self.peek(0), b'e' | b'E') && self.peek(1 + sign).is_ascii_digit() {
                self.at += 1 + sign;
                self.skip(DIGIT);
            }
        }
    }

    /// A string literal from its opening quote; MLIR's may not span lines.
    fn string(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.at += 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\n' => break,
                b'\\' if self.peek(1) != b'\n' => {
                    self.at += 2;
                }
                _ => self.at += 1,
            }
        }
        Err(Fault::Text { at: start })
    }
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
