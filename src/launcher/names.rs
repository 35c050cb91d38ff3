//! Rust identifiers and file names made of the MLIR's names.
//!
//! MLIR allows any text as a symbol (`@"a b"`) and `$ . -` in a bare one. What comes out of here
//! is snake case ASCII of bounded length that compiles as it stands.

use std::fmt;

use crate::digest::Digest;

/// Longest module name, in bytes.
const MODULE_LENGTH: usize = 60;
/// Longest argument name, in bytes.
const ARGUMENT_LENGTH: usize = 40;
/// Longest stem of an artifact's file name, in bytes (eCryptfs allows 143 for the whole name).
const STEM_LENGTH: usize = 40;

/// The keywords of edition 2024, strict and reserved, that `r#` turns into identifiers.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
    "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// The keywords that can't be raw identifiers.
const PATH_KEYWORDS: &[&str] = &["crate", "self", "super"];

/// Crates that the including file names: a module called so would make its paths ambiguous.
const CRATES: &[&str] = &["alloc", "core", RUNTIME, "std"];

/// What generated code calls the runtime's crate.
pub(super) const RUNTIME: &str = "npu_runtime";

/// A Rust identifier, displayed as it must be written (`r#` where needed).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identifier(String);

impl Identifier {
    /// Takes snake case text that starts with a letter.
    pub(super) fn new(mut plain: String) -> Self {
        if PATH_KEYWORDS.contains(&plain.as_str()) {
            plain.push('_');
        }
        Self(plain)
    }

    /// The identifier without `r#`, as lints and other identifiers see it.
    pub(super) fn plain(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if KEYWORDS.contains(&self.plain()) {
            f.write_str("r#")?;
        }
        f.write_str(self.plain())
    }
}

/// The Rust module of a kernel, as it is written in a path: `main:sequence` → `main_sequence`,
/// `gen` → `r#gen`.
#[must_use]
pub fn module_name(kernel_name: &str) -> String {
    module(kernel_name).to_string()
}

/// The name of an artifact beside its launcher: a stem that a person recognises, and enough of
/// the content's digest to keep artifacts apart. Always a plain ASCII name of at most 60 bytes
/// and the extension (given without the dot).
#[must_use]
pub fn artifact_file_name(kernel_name: &str, digest: &Digest, extension: &str) -> String {
    let mut stem = snake_case(kernel_name);
    stem.truncate(STEM_LENGTH);
    let stem = match stem.trim_end_matches('_') {
        "" => "kernel",
        stem => stem,
    };
    format!("{stem}-{}.{extension}", digest.short())
}

/// Whether `path` leads to a crate or module: `my_npu`, `my_facade::npu`, `crate::npu`. A package's
/// name may keep its hyphens.
pub(super) fn is_runtime_crate(path: &str) -> bool {
    let is_identifier = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || b"_-".contains(&c))
            && !KEYWORDS.contains(&name)
            && !PATH_KEYWORDS.contains(&name)
            && name != "_"
    };
    let path = path.strip_prefix("crate::").unwrap_or(path);
    path.split("::").all(is_identifier)
}

/// What follows `use` so that [`RUNTIME`] means the crate or module at `path`.
pub(super) fn runtime_import(path: &str) -> String {
    let path = path.replace('-', "_");
    let root = if path.starts_with("crate::") {
        ""
    } else {
        "::"
    };
    match path.rsplit("::").next() {
        Some(RUNTIME) => format!("{root}{path}"),
        _ => format!("{root}{path} as {RUNTIME}"),
    }
}

pub(super) fn module(kernel_name: &str) -> Identifier {
    let mut name = bounded(snake_case(kernel_name), MODULE_LENGTH, kernel_name);
    if name.is_empty() {
        name.push_str("kernel");
    } else if name.starts_with(|first: char| first.is_ascii_digit()) {
        name.insert_str(0, "kernel_");
    }
    if CRATES.contains(&name.as_str()) {
        name.push('_');
    }
    Identifier::new(name)
}

/// The snake case name of the argument at `index`, before keywords are looked at.
pub(super) fn argument(name: &str, index: usize) -> String {
    let snake = bounded(snake_case(name), ARGUMENT_LENGTH, name);
    if snake.is_empty() {
        format!("arg{index}")
    } else if snake.starts_with(|first: char| first.is_ascii_digit()) {
        format!("arg{snake}")
    } else {
        snake
    }
}

/// `name` if it is short enough, else its beginning and 16 hexadecimal digits of the digest of
/// `original`.
fn bounded(mut name: String, length: usize, original: &str) -> String {
    const DIGITS: usize = 16;
    if name.len() > length {
        name.truncate(length.saturating_sub(DIGITS + 1));
        name.truncate(name.trim_end_matches('_').len());
        name.push('_');
        name.push_str(&Digest::of(original).short());
    }
    name
}

/// ASCII snake case: words of letters and digits, split where the case says so, joined by single
/// underscores. May be empty, or start with a digit.
fn snake_case(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut snake = String::with_capacity(name.len());
    for (index, &c) in chars.iter().enumerate() {
        if !c.is_ascii_alphanumeric() {
            if !snake.is_empty() && !snake.ends_with('_') {
                snake.push('_');
            }
            continue;
        }
        let before = index.checked_sub(1).and_then(|i| chars.get(i));
        let after = chars.get(index + 1);
        let starts_word = c.is_ascii_uppercase()
            && before.is_some_and(|before| {
                before.is_ascii_lowercase()
                    || before.is_ascii_digit()
                    || before.is_ascii_uppercase() && after.is_some_and(char::is_ascii_lowercase)
            });
        if starts_word {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake.truncate(snake.trim_end_matches('_').len());
    snake
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_become_snake_case() {
        for (mlir, rust) in [
            ("vecadd", "vecadd"),
            ("VecAdd", "vec_add"),
            ("HTTPServer", "http_server"),
            ("add-i32", "add_i32"),
            ("main:sequence", "main_sequence"),
            ("_fwd__kernel_", "fwd_kernel"),
            ("matmul.8x8$v2", "matmul_8x8_v2"),
            ("K", "k"),
            ("3d", "kernel_3d"),
            ("", "kernel"),
            ("日本", "kernel"),
            ("__", "kernel"),
            ("gen", "r#gen"),
            ("type", "r#type"),
            ("Self", "self_"),
            ("super", "super_"),
            ("core", "core_"),
        ] {
            assert_eq!(module_name(mlir), rust, "{mlir}");
        }
    }

    #[test]
    fn an_argument_without_a_usable_name_gets_a_numbered_one() {
        assert_eq!(argument("0", 3), "arg0");
        assert_eq!(argument("é", 3), "arg3");
        assert_eq!(argument("arg1", 3), "arg1");
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let [one, two] = ["a", "b"].map(|end| module_name(&("k".repeat(300) + end)));
        assert_eq!((one.len(), two.len()), (MODULE_LENGTH, MODULE_LENGTH));
        assert_ne!(one, two);
    }

    #[test]
    fn an_artifact_is_named_by_kernel_and_content() {
        let digest = Digest::of("abc");
        assert_eq!(
            artifact_file_name("main:Seq", &digest, "so"),
            "main_seq-ba7816bf8f01cfea.so"
        );
        assert_eq!(
            artifact_file_name("../é", &digest, "so"),
            "kernel-ba7816bf8f01cfea.so"
        );
        assert!(artifact_file_name(&"x".repeat(300), &digest, "so").len() <= 60);
    }

    proptest! {
        #[test]
        fn any_text_becomes_an_identifier(name in any::<String>()) {
            for name in [module(&name).plain().to_owned(), argument(&name, 0)] {
                prop_assert!(name.starts_with(|c: char| c.is_ascii_lowercase()), "{}", name);
                let is_plain = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_');
                prop_assert!(name.chars().all(is_plain));
                prop_assert!(!name.contains("__") && name.len() <= MODULE_LENGTH + 7);
            }
        }
    }
}
