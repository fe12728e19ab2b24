//! Status of the trainer, and commands.

use std::sync::Arc;

use clawrl_gateway::{Command, TrainerError};
use serde_json::{Value, json};

use super::client::{Response, request, send};
use super::scripted::{Scripted, said};
use super::test_server::{TestServer, user};
use super::test_trainer::{TestTrainer, go_back, learn};

const COMMANDS: [&str; 3] = ["train", "pause", "resume"];

fn policy() -> Arc<Scripted> {
    Scripted::new(vec![Ok(said(&["One"]))])
}

async fn server(trainer: &Arc<TestTrainer>) -> TestServer {
    TestServer::learning(policy(), Arc::clone(trainer) as _).await
}

async fn post(server: &TestServer, key: &str, what: &str, body: &str) -> Response {
    server.post_as(key, &format!("/v1/policy/{what}"), body.as_bytes()).await
}

async fn get(server: &TestServer, key: &str) -> Value {
    let bearer = format!("Bearer {key}");
    let asked = request("GET", "/v1/policy", &server.host(), &[("Authorization", bearer.as_str())], b"");
    let answer = send(server.address, &asked).await;
    assert_eq!(answer.status, 200);
    answer.json().await
}

/// The status, and OpenAI's error.
async fn refused(answer: Response) -> (u16, String, String) {
    let status = answer.status;
    let error = answer.json().await["error"].take();
    let fields: Vec<&String> = error.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["code", "message", "param", "type"]);
    let word = |field: &str| error[field].as_str().unwrap_or("-").to_owned();
    (status, word("code"), word("message"))
}

#[tokio::test]
async fn status_is_that_of_the_users_adapter() {
    let trainer = TestTrainer::new(9);
    let server = server(&trainer).await;
    for words in ["Hi", "Ho"] {
        let ask = json!({"messages": [{"role": "user", "content": words}]});
        assert_eq!(server.post("/v1/chat/completions", &ask).await.status, 200);
    }
    let turns = server.turns().await;
    learn(&server.record, (&user("ada"), turns[0].line.turn), 7, &[]).await;
    learn(&server.record, (&user("ada"), turns[1].line.turn), 8, &[]).await;
    let view = get(&server, "one").await;
    let when = |view: &Value, at: usize| view["versions"][at]["at_ms"].clone();
    let version = |version: u64, parent: u64, at_ms: Value| json!({"version": version, "parent": parent, "branch": 0, "accepted": true, "turns": 1, "at_ms": at_ms});
    let expected = json!({
        "learning": true, "former": 8, "trouble": null, "adapter": "ada", "version": 9, "objective": "grpo", "paused": null,
        "waiting": 3, "every_turns": 8, "every_secs": 600, "last": null,
        "versions": [version(9, 8, when(&view, 0)), version(8, 7, when(&view, 1))],
    });
    assert_eq!(view, expected);
    assert!(when(&view, 0).as_i64() >= when(&view, 1).as_i64());
    assert_eq!(trainer.commands(), [], "a status query is not a command");
    go_back(&server.record, 8, 10).await;
    let view = get(&server, "one").await;
    let are_accepted: Vec<&Value> =
        view["versions"].as_array().unwrap().iter().map(|it| &it["accepted"]).collect();
    assert_eq!(are_accepted, [true, false, true]);
    assert_eq!(view["versions"][0]["branch"], 1);
    let turns: Vec<&Value> = view["versions"].as_array().unwrap().iter().map(|it| &it["turns"]).collect();
    assert_eq!(turns, [0, 1, 1], "what was given up was made from as many turns as before");
    trainer.change(|state| state.version = 10);
    assert_eq!(get(&server, "one").await["former"], 7, "version 10 has the weights of version 8");
    let his = get(&server, "two").await;
    assert_eq!((&his["adapter"], &his["versions"]), (&json!("bob"), &json!([])));
}

#[tokio::test]
async fn commands_apply_to_the_adapter_of_the_key() {
    let trainer = TestTrainer::new(7);
    let server = server(&trainer).await;
    let paused = post(&server, "one", "pause", "").await.json().await;
    assert_eq!((&paused["learning"], &paused["paused"]), (&json!(true), &json!("paused by a user")));
    assert_eq!(paused["adapter"], "ada");
    let resumed = post(&server, "two", "resume", "").await.json().await;
    assert_eq!((&resumed["adapter"], &resumed["paused"]), (&json!("bob"), &Value::Null));
    assert_eq!(post(&server, "one", "train", "").await.json().await["last"], "made version 8");
    let back = post(&server, "two", "rollback", r#"{"version": 3}"#).await.json().await;
    assert_eq!(
        (&back["adapter"], &back["version"], &back["versions"]),
        (&json!("bob"), &json!(8), &json!([]))
    );
    assert_eq!(post(&server, "one", "rollback", r#"{"version": 0}"#).await.status, 200);
    let of = |name: &str, command| (name.to_owned(), command);
    let expected = [
        of("ada", Command::Pause),
        of("bob", Command::Resume),
        of("ada", Command::Train),
        of("bob", Command::RollBack(3)),
        of("ada", Command::RollBack(0)),
    ];
    assert_eq!(trainer.commands(), expected);
}

#[tokio::test]
async fn invalid_commands_are_refused_and_not_passed_on() {
    let trainer = TestTrainer::new(7);
    let server = server(&trainer).await;
    for (body, code, field) in [
        ("", "invalid_json", None),
        ("7", "invalid_json", None),
        ("{\"version\"", "invalid_json", None),
        ("{}", "invalid_value", Some("version")),
        ("{\"version\": null}", "invalid_value", Some("version")),
        ("{\"version\": -1}", "invalid_value", Some("version")),
        ("{\"version\": 1.5}", "invalid_value", Some("version")),
        ("{\"version\": \"3\"}", "invalid_value", Some("version")),
        ("{\"version\": 3, \"adapter\": \"bob\"}", "invalid_value", Some("adapter")),
    ] {
        let answer = post(&server, "one", "rollback", body).await;
        assert_eq!(answer.status, 400, "{body}");
        let error = answer.json().await["error"].take();
        assert_eq!((&error["code"], error["param"].as_str()), (&json!(code), field), "{body}");
        assert_eq!(error["type"], "invalid_request_error", "{body}");
    }
    for what in COMMANDS.into_iter().chain(["rollback"]) {
        let (status, code, _) = refused(post(&server, "three", what, r#"{"version": 3}"#).await).await;
        assert_eq!((status, code.as_str()), (401, "invalid_api_key"), "{what}");
        let (status, code, _) = refused(server.get(&format!("/v1/policy/{what}")).await).await;
        assert_eq!((status, code.as_str()), (405, "method_not_allowed"), "{what}");
    }
    assert_eq!(refused(post(&server, "one", "forget", "").await).await.0, 404);
    assert_eq!(trainer.commands(), []);
}

#[tokio::test]
async fn refused_commands_have_a_reason() {
    let trainer = TestTrainer::new(7);
    let server = server(&trainer).await;
    let none = TrainerError::NoVersion(3, "the last 5 are".to_owned());
    let busy = TrainerError::Refused("an update is under way".to_owned());
    let ended = TrainerError::Ended("/secret/place: the disk is full".to_owned());
    for (error, status, code, message) in [
        (none, 404, "version_not_found", "version 3 is not kept: the last 5 are"),
        (busy, 409, "not_possible_now", "an update is under way"),
        (ended, 503, "learning_has_ended", "the trainer has stopped; see the server's log"),
    ] {
        trainer.fail(Some(error));
        let expected = (status, code.to_owned(), message.to_owned());
        assert_eq!(refused(server.get("/v1/policy").await).await, expected);
        for what in COMMANDS {
            assert_eq!(refused(post(&server, "one", what, "").await).await, expected, "{what}");
        }
        assert_eq!(refused(post(&server, "one", "rollback", r#"{"version": 3}"#).await).await, expected);
    }
    trainer.fail(None);
    assert_eq!(get(&server, "one").await["version"], 7, "nothing was done");
    // Chat continues, whatever the trainer's state.
    trainer.fail(Some(TrainerError::Ended("lost".to_owned())));
    let ask = json!({"messages": [{"role": "user", "content": "Hi"}]});
    assert_eq!(server.post("/v1/chat/completions", &ask).await.status, 200);
    assert_eq!(server.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn commands_without_trainer_are_refused() {
    let server = TestServer::new(policy()).await;
    let view = get(&server, "one").await;
    let why = "training is not enabled, or the policy cannot be trained";
    assert_eq!(view, json!({"learning": false, "why": why, "version": 7, "versions": [], "trouble": null}));
    for (what, body) in COMMANDS.map(|what| (what, "")).into_iter().chain([("rollback", r#"{"version": 3}"#)])
    {
        let (status, code, message) = refused(post(&server, "one", what, body).await).await;
        assert_eq!((status, code.as_str()), (409, "learning_is_off"), "{what}");
        assert!(message.starts_with("training is off"), "{message}");
    }
}
