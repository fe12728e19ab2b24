//! Access to the pages.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::place::Place;

/// The port in the line with the address.
pub(super) fn port(line: &str) -> u16 {
    let (_, rest) = line.split_once("http://127.0.0.1:").unwrap_or_else(|| panic!("{line}"));
    rest.split('/').next().unwrap().parse().unwrap()
}

/// Sends a request; returns the head and the body.
fn asked(port: u16, method: &str, path: &str, host: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn all_runs_are_listed_and_lead_to_their_reports() {
    let place = Place::new();
    place.clawrl(&["run", "small", "--name", "one", "--quiet"]).ends(0);
    place.clawrl(&["run", "small", "--name", "two", "--policy", "noop", "--quiet"]).ends(0);
    fs::create_dir_all(place.run("one").dir().with_file_name("broken")).unwrap();
    fs::write(place.run("one").dir().with_file_name("broken").join("plan.json"), "{").unwrap();
    fs::create_dir_all(place.run("one").dir().with_file_name("empty")).unwrap();
    let mut live = place.start(&["view", "results"]);
    live.hears("http://127.0.0.1:");
    let port = port(live.heard());
    let host = format!("127.0.0.1:{port}");
    let get = |path: &str| {
        let (head, body) = asked(port, "GET", path, &host);
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        body
    };
    let page = get("/");
    for part in [
        "<a href=\"/runs/one/\">one</a>",
        "100.0 %",
        "<a href=\"/runs/two/\">two</a>",
        "noop",
        "broken",
        ">damaged<",
        "its folder has neither a plan nor a journal",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("href=\"/runs/broken/"), "{page}");
    assert!(get("/style.css").contains("font"));
    let report = get("/runs/one/");
    assert!(report.starts_with("<!doctype html>") && report.contains("id=\"d0\""));
    assert!(!place.run("one").dir().join("report.html").exists(), "nothing is written");
    let status = |method: &str, path: &str, host: &str| asked(port, method, path, host).0[9..12].to_owned();
    assert_eq!(status("GET", "/runs/three/", &host), "404");
    assert_eq!(status("GET", "/runs/one/plan.json", &host), "404");
    assert_eq!(status("GET", "/runs/broken/", &host), "500");
    assert_eq!(status("GET", "/", "evil.example"), "403");
    assert_eq!(status("DELETE", "/runs/one/", &host), "405");
    live.signal(rustix::process::Signal::INT);
    live.ended().ends(0);
}

#[test]
fn pictures_and_pages_of_trainings_are_served_without_scripts() {
    let place = Place::new();
    place.clawrl(&["run", "small", "--name", "one", "--limit", "1", "--quiet"]).ends(0);
    let run = place.run("one").dir().to_owned();
    fs::write(run.join("train.json"), "{}").unwrap();
    fs::write(run.join("report.html"), "<h1>Learned</h1><script>alert(1)</script>").unwrap();
    let picture = clawrl_core::BlobRef::of("image/png", b"a picture");
    let path = clawrl_record::blob_path(&picture).unwrap();
    fs::create_dir_all(run.join(&path).parent().unwrap()).unwrap();
    fs::write(run.join(&path), b"a picture").unwrap();
    let mut live = place.start(&["view", "results"]);
    live.hears("http://127.0.0.1:");
    let port = port(live.heard());
    let host = format!("localhost:{port}");
    assert!(asked(port, "GET", "/", &host).1.contains("href=\"/runs/one/training\""));
    let sandboxed = |path: &str, kind: &str| {
        let (head, body) = asked(port, "GET", path, &host);
        assert!(
            head.starts_with("HTTP/1.1 200") && head.contains(&format!("content-type: {kind}")),
            "{path}: {head}"
        );
        assert!(head.contains("content-security-policy: sandbox; default-src 'none'"), "{path}: {head}");
        body
    };
    assert!(sandboxed("/runs/one/training", "text/html").contains("Learned"));
    assert_eq!(sandboxed(&format!("/runs/one/{path}"), "image/png"), "a picture");
    // A picture that does not match its hash counts as damaged.
    fs::write(run.join(&path), b"another").unwrap();
    assert!(asked(port, "GET", &format!("/runs/one/{path}"), &host).0.starts_with("HTTP/1.1 500"));
    live.signal(rustix::process::Signal::INT);
    live.ended().ends(0);
}

#[test]
fn what_cannot_be_viewed_is_refused() {
    let place = Place::new();
    let said = place.clawrl(&["view", "nowhere"]).ends(2);
    assert!(said.err.contains("there is no folder") && said.err.contains("nowhere"), "{}", said.err);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    fs::create_dir_all(place.path().join("results")).unwrap();
    let said = place.clawrl(&["view", "results", "--port", &port]).ends(2);
    assert!(said.err.contains("cannot listen on 127.0.0.1") && said.err.contains("--port"), "{}", said.err);
}
