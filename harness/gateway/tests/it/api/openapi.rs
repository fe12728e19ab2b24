//! Compares the OpenAPI document with the server's responses.

use clawrl_gateway::{NewReward, NewVote};
use serde_json::{Value, json};

use super::client::{request, send};
use super::scripted::{Scripted, said};
use super::test_server::{TestServer, user};
use super::test_trainer::{TestTrainer, learn};

/// Where `value` violates `schema`, as far as this document uses schemas: types, constants, properties, items and alternatives. A property
/// that a schema does not name is an error, unless it allows others.
fn check(document: &Value, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{place}: {what}: {value}"));
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(&reference[1..]).ok_or_else(|| format!("{place}: no {reference}"))?;
        return check(document, target, value, place);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let results: Vec<_> = any.iter().map(|one| check(document, one, value, place)).collect();
        return if results.iter().any(Result::is_ok) { Ok(()) } else { wrong(&format!("{results:?}")) };
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return wrong("another constant");
    }
    if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) {
        return wrong("not among the values");
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(some) => some.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    };
    let is = |name: &&str| match *name {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{place}: the type {other}"),
    };
    if !types.is_empty() && !types.iter().any(is) {
        return wrong(&format!("no {types:?}"));
    }
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.is_object() && value.get(required).is_none() {
            return wrong(&format!("no `{required}`"));
        }
    }
    let known = schema["properties"].as_object();
    let is_closed = known.is_some() && schema["additionalProperties"] != true;
    for (name, field) in value.as_object().into_iter().flatten() {
        match known.and_then(|known| known.get(name)) {
            Some(schema) => check(document, schema, field, &format!("{place}.{name}"))?,
            None if is_closed => return wrong(&format!("`{name}` is not in the schema")),
            None => {}
        }
    }
    let items = schema.get("items");
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        if let Some(items) = items {
            check(document, items, item, &format!("{place}[{at}]"))?;
        }
    }
    Ok(())
}

/// Sends a request, and checks request and response against the document. `path` is as in the document, followed by its parameters.
async fn hold(
    server: &TestServer,
    document: &Value,
    asked: (&str, &str, &[&str]),
    body: Option<Value>,
    expected: u16,
) -> Value {
    let (method, path, parameters) = asked;
    let operation = &document["paths"][path][method.to_lowercase()];
    assert!(operation.is_object(), "{method} {path}");
    let mut parts = path.split(['{', '}']);
    let mut filled = parts.next().unwrap().to_owned();
    for parameter in parameters {
        parts.next();
        filled = filled + parameter + parts.next().unwrap();
    }
    let schema = |content: &Value| content["application/json"]["schema"].clone();
    let sent = body.as_ref().map(Value::to_string).unwrap_or_default();
    if let Some(body) = body.filter(|_| expected == 200) {
        check(document, &schema(&operation["requestBody"]["content"]), &body, "the request").unwrap();
    }
    let headers = [("Authorization", "Bearer one"), ("Content-Type", "application/json")];
    let answer =
        send(server.address, &request(method, &filled, &server.host(), &headers, sent.as_bytes())).await;
    assert_eq!(answer.status, expected, "{method} {filled}");
    assert!(answer.header("x-request-id").is_some(), "{method} {filled}");
    let mut written = operation["responses"][expected.to_string()].clone();
    assert!(written.is_object(), "{method} {path}: {expected} is not in the document");
    if let Some(reference) = written["$ref"].as_str() {
        written = document.pointer(&reference[1..]).unwrap().clone();
    }
    let kind = answer.header("content-type").unwrap().split(';').next().unwrap().to_owned();
    assert!(written["content"][&kind].is_object(), "{method} {path}: {kind}");
    if kind != "application/json" {
        return Value::Null;
    }
    let came = answer.json().await;
    check(document, &schema(&written["content"]), &came, &format!("{method} {path}")).unwrap();
    came
}

#[tokio::test]
async fn requests_and_responses_match_the_document() {
    let answers = vec![Ok(said(&["<think>hm</think>", "One"])), Ok(said(&["Two"])), Ok(said(&["Three"]))];
    let trainer = TestTrainer::new(8);
    let server = TestServer::learning(Scripted::new(answers), trainer).await;
    // Without a key.
    let bare = send(server.address, &request("GET", "/openapi.json", &server.host(), &[], b"")).await;
    assert_eq!((bare.status, bare.header("content-type")), (200, Some("application/json")));
    let document = &bare.json().await;
    let elsewhere = send(server.address, &request("GET", "/openapi.json", "evil.example", &[], b"")).await;
    assert_eq!(elsewhere.status, 403);

    let get = async |path: &str, parameters: &[&str], status: u16| {
        hold(&server, document, ("GET", path, parameters), None, status).await
    };
    let post = async |path: &str, parameters: &[&str], body: Value, status: u16| {
        hold(&server, document, ("POST", path, parameters), Some(body), status).await
    };
    for path in ["/healthz", "/readyz", "/openapi.json", "/metrics", "/v1/models", "/v1/policy", "/v1/user"] {
        get(path, &[], 200).await;
    }
    get("/v1/models/{model}", &["policy"], 200).await;
    get("/v1/models/{model}", &["a/b"], 404).await;
    let tool = json!({"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}});
    let chat = json!({"messages": [{"role": "user", "content": "Hi"}], "logprobs": true, "top_logprobs": 1, "n": 2, "tools": [tool]});
    let answer = post("/v1/chat/completions", &[], chat, 200).await;
    post("/v1/chat/completions", &[], json!({"messages": [], "n": 0}), 400).await;
    post(
        "/v1/chat/completions",
        &[],
        json!({"messages": [{"role": "user", "content": "Hi"}], "model": "none"}),
        404,
    )
    .await;
    post("/v1/completions", &[], json!({"prompt": ["Once", [1, 2]], "logprobs": 2}), 200).await;
    let stream = json!({"messages": [{"role": "user", "content": "Ho"}], "stream": true, "stream_options": {"include_usage": true}});
    let events = server.post("/v1/chat/completions", &stream).await.events().await;
    assert!(events.len() > 3);
    for event in events.iter().filter(|event| *event != "[DONE]") {
        check(document, &json!({"$ref": "#/components/schemas/Chunk"}), event, "a chunk").unwrap();
    }
    let feedback = json!({"completion": answer["id"], "choice": 0, "rating": "down", "text": "Shorter."});
    post("/v1/feedback", &[], feedback, 200).await;
    post("/v1/feedback", &[], json!({"turn": 99, "rating": 1}), 404).await;
    post("/v1/feedback", &[], json!({"turn": 1}), 400).await;

    let turn = server.turns().await[0].line.turn;
    let vote = NewVote {
        turn,
        judge: "j".to_owned(),
        ballot: 0,
        score: Ok(1),
        hint: Some("so".to_owned()),
        raw: "1".to_owned(),
    };
    server.record.add_vote(vote).await.unwrap();
    server.record.set_reward(NewReward { turn, value: 0.5, source: "votes".to_owned() }).await.unwrap();
    learn(&server.record, (&user("ada"), turn), 7, &[("kl", 0.5)]).await;
    let shown = get("/v1/turns/{turn}", &["1"], 200).await;
    assert_eq!(shown["said"], "Hi");
    get("/v1/turns/{turn}", &["99"], 404).await;
    get("/v1/turns/{turn}", &["x"], 400).await;
    let sessions = get("/v1/sessions", &[], 200).await;
    assert_eq!(sessions["data"].as_array().unwrap().len(), 2);
    get("/v1/sessions/{session}", &["1"], 200).await;
    get("/v1/export", &[], 200).await;
    assert_eq!(get("/v1/policy", &[], 200).await["versions"][0]["version"], 8);
    for what in ["train", "pause", "resume"] {
        hold(&server, document, ("POST", &format!("/v1/policy/{what}"), &[]), None, 200).await;
    }
    post("/v1/policy/rollback", &[], json!({"version": 7}), 200).await;
    post("/v1/policy/rollback", &[], json!({"version": "last"}), 400).await;
    hold(&server, document, ("PUT", "/v1/user", &[]), Some(json!({"shares": true})), 200).await;
    hold(&server, document, ("POST", "/v1/sessions/{session}/close", &["1"]), None, 200).await;
    post("/v1/sessions/close", &[], json!({"session": 99}), 404).await;
    hold(&server, document, ("DELETE", "/v1/turns/{turn}", &["1"]), None, 200).await;
    get("/v1/turns/{turn}", &["1"], 200).await;
    hold(&server, document, ("DELETE", "/v1/sessions/{session}", &["1"]), None, 200).await;
    hold(&server, document, ("DELETE", "/v1/user", &[]), None, 200).await;
}

#[test]
fn schema_check_finds_errors() {
    let document = json!({"a": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}, "required": ["n"]}});
    let schema = json!({"$ref": "#/a"});
    let wrong = |value: Value| check(&document, &schema, &value, "it").is_err();
    assert!(!wrong(json!({"n": 1})) && !wrong(json!({"n": null})));
    assert!(
        wrong(json!({})) && wrong(json!({"n": 1.5})) && wrong(json!({"n": 1, "m": 1})) && wrong(json!([]))
    );
    let any = json!({"anyOf": [{"const": 1}, {"type": "array", "items": {"enum": ["a"]}}]});
    let is = |value: Value| check(&document, &any, &value, "it").is_ok();
    assert!(is(json!(1)) && is(json!(["a"])) && !is(json!(2)) && !is(json!(["b"])));
}
