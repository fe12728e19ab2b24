//! One episode behind the trait that the scheduler drives.
//!
//! I1. The code of an environment runs on threads for blocking work: it may compute for long, and a time limit ends the wait,
//! not the thread. What comes next waits for that thread. I2. A panic is a fault of the attempt, with the panic's message.
//! I3. A score that is not a number from 0 to 1 is a grader fault.
//!
//! Cancellation: a cancelled or dropped operation leaves the episode on its thread, and the environment can only be closed.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    Boundary, BoxFuture, CheckReport, CloseReport, Env, Fault, Grade, Limit, Observation, Progress, StepCtx,
    StepResult, Timeouts, ToolCall,
};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use crate::episode::{Environment, Episode};
use crate::provider::Live;
use crate::row::Row;

/// The [`Env`] of an episode.
pub(crate) struct InProcessEnv {
    environment: Arc<dyn Environment>,
    row: Row,
    seed: u64,
    timeouts: Timeouts,
    state: State,
    progress: Progress,
    live: Option<Live>,
}

#[derive(Default)]
enum State {
    /// Before the reset, after a failure, and after the close.
    #[default]
    None,
    Ready(Box<dyn Episode>),
    /// A time limit ended the wait for an operation.
    Late(JoinHandle<Box<dyn Episode>>),
}

/// The part of an attempt that an operation belongs to.
#[derive(Clone, Copy)]
struct Phase {
    boundary: Boundary,
    limit: Limit,
    after: Duration,
}

impl InProcessEnv {
    pub(crate) fn new(
        environment: Arc<dyn Environment>,
        row: Row,
        seed: u64,
        timeouts: Timeouts,
        live: Live,
    ) -> Self {
        let (state, progress) = (State::None, Progress::default());
        Self { environment, row, seed, timeouts, state, progress, live: Some(live) }
    }

    /// Runs `work` on the episode, on a thread for blocking work, until the deadline.
    async fn on_episode<T: Send + 'static>(
        &mut self,
        phase: Phase,
        ctx: StepCtx,
        work: impl FnOnce(&mut dyn Episode) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let mut episode = match std::mem::take(&mut self.state) {
            State::Ready(episode) => episode,
            State::Late(thread) => self.finish(phase, &ctx, thread).await?,
            State::None => {
                let message = "the environment was not reset, or an operation failed";
                return Err(Fault::permanent(Boundary::Harness, "no-episode", message));
            }
        };
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let thread = spawn_blocking(move || {
            // The receiver is gone where the wait ended.
            let _ = sender.send(work(episode.as_mut()));
            episode
        });
        let episode = self.finish(phase, &ctx, thread).await?;
        self.state = State::Ready(episode);
        receiver.await.map_err(|error| Fault::permanent(Boundary::Harness, "no-result", error.to_string()))
    }

    /// Waits for a thread that has the episode.
    async fn finish(
        &mut self,
        phase: Phase,
        ctx: &StepCtx,
        mut thread: JoinHandle<Box<dyn Episode>>,
    ) -> Result<Box<dyn Episode>, Fault> {
        let joined = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => {
                return Err(Fault::transient(phase.boundary, "cancelled", "the attempt was cancelled"));
            }
            joined = tokio::time::timeout_at(ctx.deadline.into(), &mut thread) => joined,
        };
        match joined {
            Ok(joined) => joined.map_err(|error| panicked(phase.boundary, error)),
            Err(_) => {
                self.state = State::Late(thread);
                self.progress.end();
                Err(Fault::limit(phase.boundary, phase.limit, phase.after))
            }
        }
    }
}

fn panicked(boundary: Boundary, error: JoinError) -> Fault {
    match error.try_into_panic() {
        Ok(panic) => {
            let message = format!("the environment panicked: {}", panic_message(panic.as_ref()));
            Fault::permanent(boundary, "panicked", message)
        }
        Err(error) => Fault::transient(Boundary::Harness, "runtime-ended", error.to_string()),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

impl Env for InProcessEnv {
    fn reset(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Observation, Fault>> {
        Box::pin(async move {
            self.progress.begin()?;
            let (environment, row, seed) = (Arc::clone(&self.environment), self.row.clone(), self.seed);
            let phase = Phase { boundary: Boundary::Env, limit: Limit::Setup, after: self.timeouts.setup };
            let thread = spawn_blocking(move || environment.begin(row, seed));
            let episode = self.finish(phase, &ctx, thread).await?;
            self.state = State::Ready(episode);
            let tools = self.on_episode(phase, ctx, |episode| episode.tools()).await?;
            self.progress.end();
            Ok(Observation { tools, ..Observation::default() })
        })
    }

    fn step<'a>(
        &'a mut self,
        calls: &'a [ToolCall],
        ctx: StepCtx,
    ) -> BoxFuture<'a, Result<StepResult, Fault>> {
        Box::pin(async move {
            self.progress.begin()?;
            let calls = calls.to_vec();
            let phase = Phase { boundary: Boundary::Env, limit: Limit::Step, after: self.timeouts.step };
            let (observation, end) = self.on_episode(phase, ctx, move |episode| episode.step(&calls)).await?;
            self.progress.end();
            Ok(StepResult { observation, end, process_reward: None })
        })
    }

    fn grade(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Grade, Fault>> {
        Box::pin(async move {
            self.progress.begin()?;
            let phase = Phase { boundary: Boundary::Grader, limit: Limit::Grade, after: self.timeouts.grade };
            let score = self.on_episode(phase, ctx, |episode| episode.reward()).await?;
            if !(0.0..=1.0).contains(&score) {
                let message =
                    format!("the environment returned the reward {score}; it has to be from 0 to 1");
                return Err(Fault::permanent(Boundary::Grader, "reward-out-of-range", message));
            }
            self.progress.end();
            let check =
                CheckReport { label: "reward".to_owned(), score, weight: 1.0, message: String::new() };
            Ok(Grade::from_checks(vec![check], Vec::new()))
        })
    }

    fn close(&mut self) -> BoxFuture<'_, CloseReport> {
        self.progress.close();
        self.state = State::None;
        self.live = None;
        Box::pin(std::future::ready(CloseReport::default()))
    }
}
