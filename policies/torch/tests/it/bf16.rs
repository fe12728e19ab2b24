//! Passes in bf16 over fp32 parameters: accuracy, learning, checkpoints.

use std::num::NonZeroU32;
use std::path::Path;

use clawrl_core::{AttemptId, SlotId};
use clawrl_learn::{Learner, Objective, Segment, TrainBatch, TrainSample};
use clawrl_torch::{
    Activations, Checkpoints, Device, Dtype, Engine, EngineConfig, LearnerConfig, LoraConfig, LoraTarget,
    ModelConfig, Params, Retention, TorchLearner, Unpublished, init_adapter,
};
use tch::{Kind, Tensor};

use crate::adapters::adapter_learner;
use crate::engine::{params, random_ids, request};
use crate::learner::{config, golden, golden_batch, golden_params, learner_with};

/// Maximum mean distance of the learner's log-probabilities from the engine's.
const AGREEMENT: f64 = 0.02;

fn in_bf16(activations: Activations) -> LearnerConfig {
    let mut config = LearnerConfig { dtype: Dtype::Bf16, activations, ..config(&golden()) };
    config.optimizer.learning_rate = 3e-3;
    config
}

fn learner(folder: &Path, params: Params) -> TorchLearner {
    learner_with(folder, in_bf16(Activations::Keep), params, None)
}

/// Sequences that can be memorised.
pub(crate) fn texts() -> TrainBatch {
    let sample = |index: u32| {
        let mut segment = Segment::default();
        segment.push_context(&[index, 3]);
        for id in random_ids(24, u64::from(index)) {
            segment.push_sampled(0, id, 0.0, 0, 1.0);
        }
        sampled(index, segment)
    };
    let samples = (0..12).map(sample).collect();
    TrainBatch { objective: Objective::Imitation, samples, groups: Vec::new(), seed: 5 }
}

pub(crate) fn sampled(index: u32, segment: Segment) -> TrainSample {
    TrainSample {
        attempt: AttemptId { slot: SlotId(index), number: 0 },
        advantages: vec![if index.is_multiple_of(2) { 1.0 } else { -1.0 }; segment.len()],
        segment,
        episode: index,
        teacher: Vec::new(),
        candidates: Vec::new(),
    }
}

pub(crate) fn shape() -> ModelConfig {
    ModelConfig { num_hidden_layers: 2, ..ModelConfig::tiny(67, 1) }
}

/// Compares with fp32 gradients of PyTorch, within the precision of 8-bit factors.
#[test]
fn gradients_are_near_those_of_pytorch() {
    let (golden, folder) = (golden(), tempfile::tempdir().unwrap());
    for objective in [Objective::PolicyGradient, Objective::Imitation] {
        let learner =
            learner_with(folder.path(), in_bf16(Activations::Keep), golden_params("model.safetensors"), None);
        let exact = learner_with(folder.path(), config(&golden), golden_params("model.safetensors"), None);
        let batch = golden_batch(&golden, objective);
        let ((loss, got), (exact_loss, expected)) =
            (learner.gradients_of(&batch).unwrap(), exact.gradients_of(&batch).unwrap());
        assert!((loss - exact_loss).abs() <= 0.02 * exact_loss.abs().max(1.0), "{loss} {exact_loss}");
        assert_eq!(got.flat().kind(), Kind::Float);
        if objective == Objective::PolicyGradient {
            near(&got, &golden_params("gradients.safetensors"), 0.1);
        }
        near(&got, &expected, 0.1);
    }
}

/// Relative L2 distance of the whole.
#[track_caller]
fn near(got: &Params, expected: &Params, bound: f64) {
    let norm = |x: &Tensor| f64::try_from(x.to_kind(Kind::Double).norm()).unwrap();
    let distance = norm(&(got.flat() - expected.flat())) / norm(expected.flat());
    assert!(distance > 1e-6 && distance <= bound, "{distance:e}");
}

#[test]
fn a_training_learns_and_engine_and_learner_agree() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path(), params(&shape(), 3));
    let first = learner.update(&texts()).unwrap().loss;
    for _ in 0..60 {
        learner.update(&texts()).unwrap();
    }
    let last = learner.update(&texts()).unwrap().loss;
    assert!(first > 3.5 && last < 0.5 * first, "{first} to {last}");

    // Neither certain nor uniform: like a policy in the middle of training.
    let engine_config = EngineConfig { dtype: Dtype::Bf16, ..EngineConfig::default() };
    let engine = Engine::start(engine_config, 0, learner.params()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let samples = (0..16).map(|index: u32| {
        let prompt = [index % 12, 3];
        let reply =
            runtime.block_on(engine.handle().generate(request(&prompt, 40, u64::from(index)))).unwrap();
        let mut segment = Segment::default();
        segment.push_context(&prompt);
        for (&id, &logprob) in reply.ids.iter().zip(&reply.logprobs) {
            segment.push_sampled(0, id, logprob, 0, 1.0);
        }
        sampled(index, segment)
    });
    let samples = samples.collect();
    let batch = TrainBatch { objective: Objective::PolicyGradient, samples, groups: Vec::new(), seed: 1 };
    let report = learner.update(&batch).unwrap();
    assert!(report.trained_tokens > 300, "{report:?}");
    assert!(report.behaviour_gap > 0.0 && report.behaviour_gap < AGREEMENT, "{}", report.behaviour_gap);
}

/// I5 of the learner: checkpoints are fp32, and a resumed learner has the same bits.
#[test]
fn a_checkpoint_has_the_master_and_goes_on_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    // As of a policy whose files are bf16.
    let shape = ModelConfig { dtype: "bfloat16".to_owned(), ..shape() };
    let mut one = learner(folder.path(), params(&shape, 3));
    for _ in 0..3 {
        one.update(&texts()).unwrap();
    }
    one.checkpoint("{}").unwrap();
    let checkpoints =
        Checkpoints::new(&folder.path().join("checkpoints"), Retention { weights: 3, moments: 2 });
    let kept = checkpoints.latest().unwrap().checkpoint.unwrap();
    assert!(kept.params.flat().equal(one.params().flat()), "to the last bit");
    let rounded = one.params().flat().to_kind(Kind::BFloat16).to_kind(Kind::Float);
    assert!(!rounded.equal(one.params().flat()), "more than bf16 holds");
    let mut other = learner(folder.path(), params(&shape, 4));
    other.restore(kept).unwrap();
    for _ in 0..2 {
        one.update(&texts()).unwrap();
        other.update(&texts()).unwrap();
    }
    assert!(one.params().flat().equal(other.params().flat()));
}

#[test]
fn recomputed_activations_give_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let gradients = |activations| {
        let learner = learner_with(folder.path(), in_bf16(activations), params(&shape(), 3), None);
        learner.gradients_of(&texts()).unwrap().1.flat().shallow_clone()
    };
    let kept = gradients(Activations::Keep);
    assert!(kept.equal(&gradients(Activations::Recompute)) && kept.equal(&gradients(Activations::Keep)));
}

/// An adapter's parameters are fp32; its base model needs only bf16.
#[test]
fn an_adapter_learns_over_a_model_in_bf16() {
    let folder = tempfile::tempdir().unwrap();
    let lora = LoraConfig { rank: 4, alpha: 8.0, targets: LoraTarget::ALL.to_vec() };
    let adapter = init_adapter(&shape(), &lora, 1, Device::Cpu).unwrap();
    let config = LearnerConfig { minibatches: NonZeroU32::MIN, ..in_bf16(Activations::Keep) };
    let pair = (params(&shape(), 3), adapter);
    let mut learner = adapter_learner(folder.path(), config, pair, None, Box::new(Unpublished));
    assert_eq!(learner.base().unwrap().flat().kind(), Kind::BFloat16);
    assert_eq!(learner.params().flat().kind(), Kind::Float);
    let first = learner.update(&texts()).unwrap().loss;
    for _ in 0..40 {
        learner.update(&texts()).unwrap();
    }
    let last = learner.update(&texts()).unwrap().loss;
    assert!(last < 0.9 * first, "{first} to {last}");
}
