//! In what a step differs from an entry that was made earlier.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::super::lines::Lines;
use super::super::manifest::Record;
use super::super::types::{Cause, Difference};
use crate::step::material::{Material, Value};
use crate::step::{Input, Step};
use crate::toolchain::{FileIdentity, Identity};

/// As much of a value is told.
const VALUE_LIMIT: usize = 400;

/// All differences, what explains most first.
pub(super) fn between(record: &Record, step: &Step) -> Vec<Difference> {
    let material = step.material();
    let (before, now) = (by_name(&record.material), by_name(&material));
    let names: BTreeSet<_> = before.keys().chain(now.keys()).collect();
    let changed = names
        .into_iter()
        .filter(|name| before.get(*name) != now.get(*name));
    let differences = changed.map(|name| {
        let (before, now) = (before.get(name).copied(), now.get(name).copied());
        let (cause, text) = explained(name, before, now, record, step);
        let shown = |value: &Value| value.to_string().chars().take(VALUE_LIMIT).collect();
        Difference {
            cause,
            field: (*name).to_owned(),
            before: before.map(shown),
            now: now.map(shown),
            text,
            items: match (before, now) {
                (Some(Value::List(before)), Some(Value::List(now))) => {
                    let changed = |one, other| without(one, other).count();
                    changed(before, now).max(changed(now, before))
                }
                _ => 1,
            },
        }
    });
    let mut differences: Vec<_> = differences.collect();
    differences.sort_by_key(|difference| difference.cause);
    differences
}

fn by_name(material: &Material) -> BTreeMap<&str, &Value> {
    let fields = material.fields().iter();
    fields.map(|field| (&*field.name, &field.value)).collect()
}

fn explained(
    field: &str,
    before: Option<&Value>,
    now: Option<&Value>,
    record: &Record,
    step: &Step,
) -> (Cause, String) {
    let (kind, name) = field.split_once('.').unwrap_or((field, ""));
    let lists = |what: &str| match (before, now) {
        (Some(Value::List(before)), Some(Value::List(now))) => changed_items(what, before, now),
        _ => one_sided(what, before, now),
    };
    match kind {
        "tool" => {
            let tools = step.tools();
            let now = tools.iter().find(|tool| tool.name == name);
            let now = now.map(|tool| &tool.identity);
            let before = record.tools.get(name);
            // That another tool is used comes from an option.
            let cause = match (before, now) {
                (Some(_), Some(_)) => Cause::Tool,
                _ => Cause::Option,
            };
            (cause, tool(name, before, now))
        }
        "command" => {
            let program = match (now, before) {
                (Some(Value::List(words)), _) | (_, Some(Value::List(words))) => words.first(),
                _ => None,
            };
            let program = program.map_or("a command", String::as_str);
            let text = match (before, now) {
                (None, _) => format!("{program} is run now"),
                (_, None) => format!("{program} is not run any more"),
                _ => lists(&format!("{program}'s arguments")),
            };
            (Cause::Option, text)
        }
        "path" => (Cause::Option, lists("the programs found by PATH")),
        "environment" => (
            Cause::Environment,
            values(&format!("variable {name}"), before, now),
        ),
        "fact" => (Cause::Fact, values(&name.replace('_', " "), before, now)),
        "input" => input(name, before, now, record, step),
        "outputs" => (Cause::Outputs, lists("the outputs")),
        "version" => {
            let what = format!("npu-build's {} step", step.kind);
            (Cause::Version, values(&what, before, now))
        }
        _ => (Cause::Fact, values(field, before, now)),
    }
}

/// "LC_ALL was A and is B".
fn values(what: &str, before: Option<&Value>, now: Option<&Value>) -> String {
    match (before, now) {
        (Some(Value::Text(before)), Some(Value::Text(now))) => {
            format!("{what} was {before} and is {now}")
        }
        _ => one_sided(what, before, now),
    }
}

fn one_sided(what: &str, before: Option<&Value>, now: Option<&Value>) -> String {
    match (before, now) {
        (None, _) => format!("{what} is new"),
        (_, None) => format!("{what} is gone"),
        _ => format!("{what} changed"),
    }
}

/// The items that are not among others, as often as they are there. A value is told with the option
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

fn tool(name: &str, before: Option<&Identity>, now: Option<&Identity>) -> String {
    let (before, now) = match (before, now) {
        (Some(before), Some(now)) => (before, now),
        (None, _) => return format!("{name} is new"),
        (_, None) => return format!("{name} is not used any more"),
    };
    let versions = if before.version == now.version {
        let named = [name, &now.version].join(" ");
        format!("{} is another build", named.trim_end())
    } else {
        format!("{name} was {} and is {}", before.version, now.version)
    };
    // A wrapper may have the name of what it wraps.
    let files = |identity: &Identity| {
        let mut files = BTreeMap::<String, Vec<String>>::new();
        for FileIdentity { name, digest } in &identity.files {
            files.entry(name.clone()).or_default().push(digest.short());
        }
        files
    };
    let (before, now) = (files(before), files(now));
    let mut changes = Vec::new();
    for name in before.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
        match (before.get(name), now.get(name)) {
            (Some(before), Some(now)) if before != now => {
                let mut pairs = before.iter().zip(now);
                changes.push(match pairs.find(|(before, now)| before != now) {
                    Some((before, now)) => format!("{name} {before} is now {now}"),
                    None => format!("{name} is not as many files as it was"),
                });
            }
            (Some(_), None) => changes.push(format!("{name} is gone")),
            (None, Some(_)) => changes.push(format!("{name} is new")),
            _ => {}
        }
    }
    if changes.is_empty() {
        return versions;
    }
    let more = changes.len().saturating_sub(3);
    changes.truncate(3);
    if more > 0 {
        changes.push(format!("{more} more files"));
    }
    format!("{versions} ({})", changes.join(", "))
}

fn input(
    name: &str,
    before: Option<&Value>,
    now: Option<&Value>,
    record: &Record,
    step: &Step,
) -> (Cause, String) {
    let found = step.inputs.iter().find(|input| input.name == name);
    let Some((input, origin)) = found.and_then(|input| Some((input, input.origin.as_ref()?)))
    else {
        let what = match name {
            "request.json" => "what it launches (signature or artifact)",
            "call.inc" => "the call that goes with the signature",
            name => {
                let is_made = found.is_some_and(|input| input.path().is_some());
                let name = match is_made {
                    true => format!("what an earlier step made ({name})"),
                    false => format!("input {name}"),
                };
                return (Cause::Input, one_sided(&name, before, now));
            }
        };
        return (Cause::Input, one_sided(what, before, now));
    };
    let is_source = step.source.as_deref() == Some(&*origin.path);
    let (cause, what) = if is_source {
        (Cause::Source, "the source".to_owned())
    } else {
        (Cause::Input, format!("input {name}"))
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

    fn identity(version: &str, files: &[(&str, &str)]) -> Identity {
        let files = files.iter().map(|(name, content)| FileIdentity {
            name: (*name).into(),
            digest: Digest::of(content),
        });
        Identity {
            digest: Digest::of(version),
            version: version.into(),
            files: files.collect(),
        }
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    fn list(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).into()).collect()
    }

    #[test]
    fn the_library_that_changed_is_named() {
        let before = identity(
            "22.1.7",
            &[("mlir-opt", "a"), ("libMLIR.so.22", "b"), ("old.so", "c")],
        );
        let now = identity(
            "22.1.8",
            &[("mlir-opt", "a"), ("libMLIR.so.22", "x"), ("new.so", "d")],
        );
        let told = tool("mlir-opt", Some(&before), Some(&now));
        let (b, x) = (Digest::of("b").short(), Digest::of("x").short());
        let expected = format!(
            "mlir-opt was 22.1.7 and is 22.1.8 (libMLIR.so.22 {b} is now {x}, new.so is new, old.so is gone)"
        );
        assert_eq!(told, expected);
        assert_eq!(tool("ld", None, Some(&now)), "ld is new");
        let wrapped = |wrapper| identity("1", &[("cc", wrapper), ("cc", "same")]);
        assert_eq!(
            tool("cc", Some(&wrapped("b")), Some(&wrapped("x"))),
            format!("cc 1 is another build (cc {b} is now {x})")
        );
        assert_eq!(tool("ld", Some(&now), None), "ld is not used any more");
    }

    #[test]
    fn arguments_are_compared_as_they_stand() {
        let told = |before: &[&str], now: &[&str]| changed_items("it", &list(before), &list(now));
        assert_eq!(
            told(&["cc", "-O2"], &["cc", "-O3"]),
            "it: -O3 instead of -O2"
        );
        assert_eq!(told(&["cc"], &["cc", "-g", "-g"]), "it: -g -g are new");
        // An option is told with its value, and once.
        assert_eq!(
            told(&["cc", "--format", "elf"], &["cc", "--format", "xclbin"]),
            "it: --format xclbin instead of --format elf"
        );
        assert_eq!(
            told(&["cc", "-e", "a"], &["cc", "-i", "b", "-o", "c"]),
            "it: -i b -o c instead of -e a"
        );
        assert_eq!(told(&["cc"], &["cc", "-i", "b"]), "it: -i b are new");
        assert_eq!(told(&["cc", "-g", "-g"], &["cc", "-g"]), "it: -g is gone");
        assert_eq!(told(&["a", "b"], &["b", "a"]), "it are in another order");
    }

    #[test]
    fn a_variable_is_told_with_both_values() {
        let (c, german) = (text("C"), text("de_DE"));
        let told = |before, now| values("variable LC_ALL", before, now);
        assert_eq!(
            told(Some(&c), Some(&german)),
            "variable LC_ALL was C and is de_DE"
        );
        assert_eq!(told(None, Some(&c)), "variable LC_ALL is new");
        assert_eq!(told(Some(&c), None), "variable LC_ALL is gone");
    }
}
