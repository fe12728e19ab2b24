//! Replies token by token, against the same ones as a whole.

use std::sync::Arc;

use clawrl_torch::{Engine, EngineError, GenerateRequest, ScoreRequest, StreamedToken, TokenStream};

use super::engine::{alone, params, random_ids, reproducible, request, small_model};

async fn all(stream: &mut TokenStream) -> Vec<StreamedToken> {
    let mut tokens = Vec::new();
    while let Some(token) = stream.next().await {
        tokens.push(token);
    }
    tokens
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_reply_is_the_reply() {
    let params = params(&small_model(|_| {}), 1);
    let engine = Engine::start(reproducible(), 3, &params).unwrap();
    let single = Engine::start(alone(), 3, &params).unwrap();
    let prompt = random_ids(50, 2);
    let greedy = GenerateRequest { temperature: 0.0, ..request(&prompt, 30, 1) };
    let warm = GenerateRequest { temperature: 0.7, stop_ids: vec![5, 9, 11], ..request(&prompt, 300, 2) };
    for asked in
        [greedy, warm, GenerateRequest { top_k: 3, ..request(&prompt, 30, 3) }, request(&prompt, 0, 4)]
    {
        let whole = single.handle().generate(asked.clone()).await.unwrap();
        let mut stream = engine.handle().stream(asked.clone(), 4).await.unwrap();
        let tokens = all(&mut stream).await;
        assert_eq!(stream.end().await.unwrap(), whole);
        assert_eq!(tokens.iter().map(|token| token.id).collect::<Vec<_>>(), whole.ids);
        assert_eq!(tokens.iter().map(|token| token.logprob).collect::<Vec<_>>(), whole.logprobs);
        assert!(tokens.iter().all(|token| token.version == 3));
        if whole.ids.is_empty() {
            continue;
        }
        // The log-probabilities of other tokens equal those of scoring.
        let ids: Vec<u32> = prompt.iter().chain(&whole.ids).copied().collect();
        let handle = single.handle();
        let scored = handle.score(ScoreRequest {
            positions: prompt.len()..ids.len(),
            ids: Arc::from(ids),
            temperature: if asked.temperature > 0.0 { asked.temperature } else { 1.0 },
            candidates: Vec::new(),
            top_k: 4,
            adapter: None,
        });
        let said: Vec<_> = tokens.into_iter().map(|token| token.most_probable).collect();
        assert_eq!(said, scored.await.unwrap().top);
    }
    let mut none = engine.handle().stream(request(&prompt, 5, 1), 0).await.unwrap();
    assert!(all(&mut none).await.iter().all(|token| token.most_probable.is_empty()));
    let mut most = engine.handle().stream(request(&prompt, 1, 1), usize::MAX).await.unwrap();
    assert_eq!(all(&mut most).await[0].most_probable.len(), 67, "as many as there are");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_come_before_the_end_and_who_goes_away_ends_them() {
    let params = params(&small_model(|_| {}), 1);
    let engine = Engine::start(reproducible(), 0, &params).unwrap();
    let handle = engine.handle();
    let mut stream = handle.stream(request(&[1, 2], 4_000, 1), 0).await.unwrap();
    assert!(stream.next().await.is_some());
    assert_eq!(handle.stats().finished, 0, "4,000 steps take longer than one token");
    drop(stream);
    // A later request is answered by a step after the one that dropped it.
    handle.generate(request(&[1], 2, 1)).await.unwrap();
    assert_eq!(handle.stats().cancelled, 1);

    // A caller that only waits for the end gets it, unread tokens included.
    let stream = handle.stream(request(&[1, 2], 40, 1), 2).await.unwrap();
    assert_eq!(stream.end().await.unwrap().ids.len(), 40);

    let mut begun = handle.stream(request(&[1, 2], 4_000, 1), 0).await.unwrap();
    assert!(begun.next().await.is_some());
    tokio::task::spawn_blocking(move || engine.shutdown()).await.unwrap();
    assert!(all(&mut begun).await.len() < 4_000);
    assert_eq!(begun.end().await, Err(EngineError::Gone { cause: "it was shut down".to_owned() }));
    assert!(handle.stream(request(&[1], 1, 1), 0).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_token_has_the_version_that_sampled_it() {
    let config = small_model(|_| {});
    let engine = Engine::start(reproducible(), 0, &params(&config, 1)).unwrap();
    let mut stream = engine.handle().stream(request(&[1, 2], 4_000, 1), 0).await.unwrap();
    let mut tokens = vec![stream.next().await.unwrap()];
    engine.handle().publish(1, &params(&config, 2)).unwrap().wait().await.unwrap();
    tokens.extend(all(&mut stream).await);
    let whole = stream.end().await.unwrap();
    let expected = whole.versions.iter().map(|(from, _)| *from as usize).collect::<Vec<_>>();
    let changes = (0..tokens.len()).filter(|&at| at == 0 || tokens[at].version != tokens[at - 1].version);
    assert_eq!(changes.collect::<Vec<_>>(), expected);
    assert_eq!(expected.len(), 2, "{expected:?}");
}
