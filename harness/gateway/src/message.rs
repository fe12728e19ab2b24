//! Messages in canonical form: what a client says again in other words is the same message.
//!
//! I1. The digest has nothing in it that real clients change when they replay a message: white space, reasoning, ids of
//! calls, the notation of arguments, stamps, runtime lines, notes of retries, whether text came in parts, and in how many messages
//! a user said something with no answer in between. I2. A call and its result are told by their places, not by their ids. I3. An
//! answer as generated and as replayed have the same form, made here for both.

use std::borrow::Cow;

use serde_json::Value;

use crate::digest::Canonical;
use crate::openclaw;
use crate::{Digest, Reaction};

/// Who speaks. `developer` is another name for `system`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The client's instructions, and events that it reports.
    System,
    /// Whoever talks to the assistant.
    User,
    /// The policy.
    Assistant,
    /// The result of a call.
    Tool,
}

/// What a message counts for in the history of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is part of the history.
    Counted,
    /// Instructions before the first message of anybody else; clients change them within one conversation.
    Prompt,
    /// A transient context, sent once and never replayed.
    Aside,
    /// The client asks for an answer once more.
    RetryNote,
}

/// A message of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub(crate) role: Role,
    pub(crate) standing: Standing,
    /// Of a message that counts.
    pub(crate) digest: Option<Digest>,
    pub(crate) text: String,
    pub(crate) is_stamped: bool,
    /// Ids of an assistant's calls, as this client has them.
    pub(crate) call_ids: Vec<String>,
    /// Of a result: the place of its call among those of the assistant's message before it.
    pub(crate) call: Option<usize>,
    /// The session that a runtime line names.
    pub(crate) runtime_session: Option<String>,
    /// Reactions that transient contexts in it tell of, each with the line that tells it.
    pub(crate) reactions: Vec<(String, Reaction)>,
}

impl Message {
    /// Who speaks.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// What it counts for.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Of the canonical form; of a user's message together with the user's messages right before it. Nothing of a message that counts for
    /// nothing: instructions are most of many requests, and to digest them takes as long as to read them.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Its text without what a client put around it, for a judge or a person to read.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_counted(&self, role: Role) -> bool {
        self.role == role && self.standing == Standing::Counted
    }

    /// Something the client reports, rather than something a person said.
    pub(crate) fn is_system_event(&self) -> bool {
        let is_event = self.text.starts_with("System: [") || openclaw::is_heartbeat_poll(&self.text);
        self.role == Role::System || (self.role == Role::User && is_event)
    }
}

/// A piece of a message's content.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part<'a> {
    Text(&'a str),
    /// A picture, a sound, a file.
    Other(&'a Value),
}

impl<'a> Part<'a> {
    pub(crate) fn text(&self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other(_) => None,
        }
    }
}

/// A call as somebody wrote it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) arguments: Arguments<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Arguments<'a> {
    Written(&'a str),
    Value(&'a Value),
}

/// Something in canonical form: its digest, and its text to be read.
pub(crate) struct Form {
    pub(crate) digest: Digest,
    pub(crate) text: String,
}

impl Form {
    /// As a message that counts has it.
    pub(crate) fn counted(self) -> (Option<Digest>, String) {
        (Some(self.digest), self.text)
    }
}

/// An assistant's message, generated or replayed.
pub(crate) fn assistant<'a>(parts: &[Part<'_>], calls: impl Iterator<Item = Call<'a>>) -> Form {
    let mut form = Canonical::new("assistant");
    let text = content(&mut form, parts, |form, text| {
        let text = without_reasoning(text);
        form.text(&text);
        text.into_owned()
    });
    for call in calls {
        form.field(b'c', call.name.as_bytes());
        match call.arguments {
            Arguments::Written(written) => form.arguments(written),
            Arguments::Value(value) => form.json(value),
        }
    }
    Form { digest: form.finish(), text }
}

/// A message of a user. `run`: what users said right before it, since clients may send both as one message later. Comes with all that was
/// said then.
pub(crate) fn user(parts: &[Part<'_>], run: Option<&Canonical>) -> (Form, Canonical) {
    let mut form = run.cloned().unwrap_or_else(|| Canonical::new("user"));
    let text = content(&mut form, parts, |form, text| {
        let spoken = openclaw::spoken(text);
        form.text(openclaw::replayed(&spoken.text, spoken.is_stamped));
        spoken.text.into_owned()
    });
    (Form { digest: form.clone().finish(), text }, form)
}

/// The text of instructions that count for nothing.
pub(crate) fn prompt(parts: &[Part<'_>]) -> String {
    join(parts.iter().filter_map(Part::text).map(str::to_owned).collect())
}

/// Instructions that count, or an event.
pub(crate) fn system(parts: &[Part<'_>]) -> Form {
    as_it_is(Canonical::new("system"), parts)
}

/// The result of a call; `call` is its place.
pub(crate) fn result(parts: &[Part<'_>], call: Option<usize>) -> Form {
    let mut form = Canonical::new("tool");
    if let Some(call) = call {
        form.field(b'#', &(call as u64).to_le_bytes());
    }
    as_it_is(form, parts)
}

fn as_it_is(mut form: Canonical, parts: &[Part<'_>]) -> Form {
    let text = content(&mut form, parts, |form, text| {
        form.text(text);
        text.to_owned()
    });
    Form { digest: form.finish(), text }
}

/// `add` puts a text into the form, and gives it as it is to be read.
fn content(form: &mut Canonical, parts: &[Part<'_>], add: impl Fn(&mut Canonical, &str) -> String) -> String {
    let mut texts = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => texts.push(add(form, text)),
            Part::Other(value) => {
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

/// `text` without blocks of reasoning. One that was begun by the prompt has no opening tag, one that was cut no closing.
pub(crate) fn without_reasoning(text: &str) -> Cow<'_, str> {
    const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];
    // What all of them have in common, and most texts have not.
    if !text.contains("think") {
        return text.into();
    }
    TAGS.iter().fold(text.to_owned(), |text, tags| without_blocks(&text, *tags)).into()
}

/// In one pass: a text may have any number of blocks.
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
    fn reasoning_is_left_out() {
        check("plain", "plain");
        check("<think>a</think>b", "b");
        check("a</think>b<think>c</think>d", "bd");
        check("b<think>cut", "b");
        check("<thinking>a</thinking>\nb<think>c</think>", "\nb");
        check("a < b, </thin>", "a < b, </thin>");
        check("é<think>é</think>é", "éé");
    }

    #[test]
    fn i1_parts_are_as_good_as_one_text() {
        let user = |parts: &[Part<'_>]| user(parts, None).0.digest;
        let one = user(&[Part::Text("[Fri 2026-11-20 09:40 UTC] what is this?")]);
        assert_eq!(one, user(&[Part::Text("what  is"), Part::Text("this?\n")]));
        let picture = serde_json::json!({"type": "image_url", "image_url": {"url": "data:,1"}});
        assert_ne!(one, user(&[Part::Text("what is this?"), Part::Other(&picture)]));
        assert_ne!(one, system(&[Part::Text("what is this?")]).digest);
    }

    #[test]
    fn i2_results_are_told_by_the_places_of_calls() {
        let result = |call| result(&[Part::Text("hi")], call).digest;
        assert_ne!(result(Some(0)), result(Some(1)));
        assert_ne!(result(Some(0)), result(None));
    }
}
