//! Names that mean something else to compiled code.
//!
//! Compilers call functions that no source mentions: a copy becomes `memcpy`, `math.exp` becomes
//! `expf`. A kernel of that name would be called in their place, so it is compiled under another.

/// What a kernel's object defines or calls besides the functions of mathematics.
const OWN: &[&str] = &[
    "abort",
    "aligned_alloc",
    "bcmp",
    "bzero",
    "calloc",
    "free",
    "longjmp",
    "malloc",
    "memcmp",
    "memcpy",
    "memmove",
    "memrefCopy",
    "memset",
    "mmap",
    "munmap",
    "printf",
    "putchar",
    "puts",
    "realloc",
    "strlen",
    "_setjmp",
    "_DYNAMIC",
    "_GLOBAL_OFFSET_TABLE_",
    "_fini",
    "_init",
];

/// The functions of mathematics that LLVM and MLIR know, in f64; in f32 they end in `f`.
const MATHEMATICS: &[&str] = &[
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp10",
    "exp2",
    "expm1",
    "fabs",
    "fdim",
    "floor",
    "fma",
    "fmax",
    "fmaximum",
    "fmaximum_num",
    "fmin",
    "fminimum",
    "fminimum_num",
    "fmod",
    "frexp",
    "ldexp",
    "lgamma",
    "llrint",
    "llround",
    "log",
    "log10",
    "log1p",
    "log2",
    "lrint",
    "lround",
    "modf",
    "nearbyint",
    "pow",
    "remainder",
    "rint",
    "round",
    "roundeven",
    "sin",
    "sincos",
    "sincospi",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "tgamma",
    "trunc",
];

/// Whether compiled code may call, or only compilers and linkers may define, what is named so.
pub fn is_reserved(name: &str) -> bool {
    let without = |suffix| name.strip_suffix(suffix).unwrap_or(name);
    OWN.contains(&name)
        || MATHEMATICS.contains(&name)
        || MATHEMATICS.contains(&without('f'))
        || MATHEMATICS.contains(&without('l'))
        || ["__", "npu_"].iter().any(|prefix| name.starts_with(prefix))
}
