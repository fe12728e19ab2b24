//! A browser with its driver, in a sandbox of ours.
//!
//! R1. The browser runs as an unprivileged user, with its own sandbox, inside ours; its network is empty but for what the
//! harness listens on in it. R2. Addresses of files and of the browser itself are refused by a policy that nothing inside
//! can change. R3. It ends with its sandbox, whatever it does.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clawrl_core::{Fault, NetworkPolicy, SandboxLimits, spelled_out};
use clawrl_sandbox::{
    Announcer, Program, ProgramHandle, ProgramSpec, PutFile, Sandbox, SandboxBackend, SandboxCommand,
    SandboxNetwork, SandboxSpec, Terminal, WORKSPACE, WorkspaceStart,
};
use fantoccini::ClientBuilder;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::bidi::{Bidi, Event};
use crate::browser::{Browser, Listening, Place, START_LIMIT, capabilities, not_started};
use crate::connect::Connector;
use crate::programs::BrowserPrograms;

/// Disk of a profile, and as much of shared memory.
const DISK_MIB: u32 = 512;

/// Processes and threads. A browser has some forty threads, a page some ten more.
const PIDS: u32 = 1_000;

/// Addresses that no page and nobody who types one may open.
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
    _driver: ProgramHandle,
    _terminal: Terminal,
    drains: [AbortHandle; 2],
}

impl Sandboxed {
    /// Starts a browser. What happens in it is told on the channel.
    ///
    /// # Errors
    /// A provider [`Fault`]: `browser-start`, with what the driver said.
    pub(crate) async fn start(
        backend: &dyn SandboxBackend,
        programs: &BrowserPrograms,
        memory_mib: u32,
        label: String,
    ) -> Result<(Browser, mpsc::Receiver<Event>), Fault> {
        let started = backend.start(sandbox(programs, memory_mib, label)).await?;
        let (sandbox, terminal) = (started.sandbox, started.terminal);
        let begun = tokio::time::timeout(START_LIMIT, async {
            let network = sandbox.network().await?;
            let arguments = vec!["--port=0".to_owned(), "--log-level=SEVERE".to_owned()];
            let program = programs.driver.to_string_lossy().into_owned();
            let command = SandboxCommand { program, arguments, ..SandboxCommand::default() };
            let driver = sandbox.open(ProgramSpec { command, user: None }).await;
            let (driver, port, drains) =
                listening(driver.map_err(|error| not_started(&error.to_string()))?).await?;
            let connector = Connector { network: network.clone(), port };
            let mut builder = ClientBuilder::new(connector);
            if let Value::Object(wanted) = capabilities(Some(&programs.browser), LOOPBACK) {
                builder.capabilities(wanted);
            }
            let client = builder.connect("http://driver.localhost/").await;
            let client = client.map_err(|error| not_started(&spelled_out(&error)))?;
            let address =
                client.capabilities().and_then(|found| found.get("webSocketUrl")).and_then(Value::as_str);
            let address =
                address.ok_or_else(|| not_started("the driver offers no WebDriver BiDi; it is too old"))?;
            let request = address.into_client_request().map_err(|error| not_started(&error.to_string()))?;
            let stream = network.connect(port).await.map_err(|error| not_started(&error.to_string()))?;
            let talking = Bidi::connect(stream, request).await;
            let (bidi, events) = talking.map_err(|error| not_started(&error.to_string()))?;
            Ok::<_, Fault>((network, driver, drains, client, bidi, events))
        });
        let late = |_| not_started(&format!("nobody answered within {START_LIMIT:?}"));
        let (network, driver, drains, client, bidi, events) = begun.await.map_err(late)??;
        let place = Self { network, sandbox, _driver: driver, _terminal: terminal, drains };
        let browser = Browser { client, bidi, place: Place::Sandbox(place) };
        browser.subscribe().await?;
        Ok((browser, events))
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

impl Drop for Sandboxed {
    fn drop(&mut self) {
        self.drains.iter().for_each(AbortHandle::abort);
    }
}

/// Waits until the driver says where it listens; then what it says is read and dropped.
async fn listening(program: Program) -> Result<(ProgramHandle, u16, [AbortHandle; 2]), Fault> {
    let Program { output, mut errors, handle, .. } = program;
    let mut lines = BufReader::new(output).lines();
    let mut said = Vec::new();
    let port = loop {
        match lines.next_line().await {
            Ok(Some(line)) => {
                if let Some(port) = port(&line) {
                    break port;
                }
                said.push(line);
            }
            Ok(None) | Err(_) => {
                let mut trouble = String::new();
                let _ = (&mut errors).take(4096).read_to_string(&mut trouble).await;
                return Err(not_started(&format!(
                    "the driver ended; it said: {} {trouble}",
                    said.join("; ")
                )));
            }
        }
    };
    let read = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let mut errors = BufReader::new(errors).lines();
    let heard = tokio::spawn(async move { while let Ok(Some(_)) = errors.next_line().await {} });
    Ok((handle, port, [read.abort_handle(), heard.abort_handle()]))
}

/// `ChromeDriver was started successfully on port 9515.`
fn port(line: &str) -> Option<u16> {
    line.split_once("started successfully on port ")?.1.trim_end_matches('.').trim().parse().ok()
}

fn sandbox(programs: &BrowserPrograms, memory_mib: u32, label: String) -> SandboxSpec {
    let policy =
        json!({ "URLBlocklist": REFUSED, "PasswordManagerEnabled": false, "BrowserSignin": 0 }).to_string();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_told_by_the_driver() {
        assert_eq!(port("ChromeDriver was started successfully on port 40123."), Some(40123));
        assert_eq!(port("Starting ChromeDriver 148.0 on port 0"), None);
    }
}
