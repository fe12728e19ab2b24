//! Builds a comparison from two records.
//!
//! P1. Tasks are paired by name. P2. A task flipped where more than half of its graded attempts passed on one side, and less than half on the
//! other. P3. The shown attempts of a flipped task have the majority outcome of their side; if possible, they are of the same repeat.

use std::collections::BTreeMap;

use clawrl_config::MetricKind;
use clawrl_core::{AttemptId, SlotId};
use clawrl_gates::{Completeness, Kind, Paired, TaskReport};
use clawrl_record::Run;
use clawrl_report::Heading;

use super::difference::Difference;
use super::error::CompareError;
use super::metrics;
use super::model::{COMPARISON_FORMAT, Flip, Known, RunComparison, RunNote, TaskComparison, Turned};
use super::notes;
use super::story::Story;
use crate::outcomes::{Outcomes, TaskOutcomes, by_task, outcomes, side};

/// Confidence level of statements about single tasks.
const LEVEL: f64 = 0.95;

/// Compares two runs. Reads the trajectories of tasks that flipped.
///
/// # Errors
/// [`CompareError`]: no task in common, no graded attempts, or an unreadable record.
pub fn compare(baseline: (&Run, Heading), candidate: (&Run, Heading)) -> Result<RunComparison, CompareError> {
    let ((before_run, before_heading), (after_run, after_heading)) = (baseline, candidate);
    let (before, after) = (outcomes(before_run, u32::MAX), outcomes(after_run, u32::MAX));
    if !before.keys().any(|task| after.contains_key(task)) {
        return Err(CompareError::NoCommonTasks {
            baseline: before_run.plan().run.clone(),
            candidate: after_run.plan().run.clone(),
            baseline_suites: notes::suites(before_run),
            candidate_suites: notes::suites(after_run),
        });
    }
    for (run, side) in [(before_run, &before), (after_run, &after)] {
        if side.values().all(|task| task.episodes.is_empty()) {
            return Err(CompareError::NothingGraded {
                run: run.plan().run.clone(),
                why: notes::ungraded_summary(side),
            });
        }
    }
    let alone = |one: &Outcomes, other: &Outcomes| -> Vec<String> {
        one.keys().filter(|task| !other.contains_key(*task)).cloned().collect()
    };
    let common = |one: &Outcomes, other: &Outcomes| -> Outcomes {
        let tasks = one.iter().filter(|(task, _)| other.contains_key(*task));
        tasks.map(|(task, of)| (task.clone(), of.clone())).collect()
    };
    let (baseline_alone, candidate_alone) = (alone(&before, &after), alone(&after, &before));
    let (before, after) = (common(&before, &after), common(&after, &before));
    let tasks = tasks(&before, &after)?;
    let (before_repeats, after_repeats) = (repeats(before_run), repeats(after_run));
    let mut flips = Vec::new();
    for task in &tasks {
        let (Some(of_before), Some(of_after)) = (before.get(&task.task), after.get(&task.task)) else {
            continue;
        };
        let repeats = [&before_repeats, &after_repeats].map(|repeats| |slot| repeats.get(&slot).copied());
        if let Some((turned, pair)) = flipped(of_before, of_after, repeats) {
            flips.push(flip(task, turned, (before_run, pair[0]), (after_run, pair[1]))?);
        }
    }
    flips.sort_by_key(|flip| flip.turned);
    let note = |run: &Run, heading: Heading| RunNote {
        run: run.plan().run.clone(),
        policy: heading.policy,
        state: heading.state,
    };
    Ok(RunComparison {
        format: COMPARISON_FORMAT,
        notes: notes::notes(before_run, after_run, (&baseline_alone, &candidate_alone), (&before, &after)),
        baseline: note(before_run, before_heading),
        candidate: note(after_run, after_heading),
        suites: metrics::suites(&before, &after)?,
        tasks,
        flips,
        baseline_alone,
        candidate_alone,
    })
}

fn tasks(before: &Outcomes, after: &Outcomes) -> Result<Vec<TaskComparison>, CompareError> {
    let rules = Completeness { max_fault_share: 1.0, max_lost_share: 1.0 };
    let metric = MetricKind::PassRate;
    let paired = Paired::new(&side(before, metric), &side(after, metric), Kind::PassFail, rules)
        .map_err(|source| CompareError::Pairing { metric: metric.name(), source })?;
    let reports = clawrl_gates::tasks(&paired, LEVEL).unwrap_or_default();
    let reports: BTreeMap<&str, &TaskReport> =
        reports.iter().map(|report| (report.task.as_str(), report)).collect();
    let known = |report: &&TaskReport| Known {
        change: report.change,
        baseline_steadiness: report.baseline,
        candidate_steadiness: report.candidate,
        probably_worse: report.probably_worse,
    };
    let pairs = before.iter().filter_map(|(task, of)| Some((task, of, after.get(task)?)));
    Ok(pairs
        .map(|(task, before, after)| TaskComparison {
            task: task.clone(),
            suite: before.suite.clone(),
            family: before.family.clone(),
            baseline: before.counts(),
            candidate: after.counts(),
            known: reports.get(task.as_str()).map(known),
        })
        .collect())
}

/// Direction of a flip, and the slots of the attempts to show.
fn flipped(
    before: &TaskOutcomes,
    after: &TaskOutcomes,
    repeats: [impl Fn(SlotId) -> Option<usize>; 2],
) -> Option<(Turned, [SlotId; 2])> {
    let (passed_before, passed_after) = (mostly(before)?, mostly(after)?);
    let turned = match (passed_before, passed_after) {
        (true, false) => Turned::Worse,
        (false, true) => Turned::Better,
        _ => return None,
    };
    let of = |task: &TaskOutcomes, passed: bool| -> Vec<SlotId> {
        task.episodes.iter().filter(|episode| episode.passed == passed).map(|episode| episode.slot).collect()
    };
    let (before, after) = (of(before, passed_before), of(after, passed_after));
    let [repeat_before, repeat_after] = repeats;
    let same = before.iter().find_map(|slot| {
        let repeat = repeat_before(*slot)?;
        let other = after.iter().find(|other| repeat_after(**other) == Some(repeat))?;
        Some([*slot, *other])
    });
    let first = || Some([*before.first()?, *after.first()?]);
    Some((turned, same.or_else(first)?))
}

/// Number of the repeat of a slot, from 0, faults included.
fn repeats(run: &Run) -> BTreeMap<SlotId, usize> {
    by_task(run.plan()).into_values().flat_map(|slots| slots.into_iter().zip(0..)).collect()
}

/// Whether most graded attempts passed; `None` for a tie.
fn mostly(task: &TaskOutcomes) -> Option<bool> {
    let counts = task.counts();
    let (twice, all) = (2 * u64::from(counts.passes), u64::from(counts.attempts));
    (twice != all).then_some(twice > all)
}

fn flip(
    task: &TaskComparison,
    turned: Turned,
    before: (&Run, SlotId),
    after: (&Run, SlotId),
) -> Result<Flip, CompareError> {
    let (baseline, candidate) = (closing(before), closing(after));
    let stories = [story(before.0, baseline)?, story(after.0, candidate)?];
    Ok(Flip {
        task: task.task.clone(),
        turned,
        flaky: task.is_flaky(),
        baseline,
        candidate,
        difference: Difference::between(&stories[0], &stories[1]),
    })
}

/// The attempt that closed a slot; the first attempt if the record changed meanwhile, in which case reading it fails.
fn closing((run, slot): (&Run, SlotId)) -> AttemptId {
    let state = run.state().and_then(|state| state.slots().get(slot.0 as usize));
    let closing = state.and_then(|slot| slot.closing());
    closing.map_or(AttemptId { slot, number: 0 }, |closing| closing.attempt)
}

/// An attempt, read from the record.
pub(super) fn story(run: &Run, attempt: AttemptId) -> Result<Story, CompareError> {
    Ok(Story::of(&run.trajectory(attempt)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcomes::Episode;

    fn task(passed: &[bool]) -> TaskOutcomes {
        let episode = |(at, passed): (usize, &bool)| Episode {
            slot: SlotId(10 * at as u32),
            passed: *passed,
            reward: 0.0,
            turns: 1,
            tokens: None,
            cost_usd: None,
            latency_s: 1.0,
        };
        TaskOutcomes { episodes: passed.iter().enumerate().map(episode).collect(), ..TaskOutcomes::default() }
    }

    #[test]
    fn p2_p3_flips_and_shown_attempts() {
        let check = |before: &[bool], after: &[bool], expected: Option<(Turned, [u32; 2])>| {
            let tens = || |slot: SlotId| Some(slot.0 as usize / 10);
            let found = flipped(&task(before), &task(after), [tens(), tens()]);
            let found = found.map(|(turned, slots)| (turned, slots.map(|slot| slot.0)));
            assert_eq!(found, expected, "{before:?} {after:?}");
        };
        check(&[true], &[false], Some((Turned::Worse, [0, 0])));
        check(&[false], &[true], Some((Turned::Better, [0, 0])));
        check(&[true], &[true], None);
        check(&[true, false], &[false, false], None);
        check(&[true, true, false], &[true, false, false], Some((Turned::Worse, [10, 10])));
        check(
            &[true, false, true, true],
            &[true, false, true, false, false],
            Some((Turned::Worse, [30, 30])),
        );
        check(
            &[false, true, true],
            &[false, true, false, false, false, true, false],
            Some((Turned::Worse, [20, 20])),
        );
        check(
            &[true, true, false, false, true],
            &[true, true, false, false, true, false, false, false],
            Some((Turned::Worse, [0, 20])),
        );
        check(&[], &[true], None);
        // A fault in the first repeat of one side: the second of both are shown.
        let after =
            TaskOutcomes { episodes: task(&[true, false]).episodes.split_off(1), ..TaskOutcomes::default() };
        let found = flipped(&task(&[true, true]), &after, [|slot: SlotId| Some(slot.0 as usize / 10); 2]);
        assert_eq!(found, Some((Turned::Worse, [SlotId(10), SlotId(10)])));
    }
}
