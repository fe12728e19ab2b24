//! A user's access to their records.

use clawrl_core::FinishReason;
use clawrl_gateway::{Delta, Piece};
use serde_json::{Value, json};

use super::client::{Response, request, send};
use super::scripted::{Say, Scripted, said};
use super::test_server::TestServer;

async fn server() -> TestServer {
    TestServer::new(Scripted::new(vec![Ok(said(&["One"])), Ok(said(&["Two"]))])).await
}

async fn ask(server: &TestServer, method: &str, path: &str, key: &str, body: &Value) -> Response {
    let bearer = format!("Bearer {key}");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let asked = request(method, path, &server.host(), &[("Authorization", &bearer)], body.as_bytes());
    send(server.address, &asked).await
}

/// Two turns of a session that Ada's client calls `mine`.
async fn talk(server: &TestServer) -> (u64, u64) {
    let headers = [("Authorization", "Bearer one"), ("x-clawrl-session", "mine")];
    let first = json!({"messages": [{"role": "user", "content": "Hi"}]});
    let second = json!({"messages": [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "One"}, {"role": "user", "content": "and?"}]});
    for body in [first, second] {
        let asked =
            request("POST", "/v1/chat/completions", &server.host(), &headers, body.to_string().as_bytes());
        assert_eq!(send(server.address, &asked).await.status, 200);
    }
    let turns = server.turns().await;
    (turns[0].line.turn.0.0, turns[1].line.turn.0.0)
}

#[tokio::test]
async fn user_sees_only_own_sessions() {
    let server = server().await;
    let (first, second) = talk(&server).await;
    let sessions = ask(&server, "GET", "/v1/sessions?limit=10", "one", &Value::Null).await.json().await;
    let [session] = sessions["data"].as_array().unwrap().as_slice() else { panic!("{sessions}") };
    assert_eq!((&session["session"], &session["turn_count"]), (&json!(first), &json!(2)));
    let whole = ask(&server, "GET", &format!("/v1/sessions/{first}"), "one", &Value::Null).await.json().await;
    assert_eq!(whole["turns"].as_array().unwrap().len(), 2);
    let turn = ask(&server, "GET", &format!("/v1/turns/{first}"), "one", &Value::Null).await.json().await;
    assert_eq!((&turn["kind"], &turn["next_state"]["request"]), (&json!("main"), &json!(second)));
    let export = ask(&server, "GET", "/v1/export", "one", &Value::Null).await.text().await;
    assert_eq!(export.lines().count(), 3);
    assert!(export.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));

    assert_eq!(
        ask(&server, "GET", "/v1/sessions", "two", &Value::Null).await.json().await["data"],
        json!([])
    );
    assert_eq!(ask(&server, "GET", "/v1/export", "two", &Value::Null).await.text().await, "");
    let feedback = json!({"turn": first, "rating": -1});
    for (method, path, body) in [
        ("GET", format!("/v1/sessions/{first}"), Value::Null),
        ("GET", format!("/v1/turns/{first}"), Value::Null),
        ("POST", format!("/v1/sessions/{first}/close"), Value::Null),
        ("POST", "/v1/sessions/close".to_owned(), json!({"session": "mine"})),
        ("DELETE", format!("/v1/sessions/{first}"), Value::Null),
        ("DELETE", format!("/v1/turns/{first}"), Value::Null),
        ("POST", "/v1/feedback".to_owned(), feedback),
    ] {
        let refused = ask(&server, method, &path, "two", &body).await;
        assert_eq!(refused.status, 404, "{method} {path}");
        let error = refused.json().await;
        // The same error as for a missing entry.
        let mut body = body.clone();
        if body.get("turn").is_some() {
            body["turn"] = json!(999);
        }
        if body.get("session").is_some() {
            body["session"] = json!("nobody's");
        }
        let path = path.replace(&format!("s/{first}"), "s/999");
        let nothing = ask(&server, method, &path, "one", &body);
        assert_eq!(nothing.await.json().await, error, "{method} {path}");
    }
    let turn = &server.turns().await[0];
    assert!(turn.feedback.is_empty() && turn.line.deleted_ms.is_none());
    assert_eq!(server.sessions().await[0].closed_ms, None);
}

#[tokio::test]
async fn feedback_targets_turn_answer_or_latest() {
    let server = server().await;
    let (first, second) = talk(&server).await;
    for (about, thumb) in [
        (json!({"turn": first, "rating": "up"}), 1),
        (
            json!({"completion": format!("chatcmpl-{second}"), "rating": -1, "text": "Shorter.", "score": 0.25}),
            -1,
        ),
        (json!({"session": "mine", "rating": 0, "source": "extension"}), 0),
        (json!({"session": first, "rating": "down"}), -1),
    ] {
        let said = ask(&server, "POST", "/v1/feedback", "one", &about).await;
        assert_eq!(said.status, 200, "{about}");
        let turns = server.turns().await;
        let of = if about.get("turn").is_some() { &turns[0] } else { &turns[1] };
        assert_eq!(of.feedback.last().unwrap().thumb, Some(thumb), "{about}");
    }
    let turns = server.turns().await;
    let written = &turns[1].feedback[0];
    assert_eq!((written.text.as_deref(), written.score), (Some("Shorter."), Some(0.25)));
    for (wrong, field) in [
        (json!({"rating": 1}), "turn"),
        (json!({"turn": first, "session": "mine", "rating": 1}), "turn"),
        (json!({"turn": first}), "rating"),
        (json!({"turn": first, "rating": 2}), "rating"),
        (json!({"turn": first, "rating": "great"}), "rating"),
        (json!({"turn": "x", "rating": 1}), "turn"),
        (json!({"completion": "12", "rating": 1}), "completion"),
        (json!({"turn": first, "text": " "}), "text"),
        (json!({"turn": first, "text": "a".repeat((32 << 10) + 1)}), "text"),
        (json!({"turn": first, "score": "high"}), "score"),
        (json!({"turn": first, "rating": 1, "source": "me"}), "source"),
        (json!({"turn": first, "rating": 1, "choice": -1}), "choice"),
        (json!({"turn": first, "raiting": 1}), "raiting"),
    ] {
        let refused = ask(&server, "POST", "/v1/feedback", "one", &wrong).await;
        assert_eq!(refused.status, 400, "{wrong}");
        assert_eq!(refused.json().await["error"]["param"], field, "{wrong}");
    }
}

#[tokio::test]
async fn sessions_are_closed_by_number_and_by_name() {
    let server = server().await;
    let (first, _) = talk(&server).await;
    let closed = ask(&server, "POST", "/v1/sessions/close", "one", &json!({"session": "mine"})).await;
    assert_eq!(closed.json().await, json!({"session": first, "closed": true}));
    assert_eq!(server.sessions().await[0].why.as_deref(), Some("endpoint"));
    let again = ask(&server, "POST", &format!("/v1/sessions/{first}/close"), "one", &Value::Null).await;
    assert_eq!(again.status, 404);
    let wrong = ask(&server, "POST", "/v1/sessions/close", "one", &json!({})).await;
    assert_eq!(wrong.json().await["error"]["param"], "session");
    for wrong in ["/v1/sessions?limit=0", "/v1/sessions?limit=x", "/v1/sessions?since=3", "/v1/sessions/x"] {
        assert_eq!(ask(&server, "GET", wrong, "one", &Value::Null).await.status, 400, "{wrong}");
    }
}

/// A turn that is deleted while it is answered gets its answer and is not recorded, and recording keeps working.
#[tokio::test]
async fn turn_deleted_during_its_answer_is_not_recorded() {
    let says = vec![Say::Token("One".to_owned()), Say::Gate, Say::End(FinishReason::Stop)];
    let server = TestServer::new(Scripted::new(vec![Ok(says)])).await;
    let body = json!({"stream": true, "messages": [{"role": "user", "content": "Hi"}]});
    let mut answer = server.post("/v1/chat/completions", &body).await;
    answer.event().await.unwrap();
    ask(&server, "DELETE", "/v1/user", "one", &Value::Null).await.json().await;
    server.policy.gate.add_permits(1);
    assert_eq!(answer.events().await.last(), Some(&json!("[DONE]")));
    assert_eq!(server.get("/readyz").await.status, 200);
    let turn = &server.turns().await[0];
    assert!(turn.line.deleted_ms.is_some() && turn.requests.iter().all(|request| request.answers.is_empty()));
}

#[tokio::test]
async fn deleted_content_is_gone() {
    let server = server().await;
    let (_, second) = talk(&server).await;
    let deleted =
        ask(&server, "DELETE", &format!("/v1/turns/{second}"), "one", &Value::Null).await.json().await;
    assert_eq!(
        (&deleted["deleted"]["turns"], &deleted["deleted"]["trained_versions"]),
        (&json!(1), &json!([]))
    );
    let turn = ask(&server, "GET", &format!("/v1/turns/{second}"), "one", &Value::Null).await.json().await;
    assert!(turn["deleted_ms"].is_number() && !turn.to_string().contains("and?"), "{turn}");
    let shares = ask(&server, "PUT", "/v1/user", "one", &json!({"shares": true})).await.json().await;
    assert_eq!(shares["shares"], true);
    assert_eq!(ask(&server, "PUT", "/v1/user", "one", &json!({"shares": 1})).await.status, 400);
    let unseen = ask(&server, "GET", "/v1/user", "two", &Value::Null).await.json().await;
    assert_eq!(unseen, json!({"user": "bob", "created_ms": null, "shares": false, "shares_ms": null}));
    assert_eq!(ask(&server, "GET", "/v1/user", "one", &Value::Null).await.json().await["user"], "ada");
    let all = ask(&server, "DELETE", "/v1/user", "one", &Value::Null).await.json().await;
    assert_eq!(all["deleted"]["turns"], 1);
    assert!(!ask(&server, "GET", "/v1/export", "one", &Value::Null).await.text().await.contains("Hi"));
}

/// Pieces that an upstream server has parsed, with token ids or without.
#[tokio::test]
async fn upstream_answer_with_token_ids_is_exact() {
    let delta = |text: &str| Say::Piece(Piece::Delta(Delta { text: text.to_owned(), ..Delta::default() }));
    let call = Delta { calls: vec![("ls".to_owned(), "{}".to_owned())], ..Delta::default() };
    let sampled = Say::Piece(Piece::Sampled(vec![(5, -0.5), (6, -0.25)]));
    let exact = vec![delta("One"), sampled, Say::Piece(Piece::Delta(call)), Say::End(FinishReason::Stop)];
    let server =
        TestServer::new(Scripted::new(vec![Ok(vec![delta("Two"), Say::End(FinishReason::Stop)]), Ok(exact)]))
            .await;
    for (content, stream) in [("a", false), ("b", true)] {
        let body = json!({"messages": [{"role": "user", "content": content}], "stream": stream, "tools": [{"type": "function", "function": {"name": "ls"}}]});
        let answer = server.post("/v1/chat/completions", &body).await;
        assert_eq!(answer.status, 200);
        let said = answer.text().await;
        assert_eq!(said.contains("\"tool_calls\""), stream, "{said}");
    }
    let turns = server.turns().await;
    let answers = turns.iter().map(|turn| &turn.requests[0].answers[0]);
    let exact: Vec<_> = answers.map(|answer| (answer.exact, answer.sampled_ids.as_slice())).collect();
    assert_eq!(exact, [(false, [].as_slice()), (true, [5, 6].as_slice())]);
    let why = turns[0].requests[0].answers[0].inexact.as_deref();
    assert_eq!(why, Some("the upstream server returns no token ids"));
}
