//! The `compile` step of the cpu target: linalg-level MLIR to a shared object.
//!
//! `mlir-opt` lowers to the LLVM dialect, `mlir-translate` prints LLVM IR, and `clang` links it with
//! `cpu_entry.c`, which gives every kernel one C entry point whatever its own signature is; the
//! call itself is generated here as `call.inc`. One step, since nobody asks for a part of it alone.

mod call;
mod diagnostics;
mod host;
mod lowering;
mod reserved;
mod source;

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use npu_runtime::Signature;

use super::check::Check;
use super::material::Value;
use super::{Argument, Command, Input, Kind, Origin, Output, Step, Work};
use crate::kernel::types::Type;
use crate::toolchain::{Companions, Llvm, Tool};
pub use call::UnsupportedArgument;
use lowering::{Lowering, SCHEDULE};
use source::Source;

/// Raised when the same inputs would give another object: another pass list, other flags that are
/// not arguments, another meaning of `call.inc`.
const VERSION: u32 = 2;

/// The artifact's name in its entry.
pub const OBJECT: &str = "kernel.so";
/// The name under which the tools see the kernel.
const SOURCE: &str = "kernel.mlir";
const DIALECT: &str = "kernel.llvm.mlir";
const IR: &str = "kernel.ll";

/// What is the same for every kernel is digested once, however many a process builds.
macro_rules! template {
    ($name:ident, $file:expr, $path:literal) => {
        static $name: LazyLock<Input> =
            LazyLock::new(|| Input::new($file, include_bytes!($path).as_slice()));
    };
}

template!(ENTRY, "cpu_entry.c", "../../templates/cpu_entry.c");
template!(FLOATS, "cpu_floats.c", "../../templates/cpu_floats.c");
template!(TRANSFORMS, SCHEDULE, "../../templates/cpu_schedule.mlir");

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
    let lowering = Lowering::new(&request.origin.text.text, request.tools);
    let mut source = Source::new(
        &request.origin.text.text,
        &request.signature.name,
        request.defined,
    );
    if lowering.calls_functions {
        source = source.with_functions();
    }
    let call = call::generate(request.signature, request.types, &source.symbol)?;
    let origin = request.origin.clone();
    let mut inputs = vec![
        match source.text {
            Cow::Borrowed(_) => Input::text(SOURCE, origin),
            Cow::Owned(changed) => Input::new(SOURCE, changed).from_user(origin),
        },
        ENTRY.clone(),
        Input::new("call.inc", call.into_bytes()),
    ];
    inputs.extend(lowering.is_scheduled().then(|| TRANSFORMS.clone()));
    inputs.extend(lowering.small_floats.then(|| FLOATS.clone()));
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
        inputs,
        // Messages in English, temporary files in the work directory.
        environment: vec![("LC_ALL", "C".into()), ("TMPDIR", ".".into())],
        companions: Companions::default(),
        facts,
        work: Work::Commands(commands(request, lowering)),
        outputs: outputs(request.keep_intermediates),
    })
}

fn commands(request: &Request<'_>, lowering: Lowering) -> Vec<Command> {
    let tools = request.tools;
    let texts = |texts: &[&str]| {
        texts
            .iter()
            .copied()
            .map(Argument::from)
            .collect::<Vec<_>>()
    };
    let mut lower = texts(&[SOURCE]);
    lower.extend(texts(&lowering.passes()));
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
    link.extend(texts(&["-x", "ir", IR, "-x", "c", "cpu_entry.c"]));
    if lowering.small_floats {
        link.push("cpu_floats.c".into());
    }
    link.extend(texts(&["-x", "none"]));
    link.push(Argument::Tool("", Arc::clone(&tools.support)));
    link.extend(texts(&["-lm", "-lc", "-o", OBJECT]));
    let translate = texts(&["--mlir-to-llvmir", DIALECT, "-o", IR]);
    let command = |tool: &Arc<Tool>, arguments, explain| Command {
        tool: Arc::clone(tool),
        arguments,
        explain,
        unnamed: &[],
    };
    vec![
        command(&tools.mlir_opt, lower, diagnostics::of_mlir_opt),
        command(
            &tools.mlir_translate,
            translate,
            diagnostics::of_translation,
        ),
        command(&tools.clang, link, diagnostics::of_linking),
    ]
}

fn outputs(keep_intermediates: bool) -> Vec<Output> {
    let mut outputs = vec![Output::new(OBJECT, Check::SharedObject)];
    if keep_intermediates {
        outputs.extend([DIALECT, IR].map(|name| Output::new(name, Check::Text)));
    }
    outputs
}
