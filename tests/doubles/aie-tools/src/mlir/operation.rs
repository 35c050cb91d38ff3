//! Operations: where one starts, what it is called, what it takes and gives.

use std::ops::Range;

use super::{Kind, Module, Type, symbol_name};

/// An operation in a module's tokens.
#[derive(Clone, Debug)]
pub struct Operation<'m, 's> {
    module: &'m Module<'s>,
    /// The names of its results, with `%`.
    pub results: Vec<&'s str>,
    /// Its name, without quotes in the generic form.
    pub name: &'s str,
    /// Whether it is in the generic form.
    pub generic: bool,
    /// The index of the name.
    pub at: usize,
    /// The index behind its last token.
    pub end: usize,
}

impl<'s> Module<'s> {
    /// Whether an operation starts at `index`: the first token of a line or region that is a
    /// definition or an operation's name.
    pub fn starts_operation(&self, index: usize) -> bool {
        let previous = index.checked_sub(1);
        let first = previous.is_none_or(|previous| {
            let line = |i: usize| self.tokens().get(i).map_or(0, |token| token.line);
            line(previous) != line(index)
                || matches!(self.text(previous), "{" | "}")
                || (self.text(previous) == ":" && self.text(previous.wrapping_sub(1)) == ")")
        });
        match self.kind(index) {
            Kind::Value => {
                let mut after = index + 1;
                while matches!(self.text(after), "," | ":")
                    && matches!(self.kind(after + 1), Kind::Value | Kind::Number)
                {
                    after += 2;
                }
                let comma = previous.is_some_and(|p| matches!(self.text(p), "," | "("));
                first && !comma && self.text(after) == "=" && self.is_name(after + 1)
            }
            Kind::Word | Kind::Text => {
                let result = previous.is_some_and(|p| self.text(p) == "=");
                (first || self.text(index) == "aie.end") && !result && self.is_name(index)
            }
            _ => false,
        }
    }

    fn is_name(&self, index: usize) -> bool {
        let text = self.text(index);
        let next = self.text(index + 1);
        match self.kind(index) {
            Kind::Word => {
                let bare = matches!(text, "module" | "return" | "func");
                next != "=" && (bare || (text.contains('.') && !text.starts_with('.')))
            }
            Kind::Text => next == "(" && text.contains('.'),
            _ => false,
        }
    }

    /// The index of the name of the operation that starts at `index`.
    pub fn name_index(&self, index: usize) -> usize {
        let mut at = index;
        while self.kind(at) == Kind::Value || matches!(self.kind(at), Kind::Mark | Kind::Number) {
            at += 1;
            if at >= self.tokens().len() {
                return index;
            }
        }
        at
    }

    /// The operations of a range, in order; those in regions of these are not among them.
    pub fn operations(&self, range: Range<usize>) -> Vec<Operation<'_, 's>> {
        let mut starts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            if self.starts_operation(at) {
                starts.push(at);
                at = self.name_index(at);
            }
            at = self.close(at).max(at) + 1;
        }
        let ends = starts.iter().skip(1).copied().chain([range.end]);
        let pairs: Vec<_> = starts.iter().copied().zip(ends).collect();
        pairs
            .into_iter()
            .map(|(start, end)| self.operation(start, end))
            .collect()
    }

    fn operation(&self, start: usize, end: usize) -> Operation<'_, 's> {
        let at = self.name_index(start);
        let results = (start..at)
            .filter(|i| self.kind(*i) == Kind::Value)
            .map(|i| self.text(i))
            .collect();
        Operation {
            module: self,
            results,
            name: self.text(at).trim_matches('"'),
            generic: self.kind(at) == Kind::Text,
            at,
            end: self.before_label(at, end),
        }
    }

    /// The end without the block label that may precede the next operation.
    fn before_label(&self, at: usize, end: usize) -> usize {
        (at..end)
            .find(|i| self.kind(*i) == Kind::Block && !self.inside(at, *i))
            .unwrap_or(end)
    }

    fn inside(&self, from: usize, index: usize) -> bool {
        let mut at = from;
        while at < index {
            let close = self.close(at);
            if close > index {
                return true;
            }
            at = close.max(at) + 1;
        }
        false
    }

    /// Every operation, those in regions too, in order.
    pub fn all_operations(&self) -> Vec<Operation<'_, 's>> {
        let mut all = Vec::new();
        let mut open = Vec::new();
        open.push(0..self.tokens().len());
        while let Some(range) = open.pop() {
            let operations = self.operations(range);
            for operation in operations.iter().rev() {
                open.extend(operation.regions().into_iter().rev());
            }
            all.extend(operations);
        }
        all.sort_by_key(|operation| operation.at);
        all
    }
}

impl<'s> Operation<'_, 's> {
    /// The name without its dialect, if the dialect is one of mlir-aie's.
    pub fn aie_name(&self) -> Option<&'s str> {
        let (dialect, name) = self.name.split_once('.')?;
        matches!(dialect, "aie" | "aiex" | "AIE" | "AIEX").then_some(name)
    }

    /// The indices of its tokens, the name excluded.
    pub fn inner(&self) -> Range<usize> {
        self.at + 1..self.end
    }

    /// The insides of its regions: brace groups that hold operations or nothing else fits.
    pub fn regions(&self) -> Vec<Range<usize>> {
        let mut regions = Vec::new();
        let mut at = self.at + 1;
        while at < self.end {
            let close = self.module.close(at);
            if self.module.text(at) == "{" && close > at {
                if self.holds_operations(at + 1, close) {
                    regions.push(at + 1..close);
                }
            } else if self.generic && self.module.text(at) == "(" && close > at {
                // The regions of the generic form stand in parentheses.
                if self.module.text(at + 1) == "{" {
                    at += 1;
                    continue;
                }
            }
            at = close.max(at) + 1;
        }
        regions
    }

    fn holds_operations(&self, from: usize, to: usize) -> bool {
        (from..to).any(|i| self.module.starts_operation(i))
    }

    /// The values that it names outside its regions, in order.
    pub fn operands(&self) -> Vec<&'s str> {
        let regions = self.regions();
        self.inner()
            .filter(|i| self.module.kind(*i) == Kind::Value)
            .filter(|i| !regions.iter().any(|region| region.contains(i)))
            .map(|i| self.module.text(i))
            .collect()
    }

    /// The values in the parentheses behind the word `keyword`.
    pub fn list(&self, keyword: &str) -> Vec<&'s str> {
        let module = self.module;
        let at = self
            .inner()
            .find(|i| module.text(*i) == keyword && module.text(i + 1) == "(");
        let Some(at) = at else { return Vec::new() };
        (at + 2..module.close(at + 1))
            .filter(|i| module.kind(*i) == Kind::Value)
            .map(|i| module.text(i))
            .collect()
    }

    /// The index of the value of attribute `key`, outside the regions.
    pub fn attribute_index(&self, key: &str) -> Option<usize> {
        let regions = self.regions();
        self.inner()
            .filter(|i| self.module.text(i + 1) == "=")
            .filter(|i| self.module.text(*i).trim_matches('"') == key)
            .find(|i| !regions.iter().any(|region| region.contains(i)))
            .map(|i| i + 2)
    }

    /// The text of the one token that is the value of attribute `key`, quotes and `@` removed.
    pub fn attribute(&self, key: &str) -> Option<&'s str> {
        self.attribute_index(key)
            .map(|i| symbol_name(self.module.text(i)))
    }

    /// The strings of attribute `key`: one, or a list of them.
    pub fn strings(&self, key: &str) -> Vec<&'s str> {
        let Some(at) = self.attribute_index(key) else {
            return Vec::new();
        };
        let end = self.module.close(at).max(at) + 1;
        (at..end)
            .filter(|i| self.module.kind(*i) == Kind::Text)
            .map(|i| self.module.text(i).trim_matches('"'))
            .collect()
    }

    /// The first symbol before any bracket, which is the one that it defines or names.
    pub fn symbol(&self) -> Option<&'s str> {
        let named = self
            .inner()
            .take_while(|i| !matches!(self.module.text(*i), "{"))
            .find(|i| self.module.kind(*i) == Kind::Symbol)
            .map(|i| symbol_name(self.module.text(i)));
        if self.generic {
            return self.attribute("sym_name").or(named);
        }
        named.or_else(|| self.attribute("sym_name"))
    }

    /// The integers in the first parentheses.
    pub fn numbers(&self) -> Vec<u64> {
        let module = self.module;
        let Some(open) = self.inner().find(|i| module.text(*i) == "(") else {
            return Vec::new();
        };
        (open + 1..module.close(open))
            .filter_map(|i| module.text(i).parse().ok())
            .collect()
    }

    /// The last type that it mentions outside its regions.
    pub fn last_type(&self) -> Option<Type> {
        let module = self.module;
        let regions = self.regions();
        let mut last = None;
        let mut at = self.at + 1;
        while at < self.end {
            if let Some(region) = regions.iter().find(|region| region.start == at + 1) {
                at = region.end + 1;
                continue;
            }
            let introduces = matches!(module.text(at), ":" | "->" | "to" | "," | "into");
            if introduces && matches!(module.kind(at + 1), Kind::Word | Kind::Type) {
                let (found, end) = module.type_at(at + 1);
                last = Some(found);
                at = end;
            } else {
                at += 1;
            }
        }
        last
    }
}
