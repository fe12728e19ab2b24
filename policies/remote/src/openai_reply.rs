//! Reads a chat completion, complete or streamed, into a reply.
//!
//! I1. [`PartialCalls`] assembles calls. I2. Only the first choice counts. I3. A reply without a finish reason is complete
//! only if the server sent `[DONE]`. I4. An empty chunk is a keep-alive and not part of the reply: proxies send them.
//!
//! Separate reasoning is counted and left out, because messages have no field for it.

use clawrl_core::{FinishReason, TokenSource, read_json};
use serde_json::Value;

use crate::event_json::EventJson;
use crate::finish::{check_finish, finish_of};
use crate::partial_calls::PartialCalls;
use crate::reply::{Figure, Heard, Reply, Reported, check_size, tool_call};
use crate::server_text::message_in;
use crate::status::{broken_off, is_error};
use crate::tokens::TokenCollector;
use crate::trouble::Trouble;

/// Assembles a reply from chunks.
#[derive(Debug, Default)]
pub(crate) struct OpenaiReply {
    json: EventJson,
    text: String,
    calls: PartialCalls,
    finish: Option<String>,
    reported: Reported,
    tokens: Option<(TokenSource, TokenCollector)>,
    written_bytes: usize,
    reasoned: bool,
    refused: bool,
    choices_seen: bool,
    done: bool,
}

impl OpenaiReply {
    pub(crate) fn new(tokens: Option<TokenSource>) -> Self {
        Self { tokens: tokens.map(|source| (source, TokenCollector::default())), ..Self::default() }
    }

    /// Reads one event of a stream.
    pub(crate) fn event(&mut self, data: &str) -> Result<Heard, Trouble> {
        match data.trim() {
            "" => return Ok(Heard::KeepAlive),
            "[DONE]" => {
                self.done = true;
                return Ok(Heard::End);
            }
            _ => {}
        }
        let before = self.extent();
        let event = self.json.read(data);
        self.object(&no_error(event, data)?)?;
        Ok(if self.extent() == before { Heard::KeepAlive } else { Heard::Part })
    }

    /// Progress of the reply, to detect empty chunks (I4).
    fn extent(&self) -> impl PartialEq + use<> {
        let tokens = self.tokens.as_ref().map_or(0, |(_, collector)| collector.seen());
        (self.written_bytes, self.calls.len(), tokens, self.finish.is_some(), self.reported.clone())
    }

    /// Reads a complete response.
    pub(crate) fn complete(&mut self, text: &str) -> Result<(), Trouble> {
        self.object(&whole_answer(text)?)?;
        self.done = true;
        Ok(())
    }

    fn object(&mut self, object: &Value) -> Result<(), Trouble> {
        if let Some(usage) = object.get("usage").filter(|usage| !usage.is_null()) {
            let cached = usage.pointer("/prompt_tokens_details/cached_tokens");
            self.reported = Reported {
                input: Figure::of(usage.get("prompt_tokens")),
                cached: Figure::of(cached),
                output: Figure::of(usage.get("completion_tokens")),
            };
        }
        let Some(choices) = object.get("choices").and_then(Value::as_array) else {
            return match object {
                Value::Object(_) => Ok(()),
                _ => Err(Trouble::garbled("the server's answer is no JSON object")),
            };
        };
        for choice in choices {
            // I2.
            if choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0 {
                self.choice(choice)?;
            }
        }
        Ok(())
    }

    fn choice(&mut self, choice: &Value) -> Result<(), Trouble> {
        self.choices_seen = true;
        if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(finish.to_owned());
        }
        if let Some((source, collector)) = &mut self.tokens {
            collector.take(*source, choice);
        }
        let Some(said) = choice.get("delta").or_else(|| choice.get("message")) else { return Ok(()) };
        match said.get("content") {
            Some(Value::String(text)) => self.write(text),
            // Text as a list of parts, as in requests.
            Some(Value::Array(parts)) => {
                parts.iter().filter_map(|part| part.get("text")?.as_str()).for_each(|text| self.write(text));
            }
            _ => {}
        }
        if let Some(refusal) = said.get("refusal").and_then(Value::as_str) {
            self.refused = true;
            self.write(refusal);
        }
        // vLLM before 0.12, SGLang, llama.cpp and DeepSeek use the first name; Ollama and newer vLLM use the second.
        for key in ["reasoning_content", "reasoning"] {
            if let Some(text) = said.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()) {
                self.reasoned = true;
                self.written_bytes += text.len();
                break;
            }
        }
        for piece in said.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.written_bytes += self.calls.take(piece);
            check_size(self.written_bytes, self.calls.len())?;
        }
        check_size(self.written_bytes, self.calls.len())
    }

    fn write(&mut self, text: &str) {
        self.text.push_str(text);
        self.written_bytes += text.len();
    }

    /// The reply, if it is complete.
    pub(crate) fn whole(self, turn: u32) -> Result<Reply, Trouble> {
        check_end(self.done, self.finish.as_deref(), self.choices_seen)?;
        let mut notes = Vec::new();
        let mut note = |is: bool, note| is.then(|| notes.push(note));
        note(!self.done, "no-done");
        note(self.finish.is_none(), "no-finish-reason");
        let finish = finish_of(self.finish.as_deref());
        note(finish == FinishReason::ContentFilter, "content-filter");
        note(self.refused, "refusal");
        note(self.reasoned, "reasoning-left-out");
        let asked_for_tokens = self.tokens.is_some();
        let counted = self.reported.output;
        let tokens = self.tokens.and_then(|(_, collector)| collector.whole(counted));
        note(asked_for_tokens && tokens.is_none(), "tokens-missing");
        let calls = self.calls.all().into_iter().enumerate();
        Ok(Reply {
            text: self.text,
            calls: calls.map(|(position, call)| tool_call(call, turn, position)).collect(),
            finish,
            tokens,
            reported: self.reported,
            written_bytes: self.written_bytes,
            notes,
        })
    }
}

/// Checks that a response is complete: by `[DONE]`, or by a finish reason other than giving up.
pub(crate) fn check_end(done: bool, finish: Option<&str>, choices_seen: bool) -> Result<(), Trouble> {
    if !done && finish.is_none() {
        return Err(Trouble::later("stream-cut", "the server's answer breaks off"));
    }
    if !choices_seen {
        return Err(Trouble::garbled("the server's answer has no `choices`"));
    }
    finish.map_or(Ok(()), check_finish)
}

/// The parsed event or response, unless it is an error.
pub(crate) fn no_error(read: serde_json::Result<Value>, text: &str) -> Result<Value, Trouble> {
    let object =
        read.map_err(|error| Trouble::garbled(format!("the server's answer is no JSON: {error}")))?;
    if is_error(&object) { Err(broken_off(text)) } else { Ok(object) }
}

/// Parses a complete response. One with a message but without `choices` is an error with status 200.
pub(crate) fn whole_answer(text: &str) -> Result<Value, Trouble> {
    let object = no_error(read_json(text), text)?;
    if object.get("choices").is_none() && message_in(&object).is_some() {
        return Err(broken_off(text));
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use clawrl_core::ToolCall;
    use serde_json::json;

    use super::*;

    fn read(events: &[&str]) -> Result<Reply, Trouble> {
        let mut reply = OpenaiReply::new(None);
        for event in events {
            reply.event(event)?;
        }
        reply.whole(1)
    }

    fn delta(delta: Value) -> String {
        json!({ "choices": [{ "index": 0, "delta": delta }] }).to_string()
    }

    const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

    fn check_calls(pieces: &[Value], expected: &[(&str, &str, Value)]) {
        let mut events: Vec<String> =
            pieces.iter().map(|piece| delta(json!({ "tool_calls": [piece] }))).collect();
        events.push(STOP.to_owned());
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let expected: Vec<ToolCall> = expected
            .iter()
            .map(|(id, name, arguments)| ToolCall {
                id: (*id).into(),
                ..ToolCall::new(name, arguments.clone())
            })
            .collect();
        assert_eq!(read(&events).unwrap().calls, expected, "{pieces:?}");
    }

    #[test]
    fn i1_calls_come_in_pieces() {
        let run = json!({"command": "ls -l"});
        check_calls(
            &[
                json!({"index": 0, "id": "a", "function": {"name": "run", "arguments": ""}}),
                json!({"index": 0, "function": {"arguments": "{\"command\": \"l"}}),
                json!({"index": 1, "id": "b", "function": {"name": "submit", "arguments": "{}"}}),
                json!({"index": 0, "function": {"arguments": "s -l\"}"}}),
            ],
            &[("a", "run", run.clone()), ("b", "submit", json!({}))],
        );
        // All calls have index 0, as one family of servers sends them.
        check_calls(
            &[
                json!({"index": 0, "id": "a", "function": {"name": "run", "arguments": run.to_string()}}),
                json!({"index": 0, "id": "b", "function": {"name": "submit", "arguments": "{}"}}),
            ],
            &[("a", "run", run.clone()), ("b", "submit", json!({}))],
        );
        // Without index and id, with arguments that are not text.
        check_calls(
            &[
                json!({"function": {"name": "run", "arguments": run.clone()}}),
                json!({"function": {"name": "submit", "arguments": {}}}),
            ],
            &[("call_1_0", "run", run), ("call_1_1", "submit", json!({}))],
        );
    }

    #[test]
    fn text_reasoning_and_usage() {
        let usage = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":-1,"prompt_tokens_details":{"cached_tokens":4}}}"#;
        let thought = delta(json!({"role": "assistant", "reasoning_content": "hm"}));
        let reply = read(&[
            &thought,
            &delta(json!({"content": "l"})),
            &delta(json!({"content": "s"})),
            STOP,
            usage,
            "[DONE]",
        ]);
        let reply = reply.unwrap();
        assert_eq!((reply.text.as_str(), reply.written_bytes), ("ls", 4));
        assert_eq!(reply.notes, ["reasoning-left-out"]);
        let reported =
            Reported { input: Figure::Count(9), cached: Figure::Count(4), output: Figure::Nonsense };
        assert_eq!(reply.reported, reported);
    }

    #[test]
    fn i4_pieces_that_add_nothing_are_no_part_of_it() {
        let mut reply = OpenaiReply::new(Some(TokenSource::Vllm));
        let mut check =
            |event: &str, expected: Heard| assert_eq!(reply.event(event), Ok(expected), "{event}");
        let nothing = [json!({}), json!({"role": "assistant"}), json!({"role": "assistant", "content": ""})];
        nothing.into_iter().for_each(|said| check(&delta(said), Heard::KeepAlive));
        check(&delta(json!({"content": null, "reasoning": "", "tool_calls": []})), Heard::KeepAlive);
        check(r#"{"choices": [], "usage": null}"#, Heard::KeepAlive);
        check("{}", Heard::KeepAlive);
        check("", Heard::KeepAlive);
        check(&delta(json!({"content": "l"})), Heard::Part);
        check(&delta(json!({"content": ""})), Heard::KeepAlive);
        check(&delta(json!({"reasoning": "hm"})), Heard::Part);
        // A token that is half a character has an empty text.
        let token = r#"{"choices":[{"index":0,"delta":{"content":""},"token_ids":[7],"logprobs":{"content":[{"logprob":-0.5}]}}]}"#;
        check(token, Heard::Part);
        check(token, Heard::Part);
        check(&delta(json!({"tool_calls": [{"index": 0, "id": "a"}]})), Heard::Part);
        check(&delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]})), Heard::Part);
        check(STOP, Heard::Part);
        check(r#"{"choices": [], "usage": {"prompt_tokens": 9}}"#, Heard::Part);
        check("[DONE]", Heard::End);
    }

    #[test]
    fn i3_whole_or_not_at_all() {
        let check = |events: &[&str], expected: Result<&[&str], &str>| {
            let got = read(events);
            let got = got.as_ref().map(|reply| reply.notes.as_slice()).map_err(|trouble| trouble.code);
            assert_eq!(got, expected, "{events:?}");
        };
        let said = delta(json!({"content": "ls"}));
        check(&[&said, STOP, "[DONE]"], Ok(&[]));
        check(&[&said, STOP], Ok(&["no-done"]));
        check(&[&said, "[DONE]"], Ok(&["no-finish-reason"]));
        check(&[&said], Err("stream-cut"));
        check(&[], Err("stream-cut"));
        let given_up = STOP.replace("stop", "abort");
        check(&[&said, &given_up, "[DONE]"], Err("stream-cut"));
        check(&["[DONE]"], Err("reply-garbled"));
        check(&["{\"choices\": [{"], Err("reply-garbled"));
        check(&["<html>"], Err("reply-garbled"));
        check(&["[1, 2]"], Err("reply-garbled"));
        check(&[&said, r#"{"error": {"message": "out of memory"}}"#], Err("server-error"));
        check(
            &[&said, r#"{"error": {"message": "Context size has been exceeded."}}"#],
            Err("context-too-long"),
        );
        check(
            &[r#"{"object": "error", "message": "maximum context length is 8", "code": 400}"#],
            Err("context-too-long"),
        );
        check(&[&said, &STOP.replace("stop", "content_filter"), "[DONE]"], Ok(&["content-filter"]));
    }

    #[test]
    fn halves_of_characters_lose_no_reply() {
        let reply = read(&[
            r#"{"choices":[{"delta":{"content":"a\ud83d"}}]}"#,
            r#"{"choices":[{"delta":{"content":"\ude00 b \ud83d c"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"x\": \"\\ud83d\"}"}}]}}]}"#,
            STOP,
        ]);
        let reply = reply.unwrap();
        assert_eq!(reply.text, "a😀 b \u{fffd} c");
        assert_eq!(reply.calls[0].arguments, json!({"x": "\u{fffd}"}));
    }

    #[test]
    fn an_error_that_came_whole_is_told() {
        let check = |text: &str, code: &str| {
            let trouble = OpenaiReply::new(None).complete(text).unwrap_err();
            assert_eq!(trouble.code, code, "{text}: {trouble}");
        };
        check(r#"{"detail": "Input is too long for requested model."}"#, "context-too-long");
        check(r#"{"message": "busy"}"#, "server-error");
        check(r#"[{"error": {"message": "busy"}}]"#, "server-error");
    }

    #[test]
    fn a_whole_answer_is_read_alike() {
        let mut reply = OpenaiReply::new(None);
        reply
            .complete(
                &json!({
                    "choices": [
                        {"index": 1, "message": {"content": "other"}, "finish_reason": "stop"},
                        {"index": 0, "message": {"content": "ls"}, "finish_reason": "length"},
                    ],
                    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
                })
                .to_string(),
            )
            .unwrap();
        let reply = reply.whole(0).unwrap();
        assert_eq!((reply.text.as_str(), reply.finish), ("ls", FinishReason::Length));
        assert_eq!(reply.reported.output, Figure::Count(1));
    }

    #[test]
    fn too_many_calls_are_refused() {
        let mut reply = OpenaiReply::new(None);
        let piece =
            |index: u64| delta(json!({"tool_calls": [{"index": index, "function": {"name": "run"}}]}));
        let refused = (0..200).map(|index| reply.event(&piece(index))).find_map(Result::err);
        assert_eq!(refused.map(|trouble| trouble.code), Some("reply-too-large"));
    }
}
