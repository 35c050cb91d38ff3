//! aiecc's three dialects, and what a command line in one of them asks for.

use super::table::{FIRST, Output, SECOND, SELECTORS, Selector, THIRD};
use crate::options::{self, Options, Unknown};
use crate::run::{Result, Run, failure};

/// An artifact that was asked for and its file name's template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which.
    pub output: Output,
    /// Its name in messages.
    pub edge: &'static str,
    /// The template.
    pub name: String,
}

/// What a command line asks for.
#[derive(Debug)]
pub struct Asked {
    /// The dialect.
    pub dialect: u8,
    /// All options.
    pub options: Options,
    /// The artifacts.
    pub requests: Vec<Request>,
}

impl Asked {
    /// The request for an artifact.
    pub fn request(&self, output: Output) -> Option<&Request> {
        self.requests
            .iter()
            .find(|request| request.output == output)
    }

    /// Reads the command line; `None` if it only asked for information.
    ///
    /// # Errors
    /// What the dialect refuses.
    pub fn read(run: &Run) -> Result<Option<Self>> {
        let dialect = run.identity.dialect;
        let specs = match dialect {
            1 => FIRST,
            2 => SECOND,
            _ => THIRD,
        };
        if run
            .arguments
            .iter()
            .any(|a| a.trim_start_matches('-') == "help")
        {
            let overview = if dialect == 1 {
                "AIE Compiler Driver"
            } else {
                "AIE declarative compiler driver"
            };
            super::super::print(&options::help(run, overview, "<input mlir>", specs));
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
            identity: run.identity.clone(),
            program: run.program.clone(),
            directory: run.directory.clone(),
            arguments: kept,
            control: run.control.clone(),
        };
        let unknown = if dialect == 1 {
            Unknown::Swallowed
        } else {
            Unknown::Refused
        };
        let options = options::parse(&filtered, specs, unknown)?;
        for edge in options.all("get").iter().flat_map(|list| list.split(',')) {
            selected.push(by_edge(edge)?);
        }
        if options.flag("version") || options.flag("aie-version") {
            super::super::print(&version(run));
            return Ok(None);
        }
        if dialect == 1 {
            selected.extend(
                SELECTORS
                    .iter()
                    .filter(|s| !s.generate.is_empty() && options.flag(s.generate)),
            );
        }
        let mut requests: Vec<Request> = Vec::new();
        for selector in selected {
            if !requests
                .iter()
                .any(|request| request.output == selector.output)
            {
                requests.push(request(selector, &options, dialect));
            }
        }
        Ok(Some(Self {
            dialect,
            options,
            requests,
        }))
    }
}

fn request(selector: &Selector, options: &Options, dialect: u8) -> Request {
    let default = if dialect == 1 {
        selector.first_default
    } else {
        selector.edge
    };
    let name = Some(selector.name).filter(|name| !name.is_empty());
    Request {
        output: selector.output,
        edge: selector.edge,
        name: name
            .and_then(|n| options.get(n))
            .unwrap_or(default)
            .to_owned(),
    }
}

fn by_get(name: &str) -> Result<&'static Selector> {
    SELECTORS
        .iter()
        .find(|selector| selector.get == name)
        .ok_or_else(|| {
            let mut text =
                format!("aiecc: unknown output selector '--get-{name}'; available selectors are:");
            for selector in &SELECTORS {
                text.push_str(&format!("\n  --get-{}  ({})", selector.get, selector.edge));
            }
            failure(text)
        })
}

fn by_edge(edge: &str) -> Result<&'static Selector> {
    let found = SELECTORS.iter().find(|selector| selector.edge == edge);
    found.ok_or_else(|| failure(format!("aiecc: unknown output '{edge}'")))
}

/// What `--version` prints.
pub fn version(run: &Run) -> String {
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
