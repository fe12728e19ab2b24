//! The engine against the learner's forward pass, and every reply against that of the same request alone.

use std::pin::{Pin, pin};
use std::sync::Arc;

use clawrl_core::{FinishReason, SplitMix64};
use clawrl_torch::{
    Engine, EngineConfig, EngineError, EngineHandle, GenerateRequest, Generated, LayerAdapter, ModelConfig,
    PackedRows, ParamLayout, Params, PublishError, Rope, init_params, layer_forward, rms_norm,
};
use tch::{Device, Kind, Tensor};

/// A small model whose weights are large enough for its logits to differ.
pub(crate) fn small_model(change: impl FnOnce(&mut ModelConfig)) -> ModelConfig {
    let mut config = ModelConfig::tiny(67, 0);
    config.hidden_size = 32;
    config.intermediate_size = 48;
    config.num_hidden_layers = 2;
    config.num_attention_heads = 2;
    config.num_key_value_heads = 1;
    config.head_dim = 16;
    config.max_position_embeddings = 4096;
    config.initializer_range = 0.3;
    change(&mut config);
    config.check().unwrap();
    config
}

pub(crate) fn params(config: &ModelConfig, seed: u64) -> Params {
    init_params(Arc::new(ParamLayout::new(config.clone())), seed, Device::Cpu).unwrap()
}

pub(crate) fn reproducible() -> EngineConfig {
    EngineConfig {
        max_batch: 16,
        max_prefill_rows: 40,
        kv_budget_bytes: 1 << 24,
        reproducible: true,
        ..EngineConfig::default()
    }
}

/// One sequence at a time, nothing shared, other chunks.
pub(crate) fn alone() -> EngineConfig {
    EngineConfig { max_batch: 1, max_prefill_rows: 100, share_prefixes: false, ..reproducible() }
}

pub(crate) fn request(prompt: &[u32], max_new_tokens: u32, seed: u64) -> GenerateRequest {
    GenerateRequest {
        prompt: Arc::from(prompt),
        max_new_tokens,
        temperature: 1.0,
        top_p: 1.0,
        top_k: 0,
        seed,
        stop_ids: Vec::new(),
        adapter: None,
    }
}

pub(crate) fn random_ids(count: usize, seed: u64) -> Vec<u32> {
    let mut bits = SplitMix64::new(seed);
    (0..count).map(|_| bits.below(67) as u32).collect()
}

/// Log-probabilities of all but the first token, by the learner's layers.
pub(crate) fn truth(params: &Params, ids: &[u32], temperature: f64) -> Vec<f64> {
    let config = params.layout().config().clone();
    tch::no_grad(|| {
        let rope = Rope::new(&config, Device::Cpu).unwrap();
        let rows = PackedRows::new(&config, &rope, &[ids], Device::Cpu).unwrap();
        let mut x_rd = params.embedding().unwrap().f_index_select(0, rows.ids()).unwrap();
        for layer in 0..config.num_hidden_layers {
            x_rd =
                layer_forward(&config, &params.layer(layer).unwrap(), &LayerAdapter::default(), &x_rd, &rows)
                    .unwrap();
        }
        let x_rd = rms_norm(&x_rd, &params.final_norm().unwrap(), config.rms_norm_eps).unwrap();
        let logits_rv = x_rd.f_linear(&params.head().unwrap(), None::<&Tensor>).unwrap();
        let logprobs_rv =
            logits_rv.f_div_scalar(temperature).unwrap().f_log_softmax(-1, Kind::Double).unwrap();
        let next: Vec<i64> = ids[1..].iter().map(|&id| i64::from(id)).collect();
        let next = Tensor::f_from_slice(&next).unwrap().f_unsqueeze(1).unwrap();
        let from = logprobs_rv.f_narrow(0, 0, ids.len() as i64 - 1).unwrap();
        Vec::try_from(from.f_gather(1, &next, false).unwrap().f_view(-1).unwrap()).unwrap()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn log_probabilities_are_the_learners() {
    let changes: [fn(&mut ModelConfig); 5] = [
        |_| {},
        |config| config.tie_word_embeddings = false,
        |config| config.num_key_value_heads = 2,
        |config| (config.num_attention_heads, config.head_dim) = (6, 20),
        |config| (config.num_key_value_heads, config.num_attention_heads, config.head_dim) = (2, 8, 64),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let params = params(
            &small_model(|config| {
                config.initializer_range = 0.15;
                change(config);
            }),
            index as u64,
        );
        for reproducible in [false, true] {
            let config = EngineConfig { reproducible, max_prefill_rows: 37, ..self::reproducible() };
            let engine = Engine::start(config, 0, &params).unwrap();
            for (prompt_len, temperature, top_k) in [(1, 1.0, 0), (16, 0.0, 0), (160, 0.7, 0), (65, 1.5, 5)] {
                let prompt = random_ids(prompt_len, 9);
                let mut request = request(&prompt, 20, 3);
                (request.temperature, request.top_k) = (temperature, top_k);
                let reply = engine.handle().generate(request).await.unwrap();
                assert_eq!((reply.ids.len(), reply.finish), (20, FinishReason::Length));
                assert_eq!(reply.versions, [(0, 0)]);
                assert_eq!(reply.set_logprobs.is_some(), top_k > 0);
                let ids = [prompt.as_slice(), reply.ids.as_slice()].concat();
                let truth =
                    truth(&params, &ids, if temperature == 0.0 { 1.0 } else { f64::from(temperature) });
                for (got, truth) in reply.logprobs.iter().zip(&truth[prompt_len - 1..]) {
                    assert!((f64::from(*got) - truth).abs() < 1e-5, "model {index}: {got}, not {truth}");
                }
            }
        }
    }
}

/// A random request. Some prompts share prefixes.
fn random_request(index: u64) -> GenerateRequest {
    let mut bits = SplitMix64::new(index ^ 0xfeed);
    let mut prompt = random_ids(bits.below(24) as usize, bits.below(12));
    prompt.extend(random_ids(1 + bits.below(40) as usize, bits.below(200)));
    let mut request = request(&prompt, 1 + bits.below(16) as u32, index);
    request.temperature = [0.0, 0.6, 1.0, 1.0][bits.below(4) as usize];
    request.top_p = if bits.below(5) == 0 { 0.8 } else { 1.0 };
    request.top_k = if bits.below(5) == 0 { 7 } else { 0 };
    request.stop_ids = (0..bits.below(4)).map(|_| bits.below(67) as u32).collect();
    request
}

/// Sends a request and drops it after `patience` polls of the runtime.
async fn ask(handle: EngineHandle, request: GenerateRequest, patience: Option<u64>) -> Option<Generated> {
    let impatient = async {
        match patience {
            None => std::future::pending().await,
            Some(turns) => {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            }
        }
    };
    tokio::select! {
        reply = handle.generate(request) => Some(reply.unwrap()),
        () = impatient => None,
    }
}

fn bits(logprobs: &[f32]) -> Vec<u32> {
    logprobs.iter().map(|logprob| logprob.to_bits()).collect()
}

fn assert_same(one: &Generated, other: &Generated) {
    assert_eq!(one.ids, other.ids);
    assert_eq!(bits(&one.logprobs), bits(&other.logprobs));
    assert_eq!(one, other);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_requests_each_get_what_they_get_alone() {
    let params = params(&small_model(|_| {}), 1);
    // Little memory and a short queue, so that requests also wait for both.
    let config = EngineConfig { kv_budget_bytes: 120 << 10, queue: 20, ..reproducible() };
    let engine = Engine::start(config, 0, &params).unwrap();
    let single = Engine::start(alone(), 0, &params).unwrap();
    let mut order: Vec<u64> = (0..1_000).collect();
    let mut shuffle = SplitMix64::new(4);
    for last in (1..order.len()).rev() {
        order.swap(last, shuffle.below(last as u64 + 1) as usize);
    }
    let tasks: Vec<_> = order
        .into_iter()
        .map(|index| {
            let patience = index.is_multiple_of(7).then_some(index * 3);
            (index, tokio::spawn(ask(engine.handle(), random_request(index), patience)))
        })
        .collect();
    let mut answered = 0;
    for (index, task) in tasks {
        if let Some(reply) = task.await.unwrap() {
            assert_same(&reply, &single.handle().generate(random_request(index)).await.unwrap());
            answered += 1;
        }
    }
    assert!(answered >= 850);
    // This answer comes after all others, so the engine has noticed the cancelled requests.
    let _ = engine.handle().generate(request(&[1], 1, 0)).await.unwrap();
    let stats = engine.handle().stats();
    assert_eq!((stats.running, stats.waiting), (0, 0));
    assert_eq!(stats.kv_bytes, stats.retained_bytes);
    let single = single.handle().stats();
    assert_eq!((single.kv_bytes, single.retained_bytes), (0, 0));
    assert!(stats.reused_prompt_rows > 0);
}

/// Products on both sides of where a second thread is used: the small model's are below it, the large one's above.
#[tokio::test(flavor = "multi_thread")]
async fn on_two_threads_replies_do_not_depend_on_the_batch_either() {
    let large = |config: &mut ModelConfig| {
        (config.hidden_size, config.intermediate_size, config.initializer_range) = (256, 1_024, 0.1);
    };
    for config in [small_model(|_| {}), small_model(large)] {
        let params = params(&config, 1);
        let threads = 2;
        let engine = Engine::start(EngineConfig { threads, ..reproducible() }, 0, &params).unwrap();
        let single = Engine::start(EngineConfig { threads, ..alone() }, 0, &params).unwrap();
        let tasks: Vec<_> =
            (1..40).map(|index| tokio::spawn(ask(engine.handle(), random_request(index), None))).collect();
        for (index, task) in (1..40).zip(tasks) {
            let reply = task.await.unwrap().unwrap();
            assert_same(&reply, &single.handle().generate(random_request(index)).await.unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_groups_prompt_is_computed_once() {
    let params = params(&small_model(|_| {}), 2);
    let engine = Engine::start(reproducible(), 0, &params).unwrap();
    let single = Engine::start(alone(), 0, &params).unwrap();
    let handle = engine.handle();
    for prompt_len in [2, 16, 101] {
        let before = handle.stats();
        let prompt = random_ids(prompt_len, 70 + prompt_len as u64);
        let members: Vec<_> =
            (0..8).map(|seed| tokio::spawn(ask(engine.handle(), request(&prompt, 20, seed), None))).collect();
        let mut first = None;
        for (seed, member) in members.into_iter().enumerate() {
            let reply = member.await.unwrap().unwrap();
            assert_same(&reply, &single.handle().generate(request(&prompt, 20, seed as u64)).await.unwrap());
            first.get_or_insert(reply);
        }
        let after = handle.stats();
        assert_eq!(after.prompt_rows - before.prompt_rows, prompt_len as u64);
        assert_eq!(after.reused_prompt_rows - before.reused_prompt_rows, 7 * prompt_len as u64);

        // The next turn reuses all that the first member computed, which excludes its last token.
        let turn = [prompt.as_slice(), &first.unwrap().ids, &random_ids(9, 4)].concat();
        let reply = handle.generate(request(&turn, 10, 5)).await.unwrap();
        assert_same(&reply, &single.handle().generate(request(&turn, 10, 5)).await.unwrap());
        assert_eq!(handle.stats().prompt_rows - after.prompt_rows, 10);
    }
}

/// Sends the request `long`, then `short`, and returns the reply to `short`, which arrives first.
async fn before<F>(long: &mut Pin<&mut F>, short: F) -> Generated
where
    F: Future<Output = Result<Generated, EngineError>>,
{
    tokio::select! {
        biased;
        reply = long => panic!("the long request is done: {reply:?}"),
        reply = short => reply.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_change_between_two_steps() {
    let config = small_model(|_| {});
    let (old, new) = (params(&config, 3), params(&config, 4));
    let engine = Engine::start(reproducible(), 10, &old).unwrap();
    let handle = engine.handle();
    let prompt = random_ids(30, 1);
    let mut long = pin!(handle.generate(request(&prompt, 600, 1)));
    let early = before(&mut long, handle.generate(request(&prompt, 5, 2))).await;
    assert_eq!(early.versions, [(0, 10)]);
    handle.publish(11, &new).unwrap().wait().await.unwrap();
    assert_eq!(handle.stats().version, 11);
    let late = handle.generate(request(&prompt, 5, 2)).await.unwrap();
    assert_eq!(late.versions, [(0, 11)]);
    let long = long.await.unwrap();

    // One step for each token: nothing delayed it.
    assert_eq!((long.ids.len(), handle.stats().steps), (600, 600));
    assert_eq!(long.versions.len(), 2);
    assert_eq!((long.versions[0], long.versions[1].1), ((0, 10), 11));
    let swapped = long.versions[1].0 as usize;
    let before = Engine::start(alone(), 10, &old).unwrap();
    let before = before.handle().generate(request(&prompt, swapped as u32, 1)).await.unwrap();
    assert_eq!(bits(&before.logprobs), bits(&long.logprobs[..swapped]));
    // Nothing of the old version was used for the new one.
    let after = Engine::start(alone(), 11, &new).unwrap();
    assert_same(&late, &after.handle().generate(request(&prompt, 5, 2)).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_two_versions_computed_serves_nobody_else() {
    let config = small_model(|_| {});
    let (old, new) = (params(&config, 5), params(&config, 6));
    let engine = Engine::start(EngineConfig { max_prefill_rows: 2, ..reproducible() }, 0, &old).unwrap();
    let handle = engine.handle();
    let prompt = random_ids(600, 8);
    let mut mixed = pin!(handle.generate(request(&prompt, 3, 1)));
    let _ = before(&mut mixed, handle.generate(request(&[1], 1, 1))).await;
    handle.publish(1, &new).unwrap().wait().await.unwrap();
    let mixed = mixed.await.unwrap();
    // All of it is after the swap; otherwise the test checks nothing.
    assert_eq!(mixed.versions, [(0, 1)]);
    let pure = handle.generate(request(&prompt, 3, 1)).await.unwrap();
    assert_eq!(handle.stats().reused_prompt_rows, 0);
    let single = Engine::start(alone(), 1, &new).unwrap();
    assert_same(&pure, &single.handle().generate(request(&prompt, 3, 1)).await.unwrap());
    assert_ne!(bits(&pure.logprobs), bits(&mixed.logprobs));
}

#[tokio::test(flavor = "multi_thread")]
async fn publications_are_checked() {
    let config = small_model(|_| {});
    let weights = params(&config, 1);
    let engine = Engine::start(reproducible(), 7, &weights).unwrap();
    let handle = engine.handle();
    let not_newer = handle.publish(7, &weights).unwrap_err();
    assert!(matches!(not_newer, PublishError::NotNewer { version: 7, latest: 7 }), "{not_newer}");
    let other = params(&small_model(|config| config.vocab_size = 70), 1);
    assert!(matches!(handle.publish(8, &other), Err(PublishError::OtherShape)));

    // The engine keeps a copy of published weights.
    let changing = params(&config, 2);
    handle.publish(8, &changing).unwrap().wait().await.unwrap();
    let before = handle.generate(request(&[1, 2], 9, 1)).await.unwrap();
    let _ = changing.flat().shallow_clone().f_fill_(f64::NAN).unwrap();
    assert_same(&before, &handle.generate(request(&[1, 2], 9, 1)).await.unwrap());
    handle.publish(9, &changing).unwrap().wait().await.unwrap();
    assert_eq!(handle.generate(request(&[1, 2], 9, 1)).await, Err(EngineError::NotFinite { version: 9 }));
    // The next version serves again.
    handle.publish(10, &weights).unwrap().wait().await.unwrap();
    assert!(handle.generate(request(&[1, 2], 9, 1)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_makes_requests_wait_and_never_fail() {
    let params = params(&small_model(|_| {}), 1);
    // 2 layers, 1 key head, 16 positions of 16 keys and values: 4 KiB a page, 12 pages.
    let config = EngineConfig { kv_budget_bytes: 12 * 4096, ..reproducible() };
    let engine = Engine::start(config, 0, &params).unwrap();
    let handle = engine.handle();
    // 176 positions are computed, 11 pages, and one page is shared.
    let tasks: Vec<_> = (0..6)
        .map(|seed| tokio::spawn(ask(engine.handle(), request(&random_ids(97, seed), 80, seed), None)))
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().ids.len(), 80);
    }
    let refused = handle.generate(request(&random_ids(97, 1), 81, 1)).await;
    assert_eq!(refused, Err(EngineError::NeverFits { needed: 13 * 4096, budget: 12 * 4096 }));
    // Cached prefixes fill the whole budget; a prompt that continues one fits only if they are evicted.
    let again = handle.generate(request(&random_ids(97, 5), 80, 9)).await.unwrap();
    assert_eq!(again.ids.len(), 80);
    assert!(handle.stats().kv_bytes <= 12 * 4096);
    assert_eq!(handle.generate(request(&[], 1, 1)).await, Err(EngineError::EmptyPrompt));
    let nothing = handle.generate(request(&[1], 0, 1)).await.unwrap();
    assert_eq!((nothing.ids.len(), nothing.finish), (0, FinishReason::Length));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_engine_answers_all() {
    let params = params(&small_model(|_| {}), 1);
    let config = EngineConfig { max_batch: 2, queue: 3, ..reproducible() };
    let engine = Engine::start(config, 0, &params).unwrap();
    let handle = engine.handle();
    // Two run, three wait in the queue, five wait for it.
    let tasks: Vec<_> = (0..10)
        .map(|seed| {
            let handle = engine.handle();
            tokio::spawn(async move { handle.generate(request(&[1, 2, 3], 4_000, seed)).await })
        })
        .collect();
    let first = handle.generate(request(&[5], 1, 1));
    tokio::task::spawn_blocking(move || engine.shutdown()).await.unwrap();
    let gone = Err(EngineError::Gone { cause: "it was shut down".to_owned() });
    for task in tasks {
        assert_eq!(task.await.unwrap(), gone);
    }
    assert_eq!(first.await, gone);
    assert!(matches!(handle.publish(1, &params), Err(PublishError::Gone { .. })));
}
