//! Takes attempts from executors that send no heartbeat.
//!
//! I1. An attempt is taken only if its heartbeat is overdue by `reap_margin` at two scans, at least
//! `reap_scan_gap` apart, without a new heartbeat in between: a process that was suspended and resumed must not
//! lose healthy attempts. I2. An attempt whose operation is within its bounds is never taken. I3. An
//! overdue attempt is always taken in the end: while any attempt is live, the next scan is scheduled.
//!
//! This is a backstop. Executors end their own operations in time; only an executor whose thread is blocked, or that
//! is gone, is overdue. A scan may be late by up to the longest operation limit: executors do not announce
//! deadlines to the dispatcher, which reads them when the earliest known deadline has passed.
//!
//! Units: time since the start of the run. Pure; nothing to cancel.

use std::time::Duration;

use clawrl_core::SlotId;

use crate::heartbeat::Beat;
use crate::limits::SchedulerTimeouts;

/// Knows when to look again.
#[derive(Debug)]
pub(crate) struct Reaper {
    next: Duration,
    margin: Duration,
    /// Thousands of leases with scattered deadlines cost one scan in this time.
    scan_gap: Duration,
}

impl Reaper {
    pub(crate) fn new(timeouts: SchedulerTimeouts) -> Self {
        let SchedulerTimeouts { reap_margin, reap_scan_gap, .. } = timeouts;
        Self { next: Duration::MAX, margin: reap_margin, scan_gap: reap_scan_gap }
    }

    /// When the next scan is due; `None` while nothing lives.
    pub(crate) fn next_scan(&self) -> Option<Duration> {
        (self.next != Duration::MAX).then_some(self.next)
    }

    /// A new attempt gave its first sign.
    pub(crate) fn watch(&mut self, sign: Beat) {
        self.next = self.next.min(sign.until + self.margin);
    }

    /// Reads the heartbeats of all live attempts, each with its overdue heartbeat from the last scan; returns the attempts
    /// to take.
    pub(crate) fn scan<'a>(
        &mut self,
        now: Duration,
        live: impl Iterator<Item = (SlotId, Beat, &'a mut Option<Beat>)>,
    ) -> Vec<SlotId> {
        let mut taken = Vec::new();
        self.next = Duration::MAX;
        for (slot, sign, suspect) in live {
            let overdue_at = sign.until + self.margin;
            let overdue = overdue_at <= now;
            if overdue && *suspect == Some(sign) {
                taken.push(slot);
                continue;
            }
            *suspect = overdue.then_some(sign);
            self.next = self.next.min(overdue_at.max(now + self.scan_gap));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Phase;

    fn sign(until_secs: u64) -> Beat {
        Beat { phase: Phase::Step, until: Duration::from_secs(until_secs) }
    }

    /// Signs of one attempt at each scan the reaper asks for; the scan, counted from 0, that takes it.
    fn check(signs: &[u64], expected: Option<usize>) {
        let mut reaper = Reaper::new(SchedulerTimeouts::default());
        reaper.watch(sign(signs[0]));
        let mut suspect = None;
        let mut now = Duration::ZERO;
        for (number, &until) in signs.iter().enumerate() {
            let next = reaper.next_scan().unwrap();
            assert!(number == 0 || next >= now + Duration::from_secs(1));
            now = next;
            let taken = reaper.scan(now, std::iter::once((SlotId(1), sign(until), &mut suspect)));
            if !taken.is_empty() {
                assert_eq!(Some(number), expected, "signs {signs:?}");
                assert_eq!(reaper.next_scan(), None);
                return;
            }
        }
        assert_eq!(expected, None, "signs {signs:?}");
    }

    #[test]
    fn only_a_silent_attempt_is_taken() {
        check(&[10, 10], Some(1));
        check(&[10, 20, 30, 40], None);
        check(&[10, 10, 10], Some(1));
        // Overdue once, but it gave a new sign before the second scan.
        check(&[10, 11], None);
        check(&[10, 200, 200, 200], Some(3));
    }
}
