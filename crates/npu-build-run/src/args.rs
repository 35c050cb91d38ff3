//! What the command line of `run` and `bench` may say besides what `compile`'s may.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::tensor::{Number, Source};
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{ArgAction, Args};
use npu_build::config::{self, integer, parse_timeout};
use npu_runtime::Direction;

use npu_build::cli::args::{Contract, KernelOptions, direction_named};

/// The most launches that can be asked for.
const MOST_LAUNCHES: u32 = 1_000_000_000;

pub const RUN_HELP: &str = "Values of arguments:
  @x.npy                    the array of a .npy file (bfloat16 as ml_dtypes saves it)
  1000, 1e-3, nan, true     a number, for a scalar; iN are signed
  0xff, 0b101               the same by its bits: 0xff is -1 for an i8
  zeros, ones, full:1.5     memory full of a number
  iota                      0, 1, 2, ...
  random, random#7          integers of the whole range, floats from -1 to 1; equal seeds, equal data
  zeros:16x16xbf16          each of the last five with shape and type, where the MLIR does not tell
                            them: iota:1000, full:-1:64x64, random#7:1000xf32

Examples:
  npu-build run vecadd.mlir --target cpu --grid 10 --extent x=n,y=n,out=n \\
      --arg x=@x.npy --arg y=random:10007xf32 --arg out=zeros:10007 --arg n=10007 --save out=out.npy
  npu-build run vecadd.mlir --target npu2 --runtime hsa --grid 10 --transform tile.mlir ... \\
      --expect out=@ref.npy --rtol 1e-5
  npu-build run step.mlir --target cpu --arg state=@start.npy --arg state=inout \\
      --launches 1000 --chain
  npu-build run k.mlir --target cpu ... --json | jq .arguments

Standard output has the arguments as the launches leave them. If one of them is not what --expect
says, the exit code is 1, and the message tells where and by how much they differ.";

pub const BENCH_HELP: &str = "Examples:
  npu-build bench vecadd.mlir --target cpu --grid 10 --extent x=n,y=n,out=n \\
      --arg x=random:10007 --arg y=random:10007 --arg out=zeros:10007 --arg n=10007
  npu-build bench k.mlir --target npu2 --runtime xrt ... --time 5s
  npu-build bench k.mlir --target cpu ... --json | jq .buffers.median_ns

Values of arguments are those of `npu-build run`. Measured are launches with slices, which are
copied to an NPU and back; with buffers, which are where the device reaches them; and, for each of
its launches, a chain of 32. Launches shorter than 10 us are timed several at a time.";

// Everything that a launch needs. No documentation: clap would take it for the command's.
#[derive(Args, Debug)]
pub struct LaunchOptions {
    /// The MLIR file
    #[arg(value_name = "KERNEL")]
    pub kernel: PathBuf,
    /// Value of an argument: @FILE.npy, a number, zeros, ones, full:NUMBER, iota or random; or its
    /// direction, as for compile: in, out or inout. See below
    #[arg(long = "arg", value_name = "NAME=VALUE", value_parser = OsStringValueParser::new().try_map(parse_given), action = ArgAction::Append)]
    pub args: Vec<Given>,
    #[command(flatten)]
    pub contract: Contract,
    /// Value of an external variable, for hsa: i32 unless a type is given, e.g. gain=0.5:f32 or
    /// table=1,2,3
    #[arg(long = "variable", value_name = "NAME=VALUE", value_parser = parse_variable, action = ArgAction::Append)]
    pub variables: Vec<VariableValue>,
    /// On how many of the cpu's threads the programs of a grid may run [default: one for each core]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    #[command(flatten)]
    pub options: KernelOptions,
    /// Build it even if it is in the cache
    #[arg(long)]
    pub refresh: bool,
}

#[derive(Args, Debug)]
pub struct RunCommand {
    #[command(flatten)]
    pub launch: LaunchOptions,
    /// How many times to launch it, on what the launch before has left
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1, value_parser = parse_launches)]
    pub launches: u32,
    /// Launch in chains, of which an NPU is told at once
    #[arg(long)]
    pub chain: bool,
    /// Save an argument as it is after the launches
    #[arg(long, value_name = "NAME=FILE.npy", value_parser = OsStringValueParser::new().try_map(parse_save), action = ArgAction::Append)]
    pub save: Vec<(String, PathBuf)>,
    /// What an argument must be after the launches, given as for --arg
    #[arg(long, value_name = "NAME=VALUE", value_parser = OsStringValueParser::new().try_map(parse_expected), action = ArgAction::Append)]
    pub expect: Vec<(String, Source)>,
    /// How far a float may be from the expected one, in parts of that one [default: 0]
    #[arg(long, value_name = "TOLERANCE", allow_negative_numbers = true, default_value_t = 0.0, hide_default_value = true, value_parser = parse_tolerance)]
    pub rtol: f64,
    /// How far a number may be from the expected one [default: 0]
    #[arg(long, value_name = "TOLERANCE", allow_negative_numbers = true, default_value_t = 0.0, hide_default_value = true, value_parser = parse_tolerance)]
    pub atol: f64,
}

#[derive(Args, Debug)]
pub struct BenchCommand {
    #[command(flatten)]
    pub launch: LaunchOptions,
    /// How many launches to measure of each kind, instead of a time
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "time", value_parser = parse_launches)]
    pub launches: Option<u32>,
    /// How long to measure each kind of launch, e.g. 5s or 200ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    pub time: Duration,
}

/// One `--arg`.
#[derive(Clone, Debug)]
pub struct Given {
    pub name: String,
    pub what: What,
}

/// What an `--arg` says.
#[derive(Clone, Debug)]
pub enum What {
    Direction(Direction),
    Value(Source),
}

/// One `--variable`.
#[derive(Clone, Debug)]
pub struct VariableValue {
    pub name: String,
    pub element: VariableType,
    pub values: Vec<Number>,
}

/// The types that variables may be set as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableType {
    I32,
    U32,
    I64,
    F32,
}

type ParseError = Box<dyn std::error::Error + Send + Sync>;

fn parse_given(text: OsString) -> Result<Given, ParseError> {
    let (name, value) = split(
        &text,
        "NAME=VALUE, e.g. x=@x.npy, n=1000 or out=zeros:1000xf32",
    )?;
    let what = match value.to_str().and_then(direction_named) {
        Some(direction) => What::Direction(direction),
        None => What::Value(Source::parse(value)?),
    };
    Ok(Given { name, what })
}

fn parse_expected(text: OsString) -> Result<(String, Source), ParseError> {
    let (name, value) = split(&text, "NAME=VALUE, e.g. out=@reference.npy")?;
    Ok((name, Source::parse(value)?))
}

fn parse_save(text: OsString) -> Result<(String, PathBuf), ParseError> {
    let (name, path) = split(&text, "NAME=FILE.npy, e.g. out=out.npy")?;
    Ok((name, config::path(path.to_owned())?))
}

/// What is before and behind the first `=`.
fn split<'a>(text: &'a OsStr, usage: &str) -> Result<(String, &'a OsStr), ParseError> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=');
    let at = at.ok_or_else(|| format!("write it as {usage}"))?;
    let (name, value) = bytes.split_at(at);
    let name = std::str::from_utf8(name)?;
    let name = name.strip_prefix('%').unwrap_or(name);
    let value = value.strip_prefix(b"=").unwrap_or(value);
    Ok((name.to_owned(), OsStr::from_bytes(value)))
}

fn parse_variable(text: &str) -> Result<VariableValue, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("write it as NAME=VALUE, e.g. gain=0.5:f32")?;
    let (values, element) = match value.split_once(':') {
        None => (value, VariableType::I32),
        Some((values, "i32")) => (values, VariableType::I32),
        Some((values, "ui32")) => (values, VariableType::U32),
        Some((values, "i64")) => (values, VariableType::I64),
        Some((values, "f32")) => (values, VariableType::F32),
        Some((_, other)) => {
            return Err(format!(
                "'{other}' is no type of a variable; there are i32, ui32, i64 and f32"
            ));
        }
    };
    let values = values.split(',').map(str::parse::<Number>);
    let values: Vec<_> = values
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    for value in &values {
        let bits = value.bits(&element.element());
        bits.map_err(|error| format!("{error}; a type is given as in {name}={value}:f32"))?;
    }
    Ok(VariableValue {
        name: name.to_owned(),
        element,
        values,
    })
}

fn parse_launches(text: &str) -> Result<u32, String> {
    integer(text, 1..=MOST_LAUNCHES)
        .ok_or_else(|| format!("'{text}' is no number of launches from 1 to {MOST_LAUNCHES}"))
}

fn parse_tolerance(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok();
    let value = value.filter(|value| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| format!("'{text}' is no tolerance: give a number such as 1e-5"))
}

fn parse_time(text: &str) -> Result<Duration, String> {
    // Seconds need no unit.
    let seconds = text.parse::<f64>().ok();
    let time = match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(time) => time,
        None => parse_timeout(text)?,
    };
    match time.is_zero() || time > Duration::from_secs(24 * 60 * 60) {
        true => Err("the time must be above zero, and a day at most".into()),
        false => Ok(time),
    }
}
