//! The `compile` step of the cpu target: linalg-level MLIR to a shared object.
//!
//! `mlir-opt` lowers to the LLVM dialect, `mlir-translate` prints LLVM IR, and `clang` links it with
//! `cpu_entry.c`, which gives every kernel one C entry point whatever its own signature is; the
//! call itself is generated here as `call.inc`. One step, since nobody asks for a part of it alone.

mod call;
mod host;
mod reserved;

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use npu_runtime::Signature;

use super::check::Check;
use super::material::Value;
use super::{Argument, Command, Input, Kind, Origin, Output, Step, Work};
use crate::kernel::rename;
use crate::kernel::types::Type;
use crate::toolchain::{Companions, Llvm, Tool};
pub use call::UnsupportedArgument;

/// Raised when the same inputs would give another object: another pass list, other flags that are
/// not arguments, another meaning of `call.inc`.
const VERSION: u32 = 1;

/// The lowering of triton-shared's CPU backend, which takes what `triton-shared-opt` emits. The
/// order matters: each pass leaves what a later one expects. Its first pass, linalg to affine loops,
/// is left out: it refuses sizes that are computed in a loop, and plain loops give the same code.
const PASSES: &[&str] = &[
    "--eliminate-empty-tensors",
    "--empty-tensor-to-alloc-tensor",
    "--one-shot-bufferize=allow-return-allocs-from-loops=true",
    "--lower-affine",
    "--convert-linalg-to-loops",
    "--expand-strided-metadata",
    "--convert-scf-to-cf",
    "--convert-arith-to-llvm",
    "--convert-math-to-llvm",
    // What LLVM has no intrinsic for (erf, cbrt, …) becomes a call of the C library.
    "--convert-math-to-libm",
    "--convert-complex-to-llvm",
    "--convert-vector-to-llvm",
    "--convert-index-to-llvm",
    "--memref-expand",
    "--finalize-memref-to-llvm",
    "--convert-func-to-llvm",
    "--convert-cf-to-llvm",
    "--lower-affine",
    "--convert-arith-to-llvm",
    "--reconcile-unrealized-casts",
];

/// The artifact's name in its entry.
pub const OBJECT: &str = "kernel.so";
/// The name under which the tools see the kernel.
const SOURCE: &str = "kernel.mlir";
const DIALECT: &str = "kernel.llvm.mlir";
const IR: &str = "kernel.ll";

/// The part of `call.inc`'s counterpart that is the same for every kernel.
/// Digested once, however many kernels a process builds.
static ENTRY: LazyLock<Input> = LazyLock::new(|| {
    let text = include_bytes!("../../templates/cpu_entry.c");
    Input::new("cpu_entry.c", text.as_slice())
});

/// Which machine the object is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum March {
    /// The architecture's baseline: the object runs on every machine of this architecture.
    #[default]
    Baseline,
    /// This machine's CPU, whose features become part of the key.
    Native,
    /// A name that clang knows, e.g. `x86-64-v3`.
    Named(String),
}

impl FromStr for March {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        match text {
            "baseline" => Ok(Self::Baseline),
            "native" => Ok(Self::Native),
            _ if !text.is_empty() && !text.starts_with('-') && text.chars().all(named) => {
                Ok(Self::Named(text.into()))
            }
            _ => Err(format!(
                "'{text}' is no CPU; give baseline, native, or a name that clang's -march takes, such as x86-64-v3"
            )),
        }
    }
}

/// What the compile step of a cpu kernel is made from.
#[derive(Debug)]
pub struct Request<'a> {
    /// Name and parameters.
    pub signature: &'a Signature,
    /// The parsed type of each parameter.
    pub types: &'a [Type],
    /// The symbols of all functions that the text defines, the kernel among them.
    pub defined: &'a [String],
    /// Where the kernel's canonical text came from.
    pub origin: Origin,
    /// The programs.
    pub tools: &'a Llvm,
    /// The machine.
    pub march: March,
    /// Whether the LLVM dialect and the LLVM IR are kept beside the object.
    pub keep_intermediates: bool,
}

/// The step that makes the shared object.
///
/// # Errors
/// When an argument can't be passed by the C calling convention that the lowering gives the kernel.
pub fn compile(request: &Request<'_>) -> Result<Step, UnsupportedArgument> {
    let (text, symbol) = named_apart(request);
    let call = call::generate(request.signature, request.types, &symbol)?;
    let source = Input::new(SOURCE, text.as_bytes());
    let mut facts = Vec::new();
    if request.march == March::Native {
        facts.push(("host_cpu", Value::Sha256(host::cpu_identity())));
    }
    Ok(Step {
        kind: Kind::Compile,
        version: VERSION,
        subject: request.signature.name.to_string(),
        source: Some(request.origin.path.clone()),
        target: "cpu",
        inputs: vec![
            source.from_user(request.origin.clone()),
            ENTRY.clone(),
            Input::new("call.inc", call.into_bytes()),
        ],
        // Messages in English, temporary files in the work directory.
        environment: vec![("LC_ALL", "C".into()), ("TMPDIR", ".".into())],
        companions: Companions::default(),
        facts,
        work: Work::Commands(commands(request)),
        outputs: outputs(request.keep_intermediates),
    })
}

/// The kernel's text and name, with the names changed of all functions that compiled code would call
/// where it means those of the C library.
fn named_apart<'a>(request: &'a Request<'_>) -> (Cow<'a, str>, Cow<'a, str>) {
    let name = &*request.signature.name;
    let (mut text, mut symbol) = (
        Cow::Borrowed(&*request.origin.text.text),
        Cow::Borrowed(name),
    );
    for defined in request.defined {
        if reserved::is_reserved(defined)
            && let Some((renamed, new)) = rename(&text, defined)
        {
            text = renamed.into();
            if defined == name {
                symbol = new.into();
            }
        }
    }
    (text, symbol)
}

fn commands(request: &Request<'_>) -> Vec<Command> {
    let tools = request.tools;
    let texts = |texts: &[&str]| {
        texts
            .iter()
            .copied()
            .map(Argument::from)
            .collect::<Vec<_>>()
    };
    let mut lower = texts(&[SOURCE]);
    lower.extend(texts(PASSES));
    lower.extend(texts(&["-o", DIALECT]));
    let mut link = texts(&["-O3", "-shared", "-fPIC"]);
    match &request.march {
        March::Baseline => {}
        March::Native => link.push("-march=native".into()),
        March::Named(name) => link.push(Argument::Text(format!("-march={name}"))),
    }
    // Nothing is linked that the key does not know: no start files (a kernel has no constructors),
    // and of libraries the support archive by its content and glibc, which is only referred to. The
    // module has no target triple of its own, which clang would warn about. A symbol that nobody
    // defines is an error now, not when the object is loaded; one that the module defines is never
    // taken from the host program.
    link.extend(texts(&[
        "--no-default-config",
        "-Wno-override-module",
        "-nostartfiles",
        "-nodefaultlibs",
        "-Wl,-z,defs,-Bsymbolic",
    ]));
    link.push(Argument::Tool("--ld-path=", Arc::clone(&tools.linker)));
    link.extend(texts(&[
        "-x",
        "ir",
        IR,
        "-x",
        "c",
        "cpu_entry.c",
        "-x",
        "none",
    ]));
    link.push(Argument::Tool("", Arc::clone(&tools.support)));
    link.extend(texts(&["-lm", "-lc", "-o", OBJECT]));
    let command = |tool: &Arc<Tool>, arguments| Command {
        tool: Arc::clone(tool),
        arguments,
        explain: |_| None,
    };
    vec![
        command(&tools.mlir_opt, lower),
        Command {
            explain: not_lowered,
            ..command(
                &tools.mlir_translate,
                texts(&["--mlir-to-llvmir", DIALECT, "-o", IR]),
            )
        },
        command(&tools.clang, link),
    ]
}

/// What is left of other dialects after the passes is refused by mlir-translate, at a line of a file
/// that the user has never seen: names the operation instead.
fn not_lowered(printed: &str) -> Option<String> {
    // As mlir-translate words it: an operation without a translation, of a dialect without one, in
    // the dialect's own form, and in the generic one.
    const BEFORE: [&str; 4] = [
        "LLVM Translation failed for operation: ",
        "registration for dialect for op: ",
        " not found for custom op '",
        "error: unregistered operation '",
    ];
    let after = BEFORE
        .iter()
        .find_map(|before| printed.split_once(before))?
        .1;
    let name = after.split(|c: char| !(c.is_ascii_alphanumeric() || "._$-".contains(c)));
    let name = name.into_iter().next().filter(|name| !name.is_empty())?;
    Some(format!(
        "no pass of the cpu target lowers '{name}': write the kernel with operations of linalg, \
         tensor, memref, arith, math, scf, affine and vector"
    ))
}

fn outputs(keep_intermediates: bool) -> Vec<Output> {
    let mut outputs = vec![Output::new(OBJECT, Check::SharedObject)];
    if keep_intermediates {
        outputs.extend([DIALECT, IR].map(|name| Output::new(name, Check::Text)));
    }
    outputs
}
