//! An answer, from its start to its record.
//!
//! I1. A recorded request ends once in the record: answered, before the client gets the end, or failed. I2. A failed write loses the
//! record, not the answer; it is counted and logged.
//!
//! Cancellation: see [`super::answer_stream`] for streamed answers; a whole answer ends soon after its listener is gone. Nothing else may
//! drop it.

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
use super::choice_streams::ChoiceStreams;
use super::completion_params::CompletionParams;
use super::error::ApiError;
use super::gateway::Gateway;
use super::response::ResponseEnvelope;
use crate::recorder::{Exactness, NewAnswer, NewChoice, SamplingUsed, VersionSegment};
use crate::{AnswerRequest, BackendError, RequestId, Sampling, UserId};

/// An answer to produce.
pub(super) struct PendingAnswer {
    pub(super) gateway: Arc<Gateway>,
    pub(super) params: CompletionParams,
    pub(super) envelope: ResponseEnvelope,
    pub(super) user: UserId,
    /// Number of the recorded request; `None` if it is not recorded.
    pub(super) request: Option<RequestId>,
    pub(super) arrived: Instant,
}

impl PendingAnswer {
    /// Produces a whole answer for a listener.
    pub(super) async fn whole(
        self,
        requests: Vec<AnswerRequest>,
        mut listener: oneshot::Sender<Result<Value, ApiError>>,
    ) {
        let answer = async {
            let mut streams = self.start(requests).await?;
            while let Some((at, piece)) = poll_fn(|context| streams.poll_next(context)).await {
                streams.take(at, piece.map_err(to_api_error)?);
            }
            Ok(streams)
        };
        // A policy may panic.
        let answer = AssertUnwindSafe(answer).catch_unwind();
        let answer = tokio::select! {
            answer = answer => answer.unwrap_or_else(|_| Err(broken())),
            () = listener.closed() => Err(gone()),
        };
        let answer = match answer {
            Ok(streams) => {
                let answer = self.ended(&streams, None);
                self.record(answer).await;
                Ok(self.envelope.whole(streams.choices(), &streams.usage()))
            }
            Err(error) => Err(self.fail(error).await),
        };
        // The listener may be gone.
        let _ = listener.send(answer);
    }

    /// Starts all choices. The requests and the body are released with it, long before the answer ends.
    pub(super) async fn start(&self, requests: Vec<AnswerRequest>) -> Result<ChoiceStreams, ApiError> {
        let started = join_all(requests.into_iter().map(|request| self.gateway.backend.start(request))).await;
        let random = super::random::random();
        let mut streams = ChoiceStreams::new(Arc::clone(&self.gateway), started.len());
        for (index, started) in started.into_iter().enumerate() {
            let started = started.map_err(to_api_error)?;
            // Letters and digits only, and at most 40: clients rewrite other ids.
            let prefix = format!("call{random:016x}{index:02x}");
            let choice = Choice::new(self.envelope.kind, &self.params, &started, prefix);
            let template = self.params.stream.then(|| self.envelope.text_template(index));
            streams.add(choice, template, started.pieces);
        }
        Ok(streams)
    }

    /// Counts the answer, and returns what to record, if anything. All choices have ended.
    pub(super) fn ended(
        &self,
        streams: &ChoiceStreams,
        first: Option<Instant>,
    ) -> Option<(RequestId, NewAnswer)> {
        let metrics = &self.gateway.metrics;
        let usage = streams.usage();
        metrics.prompt_tokens.add(usage.input_tokens);
        if let Some(first) = first {
            metrics.first_token.observe(first - self.arrived);
        }
        metrics.answers.add(1);
        metrics.activity.add(&self.user, usage.output_tokens);
        let request = self.request?;
        let sampling = self.params.sampling_of(0);
        let tokens = streams.choices().next().map(Choice::tokens);
        let answer = NewAnswer {
            choices: streams.choices().map(|choice| new_choice(choice, &sampling)).collect(),
            prompt_ids: tokens.and_then(|tokens| tokens.prompt_ids.clone()).unwrap_or_default(),
            adapter: tokens.and_then(|tokens| tokens.adapter.clone()),
            sampling: sampling_used(&sampling),
            prompt_tokens: usage.input_tokens,
            completion_tokens: usage.output_tokens,
            first_token_after_ms: first.map(|first| millis(first - self.arrived)),
        };
        Some((request, answer))
    }

    /// Returns once it is committed (I1).
    pub(super) async fn record(&self, answer: Option<(RequestId, NewAnswer)>) {
        let Some((request, answer)) = answer else { return };
        match self.gateway.recorder.answered(request, answer).await {
            Ok(()) => self.gateway.recorded(),
            Err(error) => self.gateway.unrecorded(&error),
        }
    }

    /// Records a failure, and its reason.
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

/// The client disconnected, or did not read.
pub(super) fn gone() -> ApiError {
    ApiError::internal("the client disconnected")
}

/// The policy panicked.
pub(super) fn broken() -> ApiError {
    to_api_error(BackendError::Broken("it panicked".to_owned()))
}

/// The error for the client; the details go to the log.
pub(super) fn to_api_error(error: BackendError) -> ApiError {
    if let BackendError::Broken(why) = &error {
        tracing::error!("the model failed: {why}");
        return ApiError::internal("the model failed; see the server's log");
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

/// The shortest decimal number that rounds to this one: 0.7, not 0.699999988.
fn decimal(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| f64::from(number))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
