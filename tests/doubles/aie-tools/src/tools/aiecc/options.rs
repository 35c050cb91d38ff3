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

/// An artifact: `--get-<get>`, its name in messages, the first dialect's flag, the option for its
/// file's name, and that name's default in the first dialect.
struct Selector {
    output: Output,
    get: &'static str,
    edge: &'static str,
    generate: &'static str,
    name: &'static str,
    default: &'static str,
}

const SELECTORS: [Selector; 4] = [
    Selector {
        output: Output::Insts,
        get: "npu-insts",
        edge: "insts_{0}.bin",
        generate: "aie-generate-npu-insts",
        name: "npu-insts-name",
        default: "{0}_{1}.bin",
    },
    Selector {
        output: Output::Pdi,
        get: "pdi",
        edge: "{0}.pdi",
        generate: "aie-generate-pdi",
        name: "pdi-name",
        default: "{0}.pdi",
    },
    Selector {
        output: Output::Xclbin,
        get: "xclbin",
        edge: "aie.xclbin",
        generate: "aie-generate-xclbin",
        name: "xclbin-name",
        default: "{0}.xclbin",
    },
    Selector {
        output: Output::FullElf,
        get: "full-elf",
        edge: "aie.elf",
        generate: "generate-full-elf",
        name: "full-elf-name",
        default: "aie.elf",
    },
];

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
        let mut selected = Vec::new();
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
            selected.extend(SELECTORS.iter().filter(|it| options.flag(it.generate)));
        }
        let request = |selector: &Selector| Request {
            output: selector.output,
            edge: selector.edge,
            name: match (options.get(selector.name), dialect) {
                (Some(name), _) => name.to_owned(),
                (None, 1) => selector.default.to_owned(),
                (None, _) => selector.edge.to_owned(),
            },
        };
        Ok(Some(Self {
            dialect,
            requests: selected.into_iter().map(request).collect(),
            options,
        }))
    }
}

fn by_get(name: &str) -> Result<&'static Selector> {
    let found = SELECTORS.iter().find(|selector| selector.get == name);
    found.ok_or_else(|| {
        let lines = SELECTORS
            .iter()
            .map(|it| format!("\n  --get-{}  ({})", it.get, it.edge));
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
