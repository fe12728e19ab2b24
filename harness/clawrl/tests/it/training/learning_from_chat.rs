//! `clawrl serve` learns from feedback and rolls back on request.

mod heavy;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ground::checkpoint;
use super::toolcalls::bells;
use crate::place::{Place, Said};
use crate::served::{Served, body_of};

/// Deadline of an update that only a failure reaches.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(place: &Place, model: &Path, chat: &str) -> Served {
    std::fs::write(place.path().join("chat.yaml"), chat).unwrap();
    Served::start(place, model.to_str().unwrap(), |command| {
        command.args(["--learn", "chat.yaml"]);
    })
}

fn ask(served: &Served, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let (status, answer) = served.ask(method, path, body);
    let body = body_of(&answer);
    (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{status}: {body}")))
}

/// Sends one message in a new conversation. Returns the turn's number, text, and summed log-probability.
fn say(served: &Served, text: &str, seed: u64) -> (u64, String, f64) {
    static CONVERSATIONS: AtomicU64 = AtomicU64::new(0);
    let user = format!("conversation {}", CONVERSATIONS.fetch_add(1, Ordering::Relaxed));
    let (status, answer) = ask(
        served,
        "POST",
        "/v1/chat/completions",
        &json!({"messages": [{"role": "user", "content": text}], "user": user, "seed": seed, "max_tokens": 12, "logprobs": true}),
    );
    assert_eq!(status, 200, "{answer}");
    let turn = answer["id"].as_str().unwrap().strip_prefix("chatcmpl-").unwrap().parse().unwrap();
    let choice = &answer["choices"][0];
    let logprobs = choice["logprobs"]["content"].as_array().unwrap();
    let sum = logprobs.iter().map(|token| token["logprob"].as_f64().unwrap()).sum();
    (turn, choice["message"]["content"].as_str().unwrap_or_default().to_owned(), sum)
}

fn thumb(served: &Served, turn: u64, rating: &str) {
    let (status, _) = ask(served, "POST", "/v1/feedback", &json!({"turn": turn, "rating": rating}));
    assert_eq!(status, 200);
}

fn policy(served: &Served) -> Value {
    ask(served, "GET", "/v1/policy", &Value::Null).1
}

/// Polls until `is` holds. The deadline restarts with each update.
fn until(served: &Served, is: impl Fn(&Value) -> bool) -> Value {
    let mut began = Instant::now();
    let mut version = Value::Null;
    loop {
        let now = policy(served);
        if is(&now) {
            return now;
        }
        if now["version"] != version {
            (began, version) = (Instant::now(), now["version"].clone());
        }
        assert!(began.elapsed() < PATIENCE, "{now:#}");
        std::thread::sleep(Duration::from_millis(20)); // timer: between two questions to the server
    }
}

const BINARY: &str = "format: 1\nobjective: binary\ntrain_every_turns: 4\nlearning_rate: 0.002\n";

#[test]
fn what_is_liked_becomes_likelier_survives_and_is_gone_back_from() {
    let place = bells();
    let model = checkpoint(&place, "bells", 4).join("model");
    let served = start(&place, &model, BINARY);
    let before = policy(&served);
    assert_eq!(
        (&before["learning"], &before["version"], &before["adapter"]),
        (&json!(true), &json!(0), &json!("user-me"))
    );
    let (status, refused) = ask(&served, "POST", "/v1/policy/train", &json!({}));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("not_possible_now")));

    // The same message with the same seed: a liked answer becomes more likely.
    let (_, first, unlearned) = say(&served, "Ring the bell, Ada.", 3);
    for round in 1..=3 {
        for _ in 0..4 {
            let (turn, ..) = say(&served, "Ring the bell, Ada.", 3);
            thumb(&served, turn, "up");
        }
        let now = until(&served, |now| now["version"].as_u64().unwrap() >= round);
        assert_eq!((&now["waiting"], &now["paused"]), (&json!(0), &Value::Null), "{now:#}");
    }
    let (turn, again, learned) = say(&served, "Ring the bell, Ada.", 3);
    assert_eq!(again, first);
    assert!(learned > unlearned + 1e-3, "{unlearned} before, {learned} after");

    // The record names the version of each answer and the update of each turn.
    let (_, turn) = ask(&served, "GET", &format!("/v1/turns/{turn}"), &Value::Null);
    assert_eq!(turn["requests"][0]["answers"][0]["adapter"], "user-me");
    assert_eq!(turn["requests"][0]["answers"][0]["versions"], json!([[0, 3]]));
    let (_, sessions) = ask(&served, "GET", "/v1/sessions", &Value::Null);
    assert!(!sessions["data"].as_array().unwrap().is_empty());

    // Another process uses the learned version.
    served.ends();
    let served = start(&place, &model, BINARY);
    let now = policy(&served);
    assert_eq!(now["version"], 3, "{now:#}");
    assert_eq!(now["versions"].as_array().unwrap().len(), 3);
    let (_, _, resumed) = say(&served, "Ring the bell, Ada.", 3);
    assert!((resumed - learned).abs() < 1e-4, "{learned} before, {resumed} after");

    // One call rolls back, under a new number; an unknown version is refused.
    let (status, gone) = ask(&served, "POST", "/v1/policy/rollback", &json!({"version": 99}));
    assert_eq!((status, &gone["error"]["code"]), (404, &json!("version_not_found")));
    let (status, back) = ask(&served, "POST", "/v1/policy/rollback", &json!({"version": 0}));
    assert_eq!((status, &back["version"]), (200, &json!(4)), "{back:#}");
    let (_, _, old) = say(&served, "Ring the bell, Ada.", 3);
    assert!((old - unlearned).abs() < 1e-4, "{unlearned} before, {old} after");
    let accepted: Vec<&Value> =
        back["versions"].as_array().unwrap().iter().map(|version| &version["accepted"]).collect();
    assert_eq!(accepted, [true, false, false, false]);

    // Learning continues from there.
    let (turn, ..) = say(&served, "Ring the bell, Ada.", 3);
    thumb(&served, turn, "up");
    until(&served, |now| now["waiting"] == 1);
    let (status, trained) = ask(&served, "POST", "/v1/policy/train", &json!({}));
    assert_eq!((status, &trained["version"]), (200, &json!(5)), "{trained:#}");
}

#[test]
fn what_is_said_of_an_answer_is_said_of_no_other() {
    let place = bells();
    let model = checkpoint(&place, "bells", 4).join("model");
    let served = start(&place, &model, "format: 1\ntrain_every_turns: 100\n");
    let message = json!({"role": "user", "content": "Ring the bell, Ada."});
    let answer = |choices: u32| {
        let body =
            json!({"messages": [message], "user": format!("of {choices}"), "max_tokens": 12, "n": choices});
        let (status, answer) = ask(&served, "POST", "/v1/chat/completions", &body);
        assert_eq!(status, 200, "{answer}");
        answer["id"].as_str().unwrap().to_owned()
    };
    let feedback = |body: &Value| ask(&served, "POST", "/v1/feedback", body);
    // Samples of the turn with this answer, once `waiting` samples are pending.
    let samples = |id: &str, waiting: u64| {
        until(&served, |now| now["waiting"] == waiting);
        let turn = id.strip_prefix("chatcmpl-").unwrap();
        let (_, turn) = ask(&served, "GET", &format!("/v1/turns/{turn}"), &Value::Null);
        let said =
            |sample: &Value| json!([sample["request"], sample["choice"], sample["reward"], sample["hint"]]);
        turn["samples"].as_array().unwrap().iter().map(said).collect::<Vec<_>>()
    };
    let number = |id: &str| id.strip_prefix("chatcmpl-").unwrap().parse::<u64>().unwrap();

    let first = answer(1);
    let again = answer(1);
    assert_eq!(feedback(&json!({"completion": first, "rating": -1, "text": "ring it twice"})).0, 200);
    let bad = json!([number(&first), 0, -1.0, "ring it twice"]);
    assert_eq!(samples(&first, 1), std::slice::from_ref(&bad));
    assert_eq!(feedback(&json!({"completion": again, "rating": 1})).0, 200);
    assert_eq!(samples(&first, 2), [bad, json!([number(&again), 0, 1.0, null])]);

    let two = answer(2);
    let (status, refused) = feedback(&json!({"completion": two, "rating": -1}));
    assert_eq!((status, &refused["error"]["code"]), (400, &json!("refused")), "{refused}");
    assert_eq!(feedback(&json!({"completion": two, "choice": 1, "rating": -1})).0, 200);
    assert_eq!(samples(&two, 3), [json!([number(&two), 1, -1.0, null])]);

    // Paused learning ignores requests to train.
    assert_eq!(ask(&served, "POST", "/v1/policy/pause", &json!({})).0, 200);
    let (status, refused) = ask(&served, "POST", "/v1/policy/train", &json!({}));
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("not_possible_now")), "{refused}");
    assert_eq!(ask(&served, "POST", "/v1/policy/resume", &json!({})).0, 200);
    let (status, trained) = ask(&served, "POST", "/v1/policy/train", &json!({}));
    assert_eq!((status, &trained["version"]), (200, &json!(1)), "{trained:#}");
}

#[test]
fn hints_teach_and_who_shares_learns_together() {
    let place = bells();
    let model = checkpoint(&place, "bells", 4).join("model");
    let folder = place.results().join("chat");
    std::fs::create_dir_all(&folder).unwrap();
    let keys = folder.join("keys");
    std::fs::write(&keys, "me key-of-mine\nbob key-of-bob\neve key-of-eve\n").unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    let chat = "format: 1\nobjective: opd\ntrain_every_turns: 4\nlearning_rate: 0.002\n";
    let served = start(&place, &model, chat);
    let ask = |key: &str, method: &str, path: &str, body: &Value| {
        let (status, answer) = served.try_ask(key, method, path, body).unwrap();
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str::<Value>(body_of(&answer)).unwrap()
    };
    let say = |key: &str, conversation: &str| {
        let message = json!({"role": "user", "content": "Ring the bell, Ada."});
        let body = json!({"messages": [message], "user": conversation, "max_tokens": 12});
        let answer = ask(key, "POST", "/v1/chat/completions", &body);
        answer["id"].as_str().unwrap().strip_prefix("chatcmpl-").unwrap().parse::<u64>().unwrap()
    };
    let answered_by = |key: &str, turn: u64| {
        let turn = ask(key, "GET", &format!("/v1/turns/{turn}"), &Value::Null);
        turn["requests"][0]["answers"][0]["adapter"].clone()
    };
    let (me, bob, eve) = ("key-of-mine", "key-of-bob", "key-of-eve");
    for key in [me, bob] {
        ask(key, "GET", "/v1/policy", &Value::Null);
        say(key, "first");
        ask(key, "PUT", "/v1/user", &json!({"shares": true}));
    }
    for (key, conversation) in [(me, "1"), (bob, "1"), (me, "2"), (bob, "2")] {
        let turn = say(key, conversation);
        ask(key, "POST", "/v1/feedback", &json!({"turn": turn, "text": "ring it twice"}));
    }
    let shared = until(&served, |now| now["version"] == 1);
    assert_eq!(shared["adapter"], "shared");
    for key in [me, bob] {
        let turn = say(key, "3");
        assert_eq!(answered_by(key, turn), "shared");
    }
    // A user who does not share gets a private adapter and cannot access the shared one.
    let turn = say(eve, "1");
    assert_eq!(answered_by(eve, turn), Value::Null);
    assert_eq!(ask(eve, "GET", "/v1/policy", &Value::Null)["adapter"], "user-eve");
    let rolled = served.try_ask(eve, "POST", "/v1/policy/rollback", &json!({"version": 0})).unwrap();
    assert_eq!(rolled.0, 409, "{}", rolled.1);
    assert_eq!(policy(&served)["version"], 1);
    // No answer was rated: everything learned comes from hints.
    let of_bob: Vec<Value> = served
        .try_ask(bob, "GET", "/v1/export", &Value::Null)
        .map(|(_, answer)| lines(body_of(&answer)))
        .unwrap();
    let metrics: Vec<&Value> = of_bob
        .iter()
        .flat_map(|line| line["turn"]["updates"].as_array().into_iter().flatten())
        .map(|update| &update["metrics"])
        .collect();
    assert_eq!(metrics.len(), 2, "{of_bob:?}");
    assert_eq!((&metrics[0]["hinted"], &metrics[0]["samples"]), (&json!(4.0), &json!(4.0)));
    assert!(metrics[0].get("reward_mean").is_none(), "{:?}", metrics[0]);
    // After they stop sharing, they get the base policy again.
    ask(bob, "PUT", "/v1/user", &json!({"shares": false}));
    let began = Instant::now();
    loop {
        let turn = say(bob, &format!("later {:?}", began.elapsed()));
        if answered_by(bob, turn) == Value::Null {
            break;
        }
        assert!(began.elapsed() < PATIENCE);
    }
}

/// JSON lines of a chunked body.
fn lines(body: &str) -> Vec<Value> {
    body.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
}

#[test]
fn a_storm_of_bad_feedback_is_stopped_by_the_gate() {
    let place = bells();
    let model = checkpoint(&place, "bells", 4).join("model");
    let chat = "format: 1\nobjective: binary\ntrain_every_turns: 4\nlearning_rate: 0.05\n\
                gate: { max_kl: 0.05, max_reference_kl: 0.2, failures: 2 }\n";
    let served = start(&place, &model, chat);
    let (_, said, before) = say(&served, "Ring the bell, Ada.", 3);
    let mut turns = 0;
    let now = loop {
        let (turn, ..) = say(&served, "Ring the bell, Ada.", turns);
        thumb(&served, turn, "down");
        turns += 1;
        if turns % 4 == 0 {
            let now = until(&served, |now| now["waiting"] == 0 || now["paused"].is_string());
            if now["paused"].is_string() {
                break now;
            }
        }
        assert!(turns < 100, "nothing has stopped it: {:#}", policy(&served));
    };
    let why = now["paused"].as_str().unwrap();
    assert!(why.contains("2 versions in a row were rejected"), "{why}");
    assert!(why.contains("nats a token from the"), "{why}");
    // Every version in use was within both bounds because updates were scaled down: full steps exceed them.
    let (_, export) = served.ask("GET", "/v1/export", &Value::Null);
    let updates: Vec<Value> = lines(body_of(&export))
        .iter()
        .flat_map(|line| line["turn"]["updates"].as_array().cloned().unwrap_or_default())
        .collect();
    let figure = |update: &Value, name: &str| update["metrics"][name].as_f64().unwrap();
    assert!(updates.iter().any(|update| figure(update, "step_share") < 1.0), "{updates:?}");
    for update in updates.iter().filter(|update| update["state"] == "accepted") {
        let (kl, drift) = (figure(update, "kl"), figure(update, "drift"));
        assert!(kl <= 0.05 && drift <= 0.2, "{update:#}");
    }
    // One call restores the good version, and learning stays paused until a user resumes it.
    let (status, back) = ask(&served, "POST", "/v1/policy/rollback", &json!({"version": 0}));
    assert_eq!((status, back["paused"].is_string()), (200, true), "{back:#}");
    let (_, again, after) = say(&served, "Ring the bell, Ada.", 3);
    assert_eq!(again, said);
    assert!((after - before).abs() < 1e-5, "{before} before, {after} after");
    let waited = policy(&served)["waiting"].as_u64().unwrap();
    for seed in 0..4 {
        let (turn, ..) = say(&served, "Ring the bell, Ada.", 1000 + seed);
        thumb(&served, turn, "down");
    }
    let now = until(&served, |now| now["waiting"] == waited + 4);
    assert!(now["paused"].is_string());
    let (status, resumed) = ask(&served, "POST", "/v1/policy/resume", &Value::Null);
    assert_eq!((status, &resumed["paused"]), (200, &Value::Null));
    until(&served, |now| now["waiting"] == 0);
}

#[test]
fn time_begins_an_update_and_the_first_policy_is_not_left_far_behind() {
    let place = bells();
    let model = checkpoint(&place, "bells", 4).join("model");
    let chat = "format: 1\nobjective: binary\ntrain_every_turns: 100\ntrain_every_secs: 1\nlearning_rate: 0.002\n\
                gate: { max_reference_kl: 0.0000001 }\n";
    let served = start(&place, &model, chat);
    let (turn, ..) = say(&served, "Ring the bell, Ada.", 3);
    thumb(&served, turn, "up");
    let now = until(&served, |now| now["last"].is_string());
    let last = now["last"].as_str().unwrap();
    assert!(last.contains("from the policy that learning began with"), "{last}");
    assert_eq!((&now["version"], &now["waiting"], &now["paused"]), (&json!(0), &json!(0), &Value::Null));
    let (_, turn) = ask(&served, "GET", &format!("/v1/turns/{turn}"), &Value::Null);
    assert_eq!(
        (&turn["samples"][0]["state"], &turn["updates"][0]["state"]),
        (&json!("rejected"), &json!("rejected"))
    );
    assert_eq!(turn["updates"][0]["reasons"].as_array().unwrap().len(), 1, "{turn:#}");
}

#[test]
fn pausing_waits_and_what_a_version_that_was_given_up_has_said_is_not_learned() {
    let place = bells();
    let model = checkpoint(&place, "bells", 4).join("model");
    let served = start(&place, &model, BINARY);
    let post = |path: &str, body: &Value| {
        let (status, answer) = ask(&served, "POST", path, body);
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let say = |seed: u64| say(&served, "Ring the bell, Ada.", seed).0;
    for seed in 0..4 {
        thumb(&served, say(seed), "up");
    }
    until(&served, |now| now["version"] == 1);
    assert!(post("/v1/policy/pause", &Value::Null)["paused"].is_string());
    // Version 1 gives these answers; version 0 is restored before they are used.
    for seed in 4..8 {
        thumb(&served, say(seed), "up");
    }
    let waiting = until(&served, |now| now["waiting"] == 4);
    assert_eq!(waiting["version"], 1);
    assert_eq!(post("/v1/policy/rollback", &json!({"version": 0}))["version"], 2);
    post("/v1/policy/resume", &Value::Null);
    let now = until(&served, |now| {
        now["waiting"] == 0 && now["last"].as_str().unwrap().contains("nothing to learn")
    });
    assert_eq!(now["version"], 2, "{now:#}");
    let (_, turn) = ask(&served, "GET", "/v1/turns/5", &Value::Null);
    let sample = &turn["samples"][0];
    assert_eq!(
        (&sample["state"], &sample["reason"]),
        (&json!("dropped"), &json!("version 1, which was given up, has sampled it"))
    );
    let (status, again) = ask(&served, "POST", "/v1/policy/rollback", &json!({"version": 2}));
    assert_eq!((status, &again["error"]["code"]), (409, &json!("not_possible_now")));
}

#[test]
fn adapters_of_another_policy_answer_nobody() {
    let place = bells();
    let model = checkpoint(&place, "bells", 4).join("model");
    let served = start(&place, &model, BINARY);
    let (turn, ..) = say(&served, "Ring the bell, Ada.", 3);
    thumb(&served, turn, "up");
    until(&served, |now| now["waiting"] == 1);
    let (status, trained) = ask(&served, "POST", "/v1/policy/train", &Value::Null);
    assert_eq!((status, &trained["version"]), (200, &json!(1)), "{trained}");
    served.ends();
    let other = checkpoint(&place, "bells", 0).join("model");
    let said = place.clawrl(&["serve", other.to_str().unwrap(), "--listen", "127.0.0.1:0"]).ends(2);
    assert!(said.err.contains("user-me is of another policy") && said.err.contains("--data"), "{}", said.err);
}

#[test]
fn what_learning_began_with_is_gone_back_to_however_long_ago_that_was() {
    let place = bells();
    let model = checkpoint(&place, "bells", 4).join("model");
    let chat = "format: 1\nobjective: binary\ntrain_every_turns: 1\nlearning_rate: 0.0001\n";
    let served = start(&place, &model, chat);
    let (_, _, before) = say(&served, "Ring the bell, Ada.", 3);
    for version in 1..=34 {
        let (turn, ..) = say(&served, "Ring the bell, Ada.", 3);
        thumb(&served, turn, "up");
        until(&served, |now| now["version"] == version);
    }
    let (_, _, learned) = say(&served, "Ring the bell, Ada.", 3);
    assert!(learned > before + 1e-3, "{before} before, {learned} after");
    let (status, gone) = ask(&served, "POST", "/v1/policy/rollback", &json!({"version": 1}));
    assert_eq!((status, &gone["error"]["code"]), (404, &json!("version_not_found")));
    let (status, back) = ask(&served, "POST", "/v1/policy/rollback", &json!({"version": 0}));
    assert_eq!((status, &back["version"]), (200, &json!(35)), "{back}");
    let (_, _, after) = say(&served, "Ring the bell, Ada.", 3);
    assert!((after - before).abs() < 1e-4, "{before} before, {after} after");
    served.ends();
    let served = start(&place, &model, chat);
    assert_eq!(policy(&served)["version"], 35);
    let (turn, _, resumed) = say(&served, "Ring the bell, Ada.", 3);
    assert!((resumed - before).abs() < 1e-4, "{before} before, {resumed} after");
    thumb(&served, turn, "up");
    until(&served, |now| now["version"] == 36);
}

/// Runs `clawrl chat` with these lines.
fn chat(place: &Place, served: &Served, lines: &str) -> Said {
    let mut command = place.command(&["chat", "--base-url", &format!("http://{}/v1", served.address)]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    Said::of(&child.wait_with_output().unwrap())
}

#[test]
fn a_person_trains_and_goes_back_and_forth_and_the_server_tells_each_version() {
    let place = bells();
    let model = checkpoint(&place, "bells", 4).join("model");
    let served = start(&place, &model, BINARY);
    let nothing = chat(&place, &served, "/train\n/rollback\n/status\n").ends(4).err;
    for told in [
        "nothing was trained: no sample waits, since nothing was said yet of an answer",
        "version 0 answers, and there was none before it",
        "version   0, what learning began with\nlearning  binary, with 4 samples or after 600 s\nwaiting   0 samples of 4\nversions  0 (answers)\n",
    ] {
        assert!(nothing.contains(told), "{told}\n{nothing}");
    }
    chat(&place, &served, "Ring the bell, Ada.\n/bad\n").ends(0);
    until(&served, |now| now["waiting"] == 1);
    let told =
        chat(&place, &served, "/train\n/status\n/rollback\n/rollback 1\n/rollback\n/status\n").ends(0).err;
    for told_now in [
        "learning from 1 sample; Ctrl-C stops waiting for it, and it goes on\n",
        "version 1 answers now: made from version 0 and 1 turn; `/rollback` goes back\n",
        "version   1, made from version 0 and 1 turn\n",
        "versions  1 (answers), 0\n",
        "version 2 answers now: it is version 0 again; `/rollback 1` undoes this\n",
        "version 3 answers now: it is version 1 again; `/rollback 2` undoes this\n",
        "version 4 answers now: it is version 0 again; `/rollback 3` undoes this\n",
        "version   4, which is version 0 again\n",
        "versions  4 (answers), 3 (given up), 2 (given up), 1 (given up), 0\n",
    ] {
        assert!(told.contains(told_now), "{told_now}\n{told}");
    }
    let gone = chat(&place, &served, "/rollback 99\n").ends(4).err;
    assert!(gone.contains("nothing was changed: version 99 is not kept"), "{gone}");
    let said = served.ends().err;
    for told in [
        "version 1 answers `me` now: version 0 and what was said of 1 turn\n",
        "version 2 answers `me` now: it is version 0 again\n",
        "version 3 answers `me` now: it is version 1 again\n",
        // The tiny policy's context is too short for OpenClaw.
        "OpenClaw is not set up: it needs a model that reads 16000 tokens",
    ] {
        assert!(said.contains(told), "{told}\n{said}");
    }
}
