//! Finds the kernels of a module: its level, its functions or its devices' runtime sequences.

use std::collections::HashMap;

use super::aie::{self, Flows};
use super::error::Position;
use super::header::{self, Function, Generic};
use super::links::{self, Link};
use super::text::Lines;
use super::tokens::{Kind, Tokens};
use super::{Device, DeviceOp, Kernel, Level, Module, Refused, Unlaunchable, full_name};

pub(super) fn scan(tokens: &Tokens<'_>) -> Module {
    let survey = Survey::of(tokens);
    let level = survey.level;
    let mut scanner = Scanner {
        tokens,
        aliases: survey.aliases,
        is_plain: survey.is_plain,
        level,
        lines: Lines { offset: 0, line: 1 },
        nested_until: 0,
        mentions: None,
        module: Module {
            level,
            kernels: Vec::new(),
            link_files: survey.link_files,
            unused_links: Vec::new(),
            core_elfs: survey.core_elfs,
            core_code: None,
            devices: Vec::new(),
            defined: Vec::new(),
            herd: survey.herd,
            parts: Vec::new(),
            refused: Vec::new(),
            triton: survey.triton,
        },
    };
    scanner.module_region();
    let mut module = scanner.module;
    module.core_code = survey.core_code.map(|at| {
        let offset = tokens.get(at).start as usize;
        Position::of(tokens.text, offset).line
    });
    // A file may have another user.
    let uses = |files: &[String], name: &String| files.iter().filter(|it| *it == name).count();
    let mut unused = std::mem::take(&mut module.unused_links);
    let own = unused.clone();
    unused.retain(|name| uses(&own, name) == uses(&module.link_files, name));
    unused.dedup();
    module.unused_links = unused;
    for files in [&mut module.link_files, &mut module.core_elfs] {
        files.sort_unstable();
        files.dedup();
    }
    module
}

/// What one pass over all tokens shows.
struct Survey<'s> {
    level: Level,
    triton: bool,
    herd: bool,
    link_files: Vec<String>,
    core_elfs: Vec<String>,
    /// The first `aie.core` with code.
    core_code: Option<usize>,
    /// Whether nothing in the file speaks to LLVM or the linker: attributes that change how functions
    /// are called, globals and functions that take the place of the C library's, code that runs when
    /// the object is loaded.
    is_plain: bool,
    /// The first token of the value of each `#alias` and `!alias`.
    aliases: HashMap<&'s str, usize>,
}

impl<'s> Survey<'s> {
    fn of(tokens: &Tokens<'s>) -> Self {
        let mut it = Self {
            level: Level::Linalg,
            triton: false,
            herd: false,
            link_files: Vec::new(),
            core_elfs: Vec::new(),
            core_code: None,
            is_plain: true,
            aliases: HashMap::new(),
        };
        let mut next = 0;
        while next < tokens.len() {
            let at = tokens.after_location(next);
            next = at + 1;
            match tokens.kind(at) {
                Kind::Word | Kind::Text => it.word(tokens, at),
                Kind::Hash if tokens.text(at).starts_with("#llvm.") => it.is_plain = false,
                // Of locations there may be one for each operation, and they stand for nothing else.
                Kind::Hash | Kind::Bang
                    if tokens.get(at).first
                        && tokens.is(at + 1, b'=')
                        && tokens.after_location(at + 2) == at + 2 =>
                {
                    it.aliases.insert(tokens.text(at), at + 2);
                }
                _ => {}
            }
        }
        it
    }

    fn word(&mut self, tokens: &Tokens<'_>, at: usize) {
        let word = tokens.text(at).trim_matches('"');
        self.is_plain &= !word.starts_with("llvm.") && !matches!(word, "CConv" | "memref.global");
        if tokens.is(at + 1, b'=') {
            match links::link(tokens, at) {
                Some(Link::Object) => self.link_files.extend(links::names(tokens, at)),
                Some(Link::CoreElf) => self.core_elfs.extend(links::names(tokens, at)),
                None => {}
            }
            return;
        }
        let Some((name, generic)) = aie::operation(tokens, at) else {
            return;
        };
        if !name.starts_with(['a', 'A', 't']) {
            return;
        }
        let level = match name {
            "aie.device" | "AIE.device" => Level::Aie,
            "tt.func" => {
                self.triton = true;
                return;
            }
            "aie.core" | "AIE.core" => {
                if self.core_code.is_none() && aie::has_code(tokens, at, generic) {
                    self.core_code = Some(at);
                }
                return;
            }
            _ => match name.strip_prefix("air.") {
                Some("launch" | "segment" | "herd" | "channel" | "channel.put" | "channel.get") => {
                    Level::Air
                }
                _ => return,
            },
        };
        // A word that only sits among attributes is no operation.
        let attribute = matches!(
            tokens.kind(at + 1),
            Kind::Punct(b'=' | b',' | b'}' | b']' | b')' | b':') | Kind::End
        );
        if !attribute {
            self.herd |= name == "air.herd";
            self.level = self.level.max(level);
        }
    }
}

pub(super) struct Scanner<'t, 's> {
    pub(super) tokens: &'t Tokens<'s>,
    pub(super) aliases: HashMap<&'s str, usize>,
    /// See [`Survey`].
    pub(super) is_plain: bool,
    pub(super) level: Level,
    pub(super) lines: Lines,
    /// The end of the modules that were entered and are not the file's only one.
    nested_until: usize,
    /// How often each symbol is mentioned, once somebody asked.
    mentions: Option<HashMap<String, usize>>,
    module: Module,
}

/// A device whose region is being read.
pub(super) struct InDevice {
    /// Its place in `Module::devices`.
    index: usize,
    pub(super) flows: Flows,
}

impl<'s> Scanner<'_, 's> {
    /// Walks the operations of all nested modules, which may stand anywhere outside of others.
    fn module_region(&mut self) {
        let tokens = self.tokens;
        let only = self.only_module();
        let mut at = 0;
        while at < tokens.len() {
            at = match aie::operation(tokens, at) {
                Some(("module", false) | ("builtin.module", _)) => {
                    let inside = self.after_module_head(at);
                    if only != Some(at) && inside > at + 1 {
                        self.nested_until = self.nested_until.max(tokens.close(inside - 1));
                    }
                    inside
                }
                Some(("func.func", generic)) if self.level != Level::Aie => {
                    let line = self.line(at);
                    let function = read_function(tokens, at, generic);
                    let end = function.end.max(at + 1);
                    if function.body.is_none() {
                        self.declared_links(&function, at..end);
                    }
                    self.function(function, line);
                    end
                }
                Some(("aie.device" | "AIE.device", generic)) => self.device(at, generic),
                _ => tokens.after(at),
            };
        }
    }

    /// The module that all operations of the file are in, if there is one.
    fn only_module(&self) -> Option<usize> {
        let tokens = self.tokens;
        let (mut at, mut module, mut operations) = (0, None, 0);
        while at < tokens.len() {
            match aie::operation(tokens, at) {
                Some(("module", false) | ("builtin.module", _)) => {
                    module = Some(at);
                    operations += 1;
                }
                Some(("func.func", _)) => operations += 1,
                _ => {}
            }
            at = tokens.after(at);
        }
        module.filter(|_| operations == 1)
    }

    /// The first token in the module's region: what is in it is walked like what is around it.
    fn after_module_head(&self, at: usize) -> usize {
        let tokens = self.tokens;
        if tokens.kind(at) == Kind::Text {
            let op = Generic::read(tokens, at);
            return op.regions.first().map_or(op.end, |region| region.0);
        }
        let mut at = at + 1;
        at += usize::from(tokens.kind(at) == Kind::Symbol);
        if tokens.is_word(at, "attributes") {
            at = tokens.after(at + 1);
        }
        at + usize::from(tokens.is(at, b'{'))
    }

    fn line(&mut self, at: usize) -> u32 {
        self.lines.at(self.tokens.text, self.tokens.get(at).start)
    }

    /// Adds a public function with a body.
    fn function(&mut self, function: Function<'s>, line: u32) {
        if function.body.is_none() {
            return;
        }
        let symbol = function.symbol.clone().unwrap_or_default();
        let nested = function.end <= self.nested_until;
        if !nested {
            self.module.defined.push(symbol.clone());
        }
        if function.private {
            return;
        }
        let reason = if nested {
            let symbol = symbol.clone();
            Unlaunchable::Nested { symbol, line }
        } else if symbol.contains(['\0', char::REPLACEMENT_CHARACTER]) {
            let symbol = symbol.clone();
            Unlaunchable::Name { symbol, line }
        } else {
            return self.add(symbol, function, line, None);
        };
        self.module.refused.push(Refused {
            symbol,
            device: None,
            line,
            reason,
        });
    }

    fn device(&mut self, at: usize, generic: bool) -> usize {
        let tokens = self.tokens;
        let line = self.line(at);
        let (spelling, device, symbol, region, end) = if generic {
            let op = Generic::read(tokens, at);
            let value = op.attribute(tokens, "device");
            let spelling = value.map_or("", |value| tokens.text(value));
            let region = op.regions.first().copied();
            let symbol = op.string(tokens, "sym_name");
            (
                spelling,
                Device::from_number(spelling),
                symbol,
                region,
                op.end,
            )
        } else {
            custom_device(tokens, at)
        };
        self.module.devices.push(DeviceOp {
            symbol: symbol.unwrap_or_else(|| "main".to_owned()),
            spelling: spelling.to_owned(),
            device,
            line,
        });
        if let Some(region) = region {
            let device = InDevice {
                index: self.module.devices.len() - 1,
                flows: Flows::read(tokens, region),
            };
            self.device_region(&device, region);
        }
        end.max(at + 1)
    }

    fn device_region(&mut self, device: &InDevice, (mut at, end): (usize, usize)) {
        let tokens = self.tokens;
        while at < end {
            let Some((name, generic)) = aie::operation(tokens, at) else {
                at = tokens.after(at);
                continue;
            };
            let sequence = aie::without_dialect(name) == Some("runtime_sequence");
            if !sequence && name != "func.func" {
                at = tokens.after(at);
                continue;
            }
            let line = self.line(at);
            let function = read_function(tokens, at, generic);
            let next = function.end.max(at + 1);
            if function.body.is_none() {
                self.declared_links(&function, at..next);
            }
            if sequence || is_sequence(tokens, &function) {
                let symbol = function.symbol.clone();
                let symbol = symbol.unwrap_or_else(|| "sequence".to_owned());
                self.add(symbol, function, line, Some(device));
            }
            at = next;
        }
    }

    /// The files of a function that nothing but its own declaration speaks of.
    fn declared_links(&mut self, function: &Function<'s>, declaration: std::ops::Range<usize>) {
        let tokens = self.tokens;
        let keys = declaration.clone();
        let keys = keys.filter(|at| links::link(tokens, *at) == Some(Link::Object));
        let names: Vec<_> = keys.flat_map(|at| links::names(tokens, at)).collect();
        let (Some(symbol), false) = (&function.symbol, names.is_empty()) else {
            return;
        };
        let mentions = self.mentions.get_or_insert_with(|| {
            let mut mentions: HashMap<String, usize> = HashMap::new();
            let symbols = (0..tokens.len()).filter(|at| tokens.kind(*at) == Kind::Symbol);
            for at in symbols {
                *mentions.entry(header::symbol(tokens.text(at))).or_default() += 1;
            }
            mentions
        });
        let own = declaration.filter(|at| {
            tokens.kind(*at) == Kind::Symbol && header::symbol(tokens.text(*at)) == *symbol
        });
        if mentions.get(symbol).copied().unwrap_or_default() == own.count() {
            self.module.unused_links.extend(names);
        }
    }

    fn add(
        &mut self,
        symbol: String,
        function: Function<'s>,
        line: u32,
        device: Option<&InDevice>,
    ) {
        let parts = match (device, function.body) {
            (Some(_), Some(body)) => aie::parts(self.tokens, body),
            _ => Vec::new(),
        };
        let configures = !parts.is_empty();
        self.module.parts.extend(parts);
        let op = device.and_then(|device| self.module.devices.get(device.index));
        let device_symbol = op.map(|op| op.symbol.clone());
        let npu = op.and_then(|op| op.device.clone());
        let name = full_name(device_symbol.as_deref(), &symbol);
        match self.signature(&function, &name, line, device) {
            Ok((signature, types, computes_with)) => self.module.kernels.push(Kernel {
                symbol,
                device_symbol,
                device: npu,
                signature,
                types,
                line,
                computes_with,
                configures,
            }),
            Err(reason) => self.module.refused.push(Refused {
                symbol,
                device: device_symbol,
                line,
                reason,
            }),
        }
    }
}

fn read_function<'s>(tokens: &Tokens<'s>, at: usize, generic: bool) -> Function<'s> {
    if generic {
        header::generic(tokens, at)
    } else {
        header::custom(tokens, at)
    }
}

type DeviceHeader<'s> = (
    &'s str,
    Option<Device>,
    Option<String>,
    Option<(usize, usize)>,
    usize,
);

/// `aie.device(npu1) @name {…}`, in older files with the name in a dictionary at the end.
fn custom_device<'s>(tokens: &Tokens<'s>, at: usize) -> DeviceHeader<'s> {
    let (mut next, mut spelling, mut symbol, mut region) = (at + 1, "", None, None);
    if tokens.is(next, b'(') {
        spelling = tokens.span(next + 1, tokens.close(next));
        next = tokens.after(next);
    }
    if tokens.kind(next) == Kind::Symbol {
        symbol = Some(header::symbol(tokens.text(next)));
        next += 1;
    }
    if tokens.is_word(next, "attributes") {
        next = tokens.after(next + 1);
    }
    if tokens.is(next, b'{') {
        region = Some((next + 1, tokens.close(next)));
        next = tokens.after(next);
    }
    if tokens.is(next, b'{') {
        let attributes = (next + 1, tokens.close(next));
        let name = header::attribute(tokens, attributes, "sym_name");
        let name = name.filter(|at| tokens.kind(*at) == Kind::Text);
        symbol = symbol.or_else(|| name.map(|at| links::unescape(tokens.text(at))));
        next = tokens.after(next);
    }
    (spelling, Device::from_word(spelling), symbol, region, next)
}

/// Before mid-2024 a runtime sequence was a function of the device: one that speaks to the NPU's
/// controller, by convention called `sequence`.
fn is_sequence(tokens: &Tokens<'_>, function: &Function<'_>) -> bool {
    let Some((start, end)) = function.body else {
        return false;
    };
    let talks = |i: usize| {
        let operation = aie::operation(tokens, i).and_then(|(name, _)| aie::without_dialect(name));
        operation.is_some_and(|name| name.starts_with("npu.") || name.starts_with("ipu."))
    };
    !function.private && (function.symbol.as_deref() == Some("sequence") || (start..end).any(talks))
}
