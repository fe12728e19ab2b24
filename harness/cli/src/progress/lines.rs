//! Plain lines for logs and pipes: every few seconds, and at every quarter.

use std::time::Duration;

use super::figures::{Figures, brief};

/// Maximum time between two lines.
const PERIOD: Duration = Duration::from_secs(5);

/// Decides when a line is due, and formats it.
#[derive(Debug, Default)]
pub(super) struct Lines {
    last: Duration,
    quarters: u64,
}

impl Lines {
    /// The line, if one is due.
    pub(super) fn due(&mut self, figures: &Figures) -> Option<String> {
        let run = &figures.run;
        let quarters = u64::from(run.closed) * 4 / u64::from(run.slots.max(1));
        if quarters <= self.quarters && figures.elapsed.saturating_sub(self.last) < PERIOD {
            return None;
        }
        self.last = figures.elapsed;
        self.quarters = self.quarters.max(quarters);
        Some(worded(figures))
    }
}

fn worded(figures: &Figures) -> String {
    let run = &figures.run;
    let percent = u64::from(run.closed) * 100 / u64::from(run.slots.max(1));
    let mut text = format!(
        "{}/{} closed ({percent} %) after {}: {}; {}",
        run.closed,
        run.slots,
        brief(figures.elapsed),
        figures.counts(),
        figures.rates()
    );
    if let Some(left) = figures.time_left() {
        text += &format!("; {} left", brief(left));
    }
    let medians = figures.medians();
    if !medians.is_empty() {
        text += &format!("; {medians}");
    }
    text
}

#[cfg(test)]
mod tests {
    use clawrl_core::ProviderUsage;
    use clawrl_scheduler::ProgressSnapshot;

    use super::*;

    fn figures(closed: u32, seconds: u64) -> Figures {
        Figures {
            run: ProgressSnapshot { slots: 100, closed, passed: closed, running: 9, ..Default::default() },
            usage: ProviderUsage { live: 12, warm: 3, peak: 12 },
            environments: "environments",
            elapsed: Duration::from_secs(seconds),
            acting: Duration::from_secs(seconds),
            steps_per_second: 123.4,
            attempts_per_second: 2.04,
        }
    }

    #[test]
    fn lines_come_at_quarters_and_after_silence() {
        let mut lines = Lines::default();
        let mut check = |closed, seconds, expected| {
            assert_eq!(lines.due(&figures(closed, seconds)).is_some(), expected, "{closed} at {seconds} s");
        };
        check(3, 1, false);
        check(25, 2, true);
        check(26, 3, false);
        check(26, 7, true);
        check(100, 8, true);
        check(100, 9, false);
    }

    #[test]
    fn a_line_says_it_all() {
        insta::assert_snapshot!(worded(&figures(50, 10)), @"50/100 closed (50 %) after 10.0 s: passed 50, faulted 0, running 9, environments 12 (3 ready); 123 steps/s, 2.0 attempts/s; 10.0 s left");
    }
}
