//! Reads an Anthropic message, complete or as events, into a reply.
//!
//! I1. Blocks are assembled by their index and ordered by it; calls are assembled by [`PartialCalls`]. Two blocks may share
//! an index, and a delta may have a wrong index or none. I2. A reply without a stop reason is incomplete. I3. Input tokens
//! include cache reads and cache writes. I4. Pings and unknown events are keep-alives and not part of the reply.
//!
//! Thinking blocks are counted and left out. Other kinds of block belong to server-side tools, which are not requested;
//! they are left out with a note.

use clawrl_core::{FinishReason, read_json};
use serde_json::Value;

use crate::event_json::EventJson;
use crate::finish::{check_finish, finish_of};
use crate::openai_reply::no_error;
use crate::partial_calls::{PartialCalls, Piece};
use crate::reply::{Figure, Heard, Reply, Reported, check_size, tool_call};
use crate::trouble::Trouble;

/// Assembles a reply from events.
#[derive(Debug, Default)]
pub(crate) struct AnthropicReply {
    json: EventJson,
    /// Blocks other than calls, in the order of their start.
    blocks: Vec<Block>,
    calls: PartialCalls,
    stop: Option<String>,
    input: Figure,
    cache_written: Figure,
    cached: Figure,
    output: Figure,
    written_bytes: usize,
    done: bool,
}

#[derive(Debug)]
struct Block {
    index: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text(String),
    Thinking,
    Other,
}

impl AnthropicReply {
    /// Reads one event of a stream.
    pub(crate) fn event(&mut self, data: &str) -> Result<Heard, Trouble> {
        if data.trim().is_empty() {
            return Ok(Heard::KeepAlive);
        }
        let event = no_error(self.json.read(data), data)?;
        let mut heard = Heard::Part;
        match event.get("type").and_then(Value::as_str) {
            Some("message_start") => self.usage(event.pointer("/message/usage")),
            Some("content_block_start") => {
                self.begin(index(&event), event.get("content_block").unwrap_or(&Value::Null));
            }
            Some("content_block_delta") => {
                self.go_on(index(&event), event.get("delta").unwrap_or(&Value::Null))?;
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
            // `ping`, and unknown kinds that a later API version may add.
            Some(_) => heard = Heard::KeepAlive,
            None => return Err(Trouble::garbled("an event of the server has no `type`")),
        }
        self.check_size()?;
        Ok(heard)
    }

    /// Reads a complete response.
    pub(crate) fn complete(&mut self, text: &str) -> Result<(), Trouble> {
        let message = no_error(read_json(text), text)?;
        let Some(blocks) = message.get("content").and_then(Value::as_array) else {
            return Err(Trouble::garbled("the server's answer has no `content`"));
        };
        for (index, block) in (0..).zip(blocks) {
            self.begin(Some(index), block);
        }
        self.stop = message.get("stop_reason").and_then(Value::as_str).map(str::to_owned);
        self.usage(message.get("usage"));
        self.done = true;
        self.check_size()
    }

    fn check_size(&self) -> Result<(), Trouble> {
        check_size(self.written_bytes, self.blocks.len() + self.calls.len())
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

    fn begin(&mut self, index: Option<u64>, block: &Value) {
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind = match block.get("type").and_then(Value::as_str) {
            Some("text") => Kind::Text(text("text").to_owned()),
            Some("tool_use") => {
                let input =
                    block.get("input").filter(|input| input.as_object().is_some_and(|map| !map.is_empty()));
                let arguments = input.map(ToString::to_string).unwrap_or_default();
                let piece = Piece { index, id: text("id"), name: text("name"), arguments: &arguments };
                self.written_bytes += self.calls.begin(&piece);
                return;
            }
            Some("thinking" | "redacted_thinking") => Kind::Thinking,
            _ => Kind::Other,
        };
        self.written_bytes += text("text").len() + text("thinking").len();
        let last = self.blocks.last().map_or(0, |block| block.index);
        self.blocks.push(Block { index: index.unwrap_or(last), kind });
    }

    /// Appends to the block with this index, or to the last block of this kind.
    fn go_on(&mut self, index: Option<u64>, delta: &Value) -> Result<(), Trouble> {
        let text = |key: &str| delta.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind = delta.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == "input_json_delta" {
            let piece = Piece { index, arguments: text("partial_json"), ..Piece::default() };
            let is_other = |block: &Block| Some(block.index) == index && matches!(block.kind, Kind::Other);
            if self.calls.is_empty() || self.blocks.iter().any(is_other) {
                // A delta of a server-side tool.
                return self.begun(index);
            }
            self.written_bytes += self.calls.take_piece(&piece);
            return Ok(());
        }
        let is_meant = |block: &Block| match block.kind {
            Kind::Text(_) => kind == "text_delta",
            Kind::Thinking => kind == "thinking_delta",
            Kind::Other => false,
        };
        let has_index = |block: &Block| Some(block.index) == index;
        let at = self.blocks.iter().rposition(|block| is_meant(block) && has_index(block));
        let Some(at) = at.or_else(|| self.blocks.iter().rposition(is_meant)) else {
            return self.begun(index);
        };
        let piece = match &mut self.blocks[at].kind {
            Kind::Text(known) => {
                known.push_str(text("text"));
                text("text")
            }
            Kind::Thinking | Kind::Other => text("thinking"),
        };
        self.written_bytes += piece.len();
        Ok(())
    }

    /// Checks that a block has begun whose delta may be ignored.
    fn begun(&self, index: Option<u64>) -> Result<(), Trouble> {
        let is_known = self.blocks.iter().any(|block| Some(block.index) == index);
        let message = "the server goes on with a block that it has not begun";
        if is_known || !self.calls.is_empty() { Ok(()) } else { Err(Trouble::garbled(message)) }
    }

    /// The reply, if it is complete.
    pub(crate) fn whole(self, turn: u32) -> Result<Reply, Trouble> {
        let Some(stop) = self.stop else {
            return Err(Trouble::later("stream-cut", "the server's answer breaks off"));
        };
        check_finish(&stop)?;
        let mut reply = Reply {
            finish: finish_of(Some(&stop)),
            reported: Reported {
                input: self.input.plus(self.cache_written).plus(self.cached),
                cached: self.cached,
                output: self.output,
            },
            written_bytes: self.written_bytes,
            ..Reply::default()
        };
        let calls = self.calls.all().into_iter().enumerate();
        reply.calls = calls.map(|(position, call)| tool_call(call, turn, position)).collect();
        let mut note = |is: bool, note| {
            if is && !reply.notes.contains(&note) {
                reply.notes.push(note);
            }
        };
        note(!self.done, "no-done");
        note(stop == "refusal", "refusal");
        note(reply.finish == FinishReason::ContentFilter, "content-filter");
        let mut blocks = self.blocks;
        blocks.sort_by_key(|block| block.index);
        for block in blocks {
            match block.kind {
                Kind::Text(text) => reply.text.push_str(&text),
                Kind::Thinking => note(true, "reasoning-left-out"),
                Kind::Other => note(true, "block-left-out"),
            }
        }
        Ok(reply)
    }
}

fn index(event: &Value) -> Option<u64> {
    event.get("index").and_then(Value::as_u64)
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
        let long = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}});
        check(&[start(), long], Err("context-too-long"));
        check(&[start(), end("model_context_window_exceeded")], Ok(FinishReason::Length));
    }

    #[test]
    fn i1_blocks_may_have_one_index_a_wrong_one_or_none() {
        let call = |index: Value, id: &str| {
            json!({"type": "content_block_start", "index": index,
            "content_block": {"type": "tool_use", "id": id, "name": "run", "input": {}}})
        };
        let input = |index: Value, text: &str| {
            json!({"type": "content_block_delta", "index": index,
            "delta": {"type": "input_json_delta", "partial_json": text}})
        };
        let said = |index: Value, text: &str| {
            json!({"type": "content_block_delta", "index": index,
            "delta": {"type": "text_delta", "text": text}})
        };
        for (first, second, more) in
            [(1, 2, [json!(1), json!(2)]), (0, 0, [json!(0), json!(0)]), (1, 2, [json!(null), json!(9)])]
        {
            let reply = read(&[
                start(),
                block(0, json!({"type": "text", "text": ""})),
                said(more[0].clone(), "I look."),
                call(json!(first), "a"),
                input(more[0].clone(), "{\"x\": "),
                input(more[0].clone(), "1}"),
                call(json!(second), "b"),
                input(more[1].clone(), "{\"x\": 2}"),
                end("tool_use"),
            ]);
            let reply = reply.unwrap();
            let calls: Vec<_> =
                reply.calls.iter().map(|call| (call.id.as_str(), call.arguments["x"].as_u64())).collect();
            assert_eq!((reply.text.as_str(), calls), ("I look.", vec![("a", Some(1)), ("b", Some(2))]));
        }
    }

    #[test]
    fn halves_of_characters_lose_no_reply() {
        let mut reply = AnthropicReply::default();
        reply.event(&block(0, json!({"type": "text", "text": ""})).to_string()).unwrap();
        for text in [r"a\ud83d", r"\ude00 \ud83d b"] {
            let delta = format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
            );
            reply.event(&delta).unwrap();
        }
        reply.event(&end("end_turn").to_string()).unwrap();
        assert_eq!(reply.whole(0).unwrap().text, "a😀 \u{fffd} b");
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
