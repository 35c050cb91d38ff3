//! In what a step differs from an entry that was made earlier.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::super::lines::Lines;
use super::super::manifest::Record;
use super::super::types::{Cause, Difference};
use crate::step::material::{Material, Value};
use crate::step::{Input, Step};
use crate::toolchain::Identity;

/// How much of a value is shown.
const VALUE_LIMIT: usize = 400;
/// How many of a tool's files are named.
const NAMED: usize = 3;

/// A field's values, as far as it has any.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Change<'a> {
    before: Option<&'a Value>,
    now: Option<&'a Value>,
}

/// All differences, what explains most first.
pub(super) fn between(record: &Record, step: &Step) -> Vec<Difference> {
    let material = step.material();
    let (before, now) = (by_name(&record.material), by_name(&material));
    let names: BTreeSet<_> = before.keys().chain(now.keys()).copied().collect();
    let changes = names.into_iter().map(|name| {
        let (before, now) = (before.get(name).copied(), now.get(name).copied());
        (name, Change { before, now })
    });
    let changes = changes.filter(|(_, change)| change.before != change.now);
    let mut differences: Vec<_> = changes
        .map(|(name, change)| difference(name, change, record, step))
        .collect();
    differences.sort_by_key(|difference| difference.cause);
    differences
}

fn by_name(material: &Material) -> BTreeMap<&str, &Value> {
    let fields = material.fields().iter();
    fields.map(|field| (&*field.name, &field.value)).collect()
}

fn difference(field: &str, change: Change<'_>, record: &Record, step: &Step) -> Difference {
    let (kind, name) = field.split_once('.').unwrap_or((field, ""));
    let (cause, text) = match kind {
        "tool" => tool(name, record, step),
        "command" => (Cause::Option, change.command()),
        "path" => (Cause::Option, change.text("the programs found by PATH")),
        "environment" => (Cause::Environment, change.text(&format!("variable {name}"))),
        "fact" => (Cause::Fact, change.text(&name.replace('_', " "))),
        "input" => input(name, change, record, step),
        "outputs" => (Cause::Outputs, change.text("the outputs")),
        "version" => {
            let what = format!("npu-build's {} step", step.kind);
            (Cause::Version, change.text(&what))
        }
        _ => (Cause::Fact, change.text(field)),
    };
    let shown = |value: &Value| value.to_string().chars().take(VALUE_LIMIT).collect();
    Difference {
        cause,
        field: field.to_owned(),
        before: change.before.map(shown),
        now: change.now.map(shown),
        text,
        items: match change {
            Change {
                before: Some(Value::List(before)),
                now: Some(Value::List(now)),
            } => {
                let changed = |one, other| without(one, other).count();
                changed(before, now).max(changed(now, before))
            }
            _ => 1,
        },
    }
}

impl Change<'_> {
    /// "LC_ALL was A and is B", or which items of a list came and went.
    fn text(self, what: &str) -> String {
        match (self.before, self.now) {
            (Some(Value::Text(before)), Some(Value::Text(now))) => {
                format!("{what} was {before} and is {now}")
            }
            (Some(Value::List(before)), Some(Value::List(now))) => changed_items(what, before, now),
            (None, _) => format!("{what} is new"),
            (_, None) => format!("{what} is gone"),
            _ => format!("{what} changed"),
        }
    }

    fn command(self) -> String {
        let program = match (self.now, self.before) {
            (Some(Value::List(words)), _) | (_, Some(Value::List(words))) => words.first(),
            _ => None,
        };
        let program = program.map_or("a command", String::as_str);
        match (self.before, self.now) {
            (None, _) => format!("{program} is run now"),
            (_, None) => format!("{program} is not run any more"),
            _ => self.text(&format!("{program}'s arguments")),
        }
    }
}

/// The items that are not among others, as often as they are there. A value is named with the option
/// before it.
fn without<'a>(items: &'a [String], others: &'a [String]) -> impl Iterator<Item = Cow<'a, str>> {
    let mut others: Vec<_> = others.iter().collect();
    // The word before, if it is one of both.
    let mut common: Option<&str> = None;
    items.iter().filter_map(move |item| {
        let known = others.iter().position(|other| *other == item);
        let before = std::mem::replace(&mut common, known.map(|_| &**item));
        if let Some(at) = known {
            others.swap_remove(at);
            return None;
        }
        match before.filter(|word| word.starts_with('-')) {
            Some(before) if !item.starts_with('-') && !before.contains('=') => {
                Some(format!("{before} {item}").into())
            }
            _ => Some(item.into()),
        }
    })
}

/// Which items came and which went.
fn changed_items(what: &str, before: &[String], now: &[String]) -> String {
    let without = |items, others| without(items, others).collect::<Vec<_>>();
    let (gone, new) = (without(before, now), without(now, before));
    let are = |items: &[Cow<'_, str>]| if items.len() == 1 { "is" } else { "are" };
    match (&*gone, &*new) {
        ([], []) => format!("{what} are in another order"),
        ([], new) => format!("{what}: {} {} new", new.join(" "), are(new)),
        (gone, []) => format!("{what}: {} {} gone", gone.join(" "), are(gone)),
        (gone, new) => format!("{what}: {} instead of {}", new.join(" "), gone.join(" ")),
    }
}

fn tool(name: &str, record: &Record, step: &Step) -> (Cause, String) {
    let tools = step.tools();
    let now = tools.iter().find(|tool| tool.name == name);
    match (record.tools.get(name), now) {
        (Some(before), Some(now)) => (Cause::Tool, changed_tool(name, before, &now.identity)),
        // That another tool is used comes from an option.
        (None, _) => (Cause::Option, format!("{name} is new")),
        (_, None) => (Cause::Option, format!("{name} is not used any more")),
    }
}

fn changed_tool(name: &str, before: &Identity, now: &Identity) -> String {
    let (old, new) = (&before.version, &now.version);
    let versions = match old == new {
        true if new.is_empty() => format!("{name} is another build"),
        true => format!("{name} {new} is another build"),
        false => format!("{name} was {old} and is {new}"),
    };
    let gone = before.files.iter().filter(|file| !now.files.contains(file));
    let new = now.files.iter().filter(|file| !before.files.contains(file));
    let files: BTreeSet<&str> = gone.chain(new).map(|file| &*file.name).collect();
    let mut named: Vec<_> = files
        .iter()
        .take(NAMED)
        .map(|name| (*name).into())
        .collect();
    match files.len() {
        0 => return versions,
        count if count > NAMED => named.push(format!("{} more files", count - NAMED)),
        _ => {}
    }
    format!("{versions} ({})", named.join(", "))
}

fn input(name: &str, change: Change<'_>, record: &Record, step: &Step) -> (Cause, String) {
    let found = step.inputs.iter().find(|input| input.name == name);
    let Some((input, origin)) = found.and_then(|input| Some((input, input.origin.as_ref()?)))
    else {
        let is_made = found.is_some_and(|input| input.path().is_some());
        let what = match name {
            "request.json" => "what it launches (signature or artifact)".to_owned(),
            "call.inc" => "the call that goes with the signature".to_owned(),
            name if is_made => format!("what an earlier step made ({name})"),
            name => format!("input {name}"),
        };
        return (Cause::Input, change.text(&what));
    };
    let (cause, what) = match step.source.as_deref() == Some(&*origin.path) {
        true => (Cause::Source, "the source".to_owned()),
        false => (Cause::Input, format!("input {name}")),
    };
    let path = origin.path.display();
    let text = match first_change(name, record, input) {
        Some(line) => format!("{what} changed at {path}:{line}"),
        None => format!("{what} {path} changed"),
    };
    (cause, text)
}

/// The first line of the user's file that changed.
fn first_change(name: &str, record: &Record, input: &Input) -> Option<u32> {
    let text = &input.origin.as_ref()?.text;
    let line = (record.lines.get(name)?).first_change(&Lines::of_input(input)?)?;
    // Where lines at the end are gone, the last one is named.
    let last = text.text.lines().count().max(1);
    Some(text.original_line(u32::try_from(line.min(last)).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::toolchain::FileIdentity;

    #[test]
    fn the_files_that_changed_are_named() {
        let identity = |version: &str, files: &[(&str, &str)]| Identity {
            digest: Digest::of(version),
            version: version.into(),
            files: (files.iter().copied())
                .map(|(name, content)| FileIdentity {
                    name: name.into(),
                    digest: Digest::of(content),
                })
                .collect(),
        };
        let library = ("libMLIR.so.22", "b");
        let before = identity("22.1.7", &[("opt", "a"), library, ("old.so", "c")]);
        let now = identity(
            "22.1.8",
            &[("opt", "a"), ("libMLIR.so.22", "x"), ("new.so", "d")],
        );
        let text = "opt was 22.1.7 and is 22.1.8 (libMLIR.so.22, new.so, old.so)";
        assert_eq!(changed_tool("opt", &before, &now), text);
        // A wrapper may have the name of what it wraps.
        let wrapped = |wrapper| identity("1", &[("cc", wrapper), ("cc", "same")]);
        let text = "cc 1 is another build (cc)";
        assert_eq!(changed_tool("cc", &wrapped("b"), &wrapped("x")), text);
        let many = identity("", &[("a", ""), ("b", ""), ("c", ""), ("d", ""), ("e", "")]);
        let text = "cc is another build (a, b, c, 2 more files)";
        assert_eq!(changed_tool("cc", &identity("", &[]), &many), text);
    }

    #[test]
    fn values_and_arguments_are_compared_as_they_are() {
        let list = |text: &str| Value::List(text.split(' ').map(str::to_owned).collect());
        let text = |text: &str| Value::Text(text.to_owned());
        for (before, now, expected) in [
            (
                Some(list("cc -O2")),
                Some(list("cc -O3")),
                "it: -O3 instead of -O2",
            ),
            (
                Some(list("cc")),
                Some(list("cc -g -g")),
                "it: -g -g are new",
            ),
            // An option is named with its value, and once.
            (
                Some(list("cc --format elf")),
                Some(list("cc --format xclbin")),
                "it: --format xclbin instead of --format elf",
            ),
            (
                Some(list("cc -e a")),
                Some(list("cc -i b -o c")),
                "it: -i b -o c instead of -e a",
            ),
            (Some(list("cc")), Some(list("cc -i b")), "it: -i b are new"),
            (
                Some(list("cc -g -g")),
                Some(list("cc -g")),
                "it: -g is gone",
            ),
            (
                Some(list("a b")),
                Some(list("b a")),
                "it are in another order",
            ),
            (
                Some(text("C")),
                Some(text("de_DE")),
                "it was C and is de_DE",
            ),
            (None, Some(text("C")), "it is new"),
            (Some(text("C")), None, "it is gone"),
        ] {
            let (before, now) = (before.as_ref(), now.as_ref());
            assert_eq!(Change { before, now }.text("it"), expected);
        }
    }
}
