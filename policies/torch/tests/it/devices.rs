//! The learner on every available device: the CPU, and a GPU if libtorch sees one.

use std::num::NonZeroU32;

use clawrl_learn::{Learner as _, Objective, TrainBatch};
use clawrl_torch::{
    Activations, Alone, Base, Checkpoints, CudaFacts, Dtype, Engine, EngineConfig, LearnerConfig,
    LearnerSetup, LoraConfig, LoraTarget, ModelFiles, Params, Retention, TorchLearner, Unpublished,
    init_adapter, probe,
};
use tch::{Device, Kind, Tensor};

use crate::adapters::adapter_learner;
use crate::bf16::{sampled, shape, texts};
use crate::engine::{params, random_ids, request};
use crate::learner::{config, golden, golden_folder, learner_with};

/// The available devices.
pub(crate) fn devices() -> Vec<Device> {
    match probe().unwrap().cuda {
        CudaFacts::Available { .. } => vec![Device::Cpu, Device::Cuda(0)],
        CudaFacts::Absent { .. } => vec![Device::Cpu],
    }
}

/// Sequences of many lengths, some of them the same.
fn ragged() -> TrainBatch {
    let sample = |index: u32| {
        let mut segment = clawrl_learn::Segment::default();
        segment.push_context(&random_ids(1 + 7 * (index as usize % 4), u64::from(index)));
        for id in random_ids(5 + 13 * (index as usize % 5), 100 + u64::from(index)) {
            segment.push_sampled(0, id, -4.0, 0, 1.0);
        }
        sampled(index, segment)
    };
    let samples = (0..14).map(sample).collect();
    TrainBatch { objective: Objective::PolicyGradient, samples, groups: Vec::new(), seed: 5 }
}

fn settings(dtype: Dtype, activations: Activations) -> LearnerConfig {
    let micro_batch_tokens = NonZeroU32::new(256).unwrap();
    LearnerConfig { dtype, activations, micro_batch_tokens, ..config(&golden()) }
}

fn lora() -> LoraConfig {
    LoraConfig { rank: 4, alpha: 8.0, targets: LoraTarget::ALL.to_vec() }
}

/// Gradients of [`ragged`], of the whole model or of an adapter of it, on the processor.
fn gradients(config: LearnerConfig, device: Device, is_whole: bool) -> Tensor {
    let folder = tempfile::tempdir().unwrap();
    let model = params(&shape(), 3).on(device, Dtype::Fp32).unwrap();
    let learner = if is_whole {
        learner_with(folder.path(), config, model, None)
    } else {
        let adapter = init_adapter(&shape(), &lora(), 1, device).unwrap();
        let _ = adapter.flat().shallow_clone().g_add_scalar_(0.01);
        adapter_learner(folder.path(), config, (model, adapter), None, Box::new(Unpublished))
    };
    let (loss, gradients) = learner.gradients_of(&ragged()).unwrap();
    assert!(loss.is_finite());
    assert_eq!(gradients.flat().device(), device);
    gradients.flat().to_device(Device::Cpu).to_kind(Kind::Double)
}

#[track_caller]
fn near(got: &Tensor, expected: &Tensor, bound: f64, place: &str) {
    let norm = |x: &Tensor| f64::try_from(x.norm()).unwrap();
    let distance = norm(&(got - expected)) / norm(expected);
    assert!(norm(expected) > 1e-3 && distance <= bound, "{place}: {distance:e}");
}

/// Of a small model on the processor, gradients come from passes of the learner's own; on any other device, and with an adapter,
/// from libtorch's.
#[test]
fn gradients_are_the_same_wherever_they_are_computed() {
    use Activations::{Keep, Recompute};
    for is_whole in [true, false] {
        let expected = gradients(settings(Dtype::Fp32, Keep), Device::Cpu, is_whole);
        for device in devices() {
            for activations in [Keep, Recompute] {
                let place = format!("{device:?}, {activations:?}, whole: {is_whole}");
                let fp32 = gradients(settings(Dtype::Fp32, activations), device, is_whole);
                near(&fp32, &expected, 2e-5, &place);
                let bf16 = gradients(settings(Dtype::Bf16, activations), device, is_whole);
                near(&bf16, &expected, 0.1, &place);
            }
        }
    }
}

/// From a device to the engine, to a checkpoint, and back: the learner's log-probabilities equal the engine's, and a
/// resumed learner has the same parameters.
#[test]
fn what_is_learned_on_a_device_is_served_kept_and_gone_on_with() {
    for (device, dtype) in
        devices().into_iter().flat_map(|device| [(device, Dtype::Fp32), (device, Dtype::Bf16)])
    {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints =
            || Checkpoints::new(&folder.path().join("checkpoints"), Retention { weights: 3, moments: 2 });
        let start = params(&shape(), 3);
        let engine_config = EngineConfig { dtype, ..EngineConfig::default() };
        let engine = Engine::start(engine_config, 0, &start).unwrap();
        let learner = |publisher| {
            let mut config = settings(dtype, Activations::Recompute);
            config.optimizer.learning_rate = 3e-3;
            TorchLearner::new(LearnerSetup {
                config,
                params: params(&shape(), 3).copy_on(device).unwrap(),
                base: None::<Base>,
                version: 0,
                reference: None,
                publisher,
                collective: Box::new(Alone),
                checkpoints: checkpoints(),
                model: &ModelFiles::of(&golden_folder()),
            })
            .unwrap()
        };
        let mut one = learner(Box::new(engine.handle()));
        let first = one.update(&texts()).unwrap().loss;
        for _ in 0..40 {
            one.update(&texts()).unwrap();
        }
        one.publish().unwrap();
        one.checkpoint("{}").unwrap();

        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut samples = Vec::new();
        for index in 0..8u32 {
            let prompt = [index, 3];
            let reply =
                runtime.block_on(engine.handle().generate(request(&prompt, 30, u64::from(index)))).unwrap();
            assert!(reply.versions.iter().all(|&(_, version)| version == 41), "{device:?}");
            let mut segment = clawrl_learn::Segment::default();
            segment.push_context(&prompt);
            for (&id, &logprob) in reply.ids.iter().zip(&reply.logprobs) {
                segment.push_sampled(41, id, logprob, 0, 1.0);
            }
            samples.push(sampled(index, segment));
        }
        let batch = TrainBatch { objective: Objective::PolicyGradient, samples, groups: Vec::new(), seed: 1 };
        let mut other = learner(Box::new(Unpublished));
        other.restore(checkpoints().latest().unwrap().checkpoint.unwrap()).unwrap();
        let flat = |params: &Params| params.flat().to_device(Device::Cpu);
        assert!(flat(one.params()).equal(&flat(other.params())), "{device:?}");
        let (report, again) = (one.update(&batch).unwrap(), other.update(&batch).unwrap());
        assert!(report.behaviour_gap < 0.02, "{device:?}, {dtype:?}: {}", report.behaviour_gap);
        assert_eq!(other.params().flat().device(), device);
        // No bits are promised on a GPU.
        near(&flat(other.params()), &flat(one.params()), 1e-5, &format!("{device:?}"));
        assert!((report.loss - again.loss).abs() < 1e-3);
        let last = one.update(&texts()).unwrap().loss;
        assert!(last < 0.7 * first, "{device:?}, {dtype:?}: {first} to {last}");
    }
}
