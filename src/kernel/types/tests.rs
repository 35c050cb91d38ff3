//! Types as MLIR prints them.

use proptest::prelude::*;

use super::*;

fn ranked(shape: &[Option<u64>], element: &str, layout: Layout, space: Option<&str>) -> Type {
    Type::Ranked {
        shape: shape.to_vec(),
        element: Element::parse(element),
        layout,
        memory_space: space.map(str::to_owned),
    }
}

#[test]
fn memrefs_give_shape_element_layout_and_space() {
    let identity = || Layout::Identity;
    assert_eq!(
        parse("memref<*xbf16>"),
        Type::Unranked {
            element: Element::parse("bf16")
        }
    );
    assert_eq!(parse("memref<f32>"), ranked(&[], "f32", identity(), None));
    assert_eq!(
        parse("memref<4x?x0xsi8>"),
        ranked(&[Some(4), None, Some(0)], "si8", identity(), None)
    );
    assert_eq!(
        parse("memref<16xi32, 2 : i32>"),
        ranked(&[Some(16)], "i32", identity(), Some("2 : i32"))
    );
    assert_eq!(
        parse("memref<16xi32, #gpu.address_space<workgroup>>"),
        ranked(
            &[Some(16)],
            "i32",
            identity(),
            Some("#gpu.address_space<workgroup>")
        )
    );
    assert_eq!(
        parse("memref<8xvector<4x2xf32>>"),
        ranked(&[Some(8)], "vector<4x2xf32>", identity(), None)
    );
    assert_eq!(
        parse("memref<8x!quant.uniform<i8:f32, 0.5>>"),
        ranked(&[Some(8)], "!quant.uniform<i8:f32, 0.5>", identity(), None)
    );
}

#[test]
fn layouts_are_told_apart() {
    let strided = |strides: &[Option<i64>], offset| Layout::Strided {
        strides: strides.to_vec(),
        offset,
    };
    assert_eq!(
        parse("memref<4x8xf32, strided<[?, 1], offset: ?>, 1>"),
        ranked(
            &[Some(4), Some(8)],
            "f32",
            strided(&[None, Some(1)], None),
            Some("1")
        )
    );
    assert_eq!(
        parse("memref<4xf32, strided<[2]>>"),
        ranked(&[Some(4)], "f32", strided(&[Some(2)], Some(0)), None)
    );
    assert_eq!(
        parse("memref<4x4xf32, affine_map<(d0, d1) -> (d0, d1)>>"),
        ranked(&[Some(4), Some(4)], "f32", Layout::Identity, None)
    );
    assert_eq!(
        parse("memref<4x4xf32, affine_map<(d0, d1) -> (d1, d0)>>"),
        ranked(
            &[Some(4), Some(4)],
            "f32",
            Layout::Other("affine_map<(d0, d1) -> (d1, d0)>".into()),
            None
        )
    );
    assert_eq!(
        parse("memref<4xf32, #map>"),
        ranked(&[Some(4)], "f32", Layout::Other("#map".into()), None)
    );
}

#[test]
fn scalars_keep_their_spelling() {
    for text in ["i1", "ui8", "si64", "index", "f64", "i128", "f8E4M3FN"] {
        assert_eq!(parse(text), Type::Scalar(Element::parse(text)));
    }
    assert_eq!(Element::parse("si8").kind, ElementType::I8);
    assert_eq!(Element::parse("i4").kind, ElementType::Opaque);
}

#[test]
fn what_is_not_understood_is_kept_as_text() {
    for text in [
        "tensor<4xf32>",
        "vector<4xf32>",
        "!llvm.ptr",
        "memref<4x",
        "memref<4xf32, 1, 2>",
        "memref<>",
        "memref<99999999999999999999xf32>",
        "(i32) -> i32",
        "",
    ] {
        assert_eq!(parse(text), Type::Other(text.to_owned()), "{text}");
    }
}

#[test]
fn only_reordering_maps_are_permutations() {
    assert!(is_permutation("(d0, d1) -> (d1, d0)"));
    assert!(is_permutation("() -> ()"));
    for map in [
        "(d0, d1) -> (d0)",
        "(d0) -> (d0, d0)",
        "(d0) -> (d0 + 1)",
        "(d0)[s0] -> (d0)",
    ] {
        assert!(!is_permutation(map), "{map}");
    }
}

proptest! {
    #[test]
    fn any_text_is_some_type(text in "(memref<)?[0-9x?*<>,\\[\\]\"\\\\ a-z#é]{0,40}>?") {
        let _ = parse(&text);
    }
}
