//! air-opt: the passes that take a linalg kernel to the AIR level, separately or in one pipeline.
//! Herds come from the transform script and from nowhere else, as in the real one. The kernel is
//! text that grows around its body.

use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use crate::md5;
use crate::mlir::{Module, Operation, Type};
use crate::options::{self, Options, Table};
use crate::run::{Result, Run, failure, message};
use crate::tools::{diagnostic, print, wanted_diagnostic};

const HELP: &str = "OVERVIEW: MLIR-AIR modular optimizer driver

USAGE: air-opt [options] <input file>

OPTIONS:

  --air-copy-to-dma                         - Convert copies to air.dma_memcpy_nd
  --air-override-memref-memory-space=<string> - Override memory spaces
  --air-par-to-launch=<string>              - Convert parallel loops to air.launch
  --air-resolve-tensor-opoperand-conflicts  - Resolve tensor operand conflicts
  --air-transform=<string>                  - Apply a transform script
  --air-wrap-func-with-parallel=<string>    - Wrap a function's body in scf.parallel
  --canonicalize                            - Canonicalize operations
  --cse                                     - Eliminate common sub-expressions
  --mlir-print-debuginfo                    - Print debug info in MLIR output
  -o <string>                               - Output filename
  --pass-pipeline=<string>                  - Textual description of the pass pipeline to run
";

/// The passes; those that do nothing to the text are known by name only.
const PASSES: [&str; 8] = [
    "air-resolve-tensor-opoperand-conflicts",
    "air-override-memref-memory-space",
    "air-transform",
    "air-wrap-func-with-parallel",
    "air-par-to-launch",
    "air-copy-to-dma",
    "canonicalize",
    "cse",
];

/// A pass: its name, and what stands between its braces.
type Pass<'p> = (&'p str, &'p str);

fn option<'p>(pass: Pass<'p>, key: &str) -> &'p str {
    let found = pass.1.split_once(&format!("{key}="));
    found
        .and_then(|(_, rest)| rest.split(' ').next())
        .unwrap_or("")
}

/// The passes of a pipeline, in order through its nesting.
fn pipeline(text: &str) -> Result<Vec<Pass<'_>>> {
    let bad = |rest: &str, what: String| {
        let at = text.len() - rest.len();
        failure(format!(
            "MLIR Textual PassPipeline Parser:1:{}: error: {what}\n{text}\n{}^",
            at + 1,
            " ".repeat(at)
        ))
    };
    let (mut passes, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if !after.starts_with('(') && !name.is_empty() && !PASSES.contains(&name) {
            let what = format!("'{name}' does not refer to a registered pass or pass pipeline");
            return Err(bad(rest, what));
        }
        if let Some(inside) = after.strip_prefix('{') {
            let (options, after) = inside.split_once('}').ok_or_else(|| {
                let what = "missing closing '}' while processing pass options";
                bad(after, what.to_owned())
            })?;
            passes.push((name, options));
            rest = after;
            continue;
        }
        if PASSES.contains(&name) {
            passes.push((name, ""));
        }
        rest = after.get(1..).unwrap_or("");
    }
    Ok(passes)
}

/// The pipeline, or pass options in the order of the command line.
fn passes<'r>(run: &'r Run, options: &'r Options) -> Result<Vec<Pass<'r>>> {
    if let Some(text) = options.get("pass-pipeline") {
        if !text.starts_with("builtin.module(") {
            return Err(failure(format!(
                "expected pass pipeline to be wrapped with the anchor operation type, e.g. 'builtin.module(...)'\nfailed to parse pipeline: {text}"
            )));
        }
        return pipeline(text);
    }
    let bare = run.arguments.iter().filter_map(|it| it.strip_prefix("--"));
    let pairs = bare.map(|it| it.split_once('=').unwrap_or((it, "")));
    Ok(pairs.filter(|(name, _)| PASSES.contains(name)).collect())
}

/// Runs air-opt.
pub fn run(run: &Run) -> Result {
    if run.asks("help") {
        print(HELP);
        return Ok(());
    }
    if run.asks("version") {
        print(options::llvm_version());
        return Ok(());
    }
    let options = options::parse(run, &Table::new(HELP), false)?;
    let passes = passes(run, &options)?;
    run.begin()?;
    let input = options.positional.first().map_or("-", String::as_str);
    let text = fs::read_to_string(input).map_err(|error| {
        failure(format!(
            "cannot open input file '{input}': {}",
            message(&error)
        ))
    })?;
    let refused = |what| failure(diagnostic(input, &text, &what));
    if let Some(wanted) = wanted_diagnostic(run) {
        return Err(refused(wanted));
    }
    let module = Module::parse(&text).map_err(refused)?;
    if run.fails("pass") {
        let name = passes.last().map_or("", |pass| pass.0);
        return Err(failure(format!(
            "{input}:1:1: error: 'func.func' op pass {name} failed"
        )));
    }
    let mut kernel = Kernel::of(&module);
    for pass in &passes {
        match pass.0 {
            "air-transform" => kernel.transform(option(*pass, "filename"))?,
            "air-wrap-func-with-parallel" => kernel.wrap(*pass, input),
            "air-par-to-launch" => kernel.launch(),
            _ => {}
        }
    }
    let output = kernel.print();
    match options.get("o") {
        None | Some("-") => print(&output),
        Some(path) => run.deliver("air", Path::new(path), output.as_bytes()),
    }
    Ok(())
}

/// A module's text around the body of the one function that the passes work on.
struct Kernel {
    before: String,
    body: String,
    after: String,
    name: String,
    arguments: Vec<(String, Type)>,
    /// Whether the launch ids are used.
    uses_ids: bool,
    bounds: String,
    actual: String,
}

/// The public function of a module and its body.
pub fn entry<'m, 's>(module: &'m Module<'s>) -> Option<(Operation<'m, 's>, Range<usize>)> {
    module.nested(module.all()).into_iter().find_map(|op| {
        let is_public = op.name == "func.func" && module.text(op.at + 1) != "private";
        let body = op.regions().pop().filter(|_| is_public)?;
        Some((op, body))
    })
}

impl Kernel {
    fn of(module: &Module<'_>) -> Self {
        let all = module.all();
        let entry = entry(module);
        let body = entry
            .as_ref()
            .map_or(all.end..all.end, |(_, body)| body.clone());
        let arguments = entry.as_ref().map(|(op, _)| module.typed(op.parentheses()));
        let arguments = arguments.unwrap_or_default();
        let is_id = |name: &str| arguments.iter().rev().take(3).any(|(id, _)| id == name);
        Self {
            before: module.print(0..body.start),
            body: module.print(body.clone()),
            after: module.print(body.end..all.end),
            name: entry
                .and_then(|(op, _)| op.symbol())
                .unwrap_or("")
                .to_owned(),
            uses_ids: module.values(body).any(is_id),
            arguments,
            bounds: String::new(),
            actual: String::new(),
        }
    }

    /// The body without its `return`.
    fn without_return(&self) -> &str {
        let body = self.body.trim_end();
        body.strip_suffix("return").unwrap_or(body).trim_end()
    }

    /// `args(%a=%a, …) : types` of the first arguments.
    fn captured(&self, count: usize) -> String {
        let arguments = self.arguments.iter().take(count);
        let (names, types): (Vec<_>, Vec<_>) = arguments
            .map(|(name, of)| (format!("{name} = {name}"), of.text.as_str()))
            .unzip();
        format!("args({}) : {}", names.join(", "), types.join(", "))
    }

    /// A script that makes herds puts the kernel into one.
    fn transform(&mut self, file: &str) -> Result {
        let script = read_script(file)?;
        if !script.contains("herd") || self.name.is_empty() {
            return Ok(());
        }
        if script.contains("linalg_promote") {
            let text = format!("{}\n{}\n{}", self.before, self.body, self.after);
            let module = Module::parse(&text).ok();
            self.body = module.and_then(|it| promoted(&it)).unwrap_or_default();
        }
        let digest = md5(script.as_bytes())
            .map(|byte| format!("{byte:02x}"))
            .concat();
        self.body = format!(
            "%herd_size = arith.constant 1 : index\nair.herd @herd_0 tile (%herd_x, %herd_y) in (%herd_sx = %herd_size, %herd_sy = %herd_size) {} attributes {{transform = \"{digest}\"}} {{\n{}\n}}\nreturn",
            self.captured(self.arguments.len()),
            self.without_return(),
        );
        Ok(())
    }

    /// Complaints of this pass are printed, and do not make it fail.
    fn wrap(&mut self, pass: Pass<'_>, input: &str) {
        let bounds = option(pass, "loop-bounds");
        let count = self.arguments.len();
        let buffers = self
            .arguments
            .iter()
            .take_while(|(_, of)| of.is_memref())
            .count();
        let complaint = if bounds.is_empty() {
            "Pass option 'loop-bounds' must be specified."
        } else if buffers + 2 * bounds.split(',').count() > count {
            "Expected func op arguments contain at least M memrefs and N x 2 loop bounds."
        } else {
            // A kernel that does not ask where it is needs no loop.
            if self.uses_ids {
                self.bounds = bounds.to_owned();
                self.actual = option(pass, "actual-sizes").to_owned();
            }
            return;
        };
        let _ = writeln!(std::io::stderr(), "{input}: error: {complaint}");
    }

    fn launch(&mut self) {
        if self.bounds.is_empty() {
            return;
        }
        let bounds: Vec<_> = self.bounds.split(',').zip(["x", "y", "z"]).collect();
        let each = |separator: &str, write: &dyn Fn(&str, &str) -> String| {
            let texts = bounds.iter().map(|(bound, name)| write(bound, name));
            texts.collect::<Vec<_>>().join(separator)
        };
        let buffers = self.arguments.len() - bounds.len();
        let ids = self.arguments.iter().skip(buffers).zip(&bounds);
        let casts: String = ids
            .map(|((id, _), (_, name))| {
                format!("{id} = arith.index_cast %launch_{name} : index to i32\n")
            })
            .collect();
        let actual = match self.actual.as_str() {
            "" => String::new(),
            sizes => format!(" attributes {{air.actual_sizes = array<i64: {sizes}>}}"),
        };
        self.body = format!(
            "{}\nair.launch ({}) in ({}) {}{actual} {{\n{casts}air.segment @{}_0 {} {{\n{}\n}}\n}}\nreturn",
            each("\n", &|bound, name| format!(
                "%grid_{name} = arith.constant {bound} : index"
            )),
            each(", ", &|_, name| format!("%launch_{name}")),
            each(", ", &|_, name| format!("%launch_s{name} = %grid_{name}")),
            self.captured(buffers),
            self.name,
            self.captured(self.arguments.len()),
            self.without_return(),
        );
        self.bounds.clear();
    }

    /// The module, indented by its braces.
    fn print(&self) -> String {
        let text = format!("{}\n{}\n{}\n", self.before, self.body, self.after);
        let (mut printed, mut level) = (String::new(), 0usize);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let closed = line.matches(['}', ')', ']']).count();
            let leading = line.len() - line.trim_start_matches(['}', ')', ']']).len();
            level = level.saturating_sub(leading);
            printed.extend(std::iter::repeat_n("  ", level));
            printed.push_str(line);
            printed.push('\n');
            level =
                (level + line.matches(['{', '(', '[']).count()).saturating_sub(closed - leading);
        }
        printed
    }
}

/// What `transform.air.linalg_promote` makes of a kernel, in short: its linalg operations work on
/// types in L1.
fn promoted(module: &Module<'_>) -> Option<String> {
    let (_, body) = entry(module)?;
    let (mut text, mut from) = (String::new(), body.start);
    let operations = module.operations(body.clone()).into_iter();
    let linalg = operations.filter(|op| op.name.starts_with("linalg."));
    for at in linalg.flat_map(|op| op.outer()) {
        if module.text(at) == "memref" {
            let (of, end) = module.type_at(at);
            text.push_str(&module.print(from..at));
            text.push_str(&format!(" memref<{}, 2 : i32>", of.head()));
            from = end;
        }
    }
    Some(text + &module.print(from..body.end))
}

/// What a transform script and the files say that it names in strings, beside it.
fn read_script(file: &str) -> Result<String> {
    let located = |text: String| failure(format!("{file}:0:0: error: {text}"));
    let read = |path: &Path, what: &str| {
        let failed = |_| {
            located(format!(
                "failed to open transform {what}: {}",
                path.display()
            ))
        };
        fs::read_to_string(path).map_err(failed)
    };
    let text = read(Path::new(file), "file")?;
    let module = Module::parse(&text).map_err(|what| failure(diagnostic(file, &text, &what)))?;
    if !module
        .symbols(module.all())
        .any(|name| name == "__transform_main")
    {
        let what = "could not find a nested named sequence with name: __transform_main";
        return Err(located(what.to_owned()));
    }
    let mut identity = module.identity(module.all());
    for name in module.all().map(|at| module.text(at).trim_matches('"')) {
        if name.ends_with(".mlir") {
            let directory = Path::new(file).parent().unwrap_or(Path::new(""));
            let included = read(&directory.join(name), "library file")?;
            let refused = |what| failure(diagnostic(name, &included, &what));
            let library = Module::parse(&included).map_err(refused)?;
            identity.push_str(&library.identity(library.all()));
        }
    }
    Ok(identity)
}
