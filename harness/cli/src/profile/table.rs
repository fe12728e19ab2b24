//! The profile for a person.

use clawrl_record::{aligned, duration};

use super::durations::Figures;
use super::phase::Phase;

const HEADINGS: [&str; 9] = ["phase", "count", "in all", "mean", "p50", "p90", "p95", "p99", "max"];

/// A row for each phase that there was.
pub(super) fn rendered(phases: &[(Phase, Figures)]) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(phases.iter().map(|(phase, figures)| {
        let kept = &figures.kept;
        let times = [
            figures.sum_us,
            figures.mean_us(),
            kept.p50_us,
            kept.p90_us,
            kept.p95_us,
            kept.p99_us,
            figures.max_us,
        ];
        let [all, mean, p50, p90, p95, p99, max] = times.map(duration);
        [phase.name().to_owned(), figures.count.to_string(), all, mean, p50, p90, p95, p99, max]
    }));
    aligned(&rows)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::durations::Durations;
    use super::*;

    #[test]
    fn a_row_for_each_phase_that_there_was() {
        let figures = |micros: &[u64]| {
            let mut durations = Durations::default();
            micros.iter().for_each(|&micros| durations.push(Duration::from_micros(micros)));
            durations.figures().unwrap()
        };
        let phases = [(Phase::Lease, figures(&[10, 20, 30])), (Phase::Step, figures(&[1_500, 2_500_000]))];
        let expected = "\
phase  count  in all   mean     p50    p90    p95    p99    max
lease      3   60 us  20 us   20 us  30 us  30 us  30 us  30 us
step       2   2.5 s  1.3 s  1.5 ms  2.5 s  2.5 s  2.5 s  2.5 s
";
        assert_eq!(rendered(&phases), expected);
    }
}
