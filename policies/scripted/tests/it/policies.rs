//! Replies of each policy, and what they depend on (I1, I2, I3 of the crate).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    Action, ActionFormat, FinishReason, Message, Observation, Policy, Role, SampledTokens, Script, SlotId,
    TaskId, TaskSpec, ToolCall, Turn, TurnFlags, parse_calls,
};
use clawrl_scripted::{Demonstrator, Noop, Oracle, Random, Replay, ReplayKey, recorded_action};
use serde_json::json;

use crate::episode::{act, attempt, calls, episode, in_every_slot, run, submit, task, tools};

fn check_fault(policy: &dyn Policy, task: TaskSpec, slot: u32, turn: u32, expected: &str) {
    let fault = act(policy, task, attempt(slot, 0), turn).expect_err("a fault");
    assert_eq!(format!("{fault} ({:?})", fault.retry), expected);
}

fn oracle(task: TaskSpec) -> Oracle {
    Oracle::new(in_every_slot(task))
}

fn demonstrator(oracle_percent: u8, seed: u64, task: TaskSpec) -> Demonstrator {
    Demonstrator::new(oracle_percent, seed, in_every_slot(task)).unwrap()
}

#[test]
fn a_slot_outside_the_plan_is_a_fault() {
    let oracle = Oracle::new([Arc::new(task("s/a"))].into_iter().collect());
    let expected =
        "harness fault `unknown-slot`: slot s1 is not part of the plan that the policy was built for (Never)";
    check_fault(&oracle, task("s/a"), 1, 0, expected);
}

#[test]
fn noop_submits_at_once() {
    let replies = episode(&Noop, &task("s/a"), attempt(0, 0), 1);
    assert_eq!(calls(&replies), [submit()]);
    assert_eq!(replies[0].text, "submit");
}

#[test]
fn oracle_plays_its_calls_then_submits() {
    let replies = episode(&oracle(task("s/a")), &task("s/a"), attempt(0, 0), 4);
    assert_eq!(calls(&replies), [run("right one"), run("right two"), submit(), submit()]);
    let texts: Vec<&str> = replies.iter().map(|reply| reply.text.as_str()).collect();
    assert_eq!(texts, ["right one", "right two", "submit", "submit"]);
}

#[test]
fn a_call_without_raw_form_has_no_text() {
    let mut task = task("s/a");
    let keys = ToolCall::new("keys", json!({"keys": "C-c"}));
    task.oracle = Some(Script::Calls(vec![keys.clone()]));
    let replies = episode(&oracle(task.clone()), &task, attempt(0, 0), 1);
    assert_eq!(replies, [Action { tool_calls: vec![keys], ..Action::default() }]);
}

#[test]
fn missing_scripts_are_faults_that_name_the_task() {
    let without_oracle = TaskSpec { oracle: None, ..task("s/a#3") };
    let without_mistakes = TaskSpec { mistakes: Vec::new(), ..task("s/a#3") };
    let no_oracle = "policy fault `no-oracle`: task `s/a#3` has no oracle; add `oracle: { commands: [...] }` to \
                     the task (Never)";
    let no_mistakes = "policy fault `no-mistakes`: task `s/a#3` has no mistakes to demonstrate; add `mistakes:` \
                       to the task, or demonstrate with an oracle share of 100 % (Never)";
    check_fault(&oracle(without_oracle.clone()), without_oracle.clone(), 0, 0, no_oracle);
    for slot in 0..20 {
        for (task, expected) in [(&without_oracle, no_oracle), (&without_mistakes, no_mistakes)] {
            check_fault(&demonstrator(35, 1, task.clone()), task.clone(), slot, 0, expected);
        }
    }
    let always_right = demonstrator(100, 1, without_mistakes.clone());
    assert_eq!(calls(&episode(&always_right, &without_mistakes, attempt(0, 0), 1)), [run("right one")]);
    let always_wrong = demonstrator(0, 1, without_oracle.clone());
    assert_ne!(calls(&episode(&always_wrong, &without_oracle, attempt(0, 0), 1)), [run("right one")]);
    assert!(Demonstrator::new(101, 1, in_every_slot(task("s/a"))).is_none());
}

/// The script that the demonstrator plays, recognised by its first call.
fn first_call(demonstrator: &Demonstrator, id: &str, slot: u32) -> String {
    let first = calls(&episode(demonstrator, &task(id), attempt(slot, 0), 1));
    first[0].str_argument("command").expect("a run call").to_owned()
}

#[test]
fn demonstrator_is_right_as_often_as_it_should_be() {
    let demonstrator = demonstrator(35, 7, task("s/a"));
    let mut count = BTreeMap::<String, u32>::new();
    for slot in 0..4000 {
        *count.entry(first_call(&demonstrator, "s/a", slot)).or_default() += 1;
    }
    // Four standard deviations of a binomial share around 0.35, 0.325 and 0.325 of 4,000.
    for (command, expected) in [("right one", 1400), ("wrong one", 1300), ("wrong two", 1300)] {
        assert!(count[command].abs_diff(expected) < 121, "{count:?}");
    }
}

#[test]
fn demonstrator_keeps_to_one_script_per_slot() {
    let demonstrator = demonstrator(35, 7, task("s/a"));
    let right = vec![run("right one"), run("right two"), submit(), submit()];
    let scripts = [
        right,
        vec![run("wrong one"), submit(), submit(), submit()],
        vec![run("wrong two"), run("wrong three"), submit(), submit()],
    ];
    for slot in 0..200 {
        let played = calls(&episode(&demonstrator, &task("s/a"), attempt(slot, 0), 4));
        assert!(scripts.contains(&played), "slot {slot}: {played:?}");
        // A retry after a fault must not draw again.
        assert_eq!(calls(&episode(&demonstrator, &task("s/a"), attempt(slot, 1), 4)), played);
    }
}

#[test]
fn demonstrator_draws_by_seed_task_and_slot() {
    let drawn = |seed: u64, id: &str, slots: std::ops::Range<u32>| -> Vec<String> {
        let demonstrator = demonstrator(35, seed, task(id));
        slots.map(|slot| first_call(&demonstrator, id, slot)).collect()
    };
    let rows =
        [drawn(1, "s/a", 0..50), drawn(2, "s/a", 0..50), drawn(1, "s/b", 0..50), drawn(1, "s/a", 50..100)];
    let distinct: BTreeSet<&Vec<String>> = rows.iter().collect();
    assert_eq!(distinct.len(), rows.len());
}

#[test]
fn random_draws_every_line_and_reads_it_as_raw() {
    let lines = ["ls", "submit 42", ""];
    let random = Random::new(lines.map(str::to_owned).to_vec()).unwrap();
    let mut seen = BTreeMap::new();
    for slot in 0..200 {
        let reply = act(&random, task("s/a"), attempt(slot, 0), 0).unwrap();
        seen.insert(reply.text.clone(), reply.tool_calls);
    }
    let expected = BTreeMap::from([
        (String::new(), vec![]),
        ("ls".to_owned(), vec![run("ls")]),
        ("submit 42".to_owned(), vec![ToolCall::new("submit", json!({"answer": "42"}))]),
    ]);
    assert_eq!(seen, expected);
    assert!(Random::new(Vec::new()).is_none());
}

fn recorded(slot: u32, replies: Vec<Action>) -> Replay {
    let key = ReplayKey { task: TaskId("s/a".into()), slot: SlotId(slot) };
    Replay::new(BTreeMap::from([(key, replies)]))
}

fn said(text: &str) -> Action {
    Action { text: text.into(), ..Action::default() }
}

#[test]
fn replay_never_guesses() {
    let replay = recorded(3, vec![said("ls"), said("submit")]);
    check_fault(
        &replay,
        task("s/a"),
        4,
        0,
        "policy fault `replay-miss`: the recorded run has no attempt at task `s/a` in slot s4; replay needs the \
         recorded run's own plan (suites, seed and group size) (Never)",
    );
    check_fault(
        &replay,
        task("s/b"),
        3,
        0,
        "policy fault `replay-miss`: the recorded run has no attempt at task `s/b` in slot s3; replay needs the \
         recorded run's own plan (suites, seed and group size) (Never)",
    );
    check_fault(
        &replay,
        task("s/a"),
        3,
        2,
        "policy fault `replay-exhausted`: the recording of task `s/a` in slot s3 has 2 turns and turn 3 was \
         asked for: the environment went another way than when it was recorded (Never)",
    );
}

/// A turn as an executor records it.
fn turn(text: &str, calls: Vec<ToolCall>, flags: TurnFlags) -> Turn {
    Turn {
        reply: Message::text(Role::Assistant, text),
        calls,
        tokens: None,
        usage: None,
        observation: Observation::default(),
        process_reward: None,
        flags,
        policy_time: Duration::ZERO,
        step_time: Duration::ZERO,
    }
}

#[test]
fn replay_repeats_malformed_turns_in_place() {
    let malformed = TurnFlags { malformed: true, reply_truncated: true };
    let tokens = SampledTokens { ids: vec![5, 6], logprobs: vec![-0.5, -0.25], versions: vec![(0, 3)] };
    let unknown_tool = ToolCall { id: "call_1".into(), ..ToolCall::new("fly", json!({})) };
    let mut turns = [
        turn("ls", vec![run("ls")], TurnFlags::default()),
        turn("  \n", vec![], malformed),
        turn("up", vec![], TurnFlags { malformed: true, reply_truncated: false }),
        turn("pwd", vec![run("pwd")], TurnFlags::default()),
    ];
    turns[1].tokens = Some(tokens.clone());
    turns[2].reply.tool_calls.push(unknown_tool.clone());

    let replay = recorded(3, turns.iter().map(recorded_action).collect());
    let replies = episode(&replay, &task("s/a"), attempt(3, 0), 4);
    let truncated = Action { finish: FinishReason::Length, tokens: Some(tokens), ..said("  \n") };
    let flown = Action { tool_calls: vec![unknown_tool], ..said("up") };
    assert_eq!(replies, [said("ls"), truncated, flown, said("pwd")]);

    let read = |reply: &Action| parse_calls(&reply.text, &reply.tool_calls, ActionFormat::Raw, &tools()).ok();
    let calls: Vec<_> = replies.iter().map(read).collect();
    assert_eq!(calls, [Some(vec![run("ls")]), None, None, Some(vec![run("pwd")])]);
}

/// I1 and I2: the reply does not depend on the order of requests or on earlier turns. The
/// conversation that `act` sends is always empty, so nothing can be counted from it.
#[test]
fn replies_do_not_depend_on_earlier_requests() {
    let policies: [Box<dyn Policy>; 5] = [
        Box::new(Noop),
        Box::new(oracle(task("s/a"))),
        Box::new(demonstrator(35, 7, task("s/a"))),
        Box::new(Random::new(vec!["ls".into(), "pwd".into(), "submit".into()]).unwrap()),
        Box::new(recorded(3, vec![said("ls"), said(""), said("pwd"), said("submit")])),
    ];
    for policy in &policies {
        let forward = episode(policy.as_ref(), &task("s/a"), attempt(3, 0), 4);
        let mut backward: Vec<Action> = (0..4)
            .rev()
            .map(|turn| act(policy.as_ref(), task("s/a"), attempt(3, 0), turn).unwrap())
            .collect();
        backward.reverse();
        assert_eq!(forward, backward, "{}", policy.name());
    }
}
