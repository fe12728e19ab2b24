//! Scores against the log-probabilities recorded at sampling, and against the learner's forward pass.

use std::pin::pin;
use std::sync::Arc;

use clawrl_torch::{
    AdapterName, Engine, EngineConfig, EngineError, EngineHandle, GenerateRequest, Generated, LoraConfig,
    LoraTarget, ScoreRequest, Scored, init_adapter,
};
use tch::Device;

use crate::engine::{params, random_ids, reproducible, request, small_model, truth};

fn scoring(ids: &[u32], from: usize) -> ScoreRequest {
    ScoreRequest {
        ids: Arc::from(ids),
        positions: from..ids.len(),
        temperature: 1.0,
        candidates: Vec::new(),
        top_k: 0,
        adapter: None,
    }
}

/// A reply behind its prompt.
async fn sampled(handle: &EngineHandle, request: GenerateRequest) -> (Vec<u32>, Generated) {
    let prompt = request.prompt.clone();
    let reply = handle.generate(request).await.unwrap();
    ([&*prompt, reply.ids.as_slice()].concat(), reply)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sampled_scores_as_it_was_recorded() {
    let params = params(&small_model(|_| {}), 4);
    for reproducible in [true, false] {
        let config = EngineConfig { reproducible, ..self::reproducible() };
        let engine = Engine::start(config, 7, &params).unwrap();
        let handle = engine.handle();
        for (prompt_len, temperature) in [(1, 1.0), (16, 0.7), (33, 1.0), (150, 1.4)] {
            let mut request = request(&random_ids(prompt_len, 3), 60, 5);
            request.temperature = temperature;
            let (ids, reply) = sampled(&handle, request).await;
            let mut asked = scoring(&ids, prompt_len);
            asked.temperature = temperature;
            let Scored { logprobs, candidates, top, version } = handle.score(asked.clone()).await.unwrap();
            assert_eq!((version, candidates.len(), top.len()), (7, 0, 0));
            if reproducible {
                assert_eq!(logprobs, reply.logprobs, "prompt of {prompt_len}");
            }
            asked.positions = 1..ids.len();
            let all = handle.score(asked).await.unwrap().logprobs;
            let truth = truth(&params, &ids, f64::from(temperature));
            assert_eq!(all.len(), truth.len());
            for (got, truth) in all.iter().zip(&truth) {
                assert!((f64::from(*got) - truth).abs() < 1e-5, "{got}, not {truth}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_and_the_most_probable_have_the_probability_of_what_is_there() {
    let params = params(&small_model(|_| {}), 4);
    let engine = Engine::start(reproducible(), 0, &params).unwrap();
    let handle = engine.handle();
    let ids = random_ids(90, 8);
    let asked = ScoreRequest {
        positions: 40..90,
        candidates: (0..50).map(|at| vec![at % 67, ids[40 + at as usize]]).collect(),
        top_k: 67,
        ..scoring(&ids, 40)
    };
    let all = handle.score(asked.clone()).await.unwrap();
    for (at, (top, candidates)) in all.top.iter().zip(&all.candidates).enumerate() {
        let sum: f64 = top.iter().map(|(_, logprob)| f64::from(*logprob).exp()).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
        assert!(top.is_sorted_by(|one, other| one.1 >= other.1));
        let of = |id: u32| top.iter().find(|(token, _)| *token == id).unwrap().1;
        assert_eq!(candidates, &[of(asked.candidates[at][0]), of(ids[40 + at])]);
        assert_eq!(all.logprobs[at], candidates[1]);
        // A token does not affect its own distribution.
        let mut other = ids.clone();
        other[40 + at] = (other[40 + at] + 1) % 67;
        if at % 17 == 0 {
            let few = ScoreRequest {
                positions: 40 + at..41 + at,
                candidates: Vec::new(),
                top_k: 3,
                ..asked.clone()
            };
            let few = ScoreRequest { ids: other.into(), ..few };
            assert_eq!(handle.score(few).await.unwrap().top[0], top[..3]);
        }
    }
    assert_eq!((all.top.len(), all.candidates.len()), (50, 50));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_scores_as_it_sampled_and_the_model_otherwise() {
    let config = small_model(|_| {});
    let engine = Engine::start(reproducible(), 0, &params(&config, 4)).unwrap();
    let handle = engine.handle();
    let lora = LoraConfig { rank: 4, alpha: 8.0, targets: vec![LoraTarget::QProj, LoraTarget::DownProj] };
    let name = AdapterName::from("one");
    let missing = ScoreRequest { adapter: Some(name.clone()), ..scoring(&[1, 2, 3], 1) };
    assert_eq!(handle.score(missing).await, Err(EngineError::NoAdapter("one".to_owned())));
    let adapter = init_adapter(&config, &lora, 3, Device::Cpu).unwrap();
    // It begins with B = 0 and would change nothing.
    let moved = adapter.flat().f_add_scalar(0.05).unwrap();
    adapter.flat().shallow_clone().f_copy_(&moved).unwrap();
    handle.publish_adapter(&name, 9, &adapter).unwrap().wait().await.unwrap();
    let (ids, reply) = sampled(
        &handle,
        GenerateRequest { adapter: Some(name.clone()), ..request(&random_ids(20, 1), 40, 2) },
    )
    .await;
    let by_model = handle.score(scoring(&ids, 20)).await.unwrap();
    let by_adapter = handle.score(ScoreRequest { adapter: Some(name), ..scoring(&ids, 20) }).await.unwrap();
    assert_eq!((by_adapter.version, by_model.version), (9, 0));
    assert_eq!(by_adapter.logprobs, reply.logprobs);
    let apart = by_model.logprobs.iter().zip(&reply.logprobs).filter(|(a, b)| (*a - *b).abs() > 1e-4);
    assert!(apart.count() > 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_and_scores_beside_each_other_are_those_alone_and_no_step_waits_for_more_than_a_chunk() {
    let params = params(&small_model(|_| {}), 4);
    let config = EngineConfig { max_prefill_rows: 40, kv_budget_bytes: 1 << 26, ..reproducible() };
    let engine = Engine::start(config.clone(), 0, &params).unwrap();
    let handle = engine.handle();
    let long = scoring(&random_ids(4000, 6), 1);
    let replies = |handle: EngineHandle| async move {
        let asked = (0..6).map(|seed| {
            let handle = handle.clone();
            tokio::spawn(
                async move { handle.generate(request(&random_ids(9, seed), 30, seed)).await.unwrap() },
            )
        });
        let mut all = Vec::new();
        for asked in asked.collect::<Vec<_>>() {
            all.push(asked.await.unwrap());
        }
        all
    };
    let alone = (replies(handle.clone()).await, handle.score(long.clone()).await.unwrap());
    drop(engine);

    let engine = Engine::start(config, 0, &params).unwrap();
    let handle = engine.handle();
    let mut score = pin!(handle.score(long));
    let replied = tokio::select! {
        biased;
        // Some thirty steps come between the first and the last of 100 chunks.
        scored = &mut score => panic!("scored before the replies were there: {} rows", scored.unwrap().logprobs.len()),
        replied = replies(handle.clone()) => replied,
    };
    let stats = handle.stats();
    // Between two steps there was one chunk at most; a few more before the first request came and after the last reply.
    assert!(stats.scored_rows <= 40 * (stats.steps + 60), "{stats:?}");
    assert_eq!((replied, score.await.unwrap()), alone);
    assert_eq!(handle.stats().scored_rows, 3999);
    assert_eq!(handle.stats().kv_bytes, handle.stats().retained_bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_comes_meanwhile_scores_all_of_it() {
    let config = small_model(|_| {});
    let (old, new) = (params(&config, 4), params(&config, 5));
    let engine = Engine::start(EngineConfig { kv_budget_bytes: 1 << 26, ..reproducible() }, 0, &old).unwrap();
    let handle = engine.handle();
    let long = scoring(&random_ids(4000, 6), 1);
    let by_old = handle.score(long.clone()).await.unwrap();
    let mut score = pin!(handle.score(long.clone()));
    let mut rows = handle.stats().scored_rows;
    assert_eq!((by_old.version, rows), (0, 3999));
    while rows == 3999 {
        tokio::select! {
            biased;
            _ = &mut score => panic!("scored before a single chunk was seen"),
            () = tokio::task::yield_now() => rows = handle.stats().scored_rows,
        }
    }
    handle.publish(1, &new).unwrap().wait().await.unwrap();
    let by_new = score.await.unwrap();
    assert_eq!(by_new.version, 1);
    let fresh = Engine::start(EngineConfig { kv_budget_bytes: 1 << 26, ..reproducible() }, 1, &new).unwrap();
    assert_eq!(by_new, fresh.handle().score(long).await.unwrap());
    assert!(handle.stats().scored_rows > 2 * 3999);
    assert_ne!(by_new.logprobs, by_old.logprobs);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_goes_away_is_not_scored_and_memory_is_waited_for() {
    let config = small_model(|_| {});
    let params = params(&config, 4);
    // A page holds 16 positions of 2 layers, keys and values of 16 each, in fp32.
    let page = 16 * 2 * 2 * 16 * 4;
    let engine =
        Engine::start(EngineConfig { kv_budget_bytes: 20 * page, ..reproducible() }, 0, &params).unwrap();
    let handle = engine.handle();
    let too_much = handle.score(scoring(&random_ids(400, 1), 1)).await;
    assert_eq!(too_much, Err(EngineError::NeverFits { needed: 26 * page, budget: 20 * page }));
    let many = (0..12).map(|seed| {
        let handle = handle.clone();
        tokio::spawn(async move {
            let ids = random_ids(200, seed);
            let scored = handle.score(scoring(&ids, 1)).await.unwrap();
            let reply = handle.generate(request(&ids[..100], 60, seed)).await.unwrap();
            (scored.logprobs.len(), reply.ids.len())
        })
    });
    for one in many.collect::<Vec<_>>() {
        assert_eq!(one.await.unwrap(), (199, 60));
    }
    let gone = tokio::spawn({
        let handle = handle.clone();
        async move { handle.score(scoring(&random_ids(200, 50), 1)).await }
    });
    gone.abort();
    assert!(gone.await.is_err_and(|error| error.is_cancelled()));
    assert_eq!(handle.score(scoring(&[1, 2], 1)).await.unwrap().logprobs.len(), 1);
    engine.shutdown();
    let gone = handle.score(scoring(&[1, 2], 1)).await;
    assert_eq!(gone, Err(EngineError::Gone { cause: "it was shut down".to_owned() }));
}
