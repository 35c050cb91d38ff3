//! Times and memory.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The argument with which this program runs the command that follows and prints its peak memory.
pub const PEAK: &str = "--peak-memory-of";

/// Runs `one` and `other` alternately, `count` times each, after a few rounds that don't count.
pub fn alternate(count: usize, mut one: impl FnMut(), mut other: impl FnMut()) -> (Times, Times) {
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    for _ in 0..count.div_ceil(20) {
        one();
        other();
    }
    for _ in 0..count {
        ours.time(&mut one);
        theirs.time(&mut other);
    }
    (ours, theirs)
}

/// How long each of several runs took.
#[derive(Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Adds a run of `work`.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.0.push(started.elapsed());
        result
    }

    /// Adds a run that took as long as this.
    pub fn add(&mut self, elapsed: Duration) {
        self.0.push(elapsed);
    }

    /// The median in seconds.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted[sorted.len() / 2].as_secs_f64()
    }

    /// The median of what these runs took more than those beside them, in seconds.
    pub fn median_excess(&self, others: &Self) -> f64 {
        let pairs = self.0.iter().zip(&others.0);
        let mut excess: Vec<_> = pairs
            .map(|(one, other)| one.as_secs_f64() - other.as_secs_f64())
            .collect();
        excess.sort_by(f64::total_cmp);
        excess[excess.len() / 2]
    }
}

/// Runs a command that must succeed; it may print, and nobody listens.
pub fn run(command: &mut Command) {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let status = status.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// The peak resident memory of a command, in KiB. A child's figure starts with the memory of the
/// process that forks it, so a small process in between does that.
pub fn peak_memory(command: &Command) -> f64 {
    let mut wrapper = Command::new(std::env::current_exe().unwrap());
    wrapper
        .arg(PEAK)
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().unwrap())
        .env_clear()
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    let output = wrapper.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// Runs `command` and prints the peak resident memory of the children of this process, in KiB.
pub fn print_peak(command: &[String]) {
    let [program, arguments @ ..] = command else {
        panic!("{PEAK} takes a command");
    };
    run(Command::new(program).args(arguments));
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the call fills the structure that it is given, and says so with 0.
    let usage = unsafe {
        assert_eq!(
            libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()),
            0
        );
        usage.assume_init()
    };
    println!("{}", usage.ru_maxrss);
}
