//! The tokens of a text, which borrow from it.
//!
//! Asking past the end gives [`Kind::End`] and empty text, so that readers need no bounds checks.

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
    pub(super) pair: u32,
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
    pub(super) list: Vec<Token>,
    /// Byte ranges of the comments, without their line ends.
    pub(super) comments: Vec<(u32, u32)>,
    /// Byte ranges of what `{-#` and `#-}` hold.
    pub(super) metadata: Vec<(u32, u32)>,
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

    /// The index of the first `punct` in a range that is in no group there, or the range's end.
    pub(super) fn find(&self, (mut at, end): (usize, usize), punct: u8) -> usize {
        while at < end && !self.is(at, punct) {
            at = self.after(at);
        }
        at.min(end)
    }

    /// The index after the location `loc(…)` that starts at `index`, or `index` if none does.
    pub(super) fn after_location(&self, index: usize) -> usize {
        if self.is(index + 1, b'(') && self.is_word(index, "loc") {
            self.after(index + 1)
        } else {
            index
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
