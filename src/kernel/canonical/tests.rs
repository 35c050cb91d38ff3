//! What is cut, what stays, and where the lines went. That both texts are the same module to
//! `mlir-opt` is shown in `tests/kernel_canonical.rs`.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn gives(text: &str, expected: &str) {
    let canonical = Canonical::of(text);
    assert_eq!(canonical.text, expected);
    assert_eq!(Canonical::of(&canonical.text).text, canonical.text);
}

#[test]
fn comments_and_empty_lines_go() {
    gives(
        "// head\n\nmodule {  // why\n  // inside\n\t \n  func.func @f() { return }\n}\n// end",
        "module {\n  func.func @f() { return }\n}\n",
    );
    gives("module {}//", "module {}");
    gives("module {}  \r\n// c\r\n", "module {}  \r\n");
    gives("// only\n", "");
}

#[test]
fn what_looks_like_a_comment_in_a_string_stays() {
    gives(
        "module attributes {a.b = \"// \\\" // loc(unknown)\"} {} // c\n",
        "module attributes {a.b = \"// \\\" // loc(unknown)\"} {}\n",
    );
}

#[test]
fn locations_go_in_every_position() {
    gives(
        "#loc = loc(\"/home/me/k.py\":3:0)\n\
         module {\n\
         \x20 func.func @f(%a: i32 {x.y = 1 : i32} loc(\"k.py\":3:0), %b: i32 loc(#loc)) {\n\
         \x20   %0 = arith.addi %a, %b : i32 loc(callsite(\"f\"(\"k.py\":1:2) at fused[#loc, unknown]))\n\
         \x20   cf.br ^bb1(%0 : i32) loc(#loc)\n\
         \x20 ^bb1(%1: i32 loc(unknown)):  // pred\n\
         \x20   return loc(#loc)\n\
         \x20 } loc(#loc)\n\
         } loc(#loc)\n\
         #loc1 = loc(\"k.py\":4:1)\n",
        "module {\n\
         \x20 func.func @f(%a: i32 {x.y = 1 : i32}, %b: i32) {\n\
         \x20   %0 = arith.addi %a, %b : i32\n\
         \x20   cf.br ^bb1(%0 : i32)\n\
         \x20 ^bb1(%1: i32):\n\
         \x20   return\n\
         \x20 }\n\
         }\n",
    );
}

#[test]
fn a_location_over_several_lines_goes_whole() {
    gives(
        "module {\n} loc(fused[\n  \"a\", // x\n  \"b\"\n])\nmodule {}\n",
        "module {\n}\nmodule {}\n",
    );
    gives("module {}\nloc(unknown)\n", "module {}\n");
}

#[test]
fn names_that_contain_loc_stay() {
    let text = "func.func @loc(%loc: i32) {\n  %m = memref.alloc(%loc) : memref<?xi32>\n  \
                call @loc(%loc) : (i32) -> ()\n  cf.br ^loc(%loc : i32)\n}\n";
    gives(text, text);
}

#[test]
fn locations_that_may_mean_something_stay_all_of_them() {
    for text in [
        "module attributes {a.b = loc(\"x\")} {} loc(\"y\")\n",
        "module attributes {a.b = [loc(\"x\"), loc(\"z\")]} {} loc(\"y\")\n",
        "#loc = loc(\"x\")\nmodule attributes {a.b = #loc} {} loc(\"y\")\n",
        "module {} loc(fused<\"meta\">[\"a\", \"b\"])\n",
        "#di_file = #llvm.di_file<\"k.py\" in \"\">\nmodule {} loc(\"y\")\n",
        "module {} loc(fused<#llvm.di_file<\"k.py\" in \"\">>[\"a\"])\n",
        "module attributes {a.b = #x.y<loc(1)>} {} loc(\"y\")\n",
        "#loc = loc(\"x\") module {} loc(\"y\")\n",
    ] {
        gives(text, text);
        gives(&format!("// c\n{text}"), text);
    }
}

#[test]
fn a_comment_in_a_dialects_own_syntax_leaves_the_text_alone() {
    let text = "// c\nmodule attributes {a.b = #x.y<http://z\n>} {}\n";
    gives(text, text);
}

#[test]
fn what_is_no_mlir_is_left_alone() {
    for text in ["// c\nmodule {", "// c\n\"open", "// c\n)", "é // c\n("] {
        gives(text, text);
    }
}

#[test]
fn lines_lead_back_to_the_original() {
    let text = "// 1\n\nmodule { // 3\n// 4\n  module {} // 5\n\n\n}\n// 9\n";
    let canonical = Canonical::of(text);
    assert_eq!(canonical.text, "module {\n  module {}\n}\n");
    let lines: Vec<u32> = (1..=3).map(|l| canonical.original_line(l)).collect();
    assert_eq!(lines, [3, 5, 8]);
    assert_eq!(canonical.original_line(u32::MAX), u32::MAX);
}

fn soup() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "loc(",
        "loc",
        ")",
        "(",
        "#loc",
        "#loc1 = loc(\"x\")",
        "\n",
        " ",
        "// c",
        "\"s\"",
        "\"",
        "{",
        "}",
        "[",
        "]",
        "<",
        ">",
        "->",
        "fused",
        "unknown",
        "%a",
        "@f",
        "module",
        "=",
        ",",
        ":",
        "#x.y<",
        "\r",
        "é",
        "f.g",
        "1",
        "\\",
        "^bb0",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn stripping_twice_is_stripping_once(text in soup()) {
        let once = Canonical::of(&text);
        prop_assert_eq!(&Canonical::of(&once.text).text, &once.text);
    }

    #[test]
    fn the_same_tokens_remain_but_for_locations(text in soup()) {
        let once = Canonical::of(&text);
        if let (Ok(before), Ok(after)) = (lex(&text), lex(&once.text)) {
            let list = |t: &Tokens<'_>| (0..t.len()).map(|i| t.text(i).to_owned()).collect::<Vec<_>>();
            let (before, after) = (list(&before), list(&after));
            let mut rest = before.iter();
            prop_assert!(after.iter().all(|token| rest.any(|other| other == token)));
            if !text.contains("loc") {
                prop_assert_eq!(before, after);
            }
        }
    }

    #[test]
    fn kept_lines_are_the_lines_they_came_from(text in "([a-z]{0,3}( //[a-z ]{0,3})?\n){0,20}") {
        let canonical = Canonical::of(&text);
        let original: Vec<&str> = text.lines().collect();
        for (line, kept) in (1u32..).zip(canonical.text.lines()) {
            let index = usize::try_from(canonical.original_line(line)).unwrap() - 1;
            prop_assert!(original[index].starts_with(kept));
        }
    }
}
