//! Environments that fail as a script says, and police how they are called.
//!
//! I1. Without a mishap, an operation behaves as the contract of `Env` demands. I2. Calls against the
//! contract are noted in [`FaultyProvider::violations`]: a second reset, a call after a fault, after a
//! dropped operation or after grading, an environment dropped without `close`.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clawrl_core::{
    AttemptId, Boundary, BoxFuture, CheckReport, CloseReport, Env, EnvProvider, Fault, Grade, LeaseRequest,
    Limit, Observation, ProviderUsage, Retry, SplitMix64, StepCtx, StepResult, StopReason, ToolCall,
    derive_seed,
};
use tokio::time::{Instant, sleep, sleep_until};

use crate::null::{Live, LiveMark};
use crate::plan::{run_tool, submit_tool};

/// Operation that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Site {
    /// While leasing.
    Lease,
    /// In `reset`.
    Reset,
    /// In this step, counted from 1.
    Step(u32),
    /// In `grade`.
    Grade,
    /// In `close`.
    Close,
}

/// Kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// A fault, at the site's own boundary.
    Fault(Retry),
    /// A fault at the harness boundary.
    HarnessFault,
    /// A panic.
    Panic,
    /// Never returns, whatever the deadline and the cancellation.
    Hang,
    /// Takes this long, ignoring deadline and cancellation, and then succeeds.
    Slow(Duration),
    /// Would take forever, but respects deadline and cancellation, as the contract requires.
    Endless,
    /// Returns a score, or a process reward, that is NaN.
    Unsound,
}

/// Failures of one attempt; at most one per operation.
pub type Script = Vec<(Site, Mishap)>;

/// Rates of failures in a random script, in percent per operation.
#[derive(Debug, Clone, Copy)]
pub struct MishapRates {
    /// Rate of any failure of an operation.
    pub any_percent: u64,
    /// Whether harness faults are among them; one ends the run.
    pub harness_faults: bool,
}

impl MishapRates {
    /// A script that is a function of seed and attempt: every site, with steps up to 5.
    #[must_use]
    pub fn script(self, seed: u64, attempt: AttemptId) -> Script {
        let numbers = [u64::from(attempt.slot.0), u64::from(attempt.number)];
        let mut stream = SplitMix64::new(derive_seed(seed, "mishaps", &numbers));
        let sites = [Site::Lease, Site::Reset, Site::Grade, Site::Close];
        let sites = sites.into_iter().chain((1..=5).map(Site::Step));
        let mut draw = |site| {
            let happens = stream.below(100) < self.any_percent;
            let mishap = match stream.below(if self.harness_faults { 7 } else { 6 }) {
                0 => Mishap::Fault(Retry::Sound),
                1 => Mishap::Fault(Retry::Never),
                2 => Mishap::Panic,
                3 => Mishap::Hang,
                4 => Mishap::Slow(Duration::from_millis(stream.below(60_000))),
                5 => Mishap::Endless,
                _ => Mishap::HarnessFault,
            };
            happens.then_some((site, mishap))
        };
        sites.filter_map(&mut draw).collect()
    }
}

/// Leases environments that fail as scripted.
pub struct FaultyProvider {
    script: Box<dyn Fn(AttemptId) -> Script + Send + Sync>,
    live: Arc<Live>,
    notes: Arc<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    violations: Mutex<Vec<String>>,
    leases: Mutex<Vec<AttemptId>>,
    /// Counts asked for, each with the number of leases before it.
    warm_ups: Mutex<Vec<(u32, usize)>>,
}

impl fmt::Debug for FaultyProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyProvider").field("live", &self.live).finish_non_exhaustive()
    }
}

impl FaultyProvider {
    /// A provider whose attempts fail as the function says.
    #[must_use]
    pub fn new(script: impl Fn(AttemptId) -> Script + Send + Sync + 'static) -> Self {
        Self { script: Box::new(script), live: Arc::default(), notes: Arc::default() }
    }

    /// Calls that broke the contract of `Env`, in order.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        lock(&self.notes.violations).clone()
    }

    /// Calls of `warm_up`: how many were asked for, and how many leases had been asked for before.
    #[must_use]
    pub fn warm_ups(&self) -> Vec<(u32, usize)> {
        lock(&self.notes.warm_ups).clone()
    }

    /// Attempts that asked for a lease, in order.
    #[must_use]
    pub fn leases(&self) -> Vec<AttemptId> {
        lock(&self.notes.leases).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EnvProvider for FaultyProvider {
    fn lease(&self, request: LeaseRequest) -> BoxFuture<'_, Result<Box<dyn Env>, Fault>> {
        Box::pin(async move {
            lock(&self.notes.leases).push(request.attempt);
            let script = (self.script)(request.attempt);
            let mishap = find(&script, Site::Lease);
            let ctx = StepCtx { seq: 0, deadline: request.deadline, cancel: request.cancel };
            play(mishap, Boundary::Provider, Limit::Lease, &ctx).await?;
            let env: Box<dyn Env> = Box::new(FaultyEnv {
                attempt: request.attempt,
                script,
                stage: Stage::Leased,
                steps: 0,
                mark: self.live.enter(),
                notes: Arc::clone(&self.notes),
            });
            Ok(env)
        })
    }

    fn usage(&self) -> ProviderUsage {
        self.live.usage()
    }

    fn warm_up(&self, count: u32) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            let leases = lock(&self.notes.leases).len();
            lock(&self.notes.warm_ups).push((count, leases));
            Ok(())
        })
    }

    fn shutdown(&self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async { CloseReport::default() })
    }
}

fn find(script: &Script, site: Site) -> Option<Mishap> {
    script.iter().find(|(at, _)| *at == site).map(|(_, mishap)| *mishap)
}

/// Lets a mishap happen. Without one, gives way once.
async fn play(mishap: Option<Mishap>, boundary: Boundary, limit: Limit, ctx: &StepCtx) -> Result<(), Fault> {
    match mishap {
        None | Some(Mishap::Unsound) => {
            tokio::task::yield_now().await;
            Ok(())
        }
        Some(Mishap::Fault(retry)) => {
            tokio::task::yield_now().await;
            Err(Fault { retry, ..Fault::transient(boundary, "scripted", "as the script says") })
        }
        Some(Mishap::HarnessFault) => {
            Err(Fault::permanent(Boundary::Harness, "scripted", "as the script says"))
        }
        Some(Mishap::Panic) => panic!("as the script says"),
        Some(Mishap::Hang) => pending().await,
        Some(Mishap::Slow(time)) => {
            sleep(time).await; // timer: slowness is the mishap
            Ok(())
        }
        Some(Mishap::Endless) => {
            let started = Instant::now();
            let deadline = Instant::from_std(ctx.deadline);
            let cancelled = ctx.cancel.clone();
            let cancelled = async move { cancelled.cancelled().await };
            either(sleep_until(deadline), cancelled).await;
            Err(Fault::limit(boundary, limit, started.elapsed()))
        }
    }
}

/// Ready when one of two is.
async fn either(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    let (mut first, mut second) = (std::pin::pin!(first), std::pin::pin!(second));
    std::future::poll_fn(|cx| {
        let first_ready = first.as_mut().poll(cx).is_ready();
        if first_ready || second.as_mut().poll(cx).is_ready() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Leased,
    Ready,
    Graded,
    /// An operation is under way; still so afterwards if it was dropped or panicked.
    Busy,
    /// An operation returned a fault other than a limit it kept.
    Broken,
    Closed,
}

struct FaultyEnv {
    attempt: AttemptId,
    script: Script,
    stage: Stage,
    steps: u32,
    mark: LiveMark,
    notes: Arc<Notes>,
}

impl FaultyEnv {
    /// One operation: allowed in state `from`, leads to `to`.
    async fn operate(
        &mut self,
        (from, to): (Stage, Stage),
        site: Site,
        (boundary, limit): (Boundary, Limit),
        ctx: &StepCtx,
    ) -> Result<(), Fault> {
        if self.stage != from {
            self.violated(&format!("{site:?} while {:?}", self.stage));
            return Err(Fault::permanent(Boundary::Harness, "out-of-order", format!("{site:?}")));
        }
        self.stage = Stage::Busy;
        let result = play(find(&self.script, site), boundary, limit, ctx).await;
        self.stage = match &result {
            Ok(()) => to,
            Err(fault) if fault.limit.is_some() && site != Site::Reset => to,
            Err(_) => Stage::Broken,
        };
        result
    }

    fn violated(&self, what: &str) {
        lock(&self.notes.violations).push(format!("{}: {what}", self.attempt));
    }
}

impl Drop for FaultyEnv {
    fn drop(&mut self) {
        if self.stage != Stage::Closed && find(&self.script, Site::Close).is_none() {
            self.violated(&format!("dropped without close while {:?}", self.stage));
        }
    }
}

impl Env for FaultyEnv {
    fn reset(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Observation, Fault>> {
        Box::pin(async move {
            let at = (Boundary::Env, Limit::Setup);
            self.operate((Stage::Leased, Stage::Ready), Site::Reset, at, &ctx).await?;
            let mut observation = Observation::from_text("ready");
            observation.tools = vec![run_tool(), submit_tool()];
            Ok(observation)
        })
    }

    fn step<'a>(
        &'a mut self,
        calls: &'a [ToolCall],
        ctx: StepCtx,
    ) -> BoxFuture<'a, Result<StepResult, Fault>> {
        Box::pin(async move {
            self.steps += 1;
            let site = Site::Step(self.steps);
            let at = (Boundary::Env, Limit::Step);
            self.operate((Stage::Ready, Stage::Ready), site, at, &ctx).await?;
            let end = calls.iter().any(|call| call.name == "submit").then_some(StopReason::Submitted);
            let process_reward = (find(&self.script, site) == Some(Mishap::Unsound)).then_some(f64::NAN);
            Ok(StepResult { observation: Observation::from_text("ok"), end, process_reward })
        })
    }

    fn grade(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Grade, Fault>> {
        Box::pin(async move {
            let at = (Boundary::Grader, Limit::Grade);
            self.operate((Stage::Ready, Stage::Graded), Site::Grade, at, &ctx).await?;
            let check =
                CheckReport { label: "always".to_owned(), score: 1.0, weight: 1.0, message: String::new() };
            let mut grade = Grade::from_checks(vec![check], Vec::new());
            if find(&self.script, Site::Grade) == Some(Mishap::Unsound) {
                grade.score = f64::NAN;
            }
            Ok(grade)
        })
    }

    fn close(&mut self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            let ctx = StepCtx {
                seq: 0,
                deadline: (Instant::now() + Duration::from_secs(3_600)).into_std(),
                cancel: clawrl_core::CancelToken::new(),
            };
            let failed = play(find(&self.script, Site::Close), Boundary::Env, Limit::Close, &ctx).await;
            self.stage = Stage::Closed;
            self.mark.end();
            let leftovers = failed.err().map(|fault| fault.to_string());
            CloseReport { leftovers: leftovers.into_iter().collect(), cast: None }
        })
    }
}
