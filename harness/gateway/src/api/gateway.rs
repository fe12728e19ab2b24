//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::guard::Guard;
use super::metrics::Metrics;
use super::pages::Logins;
use super::places::Places;
use super::settings::ServerSettings;
use crate::ledger::LedgerError;
use crate::recorder::RecorderHandle;
use crate::{Backend, Keys, Trainer};

/// Pages that watch what changes, at most: each keeps a connection.
const WATCHERS: usize = 512;
/// The same of one user.
const WATCHERS_OF_USER: usize = 32;

/// The server's inside.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) settings: ServerSettings,
    pub(super) guard: Guard,
    pub(super) keys: Keys,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) recorder: RecorderHandle,
    /// Who learns from what is recorded, if anybody does.
    pub(super) trainer: Option<Arc<dyn Trainer>>,
    /// Why nobody does, where nobody does.
    pub(super) why_no_trainer: String,
    pub(super) places: Places,
    pub(super) metrics: Metrics,
    /// Who is logged in to the pages.
    pub(super) logins: Logins,
    /// Places for pages that watch what changes.
    pub(super) watchers: Places,
    /// Cancelled at the server's end: whatever would go on for ever ends by it.
    pub(super) ending: CancellationToken,
    /// Answers, which the server waits for at its end.
    pub(super) answers: TaskTracker,
    pub(super) is_draining: AtomicBool,
    /// Whether the last call of the record failed.
    pub(super) is_record_broken: AtomicBool,
}

impl Gateway {
    /// That of a server at this port.
    pub(super) fn new(
        port: u16,
        settings: ServerSettings,
        keys: Keys,
        backend: Arc<dyn Backend>,
        recorder: RecorderHandle,
    ) -> Self {
        Self {
            guard: Guard::new(port, &settings.hosts),
            logins: Logins::new(port, settings.login),
            places: Places::new(settings.answers, settings.answers_of_user),
            settings,
            keys,
            backend,
            recorder,
            trainer: None,
            why_no_trainer: "the server was started so, or its policy cannot be trained".to_owned(),
            metrics: Metrics::default(),
            watchers: Places::new(WATCHERS, WATCHERS_OF_USER),
            ending: CancellationToken::new(),
            answers: TaskTracker::new(),
            is_draining: AtomicBool::new(false),
            is_record_broken: AtomicBool::new(false),
        }
    }

    /// The record could not be written.
    pub(super) fn unrecorded(&self, error: &LedgerError) {
        self.metrics.unrecorded.add(1);
        if !self.is_record_broken.swap(true, Ordering::Relaxed) {
            tracing::error!("chat is answered and not recorded: {error}");
        }
    }

    /// It could be written.
    pub(super) fn recorded(&self) {
        if self.is_record_broken.swap(false, Ordering::Relaxed) {
            tracing::warn!("chat is recorded again");
        }
    }
}
