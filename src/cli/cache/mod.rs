//! `npu-build cache`: where the cache is, what is in it, whether it is sound, and how to keep it small.

pub mod args;
mod list;
mod show;
mod stats;

use std::num::NonZero;

use crate::config::{CacheOptions, CachePlace};
use crate::interrupt::Interrupt;
use crate::message::one_line;
use crate::plan::{BuildError, Session};
use crate::store::{Bounds, Problem, Selection, Store};
use serde::Serialize;

use super::args::Global;
use super::json::text;
use super::terminal::{Terminal, Tone};
use super::{Failure, settings};
use args::{CacheCommand, ClearCommand, GcCommand};

/// Exit code of a verification that found something.
const UNSOUND: u8 = 1;

pub fn run(global: &Global, command: &CacheCommand, terminal: &Terminal) -> Result<(), Failure> {
    let settings = settings(global)?;
    let root = match &settings.cache {
        CachePlace::Directory(root) => root,
        CachePlace::Disabled => {
            return Err(Failure::bad_input(
                "there is no cache: --no-cache, NPU_BUILD_NO_CACHE or cache.enabled turns it off",
            ));
        }
        CachePlace::Unknown => {
            return Err(Failure::bad_input(
                "there is no cache: neither NPU_BUILD_CACHE_DIR, XDG_CACHE_HOME nor HOME is set; \
                 name its directory with --cache-dir",
            ));
        }
    };
    let opened = Store::open_existing(root, settings.sharing).map_err(BuildError::from)?;
    let store = &opened.unwrap_or_else(|| {
        let message = format!("there is no cache at {} yet", root.display());
        terminal.status("note", Tone::Note, &message);
        Store::disabled()
    });
    let interrupt = &Interrupt::on_signals();
    match command {
        CacheCommand::Dir if terminal.json => {
            Ok(terminal.result_json(&serde_json::json!({ "dir": text(root) }))?)
        }
        CacheCommand::Dir => Ok(terminal.result_path(root)?),
        CacheCommand::List(command) => list::list(store, command, terminal),
        CacheCommand::Show { key } => show::show(store, key, terminal),
        CacheCommand::Verify { repair, jobs } => {
            let jobs = jobs.map_or_else(cores, |jobs| usize::try_from(jobs).unwrap_or(1));
            verify(store, *repair, jobs, interrupt, terminal)
        }
        CacheCommand::Gc(command) => gc(store, command, settings.cache_bounds, interrupt, terminal),
        CacheCommand::Clear(command) => clear(store, command, interrupt, terminal),
        CacheCommand::Stats { reset } => stats::stats(store, *reset, terminal),
    }
}

fn verify(
    store: &Store,
    repair: bool,
    jobs: usize,
    interrupt: &Interrupt,
    terminal: &Terminal,
) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Found<'a> {
        problem: &'a str,
        key: Option<String>,
        path: String,
        repaired: bool,
    }
    #[derive(Serialize)]
    struct Summary {
        entries: u64,
        bytes: u64,
        problems: u64,
        left: u64,
    }
    let observe = |event: crate::store::Event<'_>| terminal.event(&event);
    let on_problem = |problem: &Problem| {
        let path = problem.path.display();
        let done = if problem.repaired { " (repaired)" } else { "" };
        let line = format!("{path}: {}{done}", problem.reason);
        let _ = if terminal.json {
            terminal.result_json(&Found {
                problem: &problem.reason,
                key: problem.key.map(|key| key.to_string()),
                path: text(&problem.path),
                repaired: problem.repaired,
            })
        } else {
            terminal.result(&one_line(&line))
        };
    };
    let checked = store.verify(repair, jobs, interrupt, &observe, &on_problem)?;
    if terminal.json {
        terminal.result_json(&Summary {
            entries: checked.entries,
            bytes: checked.bytes,
            problems: checked.problems,
            left: checked.left,
        })?;
    }
    let entries = entries(checked.entries, checked.bytes);
    let message = match checked.problems {
        0 => format!("{entries}: all is well"),
        problems => format!(
            "{entries}: {}, {} repaired",
            counted(problems, "problem", "problems"),
            problems - checked.left
        ),
    };
    let tone = if checked.left == 0 {
        Tone::Good
    } else {
        Tone::Bad
    };
    terminal.status("verified", tone, &message);
    if checked.left == 0 {
        return Ok(());
    }
    if !repair {
        terminal.status(
            "hint",
            Tone::Note,
            "npu-build cache verify --repair puts them right",
        );
    }
    Err(Failure::Printed(UNSOUND))
}

fn gc(
    store: &Store,
    command: &GcCommand,
    set: Bounds,
    interrupt: &Interrupt,
    terminal: &Terminal,
) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Summary {
        dry_run: bool,
        entries: u64,
        bytes: u64,
        leftovers: u64,
        entries_left: u64,
        bytes_left: u64,
    }
    let given = CacheOptions {
        max_size: command.max_size,
        max_age: command.max_age,
        max_entries: command.max_entries,
        ..CacheOptions::default()
    };
    let bounds = given.bounds(set);
    let observe = |event: crate::store::Event<'_>| terminal.event(&event);
    let cleaned = store.gc(bounds, command.dry_run, interrupt, &observe)?;
    if terminal.json {
        terminal.result_json(&Summary {
            dry_run: command.dry_run,
            entries: cleaned.entries,
            bytes: cleaned.bytes,
            leftovers: cleaned.leftovers,
            entries_left: cleaned.entries_left,
            bytes_left: cleaned.bytes_left,
        })?;
    }
    let word = if command.dry_run {
        "would delete"
    } else {
        "deleted"
    };
    let message = format!(
        "{}, and {}; {} stay",
        entries(cleaned.entries, cleaned.bytes),
        counted(cleaned.leftovers, "leftover", "leftovers"),
        entries(cleaned.entries_left, cleaned.bytes_left)
    );
    terminal.status(word, Tone::Good, &message);
    Ok(())
}

fn clear(
    store: &Store,
    command: &ClearCommand,
    interrupt: &Interrupt,
    terminal: &Terminal,
) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Summary {
        entries: u64,
        bytes: u64,
        kept: u64,
    }
    let selection = match command {
        ClearCommand { all: true, .. } => Selection::Everything,
        ClearCommand {
            kernel: None,
            target: None,
            ..
        } => Selection::Entries,
        ClearCommand { kernel, target, .. } => Selection::Of {
            kernel: kernel.clone(),
            target: target.map(|target| target.name().to_owned()),
        },
    };
    let on_wait = || terminal.status("waiting", Tone::Note, "for builds that still run");
    let cleared = store.clear(&selection, interrupt, &on_wait)?;
    if terminal.json {
        terminal.result_json(&Summary {
            entries: cleared.entries,
            bytes: cleared.bytes,
            kept: cleared.kept,
        })?;
    }
    let message = entries(cleared.entries, cleared.bytes);
    terminal.status("cleared", Tone::Good, &message);
    if cleared.kept > 0 {
        terminal.warning(&format!(
            "{} more could not be locked: somebody builds just that; if nobody does, run \
             `npu-build cache verify --repair`, and clear again",
            counted(cleared.kept, "entry", "entries")
        ));
    }
    Ok(())
}

/// Keeps the cache within its bounds, now and then, after a build.
pub fn tidy(session: &Session, terminal: &Terminal) {
    let bounds = session.settings().cache_bounds;
    let interrupt = session.interrupt();
    match session.store().gc_if_due(bounds, interrupt) {
        Ok(Some(cleaned)) if cleaned.entries > 0 => terminal.detail(
            "deleted",
            &format!(
                "{}, that were not used for the longest time",
                entries(cleaned.entries, cleaned.bytes)
            ),
        ),
        Ok(_) => {}
        // The build is done, and that is what was asked for.
        Err(error) => terminal.detail("note", &error.to_string()),
    }
}

/// One thread for each core.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

fn entries(count: u64, bytes: u64) -> String {
    format!("{}, {}", counted(count, "entry", "entries"), size(bytes))
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
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
