//! A browser with its driver, in a sandbox.
//!
//! R1. The browser runs as an unprivileged user, with its own sandbox, inside ours; its network contains only the
//! harness's listeners.
//! R2. No page can open file addresses or the browser's own pages: Chromium forbids it, and one with windows refuses
//! them to its user as well, by a policy that nothing inside can change.
//! R3. It ends with its sandbox, whatever it does.

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
use crate::browser::{Browser, BrowserHost, Listening, NOT_STARTED, START_LIMIT, capabilities, not_started};
use crate::connect::Connector;
use crate::mapper;
use crate::programs::BrowserPrograms;

/// Disk for a profile, and the same for shared memory.
const DISK_MIB: u32 = 512;

/// Maximum processes and threads. A browser has about forty threads, a page some ten more.
const PIDS: u32 = 1_000;

/// How often starting a browser is tried. On an overloaded machine one may fail during its start; it has not been used
/// yet, so another one is equivalent.
const STARTS: usize = 3;

/// Last output lines of driver and browser that are kept.
const LINES_KEPT: usize = 12;

/// How long the last lines are awaited.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Longer lines are split at this length.
const LINE_BYTES: u64 = 1024;

/// Addresses that neither a page nor a user who types them may open. A browser without windows has no address bar.
const REFUSED: &[&str] = &[
    "file://*",
    "chrome://*",
    "chrome-untrusted://*",
    "devtools://*",
    "view-source:*",
    "chrome-extension://*",
];

/// Paths where browsers look for enforced policies.
const POLICIES: &[&str] =
    &["/etc/chromium/policies/managed/clawrl.json", "/etc/opt/chrome/policies/managed/clawrl.json"];

/// The proxy of an attempt listens on a port of it.
const LOOPBACK: &str = "127.0.0.1";

/// A sandbox with a browser. Dropping it ends the browser.
pub(crate) struct SandboxedBrowser {
    network: SandboxNetwork,
    sandbox: Box<dyn Sandbox>,
    _driver: Driver,
    _terminal: Terminal,
}

impl SandboxedBrowser {
    /// Starts a browser. Its events are sent on the channel.
    ///
    /// # Errors
    /// A provider [`Fault`]: `browser-start`, with the driver's output, when several tries failed.
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
                        tracing::debug!(%fault, again, "starting another browser");
                    }
                    answer => return answer,
                }
            }
            Self::start_once(backend, programs, memory_mib, label).await
        };
        let late = |_| not_started(&format!("no answer within {START_LIMIT:?}"));
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
        // The browser's output goes through the driver, so that an early exit is explained.
        let arguments =
            ["--port=0", "--log-level=SEVERE", "--enable-chrome-logs"].map(str::to_owned).to_vec();
        let program = programs.driver.to_string_lossy().into_owned();
        let command = SandboxCommand { program, arguments, ..SandboxCommand::default() };
        let driver = sandbox.open(ProgramSpec { command, user: None }).await;
        let mut driver = Driver::of(driver.map_err(|error| not_started(&error.to_string()))?);
        match Self::connect(&network, programs, &mut driver).await {
            Ok((client, bidi, events)) => {
                let sandboxed = Self { network, sandbox, _driver: driver, _terminal: terminal };
                let browser = Browser { client, bidi, host: BrowserHost::Sandbox(sandboxed) };
                browser.subscribe().await?;
                Ok((browser, events))
            }
            Err(why) => Err(not_started(&format!("{why}{}", driver.last_words().await))),
        }
    }

    /// Makes the driver start the browser; returns why it did not.
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
        let address = address.ok_or("the driver does not offer WebDriver BiDi: it is too old")?;
        let request = address.into_client_request().map_err(|error| error.to_string())?;
        let stream = network.connect(port).await.map_err(|error| error.to_string())?;
        let (bidi, events) = Bidi::connect(stream, request).await.map_err(|error| error.to_string())?;
        let options = client.capabilities().and_then(|found| found.get("goog:chromeOptions"));
        if let Some(address) = options.and_then(|options| options["debuggerAddress"].as_str())
            && let Err(why) = mapper::quieten(network, address).await
        {
            tracing::debug!(why, "the driver's page continues to draw its messages");
        }
        Ok((client, bidi, events))
    }

    /// Listens inside, where only the browser can connect.
    pub(crate) async fn listen(&self) -> std::io::Result<Listening> {
        let (listener, port) = self.network.listen().await?;
        Ok(Listening { listener, address: format!("{LOOPBACK}:{port}"), peers: None })
    }

    pub(crate) fn downloads(number: u64) -> String {
        format!("{WORKSPACE}/downloads-{number}")
    }

    /// Writes files into the sandbox; returns their paths inside by their paths here.
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

    /// Ends everything inside. Written files stay readable.
    pub(crate) async fn halt(&self) -> Result<(), Fault> {
        self.sandbox.halt().await
    }

    /// Reads a file after [`Self::halt`]; `None` when it does not exist.
    pub(crate) async fn read(&self, path: String, most: u64) -> Result<Option<Vec<u8>>, Fault> {
        self.sandbox.read(path, most).await
    }
}

/// The driver, and the output of driver and browser. Dropping it ends both.
struct Driver {
    handle: Option<ProgramHandle>,
    /// Its port, once it is reported.
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
            tokio::spawn(read_lines(output, Arc::clone(&said), Some(tell))),
            tokio::spawn(read_lines(errors, Arc::clone(&said), None)),
        ];
        Self { handle: Some(handle), port: Some(port), said, readers }
    }

    /// Waits for the port; `None` when the driver ended instead.
    async fn port(&mut self) -> Option<u16> {
        self.port.take()?.await.ok()
    }

    /// Ends it. Returns the last output, as the end of a sentence.
    async fn last_words(mut self) -> String {
        drop(self.handle.take());
        // Output up to its end is read; its descendants may hold the pipe open.
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

/// Reads all lines, keeps the last ones, and sends the port when a line names it.
async fn read_lines(
    from: impl AsyncRead + Unpin,
    said: Arc<Mutex<VecDeque<String>>>,
    mut tell: Option<oneshot::Sender<u16>>,
) {
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        // A line may have any length.
        match (&mut from).take(LINE_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if let Some(port) = port(&line)
            && let Some(tell) = tell.take()
        {
            // The receiver is gone if the start was abandoned.
            let _ = tell.send(port);
        }
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() == LINES_KEPT {
            said.pop_front();
        }
        said.push_back(line);
    }
}

/// Parses `ChromeDriver was started successfully on port 9515.`
fn port(line: &str) -> Option<u16> {
    line.split_once("started successfully on port ")?.1.trim_end_matches('.').trim().parse().ok()
}

fn sandbox(programs: &BrowserPrograms, memory_mib: u32, label: String) -> SandboxSpec {
    let policy = policy().to_string();
    // Only paths below `/usr` are visible; pages are drawn with fonts.
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

/// Settings that users cannot change. The browser's own requests, to the search engine's server first, would look like
/// a page's, at an unpredictable moment.
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
    fn driver_output_reports_port() {
        assert_eq!(port("ChromeDriver was started successfully on port 40123."), Some(40123));
        assert_eq!(port("Starting ChromeDriver 148.0 on port 0"), None);
    }
}
