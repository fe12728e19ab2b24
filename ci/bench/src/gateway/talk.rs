//! A conversation that grows, and the next one behind it.

use std::fmt::Write;

use clawrl_core::{SplitMix64, derive_seed};
use hyper::body::Bytes;
use serde_json::json;

/// What questions and system prompts are made of.
const WORDS: [&str; 16] = [
    "river", "open", "apple", "total", "folder", "please", "error", "lines", "sorted", "again", "names",
    "warning", "copy", "number", "after", "plum",
];
/// Of the seed of what all conversations begin with.
const PROMPT: &str = "system prompt";

/// What one stream says.
#[derive(Debug)]
pub(super) struct Talk {
    stream: u32,
    /// Bytes that a body grows to.
    size: usize,
    /// The same in all conversations, as an agent's is.
    prompt: String,
    /// Messages so far as JSON, with commas between them; empty before a conversation.
    said: String,
    /// The last body has reached the size.
    is_over: bool,
    conversations: u64,
    random: SplitMix64,
}

impl Talk {
    pub(super) fn new(stream: u32, size: usize) -> Self {
        let mut random = SplitMix64::new(derive_seed(0, PROMPT, &[]));
        let prompt = words(&mut random, size / 2);
        let random = SplitMix64::new(derive_seed(1, "questions", &[u64::from(stream)]));
        Self { stream, size, prompt, said: String::new(), is_over: false, conversations: 0, random }
    }

    /// The body of the next request.
    pub(super) fn ask(&mut self) -> Bytes {
        if self.is_over || self.said.is_empty() {
            self.conversations += 1;
            self.said = message("system", &self.prompt);
        }
        let mut question = format!("Question of {} in {}: ", self.stream, self.conversations);
        question += &words(&mut self.random, self.size / 8);
        self.say("user", &question);
        let body = format!("{{\"model\":\"stub\",\"stream\":true,\"messages\":[{}]}}", self.said);
        self.is_over = body.len() >= self.size;
        Bytes::from(body)
    }

    /// What was answered; the next request has it.
    pub(super) fn answered(&mut self, text: &str) {
        self.say("assistant", text);
    }

    /// Begins anew, since an answer is missing.
    pub(super) fn forget(&mut self) {
        self.said.clear();
    }

    /// How many have begun.
    pub(super) fn conversations(&self) -> u64 {
        self.conversations
    }

    fn say(&mut self, role: &str, text: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.said, ",{}", message(role, text));
    }
}

fn message(role: &str, text: &str) -> String {
    json!({"role": role, "content": text}).to_string()
}

/// At least so many bytes of words with numbers.
fn words(random: &mut SplitMix64, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        let word = WORDS[random.below(WORDS.len() as u64) as usize];
        let _ = write!(text, "{word}{} ", random.below(100));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Numbers of messages of the requests of a stream, each answered by `answer` bytes, and its conversations.
    fn check(size: usize, answer: usize, expected: &[usize], conversations: u64) {
        let mut talk = Talk::new(3, size);
        let mut counts = Vec::new();
        for _ in expected {
            let body: Value = serde_json::from_slice(&talk.ask()).expect("JSON");
            let messages = body["messages"].as_array().expect("messages");
            assert_eq!(messages[0]["role"], "system");
            assert_eq!(body["stream"], true);
            counts.push(messages.len());
            talk.answered(&"a".repeat(answer));
        }
        assert_eq!((counts.as_slice(), talk.conversations()), (expected, conversations));
    }

    #[test]
    fn conversations_grow_to_the_size() {
        check(40_960, 320, &[2, 4, 6, 8, 2, 4], 2);
        check(1_024, 320, &[2, 4, 2], 2);
        // An answer alone may be longer than a body.
        check(1_024, 2_000, &[2, 4, 2], 2);
    }

    #[test]
    fn a_missing_answer_begins_anew() {
        let mut talk = Talk::new(0, 40_960);
        let first = talk.ask();
        talk.forget();
        let second = talk.ask();
        assert_ne!(first, second);
        assert_eq!(talk.conversations(), 2);
    }
}
