//! Where the dynamic loader looks for a library, as ld.so(8) and glibc's `elf/dl-load.c` have it for
//! a process with a cleared environment: RPATH or RUNPATH, `/etc/ld.so.cache`, default directories.
//!
//! The cache is taken for what `/etc/ld.so.conf` says, as the loader takes it: a directory that is
//! configured but not yet in the cache is not searched. Takes hostile bytes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::stamp::Watch;

/// A cache of more bytes than this is not read; ten thousand libraries take one megabyte.
const MAX_CACHE: u64 = 32 << 20;

/// The subdirectories in which glibc prefers a library built for newer processors, by architecture
/// level (x86-64 psABI), best first.
const HWCAPS: &str = "glibc-hwcaps";

/// The system's part of the search.
pub(super) struct Loader {
    /// `/etc/ld.so.cache`.
    pub(super) cache: PathBuf,
    /// The directories that are searched when the cache does not know a library.
    pub(super) defaults: Vec<PathBuf>,
    entries: Option<Entries>,
}

/// What `/etc/ld.so.cache` says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Entries {
    paths: BTreeMap<OsString, PathBuf>,
    /// Whether any entry is for some processors only.
    by_level: bool,
}

impl Loader {
    /// This machine's.
    pub(super) fn host() -> Self {
        let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
        let defaults = ["/lib", "/usr/lib"]
            .iter()
            .map(|base| Path::new(base).join(&triplet))
            .chain(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from))
            .collect();
        Self {
            cache: PathBuf::from("/etc/ld.so.cache"),
            defaults,
            entries: None,
        }
    }

    /// Where the cache says that `library` is.
    pub(super) fn cached(&mut self, library: &OsStr, watch: &mut Watch) -> Option<PathBuf> {
        watch.see(&self.cache)?;
        let cache = &self.cache;
        let read = || read_cache(cache).unwrap_or_default();
        let entries = self.entries.get_or_insert_with(read);
        if entries.by_level {
            watch.see_level();
        }
        entries.paths.get(library).cloned()
    }
}

/// The directories that stand for `directory`, best first: those for newer processors, and itself.
/// None if it is not there.
pub(super) fn with_hwcaps(directory: &Path, watch: &mut Watch) -> Vec<PathBuf> {
    // The stamp of a directory stands for all names that are not in it.
    if watch.see(directory).is_none() {
        return Vec::new();
    }
    let hwcaps = directory.join(HWCAPS);
    let mut directories = Vec::new();
    if std::fs::symlink_metadata(&hwcaps).is_ok() {
        watch.see_level();
        let levels = levels().iter().map(|level| hwcaps.join(level));
        directories.extend(levels.filter(|level| watch.see(level).is_some()));
    }
    directories.push(directory.to_owned());
    directories
}

/// The subdirectories that glibc before 2.37 prefers on some processor (`_dl_important_hwcaps`), as far
/// as they are there: combinations of these names, in this order.
pub(super) fn legacy(directory: &Path, watch: &mut Watch) -> Vec<PathBuf> {
    const NAMES: [&str; 5] = [
        "tls",
        "haswell",
        "xeon_phi",
        "avx512_1",
        std::env::consts::ARCH,
    ];
    // The stamp of a directory stands for all names that are not in it.
    if watch.see(directory).is_none() {
        return Vec::new();
    }
    let mut found: Vec<(PathBuf, usize)> = vec![(directory.to_owned(), 0)];
    let mut next = 0;
    while let Some((base, from)) = found.get(next).cloned() {
        for (number, name) in NAMES.iter().enumerate().skip(from) {
            let path = base.join(name);
            if std::fs::metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
                watch.see(&path);
                found.push((path, number + 1));
            }
        }
        next += 1;
    }
    found.into_iter().skip(1).map(|(path, _)| path).collect()
}

/// The directories of an RPATH or RUNPATH, with `$ORIGIN`, `$LIB` and `$PLATFORM` filled in.
/// Relative ones are left out: tools run in an empty directory.
pub(super) fn directories(list: &[u8], origin: &Path) -> Vec<PathBuf> {
    list.split(|byte| *byte == b':')
        .map(|entry| expand(entry, origin))
        .filter(|path| path.is_absolute())
        .collect()
}

/// Fills in the loader's tokens; `$NAME` and `${NAME}` alike, others stay as they are.
pub(super) fn expand(text: &[u8], origin: &Path) -> PathBuf {
    let mut expanded = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
        let (before, from) = rest.split_at(at);
        expanded.extend_from_slice(before);
        let braced = from.starts_with(b"${");
        let name = from.get(if braced { 2 } else { 1 }..).unwrap_or_default();
        let length = name
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
            .count();
        let (name, after) = name.split_at(length);
        let after = if braced {
            after.strip_prefix(b"}")
        } else {
            Some(after)
        };
        let value = match name {
            b"ORIGIN" => Some(origin.as_os_str().to_owned()),
            b"LIB" => Some(library_directory().into()),
            b"PLATFORM" => Some(std::env::consts::ARCH.into()),
            _ => None,
        };
        if let (Some(value), Some(after)) = (value, after) {
            expanded.extend_from_slice(value.as_bytes());
            rest = after;
        } else {
            expanded.push(b'$');
            rest = from.get(1..).unwrap_or_default();
        }
    }
    expanded.extend_from_slice(rest);
    PathBuf::from(OsString::from_vec(expanded))
}

/// What `$LIB` stands for: it is compiled into the loader, so this goes by what each family of
/// distributions has (Debian: `lib/x86_64-linux-gnu`, Fedora and SUSE: `lib64`, Arch: `lib`).
fn library_directory() -> String {
    let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    let real = |path: &str| std::fs::canonicalize(path).ok();
    if Path::new("/").join(&multiarch).is_dir() {
        multiarch
    } else if real("/lib64").is_some() && real("/lib64") != real("/lib") {
        "lib64".to_owned()
    } else {
        "lib".to_owned()
    }
}

/// The architecture levels that this processor has, best first.
#[cfg(target_arch = "x86_64")]
fn levels() -> &'static [&'static str] {
    use std::arch::is_x86_feature_detected as has;
    const LEVELS: &[&str] = &["x86-64-v4", "x86-64-v3", "x86-64-v2"];
    let v2 = has!("cmpxchg16b") && has!("popcnt") && has!("sse4.2") && has!("ssse3");
    let v3 = v2 && has!("avx2") && has!("bmi1") && has!("bmi2") && has!("f16c") && has!("fma");
    let v3 = v3 && has!("lzcnt") && has!("movbe");
    let v4 = v3 && has!("avx512f") && has!("avx512bw") && has!("avx512cd");
    let v4 = v4 && has!("avx512dq") && has!("avx512vl");
    let missing = if v4 {
        0
    } else if v3 {
        1
    } else if v2 {
        2
    } else {
        3
    };
    LEVELS.get(missing..).unwrap_or_default()
}

/// How many such levels this processor has: it may decide which libraries are loaded.
pub(super) fn level() -> u8 {
    u8::try_from(levels().len()).unwrap_or(u8::MAX)
}

/// glibc has such levels for few other architectures, and none with an NPU.
#[cfg(not(target_arch = "x86_64"))]
fn levels() -> &'static [&'static str] {
    &[]
}

fn read_cache(path: &Path) -> Option<Entries> {
    let mut bytes = Vec::new();
    File::open(path)
        .ok()?
        .take(MAX_CACHE)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(parse_cache(&bytes))
}

/// What marks a 64-bit library of this machine in the cache (`FLAG_ELF_LIBC6` and the ABI,
/// glibc `ldconfig.h`); for other machines the default directories have to do.
const FLAGS: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0x0303)
} else if cfg!(target_arch = "aarch64") {
    Some(0x0a03)
} else {
    None
};

/// Reads glibc's cache (`struct cache_file_new`), which may follow one in the format of libc5.
/// Of several entries for a library the first of the best level counts, as for the loader.
fn parse_cache(bytes: &[u8]) -> Entries {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    let mut cache = bytes;
    if cache.starts_with(OLD_MAGIC) {
        let entries = u32_at(cache, 12).unwrap_or_default() as usize;
        let end = entries
            .saturating_mul(12)
            .saturating_add(16)
            .next_multiple_of(8);
        cache = cache.get(end..).unwrap_or_default();
    }
    if !cache.starts_with(MAGIC) {
        return Entries::default();
    }
    let count = u32_at(cache, MAGIC.len()).unwrap_or_default() as usize;
    let mut best: BTreeMap<&[u8], (usize, &[u8])> = BTreeMap::new();
    let mut by_level = false;
    for entry in cache
        .get(HEADER..)
        .unwrap_or_default()
        .chunks_exact(ENTRY)
        .take(count)
    {
        let string = |at| string_at(cache, u32_at(entry, at)? as usize);
        let (Some(name), Some(path)) = (string(4), string(8)) else {
            continue;
        };
        let hwcap = (u32_at(entry, 16), u32_at(entry, 20));
        by_level |= is_by_level(hwcap);
        let (true, Some(rank)) = (u32_at(entry, 0) == FLAGS, rank(hwcap, path)) else {
            continue;
        };
        let known = best.get(name).map_or(usize::MAX, |(known, _)| *known);
        if rank < known {
            best.insert(name, (rank, path));
        }
    }
    let owned = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let paths = best.into_iter();
    Entries {
        paths: (paths.map(|(name, (_, path))| (owned(name), PathBuf::from(owned(path))))).collect(),
        by_level,
    }
}

/// Whether an entry is for processors of some level: the low half of its hwcap indexes
/// glibc-hwcaps names if bit 62 is set.
fn is_by_level((_, high): (Option<u32>, Option<u32>)) -> bool {
    high.is_some_and(|high| high & (1 << 30) != 0)
}

/// How good an entry is on this machine, less is better; `None` if it is for others.
fn rank(hwcap: (Option<u32>, Option<u32>), path: &[u8]) -> Option<usize> {
    if hwcap == (Some(0), Some(0)) {
        return Some(levels().len());
    }
    if !is_by_level(hwcap) {
        return None;
    }
    let path = Path::new(OsStr::from_bytes(path));
    let level = path.parent()?.file_name()?.to_str()?;
    levels().iter().position(|known| *known == level)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_ne_bytes(*field))
}

fn string_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    bytes.get(at..)?.split(|byte| *byte == 0).next()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_the_cache_as_ldconfig_prints_it() {
        let output = Command::new("/sbin/ldconfig").arg("-p").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let ours = read_cache(Path::new("/etc/ld.so.cache")).unwrap();
        let mut compared = 0;
        for line in text.lines() {
            let Some((name, rest)) = line.trim().split_once(" (libc6,x86-64)") else {
                continue;
            };
            let path = rest.rsplit(" => ").next().unwrap();
            // ldconfig prints in the order of the file: of equals the first counts.
            let first = text
                .lines()
                .find(|line| line.trim().starts_with(&format!("{name} (libc6,x86-64)")));
            if first == Some(line) {
                assert_eq!(
                    ours.paths.get(OsStr::new(name)),
                    Some(&PathBuf::from(path)),
                    "{name}"
                );
                compared += 1;
            }
        }
        println!("compared {compared} libraries with ldconfig -p");
        assert!(compared > 10 || std::env::consts::ARCH != "x86_64");
    }

    #[test]
    fn tokens_are_filled_in_with_and_without_braces() {
        let origin = Path::new("/opt/llvm/bin");
        let expanded = |text: &str| expand(text.as_bytes(), origin).to_str().unwrap().to_owned();
        assert_eq!(expanded("$ORIGIN/../lib"), "/opt/llvm/bin/../lib");
        assert_eq!(expanded("${ORIGIN}x"), "/opt/llvm/binx");
        assert_eq!(expanded("$ORIGINx/${ORIGIN"), "$ORIGINx/${ORIGIN");
        assert_eq!(expanded("/a$"), "/a$");
        assert_eq!(
            directories(b":lib:/a:$ORIGIN", origin),
            [Path::new("/a"), origin]
        );
    }

    proptest! {
        #[test]
        fn a_hostile_cache_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            magic in prop_oneof![Just(&b"glibc-ld.so.cache1.1"[..]), Just(&b"ld.so-1.7.0\0"[..]), Just(&b""[..])],
        ) {
            let _ = parse_cache(&[magic, &bytes].concat());
        }
    }
}
