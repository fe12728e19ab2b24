//! Drives a browser through `chromedriver`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Deadline of a page.
const PATIENCE: Duration = Duration::from_secs(30);

/// A driver and its browser.
pub(super) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
}

impl Browser {
    pub(super) fn new() -> Self {
        let mut driver = Command::new("chromedriver");
        let driver = driver.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = driver.spawn().unwrap();
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.map(Result::unwrap).find_map(|line| {
            let (_, port) = line.split_once("successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        let address = SocketAddr::from(([127, 0, 0, 1], port.unwrap()));
        let mut browser = Self { driver, address, session: String::new() };
        // The browser loads only this test's pages, and root cannot use its sandbox.
        let arguments = json!({"args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"]});
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": arguments}}});
        let made = browser.ask("POST", "/session", &wanted).unwrap();
        browser.session = format!("/session/{}", made["sessionId"].as_str().unwrap());
        browser
    }

    /// Sends a command; returns its result or error.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        let (mut stream, body) = (TcpStream::connect(self.address).unwrap(), body.to_string());
        let (host, length) = (self.address, body.len());
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{body}")
            .unwrap();
        let mut answer = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            answer.read_line(&mut line).unwrap();
            line.trim_end().to_ascii_lowercase()
        };
        let is_done = line().contains(" 200 ");
        // The driver keeps the connection open and sends the body's length.
        let mut length = 0;
        loop {
            let line = line();
            if line.is_empty() {
                break;
            }
            length =
                line.strip_prefix("content-length:").map_or(length, |length| length.trim().parse().unwrap());
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body).unwrap();
        let value = serde_json::from_slice::<Value>(&body).unwrap()["value"].take();
        if is_done { Ok(value) } else { Err(value) }
    }

    pub(super) fn open(&self, url: &str) {
        self.ask("POST", &format!("{}/url", self.session), &json!({"url": url})).unwrap();
    }

    /// Sets the window size.
    pub(super) fn look(&self, width: u32, height: u32) {
        let screen = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        let body = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": screen});
        self.ask("POST", &format!("{}/goog/cdp/execute", self.session), &body).unwrap();
    }

    /// Runs a script in the page; returns its result.
    pub(super) fn script(&self, script: &str) -> Value {
        self.tried(script).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    fn tried(&self, script: &str) -> Result<Value, Value> {
        let body = json!({"script": script, "args": []});
        self.ask("POST", &format!("{}/execute/sync", self.session), &body)
    }

    /// Waits until a script in the page returns true. If the page unloads, asks the next one.
    #[track_caller]
    pub(super) fn until(&self, condition: &str) {
        let script = format!(
            "return new Promise(done => {{ const end = Date.now() + 5000; const look = () => {{ \
             if ({condition}) done(true); else if (Date.now() > end) done(false); else setTimeout(look, 20); }}; look(); }})"
        );
        let deadline = Instant::now() + PATIENCE;
        while self.tried(&script) != Ok(Value::Bool(true)) {
            assert!(Instant::now() < deadline, "never: {condition}");
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser would outlive its driver and is ended first. Errors are ignored: a test may be failing already.
        if let Ok(mut stream) = TcpStream::connect(self.address) {
            let _ = write!(
                stream,
                "DELETE {} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n\r\n",
                self.session, self.address
            );
            // The answer arrives after the browser has ended.
            let _ = stream.read(&mut [0]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
