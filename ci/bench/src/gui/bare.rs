//! Drivers with a browser each, as anybody would start them.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use clawrl_gui::BrowserPrograms;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::PREPARE;
use super::tally::{Pace, Seen, Tally};
use super::watch::{Most, watched};
use crate::terminals::Failure;

/// What a page at rest is, to classic WebDriver.
const SETTLE: &str = "const done = arguments[arguments.length - 1];\
    const quiet = () => { let changed = false; const watch = new MutationObserver(() => { changed = true; });\
    watch.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });\
    requestAnimationFrame(() => { watch.disconnect(); changed ? quiet() : done(); }); };\
    const loaded = () => document.readyState === 'complete' ? quiet() : setTimeout(loaded, 1); loaded();";

/// Runs the slots with browsers of their own.
pub(super) fn measure(
    html: &Path,
    programs: &BrowserPrograms,
    slots: u32,
    pace: Pace,
) -> Result<(Seen, Most), Failure> {
    let page = format!("file://{}/miniwob/click-checkboxes.html", html.display());
    Builder::new_multi_thread().enable_all().build()?.block_on(async {
        // No label of ours is on these browsers.
        let (seen, most) = watched(None, round(programs, slots, pace, &page)).await;
        Ok((seen?, Most { browsers: slots as usize, ..most }))
    })
}

async fn round(programs: &BrowserPrograms, slots: u32, pace: Pace, page: &str) -> Result<Seen, Failure> {
    let begun = Instant::now();
    let drivers = Drivers::start(programs, slots).await?;
    let start_s = begun.elapsed().as_secs_f64();
    drivers.at_once(page, Pace { attempts: 1, ..pace }).await?;
    let begun = Instant::now();
    let tally = drivers.at_once(page, pace).await?;
    let lasted_s = begun.elapsed().as_secs_f64();
    drivers.end().await?;
    Ok(Seen { tally, start_s, lasted_s, left: Vec::new() })
}

struct Drivers {
    programs: Vec<Child>,
    clients: Vec<Client>,
    _profiles: Vec<tempfile::TempDir>,
}

impl Drivers {
    async fn start(programs: &BrowserPrograms, count: u32) -> Result<Self, Failure> {
        let mut drivers = Self { programs: Vec::new(), clients: Vec::new(), _profiles: Vec::new() };
        for _ in 0..count {
            let mut driver = Command::new(&programs.driver)
                .args(["--port=0", "--log-level=SEVERE"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()?;
            let said = driver.stdout.take();
            drivers.programs.push(driver);
            let port = listening(said.ok_or("the driver has no output")?)?;
            let profile = tempfile::tempdir()?;
            let arguments = [
                "--headless=new".to_owned(),
                "--disable-gpu".to_owned(),
                "--no-first-run".to_owned(),
                "--disable-background-networking".to_owned(),
                // Of this side alone: it may run as root.
                "--no-sandbox".to_owned(),
                "--window-size=500,320".to_owned(),
                format!("--user-data-dir={}", profile.path().display()),
            ];
            drivers._profiles.push(profile);
            let wanted = json!({
                "browserName": "chrome",
                // As on our side. Without it the driver does not find the first page of a headless shell.
                "webSocketUrl": true,
                "goog:chromeOptions": { "binary": programs.browser, "args": arguments },
            });
            drivers.clients.push(connected(port, wanted).await?);
        }
        Ok(drivers)
    }

    /// Ends the browsers: a headless shell outlives a driver that is killed.
    async fn end(mut self) -> Result<(), Failure> {
        for client in std::mem::take(&mut self.clients) {
            client.close().await?;
        }
        Ok(())
    }

    async fn at_once(&self, page: &str, pace: Pace) -> Result<Tally, Failure> {
        let mut at_work = JoinSet::new();
        for client in &self.clients {
            let (client, page) = (client.clone(), page.to_owned());
            at_work.spawn(async move { slot(&client, &page, pace).await });
        }
        let mut all = Tally::default();
        while let Some(done) = at_work.join_next().await {
            all.add(done??);
        }
        Ok(all)
    }
}

async fn slot(client: &Client, page: &str, pace: Pace) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    for _ in 0..pace.attempts {
        let begun = Instant::now();
        client.goto(page).await?;
        client.execute(PREPARE, Vec::new()).await?;
        client.execute_async(SETTLE, Vec::new()).await?;
        tally.resets.push(begun.elapsed().as_secs_f64());
        let checkbox = client.find(Locator::Css("#area input[type=checkbox]")).await?;
        for _ in 0..pace.steps {
            let begun = Instant::now();
            checkbox.click().await?;
            client.execute_async(SETTLE, Vec::new()).await?;
            let seen = client.execute("return document.body.innerText", Vec::new()).await?;
            tally.steps.push(begun.elapsed().as_secs_f64());
            if !seen.as_str().is_some_and(|text| text.contains("Select")) {
                return Err(format!("the page came to {seen}").into());
            }
        }
    }
    Ok(tally)
}

impl Drop for Drivers {
    fn drop(&mut self) {
        for driver in &mut self.programs {
            // Of a round that failed its browser may be left.
            let _ = driver.kill();
            let _ = driver.wait();
        }
    }
}

/// The port that the driver says it listens on. What it says later is read and dropped, so that it never waits to say it.
fn listening(said: ChildStdout) -> Result<u16, Failure> {
    let mut lines = BufReader::new(said).lines();
    for line in lines.by_ref() {
        let line = line?;
        let Some((_, port)) = line.split_once("started successfully on port ") else { continue };
        let port = port.trim_end_matches('.').trim().parse()?;
        std::thread::spawn(move || lines.for_each(drop));
        return Ok(port);
    }
    Err("chromedriver ended without listening".into())
}

async fn connected(port: u16, wanted: Value) -> Result<Client, Failure> {
    let mut builder = ClientBuilder::new(HttpConnector::new());
    if let Value::Object(wanted) = wanted {
        builder.capabilities(wanted);
    }
    Ok(builder.connect(&format!("http://127.0.0.1:{port}")).await?)
}
