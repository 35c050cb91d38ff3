//! From linalg to the LLVM dialect: which passes `mlir-opt` runs.
//!
//! The order matters: each pass leaves what a later one expects. It began as that of triton-shared's
//! CPU backend, which takes what `triton-shared-opt` emits.

use crate::toolchain::Llvm;

/// Where `mlir-opt` finds the schedule.
pub const SCHEDULE: &str = "schedule.mlir";

/// The major version of MLIR that the schedule is written for: its operations change with each.
const SCHEDULED: u32 = 22;

/// How a kernel is lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lowering {
    /// MLIR's major version.
    major: u32,
    /// The kernel has floats of 8 bits or fewer, which LLVM does not know.
    pub small_floats: bool,
    /// The schedule may have the kernel call functions of `cpu_math.mlir`: in the place of exp, which
    /// softmax is made of, and of clampf.
    pub calls_functions: bool,
    /// Tensors are made of memory of which the kernel does not say that nothing else refers to it.
    unrestricted: bool,
}

impl Lowering {
    pub fn new(text: &str, tools: &Llvm) -> Self {
        let major = tools.version.split('.').next();
        let major = major.and_then(|major| major.parse().ok()).unwrap_or(0);
        Self {
            major,
            small_floats: major >= 22 && ["f8E", "f6E", "f4E"].iter().any(|t| text.contains(t)),
            calls_functions: major == SCHEDULED
                && ["exp", "softmax", "clampf"]
                    .iter()
                    .any(|word| text.contains(word)),
            unrestricted: has_unrestricted(text),
        }
    }

    /// Whether the schedule is run.
    pub fn is_scheduled(self) -> bool {
        self.major == SCHEDULED
    }

    /// The passes, as arguments.
    pub fn passes(self) -> Vec<&'static str> {
        let mut passes = Vec::new();
        if self.is_scheduled() {
            passes.push("--transform-preload-library=transform-library-paths=schedule.mlir");
            passes.push("--transform-interpreter=entry-point=decompose");
        }
        // Functions over tensors have no form of their own: what calls them gets their bodies.
        passes.extend(["--inline=default-pipeline=", "--symbol-dce"]);
        if self.unrestricted {
            passes.extend([
                "--empty-tensor-to-alloc-tensor",
                "--one-shot-bufferize=allow-return-allocs-from-loops=true copy-before-write=true",
            ]);
        } else {
            passes.extend([
                "--eliminate-empty-tensors",
                "--empty-tensor-to-alloc-tensor",
                "--one-shot-bufferize=allow-return-allocs-from-loops=true",
            ]);
        }
        if self.is_scheduled() {
            passes.push("--transform-interpreter=entry-point=optimize");
        }
        passes.extend([
            "--lower-affine",
            "--convert-linalg-to-loops",
            "--lower-vector-mask",
            "--convert-vector-to-scf",
            "--lower-vector-multi-reduction",
            "--expand-realloc",
            "--expand-strided-metadata",
        ]);
        if self.small_floats {
            // What is computed with small floats is computed in f32; f8E4M3B11FNUZ is unknown here.
            passes.extend([
                "--math-extend-to-supported-types=extra-types=bf16,f16",
                "--arith-emulate-unsupported-floats=source-types=f8E5M2,f8E4M3,f8E4M3FN,f8E5M2FNUZ,\
                 f8E4M3FNUZ,f8E3M4,f8E8M0FNU,f6E2M3FN,f6E3M2FN,f4E2M1FN",
            ]);
        }
        passes.extend([
            "--convert-complex-to-standard",
            "--convert-scf-to-cf",
            // Powers: LLVM's intrinsic takes floats and exponents of 32 bits alone.
            "--convert-math-to-funcs",
            "--convert-arith-to-llvm",
        ]);
        if self.small_floats {
            // After the conversions that LLVM knows are gone: the rest become calls of `cpu_floats.c`.
            passes.extend(["--convert-arith-to-apfloat", "--convert-arith-to-llvm"]);
        }
        passes.extend([
            "--convert-math-to-llvm",
            // What LLVM has no intrinsic for (erf, cbrt, …) becomes a call of the C library.
            "--convert-math-to-libm",
            "--convert-complex-to-llvm",
            if self.major >= 22 {
                "--convert-vector-to-llvm=vector-contract-lowering=outerproduct"
            } else {
                "--convert-vector-to-llvm"
            },
            "--convert-index-to-llvm",
            "--memref-expand",
            "--finalize-memref-to-llvm",
            "--convert-func-to-llvm",
            "--convert-cf-to-llvm",
            "--convert-ub-to-llvm",
            "--lower-affine",
            "--convert-arith-to-llvm",
            "--reconcile-unrealized-casts",
        ]);
        passes
    }
}

/// Whether a `bufferization.to_tensor` lacks `restrict`, which stands before its types. Where that
/// is misread, a kernel copies more than it has to.
fn has_unrestricted(text: &str) -> bool {
    let mut operations = text.split("bufferization.to_tensor").skip(1);
    operations.any(|rest| {
        let attributes = rest.split(" : ").next().unwrap_or_default();
        !attributes.contains("restrict")
    })
}
