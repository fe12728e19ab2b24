//! A message of Anthropic's, whole or in events, as a reply.
//!
//! I1. Blocks are put together by their index and stay in its order. I2. A reply without a reason for its end is not
//! whole. I3. Input counts what came from the cache and what went into it. I4. Pings and unknown events keep a connection
//! alive and are no part of the reply.
//!
//! Blocks of thinking are counted and left out; other kinds of block belong to tools of the server, which are not asked
//! for, and are left out with a note.

use std::collections::BTreeMap;

use clawrl_core::FinishReason;
use serde_json::Value;

use crate::reply::{Figure, Heard, PartialCall, Reply, Reported, check_size};
use crate::server_text::{error_names, message_in};
use crate::trouble::Trouble;

/// Takes events, gives the reply.
#[derive(Debug, Default)]
pub(crate) struct AnthropicReply {
    blocks: BTreeMap<u64, Block>,
    stop: Option<String>,
    input: Figure,
    cache_written: Figure,
    cached: Figure,
    output: Figure,
    written_bytes: usize,
    done: bool,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Call(PartialCall),
    Thinking,
    Other,
}

impl AnthropicReply {
    /// Takes one event of a stream.
    pub(crate) fn event(&mut self, data: &str) -> Result<Heard, Trouble> {
        if data.trim().is_empty() {
            return Ok(Heard::KeepAlive);
        }
        let event = parse(data)?;
        let mut heard = Heard::Part;
        match event.get("type").and_then(Value::as_str) {
            Some("message_start") => self.usage(event.pointer("/message/usage")),
            Some("content_block_start") => {
                let index = index(&event)?;
                self.begin(index, event.get("content_block").unwrap_or(&Value::Null));
            }
            Some("content_block_delta") => {
                let index = index(&event)?;
                self.go_on(index, event.get("delta").unwrap_or(&Value::Null))?;
            }
            Some("message_delta") => {
                if let Some(stop) = event.pointer("/delta/stop_reason").and_then(Value::as_str) {
                    self.stop = Some(stop.to_owned());
                }
                self.usage(event.get("usage"));
            }
            Some("content_block_stop") => {}
            Some("message_stop") => {
                self.done = true;
                heard = Heard::End;
            }
            // `ping`, and kinds that are added later, which say nothing that is understood.
            Some(_) => heard = Heard::KeepAlive,
            None => return Err(Trouble::garbled("an event of the server has no `type`")),
        }
        check_size(self.written_bytes, self.blocks.len())?;
        Ok(heard)
    }

    /// Takes an answer that came whole.
    pub(crate) fn complete(&mut self, text: &str) -> Result<(), Trouble> {
        let message = parse(text)?;
        let Some(blocks) = message.get("content").and_then(Value::as_array) else {
            return Err(Trouble::garbled("the server's answer has no `content`"));
        };
        for (index, block) in (0..).zip(blocks) {
            self.begin(index, block);
        }
        self.stop = message.get("stop_reason").and_then(Value::as_str).map(str::to_owned);
        self.usage(message.get("usage"));
        self.done = true;
        check_size(self.written_bytes, self.blocks.len())
    }

    /// Later figures are totals that replace earlier ones.
    fn usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        for (key, figure) in [
            ("input_tokens", &mut self.input),
            ("cache_creation_input_tokens", &mut self.cache_written),
            ("cache_read_input_tokens", &mut self.cached),
            ("output_tokens", &mut self.output),
        ] {
            if let found @ (Figure::Count(_) | Figure::Nonsense) = Figure::of(usage.get(key)) {
                *figure = found;
            }
        }
    }

    fn begin(&mut self, index: u64, block: &Value) {
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let begun = match block.get("type").and_then(Value::as_str) {
            Some("text") => Block::Text(text("text")),
            Some("tool_use") => {
                let input =
                    block.get("input").filter(|input| input.as_object().is_some_and(|map| !map.is_empty()));
                let arguments = input.map(ToString::to_string).unwrap_or_default();
                Block::Call(PartialCall { id: text("id"), name: text("name"), arguments })
            }
            Some("thinking" | "redacted_thinking") => {
                self.written_bytes += text("thinking").len();
                Block::Thinking
            }
            _ => Block::Other,
        };
        self.written_bytes += match &begun {
            Block::Text(text) => text.len(),
            Block::Call(call) => call.name.len() + call.arguments.len(),
            Block::Thinking | Block::Other => 0,
        };
        self.blocks.insert(index, begun);
    }

    fn go_on(&mut self, index: u64, delta: &Value) -> Result<(), Trouble> {
        let text = |key: &str| delta.get(key).and_then(Value::as_str).unwrap_or_default();
        let Some(block) = self.blocks.get_mut(&index) else {
            return Err(Trouble::garbled("the server goes on with a block that it has not begun"));
        };
        let piece = match (delta.get("type").and_then(Value::as_str), block) {
            (Some("text_delta"), Block::Text(known)) => {
                known.push_str(text("text"));
                text("text")
            }
            (Some("input_json_delta"), Block::Call(call)) => {
                call.arguments.push_str(text("partial_json"));
                text("partial_json")
            }
            (Some("thinking_delta"), Block::Thinking) => text("thinking"),
            _ => "",
        };
        self.written_bytes += piece.len();
        Ok(())
    }

    /// The reply, if it is whole.
    pub(crate) fn whole(self, turn: u32) -> Result<Reply, Trouble> {
        let Some(stop) = self.stop else {
            return Err(Trouble::later("stream-cut", "the server's answer breaks off"));
        };
        let mut reply = Reply {
            finish: match stop.as_str() {
                "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
                _ => FinishReason::Stop,
            },
            reported: Reported {
                input: self.input.plus(self.cache_written).plus(self.cached),
                cached: self.cached,
                output: self.output,
            },
            written_bytes: self.written_bytes,
            ..Reply::default()
        };
        let mut note = |is: bool, note| {
            if is && !reply.notes.contains(&note) {
                reply.notes.push(note);
            }
        };
        note(!self.done, "no-done");
        note(stop == "refusal", "refusal");
        for block in self.blocks.into_values() {
            match block {
                Block::Text(text) => reply.text.push_str(&text),
                Block::Call(call) => {
                    let position = reply.calls.len();
                    reply.calls.push(call.whole(turn, position));
                }
                Block::Thinking => note(true, "reasoning-left-out"),
                Block::Other => note(true, "block-left-out"),
            }
        }
        Ok(reply)
    }
}

fn index(event: &Value) -> Result<u64, Trouble> {
    let index = event.get("index").and_then(Value::as_u64);
    index.ok_or_else(|| Trouble::garbled("an event of the server has no `index`"))
}

/// A JSON object that is no error.
fn parse(text: &str) -> Result<Value, Trouble> {
    let object: Value = serde_json::from_str(text)
        .map_err(|error| Trouble::garbled(format!("the server's answer is no JSON: {error}")))?;
    if object.get("type").and_then(Value::as_str) != Some("error") {
        return Ok(object);
    }
    let told = message_in(&object).unwrap_or_else(|| "an error".to_owned());
    let message = format!("the server broke off its answer: {told}");
    let is_limit = error_names(text).contains("rate_limit");
    Err(Trouble::later(if is_limit { "rate-limited" } else { "server-error" }, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(events: &[Value]) -> Result<Reply, Trouble> {
        let mut reply = AnthropicReply::default();
        for event in events {
            reply.event(&event.to_string())?;
        }
        reply.whole(0)
    }

    fn start() -> Value {
        let usage = json!({"input_tokens": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 3, "output_tokens": 1});
        json!({"type": "message_start", "message": {"usage": usage}})
    }

    fn block(index: u64, block: Value) -> Value {
        json!({"type": "content_block_start", "index": index, "content_block": block})
    }

    fn delta(index: u64, delta: Value) -> Value {
        json!({"type": "content_block_delta", "index": index, "delta": delta})
    }

    fn end(reason: &str) -> Value {
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 30}})
    }

    #[test]
    fn text_calls_and_usage_come_in_events() {
        let reply = read(&[
            start(),
            json!({"type": "ping"}),
            block(0, json!({"type": "thinking", "thinking": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
            block(1, json!({"type": "text", "text": ""})),
            delta(1, json!({"type": "text_delta", "text": "I look."})),
            block(2, json!({"type": "tool_use", "id": "t1", "name": "run", "input": {}})),
            delta(2, json!({"type": "input_json_delta", "partial_json": "{\"command\": "})),
            delta(2, json!({"type": "input_json_delta", "partial_json": "\"ls\"}"})),
            json!({"type": "content_block_stop", "index": 2}),
            end("tool_use"),
            json!({"type": "message_stop"}),
        ])
        .unwrap();
        assert_eq!(reply.text, "I look.");
        assert_eq!(
            (reply.calls[0].id.as_str(), &reply.calls[0].arguments),
            ("t1", &json!({"command": "ls"}))
        );
        let expected =
            Reported { input: Figure::Count(28), cached: Figure::Count(20), output: Figure::Count(30) };
        assert_eq!(reply.reported, expected, "I3");
        assert_eq!(reply.notes, ["reasoning-left-out"]);
    }

    #[test]
    fn i4_pings_are_no_part_of_it() {
        let mut reply = AnthropicReply::default();
        let mut check = |event: Value, expected: Heard| {
            assert_eq!(reply.event(&event.to_string()), Ok(expected), "{event}");
        };
        check(json!({"type": "ping"}), Heard::KeepAlive);
        check(json!({"type": "queue_position", "position": 3}), Heard::KeepAlive);
        check(start(), Heard::Part);
        check(block(0, json!({"type": "text", "text": ""})), Heard::Part);
        check(delta(0, json!({"type": "text_delta", "text": "l"})), Heard::Part);
        check(json!({"type": "content_block_stop", "index": 0}), Heard::Part);
        check(end("end_turn"), Heard::Part);
        check(json!({"type": "message_stop"}), Heard::End);
        assert_eq!(reply.event(" "), Ok(Heard::KeepAlive));
    }

    #[test]
    fn i2_whole_or_not_at_all() {
        let check = |events: &[Value], expected: Result<FinishReason, &str>| {
            let got = read(events);
            assert_eq!(
                got.as_ref().map(|reply| reply.finish).map_err(|trouble| trouble.code),
                expected,
                "{events:?}"
            );
        };
        check(&[start(), end("max_tokens")], Ok(FinishReason::Length));
        check(&[start(), end("end_turn")], Ok(FinishReason::Stop));
        check(&[start(), json!({"type": "message_stop"})], Err("stream-cut"));
        check(&[], Err("stream-cut"));
        check(&[start(), delta(0, json!({}))], Err("reply-garbled"));
        check(&[json!({"choices": []})], Err("reply-garbled"));
        let error = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "Overloaded"}});
        check(&[start(), error("overloaded_error")], Err("server-error"));
        check(&[start(), error("rate_limit_error")], Err("rate-limited"));
    }

    #[test]
    fn a_whole_answer_is_read_alike() {
        let mut reply = AnthropicReply::default();
        let content = json!([{"type": "text", "text": "x"}, {"type": "tool_use", "id": "t", "name": "run", "input": {"command": "ls"}}]);
        let usage = json!({"input_tokens": 5, "output_tokens": 2});
        let answer = json!({"content": content, "stop_reason": "tool_use", "usage": usage});
        reply.complete(&answer.to_string()).unwrap();
        let reply = reply.whole(0).unwrap();
        assert_eq!((reply.text.as_str(), &reply.calls[0].arguments), ("x", &json!({"command": "ls"})));
        assert_eq!(reply.reported.input, Figure::Count(5));
    }
}
