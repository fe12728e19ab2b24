//! The messages of a conversation.
//!
//! I1. Every user message is followed by its answer: a message without a complete answer is not in the conversation.
//! I2. A failed question changes only what `/retry` sends. Pure; nothing to cancel.

use serde_json::{Value, json};

use super::answer::Answer;

/// A conversation with its session name on the server.
#[derive(Debug, Clone)]
pub(super) struct Conversation {
    session: String,
    system: Option<String>,
    turns: Vec<Turn>,
    /// The last message, if it has no complete answer.
    unanswered: Option<String>,
    /// The answer that feedback is about.
    last: Option<String>,
    /// Whether the server got a request in this session.
    is_known: bool,
}

#[derive(Debug, Clone)]
struct Turn {
    message: String,
    /// Messages of the answer and results of its calls.
    answer: Vec<Value>,
}

/// A message to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    text: String,
    /// Turns before it.
    behind: usize,
}

impl Conversation {
    /// An empty conversation.
    pub(super) fn new(session: String, system: Option<String>) -> Self {
        Self { session, system, turns: Vec::new(), unanswered: None, last: None, is_known: false }
    }

    pub(super) fn session(&self) -> &str {
        &self.session
    }

    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// The server's id of the answer that feedback refers to.
    pub(super) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Starts an empty conversation with another session name.
    pub(super) fn renew(&mut self, session: String) {
        *self = Self::new(session, self.system.take());
    }

    /// A new message.
    pub(super) fn question(&self, text: String) -> Question {
        Question { text, behind: self.turns.len() }
    }

    /// The last message again; `None` if there is none.
    pub(super) fn again(&self) -> Option<Question> {
        match (&self.unanswered, self.turns.split_last()) {
            (Some(text), _) => Some(self.question(text.clone())),
            (None, Some((last, before))) => {
                Some(Question { text: last.message.clone(), behind: before.len() })
            }
            (None, None) => None,
        }
    }

    /// The messages of the next request; call just before sending it.
    pub(super) fn asked(&mut self, question: &Question) -> Vec<Value> {
        self.is_known = true;
        let mut messages = self.messages_before(question.behind);
        messages.push(user(&question.text));
        messages
    }

    /// Records the first part of an answer. Feedback refers to it from now on, complete or not.
    pub(super) fn begun(&mut self, answer: &Answer) {
        if answer.id.is_some() {
            self.last.clone_from(&answer.id);
        }
    }

    /// Records the complete answer of a question.
    pub(super) fn answered(&mut self, question: Question, answer: &Answer) {
        self.turns.truncate(question.behind);
        self.turns.push(Turn { message: question.text, answer: answer.messages() });
        self.unanswered = None;
    }

    /// Records that a question has no complete answer (I2).
    pub(super) fn failed(&mut self, question: Question) {
        if question.behind == self.turns.len() {
            self.unanswered = Some(question.text);
        }
    }

    /// All messages.
    pub(super) fn messages(&self) -> Vec<Value> {
        self.messages_before(self.turns.len())
    }

    fn messages_before(&self, turns: usize) -> Vec<Value> {
        let system = self.system.iter().map(|text| json!({"role": "system", "content": text}));
        let said = self
            .turns
            .iter()
            .take(turns)
            .flat_map(|turn| std::iter::once(user(&turn.message)).chain(turn.answer.iter().cloned()));
        system.chain(said).collect()
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: &str, text: &str) -> Answer {
        Answer { id: Some(id.to_owned()), text: text.to_owned(), ..Answer::default() }
    }

    fn talk(conversation: &mut Conversation, question: Question, id: &str, text: &str) {
        conversation.asked(&question);
        conversation.begun(&answer(id, text));
        conversation.answered(question, &answer(id, text));
    }

    fn check(messages: &[Value], expected: &[&str]) {
        let said: Vec<&str> = messages.iter().map(|message| message["content"].as_str().unwrap()).collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn questions_and_answers() {
        let mut conversation = Conversation::new("s".to_owned(), Some("be brief".to_owned()));
        assert!(conversation.again().is_none() && !conversation.is_known());
        let first = conversation.question("a".to_owned());
        talk(&mut conversation, first, "1", "b");
        let second = conversation.question("c".to_owned());
        check(&conversation.asked(&second), &["be brief", "a", "b", "c"]);
        conversation.answered(second, &answer("2", "d"));
        check(&conversation.messages(), &["be brief", "a", "b", "c", "d"]);
        // The same question again, without its answer.
        let again = conversation.again().unwrap();
        check(&conversation.asked(&again), &["be brief", "a", "b", "c"]);
        talk(&mut conversation, again, "3", "e");
        check(&conversation.messages(), &["be brief", "a", "b", "c", "e"]);
        assert_eq!(conversation.last(), Some("3"));
        conversation.renew("t".to_owned());
        check(&conversation.messages(), &["be brief"]);
        assert_eq!(
            (conversation.session(), conversation.last(), conversation.is_known()),
            ("t", None, false)
        );
    }

    #[test]
    fn i2_what_fails_is_asked_again_and_changes_nothing_else() {
        let mut conversation = Conversation::new("s".to_owned(), None);
        let first = conversation.question("a".to_owned());
        talk(&mut conversation, first, "1", "b");
        let second = conversation.question("c".to_owned());
        conversation.asked(&second);
        conversation.begun(&answer("2", "d"));
        conversation.failed(second);
        check(&conversation.messages(), &["a", "b"]);
        assert_eq!(conversation.last(), Some("2"), "a cut answer can be bad");
        let again = conversation.again().unwrap();
        check(&conversation.asked(&again), &["a", "b", "c"]);
        conversation.failed(again);
        // Another message follows; then a repeated question fails.
        let third = conversation.question("e".to_owned());
        check(&conversation.asked(&third), &["a", "b", "e"]);
        talk(&mut conversation, third, "3", "f");
        let again = conversation.again().unwrap();
        conversation.asked(&again);
        conversation.failed(again.clone());
        check(&conversation.messages(), &["a", "b", "e", "f"]);
        assert_eq!(conversation.again(), Some(again));
    }
}
