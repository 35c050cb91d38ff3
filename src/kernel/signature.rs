//! What one function or sequence takes: types, grid and directions of its arguments.

use std::borrow::Cow;
use std::collections::HashSet;

use npu_runtime::signature::{Direction, Kind as ParameterKind, Parameter, Shape, Signature};
use npu_runtime::{Bounds, Extent};

use super::Level;
use super::effects::{self, Context, Memory, bounds};
use super::error::Unlaunchable;
use super::header::{self, Argument, Function};
use super::scan::{InDevice, Scanner};
use super::text::Lines;
use super::tokens::Kind;
use super::trace;
use super::types::{self, Layout, Type};

/// How many `i32` the launch of a Triton kernel supplies: the grid's size and the program's place
/// in it, three each, at the end of the arguments.
const GRID_ARGUMENTS: usize = 6;

/// Bytes to which aliases may expand in one type.
const MAX_TYPE: usize = 16 * 1024;

impl<'s> Scanner<'_, 's> {
    pub(super) fn signature(
        &self,
        function: &Function<'s>,
        name: &str,
        line: u32,
        device: Option<&InDevice>,
    ) -> Result<(Signature, Vec<Type>, Option<String>), Unlaunchable> {
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
        if device.is_some() && trace::escapes(self.tokens, function.body, arguments.len()) {
            return Err(Unlaunchable::Traced {
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
        let mut types = Vec::with_capacity(spellings.len());
        for (argument, spelling) in arguments.iter().zip(&spellings) {
            let parsed = types::parse(spelling);
            types.push(parsed.ok_or_else(|| self.refused_type(name, argument, spelling, line))?);
        }
        let mut directions = self.directions(function, arguments, &types, device);
        let proven = self.extents(function, arguments, &types);
        let bounds = match proven {
            Some(_) => Bounds::Proven,
            None => Bounds::Unchecked,
        };
        let mut extents = proven.unwrap_or_default().into_iter();
        let parameters: Vec<_> = arguments
            .iter()
            .zip(spellings)
            .zip(&types)
            .map(|((argument, spelling), parsed)| Parameter {
                name: Cow::Owned(argument.name.to_owned()),
                mlir_type: Cow::Owned(spelling.into_owned()),
                kind: kind(parsed, || directions.next().unwrap_or(Direction::InOut)),
                extents: Cow::Owned(extents.next().unwrap_or_default()),
            })
            .collect();
        let scalar = self.scalar(function, arguments, &types, device.is_some());
        let signature = Signature {
            name: Cow::Owned(name.to_owned()),
            parameters: Cow::Owned(parameters),
            grid,
            bounds,
        };
        Ok((signature, types, scalar.map(str::to_owned)))
    }

    /// The scalar that the body uses first; in a device, the first that there is.
    fn scalar(
        &self,
        function: &Function<'s>,
        arguments: &[Argument<'s>],
        types: &[Type],
        in_device: bool,
    ) -> Option<&'s str> {
        let scalars = arguments.iter().zip(types);
        let scalars = scalars.filter(|(_, of_type)| matches!(of_type, Type::Scalar(_)));
        let mut scalars = scalars.map(|(argument, _)| argument.name);
        if in_device {
            return scalars.next();
        }
        let scalars: HashSet<&str> = scalars.collect();
        let (start, end) = function.body.filter(|_| !scalars.is_empty())?;
        let values = (start..end).filter(|at| self.tokens.kind(*at) == Kind::Value);
        let mut names = values.map(|at| self.tokens.value_name(at));
        names.find(|name| scalars.contains(name))
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

    /// What keeps the kernel within its arguments, if a launch can check that. An NPU's DMAs are
    /// compiled with the sizes of the arguments' types, so static ones say it all.
    fn extents(
        &self,
        function: &Function<'s>,
        arguments: &[Argument<'s>],
        types: &[Type],
    ) -> Option<Vec<Vec<Extent>>> {
        if self.level != Level::Linalg {
            let fixed = |it: &Type| matches!(it, Type::Scalar(_)) || is_dense(it);
            return types.iter().all(fixed).then(Vec::new);
        }
        let context = Context {
            tokens: self.tokens,
            aliases: &self.aliases,
            flows: None,
        };
        let named: Vec<_> = arguments.iter().map(|it| it.name).zip(types).collect();
        match self.is_plain {
            true => bounds::extents(&context, function.body?, &named),
            false => None,
        }
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
        let (symbol, argument, mlir_type, line) = (
            symbol.to_owned(),
            argument.name.to_owned(),
            spelling.chars().take(200).collect(),
            lines.at(self.tokens.text, self.tokens.get(argument.at).start),
        );
        if spelling.starts_with("memref<") {
            return Unlaunchable::Element {
                symbol,
                argument,
                mlir_type,
                line,
            };
        }
        Unlaunchable::Type {
            symbol,
            argument,
            mlir_type,
            line,
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
        // A comment or line end within makes the token after it the first of its line.
        let plain = |i| match tokens.kind(i) {
            _ if i > from && tokens.get(i).first => false,
            Kind::Hash | Kind::Bang => !self.aliases.contains_key(tokens.text(i)),
            _ => true,
        };
        if (from..to).all(plain) {
            return Cow::Borrowed(tokens.span(from, to));
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
    }
}
