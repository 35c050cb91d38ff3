//! Memory of the arguments' types, which are known at run time only.

use crate::tensor::Layout;
use npu_runtime::half::{bf16, f16};
use npu_runtime::{Arg, Buffer, Device, Element, ElementType, Error, Scalar};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Memory that launches can be given.
pub trait Memory {
    fn bytes(&self) -> &[u8];
    fn bytes_mut(&mut self) -> &mut [u8];
    /// The memory as arguments of several launches that run one after the other. A slice can be
    /// lent to one only.
    fn lend(&mut self, written: bool, times: usize) -> Vec<Arg<'_>>;
}

/// A number that is its bytes.
trait Plain: Element + FromBytes + IntoBytes + Immutable {}

impl<T: Element + FromBytes + IntoBytes + Immutable> Plain for T {}

impl<T: Plain> Memory for Buffer<T> {
    fn bytes(&self) -> &[u8] {
        self[..].as_bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self[..].as_mut_bytes()
    }

    fn lend(&mut self, written: bool, times: usize) -> Vec<Arg<'_>> {
        let shared = self.share();
        let one = || match written {
            true => shared.output(),
            false => shared.input(),
        };
        std::iter::repeat_with(one).take(times).collect()
    }
}

impl<T: Plain> Memory for Vec<T> {
    fn bytes(&self) -> &[u8] {
        self[..].as_bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self[..].as_mut_bytes()
    }

    fn lend(&mut self, written: bool, _: usize) -> Vec<Arg<'_>> {
        vec![match written {
            true => Arg::output(&mut self[..]),
            false => Arg::input(&self[..]),
        }]
    }
}

/// `$make` with `$T` being the type whose memory stands for `$element`.
macro_rules! with_type {
    ($element:expr, $T:ident => $make:expr) => {
        with_type!($element, $T => $make,
            I8: i8, I16: i16, I32: i32, I64: i64, Index: i64,
            Ui16: u16, Ui32: u32, Ui64: u64,
            F16: f16, Bf16: bf16, F32: f32, F64: f64)
    };
    ($element:expr, $T:ident => $make:expr, $($variant:ident: $rust:ty),*) => {
        match $element {
            $(ElementType::$variant => {
                type $T = $rust;
                $make
            })*
            // I1, Ui8, and bytes that nobody understands.
            _ => {
                type $T = u8;
                $make
            }
        }
    };
}

/// Zeros that the device reaches where they are.
pub fn buffer(device: &Device, layout: &Layout) -> Result<Box<dyn Memory>, Error> {
    let elements = layout.elements().unwrap_or(usize::MAX);
    Ok(with_type!(layout.element, T => Box::new(device.buffer::<T>(elements)?)))
}

/// Ordinary memory with this content.
pub fn slice(layout: &Layout, bytes: &[u8]) -> Box<dyn Memory> {
    fn of<T: Plain>(elements: usize, bytes: &[u8]) -> Box<dyn Memory> {
        let mut memory = vec![T::default(); elements];
        memory.bytes_mut().copy_from_slice(bytes);
        Box::new(memory)
    }
    let elements = layout.elements().unwrap_or_default();
    with_type!(layout.element, T => of::<T>(elements, bytes))
}

/// A scalar argument of these bits.
pub fn scalar(element: &ElementType, bits: u64) -> Arg<'static> {
    fn of<T: Plain + Scalar>(bits: u64) -> Arg<'static> {
        let bytes = match cfg!(target_endian = "little") {
            true => bits,
            false => bits << (64 - 8 * size_of::<T>()),
        };
        let bytes = bytes.to_ne_bytes();
        let value = T::read_from_prefix(&bytes).map(|(value, _)| value);
        Arg::scalar(value.unwrap_or_default())
    }
    match element {
        ElementType::I1 => Arg::scalar(bits == 1),
        element => with_type!(element, T => of::<T>(bits)),
    }
}
