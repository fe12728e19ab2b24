//! Adapters: learned by every objective, served beside each other, kept in the format of PEFT.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clawrl_learn::{DistillationForm, Learner as _, Objective, TrainBatch};
use clawrl_torch::{
    Activations, AdapterFiles, AdapterName, AdapterPublisher, Alone, Base, Checkpoints, Engine, EngineConfig,
    EngineError, GenerateRequest, LearnerConfig, LearnerSetup, LoraConfig, LoraTarget, ModelConfig,
    ModelFiles, Params, PublishError, Publisher, Retention, TorchLearner, Unpublished, configure_threads,
    init_adapter, load_adapter, load_apart, load_merged, save_adapter,
};
use tch::{Device, Kind, Tensor};

use crate::engine::{alone, params, random_ids, reproducible, request, small_model, truth};
use crate::learner::{config, golden, golden_batch, golden_folder, golden_params, learner_with};
use crate::objectives::{batch, file, in_steps};

fn lora(targets: &[LoraTarget]) -> LoraConfig {
    LoraConfig { rank: 4, alpha: 6.0, targets: targets.to_vec() }
}

/// An adapter in which neither factor is 0.
fn adapter(config: &ModelConfig, lora: &LoraConfig, seed: u64) -> Params {
    let params = init_adapter(config, lora, seed, Device::Cpu).unwrap();
    for layer in 0..config.num_hidden_layers {
        let layer_adapter = params.layer_adapter(layer).unwrap();
        for target in LoraTarget::ALL {
            let Some(part) = layer_adapter.of(target) else { continue };
            let count = part.b.numel() as i64;
            let phase = (seed * 31 + layer as u64 * 7 + target as u64) as f64;
            let wave = (Tensor::arange(count, (Kind::Float, Device::Cpu)) * 0.71 + phase).sin() * 0.1;
            part.b.shallow_clone().copy_(&wave.view_as(&part.b));
        }
    }
    params
}

pub(crate) fn adapter_learner(
    folder: &Path,
    config: LearnerConfig,
    (model, params): (Params, Params),
    reference: Option<Params>,
    publisher: Box<dyn Publisher>,
) -> TorchLearner {
    configure_threads(std::num::NonZeroUsize::MIN).unwrap();
    TorchLearner::new(LearnerSetup {
        config,
        params,
        base: Some(Base { params: model, found: "../../../base".to_owned() }),
        version: 0,
        reference,
        publisher,
        collective: Box::new(Alone),
        checkpoints: Checkpoints::new(&folder.join("checkpoints"), Retention { weights: 3, moments: 2 }),
        model: &ModelFiles::of(&golden_folder()),
    })
    .unwrap()
}

/// Of every matrix with factors: dA = scale B^T dW and dB = scale dW A^T, of the gradient dW of the merged model.
fn assert_follows_from(adapter: &Params, got: &Params, merged: &Params, place: &str) {
    let layout = merged.layout();
    for layer in 0..layout.config().num_hidden_layers {
        let (factors, got) = (adapter.layer_adapter(layer).unwrap(), got.layer_adapter(layer).unwrap());
        let mut seen = 0;
        for target in LoraTarget::ALL {
            let (Some(factors), Some(got)) = (factors.of(target), got.of(target)) else { continue };
            let name = serde_json::to_value(target).unwrap();
            let suffix = format!("layers.{layer}.");
            let of_target = |name: &str, part: &str| name.contains(&suffix) && name.contains(part);
            let spec =
                layout.specs().iter().find(|spec| of_target(&spec.name, name.as_str().unwrap())).unwrap();
            let by_weight = merged.view(spec).unwrap();
            let expected = [
                factors.b.tr().mm(&by_weight) * factors.scale,
                by_weight.mm(&factors.a.tr()) * factors.scale,
            ];
            for (got, expected) in [&got.a, &got.b].into_iter().zip(expected) {
                let apart = f64::try_from((got - &expected).norm()).unwrap();
                let norm = f64::try_from(expected.norm()).unwrap();
                assert!(apart <= 2e-4 * norm.max(1e-4), "{place}, {}: {apart} of {norm}", spec.name);
                seen += 1;
            }
        }
        assert!(seen > 0);
    }
}

#[test]
fn gradients_of_every_objective_are_those_of_the_merged_model() {
    let (golden, file) = (golden(), file());
    let folder = tempfile::tempdir().unwrap();
    let batch = batch(&file);
    let model = golden_params("model.safetensors");
    let shape = model.layout().config().clone();
    for targets in [&LoraTarget::ALL[..], &[LoraTarget::KProj, LoraTarget::UpProj]] {
        let (own, other) = (adapter(&shape, &lora(targets), 1), adapter(&shape, &lora(targets), 2));
        for case in &file.cases {
            for (activations, tokens) in [(Activations::Keep, 1 << 16), (Activations::Recompute, 40)] {
                let config = LearnerConfig {
                    loss: case.objective.loss(),
                    teacher: case.objective.teacher(),
                    micro_batch_tokens: NonZeroU32::new(tokens).unwrap(),
                    activations,
                    ..config(&golden)
                };
                let whole = learner_with(
                    folder.path(),
                    config.clone(),
                    model.merged(&own).unwrap(),
                    Some(model.merged(&other).unwrap()),
                );
                let learner = adapter_learner(
                    folder.path(),
                    config,
                    (model.share(), own.copy().unwrap()),
                    Some(other.copy().unwrap()),
                    Box::new(Unpublished),
                );
                let batch = case.objective.batch(&batch);
                let (expected, of_merged) = whole.gradients_of(&batch).unwrap();
                let (loss, gradients) = learner.gradients_of(&batch).unwrap();
                let place = format!("{}, {tokens} tokens", case.name);
                assert!((loss - expected).abs() <= 2e-5 * expected.abs().max(0.1), "{place}: {loss}");
                assert_eq!(gradients.layout(), own.layout());
                assert_follows_from(&own, &gradients, &of_merged, &place);
            }
        }
    }
}

#[test]
fn an_adapter_learns_and_goes_on_from_a_checkpoint_to_the_same_bits() {
    learns_and_goes_on(&config(&golden()), &golden_batch(&golden(), Objective::PolicyGradient));
}

/// A teacher that averages adapters is part of a checkpoint.
#[test]
fn an_adapter_with_a_teacher_that_follows_does_so_too() {
    let form = DistillationForm::Sampled;
    learns_and_goes_on(&in_steps(form, 0.9), &batch(&file()));
}

fn learns_and_goes_on(config: &LearnerConfig, batch: &TrainBatch) {
    let folder = tempfile::tempdir().unwrap();
    let model = golden_params("model.safetensors");
    let before = model.copy().unwrap();
    let shape = model.layout().config().clone();
    let fresh = || init_adapter(&shape, &lora(&LoraTarget::ALL), 3, Device::Cpu).unwrap();
    let learner = |params: Params| {
        let start = (model.share(), params);
        // An adapter that changes nothing gives the model itself.
        let unchanged = config.loss.kl.is_some().then(fresh);
        adapter_learner(folder.path(), config.clone(), start, unchanged, Box::new(Unpublished))
    };
    let mut whole = learner(fresh());
    let first = whole.update(batch).unwrap();
    assert_eq!((first.steps, first.version), (config.minibatches.get(), 1));
    whole.checkpoint("one").unwrap();
    let last = whole.update(batch).unwrap();
    assert!(!whole.params().flat().equal(fresh().flat()), "it learned");
    assert!(model.flat().equal(before.flat()), "the model stays as it is");

    let checkpoints =
        Checkpoints::new(&folder.path().join("checkpoints"), Retention { weights: 3, moments: 2 });
    let checkpoint = checkpoints.latest().unwrap().checkpoint.unwrap();
    if config.teacher.is_some() {
        let teacher = checkpoint.teacher.as_ref().unwrap();
        assert_eq!(teacher.layout(), fresh().layout());
        assert!(!teacher.flat().equal(checkpoint.params.flat()), "it lags behind");
    }
    assert_eq!(checkpoint.params.layout(), fresh().layout());
    // Other programs find the base model relative to the adapter's folder.
    std::fs::create_dir_all(folder.path().join("base")).unwrap();
    let base = ModelFiles::of(&folder.path().join("base"));
    base.write_config(&shape).unwrap();
    clawrl_torch::save_params(&base, &model).unwrap();
    let kept = folder.path().join("checkpoints/000001/model");
    let (found, kept_adapter) = load_apart(&kept, Device::Cpu).unwrap();
    assert!(found.flat().equal(model.flat()));
    assert!(kept_adapter.unwrap().flat().equal(checkpoint.params.flat()));

    let mut resumed = learner(fresh());
    resumed.restore(checkpoint).unwrap();
    assert_eq!(resumed.update(batch).unwrap(), last);
    assert!(resumed.params().flat().equal(whole.params().flat()));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let golden = golden();
    let folder = tempfile::tempdir().unwrap();
    let model = golden_params("model.safetensors");
    let shape = model.layout().config().clone();
    let checkpoints = Checkpoints::new(folder.path(), Retention { weights: 1, moments: 1 });
    let check = |params: Params, base: Option<Params>, expected: &str| {
        let made = TorchLearner::new(LearnerSetup {
            config: config(&golden),
            params,
            base: base.map(|params| Base { params, found: String::new() }),
            version: 0,
            reference: None,
            publisher: Box::new(Unpublished),
            collective: Box::new(Alone),
            checkpoints: checkpoints.clone(),
            model: &ModelFiles::of(&golden_folder()),
        });
        let error = made.err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let fresh = |shape: &ModelConfig| init_adapter(shape, &lora(&LoraTarget::ALL), 1, Device::Cpu).unwrap();
    check(fresh(&shape), None, "needs the model that it is for");
    check(model.share(), Some(model.share()), "is no model that these parameters");
    check(fresh(&shape), Some(fresh(&shape)), "is no model that these parameters");
    let other = ModelConfig { num_hidden_layers: shape.num_hidden_layers + 1, ..shape.clone() };
    check(fresh(&other), Some(model.share()), "is no model that these parameters");

    let engine = Engine::start(EngineConfig::default(), 0, &model).unwrap();
    let name = AdapterName::from("one");
    let publish = |params: &Params, version| engine.handle().publish_adapter(&name, version, params);
    assert!(matches!(publish(&model, 0), Err(PublishError::OtherShape)));
    assert!(matches!(publish(&fresh(&other), 0), Err(PublishError::OtherShape)));
    assert!(matches!(engine.handle().publish(1, &fresh(&shape)), Err(PublishError::OtherShape)));
    publish(&fresh(&shape), 4).unwrap().wait_blocking().unwrap();
    assert!(matches!(publish(&fresh(&shape), 4), Err(PublishError::NotNewer { version: 4, latest: 4 })));
}

fn with(mut request: GenerateRequest, adapter: Option<&AdapterName>) -> GenerateRequest {
    request.adapter = adapter.cloned();
    request
}

/// Log-probabilities of a reply are those of the merged model, which the engine never has.
#[tokio::test(flavor = "multi_thread")]
async fn every_request_gets_the_adapter_that_it_asks_for() {
    let shape = small_model(|config| config.initializer_range = 0.15);
    let model = params(&shape, 5);
    let names: Vec<AdapterName> = ["one", "two", "three"].map(AdapterName::from).to_vec();
    let configs = [
        lora(&LoraTarget::ALL),
        lora(&[LoraTarget::VProj, LoraTarget::GateProj]),
        lora(&[LoraTarget::OProj]),
    ];
    let adapters: Vec<Params> =
        configs.iter().zip(1..).map(|(lora, seed)| adapter(&shape, lora, seed)).collect();
    let merged: Vec<Params> = adapters.iter().map(|adapter| model.merged(adapter).unwrap()).collect();
    for is_reproducible in [false, true] {
        let config = EngineConfig { reproducible: is_reproducible, max_prefill_rows: 37, ..reproducible() };
        let engine = Engine::start(config, 0, &model).unwrap();
        for (name, adapter) in names.iter().zip(&adapters) {
            engine.handle().publish_adapter(name, 7, adapter).unwrap().wait().await.unwrap();
        }
        assert_eq!(engine.handle().adapters(), ["one".into(), "three".into(), "two".into()]);
        // All at the same time, with prompts that share a prefix.
        let mut asked = tokio::task::JoinSet::new();
        for number in 0..48usize {
            let handle = engine.handle();
            let which = number % 4;
            let prompt =
                [random_ids(40, (number % 3) as u64), random_ids(number % 7, number as u64)].concat();
            let request = with(request(&prompt, 12, number as u64), names.get(which));
            asked.spawn(async move { (which, prompt, handle.generate(request).await.unwrap()) });
        }
        while let Some(answer) = asked.join_next().await {
            let (which, prompt, reply) = answer.unwrap();
            assert_eq!(reply.versions, [(0, if which < 3 { 7 } else { 0 })]);
            let ids = [prompt.as_slice(), reply.ids.as_slice()].concat();
            let truth = truth(merged.get(which).unwrap_or(&model), &ids, 1.0);
            for (got, truth) in reply.logprobs.iter().zip(&truth[prompt.len() - 1..]) {
                assert!((f64::from(*got) - truth).abs() < 2e-5, "adapter {which}: {got}, not {truth}");
            }
        }
        let stats = engine.handle().stats();
        assert!(stats.reused_prompt_rows > 0, "{stats:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_with_an_adapter_is_the_same_to_the_bit_whatever_else_runs() {
    let shape = small_model(|_| {});
    let model = params(&shape, 5);
    let names: Vec<AdapterName> = ["one", "two"].map(AdapterName::from).to_vec();
    let start = async |config: EngineConfig| {
        let engine = Engine::start(config, 0, &model).unwrap();
        for (name, seed) in names.iter().zip(1..) {
            let adapter = adapter(&shape, &lora(&LoraTarget::ALL), seed);
            engine.handle().publish_adapter(name, 1, &adapter).unwrap().wait().await.unwrap();
        }
        engine
    };
    let (together, alone) = (start(reproducible()).await, start(alone()).await);
    let mut asked = tokio::task::JoinSet::new();
    for number in 0..40usize {
        let handle = together.handle();
        let prompt =
            [random_ids(20, (number % 4) as u64), random_ids(1 + number % 9, number as u64)].concat();
        let request = with(request(&prompt, 10, number as u64), names.get(number % 3));
        asked.spawn(async move { (request.clone(), handle.generate(request).await.unwrap()) });
    }
    while let Some(answer) = asked.join_next().await {
        let (request, reply) = answer.unwrap();
        assert_eq!(alone.handle().generate(request).await.unwrap(), reply);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_is_taken_away_and_comes_anew() {
    let shape = small_model(|_| {});
    let model = params(&shape, 5);
    let engine = Engine::start(reproducible(), 3, &model).unwrap();
    let handle = engine.handle();
    let name = AdapterName::from("one");
    let ask = async |seed| handle.generate(with(request(&random_ids(9, 2), 8, seed), Some(&name))).await;
    let missing = Err(EngineError::NoAdapter("one".to_owned()));
    assert_eq!(ask(1).await, missing);
    let adapter = |seed| adapter(&shape, &lora(&LoraTarget::ALL), seed);
    handle.publish_adapter(&name, 9, &adapter(1)).unwrap().wait().await.unwrap();
    let first = ask(1).await.unwrap();
    assert_eq!(first.versions, [(0, 9)]);
    // Another version reuses nothing from this one.
    handle.publish_adapter(&name, 10, &adapter(2)).unwrap().wait().await.unwrap();
    let second = ask(1).await.unwrap();
    assert_eq!(second.versions, [(0, 10)]);
    let ids = [random_ids(9, 2), second.ids.clone()].concat();
    let truth = truth(&model.merged(&adapter(2)).unwrap(), &ids, 1.0);
    for (got, truth) in second.logprobs.iter().zip(&truth[8..]) {
        assert!((f64::from(*got) - truth).abs() < 2e-5, "{got}, not {truth}");
    }
    // The model itself was not touched.
    let plain = handle.generate(request(&random_ids(9, 2), 8, 1)).await.unwrap();
    assert_eq!(plain.versions, [(0, 3)]);
    // A request that runs when its adapter is removed ends with the reason.
    let long = with(request(&random_ids(9, 4), 3_000, 1), Some(&name));
    let running = {
        let handle = handle.clone();
        tokio::spawn(async move { handle.generate(long).await })
    };
    while handle.stats().running == 0 {
        tokio::task::yield_now().await;
    }
    assert!(handle.remove_adapter(&name));
    assert_eq!(running.await.unwrap(), missing);
    assert!(!handle.remove_adapter(&name));
    assert!(handle.adapters().is_empty());
    assert_eq!(ask(1).await, missing);
    // An adapter published at once under a removed name: requests with the old one end with an error.
    handle.publish_adapter(&name, 1, &adapter(1)).unwrap().wait().await.unwrap();
    let long = with(request(&random_ids(9, 4), 3_000, 1), Some(&name));
    let running = {
        let handle = handle.clone();
        tokio::spawn(async move { handle.generate(long).await })
    };
    while handle.stats().running == 0 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(handle.publish(9, &model), Err(PublishError::HasAdapters { adapters: 1 })));
    assert!(handle.remove_adapter(&name));
    drop(handle.publish_adapter(&name, 1, &adapter(2)).unwrap());
    assert_eq!(running.await.unwrap(), missing);
    assert!(handle.remove_adapter(&name));
    handle.publish(9, &model).unwrap().wait().await.unwrap();
    // And under the same name at an older version.
    handle.publish_adapter(&name, 2, &adapter(1)).unwrap().wait().await.unwrap();
    let again = ask(1).await.unwrap();
    assert_eq!((again.versions.as_slice(), &again.ids), ([(0, 2)].as_slice(), &first.ids));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_learned_acts_at_once_and_beside_the_model() {
    let golden = golden();
    let folder = tempfile::tempdir().unwrap();
    let batch = golden_batch(&golden, Objective::PolicyGradient);
    let model = golden_params("model.safetensors");
    let shape = model.layout().config().clone();
    let engine = Engine::start(reproducible(), 0, &model).unwrap();
    let name = AdapterName::from("learned");
    let publisher = AdapterPublisher { engine: engine.handle(), name: name.clone() };
    let prompt: Vec<u32> = random_ids(12, 3);
    let fresh = init_adapter(&shape, &lora(&LoraTarget::ALL), 3, Device::Cpu).unwrap();
    engine.handle().publish_adapter(&name, 0, &fresh).unwrap().wait().await.unwrap();
    let ask = async |name| engine.handle().generate(with(request(&prompt, 10, 5), name)).await.unwrap();
    let plain = ask(None).await;
    let before = ask(Some(&name)).await;
    assert_eq!(
        (&before.ids, &before.logprobs),
        (&plain.ids, &plain.logprobs),
        "a fresh adapter changes nothing"
    );
    let (base, config, place) = (model.share(), config(&golden), folder.path().to_owned());
    let learned = tokio::task::spawn_blocking(move || {
        let mut learner = adapter_learner(&place, config, (base, fresh), None, Box::new(publisher));
        learner.update(&batch).unwrap();
        learner.publish().unwrap();
        learner.params().copy().unwrap()
    });
    let learned = learned.await.unwrap();
    let after = ask(Some(&name)).await;
    assert_eq!(after.versions, [(0, 1)]);
    let ids = [prompt.clone(), after.ids.clone()].concat();
    let truth = truth(&model.merged(&learned).unwrap(), &ids, 1.0);
    for (got, truth) in after.logprobs.iter().zip(&truth[prompt.len() - 1..]) {
        assert!((f64::from(*got) - truth).abs() < 2e-5, "{got}, not {truth}");
    }
    assert_ne!(after.logprobs, before.logprobs);
    assert_eq!(ask(None).await, plain);
}

/// The configuration of an adapter that PEFT saved.
pub(crate) fn peft_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/adapter")
}

/// An adapter that PEFT saved gives PEFT's logits. Golden files: `ci/golden/adapter.py`, which also reads one of ours.
#[test]
fn an_adapter_of_peft_is_what_it_is_there() {
    #[derive(serde::Deserialize)]
    struct Expected {
        ids: Vec<u32>,
        logprobs: Vec<f64>,
    }
    let folder = peft_folder();
    let files = AdapterFiles::of(&folder);
    assert_eq!(files.base().unwrap(), folder.join("../learner"));
    let model = golden_params("model.safetensors");
    let adapter = load_adapter(&files, model.layout().config(), Device::Cpu).unwrap();
    let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    for Expected { ids, logprobs } in serde_json::from_str::<Vec<Expected>>(&text).unwrap() {
        let got = truth(&model.merged(&adapter).unwrap(), &ids, 1.0);
        assert_eq!(got.len(), logprobs.len());
        for (got, expected) in got.iter().zip(&logprobs) {
            assert!((got - expected).abs() < 2e-5, "{got}, not {expected}");
        }
        let plain = truth(&model, &ids, 1.0);
        assert!(plain.iter().zip(&logprobs).any(|(a, b)| (a - b).abs() > 1e-2), "the adapter says something");
    }
    // The written file equals PEFT's, tensor by tensor.
    let ours = tempfile::tempdir().unwrap();
    save_adapter(&AdapterFiles::of(ours.path()), &adapter, &golden_folder().display().to_string()).unwrap();
    let (theirs, written) = (files.weights(), AdapterFiles::of(ours.path()).weights());
    let read = |path: &Path| {
        let mut tensors = Tensor::read_safetensors(path).unwrap();
        tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
        tensors
    };
    let (theirs, written) = (read(&theirs), read(&written));
    assert_eq!(theirs.len(), written.len());
    for ((name, tensor), (our_name, ours)) in theirs.iter().zip(&written) {
        assert_eq!(name, our_name);
        assert!(tensor.equal(ours), "{name}");
    }
    assert!(
        load_merged(ours.path(), Device::Cpu).unwrap().flat().equal(model.merged(&adapter).unwrap().flat())
    );
}
