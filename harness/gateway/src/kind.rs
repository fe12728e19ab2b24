//! Main turns, which are part of a conversation, and side turns, which a client makes for its own purposes.
//!
//! I1. Only main turns are trained on. I2. A header decides; without one, marks in the text do. I3. Turns that neither identifies are
//! [`TurnKind::Unknown`]: recorded, shown with the reason, and not trained on.

use std::collections::BTreeSet;
use std::fmt;

use clawrl_core::Role;

use crate::headers::{TRIGGER_HEADER, TURN_HEADER};
use crate::openclaw;
use crate::{ChatRequest, Headers, HistoryKind};

/// Bytes of a system prompt's first line that are searched: some prompts are a single line.
const FIRST_LINE: usize = 2_000;

/// The kind of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnKind {
    /// Part of a conversation.
    Main,
    /// A request that the client makes for itself.
    Side(SideMark),
    /// Undecided.
    Unknown(UnknownReason),
}

/// How a side turn was recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SideMark {
    /// By a header.
    Header,
    /// By a header with a trigger other than a user.
    Trigger(String),
    /// By the text of a heartbeat.
    Heartbeat,
    /// By the text of a memory flush, with exactly its tools.
    MemoryFlush,
    /// By the system prompt of a compaction, without tools.
    Compaction,
    /// By the text of a scheduled job.
    Cron,
    /// By the text of a request for a title, a slug or the like.
    Title,
}

/// Why the kind of a turn is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnknownReason {
    /// The turn header has an unknown value.
    Header(String),
    /// The trigger header has an unknown value.
    Trigger(String),
    /// The header says main, and a mark says side.
    Contradiction(SideMark),
    /// The text of a memory flush, with other tools.
    FlushWithOtherTools,
    /// The last user message has no time stamp, and others have.
    NoStamp,
    /// No tools, and a system prompt about summaries.
    Summaries,
    /// No tools, in a session that has tools.
    ToolsAreGone,
    /// The answer is limited to one token.
    OneToken,
    /// There is no user message.
    NoUserMessage,
    /// The last message is the assistant's own.
    NothingNew,
}

impl TurnKind {
    /// Whether the turn is a main turn.
    #[must_use]
    pub fn is_main(&self) -> bool {
        *self == Self::Main
    }

    /// `has_tools`: main turns of the session had tools before.
    pub(crate) fn of(headers: &Headers, body: &ChatRequest, has_tools: bool) -> Self {
        let mark = side_mark(body);
        let lower = |name| headers.get(name).map(str::to_ascii_lowercase);
        let is_main = match (lower(TURN_HEADER).as_deref(), lower(TRIGGER_HEADER).as_deref()) {
            (Some("main"), _) => true,
            (Some("side"), None) => return Self::Side(SideMark::Header),
            (Some("side"), Some(trigger)) => return Self::Side(SideMark::Trigger(trigger.to_owned())),
            (Some(other), _) => return Self::Unknown(UnknownReason::Header(other.to_owned())),
            (None, Some("user")) => true,
            (None, Some(trigger @ ("heartbeat" | "memory" | "cron" | "overflow"))) => {
                return Self::Side(SideMark::Trigger(trigger.to_owned()));
            }
            // `manual` is among them: a user started it, but not as part of the conversation.
            (None, Some(other)) => return Self::Unknown(UnknownReason::Trigger(other.to_owned())),
            (None, None) => false,
        };
        match (is_main, mark) {
            (true, Some(mark)) => Self::Unknown(UnknownReason::Contradiction(mark)),
            (true, None) => Self::Main,
            (false, Some(mark)) => Self::Side(mark),
            (false, None) => doubt(body, has_tools).map_or(Self::Main, Self::Unknown),
        }
    }
}

/// The mark of a side turn. Only the last user message decides: the others may be older.
fn side_mark(body: &ChatRequest) -> Option<SideMark> {
    let prompt = body.prompt().next().map_or("", |prompt| prompt.text().trim_start());
    if body.tools().is_empty() && prompt.starts_with(openclaw::SUMMARISER) {
        return Some(SideMark::Compaction);
    }
    let last = body.user_messages().next_back()?;
    let text = last.text();
    if text.starts_with(openclaw::MEMORY_FLUSH) && has_flush_tools(body.tools()) {
        return Some(SideMark::MemoryFlush);
    }
    // A message from a person has a time stamp, whatever its text.
    if last.is_stamped {
        return None;
    }
    if text.starts_with(openclaw::HEARTBEAT) {
        Some(SideMark::Heartbeat)
    } else if text.starts_with(openclaw::CRON) {
        Some(SideMark::Cron)
    } else if text.starts_with(openclaw::SLUG) || is_open_webui_task(text) {
        Some(SideMark::Title)
    } else {
        None
    }
}

/// Titles, tags and follow-up questions of Open WebUI: its templates begin like this and quote the chat.
fn is_open_webui_task(text: &str) -> bool {
    text.starts_with("### Task:") && text.contains("<chat_history>")
}

fn has_flush_tools(tools: &BTreeSet<String>) -> bool {
    tools.iter().map(String::as_str).eq(openclaw::MEMORY_FLUSH_TOOLS)
}

fn doubt(body: &ChatRequest, has_tools: bool) -> Option<UnknownReason> {
    let Some(last) = body.user_messages().next_back() else { return Some(UnknownReason::NoUserMessage) };
    let newest = body.messages().iter().rev().find(|message| message.kind() == HistoryKind::Counted);
    let is_about_summaries = || {
        let prompt = body.prompt().next().map_or("", |prompt| prompt.text());
        let prompt = &prompt[..prompt.floor_char_boundary(FIRST_LINE)];
        let prompt = prompt.lines().next().unwrap_or_default().to_lowercase();
        prompt.contains("summariz") || prompt.contains("summaris")
    };
    if newest.is_some_and(|newest| newest.role() == Role::Assistant) {
        Some(UnknownReason::NothingNew)
    } else if last.text().starts_with(openclaw::MEMORY_FLUSH) && !last.is_stamped {
        Some(UnknownReason::FlushWithOtherTools)
    } else if !last.is_stamped && body.user_messages().any(|message| message.is_stamped) {
        Some(UnknownReason::NoStamp)
    } else if body.answer_limit().is_some_and(|limit| limit <= 1) {
        Some(UnknownReason::OneToken)
    } else if body.tools().is_empty() && is_about_summaries() {
        Some(UnknownReason::Summaries)
    } else {
        (body.tools().is_empty() && has_tools).then_some(UnknownReason::ToolsAreGone)
    }
}

impl fmt::Display for SideMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => write!(f, "header {TURN_HEADER}"),
            Self::Trigger(trigger) => write!(f, "triggered by `{trigger}`"),
            Self::Heartbeat => f.write_str("a heartbeat"),
            Self::MemoryFlush => f.write_str("a memory flush"),
            Self::Compaction => f.write_str("a compaction"),
            Self::Cron => f.write_str("a scheduled job"),
            Self::Title => f.write_str("a title for the conversation"),
        }
    }
}

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(value) => write!(f, "{TURN_HEADER} is `{value}`, which is neither main nor side"),
            Self::Trigger(trigger) => write!(f, "triggered by `{trigger}`, which may be either"),
            Self::Contradiction(mark) => write!(f, "a header says main, but it looks like {mark}"),
            Self::FlushWithOtherTools => f.write_str("the text of a memory flush, with other tools"),
            Self::NoStamp => {
                f.write_str("no time stamp on the last user message, in a conversation with time stamps")
            }
            Self::Summaries => f.write_str("no tools, and a system prompt about summaries"),
            Self::ToolsAreGone => f.write_str("no tools, in a session that has them"),
            Self::OneToken => f.write_str("the answer is limited to one token"),
            Self::NoUserMessage => f.write_str("there is no user message"),
            Self::NothingNew => f.write_str("the last message is the assistant's own"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tools(names: &[&str]) -> Value {
        names.iter().map(|name| json!({"type": "function", "function": {"name": name}})).collect()
    }

    fn kind_of(headers: &[(&str, &str)], body: &Value, has_tools: bool) -> TurnKind {
        let body = ChatRequest::parse(body).unwrap_or_else(|error| panic!("{error}"));
        TurnKind::of(&headers.iter().copied().collect(), &body, has_tools)
    }

    fn said(text: &str, names: &[&str]) -> Value {
        json!({"messages": [{"role": "user", "content": text}], "tools": tools(names)})
    }

    fn check(text: &str, names: &[&str], expected: TurnKind) {
        assert_eq!(kind_of(&[], &said(text, names), false), expected, "{text}");
    }

    #[test]
    fn i2_marks() {
        let stamp = "[Fri 2026-11-20 09:40 UTC] ";
        let heartbeat = "Follow the heartbeat monitor scratch context when provided.";
        let side = TurnKind::Side;
        check("hi", &[], TurnKind::Main);
        check(heartbeat, &["read"], side(SideMark::Heartbeat));
        check(&format!("{stamp}{heartbeat}"), &["read"], TurnKind::Main);
        check("[cron:7 daily] look", &[], side(SideMark::Cron));
        check(&format!("{stamp}[cron:7 daily] look"), &[], TurnKind::Main);
        let flush = "Pre-compaction memory flush. Store durable memories now.";
        check(flush, &["write", "read"], side(SideMark::MemoryFlush));
        check(&format!("{stamp}{flush}"), &["read", "write"], side(SideMark::MemoryFlush));
        check(flush, &["read", "write", "exec"], TurnKind::Unknown(UnknownReason::FlushWithOtherTools));
        check(&format!("{stamp}{flush}"), &["read", "write", "exec"], TurnKind::Main);
        check(
            "Based on this conversation, generate a short 1-2 word filename slug",
            &[],
            side(SideMark::Title),
        );
        check(
            "### Task:\nGenerate a title.\n<chat_history>\nhi\n</chat_history>",
            &[],
            side(SideMark::Title),
        );
        check("### Task:\nWrite a poem", &[], TurnKind::Main);
    }

    #[test]
    fn i2_headers_decide() {
        let check = |headers: &[(&str, &str)], text: &str, expected: TurnKind| {
            assert_eq!(kind_of(headers, &said(text, &[]), true), expected, "{headers:?}");
        };
        let side = |trigger: &str| TurnKind::Side(SideMark::Trigger(trigger.to_owned()));
        check(&[(TURN_HEADER, "main")], "hi", TurnKind::Main);
        check(&[(TURN_HEADER, "Main"), (TRIGGER_HEADER, "user")], "hi", TurnKind::Main);
        check(&[(TURN_HEADER, "side")], "hi", TurnKind::Side(SideMark::Header));
        check(&[(TURN_HEADER, "side"), (TRIGGER_HEADER, "cron")], "hi", side("cron"));
        check(&[(TRIGGER_HEADER, "user")], "hi", TurnKind::Main);
        check(&[(TRIGGER_HEADER, "memory")], "hi", side("memory"));
        check(
            &[(TRIGGER_HEADER, "manual")],
            "hi",
            TurnKind::Unknown(UnknownReason::Trigger("manual".to_owned())),
        );
        check(&[(TURN_HEADER, "both")], "hi", TurnKind::Unknown(UnknownReason::Header("both".to_owned())));
        let cron = TurnKind::Unknown(UnknownReason::Contradiction(SideMark::Cron));
        check(&[(TURN_HEADER, "main")], "[cron:7] look", cron);
    }

    #[test]
    fn i3_unknown_turns_have_a_reason() {
        let check = |body: Value, expected: UnknownReason| {
            assert_eq!(kind_of(&[], &body, true), TurnKind::Unknown(expected), "{body}");
        };
        let system = |text: &str| json!({"role": "system", "content": text});
        let user = json!({"role": "user", "content": "hi"});
        check(json!({"messages": [user]}), UnknownReason::ToolsAreGone);
        check(json!({"messages": [user], "tools": tools(&["f"]), "max_tokens": 1}), UnknownReason::OneToken);
        check(json!({"messages": [system("You summarise texts.\nMore."), user]}), UnknownReason::Summaries);
        let stamped = json!({"role": "user", "content": "[Fri 2026-11-20 09:40 UTC] hi"});
        check(json!({"messages": [stamped, user], "tools": tools(&["f"])}), UnknownReason::NoStamp);
        check(json!({"messages": [system("hi")]}), UnknownReason::NoUserMessage);
        check(json!({"messages": [user, {"role": "assistant", "content": "ho"}]}), UnknownReason::NothingNew);
        let compaction =
            json!({"messages": [system("You are a context summarization assistant. Go."), user]});
        assert_eq!(kind_of(&[], &compaction, true), TurnKind::Side(SideMark::Compaction));
    }
}
