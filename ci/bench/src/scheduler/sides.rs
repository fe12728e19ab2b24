//! The two sides of the comparison.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{
    AttemptId, AttemptRecord, BlobStore, BoxFuture, CancelToken, EnvProvider, EpisodeSink, Epoch, Fault,
    LeaseRecord, LeaseRequest, MemoryBlobs, Policy, PolicyRequest, RunPlan, SinkError, StepCtx, parse_calls,
};
use clawrl_record::{LockFile, RunEnd, RunWriter};
use clawrl_scheduler::{Interrupt, ProviderConfig, RunReport, Scheduler, SchedulerConfig, SchedulerTimeouts};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::null::{NullPolicy, NullProvider, plan};
use crate::Failure;
use crate::cpu::{Cost, measure};

type Measured = Result<Cost, Failure>;

/// The scheduler with its journal in a temporary folder under `out`.
pub(crate) fn scheduler_with_journal(slots: u32, steps: u32, out: &Path) -> Measured {
    let folder = tempfile::tempdir_in(out)?;
    let plan = Arc::new(plan(slots, steps));
    let lock = LockFile::new(&plan, "clawrl-bench", BTreeMap::new(), Vec::new());
    let writer = RunWriter::create(folder.path(), &plan, &lock)?;
    let runtime = runtime()?;
    let (ended, cost) = measure(|| -> Result<RunReport, Failure> {
        let report = run(&runtime, &plan, steps, Arc::new(writer.sink()))?;
        writer.finish(RunEnd::Completed)?;
        Ok(report)
    });
    check(&ended?, slots, steps)?;
    Ok(cost)
}

/// The scheduler without a journal.
pub(crate) fn scheduler_without_journal(slots: u32, steps: u32) -> Measured {
    let plan = Arc::new(plan(slots, steps));
    let runtime = runtime()?;
    let (ended, cost) = measure(|| run(&runtime, &plan, steps, Arc::new(Nowhere)));
    check(&ended?, slots, steps)?;
    Ok(cost)
}

fn run(
    runtime: &Runtime,
    plan: &Arc<RunPlan>,
    steps: u32,
    sink: Arc<dyn EpisodeSink>,
) -> Result<RunReport, Failure> {
    let (_sender, interrupts) = watch::channel(Interrupt::None);
    let provider: Arc<dyn EnvProvider> = Arc::new(NullProvider);
    let config = SchedulerConfig {
        plan: Arc::clone(plan),
        open_slots: plan.slots.iter().map(|slot| slot.id).collect(),
        first_epoch: Epoch(1),
        attempt_numbers: BTreeMap::new(),
        providers: BTreeMap::from([("terminal", ProviderConfig::from(provider))]),
        policy: Arc::new(NullPolicy { steps }),
        sink,
        interrupts,
        demand: None,
        timeouts: SchedulerTimeouts::default(),
    };
    Ok(runtime.block_on(Scheduler::new(config)?.run())?)
}

/// Fails unless all slots passed with all their steps.
fn check(report: &RunReport, slots: u32, steps: u32) -> Result<(), Failure> {
    let whole = report.passed == slots && report.steps == u64::from(slots) * u64::from(steps);
    if whole { Ok(()) } else { Err(format!("not all steps were taken: {report:?}").into()) }
}

/// The peer: the same operations of the same environments and policy in plain tasks.
pub(crate) fn bare(slots: u32, steps: u32) -> Measured {
    let plan = Arc::new(plan(slots, steps));
    let policy: Arc<dyn Policy> = Arc::new(NullPolicy { steps });
    let provider: Arc<dyn EnvProvider> = Arc::new(NullProvider);
    let runtime = runtime()?;
    let (ended, cost) = measure(|| {
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for slot in 0..slots {
                tasks.spawn(episode(Arc::clone(&plan), Arc::clone(&policy), Arc::clone(&provider), slot));
            }
            let mut stepped = 0;
            while let Some(ended) = tasks.join_next().await {
                stepped += ended??;
            }
            Ok::<u64, Failure>(stepped)
        })
    });
    if ended? == u64::from(slots) * u64::from(steps) {
        Ok(cost)
    } else {
        Err("not all steps were taken".into())
    }
}

async fn episode(
    plan: Arc<RunPlan>,
    policy: Arc<dyn Policy>,
    provider: Arc<dyn EnvProvider>,
    number: u32,
) -> Result<u64, Fault> {
    let slot = &plan.slots[number as usize];
    let task = plan.task_of(slot);
    let attempt = AttemptId { slot: slot.id, number: 0 };
    let cancel = CancelToken::new();
    let blobs: Arc<dyn BlobStore> = Arc::new(MemoryBlobs::default());
    let deadline = Instant::now() + task.timeouts.attempt;
    let request = LeaseRequest {
        task: Arc::clone(task),
        attempt,
        epoch: Epoch(1),
        seed: slot.env_seed,
        deadline,
        cancel: cancel.clone(),
        blobs: Arc::clone(&blobs),
    };
    let mut env = provider.lease(request).await?;
    let ctx = |seq| StepCtx { seq, deadline, cancel: cancel.clone() };
    let seen = env.reset(ctx(0)).await?;
    let tools = seen.tools.clone();
    let mut steps = 0;
    for turn in 0..task.max_turns {
        let request = PolicyRequest {
            attempt,
            task: &task.view(),
            conversation: &[],
            observation: &seen,
            tools: &tools,
            turn,
            seed: u64::from(turn),
            deadline,
            cancel: &cancel,
            blobs: &*blobs,
        };
        let action = policy.act(request).await?;
        // Any driver of an environment has to parse the calls of the reply.
        let Ok(calls) = parse_calls(&action.text, &action.tool_calls, task.action_format, &tools) else {
            break;
        };
        steps += 1;
        if env.step(&calls, ctx(turn + 1)).await?.end.is_some() {
            break;
        }
    }
    env.grade(ctx(task.max_turns + 1)).await?;
    env.close().await;
    Ok(steps)
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_time().build()
}

/// Discards records.
struct Nowhere;

impl EpisodeSink for Nowhere {
    fn leased(&self, _lease: LeaseRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(async { Ok(()) })
    }

    fn resolved(&self, _record: AttemptRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(async { Ok(()) })
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        Arc::new(MemoryBlobs::default())
    }
}
