//! Every element type, on cpu and with the real tools: given as numbers, computed with, shown,
//! saved and expected.

use npu_runtime::half::{bf16, f16};
use serde_json::{Value, json};

use crate::scene::{Scene, values};

/// `out = x + by` of four elements.
fn adding(element: &str, operation: &str) -> String {
    format!(
        "func.func @adding(%x: memref<4x{element}>, %by: {element}, %out: memref<4x{element}>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {{
    %old = memref.load %x[%i] : memref<4x{element}>
    %new = {operation} %old, %by : {element}
    memref.store %new, %out[%i] : memref<4x{element}>
  }}
  return
}}
"
    )
}

/// Adds `by` to 0, 1, 2 and 3.
#[track_caller]
fn check(element: &str, operation: &str, by: &str, descr: &str, bytes: &[u8], shown: Value) {
    let scene = Scene::with(&adding(element, operation));
    let arguments = format!(
        "run k.mlir --runtime cpu --arg x=iota --arg by={by} --arg out=full:1:4x{element} \
         --save out=out.npy"
    );
    let told = scene.json(&arguments);
    assert_eq!(Value::from(values(&told, "out")), shown, "{element}");
    assert_eq!(scene.saved("out.npy"), bytes, "{element}");
    let header = std::fs::read(scene.path().join("out.npy")).unwrap();
    let header = String::from_utf8_lossy(&header[..128]).into_owned();
    assert!(header.contains(&format!("'descr': '{descr}'")), "{header}");
    // What was saved can be read again.
    let told = scene.json(&format!(
        "{arguments} --expect out=@out.npy --expect x=iota:4x{element}"
    ));
    assert_eq!(told["expected"][0]["equal"], true, "{told}");
}

#[test]
fn integers() {
    check(
        "i8",
        "arith.addi",
        "-2",
        "|i1",
        &[0xfe, 0xff, 0, 1],
        json!([-2, -1, 0, 1]),
    );
    // The same bits without a sign.
    check(
        "i8",
        "arith.addi",
        "0xfe",
        "|i1",
        &[0xfe, 0xff, 0, 1],
        json!([-2, -1, 0, 1]),
    );
    let shorts = [1000_i16, 1001, 1002, 1003].map(i16::to_le_bytes);
    check(
        "i16",
        "arith.addi",
        "1000",
        "<i2",
        shorts.as_flattened(),
        json!([1000, 1001, 1002, 1003]),
    );
    let words = [-65_536_i32, -65_535, -65_534, -65_533].map(i32::to_le_bytes);
    let shown = json!([-65_536, -65_535, -65_534, -65_533]);
    check(
        "i32",
        "arith.addi",
        "0xffff0000",
        "<i4",
        words.as_flattened(),
        shown,
    );
    let longs = [0_i64, 1, 2, 3].map(|n| (n + (1 << 40)).to_le_bytes());
    let shown = json!([
        1_u64 << 40,
        (1_u64 << 40) + 1,
        (1_u64 << 40) + 2,
        (1_u64 << 40) + 3
    ]);
    for element in ["i64", "index"] {
        let by = "0x10000000000";
        check(
            element,
            "arith.addi",
            by,
            "<i8",
            longs.as_flattened(),
            shown.clone(),
        );
    }
}

#[test]
fn bits() {
    check(
        "i1",
        "arith.xori",
        "true",
        "|b1",
        &[1, 0, 1, 0],
        json!([1, 0, 1, 0]),
    );
}

#[test]
fn floats() {
    let shown = json!([1.5, 2.5, 3.5, 4.5]);
    let sums = [1.5_f32, 2.5, 3.5, 4.5];
    let halves = sums.map(|x| f16::from_f32(x).to_le_bytes());
    check(
        "f16",
        "arith.addf",
        "1.5",
        "<f2",
        halves.as_flattened(),
        shown.clone(),
    );
    let brains = sums.map(|x| bf16::from_f32(x).to_le_bytes());
    check(
        "bf16",
        "arith.addf",
        "1.5",
        "<V2",
        brains.as_flattened(),
        shown.clone(),
    );
    let singles = sums.map(f32::to_le_bytes);
    check(
        "f32",
        "arith.addf",
        "15e-1",
        "<f4",
        singles.as_flattened(),
        shown.clone(),
    );
    let doubles = sums.map(|x| f64::from(x).to_le_bytes());
    check(
        "f64",
        "arith.addf",
        "1.5",
        "<f8",
        doubles.as_flattened(),
        shown,
    );
}

#[test]
fn what_is_no_number_is_a_word() {
    let scene = Scene::with(&adding("f32", "arith.addf"));
    for (by, shown) in [("nan", "nan"), ("inf", "inf"), ("-inf", "-inf")] {
        let arguments =
            format!("run k.mlir --runtime cpu --arg x=ones --arg by={by} --arg out=zeros");
        let told = scene.json(&format!("{arguments} --expect out=full:{by}"));
        assert_eq!(values(&told, "out"), [shown; 4]);
        assert_eq!(values(&told, "by"), [shown]);
        let told = scene.run(&arguments).stdout();
        let row = format!("out  memref<4xf32>  [4]  inout  {shown}, {shown}, {shown}, {shown}\n");
        assert!(told.contains(&row), "{told}");
    }
}
