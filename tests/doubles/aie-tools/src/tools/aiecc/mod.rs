//! aiecc: AIE-level MLIR to instruction streams, PDIs, xclbins and full ELFs, through bootgen,
//! xclbinutil and aiebu-asm, and through Peano where a design has core code.

mod cores;
mod options;
mod package;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use options::{Asked, Output};

use crate::design::{Device, Sequence, Target, designs, stream};
use crate::mlir::{Diagnostic, Module};
use crate::run::{Exit, Result, Run, execute, failure, message};

struct Compilation<'c> {
    run: &'c Run,
    asked: Asked,
    input: String,
    text: &'c str,
    tmpdir: PathBuf,
    steps: usize,
}

/// Runs aiecc.
pub fn run(run: &Run) -> Result {
    let Some(asked) = Asked::read(run)? else {
        return Ok(());
    };
    run.begin()?;
    let first = asked.dialect == 1;
    let by_dialect = |old: String, new: String| failure(if first { old } else { new });
    let input = match asked.options.positional.as_slice() {
        [input] => input.clone(),
        [input, ..] if first => input.clone(),
        [] => {
            let new = "aiecc: no input file specified; expected an input .mlir";
            return Err(by_dialect(
                "Error: No input file specified".into(),
                new.into(),
            ));
        }
        _ => return Err(failure("aiecc: expected exactly one input .mlir")),
    };
    let text = fs::read_to_string(&input).map_err(|_| {
        let new = format!("aiecc: could not open input file '{input}'");
        by_dialect(format!("error: could not open input file {input}"), new)
    })?;
    if !first && text.trim().is_empty() {
        let what = "is empty; expected MLIR containing an aie.device";
        return Err(failure(format!("aiecc: input file '{input}' {what}")));
    }
    let name = input.rsplit('/').next().unwrap_or(&input);
    let tmpdir = asked.options.get("tmpdir").map(str::to_owned);
    let tmpdir = PathBuf::from(tmpdir.unwrap_or_else(|| format!("{name}.prj")));
    let tmpdir = std::path::absolute(&tmpdir).unwrap_or(tmpdir);
    let mut maker = fs::DirBuilder::new();
    if !tmpdir.is_dir() {
        maker.recursive(!first).create(&tmpdir).map_err(|error| {
            let (path, why) = (tmpdir.display(), message(&error));
            let new = format!("Error: could not create directory {path}: {why}");
            by_dialect(format!("Error creating temporary directory: {why}"), new)
        })?;
    }
    let mut compilation = Compilation {
        run,
        asked,
        input,
        text: &text,
        tmpdir,
        steps: 0,
    };
    let ended = compilation.compile();
    if compilation.shows_progress() {
        let _ = writeln!(std::io::stderr());
    }
    ended
}

impl Compilation<'_> {
    fn compile(&mut self) -> Result {
        self.progress("input.mlir", "");
        if let Some(wanted) = super::wanted_diagnostic(self.run) {
            return Err(self.refused(&wanted));
        }
        let text = self.text;
        let module = Module::parse(text).map_err(|what| self.refused(&what))?;
        let mut devices = designs(&module).map_err(|what| self.refused(&what))?;
        if devices.is_empty() && self.asked.dialect > 1 {
            let what = "aiecc: no aie.device found in the input\naiecc: pipeline failed";
            return Err(failure(what));
        }
        if self.run.fails("pass") {
            return Err(self.pass_failed());
        }
        self.chess_or_peano()?;
        if let Some(name) = self.asked.options.get("device-name") {
            devices.retain(|device| device.name == name);
        }
        self.progress("input_with_addresses.mlir", "");
        self.intermediate("input_with_addresses.mlir", text.as_bytes());
        self.host_buffers(&devices)?;
        self.instructions(&module, &devices)?;
        let pdis = self.configure(&module, &devices)?;
        self.pack(&devices, &pdis)?;
        self.full_elf(&module, &devices, &pdis)?;
        if self.run.fails("late") {
            return Err(self.edge_failed("aie.xclbin", "main", ""));
        }
        if self.asked.dialect == 1 {
            super::print("Compilation completed successfully\n");
        }
        Ok(())
    }

    fn shows_progress(&self) -> bool {
        self.asked.dialect > 1 && !self.asked.options.flag("no-progress")
    }

    /// Progress overwrites one line of standard error.
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
        let (input, line, column) = (&self.input, what.line, what.column);
        if self.asked.dialect > 1 {
            let text = super::diagnostic(input, self.text, what);
            return self.edge_failed("input.mlir", "", &format!("{text}\n"));
        }
        let text = &what.message;
        failure(format!(
            "loc(\"{input}\":{line}:{column}): error: {text}\nError parsing MLIR file"
        ))
    }

    fn pass_failed(&self) -> Exit {
        let (input, what) = (
            &self.input,
            "'aie.tile' op allocated buffers exceeded available memory",
        );
        if self.asked.dialect > 1 {
            let text = format!("{input}:1:1: error: {what}\n");
            return self.edge_failed("input_with_addresses.mlir", "", &text);
        }
        failure(format!(
            "loc(\"{input}\":1:1): error: {what}\nError: pass pipeline failed: builtin.module(aie-canonicalize-device,aie.device(aie-assign-buffer-addresses{{alloc-scheme=}}))"
        ))
    }

    /// The failure of one step, after the words of what failed.
    fn edge_failed(&self, edge: &str, key: &str, words: &str) -> Exit {
        failure(match self.asked.dialect {
            1 => format!("{words}Error: compilation failed"),
            _ => {
                format!("{words}aiecc: edge '{edge}' (key '{key}') failed\naiecc: pipeline failed")
            }
        })
    }

    fn tool_missing(&self, edge: &str, key: &str, tool: &str) -> Exit {
        let words = "not found in search paths or PATH";
        let words = format!("aiecc: ShellCommand: tool '{tool}' {words}\n");
        self.edge_failed(edge, key, &words)
    }

    /// Runs a tool of another package to its end.
    fn tool(&self, edge: &str, key: &str, tool: &Path, arguments: &[&str]) -> Result {
        let name = tool.file_name().unwrap_or_default().to_string_lossy();
        let status = match execute(tool, arguments) {
            _ if self.run.fails(&format!("tool:{name}")) => "exit status 1".to_owned(),
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => status.to_string(),
            Err(error) => message(&error).to_owned(),
        };
        let words = format!("aiecc: '{}' failed: {status}\n", tool.display());
        Err(self.edge_failed(edge, key, &words))
    }

    /// The first dialect takes any number.
    fn host_buffers(&self, devices: &[Device]) -> Result {
        for device in devices.iter().filter(|_| self.asked.dialect > 1) {
            let buffers = device.sequences.iter().map(|sequence| {
                let arguments = sequence.arguments.iter();
                arguments.filter(|(_, of)| of.is_memref()).count()
            });
            let most = buffers.max().unwrap_or(0);
            if most > 16 {
                let text = format!(
                    "error: device '{}' has {most} host buffer arguments, which exceeds the maximum supported and verified count of 16; use fewer arguments or combine buffers\n",
                    device.name
                );
                return Err(self.edge_failed("kernels.json", &device.name, &text));
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
                self.progress(request.edge, &format!("{}_{}", device.name, sequence.name));
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
