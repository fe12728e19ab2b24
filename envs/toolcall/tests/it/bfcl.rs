//! Verdicts of `calls_match` and of BFCL's own checker: `ci/golden/bfcl.py` wrote the rows.

use clawrl_core::{Check, ExpectedCall, ToolCall, ToolKind};
use clawrl_testkit::{ready, step_ctx};
use serde::Deserialize;
use serde_json::Value;

use crate::support::{act, bare_provider, in_process, tool, toolcall_task};

#[derive(Deserialize)]
struct Case {
    row: String,
    what: String,
    check: Expected,
    calls: Vec<Call>,
    theirs: bool,
}

#[derive(Deserialize)]
struct Expected {
    calls: Vec<ExpectedCall>,
}

#[derive(Deserialize)]
struct Call {
    name: String,
    arguments: Value,
}

#[tokio::test]
async fn verdicts_are_those_of_bfcl() {
    let text = include_str!("../golden/bfcl.jsonl");
    let mut count = 0;
    for case in text.lines().map(|line| serde_json::from_str::<Case>(line).unwrap()) {
        let mut names: Vec<&str> = case.check.calls.iter().map(|call| call.tool.as_str()).collect();
        names.extend(case.calls.iter().map(|call| call.name.as_str()));
        names.sort_unstable();
        names.dedup();
        let returns = |name: &&str| tool(name, ToolKind::Returns { text: "ok".to_owned() });
        let spec = in_process(names.iter().map(returns).collect());
        let check = Check::CallsMatch { calls: case.check.calls, ordered: false, exactly: true };
        let provider = bare_provider();
        let mut env = ready(&provider, &toolcall_task(spec, vec![check])).await;
        for call in &case.calls {
            act(env.as_mut(), &[ToolCall::new(&call.name, call.arguments.clone())]).await;
        }
        let grade = env.grade(step_ctx(9)).await.unwrap();
        assert_eq!(
            grade.checks[0].score == 1.0,
            case.theirs,
            "{} {}: {:?}",
            case.row,
            case.what,
            grade.checks[0]
        );
        env.close().await;
        count += 1;
    }
    assert!(count >= 50, "{count} rows");
}
