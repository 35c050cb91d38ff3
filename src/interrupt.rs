//! Ctrl-C and friends: a flag that long work looks at, and the process groups that must end with us.
//!
//! A tool runs in a process group of its own, so the terminal's Ctrl-C and Ctrl-Z do not reach it:
//! whoever starts one registers it here, and a signal ends, or stops and continues, every registered
//! group. The default value never
//! fires; [`Interrupt::on_signals`] is for programs that own their process. Until there is something
//! to clean up, a signal ends such a program as it ends any other: a hit needs no handlers.

use std::ffi::c_int;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGXFSZ};
use signal_hook::iterator::Signals;

/// How long the tools may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// Shared by all work that a signal should end; clones are the same interrupt.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    raised: AtomicBool,
    released: AtomicBool,
    groups: Mutex<Vec<Pid>>,
    /// Whether [`Interrupt::arm`] is to install handlers.
    by_signals: bool,
    armed: OnceLock<()>,
    stops: Mutex<Stops>,
}

/// How long the process has been stopped by Ctrl-Z.
#[derive(Debug, Default)]
struct Stops {
    before: Duration,
    since: Option<Instant>,
}

impl Interrupt {
    /// An interrupt that is raised, once it is armed, when the process gets SIGINT, SIGTERM or
    /// SIGHUP, instead of dying at once; a second signal, or two seconds, kills what still runs.
    /// A signal that the caller ignores for us, as nohup(1) does, stays ignored.
    #[must_use]
    pub fn on_signals() -> Self {
        Self(Arc::new(State {
            by_signals: true,
            ..State::default()
        }))
    }

    /// Lets signals raise the interrupt from now on, if it is one for signals. Whoever begins what
    /// must not be left half done calls this first; again is no harm.
    pub fn arm(&self) {
        if self.0.by_signals {
            // Without handlers a signal still ends us, the tools die with us, and the next build
            // sweeps up. That is no reason not to build.
            self.0.armed.get_or_init(|| self.listen().unwrap_or(()));
        }
    }

    /// Lets signals end the process at once again: there is nothing left to clean up, and what runs
    /// now looks at no flag.
    pub fn release(&self) {
        self.0.released.store(true, Ordering::SeqCst);
    }

    fn listen(&self) -> io::Result<()> {
        let ignored = ignored_signals();
        let is_heard = |signal: &&c_int| ignored & (1 << (**signal - 1)) == 0;
        let mut signals = Signals::new(
            [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP]
                .iter()
                .filter(is_heard),
        )?;
        let raised = self.clone();
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                for signal in signals.forever() {
                    if signal == SIGTSTP {
                        raised.stop();
                        continue;
                    }
                    if raised.0.released.load(Ordering::SeqCst) {
                        // It ends us, as if there had never been a handler.
                        let _ = signal_hook::low_level::emulate_default_handler(signal);
                    }
                    raised.raise();
                    let raised = raised.clone();
                    // A tool that ignores SIGTERM must not outlive the user's patience.
                    let patience = move || {
                        std::thread::sleep(PATIENCE);
                        raised.raise();
                    };
                    // Without a thread to spare, a second signal has to do.
                    let _ = std::thread::Builder::new().spawn(patience);
                }
            })?;
        Ok(())
    }

    /// Ends every registered group: SIGTERM the first time, SIGKILL from the second time on.
    pub fn raise(&self) {
        let again = self.0.raised.swap(true, Ordering::SeqCst);
        let signal = if again { Signal::KILL } else { Signal::TERM };
        for group in self.groups().iter() {
            tell(*group, signal);
        }
    }

    /// Stops this process and the registered groups, until somebody continues it.
    fn stop(&self) {
        self.stops().since = Some(Instant::now());
        for group in self.groups().iter() {
            tell(*group, Signal::STOP);
        }
        // It returns when the process is continued.
        let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
        {
            let mut stops = self.stops();
            let since = stops.since.take();
            stops.before += since.map_or(Duration::ZERO, |since| since.elapsed());
        }
        for group in self.groups().iter() {
            tell(*group, Signal::CONT);
        }
    }

    /// How long Ctrl-Z has kept the process, and so its tools, from working.
    pub(crate) fn stopped(&self) -> Duration {
        let stops = self.stops();
        stops.before + stops.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn stops(&self) -> MutexGuard<'_, Stops> {
        self.0.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the work should stop.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::SeqCst)
    }

    /// Ends `group` when a signal arrives while the returned value lives; at once if one has.
    pub(crate) fn guard(&self, group: Pid) -> Guarded<'_> {
        self.groups().push(group);
        if self.is_raised() {
            tell(group, Signal::TERM);
        }
        // Whoever continues the groups takes this lock first.
        let stops = self.stops();
        if stops.since.is_some() {
            tell(group, Signal::STOP);
        }
        drop(stops);
        Guarded {
            interrupt: self,
            group,
        }
    }

    fn groups(&self) -> MutexGuard<'_, Vec<Pid>> {
        self.0.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets a write beyond the limit of a file's size fail instead of ending the process. The programs
/// that it starts are ended by the signal as ever: what is caught, unlike what is ignored, is not
/// inherited.
///
/// # Errors
/// The system's reason why the signal can't be caught.
pub fn outlive_file_size_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// The signals that are ignored, signal N as bit N - 1: as proc(5) has it.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0)
}

/// A process group that a signal ends.
pub(crate) struct Guarded<'a> {
    interrupt: &'a Interrupt,
    group: Pid,
}

impl Guarded<'_> {
    /// Kills the whole group: a time-out, or a leader that left children behind.
    pub(crate) fn kill(&self) {
        tell(self.group, Signal::KILL);
    }
}

impl Drop for Guarded<'_> {
    fn drop(&mut self) {
        self.interrupt.groups().retain(|group| *group != self.group);
    }
}

/// A group that is gone already is what we want, so the error says nothing.
fn tell(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
}
