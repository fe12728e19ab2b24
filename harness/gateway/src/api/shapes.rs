//! Answers in OpenAI's shapes: whole, and in chunks.
//!
//! I1. A chunk has what clients look at without asking: `object`, `choices`, and `index` with every call.
//!
//! Source: the reference of OpenAI's API. Deviation: `reasoning_content`, as by DeepSeek and vLLM.

use serde_json::{Map, Value, json};

use super::choice::Choice;
use super::wanted::Form;
use crate::{AnswerPart, ReplyCall, Usage};

/// What all parts of an answer have in common.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) form: Form,
    pub(super) id: String,
    /// Seconds since 1970.
    pub(super) created: i64,
    pub(super) model: String,
    /// Names the version that answers.
    pub(super) fingerprint: Option<String>,
    pub(super) include_usage: bool,
}

impl Shape {
    /// The first chunk of a choice; texts have none.
    pub(super) fn opening(&self, choice: usize) -> Option<Value> {
        let delta = json!({"role": "assistant", "content": ""});
        (self.form == Form::Chat).then(|| self.chunk(self.delta(choice, delta, Value::Null, Value::Null)))
    }

    /// A piece of a choice; nothing where the form has no place for it.
    pub(super) fn piece(
        &self,
        choice: usize,
        part: &AnswerPart,
        call: Option<(usize, &ReplyCall)>,
        logprobs: Value,
    ) -> Value {
        let delta = match (part, call) {
            (AnswerPart::Reasoning(text), _) => json!({"reasoning_content": text}),
            (AnswerPart::Call { .. }, Some((index, call))) => {
                let mut call = call_json(call);
                call["index"] = index.into();
                json!({"tool_calls": [call]})
            }
            (AnswerPart::Text(text), _) => json!({"content": text}),
            (AnswerPart::Call { .. }, None) => json!({}),
        };
        self.chunk(self.delta(choice, delta, logprobs, Value::Null))
    }

    /// The last chunk of a choice, with log-probabilities of tokens that said nothing any more.
    pub(super) fn finish(&self, choice: usize, reason: &str, logprobs: Value) -> Value {
        self.chunk(self.delta(choice, json!({}), logprobs, reason.into()))
    }

    /// The chunk behind the last one.
    pub(super) fn usage(&self, usage: Usage) -> Option<Value> {
        let chunk = || {
            let mut chunk = self.envelope("chat.completion.chunk");
            chunk.insert("choices".to_owned(), json!([]));
            chunk.insert("usage".to_owned(), usage_json(usage));
            Value::Object(chunk)
        };
        self.include_usage.then(chunk)
    }

    /// A whole answer.
    pub(super) fn whole(&self, choices: &[Choice], usage: Usage) -> Value {
        let mut answer = self.envelope("chat.completion");
        let choices: Vec<Value> =
            choices.iter().enumerate().map(|(at, choice)| self.choice(at, choice)).collect();
        answer.insert("choices".to_owned(), choices.into());
        answer.insert("usage".to_owned(), usage_json(usage));
        Value::Object(answer)
    }

    /// Entries of log-probabilities, as the form has them.
    pub(super) fn logprobs(&self, entries: Vec<Value>) -> Value {
        if self.form == Form::Chat {
            return json!({"content": entries, "refusal": null});
        }
        let column = |name: &str| -> Vec<Value> { entries.iter().map(|entry| entry[name].clone()).collect() };
        let most: Vec<Value> = entries
            .iter()
            .map(|entry| {
                let others = entry["top_logprobs"].as_array().into_iter().flatten();
                let pair = |other: &Value| {
                    (other["token"].as_str().unwrap_or_default().to_owned(), other["logprob"].clone())
                };
                Value::Object(others.map(pair).collect())
            })
            .collect();
        json!({"tokens": column("token"), "token_logprobs": column("logprob"), "top_logprobs": most})
    }

    fn choice(&self, index: usize, choice: &Choice) -> Value {
        let logprobs = choice.logprobs().map_or(Value::Null, |entries| self.logprobs(entries));
        let reason = choice.finish_reason();
        if self.form == Form::Text {
            return json!({"index": index, "text": choice.text(), "logprobs": logprobs, "finish_reason": reason});
        }
        let has_calls = !choice.calls().is_empty();
        let content = (!has_calls || !choice.text().is_empty()).then(|| choice.text());
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if !choice.reasoning().is_empty() {
            message["reasoning_content"] = choice.reasoning().into();
        }
        if has_calls {
            message["tool_calls"] = choice.calls().iter().map(call_json).collect();
        }
        json!({"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason})
    }

    fn delta(&self, index: usize, delta: Value, logprobs: Value, finish_reason: Value) -> Value {
        match self.form {
            Form::Chat => {
                json!({"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason})
            }
            Form::Text => {
                let text = delta["content"].as_str().unwrap_or_default();
                json!({"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason})
            }
        }
    }

    fn chunk(&self, choice: Value) -> Value {
        let mut chunk = self.envelope("chat.completion.chunk");
        chunk.insert("choices".to_owned(), json!([choice]));
        if self.include_usage {
            chunk.insert("usage".to_owned(), Value::Null);
        }
        Value::Object(chunk)
    }

    fn envelope(&self, object: &str) -> Map<String, Value> {
        let object = if self.form == Form::Text { "text_completion" } else { object };
        let fields = [
            ("id", self.id.as_str().into()),
            ("object", object.into()),
            ("created", self.created.into()),
            ("model", self.model.as_str().into()),
            ("system_fingerprint", self.fingerprint.clone().into()),
        ];
        fields.map(|(name, value): (_, Value)| (name.to_owned(), value)).into_iter().collect()
    }
}

fn call_json(call: &ReplyCall) -> Value {
    let ReplyCall { id, name, arguments } = call;
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn usage_json(usage: Usage) -> Value {
    let Usage { prompt, completion } = usage;
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}
