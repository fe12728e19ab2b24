//! Environments: providers lease them, executors drive them.

use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::{
    AttemptId, BlobStore, BoxFuture, CancelToken, Epoch, Fault, Grade, Observation, TaskSpec, ToolCall,
};

/// Request for an environment.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// The task; its `env` is of the provider's kind.
    pub task: Arc<TaskSpec>,
    /// For labels and logs.
    pub attempt: AttemptId,
    /// Fencing epoch, part of every label, so that leftovers of earlier leases can be recognised.
    pub epoch: Epoch,
    /// Seed of the environment side: a function of the slot only, equal for all members of a group.
    pub seed: u64,
    /// The lease is worthless after this: a lease-limit fault.
    pub deadline: Instant,
    /// Fires when the attempt is given up.
    pub cancel: CancelToken,
    /// Keeps pictures that observations name, for the environment's whole life.
    pub blobs: Arc<dyn BlobStore>,
}

/// Context of one operation on an environment.
#[derive(Debug, Clone)]
pub struct StepCtx {
    /// 0 for reset, then 1 per step; grading gets the next number.
    pub seq: u32,
    /// The environment itself ends the operation by then and returns.
    pub deadline: Instant,
    /// Fires when the attempt is given up; the environment then returns early.
    pub cancel: CancelToken,
}

/// The next state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// Observation for the policy.
    pub observation: Observation,
    /// Why the environment ended the episode, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<crate::StopReason>,
    /// Process reward of this step, if the task defines one: finite, and separate from the grade of the episode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_reward: Option<f64>,
}

/// Leftovers and recordings of a closed environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloseReport {
    /// Things that could not be removed, one sentence each; empty when all is gone.
    pub leftovers: Vec<String>,
    /// asciicast v2 text of the terminal session, from environments that have one.
    pub cast: Option<String>,
}

/// Live figures of a provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderUsage {
    /// Environments that exist now, leased or warm.
    pub live: u32,
    /// Environments of these that are ready and not leased.
    pub warm: u32,
    /// Most that ever existed at once.
    pub peak: u32,
}

/// Provides environments of one kind. Shared and long-lived: it is the pool.
///
/// Called by the scheduler: `lease` concurrently, `shutdown` once at the end. Dropping a lease future
/// gives up the lease and must leak nothing. A provider never holds a lock while something boots, and must
/// never grade, retry or know about groups.
pub trait EnvProvider: Send + Sync {
    /// Leases an environment for one episode.
    ///
    /// # Errors
    /// A [`Fault`] at the provider boundary.
    fn lease(&self, request: LeaseRequest) -> BoxFuture<'_, Result<Box<dyn Env>, Fault>>;

    /// Live figures, cheap enough for a progress display.
    fn usage(&self) -> ProviderUsage;

    /// Prepares `count` environments before the first lease.
    ///
    /// # Errors
    /// The first [`Fault`]; prepared environments stay.
    fn warm_up(&self, count: u32) -> BoxFuture<'_, Result<(), Fault>>;

    /// Ends everything that was provided and is still there. Afterwards nothing it created exists.
    fn shutdown(&self) -> BoxFuture<'_, CloseReport>;
}

/// An environment for one episode.
///
/// One executor calls `reset` once, `step` any number of times, `grade` at most once and `close` always.
/// The environment enforces `ctx.deadline` itself and always returns. If a `step` future is dropped, the
/// environment is unusable: every later call except `close` returns a harness fault. Dropping an environment without `close`
/// must still end everything that it started (synchronous backstop).
pub trait Env: Send {
    /// Prepares the task and returns the first observation, with the tools on offer.
    ///
    /// # Errors
    /// A [`Fault`]; the environment can then only be closed.
    fn reset(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Observation, Fault>>;

    /// Runs one action, that is, one or more calls in order. Never repeated within an attempt (I7).
    ///
    /// # Errors
    /// A [`Fault`] if the environment broke. A failing command is not a fault.
    fn step<'a>(
        &'a mut self,
        calls: &'a [ToolCall],
        ctx: StepCtx,
    ) -> BoxFuture<'a, Result<StepResult, Fault>>;

    /// Grades, where the agent cannot tamper. After this, only `close`.
    ///
    /// # Errors
    /// A [`Fault`] at the grader boundary.
    fn grade(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Grade, Fault>>;

    /// Ends everything of this environment. Idempotent; shielded from cancellation by the caller.
    fn close(&mut self) -> BoxFuture<'_, CloseReport>;
}
