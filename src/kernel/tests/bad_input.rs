//! Bytes that are no kernel.

use super::*;

#[test]
fn that_is_no_text() {
    assert_eq!(
        refusal(b"module {\n\0}"),
        "not MLIR text: a NUL byte at offset 9 (line 2); is it a binary file, or text in UTF-16?"
    );
    assert_eq!(
        refusal(b"// \xC3\x28"),
        "not MLIR text: invalid UTF-8 at offset 3 (line 1)"
    );
    assert!(refusal(b"\0\xFF").contains("NUL"));
    assert!(refusal(b"\xFF\0").contains("UTF-8"));
}

/// The bytes are those of the formats' own documents.
#[test]
fn that_is_a_known_format() {
    let gzip: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03";
    for (bytes, kind, remedy) in [
        (&b"ML\xefR\x0dMLIR22.1.8\0"[..], "MLIR bytecode", "mlir-opt"),
        (b"BC\xc0\xde\x35\x14\0\0", "LLVM bitcode", "lowered from"),
        (b"\x7fELF\x02\x01\x01\0", "an ELF file", "compiled from"),
        (b"xclbin2\0\xff\xff", "an xclbin", "compiled from"),
        (gzip, "compressed by gzip", "unpack"),
        (b"PK\x03\x04\x14\0", "a zip archive", "unpack"),
        (b"\xff\xfem\0o\0d\0", "text in UTF-16", "iconv"),
        (b"\xfe\xff\0m\0o\0d", "text in UTF-16", "iconv"),
        (b"\xff\xfe\0\0m\0\0\0", "text in UTF-32", "iconv"),
        (b"\xef\xbb\xbfmodule {}", "a byte order mark", "without one"),
    ] {
        let refusal = refusal(bytes);
        assert!(refusal.starts_with("not MLIR text, but "), "{refusal}");
        assert!(
            refusal.contains(kind) && refusal.contains(remedy),
            "{refusal}"
        );
    }
}

/// mlir-opt prints the first for every constant above a size, and leaves the content of the second out.
#[test]
fn that_lacks_a_constant() {
    let of = |name: &str, metadata: &str| {
        Module::scan(
            format!(
                "func.func @k(%a: memref<4xf32>) {{\n  // dense_resource<no>\n  \
                 %0 = arith.constant dense_resource<{name}> : tensor<4xf32>\n  return\n}}\n{metadata}"
            )
            .as_bytes(),
        )
        .map(drop)
        .map_err(|error| error.to_string())
    };
    let builtin = |names: &str| {
        format!("{{-#\n  dialect_resources: {{\n    builtin: {{\n{names}\n    }}\n  }}\n#-}}\n")
    };
    assert_eq!(
        of("__elided__", "").unwrap_err(),
        "line 3, column 23: the content of dense_resource<__elided__> is not in the file: print the file \
         without --mlir-elide-elementsattrs-if-larger and --mlir-elide-resource-strings-if-larger"
    );
    let there = "a: \"0x0400\", // the first\n b.c: \"0x0400 d: \",\n \"e \\22f\": \"0x0400\"";
    for name in ["a", "b.c", "\"e \\22f\"", "\"a\""] {
        assert_eq!(of(name, &builtin(there)), Ok(()), "{name}");
        assert!(of(name, "").is_err(), "{name}");
        assert!(of(name, &builtin("")).is_err(), "{name}");
    }
    for name in ["d", "builtin", "first", "e"] {
        assert!(of(name, &builtin(there)).is_err(), "{name}");
    }
    let elsewhere = "{-# dialect_resources: {other: {a: \"0x\"}}, external_resources: {builtin: {a: \"0x\"}} #-}";
    assert!(of("a", elsewhere).is_err());
    assert_eq!(
        of("a", &(elsewhere.to_owned() + &builtin("a: \"0x\""))),
        Ok(())
    );
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
