//! A look at a shared object before the system's loader sees it: that loader trusts what it maps
//! and crashes on garbage or on a truncated file. All reads are bounds-checked.

use crate::ArtifactFault;

/// `e_machine` of the host (System V gABI).
const HOST: u16 = if cfg!(target_arch = "x86_64") {
    62 // EM_X86_64
} else if cfg!(target_arch = "aarch64") {
    183 // EM_AARCH64
} else if cfg!(target_arch = "riscv64") {
    243 // EM_RISCV
} else if cfg!(target_arch = "loongarch64") {
    258 // EM_LOONGARCH
} else if cfg!(target_arch = "powerpc64") {
    21 // EM_PPC64
} else if cfg!(target_arch = "s390x") {
    22 // EM_S390
} else {
    0 // EM_NONE: no kernel fits.
};

/// `EI_DATA` of the host: 1 is little-endian, 2 is big-endian.
const BYTE_ORDER: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };

const HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
const SECTION_HEADER: u64 = 64;
const CLASS_64: u8 = 2;
const ET_DYN: u16 = 3;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;

/// Whether all that the loader would map of a shared object lies within its file. What is no shared
/// object of this host's byte order passes: the loader says so itself.
pub(crate) fn is_whole(path: &std::path::Path) -> std::io::Result<bool> {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let mut start = vec![0; usize::try_from(length.min(HEADER)).unwrap_or_default()];
    file.read_exact_at(&mut start, 0)?;
    let header = File(&start);
    let is_ours = start.starts_with(b"\x7fELF") && start.get(4..6) == Some(&[CLASS_64, BYTE_ORDER]);
    if !is_ours {
        return Ok(true);
    }
    let Ok((table, count)) = header.u64(32).and_then(|at| Ok((at, header.u16(56)?))) else {
        return Ok(false);
    };
    let size = u64::from(count) * PROGRAM_HEADER;
    if table.checked_add(size).is_none_or(|end| end > length) {
        return Ok(false);
    }
    let mut segments = vec![0; usize::from(count) * PROGRAM_HEADER as usize];
    file.read_exact_at(&mut segments, table)?;
    let segments = segments.chunks_exact(PROGRAM_HEADER as usize);
    Ok(segments
        .map(|segment| Segment::read(File(segment), 0))
        .all(|segment| {
            segment.is_ok_and(|segment| segment.kind != PT_LOAD || segment.ends_by(length))
        }))
}

/// Whether `bytes` are a whole shared object for this host: its headers agree with each other,
/// and all that they name lies within the file.
pub(crate) fn check(bytes: &[u8]) -> Result<(), ArtifactFault> {
    let file = File(bytes);
    if bytes.is_empty() {
        return Err(ArtifactFault::Empty);
    }
    if !bytes.starts_with(b"\x7fELF") {
        return Err(ArtifactFault::NotElf);
    }
    if file.len() < HEADER {
        return Err(file.truncated());
    }
    if bytes.get(4..7) != Some(&[CLASS_64, BYTE_ORDER, 1]) || file.u16(16)? != ET_DYN {
        return Err(ArtifactFault::NotSharedObject);
    }
    let machine = file.u16(18)?;
    if machine != HOST {
        return Err(ArtifactFault::Machine {
            expected: HOST,
            found: machine,
        });
    }
    check_sections(file)?;
    check_segments(file)
}

/// The section headers come last in a file that a linker wrote: where they are whole, so is it.
fn check_sections(file: File<'_>) -> Result<(), ArtifactFault> {
    let (offset, entry, count) = (file.u64(40)?, file.u16(58)?, file.u16(60)?);
    if count != 0 && u64::from(entry) != SECTION_HEADER {
        return Err(malformed("section header table"));
    }
    file.covers(offset, u64::from(count) * SECTION_HEADER)
}

fn check_segments(file: File<'_>) -> Result<(), ArtifactFault> {
    let (offset, entry, count) = (file.u64(32)?, file.u16(54)?, file.u16(56)?);
    if count == 0 || u64::from(entry) != PROGRAM_HEADER {
        return Err(malformed("program header table"));
    }
    file.covers(offset, u64::from(count) * PROGRAM_HEADER)?;
    let mut loads = Vec::new();
    let mut dynamic = None;
    for index in 0..u64::from(count) {
        let segment = Segment::read(file, offset + index * PROGRAM_HEADER)?;
        match segment.kind {
            PT_LOAD => {
                segment.check_load(loads.last())?;
                file.covers(segment.offset, segment.file_size)?;
                loads.push(segment);
            }
            PT_DYNAMIC => dynamic = Some(segment),
            _ => {}
        }
    }
    let dynamic = dynamic.ok_or(malformed("dynamic segment"))?;
    if loads.iter().any(|load| load.contains(&dynamic)) {
        Ok(())
    } else {
        Err(malformed("dynamic segment"))
    }
}

/// A program header.
struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    file_size: u64,
    memory_size: u64,
    alignment: u64,
}

impl Segment {
    fn read(file: File<'_>, at: u64) -> Result<Self, ArtifactFault> {
        Ok(Self {
            kind: file.u32(at)?,
            offset: file.u64(at + 8)?,
            address: file.u64(at + 16)?,
            file_size: file.u64(at + 32)?,
            memory_size: file.u64(at + 40)?,
            alignment: file.u64(at + 48)?,
        })
    }

    /// Whether its bytes are within a file of this length.
    fn ends_by(&self, length: u64) -> bool {
        let end = self.offset.checked_add(self.file_size);
        end.is_some_and(|end| end <= length)
    }

    /// A loadable segment follows the `previous` one in memory, and its place in the file agrees
    /// with the one in memory as the gABI asks.
    fn check_load(&self, previous: Option<&Self>) -> Result<(), ArtifactFault> {
        // No host gives a process more than 2⁴⁷ bytes for one object.
        const SPACE: u64 = 1 << 47;
        let end = self.address.checked_add(self.memory_size);
        let after = previous.is_none_or(|p| p.address + p.memory_size <= self.address);
        let aligned = self.alignment.is_power_of_two()
            && self.address % self.alignment == self.offset % self.alignment;
        if self.file_size <= self.memory_size
            && end.is_some_and(|end| end <= SPACE)
            && after
            && aligned
        {
            Ok(())
        } else {
            Err(malformed("loadable segment"))
        }
    }

    /// Whether all of `inner` is read from the file as a part of this segment.
    fn contains(&self, inner: &Self) -> bool {
        let Some(start) = inner.address.checked_sub(self.address) else {
            return false;
        };
        inner.file_size >= 16
            && inner.memory_size == inner.file_size
            && inner.offset.checked_sub(self.offset) == Some(start)
            && start
                .checked_add(inner.file_size)
                .is_some_and(|end| end <= self.file_size)
    }
}

#[derive(Clone, Copy)]
struct File<'a>(&'a [u8]);

impl File<'_> {
    fn len(self) -> u64 {
        self.0.len() as u64
    }

    fn truncated(self) -> ArtifactFault {
        ArtifactFault::Truncated { size: self.0.len() }
    }

    /// Refuses a range that does not lie within the file.
    fn covers(self, offset: u64, size: u64) -> Result<(), ArtifactFault> {
        match offset.checked_add(size) {
            Some(end) if end <= self.len() => Ok(()),
            _ => Err(self.truncated()),
        }
    }

    fn bytes<const N: usize>(self, at: u64) -> Result<[u8; N], ArtifactFault> {
        usize::try_from(at)
            .ok()
            .and_then(|at| self.0.get(at..)?.first_chunk())
            .copied()
            .ok_or_else(|| self.truncated())
    }

    fn u16(self, at: u64) -> Result<u16, ArtifactFault> {
        self.bytes(at).map(u16::from_ne_bytes)
    }

    fn u32(self, at: u64) -> Result<u32, ArtifactFault> {
        self.bytes(at).map(u32::from_ne_bytes)
    }

    fn u64(self, at: u64) -> Result<u64, ArtifactFault> {
        self.bytes(at).map(u64::from_ne_bytes)
    }
}

fn malformed(part: &'static str) -> ArtifactFault {
    ArtifactFault::Malformed { part }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    /// A position-independent executable is a shared object by its headers, and this test is one
    /// that a real linker wrote.
    static REAL: LazyLock<Vec<u8>> = LazyLock::new(|| std::fs::read("/proc/self/exe").unwrap());

    #[test]
    #[cfg_attr(miri, ignore = "needs an executable")]
    fn what_a_linker_wrote_is_accepted() {
        assert_eq!(check(&REAL), Ok(()));
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs an executable")]
    fn every_truncation_is_noticed() {
        let len = REAL.len();
        for cut in [1, 2, 63, 64, 65, len / 2, len - 64, len - 1] {
            let size = len - cut;
            let expected = if size < 4 {
                ArtifactFault::NotElf
            } else {
                ArtifactFault::Truncated { size }
            };
            assert_eq!(check(&REAL[..size]), Err(expected));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            cases: if cfg!(miri) { 8 } else { 2000 },
            ..ProptestConfig::default()
        })]

        #[test]
        fn no_bytes_are_read_beyond_the_end(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..600),
            kind in any::<bool>(),
        ) {
            if kind && bytes.len() >= 64 {
                bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', CLASS_64, BYTE_ORDER, 1]);
                bytes[16..20].copy_from_slice(&[&ET_DYN.to_ne_bytes()[..], &HOST.to_ne_bytes()].concat());
                bytes[54..56].copy_from_slice(&56_u16.to_ne_bytes());
                bytes[58..60].copy_from_slice(&64_u16.to_ne_bytes());
            }
            prop_assert!(check(&bytes).is_err());
        }

        /// A damaged program header never lets a segment through that is not in the file.
        #[test]
        fn segments_that_pass_are_within_the_file(at in 64..600_usize, value: u8) {
            if cfg!(miri) {
                return Ok(());
            }
            let mut bytes = REAL.clone();
            bytes[at] = value;
            if check(&bytes).is_ok() {
                let file = File(&bytes);
                for index in 0..u64::from(file.u16(56).unwrap()) {
                    let segment = Segment::read(file, file.u64(32).unwrap() + 56 * index).unwrap();
                    let end = segment.offset.checked_add(segment.file_size);
                    prop_assert!(segment.kind != PT_LOAD || end.unwrap() <= bytes.len() as u64);
                }
            }
        }
    }
}
