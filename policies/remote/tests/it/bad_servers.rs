//! Servers that are unreachable, refuse, send invalid data, stall or crash.

use std::time::{Duration, Instant};

use clawrl_core::{RemoteSpec, Retry};
use serde_json::json;

use crate::stage::{KEY, Turn, ask, faulted, policy, settings};
use crate::stub::{Answer, Step, Stub};

fn said_once(piece: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": piece}}]}))
}

/// The outcome if every request gets this response, and the number of requests.
async fn check(answer: Answer, code: &str, retry: Retry, requests: usize) -> String {
    let stub = Stub::start(move |_| answer.clone()).await;
    let message = faulted(ask(&policy(settings(&stub))).await, code, retry);
    assert_eq!(stub.asked().len(), requests, "{code}: {message}");
    message
}

#[tokio::test]
async fn refusals_are_permanent_and_asked_once() {
    let error = |text: &str| json!({"error": {"message": text, "type": "e"}});
    let told = error(&format!("Incorrect API key provided: {KEY}"));
    let message = check(Answer::json("401 Unauthorized", &told), "key-refused", Retry::Never, 1).await;
    assert!(message.contains("[key]") && message.contains("check the key"), "{message}");
    let told = error("The model `m` does not exist");
    let message = check(Answer::json("404 Not Found", &told), "model-unknown", Retry::Never, 1).await;
    assert!(message.contains("GET models"), "{message}");
    let told = json!({"detail": "Not Found"});
    check(Answer::json("404 Not Found", &told), "url-wrong", Retry::Never, 1).await;
    let page = Answer::whole("200 OK", "Content-Type: text/html\r\n", "<html>hello</html>");
    let message = check(page, "url-wrong", Retry::Never, 1).await;
    assert!(message.contains("text/html") && message.contains("/v1"), "{message}");
    let elsewhere = Answer::whole("302 Found", "Location: http://127.0.0.1:1/\r\n", "");
    check(elsewhere, "url-wrong", Retry::Never, 1).await;
    let told = error("This model's maximum context length is 128 tokens");
    check(Answer::json("400 Bad Request", &told), "context-too-long", Retry::Never, 1).await;
    check(Answer::json("422 Unprocessable", &error("no")), "request-refused", Retry::Never, 1).await;
}

/// A retry does not help, regardless of the status.
#[tokio::test]
async fn a_conversation_that_is_too_long_is_permanent_and_asked_once() {
    let error = json!({"error": {"message": "Context size has been exceeded.", "type": "server_error"}});
    let half = said_once("ls");
    for answer in [
        Answer::json("500 Internal Server Error", &error),
        Answer::pieces(&[half.as_bytes(), format!("data: {error}\n\n").as_bytes()]),
        Answer::pieces(&[format!("error: {}\n\n", error["error"]).as_bytes()]),
    ] {
        let message = check(answer, "context-too-long", Retry::Never, 1).await;
        assert!(message.contains("Context size has been exceeded."), "{message}");
    }
}

#[tokio::test]
async fn errors_of_the_server_are_asked_again_and_passed_on_in_the_end() {
    let broken = Answer::whole("500 Internal Server Error", "", "boom");
    let message = check(broken.clone(), "server-error", Retry::Sound, 3).await;
    assert!(message.contains("boom") && message.ends_with("(3 tries)"), "{message}");
    let stub =
        Stub::start(move |asked| if asked.number < 2 { broken.clone() } else { Answer::said("ls") }).await;
    let action = ask(&policy(settings(&stub))).await.unwrap();
    assert_eq!((action.text.as_str(), action.usage.unwrap().retries), ("ls", 2));
}

#[tokio::test]
async fn a_limit_is_obeyed_by_everybody() {
    let stub = Stub::start(|asked| match asked.number {
        0 => Answer::whole("429 Too Many Requests", "Retry-After: 1\r\n", ""),
        _ => Answer::said("ls"),
    })
    .await;
    let policy = policy(settings(&stub));
    let began = Instant::now();
    let first = ask(&policy).await.unwrap();
    assert_eq!(first.usage.unwrap().retries, 1);
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn nonsense_is_no_reply() {
    check(Answer::pieces(&[b"data: {\"choices\": [{\n\n"]), "reply-garbled", Retry::Sound, 2).await;
    check(Answer::pieces(&[b"data: \xff\xfe\n\n"]), "reply-garbled", Retry::Sound, 2).await;
    check(Answer::pieces(&[b"data: [DONE]\n\n"]), "reply-garbled", Retry::Sound, 2).await;
    check(Answer::pieces(&[b"nothing that is an event\n\n"]), "stream-cut", Retry::Sound, 3).await;
    let message = check(Answer::json("200 OK", &json!([1])), "reply-garbled", Retry::Sound, 2).await;
    assert!(message.contains("JSON object"), "{message}");
    check(
        Answer(vec![Step::Send(b"no http at all\r\n\r\n".to_vec()), Step::Cut]),
        "stream-cut",
        Retry::Sound,
        3,
    )
    .await;
    let large = "x".repeat(1 << 20);
    let pieces: Vec<String> = (0..20).map(|_| said_once(&large)).collect();
    let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
    check(Answer::pieces(&pieces), "reply-too-large", Retry::Sound, 2).await;
}

#[tokio::test]
async fn a_stream_that_dies_is_asked_for_again_and_its_beginning_forgotten() {
    let half = said_once("rm -r");
    let dying = Answer::begun(&[half.as_bytes()]).then(Step::Cut);
    let stub =
        Stub::start(move |asked| if asked.number == 0 { dying.clone() } else { Answer::said("ls") }).await;
    let action = ask(&policy(settings(&stub))).await.unwrap();
    assert_eq!((action.text.as_str(), action.usage.unwrap().retries), ("ls", 1));
    let half = said_once("rm -r");
    let event = half.trim_end().split_at(40).0.as_bytes();
    check(Answer::pieces(&[event]), "stream-cut", Retry::Sound, 3).await;
    // Ended in order, but not by the model.
    check(Answer::pieces(&[half.as_bytes()]), "stream-cut", Retry::Sound, 3).await;
}

/// Timeouts of this many milliseconds, one try.
fn impatient(settings: RemoteSpec, first_byte: u64, stall: u64) -> RemoteSpec {
    let mut settings = RemoteSpec { tries: 1, ..settings };
    settings.patience.first_byte = Duration::from_millis(first_byte);
    settings.patience.stall = Duration::from_millis(stall);
    settings
}

#[tokio::test]
async fn silence_ends_and_is_named() {
    let silent = Stub::start(|_| Answer::default().then(Step::Stall)).await;
    let message =
        faulted(ask(&policy(impatient(settings(&silent), 100, 5_000))).await, "server-silent", Retry::Sound);
    assert!(message.contains("0.1 s"), "{message}");
    let headed = Stub::start(|_| Answer::begun(&[]).then(Step::Stall)).await;
    faulted(ask(&policy(impatient(settings(&headed), 100, 5_000))).await, "server-silent", Retry::Sound);
    let half = said_once("l");
    let stalled = Stub::start(move |_| Answer::begun(&[half.as_bytes()]).then(Step::Stall)).await;
    faulted(ask(&policy(impatient(settings(&stalled), 5_000, 100))).await, "stream-stalled", Retry::Sound);
}

/// Otherwise the attempt's deadline would end it, and the server's failure would be scored.
#[tokio::test]
async fn silence_is_told_before_the_deadline() {
    let silent = Stub::start(|_| Answer::default().then(Step::Stall)).await;
    let time = Duration::from_millis(400);
    let began = Instant::now();
    let outcome = Turn { time, ..Turn::default() }.ask(&policy(settings(&silent))).await;
    faulted(outcome, "server-silent", Retry::Sound);
    assert!(began.elapsed() < time, "{:?}", began.elapsed());
    let limited = Stub::start(|_| Answer::whole("429 Too Many Requests", "Retry-After: 600\r\n", "")).await;
    let began = Instant::now();
    let outcome = Turn { time, ..Turn::default() }.ask(&policy(settings(&limited))).await;
    faulted(outcome, "rate-limited", Retry::Sound);
    assert!(began.elapsed() < time, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let stub = Stub::start(|_| Answer::said("ls")).await;
    let settings = settings(&stub);
    let address = stub.die().await;
    let policy = policy(settings);
    let message = faulted(ask(&policy).await, "server-unreachable", Retry::Sound);
    assert!(message.contains("127.0.0.1") && message.contains("3 tries"), "{message}");
    // The server restarts on the same port, and the same client reaches it.
    let _back = Stub::start_at(address, |_| Answer::said("pwd")).await;
    assert_eq!(ask(&policy).await.unwrap().text, "pwd");
}

#[tokio::test]
async fn a_name_that_nobody_has_is_unreachable() {
    let stub = Stub::start(|_| Answer::said("ls")).await;
    let settings =
        RemoteSpec { base_url: "http://no-such-host.invalid/v1".to_owned(), tries: 1, ..settings(&stub) };
    faulted(ask(&policy(settings)).await, "server-unreachable", Retry::Sound);
}

#[tokio::test]
async fn a_server_without_tls_is_no_secure_server() {
    let stub = Stub::start(|_| Answer::said("ls")).await;
    let base_url = stub.base_url().replace("http://", "https://");
    let settings = RemoteSpec { base_url, ..settings(&stub) };
    faulted(ask(&policy(settings)).await, "tls-refused", Retry::Never);
}
