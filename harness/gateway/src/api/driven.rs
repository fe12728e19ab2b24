//! An answer that is driven by its own connection: whenever that has room it asks, and what the answer has said since goes out as one
//! frame. No task and no channel are between the policy and the connection, so that a piece wakes one task, not two.
//!
//! I1. A connection that is dropped takes no answer with it: the answer goes on in a task of its own, knows that its client is gone, and
//! comes to its end in the record. I2. So does an answer whose connection has not asked for as long as a client may not read.
//! I3. What is said and not yet sent is bounded: an answer that is so far ahead waits for its client.
//!
//! Cancellation: [`Driven`] may be dropped at any time (I1). At the end of the runtime nothing goes on; the record says so at its next
//! opening.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::buf::Writer;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use hyper::body::{Body, Frame};
use tokio::runtime::Handle;

use super::error::ApiError;

/// Bytes that an answer may be ahead of its connection, which has a buffer of its own. A frame is about as long at most.
const AHEAD: usize = 16 << 10;
/// Room of a first frame: some words and what is around them.
const FRAME: usize = 1 << 10;

/// Why an answer goes on without a client.
const GONE: &str = "the client went away";
const STALLED: &str = "the client did not read its answer";

/// The answer's side: what it says, and whether anybody listens.
#[derive(Debug, Clone)]
pub(super) struct Outlet(Arc<Mutex<Said>>);

#[derive(Debug, Default)]
struct Said {
    /// What the connection has not taken yet.
    bytes: BytesMut,
    /// Whether there is an answer; taken by whoever waits for its beginning.
    begun: Option<Result<(), ApiError>>,
    /// Why nobody listens, if nobody does.
    gone: Option<&'static str>,
}

impl Outlet {
    /// Says that there is an answer, or why there is none.
    pub(super) fn begin(&self, begun: Result<(), ApiError>) {
        lock(&self.0).begun = Some(begun);
    }

    /// Says what `write` writes.
    ///
    /// # Errors
    /// Why nobody listens any more.
    pub(super) async fn say(
        &self,
        write: impl FnOnce(&mut Writer<&mut BytesMut>),
    ) -> Result<(), &'static str> {
        // Nobody has to be woken for this: who takes what was said asks for more right after.
        poll_fn(|_| {
            let said = lock(&self.0);
            match said.gone {
                Some(why) => Poll::Ready(Err(why)),
                None if said.bytes.len() >= AHEAD => Poll::Pending,
                None => Poll::Ready(Ok(())),
            }
        })
        .await?;
        let bytes = &mut lock(&self.0).bytes;
        bytes.reserve(FRAME);
        write(&mut bytes.writer());
        Ok(())
    }

    /// Returns when nobody listens any more, with the reason. Whoever finds that out asks the answer again, so that nobody is woken.
    pub(super) async fn gone(&self) -> &'static str {
        poll_fn(|_| lock(&self.0).gone.map_or(Poll::Pending, Poll::Ready)).await
    }
}

/// The connection's side: an answer, as the body of a response.
pub(super) struct Driven {
    course: Arc<Course>,
    /// Among those that are watched, and under which number.
    watched: Option<(Arc<Streams>, u64)>,
}

/// An answer's way to its end, which its connection follows, or a task.
struct Course {
    outlet: Outlet,
    /// Nothing once it has ended, or goes on elsewhere.
    answer: Mutex<Option<BoxFuture<'static, ()>>>,
    /// How often the connection has asked, and how it is woken.
    asked: Mutex<(u64, Option<Waker>)>,
    runtime: Handle,
}

impl Course {
    /// Asks the answer for more. One that panics is gone.
    fn advance(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut answer = lock(&self.answer);
        let Some(mut running) = answer.take() else { return Poll::Ready(()) };
        let poll = running.as_mut().poll(context);
        if poll.is_pending() {
            *answer = Some(running);
        }
        poll
    }

    /// Lets the answer come to its end without a client (I1, I2).
    fn leave(&self, why: &'static str) {
        let Some(answer) = lock(&self.answer).take() else { return };
        let mut said = lock(&self.outlet.0);
        said.gone = Some(why);
        said.bytes = BytesMut::new();
        drop(said);
        self.runtime.spawn(answer);
    }
}

impl Driven {
    /// To be made within a runtime.
    pub(super) fn new<F>(answer: impl FnOnce(Outlet) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let outlet = Outlet(Arc::default());
        let answer: BoxFuture<'static, ()> = Box::pin(answer(outlet.clone()));
        let course = Course {
            outlet,
            answer: Mutex::new(Some(answer)),
            asked: Mutex::default(),
            runtime: Handle::current(),
        };
        Self { course: Arc::new(course), watched: None }
    }

    /// Waits until there is an answer.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn begin(&self) -> Result<(), ApiError> {
        poll_fn(|context| {
            let poll = self.course.advance(context);
            match lock(&self.course.outlet.0).begun.take() {
                Some(begun) => Poll::Ready(begun),
                None => poll.map(|()| Err(ApiError::internal("the answer did not begin"))),
            }
        })
        .await
    }

    /// The same, which is left once its connection does not ask any more (I2).
    pub(super) fn watched_by(mut self, streams: &Arc<Streams>) -> Self {
        self.watched = Some((Arc::clone(streams), streams.add(&self.course)));
        self
    }
}

impl Body for Driven {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let course = &self.course;
        {
            let (count, waker) = &mut *lock(&course.asked);
            *count += 1;
            if waker.as_ref().is_none_or(|waker| !waker.will_wake(context.waker())) {
                *waker = Some(context.waker().clone());
            }
        }
        let poll = course.advance(context);
        let bytes = lock(&course.outlet.0).bytes.split();
        match poll {
            _ if !bytes.is_empty() => Poll::Ready(Some(Ok(Frame::data(bytes.freeze())))),
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        if let Some((streams, number)) = self.watched.take() {
            lock(&streams.courses).remove(&number);
        }
        self.course.leave(GONE);
    }
}

/// Answers under way whose connections are watched.
#[derive(Default)]
pub(super) struct Streams {
    next: AtomicU64,
    courses: Mutex<HashMap<u64, Watched>>,
}

struct Watched {
    course: Arc<Course>,
    /// How often its connection had asked when it was last woken; nothing before the first time.
    asked: Option<u64>,
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

impl Streams {
    fn add(&self, course: &Arc<Course>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.courses).insert(number, Watched { course: Arc::clone(course), asked: None });
        number
    }

    /// Leaves answers whose connection did not ask within `stall` of being woken. Never ends.
    pub(super) async fn watch(&self, stall: Duration) {
        let mut ticks = tokio::time::interval(stall.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for course in self.look() {
                course.leave(STALLED);
            }
        }
    }

    /// Wakes all connections, and gives the answers of those that have not asked since the last time: one that has room asks whenever
    /// it is woken, so that what it waits for is its client.
    fn look(&self) -> Vec<Arc<Course>> {
        let mut stalled = Vec::new();
        let mut wakers = Vec::new();
        for Watched { course, asked } in lock(&self.courses).values_mut() {
            let (count, waker) = &*lock(&course.asked);
            if asked.replace(*count) == Some(*count) {
                stalled.push(Arc::clone(course));
            } else {
                wakers.extend(waker.clone());
            }
        }
        wakers.into_iter().for_each(Waker::wake);
        stalled
    }
}

/// All that panics under a lock of these is an answer, which is not there then.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use http_body_util::BodyExt;
    use tokio::sync::oneshot;

    use super::*;

    /// An answer that says `word` again and again, and at its end why it was left.
    fn endless(word: &'static [u8]) -> (Driven, oneshot::Receiver<&'static str>) {
        let (end, ended) = oneshot::channel();
        let driven = Driven::new(|outlet| async move {
            outlet.begin(Ok(()));
            let why = loop {
                if let Err(why) = outlet.say(|bytes| bytes.get_mut().put_slice(word)).await {
                    break why;
                }
            };
            end.send(why).unwrap();
        });
        (driven, ended)
    }

    fn frame(driven: &mut Driven) -> Option<Bytes> {
        let frame = driven.frame().now_or_never().expect("more is said at once")?;
        frame.unwrap().into_data().ok()
    }

    #[tokio::test]
    async fn i3_an_answer_is_ahead_by_so_much_at_most() {
        let (mut driven, ended) = endless(b"word ");
        driven.begin().await.unwrap();
        for _ in 0..3 {
            assert_eq!(frame(&mut driven).unwrap().len(), AHEAD.div_ceil(5) * 5);
        }
        drop(driven);
        assert_eq!(ended.await, Ok(GONE));
    }

    #[tokio::test]
    async fn i1_who_never_asks_leaves_an_answer_that_ends() {
        let (driven, ended) = endless(b"word");
        drop(driven);
        assert_eq!(ended.await, Ok(GONE));
    }

    #[tokio::test]
    async fn i2_who_asks_no_more_is_left() {
        let streams = Arc::new(Streams::default());
        let (driven, ended) = endless(b"word ");
        let mut driven = driven.watched_by(&streams);
        // Woken at the first look, it has until the second one to ask; whoever asks has until the next.
        assert_eq!(streams.look().len(), 0);
        frame(&mut driven);
        assert_eq!(streams.look().len(), 0);
        for course in streams.look() {
            course.leave(STALLED);
        }
        assert_eq!(ended.await, Ok(STALLED));
        assert_eq!(frame(&mut driven), None);
        drop(driven);
        assert!(lock(&streams.courses).is_empty());
    }

    #[tokio::test]
    async fn what_ends_is_taken_to_its_end() {
        let mut driven = Driven::new(|outlet| async move {
            outlet.begin(Ok(()));
            outlet.say(|bytes| bytes.get_mut().put_slice(b"all")).await.unwrap();
        });
        driven.begin().await.unwrap();
        assert_eq!(frame(&mut driven).unwrap(), "all");
        assert_eq!(frame(&mut driven), None);
        let none = Driven::new(|_| async {});
        assert_eq!(none.begin().await.unwrap_err().message(), "the answer did not begin");
    }
}
