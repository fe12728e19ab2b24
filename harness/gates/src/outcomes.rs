//! Outcomes of baseline and candidate at the same tasks, and reasons for which they are insufficient.
//!
//! I1. A fault or a missing attempt is never a value. I2. Invalid values of a metric are errors, never compared. I3. A task
//! without a value on one side is reported, never dropped silently: tasks that fault may be those that became worse.
//! I4. The order of tasks and attempts does not matter, except for [`Paired::copies`].
//!
//! Units: those of the metric. A harm is the worsening of the candidate, so a larger harm is worse in either direction.
//! Errors: [`PairingError`]. Pure; nothing to cancel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::summary_text::{counted, rounded};

/// Attempts of one side at one task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempts {
    /// Values of graded attempts: 1 or 0 for pass or fail, or a number; for some metrics one number for all attempts.
    pub values: Vec<f64>,
    /// Number of graded attempts; some may have no value of the metric.
    pub graded: u32,
    /// Number of attempts that ended in a fault.
    pub faults: u32,
    /// Number of planned attempts that are unfinished because the run was cut short.
    pub missing: u32,
}

impl Attempts {
    /// Attempts that were all graded, with a value each.
    #[must_use]
    pub fn of(values: Vec<f64>) -> Self {
        Self { graded: u32::try_from(values.len()).unwrap_or(u32::MAX), values, faults: 0, missing: 0 }
    }
}

/// Attempts of one side, by the name of the task.
pub type Side = BTreeMap<String, Attempts>;

/// Side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideName {
    /// The reference.
    Baseline,
    /// The side that is judged.
    Candidate,
}

impl fmt::Display for SideName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Baseline => "baseline",
            Self::Candidate => "candidate",
        })
    }
}

/// Optimisation direction of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// More is better: passes, scores.
    Higher,
    /// Less is better: costs, seconds.
    Lower,
}

/// Type of the values of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// 1 or 0.
    PassFail,
    /// From 0 to 1.
    Share,
    /// Any finite number.
    Number,
}

/// Limits for incomplete data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Completeness {
    /// Largest share of a side's planned attempts that may have ended in faults.
    pub max_fault_share: f64,
    /// Largest share of all tasks that may lack a value on one side.
    pub max_lost_share: f64,
}

impl Default for Completeness {
    fn default() -> Self {
        Self { max_fault_share: 0.1, max_lost_share: 0.0 }
    }
}

/// Reason for which two sides cannot be paired.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PairingError {
    /// A side has no tasks.
    #[error("the {side} has no tasks")]
    NoTasks {
        /// The side.
        side: SideName,
    },
    /// Two suites.
    #[error("baseline ({baseline} tasks) and candidate ({candidate} tasks) have no task in common")]
    NoCommonTasks {
        /// Tasks of the baseline.
        baseline: usize,
        /// Tasks of the candidate.
        candidate: usize,
    },
    /// No number, or no pass or fail.
    #[error("the value {value} of the {side} at task {task:?} is not a {expected}")]
    NoValue {
        /// The side.
        side: SideName,
        /// The task.
        task: String,
        /// The value.
        value: f64,
        /// The valid values.
        expected: &'static str,
    },
}

/// Reason for which outcomes are too few to judge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum MissingData {
    /// Nothing was tried.
    #[error("no attempt of the {side} finished")]
    NothingTried {
        /// The side.
        side: SideName,
    },
    /// No attempt has a value of the metric.
    #[error("none of {} of the {side} has a value of this metric", counted(*graded as usize, "graded attempt"))]
    NoNumbers {
        /// The side.
        side: SideName,
        /// Number of graded attempts.
        graded: u32,
    },
    /// Nothing else happened.
    #[error("{} of the {side} ended in faults", all_of(*faults))]
    AllFaults {
        /// The side.
        side: SideName,
        /// Number of faults.
        faults: u32,
    },
    /// Too many of them.
    #[error(
        "{faults} of {} of the {side} ended in faults (limit: {} %)",
        counted(*attempts as usize, "attempt"),
        rounded(100.0 * allowed)
    )]
    ManyFaults {
        /// The side.
        side: SideName,
        /// Number of faults.
        faults: u32,
        /// Number of attempts.
        attempts: u32,
        /// Largest share.
        allowed: f64,
    },
    /// Cut short.
    #[error("{} unfinished: the run was cut short", are(*missing, *side))]
    Truncated {
        /// The side.
        side: SideName,
        /// Number of unfinished attempts.
        missing: u32,
    },
    /// Tasks without a pair.
    #[error("{tasks} of {of} tasks lack a value on one side, the first is {first:?}")]
    LostTasks {
        /// Number of tasks without a pair.
        tasks: usize,
        /// Number of all tasks.
        of: usize,
        /// The first by name.
        first: String,
    },
}

/// Values of both sides at one task; at least one each.
#[derive(Debug, Clone, PartialEq)]
pub struct PairedTask {
    /// Name of the task.
    pub name: String,
    /// Values of the baseline, in ascending order.
    pub baseline: Vec<f64>,
    /// Values of the candidate, in ascending order.
    pub candidate: Vec<f64>,
}

/// Outcomes by task, as far as both sides have them.
#[derive(Debug, Clone, PartialEq)]
pub struct Paired {
    tasks: Vec<PairedTask>,
    kind: Kind,
    copies: Option<usize>,
    missing_data: Vec<MissingData>,
}

const SIDES: [SideName; 2] = [SideName::Baseline, SideName::Candidate];

impl Paired {
    /// Pairs two sides by task name.
    ///
    /// # Errors
    /// [`PairingError`] if there is nothing to pair, or a value is invalid for the metric.
    pub fn new(
        baseline: &Side,
        candidate: &Side,
        kind: Kind,
        rules: Completeness,
    ) -> Result<Self, PairingError> {
        for (side, attempts) in SIDES.into_iter().zip([baseline, candidate]) {
            check_values(side, attempts, kind)?;
        }
        let all: BTreeSet<&String> = baseline.keys().chain(candidate.keys()).collect();
        if !baseline.keys().any(|name| candidate.contains_key(name)) {
            return Err(PairingError::NoCommonTasks { baseline: baseline.len(), candidate: candidate.len() });
        }
        let mut missing_data = Vec::new();
        for (side, attempts) in SIDES.into_iter().zip([baseline, candidate]) {
            missing_data.extend(missing_data_of(side, attempts, rules.max_fault_share));
        }
        let ascending = |side: &Side, name: &String| {
            let mut values = side.get(name)?.values.clone();
            values.sort_by(f64::total_cmp);
            (!values.is_empty()).then_some(values)
        };
        let (mut tasks, mut lost) = (Vec::new(), Vec::new());
        for name in &all {
            match (ascending(baseline, name), ascending(candidate, name)) {
                (Some(baseline), Some(candidate)) => {
                    tasks.push(PairedTask { name: (*name).clone(), baseline, candidate });
                }
                _ => lost.push((*name).clone()),
            }
        }
        // A NaN limit allows nothing.
        let tolerated = lost.len() as f64 <= rules.max_lost_share * all.len() as f64;
        if let Some(first) = lost.first().filter(|_| !tolerated || tasks.is_empty()) {
            missing_data.push(MissingData::LostTasks {
                tasks: lost.len(),
                of: all.len(),
                first: first.clone(),
            });
        }
        let copies = lost.is_empty().then(|| copied(baseline, candidate)).flatten();
        Ok(Self { tasks, kind, copies, missing_data })
    }

    /// Tasks with values of both sides, by name.
    #[must_use]
    pub fn tasks(&self) -> &[PairedTask] {
        &self.tasks
    }

    /// Type of the values.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether all values are in [0, 1]: for shares, and for numbers that are all 0 or 1.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        let values = || self.tasks.iter().flat_map(|task| task.baseline.iter().chain(&task.candidate));
        self.kind != Kind::Number || values().all(|value| *value == 0.0 || *value == 1.0)
    }

    /// Reasons against judging these outcomes; empty if they are complete.
    #[must_use]
    pub fn missing_data(&self) -> &[MissingData] {
        &self.missing_data
    }

    /// Harm of the candidate's mean, by task.
    #[must_use]
    pub fn harms(&self, direction: Direction) -> Vec<f64> {
        let sign = if direction == Direction::Higher { 1.0 } else { -1.0 };
        self.tasks.iter().map(|task| sign * (mean(&task.baseline) - mean(&task.candidate))).collect()
    }

    /// Whether each task has a single value, over all attempts of both sides.
    #[must_use]
    pub fn is_identical(&self) -> bool {
        self.is_steady() && self.tasks.iter().all(|task| task.baseline[0] == task.candidate[0])
    }

    /// Whether each task has a single value on each side, over all attempts.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let same = |values: &[f64]| values.iter().all(|value| *value == values[0]);
        !self.tasks.is_empty() && self.tasks.iter().all(|task| same(&task.baseline) && same(&task.candidate))
    }

    /// If every attempt of the candidate equals the attempt of the baseline with the same number, in every task: the number of tasks whose
    /// attempts differ from each other. `None` if an attempt differs from its counterpart, or has no value.
    #[must_use]
    pub fn copies(&self) -> Option<usize> {
        self.copies
    }

    /// Values of the side that has fewer: one for each attempt, or for each task of a metric that is about all attempts at a task.
    #[must_use]
    pub fn fewer_attempts(&self) -> u64 {
        let count = |of: fn(&PairedTask) -> usize| self.tasks.iter().map(|task| of(task) as u64).sum::<u64>();
        count(|task| task.baseline.len()).min(count(|task| task.candidate.len()))
    }

    /// Means over tasks of both sides; each task counts the same.
    #[must_use]
    pub fn means(&self) -> (f64, f64) {
        let over = |of: fn(&PairedTask) -> f64| mean(&self.tasks.iter().map(of).collect::<Vec<_>>());
        (over(|task| mean(&task.baseline)), over(|task| mean(&task.candidate)))
    }
}

fn are(attempts: u32, side: SideName) -> String {
    let verb = if attempts == 1 { "is" } else { "are" };
    format!("{} of the {side} {verb}", counted(attempts as usize, "attempt"))
}

fn all_of(attempts: u32) -> String {
    if attempts == 1 { "the only attempt".to_owned() } else { format!("all {attempts} attempts") }
}

/// The mean; NaN for an empty slice.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn check_values(side: SideName, tasks: &Side, kind: Kind) -> Result<(), PairingError> {
    if tasks.is_empty() {
        return Err(PairingError::NoTasks { side });
    }
    let (fits, expected): (fn(f64) -> bool, _) = match kind {
        Kind::PassFail => (|value| value == 0.0 || value == 1.0, "pass (1) or fail (0)"),
        Kind::Share => (|value| (0.0..=1.0).contains(&value), "share in [0, 1]"),
        Kind::Number => (f64::is_finite, "finite number"),
    };
    for (task, attempts) in tasks {
        if let Some(&value) = attempts.values.iter().find(|value| !fits(**value)) {
            return Err(PairingError::NoValue { side, task: task.clone(), value, expected });
        }
    }
    Ok(())
}

fn missing_data_of(side: SideName, tasks: &Side, allowed: f64) -> Vec<MissingData> {
    let sum = |of: fn(&Attempts) -> u32| tasks.values().map(of).fold(0u32, u32::saturating_add);
    let (graded, faults, missing) =
        (sum(|task| task.graded), sum(|task| task.faults), sum(|task| task.missing));
    let attempts = graded.saturating_add(faults);
    let share = f64::from(faults) / f64::from(attempts);
    let mut found = Vec::new();
    if attempts == 0 {
        found.push(MissingData::NothingTried { side });
    } else if graded == 0 {
        found.push(MissingData::AllFaults { side, faults });
    } else if faults > 0 && (share > allowed || allowed.is_nan()) {
        found.push(MissingData::ManyFaults { side, faults, attempts, allowed });
    }
    if graded > 0 && tasks.values().all(|task| task.values.is_empty()) {
        found.push(MissingData::NoNumbers { side, graded });
    }
    if missing > 0 {
        found.push(MissingData::Truncated { side, missing });
    }
    found
}

/// The result of [`Paired::copies`].
fn copied(baseline: &Side, candidate: &Side) -> Option<usize> {
    let mut vary = 0;
    let is_whole = |attempts: &Attempts| attempts.faults == 0 && attempts.missing == 0;
    for (name, after) in candidate {
        let before = baseline.get(name).filter(|before| is_whole(before) && is_whole(after))?;
        if !before.values.starts_with(&after.values) {
            return None;
        }
        vary += usize::from(after.values.windows(2).any(|pair| pair[0] != pair[1]));
    }
    Some(vary)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn side(tasks: &[(&str, &[f64], u32, u32)]) -> Side {
        tasks
            .iter()
            .map(|&(name, values, faults, missing)| {
                (name.to_owned(), Attempts { faults, missing, ..Attempts::of(values.to_vec()) })
            })
            .collect()
    }

    const FULL: &[(&str, &[f64], u32, u32)] = &[("a", &[1.0, 0.0], 0, 0), ("b", &[1.0, 1.0], 0, 0)];

    #[test]
    fn values_outside_the_metric_are_refused() {
        let check = |baseline: &Side, candidate: &Side, kind, expected: &str| {
            let told =
                Paired::new(baseline, candidate, kind, Completeness::default()).unwrap_err().to_string();
            assert!(told.contains(expected), "{told:?} says nothing of {expected:?}");
        };
        let full = side(FULL);
        check(&Side::new(), &full, Kind::PassFail, "the baseline has no tasks");
        check(&full, &Side::new(), Kind::PassFail, "the candidate has no tasks");
        check(
            &full,
            &side(&[("c", &[1.0], 0, 0)]),
            Kind::PassFail,
            "candidate (1 tasks) have no task in common",
        );
        check(
            &full,
            &side(&[("a", &[0.5], 0, 0)]),
            Kind::PassFail,
            "the value 0.5 of the candidate at task \"a\"",
        );
        check(&full, &side(&[("a", &[f64::NAN], 0, 0)]), Kind::Number, "not a finite number");
        check(&side(&[("a", &[f64::INFINITY], 0, 0)]), &full, Kind::Number, "the value inf of the baseline");
    }

    #[test]
    fn incomplete_outcomes_are_reported() {
        let check = |candidate: &[(&str, &[f64], u32, u32)], expected: &[&str]| {
            let paired =
                Paired::new(&side(FULL), &side(candidate), Kind::PassFail, Completeness::default()).unwrap();
            let told: Vec<String> = paired.missing_data().iter().map(ToString::to_string).collect();
            assert_eq!(told.len(), expected.len(), "{told:?}");
            for (told, expected) in told.iter().zip(expected) {
                assert!(told.contains(expected), "{told:?} says nothing of {expected:?}");
            }
        };
        check(FULL, &[]);
        check(&[("a", &[1.0], 0, 0)], &["1 of 2 tasks lack a value on one side, the first is \"b\""]);
        check(
            &[("a", &[], 0, 0), ("b", &[], 0, 0)],
            &["no attempt of the candidate finished", "2 of 2 tasks"],
        );
        check(&[("a", &[], 3, 0), ("b", &[], 1, 0)], &["all 4 attempts of the candidate", "2 of 2 tasks"]);
        check(
            &[("a", &[1.0; 4], 1, 0), ("b", &[1.0; 4], 0, 0)],
            &["1 of 9 attempts of the candidate ended in faults (limit: 10 %)"],
        );
        check(&[("a", &[1.0; 9], 1, 0), ("b", &[1.0], 0, 0)], &[]);
        check(&[("a", &[1.0], 0, 2), ("b", &[1.0], 0, 0)], &["2 attempts of the candidate are unfinished"]);
        check(&[("a", &[1.0], 0, 1), ("b", &[1.0], 0, 0)], &["1 attempt of the candidate is unfinished"]);
    }

    #[test]
    fn attempts_without_a_value_are_not_missing() {
        let without = |graded, faults| Attempts { graded, faults, ..Attempts::default() };
        let candidate = Side::from([("a".to_owned(), without(2, 1)), ("b".to_owned(), without(18, 0))]);
        let paired = Paired::new(&side(FULL), &candidate, Kind::Number, Completeness::default()).unwrap();
        let told: Vec<String> = paired.missing_data().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "none of 20 graded attempts of the candidate has a value of this metric",
                "2 of 2 tasks lack a value on one side, the first is \"a\""
            ]
        );
    }

    #[test]
    fn a_nan_limit_allows_nothing() {
        let rules = Completeness { max_fault_share: f64::NAN, max_lost_share: f64::NAN };
        let candidate = side(&[("a", &[1.0; 99], 1, 0)]);
        let paired = Paired::new(&side(FULL), &candidate, Kind::PassFail, rules).unwrap();
        assert_eq!(paired.missing_data().len(), 2, "{:?}", paired.missing_data());
    }

    #[test]
    fn harm_is_positive_if_the_candidate_is_worse() {
        let paired = Paired::new(
            &side(FULL),
            &side(&[("a", &[0.0], 0, 0), ("b", &[1.0, 0.0, 1.0, 0.0], 0, 0)]),
            Kind::PassFail,
            Completeness::default(),
        )
        .unwrap();
        assert_eq!(paired.harms(Direction::Higher), [0.5, 0.5]);
        assert_eq!(paired.harms(Direction::Lower), [-0.5, -0.5]);
        assert_eq!(paired.means(), (0.75, 0.25));
        assert_eq!(paired.fewer_attempts(), 4);
        assert!(!paired.is_identical());
    }

    #[test]
    fn copies_are_equal_attempt_by_attempt() {
        let side = |tasks: &[&[f64]]| -> Side {
            let of = |values: &&[f64]| Attempts::of(values.to_vec());
            tasks.iter().enumerate().map(|(at, values)| (format!("{at}"), of(values))).collect()
        };
        let baseline = side(&[&[1.0, 2.0, 1.0], &[3.0, 3.0, 3.0]]);
        let check = |candidate: &[&[f64]], expected| {
            let paired = Paired::new(&baseline, &side(candidate), Kind::Number, Completeness::default());
            assert_eq!(paired.unwrap().copies(), expected, "{candidate:?}");
        };
        check(&[&[1.0, 2.0, 1.0], &[3.0, 3.0, 3.0]], Some(1));
        check(&[&[1.0, 2.0], &[3.0]], Some(1));
        check(&[&[1.0], &[3.0]], Some(0));
        check(&[&[1.0, 1.0, 2.0], &[3.0, 3.0, 3.0]], None);
        check(&[&[1.0, 2.0, 1.0, 1.0], &[3.0]], None);
        check(&[&[1.0, 2.0, 1.0]], None);
        check(&[&[1.0, 2.0, 1.0], &[]], None);
        let mut faulty = side(&[&[1.0, 2.0], &[3.0]]);
        faulty.get_mut("1").unwrap().faults = 1;
        let paired = Paired::new(
            &baseline,
            &faulty,
            Kind::Number,
            Completeness { max_fault_share: 1.0, ..Completeness::default() },
        );
        assert_eq!(paired.unwrap().copies(), None);
    }

    proptest! {
        /// I4.
        #[test]
        fn order_of_attempts_does_not_matter(values in prop::collection::vec(0u8..2, 1..8)) {
            let of = |values: &[u8]| {
                let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
                let attempts = Attempts::of(values);
                Side::from([("a".to_owned(), attempts)])
            };
            let backwards: Vec<u8> = values.iter().rev().copied().collect();
            let other = of(&[1, 0]);
            let pair = |side| Paired::new(&side, &other, Kind::PassFail, Completeness::default()).unwrap();
            let (ahead, back) = (pair(of(&values)), pair(of(&backwards)));
            prop_assert_eq!((ahead.tasks(), ahead.missing_data()), (back.tasks(), back.missing_data()));
        }
    }
}
