//! Files of other kinds that are given in the place of MLIR text, known by how they begin.

use super::error::ScanError;

/// How each kind begins, what it is, and how to get at MLIR text.
const KINDS: &[(&[u8], &str, &str)] = &[
    // mlir/Bytecode/Encoding.h
    (b"ML\xefR", "MLIR bytecode", BYTECODE),
    // llvm/BinaryFormat/Magic.cpp
    (b"BC\xc0\xde", "LLVM bitcode", LOWERED),
    (b"\xde\xc0\x17\x0b", "LLVM bitcode", LOWERED),
    (b"\x7fELF", "an ELF file", COMPILED),
    (b"xclbin2\0", "an xclbin", COMPILED),
    (b"!<arch>\n", "an archive of object files", COMPILED),
    (b"\x1f\x8b", "compressed by gzip", COMPRESSED),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", COMPRESSED),
    (b"\xfd7zXZ\0", "compressed by xz", COMPRESSED),
    (b"BZh", "compressed by bzip2", COMPRESSED),
    (b"PK\x03\x04", "a zip archive", COMPRESSED),
    (b"\xef\xbb\xbf", "text with a byte order mark", MARKED),
    // Before UTF-16, whose mark it begins with.
    (b"\xff\xfe\0\0", "text in UTF-32", ENCODED),
    (b"\0\0\xfe\xff", "text in UTF-32", ENCODED),
    (b"\xff\xfe", "text in UTF-16", ENCODED),
    (b"\xfe\xff", "text in UTF-16", ENCODED),
];

const BYTECODE: &str = "turn it into text with `mlir-opt FILE -o kernel.mlir`, or with air-opt or aie-opt if it holds their dialects";
const LOWERED: &str = "give the MLIR that it was lowered from";
const COMPILED: &str = "give the MLIR that it was compiled from";
const COMPRESSED: &str = "unpack it first";
const MARKED: &str = "MLIR's tools refuse the mark, save it without one";
const ENCODED: &str = "MLIR is UTF-8, convert it with `iconv -t UTF-8`";

/// Refuses bytes that are known to be something else.
pub(super) fn check(bytes: &[u8]) -> Result<(), ScanError> {
    let known = KINDS.iter().find(|(magic, ..)| bytes.starts_with(magic));
    match known {
        Some((_, kind, remedy)) => Err(ScanError::OtherFormat { kind, remedy }),
        None => Ok(()),
    }
}
