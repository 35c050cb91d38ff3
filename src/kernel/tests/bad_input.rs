//! Bytes that are no kernel.

use super::*;

#[test]
fn that_is_no_text() {
    assert_eq!(
        refusal(b"module {\n\0}"),
        "not MLIR text: a NUL byte at offset 9 (line 2); is it bytecode or an object file?"
    );
    assert_eq!(
        refusal(b"// \xC3\x28"),
        "not MLIR text: invalid UTF-8 at offset 3 (line 1)"
    );
    assert!(refusal(b"\0\xFF").contains("NUL"));
    assert!(refusal(b"\xFF\0").contains("UTF-8"));
}

#[test]
fn that_is_empty_or_another_language() {
    for text in ["", " \n", "// only a comment\n", "{-# #-}"] {
        assert_eq!(
            Module::scan(text.as_bytes()),
            Err(ScanError::Empty),
            "{text}"
        );
    }
    for (text, found) in [
        ("#include <stdio.h>\n", "#include"),
        ("int main(void) { return 0; }", "int"),
        ("import triton\n", "import"),
        ("\n  # a comment", "#"),
        ("{\"a\": 1}", "{"),
        ("Lorem ipsum.", "Lorem"),
        ("e.g. this", "e.g."),
    ] {
        let error = Module::scan(text.as_bytes()).unwrap_err();
        assert!(
            matches!(&error, ScanError::NotMlir { found: f, .. } if f == found),
            "{error}"
        );
    }
}

#[test]
fn that_is_cut_off() {
    assert_eq!(
        refusal("module {\n  func.func @f() {\n    return\n  }\n"),
        "truncated MLIR: the '{' at line 1, column 8 is never closed"
    );
    assert_eq!(
        refusal("module {\n  func.func @f(%a: i32"),
        "truncated MLIR: the '(' at line 2, column 15 is never closed"
    );
    assert_eq!(
        refusal("module attributes {a = \"b\n"),
        "truncated MLIR: the string at line 1, column 24 is not closed on its line"
    );
    assert_eq!(
        refusal("module {} {-# x: \"#-}\""),
        "truncated MLIR: the '{-#' at line 1, column 11 is never closed"
    );
}

#[test]
fn that_does_not_pair() {
    assert_eq!(
        refusal("module {\n (\n}"),
        "unbalanced MLIR: the '(' at line 2, column 2 is closed by the '}' at line 3, column 1"
    );
    assert_eq!(
        refusal("module {} }"),
        "unbalanced MLIR: the '}' at line 1, column 11 closes nothing"
    );
}

#[test]
fn that_is_nested_deeply_takes_no_stack() {
    let deep = |open: &str, close: &str| {
        let n = 300_000;
        format!(
            "func.func @f(%a: memref<4xf32>) {{ {}{} return }}",
            open.repeat(n),
            close.repeat(n)
        )
    };
    for (open, close) in [
        ("(", ")"),
        ("scf.if %c {\n", "}\n"),
        ("{", "}"),
        ("a.b ({", "})"),
    ] {
        assert_eq!(only(&deep(open, close)).symbol, "f");
    }
    let modules = format!("{}{}", "module {".repeat(300_000), "}".repeat(300_000));
    assert_eq!(module(&modules).kernels, []);
}
