//! Inputs, redacted and encoded by the caller, to keep this work off the recorder's thread.
//!
//! I1. Redacted content is stored without anything that reveals it: no tokens, no log-probabilities, and it is not trained on. I2. An
//! answer with inconsistent numbers is stored with the reason, and not trained on: nothing about learning may refuse a conversation.

use std::sync::Arc;

use bytes::Bytes;
use clawrl_redact::{RuleCounts, RuleRedactor};
use serde_json::{Value, json};

use super::{Exactness, NewAnswer, NewChoice, NewFeedback, NewRequest};
use crate::ledger::{
    self, StoredAnswer, StoredBody, StoredChoice, StoredFeedback, StoredPrompt, StoredRequest,
};
use crate::{ChatRequest, Headers, LedgerError, ReplyCall, VersionSegment};

/// # Errors
/// [`LedgerError::Refused`], if the redacted body is not a request: then the original was not either.
pub(crate) fn request(new: NewRequest, redaction: &RuleRedactor) -> Result<StoredRequest, LedgerError> {
    let mut redacted = RuleCounts::new();
    let raw = std::str::from_utf8(&new.raw).map_err(|error| LedgerError::Refused(error.to_string()))?;
    let body = redaction.redact_json(raw, &mut redacted);
    let request = match &body {
        None => new.body,
        Some(body) => Arc::new(read(body)?),
    };
    let body = body.map_or(new.raw, Bytes::from);
    let headers = new.headers.of_linking();
    let pairs = headers.pairs().iter();
    let headers: Headers = pairs
        .map(|(name, value)| (name.clone(), redaction.redact(value, &mut redacted).into_owned()))
        .collect();
    // Both are in the body as well, where matches are counted.
    let mut again = RuleCounts::new();
    let sampling = new.sampling.to_string();
    let sampling = redaction.redact_json(&sampling, &mut again).unwrap_or(sampling);
    Ok(StoredRequest {
        user: new.user,
        endpoint: new.endpoint,
        headers_json: json!(headers.pairs()).to_string(),
        headers,
        request,
        body_bytes: body.len(),
        body: StoredBody::of(body),
        redacted: json!(redacted).to_string(),
        model: redaction.redact(&new.model, &mut again).into_owned(),
        sampling,
    })
}

fn read(body: &str) -> Result<ChatRequest, LedgerError> {
    let value: Value = serde_json::from_str(body).map_err(|error| LedgerError::Refused(error.to_string()))?;
    ChatRequest::parse(&value).map_err(|error| LedgerError::Refused(error.to_string()))
}

pub(crate) fn answer(new: NewAnswer, redaction: &RuleRedactor) -> Result<StoredAnswer, LedgerError> {
    let prompt_is_known = !new.prompt_ids.is_empty();
    let choices = new.choices.into_iter().map(|new| choice(new, prompt_is_known, redaction));
    let choices = choices.collect::<Result<_, _>>()?;
    let prompt = prompt_is_known.then(|| StoredPrompt::of(new.prompt_ids));
    Ok(StoredAnswer {
        choices,
        prompt,
        adapter: new.adapter,
        temperature: new.sampling.temperature,
        top_p: new.sampling.top_p,
        top_k: new.sampling.top_k,
        seed: new.sampling.seed,
        prompt_tokens: new.prompt_tokens,
        completion_tokens: new.completion_tokens,
        first_token_after_ms: new.first_token_after_ms,
    })
}

fn choice(
    new: NewChoice,
    prompt_is_known: bool,
    redaction: &RuleRedactor,
) -> Result<StoredChoice, LedgerError> {
    let mut redacted = RuleCounts::new();
    let mut text = |text: &str| redaction.redact(text, &mut redacted).into_owned();
    let inexact = inexact(&new, prompt_is_known);
    let kept_text = text(&new.text);
    let reasoning = new.reasoning.as_deref().map(&mut text);
    let calls: Vec<ReplyCall> = new
        .calls
        .into_iter()
        .map(|call| ReplyCall { name: text(&call.name), arguments: text(&call.arguments), id: call.id })
        .collect();
    let is_whole = redacted.is_empty();
    let call = |call: &ReplyCall| json!({"id": call.id, "name": call.name, "arguments": call.arguments});
    let has_ids = is_whole && !new.sampled_ids.is_empty();
    Ok(StoredChoice {
        calls_json: Value::from_iter(calls.iter().map(call)).to_string(),
        text: kept_text,
        reasoning,
        calls,
        finish_reason: new.finish_reason,
        redacted: json!(redacted).to_string(),
        sampled_ids: has_ids.then(|| ledger::ids(&new.sampled_ids)),
        logprobs: has_ids.then(|| ledger::logprobs(&new.logprobs)),
        versions: Value::from_iter(
            new.versions.iter().map(|segment| json!([segment.first, segment.version])),
        )
        .to_string(),
        inexact: if is_whole { inexact } else { Some("the answer was redacted".to_owned()) },
    })
}

/// Why an answer cannot be trained on; `None` if it can.
fn inexact(choice: &NewChoice, prompt_is_known: bool) -> Option<String> {
    let why = match &choice.exact {
        Exactness::NoIds => "the upstream server returns no token ids",
        Exactness::Truncated => "its sampling was truncated",
        Exactness::Greedy => "it was not sampled: greedy",
        Exactness::Other(why) => why,
        Exactness::Exact if choice.sampled_ids.is_empty() => "its tokens are missing",
        Exactness::Exact if !prompt_is_known => "the prompt's tokens are missing",
        Exactness::Exact if choice.logprobs.len() != choice.sampled_ids.len() => {
            "its log-probabilities do not match its tokens"
        }
        Exactness::Exact if !choice.logprobs.iter().all(|logprob| logprob.is_finite()) => {
            "a log-probability is not finite"
        }
        Exactness::Exact if !are_segments(&choice.versions, choice.sampled_ids.len()) => {
            "its version segments do not match its tokens"
        }
        Exactness::Exact => return None,
    };
    Some(why.to_owned())
}

fn are_segments(versions: &[VersionSegment], tokens: usize) -> bool {
    let rises = |pair: &[VersionSegment]| pair[0].first < pair[1].first && pair[0].version < pair[1].version;
    versions.first().is_some_and(|segment| segment.first == 0)
        && versions.last().is_some_and(|segment| segment.first < tokens)
        && versions.windows(2).all(rises)
}

/// # Errors
/// [`LedgerError::Refused`], if a number is out of range.
pub(crate) fn feedback(new: &NewFeedback, redaction: &RuleRedactor) -> Result<StoredFeedback, LedgerError> {
    if new.thumb.is_some_and(|thumb| !(-1..=1).contains(&thumb)) {
        return Err(LedgerError::Refused("a rating must be -1, 0 or 1".to_owned()));
    }
    if new.score.is_some_and(|score| !score.is_finite()) {
        return Err(LedgerError::Refused("a score must be a finite number".to_owned()));
    }
    let text = new.text.as_deref().map(|text| redaction.redact(text, &mut RuleCounts::new()).into_owned());
    let NewFeedback { target, choice, source, thumb, score, .. } = *new;
    Ok(StoredFeedback { target, choice, source, thumb, text, score })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut NewAnswer), expected: Option<&str>) {
        let choice = NewChoice {
            text: "hi".to_owned(),
            sampled_ids: vec![1, 2, 3],
            logprobs: vec![-0.5, -1.0, 0.0],
            versions: vec![VersionSegment { first: 0, version: 3 }, VersionSegment { first: 2, version: 4 }],
            exact: Exactness::Exact,
            ..NewChoice::default()
        };
        let mut new = NewAnswer { choices: vec![choice], prompt_ids: Arc::from([7]), ..NewAnswer::default() };
        change(&mut new);
        let stored = answer(new, &RuleRedactor::new(crate::RedactionRule::defaults())).unwrap();
        assert_eq!(stored.choices[0].inexact.as_deref(), expected);
    }

    #[test]
    fn i2_inconsistent_answers_are_not_trained_on() {
        check(|_| {}, None);
        check(|new| new.prompt_ids = Arc::default(), Some("the prompt's tokens are missing"));
        check(|new| new.choices[0].sampled_ids.clear(), Some("its tokens are missing"));
        check(
            |new| new.choices[0].logprobs.truncate(2),
            Some("its log-probabilities do not match its tokens"),
        );
        check(|new| new.choices[0].logprobs[0] = f32::NAN, Some("a log-probability is not finite"));
        let segments = Some("its version segments do not match its tokens");
        check(|new| new.choices[0].versions.clear(), segments);
        check(|new| new.choices[0].versions[1].first = 3, segments);
        check(|new| new.choices[0].versions[1].version = 3, segments);
        check(|new| new.choices[0].exact = Exactness::Greedy, Some("it was not sampled: greedy"));
    }

    #[test]
    fn i1_redacted_answer_has_no_tokens() {
        check(
            |new| new.choices[0].text = "sk-abcdefghijklmnopqrst".to_owned(),
            Some("the answer was redacted"),
        );
        let choice = NewChoice {
            reasoning: Some("sk-abcdefghijklmnopqrst".to_owned()),
            sampled_ids: vec![1],
            logprobs: vec![-1.0],
            ..NewChoice::default()
        };
        let stored =
            super::choice(choice, true, &RuleRedactor::new(crate::RedactionRule::defaults())).unwrap();
        assert_eq!((stored.sampled_ids, stored.logprobs), (None, None));
        assert_eq!(stored.reasoning.as_deref(), Some("[redacted:sk-key]"));
    }
}
