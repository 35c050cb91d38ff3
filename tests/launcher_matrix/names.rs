//! Kernels and arguments with names that Rust, its lints or the generator could stumble over.

use std::borrow::Cow;

use npu_build::launcher::Kernel;
use npu_runtime::{Direction, ElementType};

use super::{kernel, pointer, ranked, scalar};

/// Rust's reference, "Keywords" (strict, reserved and weak ones), in edition 2024.
const KEYWORDS: [&str; 58] = [
    "as",
    "break",
    "const",
    "continue",
    "crate",
    "else",
    "enum",
    "extern",
    "false",
    "fn",
    "for",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "pub",
    "ref",
    "return",
    "self",
    "Self",
    "static",
    "struct",
    "super",
    "trait",
    "true",
    "type",
    "unsafe",
    "use",
    "where",
    "while",
    "async",
    "await",
    "dyn",
    "abstract",
    "become",
    "box",
    "do",
    "final",
    "macro",
    "override",
    "priv",
    "typeof",
    "unsized",
    "virtual",
    "yield",
    "try",
    "gen",
    "macro_rules",
    "raw",
    "safe",
    "union",
    "_",
    "auto",
];

/// Each keyword as a module, as a parameter and as a field.
pub fn keywords() -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for (index, keyword) in KEYWORDS.into_iter().enumerate() {
        // `self` and `Self` come down to the same name, which must be reported, not generated.
        if keyword == "Self" {
            continue;
        }
        let one = vec![pointer(keyword, ElementType::F32, Direction::InOut)];
        kernels.push(kernel(keyword, true, one));
        let mut many = vec![scalar(keyword, ElementType::Bf16)];
        many.extend((0..7).map(|i| pointer(&format!("p{i}"), ElementType::I8, Direction::Out)));
        many.push(ranked(
            &format!("{keyword}_2"),
            ElementType::I8,
            &[None; 2],
            Direction::In,
        ));
        kernels.push(kernel(&format!("many_{index}"), true, many));
    }
    kernels
}

/// Names that are no identifiers, or mean something to what reads the generated text.
pub fn awkward() -> Vec<Kernel> {
    let long = "a_very_long_name_".repeat(18);
    let names = [
        "main:sequence",
        "3d-convolution",
        "add.i32$2",
        "été à la plage",
        "日本",
        "a`b``c",
        "*/ } fn main() {}",
        "line\nbreak\n    indented",
        "{{ tera }} {% raw %}",
        "\"quoted\" \\ back\tslash",
        "[link](x) <b>html</b> http://example.com",
        "\u{202e}bidi",
        "core",
        "std",
        "npu_runtime",
        "Arguments",
        &long,
    ];
    let mut kernels = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let parameters = vec![
            pointer(name, ElementType::Bf16, Direction::In),
            ranked("%weird %", ElementType::F32, &[None, None], Direction::Out),
        ];
        kernels.push(kernel(name, true, parameters));
        let mut many = vec![ranked(
            name,
            ElementType::Bf16,
            &[None, None],
            Direction::Out,
        )];
        many.extend((0..8).map(|i| scalar(&format!("{i}th"), ElementType::I32)));
        kernels.push(kernel(&format!("fields {index}"), true, many));
    }
    // Beyond what fits a line, and a type that says things of its own.
    let mut strange = pointer("x", ElementType::bytes(1, 1), Direction::In);
    let mlir_type = "memref<8x!t<\"```\n/// ` [x] <y>\">, ".to_owned() + &"strided ".repeat(40);
    strange.mlir_type = Cow::Owned(mlir_type);
    kernels.push(kernel(&"k".repeat(300), true, vec![strange]));
    kernels
}
