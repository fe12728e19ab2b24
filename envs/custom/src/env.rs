//! One episode of a user-provided environment.
//!
//! I1. No request is sent twice (I7 of the architecture).
//! I2. Dropping a step future poisons the environment.
//! I3. An operation that runs out of time leaves the environment usable: an attempt that has used up its time is still
//! graded, if the environment answers that. An operation whose time is up before it starts is not sent.
//! I4. A session that was opened is closed, whatever happened to it.
//!
//! Cancellation: `ctx.cancel` ends an operation early; after that the environment can only be closed. Dropping the
//! environment kills its sandbox, or informs its server in the background.

use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{
    Boundary, BoxFuture, CloseReport, CustomSpec, Env, EnvSpec, Fault, Grade, LeaseRequest, Limit,
    Observation, Progress, StepCtx, StepResult, StopReason, TaskSpec, ToolCall,
};
use clawrl_sandbox::Live;

use crate::peer::{EpisodeStart, Peer};
use crate::peer_error::{Operation, PeerError};
use crate::provider::Shared;
use crate::tools::SUBMIT;

/// The [`Env`] of the kinds `process`, `http` and `openenv`.
pub(crate) struct CustomEnv {
    shared: Arc<Shared>,
    task: Arc<TaskSpec>,
    /// `None` after `close`.
    peer: Option<Peer>,
    session: String,
    seed: u64,
    /// Whether a reset was sent, so that there is a session to close.
    opened: bool,
    own_submit: bool,
    answer: Option<String>,
    progress: Progress,
    /// Counts an environment without a sandbox; one with a sandbox is counted with that.
    live: Option<Live>,
}

impl CustomEnv {
    pub(crate) fn new(shared: Arc<Shared>, peer: Peer, request: &LeaseRequest) -> Self {
        let live = (!matches!(peer, Peer::Process(_))).then(|| shared.count.begin());
        let session = format!("{}.{}.{}", shared.run, request.attempt, request.epoch.0);
        Self {
            shared,
            task: Arc::clone(&request.task),
            peer: Some(peer),
            session,
            seed: request.seed,
            opened: false,
            own_submit: false,
            answer: None,
            progress: Progress::default(),
            live,
        }
    }

    /// Ends an operation; converts its error to a fault.
    fn end<T>(&mut self, result: Result<T, PeerError>, operation: Operation) -> Result<T, Fault> {
        if matches!(result, Ok(_) | Err(PeerError::Late)) {
            self.progress.end();
        }
        result.map_err(|trouble| {
            let words = self.peer.as_mut().and_then(Peer::last_words);
            trouble.fault(operation, words)
        })
    }

    async fn prepare(&mut self, ctx: &StepCtx) -> Result<Observation, PeerError> {
        let task = Arc::clone(&self.task);
        let spec = spec_of(&task).map_err(PeerError::Fault)?;
        let peer = self.peer.as_mut().ok_or_else(|| PeerError::Fault(Progress::closed()))?;
        let opening = EpisodeStart {
            session: &self.session,
            task: &task,
            config: &spec.config,
            seed: self.seed,
            budget: spec.observation_chars as usize,
        };
        self.opened = true;
        let opened = unless_over(ctx, peer.reset(&opening, ctx.deadline)).await?;
        self.own_submit = opened.own_submit;
        Ok(opened.observation)
    }

    async fn act(&mut self, calls: &[ToolCall], ctx: &StepCtx) -> Result<StepResult, PeerError> {
        let spec = spec_of(&self.task).map_err(PeerError::Fault)?;
        let submit = if self.own_submit { None } else { calls.iter().position(|call| call.name == SUBMIT) };
        let asked = &calls[..submit.unwrap_or(calls.len())];
        let mut result = StepResult { observation: Observation::default(), end: None, process_reward: None };
        if submit.is_none() || !asked.is_empty() {
            let budget = spec.observation_chars as usize;
            let peer = self.peer.as_mut().ok_or_else(|| PeerError::Fault(Progress::closed()))?;
            let step = peer.step(&self.session, ctx.seq, asked, budget, ctx.deadline);
            let stepped = unless_over(ctx, step).await?;
            self.own_submit = stepped.own_submit.unwrap_or(self.own_submit);
            result = stepped.result;
        }
        // An earlier call may have made the environment end the episode.
        if let (Some(at), None) = (submit, &result.end) {
            self.answer = calls[at].str_argument("answer").map(str::to_owned);
            result.end = Some(StopReason::Submitted);
        }
        Ok(result)
    }

    async fn judged(&mut self, ctx: &StepCtx) -> Result<Grade, PeerError> {
        let peer = self.peer.as_mut().ok_or_else(|| PeerError::Fault(Progress::closed()))?;
        let grade = peer.grade(&self.session, self.answer.as_deref(), ctx.deadline);
        unless_over(ctx, grade).await
    }

    fn operation(&self, limit: Limit) -> Operation {
        let timeouts = &self.task.timeouts;
        let (boundary, length) = match limit {
            Limit::Grade => (Boundary::Grader, timeouts.grade),
            Limit::Setup => (Boundary::Env, timeouts.setup),
            _ => (Boundary::Env, timeouts.step),
        };
        Operation { boundary, limit, length }
    }
}

/// Runs an operation, unless its result would be useless (I3).
async fn unless_over<T>(
    ctx: &StepCtx,
    operation: impl Future<Output = Result<T, PeerError>>,
) -> Result<T, PeerError> {
    if !ctx.cancel.is_cancelled() && ctx.deadline <= Instant::now() {
        return Err(PeerError::Late);
    }
    tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => Err(PeerError::Cancelled),
        result = operation => result,
    }
}

impl Env for CustomEnv {
    fn reset(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Observation, Fault>> {
        Box::pin(async move {
            self.progress.begin()?;
            let result = self.prepare(&ctx).await;
            self.end(result, self.operation(Limit::Setup))
        })
    }

    fn step<'a>(
        &'a mut self,
        calls: &'a [ToolCall],
        ctx: StepCtx,
    ) -> BoxFuture<'a, Result<StepResult, Fault>> {
        Box::pin(async move {
            self.progress.begin()?;
            let result = self.act(calls, &ctx).await;
            self.end(result, self.operation(Limit::Step))
        })
    }

    fn grade(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Grade, Fault>> {
        Box::pin(async move {
            self.progress.begin()?;
            let result = self.judged(&ctx).await;
            self.end(result, self.operation(Limit::Grade))
        })
    }

    fn close(&mut self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            let is_idle = self.progress.close();
            let mut leftovers = Vec::new();
            if let Some(mut peer) = self.peer.take() {
                // A server keeps a session that is not closed; a stuck program ends with its sandbox.
                if self.opened && (is_idle || !matches!(peer, Peer::Process(_))) {
                    peer.close(&self.session).await;
                }
                if let Peer::Process(place) = peer {
                    if let Err(fault) = place.sandbox.kill().await {
                        leftovers.push(fault.message);
                    }
                    drop(place);
                }
            }
            self.live = None;
            CloseReport { leftovers, cast: None }
        })
    }
}

/// Informs the server in the background; the provider's shutdown waits for that.
impl Drop for CustomEnv {
    fn drop(&mut self) {
        let Some(mut peer) = self.peer.take() else { return };
        if matches!(peer, Peer::Process(_)) || !self.opened {
            return;
        }
        if tokio::runtime::Handle::try_current().is_ok() {
            let (session, live) = (std::mem::take(&mut self.session), self.live.take());
            self.shared.closing_sessions.spawn(async move {
                peer.close(&session).await;
                drop(live);
            });
        }
    }
}

fn spec_of(task: &TaskSpec) -> Result<&CustomSpec, Fault> {
    match &task.env {
        EnvSpec::Custom(spec) => Ok(spec),
        other => {
            let message = format!("a custom environment was leased for a task of kind `{}`", other.kind());
            Err(Fault::permanent(Boundary::Harness, "wrong-env", message))
        }
    }
}
