//! Tests that load the whole machine: a server killed in a loop, and hundreds of streams.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::ground::checkpoint;
use super::super::toolcalls::bells;
use super::{lines, policy, start, until};
use crate::served::body_of;

/// Concurrent streams.
const STREAMS: u64 = 256;

#[test]
fn nobody_is_refused_or_cut_while_versions_are_published() {
    let place = bells();
    let model = checkpoint(&place, "bells", 4).join("model");
    let chat = "format: 1\nobjective: combined\ntrain_every_turns: 16\nlearning_rate: 0.0001\n";
    let served = start(&place, &model, chat);
    let is_over = AtomicBool::new(false);
    let stream = |user: u64, number: u64| {
        let body = json!({
            "messages": [{"role": "user", "content": format!("Ring the bell, Ada. {user}")}], "user": format!("{user} {number}"),
            "stream": true, "max_tokens": 32, "seed": user ^ (number << 16),
        });
        let (status, events) = served.try_ask(&served.key, "POST", "/v1/chat/completions", &body).unwrap();
        assert_eq!(status, 200, "{events}");
        assert!(events.contains("data: [DONE]") && !events.contains("\"error\""), "{events}");
        let id = events.split("chatcmpl-").nth(1).unwrap();
        id[..id.find('"').unwrap()].parse::<u64>().unwrap()
    };
    let versions = std::thread::scope(|scope| {
        let streams: Vec<_> = (0..STREAMS)
            .map(|user| {
                let (is_over, stream) = (&is_over, &stream);
                let served = &served;
                scope.spawn(move || {
                    let mut answers = 0_u64;
                    while !is_over.load(Ordering::Relaxed) {
                        let turn = stream(user, answers);
                        answers += 1;
                        if user % 8 == 0 {
                            let said = json!({"turn": turn, "rating": if turn % 3 == 0 { "down" } else { "up" }, "text": "ring it"});
                            let (status, answer) = served.try_ask(&served.key, "POST", "/v1/feedback", &said).unwrap();
                            assert_eq!(status, 200, "{answer}");
                        }
                    }
                    answers
                })
            })
            .collect();
        let learned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until(&served, |now| now["version"].as_u64().unwrap() >= 6)
        }));
        is_over.store(true, Ordering::Relaxed);
        let answers: u64 = streams.into_iter().map(|stream| stream.join().unwrap()).sum();
        assert!(answers > STREAMS, "{answers}");
        learned.unwrap()["version"].clone()
    });
    assert!(versions.as_u64().unwrap() >= 6);
    let (status, metrics) = served.ask("GET", "/metrics", &Value::Null);
    assert_eq!(status, 200);
    let count = |name: &str| {
        let line = metrics
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")))
            .unwrap_or_else(|| panic!("{name}: {metrics}"));
        line.split(' ').nth(1).unwrap().parse::<f64>().unwrap()
    };
    assert_eq!((count("gateway_refused_count"), count("gateway_unrecorded_count")), (0.0, 0.0), "{metrics}");
}

mod slow {
    use super::*;

    #[test]
    fn whoever_is_killed_loses_no_answer_and_trains_none_twice() {
        let place = bells();
        let model = checkpoint(&place, "bells", 4).join("model");
        // Small enough that even hundreds of updates on a fast machine stay far within the drift limit.
        let chat = "format: 1\nobjective: binary\ntrain_every_turns: 2\nlearning_rate: 0.000005\n";
        let mut answered = BTreeSet::new();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for life in 0..20_u64 {
            let served = start(&place, &model, chat);
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let lives = Duration::from_millis(50 + (random >> 33) % 900);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(lives); // timer: how long it lives
                    served.dies();
                });
                let message = json!({"role": "user", "content": "Ring the bell, Ada."});
                for number in 0.. {
                    let body =
                        json!({"messages": [message], "user": format!("{life} {number}"), "max_tokens": 8});
                    let Ok((200, answer)) =
                        served.try_ask(&served.key, "POST", "/v1/chat/completions", &body)
                    else {
                        break;
                    };
                    let Ok(answer) = serde_json::from_str::<Value>(body_of(&answer)) else { break };
                    let turn: u64 =
                        answer["id"].as_str().unwrap().strip_prefix("chatcmpl-").unwrap().parse().unwrap();
                    assert!(answered.insert(turn), "number {turn} was used twice");
                    let thumb = json!({"turn": turn, "rating": if number % 2 == 0 { "up" } else { "down" }});
                    if served.try_ask(&served.key, "POST", "/v1/feedback", &thumb).is_err() {
                        break;
                    }
                }
            });
        }
        let served = start(&place, &model, chat);
        until(&served, |now| now["waiting"].as_u64().unwrap() < 2);
        // The end waits for the update in progress; too few samples are pending for another.
        served.ends();
        let served = start(&place, &model, chat);
        let (_, answer) = served.ask("GET", "/v1/export", &Value::Null);
        let export = lines(body_of(&answer));
        let turns: Vec<&Value> =
            export.iter().map(|line| &line["turn"]).filter(|turn| turn.is_object()).collect();
        let recorded: BTreeSet<u64> = turns
            .iter()
            .filter(|turn| turn["state"] == "answered")
            .map(|turn| turn["turn"].as_u64().unwrap())
            .collect();
        let lost: Vec<&u64> = answered.difference(&recorded).collect();
        assert!(lost.is_empty(), "answers that clients have and the record has not: {lost:?}");
        assert!(answered.len() > 20, "{}", answered.len());
        let updates = || turns.iter().flat_map(|turn| turn["updates"].as_array().unwrap());
        let mut trained = BTreeMap::new();
        for update in updates().filter(|update| update["outcome"] == "trained") {
            *trained.entry(update["sample"].as_u64().unwrap()).or_insert(0) += 1;
        }
        assert!(trained.values().all(|times| *times == 1), "{trained:?}");
        assert!(trained.len() > 10, "{}", trained.len());
        // The checkpoint's list equals the ledger's.
        let version = policy(&served)["version"].as_u64().unwrap();
        let folder = place.results().join(format!("chat/adapters/user-me/checkpoints/{version:06}"));
        let manifest = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_str(&manifest).unwrap();
        let progress: Value = serde_json::from_str(manifest["progress"].as_str().unwrap()).unwrap();
        let mut listed: Vec<u64> = serde_json::from_value(progress["samples"].clone()).unwrap();
        listed.sort_unstable();
        assert_eq!(listed, trained.into_keys().collect::<Vec<_>>());
    }
}
