//! Writing an AIE section: the same bytes as upstream's packer, without copying the blobs.

use std::collections::HashMap;
use std::io::{self, Write};

use super::KernelKind;
use super::bytes::size_of;
use super::section::{ENTRY_SIZE, HEADER_SIZE, MAGIC, VERSION};

/// A kernel to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteKernel<'a> {
    /// Its name, without NUL.
    pub name: &'a str,
    /// What `insts` is.
    pub kind: KernelKind,
    /// The instruction stream, or the full ELF.
    pub insts: &'a [u8],
    /// The PDI; empty for none.
    pub pdi: &'a [u8],
    /// Size of the kernarg block in bytes.
    pub kernarg_size: u32,
    /// Columns of the partition.
    pub columns: u32,
}

/// More than the format's 32-bit offsets can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernels take more than the 4 GiB that an AIE section can have")]
pub struct TooLarge;

/// A section as it will be in the file: what was made for it, and the blobs where they are.
#[derive(Clone, Debug)]
pub struct SectionImage<'a> {
    /// Header, kernel table and string table.
    head: Vec<u8>,
    /// The blob pool.
    blobs: Vec<&'a [u8]>,
    size: u32,
}

impl<'a> SectionImage<'a> {
    /// Lays out the kernels: the table in their order, equal blobs once, in the order of their
    /// first use.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn new(kernels: &[WriteKernel<'a>]) -> Result<Self, TooLarge> {
        let names: usize = kernels.iter().map(|kernel| kernel.name.len() + 1).sum();
        let names = u32::try_from(names).map_err(|_| TooLarge)?;
        let count = u32::try_from(kernels.len()).map_err(|_| TooLarge)?;
        let strings_offset = (count.checked_mul(ENTRY_SIZE))
            .and_then(|table| table.checked_add(HEADER_SIZE))
            .ok_or(TooLarge)?;
        let pool_offset = strings_offset.checked_add(names).ok_or(TooLarge)?;

        let mut words = Words(Vec::with_capacity(
            usize::try_from(pool_offset).map_err(|_| TooLarge)?,
        ));
        words.push(MAGIC);
        words.0.extend(VERSION.0.to_le_bytes());
        words.0.extend(VERSION.1.to_le_bytes());
        words.push(HEADER_SIZE);
        words.push(count);
        words.push(ENTRY_SIZE);
        words.push(strings_offset);
        words.push(names);
        words.push(pool_offset);
        words.reserved::<4>();

        let mut pool = Pool::new(pool_offset);
        let mut name_offset = 0;
        for kernel in kernels {
            words.push(name_offset);
            for blob in [kernel.insts, kernel.pdi] {
                let (offset, size) = pool.place(blob)?;
                words.push(offset);
                words.push(size);
            }
            words.push(kernel.kernarg_size);
            words.push(kernel.columns);
            words.push(kernel.kind.word());
            words.reserved::<3>();
            // The sum of all was found to fit above.
            name_offset += u32::try_from(kernel.name.len() + 1).map_err(|_| TooLarge)?;
        }
        for kernel in kernels {
            words.0.extend(kernel.name.as_bytes());
            words.0.push(0);
        }
        Ok(Self {
            head: words.0,
            blobs: pool.blobs,
            size: pool.end,
        })
    }

    /// Bytes that it has.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Writes it.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.head)?;
        self.blobs.iter().try_for_each(|blob| out.write_all(blob))
    }

    /// The section in one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        for blob in &self.blobs {
            bytes.extend_from_slice(blob);
        }
        bytes
    }
}

/// Words one after the other.
struct Words(Vec<u8>);

impl Words {
    fn push(&mut self, word: u32) {
        self.0.extend(word.to_le_bytes());
    }

    fn reserved<const N: usize>(&mut self) {
        for _ in 0..N {
            self.push(0);
        }
    }
}

/// The blobs that a section holds.
struct Pool<'a> {
    blobs: Vec<&'a [u8]>,
    /// Blobs with their offsets, by size: only those of one size have to be compared.
    by_size: HashMap<usize, Vec<(&'a [u8], u32)>>,
    end: u32,
}

impl<'a> Pool<'a> {
    fn new(offset: u32) -> Self {
        Self {
            blobs: Vec::new(),
            by_size: HashMap::new(),
            end: offset,
        }
    }

    /// Offset and size of `blob` in the section; zeros for no blob.
    fn place(&mut self, blob: &'a [u8]) -> Result<(u32, u32), TooLarge> {
        if blob.is_empty() {
            return Ok((0, 0));
        }
        let size = u32::try_from(size_of(blob)).map_err(|_| TooLarge)?;
        let same_size = self.by_size.entry(blob.len()).or_default();
        // The kernels of a full ELF share it in memory, too.
        let known =
            (same_size.iter()).find(|(other, _)| other.as_ptr() == blob.as_ptr() || *other == blob);
        if let Some((_, offset)) = known {
            return Ok((*offset, size));
        }
        let offset = self.end;
        self.end = offset.checked_add(size).ok_or(TooLarge)?;
        same_size.push((blob, offset));
        self.blobs.push(blob);
        Ok((offset, size))
    }
}
