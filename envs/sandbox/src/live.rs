//! Counts live sandboxes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// The current and the highest number of sandboxes of a backend.
#[derive(Debug, Default)]
pub struct LiveCount {
    live: AtomicU32,
    peak: AtomicU32,
    all_ended: Notify,
}

/// One counted sandbox: from before its start until the kernel reports that all of it has ended.
#[derive(Debug)]
pub struct Live(Arc<LiveCount>);

impl LiveCount {
    /// Counts one more until the returned value is dropped.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Live {
        let live = self.live.fetch_add(1, Ordering::AcqRel) + 1;
        self.peak.fetch_max(live, Ordering::AcqRel);
        Live(Arc::clone(self))
    }

    /// The current number.
    #[must_use]
    pub fn live(&self) -> u32 {
        self.live.load(Ordering::Acquire)
    }

    /// The highest number so far.
    #[must_use]
    pub fn peak(&self) -> u32 {
        self.peak.load(Ordering::Acquire)
    }

    /// Waits until none is left; returns how many are left after the limit.
    pub async fn all_ended(&self, limit: Duration) -> u32 {
        let ended = async {
            loop {
                // Created before the check, so that an end in between is noticed.
                let ended = self.all_ended.notified();
                if self.live() == 0 {
                    return;
                }
                ended.await;
            }
        };
        let _ = tokio::time::timeout(limit, ended).await;
        self.live()
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.0.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.all_ended.notify_waiters();
        }
    }
}
