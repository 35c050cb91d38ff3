//! Operations: where one starts, what it is called, what it takes and gives.

use std::ops::Range;

use super::{Module, Type, bare};

/// An operation in a module's tokens.
#[derive(Clone, Debug)]
pub struct Operation<'m, 's> {
    module: &'m Module<'s>,
    /// The names of its results, with `%`.
    pub results: Vec<&'s str>,
    pub name: &'s str,
    /// The index of the name.
    pub at: usize,
    /// The index behind its last token.
    pub end: usize,
}

impl<'s> Module<'s> {
    /// The index of the name of the operation that starts at `index`: the first token of a line or
    /// region, which is a definition or an operation's name.
    fn operation_name(&self, index: usize) -> Option<usize> {
        let line = |at: usize| self.tokens.get(at).map_or(0, |token| token.line);
        let is_first = match index.checked_sub(1) {
            None => true,
            Some(before) => {
                let text = self.text(before);
                line(before) != line(index) && !matches!(text, "," | "(" | "=")
                    || matches!(text, "{" | "}")
                    || (text == ":" && self.text(before.wrapping_sub(1)) == ")")
            }
        };
        if !is_first && self.text(index) != "aie.end" {
            return None;
        }
        let mut name = index;
        if self.is(index, '%') {
            name += 1;
            while matches!(self.text(name), "," | ":") {
                name += 2;
            }
            if self.text(name) != "=" {
                return None;
            }
            name += 1;
        }
        let text = self.text(name);
        let is_bare = matches!(text, "module" | "return");
        let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && (is_bare || text.contains('.'))
            && self.text(name + 1) != "=";
        is_name.then_some(name)
    }

    /// The operations of a range, in order; those in their regions are not among them.
    pub fn operations(&self, range: Range<usize>) -> Vec<Operation<'_, 's>> {
        let mut starts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            if let Some(name) = self.operation_name(at) {
                starts.push((at, name));
                at = name;
            }
            at = self.close(at).max(at) + 1;
        }
        let ends = starts.iter().skip(1).map(|(start, _)| *start);
        let ends: Vec<usize> = ends.chain([range.end]).collect();
        let pairs = starts.into_iter().zip(ends);
        pairs
            .map(|((start, at), end)| Operation {
                module: self,
                results: self.values(start..at).collect(),
                name: self.text(at),
                at,
                end,
            })
            .collect()
    }

    /// Every operation of a range, those in regions too, in order.
    pub fn nested(&self, range: Range<usize>) -> Vec<Operation<'_, 's>> {
        let mut all = Vec::new();
        for operation in self.operations(range) {
            let regions = operation.regions();
            all.push(operation);
            all.extend(regions.into_iter().flat_map(|region| self.nested(region)));
        }
        all
    }
}

impl<'s> Operation<'_, 's> {
    /// The indices of its tokens, the name excluded.
    pub fn inner(&self) -> Range<usize> {
        self.at + 1..self.end
    }

    /// The insides of its regions: braces that hold operations.
    pub fn regions(&self) -> Vec<Range<usize>> {
        let (mut regions, mut at) = (Vec::new(), self.at + 1);
        while at < self.end {
            let close = self.module.close(at);
            let mut inside = at + 1..close;
            if self.module.text(at) == "{"
                && inside.any(|index| self.module.operation_name(index).is_some())
            {
                regions.push(at + 1..close);
            }
            at = close.max(at) + 1;
        }
        regions
    }

    /// Its tokens outside its regions.
    pub fn outer(&self) -> Vec<usize> {
        let regions = self.regions();
        let is_outer = |at: &usize| !regions.iter().any(|region| region.contains(at));
        self.inner().filter(is_outer).collect()
    }

    /// The values that it names outside its regions.
    pub fn operands(&self) -> Vec<&'s str> {
        let outer = self.outer().into_iter();
        outer
            .filter(|at| self.module.is(*at, '%'))
            .map(|at| self.module.text(at))
            .collect()
    }

    /// The index of the bracket behind the word `keyword`.
    pub fn bracket(&self, keyword: &str) -> Option<usize> {
        let module = self.module;
        let is_it = |at: &usize| module.text(*at) == keyword && module.text(at + 1) == "(";
        self.inner().find(is_it).map(|at| at + 1)
    }

    /// The inside of the first parentheses.
    pub fn parentheses(&self) -> Range<usize> {
        let open = self.inner().find(|at| self.module.text(*at) == "(");
        open.map_or(self.end..self.end, |open| open + 1..self.module.close(open))
    }

    fn attribute_index(&self, key: &str) -> Option<usize> {
        let module = self.module;
        let is_key = |at: &usize| module.text(at + 1) == "=" && bare(module.text(*at)) == key;
        self.outer().into_iter().find(is_key).map(|at| at + 2)
    }

    /// The token that is the value of attribute `key`, without quotes and `@`.
    pub fn attribute(&self, key: &str) -> Option<&'s str> {
        self.attribute_index(key)
            .map(|at| bare(self.module.text(at)))
    }

    /// The strings of attribute `key`: one, or a list of them.
    pub fn strings(&self, key: &str) -> Vec<String> {
        let Some(at) = self.attribute_index(key) else {
            return Vec::new();
        };
        let range = at..self.module.close(at).max(at) + 1;
        range
            .map(|index| self.module.text(index))
            .filter(|text| text.starts_with('"'))
            .map(|text| text.trim_matches('"').to_owned())
            .collect()
    }

    /// The first symbol before any braces, which is the one that it defines or names.
    pub fn symbol(&self) -> Option<&'s str> {
        let brace = self.inner().find(|at| self.module.text(*at) == "{");
        let before = self.at + 1..brace.unwrap_or(self.end);
        let named = self.module.symbols(before).next();
        named.or_else(|| self.attribute("sym_name"))
    }

    /// The types that it mentions outside its regions, in order.
    pub fn types(&self) -> Vec<Type> {
        let module = self.module;
        let (mut types, mut behind) = (Vec::new(), 0);
        for at in self.outer() {
            let introduces = matches!(module.text(at), ":" | "->" | "to" | "," | "(" | "into");
            let first = module.text(at + 1).chars().next();
            let is_type = first.is_some_and(|c| c.is_ascii_alphabetic() || c == '!');
            if at >= behind && introduces && is_type {
                let (of, end) = module.type_at(at + 1);
                types.push(of);
                behind = end;
            }
        }
        types
    }
}
