//! Arrays from and for NumPy.

use crate::kernels::copying;
use crate::scene::{Scene, numpy};

/// Whatever the file's order and byte order, the kernel gets rows.
#[test]
fn files_of_numpy_are_given_to_kernels() {
    let scene = Scene::with(&copying("memref<2x3x4xi32>"));
    let cube = (0..24_i32).map(|n| 100 * (n / 12) + 10 * (n / 4 % 3) + n % 4);
    let cube: Vec<u8> = cube.flat_map(i32::to_le_bytes).collect();
    for name in [
        "cube",
        "cube_fortran",
        "cube_big",
        "cube_fortran_big",
        "cube_version_2",
    ] {
        let file = numpy(&format!("{name}.npy"));
        let told = scene.run(&format!(
            "run k.mlir --target cpu --arg x=@{} --arg out=zeros --expect out=@{} --save out=o.npy",
            file.display(),
            numpy("cube.npy").display()
        ));
        assert_eq!(told.code(), 0, "{told:?}");
        assert_eq!(scene.saved("o.npy"), cube, "{name}");
    }
}

#[test]
fn every_type_of_numpy_goes_through_a_kernel() {
    for (name, of) in [
        ("bool", "memref<?xi1>"),
        ("int8", "memref<?xi8>"),
        ("uint8", "memref<?xi8>"),
        ("uint16", "memref<?xi16>"),
        ("int32", "memref<?xi32>"),
        ("uint64", "memref<?xi64>"),
        ("int64", "memref<?xindex>"),
        ("float16", "memref<?xf16>"),
        ("bfloat16", "memref<?xbf16>"),
        ("float32", "memref<?xf32>"),
        ("float64", "memref<?xf64>"),
    ] {
        let scene = Scene::with(&copying(of));
        let file = numpy(&format!("{name}.npy"));
        let bytes = std::fs::read(&file).unwrap();
        let elements = if name == "bool" {
            3
        } else if name.contains("float") {
            8
        } else {
            5
        };
        let told = scene.run(&format!(
            "run k.mlir --target cpu --arg x=@{0} --arg out=zeros:{elements} --expect out=@{0} \
             --save out=o.npy",
            file.display(),
        ));
        assert_eq!(told.code(), 0, "{name}: {told:?}");
        assert_eq!(scene.saved("o.npy"), bytes[128..], "{name}");
    }
}

#[test]
fn arrays_of_one_element_and_of_none() {
    let scene = Scene::with(&copying("memref<f32>"));
    let file = numpy("zero_dimensional.npy");
    let told = scene.json(&format!(
        "run k.mlir --target cpu --arg x=@{} --arg out=zeros --expect out=full:2.5",
        file.display()
    ));
    assert_eq!(told["arguments"][1]["shape"], serde_json::json!([]));
    let scene = Scene::with(&copying("memref<?x4xf32>"));
    let told = scene.json(&format!(
        "run k.mlir --target cpu --arg x=@{} --arg out=zeros:0x4xf32",
        numpy("empty.npy").display()
    ));
    assert_eq!(told["arguments"][1]["values"], serde_json::json!([]));
}

/// Two dynamic dimensions do not follow from a length.
#[test]
fn matrices_of_any_size_have_the_shape_that_they_are_given() {
    let scene = Scene::with(
        "func.func @transposed(%x: memref<?x?xi32>, %out: memref<?x?xi32>) {
  linalg.transpose ins(%x : memref<?x?xi32>) outs(%out : memref<?x?xi32>) permutation = [1, 0]
  return
}
",
    );
    let told = scene
        .run("run k.mlir --target cpu --arg x=iota:2x3xi32 --arg out=zeros:3x2 --save out=o.npy");
    assert_eq!(told.code(), 0, "{told:?}");
    let expected = [0_i32, 3, 1, 4, 2, 5].map(i32::to_le_bytes);
    assert_eq!(scene.saved("o.npy"), expected.as_flattened());
    let header = std::fs::read(scene.path().join("o.npy")).unwrap();
    assert!(
        String::from_utf8_lossy(&header[..128]).contains("(3, 2"),
        "its shape is lost"
    );
}

#[test]
fn a_file_of_any_name() {
    use std::os::unix::ffi::OsStrExt as _;
    let scene = Scene::with(&copying("memref<?xf32>"));
    let name = std::ffi::OsStr::from_bytes(b"x=\xff y:z.npy");
    std::fs::copy(numpy("float32.npy"), scene.path().join(name)).unwrap();
    let given =
        |prefix: &[u8]| std::ffi::OsStr::from_bytes(&[prefix, name.as_bytes()].concat()).to_owned();
    let mut command = scene.npu_build();
    command.args([
        "run",
        "k.mlir",
        "--target",
        "cpu",
        "--arg",
        "out=zeros:8",
        "--arg",
    ]);
    command
        .arg(given(b"x=@"))
        .arg("--expect")
        .arg(given(b"out=@"));
    command.arg("--save").arg(given(b"out=new "));
    let told = crate::common::Outcome(command.output().unwrap());
    assert_eq!(told.code(), 0, "{told:?}");
    assert!(scene.path().join(given(b"new ")).exists());
}
