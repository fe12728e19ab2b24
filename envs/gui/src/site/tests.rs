//! Sites without a network. Rules S1 to S5 are those of the module.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use clawrl_core::{FixtureContent, FixtureFile, GuiSpec, RequestPattern, SiteFolder, SiteSpec};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::*;

/// A site with these files of the plan, this folder and these routes.
fn spec(files: &[(&str, &str)], folder: Option<&Path>, routes: Value) -> GuiSpec {
    let file = |(path, text): &(&str, &str)| FixtureFile {
        path: (*path).to_owned(),
        mode: 0o644,
        content: FixtureContent::Inline((*text).to_owned()),
    };
    let folder = folder.map(|path| SiteFolder { path: path.to_owned(), sha256: folder_hash(path).unwrap() });
    GuiSpec {
        sites: vec![SiteSpec {
            name: "shop".to_owned(),
            folder,
            files: files.iter().map(file).collect(),
            routes: serde_json::from_value(routes).unwrap(),
        }],
        ..GuiSpec::default()
    }
}

async fn open(spec: &GuiSpec) -> Sites {
    SiteReader::default().open(spec).await.unwrap()
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(path).body(Full::default()).unwrap()
}

fn post(path: &str, kind: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(path).header("content-type", kind).body(Full::new(body.into())).unwrap()
}

async fn ask(sites: &Sites, request: Request<Full<Bytes>>) -> Result<Response<Body>, ConnectionDropped> {
    sites.answer(sites.site("shop.localhost").unwrap(), request).await
}

async fn read(answer: Response<Body>) -> (u16, String) {
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

async fn status(sites: &Sites, path: &str) -> u16 {
    ask(sites, get(path)).await.unwrap().status().as_u16()
}

#[track_caller]
fn header<'a>(answer: &'a Response<Body>, name: &str) -> Option<&'a str> {
    answer.headers().get(name).map(|value| value.to_str().unwrap())
}

fn pattern(value: Value) -> RequestPattern {
    serde_json::from_value(value).unwrap()
}

fn respond(request: Value, body: &str) -> Value {
    json!({"request": request, "answer": {"respond": {"status": 200, "body": {"inline": body}}}})
}

#[tokio::test]
async fn files_of_the_plan_come_before_those_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    for (name, text) in [("index.html", "folder"), ("a.css", "css"), ("sub/index.html", "sub")] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let sites = open(&spec(&[("index.html", "plan")], Some(folder.path()), json!([]))).await;
    let answer = ask(&sites, get("/")).await.unwrap();
    assert_eq!(header(&answer, "content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(header(&answer, "cache-control"), Some("no-store"));
    assert_eq!(read(answer).await, (200, "plan".to_owned()));
    let answer = ask(&sites, get("/a.css?v=1")).await.unwrap();
    assert_eq!(header(&answer, "content-type"), Some("text/css; charset=utf-8"));
    assert_eq!(read(answer).await, (200, "css".to_owned()));
    assert_eq!(read(ask(&sites, get("/sub/")).await.unwrap()).await, (200, "sub".to_owned()));
    let answer = ask(&sites, get("/sub?x=1")).await.unwrap();
    assert_eq!(header(&answer, "location"), Some("/sub/?x=1"));
    assert_eq!(read(ask(&sites, get("/none")).await.unwrap()).await.0, 404);
    assert_eq!(status(&sites, "/favicon.ico").await, 204);
    let entry = |(path, query, status): (&str, Option<(&str, &str)>, u16)| LoggedRequest {
        site: "shop".into(),
        method: "GET".to_owned(),
        path: path.to_owned(),
        query: query.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        form: Vec::new(),
        cookies: Vec::new(),
        json: None,
        is_cut: false,
        status: Some(status),
        is_written: false,
    };
    let expected = [
        ("/", None, 200),
        ("/a.css", Some(("v", "1")), 200),
        ("/sub/", None, 200),
        ("/sub", Some(("x", "1")), 301),
        ("/none", None, 404),
    ];
    assert_eq!(sites.requests(), expected.map(entry));
}

#[tokio::test]
async fn route_answers_differ_from_errors() {
    let answer = json!({"respond": {"status": 404, "body": {"inline": "gone"}}});
    let routes = json!([
        {"request": {"path": "/a b"}, "times": 1, "answer": answer},
        {"request": {"path": "/moved"}, "answer": {"serve": {"path": "/nowhere"}}},
    ]);
    let sites = open(&spec(&[], None, routes)).await;
    let check = |address: &str, expected: Option<bool>| {
        assert_eq!(sites.is_written(&address.parse().unwrap()), expected, "{address}");
    };
    check("http://shop.localhost/a%20b", Some(false));
    assert_eq!(status(&sites, "/a%20b").await, 404);
    check("http://shop.localhost/a%20b?x#y", Some(true));
    assert_eq!(status(&sites, "/a%20b").await, 404);
    check("http://shop.localhost/a%20b", Some(false));
    assert_eq!(status(&sites, "/moved").await, 404);
    check("http://shop.localhost/moved", Some(false));
    check("http://other.localhost/", None);
    check("https://shop.localhost/", None);
    check("http://shop.localhost:81/", None);
}

#[tokio::test]
async fn several_cookies_are_set_at_once() {
    let routes = json!([
        {"request": {"path": "/in"}, "answer": {"respond": {
            "status": 200, "headers": {"set-cookie": "a=1"}, "cookies": ["b=2; Path=/", "c=3"], "body": {"inline": ""}}}},
        {"request": {"path": "/on"}, "answer": {"redirect": {"to": "/", "cookies": ["b=2", "c=3"]}}},
    ]);
    let sites = open(&spec(&[], None, routes)).await;
    let check = async |path: &str, expected: &[&str]| {
        let answer = ask(&sites, get(path)).await.unwrap();
        let set: Vec<&str> =
            answer.headers().get_all("set-cookie").iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(set, expected, "{path}");
    };
    check("/in", &["a=1", "b=2; Path=/", "c=3"]).await;
    check("/on", &["b=2", "c=3"]).await;
    let routes = json!([{"request": {}, "answer": {"redirect": {"to": "/", "cookies": ["a=1\n"]}}}]);
    let fault = SiteReader::default().open(&spec(&[], None, routes)).await.unwrap_err();
    assert_eq!(fault.code, "site", "{fault}");
}

#[tokio::test]
async fn s1_nothing_but_files_of_the_site_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::NamedTempFile::new().unwrap();
    fs::write(folder.path().join("real"), "real").unwrap();
    symlink("/etc/passwd", folder.path().join("passwd")).unwrap();
    symlink("/etc", folder.path().join("etc")).unwrap();
    symlink("real", folder.path().join("inner")).unwrap();
    make_fifo(&folder.path().join("fifo"));
    let sites = open(&spec(&[], Some(folder.path()), json!([]))).await;
    assert_eq!(status(&sites, "/real").await, 200);
    let name = outside.path().display().to_string();
    for path in [
        "/passwd",
        "/etc/passwd",
        "/inner",
        "/fifo",
        "/%2e%2e/",
        "/..%2f..%2fetc/passwd",
        "//etc/passwd",
        "/real%00",
        "/real/",
        "/real/../real",
        "/./real",
        "/..\\real",
        "/%5c..%5creal",
        &format!("/{name}"),
        &format!("/{}", "a".repeat(60_000)),
    ] {
        assert_eq!(status(&sites, path).await, 404, "{path}");
    }
    // Files added later are not in the plan.
    fs::write(folder.path().join("later"), "later").unwrap();
    assert_eq!(status(&sites, "/later").await, 404);
    assert_eq!(sites.fault(), None);
}

/// Creates a FIFO with the system's program, because no crate here has the call.
fn make_fifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[tokio::test]
async fn s2_files_that_changed_are_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let host = tempfile::NamedTempFile::with_suffix(".txt").unwrap();
    fs::write(host.path(), "host").unwrap();
    fs::write(folder.path().join("a"), "1").unwrap();
    fs::write(folder.path().join("b"), "1").unwrap();
    let mut spec = spec(&[], Some(folder.path()), json!([]));
    let sha256 = Sha256::digest("host").iter().map(|byte| format!("{byte:02x}")).collect();
    let content = FixtureContent::Host { path: host.path().to_owned(), sha256 };
    spec.sites[0].files.push(FixtureFile { path: "host.txt".to_owned(), mode: 0o644, content });
    let reader = SiteReader::default();
    let sites = reader.open(&spec).await.unwrap();
    assert_eq!(read(ask(&sites, get("/host.txt")).await.unwrap()).await, (200, "host".to_owned()));
    fs::write(folder.path().join("a"), "22").unwrap();
    // Not checked yet: attempts that do not need the file continue.
    let unaware = reader.open(&spec).await.unwrap();
    assert_eq!(status(&unaware, "/b").await, 200);
    assert_eq!(status(&sites, "/a").await, 500);
    assert!(sites.fault().unwrap().message.contains("\"a\" of site shop"));
    let fault = reader.open(&spec).await.unwrap_err();
    assert!(fault.message.contains("has changed since the plan was made"), "{fault}");
    fs::write(folder.path().join("a"), "1").unwrap();
    let restored = reader.open(&spec).await.unwrap();
    assert_eq!(status(&restored, "/a").await, 200);
    // Even where a file was before, a link is not followed, and a FIFO is not waited for.
    fs::remove_file(folder.path().join("a")).unwrap();
    symlink("b", folder.path().join("a")).unwrap();
    assert_eq!(status(&restored, "/a").await, 500);
    fs::remove_file(folder.path().join("b")).unwrap();
    make_fifo(&folder.path().join("b"));
    assert_eq!(status(&restored, "/b").await, 500);
    fs::write(host.path(), "other").unwrap();
    assert_eq!(status(&restored, "/host.txt").await, 500);
    assert!(reader.open(&spec).await.is_err());
    fs::remove_file(host.path()).unwrap();
    assert!(reader.open(&spec).await.is_err());
}

#[tokio::test]
async fn parts_of_files_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let video: Vec<u8> = (0..300_000_u32).map(|place| (place % 251) as u8).collect();
    fs::write(folder.path().join("a.mp4"), &video).unwrap();
    let sites = open(&spec(&[("t.txt", "0123456789")], Some(folder.path()), json!([]))).await;
    let part = async |path: &str, range: &str| {
        let request = Request::get(path).header("range", range).body(Full::default()).unwrap();
        let answer = ask(&sites, request).await.unwrap();
        let found = (answer.status().as_u16(), header(&answer, "content-range").map(str::to_owned));
        (found, answer.into_body().collect().await.unwrap().to_bytes())
    };
    let (found, bytes) = part("/t.txt", "bytes=2-4").await;
    assert_eq!((found, &bytes[..]), ((206, Some("bytes 2-4/10".to_owned())), &b"234"[..]));
    let (found, bytes) = part("/a.mp4", "bytes=100-").await;
    assert_eq!(found, (206, Some("bytes 100-299999/300000".to_owned())));
    assert_eq!(bytes, &video[100..]);
    assert_eq!(part("/t.txt", "bytes=10-").await.0, (416, Some("bytes */10".to_owned())));
    let answer = ask(&sites, get("/a.mp4")).await.unwrap();
    assert_eq!(header(&answer, "content-length"), Some("300000"));
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), video);
    let head = Request::head("/a.mp4").header("range", "bytes=0-1").body(Full::default()).unwrap();
    let answer = ask(&sites, head).await.unwrap();
    assert_eq!(header(&answer, "content-length"), Some("300000"));
    assert_eq!(read(answer).await, (200, String::new()));
}

#[tokio::test]
async fn routes_answer_instead_of_files() {
    let routes = json!([
        {"request": {"method": "POST", "path": "/order", "form": {"item": "tea"}},
         "answer": {"redirect": {"to": "/thanks.html", "headers": {"set-cookie": "cart=1; Path=/"}}}},
        {"request": {"method": "POST", "path": "/api/*", "json": {"/n": 2}},
         "answer": {"respond": {"status": 201, "headers": {"content-type": "application/json", "cache-control": "max-age=9"},
                                "body": {"inline": "{}"}}}},
        {"request": {"method": "POST", "path": "/upload", "form": {"file": "a.png"}},
         "answer": {"serve": {"path": "/thanks.html"}}},
        {"request": {"path": "/empty"}, "answer": {"respond": {"status": 204, "body": {"inline": "x"}}}},
        {"request": {"path": "/gone"}, "answer": "drop"},
        {"request": {"path": "/thanks.html", "cookies": {"cart": "0"}}, "answer": {"redirect": {"to": "/"}}},
        {"request": {"path": "/thanks.html"}, "answer": {"serve": {}}},
    ]);
    let sites = open(&spec(&[("thanks.html", "thanks")], None, routes)).await;
    let form = "application/x-www-form-urlencoded";
    let answer = ask(&sites, post("/order", form, "item=tea&n=1")).await.unwrap();
    assert_eq!(header(&answer, "location"), Some("/thanks.html"));
    assert_eq!(header(&answer, "set-cookie"), Some("cart=1; Path=/"));
    assert_eq!(header(&answer, "connection"), Some("close"), "a site that drops keeps no connection");
    assert_eq!(answer.status().as_u16(), 303);
    assert_eq!(read(ask(&sites, post("/order", form, "item=milk")).await.unwrap()).await.0, 404);
    let answer = ask(&sites, post("/api/x", "application/json", "{\"n\": 2.0}")).await.unwrap();
    assert_eq!(header(&answer, "content-type"), Some("application/json"));
    assert_eq!(header(&answer, "cache-control"), Some("max-age=9"));
    assert_eq!(read(answer).await, (201, "{}".to_owned()));
    let upload =
        "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\r\n\0\r\n--b--\r\n";
    let answer = ask(&sites, post("/upload", "multipart/form-data; boundary=b", upload)).await.unwrap();
    assert_eq!(read(answer).await, (200, "thanks".to_owned()));
    let answer = ask(&sites, get("/empty")).await.unwrap();
    assert_eq!((header(&answer, "content-length"), header(&answer, "content-type")), (None, None));
    assert_eq!(read(answer).await, (204, String::new()));
    assert_eq!(ask(&sites, get("/gone")).await.unwrap_err(), ConnectionDropped);
    let cookie = |value| Request::get("/thanks.html").header("cookie", value).body(Full::default()).unwrap();
    assert_eq!(ask(&sites, cookie("cart=0")).await.unwrap().status().as_u16(), 303);
    assert_eq!(read(ask(&sites, cookie("x=0; cart=1")).await.unwrap()).await, (200, "thanks".to_owned()));
    assert_eq!(ask(&sites, post("/", form, "")).await.unwrap().status().as_u16(), 404);
    let statuses: Vec<_> = sites.requests().into_iter().map(|entry| entry.status).collect();
    assert_eq!(
        statuses,
        [Some(303), Some(404), Some(201), Some(200), Some(204), None, Some(303), Some(200), Some(404)]
    );
    assert_eq!(sites.matching(Some("shop"), &pattern(json!({"form": {"file": "a.png"}}))).surely, 1);
    assert_eq!(sites.matching(None, &pattern(json!({"json": {"/n": 2}}))).surely, 1);
    assert_eq!(sites.matching(Some("other"), &pattern(json!({}))), Matching::default());
}

#[tokio::test]
async fn files_are_only_read() {
    let sites = open(&spec(&[("a.html", "a")], None, json!([]))).await;
    let answer = ask(&sites, post("/a.html", "text/plain", "x")).await.unwrap();
    assert_eq!(header(&answer, "allow"), Some("GET, HEAD"));
    assert_eq!(answer.status().as_u16(), 405);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s4_routes_answer_exact_number_of_times() {
    let mut route = respond(json!({"path": "/n"}), "route");
    route["after"] = json!(10);
    route["times"] = json!(25);
    let sites = std::sync::Arc::new(open(&spec(&[("n", "file")], None, json!([route]))).await);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let sites = std::sync::Arc::clone(&sites);
        tasks.spawn(async move {
            let mut routed = 0;
            for _ in 0..10 {
                let (_, body) = read(ask(&sites, get("/n")).await.unwrap()).await;
                routed += usize::from(body == "route");
            }
            routed
        });
    }
    assert_eq!(tasks.join_all().await.into_iter().sum::<usize>(), 25);
    assert_eq!(sites.matching(None, &pattern(json!({"path": "/n"}))), Matching { surely: 80, perhaps: 0 });
}

#[tokio::test(start_paused = true)]
async fn delays_affect_only_their_requests() {
    let mut slow = respond(json!({"path": "/slow"}), "slow");
    slow["delay"] = json!({"secs": 3, "nanos": 0});
    let sites = open(&spec(&[("fast", "fast")], None, json!([slow]))).await;
    let start = tokio::time::Instant::now();
    let (slow, second) = tokio::join!(ask(&sites, get("/slow")), async {
        let fast = ask(&sites, get("/fast")).await.unwrap();
        assert_eq!((read(fast).await.1.as_str(), start.elapsed()), ("fast", Duration::ZERO));
        ask(&sites, get("/slow")).await
    });
    assert_eq!(read(slow.unwrap()).await.1, "slow");
    assert_eq!(read(second.unwrap()).await.1, "slow");
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

#[tokio::test]
async fn s3_s5_a_full_log_ends_the_answers() {
    let sites =
        open(&spec(&[("a", "a")], None, json!([respond(json!({"path": "/secret"}), "secret")]))).await;
    let long = format!("/a?{}", "x".repeat(60_000));
    let mut answered = 0;
    while status(&sites, &long).await == 200 {
        answered += 1;
        assert!(answered < 1_000);
    }
    // Smaller ones still fit; none is answered without its entry.
    while status(&sites, "/secret").await == 200 {
        answered += 1;
        assert!(answered < 1_000);
    }
    assert_eq!(sites.requests().len(), answered);
}

#[tokio::test]
async fn invalid_site_values_are_faults() {
    let check = async |answer: Value, origins: &[&str]| {
        let mut spec = spec(&[], None, json!([{"request": {}, "answer": answer}]));
        spec.origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
        SiteReader::default().open(&spec).await.is_err()
    };
    let respond = |status: u16, name: &str, value: &str| json!({"respond": {"status": status, "headers": {name: value}, "body": {"inline": ""}}});
    assert!(!check(respond(200, "x-a", "b"), &["https://example.org"]).await);
    assert!(check(respond(100, "x-a", "b"), &[]).await);
    assert!(check(respond(200, "x a", "b"), &[]).await);
    assert!(check(respond(200, "x-a", "b\r\nc"), &[]).await);
    assert!(check(respond(200, "content-length", "5"), &[]).await);
    assert!(check(json!({"redirect": {"to": "/\n"}}), &[]).await);
    assert!(check(json!("drop"), &["example.org"]).await);
}
