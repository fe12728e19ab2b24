//! `clawrl env check`: runs the conformance tests on the environments of suites.
//!
//! I1. Nothing is recorded and no policy acts. I2. Checks run one after another, each with its own providers.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clawrl_config::{PlanOptions, resolve_plan};
use clawrl_conformance::{Case, Finding, Report, check_custom, check_provider};
use clawrl_core::{
    EnvProvider, EnvSpec, PolicySpec, RunId, RunPlan, SlotId, SlotSpec, TaskIndex, TaskSpec, ToolCall,
    ToolKind,
};
use clawrl_runtime::{
    Executor, FirstInterrupt, Machine, ProviderSettings, Runtime, UnavailableProvider,
    host::{capacity, open_files},
    read_suites,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::judge_choice::JudgeArguments;
use crate::log::Log;
use crate::output::{print, print_json};

/// Time limit of an operation, generous for busy machines.
const PATIENCE: Duration = Duration::from_secs(30);

/// Concurrent leases in checks that need several.
const AT_ONCE: u32 = 4;

/// Arguments of `clawrl env check`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Suites: a suite.yaml, its folder, or the name of a folder under ./tasks.
    #[arg(value_name = "SUITE", required = true)]
    suites: Vec<PathBuf>,
    /// Check every task whose id matches, instead of one of each kind; may be repeated.
    #[arg(long, value_name = "GLOB")]
    task: Vec<String>,
    /// Tool call that blocks, used to test cancellation of custom environments, such as `{"name": "wait"}`. Built-in
    /// environments have their own.
    #[arg(long, value_name = "JSON", value_parser = tool_call)]
    long_call: Option<ToolCall>,
    /// Seed from which all others are derived.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    judge: JudgeArguments,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// Findings about one task's environment.
#[derive(Debug, Serialize)]
struct Checked {
    task: String,
    kind: &'static str,
    passed: bool,
    #[serde(flatten)]
    report: Report,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    open_files::raise_limit();
    let suites = read_suites(&arguments.suites, log)?;
    let name = format!("check-{}", std::process::id());
    let run =
        RunId::new(&name).ok_or_else(|| Failure::new(Exit::Internal, format!("`{name}` names no run")))?;
    let options = PlanOptions {
        seed: arguments.seed,
        filter: arguments.task.clone(),
        judge: arguments.judge.spec()?,
        ..PlanOptions::new(run, PolicySpec::Noop, capacity::probe())
    };
    let plan = resolve_plan(&suites, &options)?;
    let tasks = chosen(&plan, !arguments.task.is_empty());
    // Tasks that cannot be checked are refused before anything starts.
    tasks.iter().try_for_each(|task| quick_call(task).map(drop))?;
    let machine = Machine::prepare(&[&plan], log)?;
    let executor = Executor::start(machine, FirstInterrupt::Cancel, Arc::new(log.clone()))?;
    let mut all = Vec::new();
    for task in &tasks {
        let checked = check(&executor, &plan, task, arguments.long_call.as_ref())?;
        if !arguments.json {
            print(&format!("{} ({})\n{}", checked.task, checked.kind, checked.report))?;
        }
        all.push(checked);
    }
    executor.end();
    let failed: usize = all.iter().map(|checked| checked.report.failed().len()).sum();
    if arguments.json {
        print_json(&all)?;
    } else {
        let passed = all.iter().filter(|checked| checked.passed).count();
        print(&format!("{passed} of {} environments conform\n", all.len()))?;
    }
    Ok(if failed == 0 { Exit::Success } else { Exit::ValidationFailed })
}

/// The first task of each kind of environment, or all tasks.
fn chosen(plan: &RunPlan, all: bool) -> Vec<Arc<TaskSpec>> {
    let mut kinds = HashSet::new();
    let first = |task: &&Arc<TaskSpec>| all || kinds.insert((task.suite.clone(), task.env.kind()));
    plan.tasks.iter().filter(first).cloned().collect()
}

fn check(
    executor: &Executor,
    plan: &RunPlan,
    task: &Arc<TaskSpec>,
    named: Option<&ToolCall>,
) -> Result<Checked, Failure> {
    let slot =
        plan.slots.first().copied().ok_or_else(|| Failure::new(Exit::Internal, "a plan without slots"))?;
    let plan = RunPlan {
        tasks: vec![Arc::clone(task)],
        slots: vec![SlotSpec { id: SlotId(0), task: TaskIndex(0), ..slot }],
        ..plan.clone()
    };
    let kind = task.env.kind();
    let runtime = executor.runtime();
    let case = Case {
        make_provider: Box::new(move || provider(&runtime, &plan, kind)),
        task: Arc::clone(task),
        quick_calls: vec![quick_call(task)?],
        long_calls: long_call(task, named).map(|call| vec![call]),
        ending_calls: Some(vec![ToolCall::new("submit", json!({}))]),
        deterministic: is_deterministic(task),
        patience: PATIENCE,
        at_once: AT_ONCE,
    };
    let report = executor.handle().block_on(async {
        match &task.env {
            EnvSpec::Custom(_) => check_custom(case).await,
            _ => check_provider(case).await,
        }
    });
    let passed = report.verdicts.iter().all(|verdict| !matches!(verdict.finding, Finding::Failed(_)));
    Ok(Checked { task: task.id.0.clone(), kind, passed, report })
}

/// A fresh provider, or one that reports why it cannot be created.
pub(super) fn provider(runtime: &Runtime, plan: &RunPlan, kind: &'static str) -> Arc<dyn EnvProvider> {
    match runtime.providers(plan, ProviderSettings { open_slots: 1, cast_bytes: 0 }) {
        Ok(mut providers) => providers
            .remove(kind)
            .unwrap_or_else(|| Arc::new(UnavailableProvider(format!("nothing provides `{kind}`")))),
        Err(failure) => Arc::new(UnavailableProvider(failure.to_string())),
    }
}

/// The first call of the task's oracle.
fn quick_call(task: &TaskSpec) -> Result<ToolCall, Failure> {
    let first =
        task.oracle.as_ref().and_then(|oracle| oracle.calls().iter().find(|call| call.name != "submit"));
    match (first, &task.env) {
        (Some(call), _) => Ok(call.clone()),
        (None, EnvSpec::Terminal(_)) => Ok(ToolCall::new("run", json!({ "command": "true" }))),
        (None, EnvSpec::Swe(_)) => Ok(ToolCall::new("bash", json!({ "command": "true" }))),
        (None, EnvSpec::Gui(_)) => Ok(ToolCall::new("wait", json!({ "seconds": 0 }))),
        (None, EnvSpec::Toolcall(_)) => Ok(ToolCall::new("submit", json!({ "answer": "" }))),
        (None, _) => Err(Failure::with_help(
            Exit::Refused,
            format!("the task `{}` has no oracle, so no call is known to try", task.id),
            "add `oracle: { actions: [{ call: { name: TOOL, arguments: {...} } }] }`",
        )),
    }
}

/// A blocking call, if one is known.
fn long_call(task: &TaskSpec, named: Option<&ToolCall>) -> Option<ToolCall> {
    match &task.env {
        EnvSpec::Terminal(_) => Some(ToolCall::new("run", json!({ "command": "sleep 1000" }))),
        EnvSpec::Swe(_) => Some(ToolCall::new("bash", json!({ "command": "sleep 1000" }))),
        EnvSpec::Toolcall(toolcall) => {
            let python = toolcall.tools.iter().find(|tool| tool.kind == ToolKind::Python)?;
            Some(ToolCall::new(&python.name, json!({ "code": "import time; time.sleep(1000)" })))
        }
        EnvSpec::Gui(_) => Some(ToolCall::new("wait", json!({ "seconds": 10 }))),
        EnvSpec::Custom(_) => named.cloned(),
        _ => None,
    }
}

/// Parses a call of the command line.
fn tool_call(text: &str) -> Result<ToolCall, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        name: String,
        #[serde(default)]
        arguments: serde_json::Map<String, serde_json::Value>,
    }
    let Written { name, arguments } = serde_json::from_str(text).map_err(|error| {
        format!("a call is written {{\"name\": TOOL, \"arguments\": {{...}}}}, but: {error}")
    })?;
    Ok(ToolCall::new(&name, arguments.into()))
}

/// Whether the environment repeats: commands may print anything, built-in tools always return the same.
fn is_deterministic(task: &TaskSpec) -> bool {
    match &task.env {
        EnvSpec::Toolcall(toolcall) => toolcall.workspace.is_none(),
        // The suite's own sites are constant; other origins may change.
        EnvSpec::Gui(gui) => gui.origins.is_empty(),
        EnvSpec::Custom(custom) => custom.deterministic,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_written_as_json() {
        let check = |text: &str, expected: Result<ToolCall, &str>| match (tool_call(text), expected) {
            (Ok(call), Ok(expected)) => assert_eq!(call, expected),
            (Err(told), Err(part)) => assert!(told.contains(part), "{told}"),
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        };
        check(r#"{"name": "wait"}"#, Ok(ToolCall::new("wait", json!({}))));
        let arguments = json!({ "seconds": 60 });
        check(r#"{"name": "wait", "arguments": {"seconds": 60}}"#, Ok(ToolCall::new("wait", arguments)));
        check("wait", Err("a call is written"));
        check(r#"{"name": "wait", "arguments": 60}"#, Err("expected a map"));
        check(r#"{"name": "wait", "args": {}}"#, Err("unknown field `args`"));
    }
}
