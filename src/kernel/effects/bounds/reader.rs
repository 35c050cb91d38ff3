//! Reads tokens one after the other; anything but what is asked for is `None`.

use std::collections::HashMap;

use crate::kernel::tokens::{Kind, Tokens};

pub(super) struct Reader<'c, 's> {
    pub(super) tokens: &'c Tokens<'s>,
    /// The first token of each alias's value.
    pub(super) aliases: &'c HashMap<&'s str, usize>,
    pub(super) at: usize,
}

impl<'s> Reader<'_, 's> {
    /// Passes a punctuation mark, if it is next.
    pub(super) fn eat(&mut self, punct: u8) -> bool {
        let is_next = self.tokens.is(self.at, punct);
        self.at += usize::from(is_next);
        is_next
    }

    pub(super) fn punct(&mut self, punct: u8) -> Option<()> {
        self.eat(punct).then_some(())
    }

    /// Passes a word, if it is next.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let is_next = self.tokens.is_word(self.at, word);
        self.at += usize::from(is_next);
        is_next
    }

    pub(super) fn word(&mut self, word: &str) -> Option<()> {
        self.eat_word(word).then_some(())
    }

    pub(super) fn any_word(&mut self) -> Option<&'s str> {
        self.one_of(Kind::Word)
    }

    fn one_of(&mut self, kind: Kind) -> Option<&'s str> {
        let text = self.tokens.text(self.at);
        let is_next = self.tokens.kind(self.at) == kind;
        self.at += usize::from(is_next);
        is_next.then_some(text)
    }

    /// The name of a value, without its result number.
    pub(super) fn value(&mut self) -> Option<&'s str> {
        let at = self.at;
        self.one_of(Kind::Value).map(|_| self.tokens.value_name(at))
    }

    pub(super) fn number(&mut self) -> Option<&'s str> {
        self.one_of(Kind::Number)
    }

    pub(super) fn arrow(&mut self) -> Option<()> {
        self.one_of(Kind::Arrow).map(|_| ())
    }

    /// `[2, 0, 1]`.
    pub(super) fn positions(&mut self) -> Option<Vec<usize>> {
        self.punct(b'[')?;
        let mut list = Vec::new();
        while !self.eat(b']') {
            if !list.is_empty() {
                self.punct(b',')?;
            }
            list.push(self.number()?.parse().ok()?);
        }
        Some(list)
    }

    /// Passes attributes in braces, if they are next and of these names. Others could give an
    /// operation another meaning, such as an alignment that a launch does not check.
    pub(super) fn attributes(&mut self, known: &[&str]) -> Option<()> {
        if !self.eat(b'{') {
            return Some(());
        }
        let close = self.tokens.close(self.at - 1);
        while self.at < close {
            let key = self.any_word()?;
            if !known.contains(&key) {
                return None;
            }
            self.punct(b'=')?;
            while self.at < close && !self.tokens.is(self.at, b',') {
                self.at = match self.tokens.is(self.at, b'<') {
                    true => self.tokens.after_angle(self.at, close),
                    false => self.tokens.after(self.at),
                };
            }
            self.eat(b',');
        }
        self.punct(b'}')
    }

    /// Passes `<…>`, if it is next.
    pub(super) fn angles(&mut self) {
        if self.tokens.is(self.at, b'<') {
            self.at = self.tokens.after_angle(self.at, self.tokens.len());
        }
    }

    /// A type's text, where an alias stands for its value.
    pub(super) fn of_type(&mut self) -> Option<&'s str> {
        let start = self.at;
        self.at = self.after_type(start)?;
        let text = match self.tokens.kind(start) {
            Kind::Bang if self.at == start + 1 => {
                let value = *self.aliases.get(self.tokens.text(start))?;
                self.tokens.span(value, self.after_type(value)?)
            }
            _ => self.tokens.span(start, self.at),
        };
        // With a comment in it, it is not what it looks like.
        (!text.contains("//")).then_some(text)
    }

    fn after_type(&self, at: usize) -> Option<usize> {
        if !matches!(self.tokens.kind(at), Kind::Word | Kind::Bang) {
            return None;
        }
        let next = at + 1;
        Some(match self.tokens.is(next, b'<') {
            true => self.tokens.after_angle(next, self.tokens.len()),
            false => next,
        })
    }

    /// `type`, or types in parentheses.
    pub(super) fn types(&mut self) -> Option<Vec<&'s str>> {
        if !self.eat(b'(') {
            return Some(vec![self.of_type()?]);
        }
        let mut list = Vec::new();
        while !self.eat(b')') {
            if !list.is_empty() {
                self.punct(b',')?;
            }
            list.push(self.of_type()?);
        }
        Some(list)
    }

    /// `: type, type`.
    pub(super) fn colon_types(&mut self) -> Option<Vec<&'s str>> {
        self.punct(b':')?;
        let mut list = vec![self.of_type()?];
        while self.eat(b',') {
            list.push(self.of_type()?);
        }
        Some(list)
    }
}
