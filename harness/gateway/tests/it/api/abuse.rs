//! Hostile and broken clients.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{request, send};
use super::scripted::{Scripted, said};
use super::test_server::TestServer;

const CHAT: &str = "/v1/chat/completions";

async fn server() -> TestServer {
    TestServer::new(Scripted::new(vec![Ok(said(&["a"]))])).await
}

fn hi() -> String {
    json!({"messages": [{"role": "user", "content": "Hi"}]}).to_string()
}

#[tokio::test]
async fn requests_without_a_key_are_refused() {
    let server = server().await;
    let key = |value: &'static str| vec![("Authorization", value)];
    for headers in [vec![], key("Bearer three"), key("Basic one"), key("Bearer"), key("Bearer one\u{0}")] {
        for (method, path) in
            [("POST", CHAT), ("GET", "/v1/models"), ("GET", "/metrics"), ("GET", "/v1/nothing")]
        {
            let asked = request(method, path, &server.host(), &headers, hi().as_bytes());
            let refused = send(server.address, &asked).await;
            // An invalid header is refused before its key is checked.
            assert!([401, 400].contains(&refused.status), "{path} {headers:?}");
            if refused.status == 401 {
                assert_eq!(refused.json().await["error"]["code"], "invalid_api_key");
            }
        }
    }
    assert!(server.sessions().await.is_empty());
    for path in ["/healthz", "/readyz"] {
        assert_eq!(send(server.address, &request("GET", path, &server.host(), &[], b"")).await.status, 200);
    }
}

/// A client that cuts texts between UTF-16 units can continue its conversation.
#[tokio::test]
async fn lone_surrogate_is_answered_and_recorded() {
    let server = TestServer::new(Scripted::new(vec![Ok(said(&["One"])), Ok(said(&["Two"]))])).await;
    let headers = [("Authorization", "Bearer one"), ("Content-Type", "application/json")];
    let first = br#"{"messages": [{"role": "user", "content": "cut \ud83d here"}]}"#;
    let next = b"{\"messages\": [{\"role\": \"user\", \"content\": \"cut \xed\xa0\xbd here\"},
        {\"role\": \"assistant\", \"content\": \"One\"}, {\"role\": \"user\", \"content\": \"and on\"}]}";
    for body in [first.as_slice(), next] {
        let answer = send(server.address, &request("POST", CHAT, &server.host(), &headers, body)).await;
        assert_eq!(answer.status, 200);
    }
    let turns = server.turns().await;
    let body: Value = serde_json::from_str(turns[0].requests[0].body.as_deref().unwrap()).unwrap();
    assert_eq!(body["messages"][0]["content"], "cut \u{fffd} here");
    // The second request continues the first.
    assert_eq!(turns[0].next_state.as_ref().unwrap().request, turns[1].requests[0].request);
    assert_eq!(server.policy.asks.lock().unwrap()[0].body["messages"], body["messages"]);
}

#[tokio::test]
async fn every_response_has_a_request_id() {
    let server = server().await;
    let (none, key) = ([].as_slice(), [("Authorization", "Bearer one")].as_slice());
    let mut names = std::collections::BTreeSet::new();
    for (method, path, headers) in [
        ("POST", CHAT, key),
        ("POST", CHAT, none),
        ("GET", "/healthz", none),
        ("GET", "/nothing", key),
        ("DELETE", CHAT, key),
        ("GET", "/login", none),
    ] {
        let asked = request(method, path, &server.host(), headers, hi().as_bytes());
        let answer = send(server.address, &asked).await;
        let name = answer.header("x-request-id").unwrap_or_else(|| panic!("{method} {path}"));
        assert!(names.insert(name.to_owned()), "{name} twice");
    }
}

#[tokio::test]
async fn requests_of_other_sites_are_refused() {
    let server = server().await;
    let with = |host: &str, more: &[(&str, &str)]| {
        let headers: Vec<(&str, &str)> =
            [("Authorization", "Bearer one")].iter().chain(more).copied().collect();
        request("POST", CHAT, host, &headers, hi().as_bytes())
    };
    for (host, more) in
        [("evil.example", vec![]), (server.host().as_str(), vec![("Origin", "http://evil.example")])]
    {
        let refused = send(server.address, &with(host, &more)).await;
        assert_eq!(refused.status, 403, "{host}");
        assert_eq!(refused.json().await["error"]["type"], "permission_error");
    }
    let origin = format!("http://{}", server.host());
    assert_eq!(send(server.address, &with(&server.host(), &[("Origin", &origin)])).await.status, 200);
    assert_eq!(server.turns().await.len(), 1);
}

#[tokio::test]
async fn bodies_have_limits() {
    let server = server().await;
    let large = vec![b' '; 10 << 20];
    let refused = server.post_as("one", CHAT, &large).await;
    assert_eq!(refused.status, 413);
    assert_eq!(refused.json().await["error"]["code"], "body_too_large");
    // The same without an announced size.
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer one\r\nTransfer-Encoding: chunked\r\n\r\n",
        server.host()
    );
    let mut chunked = head.into_bytes();
    for _ in 0..10 {
        chunked.extend_from_slice(format!("{:x}\r\n", 1 << 20).as_bytes());
        chunked.extend(std::iter::repeat_n(b' ', 1 << 20));
        chunked.extend_from_slice(b"\r\n");
    }
    assert_eq!(send(server.address, &chunked).await.status, 413);
    for (body, code) in [
        (b"".as_slice(), "invalid_json"),
        (b"{\"messages\": \"\xff\xfe\"}", "invalid_json"),
        (b"[]", "invalid_json"),
        (b"{\"messages\": [", "invalid_json"),
        ("[".repeat(100_000).as_bytes(), "invalid_json"),
        (b"{}", "invalid_value"),
        (b"{\"messages\": []}", "invalid_value"),
        (b"{\"messages\": [{\"role\": \"user\", \"content\": \"\\ud800\"}]", "invalid_json"),
    ] {
        let refused = server.post_as("one", CHAT, body).await;
        assert_eq!(refused.status, 400);
        assert_eq!(refused.json().await["error"]["code"], code);
    }
}

#[tokio::test]
async fn slow_requests_end() {
    let server = TestServer::with(Scripted::new(vec![Ok(said(&["a"]))]), |settings| {
        settings.body_time = Duration::from_millis(30);
        settings.head_time = Duration::from_millis(30);
    });
    let server = server.await;
    let mut body = request("POST", CHAT, &server.host(), &[("Authorization", "Bearer one")], hi().as_bytes());
    body.truncate(body.len() - 5);
    let refused = send(server.address, &body).await;
    assert_eq!(refused.status, 408);
    assert_eq!(refused.json().await["error"]["code"], "body_timeout");
    let mut head = TcpStream::connect(server.address).await.unwrap();
    head.write_all(b"POST / HTTP/1.1\r\nHost: ").await.unwrap();
    let mut rest = Vec::new();
    // The server closes it; a waiting client would wait forever.
    let _ = head.read_to_end(&mut rest).await;
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
}

#[tokio::test]
async fn missing_endpoints_are_refused_by_name() {
    let server = server().await;
    for (path, code) in [
        ("/v1/embeddings", "endpoint_not_served"),
        ("/v1/responses", "endpoint_not_served"),
        ("/v1/images/generations", "endpoint_not_served"),
        ("/v1/nothing", "not_found"),
        ("/../etc/passwd", "not_found"),
    ] {
        let refused = server.post(path, &json!({})).await;
        assert_eq!(refused.status, 404, "{path}");
        assert_eq!(refused.json().await["error"]["code"], code, "{path}");
    }
    let refused = server.get(CHAT).await;
    assert_eq!(refused.status, 405);
    assert_eq!(refused.json().await["error"]["message"], "`/v1/chat/completions` does not support GET");
    let refused = server
        .post(CHAT, &json!({"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}))
        .await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json().await["error"]["param"], "tool_choice");
}

/// Equal words under the name of Ada's session open another session for Bob.
#[tokio::test]
async fn users_cannot_enter_others_sessions() {
    let server = server().await;
    let body = hi();
    for key in ["Bearer one", "Bearer two"] {
        let headers = [("Authorization", key), ("x-clawrl-session", "mine")];
        assert_eq!(
            send(server.address, &request("POST", CHAT, &server.host(), &headers, body.as_bytes()))
                .await
                .status,
            200
        );
    }
    let forged = json!({"messages": [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "terrible"}]});
    let headers = [("Authorization", "Bearer two"), ("x-clawrl-session", "mine")];
    send(server.address, &request("POST", CHAT, &server.host(), &headers, forged.to_string().as_bytes()))
        .await
        .json()
        .await;
    let turns = server.turns().await;
    assert_eq!((turns.len(), turns[0].next_state.as_ref()), (1, None), "nothing of Bob's is Ada's");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,8}".prop_map(Value::from),
        prop_oneof![Just("user"), Just("assistant"), Just("tool"), Just("auto"), Just("function")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let names = prop_oneof![
            "[a-z_]{1,8}",
            Just("role".to_owned()),
            Just("content".to_owned()),
            Just("type".to_owned()),
            Just("text".to_owned()),
            Just("tool_calls".to_owned()),
            Just("function".to_owned()),
            Just("name".to_owned()),
            Just("arguments".to_owned()),
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((names, inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_body() -> impl Strategy<Value = Value> {
    let fields = [
        "messages",
        "model",
        "stream",
        "stream_options",
        "n",
        "stop",
        "seed",
        "temperature",
        "top_p",
        "top_k",
        "max_tokens",
        "tools",
        "max_completion_tokens",
        "logprobs",
        "top_logprobs",
        "tool_choice",
        "response_format",
        "logit_bias",
        "user",
        "prompt",
    ];
    let field = (proptest::sample::select(fields.to_vec()), any_json());
    proptest::collection::vec(field, 0..6).prop_map(|fields| {
        let mut body = json!({"messages": [{"role": "user", "content": "Hi"}], "prompt": "Hi"});
        for (name, value) in fields {
            body[name] = value;
        }
        body
    })
}

/// Every request gets an answer or an error in OpenAI's format, and the server keeps running.
#[test]
fn strange_bodies_are_refused() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(server());
    let mut runner = TestRunner::new_with_rng(
        Config { cases: 400, failure_persistence: None, ..Config::default() },
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let paths = proptest::sample::select(vec![CHAT, "/v1/completions"]);
    let ran = runner.run(&(paths, any_body()), |(path, body)| {
        let (status, text) = runtime.block_on(async {
            let response = server.post(path, &body).await;
            (response.status, response.text().await)
        });
        if status == 200 {
            return Ok(());
        }
        prop_assert!((400..500).contains(&status) && status != 401, "{} {}", status, text);
        let error: Value = serde_json::from_str(&text).unwrap();
        prop_assert!(
            error["error"]["message"].is_string() && error["error"]["type"].is_string(),
            "{}",
            error
        );
        Ok(())
    });
    ran.unwrap();
    assert_eq!(runtime.block_on(server.get("/healthz")).status, 200);
}
