//! Reasoning, text and calls in what a policy writes.
//!
//! Reasoning stands between `<think>` and `</think>` at the beginning; calls are `<tool_call>` elements with a JSON object each, as Qwen
//! and Hermes models were taught.
//!
//! I1. However the text is cut, the same comes out. I2. Nothing is lost but tags, white space behind reasoning, and white space around
//! calls: an element that is no call, or is not closed, is text. I3. Held back is what may be the beginning of a tag, an
//! element that is not closed, and white space that a call may follow.

use serde_json::Value;

const REASONING: (&str, &str) = ("<think>", "</think>");
const CALL: (&str, &str) = ("<tool_call>", "</tool_call>");

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reads {
    /// Whether the client offers tools; without them an element is text.
    pub calls: bool,
    /// Whether the prompt ends inside reasoning.
    pub in_reasoning: bool,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerPart {
    /// More of what the policy thinks.
    Reasoning(String),
    /// More of what it says.
    Text(String),
    /// A call, whole.
    Call {
        /// Of the tool.
        name: String,
        /// JSON, as the policy wrote it where it is an object.
        arguments: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing but white space has come.
    Beginning,
    Reasoning,
    /// Nothing but white space has come since.
    BehindReasoning,
    Text,
    Call,
    /// Nothing but white space has come since.
    BehindCall,
}

/// Takes an answer apart.
#[derive(Debug)]
pub struct AnswerParser {
    reads: Reads,
    place: Place,
    held: String,
}

impl AnswerParser {
    /// Before the first text.
    #[must_use]
    pub fn new(reads: Reads) -> Self {
        let place = if reads.in_reasoning { Place::Reasoning } else { Place::Beginning };
        Self { reads, place, held: String::new() }
    }

    /// Whether what comes next is thought, not said.
    #[must_use]
    pub fn is_reasoning(&self) -> bool {
        self.place == Place::Reasoning
    }

    /// Whether this text is a part of its own, and nothing else: nothing is held back before it or of it.
    pub(crate) fn lets_pass(&self, text: &str) -> bool {
        let may_begin_call = || text.contains(&CALL.0[..1]) || text.ends_with(char::is_whitespace);
        self.place == Place::Text
            && self.held.is_empty()
            && !text.is_empty()
            && !(self.reads.calls && may_begin_call())
    }

    /// Takes more text, and gives what is known by now.
    pub fn push(&mut self, text: &str) -> Vec<AnswerPart> {
        if self.lets_pass(text) {
            return vec![AnswerPart::Text(text.to_owned())];
        }
        self.held.push_str(text);
        let mut parts = Vec::new();
        while self.step(&mut parts) {}
        parts
    }

    /// The rest, at the end of the text.
    #[must_use]
    pub fn end(self) -> Vec<AnswerPart> {
        let is_blank = self.held.trim().is_empty();
        let part = match self.place {
            Place::BehindCall | Place::BehindReasoning if is_blank => return Vec::new(),
            Place::Reasoning => AnswerPart::Reasoning(self.held),
            Place::Call => AnswerPart::Text(format!("{}{}", CALL.0, self.held)),
            _ => AnswerPart::Text(self.held),
        };
        let is_empty =
            matches!(&part, AnswerPart::Reasoning(text) | AnswerPart::Text(text) if text.is_empty());
        if is_empty { Vec::new() } else { vec![part] }
    }

    /// Goes on as far as a tag; false where more text is needed.
    fn step(&mut self, parts: &mut Vec<AnswerPart>) -> bool {
        match self.place {
            Place::Beginning => {
                let said = self.held.trim_start();
                if let Some(rest) = said.strip_prefix(REASONING.0) {
                    (self.held, self.place) = (rest.to_owned(), Place::Reasoning);
                    return true;
                }
                if REASONING.0.starts_with(said) {
                    return false;
                }
                self.place = Place::Text;
                true
            }
            Place::Reasoning => match self.held.split_once(REASONING.1) {
                Some((thought, rest)) => {
                    let (thought, rest) = (thought.to_owned(), rest.to_owned());
                    push(parts, AnswerPart::Reasoning(thought));
                    (self.held, self.place) = (rest, Place::BehindReasoning);
                    true
                }
                None => {
                    let sure = self.held.len() - beginning_of(REASONING.1, &self.held);
                    push(parts, AnswerPart::Reasoning(self.held.drain(..sure).collect()));
                    false
                }
            },
            Place::BehindReasoning => {
                let said = self.held.trim_start().to_owned();
                self.held = said;
                if self.held.is_empty() {
                    return false;
                }
                self.place = Place::Text;
                true
            }
            Place::Text | Place::BehindCall => self.text(parts),
            Place::Call => match self.held.split_once(CALL.1) {
                Some((body, rest)) => {
                    let call = call_of(body);
                    let is_call = call.is_some();
                    let text = || AnswerPart::Text(format!("{}{body}{}", CALL.0, CALL.1));
                    push(parts, call.unwrap_or_else(text));
                    let rest = rest.to_owned();
                    (self.held, self.place) = (rest, if is_call { Place::BehindCall } else { Place::Text });
                    true
                }
                None => false,
            },
        }
    }

    fn text(&mut self, parts: &mut Vec<AnswerPart>) -> bool {
        if !self.reads.calls {
            push(parts, AnswerPart::Text(std::mem::take(&mut self.held)));
            return false;
        }
        if let Some((said, rest)) = self.held.split_once(CALL.0) {
            let (said, rest) = (said.trim_end().to_owned(), rest.to_owned());
            push(parts, AnswerPart::Text(said));
            (self.held, self.place) = (rest, Place::Call);
            return true;
        }
        let undecided = beginning_of(CALL.0, &self.held);
        let sure = self.held[..self.held.len() - undecided].trim_end().len();
        if sure > 0 {
            self.place = Place::Text;
            push(parts, AnswerPart::Text(self.held.drain(..sure).collect()));
        }
        false
    }
}

/// Bytes at the end of the text that the tag begins with.
fn beginning_of(tag: &str, text: &str) -> usize {
    let most = tag.len().min(text.len());
    (1..=most).rev().find(|&length| text.as_bytes().ends_with(&tag.as_bytes()[..length])).unwrap_or(0)
}

fn push(parts: &mut Vec<AnswerPart>, part: AnswerPart) {
    match part {
        AnswerPart::Reasoning(text) | AnswerPart::Text(text) if text.is_empty() => {}
        part => parts.push(part),
    }
}

/// The call in an element; nothing where it is none.
fn call_of(body: &str) -> Option<AnswerPart> {
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
    Some(AnswerPart::Call { name, arguments })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOOLS: Reads = Reads { calls: true, in_reasoning: false };

    fn run(reads: Reads, pieces: &[String]) -> Vec<AnswerPart> {
        let mut parser = AnswerParser::new(reads);
        let mut parts: Vec<AnswerPart> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
        parts.extend(parser.end());
        let mut whole: Vec<AnswerPart> = Vec::new();
        for part in parts {
            match (whole.last_mut(), part) {
                (Some(AnswerPart::Text(before)), AnswerPart::Text(text)) => before.push_str(&text),
                (Some(AnswerPart::Reasoning(before)), AnswerPart::Reasoning(text)) => before.push_str(&text),
                (_, part) => whole.push(part),
            }
        }
        whole
    }

    /// Whole, and character by character.
    fn check(reads: Reads, text: &str, expected: &[AnswerPart]) {
        assert_eq!(run(reads, &[text.to_owned()]), expected, "{text:?}");
        let chars: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(run(reads, &chars), expected, "{text:?} in characters");
    }

    fn text(text: &str) -> AnswerPart {
        AnswerPart::Text(text.to_owned())
    }

    fn thought(text: &str) -> AnswerPart {
        AnswerPart::Reasoning(text.to_owned())
    }

    fn call(name: &str, arguments: &str) -> AnswerPart {
        AnswerPart::Call { name: name.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn text_stays_what_it_is() {
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
    fn what_is_no_call_is_text() {
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

    #[test]
    fn what_is_sure_comes_at_once() {
        let mut parser = AnswerParser::new(TOOLS);
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
                Just("{\"name\":\"f\",\"arguments\":{}}".to_owned()), Just(" \n".to_owned()), Just("<".to_owned()), "[a<ä ]{0,3}",
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
