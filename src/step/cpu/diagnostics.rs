//! What the tools' words mean for the kernel that they were given.

/// What `mlir-opt` can't lower, where its own words are about something else.
pub fn of_mlir_opt(printed: &str) -> Option<String> {
    // It makes a conversion between a small float and f64 one between two equal types.
    printed
        .contains("'i64' and result type 'i64' are cast incompatible")
        .then(|| {
            "floats of 8 bits or fewer can't be converted from or to f64: convert by way of f32"
                .into()
        })
}

/// What is left of other dialects after the passes is refused by mlir-translate, at a line of a file
/// that the user has never seen: names the operation instead.
pub fn of_translation(printed: &str) -> Option<String> {
    // As mlir-translate words it: an operation without a translation, of a dialect without one, in
    // the dialect's own form, and in the generic one.
    const BEFORE: [&str; 4] = [
        "LLVM Translation failed for operation: ",
        "registration for dialect for op: ",
        " not found for custom op '",
        "error: unregistered operation '",
    ];
    let after = BEFORE
        .iter()
        .find_map(|before| printed.split_once(before))?
        .1;
    let name = after.split(|c: char| !(c.is_ascii_alphanumeric() || "._$-".contains(c)));
    let name = name.into_iter().next().filter(|name| !name.is_empty())?;
    Some(format!(
        "no pass of the cpu target lowers '{name}': {}",
        instead(name)
    ))
}

/// What to write instead of an operation.
fn instead(name: &str) -> &'static str {
    match name {
        "linalg.softmax" | "linalg.pack" | "linalg.unpack" => {
            "MLIR has loops for it over tensors only, made by bufferization.to_tensor"
        }
        "vector.load" | "vector.store" => {
            "vectors of several dimensions are read and written by vector.transfer_read and \
             vector.transfer_write"
        }
        "bufferization.to_buffer" | "bufferization.to_tensor" | "func.func" | "func.call" => {
            "tensors are neither arguments nor results of functions that are not inlined"
        }
        _ => {
            "write the kernel with operations of linalg, tensor, memref, arith, math, complex, scf, \
             affine and vector"
        }
    }
}

/// A function that nothing defines, in the linker's words.
pub fn of_linking(printed: &str) -> Option<String> {
    let name = ["undefined reference to `", "undefined symbol: "]
        .iter()
        .find_map(|before| printed.split_once(before))?
        .1;
    let name = name.split(['\'', '\n']).next()?;
    Some(if name.starts_with("_mlir_apfloat_") {
        "the cpu target only converts f8E4M3B11FNUZ: compute in f32, between arith.extf and arith.truncf"
            .into()
    } else {
        format!("the kernel calls @{name}, which neither the file nor the C library defines")
    })
}
