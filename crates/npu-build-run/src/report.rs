//! What `run` and `bench` print: tables for people, objects for machines. Their names and meanings
//! are an interface.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::tensor::{Elements, Number};
use npu_build::message::one_line;
use npu_runtime::{Grid, Parameter};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::args::RunCommand;
use super::bench::Measured;
use super::launch::{Argument, Loaded, Value};
use super::measure::{Statistics, nanoseconds_text};
use super::prepare::direction;
use super::results::Compared;
use npu_build::cli::Failure;
use npu_build::cli::json::text;
use npu_build::cli::terminal::{Terminal, table};

/// How many elements of an argument are shown.
const SHOWN: usize = 8;

/// What there is to print after the launches.
pub struct Run<'a> {
    pub command: &'a RunCommand,
    pub loaded: &'a Loaded,
    pub elapsed: Duration,
    pub compared: &'a [Compared],
    pub saved: &'a [(String, PathBuf)],
}

/// Prints the arguments as they are after the launches.
pub fn run(terminal: &Terminal, run: &Run<'_>) -> Result<(), Failure> {
    if terminal.json {
        return Ok(terminal.result_json(&run.object())?);
    }
    let loaded = run.loaded;
    terminal.result(&headline(
        &loaded.kernel.signature().name,
        loaded.device.runtime().name(),
        loaded.kernel.signature().grid.then_some(loaded.grid),
    ))?;
    let rows: Vec<_> = loaded.arguments.iter().map(row).collect();
    for row in table(&rows) {
        terminal.result(&format!("  {row}"))?;
    }
    for (name, path) in run.saved {
        terminal.result(&one_line(&format!("saved: {name} in {}", path.display())))?;
    }
    for compared in run
        .compared
        .iter()
        .filter(|compared| compared.comparison.is_equal())
    {
        terminal.result(&one_line(&format!("as expected: {}", compared.name)))?;
    }
    Ok(())
}

fn headline(kernel: &str, runtime: &str, grid: Option<Grid>) -> String {
    let kernel = one_line(kernel);
    match grid {
        Some(grid) => format!("{kernel} on {runtime}, grid {grid}"),
        None => format!("{kernel} on {runtime}"),
    }
}

/// Name, type, shape, direction and first values of an argument.
fn row(argument: &Argument) -> [String; 5] {
    let Parameter {
        name, mlir_type, ..
    } = &argument.parameter;
    let (shape, values) = match &argument.value {
        Value::Scalar { element, bits } => {
            let number = Number::from_bits(element, *bits);
            (String::new(), number.shown(element))
        }
        Value::Memory { layout, memory } => {
            let elements = Elements::new(&layout.element, memory.bytes());
            let mut values = elements.texts(SHOWN).collect::<Vec<_>>().join(", ");
            if elements.len() > SHOWN {
                values.push_str(", …");
            }
            (format!("{:?}", layout.shape), values)
        }
    };
    let direction = direction(&argument.parameter).map_or("in", |direction| direction.name());
    [
        name.to_string(),
        mlir_type.to_string(),
        shape,
        direction.to_owned(),
        values,
    ]
}

#[derive(Serialize)]
struct Object<'a> {
    kernel: &'a str,
    runtime: &'a str,
    grid: [u32; 3],
    launches: u32,
    arguments: Vec<ArgumentObject<'a>>,
    saved: Vec<Json>,
    expected: Vec<Json>,
    build_ns: u64,
    open_ns: u64,
    load_ns: u64,
    launches_ns: u64,
}

#[derive(Serialize)]
struct ArgumentObject<'a> {
    name: &'a str,
    mlir_type: &'a str,
    direction: &'static str,
    /// Of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    element: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<&'a [usize]>,
    /// The first ones.
    values: Vec<Json>,
}

impl Run<'_> {
    fn object(&self) -> Object<'_> {
        let Loaded {
            device,
            kernel,
            grid,
            arguments,
            times,
        } = self.loaded;
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let saved = self.saved.iter();
        Object {
            kernel: &kernel.signature().name,
            runtime: device.runtime().name(),
            grid: [grid.x, grid.y, grid.z],
            launches: self.command.launches,
            arguments: arguments.iter().map(ArgumentObject::of).collect(),
            saved: saved
                .map(|(name, path)| json!({"name": name, "path": text(path)}))
                .collect(),
            expected: self.compared.iter().map(compared_object).collect(),
            build_ns: nanoseconds(times.build),
            open_ns: nanoseconds(times.open),
            load_ns: nanoseconds(times.load),
            launches_ns: nanoseconds(self.elapsed),
        }
    }
}

impl<'a> ArgumentObject<'a> {
    fn of(argument: &'a Argument) -> Self {
        let (element, shape, values) = match &argument.value {
            Value::Scalar { element, bits } => {
                (None, None, vec![number(Number::from_bits(element, *bits))])
            }
            Value::Memory { layout, memory } => {
                let elements = Elements::new(&layout.element, memory.bytes());
                let values = elements.iter().take(SHOWN).map(number).collect();
                (Some(layout.element.name()), Some(&*layout.shape), values)
            }
        };
        Self {
            name: &argument.parameter.name,
            mlir_type: &argument.parameter.mlir_type,
            direction: direction(&argument.parameter).map_or("in", |direction| direction.name()),
            element,
            shape,
            values,
        }
    }
}

fn compared_object(compared: &Compared) -> Json {
    let comparison = &compared.comparison;
    let mut object = json!({
        "name": compared.name,
        "equal": comparison.is_equal(),
        "elements": comparison.elements,
        "differing": comparison.differing,
        "rtol": compared.tolerance.rtol,
        "atol": compared.tolerance.atol,
    });
    for (name, difference) in ["first", "largest"]
        .into_iter()
        .zip(comparison.worst.iter().flatten())
    {
        object[name] = json!({
            "position": difference.position(&compared.shape),
            "found": number(difference.found),
            "expected": number(difference.expected),
            "distance": number(Number::Float(difference.distance)),
        });
    }
    object
}

/// A number as JSON has it: what is not finite, and integers beyond 64 bits, are strings.
fn number(value: Number) -> Json {
    match value {
        Number::Integer(integer) => match (i64::try_from(integer), u64::try_from(integer)) {
            (Ok(integer), _) => integer.into(),
            (_, Ok(integer)) => integer.into(),
            _ => value.to_string().into(),
        },
        Number::Bits(bits) => bits.into(),
        Number::Float(float) if float.is_finite() => float.into(),
        Number::Float(_) => value.to_string().into(),
    }
}

/// Prints what was measured.
pub fn bench(terminal: &Terminal, measured: &Measured) -> Result<(), Failure> {
    if terminal.json {
        return Ok(terminal.result_json(measured)?);
    }
    let grid = measured.grid();
    let mut text = headline(
        &measured.kernel,
        &measured.runtime,
        (grid != Grid::ONE).then_some(grid),
    );
    let _ = write!(
        text,
        ", {} in, {} out\n{:16}{:>10}{:>10}{:>10}{:>10}{:>12}",
        size_text(measured.bytes_in),
        size_text(measured.bytes_out),
        "",
        "min",
        "median",
        "p99",
        "mean",
        "launches"
    );
    for (name, statistics) in [
        ("with slices", &measured.slices),
        ("with buffers", &measured.buffers),
        ("in chains of 32", &measured.chain),
    ] {
        text.push_str(&line(name, statistics));
    }
    if let Some(copies) = measured.copies_ns {
        let _ = write!(
            text,
            "\n{:16}{:>10}{:>10}",
            "copies",
            "",
            nanoseconds_text(copies.max(0.0))
        );
    }
    for (name, time) in [
        ("first launch", measured.first_launch_ns),
        ("opening", measured.open_ns),
        ("loading", measured.load_ns),
    ] {
        let _ = write!(text, "\n{name:16}{:>10}", nanoseconds_text(time));
    }
    if let Some([single, chained]) = measured.per_launch {
        let _ = write!(
            text,
            "\n{:16}{:>10.3} for each launch, {:.3} in chains\n{:16}{:>10.3} for each launch, {:.3} in chains",
            "doorbells",
            single.doorbells,
            chained.doorbells,
            "allocations",
            single.allocations,
            chained.allocations
        );
    }
    for line in text.lines() {
        terminal.result(line)?;
    }
    Ok(())
}

fn line(name: &str, statistics: &Statistics) -> String {
    let Statistics {
        min_ns,
        median_ns,
        p99_ns,
        mean_ns,
        launches,
        ..
    } = statistics;
    let mut line = format!("\n{name:16}");
    for time in [min_ns, median_ns, p99_ns, mean_ns] {
        let _ = write!(line, "{:>10}", nanoseconds_text(*time));
    }
    let _ = write!(line, "{launches:>12}");
    line
}

/// A number of bytes for people.
pub fn size_text(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "kB", "MB", "GB", "TB", "PB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    match unit {
        "B" => format!("{bytes} B"),
        _ => format!("{value:.1} {unit}"),
    }
}
