//! What compiled kernels compute beside NumPy, both on one thread.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use npu_build::step::cpu::March;
use npu_runtime::{Arg, Buffer, Device, Grid, Runtime};

use crate::measure::Times;
use crate::scene::{Scene, request};
use crate::table::Table;

const PAIRS: usize = 101;
/// Runs before those that count.
const WARM_UP: usize = 5;

/// A kernel, the elements of its inputs and of its output, and how many times NumPy's time it may
/// take, native and for every machine.
struct Case(&'static str, &'static [usize], usize, [f64; 2]);

const CASES: [Case; 3] = [
    Case("products", &[512 * 512; 2], 512 * 512, [3.0, 6.0]),
    Case("sums", &[1 << 20], 1024, [1.5, 1.5]),
    Case("exps", &[1 << 20], 1 << 20, [1.5, 1.5]),
];

/// Matrix product, sums of rows and exp of f32.
pub fn beside_numpy(scene: &Scene, table: &mut Table) {
    let python = match find_numpy() {
        Ok(python) => python,
        Err(reason) => return table.missing("cpu: f32 kernels / NumPy's", reason),
    };
    for case in &CASES {
        for (march, limit) in [March::Native, March::Baseline].into_iter().zip(case.3) {
            one(scene, table, &python, case, march, limit);
        }
    }
}

fn one(scene: &Scene, table: &mut Table, python: &PathBuf, case: &Case, march: March, limit: f64) {
    let Case(name, inputs, output, _) = case;
    let machine = match march {
        March::Native => "native",
        _ => "baseline",
    };
    let figure = format!("cpu: {name} of f32, {machine} / NumPy's");
    let mut request = request(scene.kernel(&format!("benches/figures/{name}.mlir")));
    request.options.options.march = Some(march);
    let build = match scene.build(&request) {
        Ok(build) => build,
        Err(reason) => return table.missing(&figure, reason),
    };
    let device = Device::open(Runtime::Cpu).unwrap().with_threads(1);
    let kernel = build.load(&device, &build.kernels[0]).unwrap();
    let buffers: Vec<_> = inputs
        .iter()
        .map(|count| numbers(&device, *count))
        .collect();
    let mut out = numbers(&device, *output);
    let mut numpy = Numpy::start(python, name);
    let [mut ours, mut theirs] = <[Times; 2]>::default();
    for pair in 0..WARM_UP + PAIRS {
        let mut args: Vec<_> = buffers.iter().map(Arg::input).collect();
        args.push(Arg::output(&mut out));
        let begun = Instant::now();
        kernel.launch(Grid::ONE, &mut args).unwrap();
        let here = begun.elapsed();
        let there = numpy.run();
        if pair >= WARM_UP {
            ours.add(here);
            theirs.add(there);
        }
    }
    let (ours, theirs) = (ours.median() * 1e3, theirs.median() * 1e3);
    let ratio = ours / theirs;
    let measured = format!("{ours:.2} ms / {theirs:.2} ms = {ratio:.2}");
    table.line(&figure, measured, ratio, limit, "");
}

/// Numbers from 0 to 1.
fn numbers(device: &Device, count: usize) -> Buffer<f32> {
    let mut buffer = device.buffer(count).unwrap();
    let mut value = 0.37_f32;
    buffer.iter_mut().for_each(|element| {
        value = (value * 7.31 + 0.1).fract();
        *element = value;
    });
    buffer
}

/// A Python that has NumPy: the one that is named, or the one on PATH.
fn find_numpy() -> Result<PathBuf, String> {
    let python = std::env::var_os("PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
    let output = Command::new(&python).args(["-c", "import numpy"]).output();
    match output {
        Ok(output) if output.status.success() => Ok(python),
        _ => Err("no NumPy; pip install numpy, and PYTHON=its python".into()),
    }
}

/// A process that runs one of `peer.py`'s functions when it is told to.
struct Numpy {
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl Numpy {
    fn start(python: &PathBuf, function: &str) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/figures/peer.py");
        let mut process = Command::new(python)
            .args([script, function])
            .env("OPENBLAS_NUM_THREADS", "1")
            .env("OMP_NUM_THREADS", "1")
            .env("MKL_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, answers }
    }

    /// How long one call took.
    fn run(&mut self) -> Duration {
        let stdin = self.process.stdin.as_mut().unwrap();
        stdin.write_all(b"\n").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        Duration::from_secs_f64(answer.trim().parse().unwrap())
    }
}

impl Drop for Numpy {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().ok();
    }
}
