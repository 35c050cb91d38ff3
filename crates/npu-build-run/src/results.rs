//! What becomes of the arguments after the launches: files, and comparisons.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::tensor::{Comparison, Content, Difference, Elements, Number, Tolerance, save};
use npu_build::message::one_line;
use npu_runtime::ElementType;

use super::args::RunCommand;
use super::launch::{Argument, Loaded, Value};
use super::memory::slice;
use super::prepare::{Input, Job, bad, position};
use npu_build::cli::{Failure, UNWRITABLE};

/// The `--save`s: an argument's position and a file.
pub struct Saves(Vec<(usize, PathBuf)>);

impl Saves {
    pub fn new(command: &RunCommand, job: &Job) -> Result<Self, Failure> {
        let options = &command.launch;
        let mut saves: Vec<(usize, PathBuf)> = Vec::new();
        for (name, path) in &command.save {
            let at = position(options, &job.kernel, name)?;
            if matches!(job.inputs.get(at), Some(Input::Scalar(_))) {
                let message = format!("--save {name}: it is a scalar, which no kernel changes");
                return Err(bad(options, &message));
            }
            let refuse = |path: &Path, what: &str| {
                let message = format!("--save {name}: {} {what}", path.display());
                Err(bad(options, &message))
            };
            let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
            if let Some(directory) = directory.filter(|path| !path.is_dir()) {
                return refuse(directory, "is not a directory; make it first");
            }
            if path.is_dir() {
                return refuse(path, "is a directory; name a file in it");
            }
            if saves.iter().any(|(_, other)| other == path) {
                return refuse(path, "is saved twice");
            }
            saves.push((at, path.clone()));
        }
        Ok(Self(saves))
    }

    /// Writes the files, and tells which.
    pub fn write(&self, loaded: &Loaded) -> Result<Vec<(String, PathBuf)>, Failure> {
        let mut written = Vec::new();
        for (at, path) in &self.0 {
            if let Some(argument) = loaded.arguments.get(*at)
                && let Value::Memory { layout, memory } = &argument.value
            {
                save(path, layout, memory.bytes()).map_err(|error| Failure::Message {
                    message: error.to_string(),
                    code: UNWRITABLE,
                })?;
                written.push((argument.parameter.name.to_string(), path.clone()));
            }
        }
        Ok(written)
    }
}

/// The `--expect`s: an argument's position, and what it should be.
pub struct Expectations {
    expected: Vec<(usize, Content)>,
    tolerance: Tolerance,
}

/// An argument that was compared.
pub struct Compared {
    pub name: String,
    pub element: ElementType,
    pub shape: Vec<usize>,
    pub tolerance: Tolerance,
    pub comparison: Comparison,
}

impl Expectations {
    pub fn new(command: &RunCommand, job: &Job) -> Result<Self, Failure> {
        let options = &command.launch;
        let mut expected: Vec<(usize, Content)> = Vec::new();
        for (name, source) in &command.expect {
            let at = position(options, &job.kernel, name)?;
            let refuse = |message: String| bad(options, &format!("--expect {name}: {message}"));
            let parameter = job.kernel.signature.parameters.get(at);
            let (Some(parameter), Some(Input::Memory(given))) = (parameter, job.inputs.get(at))
            else {
                return Err(refuse("it is a scalar, which no kernel changes".into()));
            };
            if expected.iter().any(|(other, _)| *other == at) {
                return Err(refuse("it is expected twice".into()));
            }
            // Its shape is that of the argument, if nothing else is said.
            let source = source.clone().with_shape(&given.layout().shape);
            let content = source.content(parameter, at as u64);
            let content = content.map_err(|error| refuse(error.to_string()))?;
            let (shape, wanted) = (&given.layout().shape, &content.layout().shape);
            if shape != wanted {
                let message = format!("its shape is {shape:?}, and {wanted:?} is expected");
                return Err(refuse(message));
            }
            expected.push((at, content));
        }
        let tolerance = Tolerance {
            rtol: command.rtol,
            atol: command.atol,
        };
        if expected.is_empty() && tolerance != Tolerance::default() {
            return Err(bad(options, "--rtol and --atol need an --expect"));
        }
        Ok(Self {
            expected,
            tolerance,
        })
    }

    /// The bytes that they take.
    pub fn bytes(&self) -> u64 {
        let bytes = self
            .expected
            .iter()
            .map(|(_, content)| content.bytes() as u64);
        bytes.fold(0, u64::saturating_add)
    }

    /// Compares the arguments as they are now.
    pub fn compare(self, loaded: &Loaded) -> Result<Vec<Compared>, Failure> {
        let mut compared = Vec::new();
        for (at, content) in self.expected {
            let Some(Argument {
                parameter,
                value: Value::Memory { layout, memory },
            }) = loaded.arguments.get(at)
            else {
                continue;
            };
            let mut expected = slice(layout, &vec![0; content.bytes()]);
            let read = content.write_into(expected.bytes_mut());
            read.map_err(|error| Failure::bad_input(error.to_string()))?;
            let elements = |bytes| Elements::new(&layout.element, bytes);
            compared.push(Compared {
                name: parameter.name.to_string(),
                element: layout.element.clone(),
                shape: layout.shape.clone(),
                tolerance: self.tolerance,
                comparison: Comparison::of(
                    elements(memory.bytes()),
                    elements(expected.bytes()),
                    self.tolerance,
                ),
            });
        }
        Ok(compared)
    }
}

/// What there is to say of arguments that are not what was expected.
pub fn differences(compared: &[Compared]) -> Option<String> {
    let described = compared.iter().filter_map(Compared::difference);
    let described: Vec<_> = described.collect();
    (!described.is_empty()).then(|| described.join("\n"))
}

impl Compared {
    fn difference(&self) -> Option<String> {
        let [first, largest] = self.comparison.worst?;
        let Comparison {
            elements,
            differing,
            ..
        } = self.comparison;
        let mut text = format!(
            "'{}' is not what was expected: {differing} of {elements} elements differ{}\n  first \
             at {}",
            one_line(&self.name),
            self.allowed(),
            self.described(&first)
        );
        let _ = match first.index == largest.index {
            true => write!(text, ", the largest difference"),
            false => write!(text, "\n  largest at {}", self.described(&largest)),
        };
        Some(text)
    }

    /// What would not have counted.
    fn allowed(&self) -> String {
        match (self.tolerance.atol, self.tolerance.rtol) {
            (0.0, 0.0) => String::new(),
            (atol, 0.0) => format!(" by more than {atol:?}"),
            (0.0, rtol) => format!(" by more than {rtol:?} of what was expected"),
            (atol, rtol) => format!(" by more than {atol:?} and {rtol:?} of what was expected"),
        }
    }

    /// `[1, 2]: 0.5, expected 0.25 (off by 2.5e-1, 1e0 of it)`.
    fn described(&self, difference: &Difference) -> String {
        let Difference {
            found,
            expected,
            distance,
            ..
        } = difference;
        let mut text = format!(
            "{:?}: {}, expected {}",
            difference.position(&self.shape),
            found.shown(&self.element),
            expected.shown(&self.element)
        );
        let _ = match (found, distance.is_finite()) {
            (Number::Integer(_), _) => write!(text, " (off by {distance})"),
            (_, false) => Ok(()),
            (_, true) => {
                let share = distance / expected.as_f64().abs();
                match share.is_finite() {
                    true => write!(text, " (off by {distance:.2e}, {share:.2e} of it)"),
                    false => write!(text, " (off by {distance:.2e})"),
                }
            }
        };
        text
    }
}
