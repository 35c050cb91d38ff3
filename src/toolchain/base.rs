//! The libraries that belong to the base system and so are no part of a tool's identity.
//!
//! Machines with the same tools must get the same keys, although each distribution and each
//! security update brings another build of these. They are the C and C++ runtime and what tools
//! read, print and compress with; they do not decide what code a compiler generates.
//! - libz3 is here because LLVM calls it from the static analyser alone, never to compile.
//! - libm is here although LLVM folds constants such as `sin(1.0)` with it: glibc keeps those
//!   functions to the same bounds in every release, and a kernel's result may differ within them
//!   from one machine to the next anyhow.
//!
//! When in doubt a library is not here: then its update costs a rebuild, never a wrong artifact.

/// Names up to `.so`, sorted.
const BASE: &[&str] = &[
    "ld-linux",
    "ld-linux-aarch64",
    "ld-linux-x86-64",
    "ld64",
    "libanl",
    "libatomic",
    "libbsd",
    "libbz2",
    "libc",
    "libcrypt",
    "libdl",
    "libedit",
    "libexpat",
    "libffi",
    "libgcc_s",
    "libjansson",
    "liblzma",
    "libm",
    "libmd",
    "libmvec",
    "libncurses",
    "libncursesw",
    "libnsl",
    "libpthread",
    "libreadline",
    "libresolv",
    "librt",
    "libstdc++",
    "libtinfo",
    "libtinfow",
    "libutil",
    "libxml2",
    "libz",
    "libz3",
    "libzstd",
];

/// Whether a library, by the name under which it is loaded, belongs to the base system.
pub(super) fn is_base(library: &[u8]) -> bool {
    let stem = library
        .windows(3)
        .position(|window| window == b".so")
        .and_then(|end| library.get(..end));
    stem.is_some_and(|stem| {
        let known = BASE
            .binary_search_by(|base| base.as_bytes().cmp(stem))
            .is_ok();
        known
            || stem.starts_with(b"libicu")
            || stem.starts_with(b"ld-musl")
            || stem.starts_with(b"libc.musl")
    })
}

/// The shells and their like, whose version does not change what a wrapper script executes.
pub(super) fn is_shell(name: &[u8]) -> bool {
    const SHELLS: [&[u8]; 9] = [
        b"sh", b"dash", b"bash", b"ash", b"ksh", b"mksh", b"zsh", b"env", b"busybox",
    ];
    SHELLS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_for_the_search() {
        assert!(BASE.is_sorted());
    }

    #[test]
    fn runtime_libraries_are_base_and_the_compilers_are_not() {
        for base in [
            "libc.so.6",
            "libstdc++.so.6",
            "libicuuc.so.72",
            "ld-linux-x86-64.so.2",
            "libz.so.1",
        ] {
            assert!(is_base(base.as_bytes()), "{base}");
        }
        for own in [
            "libLLVM.so.22.1",
            "libMLIR.so.22.1",
            "libclang-cpp.so.22.1",
            "libbfd-2.40-system.so",
            "libc",
            "",
        ] {
            assert!(!is_base(own.as_bytes()), "{own}");
        }
    }
}
