//! Remote browsers: endpoints from an environment variable.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::process::Output;

use rustix::net::{self, AddressFamily, SocketType};

use crate::place::{Place, Said};

const SUITE: &str = "format: 1
suite: browsed
tasks:
  - id: look
    instruction: Look.
    env: { gui: { sites: { app: { files: { index.html: <title>Here</title> } } } } }
    checks: [{ page_url: http://app.localhost/ }]
";

/// Runs with these endpoints and an empty PATH.
fn with(place: &Place, webdriver: &str, arguments: &[&str]) -> Output {
    let mut command = place.command(arguments);
    command.env("CLAWRL_WEBDRIVER", webdriver).env("PATH", "/nonexistent").output().unwrap()
}

fn finding(place: &Place, webdriver: &str) -> serde_json::Value {
    let findings: serde_json::Value =
        serde_json::from_slice(&with(place, webdriver, &["doctor", "--json"]).stdout).unwrap();
    let all = findings.as_array().unwrap();
    assert!(all.iter().all(|finding| finding["name"] != "browser"), "none of this machine is needed");
    all.iter().find(|finding| finding["name"] == "webdriver").unwrap().clone()
}

#[test]
fn endpoints_that_are_none_are_refused_and_silent_ones_told_before_anything_runs() {
    let place = Place::new();
    place.suite("browsed", SUITE);
    let arguments = ["run", "browsed", "--policy", "noop"];
    let run = |webdriver: &str, code| Said::of(&with(&place, webdriver, &arguments)).ends(code).err;
    insta::assert_snapshot!(run("http://127.0.0.1:1, http://ada:secret@grid:port", 2), @"
    error: CLAWRL_WEBDRIVER: `http://grid:port` is not the address of a WebDriver endpoint: invalid port number
      help: `clawrl help environment` says what may be in it
    ");
    // A port that is bound but does not listen.
    let taken = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::bind(&taken, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let silent = SocketAddrV4::try_from(net::getsockname(&taken).unwrap()).unwrap();
    let told = run(&format!("http://ada:secret@{silent}"), 6);
    let expected = format!("error: no WebDriver endpoint answers (webdriver-unreachable): http://{silent}/ ");
    assert!(told.starts_with(&expected) && told.contains("CLAWRL_WEBDRIVER"), "{told}");
    assert!(!place.results().exists());
    let found = finding(&place, &format!("http://{silent}"));
    assert_eq!(found["health"], "warn");
    assert_eq!(finding(&place, "grid")["health"], "missing");
}

/// A tebibyte, which no test machine has.
#[test]
fn what_a_browser_takes_is_asked_of_this_machine_only_where_it_runs_here() {
    let place = Place::new();
    place.suite("browsed", &SUITE.replace("{ gui: {", "{ gui: { memory_mib: 1048576,"));
    let here = place.clawrl(&["plan", "browsed", "--policy", "noop"]).ends(2).err;
    assert!(here.contains("a task may use 1048576 MiB of memory"), "{here}");
    let arguments =
        ["plan", "browsed", "--policy", "noop", "--repeats", "500", "--concurrency", "500", "--json"];
    let planned = Said::of(&with(&place, "http://grid:4444", &arguments)).ends(0).json();
    assert_eq!(planned["concurrency"]["attempts"], 500);
    assert_eq!(planned["concurrency"]["host"]["browsers"], "elsewhere");
}

#[test]
fn doctor_tells_what_endpoints_say() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let driver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let head: Vec<String> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        let body = r#"{"value":{"ready":true,"message":"Ready.","build":{"version":"1.2.3 (abc)"}}}"#;
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        head[0].clone()
    });
    let found = finding(&place, &format!("http://{address}/wd/hub"));
    assert_eq!(found["found"], format!("http://{address}/wd/hub/ 1.2.3, ready: Ready."));
    assert_eq!(found["health"], "ok");
    assert_eq!(driver.join().unwrap(), "GET /wd/hub/status HTTP/1.1");
}
