//! One attempt: conversation, record and end.

use std::sync::{Arc, Mutex};

use clawrl_core::{ActionFormat, Message, Outcome, Role, StopReason, derive_seed};
use clawrl_scheduler::context;
use clawrl_testkit::{PlanShape, Reply, ScriptedPolicy};

use crate::stage::Stage;

/// Replies in order, then submits; the stop reason and the number of turns.
async fn check(replies: &'static [&'static str], max_turns: u32, expected: (StopReason, usize)) {
    let mut shape = PlanShape::flat(1, 1);
    shape.max_turns = max_turns;
    let mut stage = Stage::new(&shape, |_| Vec::new());
    stage.policy = Arc::new(ScriptedPolicy::new(|request| {
        replies.get(request.turn as usize).map_or_else(Reply::submit, |text| Reply::text(text))
    }));
    stage.run().await.unwrap();
    let record = stage.only_record();
    let Outcome::Finished { stop, reward, .. } = record.outcome else { panic!("{:?}", record.outcome) };
    assert_eq!((stop, record.trajectory.turns.len()), expected, "{replies:?}");
    assert_eq!(reward, 1.0, "score 1 under the default map");
}

#[tokio::test(start_paused = true)]
async fn stop_reasons() {
    check(&[], 9, (StopReason::Submitted, 1)).await;
    check(&["ls", "submit"], 9, (StopReason::Submitted, 2)).await;
    check(&["ls", "ls", "ls"], 3, (StopReason::MaxTurns, 3)).await;
    check(&["ls", "ls", "submit"], 3, (StopReason::Submitted, 3)).await;
    check(&["", "", ""], 9, (StopReason::MalformedActions, 3)).await;
    check(&["", "", "ls", "", "", "ls"], 9, (StopReason::Submitted, 7)).await;
    check(&["", ""], 2, (StopReason::MaxTurns, 2)).await;
}

#[tokio::test(start_paused = true)]
async fn malformed_reply_costs_a_turn_and_gets_a_reason() {
    let mut shape = PlanShape::flat(1, 1);
    shape.action_format = ActionFormat::Fenced;
    let mut stage = Stage::new(&shape, |_| Vec::new());
    stage.policy = Arc::new(ScriptedPolicy::new(|request| match request.turn {
        0 => Reply::text("no fence"),
        _ => Reply::submit(),
    }));
    let report = stage.run().await.unwrap();
    let turns = stage.only_record().trajectory.turns;
    assert!(turns[0].flags.malformed && turns[0].calls.is_empty());
    assert_eq!(turns[0].observation.joined_text(), "no fenced code block; write exactly one");
    assert!(!turns[1].flags.malformed);
    assert_eq!(report.steps, 1, "only the second reached the environment");
}

/// I4: the record gives the conversation of every turn.
#[tokio::test(start_paused = true)]
async fn record_reproduces_the_conversation() {
    let seen: Arc<Mutex<Vec<Vec<Message>>>> = Arc::default();
    let mut stage = Stage::new(&PlanShape::flat(1, 1), |_| Vec::new());
    let notes = Arc::clone(&seen);
    stage.policy = Arc::new(ScriptedPolicy::new(move |request| {
        notes.lock().unwrap().push(request.conversation.to_vec());
        let long = "x".repeat(9_000);
        if request.turn < 20 { Reply::text(&long) } else { Reply::submit() }
    }));
    stage.run().await.unwrap();
    let trajectory = stage.only_record().trajectory;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 21);
    for (turn, seen) in seen.iter().enumerate() {
        assert_eq!(seen, &context(&trajectory.prompt, &trajectory.turns[..turn]), "turn {turn}");
    }
    assert!(seen[20].len() < 20, "trimmed");
    assert_eq!(seen[0][0].role, Role::User);
    assert_eq!(seen[0][0].joined_text(), "Do suite-0/task-0.\nready");
}

/// I8: nothing the environment or the policy is given depends on the attempt's number or epoch.
#[tokio::test(start_paused = true)]
async fn seeds_are_of_the_slot() {
    let seeds: Arc<Mutex<Vec<u64>>> = Arc::default();
    let mut shape = PlanShape::flat(1, 1);
    shape.limits.max_retries = 1;
    let mut stage = Stage::new(&shape, |attempt| match attempt.number {
        0 => vec![(clawrl_testkit::Site::Grade, clawrl_testkit::Mishap::Fault(clawrl_core::Retry::Sound))],
        _ => Vec::new(),
    });
    let notes = Arc::clone(&seeds);
    stage.policy = Arc::new(ScriptedPolicy::new(move |request| {
        notes.lock().unwrap().push(request.seed);
        if request.turn < 1 { Reply::run("true") } else { Reply::submit() }
    }));
    stage.run().await.unwrap();
    let expected = [0, 1].map(|turn| derive_seed(stage.plan.slots[0].policy_seed, "turn", &[turn]));
    assert_eq!(*seeds.lock().unwrap(), [expected, expected].concat());
    let records = stage.sink.records();
    assert_eq!(records[0].trajectory.turns.len(), records[1].trajectory.turns.len());
}
