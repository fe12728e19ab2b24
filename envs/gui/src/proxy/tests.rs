//! A proxy on loopback, and hand-written browsers. Rules P1 to P6 are those of the module.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Waker};

use clawrl_core::{FixtureContent, FixtureFile, GuiSpec, SiteSpec};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::Proxy;
use super::serve::may_ask;
use crate::site::{SiteReader, Sites};

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The site `shop`, with a page and these routes, and additional origins.
async fn sites(routes: Value, origins: &[String]) -> Arc<Sites> {
    let content = FixtureContent::Inline("hello".to_owned());
    let spec = GuiSpec {
        sites: vec![SiteSpec {
            name: "shop".to_owned(),
            folder: None,
            files: vec![FixtureFile { path: "index.html".to_owned(), mode: 0o644, content }],
            routes: serde_json::from_value(routes).unwrap(),
        }],
        origins: origins.to_vec(),
        ..GuiSpec::default()
    };
    Arc::new(SiteReader::default().open(&spec).await.unwrap())
}

struct Browser(TcpStream);

impl Browser {
    async fn new(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    async fn send(&mut self, request: &str) {
        self.0.write_all(request.as_bytes()).await.unwrap();
    }

    async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    /// Sends a request; reads the status and the body of the answer.
    async fn ask(&mut self, request: &str) -> (u16, String) {
        self.send(request).await;
        let head = self.head().await;
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), String::from_utf8(body).unwrap())
    }

    async fn get(&mut self, address: &str) -> (u16, String) {
        self.ask(&format!("GET {address} HTTP/1.1\r\nhost: x\r\n\r\n")).await
    }

    /// Reads until the connection ends.
    async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset also ends a connection.
        let _ = self.0.read_to_end(&mut rest).await;
        rest
    }
}

fn hello() -> (u16, String) {
    (200, "hello".to_owned())
}

fn refusal(origin: &str) -> (u16, String) {
    (403, format!("refused: {origin} is not one of this task's\n"))
}

/// A server for one connection at a time that returns the request.
async fn echo(listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nconnection: x-hop\r\nx-hop: 1\r\nx-end: 1\r\ncontent-length: {}\r\n\r\n{head}",
            head.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn p1_everything_is_refused_until_opened() {
    let (listener, address) = listener().await;
    let proxy = Proxy::serve(listener, None);
    let mut browser = Browser::new(address).await;
    assert_eq!(browser.get("http://shop.localhost/").await, refusal("http://shop.localhost"));
    proxy.open(sites(json!([]), &[]).await);
    assert_eq!(proxy.refused(), [""; 0]);
    // On the same connection, too.
    assert_eq!(browser.get("http://shop.localhost/").await, hello());
    assert_eq!(browser.get("http://shop.localhost:80").await, hello());
    for (asked, origin) in [
        ("http://shop.localhost:8080/", "http://shop.localhost:8080"),
        ("http://other.localhost/", "http://other.localhost"),
        ("http://localhost/", "http://localhost"),
        ("http://127.0.0.1/", "http://127.0.0.1"),
        ("https://shop.localhost/", "https://shop.localhost"),
        ("http://[::1]:99/", "http://[::1]:99"),
        ("http://other.localhost/again", "http://other.localhost"),
    ] {
        assert_eq!(browser.get(asked).await, refusal(origin), "{asked}");
    }
    assert_eq!(proxy.refused().len(), 6);
    assert_eq!(browser.get("/").await.0, 400);
}

#[tokio::test]
async fn heads_have_no_body() {
    let (listener, address) = listener().await;
    let proxy = Proxy::serve(listener, None);
    proxy.open(sites(json!([]), &[]).await);
    let mut browser = Browser::new(address).await;
    browser.send("HEAD http://shop.localhost/ HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(browser.head().await.contains("content-length: 5\r\n"));
    assert_eq!(browser.get("http://shop.localhost/").await, hello());
}

#[tokio::test]
async fn requests_go_on_to_allowed_origins() {
    let (far, far_address) = listener().await;
    let (_silent, third) = listener().await;
    let server = tokio::spawn(echo(far));
    let (listener, address) = listener().await;
    let proxy = Proxy::serve(listener, None);
    proxy.open(sites(json!([]), &[format!("http://{far_address}"), "http://127.0.0.1:1".to_owned()]).await);
    let mut browser = Browser::new(address).await;
    let request = format!(
        "GET http://{far_address}/a?b HTTP/1.1\r\nhost: shop.localhost\r\nproxy-connection: keep-alive\r\n\
         connection: x-mine\r\nx-mine: 1\r\naccept: text/html\r\n\r\n"
    );
    browser.send(&request).await;
    let head = browser.head().await;
    assert!(head.contains("x-end: 1") && !head.contains("x-hop"), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    browser.0.read_exact(&mut body).await.unwrap();
    let body = String::from_utf8(body).unwrap();
    assert!(body.starts_with("get /a?b http/1.1\r\n"), "{body}");
    assert!(
        body.contains(&format!("host: {far_address}\r\n")) && body.contains("accept: text/html\r\n"),
        "{body}"
    );
    assert!(!body.contains("x-mine") && !body.contains("proxy-connection"), "{body}");
    let refused = browser.get(&format!("http://{third}/")).await;
    assert_eq!(refused, refusal(&format!("http://{third}")));
    assert_eq!(browser.get("http://127.0.0.1:1/").await.0, 502);
    server.abort();
}

#[tokio::test]
async fn p5_first_unreachable_origin_is_remembered() {
    let (silent, silent_address) = listener().await;
    let (closing, closing_address) = listener().await;
    let nobody = |port| format!("http://127.0.0.1:{port}");
    let origins = [format!("http://{silent_address}"), format!("http://{closing_address}"), nobody(1)];
    let check = async |asked: &str, expected: &str| {
        let (listener, address) = listener().await;
        let proxy = Proxy::serve(listener, None);
        proxy.open(sites(json!([]), &origins).await);
        let mut browser = Browser::new(address).await;
        assert_eq!(browser.get("http://other.localhost/").await.0, 403);
        assert_eq!(proxy.unreachable(), None);
        let (status, body) = browser.ask(asked).await;
        assert_eq!(status, 502, "{asked}");
        let first = proxy.unreachable().unwrap().to_owned();
        assert!(body.contains(&first) && first.contains(expected), "{first}");
        assert_eq!(browser.get(&nobody(1)).await.0, 502);
        assert_eq!(proxy.unreachable(), Some(first.as_str()));
    };
    let closes = tokio::spawn(async move { while closing.accept().await.is_ok() {} });
    let get = |address: &str| format!("GET {address}/ HTTP/1.1\r\nhost: x\r\n\r\n");
    check(&get(&nobody(1)), "failed to connect to http://127.0.0.1:1").await;
    check("CONNECT 127.0.0.1:1 HTTP/1.1\r\nhost: x\r\n\r\n", "failed to connect to https://127.0.0.1:1")
        .await;
    check(&get(&origins[1]), "did not answer").await;
    closes.abort();
    // From the request on, only waiting is left.
    let asked = tokio::spawn(async move {
        let (mut stream, _) = silent.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        tokio::time::pause();
        std::future::pending::<()>().await;
    });
    check(&get(&origins[0]), "did not answer within 60s").await;
    asked.abort();
}

#[tokio::test]
async fn tunnels_lead_to_allowed_origins() {
    let (far, far_address) = listener().await;
    let (_silent, third) = listener().await;
    let (listener, address) = listener().await;
    let proxy = Proxy::serve(listener, None);
    proxy.open(sites(json!([]), &[format!("https://{far_address}")]).await);
    let mut browser = Browser::new(address).await;
    browser.send(&format!("CONNECT {far_address} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    let (mut far, _) = far.accept().await.unwrap();
    assert!(browser.head().await.starts_with("HTTP/1.1 200"));
    browser.send("ping").await;
    let mut ping = [0; 4];
    far.read_exact(&mut ping).await.unwrap();
    far.write_all(b"pong").await.unwrap();
    browser.0.read_exact(&mut ping).await.unwrap();
    assert_eq!(&ping, b"pong");
    // The tunnel is established, and idle.
    proxy.quiet().await;
    let mut refused = Browser::new(address).await;
    let (status, _) = refused.ask(&format!("CONNECT {third} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    assert_eq!((status, proxy.refused()), (403, vec![format!("https://{third}")]));
    // By plain HTTP, the origin is a different one.
    assert_eq!(refused.get(&format!("http://{far_address}/")).await.0, 403);
    drop(far);
    assert_eq!(browser.rest().await, b"");
}

#[tokio::test]
async fn sites_are_spoken_to_in_tunnels() {
    let (listener, address) = listener().await;
    let proxy = Proxy::serve(listener, None);
    let sites = sites(json!([]), &[]).await;
    proxy.open(Arc::clone(&sites));
    let mut browser = Browser::new(address).await;
    assert_eq!(browser.ask("CONNECT shop.localhost:80 HTTP/1.1\r\nhost: x\r\n\r\n").await.0, 200);
    assert_eq!(browser.get("/").await, hello());
    assert_eq!(browser.get("/none").await.0, 404);
    assert_eq!(sites.requests().len(), 2);
    let mut refused = Browser::new(address).await;
    assert_eq!(refused.ask("CONNECT shop.localhost:443 HTTP/1.1\r\nhost: x\r\n\r\n").await.0, 403);
}

#[tokio::test]
async fn dropped_requests_end_the_connection() {
    let (listener, address) = listener().await;
    let proxy = Proxy::serve(listener, None);
    proxy.open(sites(json!([{"request": {"path": "/gone"}, "answer": "drop"}]), &[]).await);
    let mut browser = Browser::new(address).await;
    browser.send("GET http://shop.localhost/gone HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(browser.rest().await, b"");
    proxy.quiet().await;
}

#[tokio::test]
async fn too_much_is_not_read() {
    let (listener, address) = listener().await;
    let proxy = Proxy::serve(listener, None);
    proxy.open(sites(json!([]), &[]).await);
    let mut browser = Browser::new(address).await;
    let (status, _) = browser.get(&format!("http://shop.localhost/{}", "a".repeat(70_000))).await;
    assert!(matches!(status, 414 | 431), "{status}");
    assert_eq!(browser.rest().await, b"");
    let mut browser = Browser::new(address).await;
    let request = "POST http://shop.localhost/ HTTP/1.1\r\nhost: x\r\ncontent-length: 67108865\r\n\r\n";
    assert_eq!(browser.ask(request).await.0, 413);
    assert_eq!(browser.rest().await, b"");
}

#[tokio::test]
async fn p3_p4_delayed_answers_count_and_end_with_the_proxy() {
    let (far, far_address) = listener().await;
    let (listener, address) = listener().await;
    let proxy = Proxy::serve(listener, None);
    let slow = json!([{"request": {"path": "/slow"}, "delay": {"secs": 3600, "nanos": 0}, "answer": "drop"}]);
    let sites = sites(slow, &[format!("http://{far_address}")]).await;
    proxy.open(Arc::clone(&sites));
    assert_eq!(proxy.in_flight(), 0);
    proxy.quiet().await;
    let mut idle = Browser::new(address).await;
    assert_eq!(idle.get("http://shop.localhost/").await, hello());
    let mut tunnel = Browser::new(address).await;
    tunnel.send(&format!("CONNECT {far_address} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    let (mut far_tunnel, _) = far.accept().await.unwrap();
    assert!(tunnel.head().await.starts_with("HTTP/1.1 200"));
    let mut forwarded = Browser::new(address).await;
    forwarded.send(&format!("GET http://{far_address}/ HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    let (mut far_forwarded, _) = far.accept().await.unwrap();
    let mut slow = Browser::new(address).await;
    slow.send("GET http://shop.localhost/slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    // The request is counted before it is logged, and logged before it waits.
    while sites.requests().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(proxy.in_flight(), 2);
    let mut quiet = Box::pin(proxy.quiet());
    assert!(quiet.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    // An answer counts until all of it is sent.
    far_forwarded.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no").await.unwrap();
    forwarded.head().await;
    assert_eq!(proxy.in_flight(), 2);
    // A client that has gone away delays nothing.
    drop(slow);
    far_forwarded.write_all(b"k").await.unwrap();
    quiet.await;

    let mut slow = Browser::new(address).await;
    slow.send("GET http://shop.localhost/slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    while proxy.in_flight() == 0 {
        tokio::task::yield_now().await;
    }
    drop(proxy);
    for browser in [&mut idle, &mut tunnel, &mut slow] {
        assert_eq!(browser.rest().await, b"");
    }
    let mut rest = Vec::new();
    let _ = far_tunnel.read_to_end(&mut rest).await;
    assert_eq!(rest, b"");
    assert!(TcpStream::connect(address).await.is_err());
}

#[test]
fn p6_only_peers_that_are_named_may_ask() {
    let [one, other, own] = ["192.0.2.1", "192.0.2.2", "127.0.0.1"].map(|text| text.parse().unwrap());
    assert!(may_ask(Some(&[one]), one) && may_ask(Some(&[one]), own));
    assert!(!may_ask(Some(&[one]), other) && !may_ask(Some(&[]), one));
    assert!(may_ask(None, one) && may_ask(None, other));
}
