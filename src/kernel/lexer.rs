//! Cuts MLIR into tokens that borrow from the text, and pairs its brackets.
//!
//! It knows comments, strings, identifiers and nothing else, so text of any dialect passes.
//! Invariant: every `(`, `[` and `{` token has its closing partner, properly nested.

use super::error::{Position, ScanError};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `func.func`, `memref`, `private`: letters, digits, `_`, `$` and dots.
    Word,
    /// `%name`, with the `#1` that may follow.
    Value,
    /// `@name` or `@"name"`.
    Symbol,
    /// `^name`.
    Block,
    /// `#name`.
    Hash,
    /// `!name`.
    Bang,
    /// A string literal with its quotes.
    Text,
    /// Digits, a float or a hexadecimal number.
    Number,
    /// `->`.
    Arrow,
    /// `>=`, `<=` or `==`: no brackets.
    Relation,
    /// One byte of punctuation.
    Punct(u8),
    /// A character that MLIR has no use for.
    Other,
    /// Past the last token.
    End,
}

/// A piece of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// Whether nothing but white space or comments precedes it on its line.
    pub(super) first: bool,
    /// Byte offset of its first byte.
    pub(super) start: u32,
    /// Byte offset past its last byte.
    pub(super) end: u32,
    /// For a bracket: the index of its partner.
    pair: u32,
}

const END: Token = Token {
    kind: Kind::End,
    first: true,
    start: u32::MAX,
    end: u32::MAX,
    pair: u32::MAX,
};

/// All tokens of a text.
pub(super) struct Tokens<'s> {
    /// The text itself.
    pub(super) text: &'s str,
    list: Vec<Token>,
    /// Byte ranges of the comments, without their line ends.
    pub(super) comments: Vec<(u32, u32)>,
}

impl<'s> Tokens<'s> {
    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The token at `index`, [`Kind::End`] past the last.
    pub(super) fn get(&self, index: usize) -> Token {
        self.list.get(index).copied().unwrap_or(END)
    }

    pub(super) fn kind(&self, index: usize) -> Kind {
        self.get(index).kind
    }

    /// The text of the token at `index`.
    pub(super) fn text(&self, index: usize) -> &'s str {
        let token = self.get(index);
        self.slice(token.start, token.end)
    }

    /// The text between two byte offsets.
    pub(super) fn slice(&self, start: u32, end: u32) -> &'s str {
        self.text
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }

    /// The text from token `first` up to, not including, token `past`, without white space around.
    pub(super) fn span(&self, first: usize, past: usize) -> &'s str {
        if first >= past {
            return "";
        }
        self.slice(self.get(first).start, self.get(past - 1).end)
    }

    pub(super) fn is(&self, index: usize, punct: u8) -> bool {
        self.kind(index) == Kind::Punct(punct)
    }

    pub(super) fn is_word(&self, index: usize, word: &str) -> bool {
        self.kind(index) == Kind::Word && self.text(index) == word
    }

    /// The index of the bracket that closes the one at `index`.
    pub(super) fn close(&self, index: usize) -> usize {
        self.get(index).pair as usize
    }

    /// The index after the token at `index`, or after the whole group that it opens.
    pub(super) fn after(&self, index: usize) -> usize {
        match self.kind(index) {
            Kind::Punct(b'(' | b'[' | b'{') => self.close(index) + 1,
            _ => index + 1,
        }
    }

    /// The index after the `>` that closes the `<` at `index`, at most `limit`.
    pub(super) fn after_angle(&self, mut index: usize, limit: usize) -> usize {
        let mut depth = 0usize;
        while index < limit {
            match self.kind(index) {
                Kind::Punct(b'<') => depth += 1,
                Kind::Punct(b'>') => depth = depth.saturating_sub(1),
                _ => {}
            }
            index = self.after(index);
            if depth == 0 {
                break;
            }
        }
        index.min(limit)
    }

    /// Whether two neighbours touch, with nothing between them.
    pub(super) fn adjacent(&self, index: usize) -> bool {
        self.get(index).end == self.get(index + 1).start
    }

    /// A value's name without `%` and result number: `%0#1` is `0`.
    pub(super) fn value_name(&self, index: usize) -> &'s str {
        let text = self.text(index);
        let text = text.strip_prefix('%').unwrap_or(text);
        match text.as_bytes().iter().position(|c| *c == b'#') {
            Some(at) => text.get(..at).unwrap_or_default(),
            None => text,
        }
    }
}

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
        open: Vec::new(),
    };
    lexer.run().map_err(|fault| fault.explain(text))?;
    Ok(Tokens {
        text,
        list: lexer.list,
        comments: lexer.comments,
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
                b' ' | b'\t' => self.at += 1,
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

    fn skip_while(&mut self, mut wanted: impl FnMut(u8) -> bool) {
        while self.bytes.get(self.at).is_some_and(|c| wanted(*c)) {
            self.at += 1;
        }
    }

    /// A comment; MLIR ends it at either kind of line end.
    fn comment(&mut self) {
        let start = self.at;
        self.skip_while(|c| c != b'\n' && c != b'\r');
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
                self.skip_while(is_word_byte);
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
                    self.skip_while(|c| c.is_ascii_digit());
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
                self.skip_while(is_word_byte);
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
                self.skip_while(|c| c & 0xC0 == 0x80);
                Kind::Other
            }
        })
    }

    /// What may follow `%`, `^`, `#` and `!`: digits, or letters, digits and `$._-`.
    fn suffix(&mut self) -> bool {
        let start = self.at;
        if self.peek(0).is_ascii_digit() {
            self.skip_while(|c| c.is_ascii_digit());
        } else {
            self.skip_while(|c| is_word_byte(c) || c == b'-');
        }
        self.at > start
    }

    fn number(&mut self, byte: u8) {
        // `0x1F` is a number, `0xf32` in a shape is a dimension: both end where hex digits end,
        // and nothing here reads a shape from tokens.
        if byte == b'0' && self.peek(0) == b'x' && self.peek(1).is_ascii_hexdigit() {
            self.at += 1;
            self.skip_while(|c| c.is_ascii_hexdigit());
            return;
        }
        self.skip_while(|c| c.is_ascii_digit());
        if self.peek(0) == b'.' {
            self.at += 1;
            self.skip_while(|c| c.is_ascii_digit());
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if matches!(self.peek(0), b'e' | b'E') && self.peek(1 + sign).is_ascii_digit() {
                self.at += 1 + sign;
                self.skip_while(|c| c.is_ascii_digit());
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

const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}
