//! The object files that a kernel names: `link_with`, `link_files`, `link_merge_files` and
//! `elf_file`, on whatever operation they stand.

use super::lexer::lex;
use super::tokens::{Kind, Tokens};

/// Whether the token at `index` is the key of such an attribute.
fn is_key(tokens: &Tokens<'_>, index: usize) -> bool {
    let key = match tokens.kind(index) {
        Kind::Word => tokens.text(index).to_owned(),
        Kind::Text => unescape(tokens.text(index)),
        _ => return false,
    };
    matches!(
        &*key,
        "link_with" | "link_files" | "link_merge_files" | "elf_file"
    )
}

/// Adds the files that the attribute at `index` names, if it is one that names files.
pub(super) fn collect(tokens: &Tokens<'_>, index: usize, files: &mut Vec<String>) {
    if !tokens.is(index + 1, b'=') || !is_key(tokens, index) {
        return;
    }
    let value = index + 2;
    let values = if tokens.is(value, b'[') {
        value + 1..tokens.close(value)
    } else {
        value..value + 1
    };
    for value in values {
        match tokens.kind(value) {
            Kind::Text => files.push(unescape(tokens.text(value))),
            // An alias, which stands for a file that is not looked up: no file is called so.
            Kind::Hash => files.push(tokens.text(value).to_owned()),
            _ => {}
        }
    }
}

/// The string literals of a text, unescaped; none if it can't be cut into tokens.
pub fn strings(text: &str) -> impl Iterator<Item = String> + '_ {
    let tokens = lex(text).ok();
    let count = tokens.as_ref().map_or(0, Tokens::len);
    (0..count).filter_map(move |index| {
        let tokens = tokens.as_ref()?;
        (tokens.kind(index) == Kind::Text).then(|| unescape(tokens.text(index)))
    })
}

/// The content of a string literal: without its quotes, `\"`, `\\`, `\n`, `\t` and `\XX`
/// resolved. Bytes that are no UTF-8 become U+FFFD, so that such a file is not found.
pub(super) fn unescape(literal: &str) -> String {
    let inside = literal.strip_prefix('"').unwrap_or(literal);
    let inside = inside.strip_suffix('"').unwrap_or(inside);
    if !inside.contains('\\') {
        return inside.to_owned();
    }
    let mut bytes = Vec::with_capacity(inside.len());
    let mut rest = inside.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(high) => {
                let digit = |c: u8| {
                    char::from(c)
                        .to_digit(16)
                        .and_then(|d| u8::try_from(d).ok())
                };
                let low = rest.clone().next();
                match (digit(high), low.and_then(digit)) {
                    (Some(high), Some(low)) => {
                        rest.next();
                        bytes.push(high << 4 | low);
                    }
                    _ => bytes.push(high),
                }
            }
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> Vec<String> {
        let tokens = lex(text).unwrap();
        let mut files = Vec::new();
        for index in 0..tokens.len() {
            collect(&tokens, index, &mut files);
        }
        files
    }

    #[test]
    fn every_spelling_is_found() {
        assert_eq!(
            files(
                "aie.core(%t) { aie.end } {link_with=\"a.o\", elf_file = \"c.elf\"}\n\
                 aie.core(%t) { aie.end } {link_files = [\"d.o\", \"e.o\"], link_merge_files = [\"f.ll\"]}\n\
                 \"aie.core\"(%t) <{\"link_with\" = \"g.o\"}> : () -> ()"
            ),
            ["a.o", "c.elf", "d.o", "e.o", "f.ll", "g.o"]
        );
    }

    /// mlir-opt takes `"link\5Fwith"` for `link_with`.
    #[test]
    fn a_key_may_be_escaped_and_a_value_an_alias() {
        assert_eq!(
            files("m {\"link\\5Fwith\" = \"a.o\", link_with = #lib, link_files = [#one, \"b.o\"]}"),
            ["a.o", "#lib", "#one", "b.o"]
        );
    }

    #[test]
    fn comments_strings_and_other_attributes_do_not_count() {
        let text = "// link_with = \"a.o\"\nm {x = \"link_with = b.o\", link_with_mode = \"merge\", link_with = 3}";
        assert_eq!(files(text), [""; 0]);
    }

    #[test]
    fn escapes_are_resolved() {
        assert_eq!(unescape(r#""a\\b\"c\22\C3\A9\n""#), "a\\b\"c\"é\n");
        assert_eq!(unescape("\"\\"), "");
    }
}
