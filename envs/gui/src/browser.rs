//! A browser that answers, wherever it lives: contexts, tabs, and the files beside it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawrl_core::{Boundary, Fault};
use clawrl_sandbox::PutFile;
use fantoccini::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::bidi::{Bidi, BidiError};
use crate::remote::{Session, beside};
use crate::sandboxed::SandboxedBrowser;

/// A driver that has not said its port by then, or a browser that has not answered it, does not come.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(60);

/// A copy of nothing. Whether it was made.
const CLEAR_CLIPBOARD: &str = "(() => { let done = false;\
    const copy = event => { event.clipboardData.setData('text/plain', ''); event.preventDefault(); done = true; };\
    document.addEventListener('copy', copy, { once: true }); return document.execCommand('copy') && done; })()";

/// A field for a file.
const FIELD: &str = "(() => { const field = document.createElement('input'); field.type = 'file';\
    return document.documentElement.appendChild(field); })()";

/// What is in the file of a field, in base64; nothing where it is not there.
const READ: &str = "async (field, most) => { const [file] = field.files; if (!file) return null;\
    if (file.size > most) throw new Error(`it has ${file.size} bytes, and ${most} are read at most`);\
    const reader = new FileReader();\
    return new Promise((keep, refuse) => {\
        reader.onload = () => keep(reader.result.slice(reader.result.indexOf(',') + 1));\
        reader.onerror = () => reader.error.name === 'NotFoundError' ? keep(null) : refuse(reader.error);\
        reader.readAsDataURL(file); }); }";

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
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
];

/// A browser that answers.
pub(crate) struct Browser {
    pub(crate) client: Client,
    pub(crate) bidi: Bidi,
    pub(crate) host: BrowserHost,
}

/// Where a browser lives. Dropped, it ends.
pub(crate) enum BrowserHost {
    /// In a sandbox of ours, with its driver.
    Sandbox(SandboxedBrowser),
    /// Where an endpoint put it.
    Endpoint(Session),
}

/// A port of this process that a browser can reach.
pub(crate) struct Listening {
    pub(crate) listener: TcpListener,
    /// As the browser has it.
    pub(crate) address: String,
    /// Addresses from which it may be reached, besides the loopback; `None` for all.
    pub(crate) peers: Option<Vec<IpAddr>>,
}

impl Browser {
    /// Asks to be told what happens in it.
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
            let message = format!("there is no port for the browser's proxy: {error}");
            Fault::transient(Boundary::Provider, "browser-lost", message)
        })
    }

    /// Where the downloads of an attempt are laid, on the browser's machine; `None` where they cannot be had.
    pub(crate) fn downloads(&self, number: u64) -> Option<String> {
        match &self.host {
            BrowserHost::Sandbox(_) => Some(SandboxedBrowser::downloads(number)),
            BrowserHost::Endpoint(session) => session.downloads(),
        }
    }

    /// Whether all its attempts have one folder for their downloads.
    pub(crate) fn shares_downloads(&self) -> bool {
        matches!(self.host, BrowserHost::Endpoint(_))
    }

    /// Lays the files of an attempt on the browser's machine; where each is, by its path here.
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

    /// Ends what could still write among the downloads of a context.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn seal(&self, context: &str) -> Result<(), Fault> {
        match &self.host {
            BrowserHost::Sandbox(sandboxed) => sandboxed.halt().await,
            BrowserHost::Endpoint(_) => self.remove_context(context).await,
        }
    }

    /// A file of that folder, after [`Self::seal`]; `None` when nothing is there.
    ///
    /// # Errors
    /// An env [`Fault`], also for one that is larger than `most`.
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

    /// Reads a file of the browser's machine as a page does that a user gave it to, in a tab of no attempt.
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

    /// A user context of its own: cookies, storage, caches, service workers and downloads that no other has. All its
    /// requests go to the `proxy`, a host with a port.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn new_context(&self, proxy: &str, downloads: Option<&str>) -> Result<String, Fault> {
        let wanted = json!({
            // Without the last word, the loopback would be reached past the proxy.
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

    /// Lets pages do what a browser with windows lets them without a question: to write to the clipboard.
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

/// What becomes of an attempt whose browser refuses, or is gone.
pub(crate) fn lost(error: BidiError) -> Fault {
    let code = match &error {
        BidiError::Lost | BidiError::Late { .. } => "browser-lost",
        BidiError::Refused { .. } => "browser-refused",
    };
    Fault::transient(Boundary::Env, code, error.to_string())
}

/// What becomes of an attempt whose downloads lie where nobody reads them.
pub(crate) fn no_downloads() -> Fault {
    let message = "what is downloaded cannot be read: the WebDriver endpoint takes no files, and so names no folder that is ours";
    Fault::permanent(Boundary::Env, "remote-downloads", message)
}

/// The code of a browser that did not come up.
pub(crate) const NOT_STARTED: &str = "browser-start";

pub(crate) fn not_started(why: &str) -> Fault {
    Fault::transient(Boundary::Provider, NOT_STARTED, format!("the browser was not started: {why}"))
}

/// What a browser is to be: that program, where one is named, which finds the proxies of its contexts at a host.
pub(crate) fn capabilities(program: Option<&Path>, proxy_host: &str) -> Value {
    let mut switches: Vec<String> = SWITCHES.iter().map(|&switch| switch.to_owned()).collect();
    // Only the proxy of an attempt says what a name stands for.
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
        // What a document loads besides is waited for by the page's own script, and not for ever.
        "pageLoadStrategy": "eager",
        "goog:chromeOptions": options,
    })
}
