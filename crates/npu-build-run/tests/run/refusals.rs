//! Bad input ends in a clear error before anything is built, and changes nothing.

use std::fs;
use std::path::PathBuf;

use crate::common::Outcome;
use crate::kernels::{COUNT, copying};
use crate::scene::{Scene, numpy};

/// Everything in the scene, with its content.
fn content(scene: &Scene) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let entries = walkdir::WalkDir::new(scene.path()).sort_by_file_name();
    let entries = entries.into_iter().map(|entry| entry.unwrap().into_path());
    // The sparse file is for no test to read.
    let read = |path: &PathBuf| match fs::metadata(path).unwrap().len() < 1 << 20 {
        true => fs::read(path).ok(),
        false => None,
    };
    entries.map(|path| (path.clone(), read(&path))).collect()
}

/// Asserts that `arguments` end with exit code 2 and all of `words`, for people and for machines,
/// and that no cache is made for them.
#[track_caller]
fn refuses(scene: &Scene, arguments: &str, words: &[&str]) {
    let before = content(scene);
    let cache = scene.path().join("no-such-cache");
    for json in [false, true] {
        let mut command = scene.npu_build();
        command.env("NPU_BUILD_CACHE_DIR", &cache);
        command
            .args(["run", "k.mlir", "--target", "cpu"])
            .args(arguments.split_whitespace());
        if json {
            command.args(["--message-format", "json"]);
        }
        let told = Outcome(command.output().unwrap());
        match json {
            false => told.fails(2, words),
            true => {
                let error: serde_json::Value = serde_json::from_str(&told.stdout()).unwrap();
                assert_eq!((told.code(), &error["code"]), (2, &2.into()), "{told:?}");
            }
        }
    }
    assert_eq!(content(scene), before, "{arguments}");
}

fn npy(name: &str) -> String {
    format!("@{}", numpy(name).display())
}

#[test]
fn arguments_that_are_missing_unknown_or_given_twice() {
    let scene = Scene::with(COUNT);
    refuses(
        &scene,
        "",
        &[
            "k.mlir: 'count' needs a value for x (memref<?xi32>, inout), by (i32); for example",
            "--arg x=zeros:16xi32 --arg by=1000",
        ],
    );
    refuses(&scene, "--arg x=inout --arg by=1", &["needs a value for x"]);
    let both = "--arg x=zeros:4 --arg by=1";
    refuses(
        &scene,
        &format!("{both} --arg bye=1"),
        &["no argument 'bye'", "did you mean 'by'?"],
    );
    refuses(
        &scene,
        &format!("{both} --arg bye=in"),
        &["no argument 'bye'"],
    );
    refuses(
        &scene,
        &format!("{both} --arg by=2"),
        &["--arg by=…", "second value"],
    );
    refuses(
        &scene,
        &format!("{both} --arg %x=ones:4"),
        &["second value"],
    );
    refuses(
        &scene,
        &format!("{both} --arg by=out"),
        &["'by' of 'count' is a scalar"],
    );
    refuses(&scene, &format!("{both} --arg x"), &["NAME=VALUE"]);
    refuses(
        &scene,
        &format!("{both} --grid 4"),
        &["six trailing i32", "--grid has no meaning"],
    );
    refuses(&scene, &format!("{both} --entry other"), &["other"]);
    refuses(&scene, &format!("{both} --launches 0"), &["--launches"]);
    refuses(&scene, &format!("{both} --target npu2"), &["one --target"]);
    refuses(
        &scene,
        &format!("{both} --runtime cpu,hsa"),
        &["one --runtime"],
    );
}

#[test]
fn a_grid_that_is_missing() {
    let scene = Scene::with(crate::kernels::TWICE_IN_PROGRAMS);
    let both = "--arg x=ones:256 --arg out=zeros:256";
    refuses(
        &scene,
        both,
        &["'programs' needs a value for the grid; for example\n  --grid 8"],
    );
    refuses(&scene, &format!("{both} --grid 0"), &["is no grid"]);
}

#[test]
fn numbers_that_the_type_does_not_have() {
    let scene = Scene::with(COUNT);
    for (by, words) in [
        (
            "4294967296",
            "does not fit i32, which goes from -2147483648 to 2147483647",
        ),
        (
            "3000000000",
            "to 2147483647 (as bits it is 0xb2d05e00, the same as -1294967296)",
        ),
        ("0x100000000", "does not fit i32"),
        ("1e400", "'1e400' is beyond f64"),
        ("1.5", "is no integer"),
        ("nan", "is no integer"),
        ("zeros", "it is a scalar (i32): give a number"),
        ("@x.npy", "it is a scalar (i32): give a number"),
        (
            "one",
            "'one' can't be understood: write @FILE.npy, a number, zeros",
        ),
        ("12abc", "'12abc' is no number"),
        ("", "is no number"),
    ] {
        refuses(
            &scene,
            &format!("--arg x=zeros:4 --arg by={by}"),
            &["by", words],
        );
    }
}

#[test]
fn memory_that_does_not_fit_its_type() {
    let scene = Scene::with(&copying("memref<2x?xf32>"));
    for (x, words) in [
        (
            "1",
            "it is memory (memref<2x?xf32>): give @FILE.npy, or full:1 for memory full of it",
        ),
        (
            "zeros",
            "does not tell its size: say how large it is, as in zeros:2x16",
        ),
        ("random", "as in random:2x16"),
        (
            "zeros:4",
            "the shape [4] does not fit its type memref<2x?xf32>",
        ),
        ("zeros:3x4", "the shape [3, 4] does not fit"),
        ("zeros:2x4x1", "the shape [2, 4, 1] does not fit"),
        ("zeros:2x4xf64", "elements of type f64 do not fit"),
        ("zeros:2x4xf23", "did you mean 'f32'?"),
        ("zeros:", "is no shape and type"),
        ("zeros:2x4:3", "can't be understood"),
        ("full", "can't be understood"),
        ("full:x:2x4", "'x' is no number"),
        ("full:1e39:2x4", "does not fit f32"),
        ("full:-1e400:2x4", "'-1e400' is beyond f64"),
        ("random#+1:2x4", "can't be understood"),
        (
            "zeros:2x4611686018427387904",
            "more than any memory can hold",
        ),
        ("zeros:2x9999999999999999999999", "is no shape"),
        (
            "zeros:2x100000000000000",
            "its arguments need 800.0 TB, and this machine has",
        ),
    ] {
        refuses(
            &scene,
            &format!("--arg out=zeros:2x4 --arg x={x}"),
            &[words],
        );
    }
    let scene = Scene::with(&copying("memref<70000xf16>"));
    refuses(
        &scene,
        "--arg x=iota --arg out=zeros",
        &["--arg x: 69999 does not fit f16"],
    );
}

#[test]
fn files_that_are_not_what_is_needed() {
    let scene = Scene::with(&copying("memref<2x3x4xi32>"));
    fs::create_dir(scene.path().join("directory")).unwrap();
    let whole = fs::read(numpy("cube.npy")).unwrap();
    scene.file("cut.npy", &whole[..200]);
    scene.file("header.npy", &whole[..50]);
    scene.file("longer.npy", [&whole[..], b"more"].concat());
    scene.file("text.npy", "1, 2, 3");
    // A header that promises 100 GB and nothing behind it, and one with a file as large as that.
    let huge = String::from_utf8_lossy(&whole[..128]).into_owned();
    let huge = huge.replace("(2, 3, 4), }           ", "(25000000000, 1, 1), } ");
    let huge = whole[..10]
        .iter()
        .chain(&huge.as_bytes()[huge.len() - 118..])
        .copied();
    let huge: Vec<u8> = huge.collect();
    assert_eq!(huge.len(), 128);
    scene.file("promise.npy", &huge);
    let sparse = scene.file("sparse.npy", &huge);
    let sparse = fs::File::options().write(true).open(sparse).unwrap();
    sparse.set_len(100_000_000_128).unwrap();
    for (file, words) in [
        (
            npy("float32.npy"),
            "its elements are float32, and i32 is int32 or uint32",
        ),
        (npy("int64.npy"), "convert it with astype(np.int32)"),
        (
            npy("int32.npy"),
            "the shape [5] does not fit its type memref<2x3x4xi32>",
        ),
        (npy("archive.npz"), "np.savez"),
        (npy("records.npy"), "records"),
        (npy("objects.npy"), "Python objects"),
        ("@none.npy".into(), "none.npy: can't be read: No such file"),
        ("@directory".into(), "directory: this is no regular file"),
        ("@/dev/zero".into(), "this is no regular file"),
        ("@text.npy".into(), "text.npy: this is no .npy file"),
        (
            "@cut.npy".into(),
            "it is cut off: its header promises 96 bytes of elements, and there are 72",
        ),
        ("@header.npy".into(), "the file ends in it"),
        (
            "@longer.npy".into(),
            "promises 96 bytes of elements, and there are 100",
        ),
        (
            "@promise.npy".into(),
            "promises 100000000000 bytes of elements, and there are 0",
        ),
        (
            "@sparse.npy".into(),
            "the shape [25000000000, 1, 1] does not fit",
        ),
        ("@".into(), "can't be read"),
    ] {
        refuses(
            &scene,
            &format!("--arg out=zeros --arg x={file}"),
            &["--arg x: ", words],
        );
        let expected = format!("--arg x=zeros --arg out=zeros --expect out={file}");
        refuses(&scene, &expected, &["--expect out: ", words]);
    }
}

/// It fits a pointer, which may be of any size; this machine's memory is what it does not fit.
#[test]
fn a_sparse_file_of_more_than_the_memory() {
    let scene = Scene::with(&copying("memref<?xf32>"));
    let mut header = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (25000000000000,), }";
    header.extend(format!("{text:117}\n").into_bytes());
    let path = scene.file("sparse.npy", &header);
    // Not every file system has files of that size; those that do keep nothing of it.
    let file = fs::File::options().write(true).open(path).unwrap();
    let words = match file.set_len(100_000_000_000_128) {
        Ok(()) => "its arguments need 100.0 TB, and this machine has",
        Err(_) => "it is cut off",
    };
    refuses(&scene, "--arg x=@sparse.npy --arg out=zeros:4", &[words]);
}

#[test]
fn results_that_can_be_neither_saved_nor_expected() {
    let scene = Scene::with(COUNT);
    fs::create_dir(scene.path().join("directory")).unwrap();
    let both = "--arg x=zeros:4 --arg by=1";
    for (flags, words) in [
        ("--save y=y.npy", "no argument 'y'"),
        (
            "--save by=by.npy",
            "--save by: it is a scalar, which no kernel changes",
        ),
        ("--save x", "NAME=FILE.npy"),
        ("--save x=", "the path is empty"),
        (
            "--save x=none/x.npy",
            "--save x: none is not a directory; make it first",
        ),
        (
            "--save x=directory",
            "--save x: directory is a directory; name a file in it",
        ),
        ("--save x=x.npy --save x=x.npy", "x.npy is saved twice"),
        ("--expect y=zeros", "no argument 'y'"),
        ("--expect by=1", "--expect by: it is a scalar"),
        ("--expect x=1", "--expect x: it is memory"),
        ("--expect x=in", "'in' can't be understood"),
        (
            "--expect x=zeros:5",
            "--expect x: its shape is [4], and [5] is expected",
        ),
        (
            "--expect x=zeros --expect x=ones",
            "--expect x: it is expected twice",
        ),
        ("--expect x=zeros --rtol=-1", "--rtol"),
        ("--expect x=zeros --atol nan", "'nan' is no tolerance"),
        ("--rtol 1", "--rtol and --atol need an --expect"),
    ] {
        refuses(&scene, &format!("{both} {flags}"), &[words]);
    }
}

/// What comes out is lost, and that is told; the arguments are shown all the same.
#[test]
fn a_file_that_cant_be_written_after_all() {
    let scene = Scene::with(COUNT);
    let told = scene.run("run k.mlir --target cpu --arg x=zeros:4 --arg by=1 --save x=/proc/x.npy");
    told.fails(4, &["/proc/x.npy: can't be written"]);
}

#[test]
fn a_kernel_that_is_none() {
    let scene = Scene::with("not a kernel");
    refuses(&scene, "--arg x=1", &["k.mlir"]);
    let scene = Scene::new();
    refuses(&scene, "--arg x=1", &["k.mlir", "No such file"]);
}

/// A launch that breaks the contract is refused like any other whose arguments do not fit.
#[test]
fn arguments_that_break_the_contract() {
    let scene = Scene::with(
        "func.func @k(%x: memref<*xf32>, %y: memref<?xf32>, %z: memref<?xf32>, %n: i32) {\n\
         memref.copy %y, %z : memref<?xf32> to memref<?xf32>\nreturn\n}\n",
    );
    for (flags, words) in [
        (
            "--arg n=5 --arg z=zeros:3",
            "expected at least n = 5 elements, got 4",
        ),
        ("--arg n=-5 --arg z=zeros:3", "-5 can't be"),
        (
            "--arg n=4 --arg z=zeros:2",
            "expected 3 elements, as many as `y`, got 2",
        ),
    ] {
        let told = scene.run(&format!(
            "run k.mlir --target cpu --extent x=n,y=m,z=m --arg x=zeros:4 --arg y=ones:3 {flags}"
        ));
        told.fails(2, &[words]);
    }
}
