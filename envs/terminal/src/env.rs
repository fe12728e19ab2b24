//! One terminal for one episode.
//!
//! I1. A step future that was dropped poisons the environment. I2. The same seed and the same actions give the same
//! observations, as far as the programs do.
//!
//! Cancellation: `ctx.cancel` ends a step early. Dropping the environment kills its sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    Boundary, BoxFuture, CloseReport, Env, EnvSpec, Fault, Grade, LeaseRequest, Limit, Observation, Part,
    Retry, StepCtx, StepResult, TaskSpec, TerminalSpec, ToolCall, WorkspaceSpec,
};
use clawrl_sandbox::{ShellError, StepEnd, StepLimits, StepOutput};
use clawrl_workspace::{Answer, GradeRequest, grade};

use crate::observe::Observed;
use crate::provider::{ReadyTerminal, Shared};
use crate::tools::{self, Call};

/// The [`Env`] of kind `terminal`.
pub(crate) struct TerminalEnv {
    shared: Arc<Shared>,
    terminal: Option<ReadyTerminal>,
    task: Arc<TaskSpec>,
    label: String,
    seed: u64,
    /// Set while an operation runs: what finds it set was preceded by one that was dropped.
    busy: bool,
    cast: Option<String>,
}

impl TerminalEnv {
    pub(crate) fn new(shared: Arc<Shared>, terminal: ReadyTerminal, request: &LeaseRequest) -> Self {
        Self {
            shared,
            terminal: Some(terminal),
            task: Arc::clone(&request.task),
            label: format!("{}.{}", request.attempt, request.epoch.0),
            seed: request.seed,
            busy: false,
            cast: None,
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

    /// Starts an operation: refuses after a dropped one and after `close`.
    fn begin(&mut self) -> Result<(), Fault> {
        if self.busy {
            let message = "an operation was dropped half-way; the environment can only be closed";
            return Err(Fault::permanent(Boundary::Harness, "poisoned", message));
        }
        if self.terminal.is_none() {
            return Err(Fault::permanent(Boundary::Harness, "closed", "the environment was closed"));
        }
        self.busy = true;
        Ok(())
    }

    fn terminal(&mut self) -> Result<&mut ReadyTerminal, Fault> {
        self.terminal
            .as_mut()
            .ok_or_else(|| Fault::permanent(Boundary::Harness, "closed", "the environment was closed"))
    }

    async fn prepare(&mut self, ctx: StepCtx) -> Result<Observation, Fault> {
        let task = Arc::clone(&self.task);
        let spec = Self::spec(&task)?;
        let shared = Arc::clone(&self.shared);
        let files = shared.fixtures.read(spec.files.clone()).await?;
        let variables = self.variables(spec);
        let terminal = self.terminal()?;
        terminal.sandbox.put(files).await?;
        for command in std::iter::once(&variables).chain(&spec.setup) {
            let limits = StepLimits { deadline: ctx.deadline, cancel: &ctx.cancel };
            let output = terminal
                .session
                .run(command, limits)
                .await
                .map_err(|error| setup_fault(command, &error.to_string()))?;
            match output.end {
                StepEnd::Completed { exit_code: Some(0) } => {}
                StepEnd::TimedOut { .. } => {
                    return Err(Fault::limit(Boundary::Env, Limit::Setup, task.timeouts.setup));
                }
                StepEnd::Cancelled => {
                    return Err(Fault::transient(Boundary::Env, "cancelled", "reset was given up"));
                }
                end @ StepEnd::Completed { exit_code: Some(_) } => {
                    return Err(setup_fault(command, &format!("{end:?}: {}", output.text)));
                }
                // Not the command's answer, but a shell that lost its way: another one may do.
                end => {
                    let fault = setup_fault(command, &format!("{end:?}: {}", output.text));
                    return Err(Fault { retry: Retry::Sound, ..fault });
                }
            }
        }
        Ok(Observation { parts: Vec::<Part>::new(), tools: tools::specs(), ..Observation::default() })
    }

    /// One line of shell that sets what depends on the task or the seed. `RANDOM` is bash's own generator.
    fn variables(&self, spec: &TerminalSpec) -> String {
        let mut line = format!("RANDOM={}", self.seed & 0x7fff);
        if self.shared.determinism.python_hash_seed.is_none() {
            line.push_str(&format!("; export PYTHONHASHSEED={}", self.seed as u32));
        }
        for (name, value) in &spec.env {
            line.push_str(&format!("; export {name}={}", quoted(value)));
        }
        line
    }

    async fn act(&mut self, calls: &[ToolCall], ctx: StepCtx) -> Result<StepResult, Fault> {
        let mut observed = Observed::default();
        let limits = StepLimits { deadline: ctx.deadline, cancel: &ctx.cancel };
        for call in calls {
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
                Ok(Call::Run(command)) => session.run(command, limits).await,
                Ok(Call::Keys(keys)) => session.send_keys(keys, limits).await,
                Ok(Call::Text(text)) => session.send_text(text, limits).await,
                Ok(Call::Wait(duration)) => session.wait(duration, limits).await,
                Ok(Call::Signal(signal)) => session.signal(signal, limits).await,
            };
            match result {
                Ok(output) => {
                    if output.end == StepEnd::ShellExited {
                        self.refuse_lost().await?;
                    }
                    observed.step(output);
                }
                // The agent asked for what cannot be done; it is told.
                Err(error @ (ShellError::Command(_) | ShellError::Keys(_))) => observed.not_done(&error),
                Err(ShellError::Gone) => {
                    self.refuse_lost().await?;
                    observed.step(gone());
                }
                Err(error) => {
                    self.refuse_lost().await?;
                    return Err(Fault::transient(Boundary::Env, "terminal", chain(&error)));
                }
            }
            if observed.ended() {
                break;
            }
        }
        Ok(observed.into_result())
    }

    /// A shell that ended with its sandbox, which nothing inside can end, is no end of the episode.
    async fn refuse_lost(&mut self) -> Result<(), Fault> {
        match self.terminal()?.sandbox.lost().await {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
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

impl Env for TerminalEnv {
    fn reset(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Observation, Fault>> {
        Box::pin(async move {
            self.begin()?;
            let result = self.prepare(ctx).await;
            self.busy = false;
            result
        })
    }

    fn step<'a>(
        &'a mut self,
        calls: &'a [ToolCall],
        ctx: StepCtx,
    ) -> BoxFuture<'a, Result<StepResult, Fault>> {
        Box::pin(async move {
            self.begin()?;
            let result = self.act(calls, ctx).await;
            self.busy = false;
            result
        })
    }

    fn grade(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Grade, Fault>> {
        Box::pin(async move {
            self.begin()?;
            let result = self.judge(ctx).await;
            self.busy = false;
            result
        })
    }

    fn close(&mut self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            let mut leftovers = Vec::new();
            if let Some(terminal) = self.terminal.take() {
                self.cast = (self.shared.cast_bytes > 0).then(|| terminal.session.cast());
                if let Err(fault) = terminal.sandbox.kill().await {
                    leftovers.push(fault.message);
                }
            }
            CloseReport { leftovers, cast: self.cast.take() }
        })
    }
}

fn setup_fault(command: &str, what: &str) -> Fault {
    let what: String = what.chars().take(500).collect();
    Fault::permanent(Boundary::Env, "setup-failed", format!("setup command `{command}` failed: {what}"))
}

/// What a step on a shell that is gone comes to.
fn gone() -> StepOutput {
    StepOutput {
        end: StepEnd::ShellExited,
        text: String::new(),
        full_text: None,
        screen: None,
        folder: None,
        duration: Duration::ZERO,
        notes: Vec::new(),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

/// A word that the shell reads as exactly this text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
