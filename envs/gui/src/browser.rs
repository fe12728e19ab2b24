//! A browser with its driver, in a sandbox of its own.
//!
//! R1. The browser runs as an unprivileged user, with its own sandbox, inside ours; its network is empty but for what the
//! harness listens on in it. R2. Addresses of files and of the browser itself are refused by a policy that nothing inside
//! can change. R3. It ends with its sandbox, whatever it does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clawrl_core::{Boundary, Fault, NetworkPolicy, SandboxLimits, spelled_out};
use clawrl_sandbox::{
    Announcer, Program, ProgramHandle, ProgramSpec, Sandbox, SandboxBackend, SandboxCommand, SandboxNetwork,
    SandboxSpec, Terminal, WorkspaceStart,
};
use fantoccini::{Client, ClientBuilder};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::bidi::{Bidi, BidiError, Event};
use crate::connect::Connector;
use crate::programs::BrowserPrograms;

/// A driver that has not said its port by then, or a browser that has not answered it, does not come.
const START_LIMIT: Duration = Duration::from_secs(60);

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

/// A copy of nothing. Whether it was made.
const CLEAR_CLIPBOARD: &str = "(() => { let done = false;\
    const copy = event => { event.clipboardData.setData('text/plain', ''); event.preventDefault(); done = true; };\
    document.addEventListener('copy', copy, { once: true }); return document.execCommand('copy') && done; })()";

/// What a browser is started with. None of it is about one task.
const SWITCHES: &[&str] = &[
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    // What the browser itself asked for would look as if a page had: a form's fields are told to a server for autofill.
    "--disable-features=AutofillServerCommunication,Translate,MediaRouter,OptimizationHints,InterestFeedContentSuggestions",
    // Pages look the same wherever they are shown.
    "--force-color-profile=srgb",
    "--force-device-scale-factor=1",
    "--font-render-hinting=none",
    "--mute-audio",
    "--password-store=basic",
    // What was selected last is the browser's, not an attempt's, and nothing but another selection takes its place.
    "--blink-settings=selectionClipboardBufferAvailable=false",
    // Only the proxy of an attempt says what a name stands for.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
];

/// A browser that answers.
pub(crate) struct Browser {
    pub(crate) client: Client,
    pub(crate) bidi: Bidi,
    pub(crate) network: SandboxNetwork,
    pub(crate) sandbox: Box<dyn Sandbox>,
    _driver: ProgramHandle,
    _terminal: Terminal,
    drains: [AbortHandle; 2],
}

impl Browser {
    /// Starts one. What happens in it is told on the channel.
    ///
    /// # Errors
    /// A provider [`Fault`]: `browser-start`, with what the driver said.
    pub(crate) async fn start(
        backend: &dyn SandboxBackend,
        programs: &BrowserPrograms,
        memory_mib: u32,
        label: String,
    ) -> Result<(Self, mpsc::Receiver<Event>), Fault> {
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
            if let Value::Object(wanted) = capabilities(programs) {
                builder.capabilities(wanted);
            }
            let client = builder.connect("http://driver.localhost/").await;
            let client = client.map_err(|error| not_started(&spelled_out(&error)))?;
            let address =
                client.capabilities().and_then(|found| found.get("webSocketUrl")).and_then(Value::as_str);
            let address =
                address.ok_or_else(|| not_started("the driver offers no WebDriver BiDi; it is too old"))?;
            let stream = network.connect(port).await.map_err(|error| not_started(&error.to_string()))?;
            let talking = Bidi::connect(stream, address).await;
            let (bidi, events) = talking.map_err(|error| not_started(&error.to_string()))?;
            Ok::<_, Fault>((network, driver, drains, client, bidi, events))
        });
        let late = |_| not_started(&format!("nobody answered within {START_LIMIT:?}"));
        let (network, driver, drains, client, bidi, events) = begun.await.map_err(late)??;
        let browser = Self { client, bidi, network, sandbox, _driver: driver, _terminal: terminal, drains };
        let watched = [
            "browsingContext.contextCreated",
            "browsingContext.contextDestroyed",
            "browsingContext.userPromptOpened",
            "browsingContext.userPromptClosed",
            "browsingContext.downloadWillBegin",
            "browsingContext.downloadEnd",
        ];
        let subscribed = browser.bidi.command("session.subscribe", json!({ "events": watched })).await;
        subscribed.map_err(|error| not_started(&error.to_string()))?;
        Ok((browser, events))
    }

    /// A user context of its own: cookies, storage, caches, service workers and downloads that no other has. All its
    /// requests go to a port of the sandbox's own loopback.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn new_context(&self, proxy: u16, downloads: &str) -> Result<String, Fault> {
        let proxy = format!("127.0.0.1:{proxy}");
        let wanted = json!({
            // Without the last word, the loopback would be reached past the proxy.
            "proxy": { "proxyType": "manual", "httpProxy": proxy, "sslProxy": proxy, "noProxy": ["<-loopback>"] },
            "unhandledPromptBehavior": { "default": "ignore" },
        });
        let made = self.bidi.command("browser.createUserContext", wanted).await.map_err(lost)?;
        let context = made["userContext"].as_str().unwrap_or_default().to_owned();
        let behaviour = json!({
            "downloadBehavior": { "type": "allowed", "destinationFolder": downloads },
            "userContexts": [context],
        });
        self.bidi.command("browser.setDownloadBehavior", behaviour).await.map_err(lost)?;
        Ok(context)
    }

    /// Ends a context with all its tabs, and forgets what it kept.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn remove_context(&self, context: &str) -> Result<(), Fault> {
        let question = json!({ "userContext": context });
        self.bidi.command("browser.removeUserContext", question).await.map(drop).map_err(lost)
    }

    /// Opens an empty tab in a context; returns its handle, which is that of classic commands too.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn new_tab(&self, context: &str, viewport: (u16, u16)) -> Result<String, Fault> {
        let question = json!({ "type": "tab", "userContext": context });
        let made = self.bidi.command("browsingContext.create", question).await.map_err(lost)?;
        let tab = made["context"].as_str().unwrap_or_default().to_owned();
        self.set_viewport(&tab, viewport).await?;
        Ok(tab)
    }

    /// Puts nothing in place of what was copied, which belongs to the browser and not to a context. The tab is an empty one.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn clear_clipboard(&self, tab: &str) -> Result<(), Fault> {
        let script = json!({
            "expression": CLEAR_CLIPBOARD,
            "target": { "context": tab },
            "awaitPromise": false,
            "userActivation": true,
        });
        let cleared = self.bidi.command("script.evaluate", script).await.map_err(lost)?;
        if cleared["result"]["value"].as_bool() == Some(true) {
            return Ok(());
        }
        let why = "what was copied before cannot be forgotten";
        Err(Fault::transient(Boundary::Env, "browser-refused", why))
    }

    /// Gives the window of a tab this size.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn set_viewport(&self, tab: &str, (width, height): (u16, u16)) -> Result<(), Fault> {
        let size = json!({ "context": tab, "viewport": { "width": width, "height": height } });
        self.bidi.command("browsingContext.setViewport", size).await.map(drop).map_err(lost)
    }

    /// Whether nobody answers any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.bidi.is_lost()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.drains.iter().for_each(AbortHandle::abort);
    }
}

/// What becomes of an attempt whose browser refuses, or is gone.
pub(crate) fn lost(error: BidiError) -> Fault {
    let code = match &error {
        BidiError::Lost | BidiError::Late { .. } => "browser-lost",
        BidiError::Refused { .. } => "browser-refused",
    };
    Fault::transient(Boundary::Env, code, error.to_string())
}

fn not_started(why: &str) -> Fault {
    Fault::transient(Boundary::Provider, "browser-start", format!("the browser was not started: {why}"))
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

fn capabilities(programs: &BrowserPrograms) -> Value {
    json!({
        "browserName": "chrome",
        "webSocketUrl": true,
        "unhandledPromptBehavior": "ignore",
        // What a document loads besides is waited for by the page's own script, and not for ever.
        "pageLoadStrategy": "eager",
        "goog:chromeOptions": {
            "binary": programs.browser.to_string_lossy(),
            "args": SWITCHES,
            "prefs": {
                "credentials_enable_service": false,
                "profile.password_manager_enabled": false,
                "autofill.profile_enabled": false,
                "safebrowsing.enabled": false,
            },
        },
    })
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
