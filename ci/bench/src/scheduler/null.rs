//! An environment and a policy that do no work, and a plan with them.

use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;

use clawrl_core::{
    Action, ActionFormat, BoxFuture, CheckReport, CloseReport, Determinism, Env, EnvProvider, EnvSpec,
    FORMAT_VERSION, Fault, Grade, GroupId, LeaseRequest, Observation, Policy, PolicyRequest, PolicySpec,
    ProviderUsage, ResolvedLimits, RewardMap, RunId, RunPlan, SlotId, SlotSpec, StepCtx, StepResult,
    StopReason, SuiteRef, TaskId, TaskIndex, TaskSpec, TerminalSpec, Timeouts, ToolCall, ToolSpec,
    derive_seed,
};

/// Slots per group.
const GROUP: u32 = 8;

/// Yields to other tasks once.
async fn yield_once() {
    let mut yielded = false;
    poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Provider of environments that do nothing.
pub(crate) struct NullProvider;

impl EnvProvider for NullProvider {
    fn lease(&self, _request: LeaseRequest) -> BoxFuture<'_, Result<Box<dyn Env>, Fault>> {
        Box::pin(async {
            yield_once().await;
            let env: Box<dyn Env> = Box::new(NullEnv);
            Ok(env)
        })
    }

    fn usage(&self) -> ProviderUsage {
        ProviderUsage::default()
    }

    fn warm_up(&self, _count: u32) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }

    fn shutdown(&self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async { CloseReport::default() })
    }
}

struct NullEnv;

impl Env for NullEnv {
    fn reset(&mut self, _ctx: StepCtx) -> BoxFuture<'_, Result<Observation, Fault>> {
        Box::pin(async {
            yield_once().await;
            let tool = |name: &str, text_argument: Option<&str>| ToolSpec {
                name: name.to_owned(),
                description: String::new(),
                parameters: serde_json::json!({ "type": "object" }),
                text_argument: text_argument.map(str::to_owned),
            };
            let mut observation = Observation::from_text("$ ");
            observation.tools = vec![tool("run", Some("command")), tool("submit", None)];
            Ok(observation)
        })
    }

    fn step<'a>(
        &'a mut self,
        calls: &'a [ToolCall],
        _ctx: StepCtx,
    ) -> BoxFuture<'a, Result<StepResult, Fault>> {
        Box::pin(async move {
            yield_once().await;
            let end = calls.iter().any(|call| call.name == "submit").then_some(StopReason::Submitted);
            Ok(StepResult {
                observation: Observation::from_text("input.txt  notes.txt  out"),
                end,
                process_reward: None,
            })
        })
    }

    fn grade(&mut self, _ctx: StepCtx) -> BoxFuture<'_, Result<Grade, Fault>> {
        Box::pin(async {
            yield_once().await;
            let check =
                CheckReport { label: "null".to_owned(), score: 1.0, weight: 1.0, message: String::new() };
            Ok(Grade::from_checks(vec![check], Vec::new()))
        })
    }

    fn close(&mut self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async {
            yield_once().await;
            CloseReport::default()
        })
    }
}

/// Runs a command each turn and submits in the last.
pub(crate) struct NullPolicy {
    pub(crate) steps: u32,
}

impl Policy for NullPolicy {
    fn name(&self) -> &str {
        "null"
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        Box::pin(async move {
            yield_once().await;
            let text = if request.turn + 1 < self.steps { "ls -l src" } else { "submit" };
            Ok(Action { text: text.to_owned(), ..Action::default() })
        })
    }
}

/// A plan with this many slots, all of which may run concurrently.
pub(crate) fn plan(slots: u32, steps: u32) -> RunPlan {
    let seed = 1;
    let tasks = (0..slots.div_ceil(GROUP)).map(|number| Arc::new(task(number, steps))).collect();
    let slot = |number: u32| SlotSpec {
        id: SlotId(number),
        task: TaskIndex(number / GROUP),
        suite: 0,
        group: GroupId(number / GROUP),
        member: number % GROUP,
        env_seed: derive_seed(seed, "env", &[u64::from(number / GROUP)]),
        policy_seed: derive_seed(seed, "policy", &[u64::from(number)]),
    };
    let suite = SuiteRef {
        name: "bench".to_owned(),
        path: PathBuf::from("bench/suite.yaml"),
        sha256: "0".repeat(64),
        weight: 1,
    };
    RunPlan {
        format: FORMAT_VERSION,
        run: RunId::new("bench-scheduler").expect("letters and a dash"),
        seed,
        suites: vec![suite],
        judge: None,
        policy: PolicySpec::Noop,
        tasks,
        slots: (0..slots).map(slot).collect(),
        limits: ResolvedLimits { concurrency: slots, prewarm: 0, max_retries: 0, max_faults: None },
        determinism: Determinism::default(),
    }
}

fn task(number: u32, steps: u32) -> TaskSpec {
    let terminal = TerminalSpec::default();
    TaskSpec {
        id: TaskId(format!("bench/null#{number}")),
        suite: "bench".to_owned(),
        family: "null".to_owned(),
        instruction: "List the files of src until you are asked to stop.".to_owned(),
        env: EnvSpec::Terminal(terminal),
        checks: Vec::new(),
        verifier: None,
        reward: RewardMap::default(),
        oracle: None,
        mistakes: Vec::new(),
        action_format: ActionFormat::Raw,
        max_turns: steps,
        timeouts: Timeouts::default(),
    }
}
