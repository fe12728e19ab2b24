//! Parses a judge's reply: a valid one ends with `\boxed{…}`.

use clawrl_core::{Vote, VoteValue};

use crate::prompt::plain;

const BOX: &str = r"\boxed{";

/// Characters of the reason that are kept.
const REASON_CHARS: usize = 120;

/// Prefix of a hint.
pub(crate) const HINT: &str = "HINT:";

/// Longest hint: three long sentences. A judge that says more has written the solution, or an essay.
const HINT_CHARS: usize = 600;

/// Characters allowed after the box: marks of mathematics and emphasis, and the end of a sentence.
const BEHIND: &[char] = &['$', ')', ']', '\\', '*', '`', '.'];

/// Marks of mathematics allowed before it.
const BEFORE: [char; 6] = ['$', '(', '[', '\\', ' ', '\n'];

/// The vote at the end of a reply; `None` if the last box is invalid, or is not the end: a reply that continues has
/// quoted a vote.
pub(crate) fn read(reply: &str) -> Option<Vote> {
    let (before, rest) = reply.rsplit_once(BOX)?;
    let (verdict, behind) = rest.split_once('}')?;
    if !behind.chars().all(|character| character.is_whitespace() || BEHIND.contains(&character)) {
        return None;
    }
    let verdict = match verdict.trim() {
        "1" | "+1" => VoteValue::Met,
        "-1" => VoteValue::NotMet,
        "0" => VoteValue::Undecided,
        _ => return None,
    };
    Some(Vote { verdict, reason: reason(before), hint: None })
}

/// The same for a request for a hint: `\boxed{1}` follows the hint. An undecided vote means no hint.
pub(crate) fn read_hint(reply: &str) -> Option<Vote> {
    let vote = read(reply)?;
    if vote.verdict != VoteValue::Met {
        return Some(Vote { verdict: VoteValue::NotMet, ..vote });
    }
    let (before, _) = reply.rsplit_once(BOX)?;
    let (before, hint) = before.rsplit_once(HINT)?;
    let words: Vec<&str> = hint.trim_end_matches(BEFORE).split_whitespace().collect();
    // The hint becomes part of a teacher's prompt, so it must not contain marks of chat templates.
    let hint = plain(words.join(" ").trim_matches(['*', ' ']));
    let fits = (1..=HINT_CHARS).contains(&hint.chars().count());
    fits.then(|| Vote { verdict: VoteValue::Met, reason: reason(before), hint: Some(hint) })
}

/// The end of the text before the vote, which usually is the summary.
fn reason(before: &str) -> String {
    let said: Vec<&str> = before.trim_end_matches(BEFORE).split_whitespace().collect();
    let said = said.join(" ");
    let surplus = said.chars().count().saturating_sub(REASON_CHARS);
    if surplus == 0 {
        return said;
    }
    let end: String = said.chars().skip(surplus + 1).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_box_counts() {
        let check = |reply: &str, expected: Option<(VoteValue, &str)>| {
            let vote = read(reply);
            let found = vote.as_ref().map(|vote| (vote.verdict, vote.reason.as_str()));
            assert_eq!(found, expected, "{reply}");
        };
        check(r"It names a cause. \boxed{1}", Some((VoteValue::Met, "It names a cause.")));
        check(
            r"\boxed{1} No,
 wait: \boxed{ -1 } .",
            Some((VoteValue::NotMet, r"\boxed{1} No, wait:")),
        );
        check(r"Unclear: $\boxed{0}$", Some((VoteValue::Undecided, "Unclear:")));
        check(r"\boxed{+1}", Some((VoteValue::Met, "")));
        check(r"\boxed{1} or rather \boxed{yes}", None);
        check(r"\boxed{1} or rather \boxed{", None);
        check(r"**\boxed{-1}**.", Some((VoteValue::NotMet, "**")));
        check(r"It ends with \boxed{1}; I cannot judge that.", None);
        check(r"\boxed{10}", None);
        check("1", None);
        check("", None);
        let long = format!("{} end. \\boxed{{1}}", "é".repeat(200));
        let kept = format!("…{} end.", "é".repeat(114));
        check(&long, Some((VoteValue::Met, &kept)));
    }

    #[test]
    fn a_hint_stands_before_its_box() {
        let check = |reply: &str, expected: Option<(VoteValue, Option<&str>)>| {
            let vote = read_hint(reply);
            let found = vote.as_ref().map(|vote| (vote.verdict, vote.hint.as_deref()));
            assert_eq!(found, expected, "{reply}");
        };
        let hint = |text| Some((VoteValue::Met, Some(text)));
        check("It looked in a.\nHINT: Look in b.\n Then in c.\n\\boxed{1}", hint("Look in b. Then in c."));
        check("HINT: not this. No, HINT: that. $\\boxed{1}$", hint("that."));
        check("**HINT:** **Look in b.** \\boxed{1}", hint("Look in b."));
        check("HINT: say <|im_end|> \\boxed{1}", hint("say < |im_end| >"));
        check("Nothing to tell. \\boxed{-1}", Some((VoteValue::NotMet, None)));
        check("HINT: maybe. \\boxed{0}", Some((VoteValue::NotMet, None)));
        check("Look in b. \\boxed{1}", None);
        check("HINT: \\boxed{1}", None);
        check("HINT: look in b.", None);
        check(&format!("HINT: {} \\boxed{{1}}", "é".repeat(600)), hint(&"é".repeat(600)));
        check(&format!("HINT: {} \\boxed{{1}}", "é".repeat(601)), None);
    }

    proptest! {
        #[test]
        fn any_hint_is_read(reply in r"([a-z ]|HINT:|\\boxed\{|\}|-?[01]|<\||é|\n){0,60}") {
            if let Some(Vote { hint: Some(hint), verdict, .. }) = read_hint(&reply) {
                prop_assert!(verdict == VoteValue::Met && !hint.trim().is_empty());
                prop_assert!(!hint.contains("<|") && !hint.contains('\n'));
            }
        }

        #[test]
        fn any_reply_is_read(reply in r"([a-z ]|\\boxed\{|\}|-?[012]|é|\n){0,60}") {
            if let Some(vote) = read(&reply) {
                prop_assert!(vote.reason.chars().count() <= REASON_CHARS);
                prop_assert!(reply.contains(BOX));
            }
        }
    }
}
