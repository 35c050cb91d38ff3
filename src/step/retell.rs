//! What a tool printed, told in terms of the user's files.
//!
//! A tool reads a staged copy without comments and locations, under a name of ours. Whoever reads
//! its diagnostics knows neither that name nor those lines. What an earlier step made is told by
//! where it is kept.

use super::Input;

/// Puts the user's file and line wherever the text speaks of a staged input: `kernel.mlir:3:5` and
/// MLIR's other form, `"kernel.mlir":3:5`.
pub(super) fn retell(text: &str, inputs: &[Input]) -> String {
    let mut told = text.to_owned();
    for input in inputs {
        let place = match (&input.origin, input.path()) {
            (Some(origin), _) => origin.path.display(),
            (None, Some(path)) => path.display(),
            (None, None) => continue,
        };
        let original = |line| match &input.origin {
            Some(origin) => origin.text.original_line(line),
            None => line,
        };
        let mut result = String::with_capacity(told.len());
        let mut rest = told.as_str();
        while let Some(at) = rest.find(&*input.name) {
            let (before, found) = rest.split_at(at);
            // Elsewhere in the text the name may be the end of another one.
            let is_whole = !before.ends_with(is_in_path);
            result.push_str(before);
            rest = &found[input.name.len()..];
            let quote = if rest.starts_with("\":") { "\"" } else { "" };
            let numbers = &rest[quote.len()..];
            let line = numbers.strip_prefix(':').and_then(|numbers| {
                let digits = numbers.bytes().take_while(u8::is_ascii_digit).count();
                let (line, after) = numbers.split_at(digits);
                Some((line.parse().ok()?, after))
            });
            // A command line mentions the staged name without a line: that one stays.
            let Some((line, after)) = line.filter(|_| is_whole) else {
                result.push_str(&input.name);
                continue;
            };
            result.push_str(&format!("{place}{quote}:{}", original(line)));
            rest = after;
        }
        result.push_str(rest);
        told = result;
    }
    told
}

/// Whether a character before a file name belongs to its path.
fn is_in_path(c: char) -> bool {
    c.is_alphanumeric() || "_-./\\".contains(c)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::kernel::canonical::Canonical;
    use crate::step::Origin;

    /// The third kept line is the sixth of the file.
    const TEXT: &str = "// One.\nmodule {\n\n  // Two.\n  func.func @f() {\n    return\n  }\n}\n";

    fn told(text: &str) -> String {
        let origin = Origin {
            path: "my dir/add.mlir".into(),
            text: Arc::new(Canonical::of(TEXT)),
        };
        let inputs = [
            Input::new("call.inc", *b"int x;"),
            Input::new("kernel.mlir", *b"").from_user(origin),
        ];
        retell(text, &inputs)
    }

    #[test]
    fn file_and_line_are_the_users() {
        for (said, expected) in [
            (
                "kernel.mlir:3:5: error: no",
                "my dir/add.mlir:6:5: error: no",
            ),
            ("kernel.mlir:1:1: note:", "my dir/add.mlir:2:1: note:"),
            (
                "loc(\"kernel.mlir\":3:5): error: no",
                "loc(\"my dir/add.mlir\":6:5): error: no",
            ),
            (
                "kernel.mlir:1:1: a\n at kernel.mlir:3:5\n",
                "my dir/add.mlir:2:1: a\n at my dir/add.mlir:6:5\n",
            ),
            ("(kernel.mlir:3)", "(my dir/add.mlir:6)"),
        ] {
            assert_eq!(told(said), expected);
        }
    }

    #[test]
    fn what_is_not_a_place_in_the_staged_file_stays() {
        for said in [
            "mlir-opt kernel.mlir --lower-affine -o kernel.llvm.mlir",
            "kernel.llvm.mlir:3:5: error: no",
            "call.inc:3:5: error: no",
            "my_kernel.mlir:3:5",
            "/home/me/kernel.mlir:3:5",
            "old-kernel.mlir:3:5",
            "kernel.mlir: No such file",
            "kernel.mlir:",
            "kernel.mlir\"",
            "kernel.mlir:x:5",
            "kernel.mlir:99999999999999999999:5",
            "kernel.mli",
            "",
        ] {
            assert_eq!(told(said), said);
        }
    }

    #[test]
    fn what_an_earlier_step_made_is_told_by_its_place() {
        let path = std::path::Path::new("/cache/kernel.air.mlir");
        let inputs = [Input::made(
            "kernel.mlir",
            path,
            0,
            crate::digest::Digest::of(""),
        )];
        let told = retell("kernel.mlir:3:5: error: no", &inputs);
        assert_eq!(told, "/cache/kernel.air.mlir:3:5: error: no");
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "(kernel\\.mlir|\"|:|[0-9]{1,12}|\\PC|\n){0,40}") {
            let told = told(&text);
            prop_assert_eq!(told.lines().count(), text.lines().count());
        }
    }
}
