//! Mail: a list of messages with signs beside them, and one that is open.

use super::snapshot::{PageSnapshot, click, fill};
use crate::page::Node;

/// `Find the email by Deva and click the star icon to mark it as important.`, `... the trash icon to delete it.`,
/// `... and reply to them with the text "In.".`, `... and forward that email to Brooke.`
pub(super) fn email_inbox(sight: &PageSnapshot<'_>) -> Option<String> {
    let sender = sight.between("email by ", " and ")?;
    let icon = if sight.goal.contains("star icon") {
        Some("star")
    } else if sight.goal.contains("trash icon") {
        Some("trash")
    } else {
        None
    };
    let called = |name: &str| sight.nodes().iter().find(|node| node.number.is_some() && node.is_called(name));
    if let Some(icon) = icon {
        let message = position(sight, sender)?;
        return sight.nodes()[message..].iter().find(|node| node.is_called(icon)).and_then(click);
    }
    let (send, field, text, open) = if sight.goal.contains("reply") {
        ("send-reply", "reply-text", *sight.quoted().first()?, "Reply")
    } else {
        let (_, to) = sight.goal.rsplit_once(" to ")?;
        ("send-forward", "forward-sender", to.trim_end_matches('.'), "Forward")
    };
    if let Some(button) = called(send) {
        let is_field =
            |node: &&Node| node.is("textbox") && (node.is_called(field) || node.name.starts_with("to"));
        return fill(sight.nodes().iter().find(is_field)?, text).or_else(|| click(button));
    }
    match sight.click_named(open) {
        Some(line) => Some(line),
        None => sight.nodes().get(position(sight, sender)?).and_then(click),
    }
}

/// Start of a sender's message in the list: names are first words.
fn position(sight: &PageSnapshot<'_>, sender: &str) -> Option<usize> {
    sight.nodes().iter().position(|node| {
        let rest = node.name.strip_prefix(sender);
        node.is("clickable") && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    })
}
