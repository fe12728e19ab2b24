//! An answer that comes in pieces, driven by its own connection: whenever that has room it asks, and what there is to say goes out as one
//! frame. No task and no channel are between the policy and the connection, so that a piece wakes one task, not two; and while it is said,
//! no future is within another one, and nothing is locked.
//!
//! I1. A connection that is dropped takes no answer with it: what is left to be done for the record goes on in a task of its own. A client
//! that does not read has its connection dropped ([`super::patient::Patient`]). I2. A frame is bounded: an answer that is so far ahead
//! waits for its client. I3. A stream that has begun ends with `[DONE]`, or with an error event.
//!
//! Cancellation: [`Streamed`] may be dropped at any time (I1). At the end of the runtime nothing goes on; the record says so at its next
//! opening.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use clawrl_core::ReplyPart;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::body::{Body, Frame};
use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::answering::{Answering, broken, gone, told};
use super::error::ApiError;
use super::places::Place;
use super::shapes::{Around, Shape};
use super::voices::Voices;
use crate::{Ask, Piece};

/// Bytes that a frame has at most, and a piece.
const AHEAD: usize = 16 << 10;
/// Room of a frame from its beginning: some words and what is around them.
const FRAME: usize = 1 << 10;
const COMMENT: &[u8] = b": keepalive\n\n";

/// An answer, as the body of a response.
pub(super) struct Streamed {
    stage: Stage,
    quiet: Quiet,
    answering: Arc<Answering>,
    held: Held,
    runtime: Handle,
}

/// Its place among the answers; and as long as it is there, the server's end waits.
type Held = Option<(Place, TaskTrackerToken)>;

/// Where an answer is.
enum Stage {
    Beginning(BoxFuture<'static, Result<Voices, ApiError>>),
    Saying(Saying),
    /// It is being recorded. The client can know of an answer once it has its end, and may go on at once.
    Recording(BoxFuture<'static, Voices>),
    /// That there is no answer is being recorded.
    Failing(BoxFuture<'static, ApiError>),
    Over,
}

struct Saying {
    voices: Voices,
    is_open: bool,
    /// When the first part was said.
    first: Option<Instant>,
}

impl Streamed {
    /// To be made within a runtime.
    pub(super) fn new(answering: Answering, asks: Vec<Ask>, place: Place) -> Self {
        let held = Some((place, answering.gateway.answers.token()));
        let quiet = Quiet::new(answering.gateway.settings.keep_alive);
        let answering = Arc::new(answering);
        let begun = Arc::clone(&answering);
        let stage = Stage::Beginning(async move { begun.begin(asks).await }.boxed());
        Self { stage, quiet, answering, held, runtime: Handle::current() }
    }

    /// Waits until there is an answer, and not for long: later a stream is held open.
    ///
    /// # Errors
    /// Why there is none. Until here an error has a status.
    pub(super) async fn begin(&mut self) -> Result<(), ApiError> {
        let until = self.answering.arrived + self.answering.gateway.settings.begin_grace;
        let begun = timeout_at(until, poll_fn(|context| self.poll_begun(context))).await;
        let (Ok(()), Stage::Failing(failing)) = (begun, &mut self.stage) else { return Ok(()) };
        let error = failing.await;
        self.over();
        Err(error)
    }

    /// Ready when it begins no more.
    fn poll_begun(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Stage::Beginning(beginning) = &mut self.stage {
            self.stage = match ready!(beginning.as_mut().poll(context)) {
                Ok(voices) => Stage::Saying(Saying { voices, is_open: false, first: None }),
                Err(error) => self.failing(error),
            };
        }
        Poll::Ready(())
    }

    /// Says what there is to say. Ready when that was all.
    fn advance(&mut self, said: &mut BytesMut, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.stage {
                Stage::Saying(saying) => match saying.advance(&self.answering.shape, said, context) {
                    Poll::Ready(Ok(())) => self.end(),
                    Poll::Ready(Err(error)) => self.stage = self.failing(error),
                    Poll::Pending => break,
                },
                Stage::Beginning(_) => {
                    if self.poll_begun(context).is_pending() {
                        break;
                    }
                }
                Stage::Recording(recording) => {
                    let Poll::Ready(mut voices) = recording.as_mut().poll(context) else { break };
                    say_end(said, &self.answering.shape, &mut voices);
                    self.over();
                }
                Stage::Failing(failing) => {
                    let Poll::Ready(error) = failing.as_mut().poll(context) else { break };
                    say(said, &error.json());
                    self.over();
                }
                Stage::Over => return Poll::Ready(()),
            }
        }
        // Whoever is given a frame asks again right after: where something was said, nobody has to be woken for more.
        if said.is_empty() {
            ready!(self.quiet.poll(context));
            said.put_slice(COMMENT);
        }
        Poll::Pending
    }

    /// The answer is whole, and is to be recorded.
    fn end(&mut self) {
        let Stage::Saying(saying) = &self.stage else { return };
        let answer = self.answering.ended(&saying.voices, saying.first);
        let Stage::Saying(Saying { voices, .. }) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return;
        };
        let answering = Arc::clone(&self.answering);
        let recording = async move {
            answering.record(answer).await;
            voices
        };
        self.stage = Stage::Recording(recording.boxed());
    }

    /// There is no answer, or no more of it.
    fn failing(&self, error: ApiError) -> Stage {
        let answering = Arc::clone(&self.answering);
        Stage::Failing(async move { answering.fail(error).await }.boxed())
    }

    fn over(&mut self) {
        self.stage = Stage::Over;
        self.held = None;
    }
}

impl Saying {
    /// Says what comes, as long as there is room for it. Ready when all choices have ended.
    fn advance(
        &mut self,
        shape: &Shape,
        said: &mut BytesMut,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ApiError>> {
        if !std::mem::replace(&mut self.is_open, true) {
            for index in 0..self.voices.choices().count() {
                if let Some(opening) = shape.opening(index) {
                    say(said, &opening);
                }
            }
        }
        while said.len() < AHEAD {
            match self.voices.poll_next(context) {
                Poll::Ready(Some((at, Ok(piece)))) => self.say_piece(said, shape, at, piece),
                Poll::Ready(Some((_, Err(error)))) => return Poll::Ready(Err(told(error))),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => break,
            }
        }
        Poll::Pending
    }

    fn say_piece(&mut self, said: &mut BytesMut, shape: &Shape, at: usize, piece: Piece) {
        if let Some((around, text)) = self.voices.take_plain(at, &piece) {
            self.first.get_or_insert_with(Instant::now);
            say_text(said, around, text);
            return;
        }
        let known = self.voices.calls_of(at);
        let (voice, parts) = self.voices.take(at, piece);
        let calls = voice.choice.calls()[known..].to_vec();
        let mut calls = calls.iter().enumerate().map(|(new, call)| (known + new, call));
        for part in &parts {
            self.first.get_or_insert_with(Instant::now);
            let logprobs = voice.choice.new_logprobs();
            if let (ReplyPart::Text(text), None, Some(around)) = (part, &logprobs, &voice.around) {
                say_text(said, around, text);
                continue;
            }
            let logprobs = logprobs.map_or(Value::Null, |entries| shape.logprobs(entries));
            let call = if matches!(part, ReplyPart::Call { .. }) { calls.next() } else { None };
            say(said, &shape.piece(at, part, call, logprobs));
        }
    }
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // A new buffer for each frame: what was freed a moment ago is at hand, what this answer had last is not.
        let mut said = BytesMut::new();
        match self.advance(&mut said, context) {
            _ if !said.is_empty() => {
                self.quiet.is_broken = true;
                Poll::Ready(Some(Ok(Frame::data(said.freeze()))))
            }
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let is_broken = std::thread::panicking();
        let rest = match stage {
            Stage::Over => return,
            // Nothing more can be done for the record; a future that has panicked is not asked again.
            Stage::Failing(_) if is_broken => return,
            Stage::Failing(failing) => failing.map(drop).boxed(),
            Stage::Recording(recording) if !is_broken => recording.map(drop).boxed(),
            Stage::Beginning(_) | Stage::Saying(_) | Stage::Recording(_) => {
                let error = if is_broken { broken() } else { gone() };
                let answering = Arc::clone(&self.answering);
                async move { drop(answering.fail(error).await) }.boxed()
            }
        };
        let held = self.held.take();
        self.runtime.spawn(async move {
            rest.await;
            drop(held);
        });
    }
}

/// When to say that the stream is still there.
struct Quiet {
    for_so_long: Duration,
    since: Instant,
    /// Something was said since then: a look at the clock for each of many pieces at once costs more than they do.
    is_broken: bool,
    /// Ends when a comment may be due, or before: a timer for each piece would cost more than the piece.
    timer: Pin<Box<Sleep>>,
    /// When it ends, and whom it wakes then. Before that it need not be asked.
    asked: Option<(Instant, Waker)>,
}

impl Quiet {
    fn new(for_so_long: Duration) -> Self {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(now + for_so_long));
        Self { for_so_long, since: now, is_broken: false, timer, asked: None }
    }

    /// Ready when nothing was said for so long. To be called where nothing is there to be said.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if std::mem::take(&mut self.is_broken) {
            self.since = now;
        }
        let wakes = |(end, waker): &(Instant, Waker)| now < *end && waker.will_wake(context.waker());
        if self.asked.as_ref().is_some_and(wakes) {
            return Poll::Pending;
        }
        loop {
            // Without any, the timer does not hear of the waker.
            let is_heard = has_budget_remaining();
            if self.timer.as_mut().poll(context).is_pending() {
                self.asked = is_heard.then(|| (self.timer.deadline(), context.waker().clone()));
                return Poll::Pending;
            }
            let due = self.since + self.for_so_long;
            if due <= now {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(due);
        }
    }
}

/// An event. Texts and numbers always are JSON, and these bytes take all.
fn say(said: &mut BytesMut, json: &impl Serialize) {
    said.reserve(FRAME);
    said.put_slice(b"data: ");
    let _ = serde_json::to_writer((&mut *said).writer(), json);
    said.put_slice(b"\n\n");
}

/// A piece that is nothing but text.
fn say_text(said: &mut BytesMut, around: &Around, text: &str) {
    let (before, behind) = around.parts();
    said.reserve(FRAME);
    said.put_slice(b"data: ");
    said.put_slice(before.as_bytes());
    let _ = serde_json::to_writer((&mut *said).writer(), text);
    said.put_slice(behind.as_bytes());
    said.put_slice(b"\n\n");
}

/// What is behind the last piece.
fn say_end(said: &mut BytesMut, shape: &Shape, voices: &mut Voices) {
    let usage = voices.usage();
    for (index, choice) in voices.choices_mut().enumerate() {
        let logprobs = choice.new_logprobs().map_or(Value::Null, |entries| shape.logprobs(entries));
        say(said, &shape.finish(index, choice.finish_reason(), logprobs));
    }
    if let Some(last) = shape.usage(usage) {
        say(said, &last);
    }
    said.put_slice(b"data: [DONE]\n\n");
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Waker;

    use clawrl_core::FinishReason;
    use futures_util::StreamExt;
    use futures_util::stream::{iter, poll_fn as asked, repeat_with};
    use http_body_util::BodyExt;
    use serde_json::{Map, json};

    use super::*;
    use crate::api::gateway::Gateway;
    use crate::api::settings::ServerSettings;
    use crate::api::voices::Pieces;
    use crate::api::wanted::{Form, Wanted};
    use crate::recorder::{Admitted, Live, NewRequest, Recorder, RecorderHandle, RecorderSettings};
    use crate::{
        Backend, BackendError, Begun, ChatRequest, End, Headers, Keys, Prompt, Refusal, Token, UserId,
    };

    /// Says these to whoever asks first; to others that it is broken.
    struct Says(Mutex<Option<Pieces>>);

    impl std::fmt::Debug for Says {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Says").finish_non_exhaustive()
        }
    }

    impl Backend for Says {
        fn models(&self) -> Vec<String> {
            vec!["policy".to_owned()]
        }

        fn context(&self) -> Option<usize> {
            None
        }

        fn version(&self, _: &UserId) -> Option<u64> {
            None
        }

        fn refuses(&self, _: &Ask, _: &[Refusal]) -> Option<Refusal> {
            None
        }

        fn begin(&self, _: Ask) -> BoxFuture<'_, Result<Begun, BackendError>> {
            let pieces = self.0.lock().unwrap().take();
            let pieces = pieces.ok_or_else(|| BackendError::Broken("it is broken".to_owned()));
            let begun =
                pieces.map(|pieces| Begun { prompt_ids: None, in_reasoning: false, adapter: None, pieces });
            Box::pin(async { begun })
        }

        fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
            Box::pin(async { Ok(()) })
        }
    }

    /// A gateway whose policy says these, and an answer of it whose request was recorded.
    struct Scene {
        gateway: Arc<Gateway>,
        admitted: Admitted,
        streamed: Streamed,
        record: RecorderHandle,
        _recorder: Recorder,
        _folder: tempfile::TempDir,
    }

    fn word() -> Result<Piece, BackendError> {
        Ok(Piece::Token(Token { bytes: b"Yes ".to_vec(), ..Token::default() }))
    }

    impl Scene {
        async fn new(pieces: Option<Pieces>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let recorder =
                Recorder::open(RecorderSettings::new(folder.path().join("ledger.sqlite"))).unwrap();
            let record = recorder.handle();
            let user = UserId("ada".to_owned());
            let body = json!({"messages": [{"role": "user", "content": "Hi"}]});
            let new = NewRequest {
                user: user.clone(),
                endpoint: "/v1/chat/completions",
                headers: Headers::default(),
                raw: body.to_string().into(),
                body: Arc::new(ChatRequest::parse(&body).unwrap()),
                model: "policy".to_owned(),
                sampling: Value::Null,
            };
            let admitted = record.arrived(new).await.unwrap();
            let backend = Arc::new(Says(Mutex::new(pieces)));
            let (settings, keys) = (ServerSettings::default(), Keys::default());
            let gateway = Arc::new(Gateway::new(1, settings, keys, backend, record.clone()));
            let mut wanted = Wanted::parse(&Map::new(), Form::Chat, 1).unwrap();
            wanted.stream = true;
            let ask = Ask {
                user: user.clone(),
                body: Arc::default(),
                prompt: Prompt::Chat,
                sampling: wanted.sampling_of(0),
            };
            let shape = Shape {
                form: Form::Chat,
                id: "chatcmpl-1".to_owned(),
                created: 0,
                model: "policy".to_owned(),
                fingerprint: None,
                include_usage: false,
            };
            let place = gateway.places.take(&user).unwrap();
            let answering = Answering {
                gateway: Arc::clone(&gateway),
                wanted,
                shape,
                user,
                request: Some(admitted.request),
                arrived: Instant::now(),
            };
            let streamed = Streamed::new(answering, vec![ask], place);
            Self { gateway, admitted, streamed, record, _recorder: recorder, _folder: folder }
        }

        /// What is said at once; nothing where there is nothing, and where that was all.
        fn frame(&mut self) -> Option<Bytes> {
            self.streamed.frame().now_or_never().flatten().map(|frame| frame.unwrap().into_data().unwrap())
        }

        /// Lets go of the answer. Returns how it stands in the record then, and why.
        async fn end(self) -> (String, Option<String>) {
            drop(self.streamed);
            self.gateway.answers.close();
            self.gateway.answers.wait().await;
            assert_eq!(self.gateway.places.running(), 0);
            let user = UserId("ada".to_owned());
            let turn = self.record.turn(&user, self.admitted.turn).await.unwrap();
            (turn.requests[0].state.clone(), turn.requests[0].reason.clone())
        }
    }

    #[tokio::test]
    async fn what_ends_is_said_and_recorded() {
        let end = Ok(Piece::End(End { finish: FinishReason::Stop, usage: None }));
        let mut scene = Scene::new(Some(iter([word(), end]).boxed())).await;
        scene.streamed.begin().await.unwrap();
        let mut said = String::new();
        while let Some(frame) = scene.streamed.frame().await {
            said += str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap();
        }
        let chunks: Vec<&str> = said.split_terminator("\n\n").collect();
        assert_eq!((chunks.len(), chunks[3]), (4, "data: [DONE]"), "{said}");
        assert!(
            chunks[0].contains("\"role\"") && chunks[1].contains("Yes ") && chunks[2].contains("\"stop\"")
        );
        // Its place is free as soon as it has ended.
        assert_eq!(scene.gateway.places.running(), 0);
        assert_eq!(scene.end().await.0, "answered");
    }

    /// I1. The client goes away when its answer is recorded, and before its end is sent.
    #[tokio::test]
    async fn who_goes_away_behind_the_record_has_failed_nothing() {
        let end = Ok(Piece::End(End { finish: FinishReason::Stop, usage: None }));
        let mut scene = Scene::new(Some(iter([word(), end]).boxed())).await;
        let mut changes = scene.record.events();
        scene.streamed.begin().await.unwrap();
        // It waits for the record, and is not asked again.
        assert!(!scene.frame().unwrap().ends_with(b"[DONE]\n\n"));
        while changes.recv().await.unwrap().what != Live::Answered {}
        let gateway = Arc::clone(&scene.gateway);
        assert_eq!(scene.end().await.0, "answered");
        assert_eq!((gateway.metrics.answers.get(), gateway.metrics.failures.get()), (1, 0));
        assert_eq!(gateway.metrics.unrecorded.get(), 0);
        assert!(!gateway.is_record_broken.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn i2_an_answer_is_ahead_by_so_much_at_most() {
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let words = repeat_with(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            word()
        });
        let mut scene = Scene::new(Some(words.boxed())).await;
        scene.streamed.begin().await.unwrap();
        for _ in 0..3 {
            let length = scene.frame().unwrap().len();
            assert!((AHEAD..AHEAD + FRAME).contains(&length), "{length}");
        }
        let gateway = Arc::clone(&scene.gateway);
        let (state, why) = scene.end().await;
        assert_eq!((state.as_str(), why.as_deref()), ("failed", Some("the client went away")));
        // Those of an answer that comes to no end are counted, too.
        assert_eq!(gateway.metrics.sampled_tokens.get(), count.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn i1_who_never_asks_leaves_an_answer_that_ends() {
        let scene = Scene::new(Some(repeat_with(word).boxed())).await;
        let (state, why) = scene.end().await;
        assert_eq!((state.as_str(), why.as_deref()), ("failed", Some("the client went away")));
    }

    #[tokio::test]
    async fn what_does_not_begin_has_a_status() {
        let mut scene = Scene::new(None).await;
        let error = scene.streamed.begin().await.unwrap_err();
        let why = "the model cannot answer; the server's log says why";
        assert_eq!((error.status().as_u16(), error.message()), (500, why));
        let (state, recorded) = scene.end().await;
        assert_eq!((state.as_str(), recorded.as_deref()), ("failed", Some(why)));
    }

    /// I3.
    #[tokio::test]
    async fn what_breaks_off_ends_with_an_error() {
        let mut scene = Scene::new(Some(iter([word()]).boxed())).await;
        scene.streamed.begin().await.unwrap();
        let mut last = Bytes::new();
        while let Some(frame) = scene.streamed.frame().await {
            last = frame.unwrap().into_data().unwrap();
        }
        assert!(last.starts_with(b"data: {\"error\":"), "{last:?}");
        assert_eq!(scene.end().await.0, "failed");
    }

    /// Says a word, and panics.
    fn panicking() -> Pieces {
        let mut calls = 0;
        let pieces = asked(move |_| {
            calls += 1;
            assert!(calls < 2, "a panic that this test wants");
            Poll::Ready(Some(word()))
        });
        pieces.boxed()
    }

    #[tokio::test]
    async fn a_policy_that_panics_has_failed_to_answer_whole() {
        let Scene { gateway, admitted, streamed, record, _recorder, _folder } =
            Scene::new(Some(panicking())).await;
        // As another answer of the same request.
        let user = UserId("ada".to_owned());
        let wanted = Wanted::parse(&Map::new(), Form::Chat, 1).unwrap();
        let sampling = wanted.sampling_of(0);
        let ask = Ask { user: user.clone(), body: Arc::default(), prompt: Prompt::Chat, sampling };
        let answering = Answering {
            gateway: Arc::clone(&gateway),
            wanted,
            shape: streamed.answering.shape.clone(),
            user: user.clone(),
            request: Some(admitted.request),
            arrived: Instant::now(),
        };
        let (listener, told) = tokio::sync::oneshot::channel();
        answering.whole(vec![ask], listener).await;
        assert_eq!(told.await.unwrap().unwrap_err().status().as_u16(), 500);
        assert_eq!(record.turn(&user, admitted.turn).await.unwrap().requests[0].state, "failed");
        drop(streamed);
    }

    #[tokio::test]
    async fn a_policy_that_panics_has_failed() {
        let scene = Scene::new(Some(panicking())).await;
        let Scene { gateway, admitted, mut streamed, record, _recorder, _folder } = scene;
        streamed.begin().await.unwrap();
        let dropped = catch_unwind(AssertUnwindSafe(move || {
            let mut context = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut streamed).poll_frame(&mut context);
        }));
        assert!(dropped.is_err());
        gateway.answers.close();
        gateway.answers.wait().await;
        let turn = record.turn(&UserId("ada".to_owned()), admitted.turn).await.unwrap();
        let request = &turn.requests[0];
        let why = "the model cannot answer; the server's log says why";
        assert_eq!((request.state.as_str(), request.reason.as_deref()), ("failed", Some(why)));
    }
}
