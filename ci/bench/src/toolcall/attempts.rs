//! Attempts that call until the time is up.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{Determinism, Env, EnvProvider, SandboxKind};
use clawrl_sandbox::{BubblewrapBackend, SandboxBackend, WarmMarks};
use clawrl_toolcall::{ToolcallConfig, ToolcallProvider};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::kinds::{Habit, habit, spec, task};
use super::{AREA, Side};
use crate::terminals::{Failure, ctx, lease_of, with_backend};

/// Starts at once; more would only wait for each other.
const STARTING: usize = 32;

/// How long calls are made, and what is waited between two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) lasting: Duration,
    pub(super) thinking: Duration,
}

/// What was seen of all attempts.
pub(super) struct Seen {
    /// Calls a second of all attempts that count, and how many those are.
    pub(super) calls: f64,
    pub(super) counted: u32,
    /// Of each call that counts.
    pub(super) call_ms: Vec<f64>,
    pub(super) hog_calls: u64,
    pub(super) start: Duration,
    pub(super) close: Duration,
}

/// An attempt that has made its first call.
struct Attempt {
    env: Box<dyn Env>,
    habit: Habit,
    seq: u32,
}

impl Attempt {
    /// Leases, resets and makes a first call. That of a hog is an ordinary one.
    async fn start(provider: &ToolcallProvider, side: Side, number: u32) -> Result<Self, Failure> {
        let task = task(side);
        let mut env = provider.lease(lease_of(&task)).await?;
        env.reset(ctx(0)).await?;
        let mut attempt = Self { env, habit: habit(side, u32::MAX), seq: 0 };
        attempt.call().await?;
        attempt.habit = habit(side, number);
        Ok(attempt)
    }

    /// One call, and how long it took.
    async fn call(&mut self) -> Result<Duration, Failure> {
        self.seq += 1;
        let begun = Instant::now();
        let result = self.env.step(std::slice::from_ref(&self.habit.call), ctx(self.seq)).await?;
        let took = begun.elapsed();
        let said = result.observation.joined_text();
        match self.habit.expected {
            Some(expected) if !said.ends_with(expected) => {
                Err(format!("a call gave {said:?} instead of {expected:?}").into())
            }
            _ => Ok(took),
        }
    }
}

/// Runs the attempts of one side in a process of sandboxes of their own.
pub(super) fn drive(side: Side, attempts: u32, pace: Pace) -> Result<Seen, Failure> {
    with_backend(AREA, async |_, backend| {
        let provider = Arc::new(provider(backend, side));
        let seen = at_once(&provider, side, attempts, pace).await;
        let left = provider.shutdown().await.leftovers;
        match (seen, left.is_empty()) {
            (Ok(_), false) => Err(format!("left behind: {}", left.join("; ")).into()),
            (seen, _) => seen,
        }
    })
}

fn provider(backend: &BubblewrapBackend, side: Side) -> ToolcallProvider {
    let shared: Arc<dyn SandboxBackend> = Arc::new(backend.clone());
    ToolcallProvider::new(ToolcallConfig {
        backends: HashMap::from([(SandboxKind::Bubblewrap, shared)]),
        marks: WarmMarks { low: 0, high: 0 },
        expected: vec![(spec(side), u32::MAX)],
        determinism: Determinism::default(),
        secrets: Default::default(),
        judge: None,
    })
}

async fn at_once(
    provider: &Arc<ToolcallProvider>,
    side: Side,
    attempts: u32,
    pace: Pace,
) -> Result<Seen, Failure> {
    let begun = Instant::now();
    let mut ready = Vec::new();
    let mut starting = JoinSet::new();
    for number in 0..attempts {
        if starting.len() >= STARTING
            && let Some(started) = starting.join_next().await
        {
            ready.push(started??);
        }
        let provider = Arc::clone(provider);
        starting.spawn(async move { Attempt::start(&provider, side, number).await });
    }
    while let Some(started) = starting.join_next().await {
        ready.push(started??);
    }
    let start = begun.elapsed();

    let (go, going) = watch::channel(None::<Instant>);
    let mut working = JoinSet::new();
    for attempt in ready {
        working.spawn(until_the_end(attempt, going.clone(), pace));
    }
    go.send(Some(Instant::now()))?;
    let mut seen =
        Seen { calls: 0.0, counted: 0, call_ms: Vec::new(), hog_calls: 0, start, close: Duration::ZERO };
    let mut done = Vec::new();
    while let Some(worked) = working.join_next().await {
        let Worked { attempt, times, lasted } = worked??;
        if attempt.habit.expected.is_some() {
            seen.calls += times.len() as f64 / lasted.as_secs_f64();
            seen.counted += 1;
            seen.call_ms.extend(times);
        } else {
            seen.hog_calls += times.len() as u64;
        }
        done.push(attempt);
    }
    let begun = Instant::now();
    let mut closing = JoinSet::new();
    for mut attempt in done {
        closing.spawn(async move { attempt.env.close().await.leftovers });
    }
    while let Some(leftovers) = closing.join_next().await {
        let leftovers = leftovers?;
        if !leftovers.is_empty() {
            return Err(leftovers.join("; ").into());
        }
    }
    seen.close = begun.elapsed();
    Ok(seen)
}

/// What an attempt did.
struct Worked {
    attempt: Attempt,
    /// Milliseconds of each call.
    times: Vec<f64>,
    /// Until the end of its last call, which may be long after the time was up.
    lasted: Duration,
}

/// Calls until the time is up. The call that is under way then counts with the time that it takes.
async fn until_the_end(
    mut attempt: Attempt,
    mut going: watch::Receiver<Option<Instant>>,
    pace: Pace,
) -> Result<Worked, Failure> {
    let begun = going.wait_for(Option::is_some).await?.unwrap_or_else(Instant::now);
    let mut times = Vec::new();
    loop {
        let took = attempt.call().await?;
        times.push(took.as_secs_f64() * 1e3);
        let lasted = begun.elapsed();
        if lasted >= pace.lasting {
            return Ok(Worked { attempt, times, lasted });
        }
        if !pace.thinking.is_zero() {
            // timer: what a policy would take.
            tokio::time::sleep(pace.thinking).await;
        }
    }
}
