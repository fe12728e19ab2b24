//! `clawrl metrics`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;

use crate::place::{Place, SMALL};

fn with_a_run() -> Place {
    let place = Place::new();
    place.suite("small", SMALL);
    place.clawrl(&["run", "small", "--name", "r", "--quiet"]).ends(0);
    place
}

#[test]
fn a_history_is_lines_of_json_in_order() {
    let place = with_a_run();
    let said = place.clawrl(&["metrics", "r"]).ends(0);
    let lines: Vec<serde_json::Value> =
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!lines.is_empty());
    for (step, line) in lines.iter().enumerate() {
        assert_eq!(line["_step"], step);
    }
    let closed = lines.iter().filter_map(|line| line["slots/closed_count"].as_f64()).next_back();
    // The last line describes the end.
    assert_eq!(closed, Some(f64::from(place.run("r").summary().total.closed)), "{}", said.out);
}

#[test]
fn an_event_file_is_written_and_written_again_in_its_place() {
    let place = with_a_run();
    for follow in [&[] as &[&str], &["--follow"]] {
        let said = place.clawrl(&[&["metrics", "r", "--tensorboard", "events"], follow].concat()).ends(0);
        assert!(said.err.contains("bytes in events/r/events.out.tfevents.0.clawrl"), "{}", said.err);
        let files: Vec<_> = std::fs::read_dir(place.path().join("events/r")).unwrap().collect();
        assert_eq!(files.len(), 1, "{files:?}");
        let bytes = std::fs::read(place.path().join("events/r/events.out.tfevents.0.clawrl")).unwrap();
        for part in ["brain.Event:2", "slots/closed_count", "attempts/live_count"] {
            assert!(bytes.windows(part.len()).any(|window| window == part.as_bytes()), "{part}");
        }
    }
}

#[test]
fn prometheus_is_answered_until_it_is_interrupted() {
    let place = with_a_run();
    let mut live = place.start(&["metrics", "r", "--listen", "127.0.0.1:0"]);
    live.hears("listening on http://");
    let (_, address) = live.heard().split_once("http://").unwrap();
    let address = address.split('/').next().unwrap().to_owned();
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let figures = ask("GET /metrics");
    assert!(figures.starts_with("HTTP/1.1 200 OK"), "{figures}");
    assert!(figures.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{figures}");
    let closed = place.run("r").summary().total.closed;
    let line = format!("\nclawrl_slots_closed_count{{run=\"r\"}} {closed}\n");
    assert!(closed > 0 && figures.contains(&line), "{figures}");
    assert!(ask("GET /other").starts_with("HTTP/1.1 404"), "another page");
    assert!(ask("POST /metrics").starts_with("HTTP/1.1 405"), "another method");
    live.signal(Signal::INT);
    assert_eq!(live.ended().code, None);
}

#[test]
fn what_is_refused() {
    let place = with_a_run();
    let check = |arguments: &[&str], code: i32, part: &str| {
        let said = place.clawrl(&[&["metrics"], arguments].concat()).ends(code);
        assert!(said.err.contains(part) && said.out.is_empty(), "{said:?}");
    };
    check(&["none"], 8, "none");
    check(&["r", "--follow"], 2, "--tensorboard");
    check(&["r", "--listen", "here"], 2, "invalid");
    check(&["r", "--listen", "127.0.0.1:1", "--tensorboard", "x"], 2, "cannot be used with");
    check(&["r", "--listen", "192.0.2.1:9464"], 2, "cannot listen on 192.0.2.1:9464");
    std::fs::write(place.path().join("file"), "").unwrap();
    check(&["r", "--tensorboard", "file/events"], 7, "cannot write");
}
