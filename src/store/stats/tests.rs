use std::fs;
use std::io::Write as _;
use std::path::Path;

use proptest::prelude::*;

use super::totals::collect;
use super::*;
use crate::toolchain::Companions;

fn step() -> Step {
    Step {
        kind: crate::step::Kind::Compile,
        version: 1,
        subject: "vec\tadd\n".into(),
        target: "cpu",
        source: None,
        inputs: Vec::new(),
        environment: Vec::new(),
        companions: Companions::default(),
        facts: Vec::new(),
        work: crate::step::Work::Native(|_| Ok(Vec::new())),
        outputs: Vec::new(),
    }
}

fn asked<'a>(step: &'a Step, key: &'a Digest) -> Asked<'a> {
    Asked {
        step,
        key,
        bytes: 10,
        took: Duration::from_millis(7),
    }
}

fn statistics(directory: &Path) -> Statistics {
    Statistics::new(directory.join("statistics"), Sharing::Private)
}

fn hits(collected: &Collected) -> u64 {
    collected
        .totals
        .steps
        .values()
        .map(|counts| counts.hits)
        .sum()
}

#[test]
fn everything_is_counted_by_step_and_key() {
    let directory = tempfile::tempdir().unwrap();
    let (step, key, other) = (step(), Digest::of("one"), Digest::of("other"));
    let first = statistics(directory.path());
    let miss = Miss::new(Cause::Source, "the source\tchanged\nat k.mlir:3");
    first.miss(asked(&step, &key), &miss);
    first.hit(asked(&step, &key));
    first.hit(asked(&step, &key));
    first.failure(asked(&step, &other));
    drop(first);
    let second = statistics(directory.path());
    second.hit(asked(&step, &other));
    let damaged = Miss::new(Cause::Damaged, "its content changed");
    second.miss(asked(&step, &other), &damaged);
    let collected = second.collect();
    let counts = collected.totals.steps["compile"];
    assert_eq!(
        (counts.hits, counts.misses, counts.repairs, counts.failures),
        (3, 1, 1, 1)
    );
    assert_eq!((counts.bytes_hit, counts.bytes_built), (30, 30));
    assert_eq!(
        (counts.milliseconds_saved, counts.milliseconds_spent),
        (21, 21)
    );
    assert_eq!((collected.hits(&key), collected.hits(&other)), (2, 1));
    assert_eq!(collected.totals.causes["source"], 1);
    assert_eq!(collected.totals.causes["damaged"], 1);
    let told: Vec<_> = collected
        .totals
        .misses
        .iter()
        .map(|miss| &*miss.reason)
        .collect();
    assert_eq!(
        told,
        ["the source changed at k.mlir:3", "its content changed"]
    );
    assert_eq!(collected.totals.misses[0].kernel, "vec add ");
    // Again, from what was folded.
    assert_eq!(second.collect(), collected);
}

#[test]
fn what_was_reset_is_gone_and_counting_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let (step, key) = (step(), Digest::of("one"));
    let statistics = statistics(directory.path());
    statistics.hit(asked(&step, &key));
    assert_eq!(hits(&statistics.reset().unwrap()), 1);
    assert_eq!(hits(&statistics.collect()), 0);
    statistics.hit(asked(&step, &key));
    assert_eq!(hits(&statistics.collect()), 1);
}

#[test]
fn only_the_counts_of_deleted_keys_are_pruned() {
    let directory = tempfile::tempdir().unwrap();
    let (step, one, other) = (step(), Digest::of("one"), Digest::of("other"));
    let statistics = statistics(directory.path());
    statistics.hit(asked(&step, &one));
    statistics.hit(asked(&step, &other));
    statistics.prune(|key| key == one.number()).unwrap();
    let collected = statistics.collect();
    assert_eq!((collected.hits(&one), collected.hits(&other)), (1, 0));
    assert_eq!(hits(&collected), 2);
}

/// Many write and several fold at the same time; nothing is lost and nothing counted twice.
#[test]
fn counts_are_exact_however_many_count_and_fold() {
    const WRITERS: u64 = 8;
    const EACH: u64 = 200;
    let directory = tempfile::tempdir().unwrap();
    let (step, key) = (step(), Digest::of("one"));
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    // As separate processes do: each with a file of its own.
                    statistics(directory.path()).hit(asked(&step, &key));
                }
            });
        }
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..40 {
                    statistics(directory.path()).collect();
                }
            });
        }
    });
    assert_eq!(
        hits(&statistics(directory.path()).collect()),
        WRITERS * EACH
    );
}

/// A fold that was killed at any of its steps counts nothing twice.
#[test]
fn a_fold_that_was_killed_is_finished_by_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("statistics");
    let (step, key) = (step(), Digest::of("one"));
    let count = || statistics(directory.path()).hit(asked(&step, &key));
    count();
    // Killed after it had renamed the log.
    fs::rename(place.join("log"), place.join("folding-1-1")).unwrap();
    count();
    assert_eq!(hits(&statistics(directory.path()).collect()), 2);
    // Killed after it had written the totals, before it deleted what is in them.
    count();
    fs::rename(place.join("log"), place.join("folding-2-2")).unwrap();
    let kept = fs::read(place.join("folding-2-2")).unwrap();
    assert_eq!(hits(&statistics(directory.path()).collect()), 3);
    let folded = fs::read_to_string(place.join("totals")).unwrap();
    assert!(folded.contains("folding-2-2"), "{folded}");
    fs::write(place.join("folding-2-2"), &kept).unwrap();
    count();
    assert_eq!(hits(&statistics(directory.path()).collect()), 4);
    // And somebody wrote into it before it was found again.
    let mut late = kept.clone();
    late.extend(&kept);
    count();
    fs::rename(place.join("log"), place.join("folding-3-3")).unwrap();
    let log = statistics(directory.path());
    assert_eq!(hits(&log.collect()), 5);
    fs::write(place.join("folding-3-3"), late).unwrap();
    assert_eq!(hits(&log.collect()), 6);
}

#[test]
fn a_line_that_was_cut_short_spoils_nothing_but_itself() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("statistics");
    let (step, key) = (step(), Digest::of("one"));
    let count = || statistics(directory.path()).hit(asked(&step, &key));
    count();
    let line = fs::read(place.join("log")).unwrap();
    for length in 0..line.len() {
        let mut log = fs::OpenOptions::new()
            .append(true)
            .open(place.join("log"))
            .unwrap();
        log.write_all(&line[..length]).unwrap();
        count();
    }
    let expected = line.len() as u64 + 1;
    assert_eq!(hits(&statistics(directory.path()).collect()), expected);
}

#[test]
fn damaged_totals_are_begun_anew_and_what_is_no_file_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("statistics");
    let (step, key) = (step(), Digest::of("one"));
    let count = || statistics(directory.path()).hit(asked(&step, &key));
    count();
    statistics(directory.path()).collect();
    let totals = fs::read(place.join("totals")).unwrap();
    for at in 0..totals.len() {
        let mut damaged = totals.clone();
        damaged[at] ^= 4;
        fs::write(place.join("totals"), damaged).unwrap();
        assert_eq!(
            hits(&statistics(directory.path()).collect()),
            0,
            "byte {at}"
        );
    }
    let precious = directory.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let _ = fs::remove_file(place.join("log"));
    std::os::unix::fs::symlink(&precious, place.join("log")).unwrap();
    count();
    fs::remove_file(place.join("log")).unwrap();
    fs::hard_link(&precious, place.join("log")).unwrap();
    count();
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    fs::remove_file(place.join("log")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.join("log"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    // Nobody reads it, and nobody waits for that.
    count();
    statistics(directory.path()).collect();
}

proptest! {
    #[test]
    fn no_log_and_no_totals_are_too_strange(log in "\\PC*", totals in "\\PC*") {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("statistics");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("log"), &log).unwrap();
        let sealed = format!("npu-build statistics 1 {}\n{totals}", Digest::of(&totals));
        fs::write(place.join("totals"), sealed).unwrap();
        prop_assert_eq!(hits(&collect(&log::Log::new(place, Sharing::Private))), 0);
    }
}
