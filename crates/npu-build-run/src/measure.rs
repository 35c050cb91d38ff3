//! Timing what takes nanoseconds or seconds: warm-up, samples, and what they say.

use std::time::{Duration, Instant};

use serde::Serialize;

/// Shorter launches are timed several at a time: the clock itself costs some 50 ns.
const SHORTEST_SAMPLE: Duration = Duration::from_micros(10);
/// More samples than that say nothing new.
const MOST_SAMPLES: u32 = 200_000;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    Launches(u64),
    Time(Duration),
}

/// What samples say, each of one launch or of several on average.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statistics {
    pub min_ns: f64,
    pub median_ns: f64,
    pub p99_ns: f64,
    pub mean_ns: f64,
    pub launches: u64,
    /// Launches that were timed together.
    pub launches_per_sample: u64,
}

/// Measures `what`, which does `unit` launches each time, after a warm-up of a tenth as much.
pub fn measure<E>(
    budget: Budget,
    unit: u64,
    mut what: impl FnMut() -> Result<(), E>,
) -> Result<Statistics, E> {
    let times = |budget| match budget {
        Budget::Launches(launches) => u64::max(launches / unit, 1),
        Budget::Time(_) => u64::MAX,
    };
    let (warm_up, limit) = match budget {
        Budget::Launches(launches) => (Budget::Launches(launches / 10), Duration::MAX),
        Budget::Time(time) => (Budget::Time(time / 10), time),
    };
    let one = {
        let until = match warm_up {
            Budget::Time(time) => time,
            Budget::Launches(_) => Duration::MAX,
        };
        let (started, mut done) = (Instant::now(), 0_u32);
        while u64::from(done) < times(warm_up) && (done == 0 || started.elapsed() < until) {
            what()?;
            done += 1;
        }
        started.elapsed() / done
    };
    let batch = batch(one, limit, times(budget));
    let (mut samples, mut done) = (Vec::new(), 0_u64);
    let started = Instant::now();
    while done < times(budget) && (done == 0 || started.elapsed() < limit) {
        let size = batch.min(times(budget) - done);
        let start = Instant::now();
        for _ in 0..size {
            what()?;
        }
        let elapsed = start.elapsed().as_nanos() as f64;
        samples.push((elapsed, size * unit));
        done += size;
    }
    Ok(Statistics::of(&samples, batch * unit))
}

/// How many to time together if each takes `one`.
fn batch(one: Duration, limit: Duration, times: u64) -> u64 {
    let few = match limit {
        Duration::MAX => SHORTEST_SAMPLE,
        limit => SHORTEST_SAMPLE.max(limit / MOST_SAMPLES),
    };
    let batch = few.as_nanos() / one.as_nanos().max(1);
    u64::try_from(batch).unwrap_or(times).clamp(1, times)
}

impl Statistics {
    /// Of samples: nanoseconds, and for how many launches.
    fn of(samples: &[(f64, u64)], launches_per_sample: u64) -> Self {
        let launches = samples.iter().map(|(_, launches)| launches).sum::<u64>();
        let total = samples.iter().map(|(time, _)| time).sum::<f64>();
        let each = samples
            .iter()
            .map(|(time, launches)| time / *launches as f64);
        let mut each: Vec<_> = each.collect();
        each.sort_by(f64::total_cmp);
        // The nearest rank: a sample that was there.
        let rank = |share: f64| {
            let rank = (share * each.len() as f64).ceil() as usize;
            each.get(rank.saturating_sub(1))
                .copied()
                .unwrap_or(f64::NAN)
        };
        Self {
            min_ns: rank(0.0),
            median_ns: rank(0.5),
            p99_ns: rank(0.99),
            mean_ns: total / launches as f64,
            launches,
            launches_per_sample,
        }
    }
}

/// A time for people, with three digits.
pub fn time_text(time: Duration) -> String {
    nanoseconds_text(time.as_nanos() as f64)
}

/// The same of nanoseconds.
pub fn nanoseconds_text(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        n if n < 999.5 => (n, "ns"),
        n if n < 999.5e3 => (n / 1e3, "us"),
        n if n < 999.5e6 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let digits = match value {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_samples_by_their_rank() {
        let samples: Vec<_> = (1..=200).rev().map(|n| (f64::from(n) * 2.0, 2)).collect();
        let statistics = Statistics::of(&samples, 2);
        assert_eq!(
            statistics,
            Statistics {
                min_ns: 1.0,
                median_ns: 100.0,
                p99_ns: 198.0,
                mean_ns: 100.5,
                launches: 400,
                launches_per_sample: 2,
            }
        );
        let one = Statistics::of(&[(7.0, 1)], 1);
        assert_eq!((one.min_ns, one.median_ns, one.p99_ns), (7.0, 7.0, 7.0));
    }

    #[test]
    fn as_many_launches_are_done_as_were_asked_for() {
        for (launches, unit, measured) in [(1, 1, 1), (1000, 1, 1000), (100, 32, 96), (5, 32, 32)] {
            let mut done = 0;
            let what = || {
                done += 1;
                Ok::<_, ()>(())
            };
            let statistics = measure(Budget::Launches(launches), unit, what).unwrap();
            assert_eq!(statistics.launches, measured);
            // And a warm-up.
            assert!(done * unit >= measured + unit, "{done}");
        }
    }

    #[test]
    fn a_failure_ends_it() {
        let mut left = 3;
        let what = || {
            left -= 1;
            if left == 0 { Err("done") } else { Ok(()) }
        };
        assert_eq!(
            measure(Budget::Time(Duration::MAX), 1, what).unwrap_err(),
            "done"
        );
    }

    #[test]
    fn short_launches_are_timed_together() {
        let limit = Duration::from_secs(1);
        assert_eq!(batch(Duration::from_nanos(30), limit, u64::MAX), 333);
        assert_eq!(batch(Duration::from_micros(10), limit, u64::MAX), 1);
        assert_eq!(batch(Duration::ZERO, limit, 7), 7);
        assert_eq!(batch(Duration::from_secs(2), limit, 7), 1);
        // 200,000 samples in an hour.
        let hour = Duration::from_secs(3600);
        assert_eq!(batch(Duration::from_millis(1), hour, u64::MAX), 18);
    }

    #[test]
    fn times_have_three_digits() {
        for (nanoseconds, text) in [
            (0.0, "0.00 ns"),
            (31.25, "31.2 ns"),
            (999.7, "1.00 us"),
            (1234.0, "1.23 us"),
            (99_960.0, "100 us"),
            (5e8, "500 ms"),
            (1.5e9, "1.50 s"),
        ] {
            assert_eq!(nanoseconds_text(nanoseconds), text);
        }
    }
}
