//! The files in `tests/data/npy` are NumPy's own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use npu_runtime::half::{bf16, f16};
use proptest::prelude::*;

use super::*;
use crate::tensor::Layout;

fn numpy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/npy")
        .join(name)
}

fn read(path: &Path, element: &ElementType) -> Result<(Vec<usize>, Vec<u8>), NpyError> {
    let npy = Npy::open(path, element)?;
    let shape = npy.shape().to_vec();
    let element = data(element).0;
    let mut bytes = vec![0; product(&shape).unwrap() * size(&element)];
    npy.read_into(&element, &mut bytes)?;
    Ok((shape, bytes))
}

fn fault(path: &Path, element: &ElementType) -> NpyFault {
    let error = read(path, element).unwrap_err();
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
    error.fault
}

/// 0, 1, the smallest, the largest and 100, as `make.py` has them.
macro_rules! integers {
    ($($name:literal: $rust:ty, $element:ident;)*) => {$(
        let expected: [$rust; 5] = [0, 1, <$rust>::MIN, <$rust>::MAX, 100];
        check($name, ElementType::$element, expected.map(<$rust>::to_ne_bytes).as_flattened());
    )*};
}

#[track_caller]
fn check(name: &str, element: ElementType, expected: &[u8]) {
    let (shape, bytes) = read(&numpy(name), &element).unwrap();
    assert_eq!(bytes, expected, "{name}");
    assert_eq!(
        product(&shape).unwrap() * size(&element),
        expected.len(),
        "{name}"
    );
}

#[test]
fn every_type_is_read_as_numpy_wrote_it() {
    integers! {
        "int8.npy": i8, I8;
        "int16.npy": i16, I16;
        "int32.npy": i32, I32;
        "int64.npy": i64, I64;
        "int64.npy": i64, Index;
        "uint8.npy": u8, Ui8;
        "uint16.npy": u16, Ui16;
        "uint32.npy": u32, Ui32;
        "uint64.npy": u64, Ui64;
        // MLIR's signless integers are as well unsigned.
        "uint8.npy": u8, I8;
        "uint64.npy": u64, Index;
    }
    check("bool.npy", ElementType::I1, &[1, 0, 1]);
    let floats = [
        0.0,
        -0.0,
        1.5,
        -2.25,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1024.0,
    ];
    // NumPy's NaN is quiet and positive in each of them.
    let nan = |float: f32| float.is_nan();
    let halves = floats.map(|x| {
        if nan(x) {
            0x7e00
        } else {
            f16::from_f32(x).to_bits()
        }
    });
    check(
        "float16.npy",
        ElementType::F16,
        halves.map(u16::to_ne_bytes).as_flattened(),
    );
    let brains = floats.map(|x| {
        if nan(x) {
            0x7fc0
        } else {
            bf16::from_f32(x).to_bits()
        }
    });
    check(
        "bfloat16.npy",
        ElementType::Bf16,
        brains.map(u16::to_ne_bytes).as_flattened(),
    );
    let singles = floats.map(|x| if nan(x) { 0x7fc0_0000 } else { x.to_bits() });
    check(
        "float32.npy",
        ElementType::F32,
        singles.map(u32::to_ne_bytes).as_flattened(),
    );
    let doubles = floats.map(|x| match nan(x) {
        true => 0x7ff8_0000_0000_0000,
        false => f64::from(x).to_bits(),
    });
    check(
        "float64.npy",
        ElementType::F64,
        doubles.map(u64::to_ne_bytes).as_flattened(),
    );
}

#[test]
fn order_byte_order_and_version_make_no_difference() {
    let cube = (0..24_i32).map(|n| 100 * (n / 12) + 10 * (n / 4 % 3) + n % 4);
    let expected: Vec<u8> = cube.flat_map(i32::to_ne_bytes).collect();
    for name in [
        "",
        "_fortran",
        "_big",
        "_fortran_big",
        "_version_2",
        "_version_3",
    ] {
        let (shape, bytes) = read(&numpy(&format!("cube{name}.npy")), &ElementType::I32).unwrap();
        assert_eq!(shape, [2, 3, 4], "{name}");
        assert_eq!(bytes, expected, "{name}");
    }
}

#[test]
fn shapes_of_no_dimension_and_of_no_elements() {
    let read = |name| read(&numpy(name), &ElementType::F32).unwrap();
    assert_eq!(
        read("zero_dimensional.npy"),
        (vec![], 2.5_f32.to_ne_bytes().to_vec())
    );
    assert_eq!(read("empty.npy"), (vec![0, 4], vec![]));
    let row = [0.0_f32, 1.0, 2.0, 3.0].map(f32::to_ne_bytes);
    assert_eq!(
        read("row_fortran.npy"),
        (vec![1, 4], row.as_flattened().to_vec())
    );
}

/// A file whose header has no spaces, nor commas behind the last dimension.
fn compact(path: &Path) -> (String, Vec<u8>) {
    let bytes = fs::read(path).unwrap();
    assert_eq!(
        bytes.iter().position(|byte| *byte == b'\n'),
        Some(127),
        "not aligned"
    );
    let header = String::from_utf8_lossy(&bytes[10..128]).replace(' ', "");
    (header.replace(",)", ")"), bytes[128..].to_vec())
}

/// What is saved is what NumPy saved of the same array, but for spaces.
#[test]
fn files_are_written_as_numpy_writes_them() {
    let directory = tempfile::tempdir().unwrap();
    for (name, element) in [
        ("bool.npy", ElementType::I1),
        ("int8.npy", ElementType::I8),
        ("int64.npy", ElementType::Index),
        ("uint16.npy", ElementType::Ui16),
        ("float16.npy", ElementType::F16),
        ("bfloat16.npy", ElementType::Bf16),
        ("float64.npy", ElementType::F64),
        ("cube.npy", ElementType::I32),
        ("zero_dimensional.npy", ElementType::F32),
        ("empty.npy", ElementType::F32),
    ] {
        let (shape, bytes) = read(&numpy(name), &element).unwrap();
        let path = directory.path().join(name);
        let layout = Layout { element, shape };
        save(&path, &layout, &bytes).unwrap();
        assert_eq!(compact(&path), compact(&numpy(name)), "{name}");
    }
}

#[test]
fn a_file_that_cant_be_written_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let layout = Layout {
        element: ElementType::I8,
        shape: vec![1],
    };
    let path = directory.path().join("none/x.npy");
    let error = save(&path, &layout, &[1]).unwrap_err();
    assert!(matches!(error.fault, NpyFault::Write(_)), "{error}");
    let error = save(directory.path(), &layout, &[1]).unwrap_err();
    assert!(matches!(error.fault, NpyFault::Write(_)), "{error}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    save(Path::new("/dev/null"), &layout, &[1]).unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn what_holds_no_numbers_is_told() {
    for (name, words) in [
        ("complex.npy", "complex128"),
        ("records.npy", "records"),
        ("objects.npy", "Python objects"),
        ("strings.npy", "strings"),
        ("times.npy", "times"),
        ("archive.npz", "np.savez"),
        ("make.py", "no .npy file"),
    ] {
        let error = read(&numpy(name), &ElementType::F32)
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn another_type_is_told_with_the_way_to_convert_it() {
    for (name, element, words) in [
        (
            "float64.npy",
            ElementType::F32,
            ["float64", "astype(np.float32)"],
        ),
        (
            "float16.npy",
            ElementType::Bf16,
            ["float16", "astype(ml_dtypes.bfloat16)"],
        ),
        ("uint16.npy", ElementType::Bf16, ["uint16", "ml_dtypes"]),
        (
            "bfloat16.npy",
            ElementType::F16,
            ["raw data of 2 bytes", "astype(np.float16)"],
        ),
        ("int32.npy", ElementType::F32, ["int32", "float32"]),
        (
            "int32.npy",
            ElementType::Ui32,
            ["int32", "astype(np.uint32)"],
        ),
        ("int64.npy", ElementType::I32, ["int64", "int32 or uint32"]),
        ("int8.npy", ElementType::I1, ["int8", "astype(np.bool)"]),
        (
            "float32.npy",
            ElementType::Bytes { size: 16, align: 4 },
            ["float32", "view(np.uint8).reshape(…, 16)"],
        ),
    ] {
        let error = read(&numpy(name), &element).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "no '{word}' in: {error}");
        }
    }
}

#[test]
fn what_is_cut_off_or_too_long_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.npy");
    let whole = fs::read(numpy("cube.npy")).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        match (length, fault(&path, &ElementType::I32)) {
            (0..8, NpyFault::NotNpy { archive: false }) => {}
            (8..128, NpyFault::Header(_)) => {}
            (
                128..,
                NpyFault::Truncated {
                    promised: 96,
                    found,
                },
            ) => {
                assert_eq!(found, length as u64 - 128);
            }
            (_, fault) => panic!("{length}: {fault}"),
        }
    }
    fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    let trailing = fault(&path, &ElementType::I32);
    assert!(
        matches!(trailing, NpyFault::Trailing { found: 97, .. }),
        "{trailing}"
    );
}

/// A header for `descr` and `shape`, as NumPy lays it out.
fn header(descr: &str, shape: &str) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{text:117}\n").into_bytes());
    bytes
}

/// Neither memory nor time is spent on what is not there.
#[test]
fn a_promise_of_more_than_there_is_is_not_believed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.npy");
    let of = |shape: &str| {
        fs::write(&path, header("<f4", shape)).unwrap();
        fault(&path, &ElementType::F32)
    };
    assert!(matches!(
        of("(25000000000,)"),
        NpyFault::Truncated { found: 0, .. }
    ));
    for shape in [
        "(4294967296, 4294967296)",
        "(4611686018427387904,)",
        "(18446744073709551616,)",
        "(99999999999999999999999999999999999999999,)",
        "(0, 9223372036854775807, 9223372036854775807)",
    ] {
        assert!(matches!(of(shape), NpyFault::TooLarge), "{shape}");
    }
    for shape in [
        "(-1,)",
        "(0x7fffffff,)",
        "(1e9,)",
        "(1.5,)",
        "((1, 2), 3)",
        "3",
        "('a',)",
    ] {
        assert!(matches!(of(shape), NpyFault::Header(_)), "{shape}");
    }
}

#[test]
fn a_sparse_file_of_a_hundred_gigabytes_is_not_read() {
    const BYTES: u64 = 100_000_000_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.npy");
    fs::write(&path, header("<f4", "(25000000000,)")).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(128 + BYTES).unwrap();
    // It is as long as it should be: what it costs is for whoever asks for its memory to decide.
    let npy = Npy::open(&path, &ElementType::F32).unwrap();
    assert_eq!(npy.shape(), [25_000_000_000]);
    let other = fault(&path, &ElementType::F64);
    assert!(matches!(other, NpyFault::Type { .. }), "{other}");
}

#[test]
fn a_bool_that_is_none_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.npy");
    fs::write(&path, [header("|b1", "(3,)"), vec![0, 1, 2]].concat()).unwrap();
    let fault = fault(&path, &ElementType::I1);
    assert!(
        matches!(fault, NpyFault::NotBool { index: 2, value: 2 }),
        "{fault}"
    );
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    for path in [pipe.as_path(), directory.path(), Path::new("/dev/zero")] {
        let fault = fault(path, &ElementType::F32);
        assert!(matches!(fault, NpyFault::NotRegular), "{fault}");
    }
    let missing = fault(&directory.path().join("none"), &ElementType::F32);
    assert!(missing.to_string().contains("No such file"), "{missing}");
}

#[test]
fn a_header_that_numpy_would_not_write_is_not_parsed() {
    let with = |text: &[u8]| {
        let mut bytes = b"\x93NUMPY\x02\x00".to_vec();
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text);
        Header::read(&mut &bytes[..])
    };
    // A recursive parser would overflow the stack, or take for ever.
    for nested in ["(", "{", "[", "'''{", "''('", "{(", "-", "+"] {
        assert!(with(nested.repeat(20_000).as_bytes()).is_err(), "{nested}");
    }
    assert!(
        with(&vec![b' '; (1 << 16) + 1]).is_err(),
        "a header that is too long"
    );
    for version in [[0, 0], [1, 1], [4, 0], [255, 255]] {
        let bytes = [b"\x93NUMPY", &version[..], &[0; 200]].concat();
        let fault = Header::read(&mut &bytes[..]).unwrap_err();
        assert!(matches!(fault, NpyFault::Version { .. }), "{fault}");
    }
}

proptest! {
    /// Whatever a file's bytes are, reading it ends, and with memory of the size that was checked.
    #[test]
    fn hostile_bytes_do_no_harm(
        at in 0_usize..128,
        with in proptest::collection::vec(any::<u8>(), 0..24),
        behind in proptest::collection::vec(any::<u8>(), 0..100),
        fortran in any::<bool>(),
    ) {
        let name = if fortran { "cube_fortran.npy" } else { "cube.npy" };
        let mut bytes = fs::read(numpy(name)).unwrap();
        for (to, from) in bytes.iter_mut().skip(at).zip(&with) {
            *to = *from;
        }
        bytes.extend(behind);
        survives(&bytes);
    }

    #[test]
    fn any_literal_for_a_header_does_no_harm(
        text in "[{}()\\[\\]<>'\",:0-9a-zA-Z_ .+*-]{0,80}",
        words in "(\\{'descr': ?'[<>|=]?[a-zA-Z][0-9]{0,20}', ?'fortran_order': ?(True|False|1), ?'shape': ?\\([0-9, ]{0,60}\\),? ?\\})",
    ) {
        for text in [text, words] {
            let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
            bytes.extend((text.len() as u16).to_le_bytes());
            bytes.extend(text.as_bytes());
            survives(&bytes);
        }
    }
}

fn survives(bytes: &[u8]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.npy");
    fs::write(&path, bytes).unwrap();
    for element in [
        ElementType::I32,
        ElementType::F16,
        ElementType::I1,
        ElementType::Bytes { size: 8, align: 4 },
    ] {
        if let Ok((shape, read)) = read(&path, &element) {
            assert_eq!(
                read.len(),
                product(&shape).unwrap() * size(&data(&element).0)
            );
            assert!(read.len() < bytes.len());
        }
    }
}

/// Elements that Rust lacks are rows of bytes, in whichever type of that size NumPy has them.
#[test]
fn elements_of_bytes_are_read_from_any_type_of_their_size() {
    let complex = ElementType::Bytes { size: 16, align: 8 };
    let (shape, bytes) = read(&numpy("complex.npy"), &complex).unwrap();
    assert_eq!(shape, [1, 16]);
    assert_eq!(bytes, [1.0_f64, 2.0].map(f64::to_ne_bytes).concat());
    let byte = ElementType::Bytes { size: 1, align: 1 };
    assert_eq!(read(&numpy("int8.npy"), &byte).unwrap().0, [5]);
    let other = ElementType::Bytes { size: 8, align: 4 };
    assert!(matches!(
        fault(&numpy("complex.npy"), &other),
        NpyFault::NotNumbers { .. }
    ));
}
