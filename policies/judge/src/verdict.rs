//! What a judge's reply says: it ends with `\boxed{…}`, or says nothing.

use clawrl_core::{Verdict, Vote};

const BOX: &str = r"\boxed{";

/// Characters of the reason that are kept.
const REASON_CHARS: usize = 120;

/// What may stand behind the box: marks of mathematics and of emphasis, and the end of a sentence.
const BEHIND: &[char] = &['$', ')', ']', '\\', '*', '`', '.'];

/// The vote at the end of a reply; `None` where its last box holds none, or is not its end: a judge that goes on has
/// quoted somebody.
pub(crate) fn read(reply: &str) -> Option<Vote> {
    let (before, rest) = reply.rsplit_once(BOX)?;
    let (verdict, behind) = rest.split_once('}')?;
    if !behind.chars().all(|character| character.is_whitespace() || BEHIND.contains(&character)) {
        return None;
    }
    let verdict = match verdict.trim() {
        "1" | "+1" => Verdict::Met,
        "-1" => Verdict::NotMet,
        "0" => Verdict::Undecided,
        _ => return None,
    };
    Some(Vote { verdict, reason: reason(before) })
}

/// The end of what was said before the verdict, where judges sum up.
fn reason(before: &str) -> String {
    let said: Vec<&str> =
        before.trim_end_matches(['$', '(', '[', '\\', ' ', '\n']).split_whitespace().collect();
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
        let check = |reply: &str, expected: Option<(Verdict, &str)>| {
            let vote = read(reply);
            let found = vote.as_ref().map(|vote| (vote.verdict, vote.reason.as_str()));
            assert_eq!(found, expected, "{reply}");
        };
        check(r"It names a cause. \boxed{1}", Some((Verdict::Met, "It names a cause.")));
        check(
            r"\boxed{1} No,
 wait: \boxed{ -1 } .",
            Some((Verdict::NotMet, r"\boxed{1} No, wait:")),
        );
        check(r"Unclear: $\boxed{0}$", Some((Verdict::Undecided, "Unclear:")));
        check(r"\boxed{+1}", Some((Verdict::Met, "")));
        check(r"\boxed{1} or rather \boxed{yes}", None);
        check(r"\boxed{1} or rather \boxed{", None);
        check(r"**\boxed{-1}**.", Some((Verdict::NotMet, "**")));
        check(r"It ends with \boxed{1}; I cannot judge that.", None);
        check(r"\boxed{10}", None);
        check("1", None);
        check("", None);
        let long = format!("{} end. \\boxed{{1}}", "é".repeat(200));
        let kept = format!("…{} end.", "é".repeat(114));
        check(&long, Some((Verdict::Met, &kept)));
    }

    proptest! {
        #[test]
        fn any_reply_is_read(reply in r"([a-z ]|\\boxed\{|\}|-?[012]|é|\n){0,60}") {
            if let Some(vote) = read(&reply) {
                prop_assert!(vote.reason.chars().count() <= REASON_CHARS);
                prop_assert!(reply.contains(BOX));
            }
        }
    }
}
