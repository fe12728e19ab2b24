//! Concurrent sessions and the times of their steps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::Failure;
use crate::terminals::Shell;

/// Warm-up steps of each session.
const WARM_UP: u32 = 3;

/// Times of one side in one round.
#[derive(Debug)]
pub(super) struct Times {
    /// Each step of each session.
    pub(super) steps: Vec<Duration>,
    /// From the start of the first to the end of the last.
    pub(super) wall: Duration,
}

/// Starts sessions, lets each take `steps` once all are ready, and closes them.
pub(super) async fn drive<S, F>(
    start: impl Fn() -> F + Clone + Send + 'static,
    sessions: u32,
    steps: u32,
) -> Result<Times, Failure>
where
    S: Shell,
    F: Future<Output = Result<S, Failure>> + Send + 'static,
{
    let shells = started(start, sessions).await?;
    let ready = Arc::new(Barrier::new(shells.len() + 1));
    let mut tasks = JoinSet::new();
    for shell in shells {
        tasks.spawn(stepped(shell, steps, Arc::clone(&ready)));
    }
    ready.wait().await;
    let begun = Instant::now();
    let mut all = Vec::new();
    let mut done = Vec::new();
    let mut wall = Duration::ZERO;
    while let Some(ended) = tasks.join_next().await {
        let (shell, mut times) = ended??;
        wall = begun.elapsed();
        all.append(&mut times);
        done.push(shell);
    }
    // Closing is not timed, and is over before the next side begins.
    let mut closing = JoinSet::new();
    for shell in done {
        closing.spawn(shell.close());
    }
    while let Some(closed) = closing.join_next().await {
        closed??;
    }
    Ok(Times { steps: all, wall })
}

/// Starts sessions and takes their warm-up steps. No session waits for another here, so a failure blocks none.
async fn started<S, F>(
    start: impl Fn() -> F + Clone + Send + 'static,
    sessions: u32,
) -> Result<Vec<S>, Failure>
where
    S: Shell,
    F: Future<Output = Result<S, Failure>> + Send + 'static,
{
    let mut starting = JoinSet::new();
    for _ in 0..sessions {
        let start = start.clone();
        starting.spawn(async move {
            let mut shell = start().await?;
            for _ in 0..WARM_UP {
                shell.step().await?;
            }
            Ok::<_, Failure>(shell)
        });
    }
    let mut shells = Vec::new();
    while let Some(started) = starting.join_next().await {
        shells.push(started??);
    }
    Ok(shells)
}

async fn stepped<S: Shell>(
    mut shell: S,
    steps: u32,
    ready: Arc<Barrier>,
) -> Result<(S, Vec<Duration>), Failure> {
    let mut times = Vec::with_capacity(steps as usize);
    ready.wait().await;
    for _ in 0..steps {
        let begun = Instant::now();
        shell.step().await?;
        times.push(begun.elapsed());
    }
    Ok((shell, times))
}
