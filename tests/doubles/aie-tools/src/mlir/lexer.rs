//! The tokens of MLIR text. Comments and debug locations are dropped here, so that nothing behind
//! this module can depend on them; every token keeps its line and column for diagnostics.

use super::Diagnostic;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An identifier: an operation's name, a keyword, an attribute's key, a type.
    Word,
    /// `%name`.
    Value,
    /// `@name` or `@"name"`.
    Symbol,
    /// `^name`.
    Block,
    /// `#name`.
    Alias,
    /// `!name`.
    Type,
    /// A number, or a shape such as `4096xi32`.
    Number,
    /// A string literal, with its quotes.
    Text,
    /// Punctuation.
    Mark,
}

/// A token and where it stands (line and column from 1).
#[derive(Clone, Copy, Debug)]
pub struct Token<'s> {
    /// What it is.
    pub kind: Kind,
    /// Its text.
    pub text: &'s str,
    /// Its line, from 1.
    pub line: usize,
    /// Its column in bytes, from 1.
    pub column: usize,
    /// Whether it follows the token before without white space.
    pub joined: bool,
}

impl Token<'_> {
    /// Where the token ends.
    pub fn end(&self) -> (usize, usize) {
        (self.line, self.column + self.text.len())
    }
}

struct Lexer<'s> {
    text: &'s str,
    at: usize,
    line: usize,
    line_start: usize,
    tokens: Vec<Token<'s>>,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$')
}

impl<'s> Lexer<'s> {
    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    fn while_(&self, mut at: usize, accept: impl Fn(u8) -> bool) -> usize {
        while at < self.text.len() && accept(self.byte(at)) {
            at += 1;
        }
        at
    }

    fn push(&mut self, kind: Kind, end: usize) {
        let text = self.text.get(self.at..end).unwrap_or("");
        let column = self.at - self.line_start + 1;
        let joined = self
            .tokens
            .last()
            .is_some_and(|last| last.end() == (self.line, column));
        self.tokens.push(Token {
            kind,
            text,
            line: self.line,
            column,
            joined,
        });
        self.at = end;
    }

    /// The end of the string literal that starts at `at`.
    fn string(&self, at: usize) -> Result<usize, Diagnostic> {
        let mut end = at + 1;
        loop {
            match self.byte(end) {
                b'"' => return Ok(end + 1),
                b'\\' => end += 2,
                0 | b'\n' => {
                    return Err(Diagnostic::new(
                        self.line,
                        self.at - self.line_start + 1,
                        "expected '\"' in string literal",
                    ));
                }
                _ => end += 1,
            }
        }
    }

    fn prefixed(&mut self, kind: Kind) -> Result<(), Diagnostic> {
        let start = self.at + 1;
        if kind == Kind::Symbol && self.byte(start) == b'"' {
            let end = self.string(start)?;
            self.push(kind, end);
            return Ok(());
        }
        let mut end = start;
        while is_word(self.byte(end)) || (self.byte(end) == b'-' && self.byte(end + 1) != b'>') {
            end += 1;
        }
        if kind == Kind::Value && self.byte(end) == b'#' {
            end = self.while_(end + 1, |b| b.is_ascii_digit());
        }
        let lone_sign = end == start;
        self.push(if lone_sign { Kind::Mark } else { kind }, end);
        Ok(())
    }

    fn token(&mut self) -> Result<(), Diagnostic> {
        let first = self.byte(self.at);
        match first {
            b'%' => self.prefixed(Kind::Value)?,
            b'@' => self.prefixed(Kind::Symbol)?,
            b'^' => self.prefixed(Kind::Block)?,
            b'#' => self.prefixed(Kind::Alias)?,
            b'!' => self.prefixed(Kind::Type)?,
            b'"' => {
                let end = self.string(self.at)?;
                self.push(Kind::Text, end);
            }
            _ if first.is_ascii_digit() => {
                let mut end = self.while_(self.at, is_word);
                let exponent = matches!(self.byte(end.wrapping_sub(1)), b'e' | b'E');
                if exponent && matches!(self.byte(end), b'+' | b'-') {
                    end = self.while_(end + 1, is_word);
                }
                self.push(Kind::Number, end);
            }
            _ if is_word(first) => {
                let end = self.while_(self.at, is_word);
                self.push(Kind::Word, end);
            }
            _ => {
                let pair = self.text.get(self.at..self.at + 2).unwrap_or("");
                let width = match pair {
                    "->" | ">=" | "<=" | "==" | "::" => 2,
                    _ => self
                        .text
                        .get(self.at..)
                        .and_then(|rest| rest.chars().next())
                        .map_or(1, char::len_utf8),
                };
                self.push(Kind::Mark, self.at + width);
            }
        }
        Ok(())
    }
}

/// The tokens of `text`, without comments and debug locations.
///
/// # Errors
/// A string literal that does not end on its line.
pub fn tokens(text: &str) -> Result<Vec<Token<'_>>, Diagnostic> {
    let mut lexer = Lexer {
        text,
        at: 0,
        line: 1,
        line_start: 0,
        tokens: Vec::new(),
    };
    while lexer.at < text.len() {
        match lexer.byte(lexer.at) {
            b'\n' => {
                lexer.at += 1;
                lexer.line += 1;
                lexer.line_start = lexer.at;
            }
            byte if byte.is_ascii_whitespace() => lexer.at += 1,
            b'/' if lexer.byte(lexer.at + 1) == b'/' => {
                lexer.at = lexer.while_(lexer.at, |b| b != b'\n');
            }
            _ => lexer.token()?,
        }
    }
    Ok(without_locations(&lexer.tokens))
}

/// Drops `loc(…)` and `#locN = loc(…)`.
fn without_locations<'s>(tokens: &[Token<'s>]) -> Vec<Token<'s>> {
    let is = |i: usize, text: &str| tokens.get(i).is_some_and(|token| token.text == text);
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if token.text == "loc" && is(at + 1, "(") {
            let mut depth = 0usize;
            at += 1;
            while at < tokens.len() {
                if is(at, "(") {
                    depth += 1;
                } else if is(at, ")") {
                    depth -= 1;
                }
                at += 1;
                if depth == 0 {
                    break;
                }
            }
        } else if token.kind == Kind::Alias && token.text.starts_with("#loc") && is(at + 1, "=") {
            at += 2;
        } else {
            kept.push(*token);
            at += 1;
        }
    }
    kept
}
