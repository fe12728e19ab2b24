//! Assesses a run against a baseline.
//!
//! I1. An assessment is a function of gate, baseline and record, so judging a run again gives the same result. I2. The outcome is a pass
//! only if every metric passed, no judged task broke, every `must_pass` task passed each time, the run was not cut short, and no other
//! reason is left. I3. A run that an interim analysis stopped counts as complete; a run that anything else stopped is inconclusive, and
//! the assessment names the cause.
//!
//! Errors: [`AssessError`]. Reads the record; nothing to cancel.

use std::collections::{BTreeMap, BTreeSet};

use clawrl_config::{CiBudget, CiMetric, MetricKind};
use clawrl_core::PolicySpec;
use clawrl_gates::{Change, TaskReport, tasks};
use clawrl_record::{AttemptSummary, Ending, JournalState, Run, RunEnd};

use crate::assessment::{
    ASSESSMENT_FORMAT, Assessment, BudgetUse, EachTaskVerdict, InterimResult, MustPass, Outcome, TaskChange,
};
use crate::comparison::{AnalysisPoint, AssessError, Comparison, Verdicts};
use crate::conditions::Conditions;
use crate::interim::InterimSchedule;
use crate::outcomes::{Outcomes, TaskOutcomes, outcomes, slots_of_a_task, usd};
use crate::remedy::{RepeatsOfSides, remedy};
use crate::render::{counted, each_task_outcome};

/// Fault code of a cassette without a matching reply.
const MISS: &str = "cassette-miss";
/// Prefix of fault codes of agent programs.
const BROKEN: &str = "agent-";
/// Confidence level of the flakiness shown per task; no verdict depends on it.
const TASK_LEVEL: f64 = 0.95;

/// Judges a run.
///
/// # Errors
/// [`AssessError`] if the run cannot be judged: a baseline of another plan, or a `must_pass` task that does not exist.
pub fn assess(comparison: &Comparison, run: &Run) -> Result<Assessment, AssessError> {
    let as_written = comparison.gate();
    let comparison = &comparison.of_run(run.plan());
    let (gate, baseline) = (comparison.gate(), comparison.baseline());
    if run.is_running() {
        return Err(AssessError::UnderWay { run: run.plan().run.clone() });
    }
    baseline.refuse_other(&Conditions::of(run.plan()))?;
    let must_pass = gate.must_pass(run.plan())?;
    let candidate = outcomes(run, u32::MAX);
    let tried = candidate.values().map(TaskOutcomes::tried).max().unwrap_or(0);
    let looked = interim_history(comparison, run, tried)?;
    let Verdicts { mut metrics, each_task } = comparison.judge(&candidate, looked.when())?;
    let sides =
        RepeatsOfSides { baseline: comparison.baseline_repeats(), planned: slots_of_a_task(run.plan()) };
    for metric in &mut metrics {
        if let Some(remedy) = remedy(&metric.verdict, as_written, sides) {
            metric.sentence = format!("{} {remedy}", metric.sentence);
        }
    }
    let must_pass: Vec<MustPass> = must_pass.into_iter().map(|task| must_pass_of(task, &candidate)).collect();
    let budget = budget_use(run, gate.budget, looked.ended);
    // The cause of a cut run comes first, because missing data of metrics mostly follows from it.
    let mut parts: Vec<(Outcome, String)> = Vec::new();
    parts.extend(cut_short(run, &budget, looked.ended, &candidate));
    parts.extend(missed(run));
    parts.extend(broken_agents(run, comparison));
    parts.extend(short_of_grades(comparison, &candidate)?);
    parts.extend(must_pass.iter().filter_map(complaint));
    parts.extend(each_task.iter().map(|tasks| (each_task_outcome(tasks), tasks.sentence.clone())));
    parts.extend(metrics.iter().map(|metric| (metric.outcome(), metric.sentence.clone())));
    parts.extend(
        metrics
            .iter()
            .zip(&gate.metrics)
            .filter_map(|(_, metric)| unreported(*metric, comparison, &candidate)),
    );
    let outcome = parts.iter().map(|(outcome, _)| *outcome).max().unwrap_or(Outcome::Inconclusive);
    parts.sort_by_key(|(outcome, _)| std::cmp::Reverse(*outcome));
    let reasons = parts.into_iter().filter(|(outcome, _)| *outcome > Outcome::Pass).map(|(_, why)| why);
    Ok(Assessment {
        format: ASSESSMENT_FORMAT,
        gate: gate.gate.clone(),
        run: run.plan().run.clone(),
        baseline: baseline.note(),
        outcome,
        reasons: reasons.collect(),
        tasks: changes(comparison, &candidate, each_task.as_ref())?,
        metrics,
        each_task,
        must_pass,
        lost: lost(&baseline.outcomes, &candidate),
        interim_analyses: looked.taken,
        budget,
    })
}

/// The interim analyses up to the end of the record.
struct InterimHistory {
    taken: Vec<InterimResult>,
    /// Whether the last of them stopped the run.
    ended: bool,
    schedule: Option<InterimSchedule>,
}

impl InterimHistory {
    /// The analysis for which the run is judged.
    fn when(&self) -> AnalysisPoint<'_> {
        match &self.schedule {
            Some(schedule) if self.ended => AnalysisPoint::Interim(schedule),
            schedule => AnalysisPoint::Final(schedule.as_ref()),
        }
    }
}

fn interim_history(comparison: &Comparison, run: &Run, tried: u32) -> Result<InterimHistory, AssessError> {
    let schedule = comparison.schedule(slots_of_a_task(run.plan()))?;
    let mut looked = InterimHistory { taken: Vec::new(), ended: false, schedule };
    let Some(schedule) = &looked.schedule else { return Ok(looked) };
    for (at, seen) in schedule.repeats().iter().enumerate().take_while(|(_, seen)| **seen <= tried) {
        let look = comparison.look(run, schedule, at)?;
        // An analysis that would have stopped a run that continued did not stop it.
        looked.ended = look.ends && *seen == tried;
        let mut taken = look.taken;
        if look.ends && !looked.ended {
            taken.said = "would have stopped the run, which continued".to_owned();
        }
        looked.taken.push(taken);
    }
    Ok(looked)
}

/// Requests without a recorded reply. The changed behaviour is untested, however few attempts met it, so these faults must not be
/// ignored.
fn missed(run: &Run) -> Option<(Outcome, String)> {
    let is_miss =
        |attempt: &&AttemptSummary| matches!(&attempt.ending, Ending::Faulted { code, .. } if code == MISS);
    let missed: Vec<&AttemptSummary> = run.attempts().filter(is_miss).collect();
    let first = missed.first()?.attempt.slot;
    let (attempts, run) = (counted(missed.len() as u64, "attempt"), &run.plan().run);
    Some((
        Outcome::Inconclusive,
        format!(
            "{attempts} made a request without a recorded reply, first in slot {first}: `clawrl show {run} --slot {first}` prints the \
             difference; record the cassette again if it is intended."
        ),
    ))
}

/// Failed agent programs. The program itself is under test, so its failures may be ignored only if the gate judges the fault rate.
fn broken_agents(run: &Run, comparison: &Comparison) -> Option<(Outcome, String)> {
    let judges_faults = comparison.gate().metrics.iter().any(|metric| metric.kind == MetricKind::FaultRate);
    if judges_faults || !matches!(run.plan().policy, PolicySpec::Agent(_)) {
        return None;
    }
    let is_broken = |attempt: &&AttemptSummary| {
        let is_agents = |code: &str| code.starts_with(BROKEN);
        attempt.closes_slot && matches!(&attempt.ending, Ending::Faulted { code, .. } if is_agents(code))
    };
    let broken: Vec<&AttemptSummary> = run.attempts().filter(is_broken).collect();
    let first = broken.first()?.attempt.slot;
    let (attempts, run) = (counted(broken.len() as u64, "attempt"), &run.plan().run);
    Some((
        Outcome::Inconclusive,
        format!(
            "The agent program failed in {attempts}, first in slot {first}: `clawrl show {run} --slot {first}` prints how. The metric \
             `fault_rate` makes the gate judge such failures."
        ),
    ))
}

/// Missing grades, for gates without a metric of graded attempts.
fn short_of_grades(
    comparison: &Comparison,
    candidate: &Outcomes,
) -> Result<Vec<(Outcome, String)>, AssessError> {
    if comparison.gate().metrics.iter().any(|metric| metric.kind != MetricKind::FaultRate) {
        return Ok(Vec::new());
    }
    let paired = comparison.passes(candidate)?;
    Ok(paired
        .missing_data()
        .iter()
        .map(|lack| (Outcome::Inconclusive, format!("inconclusive: {lack}.")))
        .collect())
}

/// Explains a metric that a policy does not report; its verdict only says that tasks lack values.
fn unreported(metric: CiMetric, comparison: &Comparison, candidate: &Outcomes) -> Option<(Outcome, String)> {
    let what = match metric.kind {
        MetricKind::Tokens => "token counts",
        MetricKind::CostUsd => "costs",
        _ => return None,
    };
    let reports = |outcomes: &Outcomes| {
        let mut episodes = outcomes.values().flat_map(|task| &task.episodes).peekable();
        episodes.peek().is_none()
            || episodes.any(|episode| match metric.kind {
                MetricKind::Tokens => episode.tokens.is_some(),
                _ => episode.cost_usd.is_some(),
            })
    };
    let sides = [("baseline", &comparison.baseline().outcomes), ("candidate", candidate)];
    let (side, _) = sides.into_iter().find(|(_, outcomes)| !reports(outcomes))?;
    Some((
        Outcome::Inconclusive,
        format!(
            "{name}: the policy of the {side} does not report {what}. Remove `{name}` from the gate, or judge a policy that reports them.",
            name = metric.kind.name()
        ),
    ))
}

fn must_pass_of(task: String, candidate: &Outcomes) -> MustPass {
    let counts = candidate.get(&task).map(TaskOutcomes::counts).unwrap_or_default();
    MustPass {
        task,
        passes: counts.passes,
        attempts: counts.attempts,
        faults: counts.faults,
        ok: counts.attempts > 0 && counts.passes == counts.attempts && counts.faults == 0,
    }
}

fn complaint(must: &MustPass) -> Option<(Outcome, String)> {
    let MustPass { task, passes, attempts, faults, ok } = must;
    match (ok, attempts) {
        (true, _) => None,
        (false, 0) => Some((
            Outcome::Inconclusive,
            format!("Task {task} must pass, but none of its attempts was graded ({faults} ended in faults)."),
        )),
        (false, _) if passes == attempts => Some((
            Outcome::Inconclusive,
            format!("Task {task} must pass every time, but {faults} of its attempts ended in faults."),
        )),
        (false, _) => Some((
            Outcome::Fail,
            format!("Task {task} must pass every time, but passed in {passes} of {attempts} attempts."),
        )),
    }
}

/// The reason for which a run is incomplete.
fn cut_short(
    run: &Run,
    budget: &BudgetUse,
    ended_by_interim: bool,
    candidate: &Outcomes,
) -> Option<(Outcome, String)> {
    let end = run.state().and_then(JournalState::finished).map(|finished| finished.end);
    let open = run.state().map_or(run.plan().slots.len(), |state| state.open_slots().len());
    let closed: u32 = candidate.values().map(TaskOutcomes::tried).sum();
    let closed = format!("{closed} of {} slots closed", run.plan().slots.len());
    let open = match open {
        1 => "1 attempt is unfinished".to_owned(),
        open => format!("{open} attempts are unfinished"),
    };
    let why = match end {
        Some(RunEnd::Completed) => return None,
        Some(RunEnd::DemandClosed) if ended_by_interim => return None,
        Some(RunEnd::DemandClosed) if budget.ended_the_run => {
            format!("the budget ended the run with {closed}: {}", spent(budget))
        }
        Some(RunEnd::DemandClosed) => {
            format!("the run was stopped with {closed}, but not by an interim analysis of this gate")
        }
        Some(RunEnd::Interrupted) => {
            format!("the run was interrupted, and {open}")
        }
        Some(RunEnd::TooManyFaults) => "the run was aborted after too many faults".to_owned(),
        Some(RunEnd::HarnessFault) => "a harness fault ended the run".to_owned(),
        None => format!("the run was cut short, and {open}"),
    };
    Some((Outcome::Inconclusive, format!("inconclusive: {why}.")))
}

fn spent(budget: &BudgetUse) -> String {
    let BudgetUse { attempts, most_attempts, minutes, most_minutes, cost_usd, most_cost_usd, .. } = budget;
    let cost = cost_usd.unwrap_or(0.0);
    let used = [
        most_attempts.filter(|most| attempts >= most).map(|most| format!("{attempts} of {most} attempts")),
        most_minutes.filter(|most| minutes >= most).map(|most| format!("{minutes:.1} of {most} minutes")),
        most_cost_usd.filter(|most| cost >= *most).map(|most| format!("{cost:.2} of {most} US dollars")),
    ];
    let used: Vec<String> = used.into_iter().flatten().collect();
    format!("{} used", used.join(" and "))
}

fn budget_use(run: &Run, budget: CiBudget, ended_by_interim: bool) -> BudgetUse {
    let slots = run.state().map(JournalState::slots).unwrap_or_default();
    let attempts = slots.iter().map(|slot| slot.next_number).fold(0, u32::saturating_add);
    let costs = run.attempts().flat_map(|attempt| [attempt.usage.as_ref(), attempt.judge_usage.as_deref()]);
    let costs: Vec<f64> = costs.flatten().filter_map(|usage| usage.cost_nano_usd).map(usd).collect();
    let cost_usd = (!costs.is_empty()).then(|| costs.iter().sum::<f64>());
    let minutes = run.state().map_or(0, JournalState::wall_ms) as f64 / 60_000.0;
    let used_up = budget.attempts.is_some_and(|most| attempts >= most)
        || budget.minutes.is_some_and(|most| minutes >= most)
        || budget.cost_usd.is_some_and(|most| cost_usd.unwrap_or(0.0) >= most);
    let demand_closed =
        run.state().and_then(JournalState::finished).is_some_and(|end| end.end == RunEnd::DemandClosed);
    BudgetUse {
        attempts,
        most_attempts: budget.attempts,
        minutes,
        most_minutes: budget.minutes,
        cost_usd,
        most_cost_usd: budget.cost_usd,
        ended_the_run: used_up && demand_closed && !ended_by_interim,
    }
}

fn lost(baseline: &Outcomes, candidate: &Outcomes) -> Vec<String> {
    let graded =
        |side: &Outcomes, task: &String| side.get(task).is_some_and(|task| !task.episodes.is_empty());
    let all: BTreeSet<&String> = baseline.keys().chain(candidate.keys()).collect();
    all.into_iter().filter(|task| !graded(baseline, task) || !graded(candidate, task)).cloned().collect()
}

fn changes(
    comparison: &Comparison,
    candidate: &Outcomes,
    each_task: Option<&EachTaskVerdict>,
) -> Result<Vec<TaskChange>, AssessError> {
    let broke: BTreeSet<&str> =
        each_task.iter().flat_map(|tasks| &tasks.verdict.broke).map(|broken| broken.task.as_str()).collect();
    let reports = tasks(&comparison.passes(candidate)?, TASK_LEVEL).unwrap_or_default();
    let reports: BTreeMap<&str, &TaskReport> =
        reports.iter().map(|report| (report.task.as_str(), report)).collect();
    let before = &comparison.baseline().outcomes;
    let nothing = TaskOutcomes::default();
    let names: BTreeSet<&String> = before.keys().chain(candidate.keys()).collect();
    let change = |task: &String| {
        let (baseline, after) =
            (before.get(task).unwrap_or(&nothing), candidate.get(task).unwrap_or(&nothing));
        let known = if candidate.contains_key(task) { after } else { baseline };
        let report = reports.get(task.as_str());
        TaskChange {
            task: task.clone(),
            suite: known.suite.clone(),
            family: known.family.clone(),
            baseline: baseline.counts(),
            candidate: after.counts(),
            change: match report {
                Some(_) if broke.contains(task.as_str()) => Change::Broke,
                Some(report) => report.change,
                None => Change::Kept,
            },
            flaky: report.is_some_and(|report| report.baseline.is_flaky() || report.candidate.is_flaky()),
            sample: after.episodes.iter().find(|episode| !episode.passed).map(|episode| episode.slot),
        }
    };
    Ok(names.into_iter().map(change).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_keep_must_pass_from_passing() {
        let check = |passes, attempts, faults, expected: Option<Outcome>| {
            let ok = attempts > 0 && passes == attempts && faults == 0;
            let must = MustPass { task: "t".to_owned(), passes, attempts, faults, ok };
            assert_eq!(complaint(&must).map(|(outcome, _)| outcome), expected, "{must:?}");
        };
        check(4, 4, 0, None);
        check(4, 4, 1, Some(Outcome::Inconclusive));
        check(0, 0, 4, Some(Outcome::Inconclusive));
        check(3, 4, 0, Some(Outcome::Fail));
        check(3, 4, 1, Some(Outcome::Fail));
    }
}
