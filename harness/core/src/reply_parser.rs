//! Splits a streamed reply into reasoning, text and calls.
//!
//! Reasoning stands between two tags ([`REASONING_TAGS`]) at the start of a reply and, if calls are parsed, at the start of a
//! line or, if it is closed, within one. Calls are `<tool_call>` elements with one JSON object each, as Qwen and Hermes models write them.
//!
//! I1. The result does not depend on how the text is split. I2. Only tags, white space after reasoning and white space around
//! calls are dropped: an element that is not a call, or is not closed, is text. I3. The parser holds back a possible start of a tag, an
//! unclosed element, unclosed reasoning within a line, and white space that may precede a call. I4. Reasoning never produces
//! calls.

use serde_json::Value;

use crate::hermes::{ElementEnd, HERMES_CLOSING, HERMES_OPENING};
use crate::reasoning::REASONING_TAGS;

/// What the parser looks for in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reads {
    /// Whether the client offers tools; without tools an element is text.
    pub calls: bool,
    /// Whether the prompt ends inside reasoning.
    pub in_reasoning: bool,
}

/// A piece of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyPart {
    /// More reasoning.
    Reasoning(String),
    /// More text.
    Text(String),
    /// A call, whole.
    Call {
        /// Name of the tool.
        name: String,
        /// JSON, as the policy wrote it where it is an object.
        arguments: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing but white space has come.
    Beginning,
    /// Up to this tag.
    Reasoning(&'static str),
    /// Nothing but white space has come since.
    BehindReasoning,
    Text,
    /// Behind the first of these tags within a line: reasoning if the second one comes, else text.
    Aside(&'static str, &'static str),
    Call(ElementEnd),
    /// Nothing but white space has come since.
    BehindCall,
}

/// Takes a reply apart.
#[derive(Debug)]
pub struct ReplyParser {
    reads: Reads,
    place: Place,
    held: String,
    /// Whether the last output ended a line, or there was none.
    begins_line: bool,
}

impl ReplyParser {
    /// Before the first text.
    #[must_use]
    pub fn new(reads: Reads) -> Self {
        let place = if reads.in_reasoning { Place::Reasoning(REASONING_TAGS[0].1) } else { Place::Beginning };
        Self { reads, place, held: String::new(), begins_line: true }
    }

    /// Whether the next text is reasoning.
    #[must_use]
    pub fn is_reasoning(&self) -> bool {
        matches!(self.place, Place::Reasoning(_))
    }

    /// Whether a text is one complete part, with nothing held back.
    #[must_use]
    pub fn lets_pass(&self, text: &str) -> bool {
        let may_begin_tag = || text.contains(['<', '[', '◁']) || text.ends_with(char::is_whitespace);
        self.place == Place::Text
            && self.held.is_empty()
            && !text.is_empty()
            && !(self.reads.calls && may_begin_tag())
    }

    /// Takes more text and returns the parts that are certain by now.
    pub fn push(&mut self, text: &str) -> Vec<ReplyPart> {
        if self.lets_pass(text) {
            self.begins_line = false;
            return vec![ReplyPart::Text(text.to_owned())];
        }
        self.held.push_str(text);
        let mut parts = Vec::new();
        while self.step(&mut parts) {}
        parts
    }

    /// The rest, at the end of the text.
    #[must_use]
    pub fn end(mut self) -> Vec<ReplyPart> {
        let mut parts = Vec::new();
        loop {
            match self.place {
                // A string of this element is not closed, so the element is not a call; calls may follow.
                Place::Call(_) => {
                    let Some((body, rest)) = self.held.split_once(HERMES_CLOSING) else {
                        self.say(&mut parts, format!("{HERMES_OPENING}{}", self.held));
                        return parts;
                    };
                    let (text, rest) = (format!("{HERMES_OPENING}{body}{HERMES_CLOSING}"), rest.to_owned());
                    self.say(&mut parts, text);
                    self.held = rest;
                }
                Place::Aside(opening, _) => self.say(&mut parts, opening.to_owned()),
                Place::Reasoning(_) => {
                    push(&mut parts, ReplyPart::Reasoning(self.held));
                    return parts;
                }
                Place::BehindCall | Place::BehindReasoning if self.held.trim().is_empty() => return parts,
                Place::Beginning | Place::Text | Place::BehindCall | Place::BehindReasoning => {
                    push(&mut parts, ReplyPart::Text(self.held));
                    return parts;
                }
            }
            self.place = Place::Text;
            while self.step(&mut parts) {}
        }
    }

    /// Advances to the next tag; false if more text is needed.
    fn step(&mut self, parts: &mut Vec<ReplyPart>) -> bool {
        match self.place {
            Place::Beginning | Place::BehindReasoning => {
                let said = self.held.trim_start();
                let opened =
                    REASONING_TAGS.iter().find_map(|&(open, close)| Some((said.strip_prefix(open)?, close)));
                if let Some((rest, close)) = opened {
                    (self.held, self.place) = (rest.to_owned(), Place::Reasoning(close));
                    return true;
                }
                if REASONING_TAGS.iter().any(|(open, _)| open.starts_with(said)) {
                    return false;
                }
                if self.place == Place::BehindReasoning {
                    self.held = said.to_owned();
                }
                self.place = Place::Text;
                true
            }
            Place::Reasoning(closing) => match self.held.split_once(closing) {
                Some((thought, rest)) => {
                    let (thought, rest) = (thought.to_owned(), rest.to_owned());
                    push(parts, ReplyPart::Reasoning(thought));
                    (self.held, self.place) = (rest, Place::BehindReasoning);
                    true
                }
                None => {
                    let sure = self.held.len() - beginning_of(closing, &self.held);
                    push(parts, ReplyPart::Reasoning(self.held.drain(..sure).collect()));
                    false
                }
            },
            Place::Text | Place::BehindCall => self.text(parts),
            Place::Aside(_, closing) => match self.held.split_once(closing) {
                Some((thought, rest)) => {
                    let (thought, rest) = (thought.to_owned(), rest.to_owned());
                    push(parts, ReplyPart::Reasoning(thought));
                    (self.held, self.place) = (rest, Place::Text);
                    true
                }
                None => false,
            },
            Place::Call(mut end) => match end.find(&self.held) {
                Some(length) => {
                    let rest = self.held.split_off(length + HERMES_CLOSING.len());
                    let body = std::mem::replace(&mut self.held, rest);
                    match call_of(&body[..length]) {
                        Some(call) => {
                            parts.push(call);
                            (self.place, self.begins_line) = (Place::BehindCall, true);
                        }
                        None => {
                            self.say(parts, format!("{HERMES_OPENING}{body}"));
                            self.place = Place::Text;
                        }
                    }
                    true
                }
                None => {
                    self.place = Place::Call(end);
                    false
                }
            },
        }
    }

    fn text(&mut self, parts: &mut Vec<ReplyPart>) -> bool {
        if !self.reads.calls {
            push(parts, ReplyPart::Text(std::mem::take(&mut self.held)));
            return false;
        }
        let openings = || REASONING_TAGS.iter().copied().chain([(HERMES_OPENING, HERMES_CLOSING)]);
        let first = openings().filter_map(|(open, close)| Some((self.held.find(open)?, open, close))).min();
        let Some((at, open, close)) = first else {
            let undecided =
                openings().map(|(open, _)| beginning_of(open, &self.held)).max().unwrap_or_default();
            let sure = self.held[..self.held.len() - undecided].trim_end().len();
            if sure > 0 {
                self.place = Place::Text;
                let said = self.held.drain(..sure).collect();
                self.say(parts, said);
            }
            return false;
        };
        let rest = self.held.split_off(at + open.len());
        let mut said = std::mem::replace(&mut self.held, rest);
        said.truncate(at);
        let line = said.trim_end_matches([' ', '\t']);
        let begins_line = line.ends_with('\n') || line.is_empty() && self.begins_line;
        if open == HERMES_OPENING || begins_line {
            said.truncate(said.trim_end().len());
        }
        self.place = match open {
            HERMES_OPENING => Place::Call(ElementEnd::default()),
            _ if begins_line => Place::Reasoning(close),
            _ => Place::Aside(open, close),
        };
        self.say(parts, said);
        true
    }

    fn say(&mut self, parts: &mut Vec<ReplyPart>, said: String) {
        self.begins_line = said.is_empty() && self.begins_line;
        push(parts, ReplyPart::Text(said));
    }
}

/// Bytes at the end of the text that the tag begins with.
fn beginning_of(tag: &str, text: &str) -> usize {
    let most = tag.len().min(text.len());
    (1..=most).rev().find(|&length| text.as_bytes().ends_with(&tag.as_bytes()[..length])).unwrap_or(0)
}

fn push(parts: &mut Vec<ReplyPart>, part: ReplyPart) {
    match part {
        ReplyPart::Reasoning(text) | ReplyPart::Text(text) if text.is_empty() => {}
        part => parts.push(part),
    }
}

/// The call in an element; `None` if it is not a call.
fn call_of(body: &str) -> Option<ReplyPart> {
    let call: Value = serde_json::from_str(body.trim()).ok()?;
    let name = call["name"].as_str().filter(|name| !name.is_empty())?.to_owned();
    let arguments = match &call["arguments"] {
        Value::Null => "{}".to_owned(),
        // Some write the object as a text, as OpenAI's interface has it.
        Value::String(written) if serde_json::from_str::<Value>(written).is_ok_and(|it| it.is_object()) => {
            written.clone()
        }
        arguments @ Value::Object(_) => arguments.to_string(),
        _ => return None,
    };
    Some(ReplyPart::Call { name, arguments })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOOLS: Reads = Reads { calls: true, in_reasoning: false };

    fn run(reads: Reads, pieces: &[String]) -> Vec<ReplyPart> {
        let mut parser = ReplyParser::new(reads);
        let mut parts: Vec<ReplyPart> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
        parts.extend(parser.end());
        let mut whole: Vec<ReplyPart> = Vec::new();
        for part in parts {
            match (whole.last_mut(), part) {
                (Some(ReplyPart::Text(before)), ReplyPart::Text(text)) => before.push_str(&text),
                (Some(ReplyPart::Reasoning(before)), ReplyPart::Reasoning(text)) => before.push_str(&text),
                (_, part) => whole.push(part),
            }
        }
        whole
    }

    /// Whole, and character by character.
    fn check(reads: Reads, text: &str, expected: &[ReplyPart]) {
        assert_eq!(run(reads, &[text.to_owned()]), expected, "{text:?}");
        let chars: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(run(reads, &chars), expected, "{text:?} in characters");
    }

    fn text(text: &str) -> ReplyPart {
        ReplyPart::Text(text.to_owned())
    }

    fn thought(text: &str) -> ReplyPart {
        ReplyPart::Reasoning(text.to_owned())
    }

    fn call(name: &str, arguments: &str) -> ReplyPart {
        ReplyPart::Call { name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn text_stays_unchanged() {
        for reads in [Reads::default(), TOOLS] {
            check(reads, "", &[]);
            check(reads, " Hello \n", &[text(" Hello \n")]);
            check(reads, "a < b <tool> <think>", &[text("a < b <tool> <think>")]);
        }
        let element = "<tool_call>{\"name\": \"now\"}</tool_call>";
        check(Reads::default(), element, &[text(element)]);
    }

    #[test]
    fn calls() {
        let two = "Look:\n<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>\n\
                   <tool_call>{\"name\": \"now\"}</tool_call>\n";
        check(TOOLS, two, &[text("Look:"), call("read", "{\"path\":\"a\"}"), call("now", "{}")]);
        let written = "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"x\\\": 1.0}\"}</tool_call> done";
        check(TOOLS, written, &[call("f", "{\"x\": 1.0}"), text(" done")]);
    }

    #[test]
    fn invalid_call_becomes_text() {
        for odd in [
            "<tool_call>{\"name\": 3}</tool_call>",
            "<tool_call>nonsense</tool_call>",
            "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
            "<tool_call>{\"name\": \"f\"",
        ] {
            check(TOOLS, odd, &[text(odd)]);
        }
    }

    #[test]
    fn reasoning_comes_first_or_not_at_all() {
        check(TOOLS, "<think>\nhm</think>\n\nYes.", &[thought("\nhm"), text("Yes.")]);
        check(TOOLS, " <think>hm", &[thought("hm")]);
        check(TOOLS, "<thinker>", &[text("<thinker>")]);
        check(TOOLS, "<think></think>", &[]);
        let open = Reads { calls: true, in_reasoning: true };
        check(open, "hm</think><tool_call>{\"name\":\"f\"}</tool_call>", &[thought("hm"), call("f", "{}")]);
        check(TOOLS, "<think><tool_call></think>a", &[thought("<tool_call>"), text("a")]);
    }

    /// I4.
    #[test]
    fn calls_inside_reasoning_are_reasoning() {
        let (rm, ls) =
            ("<tool_call>{\"name\":\"rm\"}</tool_call>", "<tool_call>{\"name\":\"ls\"}</tool_call>");
        for (open, close) in REASONING_TAGS {
            let expected = [thought(rm), call("ls", "{}")];
            check(TOOLS, &format!("{open}{rm}{close}{ls}"), &expected);
            check(TOOLS, &format!("{ls}\n{open}{rm}"), &[call("ls", "{}"), thought(rm)]);
            check(
                TOOLS,
                &format!("So:\n {open}{rm}{close}\n{ls}"),
                &[text("So:"), thought(rm), call("ls", "{}")],
            );
            check(TOOLS, &format!("So {open}{rm}{close}{ls}"), &[text("So "), thought(rm), call("ls", "{}")]);
            check(TOOLS, &format!("So {open}{rm}{close}"), &[text("So "), thought(rm)]);
            check(TOOLS, &format!("{open}a{close}\n{open}b{close}c"), &[thought("ab"), text("c")]);
        }
        check(
            TOOLS,
            &format!("I close <think> now: {ls}"),
            &[text("I close <think> now:"), call("ls", "{}")],
        );
    }

    #[test]
    fn a_closing_tag_inside_a_string_ends_no_call() {
        let odd = r#"<tool_call>{"name":"f","arguments":{"a":"</tool_call>\\\"</tool_call>"}}</tool_call>"#;
        check(TOOLS, odd, &[call("f", r#"{"a":"</tool_call>\\\"</tool_call>"}"#)]);
        let unclosed = "<tool_call>{\"name\":\"f}</tool_call>";
        let good = "<tool_call>{\"name\":\"g\"}</tool_call>";
        check(TOOLS, &format!("{unclosed}{good}"), &[text(unclosed), call("g", "{}")]);
    }

    #[test]
    fn certain_text_comes_at_once() {
        let mut parser = ReplyParser::new(TOOLS);
        assert_eq!(parser.push("Hel"), [text("Hel")]);
        assert_eq!(parser.push("lo \n<tool"), [text("lo")]);
        assert_eq!(parser.push("box>"), [text(" \n<toolbox>")]);
        assert_eq!(parser.end(), []);
    }

    proptest! {
        /// I1.
        #[test]
        fn cuts_do_not_matter(
            pieces in proptest::collection::vec(prop_oneof![
                Just("<think>".to_owned()), Just("</think>".to_owned()), Just("<tool_call>".to_owned()), Just("</tool_call>".to_owned()),
                Just("{\"name\":\"f\",\"arguments\":{}}".to_owned()), Just(" \n".to_owned()), Just("<".to_owned()),
                Just("[THINK]".to_owned()), Just("[/THINK]".to_owned()), Just("\"".to_owned()), "[a<ä ]{0,3}",
            ], 0..12),
            cut in 1..9usize, calls in any::<bool>(), in_reasoning in any::<bool>(),
        ) {
            let reads = Reads { calls, in_reasoning };
            let text = pieces.concat();
            let chars: Vec<char> = text.chars().collect();
            let cuts: Vec<String> = chars.chunks(cut).map(|chars| chars.iter().collect()).collect();
            prop_assert_eq!(run(reads, &cuts), run(reads, &[text]));
        }
    }
}
