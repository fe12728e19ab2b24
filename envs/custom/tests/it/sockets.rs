//! The connection with a server of OpenEnv, between messages and at its end.

use std::time::Duration;

use clawrl_core::{BoxFuture, Env, EnvProvider, Limit, Retry, RewardTotal};
use clawrl_custom::CustomProvider;
use futures_util::{SinkExt, StreamExt};
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::over_openenv::{plain, say, server_by, told};
use crate::support::{bare_provider, begun, ctx, custom_task, openenv};

/// Only a failure reaches it.
const LIMIT: Duration = Duration::from_secs(5);

/// A server's behaviour on its socket, after it has answered the reset, and its report.
type Script = fn(WebSocketStream<TcpStream>, mpsc::Sender<String>) -> BoxFuture<'static, ()>;

/// An episode that has begun, with a server that follows a script, and the server's reports.
async fn begun_by(script: Script) -> (CustomProvider, Box<dyn Env>, mpsc::Receiver<String>) {
    let (report, reports) = mpsc::channel(16);
    let address = server_by(plain(), move |mut socket| {
        let report = report.clone();
        async move {
            let _reset = socket.next().await;
            answer(&mut socket, 0.0).await;
            script(socket, report).await;
        }
    })
    .await;
    let provider = bare_provider();
    let task = custom_task(openenv(&address, RewardTotal::Sum, Value::Null));
    let (env, _) = begun(&provider, &task).await;
    (provider, env, reports)
}

async fn answer(socket: &mut WebSocketStream<TcpStream>, reward: f64) {
    let text = told(json!({ "echoed": "yes" }), json!(reward), false).to_string();
    socket.send(Message::text(text)).await.unwrap();
}

/// Messages received until the connection ends.
async fn heard(socket: &mut WebSocketStream<TcpStream>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        all.push(match message {
            Message::Text(text) => text.to_string(),
            Message::Close(_) => "closed".to_owned(),
            other => format!("{other:?}"),
        });
    }
    all
}

async fn next(reports: &mut mpsc::Receiver<String>) -> String {
    timeout(LIMIT, reports.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn pings_are_answered_while_idle() {
    let (_provider, mut env, mut reports) = begun_by(|mut socket, report| {
        Box::pin(async move {
            for round in 0..50u8 {
                socket.send(Message::Ping(Bytes::from(vec![round]))).await.unwrap();
                // As servers do that end idle sessions.
                let pong = timeout(LIMIT, socket.next()).await;
                let Ok(Some(Ok(Message::Pong(payload)))) = pong else { return };
                assert_eq!(payload[..], [round]);
            }
            report.send("alive".to_owned()).await.unwrap();
            let _step = socket.next().await;
            answer(&mut socket, 1.0).await;
            let _ = socket.next().await;
        })
    })
    .await;
    // The policy thinks for that long.
    assert_eq!(next(&mut reports).await, "alive");
    let stepped = env.step(&[say("it")], ctx(1, LIMIT)).await.unwrap();
    assert_eq!(stepped.process_reward, Some(1.0));
    assert!(env.grade(ctx(2, LIMIT)).await.unwrap().passed);
}

/// Answers one step twice, and reports when its client has gone for that.
fn twice(mut socket: WebSocketStream<TcpStream>, report: mpsc::Sender<String>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let _step = socket.next().await;
        answer(&mut socket, 0.5).await;
        answer(&mut socket, 0.5).await;
        report.send(format!("{:?}", heard(&mut socket).await)).await.unwrap();
    })
}

#[tokio::test]
async fn w2_unexpected_answers_are_faults() {
    let (_provider, mut env, mut reports) = begun_by(twice).await;
    env.step(&[say("it")], ctx(1, LIMIT)).await.unwrap();
    assert_eq!(next(&mut reports).await, "[]");
    let fault = env.step(&[say("it")], ctx(2, LIMIT)).await.unwrap_err();
    assert_eq!((fault.code.as_str(), fault.retry), ("answer-unasked", Retry::Sound), "{fault}");
    assert!(fault.message.contains("before `step` was sent"), "{fault}");
}

#[tokio::test]
async fn p4_unexpected_answer_prevents_grading() {
    let (_provider, mut env, mut reports) = begun_by(twice).await;
    env.step(&[say("it")], ctx(1, LIMIT)).await.unwrap();
    assert_eq!(next(&mut reports).await, "[]");
    let fault = env.grade(ctx(2, LIMIT)).await.unwrap_err();
    assert_eq!((fault.code.as_str(), fault.retry), ("answer-unasked", Retry::Sound), "{fault}");
}

#[tokio::test]
async fn session_end_by_server_reports_reason() {
    let (_provider, mut env, mut reports) = begun_by(|mut socket, report| {
        Box::pin(async move {
            let reason = "keepalive \u{1b}[2Jping timeout".into();
            socket.close(Some(CloseFrame { code: CloseCode::Error, reason })).await.unwrap();
            report.send(format!("{:?}", heard(&mut socket).await)).await.unwrap();
        })
    })
    .await;
    assert_eq!(next(&mut reports).await, "[\"closed\"]");
    let fault = env.step(&[say("it")], ctx(1, LIMIT)).await.unwrap_err();
    assert_eq!((fault.code.as_str(), fault.retry), ("connection-lost", Retry::Sound), "{fault}");
    assert!(
        fault
            .message
            .starts_with("the server ended the session (code 1011: `keepalive \\u{1b}[2Jping timeout`)"),
        "{fault}"
    );
}

/// Answers nothing, and reports the messages that it received.
fn mute(mut socket: WebSocketStream<TcpStream>, report: mpsc::Sender<String>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        report.send(format!("{:?}", heard(&mut socket).await)).await.unwrap();
    })
}

#[tokio::test]
async fn p2_nothing_is_sent_after_a_timeout() {
    let (_provider, mut env, mut reports) = begun_by(mute).await;
    let late = env.step(&[say("one")], ctx(1, Duration::from_millis(200))).await.unwrap_err();
    assert_eq!(late.limit, Some(Limit::Step));
    let refused = env.step(&[say("two")], ctx(2, LIMIT)).await;
    assert_eq!(refused.unwrap_err().code, "connection-lost");
    // Once, and nothing after it (P1).
    assert_eq!(next(&mut reports).await, format!("{:?}", [step_of("one")]));
}

#[tokio::test]
async fn p2_timed_out_session_is_still_graded() {
    let (_provider, mut env, _reports) = begun_by(mute).await;
    let late = env.step(&[say("one")], ctx(1, Duration::from_millis(200))).await.unwrap_err();
    assert_eq!(late.limit, Some(Limit::Step));
    assert_eq!(env.grade(ctx(2, LIMIT)).await.unwrap().score, 0.0);
}

#[tokio::test]
async fn the_connection_ends_with_the_session() {
    let farewell = r#"{"type":"close"}"#.to_owned();
    let said = format!("{:?}", [farewell, "closed".to_owned()]);

    let (_provider, mut env, mut reports) = begun_by(mute).await;
    env.close().await;
    assert_eq!(next(&mut reports).await, said, "closed");

    let (provider, env, mut reports) = begun_by(mute).await;
    drop(env);
    provider.shutdown().await;
    assert_eq!(next(&mut reports).await, said, "dropped");

    let (provider, mut env, mut reports) = begun_by(mute).await;
    let dropped = timeout(Duration::from_millis(200), env.step(&[say("it")], ctx(1, LIMIT))).await;
    assert!(dropped.is_err());
    drop(env);
    provider.shutdown().await;
    assert_eq!(next(&mut reports).await, format!("{:?}", [step_of("it")]), "dropped while it asked");
}

fn step_of(message: &str) -> String {
    json!({ "type": "step", "data": { "message": message } }).to_string()
}
