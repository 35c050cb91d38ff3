//! What a tool printed, told in terms of the user's files.
//!
//! A tool reads a staged copy without comments and locations, under a name of ours. Whoever reads
//! its diagnostics knows neither that name nor those lines. What an earlier step made is told by
//! where it is kept; what is gone with the work directory, by the line in question.

use std::borrow::Cow;
use std::fs;
use std::ops::Range;
use std::path::{Component, Path};
use std::sync::Arc;

use super::{Input, PROGRAMS};
use crate::toolchain::Tool;

/// What is known of the files that tools speak of.
pub(super) struct Places<'a> {
    /// What was staged.
    pub(super) inputs: &'a [Input],
    /// Where the tools ran, which is deleted afterwards.
    pub(super) directory: &'a Path,
    /// See [`Command::unnamed`](super::Command::unnamed).
    pub(super) unnamed: &'a [&'static str],
    /// What is in [`PROGRAMS`].
    pub(super) programs: &'a [(&'static str, Arc<Tool>)],
}

impl Places<'_> {
    /// What was printed, without the names of files that are gone when somebody reads it.
    pub(super) fn retell(&self, text: &str) -> String {
        let text = self.relative(text);
        let mut told = String::with_capacity(text.len());
        let mut lines = text.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            let line = self.named(line);
            let gone = [
                "Intermediate MLIR saved to: ",
                "Repeater script generated: ",
            ];
            if gone.iter().any(|words| line.starts_with(words)) {
                continue;
            }
            self.intermediate(&line, lines.peek().copied(), &mut told);
        }
        self.staged(told)
    }

    /// The text with names relative to the work directory, and programs where they are installed.
    fn relative<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let directory = format!("{}/", self.directory.display());
        if !text.contains(&directory) {
            return Cow::Borrowed(text);
        }
        let mut text = text.to_owned();
        for (name, tool) in self.programs {
            let found = format!("{directory}{PROGRAMS}/{name}");
            text = text.replace(&found, &tool.path.display().to_string());
        }
        Cow::Owned(text.replace(&directory, ""))
    }

    /// A line of what was staged or made in the work directory, from 1.
    fn line(&self, name: &str, number: u32) -> Option<String> {
        let is_inside = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let text = fs::read_to_string(is_inside.then(|| self.directory.join(name))?).ok()?;
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        text.lines().nth(index).map(str::to_owned)
    }

    /// The line with the name of the file that `-` stands for: the only one that there is by then, or
    /// the last of them in which the operation in question is at that place.
    fn named<'l>(&self, line: &'l str) -> Cow<'l, str> {
        const UNNAMED: &str = "\"-\"";
        let Some((number, column)) = line.split_once(UNNAMED).and_then(|(_, at)| place(at)) else {
            return Cow::Borrowed(line);
        };
        let made = self.unnamed.iter();
        let made: Vec<_> = made
            .filter(|name| self.directory.join(name).is_file())
            .collect();
        let operation = line
            .split_once(": '")
            .and_then(|(_, rest)| rest.split_once("' op"));
        let is_there = |name: &&&&str| {
            let text = self.line(name, number);
            let from = usize::try_from(column)
                .ok()
                .and_then(|column| column.checked_sub(1));
            let rest = text
                .as_deref()
                .zip(from)
                .and_then(|(text, from)| text.get(from..));
            rest.zip(operation)
                .is_some_and(|(rest, (name, _))| rest.starts_with(name))
        };
        let found = match made.as_slice() {
            [only] => Some(*only),
            made => made.iter().rev().find(is_there).copied(),
        };
        found.map_or(Cow::Borrowed(line), |name| {
            line.replacen(UNNAMED, &format!("\"{name}\""), 1).into()
        })
    }

    /// Adds a line to what is told. A place in a file that will be gone is told by what stands there.
    fn intermediate(&self, line: &str, next: Option<&str>, told: &mut String) {
        let found = location(line).and_then(|(range, name, number)| {
            let mut staged = self.inputs.iter();
            let is_told = staged.any(|input| input.name == name && input.is_told());
            let text = self.line(name, number).filter(|_| !is_told)?;
            Some((range, text))
        });
        let Some((range, text)) = found else {
            told.push_str(line);
            return;
        };
        let (before, behind) = (&line[..range.start], &line[range.end..]);
        told.push_str(before);
        told.push_str("in an intermediate file");
        told.push_str(behind);
        // MLIR itself prints the line where it still has the file.
        if next.is_none_or(|next| next.trim() != text.trim()) {
            if !behind.ends_with('\n') {
                told.push('\n');
            }
            told.push_str(&text);
            told.push('\n');
        }
    }

    /// Puts the user's file and line wherever the text speaks of a staged input: `kernel.mlir:3:5`
    /// and MLIR's other form, `"kernel.mlir":3:5`.
    fn staged(&self, text: String) -> String {
        let mut told = text;
        for input in self.inputs.iter().filter(|input| input.is_told()) {
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
                let line = numbers.strip_prefix(':').and_then(number);
                // A command line mentions the staged name without a line: that one stays.
                let Some((line, after)) = line.filter(|_| is_whole) else {
                    result.push_str(&input.name);
                    continue;
                };
                let (place, line) = input.place(line);
                result.push_str(&format!("{}{quote}:{line}", place.display()));
                rest = after;
            }
            result.push_str(rest);
            told = result;
        }
        told
    }
}

impl Input {
    /// Whether there is a file that can be told in its place.
    fn is_told(&self) -> bool {
        self.origin.is_some() || self.path().is_some() && self.is_kept
    }

    /// The file and the line in it that are told for a line of it.
    fn place(&self, line: u32) -> (&Path, u32) {
        match (&self.origin, self.path()) {
            (Some(origin), _) => (&origin.path, origin.text.original_line(line)),
            (None, path) => (path.unwrap_or(Path::new(&*self.name)), line),
        }
    }
}

/// The number at the start of a text, and what follows it.
fn number(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = text.split_at(digits);
    Some((digits.parse().ok()?, after))
}

/// `:LINE:COLUMN` at the start of a text.
fn place(text: &str) -> Option<(u32, u32)> {
    let (line, text) = number(text.strip_prefix(':')?)?;
    let (column, _) = number(text.strip_prefix(':')?)?;
    Some((line, column))
}

/// The first place in a line, `FILE:LINE:COLUMN` or `loc("FILE":LINE:COLUMN)`: where it stands, the
/// file, and the line.
fn location(text: &str) -> Option<(Range<usize>, &str, u32)> {
    text.match_indices(':').find_map(|(colon, _)| {
        let (line, _) = place(&text[colon..])?;
        let numbers = text[colon..]
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b':')
            .count();
        let end = colon + numbers - usize::from(text[..colon + numbers].ends_with(':'));
        let before = &text[..colon];
        if let Some(quoted) = before.strip_suffix('"') {
            let start = quoted.rfind('"')? + 1;
            let name = &quoted[start..];
            let is_loc = text[..start - 1].ends_with("loc(") && text[end..].starts_with(')');
            let range = match is_loc {
                true => start - 5..end + 1,
                false => start - 1..end,
            };
            return Some((range, name, line));
        }
        let start = before.rfind(|c: char| !is_in_path(c)).map_or(0, |at| {
            at + before[at..].chars().next().map_or(1, char::len_utf8)
        });
        (start < colon).then(|| (start..end, &before[start..], line))
    })
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

    fn places<'a>(inputs: &'a [Input], directory: &'a Path) -> Places<'a> {
        Places {
            inputs,
            directory,
            unnamed: &["kernel.mlir", "prj/placed.kernel.mlir"],
            programs: &[],
        }
    }

    fn told(text: &str) -> String {
        let origin = Origin {
            path: "my dir/add.mlir".into(),
            text: Arc::new(Canonical::of(TEXT)),
        };
        let inputs = [
            Input::new("call.inc", *b"int x;"),
            Input::new("kernel.mlir", *b"").from_user(origin),
        ];
        places(&inputs, Path::new("/none/work")).retell(text)
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
        let told = places(&inputs, Path::new("/none/work")).retell("kernel.mlir:3:5: error: no");
        assert_eq!(told, "/cache/kernel.air.mlir:3:5: error: no");
    }

    /// What the real aircc printed for a herd larger than the array, and the line that it meant.
    #[test]
    fn a_file_without_a_name_is_the_one_with_the_operation() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("kernel.mlir", "module {\n  air.herd @h\n}\n");
        let origin = Origin {
            path: "add.mlir".into(),
            text: Arc::new(Canonical::of("// One.\nmodule {\n  air.herd @h\n}\n")),
        };
        let inputs = [Input::new("kernel.mlir", *b"").from_user(origin)];
        let places = places(&inputs, directory.path());
        // There is only one file yet.
        assert_eq!(
            places.retell("loc(\"-\":2:3): error: 'memref.load' op inside 'air.herd'\n"),
            "loc(\"add.mlir\":3:3): error: 'memref.load' op inside 'air.herd'\n"
        );
        write(
            "prj/placed.kernel.mlir",
            "module {\n  %0 = air.channel.get @c\n}\n",
        );
        for (said, expected) in [
            (
                "loc(\"-\":2:8): error: 'air.channel.get' op found multiple inputs\nError: x\n",
                "in an intermediate file: error: 'air.channel.get' op found multiple inputs\n  \
                 %0 = air.channel.get @c\nError: x\n",
            ),
            (
                "loc(\"-\":2:3): error: 'air.herd' op \n",
                "loc(\"add.mlir\":3:3): error: 'air.herd' op \n",
            ),
            // Which of them is meant, nobody knows.
            (
                "loc(\"-\":2:1): error: No valid placement found.\n",
                "loc(\"-\":2:1): error: No valid placement found.\n",
            ),
        ] {
            assert_eq!(places.retell(said), expected);
        }
    }

    #[test]
    fn what_is_gone_with_the_work_directory_is_not_named() {
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path().display();
        fs::write(directory.path().join("kernel.ll"), "define\n  ret i32 %x\n").unwrap();
        let inputs = [Input::new("kernel.mlir", *b"")];
        let places = places(&inputs, directory.path());
        for (said, expected) in [
            (
                format!("error\n{work}/kernel.ll:2:7: error: use of undefined value\nend"),
                "error\nin an intermediate file: error: use of undefined value\n  ret i32 %x\nend",
            ),
            // LLVM prints the line itself.
            (
                "kernel.ll:2:7: error: no\n  ret i32 %x\n      ^\n".to_owned(),
                "in an intermediate file: error: no\n  ret i32 %x\n      ^\n",
            ),
            (
                "Intermediate MLIR saved to: prj/aiecc_failure_1.mlir\nRepeater script generated: \
                 prj/r.sh\nError: x\n"
                    .to_owned(),
                "Error: x\n",
            ),
            // None of ours, or no such line.
            ("a.h:2:7: error: no".to_owned(), "a.h:2:7: error: no"),
            ("kernel.ll:9:7: error".to_owned(), "kernel.ll:9:7: error"),
            ("../x:1:1: a".to_owned(), "../x:1:1: a"),
        ] {
            assert_eq!(places.retell(&said), expected);
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "(kernel\\.mlir|\"|:|[0-9]{1,12}|\\PC|\n){0,40}") {
            let told = told(&text);
            prop_assert_eq!(told.lines().count(), text.lines().count());
        }
    }
}
