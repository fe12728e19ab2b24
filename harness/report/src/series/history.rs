//! A history in the format of Weights & Biases: JSON lines, each with `_step` and `_timestamp`.
//!
//! I1. A line holds values that belong together: those of an update with `update`, those of a step of imitation with
//! `imitation_step`, or those of one moment. I2. `_step` counts the lines, because W&B requires it to increase. I3. Non-finite numbers
//! are omitted.
//!
//! Pure. Source: the history of `wandb.Run.log`, <https://docs.wandb.ai/guides/track/log>.

use std::collections::BTreeMap;

use clawrl_record::{Metric, MetricRow};
use serde_json::{Map, Value, json};

use super::axis::path;

/// Subject of a line, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    Imitation(u64),
    Update(u64),
    /// Milliseconds since 1970.
    Moment(u64),
}

/// The lines, in order of time, each with a line feed.
#[must_use]
pub fn history(rows: &[MetricRow]) -> String {
    let mut lines: BTreeMap<Of, (u64, Map<String, Value>)> = BTreeMap::new();
    for row in rows {
        let of = match row.update {
            Some(step) if row.name == Metric::TrainImitationLossNats => Of::Imitation(step),
            Some(update) => Of::Update(update),
            None => Of::Moment(row.t_ms),
        };
        let (t_ms, figures) = lines.entry(of).or_default();
        *t_ms = row.t_ms.max(*t_ms);
        if row.value.is_finite() {
            figures.insert(path(row.name), json!(row.value));
        }
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(of, (t_ms, _))| (*t_ms, *of));
    let mut text = String::new();
    for (step, (of, (t_ms, figures))) in lines.into_iter().enumerate() {
        let mut line = Map::new();
        line.insert("_step".to_owned(), json!(step));
        line.insert("_timestamp".to_owned(), json!(t_ms as f64 / 1000.0));
        match of {
            Of::Imitation(step) => _ = line.insert("imitation_step".to_owned(), json!(step)),
            Of::Update(update) => _ = line.insert("update".to_owned(), json!(update)),
            Of::Moment(_) => {}
        }
        line.extend(figures);
        text += &Value::Object(line).to_string();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn related_values_share_a_line() {
        let row = |t_ms, name, update, value| MetricRow { t_ms, name, update, value };
        let rows = [
            row(1_000, Metric::TrainImitationLossNats, Some(50), 0.5),
            row(3_500, Metric::TrainRewardMean, Some(1), 0.25),
            row(2_000, Metric::SlotsOpenCount, None, 8.0),
            row(2_000, Metric::SlotsClosedCount, None, 0.0),
            row(3_750, Metric::TrainHeldOutSuccessRatio, Some(1), 0.5),
            row(3_600, Metric::TrainLossMean, Some(1), f64::NAN),
        ];
        let expected = concat!(
            r#"{"_step":0,"_timestamp":1.0,"imitation_step":50,"train/imitation_loss_nats":0.5}"#,
            "\n",
            r#"{"_step":1,"_timestamp":2.0,"slots/closed_count":0.0,"slots/open_count":8.0}"#,
            "\n",
            r#"{"_step":2,"_timestamp":3.75,"train/held_out_success_ratio":0.5,"train/reward_mean":0.25,"update":1}"#,
            "\n",
        );
        assert_eq!(history(&rows), expected);
        assert_eq!(history(&[]), "");
    }
}
