//! What becomes of the arguments after the launches: files, and comparisons.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use npu_build::tensor::{Comparison, Content, Difference, Elements, Tolerance, save};

use super::super::{Failure, UNWRITABLE};
use super::args::RunCommand;
use super::launch::{Argument, Loaded, Value};
use super::memory::slice;
use super::prepare::{Input, Job, bad, position};

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
            let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
            if !directory.is_none_or(Path::is_dir) || path.is_dir() {
                let message = format!("--save {name}: {} can't be a file", path.display());
                return Err(bad(options, &message));
            }
            if saves.iter().any(|(_, other)| other == path) {
                let message = format!("--save {name}: {} is saved twice", path.display());
                return Err(bad(options, &message));
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
    let mut message = String::new();
    for compared in compared {
        let Some([first, largest]) = compared.comparison.worst else {
            continue;
        };
        let Compared {
            name,
            shape,
            tolerance: Tolerance { rtol, atol },
            comparison,
        } = compared;
        let separator = if message.is_empty() { "" } else { "\n" };
        let _ = write!(
            message,
            "{separator}'{name}' is not what was expected: {} of {} elements differ by more than \
             {atol:?} + {rtol:?} x |expected|\n  first at {}",
            comparison.differing,
            comparison.elements,
            described(&first, shape)
        );
        let _ = match first.index == largest.index {
            true => write!(message, ", which is the largest difference"),
            false => write!(message, "\n  largest at {}", described(&largest, shape)),
        };
    }
    (!message.is_empty()).then_some(message)
}

/// `[1, 2]: 0.5, expected 0.25 (off by 0.25, 1e0 of it)`.
fn described(difference: &Difference, shape: &[usize]) -> String {
    let Difference {
        found,
        expected,
        distance,
        ..
    } = difference;
    let mut text = format!(
        "{:?}: {found}, expected {expected}",
        difference.position(shape)
    );
    let magnitude = expected.as_f64().abs();
    if distance.is_finite() {
        let _ = write!(text, " (off by {distance:?}");
        if magnitude > 0.0 {
            let _ = write!(text, ", {:.2e} of it", distance / magnitude);
        }
        text.push(')');
    }
    text
}
