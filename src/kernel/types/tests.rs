//! Types as MLIR prints them.

use proptest::prelude::*;

use super::*;

fn ranked(shape: &[Option<u64>], element: &str, layout: Layout, space: Option<&str>) -> Type {
    Type::Ranked {
        shape: shape.to_vec(),
        element: Element::parse(element).unwrap(),
        layout,
        memory_space: space.map(str::to_owned),
    }
}

#[test]
fn memrefs_give_shape_element_layout_and_space() {
    let identity = || Layout::Identity;
    assert_eq!(
        parse("memref<*xbf16>").unwrap(),
        Type::Unranked {
            element: Element::parse("bf16").unwrap()
        }
    );
    assert_eq!(
        parse("memref<f32>").unwrap(),
        ranked(&[], "f32", identity(), None)
    );
    assert_eq!(
        parse("memref<4x?x0xsi8>").unwrap(),
        ranked(&[Some(4), None, Some(0)], "si8", identity(), None)
    );
    assert_eq!(
        parse("memref<16xi32, 2 : i32>").unwrap(),
        ranked(&[Some(16)], "i32", identity(), Some("2 : i32"))
    );
    assert_eq!(
        parse("memref<16xi32, #gpu.address_space<workgroup>>").unwrap(),
        ranked(
            &[Some(16)],
            "i32",
            identity(),
            Some("#gpu.address_space<workgroup>")
        )
    );
    assert_eq!(
        parse("memref<8xvector<4x2xf32>>").unwrap(),
        ranked(&[Some(8)], "vector<4x2xf32>", identity(), None)
    );
    assert_eq!(
        parse("memref<8x!aiex.bfp<\"v8bfp16ebs8\">>").unwrap(),
        ranked(&[Some(8)], "!aiex.bfp<\"v8bfp16ebs8\">", identity(), None)
    );
}

#[test]
fn layouts_are_told_apart() {
    let strided = |strides: &[Option<i64>], offset| Layout::Strided {
        strides: strides.to_vec(),
        offset,
    };
    assert_eq!(
        parse("memref<4x8xf32, strided<[?, 1], offset: ?>, 1>").unwrap(),
        ranked(
            &[Some(4), Some(8)],
            "f32",
            strided(&[None, Some(1)], None),
            Some("1")
        )
    );
    assert_eq!(
        parse("memref<4xf32, strided<[2]>>").unwrap(),
        ranked(&[Some(4)], "f32", strided(&[Some(2)], Some(0)), None)
    );
    assert_eq!(
        parse("memref<4x4xf32, affine_map<(d0, d1) -> (d0, d1)>>").unwrap(),
        ranked(&[Some(4), Some(4)], "f32", Layout::Identity, None)
    );
    assert_eq!(
        parse("memref<4x4xf32, affine_map<(d0, d1) -> (d1, d0)>>").unwrap(),
        ranked(
            &[Some(4), Some(4)],
            "f32",
            Layout::Other("affine_map<(d0, d1) -> (d1, d0)>".into()),
            None
        )
    );
    assert_eq!(
        parse("memref<4xf32, #map>").unwrap(),
        ranked(&[Some(4)], "f32", Layout::Other("#map".into()), None)
    );
}

#[test]
fn scalars_keep_their_spelling() {
    for text in ["i1", "ui8", "si64", "index", "f64"] {
        let element = Element::parse(text).unwrap();
        assert_eq!(element.spelling, text);
        assert_eq!(parse(text), Some(Type::Scalar(element)));
    }
    assert_eq!(Element::parse("si8").unwrap().kind, ElementType::I8);
}

#[test]
fn memory_of_a_type_that_rust_lacks_is_bytes_of_its_layout() {
    for (text, size, align) in [
        ("f8E4M3FN", 1, 1),
        ("i128", 16, 16),
        ("complex<f32>", 8, 4),
        ("complex<i64>", 16, 8),
        ("vector<4xf32>", 16, 16),
        ("vector< 2 x 4 x bf16 >", 16, 8),
        ("vector<f64>", 8, 8),
        // mlir-aie's blocks: mantissas of a byte each, and an exponent.
        ("!aiex.bfp<\"v8bfp16ebs8\">", 9, 1),
        ("!aiex.bfp<\"v16bfp16ebs16\">", 17, 1),
    ] {
        let kind = Element::parse(text).unwrap().kind;
        assert_eq!(kind, ElementType::Bytes { size, align }, "{text}");
        assert_eq!(parse(text), None, "by value");
    }
}

#[test]
fn a_type_whose_layout_is_in_doubt_is_none() {
    for text in [
        "i4",
        "i24",
        "i65",
        "i129",
        "f80",
        "f4E2M1FN",
        "f6E3M2FN",
        "tf32",
        "complex<i1>",
        "vector<3xf32>",
        "vector<8xi1>",
        "vector<[4]xf32>",
        "vector<?xf32>",
        "vector<32xf32>",
        "vector<4xcomplex<f32>>",
        "tuple<f32>",
        "!llvm.ptr",
        "memref<4xf32>",
        "",
        "!quant.uniform<i8:f32, 0.5>",
    ] {
        assert_eq!(Element::parse(text), None, "{text}");
        assert_eq!(parse(&format!("memref<8x{text}>")), None, "{text}");
    }
}

#[test]
fn what_is_not_understood_is_no_type() {
    for text in [
        "tensor<4xf32>",
        "vector<4xf32>",
        "!llvm.ptr",
        "i128",
        "memref<4x",
        "memref<4xf32, 1, 2>",
        "memref<>",
        "memref<99999999999999999999xf32>",
        "(i32) -> i32",
        "",
    ] {
        assert_eq!(parse(text), None, "{text}");
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
