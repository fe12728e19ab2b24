//! Settings of the recorder.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Clock, RedactionRule, SystemClock};
use crate::LinkConfig;

/// Where and how to record.
#[derive(Debug, Clone)]
pub struct RecorderSettings {
    /// Path of the ledger. Its folder must exist.
    pub path: PathBuf,
    /// Settings of linking.
    pub link: LinkConfig,
    /// Redaction rules, applied in this order before anything is stored.
    pub redaction: Vec<RedactionRule>,
    /// Source of the time.
    pub clock: Arc<dyn Clock>,
    /// Interval at which idle sessions are closed.
    pub expiry: Duration,
    /// Size of the queue. Enough for two batches, so that the next one fills while one is written.
    pub waiting: usize,
    /// Maximum number of calls per transaction: it limits how long the first waits for the last.
    pub batch: usize,
}

impl RecorderSettings {
    /// The machine's clock, the default rules, sessions that are idle after half an hour, and batches of 256.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            link: LinkConfig::default(),
            redaction: RedactionRule::defaults(),
            clock: Arc::new(SystemClock),
            expiry: Duration::from_secs(30),
            waiting: 512,
            batch: 256,
        }
    }
}
