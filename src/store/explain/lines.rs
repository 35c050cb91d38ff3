//! A few bytes for each line of a text, so that the first line that changed can be named later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Hasher;
use crate::step::{Input, Step};

/// As many digests are kept; of longer texts each stands for several lines.
const MAX: usize = 2048;
/// The characters of a digest: four of them are 24 bits.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const LENGTH: usize = 4;

/// The lines of one text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// How many lines each digest stands for.
    pub each: usize,
    /// Four characters for each.
    pub digests: String,
}

impl Lines {
    /// The lines of every input of `step` that the user wrote.
    #[must_use]
    pub fn of_step(step: &Step) -> BTreeMap<String, Self> {
        let lines = step.inputs.iter().filter_map(|input| {
            let text = Self::of_input(input)?;
            Some((input.name.to_string(), text))
        });
        lines.collect()
    }

    /// The lines of an input that the user wrote.
    #[must_use]
    pub fn of_input(input: &Input) -> Option<Self> {
        let origin = input.origin.as_ref()?;
        Some(Self::of(&origin.text.text))
    }

    fn of(text: &str) -> Self {
        let count = text.lines().count();
        let each = count.div_ceil(MAX).max(1);
        let mut digests = String::with_capacity(LENGTH * count.div_ceil(each));
        let mut lines = text.lines();
        while let Some(first) = lines.next() {
            let mut hasher = Hasher::new();
            hasher.update(first);
            for line in lines.by_ref().take(each - 1) {
                hasher.update("\n");
                hasher.update(line);
            }
            let bits = hasher.finish().number() >> 40;
            for shift in [18, 12, 6, 0] {
                let index = usize::try_from(bits >> shift & 63).unwrap_or(0);
                digests.push(char::from(ALPHABET[index]));
            }
        }
        Self { each, digests }
    }

    /// The first line (from 1) in which `now` differs, and how many after it may be meant as well.
    /// `None` if there is none, or no telling.
    pub(super) fn first_change(&self, now: &Self) -> Option<(usize, usize)> {
        if self.each != now.each {
            return None;
        }
        let (old, new) = (self.digests.as_bytes(), now.digests.as_bytes());
        let same = old.chunks(LENGTH).zip(new.chunks(LENGTH));
        let same = same.take_while(|(old, new)| old == new).count();
        if old.len() == new.len() && same * LENGTH == new.len() {
            return None;
        }
        Some((same * self.each + 1, self.each - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: &str, now: &str) -> Option<(usize, usize)> {
        Lines::of(before).first_change(&Lines::of(now))
    }

    #[test]
    fn the_first_line_that_differs_is_found() {
        assert_eq!(change("a\nb\nc\n", "a\nb\nc\n"), None);
        assert_eq!(change("a\nb\nc\n", "a\nx\nc\n"), Some((2, 0)));
        assert_eq!(change("a\nb\n", "a\nb\nc\n"), Some((3, 0)));
        assert_eq!(change("a\nb\nc\n", "a\nb\n"), Some((3, 0)));
        assert_eq!(change("", "a\n"), Some((1, 0)));
    }

    #[test]
    fn a_long_text_costs_no_more_than_a_shorter_one() {
        let text: String = (0..100_000).map(|line| format!("{line}\n")).collect();
        let lines = Lines::of(&text);
        assert!(
            lines.digests.len() <= MAX * LENGTH,
            "{}",
            lines.digests.len()
        );
        let (line, more) = change(&text, &text.replace("\n70000\n", "\nx\n")).unwrap();
        assert!((line..=line + more).contains(&70_001), "{line}");
    }
}
