//! Converts a train plan to settings of learners and samplers.

use std::num::{NonZeroU32, NonZeroUsize};

use clawrl_config::{
    Advantage, Aggregation, ChatObjective, ChatPlan, DistillationPlan, GuardPlan, Importance,
    KeptActivations, LoraPlan, LossPlan, OptimizerPlan, OverlongPlan, RlPlan, Schedule, TrainPlan,
    WarmStartPlan,
};
use clawrl_learn::{
    AdvantageKind, CandidateWeight, Clip, CollapseBounds, CurriculumConfig, Distillation, DistillationForm,
    EntropyBonus, KlEstimator, KlPenalty, LengthCost, Overlong, PolicyLoss, StreamConfig, Surrogate,
    Weighting,
};
use clawrl_torch::{
    Activations, Decay, Dtype, EngineConfig, LearnerConfig, LoraConfig, LoraTarget, OptimizerConfig, Teacher,
};

/// Tokens of one forward pass of the learner. Large enough that computation dominates overhead, small enough for the memory of
/// activations.
const MICRO_BATCH_TOKENS: NonZeroU32 = NonZeroU32::new(8192).unwrap();

/// Converts a number that a checked plan guarantees to be at least 1.
fn positive(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}

/// Threads of one operation.
pub(super) fn threads(number: u32) -> NonZeroUsize {
    NonZeroUsize::new(number as usize).unwrap_or(NonZeroUsize::MIN)
}

/// Settings of a training's sampler.
pub(super) fn engine(plan: &TrainPlan) -> EngineConfig {
    EngineConfig {
        max_batch: plan.engine.max_batch as usize,
        threads: plan.engine.threads as usize,
        reproducible: plan.engine.batch_invariant,
        dtype: dtype(plan.engine.dtype),
        ..EngineConfig::default()
    }
}

fn dtype(dtype: clawrl_config::Dtype) -> Dtype {
    match dtype {
        clawrl_config::Dtype::Fp32 => Dtype::Fp32,
        clawrl_config::Dtype::Bf16 => Dtype::Bf16,
    }
}

/// Applies the plan's `engine:` settings to a learner.
pub(super) fn computing(plan: &TrainPlan, config: LearnerConfig) -> LearnerConfig {
    let activations = match plan.engine.activations {
        KeptActivations::Keep => Activations::Keep,
        KeptActivations::Recompute => Activations::Recompute,
    };
    LearnerConfig { dtype: dtype(plan.engine.dtype), activations, ..config }
}

/// Settings of the trained adapter.
pub(super) fn lora(plan: &LoraPlan) -> LoraConfig {
    let target = |target: &clawrl_config::LoraTarget| match target {
        clawrl_config::LoraTarget::QProj => LoraTarget::QProj,
        clawrl_config::LoraTarget::KProj => LoraTarget::KProj,
        clawrl_config::LoraTarget::VProj => LoraTarget::VProj,
        clawrl_config::LoraTarget::OProj => LoraTarget::OProj,
        clawrl_config::LoraTarget::GateProj => LoraTarget::GateProj,
        clawrl_config::LoraTarget::UpProj => LoraTarget::UpProj,
        clawrl_config::LoraTarget::DownProj => LoraTarget::DownProj,
    };
    let targets = plan.targets.iter().map(target).collect();
    LoraConfig { rank: i64::from(plan.rank), alpha: plan.alpha, targets }
}

/// Settings of the stream of groups.
pub(super) fn stream(rl: &RlPlan, seed: u64) -> StreamConfig {
    StreamConfig {
        advantage: match rl.advantage {
            Advantage::Grpo => AdvantageKind::Grpo,
            Advantage::DrGrpo => AdvantageKind::DrGrpo,
            Advantage::LeaveOneOut => AdvantageKind::LeaveOneOut,
            Advantage::Running => AdvantageKind::Running,
        },
        process_weight: rl.process_weight,
        outcome_counts: rl.outcome_weight > 0.0,
        length: rl.length.map(|length| LengthCost { coefficient: length.coefficient, target: length.target }),
        schedule: match rl.schedule {
            Schedule::Synchronous => clawrl_learn::Schedule::Synchronous,
            Schedule::OneStepOff => clawrl_learn::Schedule::OneStepOff,
            Schedule::Asynchronous => {
                clawrl_learn::Schedule::Asynchronous { max_staleness: u64::from(rl.max_staleness) }
            }
        },
        curriculum: rl
            .curriculum
            .map(|curriculum| CurriculumConfig { least: curriculum.least, memory: curriculum.memory }),
        batch_groups: positive(rl.batch_groups),
        resample_budget: positive(rl.resample_budget),
        updates: rl.updates,
        seed,
    }
}

/// Handling of episodes that a limit cut.
pub(super) fn overlong(plan: OverlongPlan) -> Overlong {
    match plan {
        OverlongPlan::Train => Overlong::Train,
        OverlongPlan::Mask => Overlong::Mask,
        OverlongPlan::Soft { soft_tokens } => Overlong::Soft { tokens: soft_tokens },
    }
}

/// The bounds of the collapse detector; `None` if the plan turns it off.
pub(super) fn collapse_bounds(plan: &GuardPlan) -> Option<CollapseBounds> {
    let GuardPlan { entropy, shortest, longest, repetition, updates } = *plan;
    (updates > 0).then_some(CollapseBounds { entropy, shortest, longest, repetition, updates })
}

/// Settings of the learner of reinforcement learning. `episode_tokens`: maximum sampled tokens of an episode.
pub(super) fn learner(rl: &RlPlan, episode_tokens: u64) -> LearnerConfig {
    LearnerConfig {
        loss: PolicyLoss {
            outcome_weight: rl.outcome_weight,
            distillation: rl.distillation.as_ref().map(distillation),
            ..loss(&rl.loss, episode_tokens)
        },
        optimizer: optimizer(&rl.optimizer, u64::from(rl.updates) * u64::from(rl.minibatches)),
        minibatches: positive(rl.minibatches),
        micro_batch_tokens: MICRO_BATCH_TOKENS,
        activations: Activations::Keep,
        max_skipped_steps: rl.max_skipped_steps,
        teacher: rl.distillation.as_ref().map(teacher),
        dtype: Dtype::Fp32,
    }
}

/// Settings of the learner of chat.
pub(super) fn chat_learner(plan: &ChatPlan) -> LearnerConfig {
    let hinted = plan.objective != ChatObjective::Binary;
    let weight = CandidateWeight::Renormalised;
    let form =
        plan.top_k.map_or(DistillationForm::Sampled, |k| DistillationForm::TopK { k: positive(k), weight });
    let taught = Distillation { weight: 1.0, bound: 1.0, form, fade: None };
    LearnerConfig {
        loss: PolicyLoss {
            outcome_weight: f64::from(u8::from(plan.objective != ChatObjective::Opd)),
            distillation: hinted.then_some(taught),
            // Turns wait for feedback, so many were sampled by older versions.
            weighting: Weighting::IcePop { low: 0.5, high: 5.0 },
            ..PolicyLoss::default()
        },
        optimizer: OptimizerConfig {
            learning_rate: plan.learning_rate,
            // No momentum: updates are rare, and momentum would continue for ten updates after the last complaint, when there is
            // nothing left to learn.
            beta1: 0.0,
            beta2: 0.98,
            weight_decay: 0.1,
            epsilon: 1e-8,
            max_grad_norm: 1.0,
            warm_up_steps: 0,
            decay: None,
        },
        minibatches: NonZeroU32::MIN,
        micro_batch_tokens: MICRO_BATCH_TOKENS,
        activations: Activations::Keep,
        // A version without a step would consume its samples for nothing.
        max_skipped_steps: 0,
        teacher: hinted.then_some(Teacher::Ema { decay: 0.95 }),
        dtype: Dtype::Fp32,
    }
}

fn distillation(plan: &DistillationPlan) -> Distillation {
    let weight = match plan.candidate_weight {
        clawrl_config::CandidateWeight::Renormalised => CandidateWeight::Renormalised,
        clawrl_config::CandidateWeight::Mass => CandidateWeight::Mass,
    };
    Distillation {
        weight: plan.weight,
        bound: plan.bound,
        form: plan
            .top_k
            .map_or(DistillationForm::Sampled, |k| DistillationForm::TopK { k: positive(k), weight }),
        fade: plan.fade_updates.map(positive),
    }
}

fn teacher(plan: &DistillationPlan) -> Teacher {
    match plan.teacher {
        clawrl_config::Teacher::Current => Teacher::Current,
        clawrl_config::Teacher::Ema => Teacher::Ema { decay: plan.ema_decay },
        clawrl_config::Teacher::Frozen => Teacher::Frozen,
        clawrl_config::Teacher::Remote => Teacher::Elsewhere,
    }
}

/// Settings of the learner of imitation.
pub(super) fn imitator(warm_start: &WarmStartPlan) -> LearnerConfig {
    LearnerConfig {
        loss: PolicyLoss::default(),
        optimizer: optimizer(&warm_start.optimizer, u64::from(warm_start.steps)),
        minibatches: NonZeroU32::MIN,
        micro_batch_tokens: MICRO_BATCH_TOKENS,
        activations: Activations::Keep,
        max_skipped_steps: warm_start.max_skipped_steps,
        teacher: None,
        dtype: Dtype::Fp32,
    }
}

fn optimizer(plan: &OptimizerPlan, total_steps: u64) -> OptimizerConfig {
    let falls = plan.final_fraction < 1.0;
    OptimizerConfig {
        learning_rate: plan.learning_rate,
        beta1: plan.beta1,
        beta2: plan.beta2,
        weight_decay: plan.weight_decay,
        epsilon: plan.epsilon,
        max_grad_norm: plan.max_grad_norm,
        warm_up_steps: u64::from(plan.warm_up_steps),
        decay: falls.then_some(Decay { total_steps, final_fraction: plan.final_fraction }),
    }
}

fn loss(plan: &LossPlan, episode_tokens: u64) -> PolicyLoss {
    let clip = Clip { low: plan.clip_low, high: plan.clip_high };
    PolicyLoss {
        surrogate: match plan.surrogate {
            clawrl_config::Surrogate::Token => Surrogate::Token { clip, dual_clip: plan.dual_clip },
            clawrl_config::Surrogate::Sequence => Surrogate::Sequence { clip },
            clawrl_config::Surrogate::Cispo => Surrogate::Cispo { cap: plan.cispo_cap },
        },
        weighting: match plan.importance {
            Importance::None => Weighting::None,
            Importance::Token(cap) => Weighting::Token { cap },
            Importance::Sequence(cap) => Weighting::Sequence { cap },
            Importance::Geometric(cap) => Weighting::Geometric { cap },
            Importance::IcePop(interval) => Weighting::IcePop { low: interval.low, high: interval.high },
        },
        aggregation: match plan.aggregation {
            Aggregation::TokenMean => clawrl_learn::Aggregation::TokenMean,
            Aggregation::EpisodeMean => clawrl_learn::Aggregation::EpisodeMean,
            Aggregation::Constant => {
                let max_tokens = positive(u32::try_from(episode_tokens).unwrap_or(u32::MAX));
                clawrl_learn::Aggregation::Constant { max_tokens }
            }
        },
        kl: plan.kl.map(|kl| KlPenalty {
            coefficient: kl.coefficient,
            estimator: match kl.estimator {
                clawrl_config::KlEstimator::K3 => KlEstimator::K3,
                clawrl_config::KlEstimator::K2 => KlEstimator::K2,
            },
        }),
        entropy: plan
            .entropy
            .map(|entropy| EntropyBonus { coefficient: entropy.coefficient, floor: entropy.floor }),
        ..PolicyLoss::default()
    }
}

#[cfg(test)]
mod tests {
    use clawrl_config::{MemoryNeeds, ModelShape};
    use clawrl_torch::{ModelConfig, ParamLayout};

    use super::*;

    /// The memory estimate is in a crate that knows neither model nor sampler.
    #[test]
    fn what_memory_is_counted_by_is_what_computes() {
        let config = ModelConfig::tiny(1_500, 0);
        let shape: ModelShape = serde_json::from_value(serde_json::to_value(&config).unwrap()).unwrap();
        assert_eq!(shape, ModelShape::tiny());
        for tied in [true, false] {
            let config = ModelConfig { tie_word_embeddings: tied, ..config.clone() };
            let shape = ModelShape { tie_word_embeddings: tied, ..shape };
            let parameters = ParamLayout::new(config).parameters();
            assert_eq!(shape.parameters(), parameters.unsigned_abs());
        }
        let targets = vec![clawrl_config::LoraTarget::KProj, clawrl_config::LoraTarget::DownProj];
        let plan = LoraPlan { rank: 4, alpha: 8.0, targets };
        let layout = ParamLayout::adapter(config, lora(&plan));
        assert_eq!(shape.adapter_parameters(&plan), layout.parameters().unsigned_abs());

        let engine = EngineConfig::default();
        assert_eq!(MemoryNeeds::KV_BUDGET, engine.kv_budget_bytes);
        assert_eq!(MemoryNeeds::PREFILL_ROWS, engine.max_prefill_rows as u64);
        assert_eq!(MemoryNeeds::MICRO_BATCH_TOKENS, u64::from(MICRO_BATCH_TOKENS.get()));
    }
}
