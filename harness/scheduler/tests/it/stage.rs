//! A run with everything scripted.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawrl_core::{AttemptRecord, EnvProvider, Epoch, Outcome, RunPlan, SlotId};
use clawrl_scheduler::{
    Demand, Interrupt, ProviderConfig, RunError, RunReport, Scheduler, SchedulerConfig, SchedulerTimeouts,
};
use clawrl_testkit::{FaultyProvider, MemorySink, PlanShape, Script, ScriptedPolicy};
use tokio::sync::watch;

/// The fakes of a run, kept for questions afterwards.
pub(crate) struct Stage {
    pub(crate) plan: Arc<RunPlan>,
    pub(crate) provider: Arc<FaultyProvider>,
    pub(crate) policy: Arc<ScriptedPolicy>,
    pub(crate) sink: Arc<MemorySink>,
    pub(crate) interrupt: watch::Sender<Interrupt>,
    /// `None` for everything at once.
    pub(crate) demand: Option<watch::Sender<Demand>>,
    pub(crate) timeouts: SchedulerTimeouts,
}

impl Stage {
    /// A run of this shape; environments fail as scripted, and the policy submits at its third turn.
    pub(crate) fn new(
        shape: &PlanShape,
        script: impl Fn(clawrl_core::AttemptId) -> Script + Send + Sync + 'static,
    ) -> Self {
        Self {
            plan: Arc::new(shape.build()),
            provider: Arc::new(FaultyProvider::new(script)),
            policy: Arc::new(ScriptedPolicy::submits_after(2)),
            sink: Arc::default(),
            interrupt: watch::Sender::new(Interrupt::None),
            demand: None,
            timeouts: SchedulerTimeouts::default(),
        }
    }

    pub(crate) fn config(&self) -> SchedulerConfig {
        let provider: Arc<dyn EnvProvider> = self.provider.clone();
        SchedulerConfig {
            plan: Arc::clone(&self.plan),
            open_slots: self.plan.slots.iter().map(|slot| slot.id).collect(),
            first_epoch: Epoch(0),
            attempt_numbers: BTreeMap::new(),
            providers: BTreeMap::from([("terminal", ProviderConfig::from(provider))]),
            policy: self.policy.clone(),
            sink: self.sink.clone(),
            interrupts: self.interrupt.subscribe(),
            demand: self.demand.as_ref().map(watch::Sender::subscribe),
            timeouts: self.timeouts,
        }
    }

    pub(crate) async fn run(&self) -> Result<RunReport, RunError> {
        let scheduler = Scheduler::new(self.config()).expect("the stage is consistent");
        scheduler.run().await
    }

    /// Invariants of every run.
    pub(crate) fn check_invariants(&self, report: &RunReport) -> Result<(), String> {
        let closed: Vec<SlotId> = self
            .sink
            .records()
            .iter()
            .filter(|record| record.closes_slot)
            .map(|record| record.attempt.slot)
            .collect();
        let mut all: Vec<SlotId> = closed.iter().chain(&report.left_open).copied().collect();
        all.sort_unstable();
        let planned: Vec<SlotId> = self.plan.slots.iter().map(|slot| slot.id).collect();
        let rules = [
            (self.sink.violations(), Vec::new(), "sink contract"),
            (self.provider.violations(), Vec::new(), "env contract"),
            (self.policy.violations(), Vec::new(), "policy contract"),
            (vec![self.usage().to_string()], vec!["0".to_owned()], "live environments"),
            (vec![closed.len().to_string()], vec![report.closed.to_string()], "closed in record and report"),
            (vec![format!("{all:?}")], vec![format!("{planned:?}")], "closed and left open make the plan"),
        ];
        match rules.into_iter().find(|(got, expected, _)| got != expected) {
            Some((got, expected, what)) => Err(format!("{what}: {got:?}, expected {expected:?}")),
            None => Ok(()),
        }
    }

    pub(crate) fn usage(&self) -> u32 {
        self.provider.usage().live
    }

    /// The record of the only attempt.
    pub(crate) fn only_record(&self) -> AttemptRecord {
        let mut records = self.sink.records();
        assert_eq!(records.len(), 1, "{records:?}");
        records.remove(0)
    }

    pub(crate) fn only_outcome(&self) -> Outcome {
        self.only_record().outcome
    }
}
