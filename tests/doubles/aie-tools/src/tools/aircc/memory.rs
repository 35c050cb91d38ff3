//! What a core can't reach: aircc refuses accesses in a herd to memory outside of L1.

use crate::mlir::{Diagnostic, Kind, Module, Operation};

/// Operations that read or write memory. Copies have become DMAs before.
const ACCESSES: [&str; 8] = [
    "affine.load",
    "affine.store",
    "memref.load",
    "memref.store",
    "vector.load",
    "vector.store",
    "vector.transfer_read",
    "vector.transfer_write",
];

/// The first such access of a module.
pub fn outside_l1(module: &Module<'_>) -> Option<Diagnostic> {
    let all = module.all_operations();
    let herds = all.iter().filter(|op| op.name == "air.herd");
    let inside: Vec<_> = herds.flat_map(Operation::regions).collect();
    let mut accesses = all.iter().filter(|op| {
        let is_access = ACCESSES.contains(&op.name)
            || op.name.starts_with("linalg.")
                && !matches!(op.name, "linalg.yield" | "linalg.index");
        is_access && inside.iter().any(|herd| herd.contains(&op.at))
    });
    accesses.find_map(|op| {
        let level = outermost(module, op)?;
        let token = module.tokens().get(op.at)?;
        // Named operations have become loops by then.
        let name = match op.name.strip_prefix("linalg.") {
            Some(_) => "memref.load",
            None => op.name,
        };
        Some(Diagnostic::new(
            token.line,
            token.column,
            format!(
                "'{name}' op inside 'air.herd' accesses memref with memory_space {level}; AIE core tiles can only access L1 or more local memory directly. Use air.dma_memcpy_nd to stage data first."
            ),
        ))
    })
}

/// The level of an operation's memory, if that is not L1.
fn outermost(module: &Module<'_>, op: &Operation<'_, '_>) -> Option<&'static str> {
    let regions = op.regions();
    let types = op.inner().filter(|i| {
        let is_memref = module.text(*i) == "memref" && module.text(i + 1) == "<";
        is_memref
            && module.kind(*i) != Kind::Text
            && !regions.iter().any(|region| region.contains(i))
    });
    let mut spaces = types.map(|i| {
        let (of, _) = module.type_at(i);
        let inside = of.text.trim_end_matches('>');
        let last = inside.rsplit(',').next().unwrap_or_default();
        match last.split(':').next() {
            Some("2") => None,
            Some("1") => Some("L2"),
            _ => Some("L3"),
        }
    });
    spaces.find_map(|space| space)
}
