//! aiecc's three dialects, and what a command line in one of them asks for.

use crate::options::{self, Options, Table};
use crate::run::{Result, Run, failure};
use crate::tools::print;

/// An artifact that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The instruction stream of each sequence.
    Insts,
    Pdi,
    Xclbin,
    FullElf,
}

/// Each artifact with `--get-<this>`, its name in messages, the first dialect's flag, the option for
/// its file's name, and that name's default in the first dialect.
const SELECTORS: [(Output, &str); 4] = [
    (
        Output::Insts,
        "npu-insts insts_{0}.bin aie-generate-npu-insts npu-insts-name {0}_{1}.bin",
    ),
    (Output::Pdi, "pdi {0}.pdi aie-generate-pdi pdi-name {0}.pdi"),
    (
        Output::Xclbin,
        "xclbin aie.xclbin aie-generate-xclbin xclbin-name {0}.xclbin",
    ),
    (
        Output::FullElf,
        "full-elf aie.elf generate-full-elf full-elf-name aie.elf",
    ),
];

/// The selectors with their words apart.
fn selectors() -> impl Iterator<Item = (Output, [&'static str; 5])> {
    SELECTORS.iter().map(|(output, words)| {
        let mut words = words.split(' ');
        (*output, std::array::from_fn(|_| words.next().unwrap_or("")))
    })
}

/// An artifact that was asked for: its name in messages and its file name's template.
#[derive(Clone, Debug)]
pub struct Request {
    pub output: Output,
    pub edge: &'static str,
    pub name: String,
}

/// What a command line asks for.
pub struct Asked {
    pub dialect: u8,
    pub options: Options,
    pub requests: Vec<Request>,
}

/// The options of April 2026 as it lists them, and what the later dialects made of them.
fn table(dialect: u8) -> Table {
    let april = Table::new(include_str!("../../../../../data/aie/help/aiecc.txt"));
    let gone = [
        "aie-generate-",
        "generate-full-elf",
        "no-compile",
        "link",
        "compile ",
        "no-link",
    ];
    let chess = ["no-xchesscc", "no-xbridge", "aiesim", "compile-host"];
    let added = "  --default-stack-size=<uint>     - Stack size of cores that state none
  --get=<string>                  - Request graph outputs by edge name (repeatable); named artifacts also have --get-<name> shorthands (e.g. --get-xclbin)
  --no-progress                   - Disable the progress output
  --output-dir=<string>           - Output directory for generated artifacts
  --xclbinutil-path=<string>      - Path or name of the xclbinutil that packs the xclbin
";
    match dialect {
        1 => april,
        2 => april.changed(&gone, "  --full-elf-name", added),
        _ => april.changed(&[&gone[..], &chess].concat(), "  --full-elf-name", added),
    }
}

impl Asked {
    /// The request for an artifact.
    pub fn request(&self, output: Output) -> Option<Request> {
        let mut requests = self.requests.iter();
        requests.find(|request| request.output == output).cloned()
    }

    /// Reads the command line; `None` if it only asked for information.
    pub fn read(run: &Run) -> Result<Option<Self>> {
        let dialect = run.identity.dialect;
        let table = table(dialect);
        if run.asks("help") {
            print(table.help());
            return Ok(None);
        }
        if run.asks("version") || run.asks("aie-version") {
            print(&version(run));
            return Ok(None);
        }
        let mut selected: Vec<(Output, [&str; 5])> = Vec::new();
        let mut kept = Vec::new();
        for argument in &run.arguments {
            match argument.strip_prefix("--get-").filter(|_| dialect > 1) {
                Some(name) => selected.push(by_get(name)?),
                None => kept.push(argument.clone()),
            }
        }
        let filtered = Run {
            arguments: kept,
            ..run.clone()
        };
        let options = options::parse(&filtered, &table, dialect == 1)?;
        if dialect == 1 {
            selected.extend(selectors().filter(|(_, [_, _, flag, ..])| options.flag(flag)));
        }
        let request = |(output, [_, edge, _, name, default]): (_, [&'static str; 5])| {
            let default = if dialect == 1 { default } else { edge };
            Request {
                output,
                edge,
                name: options.get(name).unwrap_or(default).to_owned(),
            }
        };
        Ok(Some(Self {
            dialect,
            requests: selected.into_iter().map(request).collect(),
            options,
        }))
    }
}

fn by_get(name: &str) -> Result<(Output, [&'static str; 5])> {
    let found = selectors().find(|(_, [get, ..])| *get == name);
    found.ok_or_else(|| {
        let lines = selectors().map(|(_, [get, edge, ..])| format!("\n  --get-{get}  ({edge})"));
        failure(format!(
            "aiecc: unknown output selector '--get-{name}'; available selectors are:{}",
            lines.collect::<String>()
        ))
    })
}

fn version(run: &Run) -> String {
    let identity = &run.identity;
    let commit = format!("{:07x}", 0x5ad_0c1f_u32.wrapping_add(identity.build));
    match identity.dialect {
        1 => format!("aiecc (C++ version) {commit}\n"),
        _ => format!(
            "aiecc (mlir-aie declarative driver)\n  git SHA:  {commit} ({})\n  compiled: Aug 21 2026 05:04:17\n",
            identity.version
        ),
    }
}
