//! Growing conversations, one after the other.

use std::fmt::Write;

use clawrl_core::{SplitMix64, derive_seed};
use hyper::body::Bytes;
use serde_json::json;

/// Vocabulary of questions and system prompts.
const WORDS: [&str; 16] = [
    "river", "open", "apple", "total", "folder", "please", "error", "lines", "sorted", "again", "names",
    "warning", "copy", "number", "after", "plum",
];
/// Seed label of the common system prompt.
const PROMPT: &str = "system prompt";

/// The requests of one stream.
#[derive(Debug)]
pub(super) struct Talk {
    stream: u32,
    /// Size to which a body grows, bytes.
    size: usize,
    /// The same in all conversations, as for an agent.
    prompt: String,
    /// Messages so far as comma-separated JSON; empty before a conversation.
    said: String,
    /// Whether the last body has reached the size.
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

    /// Adds an answer to the conversation.
    pub(super) fn answered(&mut self, text: &str) {
        self.say("assistant", text);
    }

    /// Starts a new conversation after a failed request.
    pub(super) fn forget(&mut self) {
        self.said.clear();
    }

    /// Conversations started so far.
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

/// At least `bytes` bytes of numbered words.
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

    /// Checks the number of messages per request, with answers of `answer` bytes, and the number of conversations.
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
    fn conversation_grows_to_size() {
        check(40_960, 320, &[2, 4, 6, 8, 2, 4], 2);
        check(1_024, 320, &[2, 4, 2], 2);
        // An answer may be longer than a body.
        check(1_024, 2_000, &[2, 4, 2], 2);
    }

    #[test]
    fn forget_starts_a_conversation() {
        let mut talk = Talk::new(0, 40_960);
        let first = talk.ask();
        talk.forget();
        let second = talk.ask();
        assert_ne!(first, second);
        assert_eq!(talk.conversations(), 2);
    }
}
