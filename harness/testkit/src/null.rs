//! Environments that do nothing, at no cost: for throughput, and for tests that do not depend on the environment.
//!
//! I1. `usage().live` counts leased environments that are neither closed nor dropped. I2. An episode ends by `submit`,
//! or after the given number of steps; it passes if its last command was `pass` or a submit. I3. Equal
//! seeds and calls give equal observations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clawrl_core::{
    Boundary, BoxFuture, CheckReport, CloseReport, Env, EnvProvider, Fault, Grade, LeaseRequest, Observation,
    ProviderUsage, StepCtx, StepResult, StopReason, ToolCall,
};

use crate::plan::{run_tool, submit_tool};

/// Settings of null environments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NullSettings {
    /// Steps after which the environment ends the episode (`steps-done`); `None` for never.
    pub steps: Option<u32>,
    /// Whether each operation yields once to other tasks, as real ones do.
    pub yields: bool,
}

impl Default for NullSettings {
    fn default() -> Self {
        Self { steps: None, yields: true }
    }
}

/// Leases null environments.
#[derive(Debug, Default)]
pub struct NullProvider {
    settings: NullSettings,
    live: Arc<Live>,
}

/// Counts live environments.
#[derive(Debug, Default)]
pub(crate) struct Live {
    now: AtomicU32,
    peak: AtomicU32,
}

impl Live {
    pub(crate) fn enter(self: &Arc<Self>) -> LiveMark {
        let now = self.now.fetch_add(1, Ordering::AcqRel) + 1;
        self.peak.fetch_max(now, Ordering::AcqRel);
        LiveMark { live: Some(Arc::clone(self)) }
    }

    pub(crate) fn usage(&self) -> ProviderUsage {
        let (live, peak) = (self.now.load(Ordering::Acquire), self.peak.load(Ordering::Acquire));
        ProviderUsage { live, warm: 0, peak }
    }
}

/// A live environment, until it is ended or dropped.
#[derive(Debug)]
pub(crate) struct LiveMark {
    live: Option<Arc<Live>>,
}

impl LiveMark {
    pub(crate) fn end(&mut self) {
        if let Some(live) = self.live.take() {
            live.now.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for LiveMark {
    fn drop(&mut self) {
        self.end();
    }
}

impl NullProvider {
    /// A provider of environments with these settings.
    #[must_use]
    pub fn new(settings: NullSettings) -> Self {
        Self { settings, live: Arc::default() }
    }
}

impl EnvProvider for NullProvider {
    fn lease(&self, request: LeaseRequest) -> BoxFuture<'_, Result<Box<dyn Env>, Fault>> {
        Box::pin(async move {
            give_way(self.settings).await;
            let env: Box<dyn Env> = Box::new(NullEnv {
                settings: self.settings,
                seed: request.seed,
                steps: 0,
                passed: false,
                is_stepping: false,
                mark: self.live.enter(),
            });
            Ok(env)
        })
    }

    fn usage(&self) -> ProviderUsage {
        self.live.usage()
    }

    fn warm_up(&self, _count: u32) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }

    fn shutdown(&self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async { CloseReport::default() })
    }
}

struct NullEnv {
    settings: NullSettings,
    seed: u64,
    steps: u32,
    passed: bool,
    /// A step began and has not ended.
    is_stepping: bool,
    mark: LiveMark,
}

impl NullEnv {
    fn refuse_after_dropped_step(&self) -> Result<(), Fault> {
        if self.is_stepping {
            return Err(Fault::permanent(Boundary::Harness, "poisoned", "a step was dropped"));
        }
        Ok(())
    }
}

async fn give_way(settings: NullSettings) {
    if settings.yields {
        tokio::task::yield_now().await;
    }
}

impl Env for NullEnv {
    fn reset(&mut self, _ctx: StepCtx) -> BoxFuture<'_, Result<Observation, Fault>> {
        Box::pin(async move {
            give_way(self.settings).await;
            let mut observation = Observation::from_text(format!("seed {:016x}", self.seed));
            observation.tools = vec![run_tool(), submit_tool()];
            Ok(observation)
        })
    }

    fn step<'a>(
        &'a mut self,
        calls: &'a [ToolCall],
        _ctx: StepCtx,
    ) -> BoxFuture<'a, Result<StepResult, Fault>> {
        Box::pin(async move {
            self.refuse_after_dropped_step()?;
            self.is_stepping = true;
            give_way(self.settings).await;
            self.is_stepping = false;
            self.steps += 1;
            let submitted = calls.iter().any(|call| call.name == "submit");
            self.passed =
                submitted || calls.last().and_then(|call| call.str_argument("command")) == Some("pass");
            let end = if submitted {
                Some(StopReason::Submitted)
            } else if self.settings.steps == Some(self.steps) {
                Some(StopReason::Ended("steps-done".to_owned()))
            } else {
                None
            };
            Ok(StepResult { observation: Observation::from_text("ok"), end, process_reward: None })
        })
    }

    fn grade(&mut self, _ctx: StepCtx) -> BoxFuture<'_, Result<Grade, Fault>> {
        Box::pin(async move {
            self.refuse_after_dropped_step()?;
            give_way(self.settings).await;
            let check = CheckReport {
                label: "passed".to_owned(),
                score: if self.passed { 1.0 } else { 0.0 },
                weight: 1.0,
                message: String::new(),
            };
            Ok(Grade::from_checks(vec![check], Vec::new()))
        })
    }

    fn close(&mut self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            self.mark.end();
            CloseReport::default()
        })
    }
}
