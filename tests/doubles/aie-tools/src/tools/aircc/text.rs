//! A design as MLIR.

use std::fmt::Write as _;

use super::design::Design;
use crate::mlir::Type;
use crate::program::{Element, Operand, Operation, Step};

impl Design {
    /// Writes the module, with a sequence that configures the device if `is_configured`.
    ///
    /// # Errors
    /// None: the text grows.
    pub fn write(&self, text: &mut String, is_configured: bool) -> std::fmt::Result {
        let (reads, gives) = self.flows();
        for variable in &self.variables {
            writeln!(text, "  aiex.scratchpad_parameter @{variable} : i32")?;
        }
        writeln!(text, "  aie.device({}) @{}_0 {{", self.part.name, self.name)?;
        if !self.has_herd {
            // What was to be compiled is left as a function that nobody looks at.
            return text.write_str("  }\n}\n");
        }
        let columns = self.part.columns as usize;
        for column in 0..columns {
            writeln!(text, "    %shim_{column} = aie.tile({column}, 0)")?;
        }
        writeln!(text, "    %core_tile = aie.tile(0, 2)")?;
        for (number, index) in reads.iter().enumerate() {
            // A shim has two channels each way.
            let shim = (number / 2) % columns;
            let object = self.object(*index);
            writeln!(
                text,
                "    aie.objectfifo @air_in_{index}(%shim_{shim}, {{%core_tile}}, 2 : i32) : !aie.objectfifo<{object}>"
            )?;
        }
        for (number, index) in gives.iter().enumerate() {
            let shim = (number / 2) % columns;
            let object = self.object(*index);
            writeln!(
                text,
                "    aie.objectfifo @air_out_{index}(%core_tile, {{%shim_{shim}}}, 2 : i32) : !aie.objectfifo<{object}>"
            )?;
        }
        self.core(text, &reads, &gives)?;
        self.sequence(text, &reads, &gives, is_configured)?;
        text.push_str("  }\n");
        if is_configured {
            self.configuring(text)?;
        }
        text.write_str("}\n")
    }

    /// The device without tiles whose sequence configures the other and runs its sequence.
    fn configuring(&self, text: &mut String) -> std::fmt::Result {
        let list = |part: fn(&(String, Type)) -> String| {
            self.arguments
                .iter()
                .map(part)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let (part, name) = (&self.part.name, &self.name);
        writeln!(
            text,
            "  aie.device({part}) {{\n    aie.runtime_sequence @{name}({}) {{\n      \
             aiex.configure @{name}_0 {{\n        aiex.run @{name}_0_sequence({}) : ({})\n      \
             }}\n    }}\n  }}",
            list(|(name, of)| format!("{name}: {}", of.text)),
            list(|(name, _)| name.clone()),
            list(|(_, of)| of.text.clone()),
        )
    }

    fn core(&self, text: &mut String, reads: &[usize], gives: &[usize]) -> std::fmt::Result {
        writeln!(text, "    %core = aie.core(%core_tile) {{")?;
        let [high, low] = [0, 8].map(|at| {
            let eight = self.digest.get(at..at + 8).and_then(|e| e.try_into().ok());
            u64::from_le_bytes(eight.unwrap_or_default()) >> 1
        });
        writeln!(text, "      %identity_0 = arith.constant {high} : i64")?;
        writeln!(text, "      %identity_1 = arith.constant {low} : i64")?;
        let sides = [("in", "Consume", reads), ("out", "Produce", gives)];
        for (side, port, indices) in sides {
            for index in indices {
                let object = self.object(*index);
                writeln!(
                    text,
                    "      %{side}_view_{index} = aie.objectfifo.acquire @air_{side}_{index}({port}, 1) : !aie.objectfifosubview<{object}>"
                )?;
                writeln!(
                    text,
                    "      %{side}_{index} = aie.objectfifo.subview.access %{side}_view_{index}[0] : !aie.objectfifosubview<{object}> -> {object}"
                )?;
            }
        }
        for (number, variable) in self.variables.iter().enumerate() {
            writeln!(
                text,
                "      %variable_{number} = aiex.read_scratchpad_parameter @{variable} : i32"
            )?;
        }
        if let Some(step) = self.product_step() {
            self.matmul(text, step)?;
        } else if let Some(steps) = &self.program.steps {
            for (at, step) in steps.iter().enumerate() {
                if let Operand::Argument(index) = step.result {
                    self.elementwise(text, steps.get(..=at).unwrap_or_default(), index as usize)?;
                }
            }
        }
        for (side, port, indices) in sides {
            for index in indices {
                writeln!(
                    text,
                    "      aie.objectfifo.release @air_{side}_{index}({port}, 1)"
                )?;
            }
        }
        writeln!(text, "      aie.end")?;
        let links: Vec<_> = self
            .links
            .iter()
            .map(|link| format!("\"{link}\""))
            .collect();
        let links = match links.as_slice() {
            [] => String::new(),
            [one] => format!(" {{link_with = {one}}}"),
            many => format!(" {{link_files = [{}]}}", many.join(", ")),
        };
        writeln!(text, "    }}{links}")
    }

    fn matmul(&self, text: &mut String, step: &Step) -> std::fmt::Result {
        let [Some(a), Some(b), Some(c)] = self.product_arguments() else {
            return Ok(());
        };
        let [type_a, type_b, type_c] = [a, b, c].map(|index| self.object(index));
        let element = step.element.mlir();
        if step
            .operands
            .get(2)
            .is_some_and(|c| matches!(c, Operand::Constant(_)))
        {
            let zero = if step.element.is_float() { "0.0" } else { "0" };
            writeln!(text, "      %zero = arith.constant {zero} : {element}")?;
            writeln!(
                text,
                "      linalg.fill ins(%zero : {element}) outs(%out_{c} : {type_c})"
            )?;
        } else {
            writeln!(
                text,
                "      memref.copy %in_{c}, %out_{c} : {type_c} to {type_c}"
            )?;
        }
        writeln!(
            text,
            "      linalg.matmul ins(%in_{a}, %in_{b} : {type_a}, {type_b}) outs(%out_{c} : {type_c})"
        )
    }

    /// One linalg.generic that computes the steps, of which the last gives argument `result`.
    fn elementwise(&self, text: &mut String, steps: &[Step], result: usize) -> std::fmt::Result {
        let mut reads: Vec<u32> = Vec::new();
        for operand in steps.iter().flat_map(|step| step.operands) {
            if let Operand::Argument(index) = operand
                && !reads.contains(&index)
            {
                reads.push(index);
            }
        }
        let element_of = |index: u32| {
            self.program
                .arguments
                .get(index as usize)
                .copied()
                .flatten()
        };
        let join = |parts: Vec<String>| parts.join(", ");
        let maps = vec!["affine_map<(d0) -> (d0)>".to_owned(); reads.len() + 1];
        let of = |index: u32| element_of(index).map_or("i32", Element::mlir);
        let ins = match reads.as_slice() {
            [] => String::new(),
            _ => format!(
                " ins({} : {})",
                join(reads.iter().map(|i| format!("%in_{i}")).collect()),
                join(reads.iter().map(|i| self.object(*i as usize)).collect())
            ),
        };
        let target = self.object(result);
        writeln!(
            text,
            "      linalg.generic {{indexing_maps = [{}], iterator_types = [\"parallel\"]}}{ins} outs(%out_{result} : {target}) {{",
            join(maps)
        )?;
        let mut block: Vec<_> = reads
            .iter()
            .map(|i| format!("%e{result}_{i}: {}", of(*i)))
            .collect();
        block.push(format!("%o{result}: {}", of(result as u32)));
        writeln!(text, "      ^bb0({}):", join(block))?;
        let mut names = 0;
        let mut yielded = String::new();
        for step in steps {
            let mut operands = Vec::new();
            for operand in step.operands {
                let (name, from) = match operand {
                    Operand::None => continue,
                    Operand::Argument(i) => (format!("%e{result}_{i}"), element_of(i)),
                    Operand::Temporary(i) => (format!("%t{result}_{i}"), temporary(steps, i)),
                    Operand::Constant(bits) => {
                        names += 1;
                        let name = format!("%c{result}_{names}");
                        let value = constant(bits, step.element);
                        writeln!(
                            text,
                            "        {name} = arith.constant {value} : {}",
                            step.element.mlir()
                        )?;
                        (name, None)
                    }
                    Operand::Variable(word) => (format!("%variable_{word}"), None),
                };
                operands.push(converted(text, &name, from, step.element, &mut names)?);
            }
            let given = match step.result {
                Operand::Temporary(i) => format!("%t{result}_{i}"),
                _ => format!("%r{result}"),
            };
            let own = step.element.mlir();
            match (operation(step.operation, step.element), operands.as_slice()) {
                (Some(name), _) => {
                    writeln!(
                        text,
                        "        {given} = {name} {} : {own}",
                        operands.join(", ")
                    )?;
                    yielded = given;
                }
                (None, [one]) => {
                    // A copy: what it copies goes on under its own name.
                    yielded.clone_from(one);
                    if matches!(step.result, Operand::Temporary(_)) {
                        writeln!(
                            text,
                            "        {given} = vector.broadcast {one} : {own} to {own}"
                        )?;
                    }
                }
                _ => {}
            }
            if step.result == Operand::Argument(result as u32) {
                let target = element_of(result as u32);
                if let Some(target) = target {
                    yielded = converted(text, &yielded, Some(step.element), target, &mut names)?;
                }
                break;
            }
        }
        writeln!(
            text,
            "        linalg.yield {yielded} : {}\n      }}",
            of(result as u32)
        )
    }

    fn sequence(
        &self,
        text: &mut String,
        reads: &[usize],
        gives: &[usize],
        is_configured: bool,
    ) -> std::fmt::Result {
        let list: Vec<_> = self
            .arguments
            .iter()
            .map(|(name, of)| format!("{name}: {}", of.text))
            .collect();
        writeln!(
            text,
            "    aie.runtime_sequence @{}{}({}) {{",
            self.name,
            if is_configured { "_0_sequence" } else { "" },
            list.join(", ")
        )?;
        if !self.variables.is_empty() {
            writeln!(text, "      aiex.sync_scratchpad_parameters_from_host")?;
        }
        for (side, indices, token) in [("in", reads, ""), ("out", gives, " {issue_token = true}")] {
            for index in indices {
                let Some((name, of)) = self.arguments.get(*index) else {
                    continue;
                };
                let elements = Type::parse(&self.object(*index)).elements().unwrap_or(0);
                writeln!(
                    text,
                    "      %{side}_task_{index} = aiex.dma_configure_task_for @air_{side}_{index} {{"
                )?;
                writeln!(
                    text,
                    "        aie.dma_bd({name} : {}, 0, {elements})",
                    of.text
                )?;
                writeln!(text, "        aie.end\n      }}{token}")?;
            }
        }
        for (side, indices) in [("in", reads), ("out", gives)] {
            for index in indices {
                writeln!(text, "      aiex.dma_start_task(%{side}_task_{index})")?;
            }
        }
        for index in gives {
            writeln!(text, "      aiex.dma_await_task(%out_task_{index})")?;
        }
        text.push_str("    }\n");
        Ok(())
    }
}

/// The type of a temporary: that of the step that gives it.
fn temporary(steps: &[Step], index: u32) -> Option<Element> {
    steps
        .iter()
        .find(|step| step.result == Operand::Temporary(index))
        .map(|step| step.element)
}

fn operation(operation: Operation, element: Element) -> Option<&'static str> {
    let float = element.is_float();
    Some(match (operation, float) {
        (Operation::Add, true) => "arith.addf",
        (Operation::Add, false) => "arith.addi",
        (Operation::Sub, true) => "arith.subf",
        (Operation::Sub, false) => "arith.subi",
        (Operation::Mul, true) => "arith.mulf",
        (Operation::Mul, false) => "arith.muli",
        (Operation::Fma, _) => "math.fma",
        (Operation::Max, true) => "arith.maximumf",
        (Operation::Max, false) => "arith.maxsi",
        (Operation::Min, true) => "arith.minimumf",
        (Operation::Min, false) => "arith.minsi",
        (Operation::Copy | Operation::MatMul, _) => return None,
    })
}

/// A constant as MLIR reads it back to the same bits.
fn constant(bits: u32, element: Element) -> String {
    match element {
        Element::F32 => format!("0x{bits:08X}"),
        Element::Bf16 => format!("0x{:04X}", bits >> 16),
        _ => (bits as i32).to_string(),
    }
}

/// The value in another type, with the operation that converts it.
fn converted(
    text: &mut String,
    name: &str,
    from: Option<Element>,
    to: Element,
    names: &mut usize,
) -> std::result::Result<String, std::fmt::Error> {
    let Some(from) = from.filter(|from| *from != to) else {
        return Ok(name.to_owned());
    };
    let wider = to.bytes() > from.bytes();
    let operation = match (from.is_float(), to.is_float()) {
        (true, true) if wider => "arith.extf",
        (true, true) => "arith.truncf",
        (false, false) if wider => "arith.extsi",
        (false, false) => "arith.trunci",
        (false, true) => "arith.sitofp",
        (true, false) => "arith.fptosi",
    };
    *names += 1;
    let made = format!("%v{names}_{}", name.trim_start_matches('%'));
    writeln!(
        text,
        "        {made} = {operation} {name} : {} to {}",
        from.mlir(),
        to.mlir()
    )?;
    Ok(made)
}
