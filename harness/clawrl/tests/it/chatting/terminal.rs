//! A conversation at a terminal.

use std::sync::atomic::Ordering;

use super::house::{House, KEY};
use super::person::Person;

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";

#[test]
fn a_conversation() {
    let house = House::new();
    let mut person = Person::start(&house.command(&["--session", "mine"]));
    person.sees("`policy` at http://127.0.0.1:");
    person.sees("session mine\r\n/help lists the commands, Ctrl-D ends\r\n> ");
    person.types("wait\n");
    // The answer has not ended: pieces are shown as they arrive.
    person.sees("Hel");
    house.policy.gate.add_permits(1);
    person.sees("lo\r\n\r\n> ");
    person.types("/bad too short\n");
    person.sees("noted as bad, with your words\r\n> ");
    person.types("/nonsense\n");
    person.sees("there is no command `/nonsense`");
    person.sees("> ");
    person.types("think\n");
    person.sees("\u{1b}[2mlet me \u{1b}[22m\u{1b}[2msee\u{1b}[22m\r\n\r\nthought\r\n\r\n> ");
    person.types(CTRL_D);
    assert_eq!(person.ended(), 0, "what went wrong was seen");
    assert!(!person.seen.contains(KEY), "{}", person.seen);
    let turns = house.only_turns();
    assert_eq!(turns[0].feedback[0].text.as_deref(), Some("too short"));
    assert_eq!(turns[1].line.parent, Some(turns[0].line.turn));
    assert_eq!(house.sessions()[0].why.as_deref(), Some("endpoint"));
}

#[test]
fn ctrl_c_cuts_an_answer_and_at_the_prompt_it_ends() {
    let house = House::new();
    let mut person = Person::start(&house.command(&[]));
    person.sees("> ");
    person.types("hi\n");
    person.sees("You said hi after 0\r\n\r\n> ");
    house.one_dropped();
    person.types("wait\n");
    person.sees("Hel");
    person.types(CTRL_C);
    person.sees("cut; /retry asks again\r\n\r\n> ");
    // The server noticed, and later requests do not contain the answer.
    house.one_dropped();
    person.types("/bad wrong way\n");
    person.sees("noted as bad, with your words\r\n> ");
    person.types("call\n");
    person.sees("the call was not run\r\n\r\n> ");
    person.types("wait\n");
    person.sees("Hel");
    person.types(CTRL_C);
    person.sees("cut; /retry asks again\r\n\r\n> ");
    person.types(CTRL_C);
    assert_eq!(person.ended(), 0);
    assert_eq!(house.asked()[2], ["hi", "You said hi after 0", "call"]);
    house.only_session_ends();
    let turns = house.only_turns();
    let states: Vec<&str> = turns.iter().map(|turn| turn.line.state.as_str()).collect();
    assert_eq!(states, ["answered", "unanswered", "answered", "unanswered"]);
    assert_eq!(turns[1].feedback[0].text.as_deref(), Some("wrong way"));
}

#[test]
fn ctrl_c_at_the_first_prompt_ends_what_has_not_begun() {
    let house = House::new();
    let mut person = Person::start(&house.command(&[]));
    person.sees("> ");
    person.types(CTRL_C);
    assert_eq!(person.ended(), 0);
    assert!(house.sessions().is_empty());
}

#[test]
fn a_terminal_without_colours() {
    let house = House::new();
    let mut command = house.command(&[]);
    command.env("NO_COLOR", "1");
    let mut person = Person::start(&command);
    person.sees("> ");
    person.types("think\n");
    person.sees("[reasoning] let me see\r\n\r\nthought\r\n");
    person.sees("> ");
    person.types("/quit\n");
    assert_eq!(person.ended(), 0);
    assert!(!person.seen.contains('\u{1b}'), "{:?}", person.seen);
}

#[test]
fn lines_that_are_pasted_are_one_message() {
    let house = House::new();
    let mut person = Person::start(&house.command(&[]));
    person.sees("> ");
    // The last line has no line end and waits for Enter.
    person.types("/* fix this */\n\n/good code\nthe end");
    person.sees("3 lines were pasted: Enter sends them as one message, Ctrl-C forgets them\r\n> ");
    person.types("\n");
    person.sees("You said /* fix this */\r\n\r\n/good code\r\nthe end after 0\r\n\r\n> ");
    person.types("one\ntwo\n");
    person.sees("2 lines were pasted");
    person.sees("> ");
    person.types("\n");
    person.sees("You said one\r\ntwo after 2\r\n\r\n> ");
    person.types("never\nsaid\n");
    person.sees("2 lines were pasted");
    person.sees("> ");
    person.types(CTRL_C);
    person.sees("what was pasted is forgotten, and nothing was sent\r\n> ");
    // The user holds Enter.
    person.types("\n\n\n");
    person.sees("> ");
    person.types("hi\n");
    person.sees("You said hi after 4\r\n");
    person.types(CTRL_D);
    assert_eq!(person.ended(), 0);
    assert_eq!(house.asked().len(), 3);
    assert!(house.only_turns().iter().all(|turn| turn.feedback.is_empty()));
}

#[test]
fn a_line_that_the_terminal_has_cut_is_not_sent() {
    let house = House::new();
    let mut person = Person::start(&house.command(&[]));
    person.sees("> ");
    person.types(&"x".repeat(4_095));
    person.types("y\n");
    person.sees("the terminal has cut the line");
    person.sees("nothing was sent");
    person.types(CTRL_D);
    assert_eq!(person.ended(), 0);
    assert!(house.asked().is_empty());
}

#[test]
fn a_narrow_terminal_cuts_no_word() {
    let house = House::new();
    let mut person = Person::start_at(&house.command(&["--session", "mine"]), 40);
    person.sees("> ");
    person.types("/help\n");
    person.sees("/quit\r\n  ends, as Ctrl-D does\r\n> ");
    person.types("/status\n");
    person.sees("session");
    person.sees("> ");
    person.types("/rollback last\n");
    person.sees("> ");
    person.types(CTRL_D);
    assert_eq!(person.ended(), 0);
    // Typed text follows its prompt; the server's address is one word.
    let lines: Vec<&str> = person.seen.split("\r\n").collect();
    assert!(lines.iter().all(|line| line.len() <= 40 || !line.trim().contains(' ')), "{lines:#?}");
    assert!(lines.contains(&"  goes back to the version before, or to"), "{lines:#?}");
}

#[test]
fn another_version_is_told_before_its_first_answer() {
    let house = House::new();
    let mut person = Person::start(&house.command(&[]));
    person.sees("> ");
    person.types("one\n");
    person.sees("You said one after 0\r\n\r\n> ");
    house.policy.version.store(8, Ordering::SeqCst);
    person.types("two\n");
    person
        .sees("version 8 answers now, after version 7; /status tells more\r\nYou said two after 2\r\n\r\n> ");
    person.types("three\n");
    person.sees("> ");
    person.types(CTRL_D);
    assert_eq!(person.ended(), 0);
    assert_eq!(person.seen.matches("answers now").count(), 1);
}
