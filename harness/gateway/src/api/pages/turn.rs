//! `/turns/N`: everything that is recorded of a turn.

use axum::http::StatusCode;
use serde::Serialize;

use super::conversation::{Conversation, Excerpt, Shown};
use super::document::{Page, PageError};
use super::login::Visitor;
use super::training_outcome::TrainingOutcome;
use crate::api::gateway::Gateway;
use crate::{AnswerView, RequestView, TurnId, TurnView};

/// Tokens that are listed.
const MAX_TOKENS: usize = 2_000;

pub(super) async fn page(
    gateway: &Gateway,
    visitor: &Visitor,
    id: TurnId,
    upto: Option<usize>,
) -> Result<Page, PageError> {
    let (turn, next) = gateway.recorder.turn_with_next(&visitor.user, id).await?;
    let proof = visitor.proof.clone();
    // A body may have megabytes: parsing it here would delay answers in progress.
    let rendered = tokio::task::spawn_blocking(move || rendered(turn, next.as_deref(), upto, proof)).await;
    let panicked = |_| PageError::new(StatusCode::INTERNAL_SERVER_ERROR, "The page cannot be rendered.");
    rendered.map_err(panicked)?
}

/// What the template needs.
#[derive(Debug, Serialize)]
struct Context {
    turn: TurnView,
    training_of: TrainingOutcome,
    said: Option<Excerpt>,
    requests: Vec<RequestSection>,
    next_messages: Option<Shown>,
    next_aside: Option<Shown>,
    upto: Option<usize>,
    proof: Option<String>,
}

/// A request of the turn.
#[derive(Debug, Serialize)]
struct RequestSection {
    #[serde(flatten)]
    request: RequestView,
    /// Only of the last request: retries repeat it.
    conversation: Option<Shown>,
    /// Why there is none.
    no_conversation: &'static str,
    /// In the order of the answers.
    tokens: Vec<Option<TokenStats>>,
    sampling_json: String,
}

fn rendered(
    mut turn: TurnView,
    next_body: Option<&str>,
    upto: Option<usize>,
    proof: Option<String>,
) -> Result<Page, PageError> {
    let (id, session) = (turn.line.turn, turn.session);
    let training_of = TrainingOutcome::of(&turn);
    let mut requests: Vec<RequestSection> = turn.requests.drain(..).map(RequestSection::of).collect();
    let last = requests.last_mut();
    let conversation = last.as_ref().and_then(|last| Conversation::parse(last.request.body.as_deref()?));
    if let Some(last) = last {
        last.conversation = conversation.as_ref().map(|conversation| conversation.before(upto));
    }
    // Large, and not shown.
    requests.iter_mut().for_each(RequestSection::drop_contents);
    let next = turn.next_state.as_ref().zip(next_body.and_then(Conversation::parse));
    let (next_messages, next_aside) =
        next.map(|(next, body)| (body.at(&next.messages), body.at(&next.aside))).unzip();
    let said = conversation.as_ref().and_then(Conversation::said);
    let context = Context { turn, training_of, said, requests, next_messages, next_aside, upto, proof };
    let page = Page::new(format!("Turn {id}"), "turn", &context)?;
    Ok(Page { session: Some(session), turn: Some(id), ..page })
}

impl RequestSection {
    fn of(request: RequestView) -> Self {
        let no_conversation = match &request.body {
            None => "Its text is deleted.",
            Some(body) if Conversation::parse(body).is_none() => "Its body cannot be parsed.",
            Some(_) => "The conversation is that of the last request of this turn.",
        };
        let tokens = request.answers.iter().map(TokenStats::of).collect();
        let sampling_json = request.sampling.to_string();
        Self { request, conversation: None, no_conversation, tokens, sampling_json }
    }

    fn drop_contents(&mut self) {
        self.request.body = None;
        self.request.prompt_ids.clear();
        for answer in &mut self.request.answers {
            answer.sampled_ids.clear();
            answer.logprobs.clear();
        }
    }
}

/// Sampled tokens of an answer.
#[derive(Debug, Serialize)]
struct TokenStats {
    count: usize,
    /// Mean log-probability in nats.
    mean: Option<String>,
    /// Smallest log-probability in nats.
    min: Option<String>,
    segments: Vec<Segment>,
    /// `id:logprob`, separated by spaces.
    listed: String,
    /// Tokens that are not listed.
    hidden: usize,
}

/// Tokens that one version sampled.
#[derive(Debug, Serialize)]
struct Segment {
    first: u64,
    last: u64,
    version: serde_json::Value,
}

impl TokenStats {
    /// `None` if the tokens are unknown.
    fn of(answer: &AnswerView) -> Option<Self> {
        let AnswerView { sampled_ids, logprobs, .. } = answer;
        let count = sampled_ids.len();
        if count == 0 {
            return None;
        }
        let sum: f64 = logprobs.iter().map(|logprob| f64::from(*logprob)).sum();
        let min = logprobs.iter().copied().reduce(f32::min);
        let segments = answer.versions.as_array().map_or(&[][..], Vec::as_slice);
        let segment = |(place, segment): (usize, &serde_json::Value)| {
            let end = segments.get(place + 1).and_then(|next| next[0].as_u64()).unwrap_or(count as u64);
            let first = segment[0].as_u64().unwrap_or_default();
            Segment { first, last: end.saturating_sub(1), version: segment[1].clone() }
        };
        let token = |(place, id): (usize, &u32)| match logprobs.get(place) {
            Some(logprob) => format!("{id}:{logprob:.3}"),
            None => id.to_string(),
        };
        let listed: Vec<String> = sampled_ids.iter().enumerate().take(MAX_TOKENS).map(token).collect();
        Some(Self {
            count,
            mean: min.map(|_| format!("{:.3}", sum / logprobs.len() as f64)),
            min: min.map(|min| format!("{min:.3}")),
            segments: segments.iter().enumerate().map(segment).collect(),
            listed: listed.join(" "),
            hidden: count.saturating_sub(MAX_TOKENS),
        })
    }
}
