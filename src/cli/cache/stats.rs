//! `npu-build cache stats`.

use std::collections::BTreeMap;

use crate::message::one_line;
use crate::store::Store;
use crate::store::ago;
use crate::store::{Cause, Counts, Missed, Totals};
use serde::Serialize;

use super::super::terminal::Terminal;
use super::super::{Failure, UNWRITABLE};
use super::{cores, size};

/// Shows what was counted, and begins anew if told to.
pub fn stats(store: &Store, reset: bool, terminal: &Terminal) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Object<'a> {
        entries: u64,
        bytes: u64,
        since: u64,
        steps: &'a BTreeMap<String, Counts>,
        causes: &'a BTreeMap<Cause, u64>,
        misses: &'a [Missed],
    }
    let totals = if reset {
        store.reset_statistics().map_err(|error| Failure::Message {
            message: format!("can't reset the statistics: {error}"),
            code: UNWRITABLE,
        })?
    } else {
        store.statistics()
    };
    let (entries, bytes) = store.extent(cores());
    if terminal.json {
        return Ok(terminal.result_json(&Object {
            entries,
            bytes,
            since: totals.since,
            steps: &totals.steps,
            causes: &totals.causes,
            misses: &totals.misses,
        })?);
    }
    for line in lines(&totals, entries, bytes, terminal.is_verbose()) {
        terminal.result(&one_line(&line))?;
    }
    Ok(())
}

fn lines(totals: &Totals, entries: u64, bytes: u64, verbose: bool) -> Vec<String> {
    let mut lines = vec![
        format!("entries    {entries}, {}", size(bytes)),
        format!("counted    since {}", ago(totals.since)),
    ];
    if totals.steps.is_empty() {
        lines.push("nothing was asked for since then".into());
        return lines;
    }
    lines.push("step          hits   misses  repairs  failures    delivered   time saved".into());
    for (step, counts) in &totals.steps {
        let Counts {
            hits,
            misses,
            repairs,
            failures,
            bytes_hit,
            milliseconds_saved,
        } = counts;
        lines.push(format!(
            "{step:9} {hits:>8} {misses:>8} {repairs:>8} {failures:>9} {:>12} {:>12}",
            size(*bytes_hit),
            span(*milliseconds_saved)
        ));
    }
    if !totals.causes.is_empty() {
        lines.push("why steps had to be carried out".into());
    }
    let mut causes: Vec<_> = totals.causes.iter().collect();
    causes.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
    for (cause, count) in causes {
        lines.push(format!("  {count:>8}  {}", words(*cause)));
    }
    if verbose {
        lines.push("the last of them".into());
        for missed in &totals.misses {
            lines.push(format!(
                "  {:>10}  {}  {} of {}: {}",
                ago(missed.time),
                missed.key,
                missed.step,
                missed.kernel,
                missed.reason
            ));
        }
    }
    lines
}

/// What a cause means.
fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::Asked => "asked: --refresh, or the cache could not be written",
        Cause::Damaged => "damaged: an entry did not verify",
        Cause::Deleted => "deleted: the entry was there once",
        Cause::New => "new: no earlier build of the kernel",
        Cause::Version => "version: npu-build itself",
        Cause::Tool => "tool: a compiler or a library of it",
        Cause::Option => "option: arguments of a command",
        Cause::Environment => "environment: a variable",
        Cause::Fact => "fact: the machine",
        Cause::Outputs => "outputs: which files are wanted",
        Cause::Source => "source: the kernel's text",
        Cause::Input => "input: another file, or what an earlier step made",
    }
}

fn span(milliseconds: u64) -> String {
    match milliseconds / 1000 {
        0 => format!("{milliseconds} ms"),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}
