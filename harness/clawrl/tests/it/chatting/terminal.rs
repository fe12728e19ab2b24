//! A conversation at a terminal.

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
    // It has not ended: pieces are shown as they come.
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
    // The server has noticed, and the answer is in nothing that is asked later.
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
