//! The scheduler's own constants, and which of two nested limits binds.
//!
//! I1. The limit that is named is the one whose deadline came first. Where both fall on the same instant it
//! is the operation's own, which is the narrower statement.

use std::time::Duration;

use clawrl_core::Limit;
use tokio::time::Instant;

/// How long the scheduler waits for what has no limit in the plan. These are not settings of a run: they
/// bound misbehaviour, and the defaults are right wherever programs run at normal speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How long past its deadline, or after a cancellation, an environment may take to return before it
    /// counts as lost. It enforces the deadline itself; this covers its clean-up of what it interrupted.
    pub operation_grace: Duration,
    /// How long past deadline and grace an attempt may give no sign of life before it is taken from its
    /// executor. Only an executor whose thread is blocked, or that is gone, gets here.
    pub reap_margin: Duration,
    /// Least time between two looks at signs of life; a silent attempt is taken at the second.
    pub reap_scan_gap: Duration,
    /// How long one record may take to be kept. A store that hangs ends the run: going on would lose results.
    pub record: Duration,
    /// How long the end of a run waits for executors whose attempts have been resolved without them.
    pub tail: Duration,
    /// How long a provider may take to end everything it provided.
    pub shutdown: Duration,
}

impl Default for Patience {
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
        let Patience { operation_grace, reap_margin, reap_scan_gap, record, tail, shutdown } =
            Patience::default();
        let seconds = [operation_grace, reap_margin, reap_scan_gap, record, tail, shutdown]
            .map(|duration| duration.as_secs());
        assert_eq!(seconds, [5, 30, 1, 60, 10, 60]);
        assert_eq!(MALFORMED_IN_A_ROW, 3);
        assert_eq!(crate::CONTEXT_BUDGET_CHARS, 65_536);
    }
}
