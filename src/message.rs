//! Text for people, made of what others wrote: names, paths, the words of tools.
//!
//! Invariant: what comes out of here steers no terminal and starts no line of its own, so that
//! nothing in it can pass for a message of ours.

use std::borrow::Cow;

/// Whether a character shows nothing, or moves what is shown around it.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Marks and overrides of the direction, line and paragraph separators, joiners, the
            // byte order mark: Unicode's default ignorable and bidirectional controls.
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}')
}

/// The text as one line: line breaks and all else that shows nothing as Rust escapes it, `\n`,
/// `\u{1b}`. Tabs stay.
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| steers(c) && c != '\t') {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match steers(c) && c != '\t' {
            true => line.extend(c.escape_default()),
            false => line.push(c),
        }
    }
    Cow::Owned(line)
}

/// A text whose line breaks are meant: each line as [`one_line`] has it, and all but the first
/// indented.
#[must_use]
pub fn lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len() + 8);
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            shown.push('\n');
            if !line.is_empty() && !line.starts_with("  ") {
                shown.push_str("  ");
            }
        }
        shown.push_str(&one_line(line));
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_steers_is_escaped_and_all_else_stays() {
        for (text, expected) in [
            ("café\t'日本' \\n", "café\t'日本' \\n"),
            ("a\nerror: b", "a\\nerror: b"),
            ("\u{1b}[31mred\u{9b}0m\r", "\\u{1b}[31mred\\u{9b}0m\\r"),
            (
                "\u{feff}a\u{202e}b\u{2028}",
                "\\u{feff}a\\u{202e}b\\u{2028}",
            ),
            ("\0\u{7f}", "\\u{0}\\u{7f}"),
        ] {
            assert_eq!(one_line(text), expected);
        }
    }

    #[test]
    fn lines_that_are_meant_stay_lines_and_are_no_first_ones() {
        assert_eq!(
            lines("a\n  b\ncommand: c\r\n\nerror: d\u{1b}\n"),
            "a\n  b\n  command: c\n\n  error: d\\u{1b}"
        );
        assert_eq!(lines(""), "");
    }

    proptest! {
        #[test]
        fn no_text_begins_a_line(text in any::<String>()) {
            prop_assert_eq!(one_line(&text).lines().count(), usize::from(!text.is_empty()));
            for line in lines(&text).lines().skip(1) {
                prop_assert!(line.is_empty() || line.starts_with("  "), "{:?}", line);
            }
            prop_assert_eq!(lines(&lines(&text)), lines(&text));
        }
    }
}
