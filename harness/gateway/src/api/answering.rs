//! An answer from its request to its last chunk.
//!
//! I1. A request that was recorded comes to one end in the record: answered, before the client can know, or failed. I2. A client that goes
//! away, or does not read, ends its answer and holds up nobody. I3. A record that cannot be written costs the record, not the
//! answer; it is counted and logged. I4. A stream that has begun ends with `[DONE]`, or with an error event.
//!
//! Cancellation: an answer ends soon after its listener is gone; nothing else may drop it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use futures_util::StreamExt;
use futures_util::future::{join_all, poll_fn};
use futures_util::stream::BoxStream;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep_until};

use super::choice::{Choice, Tokens};
use super::driven::{Gone, Outlet};
use super::error::ApiError;
use super::gateway::Gateway;
use super::shapes::{Around, Shape};
use super::wanted::Wanted;
use crate::recorder::{Exactness, NewAnswer, NewChoice, SamplingUsed, VersionSegment};
use crate::{AnswerPart, Ask, BackendError, Begun, Piece, RequestId, Sampling, Usage};

/// It closed its connection, or did not read and lost it.
const GONE: &str = "the client went away";

/// Tokens of a choice that the rate is told of together, before its end.
const IN_RATE_AT_ONCE: usize = 16;

/// What is to be answered.
pub(super) struct Answering {
    pub(super) gateway: Arc<Gateway>,
    pub(super) wanted: Wanted,
    pub(super) shape: Shape,
    /// One for each choice.
    pub(super) asks: Vec<Ask>,
    /// Under which it is recorded; `None` where it is not.
    pub(super) request: Option<RequestId>,
    pub(super) arrived: Instant,
}

/// Why an answer did not come to its end.
enum Broken {
    /// Nobody listens any more.
    Gone,
    Failed(ApiError),
}

type Pieces = BoxStream<'static, Result<Piece, BackendError>>;

impl Answering {
    /// Answers to somebody who hears of the whole answer.
    pub(super) async fn whole(self, mut listener: oneshot::Sender<Result<Value, ApiError>>) {
        let answer = async {
            let (mut choices, mut pieces) = self.begin().await?;
            while let Some((index, piece)) = poll_fn(|context| poll_next(&mut pieces, context)).await {
                self.take(&mut choices, &mut pieces, index, piece)?;
            }
            Ok(choices)
        };
        let answer = tokio::select! {
            answer = answer => answer.map_err(Broken::Failed),
            () = listener.closed() => Err(Broken::Gone),
        };
        let answer = match answer {
            Ok(choices) => {
                self.record(&choices, None).await;
                Ok(self.shape.whole(&choices, usage(&choices)))
            }
            Err(broken) => Err(self.fail(broken).await),
        };
        // Whoever went away does not hear of it.
        let _ = listener.send(answer);
    }

    /// Answers to somebody who hears once whether there is an answer, and then of all of it.
    pub(super) async fn streamed(self, outlet: Outlet) {
        let patience = self.gateway.settings.begin_grace;
        let mut beginning = Box::pin(self.begin());
        // Long waits are held open by a stream; until then an error has a status.
        let soon = tokio::select! {
            soon = &mut beginning => Some(soon),
            () = sleep_until(self.arrived + patience) => None,
            Gone = outlet.gone() => {
                drop(beginning);
                self.fail(Broken::Gone).await;
                return;
            }
        };
        if let Some(Err(error)) = soon {
            drop(beginning);
            let error = self.fail(Broken::Failed(error)).await;
            outlet.begin(Err(error));
            return;
        }
        outlet.begin(Ok(()));
        let mut stream = Stream::new(outlet);
        let result = match soon {
            Some(Ok(begun)) => self.stream(begun, &mut stream).await,
            _ => match self.hold_open(&mut stream, beginning.as_mut()).await {
                Ok(begun) => self.stream(begun, &mut stream).await,
                Err(broken) => Err(broken),
            },
        };
        drop(beginning);
        if let Err(broken) = result {
            let error = self.fail(broken).await;
            // It may be the client that is gone.
            let _ = stream.send(&error.json());
        }
    }

    /// Waits for the beginning, and says so.
    async fn hold_open(
        &self,
        stream: &mut Stream,
        mut beginning: Pin<&mut impl Future<Output = Result<(Vec<Choice>, Vec<(usize, Pieces)>), ApiError>>>,
    ) -> Result<(Vec<Choice>, Vec<(usize, Pieces)>), Broken> {
        loop {
            let begun = poll_fn(|context| {
                if let Poll::Ready(begun) = beginning.as_mut().poll(context) {
                    return Poll::Ready(Ok(Some(begun)));
                }
                if let Poll::Ready(Err(gone)) = stream.poll_room() {
                    return Poll::Ready(Err(gone));
                }
                stream.poll_quiet(self.gateway.settings.keep_alive, context).map(|()| Ok(None))
            });
            match begun.await? {
                Some(begun) => return begun.map_err(Broken::Failed),
                None => stream.comment()?,
            }
        }
    }

    async fn stream(
        &self,
        begun: (Vec<Choice>, Vec<(usize, Pieces)>),
        stream: &mut Stream,
    ) -> Result<(), Broken> {
        let (choices, pieces) = begun;
        for index in 0..choices.len() {
            if let Some(opening) = self.shape.opening(index) {
                stream.send(&opening)?;
            }
        }
        let around = (0..choices.len()).map(|index| self.shape.around_text(index)).collect();
        let mut saying = Saying { choices, pieces, around, first: None };
        poll_fn(|context| self.say(&mut saying, stream, context)).await?;
        // The client can know of an answer once it has its end, and may go on at once.
        self.record(&saying.choices, saying.first).await;
        // It is answered: who goes away now has failed nothing.
        let _ = self.send_end(&mut saying.choices, stream);
        Ok(())
    }

    /// Says what comes, as long as there is room for it, and a comment now and then. Ready when all choices have ended.
    fn say(
        &self,
        saying: &mut Saying,
        stream: &mut Stream,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Broken>> {
        loop {
            ready!(stream.poll_room())?;
            match poll_next(&mut saying.pieces, context) {
                Poll::Ready(Some((index, piece))) => self.say_piece(saying, stream, index, piece)?,
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    ready!(stream.poll_quiet(self.gateway.settings.keep_alive, context));
                    stream.comment()?;
                }
            }
        }
    }

    fn say_piece(
        &self,
        Saying { choices, pieces, around, first }: &mut Saying,
        stream: &mut Stream,
        index: usize,
        piece: Result<Piece, BackendError>,
    ) -> Result<(), Broken> {
        let mut call = choices[index].calls().len();
        let parts = self.take(choices, pieces, index, piece).map_err(Broken::Failed)?;
        let choice = &mut choices[index];
        for part in &parts {
            let made = match part {
                AnswerPart::Call { .. } => {
                    call += 1;
                    choice.calls().get(call - 1).cloned().map(|made| (call - 1, made))
                }
                _ => None,
            };
            first.get_or_insert_with(Instant::now);
            let logprobs = choice.new_logprobs();
            if let (AnswerPart::Text(text), None) = (part, &logprobs) {
                stream.send_text(&around[index], text)?;
                continue;
            }
            let logprobs = logprobs.map_or(Value::Null, |entries| self.shape.logprobs(entries));
            let made = made.as_ref().map(|(index, call)| (*index, call));
            stream.send(&self.shape.piece(index, part, made, logprobs))?;
        }
        Ok(())
    }

    fn send_end(&self, choices: &mut [Choice], stream: &mut Stream) -> Result<(), Broken> {
        for (index, choice) in choices.iter_mut().enumerate() {
            let logprobs = choice.new_logprobs().map_or(Value::Null, |entries| self.shape.logprobs(entries));
            stream.send(&self.shape.finish(index, choice.finish_reason(), logprobs))?;
        }
        if let Some(last) = self.shape.usage(usage(choices)) {
            stream.send(&last)?;
        }
        stream.send_line(b"data: [DONE]\n\n")
    }

    /// Begins all choices.
    async fn begin(&self) -> Result<(Vec<Choice>, Vec<(usize, Pieces)>), ApiError> {
        let begun = join_all(self.asks.iter().map(|ask| self.gateway.backend.begin(ask.clone()))).await;
        let random = super::random::random();
        let mut choices = Vec::with_capacity(begun.len());
        let mut pieces = Vec::with_capacity(begun.len());
        for (index, begun) in begun.into_iter().enumerate() {
            let begun = begun.map_err(|error| self.told(error))?;
            // Letters and digits alone, and no more than 40: other ids are rewritten by clients.
            let prefix = format!("call{random:016x}{index:02x}");
            choices.push(Choice::new(self.shape.form, &self.wanted, &begun, prefix));
            let Begun { pieces: these, .. } = begun;
            pieces.push((index, these));
        }
        Ok((choices, pieces))
    }

    /// Takes a piece in; a choice that has ended is not listened to any more.
    fn take(
        &self,
        choices: &mut [Choice],
        pieces: &mut Vec<(usize, Pieces)>,
        index: usize,
        piece: Result<Piece, BackendError>,
    ) -> Result<Vec<AnswerPart>, ApiError> {
        let piece = piece.map_err(|error| self.told(error))?;
        let choice = &mut choices[index];
        let known = choice.tokens().ids.len();
        let parts = choice.take(piece);
        let sampled = choice.tokens().ids.len();
        self.gateway.metrics.sampled_tokens.add((sampled - known) as u64);
        // The rate is for people to look at, and costs a look at the clock.
        if sampled - choice.in_rate >= IN_RATE_AT_ONCE || choice.has_ended() {
            self.gateway.metrics.recent.add((sampled - choice.in_rate) as u64);
            choice.in_rate = sampled;
        }
        if choice.has_ended() {
            pieces.retain(|(other, _)| *other != index);
        }
        Ok(parts)
    }

    /// What a client is told of an error, and the log of what it is not.
    fn told(&self, error: BackendError) -> ApiError {
        if let BackendError::Broken(why) = &error {
            tracing::error!("the model cannot answer: {why}");
            return ApiError::internal("the model cannot answer; the server's log says why");
        }
        error.into()
    }

    /// Records the answer. Returns when it is kept (I1).
    async fn record(&self, choices: &[Choice], first: Option<Instant>) {
        let metrics = &self.gateway.metrics;
        let usage = usage(choices);
        metrics.prompt_tokens.add(usage.prompt);
        if let Some(first) = first {
            metrics.first_token.observe(first - self.arrived);
        }
        metrics.answers.add(1);
        if let Some(ask) = self.asks.first() {
            metrics.hours.add(&ask.user, usage.completion);
        }
        let Some(request) = self.request else { return };
        let sampling = self.asks.first().map(|ask| &ask.sampling);
        let tokens = choices.first().map(Choice::tokens);
        let answer = NewAnswer {
            choices: choices.iter().map(|choice| new_choice(choice, sampling)).collect(),
            prompt_ids: tokens.and_then(|tokens| tokens.prompt_ids.clone()).unwrap_or_default(),
            adapter: tokens.and_then(|tokens| tokens.adapter.clone()),
            sampling: sampling.map(sampling_used).unwrap_or_default(),
            prompt_tokens: usage.prompt,
            completion_tokens: usage.completion,
            first_token_after_ms: first.map(|first| millis(first - self.arrived)),
        };
        match self.gateway.recorder.answered(request, answer).await {
            Ok(()) => self.gateway.recorded(),
            Err(error) => self.gateway.unrecorded(&error),
        }
    }

    async fn fail(&self, broken: Broken) -> ApiError {
        let (error, why) = match broken {
            Broken::Gone => (ApiError::internal(GONE), GONE.to_owned()),
            Broken::Failed(error) => {
                let why = error.message().to_owned();
                (error, why)
            }
        };
        self.gateway.metrics.failures.add(1);
        if let Some(request) = self.request
            && let Err(error) = self.gateway.recorder.failed(request, &why).await
        {
            self.gateway.unrecorded(&error);
        }
        error
    }
}

/// A streamed answer under way.
struct Saying {
    choices: Vec<Choice>,
    /// Of those that have not ended.
    pieces: Vec<(usize, Pieces)>,
    /// One for each choice.
    around: Vec<Around>,
    /// When the first part was said.
    first: Option<Instant>,
}

/// Events to a client that reads.
struct Stream {
    outlet: Outlet,
    quiet_since: Instant,
    /// Something was sent since `quiet_since` was set: a look at the clock for each of many pieces at once costs more than they do.
    has_sent: bool,
    /// Ends when a comment may be due, or before: a timer for each piece would cost more than the piece.
    quiet: Pin<Box<Sleep>>,
    /// When it ends, and whom it wakes then. Before that it need not be asked.
    quiet_asked: Option<(Instant, Waker)>,
}

impl Stream {
    fn new(outlet: Outlet) -> Self {
        let now = Instant::now();
        let quiet = Box::pin(sleep_until(now));
        Self { outlet, quiet_since: now, has_sent: false, quiet, quiet_asked: None }
    }

    /// Ready when there is room for more.
    fn poll_room(&self) -> Poll<Result<(), Broken>> {
        self.outlet.poll_room().map_err(|Gone| Broken::Gone)
    }

    fn send(&mut self, json: &impl Serialize) -> Result<(), Broken> {
        self.say(|bytes| {
            bytes.put_slice(b"data: ");
            // Texts and numbers always are JSON, and these bytes take all.
            let _ = serde_json::to_writer((&mut *bytes).writer(), json);
            bytes.put_slice(b"\n\n");
        })
    }

    fn send_text(&mut self, around: &Around, text: &str) -> Result<(), Broken> {
        let (before, behind) = around.parts();
        self.say(|bytes| {
            bytes.put_slice(b"data: ");
            bytes.put_slice(before.as_bytes());
            let _ = serde_json::to_writer((&mut *bytes).writer(), text);
            bytes.put_slice(behind.as_bytes());
            bytes.put_slice(b"\n\n");
        })
    }

    fn send_line(&mut self, text: &'static [u8]) -> Result<(), Broken> {
        self.say(|bytes| bytes.put_slice(text))
    }

    fn comment(&mut self) -> Result<(), Broken> {
        self.send_line(b": keepalive\n\n")
    }

    fn say(&mut self, write: impl FnOnce(&mut BytesMut)) -> Result<(), Broken> {
        self.has_sent = true;
        self.outlet.say(write).map_err(|Gone| Broken::Gone)
    }

    /// Ready when nothing was sent for so long. To be called where nothing is there to be sent.
    fn poll_quiet(&mut self, for_so_long: Duration, context: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if std::mem::take(&mut self.has_sent) {
            self.quiet_since = now;
        }
        let wakes = |(end, waker): &(Instant, Waker)| now < *end && waker.will_wake(context.waker());
        if self.quiet_asked.as_ref().is_some_and(wakes) {
            return Poll::Pending;
        }
        while self.quiet.as_mut().poll(context).is_ready() {
            let due = self.quiet_since + for_so_long;
            if due <= now {
                return Poll::Ready(());
            }
            self.quiet.as_mut().reset(due);
        }
        self.quiet_asked = Some((self.quiet.deadline(), context.waker().clone()));
        Poll::Pending
    }
}

/// The next piece of any choice; `None` when all have ended.
fn poll_next(
    pieces: &mut Vec<(usize, Pieces)>,
    context: &mut Context<'_>,
) -> Poll<Option<(usize, Result<Piece, BackendError>)>> {
    let mut at = 0;
    while at < pieces.len() {
        let (index, stream) = &mut pieces[at];
        match stream.poll_next_unpin(context) {
            Poll::Ready(Some(piece)) => {
                let index = *index;
                // The others come first next time.
                pieces.rotate_left(at + 1);
                return Poll::Ready(Some((index, piece)));
            }
            Poll::Ready(None) => {
                let (index, _) = pieces.remove(at);
                let why = "its answer ended without an end".to_owned();
                return Poll::Ready(Some((index, Err(BackendError::Broken(why)))));
            }
            Poll::Pending => at += 1,
        }
    }
    if pieces.is_empty() { Poll::Ready(None) } else { Poll::Pending }
}

/// The prompt counts once.
fn usage(choices: &[Choice]) -> Usage {
    let all = choices.iter().map(Choice::usage);
    all.reduce(|sum, next| Usage { prompt: sum.prompt, completion: sum.completion + next.completion })
        .unwrap_or_default()
}

fn new_choice(choice: &Choice, sampling: Option<&Sampling>) -> NewChoice {
    let Tokens { prompt_ids, ids, logprobs, versions, .. } = choice.tokens();
    let exact = match sampling {
        _ if prompt_ids.is_none() || ids.is_empty() => Exactness::NoIds,
        Some(sampling) if sampling.temperature == 0.0 => Exactness::Greedy,
        Some(sampling) if sampling.top_p < 1.0 || sampling.top_k > 0 => Exactness::Truncated,
        Some(_) => Exactness::Exact,
        None => Exactness::NoIds,
    };
    NewChoice {
        text: choice.text().to_owned(),
        reasoning: Some(choice.reasoning()).filter(|reasoning| !reasoning.is_empty()).map(str::to_owned),
        calls: choice.calls().to_vec(),
        finish_reason: choice.finish_reason().to_owned(),
        sampled_ids: ids.clone(),
        logprobs: logprobs.clone(),
        versions: versions.iter().map(|&(first, version)| VersionSegment { first, version }).collect(),
        exact,
    }
}

fn sampling_used(sampling: &Sampling) -> SamplingUsed {
    let Sampling { temperature, top_p, top_k, seed, .. } = *sampling;
    SamplingUsed {
        temperature: Some(f64::from(temperature)),
        top_p: Some(f64::from(top_p)),
        top_k: Some(top_k),
        seed: Some(seed),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use futures_util::stream::iter;
    use http_body_util::BodyExt;
    use serde_json::{Map, json};

    use super::*;
    use crate::api::driven::Driven;
    use crate::api::settings::ServerSettings;
    use crate::api::wanted::Form;
    use crate::recorder::{Live, NewRequest, Recorder, RecorderSettings};
    use crate::{Backend, ChatRequest, End, Headers, Keys, Prompt, Refusal, Token, UserId};

    /// Says one word.
    #[derive(Debug)]
    struct OneWord;

    impl Backend for OneWord {
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
            let word = Piece::Token(Token { bytes: b"Yes".to_vec(), ..Token::default() });
            let pieces = iter([Ok(word), Ok(Piece::End(End { is_whole: true, usage: None }))]).boxed();
            Box::pin(async { Ok(Begun { prompt_ids: None, in_reasoning: false, adapter: None, pieces }) })
        }

        fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
            Box::pin(async { Ok(()) })
        }
    }

    /// I1. The client goes away when its answer is recorded, and before its end is sent.
    #[tokio::test]
    async fn who_goes_away_behind_the_record_has_failed_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::open(RecorderSettings::new(folder.path().join("ledger.sqlite"))).unwrap();
        let (record, mut changes) = (recorder.handle(), recorder.handle().events());
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
        let keys = Keys::default();
        let gateway =
            Arc::new(Gateway::new(1, ServerSettings::default(), keys, Arc::new(OneWord), record.clone()));
        let wanted = Wanted::parse(&Map::new(), Form::Chat, 1).unwrap();
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
        let answering = Answering {
            gateway: Arc::clone(&gateway),
            wanted,
            shape,
            asks: vec![ask],
            request: Some(admitted.request),
            arrived: Instant::now(),
        };
        let counted = gateway.answers.token();
        let mut driven = Driven::new(|outlet| async move {
            answering.streamed(outlet).await;
            drop(counted);
        });
        assert_eq!(driven.begin().await, Ok(()));
        // It is asked until it waits for the record, and not again.
        while let Some(Some(frame)) = driven.frame().now_or_never() {
            assert!(!frame.unwrap().into_data().unwrap().ends_with(b"[DONE]\n\n"));
        }
        while changes.recv().await.unwrap().what != Live::Answered {}
        drop(driven);
        gateway.answers.close();
        gateway.answers.wait().await;
        let turn = record.turn(&user, admitted.turn).await.unwrap();
        assert_eq!(turn.requests[0].state, "answered");
        assert_eq!((gateway.metrics.answers.get(), gateway.metrics.failures.get()), (1, 0));
        assert_eq!(gateway.metrics.unrecorded.get(), 0);
        assert!(!gateway.is_record_broken.load(Ordering::Relaxed));
    }
}
