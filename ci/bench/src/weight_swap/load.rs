//! An engine under load whose weights are copied and swapped.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clawrl_core::SplitMix64;
use clawrl_torch::{Engine, EngineHandle, GenerateRequest, Params, configure_threads};
use serde::Serialize;
use tokio::task::{JoinSet, spawn_blocking};

use crate::Failure;
use crate::table::Sample;

/// One-token requests between two swaps; the effects of a swap are over by then.
const PAUSE: u32 = 8;
/// Maximum duration of an undisturbed one-token request: the rest of the running step, and its own step.
const STEPS_OF_A_REQUEST: f64 = 2.0;
/// Tokens of a reply that is sampled in the background.
const REPLY: u32 = 512;
const PROMPT: usize = 32;

/// Results of a round: medians over its swaps.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Measured {
    pub(super) copy_ms: f64,
    pub(super) publish_ms: f64,
    pub(super) token_ms: f64,
    pub(super) step_ms: f64,
    /// Delay of the slowest request that overlapped a swap; median over the swaps.
    pub(super) delay_steps: f64,
    /// Maximum over the swaps.
    pub(super) worst_delay_steps: f64,
    /// Delay of the slowest request that overlapped neither a swap nor a copy.
    pub(super) otherwise_steps: f64,
    swaps: u32,
    probes: usize,
}

impl Measured {
    pub(super) fn ratio(&self) -> f64 {
        self.token_ms / self.copy_ms
    }
}

/// A time interval.
#[derive(Debug, Clone, Copy)]
struct Span {
    begin: Instant,
    end: Instant,
}

impl Span {
    fn since(begin: Instant) -> Self {
        Self { begin, end: Instant::now() }
    }

    fn ms(self) -> f64 {
        (self.end - self.begin).as_secs_f64() * 1e3
    }

    fn overlaps(self, other: Self) -> bool {
        self.begin <= other.end && other.begin <= self.end
    }
}

/// Alternates copies and swaps while `running` sequences are sampled.
pub(super) async fn measure(
    engine: &Engine,
    params: &Params,
    running: u32,
    swaps: u32,
) -> Result<Measured, Failure> {
    let handle = engine.handle();
    let probes = Arc::new(Mutex::new(Vec::new()));
    let mut clients = JoinSet::new();
    for number in 0..running {
        let handle = handle.clone();
        clients.spawn(async move { sample_until_failure(&handle, number).await });
    }
    {
        let (handle, probes) = (handle.clone(), Arc::clone(&probes));
        clients.spawn(async move { probe_until_failure(&handle, &probes).await });
    }
    pause(&handle).await?;
    let before = handle.stats();
    pause(&handle).await?;
    let after = handle.stats();
    let step_ms = (after.busy - before.busy).as_secs_f64() * 1e3 / (after.steps - before.steps).max(1) as f64;
    let (mut copies, mut publications, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
    for version in 1..=u64::from(swaps) {
        let shared = params.share();
        copies.push(alone(move || shared.copy()).await?);
        pause(&handle).await?;
        let (publisher, shared) = (handle.clone(), params.share());
        let published = alone(move || publisher.publish(version, &shared)).await?;
        publications.push(published);
        let reply = handle.generate(request(&[1, 2], 1, version)).await?;
        tokens.push(Span::since(published.begin));
        if reply.versions != [(0, version)] {
            return Err(
                format!("a token of {:?} after version {version} was published", reply.versions).into()
            );
        }
        pause(&handle).await?;
    }
    // Clients end only on failure.
    if let Some(failed) = clients.try_join_next() {
        return Err(failed?.err().unwrap_or_else(|| "a client ended".into()));
    }
    clients.shutdown().await;
    let probes = std::mem::take(&mut *probes.lock().unwrap_or_else(PoisonError::into_inner));
    let undisturbed: Vec<Span> = probes
        .iter()
        .copied()
        .filter(|probe| !tokens.iter().chain(&copies).any(|span| probe.overlaps(*span)))
        .collect();
    let delay = |probes: &mut dyn Iterator<Item = &Span>| {
        let slowest = probes.map(|probe| probe.ms()).fold(0.0, f64::max);
        (slowest / step_ms - STEPS_OF_A_REQUEST).max(0.0)
    };
    let delays: Vec<f64> =
        tokens.iter().map(|swap| delay(&mut probes.iter().filter(|probe| probe.overlaps(*swap)))).collect();
    Ok(Measured {
        copy_ms: median(&copies),
        publish_ms: median(&publications),
        token_ms: median(&tokens),
        step_ms,
        delay_steps: Sample::new(delays.clone()).median(),
        worst_delay_steps: Sample::new(delays).quantile(1.0),
        otherwise_steps: delay(&mut undisturbed.iter()),
        swaps,
        probes: probes.len(),
    })
}

/// Runs `work` on its own thread with one libtorch thread, as the learner does, so that the engine keeps its core. Returns
/// the time of the call.
async fn alone<T: Send + 'static, E: Into<Failure> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<Span, Failure> {
    spawn_blocking(move || {
        configure_threads(NonZeroUsize::MIN)?;
        let began = Instant::now();
        let made = work().map_err(Into::into)?;
        let span = Span::since(began);
        // Freeing the memory is not timed.
        drop(made);
        Ok(span)
    })
    .await?
}

fn median<'a>(spans: impl IntoIterator<Item = &'a Span>) -> f64 {
    Sample::new(spans.into_iter().map(|span| span.ms()).collect()).median()
}

/// Lets the engine run for some steps.
async fn pause(handle: &EngineHandle) -> Result<(), Failure> {
    for seed in 0..PAUSE {
        handle.generate(request(&[3, 4], 1, u64::from(seed))).await?;
    }
    Ok(())
}

/// Samples long replies one after the other; ends only on failure.
async fn sample_until_failure(handle: &EngineHandle, number: u32) -> Result<(), Failure> {
    let mut random = SplitMix64::new(u64::from(number));
    loop {
        let prompt: Vec<u32> = (0..PROMPT).map(|_| random.below(1_000) as u32).collect();
        let reply = handle.generate(request(&prompt, REPLY, random.next_u64())).await?;
        if reply.ids.len() != REPLY as usize {
            return Err(format!("a reply of {} tokens instead of {REPLY}", reply.ids.len()).into());
        }
    }
}

/// Times one-token replies one after the other; ends only on failure.
async fn probe_until_failure(handle: &EngineHandle, probes: &Mutex<Vec<Span>>) -> Result<(), Failure> {
    loop {
        let began = Instant::now();
        handle.generate(request(&[5, 6], 1, 0)).await?;
        probes.lock().unwrap_or_else(PoisonError::into_inner).push(Span::since(began));
    }
}

fn request(prompt: &[u32], max_new_tokens: u32, seed: u64) -> GenerateRequest {
    GenerateRequest {
        prompt: Arc::from(prompt),
        max_new_tokens,
        temperature: 1.0,
        top_p: 1.0,
        top_k: 0,
        seed,
        stop_ids: Vec::new(),
        adapter: None,
    }
}
