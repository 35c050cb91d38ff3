//! MLIR text as the doubles read it: tokens, matching brackets, operations in order. It checks what
//! a parser would refuse first (brackets, strings, dialects, undefined values) and no more.

mod check;
mod lexer;
mod operation;
mod types;

pub use lexer::{Kind, Token};
pub use operation::Operation;
pub use types::Type;

/// What a parser says of a text, and where (line and column from 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

impl Diagnostic {
    /// A diagnostic.
    pub fn new(line: usize, column: usize, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            line,
            column,
            message,
        }
    }
}

/// A text that passed the checks.
#[derive(Debug)]
pub struct Module<'s> {
    tokens: Vec<Token<'s>>,
    /// For each opening bracket its closing one, and the other way round.
    mates: Vec<usize>,
}

impl<'s> Module<'s> {
    /// Reads `text`.
    ///
    /// # Errors
    /// The first thing that a parser would refuse.
    pub fn parse(text: &'s str) -> Result<Self, Diagnostic> {
        let tokens = lexer::tokens(text)?;
        let mates = check::brackets(&tokens)?;
        let module = Self { tokens, mates };
        check::dialects(&module)?;
        check::values(&module)?;
        Ok(module)
    }

    /// All tokens.
    pub fn tokens(&self) -> &[Token<'s>] {
        &self.tokens
    }

    /// The text of the token at `index`, empty past the end.
    pub fn text(&self, index: usize) -> &'s str {
        self.tokens.get(index).map_or("", |token| token.text)
    }

    /// The kind of the token at `index`; a mark past the end.
    pub fn kind(&self, index: usize) -> Kind {
        self.tokens
            .get(index)
            .map_or(Kind::Mark, |token| token.kind)
    }

    /// The closing bracket of the one at `index`, or `index` itself.
    pub fn close(&self, index: usize) -> usize {
        self.mates.get(index).copied().unwrap_or(index)
    }

    /// The type that starts at `index`, and what follows it.
    pub fn type_at(&self, index: usize) -> (Type, usize) {
        let mut end = index + 1;
        if self.text(end) == "<" {
            end = self.close(end) + 1;
        }
        let text: String = (index..end).map(|i| self.text(i)).collect();
        (Type::parse(&text), end)
    }

    /// The tokens of a range as text, one line for each of the source that has any.
    pub fn print(&self, range: std::ops::Range<usize>) -> String {
        let mut text = String::new();
        let mut line = None;
        for token in self.tokens.get(range).unwrap_or_default() {
            if line.is_some_and(|last| last != token.line) {
                text.push('\n');
            } else if line.is_some() && !token.joined {
                text.push(' ');
            }
            line = Some(token.line);
            text.push_str(token.text);
        }
        text
    }

    /// The tokens of a range, one after the other: equal for texts that differ in white space only.
    pub fn identity(&self, range: std::ops::Range<usize>) -> String {
        let tokens = self.tokens.get(range).unwrap_or_default();
        let texts: Vec<_> = tokens.iter().map(|token| token.text).collect();
        texts.join(" ")
    }
}

/// The name behind the `@` of a symbol, without quotes.
pub fn symbol_name(text: &str) -> &str {
    text.trim_start_matches('@').trim_matches('"')
}
