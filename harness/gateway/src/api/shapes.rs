//! Answers in OpenAI's shapes: whole, and in chunks.
//!
//! I1. A chunk has what clients look at without asking: `object`, `choices`, and `index` with every call.
//!
//! Source: the reference of OpenAI's API. Deviation: `reasoning_content`, as by DeepSeek and vLLM.

use clawrl_core::ReplyPart;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::choice::Choice;
use super::wanted::Form;
use crate::{ReplyCall, Usage};

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

/// A text that stands for any other, and how it is written. What is before it in a chunk are names and numbers of ours.
const MARK: &str = "\0";
const WRITTEN: &str = "\"\\u0000\"";

/// A chunk without its text. Most pieces are a word: all else is written once.
#[derive(Debug)]
pub(super) struct Around {
    all: String,
    /// Where the text has its place.
    at: usize,
}

impl Around {
    /// What is written before a text, and behind it.
    pub(super) fn parts(&self) -> (&str, &str) {
        self.all.split_at(self.at)
    }
}

/// A piece of a stream, written from where its parts lie: there is one for each token, so no tree of values is made of it. Names are in
/// the order of those that are.
#[derive(Debug, Serialize)]
pub(super) struct Chunk<'a> {
    choices: [ChunkChoice<'a>; 1],
    created: i64,
    id: &'a str,
    model: &'a str,
    object: &'static str,
    system_fingerprint: Option<&'a str>,
    /// Null before the chunk that has it, where one will.
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

impl Shape {
    /// The first chunk of a choice; texts have none.
    pub(super) fn opening(&self, choice: usize) -> Option<Chunk<'_>> {
        let delta = Delta { content: Some(""), role: Some("assistant"), ..Delta::default() };
        (self.form == Form::Chat).then(|| self.chunk(choice, delta, None, Value::Null))
    }

    /// A piece of a choice; nothing where the form has no place for it.
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
                let mut call = call_json(call);
                call["index"] = index.into();
                Delta { tool_calls: Some([call]), ..Delta::default() }
            }
            (ReplyPart::Text(text), _) => Delta { content: Some(text), ..Delta::default() },
            (ReplyPart::Call { .. }, None) => Delta::default(),
        };
        self.chunk(choice, delta, None, logprobs)
    }

    /// What is written before and behind the text of a piece that is nothing but text.
    pub(super) fn around_text(&self, choice: usize) -> Around {
        let text = ReplyPart::Text(MARK.to_owned());
        // Texts and numbers always are JSON.
        let chunk = serde_json::to_string(&self.piece(choice, &text, None, Value::Null)).unwrap_or_default();
        let (before, behind) = chunk.split_once(WRITTEN).unwrap_or_default();
        Around { all: format!("{before}{behind}"), at: before.len() }
    }

    /// The last chunk of a choice, with log-probabilities of tokens that said nothing any more.
    pub(super) fn finish<'a>(&'a self, choice: usize, reason: &'a str, logprobs: Value) -> Chunk<'a> {
        self.chunk(choice, Delta::default(), Some(reason), logprobs)
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
    pub(super) fn whole<'a>(&self, choices: impl Iterator<Item = &'a Choice>, usage: Usage) -> Value {
        let mut answer = self.envelope("chat.completion");
        let choices: Vec<Value> = choices.enumerate().map(|(at, choice)| self.choice(at, choice)).collect();
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

    fn chunk<'a>(
        &'a self,
        index: usize,
        delta: Delta<'a>,
        finish_reason: Option<&'a str>,
        logprobs: Value,
    ) -> Chunk<'a> {
        let choice = match self.form {
            Form::Chat => ChunkChoice::Chat { delta, finish_reason, index, logprobs },
            Form::Text => {
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
        if self.form == Form::Text { "text_completion" } else { of_chat }
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

fn call_json(call: &ReplyCall) -> Value {
    let ReplyCall { id, name, arguments } = call;
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn usage_json(usage: Usage) -> Value {
    let Usage { prompt, completion } = usage;
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent of `piece`, in this form.
    fn check(form: Form, include_usage: bool, piece: fn(&Shape) -> Chunk<'_>, expected: &str) {
        let shape = Shape {
            form,
            id: "x-1".to_owned(),
            created: 7,
            model: "policy".to_owned(),
            fingerprint: Some("v2".to_owned()),
            include_usage,
        };
        assert_eq!(serde_json::to_string(&piece(&shape)).unwrap(), expected);
    }

    #[test]
    fn i1_chunks_have_what_clients_look_at() {
        check(
            Form::Chat,
            false,
            |shape| shape.opening(0).unwrap(),
            r#"{"choices":[{"delta":{"content":"","role":"assistant"},"finish_reason":null,"index":0,"logprobs":null}],"created":7,"id":"x-1","model":"policy","object":"chat.completion.chunk","system_fingerprint":"v2"}"#,
        );
        check(
            Form::Chat,
            true,
            |shape| shape.finish(1, "stop", Value::Null),
            r#"{"choices":[{"delta":{},"finish_reason":"stop","index":1,"logprobs":null}],"created":7,"id":"x-1","model":"policy","object":"chat.completion.chunk","system_fingerprint":"v2","usage":null}"#,
        );
        check(
            Form::Text,
            false,
            |shape| shape.finish(0, "length", json!({"tokens": []})),
            r#"{"choices":[{"finish_reason":"length","index":0,"logprobs":{"tokens":[]},"text":""}],"created":7,"id":"x-1","model":"policy","object":"text_completion","system_fingerprint":"v2"}"#,
        );
    }

    #[test]
    fn a_text_is_the_same_in_what_is_around_it() {
        for (form, include_usage) in [(Form::Chat, false), (Form::Chat, true), (Form::Text, false)] {
            let shape = Shape {
                form,
                id: "x\0".to_owned(),
                created: 7,
                model: MARK.to_owned(),
                fingerprint: Some(MARK.to_owned()),
                include_usage,
            };
            for text in ["", "a \"b\"\n\u{e9}", MARK] {
                let around = shape.around_text(3);
                let (before, behind) = around.parts();
                let written = format!("{before}{}{behind}", serde_json::to_string(text).unwrap());
                let part = ReplyPart::Text(text.to_owned());
                let expected = serde_json::to_string(&shape.piece(3, &part, None, Value::Null)).unwrap();
                assert_eq!(written, expected);
            }
        }
    }

    #[test]
    fn parts_have_their_places() {
        let shape = Shape {
            form: Form::Chat,
            id: String::new(),
            created: 0,
            model: String::new(),
            fingerprint: None,
            include_usage: false,
        };
        let delta = |part: ReplyPart, call: Option<(usize, &ReplyCall)>| {
            let chunk = serde_json::to_value(shape.piece(0, &part, call, Value::Null)).unwrap();
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
