//! aiecc: AIE-level MLIR to instruction streams, PDIs, xclbins and full ELFs, through bootgen,
//! xclbinutil and aiebu-asm, and through Peano where a design has core code.

mod cores;
mod options;
mod package;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::design::{Device, Sequence, Target, designs, stream};
use crate::mlir::{Diagnostic, Module};
use crate::run::{Exit, Result, Run, failure, message, read_input};

use options::{Asked, Output};

struct Compilation<'c> {
    run: &'c Run,
    asked: Asked,
    input: String,
    text: &'c str,
    tmpdir: PathBuf,
    steps: usize,
}

pub fn run(run: &Run) -> Result {
    let Some(asked) = Asked::read(run)? else {
        return Ok(());
    };
    run.begin()?;
    let input = input(&asked)?;
    let text = read(&asked, &input)?;
    let tmpdir = tmpdir(&asked, &input)?;
    let mut compilation = Compilation {
        run,
        asked,
        input,
        text: &text,
        tmpdir,
        steps: 0,
    };
    let ended = compilation.compile();
    if ended.is_err() && compilation.shows_progress() && compilation.steps > 0 {
        // The status line ends before the diagnostics start.
        let _ = writeln!(std::io::stderr());
    }
    ended
}

fn input(asked: &Asked) -> Result<String> {
    let first = asked.options.positional.first();
    if asked.dialect > 1 && asked.options.positional.len() > 1 {
        return Err(failure("aiecc: expected exactly one input .mlir"));
    }
    first.cloned().ok_or_else(|| {
        failure(match asked.dialect {
            1 => "Error: No input file specified",
            _ => "aiecc: no input file specified; expected an input .mlir",
        })
    })
}

fn read(asked: &Asked, input: &str) -> Result<String> {
    let text = read_input(input).map_err(|error| {
        failure(match asked.dialect {
            1 => format!("error: could not open input file {input}"),
            _ => {
                let _ = message(&error);
                format!("aiecc: could not open input file '{input}'")
            }
        })
    })?;
    if asked.dialect > 1 && text.trim().is_empty() {
        let message =
            format!("aiecc: input file '{input}' is empty; expected MLIR containing an aie.device");
        return Err(failure(message));
    }
    Ok(text)
}

fn tmpdir(asked: &Asked, input: &str) -> Result<PathBuf> {
    let name = input.rsplit('/').next().unwrap_or(input);
    let tmpdir = asked.options.get("tmpdir").filter(|t| !t.is_empty());
    let tmpdir = tmpdir.map_or_else(|| PathBuf::from(format!("{name}.prj")), PathBuf::from);
    let tmpdir = std::path::absolute(&tmpdir).unwrap_or(tmpdir);
    if tmpdir.is_dir() {
        return Ok(tmpdir);
    }
    let made = fs::DirBuilder::new()
        .recursive(asked.dialect > 1)
        .mode(0o770)
        .create(&tmpdir);
    made.map_err(|error| {
        failure(match asked.dialect {
            1 => format!("Error creating temporary directory: {}", message(&error)),
            _ => format!(
                "Error: could not create directory {}: {}",
                tmpdir.display(),
                message(&error)
            ),
        })
    })?;
    Ok(tmpdir)
}

impl Compilation<'_> {
    fn compile(&mut self) -> Result {
        if self.asked.options.flag("n") {
            return self.dry_run();
        }
        self.progress("input.mlir", "");
        if let Some(wanted) = super::wanted_diagnostic(self.run) {
            return Err(self.refused(&wanted));
        }
        let text = self.text;
        let module = Module::parse(text).map_err(|what| self.refused(&what))?;
        let all = designs(&module).map_err(|what| self.refused(&what))?;
        if all.is_empty() {
            return self.no_device();
        }
        if self.run.fails("pass") {
            return Err(self.pass_failed());
        }
        self.chess_or_peano()?;
        let named = self.asked.options.get("device-name").map(str::to_owned);
        let devices: Vec<Device> = all
            .into_iter()
            .filter(|device| named.as_ref().is_none_or(|name| device.name == *name))
            .collect();
        self.progress("input_with_addresses.mlir", "");
        self.intermediate("input_with_addresses.mlir", text.as_bytes());
        self.host_buffers(&devices)?;
        self.instructions(&module, &devices)?;
        let configured = self.configure(&module, &devices)?;
        self.pack(&devices, &configured)?;
        self.full_elf(&module, &devices, &configured)?;
        if self.run.fails("late") {
            return Err(self.edge_failed("aie.xclbin", "main", None));
        }
        if self.asked.dialect == 1 {
            super::print("Compilation completed successfully\n");
        } else if self.shows_progress() {
            let _ = writeln!(std::io::stderr());
        }
        Ok(())
    }

    fn dry_run(&self) -> Result {
        for request in &self.asked.requests {
            let path = self.output(&request.name, "main", "sequence");
            let _ = fs::write(path, b"");
        }
        Ok(())
    }

    fn shows_progress(&self) -> bool {
        let options = &self.asked.options;
        self.asked.dialect > 1 && !options.flag("no-progress") && !options.flag("verbose")
    }

    fn progress(&mut self, edge: &str, key: &str) {
        self.steps += 1;
        if self.shows_progress() {
            let _ = write!(std::io::stderr(), "\r\x1b[2K[{}] {edge} {key}", self.steps);
        }
    }

    fn intermediate(&self, name: &str, bytes: &[u8]) {
        self.run.write(&self.tmpdir.join(name), bytes);
    }

    /// The path of an output. In the first dialect `{0}` is the device and `{1}` the sequence, later
    /// `{0}` is both if there is a sequence.
    fn output(&self, template: &str, device: &str, sequence: &str) -> PathBuf {
        let first = match (self.asked.dialect, sequence) {
            (1, _) | (_, "") => device.to_owned(),
            (_, sequence) => format!("{device}_{sequence}"),
        };
        let name = template.replace("{0}", &first).replace("{1}", sequence);
        let directory = self.asked.options.get("output-dir").unwrap_or(".");
        // Joining an absolute name gives that name.
        Path::new(directory).join(name)
    }

    /// A problem in the input, in the dialect's form.
    fn refused(&self, what: &Diagnostic) -> Exit {
        let input = &self.input;
        failure(match self.asked.dialect {
            1 => format!(
                "loc(\"{input}\":{}:{}): error: {}\nError parsing MLIR file",
                what.line, what.column, what.message
            ),
            _ => {
                let text = super::diagnostic(input, self.text, what);
                format!("{text}\naiecc: edge 'input.mlir' (key '') failed\naiecc: pipeline failed")
            }
        })
    }

    fn no_device(&self) -> Result {
        match self.asked.dialect {
            1 if !self.asked.options.flag("verbose") => Ok(()),
            1 => Err(failure("Error: No AIE devices found in module")),
            _ => Err(failure(
                "aiecc: no aie.device found in the input\naiecc: pipeline failed",
            )),
        }
    }

    fn pass_failed(&self) -> Exit {
        let pipeline = "builtin.module(aie-canonicalize-device,aie.device(aie-assign-buffer-addresses{alloc-scheme=}))";
        if self.asked.dialect > 1 {
            let text = format!(
                "{}:1:1: error: 'aie.tile' op allocated buffers exceeded available memory",
                self.input
            );
            return failure(format!(
                "{text}\naiecc: edge 'input_with_addresses.mlir' (key '') failed\naiecc: pipeline failed"
            ));
        }
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let stem = format!(
            "aiecc_failure_{}_{}",
            time.map_or(0, |t| t.as_secs()),
            std::process::id()
        );
        let _ = fs::write(format!("{stem}.mlir"), self.text);
        let _ = fs::write(
            format!("{stem}.sh"),
            format!("#!/bin/sh\naie-opt --pass-pipeline='{pipeline}' {stem}.mlir\n"),
        );
        failure(format!(
            "loc(\"{}\":1:1): error: 'aie.tile' op allocated buffers exceeded available memory\nError: pass pipeline failed: {pipeline}",
            self.input
        ))
    }

    /// The failure of one step, after the words of the tool that failed.
    fn edge_failed(&self, edge: &str, key: &str, words: Option<String>) -> Exit {
        let words = words.map(|w| format!("{w}\n")).unwrap_or_default();
        failure(match self.asked.dialect {
            1 => format!("{words}Error: compilation failed"),
            _ => {
                format!("{words}aiecc: edge '{edge}' (key '{key}') failed\naiecc: pipeline failed")
            }
        })
    }

    fn tool_failed(&self, edge: &str, key: &str, tool: &Path, status: &str) -> Exit {
        self.edge_failed(
            edge,
            key,
            Some(format!("aiecc: '{}' failed: {status}", tool.display())),
        )
    }

    fn tool_missing(&self, edge: &str, key: &str, tool: &str) -> Exit {
        let words = format!("aiecc: ShellCommand: tool '{tool}' not found in search paths or PATH");
        self.edge_failed(edge, key, Some(words))
    }

    /// Runs a tool of another package to its end.
    fn tool(&self, edge: &str, key: &str, tool: &Path, arguments: &[&str]) -> Result {
        if self.asked.options.flag("verbose") {
            let _ = writeln!(
                std::io::stderr(),
                "{} {}",
                tool.display(),
                arguments.join(" ")
            );
        }
        let name = tool.file_name().unwrap_or_default().to_string_lossy();
        if self.run.fails(&format!("tool:{name}")) {
            return Err(self.tool_failed(edge, key, tool, "exit status 1"));
        }
        match crate::run::execute(tool, arguments) {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.tool_failed(edge, key, tool, &status.to_string())),
            Err(error) => Err(self.tool_failed(edge, key, tool, message(&error))),
        }
    }

    fn host_buffers(&self, devices: &[Device]) -> Result {
        if self.asked.dialect == 1 {
            return Ok(());
        }
        for device in devices {
            let counts = device.sequences.iter().map(|sequence| {
                sequence
                    .arguments
                    .iter()
                    .filter(|(_, of)| of.is_memref())
                    .count()
            });
            let most = counts.max().unwrap_or(0);
            if most > 16 {
                let text = format!(
                    "error: device '{}' has {most} host buffer arguments, which exceeds the maximum supported and verified count of 16; use fewer arguments or combine buffers",
                    device.name
                );
                return Err(self.edge_failed("kernels.json", &device.name, Some(text)));
            }
        }
        Ok(())
    }

    fn sequences<'d>(&self, device: &'d Device) -> Vec<&'d Sequence> {
        let named = self.asked.options.get("sequence-name");
        let all = device.sequences.iter();
        all.filter(|sequence| named.is_none_or(|name| sequence.name == name))
            .collect()
    }

    fn instructions(&mut self, module: &Module<'_>, devices: &[Device]) -> Result {
        let Some(request) = self.asked.request(Output::Insts) else {
            return Ok(());
        };
        let target = Target::Instructions {
            folds: self.asked.dialect > 1,
        };
        let mut paths: Vec<PathBuf> = Vec::new();
        for device in devices {
            for sequence in self.sequences(device) {
                let key = format!("{}_{}", device.name, sequence.name);
                self.progress(request.edge, &key);
                let path = self.output(&request.name, &device.name, &sequence.name);
                self.unique(&mut paths, &path, request.edge)?;
                let stream = stream(module, device, sequence, target);
                self.run.deliver("insts", &path, &stream.bytes());
            }
        }
        Ok(())
    }

    /// Refuses a second output of the same path, except in the first dialect, which overwrites.
    fn unique(&self, paths: &mut Vec<PathBuf>, path: &Path, edge: &str) -> Result {
        if self.asked.dialect > 1 && paths.iter().any(|known| known == path) {
            let path = path.display();
            return Err(failure(format!(
                "aiecc: edge '{edge}' produced duplicate output path '{path}'"
            )));
        }
        paths.push(path.to_owned());
        Ok(())
    }
}
