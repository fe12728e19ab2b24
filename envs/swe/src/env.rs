//! One repository for one episode.
//!
//! N1. Dropping a step future poisons the environment.
//! N2. The same seed and the same actions give the same observations, if the programs are deterministic.
//!
//! Cancellation: `ctx.cancel` ends a step early. Dropping the environment kills its sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawrl_core::{
    Boundary, CloseReport, EnvSpec, Fault, Grade, LeaseRequest, Limit, Observation, Operations, Progress,
    StepCtx, StepResult, SweSpec, TaskSpec, ToolCall,
};
use clawrl_sandbox::{JobSignal, StepEnd, StepLimits};
use clawrl_terminal::{Observed, ReadyTerminal, TerminalShared};

use crate::editing::{self, ToolOutput};
use crate::grading::{Grading, grade};
use crate::prepare::{TaskInputs, prepare};
use crate::tools::{self, Call};

/// The environment of kind `swe`.
pub(crate) struct SweEnv {
    shared: Arc<TerminalShared>,
    terminal: Option<ReadyTerminal>,
    task: Arc<TaskSpec>,
    label: String,
    seed: u64,
    /// The submitted diff.
    patch: Option<String>,
    /// Commands that every shell of this episode starts with.
    beginning: String,
}

impl SweEnv {
    pub(crate) fn new(shared: Arc<TerminalShared>, terminal: ReadyTerminal, request: &LeaseRequest) -> Self {
        Self {
            shared,
            terminal: Some(terminal),
            task: Arc::clone(&request.task),
            label: format!("{}.{}", request.attempt, request.epoch.0),
            seed: request.seed,
            patch: None,
            beginning: String::new(),
        }
    }

    fn spec(task: &TaskSpec) -> Result<&SweSpec, Fault> {
        match &task.env {
            EnvSpec::Swe(spec) => Ok(spec),
            other => {
                let message = format!("a repository was leased for a task of kind `{}`", other.kind());
                Err(Fault::permanent(Boundary::Harness, "wrong-env", message))
            }
        }
    }

    fn terminal(&mut self) -> Result<&mut ReadyTerminal, Fault> {
        self.terminal.as_mut().ok_or_else(Progress::closed)
    }

    /// Environment variables of the task's own commands, in the agent's sandbox and in that of the tests.
    fn variables(&self, spec: &SweSpec) -> BTreeMap<String, String> {
        let mut variables = spec.workspace.env.clone();
        if self.shared.determinism.python_hash_seed.is_none() {
            variables.entry("PYTHONHASHSEED".to_owned()).or_insert_with(|| (self.seed as u32).to_string());
        }
        // A pager could not be quit here.
        for pager in ["PAGER", "GIT_PAGER"] {
            variables.entry(pager.to_owned()).or_insert_with(|| "cat".to_owned());
        }
        variables
    }

    async fn prepare(&mut self, ctx: StepCtx) -> Result<Observation, Fault> {
        let task = Arc::clone(&self.task);
        let spec = Self::spec(&task)?;
        let shared = Arc::clone(&self.shared);
        let ingredients = TaskInputs::read(spec, &shared.fixtures).await?;
        let variables = self.variables(spec);
        let mut line = shared.variables(self.seed, &variables);
        if let Some(activate) = &spec.activate {
            line.push('\n');
            line.push_str(activate);
        }
        self.beginning.clone_from(&line);
        let terminal = self.terminal()?;
        let ready = async {
            prepare(terminal.sandbox.as_ref(), spec, ingredients, &variables, ctx.deadline).await?;
            let limits = StepLimits { deadline: ctx.deadline, cancel: &ctx.cancel };
            let output = terminal
                .session
                .run(&line, limits)
                .await
                .map_err(|error| Fault::transient(Boundary::Env, "setup-failed", error.to_string()))?;
            match output.end {
                StepEnd::Completed { exit_code: Some(0) } => Ok(()),
                end => {
                    let text: String = output.text.chars().take(500).collect();
                    let message = format!("failed to prepare the shell: `activate` {end}; output: {text}");
                    Err(Fault::permanent(Boundary::Env, "setup-failed", message))
                }
            }
        };
        tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => {
                return Err(Fault::transient(Boundary::Env, "cancelled", "reset was cancelled"));
            }
            ready = tokio::time::timeout_at(ctx.deadline.into(), ready) => match ready {
                Ok(ready) => ready?,
                Err(_) => return Err(Fault::limit(Boundary::Env, Limit::Setup, task.timeouts.setup)),
            }
        }
        Ok(Observation { tools: tools::specs(), ..Observation::default() })
    }

    async fn act(&mut self, calls: &[ToolCall], ctx: StepCtx) -> Result<StepResult, Fault> {
        let mut observed = Observed::default();
        let budget = Self::spec(&self.task)?.observation_chars as usize;
        for call in calls {
            match tools::understand(call) {
                Err(error) => observed.refused(&error),
                Ok(Call::Submit { patch }) => {
                    self.patch = patch.map(str::to_owned);
                    observed.submitted();
                }
                Ok(Call::Bash(command)) => self.bash(command, &ctx, &mut observed).await?,
                Ok(Call::View { path, lines }) => {
                    let sandbox = self.terminal()?.sandbox.as_ref();
                    let seen = editing::view(sandbox, path, lines, budget, ctx.deadline).await?;
                    show(seen, &mut observed);
                }
                Ok(Call::Edit { path, old, new }) => {
                    let sandbox = self.terminal()?.sandbox.as_ref();
                    let seen = editing::edit(sandbox, path, old, new, ctx.deadline).await?;
                    show(seen, &mut observed);
                }
            }
            if observed.ended() {
                break;
            }
        }
        Ok(observed.into_result())
    }

    /// A program that waits for input is interrupted, and killed if it ignores that, because no input will come. An
    /// incomplete command is dropped.
    async fn bash(&mut self, command: &str, ctx: &StepCtx, observed: &mut Observed) -> Result<(), Fault> {
        let limits = || StepLimits { deadline: ctx.deadline, cancel: &ctx.cancel };
        let beginning = self.beginning.clone();
        let terminal = self.terminal()?;
        let mut step = terminal.session.run(command, limits()).await;
        for signal in [Some(JobSignal::Int), Some(JobSignal::Kill), None] {
            let output = match terminal.settled(step).await? {
                Err(error) => {
                    observed.not_done(&error);
                    return Ok(());
                }
                Ok(output) => output,
            };
            let end = output.end;
            terminal.set_again(&output, &beginning, limits()).await?;
            if end == StepEnd::Incomplete {
                observed.dropped(output);
            } else {
                observed.step(output);
            }
            step = match (end, signal) {
                (StepEnd::Running, Some(signal)) => {
                    observed.push_text("[there is no more input: interrupted]".to_owned(), None);
                    terminal.session.signal(signal, limits()).await
                }
                (StepEnd::Incomplete, Some(_)) => {
                    let dropped = terminal.session.drop_line(limits()).await;
                    if matches!(&dropped, Ok(output) if matches!(output.end, StepEnd::Completed { .. })) {
                        return Ok(());
                    }
                    dropped
                }
                _ => return Ok(()),
            };
        }
        Ok(())
    }

    async fn judge(&mut self, ctx: StepCtx) -> Result<Grade, Fault> {
        let (task, shared) = (Arc::clone(&self.task), Arc::clone(&self.shared));
        let spec = Self::spec(&task)?;
        let (label, patch, variables) = (self.label.clone(), self.patch.clone(), self.variables(spec));
        let grading = Grading {
            backend: shared.backend(spec.workspace.sandbox)?.as_ref(),
            sandbox: self.terminal()?.sandbox.as_ref(),
            task: &task,
            spec,
            fixtures: &shared.fixtures,
            label: &label,
            variables: &variables,
            patch: patch.as_deref(),
        };
        grade(grading, &ctx).await
    }
}

fn show(seen: ToolOutput, observed: &mut Observed) {
    match seen {
        Ok((text, full_text)) => observed.push_text(text, full_text),
        Err(reason) => observed.not_done(&reason),
    }
}

impl Operations for SweEnv {
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
