//! Against the descriptors of MLIR's "LLVM IR Target" document: (allocated, aligned, offset, sizes…,
//! strides…) for ranked memrefs, (rank, pointer to that) for unranked ones.

use super::*;
use crate::kernel::Module;

/// What is passed for `%x` of the given type, and how many slots that takes; the grid's six follow.
fn passed(mlir_type: &str) -> Result<(String, usize), String> {
    let text = format!("func.func @k(%x: {mlir_type}) {{\n  return\n}}\n");
    let module = Module::scan(text.as_bytes()).unwrap();
    let kernel = module.select(None).unwrap()[0];
    let call =
        generate(&kernel.signature, &kernel.types, "k").map_err(|error| error.reason.clone())?;
    let (_, after) = call.split_once("npu_kernel(").unwrap();
    let (_, after) = after.split_once("npu_kernel(").unwrap();
    let (arguments, _) = after.rsplit_once(");").unwrap();
    let (_, slots) = call.split_once("#define NPU_SLOTS ").unwrap();
    let slots = slots.split_whitespace().next().unwrap().parse().unwrap();
    Ok((arguments.to_owned(), slots))
}

#[test]
fn a_ranked_memref_is_a_descriptor_taken_apart() {
    const P: &str = "(void *)slots[0], (void *)slots[0]";
    const N: &str = "(npu_i64)slots";
    for (mlir_type, expected, slots) in [
        ("memref<f32>", format!("{P}, 0"), 1),
        ("memref<4xf32>", format!("{P}, 0, 4ll, 1"), 1),
        ("memref<?xf32>", format!("{P}, 0, {N}[1], 1"), 2),
        (
            "memref<2x3x5xf32>",
            format!("{P}, 0, 2ll, 3ll, 5ll, 3ll * 5ll, 5ll, 1"),
            1,
        ),
        (
            "memref<?x3x?xi8>",
            format!("{P}, 0, {N}[1], 3ll, {N}[2], 3ll * {N}[2], {N}[2], 1"),
            3,
        ),
        (
            "memref<4x4xf32, strided<[4, 1]>>",
            format!("{P}, 0, 4ll, 4ll, 4ll, 1"),
            1,
        ),
        (
            "memref<4x4xf32, strided<[4, 1], offset: ?>>",
            format!("{P}, 0, 4ll, 4ll, 4ll, 1"),
            1,
        ),
        (
            "memref<4x?xf32, strided<[?, 1]>>",
            format!("{P}, 0, 4ll, {N}[1], {N}[1], 1"),
            2,
        ),
        // A stride along one element is never taken.
        (
            "memref<1x4xf32, strided<[99, 1]>>",
            format!("{P}, 0, 1ll, 4ll, 4ll, 1"),
            1,
        ),
        (
            "memref<4xi16, strided<[1], offset: 6>>",
            "(char *)slots[0] - 6ll * 2, (char *)slots[0] - 6ll * 2, 6, 4ll, 1".to_owned(),
            1,
        ),
        (
            "memref<2x100000x100000xi8>",
            format!("{P}, 0, 2ll, 100000ll, 100000ll, 100000ll * 100000ll, 100000ll, 1"),
            1,
        ),
    ] {
        assert_eq!(passed(mlir_type), Ok((expected, slots)), "{mlir_type}");
    }
}

#[test]
fn an_unranked_memref_is_a_rank_and_the_address_of_a_descriptor() {
    assert_eq!(
        passed("memref<*xf32>"),
        Ok(("1, &descriptor2".to_owned(), 2))
    );
}

#[test]
fn scalars_are_taken_from_the_low_bytes_of_their_slot() {
    for (mlir_type, c_type) in [
        ("i1", "_Bool"),
        ("i8", "npu_i8"),
        ("ui16", "npu_i16"),
        ("i32", "npu_i32"),
        ("index", "npu_i64"),
        ("f16", "_Float16"),
        ("bf16", "__bf16"),
        ("f64", "double"),
    ] {
        let call = crate::kernel::types::parse(mlir_type).unwrap();
        let mut built = Call::default();
        built.add(&call).unwrap();
        assert_eq!(built.prototype, [c_type]);
        assert!(
            built
                .locals
                .contains("memcpy(&scalar1, &slots[0], sizeof scalar1)")
        );
    }
}

#[test]
fn layouts_that_a_slice_does_not_have_are_refused() {
    for (mlir_type, reason) in [
        (
            "memref<4xf32, strided<[2]>>",
            "a stride of 2 where 1 would be",
        ),
        (
            "memref<4x4xf32, strided<[8, 1]>>",
            "a stride of 8 where 4 would be",
        ),
        (
            "memref<4x4xf32, strided<[1, 4]>>",
            "a stride of 4 where 1 would be",
        ),
        (
            "memref<4xf32, strided<[-1]>>",
            "a stride of -1 where 1 would be",
        ),
        ("memref<4x4xf32, strided<[4]>>", "another number of strides"),
        (
            "memref<4xf32, affine_map<(d0) -> (d0 + 1)>>",
            "identity and strided",
        ),
        ("memref<9223372036854775808xi8>", "too large"),
    ] {
        let refused = passed(mlir_type).unwrap_err();
        assert!(refused.contains(reason), "{mlir_type}: {refused}");
    }
}

#[test]
fn a_symbol_is_any_text() {
    assert_eq!(c_string("vecadd"), "vecadd");
    assert_eq!(c_string("a\"b\\c??/"), "a\\\"b\\\\c\\?\\?/");
    assert_eq!(c_string("\u{e9}1\n"), "\\303\\2511\\012");
}
