//! Exports an attempt as an ATIF-v1.8 trajectory, for other viewers and data pipelines.
//!
//! Messages before the first action become steps of system and user; each turn becomes one step of the agent, with its
//! calls and their results. A reply of a scripted policy is a step without inference (`llm_call_count` 0), and has
//! no metrics. Data without an ATIF field is under `extra`: the outcome with its checks at the root, durations and
//! marks at a step, facts at a result.
//!
//! A1. Only fields of the format are written, none of them empty. A2. Steps are numbered from 1 without gaps, and
//! there is at least one: an attempt that broke before its first message has its instruction. A3. Ids of calls are
//! unique within a step.
//!
//! Not written, because not recorded: times of day of turns, ids of prompt tokens. A picture is written as its
//! media type and file, `[image/png: blobs/ab/….png]` relative to the run's folder; pictures that the agent did not see
//! are under `extra`.
//!
//! Source: Harbor's RFC 0001, as its models of version 0.25.0 read it. Deviations: none.

use std::borrow::Cow;
use std::collections::BTreeSet;

use clawrl_core::{AttemptRecord, Outcome, PolicySpec, Role, ToolSpec, Turn, UsageTotal};
use clawrl_record::{Run, blob_path};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::detail::{micros, shown};
use crate::error::ReportError;
use crate::kind::{cancel_text, stop_text};

const SCHEMA: &str = "ATIF-v1.8";

#[derive(Debug, Serialize)]
struct Trajectory<'a> {
    schema_version: &'static str,
    session_id: &'a str,
    trajectory_id: String,
    agent: Agent<'a>,
    steps: Vec<Step<'a>>,
    final_metrics: FinalMetrics,
    extra: Value,
}

#[derive(Debug, Serialize)]
struct Agent<'a> {
    name: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_definitions: Vec<Value>,
    extra: Value,
}

#[derive(Debug, Serialize)]
struct Step<'a> {
    step_id: usize,
    source: Source,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observation: Option<Observation<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<Metrics<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    llm_call_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<Value>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    System,
    User,
    Agent,
}

#[derive(Debug, Serialize)]
struct ToolCall<'a> {
    tool_call_id: String,
    function_name: &'a str,
    arguments: Value,
}

#[derive(Debug, Serialize)]
struct Observation<'a> {
    results: [Answer<'a>; 1],
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    source_call_id: Option<String>,
    content: String,
    #[serde(skip_serializing_if = "is_empty")]
    extra: Cow<'a, Map<String, Value>>,
}

#[derive(Debug, Serialize)]
struct Metrics<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u64>,
    completion_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_token_ids: Option<&'a [u32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<&'a [f32]>,
    extra: Value,
}

#[derive(Debug, Serialize)]
struct FinalMetrics {
    total_steps: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_cost_usd: Option<f64>,
}

/// The whole file.
pub(crate) fn to_text(run: &Run, record: &AttemptRecord) -> Result<String, ReportError> {
    let mut text = serde_json::to_string_pretty(&trajectory(run, record))
        .map_err(|source| ReportError::NotJson { what: format!("attempt {}", record.attempt), source })?;
    text.push('\n');
    Ok(text)
}

fn trajectory<'a>(run: &'a Run, record: &'a AttemptRecord) -> Trajectory<'a> {
    let plan = run.plan();
    let (prompt, turns) = (&record.trajectory.prompt, &record.trajectory.turns);
    let slot = plan.slots.get(record.attempt.slot.0 as usize);
    let task = slot.map(|slot| plan.task_of(slot));
    let mut steps: Vec<Step<'_>> =
        prompt.iter().map(|message| said(message.role, shown(&message.parts))).collect();
    if let (true, Some(task)) = (steps.is_empty(), task) {
        steps.push(said(Role::User, task.instruction.clone()));
    }
    steps.extend(turns.iter().map(|turn| acted(turn, inferences(&plan.policy, turn))));
    for (at, step) in steps.iter_mut().enumerate() {
        step.step_id = at + 1;
    }
    Trajectory {
        schema_version: SCHEMA,
        session_id: plan.run.as_str(),
        trajectory_id: format!("{}/{}", plan.run, record.attempt),
        agent: agent(run, &record.trajectory.reset.tools),
        final_metrics: final_metrics(steps.len(), turns),
        steps,
        extra: with_first_pictures(
            &record.trajectory.reset,
            json!({
                "task": task.map(|task| &task.id),
                "suite": task.map(|task| &task.suite),
                "group": slot.map(|slot| slot.group),
                "env_seed": slot.map(|slot| slot.env_seed),
                "policy_seed": slot.map(|slot| slot.policy_seed),
                "epoch": record.epoch,
                "closes_slot": record.closes_slot,
                "outcome": outcome(&record.outcome),
                "phases_us": {
                    "lease": micros(record.times.lease),
                    "setup": micros(record.times.setup),
                    "policy": micros(record.times.policy),
                    "step": micros(record.times.step),
                    "grade": micros(record.times.grade),
                    "close": micros(record.times.close),
                },
            }),
        ),
    }
}

fn agent<'a>(run: &'a Run, tools: &[ToolSpec]) -> Agent<'a> {
    // `clawrl 0.1.0`, as the run's first line says.
    let program = run.state().map_or("clawrl", |state| state.opened().program.as_str());
    let (name, version) = program.split_once(' ').unwrap_or((program, "unknown"));
    let definition = |tool: &ToolSpec| {
        json!({
            "type": "function",
            "function": { "name": tool.name, "description": tool.description, "parameters": tool.parameters },
        })
    };
    Agent {
        name,
        version,
        model_name: model_name(&run.plan().policy),
        tool_definitions: tools.iter().map(definition).collect(),
        extra: match &run.plan().judge {
            None => json!({ "policy": run.plan().policy }),
            Some(judge) => json!({ "policy": run.plan().policy, "judge": judge }),
        },
    }
}

fn model_name(policy: &PolicySpec) -> Option<String> {
    match policy.speaker() {
        PolicySpec::Torch { path, .. } => path.file_name().map(|name| name.to_string_lossy().into_owned()),
        PolicySpec::Remote(spec) => Some(spec.model.clone()),
        _ => None,
    }
}

/// Number of inferences of a reply; `None` for policies that this module does not know.
fn inferences(policy: &PolicySpec, turn: &Turn) -> Option<u32> {
    match policy {
        PolicySpec::Noop
        | PolicySpec::Oracle
        | PolicySpec::Demonstrator { .. }
        | PolicySpec::Replay { .. }
        | PolicySpec::Cassette { .. }
        | PolicySpec::Random { .. } => Some(0),
        _ => (turn.tokens.is_some() || turn.usage.is_some()).then_some(1),
    }
}

fn said(role: Role, message: String) -> Step<'static> {
    let source = match role {
        Role::System => Source::System,
        Role::Assistant => Source::Agent,
        Role::User | Role::Tool => Source::User,
    };
    Step {
        step_id: 0,
        source,
        message,
        tool_calls: Vec::new(),
        observation: None,
        metrics: None,
        llm_call_count: None,
        extra: None,
    }
}

fn acted(turn: &Turn, llm_call_count: Option<u32>) -> Step<'_> {
    let mut taken = BTreeSet::new();
    let tool_calls: Vec<ToolCall<'_>> = turn
        .calls
        .iter()
        .enumerate()
        .map(|(at, call)| {
            let mut id = if call.id.is_empty() { format!("call-{}", at + 1) } else { call.id.clone() };
            while !taken.insert(id.clone()) {
                id.push_str("-again");
            }
            let arguments = if call.arguments.is_object() {
                call.arguments.clone()
            } else {
                json!({ "value": call.arguments })
            };
            ToolCall { tool_call_id: id, function_name: &call.name, arguments }
        })
        .collect();
    // Several calls have one common result, which belongs to none of them alone.
    let source_call_id = match tool_calls.as_slice() {
        [only] => Some(only.tool_call_id.clone()),
        _ => None,
    };
    let answer =
        Answer { source_call_id, content: shown(&turn.observation.parts), extra: beside(&turn.observation) };
    Step {
        step_id: 0,
        source: Source::Agent,
        message: shown(&turn.reply.parts),
        tool_calls,
        observation: Some(Observation { results: [answer] }),
        metrics: metrics(turn).filter(|_| llm_call_count != Some(0)),
        llm_call_count,
        extra: Some(json!({
            "policy_us": micros(turn.policy_time),
            "step_us": micros(turn.step_time),
            "malformed": turn.flags.malformed,
            "reply_truncated": turn.flags.reply_truncated,
        })),
    }
}

/// Data that the agent was not shown: facts, and files of pictures.
fn beside(observation: &clawrl_core::Observation) -> Cow<'_, Map<String, Value>> {
    let files = recorded_files(observation);
    if files.is_empty() {
        return Cow::Borrowed(&observation.facts);
    }
    let mut facts = observation.facts.clone();
    facts.insert("pictures".to_owned(), files.into());
    Cow::Owned(facts)
}

/// Data of the first observation, which is not a step.
fn with_first_pictures(reset: &clawrl_core::Observation, mut extra: Value) -> Value {
    let files = recorded_files(reset);
    if !files.is_empty() {
        extra["pictures_at_the_start"] = files.into();
    }
    extra
}

/// Files of pictures that the agent did not see, relative to the run's folder.
fn recorded_files(observation: &clawrl_core::Observation) -> Vec<String> {
    observation.pictures.iter().filter_map(blob_path).collect()
}

fn is_empty(map: &Map<String, Value>) -> bool {
    map.is_empty()
}

/// The server's figures where there are any, else those of the recorded tokens.
fn metrics(turn: &Turn) -> Option<Metrics<'_>> {
    let (tokens, usage) = (turn.tokens.as_ref(), turn.usage.as_ref());
    let sampled = tokens.map(|tokens| tokens.ids.len() as u64);
    Some(Metrics {
        prompt_tokens: usage.map(|usage| usage.input_tokens),
        completion_tokens: usage.map(|usage| usage.output_tokens).or(sampled)?,
        cached_tokens: usage.map(|usage| usage.cached_tokens),
        cost_usd: usage.and_then(|usage| usage.cost_nano_usd).map(dollars),
        completion_token_ids: tokens.map(|tokens| tokens.ids.as_slice()),
        logprobs: tokens.map(|tokens| tokens.logprobs.as_slice()),
        extra: json!({
            "policy_versions": tokens.map(|tokens| &tokens.versions),
            "source": usage.map(|usage| usage.source),
            "retries": usage.map(|usage| usage.retries),
            "notes": usage.map(|usage| &usage.notes),
        }),
    })
}

fn final_metrics(total_steps: usize, turns: &[Turn]) -> FinalMetrics {
    let usage = UsageTotal::of(turns.iter().filter_map(|turn| turn.usage.as_ref()));
    let sampled: u64 = turns.iter().flat_map(|turn| &turn.tokens).map(|tokens| tokens.ids.len() as u64).sum();
    FinalMetrics {
        total_steps,
        total_prompt_tokens: usage.map(|usage| usage.input_tokens),
        total_completion_tokens: usage.map(|usage| usage.output_tokens).or((sampled > 0).then_some(sampled)),
        total_cached_tokens: usage.map(|usage| usage.cached_tokens),
        total_cost_usd: usage.and_then(|usage| usage.cost_nano_usd).map(dollars),
    }
}

fn dollars(nano: u64) -> f64 {
    nano as f64 / 1e9
}

fn outcome(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Finished { stop, grade, reward } => json!({
            "kind": "finished",
            "stop": stop_text(stop),
            "is_truncated": stop.is_truncated(),
            "passed": grade.passed,
            "score": grade.score,
            "reward": reward,
            "checks": grade.checks,
            "flags": grade.flags,
        }),
        Outcome::Faulted(fault) => json!({ "kind": "faulted", "fault": fault }),
        Outcome::Cancelled(reason) => json!({ "kind": "cancelled", "reason": cancel_text(*reason) }),
    }
}
