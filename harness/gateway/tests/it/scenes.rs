//! Single scenes of linking.

use std::time::Duration;

use clawrl_gateway::{Headers, LinkError, Reply, RequestId, SESSION_END_HEADER, SESSION_HEADER, SessionId};
use serde_json::{Value, json};

use crate::tracker::{Gateway, describe_all, user};

fn named(session: &str) -> Headers {
    [(SESSION_HEADER, session)].into_iter().collect()
}

fn epoch(number: &str) -> Headers {
    [("session_id", format!("s:{number}"))].into_iter().collect()
}

/// Alternating messages of a user and an assistant.
fn talk(texts: &[&str]) -> Value {
    let message = |(index, text): (usize, &&str)| json!({"role": if index % 2 == 0 { "user" } else { "assistant" }, "content": text});
    json!({ "messages": texts.iter().enumerate().map(message).collect::<Vec<_>>() })
}

/// Requests and answers `texts`, which alternate as in `talk`, turn by turn.
fn have(gateway: &mut Gateway, headers: &Headers, texts: &[&str]) {
    for end in (1..=texts.len()).step_by(2) {
        gateway.request(headers, &talk(&texts[..end]));
        if let Some(answer) = texts.get(end) {
            gateway.say(answer);
        }
    }
}

#[test]
fn edit_opens_a_sibling() {
    let mut gateway = Gateway::default();
    have(&mut gateway, &named("s"), &["hi", "ho", "what?", "that"]);
    let events = gateway.request(&named("s"), &talk(&["hi", "ho", "what then?"]));
    assert_eq!(events, ["turn 3 after 1: main", "turn 3 is a sibling of 2"]);
    gateway.say("this");
    let events = gateway.request(&named("s"), &talk(&["hey"]));
    assert_eq!(events, ["turn 4: main", "turn 4 is a sibling of 1"]);
    gateway.say("you");
    // Both branches continue.
    let events = gateway.request(&named("s"), &talk(&["hi", "ho", "what?", "that", "thanks"]));
    assert_eq!(events, ["turn 5 after 2: main", "next of 2 is in 5 by History: user at 4"]);
    gateway.say("fine");
    let events = gateway.request(&named("s"), &talk(&["hi", "ho", "what then?", "this", "no"]));
    assert_eq!(events, ["turn 6 after 3: main", "next of 3 is in 6 by History: user at 4"]);
}

#[test]
fn two_user_messages_replayed_as_one_still_link() {
    let mut gateway = Gateway::default();
    have(&mut gateway, &named("s"), &["hi", "ho"]);
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let mut messages =
        vec![said("user", "hi"), said("assistant", "ho"), said("user", "/bad too long"), said("user", "so?")];
    let events = gateway.request(&named("s"), &json!({ "messages": messages }));
    assert_eq!(events, ["turn 2 after 1: main", "next of 1 is in 2 by History: user at 2, user at 3"]);
    gateway.say("short");
    messages.truncate(2);
    messages.extend([said("user", "/bad too long\nso?"), said("assistant", "short"), said("user", "thanks")]);
    let events = gateway.request(&named("s"), &json!({ "messages": messages }));
    assert_eq!(events, ["turn 3 after 2: main", "next of 2 is in 3 by History: user at 4"]);
}

#[test]
fn words_after_a_heartbeat_are_its_next_state() {
    let mut gateway = Gateway::default();
    have(&mut gateway, &named("s"), &["hi", "ho"]);
    let heartbeat = "Follow the heartbeat monitor scratch context when provided.";
    let events = gateway.request(&named("s"), &talk(&["hi", "ho", heartbeat]));
    assert_eq!(events, ["turn 2 after 1: side, a heartbeat"]);
    gateway.say("Your mail is full.");
    let poll = "[Thu 2026-11-26 09:01 UTC] [OpenClaw heartbeat poll]";
    let thanks = "[Thu 2026-11-26 09:02 UTC] thanks";
    let replayed = ["hi", "ho", poll, "Your mail is full.", thanks];
    let events = gateway.request(&named("s"), &talk(&replayed));
    assert_eq!(events, ["turn 3 after 2: main", "next of 2 is in 3 by History: user at 4"]);
    gateway.say("fine");
    // An answer of another server is not text of the user, either.
    let events =
        gateway.request(&named("s"), &talk(&[&replayed[..], &["fine", poll, "so", thanks]].concat()));
    assert_eq!(events, ["turn 4 after 3: main", "next of 3 is in 4 by History: event at 6"]);
}

#[test]
fn clients_own_continuation_is_not_user_text() {
    let mut gateway = Gateway::default();
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let summary =
        "The conversation history before this point was compacted into the following summary:\n\nnothing";
    let note =
        "Continue the current task from the existing transcript, preserving completed work. Do not restart.";
    let mut messages = vec![said("user", summary), said("user", "hi"), said("user", note)];
    assert_eq!(gateway.request(&epoch("0"), &json!({ "messages": messages }))[1], "turn 1: main");
    gateway.say("ho");
    messages.pop();
    messages.extend([said("assistant", "ho"), said("user", "so?")]);
    let events = gateway.request(&epoch("0"), &json!({ "messages": messages }));
    assert_eq!(events, ["turn 2 after 1: main", "next of 1 is in 2 by History: user at 3"]);
}

#[test]
fn turn_with_two_answers_continues_from_one() {
    let mut gateway = Gateway::default();
    have(&mut gateway, &named("s"), &["hi", "ho"]);
    assert_eq!(gateway.request(&named("s"), &talk(&["hi"])), ["2 is turn 1 again: main"]);
    assert_eq!(gateway.say("hey"), ["turn 1 answered in 2"]);
    let events = gateway.request(&named("s"), &talk(&["hi", "hey", "so"]));
    assert_eq!(events, ["turn 3 after 1: main", "next of 1 is in 3 by History: user at 2"]);
    gateway.say("so");
    let events = gateway.request(&named("s"), &talk(&["hi", "ho", "so"]));
    assert_eq!(events, ["turn 4 after 1: main", "turn 4 is a sibling of 3"]);
}

#[test]
fn next_state_may_follow_any_choice() {
    let mut gateway = Gateway::default();
    gateway.request(&named("s"), &talk(&["hi"]));
    gateway.answer_all(&[Reply::text(""), Reply::text("ho"), Reply::text("hey")]);
    let events = gateway.request(&named("s"), &talk(&["hi", "hey", "so"]));
    assert_eq!(events[1], "next of 1 is in 2 by History: user at 2");
}

#[test]
fn changed_answer_is_not_linked() {
    let mut gateway = Gateway::default();
    have(&mut gateway, &named("s"), &["hi", "ho", "so", "what"]);
    // The person replaced the answer: their reply is not about ours.
    let events = gateway.request(&named("s"), &talk(&["hi", "ho", "so", "something", "fine"]));
    assert_eq!(events, ["turn 3 after 1: main"]);
}

#[test]
fn next_state_ends_before_a_foreign_answer() {
    let mut gateway = Gateway::default();
    have(&mut gateway, &named("s"), &["hi", "ho"]);
    let events = gateway.request(&named("s"), &talk(&["hi", "ho", "so", "of another model", "fine"]));
    assert_eq!(events, ["turn 2 after 1: main", "next of 1 is in 2 by History: user at 2"]);
}

#[test]
fn pruned_history_still_links() {
    let mut gateway = Gateway::default();
    have(&mut gateway, &named("s"), &["hi", "ho", "look", "there", "and now", "this"]);
    // The client has shortened an old message, and no call ids help.
    let events =
        gateway.request(&named("s"), &talk(&["hi", "ho", "[cut]", "there", "and now", "this", "thanks"]));
    assert_eq!(events, ["turn 4 after 3: main", "next of 3 is in 4 by Exchange: user at 6"]);
}

#[test]
fn ambiguous_matches_link_to_no_turn() {
    let mut gateway = Gateway::default();
    have(&mut gateway, &named("s"), &["hi", "ho", "go on", "ok", "go on", "ok"]);
    let events = gateway.request(&named("s"), &talk(&["hi", "hm", "go on", "ok", "thanks"]));
    assert_eq!(events, ["turn 4: main"]);
}

#[test]
fn call_ids_link_a_changed_history() {
    let mut gateway = Gateway::default();
    gateway.request(&named("s"), &talk(&["look"]));
    let call = |id: &str| clawrl_gateway::ReplyCall {
        id: id.to_owned(),
        name: "read".to_owned(),
        arguments: "{\"path\": \"a\"}".to_owned(),
    };
    gateway.answer(&Reply { text: String::new(), calls: vec![call("call_1"), call("call_2")] });
    let written = |id: &str| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": "{\"path\": \"a\", \"limit\": 9}"}});
    let body = json!({"messages": [
        {"role": "user", "content": "look"},
        {"role": "assistant", "tool_calls": [written("call_1"), written("call_2")]},
        {"role": "tool", "tool_call_id": "call_2", "content": "b"},
        {"role": "system", "content": "the disk is full"},
    ]});
    let events = gateway.request(&named("s"), &body);
    let next = "next of 1 is in 2 by CallIds: result of call 1 at 2, event at 3, 1 calls without result";
    assert_eq!(events, ["turn 2 after 1: main", next]);
}

#[test]
fn identical_foreign_answer_is_not_linked() {
    let mut gateway = Gateway::default();
    let call = clawrl_gateway::ReplyCall {
        id: "call_0".to_owned(),
        name: "read".to_owned(),
        arguments: "{}".to_owned(),
    };
    let written =
        json!([{"id": "call_0", "type": "function", "function": {"name": "read", "arguments": "{}"}}]);
    let answer = json!({"role": "assistant", "tool_calls": written});
    let result = json!({"role": "tool", "tool_call_id": "call_0", "content": "b"});
    let look = json!({"role": "user", "content": "look"});
    gateway.request(&named("s"), &json!({"messages": [look]}));
    gateway.answer(&Reply { text: String::new(), calls: vec![call] });
    // Another model answered in between, with the same call and id.
    let body = json!({"messages": [
        look, answer, result, {"role": "assistant", "content": "so"}, look, answer, result, {"role": "user", "content": "wrong"},
    ]});
    let events = gateway.request(&named("s"), &body);
    assert_eq!(events, ["turn 2 after 1: main", "next of 1 is in 2 by History: result of call 0 at 2"]);
}

#[test]
fn compaction_closes_the_epoch_not_the_session() {
    let mut gateway = Gateway::default();
    have(&mut gateway, &named("s"), &["hi", "ho", "so", "what"]);
    let events = gateway.request(&named("s"), &talk(&["a summary", "hm", "so", "what", "go on"]));
    assert_eq!(
        events,
        [
            "epoch 0 over in 3: HistoryReplaced",
            "turn 3 after 2 in epoch 1: main",
            "next of 2 is in 3 by Exchange: user at 4",
        ]
    );
    gateway.say("on");
    let summary =
        "The conversation history before this point was compacted into the following summary:\n\n<summary>";
    let events = gateway.request(
        &named("s"),
        &json!({"messages": [
            {"role": "user", "content": summary},
            {"role": "user", "content": "and on"},
        ]}),
    );
    assert_eq!(events, ["epoch 1 over in 4: HistoryReplaced", "turn 4 in epoch 2: main"]);
}

#[test]
fn epoch_number_of_the_client_only_rises() {
    let mut gateway = Gateway::default();
    have(&mut gateway, &epoch("0"), &["hi", "ho"]);
    let events = gateway.request(&epoch("2"), &talk(&["hi again"]));
    assert_eq!(events, ["epoch 0 over in 2: Number", "turn 2 in epoch 2: main"]);
    gateway.say("ho again");
    // A number decides alone, and a smaller one is a late request.
    let events = gateway.request(&epoch("2"), &talk(&["other", "history", "go on"]));
    assert_eq!(events, ["turn 3 in epoch 2: main"]);
    let events = gateway.request(&epoch("0"), &talk(&["hi", "ho", "so"]));
    assert_eq!(events, ["turn 4 after 1 in epoch 2: main", "next of 1 is in 4 by History: user at 2"]);
}

#[test]
fn side_turn_is_not_next_state_of_main_turn() {
    let mut gateway = Gateway::default();
    have(&mut gateway, &named("s"), &["hi", "ho"]);
    let events = gateway.request(&named("s"), &talk(&["hi", "ho", "[cron:1] look around"]));
    assert_eq!(events, ["turn 2 after 1: side, a scheduled job"]);
    gateway.say("nothing");
    let events = gateway.request(&named("s"), &talk(&["hi", "ho", "so"]));
    assert_eq!(events, ["turn 3 after 1: main", "next of 1 is in 3 by History: user at 2"]);
    // Nor is a turn of unknown kind.
    gateway.say("so");
    let mut body = talk(&["hi", "ho", "so", "so", "and"]);
    body["max_completion_tokens"] = json!(1);
    let events = gateway.request(&named("s"), &body);
    assert_eq!(events, ["turn 4 after 3: unknown, the answer is limited to one token"]);
    // Asked again in full, it is.
    let events = gateway.request(&named("s"), &talk(&["hi", "ho", "so", "so", "and"]));
    assert_eq!(events, ["5 is turn 4 again: main", "next of 3 is in 5 by History: user at 4"]);
}

#[test]
fn vanished_tools_make_a_turn_unknown() {
    let mut gateway = Gateway::default();
    let mut body = talk(&["hi"]);
    body["tools"] = json!([{"type": "function", "function": {"name": "read"}}]);
    gateway.request(&named("s"), &body);
    gateway.say("ho");
    let events = gateway.request(&named("s"), &talk(&["hi", "ho", "a title, please"]));
    assert_eq!(events, ["turn 2 after 1: unknown, no tools, in a session that has them"]);
}

#[test]
fn repeated_reaction_is_reported_once() {
    let mut gateway = Gateway::default();
    let line = "System: [2026-11-20 09:49:17 UTC] Telegram reaction added: 👎 by Bob on msg 44";
    let aside = format!("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\n{line}\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>");
    let with_aside = |texts: &[&str]| {
        let mut body = talk(texts);
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "user", "content": aside}));
        body
    };
    have(&mut gateway, &named("s"), &["hi", "ho"]);
    let events = gateway.request(&named("s"), &with_aside(&["hi", "ho", "so"]));
    assert_eq!(
        events,
        ["turn 2 after 1: main", "next of 1 is in 2 by History: user at 2", "👎 by Bob in 2 after 1"]
    );
    gateway.fail();
    assert_eq!(gateway.request(&named("s"), &with_aside(&["hi", "ho", "so"])), ["3 is turn 2 again: main"]);
    gateway.say("what");
    // Words of a user are not a reaction, and a context alone is not a next state.
    let events = gateway.request(&named("s"), &talk(&["hi", "ho", "so", "what", line]));
    assert_eq!(events, ["turn 4 after 2: main", "next of 2 is in 4 by History: event at 4"]);
}

#[test]
fn sessions_close_by_flag_request_and_idleness() {
    let mut gateway = Gateway::default();
    have(&mut gateway, &named("s"), &["hi", "ho"]);
    let last: Headers = [(SESSION_HEADER, "s"), (SESSION_END_HEADER, "true")].into_iter().collect();
    gateway.request(&last, &talk(&["hi", "ho", "bye"]));
    assert_eq!(gateway.fail(), ["turn 2 not answered in 2: Failed"], "what fails is tried again");
    gateway.request(&last, &talk(&["hi", "ho", "bye"]));
    assert_eq!(gateway.say("bye"), ["turn 2 answered in 3", "session 1 over: Flag, open [2]"]);
    // Nothing links to a closed session.
    let events = gateway.request(&named("s"), &talk(&["hi", "ho", "bye", "bye", "and yet"]));
    assert_eq!(events, ["session 4 by Extension", "turn 4: main"]);

    let closed = |gateway: &mut Gateway, name: &str, session: u64| {
        gateway.tracker.close(&user(name), SessionId(RequestId(session))).map(describe_all)
    };
    let unknown = Err(LinkError::UnknownSession(SessionId(RequestId(4))));
    assert_eq!(closed(&mut gateway, "bob", 4), unknown);
    assert_eq!(closed(&mut gateway, "ada", 4), Ok(vec![]), "an answer is waited for");
    assert_eq!(gateway.say("what"), ["turn 4 answered in 4", "session 4 over: Endpoint, open [4]"]);
    assert_eq!(closed(&mut gateway, "ada", 4), unknown);

    have(&mut gateway, &named("s"), &["hi", "ho"]);
    gateway.request(&named("t"), &talk(&["hi"]));
    gateway.at = Duration::from_secs(30 * 60 - 1);
    assert_eq!(describe_all(gateway.tracker.expire(gateway.at)), [""; 0]);
    gateway.at = Duration::from_secs(30 * 60);
    let events = gateway.tracker.expire(gateway.at);
    assert_eq!(describe_all(events), ["session 5 over: Idle, open [5]"], "the other waits for its answer");
    gateway.say("ho");
    gateway.at *= 2;
    let events = gateway.request(&named("t"), &talk(&["hi", "ho", "back again"]));
    assert_eq!(events, ["session 6 over: Idle, open [6]", "session 7 by Extension", "turn 7: main"]);
    assert_eq!(gateway.tracker.open_sessions(), 1);
}

#[test]
fn content_separates_conversations() {
    let mut gateway = Gateway::default();
    let none = Headers::default();
    have(&mut gateway, &none, &["hi", "ho"]);
    assert_eq!(gateway.request(&none, &talk(&["hello"])), ["session 2 by Content", "turn 2: main"]);
    gateway.say("ho");
    let events = gateway.request(&none, &talk(&["hi", "ho", "so"]));
    assert_eq!(events, ["turn 3 after 1: main", "next of 1 is in 3 by History: user at 2"]);
    gateway.say("so");
    // An unanswered question, and one more.
    gateway.request(&none, &talk(&["are you there?"]));
    gateway.fail();
    let twice = json!({"messages": [
        {"role": "user", "content": "are you there?"},
        {"role": "user", "content": "hello?"},
    ]});
    assert_eq!(gateway.request(&none, &twice), ["turn 5: main"]);
    // After an answer, the same history without it may be another conversation.
    let again = json!({"messages": [
        {"role": "user", "content": "hello"},
        {"role": "user", "content": "hello?"},
    ]});
    assert_eq!(gateway.request(&none, &again), ["session 6 by Content", "turn 6: main"]);
    // With another `user` field, it is another user's.
    let mut body = talk(&["hi", "ho", "so", "so", "fine"]);
    body["user"] = json!("u1");
    assert_eq!(gateway.request(&none, &body), ["session 7 by UserField", "turn 7: main"]);
}

#[test]
fn content_does_not_find_closed_sessions() {
    let mut gateway = Gateway::default();
    let none = Headers::default();
    have(&mut gateway, &none, &["hi", "ho"]);
    gateway.request(&none, &talk(&["hello"]));
    gateway.at = Duration::from_secs(30 * 60);
    // Only the other one is still pending.
    let events = gateway.request(&none, &talk(&["hi", "ho", "so"]));
    assert_eq!(events, ["session 1 over: Idle, open [1]", "session 3 by Content", "turn 3: main"]);
    assert_eq!(gateway.request(&none, &talk(&["hi"])), ["session 4 by Content", "turn 4: main"]);
}

#[test]
fn another_users_session_never_links() {
    let mut gateway = Gateway::default();
    let none = Headers::default();
    have(&mut gateway, &named("s"), &["hi", "ho"]);
    have(&mut gateway, &none, &["hey", "you"]);
    let events = gateway.request_of("bob", &named("s"), &talk(&["hi", "ho", "that was wrong"]));
    assert_eq!(events, ["session 3 by Extension", "turn 3: main"]);
    let events = gateway.request_of("bob", &none, &talk(&["hey", "you", "that was wrong"]));
    assert_eq!(events, ["session 4 by Content", "turn 4: main"]);
}

#[test]
fn contradictory_calls_are_refused() {
    let mut gateway = Gateway::default();
    have(&mut gateway, &named("s"), &["hi", "ho"]);
    let unknown = |request| Err(LinkError::UnknownRequest(RequestId(request)));
    assert_eq!(gateway.tracker.answered(RequestId(1), &[], Duration::ZERO), unknown(1));
    assert_eq!(gateway.tracker.failed(RequestId(7), Duration::ZERO), unknown(7));
}
