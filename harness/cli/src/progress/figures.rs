//! Contents of a progress display.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use clawrl_core::ProviderUsage;
use clawrl_scheduler::{Phase, ProgressSnapshot};

/// Window of rates.
const WINDOW: Duration = Duration::from_secs(5);

/// Phases whose medians are shown; the others are internal and take microseconds.
const SHOWN: [Phase; 6] =
    [Phase::Lease, Phase::Setup, Phase::Policy, Phase::Step, Phase::Grade, Phase::Close];

/// State of a run at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figures {
    pub(super) run: ProgressSnapshot,
    pub(super) usage: ProviderUsage,
    /// Word for the environments.
    pub(super) environments: &'static str,
    pub(super) elapsed: Duration,
    /// Time since the first attempt, which excludes preparing environments.
    pub(super) acting: Duration,
    pub(super) steps_per_second: f64,
    pub(super) attempts_per_second: f64,
}

impl Figures {
    /// Estimated remaining time; `None` before the first slot is closed and when none is left.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let left = self.run.slots.saturating_sub(self.run.closed);
        if self.run.closed == 0 || left == 0 {
            return None;
        }
        Some(self.acting.mul_f64(f64::from(left) / f64::from(self.run.closed)))
    }

    /// `passed 3, faulted 0, running 64, sandboxes 66`.
    pub(super) fn counts(&self) -> String {
        let run = &self.run;
        let mut text = format!(
            "passed {}, faulted {}, running {}, {} {}",
            run.passed, run.faulted, run.running, self.environments, self.usage.live
        );
        if self.usage.warm > 0 {
            text += &format!(" ({} ready)", self.usage.warm);
        }
        if run.retries > 0 {
            text += &format!(", retries {}", run.retries);
        }
        text
    }

    /// `120 steps/s, 40 attempts/s`.
    pub(super) fn rates(&self) -> String {
        format!("{} steps/s, {} attempts/s", rate(self.steps_per_second), rate(self.attempts_per_second))
    }

    /// `p50 lease 12 ms, step 3 ms`; empty before the first operation.
    pub(super) fn medians(&self) -> String {
        let medians = SHOWN.iter().filter_map(|&phase| {
            let latency = self.run.latencies.get(phase)?;
            // Latencies of immediate policies are not informative.
            (latency.p50 >= Duration::from_micros(50))
                .then(|| format!("{} {}", phase.name(), brief(latency.p50)))
        });
        let medians: Vec<String> = medians.collect();
        if medians.is_empty() { String::new() } else { format!("p50 {}", medians.join(", ")) }
    }
}

/// Computes figures from snapshots, with the history for rates.
#[derive(Debug)]
pub(super) struct Figuring {
    environments: &'static str,
    start: Instant,
    first_attempt: Option<Instant>,
    past: VecDeque<(Instant, u64, u32)>,
}

impl Figuring {
    /// `environments` is the word for them.
    pub(super) fn new(now: Instant, environments: &'static str) -> Self {
        Self { environments, start: now, first_attempt: None, past: VecDeque::new() }
    }

    pub(super) fn at(&mut self, now: Instant, run: ProgressSnapshot, usage: ProviderUsage) -> Figures {
        let resolved = run.attempts.saturating_sub(run.running);
        if run.attempts > 0 {
            self.first_attempt.get_or_insert(now);
        }
        self.past.push_back((now, run.steps, resolved));
        while self.past.len() > 2 && self.past.get(1).is_some_and(|(at, ..)| now - *at >= WINDOW) {
            self.past.pop_front();
        }
        let (since, steps, attempts) = self.past.front().copied().unwrap_or((now, 0, 0));
        let seconds = (now - since).as_secs_f64();
        let rate = |count: f64| if seconds > 0.0 { count.max(0.0) / seconds } else { 0.0 };
        Figures {
            steps_per_second: rate(run.steps.saturating_sub(steps) as f64),
            attempts_per_second: rate(f64::from(resolved.saturating_sub(attempts))),
            elapsed: now - self.start,
            acting: self.first_attempt.map_or(Duration::ZERO, |first| now - first),
            run,
            usage,
            environments: self.environments,
        }
    }
}

/// A short form of a duration.
pub(super) fn brief(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{:.1} s", micros as f64 / 1e6),
        60_000_000..3_600_000_000 => format!("{} min {} s", micros / 60_000_000, micros / 1_000_000 % 60),
        _ => format!("{} h {} min", micros / 3_600_000_000, micros / 60_000_000 % 60),
    }
}

fn rate(per_second: f64) -> String {
    if per_second < 10.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_brief() {
        let check = |micros, expected: &str| assert_eq!(brief(Duration::from_micros(micros)), expected);
        check(999, "999 us");
        check(1_500, "1.5 ms");
        check(12_345, "12 ms");
        check(12_345_678, "12.3 s");
        check(61_000_000, "1 min 1 s");
        check(7_260_000_000, "2 h 1 min");
    }

    #[test]
    fn rates_are_of_the_last_seconds_and_the_end_is_foreseen() {
        let start = Instant::now();
        let mut figuring = Figuring::new(start, "sandboxes");
        let mut at = |second: u64, closed: u32, steps: u64| {
            let attempts = closed + 1;
            let run =
                ProgressSnapshot { slots: 100, closed, attempts, running: 1, steps, ..Default::default() };
            figuring.at(start + Duration::from_secs(second), run, ProviderUsage::default())
        };
        assert_eq!(at(0, 0, 0).time_left(), None);
        let early = at(5, 50, 500);
        assert_eq!((early.steps_per_second, early.attempts_per_second), (100.0, 10.0));
        assert_eq!(early.time_left(), Some(Duration::from_secs(5)));
        at(10, 50, 500);
        let stalled = at(15, 50, 500);
        assert_eq!((stalled.steps_per_second, stalled.attempts_per_second), (0.0, 0.0));
        assert_eq!(at(20, 100, 500).time_left(), None);
    }
}
