//! Command lines as LLVM's CommandLine library reads them: `-x` is `--x`, `--x=v` is `--x v`, the
//! last of repeated options wins, `@file` holds more arguments; and its messages, to the letter.

use crate::run::{Exit, Run, failure};

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing, or `=true`, `=false`, `=0`, `=1`.
    Flag,
    /// Any text.
    Text,
    /// A number.
    Number,
    /// A number that may follow without a space: `-O3`, `-O 3`, `-O=3`.
    Prefix,
    /// One of some words.
    OneOf(&'static [&'static str]),
}

/// An option.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its name, without dashes.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// What `--help` says.
    pub help: &'static str,
    /// The option that it stands for, if that is another.
    pub alias: Option<&'static str>,
}

/// An option of this name, value and description.
pub const fn option(name: &'static str, takes: Takes, help: &'static str) -> Spec {
    Spec {
        name,
        takes,
        help,
        alias: None,
    }
}

/// Another name of an option.
pub const fn alias(name: &'static str, takes: Takes, of: &'static str) -> Spec {
    Spec {
        name,
        takes,
        help: "Alias",
        alias: Some(of),
    }
}

/// A command line that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    values: Vec<(&'static str, String)>,
    /// The positional arguments.
    pub positional: Vec<String>,
}

impl Options {
    /// The last value of an option.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).last().copied()
    }

    /// All values of an option, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let of_name = self.values.iter().filter(|(n, _)| *n == name);
        of_name.map(|(_, value)| value.as_str()).collect()
    }

    /// Whether a flag is set.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| !matches!(value, "false" | "FALSE" | "False" | "0"))
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// How strict a command line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// An unknown option ends the run.
    Refused,
    /// An unknown option is taken for nothing.
    Swallowed,
}

/// Arguments with those of response files in place.
fn expanded(arguments: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for argument in arguments {
        let file = argument
            .strip_prefix('@')
            .and_then(|path| std::fs::read_to_string(path).ok());
        match file {
            Some(text) => all.extend(words(&text)),
            None => all.push(argument.clone()),
        }
    }
    all
}

/// The words of a response file: quotes and backslashes as in a shell.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut any) = (Vec::new(), String::new(), None, false);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', _) => {
                word.extend(chars.next());
                any = true;
            }
            (c, Some(q)) if c == q => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                any = true;
            }
            (c, None) if c.is_whitespace() => {
                if any {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            (c, _) => {
                word.push(c);
                any = true;
            }
        }
    }
    if any {
        words.push(word);
    }
    words
}

/// Reads a command line.
///
/// # Errors
/// What LLVM would refuse.
pub fn parse(run: &Run, specs: &'static [Spec], unknown: Unknown) -> Result<Options, Exit> {
    let name = run.name();
    let mut options = Options::default();
    let mut errors = Vec::new();
    let arguments = expanded(&run.arguments);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            options.positional.extend(rest.by_ref().cloned());
            break;
        }
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
        let exact = specs.iter().find(|spec| spec.name == key);
        let prefixed = || {
            let fits = |spec: &&Spec| spec.takes == Takes::Prefix && bare.starts_with(spec.name);
            specs.iter().find(fits)
        };
        let Some(spec) = exact.or_else(prefixed) else {
            if unknown == Unknown::Refused {
                errors.push(unknown_option(run, argument, key, specs));
            }
            continue;
        };
        if exact.is_none() {
            value = bare.get(spec.name.len()..).map(str::to_owned);
        }
        if value.is_none() && spec.takes != Takes::Flag {
            value = rest.next().cloned();
            if value.is_none() {
                errors.push(format!(
                    "{name}: for the {} option: requires a value!",
                    shown(spec.name)
                ));
                continue;
            }
        }
        let value = value.unwrap_or_else(|| "true".to_owned());
        match refusal(spec, &value) {
            Some(text) => errors.push(format!(
                "{name}: for the {} option: {text}",
                shown(spec.name)
            )),
            None => options
                .values
                .push((spec.alias.unwrap_or(spec.name), value)),
        }
    }
    if errors.is_empty() {
        return Ok(options);
    }
    Err(failure(errors.join("\n")))
}

fn shown(name: &str) -> String {
    let dashes = if name.len() == 1 { "-" } else { "--" };
    format!("{dashes}{name}")
}

fn refusal(spec: &Spec, value: &str) -> Option<String> {
    let boolean = [
        "true", "TRUE", "True", "1", "false", "FALSE", "False", "0", "",
    ];
    match spec.takes {
        Takes::Flag if !boolean.contains(&value) => Some(format!(
            "'{value}' is invalid value for boolean argument! Try 0 or 1"
        )),
        Takes::Number | Takes::Prefix if number(value).is_none() => {
            Some(format!("'{value}' value invalid for uint argument!"))
        }
        Takes::OneOf(words) if !words.contains(&value) => {
            Some(format!("Cannot find option named '{value}'!"))
        }
        _ => None,
    }
}

fn unknown_option(run: &Run, argument: &str, key: &str, specs: &[Spec]) -> String {
    let (name, program) = (run.name(), &run.program);
    let mut text =
        format!("{name}: Unknown command line argument '{argument}'.  Try: '{program} --help'");
    let nearest = specs.iter().min_by_key(|spec| distance(spec.name, key));
    if let Some(nearest) = nearest {
        let value = argument
            .split_once('=')
            .map(|(_, value)| format!("={value}"));
        let value = value.unwrap_or_default();
        text.push_str(&format!(
            "\n{name}: Did you mean '{}{value}'?",
            shown(nearest.name)
        ));
    }
    text
}

/// The edit distance of two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let above = row.get(j + 1).copied().unwrap_or(0);
            let left = next.last().copied().unwrap_or(0);
            let cost = diagonal + usize::from(x != *y);
            next.push(cost.min(above + 1).min(left + 1));
            diagonal = above;
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

/// What `--help` prints.
pub fn help(run: &Run, overview: &str, positional: &str, specs: &[Spec]) -> String {
    let mut text = format!(
        "OVERVIEW: {overview}\n\nUSAGE: {} [options] {positional}\n\nOPTIONS:\n\nGeneric Options:\n\n  --help    - Display available options (--help-hidden for more)\n  --version - Display the version of this program\n\nGeneral options:\n\n",
        run.name()
    );
    let mut lines: Vec<(String, &str)> = specs
        .iter()
        .map(|spec| {
            let value = match spec.takes {
                Takes::Flag => "",
                Takes::Text => "=<string>",
                Takes::Number => "=<uint>",
                Takes::Prefix => "<uint>",
                Takes::OneOf(_) => "=<value>",
            };
            (format!("{}{value}", shown(spec.name)), spec.help)
        })
        .collect();
    lines.sort();
    let words = |name: &str| {
        let spec = specs.iter().find(|spec| shown(spec.name) == name);
        match spec.map(|spec| spec.takes) {
            Some(Takes::OneOf(words)) => words,
            _ => &[],
        }
    };
    let width = lines.iter().map(|(left, _)| left.len()).max().unwrap_or(0);
    for (left, right) in lines {
        text.push_str(&format!("  {left:width$} - {right}\n"));
        for word in words(left.split('=').next().unwrap_or_default()) {
            text.push_str(&format!("    {:width$} -   {word}\n", format!("={word}")));
        }
    }
    text
}

/// What `--version` prints in a tool that leaves it to LLVM.
pub fn llvm_version() -> &'static str {
    "LLVM (http://llvm.org/):\n  LLVM version 23.0.0git\n  Optimized build.\n"
}
