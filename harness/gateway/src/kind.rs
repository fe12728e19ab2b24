//! Main turns, which are what somebody talks about, and side turns, which a client makes for itself.
//!
//! I1. Only main turns are trained. I2. A header decides; without one, the marks do. I3. What neither tells for sure is
//! [`TurnKind::Unknown`]: recorded, shown with its reason, not trained.

use std::collections::BTreeSet;
use std::fmt;

use crate::headers::{TRIGGER_HEADER, TURN_HEADER};
use crate::openclaw;
use crate::{ChatRequest, Headers, Role, Standing};

/// Bytes of a system prompt's first line that may say what it is for. Some prompts are one line.
const FIRST_LINE: usize = 2_000;

/// What a request is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnKind {
    /// A conversation.
    Main,
    /// A client's own business.
    Side(SideMark),
    /// One or the other.
    Unknown(Doubt),
}

/// By what a side turn is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SideMark {
    /// A header says so.
    Header,
    /// A header names what set the client going, and that was no user.
    Trigger(String),
    /// The text of a heartbeat.
    Heartbeat,
    /// The text of a flush of memory, with exactly its tools.
    MemoryFlush,
    /// No tools, and the system prompt of a compaction.
    Compaction,
    /// The text of a job.
    Cron,
    /// The text of a maker of titles, slugs or the like.
    Title,
}

/// Why it is not known what a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// The header has a value that is not known.
    Header(String),
    /// What set the client going is not known.
    Trigger(String),
    /// The header says main, a mark says side.
    Contradiction(SideMark),
    /// The text of a flush of memory, with other tools.
    FlushWithOtherTools,
    /// The last text of a user has no stamp, and others have.
    NoStamp,
    /// No tools, and a system prompt about summaries.
    Summaries,
    /// No tools, in a session that has them.
    ToolsAreGone,
    /// The answer may have no more than one token.
    OneToken,
    /// No user has said anything.
    NobodySpoke,
    /// The last message is the assistant's own.
    NothingNew,
}

impl TurnKind {
    /// Whether it is trained, as far as this goes.
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
            (Some(other), _) => return Self::Unknown(Doubt::Header(other.to_owned())),
            (None, Some("user")) => true,
            (None, Some(trigger @ ("heartbeat" | "memory" | "cron" | "overflow"))) => {
                return Self::Side(SideMark::Trigger(trigger.to_owned()));
            }
            // Among them `manual`: a user wanted it, but not as a part of the conversation.
            (None, Some(other)) => return Self::Unknown(Doubt::Trigger(other.to_owned())),
            (None, None) => false,
        };
        match (is_main, mark) {
            (true, Some(mark)) => Self::Unknown(Doubt::Contradiction(mark)),
            (true, None) => Self::Main,
            (false, Some(mark)) => Self::Side(mark),
            (false, None) => doubt(body, has_tools).map_or(Self::Main, Self::Unknown),
        }
    }
}

/// The mark of a side turn. The last text of a user decides: what else a conversation has in it may be older.
fn side_mark(body: &ChatRequest) -> Option<SideMark> {
    let prompt = body.prompt().next().map_or("", |prompt| prompt.text().trim_start());
    if body.tools().is_empty() && prompt.starts_with(openclaw::SUMMARISER) {
        return Some(SideMark::Compaction);
    }
    let last = body.spoken().next_back()?;
    let text = last.text();
    if text.starts_with(openclaw::MEMORY_FLUSH) && has_flush_tools(body.tools()) {
        return Some(SideMark::MemoryFlush);
    }
    // What somebody sent has a stamp, whatever it says.
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

/// Titles, tags and follow-up questions of Open WebUI: its templates begin so, and quote the chat.
fn is_open_webui_task(text: &str) -> bool {
    text.starts_with("### Task:") && text.contains("<chat_history>")
}

fn has_flush_tools(tools: &BTreeSet<String>) -> bool {
    tools.iter().map(String::as_str).eq(openclaw::MEMORY_FLUSH_TOOLS)
}

fn doubt(body: &ChatRequest, has_tools: bool) -> Option<Doubt> {
    let Some(last) = body.spoken().next_back() else { return Some(Doubt::NobodySpoke) };
    let newest = body.messages().iter().rev().find(|message| message.standing() == Standing::Counted);
    let is_about_summaries = || {
        let prompt = body.prompt().next().map_or("", |prompt| prompt.text());
        let prompt = &prompt[..prompt.floor_char_boundary(FIRST_LINE)];
        let prompt = prompt.lines().next().unwrap_or_default().to_lowercase();
        prompt.contains("summariz") || prompt.contains("summaris")
    };
    if newest.is_some_and(|newest| newest.role() == Role::Assistant) {
        Some(Doubt::NothingNew)
    } else if last.text().starts_with(openclaw::MEMORY_FLUSH) && !last.is_stamped {
        Some(Doubt::FlushWithOtherTools)
    } else if !last.is_stamped && body.spoken().any(|message| message.is_stamped) {
        Some(Doubt::NoStamp)
    } else if body.answer_limit().is_some_and(|limit| limit <= 1) {
        Some(Doubt::OneToken)
    } else if body.tools().is_empty() && is_about_summaries() {
        Some(Doubt::Summaries)
    } else {
        (body.tools().is_empty() && has_tools).then_some(Doubt::ToolsAreGone)
    }
}

impl fmt::Display for SideMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => write!(f, "{TURN_HEADER} says so"),
            Self::Trigger(trigger) => write!(f, "set going by `{trigger}`"),
            Self::Heartbeat => f.write_str("a heartbeat"),
            Self::MemoryFlush => f.write_str("a flush of memory"),
            Self::Compaction => f.write_str("a compaction"),
            Self::Cron => f.write_str("a scheduled job"),
            Self::Title => f.write_str("a title for the conversation"),
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(value) => write!(f, "{TURN_HEADER} is `{value}`, which is neither main nor side"),
            Self::Trigger(trigger) => write!(f, "set going by `{trigger}`, which may be either"),
            Self::Contradiction(mark) => write!(f, "a header says main, but it looks like {mark}"),
            Self::FlushWithOtherTools => f.write_str("the text of a flush of memory, with other tools"),
            Self::NoStamp => {
                f.write_str("no stamp on the last text of a user, in a conversation with stamps")
            }
            Self::Summaries => f.write_str("no tools, and a system prompt about summaries"),
            Self::ToolsAreGone => f.write_str("no tools, in a session that has them"),
            Self::OneToken => f.write_str("the answer may have no more than one token"),
            Self::NobodySpoke => f.write_str("no user has said anything"),
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
        check(flush, &["read", "write", "exec"], TurnKind::Unknown(Doubt::FlushWithOtherTools));
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
        check(&[(TRIGGER_HEADER, "manual")], "hi", TurnKind::Unknown(Doubt::Trigger("manual".to_owned())));
        check(&[(TURN_HEADER, "both")], "hi", TurnKind::Unknown(Doubt::Header("both".to_owned())));
        let cron = TurnKind::Unknown(Doubt::Contradiction(SideMark::Cron));
        check(&[(TURN_HEADER, "main")], "[cron:7] look", cron);
    }

    #[test]
    fn i3_what_is_not_sure_has_a_reason() {
        let check = |body: Value, expected: Doubt| {
            assert_eq!(kind_of(&[], &body, true), TurnKind::Unknown(expected), "{body}");
        };
        let system = |text: &str| json!({"role": "system", "content": text});
        let user = json!({"role": "user", "content": "hi"});
        check(json!({"messages": [user]}), Doubt::ToolsAreGone);
        check(json!({"messages": [user], "tools": tools(&["f"]), "max_tokens": 1}), Doubt::OneToken);
        check(json!({"messages": [system("You summarise texts.\nMore."), user]}), Doubt::Summaries);
        let stamped = json!({"role": "user", "content": "[Fri 2026-11-20 09:40 UTC] hi"});
        check(json!({"messages": [stamped, user], "tools": tools(&["f"])}), Doubt::NoStamp);
        check(json!({"messages": [system("hi")]}), Doubt::NobodySpoke);
        check(json!({"messages": [user, {"role": "assistant", "content": "ho"}]}), Doubt::NothingNew);
        let compaction =
            json!({"messages": [system("You are a context summarization assistant. Go."), user]});
        assert_eq!(kind_of(&[], &compaction, true), TurnKind::Side(SideMark::Compaction));
    }
}
