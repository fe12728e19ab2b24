//! Clients' requests that are forwarded, and responses that are streamed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{FinishReason, RemoteDialect, RemoteSpec, TokenSource};
use clawrl_remote::{
    PassedOn, RemoteEnd, RemoteError, RemoteModel, RemotePiece, RemoteStream, Secret, StreamError,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::stage::{KEY, settings};
use crate::stub::{Answer, Step, Stub, chunk};

fn model(settings: RemoteSpec) -> RemoteModel {
    RemoteModel::new(settings, Secret::new(KEY)).unwrap()
}

async fn begin(model: &RemoteModel) -> Result<RemoteStream, StreamError> {
    let body = json!({"messages": [{"role": "user", "content": "hi"}], "model": "policy"});
    let begun = model.begin(&PassedOn { body: body.as_object().unwrap(), prompt: None, seed: 1 }).await;
    assert!(!format!("{begun:?}").contains(KEY));
    begun
}

/// All of an answer, put together.
#[derive(Debug, Default, PartialEq)]
struct Whole {
    text: String,
    reasoning: String,
    calls: Vec<(String, String)>,
    ids: Vec<u32>,
    end: Option<RemoteEnd>,
}

async fn read(mut stream: RemoteStream) -> Result<Whole, StreamError> {
    let mut whole = Whole::default();
    while let Some(piece) = stream.next().await {
        assert!(!format!("{piece:?}").contains(KEY));
        match piece? {
            RemotePiece::Said(said) => {
                whole.text += &said.text;
                whole.reasoning += &said.reasoning;
                whole.calls.extend(said.calls);
            }
            RemotePiece::Sampled(tokens) => whole.ids = tokens.ids,
            RemotePiece::End(end) => whole.end = Some(end),
        }
    }
    assert!(stream.next().await.is_none());
    Ok(whole)
}

async fn answered(answer: Answer) -> Result<Whole, StreamError> {
    let stub = Stub::start(move |_| answer.clone()).await;
    read(begin(&model(settings(&stub))).await?).await
}

fn event(delta: Value) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta}]}))
}

fn end(usage: Option<(u64, u64)>) -> Option<RemoteEnd> {
    Some(RemoteEnd { finish: FinishReason::Stop, usage })
}

const STOP: &str = "data: {\"choices\": [{\"index\": 0, \"delta\": {}, \"finish_reason\": \"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn call(piece: Value) -> String {
    event(json!({"tool_calls": [piece]}))
}

#[tokio::test]
async fn how_an_answer_is_cut_into_pieces_changes_nothing() {
    let usage = "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 9, \"completion_tokens\": 5}}\n\n";
    let events = [
        ": OPENROUTER PROCESSING\n\n",
        &event(json!({"role": "assistant", "content": ""})),
        &event(json!({"reasoning_content": "hé"})),
        &event(json!({"content": "one "})),
        ": ping\n\n",
        &event(json!({"content": "twö"})),
        &call(json!({"index": 0, "id": "a", "function": {"name": "ls", "arguments": "{\"a"}})),
        &call(json!({"index": 1, "id": "b", "function": {"name": "pwd", "arguments": ""}})),
        &call(json!({"index": 0, "function": {"arguments": "\": 1}"}})),
        STOP,
        usage,
        DONE,
    ]
    .concat();
    let expected = Whole {
        text: "one twö".to_owned(),
        reasoning: "hé".to_owned(),
        calls: vec![("ls".to_owned(), "{\"a\": 1}".to_owned()), ("pwd".to_owned(), "{}".to_owned())],
        ids: Vec::new(),
        end: end(Some((9, 5))),
    };
    for text in [events.clone(), events.replace('\n', "\r\n")] {
        for size in [1, 3, 7, 64, 1 << 20] {
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            assert_eq!(answered(Answer::pieces(&pieces)).await.unwrap(), expected, "{size}");
        }
    }
}

#[tokio::test]
async fn answers_that_end_otherwise_are_whole_where_they_say_so() {
    let said = event(json!({"content": "ls"}));
    let whole = |pieces: &[&str]| {
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
        answered(Answer::pieces(&pieces))
    };
    assert_eq!(whole(&[&said, STOP]).await.unwrap().end, end(None));
    assert_eq!(whole(&[&said, STOP.trim_end()]).await.unwrap().end, end(None));
    assert_eq!(whole(&[&said, DONE]).await.unwrap().end, end(None));
    let document = json!({"choices": [{"message": {"content": "ls"}, "finish_reason": "stop"}]});
    let answer = answered(Answer::json("200 OK", &document)).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.end), ("ls", end(None)));
}

#[tokio::test]
async fn trouble_after_the_first_piece_is_the_answers_end() {
    let said = event(json!({"content": "ls"}));
    let error = "data: {\"error\": {\"message\": \"out of memory, sk-very-secret-0001\"}}\n\n";
    let check = async |answer: Answer, expected: &str| {
        let stub = Stub::start(move |_| answer.clone()).await;
        let mut stream = begin(&model(settings(&stub))).await.unwrap();
        assert!(matches!(stream.next().await, Some(Ok(RemotePiece::Said(_)))), "{expected}");
        let Some(Err(StreamError::Later { code, message, .. })) = stream.next().await else {
            panic!("{expected}")
        };
        assert_eq!(code, expected);
        assert!(!message.contains(KEY), "{message}");
        assert!(stream.next().await.is_none(), "{expected}");
        assert_eq!(stub.asked().len(), 1, "{expected}");
    };
    check(Answer::pieces(&[said.as_bytes(), error.as_bytes()]), "server-error").await;
    check(Answer::pieces(&[said.as_bytes(), b"data: {\"cho"]), "stream-cut").await;
    check(Answer::pieces(&[said.as_bytes()]), "stream-cut").await;
    check(Answer::begun(&[said.as_bytes()]).then(Step::Cut), "stream-cut").await;
}

#[tokio::test]
async fn trouble_before_the_first_piece_is_tried_again() {
    let empty = event(json!({"role": "assistant", "content": ""}));
    let troubles = [
        Answer::whole("500 Internal Server Error", "", "boom"),
        Answer::whole("503 Service Unavailable", "Retry-After: 0\r\n", ""),
        Answer::default().then(Step::Cut),
        Answer::begun(&[empty.as_bytes()]).then(Step::Cut),
    ];
    for trouble in troubles {
        let first = trouble.clone();
        let stub =
            Stub::start(move |asked| if asked.number == 0 { first.clone() } else { Answer::said("ls") })
                .await;
        let whole = read(begin(&model(settings(&stub))).await.unwrap()).await.unwrap();
        assert_eq!((whole.text.as_str(), stub.asked().len()), ("ls", 2), "{trouble:?}");

        let stub = Stub::start(move |_| trouble.clone()).await;
        let error = begin(&model(settings(&stub))).await.unwrap_err();
        assert!(
            matches!(error, StreamError::Later { .. }) && error.to_string().ends_with("(3 tries)"),
            "{error}"
        );
        assert_eq!(stub.asked().len(), 3);
    }
    let stub = Stub::start(|_| Answer::said("ls")).await;
    let gone = settings(&stub);
    stub.die().await;
    let error = begin(&model(gone)).await.unwrap_err();
    assert!(matches!(error, StreamError::Later { code: "server-unreachable", .. }), "{error:?}");
}

#[tokio::test]
async fn refusals_are_told_apart_and_asked_once() {
    let check = async |answer: Answer| {
        let stub = Stub::start(move |_| answer.clone()).await;
        let error = begin(&model(settings(&stub))).await.unwrap_err();
        assert_eq!(stub.asked().len(), 1, "{error:?}");
        error
    };
    let told = |text: &str| json!({"error": {"message": text}});
    let refused = check(Answer::json("400 Bad Request", &told(&format!("no audio, {KEY}")))).await;
    assert_eq!(refused, StreamError::Refused("no audio, [key]".to_owned()));
    let long = "x".repeat(5_000);
    let refused = check(Answer::json("422 Unprocessable", &told(&long))).await;
    assert!(refused.to_string().chars().count() <= 301, "{refused}");
    let long = check(Answer::json("400 Bad Request", &told("maximum context length is 128 tokens"))).await;
    assert_eq!(long, StreamError::TooLong("maximum context length is 128 tokens".to_owned()));
    let key = check(Answer::json("401 Unauthorized", &told(KEY))).await;
    assert!(matches!(key, StreamError::Settings { code: "key-refused", .. }), "{key:?}");
    let limited = check(Answer::whole("429 Too Many Requests", "Retry-After: 7\r\n", "")).await;
    let wait = Some(Duration::from_secs(7));
    assert!(
        matches!(limited, StreamError::Later { code: "rate-limited", retry_after, .. } if retry_after == wait),
        "{limited:?}"
    );
    let later = check(Answer::whole("503 Service Unavailable", "Retry-After: 600\r\n", "")).await;
    assert!(matches!(later, StreamError::Later { code: "server-error", .. }), "{later:?}");
}

/// For every status, before and after the first piece: in the server's words, and requested once.
#[tokio::test]
async fn a_conversation_that_is_too_long_is_told_as_such() {
    let words = format!("Context size has been exceeded. {KEY}");
    let expected = StreamError::TooLong("Context size has been exceeded. [key]".to_owned());
    let error = json!({"error": {"message": words, "code": 500, "type": "server_error"}});
    let inner = error["error"].to_string();
    let said = event(json!({"content": "l"}));
    let empty = event(json!({"role": "assistant", "content": ""}));
    let answers = [
        Answer::json("500 Internal Server Error", &error),
        Answer::json("200 OK", &error),
        Answer::pieces(&[format!("data: {error}\n\n").as_bytes()]),
        Answer::pieces(&[empty.as_bytes(), format!("event: error\ndata: {inner}\n\n").as_bytes()]),
        Answer::pieces(&[format!("error: {inner}\n\n").as_bytes()]),
        Answer::pieces(&[said.as_bytes(), format!("data: {error}\n\n").as_bytes()]),
        Answer::pieces(&[said.as_bytes(), format!("error: {inner}\n\n").as_bytes()]),
    ];
    for answer in answers {
        let told = answer.clone();
        let stub = Stub::start(move |_| told.clone()).await;
        let error = match begin(&model(settings(&stub))).await {
            Err(error) => error,
            Ok(stream) => read(stream).await.unwrap_err(),
        };
        assert_eq!(error, expected, "{answer:?}");
        assert_eq!(stub.asked().len(), 1, "{answer:?}");
    }
}

#[tokio::test]
async fn what_a_filter_cut_says_so() {
    let filtered = STOP.replace("stop", "content_filter");
    let said = event(json!({"content": "I"}));
    let whole =
        answered(Answer::pieces(&[said.as_bytes(), filtered.as_bytes(), DONE.as_bytes()])).await.unwrap();
    assert_eq!(whole.end, Some(RemoteEnd { finish: FinishReason::ContentFilter, usage: None }));
}

#[tokio::test]
async fn halves_of_characters_lose_no_answer() {
    let said = |text: &str| {
        format!(r#"data: {{"choices": [{{"index": 0, "delta": {{"content": "{text}"}}}}]}}{}"#, "\n\n")
    };
    let pieces = [said(r"a\ud83d"), said(r"\ude00 b"), said(r"\udc00 c"), STOP.to_owned(), DONE.to_owned()];
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
    assert_eq!(answered(Answer::pieces(&pieces)).await.unwrap().text, "a😀 b\u{fffd} c");
    let encoded: &[u8] = b"data: {\"choices\": [{\"delta\": {\"content\": \"a\xed\xa0\xbd\"}}]}\n\n";
    assert_eq!(answered(Answer::pieces(&[encoded, STOP.as_bytes()])).await.unwrap().text, "a\u{fffd}");
}

#[tokio::test]
async fn what_is_sent_is_the_clients_with_our_name_and_key() {
    let stub = Stub::start(|_| Answer::said("ls")).await;
    read(begin(&model(settings(&stub))).await.unwrap()).await.unwrap();
    let asked = &stub.asked()[0];
    assert_eq!((asked.path.as_str(), &asked.body["model"]), ("/v1/chat/completions", &json!("m")));
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(asked.body["messages"], json!([{"role": "user", "content": "hi"}]));
}

#[tokio::test]
async fn exact_tokens_come_with_the_prompt_they_answer() {
    let token = |id: u32, text: &str| {
        json!({"index": 0, "delta": {"content": text}, "token_ids": [id],
            "logprobs": {"content": [{"token": text, "logprob": -0.5}]}})
    };
    let first =
        json!({"prompt_token_ids": [1, 2, 3], "choices": [{"index": 0, "delta": {"role": "assistant"}}]});
    let answer = Answer::events(&[
        first,
        json!({"choices": [token(5, "l")]}),
        json!({"choices": [token(6, "s")]}),
        json!({"choices": [{"index": 0, "delta": {}, "token_ids": [7], "finish_reason": "stop",
            "logprobs": {"content": [{"token": "", "logprob": -0.25}]}}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 3}}),
    ]);
    let stub = Stub::start(move |_| answer.clone()).await;
    let mut exact = RemoteSpec { exact_tokens: Some(TokenSource::Vllm), ..settings(&stub) };
    exact.sampling.temperature_milli = Some(1_000);
    let stream = begin(&model(exact)).await.unwrap();
    assert_eq!(stream.prompt_ids().as_deref(), Some(&[1, 2, 3][..]));
    let whole = read(stream).await.unwrap();
    assert_eq!(
        (whole.text.as_str(), whole.ids.as_slice(), whole.end),
        ("ls", &[5, 6, 7][..], end(Some((3, 3))))
    );
    assert_eq!(stub.asked()[0].body["return_token_ids"], true);
}

#[tokio::test]
async fn a_stream_that_is_dropped_is_closed_at_once() {
    let left = Arc::new(Semaphore::new(0));
    let noticing = Arc::clone(&left);
    let said = event(json!({"content": "ls"}));
    let stub =
        Stub::start(move |_| Answer::begun(&[said.as_bytes()]).then(Step::Left(Arc::clone(&noticing)))).await;
    let mut stream = begin(&model(settings(&stub))).await.unwrap();
    assert!(matches!(stream.next().await, Some(Ok(RemotePiece::Said(_)))));
    drop(stream);
    left.acquire().await.unwrap().forget();

    // So is a request whose answer has not begun.
    let noticing = Arc::clone(&left);
    let began = Arc::new(Semaphore::new(0));
    let beginning = Arc::clone(&began);
    let stub = Stub::start(move |_| {
        beginning.add_permits(1);
        Answer::default().then(Step::Left(Arc::clone(&noticing)))
    })
    .await;
    let model = model(settings(&stub));
    tokio::select! {
        _ = begin(&model) => panic!("nothing was answered"),
        asked = began.acquire() => asked.unwrap().forget(),
    }
    left.acquire().await.unwrap().forget();
}

#[tokio::test]
async fn silence_is_the_servers_and_not_the_readers() {
    let half = event(json!({"content": "l"}));
    let impatient = |stub: &Stub| {
        let mut impatient = RemoteSpec { tries: 1, ..settings(stub) };
        impatient.patience.stall = Duration::from_millis(100);
        impatient
    };
    let pieces: Vec<Vec<u8>> = [&half, STOP, DONE].iter().map(|piece| chunk(piece.as_bytes())).collect();
    let answer = pieces.into_iter().fold(Answer::begun(&[]), |answer, piece| answer.then(Step::Send(piece)));
    let answer = answer.then(Step::Send(b"0\r\n\r\n".to_vec()));
    let stub = Stub::start(move |_| answer.clone()).await;
    let mut stream = begin(&model(impatient(&stub))).await.unwrap();
    assert!(matches!(stream.next().await, Some(Ok(RemotePiece::Said(_)))));
    sleep(Duration::from_millis(300)).await; // timer: a reader that takes its time
    assert!(matches!(stream.next().await, Some(Ok(RemotePiece::End(_)))));

    let half = event(json!({"content": "l"}));
    let stub = Stub::start(move |_| Answer::begun(&[half.as_bytes()]).then(Step::Stall)).await;
    let stream = begin(&model(impatient(&stub))).await.unwrap();
    let began = Instant::now();
    let error = read(stream).await.unwrap_err();
    assert!(matches!(error, StreamError::Later { code: "stream-stalled", .. }), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_server_is_ready_when_it_lists_its_models() {
    let stub = Stub::start(|_| Answer::models(&["other"])).await;
    assert_eq!(model(settings(&stub)).ready().await, Ok(()));
    assert_eq!(stub.asked()[0].path, "/v1/models");
    let refusing = Stub::start(|_| Answer::json("401 Unauthorized", &json!({"error": KEY}))).await;
    let error = model(settings(&refusing)).ready().await.unwrap_err();
    assert!(
        matches!(&error, StreamError::Settings { code: "key-refused", message } if !message.contains(KEY))
    );
}

#[tokio::test]
async fn settings_that_cannot_be_passed_on_are_refused_by_name() {
    let stub = Stub::start(|_| Answer::said("ls")).await;
    let check = |settings: RemoteSpec, named: &str| {
        let error = RemoteModel::new(settings, None).unwrap_err();
        assert!(matches!(error, RemoteError::Settings(told) if told.contains(named)), "{error}");
    };
    check(RemoteSpec { dialect: RemoteDialect::Anthropic, ..settings(&stub) }, "`openai`");
    check(
        RemoteSpec { exact_tokens: Some(TokenSource::Sglang), ..settings(&stub) },
        "`exact_tokens: sglang`",
    );
}
