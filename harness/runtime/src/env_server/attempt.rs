//! One attempt from its lease to its end, driven by requests.
//!
//! I1. The order is that of every attempt: `reset` once, `step`s, `grade` once, `close`. Requests out of order are refused
//! without effect. I2. After a fault the environment is only closed, neither stepped nor graded. I3. Every operation has the
//! task's time limit. The program that drives the attempt limits its turns and its time; these are not counted here.
//!
//! Cancellation: the token. Operations see it themselves and return early; closing is shielded from it.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    AttemptId, BlobStore, Boundary, CancelToken, Env, EnvProvider, Epoch, Fault, LeaseRequest, Limit,
    MemoryBlobs, SlotSpec, StepCtx, TaskSpec, ToolCall,
};
use serde_json::Value;
use tokio::time::timeout;

use super::message::{Refusal, Request, Wrong, begun, closed, graded, images, stepped};

/// Time that an environment may exceed its deadline before it is dropped.
const GRACE: Duration = Duration::from_secs(10);

/// The stage of the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Acting,
    /// The environment ended the episode, which can be graded.
    Over,
    Graded,
    /// The environment faulted.
    Broken,
    Closed,
}

/// An attempt of a task, driven by another program. Leases its environment at `reset`.
pub struct ServedAttempt {
    provider: Arc<dyn EnvProvider>,
    task: Arc<TaskSpec>,
    slot: SlotSpec,
    cancel: CancelToken,
    /// Pictures of observations; responses contain them completely, see `message.rs`.
    blobs: Arc<MemoryBlobs>,
    env: Option<Box<dyn Env>>,
    stage: Stage,
    seq: u32,
    faulted: bool,
}

impl ServedAttempt {
    /// An attempt of this task, in an environment of this provider.
    pub fn new(provider: Arc<dyn EnvProvider>, task: Arc<TaskSpec>, slot: SlotSpec) -> Self {
        let cancel = CancelToken::new();
        let blobs = Arc::default();
        Self { provider, task, slot, cancel, blobs, env: None, stage: Stage::New, seq: 0, faulted: false }
    }

    /// The token that cancels the running operation.
    pub(super) fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Whether an operation failed other than by cancellation.
    pub(super) fn faulted(&self) -> bool {
        self.faulted
    }

    pub(super) fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// Executes one request.
    pub(super) async fn obey(
        &mut self,
        request: Request,
        leftovers: &mut Vec<String>,
    ) -> Result<Value, Wrong> {
        if let Some(message) = order(self.stage, &request) {
            return Err(Refusal::out_of_order(message).into());
        }
        let result = match request {
            Request::Reset { seed } => self.reset(seed).await,
            Request::Step { calls, within } => self.step(&calls, within).await,
            Request::Grade => self.grade().await,
            Request::Close => {
                leftovers.extend(self.close().await);
                return Ok(closed(leftovers));
            }
        };
        result.map_err(|fault| {
            self.stage = Stage::Broken;
            self.faulted |= !self.cancel.is_cancelled();
            fault.into()
        })
    }

    async fn reset(&mut self, seed: Option<u64>) -> Result<Value, Fault> {
        let limits = self.task.timeouts;
        let request = LeaseRequest {
            task: Arc::clone(&self.task),
            attempt: AttemptId { slot: self.slot.id, number: 0 },
            epoch: Epoch(0),
            seed: seed.unwrap_or(self.slot.env_seed),
            deadline: Instant::now() + limits.lease,
            cancel: self.cancel.clone(),
            blobs: Arc::clone(&self.blobs) as Arc<dyn BlobStore>,
        };
        // Dropping the future cancels the lease.
        let leased = tokio::select! {
            leased = timeout(limits.lease, self.provider.lease(request)) => leased,
            () = self.cancel.cancelled() => return Err(given_up()),
        };
        let env = leased.map_err(|_| Fault::limit(Boundary::Provider, Limit::Lease, limits.lease))??;
        let env = self.env.insert(env);
        let ctx = ctx(0, limits.setup, &self.cancel);
        let observation = kept_to(Boundary::Env, Limit::Setup, limits.setup, env.reset(ctx)).await?;
        self.stage = Stage::Acting;
        let images = images(&observation, &*self.blobs).await?;
        Ok(begun(&self.task.instruction, &observation, images))
    }

    async fn step(&mut self, calls: &[ToolCall], within: Option<Duration>) -> Result<Value, Fault> {
        let length = within.map_or(self.task.timeouts.step, |within| within.min(self.task.timeouts.step));
        self.seq += 1;
        let ctx = ctx(self.seq, length, &self.cancel);
        let env = leased(&mut self.env)?;
        let result = kept_to(Boundary::Env, Limit::Step, length, env.step(calls, ctx)).await?;
        if result.end.is_some() {
            self.stage = Stage::Over;
        }
        let images = images(&result.observation, &*self.blobs).await?;
        Ok(stepped(&result, images))
    }

    async fn grade(&mut self) -> Result<Value, Fault> {
        let length = self.task.timeouts.grade;
        let ctx = ctx(self.seq + 1, length, &self.cancel);
        let env = leased(&mut self.env)?;
        let grade = kept_to(Boundary::Grader, Limit::Grade, length, env.grade(ctx)).await?;
        self.stage = Stage::Graded;
        Ok(graded(&grade))
    }

    /// Ends everything that the attempt started, and returns what is left over. Idempotent.
    pub(super) async fn close(&mut self) -> Vec<String> {
        self.stage = Stage::Closed;
        let Some(mut env) = self.env.take() else { return Vec::new() };
        let length = self.task.timeouts.close;
        match timeout(length, env.close()).await {
            Ok(report) => report.leftovers,
            // Dropping the environment is the backstop.
            Err(_) => vec![Fault::limit(Boundary::Env, Limit::Close, length).to_string()],
        }
    }
}

/// The reason why a request is out of order in this stage, if it is.
fn order(stage: Stage, request: &Request) -> Option<&'static str> {
    match (request, stage) {
        (Request::Close, _)
        | (Request::Reset { .. }, Stage::New)
        | (Request::Step { .. }, Stage::Acting)
        | (Request::Grade, Stage::Acting | Stage::Over) => None,
        (_, Stage::New) => Some("`reset` comes first"),
        (_, Stage::Acting) => Some("`reset` was asked already"),
        (_, Stage::Over) => Some("the episode is over; it can be graded"),
        (_, Stage::Graded) => Some("the attempt was graded; it can be closed"),
        (_, Stage::Broken) => Some("the attempt faulted; it can be closed"),
        (_, Stage::Closed) => Some("the attempt was closed"),
    }
}

/// The leased environment. Every stage that uses it has one.
fn leased(env: &mut Option<Box<dyn Env>>) -> Result<&mut Box<dyn Env>, Fault> {
    env.as_mut().ok_or_else(|| Fault::permanent(Boundary::Harness, "not-leased", "no environment was leased"))
}

fn ctx(seq: u32, length: Duration, cancel: &CancelToken) -> StepCtx {
    StepCtx { seq, deadline: Instant::now() + length, cancel: cancel.clone() }
}

/// Environments keep their deadlines themselves; an operation that does not is dropped.
async fn kept_to<T>(
    boundary: Boundary,
    limit: Limit,
    length: Duration,
    operation: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    timeout(length + GRACE, operation).await.unwrap_or_else(|_| {
        let message = format!(
            "no return {:.1} s after the deadline set by `{}` ({:.1} s); the environment was given up",
            GRACE.as_secs_f64(),
            limit.key(),
            length.as_secs_f64()
        );
        Err(Fault { limit: Some(limit), ..Fault::transient(boundary, "deadline-ignored", message) })
    })
}

fn given_up() -> Fault {
    Fault::transient(Boundary::Provider, "cancelled", "the lease was given up")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn i1_i2_there_is_one_order() {
        let step = || Request::Step { calls: vec![ToolCall::new("bash", json!({}))], within: None };
        let check = |stage: Stage, allowed: [bool; 4]| {
            let requests = [Request::Reset { seed: None }, step(), Request::Grade, Request::Close];
            for (request, allowed) in requests.into_iter().zip(allowed) {
                assert_eq!(order(stage, &request).is_none(), allowed, "{request:?} in {stage:?}");
            }
        };
        check(Stage::New, [true, false, false, true]);
        check(Stage::Acting, [false, true, true, true]);
        check(Stage::Over, [false, false, true, true]);
        check(Stage::Graded, [false, false, false, true]);
        check(Stage::Broken, [false, false, false, true]);
        check(Stage::Closed, [false, false, false, true]);
    }
}
