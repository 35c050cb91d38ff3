//! The AIE design that an AIR module becomes: one core, a FIFO an argument.

use crate::design::Part;
use crate::md5::md5;
use crate::meaning::{Root, Signature, Walk, program};
use crate::mlir::{Kind, Module, Type};
use crate::options::Options;
use crate::program::{Operand, Operation, Program, Step};
use crate::run::{Result, failure};
use crate::tools::air_opt::{arguments, entry};

/// The design of a kernel.
pub struct Design {
    pub part: Part,
    pub name: String,
    pub arguments: Vec<(String, Type)>,
    pub variables: Vec<String>,
    pub links: Vec<String>,
    pub program: Program,
    pub digest: [u8; 16],
    /// Whether there is anything for a core.
    pub has_herd: bool,
}

impl Design {
    /// The design of a module's kernel.
    pub fn of(module: &Module<'_>, options: &Options, part: Part) -> Option<Self> {
        let (function, body) = entry(module)?;
        let all = module.all_operations();
        let herd = all
            .iter()
            .find(|op| op.name == "air.herd" && body.contains(&op.at));
        let arguments: Vec<(String, Type)> = arguments(module, &function)
            .into_iter()
            .map(|(name, of)| (name.to_owned(), of))
            .collect();
        let mut walk = Walk::new(module);
        let list = crate::tools::air_opt::arguments(module, &function);
        for (index, (name, of)) in list.iter().enumerate() {
            walk.argument(name, index, of);
        }
        let _ = walk.range(body);
        let variables: Vec<String> = all
            .iter()
            .filter(|op| op.name == "aiex.scratchpad_parameter")
            .filter_map(|op| op.symbol().map(str::to_owned))
            .collect();
        let signature = Signature {
            arguments: arguments.iter().map(|(_, of)| of.clone()).collect(),
            variables: variables.clone(),
        };
        let results: Vec<_> = walk
            .written
            .iter()
            .filter_map(|root| match root {
                Root::Argument(index) => Some((*index, walk.content(root))),
                _ => None,
            })
            .collect();
        let elements = results.first().and_then(|(index, _)| {
            let of = signature.arguments.get(*index)?;
            let tile = walk.tiles.get(index).and_then(|view| {
                view.shape
                    .iter()
                    .try_fold(1u64, |product, d| product.checked_mul((*d)?))
            });
            let grid = walk.grid.iter().fold(1u64, |all, n| all.saturating_mul(*n));
            of.elements()
                .or(tile.map(|tile| tile.saturating_mul(grid.max(1))))
        });
        let program = program(&signature, &results, elements);
        let keys = ["link_with", "link_files"];
        // A function that nothing calls is dropped with its objects.
        let is_called = |op: &&crate::mlir::Operation<'_, '_>| {
            let named = |i: &usize| {
                module.kind(*i) == Kind::Symbol
                    && Some(crate::mlir::symbol_name(module.text(*i))) == op.symbol()
            };
            op.name != "func.func" || (0..module.tokens().len()).filter(named).count() > 1
        };
        let links = all
            .iter()
            .filter(is_called)
            .flat_map(|op| keys.iter().flat_map(|key| op.strings(key)));
        let identity = format!(
            "{} {:?} {:?} {:?} {:?}",
            module.identity(0..module.tokens().len()),
            options.get("stack-size").unwrap_or("1024"),
            options.all("air-runtime-loop-tiling-sizes"),
            ["row-offset", "col-offset", "num-rows", "num-cols"].map(|o| options.get(o)),
            [
                "trace-size",
                "omit-ping-pong-transform",
                "lower-linalg-to-func"
            ]
            .map(|o| options.get(o)),
        );
        let mut links: Vec<String> = links.map(str::to_owned).collect();
        links.sort();
        links.dedup();
        Some(Self {
            part,
            name: function.symbol()?.to_owned(),
            arguments,
            variables,
            links,
            program,
            digest: md5(identity.as_bytes()),
            has_herd: herd.is_some(),
        })
    }

    /// The AIE design: a device and a sequence; for a full ELF a sequence more, which configures the
    /// device and runs the other.
    pub fn aie(&self, is_configured: bool) -> Result<String> {
        let mut text = String::from("module {\n");
        let written = self.write(&mut text, is_configured);
        written.map_err(|_| failure("Error writing module"))?;
        Ok(text)
    }

    /// The type of an argument as the core sees it: all of it at once.
    pub fn object(&self, index: usize) -> String {
        let of = self.arguments.get(index).map(|(_, of)| of.clone());
        let of = of.unwrap_or_else(|| Type::parse("memref<1xi32>"));
        if let Some([m, n, k]) = self.product() {
            let [a, b, c] = self.product_arguments();
            let shape = match Some(index) {
                index if index == a => Some((m, k)),
                index if index == b => Some((k, n)),
                index if index == c => Some((m, n)),
                _ => None,
            };
            if let Some((rows, columns)) = shape {
                return format!("memref<{rows}x{columns}x{}>", of.element);
            }
        }
        let elements = of
            .elements()
            .or(self.program.elements.map(u64::from))
            .unwrap_or(1024);
        format!("memref<{elements}x{}>", of.element)
    }

    pub fn product_step(&self) -> Option<&Step> {
        let steps = self.program.steps.as_ref()?;
        steps
            .iter()
            .find(|step| step.operation == Operation::MatMul)
    }

    pub fn product(&self) -> Option<[u32; 3]> {
        self.product_step().map(|step| step.dimensions)
    }

    pub fn product_arguments(&self) -> [Option<usize>; 3] {
        let Some(step) = self.product_step() else {
            return [None; 3];
        };
        let index = |operand: Operand| match operand {
            Operand::Argument(index) => Some(index as usize),
            _ => None,
        };
        let [a, b, _] = step.operands;
        [index(a), index(b), index(step.result)]
    }

    /// The arguments that the program reads, and those that it gives.
    pub fn flows(&self) -> (Vec<usize>, Vec<usize>) {
        let buffers = || {
            self.arguments
                .iter()
                .enumerate()
                .filter(|(_, (_, of))| of.is_memref())
                .map(|(i, _)| i)
        };
        let Some(steps) = &self.program.steps else {
            // Nobody knows: everything goes in, the last comes out.
            return (
                buffers().collect(),
                buffers().next_back().into_iter().collect(),
            );
        };
        let (mut reads, mut gives) = (Vec::new(), Vec::new());
        for step in steps {
            for operand in step.operands {
                if let Operand::Argument(index) = operand {
                    reads.push(index as usize);
                }
            }
            if let Operand::Argument(index) = step.result {
                gives.push(index as usize);
            }
        }
        for list in [&mut reads, &mut gives] {
            list.sort_unstable();
            list.dedup();
        }
        (reads, gives)
    }
}
