//! Commands and their effect at the server.

use std::fs;

use serde_json::{Value, json};

use super::foreign::{Foreign, models};
use super::house::{self, House};

#[test]
fn feedback_arrives_and_is_never_said_to_the_model() {
    let house = House::new();
    let said = house
        .chat(&[], "one\n/good\ntwo\n/bad too long\nthree\n/fix It is three.\n/bad\n/retry\n/good\nfour\n");
    let said = said.ends(0);
    for told in ["noted as good\n", "noted as bad, with your words\n", "noted as bad\n"] {
        assert!(said.err.contains(told), "{told}\n{}", said.err);
    }
    let turns = house.only_turns();
    let given: Vec<Vec<(Option<i64>, Option<String>)>> = turns
        .iter()
        .map(|turn| turn.feedback.iter().map(|given| (given.thumb, given.text.clone())).collect())
        .collect();
    let text = |text: &str| Some(text.to_owned());
    let third = vec![
        (Some(-1), text("The answer should have been: It is three.")),
        (Some(-1), None),
        (Some(1), None),
    ];
    assert_eq!(given, [vec![(Some(1), None)], vec![(Some(-1), text("too long"))], third, vec![]]);
    // The third message was sent twice, in one turn.
    assert_eq!(turns.len(), 4);
    assert_eq!(turns[2].requests.len(), 2);
    assert!(turns[2].requests[1].is_retry);
    let all = house.asked().concat().join("\n");
    assert!(!all.contains("/good") && !all.contains("too long") && !all.contains("/bad"), "{all}");
    let asked = house.asked();
    assert_eq!(asked[2], asked[3], "without the answer");
    assert_eq!(asked[4].len(), 7);
}

#[test]
fn a_message_that_failed_is_asked_again() {
    let house = House::new();
    let said = house.chat(&[], "/retry\none\nbusy\n/retry\n").ends(4);
    assert!(said.err.contains("there is no message yet to ask again"), "{}", said.err);
    let asked = house.asked();
    assert_eq!(asked[1], ["one", "You said one after 0", "busy"]);
    assert_eq!(asked[1], asked[2]);
}

#[test]
fn a_new_conversation_has_a_session_of_its_own() {
    let house = House::new();
    let said = house.chat(&["--session", "first", "--system", "s"], "one\n/new\n/good\ntwo\n").ends(4);
    assert!(said.err.contains("a new conversation, in session chat-"), "{}", said.err);
    assert!(said.err.contains("there is no answer yet to judge"), "{}", said.err);
    assert_eq!(house.asked()[1], ["s", "two"]);
    let sessions = house.sessions();
    assert_eq!(sessions.len(), 2);
    assert!(sessions.iter().all(|session| session.why.as_deref() == Some("endpoint")), "{sessions:?}");
}

#[test]
fn models_are_told_and_taken() {
    let house = House::new();
    let said = house.chat(&[], "/model\n/model other\nhi\n/model gone\nhi\n").ends(4);
    for told in [
        "`policy` answers; the server has `policy`, `other`",
        "`other` answers from now on",
        "there is no model `gone`; there is `policy`, `other`",
    ] {
        assert!(said.err.contains(told), "{told}\n{}", said.err);
    }
    let models: Vec<String> =
        house.policy.asked.lock().unwrap().iter().map(|(model, _)| model.clone()).collect();
    assert_eq!(models, ["other", "other"]);
}

#[test]
fn a_conversation_is_saved_and_no_file_is_written_over() {
    let house = House::new();
    let file = house.place.path().join("chat.json");
    house.chat(&["--system", "s"], "one\n/save chat.json\n").ends(0);
    let saved: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let expected = json!([
        {"role": "system", "content": "s"}, {"role": "user", "content": "one"},
        {"role": "assistant", "content": "You said one after 1"},
    ]);
    assert_eq!(saved, expected);
    let before = fs::read(&file).unwrap();
    let said = house.chat(&[], "two\n/save chat.json\n/save no/such/folder.json\n").ends(4);
    assert!(said.err.contains("chat.json is there already, and stays as it is"), "{}", said.err);
    assert!(said.err.contains("no/such/folder.json cannot be written"), "{}", said.err);
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn what_is_no_command_is_refused_and_what_begins_with_two_slashes_is_sent() {
    let house = House::new();
    let said = house.chat(&[], "/god\n/fix\n//etc is full\n/help\n/quit\nnot this\n").ends(4);
    assert_eq!(said.out, "You said /etc is full after 0\n");
    assert!(said.err.contains("there is no command `/god`, and nothing was sent"), "{}", said.err);
    assert!(said.err.contains("`/fix` needs a text"), "{}", said.err);
    let help = said.err.split_once("as in `/fix It is Canberra.`\n").unwrap().1;
    insta::assert_snapshot!(help, @"
    /good                the last answer is good
    /bad [TEXT]          the last answer is bad, and what is wrong with it
    /fix TEXT            the last answer is bad, and what it should have been
    /retry               asks the last message again, without its answer
    /new                 closes the session and begins another
    /status              tells who answers, and what is learned from you
    /train               learns now from what waits
    /rollback [VERSION]  goes back to the version before, or to this one
    /model [NAME]        tells the models, or asks this one from now on
    /save FILE           writes the conversation as JSON, into a new file
    /help                this list; `//text` sends `/text`
    /quit                ends, as Ctrl-D does
    ");
}

#[test]
fn a_server_that_does_not_learn_says_why_it_does_not() {
    let house = House::new();
    let said = house.chat(&["--session", "mine"], "one\n/status\n").ends(0);
    let status = format!(
        "model     `policy` at {}\n\
         version   7\n\
         learning  no: training is not enabled, or the policy cannot be trained\n\
         session   mine, 2 messages\n",
        house.base_url
    );
    assert!(said.err.contains(&status), "{}", said.err);
    for (command, told) in [
        ("/train", "nothing was trained"),
        ("/rollback", "nothing was changed"),
        ("/rollback 3", "nothing was changed"),
    ] {
        let said = house.chat(&[], &format!("{command}\n")).ends(4);
        let told = format!("{told}, and nothing is learned here: training is not enabled");
        assert!(said.err.contains(&told), "{command}: {}", said.err);
    }
}

#[test]
fn a_server_of_others_has_a_status_and_learns_nothing() {
    let server = Foreign::start(&[models()]);
    let house = House::new();
    let chat =
        |lines: &str| house::said(house.place.command(&["chat", "--base-url", &server.base_url()]), lines);
    let said = chat("/status\n").ends(0);
    assert!(said.err.contains("learning  unknown: this server is not `clawrl serve`\n"), "{}", said.err);
    for (command, told) in [("/train", "nothing was trained"), ("/rollback", "nothing was changed")] {
        let said = chat(&format!("{command}\n")).ends(4);
        assert!(said.err.contains(&format!("{told}: this server is not `clawrl serve`")), "{}", said.err);
    }
}
