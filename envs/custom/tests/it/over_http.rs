//! Environments that are servers: the same episodes as for programs, and protocol violations.

use std::time::Duration;

use clawrl_core::{Boundary, EnvProvider, Retry, StopReason};
use clawrl_testkit::lease_request;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{
    GUESS, bare_provider, begun, call, ctx, custom_task, guess, http, python, serve, with_provider,
};

const LIMIT: Duration = Duration::from_secs(5);

/// All that an episode of guesses shows.
async fn episode(provider: &dyn EnvProvider, spec: clawrl_core::CustomSpec) -> String {
    let (mut env, observation) = begun(provider, &custom_task(spec)).await;
    let mut told = vec![format!("{observation:?}")];
    for (seq, number) in [(1, 3), (2, 40), (3, 17)] {
        told.push(format!("{:?}", env.step(&[guess(number)], ctx(seq, LIMIT)).await.unwrap()));
    }
    told.push(format!("{:?}", env.grade(ctx(4, LIMIT)).await.unwrap()));
    env.close().await;
    told.join("\n")
}

#[test]
fn a_program_and_its_server_give_the_same_episode() {
    let config = json!({ "secret": 17, "tries": 5 });
    let spec = python(GUESS, config.clone());
    with_provider(&spec.clone(), |provider| async move {
        let of_program = episode(provider.as_ref(), spec).await;
        let (_server, address) = serve(GUESS).await;
        let of_server = episode(&bare_provider(), http(&address, config)).await;
        assert_eq!(of_program, of_server);
        assert!(
            of_program.contains("higher") && of_program.contains("lower") && of_program.contains("found")
        );
    });
}

#[tokio::test]
async fn server_separates_sessions() {
    let (_server, address) = serve(GUESS).await;
    let provider = bare_provider();
    let task = |secret: i64| custom_task(http(&address, json!({ "secret": secret, "tries": 5 })));
    let mut envs = Vec::new();
    for number in 0..20u32 {
        let mut request = lease_request(&task(i64::from(number)));
        request.attempt.slot = clawrl_core::SlotId(number);
        let mut env = provider.lease(request).await.unwrap();
        env.reset(ctx(0, LIMIT)).await.unwrap();
        envs.push(env);
    }
    for (number, env) in (0i64..).zip(&mut envs) {
        let found = env.step(&[guess(number)], ctx(1, LIMIT)).await.unwrap();
        assert_eq!(
            (found.end, found.process_reward),
            (Some(StopReason::Ended("found".to_owned())), Some(1.0))
        );
    }
    // Dropped, they are closed all the same.
    drop(envs);
    provider.shutdown().await;
    assert_eq!(provider.usage().live, 0);
}

/// A server that answers every request with these bytes.
async fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0u8; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(bytes).await;
        }
    });
    address
}

async fn check(address: &str, code: &str, retry: Retry, part: &str) {
    let provider = bare_provider();
    let mut env = provider.lease(lease_request(&custom_task(http(address, json!(null))))).await.unwrap();
    let fault = env.reset(ctx(0, LIMIT)).await.unwrap_err();
    assert_eq!((fault.boundary, fault.code.as_str(), fault.retry), (Boundary::Env, code, retry), "{fault}");
    assert!(fault.message.contains(part), "{fault}");
    env.close().await;
    assert_eq!(provider.usage().live, 0);
}

#[tokio::test]
async fn protocol_violations_of_servers_are_faults() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    check(&nobody, "server-unreachable", Retry::Sound, "check that the server runs").await;
    let missing = answering(b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnope").await;
    check(&missing, "http-status", Retry::Never, "HTTP 404 and `nope`").await;
    let broken = answering(b"HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n").await;
    check(&broken, "http-status", Retry::Sound, "HTTP 503").await;
    let garbage = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await;
    check(&garbage, "protocol", Retry::Sound, "came `hello`").await;
    let other = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{\"id\":9,\"result\":{}}").await;
    check(&other, "answer-unasked", Retry::Sound, "answered the request 1 with the id 9").await;
    let half = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"id\":1").await;
    check(&half, "connection-lost", Retry::Sound, "ended early").await;
    let said = b"HTTP/1.1 500 Oops\r\ncontent-length: 46\r\n\r\n{\"id\":1,\"error\":{\"code\":7,\"message\":\"no map\"}}";
    check(&answering(said).await, "env-error", Retry::Never, "error 7: no map").await;
}

#[tokio::test]
async fn submitted_answer_reaches_the_grade() {
    const ECHO: &str = "
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class H(BaseHTTPRequestHandler):
    def do_POST(self):
        r = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        result = {'reset': {'protocol': 1, 'observation': {'text': 'go'}}, 'grade': {'score': float(r['params'].get('answer') == '42')}}
        body = json.dumps({'id': r['id'], 'result': result.get(r['method'], {})}).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
s = HTTPServer(('127.0.0.1', 0), H)
print(f'listening on http://127.0.0.1:{s.server_port}', flush=True)
s.serve_forever()
";
    let (_server, address) = serve(ECHO).await;
    let provider = bare_provider();
    for (answer, score) in [(json!({ "answer": "42" }), 1.0), (json!({}), 0.0)] {
        let (mut env, observation) = begun(&provider, &custom_task(http(&address, json!(null)))).await;
        assert_eq!(observation.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["submit"]);
        let ended = env.step(&[call("submit", answer)], ctx(1, LIMIT)).await.unwrap();
        assert_eq!(ended.end, Some(StopReason::Submitted));
        assert_eq!(env.grade(ctx(2, LIMIT)).await.unwrap().score, score);
        env.close().await;
    }
}
