//! Assessments of runs: passes, fails, and bad input.

use clawrl_config::{CiBudget, CiPlan, MetricKind};
use clawrl_gates::{Change, Decision};
use clawrl_record::RunEnd;
use clawrl_regression::{AssessError, Assessment, Baseline, Counts, Outcome, assess};
use proptest::prelude::*;

use crate::fixture::{End, Shape, TASKS, TestStore, gate, metric, slot, task, usual};
use crate::recorded;

/// The assessment of a candidate with these ends.
fn assessed(gate: CiPlan, shape: Shape, end: impl Fn(u32, u32) -> End) -> Assessment {
    let place = TestStore::new();
    let comparison = place.comparison(gate);
    assess(&comparison, &place.run("after", shape, end)).unwrap()
}

/// With this outcome, and a reason that says this.
#[track_caller]
fn check(found: &Assessment, outcome: Outcome, expected: &str) {
    assert_eq!(found.outcome, outcome, "{:?}", found.reasons);
    let told = found.reasons.join("\n");
    assert!(told.contains(expected), "{told:?} says nothing of {expected:?}");
    assert_eq!(found.reasons.is_empty(), outcome == Outcome::Pass);
}

#[test]
fn an_unchanged_agent_passes() {
    let found = assessed(gate(), Shape::default(), usual);
    check(&found, Outcome::Pass, "");
    assert_eq!((found.run.as_str(), found.baseline.run.as_str()), ("after", "before"));
    assert_eq!(found.tasks.len(), TASKS as usize);
    assert!(found.interim_analyses.is_empty() && found.lost.is_empty());
    assert_eq!((found.budget.attempts, found.budget.cost_usd), (32, None));
    let half = Counts { passes: 2, attempts: 4, faults: 0, missing: 0 };
    let odd = &found.tasks[1];
    assert_eq!((odd.baseline, odd.candidate, odd.change, odd.flaky), (half, half, Change::Kept, true));
    assert_eq!(odd.sample, Some(slot(1, 1)));
}

#[test]
fn worse_tasks_are_named() {
    // Every even task breaks but the first.
    let found = assessed(gate(), Shape::default(), |task, repeat| match task {
        0 => End::Passes,
        _ if task % 2 == 0 => End::Fails,
        _ if repeat == 0 => End::Passes,
        _ => End::Fails,
    });
    check(&found, Outcome::Fail, "pass_rate: fail.");
    let broke: Vec<&str> = found
        .tasks
        .iter()
        .filter(|task| task.change == Change::Broke)
        .map(|task| task.task.as_str())
        .collect();
    assert_eq!(broke, [task(2), task(4), task(6)]);
    assert_eq!(found.tasks[2].sample, Some(slot(2, 0)));
    assert_eq!(found.tasks[0].sample, None);
}

#[test]
fn bad_input_is_never_a_pass() {
    let inconclusive = |end, of: &dyn Fn(u32, u32) -> End, expected: &str| {
        let found = assessed(gate(), Shape { end, ..Shape::default() }, of);
        check(&found, Outcome::Inconclusive, expected);
    };
    let completed = Some(RunEnd::Completed);
    inconclusive(None, &|_, _| End::Missing, "the run was cut short, and 32 attempts are unfinished");
    inconclusive(None, &|_, _| End::Missing, "no attempt of the candidate finished");
    let last_is_missing =
        |task, repeat| if (task, repeat) == (7, 3) { End::Missing } else { usual(task, repeat) };
    inconclusive(None, &last_is_missing, "1 attempt of the candidate is unfinished");
    inconclusive(Some(RunEnd::Interrupted), &last_is_missing, "the run was interrupted");
    inconclusive(Some(RunEnd::TooManyFaults), &last_is_missing, "aborted after too many faults");
    inconclusive(Some(RunEnd::HarnessFault), &last_is_missing, "a harness fault ended the run");
    // All attempts exist, but the journal has no end.
    inconclusive(None, &usual, "the run was cut short, and 0 attempts are unfinished");
    inconclusive(completed, &|_, _| End::Faults, "all 32 attempts of the candidate ended in faults");
    let many_fault = |task, repeat| if repeat == 0 { End::Faults } else { usual(task, repeat) };
    inconclusive(completed, &many_fault, "8 of 32 attempts of the candidate ended in faults (limit: 10 %)");
    let second_lost = |task, repeat| if task == 1 { End::Faults } else { usual(task, repeat) };
    let rules = clawrl_config::CiCompleteness { max_fault_share: 0.5, max_lost_share: 0.0 };
    let found = assessed(CiPlan { completeness: rules, ..gate() }, Shape::default(), second_lost);
    check(
        &found,
        Outcome::Inconclusive,
        "1 of 8 tasks lack a value on one side, the first is \"suite-0/task-1\"",
    );
    assert_eq!(found.lost, [task(1)]);
}

#[test]
fn stopped_run_needs_a_known_reason() {
    let half = |task, repeat| if repeat < 2 { usual(task, repeat) } else { End::Missing };
    let sated = Shape { end: Some(RunEnd::DemandClosed), ..Shape::default() };
    let found = assessed(gate(), sated, half);
    check(
        &found,
        Outcome::Inconclusive,
        "the run was stopped with 16 of 32 slots closed, but not by an interim analysis of this gate",
    );
    // Slots that were not in demand are not missing.
    assert!(found.tasks.iter().all(|task| task.candidate.missing == 0));
    let budget = CiBudget { attempts: Some(16), ..CiBudget::default() };
    let found = assessed(CiPlan { budget, ..gate() }, sated, half);
    check(
        &found,
        Outcome::Inconclusive,
        "inconclusive: the budget ended the run with 16 of 32 slots closed: 16 of 16 attempts used",
    );
    assert!(found.budget.ended_the_run && found.reasons[0].starts_with("inconclusive: the budget ended"));
    // A task with fewer attempts than others misses the rest.
    let uneven = |task, repeat| {
        if repeat < 2 && (task, repeat) != (3, 1) { usual(task, repeat) } else { End::Missing }
    };
    let found = assessed(CiPlan { budget, ..gate() }, sated, uneven);
    assert_eq!(found.tasks[3].candidate.missing, 1);
    check(&found, Outcome::Inconclusive, "1 attempt of the candidate is unfinished");
}

#[test]
fn other_conditions_are_refused() {
    let place = TestStore::new();
    let comparison = place.comparison(gate());
    let check = |name: &str, shape, expected: &str| {
        let error = assess(&comparison, &place.run(name, shape, usual)).unwrap_err();
        assert!(matches!(error, AssessError::Baseline(_)), "{error}");
        assert_eq!(
            error.to_string(),
            format!("the baseline of `g` was recorded under other conditions: {expected}")
        );
    };
    check("seed", Shape { seed: 2, ..Shape::default() }, "the seed was 1 and is 2");
    check("fewer", Shape { tasks: 7, ..Shape::default() }, "1 task is gone: `suite-0/task-7`");
    check("more", Shape { tasks: 9, ..Shape::default() }, "1 task is new: `suite-0/task-8`");
    let writer = place.filled("live", Shape::default(), usual);
    let error = assess(&comparison, &place.recorded("live")).unwrap_err().to_string();
    assert_eq!(error, "run live is still under way");
    writer.close().unwrap();
}

#[test]
fn tasks_that_must_pass() {
    let must = |pattern: &str| CiPlan { must_pass: vec![pattern.to_owned()], ..gate() };
    check(&assessed(must("suite-0/task-4"), Shape::default(), usual), Outcome::Pass, "");
    let found = assessed(must("suite-0/task-1"), Shape::default(), usual);
    check(&found, Outcome::Fail, "Task suite-0/task-1 must pass every time, but passed in 2 of 4 attempts.");
    assert!(!found.must_pass[0].ok && found.must_pass[0].attempts == 4);
    let faults = |task, repeat| if task == 4 { End::Faults } else { usual(task, repeat) };
    let found = assessed(must("suite-0/task-4"), Shape::default(), faults);
    check(&found, Outcome::Inconclusive, "none of its attempts was graded (4 ended in faults)");
    let place = TestStore::new();
    let comparison = place.comparison(must("suite-0/gone"));
    let error = assess(&comparison, &place.run("after", Shape::default(), usual)).unwrap_err().to_string();
    assert_eq!(error, "no task of the gate `g` matches `must_pass: suite-0/gone`");
}

#[test]
fn faults_are_values_of_their_own_rate_alone() {
    let gate = CiPlan { metrics: vec![metric(MetricKind::FaultRate, 0.2)], ..gate() };
    check(&assessed(gate.clone(), Shape::default(), usual), Outcome::Pass, "");
    let found = assessed(
        gate,
        Shape::default(),
        |task, repeat| if repeat < 2 { End::Faults } else { usual(task, repeat) },
    );
    check(&found, Outcome::Fail, "fault_rate: fail. Over 8 tasks the candidate is 50 points worse");
}

#[test]
fn unreported_metric_is_explained() {
    let gate = CiPlan { metrics: vec![metric(MetricKind::Tokens, 100.0)], ..gate() };
    let found = assessed(gate, Shape::default(), usual);
    check(&found, Outcome::Inconclusive, "tokens: the policy of the baseline does not report token counts");
}

#[test]
fn a_deterministic_agent_is_compared_exactly() {
    let gate = CiPlan {
        deterministic: true,
        metrics: vec![metric(MetricKind::PassRate, 0.25), metric(MetricKind::Reward, 0.25)],
        ..gate()
    };
    let once = Shape { repeats: 1, ..Shape::default() };
    let place = TestStore::new();
    let before = place.run("before", once, usual);
    let baseline = Baseline::of("g", 1.0, &before, "clawrl 0.1.0", 5).unwrap();
    let comparison = clawrl_regression::Comparison::new(gate, baseline);
    let found = assess(&comparison, &place.run("after", once, usual)).unwrap();
    assert!(found.metrics.iter().all(|metric| metric.verdict.decision == Decision::Same), "{found:?}");
    check(&found, Outcome::Pass, "");
    // One attempt at one task of eight: the agent does the same each time, so it is certain.
    let broke =
        place.run("broke", once, |task, repeat| if task == 0 { End::Fails } else { usual(task, repeat) });
    let found = assess(&comparison, &broke).unwrap();
    check(
        &found,
        Outcome::Fail,
        "each_task: fail. 1 of 8 tasks broke: suite-0/task-0 (1 of 1 passed before, 0 of 1 now). The agent is deterministic",
    );
    check(
        &found,
        Outcome::Fail,
        "pass_rate: fail. Over 8 tasks the candidate is 12.5 points worse than the baseline",
    );
    // An improvement does not count against the run, and needs no repeats, which the file could not have.
    let mended = place.run("mended", once, |_, _| End::Passes);
    check(&assess(&comparison, &mended).unwrap(), Outcome::Pass, "");
}

/// Two of six tasks from 8 of 8 to 0 of 8: no proof about other tasks, and certain of these.
#[test]
fn tasks_that_broke_fail_a_gate_by_name() {
    let place = TestStore::new();
    let shape = Shape { repeats: 8, tasks: 6, ..Shape::default() };
    let before = place.run("before", shape, |_, _| End::Passes);
    let baseline = Baseline::of("g", 1.0, &before, "clawrl 0.1.0", 5).unwrap();
    let assessed = |gate: CiPlan, name: &str| {
        let comparison = clawrl_regression::Comparison::new(gate, baseline.clone());
        assess(&comparison, &place.recorded(name)).unwrap()
    };
    place.run("after", shape, |task, _| if task == 1 || task == 4 { End::Fails } else { End::Passes });
    let found = assessed(gate(), "after");
    assert_eq!(
        found.reasons[0],
        "each_task: fail. 2 of 6 tasks broke: suite-0/task-1 (8 of 8 passed before, 0 of 8 now); suite-0/task-4 (8 of 8 passed \
         before, 0 of 8 now). At 99 % confidence, none of this is due to chance."
    );
    check(&found, Outcome::Fail, "pass_rate: inconclusive. Over 6 tasks the candidate is 33.3 points worse");
    let broke: Vec<&str> = found
        .tasks
        .iter()
        .filter(|task| task.change == Change::Broke)
        .map(|task| task.task.as_str())
        .collect();
    assert_eq!(broke, [task(1), task(4)]);
    let without = assessed(CiPlan { each_task: Some(false), ..gate() }, "after");
    check(&without, Outcome::Inconclusive, "More repeats would not decide; about ");
    check(&without, Outcome::Inconclusive, " tasks like these would. Add tasks to the gate.");
    assert_eq!(without.each_task, None);
    // A task that passes in two of eight broke as well, by the same numbers.
    place.run("fell", shape, |task, repeat| if task == 1 && repeat > 1 { End::Fails } else { End::Passes });
    let found = assessed(gate(), "fell");
    check(&found, Outcome::Fail, "1 of 6 tasks broke: suite-0/task-1 (8 of 8 passed before, 2 of 8 now)");
    assert_eq!((found.tasks[1].change, found.tasks[1].flaky), (Change::Broke, true));
    place.run("same", shape, |_, _| End::Passes);
    let found = assessed(gate(), "same");
    check(&found, Outcome::Pass, "");
    assert_eq!(found.each_task.unwrap().sentence, "each_task: pass. None of 6 tasks broke significantly.");
}

/// The documented metrics, for an unchanged agent with one more turn in one attempt.
#[test]
fn unchanged_agent_passes_or_gets_a_remedy() {
    let metrics = vec![
        clawrl_config::CiMetric { tolerance: 0.02, ..metric(MetricKind::PassRate, 0.15) },
        metric(MetricKind::Turns, 2.0),
    ];
    let documented = CiPlan { metrics, repeats: clawrl_config::Repeats::Exactly(8), ..gate() };
    let place = recorded::TestStore::new();
    let names: Vec<String> = (0..26).map(|at| format!("task-{at:02}")).collect();
    // One attempt of eight at the third task takes a turn more.
    let run = |name: &str, tasks: usize, more: bool| {
        let did = |task, repeat| {
            let turns = if more && (task, repeat) == (2, 5) { 4 } else { 3 };
            recorded::graded(true, &vec![("ls", "nothing"); turns])
        };
        let of = |task: usize| {
            let attempts = (0..8).map(|repeat| did(task, repeat)).collect();
            ("suite", names[task].as_str(), "Look.", attempts)
        };
        place.record(name, &(0..tasks).map(of).collect::<Vec<_>>(), Some(RunEnd::Completed))
    };
    let judged = |tasks: usize, more: bool| {
        let before = run(&format!("before-{tasks}-{more}"), tasks, false);
        let baseline = Baseline::of("g", 1.0, &before, "clawrl 0.1.0", 5).unwrap();
        let comparison = clawrl_regression::Comparison::new(documented.clone(), baseline);
        assess(&comparison, &run(&format!("after-{tasks}-{more}"), tasks, more)).unwrap()
    };
    check(&judged(26, false), Outcome::Pass, "");
    let found = judged(26, true);
    check(&found, Outcome::Pass, "");
    assert_eq!(found.metrics[1].verdict.findings.differ, 1);
    let few = judged(4, true);
    check(&few, Outcome::Inconclusive, "turns: inconclusive. Over 4 tasks the candidate is 0.0312 worse");
    check(
        &few,
        Outcome::Inconclusive,
        "More repeats would not decide; about 6 tasks like these would. Add tasks to the gate.",
    );
}

#[test]
fn an_assessment_is_read_back() {
    let metrics = vec![metric(MetricKind::PassRate, 0.25), metric(MetricKind::Tokens, 1.0)];
    let found = assessed(CiPlan { metrics, interim_analyses: 2, ..gate() }, Shape::default(), usual);
    assert!(
        found.metrics[1].verdict.findings.baseline.is_nan(),
        "the test is about numbers that JSON has not"
    );
    let text = serde_json::to_string(&found).unwrap();
    let back: Assessment = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
    assert_eq!(
        (&back.tasks, &back.interim_analyses, &back.reasons),
        (&found.tasks, &found.interim_analyses, &found.reasons)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// A run with missing or broken parts does not pass.
    #[test]
    fn nothing_that_lacks_something_passes(
        lacking in prop::collection::btree_set((0..TASKS, 0u32..4), 1..20),
        broken: bool,
    ) {
        let end = if broken { RunEnd::Completed } else { RunEnd::Interrupted };
        let shape = Shape { end: Some(end), ..Shape::default() };
        let lacks = if broken { End::Faults } else { End::Missing };
        let rules = clawrl_config::CiCompleteness { max_fault_share: 0.0, max_lost_share: 0.0 };
        let gate = CiPlan { completeness: rules, ..gate() };
        let found = assessed(gate, shape, |task, repeat| {
            if lacking.contains(&(task, repeat)) { lacks } else { usual(task, repeat) }
        });
        prop_assert_eq!(found.outcome, Outcome::Inconclusive);
        prop_assert!(!found.reasons.is_empty());
    }
}
