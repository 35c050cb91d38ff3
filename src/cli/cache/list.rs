//! `npu-build cache list`.

use std::cmp::Reverse;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::message::one_line;
use crate::store::Totals;
use crate::store::ago;
use crate::store::{Listed, Store};
use serde::Serialize;

use super::super::Failure;
use super::super::terminal::Terminal;
use super::args::{ListCommand, Sort};
use super::{cores, size};

/// Lists entries as they are read, unless they are to be sorted.
pub fn list(store: &Store, command: &ListCommand, terminal: &Terminal) -> Result<(), Failure> {
    let statistics = store.statistics();
    let entries = store.list(cores()).filter(filter(command));
    let Some(sort) = command.sort else {
        for entry in entries {
            print(&entry, &statistics, terminal)?;
        }
        return Ok(());
    };
    let mut entries: Vec<_> = entries.collect();
    match sort {
        Sort::Size => entries.sort_by_key(|entry| Reverse(entry.bytes)),
        Sort::Hits => entries.sort_by_cached_key(|entry| Reverse(statistics.hits(&entry.head.key))),
        Sort::Age => entries.sort_by_key(|entry| Reverse(entry.head.created)),
        Sort::Used => entries.sort_by_key(|entry| Reverse(entry.last_used)),
        Sort::Kernel => entries.sort_by(|one, other| one.head.kernel.cmp(&other.head.kernel)),
    }
    for entry in &entries {
        print(entry, &statistics, terminal)?;
    }
    Ok(())
}

fn filter(command: &ListCommand) -> impl Fn(&Listed) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let oldest = command
        .unused_for
        .map(|age| now.saturating_sub(age.as_secs()));
    let (kernel, target) = (command.kernel.clone(), command.target);
    move |entry| {
        kernel
            .as_ref()
            .is_none_or(|kernel| *kernel == entry.head.kernel)
            && target.is_none_or(|target| target.name() == entry.head.target)
            && oldest.is_none_or(|oldest| entry.last_used <= oldest)
    }
}

fn print(entry: &Listed, statistics: &Totals, terminal: &Terminal) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Object<'a> {
        key: String,
        step: &'a str,
        kernel: &'a str,
        target: &'a str,
        bytes: u64,
        milliseconds: u64,
        hits: u64,
        created: u64,
        last_used: u64,
    }
    let hits = statistics.hits(&entry.head.key);
    if terminal.json {
        return Ok(terminal.result_json(&Object {
            key: entry.head.key.to_string(),
            step: &entry.head.step,
            kernel: &entry.head.kernel,
            target: &entry.head.target,
            bytes: entry.bytes,
            milliseconds: entry.head.took,
            hits,
            created: entry.head.created,
            last_used: entry.last_used,
        })?);
    }
    Ok(terminal.result(&format!(
        "{}  {:8}  {:6}  {:>10}  {:>6} hits  used {:>10}  {}",
        entry.head.key.short(),
        entry.head.step,
        entry.head.target,
        size(entry.bytes),
        hits,
        ago(entry.last_used),
        one_line(&entry.head.kernel)
    ))?)
}
