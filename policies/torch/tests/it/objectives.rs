//! One step of every objective against PyTorch. Golden file: `ci/golden/objectives.py`.

use std::collections::BTreeMap;

use clawrl_learn::{
    Aggregation, CandidateWeight, Clip, Distillation, DistillationForm, KlEstimator, KlPenalty, Learner as _,
    Objective, PolicyLoss, Surrogate, TeacherView, TrainBatch, ViewPlace, Weighting,
};
use clawrl_torch::{
    Checkpoints, Dtype, Engine, EngineConfig, LearnerConfig, ParamLayout, Params, Retention, ScoreRequest,
    Teacher, TorchLearner,
};
use serde::Deserialize;
use std::num::NonZeroU32;
use tch::{Device, Kind, Tensor};

use crate::devices::devices;
use crate::learner::{config, golden, golden_batch, golden_folder, golden_params, learner_with, try_learner};

#[derive(Deserialize)]
pub(crate) struct File {
    views: Vec<Vec<View>>,
    pub(crate) cases: Vec<Case>,
}

#[derive(Deserialize)]
pub(crate) struct View {
    ids: Vec<u32>,
    places: Vec<(usize, usize)>,
}

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) objective: Written,
    loss: f64,
    /// Norm, and product with a wave, by parameter.
    gradients: Fingerprints,
}

/// In the script's format.
#[derive(Deserialize)]
pub(crate) struct Written {
    surrogate: String,
    weighting: Option<String>,
    aggregation: Aggregation,
    /// Of each sample, where they are not those of the batch.
    advantages: Option<Vec<f32>>,
    outcome_weight: f64,
    kl: Option<KlEstimator>,
    teacher: Option<String>,
    form: Option<String>,
    weight: Option<f64>,
    k: Option<NonZeroU32>,
    counts: Option<CandidateWeight>,
}

impl Written {
    pub(crate) fn loss(&self) -> PolicyLoss {
        PolicyLoss {
            surrogate: match self.surrogate.as_str() {
                "sequence" => Surrogate::Sequence { clip: Clip::SEQUENCE },
                "cispo" => Surrogate::Cispo { cap: 5.0 },
                _ => Surrogate::default(),
            },
            weighting: match self.weighting.as_deref() {
                None => Weighting::None,
                Some("sequence") => Weighting::Sequence { cap: 2.0 },
                Some("geometric") => Weighting::Geometric { cap: 2.0 },
                Some("icepop") => Weighting::IcePop { low: 0.5, high: 5.0 },
                Some(_) => Weighting::Token { cap: 2.0 },
            },
            aggregation: self.aggregation,
            kl: self.kl.map(|estimator| KlPenalty { coefficient: 0.3, estimator }),
            entropy: None,
            outcome_weight: self.outcome_weight,
            distillation: self.form.as_ref().map(|form| Distillation {
                weight: self.weight.unwrap(),
                bound: 1.0,
                form: match form.as_str() {
                    "top_k" => DistillationForm::TopK { k: self.k.unwrap(), weight: self.counts.unwrap() },
                    _ => DistillationForm::Sampled,
                },
                fade: None,
            }),
        }
    }

    pub(crate) fn batch(&self, batch: &TrainBatch) -> TrainBatch {
        let mut batch = batch.clone();
        for (sample, &advantage) in batch.samples.iter_mut().zip(self.advantages.iter().flatten()) {
            sample.advantages.fill(advantage);
        }
        batch
    }

    pub(crate) fn teacher(&self) -> Option<Teacher> {
        self.teacher.as_ref().map(|teacher| match teacher.as_str() {
            "frozen" => Teacher::Frozen,
            _ => Teacher::Current,
        })
    }
}

pub(crate) fn file() -> File {
    let text = std::fs::read_to_string(golden_folder().join("objectives.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn batch(file: &File) -> TrainBatch {
    let mut batch = golden_batch(&golden(), Objective::PolicyGradient);
    for (sample, views) in batch.samples.iter_mut().zip(&file.views) {
        let view = |View { ids, places }: &View| TeacherView {
            ids: ids.clone(),
            places: places.iter().map(|&(view, segment)| ViewPlace { view, segment }).collect(),
            said: None,
        };
        sample.teacher = views.iter().map(view).collect();
    }
    batch
}

/// Norm, and product with the script's wave, of the gradient of a parameter that files have under this name.
fn fingerprint(gradients: &Params, name: &str) -> (f64, f64) {
    let flat = gradients.named(name).unwrap().to_device(Device::Cpu).to_kind(Kind::Double).flatten(0, -1);
    let wave = (Tensor::arange(flat.numel() as i64, (Kind::Double, Device::Cpu)) * 0.37 + 1.0).sin();
    (f64::try_from(flat.norm()).unwrap(), f64::try_from((&flat * wave).sum(Kind::Double)).unwrap())
}

/// Expected [`fingerprint`] by parameter.
pub(crate) type Fingerprints = BTreeMap<String, (f64, f64)>;

/// Loss and gradients of a step, to 2e-5; to 1e-4 on a GPU, which adds in an order of its own.
#[track_caller]
pub(crate) fn assert_step(
    learner: &TorchLearner,
    batch: &TrainBatch,
    (loss, gradients): (Option<f64>, &Fingerprints),
    place: &str,
) {
    let (got_loss, got) = learner.gradients_of(batch).unwrap();
    let bound = if got.flat().device().is_cuda() { 1e-4 } else { 2e-5 };
    if let Some(loss) = loss {
        assert!((got_loss - loss).abs() <= bound * loss.abs().max(0.1), "{place}: {got_loss}, not {loss}");
    }
    assert!(!gradients.is_empty());
    for (name, &(norm, along)) in gradients {
        let (got_norm, got_along) = fingerprint(&got, name);
        let near = |got: f64, expected: f64| (got - expected).abs() <= bound * norm.max(1e-3);
        assert!(near(got_norm, norm), "{place}, {name}: norm {got_norm}, not {norm}");
        assert!(near(got_along, along), "{place}, {name}: {got_along} along the wave, not {along}");
    }
}

#[test]
fn a_step_of_every_objective_is_that_of_pytorch() {
    let (golden, file) = (golden(), file());
    let folder = tempfile::tempdir().unwrap();
    let batch = batch(&file);
    assert!(file.cases.len() >= 10);
    for (device, case) in
        devices().into_iter().flat_map(|device| file.cases.iter().map(move |case| (device, case)))
    {
        // At once, and in several micro-batches.
        for tokens in [1 << 16, 40] {
            let config = LearnerConfig {
                loss: case.objective.loss(),
                teacher: case.objective.teacher(),
                micro_batch_tokens: NonZeroU32::new(tokens).unwrap(),
                ..config(&golden)
            };
            config.loss.check().unwrap();
            let params = |name| golden_params(name).on(device, Dtype::Fp32).unwrap();
            let reference = Some(params("reference.safetensors"));
            let learner = learner_with(folder.path(), config, params("model.safetensors"), reference);
            let place = format!("{}, {tokens} tokens, {device:?}", case.name);
            let batch = case.objective.batch(&batch);
            assert_step(&learner, &batch, (Some(case.loss), &case.gradients), &place);
        }
    }
}

/// Settings with which several steps of a batch need all precomputed log-probabilities.
pub(crate) fn in_steps(form: DistillationForm, decay: f64) -> LearnerConfig {
    let loss = PolicyLoss {
        kl: Some(KlPenalty { coefficient: 0.1, estimator: KlEstimator::K3 }),
        distillation: Some(Distillation { weight: 0.5, form, ..Distillation::default() }),
        ..PolicyLoss::default()
    };
    let minibatches = NonZeroU32::new(2).unwrap();
    LearnerConfig { loss, minibatches, teacher: Some(Teacher::Ema { decay }), ..config(&golden()) }
}

/// An engine with the reference is asked as a server would be.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_teacher_elsewhere_says_teaches_what_it_would_teach_here() {
    let folder = tempfile::tempdir().unwrap();
    let mut batch = batch(&file());
    let loss = PolicyLoss { distillation: Some(Distillation::default()), ..PolicyLoss::default() };
    let gradients = |teacher, batch: &TrainBatch| {
        let config = LearnerConfig { loss, teacher: Some(teacher), ..config(&golden()) };
        let reference = Some(golden_params("reference.safetensors"));
        let learner = learner_with(folder.path(), config, golden_params("model.safetensors"), reference);
        learner.gradients_of(batch).unwrap()
    };
    let (here, by_here) = gradients(Teacher::Frozen, &batch);
    let (nothing, by_nothing) = gradients(Teacher::Elsewhere, &batch);
    assert!((here - nothing).abs() > 1e-3, "nothing was said yet");
    let engine = Engine::start(EngineConfig::default(), 0, &golden_params("reference.safetensors")).unwrap();
    for sample in &mut batch.samples {
        for view in &mut sample.teacher {
            let mut said = Vec::new();
            for place in &view.places {
                let request = ScoreRequest {
                    ids: view.ids.as_slice().into(),
                    positions: place.view..place.view + 1,
                    temperature: sample.segment.temperatures[place.segment],
                    candidates: Vec::new(),
                    top_k: 0,
                    adapter: None,
                };
                said.push(engine.handle().score(request).await.unwrap().logprobs[0]);
            }
            view.said = Some(said);
        }
    }
    let (elsewhere, by_elsewhere) = gradients(Teacher::Elsewhere, &batch);
    assert!((here - elsewhere).abs() < 1e-5, "{elsewhere}, not {here}");
    let apart =
        |one: &Params, other: &Params| f64::try_from((one.flat() - other.flat()).abs().max()).unwrap();
    assert!(apart(&by_here, &by_elsewhere) < 1e-5, "{}", apart(&by_here, &by_elsewhere));
    assert!(apart(&by_here, &by_nothing) > 1e-3);
}

#[test]
fn a_teacher_that_follows_goes_on_from_a_checkpoint_to_the_same_bits() {
    let top_k =
        DistillationForm::TopK { k: NonZeroU32::new(4).unwrap(), weight: CandidateWeight::Renormalised };
    for form in [DistillationForm::Sampled, top_k] {
        let folder = tempfile::tempdir().unwrap();
        let batch = batch(&file());
        let start = || golden_params("model.safetensors");
        let reference = || Some(golden_params("reference.safetensors"));
        let learner = |decay| learner_with(folder.path(), in_steps(form, decay), start(), reference());
        let (mut whole, mut quick) = (learner(0.9), learner(0.0));
        for _ in 0..2 {
            let report = whole.update(&batch).unwrap();
            assert_eq!((report.steps, report.skipped), (2, 0));
            assert!(report.kl > 0.0, "{report:?}");
            quick.update(&batch).unwrap();
        }
        whole.checkpoint("two").unwrap();
        let last = whole.update(&batch).unwrap();

        let checkpoints =
            Checkpoints::new(&folder.path().join("checkpoints"), Retention { weights: 3, moments: 2 });
        let checkpoint = checkpoints.latest().unwrap().checkpoint.unwrap();
        let kept = checkpoint.teacher.as_ref().unwrap();
        assert!(!kept.flat().equal(checkpoint.params.flat()), "it lags behind");
        let mut resumed = learner(0.9);
        resumed.restore(checkpoint).unwrap();
        assert_eq!(resumed.update(&batch).unwrap(), last);
        assert!(resumed.params().flat().equal(whole.params().flat()));
        // A teacher that does not lag gives a different result.
        quick.update(&batch).unwrap();
        assert!(!quick.params().flat().equal(whole.params().flat()));
    }
}

#[test]
fn a_teacher_whose_weight_has_faded_is_not_heard() {
    let folder = tempfile::tempdir().unwrap();
    let batch = batch(&file());
    let fading = |fade| Distillation { fade: NonZeroU32::new(fade), ..Distillation::default() };
    let learner = |distillation: Option<Distillation>, params| {
        let teacher = distillation.map(|_| Teacher::Current);
        let config = LearnerConfig {
            loss: PolicyLoss { distillation, ..PolicyLoss::default() },
            teacher,
            ..config(&golden())
        };
        learner_with(folder.path(), config, params, None)
    };
    let mut taught = learner(Some(fading(1)), golden_params("model.safetensors"));
    assert!(taught.update(&batch).unwrap().teacher_rms > 0.0);
    let params = || taught.params().copy().unwrap();
    let gradients = |learner: &TorchLearner| learner.gradients_of(&batch).unwrap().1;
    let alone = gradients(&learner(None, params()));
    assert!(gradients(&taught).flat().equal(alone.flat()));
    assert!(!gradients(&learner(Some(fading(2)), params())).flat().equal(alone.flat()));
}

#[test]
fn what_a_learner_cannot_honour_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let check = |config: LearnerConfig, reference: Option<Params>, expected: &str| {
        let made = try_learner(folder.path(), config, golden_params("model.safetensors"), reference);
        let error = made.err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let with = |loss: PolicyLoss, teacher| LearnerConfig { loss, teacher, ..config(&golden()) };
    let plain = PolicyLoss::default();
    let kl = Some(KlPenalty { coefficient: 0.1, estimator: KlEstimator::K3 });
    check(with(PolicyLoss { kl, ..plain }, None), None, "needs its parameters");
    let distillation = Some(Distillation::default());
    check(with(PolicyLoss { distillation, ..plain }, None), None, "go together");
    check(with(plain, Some(Teacher::Current)), None, "go together");
    let taught = PolicyLoss { distillation, ..plain };
    check(with(taught, Some(Teacher::Frozen)), None, "a frozen teacher needs");
    check(with(taught, Some(Teacher::Ema { decay: 1.0 })), None, "at least 0 and below 1");
    let form = DistillationForm::TopK { k: NonZeroU32::MIN, weight: CandidateWeight::Mass };
    let candidates =
        PolicyLoss { distillation: Some(Distillation { form, ..Distillation::default() }), ..plain };
    check(with(candidates, Some(Teacher::Elsewhere)), None, "sampled tokens alone");
    let cispo = PolicyLoss { surrogate: Surrogate::Cispo { cap: 5.0 }, ..plain };
    check(with(cispo, None), None, "does not go with the surrogate");
    let mut shape = golden_params("model.safetensors").layout().config().clone();
    shape.vocab_size = 64;
    let other = Params::zeros(std::sync::Arc::new(ParamLayout::new(shape)), Device::Cpu).unwrap();
    check(with(PolicyLoss { kl, ..plain }, None), Some(other), "of another shape");
}
