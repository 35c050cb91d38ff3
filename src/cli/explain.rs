//! `npu-build explain`: hit or miss, and why.

use crate::message::one_line;
use crate::step::Kind;
use crate::store::{Cause, Difference, Explanation, Nearest, ago};
use serde::Serialize;

use super::args::{Global, KernelCommand};
use super::terminal::Terminal;
use super::{Failure, session, settings};

/// Explains each step of a kernel, up to the first that would be carried out.
pub fn explain(
    global: &Global,
    command: &KernelCommand,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let settings = settings(global)?;
    let request = command.request(&settings);
    let session = session(settings, terminal)?;
    let observe = |event: crate::store::Event<'_>| terminal.event(&event);
    for explanation in session.explain(&request, &observe)? {
        if terminal.json {
            terminal.result_json(&Object::of(&explanation))?;
        } else {
            for line in lines(&explanation) {
                terminal.result(&one_line(&line))?;
            }
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Object<'a> {
    step: &'static str,
    kernel: &'a str,
    target: &'static str,
    key: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<NearestObject<'a>>,
}

#[derive(Serialize)]
struct NearestObject<'a> {
    key: String,
    created: u64,
    differences: Vec<DifferenceObject<'a>>,
}

#[derive(Serialize)]
struct DifferenceObject<'a> {
    field: &'a str,
    cause: Cause,
    before: Option<&'a str>,
    now: Option<&'a str>,
    text: &'a str,
}

impl<'a> Object<'a> {
    fn of(explanation: &'a Explanation) -> Self {
        let miss = explanation.miss.as_ref();
        Self {
            step: explanation.kind.name(),
            kernel: &explanation.subject,
            target: explanation.target,
            key: explanation.key.to_string(),
            outcome: if miss.is_some() { "miss" } else { "hit" },
            cause: miss.map(|miss| miss.cause),
            reason: miss.map(|miss| &*miss.reason),
            nearest: explanation.nearest.as_ref().map(NearestObject::of),
        }
    }
}

impl<'a> NearestObject<'a> {
    fn of(nearest: &'a Nearest) -> Self {
        let differences = nearest.differences.iter();
        let differences = differences.map(|difference| DifferenceObject {
            field: &difference.field,
            cause: difference.cause,
            before: difference.before.as_deref(),
            now: difference.now.as_deref(),
            text: &difference.text,
        });
        Self {
            key: nearest.key.to_string(),
            created: nearest.created,
            differences: differences.collect(),
        }
    }
}

fn lines(explanation: &Explanation) -> Vec<String> {
    let (step, kernel) = (explanation.kind, &explanation.subject);
    let what = match step {
        // It has the images of all targets.
        Kind::Launcher => format!("{step} of {kernel}"),
        _ => format!("{step} of {kernel} for {}", explanation.target),
    };
    let key = explanation.key.short();
    let Some(miss) = &explanation.miss else {
        return vec![format!("hit: {what} is in the cache as {key}")];
    };
    let mut lines = vec![format!("miss: {what}: {}", miss.reason)];
    if let Some(nearest) = &explanation.nearest {
        lines.push(format!(
            "  compared with {}, made {}:",
            nearest.key.short(),
            ago(nearest.created)
        ));
        for Difference {
            field,
            before,
            now,
            text,
            ..
        } in &nearest.differences
        {
            lines.push(format!("  {field}: {text}"));
            let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".into());
            lines.push(format!("    before: {}", shown(before)));
            lines.push(format!("    now:    {}", shown(now)));
        }
    }
    lines
}
