//! Texts that OpenClaw adds to requests: time stamps, runtime lines, retry notes, transient contexts, and the texts of its side turns.
//!
//! As captured from OpenClaw 2026.9.6; the texts of the slug request and of compaction are from its public source. A user could write any
//! of these texts, too, and would then mislead the training on their own conversation only.

const CONTEXT_BEGIN: &str = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>";
const CONTEXT_END: &str = "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";
const QUEUED: &str = "[Queued user message from a previous active turn";
const CONTINUE: &str = "Continue the current task from the existing transcript";
/// The client's whole message when it continues after a failure without new words of a user.
const CONTINUE_NOTE: &str =
    "Continue the current task from the existing transcript, preserving completed work.";
const RETRY_NOTE: &str = "The previous attempt did not produce a user-visible answer.";
const RUNTIME: &str = "Runtime: agent=";
const SESSION_FIELD: &str = "sessionId=";
const SUMMARY: &str = "The conversation history before this point was compacted into the following summary:";

pub(crate) const HEARTBEAT: &str = "Follow the heartbeat monitor scratch context";
/// Replaces the text of a heartbeat in later requests.
const HEARTBEAT_POLL: &str = "[OpenClaw heartbeat poll]";
pub(crate) const MEMORY_FLUSH: &str = "Pre-compaction memory flush.";
/// The tools of a memory flush, exactly these.
pub(crate) const MEMORY_FLUSH_TOOLS: [&str; 2] = ["read", "write"];
pub(crate) const CRON: &str = "[cron:";
pub(crate) const SUMMARISER: &str = "You are a context summarization assistant";
pub(crate) const SLUG: &str = "Based on this conversation, generate a short";

/// A user's text, without the client's additions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UserText<'a> {
    pub(crate) text: std::borrow::Cow<'a, str>,
    /// The text had the time stamp of a sent message.
    pub(crate) is_stamped: bool,
}

/// `text` without time stamp, retry note and runtime line.
pub(crate) fn user_text(text: &str) -> UserText<'_> {
    let text = without_runtime_line(text).trim();
    let unstamped = after_stamp(text);
    let is_stamped = unstamped.is_some();
    let text = unstamped.unwrap_or(text);
    let queued = text.strip_prefix(QUEUED).and_then(|rest| rest.split_once(']'));
    let Some((_, queued)) = queued else { return UserText { text: text.into(), is_stamped } };
    let queued = queued.trim_start();
    let queued = after_stamp(queued).unwrap_or(queued);
    let kept = queued.split("\n\n").filter(|paragraph| !paragraph.trim_start().starts_with(CONTINUE));
    UserText { text: kept.collect::<Vec<_>>().join("\n\n").into(), is_stamped }
}

/// The text after a time stamp like `[Fri 2026-11-20 09:40 UTC] `, if `text` begins with one.
fn after_stamp(text: &str) -> Option<&str> {
    let (stamp, rest) = text.strip_prefix('[')?.split_once(']')?;
    let mut parts = stamp.split(' ');
    let (day, date, time, zone) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_like = |text: &str, pattern: &str| {
        let fits =
            |(found, wanted): (u8, u8)| if wanted == b'0' { found.is_ascii_digit() } else { found == wanted };
        text.len() == pattern.len() && text.bytes().zip(pattern.bytes()).all(fits)
    };
    let is_stamp = day.len() == 3
        && day.bytes().all(|letter| letter.is_ascii_alphabetic())
        && is_like(date, "0000-00-00")
        && is_like(time, "00:00")
        && !zone.is_empty();
    (is_stamp && parts.next().is_none()).then(|| rest.trim_start())
}

/// Start and end of the last runtime line.
fn runtime_line(text: &str) -> Option<(usize, usize)> {
    let mut begin = text.len();
    // From the end, where the client appends it: a user may have quoted another one.
    for line in text.rsplit('\n') {
        begin = begin.saturating_sub(line.len());
        if line.starts_with(RUNTIME) && line.contains(SESSION_FIELD) {
            return Some((begin, begin + line.len()));
        }
        begin = begin.saturating_sub(1);
    }
    None
}

/// `text` up to its runtime line, if that is the end.
fn without_runtime_line(text: &str) -> &str {
    match runtime_line(text) {
        Some((begin, end)) if text[end..].trim().is_empty() => &text[..begin],
        _ => text,
    }
}

/// The session in a runtime line of `text`.
pub(crate) fn session_of_runtime_line(text: &str) -> Option<&str> {
    let (begin, end) = runtime_line(text)?;
    let session = text[begin..end].split(" | ").find_map(|field| field.strip_prefix(SESSION_FIELD))?.trim();
    Some(session).filter(|session| !session.is_empty())
}

/// Whether `text` is a transient context, which is sent once and never replayed.
pub(crate) fn is_internal_context(text: &str) -> bool {
    internal_context(text).is_some()
}

/// The content of a transient context.
pub(crate) fn internal_context(text: &str) -> Option<&str> {
    text.trim().strip_prefix(CONTEXT_BEGIN)?.strip_suffix(CONTEXT_END)
}

/// Whether a user text asks for an answer again.
pub(crate) fn is_retry_note(text: &str) -> bool {
    text.starts_with(RETRY_NOTE) || text.starts_with(CONTINUE_NOTE)
}

/// Whether a user text replaces a past heartbeat.
pub(crate) fn is_heartbeat_poll(text: &str) -> bool {
    text == HEARTBEAT_POLL
}

/// A user text as later requests have it: a heartbeat's text is replaced.
pub(crate) fn replayed(text: &str, is_stamped: bool) -> &str {
    if !is_stamped && text.starts_with(HEARTBEAT) { HEARTBEAT_POLL } else { text }
}

/// Whether a user text is the summary of a compacted history.
pub(crate) fn is_summary(text: &str) -> bool {
    text.starts_with(SUMMARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "Runtime: agent=main | session=agent:main:explicit:s1 | sessionId=s1 | host=vm | os=Linux";

    fn check(text: &str, expected: &str, is_stamped: bool) {
        assert_eq!(user_text(text), UserText { text: expected.into(), is_stamped }, "{text:?}");
    }

    #[test]
    fn user_text_removes_additions() {
        check("[Fri 2026-11-20 09:40 UTC] Hello there", "Hello there", true);
        check("[Fri 2026-11-20 09:40 GMT+2] Hello\n\nthere ", "Hello\n\nthere", true);
        check(&format!("[Fri 2026-11-20 09:40 UTC] Hello\n\n{LINE}"), "Hello", true);
        check("Hello", "Hello", false);
        check("[2026-11-20] Hello", "[2026-11-20] Hello", false);
        check("[Fri 2026-11-20 9:40 UTC] Hello", "[Fri 2026-11-20 9:40 UTC] Hello", false);
        check("[Fri 2026-11-20 09:40 UTC", "[Fri 2026-11-20 09:40 UTC", false);
        check(&format!("Why {LINE}?"), &format!("Why {LINE}?"), false);
        check(&format!("{LINE}\nWhat is this?"), &format!("{LINE}\nWhat is this?"), false);
        check("", "", false);
    }

    #[test]
    fn queued_message_is_user_text() {
        let note = "[Queued user message from a previous active turn; preserved as context only. Continue with the \
                    active prompt below.]\nhello 503\n\nand more\n\nContinue the current task from the existing \
                    transcript, preserving completed work. Do not restart the task.";
        check(&format!("[Fri 2026-11-20 09:44 UTC] {note}\n\n{LINE}"), "hello 503\n\nand more", true);
        check(note, "hello 503\n\nand more", false);
        check(
            "[Queued user message from a previous active turn",
            "[Queued user message from a previous active turn",
            false,
        );
        let asked = "Continue the current task from the existing transcript";
        check(asked, asked, false);
    }

    #[test]
    fn sessions_of_runtime_lines() {
        let session = session_of_runtime_line;
        assert_eq!(session(&format!("Hello\n\n{LINE}")), Some("s1"));
        assert_eq!(session(&format!("{}\n{LINE}", LINE.replace("s1", "s2"))), Some("s1"));
        assert_eq!(session("Runtime: agent=main | host=vm"), None);
        assert_eq!(session("Runtime: agent=main | sessionId= | host=vm"), None);
        assert_eq!(session("sessionId=s1"), None);
        assert_eq!(session(""), None);
    }

    #[test]
    fn contexts_need_both_marks() {
        let context = format!("{CONTEXT_BEGIN}\nnone\n{CONTEXT_END}");
        assert!(is_internal_context(&context));
        assert!(is_internal_context(&format!("\n{context} ")));
        assert!(!is_internal_context(&format!("{context} and what do you think of it?")));
        assert!(!is_internal_context(CONTEXT_BEGIN));
        assert!(!is_internal_context("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>>"));
    }
}
