//! The user's word on how many elements a kernel's arguments need: `n`, `[rows, cols]`,
//! `grid.x*256`.

use std::borrow::Cow;
use std::collections::HashMap;

use npu_runtime::{Bounds, ElementType, Extent, Factor, GRID, Kind, Parameter, Shape, Signature};

use super::Kernel;
use crate::nearest;

/// Why a contract does not fit a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContractError {
    /// Text that is no size.
    #[error(
        "'{0}' is no extent: write a name, a number, a product such as rows*cols or grid.x*256, or one of them for \
         each dimension, as in [rows, cols]; _ is any size"
    )]
    Syntax(String),
    /// An extent for a scalar.
    #[error("argument '{name}' is a scalar ({mlir_type}): only memory has an extent")]
    Scalar {
        /// The argument.
        name: String,
        /// Its type as written.
        mlir_type: String,
    },
    /// Another number of dimensions.
    #[error("argument '{name}' ({mlir_type}) has {}, and its extent {found}{}", dimensions(*.expected), example(.name, *.expected))]
    Rank {
        /// The argument.
        name: String,
        /// Its type as written.
        mlir_type: String,
        /// How many the type has.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// A number that the type contradicts.
    #[error(
        "argument '{name}' ({mlir_type}) has {expected} elements by its type, and by its extent {found}"
    )]
    Static {
        /// The argument.
        name: String,
        /// Its type as written.
        mlir_type: String,
        /// The dimension by its type.
        expected: u64,
        /// What was given.
        found: u64,
    },
    /// A scalar that counts nothing.
    #[error("'{name}' can't be a size: it is a scalar of type {mlir_type}, not an integer")]
    NotInteger {
        /// The scalar.
        name: String,
        /// Its type as written.
        mlir_type: String,
    },
    /// A grid's size for a kernel without a grid.
    #[error("'{0}' has no meaning for a kernel without a grid")]
    NoGrid(String),
    /// A grid's size that it does not have.
    #[error("'{0}' is no size of a grid: write grid.x, grid.y or grid.z")]
    Axis(String),
    /// A name in a product that has no value.
    #[error("'{name}' is no integer scalar of the kernel, so that nothing can be multiplied by it{}", nearest::hint(.nearest.as_deref()))]
    NoValue {
        /// The name.
        name: String,
        /// The scalar that is closest, if one is close.
        nearest: Option<String>,
    },
    /// A name that nothing is compared with.
    #[error(
        "'{name}' is no scalar of the kernel, and no other extent has it, so that nothing would be checked{}; write _ \
         where any size will do", nearest::hint(.nearest.as_deref())
    )]
    Alone {
        /// The name.
        name: String,
        /// The scalar that is closest, if one is close.
        nearest: Option<String>,
    },
    /// Memory of which nothing is said.
    #[error(
        "the contract says nothing of argument '{name}' ({mlir_type}): give its extent as well, or _ if any size will do"
    )]
    Missing {
        /// The argument.
        name: String,
        /// Its type as written.
        mlir_type: String,
    },
}

/// Splits `x=n,a=[m, k]` into names and extents.
///
/// # Errors
/// Says how it is written.
pub fn split(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut depth = 0_usize;
    let parts = text.split(|c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    let pair = |part: &str| {
        let (name, extent) = part.split_once('=')?;
        let name = name.trim();
        let name = name.strip_prefix('%').unwrap_or(name);
        (!name.is_empty()).then(|| (name.to_owned(), extent.trim().to_owned()))
    };
    let pairs: Option<Vec<_>> = parts.map(pair).collect();
    pairs.ok_or_else(|| "write it as NAME=SIZE, e.g. x=n,y=n or a=[rows, cols]".to_owned())
}

impl Kernel {
    /// Declares how many elements the kernel needs, by the names of its arguments, in place of
    /// all that was proven. The last word on an argument counts.
    ///
    /// # Errors
    /// What does not fit the kernel, and memory of a dynamic size that is not named.
    pub fn set_extents(
        &mut self,
        extents: &[(String, String)],
    ) -> Result<(), super::ArgumentError> {
        let mut parsed = Vec::new();
        for (name, text) in extents {
            let at = self.argument(name)?;
            let extents = self.signature.parse_extents(at, text);
            parsed.push((at, extents.map_err(|error| self.contract(error))?));
        }
        let parameters = self.signature.parameters.to_mut();
        for parameter in parameters.iter_mut() {
            parameter.extents = Cow::default();
        }
        for (at, extents) in parsed {
            if let Some(parameter) = parameters.get_mut(at) {
                parameter.extents = Cow::Owned(extents);
            }
        }
        name_the_named(parameters);
        let checked = check(&self.signature);
        checked.map_err(|error| self.contract(error))?;
        self.signature.bounds = Bounds::Declared;
        Ok(())
    }

    fn contract(&self, source: ContractError) -> super::ArgumentError {
        super::ArgumentError::Contract {
            kernel: self.signature.name.to_string(),
            source,
        }
    }
}

/// `y=x`, where x is an argument of one dimension, means as many as x has.
fn name_the_named(parameters: &mut [Parameter]) {
    let names: Vec<String> = parameters
        .iter()
        .flat_map(|parameter| parameter.extents.iter())
        .filter_map(|extent| match extent {
            Extent::Same(name) => Some(name.to_string()),
            _ => None,
        })
        .collect();
    for parameter in parameters {
        if parameter.extents.is_empty()
            && rank(parameter) == Some(1)
            && names.iter().any(|name| *name == parameter.name)
        {
            parameter.extents = Cow::Owned(vec![Extent::Same(parameter.name.clone())]);
        }
    }
}

/// The number of dimensions that an extent has; `None` for a scalar.
fn rank(parameter: &Parameter) -> Option<usize> {
    match &parameter.kind {
        Kind::Scalar(_) => None,
        Kind::Memory {
            shape: Shape::Unranked,
            ..
        } => Some(1),
        Kind::Memory {
            shape: Shape::Ranked(dims),
            ..
        } => Some(dims.len()),
    }
}

/// Refuses names that check nothing, and memory that is left out.
fn check(signature: &Signature) -> Result<(), ContractError> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for extent in signature.parameters.iter().flat_map(|it| it.extents.iter()) {
        if let Extent::Same(name) = extent {
            *uses.entry(name).or_default() += 1;
        }
    }
    if let Some(name) = uses
        .iter()
        .filter(|(_, uses)| **uses == 1)
        .map(|(name, _)| *name)
        .min()
    {
        return Err(ContractError::Alone {
            name: name.to_owned(),
            nearest: signature.nearest_scalar(name),
        });
    }
    let is_open = |parameter: &&Parameter| match &parameter.kind {
        Kind::Scalar(_) => false,
        Kind::Memory {
            shape: Shape::Ranked(dims),
            ..
        } => parameter.extents.is_empty() && dims.contains(&None),
        Kind::Memory { .. } => parameter.extents.is_empty(),
    };
    match signature.parameters.iter().find(is_open) {
        Some(parameter) => Err(ContractError::Missing {
            name: parameter.name.to_string(),
            mlir_type: parameter.mlir_type.to_string(),
        }),
        None => Ok(()),
    }
}

/// Reading extents for one kernel.
trait Extents {
    fn parse_extents(&self, at: usize, text: &str) -> Result<Vec<Extent>, ContractError>;
    fn parse_extent(&self, text: &str) -> Result<Extent, ContractError>;
    fn factor(&self, text: &str) -> Result<Option<Factor>, ContractError>;
    fn nearest_scalar(&self, name: &str) -> Option<String>;
}

impl Extents for Signature {
    fn parse_extents(&self, at: usize, text: &str) -> Result<Vec<Extent>, ContractError> {
        let syntax = || ContractError::Syntax(text.chars().take(200).collect());
        let parameter = self.parameters.get(at).ok_or_else(syntax)?;
        let name = || parameter.name.to_string();
        let mlir_type = || parameter.mlir_type.to_string();
        let Some(expected) = rank(parameter) else {
            return Err(ContractError::Scalar {
                name: name(),
                mlir_type: mlir_type(),
            });
        };
        let inside = text.strip_prefix('[').map(|rest| rest.strip_suffix(']'));
        let list: Vec<&str> = match inside {
            None => vec![text],
            Some(None) => return Err(syntax()),
            Some(Some(inside)) if inside.trim().is_empty() => Vec::new(),
            Some(Some(inside)) => inside.split(',').collect(),
        };
        if list.len() != expected {
            return Err(ContractError::Rank {
                name: name(),
                mlir_type: mlir_type(),
                expected,
                found: list.len(),
            });
        }
        let extents = list.into_iter().map(|text| self.parse_extent(text));
        let extents: Vec<_> = extents.collect::<Result<_, _>>()?;
        let dims = match &parameter.kind {
            Kind::Memory {
                shape: Shape::Ranked(dims),
                ..
            } => dims.iter().zip(&extents),
            _ => return Ok(extents),
        };
        for pair in dims {
            match pair {
                (Some(expected), Extent::Exactly(found)) if expected != found => {
                    return Err(ContractError::Static {
                        name: name(),
                        mlir_type: mlir_type(),
                        expected: *expected,
                        found: *found,
                    });
                }
                _ => {}
            }
        }
        Ok(extents)
    }

    fn parse_extent(&self, text: &str) -> Result<Extent, ContractError> {
        let syntax = || ContractError::Syntax(text.chars().take(200).collect());
        let text = text.trim();
        if text == "_" {
            return Ok(Extent::Any);
        }
        let words: Vec<&str> = text.split('*').map(str::trim).collect();
        if words.iter().any(|word| !is_word(word)) {
            return Err(syntax());
        }
        match words.as_slice() {
            [word] => Ok(match self.factor(word)? {
                Some(Factor::Number(number)) => Extent::Exactly(number),
                Some(factor) => Extent::AtLeast(Cow::Owned(vec![factor])),
                None => Extent::Same(Cow::Owned(plain(word).to_owned())),
            }),
            words => {
                let factor = |word: &&str| {
                    self.factor(word)?.ok_or_else(|| ContractError::NoValue {
                        name: (*word).to_owned(),
                        nearest: self.nearest_scalar(word),
                    })
                };
                let factors: Result<Vec<_>, _> = words.iter().map(factor).collect();
                Ok(Extent::AtLeast(Cow::Owned(factors?)))
            }
        }
    }

    /// What a word counts; `None` if it is but a name.
    fn factor(&self, word: &str) -> Result<Option<Factor>, ContractError> {
        if word.bytes().all(|c| c.is_ascii_digit()) {
            let number = word.parse().map(Factor::Number);
            let number = number.map_err(|_| ContractError::Syntax(word.to_owned()))?;
            return Ok(Some(number));
        }
        if let Some(axis) = GRID.iter().position(|name| *name == word) {
            return match self.grid {
                true => Ok(Some(Factor::Grid(axis))),
                false => Err(ContractError::NoGrid(word.to_owned())),
            };
        }
        if word.starts_with("grid.") {
            return Err(ContractError::Axis(word.to_owned()));
        }
        let mut parameters = self.parameters.iter();
        let Some(at) = parameters.position(|it| it.name == plain(word)) else {
            return Ok(None);
        };
        let parameter = self.parameters.get(at);
        match parameter.map(|it| (&it.kind, &it.mlir_type)) {
            Some((Kind::Scalar(element), _)) if is_integer(element) => Ok(Some(Factor::Scalar(at))),
            Some((Kind::Scalar(_), mlir_type)) => Err(ContractError::NotInteger {
                name: word.to_owned(),
                mlir_type: mlir_type.to_string(),
            }),
            _ => Ok(None),
        }
    }

    fn nearest_scalar(&self, name: &str) -> Option<String> {
        let scalars = self.parameters.iter();
        let counts = |kind: &Kind| matches!(kind, Kind::Scalar(element) if is_integer(element));
        let scalars = scalars.filter(|it| counts(&it.kind));
        nearest::of(name, scalars.map(|it| &*it.name))
    }
}

/// Digits, or a name as MLIR has it, with or without its `%`.
fn is_word(word: &str) -> bool {
    let name = plain(word);
    let is_number = name.bytes().all(|c| c.is_ascii_digit());
    let goes_on = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'.' | b'-');
    // Without the `%` it looks like a difference.
    let is_bare = name.len() == word.len();
    let starts = |c: char| c != '-' && (!is_bare || !c.is_ascii_digit());
    let is_name = name.starts_with(starts) && name.bytes().all(goes_on);
    !name.is_empty() && (is_number || is_name && !(is_bare && name.contains('-')))
}

fn dimensions(count: usize) -> String {
    match count {
        1 => "1 dimension".to_owned(),
        _ => format!("{count} dimensions"),
    }
}

/// How an extent of several dimensions is written.
fn example(name: &str, rank: usize) -> String {
    match rank {
        0 | 1 => String::new(),
        _ => format!("; write {name}=[{}]", vec!["_"; rank].join(", ")),
    }
}

fn plain(word: &str) -> &str {
    word.strip_prefix('%').unwrap_or(word)
}

fn is_integer(element: &ElementType) -> bool {
    !matches!(
        element,
        ElementType::I1
            | ElementType::F16
            | ElementType::Bf16
            | ElementType::F32
            | ElementType::F64
            | ElementType::Bytes { .. }
    )
}

#[cfg(test)]
mod tests;
