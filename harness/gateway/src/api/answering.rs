//! An answer: its beginning, what is said, and its end in the record.
//!
//! I1. A request that was recorded comes to one end in the record: answered, before the client can know, or failed. I2. A record that
//! cannot be written costs the record, not the answer; it is counted and logged.
//!
//! Cancellation: see [`super::streamed`] for answers that come in pieces; one that is told whole ends soon after its listener is gone.
//! Nothing else may drop it.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::choice::{Choice, Tokens};
use super::error::ApiError;
use super::gateway::Gateway;
use super::shapes::Shape;
use super::voices::Voices;
use super::wanted::Wanted;
use crate::recorder::{Exactness, NewAnswer, NewChoice, SamplingUsed, VersionSegment};
use crate::{Ask, BackendError, RequestId, Sampling, UserId};

/// What is to be answered.
pub(super) struct Answering {
    pub(super) gateway: Arc<Gateway>,
    pub(super) wanted: Wanted,
    pub(super) shape: Shape,
    pub(super) user: UserId,
    /// Under which it is recorded; `None` where it is not.
    pub(super) request: Option<RequestId>,
    pub(super) arrived: Instant,
}

impl Answering {
    /// Answers to somebody who hears of the whole answer.
    pub(super) async fn whole(self, asks: Vec<Ask>, mut listener: oneshot::Sender<Result<Value, ApiError>>) {
        let answer = async {
            let mut voices = self.begin(asks).await?;
            while let Some((at, piece)) = poll_fn(|context| voices.poll_next(context)).await {
                voices.take(at, piece.map_err(told)?);
            }
            Ok(voices)
        };
        // A policy may panic.
        let answer = AssertUnwindSafe(answer).catch_unwind();
        let answer = tokio::select! {
            answer = answer => answer.unwrap_or_else(|_| Err(broken())),
            () = listener.closed() => Err(gone()),
        };
        let answer = match answer {
            Ok(voices) => {
                let answer = self.ended(&voices, None);
                self.record(answer).await;
                Ok(self.shape.whole(voices.choices(), voices.usage()))
            }
            Err(error) => Err(self.fail(error).await),
        };
        // Whoever went away does not hear of it.
        let _ = listener.send(answer);
    }

    /// Begins all choices, one for each of these. The body is let go with them, long before the answer ends.
    pub(super) async fn begin(&self, asks: Vec<Ask>) -> Result<Voices, ApiError> {
        let begun = join_all(asks.into_iter().map(|ask| self.gateway.backend.begin(ask))).await;
        let random = super::random::random();
        let mut voices = Voices::new(Arc::clone(&self.gateway), begun.len());
        for (index, begun) in begun.into_iter().enumerate() {
            let begun = begun.map_err(told)?;
            // Letters and digits alone, and no more than 40: other ids are rewritten by clients.
            let prefix = format!("call{random:016x}{index:02x}");
            let choice = Choice::new(self.shape.form, &self.wanted, &begun, prefix);
            let around = self.wanted.stream.then(|| self.shape.around_text(index));
            voices.add(choice, around, begun.pieces);
        }
        Ok(voices)
    }

    /// Counts the answer, and gives it as it is recorded, where it is. All choices have ended.
    pub(super) fn ended(&self, voices: &Voices, first: Option<Instant>) -> Option<(RequestId, NewAnswer)> {
        let metrics = &self.gateway.metrics;
        let usage = voices.usage();
        metrics.prompt_tokens.add(usage.prompt);
        if let Some(first) = first {
            metrics.first_token.observe(first - self.arrived);
        }
        metrics.answers.add(1);
        metrics.hours.add(&self.user, usage.completion);
        let request = self.request?;
        let sampling = self.wanted.sampling_of(0);
        let tokens = voices.choices().next().map(Choice::tokens);
        let answer = NewAnswer {
            choices: voices.choices().map(|choice| new_choice(choice, &sampling)).collect(),
            prompt_ids: tokens.and_then(|tokens| tokens.prompt_ids.clone()).unwrap_or_default(),
            adapter: tokens.and_then(|tokens| tokens.adapter.clone()),
            sampling: sampling_used(&sampling),
            prompt_tokens: usage.prompt,
            completion_tokens: usage.completion,
            first_token_after_ms: first.map(|first| millis(first - self.arrived)),
        };
        Some((request, answer))
    }

    /// Returns when it is kept (I1).
    pub(super) async fn record(&self, answer: Option<(RequestId, NewAnswer)>) {
        let Some((request, answer)) = answer else { return };
        match self.gateway.recorder.answered(request, answer).await {
            Ok(()) => self.gateway.recorded(),
            Err(error) => self.gateway.unrecorded(&error),
        }
    }

    /// Records that there is no answer, and why.
    pub(super) async fn fail(&self, error: ApiError) -> ApiError {
        self.gateway.metrics.failures.add(1);
        if let Some(request) = self.request
            && let Err(error) = self.gateway.recorder.failed(request, error.message()).await
        {
            self.gateway.unrecorded(&error);
        }
        error
    }
}

/// The client closed its connection, or did not read and lost it.
pub(super) fn gone() -> ApiError {
    ApiError::internal("the client went away")
}

/// The policy panicked.
pub(super) fn broken() -> ApiError {
    told(BackendError::Broken("it panicked".to_owned()))
}

/// What a client is told of an error, and the log of what it is not.
pub(super) fn told(error: BackendError) -> ApiError {
    if let BackendError::Broken(why) = &error {
        tracing::error!("the model cannot answer: {why}");
        return ApiError::internal("the model cannot answer; the server's log says why");
    }
    error.into()
}

fn new_choice(choice: &Choice, sampling: &Sampling) -> NewChoice {
    let Tokens { prompt_ids, sampled, versions, .. } = choice.tokens();
    let exact = match sampling {
        _ if prompt_ids.is_none() || sampled.is_empty() => Exactness::NoIds,
        Sampling { temperature: 0.0, .. } => Exactness::Greedy,
        Sampling { top_p, top_k, .. } if *top_p < 1.0 || *top_k > 0 => Exactness::Truncated,
        _ => Exactness::Exact,
    };
    NewChoice {
        text: choice.text().to_owned(),
        reasoning: Some(choice.reasoning()).filter(|reasoning| !reasoning.is_empty()).map(str::to_owned),
        calls: choice.calls().to_vec(),
        finish_reason: choice.finish_reason().to_owned(),
        sampled_ids: sampled.iter().map(|(id, _)| *id).collect(),
        logprobs: sampled.iter().map(|(_, logprob)| *logprob).collect(),
        versions: versions.iter().map(|&(first, version)| VersionSegment { first, version }).collect(),
        exact,
    }
}

fn sampling_used(sampling: &Sampling) -> SamplingUsed {
    let Sampling { temperature, top_p, top_k, seed, .. } = *sampling;
    SamplingUsed {
        temperature: Some(decimal(temperature)),
        top_p: Some(decimal(top_p)),
        top_k: Some(top_k),
        seed: Some(seed),
    }
}

/// The shortest decimal number that is this one in single precision, as people write it: 0.7, and not 0.699999988.
fn decimal(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
