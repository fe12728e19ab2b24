//! MCP servers over streamable HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{Boundary, EnvProvider, McpDecl, McpShare, McpTransport, Retry, TextSource, ToolcallSpec};
use clawrl_testkit::{lease_request, ready, step_ctx};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Semaphore, mpsc};

use crate::listener::{Asked, Listener, answer};
use crate::support::{bare_provider_with, call, in_process, shown, toolcall_task};

const KEY: &str = "s3cr3t-s3cr3t";

fn spec(url: String, share: McpShare) -> ToolcallSpec {
    let source = TextSource::FromEnv { name: "DOCS_TOKEN".to_owned(), prefix: "Bearer ".to_owned() };
    let docs = McpDecl {
        name: "docs".to_owned(),
        transport: McpTransport::Http {
            url,
            headers: BTreeMap::from([("Authorization".to_owned(), source)]),
        },
        tools: None,
        prefix: String::new(),
        share,
        timeout: Duration::from_secs(20),
        max_calls: None,
    };
    ToolcallSpec { mcp: vec![docs], ..in_process(Vec::new()) }
}

fn secrets() -> [(String, String); 1] {
    [("DOCS_TOKEN".to_owned(), KEY.to_owned())]
}

/// A server that answers by JSON, or by events.
fn docs(asked: &Asked, by_events: bool) -> Vec<u8> {
    if !asked.head.contains(&format!("authorization: bearer {KEY}")) {
        return answer("401 Unauthorized", "", "who are you?");
    }
    let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "docs", "version": "1"},
        }),
        Some("tools/list") => json!({"tools": [{"name": "find", "inputSchema": {"type": "object"}}]}),
        Some("tools/call") if message["params"]["arguments"]["crash"] == json!(true) => return Vec::new(),
        Some("tools/call") => json!({"content": [{"type": "text", "text": format!("found by {KEY}")}]}),
        _ => return answer("202 Accepted", "", ""),
    };
    let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    if by_events {
        answer("200 OK", "content-type: text/event-stream\r\n", &format!("event: message\ndata: {reply}\n\n"))
    } else {
        answer("200 OK", "content-type: application/json\r\nmcp-session-id: s1\r\n", &reply)
    }
}

#[tokio::test]
async fn json_and_event_responses_work() {
    for by_events in [false, true] {
        let listener = Listener::start(move |asked| docs(asked, by_events)).await;
        let provider = bare_provider_with(secrets());
        let task = toolcall_task(spec(listener.url("/mcp"), McpShare::Attempt), Vec::new());
        let mut env = ready(&provider, &task).await;
        assert_eq!(shown(env.as_mut(), &[call("find", json!({}))]).await, "[find] found by [DOCS_TOKEN]");
        assert!(env.close().await.leftovers.is_empty());
        let ended = listener.asked().iter().any(|asked| asked.line.starts_with("DELETE"));
        assert_eq!(ended, !by_events, "a session is ended");
    }
}

#[tokio::test]
async fn shared_connection_loss_is_fault() {
    let listener = Listener::start(|asked| docs(asked, false)).await;
    let provider = bare_provider_with(secrets());
    let task = toolcall_task(spec(listener.url("/mcp"), McpShare::Run), Vec::new());
    let (mut one, mut other) = tokio::join!(ready(&provider, &task), ready(&provider, &task));
    assert_eq!(initialized(&listener), 1);
    assert!(one.close().await.leftovers.is_empty());
    let fault = other.step(&[call("find", json!({"crash": true}))], step_ctx(1)).await.unwrap_err();
    assert_eq!((fault.boundary, fault.code.as_str(), fault.retry), (Boundary::Env, "mcp-lost", Retry::Sound));
    other.close().await;
    let mut next = ready(&provider, &task).await;
    assert_eq!(shown(next.as_mut(), &[call("find", json!({}))]).await, "[find] found by [DOCS_TOKEN]");
    assert_eq!(initialized(&listener), 2, "connected anew");
    listener.stop().await;
    let fault = next.step(&[call("find", json!({}))], step_ctx(1)).await.unwrap_err();
    assert_eq!((fault.boundary, fault.code.as_str()), (Boundary::Env, "mcp-lost"));
    next.close().await;
    assert!(provider.shutdown().await.leftovers.is_empty());
}

/// More than the SDK has under way at once by itself.
const AT_ONCE: usize = 40;

#[tokio::test]
async fn calls_of_many_attempts_are_under_way_at_once() {
    let together = Arc::new(Barrier::new(AT_ONCE));
    let listener = Listener::start_in_time(move |asked| {
        let together = Arc::clone(&together);
        Box::pin(async move {
            if asked.body.contains("tools/call") {
                together.wait().await;
            }
            docs(&asked, false)
        })
    })
    .await;
    let provider = bare_provider_with(secrets());
    let task = toolcall_task(spec(listener.url("/mcp"), McpShare::Run), Vec::new());
    let mut envs = join_all((0..AT_ONCE).map(|_| ready(&provider, &task))).await;
    let calls = [call("find", json!({}))];
    for told in join_all(envs.iter_mut().map(|env| shown(env.as_mut(), &calls))).await {
        assert_eq!(told, "[find] found by [DOCS_TOKEN]");
    }
    assert_eq!(initialized(&listener), 1, "all of them over one connection");
}

fn initialized(listener: &Listener) -> usize {
    listener.asked().iter().filter(|asked| asked.body.contains("\"initialize\"")).count()
}

/// Events that come to nothing.
fn broken_events(how: &str) -> Vec<u8> {
    let events = |rest: &str| {
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n{rest}")
            .into_bytes()
    };
    match how {
        "cut" => events("content-length: 1000\r\n\r\nevent: message\ndata: {\"jsonrpc\""),
        "ended" => events("content-length: 8\r\n\r\n: wait\n\n"),
        "silent" => events("content-length: 0\r\n\r\n"),
        "large" => {
            let line = format!(": {}\n", "x".repeat(1 << 20)).repeat(17);
            events(&format!("content-length: {}\r\n\r\n{line}", line.len()))
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn e1_broken_events_affect_only_their_call() {
    for (how, said) in [
        ("cut", "the answer ended early"),
        ("ended", ""),
        ("silent", ""),
        ("large", "an answer has more than 16 MiB"),
    ] {
        let (arrived, mut arrivals) = mpsc::channel(1);
        let released = Arc::new(Semaphore::new(0));
        let of_server = Arc::clone(&released);
        let listener = Listener::start_in_time(move |asked| {
            let (arrived, released) = (arrived.clone(), Arc::clone(&of_server));
            Box::pin(async move {
                let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
                let arguments = &message["params"]["arguments"];
                if let Some(how) = arguments["break"].as_str() {
                    return broken_events(how);
                }
                if arguments["wait"] == json!(true) {
                    arrived.send(()).await.unwrap();
                    let _released = released.acquire().await.unwrap();
                }
                docs(&asked, true)
            })
        })
        .await;
        let provider = bare_provider_with(secrets());
        let task = toolcall_task(spec(listener.url("/mcp"), McpShare::Run), Vec::new());
        let (mut one, mut other) = (ready(&provider, &task).await, ready(&provider, &task).await);
        let waiting = [call("find", json!({"wait": true}))];
        let breaking = async {
            arrivals.recv().await.unwrap();
            let fault = one.step(&[call("find", json!({ "break": how }))], step_ctx(1)).await.unwrap_err();
            assert_eq!(
                (fault.boundary, fault.code.as_str(), fault.retry),
                (Boundary::Env, "mcp-lost", Retry::Sound)
            );
            assert!(fault.message.contains(said), "{how}: {fault}");
            released.add_permits(1);
        };
        let (told, ()) = tokio::join!(shown(other.as_mut(), &waiting), breaking);
        assert_eq!(told, "[find] found by [DOCS_TOKEN]", "{how}");
        assert_eq!(shown(other.as_mut(), &[call("find", json!({}))]).await, told, "{how}");
    }
}

/// A name, the server's answer, and the expected fault.
type Case = (&'static str, fn(&Asked) -> Vec<u8>, &'static str);

#[tokio::test]
async fn servers_that_do_not_serve_are_faults() {
    let cases: [Case; 4] = [
        ("refuses", |_| answer("401 Unauthorized", "", "who are you?"), "status 401: who are you?"),
        (
            "no server",
            |_| answer("200 OK", "content-type: text/html\r\n", "<html>"),
            "text/html is not a message",
        ),
        ("echoes", |asked| answer("500 Oops", "", &asked.head), "[DOCS_TOKEN]"),
        ("hangs up", |_| Vec::new(), "did not answer `initialize`"),
    ];
    for (name, site, said) in cases {
        let listener = Listener::start(site).await;
        let provider = bare_provider_with(secrets());
        let task = toolcall_task(spec(listener.url("/mcp"), McpShare::Attempt), Vec::new());
        let mut env = provider.lease(lease_request(&task)).await.unwrap();
        let fault = env.reset(step_ctx(0)).await.unwrap_err();
        assert_eq!((fault.boundary, fault.code.as_str()), (Boundary::Provider, "mcp-unreachable"), "{name}");
        assert!(fault.message.contains(said) && !fault.message.contains(KEY), "{name}: {}", fault.message);
    }
}

/// An unreadable answer is an error at once, in every form of response.
#[tokio::test]
async fn odd_http_answers_work_or_fail_at_once() {
    const HALF: &str = r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"cut \ud83d"}]},"error":null}"#;
    const BROKEN: &str = r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[}"#;
    const NAMELESS: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#;
    for by_events in [false, true] {
        let listener = Listener::start(move |asked| {
            let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
            let text = match message["params"]["arguments"]["answer"].as_str() {
                Some("half") => HALF,
                Some("broken") => BROKEN,
                Some("nameless") => NAMELESS,
                Some("list") => &format!("[{HALF}]"),
                _ => return docs(asked, by_events),
            };
            let text = text.replace("ID", &message["id"].to_string());
            if by_events {
                answer("200 OK", "content-type: text/event-stream\r\n", &format!("data: {text}\n\n"))
            } else {
                answer("200 OK", "content-type: application/json\r\n", &text)
            }
        })
        .await;
        let provider = bare_provider_with(secrets());
        let task = toolcall_task(spec(listener.url("/mcp"), McpShare::Attempt), Vec::new());
        let mut env = ready(&provider, &task).await;
        for (kind, expected) in [
            ("half", "cut \u{fffd}"),
            ("list", "cut \u{fffd}"),
            ("broken", "error: the server's answer cannot be read: "),
            ("nameless", "error: no"),
        ] {
            let told = shown(env.as_mut(), &[call("find", json!({"answer": kind}))]).await;
            assert!(told.starts_with(&format!("[find] {expected}")), "{kind} {by_events}: {told}");
        }
        assert!(env.close().await.leftovers.is_empty());
    }
}
