//! The dashboard in a real browser: its script keeps it live, its forms pass its own rules, and hostile text stays text. Needs Chromium and
//! its driver.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clawrl_gateway::Command as Asked;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::client::{request, send};
use super::scripted::{Scripted, said};
use super::test_server::{TestServer, user};
use super::test_trainer::{TestTrainer, go_back, learn};

const HOSTILE: &str =
    "</pre><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">";

/// Time limit of a page.
const PATIENCE: Duration = Duration::from_secs(30);

/// A driver and its browser.
struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
}

impl Browser {
    async fn new() -> Self {
        let mut driver = Command::new("chromedriver");
        // Processes that browsers leave for a moment do not hold our pipes open.
        let driver = driver.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = driver.spawn().unwrap();
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.map(Result::unwrap).find_map(|line| {
            line.split_once("successfully on port ")
                .map(|(_, port)| port.trim_end_matches('.').parse().unwrap())
        });
        let address = SocketAddr::from(([127, 0, 0, 1], port.unwrap()));
        let mut browser = Self { driver, address, session: String::new() };
        // It loads only this test's pages, and root cannot use its sandbox.
        let arguments = json!({"args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"]});
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": arguments}}});
        let made = browser.ask("POST", "/session", &wanted).await;
        browser.session = made["sessionId"].as_str().unwrap().to_owned();
        browser
    }

    /// The driver's response, or its error.
    async fn tell(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        let host = self.address.to_string();
        let asked = request(method, path, &host, &[], body.to_string().as_bytes());
        let response = send(self.address, &asked).await;
        let is_done = response.status == 200;
        let value = response.json().await["value"].take();
        if is_done { Ok(value) } else { Err(value) }
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        self.tell(method, path, body).await.unwrap()
    }

    async fn open(&self, server: &TestServer, path: &str) {
        let url = json!({"url": format!("http://{}{path}", server.host())});
        self.ask("POST", &format!("/session/{}/url", self.session), &url).await;
    }

    /// Logs in with Ada's key, and opens the overview.
    async fn log_in(&self, server: &TestServer) {
        self.open(server, "/").await;
        let fill =
            "document.getElementById('key').value = 'one'; document.querySelector('.login button').click()";
        self.script(fill).await;
        self.until("document.getElementById('state')?.textContent === 'live'").await;
    }

    /// Sends a command to the browser's developer interface.
    async fn devtools(&self, command: &str, params: &Value) {
        let body = json!({"cmd": command, "params": params});
        self.ask("POST", &format!("/session/{}/goog/cdp/execute", self.session), &body).await;
    }

    /// Emulates a screen of this width and colour scheme.
    async fn look(&self, width: u32, scheme: &str) {
        let screen = json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &screen).await;
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", &features).await;
    }

    /// The result of a script in the page; a promise is awaited.
    async fn script(&self, script: &str) -> Value {
        self.tried(script).await.unwrap()
    }

    async fn tried(&self, script: &str) -> Result<Value, Value> {
        let body = json!({"script": script, "args": []});
        self.tell("POST", &format!("/session/{}/execute/sync", self.session), &body).await
    }

    /// Waits for a condition. If the page is replaced meanwhile, the next one is checked.
    async fn until(&self, condition: &str) {
        let script = format!(
            "return new Promise(done => {{ const look = () => {condition} ? done(true) : setTimeout(look, 20); look(); }})"
        );
        let asked = async { while self.tried(&script).await != Ok(Value::Bool(true)) {} };
        timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("never: {condition}"));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser before its driver. Nothing here may panic: a test may be failing already.
        if let Ok(mut stream) = TcpStream::connect(self.address) {
            let (path, host) = (format!("/session/{}", self.session), self.address.to_string());
            let _ = stream.write_all(&request("DELETE", &path, &host, &[], b""));
            // The response comes when the browser has ended.
            let _ = stream.read(&mut [0]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dashboard_is_live_and_safe_in_a_browser() {
    let server = TestServer::new(Scripted::new(vec![Ok(said(&[HOSTILE]))])).await;
    let ask = json!({"messages": [{"role": "user", "content": HOSTILE}]});
    server.post("/v1/chat/completions", &ask).await.text().await;
    let browser = Browser::new().await;
    browser.log_in(&server).await;
    browser.open(&server, "/turns/1").await;
    browser.until("document.getElementById('state').textContent === 'live'").await;
    browser.script("document.getElementById('text').value = 'half written'").await;
    let feedback = json!({"turn": 1, "rating": 1, "text": "said elsewhere"});
    assert_eq!(server.post("/v1/feedback", &feedback).await.status, 200);
    browser.until("document.getElementById('live').textContent.includes('said elsewhere')").await;
    assert_eq!(browser.script("return document.getElementById('text').value").await, "half written");
    browser.script("document.querySelector('button[value=down]').click()").await;
    browser.until("document.getElementById('live')?.textContent.includes('half written')").await;
    assert_eq!(server.turns().await[0].feedback.len(), 2);
    assert_eq!(browser.script("return document.title").await, "Turn 1 - ClawRL chat");
    assert_eq!(browser.script("return document.querySelectorAll('#live script, #live img').length").await, 0);
}

/// A server where Ada has trained this many versions from 7 on, and its trainer.
async fn taught(versions: u64) -> (TestServer, std::sync::Arc<TestTrainer>) {
    let trainer = TestTrainer::new(7 + versions);
    let policy = Scripted::new(vec![Ok(said(&["One"]))]);
    let server = TestServer::learning(policy, std::sync::Arc::clone(&trainer) as _).await;
    for at in 0..versions {
        let ask = json!({"messages": [{"role": "user", "content": format!("question {at}")}]});
        server.post("/v1/chat/completions", &ask).await.text().await;
    }
    for (at, turn) in server.turns().await.iter().enumerate() {
        let figures =
            [("reward_mean", at as f64 / 8.0 - 0.5), ("kl", 0.001 * at as f64), ("update_seconds", 12.5)];
        learn(&server.record, (&user("ada"), turn.line.turn), 7 + at as u64, &figures).await;
    }
    (server, trainer)
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_fit_light_dark_and_phone_screens() {
    let (server, _) = taught(6).await;
    let browser = Browser::new().await;
    browser.log_in(&server).await;
    let mut colours = Vec::new();
    for (width, scheme) in [(1_200, "light"), (1_200, "dark"), (400, "light"), (400, "dark")] {
        browser.look(width, scheme).await;
        browser.open(&server, "/versions").await;
        let seen = "return [...document.querySelectorAll('.curve svg')].map(curve => curve.getBoundingClientRect()) \
                    .filter(place => place.width > 250 && place.height > 120 && place.right <= innerWidth).length";
        assert_eq!(browser.script(seen).await, 3, "{width} {scheme}");
        // Nothing is cut off or needs horizontal scrolling.
        let sideways = browser.script("return document.documentElement.scrollWidth <= innerWidth").await;
        assert_eq!(sideways, true, "{width} {scheme}");
        let cut = "return [...document.querySelectorAll('.curve svg')].some(curve => { \
                   const outer = curve.getBoundingClientRect(); \
                   return [...curve.querySelectorAll('text')].map(text => text.getBoundingClientRect()).some(inner => \
                   inner.left < outer.left || inner.right > outer.right || inner.bottom > outer.bottom) })";
        assert_eq!(browser.script(cut).await, false, "{width} {scheme}");
        let colour = "const of = (name, what) => getComputedStyle(document.querySelector(name))[what]; \
                      return [of('.curve .line', 'stroke'), of('.curve text', 'fill'), of('.curve .dot', 'fill')].join()";
        colours.push(browser.script(colour).await);
        // Everything was loaded from this server.
        let elsewhere = "return performance.getEntriesByType('resource').map(entry => entry.name) \
                         .filter(name => !name.startsWith(location.origin + '/') && !name.startsWith('data:'))";
        assert_eq!(browser.script(elsewhere).await, json!([]), "{width} {scheme}");
    }
    assert_eq!((&colours[0], &colours[1]), (&colours[2], &colours[3]));
    let [light, dark] = [&colours[0], &colours[1]].map(|colours| colours.as_str().unwrap());
    assert!(light.starts_with("rgb(31, 111, 235),rgb(0, 0, 0)"), "{light}");
    assert!(dark.starts_with("rgb(110, 168, 254),rgb(255, 255, 255)"), "{dark}");
}

#[tokio::test(flavor = "multi_thread")]
async fn buttons_pause_train_and_roll_back() {
    let (server, trainer) = taught(2).await;
    let browser = Browser::new().await;
    browser.log_in(&server).await;
    browser.open(&server, "/versions").await;
    let press = async |button: &str| {
        let found = format!(
            "const button = [...document.querySelectorAll('#live button')].find(button => {button}); button.click()"
        );
        browser.script(&found).await;
    };
    let paused = "document.querySelector('#status .tag')?.textContent === 'paused'";
    press("button.textContent === 'Pause'").await;
    browser.until(paused).await;
    press("button.textContent === 'Resume'").await;
    browser.until("document.querySelector('#status .tag')?.textContent === 'active'").await;
    press("button.textContent === 'Train now'").await;
    browser.until("document.getElementById('status')?.textContent.includes('made version 8')").await;
    press("button.value === '8'").await;
    browser.until("document.getElementById('status')?.textContent.includes('Version 10;')").await;
    let of = |command| ("ada".to_owned(), command);
    assert_eq!(
        trainer.commands(),
        [of(Asked::Pause), of(Asked::Resume), of(Asked::Train), of(Asked::RollBack(8))]
    );
    // Changes of the ledger appear without reloading the page.
    browser.until("document.getElementById('state').textContent === 'live'").await;
    browser.script("window.isTheSamePage = true").await;
    go_back(&server.record, 8, 10).await;
    browser.until("document.querySelector('.versions .bad')?.textContent === 'discarded'").await;
    assert_eq!(browser.script("return window.isTheSamePage").await, true);
    press("button.value === '9'").await;
    browser.until("document.getElementById('status')?.textContent.includes('Version 11;')").await;
    assert_eq!(trainer.commands(), [of(Asked::RollBack(9))]);
}
