//! The interactive client: one request, its streamed response, and errors.

use std::sync::Arc;
use std::time::Duration;

use clawrl_remote::{ApiAnswer, ApiClient, ApiError, ApiEvent, Secret};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::stage::KEY;
use crate::stub::{Answer, Step, Stub};

fn client(stub: &Stub) -> ApiClient {
    let client = ApiClient::new(&stub.base_url(), Secret::new(KEY)).unwrap();
    assert!(!format!("{client:?}").contains(KEY));
    client
}

/// The events of a response, and the error that ended it.
async fn read(answer: Answer) -> (Vec<ApiEvent>, Option<ApiError>) {
    let stub = Stub::start(move |_| answer.clone()).await;
    let mut read = Vec::new();
    let mut events = match client(&stub).post("chat/completions", &[], &json!({})).await {
        Ok(ApiAnswer::Events(events)) => events,
        Ok(ApiAnswer::Whole(value)) => return (vec![ApiEvent::Chunk(value)], None),
        Err(error) => return (read, Some(told(error))),
    };
    loop {
        match events.next().await {
            Ok(Some(event)) => read.push(event),
            Ok(None) => return (read, None),
            Err(error) => return (read, Some(told(error))),
        }
    }
}

/// The key is in no error.
fn told(error: ApiError) -> ApiError {
    assert!(!format!("{error:?}").contains(KEY), "{error}");
    error
}

fn chunk(value: Value) -> ApiEvent {
    ApiEvent::Chunk(value)
}

#[tokio::test]
async fn a_request_has_its_headers_and_the_key() {
    let stub = Stub::start(|asked| Answer::json("200 OK", &asked.body)).await;
    let answer = client(&stub).post("feedback", &[("x-one", "a"), ("x-two", "b\nc")], &json!({"a": 1})).await;
    assert!(matches!(answer, Ok(ApiAnswer::Whole(body)) if body == json!({"a": 1})));
    let asked = &stub.asked()[0];
    assert_eq!(
        (asked.path.as_str(), asked.headers["authorization"].as_str()),
        ("/v1/feedback", &*format!("Bearer {KEY}"))
    );
    assert_eq!(asked.headers["x-one"], "a");
    // An invalid header is left out; the others are sent.
    assert!(!asked.headers.contains_key("x-two"));
}

#[tokio::test]
async fn events_however_they_are_cut_and_whole_answers() {
    let pieces: [&[u8]; 4] =
        [b": keepalive\n\nda", b"ta: {\"a\": 1}\n\ndata: {\"b\"", b": 2}\n\ndata: [DO", b"NE]\n\n"];
    let expected = vec![chunk(json!({"a": 1})), chunk(json!({"b": 2})), ApiEvent::Done];
    assert_eq!(read(Answer::pieces(&pieces)).await, (expected, None));
    assert_eq!(read(Answer::json("200 OK", &json!({"a": 1}))).await, (vec![chunk(json!({"a": 1}))], None));
    // A stream may end without `[DONE]`.
    assert_eq!(read(Answer::pieces(&[b"data: {}\n\n"])).await, (vec![chunk(json!({}))], None));
}

#[tokio::test]
async fn a_stream_that_breaks_says_how() {
    let code = |error: Option<ApiError>| match error {
        Some(ApiError::Trouble { code, .. }) => code,
        other => panic!("{other:?}"),
    };
    let cut = Answer::begun(&[b"data: {\"a\": 1}\n\n"]).then(Step::Cut);
    let (events, error) = read(cut).await;
    assert_eq!((events, code(error)), (vec![chunk(json!({"a": 1}))], "stream-cut"));
    assert_eq!(code(read(Answer::pieces(&[b"data: {\"a\""])).await.1), "stream-cut");
    assert_eq!(code(read(Answer::pieces(&[b"data: what\n\n"])).await.1), "reply-garbled");
    assert_eq!(code(read(Answer::pieces(&[b"data: \xff\n\n"])).await.1), "reply-garbled");
    assert_eq!(
        code(read(Answer::whole("200 OK", "Content-Type: text/html\r\n", "<p>")).await.1),
        "url-wrong"
    );
    assert_eq!(code(read(Answer::whole("200 OK", "", "no JSON")).await.1), "url-wrong");
    let ended = format!("data: {{\"error\": {{\"message\": \"no more of {KEY}\\nfor you\"}}}}\n\n");
    let (_, error) = read(Answer::pieces(&[ended.as_bytes()])).await;
    assert_eq!(error, Some(ApiError::Ended("no more of [key] for you".to_owned())));
}

#[tokio::test]
async fn refusals_have_the_servers_words_without_the_key() {
    let body = json!({"error": {"message": format!("what is {KEY}?"), "code": "invalid_api_key"}});
    let (_, error) = read(Answer::json("401 Unauthorized", &body)).await;
    let refused = |status, code: Option<&str>, message: &str, wait: Option<u64>| ApiError::Refused {
        status,
        code: code.map(str::to_owned),
        message: message.to_owned(),
        retry_after: wait.map(Duration::from_secs),
    };
    assert_eq!(error, Some(refused(401, Some("invalid_api_key"), "what is [key]?", None)));
    let limited = Answer::whole("429 Too Many Requests", "Retry-After: 3\r\n", "slowly");
    assert_eq!(read(limited).await.1, Some(refused(429, None, "slowly", Some(3))));
    assert_eq!(
        read(Answer::whole("502 Bad Gateway", "", "")).await.1,
        Some(refused(502, None, "Bad Gateway", None))
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let stub = Stub::start(|_| Answer::models(&["m"])).await;
    let base_url = stub.base_url();
    assert_eq!(client(&stub).get("models").await.unwrap()["data"][0]["id"], "m");
    stub.die().await;
    let error = ApiClient::new(&base_url, None).unwrap().get("models").await.unwrap_err();
    assert!(matches!(error, ApiError::Trouble { code: "server-unreachable", .. }), "{error:?}");
    assert!(ApiClient::new("http://", None).is_err());
}

#[tokio::test]
async fn an_answer_that_is_dropped_closes_its_connection() {
    let left = Arc::new(Semaphore::new(0));
    let answer = Answer::begun(&[b"data: {}\n\n"]).then(Step::Left(Arc::clone(&left)));
    let stub = Stub::start(move |_| answer.clone()).await;
    let client = client(&stub);
    let Ok(ApiAnswer::Events(mut events)) = client.post("chat/completions", &[], &json!({})).await else {
        panic!("no stream");
    };
    assert_eq!(events.next().await, Ok(Some(chunk(json!({})))));
    drop(events);
    left.acquire().await.unwrap().forget();
}
