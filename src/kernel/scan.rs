//! Finds the kernels of a module: its level, its functions or its devices' runtime sequences.

use std::borrow::Cow;
use std::collections::HashMap;

use npu_runtime::signature::{
    Direction, ElementType, Kind as ParameterKind, Parameter, Shape, Signature,
};

use super::aie::{self, Flows};
use super::effects::{self, Context, Memory};
use super::error::{Position, ScanError, Unlaunchable};
use super::header::{self, Argument, Function, Generic};
use super::lexer::{Kind, Tokens, lex};
use super::types::{self, Layout, Type};
use super::{Device, DeviceOp, Kernel, Level, Module, Refused, full_name, links};

/// How many `i32` the launch of a Triton kernel supplies: the grid's size and the program's place
/// in it, three each, at the end of the arguments.
const GRID_ARGUMENTS: usize = 6;

/// Bytes to which aliases may expand in one type.
const MAX_TYPE: usize = 16 * 1024;

pub(super) fn scan(bytes: &[u8]) -> Result<Module, ScanError> {
    let text = decode(bytes)?;
    let tokens = lex(text)?;
    check_start(&tokens)?;
    let survey = Survey::of(&tokens);
    let level = survey.level;
    let mut scanner = Scanner {
        tokens: &tokens,
        aliases: survey.aliases,
        level,
        lines: Lines { offset: 0, line: 1 },
        module: Module {
            level,
            kernels: Vec::new(),
            link_files: survey.link_files,
            devices: Vec::new(),
            refused: Vec::new(),
            triton: survey.triton,
        },
    };
    scanner.module_region();
    let mut module = scanner.module;
    module.link_files.sort_unstable();
    module.link_files.dedup();
    Ok(module)
}

fn decode(bytes: &[u8]) -> Result<&str, ScanError> {
    let decoded = std::str::from_utf8(bytes);
    let valid = decoded.map_or_else(|error| error.valid_up_to(), str::len);
    let line = |offset| Position::in_bytes(bytes, offset).line;
    let nul = bytes.iter().take(valid).position(|c| *c == 0);
    if let Some(offset) = nul {
        let line = line(offset);
        return Err(ScanError::Nul { offset, line });
    }
    decoded.map_err(|error| ScanError::NotUtf8 {
        offset: error.valid_up_to(),
        line: line(error.valid_up_to()),
    })
}

/// A module starts with an operation or an alias.
fn check_start(tokens: &Tokens<'_>) -> Result<(), ScanError> {
    let starts = match tokens.kind(0) {
        Kind::End => return Err(ScanError::Empty),
        Kind::Word => {
            let word = tokens.text(0);
            let dotted = !word.ends_with('.') && word.contains('.');
            dotted || matches!(word, "module" | "func")
        }
        Kind::Text => tokens.is(1, b'('),
        Kind::Hash | Kind::Bang => tokens.is(1, b'='),
        Kind::Value => tokens.is(1, b'=') || tokens.is(1, b':') || tokens.is(1, b','),
        _ => false,
    };
    if starts {
        return Ok(());
    }
    Err(ScanError::NotMlir {
        at: Position::of(tokens.text, tokens.get(0).start as usize),
        found: tokens.text(0).chars().take(40).collect(),
    })
}

/// What one pass over all tokens shows.
struct Survey<'s> {
    level: Level,
    triton: bool,
    link_files: Vec<String>,
    /// The first token of the value of each `#alias` and `!alias`.
    aliases: HashMap<&'s str, usize>,
}

impl<'s> Survey<'s> {
    fn of(tokens: &Tokens<'s>) -> Self {
        let mut it = Self {
            level: Level::Linalg,
            triton: false,
            link_files: Vec::new(),
            aliases: HashMap::new(),
        };
        for at in 0..tokens.len() {
            match tokens.kind(at) {
                Kind::Word | Kind::Text => it.word(tokens, at),
                Kind::Hash | Kind::Bang if tokens.get(at).first && tokens.is(at + 1, b'=') => {
                    it.aliases.insert(tokens.text(at), at + 2);
                }
                _ => {}
            }
        }
        it
    }

    fn word(&mut self, tokens: &Tokens<'_>, at: usize) {
        links::collect(tokens, at, &mut self.link_files);
        let Some((name, _)) = aie::operation(tokens, at) else {
            return;
        };
        let level = match name {
            "aie.device" | "AIE.device" => Level::Aie,
            "tt.func" => {
                self.triton = true;
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
            self.level = self.level.max(level);
        }
    }
}

/// Line numbers of places that are asked for in the file's order.
struct Lines {
    offset: usize,
    line: u32,
}

impl Lines {
    fn at(&mut self, text: &str, offset: u32) -> u32 {
        let offset = offset as usize;
        let between = text.as_bytes().get(self.offset..offset).unwrap_or_default();
        let breaks = between.iter().filter(|c| **c == b'\n').count();
        self.line = self
            .line
            .saturating_add(u32::try_from(breaks).unwrap_or(u32::MAX));
        self.offset = self.offset.max(offset);
        self.line
    }
}

struct Scanner<'t, 's> {
    tokens: &'t Tokens<'s>,
    aliases: HashMap<&'s str, usize>,
    level: Level,
    lines: Lines,
    module: Module,
}

/// A device whose region is being read.
struct InDevice {
    /// Its place in `Module::devices`.
    index: usize,
    flows: Flows,
}

impl<'s> Scanner<'_, 's> {
    /// Walks the operations of all nested modules, which may stand anywhere outside of others.
    fn module_region(&mut self) {
        let tokens = self.tokens;
        let mut at = 0;
        while at < tokens.len() {
            at = match aie::operation(tokens, at) {
                Some(("module", false) | ("builtin.module", _)) => self.step_into_module(at),
                Some(("func.func", generic)) if self.level != Level::Aie => {
                    let line = self.line(at);
                    let function = read_function(tokens, at, generic);
                    let end = function.end.max(at + 1);
                    self.function(function, line);
                    end
                }
                Some(("aie.device" | "AIE.device", generic)) => self.device(at, generic),
                _ => tokens.after(at),
            };
        }
    }

    /// The first token in the module's region: what is in it is walked like what is around it.
    fn step_into_module(&self, at: usize) -> usize {
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
        if function.private || function.body.is_none() {
            return;
        }
        let symbol = function.symbol.clone().unwrap_or_default();
        self.add(symbol, function, line, None);
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
            if sequence || is_sequence(tokens, &function) {
                let symbol = function.symbol.clone();
                let symbol = symbol.unwrap_or_else(|| "sequence".to_owned());
                self.add(symbol, function, line, Some(device));
            }
            at = next;
        }
    }

    fn add(
        &mut self,
        symbol: String,
        function: Function<'s>,
        line: u32,
        device: Option<&InDevice>,
    ) {
        let op = device.and_then(|device| self.module.devices.get(device.index));
        let device_symbol = op.map(|op| op.symbol.clone());
        let npu = op.and_then(|op| op.device.clone());
        let name = full_name(device_symbol.as_deref(), &symbol);
        match self.signature(&function, &name, line, device) {
            Ok((signature, types, dynamic)) => self.module.kernels.push(Kernel {
                symbol,
                device_symbol,
                device: npu,
                signature,
                types,
                line,
                dynamic,
            }),
            Err(reason) => self.module.refused.push(Refused {
                symbol,
                device: device_symbol,
                line,
                reason,
            }),
        }
    }

    fn signature(
        &self,
        function: &Function<'s>,
        name: &str,
        line: u32,
        device: Option<&InDevice>,
    ) -> Result<(Signature, Vec<Type>, bool), Unlaunchable> {
        let header = || Unlaunchable::Header {
            symbol: name.to_owned(),
            line,
        };
        let arguments = function.arguments.as_deref().ok_or_else(header)?;
        if function.results {
            return Err(Unlaunchable::Results {
                symbol: name.to_owned(),
                line,
            });
        }
        let mut spellings: Vec<_> = arguments.iter().map(|it| self.type_text(it)).collect();
        let last = spellings.len().saturating_sub(GRID_ARGUMENTS);
        let trailing = spellings.get(last..).unwrap_or_default();
        let grid = self.level == Level::Linalg
            && trailing.len() == GRID_ARGUMENTS
            && trailing.iter().all(|it| it == "i32");
        if grid {
            spellings.truncate(last);
        }
        let types: Vec<_> = spellings.iter().map(|it| types::parse(it)).collect();
        for ((argument, spelling), parsed) in arguments.iter().zip(&spellings).zip(&types) {
            if !can_be_passed(parsed) {
                return Err(self.refused_type(name, argument, spelling, line));
            }
        }
        let mut directions = self.directions(function, arguments, &types, device);
        let parameters: Vec<_> = arguments
            .iter()
            .zip(spellings)
            .zip(&types)
            .map(|((argument, spelling), parsed)| Parameter {
                name: Cow::Owned(argument.name.to_owned()),
                mlir_type: Cow::Owned(spelling.into_owned()),
                kind: kind(parsed, || directions.next().unwrap_or(Direction::InOut)),
            })
            .collect();
        let scalars = types.iter().any(|it| matches!(it, Type::Scalar(_)));
        let signature = Signature {
            name: Cow::Owned(name.to_owned()),
            parameters: Cow::Owned(parameters),
            grid,
        };
        Ok((signature, types, device.is_some() && scalars))
    }

    fn directions(
        &self,
        function: &Function<'s>,
        arguments: &[Argument<'s>],
        types: &[Type],
        device: Option<&InDevice>,
    ) -> impl Iterator<Item = Direction> + use<> {
        let memory: Vec<_> = arguments
            .iter()
            .zip(types)
            .filter(|(_, parsed)| !matches!(parsed, Type::Scalar(_)))
            .map(|(argument, parsed)| Memory {
                name: argument.name,
                dense: is_dense(parsed),
            })
            .collect();
        let context = Context {
            tokens: self.tokens,
            aliases: &self.aliases,
            flows: device.map(|device| &device.flows),
        };
        let body = function.body.unwrap_or_default();
        effects::directions(&context, body, &memory).into_iter()
    }

    fn refused_type(
        &self,
        symbol: &str,
        argument: &Argument<'_>,
        spelling: &str,
        line: u32,
    ) -> Unlaunchable {
        let mut lines = Lines {
            offset: self.lines.offset,
            line,
        };
        Unlaunchable::Type {
            symbol: symbol.to_owned(),
            argument: argument.name.to_owned(),
            mlir_type: spelling.to_owned(),
            line: lines.at(self.tokens.text, self.tokens.get(argument.at).start),
        }
    }

    /// An argument's type as written, on one line and with aliases resolved.
    fn type_text(&self, argument: &Argument<'_>) -> Cow<'s, str> {
        let tokens = self.tokens;
        let (mut from, mut to) = argument.of_type;
        // `!alias` for a whole type; a chain longer than this is a circle.
        for _ in 0..16 {
            let alias = (to == from + 1).then(|| self.aliases.get(tokens.text(from)));
            let Some(value) = alias.flatten() else {
                break;
            };
            (from, to) = (*value, header::after_type(tokens, *value));
        }
        let text = tokens.span(from, to);
        let plain = |i| match tokens.kind(i) {
            Kind::Hash | Kind::Bang => !self.aliases.contains_key(tokens.text(i)),
            _ => true,
        };
        if (from..to).all(plain) && !text.contains(['\n', '\r']) && !text.contains("//") {
            return Cow::Borrowed(text);
        }
        Cow::Owned(self.rewritten(from, to))
    }

    /// Tokens as text, with single spaces where there was space, and aliases replaced once.
    fn rewritten(&self, from: usize, to: usize) -> String {
        let tokens = self.tokens;
        let mut text = String::new();
        for i in from..to {
            if text.len() > MAX_TYPE {
                break;
            }
            if i > from && !tokens.adjacent(i - 1) {
                text.push(' ');
            }
            let alias = match tokens.kind(i) {
                Kind::Hash | Kind::Bang => self.aliases.get(tokens.text(i)).copied(),
                _ => None,
            };
            let value = alias.map(|at| tokens.span(at, header::after_type(tokens, at)));
            let value = value.filter(|it| it.len() < MAX_TYPE && !it.contains(['\n', '\r']));
            text.push_str(value.unwrap_or_else(|| tokens.text(i)));
        }
        text
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
        aie::operation(tokens, i)
            .is_some_and(|(name, _)| name.starts_with("aiex.npu.") || name.starts_with("aiex.ipu."))
    };
    !function.private && (function.symbol.as_deref() == Some("sequence") || (start..end).any(talks))
}

fn can_be_passed(parsed: &Type) -> bool {
    match parsed {
        Type::Unranked { .. } | Type::Ranked { .. } => true,
        Type::Scalar(element) => element.kind != ElementType::Opaque,
        Type::Other(_) => false,
    }
}

/// Whether all of the memory is elements of a known number, so that writing them writes it all.
fn is_dense(parsed: &Type) -> bool {
    match parsed {
        Type::Ranked { shape, layout, .. } => {
            *layout == Layout::Identity && shape.iter().all(Option::is_some)
        }
        _ => false,
    }
}

fn kind(parsed: &Type, direction: impl FnOnce() -> Direction) -> ParameterKind {
    match parsed {
        Type::Unranked { element } => ParameterKind::Memory {
            element: element.kind.clone(),
            shape: Shape::Unranked,
            direction: direction(),
        },
        Type::Ranked { element, shape, .. } => ParameterKind::Memory {
            element: element.kind.clone(),
            shape: Shape::Ranked(Cow::Owned(shape.clone())),
            direction: direction(),
        },
        Type::Scalar(element) => ParameterKind::Scalar(element.kind.clone()),
        Type::Other(_) => ParameterKind::Scalar(ElementType::Opaque),
    }
}
