//! Messages of a request, as its client sent them.
//!
//! I1. What is shown of one text, and of one request at a time, is bounded; what is left out is said, and where it is found.

use serde_json::Value;

use super::html::{Html, beginning};
use crate::ChatRequest;

/// Characters of a text that are shown without unfolding it.
const SHORT: usize = 1_200;
/// Characters of a text that are shown at all.
const LONG: usize = 40_000;
/// Messages that are shown at a time.
const MESSAGES: usize = 20;

/// A text, folded where it is long.
pub(super) fn text(html: &mut Html, class: &'static str, text: &str) {
    let (short, is_long) = beginning(text, SHORT);
    if !is_long {
        html.raw("<pre class=\"").raw(class).raw("\">").text(text).raw("</pre>\n");
        return;
    }
    let (long, is_cut) = beginning(text, LONG);
    let (first, _) = beginning(short, 200);
    html.raw("<details class=\"long\"><summary><span>").text(first).raw("\u{2026}</span> <b>");
    html.text(text.len())
        .raw(" bytes</b></summary><pre class=\"")
        .raw(class)
        .raw("\">")
        .text(long)
        .raw("</pre>");
    if is_cut {
        let left = text.len() - long.len();
        html.raw("<p class=\"soft\">").text(left).raw(" bytes more are not shown here; ");
        html.raw("<code>GET /v1/turns/N</code> has all of it.</p>");
    }
    html.raw("</details>\n");
}

/// A body of a request, whose messages are told.
#[derive(Debug)]
pub(super) struct Conversation(Value);

impl Conversation {
    /// Nothing where it is none.
    pub(super) fn read(body: &str) -> Option<Self> {
        serde_json::from_str(body).ok().map(Self)
    }

    fn messages(&self) -> &[Value] {
        self.0["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The messages before place `upto`, the newest of them; the place of the first that is shown.
    pub(super) fn show(&self, html: &mut Html, upto: Option<usize>) -> usize {
        let messages = self.messages();
        let end = upto.unwrap_or(messages.len()).min(messages.len());
        let first = end.saturating_sub(MESSAGES);
        if messages.is_empty() {
            html.raw("<p>There are no messages.</p>\n");
        }
        let shown = messages.iter().enumerate().take(end).skip(first);
        shown.for_each(|(place, one)| message(html, place, one));
        first
    }

    /// What the user says in it, and whether that is new: else it goes on from something else, and this is what the user said last.
    pub(super) fn said(&self) -> Option<(String, bool)> {
        let request = ChatRequest::parse(&self.0).ok()?;
        let said = request.said();
        if !said.is_empty() {
            return Some((said, true));
        }
        let mut spoken = request.spoken().rev().filter(|message| !message.is_system_event());
        spoken
            .find(|message| !message.text().trim().is_empty())
            .map(|message| (message.text().to_owned(), false))
    }

    pub(super) fn count(&self) -> usize {
        self.messages().len()
    }

    /// Messages at these places, each with what it is.
    pub(super) fn show_places(&self, html: &mut Html, places: &Value) {
        let places = places.as_array().map_or(&[][..], Vec::as_slice);
        for entry in places.iter().take(MESSAGES) {
            // `[place, kind, place of the call]`, or a place alone.
            let place = entry.get(0).unwrap_or(entry).as_u64().and_then(|place| usize::try_from(place).ok());
            if let Some(kind) = entry.get(1).and_then(Value::as_str) {
                html.raw("<div class=\"soft\">").text(kind).raw("</div>");
            }
            if let Some((place, one)) = place.and_then(|place| Some((place, self.messages().get(place)?))) {
                message(html, place, one);
            }
        }
        if places.len() > MESSAGES {
            html.raw("<p class=\"soft\">").text(places.len() - MESSAGES).raw(" more are not shown here.</p>");
        }
    }

    /// Names of the tools that were offered.
    pub(super) fn tools(&self) -> Vec<&str> {
        let tools = self.0["tools"].as_array().map_or(&[][..], Vec::as_slice);
        tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect()
    }
}

fn message(html: &mut Html, place: usize, message: &Value) {
    let role = message["role"].as_str().unwrap_or("?");
    html.raw("<div class=\"message\"><div class=\"who\"><b><bdi>")
        .text(role)
        .raw("</bdi></b> <span class=\"soft\">#");
    html.text(place);
    for field in ["name", "tool_call_id"] {
        if let Some(name) = message[field].as_str() {
            html.raw(" <bdi>").text(name).raw("</bdi>");
        }
    }
    html.raw("</span></div>\n");
    for field in ["reasoning_content", "reasoning"] {
        if let Some(words) = message[field].as_str().filter(|words| !words.is_empty()) {
            text(html, "reasoning", words);
        }
    }
    let class = if role == "assistant" { "said" } else { "saw" };
    match &message["content"] {
        Value::Null => {}
        Value::String(words) => text(html, class, words),
        Value::Array(parts) => {
            for part in parts {
                match part["text"].as_str() {
                    Some(words) => text(html, class, words),
                    None => text(html, class, &part.to_string()),
                }
            }
        }
        other => text(html, class, &other.to_string()),
    }
    for call in message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice) {
        let function = &call["function"];
        let arguments =
            function["arguments"].as_str().map_or_else(|| function["arguments"].to_string(), str::to_owned);
        self::call(html, function["name"].as_str().unwrap_or("?"), &arguments);
    }
    html.raw("</div>\n");
}

/// A call of a tool.
pub(super) fn call(html: &mut Html, name: &str, arguments: &str) {
    html.raw("<div class=\"soft\">calls <b><bdi>").text(beginning(name, 200).0).raw("</bdi></b></div>\n");
    text(html, "said", arguments);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(body: &Value, upto: Option<usize>) -> (String, usize) {
        let mut html = Html::default();
        let first = Conversation::read(&body.to_string()).unwrap().show(&mut html, upto);
        (html.into_string(), first)
    }

    #[test]
    fn messages_of_all_shapes_are_shown() {
        let body = json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "in parts"}, {"type": "image_url", "image_url": 7}]},
            {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
                {"id": "c", "function": {"name": "look<", "arguments": "{\"a\": 1}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "<b>found</b>"},
            {"role": 3, "content": {"odd": true}},
            "nothing",
        ]});
        let (html, first) = shown(&body, None);
        assert_eq!(first, 0);
        for part in ["in parts", "image_url", ">hm<", "look&lt;", "&quot;a&quot;: 1", "&lt;b&gt;found", "odd"]
        {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("<b>found"));
    }

    #[test]
    fn the_users_message_is_found_behind_tools_and_contexts() {
        let check = |messages: Value, expected: Option<(&str, bool)>| {
            let said = Conversation(json!({"messages": messages})).said();
            assert_eq!(said.as_ref().map(|(said, is_new)| (said.as_str(), *is_new)), expected, "{messages}");
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
    fn i1_what_is_shown_is_bounded() {
        let long = "x".repeat(LONG + 7);
        let messages: Vec<Value> =
            (0..45).map(|at| json!({"role": "user", "content": format!("said {at}.")})).collect();
        let (html, first) = shown(&json!({"messages": messages}), None);
        assert_eq!((first, html.matches("class=\"message\"").count()), (25, MESSAGES));
        assert!(
            html.contains("said 25.") && html.contains("said 44.") && !html.contains("said 24."),
            "{html}"
        );
        let (html, first) = shown(&json!({"messages": messages}), Some(25));
        assert_eq!(first, 5);
        assert!(html.contains("said 5.") && html.contains("said 24.") && !html.contains("said 25."));
        let (html, _) = shown(&json!({"messages": [{"role": "user", "content": long}]}), Some(usize::MAX));
        assert!(html.contains("7 bytes more are not shown") && html.len() < LONG + 2_000);
        assert!(Conversation::read("no JSON").is_none());
        assert_eq!(shown(&json!({"messages": 3}), Some(0)).1, 0);
    }
}
