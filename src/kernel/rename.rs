//! Gives a function of a module another name.

use super::header::symbol;
use super::lexer::lex;
use super::tokens::Kind;

/// The text with the symbol `name` replaced by one that is no identifier of C, and that symbol. Both
/// are of the same length, so that a tool's lines and columns stay those of the text. `None` when
/// every such name is taken.
#[must_use]
pub fn rename(text: &str, name: &str) -> Option<(String, String)> {
    let tokens = lex(text).ok()?;
    let named = |index: usize| match tokens.kind(index) {
        Kind::Symbol => Some(symbol(tokens.text(index))),
        // The generic form.
        Kind::Text if index > 1 && tokens.is_word(index - 2, "sym_name") => {
            Some(symbol(tokens.text(index)))
        }
        _ => None,
    };
    let taken = |name: &str| (0..tokens.len()).any(|index| named(index).as_deref() == Some(name));
    let candidates = name.char_indices().rev();
    let new = candidates
        .filter(|(at, old)| *at > 0 && old.is_ascii())
        .flat_map(|(at, _)| [".", "$"].map(|mark| (at, mark)))
        .map(|(at, mark)| {
            let mut new = name.to_owned();
            new.replace_range(at..=at, mark);
            new
        })
        .find(|new| !taken(new))?;
    let mut renamed = String::with_capacity(text.len());
    let mut done = 0;
    for index in (0..tokens.len()).filter(|index| named(*index).as_deref() == Some(name)) {
        let token = tokens.get(index);
        renamed.push_str(tokens.slice(done, token.start));
        renamed.push_str(&tokens.text(index).replace(name, &new));
        done = token.end;
    }
    renamed.push_str(tokens.slice(done, u32::try_from(text.len()).ok()?));
    Some((renamed, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_renamed_wherever_it_stands_and_nothing_moves() {
        let text = "module {\n  func.func @exp(%exp: f32) { // @exp\n    call @exp(%exp) : (f32) -> ()\n    \
                    call @\"exp\"(%exp) : (f32) -> ()\n    return\n  }\n  func.func private @exp2()\n}\n";
        let (renamed, new) = rename(text, "exp").unwrap();
        assert_eq!(new, "ex.");
        let expected = text
            .replace("@exp(", "@ex.(")
            .replace("@\"exp\"", "@\"ex.\"");
        assert_eq!(renamed, expected);
    }

    #[test]
    fn a_name_that_is_taken_is_not_given() {
        let (renamed, new) = rename("func.func @exp() func.func private @ex.()", "exp").unwrap();
        assert_eq!(new, "ex$");
        assert_eq!(renamed, "func.func @ex$() func.func private @ex.()");
        assert_eq!(rename("func.func @e()", "e"), None);
    }

    #[test]
    fn the_generic_form_names_a_function_in_an_attribute() {
        let text = r#""func.func"() <{sym_name = "exp", note = "exp"}> ({}) : () -> ()"#;
        let (renamed, _) = rename(text, "exp").unwrap();
        assert_eq!(renamed, text.replacen("exp", "ex.", 1));
    }
}
