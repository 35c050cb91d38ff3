//! `npu-build cache`: where the cache is, what is in it, and how to empty it.

use std::time::{SystemTime, UNIX_EPOCH};

use npu_build::store::Store;
use serde::Serialize;

use super::args::{CacheCommand, Global};
use super::terminal::{Terminal, Tone};
use super::{Failure, session, settings};

pub fn run(global: &Global, command: &CacheCommand, terminal: &Terminal) -> Result<(), Failure> {
    let session = session(settings(global)?, terminal)?;
    let store = session.store();
    let Some(layout) = store.layout() else {
        return Err(Failure::bad_input(
            "there is no cache: --no-cache, NPU_BUILD_NO_CACHE or cache.enabled turns it off",
        ));
    };
    match command {
        CacheCommand::Dir => Ok(terminal.result_path(layout.root())?),
        CacheCommand::List => list(store, terminal),
        CacheCommand::Clear => {
            let on_wait = || terminal.status("waiting", Tone::Note, "for builds that still run");
            let cleared = store.clear(session.interrupt(), &on_wait)?;
            terminal.status(
                "cleared",
                Tone::Good,
                &format!("{} entries, {}", cleared.entries, size(cleared.bytes)),
            );
            Ok(())
        }
    }
}

fn list(store: &Store, terminal: &Terminal) -> Result<(), Failure> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    for entry in store.list() {
        if terminal.json {
            #[derive(Serialize)]
            struct Listed<'a> {
                key: String,
                step: &'a str,
                kernel: &'a str,
                target: &'a str,
                bytes: u64,
                created: u64,
                last_used: u64,
            }
            terminal.result_json(&Listed {
                key: entry.key.to_string(),
                step: &entry.step,
                kernel: &entry.kernel,
                target: &entry.target,
                bytes: entry.bytes,
                created: entry.created,
                last_used: entry.last_used,
            })?;
        } else {
            terminal.result(&format!(
                "{}  {:8}  {:6}  {:>10}  used {:>8}  {}",
                entry.key.short(),
                entry.step,
                entry.target,
                size(entry.bytes),
                ago(now, entry.last_used),
                entry.kernel
            ))?;
        }
    }
    Ok(())
}

/// How long ago, in the largest unit that fits; last uses are noted to the hour.
fn ago(now: u64, then: u64) -> String {
    let seconds = now.saturating_sub(then);
    match seconds / 3600 {
        0 => "just now".into(),
        hours @ 1..48 => format!("{hours} h ago"),
        hours => format!("{} d ago", hours / 24),
    }
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}
