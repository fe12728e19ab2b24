//! The newest figures in the text format of Prometheus.
//!
//! Pure. Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>, text format 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clawrl_core::RunId;
use clawrl_record::{Metric, MetricRow};

use super::axis::name;

/// One gauge per metric, and `clawrl_train_update`, the newest update with a value.
#[must_use]
pub fn exposition(run: &RunId, rows: &[MetricRow]) -> String {
    let mut newest: BTreeMap<Metric, f64> = BTreeMap::new();
    let mut update = None;
    for row in rows {
        newest.insert(row.name, row.value);
        if row.name != Metric::TrainImitationLossNats {
            update = update.max(row.update);
        }
    }
    let mut text = String::new();
    // A run's name has no characters that need escaping.
    let mut gauge = |name: &str, value: f64| {
        let value = match value {
            value if value.is_nan() => "NaN".to_owned(),
            value if value.is_infinite() => if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
            value => value.to_string(),
        };
        let _ = writeln!(text, "# TYPE clawrl_{name} gauge\nclawrl_{name}{{run=\"{run}\"}} {value}");
    };
    for (metric, value) in newest {
        gauge(&name(metric), value);
    }
    if let Some(update) = update {
        gauge("train_update", update as f64);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_each_counts() {
        let row = |name, update, value| MetricRow { t_ms: 0, name, update, value };
        let rows = [
            row(Metric::TrainImitationLossNats, Some(500), 0.125),
            row(Metric::TrainRewardMean, Some(1), 0.25),
            row(Metric::TrainRewardMean, Some(2), 0.5),
            row(Metric::TrainLossMean, Some(2), f64::NAN),
            row(Metric::SlotsOpenCount, None, 3.0),
        ];
        let run = RunId::new("a.b-1").unwrap();
        let expected = "\
# TYPE clawrl_slots_open_count gauge\nclawrl_slots_open_count{run=\"a.b-1\"} 3
# TYPE clawrl_train_reward_mean gauge\nclawrl_train_reward_mean{run=\"a.b-1\"} 0.5
# TYPE clawrl_train_loss_mean gauge\nclawrl_train_loss_mean{run=\"a.b-1\"} NaN
# TYPE clawrl_train_imitation_loss_nats gauge\nclawrl_train_imitation_loss_nats{run=\"a.b-1\"} 0.125
# TYPE clawrl_train_update gauge\nclawrl_train_update{run=\"a.b-1\"} 2
";
        assert_eq!(exposition(&run, &rows), expected);
        assert_eq!(exposition(&run, &[]), "");
        let infinite = exposition(&run, &[row(Metric::TrainLossMean, None, f64::NEG_INFINITY)]);
        assert!(infinite.ends_with(" -Inf\n"), "{infinite}");
    }
}
