//! External variables: parameters of a kernel that the host changes between launches, without
//! compiling or loading it again.

use crate::device::Backend;
use crate::error::{VariableError, VariableFault};
use crate::{Device, Element, Error, hsa};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// An external variable of a kernel, such as its control scratchpad `scratch-pad-ctrl`: elements
/// that the device reads when a launch begins.
///
/// A kernel brings its variables along, zero at first; [`Kernel::variable`](crate::Kernel::variable)
/// gives them by name. One that is made by [`Device::variable`] can be given to several kernels,
/// with [`Kernel::load_with`](crate::Kernel::load_with).
///
/// [`set`](Self::set) is an ordinary store, for any thread. A launch that runs at the same time
/// sees the old value or the new one.
#[derive(Clone)]
pub struct Variable<T: Element> {
    memory: Named,
    elements: PhantomData<[T]>,
}

/// The memory of a variable, whatever its elements are.
#[derive(Clone)]
struct Named {
    name: String,
    memory: Arc<hsa::Memory>,
    /// Keeps the device open; goes last.
    device: Device,
}

impl<T: Element> Variable<T> {
    pub(crate) fn new(device: &Device, name: &str, len: usize) -> Result<Self, Error> {
        let refused = |fault| refuse(name, fault);
        let bytes = len.saturating_mul(size_of::<T>());
        let Backend::Hsa(hsa) = &device.backend else {
            let runtime = device.runtime();
            return Err(refused(VariableFault::Runtime { runtime }));
        };
        if bytes == 0 || !bytes.is_multiple_of(4) {
            return Err(refused(VariableFault::Size { bytes }));
        }
        if name.is_empty() || name.contains('\0') {
            return Err(refused(VariableFault::Name));
        }
        let memory = Arc::new(hsa.memory(name, bytes)?);
        Ok(Self::of(device, name, memory))
    }

    /// The variable `name` of a kernel, whose variables are `known`.
    pub(crate) fn find(
        device: &Device,
        kernel: &str,
        known: &[(String, Arc<hsa::Memory>)],
        name: &str,
    ) -> Result<Self, Error> {
        let found = known.iter().find(|(other, _)| other == name);
        let (_, memory) = found.ok_or_else(|| {
            let kernel = kernel.into();
            let found = known.iter().map(|(name, _)| name.clone()).collect();
            refuse(name, VariableFault::Undefined { kernel, found })
        })?;
        let (bytes, element) = (memory.bytes(), size_of::<T>());
        if !bytes.is_multiple_of(element) {
            return Err(refuse(name, VariableFault::Element { bytes, element }));
        }
        Ok(Self::of(device, name, memory.clone()))
    }

    fn of(device: &Device, name: &str, memory: Arc<hsa::Memory>) -> Self {
        Self {
            memory: Named {
                name: name.into(),
                memory,
                device: device.clone(),
            },
            elements: PhantomData,
        }
    }

    /// Its symbol in the kernel.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.memory.name
    }

    /// The number of elements; there is at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no variable is empty")]
    pub fn len(&self) -> usize {
        self.memory.memory.bytes() / size_of::<T>()
    }

    /// Changes an element, for all launches from now on.
    ///
    /// # Errors
    /// [`Error::Variable`] if there are not more than `index` elements.
    #[inline]
    pub fn set(&self, index: usize, value: T) -> Result<(), Error> {
        let place = self.place(index)?;
        let bits = value.bits();
        // SAFETY: it is the place of an element, aligned to its size, in memory that lives as long
        // as `self` and that the host only accesses through atomics.
        unsafe {
            match size_of::<T>() {
                1 => AtomicU8::from_ptr(place).store(bits as u8, Ordering::Relaxed),
                2 => AtomicU16::from_ptr(place.cast()).store(bits as u16, Ordering::Relaxed),
                4 => AtomicU32::from_ptr(place.cast()).store(bits as u32, Ordering::Relaxed),
                _ => AtomicU64::from_ptr(place.cast()).store(bits, Ordering::Relaxed),
            }
        }
        Ok(())
    }

    /// An element as it is now.
    ///
    /// # Errors
    /// [`Error::Variable`] if there are not more than `index` elements.
    #[inline]
    pub fn get(&self, index: usize) -> Result<T, Error> {
        let place = self.place(index)?;
        // SAFETY: as in `set`.
        let bits = unsafe {
            match size_of::<T>() {
                1 => AtomicU8::from_ptr(place).load(Ordering::Relaxed).into(),
                2 => AtomicU16::from_ptr(place.cast())
                    .load(Ordering::Relaxed)
                    .into(),
                4 => AtomicU32::from_ptr(place.cast())
                    .load(Ordering::Relaxed)
                    .into(),
                _ => AtomicU64::from_ptr(place.cast()).load(Ordering::Relaxed),
            }
        };
        Ok(T::from_bits(bits))
    }

    #[inline]
    fn place(&self, index: usize) -> Result<*mut u8, Error> {
        let len = self.len();
        if index >= len {
            return Err(refuse(self.name(), VariableFault::Index { index, len }));
        }
        // The allocation is page-aligned, and its elements follow each other.
        Ok(self
            .memory
            .memory
            .start()
            .wrapping_add(index * size_of::<T>()))
    }
}

#[cold]
fn refuse(name: &str, fault: VariableFault) -> Error {
    let name = name.into();
    Error::Variable(Box::new(VariableError { name, fault }))
}

impl<T: Element> fmt::Debug for Variable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, len) = (self.name(), self.len());
        write!(f, "Variable `{name}` of {len} {}", T::PRIMITIVE.name())
    }
}

/// Variables that are to be given to a kernel, each name once.
///
/// ```no_run
/// # use npu_runtime::{Device, Error, Image, Kernel, Runtime, Signature, Variables};
/// # fn load(images: [&[Image]; 2], signatures: [Signature; 2]) -> Result<(), Error> {
/// let device = Device::open(Runtime::Hsa)?;
/// let gain = device.variable::<f32>("gain", 1)?;
/// let variables = Variables::new().with(&gain)?;
/// let [first, second] = signatures;
/// let first = Kernel::load_with(&device, images[0], first, &variables)?;
/// let second = Kernel::load_with(&device, images[1], second, &variables)?;
/// // For the launches of both.
/// gain.set(0, 0.5)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Variables {
    memory: Vec<(String, Arc<hsa::Memory>)>,
    /// Keep the device open; go last.
    devices: Vec<Device>,
}

impl Variables {
    /// None at first.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            memory: Vec::new(),
            devices: Vec::new(),
        }
    }

    /// Adds a variable.
    ///
    /// # Errors
    /// [`Error::Variable`] if there is one of this name already.
    pub fn with<T: Element>(mut self, variable: &Variable<T>) -> Result<Self, Error> {
        let Named {
            name,
            memory,
            device,
        } = &variable.memory;
        if self.memory.iter().any(|(other, _)| other == name) {
            return Err(refuse(name, VariableFault::Twice));
        }
        self.memory.push((name.clone(), memory.clone()));
        self.devices.push(device.clone());
        Ok(self)
    }

    pub(crate) fn given(&self) -> &[(String, Arc<hsa::Memory>)] {
        &self.memory
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.memory.iter().map(|(name, _)| name))
            .finish()
    }
}
