//! What `transform.air.linalg_promote` makes of operations: their operands are brought into L1 and
//! their results back.

use std::ops::Range;

use crate::mlir::{Kind, Module, Operation, Type};

/// The operations of `body` with those of linalg working in L1.
pub fn promoted(module: &Module<'_>, body: Range<usize>) -> String {
    let mut text = String::new();
    let mut buffers = 0;
    let mut from = body.start;
    for op in module.operations(body.clone()) {
        let lines = match op.name.starts_with("linalg.") {
            true => local(module, &op, from, &mut buffers),
            false => module.print(from..op.end),
        };
        text.push_str(&lines);
        text.push('\n');
        from = op.end;
    }
    text + &module.print(from..body.end)
}

/// The type in L1, for one with a shape.
fn in_l1(of: &Type) -> Option<String> {
    let inside = of.text.strip_prefix("memref<")?;
    let shape = inside.split([',', '>']).next()?;
    let is_ranked = of.shape.is_some();
    is_ranked.then(|| format!("memref<{shape}, 2 : i32>"))
}

/// One operation and what is moved for it; `start` is the first of its tokens.
fn local(module: &Module<'_>, op: &Operation<'_, '_>, start: usize, buffers: &mut usize) -> String {
    let (mut before, mut own, mut behind) = (String::new(), String::new(), String::new());
    let mut from = start;
    for keyword in ["ins", "outs"] {
        let found = op
            .inner()
            .find(|i| module.text(*i) == keyword && module.text(i + 1) == "(");
        let Some(open) = found.map(|at| at + 1) else {
            continue;
        };
        own.push_str(&module.print(from..open));
        from = module.close(open) + 1;
        let (mut names, mut types) = (Vec::new(), Vec::new());
        for (name, of) in operands(module, open) {
            let Some(target) = in_l1(&of) else {
                names.push(name.to_owned());
                types.push(of.text);
                continue;
            };
            let local = format!("%l1_{buffers}");
            *buffers += 1;
            before.push_str(&format!(
                "{local} = memref.alloc() : {target}\n\
                 air.dma_memcpy_nd ({local}[] [] [], {name}[] [] []) : ({target}, {})\n",
                of.text
            ));
            if keyword == "outs" {
                behind.push_str(&format!(
                    "\nair.dma_memcpy_nd ({name}[] [] [], {local}[] [] []) : ({}, {target})",
                    of.text
                ));
            }
            names.push(local);
            types.push(target);
        }
        own.push_str(&format!(" ({} : {}) ", names.join(", "), types.join(", ")));
    }
    own.push_str(&module.print(from..op.end));
    format!("{before}{own}{behind}")
}

/// The values and types in the parentheses that open at `open`: `%a, %b : A, B`.
fn operands<'s>(module: &Module<'s>, open: usize) -> Vec<(&'s str, Type)> {
    let inside = open + 1..module.close(open);
    let colon = inside.clone().find(|i| module.text(*i) == ":");
    let colon = colon.unwrap_or(inside.end);
    let names = (inside.start..colon).filter(|i| module.kind(*i) == Kind::Value);
    let mut at = colon + 1;
    let mut types = Vec::new();
    while at < inside.end {
        let (of, end) = module.type_at(at);
        types.push(of);
        at = end + 1;
    }
    names.map(|i| module.text(i)).zip(types).collect()
}
