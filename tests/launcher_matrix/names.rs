//! Kernels and arguments with names that Rust, its lints or the generator could stumble over.

use std::borrow::Cow;

use npu_build::launcher::Kernel;
use npu_runtime::{Direction, ElementType, Parameter};

use super::{DIRECTIONS, kernel, pointer, ranked, scalar};

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

/// Names that clippy's pedantic lints would object to if they were used as they are.
pub fn lint_bait() -> Vec<Kernel> {
    let f32s = |names: &[&str]| -> Vec<Parameter> {
        let pointer =
            |(i, name): (usize, &&str)| pointer(name, ElementType::F32, DIRECTIONS[i % 3]);
        names.iter().enumerate().map(pointer).collect()
    };
    let lists: [&[&str]; 16] = [
        &["A", "B", "C", "M", "N"],
        &["a", "b", "c", "d", "a_arg"],
        &["stride_am", "stride_ak", "stride_an", "grin"],
        &["args", "arg1", "argz", "arg3"],
        &["grid", "self", "launch", "load", "arguments"],
        &[
            "x_ptr", "y_ptr", "z_ptr", "u_ptr", "v_ptr", "w_ptr", "q_ptr",
        ],
        &["in_0", "in_1", "in_2", "in_3", "in_4", "in_5", "in_6"],
        &[
            "in_a", "in_b", "in_type", "in_3", "in_self", "in_fn", "in_grid",
        ],
        &[
            "arguments",
            "arguments_x",
            "y_arguments",
            "d",
            "e",
            "f",
            "g",
        ],
        &[
            "a_k",
            "b_k",
            "kernel_k",
            "arguments_k",
            "e_k",
            "f_k",
            "arg1_k",
            "0_k",
        ],
        &[
            "stride_am",
            "stride_ak",
            "stride_an",
            "stride_ax",
            "d",
            "e",
            "f",
            "g",
            "grid",
        ],
        &["lda", "ldb", "ldc", "ldd"],
        &["__a", "_b_", "c__d"],
        &["device", "kernel", "directory", "name", "key"],
        &["line", "iine", "vine", "uine"],
        &["a_shape", "b", "b_shape", "a"],
    ];
    let mut kernels = Vec::new();
    for (index, names) in lists.into_iter().enumerate() {
        kernels.push(kernel(&format!("bait_{index}"), true, f32s(names)));
        kernels.push(kernel(&format!("bait_{index}_once"), false, f32s(names)));
    }
    let mut shapes = f32s(&["a_shape", "b", "c", "d", "e", "f", "b_shape"]);
    shapes.push(ranked("a", ElementType::F32, &[None, None], Direction::In));
    kernels.push(kernel("shape_names", true, shapes));
    let shaped = |name| ranked(name, ElementType::F16, &[None, None], Direction::Out);
    let in_a = ["in_a", "in_b", "in_c", "in_d"].map(shaped);
    kernels.push(kernel("shaped_prefix", false, in_a.to_vec()));
    let x_ptr = ["x_ptr", "y_ptr", "z_ptr", "w_ptr"].map(shaped);
    kernels.push(kernel("shaped_suffix", false, x_ptr.to_vec()));
    kernels
}
