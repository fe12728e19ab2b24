//! Scores given tokens with a model behind a server, by completions that echo their prompt.
//!
//! `POST completions` with the ids as `prompt`, `echo`, `logprobs: 1` and one new token, which is discarded, since not
//! every server allows zero. The response has the text and log-probability of each token; the first has no log-probability.
//!
//! I1. The texts are compared with those of the sent ids, where a token has its own text: every response shows whether the
//! server uses another tokenizer. I2. A response without a log-probability for each token but the first is refused. I3. As
//! for [`crate::RemotePolicy`], the key never leaves, and every wait ends.
//!
//! Units: nats, at temperature 1, where log-probabilities before and after temperature are the same.
//!
//! Source: the completions of OpenAI with `echo`, as vLLM 0.15 has them (`CompletionRequest`, `CompletionLogProbs`); ids as a prompt
//! are in both. Deviations: none.
//!
//! Errors: [`ScoreError`]. Cancellation: dropping the future closes the connection of its request and frees its place.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::RemoteSpec;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::{Instant, sleep};

use crate::backoff;
use crate::exchange::{Server, Until};
use crate::pace::Pace;
use crate::policy::{RemoteError, server_of};
use crate::secret::Secret;
use crate::trouble::Trouble;

/// Maximum excess of a log-probability over 0 by rounding.
const SLACK: f64 = 1e-3;

/// Texts of tokens by their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// `None` for an id that is not a token, or whose bytes are not text by themselves.
    pub texts: Vec<Option<String>>,
}

/// Error of a scoring request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ScoreError {
    /// Name of the fault: `server-unreachable`, `key-refused`, `other-tokenizer`.
    pub code: &'static str,
    /// Description of the problem.
    pub message: String,
    /// Whether the problem may be temporary.
    pub may_pass: bool,
    /// Whether the server sent any data.
    pub heard: bool,
}

/// Scores tokens with a server.
#[derive(Debug)]
pub struct RemoteScorer {
    settings: RemoteSpec,
    server: Server,
    pace: Pace,
    vocabulary: Arc<Vocabulary>,
}

impl RemoteScorer {
    /// Creates a scorer; sends no request.
    ///
    /// # Errors
    /// [`RemoteError`] if no request can be built from the settings.
    pub fn new(
        settings: RemoteSpec,
        key: Option<Secret>,
        vocabulary: Arc<Vocabulary>,
    ) -> Result<Self, RemoteError> {
        let server = server_of(&settings, key)?;
        let pace = Pace::new(settings.concurrency);
        Ok(Self { settings, server, pace, vocabulary })
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &RemoteSpec {
        &self.settings
    }

    /// The log-probability of each token given those before it; one fewer than ids, because nothing predicts the first.
    /// Retries until `deadline` where that can help. `seed` spreads the retries.
    ///
    /// # Errors
    /// [`ScoreError`].
    pub async fn score(&self, ids: &[u32], seed: u64, deadline: Instant) -> Result<Vec<f32>, ScoreError> {
        let body = self.body(ids);
        let mut tries = 0;
        // Other requests may hold the places for so long that this one has not been sent yet.
        let mut heard = false;
        loop {
            let trouble = match self.try_once(&body, ids, seed, tries, deadline).await {
                Ok(logprobs) => return Ok(logprobs),
                Err(trouble) => trouble,
            };
            heard |= !["server-unreachable", "server-silent", "stream-stalled", "no-place"]
                .contains(&trouble.code);
            tries += 1;
            trouble.retry_after.inspect(|wait| self.pace.hold(*wait));
            let wait = match trouble.retry_after {
                Some(_) => Duration::ZERO,
                None => backoff::wait(seed, tries),
            };
            if tries >= trouble.tries(self.settings.tries) || Instant::now() + wait >= deadline {
                let may_pass = trouble.tries(2) > 1;
                return Err(ScoreError { code: trouble.code, message: trouble.message, may_pass, heard });
            }
            sleep(wait).await; // timer: a pause between requests is what back-off is
        }
    }

    async fn try_once(
        &self,
        body: &str,
        ids: &[u32],
        seed: u64,
        tries: u32,
        deadline: Instant,
    ) -> Result<Vec<f32>, Trouble> {
        let _place = self.pace.enter(deadline, backoff::spread(seed, tries)).await?;
        let text =
            self.server.post("completions", body.to_owned().into(), Until { give_up: deadline }).await?;
        let answer: Value =
            serde_json::from_str(&text).map_err(|_| Trouble::garbled("the server's answer is no JSON"))?;
        read(&answer, ids, &self.vocabulary)
    }

    fn body(&self, ids: &[u32]) -> String {
        let mut body = self.settings.body.clone();
        let fields = [
            ("model", json!(self.settings.model)),
            ("prompt", json!(ids)),
            ("max_tokens", json!(1)),
            ("echo", json!(true)),
            ("logprobs", json!(1)),
            ("temperature", json!(1.0)),
        ];
        body.extend(fields.map(|(key, value)| (key.to_owned(), value)));
        Value::Object(body).to_string()
    }
}

/// The log-probabilities in a response (I1, I2).
fn read(answer: &Value, ids: &[u32], vocabulary: &Vocabulary) -> Result<Vec<f32>, Trouble> {
    let logprobs = &answer["choices"][0]["logprobs"];
    let (Some(tokens), Some(said)) = (logprobs["tokens"].as_array(), logprobs["token_logprobs"].as_array())
    else {
        let message = "the server's answer has no `tokens` and `token_logprobs` of the prompt: it does not echo what it was sent, so \
                       that neither its tokens can be checked nor anything be learned from it";
        return Err(Trouble::permanent("no-echo", message));
    };
    // The new token may be among them.
    if tokens.len() != said.len() || !(ids.len()..=ids.len() + 1).contains(&tokens.len()) {
        let message = format!(
            "the server was sent {} tokens, and its answer has {} with {} log-probabilities",
            ids.len(),
            tokens.len(),
            said.len()
        );
        // Another tokenizer would produce a different number of tokens.
        return Err(Trouble::permanent("no-echo", message));
    }
    for (&id, token) in ids.iter().zip(tokens) {
        let Some(token) = token.as_str() else {
            return Err(Trouble::garbled("a token of the answer is no text"));
        };
        if let Some(Some(text)) = vocabulary.texts.get(id as usize)
            && text != token
        {
            let message = format!("token {id} is {text:?} to the policy, and {token:?} to the server");
            return Err(Trouble::permanent("other-tokenizer", message));
        }
    }
    let number = |(place, value): (usize, &Value)| match value.as_f64() {
        Some(logprob) if logprob.is_finite() && logprob <= SLACK => Ok(logprob as f32),
        _ => Err(Trouble::garbled(format!("the log-probability of token {place} is {value}"))),
    };
    said.iter().enumerate().take(ids.len()).skip(1).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vocabulary {
        let text = |text: &str| Some(text.to_owned());
        Vocabulary { texts: vec![text("a"), text(" b"), None, text("<|end|>")] }
    }

    fn check(tokens: &Value, logprobs: &Value, expected: Result<&[f32], (&str, &str)>) {
        let answer = json!({"choices": [{"logprobs": {"tokens": tokens, "token_logprobs": logprobs}}]});
        let got = read(&answer, &[0, 1, 2, 3], &vocabulary());
        match (got, expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got, expected),
            (Err(got), Err((code, part))) => {
                assert_eq!(got.code, code, "{got}");
                assert!(got.message.contains(part), "{got}");
            }
            (got, expected) => panic!("{got:?}, not {expected:?}"),
        }
    }

    #[test]
    fn an_answer_is_of_the_tokens_that_were_sent_or_none() {
        let (tokens, logprobs) = (json!(["a", " b", "\u{fffd}", "<|end|>"]), json!([null, -1, -2.5, 0.0]));
        check(&tokens, &logprobs, Ok(&[-1.0, -2.5, 0.0]));
        let longer = json!(["a", " b", "", "<|end|>", "new"]);
        check(&longer, &json!([null, -1, -2.5, 0.0, -9]), Ok(&[-1.0, -2.5, 0.0]));
        let other = json!(["a", "b", "?", "<|end|>"]);
        let told = "token 1 is \" b\" to the policy, and \"b\" to the server";
        check(&other, &logprobs, Err(("other-tokenizer", told)));
        check(
            &json!(["a", " b"]),
            &json!([null, -1]),
            Err(("no-echo", "sent 4 tokens, and its answer has 2")),
        );
        check(&json!(null), &json!(null), Err(("no-echo", "does not echo")));
        check(&json!([1, 2, 3, 4]), &logprobs, Err(("reply-garbled", "no text")));
        for bad in [json!(null), json!(0.5), json!("-1")] {
            let told = format!("the log-probability of token 2 is {bad}");
            check(&tokens, &json!([null, -1, bad, 0.0]), Err(("reply-garbled", &told)));
        }
    }
}
