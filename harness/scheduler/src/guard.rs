//! Runs one operation of an attempt under its deadline, its cancellation and its panics.
//!
//! I1. The call returns by its bound, whatever the operation does, as long as the
//! operation does not block the thread (the reaper handles that). I2. A panic inside the operation is returned
//! as a value. I3. An operation that is ready at the first poll costs no timer and no lock.
//!
//! One timer serves all operations of an attempt. It is armed for the earliest deadline so far and
//! checks again when it fires, so a step far from its deadline never touches the timer wheel.
//!
//! Cancellation: see [`OnCancel`]. Dropping the future drops the operation.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use clawrl_core::CancelToken;
use tokio::time::{Instant, Sleep, sleep_until};

/// End of an operation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended<T> {
    /// It returned a value.
    Done(T),
    /// It was dropped at its bound.
    Overdue,
    /// It was dropped because the attempt was cancelled.
    Cancelled,
    /// It panicked with this message.
    Panicked(String),
}

/// Handling of the operation if the attempt is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnCancel {
    /// It is dropped at once: policies and providers clean up when dropped.
    Drop,
    /// It observes the cancellation itself and may take this long to return.
    Wait(Duration),
    /// It continues: closing is shielded.
    Shield,
}

/// Guards the operations of one attempt, one at a time.
pub(crate) struct Guard {
    token: CancelToken,
    cancelled: Pin<Box<dyn Future<Output = ()> + Send>>,
    timer: Pin<Box<Sleep>>,
}

impl Guard {
    pub(crate) fn new(token: CancelToken, first_deadline: Instant) -> Self {
        let waiting = token.clone();
        let cancelled = Box::pin(async move { waiting.cancelled().await });
        Self { token, cancelled, timer: Box::pin(sleep_until(first_deadline)) }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Runs an operation until `until` at the latest.
    pub(crate) async fn run<T>(
        &mut self,
        until: Instant,
        on_cancel: OnCancel,
        operation: impl Future<Output = T>,
    ) -> Ended<T> {
        let mut operation = pin!(operation);
        let mut until = until;
        let mut cancel_seen = false;
        poll_fn(|cx| {
            match catch_unwind(AssertUnwindSafe(|| operation.as_mut().poll(cx))) {
                Ok(Poll::Ready(value)) => return Poll::Ready(Ended::Done(value)),
                Ok(Poll::Pending) => {}
                Err(panic) => return Poll::Ready(Ended::Panicked(panic_text(&*panic))),
            }
            if !cancel_seen && on_cancel != OnCancel::Shield && self.poll_cancelled(cx) {
                cancel_seen = true;
                match on_cancel {
                    OnCancel::Drop => return Poll::Ready(Ended::Cancelled),
                    OnCancel::Wait(grace) => until = until.min(Instant::now() + grace),
                    OnCancel::Shield => {}
                }
            }
            match self.poll_timer(cx, until) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(()) if cancel_seen => Poll::Ready(Ended::Cancelled),
                Poll::Ready(()) => Poll::Ready(Ended::Overdue),
            }
        })
        .await
    }

    fn poll_cancelled(&mut self, cx: &mut Context<'_>) -> bool {
        // A future that was ready must not be polled again; the token itself stays fired.
        self.token.is_cancelled() || self.cancelled.as_mut().poll(cx).is_ready()
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>, until: Instant) -> Poll<()> {
        loop {
            if self.timer.is_elapsed() || self.timer.deadline() > until {
                self.timer.as_mut().reset(until);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if self.timer.deadline() >= until {
                return Poll::Ready(());
            }
        }
    }
}

/// Runs a future to its end; its panic comes back as text.
pub(crate) async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(panic) => Poll::Ready(Err(panic_text(&*panic))),
    })
    .await
}

/// Drops a value; its panic comes back as text.
pub(crate) fn drop_caught<T>(value: T) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| drop(value))).map_err(|panic| panic_text(&*panic))
}

/// The message of a panic, where it is text.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Runs an operation with a bound of 10 s, cancelled after `cancel_after`; gives result and seconds taken.
    async fn check<T: PartialEq + std::fmt::Debug>(
        operation: impl Future<Output = T>,
        on_cancel: OnCancel,
        cancel_after: Option<u64>,
        expected: (Ended<T>, u64),
    ) {
        let start = Instant::now();
        let token = CancelToken::new();
        let mut guard = Guard::new(token.clone(), start + 3 * SECOND);
        if let Some(seconds) = cancel_after {
            tokio::spawn(async move {
                tokio::time::sleep(SECOND * seconds as u32).await;
                token.cancel();
            });
        }
        let ended = guard.run(start + 10 * SECOND, on_cancel, operation).await;
        assert_eq!((ended, start.elapsed().as_secs()), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn each_end() {
        let wait = OnCancel::Wait(2 * SECOND);
        check(ready(1), OnCancel::Drop, None, (Ended::Done(1), 0)).await;
        check(pending::<()>(), OnCancel::Drop, None, (Ended::Overdue, 10)).await;
        check(pending::<()>(), OnCancel::Drop, Some(4), (Ended::Cancelled, 4)).await;
        check(pending::<()>(), wait, Some(4), (Ended::Cancelled, 6)).await;
        check(pending::<()>(), wait, Some(9), (Ended::Cancelled, 10)).await;
        check(pending::<()>(), OnCancel::Shield, Some(4), (Ended::Overdue, 10)).await;
        let slow = async {
            tokio::time::sleep(SECOND * 5).await;
            7
        };
        check(slow, wait, Some(4), (Ended::Done(7), 5)).await;
        let panics = async { panic!("broken {}", 1) };
        check::<()>(panics, OnCancel::Drop, None, (Ended::Panicked("broken 1".to_owned()), 0)).await;
    }

    /// One timer serves deadlines before and after the one it is armed for.
    #[tokio::test(start_paused = true)]
    async fn one_timer_many_deadlines() {
        let start = Instant::now();
        let mut guard = Guard::new(CancelToken::new(), start + 5 * SECOND);
        for (deadline, expected) in [(9, 9), (10, 10), (40, 40), (40, 40), (41, 41)] {
            let until = start + SECOND * deadline;
            assert_eq!(guard.run(until, OnCancel::Drop, pending::<()>()).await, Ended::Overdue);
            assert_eq!(start.elapsed().as_secs(), expected);
        }
        let far = start + 100 * SECOND;
        let ended = guard.run(far, OnCancel::Drop, tokio::time::sleep(SECOND)).await;
        assert_eq!((ended, start.elapsed().as_secs()), (Ended::Done(()), 42));
        let near = Instant::now() + SECOND;
        assert_eq!(guard.run(near, OnCancel::Drop, pending::<()>()).await, Ended::Overdue);
        assert_eq!(start.elapsed().as_secs(), 43);
    }
}
