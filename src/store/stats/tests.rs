use std::io::Write as _;

use proptest::prelude::*;

use super::*;
use crate::step::execute::ExecuteError;
use crate::step::{Kind, Work};
use crate::store::types::{Miss, Outcome};
use crate::toolchain::Companions;

/// What becomes of a step of that key.
fn count(statistics: &Statistics, key: &str, miss: Option<(Cause, &str)>) {
    let step = step();
    let result = StepResult {
        kind: step.kind,
        target: step.target,
        key: Digest::of(key),
        outcome: Outcome::Hit,
        miss: miss.map(|(cause, reason)| Miss::new(cause, reason)),
        artifacts: Vec::new(),
        elapsed: Duration::ZERO,
        took: Duration::from_millis(7),
    };
    statistics.count(&step, &Digest::of(key), Duration::ZERO, &Ok(result));
}

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

/// A directory, and the statistics in it as a new process sees them.
fn place() -> (tempfile::TempDir, impl Fn() -> Statistics) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("statistics");
    (directory, move || {
        Statistics::new(path.clone(), Sharing::Private)
    })
}

fn hits(collected: &Collected) -> u64 {
    let counts = collected.totals.steps.values();
    counts.map(|counts| counts.hits).sum()
}

#[test]
fn everything_is_counted_by_step_and_key() {
    let (_directory, statistics) = place();
    let first = statistics();
    count(
        &first,
        "one",
        Some((Cause::Source, "the source changed\nat k.mlir:3")),
    );
    count(&first, "one", None);
    count(&first, "one", None);
    let failure = Err(ExecuteError::Interrupted.into());
    first.count(
        &step(),
        &Digest::of("other"),
        Duration::from_millis(7),
        &failure,
    );
    drop(first);
    let second = statistics();
    count(&second, "other", None);
    count(
        &second,
        "other",
        Some((Cause::Damaged, "its content changed")),
    );
    for is_folded in [false, true] {
        let collected = second.collect();
        let counts = collected.totals.steps["compile"];
        let outcomes = (counts.hits, counts.misses, counts.repairs, counts.failures);
        assert_eq!(outcomes, (3, 1, 1, 1), "{is_folded}");
        assert_eq!(
            (counts.milliseconds_saved, counts.milliseconds_spent),
            (21, 21)
        );
        let hits = |key| collected.hits(&Digest::of(key));
        assert_eq!((hits("one"), hits("other")), (2, 1));
        let causes = &collected.totals.causes;
        assert_eq!((causes["source"], causes["damaged"]), (1, 1));
        let misses = collected.totals.misses.iter();
        let misses: Vec<_> = misses.map(|miss| (&*miss.kernel, &*miss.reason)).collect();
        let reasons = ["the source changed\nat k.mlir:3", "its content changed"];
        assert_eq!(misses, reasons.map(|reason| ("vec\nadd", reason)));
        second.fold(|_| true).unwrap();
    }
}

#[test]
fn counting_begins_anew_and_forgets_deleted_keys() {
    let (_directory, statistics) = place();
    let statistics = statistics();
    count(&statistics, "one", None);
    count(&statistics, "other", None);
    statistics
        .fold(|key| key == Digest::of("one").number())
        .unwrap();
    let collected = statistics.collect();
    assert_eq!(collected.hits(&Digest::of("one")), 1);
    assert_eq!(collected.hits(&Digest::of("other")), 0);
    assert_eq!(hits(&statistics.reset().unwrap()), 2);
    assert_eq!(hits(&statistics.collect()), 0);
    count(&statistics, "one", None);
    assert_eq!(hits(&statistics.collect()), 1);
}

#[test]
fn nothing_is_lost_however_many_count_at_once() {
    const WRITERS: u64 = 8;
    const EACH: u64 = 200;
    let (directory, statistics) = place();
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            // As separate processes do: each with a file of its own.
            scope.spawn(|| (0..EACH).for_each(|_| count(&statistics(), "one", None)));
        }
    });
    assert_eq!(hits(&statistics().collect()), WRITERS * EACH);
    // Whoever makes the log long folds it.
    let log = directory.path().join("statistics/log");
    while fs::metadata(&log).is_ok_and(|log| log.len() > 1000) {
        (0..100).for_each(|_| count(&statistics(), "one", None));
    }
    let collected = hits(&statistics().collect());
    assert!(
        collected > WRITERS * EACH && collected % 100 == 0,
        "{collected}"
    );
}

#[test]
fn a_fold_that_was_killed_is_finished_by_the_next() {
    let (directory, statistics) = place();
    let place = directory.path().join("statistics");
    count(&statistics(), "one", None);
    fs::rename(place.join("log"), place.join("folding")).unwrap();
    count(&statistics(), "one", None);
    for _ in 0..3 {
        assert_eq!(hits(&statistics().collect()), 2);
        statistics().fold(|_| true).unwrap();
    }
    assert!(!place.join("log").exists() && !place.join("folding").exists());
}

#[test]
fn a_line_that_was_cut_short_spoils_nothing_but_itself() {
    let (directory, statistics) = place();
    let log = directory.path().join("statistics/log");
    count(&statistics(), "one", None);
    let line = fs::read(&log).unwrap();
    for length in 0..line.len() {
        let mut log = fs::File::options().append(true).open(&log).unwrap();
        log.write_all(&line[..length]).unwrap();
        count(&statistics(), "one", None);
    }
    let expected = line.len() as u64 + 1;
    assert_eq!(hits(&statistics().collect()), expected);
}

#[test]
fn what_is_no_file_of_the_cache_is_left_alone() {
    let (directory, statistics) = place();
    let place = directory.path().join("statistics");
    let precious = directory.path().join("precious");
    fs::create_dir(&place).unwrap();
    fs::write(&precious, "precious").unwrap();
    let log = place.join("log");
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
        statistics().fold(|_| true).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(fs::symlink_metadata(&log).is_err());
    }
}

proptest! {
    #[test]
    fn no_log_and_no_totals_are_too_strange(log in "\\PC*", totals in "\\PC*") {
        let (directory, statistics) = place();
        let place = directory.path().join("statistics");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("log"), &log).unwrap();
        fs::write(place.join("totals"), totals).unwrap();
        prop_assert_eq!(hits(&statistics().collect()), 0);
    }
}
