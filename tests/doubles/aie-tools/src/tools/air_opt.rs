//! air-opt: the passes that take a linalg kernel to the AIR level, separately or in one pipeline,
//! and the transform interpreter between them. Herds come from the transform script and from
//! nowhere else, as in the real one.

use std::fs;
use std::path::Path;

use crate::md5::md5;
use crate::mlir::{Kind, Module, Operation, Type};
use crate::options::{self, Spec, Takes, Unknown, option};
use crate::run::{Result, Run, failure, message, read_input};

/// The passes that are known; those that do nothing to the text are known by name only.
const PASSES: [&str; 12] = [
    "air-resolve-tensor-opoperand-conflicts",
    "air-override-memref-memory-space",
    "air-transform",
    "air-wrap-func-with-parallel",
    "air-par-to-launch",
    "air-copy-to-dma",
    "canonicalize",
    "cse",
    "air-par-to-herd",
    "air-dependency",
    "convert-linalg-to-affine-loops",
    "one-shot-bufferize",
];

const OPTIONS: [Spec; 19] = [
    option("o", Takes::Text, "Output filename"),
    option(
        "pass-pipeline",
        Takes::Text,
        "Textual description of the pass pipeline to run",
    ),
    option(
        "version",
        Takes::Flag,
        "Display the version of this program",
    ),
    option(
        "mlir-print-debuginfo",
        Takes::Flag,
        "Print debug info in MLIR output",
    ),
    option(
        "allow-unregistered-dialect",
        Takes::Flag,
        "Allow operation with no registered dialects",
    ),
    option(
        "split-input-file",
        Takes::Flag,
        "Split the input file into pieces",
    ),
    option(
        "verify-diagnostics",
        Takes::Flag,
        "Check that emitted diagnostics match",
    ),
    option(
        "air-resolve-tensor-opoperand-conflicts",
        Takes::Flag,
        "Resolve tensor operand conflicts",
    ),
    option(
        "air-override-memref-memory-space",
        Takes::Text,
        "Override memory spaces",
    ),
    option("air-transform", Takes::Text, "Apply a transform script"),
    option(
        "air-wrap-func-with-parallel",
        Takes::Text,
        "Wrap a function's body in scf.parallel",
    ),
    option(
        "air-par-to-launch",
        Takes::Text,
        "Convert parallel loops to air.launch",
    ),
    option(
        "air-copy-to-dma",
        Takes::Flag,
        "Convert copies to air.dma_memcpy_nd",
    ),
    option("canonicalize", Takes::Flag, "Canonicalize operations"),
    option("cse", Takes::Flag, "Eliminate common sub-expressions"),
    option(
        "mlir-disable-threading",
        Takes::Flag,
        "Disable multithreading",
    ),
    option(
        "air-par-to-herd",
        Takes::Text,
        "Convert parallel loops to air.herd",
    ),
    option("air-dependency", Takes::Flag, "Dependency tracing"),
    option(
        "mlir-print-op-generic",
        Takes::Flag,
        "Print the generic form",
    ),
];

/// A pass and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pass {
    name: String,
    options: String,
}

impl Pass {
    /// The value of one of its options: up to a space outside brackets.
    fn option(&self, key: &str) -> Option<&str> {
        let (_, rest) = self.options.split_once(&format!("{key}="))?;
        rest.split([' ', '}']).next()
    }

    fn numbers(&self, key: &str) -> Vec<u64> {
        let list = self.option(key).unwrap_or("");
        list.split(',')
            .filter_map(|n| n.trim().parse().ok())
            .collect()
    }
}

/// The passes of a pipeline, in order.
fn pipeline(text: &str) -> Result<Vec<Pass>> {
    let bad = |at: usize, what: &str| {
        failure(format!(
            "MLIR Textual PassPipeline Parser:1:{}: error: {what}\n{text}\n{}^",
            at + 1,
            " ".repeat(at)
        ))
    };
    let (mut passes, mut at, mut depth) = (Vec::new(), 0, 0usize);
    while at < text.len() {
        let rest = text.get(at..).unwrap_or("");
        let first = rest.chars().next().unwrap_or(' ');
        match first {
            ',' | ' ' => at += 1,
            ')' => {
                depth = depth
                    .checked_sub(1)
                    .ok_or_else(|| bad(at, "unexpected ')'"))?;
                at += 1;
            }
            _ => {
                let length = rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.' | '_'));
                let name = rest.get(..length.unwrap_or(rest.len())).unwrap_or("");
                let after = rest.get(name.len()..).unwrap_or("");
                if after.starts_with('(') {
                    if !matches!(name, "builtin.module" | "func.func" | "any") {
                        return Err(bad(
                            at,
                            &format!("'{name}' is no operation that passes run on"),
                        ));
                    }
                    depth += 1;
                    at += name.len() + 1;
                    continue;
                }
                if !PASSES.contains(&name) {
                    let what =
                        format!("'{name}' does not refer to a registered pass or pass pipeline");
                    return Err(bad(at, &what));
                }
                let options = after
                    .strip_prefix('{')
                    .and_then(|o| o.split_once('}'))
                    .map(|(o, _)| o);
                if after.starts_with('{') && options.is_none() {
                    return Err(bad(
                        at + name.len(),
                        "missing closing '}' while processing pass options",
                    ));
                }
                at += name.len() + options.map_or(0, |o| o.len() + 2);
                passes.push(Pass {
                    name: name.to_owned(),
                    options: options.unwrap_or("").to_owned(),
                });
            }
        }
    }
    if depth != 0 {
        return Err(bad(text.len(), "expected ')'"));
    }
    Ok(passes)
}

/// The passes of a command line: the pipeline, or pass options in the order of the command line.
fn passes(run: &Run, options: &options::Options) -> Result<Vec<Pass>> {
    if let Some(text) = options.get("pass-pipeline") {
        if !text.starts_with("builtin.module(") {
            return Err(failure(format!(
                "expected pass pipeline to be wrapped with the anchor operation type, e.g. 'builtin.module(...)'\nfailed to parse pipeline: {text}"
            )));
        }
        return pipeline(text);
    }
    let mut passes = Vec::new();
    for argument in &run.arguments {
        let bare = argument.trim_start_matches('-');
        let (name, value) = bare.split_once('=').unwrap_or((bare, ""));
        if PASSES.contains(&name) && argument.starts_with('-') {
            passes.push(Pass {
                name: name.to_owned(),
                options: value.to_owned(),
            });
        }
    }
    Ok(passes)
}

/// Runs air-opt.
///
/// # Errors
/// Exit code 1 and MLIR's words.
pub fn run(run: &Run) -> Result {
    if run
        .arguments
        .iter()
        .any(|a| a.trim_start_matches('-') == "help")
    {
        super::print(&options::help(
            run,
            "MLIR-AIR modular optimizer driver",
            "<input file>",
            &OPTIONS,
        ));
        return Ok(());
    }
    let options = options::parse(run, &OPTIONS, Unknown::Refused)?;
    if options.flag("version") {
        super::print(options::llvm_version());
        return Ok(());
    }
    let passes = passes(run, &options)?;
    run.begin()?;
    let input = options.positional.first().map_or("-", String::as_str);
    if options.positional.len() > 1 {
        let name = run.name();
        return Err(failure(format!(
            "{name}: Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: {} --help",
            run.program
        )));
    }
    let text = read_input(input).map_err(|error| {
        failure(format!(
            "cannot open input file '{input}': {}",
            message(&error)
        ))
    })?;
    let refused = |what| failure(super::diagnostic(input, &text, &what));
    if let Some(wanted) = super::wanted_diagnostic(run) {
        return Err(refused(wanted));
    }
    let module = Module::parse(&text).map_err(refused)?;
    if run.fails("pass") {
        let name = passes.last().map_or("", |pass| pass.name.as_str());
        return Err(failure(format!(
            "{input}:1:1: error: 'func.func' op pass {name} failed"
        )));
    }
    let mut kernel = Kernel::of(&module);
    for pass in &passes {
        kernel.apply(pass, input)?;
    }
    let output = kernel.print();
    match options.get("o") {
        None | Some("-") => super::print(&output),
        Some(path) => run.deliver("air", Path::new(path), output.as_bytes()),
    }
    Ok(())
}

/// A module's text around the one function that the passes work on.
struct Kernel {
    /// Everything before the function's body, its opening brace included.
    before: String,
    body: String,
    /// Everything behind the body, its closing brace included.
    after: String,
    name: String,
    arguments: Vec<(String, Type)>,
    /// Whether the launch ids are used.
    uses_ids: bool,
    bounds: Vec<u64>,
    actual: Vec<u64>,
}

/// The public function of a module and its body.
pub fn entry<'m, 's>(
    module: &'m Module<'s>,
) -> Option<(Operation<'m, 's>, std::ops::Range<usize>)> {
    module.all_operations().into_iter().find_map(|op| {
        let private = module.text(op.at + 1) == "private";
        if op.name != "func.func" || private {
            return None;
        }
        let body = op.regions().into_iter().next_back()?;
        Some((op, body))
    })
}

/// The arguments of a function.
pub fn arguments<'s>(module: &Module<'s>, op: &Operation<'_, 's>) -> Vec<(&'s str, Type)> {
    let Some(open) = op.inner().find(|i| module.text(*i) == "(") else {
        return Vec::new();
    };
    let (mut found, mut at) = (Vec::new(), open + 1);
    while at < module.close(open) {
        if module.kind(at) == Kind::Value && module.text(at + 1) == ":" {
            let (of, end) = module.type_at(at + 2);
            found.push((module.text(at), of));
            at = end;
        } else {
            at = module.close(at).max(at) + 1;
        }
    }
    found
}

impl Kernel {
    fn of(module: &Module<'_>) -> Self {
        let end = module.tokens().len();
        let Some((op, body)) = entry(module) else {
            return Self {
                before: module.print(0..end),
                body: String::new(),
                after: String::new(),
                name: String::new(),
                arguments: Vec::new(),
                uses_ids: false,
                bounds: Vec::new(),
                actual: Vec::new(),
            };
        };
        let arguments: Vec<(String, Type)> = arguments(module, &op)
            .into_iter()
            .map(|(name, of)| (name.to_owned(), of))
            .collect();
        let ids: Vec<&String> = arguments
            .iter()
            .rev()
            .take(3)
            .map(|(name, _)| name)
            .collect();
        let uses_ids = body
            .clone()
            .any(|i| ids.iter().any(|id| id.as_str() == module.text(i)));
        Self {
            before: module.print(0..body.start),
            body: module.print(body.clone()),
            after: module.print(body.end..end),
            name: op.symbol().unwrap_or("").to_owned(),
            arguments,
            uses_ids,
            bounds: Vec::new(),
            actual: Vec::new(),
        }
    }

    fn apply(&mut self, pass: &Pass, input: &str) -> Result {
        match pass.name.as_str() {
            "air-transform" => self.transform(pass.option("filename").unwrap_or("")),
            "air-wrap-func-with-parallel" => {
                self.wrap(pass, input);
                Ok(())
            }
            "air-par-to-launch" => {
                self.launch();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The body without its `return`.
    fn without_return(&self) -> (&str, &str) {
        match self.body.rfind("return") {
            Some(at) => self.body.split_at(at),
            None => (&self.body, "return"),
        }
    }

    /// `(%a=%a, …) : types` of all arguments.
    fn captured(&self) -> String {
        let names: Vec<_> = self
            .arguments
            .iter()
            .map(|(name, _)| format!("{name} = {name}"))
            .collect();
        let types: Vec<_> = self
            .arguments
            .iter()
            .map(|(_, of)| of.text.as_str())
            .collect();
        format!("args({}) : {}", names.join(", "), types.join(", "))
    }

    /// A script that makes herds puts the kernel into one.
    fn transform(&mut self, file: &str) -> Result {
        let script = read_script(file)?;
        if !script.makes_herd || self.name.is_empty() {
            return Ok(());
        }
        let captured = self.captured();
        let (body, end) = self.without_return();
        self.body = format!(
            "%herd_size = arith.constant 1 : index\nair.herd @{}_0 tile (%herd_x, %herd_y) in (%herd_sx = %herd_size, %herd_sy = %herd_size) {captured} attributes {{transform = \"{}\"}} {{\n{}\n}}\n{end}",
            self.name,
            script.digest,
            body.trim_end(),
        );
        Ok(())
    }

    /// Complaints of this pass are printed, and do not make it fail.
    fn wrap(&mut self, pass: &Pass, input: &str) {
        let bounds = pass.numbers("loop-bounds");
        let complain = |text: &str| {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "{input}: error: {text}");
        };
        if bounds.is_empty() {
            return complain("Pass option 'loop-bounds' must be specified.");
        }
        let buffers = self
            .arguments
            .iter()
            .take_while(|(_, of)| of.is_memref())
            .count();
        if buffers + 2 * bounds.len() > self.arguments.len() {
            return complain(
                "Expected func op arguments contain at least M memrefs and N x 2 loop bounds.",
            );
        }
        // A kernel that does not ask where it is needs no loop.
        if self.uses_ids {
            self.actual = pass.numbers("actual-sizes");
            self.bounds = bounds;
        }
    }

    fn launch(&mut self) {
        if self.bounds.is_empty() {
            return;
        }
        let names = ["x", "y", "z"];
        let sizes: String = self
            .bounds
            .iter()
            .zip(names)
            .map(|(bound, name)| format!("%grid_{name} = arith.constant {bound} : index\n"))
            .collect();
        let ids: Vec<_> = names
            .iter()
            .take(self.bounds.len())
            .map(|n| format!("%launch_{n}"))
            .collect();
        let of_size: Vec<_> = names
            .iter()
            .take(self.bounds.len())
            .map(|n| format!("%launch_s{n} = %grid_{n}"))
            .collect();
        let first = self.arguments.len() - self.bounds.len();
        let casts: String = self
            .arguments
            .iter()
            .skip(first)
            .zip(names)
            .map(|((id, _), name)| {
                format!("{id} = arith.index_cast %launch_{name} : index to i32\n")
            })
            .collect();
        let actual = match self.actual.as_slice() {
            [] => String::new(),
            sizes => {
                let sizes: Vec<_> = sizes.iter().map(u64::to_string).collect();
                format!(
                    " attributes {{air.actual_sizes = array<i64: {}>}}",
                    sizes.join(", ")
                )
            }
        };
        let captured = self.captured();
        // The ids are the launch's own.
        let launched: Vec<_> = self.arguments.iter().take(first).collect();
        let launch_args = format!(
            "args({}) : {}",
            launched
                .iter()
                .map(|(n, _)| format!("{n} = {n}"))
                .collect::<Vec<_>>()
                .join(", "),
            launched
                .iter()
                .map(|(_, t)| t.text.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        );
        let (body, end) = self.without_return();
        self.body = format!(
            "{sizes}air.launch ({}) in ({}) {launch_args}{actual} {{\n{casts}air.segment @{}_0 {captured} {{\n{}\n}}\n}}\n{end}",
            ids.join(", "),
            of_size.join(", "),
            self.name,
            body.trim_end(),
        );
        self.bounds.clear();
    }

    /// The module, indented by its braces.
    fn print(&self) -> String {
        let text = format!("{}\n{}\n{}\n", self.before, self.body, self.after);
        let mut printed = String::new();
        let mut level = 0usize;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let opened = line.matches(['{', '(', '[']).count();
            let closed = line.matches(['}', ')', ']']).count();
            let leading = line
                .chars()
                .take_while(|c| matches!(c, '}' | ')' | ']'))
                .count();
            level = level.saturating_sub(leading);
            printed.extend(std::iter::repeat_n("  ", level));
            printed.push_str(line);
            printed.push('\n');
            level = (level + opened).saturating_sub(closed - leading);
        }
        printed
    }
}

struct Script {
    makes_herd: bool,
    digest: String,
}

/// A transform script and what it includes: files that it names in strings, beside it.
fn read_script(file: &str) -> Result<Script> {
    let located = |text: String| failure(format!("{file}:0:0: error: {text}"));
    if file.is_empty() {
        return Err(failure(
            "<unknown>:0: error: no transform file name specified",
        ));
    }
    let text = fs::read_to_string(file)
        .map_err(|_| located(format!("failed to open transform file: {file}\n")))?;
    let module =
        Module::parse(&text).map_err(|what| failure(super::diagnostic(file, &text, &what)))?;
    let entry = module
        .tokens()
        .iter()
        .any(|token| token.text == "@__transform_main");
    if !entry {
        return Err(located(
            "could not find a nested named sequence with name: __transform_main".to_owned(),
        ));
    }
    let mut identity = module.identity(0..module.tokens().len());
    for token in module.tokens() {
        let name = token.text.trim_matches('"');
        if token.kind == Kind::Text && name.ends_with(".mlir") {
            let path = Path::new(file).parent().unwrap_or(Path::new("")).join(name);
            let included = fs::read_to_string(&path).map_err(|_| {
                located(format!(
                    "failed to open transform library file: {}",
                    path.display()
                ))
            })?;
            let library = Module::parse(&included);
            let library =
                library.map_err(|what| failure(super::diagnostic(name, &included, &what)))?;
            identity.push_str(&library.identity(0..library.tokens().len()));
        }
    }
    Ok(Script {
        makes_herd: identity.contains("herd"),
        digest: md5(identity.as_bytes())
            .map(|b| format!("{b:02x}"))
            .concat(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Pass, pipeline};

    #[test]
    fn a_pipeline_is_read_in_order_through_its_nesting() {
        let text = "builtin.module(func.func(air-wrap-func-with-parallel{loop-bounds=4,2,1 actual-sizes=9,8,1}),air-par-to-launch{depth=0 has-air-segment=true},canonicalize,cse)";
        let passes = pipeline(text).unwrap();
        let names: Vec<_> = passes.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "air-wrap-func-with-parallel",
                "air-par-to-launch",
                "canonicalize",
                "cse"
            ]
        );
        let wrap: &Pass = &passes[0];
        assert_eq!(wrap.numbers("loop-bounds"), [4, 2, 1]);
        assert_eq!(wrap.numbers("actual-sizes"), [9, 8, 1]);
    }

    #[test]
    fn an_unknown_pass_is_refused_at_its_place() {
        let refused = pipeline("builtin.module(cse,air-par-to-lunch)").unwrap_err();
        assert!(
            refused.text.contains(
                "Parser:1:20: error: 'air-par-to-lunch' does not refer to a registered pass"
            ),
            "{}",
            refused.text
        );
    }
}
