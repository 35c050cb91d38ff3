//! A kernel that is loaded, and its arguments.

use std::time::{Duration, Instant};

use crate::tensor::Layout;
use npu_build::plan::Session;
use npu_runtime::{
    Arg, Artifact, Bounds, Chain, Device, Direction, ElementType, Error, Grid, Kernel, Kind,
    Runtime,
};
use npu_runtime::{Element, Parameter};

use super::args::{LaunchOptions, VariableType, VariableValue};
use super::memory::{self, Memory};
use super::prepare::{Input, Job, bad, direction};
use npu_build::cli::terminal::Terminal;
use npu_build::cli::{BAD_INPUT, FAILED, Failure, INTERRUPTED, MISSING, compile};

/// Launches that a chain has at most. Longer ones are several.
const LONGEST_CHAIN: usize = 1024;

/// A kernel that is loaded, with memory for its arguments.
pub struct Loaded {
    pub device: Device,
    pub kernel: Kernel,
    pub grid: Grid,
    pub arguments: Vec<Argument>,
    pub times: Times,
}

/// How long everything before the first launch took.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Finding or compiling it.
    pub build: Duration,
    /// Opening the device.
    pub open: Duration,
    /// Loading the kernel.
    pub load: Duration,
}

/// An argument of the launches.
pub struct Argument {
    pub parameter: Parameter,
    pub value: Value,
}

/// What an argument is.
pub enum Value {
    Scalar {
        element: ElementType,
        bits: u64,
    },
    Memory {
        layout: Layout,
        memory: Box<dyn Memory>,
    },
}

/// Builds, loads and fills. Nothing of the cache is in use any more when it is done, and a signal
/// ends the process.
pub fn load(
    session: Session,
    options: &LaunchOptions,
    job: Job,
    terminal: &Terminal,
) -> Result<Loaded, Failure> {
    let build = session.build(&job.request, &|event| terminal.event(&event))?;
    compile::summary(&build, terminal);
    let [built] = build.kernels.as_slice() else {
        return Err(bad(options, "it gave more than the kernel that was meant"));
    };
    let (device, open) = timed(|| open(&session, job.runtime, terminal));
    let device = match options.threads {
        Some(threads) => device?.with_threads(usize::from(threads)),
        None => device?,
    };
    let (kernel, load) = timed(|| build.load(&device, built));
    let kernel = kernel.map_err(failure)?;
    if kernel.signature().bounds == Bounds::Unchecked {
        terminal.warning(&format!(
            "nothing proves that '{}' stays within its arguments, and memory that is too small for it is not noticed; \
             say how many elements each of them needs, as in --extent x=n,y=n",
            kernel.signature().name
        ));
    }
    session.interrupt().release();
    if session.interrupt().is_raised() {
        return Err(Failure::Printed(INTERRUPTED));
    }
    let times = Times {
        build: build.elapsed,
        open,
        load,
    };
    let grid = match kernel.signature().grid {
        true => job.grid,
        false => Grid::ONE,
    };
    set_variables(&device, &kernel, &options.variables)?;
    let parameters = kernel.signature().parameters.to_vec();
    let arguments = parameters.into_iter().zip(job.inputs);
    let arguments =
        arguments.map(|(parameter, input)| argument(options, &device, parameter, input));
    Ok(Loaded {
        arguments: arguments.collect::<Result<_, _>>()?,
        device,
        kernel,
        grid,
        times,
    })
}

/// The device; XRT's through a shim that is compiled for it, unless one is named.
pub fn open(session: &Session, runtime: Runtime, terminal: &Terminal) -> Result<Device, Failure> {
    const NAMED: &str = "NPU_RUNTIME_XRT_SHIM";
    let is_named = std::env::var_os(NAMED).is_some_and(|path| !path.is_empty());
    if runtime != Runtime::Xrt || is_named {
        return Device::open(runtime).map_err(unusable);
    }
    let shim = session.shim(false, &|event| terminal.event(&event))?;
    match shim.artifacts.first() {
        Some(artifact) => {
            let shim = Artifact::file(&artifact.path, *artifact.digest.as_bytes());
            Device::open_with_shim(&shim).map_err(unusable)
        }
        None => Device::open(runtime).map_err(unusable),
    }
}

fn argument(
    options: &LaunchOptions,
    device: &Device,
    parameter: Parameter,
    input: Input,
) -> Result<Argument, Failure> {
    let value = match (input, &parameter.kind) {
        (Input::Scalar(bits), Kind::Scalar(element) | Kind::Memory { element, .. }) => {
            Value::Scalar {
                element: element.clone(),
                bits,
            }
        }
        (Input::Memory(content), _) => {
            let layout = content.layout().clone();
            let mut memory = memory::buffer(device, &layout).map_err(failure)?;
            let written = content.write_into(memory.bytes_mut());
            let name = &parameter.name;
            written.map_err(|error| bad(options, &format!("--arg {name}: {error}")))?;
            Value::Memory { layout, memory }
        }
    };
    Ok(Argument { parameter, value })
}

fn set_variables(
    device: &Device,
    kernel: &Kernel,
    variables: &[VariableValue],
) -> Result<(), Failure> {
    fn set<T: Element>(
        kernel: &Kernel,
        variable: &VariableValue,
        value: impl Fn(u64) -> T,
    ) -> Result<(), Failure> {
        let there = kernel.variable::<T>(&variable.name).map_err(failure)?;
        for (index, number) in variable.values.iter().enumerate() {
            let bits = number.bits(&variable.element.element());
            let bits = bits.map_err(|error| Failure::bad_input(error.to_string()))?;
            there.set(index, value(bits)).map_err(failure)?;
        }
        Ok(())
    }
    for variable in variables {
        if device.runtime() != Runtime::Hsa {
            return Err(Failure::bad_input(format!(
                "--variable {}: external variables are for --runtime hsa, and this is {}",
                variable.name,
                device.runtime()
            )));
        }
        match variable.element {
            VariableType::I32 => set(kernel, variable, |bits| bits as i32),
            VariableType::U32 => set(kernel, variable, |bits| bits as u32),
            VariableType::I64 => set(kernel, variable, |bits| bits as i64),
            VariableType::F32 => set(kernel, variable, |bits| f32::from_bits(bits as u32)),
        }?;
    }
    Ok(())
}

impl VariableType {
    /// The same as an element type.
    pub fn element(self) -> ElementType {
        match self {
            Self::I32 => ElementType::I32,
            Self::U32 => ElementType::Ui32,
            Self::I64 => ElementType::I64,
            Self::F32 => ElementType::F32,
        }
    }
}

impl Argument {
    /// The argument for several launches.
    fn lend(&mut self, times: usize) -> Vec<Arg<'_>> {
        let written = direction(&self.parameter).is_some_and(Direction::is_written);
        let given_shape = rank_to_give(&self.parameter);
        match &mut self.value {
            Value::Scalar { element, bits } => {
                let scalar = || memory::scalar(element, *bits);
                std::iter::repeat_with(scalar).take(times).collect()
            }
            Value::Memory { layout, memory } => {
                let args = memory.lend(written, times);
                match given_shape {
                    Some(rank) => args
                        .into_iter()
                        .map(|arg| arg.with_shape(layout.shape.get(..rank).unwrap_or_default()))
                        .collect(),
                    None => args,
                }
            }
        }
    }

    /// The same argument in memory that is no device's.
    pub fn in_slices(&self) -> Self {
        let value = match &self.value {
            Value::Scalar { element, bits } => Value::Scalar {
                element: element.clone(),
                bits: *bits,
            },
            Value::Memory { layout, memory } => Value::Memory {
                memory: memory::slice(layout, memory.bytes()),
                layout: layout.clone(),
            },
        };
        Self {
            parameter: self.parameter.clone(),
            value,
        }
    }
}

/// The number of dimensions, if the length alone does not tell them.
fn rank_to_give(parameter: &Parameter) -> Option<usize> {
    match &parameter.kind {
        Kind::Memory {
            shape: npu_runtime::Shape::Ranked(dims),
            ..
        } if dims.iter().filter(|dim| dim.is_none()).count() > 1 => Some(dims.len()),
        _ => None,
    }
}

/// The arguments of several launches that run one after the other.
pub fn lend(arguments: &mut [Argument], times: usize) -> Vec<Vec<Arg<'_>>> {
    let mut launches: Vec<_> = (0..times).map(|_| Vec::new()).collect();
    for argument in arguments {
        for (launch, arg) in launches.iter_mut().zip(argument.lend(times)) {
            launch.push(arg);
        }
    }
    launches
}

/// A chain of `length` launches.
pub fn chain<'a>(
    device: &Device,
    kernel: &Kernel,
    grid: Grid,
    arguments: &'a mut [Argument],
    length: usize,
) -> Result<Chain<'a>, Error> {
    let mut chain = Chain::new(device);
    for args in lend(arguments, length) {
        // SAFETY: whoever gives the arguments on the command line answers for a kernel that nothing
        // else keeps within them, as for all that it does in this process.
        chain.push(unsafe { kernel.bind_unchecked(grid, args) }?)?;
    }
    Ok(chain)
}

impl Loaded {
    /// Launches it `times` times, and tells how long that took.
    pub fn launch(&mut self, times: usize) -> Result<Duration, Error> {
        let launches = lend(&mut self.arguments, 1);
        let mut args = launches.into_iter().next().unwrap_or_default();
        let started = Instant::now();
        for _ in 0..times {
            // SAFETY: as for a chain.
            unsafe { self.kernel.launch_unchecked(self.grid, &mut args) }?;
        }
        Ok(started.elapsed())
    }

    /// The same, in chains.
    pub fn launch_chained(&mut self, times: usize) -> Result<Duration, Error> {
        let mut total = Duration::ZERO;
        for (length, runs) in [
            (LONGEST_CHAIN, times / LONGEST_CHAIN),
            (times % LONGEST_CHAIN, 1),
        ] {
            if length == 0 || runs == 0 {
                continue;
            }
            let (device, kernel) = (&self.device, &self.kernel);
            let mut chain = chain(device, kernel, self.grid, &mut self.arguments, length)?;
            let started = Instant::now();
            for _ in 0..runs {
                chain.run()?;
            }
            total += started.elapsed();
        }
        Ok(total)
    }
}

/// What is done, and how long it took.
pub fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let done = what();
    (done, started.elapsed())
}

/// A device that can't be opened.
fn unusable(error: Error) -> Failure {
    Failure::Message {
        message: error.to_string(),
        code: MISSING,
    }
}

/// What the runtime refused, and whose fault that is.
pub fn failure(error: Error) -> Failure {
    let code = match &error {
        Error::Variable(_)
        | Error::NoImage(_)
        | Error::ArgumentCount { .. }
        | Error::Argument(_)
        | Error::Grid { .. } => BAD_INPUT,
        _ => FAILED,
    };
    Failure::Message {
        message: error.to_string(),
        code,
    }
}
