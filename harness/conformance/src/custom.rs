//! Additional checks of custom environments. Each returns the first violation.

use clawrl_core::{Part, ToolCall};
use serde_json::json;

use crate::checks::{Checked, Subject, difference, ensure};

/// C14.
pub(crate) async fn stray_calls(subject: &Subject) -> Checked {
    let mut env = subject.lease(0).await?;
    let observation = subject.in_time("reset", env.reset(subject.ctx(0))).await?;
    let tools = observation.map_err(|fault| format!("reset: {fault}"))?.tools;
    let own = tools.iter().find(|tool| tool.name != "submit");
    let name = own.map_or("no-such-tool", |tool| tool.name.as_str());
    let calls = [
        ("a call of an unknown tool", ToolCall::new("no-such-tool", json!({}))),
        ("a call without arguments", ToolCall::new(name, json!({}))),
        ("unknown arguments", ToolCall::new(name, json!({ "no-such-argument": [1, null] }))),
        ("arguments that are not an object", ToolCall::new(name, json!("text"))),
    ];
    for (seq, (what, call)) in (1..).zip(calls) {
        let stepped = subject.step(&mut *env, &[call], seq).await;
        let result =
            stepped.map_err(|wrong| format!("{what} must be answered with an observation, but: {wrong}"))?;
        if result.end.is_some() {
            break;
        }
    }
    subject.close(&mut *env).await
}

/// C15.
pub(crate) async fn grade_at_once(subject: &Subject) -> Checked {
    let mut env = subject.ready(0).await?;
    let grade = subject.in_time("grade", env.grade(subject.ctx(1))).await?;
    let grade = grade.map_err(|fault| format!("grade before any step: {fault}"))?;
    ensure((0.0..=1.0).contains(&grade.score), || format!("score {} is not in [0, 1]", grade.score))?;
    ensure(!grade.passed, || "an episode without a step passes".to_owned())?;
    subject.close(&mut *env).await
}

/// C16.
pub(crate) async fn two_sessions(subject: &Subject) -> Checked {
    let alone = interleaved(subject, &[0]).await?;
    let both = interleaved(subject, &[1, 2]).await?;
    if !subject.case.deterministic {
        return Ok(());
    }
    for parts in &both {
        ensure(*parts == alone[0], || {
            format!("an episode differs alone and beside another: {}", difference(&alone[0], parts))
        })?;
    }
    Ok(())
}

/// Observations of two interleaved sessions.
async fn interleaved(subject: &Subject, numbers: &[u32]) -> Result<Vec<Vec<Vec<Part>>>, String> {
    let mut envs = Vec::new();
    for &number in numbers {
        envs.push((subject.ready(number).await?, Vec::new(), false));
    }
    for seq in 1..3 {
        for (env, parts, ended) in &mut envs {
            if !*ended {
                let result = subject.step(&mut **env, &subject.case.quick_calls, seq).await?;
                *ended = result.end.is_some();
                parts.push(result.observation.parts);
            }
        }
    }
    let mut shown = Vec::new();
    for (mut env, parts, _) in envs {
        subject.close(&mut *env).await?;
        shown.push(parts);
    }
    Ok(shown)
}
