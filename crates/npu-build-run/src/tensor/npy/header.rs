//! The header of a `.npy` file. It is a Python literal, and `npyz` reads it; but it multiplies the
//! dimensions unchecked and has a recursive parser for all of Python's literals, so only what
//! NumPy itself might have written gets there.

use std::io::Read;

use npu_runtime::ElementType;
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};

use super::NpyFault;

/// Every file begins with it; what follows are the version and the header's length.
const MAGIC: &[u8] = b"\x93NUMPY";
/// NumPy itself believes no header of more than 10,000 bytes; for arrays of numbers it writes 118.
const LONGEST: u32 = 1 << 16;
/// A `.npz` file is a ZIP archive.
const ZIP: &[u8] = b"PK\x03\x04";

/// What a header says.
#[derive(Debug)]
pub(super) struct Header {
    /// Its own length, all that comes before the elements.
    pub bytes: u64,
    pub shape: Vec<usize>,
    /// Whether the first dimension is the fastest.
    pub fortran: bool,
    /// Whether elements have the other byte order than the host's.
    pub is_swapped: bool,
    kind: TypeChar,
    width: u64,
}

impl Header {
    /// Reads a header, and nothing of what follows it.
    pub fn read(reader: &mut impl Read) -> Result<Self, NpyFault> {
        let bytes = raw(reader)?;
        Self::parse(&bytes)
    }

    fn parse(bytes: &[u8]) -> Result<Self, NpyFault> {
        let header = NpyHeader::from_reader(bytes);
        let header = header.map_err(|error| NpyFault::Header(error.to_string()))?;
        let DType::Plain(dtype) = header.dtype() else {
            return Err(NpyFault::NotNumbers {
                found: "records".into(),
            });
        };
        let is_big = match dtype.endianness() {
            Endianness::Big => true,
            Endianness::Little => false,
            Endianness::Irrelevant => cfg!(target_endian = "big"),
        };
        let dims = header.shape().iter().map(|dim| usize::try_from(*dim));
        Ok(Self {
            bytes: bytes.len() as u64,
            shape: dims
                .collect::<Result<_, _>>()
                .map_err(|_| NpyFault::TooLarge)?,
            fortran: header.order() == Order::Fortran,
            is_swapped: is_big != cfg!(target_endian = "big"),
            kind: dtype.type_char(),
            width: dtype.size_field(),
        })
    }

    /// Whether the file's elements can be `element`s. Those of another type that are as large as an
    /// element of bytes, such as `complex64`, become rows of `uint8`.
    pub fn check_type(&mut self, element: &ElementType) -> Result<(), NpyFault> {
        if let ElementType::Bytes { size, .. } = element
            && self.width == u64::from(*size)
            && matches!(
                self.kind,
                TypeChar::Int
                    | TypeChar::Uint
                    | TypeChar::Float
                    | TypeChar::Complex
                    | TypeChar::RawData
            )
            && (*size == 1 || !(self.is_swapped || self.fortran))
        {
            (self.kind, self.width) = (TypeChar::Uint, 1);
            if *size > 1 {
                self.shape.push(*size as usize);
            }
        }
        let found = (self.kind, self.width);
        if kinds(element)
            .iter()
            .any(|(kind, width)| (*kind, *width) == found)
        {
            return Ok(());
        }
        Err(match self.kind {
            TypeChar::Bool
            | TypeChar::Int
            | TypeChar::Uint
            | TypeChar::Float
            | TypeChar::RawData => NpyFault::Type {
                found: self.type_name(),
                expected: element.clone(),
            },
            _ => NpyFault::NotNumbers {
                found: self.type_name(),
            },
        })
    }

    /// NumPy's name of the type.
    fn type_name(&self) -> String {
        let bits = self.width.saturating_mul(8);
        match self.kind {
            TypeChar::Bool => "bool".into(),
            TypeChar::Int => format!("int{bits}"),
            TypeChar::Uint => format!("uint{bits}"),
            TypeChar::Float => format!("float{bits}"),
            TypeChar::Complex => format!("complex{bits}"),
            TypeChar::RawData => format!("raw data of {} bytes", self.width),
            TypeChar::ByteStr | TypeChar::UnicodeStr => "strings".into(),
            TypeChar::Object => "Python objects".into(),
            _ => "times".into(),
        }
    }
}

/// The header's bytes, from the magic number on, if NumPy might have written them.
fn raw(reader: &mut impl Read) -> Result<Vec<u8>, NpyFault> {
    let mut bytes = Vec::new();
    take(reader, 8, &mut bytes)?;
    let width = match bytes.strip_prefix(MAGIC) {
        Some([1, 0]) => 2,
        Some([2 | 3, 0]) => 4,
        Some(&[major, minor]) => return Err(NpyFault::Version { major, minor }),
        _ => {
            let archive = bytes.starts_with(ZIP);
            return Err(NpyFault::NotNpy { archive });
        }
    };
    take(reader, width, &mut bytes)?;
    let mut length = [0; 4];
    for (to, from) in length.iter_mut().zip(bytes.iter().skip(8)) {
        *to = *from;
    }
    let length = u32::from_le_bytes(length);
    if length > LONGEST {
        return Err(NpyFault::Header(format!("it is {length} bytes long")));
    }
    let before = bytes.len();
    take(reader, u64::from(length), &mut bytes)?;
    let text = bytes.get(before..).unwrap_or_default();
    if text.len() as u64 != u64::from(length) || before != 8 + width as usize {
        return Err(NpyFault::Header("the file ends in it".into()));
    }
    check_text(text)?;
    Ok(bytes)
}

fn take(reader: &mut impl Read, length: u64, bytes: &mut Vec<u8>) -> Result<(), NpyFault> {
    let read = reader.by_ref().take(length).read_to_end(bytes);
    read.map(drop).map_err(NpyFault::Read)
}

/// Refuses what is not `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`: whatever is
/// nested, and dimensions whose product might not fit 64 bits. It does not look at quotes, so that
/// nothing can hide in them.
fn check_text(text: &[u8]) -> Result<(), NpyFault> {
    let count = |wanted: u8| text.iter().filter(|byte| **byte == wanted).count();
    if count(b'[') > 0 {
        return Err(NpyFault::NotNumbers {
            found: "records or times".into(),
        });
    }
    if count(b'{') != 1 || count(b'(') > 1 {
        return Err(NpyFault::Header(
            "it is not one dictionary with a shape".into(),
        ));
    }
    // Each integer below 2^n counts n, so that no product or sum of them reaches 2^63.
    let mut bits = 0;
    let words = text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    for word in words.filter(|word| word.first().is_some_and(u8::is_ascii_digit)) {
        if !word.iter().all(u8::is_ascii_digit) {
            let word = String::from_utf8_lossy(word);
            return Err(NpyFault::Header(format!("'{word}' is no dimension")));
        }
        let value = std::str::from_utf8(word)
            .ok()
            .and_then(|word| word.parse::<u64>().ok());
        let value = value.ok_or(NpyFault::TooLarge)?;
        bits += u64::BITS - value.leading_zeros().min(u64::BITS - 1);
    }
    match bits < u64::BITS {
        true => Ok(()),
        false => Err(NpyFault::TooLarge),
    }
}

/// NumPy's types whose elements may stand for `element`, the one that is written first. MLIR's
/// integers are mostly signless, so NumPy's unsigned ones are as good; bfloat16, which NumPy does
/// not know, is raw data to it (`ml_dtypes` saves it so).
pub(super) fn kinds(element: &ElementType) -> &'static [(TypeChar, u64)] {
    match element {
        ElementType::I1 => &[(TypeChar::Bool, 1)],
        ElementType::I8 => &[(TypeChar::Int, 1), (TypeChar::Uint, 1)],
        ElementType::I16 => &[(TypeChar::Int, 2), (TypeChar::Uint, 2)],
        ElementType::I32 => &[(TypeChar::Int, 4), (TypeChar::Uint, 4)],
        ElementType::I64 | ElementType::Index => &[(TypeChar::Int, 8), (TypeChar::Uint, 8)],
        ElementType::Ui8 => &[(TypeChar::Uint, 1)],
        ElementType::Ui16 => &[(TypeChar::Uint, 2)],
        ElementType::Ui32 => &[(TypeChar::Uint, 4)],
        ElementType::Ui64 => &[(TypeChar::Uint, 8)],
        ElementType::F16 => &[(TypeChar::Float, 2)],
        ElementType::Bf16 => &[(TypeChar::RawData, 2)],
        ElementType::F32 => &[(TypeChar::Float, 4)],
        ElementType::F64 => &[(TypeChar::Float, 8)],
        _ => &[(TypeChar::Uint, 1)],
    }
}

/// NumPy's name of the first of those.
pub(super) fn numpy_name(element: &ElementType) -> &'static str {
    match element {
        ElementType::I1 => "bool",
        ElementType::I8 => "int8",
        ElementType::I16 => "int16",
        ElementType::I32 => "int32",
        ElementType::I64 | ElementType::Index => "int64",
        ElementType::Ui16 => "uint16",
        ElementType::Ui32 => "uint32",
        ElementType::Ui64 => "uint64",
        ElementType::F16 => "float16",
        ElementType::Bf16 => "bfloat16",
        ElementType::F32 => "float32",
        ElementType::F64 => "float64",
        _ => "uint8",
    }
}

/// NumPy's names of all of them.
pub(super) fn numpy_names(element: &ElementType) -> String {
    let name = numpy_name(element);
    match name.strip_prefix("int") {
        Some(bits) => format!("{name} or uint{bits}"),
        None => name.to_owned(),
    }
}
