//! Where a figure is drawn, and under which name.

use clawrl_record::{Metric, MetricRow};

/// As `metrics.jsonl` has it.
pub(super) fn name(metric: Metric) -> String {
    match serde_json::to_value(metric) {
        Ok(serde_json::Value::String(name)) => name,
        // Metric names are words, so this value cannot be one.
        _ => format!("{metric:?}"),
    }
}

/// The name with a prefix for its area.
pub(super) fn path(metric: Metric) -> String {
    name(metric).replacen('_', "/", 1)
}

/// Position of a value on its axis: its update or step, otherwise the seconds since `begin_ms`.
pub(super) fn step(row: &MetricRow, begin_ms: u64) -> u64 {
    row.update.unwrap_or_else(|| row.t_ms.saturating_sub(begin_ms) / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_and_areas_come_first() {
        assert_eq!(path(Metric::TrainRewardMean), "train/reward_mean");
        for metric in Metric::ALL {
            assert!(name(metric).split('_').count() >= 2, "{metric:?}");
            assert_eq!(path(metric).matches('/').count(), 1, "{metric:?}");
        }
    }

    #[test]
    fn figures_of_no_update_stand_at_their_second() {
        assert_eq!(step(&MetricRow::new(5_999, Metric::SlotsOpenCount, 1.0), 3_000), 2);
        assert_eq!(step(&MetricRow::new(0, Metric::SlotsOpenCount, 1.0), 3_000), 0);
        let of_update = MetricRow { update: Some(7), ..MetricRow::new(0, Metric::TrainLossMean, 1.0) };
        assert_eq!(step(&of_update, 3_000), 7);
    }
}
