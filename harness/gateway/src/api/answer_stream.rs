//! A streamed answer, driven by its connection: when the connection has room, it polls for the next frame. There is no task and no channel
//! between the policy and the connection, so that a piece wakes one task instead of two; while pieces are written, no future is nested in
//! another, and no lock is held.
//!
//! I1. Dropping a connection does not lose the record: a separate task finishes it. A client that does not read loses its connection
//! ([`super::write_timeout::WriteTimeout`]). I2. A frame is bounded: an answer that is that far ahead waits for its client. I3. A started
//! stream ends with `[DONE]` or with an error event.
//!
//! Cancellation: [`AnswerStream`] may be dropped at any time (I1). When the runtime ends, nothing continues; the record says so at the next
//! start.

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

use super::choice_streams::ChoiceStreams;
use super::concurrency::Permit;
use super::error::ApiError;
use super::pending_answer::{PendingAnswer, broken, gone, to_api_error};
use super::response::{ChunkTemplate, ResponseEnvelope};
use crate::{AnswerRequest, Piece};

/// Size of a frame after which no piece is added, in bytes.
const MAX_FRAME: usize = 16 << 10;
/// Initial capacity of a frame: some words and the JSON around them.
const FRAME_CAPACITY: usize = 1 << 10;
const COMMENT: &[u8] = b": keepalive\n\n";

/// An answer as the body of a response.
pub(super) struct AnswerStream {
    stage: Stage,
    keep_alive: KeepAlive,
    pending: Arc<PendingAnswer>,
    guards: Guards,
    runtime: Handle,
}

/// The permit of the answer, and a token that delays the server's shutdown.
type Guards = Option<(Permit, TaskTrackerToken)>;

/// Stage of an answer.
enum Stage {
    Starting(BoxFuture<'static, Result<ChoiceStreams, ApiError>>),
    Streaming(Streaming),
    /// The answer is being recorded. The client gets the end afterwards, because it may then continue at once.
    Recording(BoxFuture<'static, ChoiceStreams>),
    /// The failure is being recorded.
    Failing(BoxFuture<'static, ApiError>),
    Done,
}

struct Streaming {
    streams: ChoiceStreams,
    is_open: bool,
    /// Time of the first part.
    first: Option<Instant>,
}

impl AnswerStream {
    /// Must be called within a runtime.
    pub(super) fn new(pending: PendingAnswer, requests: Vec<AnswerRequest>, permit: Permit) -> Self {
        let guards = Some((permit, pending.gateway.answers.token()));
        let keep_alive = KeepAlive::new(pending.gateway.settings.keep_alive);
        let pending = Arc::new(pending);
        let started = Arc::clone(&pending);
        let stage = Stage::Starting(async move { started.start(requests).await }.boxed());
        Self { stage, keep_alive, pending, guards, runtime: Handle::current() }
    }

    /// Waits briefly for the answer to start; after that, the stream is held open.
    ///
    /// # Errors
    /// Why there is no answer. Until here, an error has its own HTTP status.
    pub(super) async fn start(&mut self) -> Result<(), ApiError> {
        let until = self.pending.arrived + self.pending.gateway.settings.begin_grace;
        let started = timeout_at(until, poll_fn(|context| self.poll_started(context))).await;
        let (Ok(()), Stage::Failing(failing)) = (started, &mut self.stage) else { return Ok(()) };
        let error = failing.await;
        self.finish();
        Err(error)
    }

    /// Ready once the answer has started or failed.
    fn poll_started(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Stage::Starting(starting) = &mut self.stage {
            self.stage = match ready!(starting.as_mut().poll(context)) {
                Ok(streams) => Stage::Streaming(Streaming { streams, is_open: false, first: None }),
                Err(error) => self.failing(error),
            };
        }
        Poll::Ready(())
    }

    /// Writes the available pieces. Ready at the end of the answer.
    fn advance(&mut self, out: &mut BytesMut, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.stage {
                Stage::Streaming(streaming) => {
                    match streaming.advance(&self.pending.envelope, out, context) {
                        Poll::Ready(Ok(())) => self.end(),
                        Poll::Ready(Err(error)) => self.stage = self.failing(error),
                        Poll::Pending => break,
                    }
                }
                Stage::Starting(_) => {
                    if self.poll_started(context).is_pending() {
                        break;
                    }
                }
                Stage::Recording(recording) => {
                    let Poll::Ready(mut streams) = recording.as_mut().poll(context) else { break };
                    write_end(out, &self.pending.envelope, &mut streams);
                    self.finish();
                }
                Stage::Failing(failing) => {
                    let Poll::Ready(error) = failing.as_mut().poll(context) else { break };
                    write_event(out, &error.json());
                    self.finish();
                }
                Stage::Done => return Poll::Ready(()),
            }
        }
        // After a frame, the connection polls again at once: no waker is needed if something was written.
        if out.is_empty() {
            ready!(self.keep_alive.poll(context));
            out.put_slice(COMMENT);
        }
        Poll::Pending
    }

    /// All pieces are written; starts recording.
    fn end(&mut self) {
        let Stage::Streaming(streaming) = &self.stage else { return };
        let answer = self.pending.ended(&streaming.streams, streaming.first);
        let Stage::Streaming(Streaming { streams, .. }) = std::mem::replace(&mut self.stage, Stage::Done)
        else {
            return;
        };
        let pending = Arc::clone(&self.pending);
        let recording = async move {
            pending.record(answer).await;
            streams
        };
        self.stage = Stage::Recording(recording.boxed());
    }

    /// Starts recording a failure.
    fn failing(&self, error: ApiError) -> Stage {
        let pending = Arc::clone(&self.pending);
        Stage::Failing(async move { pending.fail(error).await }.boxed())
    }

    fn finish(&mut self) {
        self.stage = Stage::Done;
        self.guards = None;
    }
}

impl Streaming {
    /// Writes available pieces while there is room. Ready when all choices have ended.
    fn advance(
        &mut self,
        envelope: &ResponseEnvelope,
        out: &mut BytesMut,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ApiError>> {
        if !std::mem::replace(&mut self.is_open, true) {
            for index in 0..self.streams.choices().count() {
                if let Some(opening) = envelope.opening(index) {
                    write_event(out, &opening);
                }
            }
        }
        while out.len() < MAX_FRAME {
            match self.streams.poll_next(context) {
                Poll::Ready(Some((at, Ok(piece)))) => self.write_piece(out, envelope, at, piece),
                Poll::Ready(Some((_, Err(error)))) => return Poll::Ready(Err(to_api_error(error))),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => break,
            }
        }
        Poll::Pending
    }

    fn write_piece(&mut self, out: &mut BytesMut, envelope: &ResponseEnvelope, at: usize, piece: Piece) {
        if let Some((template, text)) = self.streams.take_plain(at, &piece) {
            self.first.get_or_insert_with(Instant::now);
            write_text(out, template, text);
            return;
        }
        let known = self.streams.calls_of(at);
        let (stream, parts) = self.streams.take(at, piece);
        let calls = stream.choice.calls()[known..].to_vec();
        let mut calls = calls.iter().enumerate().map(|(new, call)| (known + new, call));
        for part in &parts {
            self.first.get_or_insert_with(Instant::now);
            let logprobs = stream.choice.new_logprobs();
            if let (ReplyPart::Text(text), None, Some(template)) = (part, &logprobs, &stream.template) {
                write_text(out, template, text);
                continue;
            }
            let logprobs = logprobs.map_or(Value::Null, |entries| envelope.logprobs(entries));
            let call = if matches!(part, ReplyPart::Call { .. }) { calls.next() } else { None };
            write_event(out, &envelope.piece(at, part, call, logprobs));
        }
    }
}

impl Body for AnswerStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // A new buffer for each frame: recently freed memory is in the cache, this answer's last buffer is not.
        let mut out = BytesMut::new();
        match self.advance(&mut out, context) {
            _ if !out.is_empty() => {
                self.keep_alive.was_sent = true;
                Poll::Ready(Some(Ok(Frame::data(out.freeze()))))
            }
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Done);
        let is_broken = std::thread::panicking();
        let rest = match stage {
            Stage::Done => return,
            // Nothing more can be recorded; a future that has panicked must not be polled again.
            Stage::Failing(_) if is_broken => return,
            Stage::Failing(failing) => failing.map(drop).boxed(),
            Stage::Recording(recording) if !is_broken => recording.map(drop).boxed(),
            Stage::Starting(_) | Stage::Streaming(_) | Stage::Recording(_) => {
                let error = if is_broken { broken() } else { gone() };
                let pending = Arc::clone(&self.pending);
                async move { drop(pending.fail(error).await) }.boxed()
            }
        };
        let guards = self.guards.take();
        self.runtime.spawn(async move {
            rest.await;
            drop(guards);
        });
    }
}

/// Decides when to send a keep-alive comment.
struct KeepAlive {
    interval: Duration,
    since: Instant,
    /// Something was sent since then: reading the clock for each piece costs more than the piece.
    was_sent: bool,
    /// Ends when a comment may be due, or earlier: resetting a timer for each piece would cost more than the piece.
    timer: Pin<Box<Sleep>>,
    /// When the timer ends and which waker it has: until then it need not be polled.
    registered: Option<(Instant, Waker)>,
}

impl KeepAlive {
    fn new(interval: Duration) -> Self {
        let now = Instant::now();
        let timer = Box::pin(sleep_until(now + interval));
        Self { interval, since: now, was_sent: false, timer, registered: None }
    }

    /// Ready if nothing was sent for the interval. To be called when there is nothing to send.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if std::mem::take(&mut self.was_sent) {
            self.since = now;
        }
        let wakes = |(end, waker): &(Instant, Waker)| now < *end && waker.will_wake(context.waker());
        if self.registered.as_ref().is_some_and(wakes) {
            return Poll::Pending;
        }
        loop {
            // Without budget, the timer does not register the waker.
            let is_registered = has_budget_remaining();
            if self.timer.as_mut().poll(context).is_pending() {
                self.registered = is_registered.then(|| (self.timer.deadline(), context.waker().clone()));
                return Poll::Pending;
            }
            let due = self.since + self.interval;
            if due <= now {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(due);
        }
    }
}

/// Writes an event. Serialising strings and numbers into memory cannot fail.
fn write_event(out: &mut BytesMut, json: &impl Serialize) {
    out.reserve(FRAME_CAPACITY);
    out.put_slice(b"data: ");
    let _ = serde_json::to_writer((&mut *out).writer(), json);
    out.put_slice(b"\n\n");
}

/// Writes a piece that is only text.
fn write_text(out: &mut BytesMut, template: &ChunkTemplate, text: &str) {
    let (before, behind) = template.parts();
    out.reserve(FRAME_CAPACITY);
    out.put_slice(b"data: ");
    out.put_slice(before.as_bytes());
    let _ = serde_json::to_writer((&mut *out).writer(), text);
    out.put_slice(behind.as_bytes());
    out.put_slice(b"\n\n");
}

/// Writes the end of the stream.
fn write_end(out: &mut BytesMut, envelope: &ResponseEnvelope, streams: &mut ChoiceStreams) {
    let usage = streams.usage();
    for (index, choice) in streams.choices_mut().enumerate() {
        let logprobs = choice.new_logprobs().map_or(Value::Null, |entries| envelope.logprobs(entries));
        write_event(out, &envelope.finish(index, choice.finish_reason(), logprobs));
    }
    if let Some(last) = envelope.usage(&usage) {
        write_event(out, &last);
    }
    out.put_slice(b"data: [DONE]\n\n");
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Waker;

    use clawrl_core::FinishReason;
    use futures_util::StreamExt;
    use futures_util::stream::{iter, poll_fn as poll_stream, repeat_with};
    use http_body_util::BodyExt;
    use serde_json::{Map, json};

    use super::*;
    use crate::api::choice_streams::Pieces;
    use crate::api::completion_params::{CompletionKind, CompletionParams};
    use crate::api::gateway::Gateway;
    use crate::api::settings::ServerSettings;
    use crate::recorder::{Admitted, LedgerChange, NewRequest, Recorder, RecorderHandle, RecorderSettings};
    use crate::{
        Backend, BackendError, ChatRequest, End, Headers, Keys, Prompt, Refusal, StartedAnswer, Token, UserId,
    };

    /// Gives these pieces to the first request, and an error to later ones.
    struct OneAnswer(Mutex<Option<Pieces>>);

    impl std::fmt::Debug for OneAnswer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("OneAnswer").finish_non_exhaustive()
        }
    }

    impl Backend for OneAnswer {
        fn models(&self) -> Vec<String> {
            vec!["policy".to_owned()]
        }

        fn context(&self) -> Option<usize> {
            None
        }

        fn version(&self, _: &UserId) -> Option<u64> {
            None
        }

        fn refusal(&self, _: &AnswerRequest, _: &[Refusal]) -> Option<Refusal> {
            None
        }

        fn start(&self, _: AnswerRequest) -> BoxFuture<'_, Result<StartedAnswer, BackendError>> {
            let pieces = self.0.lock().unwrap().take();
            let pieces = pieces.ok_or_else(|| BackendError::Broken("it is broken".to_owned()));
            let started = pieces.map(|pieces| StartedAnswer {
                prompt_ids: None,
                in_reasoning: false,
                adapter: None,
                pieces,
            });
            Box::pin(async { started })
        }

        fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
            Box::pin(async { Ok(()) })
        }
    }

    /// A gateway whose policy gives these pieces, and an answer to a recorded request.
    struct Scene {
        gateway: Arc<Gateway>,
        admitted: Admitted,
        streamed: AnswerStream,
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
            let backend = Arc::new(OneAnswer(Mutex::new(pieces)));
            let (settings, keys) = (ServerSettings::default(), Keys::default());
            let gateway = Arc::new(Gateway::new(1, settings, keys, backend, record.clone()));
            let mut params = CompletionParams::parse(&Map::new(), CompletionKind::Chat, 1).unwrap();
            params.stream = true;
            let ask = AnswerRequest {
                user: user.clone(),
                body: Arc::default(),
                prompt: Prompt::Chat,
                sampling: params.sampling_of(0),
            };
            let envelope = ResponseEnvelope {
                kind: CompletionKind::Chat,
                id: "chatcmpl-1".to_owned(),
                created: 0,
                model: "policy".to_owned(),
                fingerprint: None,
                include_usage: false,
            };
            let permit = gateway.answer_limit.acquire(&user).unwrap();
            let pending = PendingAnswer {
                gateway: Arc::clone(&gateway),
                params,
                envelope,
                user,
                request: Some(admitted.request),
                arrived: Instant::now(),
            };
            let streamed = AnswerStream::new(pending, vec![ask], permit);
            Self { gateway, admitted, streamed, record, _recorder: recorder, _folder: folder }
        }

        /// The next frame, if it is ready; `None` otherwise, and at the end.
        fn frame(&mut self) -> Option<Bytes> {
            self.streamed.frame().now_or_never().flatten().map(|frame| frame.unwrap().into_data().unwrap())
        }

        /// Drops the answer. Returns its state in the record, and the reason.
        async fn end(self) -> (String, Option<String>) {
            drop(self.streamed);
            self.gateway.answers.close();
            self.gateway.answers.wait().await;
            assert_eq!(self.gateway.answer_limit.in_use(), 0);
            let user = UserId("ada".to_owned());
            let turn = self.record.turn(&user, self.admitted.turn).await.unwrap();
            (turn.requests[0].state.clone(), turn.requests[0].reason.clone())
        }
    }

    #[tokio::test]
    async fn completed_stream_is_sent_and_recorded() {
        let end = Ok(Piece::End(End { finish: FinishReason::Stop, usage: None }));
        let mut scene = Scene::new(Some(iter([word(), end]).boxed())).await;
        scene.streamed.start().await.unwrap();
        let mut out = String::new();
        while let Some(frame) = scene.streamed.frame().await {
            out += str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap();
        }
        let chunks: Vec<&str> = out.split_terminator("\n\n").collect();
        assert_eq!((chunks.len(), chunks[3]), (4, "data: [DONE]"), "{out}");
        assert!(
            chunks[0].contains("\"role\"") && chunks[1].contains("Yes ") && chunks[2].contains("\"stop\"")
        );
        // The permit is free at once.
        assert_eq!(scene.gateway.answer_limit.in_use(), 0);
        assert_eq!(scene.end().await.0, "answered");
    }

    /// I1. The client disconnects after its answer is recorded and before the end is sent.
    #[tokio::test]
    async fn disconnect_after_record_is_not_a_failure() {
        let end = Ok(Piece::End(End { finish: FinishReason::Stop, usage: None }));
        let mut scene = Scene::new(Some(iter([word(), end]).boxed())).await;
        let mut changes = scene.record.events();
        scene.streamed.start().await.unwrap();
        // The stream waits for the record and is not polled again.
        assert!(!scene.frame().unwrap().ends_with(b"[DONE]\n\n"));
        while changes.recv().await.unwrap().what != LedgerChange::Answered {}
        let gateway = Arc::clone(&scene.gateway);
        assert_eq!(scene.end().await.0, "answered");
        assert_eq!((gateway.metrics.answers.get(), gateway.metrics.failures.get()), (1, 0));
        assert_eq!(gateway.metrics.unrecorded.get(), 0);
        assert!(!gateway.is_record_broken.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn i2_frames_are_bounded() {
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        let words = repeat_with(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            word()
        });
        let mut scene = Scene::new(Some(words.boxed())).await;
        scene.streamed.start().await.unwrap();
        for _ in 0..3 {
            let length = scene.frame().unwrap().len();
            assert!((MAX_FRAME..MAX_FRAME + FRAME_CAPACITY).contains(&length), "{length}");
        }
        let gateway = Arc::clone(&scene.gateway);
        let (state, why) = scene.end().await;
        assert_eq!((state.as_str(), why.as_deref()), ("failed", Some("the client disconnected")));
        // Tokens of unfinished answers are counted, too.
        assert_eq!(gateway.metrics.sampled_tokens.get(), count.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn i1_dropped_stream_ends_its_answer() {
        let scene = Scene::new(Some(repeat_with(word).boxed())).await;
        let (state, why) = scene.end().await;
        assert_eq!((state.as_str(), why.as_deref()), ("failed", Some("the client disconnected")));
    }

    #[tokio::test]
    async fn answer_that_fails_to_start_has_a_status() {
        let mut scene = Scene::new(None).await;
        let error = scene.streamed.start().await.unwrap_err();
        let why = "the model failed; see the server's log";
        assert_eq!((error.status().as_u16(), error.message()), (500, why));
        let (state, recorded) = scene.end().await;
        assert_eq!((state.as_str(), recorded.as_deref()), ("failed", Some(why)));
    }

    /// I3.
    #[tokio::test]
    async fn i3_broken_stream_ends_with_an_error() {
        let mut scene = Scene::new(Some(iter([word()]).boxed())).await;
        scene.streamed.start().await.unwrap();
        let mut last = Bytes::new();
        while let Some(frame) = scene.streamed.frame().await {
            last = frame.unwrap().into_data().unwrap();
        }
        assert!(last.starts_with(b"data: {\"error\":"), "{last:?}");
        assert_eq!(scene.end().await.0, "failed");
    }

    /// Gives a word, and panics.
    fn panicking() -> Pieces {
        let mut calls = 0;
        let pieces = poll_stream(move |_| {
            calls += 1;
            assert!(calls < 2, "a panic that this test wants");
            Poll::Ready(Some(word()))
        });
        pieces.boxed()
    }

    #[tokio::test]
    async fn panicking_policy_fails_whole_answer() {
        let Scene { gateway, admitted, streamed, record, _recorder, _folder } =
            Scene::new(Some(panicking())).await;
        // As another answer to the same request.
        let user = UserId("ada".to_owned());
        let params = CompletionParams::parse(&Map::new(), CompletionKind::Chat, 1).unwrap();
        let sampling = params.sampling_of(0);
        let ask = AnswerRequest { user: user.clone(), body: Arc::default(), prompt: Prompt::Chat, sampling };
        let pending = PendingAnswer {
            gateway: Arc::clone(&gateway),
            params,
            envelope: streamed.pending.envelope.clone(),
            user: user.clone(),
            request: Some(admitted.request),
            arrived: Instant::now(),
        };
        let (listener, answer) = tokio::sync::oneshot::channel();
        pending.whole(vec![ask], listener).await;
        assert_eq!(answer.await.unwrap().unwrap_err().status().as_u16(), 500);
        assert_eq!(record.turn(&user, admitted.turn).await.unwrap().requests[0].state, "failed");
        drop(streamed);
    }

    #[tokio::test]
    async fn panicking_policy_fails_the_stream() {
        let scene = Scene::new(Some(panicking())).await;
        let Scene { gateway, admitted, mut streamed, record, _recorder, _folder } = scene;
        streamed.start().await.unwrap();
        let dropped = catch_unwind(AssertUnwindSafe(move || {
            let mut context = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut streamed).poll_frame(&mut context);
        }));
        assert!(dropped.is_err());
        gateway.answers.close();
        gateway.answers.wait().await;
        let turn = record.turn(&UserId("ada".to_owned()), admitted.turn).await.unwrap();
        let request = &turn.requests[0];
        let why = "the model failed; see the server's log";
        assert_eq!((request.state.as_str(), request.reason.as_deref()), ("failed", Some(why)));
    }
}
