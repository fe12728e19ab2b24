//! Pages of chats: access, content, and forms.

use std::time::Duration;

use clawrl_core::FinishReason;
use clawrl_gateway::{Adapter, Finish, NewReward, NewSample, NewUpdate, NewVote, RequestId, TurnId};
use serde_json::{Value, json};

use super::client::{Response, request, send};
use super::scripted::{Say, Scripted, said};
use super::test_server::{TestServer, user};

const HOSTILE: &str = "</pre><script>alert(1)</script><img src=x onerror=\"alert(2)\"> ' \" & \u{1b}[31m";

async fn server() -> TestServer {
    TestServer::new(Scripted::new(vec![Ok(said(&["One ", HOSTILE])), Ok(said(&["Two"]))])).await
}

/// A user's browser.
pub(super) struct Browser<'a> {
    server: &'a TestServer,
    cookie: Option<String>,
}

impl<'a> Browser<'a> {
    fn new(server: &'a TestServer) -> Self {
        Self { server, cookie: None }
    }

    pub(super) async fn logged_in(server: &'a TestServer, key: &str) -> Self {
        let mut browser = Self::new(server);
        let response = browser.post("/login", &format!("key={key}")).await;
        assert_eq!((response.status, response.header("location")), (303, Some("/")));
        let cookie = response.header("set-cookie").unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200"), "{cookie}");
        assert!(!cookie.contains(key), "{cookie}");
        browser.cookie = Some(cookie.split(';').next().unwrap().to_owned());
        browser
    }

    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let mut headers = headers.to_vec();
        if let Some(cookie) = &self.cookie {
            headers.push(("Cookie", cookie));
        }
        let asked = request(method, path, &self.server.host(), &headers, body.as_bytes());
        send(self.server.address, &asked).await
    }

    async fn get(&self, path: &str) -> Response {
        self.send("GET", path, &[], "").await
    }

    pub(super) async fn page(&self, path: &str) -> String {
        let response = self.get(path).await;
        assert_eq!(response.status, 200, "{path}");
        response.text().await
    }

    pub(super) async fn post(&self, path: &str, form: &str) -> Response {
        let origin = format!("http://{}", self.server.host());
        let headers = [("Origin", origin.as_str()), ("Content-Type", "application/x-www-form-urlencoded")];
        self.send("POST", path, &headers, form).await
    }

    /// The proof of this login's forms.
    pub(super) async fn proof(&self) -> String {
        let page = self.page("/").await;
        let (_, rest) = page.split_once("name=\"proof\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

/// A question in a user's session `mine`.
pub(super) async fn ask(server: &TestServer, key: &str, messages: Value, more: &[(&str, Value)]) {
    let bearer = format!("Bearer {key}");
    let headers = [("Authorization", bearer.as_str()), ("x-clawrl-session", "mine")];
    let mut body = json!({"messages": messages});
    more.iter().for_each(|(name, value)| body[*name] = value.clone());
    let body = body.to_string();
    let asked = request("POST", "/v1/chat/completions", &server.host(), &headers, body.as_bytes());
    let answer = send(server.address, &asked).await;
    let (status, text) = (answer.status, answer.text().await);
    assert_eq!(status, 200, "{text}");
}

pub(super) fn hi(words: &str) -> Value {
    json!([{"role": "user", "content": words}])
}

#[tokio::test]
async fn pages_need_a_login() {
    let server = server().await;
    let browser = Browser::new(&server);
    for path in ["/", "/sessions/1", "/turns/1", "/versions", "/?before=3"] {
        let response = browser.get(path).await;
        assert_eq!((response.status, response.header("location")), (303, Some("/login")), "{path}");
        assert_eq!(response.text().await, "");
    }
    assert_eq!(browser.get("/events").await.status, 401);
    assert_eq!(browser.send("GET", "/", &[("x-clawrl-part", "live")], "").await.status, 401);
    for path in [
        "/logout",
        "/turns/1/feedback",
        "/turns/1/delete",
        "/sessions/1/close",
        "/sessions/1/delete",
        "/policy/train",
        "/policy/rollback",
    ] {
        assert_eq!(browser.post(path, "").await.status, 401, "{path}");
    }
    for (path, kind) in [
        ("/login", "text/html; charset=utf-8"),
        ("/style.css", "text/css; charset=utf-8"),
        ("/script.js", "text/javascript; charset=utf-8"),
    ] {
        let response = browser.get(path).await;
        assert_eq!((response.status, response.header("content-type")), (200, Some(kind)));
    }
    let wrong = browser.post("/login", "key=three").await;
    assert_eq!((wrong.status, wrong.header("set-cookie")), (403, None));
    assert!(wrong.text().await.contains("This key is unknown."));
    let forged = Browser { server: &server, cookie: Some(format!("clawrl-{}=one", server.address.port())) };
    assert_eq!(forged.get("/").await.status, 303, "a key is not a cookie");
}

#[tokio::test]
async fn every_page_has_strict_headers() {
    let server = server().await;
    let browser = Browser::logged_in(&server, "one").await;
    for path in ["/", "/login", "/versions", "/turns/99", "/style.css", "/events"] {
        let response = browser.get(path).await;
        let policy = response.header("content-security-policy").unwrap();
        for part in
            ["default-src 'none'", "script-src 'self'", "form-action 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.split("; ").any(|it| it == part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"));
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(response.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(response.header("referrer-policy"), Some("same-origin"), "{path}");
    }
    let elsewhere = browser.send("GET", "/", &[("Origin", "http://evil.example")], "").await;
    assert_eq!(elsewhere.status, 403);
}

#[tokio::test]
async fn cookie_opens_pages_and_never_the_api() {
    let server = server().await;
    ask(&server, "one", hi("Hi"), &[]).await;
    let browser = Browser::logged_in(&server, "one").await;
    assert!(browser.page("/").await.contains("/sessions/1"));
    for (method, path) in [
        ("GET", "/v1/sessions"),
        ("GET", "/v1/turns/1"),
        ("GET", "/metrics"),
        ("DELETE", "/v1/user"),
        ("POST", "/v1/feedback"),
        ("POST", "/v1/chat/completions"),
    ] {
        let refused = browser.send(method, path, &[], r#"{"turn": 1, "rating": 1}"#).await;
        assert_eq!(refused.status, 401, "{method} {path}");
    }
    assert_eq!(server.turns().await.len(), 1);
    // The key itself opens the pages, too.
    assert!(server.get("/sessions/1").await.text().await.contains("Session 1"));
}

#[tokio::test]
async fn logins_end() {
    let server = server().await;
    let browser = Browser::logged_in(&server, "one").await;
    let mut events = browser.get("/events").await;
    assert_eq!(events.event().await.unwrap()["what"], "watching");
    assert_eq!(browser.post("/logout", "").await.status, 403, "not without the proof");
    let proof = browser.proof().await;
    let out = browser.post("/logout", &format!("proof={proof}")).await;
    assert_eq!((out.status, out.header("location")), (303, Some("/login")));
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(browser.get("/").await.status, 303);
    assert_eq!(events.event().await, None, "what it let watch ends with it");

    let short =
        TestServer::with(Scripted::new(vec![Ok(said(&["One"]))]), |settings| settings.login = Duration::ZERO);
    let short = short.await;
    let browser = Browser::new(&short);
    let response = browser.post("/login", "key=one").await;
    let cookie = response.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let browser = Browser { server: &short, cookie: Some(cookie) };
    assert_eq!(browser.get("/").await.status, 303, "its time is over at once");
}

#[tokio::test]
async fn forms_need_the_proof_of_their_login() {
    let server = server().await;
    ask(&server, "one", hi("Hi"), &[]).await;
    let (ada, bob) = (Browser::logged_in(&server, "one").await, Browser::logged_in(&server, "two").await);
    let (own, other) = (ada.proof().await, bob.proof().await);
    for form in ["rating=up".to_owned(), "rating=up&proof=".to_owned(), format!("rating=up&proof={other}")] {
        assert_eq!(ada.post("/turns/1/feedback", &form).await.status, 403, "{form}");
        for path in ["/turns/1/delete", "/sessions/1/delete", "/sessions/1/close"] {
            assert_eq!(ada.post(path, &form).await.status, 403, "{path} {form}");
        }
    }
    assert!(server.turns().await[0].feedback.is_empty());
    let form = format!("rating=down&text=no%2C+%3Cb%3Eshorter%3C%2Fb%3E%0D%0Aplease&proof={own}");
    let done = ada.post("/turns/1/feedback", &form).await;
    assert_eq!((done.status, done.header("location")), (303, Some("/turns/1#feedback")));
    let turn = &server.turns().await[0];
    assert_eq!(turn.feedback[0].thumb, Some(-1));
    assert_eq!(turn.feedback[0].text.as_deref(), Some("no, <b>shorter</b>\nplease"));
    assert!(ada.page("/turns/1").await.contains("no, &lt;b&gt;shorter&lt;/b&gt;\nplease"));
    let empty = ada.post("/turns/1/feedback", &format!("rating=&text=+&proof={own}")).await;
    assert_eq!(empty.status, 400);
    assert_eq!(ada.post("/sessions/1/close", &format!("proof={own}")).await.status, 303);
    assert!(ada.page("/sessions/1").await.contains("closed by request"));
    let deleted = ada.post("/turns/1/delete", &format!("proof={own}")).await;
    assert_eq!(deleted.status, 200);
    assert!(deleted.text().await.contains("Deleted 1 turn and 1 request."));
    let page = ada.page("/turns/1").await;
    assert!(page.contains("not trained:</b> <bdi>deleted") && !page.contains("shorter"), "{page}");
    assert_eq!(ada.post("/sessions/1/delete", &format!("proof={own}")).await.status, 200);
}

#[tokio::test]
async fn pages_of_other_users_are_not_found() {
    let server = server().await;
    ask(&server, "one", hi("a word of Ada"), &[]).await;
    let bob = Browser::logged_in(&server, "two").await;
    let proof = bob.proof().await;
    for name in ["sessions", "turns"] {
        let theirs = bob.get(&format!("/{name}/1")).await;
        assert_eq!(theirs.status, 404);
        let theirs = theirs.text().await;
        assert!(!theirs.contains("Ada"));
        let (nowhere, odd) = (bob.get(&format!("/{name}/99")).await, bob.get(&format!("/{name}/x")).await);
        assert_eq!((nowhere.status, odd.status), (404, 404));
        assert_eq!(nowhere.text().await, theirs);
        assert_eq!(odd.text().await, theirs);
    }
    assert!(!bob.page("/").await.contains("/sessions/1"));
    for path in ["/turns/1/feedback", "/turns/1/delete", "/sessions/1/delete", "/sessions/1/close"] {
        let refused = bob.post(path, &format!("rating=up&proof={proof}")).await;
        assert_eq!(refused.status, 404, "{path}");
    }
    let turn = &server.turns().await[0];
    assert!(turn.feedback.is_empty() && turn.line.deleted_ms.is_none());
    assert_eq!(server.sessions().await[0].closed_ms, None);
}

#[tokio::test]
async fn hostile_text_is_escaped_on_every_page() {
    let server = server().await;
    let messages = json!([
        {"role": "system", "content": HOSTILE},
        {"role": "user", "name": HOSTILE, "content": [{"type": "text", "text": HOSTILE}]},
    ]);
    let tools = json!([{"type": "function", "function": {"name": HOSTILE, "parameters": {}}}]);
    ask(&server, "one", messages, &[("tools", tools)]).await;
    let turn = server.turns().await[0].line.turn;
    let record = &server.record;
    let vote = NewVote {
        turn,
        judge: HOSTILE.to_owned(),
        ballot: 0,
        score: Err(HOSTILE.to_owned()),
        hint: Some(HOSTILE.to_owned()),
        raw: HOSTILE.to_owned(),
    };
    record.add_vote(vote).await.unwrap();
    record.set_reward(NewReward { turn, value: 1.0, source: HOSTILE.to_owned() }).await.unwrap();
    let browser = Browser::logged_in(&server, "one").await;
    let text = format!("text=%3Cscript%3Ealert(3)%3C/script%3E&proof={}", browser.proof().await);
    assert_eq!(browser.post("/turns/1/feedback", &text).await.status, 303);
    for path in ["/", "/sessions/1", "/turns/1", "/versions"] {
        let page = browser.page(path).await;
        for wrong in ["<script>", "<img", "</pre><script", "onerror=\"", "\u{1b}"] {
            assert!(!page.contains(wrong), "{path}: {wrong}: {page}");
        }
    }
    for path in ["/", "/sessions/1", "/turns/1"] {
        let page = browser.page(path).await;
        // As the title of the session, and as the user's words in the turn.
        assert!(page.contains("&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;"), "{path}: {page}");
    }
}

#[tokio::test]
async fn sessions_and_turns_show_the_users_words() {
    let server = TestServer::new(Scripted::new(vec![Ok(said(&["Seven."])), Ok(said(&["Eight."]))])).await;
    let question =
        format!("[Fri 2026-11-20 09:40 UTC] How many\nwords has {}?", "this long question ".repeat(9));
    let system = json!({"role": "system", "content": "Be short."});
    let one = json!({"role": "user", "content": question});
    ask(&server, "one", json!([system, one]), &[]).await;
    let reply = json!({"role": "assistant", "content": "Seven."});
    ask(&server, "one", json!([system, one, reply, {"role": "user", "content": "And now?"}]), &[]).await;
    let browser = Browser::logged_in(&server, "one").await;
    let title = "How many words has this long question this long question this long question this\u{2026}";
    let overview = browser.page("/").await;
    assert!(
        overview.contains(&format!("<bdi>{title}</bdi></a> <span class=\"when\">2 turns</span>")),
        "{overview}"
    );
    let session = browser.page("/sessions/1").await;
    assert!(session.contains(&format!("<h1><bdi>{title}</bdi></h1>")), "{session}");
    assert!(
        session.contains("<b>User</b> <bdi>And now?</bdi></p>")
            && session.contains("<b>Answer</b> <bdi>Eight.</bdi></p>"),
        "{session}"
    );
    assert!(session.contains("<b>User</b> <bdi>How many\nwords has"), "{session}");
    let turn = browser.page("/turns/2").await;
    assert!(turn.contains("<h2>User</h2>\n<pre class=\"saw\">And now?</pre>"), "{turn}");
    assert!(turn.contains("<pre class=\"said\">Eight.</pre>"), "{turn}");
    // A deleted turn does not name its session.
    let proof = browser.proof().await;
    assert_eq!(browser.post("/turns/1/delete", &format!("proof={proof}")).await.status, 200);
    let overview = browser.page("/").await;
    assert!(overview.contains("<bdi>Session 1</bdi>") && !overview.contains("How many"), "{overview}");
    assert_eq!(server.sessions().await[0].title, None);
}

#[tokio::test]
async fn thumbs_need_no_font_of_emoji() {
    let server = server().await;
    ask(&server, "one", hi("Hi"), &[]).await;
    let browser = Browser::logged_in(&server, "one").await;
    let proof = browser.proof().await;
    for rating in ["up", "down"] {
        assert_eq!(
            browser.post("/turns/1/feedback", &format!("rating={rating}&proof={proof}")).await.status,
            303
        );
    }
    for path in ["/", "/sessions/1", "/turns/1", "/versions"] {
        let page = browser.page(path).await;
        let emoji = page.chars().find(|&c| c >= '\u{1f000}' || ('\u{2600}'..'\u{27c0}').contains(&c));
        assert_eq!(emoji, None, "{path}");
    }
    let turn = browser.page("/turns/1").await;
    for part in [">good</span>", ">bad</span>", "value=\"up\">Good<", "value=\"down\">Bad<"] {
        assert!(turn.contains(part), "{part}: {turn}");
    }
}

#[tokio::test]
async fn untrained_turns_show_their_reasons() {
    let answers = vec![Ok(said(&["One"])), Ok(said(&["sk-abcdefghijklmnopqrst"])), Ok(said(&["Three"]))];
    let server = TestServer::new(Scripted::new(answers)).await;
    let heartbeat = "Follow the heartbeat monitor scratch context when provided.";
    ask(&server, "one", hi("one"), &[]).await;
    ask(&server, "one", hi("two"), &[]).await;
    ask(&server, "one", hi("three"), &[("temperature", json!(0))]).await;
    ask(&server, "one", hi("four"), &[("top_p", json!(0.5))]).await;
    ask(&server, "one", hi(heartbeat), &[]).await;
    ask(&server, "one", hi("six"), &[("max_tokens", json!(1))]).await;
    ask(&server, "one", hi("my key is sk-abcdefghijklmnopqrst"), &[]).await;
    ask(&server, "one", hi("eight"), &[]).await;
    ask(
        &server,
        "one",
        json!([{"role": "user", "content": "eight"}, {"role": "assistant", "content": "Three"},
        {"role": "user", "content": "nine"}]),
        &[],
    )
    .await;
    let browser = Browser::logged_in(&server, "one").await;
    let proof = browser.proof().await;
    let turn = |number| TurnId(RequestId(number));
    let mut expected = vec![
        (1, "no next state and no feedback yet"),
        (1, "not judged yet"),
        (2, "the answer cannot be trained on: the answer was redacted"),
        (3, "the answer cannot be trained on: it was not sampled: greedy"),
        (4, "the answer cannot be trained on: its sampling was truncated"),
        (5, "side turn: a heartbeat"),
        (6, "not known to be a main turn: the answer is limited to one token"),
        (7, "the answer cannot be trained on: the request was redacted"),
        (8, "not judged yet"),
    ];
    let check = async |expected: &[(u64, &str)]| {
        let session = browser.page("/sessions/1").await;
        for (number, why) in expected {
            let entry =
                session.split("<li>").find(|entry| entry.contains(&format!("\"/turns/{number}\">Turn")));
            assert!(entry.unwrap().contains(why), "{number} {why}: {entry:?}");
            let page = browser.page(&format!("/turns/{number}")).await;
            let fate = page.split_once("class=\"training\"").unwrap().1;
            assert!(fate.split("</div>").next().unwrap().contains(why), "{number} {why}: {page}");
        }
    };
    check(&expected).await;
    // Redacted text is not in lists, either.
    let session = browser.page("/sessions/1").await;
    assert!(
        session.contains("my key is [redacted:") && !session.contains("sk-abcdefghijklmnopqrst"),
        "{session}"
    );
    let vote = |turn, score: Result<i8, String>| NewVote {
        turn,
        judge: "j".to_owned(),
        ballot: 0,
        score,
        hint: Some("look first".to_owned()),
        raw: "raw".to_owned(),
    };
    server.record.add_vote(vote(turn(8), Err("no number".to_owned()))).await.unwrap();
    check(&[(8, "no judge gave a score")]).await;
    server.record.add_vote(vote(turn(1), Ok(1))).await.unwrap();
    check(&[(1, "votes, but no reward yet")]).await;
    let sample = NewSample { request: RequestId(1), choice: 0, reward: 1.0, hint: None };
    let sample = server.record.add_sample(sample).await.unwrap();
    check(&[(1, "waits for an update")]).await;
    server.record.drop_sample(sample, "too old").await.unwrap();
    check(&[(1, "was dropped: too old")]).await;
    assert!(browser.page("/turns/1").await.contains("look first"));
    browser.post("/turns/9/delete", &format!("proof={proof}")).await;
    expected = vec![(9, "deleted")];
    check(&expected).await;
}

#[tokio::test]
async fn versions_name_their_turns() {
    let server = server().await;
    let browser = Browser::logged_in(&server, "one").await;
    let none = browser.page("/versions").await;
    assert!(none.contains("does not learn from them") && none.contains("version <b>7</b>"), "{none}");
    ask(&server, "one", hi("Hi"), &[]).await;
    let record = &server.record;
    let sample = NewSample { request: RequestId(1), choice: 0, reward: 1.0, hint: None };
    record.add_sample(sample).await.unwrap();
    let adapter = Adapter { name: "ada".to_owned(), owner: Some(user("ada")) };
    let objective = "grpo".to_owned();
    let update = NewUpdate { key: "k".to_owned(), adapter, objective, version: 3, limit: 9 };
    let taken = record.take(update).await.unwrap();
    assert!(browser.page("/turns/1").await.contains("is in a running update"));
    let metrics = [("loss_nats".to_owned(), 0.25)].into_iter().collect();
    let finish =
        Finish::Accepted { version: 4, branch: 0, checkpoint: Some("/secret/place".to_owned()), metrics };
    record.finish(taken.update, finish).await.unwrap();
    let page = browser.page("/versions").await;
    for part in ["Its acceptance test passed", "loss_nats", "0.25", "href=\"/turns/1\"", "version 3 to 4"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("/secret/place"), "{page}");
    let turn = browser.page("/turns/1").await;
    assert!(
        turn.contains("version 4 of ada, by update 1") && turn.contains("/versions?before=2#update-1"),
        "{turn}"
    );
    assert!(browser.page("/versions?before=2").await.contains("id=\"update-1\""));
    let bob = Browser::logged_in(&server, "two").await;
    assert!(!bob.page("/versions").await.contains("Update 1"));
}

#[tokio::test]
async fn events_report_changes_to_their_user_only() {
    let mut server = server().await;
    let (ada, bob) = (Browser::logged_in(&server, "one").await, Browser::logged_in(&server, "two").await);
    let (mut hers, mut his) = (ada.get("/events").await, bob.get("/events").await);
    assert_eq!(hers.header("content-type"), Some("text/event-stream"));
    for events in [&mut hers, &mut his] {
        assert_eq!(events.event().await.unwrap()["what"], "watching");
    }
    ask(&server, "one", hi("a secret word"), &[]).await;
    let event = |what, turn: Option<u64>| json!({"what": what, "session": 1, "turn": turn});
    assert_eq!(hers.event().await, Some(event("session opened", None)));
    assert_eq!(hers.event().await, Some(event("turn opened", Some(1))));
    assert_eq!(hers.event().await, Some(event("answered", Some(1))));
    ask(&server, "two", hi("his"), &[]).await;
    assert_eq!(his.event().await, Some(json!({"what": "session opened", "session": 2, "turn": null})));
    let part = ada.send("GET", "/sessions/1", &[("x-clawrl-part", "live")], "").await.text().await;
    assert!(part.contains("/turns/1") && !part.contains("<html") && !part.contains("<form"), "{part}");
    drop((ada, bob));
    // They do not delay the shutdown.
    server.end();
    assert_eq!(server.ended().await.cut, 0);
    assert_eq!(hers.event().await, None);
}

#[tokio::test]
async fn long_lists_have_pages() {
    let server = TestServer::new(Scripted::new(vec![Ok(vec![
        Say::Token("ok".to_owned()),
        Say::End(FinishReason::Stop),
    ])]))
    .await;
    for at in 0..27 {
        ask(&server, "one", hi(&format!("question {at}")), &[]).await;
    }
    let browser = Browser::logged_in(&server, "one").await;
    let first = browser.page("/sessions/1").await;
    assert!(
        first.contains("\"/turns/27\"") && first.contains("\"/turns/3\"") && !first.contains("\"/turns/2\"")
    );
    assert!(first.contains("/sessions/1?before=3"), "{first}");
    let second = browser.page("/sessions/1?before=3").await;
    assert!(second.contains("\"/turns/1\"") && !second.contains("\"/turns/3\"") && !second.contains("Older"));
}
