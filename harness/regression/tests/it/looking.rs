//! Interim analyses of growing runs and of their records.

use clawrl_config::CiPlan;
use clawrl_record::RunEnd;
use clawrl_regression::{Baseline, Comparison, Outcome, assess};

use crate::fixture::{End, Shape, TestStore, gate, usual};

fn with_looks(place: &TestStore) -> Comparison {
    place.comparison(CiPlan { interim_analyses: 4, ..gate() })
}

fn sated(until: u32, end: impl Fn(u32, u32) -> End) -> impl Fn(u32, u32) -> End {
    move |task, repeat| if repeat < until { end(task, repeat) } else { End::Missing }
}

#[test]
fn harm_stops_a_run_and_reassesses_equally() {
    let place = TestStore::new();
    let comparison = with_looks(&place);
    let schedule = comparison.schedule(4).unwrap().unwrap();
    assert_eq!(schedule.repeats(), [1, 2, 3, 4]);
    let worse = |_, _| End::Fails;
    let shape = Shape { end: Some(RunEnd::DemandClosed), ..Shape::default() };
    let writer = place.filled("after", shape, sated(1, worse));
    let live = comparison.look(&place.recorded("after"), &schedule, 0).unwrap();
    assert!(live.ends, "{live:?}");
    writer.finish(RunEnd::DemandClosed).unwrap();
    let found = assess(&comparison, &place.recorded("after")).unwrap();
    assert_eq!(found.outcome, Outcome::Fail, "{:?}", found.reasons);
    assert_eq!(found.interim_analyses, [live.taken]);
    assert!(found.tasks.iter().all(|task| task.candidate.attempts == 1 && task.candidate.missing == 0));
}

#[test]
fn run_stops_early_if_every_metric_agrees() {
    let place = TestStore::new();
    let mut gate = CiPlan { interim_analyses: 4, ..gate() };
    gate.metrics[0].min_effect = 0.6;
    let comparison = place.comparison(gate);
    let shape = Shape { end: Some(RunEnd::DemandClosed), ..Shape::default() };
    let run = place.run("after", shape, sated(2, |_, _| End::Passes));
    let schedule = comparison.schedule(4).unwrap().unwrap();
    assert!(comparison.look(&run, &schedule, 1).unwrap().ends);
    let found = assess(&comparison, &run).unwrap();
    assert_eq!(found.outcome, Outcome::Pass, "{:?}", found.reasons);
    assert_eq!(found.interim_analyses.len(), 2);
}

#[test]
fn a_batch_that_lacks_an_attempt_ends_nothing() {
    let place = TestStore::new();
    let comparison = with_looks(&place);
    let schedule = comparison.schedule(4).unwrap().unwrap();
    let writer = place.filled(
        "after",
        Shape::default(),
        sated(1, |task, _| if task == 7 { End::Missing } else { End::Fails }),
    );
    let look = comparison.look(&place.recorded("after"), &schedule, 0).unwrap();
    assert!(!look.ends && look.taken.z.is_none(), "{look:?}");
    writer.close().unwrap();
}

/// A run without interim analyses is judged completely, at the alpha that they would have left.
#[test]
fn skipped_analysis_stops_nothing() {
    let place = TestStore::new();
    let comparison = with_looks(&place);
    let found = assess(&comparison, &place.run("after", Shape::default(), |_, _| End::Fails)).unwrap();
    assert_eq!(found.outcome, Outcome::Fail, "{:?}", found.reasons);
    assert_eq!(found.interim_analyses[0].said, "would have stopped the run, which continued");
    assert_eq!((found.interim_analyses.len(), found.tasks[0].candidate.attempts), (4, 4));
    assert!(found.metrics[0].verdict.gate.alpha < 0.05);
}

/// The final analysis decides like the final verdict, at the rest of alpha.
#[test]
fn looks_cost_the_end_a_part_of_alpha() {
    let place = TestStore::new();
    let comparison = with_looks(&place);
    let run = place.run("after", Shape::default(), usual);
    let found = assess(&comparison, &run).unwrap();
    assert_eq!(found.interim_analyses.len(), 4);
    let alpha = found.metrics[0].verdict.gate.alpha;
    assert!(alpha < 0.05 && alpha > 0.03, "{alpha}");
    assert_eq!(assess(&place_of_one_look(&comparison), &run).unwrap().metrics[0].verdict.gate.alpha, 0.04);
}

#[test]
fn a_task_that_broke_ends_a_run() {
    let place = TestStore::new();
    let shape = Shape { repeats: 16, ..Shape::default() };
    let before = place.run("before", shape, |_, _| End::Passes);
    let baseline = Baseline::of("g", 1.0, &before, "clawrl 0.1.0", 5).unwrap();
    let comparison = Comparison::new(CiPlan { interim_analyses: 2, ..gate() }, baseline);
    let schedule = comparison.schedule(16).unwrap().unwrap();
    assert_eq!(schedule.repeats(), [8, 16]);
    let shape = Shape { end: Some(RunEnd::DemandClosed), ..shape };
    let run = place.run("after", shape, sated(8, |task, _| if task == 3 { End::Fails } else { End::Passes }));
    let look = comparison.look(&run, &schedule, 0).unwrap();
    assert_eq!((look.ends, look.taken.said.as_str()), (true, "stops the run: a task broke"));
    let found = assess(&comparison, &run).unwrap();
    assert_eq!(
        (found.outcome, &found.interim_analyses),
        (Outcome::Fail, &vec![look.taken]),
        "{:?}",
        found.reasons
    );
    assert!(
        found.reasons[0].contains("broke: suite-0/task-3 (16 of 16 passed before, 0 of 8 now)"),
        "{:?}",
        found.reasons
    );
    // A tenth of a fifth of alpha.
    assert!((found.each_task.unwrap().verdict.alpha - 0.001).abs() < 1e-12);
}

#[test]
fn suspicious_task_prevents_an_early_pass() {
    let place = TestStore::new();
    let shape = Shape { repeats: 8, ..Shape::default() };
    // All tasks but one are mended, so that the mean is much better.
    let before = place.run("before", shape, |task, _| if task == 3 { End::Passes } else { End::Fails });
    let baseline = Baseline::of("g", 1.0, &before, "clawrl 0.1.0", 5).unwrap();
    let comparison = Comparison::new(CiPlan { interim_analyses: 4, ..gate() }, baseline);
    let schedule = comparison.schedule(8).unwrap().unwrap();
    assert_eq!(schedule.repeats(), [2, 4, 6, 8]);
    let shape = Shape { end: Some(RunEnd::DemandClosed), ..shape };
    let look = |name: &str, broken| {
        let end = move |task: u32, _| if task == broken { End::Fails } else { End::Passes };
        comparison.look(&place.run(name, shape, sated(2, end)), &schedule, 0).unwrap()
    };
    let suspicious = look("one", 3);
    assert_eq!(suspicious.taken.said, "continues: the candidate seems no worse, but a task may have broken");
    assert!(!suspicious.ends && look("none", 99).ends);
}

fn place_of_one_look(comparison: &Comparison) -> Comparison {
    Comparison::new(
        CiPlan { interim_analyses: 1, ..comparison.gate().clone() },
        comparison.baseline().clone(),
    )
}
