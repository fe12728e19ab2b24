//! Progress of a run, readable at any time from any thread.
//!
//! I1. Readers never wait for the run, and the run never waits for readers: all values are relaxed
//! atomics. A snapshot is therefore not one instant: counts may differ by concurrent changes.
//! I2. Metrics only: no decision depends on them.
//!
//! Units: latencies in microseconds, saturating at 71 minutes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::state::Tally;

/// Phase of a live attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Journaling the lease.
    Journal,
    /// Waiting for an environment.
    Lease,
    /// Reset: files, setup commands, first observation.
    Setup,
    /// Waiting for a reply.
    Policy,
    /// An action runs.
    Step,
    /// Grading.
    Grade,
    /// Closing the environment.
    Close,
    /// Recording the result.
    Record,
}

impl Phase {
    /// All, in the order an attempt goes through them.
    pub const ALL: [Self; 8] = [
        Self::Journal,
        Self::Lease,
        Self::Setup,
        Self::Policy,
        Self::Step,
        Self::Grade,
        Self::Close,
        Self::Record,
    ];

    /// Lower-case name for displays.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Lease => "lease",
            Self::Setup => "setup",
            Self::Policy => "policy",
            Self::Step => "step",
            Self::Grade => "grade",
            Self::Close => "close",
            Self::Record => "record",
        }
    }
}

/// A handle to the figures of a run; clones read the same run.
#[derive(Debug, Clone)]
pub struct Progress {
    figures: Arc<Figures>,
}

/// Latencies that are kept per phase: enough for a steady median at 10 Hz, small enough to sort for each.
const RECENT: usize = 256;

#[derive(Debug)]
struct Figures {
    slots: u32,
    closed: AtomicU32,
    passed: AtomicU32,
    faulted: AtomicU32,
    cancelled: AtomicU32,
    running: AtomicU32,
    queued: AtomicU32,
    withheld: AtomicU32,
    attempts: AtomicU32,
    retries: AtomicU32,
    discarded: AtomicU32,
    steps: AtomicU64,
    phases: [AtomicU32; Phase::ALL.len()],
    recent: [Recent; Phase::ALL.len()],
}

#[derive(Debug)]
struct Recent {
    count: AtomicU32,
    micros: [AtomicU32; RECENT],
}

/// A run at about one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgressSnapshot {
    /// Open slots at the start of this process: the whole plan, or the rest after a resume. With
    /// [`crate::SchedulerConfig::demand`], only those of them that are not withheld will be closed.
    pub slots: u32,
    /// Slots closed by now.
    pub closed: u32,
    /// Closed slots that passed.
    pub passed: u32,
    /// Slots closed by a fault.
    pub faulted: u32,
    /// Attempts cancelled.
    pub cancelled: u32,
    /// Attempts under way.
    pub running: u32,
    /// Slots that wait for a permit or rest before a retry.
    pub queued: u32,
    /// Slots whose groups are not in demand yet.
    pub withheld: u32,
    /// Attempts started.
    pub attempts: u32,
    /// Dispatches that are retries.
    pub retries: u32,
    /// Results that came too late.
    pub discarded: u32,
    /// Turns that reached an environment.
    pub steps: u64,
    /// Attempts under way, by phase.
    pub phases: PhaseCounts,
    /// Latencies of the last operations, by phase.
    pub latencies: Latencies,
}

/// Live attempts by phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PhaseCounts([u32; Phase::ALL.len()]);

impl PhaseCounts {
    /// Attempts in a phase.
    #[must_use]
    pub fn get(&self, phase: Phase) -> u32 {
        self.0[phase as usize]
    }
}

/// Recent latencies by phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latencies([Option<Latency>; Phase::ALL.len()]);

impl Latencies {
    /// Latencies of a phase; `None` before its first operation.
    #[must_use]
    pub fn get(&self, phase: Phase) -> Option<Latency> {
        self.0[phase as usize]
    }
}

/// Distribution of up to the last 256 operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latency {
    /// Median.
    pub p50: Duration,
    /// 95th percentile.
    pub p95: Duration,
    /// Longest.
    pub max: Duration,
}

impl Progress {
    /// Progress of a run that has not started; `withheld` slots are not in demand yet.
    pub(crate) fn new(slots: u32, withheld: u32) -> Self {
        let recent = || Recent { count: AtomicU32::new(0), micros: [const { AtomicU32::new(0) }; RECENT] };
        let figures = Figures {
            slots,
            closed: AtomicU32::new(0),
            passed: AtomicU32::new(0),
            faulted: AtomicU32::new(0),
            cancelled: AtomicU32::new(0),
            running: AtomicU32::new(0),
            queued: AtomicU32::new(slots.saturating_sub(withheld)),
            withheld: AtomicU32::new(withheld),
            attempts: AtomicU32::new(0),
            retries: AtomicU32::new(0),
            discarded: AtomicU32::new(0),
            steps: AtomicU64::new(0),
            phases: [const { AtomicU32::new(0) }; Phase::ALL.len()],
            recent: std::array::from_fn(|_| recent()),
        };
        Self { figures: Arc::new(figures) }
    }

    /// The figures now. Takes microseconds.
    #[must_use]
    pub fn snapshot(&self) -> ProgressSnapshot {
        let figures = &*self.figures;
        ProgressSnapshot {
            slots: figures.slots,
            closed: figures.closed.load(Relaxed),
            passed: figures.passed.load(Relaxed),
            faulted: figures.faulted.load(Relaxed),
            cancelled: figures.cancelled.load(Relaxed),
            running: figures.running.load(Relaxed),
            queued: figures.queued.load(Relaxed),
            withheld: figures.withheld.load(Relaxed),
            attempts: figures.attempts.load(Relaxed),
            retries: figures.retries.load(Relaxed),
            discarded: figures.discarded.load(Relaxed),
            steps: figures.steps.load(Relaxed),
            phases: PhaseCounts(std::array::from_fn(|phase| figures.phases[phase].load(Relaxed))),
            latencies: Latencies(std::array::from_fn(|phase| figures.recent[phase].summary())),
        }
    }

    /// The dispatcher's counts.
    pub(crate) fn publish(&self, tally: &Tally, running: u32, queued: usize, withheld: usize) {
        let figures = &*self.figures;
        figures.closed.store(tally.closed, Relaxed);
        figures.passed.store(tally.passed, Relaxed);
        figures.faulted.store(tally.faulted, Relaxed);
        figures.cancelled.store(tally.cancelled, Relaxed);
        figures.attempts.store(tally.attempts, Relaxed);
        figures.retries.store(tally.retries, Relaxed);
        figures.discarded.store(tally.discarded, Relaxed);
        figures.running.store(running, Relaxed);
        figures.queued.store(u32::try_from(queued).unwrap_or(u32::MAX), Relaxed);
        figures.withheld.store(u32::try_from(withheld).unwrap_or(u32::MAX), Relaxed);
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.figures.phases[phase as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn leave(&self, phase: Phase) {
        self.figures.phases[phase as usize].fetch_sub(1, Relaxed);
    }

    pub(crate) fn took(&self, phase: Phase, time: Duration) {
        self.figures.recent[phase as usize].push(time);
    }

    pub(crate) fn stepped(&self) {
        self.figures.steps.fetch_add(1, Relaxed);
    }

    pub(crate) fn steps(&self) -> u64 {
        self.figures.steps.load(Relaxed)
    }
}

impl Recent {
    fn push(&self, time: Duration) {
        let at = self.count.fetch_add(1, Relaxed) as usize % RECENT;
        self.micros[at].store(u32::try_from(time.as_micros()).unwrap_or(u32::MAX), Relaxed);
    }

    fn summary(&self) -> Option<Latency> {
        let filled = (self.count.load(Relaxed) as usize).min(RECENT);
        let mut micros: Vec<u32> = self.micros[..filled].iter().map(|cell| cell.load(Relaxed)).collect();
        micros.sort_unstable();
        let at = |percent: usize| micros.get((filled * percent / 100).min(filled.saturating_sub(1))).copied();
        let duration = |micros: u32| Duration::from_micros(micros.into());
        Some(Latency { p50: duration(at(50)?), p95: duration(at(95)?), max: duration(at(100)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(micros: impl IntoIterator<Item = u64>, expected: Option<[u64; 3]>) {
        let progress = Progress::new(0, 0);
        micros.into_iter().for_each(|micros| progress.took(Phase::Step, Duration::from_micros(micros)));
        let latency = progress.snapshot().latencies.get(Phase::Step);
        let got = latency
            .map(|latency| [latency.p50, latency.p95, latency.max].map(|time| time.as_micros() as u64));
        assert_eq!(got, expected);
    }

    #[test]
    fn latencies_are_of_the_last_operations() {
        check([], None);
        check([5], Some([5, 5, 5]));
        check(0..100, Some([50, 95, 99]));
        check((0..1000).chain(std::iter::repeat_n(7, RECENT)), Some([7, 7, 7]));
    }
}
