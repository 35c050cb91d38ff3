//! The tokens of a text, which borrow from it.
//!
//! Asking past the end gives [`Kind::End`] and empty text, so that readers need no bounds checks.

use std::cell::Cell;

use super::lexer;

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
    /// Whether nothing but white space precedes it on its line.
    pub(super) first: bool,
    /// Byte offset of its first byte.
    pub(super) start: u32,
    /// Byte offset past its last byte.
    pub(super) end: u32,
    /// For an opening bracket: the index of its partner, if that is known.
    pair: u32,
}

impl Token {
    /// A token without a partner.
    pub(super) const fn new(kind: Kind, first: bool, start: u32, end: u32) -> Self {
        Self {
            kind,
            first,
            start,
            end,
            pair: u32::MAX,
        }
    }
}

const END: Token = Token::new(Kind::End, true, u32::MAX, u32::MAX);

/// All tokens of a text. Of a long one only the first are in memory; the others are cut again, a
/// block at a time, when they are asked for.
pub(super) struct Tokens<'s> {
    /// The text itself.
    pub(super) text: &'s str,
    /// Byte ranges of the comments, without their line ends.
    pub(super) comments: Vec<(u32, u32)>,
    /// Byte ranges of what `{-#` and `#-}` hold.
    pub(super) metadata: Vec<(u32, u32)>,
    /// Number of tokens.
    len: usize,
    /// The first ones, at most [`LISTED`].
    list: Vec<Token>,
    /// The others.
    blocks: Blocks,
    /// The partners of brackets that are not in the list and more than [`NEAR`] tokens apart.
    far: Vec<(u32, u32)>,
}

/// So many tokens are in memory: more than most texts have.
const LISTED: usize = 1 << 14;
/// So many tokens are looked through for a bracket's partner.
const NEAR: usize = 32;

impl<'s> Tokens<'s> {
    /// A text before any token was found in it.
    pub(super) fn of(text: &'s str) -> Self {
        Self {
            text,
            comments: Vec::new(),
            metadata: Vec::new(),
            len: 0,
            list: Vec::with_capacity((text.len() / 4 + 8).min(LISTED)),
            blocks: Blocks::default(),
            far: Vec::new(),
        }
    }

    /// Adds the token that comes after all others.
    pub(super) fn push(&mut self, token: Token) {
        match self.len.checked_sub(LISTED) {
            None => self.list.push(token),
            Some(number) => self.blocks.push(number, token.start),
        }
        self.len += 1;
    }

    /// Notes which brackets are partners.
    pub(super) fn pair(&mut self, open: u32, close: u32) {
        match self.list.get_mut(open as usize) {
            Some(token) => token.pair = close,
            None if (close - open) as usize > NEAR => self.far.push((open, close)),
            None => {}
        }
    }

    /// What has to be done when all are there.
    pub(super) fn finish(&mut self) {
        self.far.sort_unstable();
        self.blocks.finish(self.len.saturating_sub(LISTED));
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The token at `index`, [`Kind::End`] past the last.
    pub(super) fn get(&self, index: usize) -> Token {
        match self.list.get(index) {
            Some(token) => *token,
            None if index < self.len => self.blocks.get(self.text.as_bytes(), index - LISTED),
            None => END,
        }
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

    /// The index of the bracket that closes the one at `index`; past all tokens if there is none.
    pub(super) fn close(&self, index: usize) -> usize {
        const NONE: usize = u32::MAX as usize;
        let token = self.get(index);
        match token.kind {
            Kind::Punct(b'(' | b'[' | b'{') if token.pair != u32::MAX => {
                return token.pair as usize;
            }
            Kind::Punct(b'(' | b'[' | b'{') => {}
            Kind::Punct(b')' | b']' | b'}') => return index,
            _ => return NONE,
        }
        let mut depth = 0usize;
        for at in index + 1..=index + NEAR {
            match self.kind(at) {
                Kind::Punct(b'(' | b'[' | b'{') => depth += 1,
                Kind::Punct(b')' | b']' | b'}') if depth == 0 => return at,
                Kind::Punct(b')' | b']' | b'}') => depth -= 1,
                _ => {}
            }
        }
        let far = |(open, _): &(u32, u32)| (*open as usize).cmp(&index);
        let found = self.far.binary_search_by(far).ok();
        let pair = found.and_then(|found| self.far.get(found));
        pair.map_or(NONE, |(_, close)| *close as usize)
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

/// Tokens that are cut when they are asked for. Mostly those that follow each other are.
#[derive(Default)]
struct Blocks {
    /// The offset of each block's first token.
    starts: Vec<u32>,
    /// Number of tokens.
    len: usize,
    /// The tokens of some blocks, each at its number modulo [`SLOTS`], and which block is where.
    held: Vec<Cell<Token>>,
    numbers: Vec<Cell<usize>>,
}

/// So many tokens are a block.
const BLOCK: usize = 256;
/// So many blocks are in memory.
const SLOTS: usize = 64;

impl Blocks {
    /// Notes the token of that number, which comes after all others.
    fn push(&mut self, number: usize, start: u32) {
        if number.is_multiple_of(BLOCK) {
            self.starts.push(start);
        }
    }

    fn finish(&mut self, len: usize) {
        self.len = len;
        let slots = self.starts.len().min(SLOTS);
        self.held.resize_with(slots * BLOCK, || Cell::new(END));
        self.numbers.resize_with(slots, || Cell::new(usize::MAX));
    }

    #[cold]
    fn get(&self, bytes: &[u8], index: usize) -> Token {
        let (number, within) = (index / BLOCK, index % BLOCK);
        let slot = number % SLOTS;
        let Some(held) = self.numbers.get(slot) else {
            return END;
        };
        if held.get() != number {
            self.cut(bytes, number);
            held.set(number);
        }
        let token = self.held.get(slot * BLOCK + within);
        token.map_or(END, Cell::get)
    }

    /// Cuts the tokens of a block.
    fn cut(&self, bytes: &[u8], number: usize) {
        let start = self.starts.get(number);
        let mut at = start.map_or(bytes.len(), |start| *start as usize);
        let mut before = bytes.get(..at).unwrap_or_default().iter().rev();
        let last = before.find(|byte| !matches!(byte, b' ' | b'\t'));
        let mut first = last.is_none_or(|byte| matches!(byte, b'\n' | b'\r'));
        let places = self.held.get(number % SLOTS * BLOCK..).unwrap_or_default();
        let count = (self.len - number * BLOCK).min(BLOCK);
        for place in places.iter().take(count) {
            // It was cut before, so there is nothing wrong with it.
            let Ok((token, end)) = lexer::token(bytes, at, first, &mut |_, _, _| {}) else {
                break;
            };
            place.set(token);
            (at, first) = (end, false);
        }
    }
}
