//! Command lines as LLVM's CommandLine library reads them: `-x` is `--x`, `--x=v` is `--x v`, the
//! last of repeated options wins. What there is the text of `--help` says, so that the recorded
//! texts of real tools are the tables.

use crate::run::{Exit, Run, failure};

/// What an option takes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Takes {
    /// Nothing, or a boolean behind `=`.
    Flag,
    /// Nothing, or a text behind `=`.
    Optional,
    Text,
    Number,
    /// A number that may follow without a space: `-O3`, `-O 3`, `-O=3`.
    Prefix,
    OneOf(Vec<String>),
}

/// The options that a help text lists.
pub struct Table {
    help: String,
    options: Vec<(String, Takes)>,
}

impl Table {
    pub fn new(help: impl Into<String>) -> Self {
        let help = help.into();
        let mut options: Vec<(String, Takes)> = Vec::new();
        for line in help.lines() {
            if let (Some(word), Some((_, Takes::OneOf(words)))) =
                (line.strip_prefix("    ="), options.last_mut())
            {
                words.extend(word.split_whitespace().next().map(str::to_owned));
            }
            let Some(rest) = line.strip_prefix("  -") else {
                continue;
            };
            let rest = rest.trim_start_matches('-');
            let named = rest
                .split_once(" - ")
                .map_or(rest, |(named, _)| named)
                .trim();
            let end = named.find(['=', '[', ' ']).unwrap_or(named.len());
            let (name, value) = named.split_at(end);
            let takes = match value {
                "" => Takes::Flag,
                " <uint>" => Takes::Prefix,
                "=<uint>" | "=<int>" => Takes::Number,
                "=<value>" => Takes::OneOf(Vec::new()),
                value if value.starts_with('[') => Takes::Optional,
                _ => Takes::Text,
            };
            options.push((name.to_owned(), takes));
        }
        Self { help, options }
    }

    /// Without the options whose lines contain one of `dropped`, and with other lines behind one.
    pub fn changed(&self, dropped: &[&str], behind: &str, added: &str) -> Self {
        let mut help = String::new();
        for line in self.help.lines() {
            if !dropped
                .iter()
                .any(|name| line.contains(&format!("  --{name}")))
            {
                help.push_str(line);
                help.push('\n');
            }
            if line.contains(behind) {
                help.push_str(added);
            }
        }
        Self::new(help)
    }

    /// What `--help` prints.
    pub fn help(&self) -> &str {
        &self.help
    }

    fn takes(&self, name: &str) -> Option<&(String, Takes)> {
        self.options.iter().find(|(known, _)| known == name)
    }
}

/// Other names, which no help text lists.
const ALIASES: [(&str, &str); 4] = [
    ("v", "verbose"),
    ("opt-level", "O"),
    ("nthreads", "j"),
    ("g", "get"),
];

/// A command line that was read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    values: Vec<(String, String)>,
    pub positional: Vec<String>,
}

impl Options {
    /// The last value of an option that has one.
    pub fn get(&self, name: &str) -> Option<&str> {
        let values = self.values.iter().rev();
        let mut values = values.filter(|(n, value)| n == name && !value.is_empty());
        values.next().map(|(_, value)| value.as_str())
    }

    /// Whether an option was given, with whatever value.
    pub fn is_given(&self, name: &str) -> bool {
        self.values.iter().any(|(n, _)| n == name)
    }

    pub fn flag(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| !matches!(value.to_lowercase().as_str(), "false" | "0"))
    }

    /// All values, as text that differs where they do.
    pub fn identity(&self, names: &[&str]) -> String {
        let known = self.values.iter();
        let named: Vec<_> = known.filter(|(n, _)| names.contains(&n.as_str())).collect();
        format!("{named:?}")
    }
}

/// Reads a command line. Unknown options are refused, or `swallows` them.
pub fn parse(run: &Run, table: &Table, swallows: bool) -> Result<Options, Exit> {
    let name = run.name();
    let mut options = Options::default();
    let mut errors = Vec::new();
    let mut rest = run.arguments.iter();
    while let Some(argument) = rest.next() {
        let bare = argument.trim_start_matches('-');
        let dashes = argument.len() - bare.len();
        if dashes == 0 || bare.is_empty() || dashes > 2 {
            options.positional.push(argument.clone());
            continue;
        }
        let (key, mut value) = match bare.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (bare, None),
        };
        let alias = ALIASES.iter().find(|(alias, _)| *alias == key);
        let key = alias.map_or(key, |(_, key)| *key);
        let prefixed = || {
            let mut all = table.options.iter();
            all.find(|(name, takes)| *takes == Takes::Prefix && bare.starts_with(name))
        };
        let exact = table.takes(key);
        let Some((key, takes)) = exact.or_else(prefixed) else {
            if !swallows {
                errors.push(format!(
                    "{name}: Unknown command line argument '{argument}'.  Try: '{} --help'",
                    run.program
                ));
            }
            continue;
        };
        if exact.is_none() {
            value = bare.get(key.len()..).map(str::to_owned);
        }
        let dashes = if key.len() == 1 { "-" } else { "--" };
        let refused = |what: String| format!("{name}: for the {dashes}{key} option: {what}");
        if value.is_none() && !matches!(takes, Takes::Flag | Takes::Optional) {
            value = rest.next().cloned();
            if value.is_none() {
                errors.push(refused("requires a value!".to_owned()));
                continue;
            }
        }
        let value = value.unwrap_or_else(|| "true".to_owned());
        match refusal(takes, &value) {
            Some(text) => errors.push(refused(text)),
            None => options.values.push((key.clone(), value)),
        }
    }
    match errors.as_slice() {
        [] => Ok(options),
        errors => Err(failure(errors.join("\n"))),
    }
}

fn refusal(takes: &Takes, value: &str) -> Option<String> {
    let is_number = value
        .trim_start_matches("0x")
        .bytes()
        .all(|b| b.is_ascii_hexdigit());
    match takes {
        Takes::Flag
            if !matches!(
                value.to_lowercase().as_str(),
                "true" | "1" | "false" | "0" | ""
            ) =>
        {
            Some(format!(
                "'{value}' is invalid value for boolean argument! Try 0 or 1"
            ))
        }
        Takes::Number | Takes::Prefix if !is_number => {
            Some(format!("'{value}' value invalid for uint argument!"))
        }
        Takes::OneOf(words) if !words.iter().any(|word| word == value) => {
            Some(format!("Cannot find option named '{value}'!"))
        }
        _ => None,
    }
}

/// What `--version` prints in a tool that leaves it to LLVM.
pub fn llvm_version() -> &'static str {
    "LLVM (http://llvm.org/):\n  LLVM version 23.0.0git\n  Optimized build.\n"
}
