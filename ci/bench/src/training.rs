//! Reinforcement learning in this process, with everything that `clawrl train` has but sandboxes, a record on disk,
//! evaluations and checkpoints: the scheduler, the embedded policy over its engine, the stream of groups, the learner.
//!
//! Environment, reward and latency are those of [`environment`]. Time runs from the start of the scheduler, with all
//! weights loaded, to the end of the last update; what is still under way then is cancelled and counts for nothing.

mod environment;
mod learning;
mod plan;

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use clawrl_core::{EnvProvider, Epoch, Policy};
use clawrl_learn::{AdvantageKind, GroupStream, PolicyLoss, Schedule, StreamConfig, StreamSnapshot};
use clawrl_scheduler::{
    Demand, GroupDemand, Interrupt, ProviderConfig, Scheduler, SchedulerConfig, SchedulerTimeouts,
};
use clawrl_torch::{
    Activations, Alone, Checkpoints, Dtype, Engine, EngineConfig, LearnerConfig, LearnerSetup, ModelFiles,
    OptimizerConfig, ReplySampling, Retention, TorchLearner, TorchPolicy, configure_threads,
};
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};

use crate::Failure;
use crate::tiny::TinyPolicy;
pub(crate) use environment::Latency;
use environment::SlowProvider;
use learning::{Feed, Learning};

/// As in the recipe for the tiny policy.
pub(crate) const LEARNING_RATE: f64 = 5e-4;

/// What is trained, and how.
#[derive(Debug, Clone)]
pub(crate) struct TrainingConfig {
    pub(crate) schedule: Schedule,
    /// One group each; taken again from the beginning when there are not enough.
    pub(crate) instructions: Vec<String>,
    /// Groups of a batch.
    pub(crate) groups: NonZeroU32,
    /// Members of a group.
    pub(crate) members: u32,
    /// Batches.
    pub(crate) updates: u32,
    /// Replies of an episode.
    pub(crate) turns: u32,
    /// Most tokens of a reply.
    pub(crate) new_tokens: u32,
    /// Episodes under way at most.
    pub(crate) concurrency: u32,
    /// How long a step takes; nothing for no time at all.
    pub(crate) latency: Option<Latency>,
    /// Threads inside one operation of the learner.
    pub(crate) learner_threads: NonZeroUsize,
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Trained {
    pub(crate) wall_s: f64,
    /// Sampled tokens that an update was made with.
    pub(crate) tokens: u64,
    pub(crate) updates: u32,
    /// Of it, the learner at work.
    pub(crate) update_s: f64,
    /// Versions that trained tokens were behind the learner's at most, and on average.
    pub(crate) staleness_max: u64,
    pub(crate) staleness_mean: f64,
    /// Tokens of informative groups that were too old to be trained on.
    pub(crate) stale_tokens: u64,
    /// Mean reward of the episodes of the last quarter of the updates.
    pub(crate) reward: f64,
}

/// Trains a copy of the policy.
pub(crate) fn train(policy: &TinyPolicy, config: &TrainingConfig) -> Result<Trained, Failure> {
    let chat = policy.chat()?;
    let engine_config = EngineConfig { max_batch: config.concurrency as usize, ..EngineConfig::default() };
    let engine = Engine::start(engine_config, 0, &policy.params()?)?;
    let learner = learner(policy, &engine)?;
    let plan = Arc::new(plan::plan(config));
    let stream = GroupStream::new(stream_config(config), &plan.slots, &[], StreamSnapshot::at(0))?;
    let provider: Arc<dyn EnvProvider> =
        Arc::new(SlowProvider { turns: config.turns, latency: config.latency });
    let sampling = ReplySampling { max_new_tokens: config.new_tokens, temperature: 1.0 };
    let acting: Arc<dyn Policy> =
        Arc::new(TorchPolicy::new("tiny".to_owned(), engine.handle(), Arc::clone(&chat), sampling));
    let (interrupt, interrupts) = watch::channel(Interrupt::None);
    let (demand, wanted) =
        watch::channel(Demand { groups: GroupDemand::First(stream.demand()), closed: false });
    // As in a real training: twice the episodes under way, so that a learner at work holds up nobody.
    let (records, resolved) = mpsc::channel(2 * config.concurrency as usize);
    let scheduler = Scheduler::new(SchedulerConfig {
        open_slots: plan.slots.iter().map(|slot| slot.id).collect(),
        plan,
        first_epoch: Epoch(1),
        attempt_numbers: BTreeMap::new(),
        providers: BTreeMap::from([("terminal", ProviderConfig::from(provider))]),
        policy: acting,
        sink: Arc::new(Feed::new(records)),
        interrupts,
        demand: Some(wanted),
        timeouts: SchedulerTimeouts::default(),
    })?;
    let learning =
        Learning { learner, stream, chat, resolved, demand, interrupt, trained: Trained::default() };
    let runtime = Builder::new_multi_thread().enable_time().build()?;
    let began = Instant::now();
    let trained = thread::scope(|scope| {
        let learning = thread::Builder::new().name("bench-learner".to_owned()).spawn_scoped(scope, || {
            configure_threads(config.learner_threads)?;
            learning.run(config.updates, began)
        })?;
        let ended = runtime.block_on(scheduler.run());
        let trained = learning.join().map_err(|_| "the learner panicked")?;
        // The learner's failure comes first: the scheduler ended because of it.
        trained.and_then(|trained| Ok(ended.map(|_| trained)?))
    })?;
    if trained.updates == config.updates { Ok(trained) } else { Err(too_few(&trained, config)) }
}

/// A measurement of anything but the whole work is none.
fn too_few(trained: &Trained, config: &TrainingConfig) -> Failure {
    format!("{} updates were made, not {}", trained.updates, config.updates).into()
}

/// One step of AdamW on each batch, nothing decayed, nothing skipped.
pub(crate) fn learner_config(loss: PolicyLoss) -> LearnerConfig {
    LearnerConfig {
        loss,
        optimizer: OptimizerConfig {
            learning_rate: LEARNING_RATE,
            beta1: 0.9,
            beta2: 0.99,
            weight_decay: 0.0,
            epsilon: 1e-8,
            max_grad_norm: 1.0,
            warm_up_steps: 0,
            decay: None,
        },
        minibatches: NonZeroU32::MIN,
        micro_batch_tokens: NonZeroU32::MIN.saturating_add(8_191),
        activations: Activations::Keep,
        max_skipped_steps: 0,
        teacher: None,
        dtype: Dtype::Fp32,
    }
}

fn learner(policy: &TinyPolicy, engine: &Engine) -> Result<TorchLearner, Failure> {
    let keep = Retention { weights: 1, moments: 1 };
    Ok(TorchLearner::new(LearnerSetup {
        config: learner_config(PolicyLoss::default()),
        params: policy.params()?,
        base: None,
        version: 0,
        reference: None,
        publisher: Box::new(engine.handle()),
        collective: Box::new(Alone),
        checkpoints: Checkpoints::new(&policy.scratch("checkpoints"), keep),
        model: &ModelFiles::of(&policy.path()),
    })?)
}

fn stream_config(config: &TrainingConfig) -> StreamConfig {
    StreamConfig {
        advantage: AdvantageKind::Grpo,
        process_weight: 0.0,
        outcome_counts: true,
        length: None,
        curriculum: None,
        schedule: config.schedule,
        batch_groups: config.groups,
        // Rewards are fractions that differ within nearly every group; one that teaches nothing is not replaced, as
        // with the peers.
        resample_budget: NonZeroU32::MIN,
        updates: config.updates,
        seed: config.seed,
    }
}
