//! Responses in OpenAI's format: whole, and in chunks.
//!
//! I1. A chunk has the fields that clients read unconditionally: `object`, `choices`, and `index` in every call.
//!
//! Source: OpenAI's API reference. Deviation: `reasoning_content`, as in DeepSeek and vLLM.

use clawrl_core::openai::call_json;
use clawrl_core::{ReplyPart, Usage};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::choice::Choice;
use super::completion_params::CompletionKind;
use crate::ReplyCall;

/// Fields that all chunks of an answer share.
#[derive(Debug, Clone)]
pub(super) struct ResponseEnvelope {
    pub(super) kind: CompletionKind,
    pub(super) id: String,
    /// Unix time in seconds.
    pub(super) created: i64,
    pub(super) model: String,
    /// The version that answers.
    pub(super) fingerprint: Option<String>,
    pub(super) include_usage: bool,
}

/// A placeholder text, and its JSON. The fields before it in a chunk are ours and do not contain it.
const PLACEHOLDER: &str = "\0";
const PLACEHOLDER_JSON: &str = "\"\\u0000\"";

/// A chunk without its text, written once: most pieces are a single word.
#[derive(Debug)]
pub(super) struct ChunkTemplate {
    all: String,
    /// Position of the text.
    at: usize,
}

impl ChunkTemplate {
    /// The JSON before and after the text.
    pub(super) fn parts(&self) -> (&str, &str) {
        self.all.split_at(self.at)
    }
}

/// A chunk that is written directly, without a tree of values, because there is one for each token. Fields are sorted by name, as in such a
/// tree.
#[derive(Debug, Serialize)]
pub(super) struct Chunk<'a> {
    choices: [ChunkChoice<'a>; 1],
    created: i64,
    id: &'a str,
    model: &'a str,
    object: &'static str,
    system_fingerprint: Option<&'a str>,
    /// Null before the chunk that has the counts, if there will be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ChunkChoice<'a> {
    Chat { delta: Delta<'a>, finish_reason: Option<&'a str>, index: usize, logprobs: Value },
    Text { finish_reason: Option<&'a str>, index: usize, logprobs: Value, text: &'a str },
}

#[derive(Debug, Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[Value; 1]>,
}

impl ResponseEnvelope {
    /// The first chunk of a choice; `None` for text completions.
    pub(super) fn opening(&self, choice: usize) -> Option<Chunk<'_>> {
        let delta = Delta { content: Some(""), role: Some("assistant"), ..Delta::default() };
        (self.kind == CompletionKind::Chat).then(|| self.chunk(choice, delta, None, Value::Null))
    }

    /// A piece of a choice.
    pub(super) fn piece<'a>(
        &'a self,
        choice: usize,
        part: &'a ReplyPart,
        call: Option<(usize, &ReplyCall)>,
        logprobs: Value,
    ) -> Chunk<'a> {
        let delta = match (part, call) {
            (ReplyPart::Reasoning(text), _) => Delta { reasoning_content: Some(text), ..Delta::default() },
            (ReplyPart::Call { .. }, Some((index, call))) => {
                let mut call = reply_call_json(call);
                call["index"] = index.into();
                Delta { tool_calls: Some([call]), ..Delta::default() }
            }
            (ReplyPart::Text(text), _) => Delta { content: Some(text), ..Delta::default() },
            (ReplyPart::Call { .. }, None) => Delta::default(),
        };
        self.chunk(choice, delta, None, logprobs)
    }

    /// The JSON around a piece that is only text.
    pub(super) fn text_template(&self, choice: usize) -> ChunkTemplate {
        let text = ReplyPart::Text(PLACEHOLDER.to_owned());
        // Serialising strings and numbers cannot fail.
        let chunk = serde_json::to_string(&self.piece(choice, &text, None, Value::Null)).unwrap_or_default();
        let (before, behind) = chunk.split_once(PLACEHOLDER_JSON).unwrap_or_default();
        ChunkTemplate { all: format!("{before}{behind}"), at: before.len() }
    }

    /// The last chunk of a choice, with log-probabilities of tokens without text.
    pub(super) fn finish<'a>(&'a self, choice: usize, reason: &'a str, logprobs: Value) -> Chunk<'a> {
        self.chunk(choice, Delta::default(), Some(reason), logprobs)
    }

    /// The chunk after the last one, with token counts.
    pub(super) fn usage(&self, usage: &Usage) -> Option<Value> {
        let chunk = || {
            let mut chunk = self.envelope("chat.completion.chunk");
            chunk.insert("choices".to_owned(), json!([]));
            chunk.insert("usage".to_owned(), usage_json(usage));
            Value::Object(chunk)
        };
        self.include_usage.then(chunk)
    }

    /// A whole answer.
    pub(super) fn whole<'a>(&self, choices: impl Iterator<Item = &'a Choice>, usage: &Usage) -> Value {
        let mut answer = self.envelope("chat.completion");
        let choices: Vec<Value> = choices.enumerate().map(|(at, choice)| self.choice(at, choice)).collect();
        answer.insert("choices".to_owned(), choices.into());
        answer.insert("usage".to_owned(), usage_json(usage));
        Value::Object(answer)
    }

    /// Log-probabilities in the format of this kind.
    pub(super) fn logprobs(&self, entries: Vec<Value>) -> Value {
        if self.kind == CompletionKind::Chat {
            return json!({"content": entries, "refusal": null});
        }
        let column = |name: &str| -> Vec<Value> { entries.iter().map(|entry| entry[name].clone()).collect() };
        let top: Vec<Value> = entries
            .iter()
            .map(|entry| {
                let others = entry["top_logprobs"].as_array().into_iter().flatten();
                let pair = |other: &Value| {
                    (other["token"].as_str().unwrap_or_default().to_owned(), other["logprob"].clone())
                };
                Value::Object(others.map(pair).collect())
            })
            .collect();
        json!({"tokens": column("token"), "token_logprobs": column("logprob"), "top_logprobs": top})
    }

    fn choice(&self, index: usize, choice: &Choice) -> Value {
        let logprobs = choice.logprobs().map_or(Value::Null, |entries| self.logprobs(entries));
        let reason = choice.finish_reason();
        if self.kind == CompletionKind::Text {
            return json!({"index": index, "text": choice.text(), "logprobs": logprobs, "finish_reason": reason});
        }
        let has_calls = !choice.calls().is_empty();
        let content = (!has_calls || !choice.text().is_empty()).then(|| choice.text());
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if !choice.reasoning().is_empty() {
            message["reasoning_content"] = choice.reasoning().into();
        }
        if has_calls {
            message["tool_calls"] = choice.calls().iter().map(reply_call_json).collect();
        }
        json!({"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason})
    }

    fn chunk<'a>(
        &'a self,
        index: usize,
        delta: Delta<'a>,
        finish_reason: Option<&'a str>,
        logprobs: Value,
    ) -> Chunk<'a> {
        let choice = match self.kind {
            CompletionKind::Chat => ChunkChoice::Chat { delta, finish_reason, index, logprobs },
            CompletionKind::Text => {
                let text = delta.content.unwrap_or_default();
                ChunkChoice::Text { finish_reason, index, logprobs, text }
            }
        };
        Chunk {
            choices: [choice],
            created: self.created,
            id: &self.id,
            model: &self.model,
            object: self.object("chat.completion.chunk"),
            system_fingerprint: self.fingerprint.as_deref(),
            usage: self.include_usage.then_some(Value::Null),
        }
    }

    fn object(&self, of_chat: &'static str) -> &'static str {
        if self.kind == CompletionKind::Text { "text_completion" } else { of_chat }
    }

    fn envelope(&self, object: &'static str) -> Map<String, Value> {
        let fields = [
            ("id", self.id.as_str().into()),
            ("object", self.object(object).into()),
            ("created", self.created.into()),
            ("model", self.model.as_str().into()),
            ("system_fingerprint", self.fingerprint.clone().into()),
        ];
        fields.map(|(name, value): (_, Value)| (name.to_owned(), value)).into_iter().collect()
    }
}

fn reply_call_json(call: &ReplyCall) -> Value {
    call_json(&call.id, &call.name, &call.arguments)
}

fn usage_json(usage: &Usage) -> Value {
    let Usage { input_tokens, output_tokens, .. } = usage;
    let total = input_tokens.saturating_add(*output_tokens);
    json!({"prompt_tokens": input_tokens, "completion_tokens": output_tokens, "total_tokens": total})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The JSON of `piece`.
    fn check(
        kind: CompletionKind,
        include_usage: bool,
        piece: fn(&ResponseEnvelope) -> Chunk<'_>,
        expected: &str,
    ) {
        let envelope = ResponseEnvelope {
            kind,
            id: "x-1".to_owned(),
            created: 7,
            model: "policy".to_owned(),
            fingerprint: Some("v2".to_owned()),
            include_usage,
        };
        assert_eq!(serde_json::to_string(&piece(&envelope)).unwrap(), expected);
    }

    #[test]
    fn i1_chunks_have_required_fields() {
        check(
            CompletionKind::Chat,
            false,
            |envelope| envelope.opening(0).unwrap(),
            r#"{"choices":[{"delta":{"content":"","role":"assistant"},"finish_reason":null,"index":0,"logprobs":null}],"created":7,"id":"x-1","model":"policy","object":"chat.completion.chunk","system_fingerprint":"v2"}"#,
        );
        check(
            CompletionKind::Chat,
            true,
            |envelope| envelope.finish(1, "stop", Value::Null),
            r#"{"choices":[{"delta":{},"finish_reason":"stop","index":1,"logprobs":null}],"created":7,"id":"x-1","model":"policy","object":"chat.completion.chunk","system_fingerprint":"v2","usage":null}"#,
        );
        check(
            CompletionKind::Text,
            false,
            |envelope| envelope.finish(0, "length", json!({"tokens": []})),
            r#"{"choices":[{"finish_reason":"length","index":0,"logprobs":{"tokens":[]},"text":""}],"created":7,"id":"x-1","model":"policy","object":"text_completion","system_fingerprint":"v2"}"#,
        );
    }

    #[test]
    fn text_template_equals_a_whole_chunk() {
        for (kind, include_usage) in
            [(CompletionKind::Chat, false), (CompletionKind::Chat, true), (CompletionKind::Text, false)]
        {
            let envelope = ResponseEnvelope {
                kind,
                id: "x\0".to_owned(),
                created: 7,
                model: PLACEHOLDER.to_owned(),
                fingerprint: Some(PLACEHOLDER.to_owned()),
                include_usage,
            };
            for text in ["", "a \"b\"\n\u{e9}", PLACEHOLDER] {
                let template = envelope.text_template(3);
                let (before, behind) = template.parts();
                let written = format!("{before}{}{behind}", serde_json::to_string(text).unwrap());
                let part = ReplyPart::Text(text.to_owned());
                let expected = serde_json::to_string(&envelope.piece(3, &part, None, Value::Null)).unwrap();
                assert_eq!(written, expected);
            }
        }
    }

    #[test]
    fn piece_puts_parts_into_their_fields() {
        let envelope = ResponseEnvelope {
            kind: CompletionKind::Chat,
            id: String::new(),
            created: 0,
            model: String::new(),
            fingerprint: None,
            include_usage: false,
        };
        let delta = |part: ReplyPart, call: Option<(usize, &ReplyCall)>| {
            let chunk = serde_json::to_value(envelope.piece(0, &part, call, Value::Null)).unwrap();
            chunk["choices"][0]["delta"].clone()
        };
        assert_eq!(delta(ReplyPart::Text("a\"".to_owned()), None), json!({"content": "a\""}));
        assert_eq!(delta(ReplyPart::Reasoning("b".to_owned()), None), json!({"reasoning_content": "b"}));
        let part = ReplyPart::Call { name: "ls".to_owned(), arguments: "{}".to_owned() };
        let call = ReplyCall { id: "call1".to_owned(), name: "ls".to_owned(), arguments: "{}".to_owned() };
        let function = json!({"name": "ls", "arguments": "{}"});
        assert_eq!(
            delta(part, Some((3, &call))),
            json!({"tool_calls": [{"id": "call1", "type": "function", "function": function, "index": 3}]})
        );
    }
}
