//! What a launch will be, settled as far as it can be before anything is compiled: the kernel, its
//! grid, and what its arguments are given as.

use std::fmt::Write as _;

use crate::tensor::{Content, Source};
use npu_build::config::{Package, Settings};
use npu_build::kernel::{Kernel, Level, Target};
use npu_build::message::one_line;
use npu_build::plan::{Prepared, Request};
use npu_build::toolchain::Format;
use npu_runtime::{Direction, Grid, Kind, Parameter, Runtime};

use super::args::{LaunchOptions, What};
use super::report::size_text;
use npu_build::cli::{BAD_INPUT, Failure};

/// A launch that is understood.
pub struct Job {
    pub request: Request,
    pub kernel: Kernel,
    pub runtime: Runtime,
    /// What `--grid` says.
    pub grid: Grid,
    /// What each argument is given as, in their order.
    pub inputs: Vec<Input>,
}

/// What an argument is given as, checked against its type.
pub enum Input {
    Scalar(u64),
    Memory(Content),
}

impl Job {
    /// Understands what is asked for. Files are opened, and their headers read.
    pub fn new(options: &LaunchOptions, settings: &Settings) -> Result<Self, Failure> {
        let flags = &options.options;
        if flags.selection.target.len() > 1 || flags.runtime.len() > 1 {
            let message = "a launch is on one device: give one --target and one --runtime";
            return Err(bad(options, message));
        }
        let mut request = request(options, settings);
        let grid = request.options.grid;
        // One command line for every target: the cpu is launched over the grid that others compile in.
        request.for_npu_only = None;
        if request.options.format == Some(Package::As(Format::Pdi)) {
            return Err(bad(
                options,
                "a PDI is loaded by neither xrt nor hsa: use --format auto",
            ));
        }
        let prepared = Prepared::new(&request)?;
        let runtime = prepared.runtime;
        if options.threads.is_some() && runtime != Runtime::Cpu {
            return Err(bad(
                options,
                "--threads is for --target cpu: an NPU has none",
            ));
        }
        let level = prepared.understood.module.level;
        let kernel = only(prepared.understood.kernels, options)?;
        let takes_grid = kernel.signature.grid;
        if grid.is_some() && !takes_grid && level == Level::Linalg {
            return Err(bad(
                options,
                "the function does not take the six trailing i32 of a grid, so --grid has no \
                 meaning for it",
            ));
        }
        let values = values(options, &kernel)?;
        refuse_missing(options, &kernel, &values, takes_grid && grid.is_none())?;
        let inputs = inputs(options, &kernel, &values)?;
        Ok(Self {
            request,
            kernel,
            runtime,
            grid: grid.map_or(Grid::ONE, |grid| Grid::from(grid.0)),
            inputs,
        })
    }

    /// The bytes that its arguments take.
    pub fn bytes(&self) -> u64 {
        let bytes = self.inputs.iter().map(|input| match input {
            Input::Memory(content) => content.bytes() as u64,
            Input::Scalar(_) => 0,
        });
        bytes.fold(0, u64::saturating_add)
    }
}

/// Refuses to ask for more memory than this machine has.
pub fn refuse_too_much(options: &LaunchOptions, bytes: u64) -> Result<(), Failure> {
    let system = rustix::system::sysinfo();
    let there = (system.totalram as u64).saturating_mul(u64::from(system.mem_unit));
    if bytes <= there {
        return Ok(());
    }
    Err(bad(
        options,
        &format!(
            "its arguments need {}, and this machine has {} of memory",
            size_text(bytes),
            size_text(there)
        ),
    ))
}

fn request(options: &LaunchOptions, settings: &Settings) -> Request {
    let directions = options.args.iter().filter_map(|given| match given.what {
        What::Direction(direction) => Some((given.name.clone(), direction)),
        What::Value(_) => None,
    });
    let mut said = options.options.options();
    said.args = directions.collect();
    said.extents = options.contract.extents.concat();
    said.refresh = options.refresh;
    // Whoever names the runtime cpu has named the target.
    if said.target.is_empty() && said.runtime == [Runtime::Cpu] {
        said.target.push(Target::Cpu);
    }
    let mut request = settings.request(&options.kernel, said);
    // Of what the project file lists, a launch takes the first.
    request.also.clear();
    request
}

/// The one kernel that is meant.
fn only(kernels: Vec<Kernel>, options: &LaunchOptions) -> Result<Kernel, Failure> {
    let names: Vec<_> = kernels
        .iter()
        .map(|kernel| kernel.signature.name.to_string())
        .collect();
    match <[Kernel; 1]>::try_from(kernels) {
        Ok([kernel]) => Ok(kernel),
        Err(_) => Err(bad(
            options,
            &format!(
                "it defines several kernels: {}; choose one with --entry",
                names.join(", ")
            ),
        )),
    }
}

/// What was given for each argument.
fn values<'a>(
    options: &'a LaunchOptions,
    kernel: &Kernel,
) -> Result<Vec<Option<&'a Source>>, Failure> {
    let mut values = vec![None; kernel.signature.parameters.len()];
    for given in &options.args {
        let What::Value(source) = &given.what else {
            continue;
        };
        let at = position(options, kernel, &given.name)?;
        if let Some(value) = values.get_mut(at)
            && value.replace(source).is_some()
        {
            let name = &given.name;
            return Err(bad(
                options,
                &format!("--arg {name}=… gives '{name}' a second value"),
            ));
        }
    }
    Ok(values)
}

/// The position of the argument `name`.
pub fn position(options: &LaunchOptions, kernel: &Kernel, name: &str) -> Result<usize, Failure> {
    let found = kernel.argument(name);
    found.map_err(|error| bad(options, &error.to_string()))
}

/// Refuses to go on without a value for everything, and says what one might look like.
fn refuse_missing(
    options: &LaunchOptions,
    kernel: &Kernel,
    values: &[Option<&Source>],
    grid: bool,
) -> Result<(), Failure> {
    let parameters = kernel.signature.parameters.iter().zip(values);
    let missing = parameters.filter(|(_, value)| value.is_none());
    let missing: Vec<_> = missing.map(|(parameter, _)| parameter).collect();
    if missing.is_empty() && !grid {
        return Ok(());
    }
    let described = missing.iter().map(|parameter| {
        let (name, mlir_type) = (&parameter.name, &parameter.mlir_type);
        let direction = match direction(parameter) {
            Some(direction) => format!(", {direction}"),
            None => String::new(),
        };
        format!("{name} ({mlir_type}{direction})")
    });
    let described = described.chain(grid.then(|| "the grid".to_owned()));
    let described: Vec<_> = described.collect();
    let message = format!(
        "{}: '{}' needs a value for {}; for example",
        options.kernel.display(),
        kernel.signature.name,
        described.join(", ")
    );
    let mut example = String::new();
    for parameter in missing {
        let _ = write!(
            example,
            " --arg {}={}",
            parameter.name,
            Source::example(parameter)
        );
    }
    if grid {
        example.push_str(" --grid 8");
    }
    Err(Failure::Message {
        message: format!("{}\n {}", one_line(&message), one_line(&example)),
        code: BAD_INPUT,
    })
}

fn inputs(
    options: &LaunchOptions,
    kernel: &Kernel,
    values: &[Option<&Source>],
) -> Result<Vec<Input>, Failure> {
    let parameters = kernel.signature.parameters.iter().zip(values);
    let inputs = (0..)
        .zip(parameters)
        .filter_map(|(position, (parameter, value))| {
            let source = (*value)?;
            let input = match parameter.kind {
                Kind::Scalar(_) => source.scalar(parameter).map(Input::Scalar),
                Kind::Memory { .. } => source.content(parameter, position).map(Input::Memory),
            };
            let name = &parameter.name;
            Some(input.map_err(|error| bad(options, &format!("--arg {name}: {error}"))))
        });
    inputs.collect()
}

/// The direction of memory.
pub fn direction(parameter: &Parameter) -> Option<Direction> {
    match parameter.kind {
        Kind::Memory { direction, .. } => Some(direction),
        Kind::Scalar(_) => None,
    }
}

/// Bad input for the kernel's file.
pub fn bad(options: &LaunchOptions, message: &str) -> Failure {
    Failure::bad_input(format!("{}: {message}", options.kernel.display()))
}
