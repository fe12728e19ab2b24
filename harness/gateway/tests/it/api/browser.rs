//! The dashboard in a real browser: it is live with its script, its forms pass its own rules, and hostile words stay words. The feature
//! `browser-tests` says that Chromium and its driver are there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::client::{request, send};
use super::house::House;
use super::scripted::{Scripted, said};

const HOSTILE: &str =
    "</pre><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">";

/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A driver, and a browser of it.
struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
}

impl Browser {
    async fn new() -> Self {
        let mut driver = Command::new("chromedriver");
        // What browsers leave behind for a moment holds nothing of ours open.
        let driver = driver.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = driver.spawn().unwrap();
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.map(Result::unwrap).find_map(|line| {
            line.split_once("successfully on port ")
                .map(|(_, port)| port.trim_end_matches('.').parse().unwrap())
        });
        let address = SocketAddr::from(([127, 0, 0, 1], port.unwrap()));
        let mut browser = Self { driver, address, session: String::new() };
        // It sees nothing but what this test wrote, and its own sandbox is refused to root.
        let arguments = json!({"args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"]});
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": arguments}}});
        let made = browser.ask("POST", "/session", &wanted).await;
        browser.session = made["sessionId"].as_str().unwrap().to_owned();
        browser
    }

    /// What the driver says, or its error.
    async fn tell(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        let host = self.address.to_string();
        let asked = request(method, path, &host, &[], body.to_string().as_bytes());
        let told = send(self.address, &asked).await;
        let is_done = told.status == 200;
        let value = told.json().await["value"].take();
        if is_done { Ok(value) } else { Err(value) }
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        self.tell(method, path, body).await.unwrap()
    }

    async fn open(&self, house: &House, path: &str) {
        let url = json!({"url": format!("http://{}{path}", house.host())});
        self.ask("POST", &format!("/session/{}/url", self.session), &url).await;
    }

    /// What a script in the page returns; a promise is waited for.
    async fn script(&self, script: &str) -> Value {
        self.tried(script).await.unwrap()
    }

    async fn tried(&self, script: &str) -> Result<Value, Value> {
        let body = json!({"script": script, "args": []});
        self.tell("POST", &format!("/session/{}/execute/sync", self.session), &body).await
    }

    /// Returns when the page says so. A page that goes away takes the question with it; then the next one is asked.
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
        // Its browser would go on without it, and is ended first. Nothing here may fail: a test may be failing already.
        if let Ok(mut stream) = TcpStream::connect(self.address) {
            let (path, host) = (format!("/session/{}", self.session), self.address.to_string());
            let _ = stream.write_all(&request("DELETE", &path, &host, &[], b""));
            // The answer comes when the browser has ended.
            let _ = stream.read(&mut [0]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_is_live_and_safe_in_a_browser() {
    let house = House::new(Scripted::new(vec![Ok(said(&[HOSTILE]))])).await;
    let ask = json!({"messages": [{"role": "user", "content": HOSTILE}]});
    house.post("/v1/chat/completions", &ask).await.text().await;
    let browser = Browser::new().await;
    browser.open(&house, "/").await;
    browser
        .script(
            "document.getElementById('key').value = 'one'; document.querySelector('.login button').click()",
        )
        .await;
    browser.until("document.getElementById('state')?.textContent === 'live'").await;
    browser.open(&house, "/turns/1").await;
    browser.until("document.getElementById('state').textContent === 'live'").await;
    browser.script("document.getElementById('text').value = 'half written'").await;
    let feedback = json!({"turn": 1, "rating": 1, "text": "said elsewhere"});
    assert_eq!(house.post("/v1/feedback", &feedback).await.status, 200);
    browser.until("document.getElementById('live').textContent.includes('said elsewhere')").await;
    assert_eq!(browser.script("return document.getElementById('text').value").await, "half written");
    browser.script("document.querySelector('button[value=down]').click()").await;
    browser.until("document.getElementById('live')?.textContent.includes('half written')").await;
    assert_eq!(house.turns().await[0].feedback.len(), 2);
    assert_eq!(browser.script("return document.title").await, "Turn 1 - ClawRL chat");
    assert_eq!(browser.script("return document.querySelectorAll('#live script, #live img').length").await, 0);
}
