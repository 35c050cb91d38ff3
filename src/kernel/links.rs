//! The files that a kernel names: objects by `link_with`, `link_files` and `link_merge_files`, whole
//! programs of cores by `elf_file`, on whatever operation they stand.

use std::collections::HashMap;

use super::lexer::lex;
use super::tokens::{Kind, Tokens};

/// What an attribute names files for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// To be linked into a core's code.
    Object,
    /// To be loaded as a core's code.
    CoreElf,
}

/// What the attribute whose key is at `index` names files for, if it names any.
pub(super) fn link(tokens: &Tokens<'_>, index: usize) -> Option<Link> {
    if !tokens.is(index + 1, b'=') {
        return None;
    }
    let key = match tokens.kind(index) {
        Kind::Word => tokens.text(index).to_owned(),
        Kind::Text => unescape(tokens.text(index)),
        _ => return None,
    };
    match &*key {
        "link_with" | "link_files" | "link_merge_files" => Some(Link::Object),
        "elf_file" => Some(Link::CoreElf),
        _ => None,
    }
}

/// The tokens of the value of the attribute whose key is at `index`.
fn values(tokens: &Tokens<'_>, index: usize) -> std::ops::Range<usize> {
    let value = index + 2;
    match tokens.is(value, b'[') {
        true => value + 1..tokens.close(value),
        false => value..value + 1,
    }
}

/// The files that the attribute whose key is at `index` names.
pub(super) fn names<'t>(
    tokens: &'t Tokens<'_>,
    index: usize,
) -> impl Iterator<Item = String> + use<'t> {
    values(tokens, index).filter_map(|value| match tokens.kind(value) {
        Kind::Text => Some(unescape(tokens.text(value))),
        // An alias, which stands for a file that is not looked up: no file is called so.
        Kind::Hash => Some(tokens.text(value).to_owned()),
        _ => None,
    })
}

/// The text with other names for the files in `renamed`. Its lines stay as they are.
#[must_use]
pub fn rename_files(text: &str, renamed: &HashMap<String, String>) -> String {
    let Ok(tokens) = lex(text) else {
        return text.to_owned();
    };
    let mut result = String::with_capacity(text.len());
    let mut done = 0;
    let keys = (0..tokens.len()).filter(|index| link(&tokens, *index).is_some());
    for value in keys.flat_map(|index| values(&tokens, index)) {
        let is_text = tokens.kind(value) == Kind::Text;
        let new = is_text.then(|| renamed.get(&unescape(tokens.text(value))));
        if let Some(new) = new.flatten() {
            let token = tokens.get(value);
            result.push_str(tokens.slice(done, token.start));
            result.push_str(&literal(new));
            done = token.end;
        }
    }
    result.push_str(text.get(done as usize..).unwrap_or_default());
    result
}

/// A string literal with this content.
fn literal(content: &str) -> String {
    let mut literal = String::from("\"");
    for byte in content.bytes() {
        match byte {
            b' '..=b'~' if !b"\"\\".contains(&byte) => literal.push(char::from(byte)),
            _ => literal.push_str(&format!("\\{byte:02X}")),
        }
    }
    literal.push('"');
    literal
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
        let keys = (0..tokens.len()).filter(|index| link(&tokens, *index).is_some());
        keys.flat_map(|index| names(&tokens, index).collect::<Vec<_>>())
            .collect()
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

    /// mlir-opt prints `"a\22b"` for a string with a quote, and `\C3\A9` for é.
    #[test]
    fn files_get_other_names_and_nothing_else_does() {
        let renamed = [("/a/x.o", "x.o"), ("/b/é\"", "é\"")];
        let renamed = renamed.map(|(old, new)| (old.to_owned(), new.to_owned()));
        assert_eq!(
            rename_files(
                "// elf_file = \"/a/x.o\"\n\
                 c {elf_file = \"/a/x\\2Eo\", note = \"/a/x.o\"}\n\
                 d {link_files = [\"y.o\", \"/a/x.o\", \"/b/é\\22\"]} // \"/a/x.o\"\n",
                &renamed.into()
            ),
            "// elf_file = \"/a/x.o\"\n\
             c {elf_file = \"x.o\", note = \"/a/x.o\"}\n\
             d {link_files = [\"y.o\", \"x.o\", \"\\C3\\A9\\22\"]} // \"/a/x.o\"\n"
        );
    }

    #[test]
    fn escapes_are_resolved() {
        assert_eq!(unescape(r#""a\\b\"c\22\C3\A9\n""#), "a\\b\"c\"é\n");
        assert_eq!(unescape("\"\\"), "");
    }
}
