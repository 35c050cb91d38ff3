//! A few bits for each line of a text, so that the first line that changed can be named later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::step::{Input, Step};

/// Of longer texts only the first lines are known.
const MAX_LINES: usize = 2048;

/// The lines of one text, a part of the digest of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lines(Vec<u16>);

impl Lines {
    /// The lines of every input of `step` that the user wrote.
    pub(super) fn of_step(step: &Step) -> BTreeMap<String, Self> {
        let inputs = step.inputs.iter();
        let lines =
            inputs.filter_map(|input| Some((input.name.to_string(), Self::of_input(input)?)));
        lines.collect()
    }

    pub(super) fn of_input(input: &Input) -> Option<Self> {
        Some(Self::of(&input.origin.as_ref()?.text.text))
    }

    fn of(text: &str) -> Self {
        let bits = |line| {
            let [first, second, ..] = *Digest::of(line).as_bytes();
            u16::from_be_bytes([first, second])
        };
        Self(text.lines().take(MAX_LINES).map(bits).collect())
    }

    /// The first line (from 1) in which `now` differs, if that can be seen.
    pub(super) fn first_change(&self, now: &Self) -> Option<usize> {
        let pairs = self.0.iter().zip(&now.0);
        let same = pairs.take_while(|(old, new)| old == new).count();
        (self.0 != now.0).then_some(same + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_found() {
        let long: String = (0..100_000).map(|line| format!("{line}\n")).collect();
        for (before, now, line) in [
            ("a\nb\nc\n", "a\nb\nc\n", None),
            ("a\nb\nc\n", "a\nx\nc\n", Some(2)),
            ("a\nb\n", "a\nb\nc\n", Some(3)),
            ("a\nb\nc\n", "a\nb\n", Some(3)),
            ("", "a\n", Some(1)),
            (&long, &long.replace("\n2000\n", "\nx\n"), Some(2001)),
            (&long, &long.replace("\n70000\n", "\nx\n"), None),
        ] {
            assert_eq!(Lines::of(before).first_change(&Lines::of(now)), line);
        }
    }
}
