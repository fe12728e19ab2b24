//! A browser with a context, a proxy and a tab for one attempt, prepared ahead.
//!
//! G1. An attempt sees only the tabs of its own context, and its context reaches only its own proxy.
//! G2. The browser determines the active tab and the order in which tabs were opened.
//! G3. Effects in a page are awaited, within the task's limit, before it is observed.

mod clicks;
mod downloads;
mod drags;
mod events;
mod snapshot;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use clawrl_core::{Boundary, Fault, GuiSpec, SandboxKind};
use clawrl_sandbox::{Live, PutFile};
use fantoccini::wd::WindowHandle;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use url::Url;

use crate::action::{Action, Chord, DELETE, ENTER, Target};
use crate::bidi::{BidiError, Event};
use crate::browser::{Browser, BrowserKind, Listening, lost, no_downloads};
use crate::page::{Page, PageError, Point, ScrollTo, gone, preload, refusal, within};
use crate::picture::{PictureError, taken};
use crate::proxy::Proxy;
use crate::site::Sites;

pub(crate) use snapshot::PageSnapshot;

use downloads::Downloads;

/// Maximum tabs of an attempt. Further ones are closed.
const MAX_TABS: usize = 20;

const EMPTY: &str = "about:blank";

/// An open dialog that blocks its page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenDialog {
    /// `alert`, `confirm`, `prompt` or `beforeunload`.
    pub(crate) kind: String,
    pub(crate) message: String,
}

#[derive(Debug)]
struct Tab {
    handle: String,
    title: String,
    /// Whether it has not been observed yet.
    is_new: bool,
}

pub(crate) struct BrowserSession {
    pub(crate) browser: Browser,
    events: mpsc::Receiver<Event>,
    context: String,
    pub(crate) proxy: Proxy,
    /// The sites that the proxy serves, once an attempt has begun.
    pub(crate) sites: Option<Arc<Sites>>,
    tabs: Vec<Tab>,
    active: usize,
    /// By the tabs that they block.
    dialogs: HashMap<String, OpenDialog>,
    /// Frames, with their parents: a tab, or another frame.
    frames: HashMap<String, String>,
    downloads: Downloads,
    /// Tabs and frames in which a download started.
    loaded_files: HashSet<String>,
    /// Folder for downloads on the browser's machine; `None` if downloads are not supported.
    pub(crate) downloads_folder: Option<String>,
    /// Unique within the browser.
    number: u64,
    viewport: (u16, u16),
    /// Whether downloads matter to the task.
    pub(crate) is_for_downloads: bool,
    /// Whether files were uploaded for it.
    has_uploads: bool,
    /// Paths on the browser's machine, by their paths in the task.
    uploads: HashMap<String, String>,
    pub(crate) kind: BrowserKind,
    /// Number of attempts of the browser, this one included.
    pub(crate) attempts: u32,
    _live: Live,
}

impl BrowserSession {
    /// Prepares a context in a browser. `number` is unique within the browser.
    ///
    /// # Errors
    /// A [`Fault`]; the browser is ended then.
    pub(crate) async fn prepare(
        browser: Browser,
        events: mpsc::Receiver<Event>,
        number: u64,
        live: Live,
    ) -> Result<Self, Fault> {
        let Listening { listener, address, peers } = browser.listen().await?;
        let proxy = Proxy::serve(listener, peers);
        let downloads_folder = browser.downloads(number);
        let context = browser.new_context(&address, downloads_folder.as_deref()).await?;
        let hooks = json!({ "functionDeclaration": preload(), "userContexts": [context] });
        browser.bidi.command("script.addPreloadScript", hooks).await.map_err(lost)?;
        let mut session = Self {
            browser,
            events,
            context,
            proxy,
            sites: None,
            tabs: Vec::new(),
            active: 0,
            dialogs: HashMap::new(),
            frames: HashMap::new(),
            downloads: Downloads::default(),
            loaded_files: HashSet::new(),
            downloads_folder,
            number,
            viewport: GuiSpec::default().viewport,
            is_for_downloads: false,
            has_uploads: false,
            uploads: HashMap::new(),
            kind: BrowserKind { sandbox: SandboxKind::default(), memory_mib: 0 },
            attempts: 1,
            _live: live,
        };
        session.open_tab(GuiSpec::default().viewport).await?;
        session.browser.clear_clipboard(&session.handle()).await?;
        Ok(session)
    }

    /// Sets the kind and the number of attempts.
    pub(crate) fn of(self, kind: BrowserKind, attempts: u32) -> Self {
        Self { kind, attempts, ..self }
    }

    /// Whether the sandbox is in its state from before the attempt.
    pub(crate) fn is_clean(&mut self) -> bool {
        self.hear_all();
        // A download that started but was not reported yet writes its file later.
        let has_downloads = self.downloads.are_any(self.proxy.files());
        // If the next attempt uses the same folder, known names are not reliable.
        let may_have_some = self.is_for_downloads && self.browser.shares_downloads();
        !has_downloads && !may_have_some && !self.has_uploads
    }

    /// Removes the context; the browser returns to its earlier state.
    ///
    /// # Errors
    /// A [`Fault`]; the browser must not be reused.
    pub(crate) async fn discard(self) -> Result<(Browser, mpsc::Receiver<Event>), Fault> {
        let Self { browser, mut events, context, proxy, .. } = self;
        browser.remove_context(&context).await?;
        // Its port stays reserved until then: late requests of its pages must not reach another attempt's listener.
        drop(proxy);
        while events.try_recv().is_ok() {}
        Ok((browser, events))
    }

    /// Opens the first page, runs its preparation, and takes a snapshot.
    ///
    /// # Errors
    /// A setup [`Fault`]: the page cannot be opened, or a script fails.
    pub(crate) async fn begin(&mut self, spec: &GuiSpec, seed: u64) -> Result<PageSnapshot, Fault> {
        let handle = self.tabs.first().map(|tab| tab.handle.clone()).unwrap_or_default();
        self.viewport = spec.viewport;
        self.browser.set_viewport(&handle, spec.viewport).await?;
        // A page that is still loading is observed in its current state.
        let mut is_known = false;
        match self.open(&spec.start, spec).await {
            Ok(NavigationResult::Done) => {
                self.must_have_begun(spec).await?;
                is_known = true;
            }
            Ok(NavigationResult::Late) | Err(PageError::Dialog) => {}
            Ok(NavigationResult::Refused(why)) => {
                self.must_have_served(Boundary::Env)?;
                let stranger = self.proxy.stranger().unwrap_or_default();
                let message = format!("{}: {why}{stranger}", spec.start);
                return Err(Fault::transient(Boundary::Env, "page-unreachable", message));
            }
            Err(trouble) => return Err(trouble.fault()),
        }
        for (index, script) in spec.prepare.iter().enumerate() {
            let page = self.page();
            page.settle(spec.settle, &spec.hidden).await.map_err(PageError::fault)?;
            if !is_known {
                self.must_have_begun(spec).await?;
                is_known = true;
            }
            let ran = within(page.run(script, seed as u32)).await.map_err(PageError::fault)?;
            if let Err(why) = ran {
                let message = format!("`prepare`, script {}: {why}", index + 1);
                return Err(Fault::permanent(Boundary::Env, "setup-failed", message));
            }
        }
        let snapshot = self.snapshot(spec).await?;
        if !is_known {
            self.must_have_begun(spec).await?;
        }
        Ok(snapshot)
    }

    /// Performs an action after another one of the same step without a snapshot in between: what the first one opened
    /// delays this one.
    ///
    /// # Errors
    /// As [`Self::act`].
    pub(crate) async fn act_next(
        &mut self,
        action: &Action,
        spec: &GuiSpec,
    ) -> Result<Option<String>, PageError> {
        self.notice_dialog().await?;
        self.act(action, spec).await
    }

    /// Performs an action. The result is a message for the agent if it could not be done.
    ///
    /// # Errors
    /// A [`PageError`] that the agent cannot influence, and [`PageError::Dialog`] if a dialog opened meanwhile.
    pub(crate) async fn act(&mut self, action: &Action, spec: &GuiSpec) -> Result<Option<String>, PageError> {
        self.hear_all();
        if let Action::Dialog { accept, text } = action {
            return self.answer(*accept, text.as_deref(), spec).await;
        }
        if self.dialog().is_some() {
            return Ok(Some("a dialog is open; accept or dismiss it first".to_owned()));
        }
        let page = self.page();
        match action {
            Action::Click { target, button, presses } => match self.place(target, spec).await? {
                Ok(point) if *presses > 1 => self.click_again_and_again(point, *button, *presses).await?,
                Ok(point) => page.point(&[point], *button, *presses).await?,
                Err(why) => return Ok(Some(why)),
            },
            Action::Hover(target) => match self.place(target, spec).await? {
                Ok(point) => page.point(&[point], 0, 0).await?,
                Err(why) => return Ok(Some(why)),
            },
            Action::Drag { from, to } => return self.drag(from, to, spec).await,
            Action::Scroll { element, right, down } => {
                let element = match element {
                    Some(element) => match page.number(element).await? {
                        Ok(element) => Some(element),
                        Err(why) => return Ok(Some(why)),
                    },
                    None => None,
                };
                let moved: Value = within(page.call("scroll", json!([element, right, down]))).await?;
                return Ok(match (moved["error"].as_str(), moved["moved"].as_bool()) {
                    (Some(_), _) => Some(gone(element.unwrap_or_default())),
                    (None, Some(false)) => Some("nothing scrolls that way".to_owned()),
                    _ => None,
                });
            }
            Action::Type { element, text, append, enter } => {
                let element = match element {
                    Some(element) => match page.number(element).await? {
                        Ok(element) => Some(element),
                        Err(why) => return Ok(Some(why)),
                    },
                    None => None,
                };
                return self.type_text(element, text, *append, *enter).await;
            }
            Action::Press(Chord { held, pressed }) => page.keys(held, pressed).await?,
            Action::Select { element, options } => {
                let element = match page.number(element).await? {
                    Ok(element) => element,
                    Err(why) => return Ok(Some(why)),
                };
                let chosen: Value = within(page.call("choose", json!([element, options]))).await?;
                return Ok(refusal(&chosen, element));
            }
            Action::Upload { element, file } => {
                return match page.number(element).await? {
                    Ok(element) => self.upload(element, file, spec).await,
                    Err(why) => Ok(Some(why)),
                };
            }
            Action::Navigate(url) => {
                return Ok(match self.open(url, spec).await? {
                    NavigationResult::Done | NavigationResult::Late => None,
                    NavigationResult::Refused(why) => Some(why),
                });
            }
            Action::Back => within(async { Ok(self.browser.client.back().await?) }).await?,
            Action::SwitchTab(number) => match self.tab_of_number(*number, spec).await? {
                Some(at) => self.switch_to(at).await?,
                None => return Ok(Some(format!("there is no tab {number}"))),
            },
            Action::CloseTab(number) => match self.tab_of_number(*number, spec).await? {
                Some(_) if self.tabs.len() == 1 => {
                    return Ok(Some("the last tab cannot be closed".to_owned()));
                }
                Some(at) => {
                    let close = json!({ "context": self.tabs[at].handle });
                    let closed = self.browser.bidi.command("browsingContext.close", close).await;
                    closed.map_err(|error| PageError::Lost(lost(error)))?;
                }
                None => return Ok(Some(format!("there is no tab {number}"))),
            },
            // timer: the agent asked to wait.
            Action::Wait(time) => tokio::time::sleep(*time).await,
            Action::Dialog { .. } | Action::Submit(_) | Action::Screenshot => {}
        }
        Ok(None)
    }

    /// A picture of the active tab.
    ///
    /// # Errors
    /// Why there is none, which is not a fault.
    pub(crate) async fn picture(&self) -> Result<Vec<u8>, PictureError> {
        if self.dialog().is_some() {
            return Err(PictureError::Dialog);
        }
        let question = json!({ "context": self.handle(), "origin": "viewport" });
        let answer = self.browser.bidi.command("browsingContext.captureScreenshot", question);
        taken(self.viewport, answer).await
    }

    /// Verifies that every file of the sites matched the plan, and that the task's origins could be reached.
    ///
    /// # Errors
    /// The first [`Fault`] among them.
    pub(crate) fn must_have_served(&self, boundary: Boundary) -> Result<(), Fault> {
        if let Some(why) = self.proxy.unreachable() {
            return Err(Fault::transient(boundary, "origin-unreachable", why));
        }
        match self.sites.as_ref().and_then(|sites| sites.fault()) {
            Some(fault) => Err(Fault { boundary, ..fault }),
            None => Ok(()),
        }
    }

    fn handle(&self) -> String {
        self.tabs.get(self.active).map(|tab| tab.handle.clone()).unwrap_or_default()
    }

    /// The dialog that blocks the active tab.
    fn dialog(&self) -> Option<&OpenDialog> {
        self.dialogs.get(&self.tabs.get(self.active)?.handle)
    }

    pub(crate) fn context(&self) -> &str {
        &self.context
    }

    pub(crate) fn page(&self) -> Page<'_> {
        Page(&self.browser.client)
    }

    async fn open_tab(&mut self, viewport: (u16, u16)) -> Result<(), Fault> {
        let handle = self.browser.new_tab(&self.context, viewport).await?;
        self.tabs.push(Tab { handle, title: EMPTY.to_owned(), is_new: false });
        self.switch_to(self.tabs.len() - 1).await.map_err(PageError::fault)
    }

    async fn switch_to(&mut self, at: usize) -> Result<(), PageError> {
        let handle = WindowHandle::try_from(self.tabs[at].handle.clone())
            .map_err(|error| PageError::Refused(error.to_string()))?;
        within(async { Ok(self.browser.client.switch_to_window(handle).await?) }).await?;
        self.active = at;
        // A tab in the background draws no frames, and never settles.
        let front = json!({ "context": self.tabs[at].handle });
        let shown = self.browser.bidi.command("browsingContext.activate", front).await;
        shown.map(drop).map_err(|error| PageError::Lost(lost(error)))
    }

    /// Processes the browser's events; returns whether another tab is active now.
    async fn refresh(&mut self) -> Result<bool, PageError> {
        let (tree, open) = self.tree().await?;
        // A tab that existed when the list was requested, and is not in the browser's list, was closed.
        let is_closed = |handle: &str| {
            let is_known = self.tabs.iter().any(|tab| tab.handle == handle);
            is_known && open.as_ref().is_some_and(|open| !open.contains(handle))
        };
        let mut there = Vec::new();
        for tab in &tree {
            let Some(handle) = tab["context"].as_str() else { continue };
            if tab["userContext"].as_str() != Some(&self.context) || is_closed(handle) {
                continue;
            }
            // A browser with windows closes a tab that was opened for a file; commands in it would never be answered.
            let is_new = self.tabs.iter().all(|tab| tab.handle != handle || tab.is_new);
            let is_empty = matches!(tab["url"].as_str(), Some("" | EMPTY));
            if is_new && is_empty && self.loaded_files.contains(handle) {
                self.close_unseen(handle).await;
                continue;
            }
            if !is_empty {
                // It is a page that started a download.
                self.loaded_files.remove(handle);
            }
            there.push(handle.to_owned());
        }
        let before = self.tabs.get(self.active).map(|tab| tab.handle.clone());
        self.tabs.retain(|tab| there.contains(&tab.handle));
        self.dialogs.retain(|handle, _| there.contains(handle));
        let mut opened = false;
        for handle in there {
            if self.tabs.iter().any(|tab| tab.handle == handle) {
                continue;
            }
            if self.tabs.len() >= MAX_TABS {
                self.close_unseen(&handle).await;
                continue;
            }
            // A tab that closed itself meanwhile has no size, and is removed at the next snapshot.
            let _ = self.browser.set_viewport(&handle, self.viewport).await;
            self.tabs.push(Tab { handle, title: String::new(), is_new: true });
            opened = true;
        }
        if self.tabs.is_empty() {
            // After the last window of a browser was closed, it starts with an empty one.
            self.open_tab(self.viewport).await.map_err(PageError::Lost)?;
            return Ok(true);
        }
        let last = self.tabs.len() - 1;
        let now = match self.tabs.iter().position(|tab| Some(&tab.handle) == before.as_ref()) {
            Some(at) if !opened => {
                self.active = at;
                return Ok(false);
            }
            _ => last,
        };
        self.switch_to(now).await?;
        Ok(true)
    }

    /// Closes a tab that the agent has not seen. It may have closed itself meanwhile.
    async fn close_unseen(&self, handle: &str) {
        let _ = self.browser.bidi.command("browsingContext.close", json!({ "context": handle })).await;
    }

    /// Uploads the files that the attempt may use.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn put(&mut self, files: Vec<PutFile>) -> Result<(), Fault> {
        self.has_uploads = true;
        self.uploads = self.browser.put(files, self.number).await?;
        Ok(())
    }

    /// Ends everything that could still write to the downloads. Only [`Self::downloaded`] works afterwards.
    ///
    /// # Errors
    /// An env [`Fault`]
    pub(crate) async fn seal(&mut self) -> Result<(), Fault> {
        self.finish_last_downloads().await;
        self.browser.seal(&self.context).await
    }

    /// Reads a downloaded file, after [`Self::seal`]; `None` when there is none.
    ///
    /// # Errors
    /// An env [`Fault`], also for a file larger than `most` bytes.
    pub(crate) async fn downloaded(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, Fault> {
        let folder = self.downloads_folder.as_deref().ok_or_else(no_downloads)?;
        self.browser.downloaded(folder, name, most).await
    }

    async fn answer(
        &mut self,
        accept: bool,
        text: Option<&str>,
        spec: &GuiSpec,
    ) -> Result<Option<String>, PageError> {
        const NONE: &str = "no dialog is open";
        self.notice_dialog().await?;
        if self.dialog().is_none() {
            match self.come_to_rest(spec).await {
                Err(PageError::Dialog) => self.hear_of_dialog().await,
                rested => rested?,
            }
        }
        let Some(dialog) = self.dialog().cloned() else { return Ok(Some(NONE.to_owned())) };
        if text.is_some() && dialog.kind != "prompt" {
            return Ok(Some(format!("the dialog is of the kind `{}`, which takes no text", dialog.kind)));
        }
        let client = &self.browser.client;
        let answered = within(async {
            if let Some(text) = text {
                client.send_alert_text(text).await?;
            }
            if accept {
                client.accept_alert().await?;
            } else {
                client.dismiss_alert().await?;
            }
            Ok(())
        })
        .await;
        if matches!(answered, Ok(()) | Err(PageError::Refused(_))) {
            self.dialogs.remove(&self.handle());
        }
        match answered {
            // It has closed, although no event has reported it.
            Err(PageError::Refused(_)) => Ok(Some(NONE.to_owned())),
            answered => answered.map(|()| None),
        }
    }

    /// The index of a tab. An unknown one may just be opening as a result of the previous action.
    async fn tab_of_number(&mut self, number: usize, spec: &GuiSpec) -> Result<Option<usize>, PageError> {
        let Some(at) = number.checked_sub(1) else { return Ok(None) };
        if at >= self.tabs.len() {
            self.come_to_rest(spec).await?;
            self.refresh().await?;
        }
        Ok(Some(at).filter(|&at| at < self.tabs.len()))
    }

    /// Waits until the page has settled, or is gone.
    async fn come_to_rest(&mut self, spec: &GuiSpec) -> Result<(), PageError> {
        match self.page().settle(spec.settle, &spec.hidden).await {
            Ok(settled) => self.downloads.click(settled.files),
            Err(PageError::NoTab | PageError::Left) => {}
            Err(trouble) => return Err(trouble),
        }
        Ok(())
    }

    async fn place(&self, target: &Target, spec: &GuiSpec) -> Result<Result<Point, String>, PageError> {
        self.place_at(target, ScrollTo::Middle, spec).await
    }

    /// The position of a target, scrolled into view if necessary.
    async fn place_at(
        &self,
        target: &Target,
        to: ScrollTo,
        spec: &GuiSpec,
    ) -> Result<Result<Point, String>, PageError> {
        match *target {
            Target::Element(ref element) => match self.page().number(element).await? {
                Ok(element) => self.page().locate(element, to).await,
                Err(why) => Ok(Err(why)),
            },
            Target::At(x, y) => {
                let (width, height) = spec.viewport;
                let inside = (0..i64::from(width)).contains(&x) && (0..i64::from(height)).contains(&y);
                Ok(if inside {
                    Ok(Point { x, y })
                } else {
                    Err(format!("{x},{y} is outside of the window, which is {width} by {height}"))
                })
            }
        }
    }

    async fn type_text(
        &self,
        element: Option<u32>,
        text: &str,
        append: bool,
        enter: bool,
    ) -> Result<Option<String>, PageError> {
        let page = self.page();
        let mut typed: Vec<char> = text.chars().map(|c| if c == '\n' { ENTER } else { c }).collect();
        if let Some(element) = element {
            let ready: Value = within(page.call("ready", json!([element]))).await?;
            if let Some(why) = refusal(&ready, element) {
                return Ok(Some(why));
            }
            let kind = ready["kind"].as_str().unwrap_or_default();
            if matches!(kind, "date" | "time" | "month" | "week" | "datetime-local" | "color" | "range") {
                let set: Value = within(page.call("setValue", json!([element, text]))).await?;
                let why = refusal(&set, element);
                if why.is_none() && enter {
                    page.keys(&[], &[ENTER]).await?;
                }
                return Ok(why);
            }
            if ready["editable"].as_bool() != Some(true) {
                return Ok(Some(format!("element {element} takes no text")));
            }
            if !append {
                let cleared: Value = within(page.call("clear", json!([element]))).await?;
                if cleared["empty"].as_bool() == Some(false) && typed.is_empty() {
                    typed.push(DELETE);
                }
            }
        }
        if enter {
            typed.push(ENTER);
        }
        page.keys(&[], &typed).await?;
        Ok(None)
    }

    async fn upload(&self, element: u32, file: &str, spec: &GuiSpec) -> Result<Option<String>, PageError> {
        let Some(path) = self.uploads.get(file) else {
            let names: Vec<&str> = spec.files.iter().map(|file| file.path.as_str()).collect();
            return Ok(Some(match names.as_slice() {
                [] => "this task has no files to upload".to_owned(),
                names => format!("there is no file `{file}`; files: {}", names.join(", ")),
            }));
        };
        let script = "const e = window[Symbol.for('clawrl.page')].element(arguments[0]);\
                      return e instanceof HTMLInputElement && e.type === 'file' ? e : null;";
        let found =
            within(async { Ok(self.browser.client.execute(script, vec![json!(element)]).await?) }).await?;
        let Some(reference) = found.as_object().and_then(|one| one.values().next()).and_then(Value::as_str)
        else {
            return Ok(Some(format!("element {element} takes no files")));
        };
        let question = json!({
            "context": self.tabs[self.active].handle,
            "element": { "sharedId": reference },
            "files": [path],
        });
        match self.browser.bidi.command("input.setFiles", question).await {
            Ok(_) => Ok(None),
            Err(BidiError::Refused { message, .. }) => Ok(Some(message)),
            Err(error) => Err(PageError::Lost(lost(error))),
        }
    }

    async fn open(&mut self, url: &str, spec: &GuiSpec) -> Result<NavigationResult, PageError> {
        let scheme = url.split(':').next().unwrap_or_default().to_ascii_lowercase();
        if !url.contains("://") || !matches!(scheme.as_str(), "http" | "https") {
            let why = format!("`{url}` is not an address; addresses begin with http:// or https://");
            return Ok(NavigationResult::Refused(why));
        }
        // Commands of this kind block no others: a page that loads for long is observed in its current state.
        let question = json!({ "context": self.handle(), "url": url, "wait": "complete" });
        let opening = self.browser.bidi.command("browsingContext.navigate", question);
        match tokio::time::timeout(spec.settle, opening).await {
            Ok(Ok(_)) => Ok(NavigationResult::Done),
            Err(_) | Ok(Err(BidiError::Late { .. })) => Ok(NavigationResult::Late),
            Ok(Err(BidiError::Refused { message, .. })) => {
                Ok(NavigationResult::Refused(format!("{url} cannot be opened: {message}")))
            }
            Ok(Err(BidiError::Lost)) => Err(PageError::Lost(lost(BidiError::Lost))),
        }
    }

    /// Fails if the first page is an error page that the task did not define.
    async fn must_have_begun(&self, spec: &GuiSpec) -> Result<(), Fault> {
        self.must_have_served(Boundary::Env)?;
        let asked = within(async { Ok(self.browser.client.execute(STATUS, Vec::new()).await?) }).await;
        let (status, address) = match asked {
            Ok(answer) if answer["failed"].as_bool() == Some(true) => {
                let message = format!("{}: the connection failed", spec.start);
                return Err(Fault::transient(Boundary::Env, "page-unreachable", message));
            }
            Ok(answer) => (
                answer["status"].as_u64().unwrap_or_default(),
                answer["address"].as_str().unwrap_or_default().to_owned(),
            ),
            // It exists, and the first snapshot shows its effects.
            Err(PageError::Dialog | PageError::NoTab | PageError::Left | PageError::Refused(_)) => {
                return Ok(());
            }
            Err(trouble) => return Err(trouble.fault()),
        };
        let of_site = Url::parse(&address)
            .ok()
            .and_then(|address| self.sites.as_ref().and_then(|sites| sites.is_written(&address)));
        if status < FIRST_ERROR || of_site == Some(true) {
            return Ok(());
        }
        let message = format!("{}: {address} was answered with status {status}", spec.start);
        // Sites have the same files in the next attempt; elsewhere the error may pass.
        Err(match of_site {
            Some(_) => Fault::permanent(Boundary::Env, "page-unreachable", message),
            None => Fault::transient(Boundary::Env, "page-unreachable", message),
        })
    }
}

enum NavigationResult {
    /// A page that has loaded completely.
    Done,
    /// A page that has not loaded yet.
    Late,
    /// Refused, with a message for the agent.
    Refused(String),
}

/// The page's HTTP status, which no script of the page can change, and whether it is the browser's own error page.
const STATUS: &str = "const [begun] = performance.getEntriesByType('navigation');\
    return { status: begun?.responseStatus ?? 0, address: begun?.name ?? '', failed: location.protocol === 'chrome-error:' };";

/// The first status that denotes an error.
const FIRST_ERROR: u64 = 400;
