//! Greedy success on held-out tasks over a training: the best evaluation, and drops from it.
//!
//! I1. The best evaluation is the one with the highest lower end of its 95 % interval, so that few graded tasks
//! do not count as a success; among equals, the latest. I2. An evaluation is a drop if its whole interval is
//! below that of the best evaluation before it. I3. An evaluation without graded tasks is neither.
//!
//! `held_out.json` in the folder of a training contains the evaluations in order. It is missing before the
//! first evaluation, and in trainings of older programs.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::summary::PassRate;
use crate::table::percent;
use crate::{RecordError, files};

/// Greedy success on held-out tasks after so many updates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Updates made before it.
    pub updates: u64,
    /// The version whose checkpoint was evaluated.
    pub version: u64,
    /// Whether an acceptance test evaluated the version before it acted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_gate: bool,
    /// Whether the training was later rolled back to an earlier version.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
    /// Passed and tried by family, in order of name. Faulted tasks are left out.
    pub families: Vec<(String, u32, u32)>,
    /// Tasks that a fault kept from being graded.
    pub faulted: u32,
}

impl HeldOut {
    /// Passed and tried.
    #[must_use]
    pub fn total(&self) -> (u64, u64) {
        let add = |sum: (u64, u64), family: &(String, u32, u32)| {
            (sum.0 + u64::from(family.1), sum.1 + u64::from(family.2))
        };
        self.families.iter().fold((0, 0), add)
    }

    /// The share that passed; 0 with the widest interval out of nothing.
    #[must_use]
    pub fn rate(&self) -> PassRate {
        self.graded().unwrap_or(PassRate { value: 0.0, low: 0.0, high: 1.0 })
    }

    /// The share that passed; `None` out of nothing.
    fn graded(&self) -> Option<PassRate> {
        let (passed, tried) = self.total();
        PassRate::of_single_tries(passed, tried)
    }
}

/// The best of several evaluations (I1); nothing where nothing was graded.
#[must_use]
pub fn best_of(evaluations: &[HeldOut]) -> Option<&HeldOut> {
    let graded = evaluations.iter().filter_map(|at| Some((at, at.graded()?.low)));
    graded.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(at, _)| at)
}

/// The evaluations that are a fall (I2), each with the best one before it, in order.
#[must_use]
pub fn falls_of(evaluations: &[HeldOut]) -> Vec<(&HeldOut, &HeldOut)> {
    let before = |at: usize| best_of(&evaluations[..at]);
    let falls = evaluations.iter().enumerate().filter_map(|(at, this)| {
        let best = before(at)?;
        (this.graded()?.high < best.rate().low).then_some((this, best))
    });
    falls.collect()
}

/// The fall that a training is in: its latest evaluation of those that were not given up, if that is one, with the best
/// before it.
#[must_use]
pub fn fall_of(evaluations: &[HeldOut]) -> Option<(&HeldOut, &HeldOut)> {
    let latest = evaluations.iter().rfind(|at| !at.given_up)?;
    falls_of(evaluations).into_iter().find(|(this, _)| *this == latest)
}

/// A fall and the best evaluation before it, in words.
#[must_use]
pub fn fall_text((this, best): (&HeldOut, &HeldOut)) -> String {
    format!(
        "held-out success dropped to {} after {} updates, from {} after {}",
        percent(this.rate().value),
        this.updates,
        percent(best.rate().value),
        best.updates
    )
}

/// One line per evaluation, with notes.
#[must_use]
pub fn render_held_out(evaluations: &[HeldOut]) -> String {
    let (best, falls) = (best_of(evaluations), falls_of(evaluations));
    let line = |at: &HeldOut| {
        let PassRate { value, low, high } = at.rate();
        let mut line = format!(
            "  after {:>5} updates  {:>5.1} % (95 % interval {:.1} to {:.1} %)",
            at.updates,
            100.0 * value,
            100.0 * low,
            100.0 * high
        );
        if best == Some(at) {
            line += &format!(", the best: version {}", at.version);
        }
        if falls.iter().any(|(this, _)| *this == at) {
            line += ", a fall";
        }
        if at.given_up {
            line += ", given up";
        }
        line + "\n"
    };
    evaluations.iter().map(line).collect()
}

/// Content of `held_out.json` in a training's folder; empty without that file.
pub(crate) fn read(dir: &Path) -> Result<Vec<HeldOut>, RecordError> {
    let path = dir.join(files::HELD_OUT);
    let Some(bytes) = files::read_optional(&path)? else { return Ok(Vec::new()) };
    serde_json::from_slice(&bytes)
        .map_err(|error| RecordError::Unreadable { path, reason: error.to_string() })
}

/// Writes it, the old content or the new.
///
/// # Errors
/// [`RecordError::Io`].
pub fn write_held_out(dir: &Path, evaluations: &[HeldOut]) -> Result<(), RecordError> {
    let path = dir.join(files::HELD_OUT);
    let text = serde_json::to_vec_pretty(evaluations)
        .map_err(|error| RecordError::Unreadable { path: path.clone(), reason: error.to_string() })?;
    files::write_atomic(&path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(updates: u64, passed: u32, tried: u32) -> HeldOut {
        let families = vec![("copy".to_owned(), passed, tried)];
        HeldOut { updates, version: updates, by_gate: false, given_up: false, families, faulted: 0 }
    }

    fn check(evaluations: &[(u32, u32)], best: Option<u64>, falls: &[(u64, u64)]) {
        let all: Vec<HeldOut> =
            (0..).zip(evaluations).map(|(updates, &(passed, tried))| at(updates, passed, tried)).collect();
        assert_eq!(best_of(&all).map(|at| at.updates), best, "{evaluations:?}");
        let found: Vec<(u64, u64)> =
            falls_of(&all).iter().map(|(this, best)| (this.updates, best.updates)).collect();
        assert_eq!(found, falls, "{evaluations:?}");
    }

    #[test]
    fn a_collapse_is_a_fall_from_the_best_before_it() {
        check(&[(14, 40), (30, 40), (28, 40), (1, 40), (0, 40)], Some(1), &[(3, 1), (4, 1)]);
        check(&[(14, 40), (1, 40), (30, 40)], Some(2), &[(1, 0)]);
    }

    #[test]
    fn a_small_difference_is_no_fall() {
        check(&[(30, 40), (27, 40)], Some(0), &[]);
        check(&[(2, 2), (1, 2)], Some(0), &[]);
    }

    #[test]
    fn of_equal_evaluations_the_latest_is_the_best() {
        check(&[(30, 40), (30, 40), (29, 40)], Some(1), &[]);
        check(&[(0, 40), (0, 40)], Some(1), &[]);
    }

    #[test]
    fn few_graded_tasks_are_not_taken_for_a_success() {
        check(&[(30, 40), (3, 3)], Some(0), &[]);
    }

    #[test]
    fn ungraded_evaluation_is_neither_best_nor_drop() {
        check(&[(40, 40), (0, 0)], Some(0), &[]);
        check(&[(0, 40), (0, 0)], Some(0), &[]);
        check(&[(0, 0)], None, &[]);
        check(&[], None, &[]);
    }

    #[test]
    fn rollback_before_a_drop_clears_it() {
        let mut all = [at(0, 14, 40), at(5, 30, 40), at(10, 1, 40)];
        let words = fall_of(&all).map(fall_text);
        let expected = "held-out success dropped to 2.5 % after 10 updates, from 75.0 % after 5";
        assert_eq!(words.as_deref(), Some(expected));
        all[2].given_up = true;
        assert_eq!(fall_of(&all), None);
        let told = render_held_out(&all);
        let ends = [", the best: version 5", ", a fall, given up"];
        assert!(told.lines().skip(1).zip(ends).all(|(line, end)| line.ends_with(end)), "{told}");
    }

    #[test]
    fn damaged_numbers_give_a_rate_without_memory() {
        let mut all = at(0, u32::MAX, 3);
        all.families.push(("more".to_owned(), 0, u32::MAX));
        assert_eq!(all.total(), (u64::from(u32::MAX), u64::from(u32::MAX) + 3));
        assert_eq!(at(0, 5, 3).rate().value, 1.0);
    }

    #[test]
    fn written_file_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), Vec::new());
        let all = [at(0, 3, 40), HeldOut { by_gate: true, faulted: 2, ..at(5, 4, 38) }];
        write_held_out(folder.path(), &all).unwrap();
        assert_eq!(read(folder.path()).unwrap(), all);
    }
}
