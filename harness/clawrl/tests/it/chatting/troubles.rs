//! Faulty third-party servers.

use serde_json::json;

use super::foreign::{Foreign, json_answer, models, said, stream};
use super::house;
use crate::place::{Place, Said};

const CHAT: &str = "/v1/chat/completions";

fn chat(answer: String, lines: &str) -> (Said, Foreign) {
    let server = Foreign::start(&[models(), (CHAT, answer)]);
    let place = Place::new();
    let command = place.command(&["chat", "--base-url", &server.base_url()]);
    (house::said(command, lines), server)
}

fn check(answer: String, out: &str, told: &str) {
    // The conversation continues.
    let (said, server) = chat(answer, "one\ntwo\n");
    let said = said.ends(4);
    assert_eq!(said.out, out.repeat(2), "{}", said.err);
    assert_eq!(said.err.matches(told).count(), 2, "{told}\n{}", said.err);
    assert_eq!(server.asked.lock().unwrap().len(), 3);
}

fn refusal(status: &str, headers: &str, message: &str) -> String {
    json_answer(status, headers, &json!({"error": {"message": message}}))
}

#[test]
fn every_trouble_is_told_and_the_conversation_goes_on() {
    let limited = refusal("429 Too Many Requests", "Retry-After: 12\r\n", "slowly");
    check(limited, "", "the server takes no more requests for now (slowly); ask again in 12 s, with /retry");
    check(refusal("503 Service Unavailable", "", "loading"), "", "(503: loading); /retry asks again");
    check(
        refusal("401 Unauthorized", "", "who?"),
        "",
        "the server refuses the key (who?); name a file of keys",
    );
    check(refusal("404 Not Found", "", "nothing"), "", "the server has nothing there (404: nothing)");
    check(refusal("418 I'm a teapot", "", "tea"), "", "the server refuses the request (418: tea)");
    check(stream(&said("half")), "half\n", "the answer broke off in its middle; /retry asks again");
    let error = format!("{}data: {{\"error\": {{\"message\": \"no memory\"}}}}\n\n", said("half"));
    check(stream(&error), "half\n", "the server broke the answer off: no memory; /retry asks again");
    check(stream(&format!("{}data: {{\"choi", said("half"))), "half\n", "breaks off within an event");
    check(stream("data: what?\n\ndata: [DONE]\n\n"), "", "streams what is no JSON");
    check(
        json_answer("200 OK", "", &json!({"well": 1})),
        "",
        "what the server answers is no answer to a chat",
    );
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p>hi".to_owned();
    check(page, "", "it answers with text/html");
    check(String::new(), "", "closed the connection before it answered");
}

#[test]
fn a_server_that_does_not_stream_or_forgets_the_last_word_is_read() {
    let message = json!({"choices": [{"message": {"content": "all at once"}, "finish_reason": "stop"}]});
    let (said_whole, _) = chat(json_answer("200 OK", "", &message), "one\n");
    assert_eq!(said_whole.ends(0).out, "all at once\n");
    let finish = "data: {\"choices\": [{\"index\": 0, \"delta\": {}, \"finish_reason\": \"stop\"}]}\n\n";
    let (said_stream, _) = chat(stream(&(said("in pieces") + finish)), "one\n");
    assert_eq!(said_stream.ends(0).out, "in pieces\n");
}

#[test]
fn a_server_that_is_not_ours_takes_no_feedback_and_has_no_sessions() {
    let answer = "data: {\"id\": \"x\", \"choices\": [{\"delta\": {\"content\": \"hi\"}, \"finish_reason\": \"stop\"}]}\n\n";
    let (said, server) =
        chat(stream(&format!("{answer}data: [DONE]\n\n")), "one\n/good\n/model other\ntwo\n");
    let said = said.ends(4);
    assert_eq!(said.out, "hi\nhi\n");
    assert!(said.err.contains("this server takes no feedback: it is not `clawrl serve`"), "{}", said.err);
    assert!(said.err.contains("`other` answers from now on, which the server does not list"), "{}", said.err);
    let asked = server.asked.lock().unwrap();
    assert!(!asked.iter().any(|asked| asked.contains("sessions")), "{asked:?}");
}
