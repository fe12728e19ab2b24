//! Summaries as people and scripts see them.

use clawrl_core::{
    AttemptRecord, Boundary, CancelReason, Fault, LeaseRecord, Limit, Outcome, PhaseTimes, RunPlan,
};
use clawrl_record::{
    AttemptSummary, Entry, Finished, FrameRef, JournalState, Line, Opened, RunEnd, RunSummary, render_summary,
};
use std::time::Duration;

use crate::fixture::{self, fault, finished, lease, record};

fn opened(plan: &RunPlan) -> JournalState {
    let slots = u32::try_from(plan.slots.len()).unwrap();
    let opened = Opened {
        format: 1,
        program: "clawrl 0.1.0".into(),
        plan_sha256: "00".repeat(32),
        slots,
        train_sha256: None,
    };
    JournalState::open(&Line { t_ms: 1_767_225_600_000, entry: Entry::Opened(opened) }).unwrap()
}

fn put(state: &mut JournalState, lease: LeaseRecord, outcome: Outcome, closes_slot: bool) {
    let t_ms = 1_767_225_600_000 + lease.epoch.0 * 1000;
    state.apply(&Line { t_ms, entry: Entry::Leased(lease) }).unwrap();
    let ms = |factor| Duration::from_millis(factor * lease.epoch.0);
    let times =
        PhaseTimes { lease: ms(1), setup: ms(2), policy: ms(300), step: ms(40), grade: ms(5), close: ms(6) };
    let record = AttemptRecord { times, ..record(lease, outcome, closes_slot, 4) };
    let summary = AttemptSummary::new(&record, FrameRef::default());
    state.apply(&Line { t_ms: t_ms + 500, entry: Entry::Resolved(summary) }).unwrap();
}

fn mixed() -> (RunPlan, JournalState) {
    let plan = fixture::plan("mixed", 9);
    let mut state = opened(&plan);
    put(&mut state, lease(0, 0, 1), finished(1.0), true);
    put(&mut state, lease(3, 0, 2), finished(1.0), true);
    put(&mut state, lease(6, 0, 3), finished(0.0), true);
    put(&mut state, lease(1, 0, 4), fault(), false);
    put(&mut state, lease(1, 1, 5), finished(0.5), true);
    put(&mut state, lease(4, 0, 6), fault(), true);
    put(&mut state, lease(7, 0, 7), Outcome::Cancelled(CancelReason::Interrupted), false);
    let limit = Fault::limit(Boundary::Grader, Limit::Grade, Duration::from_secs(60));
    put(&mut state, lease(2, 0, 8), Outcome::Faulted(limit), true);
    let finished = Finished { end: RunEnd::Interrupted, closed: 6, open: 3 };
    state.apply(&Line { t_ms: 1_767_225_612_300, entry: Entry::Finished(finished) }).unwrap();
    (plan, state)
}

#[test]
fn turns_that_did_nothing_are_counted_by_reason() {
    let plan = fixture::plan("lost", 1);
    let mut state = opened(&plan);
    let lease = lease(0, 0, 1);
    state.apply(&Line { t_ms: 1, entry: Entry::Leased(lease) }).unwrap();
    let mut record = record(lease, finished(0.0), true, 5);
    let turns = &mut record.trajectory.turns;
    turns[0].flags.malformed = true;
    for turn in &mut turns[1..4] {
        turn.observation.facts.insert("end".to_owned(), "incomplete".into());
    }
    turns[4].observation.facts.insert("end".to_owned(), "completed".into());
    let summary = AttemptSummary::new(&record, FrameRef::default());
    state.apply(&Line { t_ms: 2, entry: Entry::Resolved(summary) }).unwrap();
    let text = render_summary(&RunSummary::new(&plan, &state));
    let expected = "lost turns: 1 had no valid action, 3 left a command running (C-c interrupts it)";
    assert!(text.lines().any(|line| line == expected), "{text}");
}

#[test]
fn table() {
    let (plan, state) = mixed();
    insta::assert_snapshot!(render_summary(&RunSummary::new(&plan, &state)), @r"
    suite / family   slots  done  passed  rate %    95 % CI  reward  faults  open
    terminal-basics      6     4       2    50.0   0.6-99.4   0.250       1     1
      copy-line          3     3       2    66.7  20.8-93.9   0.333       0     0
      sort               3     1       0     0.0   0.0-79.3   0.000       1     1
    more                 3     0       0     n/a        n/a     n/a       1     2
      find               3     0       0     n/a        n/a     n/a       1     2
    total                9     4       2    50.0   0.6-99.4   0.250       2     3

    32 turns in 12.3 s, retries 1, cancelled 1

    phase        p50       p95
    lease     2.0 ms    5.0 ms
    setup     4.0 ms   10.0 ms
    policy  600.0 ms     1.5 s
    step     80.0 ms  200.0 ms
    grade    10.0 ms   25.0 ms
    close    12.0 ms   30.0 ms

    fault           attempts  slots
    env/shell-lost         2      1
    grader/limit           1      1
    ");
}

#[test]
fn table_of_nothing() {
    let plan = fixture::plan("nothing", 2);
    insta::assert_snapshot!(render_summary(&RunSummary::new(&plan, &opened(&plan))), @r"
    suite / family   slots  done  passed  rate %  95 % CI  reward  faults  open
    terminal-basics      2     0       0     n/a      n/a     n/a       0     2
      copy-line          1     0       0     n/a      n/a     n/a       0     1
      sort               1     0       0     n/a      n/a     n/a       0     1
    more                 0     0       0     n/a      n/a     n/a       0     0
    total                2     0       0     n/a      n/a     n/a       0     2

    0 turns in 0 us
    ");
}

#[test]
fn json() {
    let (plan, state) = mixed();
    let summary = RunSummary::new(&plan, &state);
    let value = serde_json::to_value(&summary).unwrap();
    assert_eq!(
        value["suites"][1]["total"]["pass_rate"],
        serde_json::Value::Null,
        "a rate of nothing is null"
    );
    assert_eq!(value["faults"][0]["code"], "shell-lost");
    assert_eq!(serde_json::from_value::<RunSummary>(value).unwrap(), summary);
}

#[test]
fn rows_add_up() {
    let (plan, state) = mixed();
    let summary = RunSummary::new(&plan, &state);
    let mut counted = 0;
    for suite in &summary.suites {
        let families: u32 = suite.families.values().map(|counts| counts.slots).sum();
        assert_eq!(families, suite.total.slots);
        counted += families;
        for counts in suite.families.values().chain([&suite.total]) {
            assert_eq!(counts.slots, counts.finished + counts.faulted + counts.open);
        }
    }
    assert_eq!(counted, summary.total.slots);
    // The two slots closed by faults are in no denominator.
    assert_eq!((summary.total.finished, summary.total.faulted, summary.total.open), (4, 2, 3));
    assert_eq!(summary.total.pass_rate.unwrap().value, 0.5);
    assert_eq!(summary.total.mean_reward, Some(0.25));
}
