//! `npu-build cache show`.

use crate::message::one_line;
use crate::store::ago;
use crate::store::manifest::Manifest;
use crate::store::{ShowError, Store};
use serde::Serialize;

use super::super::Failure;
use super::super::json::text;
use super::super::terminal::Terminal;
use super::{UNSOUND, size};

/// Shows the entry whose key begins with `digits`.
pub fn show(store: &Store, digits: &str, terminal: &Terminal) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Object<'a> {
        path: String,
        bytes: u64,
        hits: u64,
        last_used: u64,
        fault: Option<&'a str>,
        manifest: &'a Manifest,
    }
    let shown = store.show(digits).map_err(|error| match error {
        ShowError::Damaged(..) => Failure::Message {
            message: error.to_string(),
            code: UNSOUND,
        },
        error => Failure::bad_input(error.to_string()),
    })?;
    let manifest = &shown.manifest;
    let (head, record) = (&manifest.head, &manifest.record);
    let hits = store.statistics().hits(&head.key);
    let verdict = match shown.fault {
        None => Ok(()),
        Some(_) => Err(Failure::Printed(UNSOUND)),
    };
    if terminal.json {
        terminal.result_json(&Object {
            path: text(&shown.path),
            bytes: shown.bytes,
            hits,
            last_used: shown.last_used,
            fault: shown.fault.as_ref().map(|fault| &*fault.reason),
            manifest,
        })?;
        return verdict;
    }
    let mut lines = vec![
        format!("key        {}", head.key),
        format!(
            "kernel     {} ({} for {})",
            head.kernel, head.step, head.target
        ),
        format!("made       {}, in {} ms", ago(head.created), head.took),
        format!("last used  {}, {hits} hits", ago(shown.last_used)),
        format!("size       {}", size(shown.bytes)),
        match &shown.fault {
            None => "state      sound".to_owned(),
            Some(fault) => format!("state      {fault}"),
        },
        "artifacts".to_owned(),
    ];
    for artifact in &head.artifacts {
        let path = shown.path.join(&artifact.name);
        lines.push(format!(
            "  {} {:>10}  {}",
            artifact.sha256.short(),
            size(artifact.size),
            path.display()
        ));
    }
    if !record.tools.is_empty() {
        lines.push("tools".into());
    }
    for (name, tool) in &record.tools {
        lines.push(format!("  {} {name} {}", tool.digest.short(), tool.version));
        for file in &tool.files {
            lines.push(format!("    {} {}", file.digest.short(), file.name));
        }
    }
    lines.push("durations".into());
    for (name, milliseconds) in &record.milliseconds {
        lines.push(format!("  {milliseconds:>8} ms  {name}"));
    }
    lines.push("material".into());
    lines.extend(
        record
            .material
            .fields()
            .iter()
            .map(|field| format!("  {field}")),
    );
    if !record.log.is_empty() {
        lines.push("log".into());
        lines.extend(record.log.lines().map(|line| format!("  {line}")));
    }
    for line in lines {
        terminal.result(&one_line(&line))?;
    }
    verdict
}
