//! Metrics of both runs, paired by task.
//!
//! M1. The interval is that of the paired difference over tasks, two-sided at 95 %. There is none if there are too few tasks for the level, or
//! if all tasks differ by the same amount; the direction of the change may be significant all the same. M2. A metric without any value on one side is omitted.
//!
//! Pure; nothing to cancel.
//! Source: [`SubsetMeans`]. Deviations: none.

use std::collections::BTreeSet;

use clawrl_config::MetricKind;
use clawrl_gates::{Completeness, Direction, Paired, SubsetMeans};

use super::error::CompareError;
use super::model::{MetricComparison, SuiteComparison, Turned};
use crate::outcomes::{Outcomes, direction_of, kind_of, side, unit_of};

/// Probability beyond each end of an interval.
const TAIL: f64 = 0.025;
/// Seed of the subsets drawn for many tasks; always the same, so that a comparison is a function of its records.
const SEED: u64 = 0;

/// Metrics of each suite, and of all suites together if there are several; both sides have the same tasks.
pub(super) fn suites(before: &Outcomes, after: &Outcomes) -> Result<Vec<SuiteComparison>, CompareError> {
    let names: BTreeSet<&String> = before.values().map(|task| &task.suite).collect();
    let of = |suite: Option<&String>| {
        let part = |side: &Outcomes| -> Outcomes {
            let tasks = side.iter().filter(|(name, _)| {
                suite.is_none_or(|suite| before.get(*name).is_some_and(|task| task.suite == *suite))
            });
            tasks.map(|(name, task)| (name.clone(), task.clone())).collect()
        };
        let (before, after) = (part(before), part(after));
        Ok(SuiteComparison { suite: suite.cloned(), tasks: before.len(), metrics: metrics(&before, &after)? })
    };
    let all = (names.len() > 1).then_some(None);
    names.iter().map(|name| Some(*name)).chain(all).map(of).collect()
}

fn metrics(before: &Outcomes, after: &Outcomes) -> Result<Vec<MetricComparison>, CompareError> {
    let attempts = before.values().chain(after.values()).map(|task| task.episodes.len());
    let attempts = attempts.filter(|count| *count > 0).min().unwrap_or(0);
    let k = u32::try_from(attempts).unwrap_or(u32::MAX);
    let at_k = [MetricKind::PassAtK(k), MetricKind::PassHatK(k)];
    let has_faults = before.values().chain(after.values()).any(|task| task.faults > 0);
    let kinds = [MetricKind::PassRate]
        .into_iter()
        .chain(at_k.into_iter().filter(|_| k > 1))
        .chain([
            MetricKind::Reward,
            MetricKind::Turns,
            MetricKind::Tokens,
            MetricKind::CostUsd,
            MetricKind::LatencyS,
        ])
        .chain(has_faults.then_some(MetricKind::FaultRate));
    let mut rows = Vec::new();
    for kind in kinds {
        rows.extend(metric(kind, before, after)?);
    }
    Ok(rows)
}

fn metric(
    kind: MetricKind,
    before: &Outcomes,
    after: &Outcomes,
) -> Result<Option<MetricComparison>, CompareError> {
    // Notes report missing data.
    let rules = Completeness { max_fault_share: 1.0, max_lost_share: 1.0 };
    let paired = Paired::new(&side(before, kind), &side(after, kind), kind_of(kind), rules)
        .map_err(|source| CompareError::Pairing { metric: kind.name(), source })?;
    if paired.tasks().is_empty() {
        return Ok(None);
    }
    // For metrics to minimise, the harm is the difference itself.
    let differences = paired.harms(Direction::Lower);
    let (baseline, candidate) = paired.means();
    let ends = ends(&differences);
    let higher = match ends {
        (low, _) if low > 0.0 => Some(true),
        (_, high) if high < 0.0 => Some(false),
        _ => None,
    };
    let direction = direction_of(kind);
    let is_better = |is_higher: bool| is_higher == (direction == Direction::Higher);
    Ok(Some(MetricComparison {
        metric: kind.name(),
        unit: unit_of(kind),
        direction,
        tasks: differences.len(),
        baseline,
        candidate,
        difference: candidate - baseline,
        interval: interval(&differences, ends),
        turned: higher.map(|is_higher| if is_better(is_higher) { Turned::Better } else { Turned::Worse }),
    }))
}

/// Both bounds of the mean; infinite if there are too few tasks.
fn ends(differences: &[f64]) -> (f64, f64) {
    let means = SubsetMeans::new(differences, SEED);
    (means.lower(TAIL), means.upper(TAIL))
}

fn interval(differences: &[f64], (low, high): (f64, f64)) -> Option<(f64, f64)> {
    let varies = differences.iter().any(|difference| *difference != differences[0]);
    (varies && low.is_finite() && high.is_finite()).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn m1_where_there_is_an_interval() {
        let check = |differences: &[f64], expected: bool| {
            let found = interval(differences, ends(differences));
            assert_eq!(found.is_some(), expected, "{differences:?}");
        };
        check(&[], false);
        check(&[0.1, 0.2, 0.3, 0.4, 0.5], false);
        check(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], true);
        check(&[0.0; 40], false);
    }

    proptest! {
        #[test]
        fn m1_the_interval_holds_the_mean(differences in prop::collection::vec(-1.0f64..1.0, 6..15)) {
            let mean = differences.iter().sum::<f64>() / differences.len() as f64;
            if let Some((low, high)) = interval(&differences, ends(&differences)) {
                prop_assert!(low <= mean + 1e-12 && mean <= high + 1e-12, "{low} {mean} {high}");
            }
        }
    }
}
