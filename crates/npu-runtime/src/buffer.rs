//! Memory of a device that a kernel reaches without a copy. On cpu that is ordinary memory on a
//! cache line of its own, on an NPU memory that host and device both have mapped.

use crate::arg::Place;
use crate::{Element, Error, hsa, xrt};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZero;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes to which every buffer is aligned: a cache line, and the widest vector of today's hosts.
const ALIGNMENT: NonZero<usize> = NonZero::new(64).unwrap();

/// Elements in memory that the device sees: `[T]` with 64-byte alignment, made by
/// [`Device::buffer`](crate::Device::buffer).
///
/// ```
/// use npu_runtime::{Device, Runtime};
///
/// # fn main() -> Result<(), npu_runtime::Error> {
/// let device = Device::open(Runtime::Cpu)?;
/// let mut buffer = device.buffer::<i32>(1000)?;
/// assert!(buffer.iter().all(|&x| x == 0));
/// buffer[7] = 42;
/// assert_eq!(buffer.len(), 1000);
/// assert_eq!(buffer.as_ptr() as usize % 64, 0);
/// # Ok(())
/// # }
/// ```
pub struct Buffer<T: Element> {
    /// Dangling if the buffer has no bytes.
    start: NonNull<T>,
    len: usize,
    home: Home,
}

/// Whose memory a buffer is, and what gives it back.
pub(crate) enum Home {
    /// An allocation of `layout(len)`, if the buffer has bytes.
    Host,
    /// A block of the HSA device.
    Hsa(
        #[expect(dead_code, reason = "it gives its block back when it is dropped")] hsa::Allocation,
    ),
    /// A buffer of XRT's device.
    Xrt(xrt::Allocation),
}

impl<T: Element> Buffer<T> {
    /// Zeros.
    pub(crate) fn zeroed(len: usize) -> Result<Self, Error> {
        let failed = || Error::Allocation {
            elements: len,
            element_size: size_of::<T>(),
        };
        let layout = Self::layout(len).ok_or_else(failed)?;
        if layout.size() == 0 {
            // As aligned as any other buffer, so that nothing depends on the length.
            let start = NonNull::without_provenance(ALIGNMENT);
            return Ok(Self {
                start,
                len,
                home: Home::Host,
            });
        }
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Self {
                start,
                len,
                home: Home::Host,
            }),
            None => Err(failed()),
        }
    }

    /// Memory that `home` gives back.
    ///
    /// # Safety
    /// `start` heads `len` initialised elements, aligned to [`ALIGNMENT`], which nobody else uses
    /// and which live as long as `home`.
    pub(crate) unsafe fn at(start: NonNull<T>, len: usize, home: Home) -> Self {
        Self { start, len, home }
    }

    /// Where launches find it.
    #[inline]
    pub(crate) fn place(&self) -> Place {
        match &self.home {
            Home::Host => Place::Host,
            Home::Hsa(_) => Place::Hsa,
            Home::Xrt(allocation) => Place::Xrt(allocation.raw()),
        }
    }

    /// Lends the buffer to launches of which some write it and others read it, as those of a
    /// [`Chain`](crate::Chain) do.
    #[must_use]
    pub fn share(&mut self) -> Shared<'_, T> {
        Shared {
            start: self.start,
            len: self.len,
            place: self.place(),
            borrow: PhantomData,
        }
    }

    /// `None` if the size is beyond what an allocation may have.
    fn layout(len: usize) -> Option<Layout> {
        Layout::array::<T>(len).ok()?.align_to(ALIGNMENT.get()).ok()
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        match &self.home {
            Home::Host => {
                if let Some(layout) = Self::layout(self.len)
                    && layout.size() != 0
                {
                    // SAFETY: `zeroed` allocated `start` with this very layout.
                    unsafe { dealloc(self.start.as_ptr().cast(), layout) };
                }
            }
            Home::Hsa(_) | Home::Xrt(_) => {}
        }
    }
}

// SAFETY: a buffer owns its memory alone, as a `Vec` does, and elements are plain numbers.
unsafe impl<T: Element> Send for Buffer<T> {}
// SAFETY: a shared buffer only gives shared access to its elements.
unsafe impl<T: Element> Sync for Buffer<T> {}

impl<T: Element> Deref for Buffer<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `start` is aligned and heads `len` elements, zeroed at first, which are valid
        // at any bit pattern; they live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Element> DerefMut for Buffer<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        write!(f, "Buffer of {} {} ", self.len, T::PRIMITIVE.name())?;
        let mut list = f.debug_list();
        list.entries(self.iter().take(SHOWN));
        if self.len > SHOWN {
            list.finish_non_exhaustive()
        } else {
            list.finish()
        }
    }
}

/// A [`Buffer`] that is lent to launches, as input and as output alike. The host can't reach it
/// as long as it is lent, so the launches alone decide who reads and writes it when.
///
/// ```
/// use npu_runtime::{Device, Runtime};
///
/// # fn main() -> Result<(), npu_runtime::Error> {
/// let mut buffer = Device::open(Runtime::Cpu)?.buffer::<f32>(16)?;
/// let shared = buffer.share();
/// // The output of one launch, the input of the next one.
/// let args = [shared.output(), shared.input()];
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Shared<'a, T: Element> {
    start: NonNull<T>,
    len: usize,
    place: Place,
    /// It is not for other threads: a launch there would not be in order with those here.
    borrow: PhantomData<(&'a mut [T], *mut T)>,
}

impl<T: Element> Shared<'_, T> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn start(&self) -> NonNull<T> {
        self.start
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }
}

impl<T: Element> fmt::Debug for Shared<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared of {} {}", self.len, T::PRIMITIVE.name())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
mod tests {
    use super::*;
    use std::thread;

    fn is_ordinary_memory<T: Element + Copy + PartialEq + fmt::Debug>(zero: T, one: T) {
        for len in [0, 1, 3, 64, 1001] {
            let mut buffer = Buffer::<T>::zeroed(len).unwrap();
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr().addr() % ALIGNMENT.get(), 0);
            assert!(buffer.iter().all(|&element| element == zero));
            buffer.fill(one);
            assert!(buffer.iter().all(|&element| element == one));
        }
    }

    #[test]
    fn buffers_of_all_elements_are_ordinary_memory() {
        is_ordinary_memory(0_u8, 1);
        is_ordinary_memory(0_i16, -1);
        is_ordinary_memory(0.0_f32, 1.5);
        is_ordinary_memory(0_i64, i64::MIN);
        is_ordinary_memory(0.0_f64, -0.5);
    }

    #[test]
    fn more_than_can_be_addressed_is_refused() {
        for len in [usize::MAX, usize::MAX / 8, isize::MAX as usize / 8 + 1] {
            let refused = Buffer::<f64>::zeroed(len);
            assert!(matches!(refused, Err(Error::Allocation { .. })), "{len}");
        }
    }

    #[test]
    fn what_launches_write_to_a_shared_buffer_is_in_the_buffer() {
        let mut buffer = Buffer::<i32>::zeroed(100).unwrap();
        buffer[0] = 1;
        let shared = buffer.share();
        let again = shared;
        // As launches do: one writes what another reads.
        for at in 1..shared.len() {
            // SAFETY: both lead to the same 100 elements, and no slice of them exists.
            unsafe {
                let before = shared.start().add(at - 1).read();
                again.start().add(at).write(before + 1);
            }
        }
        assert_eq!(buffer.iter().sum::<i32>(), 5050);
    }

    #[test]
    fn a_buffer_may_be_dropped_by_another_thread_than_its_maker() {
        let mut buffer = Buffer::<u16>::zeroed(10).unwrap();
        thread::scope(|scope| {
            for part in buffer.chunks_mut(5) {
                scope.spawn(|| part.fill(7));
            }
        });
        let sum = thread::spawn(move || buffer.iter().sum::<u16>()).join();
        assert_eq!(sum.unwrap(), 70);
    }
}
