//! Tools that need no sandbox: whole episodes.

use std::collections::BTreeMap;
use std::time::Duration;

use clawrl_core::{EnvProvider, Part, StopReason, ToolCall, ToolDecl, ToolKind};
use clawrl_testkit::{lease_request, ready, step_ctx};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{act, bare_provider, call, in_process, shown, submit, tool, toolcall_task, within};

fn tools() -> Vec<ToolDecl> {
    vec![
        tool("compute", ToolKind::Arithmetic),
        tool(
            "find",
            ToolKind::Table {
                rows: BTreeMap::from([("apple".to_owned(), "red".to_owned())]),
                missing: "nothing known".to_owned(),
            },
        ),
        tool("notes", ToolKind::Store { initial: BTreeMap::from([("a".to_owned(), "1".to_owned())]) }),
        tool("hello", ToolKind::Returns { text: "hello\nworld".to_owned() }),
        tool("broken", ToolKind::Fails { message: "out of order".to_owned() }),
        within(5_000, tool("never", ToolKind::Never)),
        ToolDecl { max_calls: Some(2), ..tool("rare", ToolKind::Returns { text: "ok".to_owned() }) },
    ]
}

fn compute(left: i64, operator: &str, right: i64) -> ToolCall {
    call("compute", json!({"left": left, "operator": operator, "right": right}))
}

/// Performs the actions one after another in one episode, and checks each observation.
async fn check(actions: &[(&[ToolCall], &str)]) {
    let provider = bare_provider();
    let mut env = ready(&provider, &toolcall_task(in_process(tools()), Vec::new())).await;
    for (calls, expected) in actions {
        assert_eq!(&shown(env.as_mut(), calls).await, expected, "{calls:?}");
    }
}

#[tokio::test]
async fn every_kind_answers() {
    let store = |arguments: Value| call("notes", arguments);
    check(&[
        (&[compute(2, "*", 21)], "[compute] 42"),
        (&[compute(1, "/", 0)], "[compute] error: division by zero"),
        (&[call("find", json!({"key": "apple"}))], "[find] red"),
        (&[call("find", json!({"key": "pear"}))], "[find] error: nothing known"),
        (&[call("hello", json!({}))], "[hello]\nhello\nworld"),
        (&[call("broken", json!({}))], "[broken] error: out of order"),
        (&[store(json!({"action": "set", "key": "b", "value": "2"}))], "[notes] ok"),
        (&[store(json!({"action": "list"}))], "[notes]\na\nb"),
        (
            &[store(json!({"action": "delete", "key": "a"})), store(json!({"action": "get", "key": "a"}))],
            "[notes] ok\n[notes] error: there is no key \"a\"",
        ),
    ])
    .await;
}

#[tokio::test]
async fn invalid_call_is_refused_with_reason() {
    check(&[
        (&[call("compute", json!({"left": 1, "operator": "+"}))], "[compute] error: `right` is missing"),
        (
            &[call("compute", json!({"left": "1", "operator": "+", "right": 2}))],
            "[compute] error: `left`: \"1\" is not of type \"number\"",
        ),
        (
            &[call("compute", json!({"left": 1, "operator": "^", "right": 2}))],
            "[compute] error: `operator`: \"^\" is none of \"+\" \"-\" \"*\" \"/\"",
        ),
        (&[call("find", json!({"key": "apple", "x": 1}))], "[find] error: `x` is not expected"),
        (&[call("hello", json!([]))], "[hello] error: [] is not of type \"object\""),
        (
            &[call("fly", json!({}))],
            "[fly] error: there is no such tool; tools: compute, find, notes, hello, broken, never, rare, submit",
        ),
        (&[call("submit", json!({"answer": 42}))], "[submit] error: `answer`: 42 is not of type \"string\""),
    ])
    .await;
}

#[tokio::test]
async fn call_limits_are_enforced() {
    let rare = || call("rare", json!({}));
    check(&[
        (
            &[rare(), rare(), rare()],
            "[rare] ok\n[rare] ok\n[rare] error: not run: at most 2 calls of this tool",
        ),
        (&[rare()], "[rare] error: not run: at most 2 calls of this tool"),
    ])
    .await;
    let nine: Vec<ToolCall> = (0..9).map(|number| compute(number, "+", 0)).collect();
    let mut expected: Vec<String> = (0..8).map(|number| format!("[compute] {number}")).collect();
    expected.push("[compute] error: not run: at most 8 calls of one action".to_owned());
    check(&[(&nine, &expected.join("\n"))]).await;
}

#[tokio::test]
async fn submit_ends_the_episode_and_the_action() {
    let provider = bare_provider();
    let mut env = ready(&provider, &toolcall_task(in_process(tools()), Vec::new())).await;
    let refused = act(env.as_mut(), &[call("submit", json!({"answer": 1})), compute(1, "+", 1)]).await;
    assert_eq!(refused.end, None);
    assert!(refused.observation.joined_text().ends_with("\n[compute] 2"), "{refused:?}");
    let result = act(env.as_mut(), &[compute(2, "+", 2), submit("4"), compute(3, "+", 3)]).await;
    assert_eq!(
        (result.observation.joined_text().as_str(), result.end),
        ("[compute] 4", Some(StopReason::Submitted))
    );
}

#[tokio::test(start_paused = true)]
async fn silent_tool_does_not_block_others() {
    let provider = bare_provider();
    let mut env = ready(&provider, &toolcall_task(in_process(tools()), Vec::new())).await;
    let began = Instant::now();
    let never = || ToolCall { id: "n".to_owned(), ..call("never", json!({})) };
    let text = shown(env.as_mut(), &[never(), compute(1, "+", 1), never()]).await;
    let ended = "[never n] error: no answer, ended after 5 s";
    assert_eq!(text, format!("{ended}\n[compute] 2\n{ended}"));
    // Both at the same time.
    assert!((4..=6).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    let mut ctx = step_ctx(2);
    ctx.deadline = (Instant::now() + Duration::from_secs(1)).into_std();
    let result = env.step(&[never()], ctx).await.unwrap();
    assert_eq!(
        result.observation.joined_text(),
        "[never n] error: no answer, ended at the end of the step's time"
    );
    assert_eq!(shown(env.as_mut(), &[compute(1, "+", 1)]).await, "[compute] 2");
}

#[tokio::test]
async fn results_are_cut_together_and_kept_whole() {
    let long = "x".repeat(5_000);
    let spec = in_process(vec![
        tool("long", ToolKind::Returns { text: long.clone() }),
        tool("short", ToolKind::Returns { text: "short".to_owned() }),
    ]);
    let provider = bare_provider();
    let mut env = ready(&provider, &toolcall_task(spec, Vec::new())).await;
    let calls = [call("long", json!({})), call("short", json!({})), call("long", json!({}))];
    let observation = act(env.as_mut(), &calls).await.observation;
    let [Part::Text { text }] = &observation.parts[..] else { panic!("{:?}", observation.parts) };
    assert!((1_950..=2_050).contains(&text.chars().count()), "{}", text.chars().count());
    assert!(
        text.contains("characters with 0 line ends left out") && text.contains("[short] short"),
        "{text}"
    );
    let whole = format!("[long] {long}\n[short] short\n[long] {long}");
    assert_eq!(observation.full_text.as_deref(), Some(whole.as_str()));
}

#[tokio::test]
async fn tools_are_offered_in_order_and_submit_last() {
    let provider = bare_provider();
    let task = toolcall_task(in_process(tools()), Vec::new());
    let mut env = provider.lease(lease_request(&task)).await.unwrap();
    let offered = env.reset(step_ctx(0)).await.unwrap().tools;
    let names: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["compute", "find", "notes", "hello", "broken", "never", "rare", "submit"]);
    assert_eq!(offered[0].description, "Does compute.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_do_not_mix() {
    let provider = bare_provider();
    let task = toolcall_task(in_process(tools()), Vec::new());
    let mut envs = join_all((0..256).map(|_| ready(&provider, &task))).await;
    assert_eq!((provider.usage().live, provider.usage().warm), (256, 0));
    let steps = envs.iter_mut().enumerate().map(|(number, env)| async move {
        let set = call("notes", json!({"action": "set", "key": "n", "value": number.to_string()}));
        act(env.as_mut(), &[set]).await;
        let calls = [call("notes", json!({"action": "get", "key": "n"})), compute(number as i64, "+", 1)];
        assert_eq!(shown(env.as_mut(), &calls).await, format!("[notes] {number}\n[compute] {}", number + 1));
        env.close().await;
    });
    join_all(steps).await;
    assert_eq!((provider.usage().live, provider.usage().peak), (0, 256));
}
