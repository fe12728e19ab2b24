//! State that all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::concurrency::ConcurrencyLimit;
use super::guard::Guard;
use super::metrics::Metrics;
use super::pages::Logins;
use super::settings::ServerSettings;
use crate::ledger::LedgerError;
use crate::recorder::RecorderHandle;
use crate::{Backend, Keys, Trainer};

/// Maximum number of pages that receive changes: each holds a connection.
const MAX_WATCHERS: usize = 512;
/// The same per user.
const MAX_WATCHERS_PER_USER: usize = 32;

/// The server's shared state.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) settings: ServerSettings,
    pub(super) guard: Guard,
    pub(super) keys: Keys,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) recorder: RecorderHandle,
    /// The online trainer, if there is one.
    pub(super) trainer: Option<Arc<dyn Trainer>>,
    /// Why there is none.
    pub(super) why_no_trainer: String,
    pub(super) answer_limit: ConcurrencyLimit,
    pub(super) metrics: Metrics,
    /// Logins to the pages.
    pub(super) logins: Logins,
    /// Limits the pages that receive changes.
    pub(super) watcher_limit: ConcurrencyLimit,
    /// Cancelled at shutdown; ends connections that would stay open forever.
    pub(super) ending: CancellationToken,
    /// Running answers, which the shutdown awaits.
    pub(super) answers: TaskTracker,
    pub(super) is_draining: AtomicBool,
    /// Whether the last call of the recorder failed.
    pub(super) is_record_broken: AtomicBool,
}

impl Gateway {
    /// The state of a server at this port.
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
            answer_limit: ConcurrencyLimit::new(settings.answers, settings.answers_of_user),
            settings,
            keys,
            backend,
            recorder,
            trainer: None,
            why_no_trainer: "training is not enabled, or the policy cannot be trained".to_owned(),
            metrics: Metrics::default(),
            watcher_limit: ConcurrencyLimit::new(MAX_WATCHERS, MAX_WATCHERS_PER_USER),
            ending: CancellationToken::new(),
            answers: TaskTracker::new(),
            is_draining: AtomicBool::new(false),
            is_record_broken: AtomicBool::new(false),
        }
    }

    /// Notes that recording failed.
    pub(super) fn unrecorded(&self, error: &LedgerError) {
        self.metrics.unrecorded.add(1);
        if !self.is_record_broken.swap(true, Ordering::Relaxed) {
            tracing::error!("failed to record a chat: {error}");
        }
    }

    /// Notes that recording worked.
    pub(super) fn recorded(&self) {
        if self.is_record_broken.swap(false, Ordering::Relaxed) {
            tracing::warn!("recording works again");
        }
    }
}
