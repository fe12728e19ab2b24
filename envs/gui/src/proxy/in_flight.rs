//! Counts requests that are being answered.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::watch;

use crate::site::Body;

/// A count of requests, shared by clones.
#[derive(Debug, Clone)]
pub(super) struct InFlight {
    count: watch::Sender<usize>,
}

impl Default for InFlight {
    fn default() -> Self {
        Self { count: watch::Sender::new(0) }
    }
}

impl InFlight {
    /// Counts a request until the returned value is dropped.
    pub(super) fn begin(&self) -> Answering {
        self.count.send_modify(|count| *count += 1);
        Answering { count: self.count.clone() }
    }

    pub(super) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Ready when the count is zero.
    pub(super) async fn none(&self) {
        // The sender is ours, so this cannot fail.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }
}

#[derive(Debug)]
pub(super) struct Answering {
    count: watch::Sender<usize>,
}

impl Answering {
    /// Extends the count until the whole body is sent or dropped.
    pub(super) fn until_sent(self, body: Body) -> Body {
        BodyWith { body, _held: self }.boxed_unsync()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count -= 1);
    }
}

/// A body, with a value that is dropped with it.
pub(super) struct BodyWith<B, T> {
    pub(super) body: B,
    pub(super) _held: T,
}

impl<B: HttpBody<Data = Bytes> + Unpin, T: Unpin> HttpBody for BodyWith<B, T> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    #[test]
    fn proxy_is_quiet_when_all_are_answered() {
        let in_flight = InFlight::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut none = pin!(in_flight.none());
        let (first, second) = (in_flight.begin(), in_flight.begin());
        assert!(none.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert_eq!(in_flight.count(), 1);
        assert!(none.as_mut().poll(&mut context).is_pending());
        drop(second);
        assert!(none.as_mut().poll(&mut context).is_ready());
    }
}
