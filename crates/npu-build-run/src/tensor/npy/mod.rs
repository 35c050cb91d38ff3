//! NumPy's `.npy` files. [`Npy::open`] reads and judges a header, [`Npy::read_into`] the elements:
//! swapped if the file has the other byte order, in row-major order whatever theirs is.
//!
//! A file may be anybody's: what its header promises is compared with its length before it is
//! believed.

mod error;
mod header;
#[cfg(test)]
mod tests;
mod write;

use std::fs::{self, File};
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use npu_runtime::ElementType;

pub use error::{NpyError, NpyFault};
use header::Header;
pub use write::save;

use super::{data, product, size};

/// An opened file whose header is right and whose length is what it says.
#[derive(Debug)]
pub struct Npy {
    path: PathBuf,
    /// At the first element.
    file: File,
    header: Header,
}

impl Npy {
    /// Opens a file of elements that can be `element`s.
    ///
    /// # Errors
    /// When it is not a `.npy` file, one of another type, or one that is cut off or too long.
    pub fn open(path: &Path, element: &ElementType) -> Result<Self, NpyError> {
        Self::opened(path, element).map_err(|fault| fault.of(path))
    }

    fn opened(path: &Path, element: &ElementType) -> Result<Self, NpyFault> {
        // Before it is opened: that might wait for ever.
        if !fs::metadata(path).map_err(NpyFault::Read)?.is_file() {
            return Err(NpyFault::NotRegular);
        }
        let mut file = File::open(path).map_err(NpyFault::Read)?;
        let length = file.metadata().map_err(NpyFault::Read)?.len();
        let mut header = Header::read(&mut file)?;
        header.check_type(element)?;
        let elements = product(&header.shape).ok_or(NpyFault::TooLarge)? as u64;
        let promised = elements.checked_mul(size(&data(element).0) as u64);
        let promised = promised.ok_or(NpyFault::TooLarge)?;
        let found = length.saturating_sub(header.bytes);
        if found < promised {
            return Err(NpyFault::Truncated { promised, found });
        }
        if found > promised {
            return Err(NpyFault::Trailing { promised, found });
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            header,
        })
    }

    /// The shape, outermost dimension first; for elements of bytes that of their data.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.header.shape
    }

    /// Reads the elements into memory of their size.
    ///
    /// # Errors
    /// When the file can't be read, or has become another one; when an element is not of its type.
    pub fn read_into(self, element: &ElementType, bytes: &mut [u8]) -> Result<(), NpyError> {
        let path = self.path.clone();
        self.read(element, bytes).map_err(|fault| fault.of(&path))
    }

    fn read(mut self, element: &ElementType, bytes: &mut [u8]) -> Result<(), NpyFault> {
        let width = size(element);
        let shape = &self.header.shape;
        if self.header.fortran && shape.iter().filter(|dim| **dim > 1).count() > 1 {
            let mut reader = BufReader::with_capacity(1 << 16, self.file);
            let mut places = Places::new(shape);
            for _ in 0..bytes.len() / width {
                let at = places.next() * width;
                let chunk = bytes.get_mut(at..at + width).ok_or(NpyFault::TooLarge)?;
                reader.read_exact(chunk).map_err(NpyFault::Read)?;
            }
        } else {
            self.file.read_exact(bytes).map_err(NpyFault::Read)?;
        }
        if self.header.is_swapped {
            bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        }
        if *element == ElementType::I1
            && let Some((index, value)) = bytes.iter().enumerate().find(|(_, byte)| **byte > 1)
        {
            let value = *value;
            return Err(NpyFault::NotBool { index, value });
        }
        Ok(())
    }
}

/// The row-major places of elements in column-major order: the first dimension is the fastest.
struct Places<'a> {
    shape: &'a [usize],
    strides: Vec<usize>,
    at: Vec<usize>,
    place: usize,
}

impl<'a> Places<'a> {
    fn new(shape: &'a [usize]) -> Self {
        let mut strides = vec![1; shape.len()];
        let mut stride = 1;
        for (to, dim) in strides.iter_mut().zip(shape).rev() {
            *to = stride;
            stride *= dim;
        }
        Self {
            shape,
            strides,
            at: vec![0; shape.len()],
            place: 0,
        }
    }

    fn next(&mut self) -> usize {
        let place = self.place;
        let dims = self.shape.iter().zip(&self.strides);
        for (at, (dim, stride)) in self.at.iter_mut().zip(dims) {
            *at += 1;
            self.place += stride;
            if *at < *dim {
                break;
            }
            self.place -= stride * dim;
            *at = 0;
        }
        place
    }
}
