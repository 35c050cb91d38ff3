//! Adds operations to the end of a module.

use super::lexer::lex;
use super::tokens::Tokens;

/// The text with `operations` as the last of its module: before the brace that closes it, or at the
/// end of a text without `module`. Lines and columns of what stands before stay what they were.
#[must_use]
pub fn append(text: &str, operations: &str) -> String {
    let end = lex(text).ok().and_then(|tokens| end_of_module(&tokens));
    let end = end.map_or(text.len(), |end| end as usize);
    let (before, after) = text.split_at_checked(end).unwrap_or((text, ""));
    format!("{before}\n{operations}{after}")
}

/// Where the brace is that closes the region of the module that the text consists of.
fn end_of_module(tokens: &Tokens<'_>) -> Option<u32> {
    let mut outermost = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        outermost.push(at);
        at = tokens.after(at);
    }
    let is_module = |at: &&usize| matches!(tokens.text(**at), "module" | "\"builtin.module\"");
    let head = *outermost.iter().find(is_module)?;
    let region = if tokens.is_word(head, "module") {
        let is_brace = |at: &&usize| **at > head && tokens.is(**at, b'{');
        *outermost.iter().rfind(is_brace)?
    } else {
        let is_region =
            |at: &&usize| **at > head && tokens.is(**at, b'(') && tokens.is(**at + 1, b'{');
        outermost.iter().find(is_region)? + 1
    };
    Some(tokens.get(tokens.close(region)).start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_last_in_the_module_or_in_the_text() {
        for (text, expected) in [
            ("module {\n  a.b\n}\n", "module {\n  a.b\n\nNEW}\n"),
            (
                "#a = {b = 1}\nmodule @m attributes {x = {}} { a.b() { c.d } }\n#loc = loc(\"x\")\n",
                "#a = {b = 1}\nmodule @m attributes {x = {}} { a.b() { c.d } \nNEW}\n#loc = loc(\"x\")\n",
            ),
            (
                "\"builtin.module\"() <{a}> ({\n  a.b\n}) {c} : () -> ()",
                "\"builtin.module\"() <{a}> ({\n  a.b\n\nNEW}) {c} : () -> ()",
            ),
            (
                "func.func @k() {\n} // end",
                "func.func @k() {\n} // end\nNEW",
            ),
        ] {
            assert_eq!(append(text, "NEW"), expected);
        }
    }
}
