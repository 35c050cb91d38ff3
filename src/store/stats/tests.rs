use std::fs;
use std::io::Write as _;
use std::time::Duration;

use proptest::prelude::*;

use super::super::types::{Counts, Miss, Outcome};
use super::*;
use crate::step::execute::ExecuteError;
use crate::step::{Kind, Work};
use crate::toolchain::Companions;

fn step() -> Step {
    Step {
        kind: Kind::Compile,
        version: 1,
        subject: "vec\nadd".into(),
        target: "cpu",
        source: None,
        inputs: Vec::new(),
        environment: Vec::new(),
        companions: Companions::default(),
        facts: Vec::new(),
        work: Work::Native(|_| Ok(Vec::new())),
        outputs: Vec::new(),
    }
}

/// Counts a hit of a step of that key, or a miss.
fn count(statistics: &Statistics, key: &str, miss: Option<(Cause, &str)>) {
    let (step, key) = (step(), Digest::of(key));
    let result = StepResult {
        kind: step.kind,
        target: step.target,
        key,
        outcome: Outcome::Hit,
        miss: miss.map(|(cause, reason)| Miss::new(cause, reason)),
        artifacts: Vec::new(),
        elapsed: Duration::ZERO,
        took: Duration::from_millis(7),
    };
    statistics.count(&step, &key, &Ok(result));
}

/// A directory, and the statistics in it as a new process sees them.
fn place() -> (tempfile::TempDir, impl Fn() -> Statistics) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    (directory, move || {
        Statistics::new(path.clone(), Sharing::Private)
    })
}

fn hits(totals: &Totals) -> u64 {
    totals.steps.values().map(|counts| counts.hits).sum()
}

#[test]
fn everything_is_counted_by_step_and_key() {
    const CHANGED: &str = "the source changed\nat k.mlir:3";
    let (_directory, statistics) = place();
    let first = statistics();
    count(&first, "one", Some((Cause::Source, CHANGED)));
    count(&first, "one", None);
    count(&first, "one", None);
    first.count(
        &step(),
        &Digest::of("other"),
        &Err(ExecuteError::Interrupted.into()),
    );
    drop(first);
    let second = statistics();
    count(&second, "other", None);
    count(&second, "other", Some((Cause::Damaged, "missing")));
    // From the log, from the totals, and without what was pruned.
    let one = Digest::of("one").number();
    for (pruned, hits_of_other) in [1, 1, 0].into_iter().enumerate() {
        let totals = second.collect();
        let expected = Counts {
            hits: 3,
            misses: 1,
            repairs: 1,
            failures: 1,
            bytes_hit: 0,
            milliseconds_saved: 21,
        };
        assert_eq!(totals.steps["compile"], expected);
        let hits = |key| totals.hits(&Digest::of(key));
        assert_eq!((hits("one"), hits("other")), (2, hits_of_other));
        assert_eq!(
            totals.causes,
            [(Cause::Damaged, 1), (Cause::Source, 1)].into()
        );
        let misses = totals.misses.iter();
        let misses: Vec<_> = misses.map(|miss| (&*miss.kernel, &*miss.reason)).collect();
        assert_eq!(misses, [("vec\nadd", CHANGED), ("vec\nadd", "missing")]);
        second.prune(|key| pruned == 0 || key == one).unwrap();
    }
}

#[test]
fn counting_begins_anew() {
    let (_directory, statistics) = place();
    let statistics = statistics();
    count(&statistics, "one", None);
    assert_eq!(hits(&statistics.reset().unwrap()), 1);
    assert_eq!(hits(&statistics.collect()), 0);
    count(&statistics, "one", None);
    assert_eq!(hits(&statistics.collect()), 1);
}

#[test]
fn nothing_is_lost_however_many_count_at_once_and_a_long_log_is_folded() {
    let (directory, statistics) = place();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            // As separate processes do: each with a file of its own.
            scope.spawn(|| (0..200).for_each(|_| count(&statistics(), "one", None)));
        }
    });
    assert_eq!(hits(&statistics().collect()), 1600);
    let log = directory.path().join("log");
    let mut file = fs::File::options().append(true).open(&log).unwrap();
    file.write_all(&vec![b'\n'; 256 << 10]).unwrap();
    count(&statistics(), "one", None);
    assert!(!log.exists());
    assert_eq!(hits(&statistics().collect()), 1601);
}

#[test]
fn a_line_that_was_cut_short_spoils_nothing_but_itself() {
    let (directory, statistics) = place();
    let log = directory.path().join("log");
    count(&statistics(), "one", None);
    let line = fs::read(&log).unwrap();
    for length in 0..line.len() {
        let mut log = fs::File::options().append(true).open(&log).unwrap();
        log.write_all(&line[..length]).unwrap();
        count(&statistics(), "one", None);
    }
    assert_eq!(hits(&statistics().collect()), line.len() as u64 + 1);
}

#[test]
fn what_is_no_file_of_the_cache_is_left_alone() {
    let (directory, statistics) = place();
    let [log, precious] = ["log", "precious"].map(|name| directory.path().join(name));
    fs::write(&precious, "precious").unwrap();
    let link = || std::os::unix::fs::symlink(&precious, &log).unwrap();
    let name = || fs::hard_link(&precious, &log).unwrap();
    let pipe = || {
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &log, kind, rustix::fs::Mode::RWXU, 0).unwrap();
    };
    for plant in [&link as &dyn Fn(), &name, &pipe] {
        plant();
        count(&statistics(), "one", None);
        assert_eq!(hits(&statistics().collect()), 0);
        statistics().prune(|_| true).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(fs::symlink_metadata(&log).is_err());
    }
}

proptest! {
    #[test]
    fn no_log_and_no_totals_are_too_strange(log in "\\PC*", totals in "\\PC*") {
        let (directory, statistics) = place();
        fs::write(directory.path().join("log"), &log).unwrap();
        fs::write(directory.path().join("totals"), totals).unwrap();
        prop_assert_eq!(hits(&statistics().collect()), 0);
    }
}
