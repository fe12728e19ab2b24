//! Tools for one episode.
//!
//! I1. Grading follows one order: live probes, then all processes of the agent are killed, then files, then commands on
//! copies in fresh sandboxes. Answers, calls and stores are in this process, where the agent cannot reach them.
//! I2. Dropping a step future poisons the environment.
//! I3. The same seed and the same actions give the same observations, if the programs are deterministic.
//!
//! Cancellation: `ctx.cancel` ends a step early; after that the environment can only be closed. Dropping the
//! environment kills its sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{
    AttemptId, Boundary, CloseReport, EnvSpec, Fault, Grade, LeaseRequest, Limit, McpDecl, McpShare,
    Observation, Operations, StepCtx, StepResult, StopReason, TaskSpec, ToolCall, ToolcallSpec,
    WorkspaceSpec,
};
use clawrl_redact::Redactor;
use clawrl_sandbox::Live;
use clawrl_workspace::{Answer, GradeRequest, JudgeContext, JudgeReports, check_invalid, grade};
use futures_util::future::{join_all, try_join_all};
use tokio::sync::Mutex;

use crate::action_calls::{JobContext, Programs, State, accept_calls, finish};
use crate::checks::by_rule;
use crate::mcp::{Server, ServerContext};
use crate::observe::observation;
use crate::provider::Shared;
use crate::python::Python;
use crate::ready_sandbox::{ReadySandbox, SandboxKey, interpreter_variables};
use crate::result::Outcome;
use crate::toolbox::Toolbox;

/// The environment of kind `toolcall`.
pub(crate) struct ToolcallEnv {
    shared: Arc<Shared>,
    task: Arc<TaskSpec>,
    toolbox: Toolbox,
    state: State,
    /// `None` if the task needs no sandbox, and after `close`.
    ready: Option<ReadySandbox>,
    /// Set at reset, if the task has an interpreter.
    python: Option<Mutex<Python>>,
    /// The task's servers, connected at reset.
    servers: Vec<Server>,
    /// Removes the secrets of the task from results and faults.
    redactor: Redactor,
    /// Environment variables of commands, set at reset.
    environment: BTreeMap<String, String>,
    attempt: AttemptId,
    label: String,
    seed: u64,
    /// Counts an environment without a sandbox; one with a sandbox is counted with that.
    live: Option<Live>,
}

impl ToolcallEnv {
    pub(crate) fn new(
        shared: Arc<Shared>,
        toolbox: Toolbox,
        ready: Option<ReadySandbox>,
        request: &LeaseRequest,
    ) -> Self {
        let live = ready.is_none().then(|| shared.count.begin());
        Self {
            shared,
            task: Arc::clone(&request.task),
            toolbox,
            state: State::default(),
            ready,
            python: None,
            servers: Vec::new(),
            redactor: Redactor::default(),
            environment: BTreeMap::new(),
            attempt: request.attempt,
            label: format!("{}.{}", request.attempt, request.epoch.0),
            seed: request.seed,
            live,
        }
    }

    async fn prepare(&mut self, ctx: StepCtx) -> Result<Observation, Fault> {
        let task = Arc::clone(&self.task);
        let spec = spec_of(&task)?;
        self.state = State::new(spec);
        self.redactor = self.shared.secrets.of(spec);
        if spec.workspace.is_some() || !spec.mcp.is_empty() {
            let limit = task.timeouts.setup;
            tokio::select! {
                biased;
                () = ctx.cancel.cancelled() => Err(cancelled()),
                furnished = tokio::time::timeout_at(ctx.deadline.into(), self.set_up(spec, ctx.deadline)) => {
                    furnished.unwrap_or_else(|_| Err(Fault::limit(Boundary::Env, Limit::Setup, limit)))
                }
            }
            .map_err(|fault| self.redactor.redact_fault(fault))?;
        }
        Ok(Observation { tools: self.toolbox.offered(), ..Observation::default() })
    }

    async fn set_up(&mut self, spec: &ToolcallSpec, deadline: Instant) -> Result<(), Fault> {
        if let Some(workspace) = &spec.workspace {
            self.populate(workspace).await?;
        }
        self.connect(spec, deadline).await
    }

    /// Connects to the servers of the task concurrently, and adds their tools.
    async fn connect(&mut self, spec: &ToolcallSpec, deadline: Instant) -> Result<(), Fault> {
        let sandbox_key = SandboxKey::of(spec).map(SandboxKey::without_interpreter);
        // A server shared by all attempts cannot have the seed of one.
        let of_all = || {
            let own = spec.workspace.as_ref().map(|workspace| workspace.env.clone()).unwrap_or_default();
            interpreter_variables(own, &self.shared.determinism)
        };
        let server = |decl: &McpDecl| {
            let environment = match decl.share {
                McpShare::Attempt => self.environment.clone(),
                McpShare::Run => of_all(),
            };
            Server::new(decl.clone(), environment, sandbox_key.clone(), self.redactor.clone())
        };
        self.servers = spec.mcp.iter().map(server).collect();
        let sandbox = self.ready.as_ref().map(|ready| ready.sandbox.as_ref());
        let on = ServerContext { shared: &self.shared, sandbox };
        let served = try_join_all(self.servers.iter().map(|server| server.begin(on, deadline))).await?;
        self.toolbox.retain_declared();
        for (index, (decl, served)) in spec.mcp.iter().zip(served).enumerate() {
            self.toolbox.add(decl, index, served, &self.shared.schemas)?;
        }
        Ok(())
    }

    /// Writes the task's files, and configures the interpreter for the episode.
    async fn populate(&mut self, workspace: &WorkspaceSpec) -> Result<(), Fault> {
        let files = self.shared.fixtures.read(workspace.files.clone()).await?;
        let determinism = &self.shared.determinism;
        let ready = self.ready.as_mut().ok_or_else(no_place)?;
        ready.sandbox.put(files).await?;
        let hash_seed = determinism.python_hash_seed.is_none().then(|| (self.seed as u32).to_string());
        self.environment = workspace.env.clone();
        if let Some(seed) = &hash_seed {
            self.environment.entry("PYTHONHASHSEED".to_owned()).or_insert_with(|| seed.clone());
        }
        if let Some(interpreter) = ready.interpreter.take() {
            let variables = interpreter_variables(workspace.env.clone(), determinism);
            let hash_seed = self.environment.get("PYTHONHASHSEED").cloned();
            self.python = Some(Mutex::new(Python::begin(interpreter, variables, self.seed, hash_seed).await));
        }
        Ok(())
    }

    async fn act(&mut self, calls: &[ToolCall], ctx: StepCtx) -> Result<StepResult, Fault> {
        let task = Arc::clone(&self.task);
        let spec = spec_of(&task)?;
        let taken = accept_calls(calls, spec, &self.toolbox, &self.servers, &mut self.state);
        let programs = self.ready.as_ref().map(|ready| Programs {
            sandbox: ready.sandbox.as_ref(),
            python: self.python.as_ref(),
            environment: &self.environment,
        });
        let ground = JobContext { programs, servers: &self.servers, shared: &self.shared };
        let results = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => Err(cancelled()),
            results = finish(taken.jobs, ground, ctx.deadline) => results,
        };
        let mut results = results.map_err(|fault| self.redactor.redact_fault(fault))?;
        // Before the text is cut to the policy's budget: half a secret is still too much.
        results.iter_mut().for_each(|(_, result)| result.redact(&self.redactor));
        let refused = results.iter().filter(|(_, result)| result.outcome == Outcome::Refused).count();
        let State { call_log, earnings, .. } = &mut self.state;
        let process_reward = earnings.step(&spec.step_rewards, call_log, refused);
        Ok(StepResult {
            observation: observation(&results, spec.observation_chars as usize),
            end: taken.submitted.then_some(StopReason::Submitted),
            process_reward,
        })
    }

    async fn judged(&mut self, ctx: StepCtx) -> Result<Grade, Fault> {
        let spec = spec_of(&self.task)?;
        let mut judged = by_rule(&self.task.checks, &self.state)?;
        let (by_judge, judge_usage) = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => {
                return Err(Fault::transient(Boundary::Grader, "cancelled", "the attempt was cancelled"));
            }
            asked = tokio::time::timeout_at(ctx.deadline.into(), self.asked(&ctx, judged.len())) => {
                let limit = self.task.timeouts.grade;
                asked.unwrap_or_else(|_| Err(Fault::limit(Boundary::Grader, Limit::Grade, limit)))?
            }
        };
        judged.extend(by_judge);
        let with_usage = |grade| Grade { judge_usage, ..grade };
        let (Some(ready), Some(workspace)) = (&self.ready, &spec.workspace) else {
            if judged.len() < self.task.checks.len() || self.task.verifier.is_some() {
                return Err(check_invalid("it needs a workspace, and the task has none"));
            }
            return Ok(with_usage(Grade::from_checks(judged.into_values().collect(), Vec::new())));
        };
        let request = GradeRequest {
            sandbox: ready.sandbox.as_ref(),
            backend: self.shared.backend(workspace.sandbox)?.as_ref(),
            workspace,
            task: &self.task,
            fixtures: &self.shared.fixtures,
            label: &self.label,
            answer: self.state.answer.as_deref().map_or(Answer::Missing, Answer::Given),
            judged,
            flags: Vec::new(),
        };
        grade(request, &ctx).await.map(with_usage)
    }

    /// The judge's reports on the answer, if there are rubrics. No program of the agent needs to run meanwhile (I1): no
    /// check of tools inspects processes.
    async fn asked(&self, ctx: &StepCtx, by_rule: usize) -> Result<JudgeReports, Fault> {
        let rubrics = self.task.rubrics().count();
        if rubrics == 0 {
            return Ok(JudgeReports::default());
        }
        if let Some(ready) = &self.ready {
            ready.sandbox.halt().await?;
        }
        let mut deadline = ctx.deadline;
        if by_rule + rubrics < self.task.checks.len() {
            // The other half is for the checks of the workspace.
            deadline -= deadline.saturating_duration_since(Instant::now()) / 2;
        }
        let asking = JudgeContext {
            judge: self.shared.judge.as_deref(),
            attempt: self.attempt,
            task: &self.task,
            answer: self.state.answer.as_deref(),
            seed: self.seed,
            deadline,
            cancel: &ctx.cancel,
        };
        asking.ask().await
    }
}

impl Operations for ToolcallEnv {
    async fn reset(&mut self, ctx: StepCtx) -> Result<Observation, Fault> {
        self.prepare(ctx).await
    }

    async fn step(&mut self, calls: &[ToolCall], ctx: StepCtx) -> Result<StepResult, Fault> {
        self.act(calls, ctx).await
    }

    async fn grade(&mut self, ctx: StepCtx) -> Result<Grade, Fault> {
        self.judged(ctx).await
    }

    async fn close(&mut self) -> CloseReport {
        let mut leftovers = Vec::new();
        join_all(self.servers.iter().map(Server::end)).await;
        self.servers.clear();
        if let Some(ready) = self.ready.take() {
            if let Err(fault) = ready.sandbox.kill().await {
                leftovers.push(fault.message);
            }
            // After the sandbox, whose end has ended its programs.
            drop(ready);
            self.python = None;
        }
        self.live = None;
        CloseReport { leftovers, cast: None }
    }

    /// After a fault, programs may still run unattended.
    fn survives_faulted_step(&self) -> bool {
        false
    }
}

fn spec_of(task: &TaskSpec) -> Result<&ToolcallSpec, Fault> {
    match &task.env {
        EnvSpec::Toolcall(spec) => Ok(spec),
        other => {
            let message = format!("tools were leased for a task of kind `{}`", other.kind());
            Err(Fault::permanent(Boundary::Harness, "wrong-env", message))
        }
    }
}

fn cancelled() -> Fault {
    Fault::transient(Boundary::Env, "cancelled", "the attempt was cancelled")
}

fn no_place() -> Fault {
    Fault::permanent(Boundary::Harness, "no-sandbox", "a task with a workspace was given no sandbox")
}
