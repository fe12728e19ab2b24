//! First steps of a model, and of an adapter on it, against TRL's. Golden file: `ci/golden/trl_grpo.py`.

use std::fs;
use std::num::NonZeroU32;

use clawrl_core::{AttemptId, SlotId};
use clawrl_learn::{Objective, PolicyLoss, Segment, TrainBatch, TrainSample};
use clawrl_torch::{AdapterFiles, LearnerConfig, LoraTarget, Params, Unpublished, load_adapter};
use serde::Deserialize;
use tch::Device;

use crate::adapters::{adapter_learner, peft_folder};
use crate::learner::{config, golden, golden_folder, golden_params, learner_with};
use crate::objectives::{Fingerprints, assert_step};

#[derive(Deserialize)]
struct File {
    /// Of every request.
    temperature: f32,
    samples: Vec<Sample>,
    batches: Vec<Batch>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Sample {
    ids: Vec<u32>,
    mask: Vec<bool>,
}

/// Log-probabilities of the samples' tokens at sampling.
#[derive(Deserialize)]
struct Batch {
    batch: String,
    adapted: bool,
    behaviour: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    batch: String,
    adapted: bool,
    config: PolicyLoss,
    /// Of each sample, by TRL.
    advantages: Vec<f32>,
    /// `None` if TRL's differs but has the same derivative.
    loss: Option<f64>,
    gradients: Fingerprints,
}

fn batch_of(file: &File, case: &Case) -> TrainBatch {
    let found = |batch: &&Batch| batch.batch == case.batch && batch.adapted == case.adapted;
    let behaviour = &file.batches.iter().find(found).unwrap().behaviour;
    let columns = file.samples.iter().zip(behaviour).zip(&case.advantages);
    let sample = |(index, ((sample, behaviour), advantage)): (u32, ((&Sample, &Vec<f32>), &f32))| {
        let length = sample.ids.len();
        TrainSample {
            attempt: AttemptId { slot: SlotId(index), number: 0 },
            segment: Segment {
                ids: sample.ids.clone(),
                mask: sample.mask.clone(),
                behaviour: behaviour.clone(),
                versions: vec![0; length],
                temperatures: vec![file.temperature; length],
                turns: vec![0; length],
            },
            advantages: vec![*advantage; length],
            episode: index,
            teacher: Vec::new(),
            candidates: Vec::new(),
        }
    };
    let samples = (0..).zip(columns).map(sample).collect();
    TrainBatch { objective: Objective::PolicyGradient, samples, groups: Vec::new(), seed: 1 }
}

/// The adapter that PEFT saved, and one with half its effect.
fn adapters(model: &Params) -> (Params, Params) {
    let load =
        || load_adapter(&AdapterFiles::of(&peft_folder()), model.layout().config(), Device::Cpu).unwrap();
    let (adapter, reference) = (load(), load());
    for layer in 0..model.layout().config().num_hidden_layers {
        let of_layer = reference.layer_adapter(layer).unwrap();
        for part in LoraTarget::ALL.into_iter().filter_map(|target| of_layer.of(target)) {
            let _ = part.b.shallow_clone().f_mul_scalar_(0.5).unwrap();
        }
    }
    (adapter, reference)
}

#[test]
fn first_steps_are_those_of_trl() {
    let text = fs::read_to_string(golden_folder().join("trl.json")).unwrap();
    let file: File = serde_json::from_str(&text).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let adapted = file.cases.iter().filter(|case| case.adapted).count();
    assert!(adapted >= 10 && file.cases.len() - adapted >= 10);
    for case in &file.cases {
        let batch = batch_of(&file, case);
        // At once, and in several micro-batches.
        for tokens in [1 << 16, 40] {
            let micro_batch_tokens = NonZeroU32::new(tokens).unwrap();
            let config = LearnerConfig { loss: case.config, micro_batch_tokens, ..config(&golden()) };
            config.loss.check().unwrap();
            let model = golden_params("model.safetensors");
            let learner = if case.adapted {
                let (adapter, reference) = adapters(&model);
                let reference = case.config.kl.map(|_| reference);
                adapter_learner(folder.path(), config, (model, adapter), reference, Box::new(Unpublished))
            } else {
                let reference = case.config.kl.map(|_| golden_params("after.safetensors"));
                learner_with(folder.path(), config, model, reference)
            };
            let place = format!("{}, adapted: {}, {tokens} tokens", case.name, case.adapted);
            assert_step(&learner, &batch, (case.loss, &case.gradients), &place);
        }
    }
}
