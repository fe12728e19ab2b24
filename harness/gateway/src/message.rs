//! Messages in canonical form: equal forms are one message, even if a client replays it with changes.
//!
//! I1. The digest leaves out what real clients change when they replay a message: white space, reasoning, call ids, the notation of
//! arguments, time stamps, runtime lines, retry notes, whether text came in parts, and in how many messages a user said something
//! without an answer in between. I2. A call and its result are matched by position, not by id. I3. An answer has the same form
//! when it is generated and when it is replayed; both are made here.

use std::borrow::Cow;

use clawrl_core::Role;
use clawrl_core::openai::{CallArguments, ContentPart};

use crate::digest::Canonical;
use crate::openclaw;
use crate::{Digest, Reaction};

/// How a message counts in the history of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryKind {
    /// ContentPart of the history.
    Counted,
    /// Instructions before the first other message; clients change them within one conversation.
    Prompt,
    /// A transient context, sent once and never replayed.
    Context,
    /// The client asks for an answer again.
    RetryNote,
}

/// A message of a request, as linking sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryMessage {
    pub(crate) role: Role,
    pub(crate) kind: HistoryKind,
    /// Only of a counted message.
    pub(crate) digest: Option<Digest>,
    pub(crate) text: String,
    pub(crate) is_stamped: bool,
    /// Ids of an assistant's calls, as the client sent them.
    pub(crate) call_ids: Vec<String>,
    /// Of a tool result: the position of its call in the preceding assistant message.
    pub(crate) call: Option<usize>,
    /// The session that a runtime line names.
    pub(crate) runtime_session: Option<String>,
    /// Reactions reported in transient contexts, each with its line.
    pub(crate) reactions: Vec<(String, Reaction)>,
}

impl HistoryMessage {
    /// The speaker.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// How it counts.
    #[must_use]
    pub fn kind(&self) -> HistoryKind {
        self.kind
    }

    /// Digest of the canonical form; of a user message together with the user messages right before it. `None` for messages that do
    /// not count: instructions are most of many requests, and digesting them takes as long as parsing them.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The text without the client's additions, for a judge or a person to read.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_counted(&self, role: Role) -> bool {
        self.role == role && self.kind == HistoryKind::Counted
    }

    /// Whether the client reports an event, rather than a person's words.
    pub(crate) fn is_system_event(&self) -> bool {
        let is_event = self.text.starts_with("System: [") || openclaw::is_heartbeat_poll(&self.text);
        self.role == Role::System || (self.role == Role::User && is_event)
    }
}

/// A canonical form: its digest, and its text for readers.
pub(crate) struct Form {
    pub(crate) digest: Digest,
    pub(crate) text: String,
}

impl Form {
    /// The fields of a counted message.
    pub(crate) fn counted(self) -> (Option<Digest>, String) {
        (Some(self.digest), self.text)
    }
}

/// An assistant's message, generated or replayed. `calls`: names and arguments.
pub(crate) fn assistant<'a>(
    parts: &[ContentPart<'_>],
    calls: impl Iterator<Item = (&'a str, CallArguments<'a>)>,
) -> Form {
    let mut form = Canonical::new("assistant");
    let text = content(&mut form, parts, |form, text| {
        let text = without_reasoning(text);
        form.text(&text);
        text.into_owned()
    });
    for (name, arguments) in calls {
        form.field(b'c', name.as_bytes());
        match arguments {
            CallArguments::Text(text) => form.arguments(text),
            CallArguments::Object(value) => form.json(value),
        }
    }
    Form { digest: form.finish(), text }
}

/// A user message. `run`: the user messages right before it, since clients may send both as one message later. Returns the run that
/// includes it.
pub(crate) fn user(parts: &[ContentPart<'_>], run: Option<&Canonical>) -> (Form, Canonical) {
    let mut form = run.cloned().unwrap_or_else(|| Canonical::new("user"));
    let text = content(&mut form, parts, |form, text| {
        let spoken = openclaw::user_text(text);
        form.text(openclaw::replayed(&spoken.text, spoken.is_stamped));
        spoken.text.into_owned()
    });
    (Form { digest: form.clone().finish(), text }, form)
}

/// The text of instructions that do not count.
pub(crate) fn prompt(parts: &[ContentPart<'_>]) -> String {
    join(parts.iter().filter_map(ContentPart::text).map(str::to_owned).collect())
}

/// Instructions that count, or a reported event.
pub(crate) fn system(parts: &[ContentPart<'_>]) -> Form {
    unchanged(Canonical::new("system"), parts)
}

/// A tool result; `call` is the position of its call.
pub(crate) fn result(parts: &[ContentPart<'_>], call: Option<usize>) -> Form {
    let mut form = Canonical::new("tool");
    if let Some(call) = call {
        form.field(b'#', &(call as u64).to_le_bytes());
    }
    unchanged(form, parts)
}

fn unchanged(mut form: Canonical, parts: &[ContentPart<'_>]) -> Form {
    let text = content(&mut form, parts, |form, text| {
        form.text(text);
        text.to_owned()
    });
    Form { digest: form.finish(), text }
}

/// `add` adds a text to the form, and returns it as readers see it.
fn content(
    form: &mut Canonical,
    parts: &[ContentPart<'_>],
    add: impl Fn(&mut Canonical, &str) -> String,
) -> String {
    let mut texts = Vec::new();
    for part in parts {
        match part {
            ContentPart::Text(text) => texts.push(add(form, text)),
            ContentPart::Other(value) => {
                form.field(b'p', &[]);
                form.json(value);
            }
        }
    }
    join(texts)
}

/// Most messages are one text.
fn join(mut texts: Vec<String>) -> String {
    if texts.len() == 1 { texts.swap_remove(0) } else { texts.join("\n") }
}

/// `text` without reasoning blocks. A block that the prompt opened has no opening tag, and a truncated one no closing tag.
pub(crate) fn without_reasoning(text: &str) -> Cow<'_, str> {
    const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];
    // All tags contain this word, and most texts do not.
    if !text.contains("think") {
        return text.into();
    }
    TAGS.iter().fold(text.to_owned(), |text, tags| without_blocks(&text, *tags)).into()
}

/// One pass, for any number of blocks.
fn without_blocks(text: &str, (open, close): (&str, &str)) -> String {
    let mut rest = text;
    if let Some((begun, behind)) = text.split_once(close)
        && !begun.contains(open)
    {
        rest = behind;
    }
    let mut kept = String::with_capacity(rest.len());
    while let Some((before, block)) = rest.split_once(open) {
        kept.push_str(before);
        rest = block.split_once(close).map_or("", |(_, behind)| behind);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(without_reasoning(text), expected, "{text:?}");
    }

    #[test]
    fn without_reasoning_removes_blocks() {
        check("plain", "plain");
        check("<think>a</think>b", "b");
        check("a</think>b<think>c</think>d", "bd");
        check("b<think>cut", "b");
        check("<thinking>a</thinking>\nb<think>c</think>", "\nb");
        check("a < b, </thin>", "a < b, </thin>");
        check("é<think>é</think>é", "éé");
    }

    #[test]
    fn i1_parts_digest_as_one_text() {
        let user = |parts: &[ContentPart<'_>]| user(parts, None).0.digest;
        let one = user(&[ContentPart::Text("[Fri 2026-11-20 09:40 UTC] what is this?")]);
        assert_eq!(one, user(&[ContentPart::Text("what  is"), ContentPart::Text("this?\n")]));
        let picture = serde_json::json!({"type": "image_url", "image_url": {"url": "data:,1"}});
        assert_ne!(one, user(&[ContentPart::Text("what is this?"), ContentPart::Other(&picture)]));
        assert_ne!(one, system(&[ContentPart::Text("what is this?")]).digest);
    }

    #[test]
    fn i2_results_match_calls_by_position() {
        let result = |call| result(&[ContentPart::Text("hi")], call).digest;
        assert_ne!(result(Some(0)), result(Some(1)));
        assert_ne!(result(Some(0)), result(None));
    }
}
