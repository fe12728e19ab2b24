//! Grades of data in this process and in the workspace.

use std::collections::BTreeMap;
use std::time::Duration;

use clawrl_core::{
    AnswerCheck, CallPattern, Check, EnvProvider, Grade, Retry, ToolCall, ToolKind, ToolcallSpec,
};
use clawrl_testkit::{file_equals, ready, step_ctx};
use serde_json::{Value, json};

use crate::support::{
    act, bare_provider, call, code, in_process, sandboxed, submit, tool, toolcall_task, with_provider,
};

fn answer(expected: &str) -> Check {
    Check::Answer(AnswerCheck::Equals { expected: expected.to_owned() })
}

fn called(tool: &str, arguments: Value, at_least: u32) -> Check {
    let Value::Object(arguments) = arguments else { panic!("no object") };
    Check::Called { call: CallPattern { tool: tool.to_owned(), arguments }, at_least, at_most: None }
}

fn answer_command(run: &str) -> Check {
    Check::AnswerCommand { run: run.to_owned(), exit_code: 0, timeout: Duration::from_secs(10) }
}

fn scores(grade: &Grade) -> Vec<f64> {
    grade.checks.iter().map(|check| check.score).collect()
}

async fn graded(
    provider: &dyn EnvProvider,
    spec: ToolcallSpec,
    checks: Vec<Check>,
    actions: &[&[ToolCall]],
) -> Grade {
    let mut env = ready(provider, &toolcall_task(spec, checks)).await;
    for calls in actions {
        act(env.as_mut(), calls).await;
    }
    let grade = env.grade(step_ctx(9)).await.unwrap();
    assert_eq!(env.close().await.leftovers, Vec::<String>::new());
    grade
}

fn small() -> ToolcallSpec {
    in_process(vec![
        tool("compute", ToolKind::Arithmetic),
        tool("notes", ToolKind::Store { initial: BTreeMap::new() }),
    ])
}

#[tokio::test]
async fn answers_calls_and_stores_are_graded_here() {
    let checks = || {
        let stored = |equals: Option<&str>| Check::Stored {
            tool: "notes".to_owned(),
            key: "k".to_owned(),
            equals: equals.map(str::to_owned),
        };
        vec![answer("42"), called("compute", json!({"left": 6}), 1), stored(Some("v")), stored(None)]
    };
    let compute = |left: Value| call("compute", json!({"left": left, "operator": "*", "right": 7}));
    let set = call("notes", json!({"action": "set", "key": "k", "value": "v"}));
    let right: &[&[ToolCall]] = &[&[compute(json!(6)), set], &[submit("42")]];
    let grade = graded(&bare_provider(), small(), checks(), right).await;
    assert_eq!((scores(&grade), grade.passed), (vec![1.0, 1.0, 1.0, 0.0], false));
    // A refused call was not made.
    let refused: &[&[ToolCall]] = &[&[compute(json!("6"))]];
    let grade = graded(&bare_provider(), small(), checks(), refused).await;
    assert_eq!(scores(&grade), [0.0, 0.0, 0.0, 1.0]);
}

#[tokio::test]
async fn unevaluable_check_is_fault() {
    let broken = Check::Answer(AnswerCheck::Matches { regex: "(".to_owned() });
    for check in [broken, file_equals("f", ""), answer_command("true")] {
        let provider = bare_provider();
        let mut env = ready(&provider, &toolcall_task(small(), vec![check])).await;
        act(env.as_mut(), &[submit("x")]).await;
        let fault = env.grade(step_ctx(2)).await.unwrap_err();
        assert_eq!((fault.code.as_str(), fault.retry), ("check-invalid", Retry::Never), "{fault}");
    }
}

#[test]
fn checks_of_all_kinds_keep_their_order() {
    let spec = sandboxed(vec![tool("python", ToolKind::Python)]);
    with_provider(&spec.clone(), |provider| async move {
        let checks = || {
            vec![
                file_equals("out.txt", "6"),
                answer("6"),
                answer_command("test \"$(cat)\" = \"$(cat out.txt)\""),
                called("python", json!({}), 2),
                Check::Command {
                    run: "cat out.txt".to_owned(),
                    exit_code: 0,
                    stdout_equals: Some("6".to_owned()),
                    stdout_contains: None,
                    timeout: Duration::from_secs(10),
                },
            ]
        };
        let write = || code("open('out.txt', 'w').write('6')");
        let right: &[&[ToolCall]] = &[&[write()], &[code("1"), submit("6")]];
        let grade = graded(provider.as_ref(), spec.clone(), checks(), right).await;
        assert_eq!((scores(&grade), grade.passed), (vec![1.0; 5], true), "{grade:?}");
        let silent: &[&[ToolCall]] = &[&[write()]];
        let grade = graded(provider.as_ref(), spec.clone(), checks(), silent).await;
        assert_eq!(scores(&grade), [1.0, 0.0, 0.0, 0.0, 1.0], "{grade:?}");
    });
}

#[test]
fn agent_is_stopped_before_files_are_read() {
    let spec = sandboxed(vec![tool("python", ToolKind::Python)]);
    with_provider(&spec.clone(), |provider| async move {
        // The daemon would undo the work, and the link leads out of the sandbox.
        let text = "import os, subprocess\nopen('out.txt', 'w').write('1')\nos.symlink('/etc/passwd', 'link')\n\
                    subprocess.Popen(['setsid', 'sh', '-c', 'sleep 0.3; rm out.txt'])\nNone";
        let link = Check::FileContains { path: "link".to_owned(), text: "root".to_owned() };
        let actions: &[&[ToolCall]] = &[&[code(text)]];
        let grade =
            graded(provider.as_ref(), spec.clone(), vec![file_equals("out.txt", "1"), link], actions).await;
        assert_eq!(scores(&grade), [1.0, 0.0], "{grade:?}");
        assert!(grade.flags.contains(&"symlink-refused".to_owned()), "{grade:?}");
    });
}
