//! Messages from a pipe and from arguments.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::house::{House, KEY};

fn lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_line_is_a_message_and_replies_stand_alone() {
    let house = House::new();
    let said = house.chat(&[], "hi there\n\nand now?").ends(0);
    assert_eq!(said.out, "You said hi there after 0\nYou said and now? after 2\n");
    assert_eq!(said.err, "");
    assert_eq!(house.asked()[1], ["hi there", "You said hi there after 0", "and now?"]);
    // The turns are linked and the session is closed.
    let session = &house.sessions()[0];
    assert_eq!((session.evidence.as_str(), session.why.as_deref()), ("extension", Some("endpoint")));
    let turns = house.only_turns();
    assert_eq!(turns.len(), 2);
    assert_eq!(turns[1].line.parent, Some(turns[0].line.turn));
    assert!(turns[0].next_state.is_some() && turns.iter().all(|turn| turn.line.kind == "main"), "{turns:?}");
}

#[test]
fn a_line_of_json_for_each_reply() {
    let house = House::new();
    let said = house.chat(&["--json", "--session", "mine"], "think\ncall\nbusy\n").ends(4);
    let lines = lines(&said.out);
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3});
    let first = json!({
        "id": lines[0]["id"], "model": "policy", "session": "mine", "text": "thought", "reasoning": "let me see",
        "finish_reason": "stop", "usage": usage,
    });
    assert_eq!(lines[0], first);
    assert!(lines[0]["id"].as_str().unwrap().starts_with("chatcmpl-"), "{lines:?}");
    let call = &lines[1]["tool_calls"][0]["function"];
    assert_eq!(
        (&lines[1]["text"], call),
        (&json!("I look."), &json!({"name": "look", "arguments": "{\"at\": 1}"}))
    );
    assert_eq!(lines[1]["finish_reason"], "tool_calls");
    assert!(lines[2]["error"]["message"].as_str().unwrap().contains("the model rests"), "{lines:?}");
    assert_eq!(lines.len(), 3);
}

#[test]
fn one_message_is_asked_and_standard_input_is_not_read() {
    let house = House::new();
    let said = house.chat(&["--message", "/good? // hm"], "not this\n").ends(0);
    assert_eq!(said.out, "You said /good? // hm after 0\n");
    assert_eq!(house.asked().len(), 1);
    assert_eq!(house.sessions()[0].why.as_deref(), Some("endpoint"));
    house.chat(&["--message", "busy"], "").ends(4);
}

#[test]
fn what_a_person_sets() {
    let house = House::new();
    let said = house.chat(&["--system", "Be kind.", "--model", "other", "--message", "system"], "").ends(0);
    assert_eq!(said.out, "Be kind.\n");
    assert_eq!(house.policy.asked.lock().unwrap()[0].0, "other");
    // These are user messages in spite of the prompt.
    house.chat(&["--system", "Summarise conversations.", "--session", "sums", "--message", "hi"], "").ends(0);
    assert_eq!(house.turns(&house.sessions()[1])[0].line.kind, "main");
    let said = house.chat(&["--model", "gone"], "hi\n").ends(2);
    assert!(
        said.err.contains("there is no model `gone`") && said.err.contains("`policy`, `other`"),
        "{}",
        said.err
    );
}

#[test]
fn calls_are_shown_and_the_conversation_goes_on() {
    let house = House::new();
    let said = house.chat(&[], "call\nhi\n").ends(0);
    assert_eq!(said.out, "I look.\n[call] look {\"at\": 1}\nYou said hi after 3\n");
    assert!(said.err.contains("the call was not run"), "{}", said.err);
    let (_, messages) = house.policy.asked.lock().unwrap()[1].clone();
    assert_eq!(messages[1]["tool_calls"][0]["id"], messages[2]["tool_call_id"]);
    assert_eq!(house.only_turns()[1].line.parent, Some(house.only_turns()[0].line.turn));
}

#[test]
fn an_answer_that_fails_changes_nothing_and_the_next_message_is_asked() {
    let house = House::new();
    let said = house.chat(&[], "one\nbusy\nlong\nbreak\nshort\ntwo\n").ends(4);
    assert_eq!(said.out, "You said one after 0\nhalf\ncut\nYou said two after 4\n");
    for told in [
        "the server cannot answer now (503: the model rests); ask again in 7 s, with /retry",
        "the conversation has become too long for the model (9 of 8 tokens); /new begins another",
        "the server broke the answer off: the model rests; /retry asks again",
        "the answer was cut by the server's limit of tokens",
    ] {
        assert!(said.err.contains(told), "{told}\n{}", said.err);
    }
    let last = house.asked().pop().unwrap();
    assert_eq!(last, ["one", "You said one after 0", "short", "cut", "two"]);
}

#[test]
fn what_a_model_says_does_nothing_to_a_terminal_and_the_key_is_struck_out() {
    let house = House::new();
    let said =
        house.chat(&[], &format!("hostile\nrepeat <{KEY}>\nrepeat clawrl-key\n/save chat.json\n")).ends(0);
    assert_eq!(said.out, "a\\u{1b}[2Jb\\u{202e}c\n<[key]>\nclawrl-key\n");
    let saved = std::fs::read_to_string(house.place.path().join("chat.json")).unwrap();
    assert!(saved.contains("[key]") && !saved.contains(KEY), "{saved}");
    let said = house.chat(&["--json"], &format!("repeat <{KEY}>\n")).ends(0);
    assert_eq!(lines(&said.out)[0]["text"], "<[key]>");
    // The client returns the server's text unchanged, so that turns are linked.
    assert_eq!(house.asked()[2][3], format!("<{KEY}>"));
}

#[test]
fn reasoning_is_no_reply() {
    let house = House::new();
    assert_eq!(house.chat(&[], "think\n").ends(0).out, "thought\n");
}

#[test]
fn replies_come_as_they_are_said() {
    let house = House::new();
    let mut command = house.command(&["--message", "wait"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut begun = [0; 3];
    out.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"Hel");
    // The answer continues only now.
    house.policy.gate.add_permits(1);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("lo\n", Some(0)));
}

#[test]
fn a_signal_cuts_the_answer_and_ends() {
    for signal in [Signal::INT, Signal::TERM] {
        let house = House::new();
        let mut command = house.command(&[]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"wait\nnot this\n").unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut begun = [0; 3];
        out.read_exact(&mut begun).unwrap();
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(5));
        house.one_dropped();
        house.only_session_ends();
        assert_eq!(house.asked().len(), 1);
        drop(stdin);
    }
}

#[test]
fn who_reads_no_more_is_asked_for_no_more() {
    let house = House::new();
    let mut command = house.command(&[]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    stdin.write_all(b"one\n").unwrap();
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "You said one after 0\n");
    drop(out);
    stdin.write_all(b"two\nthree\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(house.asked().len(), 2);
}
