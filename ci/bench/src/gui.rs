//! A step and a reset of a GUI environment, against bare WebDriver on the same page and, where it is there, BrowserGym.
//!
//! - step: `click 1` through the environment: the click, the page at rest, and all of it as text; a checkbox of the family
//!   `click-checkboxes` of MiniWoB++, which can be clicked for ever.
//! - bare: a driver and a browser without any sandbox, proxy or site of ours, told to click the same checkbox, to wait until
//!   nothing is loaded and a frame passed without a change, and to read the page's text: three classic commands.
//! - reset: a lease and a reset; bare, the page loaded and its episode started in a browser that is there.
//! - browsergym: `peers/browsergym_step.py`, if `--browsergym` names a Python that has `browsergym-miniwob`.
//!
//! The comparison leans to the bare side: it has no sandbox, one tab for ever, and no accessibility tree to read.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{EnvProvider, EnvSpec, GuiSpec, SandboxKind, SiteFolder, SiteSpec, TaskSpec, ToolCall};
use clawrl_gui::{
    BrowserKind, BrowserPrograms, BrowserSource, GuiConfig, GuiProvider, find_programs, folder_hash,
};
use clawrl_sandbox::{SandboxBackend, WarmMarks};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::rows;
use crate::table::{Sample, render};
use crate::terminals::{Failure, ctx, lease_of, task_of, with_backend};

/// The rows of the design that this area answers to.
const STEP_AT_MOST: f64 = 1.5;
const BROWSERGYM_AT_LEAST: f64 = 10.0;

/// Starts an episode, as the importer's tasks do.
const PREPARE: &str = "Math.seedrandom('1'); core.EPISODE_MAX_TIME = 1e9; core.startEpisodeReal();";

/// What a page at rest is, to classic WebDriver.
const SETTLE: &str = "const done = arguments[arguments.length - 1];\
    const quiet = () => { let changed = false; const watch = new MutationObserver(() => { changed = true; });\
    watch.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });\
    requestAnimationFrame(() => { watch.disconnect(); changed ? quiet() : done(); }); };\
    const loaded = () => document.readyState === 'complete' ? quiet() : setTimeout(loaded, 1); loaded();";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder `html` of the package `miniwob`, or the one that `clawrl import miniwob` made of it.
    #[arg(long)]
    miniwob: PathBuf,
    /// Environments at once.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16])]
    slots: Vec<usize>,
    /// How often each side is measured, after one round that does not count.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Steps of each slot in a round.
    #[arg(long, default_value_t = 60)]
    steps: u32,
    /// A Python with `browsergym-miniwob`; `peers/install.sh browsergym` makes one.
    #[arg(long)]
    browsergym: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Step,
    Bare,
    Reset,
    BareReset,
    Browsergym,
    BrowsergymReset,
}

impl Side {
    fn label(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Bare => "bare step",
            Self::Reset => "reset, warm",
            Self::BareReset => "bare reset",
            Self::Browsergym => "BrowserGym step",
            Self::BrowsergymReset => "BrowserGym reset",
        }
    }
}

#[derive(Debug, Clone, Serialize)]
struct Row {
    side: Side,
    slots: usize,
    round: u32,
    p50_ms: f64,
    p95_ms: f64,
    /// Of all slots together.
    per_second: f64,
}

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let html = std::fs::canonicalize(&arguments.miniwob)
        .map_err(|error| format!("{}: {error}", arguments.miniwob.display()))?;
    if !html.join("miniwob/click-checkboxes.html").is_file() {
        return Err(format!("{} has no miniwob/click-checkboxes.html", html.display()).into());
    }
    let programs = find_programs(&std::env::var("PATH").unwrap_or_default())?;
    let mut rows = Vec::new();
    for &slots in &arguments.slots {
        rows.extend(with_backend("gui", async |_, backend| {
            let backend: Arc<dyn SandboxBackend> = Arc::new(backend.clone());
            rounds(arguments, slots, &html, &programs, backend).await
        })?);
    }
    if let Some(python) = &arguments.browsergym {
        rows.extend(browsergym(python, &html, &programs, arguments)?);
    }
    rows::append(out, "gui", &rows)?;
    Ok(table(arguments, &rows))
}

async fn rounds(
    arguments: &Arguments,
    slots: usize,
    html: &Path,
    programs: &BrowserPrograms,
    backend: Arc<dyn SandboxBackend>,
) -> Result<Vec<Row>, Failure> {
    let spec = spec(html)?;
    let kind = BrowserKind { sandbox: spec.sandbox, memory_mib: spec.memory_mib };
    let provider = Arc::new(GuiProvider::new(GuiConfig {
        backends: HashMap::from([(SandboxKind::Bubblewrap, backend)]),
        source: BrowserSource::Here(programs.clone()),
        // Nothing is made while something else is timed.
        marks: WarmMarks { low: 0, high: 0 },
        expected: vec![(kind, u32::MAX)],
        judge: None,
    }));
    let task = task_of("gui", EnvSpec::Gui(Box::new(spec)));
    let mut rows = Vec::new();
    let drivers = Drivers::start(programs, slots).await?;
    for round in 0..=arguments.rounds {
        let ours = of_ours(&provider, &task, slots, arguments.steps).await?;
        let bare = drivers.measure(html, arguments.steps).await?;
        if round > 0 {
            for (side, times) in [(Side::Step, &ours.steps), (Side::Bare, &bare.steps)] {
                rows.push(row(side, slots, round, times, times.len() as f64 / longest(times, slots)));
            }
            for (side, times) in [(Side::Reset, &ours.resets), (Side::BareReset, &bare.resets)] {
                rows.push(row(side, slots, round, times, f64::NAN));
            }
        }
    }
    drop(drivers);
    let left = provider.shutdown().await.leftovers;
    if left.is_empty() { Ok(rows) } else { Err(format!("left behind: {}", left.join("; ")).into()) }
}

/// Seconds that the busiest slot was at work; times are in the order of slots.
fn longest(times: &[Duration], slots: usize) -> f64 {
    let each = times.len().div_ceil(slots.max(1)).max(1);
    times.chunks(each).map(|of_slot| of_slot.iter().sum::<Duration>().as_secs_f64()).fold(0.0, f64::max)
}

fn row(side: Side, slots: usize, round: u32, times: &[Duration], per_second: f64) -> Row {
    let sample = Sample::new(times.iter().map(|time| time.as_secs_f64() * 1e3).collect());
    Row { side, slots, round, p50_ms: sample.median(), p95_ms: sample.quantile(0.95), per_second }
}

fn spec(html: &Path) -> Result<GuiSpec, Failure> {
    let folder = SiteFolder { path: html.to_owned(), sha256: folder_hash(html)? };
    Ok(GuiSpec {
        sites: vec![SiteSpec {
            name: "miniwob".to_owned(),
            folder: Some(folder),
            files: Vec::new(),
            routes: Vec::new(),
        }],
        start: "http://miniwob.localhost/miniwob/click-checkboxes.html".to_owned(),
        prepare: vec![PREPARE.to_owned()],
        hidden: ["#reward-display", "#click-canvas", "#sync-task-cover"].map(str::to_owned).to_vec(),
        viewport: (500, 320),
        ..GuiSpec::default()
    })
}

#[derive(Default)]
struct Times {
    steps: Vec<Duration>,
    resets: Vec<Duration>,
}

async fn of_ours(
    provider: &Arc<GuiProvider>,
    task: &Arc<TaskSpec>,
    slots: usize,
    steps: u32,
) -> Result<Times, Failure> {
    provider.warm_up(u32::try_from(slots)?).await?;
    let mut at_work = JoinSet::new();
    for _ in 0..slots {
        let (provider, task) = (Arc::clone(provider), Arc::clone(task));
        at_work.spawn(async move {
            let begin = Instant::now();
            let mut env = provider.lease(lease_of(&task)).await?;
            env.reset(ctx(0)).await?;
            let reset = begin.elapsed();
            let calls = [ToolCall::new("act", json!({ "line": "click 1" }))];
            let mut times = Vec::new();
            for number in 1..=steps {
                let begin = Instant::now();
                let seen = env.step(&calls, ctx(number)).await?.observation.joined_text();
                times.push(begin.elapsed());
                if seen.contains("error:") || !seen.contains("[1] checkbox") {
                    return Err(format!("a step came to {seen:?}").into());
                }
            }
            env.close().await;
            Ok::<_, Failure>((reset, times))
        });
    }
    gathered(at_work).await
}

async fn gathered(
    mut at_work: JoinSet<Result<(Duration, Vec<Duration>), Failure>>,
) -> Result<Times, Failure> {
    let mut all = Times::default();
    while let Some(done) = at_work.join_next().await {
        let (reset, steps) = done??;
        all.resets.push(reset);
        all.steps.extend(steps);
    }
    Ok(all)
}

/// Drivers with a browser each, as anybody would start them.
struct Drivers {
    programs: Vec<Child>,
    clients: Vec<Client>,
    _profiles: Vec<tempfile::TempDir>,
}

impl Drivers {
    async fn start(programs: &BrowserPrograms, count: usize) -> Result<Self, Failure> {
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
                "goog:chromeOptions": { "binary": programs.browser, "args": arguments },
            });
            drivers.clients.push(connected(port, wanted).await?);
        }
        Ok(drivers)
    }

    async fn measure(&self, html: &Path, steps: u32) -> Result<Times, Failure> {
        let page = format!("file://{}/miniwob/click-checkboxes.html", html.display());
        let mut at_work = JoinSet::new();
        for client in &self.clients {
            let (client, page) = (client.clone(), page.clone());
            at_work.spawn(async move {
                let begin = Instant::now();
                client.goto(&page).await?;
                client.execute(PREPARE, Vec::new()).await?;
                client.execute_async(SETTLE, Vec::new()).await?;
                let reset = begin.elapsed();
                let checkbox = client.find(Locator::Css("#area input[type=checkbox]")).await?;
                let mut times = Vec::new();
                for _ in 0..steps {
                    let begin = Instant::now();
                    checkbox.click().await?;
                    client.execute_async(SETTLE, Vec::new()).await?;
                    let seen = client.execute("return document.body.innerText", Vec::new()).await?;
                    times.push(begin.elapsed());
                    if !seen.as_str().is_some_and(|text| text.contains("Select")) {
                        return Err(format!("the page came to {seen}").into());
                    }
                }
                Ok::<_, Failure>((reset, times))
            });
        }
        gathered(at_work).await
    }
}

impl Drop for Drivers {
    fn drop(&mut self) {
        for driver in &mut self.programs {
            // Its browser ends with it.
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

/// What the peer's own script measured: one browser, one page.
fn browsergym(
    python: &Path,
    html: &Path,
    programs: &BrowserPrograms,
    arguments: &Arguments,
) -> Result<Vec<Row>, Failure> {
    let script = Path::new("ci/bench/peers/browsergym_step.py");
    let output = Command::new(python)
        .arg(script)
        .args([html.join("miniwob").as_os_str(), programs.browser.as_os_str()])
        .args([arguments.rounds.to_string(), arguments.steps.div_ceil(4).to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", script.display(), output.status).into());
    }
    let rounds: Vec<[Vec<f64>; 2]> = serde_json::from_slice(&output.stdout)?;
    let mut rows = Vec::new();
    for (round, [resets, steps]) in (1..).zip(rounds) {
        let times = |seconds: Vec<f64>| -> Vec<Duration> {
            seconds.into_iter().map(Duration::from_secs_f64).collect()
        };
        rows.push(row(Side::Browsergym, 1, round, &times(steps), f64::NAN));
        rows.push(row(Side::BrowsergymReset, 1, round, &times(resets), f64::NAN));
    }
    Ok(rows)
}

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let sample = |side: Side, slots: usize, value: fn(&Row) -> f64| {
        let rows = rows.iter().filter(|row| row.side == side && row.slots == slots);
        Sample::new(rows.map(value).collect())
    };
    let mut lines = vec![["side", "slots", "p50", "p95", "a second"].map(str::to_owned).to_vec()];
    for &slots in &arguments.slots {
        for side in
            [Side::Step, Side::Bare, Side::Reset, Side::BareReset, Side::Browsergym, Side::BrowsergymReset]
        {
            let p50 = sample(side, slots, |row| row.p50_ms);
            if p50.median().is_nan() {
                continue;
            }
            let rate = sample(side, slots, |row| row.per_second);
            let rate = if rate.median().is_nan() { "-".to_owned() } else { rate.summary() };
            let p95 = sample(side, slots, |row| row.p95_ms).summary();
            lines.push(vec![side.label().to_owned(), slots.to_string(), p50.summary(), p95, rate]);
        }
    }
    let mut text = format!(
        "milliseconds, median (least-greatest) of {} rounds of {} steps a slot\n\n{}",
        arguments.rounds,
        arguments.steps,
        render(&lines)
    );
    let met = |met: bool| if met { "met" } else { "missed" };
    for &slots in &arguments.slots {
        let p50 = |side| sample(side, slots, |row| row.p50_ms).median();
        let ratio = p50(Side::Step) / p50(Side::Bare);
        let verdict = met(ratio <= STEP_AT_MOST);
        text += &format!(
            "\n{slots} slots: a step takes {ratio:.2} x the bare one, target at most {STEP_AT_MOST}: {verdict}"
        );
        let gym = p50(Side::Browsergym) / p50(Side::Step);
        if gym.is_finite() {
            let verdict = met(gym >= BROWSERGYM_AT_LEAST);
            text += &format!(
                "\n{slots} slots: {gym:.1} x as fast as BrowserGym, target at least {BROWSERGYM_AT_LEAST} x: {verdict}"
            );
        }
    }
    text
}
