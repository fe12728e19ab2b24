//! A connected browser, wherever it runs: contexts, tabs, and files on its machine.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawrl_core::{Boundary, Fault, SandboxKind};
use clawrl_sandbox::PutFile;
use fantoccini::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::bidi::{Bidi, BidiError};
use crate::remote::{Session, beside};
use crate::sandboxed::SandboxedBrowser;

/// Time for a driver to report its port, and for the browser to answer it.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(60);

/// Copies an empty text. Returns whether that worked.
const CLEAR_CLIPBOARD: &str = "(() => { let done = false;\
    const copy = event => { event.clipboardData.setData('text/plain', ''); event.preventDefault(); done = true; };\
    document.addEventListener('copy', copy, { once: true }); return document.execCommand('copy') && done; })()";

const FIELD: &str = "(() => { const field = document.createElement('input'); field.type = 'file';\
    return document.documentElement.appendChild(field); })()";

/// Returns the content of a file input's file, in base64; nothing if the file does not exist.
const READ: &str = "async (field, most) => { const [file] = field.files; if (!file) return null;\
    if (file.size > most) throw new Error(`it has ${file.size} bytes, and ${most} are read at most`);\
    const reader = new FileReader();\
    return new Promise((keep, refuse) => {\
        reader.onload = () => keep(reader.result.slice(reader.result.indexOf(',') + 1));\
        reader.onerror = () => reader.error.name === 'NotFoundError' ? keep(null) : refuse(reader.error);\
        reader.readAsDataURL(file); }); }";

/// Command-line switches of every browser, independent of the task.
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
    // Requests that the browser makes on its own would be attributed to the page: autofill sends a form's fields to a
    // server.
    "--disable-features=AutofillServerCommunication,Translate,MediaRouter,OptimizationHints,InterestFeedContentSuggestions",
    // Makes pages look the same on every machine.
    "--force-color-profile=srgb",
    "--force-device-scale-factor=1",
    "--font-render-hinting=none",
    "--mute-audio",
    "--password-store=basic",
    // The last selection belongs to the browser, not to an attempt, and only another selection replaces it.
    "--blink-settings=selectionClipboardBufferAvailable=false",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
];

/// Properties on which the reuse of a browser depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BrowserKind {
    /// Kind of sandbox.
    pub sandbox: SandboxKind,
    /// Memory limit.
    pub memory_mib: u32,
}

pub(crate) struct Browser {
    pub(crate) client: Client,
    pub(crate) bidi: Bidi,
    pub(crate) host: BrowserHost,
}

/// Where a browser runs. Dropping it ends the browser.
pub(crate) enum BrowserHost {
    /// In a sandbox of ours, with its driver.
    Sandbox(SandboxedBrowser),
    Endpoint(Session),
}

/// A port of this process that a browser can reach.
pub(crate) struct Listening {
    pub(crate) listener: TcpListener,
    /// The address to use in the browser.
    pub(crate) address: String,
    /// Addresses that may connect, besides the loopback; `None` for all.
    pub(crate) peers: Option<Vec<IpAddr>>,
}

impl Browser {
    /// Subscribes to events.
    ///
    /// # Errors
    /// A provider [`Fault`]
    pub(crate) async fn subscribe(&self) -> Result<(), Fault> {
        let watched = [
            "browsingContext.contextCreated",
            "browsingContext.contextDestroyed",
            "browsingContext.userPromptOpened",
            "browsingContext.userPromptClosed",
            "browsingContext.downloadWillBegin",
            "browsingContext.downloadEnd",
        ];
        let subscribed = self.bidi.command("session.subscribe", json!({ "events": watched })).await;
        subscribed.map(drop).map_err(|error| not_started(&error.to_string()))
    }

    /// Listens where the browser can reach it.
    ///
    /// # Errors
    /// A provider [`Fault`]
    pub(crate) async fn listen(&self) -> Result<Listening, Fault> {
        let listening = match &self.host {
            BrowserHost::Sandbox(sandboxed) => sandboxed.listen().await,
            BrowserHost::Endpoint(session) => session.listen().await,
        };
        listening.map_err(|error| {
            let message = format!("failed to open a port for the browser's proxy: {error}");
            Fault::transient(Boundary::Provider, "browser-lost", message)
        })
    }

    /// Folder for an attempt's downloads, on the browser's machine; `None` if downloads are not supported.
    pub(crate) fn downloads(&self, number: u64) -> Option<String> {
        match &self.host {
            BrowserHost::Sandbox(_) => Some(SandboxedBrowser::downloads(number)),
            BrowserHost::Endpoint(session) => session.downloads(),
        }
    }

    /// Whether all attempts share one folder for their downloads.
    pub(crate) fn shares_downloads(&self) -> bool {
        matches!(self.host, BrowserHost::Endpoint(_))
    }

    /// Writes an attempt's files to the browser's machine; returns their paths there by their paths here.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn put(
        &self,
        files: Vec<PutFile>,
        number: u64,
    ) -> Result<HashMap<String, String>, Fault> {
        match &self.host {
            BrowserHost::Sandbox(sandboxed) => sandboxed.put(files, number).await,
            BrowserHost::Endpoint(session) => session.put(files).await,
        }
    }

    /// Ends everything that could still write to a context's downloads.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn seal(&self, context: &str) -> Result<(), Fault> {
        match &self.host {
            BrowserHost::Sandbox(sandboxed) => sandboxed.halt().await,
            BrowserHost::Endpoint(_) => self.remove_context(context).await,
        }
    }

    /// Reads a downloaded file, after [`Self::seal`]; `None` when it does not exist.
    ///
    /// # Errors
    /// An env [`Fault`], also for a file larger than `most` bytes.
    pub(crate) async fn downloaded(
        &self,
        folder: &str,
        name: &str,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Fault> {
        match &self.host {
            BrowserHost::Sandbox(sandboxed) => sandboxed.read(format!("{folder}/{name}"), most).await,
            BrowserHost::Endpoint(_) => self.read(beside(folder, name), most).await,
        }
    }

    /// Reads a file on the browser's machine through a page's file input, in a separate tab.
    async fn read(&self, path: String, most: u64) -> Result<Option<Vec<u8>>, Fault> {
        let made =
            self.bidi.command("browsingContext.create", json!({ "type": "tab" })).await.map_err(lost)?;
        let tab = &made["context"];
        let field = json!({ "expression": FIELD, "target": { "context": tab }, "awaitPromise": false });
        let field = self.bidi.command("script.evaluate", field).await.map_err(lost)?;
        let element = json!({ "sharedId": field["result"]["sharedId"] });
        let given = json!({ "context": tab, "element": element, "files": [path] });
        self.bidi.command("input.setFiles", given).await.map_err(lost)?;
        let reading = json!({
            "functionDeclaration": READ,
            "arguments": [element, { "type": "number", "value": most }],
            "target": { "context": tab },
            "awaitPromise": true,
        });
        let read = self.bidi.command("script.callFunction", reading).await.map_err(lost)?;
        let refused =
            |why: String| Fault::transient(Boundary::Env, "remote-download", format!("{path}: {why}"));
        match (read["result"]["type"].as_str(), read["result"]["value"].as_str()) {
            (Some("null"), _) => Ok(None),
            (Some("string"), Some(text)) => {
                let bytes = STANDARD.decode(text).map_err(|error| refused(error.to_string()))?;
                Ok(Some(bytes))
            }
            _ => Err(refused(
                read["exceptionDetails"]["text"].as_str().unwrap_or("it cannot be read").to_owned(),
            )),
        }
    }

    /// Creates a user context, with cookies, storage, caches, service workers and downloads of its own. All its
    /// requests go through `proxy`, a host with a port.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn new_context(&self, proxy: &str, downloads: Option<&str>) -> Result<String, Fault> {
        let wanted = json!({
            // Without the last entry, the loopback would bypass the proxy.
            "proxy": { "proxyType": "manual", "httpProxy": proxy, "sslProxy": proxy, "noProxy": ["<-loopback>"] },
            "unhandledPromptBehavior": { "default": "ignore" },
        });
        let made = self.bidi.command("browser.createUserContext", wanted).await.map_err(lost)?;
        let context = made["userContext"].as_str().unwrap_or_default().to_owned();
        let behaviour = match downloads {
            Some(folder) => json!({ "type": "allowed", "destinationFolder": folder }),
            None => json!({ "type": "denied" }),
        };
        let behaviour = json!({ "downloadBehavior": behaviour, "userContexts": [context] });
        self.bidi.command("browser.setDownloadBehavior", behaviour).await.map_err(lost)?;
        if let BrowserHost::Sandbox(_) = self.host {
            self.permit(&context).await?;
        }
        Ok(context)
    }

    /// Grants the permissions that a browser with windows grants without asking: writing to the clipboard.
    async fn permit(&self, context: &str) -> Result<(), Fault> {
        let wanted = json!({
            "method": "Browser.setPermission",
            "params": {
                "permission": { "name": "clipboard-write" },
                "setting": "granted",
                "browserContextId": context,
            },
        });
        self.bidi.command("goog:cdp.sendCommand", wanted).await.map(drop).map_err(lost)
    }

    /// Removes a context with all its tabs and stored data.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn remove_context(&self, context: &str) -> Result<(), Fault> {
        let question = json!({ "userContext": context });
        self.bidi.command("browser.removeUserContext", question).await.map(drop).map_err(lost)
    }

    /// Opens an empty tab in a context; returns its handle, which classic commands use as well.
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

    /// Empties the clipboard, which belongs to the browser and not to a context. `tab` must be empty.
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
        let why = "failed to clear the clipboard";
        Err(Fault::transient(Boundary::Env, "browser-refused", why))
    }

    /// Sets a tab's window size.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn set_viewport(&self, tab: &str, (width, height): (u16, u16)) -> Result<(), Fault> {
        let size = json!({ "context": tab, "viewport": { "width": width, "height": height } });
        self.bidi.command("browsingContext.setViewport", size).await.map(drop).map_err(lost)
    }

    /// Whether the browser no longer answers.
    pub(crate) fn is_lost(&self) -> bool {
        self.bidi.is_lost()
    }
}

/// The fault for an attempt whose browser refused a command or has ended.
pub(crate) fn lost(error: BidiError) -> Fault {
    let code = match &error {
        BidiError::Lost | BidiError::Late { .. } => "browser-lost",
        BidiError::Refused { .. } => "browser-refused",
    };
    Fault::transient(Boundary::Env, code, error.to_string())
}

/// The fault for an attempt whose downloads cannot be read.
pub(crate) fn no_downloads() -> Fault {
    let message = "downloads cannot be read: the WebDriver endpoint does not accept files, so no folder for \
        them is known";
    Fault::permanent(Boundary::Env, "remote-downloads", message)
}

/// Fault code of a browser that did not start.
pub(crate) const NOT_STARTED: &str = "browser-start";

pub(crate) fn not_started(why: &str) -> Fault {
    Fault::transient(Boundary::Provider, NOT_STARTED, format!("failed to start the browser: {why}"))
}

/// Capabilities to request: the browser program, if one is named, and `proxy_host`, where contexts have their proxies.
pub(crate) fn capabilities(program: Option<&Path>, proxy_host: &str) -> Value {
    let mut switches: Vec<String> = SWITCHES.iter().map(|&switch| switch.to_owned()).collect();
    // Only the attempt's proxy resolves names.
    switches.push(format!("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {proxy_host}"));
    let mut options = json!({
        "args": switches,
        "prefs": {
            "credentials_enable_service": false,
            "profile.password_manager_enabled": false,
            "autofill.profile_enabled": false,
            "safebrowsing.enabled": false,
            "webrtc.ip_handling_policy": "disable_non_proxied_udp",
            "webrtc.multiple_routes_enabled": false,
            "webrtc.nonproxied_udp_enabled": false,
        },
    });
    if let Some(program) = program {
        options["binary"] = program.to_string_lossy().into();
    }
    json!({
        "browserName": "chrome",
        "webSocketUrl": true,
        "unhandledPromptBehavior": "ignore",
        // The page's own script waits for the rest of a document, with a limit.
        "pageLoadStrategy": "eager",
        "goog:chromeOptions": options,
    })
}
