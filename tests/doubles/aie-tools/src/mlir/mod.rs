//! MLIR text as tokens, matching brackets and operations in order. It refuses what a parser would
//! refuse first (strings, brackets, undefined values), and checks no more.

mod lexer;
mod operation;

use std::collections::HashSet;
use std::ops::Range;

pub use lexer::Token;
pub use operation::Operation;

/// What a parser says of a text, and where, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

impl Diagnostic {
    pub fn new(line: usize, column: usize, message: impl Into<String>) -> Self {
        Self {
            line,
            column,
            message: message.into(),
        }
    }
}

/// A text that passed the checks.
#[derive(Debug)]
pub struct Module<'s> {
    tokens: Vec<Token<'s>>,
    /// For each opening bracket its closing one.
    mates: Vec<usize>,
}

impl<'s> Module<'s> {
    pub fn parse(text: &'s str) -> Result<Self, Diagnostic> {
        let tokens = lexer::tokens(text)?;
        let mates = brackets(&tokens)?;
        let module = Self { tokens, mates };
        module.check_values()?;
        Ok(module)
    }

    pub fn all(&self) -> Range<usize> {
        0..self.tokens.len()
    }

    /// The text of a token, empty past the end.
    pub fn text(&self, index: usize) -> &'s str {
        self.tokens.get(index).map_or("", |token| token.text)
    }

    /// Whether a token is a name that starts with `sign`.
    pub fn is(&self, index: usize, sign: char) -> bool {
        let text = self.text(index);
        text.len() > 1 && text.starts_with(sign)
    }

    /// A diagnostic at a token.
    pub fn at(&self, index: usize, message: impl Into<String>) -> Diagnostic {
        let token = self.tokens.get(index);
        let (line, column) = token.map_or((1, 1), |token| (token.line, token.column));
        Diagnostic::new(line, column, message)
    }

    /// The closing bracket of the one at `index`, or `index` itself.
    pub fn close(&self, index: usize) -> usize {
        self.mates.get(index).copied().unwrap_or(index)
    }

    /// The values in a range.
    pub fn values(&self, range: Range<usize>) -> impl Iterator<Item = &'s str> {
        range
            .filter(|index| self.is(*index, '%'))
            .map(|index| self.text(index))
    }

    /// The symbols in a range, without `@` and quotes.
    pub fn symbols(&self, range: Range<usize>) -> impl Iterator<Item = &'s str> {
        range
            .filter(|index| self.is(*index, '@'))
            .map(|index| bare(self.text(index)))
    }

    /// The type that starts at `index`, and the index behind it.
    pub fn type_at(&self, index: usize) -> (Type, usize) {
        let end = match self.text(index + 1) {
            "<" => self.close(index + 1) + 1,
            _ => index + 1,
        };
        let text: String = (index..end).map(|at| self.text(at)).collect();
        (Type { text }, end)
    }

    /// `%name : type` in a range, outside brackets.
    pub fn typed(&self, range: Range<usize>) -> Vec<(String, Type)> {
        let (mut found, mut at) = (Vec::new(), range.start);
        while at < range.end {
            if self.is(at, '%') && self.text(at + 1) == ":" {
                let (of, end) = self.type_at(at + 2);
                found.push((self.text(at).to_owned(), of));
                at = end;
            } else {
                at = self.close(at).max(at) + 1;
            }
        }
        found
    }

    /// The tokens of a range as text, a line for each of the source.
    pub fn print(&self, range: Range<usize>) -> String {
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

    /// Equal for texts that differ in white space only.
    pub fn identity(&self, range: Range<usize>) -> String {
        let tokens = self.tokens.get(range).unwrap_or_default();
        let texts: Vec<_> = tokens.iter().map(|token| token.text).collect();
        texts.join(" ")
    }

    /// Refuses values that are defined nowhere.
    fn check_values(&self) -> Result<(), Diagnostic> {
        let base = |index: usize| self.text(index).split('#').next();
        let values: Vec<usize> = self.all().filter(|at| self.is(*at, '%')).collect();
        let defined: HashSet<_> = values
            .iter()
            .filter(|at| self.defines(**at))
            .map(|at| base(*at))
            .collect();
        match values.iter().find(|at| !defined.contains(&base(**at))) {
            Some(at) => Err(self.at(*at, "use of undeclared SSA value name")),
            None => Ok(()),
        }
    }

    /// Whether a value stands before `=` or `:`, or in a list that ends before `=` or `in`.
    fn defines(&self, index: usize) -> bool {
        let mut after = index + 1;
        while self.text(after) == "," && self.is(after + 1, '%') {
            after += 2;
        }
        match self.text(after) {
            "=" | ":" => true,
            ")" => matches!(self.text(after + 1), "=" | "in"),
            _ => false,
        }
    }
}

/// A name without its sign and quotes.
pub fn bare(text: &str) -> &str {
    text.trim_start_matches(['@', '%']).trim_matches('"')
}

/// Pairs the brackets.
fn brackets(tokens: &[Token<'_>]) -> Result<Vec<usize>, Diagnostic> {
    let closing = |open: &str| ["(", "[", "{", "<"].iter().position(|it| *it == open);
    let mut mates: Vec<usize> = (0..tokens.len()).collect();
    let mut open: Vec<(usize, &str)> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if let Some(kind) = closing(token.text) {
            open.push((index, [")", "]", "}", ">"].get(kind).copied().unwrap_or("")));
        } else if matches!(token.text, ")" | "]" | "}" | ">") {
            match open.pop() {
                Some((first, expected)) if expected == token.text => {
                    if let Some(mate) = mates.get_mut(first) {
                        *mate = index;
                    }
                }
                Some((first, expected)) => return Err(missing(tokens, first, expected)),
                None => {
                    return Err(Diagnostic::new(
                        token.line,
                        token.column,
                        "custom op 'builtin.module' expected operation name in quotes",
                    ));
                }
            }
        }
    }
    match open.last() {
        Some((first, expected)) => Err(missing(tokens, *first, expected)),
        None => Ok(mates),
    }
}

/// What is open ends with its line, where that can be: a block ends with the text.
fn missing(tokens: &[Token<'_>], open: usize, expected: &str) -> Diagnostic {
    let line = tokens.get(open).map_or(1, |token| token.line);
    let is_inside = |token: &&Token<'_>| expected == "}" || token.line == line;
    let last = tokens.iter().skip(open).take_while(is_inside).last();
    let (line, column) = last.map_or((1, 1), Token::end);
    Diagnostic::new(line, column, format!("expected '{expected}'"))
}

/// A type as written, without white space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Type {
    pub text: String,
}

impl Type {
    pub fn is_memref(&self) -> bool {
        self.text.starts_with("memref<")
    }

    /// `4x4xf32` of `memref<4x4xf32, 2 : i32>`; of another type all of it.
    pub fn head(&self) -> &str {
        let inside = ["memref<", "tensor<", "vector<"]
            .iter()
            .find_map(|prefix| self.text.strip_prefix(prefix));
        match inside {
            Some(inside) => inside.split([',', '>']).next().unwrap_or(inside),
            None => &self.text,
        }
    }

    pub fn element(&self) -> &str {
        self.head().rsplit('x').next().unwrap_or("")
    }

    /// The dimensions, if all are known.
    pub fn shape(&self) -> Option<Vec<u64>> {
        let mut parts: Vec<_> = self.head().split('x').collect();
        parts.pop();
        parts.iter().map(|part| part.parse().ok()).collect()
    }

    /// The number of elements of a buffer whose dimensions are known.
    pub fn elements(&self) -> Option<u64> {
        let shape = self.shape().filter(|_| self.head() != self.text)?;
        shape.iter().try_fold(1u64, |all, it| all.checked_mul(*it))
    }

    /// The size of an element.
    pub fn element_bytes(&self) -> u64 {
        let digits = self
            .element()
            .trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.parse::<u64>().unwrap_or(32).div_ceil(8)
    }
}
