//! Servers that send keep-alives and no reply, or only half of one.

use std::time::{Duration, Instant};

use clawrl_core::{Action, Fault, RemoteDialect, RemoteSpec, Retry};
use serde_json::json;
use tokio::time::timeout;

use crate::stage::{Turn, ask, faulted, policy, settings};
use crate::stub::{Answer, Step, Stub, chunk};

const PAUSE: Duration = Duration::from_millis(10);

/// Timeout of a test: a longer wait never ends.
const FAR: Duration = Duration::from_secs(30);

fn comment() -> String {
    ": ping\n\n".to_owned()
}

fn ping() -> String {
    format!("event: ping\ndata: {}\n\n", json!({"type": "ping"}))
}

fn nothing_said() -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}))
}

/// Runs a turn with this time limit and returns the time used.
async fn asked(settings: RemoteSpec, time: Duration) -> (Result<Action, Fault>, Duration) {
    let began = Instant::now();
    let policy = policy(settings);
    let turn = Turn { time, ..Turn::default() };
    let outcome = timeout(FAR, turn.ask(&policy)).await.expect("a wait without end");
    (outcome, began.elapsed())
}

/// The outcome of this response, followed by this data repeatedly, before the time is up: otherwise the attempt's deadline
/// would end it, and the server's failure would be scored.
async fn check(dialect: RemoteDialect, begun: Answer, kept: &str, pause: Duration, time: u64, code: &str) {
    let answer = begun.then(Step::Repeat(chunk(kept.as_bytes()), pause));
    let stub = Stub::start(move |_| answer.clone()).await;
    let time = Duration::from_millis(time);
    let (outcome, took) = asked(RemoteSpec { dialect, ..settings(&stub) }, time).await;
    let message = faulted(outcome, code, Retry::Sound);
    assert!(took < time, "{kept:?}: {took:?}");
    if code == "server-silent" {
        assert!(message.contains("keep-alives and no reply"), "{kept:?}: {message}");
    }
}

#[tokio::test]
async fn keep_alives_alone_are_silence() {
    use RemoteDialect::{Anthropic, Openai};
    let silent = async |dialect, kept: String, pause| {
        check(dialect, Answer::begun(&[]), &kept, pause, 400, "server-silent").await;
    };
    silent(Openai, comment(), PAUSE).await;
    silent(Openai, nothing_said(), PAUSE).await;
    silent(Openai, "\n".to_owned(), PAUSE).await;
    silent(Anthropic, comment(), PAUSE).await;
    silent(Anthropic, ping(), PAUSE).await;
    // Without a pause there is always something to read.
    silent(Openai, comment(), Duration::ZERO).await;
    // An event that never ends.
    check(Openai, Answer::begun(&[b"data: "]), "x", PAUSE, 400, "server-silent").await;
}

#[tokio::test]
async fn white_space_before_a_document_is_silence() {
    check(RemoteDialect::Openai, Answer::document(), "\n", PAUSE, 400, "server-silent").await;
}

/// Longer than a reply that is being given may be late.
const LONG: u64 = 4_000;

#[tokio::test]
async fn half_a_reply_with_keep_alives_behind_it_is_no_reply() {
    let half = |piece: &str| Answer::begun(&[format!("data: {piece}\n\n").as_bytes()]);
    let openai = half(&json!({"choices": [{"index": 0, "delta": {"content": "rm -r"}}]}).to_string());
    let anthropic = half(&json!({"type": "message_start", "message": {}}).to_string());
    let document = Answer::document().then(Step::Send(chunk(b"{")));
    let (openai_ping, anthropic_ping) = (comment(), ping());
    tokio::join!(
        check(RemoteDialect::Openai, openai, &openai_ping, PAUSE, LONG, "stream-stalled"),
        check(RemoteDialect::Anthropic, anthropic, &anthropic_ping, PAUSE, LONG, "stream-stalled"),
        check(RemoteDialect::Openai, document, " ", PAUSE, LONG, "stream-stalled"),
    );
}

/// A slow model is not a dead server: its attempt may run into its limit and be graded.
#[tokio::test]
async fn a_reply_that_is_being_given_may_use_its_time() {
    let piece = format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": "x"}}]}));
    let answer = Answer::begun(&[]).then(Step::Repeat(chunk(piece.as_bytes()), PAUSE));
    let stub = Stub::start(move |_| answer.clone()).await;
    let policy = policy(settings(&stub));
    let time = Duration::from_millis(400);
    let turn = Turn { time, ..Turn::default() };
    assert!(timeout(time, turn.ask(&policy)).await.is_err(), "it was given up");
}

#[tokio::test]
async fn a_reply_behind_keep_alives_is_read() {
    let said = json!({"choices": [{"index": 0, "delta": {"content": "ls"}, "finish_reason": "stop"}]});
    let said = format!("data: {said}\n\n");
    let done = "data: [DONE]\n\n".to_owned();
    let pieces = [comment(), nothing_said(), comment(), said, comment(), done];
    let answer = Answer::pieces(&pieces.each_ref().map(|piece| piece.as_bytes()));
    let stub = Stub::start(move |_| answer.clone()).await;
    assert_eq!(ask(&policy(settings(&stub))).await.unwrap().text, "ls");

    let whole = json!({"choices": [{"index": 0, "message": {"content": "ls"}, "finish_reason": "stop"}]});
    let steps = ["\n", "\n", &whole.to_string()].map(|piece| Step::Send(chunk(piece.as_bytes())));
    let answer = steps.into_iter().fold(Answer::document(), Answer::then);
    let answer = answer.then(Step::Send(b"0\r\n\r\n".to_vec()));
    let stub = Stub::start(move |_| answer.clone()).await;
    assert_eq!(ask(&policy(settings(&stub))).await.unwrap().text, "ls");
}
