//! What OpenClaw writes into the texts of its requests: stamps, runtime lines, notes of retries, transient contexts,
//! and the texts by which its side turns are known.
//!
//! As captured from OpenClaw 2026.9.6, but for the texts of the slug maker and of a compaction's request and summary,
//! which are those of its public source. All of it is text that a user could write as well: who does so misleads what is
//! learned from their own conversation, and nothing else.

const CONTEXT_BEGIN: &str = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>";
const CONTEXT_END: &str = "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";
const QUEUED: &str = "[Queued user message from a previous active turn";
const CONTINUE: &str = "Continue the current task from the existing transcript";
/// Without words of a user before it, all of what the client says itself when it goes on behind a failure.
const CONTINUE_NOTE: &str =
    "Continue the current task from the existing transcript, preserving completed work.";
const RETRY_NOTE: &str = "The previous attempt did not produce a user-visible answer.";
const RUNTIME: &str = "Runtime: agent=";
const SESSION_FIELD: &str = "sessionId=";
const SUMMARY: &str = "The conversation history before this point was compacted into the following summary:";

pub(crate) const HEARTBEAT: &str = "Follow the heartbeat monitor scratch context";
/// What stands for a heartbeat's text in later requests.
const HEARTBEAT_POLL: &str = "[OpenClaw heartbeat poll]";
pub(crate) const MEMORY_FLUSH: &str = "Pre-compaction memory flush.";
/// Of the one request that flushes memory; it has exactly these.
pub(crate) const MEMORY_FLUSH_TOOLS: [&str; 2] = ["read", "write"];
pub(crate) const CRON: &str = "[cron:";
pub(crate) const SUMMARISER: &str = "You are a context summarization assistant";
pub(crate) const SLUG: &str = "Based on this conversation, generate a short";

/// What a user's text says, without what the client put around it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spoken<'a> {
    pub(crate) text: std::borrow::Cow<'a, str>,
    /// It has the stamp of a message that somebody sent.
    pub(crate) is_stamped: bool,
}

/// `text` without stamp, note of a retry and runtime line.
pub(crate) fn spoken(text: &str) -> Spoken<'_> {
    let text = without_runtime_line(text).trim();
    let unstamped = after_stamp(text);
    let is_stamped = unstamped.is_some();
    let text = unstamped.unwrap_or(text);
    let queued = text.strip_prefix(QUEUED).and_then(|rest| rest.split_once(']'));
    let Some((_, queued)) = queued else { return Spoken { text: text.into(), is_stamped } };
    let queued = queued.trim_start();
    let queued = after_stamp(queued).unwrap_or(queued);
    let kept = queued.split("\n\n").filter(|paragraph| !paragraph.trim_start().starts_with(CONTINUE));
    Spoken { text: kept.collect::<Vec<_>>().join("\n\n").into(), is_stamped }
}

/// What follows a stamp like `[Fri 2026-11-20 09:40 UTC] `, if `text` begins with one.
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

/// The last line that is a runtime line, as its beginning and its end.
fn runtime_line(text: &str) -> Option<(usize, usize)> {
    let mut begin = text.len();
    // From the end, because the client appends it: a user may have quoted another one.
    for line in text.rsplit('\n') {
        begin = begin.saturating_sub(line.len());
        if line.starts_with(RUNTIME) && line.contains(SESSION_FIELD) {
            return Some((begin, begin + line.len()));
        }
        begin = begin.saturating_sub(1);
    }
    None
}

/// `text` up to its runtime line, where nothing follows that.
fn without_runtime_line(text: &str) -> &str {
    match runtime_line(text) {
        Some((begin, end)) if text[end..].trim().is_empty() => &text[..begin],
        _ => text,
    }
}

/// The session that a runtime line in `text` names.
pub(crate) fn session_of_runtime_line(text: &str) -> Option<&str> {
    let (begin, end) = runtime_line(text)?;
    let session = text[begin..end].split(" | ").find_map(|field| field.strip_prefix(SESSION_FIELD))?.trim();
    Some(session).filter(|session| !session.is_empty())
}

/// Whether all of `text` is one of the contexts that are sent once and never replayed.
pub(crate) fn is_internal_context(text: &str) -> bool {
    internal_context(text).is_some()
}

/// What is between the marks of a transient context.
pub(crate) fn internal_context(text: &str) -> Option<&str> {
    text.trim().strip_prefix(CONTEXT_BEGIN)?.strip_suffix(CONTEXT_END)
}

/// Whether `text`, as spoken, asks for an answer once more.
pub(crate) fn is_retry_note(text: &str) -> bool {
    text.starts_with(RETRY_NOTE) || text.starts_with(CONTINUE_NOTE)
}

/// Whether `text`, as spoken, stands for a heartbeat that is over.
pub(crate) fn is_heartbeat_poll(text: &str) -> bool {
    text == HEARTBEAT_POLL
}

/// `text`, as spoken, as later requests have it: a heartbeat's is not repeated.
pub(crate) fn replayed(text: &str, is_stamped: bool) -> &str {
    if !is_stamped && text.starts_with(HEARTBEAT) { HEARTBEAT_POLL } else { text }
}

/// Whether `text`, as spoken, stands for a history that was compacted.
pub(crate) fn is_summary(text: &str) -> bool {
    text.starts_with(SUMMARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "Runtime: agent=main | session=agent:main:explicit:s1 | sessionId=s1 | host=vm | os=Linux";

    fn check(text: &str, expected: &str, is_stamped: bool) {
        assert_eq!(spoken(text), Spoken { text: expected.into(), is_stamped }, "{text:?}");
    }

    #[test]
    fn what_is_spoken() {
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
    fn what_was_queued_is_what_was_said() {
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
    fn contexts_are_whole() {
        let context = format!("{CONTEXT_BEGIN}\nnone\n{CONTEXT_END}");
        assert!(is_internal_context(&context));
        assert!(is_internal_context(&format!("\n{context} ")));
        assert!(!is_internal_context(&format!("{context} and what do you think of it?")));
        assert!(!is_internal_context(CONTEXT_BEGIN));
        assert!(!is_internal_context("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>>"));
    }
}
