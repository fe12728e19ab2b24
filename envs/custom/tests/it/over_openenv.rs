//! Servers that speak as those of OpenEnv: a small one of our own, with the messages of openenv-core 0.3.0.

use std::time::Duration;

use clawrl_core::{EnvProvider, Retry, RewardTotal, StopReason};
use clawrl_testkit::conformance::{Case, check_provider};
use clawrl_testkit::lease_request;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

use crate::support::{bare_provider, begun, call, ctx, custom_task, openenv};

const LIMIT: Duration = Duration::from_secs(5);

/// A server with this action schema, whose sockets `serve` handles.
pub(crate) async fn server_by<F>(
    schema: Value,
    serve: impl Fn(WebSocketStream<TcpStream>) -> F + Send + Sync + 'static,
) -> String
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut beginning = [0u8; 11];
            let _ = stream.peek(&mut beginning).await;
            if beginning.starts_with(b"GET /schema") {
                tokio::spawn(tell_schema(stream, schema.clone()));
            } else if let Ok(socket) = accept_async(stream).await {
                tokio::spawn(serve(socket));
            }
        }
    });
    address
}

async fn tell_schema(mut stream: TcpStream, schema: Value) {
    let body = json!({ "action": schema, "observation": {}, "state": {} }).to_string();
    let _ = stream.read(&mut [0u8; 4096]).await;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _ = stream.write_all((head + &body).as_bytes()).await;
}

/// The reset's word selects the messages.
pub(crate) async fn server(schema: Value) -> String {
    server_by(schema, serve).await
}

async fn serve(mut socket: WebSocketStream<TcpStream>) {
    let mut word = String::new();
    while let Some(Ok(Message::Text(text))) = socket.next().await {
        let message: Value = serde_json::from_str(&text).unwrap();
        let data = &message["data"];
        let answer = match message["type"].as_str().unwrap() {
            "reset" => {
                word = data["word"].as_str().unwrap_or("river").to_owned();
                told(json!({ "echoed": format!("say {word} {}", data["seed"]) }), json!(0.0), false)
            }
            "step" if data["type"] == "list_tools" => {
                let tool =
                    json!({ "name": "say", "description": "Says.", "input_schema": { "type": "object" } });
                told(json!({ "tools": [tool] }), Value::Null, false)
            }
            "step" if data["type"] == "call_tool" => {
                let content = json!([{ "type": "text", "text": data["arguments"]["message"] }]);
                told(json!({ "tool_name": "say", "result": { "content": content } }), json!(0.25), false)
            }
            "step" => match data["message"].as_str() {
                Some("break") => error("EXECUTION_ERROR\u{1b}[m", "it broke\n\u{1b}[2J\r\0\u{202e}"),
                Some("hang") => continue,
                Some(said) => {
                    told(json!({ "echoed": said, "length": said.len() }), json!(said == word), said == word)
                }
                None => error("VALIDATION_ERROR", "Invalid message"),
            },
            _ => break,
        };
        if socket.send(Message::text(answer.to_string())).await.is_err() {
            break;
        }
    }
}

pub(crate) fn told(observation: Value, reward: Value, done: bool) -> Value {
    json!({ "type": "observation", "data": { "observation": observation, "reward": reward, "done": done } })
}

fn error(code: &str, message: &str) -> Value {
    let place = json!([{ "loc": ["message"], "msg": "Field required" }]);
    json!({ "type": "error", "data": { "code": code, "message": message, "errors": place } })
}

pub(crate) fn plain() -> Value {
    json!({ "type": "object", "properties": { "message": { "type": "string" } }, "required": ["message"] })
}

pub(crate) fn say(message: &str) -> clawrl_core::ToolCall {
    call("act", json!({ "message": message }))
}

#[tokio::test]
async fn an_episode_is_played_and_graded_by_its_rewards() {
    let address = server(plain()).await;
    let provider = bare_provider();
    let task = custom_task(openenv(&address, RewardTotal::Sum, json!({ "word": "stone" })));
    let (mut env, observation) = begun(&provider, &task).await;
    assert_eq!(observation.joined_text(), "say stone 7");
    let names: Vec<_> = observation.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["act", "submit"]);
    let wrong = env.step(&[say("river")], ctx(1, LIMIT)).await.unwrap();
    assert_eq!(
        (wrong.observation.joined_text().as_str(), wrong.process_reward),
        ("echoed: river\nlength: 5", Some(0.0))
    );
    let refused = env.step(&[call("act", json!({}))], ctx(2, LIMIT)).await.unwrap();
    assert_eq!(refused.observation.joined_text(), "error: message: Field required");
    let right = env.step(&[say("stone")], ctx(3, LIMIT)).await.unwrap();
    assert_eq!((right.end, right.process_reward), (Some(StopReason::Ended("done".to_owned())), Some(1.0)));
    let grade = env.grade(ctx(4, LIMIT)).await.unwrap();
    assert!(grade.passed && grade.flags.is_empty(), "{grade:?}");
    env.close().await;
    provider.shutdown().await;
    assert_eq!(provider.usage().live, 0);
}

#[tokio::test]
async fn tools_of_mcp_are_tools() {
    let address = server(json!({ "properties": { "type": {}, "tool_name": {}, "arguments": {} } })).await;
    let provider = bare_provider();
    for (score, expected) in [(RewardTotal::Sum, 0.5), (RewardTotal::Last, 0.25)] {
        let (mut env, observation) =
            begun(&provider, &custom_task(openenv(&address, score, Value::Null))).await;
        assert_eq!(observation.tools[0].name, "say");
        for seq in 1..3 {
            let said = env.step(&[call("say", json!({ "message": "hi" }))], ctx(seq, LIMIT)).await.unwrap();
            assert_eq!(said.observation.joined_text(), "hi");
        }
        assert_eq!(env.grade(ctx(3, LIMIT)).await.unwrap().score, expected);
        env.close().await;
    }
}

#[tokio::test]
async fn servers_that_break_are_faults() {
    let address = server(plain()).await;
    let provider = bare_provider();
    let task = custom_task(openenv(&address, RewardTotal::Sum, Value::Null));
    let (mut env, _) = begun(&provider, &task).await;
    let fault = env.step(&[say("break")], ctx(1, LIMIT)).await.unwrap_err();
    assert_eq!((fault.code.as_str(), fault.retry), ("env-error", Retry::Never), "{fault}");
    assert!(
        fault.message.contains(r"error EXECUTION_ERROR\u{1b}[m: it broke\n\u{1b}[2J\r\0\u{202e}"),
        "{fault}"
    );
    env.close().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let task = custom_task(openenv(&nobody, RewardTotal::Sum, Value::Null));
    let mut env = provider.lease(lease_request(&task)).await.unwrap();
    let fault = env.reset(ctx(0, LIMIT)).await.unwrap_err();
    assert_eq!((fault.code.as_str(), fault.retry), ("server-unreachable", Retry::Sound), "{fault}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_openenv_conform() {
    let address = server(plain()).await;
    let case = Case {
        make_provider: Box::new(|| std::sync::Arc::new(bare_provider()) as std::sync::Arc<dyn EnvProvider>),
        task: custom_task(openenv(&address, RewardTotal::Sum, Value::Null)),
        quick_calls: vec![say("it")],
        long_calls: Some(vec![say("hang")]),
        ending_calls: Some(vec![say("river")]),
        deterministic: true,
        patience: Duration::from_secs(20),
        at_once: 16,
    };
    check_provider(case).await.assert_conforms();
}
