//! Signatures as Triton's users write them, against kernels as triton-shared makes them.

use proptest::prelude::*;

use super::super::Module;
use super::*;

fn kernel() -> Kernel {
    let text =
        "func.func @k(%a: memref<*xbf16>, %b: memref<*xi8>, %n: i32, %x: f32, %c: memref<*xsi8>,
        %0: i32, %1: i32, %2: i32, %3: i32, %4: i32, %5: i32) { return }";
    Module::scan(text.as_bytes()).unwrap().kernels.remove(0)
}

fn apply(signature: &str) -> Result<Kernel, String> {
    let mut kernel = kernel();
    let signature = parse(signature).map_err(|e| e.to_string())?;
    match kernel.apply_triton(&signature) {
        Ok(()) => Ok(kernel),
        Err(error) => {
            assert_eq!(
                kernel,
                self::kernel(),
                "a refused signature changes nothing"
            );
            Err(error.to_string())
        }
    }
}

#[test]
fn entries_are_read() {
    let signature = parse(" *fp32, *bf16:out ,i32,constexpr,u8,*fp16:16,1024,fp64").unwrap();
    let pointer = |element, direction| EntryKind::Pointer { element, direction };
    let kinds: Vec<_> = signature.entries.iter().map(|it| it.kind.clone()).collect();
    assert_eq!(
        kinds,
        [
            pointer(ElementType::F32, None),
            pointer(ElementType::Bf16, Some(Direction::Out)),
            EntryKind::Scalar(ElementType::I32),
            EntryKind::Constexpr,
            EntryKind::Scalar(ElementType::Ui8),
            pointer(ElementType::F16, None),
            EntryKind::Constexpr,
            EntryKind::Scalar(ElementType::F64),
        ]
    );
    assert_eq!(
        signature.to_string(),
        "*fp32,*bf16:out,i32,constexpr,u8,*fp16:16,1024,fp64"
    );
    assert_eq!(parse(" ").unwrap().entries, []);
}

#[test]
fn what_is_no_signature_says_where_and_what_instead() {
    let error = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(
        error("*fp32,float32"),
        "'float32' (entry 2 of the signature): 'float32' is no type of Triton's: there are i1, i8, i16, i32, \
         i64, u8, u16, u32, u64, fp16, bf16, fp32, fp64, with '*' for pointers, and constexpr"
    );
    assert!(error("*bfp16").ends_with("did you mean 'bf16'?"));
    assert!(error("i32,,i32").contains("entry 2"));
    assert!(error("**fp32").contains("pointer to a pointer"));
    assert!(error("*fp32:output").contains("':in', ':out' or ':inout'"));
    assert!(error("i32:out").contains("only pointers have a direction"));
}

#[test]
fn a_fitting_signature_overrides_directions_and_signs() {
    let kernel = apply("*bf16:in,constexpr,*u8:out,i32,fp32,*i8").unwrap();
    let kinds: Vec<_> = kernel
        .signature
        .parameters
        .iter()
        .map(|it| &it.kind)
        .collect();
    assert!(matches!(
        kinds[0],
        Kind::Memory {
            direction: Direction::In,
            ..
        }
    ));
    assert!(matches!(
        kinds[1],
        Kind::Memory {
            direction: Direction::Out,
            element: ElementType::Ui8,
            ..
        }
    ));
    assert!(matches!(kinds[2], Kind::Scalar(ElementType::I32)));
    assert!(matches!(
        kinds[4],
        Kind::Memory {
            direction: Direction::In,
            element: ElementType::I8,
            ..
        }
    ));
}

#[test]
fn a_contradiction_names_the_argument_and_both_types() {
    assert_eq!(
        apply("*fp32,*i8,i32,fp32,*i8").unwrap_err(),
        "the signature says '*fp32' for argument 'a' of 'k', the MLIR says memref<*xbf16>"
    );
    assert!(
        apply("bf16,*i8,i32,fp32,*i8")
            .unwrap_err()
            .contains("'bf16' for argument 'a'")
    );
    assert!(
        apply("*bf16,*i8,*i32,fp32,*i8")
            .unwrap_err()
            .contains("argument 'n'")
    );
    // si8 is signed for certain.
    assert!(
        apply("*bf16,*i8,i32,fp32,*u8")
            .unwrap_err()
            .contains("argument 'c'")
    );
    assert_eq!(
        apply("*bf16,*i8").unwrap_err(),
        "the signature has 2 arguments (constexpr not counted), 'k' has 5: a, b, n, x, c"
    );
}

#[test]
fn a_pointer_to_i1_is_one_to_bytes() {
    apply("*bf16,*i1,i32,fp32,*i8").unwrap();
}

proptest! {
    #[test]
    fn any_text_is_a_signature_or_an_error(text in "[*a-z0-9:, .é-]{0,40}") {
        if let Ok(signature) = parse(&text) {
            let _ = kernel().apply_triton(&signature);
        }
    }
}
