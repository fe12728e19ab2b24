//! Events for requests captured from a real client.

use clawrl_gateway::{Headers, Reply, ReplyCall, TURN_HEADER};
use serde_json::Value;

use crate::tracker::{Gateway, parse};

struct Captured {
    headers: Headers,
    body: Value,
}

fn captured(name: &str) -> Vec<Captured> {
    let path = format!("{}/tests/data/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let headers: Vec<(String, String)> = serde_json::from_value(line["headers"].take()).unwrap();
        Captured { headers: headers.into_iter().collect(), body: line["body"].take() }
    };
    text.lines().map(line).collect()
}

/// Feeds the requests of `names` in order, each followed by `answer`; returns all events.
fn play(names: &[&str], mut answer: impl FnMut(&mut Gateway, usize) -> Vec<String>) -> Vec<String> {
    let mut gateway = Gateway::default();
    let mut events = Vec::new();
    let requests = names.iter().flat_map(|name| captured(name));
    for (index, request) in requests.enumerate() {
        events.extend(gateway.request(&request.headers, &request.body));
        events.extend(answer(&mut gateway, index));
    }
    events
}

/// Only the lines that begin with one of `beginnings`.
fn only(events: &[String], beginnings: &[&str]) -> Vec<String> {
    let is_wanted = |line: &&String| beginnings.iter().any(|beginning| line.starts_with(beginning));
    events.iter().filter(is_wanted).cloned().collect()
}

fn reply(text: &str, calls: &[(&str, &str, &str)]) -> Reply {
    let call = |&(id, name, arguments): &(&str, &str, &str)| ReplyCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    Reply { text: text.to_owned(), calls: calls.iter().map(call).collect() }
}

#[test]
fn four_turns_link_in_a_chain() {
    let events = play(&["req_a"], |gateway, index| gateway.say(&format!("reply {} OK ", index + 1)));
    assert_eq!(
        events,
        [
            "session 1 by RuntimeLine",
            "turn 1: main",
            "turn 1 answered in 1",
            "turn 2 after 1: main",
            "next of 1 is in 2 by History: user at 3",
            "turn 2 answered in 2",
            "turn 3 after 2: main",
            "next of 2 is in 3 by History: user at 5",
            "turn 3 answered in 3",
            "turn 4 after 3: main",
            "next of 3 is in 4 by History: user at 7",
            "turn 4 answered in 4",
        ]
    );
}

#[test]
fn parallel_results_are_one_next_state() {
    let path = "{ \"path\": \"/home/agent/ws/hello.txt\" }";
    let calls = reply(
        "<think>THINKING-1</think>Let me look. ",
        &[
            ("chatcmpl-tool-6f1c2a33-bd0e-4f12-a77b-9e1f1122", "read", path),
            ("call_second", "exec", "{\"command\":\"echo hi\"}"),
        ],
    );
    let events = play(&["req_a", "req_b"], |gateway, index| match index {
        4 => gateway.answer(&calls),
        5 => gateway.say("reply 2 OK "),
        other => gateway.say(&format!("reply {} OK ", other + 1)),
    });
    assert_eq!(
        only(&events, &["next", "session"]),
        [
            "session 1 by RuntimeLine",
            "next of 1 is in 2 by History: user at 3",
            "next of 2 is in 3 by History: user at 5",
            "next of 3 is in 4 by History: user at 7",
            "next of 4 is in 5 by History: user at 9",
            "next of 5 is in 6 by History: result of call 0 at 11, result of call 1 at 12",
            "next of 6 is in 7 by History: user at 14",
        ]
    );
    assert!(!events.iter().any(|line| line.contains("sibling") || line.contains("again")), "{events:?}");
}

#[test]
fn heartbeat_is_a_side_turn_and_not_a_next_state() {
    let expected = [
        "session 1 by Affinity",
        "turn 1: main",
        "turn 1 answered in 1",
        "turn 2 after 1: main",
        "next of 1 is in 2 by History: user at 3",
        "turn 2 answered in 2",
        "session 3 by Affinity",
        "turn 3: main",
        "turn 3 answered in 3",
        "turn 4 after 3: side, a heartbeat",
        "👍 by Alice in 4 after 3",
        "turn 4 answered in 4",
    ];
    let answer = |gateway: &mut Gateway, index: usize| gateway.say(&format!("reply {} OK ", index + 29));
    assert_eq!(play(&["req_gw1"], answer), expected);
}

#[test]
fn header_and_marks_agree() {
    let mut gateway = Gateway::default();
    for (index, Captured { body, .. }) in captured("req_gw1").into_iter().enumerate() {
        let kind = if index == 3 { "side" } else { "main" };
        let headers = [(TURN_HEADER, kind), ("x-clawrl-session", "s")].into_iter().collect::<Headers>();
        let events = gateway.request(&headers, &body);
        assert!(events.iter().any(|line| line.contains(&format!(": {kind}"))), "{events:?}");
        // The second conversation under the first one's name starts like a branch of it.
        assert_eq!(events.contains(&"turn 3 is a sibling of 1".to_owned()), index == 2, "{events:?}");
        gateway.say(&format!("reply {} OK ", index + 29));
    }
}

#[test]
fn retries_after_503_are_the_same_turn() {
    let events = play(&["case_f503x2", "case_f503x2b"], |gateway, index| match index {
        0 | 1 => gateway.fail(),
        2 => gateway.say("reply 9 OK "),
        _ => gateway.say("reply 21 OK "),
    });
    assert_eq!(
        events,
        [
            "session 1 by RuntimeLine",
            "turn 1: main",
            "turn 1 not answered in 1: Failed",
            "2 is turn 1 again: main",
            "turn 1 not answered in 2: Failed",
            "3 is turn 1 again: main",
            "turn 1 answered in 3",
            "turn 4 after 1: main",
            "next of 1 is in 4 by History: user at 3",
            "turn 4 answered in 4",
        ]
    );
}

#[test]
fn retry_after_429_is_the_same_turn() {
    let events = play(&["case_f429ra"], |gateway, index| match index {
        0 => gateway.fail(),
        _ => gateway.say("reply 11 OK "),
    });
    let expected = ["turn 1 not answered in 1: Failed", "2 is turn 1 again: main", "turn 1 answered in 2"];
    assert_eq!(events[2..], expected);
}

#[test]
fn retry_after_empty_answer_is_the_same_turn() {
    let events = play(&["case_empty", "case_emptyb"], |gateway, _| gateway.say(" "));
    assert_eq!(
        events,
        [
            "session 1 by RuntimeLine",
            "turn 1: main",
            "turn 1 not answered in 1: Empty",
            "2 is turn 1 again: main",
            "turn 1 not answered in 2: Empty",
            "turn 3: main",
            "turn 3 not answered in 3: Empty",
        ]
    );
}

#[test]
fn rewritten_call_ids_and_arguments_link() {
    let arguments =
        r#"{"path": "/home/agent/ws/hello.txt", "offset": 1.0, "limit": 1e1, "note": "caf\u00e9 <b>"}"#;
    let events = play(&["case_tcid"], |gateway, index| match index {
        0 => gateway.answer(&reply("", &[("call:abc-123.XYZ_0", "read", arguments)])),
        _ => gateway.say("done"),
    });
    let expected = "next of 1 is in 2 by History: result of call 0 at 3".to_owned();
    assert!(events.contains(&expected), "{events:?}");
}

#[test]
fn imported_conversation_links_from_its_first_answer() {
    let events = play(&["case_small2", "case_small3"], |gateway, index| {
        gateway.say(&format!("reply {} OK ", index + 39))
    });
    assert_eq!(
        events,
        [
            "session 1 by RuntimeLine",
            "turn 1: main",
            "turn 1 answered in 1",
            "turn 2 after 1: main",
            "next of 1 is in 2 by History: user at 5",
            "turn 2 answered in 2",
        ]
    );
}

#[test]
fn messages_have_readable_text() {
    let requests = captured("case_f503x2");
    let texts: Vec<String> =
        requests.iter().map(|request| parse(&request.body).messages()[1].text().to_owned()).collect();
    assert_eq!(texts, ["hello 503", "hello 503", "hello 503"]);
}
