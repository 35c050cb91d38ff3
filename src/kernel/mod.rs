//! What is compiled: reads a kernel's MLIR text at any of its three levels (linalg, AIR, AIE)
//! without an MLIR library, and finds what can be launched and what it takes.
//!
//! Invariant: text that is not understood never fails a scan and never narrows a direction. An
//! argument is `in` only if nothing can write it, `out` only if all of it is overwritten.

use std::fmt;

use npu_runtime::signature::{Direction, Kind, Signature};

mod aie;
mod append;
pub mod canonical;
pub mod contract;
mod effects;
mod error;
mod header;
mod lexer;
mod links;
mod magic;
mod overwrite;
mod rename;
mod resources;
mod scan;
mod signature;
mod spaces;
mod target;
mod text;
mod tokens;
mod trace;
pub mod triton;
pub mod types;

pub use append::append;
use canonical::Canonical;
pub use error::{ArgumentError, Position, ScanError, SelectError, TargetError, Unlaunchable};
pub use links::{rename_files, strings};
pub use rename::rename;
pub use spaces::without_memory_spaces;
pub use target::{Device, ParseTargetError, Target};

/// How far a kernel is lowered: which tools compile it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Functions over memrefs, as triton-shared makes them.
    Linalg,
    /// Launches, segments and herds of mlir-air.
    Air,
    /// Devices and runtime sequences of mlir-aie.
    Aie,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Linalg => "linalg",
            Self::Air => "air",
            Self::Aie => "aie",
        })
    }
}

/// What a file of MLIR holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its level.
    pub level: Level,
    /// All that can be launched, in the file's order: public functions with a body, or (device,
    /// sequence) pairs.
    pub kernels: Vec<Kernel>,
    /// The symbols of all functions with a body, private ones too, in the file's order.
    pub defined: Vec<String>,
    /// Object files that the kernel is linked with, as written: sorted, each once.
    pub link_files: Vec<String>,
    /// Those of them that only functions name which nothing calls.
    pub unused_links: Vec<String>,
    /// ELFs that cores name as their code (`elf_file`), as written: sorted, each once.
    pub core_elfs: Vec<String>,
    /// The line of the first core whose code is in the MLIR.
    pub core_code: Option<u32>,
    /// The devices of the AIE level, in the file's order.
    pub devices: Vec<DeviceOp>,
    /// Whether there is an `air.herd`: without one aircc has nothing to put on the array.
    pub herd: bool,
    /// The (device, sequence) pairs that other sequences run.
    parts: Vec<(String, String)>,
    /// Those that would be kernels but can't be launched.
    refused: Vec<Refused>,
    /// Whether there are Triton functions.
    triton: bool,
}

/// An `aie.device` operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOp {
    /// Its symbol, `main` if it has none.
    pub symbol: String,
    /// What it says it is for.
    pub spelling: String,
    /// The NPU, if `spelling` names one.
    pub device: Option<Device>,
    /// Its line, from 1.
    pub line: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Refused {
    symbol: String,
    device: Option<String>,
    line: u32,
    reason: Unlaunchable,
}

/// A function or runtime sequence that can be launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The function's or sequence's symbol, unquoted; `sequence` if it has none.
    pub symbol: String,
    /// At the AIE level, the symbol of its device, `main` if it has none.
    pub device_symbol: Option<String>,
    /// At the AIE level, the NPU, if the device's spelling names one.
    pub device: Option<Device>,
    /// What the caller gives; its name is the symbol, or `device:sequence` at the AIE level.
    pub signature: Signature,
    /// The type of each parameter of the signature, in its order.
    pub types: Vec<types::Type>,
    /// Its line, from 1.
    pub line: u32,
    /// The first scalar that the kernel computes with, which an NPU can't be told: its instructions
    /// are compiled beforehand.
    pub computes_with: Option<String>,
    /// Whether an AIE sequence configures devices (`aiex.configure`), to run sequences of theirs.
    pub configures: bool,
}

impl Module {
    /// Reads a file's content.
    ///
    /// # Errors
    /// Bytes that are no text, text that is no MLIR, and brackets that do not pair.
    pub fn scan(bytes: &[u8]) -> Result<Self, ScanError> {
        Ok(scan::scan(&text::tokens(text::decode(bytes)?)?))
    }

    /// Reads a file's content and strips it in one go: what [`Module::scan`] and
    /// [`Canonical::of`] give, for little more than one of them. The text is stripped where it is.
    ///
    /// # Errors
    /// As [`Module::scan`].
    pub fn read(bytes: Vec<u8>) -> Result<(Self, Canonical), ScanError> {
        text::decode(&bytes)?;
        // It is text, as was just seen.
        let source = String::from_utf8(bytes).unwrap_or_default();
        let tokens = text::tokens(&source)?;
        let module = scan::scan(&tokens);
        let cuts = canonical::cuts(tokens);
        Ok((module, Canonical::without(source, cuts)))
    }

    /// Chooses what to build. At the linalg and AIR levels that is one function: the only one,
    /// or the one named. At the AIE level it is every sequence that is not part of another, or those
    /// named by `sequence`, `device` or `device:sequence`.
    ///
    /// # Errors
    /// Nothing to choose from, no choice among several functions, an unknown name, or a choice
    /// that can't be launched.
    pub fn select(&self, entry: Option<&str>) -> Result<Vec<&Kernel>, SelectError> {
        let names = self.names();
        let Some(entry) = entry else {
            if names.is_empty() {
                return Err(if self.level == Level::Aie {
                    SelectError::NoSequence
                } else {
                    SelectError::NoFunction {
                        triton: self.triton,
                    }
                });
            }
            if self.level != Level::Aie && names.len() > 1 {
                return Err(SelectError::Several { names });
            }
            return self.launchable(|device, symbol| !self.is_part(device, symbol));
        };
        let exact = |device: Option<&str>, symbol: &str| full_name(device, symbol) == entry;
        let by_part = |device: Option<&str>, symbol: &str| symbol == entry || device == Some(entry);
        for wanted in [&exact as &dyn Fn(Option<&str>, &str) -> bool, &by_part] {
            let found = self.launchable(wanted)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Err(SelectError::Unknown {
            name: entry.chars().take(200).collect(),
            nearest: crate::nearest::of(entry, names.iter().map(String::as_str)),
            names,
        })
    }

    /// Whether the module can be compiled for `target`.
    ///
    /// # Errors
    /// An AIR or AIE module for the cpu, or an `aie.device` of another NPU or of none.
    pub fn check_target(&self, target: Target) -> Result<(), TargetError> {
        if target == Target::Cpu && self.level != Level::Linalg {
            return Err(TargetError::Level { level: self.level });
        }
        for op in &self.devices {
            let (spelling, line) = (op.spelling.clone(), op.line);
            match &op.device {
                None => return Err(TargetError::Device { spelling, line }),
                Some(device) if device.target != target => {
                    return Err(TargetError::Mismatch {
                        spelling,
                        target: device.target,
                        wanted: target,
                        line,
                    });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The target that the module's own devices name, if they agree.
    #[must_use]
    pub fn target_hint(&self) -> Option<Target> {
        let mut targets = self
            .devices
            .iter()
            .map(|op| op.device.as_ref().map(|d| d.target));
        let first = targets.next()??;
        targets.all(|target| target == Some(first)).then_some(first)
    }

    /// Whether another sequence runs this one.
    fn is_part(&self, device: Option<&str>, sequence: &str) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| device == Some(&part.0) && sequence == part.1)
    }

    /// The names of all kernels, launchable or not, in the file's order.
    fn names(&self) -> Vec<String> {
        let kernels = self.kernels.iter().map(|kernel| {
            let device = kernel.device_symbol.as_deref();
            (kernel.line, full_name(device, &kernel.symbol))
        });
        let refused = self
            .refused
            .iter()
            .map(|it| (it.line, full_name(it.device.as_deref(), &it.symbol)));
        let mut names: Vec<_> = kernels.chain(refused).collect();
        names.sort_by_key(|(line, _)| *line);
        names.into_iter().map(|(_, name)| name).collect()
    }

    fn launchable(
        &self,
        wanted: impl Fn(Option<&str>, &str) -> bool,
    ) -> Result<Vec<&Kernel>, SelectError> {
        let refused = self
            .refused
            .iter()
            .find(|it| wanted(it.device.as_deref(), &it.symbol));
        if let Some(refused) = refused {
            return Err(refused.reason.clone().into());
        }
        let kernels = self.kernels.iter();
        Ok(kernels
            .filter(|kernel| wanted(kernel.device_symbol.as_deref(), &kernel.symbol))
            .collect())
    }
}

fn full_name(device: Option<&str>, symbol: &str) -> String {
    device.map_or_else(|| symbol.to_owned(), |device| format!("{device}:{symbol}"))
}

impl Kernel {
    /// Sets which copies a launch owes the memory argument `name`, in place of what was inferred.
    ///
    /// # Errors
    /// No argument of that name, or a scalar.
    pub fn set_direction(&mut self, name: &str, direction: Direction) -> Result<(), ArgumentError> {
        let at = self.argument(name)?;
        let kernel = self.signature.name.to_string();
        let parameter = self.signature.parameters.to_mut().get_mut(at);
        match parameter.map(|it| (&mut it.kind, &it.name, &it.mlir_type)) {
            Some((Kind::Scalar(_), name, mlir_type)) => Err(ArgumentError::Scalar {
                kernel,
                name: name.to_string(),
                mlir_type: mlir_type.to_string(),
            }),
            Some((Kind::Memory { direction: old, .. }, ..)) => {
                *old = direction;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The position of the argument `name`, with or without its `%`.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn argument(&self, name: &str) -> Result<usize, ArgumentError> {
        let name = name.strip_prefix('%').unwrap_or(name);
        let parameters = self.signature.parameters.iter();
        let names = parameters.clone().map(|parameter| &*parameter.name);
        let found = names.clone().position(|known| known == name);
        found.ok_or_else(|| ArgumentError::Unknown {
            kernel: self.signature.name.to_string(),
            name: name.chars().take(200).collect(),
            nearest: crate::nearest::of(name, names.clone()),
            names: names.map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
