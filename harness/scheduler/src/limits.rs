//! The scheduler's own timeouts, and the choice between two nested limits.
//!
//! I1. A fault names the limit whose deadline came first. If both fall on the same instant, it
//! names the operation's own, which is more specific.

use std::time::Duration;

use clawrl_core::Limit;
use tokio::time::Instant;

/// Timeouts for everything without a limit in the plan. They are not settings of a run: they
/// bound misbehaviour, and the defaults suit every machine of normal speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulerTimeouts {
    /// Time that an environment may take to return after its deadline or a cancellation, before it
    /// counts as lost. The environment enforces the deadline itself; this covers its clean-up.
    pub operation_grace: Duration,
    /// Time without a heartbeat, after deadline and grace, until an attempt is taken from its
    /// executor. This affects only executors whose thread is blocked, or that are gone.
    pub reap_margin: Duration,
    /// Least time between two looks at signs of life; a silent attempt is taken at the second.
    pub reap_scan_gap: Duration,
    /// Limit for writing one record. A store that hangs ends the run, because continuing would lose results.
    pub record: Duration,
    /// Time that the end of a run waits for executors whose attempts were resolved without them.
    pub tail: Duration,
    /// Time that a provider may take to end all its environments.
    pub shutdown: Duration,
}

impl Default for SchedulerTimeouts {
    fn default() -> Self {
        Self {
            operation_grace: Duration::from_secs(5),
            reap_margin: Duration::from_secs(30),
            reap_scan_gap: Duration::from_secs(1),
            record: Duration::from_secs(60),
            tail: Duration::from_secs(10),
            shutdown: Duration::from_secs(60),
        }
    }
}

/// Malformed replies in a row that end an attempt.
pub const MALFORMED_IN_A_ROW: u32 = 3;

/// A deadline and the limit it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) limit: Limit,
    pub(crate) deadline: Instant,
    /// The limit's length, for messages.
    pub(crate) length: Duration,
}

impl Bound {
    pub(crate) fn new(limit: Limit, start: Instant, length: Duration) -> Self {
        Self { limit, deadline: start + length, length }
    }

    /// Whichever comes first.
    pub(crate) fn within(self, outer: Self) -> Self {
        if outer.deadline < self.deadline { outer } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of the step limit, seconds of the attempt limit, seconds into the attempt.
    fn check(step: u64, attempt: u64, into: u64, expected: Limit) {
        let start = Instant::now();
        let secs = Duration::from_secs;
        let outer = Bound::new(Limit::Attempt, start, secs(attempt));
        let bound = Bound::new(Limit::Step, start + secs(into), secs(step)).within(outer);
        assert_eq!(bound.limit, expected, "step {step} s, attempt {attempt} s, after {into} s");
    }

    #[test]
    fn the_first_deadline_binds() {
        check(30, 300, 0, Limit::Step);
        check(30, 300, 269, Limit::Step);
        check(30, 300, 270, Limit::Step);
        check(30, 300, 271, Limit::Attempt);
        check(30, 300, 400, Limit::Attempt);
        check(300, 30, 0, Limit::Attempt);
    }

    /// A semantics lock: to change one is to decide.
    #[test]
    fn constants() {
        let SchedulerTimeouts { operation_grace, reap_margin, reap_scan_gap, record, tail, shutdown } =
            SchedulerTimeouts::default();
        let seconds = [operation_grace, reap_margin, reap_scan_gap, record, tail, shutdown]
            .map(|duration| duration.as_secs());
        assert_eq!(seconds, [5, 30, 1, 60, 10, 60]);
        assert_eq!(MALFORMED_IN_A_ROW, 3);
        assert_eq!(crate::CONTEXT_BUDGET_CHARS, 65_536);
    }
}
