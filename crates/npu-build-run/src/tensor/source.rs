//! What an argument is given as: `@x.npy`, `1000`, `zeros:16x16xbf16`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use npu_runtime::{Direction, ElementType, Kind, Parameter, Shape};

use super::{Extent, ExtentError, Fill, Layout, Npy, NpyError, Number, NumberError, Shown};
use npu_build::config::integer;

/// What an argument is given as.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A number, for a scalar.
    Number(Number),
    /// Memory that a rule fills.
    Fill {
        /// The rule; `None` for random numbers whose seed is the argument's position.
        fill: Option<Fill>,
        /// What was said of the memory.
        extent: Extent,
    },
    /// A `.npy` file.
    File(PathBuf),
}

/// What will be in an argument's memory, whose size is known.
#[derive(Debug)]
pub struct Content {
    layout: Layout,
    bytes: usize,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    Fill(Fill),
    File(Npy),
}

/// Why an argument can't be what it is given as.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A number that is none, or not of the type.
    #[error(transparent)]
    Number(#[from] NumberError),
    /// A shape or type that is none.
    #[error(transparent)]
    Extent(#[from] ExtentError),
    /// A file that is not what is needed.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// A word behind which more or less is needed.
    #[error("'{text}' can't be understood: write {usage}")]
    Usage {
        /// The word.
        text: String,
        /// How it is written.
        usage: &'static str,
    },
    /// Memory for a scalar.
    #[error("it is a scalar ({mlir_type}): give a number, such as 1000")]
    IsScalar {
        /// Its type.
        mlir_type: String,
    },
    /// A number for memory.
    #[error("it is memory ({mlir_type}): give @FILE.npy, or full:{number} for memory full of it")]
    IsMemory {
        /// Its type.
        mlir_type: String,
        /// The number.
        number: Number,
    },
    /// Memory of a size that nobody tells.
    #[error("its type {mlir_type} does not tell its size: say how large it is, as in {word}:{}", .example)]
    NoShape {
        /// Its type.
        mlir_type: String,
        /// The rule's name.
        word: &'static str,
        /// A shape.
        example: String,
    },
    /// A shape that is not the type's.
    #[error("the shape {} does not fit its type {mlir_type}", Shown(.found))]
    Shape {
        /// The shape.
        found: Vec<usize>,
        /// The type.
        mlir_type: String,
    },
    /// Another element type than the MLIR's.
    #[error("elements of type {found} do not fit its type {mlir_type}")]
    Element {
        /// What was said.
        found: ElementType,
        /// The type.
        mlir_type: String,
    },
    /// More bytes than memory can have.
    #[error("a shape of {} is more than any memory can hold", Shown(.0))]
    TooLarge(Vec<usize>),
}

/// How the rules are written.
const USAGE: &str = "@FILE.npy, a number, zeros, ones, iota, full:NUMBER or random[#SEED], the last five with \
                     :SHAPExTYPE where the MLIR does not tell it, e.g. zeros:1000xf32";

impl Source {
    /// Parses what stands behind the name of an argument.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &OsStr) -> Result<Self, SourceError> {
        if let Some(path) = text.as_bytes().strip_prefix(b"@") {
            return Ok(Self::File(OsString::from_vec(path.to_vec()).into()));
        }
        let lossy = text.to_string_lossy();
        let text = lossy.as_ref();
        let wrong = || SourceError::Usage {
            text: text.chars().take(200).collect(),
            usage: USAGE,
        };
        let mut parts = text.split(':');
        let fill = match parts.next().unwrap_or_default() {
            "zeros" => Some(Fill::Full(Number::Integer(0))),
            "ones" => Some(Fill::Full(Number::Integer(1))),
            "iota" => Some(Fill::Iota),
            "full" => Some(Fill::Full(parts.next().ok_or_else(wrong)?.parse()?)),
            "random" => None,
            word if word.starts_with("random#") => {
                let seed = word.strip_prefix("random#");
                let seed = seed.and_then(|seed| integer(seed, 0..=u64::MAX));
                Some(Fill::Random(seed.ok_or_else(wrong)?))
            }
            word if word.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                return text.parse().map(Self::Number).map_err(|_| wrong());
            }
            _ => return Ok(Self::Number(text.parse()?)),
        };
        let extent = parts
            .next()
            .map(str::parse)
            .transpose()?
            .unwrap_or_default();
        match parts.next() {
            None => Ok(Self::Fill { fill, extent }),
            Some(_) => Err(wrong()),
        }
    }

    /// The same with a shape for memory of which none was given.
    #[must_use]
    pub fn with_shape(mut self, shape: &[usize]) -> Self {
        if let Self::Fill { extent, .. } = &mut self
            && extent.shape.is_none()
        {
            extent.shape = Some(shape.to_vec());
        }
        self
    }

    /// The bits of a scalar argument.
    ///
    /// # Errors
    /// When it is not given as a number, or as one that its type does not have.
    pub fn scalar(&self, parameter: &Parameter) -> Result<u64, SourceError> {
        match (self, &parameter.kind) {
            (Self::Number(number), Kind::Scalar(element)) => Ok(number.bits(element)?),
            _ => Err(SourceError::IsScalar {
                mlir_type: parameter.mlir_type.to_string(),
            }),
        }
    }

    /// The content of a memory argument, the `position`th of the kernel. A file is opened and its
    /// header read.
    ///
    /// # Errors
    /// When it does not fit the argument's type.
    pub fn content(&self, parameter: &Parameter, position: u64) -> Result<Content, SourceError> {
        let mlir_type = || parameter.mlir_type.to_string();
        let Kind::Memory { element, shape, .. } = &parameter.kind else {
            return Err(SourceError::IsScalar {
                mlir_type: mlir_type(),
            });
        };
        let (data, last) = super::data(element);
        let (found, origin) = match self {
            Self::Number(number) => {
                return Err(SourceError::IsMemory {
                    mlir_type: mlir_type(),
                    number: *number,
                });
            }
            Self::File(path) => {
                let npy = Npy::open(path, element)?;
                (npy.shape().to_vec(), Origin::File(npy))
            }
            Self::Fill { fill, extent } => {
                if let Some(named) = extent.element.as_ref().filter(|named| *named != element) {
                    return Err(SourceError::Element {
                        found: named.clone(),
                        mlir_type: mlir_type(),
                    });
                }
                let known = extent.shape.clone().or_else(|| known_shape(shape));
                let mut found = known.ok_or_else(|| SourceError::NoShape {
                    mlir_type: mlir_type(),
                    word: self.word(),
                    example: example_shape(shape),
                })?;
                found.extend(last);
                (found, Origin::Fill(fill.unwrap_or(Fill::Random(position))))
            }
        };
        check_shape(&found, parameter, last, shape)?;
        let layout = Layout {
            element: data,
            shape: found,
        };
        let (Some(elements), Some(bytes)) = (layout.elements(), layout.bytes()) else {
            return Err(SourceError::TooLarge(layout.shape));
        };
        if let Origin::Fill(fill) = origin {
            fill.check(&layout.element, elements)?;
        }
        Ok(Content {
            layout,
            bytes,
            origin,
        })
    }

    /// What an argument could be given as, for people who do not know how to.
    #[must_use]
    pub fn example(parameter: &Parameter) -> String {
        match &parameter.kind {
            Kind::Scalar(ElementType::I1) => "true".to_owned(),
            Kind::Scalar(_) => "1000".to_owned(),
            Kind::Memory {
                element,
                shape,
                direction,
            } => {
                let word = match direction {
                    Direction::In => "random",
                    Direction::Out | Direction::InOut => "zeros",
                };
                match (known_shape(shape), element) {
                    (Some(_), _) => word.to_owned(),
                    (None, ElementType::Bytes { .. }) => format!("{word}:{}", example_shape(shape)),
                    (None, _) => format!("{word}:{}x{element}", example_shape(shape)),
                }
            }
        }
    }

    /// The rule's name, for messages about one.
    fn word(&self) -> &'static str {
        match self {
            Self::Fill { fill: None, .. }
            | Self::Fill {
                fill: Some(Fill::Random(_)),
                ..
            } => "random",
            Self::Fill {
                fill: Some(Fill::Iota),
                ..
            } => "iota",
            Self::Fill {
                fill: Some(Fill::Full(Number::Integer(1))),
                ..
            } => "ones",
            Self::Fill { .. } | Self::Number(_) | Self::File(_) => "zeros",
        }
    }
}

impl Content {
    /// The type and the shape.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes it into memory of that size.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn write_into(self, bytes: &mut [u8]) -> Result<(), SourceError> {
        let element = &self.layout.element;
        match self.origin {
            Origin::Fill(fill) => Ok(fill.write(element, bytes)?),
            Origin::File(npy) => Ok(npy.read_into(element, bytes)?),
        }
    }
}

/// The shape, if the MLIR tells all of it.
fn known_shape(shape: &Shape) -> Option<Vec<usize>> {
    let Shape::Ranked(dims) = shape else {
        return None;
    };
    let dims = dims.iter().map(|dim| usize::try_from((*dim)?).ok());
    dims.collect()
}

/// A shape that would fit.
pub(super) fn example_shape(shape: &Shape) -> String {
    let Shape::Ranked(dims) = shape else {
        return "1000".to_owned();
    };
    let dims = dims.iter().map(|dim| dim.unwrap_or(16).to_string());
    dims.collect::<Vec<_>>().join("x")
}

/// Compares a shape with the type's; `last` is what the data has as its last dimension besides.
fn check_shape(
    found: &[usize],
    parameter: &Parameter,
    last: Option<usize>,
    wanted: &Shape,
) -> Result<(), SourceError> {
    let fits = |shape: &[usize]| match wanted {
        Shape::Unranked => true,
        Shape::Ranked(dims) => {
            let fits =
                |(dim, found): (&Option<u64>, &usize)| dim.is_none_or(|dim| dim == *found as u64);
            dims.len() == shape.len() && dims.iter().zip(shape).all(fits)
        }
    };
    let fits = match last {
        None => fits(found),
        Some(last) => matches!(found, [dims @ .., size] if *size == last && fits(dims)),
    };
    match fits {
        true => Ok(()),
        false => Err(SourceError::Shape {
            found: found.to_vec(),
            mlir_type: parameter.mlir_type.to_string(),
        }),
    }
}
