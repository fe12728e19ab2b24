//! The tool `http`, against a server beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawrl_core::{Boundary, EnvProvider, Retry, TextSource, ToolDecl, ToolKind};
use clawrl_testkit::{ready, step_ctx};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::listener::{Asked, Listener, answer};
use crate::support::{bare_provider_with, call, in_process, shown, tool, toolcall_task, within};

const KEY: &str = "s3cr3t-s3cr3t";

fn api(allow: &[String]) -> ToolDecl {
    let source = TextSource::FromEnv { name: "API_KEY".to_owned(), prefix: "Bearer ".to_owned() };
    let kind = ToolKind::Http {
        allow: allow.to_vec(),
        methods: vec!["GET".to_owned(), "POST".to_owned()],
        headers: BTreeMap::from([("Authorization".to_owned(), source)]),
        allow_headers: vec!["x-mine".to_owned()],
    };
    tool("api", kind)
}

fn site(asked: &Asked) -> Vec<u8> {
    let path = asked.line.split(' ').nth(1).unwrap_or_default();
    let plain = "content-type: text/plain\r\n";
    match path {
        "/v1/hello" => answer("200 OK", plain, "hello\n"),
        "/v1/echo" => answer("201 Created", plain, &format!("{}|{}", asked.line, asked.body)),
        "/v1/head" => answer("200 OK", plain, &asked.head),
        "/v1/gone" => answer("404 Not Found", plain, "no such thing"),
        "/v1/inside" => answer("302 Found", "location: hello\r\n", ""),
        "/v1/outside" => answer("302 Found", "location: /v2/hello\r\n", ""),
        "/v1/metadata" => answer("302 Found", "location: http://169.254.169.254/latest\r\n", ""),
        "/v1/circle" => answer("307 Temporary Redirect", "location: /v1/circle\r\n", ""),
        "/v1/large" => answer("200 OK", plain, &"x".repeat((1 << 20) + 5)),
        "/v1/edge" => answer("200 OK", plain, &format!("{}{KEY}", "x".repeat((1 << 20) - 8))),
        "/v1/picture" => answer("200 OK", "content-type: image/png\r\n", "\0\u{1}"),
        "/v1/cut" => b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec(),
        _ => answer("500 Internal Server Error", "", "not allowed to be here"),
    }
}

/// The expected results for these arguments, with `BASE` for the server.
async fn check(cases: &[(Value, &str)]) {
    let listener = Listener::start(site).await;
    let base = listener.url("");
    let provider = bare_provider_with([("API_KEY".to_owned(), KEY.to_owned())]);
    let mut spec = in_process(vec![api(&[listener.url("/v1/")])]);
    spec.observation_chars = 300;
    let mut env = ready(&provider, &toolcall_task(spec, Vec::new())).await;
    for (arguments, expected) in cases {
        let arguments = serde_json::from_str(&arguments.to_string().replace("BASE", &base)).unwrap();
        let told = shown(env.as_mut(), &[call("api", arguments)]).await.replace(&base, "BASE");
        assert!(told.contains(expected), "{told}\nhas not\n{expected}");
        assert!(!told.contains(KEY), "{told}");
    }
    assert!(
        listener.asked().iter().all(|asked| asked.line.contains(" /v1/")),
        "only what is allowed was asked"
    );
    env.close().await;
}

#[tokio::test]
async fn allowed_requests_are_sent() {
    check(&[
        (json!({"url": "BASE/v1/hello"}), "[api]\n[status 200]\ntext/plain\nhello"),
        (
            json!({"url": "BASE/v1/echo", "method": "POST", "body": "a"}),
            "[status 201]\ntext/plain\nPOST /v1/echo HTTP/1.1|a",
        ),
        (json!({"url": "BASE/v1/head", "headers": {"x-mine": "yes"}}), "x-mine: yes"),
        (json!({"url": "BASE/v1/head"}), "authorization: bearer [API_KEY]"),
        (json!({"url": "BASE/v1/gone"}), "[status 404]\ntext/plain\nno such thing"),
        (json!({"url": "BASE/v1/inside"}), "[status 200]\ntext/plain\nhello"),
        (json!({"url": "BASE/v1/large"}), "characters with 0 line ends left out"),
        (json!({"url": "BASE/v1/large"}), "[... 5 bytes left out ...]"),
        (json!({"url": "BASE/v1/edge"}), "xx[API_KEY]\n[... 5 bytes left out ...]"),
        (json!({"url": "BASE/v1/picture"}), "image/png\n[2 bytes that are not text]"),
    ])
    .await;
}

#[tokio::test]
async fn forbidden_requests_are_refused() {
    check(&[
        (
            json!({"url": "BASE/v2/hello"}),
            "error: BASE/v2/hello is not allowed; addresses begin with BASE/v1/",
        ),
        (json!({"url": "BASE/v1/../v2/hello"}), "is not allowed"),
        (json!({"url": "BASE/v1/%2e%2e/v2/hello"}), "error: the address has `%2e` in its path"),
        (json!({"url": "https://example.com/v1/"}), "is not allowed"),
        (json!({"url": "file:///etc/passwd"}), "error: the address begins with `file:`"),
        (json!({"url": "BASE/v1/hello", "method": "DELETE"}), "is none of \"GET\" \"POST\""),
        (json!({"url": "BASE/v1/hello", "headers": {"host": "x"}}), "`headers.host` is not expected"),
        (json!({"url": "BASE/v1/outside"}), "sends on to BASE/v2/hello, which is not allowed"),
        (
            json!({"url": "BASE/v1/metadata"}),
            "sends on to http://169.254.169.254/latest, which is not allowed",
        ),
        (json!({"url": "BASE/v1/circle"}), "error: sent on more than 5 times"),
    ])
    .await;
}

#[tokio::test]
async fn names_that_lead_to_private_addresses_are_refused() {
    let listener = Listener::start(site).await;
    let provider = bare_provider_with([("API_KEY".to_owned(), KEY.to_owned())]);
    // A name of this machine in many resolvers, and no address of its own in the list.
    let named = format!("http://localhost:{}/", listener.port);
    let mut env =
        ready(&provider, &toolcall_task(in_process(vec![api(std::slice::from_ref(&named))]), Vec::new()))
            .await;
    let told = shown(env.as_mut(), &[call("api", json!({"url": format!("{named}v1/hello")}))]).await;
    assert!(told.contains("[status 200]"), "{told}");
    let told = shown(env.as_mut(), &[call("api", json!({"url": listener.url("/v1/hello")}))]).await;
    assert!(told.contains("is not allowed"), "{told}");
}

#[tokio::test]
async fn requests_of_many_attempts_are_under_way_at_once() {
    const AT_ONCE: usize = 100;
    let together = Arc::new(Barrier::new(AT_ONCE));
    let listener = Listener::start_in_time(move |asked| {
        let together = Arc::clone(&together);
        Box::pin(async move {
            together.wait().await;
            site(&asked)
        })
    })
    .await;
    let provider = bare_provider_with([("API_KEY".to_owned(), KEY.to_owned())]);
    let task = toolcall_task(in_process(vec![api(&[listener.url("/v1/")])]), Vec::new());
    let mut envs = join_all((0..AT_ONCE).map(|_| ready(&provider, &task))).await;
    let calls = [call("api", json!({ "url": listener.url("/v1/hello") }))];
    for told in join_all(envs.iter_mut().map(|env| shown(env.as_mut(), &calls))).await {
        assert_eq!(told, "[api]\n[status 200]\ntext/plain\nhello");
    }
}

#[tokio::test]
async fn unreachable_host_is_fault_not_result() {
    let listener = Listener::start(site).await;
    let (base, cut) = (listener.url("/v1/"), listener.url("/v1/cut"));
    let provider = bare_provider_with([("API_KEY".to_owned(), KEY.to_owned())]);
    let task = toolcall_task(in_process(vec![api(&[base])]), Vec::new());
    let gone = listener.url("/v1/hello");
    for (url, stop) in [(cut, false), (gone, true)] {
        let mut env = ready(&provider, &task).await;
        if stop {
            listener.stop().await;
        }
        let fault = env.step(&[call("api", json!({ "url": url }))], step_ctx(1)).await.unwrap_err();
        assert_eq!((fault.boundary, fault.retry), (Boundary::Env, Retry::Sound), "{}", fault.message);
        assert_eq!(fault.code, "http-unanswered");
        env.close().await;
    }
}

#[tokio::test]
async fn missing_response_is_a_result() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let base = format!("http://{}/", listener.local_addr().unwrap());
    let provider = bare_provider_with([("API_KEY".to_owned(), KEY.to_owned())]);
    let spec = in_process(vec![within(200, api(std::slice::from_ref(&base)))]);
    let mut env = ready(&provider, &toolcall_task(spec, Vec::new())).await;
    let told = shown(env.as_mut(), &[call("api", json!({ "url": base }))]).await;
    assert_eq!(told, "[api] error: no answer, ended after 0.2 s");
}

#[tokio::test]
async fn a_secret_that_is_not_set_is_a_fault_of_the_lease() {
    let provider = bare_provider_with([]);
    let task = toolcall_task(in_process(vec![api(&["http://127.0.0.1:1/".to_owned()])]), Vec::new());
    let Err(fault) = provider.lease(clawrl_testkit::lease_request(&task)).await else { panic!("a lease") };
    assert_eq!(
        fault.message,
        "tools: api: http: headers: Authorization: the environment variable API_KEY is not set"
    );
}
