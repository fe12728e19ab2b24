//! An answer that is driven by its own connection: whenever that has room it asks, and what the answer has said since goes out as one
//! frame. No task and no channel are between the policy and the connection, so that a piece wakes one task, not two.
//!
//! I1. A connection that is dropped takes no answer with it: the answer goes on in a task of its own, knows that its client is gone, and
//! comes to its end in the record. A client that does not read has its connection dropped ([`super::patient::Patient`]). I2. What is said and
//! not yet sent is bounded: an answer that is so far ahead waits for its client.
//!
//! Cancellation: [`Driven`] may be dropped at any time (I1). At the end of the runtime nothing goes on; the record says so at its next
//! opening.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use hyper::body::{Body, Frame};
use tokio::runtime::Handle;

use super::error::ApiError;

/// Bytes that an answer may be ahead of its connection, which has a buffer of its own. A frame is about as long at most.
const AHEAD: usize = 16 << 10;
/// Room of a first frame: some words and what is around them.
const FRAME: usize = 1 << 10;

/// The answer's side: what it says, and whether anybody listens.
#[derive(Debug, Clone)]
pub(super) struct Outlet(Arc<Mutex<Said>>);

#[derive(Debug, Default)]
struct Said {
    /// What the connection has not taken yet.
    bytes: BytesMut,
    /// Whether there is an answer; taken by whoever waits for its beginning.
    begun: Option<Result<(), ApiError>>,
    is_gone: bool,
}

/// Nobody listens any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

impl Outlet {
    /// Says that there is an answer, or why there is none.
    pub(super) fn begin(&self, begun: Result<(), ApiError>) {
        self.said().begun = Some(begun);
    }

    /// Ready when there is room for more. Nobody has to be woken for that: who takes what was said asks for more right after.
    ///
    /// # Errors
    /// [`Gone`].
    pub(super) fn poll_room(&self) -> Poll<Result<(), Gone>> {
        let said = self.said();
        match said.is_gone {
            true => Poll::Ready(Err(Gone)),
            false if said.bytes.len() >= AHEAD => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    /// Says what `write` writes, whether or not there is room.
    ///
    /// # Errors
    /// [`Gone`].
    pub(super) fn say(&self, write: impl FnOnce(&mut BytesMut)) -> Result<(), Gone> {
        let mut said = self.said();
        if said.is_gone {
            return Err(Gone);
        }
        said.bytes.reserve(FRAME);
        write(&mut said.bytes);
        Ok(())
    }

    /// Returns when nobody listens any more. Whoever finds that out asks the answer again, so that nobody is woken.
    pub(super) async fn gone(&self) -> Gone {
        poll_fn(|_| if self.said().is_gone { Poll::Ready(Gone) } else { Poll::Pending }).await
    }

    /// Nothing that panics runs under the lock.
    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection's side: an answer, as the body of a response.
pub(super) struct Driven {
    outlet: Outlet,
    /// Nothing once it has ended.
    answer: Option<BoxFuture<'static, ()>>,
    runtime: Handle,
}

impl Driven {
    /// To be made within a runtime.
    pub(super) fn new<F>(answer: impl FnOnce(Outlet) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let outlet = Outlet(Arc::default());
        let answer: BoxFuture<'static, ()> = Box::pin(answer(outlet.clone()));
        Self { outlet, answer: Some(answer), runtime: Handle::current() }
    }

    /// Waits until there is an answer.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn begin(&mut self) -> Result<(), ApiError> {
        poll_fn(|context| {
            let poll = self.advance(context);
            match self.outlet.said().begun.take() {
                Some(begun) => Poll::Ready(begun),
                None => poll.map(|()| Err(ApiError::internal("the answer did not begin"))),
            }
        })
        .await
    }

    /// Asks the answer for more. One that panics is gone.
    fn advance(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(mut answer) = self.answer.take() else { return Poll::Ready(()) };
        let poll = answer.as_mut().poll(context);
        if poll.is_pending() {
            self.answer = Some(answer);
        }
        poll
    }
}

impl Body for Driven {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let poll = self.advance(context);
        // A new buffer for each frame: what was freed a moment ago is at hand, what this answer had last is not.
        let bytes = std::mem::take(&mut self.outlet.said().bytes);
        match poll {
            _ if !bytes.is_empty() => Poll::Ready(Some(Ok(Frame::data(bytes.freeze())))),
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        let Some(answer) = self.answer.take() else { return };
        let mut said = self.outlet.said();
        said.is_gone = true;
        said.bytes = BytesMut::new();
        drop(said);
        self.runtime.spawn(answer);
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;
    use futures_util::FutureExt;
    use http_body_util::BodyExt;
    use tokio::sync::oneshot;

    use super::*;

    /// An answer that says `word` again and again, and at its end that it was left.
    fn endless(word: &'static [u8]) -> (Driven, oneshot::Receiver<Gone>) {
        let (end, ended) = oneshot::channel();
        let driven = Driven::new(|outlet| async move {
            outlet.begin(Ok(()));
            while poll_fn(|_| outlet.poll_room()).await.is_ok() {
                let _ = outlet.say(|bytes| bytes.put_slice(word));
            }
            end.send(Gone).unwrap();
        });
        (driven, ended)
    }

    fn frame(driven: &mut Driven) -> Option<Bytes> {
        let frame = driven.frame().now_or_never().expect("more is said at once")?;
        frame.unwrap().into_data().ok()
    }

    #[tokio::test]
    async fn i2_an_answer_is_ahead_by_so_much_at_most() {
        let (mut driven, ended) = endless(b"word ");
        driven.begin().await.unwrap();
        for _ in 0..3 {
            assert_eq!(frame(&mut driven).unwrap().len(), AHEAD.div_ceil(5) * 5);
        }
        drop(driven);
        assert_eq!(ended.await, Ok(Gone));
    }

    #[tokio::test]
    async fn i1_who_never_asks_leaves_an_answer_that_ends() {
        let (driven, ended) = endless(b"word");
        drop(driven);
        assert_eq!(ended.await, Ok(Gone));
    }

    #[tokio::test]
    async fn what_ends_is_taken_to_its_end() {
        let mut driven = Driven::new(|outlet| async move {
            outlet.begin(Ok(()));
            outlet.say(|bytes| bytes.put_slice(b"all")).unwrap();
        });
        driven.begin().await.unwrap();
        assert_eq!(frame(&mut driven).unwrap(), "all");
        assert_eq!(frame(&mut driven), None);
        let mut none = Driven::new(|_| async {});
        assert_eq!(none.begin().await.unwrap_err().message(), "the answer did not begin");
    }
}
