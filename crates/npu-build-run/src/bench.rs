//! What is measured: launches with slices, with buffers, and in chains.

use std::time::Duration;

use npu_runtime::{Counters, Direction, Error, Grid, Runtime};
use serde::Serialize;

use super::args::BenchCommand;
use super::launch::{self, Argument, Loaded, Value, timed};
use super::measure::{self, Budget, Statistics};
use super::prepare::direction;

/// Launches of the chain that is measured: as many as an NPU is told of at once.
const CHAIN: usize = 32;

/// What was measured.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub kernel: String,
    pub runtime: String,
    pub grid: [u32; 3],
    /// What a launch with slices has to copy to an NPU, and from there.
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub build_ns: f64,
    pub open_ns: f64,
    pub load_ns: f64,
    pub first_launch_ns: f64,
    pub slices: Statistics,
    pub buffers: Statistics,
    /// What slices cost more than buffers; on cpu, where nothing is copied, there is none.
    pub copies_ns: Option<f64>,
    pub chain: Statistics,
    /// Of one launch with buffers, and of one in a chain; on cpu nothing is counted.
    pub per_launch: Option<[Counted; 2]>,
}

/// What the host did for a launch, on average.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Counted {
    pub doorbells: f64,
    pub allocations: f64,
}

/// Measures launches of a kernel.
pub fn measure(command: &BenchCommand, mut loaded: Loaded) -> Result<Measured, Error> {
    let budget = match command.launches {
        Some(launches) => Budget::Launches(launches.into()),
        None => Budget::Time(command.time),
    };
    let (kernel, grid) = (loaded.kernel.clone(), loaded.grid);
    let device = loaded.device.clone();
    let launches = |arguments: &mut [Argument], first: bool| {
        let mut args = launch::lend(arguments, 1).pop().unwrap_or_default();
        // SAFETY: as for a chain.
        let mut launch = || unsafe { kernel.launch_unchecked(grid, &mut args) };
        let (launched, time) = match first {
            true => timed(&mut launch),
            false => (Ok(()), Duration::ZERO),
        };
        launched?;
        Ok::<_, Error>((measure::measure(budget, 1, launch)?, time))
    };
    let mut slices: Vec<_> = loaded.arguments.iter().map(Argument::in_slices).collect();
    let (slices, first) = launches(&mut slices, true)?;
    let before = device.counters();
    let (buffers, _) = launches(&mut loaded.arguments, false)?;
    let between = device.counters();
    let chain = {
        let mut chain = launch::chain(&device, &kernel, grid, &mut loaded.arguments, CHAIN)?;
        measure::measure(budget, CHAIN as u64, || chain.run())?
    };
    let is_cpu = device.runtime() == Runtime::Cpu;
    let counted = [
        Counted::of(before, between),
        Counted::of(between, device.counters()),
    ];
    Ok(Measured {
        kernel: kernel.signature().name.to_string(),
        runtime: device.runtime().to_string(),
        grid: [grid.x, grid.y, grid.z],
        bytes_in: bytes(&loaded.arguments, |direction| direction != Direction::Out),
        bytes_out: bytes(&loaded.arguments, Direction::is_written),
        build_ns: nanoseconds(loaded.times.build),
        open_ns: nanoseconds(loaded.times.open),
        load_ns: nanoseconds(loaded.times.load),
        first_launch_ns: nanoseconds(first),
        copies_ns: (!is_cpu).then_some(slices.median_ns - buffers.median_ns),
        slices,
        buffers,
        chain,
        per_launch: (!is_cpu).then_some(counted),
    })
}

impl Measured {
    pub fn grid(&self) -> Grid {
        self.grid.into()
    }
}

impl Counted {
    fn of(before: Counters, after: Counters) -> Self {
        let launches = after.dispatches - before.dispatches;
        let each = |count: u64| count as f64 / u64::max(launches, 1) as f64;
        Self {
            doorbells: each(after.doorbells - before.doorbells),
            allocations: each(after.allocations - before.allocations),
        }
    }
}

/// The bytes of memory arguments of some directions.
fn bytes(arguments: &[Argument], counts: impl Fn(Direction) -> bool) -> u64 {
    let bytes = arguments
        .iter()
        .filter_map(|argument| match &argument.value {
            Value::Memory { memory, .. } if direction(&argument.parameter).is_some_and(&counts) => {
                Some(memory.bytes().len() as u64)
            }
            _ => None,
        });
    bytes.sum()
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_nanos() as f64
}
