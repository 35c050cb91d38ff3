//! Reads a file's bytes as MLIR text, and counts its lines.

use super::error::{Position, ScanError};
use super::lexer::lex;
use super::tokens::{Kind, Tokens};
use super::{magic, resources};

/// The tokens of a module.
pub(super) fn tokens(text: &str) -> Result<Tokens<'_>, ScanError> {
    let tokens = lex(text)?;
    check_start(&tokens)?;
    resources::check(&tokens)?;
    Ok(tokens)
}

/// Bytes as text.
pub(super) fn decode(bytes: &[u8]) -> Result<&str, ScanError> {
    magic::check(bytes)?;
    let decoded = std::str::from_utf8(bytes);
    let valid = decoded.map_or_else(|error| error.valid_up_to(), str::len);
    let line = |offset| Position::in_bytes(bytes, offset).line;
    let valid = bytes.get(..valid).unwrap_or_default();
    // `contains` is a memchr, `position` is not.
    let nul = valid
        .contains(&0)
        .then(|| valid.iter().position(|c| *c == 0));
    if let Some(offset) = nul.flatten() {
        let line = line(offset);
        return Err(ScanError::Nul { offset, line });
    }
    decoded.map_err(|error| ScanError::NotUtf8 {
        offset: error.valid_up_to(),
        line: line(error.valid_up_to()),
    })
}

/// A module starts with an operation or an alias.
fn check_start(tokens: &Tokens<'_>) -> Result<(), ScanError> {
    let starts = match tokens.kind(0) {
        Kind::End => return Err(ScanError::Empty),
        Kind::Word => {
            let word = tokens.text(0);
            let dotted = !word.ends_with('.') && word.contains('.');
            dotted || matches!(word, "module" | "func")
        }
        Kind::Text => tokens.is(1, b'('),
        Kind::Hash | Kind::Bang => tokens.is(1, b'='),
        Kind::Value => tokens.is(1, b'=') || tokens.is(1, b':') || tokens.is(1, b','),
        _ => false,
    };
    if starts {
        return Ok(());
    }
    Err(ScanError::NotMlir {
        at: Position::of(tokens.text, tokens.get(0).start as usize),
        found: tokens.text(0).chars().take(40).collect(),
    })
}

/// Line numbers of places that are asked for in the file's order.
pub(super) struct Lines {
    pub(super) offset: usize,
    pub(super) line: u32,
}

impl Lines {
    pub(super) fn at(&mut self, text: &str, offset: u32) -> u32 {
        let offset = offset as usize;
        let between = text.as_bytes().get(self.offset..offset).unwrap_or_default();
        let breaks = between.iter().filter(|c| **c == b'\n').count();
        self.line = self
            .line
            .saturating_add(u32::try_from(breaks).unwrap_or(u32::MAX));
        self.offset = self.offset.max(offset);
        self.line
    }
}
