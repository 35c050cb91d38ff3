//! Foreign text inside generated Rust: string literals and doc comments.
//!
//! Whatever the MLIR says, a literal is plain ASCII that means exactly that text, and a doc
//! comment stays one line that rustdoc neither links, runs, nor reads as HTML.

/// Longest piece of foreign text in a doc comment, in characters; constants hold all of it.
const DOC_LENGTH: usize = 80;

/// A Rust string literal, in ASCII.
pub(super) fn literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for c in text.chars() {
        match c {
            '\'' => literal.push(c),
            ' '..='~' if c != '"' && c != '\\' => literal.push(c),
            _ => literal.extend(c.escape_default()),
        }
    }
    literal.push('"');
    literal
}

/// One line for a comment or a fenced block: nothing invisible, nothing very long.
pub(super) fn line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for (index, c) in text.chars().enumerate() {
        if index == DOC_LENGTH {
            line.push('…');
            break;
        }
        if matches!(c, ' '..='~') || c.is_alphanumeric() {
            line.push(c);
        } else {
            line.extend(c.escape_default());
        }
    }
    line
}

/// A code span of Markdown around [`line`], with as many backticks as the text needs.
pub(super) fn code(text: &str) -> String {
    let line = line(text);
    if line.trim().is_empty() {
        return "(unnamed)".to_owned();
    }
    let ticks = "`".repeat(longest_run(&line) + 1);
    if ticks.len() > 1 || line.starts_with(' ') || line.ends_with(' ') {
        format!("{ticks} {line} {ticks}")
    } else {
        format!("{ticks}{line}{ticks}")
    }
}

/// The fence of a block that holds `lines`: longer than any run of backticks in them.
pub(super) fn fence<'a>(lines: impl IntoIterator<Item = &'a str>) -> String {
    let longest = lines.into_iter().map(longest_run).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|c| c != '`').map(str::len);
    runs.max().unwrap_or(0)
}

/// Columns side by side, two spaces apart, without trailing blanks.
pub(super) fn table<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |text: &String| text.chars().count();
    let mut widths = [0; N];
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = width(cell).max(*widest);
        }
    }
    let mut lines = Vec::with_capacity(rows.len());
    for row in rows {
        let mut line = String::new();
        for (cell, &widest) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', widest + 2 - width(cell)));
        }
        line.truncate(line.trim_end().len());
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_ascii_and_escaped() {
        assert_eq!(literal("it's \"é\"\\\n"), r#""it's \"\u{e9}\"\\\n""#);
    }

    #[test]
    fn code_spans_hold_backticks_and_hide_nothing() {
        assert_eq!(code("memref<*xf32>"), "`memref<*xf32>`");
        assert_eq!(code("a`b``c"), "``` a`b``c ```");
        assert_eq!(code("a\n/// b"), "`a\\n/// b`");
        assert_eq!(code("\u{202e}x"), "`\\u{202e}x`");
        assert_eq!(code(" "), "(unnamed)");
        assert_eq!(code(&"x".repeat(100)).chars().count(), 83);
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fence(["a", "````"]), "`````");
        assert_eq!(fence([]), "```");
    }

    #[test]
    fn tables_line_up() {
        let rows = [["a", "bb", "c"], ["aaa", "b", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), ["a    bb  c", "aaa  b"]);
    }
}
