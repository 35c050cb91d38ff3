//! Pass pipelines as text.

use crate::run::{Result, failure};

/// The passes that are known; those that do nothing to the text are known by name only.
pub const PASSES: [&str; 12] = [
    "air-resolve-tensor-opoperand-conflicts",
    "air-override-memref-memory-space",
    "air-transform",
    "air-wrap-func-with-parallel",
    "air-par-to-launch",
    "air-copy-to-dma",
    "canonicalize",
    "cse",
    "air-par-to-herd",
    "air-dependency",
    "convert-linalg-to-affine-loops",
    "one-shot-bufferize",
];

/// A pass and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Its name.
    pub name: String,
    /// What stands between its braces.
    pub options: String,
}

impl Pass {
    /// The value of one of its options: up to a space outside brackets.
    pub fn option(&self, key: &str) -> Option<&str> {
        let (_, rest) = self.options.split_once(&format!("{key}="))?;
        rest.split([' ', '}']).next()
    }

    /// The numbers in a list.
    pub fn numbers(&self, key: &str) -> Vec<u64> {
        let list = self.option(key).unwrap_or("");
        list.split(',')
            .filter_map(|n| n.trim().parse().ok())
            .collect()
    }
}

/// The passes of a pipeline, in order.
pub fn pipeline(text: &str) -> Result<Vec<Pass>> {
    let bad = |at: usize, what: &str| {
        failure(format!(
            "MLIR Textual PassPipeline Parser:1:{}: error: {what}\n{text}\n{}^",
            at + 1,
            " ".repeat(at)
        ))
    };
    let (mut passes, mut at, mut depth) = (Vec::new(), 0, 0usize);
    while at < text.len() {
        let rest = text.get(at..).unwrap_or("");
        let first = rest.chars().next().unwrap_or(' ');
        match first {
            ',' | ' ' => at += 1,
            ')' => {
                depth = depth
                    .checked_sub(1)
                    .ok_or_else(|| bad(at, "unexpected ')'"))?;
                at += 1;
            }
            _ => {
                let length = rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.' | '_'));
                let name = rest.get(..length.unwrap_or(rest.len())).unwrap_or("");
                let after = rest.get(name.len()..).unwrap_or("");
                if after.starts_with('(') {
                    if !matches!(name, "builtin.module" | "func.func" | "any") {
                        return Err(bad(
                            at,
                            &format!("'{name}' is no operation that passes run on"),
                        ));
                    }
                    depth += 1;
                    at += name.len() + 1;
                    continue;
                }
                if !PASSES.contains(&name) {
                    let what =
                        format!("'{name}' does not refer to a registered pass or pass pipeline");
                    return Err(bad(at, &what));
                }
                let options = after
                    .strip_prefix('{')
                    .and_then(|o| o.split_once('}'))
                    .map(|(o, _)| o);
                if after.starts_with('{') && options.is_none() {
                    return Err(bad(
                        at + name.len(),
                        "missing closing '}' while processing pass options",
                    ));
                }
                at += name.len() + options.map_or(0, |o| o.len() + 2);
                passes.push(Pass {
                    name: name.to_owned(),
                    options: options.unwrap_or("").to_owned(),
                });
            }
        }
    }
    if depth != 0 {
        return Err(bad(text.len(), "expected ')'"));
    }
    Ok(passes)
}

#[cfg(test)]
mod tests {
    use super::{Pass, pipeline};

    #[test]
    fn a_pipeline_is_read_in_order_through_its_nesting() {
        let text = "builtin.module(func.func(air-wrap-func-with-parallel{loop-bounds=4,2,1 actual-sizes=9,8,1}),air-par-to-launch{depth=0 has-air-segment=true},canonicalize,cse)";
        let passes = pipeline(text).unwrap();
        let names: Vec<_> = passes.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "air-wrap-func-with-parallel",
                "air-par-to-launch",
                "canonicalize",
                "cse"
            ]
        );
        let wrap: &Pass = &passes[0];
        assert_eq!(wrap.numbers("loop-bounds"), [4, 2, 1]);
        assert_eq!(wrap.numbers("actual-sizes"), [9, 8, 1]);
    }

    #[test]
    fn an_unknown_pass_is_refused_at_its_place() {
        let refused = pipeline("builtin.module(cse,air-par-to-lunch)").unwrap_err();
        assert!(
            refused.text.contains(
                "Parser:1:20: error: 'air-par-to-lunch' does not refer to a registered pass"
            ),
            "{}",
            refused.text
        );
    }
}
