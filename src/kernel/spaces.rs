//! Takes the memory spaces off a module's types: a host has one memory, and LLVM's address spaces
//! mean other things there.

use std::borrow::Cow;
use std::collections::HashMap;

use super::lexer::lex;
use super::tokens::{Kind, Tokens};

/// The text with a blank for every byte of a memref type's memory space and of the comma before it,
/// so that a tool's lines and columns stay those of the text.
#[must_use]
pub fn without_memory_spaces(text: &str) -> Cow<'_, str> {
    let Ok(tokens) = lex(text) else {
        return Cow::Borrowed(text);
    };
    let aliases = aliases(&tokens);
    let mut blanks = (0..tokens.len())
        .filter(|at| tokens.is_word(*at, "memref") && tokens.is(*at + 1, b'<'))
        .filter_map(|at| space(&tokens, at + 1, &aliases))
        .peekable();
    if blanks.peek().is_none() {
        return Cow::Borrowed(text);
    }
    let (mut result, mut done) = (String::with_capacity(text.len()), 0);
    for (from, to) in blanks {
        result.push_str(tokens.slice(done, from));
        let blank = tokens.slice(from, to).bytes();
        result.extend(blank.map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        done = to;
    }
    result.push_str(text.get(done as usize..).unwrap_or_default());
    Cow::Owned(result)
}

/// The first token of what each `#alias` stands for.
fn aliases<'s>(tokens: &Tokens<'s>) -> HashMap<&'s str, usize> {
    let defined = |at: &usize| {
        tokens.kind(*at) == Kind::Hash && tokens.get(*at).first && tokens.is(*at + 1, b'=')
    };
    (0..tokens.len())
        .filter(defined)
        .map(|at| (tokens.text(at), at + 2))
        .collect()
}

/// The bytes from the comma before the memory space to its end, in the type whose `<` is at `open`.
fn space(tokens: &Tokens<'_>, open: usize, aliases: &HashMap<&str, usize>) -> Option<(u32, u32)> {
    let past = tokens.after_angle(open, tokens.len());
    if !tokens.is(past - 1, b'>') {
        return None;
    }
    let (mut at, mut depth, mut comma) = (open + 1, 0usize, None);
    while at + 1 < past {
        match tokens.kind(at) {
            Kind::Punct(b'<') => depth += 1,
            Kind::Punct(b'>') => depth = depth.saturating_sub(1),
            Kind::Punct(b',') if depth == 0 => comma = Some(at),
            _ => {}
        }
        at = tokens.after(at);
    }
    let comma = comma?;
    let mut first = comma + 1;
    if tokens.kind(first) == Kind::Hash {
        first = aliases.get(tokens.text(first)).copied().unwrap_or(first);
    }
    let layout = tokens.is_word(first, "strided") || tokens.is_word(first, "affine_map");
    (!layout).then(|| (tokens.get(comma).start, tokens.get(past - 1).start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(text.len(), expected.len());
        assert_eq!(without_memory_spaces(text), expected);
    }

    #[test]
    fn every_spelling_of_a_space_is_blanked_and_nothing_moves() {
        check("a(%x: memref<8xf32, 2>)", "a(%x: memref<8xf32   >)");
        check("memref<*xf32, 1 : i32>", "memref<*xf32         >");
        check(r#"memref<8xf32, "L1">"#, "memref<8xf32      >");
        check(
            "memref<8xf32, #gpu.address_space<global>>",
            "memref<8xf32                            >",
        );
        check(
            "memref<4x4xf32, strided<[8, 2], offset: 9>, 3>",
            "memref<4x4xf32, strided<[8, 2], offset: 9>   >",
        );
        check(
            "memref<4xf32, affine_map<(i) -> (i)>,\n 3>",
            "memref<4xf32, affine_map<(i) -> (i)> \n  >",
        );
        check(
            "#l1 = 1 : i32\n#map = affine_map<(i) -> (i)>\nmemref<4xf32, #map>, memref<4xf32, #map, #l1>, memref<4xf32, #l1>",
            "#l1 = 1 : i32\n#map = affine_map<(i) -> (i)>\nmemref<4xf32, #map>, memref<4xf32, #map     >, memref<4xf32     >",
        );
    }

    #[test]
    fn what_has_no_space_is_left() {
        for text in [
            "memref<8xf32>, memref<?x4xvector<4xf32>>, memref<4x4xf32, strided<[8, 2]>>",
            r#"foo {text = "memref<8xf32, 2>"}"#,
            "memref<8xf32, 2",
        ] {
            assert!(
                matches!(without_memory_spaces(text), Cow::Borrowed(_)),
                "{text}"
            );
        }
    }
}
