//! The arguments of a launch. An [`Arg`] borrows the memory it names for as long as it lives,
//! mutably where the kernel may write: that is what keeps two arguments from overlapping.

use crate::buffer::{Buffer, Shared};
use crate::element::sealed::Tagged;
use crate::element::{Element, Primitive, Scalar};
use crate::xrt;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// One argument of [`Kernel::launch`](crate::Kernel::launch).
///
/// ```
/// use npu_runtime::Arg;
///
/// let weights = [0.5_f32; 64];
/// let mut sums = vec![0_i32; 8];
/// let args = [
///     Arg::input(&weights),
///     Arg::output(&mut sums).with_shape(&[2, 4]),
///     Arg::scalar(true),
/// ];
/// assert_eq!(format!("{:?}", args[1]), "output of 8 i32 as [2, 4]");
/// ```
///
/// Memory that the kernel writes is borrowed mutably, so input and output can't be the same:
///
/// ```compile_fail
/// # use npu_runtime::Arg;
/// let mut data = [0_i32; 8];
/// let args = [Arg::input(&data), Arg::output(&mut data)];
/// ```
pub struct Arg<'a> {
    value: Value,
    shape: Option<Cow<'a, [usize]>>,
    /// The memory is borrowed mutably if it is written and shared otherwise.
    memory: PhantomData<&'a mut [u8]>,
}

/// What an [`Arg`] holds, with the borrow erased.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    Memory(Memory),
    Scalar { primitive: Primitive, bits: u64 },
}

/// Memory that an [`Arg`] borrows.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) address: *mut u8,
    /// In elements of `primitive`.
    pub(crate) len: usize,
    pub(crate) primitive: Primitive,
    /// Whether the borrow is mutable. If not, nothing may be written through `address`.
    pub(crate) writable: bool,
    pub(crate) place: Place,
    /// Whether other arguments may be the same memory, and some of them write it.
    pub(crate) shared: bool,
}

/// Where memory is, and so which device reaches it without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Ordinary memory.
    Host,
    /// The start of a block of the HSA device.
    Hsa,
    /// The start of a buffer of XRT's device.
    Xrt(NonNull<xrt::RawBuffer>),
}

impl<'a> Arg<'a> {
    /// Memory that the kernel only reads: a reference to a slice, an array, a vector or a
    /// [`Buffer`], or a [`Shared`] buffer.
    #[must_use]
    pub fn input<T: Element>(x: impl IntoInput<'a, T>) -> Self {
        x.into_input()
    }

    /// Memory that the kernel writes, and may read: a mutable reference to a slice, an array, a
    /// vector or a [`Buffer`], or a [`Shared`] buffer.
    #[must_use]
    pub fn output<T: Element>(x: impl IntoOutput<'a, T>) -> Self {
        x.into_output()
    }

    /// The same as [`Arg::output`], where that reads better.
    #[must_use]
    pub fn inout<T: Element>(x: impl IntoOutput<'a, T>) -> Self {
        x.into_output()
    }

    /// A number that is passed by value.
    #[must_use]
    pub fn scalar(x: impl Scalar) -> Self {
        fn primitive<T: Tagged>(_: T) -> Primitive {
            T::PRIMITIVE
        }
        Self {
            value: Value::Scalar {
                primitive: primitive(x),
                bits: x.bits(),
            },
            shape: None,
            memory: PhantomData,
        }
    }

    /// Gives memory its full shape, outermost dimension first: an array or a slice that is
    /// borrowed, or a vector. It is needed where the kernel's type has two or more dynamic
    /// dimensions, and checked wherever it is given.
    #[must_use]
    pub fn with_shape(self, dims: impl Into<Cow<'a, [usize]>>) -> Self {
        Self {
            shape: Some(dims.into()),
            ..self
        }
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    pub(crate) fn shape(&self) -> Option<&[usize]> {
        self.shape.as_deref()
    }

    fn from_slice<T: Element>(slice: &'a [T], place: Place) -> Self {
        Self::memory(Memory {
            address: slice.as_ptr().cast_mut().cast(),
            len: slice.len(),
            primitive: T::PRIMITIVE,
            writable: false,
            place,
            shared: false,
        })
    }

    fn from_mut_slice<T: Element>(slice: &'a mut [T], place: Place) -> Self {
        Self::memory(Memory {
            address: slice.as_mut_ptr().cast(),
            len: slice.len(),
            primitive: T::PRIMITIVE,
            writable: true,
            place,
            shared: false,
        })
    }

    fn memory(memory: Memory) -> Self {
        Self {
            value: Value::Memory(memory),
            shape: None,
            memory: PhantomData,
        }
    }
}

impl fmt::Debug for Arg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Value::Memory(memory) => {
                let role = if memory.writable { "output" } else { "input" };
                write!(f, "{role} of {} {}", memory.len, memory.primitive.name())?;
            }
            Value::Scalar { primitive, bits } => {
                write!(f, "scalar {} {bits:#x}", primitive.name())?;
            }
        }
        match &self.shape {
            Some(dims) => write!(f, " as {dims:?}"),
            None => Ok(()),
        }
    }
}

/// Memory that a kernel can read as elements of type `T`: `[T]`, `[T; N]`, `Vec<T>`,
/// [`Buffer<T>`] and [`Shared<T>`].
#[diagnostic::on_unimplemented(
    message = "a kernel can't read `{Self}` as elements of type `{T}`",
    label = "expected a reference to a slice, array, `Vec` or `npu_runtime::Buffer` of `{T}`",
    note = "the element type has to be exactly `{T}`"
)]
pub trait Input<T: Element>: sealed::Sealed {
    /// Borrows the memory for a launch.
    #[doc(hidden)]
    fn arg(&self) -> Arg<'_>;
}

/// Memory that a kernel can write as elements of type `T`: `[T]`, `[T; N]`, `Vec<T>`,
/// [`Buffer<T>`] and [`Shared<T>`].
#[diagnostic::on_unimplemented(
    message = "a kernel can't write `{Self}` as elements of type `{T}`",
    label = "expected a mutable reference to a slice, array, `Vec` or `npu_runtime::Buffer` of `{T}`",
    note = "the element type has to be exactly `{T}`"
)]
pub trait Output<T: Element>: sealed::Sealed {
    /// Borrows the memory for a launch that writes it.
    #[doc(hidden)]
    fn arg_mut(&mut self) -> Arg<'_>;
}

/// What becomes an argument that a kernel only reads: a reference to an [`Input`], or a [`Shared`]
/// buffer by value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the memory that a kernel reads as elements of type `{T}`",
    label = "expected a reference to memory of `{T}`, or an `npu_runtime::Shared` of it"
)]
pub trait IntoInput<'a, T: Element>: sealed::Sealed {
    /// Borrows the memory for as long as the argument lives.
    #[doc(hidden)]
    fn into_input(self) -> Arg<'a>;
}

/// What becomes an argument that a kernel writes: a mutable reference to an [`Output`], or a
/// [`Shared`] buffer by value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the memory that a kernel writes as elements of type `{T}`",
    label = "expected a mutable reference to memory of `{T}`, or an `npu_runtime::Shared` of it"
)]
pub trait IntoOutput<'a, T: Element>: sealed::Sealed {
    /// Borrows the memory for as long as the argument lives.
    #[doc(hidden)]
    fn into_output(self) -> Arg<'a>;
}

mod sealed {
    pub trait Sealed {}
}

impl<'a, T: Element, I: Input<T> + ?Sized> IntoInput<'a, T> for &'a I {
    #[inline]
    fn into_input(self) -> Arg<'a> {
        self.arg()
    }
}

impl<'a, T: Element, I: Input<T> + ?Sized> IntoInput<'a, T> for &'a mut I {
    #[inline]
    fn into_input(self) -> Arg<'a> {
        (*self).arg()
    }
}

impl<'a, T: Element, I: Output<T> + ?Sized> IntoOutput<'a, T> for &'a mut I {
    #[inline]
    fn into_output(self) -> Arg<'a> {
        self.arg_mut()
    }
}

impl<'a, T: Element> IntoInput<'a, T> for Shared<'a, T> {
    #[inline]
    fn into_input(self) -> Arg<'a> {
        self.input()
    }
}

impl<'a, T: Element> IntoOutput<'a, T> for Shared<'a, T> {
    #[inline]
    fn into_output(self) -> Arg<'a> {
        self.output()
    }
}

macro_rules! memory {
    ($([$($generics:tt)*] $container:ty;)*) => {$(
        impl<T: Element, $($generics)*> sealed::Sealed for $container {}
        impl<T: Element, $($generics)*> Input<T> for $container {
            #[inline]
            fn arg(&self) -> Arg<'_> {
                Arg::from_slice::<T>(self, Place::Host)
            }
        }
        impl<T: Element, $($generics)*> Output<T> for $container {
            #[inline]
            fn arg_mut(&mut self) -> Arg<'_> {
                Arg::from_mut_slice::<T>(self, Place::Host)
            }
        }
    )*};
}

memory! {
    [] [T];
    [const N: usize] [T; N];
    [] Vec<T>;
}

impl<T: Element> sealed::Sealed for Buffer<T> {}

impl<T: Element> Input<T> for Buffer<T> {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        Arg::from_slice::<T>(self, self.place())
    }
}

impl<T: Element> Output<T> for Buffer<T> {
    #[inline]
    fn arg_mut(&mut self) -> Arg<'_> {
        let place = self.place();
        Arg::from_mut_slice::<T>(self, place)
    }
}

impl<'a, T: Element> Shared<'a, T> {
    /// The buffer as an argument that the kernel only reads.
    #[must_use]
    pub fn input(&self) -> Arg<'a> {
        self.lent(false)
    }

    /// The buffer as an argument that the kernel writes, and may read.
    #[must_use]
    pub fn output(&self) -> Arg<'a> {
        self.lent(true)
    }

    #[inline]
    fn lent(&self, writable: bool) -> Arg<'a> {
        Arg::memory(Memory {
            address: self.start().as_ptr().cast(),
            len: self.len(),
            primitive: T::PRIMITIVE,
            writable,
            place: self.place(),
            shared: true,
        })
    }
}

impl<T: Element> sealed::Sealed for Shared<'_, T> {}

impl<T: Element> Input<T> for Shared<'_, T> {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        self.input()
    }
}

impl<T: Element> Output<T> for Shared<'_, T> {
    #[inline]
    fn arg_mut(&mut self) -> Arg<'_> {
        self.output()
    }
}

// A reference to any of them, for what holds references: the fields of an `Arguments` struct.
impl<I: sealed::Sealed + ?Sized> sealed::Sealed for &I {}
impl<I: sealed::Sealed + ?Sized> sealed::Sealed for &mut I {}

impl<T: Element, I: Input<T> + ?Sized> Input<T> for &I {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        (**self).arg()
    }
}

impl<T: Element, I: Input<T> + ?Sized> Input<T> for &mut I {
    #[inline]
    fn arg(&self) -> Arg<'_> {
        (**self).arg()
    }
}

impl<T: Element, I: Output<T> + ?Sized> Output<T> for &mut I {
    #[inline]
    fn arg_mut(&mut self) -> Arg<'_> {
        (**self).arg_mut()
    }
}
