//! What may be set about recording.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Clock, RedactionRule, SystemClock};
use crate::LinkConfig;

/// Where and how to record.
#[derive(Debug, Clone)]
pub struct RecorderSettings {
    /// The ledger's file. Its folder has to be there.
    pub path: PathBuf,
    /// About linking.
    pub link: LinkConfig,
    /// What is taken out before anything is stored, in this order.
    pub redaction: Vec<RedactionRule>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// How often sessions in which nothing happens are looked for.
    pub expiry: Duration,
    /// Number of callers that may wait for the thread; one more waits outside. Enough for two batches, so that the next
    /// one fills while one is written.
    pub waiting: usize,
    /// Number of callers of one transaction at most: it bounds how long the first of them waits for the last.
    pub batch: usize,
}

impl RecorderSettings {
    /// With the machine's clock, the default rules, half an hour until a session is idle, and batches of 256.
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
