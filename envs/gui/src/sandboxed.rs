//! A browser with its driver, in a sandbox of ours.
//!
//! R1. The browser runs as an unprivileged user, with its own sandbox, inside ours; its network is empty but for what the
//! harness listens on in it. R2. No page opens an address of a file or of the browser itself: Chromium lets none, and one
//! with windows refuses them to everybody by a policy that nothing inside can change. R3. It ends with its sandbox, whatever it does.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clawrl_core::{Fault, NetworkPolicy, SandboxLimits, error_text};
use clawrl_sandbox::{
    Announcer, Program, ProgramHandle, ProgramSpec, PutFile, Sandbox, SandboxBackend, SandboxCommand,
    SandboxNetwork, SandboxSpec, Terminal, WORKSPACE, WorkspaceStart,
};
use fantoccini::{Client, ClientBuilder};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::bidi::{Bidi, Event};
use crate::browser::{Browser, Listening, NOT_STARTED, Place, START_LIMIT, capabilities, not_started};
use crate::connect::Connector;
use crate::mapper;
use crate::programs::BrowserPrograms;

/// Disk of a profile, and as much of shared memory.
const DISK_MIB: u32 = 512;

/// Processes and threads. A browser has some forty threads, a page some ten more.
const PIDS: u32 = 1_000;

/// How often a browser is started for one that answers. On a machine that is too busy one may give up while it comes up;
/// nobody has used it yet, so another one is as good.
const STARTS: usize = 3;

/// Lines of what driver and browser said last.
const LINES_KEPT: usize = 12;

/// How long they are waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Of a line that is longer, this much is one.
const LINE_BYTES: u64 = 1024;

/// Addresses that no page and nobody who types one may open. A browser without windows has no place to type one.
const REFUSED: &[&str] = &[
    "file://*",
    "chrome://*",
    "chrome-untrusted://*",
    "devtools://*",
    "view-source:*",
    "chrome-extension://*",
];

/// Where browsers look for what they must not let users change.
const POLICIES: &[&str] =
    &["/etc/chromium/policies/managed/clawrl.json", "/etc/opt/chrome/policies/managed/clawrl.json"];

/// The proxy of an attempt is at a port of it.
const LOOPBACK: &str = "127.0.0.1";

/// A sandbox with a browser. Dropped, it ends.
pub(crate) struct Sandboxed {
    network: SandboxNetwork,
    sandbox: Box<dyn Sandbox>,
    _driver: Driver,
    _terminal: Terminal,
}

impl Sandboxed {
    /// Starts a browser. What happens in it is told on the channel.
    ///
    /// # Errors
    /// A provider [`Fault`]: `browser-start`, with what the driver said, when none of several came up.
    pub(crate) async fn start(
        backend: &dyn SandboxBackend,
        programs: &BrowserPrograms,
        memory_mib: u32,
        label: String,
    ) -> Result<(Browser, mpsc::Receiver<Event>), Fault> {
        let begun = async {
            for again in 1..STARTS {
                match Self::start_once(backend, programs, memory_mib, label.clone()).await {
                    Err(fault) if fault.code == NOT_STARTED => {
                        tracing::debug!(%fault, again, "another browser is started");
                    }
                    answer => return answer,
                }
            }
            Self::start_once(backend, programs, memory_mib, label).await
        };
        let late = |_| not_started(&format!("nobody answered within {START_LIMIT:?}"));
        tokio::time::timeout(START_LIMIT, begun).await.map_err(late)?
    }

    async fn start_once(
        backend: &dyn SandboxBackend,
        programs: &BrowserPrograms,
        memory_mib: u32,
        label: String,
    ) -> Result<(Browser, mpsc::Receiver<Event>), Fault> {
        let started = backend.start(sandbox(programs, memory_mib, label)).await?;
        let (sandbox, terminal) = (started.sandbox, started.terminal);
        let network = sandbox.network().await?;
        // What the browser says goes the driver's way, so that one that ends at once says why.
        let arguments =
            ["--port=0", "--log-level=SEVERE", "--enable-chrome-logs"].map(str::to_owned).to_vec();
        let program = programs.driver.to_string_lossy().into_owned();
        let command = SandboxCommand { program, arguments, ..SandboxCommand::default() };
        let driver = sandbox.open(ProgramSpec { command, user: None }).await;
        let mut driver = Driver::of(driver.map_err(|error| not_started(&error.to_string()))?);
        match Self::connect(&network, programs, &mut driver).await {
            Ok((client, bidi, events)) => {
                let place = Self { network, sandbox, _driver: driver, _terminal: terminal };
                let browser = Browser { client, bidi, place: Place::Sandbox(place) };
                browser.subscribe().await?;
                Ok((browser, events))
            }
            Err(why) => Err(not_started(&format!("{why}{}", driver.last_words().await))),
        }
    }

    /// Has the driver start the browser; why it was not.
    async fn connect(
        network: &SandboxNetwork,
        programs: &BrowserPrograms,
        driver: &mut Driver,
    ) -> Result<(Client, Bidi, mpsc::Receiver<Event>), String> {
        let port = driver.port().await.ok_or("the driver ended")?;
        let mut builder = ClientBuilder::new(Connector { network: network.clone(), port });
        if let Value::Object(wanted) = capabilities(Some(&programs.browser), LOOPBACK) {
            builder.capabilities(wanted);
        }
        let client = builder.connect("http://driver.localhost/").await;
        let client = client.map_err(|error| error_text(&error))?;
        let address =
            client.capabilities().and_then(|found| found.get("webSocketUrl")).and_then(Value::as_str);
        let address = address.ok_or("the driver offers no WebDriver BiDi; it is too old")?;
        let request = address.into_client_request().map_err(|error| error.to_string())?;
        let stream = network.connect(port).await.map_err(|error| error.to_string())?;
        let (bidi, events) = Bidi::connect(stream, request).await.map_err(|error| error.to_string())?;
        let options = client.capabilities().and_then(|found| found.get("goog:chromeOptions"));
        if let Some(address) = options.and_then(|options| options["debuggerAddress"].as_str())
            && let Err(why) = mapper::quieten(network, address).await
        {
            tracing::debug!(why, "the driver's page goes on drawing what it passes on");
        }
        Ok((client, bidi, events))
    }

    /// Listens inside, where nobody but the browser is.
    pub(crate) async fn listen(&self) -> std::io::Result<Listening> {
        let (listener, port) = self.network.listen().await?;
        Ok(Listening { listener, address: format!("{LOOPBACK}:{port}"), peers: None })
    }

    /// Where the downloads of an attempt are laid.
    pub(crate) fn downloads(number: u64) -> String {
        format!("{WORKSPACE}/downloads-{number}")
    }

    /// Lays files into the sandbox; where each is, by its path here.
    pub(crate) async fn put(
        &self,
        files: Vec<PutFile>,
        number: u64,
    ) -> Result<HashMap<String, String>, Fault> {
        let inside = |path: &str| format!("uploads-{number}/{path}");
        let laid =
            files.iter().map(|file| (file.path.clone(), format!("{WORKSPACE}/{}", inside(&file.path))));
        let laid = laid.collect();
        let moved = files.into_iter().map(|file| PutFile { path: inside(&file.path), ..file });
        self.sandbox.put(moved.collect()).await?;
        Ok(laid)
    }

    /// Ends everything inside. What was written stays readable.
    pub(crate) async fn halt(&self) -> Result<(), Fault> {
        self.sandbox.halt().await
    }

    /// Reads a file after [`Self::halt`]; `None` when nothing is there.
    pub(crate) async fn read(&self, path: String, most: u64) -> Result<Option<Vec<u8>>, Fault> {
        self.sandbox.read(path, most).await
    }
}

/// The driver, and what it and the browser say. Dropped, it ends.
struct Driver {
    handle: Option<ProgramHandle>,
    /// Its port, once it says it.
    port: Option<oneshot::Receiver<u16>>,
    said: Arc<Mutex<VecDeque<String>>>,
    readers: [JoinHandle<()>; 2],
}

impl Driver {
    fn of(program: Program) -> Self {
        let Program { output, errors, handle, .. } = program;
        let said = Arc::new(Mutex::new(VecDeque::new()));
        let (tell, port) = oneshot::channel();
        let readers = [
            tokio::spawn(hear(output, Arc::clone(&said), Some(tell))),
            tokio::spawn(hear(errors, Arc::clone(&said), None)),
        ];
        Self { handle: Some(handle), port: Some(port), said, readers }
    }

    /// Waits until it says where it listens; `None` when it ended instead.
    async fn port(&mut self) -> Option<u16> {
        self.port.take()?.await.ok()
    }

    /// Ends it. What was said last, as the end of a sentence.
    async fn last_words(mut self) -> String {
        drop(self.handle.take());
        // What it had said by then is read; what it started may hold its output open.
        let _ = tokio::time::timeout(LAST_WORDS, futures_util::future::join_all(&mut self.readers)).await;
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_empty() {
            return String::new();
        }
        let lines: Vec<&str> = said.iter().map(String::as_str).collect();
        format!("; it said: {}", lines.join("; "))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.readers.iter().for_each(JoinHandle::abort);
    }
}

/// Reads lines until there are no more, keeps the last ones, and tells the port that one of them names.
async fn hear(
    from: impl AsyncRead + Unpin,
    said: Arc<Mutex<VecDeque<String>>>,
    mut tell: Option<oneshot::Sender<u16>>,
) {
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        // A line may be of any length.
        match (&mut from).take(LINE_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if let Some(port) = port(&line)
            && let Some(tell) = tell.take()
        {
            // Nobody waits for it where the start was given up.
            let _ = tell.send(port);
        }
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() == LINES_KEPT {
            said.pop_front();
        }
        said.push_back(line);
    }
}

/// `ChromeDriver was started successfully on port 9515.`
fn port(line: &str) -> Option<u16> {
    line.split_once("started successfully on port ")?.1.trim_end_matches('.').trim().parse().ok()
}

fn sandbox(programs: &BrowserPrograms, memory_mib: u32, label: String) -> SandboxSpec {
    let policy = policy().to_string();
    // What is not below `/usr` would not be seen; fonts are what pages are drawn with.
    let folders = [&programs.driver, &programs.browser].map(|program| program.parent().map(Path::to_owned));
    let mut shown: Vec<PathBuf> =
        folders.into_iter().flatten().filter(|folder| !folder.starts_with("/usr")).collect();
    shown.extend(Some(PathBuf::from("/etc/fonts")).filter(|folder| folder.is_dir()));
    shown.sort_unstable();
    shown.dedup();
    SandboxSpec {
        label,
        main: SandboxCommand {
            program: "sleep".to_owned(),
            arguments: vec!["infinity".to_owned()],
            ..SandboxCommand::default()
        },
        announced_by: Announcer::Wrapper,
        size: (80, 24),
        support_files: POLICIES.iter().map(|&path| (path.to_owned(), policy.clone())).collect(),
        limits: SandboxLimits { memory_mib, disk_mib: DISK_MIB, pids: PIDS, cpu_percent: 200 },
        network: NetworkPolicy::None,
        image: None,
        workspace: WorkspaceStart::Empty,
        folders: Vec::new(),
        read_only: shown,
        inner_sandbox: true,
    }
}

/// What users cannot change. What the browser would ask for by itself, the search engine's server first, would look as if a
/// page had asked for it, at a moment that nobody knows beforehand.
fn policy() -> Value {
    const NEVER: u32 = 2;
    json!({
        "URLBlocklist": REFUSED,
        "PasswordManagerEnabled": false,
        "BrowserSignin": 0,
        "DefaultSearchProviderEnabled": false,
        "SearchSuggestEnabled": false,
        "NetworkPredictionOptions": NEVER,
        "TranslateEnabled": false,
        "SafeBrowsingProtectionLevel": 0,
        "MetricsReportingEnabled": false,
        "ComponentUpdatesEnabled": false,
        "BackgroundModeEnabled": false,
        "AlternateErrorPagesEnabled": false,
        "NTPCardsVisible": false,
    })
}

#[cfg(test)]
mod browser_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_told_by_the_driver() {
        assert_eq!(port("ChromeDriver was started successfully on port 40123."), Some(40123));
        assert_eq!(port("Starting ChromeDriver 148.0 on port 0"), None);
    }
}
