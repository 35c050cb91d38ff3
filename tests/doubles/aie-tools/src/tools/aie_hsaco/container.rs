//! The AIE section, and an ELF's sections.

use crate::bytes::{Image, u32_at, u64_at};

/// A kernel of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its instructions, or the whole full ELF.
    pub insts: Vec<u8>,
    /// Its PDI, empty if there is none.
    pub pdi: Vec<u8>,
    /// The size of its arguments.
    pub kernarg: u32,
    /// Its columns.
    pub columns: u32,
    /// 0: instructions and PDI; 1: full ELF.
    pub kind: u32,
}

/// The bytes of a section.
pub fn section(kernels: &[Kernel]) -> Vec<u8> {
    let (mut names, mut pool, mut table) = (Vec::new(), Vec::new(), Image::default());
    let mut placed: Vec<(Vec<u8>, usize)> = Vec::new();
    let names_at = 48 + 44 * kernels.len();
    let names_size: usize = kernels.iter().map(|k| k.name.len() + 1).sum();
    let pool_at = names_at + names_size;
    let mut place = |blob: &Vec<u8>| -> [u32; 2] {
        if blob.is_empty() {
            return [0, 0];
        }
        let known = placed
            .iter()
            .find(|(bytes, _)| bytes == blob)
            .map(|(_, at)| *at);
        let at = known.unwrap_or_else(|| {
            let at = pool_at + pool.len();
            pool.extend_from_slice(blob);
            placed.push((blob.clone(), at));
            at
        });
        [at as u32, blob.len() as u32]
    };
    for kernel in kernels {
        table.u32(names.len() as u32);
        names.extend_from_slice(kernel.name.as_bytes());
        names.push(0);
        table.words(&place(&kernel.insts));
        table.words(&place(&kernel.pdi));
        table.words(&[kernel.kernarg, kernel.columns, kernel.kind, 0, 0, 0]);
    }
    let mut image = Image::default();
    image.words(&[0x4b45_4941, 1, 48, kernels.len() as u32, 44]);
    image.words(&[
        names_at as u32,
        names_size as u32,
        pool_at as u32,
        0,
        0,
        0,
        0,
    ]);
    image.bytes(&table.0);
    image.bytes(&names);
    image.bytes(&pool);
    image.0
}

/// Reads a section.
pub fn kernels(section: &[u8]) -> Result<Vec<Kernel>, String> {
    let word = |at: usize| u32_at(section, at).ok_or("section is truncated");
    if word(0)? != 0x4b45_4941 {
        return Err("bad magic".to_owned());
    }
    if word(4)? & 0xffff != 1 {
        return Err("unsupported version".to_owned());
    }
    let (header, count, entry) = (word(8)? as usize, word(12)?, word(16)? as usize);
    let (names, pool_names) = (word(20)? as usize, word(24)? as usize);
    let strings = section
        .get(names..names + pool_names)
        .ok_or("string table is outside the section")?;
    let blob = |at: usize| -> Result<Vec<u8>, String> {
        let (offset, size) = (word(at)? as usize, word(at + 4)? as usize);
        let bytes = section
            .get(offset..offset + size)
            .ok_or("a blob is outside the section")?;
        Ok(bytes.to_vec())
    };
    let mut kernels = Vec::new();
    for index in 0..count as usize {
        let at = header + index * entry;
        let name = strings.get(word(at)? as usize..).unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let kernel = Kernel {
            name: String::from_utf8_lossy(name).into_owned(),
            insts: blob(at + 4)?,
            pdi: blob(at + 12)?,
            kernarg: word(at + 20)?,
            columns: word(at + 24)?,
            kind: word(at + 28)?,
        };
        if kernel.kind > 1 {
            return Err(format!(
                "kernel {index} has the unknown kind {}",
                kernel.kind
            ));
        }
        kernels.push(kernel);
    }
    Ok(kernels)
}

/// An empty ELF64 for AMDGPU: the header, `.shstrtab` and two section headers.
pub fn empty() -> Vec<u8> {
    let mut image = Image::default();
    image.bytes(b"\x7fELF\x02\x01\x01");
    image.fill_to(16);
    image.u16(1);
    image.u16(224);
    image.u32(1);
    image.u64(0);
    image.u64(0);
    image.u64(80);
    image.u32(0);
    for value in [64, 0, 0, 64, 2, 1] {
        image.u16(value);
    }
    image.bytes(b"\0.shstrtab\0");
    image.align(8);
    image.fill_to(image.len() + 64);
    image.words(&[1, 3]);
    for value in [0, 0, 64, 11] {
        image.u64(value);
    }
    image.words(&[0, 0]);
    for value in [1, 0] {
        image.u64(value);
    }
    image.0
}

/// The content of an ELF64's section, if it has one of that name.
pub fn elf_section(file: &[u8], wanted: &str) -> Option<Vec<u8>> {
    if !file.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let table = usize::try_from(u64_at(file, 40)?).ok()?;
    let halves = u32_at(file, 60)?;
    let (count, names) = ((halves & 0xffff) as usize, (halves >> 16) as usize);
    let bounds = |index: usize| -> Option<(usize, usize)> {
        let at = table + 64 * index;
        Some((
            usize::try_from(u64_at(file, at + 24)?).ok()?,
            usize::try_from(u64_at(file, at + 32)?).ok()?,
        ))
    };
    let (names_at, names_size) = bounds(names)?;
    let strings = file.get(names_at..names_at + names_size)?;
    for index in 1..count {
        let name = strings.get(u32_at(file, table + 64 * index)? as usize..)?;
        if name.split(|byte| *byte == 0).next()? == wanted.as_bytes() {
            let (offset, size) = bounds(index)?;
            return file.get(offset..offset + size).map(<[u8]>::to_vec);
        }
    }
    None
}
