//! The learner against PyTorch, against itself, and under bad numbers. Golden files: `ci/golden/learner.py`.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_core::{AttemptId, SlotId};
use clawrl_learn::{
    EntropyBonus, LearnError, Learner, Objective, PolicyLoss, Segment, TrainBatch, TrainSample, Weighting,
};
use clawrl_torch::{
    Activations, Alone, Checkpoints, Dtype, LearnerConfig, LearnerSetup, ModelConfig, ModelFiles,
    OptimizerConfig, ParamLayout, Params, Retention, TorchError, TorchLearner, Unpublished,
    configure_threads, init_params, load_params, save_params,
};
use serde::Deserialize;
use tch::{Device, Kind, Tensor};

#[derive(Deserialize)]
pub(crate) struct Golden {
    cap: f64,
    max_grad_norm: f64,
    adamw: GoldenAdamw,
    loss: f64,
    imitation_loss: f64,
    grad_norm: f64,
    samples: Vec<GoldenSample>,
}

#[derive(Deserialize)]
struct GoldenAdamw {
    learning_rate: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    weight_decay: f64,
}

#[derive(Deserialize)]
struct GoldenSample {
    ids: Vec<u32>,
    mask: Vec<bool>,
    behaviour: Vec<f32>,
    temperature: f32,
    advantage: f32,
}

pub(crate) fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/learner")
}

pub(crate) fn golden() -> Golden {
    serde_json::from_str(&fs::read_to_string(golden_folder().join("batch.json")).unwrap()).unwrap()
}

/// The golden file of this name, in the layout of the model.
pub(crate) fn golden_params(name: &str) -> Params {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(golden_folder().join("config.json"), folder.path().join("config.json")).unwrap();
    fs::copy(golden_folder().join(name), folder.path().join("model.safetensors")).unwrap();
    load_params(&ModelFiles::of(folder.path()), Device::Cpu).unwrap()
}

pub(crate) fn golden_batch(golden: &Golden, objective: Objective) -> TrainBatch {
    let sample = |(index, sample): (usize, &GoldenSample)| TrainSample {
        attempt: AttemptId { slot: SlotId(index as u32), number: 0 },
        segment: Segment {
            ids: sample.ids.clone(),
            mask: sample.mask.clone(),
            behaviour: sample.behaviour.clone(),
            versions: vec![0; sample.ids.len()],
            temperatures: vec![sample.temperature; sample.ids.len()],
            turns: vec![0; sample.ids.len()],
        },
        advantages: vec![sample.advantage; sample.ids.len()],
        episode: index as u32,
        teacher: Vec::new(),
        candidates: Vec::new(),
    };
    let samples = golden.samples.iter().enumerate().map(sample).collect();
    TrainBatch { objective, samples, groups: Vec::new(), seed: 1 }
}

pub(crate) fn config(golden: &Golden) -> LearnerConfig {
    LearnerConfig {
        loss: PolicyLoss { weighting: Weighting::Token { cap: golden.cap }, ..PolicyLoss::default() },
        optimizer: OptimizerConfig {
            learning_rate: golden.adamw.learning_rate,
            beta1: golden.adamw.beta1,
            beta2: golden.adamw.beta2,
            weight_decay: golden.adamw.weight_decay,
            epsilon: golden.adamw.epsilon,
            max_grad_norm: golden.max_grad_norm,
            warm_up_steps: 0,
            decay: None,
        },
        minibatches: NonZeroU32::MIN,
        micro_batch_tokens: NonZeroU32::new(1 << 16).unwrap(),
        activations: Activations::Keep,
        max_skipped_steps: 2,
        teacher: None,
        dtype: Dtype::Fp32,
    }
}

fn learner_in(folder: &Path, config: LearnerConfig, params: Params) -> TorchLearner {
    learner_with(folder, config, params, None)
}

pub(crate) fn learner_with(
    folder: &Path,
    config: LearnerConfig,
    params: Params,
    reference: Option<Params>,
) -> TorchLearner {
    try_learner(folder, config, params, reference).unwrap()
}

pub(crate) fn try_learner(
    folder: &Path,
    config: LearnerConfig,
    params: Params,
    reference: Option<Params>,
) -> Result<TorchLearner, TorchError> {
    configure_threads(std::num::NonZeroUsize::MIN).unwrap();
    TorchLearner::new(LearnerSetup {
        config,
        params,
        base: None,
        version: 0,
        reference,
        publisher: Box::new(Unpublished),
        collective: Box::new(Alone),
        checkpoints: Checkpoints::new(&folder.join("checkpoints"), Retention { weights: 3, moments: 2 }),
        model: &ModelFiles::of(&golden_folder()),
    })
}

/// `|a - b| / |b|`, the worst over all parameters.
#[track_caller]
fn assert_close(got: &Params, expected: &Params, bound: f64) {
    for spec in expected.layout().specs() {
        let (a, b) = (got.view(spec).unwrap(), expected.view(spec).unwrap());
        let norm = |x: &Tensor| f64::try_from(x.to_kind(Kind::Double).norm()).unwrap();
        let distance = norm(&(&a.to_kind(Kind::Double) - &b.to_kind(Kind::Double))) / norm(&b);
        assert!(distance <= bound, "{}: relative L2 distance {distance:e}", spec.name);
    }
}

#[test]
fn an_update_is_that_of_pytorch() {
    let golden = golden();
    let folder = tempfile::tempdir().unwrap();
    let variants = [
        (Activations::Keep, 1 << 16),
        (Activations::Recompute, 1 << 16),
        // Several micro-batches: the normaliser is that of the step.
        (Activations::Keep, 40),
    ];
    for (activations, tokens) in variants {
        let micro_batch_tokens = NonZeroU32::new(tokens).unwrap();
        let config = LearnerConfig { activations, micro_batch_tokens, ..config(&golden) };
        let mut learner = learner_in(folder.path(), config, golden_params("model.safetensors"));
        let batch = golden_batch(&golden, Objective::PolicyGradient);
        let (sums_loss, gradients) = learner.gradients_of(&batch).unwrap();
        assert!((sums_loss - golden.loss).abs() <= 1e-5 * golden.loss.abs(), "{sums_loss} {}", golden.loss);
        assert_close(&gradients, &golden_params("gradients.safetensors"), 1e-5);
        let report = learner.update(&batch).unwrap();
        assert!((report.loss - golden.loss).abs() <= 1e-5 * golden.loss.abs());
        assert!((report.grad_norm - golden.grad_norm).abs() <= 1e-5 * golden.grad_norm);
        assert_eq!((report.version, report.steps, report.skipped), (1, 1, 0));

        let imitation = golden_batch(&golden, Objective::Imitation);
        let fresh = learner_in(folder.path(), learner.config().clone(), golden_params("model.safetensors"));
        let (loss, _) = fresh.gradients_of(&imitation).unwrap();
        assert!((loss - golden.imitation_loss).abs() <= 1e-5 * golden.imitation_loss, "{loss}");
    }
}

#[test]
fn a_step_on_the_references_gradients_is_that_of_pytorch() {
    let golden = golden();
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner_in(folder.path(), config(&golden), golden_params("model.safetensors"));
    learner.step_on(&golden_params("gradients.safetensors")).unwrap();
    assert_close(learner.params(), &golden_params("after.safetensors"), 1e-6);
}

#[test]
fn recomputed_activations_give_the_same_bits() {
    let golden = golden();
    let folder = tempfile::tempdir().unwrap();
    let gradients = |activations| {
        let config = LearnerConfig { activations, ..config(&golden) };
        let learner = learner_in(folder.path(), config, golden_params("model.safetensors"));
        let batch = golden_batch(&golden, Objective::PolicyGradient);
        learner.gradients_of(&batch).unwrap().1.flat().shallow_clone()
    };
    assert!(gradients(Activations::Keep).equal(&gradients(Activations::Recompute)));
}

/// A model of one layer and a batch of sampled-looking segments, for tests about behaviour and not about numbers.
fn small() -> (Params, TrainBatch) {
    let mut shape = ModelConfig::tiny(64, 1);
    shape.num_hidden_layers = 1;
    let params = init_params(Arc::new(ParamLayout::new(shape)), 3, Device::Cpu).unwrap();
    let sample = |index: u32| {
        let mut segment = Segment::default();
        segment.push_context(&[2, 3 + index % 5]);
        for at in 0..(3 + index % 4) {
            segment.push_sampled(0, (7 * index + 11 * at) % 64, -4.1, 0, 1.0);
        }
        let advantages = vec![if index.is_multiple_of(2) { 1.0 } else { -1.0 }; segment.len()];
        TrainSample {
            attempt: AttemptId { slot: SlotId(index), number: 0 },
            segment,
            advantages,
            episode: index,
            teacher: Vec::new(),
            candidates: Vec::new(),
        }
    };
    let samples = (0..12).map(sample).collect();
    (params, TrainBatch { objective: Objective::PolicyGradient, samples, groups: Vec::new(), seed: 5 })
}

fn small_config() -> LearnerConfig {
    let minibatches = NonZeroU32::new(2).unwrap();
    LearnerConfig { minibatches, ..config(&golden()) }
}

#[test]
fn i1_bad_numbers_change_nothing_and_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (params, mut batch) = small();
    batch.samples[4].advantages = vec![f32::NAN; batch.samples[4].segment.len()];
    let before = params.copy().unwrap();
    let one_step = LearnerConfig { minibatches: NonZeroU32::MIN, ..small_config() };
    let mut learner = learner_in(folder.path(), one_step, params);
    for version in 1..=2 {
        let report = learner.update(&batch).unwrap();
        assert_eq!((report.version, report.steps, report.skipped), (version, 0, 1));
        assert_eq!(report.culprits, [batch.samples[4].attempt.to_string()]);
        assert!(learner.params().flat().equal(before.flat()));
    }
    match learner.update(&batch).unwrap_err() {
        LearnError::NotFinite { steps, culprits } => {
            assert_eq!((steps, culprits), (3, batch.samples[4].attempt.to_string()));
        }
        other => panic!("{other}"),
    }
    assert!(learner.params().flat().equal(before.flat()));
}

#[test]
fn a_good_step_resets_the_count_of_bad_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (params, good) = small();
    let mut bad = good.clone();
    bad.samples[0].segment.behaviour = vec![f32::NAN; bad.samples[0].segment.len()];
    bad.samples[1].advantages = vec![f32::INFINITY; bad.samples[1].segment.len()];
    let one_step = LearnerConfig { minibatches: NonZeroU32::MIN, ..small_config() };
    let mut learner = learner_in(folder.path(), one_step, params);
    for _ in 0..3 {
        assert_eq!(learner.update(&bad).unwrap().skipped, 1);
        assert_eq!(learner.update(&bad).unwrap().skipped, 1);
        assert_eq!(learner.update(&good).unwrap().steps, 1);
    }
}

#[test]
fn a_batch_without_gradient_makes_no_step() {
    let folder = tempfile::tempdir().unwrap();
    let (params, mut batch) = small();
    let before = params.copy().unwrap();
    for sample in &mut batch.samples {
        sample.segment.mask = vec![false; sample.segment.len()];
    }
    let mut learner = learner_in(folder.path(), small_config(), params);
    let report = learner.update(&batch).unwrap();
    assert_eq!((report.version, report.steps, report.trained_tokens), (1, 0, 0));
    assert!(learner.params().flat().equal(before.flat()));
}

#[test]
fn going_on_from_a_checkpoint_is_bit_identical_to_never_having_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let (params, batch) = small();
    let seeded = |seed| TrainBatch { seed, ..batch.clone() };
    let mut whole = learner_in(folder.path(), small_config(), params.copy().unwrap());
    for seed in 0..3 {
        whole.update(&seeded(seed)).unwrap();
    }
    whole.checkpoint("after three").unwrap();
    for seed in 3..6 {
        whole.update(&seeded(seed)).unwrap();
    }

    let checkpoints =
        Checkpoints::new(&folder.path().join("checkpoints"), Retention { weights: 3, moments: 2 });
    let found = checkpoints.latest().unwrap();
    assert!(found.damaged.is_empty());
    let checkpoint = found.checkpoint.unwrap();
    assert_eq!((checkpoint.version, checkpoint.progress.as_str()), (3, "after three"));
    let mut resumed = learner_in(folder.path(), small_config(), params);
    resumed.restore(checkpoint).unwrap();
    for seed in 3..6 {
        resumed.update(&seeded(seed)).unwrap();
    }
    assert_eq!(resumed.version(), whole.version());
    assert!(resumed.params().flat().equal(whole.params().flat()));
}

#[test]
fn old_checkpoints_go_and_damaged_ones_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let (params, batch) = small();
    let mut learner = learner_in(folder.path(), small_config(), params);
    for version in 1..=5 {
        learner.update(&batch).unwrap();
        learner.checkpoint(&format!("{version}")).unwrap();
    }
    let place = folder.path().join("checkpoints");
    let mut names: Vec<String> = fs::read_dir(&place)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["000003", "000004", "000005"]);
    assert!(!place.join("000003/first_moment.safetensors").exists());
    let checkpoints = Checkpoints::new(&place, Retention { weights: 3, moments: 2 });
    let latest = |expected: u64, damaged: usize| {
        let found = checkpoints.latest().unwrap();
        assert_eq!((found.checkpoint.as_ref().unwrap().version, found.damaged.len()), (expected, damaged));
        found.checkpoint.unwrap()
    };
    latest(5, 0);
    let weights = place.join("000005/model/model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&weights, bytes).unwrap();
    latest(4, 1);
    fs::remove_file(place.join("000004/manifest.json")).unwrap();
    let oldest = latest(3, 2);
    assert!(oldest.moments.is_none());
    fs::write(place.join("000003/manifest.json"), "{}").unwrap();
    let error = checkpoints.latest().unwrap_err().to_string();
    assert!(error.contains("no checkpoint is whole"), "{error}");
}

/// I3.
#[test]
fn weights_of_a_version_that_is_to_be_kept_stay_while_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (params, batch) = small();
    let mut learner = learner_in(folder.path(), small_config(), params);
    let checkpoints =
        Checkpoints::new(&folder.path().join("checkpoints"), Retention { weights: 3, moments: 2 });
    let mut until = |last: u64| {
        while learner.version() < last {
            learner.update(&batch).unwrap();
            learner.checkpoint("").unwrap();
        }
    };
    let there = || checkpoints.versions().unwrap();
    until(2);
    checkpoints.keep_only(&BTreeSet::from([1, 2, 99])).unwrap();
    until(6);
    assert_eq!(there(), [1, 2, 4, 5, 6]);
    // They are complete without moments, but training does not resume from them.
    assert!(checkpoints.load(2).unwrap().moments.is_none());
    assert_eq!(checkpoints.latest().unwrap().checkpoint.unwrap().version, 6);
    // After a rollback to a version no other version is kept.
    let branch = clawrl_torch::Branch { from: 2, instead_of: 6 };
    checkpoints.branch(branch, 7, "").unwrap();
    assert_eq!(there(), [1, 2, 5, 6, 7]);
    checkpoints.keep_only(&BTreeSet::from([1])).unwrap();
    checkpoints.branch(branch, 8, "").unwrap();
    assert_eq!(there(), [1, 6, 7, 8]);
}

#[test]
fn a_checkpoint_of_another_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (params, _) = small();
    let mut learner = learner_in(folder.path(), small_config(), params);
    learner.checkpoint("").unwrap();
    let found = Checkpoints::new(&folder.path().join("checkpoints"), Retention { weights: 1, moments: 1 });
    let checkpoint = found.latest().unwrap().checkpoint.unwrap();
    let mut other = learner_in(folder.path(), small_config(), golden_params("model.safetensors"));
    assert!(other.restore(checkpoint).unwrap_err().to_string().contains("another shape"));
}

#[test]
fn a_checkpoint_is_a_models_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (params, _) = small();
    let mut learner = learner_in(folder.path(), small_config(), params);
    learner.checkpoint("").unwrap();
    let model = ModelFiles::of(&folder.path().join("checkpoints/000000/model"));
    let read = load_params(&model, Device::Cpu).unwrap();
    assert!(read.flat().equal(learner.params().flat()));
    save_params(&model, &read).unwrap();
}

/// I1 and I2 of the accepted state: parameters, moments, the number of steps and a following teacher.
#[test]
fn a_rejected_version_leaves_no_trace_but_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let (params, batch) = small();
    let seeded = |seed| TrainBatch { seed, ..batch.clone() };
    let distillation = Some(clawrl_learn::Distillation::default());
    let config = LearnerConfig {
        loss: PolicyLoss { distillation, ..small_config().loss },
        teacher: Some(clawrl_torch::Teacher::Ema { decay: 0.5 }),
        ..small_config()
    };
    let learner = || learner_in(folder.path(), config.clone(), params.copy().unwrap());
    let (mut straight, mut gated) = (learner(), learner());
    assert!(gated.reject().is_err(), "there is nothing to go back to");
    straight.update(&seeded(1)).unwrap();
    gated.update(&seeded(1)).unwrap();
    gated.accept().unwrap();
    let accepted = gated.params().copy().unwrap();
    for seed in [2, 3] {
        gated.update(&seeded(seed)).unwrap();
        assert!(!gated.params().flat().equal(accepted.flat()));
        gated.reject().unwrap();
        assert!(gated.params().flat().equal(accepted.flat()));
    }
    assert_eq!((gated.version(), straight.version()), (3, 1));
    // The content of a checkpoint shows that moments, their number and the teacher's average are restored, too.
    let checkpoints =
        Checkpoints::new(&folder.path().join("checkpoints"), Retention { weights: 3, moments: 2 });
    let kept = |learner: &mut TorchLearner| {
        learner.checkpoint("").unwrap();
        let version = learner.version();
        let found = checkpoints.load(version).unwrap();
        let (first, second) = found.moments.unwrap();
        let all = [&found.params, &first, &second, &found.teacher.unwrap()];
        (all.map(|params| params.flat().copy()), found.optimizer_steps)
    };
    let ((straight_state, straight_steps), (gated_state, gated_steps)) =
        (kept(&mut straight), kept(&mut gated));
    assert_eq!(straight_steps, gated_steps);
    assert!(straight_state.iter().zip(&gated_state).all(|(straight, gated)| straight.equal(gated)));
    straight.update(&seeded(4)).unwrap();
    gated.update(&seeded(4)).unwrap();
    assert!(gated.params().flat().equal(straight.params().flat()));
    assert_eq!(gated.version(), 4);
}

#[test]
fn an_update_can_be_shortened() {
    let folder = tempfile::tempdir().unwrap();
    let (params, batch) = small();
    let config = LearnerConfig {
        loss: PolicyLoss { distillation: Some(clawrl_learn::Distillation::default()), ..small_config().loss },
        teacher: Some(clawrl_torch::Teacher::Ema { decay: 0.75 }),
        ..small_config()
    };
    let mut learner = learner_in(folder.path(), config, params);
    assert!(learner.shorten(0.5).is_err(), "there is nothing that it could be nearer to");
    learner.accept().unwrap();
    let accepted = learner.params().copy().unwrap();
    learner.update(&batch).unwrap();
    let (whole, far) = (learner.params().copy().unwrap(), learner.divergence(&batch.samples).unwrap());
    learner.shorten(0.5).unwrap();
    let apart = |left: &tch::Tensor, right: &tch::Tensor| f64::try_from((left - right).abs().max()).unwrap();
    let middle = (accepted.flat() + whole.flat()) / 2.0;
    assert!(apart(learner.params().flat(), &middle) < 1e-6);
    let near = learner.divergence(&batch.samples).unwrap();
    assert!(near > 0.0 && near < far, "{near} {far}");
    // The teacher's average is that of the present parameters.
    learner.checkpoint("").unwrap();
    let checkpoints =
        Checkpoints::new(&folder.path().join("checkpoints"), Retention { weights: 3, moments: 2 });
    let teacher = checkpoints.load(1).unwrap().teacher.unwrap();
    let average = accepted.flat() * 0.75 + learner.params().flat() * 0.25;
    assert!(apart(teacher.flat(), &average) < 1e-6);
    learner.reject().unwrap();
    assert!(learner.params().flat().equal(accepted.flat()));
}

/// I4.
#[test]
fn a_divergence_is_that_from_the_accepted_version() {
    let folder = tempfile::tempdir().unwrap();
    let (params, batch) = small();
    let mut learner = learner_in(folder.path(), small_config(), params);
    assert!(learner.divergence(&batch.samples).is_err());
    learner.accept().unwrap();
    assert_eq!(learner.divergence(&batch.samples).unwrap(), 0.0);
    learner.update(&batch).unwrap();
    let one = learner.divergence(&batch.samples).unwrap();
    learner.update(&batch).unwrap();
    let two = learner.divergence(&batch.samples).unwrap();
    assert!(one > 0.0 && two > one, "{one} {two}");
    learner.accept().unwrap();
    assert_eq!(learner.divergence(&batch.samples).unwrap(), 0.0);
    assert_eq!(learner.divergence(&[]).unwrap(), 0.0);
}

/// Compares with finite differences along the gradient; also after a resume.
#[test]
fn a_bonus_for_being_undecided_is_descended_on() {
    let folder = tempfile::tempdir().unwrap();
    let (params, mut batch) = small();
    // High entropy at first, as for an untrained policy.
    tch::no_grad(|| params.flat().shallow_clone().f_mul_scalar_(0.2).map(|_| ())).unwrap();
    let plain = small_config();
    let config = LearnerConfig {
        loss: PolicyLoss { entropy: Some(EntropyBonus { coefficient: 0.5, floor: 1.0 }), ..plain.loss },
        optimizer: OptimizerConfig { learning_rate: 3e-3, ..plain.optimizer },
        ..plain
    };
    let mut learner = learner_in(folder.path(), config.clone(), params.copy().unwrap());
    batch.samples.iter_mut().for_each(|sample| sample.advantages.fill(1.0));
    let reports: Vec<_> = (0..3).map(|_| learner.update(&batch).unwrap()).collect();
    assert!(reports.windows(2).all(|pair| pair[1].entropy < pair[0].entropy), "{reports:?}");
    let coefficients: Vec<f64> = reports.iter().map(|report| report.entropy_coefficient).collect();
    assert_eq!(coefficients, [0.0, 0.0, 0.05]);

    // The loss has no other term.
    let mut silent = batch.clone();
    silent.samples.iter_mut().for_each(|sample| sample.advantages.fill(0.0));
    let (loss, gradients) = learner.gradients_of(&silent).unwrap();
    assert!((loss + 0.1 * reports[2].entropy).abs() < 0.05, "{loss}: minus two tenths of the coefficient");
    let norm = f64::try_from(gradients.flat().norm()).unwrap();
    let direction = gradients.flat() / norm;
    let before = learner.params().copy().unwrap();
    let moved = |by: f64| {
        let mut flat = learner.params().flat().shallow_clone();
        tch::no_grad(|| flat.copy_(&(before.flat() + &direction * by)));
        learner.gradients_of(&silent).unwrap().0
    };
    let (above, below) = (moved(0.02), moved(-0.02));
    moved(0.0);
    let numeric = (above - below) / 0.04;
    assert!((numeric - norm).abs() < 0.02 * norm, "{numeric} by differences, {norm} exactly");

    learner.checkpoint("three").unwrap();
    let checkpoints =
        Checkpoints::new(&folder.path().join("checkpoints"), Retention { weights: 3, moments: 2 });
    let mut resumed = learner_in(folder.path(), config, params);
    resumed.restore(checkpoints.latest().unwrap().checkpoint.unwrap()).unwrap();
    // A rollback also restores the entropy coefficient.
    resumed.accept().unwrap();
    resumed.update(&batch).unwrap();
    resumed.reject().unwrap();
    let (expected, got) = (learner.update(&batch).unwrap(), resumed.update(&batch).unwrap());
    assert_eq!(got.entropy_coefficient, expected.entropy_coefficient);
    assert!(resumed.params().flat().equal(learner.params().flat()));
}
