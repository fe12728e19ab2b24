//! Counting what exists.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// How many sandboxes of a backend exist, and how many there ever were at once.
#[derive(Debug, Default)]
pub struct LiveCount {
    live: AtomicU32,
    peak: AtomicU32,
    all_ended: Notify,
}

/// One in the count: from before a start until the kernel says that all of it has ended.
#[derive(Debug)]
pub struct Live(Arc<LiveCount>);

impl LiveCount {
    /// One more, from now on.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Live {
        let live = self.live.fetch_add(1, Ordering::AcqRel) + 1;
        self.peak.fetch_max(live, Ordering::AcqRel);
        Live(Arc::clone(self))
    }

    /// How many there are.
    #[must_use]
    pub fn live(&self) -> u32 {
        self.live.load(Ordering::Acquire)
    }

    /// How many there ever were at once.
    #[must_use]
    pub fn peak(&self) -> u32 {
        self.peak.load(Ordering::Acquire)
    }

    /// Waits until none exists; returns how many do after the limit.
    pub async fn all_ended(&self, limit: Duration) -> u32 {
        let ended = async {
            loop {
                // Created before the look, so that an end between the two is heard.
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
