//! JSON, as much as the tools exchange among each other.

/// A JSON value. Objects keep their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`, `true`, `false` or a number, as written.
    Literal(String),
    /// A string.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Vec<(String, Json)>),
}

/// An object of the given members.
pub fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.map(|(key, value)| (key.to_owned(), value)).into())
}

/// A string.
pub fn text(value: impl Into<String>) -> Json {
    Json::Text(value.into())
}

/// A number.
pub fn number(value: u64) -> Json {
    Json::Literal(value.to_string())
}

impl Json {
    /// The member `key` of an object.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Self::Object(members) => members.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The elements of an array, none for anything else.
    pub fn items(&self) -> &[Json] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }

    /// The text of a string or a number.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Literal(text) => Some(text),
            _ => None,
        }
    }

    /// An integer, written as a number, a decimal string or `0x…`.
    pub fn as_number(&self) -> Option<u64> {
        let text = self.as_text()?;
        match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }

    /// The value with `indent` spaces a level, as LLVM and Boost print it.
    pub fn pretty(&self, indent: usize) -> String {
        let mut out = String::new();
        self.print(&mut out, Some(indent), 0);
        out
    }

    /// The value on one line, without spaces.
    pub fn compact(&self) -> String {
        let mut out = String::new();
        self.print(&mut out, None, 0);
        out
    }

    fn print(&self, out: &mut String, indent: Option<usize>, level: usize) {
        let (open, close, count) = match self {
            Self::Literal(text) => return out.push_str(text),
            Self::Text(text) => return quote(out, text),
            Self::Array(items) => ('[', ']', items.len()),
            Self::Object(members) => ('{', '}', members.len()),
        };
        let line = |out: &mut String, level: usize| {
            if let Some(indent) = indent {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent * level));
            }
        };
        out.push(open);
        for index in 0..count {
            if index > 0 {
                out.push(',');
            }
            line(out, level + 1);
            match self {
                Self::Array(items) => {
                    if let Some(item) = items.get(index) {
                        item.print(out, indent, level + 1);
                    }
                }
                Self::Object(members) => {
                    if let Some((key, value)) = members.get(index) {
                        quote(out, key);
                        out.push_str(if indent.is_some() { ": " } else { ":" });
                        value.print(out, indent, level + 1);
                    }
                }
                _ => {}
            }
        }
        if count > 0 {
            line(out, level);
        }
        out.push(close);
    }

    /// Reads a value.
    pub fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.space();
        (reader.at == text.len()).then_some(value)
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn eat(&mut self, mark: char) -> bool {
        self.space();
        let found = self.rest().starts_with(mark);
        if found {
            self.at += 1;
        }
        found
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > 64 {
            return None;
        }
        if self.eat('{') {
            let mut members = Vec::new();
            while !self.eat('}') {
                if !members.is_empty() && !self.eat(',') {
                    return None;
                }
                self.space();
                let key = self.string()?;
                if !self.eat(':') {
                    return None;
                }
                members.push((key, self.value(depth + 1)?));
            }
            return Some(Json::Object(members));
        }
        if self.eat('[') {
            let mut items = Vec::new();
            while !self.eat(']') {
                if !items.is_empty() && !self.eat(',') {
                    return None;
                }
                items.push(self.value(depth + 1)?);
            }
            return Some(Json::Array(items));
        }
        if self.rest().starts_with('"') {
            return self.string().map(Json::Text);
        }
        let length = self.rest().find([',', ']', '}', ' ', '\n', '\r', '\t']);
        let length = length.unwrap_or(self.rest().len());
        let literal = self.rest().get(..length)?.to_owned();
        self.at += length;
        (!literal.is_empty()).then_some(Json::Literal(literal))
    }

    fn string(&mut self) -> Option<String> {
        if !self.eat('"') {
            return None;
        }
        let mut out = String::new();
        loop {
            let c = self.rest().chars().next()?;
            self.at += c.len_utf8();
            match c {
                '"' => return Some(out),
                '\\' => {
                    let escaped = self.rest().chars().next()?;
                    self.at += escaped.len_utf8();
                    match escaped {
                        'n' => out.push('\n'),
                        't' => out.push('\t'),
                        'u' => {
                            let code = self.rest().get(..4)?;
                            let code = u32::from_str_radix(code, 16).ok()?;
                            self.at += 4;
                            out.push(char::from_u32(code)?);
                        }
                        c => out.push(c),
                    }
                }
                c => out.push(c),
            }
        }
    }
}
