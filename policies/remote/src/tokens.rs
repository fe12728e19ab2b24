//! Exact tokens, from servers that report them.
//!
//! I1. The tokens are all or none: each has an id and a finite log-probability, and their number is the server's count. A
//! list without the stop token of the reply is incomplete.
//!
//! Log-probabilities are the server's, at temperature 1 and over the whole vocabulary: the settings allow no others, see
//! `exact_tokens` in policy files. The version of the weights is not known and is 0.

use clawrl_core::{SampledTokens, TokenSource};
use serde_json::{Map, Value, json};

use crate::reply::Figure;

/// A small excess over 0 is rounding.
const ROUNDING: f64 = 1e-3;

/// Adds the request fields for exact tokens.
pub(crate) fn ask(source: TokenSource, body: &mut Map<String, Value>) {
    body.insert("logprobs".to_owned(), json!(true));
    match source {
        TokenSource::Vllm => {
            body.insert("return_token_ids".to_owned(), json!(true));
        }
        TokenSource::Sglang => {
            body.insert("return_meta_info".to_owned(), json!(true));
        }
    }
}

/// Collects ids and log-probabilities.
#[derive(Debug, Clone, Default)]
pub(crate) struct TokenCollector {
    ids: Vec<u32>,
    logprobs: Vec<f32>,
    broken: bool,
}

impl TokenCollector {
    /// Reads the tokens of a choice, from one chunk or a complete response.
    pub(crate) fn take(&mut self, source: TokenSource, choice: &Value) {
        match source {
            TokenSource::Sglang => {
                let pairs = choice.pointer("/meta_info/output_token_logprobs").and_then(Value::as_array);
                for pair in pairs.into_iter().flatten() {
                    self.logprob(pair.get(0));
                    self.id(pair.get(1));
                }
            }
            TokenSource::Vllm => {
                let entries = choice.pointer("/logprobs/content").and_then(Value::as_array);
                entries.into_iter().flatten().for_each(|entry| self.logprob(entry.get("logprob")));
                let ids = choice.get("token_ids").and_then(Value::as_array);
                ids.into_iter().flatten().for_each(|id| self.id(Some(id)));
            }
        }
    }

    /// Number of values read.
    pub(crate) fn seen(&self) -> usize {
        self.ids.len() + self.logprobs.len()
    }

    fn id(&mut self, value: Option<&Value>) {
        match value.and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok()) {
            Some(id) => self.ids.push(id),
            None => self.broken = true,
        }
    }

    fn logprob(&mut self, value: Option<&Value>) {
        match value.and_then(Value::as_f64).filter(|logprob| logprob.is_finite() && *logprob <= ROUNDING) {
            Some(logprob) => self.logprobs.push(logprob.min(0.0) as f32),
            None => self.broken = true,
        }
    }

    /// The tokens (I1). `counted` is the server's count.
    pub(crate) fn whole(self, counted: Figure) -> Option<SampledTokens> {
        let all = match counted {
            Figure::Count(count) => count == self.ids.len() as u64,
            Figure::Missing | Figure::Nonsense => true,
        };
        let whole = all && !self.broken && !self.ids.is_empty() && self.ids.len() == self.logprobs.len();
        whole.then(|| SampledTokens { ids: self.ids, logprobs: self.logprobs, versions: vec![(0, 0)] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: TokenSource, choices: &[Value], expected: Option<(&[u32], &[f32])>) {
        let mut collector = TokenCollector::default();
        choices.iter().for_each(|choice| collector.take(source, choice));
        let got = collector.whole(Figure::Missing);
        let got = got.as_ref().map(|tokens| (tokens.ids.as_slice(), tokens.logprobs.as_slice()));
        assert_eq!(got, expected, "{choices:?}");
    }

    #[test]
    fn each_server_has_its_form() {
        let content = json!({"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1.0}]});
        let vllm = json!({"token_ids": [5, 6], "logprobs": content});
        check(TokenSource::Vllm, &[vllm], Some((&[5, 6], &[-0.5, -1.0])));
        let sglang = json!({"meta_info": {"output_token_logprobs": [[-0.5, 5, "a"], [-1.0, 6, null]]}});
        check(TokenSource::Sglang, &[sglang], Some((&[5, 6], &[-0.5, -1.0])));
    }

    #[test]
    fn i1_as_many_as_the_server_counts() {
        let given = |count| {
            let mut collector = TokenCollector::default();
            let content = json!({"content": [{"logprob": -0.5}]});
            collector.take(TokenSource::Vllm, &json!({"token_ids": [5], "logprobs": content}));
            collector.whole(Figure::Count(count)).is_some()
        };
        assert!(given(1) && !given(2) && !given(0));
    }

    #[test]
    fn i1_whole_or_not_at_all() {
        check(TokenSource::Vllm, &[json!({})], None);
        check(TokenSource::Vllm, &[json!({"token_ids": [5]})], None);
        let logprobs =
            |logprob: Value| json!({"token_ids": [5], "logprobs": {"content": [{"logprob": logprob}]}});
        check(TokenSource::Vllm, &[logprobs(json!(-1.0))], Some((&[5], &[-1.0])));
        check(TokenSource::Vllm, &[logprobs(json!(null))], None);
        check(TokenSource::Vllm, &[logprobs(json!(3.0))], None);
        check(
            TokenSource::Vllm,
            &[json!({"token_ids": [-1], "logprobs": {"content": [{"logprob": -1.0}]}})],
            None,
        );
    }
}
