//! A token that says "give up", shared by clones, without a runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use event_listener::Event;

/// Cancellation, seen by all clones. Once fired it stays fired.
#[derive(Debug, Clone, Default)]
pub struct CancelToken {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    fired: AtomicBool,
    event: Event,
}

impl CancelToken {
    /// A token that has not fired.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Fires the token and wakes all waiters.
    pub fn cancel(&self) {
        self.inner.fired.store(true, Ordering::Release);
        self.inner.event.notify(usize::MAX);
    }

    /// Whether the token has fired.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.inner.fired.load(Ordering::Acquire)
    }

    /// Ready when it fires. Safe to drop and to call again.
    pub async fn cancelled(&self) {
        loop {
            if self.is_cancelled() {
                return;
            }
            let listener = self.inner.event.listen();
            // Between the check and the listener it may have fired unheard.
            if self.is_cancelled() {
                return;
            }
            listener.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn wakes_all_clones_and_stays_fired() {
        let token = CancelToken::new();
        let other = token.clone();
        let mut waiting = pin!(other.cancelled());
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Pending);
        token.cancel();
        assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Ready(()));
        assert_eq!(pin!(other.cancelled()).as_mut().poll(&mut cx), Poll::Ready(()));
    }
}
