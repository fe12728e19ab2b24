//! A streamed completion, passed on chunk by chunk.
//!
//! I1. Calls are passed on complete, in order, at the end. I2. Ids and log-probabilities are passed on at the end, all or
//! none: only then is it known whether the server sent one for every token. I3. Only the first choice counts. I4. A
//! response without a finish reason is complete only if the server sent `[DONE]`. I5. The key is redacted even if it is
//! split between chunks; tokens that spell it are not passed on.

use std::sync::Arc;

use clawrl_core::{FinishReason, SampledTokens, TokenSource};
use serde_json::{Map, Value, json};

use crate::event_json::EventJson;
use crate::finish::finish_of;
use crate::openai_reply::{check_end, no_error, whole_answer};
use crate::partial_calls::{PartialCall, PartialCalls};
use crate::reply::{Figure, Heard, check_size};
use crate::secret::{Secret, redacted};
use crate::strainer::Strainer;
use crate::tokens::TokenCollector;
use crate::trouble::Trouble;

/// A piece of a response.
#[derive(Debug, Clone, PartialEq)]
pub enum RemotePiece {
    /// Text, reasoning or calls.
    Said(Said),
    /// The tokens of the whole response, if they are exact; sent before the end.
    Sampled(SampledTokens),
    /// The end; the last piece.
    End(RemoteEnd),
}

/// Contents of a piece.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    /// Text.
    pub text: String,
    /// Reasoning.
    pub reasoning: String,
    /// Complete calls: name, and arguments as the server wrote them.
    pub calls: Vec<(String, String)>,
    /// Log-probability entries in the chat format.
    pub logprobs: Vec<Value>,
}

/// End of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteEnd {
    /// Why.
    pub finish: FinishReason,
    /// Tokens of prompt and response as the server counts them, if it counts both.
    pub usage: Option<(u64, u64)>,
}

/// Converts events to pieces.
#[derive(Debug)]
pub(crate) struct OpenaiStream {
    json: EventJson,
    calls: PartialCalls,
    finish: Option<String>,
    input: Figure,
    output: Figure,
    tokens: Option<(TokenSource, TokenCollector)>,
    prompt_ids: Option<Arc<[u32]>>,
    text: Strainer,
    reasoning: Strainer,
    /// Log-probabilities of tokens whose text may be held back (I5).
    logprobs: Vec<Value>,
    key: Option<Secret>,
    written_bytes: usize,
    choices_seen: bool,
    done: bool,
}

impl OpenaiStream {
    pub(crate) fn new(tokens: Option<TokenSource>, key: Option<Secret>) -> Self {
        Self {
            json: EventJson::default(),
            calls: PartialCalls::default(),
            finish: None,
            input: Figure::Missing,
            output: Figure::Missing,
            tokens: tokens.map(|source| (source, TokenCollector::default())),
            prompt_ids: None,
            text: Strainer::new(key.clone()),
            reasoning: Strainer::new(key.clone()),
            logprobs: Vec::new(),
            key,
            written_bytes: 0,
            choices_seen: false,
            done: false,
        }
    }

    /// Token ids of the prompt, if the server sent them.
    pub(crate) fn prompt_ids(&self) -> Option<Arc<[u32]>> {
        self.prompt_ids.clone()
    }

    /// Takes an event.
    pub(crate) fn event(&mut self, data: &str) -> Result<(Heard, Option<Said>), Trouble> {
        match data.trim() {
            "" => return Ok((Heard::KeepAlive, None)),
            "[DONE]" => {
                self.done = true;
                return Ok((Heard::End, None));
            }
            _ => {}
        }
        let before = self.extent();
        let event = self.json.read(data);
        let said = self.object(&no_error(event, data)?)?;
        let heard = if self.extent() == before { Heard::KeepAlive } else { Heard::Part };
        Ok((heard, said))
    }

    /// Reads a complete response.
    pub(crate) fn complete(&mut self, text: &str) -> Result<Option<Said>, Trouble> {
        let said = self.object(&whole_answer(text)?)?;
        self.done = true;
        Ok(said)
    }

    /// The remaining pieces at the end of the stream, if the response is complete (I1, I2, I4).
    pub(crate) fn end(mut self) -> Result<Vec<RemotePiece>, Trouble> {
        check_end(self.done, self.finish.as_deref(), self.choices_seen)?;
        let spelled = self.has_found();
        let key = self.key;
        let call = |PartialCall { name, arguments, .. }: PartialCall| {
            let is_nothing = matches!(arguments.trim(), "" | "null");
            let arguments = if is_nothing { "{}".to_owned() } else { arguments };
            let without = (redacted(key.as_ref(), &name), redacted(key.as_ref(), &arguments));
            let found = without.0 != name || without.1 != arguments;
            (without, found)
        };
        let calls: Vec<((String, String), bool)> = self.calls.all().into_iter().map(call).collect();
        let found = calls.iter().any(|(_, found)| *found);
        let said = Said {
            text: self.text.end(),
            reasoning: self.reasoning.end(),
            calls: calls.into_iter().map(|(call, _)| call).collect(),
            logprobs: if found { Vec::new() } else { self.logprobs },
        };
        let output = self.output;
        let tokens =
            self.tokens.filter(|_| !(found || spelled)).and_then(|(_, collector)| collector.whole(output));
        let usage = match (self.input, self.output) {
            (Figure::Count(input), Figure::Count(output)) => Some((input, output)),
            _ => None,
        };
        let finish = finish_of(self.finish.as_deref());
        let mut pieces: Vec<RemotePiece> = tokens.into_iter().map(RemotePiece::Sampled).collect();
        pieces.extend((said != Said::default()).then_some(RemotePiece::Said(said)));
        pieces.push(RemotePiece::End(RemoteEnd { finish, usage }));
        Ok(pieces)
    }

    /// Progress of the response.
    fn extent(&self) -> impl PartialEq + use<> {
        let tokens = self.tokens.as_ref().map_or(0, |(_, collector)| collector.seen());
        (self.written_bytes, self.calls.len(), tokens, self.finish.is_some(), self.input, self.output)
    }

    fn object(&mut self, object: &Value) -> Result<Option<Said>, Trouble> {
        if let Some(usage) = object.get("usage").filter(|usage| !usage.is_null()) {
            self.input = Figure::of(usage.get("prompt_tokens"));
            self.output = Figure::of(usage.get("completion_tokens"));
        }
        if self.tokens.is_some() && self.prompt_ids.is_none() {
            self.prompt_ids = object.get("prompt_token_ids").and_then(ids);
        }
        let Some(choices) = object.get("choices").and_then(Value::as_array) else {
            return match object {
                Value::Object(_) => Ok(None),
                _ => Err(Trouble::garbled("the server's answer is no JSON object")),
            };
        };
        let mut said = Said::default();
        for choice in choices {
            // I3.
            if choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0 {
                self.choice(choice, &mut said);
            }
        }
        if self.has_found() {
            self.logprobs.clear();
        } else if !self.text.is_holding() && !self.reasoning.is_holding() {
            said.logprobs = std::mem::take(&mut self.logprobs);
        }
        check_size(self.written_bytes, self.calls.len())?;
        Ok((said != Said::default()).then_some(said))
    }

    fn choice(&mut self, choice: &Value, said: &mut Said) {
        self.choices_seen = true;
        if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(finish.to_owned());
        }
        if let Some((source, collector)) = &mut self.tokens {
            collector.take(*source, choice);
            // Some server versions put it into the choice.
            if self.prompt_ids.is_none() {
                self.prompt_ids = choice.get("prompt_token_ids").and_then(ids);
            }
        }
        self.logprobs.extend(choice.get("logprobs").into_iter().flat_map(entries));
        if let Some(text) = choice.get("text").and_then(Value::as_str) {
            self.write(text, said);
        }
        let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) else { return };
        match delta.get("content") {
            Some(Value::String(text)) => self.write(text, said),
            // Text as a list of parts, as in requests.
            Some(Value::Array(parts)) => {
                let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
                texts.for_each(|text| self.write(text, said));
            }
            _ => {}
        }
        if let Some(refusal) = delta.get("refusal").and_then(Value::as_str) {
            self.write(refusal, said);
        }
        for key in ["reasoning_content", "reasoning"] {
            if let Some(text) = delta.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()) {
                // Text held back before reasoning is not the key, since the key does not span both.
                said.text += &self.text.end();
                said.reasoning += &self.reasoning.push(text);
                self.written_bytes += text.len();
                break;
            }
        }
        for piece in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.written_bytes += self.calls.take(piece);
        }
    }

    fn has_found(&self) -> bool {
        self.text.has_found() || self.reasoning.has_found()
    }

    fn write(&mut self, text: &str, said: &mut Said) {
        if text.is_empty() {
            return;
        }
        said.reasoning += &self.reasoning.end();
        said.text += &self.text.push(text);
        self.written_bytes += text.len();
    }
}

fn ids(value: &Value) -> Option<Arc<[u32]>> {
    let ids = value.as_array()?.iter().map(|id| u32::try_from(id.as_u64()?).ok());
    ids.collect::<Option<Vec<u32>>>().filter(|ids| !ids.is_empty()).map(Arc::from)
}

/// The log-probability entries of a choice: unchanged, or converted from the text completion format.
fn entries(logprobs: &Value) -> Vec<Value> {
    if let Some(content) = logprobs.get("content").and_then(Value::as_array) {
        return content.clone();
    }
    let list = |key: &str| logprobs.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let (logprobs, others) = (list("token_logprobs"), list("top_logprobs"));
    let entry = |token: &Value, logprob: Option<&Value>| {
        let bytes = token.as_str().unwrap_or_default().as_bytes();
        json!({"token": token, "logprob": logprob.unwrap_or(&Value::Null), "bytes": bytes})
    };
    let read = |(at, token): (usize, &Value)| {
        let mut read = entry(token, logprobs.get(at));
        let others = others.get(at).and_then(Value::as_object).into_iter().flat_map(Map::iter);
        read["top_logprobs"] = others.map(|(token, logprob)| entry(&json!(token), Some(logprob))).collect();
        read
    };
    list("tokens").iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-very-secret-0001";

    fn read(tokens: Option<TokenSource>, events: &[Value]) -> Result<Vec<RemotePiece>, Trouble> {
        let mut stream = OpenaiStream::new(tokens, Secret::new(KEY));
        let mut pieces = Vec::new();
        for event in events {
            let (_, said) = stream.event(&event.to_string())?;
            pieces.extend(said.map(RemotePiece::Said));
        }
        pieces.extend(stream.end()?);
        Ok(pieces)
    }

    fn delta(delta: Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta}]})
    }

    fn finish(reason: &str) -> Value {
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    }

    fn text(text: &str) -> RemotePiece {
        RemotePiece::Said(Said { text: text.to_owned(), ..Said::default() })
    }

    fn end(finish: FinishReason, usage: Option<(u64, u64)>) -> RemotePiece {
        RemotePiece::End(RemoteEnd { finish, usage })
    }

    fn check(events: &[Value], expected: &[RemotePiece]) {
        assert_eq!(read(None, events).unwrap(), expected, "{events:?}");
    }

    #[test]
    fn text_and_reasoning_pass_as_they_come() {
        let usage = json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}});
        let reasoning =
            |text: &str| RemotePiece::Said(Said { reasoning: text.to_owned(), ..Said::default() });
        check(
            &[
                delta(json!({"role": "assistant", "content": ""})),
                delta(json!({"reasoning_content": "h"})),
                delta(json!({"reasoning": "m"})),
                delta(json!({"content": "l"})),
                delta(json!({"content": "s"})),
                finish("length"),
                usage,
            ],
            &[reasoning("h"), reasoning("m"), text("l"), text("s"), end(FinishReason::Length, Some((9, 3)))],
        );
        let other =
            json!({"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "text": "well"}]});
        check(&[other, finish("stop")], &[text("well"), end(FinishReason::Stop, None)]);
        let filtered = end(FinishReason::ContentFilter, None);
        check(&[delta(json!({"content": "I"})), finish("content_filter")], &[text("I"), filtered]);
    }

    #[test]
    fn i1_calls_come_whole_and_in_order() {
        let piece = |piece: Value| delta(json!({"tool_calls": [piece]}));
        let calls = Said {
            calls: vec![("ls".to_owned(), "{\"a\": 1}".to_owned()), ("pwd".to_owned(), "{}".to_owned())],
            ..Said::default()
        };
        check(
            &[
                piece(json!({"index": 1, "id": "b", "function": {"name": "pwd", "arguments": ""}})),
                piece(json!({"index": 0, "id": "a", "function": {"name": "ls", "arguments": "{\"a\""}})),
                piece(json!({"index": 1, "function": {"arguments": "{}"}})),
                piece(json!({"index": 0, "function": {"arguments": ": 1}"}})),
                finish("tool_calls"),
            ],
            &[RemotePiece::Said(calls), end(FinishReason::Stop, None)],
        );
    }

    #[test]
    fn i2_tokens_are_given_whole_or_not_at_all() {
        let token = |id: u32| {
            json!({"prompt_token_ids": [1, 2], "choices": [{"index": 0, "delta": {"content": "x"}, "token_ids": [id],
                "logprobs": {"content": [{"token": "x", "logprob": -0.5}]}}]})
        };
        let usage =
            |count: u64| json!({"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": count}});
        let sampled = |events: &[Value]| {
            let pieces = read(Some(TokenSource::Vllm), events).unwrap();
            pieces.into_iter().find_map(|piece| match piece {
                RemotePiece::Sampled(tokens) => Some(tokens.ids),
                _ => None,
            })
        };
        assert_eq!(sampled(&[token(5), token(6), finish("stop"), usage(2)]), Some(vec![5, 6]));
        assert_eq!(sampled(&[token(5), finish("stop"), usage(2)]), None);
        let mut stream = OpenaiStream::new(Some(TokenSource::Vllm), None);
        stream.event(&token(5).to_string()).unwrap();
        assert_eq!(stream.prompt_ids().as_deref(), Some(&[1, 2][..]));
        let spelled = delta(json!({"content": KEY}));
        assert_eq!(sampled(&[token(5), spelled, finish("stop"), usage(1)]), None);
    }

    #[test]
    fn i4_whole_or_not_at_all() {
        let said = delta(json!({"content": "ls"}));
        let check = |events: &[Value], code: &str| {
            assert_eq!(read(None, events).unwrap_err().code, code, "{events:?}");
        };
        check(std::slice::from_ref(&said), "stream-cut");
        check(&[said.clone(), finish("abort")], "stream-cut");
        check(&[said.clone(), json!({"error": {"message": "out of memory"}})], "server-error");
        check(&[said, json!({"error": {"message": "prompt is too long"}})], "context-too-long");
        check(&[json!([1])], "reply-garbled");
    }

    #[test]
    fn i5_the_key_passes_in_no_piece() {
        let piece = |text: &str| delta(json!({"content": text}));
        let call = delta(json!({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": KEY}}]}));
        let pieces = read(None, &[piece("a sk-very"), piece("-secret-0001"), call, finish("stop")]).unwrap();
        assert!(!format!("{pieces:?}").contains(KEY), "{pieces:?}");
        assert_eq!(pieces[..2], [text("a "), text("[key]")]);
    }

    #[test]
    fn halves_of_characters_lose_no_answer() {
        let mut stream = OpenaiStream::new(None, Secret::new(KEY));
        let mut said = |text: &str| {
            let event = format!(r#"{{"choices":[{{"delta":{{"content":"{text}"}}}}]}}"#);
            stream.event(&event).unwrap().1.map(|said| said.text)
        };
        assert_eq!(said(r"a\ud83d").as_deref(), Some("a"));
        assert_eq!(said(r"\ude00 \ud83d b").as_deref(), Some("😀 \u{fffd} b"));
    }

    #[test]
    fn log_probabilities_of_texts_are_read() {
        let read =
            entries(&json!({"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": [{"b": -1.0}]}));
        let other = json!({"token": "b", "logprob": -1.0, "bytes": [98]});
        assert_eq!(read, [json!({"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": [other]})]);
    }
}
