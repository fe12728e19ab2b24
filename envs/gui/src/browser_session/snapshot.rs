//! Waits for a page to settle, and takes a snapshot of it.

use std::time::{Duration, Instant};

use clawrl_core::{Fault, GuiSpec};

use super::events::answer_or_event;
use super::{BrowserSession, OpenDialog};
use crate::bidi::Event;
use crate::page::{Page, PageError, PageView, SettledPage};

/// How many pages may replace each other during one wait. More are a fault.
const MAX_PAGES: u32 = 10;

/// Maximum dialogs dismissed before the pages are graded.
const MAX_DIALOGS: u32 = 5;

/// The visible state of the browser.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PageSnapshot {
    /// Titles, in the order in which they were opened.
    pub(crate) tabs: Vec<String>,
    pub(crate) active: usize,
    pub(crate) dialog: Option<OpenDialog>,
    /// `None` behind a dialog.
    pub(crate) view: Option<PageView>,
    /// Names of files downloaded since the last snapshot, in order.
    pub(crate) downloads: Vec<String>,
    pub(crate) quiet: bool,
    /// Refused origins so far, in order.
    pub(crate) refused: Vec<String>,
}

struct SnapshotProgress {
    /// Time limit for the current page.
    until: Instant,
    /// How many pages went away before they were read.
    pages: u32,
    quiet: bool,
    /// The document that was read last, and must be read again.
    unseen: Option<String>,
}

impl BrowserSession {
    /// Waits for the page to settle, and takes a snapshot.
    ///
    /// # Errors
    /// An env [`Fault`]: the page does not answer, or the browser is gone.
    pub(crate) async fn snapshot(&mut self, spec: &GuiSpec) -> Result<PageSnapshot, Fault> {
        let mut progress =
            SnapshotProgress { until: Instant::now() + spec.settle, pages: 0, quiet: false, unseen: None };
        loop {
            match self.settled(spec, &mut progress).await {
                Ok(view) => {
                    if let Some(tab) = self.tabs.get_mut(self.active) {
                        tab.title = view.title.clone();
                        tab.is_new = false;
                    }
                    return Ok(self.build_snapshot(Some(view), progress.quiet));
                }
                Err(PageError::Dialog) => {
                    self.hear_of_dialog().await;
                    return Ok(self.build_snapshot(None, true));
                }
                // The next page has its own time.
                Err(PageError::NoTab | PageError::Left) if progress.pages < MAX_PAGES => {
                    progress.pages += 1;
                    progress.until = Instant::now() + spec.settle;
                }
                Err(trouble) => return Err(trouble.fault()),
            }
        }
    }

    async fn settled(
        &mut self,
        spec: &GuiSpec,
        progress: &mut SnapshotProgress,
    ) -> Result<PageView, PageError> {
        let until = progress.until;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let settled = match self.settle(left, spec).await {
                Err(PageError::NoTab) => {
                    self.refresh().await?;
                    return Err(PageError::NoTab);
                }
                settled => settled?,
            };
            progress.quiet = settled.quiet;
            self.downloads.click(settled.files);
            if self.proxy.in_flight() > 0 && Instant::now() < until {
                // The awaited event may change the page once more.
                let _ = tokio::time::timeout_at(until.into(), self.proxy.quiet()).await;
                continue;
            }
            self.finish_downloads().await;
            // A tab opened by the last action becomes the observed one.
            if self.refresh().await? {
                return Err(PageError::Left);
            }
            let has_time = Instant::now() < until;
            let of = has_time.then_some(settled.identity.as_str());
            let view = self.page().observe_of(of, progress.unseen.as_deref(), &spec.hidden).await?;
            progress.unseen = view.as_ref().map(|view| view.identity.clone()).or(progress.unseen.take());
            match view {
                // Another document came meanwhile: the text is not of the settled one.
                None => return Err(PageError::Left),
                // One may still be opening.
                Some(_) if has_time && self.proxy.in_flight() > 0 => {}
                Some(view) => return Ok(view),
            }
        }
    }

    /// Waits until the active tab has settled. A tab opened for a file never does, which the browser may report
    /// meanwhile: [`PageError::NoTab`].
    async fn settle(&mut self, left: Duration, spec: &GuiSpec) -> Result<SettledPage, PageError> {
        self.hear_all();
        let new = self.tabs.get(self.active).filter(|tab| tab.is_new).map(|tab| tab.handle.clone());
        let Some(handle) = new else { return self.page().settle(left, &spec.hidden).await };
        if self.loaded_files.contains(&handle) {
            return Err(PageError::NoTab);
        }
        let settling = Page(&self.browser.client).settle(left, &spec.hidden);
        let is_for_file = |event: &Event| {
            event.method == "browsingContext.downloadWillBegin" && event.params["context"] == handle
        };
        let (settled, heard) = answer_or_event(settling, &mut self.events, is_for_file).await;
        self.hear_each(&heard);
        settled.unwrap_or(Err(PageError::NoTab))
    }

    fn build_snapshot(&mut self, view: Option<PageView>, quiet: bool) -> PageSnapshot {
        PageSnapshot {
            tabs: self.tabs.iter().map(|tab| tab.title.clone()).collect(),
            active: self.active,
            dialog: self.dialog().cloned(),
            view,
            downloads: self.downloads.take(),
            quiet,
            refused: self.proxy.refused(),
        }
    }

    /// Brings the pages to rest for grading: nothing is loading, and dialogs are dismissed. Returns whether they can be
    /// read: a page may open one dialog after another.
    ///
    /// # Errors
    /// As [`Self::snapshot`].
    pub(crate) async fn rest(&mut self, spec: &GuiSpec) -> Result<bool, Fault> {
        for _ in 0..MAX_DIALOGS {
            if self.snapshot(spec).await?.dialog.is_none() {
                return Ok(true);
            }
            match self.answer(false, None, spec).await {
                Ok(_)
                | Err(PageError::Refused(_) | PageError::NoTab | PageError::Left | PageError::Dialog) => {}
                Err(trouble) => return Err(trouble.fault()),
            }
        }
        Ok(self.snapshot(spec).await?.dialog.is_none())
    }
}
