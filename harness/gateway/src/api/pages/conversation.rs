//! Messages of a request, as its client sent them.
//!
//! I1. At most [`MAX_MESSAGES`] are shown at a time; the page says how many are not.

use serde::Serialize;
use serde_json::Value;

use crate::ChatRequest;

/// Messages that are shown at a time.
const MAX_MESSAGES: usize = 20;

/// A parsed body of a request.
#[derive(Debug)]
pub(super) struct Conversation(Value);

/// Messages for the template.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    messages: Vec<Message>,
    /// Index of the first one.
    first: usize,
    /// Messages of the whole request.
    count: usize,
    /// Selected messages that are not shown.
    hidden: usize,
    /// Names of the tools on offer.
    tools: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Message {
    place: usize,
    /// What it is in a next state.
    kind: Option<String>,
    role: String,
    /// Its name, and the id of the call that it answers.
    names: Vec<String>,
    blocks: Vec<Block>,
    calls: Vec<Call>,
}

/// A text with its style class.
#[derive(Debug, Serialize)]
struct Block {
    class: &'static str,
    text: String,
}

#[derive(Debug, Serialize)]
struct Call {
    name: String,
    arguments: String,
}

/// What the user says in a request.
#[derive(Debug, Serialize)]
pub(super) struct Excerpt {
    text: String,
    /// Whether no answer follows it; otherwise it is the last user message before a tool result or a report of the client.
    is_new: bool,
}

impl Conversation {
    /// `None` if the body is not JSON.
    pub(super) fn parse(body: &str) -> Option<Self> {
        serde_json::from_str(body).ok().map(Self)
    }

    fn messages(&self) -> &[Value] {
        array(&self.0["messages"])
    }

    /// The last messages before index `upto`.
    pub(super) fn before(&self, upto: Option<usize>) -> Shown {
        let messages = self.messages();
        let end = upto.unwrap_or(messages.len()).min(messages.len());
        let first = end.saturating_sub(MAX_MESSAGES);
        let shown = messages.iter().enumerate().take(end).skip(first);
        let shown = shown.map(|(place, message)| Message::of(place, None, message)).collect();
        let names = array(&self.0["tools"]).iter().filter_map(|tool| tool["function"]["name"].as_str());
        let tools = names.map(str::to_owned).collect();
        Shown { messages: shown, first, count: messages.len(), hidden: 0, tools }
    }

    /// Messages at these places: each `[place, kind, position of the call]`, or a place alone.
    pub(super) fn at(&self, places: &Value) -> Shown {
        let places = array(places);
        let message = |entry: &Value| {
            let place = usize::try_from(entry.get(0).unwrap_or(entry).as_u64()?).ok()?;
            let kind = entry.get(1).and_then(Value::as_str).map(str::to_owned);
            Some(Message::of(place, kind, self.messages().get(place)?))
        };
        let messages = places.iter().take(MAX_MESSAGES).filter_map(message).collect();
        let hidden = places.len().saturating_sub(MAX_MESSAGES);
        Shown { messages, first: 0, count: self.messages().len(), hidden, tools: Vec::new() }
    }

    pub(super) fn said(&self) -> Option<Excerpt> {
        let request = ChatRequest::parse(&self.0).ok()?;
        let text = request.unanswered_text();
        if !text.is_empty() {
            return Some(Excerpt { text, is_new: true });
        }
        let mut said = request.user_messages().rev().filter(|message| !message.is_system_event());
        let last = said.find(|message| !message.text().trim().is_empty())?;
        Some(Excerpt { text: last.text().to_owned(), is_new: false })
    }
}

impl Message {
    fn of(place: usize, kind: Option<String>, message: &Value) -> Self {
        let field = |name: &&str| message[*name].as_str().map(str::to_owned);
        let role = field(&"role").unwrap_or_else(|| "?".to_owned());
        let reasoning = ["reasoning_content", "reasoning"].iter().filter_map(field);
        let mut blocks: Vec<Block> = reasoning
            .filter(|text| !text.is_empty())
            .map(|text| Block { class: "reasoning", text })
            .collect();
        let class = if role == "assistant" { "said" } else { "saw" };
        let mut add = |text: String| blocks.push(Block { class, text });
        match &message["content"] {
            Value::Null => {}
            Value::String(text) => add(text.clone()),
            Value::Array(parts) => parts.iter().for_each(|part| add(text_or_json(&part["text"], part))),
            other => add(other.to_string()),
        }
        let call = |call: &Value| {
            let function = &call["function"];
            let name = function["name"].as_str().unwrap_or("?").to_owned();
            Call { name, arguments: text_or_json(&function["arguments"], &function["arguments"]) }
        };
        let calls = array(&message["tool_calls"]).iter().map(call).collect();
        let names = ["name", "tool_call_id"].iter().filter_map(field).collect();
        Self { place, kind, role, names, blocks, calls }
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[][..], Vec::as_slice)
}

fn text_or_json(text: &Value, json: &Value) -> String {
    text.as_str().map_or_else(|| json.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(body: &Value, upto: Option<usize>) -> (String, usize) {
        let shown = Conversation::parse(&body.to_string()).unwrap().before(upto);
        (json!(shown.messages).to_string(), shown.first)
    }

    #[test]
    fn messages_of_every_form_are_shown() {
        let body = json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "in parts"}, {"type": "image_url", "image_url": 7}]},
            {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
                {"id": "c", "function": {"name": "look", "arguments": "{\"a\": 1}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "found"},
            {"role": 3, "content": {"odd": true}},
            "nothing",
        ]});
        let shown = Conversation::parse(&body.to_string()).unwrap().before(None);
        let texts = |place: usize| -> Vec<&str> {
            shown.messages[place].blocks.iter().map(|block| block.text.as_str()).collect()
        };
        assert_eq!(texts(0), ["in parts", "{\"image_url\":7,\"type\":\"image_url\"}"]);
        assert_eq!((texts(1), shown.messages[1].calls[0].arguments.as_str()), (vec!["hm"], "{\"a\": 1}"));
        assert_eq!((texts(2), shown.messages[2].names.as_slice()), (vec!["found"], &["c".to_owned()][..]));
        assert_eq!((texts(3), shown.messages[3].role.as_str()), (vec!["{\"odd\":true}"], "?"));
        assert_eq!(texts(4), [""; 0]);
    }

    #[test]
    fn said_skips_tool_results_and_contexts() {
        let check = |messages: Value, expected: Option<(&str, bool)>| {
            let said = Conversation(json!({"messages": messages})).said();
            assert_eq!(said.as_ref().map(|said| (said.text.as_str(), said.is_new)), expected, "{messages}");
        };
        let user = |text: &str| json!({"role": "user", "content": text});
        let answer = json!({"role": "assistant", "content": "Hello."});
        let aside = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";
        check(
            json!([user("one"), answer, user("[Fri 2026-11-20 09:40 UTC] two"), user("three"), user(aside)]),
            Some(("two\nthree", true)),
        );
        let result = json!({"role": "tool", "tool_call_id": "c", "content": "found"});
        check(json!([user("one"), answer, result]), Some(("one", false)));
        check(json!([user("one"), answer, user("System: [now] an event")]), Some(("one", false)));
        check(json!([{"role": "system", "content": "Be short."}]), None);
        check(json!("no messages"), None);
    }

    #[test]
    fn i1_shown_messages_are_limited() {
        let messages: Vec<Value> =
            (0..45).map(|at| json!({"role": "user", "content": format!("said {at}.")})).collect();
        let (text, first) = shown(&json!({"messages": messages}), None);
        assert_eq!((first, text.matches("\"role\"").count()), (25, MAX_MESSAGES));
        assert!(
            text.contains("said 25.") && text.contains("said 44.") && !text.contains("said 24."),
            "{text}"
        );
        let (text, first) = shown(&json!({"messages": messages}), Some(25));
        assert_eq!(first, 5);
        assert!(text.contains("said 5.") && text.contains("said 24.") && !text.contains("said 25."));
        let places: Value = (0..25).map(Value::from).collect();
        let next = Conversation(json!({"messages": messages})).at(&places);
        assert_eq!((next.messages.len(), next.hidden), (MAX_MESSAGES, 5));
        assert!(Conversation::parse("no JSON").is_none());
        assert_eq!(shown(&json!({"messages": 3}), Some(0)).1, 0);
    }
}
