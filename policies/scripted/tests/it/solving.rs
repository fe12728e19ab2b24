//! Replies of solvers to pages.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clawrl_core::{
    Action, CancelToken, EnvSpec, GuiSpec, Message, Part, Policy, PolicyRequest, Role, Script, Solver,
    TaskSpec, ToolCall, ToolSpec,
};
use clawrl_scripted::{Demonstrator, Oracle, solved_families};
use serde_json::json;

use crate::episode::{attempt, in_every_slot, task};

/// A browser's, as far as scripts are concerned.
fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str, text_argument: Option<&str>| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({ "type": "object" }),
        text_argument: text_argument.map(Into::into),
    };
    vec![tool("act", Some("line")), tool("click", None), tool("submit", None)]
}

fn page_task(family: &str) -> TaskSpec {
    let start = format!("http://miniwob.localhost/miniwob/{family}.html?a=b");
    TaskSpec {
        env: EnvSpec::Gui(Box::new(GuiSpec { start, ..GuiSpec::default() })),
        oracle: Some(Script::Solver(Solver::Miniwob)),
        mistakes: vec![Script::Solver(Solver::RandomClick)],
        ..task("s/page")
    }
}

/// A conversation of pages and the lines said between them.
fn conversation(pages: &[&str], said: &[&str]) -> Vec<Message> {
    let mut messages = vec![Message::text(Role::User, "Do it.")];
    messages[0].parts.push(Part::Text { text: pages[0].to_owned() });
    for (line, page) in said.iter().zip(&pages[1..]) {
        let call = ToolCall::new("act", json!({ "line": line }));
        messages.push(Message { tool_calls: vec![call], ..Message::text(Role::Assistant, *line) });
        messages.push(Message::text(Role::Tool, *page));
    }
    messages
}

/// The reply to the last of the pages. The seed is that of the slot and the turn.
fn reply(policy: &dyn Policy, task: &TaskSpec, slot: u32, pages: &[&str], said: &[&str]) -> Action {
    let (tools, cancel) = (tools(), CancelToken::new());
    let messages = conversation(pages, said);
    let (blobs, seen) = (clawrl_core::MemoryBlobs::default(), clawrl_core::Observation::default());
    let request = PolicyRequest {
        attempt: attempt(slot, 0),
        task: &task.view(),
        conversation: &messages,
        observation: &seen,
        tools: &tools,
        turn: u32::try_from(said.len()).expect("few turns"),
        seed: u64::from(slot) * 100 + said.len() as u64,
        deadline: Instant::now() + Duration::from_secs(60),
        cancel: &cancel,
        blobs: &blobs,
    };
    let mut future = policy.act(request);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(reply) => reply.expect("a reply"),
        std::task::Poll::Pending => panic!("a scripted reply is ready when it is asked for"),
    }
}

fn check(family: &str, pages: &[&str], said: &[&str], expected: &str) {
    let reply = reply(&Oracle::new(in_every_slot(page_task(family))), &page_task(family), 0, pages, said);
    assert_eq!(reply.text, expected, "{family}: {pages:?}");
    let call = match expected {
        "submit" => ToolCall::new("submit", json!({})),
        line => ToolCall::new("act", json!({ "line": line })),
    };
    assert_eq!(reply.tool_calls, [call]);
}

const FORM: &str = "url: http://miniwob.localhost/miniwob/login-user.html\ntitle: Login User Task\n\
    text: Enter the username \"ada\" and the password \"x1\" into the text fields and press login.\ntext: Username\n\
    [1] textbox #username\ntext: Password\n[2] textbox #password (password)\n[3] button \"Login\"";

#[test]
fn a_form_is_filled_in_field_by_field_and_sent() {
    let filled = FORM.replace("#username", "#username = \"ada\" (focused)");
    let whole = filled.replace("#password (", "#password = \"••\" (");
    check("login-user", &[FORM], &[], "type 1 ada");
    check("login-user", &[FORM, &filled], &["type 1 ada"], "type 2 x1");
    check("login-user", &[FORM, &filled, &whole], &["type 1 ada", "type 2 x1"], "click 3");
    let popup = format!("{whole}\ntext: Exit to home page?\n[4] button \"OK\"\n[5] button \"Cancel\"");
    check("login-user-popup", &[FORM, &popup], &["type 1 ada"], "click 5");
}

#[test]
fn pages_of_each_kind_are_understood() {
    let one = |family: &str, page: &str, expected: &str| check(family, &[page], &[], expected);
    one(
        "click-button",
        "text: Click on the \"No\" button.\n[1] button \"Ok\"\n[2] textbox \"No\"\n[3] button \"No\"",
        "click 3",
    );
    one(
        "click-checkboxes",
        "text: Select b, c and click Submit.\n[1] checkbox \"a\" (checked)\n[2] checkbox \"b\"\n[3] button \"Submit\"",
        "click 1",
    );
    one(
        "click-checkboxes",
        "text: Select b and click Submit.\n[2] checkbox \"b\" (checked)\n[3] button \"Submit\"",
        "click 3",
    );
    one(
        "click-scroll-list",
        "text: Select A, B C from the scroll list and click Submit.\n[1] listbox options: \"A\", \"B C\"\n[2] button \"Submit\"",
        "select 1 A|B C",
    );
    one("enter-time", "text: Enter 12:05 AM as the time and press submit.\n[1] time #tt", "type 1 00:05");
    one(
        "enter-date",
        "text: Enter 09/10/2012 as the date and hit submit.\n[1] date #tt",
        "type 1 2012-09-10",
    );
    one("simple-algebra", "text: Solve for x\ntext: 3 - x = 9\ntext: x =\n[1] textbox", "type 1 -6");
    one(
        "read-table",
        "text: Enter the value of Year into the text field and press Submit.\ntable\n  row cell \"Gender\" cell \"Year\"\n  \
         row cell \"Year\" cell \"1949\"\n[1] textbox #tt",
        "type 1 1949",
    );
    one(
        "grid-coordinate",
        "text: Click on the grid coordinate (1,-1).\nsvg line black large at 79,129 size 150x0\n\
         [1] svg circle blue small at 79,129\n[2] svg circle blue small at 79,159\n[3] svg circle blue small at 109,159",
        "click 3",
    );
    one(
        "click-shape",
        "text: Click on a large letter\n[1] svg text \"9\" red large at 1,2\n[2] svg text \"p\" red small at 1,2\n\
         [3] svg text \"q\" red large at 1,2",
        "click 3",
    );
    one(
        "buy-ticket",
        "text: Buy the ticket with the shortest duration.\ntext: 3h 43m\n[1] button \"Book for $10\"\ntext: 2h 59m\n\
         [2] button \"Book for $1117\"",
        "click 2",
    );
    one(
        "click-menu",
        "text: Select A>B>C\n[1] menuitem \"A\" (popup)\n[2] menuitem \"B\" (popup)\n[3] menuitem \"D\"",
        "hover 2",
    );
    one("choose-list", "nothing of the kind", "submit");
    one("no-such-family", "text: Click.\n[1] button \"Ok\"", "submit");
}

#[test]
fn first_page_is_remembered() {
    let first = "text: Click.\n[1] svg text \"2\" black large at 5,6\n[2] svg text \"1\" black large at 7,8";
    let hidden = "text: Click.\n[3] svg rectangle black large at 5,6";
    check("ascending-numbers", &[first], &[], "click 7,8");
    check("ascending-numbers", &[first, hidden], &["click 7,8"], "click 5,6");
}

#[test]
fn families_are_named_once_and_in_order() {
    let names: Vec<&str> = solved_families().collect();
    let sorted: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names, sorted.into_iter().collect::<Vec<_>>());
    assert!(names.len() > 80, "{}", names.len());
}

#[test]
fn random_click_depends_on_slot_and_submits() {
    const PAGE: &str = "text: Click.\n[4] button \"a\"\ntext: b\n[5] button \"c\"\n[9] button \"d\"";
    let task = page_task("click-button");
    let demonstrator = Demonstrator::new(0, 7, in_every_slot(task.clone())).unwrap();
    let said = |slot| reply(&demonstrator, &task, slot, &[PAGE], &[]).text;
    let drawn: BTreeSet<String> = (0..60).map(said).collect();
    assert_eq!(drawn.iter().map(String::as_str).collect::<Vec<_>>(), ["click 4", "click 5", "click 9"]);
    for slot in 0..10 {
        let first = said(slot);
        assert_eq!(said(slot), first);
        assert_eq!(reply(&demonstrator, &task, slot, &[PAGE, PAGE], &[&first]).text, "submit");
    }
    assert_eq!(reply(&demonstrator, &task, 0, &["text: Nothing."], &[]).text, "submit");
}

#[test]
fn right_and_wrong_are_chosen_once_for_a_slot() {
    let form = FORM.replace("#username", "#username = \"ada\"");
    let task = page_task("login-user");
    let demonstrator = Demonstrator::new(50, 7, in_every_slot(task.clone())).unwrap();
    let mut right = 0;
    for slot in 0..40 {
        let first = reply(&demonstrator, &task, slot, &[FORM], &[]).text;
        let then = reply(&demonstrator, &task, slot, &[FORM, &form], &[&first]).text;
        let is_right = first == "type 1 ada";
        right += usize::from(is_right);
        assert_eq!(then, if is_right { "type 2 x1" } else { "submit" }, "slot {slot}: {first}");
    }
    assert!((10..30).contains(&right), "{right}");
}
