//! Events of the browser, in addition to its answers.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{BrowserSession, OpenDialog};
use crate::bidi::{BidiError, Event};
use crate::browser::lost;
use crate::page::PageError;

/// Events come over another connection than their answers, and late on a busy machine.
const EVENT_LIMIT: Duration = Duration::from_secs(5);

/// Time for the last downloads to end.
const LAST_DOWNLOADS: Duration = Duration::from_secs(20);

impl BrowserSession {
    /// Waits, for a limited time, until all expected downloads have started and ended.
    pub(super) async fn finish_downloads(&mut self) {
        self.wait_for_downloads(EVENT_LIMIT).await;
    }

    /// The same with a longer limit if some have started: those that have not ended by then are lost.
    pub(super) async fn finish_last_downloads(&mut self) {
        self.wait_for_downloads(LAST_DOWNLOADS).await;
    }

    async fn wait_for_downloads(&mut self, longest: Duration) {
        self.hear_all();
        let since = tokio::time::Instant::now();
        loop {
            let answered = self.proxy.files();
            let limit = match (self.downloads.loading(), self.downloads.unheard(answered)) {
                (0, 0) => return self.downloads.close(answered),
                (0, _) => EVENT_LIMIT,
                _ => longest,
            };
            match tokio::time::timeout_at(since + limit, self.events.recv()).await {
                Ok(Some(event)) => self.hear(&event),
                Ok(None) | Err(_) => return self.downloads.close(answered),
            }
        }
    }

    /// Sends a command that a dialog may block.
    ///
    /// # Errors
    /// [`PageError::Dialog`] when one opened meanwhile; [`PageError::Hung`], [`PageError::Lost`]. The inner error is
    /// the browser's code and message.
    pub(super) async fn command(
        &mut self,
        method: &str,
        params: Value,
    ) -> Result<Result<Value, (String, String)>, PageError> {
        let answer = self.browser.bidi.command(method, params);
        let is_dialog = |event: &Event| event.method == "browsingContext.userPromptOpened";
        let (result, heard) = answer_or_event(answer, &mut self.events, is_dialog).await;
        self.hear_each(&heard);
        match result {
            None => Err(PageError::Dialog),
            Some(Ok(value)) => Ok(Ok(value)),
            Some(Err(BidiError::Refused { error, message })) => Ok(Err((error, message))),
            Some(Err(BidiError::Late { .. })) => Err(PageError::Hung),
            Some(Err(BidiError::Lost)) => Err(PageError::Lost(lost(BidiError::Lost))),
        }
    }

    /// The contexts of all tabs, and the browser's own handles of the attempt's tabs, `None` if it does not report
    /// them. Events come over another connection and may be late; the tree is the driver's own, and may be late as
    /// well.
    ///
    /// # Errors
    /// [`PageError::Lost`]
    pub(super) async fn tree(&mut self) -> Result<(Vec<Value>, Option<HashSet<String>>), PageError> {
        let until = tokio::time::Instant::now() + EVENT_LIMIT;
        loop {
            self.hear_all();
            let open = self.open_tabs().await?;
            let tree = self.browser.bidi.command("browsingContext.getTree", json!({ "maxDepth": 0 })).await;
            let tree = match tree.map_err(|error| PageError::Lost(lost(error)))?["contexts"].take() {
                Value::Array(tabs) => tabs,
                _ => Vec::new(),
            };
            let is_told = |handle: &String| tree.iter().any(|tab| tab["context"].as_str() == Some(handle));
            if open.iter().flatten().all(is_told) {
                return Ok((tree, open));
            }
            // The driver reports a tab once it knows it. It may never learn of one that was closed meanwhile.
            match tokio::time::timeout_at(until, self.events.recv()).await {
                Ok(Some(event)) => self.hear(&event),
                Ok(None) | Err(_) => return Ok((tree, open)),
            }
        }
    }

    async fn open_tabs(&self) -> Result<Option<HashSet<String>>, PageError> {
        let question = json!({ "method": "Target.getTargets", "params": {} });
        let targets = match self.browser.bidi.command("goog:cdp.sendCommand", question).await {
            Ok(mut answer) => answer["result"]["targetInfos"].take(),
            // The browser does not support these commands.
            Err(BidiError::Refused { .. }) => return Ok(None),
            Err(error) => return Err(PageError::Lost(lost(error))),
        };
        let Value::Array(targets) = targets else { return Ok(None) };
        let is_ours = |target: &&Value| {
            let is_tab = target["type"] == "page" && target.get("subtype").is_none_or(|kind| kind == "");
            is_tab && target["browserContextId"].as_str() == Some(&self.context)
        };
        let handles = targets.iter().filter(is_ours).filter_map(|target| target["targetId"].as_str());
        Ok(Some(handles.map(str::to_owned).collect()))
    }

    pub(super) fn hear_all(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.hear(&event);
        }
    }

    pub(super) fn hear_each(&mut self, events: &[Event]) {
        for event in events {
            self.hear(event);
        }
    }

    fn hear(&mut self, event: &Event) {
        let text = |name: &str| event.params[name].as_str().unwrap_or_default().to_owned();
        match event.method.as_str() {
            "browsingContext.contextCreated" => {
                if let Some(parent) = event.params["parent"].as_str() {
                    self.frames.insert(text("context"), parent.to_owned());
                }
            }
            "browsingContext.contextDestroyed" => {
                self.frames.remove(&text("context"));
                self.loaded_files.remove(&text("context"));
            }
            // A dialog of a frame blocks the whole tab.
            "browsingContext.userPromptOpened" => {
                let tab = self.tab_of(text("context"));
                self.dialogs.insert(tab, OpenDialog { kind: text("type"), message: text("message") });
            }
            "browsingContext.userPromptClosed" => {
                let tab = self.tab_of(text("context"));
                self.dialogs.remove(&tab);
            }
            "browsingContext.downloadWillBegin" => {
                self.downloads.begin();
                self.loaded_files.insert(text("context"));
            }
            "browsingContext.downloadEnd" => {
                let path = text("filepath");
                let name = path.rsplit(['/', '\\']).next().filter(|_| text("status") == "complete");
                self.downloads.end(name);
            }
            _ => {}
        }
    }

    /// The tab of a frame, or the tab itself.
    fn tab_of(&self, context: String) -> String {
        let mut at = context;
        while let Some(parent) = self.frames.get(&at) {
            at = parent.clone();
        }
        at
    }

    /// Registers an open dialog for which no event has come yet.
    ///
    /// # Errors
    /// [`PageError`] if the driver does not report whether there is one.
    pub(super) async fn notice_dialog(&mut self) -> Result<(), PageError> {
        self.hear_all();
        if self.dialog().is_none() && self.page().has_dialog().await? {
            self.hear_of_dialog().await;
        }
        Ok(())
    }

    pub(super) async fn hear_of_dialog(&mut self) {
        let until = tokio::time::Instant::now() + EVENT_LIMIT;
        while self.dialog().is_none() {
            match tokio::time::timeout_at(until, self.events.recv()).await {
                Ok(Some(event)) => self.hear(&event),
                Ok(None) | Err(_) => break,
            }
        }
        if self.dialog().is_none() {
            let unknown = OpenDialog { kind: "dialog".to_owned(), message: String::new() };
            self.dialogs.insert(self.handle(), unknown);
        }
    }
}

/// Waits for an answer, or for an event that ends the wait first; processes all events meanwhile.
pub(super) async fn answer_or_event<T>(
    answer: impl Future<Output = T>,
    events: &mut mpsc::Receiver<Event>,
    ends: impl Fn(&Event) -> bool,
) -> (Option<T>, Vec<Event>) {
    let mut heard = Vec::new();
    let hearing = async {
        while let Some(event) = events.recv().await {
            let is_last = ends(&event);
            heard.push(event);
            if is_last {
                return;
            }
        }
        // The answer reports that the connection has ended.
        std::future::pending().await
    };
    let answer = tokio::select! {
        answer = answer => Some(answer),
        () = hearing => None,
    };
    (answer, heard)
}
