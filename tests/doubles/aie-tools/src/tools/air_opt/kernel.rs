//! A kernel on its way to the AIR level, as text that grows.

use std::fs;
use std::path::Path;

use super::pipeline::Pass;
use super::promote::promoted;
use crate::md5::md5;
use crate::mlir::{Kind, Module, Operation, Type};
use crate::run::{Result, failure};
use crate::tools::diagnostic;

/// A module's text around the one function that the passes work on.
pub struct Kernel {
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
    /// The kernel of a module.
    pub fn of(module: &Module<'_>) -> Self {
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

    /// Runs a pass.
    ///
    /// # Errors
    /// A transform script is missing or refused.
    pub fn apply(&mut self, pass: &Pass, input: &str) -> Result {
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
        if script.promotes {
            let text = format!("{}\n{}\n{}", self.before, self.body, self.after);
            if let Ok(module) = Module::parse(&text)
                && let Some((_, body)) = entry(&module)
            {
                self.body = promoted(&module, body);
            }
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
    pub fn print(&self) -> String {
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
    /// Whether it brings operands into L1.
    promotes: bool,
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
    let module = Module::parse(&text).map_err(|what| failure(diagnostic(file, &text, &what)))?;
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
            let library = library.map_err(|what| failure(diagnostic(name, &included, &what)))?;
            identity.push_str(&library.identity(0..library.tokens().len()));
        }
    }
    Ok(Script {
        makes_herd: identity.contains("herd"),
        promotes: identity.contains("linalg_promote"),
        digest: md5(identity.as_bytes())
            .map(|b| format!("{b:02x}"))
            .concat(),
    })
}
