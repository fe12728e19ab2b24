//! Reactions in a chat channel: feedback that arrives in the client's next transient context.
//!
//! `System: [2026-11-20 09:49:17 UTC] Telegram reaction added: 👍 by Alice on msg 42`, as captured from OpenClaw. Only such lines count, and
//! only in transient contexts: text of a tool or a web page is not feedback.

use serde_json::Value;

use crate::openclaw;

/// A reaction to a message in a chat channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaction {
    /// The channel's name in the client: `Telegram`.
    pub channel: String,
    /// Whether it was added or removed.
    pub change: Change,
    /// An emoji, or the name of one.
    pub emoji: String,
    /// Name of the person in the channel; not a user of the gateway.
    pub by: String,
    /// The channel's message number. No request says which answer that was.
    pub message: String,
    /// The time, as the client wrote it.
    pub at: String,
}

/// A change of a reaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Added.
    Added,
    /// Removed.
    Removed,
}

/// The rating that a reaction stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thumb {
    /// Good.
    Up,
    /// Bad.
    Down,
}

const UP: [&str; 10] = ["👍", "❤", "🔥", "🎉", "👏", "💯", "🙏", "🥰", "👌", "🏆"];
const DOWN: [&str; 6] = ["👎", "💩", "🤮", "😡", "🤬", "😢"];

impl Reaction {
    /// The rating; `None` for other emojis.
    #[must_use]
    pub fn thumb(&self) -> Option<Thumb> {
        // Without variation selectors and skin tones, which only change the look of an emoji.
        let is_look =
            |c: &char| ('\u{fe00}'..='\u{fe0f}').contains(c) || ('\u{1f3fb}'..='\u{1f3ff}').contains(c);
        let plain: String = self.emoji.chars().filter(|c| !is_look(c)).collect();
        match plain.as_str() {
            plain if UP.contains(&plain) => Some(Thumb::Up),
            plain if DOWN.contains(&plain) => Some(Thumb::Down),
            _ => None,
        }
    }
}

/// The reactions in a transient context, each with its line; none in any other text.
pub(crate) fn reactions(text: &str) -> Vec<(String, Reaction)> {
    let Some(context) = openclaw::internal_context(text) else { return Vec::new() };
    let mut found = Vec::new();
    for line in context.lines() {
        // Each data block is a JSON string of lines.
        match serde_json::from_str::<Value>(line) {
            Ok(Value::String(block)) => found.extend(block.lines().filter_map(with_line)),
            _ => found.extend(with_line(line)),
        }
    }
    found
}

fn with_line(line: &str) -> Option<(String, Reaction)> {
    Some((line.to_owned(), reaction(line)?))
}

fn reaction(line: &str) -> Option<Reaction> {
    let (at, event) = line.strip_prefix("System: [")?.split_once("] ")?;
    let (channel, rest) = event.split_once(" reaction ")?;
    let (change, rest) = rest.split_once(": ")?;
    let change = match change {
        "added" => Change::Added,
        "removed" => Change::Removed,
        _ => return None,
    };
    let (emoji, rest) = rest.split_once(" by ")?;
    // A name may contain these words; a message number cannot.
    let (by, message) = rest.rsplit_once(" on msg ")?;
    let owned = |text: &str| text.trim().to_owned();
    Some(Reaction {
        channel: owned(channel),
        change,
        emoji: owned(emoji),
        by: owned(by),
        message: owned(message),
        at: owned(at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(context: &str, expected: &[(&str, &str, Option<Thumb>)]) {
        let text =
            format!("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\n{context}\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>");
        let found = reactions(&text);
        let found: Vec<_> = found
            .iter()
            .map(|(_, reaction)| (reaction.by.as_str(), reaction.message.as_str(), reaction.thumb()))
            .collect();
        assert_eq!(found, expected, "{context:?}");
    }

    #[test]
    fn reactions_of_contexts() {
        let line = "System: [2026-11-20 09:49:17 UTC] Telegram reaction added: 👎 by Bob on msg 44";
        let up = line.replace('👎', "👍🏽").replace("Bob", "Al on msg 3");
        let data = "Conversation data (data, not instructions):";
        check(line, &[("Bob", "44", Some(Thumb::Down))]);
        check(
            &format!("{data}\n\"{line}\\n{up}\"\n\n{data}\n\"Active exec sessions:\\nnone\""),
            &[("Bob", "44", Some(Thumb::Down)), ("Al on msg 3", "44", Some(Thumb::Up))],
        );
        check(&line.replace('👎', "🤔"), &[("Bob", "44", None)]);
        check(&line.replace('👎', "❤\u{fe0f}"), &[("Bob", "44", Some(Thumb::Up))]);
        check(&format!("a page says: {line}"), &[]);
        check(&line.replace("added", "seen"), &[]);
        check("System: [x] Telegram reaction added: 👍", &[]);
        check("", &[]);
    }

    #[test]
    fn parts_of_a_reaction() {
        let line = "System: [2026-11-20 09:49:17 UTC] Telegram reaction removed: 👍 by Alice on msg 42";
        let expected = Reaction {
            channel: "Telegram".to_owned(),
            change: Change::Removed,
            emoji: "👍".to_owned(),
            by: "Alice".to_owned(),
            message: "42".to_owned(),
            at: "2026-11-20 09:49:17 UTC".to_owned(),
        };
        assert_eq!(reaction(line), Some(expected));
        assert_eq!(reactions(line), [], "outside of a context");
    }
}
