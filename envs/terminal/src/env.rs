//! One terminal for one episode.
//!
//! I1. Dropping a step future poisons the environment.
//! I2. The same seed and the same actions give the same observations, if the programs are deterministic.
//!
//! Cancellation: `ctx.cancel` ends a step early. Dropping the environment kills its sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawrl_core::{
    Boundary, CloseReport, EnvSpec, Fault, Grade, LeaseRequest, Limit, Observation, Operations, Part,
    Progress, Retry, StepCtx, StepResult, TaskSpec, TerminalSpec, ToolCall, WorkspaceSpec,
};
use clawrl_sandbox::{StepEnd, StepLimits};
use clawrl_workspace::{Answer, GradeRequest, grade};

use crate::observe::Observed;
use crate::pool::TerminalShared;
use crate::ready::ReadyTerminal;
use crate::tools::{self, Call};

/// The environment of kind `terminal`.
pub(crate) struct TerminalEnv {
    shared: Arc<TerminalShared>,
    terminal: Option<ReadyTerminal>,
    task: Arc<TaskSpec>,
    label: String,
    seed: u64,
    /// Commands that every shell of this episode starts with.
    variables: String,
    last_end: Option<StepEnd>,
}

impl TerminalEnv {
    pub(crate) fn new(shared: Arc<TerminalShared>, terminal: ReadyTerminal, request: &LeaseRequest) -> Self {
        Self {
            shared,
            terminal: Some(terminal),
            task: Arc::clone(&request.task),
            label: format!("{}.{}", request.attempt, request.epoch.0),
            seed: request.seed,
            variables: String::new(),
            last_end: None,
        }
    }

    fn spec(task: &TaskSpec) -> Result<&TerminalSpec, Fault> {
        match &task.env {
            EnvSpec::Terminal(spec) => Ok(spec),
            other => {
                let message = format!("a terminal was leased for a task of kind `{}`", other.kind());
                Err(Fault::permanent(Boundary::Harness, "wrong-env", message))
            }
        }
    }

    fn terminal(&mut self) -> Result<&mut ReadyTerminal, Fault> {
        self.terminal.as_mut().ok_or_else(Progress::closed)
    }

    async fn prepare(&mut self, ctx: StepCtx) -> Result<Observation, Fault> {
        let task = Arc::clone(&self.task);
        let spec = Self::spec(&task)?;
        let shared = Arc::clone(&self.shared);
        let files = shared.fixtures.read(spec.files.clone()).await?;
        self.variables = shared.variables(self.seed, &spec.env);
        let variables = self.variables.clone();
        let terminal = self.terminal()?;
        terminal.sandbox.put(files).await?;
        let limits = StepLimits { deadline: ctx.deadline, cancel: &ctx.cancel };
        for command in std::iter::once(&variables).chain(&spec.setup) {
            let step = terminal.session.run(command, limits).await;
            set_up(&task, command, step, |end| end == StepEnd::Completed { exit_code: Some(0) })?;
        }
        if !spec.setup.is_empty() {
            // The agent gets a new shell: folder, variables, options and history of the setup do not reach it.
            let step = terminal.session.renew(limits).await;
            set_up(&task, "renew", step, |end| matches!(end, StepEnd::ShellReplaced { .. }))?;
            let step = terminal.session.run(&variables, limits).await;
            set_up(&task, &variables, step, |end| end == StepEnd::Completed { exit_code: Some(0) })?;
        }
        Ok(Observation { parts: Vec::<Part>::new(), tools: tools::specs(), ..Observation::default() })
    }

    async fn act(&mut self, calls: &[ToolCall], ctx: StepCtx) -> Result<StepResult, Fault> {
        let mut observed = Observed::default();
        let limits = StepLimits { deadline: ctx.deadline, cancel: &ctx.cancel };
        for call in calls {
            let last_end = self.last_end;
            let session = &mut self.terminal()?.session;
            let result = match tools::understand(call) {
                Err(error) => {
                    observed.refused(&error);
                    continue;
                }
                Ok(Call::Submit) => {
                    observed.submitted();
                    break;
                }
                Ok(Call::Run(command)) => match tools::control_key(command, last_end) {
                    Some(key) => session.send_keys(&key, limits).await,
                    None => session.run(command, limits).await,
                },
                Ok(Call::Keys(keys)) => session.send_keys(keys, limits).await,
                Ok(Call::Text(text)) => session.send_text(text, limits).await,
                Ok(Call::Wait(duration)) => session.wait(duration, limits).await,
                Ok(Call::Signal(signal)) => session.signal(signal, limits).await,
            };
            match self.terminal()?.settled(result).await? {
                Ok(output) => {
                    self.last_end = Some(output.end);
                    let variables = self.variables.clone();
                    self.terminal()?.set_again(&output, &variables, limits).await?;
                    observed.step(output);
                }
                Err(error) => observed.not_done(&error),
            }
            if observed.ended() {
                break;
            }
        }
        Ok(observed.into_result())
    }

    async fn judge(&mut self, ctx: StepCtx) -> Result<Grade, Fault> {
        let task = Arc::clone(&self.task);
        let shared = Arc::clone(&self.shared);
        let workspace = WorkspaceSpec::from(Self::spec(&task)?);
        let backend = shared.backend(workspace.sandbox)?.as_ref();
        let label = self.label.clone();
        let request = GradeRequest {
            sandbox: self.terminal()?.sandbox.as_ref(),
            backend,
            workspace: &workspace,
            task: &task,
            fixtures: &shared.fixtures,
            label: &label,
            answer: Answer::NotTaken,
            judged: BTreeMap::new(),
            flags: Vec::new(),
        };
        grade(request, &ctx).await
    }
}

impl Operations for TerminalEnv {
    async fn reset(&mut self, ctx: StepCtx) -> Result<Observation, Fault> {
        self.prepare(ctx).await
    }

    async fn step(&mut self, calls: &[ToolCall], ctx: StepCtx) -> Result<StepResult, Fault> {
        self.act(calls, ctx).await
    }

    async fn grade(&mut self, ctx: StepCtx) -> Result<Grade, Fault> {
        self.judge(ctx).await
    }

    async fn close(&mut self) -> CloseReport {
        match self.terminal.take() {
            Some(terminal) => terminal.close(self.shared.cast_bytes > 0).await,
            None => CloseReport::default(),
        }
    }
}

/// Exit codes from here on belong to shells that a signal ended, which may differ in another sandbox.
const KILLED: i32 = 128;

/// The fault of a setup step that did not end as required.
fn set_up(
    task: &TaskSpec,
    command: &str,
    step: clawrl_sandbox::StepResult,
    is_right: impl FnOnce(StepEnd) -> bool,
) -> Result<(), Fault> {
    let output = step.map_err(|error| setup_fault(command, &error.to_string()))?;
    match output.end {
        end if is_right(end) => Ok(()),
        StepEnd::TimedOut { .. } => Err(Fault::limit(Boundary::Env, Limit::Setup, task.timeouts.setup)),
        StepEnd::Cancelled => Err(Fault::transient(Boundary::Env, "cancelled", "reset was cancelled")),
        end
        @ (StepEnd::Completed { exit_code: Some(_) } | StepEnd::ShellReplaced { exit_code: ..KILLED }) => {
            Err(setup_fault(command, &format!("it {end}; output: {}", output.text)))
        }
        // The shell failed, not the command; another shell may succeed.
        end => {
            let fault = setup_fault(command, &format!("it {end}; output: {}", output.text));
            Err(Fault { retry: Retry::Sound, ..fault })
        }
    }
}

fn setup_fault(command: &str, what: &str) -> Fault {
    let what: String = what.chars().take(500).collect();
    Fault::permanent(Boundary::Env, "setup-failed", format!("setup command `{command}` failed: {what}"))
}
